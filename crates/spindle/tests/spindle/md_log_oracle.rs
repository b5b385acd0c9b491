//! Sets with a log against the write hole, whose server was killed while it wrote, judged by the real md; and sets
//! of the real md with a journal, whose machine was stopped, read by Spindle.
//!
//! What could break: a log that md does not read as we wrote it, or that we do not read as md wrote it. `spindle md
//! serve` is killed in the midst of random writes of the first page of each row. In the oracle machine md puts the set
//! right by its log (a PPL, a journal), takes it for clean, checks it (0 mismatches), and all but those pages must be
//! as it was; the same with a member missing, from copies of the others. The other way, md writes to a RAID 5 with
//! a journal and to a RAID 6 with one in write-back mode, whose data the members never get, and stops as at a power
//! loss; Spindle reads every byte, brings the journal in, and finds parity right.
//!
//! They boot a machine, so they run when they are asked for: `cargo test --test spindle -- md_log_oracle:: --ignored`.
//! Where the machine, nbdcopy or a fio with NBD are not there they are skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Size of each disk.
const DISK_BYTES: u64 = 32 << 20;
/// Bytes of a row: three data chunks of 64 KiB.
const ROW: usize = 3 * 64 * 1024;
/// What is written of each row.
const PAGE: usize = 4096;
const URI: &str = "nbd+unix:///?socket=s";
/// So long at the most for a socket to appear, and for a machine: one of these is busy with builds at times.
const PATIENCE: Duration = Duration::from_secs(60);
const MACHINE_SECONDS_MAX: &str = "900";

/// Digests a device without the first page of each row.
const DIGEST: &str = "
import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], 'rb') as device:
    while part := bytearray(device.read(ROW)):
        part[:PAGE] = bytes(min(PAGE, len(part)))
        digest.update(part)
print(digest.hexdigest())
";

/// All devices of a set are the first, a set of copies without one member the rest.
const SCRIPT: &str = "
set -e
mdadm --assemble --run /dev/md0 WHOLE 2>&1
echo action $(cat /sys/block/md0/md/sync_action)
mdadm --wait /dev/md0 || true
echo check > /sys/block/md0/md/sync_action; mdadm --wait /dev/md0 || true
echo mismatches $(cat /sys/block/md0/md/mismatch_cnt)
echo policy $(cat /sys/block/md0/md/consistency_policy)
echo whole $(python3 /oracle/digest.py /dev/md0)
mdadm --stop /dev/md0 2>&1
mdadm --assemble --run /dev/md1 PART 2>&1
echo missing $(cat /sys/block/md1/md/degraded)
echo degraded $(python3 /oracle/digest.py /dev/md1)
mdadm --stop /dev/md1 2>&1
";

/// What md writes: see [`md_wrote`].
const MD_SCRIPT: &str = "
set -e
mdadm --create /dev/md0 --run --level 5 -n 3 --chunk 64 --assume-clean --write-journal /dev/vdd /dev/vd[abc] 2>&1
mdadm --create /dev/md1 --run --level 6 -n 4 --chunk 64 --assume-clean --write-journal /dev/vdi /dev/vd[efgh] 2>&1
echo write-back > /sys/block/md1/md/journal_mode
python3 - <<END
import mmap, os
for name in ('/dev/md0', '/dev/md1'):
    device = os.open(name, os.O_RDWR | os.O_DIRECT)
    for n in range(WRITES):
        pages = 1 + n % 5
        memory = mmap.mmap(-1, pages * 4096)
        memory.write(bytes([n + 1]) * (pages * 4096))
        os.pwrite(device, memory, n * STEP)
    os.fsync(device)
END
oracle-crash 0
";
const WRITES: usize = 40;
const STEP: usize = 17 * 4096;

/// The start of both of md's sets; the rest is zeros.
fn md_wrote() -> Vec<u8> {
    let mut content = vec![0; WRITES * STEP];
    for n in 0..WRITES {
        content[n * STEP..][..(1 + n % 5) * 4096].fill(n as u8 + 1);
    }
    content
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

fn is_there(program: &str, arguments: &[&str], says: &str) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(says))
}

/// The machine, where it and the programs that a test wants are there.
fn oracle(programs: bool) -> Option<PathBuf> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let tools = is_there("qemu-system-x86_64", &["--version"], "QEMU")
        && (!programs
            || is_there("nbdcopy", &["--version"], "nbdcopy")
                && is_there("fio", &["--enghelp"], "nbd"));
    if !oracle.is_file() || !tools {
        println!("skipped: {}, QEMU, nbdcopy or fio is not there", oracle.display());
        return None;
    }
    Some(oracle)
}

/// A program that runs in a folder.
fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env_remove("SPINDLE_DEVICES");
    command
}

fn spindle(dir: &Path) -> Command {
    command(env!("CARGO_BIN_EXE_spindle"), dir)
}

fn new_disks(dir: &Path, disks: &[&str]) {
    for disk in disks {
        let file = std::fs::File::create(dir.join(disk)).expect("a disk");
        file.set_len(DISK_BYTES).expect("a size");
    }
}

/// `/dev/vda /dev/vdb ...`
fn nodes(numbers: std::ops::Range<u8>) -> String {
    let node = |number| format!("/dev/vd{}", char::from(b'a' + number));
    numbers.map(node).collect::<Vec<_>>().join(" ")
}

/// Serves the set p, kills the server while it writes, and gives the digest of all but what was being written.
fn killed_while_writing(dir: &Path) -> String {
    let serve = ["md", "-d", ".", "serve", "p", "--nbd", "unix:s"];
    let mut server = spindle(dir).args(serve).stderr(Stdio::null()).spawn().expect("it starts");
    let since = Instant::now();
    while !dir.join("s").exists() {
        assert!(since.elapsed() < PATIENCE, "the server does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    let size = run(command("nbdinfo", dir).args(["--size", URI]));
    let size: usize = size.trim().parse().expect("a size");
    let mut prng = stdx::Prng::new(1);
    let mut content = vec![0; size];
    prng.fill(&mut content);
    std::fs::write(dir.join("base"), &content).expect("written");
    run(command("nbdcopy", dir).args(["--flush", "base", URI]));
    let job = ["--name=w", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=32"];
    let mut writer = command("fio", dir)
        .args(job)
        .args([&format!("--uri={URI}"), &format!("--blockalign={ROW}"), &format!("--size={size}")])
        .args(["--time_based", "--runtime=60"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_secs(5));
    server.kill().expect("killed");
    server.wait().expect("gone");
    // It ends by itself when the server is gone, or not.
    let _ = writer.kill();
    writer.wait().expect("gone");

    content.chunks_mut(ROW).for_each(|row| {
        let end = row.len().min(PAGE);
        row[..end].fill(0);
    });
    std::fs::write(dir.join("masked"), &content).expect("written");
    let digest = run(command("sha256sum", dir).arg("masked"));
    digest.split(' ').next().expect("a digest").to_owned()
}

/// Makes a RAID 5 of four by these words, kills its server, and lets md judge. `others` come behind the members.
fn md_closes_the_hole(create: &[&str], others: &[&str], policy: &str) {
    let Some(oracle) = oracle(true) else { return };
    let folder = fixtures::scratch::folder();
    let dir = folder.path();
    let members = ["d0.raw", "d1.raw", "d2.raw", "d3.raw"];
    new_disks(dir, &members);
    new_disks(dir, others);
    run(spindle(dir)
        .args(["md", "create", "p", "-l", "5", "-n", "4", "-c", "64"])
        .args(create)
        .args(members));
    run(spindle(dir).args(["md", "-d", ".", "repair", "p"]));
    let digest = killed_while_writing(dir);

    let program = DIGEST.replace("ROW", &ROW.to_string()).replace("PAGE", &PAGE.to_string());
    std::fs::write(dir.join("digest.py"), program).expect("written");
    let all: Vec<&str> = members.iter().chain(others).copied().collect();
    let whole = all.len() as u8;
    let script = SCRIPT.replace("WHOLE", &nodes(0..whole));
    let script = script.replace("PART", &nodes(whole..2 * whole - 1));
    std::fs::write(dir.join("check.sh"), script).expect("written");
    let mut machine = command(oracle.to_str().expect("a path"), dir);
    machine.args(["--cache", "unsafe", "--timeout", MACHINE_SECONDS_MAX, "--file"]);
    machine.arg(format!("{}:digest.py", dir.join("digest.py").display()));
    for disk in &all {
        machine.arg("--disk").arg(dir.join(disk));
    }
    for disk in all.iter().filter(|disk| **disk != members[2]) {
        let copy = dir.join(format!("copy-{disk}"));
        std::fs::copy(dir.join(disk), &copy).expect("copied");
        machine.arg("--disk").arg(copy);
    }
    let said = run(machine.arg(dir.join("check.sh")));
    let policy = format!("policy {policy}");
    for expected in ["action idle", "mismatches 0", "missing 1", &policy] {
        assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
    }
    for name in ["whole", "degraded"] {
        let expected = format!("{name} {digest}");
        assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
    }
}

#[test]
#[ignore = "boots a machine: a minute"]
fn the_real_md_closes_the_hole_by_the_log_of_a_server_that_was_killed() {
    md_closes_the_hole(&["-k", "ppl"], &[], "ppl");
}

#[test]
#[ignore = "boots a machine: a minute"]
fn the_real_md_replays_the_journal_of_a_server_that_was_killed() {
    md_closes_the_hole(&["--write-journal", "j.raw"], &["j.raw"], "journal");
}

#[test]
#[ignore = "boots a machine: a minute"]
fn a_journal_of_the_real_md_is_brought_in_after_its_machine_stopped() {
    let Some(oracle) = oracle(false) else { return };
    let folder = fixtures::scratch::folder();
    let dir = folder.path();
    let sets = [("0", vec!["a", "b", "c", "d"]), ("1", vec!["e", "f", "g", "h", "i"])];
    let mut machine = command(oracle.to_str().expect("a path"), dir);
    machine.args(["--cache", "unsafe", "--timeout", MACHINE_SECONDS_MAX]);
    for disk in sets.iter().flat_map(|(_, disks)| disks) {
        new_disks(dir, &[disk]);
        machine.arg("--disk").arg(dir.join(disk));
    }
    let script = MD_SCRIPT.replace("WRITES", &WRITES.to_string());
    std::fs::write(dir.join("md.sh"), script.replace("STEP", &STEP.to_string())).expect("written");
    run(machine.arg(dir.join("md.sh")));

    let expected = md_wrote();
    for (name, disks) in sets {
        let md = |words: &[&str]| {
            let mut command = spindle(dir);
            command.arg("md");
            command.args(disks.iter().flat_map(|disk| ["-d", disk]));
            run(command.args(words))
        };
        let check = |when: &str| {
            md(&["dump", "--overwrite", name, "content"]);
            let found = std::fs::read(dir.join("content")).expect("dumped");
            assert!(found.len() > expected.len(), "set {name}, {when}");
            let differs = found.iter().zip(&expected).position(|(found, right)| found != right);
            assert_eq!(differs, None, "set {name}, {when}");
            assert!(found[expected.len()..].iter().all(|byte| *byte == 0), "set {name}, {when}");
        };
        check("read only");
        assert!(md(&["assemble", name]).contains("and 1 journal"), "set {name}");
        assert!(md(&["check", name]).contains("mismatch_cnt = 0"), "set {name}");
        check("brought in");
        // Without a member: from the others and parity.
        let less: Vec<&str> = disks.iter().skip(1).copied().collect();
        let mut command = spindle(dir);
        command.arg("md");
        command.args(less.iter().flat_map(|disk| ["-d", disk]));
        run(command.args(["dump", "--overwrite", name, "content"]));
        let found = std::fs::read(dir.join("content")).expect("dumped");
        assert!(found.starts_with(&expected), "set {name}, without its first member");
    }
}
