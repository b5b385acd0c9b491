//! What a run over small files is to do.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use stdx::{ByteCount, units::SizeError};
use workload::whole_blocks;

/// Files at the most; each takes a few bytes of memory for its size and its turn.
const FILES_MAX: u64 = 1 << 27;
/// Directories at the most: their names have six digits.
const DIRECTORIES_MAX: u64 = 1_000_000;
/// Threads at the most.
const THREADS_MAX: u32 = 1024;
/// A block at the most: it is one piece of memory for each thread.
const BLOCK_MAX: ByteCount = ByteCount::mib(64);

/// Sizes of files: each as likely as another, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest.
    pub min: ByteCount,
    /// The largest.
    pub max: ByteCount,
}

/// A text that is no size and no range of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizesError {
    /// One of the sizes is none.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The first is larger than the second.
    #[error("the range {0} is the wrong way round; write the smaller size first, as in 1k:64k")]
    Crossed(Sizes),
}

impl FromStr for Sizes {
    type Err = SizesError;

    /// `4k`, or `1k:64k`.
    fn from_str(text: &str) -> Result<Sizes, SizesError> {
        let (min, max) = text.split_once(':').unwrap_or((text, text));
        let sizes = Sizes { min: min.parse()?, max: max.parse()? };
        match sizes.min <= sizes.max {
            true => Ok(sizes),
            false => Err(SizesError::Crossed(sizes)),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.min == self.max {
            true => write!(f, "{}", self.min),
            false => write!(f, "{} to {}", self.min, self.max),
        }
    }
}

/// A run. See the [module above](super).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// A number that tells this run's files from those of others in the same directory.
    pub number: u32,
    /// Files.
    pub files: u64,
    /// Their sizes.
    pub sizes: Sizes,
    /// Directories.
    pub directories: u64,
    /// Threads.
    pub threads: u32,
    /// The block by which files are read and written.
    pub block: ByteCount,
    /// Makes each file durable before the next.
    pub durable: bool,
    /// Makes the system forget each file's data before it is read or copied.
    pub cold: bool,
}

impl Plan {
    /// So many files of 4 KiB in directories of a hundred, by one thread.
    pub fn of_files(files: u64) -> Plan {
        Plan {
            number: 0,
            files,
            sizes: Sizes { min: ByteCount::kib(4), max: ByteCount::kib(4) },
            directories: files.div_ceil(100).max(1),
            threads: 1,
            block: ByteCount::kib(64),
            durable: false,
            cold: false,
        }
    }

    /// The directory that it makes, and in which all of its files lie.
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("smallfiles.{}", self.number))
    }

    /// Files and directories that are there together: the copies lie beside what is copied.
    pub fn names(&self) -> u64 {
        self.files.saturating_mul(2).saturating_add(self.directories).saturating_add(1)
    }

    /// What those take of a file system that gives space by blocks, with all sizes equally often.
    pub fn space(&self, block: ByteCount) -> ByteCount {
        let directories = (self.directories + 1).saturating_mul(block.bytes().max(1));
        let sizes = self.sizes.min..=self.sizes.max;
        let files = whole_blocks::space(self.files.saturating_mul(2), sizes, block);
        ByteCount(files.bytes().saturating_add(directories))
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn check(&self) -> Result<(), PlanError> {
        let threads = u64::from(self.threads);
        for (what, given, most) in [
            ("the files (--files)", self.files, FILES_MAX),
            ("the directories (--dirs)", self.directories, self.files.min(DIRECTORIES_MAX)),
            ("the threads (--threads)", threads, self.files.min(u64::from(THREADS_MAX))),
            ("the block (--block), in bytes,", self.block.bytes(), BLOCK_MAX.bytes()),
            ("the largest size (--size), in bytes, plus one", self.sizes.max.bytes() + 1, 1 << 40),
        ] {
            if !(1..=most).contains(&given) {
                return Err(PlanError { what, given, most });
            }
        }
        Ok(())
    }
}

/// A plan with too much or too little of something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be from 1 to {most}, not {given}")]
pub struct PlanError {
    /// Of what.
    pub what: &'static str,
    /// As it was given.
    pub given: u64,
    /// The most there may be.
    pub most: u64,
}
