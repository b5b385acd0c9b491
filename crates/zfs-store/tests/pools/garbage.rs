//! Pointers and labels that nobody wrote.
//!
//! What could break: a panic, a loop, memory without bound, or an error counted on a disk that did nothing wrong.

use crate::rig::{Pool, run};
use ::fixtures::{Disk, disks, folder};
use rt::{Buf, DeviceRef, MemoryDevice};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs_format::block_pointer::{BlockPointer, Dva};
use zfs_store::{BlockRequest, Bookmark, ReadBlocks, label};

/// Any words; or in every other case known functions, sizes up to 128 KiB and places that could be there.
fn pointer(prng: &mut Prng) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    pointer.words.iter_mut().for_each(|word| *word = prng.next_u64());
    if prng.chance(0.5) {
        return pointer;
    }
    pointer.words[6] = 1 << 63 | 19 << 48 | (prng.below(14) + 2) << 40 | 2 << 32;
    pointer.words[6] |= prng.below(256) << 16 | prng.below(256);
    let (vdev, gang) = (prng.below(4) as u32, prng.chance(0.3));
    for copy in 0..3 {
        pointer.set_dva(copy, Dva::new(vdev, 512 * prng.below(1 << 18), 4096, gang));
    }
    pointer
}

#[test]
fn pointers_that_nobody_wrote_give_errors_and_blame_nobody_for_what_lies_outside() {
    let Some(folder) = folder("zfs") else { return };
    for name in ["z2-5", "draid1", "removed-vdev", "stripe-of-two-mirrors"] {
        let disks = disks(&folder, name);
        run(|rt| async move {
            let images: Vec<_> = disks.iter().map(Disk::vdev).collect();
            let pool = Pool::open(&rt, &images).await;
            let (mut prng, mut refused) = (Prng::new(4), 0);
            for _ in 0..1000 {
                let pointer = pointer(&mut prng);
                let request = BlockRequest::new(pointer, Bookmark::default());
                match pool.zio.read(request).await {
                    Ok(block) => assert_eq!(block.len() as u64, pointer.logical_size()),
                    Err(_) => refused += 1,
                }
            }
            assert!(refused > 500, "{name}: {refused} were refused");
            assert!(pool.errors().values().all(|errors| errors.read == 0), "{name}");
        });
    }
}

#[test]
fn what_is_wrong_with_labels_is_said_for_each() {
    let Some(folder) = folder("zfs") else { return };
    let disks = disks(&folder, "corrupt-labels");
    run(|_| async move {
        let images: Vec<_> = disks.iter().map(Disk::vdev).collect();
        let labels = label::read(&images[0].device).await;
        let right: Vec<usize> = labels.configurations().map(|(number, _)| number).collect();
        assert_eq!(right, [2], "label 2 is left");
        let [noise, _, whole, zeros] = labels.labels.as_slice() else { panic!("there are four") };
        assert!(zeros.configuration.is_err() && zeros.damaged.is_empty());
        assert!(noise.configuration.is_err() && noise.uberblocks.is_empty());
        // The size of its slots is known from the label that is left.
        assert_eq!(noise.damaged.len(), 128);
        assert!(whole.damaged.is_empty() && whole.uberblocks.len() > 3);
        assert!(labels.best_uberblock().is_some());
    });
}

#[test]
fn devices_of_any_content_and_size_have_labels_or_none() {
    run(|_| async move {
        let mut prng = Prng::new(5);
        for kib in [0, 1, 4, 255, 512, 1023, 1024, 1025, 4096] {
            let device = MemoryDevice::new("any", ByteCount::kib(kib));
            let mut bytes = vec![0; (kib << 10) as usize];
            prng.fill(&mut bytes);
            device.poke(Offset(0), &Buf::copy_of(&bytes).into());
            let device = Rc::clone(&device) as DeviceRef;
            let labels = label::read(&device).await;
            assert_eq!(labels.labels.len(), if kib < 1024 { 0 } else { 4 });
            assert_eq!(labels.configurations().count(), 0);
            assert!(labels.best_uberblock().is_none());
        }
    });
}
