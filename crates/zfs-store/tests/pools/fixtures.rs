//! Every fixture is read from its root to the last block.
//!
//! What could break: any map of any vdev, a checksum or a form of compression, gangs, removed vdevs, labels. A block
//! that was read is right by its checksum, so it is enough to count them.

use crate::rig::{Pool, run};
use crate::walk::walk;
use ::fixtures::{Disk, disks, folder, names};

/// Fixtures whose disks gave wrong bytes or stale ones; all others must not count a single error.
const DAMAGED: [(&str, &[usize]); 3] =
    [("corrupt-mirror", &[0]), ("corrupt-z1", &[1]), ("corrupt-z2-two", &[0, 2])];

/// Two tests, for two processors.
#[test]
fn every_block_of_every_other_fixture_is_read() {
    read(0);
}

#[test]
fn every_block_of_the_other_fixtures_is_read() {
    read(1);
}

fn read(first: usize) {
    let Some(folder) = folder("zfs") else { return };
    for name in names(&folder).into_iter().skip(first).step_by(2) {
        let disks = disks(&folder, &name);
        let (walk, errors) = run(|rt| async move {
            let images: Vec<_> = disks.iter().map(Disk::vdev).collect();
            let pool = Pool::open(&rt, &images).await;
            let walk = walk(&pool.zio, &pool.uberblock.root).await;
            (walk, pool.errors())
        });
        println!("{name}: {} blocks, {} of data, {errors:?}", walk.blocks, walk.data);
        assert!(walk.errors.is_empty(), "{name}: {:?}", walk.errors);
        assert!(walk.blocks > 50, "{name}: {walk:?}");
        let expected = DAMAGED.iter().find(|(known, _)| *known == name).map_or(&[][..], |d| d.1);
        let found: Vec<usize> = errors.keys().copied().collect();
        assert_eq!(found, expected, "{name}: {errors:?}");
        assert!(errors.values().all(|errors| errors.read == 0 && errors.checksum > 0), "{name}");
    }
}
