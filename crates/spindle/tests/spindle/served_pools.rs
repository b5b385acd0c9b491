//! Pools held by one server, from a configuration: several of them, volumes over NBD, datasets mounted, commands carried out.
//!
//! One of several is exported or destroyed while the others are served.
//!
//! What could break: a mount that isn't there when the server says that it serves, or is left behind when it ends; a pool that is not
//! exported at the end, or loses what was written; one that is said to be exported, and that others still can't have, or that somebody goes on
//! writing to; a configuration that can't work and is found out after something was written.

use crate::holding;
use crate::pools;
use crate::serving;

use holding::Holder;
use pools::{add_disks, done, judge, program, refused, run};
use serving::{Serving, connected};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

const DISK_BYTES: u64 = 128 << 20;

/// Two pools, `tank` with `tank/home/anna`, a volume and a snapshot, and `old` with a file; and folders to mount on.
fn two_pools() -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    for name in ["disks", "home", "old", "home/in"] {
        fs::create_dir(at.join(name)).expect("a folder");
    }
    add_disks(&at.join("disks"), &["a", "b", "c"], DISK_BYTES);
    done(at, &["zpool", "create", "tank", "mirror", "disks/a", "disks/b"]);
    done(at, &["zpool", "create", "old", "disks/c"]);
    done(at, &["zfs", "create", "-p", "tank/home/anna"]);
    done(at, &["zfs", "create", "-V", "16M", "tank/v"]);
    fs::write(at.join("letter"), b"dear").expect("a file");
    done(at, &["zfs", "cp", "letter", "old:letter"]);
    done(at, &["zfs", "snapshot", "old@monday"]);
    folder
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("Linux tells");
    let directory = directory.canonicalize().expect("it is there");
    mounts.lines().any(|line| line.split(' ').nth(1) == directory.to_str())
}

fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        println!("skipped: mounting needs root and /dev/fuse");
    }
    can
}

fn configured(at: &Path, text: &str) -> std::process::Command {
    fs::write(at.join("spindle.toml"), text).expect("a configuration");
    let mut command = program(at, &["serve", "--config", "spindle.toml"]);
    command.stderr(Stdio::piped());
    command
}

/// What could break: after a kill whoever serves a pool again is told to force it, as if it were another's; or another host, or one that has no
/// number, takes it without a word.
#[test]
fn a_pool_whose_server_was_killed_is_served_again_by_its_host_alone() {
    let folder = two_pools();
    let at = folder.path();
    let serve = |host: Option<&str>, more: &[&str]| {
        let call = ["serve", "--volume", "tank/v", "--nbd", "unix:s"];
        let mut command = program(at, &[&call[..], more].concat());
        if let Some(host) = host {
            command.env("ZFS_HOSTID", host);
        }
        Serving::try_start(command.stderr(Stdio::piped()))
    };
    serve(None, &[]).expect("it serves").kill();
    serve(None, &[]).expect("it serves again").kill();
    for other in ["0x1234", "0"] {
        let said = serve(Some(other), &[]).err().expect("it is refused");
        assert!(said.contains("was not exported"), "{other}: {said}");
    }
    serve(Some("0"), &["--force"]).expect("it is forced").kill();
    // Nobody in particular had it last.
    let said = serve(Some("0"), &[]).err().expect("it is refused");
    assert!(said.contains("with -f"), "{said}");
    serve(Some("0"), &["--force"]).expect("it is forced").stop();
    serve(None, &[]).expect("it was exported").stop();
}

#[test]
fn one_server_holds_pools_with_volumes_mounts_and_commands() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let folder = two_pools();
    let at = folder.path();
    let text = r#"
        listen = ["unix:s"]
        [[export]]
        name = "v"
        volume = "tank/v"
        [[mount]]
        dataset = "tank/home"
        directory = "home"
        [[mount]]
        dataset = "old@monday"
        directory = "old"
        readonly = true
    "#;
    let mut command = configured(at, text);
    let server = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut server = Running(server);
    let mut said = String::new();
    server.wait_for(&mut said, "serving 1 export");
    assert!(said.contains("tank/home is mounted on") && said.contains("for writing"), "{said}");
    assert!(is_mounted(&at.join("home")) && is_mounted(&at.join("old")));
    assert_eq!(fs::read(at.join("old/letter")).expect("it is there"), b"dear");
    assert!(fs::write(at.join("old/letter"), b"x").is_err(), "a snapshot is only read");
    fs::write(at.join("home/anna/file"), b"anna's").expect("it is written");
    done(at, &["zfs", "create", "tank/home/bert"]);
    fs::write(at.join("home/bert/file"), b"bert's").expect("it is written");
    done(at, &["zfs", "snapshot", "-r", "tank@noon"]);
    let open = fs::File::create(at.join("home/open")).expect("a file");
    refused(at, &["zpool", "destroy", "tank"], "pool or dataset is busy");
    drop(open);
    snapshots_by_hand(at);
    what_it_does(at);
    server.stop();
    assert!(!is_mounted(&at.join("home")) && !is_mounted(&at.join("old")));
    assert_eq!(done(at, &["zfs", "cat", "tank/home/anna:file"]), "anna's");
    assert_eq!(done(at, &["zfs", "cat", "tank/home/bert@noon:file"]), "bert's");
    judge(at, "tank");
    // It was exported: nobody has to force it.
    done(at, &["zfs", "create", "tank/after"]);
}

/// Who looks at what a pool does is told by who holds it.
fn what_it_does(at: &Path) {
    done(at, &["zpool", "sync", "tank"]);
    let text = done(at, &["zpool", "iostat", "-v", "tank"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "pool        alloc   free   read  write   read  write", "{text}");
    assert_eq!(lines[2], "----------  -----  -----  -----  -----  -----  -----", "{text}");
    assert!(lines[3].starts_with("tank        ") && lines[4].starts_with("  mirror-0  "), "{text}");
    assert!(lines[5].starts_with("    a           -      -  "), "{text}");
    assert_eq!(lines[7], lines[2], "{text}");
    let text = done(at, &["zpool", "iostat", "-Hp", "tank", "old"]);
    let numbers = |name: &str| -> Vec<u64> {
        let line = text.lines().find(|line| line.starts_with(name)).expect("its line");
        line.split('\t').skip(1).map(|word| word.parse().expect("a number")).collect()
    };
    let (tank, old) = (numbers("tank\t"), numbers("old\t"));
    assert!(tank.len() == 6 && tank[0] > 0 && tank[5] > 0, "{text}");
    assert_eq!(old[2..], [0; 4], "nobody holds it: {text}");
    let text = done(at, &["zpool", "iostat", "-y", "tank", "0.1", "2"]);
    assert_eq!(text.lines().filter(|line| line.starts_with("tank ")).count(), 2, "{text}");
    refused(at, &["zpool", "iostat", "none"], "no such pool");
    refused(at, &["zpool", "iostat", "tank", "0"], "interval cannot be zero");
}

/// Directories of `.zfs/snapshot` are snapshots.
fn snapshots_by_hand(at: &Path) {
    let (top, all) = (at.join("home/top"), at.join("home/.zfs/snapshot"));
    let listed = || done(at, &["zfs", "list", "-H", "-t", "snapshot", "-o", "name"]);
    fs::write(&top, b"one").expect("it is written");
    fs::create_dir(all.join("first")).expect("it is taken");
    fs::create_dir(at.join("home/anna/.zfs/snapshot/hers")).expect("it is taken");
    fs::write(&top, b"two").expect("it is written");
    assert_eq!(fs::read(all.join("first/top")).expect("it is there"), b"one");
    assert!(listed().contains("tank/home@first\n") && listed().contains("tank/home/anna@hers\n"));
    let error = fs::create_dir(all.join("first")).expect_err("there is one");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    let error = fs::create_dir(all.join("not^one")).expect_err("no snapshot is called so");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    fs::rename(all.join("first"), all.join("kept")).expect("it is renamed");
    assert_eq!(fs::read(all.join("kept/top")).expect("it is there"), b"one");
    done(at, &["zfs", "hold", "mine", "tank/home@kept"]);
    let error = fs::remove_dir(all.join("kept")).expect_err("it is held");
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    done(at, &["zfs", "release", "mine", "tank/home@kept"]);
    fs::remove_dir(all.join("kept")).expect("it is destroyed");
    assert!(!all.join("kept").exists() && !listed().contains("tank/home@kept"), "{}", listed());
    fs::create_dir(all.join("kept")).expect("it is taken");
    assert_eq!(fs::read(all.join("kept/top")).expect("it is there"), b"two");
    assert!(fs::write(all.join("kept/top"), b"x").is_err(), "a snapshot is only read");
    assert!(fs::create_dir(all.join("kept/d")).is_err(), "a snapshot is only read");
}

const BOTH: &str = r#"
    listen = ["unix:s"]
    [[export]]
    name = "v"
    volume = "tank/v"
    [[export]]
    name = "then"
    volume = "tank/v@then"
    readonly = true
    [[export]]
    name = "w"
    volume = "old/w"
"#;

/// What could break: see above.
#[test]
fn one_of_several_pools_is_exported_and_another_process_has_it_while_the_rest_is_served() {
    fixtures::takes_long!();
    let folder = two_pools();
    let at = folder.path();
    done(at, &["zfs", "snapshot", "tank/v@then"]);
    done(at, &["zfs", "create", "-V", "16M", "old/w"]);
    let home = "[[mount]]\ndataset = \"tank/home\"\ndirectory = \"home\"\n";
    let mounts = if can_mount() { home } else { "" };
    let holder = Holder::start(at, &format!("{BOTH}{mounts}"));
    let socket = at.join("s");
    let mut reader = connected(&socket, "then").expect("it is served");
    let other = connected(&socket, "w").expect("it is served");
    refused(at, &["zpool", "export", "tank"], "cannot export 'tank': pool is busy");
    if can_mount() {
        let open = fs::File::create(at.join("home/open")).expect("a file");
        // By force who has files open there is told by errors.
        done(at, &["zpool", "export", "-f", "tank"]);
        assert!(!is_mounted(&at.join("home")));
        drop(open);
    } else {
        done(at, &["zpool", "export", "-f", "tank"]);
    }
    assert_eq!(reader.read(&mut [0]).expect("it is hung up on"), 0);
    assert!(connected(&socket, "v").is_none() && connected(&socket, "then").is_none());
    // Who names none had the first, and gets no other.
    assert!(connected(&socket, "").is_none());
    assert!(done(at, &["zpool", "history", "tank"]).contains("zpool export -f tank"));
    let listed = done(at, &["zpool", "import"]);
    let (old, tank) = listed.split_once("pool: tank").expect("both");
    assert!(tank.contains("can be imported using") && old.contains("held by process"), "{listed}");
    refused(at, &["zfs", "load", "tank/none", "letter"], "dataset does not exist");
    judge(at, "tank");
    // Another process has it, and who has the other still serves it.
    let next = Holder::start(at, "pools = [\"tank\"]\n");
    done(at, &["zfs", "create", "tank/next"]);
    done(at, &["zfs", "create", "old/still"]);
    let writer = connected(&socket, "w").expect("it is served");
    next.stop();
    judge(at, "tank");
    // The last goes with all that was served of it, and nothing is left to be served.
    refused(at, &["zpool", "destroy", "old"], "cannot destroy 'old': pool is busy");
    done(at, &["zpool", "destroy", "-f", "old"]);
    holder.ended();
    drop((other, writer));
    assert!(done(at, &["zpool", "import", "-D"]).contains("pool: old"));
}

/// What could break: a disk that is taken from under what else lies on it.
#[test]
fn a_pool_on_what_else_is_served_stays() {
    if Command::new("sgdisk").arg("--version").output().is_err() {
        return println!("skipped: sgdisk is not installed (Debian package gdisk)");
    }
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["p"], 3 * DISK_BYTES);
    add_disks(&at.join("disks"), &["q"], DISK_BYTES);
    let parts = ["-n", "1:2048:+70M", "-n", "2:0:+70M", "disks/p"];
    let parted = Command::new("sgdisk").args(parts).current_dir(at).output().expect("it starts");
    assert!(parted.status.success(), "{}", String::from_utf8_lossy(&parted.stderr));
    for (pool, device) in [("one", "disks/p:1"), ("two", "disks/p:2"), ("three", "disks/q")] {
        done(at, &["zpool", "create", pool, device]);
    }
    let holder = Holder::start(at, "pools = [\"one\", \"two\", \"three\"]\n");
    refused(at, &["zpool", "export", "one"], "lie on its devices, too");
    refused(at, &["zpool", "destroy", "-f", "two"], "(spindle serve)");
    done(at, &["zpool", "export", "three"]);
    done(at, &["zfs", "create", "three/x"]);
    done(at, &["zfs", "create", "one/x"]);
    holder.stop();
    for pool in ["one", "two", "three"] {
        done(at, &["zfs", "create", &format!("{pool}/after")]);
    }
}

#[test]
fn a_pool_is_held_though_nothing_of_it_is_served() {
    let folder = two_pools();
    let at = folder.path();
    let mut command = configured(at, "pools = [\"tank\", \"old\"]\nlisten = [\"unix:s\"]\n");
    let mut server = Running(command.stdout(Stdio::piped()).spawn().expect("it starts"));
    server.wait_for(&mut String::new(), "holding 2 pools");
    assert!(!at.join("s").exists(), "there is nothing to connect to");
    done(at, &["zfs", "create", "tank/x"]);
    done(at, &["zfs", "create", "old/x"]);
    server.stop();
    let listed = done(at, &["zfs", "list", "-H", "-o", "name"]);
    assert!(listed.contains("tank/x\n") && listed.contains("old/x\n"), "{listed}");
    judge(at, "old");
}

#[test]
fn what_can_not_be_mounted_is_refused_before_anything_is_written() {
    let folder = two_pools();
    let at = folder.path();
    let content = || fixtures::images(&at.join("disks"));
    let before = content();
    let mount = |dataset: &str, directory: &str, more: &str| {
        format!("[[mount]]\ndataset = \"{dataset}\"\ndirectory = \"{directory}\"\n{more}\n")
    };
    let home = mount("tank/home", "home", "");
    for (text, why) in [
        (mount("tank/home", "nowhere", ""), "make the directory first"),
        (mount("tank/home", "spindle.toml", ""), "name a directory"),
        (mount("tank/home@x", "home", ""), "a snapshot is only read"),
        (mount("tank/none", "home", ""), "dataset does not exist"),
        (mount("none", "home", ""), "no such pool"),
        (mount("tank/home", "home", "readonly = true\nforce = true"), "it is readonly"),
        (mount("tank/home", "home", "snapdir = \"shown\""), "expected `hidden` or `visible`"),
        (home.clone() + &mount("tank/home/anna", "old", ""), "in the mount of tank/home"),
        (home.clone() + &mount("tank/home", "old", ""), "in the mount of tank/home"),
        (home.clone() + &mount("old", "home/in", ""), "where another is mounted"),
        (home.clone() + &mount("tank", "old", "readonly = true"), "leave readonly out"),
        ("pools = [\"tank\", \"none\"]".into(), "no such pool"),
    ] {
        let output = configured(at, &text).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let is_denied = !can_mount() && said.contains("this takes root");
        assert!(said.contains(why) || is_denied, "{text}: {said}");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{text}: {said}");
        assert!(content() == before, "{text}");
        assert!(!is_mounted(&at.join("home")) && !is_mounted(&at.join("old")), "{text}");
    }
    assert!(run(at, &["zfs", "list"]).status.success());
}

/// A server whose lines are waited for.
struct Running(std::process::Child);

impl Running {
    /// Reads what it says on standard output, up to a line with this.
    fn wait_for(&mut self, said: &mut String, what: &str) {
        use std::io::{BufRead, BufReader};
        let mut lines = BufReader::new(self.0.stdout.take().expect("it is piped"));
        while !said.contains(what) {
            let more = lines.read_line(said).expect("a line");
            assert!(more > 0, "it ended: {said}");
        }
    }

    /// Tells it to stop, and holds it to the promise that it ends well.
    fn stop(self) {
        let Running(child) = self;
        Serving { child, ready: String::new() }.stop();
    }
}
