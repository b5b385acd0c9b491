//! The real OpenZFS takes pools that Spindle administered: with vdevs added, spares and a cache device, features enabled, and a leaf that
//! was away while they were written; and Spindle goes on after it.
//!
//! What could break: a label or list that the kernel reads otherwise, and a leaf that came back and is taken for whole.

use super::pools::{add_disks, done, judge, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const DISK_BYTES: u64 = 72 << 20;
const DISKS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// The machine, and disks that it sees as files in `/p`.
pub struct Machine {
    oracle: PathBuf,
    names: Vec<&'static str>,
    disks: TempDir,
    out: TempDir,
}

impl Machine {
    /// With these disks, empty; nothing, said aloud, where it is not there.
    pub fn of(names: &[&'static str], bytes: u64) -> Option<Machine> {
        let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
        let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
        if !oracle.is_file() || !qemu {
            println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
            return None;
        }
        let (disks, out) = (super::pools::disks(names, bytes), fixtures::scratch::folder());
        Some(Machine { oracle, names: names.to_vec(), disks, out })
    }

    /// Where the disks lie.
    pub fn disks(&self) -> &Path {
        self.disks.path()
    }

    /// Where other files lie.
    pub fn out(&self) -> &Path {
        self.out.path()
    }

    /// Runs a script in it, and gives what it printed. The disks are as it left them then.
    pub fn run(&self, work: &str) -> String {
        let mut script = String::from("set -e\nmkdir /p; mount -t tmpfs -o size=1500m none /p\n");
        for (name, node) in self.names.iter().zip('a'..) {
            script += &format!("dd if=/dev/vd{node} of=/p/{name} bs=1M conv=sparse status=none\n");
        }
        script += work;
        for (name, node) in self.names.iter().zip('a'..) {
            script += &format!("dd if=/p/{name} of=/dev/vd{node} bs=1M status=none\n");
        }
        script += "sync\n";
        let path = self.out().join("work.sh");
        std::fs::write(&path, script).expect("a script");
        let mut machine = Command::new(&self.oracle);
        machine.args(["--mem", "3000", "--cache", "unsafe", "--timeout", "500"]);
        for name in &self.names {
            machine.arg("--disk").arg(self.disks().join(name));
        }
        let output = machine.arg(&path).output().expect("the machine starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{said}");
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }
}

pub fn file(folder: &Path, seed: u8) -> String {
    let path = folder.join(format!("file{seed}"));
    let mut word = u64::from(seed) | 1;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 56) as u8
    })
    .take(2_000_000)
    .collect();
    std::fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

pub fn digest(path: &str) -> String {
    let output = Command::new("sha256sum").arg(path).output().expect("it runs").stdout;
    String::from_utf8_lossy(&output).split(' ').next().unwrap_or_default().to_owned()
}

#[test]
#[ignore = "boots a machine: some minutes"]
fn the_kernel_takes_pools_that_were_added_to_upgraded_and_written_without_a_leaf() {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return;
    }
    let (folder, away) = (fixtures::scratch::folder(), fixtures::scratch::folder());
    let (at, out) = (folder.path(), away.path());
    add_disks(at, &DISKS, DISK_BYTES);
    let (one, two) = (file(out, 1), file(out, 2));
    let copy = |from: &str, pool: &str| drop(done(at, &["zfs", "cp", from, &format!("{pool}:")]));
    done(at, &["zpool", "create", "tank", "mirror", "a", "b", "spare", "g"]);
    copy(&one, "tank");
    let vdevs = ["mirror", "c", "d", "log", "e", "cache", "f", "spare", "l"];
    done(at, &[&["zpool", "add", "tank"], &vdevs[..]].concat());
    done(at, &["zpool", "add", "-f", "tank", "special", "h"]);
    copy(&two, "tank");
    done(at, &["zpool", "create", "-d", "old", "k"]);
    copy(&one, "old");
    done(at, &["zpool", "upgrade", "old"]);
    copy(&two, "old");
    done(at, &["zpool", "create", "deg", "mirror", "i", "j"]);
    copy(&one, "deg");
    std::fs::copy(at.join("j"), out.join("j")).expect("it is kept");
    std::fs::remove_file(at.join("j")).expect("it goes");
    copy(&two, "deg");
    std::fs::copy(out.join("j"), at.join("j")).expect("it is back");
    // Whoever writes now takes nothing out of what it misses.
    done(at, &["zfs", "create", "deg/later"]);
    for pool in ["tank", "old", "deg"] {
        judge(at, pool);
    }
    let mut script = String::from("set -e\nmkdir /p; mount -t tmpfs -o size=1500m none /p\n");
    for (name, node) in DISKS.iter().zip('a'..) {
        script += &format!("dd if=/dev/vd{node} of=/p/{name} bs=1M conv=sparse status=none\n");
    }
    script += "for pool in tank old deg; do zpool import -d /p $pool; done\n\
        for n in $(seq 60); do zpool status deg | grep -q 'scan: resilvered' && break; sleep 1; done; zpool status\n\
        for pool in tank old deg; do\n\
          for n in 1 2; do echo $pool file$n $(sha256sum < /$pool/file$n); done\n\
          zpool scrub -w $pool; zpool status $pool | grep -e scan -e errors:\n\
          echo hello > /$pool/hello; zfs snapshot $pool@kernel\n\
        done\n\
        zfs create -o compression=zstd old/z; cp /old/file1 /old/z; zpool iostat -v tank\n\
        zpool offline deg /p/i; sync; echo alone $(sha256sum < /deg/file2); zpool online deg /p/i\n\
        for pool in tank old deg; do zpool export $pool; done\n";
    for (name, node) in DISKS.iter().zip('a'..) {
        script += &format!("dd if=/p/{name} of=/dev/vd{node} bs=1M status=none\n");
    }
    script += "sync\n";
    let path = out.join("check.sh");
    std::fs::write(&path, script).expect("a script");
    let mut machine = Command::new(&oracle);
    machine.args(["--mem", "3500", "--cache", "unsafe", "--timeout", "500"]);
    for name in DISKS {
        machine.arg("--disk").arg(at.join(name));
    }
    let output = machine.arg(&path).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for pool in ["tank", "old", "deg"] {
        for (n, file) in [(1, &one), (2, &two)] {
            assert!(said.contains(&format!("{pool} file{n} {}", digest(file))), "{pool}: {said}");
        }
    }
    assert!(said.contains(&format!("alone {}", digest(&two))), "the leaf has it all: {said}");
    assert_eq!(said.matches("scrub repaired 0B").count(), 3, "{said}");
    let resilvered = said.lines().find(|line| line.contains("scan: resilvered"));
    let resilvered = resilvered.unwrap_or_else(|| panic!("it was taken for whole: {said}"));
    assert!(!resilvered.contains("resilvered 0B") && resilvered.contains("with 0 errors"));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = said.lines().map(words).collect();
    let zeros = ["ONLINE", "0", "0", "0"];
    for line in [
        vec!["/p/g", "AVAIL"],
        vec!["/p/l", "AVAIL"],
        [&["/p/f"], &zeros[..]].concat(),
        [&["/p/h"], &zeros[..]].concat(),
        [&["/p/e"], &zeros[..]].concat(),
    ] {
        assert!(lines.iter().any(|known| *known == line), "{line:?}: {said}");
    }
    for pool in ["tank", "old", "deg"] {
        assert!(run(at, &["zfs", "cat", &format!("{pool}:hello")]).stdout == b"hello\n", "{pool}");
        done(at, &["zfs", "create", &format!("{pool}/after")]);
        judge(at, pool);
    }
    done(at, &["zpool", "scrub", "--read-only", "deg"]);
}
