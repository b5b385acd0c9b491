//! What a run of bonnie++ is to do.
//!
//! The limits are bonnie++'s own where it has them; its reasons stand with them. A plan that passed
//! [`Plan::check`] can be run.

use std::path::PathBuf;
use stdx::ByteCount;
use workload::whole_blocks;

/// The unit of the bulk file's size.
const UNIT: ByteCount = ByteCount::mib(1);

/// The block of bulk I/O, and of reading and writing small files, unless it is said.
pub const CHUNK_DEFAULT: ByteCount = ByteCount::kib(8);
/// Blocks are powers of two from here ...
pub const CHUNK_MIN: ByteCount = ByteCount(256);
/// ... to here, so that a mebibyte holds a whole number of them.
pub const CHUNK_MAX: ByteCount = ByteCount::mib(1);
/// What is written and read a byte at a time, unless it is said: more takes long and says no more.
pub const BYTES_DEFAULT: ByteCount = ByteCount::mib(3);
/// Seeks unless it is said.
pub const SEEKS_DEFAULT: u32 = 8192;
/// Seekers unless it is said.
pub const SEEKERS_DEFAULT: u32 = 5;
/// One seek in so many is followed by a write of the block.
pub const UPDATE_ONE_IN: u32 = 10;
/// Blocks of the bulk file at the most: a seek's place is one number of 31 bits.
const CHUNKS_MAX: u64 = i32::MAX as u64;
/// Seeks at the most; each is a number in memory.
const SEEKS_MAX: u32 = 1 << 26;
/// Seekers at the most.
const SEEKERS_MAX: u32 = 1024;
/// Concurrency at the most, as there.
const CONCURRENCY_MAX: u32 = 200;
/// The unit in which small files are counted.
pub const FILES_UNIT: u64 = 1024;
/// Units of small files at the most: their names are kept in memory, and should not take more than
/// 1 GiB of it.
const FILES_KI_MAX: u32 = (1 << 20) / NAME_BYTES;
/// What a file's name takes in memory there: the name, a directory's name, a pointer.
const NAME_BYTES: u32 = 37;
/// Directories at the most: their names have five digits.
const DIRECTORIES_MAX: u32 = 99_999;
/// A small file's size at the most, as there.
const SMALL_FILE_MAX: ByteCount = ByteCount(i32::MAX as u64);

/// What the file's blocks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// What the load's [`Content`](workload::content::Content) gives: random bytes unless it is said.
    #[default]
    Generated,
    /// What bonnie++ writes: zeros, of which one byte more is counted up in each block. File systems
    /// that compress or deduplicate make little of it.
    AsBonnie,
}

/// The phases on one large file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its size, in whole mebibytes.
    pub size: ByteCount,
    /// The block.
    pub chunk: ByteCount,
    /// How much of it is written and read a byte at a time; zero leaves these phases out. Where it is
    /// larger than the file, the file's size counts.
    pub bytes: ByteCount,
    /// Seeks; zero leaves the phase out.
    pub seeks: u32,
    /// Threads that share the seeks.
    pub seekers: u32,
    /// Past the cache while it is written from scratch (as bonnie++'s `-D`, which does not open the
    /// file so for the other phases).
    pub direct: bool,
}

impl File {
    /// The default phases on a file of this size.
    pub fn of_size(size: ByteCount) -> File {
        File {
            size,
            chunk: CHUNK_DEFAULT,
            bytes: BYTES_DEFAULT,
            seeks: SEEKS_DEFAULT,
            seekers: SEEKERS_DEFAULT,
            direct: false,
        }
    }

    /// Blocks of the file.
    pub(super) fn chunks(&self) -> u64 {
        self.size.bytes() / self.chunk.bytes()
    }

    /// What is written and read a byte at a time.
    pub(super) fn bytes_phase(&self) -> ByteCount {
        self.bytes.min(self.size)
    }
}

/// The phases on many small files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// How many, in units of 1024.
    pub files_ki: u32,
    /// The largest.
    pub size_max: ByteCount,
    /// The smallest.
    pub size_min: ByteCount,
    /// The directories that share them.
    pub directories: u32,
    /// The block by which they are written and read.
    pub chunk: ByteCount,
}

impl Creation {
    /// The default phases with so many thousands (of 1024) of empty files.
    pub fn of_files(files_ki: u32) -> Creation {
        Creation {
            files_ki,
            size_max: ByteCount::ZERO,
            size_min: ByteCount::ZERO,
            directories: 1,
            chunk: CHUNK_DEFAULT,
        }
    }

    /// How many files.
    pub fn files(&self) -> u64 {
        u64::from(self.files_ki) * FILES_UNIT
    }

    /// Files and directories that are there together: one directory alone is the run's own.
    pub fn names(&self) -> u64 {
        let below = if self.directories > 1 { u64::from(self.directories) } else { 0 };
        self.files() + below + 1
    }

    /// What those take of a file system that gives space by blocks: each size is as likely as another.
    pub fn space(&self, block: ByteCount) -> ByteCount {
        let files = whole_blocks::space(self.files(), self.size_min..=self.size_max, block);
        let directories = self.names() - self.files();
        ByteCount(files.bytes().saturating_add(directories * block.bytes().max(1)))
    }
}

/// What a run is to do. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The machine's name, for the table.
    pub machine: String,
    /// A number that tells this run's files from those of others in the same directory.
    pub number: u32,
    /// The seed of the names, sizes and places.
    pub seed: u32,
    /// How many such runs are made at once; it counts in the check of the file's size and is printed.
    pub concurrency: u32,
    /// Makes each small file, each removal and each updated block durable before the next (`-b`).
    pub durable: bool,
    /// What is written.
    pub written: Written,
    /// The phases on one large file.
    pub file: Option<File>,
    /// The phases on many small files.
    pub creation: Option<Creation>,
}

/// Why a plan can't be run, or would measure something else than it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Neither part is left.
    #[error("with -s 0 and -n 0 there is nothing to do; leave one of them out")]
    Nothing,
    /// The file fits into memory.
    #[error(
        "the file ({size}) is smaller than twice the memory ({memory}), so its cache would be measured; make it larger (-s), or say what memory to reckon with (-r, in MiB; 0 for no check)"
    )]
    FitsIntoMemory {
        /// The file's size, times the concurrency.
        size: ByteCount,
        /// The memory.
        memory: ByteCount,
    },
    /// The size is no multiple of the unit.
    #[error("the file's size ({0}) must be a multiple of 1 MiB")]
    OddSize(ByteCount),
    /// A block that is no power of two between the limits.
    #[error(
        "the block {0} (-s SIZE:BLOCK, -n ...:BLOCK) must be a power of two from 256 B to 1 MiB"
    )]
    Chunk(ByteCount),
    /// Too many blocks.
    #[error(
        "a file of {size} has more than 2³¹ − 1 blocks of {chunk}; make the blocks larger (-s SIZE:BLOCK)"
    )]
    TooManyChunks {
        /// The file's size.
        size: ByteCount,
        /// The block.
        chunk: ByteCount,
    },
    /// Too many of something.
    #[error("{what} must be from {least} to {most}, not {given}")]
    Range {
        /// Of what.
        what: &'static str,
        /// As it was given.
        given: u64,
        /// The limits.
        least: u64,
        /// The limits.
        most: u64,
    },
    /// The largest file is smaller than the smallest.
    #[error(
        "the largest of the small files ({max}) is smaller than the smallest ({min}); write -n FILES:MAX:MIN"
    )]
    SizesCrossed {
        /// The largest.
        max: ByteCount,
        /// The smallest.
        min: ByteCount,
    },
    /// A byte can't be written directly.
    #[error("direct I/O (-D) can't write a byte at a time; leave those phases out with -f")]
    DirectBytes,
    /// The names would not fit into memory.
    #[error(
        "the names of {files_ki} × 1024 files take more than half of the memory ({memory}); use fewer (-n)"
    )]
    NamesExceedMemory {
        /// Thousands of files.
        files_ki: u32,
        /// The memory.
        memory: ByteCount,
    },
}

impl Plan {
    /// The size of the file where none is said: twice the memory, at least 300 MiB, rounded up to a
    /// whole gibibyte where less than half of one is missing.
    pub fn default_size(memory: ByteCount) -> ByteCount {
        let mib = (memory.bytes() / UNIT.bytes()).saturating_mul(2).max(300);
        let rest = mib % 1024;
        ByteCount::mib(if rest > 512 { mib + 1024 - rest } else { mib })
    }

    /// What it makes: the file, and after that the directory of the small files.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("Bonnie.{}", self.number))
    }

    /// Whether the plan can be run, and measures what it says on a machine with so much memory (zero:
    /// that is not asked).
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn check(&self, memory: ByteCount) -> Result<(), PlanError> {
        let range = |what, given: u64, least: u64, most: u64| match (least..=most).contains(&given)
        {
            true => Ok(()),
            false => Err(PlanError::Range { what, given, least, most }),
        };
        let chunk_fits = |chunk: ByteCount| match chunk.bytes().is_power_of_two()
            && (CHUNK_MIN..=CHUNK_MAX).contains(&chunk)
        {
            true => Ok(()),
            false => Err(PlanError::Chunk(chunk)),
        };
        let many = |n: u32| u64::from(n);
        range("the concurrency (-c)", many(self.concurrency), 1, many(CONCURRENCY_MAX))?;
        if self.file.is_none() && self.creation.is_none() {
            return Err(PlanError::Nothing);
        }
        if let Some(file) = &self.file {
            chunk_fits(file.chunk)?;
            if !file.size.is_multiple_of(UNIT) || file.size.is_zero() {
                return Err(PlanError::OddSize(file.size));
            }
            if file.chunks() > CHUNKS_MAX {
                return Err(PlanError::TooManyChunks { size: file.size, chunk: file.chunk });
            }
            range(
                "the number of seeks (-s SIZE:BLOCK:SEEKS)",
                many(file.seeks),
                0,
                many(SEEKS_MAX),
            )?;
            range(
                "the number of seekers (-s SIZE:BLOCK:SEEKS:SEEKERS)",
                many(file.seekers),
                1,
                many(SEEKERS_MAX),
            )?;
            if file.direct && !file.bytes.is_zero() {
                return Err(PlanError::DirectBytes);
            }
            let size = ByteCount(file.size.bytes().saturating_mul(many(self.concurrency)));
            if size.bytes() < memory.bytes().saturating_mul(2) {
                return Err(PlanError::FitsIntoMemory { size, memory });
            }
        }
        if let Some(creation) = &self.creation {
            chunk_fits(creation.chunk)?;
            let (max, min) = (creation.size_max, creation.size_min);
            if max < min {
                return Err(PlanError::SizesCrossed { max, min });
            }
            range(
                "the largest file (-n FILES:MAX), in bytes,",
                max.bytes(),
                0,
                SMALL_FILE_MAX.bytes(),
            )?;
            range(
                "the number of directories (-n FILES:MAX:MIN:DIRS)",
                many(creation.directories),
                1,
                many(DIRECTORIES_MAX),
            )?;
            let files_ki = creation.files_ki;
            range(
                "the number of files (-n), in units of 1024,",
                many(files_ki),
                1,
                many(FILES_KI_MAX),
            )?;
            let names = ByteCount::kib(many(files_ki * NAME_BYTES));
            if !memory.is_zero() && names.bytes() * 2 > memory.bytes() {
                return Err(PlanError::NamesExceedMemory { files_ki, memory });
            }
        }
        Ok(())
    }
}
