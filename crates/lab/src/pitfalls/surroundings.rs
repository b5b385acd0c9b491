//! What a target knows of the storage that it measures and of the host that it measures from.
//!
//! Every fact is optional: a simulated machine knows what its profiles say, a directory of this host what
//! the kernel tells, a network file system next to nothing. `None` (or an empty list) means "not known"
//! and never "no".

use std::fmt;
use stdx::ByteCount;
use workload::content::ContentSpec;

/// Facts about host and storage. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Processors that this process may use, as its operating system counts them: hardware threads (or those that the
    /// simulated host has).
    pub cores: Option<u32>,
    /// Memory of the host that can hold pages of files.
    pub memory: Option<ByteCount>,
    /// What the own caches of all disks hold together.
    pub disk_caches: Option<ByteCount>,
    /// Whether the I/O goes through the page cache.
    pub buffered: Option<bool>,
    /// How the page cache is written back, where that is known.
    pub write_back: Option<WriteBack>,
    /// What is written.
    pub content: Option<ContentSpec>,
    /// Partitions below, at whatever height.
    pub partitions: Vec<Partition>,
    /// The unit that the storage reads and writes whole, however small the I/O: ZFS's record, a page of
    /// a buffered file.
    pub record: Option<ByteCount>,
    /// How the SSDs began, where that is known and the load leaves them in another state.
    pub ssds: Option<SsdsBegin>,
    /// The stripes of the sets with parity, where there are some.
    pub stripe: Option<Stripe>,
    /// The link, where its limit is known.
    pub link: Option<Link>,
    /// Flushes and the caches that they are for.
    pub flush: FlushFacts,
    /// Space of the file system or pool, with the run's files in place: free and in all.
    pub space: Option<(ByteCount, ByteCount)>,
}

/// What is known of flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushFacts {
    /// Whether a flush is carried out. A real machine does not say; a simulated one was told.
    pub honoured: Option<bool>,
    /// Whether there is a write cache below that forgets with the power.
    pub volatile_cache: Option<bool>,
    /// Whether all disks turn, seen past what a virtual machine pretends.
    pub rotational: Option<bool>,
    /// Whether writes can carry the flush themselves (FUA), so that the disks' count of flushes tells
    /// nothing.
    pub fua: Option<bool>,
}

/// How a page cache is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// The page cache.
    pub cache: ByteCount,
    /// How much of it is dirty when it begins.
    pub begins_at: ByteCount,
    /// What it takes at once, and gives the device as a batch. Where it begins with less, no other batch follows before more is
    /// dirty.
    pub takes: ByteCount,
}

impl WriteBack {
    /// Whether it begins with less dirty than it takes at once.
    pub fn is_short(&self) -> bool {
        self.begins_at < self.takes
    }
}

/// The state of SSDs before a load and, in the long run, after it, in words: `empty`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdsBegin {
    /// Before.
    pub state: String,
    /// After.
    pub left: String,
}

/// What must be written at once, so that nothing is read to make parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// To one set: a chunk on each of its data members.
    pub of_set: ByteCount,
    /// To the volume, so that each set that has a part of it gets whole stripes. More than [`Stripe::of_set`] where a set
    /// of sets deals out parts of stripes, because its chunk is no multiple of them.
    pub of_volume: ByteCount,
    /// What goes once round all sets, with a whole stripe to each at the least.
    pub round: ByteCount,
}

/// A partition and what its start should be a multiple of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name in the report: `sda1`.
    pub name: String,
    /// Bytes from the start of the device that it is on.
    pub start: ByteCount,
    /// Where on that device the first unit begins: 0, but for disks that shift their sectors
    /// (the kernel's `alignment_offset`).
    pub origin: ByteCount,
    /// The units, and their sizes.
    pub grids: Vec<(Grid, ByteCount)>,
}

/// A unit that an I/O should not straddle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// What a disk writes whole: 4 KiB behind sectors of 512 B.
    PhysicalBlock,
    /// What an array puts on one disk before it goes on to the next.
    Chunk,
    /// A row of an array with parity: a write of less must read first.
    Stripe,
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grid::PhysicalBlock => "physical block",
            Grid::Chunk => "chunk",
            Grid::Stripe => "stripe",
        })
    }
}

/// What lies between the host and its storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Payload that it can carry one way (10⁶ B/s), all its paths together.
    pub limit_mb_s: f64,
    /// Whether both directions carry so much at once.
    pub full_duplex: bool,
    /// Whose bytes pass it.
    pub span: LinkSpan,
}

/// Whose bytes pass a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSpan {
    /// The workload's: the link lies between the host and a RAID controller.
    Volume,
    /// Those of all disks together.
    AllDisks,
    /// Each disk has a link of this limit by itself.
    EachDisk,
}
