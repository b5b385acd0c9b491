//! What can be set: [`Settings`] when a file system is made (they stand in its superblock), and
//! [`MountOptions`] each time it is mounted.
//!
//! Each setting is a decision that some real file system takes one way and another takes the other way.
//! The values of real ones are in [`preset`](crate::preset), with their sources.

use stdx::{ByteCount, Duration, KIB};

/// How the blocks of a file are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// 12 pointers in the inode, then single, double and triple indirect blocks of 32-bit pointers: one
    /// more block of metadata to read for each 1024 blocks (of 4 KiB) of data. UFS, ext2, ext3.
    Indirect,
    /// Records of (place in the file, place on the device, length). XFS, ext4.
    Extents,
}

/// Where inodes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inodes {
    /// In a table at the start of each group, made with the file system: one inode for so many bytes
    /// of space. More bytes: fewer files, shorter tables. UFS, ext3.
    Tables {
        /// Space for each inode.
        bytes_per_inode: ByteCount,
    },
    /// In chunks of 64 that are allocated when they are needed, near where the group is in use. XFS.
    Chunks,
}

/// How a directory finds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryForm {
    /// Blocks in order. The first use reads all of them; from then on memory knows which name is in
    /// which, as Solaris' directory name cache and FreeBSD's dirhash do.
    Linear,
    /// An index by the hash of the name: a look-up reads the index and one block. ext3's htree; XFS.
    Hashed,
}

/// Into which group a new directory goes. Files go near their directory, in all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Of the groups with more free inodes than average, the one with the fewest directories. UFS.
    LeastDirectories,
    /// Directories in the root as above; others near their parent while there is room. ext3 (Orlov).
    Orlov,
    /// The next group each time. XFS.
    Rotor,
}

/// When a block of a buffered write gets its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// When it is written to the cache. Files that grow at once interleave, but for reservations.
    AtWrite,
    /// When it is written back; until then only its space is counted. Long extents. XFS, ext4.
    AtWriteBack,
}

/// What the journal records of a block that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalForm {
    /// All of it; a commit is two writes: the blocks, then, after a flush, the commit block. ext3.
    Blocks,
    /// The changed 64ths of it; a commit is one write with a checksum. XFS, UFS logging.
    Ranges,
}

/// Where the journal lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalPlace {
    /// Before the first group.
    Start,
    /// In the middle of the device, from where every place is near.
    Middle,
}

/// The stripes of the device below: XFS's `su` and `sw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// What lies on one disk before the next one goes on (the chunk): `su`.
    pub unit: ByteCount,
    /// How many units of data make a full stripe: `sw`.
    pub width: u32,
}

impl Stripe {
    /// A full stripe.
    pub fn full(&self) -> ByteCount {
        self.unit * u64::from(self.width)
    }
}

/// What is decided when a file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Unit of allocation, of metadata and of the page cache: 4 KiB to 64 KiB. Larger: fewer indirect
    /// blocks, more space wasted at the end of files.
    pub block: ByteCount,
    /// Size of a group (UFS: cylinder group; ext3: block group; XFS: allocation group). Smaller: files
    /// of different directories lie further apart, and their inodes nearer to their data.
    pub group: ByteCount,
    /// Size of an inode: 128 B to 1 KiB. Smaller: more of them in a block.
    pub inode: ByteCount,
    /// Where inodes lie.
    pub inodes: Inodes,
    /// How blocks are found.
    pub mapping: Mapping,
    /// How names are found.
    pub directories: DirectoryForm,
    /// Where new directories go.
    pub spread: Spread,
    /// When blocks get their place.
    pub allocation: Allocation,
    /// With [`Allocation::AtWrite`]: space held for a file that grows, at the most; zero for none.
    /// Larger: longer extents where several files grow at once.
    pub reservation_max: ByteCount,
    /// A file moves on to another group after so many bytes; zero for never. UFS's `maxbpg`: no large
    /// file fills the group of its neighbours, and each section costs a seek.
    pub section: ByteCount,
    /// New extents begin on a stripe.
    pub stripe: Option<Stripe>,
    /// Size of the journal. Larger: metadata is written in place less often.
    pub journal: ByteCount,
    /// What it records.
    pub journal_form: JournalForm,
    /// Where it lies.
    pub journal_place: JournalPlace,
}

/// Who may touch a file together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The inode's lock is not taken.
    Free,
    /// Together with all others that share it.
    Shared,
    /// Alone.
    Alone,
}

/// How requests take the inode's lock. Buffered writes, and direct writes that change the file's size
/// or fill holes, always hold it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locks {
    /// Buffered reads.
    pub buffered_reads: Hold,
    /// Direct reads.
    pub direct_reads: Hold,
    /// Direct writes over blocks that are there.
    pub direct_overwrites: Hold,
}

/// When the time of the last access is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTimes {
    /// Never: `noatime`.
    Never,
    /// When it is older than the last change: `relatime`. (The day after which Linux notes it anyway
    /// is left out.)
    Relative,
    /// At each read, by the clock's granularity: each read makes metadata to write.
    Always,
}

/// What is decided at each mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Memory for data and metadata together. Not for what is dirty beyond [`MountOptions::dirty_percent`].
    pub cache: ByteCount,
    /// Every file is direct, however it was opened; what is misaligned goes through the cache. UFS's
    /// `forcedirectio`.
    pub force_direct: bool,
    /// When access times are noted.
    pub access_times: AccessTimes,
    /// Times are kept to this: a second write within it changes no inode.
    pub time_granularity: Duration,
    /// Commits and syncs flush the device's volatile cache. Without: faster, and no file system
    /// survives a power cut on such a device. A device without such a cache is never flushed.
    pub barriers: bool,
    /// A commit first writes all dirty data, of all files: ext3's `data=ordered`. Without: only what
    /// is synced.
    pub ordered: bool,
    /// Changes of metadata are committed when they are this old. Longer: fewer commits, more is lost.
    pub commit_interval: Duration,
    /// Dirty data is written back when it is this old.
    pub dirty_expire: Duration,
    /// Percent of the cache that may be dirty before write-back begins.
    pub dirty_background_percent: u8,
    /// Percent of the cache that may be dirty before writers wait.
    pub dirty_percent: u8,
    /// Dirty bytes of one file before its writers wait; zero for no such limit. UFS's `ufs_HW`.
    pub file_dirty_max: ByteCount,
    /// Sequential writes are written back in clusters of this size as soon as one is full; zero for
    /// not before the limits above. UFS's `maxcontig`.
    pub write_behind: ByteCount,
    /// Longest read-ahead; zero for none.
    pub read_ahead_max: ByteCount,
    /// Longest request to the device.
    pub io_max: ByteCount,
    /// The inode's lock.
    pub locks: Locks,
}

/// Why a file system can't be made, or mounted, so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum SettingsError {
    #[error("the block is {block}: it must be a power of two, 4 KiB to 64 KiB")]
    Block { block: ByteCount },
    #[error("the block is {block}, less than the device's block of {device}: take a larger one")]
    BelowDevice { block: ByteCount, device: ByteCount },
    #[error(
        "the inode is {inode}: it must be a power of two, 128 B to 1 KiB, and 64 of them a block or more"
    )]
    Inode { inode: ByteCount },
    #[error("extents need inodes of 256 B or more")]
    ExtentInode,
    #[error(
        "the group is {group}: at least {least}, and beyond {region} (what one bitmap block covers) a \
         multiple of that"
    )]
    Group { group: ByteCount, least: ByteCount, region: ByteCount },
    #[error("{bytes} for each inode: at least {least}, so that a group's inodes fit one map block")]
    BytesPerInode { bytes: ByteCount, least: ByteCount },
    #[error("the journal is {journal}: at least {least}, at most half of the device")]
    Journal { journal: ByteCount, least: ByteCount },
    #[error("the stripe unit is {unit}, not a multiple of the block of {block}, or it is too wide")]
    Stripe { unit: ByteCount, block: ByteCount },
    #[error("{capacity} is too small: one group of {group}, the journal and the tables must fit")]
    TooSmall { capacity: ByteCount, group: ByteCount },
    #[error(
        "{capacity} is too large: 32-bit block pointers reach less than {limit} with these blocks"
    )]
    TooLarge { capacity: ByteCount, limit: ByteCount },
    #[error("a cache of {cache}: at least {least}")]
    Cache { cache: ByteCount, least: ByteCount },
    #[error("dirty limits of {background} % and {limit} %: 1 ≤ the first ≤ the second ≤ 90")]
    Dirty { background: u8, limit: u8 },
    #[error("requests of {io_max}: a multiple of the block of {block}")]
    IoMax { io_max: ByteCount, block: ByteCount },
    #[error("the commit interval and the age of dirty data must be more than nothing")]
    Interval,
}

/// Bytes of a block at the most.
pub(crate) const BLOCK_MAX: u64 = 64 * KIB;
/// Blocks of journal at the least: a quarter of it is a transaction's limit, and one operation changes
/// some tens of blocks.
pub(crate) const JOURNAL_BLOCKS_MIN: u64 = 256;
/// Blocks of cache at the least: operations hold some tens of blocks of metadata.
const CACHE_BLOCKS_MIN: u64 = 256;
/// Inodes in a chunk: the bits of a mask.
pub(crate) const CHUNK_INODES: u64 = 64;
/// Units in a stripe at the most; far beyond any array.
const STRIPE_WIDTH_MAX: u32 = 4096;

impl Settings {
    /// Whether these settings can be used at all, whatever the device.
    ///
    /// # Errors
    /// The first that can't.
    pub fn check(&self) -> Result<(), SettingsError> {
        let block = self.block;
        if !block.bytes().is_power_of_two() || !(4 * KIB..=BLOCK_MAX).contains(&block.bytes()) {
            return Err(SettingsError::Block { block });
        }
        let inode = self.inode;
        if !inode.bytes().is_power_of_two()
            || !(128..=1024).contains(&inode.bytes())
            || inode * CHUNK_INODES < block
        {
            return Err(SettingsError::Inode { inode });
        }
        if self.mapping == Mapping::Extents && inode.bytes() < 256 {
            return Err(SettingsError::ExtentInode);
        }
        let region = ByteCount(block.bytes() * block.bytes() * 8);
        let least = block * 256;
        let group = self.group;
        let whole = group.is_multiple_of(block)
            && (group <= region || group.is_multiple_of(region))
            && group >= least
            && group.bytes() / region.bytes().max(1) <= u64::from(u32::MAX);
        if !whole {
            return Err(SettingsError::Group { group, least, region });
        }
        if let Inodes::Tables { bytes_per_inode: bytes } = self.inodes {
            // One map block lists the chunks of a group's table, and tables take no more than a half.
            let chunks_max = (block.bytes() - 16) / 16;
            let least = (group.bytes().div_ceil(chunks_max * 64)).max(4 * inode.bytes());
            if bytes.bytes() < least {
                return Err(SettingsError::BytesPerInode { bytes, least: ByteCount(least) });
            }
        }
        let least = block * JOURNAL_BLOCKS_MIN;
        if self.journal < least || !self.journal.is_multiple_of(block) {
            return Err(SettingsError::Journal { journal: self.journal, least });
        }
        if let Some(Stripe { unit, width }) = self.stripe
            && (unit.is_zero()
                || !unit.is_multiple_of(block)
                || width == 0
                || width > STRIPE_WIDTH_MAX
                || unit > ByteCount::gib(1))
        {
            return Err(SettingsError::Stripe { unit, block });
        }
        Ok(())
    }
}

impl MountOptions {
    /// Whether a file system with these blocks can be mounted so.
    ///
    /// # Errors
    /// The first option that can't be.
    pub fn check(&self, block: ByteCount) -> Result<(), SettingsError> {
        let least = block * CACHE_BLOCKS_MIN;
        if self.cache < least {
            return Err(SettingsError::Cache { cache: self.cache, least });
        }
        let (background, limit) = (self.dirty_background_percent, self.dirty_percent);
        if background == 0 || background > limit || limit > 90 {
            return Err(SettingsError::Dirty { background, limit });
        }
        if self.io_max.is_zero() || !self.io_max.is_multiple_of(block) {
            return Err(SettingsError::IoMax { io_max: self.io_max, block });
        }
        if self.commit_interval.is_zero() || self.dirty_expire.is_zero() {
            return Err(SettingsError::Interval);
        }
        Ok(())
    }
}
