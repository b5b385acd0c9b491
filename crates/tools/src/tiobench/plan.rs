//! What a run of tiobench is to do: its cases, and how each of them goes.

use std::path::PathBuf;
use stdx::ByteCount;

/// Threads of one case at the most.
const THREADS_MAX: u32 = 1024;
/// Values of one option at the most; each is a factor of the number of cases.
const VALUES_MAX: usize = 64;
/// Random operations at the most, of all threads together.
const RANDOM_MAX: u64 = 1 << 32;
/// A block at the most: it is one piece of memory for each thread.
const BLOCK_MAX: ByteCount = ByteCount::mib(64);

/// A run: every size with every block with every number of threads, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the tables call it.
    pub identifier: String,
    /// A number that tells this run's files from those of others in the same directory.
    pub number: u32,
    /// Sizes of all threads' files together, in MiB.
    pub sizes_mib: Vec<u64>,
    /// Blocks.
    pub blocks: Vec<ByteCount>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Random operations of all threads together.
    pub random: u64,
    /// How often each case is run; rates are over all runs.
    pub runs: u32,
    /// The threads write their files one after another, so that none is fragmented (`--nofrag`).
    pub one_after_another: bool,
    /// Past the cache.
    pub direct: bool,
    /// Each thread makes the system forget its file's pages before each phase.
    pub drop_caches: bool,
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Size of all files together, in MiB.
    pub size_mib: u64,
    /// Block.
    pub block: ByteCount,
    /// Threads.
    pub threads: u32,
    /// Random operations of all threads together.
    pub random: u64,
}

impl Case {
    /// Blocks in each thread's file: of a whole number of MiB, at least one.
    pub(super) fn blocks_of_thread(&self) -> u64 {
        let mib = (self.size_mib / u64::from(self.threads)).max(1);
        ByteCount::mib(mib).bytes() / self.block.bytes()
    }

    /// Bytes of all threads' files together: more than the size, where that is less than a MiB for each.
    pub fn bytes(&self) -> ByteCount {
        self.block * self.blocks_of_thread() * u64::from(self.threads)
    }

    /// Random operations of each thread.
    pub(super) fn random_of_thread(&self) -> u64 {
        self.random / u64::from(self.threads)
    }
}

/// Why a plan can't be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Too many or too few of something.
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
    /// A block larger than a thread's file.
    #[error(
        "a block of {block} does not fit into the {size_mib} MiB that each of {threads} threads has; use a larger --size or fewer --threads"
    )]
    BlockExceedsFile {
        /// The block.
        block: ByteCount,
        /// A thread's part.
        size_mib: u64,
        /// The threads.
        threads: u32,
    },
    /// A block that direct I/O can't move on any device.
    #[error(
        "--directio moves whole sectors of {SECTOR}, and --block is {block}: use a multiple, or leave --directio out"
    )]
    BlockOfNoSectors {
        /// The block.
        block: ByteCount,
    },
    /// Fewer random operations than threads.
    #[error("{random} random operations are fewer than {threads} threads; use a larger --random")]
    RandomBelowThreads {
        /// The operations.
        random: u64,
        /// The threads.
        threads: u32,
    },
}

/// What any device has at the least: direct I/O moves multiples of it.
const SECTOR: ByteCount = ByteCount(512);

impl Plan {
    /// What tiobench does where nothing is said, on files of `size_mib` together: blocks of 4 KiB; 1,
    /// 2, 4 and 8 threads; 4000 random operations.
    pub fn of_size(size_mib: u64) -> Plan {
        Plan {
            identifier: "spindle".to_owned(),
            number: 0,
            sizes_mib: vec![size_mib],
            blocks: vec![ByteCount::kib(4)],
            threads: vec![1, 2, 4, 8],
            random: 4000,
            runs: 1,
            one_after_another: false,
            direct: false,
            drop_caches: false,
        }
    }

    /// The file of a thread, counted from 0.
    pub fn path(&self, thread: u32) -> PathBuf {
        PathBuf::from(format!("_tiotest_pid{}.thr{thread}", self.number))
    }

    /// All files that it makes.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let threads = self.threads.iter().copied().max().unwrap_or_default();
        (0..threads).map(|thread| self.path(thread))
    }

    /// All cases, in the order of running.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &size_mib in &self.sizes_mib {
            for &block in &self.blocks {
                for &threads in &self.threads {
                    cases.push(Case { size_mib, block, threads, random: self.random });
                }
            }
        }
        cases
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn check(&self) -> Result<(), PlanError> {
        let range = |what, given: u64, least: u64, most: u64| match (least..=most).contains(&given)
        {
            true => Ok(()),
            false => Err(PlanError::Range { what, given, least, most }),
        };
        for (what, count) in [
            ("the number of sizes (--size)", self.sizes_mib.len()),
            ("the number of blocks (--block)", self.blocks.len()),
            ("the number of thread counts (--threads)", self.threads.len()),
        ] {
            range(what, count as u64, 1, VALUES_MAX as u64)?;
        }
        range("the runs (--numruns)", u64::from(self.runs), 1, 1000)?;
        range("the random operations (--random)", self.random, 1, RANDOM_MAX)?;
        for case in self.cases() {
            range("the threads (--threads)", u64::from(case.threads), 1, u64::from(THREADS_MAX))?;
            range("the block (--block), in bytes,", case.block.bytes(), 1, BLOCK_MAX.bytes())?;
            range("the size (--size), in MiB,", case.size_mib, 1, 1 << 32)?;
            if case.blocks_of_thread() == 0 {
                let size_mib = (case.size_mib / u64::from(case.threads)).max(1);
                let (block, threads) = (case.block, case.threads);
                return Err(PlanError::BlockExceedsFile { block, size_mib, threads });
            }
            if self.direct && !case.block.is_multiple_of(SECTOR) {
                return Err(PlanError::BlockOfNoSectors { block: case.block });
            }
            if case.random_of_thread() == 0 {
                let (random, threads) = (case.random, case.threads);
                return Err(PlanError::RandomBelowThreads { random, threads });
            }
        }
        Ok(())
    }
}
