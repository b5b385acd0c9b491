//! What a job writes.
//!
//! As fio does by default, blocks are filled with random bytes once, and before each write every 512 B
//! of the block get a new number (fio's `scramble_buffers`), so that making data costs next to nothing
//! and no two sectors are equal. The ring of such blocks is larger than what file systems compress as
//! one. On request: fresh bytes for each write (`refill_buffers`), compressible or repeated ones, a
//! pattern, or zeros.

use super::spec::Bytes;
use rt::{Buf, BufMut, PAGE};
use workload::content::{Content, ContentSpec, Form, Source};

/// What the ring holds at least: twice what ZFS and btrfs compress as one unless told otherwise
/// (128 KiB), so that blocks that differ in their numbers alone do not meet in one unit. More would not
/// stay in a processor's own cache, where fio's few buffers are, and writes from memory would be slower.
const RING_BYTES: usize = 256 << 10;

/// Blocks of the ring at the most; only tiny ones reach it.
const RING_BLOCKS_MAX: usize = 1 << 12;

/// The unit that gets a number: the smallest block that a system compares.
const NUMBERED: usize = 512;

/// Blocks up to this size get a number in every line of the processor's cache, which brings them next to
/// the processor before time is read: there fio's buffers are, which are used again at once.
const NEAR_BYTES: usize = 16 << 10;
/// Such a line.
const LINE: usize = 64;

/// What is generated, by the options of a job.
pub(super) fn content_spec(bytes: &Bytes, form: Form) -> ContentSpec {
    ContentSpec {
        form,
        compressible: f64::from(bytes.compress_percent) / 100.0,
        duplicates: f64::from(bytes.dedupe_percent) / 100.0,
        zeros: bytes.zeros,
    }
}

/// The same in words.
pub(super) fn description(bytes: &Bytes) -> String {
    if !bytes.pattern.is_empty() {
        return format!("a pattern of {} B, repeated", bytes.pattern.len());
    }
    content_spec(bytes, Form::Bytes).to_string()
}

/// Makes what one worker writes.
pub(super) struct Filler {
    kind: Kind,
    source: Source,
}

enum Kind {
    /// A block of the pattern, sliced.
    Pattern(Buf),
    /// Each from the source.
    Fresh,
    /// Ready blocks of one length, renewed in place.
    Ring { blocks: Vec<Buf>, at: usize, number: u64, len: usize },
}

impl Filler {
    /// For blocks of up to `longest` bytes, of which `depth` are written at a time. `fresh`: with new
    /// bytes for each.
    pub(super) fn new(
        bytes: &Bytes,
        content: &Content,
        worker: u64,
        longest: usize,
        depth: usize,
        fresh: bool,
    ) -> Filler {
        let mut source = content.source(worker);
        let spec = content.spec();
        let from_source = fresh
            || spec.form == Form::Words
            || spec.zeros
            || spec.duplicates > 0.0
            || spec.compressible > 0.0;
        let kind = if !bytes.pattern.is_empty() {
            let mut block = BufMut::for_overwrite(longest);
            fill_with_pattern(&mut block, &bytes.pattern);
            Kind::Pattern(block.freeze())
        } else if from_source {
            Kind::Fresh
        } else {
            let count = (RING_BYTES / longest.max(1)).clamp(2, RING_BLOCKS_MAX).max(depth + 1);
            let blocks = (0..count).map(|_| source.next(longest)).collect();
            // Above the numbers of the source, which tell its blocks apart.
            Kind::Ring { blocks, at: 0, number: 1 << 63 | worker << 40, len: longest }
        };
        Filler { kind, source }
    }

    /// `len` bytes to write.
    pub(super) fn next(&mut self, len: usize) -> Buf {
        match &mut self.kind {
            Kind::Pattern(block) if len <= block.len() => block.slice(0..len),
            Kind::Ring { blocks, at, number, len: longest } if len <= *longest => {
                let count = blocks.len();
                let Some(kept) = blocks.get_mut(*at) else { return self.source.next(len) };
                *at = (*at + 1) % count;
                let block = match std::mem::replace(kept, Buf::empty()).try_into_mut() {
                    Ok(mut block) => {
                        *number += 1;
                        renew(&mut block[..len], *number);
                        block.freeze()
                    }
                    // The write of it is still under way.
                    Err(_) => self.source.next(*longest),
                };
                *kept = block.clone();
                if len == *longest { block } else { block.slice(0..len) }
            }
            _ => self.source.next(len),
        }
    }

    /// `len` bytes of the source, to be changed before they are written.
    pub(super) fn next_to_change(&mut self, len: usize) -> BufMut {
        let block = match &self.kind {
            Kind::Pattern(block) if len <= block.len() => BufMut::copy_of(&block.bytes()[..len]),
            _ => {
                let block = self.source.next(len);
                block.try_into_mut().unwrap_or_else(|block| BufMut::copy_of(block.bytes()))
            }
        };
        debug_assert_eq!(block.len(), len, "as long as was asked for");
        block
    }
}

/// Puts a new number into every unit.
fn renew(block: &mut [u8], number: u64) {
    let mut unit = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let every = if block.len() <= NEAR_BYTES { LINE } else { NUMBERED };
    for page in block.chunks_mut(PAGE) {
        for sector in page.chunks_exact_mut(every) {
            sector[..8].copy_from_slice(&unit.to_le_bytes());
            unit = unit.wrapping_add(1);
        }
    }
}

/// Repeats a pattern over a block.
pub(super) fn fill_with_pattern(block: &mut [u8], pattern: &[u8]) {
    for part in block.chunks_mut(pattern.len().max(1)) {
        part.copy_from_slice(&pattern[..part.len()]);
    }
}

#[cfg(test)]
mod tests {
    //! What could break: "random" blocks that repeat; a block that is changed while it is written.

    use super::*;
    use std::collections::BTreeSet;

    fn filler(bytes: &Bytes, longest: usize) -> Filler {
        let content = Content::new(content_spec(bytes, Form::Bytes), 7);
        Filler::new(bytes, &content, 1, longest, 1, false)
    }

    #[test]
    fn no_sector_comes_twice_though_blocks_are_used_again() {
        let mut filler = filler(&Bytes::default(), 1 << 20);
        let mut seen = BTreeSet::new();
        for round in 0..12 {
            let len = if round % 2 == 0 { 1 << 20 } else { 1 << 19 };
            for sector in filler.next(len).bytes().chunks(NUMBERED) {
                assert!(seen.insert(sector.to_vec()), "a sector came twice");
            }
        }
    }

    #[test]
    fn a_block_under_way_is_not_changed() {
        let mut filler = filler(&Bytes::default(), 1 << 20);
        let held = filler.next(1 << 20);
        let before = held.bytes().to_vec();
        for _ in 0..9 {
            filler.next(1 << 20);
        }
        assert_eq!(held.bytes(), &before[..]);
    }

    #[test]
    fn a_pattern_is_repeated_from_the_blocks_start() {
        let bytes = Bytes { pattern: vec![1, 2, 3], ..Bytes::default() };
        assert_eq!(filler(&bytes, 64).next(7).bytes(), [1, 2, 3, 1, 2, 3, 1]);
    }
}
