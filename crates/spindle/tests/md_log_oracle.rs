//! A RAID 5 with a partial parity log whose server was killed while it wrote, judged by the real md.
//!
//! What could break: a log that md does not read as we wrote it. `spindle md serve` is killed in the midst of
//! random writes of the first page of each row. In the oracle machine md puts the parity right by the logs, takes the
//! set for clean, checks it (0 mismatches), and all but those pages must be as it was; the same with a member
//! missing, from copies of the others.
//!
//! It boots a machine, so it runs when it is asked for: `cargo test -p spindle --test md_log_oracle -- --ignored`.
//! Where the machine, nbdcopy or a fio with NBD are not there it is skipped.

#![allow(clippy::disallowed_methods, reason = "the program is tested from the outside")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Size of each disk.
const DISK_BYTES: u64 = 32 << 20;
/// Bytes of a row: three data chunks of 64 KiB.
const ROW: usize = 3 * 64 * 1024;
/// What is written of each row.
const PAGE: usize = 4096;
const URI: &str = "nbd+unix:///?socket=s";

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

const SCRIPT: &str = "
set -e
mdadm --assemble --run /dev/md0 /dev/vd[abcd] 2>&1
echo action $(cat /sys/block/md0/md/sync_action)
mdadm --wait /dev/md0 || true
echo check > /sys/block/md0/md/sync_action; mdadm --wait /dev/md0 || true
echo mismatches $(cat /sys/block/md0/md/mismatch_cnt)
echo whole $(python3 /oracle/digest.py /dev/md0)
mdadm --stop /dev/md0 2>&1
mdadm --assemble --run /dev/md1 /dev/vd[efg] 2>&1
echo missing $(cat /sys/block/md1/md/degraded)
echo degraded $(python3 /oracle/digest.py /dev/md1)
mdadm --stop /dev/md1 2>&1
";

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

#[test]
#[ignore = "boots a machine: a minute"]
fn the_real_md_closes_the_hole_by_the_log_of_a_server_that_was_killed() {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let tools = is_there("qemu-system-x86_64", &["--version"], "QEMU")
        && is_there("nbdcopy", &["--version"], "nbdcopy")
        && is_there("fio", &["--enghelp"], "nbd");
    if !oracle.is_file() || !tools {
        println!("skipped: {}, QEMU, nbdcopy or fio is not there", oracle.display());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(dir).env_remove("SPINDLE_DEVICES");
        command
    };
    let disks = ["d0.raw", "d1.raw", "d2.raw", "d3.raw"];
    for disk in disks {
        let file = std::fs::File::create(dir.join(disk)).expect("a disk");
        file.set_len(DISK_BYTES).expect("a size");
    }
    let spindle = || command(env!("CARGO_BIN_EXE_spindle"));
    let create = ["md", "create", "p", "-l", "5", "-n", "4", "-c", "64", "-k", "ppl"];
    run(spindle().args(create).args(disks));
    run(spindle().args(["md", "-d", ".", "repair", "p"]));

    let serve = ["md", "-d", ".", "serve", "p", "--nbd", "unix:s"];
    let mut server = spindle().args(serve).stderr(Stdio::null()).spawn().expect("it starts");
    while !dir.join("s").exists() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let size = run(command("nbdinfo").args(["--size", URI]));
    let size: usize = size.trim().parse().expect("a size");
    let mut prng = stdx::Prng::new(1);
    let mut content = vec![0; size];
    prng.fill(&mut content);
    std::fs::write(dir.join("base"), &content).expect("written");
    run(command("nbdcopy").args(["--flush", "base", URI]));
    let job = ["--name=w", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=32"];
    let mut writer = command("fio")
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
    let digest = run(command("sha256sum").arg("masked"));
    let digest = digest.split(' ').next().expect("a digest");
    let program = DIGEST.replace("ROW", &ROW.to_string()).replace("PAGE", &PAGE.to_string());
    std::fs::write(dir.join("digest.py"), program).expect("written");
    std::fs::write(dir.join("check.sh"), SCRIPT).expect("written");
    let mut machine = command(oracle.to_str().expect("a path"));
    machine.args(["--cache", "unsafe", "--timeout", "280", "--file"]);
    machine.arg(format!("{}:digest.py", dir.join("digest.py").display()));
    for disk in disks {
        machine.arg("--disk").arg(dir.join(disk));
    }
    // Without the third.
    for disk in [disks[0], disks[1], disks[3]] {
        let copy = dir.join(format!("copy-{disk}"));
        std::fs::copy(dir.join(disk), &copy).expect("copied");
        machine.arg("--disk").arg(copy);
    }
    let said = run(machine.arg(dir.join("check.sh")));
    for expected in ["action idle", "mismatches 0", "missing 1"] {
        assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
    }
    for name in ["whole", "degraded"] {
        let expected = format!("{name} {digest}");
        assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
    }
}
