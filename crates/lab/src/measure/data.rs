//! What a block workload writes: see [`workload::content`].
//!
//! On simulated disks content does not change the timing, so there a write repeats one random word,
//! another for each write, and costs nothing to make. On real storage it is random bytes, of which no
//! two sectors are equal.

use rt::Buf;
use std::cell::RefCell;
use std::rc::Rc;
use stdx::Prng;
use workload::content::{Content, ContentSpec, Form, Source};

/// A source of bytes to write, shared by a workload's processes.
#[derive(Clone)]
pub struct DataSource(Rc<RefCell<Source>>);

impl DataSource {
    /// A random word, repeated; another one each time. For simulated disks.
    pub fn words(prng: Prng) -> DataSource {
        DataSource::of(ContentSpec { form: Form::Words, ..ContentSpec::default() }, prng)
    }

    /// Random bytes. For real storage.
    pub fn random(prng: Prng) -> DataSource {
        DataSource::of(ContentSpec::default(), prng)
    }

    fn of(spec: ContentSpec, mut prng: Prng) -> DataSource {
        DataSource(Rc::new(RefCell::new(Content::new(spec, prng.next_u64()).source(0))))
    }

    /// `len` bytes to write.
    pub fn next(&self, len: usize) -> Buf {
        self.0.borrow_mut().next(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_written_is_zeros_or_comes_again() {
        for source in [DataSource::words(Prng::new(1)), DataSource::random(Prng::new(1))] {
            let (one, other) = (source.next(8192), source.next(8192));
            assert!(one.bytes().iter().any(|byte| *byte != 0));
            assert_ne!(one, other);
        }
    }
}
