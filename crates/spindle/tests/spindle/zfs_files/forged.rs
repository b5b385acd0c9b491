//! A fixture that is changed as a forger would: every checksum is right, up to a new uberblock.

use super::fixture::Fixture;
use super::forge::{Forge, Place};
use rt::{Buf, DeviceRef, MemoryDevice, Reactor, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::ops::Range;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs::spa::{self, OpenOptions, Spa};

/// What is looked at and copied as one.
const PIECE: usize = 64 << 10;
/// The kind of a directory, in an entry's value.
const DIRECTORY: u64 = 4 << 60;
/// Bytes of an entry of a small table, and of the table's head.
const ENTRY: usize = 64;

/// The longest stretch of zeros.
fn gap(bytes: &[u8]) -> Range<u64> {
    let (mut best, mut from) = (0..0, 0);
    for (n, piece) in bytes.chunks(PIECE).enumerate() {
        let end = (n + 1) * PIECE;
        if !fixtures::is_zeros(piece) {
            from = end;
        } else if end - from > best.end - best.start {
            best = from..end;
        }
    }
    best.start as u64..best.end as u64
}

/// Changes the pool on the one disk of a fixture.
pub(crate) fn forge(fixture: &Fixture, change: impl AsyncFnOnce(&Spa, &mut Forge) + 'static) {
    let path = fixture.path().join("disk0.raw");
    let bytes = std::fs::read(&path).expect("an image");
    let (capacity, gap) = (bytes.len() as u64, gap(&bytes));
    let disk = MemoryDevice::new("disk0", ByteCount(capacity));
    for (n, piece) in bytes.chunks(PIECE).enumerate() {
        disk.poke(Offset((n * PIECE) as u64), &Buf::copy_of(piece).into());
    }
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
    let forged = disk.peek(Offset(0), ByteCount(capacity)).to_vec();
    std::fs::write(path, forged).expect("written");
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
