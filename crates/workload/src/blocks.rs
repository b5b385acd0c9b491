//! Blocks of one size, made beforehand and renewed in place for each write.
//!
//! The field's older tools write one small buffer again and again: making the data costs them nothing,
//! and it stays in the processor's cache. A load that makes random bytes for each write spends a
//! microsecond per 8 KiB on it, inside the measured time. [`Blocks`] takes a ring of ready
//! [content](crate::content) and, before each write, only puts a new number into every 512 B of the
//! next block, which makes no two sectors equal.
//!
//! Two blocks are alike but for their numbers only when they are [`RING_BYTES`] apart, which is as much
//! as a file system compresses in one unit, unless it was told to take more.
//!
//! Content that is meant to repeat (duplicates, zeros, words) comes from its [`Source`] each time.

use crate::content::{Content, Form, Source};
use rt::{Buf, PAGE};

/// What a ring holds. File systems compress units of 128 KiB (btrfs, and ZFS by default) to 1 MiB (ZFS for
/// large files): within one, nothing repeats. More would not stay in a processor's second cache, and
/// writing would wait for memory, as it does not in the tools that write one buffer.
pub const RING_BYTES: usize = 1 << 20;

/// Blocks of a ring at the most; only tiny ones reach it.
const RING_BLOCKS_MAX: usize = 1 << 13;

/// The unit that is numbered: the smallest block that a system compares.
const NUMBERED: usize = 512;

/// Tells these numbers from those of [`Source`].
const RING_MARK: u64 = 1 << 63;

/// See the [module](self).
pub struct Blocks {
    len: usize,
    source: Source,
    /// Empty where each block comes from the source.
    ring: Vec<Buf>,
    at: usize,
    number: u64,
    /// The bytes at the head of each page that are random; the rest is zeros, to be compressible.
    random: usize,
}

impl Blocks {
    /// Blocks of `len` bytes for one worker, whose number no other worker of the load has.
    pub fn new(content: &Content, worker: u64, len: usize) -> Blocks {
        let spec = content.spec();
        let mut source = content.source(worker);
        let renewable = spec.form == Form::Bytes && !spec.zeros && spec.duplicates == 0.0;
        let count = match renewable {
            true => (RING_BYTES / len.max(1)).clamp(2, RING_BLOCKS_MAX),
            false => 0,
        };
        let ring = (0..count).map(|_| source.next(len)).collect();
        let random = (PAGE.min(len) as f64 * (1.0 - spec.compressible)) as usize;
        Blocks { len, source, ring, at: 0, number: RING_MARK | worker << 40, random }
    }

    /// The next block to write.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and is no iterator")]
    pub fn next(&mut self) -> Buf {
        let count = self.ring.len();
        let Some(kept) = self.ring.get_mut(self.at) else {
            return self.source.next(self.len);
        };
        self.at = (self.at + 1) % count;
        let block = match std::mem::replace(kept, Buf::empty()).try_into_mut() {
            Ok(mut block) => {
                self.number += 1;
                renew(&mut block, self.number, self.random);
                block.freeze()
            }
            // A store kept it, or the write is still under way.
            Err(_) => self.source.next(self.len),
        };
        *kept = block.clone();
        block
    }
}

/// Puts the number of the write into every unit of the random part of each page.
fn renew(block: &mut [u8], number: u64, random: usize) {
    let mut unit = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for page in block.chunks_mut(PAGE) {
        let random = random.min(page.len());
        for sector in page[..random].chunks_exact_mut(NUMBERED) {
            sector[..8].copy_from_slice(&unit.to_le_bytes());
            unit = unit.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a ring that comes round and repeats itself, which a deduplicating system
    //! sees; a block that is renewed while a store still holds it.

    use super::*;
    use crate::content::ContentSpec;
    use std::collections::BTreeSet;

    #[test]
    fn a_ring_that_came_round_repeats_no_sector() {
        let content = Content::new(ContentSpec::default(), 1);
        let mut blocks = Blocks::new(&content, 0, 256 << 10);
        let mut seen = BTreeSet::new();
        for _ in 0..12 {
            for sector in blocks.next().bytes().chunks(NUMBERED) {
                assert!(seen.insert(sector.to_vec()), "a sector came twice");
            }
        }
    }

    #[test]
    fn a_block_that_is_still_held_is_not_changed() {
        let content = Content::new(ContentSpec::default(), 1);
        let mut blocks = Blocks::new(&content, 0, 256 << 10);
        let first = blocks.next();
        let bytes = first.bytes().to_vec();
        for _ in 0..8 {
            blocks.next();
        }
        assert_eq!(first.bytes(), &bytes[..]);
    }

    #[test]
    fn compressible_content_stays_so() {
        let spec = ContentSpec { compressible: 0.5, ..ContentSpec::default() };
        let mut blocks = Blocks::new(&Content::new(spec, 1), 0, 1 << 20);
        for _ in 0..9 {
            let block = blocks.next();
            let zeros = block.bytes().iter().filter(|byte| **byte == 0).count();
            assert!((500_000..560_000).contains(&zeros), "{zeros} zeros of {}", 1 << 20);
        }
    }
}
