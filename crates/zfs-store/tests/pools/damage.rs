//! Pools with redundancy, spoilt as far as they bear it, and further.
//!
//! What could break: reconstruction from some parity, or of some column; the order of the coefficients; a search that
//! ends too early; an error counted on a disk that told the truth; a panic where too much is lost.

use crate::rig::{Pool, run};
use crate::walk::{Walk, walk};
use ::fixtures::{Disk, Vdev, disks, folder};
use rt::{Buf, Device};
use std::collections::BTreeMap;
use stdx::{Offset, Prng};
use zfs_format::label::{DATA_END, DATA_START};
use zfs_store::{BlockErrorKind, Errors};

/// Fixtures, and the groups of disks of which some may be lost, with how many of each.
const REDUNDANT: [(&str, &[&[usize]], usize); 8] = [
    ("two-mirror", &[&[0, 1]], 1),
    ("stripe-of-two-mirrors", &[&[0, 1], &[2, 3]], 1),
    ("z1-3", &[&[0, 1, 2]], 1),
    ("z1-3-ashift9", &[&[0, 1, 2]], 1),
    ("z1-expanded", &[&[0, 1, 2, 3]], 1),
    ("draid1", &[&[0, 1, 2, 3, 4]], 1),
    ("z2-5", &[&[0, 1, 2, 3, 4]], 2),
    ("z3-7", &[&[0, 1, 2, 3, 4, 5, 6]], 3),
];

/// What is done to a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Harm {
    /// It isn't there.
    Missing,
    /// All of its data area is zeros.
    Zeroed,
    /// Random bytes lie over some ranges of it.
    Scratched,
}

/// Bytes from the start of the data area in which the fixtures have their blocks.
const USED_BYTES: u64 = 40 << 20;

fn spoil(images: &mut [Vdev], victims: &[usize], harm: Harm, prng: &mut Prng) {
    for victim in victims {
        let image = &mut images[*victim];
        let end = image.device.geometry().capacity.bytes() - DATA_END;
        let at = |offset: u64| Offset(image.start + offset);
        match harm {
            Harm::Missing => image
                .disk
                .poke(Offset(0), &Buf::zeros(image.disk.geometry().capacity.as_usize()).into()),
            Harm::Zeroed => {
                image.disk.poke(at(DATA_START), &Buf::zeros((end - DATA_START) as usize).into());
            }
            Harm::Scratched => {
                for _ in 0..200 {
                    let len = 512 * (1 + prng.below(300));
                    let offset = DATA_START + 512 * prng.below((USED_BYTES - len) / 512);
                    let mut bytes = vec![0; len as usize];
                    prng.fill(&mut bytes);
                    image.disk.poke(at(offset), &Buf::copy_of(&bytes).into());
                }
            }
        }
    }
}

/// Opens the pool with the victims spoilt after it was opened, so that finding the labels is not what is tested; but a
/// missing disk is missing from the start.
pub fn read(
    disks: &[Disk],
    victims: Vec<usize>,
    harm: Harm,
    seed: u64,
) -> (Walk, BTreeMap<usize, Errors>) {
    let mut images: Vec<_> = disks.iter().map(Disk::vdev).collect();
    run(|rt| async move {
        let mut prng = Prng::new(seed);
        if harm == Harm::Missing {
            spoil(&mut images, &victims, harm, &mut prng);
        }
        let pool = Pool::open(&rt, &images).await;
        spoil(&mut images, &victims, harm, &mut prng);
        let walk = walk(&pool.zio, &pool.uberblock.root).await;
        (walk, pool.errors())
    })
}

/// Some of each group.
fn choose(groups: &[&[usize]], count: usize, prng: &mut Prng) -> Vec<usize> {
    let mut chosen = Vec::new();
    for group in groups {
        let mut group = group.to_vec();
        prng.shuffle(&mut group);
        chosen.extend(group.into_iter().take(count));
    }
    chosen.sort_unstable();
    chosen
}

#[test]
fn what_the_redundancy_bears_is_read_and_counted_on_the_disk_that_was_wrong() {
    let Some(folder) = folder("zfs") else { return };
    let mut prng = Prng::new(1);
    for (name, groups, parity) in REDUNDANT {
        let disks = disks(&folder, name);
        let (whole, errors) = read(&disks, Vec::new(), Harm::Zeroed, 0);
        assert!(errors.is_empty() && whole.errors.is_empty(), "{name} is whole");
        for harm in [Harm::Missing, Harm::Zeroed, Harm::Scratched] {
            let victims = choose(groups, parity, &mut prng);
            let (walk, errors) = read(&disks, victims.clone(), harm, prng.next_u64());
            assert_eq!(walk, whole, "{name}, {victims:?} {harm:?}");
            let counted: Vec<usize> = errors.keys().copied().collect();
            if harm == Harm::Missing {
                assert!(counted.is_empty(), "{name}, {victims:?} missing: {errors:?}");
            } else {
                // Of a mirror the other side may have answered all along.
                let truthful = counted.iter().any(|number| !victims.contains(number));
                let silent = counted.is_empty() || !name.contains("mirror") && counted != victims;
                assert!(!truthful && !silent, "{name}, {victims:?} {harm:?}: {errors:?}");
                assert!(errors.values().all(|errors| errors.checksum > 0 && errors.read == 0));
            }
        }
    }
}

#[test]
fn one_more_than_the_redundancy_bears_gives_errors_and_nothing_wrong() {
    let Some(folder) = folder("zfs") else { return };
    let mut prng = Prng::new(2);
    for (name, groups, parity) in REDUNDANT {
        let disks = disks(&folder, name);
        let (whole, _) = read(&disks, Vec::new(), Harm::Zeroed, 0);
        for harm in [Harm::Zeroed, Harm::Scratched] {
            // All that is written in the dRAID is in one group of 3 disks: more than the other two must be hit.
            let beside = if name.starts_with("draid") { 2 } else { 0 };
            let victims = choose(groups, parity + 1 + beside, &mut prng);
            let (walk, _) = read(&disks, victims.clone(), harm, prng.next_u64());
            // Scratches need not meet in one block.
            let bears = harm == Harm::Scratched && walk.errors.is_empty();
            assert!(bears || walk.blocks < whole.blocks, "{name}, {victims:?} {harm:?}");
            let kinds = walk.errors.iter().map(|error| &error.kind);
            assert!(
                kinds.clone().all(|kind| *kind == BlockErrorKind::Checksum),
                "{:?}",
                walk.errors
            );
        }
    }
}
