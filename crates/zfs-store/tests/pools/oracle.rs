//! Pools in states that no fixture has, which the real OpenZFS makes while we wait: an expansion in its midst, a raidz that
//! was expanded twice, a dRAID whose spare space stands in for a device.
//!
//! What could break: the two sides of an expansion's progress, the widths of its births, where spare space lies. Each pool
//! is read to its last block as it is, and with as many disks wiped as it bears.
//!
//! It boots a machine, which takes minutes where processors are busy, so it runs when it is asked for: `cargo test -p
//! zfs-store --test pools -- --ignored`. Where the machine is not there it is skipped.

#![allow(clippy::disallowed_methods, reason = "the machine is a program")]

use crate::damage::{Harm, read};
use ::fixtures::Disk;
use std::path::Path;
use std::process::Command;

/// Bytes of each disk.
const DISK_BYTES: u64 = 128 << 20;
/// Names and disks of the pools; which of the disks may be wiped together.
const POOLS: [(&str, usize, &[&[usize]]); 3] = [
    ("midst", 4, &[&[0], &[1], &[2], &[3]]),
    ("twice", 6, &[&[0, 1], &[2, 5], &[3, 4]]),
    ("standin", 5, &[&[0], &[2], &[3], &[4]]),
];

/// Disks are /dev/loop0 to /dev/loop14, in the order of the pools.
const SCRIPT: &str = "
set -e
modprobe zfs
for n in a b c d e f g h i j k l m n o; do losetup -f /dev/vd$n; done
data() { dd if=/dev/urandom of=$1 bs=1M count=$2 status=none; }
plain='-O compression=off -O recordsize=32k'
zpool create $plain twice raidz2 loop4 loop5 loop6 loop7
for disk in loop8 loop9; do
  data /twice/before-$disk 5
  for i in $(seq 1 60); do head -c $((RANDOM % 9000 + 1)) /dev/urandom > /twice/$disk-$i; done
  zpool attach -w twice raidz2-0 $disk
done
data /twice/after 5
zpool export twice
zpool create $plain standin draid1:2d:5c:1s loop10 loop11 loop12 loop13 loop14
data /standin/before 20
zpool offline standin loop11
zpool replace -w standin loop11 draid1-0-0
data /standin/after 8
zpool export standin
zpool create $plain midst raidz1 loop0 loop1 loop2
data /midst/before 24
zpool sync midst
echo 8000000 > /sys/module/zfs/parameters/raidz_expand_max_reflow_bytes
zpool attach midst raidz1-0 loop3
sleep 5
data /midst/during 6
sleep 5
zpool sync midst
zpool status midst | grep 'in progress'
oracle-crash 0
";

#[test]
#[ignore = "boots a machine: a minute or more"]
fn pools_in_the_midst_of_things_are_read() {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut machine = Command::new(&oracle);
    machine.args(["--cache", "unsafe", "--timeout", "590"]);
    let image = |pool: &str, number: usize| folder.path().join(format!("{pool}{number}.raw"));
    for (pool, count, _) in POOLS {
        for number in 0..count {
            let file = std::fs::File::create(image(pool, number)).expect("a disk");
            file.set_len(DISK_BYTES).expect("a size");
            machine.arg("--disk").arg(image(pool, number));
        }
    }
    let script = folder.path().join("make.sh");
    std::fs::write(&script, SCRIPT).expect("a script");
    let output = machine.arg(&script).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("in progress"), "{said}");
    for (pool, count, bearable) in POOLS {
        let disks: Vec<Disk> =
            (0..count).map(|number| Disk::of_file(&image(pool, number))).collect();
        let (whole, errors) = read(&disks, Vec::new(), Harm::Zeroed, 0);
        assert!(whole.errors.is_empty() && errors.is_empty(), "{pool}: {whole:?} {errors:?}");
        assert!(whole.data > 300, "{pool}: {whole:?}");
        for wiped in bearable {
            let (walk, errors) = read(&disks, wiped.to_vec(), Harm::Zeroed, 0);
            assert_eq!(walk, whole, "{pool} without {wiped:?}");
            assert!(errors.keys().all(|number| wiped.contains(number)), "{pool}: {errors:?}");
        }
    }
}
