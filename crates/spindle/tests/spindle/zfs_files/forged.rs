//! A fixture that is changed as a forger would: every checksum is right, up to a new uberblock.

use super::fixture::Fixture;
use super::forge::{Forge, Place};
use fixtures::Disk;
use rt::{DeviceRef, Reactor, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs::spa::{self, OpenOptions, Spa};

/// What is looked at and copied as one.
const PIECE: u64 = 64 << 10;
/// The kind of a directory, in an entry's value.
const DIRECTORY: u64 = 4 << 60;
/// Bytes of an entry of a small table, and of the table's head.
const ENTRY: usize = 64;

/// The longest stretch of zeros.
fn gap(disk: &Disk) -> Range<u64> {
    let (mut best, mut from) = (0..0, 0);
    let parts = disk.parts().map(|(at, part)| (at, at + part.len() as u64));
    for (at, end) in parts.chain([(disk.bytes, disk.bytes)]) {
        if at - from > best.end - best.start {
            best = from..at;
        }
        from = end;
    }
    best
}

/// Changes the pool on the one disk of a fixture.
pub(crate) fn forge(fixture: &Fixture, change: impl AsyncFnOnce(&Spa, &mut Forge) + 'static) {
    let path = fixture.path().join("disk0.raw");
    let before = Disk::of_file(&path);
    let (capacity, gap, disk) = (before.bytes, gap(&before), before.device());
    let its = Rc::clone(&disk);
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let found = spa::find(&[Rc::clone(&its) as DeviceRef]).await;
        let spa = Spa::open(&rt, &found.pools[0], OpenOptions::default()).await;
        let spa = Rc::new(spa.unwrap_or_else(|error| panic!("it opens: {error}")));
        let mut forge = Forge::new(&its, capacity, &spa, gap);
        change(&spa, &mut forge).await;
        forge.finish(&mut |_| {});
    });
    done.expect("it ends");
    // What is zeros and was, is a hole, and stays one.
    let held: BTreeSet<u64> = before.parts().map(|(at, _)| at).collect();
    let file = File::options().write(true).open(path).expect("it opens");
    for at in (0..capacity).step_by(PIECE as usize) {
        let piece = disk.peek(Offset(at), ByteCount(PIECE.min(capacity - at))).to_vec();
        if held.contains(&at) || !fixtures::is_zeros(&piece) {
            file.write_all_at(&piece, at).expect("written");
        }
    }
}

/// The number of a dataset.
pub(crate) async fn dataset(spa: &Spa, name: &str) -> u64 {
    spa.dsl().find(name).await.expect("it is read").expect("it is there").1.number
}

/// Puts a directory into another one, which is a small table with room.
pub(crate) async fn add_entry(forge: &mut Forge, dataset: u64, into: u64, name: &str, object: u64) {
    let mut added = false;
    let mut edit = |block: &mut [u8]| {
        let mut entries = block.chunks_exact_mut(ENTRY).skip(1);
        let free = entries.find(|entry| entry[14] == 0).expect("a free entry");
        free[..8].copy_from_slice(&(DIRECTORY | object).to_le_bytes());
        free[14..14 + name.len()].copy_from_slice(name.as_bytes());
        added = true;
    };
    assert!(
        forge.dataset(dataset, Place::Data(into, 0), &mut edit).await.is_ok() && added,
        "{name}"
    );
}

/// Puts a text in the place of another one of the same length, wherever it stands in a block.
pub(crate) fn replace(block: &mut [u8], old: &[u8], new: &[u8]) -> usize {
    assert_eq!(old.len(), new.len());
    let places: Vec<usize> = (0..block.len().saturating_sub(old.len()))
        .filter(|at| block[*at..].starts_with(old))
        .collect();
    places.iter().for_each(|at| block[*at..at + new.len()].copy_from_slice(new));
    places.len()
}
