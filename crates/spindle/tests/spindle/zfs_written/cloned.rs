//! Pools in which the OpenZFS kernel cloned blocks: written by Spindle, which frees some of the pointers, and taken by the kernel again.
//!
//! What could break: a block that is free though a clone of it is there, one that is never free, a table that doesn't say what is.

use super::kernel::Machine;
use super::pools::{done, run};

const DISK_BYTES: u64 = 96 << 20;
const FEATURES: &str = "async_destroy empty_bpobj lz4_compress spacemap_histogram enabled_txg hole_birth spacemap_v2 \
    extensible_dataset bookmarks embedded_data large_blocks block_cloning log_spacemap livelist";

#[test]
#[ignore = "boots a machine, three times: some minutes"]
fn the_kernel_goes_on_with_pools_whose_clones_spindle_freed() {
    let Some(machine) = Machine::of(&["a", "b"], DISK_BYTES) else { return };
    let at = machine.disks();
    let features = FEATURES.split(' ').map(|name| format!(" -o feature@{name}=enabled"));
    let create = format!("zpool create -d{}", features.collect::<String>());
    // Three of each block of the first file in two pools, two of each of the second's first half.
    let said = machine.run(&format!(
        "modprobe zfs; echo 1 > /sys/module/zfs/parameters/zfs_bclone_enabled\n\
         for p in pa pb; do\n\
           d=$(echo $p | cut -c2); {create} -O recordsize=16k $p /p/$d; for f in x y z; do zfs create $p/$f; done\n\
           dd if=/dev/urandom of=/$p/x/one bs=64k count=40 status=none; zpool sync $p\n\
           dd if=/dev/urandom of=/$p/y/two bs=64k count=20 status=none; zpool sync $p\n\
           for f in y z; do cp --reflink=auto /$p/x/one /$p/$f/one; done\n\
           cp --reflink=auto /$p/y/two /$p/z/two; zpool sync $p\n\
           zpool get -Hpo value bcloneused,bclonesaved $p; sha256sum /$p/z/*; zpool export $p\n\
         done\n"
    ));
    let sums: Vec<&str> = said.lines().filter(|line| line.contains("/z/")).collect();
    assert_eq!(sums.len(), 4, "{said}");
    let saved = |pool: &str| -> u64 {
        let saved = done(at, &["zpool", "get", "-Hpo", "value", "bclonesaved", pool]);
        saved.trim().parse().expect("a number")
    };
    let (one, two) = (40 * (64 << 10), 20 * (64 << 10));
    for pool in ["pa", "pb"] {
        assert_eq!(saved(pool), 2 * one + two);
    }
    done(at, &["zfs", "destroy", "pa/x"]);
    assert_eq!(saved("pa"), one + two);
    done(at, &["zfs", "snapshot", "pa/y@s"]);
    done(at, &["zfs", "destroy", "-r", "pa/y"]);
    assert_eq!(saved("pa"), 0);
    let table = ["zpool", "get", "-Ho", "value", "feature@block_cloning"];
    assert_eq!(done(at, &[&table[..], &["pa"]].concat()), "enabled\n");
    done(at, &["zfs", "destroy", "pb/z"]);
    assert_eq!((saved("pb"), &*done(at, &[&table[..], &["pb"]].concat())), (one, "active\n"));
    for name in ["pa/z:one", "pa/z:two", "pb/y:one"] {
        assert!(run(at, &["zfs", "cat", name]).status.success(), "{name}");
    }
    for pool in ["pa", "pb"] {
        done(at, &["zpool", "scrub", "--read-only", pool]);
    }
    let said = machine.run(
        "echo 1 > /sys/module/zfs/parameters/zfs_bclone_enabled || true\n\
         for p in pa pb; do\n\
           zdb -e -p /p -bcc $p 2>&1 | grep -i -e leak -e mismatch -e error || true\n\
           zpool import -d /p $p; zpool scrub -w $p; zpool status $p | grep -e scan: -e errors:\n\
         done\n\
         sha256sum /pa/z/* /pb/y/*\n\
         rm /pb/x/one; zpool sync pb; zpool sync pb; zpool get -Hpo value bclonesaved pb; zfs destroy pa/z\n\
         for p in pa pb; do zpool sync $p; zpool scrub -w $p; zpool export $p\n\
           zdb -e -p /p -bcc $p 2>&1 | grep -i -e leak -e mismatch -e error || true\n\
         done\n",
    );
    assert_eq!(
        said.matches("No leaks (block sum matches space maps exactly)").count(),
        4,
        "{said}"
    );
    assert_eq!(said.matches("scrub repaired 0B").count(), 2, "{said}");
    assert!(!said.contains("mismatch"), "{said}");
    for sum in sums.iter().map(|line| line.split(' ').next().unwrap_or_default()) {
        assert!(said.contains(sum), "{sum}: {said}");
    }
}
