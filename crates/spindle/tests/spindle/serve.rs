//! `spindle serve` from the outside: the field's clients, the Linux kernel's among them, and wrong calls.
//!
//! What could break: a client that negotiates in another way than ours in `export`, TLS that only our own
//! client takes, a socket path left behind, a signal that loses writes, a setting that is ignored.
//!
//! The clients are Debian's: libnbd-bin (nbdinfo, nbdcopy), qemu-utils (qemu-img, qemu-io), fio, openssl; the
//! kernel's is in the oracle machine. Where one is missing its test says so and is skipped; `.ci/run`
//! installs them.

use crate::holding::{can_mount, soon};
use crate::serving;

use fixtures::extent::is_thorough;
use serving::Serving;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Whether all of these programs are there; says which is not.
fn there(tools: &[&str]) -> bool {
    tools.iter().all(|tool| {
        let found = Command::new(tool).arg("--version").output().is_ok();
        if !found {
            eprintln!("skipped: {tool} is not installed");
        }
        found
    })
}

fn temporary() -> tempfile::TempDir {
    fixtures::scratch::folder()
}

fn start(dir: &Path, arguments: &[&str]) -> Serving {
    start_with(dir, &[&["serve"], arguments].concat())
}

fn start_with(dir: &Path, arguments: &[&str]) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    Serving::start(command.args(arguments).current_dir(dir).stderr(Stdio::piped()))
}

/// Runs a client to its end; what it printed.
#[track_caller]
fn client(dir: &Path, program: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = run(dir, program, arguments);
    let (out, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{program} {arguments:?}: {out}{errors}");
    out.into_owned()
}

fn run(dir: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).stdin(Stdio::null());
    command.output().expect("it was found before")
}

/// A file of this many bytes with something in it, and a hole behind.
fn image(path: &Path, data_len: usize, len: u64) -> Vec<u8> {
    let data: Vec<u8> = (0..data_len).map(|i| (i * 31 % 253) as u8 + 1).collect();
    fs::write(path, &data).expect("written");
    fs::File::options().write(true).open(path).and_then(|file| file.set_len(len)).expect("longer");
    data
}

/// The one line that a failing call prints.
#[track_caller]
fn refusal(dir: &Path, arguments: &[&str], status: i32) -> String {
    let mut all = vec!["serve"];
    all.extend(arguments);
    let output = run(dir, env!("CARGO_BIN_EXE_spindle"), &all);
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{arguments:?} is answered with one line: {errors}");
    errors
}

#[test]
fn wrong_calls_and_settings_are_answered_with_one_line_that_names_the_thing() {
    let dir = temporary();
    image(&dir.path().join("disk"), 512, 4096);
    let dir = dir.path();
    let config = |text: &str| fs::write(dir.join("spindle.toml"), text).expect("written");
    assert!(refusal(dir, &["nowhere", "--nbd", "unix:s"], 1).contains("nowhere"));
    assert!(refusal(dir, &["disk", "--nbd", "s"], 2).contains("unix:PATH"));
    assert!(refusal(dir, &["disk", "--nbd", "unix:disk"], 1).contains("not a socket"));
    assert!(refusal(dir, &["disk", "--memory", "1M"], 2).contains("64 MiB at the least"));
    assert!(refusal(dir, &[], 2).contains("--help"));
    assert!(refusal(dir, &["disk", "--config", "spindle.toml"], 2).contains("--config"));
    for (text, word) in [
        ("liste = []", "liste"),
        ("[[export]]\nname = 'a'\npath = 'disk'\nread-only = true", "read-only"),
        ("tls = { mode = 'sometimes' }", "sometimes"),
        ("tls = { mode = 'require' }", "certificates"),
        ("tls = { mode = 'require', certificates = '.' }", "server-cert.pem"),
        ("tls = { mode = 'allow', certificates = '.', clients = 'required' }", "without TLS"),
        ("tls = { mode = 'off', clients = 'required' }", "nobody can"),
        ("tls = { mode = 'off', certificates = '.', clients = 'optional' }", "nobody can"),
        ("memory = '1 MiB'", "64 MiB at the least"),
        ("memory = 'much'", "memory"),
        ("listen = ['unix:s']", "nothing to serve"),
        ("[[export]]\nname = 'a'\npath = 'disk'\nrun = true", "run is for a volume"),
        ("[[export]]\nname = 'a'\npath = 'disk'\nvolume = 'b'", "give it either path or volume"),
        ("[[export]]\nname = 'a'", "give it either path or volume"),
        ("listen = []\n[[export]]\nname = 'a'\npath = 'disk'", "0 addresses"),
        (
            "listen = ['unix:s']\n[[export]]\nname = 'a'\npath = 'disk'\n[[export]]\nname = 'a'\npath = 'disk'\nreadonly = true",
            "two exports are named 'a'",
        ),
    ] {
        config(text);
        let line = refusal(dir, &["--config", "spindle.toml"], 2);
        assert!(line.contains(word), "{text}: {line}");
    }
}

#[test]
fn a_second_server_on_a_path_is_refused_and_the_path_goes_with_the_first() {
    fixtures::takes_long!();
    let dir = temporary();
    image(&dir.path().join("disk"), 512, 4096);
    let arguments = ["disk", "--nbd", "unix:s", "--nbd", "127.0.0.1:0"];
    let first = start(dir.path(), &arguments);
    assert!(first.ready.contains("unix:s, 127.0.0.1:"), "{}", first.ready);
    image(&dir.path().join("other"), 512, 4096);
    let second = ["other", "--nbd", "unix:s"];
    assert!(refusal(dir.path(), &second, 1).contains("another server listens"));
    first.stop();
    assert!(!dir.path().join("s").exists());
}

#[test]
fn a_file_has_one_writer_and_a_killed_one_leaves_it_free() {
    fixtures::takes_long!();
    let dir = temporary();
    let dir = dir.path();
    image(&dir.join("disk"), 512, 4096);
    let mut first = start(dir, &["disk", "--nbd", "unix:s"]);
    let line = refusal(dir, &["disk", "--nbd", "unix:t"], 1);
    assert!(line.contains("opening disk for writing: another process writes to it"), "{line}");
    // Another name of the same file changes nothing.
    fs::hard_link(dir.join("disk"), dir.join("alias")).expect("linked");
    assert!(refusal(dir, &["alias", "--nbd", "unix:t"], 1).contains("opening alias for writing"));
    start(dir, &["disk", "--readonly", "--nbd", "unix:t"]).stop();
    first.child.kill().expect("killed");
    first.child.wait().expect("gone");
    start(dir, &["disk", "--nbd", "unix:s"]).stop();
    fs::write(
        dir.join("spindle.toml"),
        "listen = ['unix:s']\n[[export]]\nname = 'a'\npath = 'disk'\n[[export]]\nname = 'b'\npath = 'alias'\n",
    )
    .expect("written");
    let line = refusal(dir, &["--config", "spindle.toml"], 1);
    assert!(line.contains("or this one does"), "{line}");
}

#[test]
fn a_set_that_is_served_is_changed_by_nobody_else_and_read_only_when_forced() {
    fixtures::takes_long!();
    let dir = temporary();
    let dir = dir.path();
    fs::create_dir(dir.join("disks")).expect("made");
    for name in ["disks/a", "disks/b", "disks/c"] {
        image(&dir.join(name), 0, 24 << 20);
    }
    let spindle = |arguments: &[&str]| {
        // In another folder than the server's nobody answers on the set's socket.
        let mut all = vec!["SPINDLE_RUN_DIR=nowhere", env!("CARGO_BIN_EXE_spindle"), "-d", "disks"];
        all.push("md");
        all.extend(arguments);
        run(dir, "env", &all)
    };
    let made =
        spindle(&["create", "r", "-l", "1", "-n", "2", "--assume-clean", "disks/a", "disks/b"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let serving = start_with(dir, &["-d", "disks", "md", "serve", "r", "--nbd", "unix:s"]);
    let output = dir.join("out");
    let output = output.to_str().expect("a path of text");
    for (arguments, saying) in [
        (&["fail", "r", "disks/a"][..], "for writing: another process"),
        (&["stop", "r"], "for writing: another process"),
        (&["add", "r", "disks/c"], "for writing: another process"),
        (&["serve", "r", "--nbd", "unix:t"], "for writing: another process"),
        (&["dump", "r", output], "another process is writing to the set"),
        (&["check", "r"], "another process is writing to the set"),
        (&["serve", "r", "--readonly", "--nbd", "unix:t"], "another process is writing to the set"),
    ] {
        let refused = spindle(arguments);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && errors.contains(saying), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    }
    for arguments in [&["dump", "r", output, "--force"][..], &["detail", "r"], &["examine"]] {
        let done = spindle(arguments);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    serving.stop();
    assert!(spindle(&["check", "r"]).status.success(), "and after it all is as ever");
    // A server that only reads would never hear of a change.
    let only = ["-d", "disks", "md", "serve", "r", "--readonly", "--nbd", "unix:s"];
    let serving = start_with(dir, &only);
    for arguments in [&["fail", "r", "disks/a"][..], &["serve", "r", "--nbd", "unix:t"]] {
        let refused = spindle(arguments);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && errors.contains("or serves it"), "{errors}");
    }
    assert!(spindle(&["check", "r"]).status.success(), "others may read");
    serving.stop();
}

#[test]
fn libnbd_copies_in_and_out_sees_holes_and_the_list() {
    if !there(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let dir = temporary();
    let dir = dir.path();
    let source = image(&dir.join("source"), 3 << 20, 8 << 20);
    image(&dir.join("disk"), 0, 8 << 20);
    fs::write(
        dir.join("spindle.toml"),
        "listen = ['unix:s']\n[[export]]\nname = 'one'\npath = 'disk'\ndescription = 'the first'\n\
         [[export]]\nname = 'two'\npath = 'source'\nreadonly = true\n",
    )
    .expect("written");
    let serving = start(dir, &["--config", "spindle.toml"]);
    let list = client(dir, "nbdinfo", &["--list", "nbd+unix:///?socket=s"]);
    for word in ["export=\"one\"", "the first", "export=\"two\"", "is_read_only: true"] {
        assert!(list.contains(word), "{list}");
    }
    client(dir, "nbdcopy", &["source", "nbd+unix:///one?socket=s"]);
    client(dir, "nbdcopy", &["--synchronous", "nbd+unix:///one?socket=s", "back"]);
    let back = fs::read(dir.join("back")).expect("there");
    assert!(back.len() == 8 << 20 && back[..3 << 20] == source);
    let map = client(dir, "nbdinfo", &["--map", "nbd+unix:///two?socket=s"]);
    assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
    let refused = run(dir, "nbdcopy", &["source", "nbd+unix:///two?socket=s"]);
    assert!(!refused.status.success(), "a read-only export takes no copy");
    let all = client(dir, "nbdcopy", &["nbd+unix:///two?socket=s", "again"]);
    assert!(
        all.is_empty()
            && fs::read(dir.join("again")).expect("there")
                == fs::read(dir.join("source")).expect("there")
    );
    serving.stop();
    assert!(fs::read(dir.join("disk")).expect("there") == back, "what was copied is in the file");
}

#[test]
fn qemu_converts_compares_zeroes_and_writes_parts_of_blocks() {
    if !there(&["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = temporary();
    let dir = dir.path();
    image(&dir.join("source"), 3 << 20, 8 << 20);
    image(&dir.join("disk"), 8 << 20, 8 << 20);
    let serving = start(dir, &["disk", "--nbd", "unix:s", "--name", "disk"]);
    let uri = "nbd+unix:///disk?socket=s";
    client(dir, "qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "source", uri]);
    client(dir, "qemu-img", &["compare", "-f", "raw", "-F", "raw", "source", uri]);
    let commands = [
        "write -P 0x55 12345 777",
        "read -P 0x55 12345 777",
        "write -f -P 0x66 8191 2",
        "read -P 0x66 8191 2",
        "write -z 1M 100001",
        "read -P 0 1M 100001",
        "write -z -u 2M 1M",
        "read -P 0 2M 1M",
        "discard 4M 1M",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(uri);
    let told = client(dir, "qemu-io", &arguments);
    assert!(!told.contains("failed") && !told.contains("Pattern"), "{told}");
    serving.stop();
}

#[test]
fn fio_verifies_what_it_wrote_at_depth() {
    if !there(&["fio"]) {
        return;
    }
    if !client(Path::new("."), "fio", &["--enghelp"]).contains("nbd") {
        return eprintln!("skipped: this fio has no nbd engine");
    }
    let dir = temporary();
    image(&dir.path().join("disk"), 0, 16 << 20);
    let serving = start(dir.path(), &["disk", "--nbd", "unix:s"]);
    client(
        dir.path(),
        "fio",
        &[
            "--name=x",
            "--ioengine=nbd",
            "--uri=nbd+unix:///?socket=s",
            "--rw=randrw",
            "--bsrange=512-64k",
            "--bs_unaligned=0",
            "--iodepth=32",
            "--size=16M",
            "--verify=crc32c",
            "--verify_fatal=1",
        ],
    );
    serving.stop();
}

/// A service manager starts a server again at once after it was killed, while the kernel still winds up what the dead
/// one had open. What could break: its socket or its lock is taken for a living server's.
#[test]
fn a_server_that_was_killed_is_started_again_at_once() {
    let dir = temporary();
    let dir = dir.path();
    image(&dir.join("disk"), 0, 16 << 20);
    for _ in 0..8 {
        let mut serving = start(dir, &["disk", "--nbd", "unix:s"]);
        // Connections whose reads wait in the ring of the dead one.
        let idle: Vec<UnixStream> =
            (0..8).map(|_| UnixStream::connect(dir.join("s")).expect("connected")).collect();
        serving.child.kill().expect("killed");
        serving.child.wait().expect("gone");
        drop(idle);
    }
    start(dir, &["disk", "--nbd", "unix:s"]).stop();
}

/// An authority, a server's and a client's certificate, under the names that libnbd and QEMU look for.
fn certificates(dir: &Path) {
    let openssl = |arguments: &[&str]| drop(client(dir, "openssl", arguments));
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let mut authority = vec!["req", "-x509", "-days", "2", "-subj", "/CN=authority"];
    authority.extend(curve);
    authority.extend(["-keyout", "ca-key.pem", "-out", "ca-cert.pem"]);
    openssl(&authority);
    for (who, name) in [("server", "localhost"), ("client", "someone")] {
        let (key, ask) = (format!("{who}-key.pem"), format!("{who}.csr"));
        let (subject, names) = (format!("/CN={name}"), format!("{who}.ext"));
        fs::write(dir.join(&names), format!("subjectAltName=DNS:{name}\n")).expect("written");
        let mut request = vec!["req", "-new", "-subj", &subject];
        request.extend(curve);
        request.extend(["-keyout", &key, "-out", &ask]);
        openssl(&request);
        let out = format!("{who}-cert.pem");
        openssl(&[
            "x509",
            "-req",
            "-in",
            &ask,
            "-CA",
            "ca-cert.pem",
            "-CAkey",
            "ca-key.pem",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            &names,
            "-out",
            &out,
        ]);
    }
}

#[test]
fn libnbd_comes_in_by_tls_with_its_certificate_and_not_without() {
    if !there(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    if Command::new("openssl").arg("version").output().is_err() {
        return eprintln!("skipped: openssl is not installed");
    }
    let dir = temporary();
    let dir = dir.path();
    fs::create_dir(dir.join("pki")).expect("made");
    certificates(&dir.join("pki"));
    fs::create_dir(dir.join("stranger")).expect("made");
    fs::copy(dir.join("pki/ca-cert.pem"), dir.join("stranger/ca-cert.pem")).expect("copied");
    image(&dir.join("disk"), 3 << 20, 8 << 20);
    fs::write(
        dir.join("spindle.toml"),
        "listen = ['127.0.0.1:0']\ntls = { mode = 'require', certificates = 'pki', clients = 'required' }\n\
         [[export]]\nname = 'disk'\npath = 'disk'\n",
    )
    .expect("written");
    let serving = start(dir, &["--config", "spindle.toml"]);
    let port = serving.ready.trim_end().rsplit(':').next().expect("a port");
    let uri = |pki: &str| {
        let folder = dir.join(pki);
        format!("nbds://localhost:{port}/disk?tls-certificates={}", folder.display())
    };
    let told = client(dir, "nbdinfo", &[&uri("pki")]);
    assert!(told.contains("with TLS"), "{told}");
    client(dir, "nbdcopy", &[&uri("pki"), "back"]);
    assert!(
        fs::read(dir.join("back")).expect("there") == fs::read(dir.join("disk")).expect("there")
    );
    assert!(!run(dir, "nbdinfo", &[&uri("stranger")]).status.success());
    let plain = format!("nbd://localhost:{port}/disk");
    assert!(!run(dir, "nbdinfo", &[&plain]).status.success());
    serving.stop();
}

/// The oracle machine: `SPINDLE_ORACLE`, or where it lies beside this repository.
fn oracle() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let path = std::env::var_os("SPINDLE_ORACLE").map_or_else(beside, PathBuf::from);
    if !path.is_file() {
        eprintln!("skipped: there is no oracle machine at {}", path.display());
        return None;
    }
    there(&["qemu-system-x86_64"]).then_some(path)
}

#[test]
fn the_linux_kernel_keeps_a_file_system_on_an_export() {
    fixtures::takes_long!();
    // To boot a machine takes longer than most of the other tests together.
    if !is_thorough() {
        return keeps_a_file_system_through_fuse();
    }
    let Some(oracle) = oracle() else { return };
    let dir = temporary();
    let dir = dir.path();
    image(&dir.join("disk"), 0, 64 << 20);
    let serving = start(dir, &["disk", "--nbd", "127.0.0.1:0", "--name", "disk0"]);
    let port = serving.ready.trim_end().rsplit(':').next().expect("a port");
    let script = format!(
        "set -e\n\
         nbd-client -N disk0 10.0.2.2 {port} /dev/nbd0 -C 2\n\
         mkfs.ext4 -q -F /dev/nbd0\n\
         mkdir -p /m && mount /dev/nbd0 /m\n\
         dd if=/dev/urandom of=/m/file bs=64k count=64 status=none\n\
         sha256sum < /m/file > /m/sum\n\
         umount /m && fsck.ext4 -f -n /dev/nbd0\n\
         nbd-client -d /dev/nbd0\n\
         nbd-client -N disk0 10.0.2.2 {port} /dev/nbd1\n\
         mount -o discard /dev/nbd1 /m\n\
         sha256sum < /m/file | cmp - /m/sum\n\
         rm /m/file && fstrim /m && umount /m\n\
         fsck.ext4 -f -n /dev/nbd1\n\
         nbd-client -d /dev/nbd1\n\
         echo the kernel is content\n"
    );
    fs::write(dir.join("script"), script).expect("written");
    let oracle = oracle.to_str().expect("a path of text");
    let told = client(dir, oracle, &["--net", "--timeout", "240", "script"]);
    assert!(told.contains("the kernel is content"), "{told}");
    serving.stop();
}

/// The same file system, made, checked and discarded on an export that libnbd shows as a file: what the kernel's client does, but for
/// the kernel.
fn keeps_a_file_system_through_fuse() {
    if !there(&["nbdfuse", "mkfs.ext4", "fsck.ext4", "debugfs", "umount"]) || !can_mount() {
        return;
    }
    let dir = temporary();
    let dir = dir.path();
    image(&dir.join("disk"), 0, 64 << 20);
    fs::create_dir_all(dir.join("tree")).expect("made");
    let bytes = fixtures::noise(3, 4 << 20);
    fs::write(dir.join("tree/file"), &bytes).expect("written");
    let serving = start(dir, &["disk", "--nbd", "127.0.0.1:0", "--name", "disk0"]);
    let port = serving.ready.trim_end().rsplit(':').next().expect("a port");
    let uri = format!("nbd://127.0.0.1:{port}/disk0");
    fs::write(dir.join("seen"), "").expect("a file to mount on");
    let show = || {
        let child = Command::new("nbdfuse").args(["seen", &uri]).current_dir(dir).spawn();
        let shown = Serving { child: child.expect("it starts"), ready: String::new() };
        soon(|| fs::metadata(dir.join("seen")).is_ok_and(|seen| seen.len() == 64 << 20));
        shown
    };
    let hide = |mut shown: Serving| {
        client(dir, "umount", &["seen"]);
        assert!(shown.child.wait().expect("it ends").success());
    };
    let shown = show();
    client(dir, "mkfs.ext4", &["-q", "-F", "-d", "tree", "seen"]);
    client(dir, "fsck.ext4", &["-f", "-n", "seen"]);
    client(dir, "debugfs", &["-R", "dump /file out", "seen"]);
    assert!(fs::read(dir.join("out")).expect("dumped") == bytes);
    client(dir, "debugfs", &["-w", "-R", "rm /file", "seen"]);
    // A second connection finds what the first one wrote, and gives back what is free.
    hide(shown);
    let shown = show();
    let before = held(&dir.join("disk"));
    let trimmed = run(dir, "fsck.ext4", &["-f", "-y", "-E", "discard", "seen"]);
    assert!(matches!(trimmed.status.code(), Some(0 | 1)), "{trimmed:?}");
    client(dir, "fsck.ext4", &["-f", "-n", "seen"]);
    hide(shown);
    assert!(held(&dir.join("disk")) + (3 << 20) < before, "what is free takes no room");
    serving.stop();
}

/// So many bytes of a disk the image takes.
fn held(image: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&fs::metadata(image).expect("it is there")) * 512
}
