//! What is written: random by default, compressible or repeated on request, never zeros by accident.
//!
//! Zeros and repeats make a measurement wrong wherever something compresses, deduplicates or stores
//! sparsely. So a load says what it writes ([`ContentSpec`], which a report prints), and writes just
//! that:
//!
//! * *Random bytes*: each page is a copy from a pool of random bytes, from a random place, with the
//!   number of the write stamped on each 512 B of it: no two blocks are equal, wherever a
//!   deduplicating system cuts them.
//! * *Compressible by a share*: so much of the end of each page is zeros, as fio's
//!   `buffer_compress_percentage` does in each of its chunks.
//! * *Duplicates by a share*: so many of the writes repeat one of [`DUPLICATES_KEPT`] contents.
//!
//! Where content does not change the timing (simulated disks below an engine that looks at no data),
//! [`Form::Words`] writes one random word repeated, another for each write, which costs nothing to make.

use rt::{Buf, BufMut, PAGE};
use std::fmt;
use stdx::Prng;

/// Size of the pool of random bytes. Larger than the window in which file systems compress or look
/// for repeats (zstd's is 8 MiB at the levels in use); it costs memory and time to fill.
const POOL_BYTES: usize = 16 << 20;

/// The unit that is stamped with a number: the smallest block that a system compares.
const STAMPED: usize = 512;

/// Contents that duplicates repeat. Fewer makes each repeat likelier to be found in a small table.
pub const DUPLICATES_KEPT: u64 = 64;

/// Real bytes, or a word repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Bytes as a program writes them.
    #[default]
    Bytes,
    /// A random word repeated; for devices that don't look at what they hold.
    Words,
}

/// What a load writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContentSpec {
    /// Bytes or words.
    pub form: Form,
    /// The share of each page that a compressor can take away, 0 to 1. 0 unless it is said.
    pub compressible: f64,
    /// The share of writes whose content was written before, 0 to 1. 0 unless it is said.
    pub duplicates: f64,
    /// Zeros, on purpose (fio's `zero_buffers`, `dd if=/dev/zero`).
    pub zeros: bool,
}

impl fmt::Display for ContentSpec {
    /// For the report: what is generated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.zeros {
            return f.write_str("zeros");
        }
        let percent = |share: f64| (share * 1000.0).round() / 10.0;
        f.write_str("random bytes")?;
        match self.compressible {
            0.0 => f.write_str(", not compressible")?,
            share => write!(f, ", {} % compressible", percent(share))?,
        }
        match self.duplicates {
            0.0 => f.write_str(", no duplicates"),
            share => write!(f, ", {} % duplicates", percent(share)),
        }
    }
}

/// The pool that all workers of a load share. Cheap to clone; may cross threads.
#[derive(Clone)]
pub struct Content {
    spec: ContentSpec,
    seed: u64,
    pool: Buf,
}

impl Content {
    /// Fills the pool.
    ///
    /// # Panics
    /// If a share lies outside 0 to 1: who reads it from a user checks it.
    pub fn new(spec: ContentSpec, seed: u64) -> Content {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        assert!(is_share(spec.compressible) && is_share(spec.duplicates), "shares are 0 to 1");
        let mut prng = Prng::for_part(seed, "content");
        let pool = match spec {
            ContentSpec { form: Form::Bytes, zeros: false, .. } => {
                let mut pool = BufMut::for_overwrite(POOL_BYTES);
                prng.fill(&mut pool);
                pool.freeze()
            }
            _ => Buf::empty(),
        };
        Content { spec, seed, pool }
    }

    /// What is generated.
    pub fn spec(&self) -> ContentSpec {
        self.spec
    }

    /// A source for one worker, whose number no other worker of the load has.
    pub fn source(&self, worker: u64) -> Source {
        let prng = Prng::for_part(self.seed, &format!("content of worker {worker}"));
        Source { content: self.clone(), prng, worker, writes: 0 }
    }

    /// Bytes by the specification; `stamp` tells this content from all others.
    fn bytes(&self, len: usize, stamp: u64, places: &mut Prng) -> Buf {
        let mut bytes = BufMut::for_overwrite(len);
        let pool = self.pool.bytes();
        for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
            let from = places.below((POOL_BYTES - PAGE) as u64 / 8) as usize * 8;
            page.copy_from_slice(&pool[from..from + page.len()]);
            let random = (page.len() as f64 * (1.0 - self.spec.compressible)).round() as usize;
            page[random..].fill(0);
            for (unit, block) in page[..random].chunks_exact_mut(STAMPED).enumerate() {
                let number = (number * PAGE / STAMPED + unit) as u64;
                let word = stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
                block[..8].copy_from_slice(&word.to_le_bytes());
            }
        }
        bytes.freeze()
    }
}

/// One worker's source of bytes to write.
#[derive(Clone)]
pub struct Source {
    content: Content,
    prng: Prng,
    worker: u64,
    writes: u64,
}

impl Source {
    /// `len` bytes to write.
    pub fn next(&mut self, len: usize) -> Buf {
        let spec = self.content.spec;
        if spec.zeros {
            return Buf::zeros(len);
        }
        if spec.duplicates > 0.0 && self.prng.chance(spec.duplicates) {
            // Of all workers the same, so that one repeats what another wrote.
            let stamp = u64::MAX - self.prng.below(DUPLICATES_KEPT);
            let mut places = Prng::for_part(self.content.seed, &format!("duplicate {stamp}"));
            return self.content.make(len, stamp, &mut places);
        }
        self.writes += 1;
        let stamp = (self.worker << 40) ^ self.writes;
        self.content.make(len, stamp, &mut self.prng)
    }
}

impl Content {
    fn make(&self, len: usize, stamp: u64, places: &mut Prng) -> Buf {
        match self.spec.form {
            Form::Words => Buf::fill(places.next_u64() | 1, len),
            Form::Bytes => self.bytes(len, stamp, places),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a "random" load that a deduplicating or compressing system sees through, or a
    //! compressible one that it doesn't.

    use super::*;
    use std::collections::BTreeSet;

    fn spec(compressible: f64, duplicates: f64) -> ContentSpec {
        ContentSpec { compressible, duplicates, ..ContentSpec::default() }
    }

    #[test]
    fn no_two_sectors_of_random_content_are_equal() {
        let content = Content::new(spec(0.0, 0.0), 1);
        let mut seen = BTreeSet::new();
        for worker in 0..4 {
            let mut source = content.source(worker);
            for _ in 0..200 {
                for sector in source.next(16 << 10).bytes().chunks(512) {
                    assert!(seen.insert(sector.to_vec()), "a sector came twice");
                }
            }
        }
    }

    #[test]
    fn shares_of_zeros_and_of_duplicates_are_what_was_asked_for() {
        let mut source = Content::new(spec(0.4, 0.0), 1).source(0);
        let bytes = source.next(1 << 20);
        let zeros = bytes.bytes().iter().filter(|byte| **byte == 0).count() as f64;
        let share = zeros / f64::from(1 << 20);
        assert!((share - 0.4).abs() < 0.01, "{share}");

        let content = Content::new(spec(0.0, 0.3), 1);
        let (mut source, mut seen, mut again) = (content.source(0), BTreeSet::new(), 0);
        for _ in 0..4000 {
            again += u32::from(!seen.insert(source.next(512).bytes().to_vec()));
        }
        let share = f64::from(again) / 4000.0;
        // 64 contents must be seen once before they repeat.
        assert!((0.26..0.31).contains(&share), "{share}");
    }

    #[test]
    fn a_report_says_what_is_written() {
        assert_eq!(spec(0.0, 0.0).to_string(), "random bytes, not compressible, no duplicates");
        let text = spec(0.5, 0.125).to_string();
        assert_eq!(text, "random bytes, 50 % compressible, 12.5 % duplicates");
    }
}
