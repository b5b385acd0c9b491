//! A pool from which OpenZFS removed two vdevs, one after the other, written from the outside.
//!
//! What could break: a pool is not found whole though all that it has is there; what is freed is leaked, or counted as another's; a vdev
//! joins that OpenZFS would refuse beside mappings.

use super::pools::{add_disks, done, printed_and_said, refused};

const POOL: &str = "t_removed_vdev";

#[test]
fn a_pool_with_removed_vdevs_is_found_whole_and_written() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let unpacked = fixtures::unpack(&folder, "removed-vdev");
    let at = unpacked.path();
    let whole = "No leaks (block sum matches space maps exactly)";
    for listed in [&["zpool", "status", POOL][..], &["zpool", "import"], &["zpool", "list", POOL]] {
        let (printed, said) = printed_and_said(at, listed);
        assert!(printed.contains(POOL) && !said.contains("missing"), "{listed:?}: {said}");
    }
    let (printed, _) = printed_and_said(at, &["scan", "."]);
    assert!(printed.contains(POOL) && !printed.contains("missing"), "{printed}");
    assert!(done(at, &["zpool", "debug", "blocks", POOL]).contains(whole));
    let before = format!("{POOL}@before");
    done(at, &["zfs", "rollback", &before]);
    done(at, &["zfs", "destroy", &before]);
    done(at, &["zfs", "create", &format!("{POOL}/new")]);
    assert!(done(at, &["zpool", "debug", "blocks", POOL]).contains(whole));
    add_disks(at, &["a", "b", "c"], 96 << 20);
    let raidz = ["zpool", "add", "-f", POOL, "raidz", "a", "b", "c"];
    refused(at, &raidz, "a pool with removing/removed vdevs does not support adding raidz");
    done(at, &["zpool", "add", "-f", POOL, "a"]);
    done(at, &["zpool", "export", POOL]);
    assert!(done(at, &["zpool", "debug", "blocks", POOL]).contains(whole));
    let scrub = done(at, &["zpool", "scrub", "--read-only", POOL]);
    assert!(scrub.contains("0 damaged"), "{scrub}");
}
