//! What is written: random by default, never zeros by accident.
//!
//! Zeros and repeats make a measurement wrong wherever something compresses, deduplicates or stores
//! sparsely. On simulated disks content does not change the timing, so there a write repeats one
//! random word ([`rt::Buf::fill`]), another for each write, and costs nothing to make. On real storage
//! a write is a slice of a pool of random bytes, at a random place.

use rt::{Buf, BufMut, PAGE};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::Prng;

/// Size of the pool of random bytes. Larger than the window in which file systems compress or look
/// for repeats (zstd's is 8 MiB at the levels in use); each costs memory and time to fill.
const POOL_BYTES: usize = 16 << 20;

/// A source of bytes to write.
#[derive(Clone)]
pub struct DataSource(Rc<Source>);

enum Source {
    Words(RefCell<Prng>),
    Pool(RefCell<Prng>, Buf),
}

impl DataSource {
    /// A random word, repeated; another one each time. For simulated disks.
    pub fn words(prng: Prng) -> DataSource {
        DataSource(Rc::new(Source::Words(RefCell::new(prng))))
    }

    /// Random bytes. For real storage.
    pub fn random(mut prng: Prng) -> DataSource {
        let mut pool = BufMut::for_overwrite(POOL_BYTES);
        prng.fill(&mut pool);
        DataSource(Rc::new(Source::Pool(RefCell::new(prng), pool.freeze())))
    }

    /// `len` bytes to write.
    pub fn next(&self, len: usize) -> Buf {
        match &*self.0 {
            Source::Words(prng) => Buf::fill(prng.borrow_mut().next_u64() | 1, len),
            Source::Pool(prng, pool) if len < pool.len() => {
                let places = (pool.len() - len) / PAGE + 1;
                let start = prng.borrow_mut().below(places as u64) as usize * PAGE;
                pool.slice(start..start + len)
            }
            Source::Pool(prng, _) => {
                let mut bytes = BufMut::for_overwrite(len);
                prng.borrow_mut().fill(&mut bytes);
                bytes.freeze()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_written_is_zeros() {
        for source in [DataSource::words(Prng::new(1)), DataSource::random(Prng::new(1))] {
            let (one, other) = (source.next(8192), source.next(8192));
            assert!(one.bytes().iter().any(|byte| *byte != 0));
            assert_ne!(one, other);
        }
    }
}
