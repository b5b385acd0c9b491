//! Sets with a bitmap that Spindle wrote and the real md goes on with, and the other way round.
//!
//! What could break: bits that md does not see, a dirty set that md takes for clean, a member that was caught up in
//! too few places. Spindle creates sets and serves them; it is killed in the midst of writes. The real md assembles
//! them, resynchronises by the bitmap, and its check counts 0. Then md writes to the sets without one member;
//! Spindle re-adds it by the bitmap; md's check counts 0 again, and the content is what md wrote.
//!
//! It boots a machine twice, which takes some minutes, so it runs when it is asked for: `cargo test -p spindle --test
//! md_live_oracle -- --ignored`. Where the machine, or qemu-io, is not there it is skipped.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Size of each disk.
const DISK_BYTES: u64 = 24 << 20;

/// Arguments of `create`, and how many disks they take.
const SETS: [(&str, usize); 4] = [
    ("r1 -l 1 -n 2", 2),
    ("r5 -l 5 -n 3 -c 64", 3),
    ("r6 -l 6 -n 4 -c 64 -e 1.0", 4),
    ("r10 -l 10 -n 4 -c 64 -p f2", 4),
];

/// How long a served set may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

fn spindle(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.current_dir(folder).env_remove("SPINDLE_DEVICES");
    command
}

/// Serves a set, writes to it in several places, and kills the server without a word.
fn write_and_kill(folder: &Path, n: usize, name: &str) {
    let socket = folder.join(format!("s{n}"));
    let address = format!("unix:{}", socket.display());
    let mut server = spindle(folder)
        .args(["md", "-d", &format!("a{n}"), "serve", name, "--nbd", &address])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let began = std::time::Instant::now();
    while !socket.exists() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let mut io = Command::new("qemu-io");
    io.args(["-f", "raw", &uri]);
    for (place, pattern) in [(0, 17), (3, 34), (9, 51), (14, 68)] {
        io.args(["-c", &format!("write -P {pattern} {place}M 192k")]);
    }
    // A write that is not waited for is under way when the server dies, or it is not: both are right.
    io.args(["-c", "flush", "-c", "aio_write -P 85 6M 512k", "-c", "aio_write -P 85 2M 512k"]);
    run(&mut io);
    server.kill().expect("it runs");
    server.wait().expect("it ended");
}

/// Runs a script in the machine with all disks.
fn machine(oracle: &Path, folder: &Path, disks: &[PathBuf], script: &str) -> String {
    let path = folder.join("script.sh");
    std::fs::write(&path, script).expect("a script");
    let mut machine = Command::new(oracle);
    machine.args(["--cache", "unsafe", "--timeout", "280"]);
    for disk in disks {
        machine.arg("--disk").arg(disk);
    }
    run(machine.arg(&path))
}

fn check(n: usize) -> String {
    format!(
        "echo check > /sys/block/md{n}/md/sync_action; mdadm --wait /dev/md{n} || true\n\
         echo mismatches {n} $(cat /sys/block/md{n}/md/mismatch_cnt)\n\
         echo content {n} $(sha256sum < /dev/md{n})\n"
    )
}

fn value<'a>(said: &'a str, what: &str, n: usize) -> &'a str {
    let head = format!("{what} {n} ");
    let line = said.lines().find_map(|line| line.strip_prefix(&head));
    line.unwrap_or_else(|| panic!("no '{head}' in {said}")).split(' ').next().unwrap_or_default()
}

#[test]
#[ignore = "boots a machine twice: some minutes"]
fn the_real_md_and_spindle_go_on_by_each_others_bitmaps() {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !oracle.is_file() || !there("qemu-system-x86_64") || !there("qemu-io") {
        println!("skipped: {}, qemu-system-x86_64 or qemu-io is not there", oracle.display());
        return;
    }
    let folder = fixtures::scratch::folder();
    let folder = folder.path();
    let (mut disks, mut nodes) = (Vec::new(), Vec::new());
    for (n, (arguments, count)) in SETS.iter().enumerate() {
        std::fs::create_dir(folder.join(format!("a{n}"))).expect("a folder");
        let mut create = spindle(folder);
        create.args(["md", "create"]).args(arguments.split(' '));
        create.args(["--bitmap=internal", "--bitmap-chunk=64"]);
        let mut own = Vec::new();
        for _ in 0..*count {
            let disk = folder.join(format!("a{n}/disk{:02}.raw", disks.len()));
            let file = std::fs::File::create(&disk).expect("a disk");
            file.set_len(DISK_BYTES).expect("a size");
            create.arg(&disk);
            own.push(format!("/dev/vd{}", char::from(b'a' + disks.len() as u8)));
            disks.push(disk);
        }
        run(&mut create);
        let name = arguments.split(' ').next().expect("a name");
        run(spindle(folder).args(["md", "-d", &format!("a{n}"), "assemble", name]));
        write_and_kill(folder, n, name);
        nodes.push(own);
    }
    let mut script = "set -e\n".to_owned();
    for (n, own) in nodes.iter().enumerate() {
        let (all, second) = (own.join(" "), &own[1]);
        let _ = write!(
            script,
            "echo dirty {n} $(mdadm -X {} | grep -o '[0-9]* dirty' | cut -d' ' -f1)\n\
             mdadm --assemble /dev/md{n} {all} 2>&1\nmdadm --wait /dev/md{n} || true\n{}\
             mdadm /dev/md{n} --fail {second} --remove {second} 2>&1\n\
             dd if=/dev/urandom of=/dev/md{n} bs=64k count=20 seek=33 status=none; sync\n\
             echo written {n} $(sha256sum < /dev/md{n})\nmdadm --stop /dev/md{n} 2>&1\n",
            own[0],
            check(n)
        );
    }
    let said = machine(&oracle, folder, &disks, &script);
    for (n, (arguments, _)) in SETS.iter().enumerate() {
        let dirty: u64 = value(&said, "dirty", n).parse().expect("a number");
        assert!((4..100).contains(&dirty), "{arguments}: {dirty} bits: {said}");
        assert_eq!(value(&said, "mismatches", n), "0", "{arguments}: {said}");
    }
    let mut script = "set -e\n".to_owned();
    for (n, own) in nodes.iter().enumerate() {
        let name = SETS[n].0.split(' ').next().expect("a name");
        let directory = format!("a{n}");
        let second = disks.iter().filter(|disk| disk.starts_with(folder.join(&directory))).nth(1);
        let mut add = spindle(folder);
        add.args(["md", "-d", &directory, "add", name]).arg(second.expect("a disk")).arg("--json");
        let added = run(&mut add);
        assert!(added.contains("re-added"), "{name}: {added}");
        run(spindle(folder).args(["md", "-d", &directory, "check", name]));
        let out = folder.join("out.raw");
        run(spindle(folder).args(["md", "-d", &directory, "dump", "--overwrite", name]).arg(&out));
        let digest = run(Command::new("sha256sum").arg(&out));
        assert!(digest.starts_with(value(&said, "written", n)), "{name}: the content md wrote");
        let all = own.join(" ");
        let _ = write!(
            script,
            "mdadm --assemble /dev/md{n} {all} 2>&1\nmdadm --wait /dev/md{n} || true\n\
             echo degraded {n} $(cat /sys/block/md{n}/md/degraded)\n{}mdadm --stop /dev/md{n} 2>&1\n",
            check(n)
        );
    }
    let again = machine(&oracle, folder, &disks, &script);
    for (n, (arguments, _)) in SETS.iter().enumerate() {
        assert_eq!(value(&again, "degraded", n), "0", "{arguments}: {again}");
        assert_eq!(value(&again, "mismatches", n), "0", "{arguments}: {again}");
        assert_eq!(value(&again, "content", n), value(&said, "written", n), "{arguments}");
    }
}
