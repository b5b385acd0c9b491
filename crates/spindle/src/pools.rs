//! How pools are opened, as options of the command line have it.

use clap::Args;
use stdx::ByteCount;
use targets::this_machine::memory;
use zfs::spa::OpenOptions;
use zfs_store::arc::ArcOptions;

// How pools are opened.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "How pools are opened")]
pub struct PoolArgs {
    /// Memory for the cache of a pool's blocks
    #[arg(long, global = true, value_name = "SIZE", default_value = "1GiB", value_parser = cache_size)]
    arc_max: ByteCount,
    /// Memory for changes of a pool that are not in it yet; without, a tenth of this machine's, 4 GiB at the most
    #[arg(long, global = true, value_name = "SIZE", value_parser = dirty_size)]
    dirty_max: Option<ByteCount>,
    /// Open pools as they stood at this transaction group, as long as its uberblock is left
    #[arg(
        short = 'T',
        long,
        global = true,
        value_name = "TXG",
        conflicts_with = "rewind_to_checkpoint"
    )]
    txg: Option<u64>,
    /// Open pools as they stood at their checkpoint
    #[arg(long, global = true)]
    rewind_to_checkpoint: bool,
}

/// Bytes of the smallest cache: below that not even a few blocks of metadata stay, and every step is read anew.
const ARC_BYTES_MIN: ByteCount = ByteCount(1 << 20);

/// The size of a cache.
fn cache_size(text: &str) -> Result<ByteCount, String> {
    size_from(ARC_BYTES_MIN, text)
}

/// Bytes of the least memory for changes: some blocks of the largest kind.
const DIRTY_BYTES_MIN: ByteCount = ByteCount(64 << 20);
/// Of the most, where nobody says: OpenZFS's `zfs_dirty_data_max_max`.
const DIRTY_BYTES_MAX: ByteCount = ByteCount(4 << 30);
/// The part of the machine's memory that it is, where nobody says: OpenZFS's `zfs_dirty_data_max_percent`.
const DIRTY_PART: u64 = 10;

/// How much memory changes may take.
fn dirty_size(text: &str) -> Result<ByteCount, String> {
    size_from(DIRTY_BYTES_MIN, text)
}

/// A size that is no less than one.
fn size_from(least: ByteCount, text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    match size < least {
        true => Err(format!("the least that works is {least}")),
        false => Ok(size),
    }
}

impl PoolArgs {
    /// For the engine.
    pub fn options(self) -> OpenOptions {
        let arc = ArcOptions { size: self.arc_max, ..ArcOptions::default() };
        let usual = || {
            // Where the kernel doesn't say how much there is, it may be little.
            let memory =
                memory().map_or(DIRTY_BYTES_MIN, |all| ByteCount(all.bytes() / DIRTY_PART));
            memory.clamp(DIRTY_BYTES_MIN, DIRTY_BYTES_MAX)
        };
        let dirty_max = self.dirty_max.unwrap_or_else(usual).bytes();
        let (txg, checkpoint) = (self.txg, self.rewind_to_checkpoint);
        OpenOptions { arc, dirty_max, txg, checkpoint, whole_devices: false }
    }
}

/// The command that was given, from `zpool` or `zfs` on, as a pool's history keeps it.
pub fn command_given() -> Option<String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    command_of(&words.collect::<Vec<_>>())
}

/// The same of words that were given elsewhere.
pub fn command_of(words: &[String]) -> Option<String> {
    let first = words.iter().position(|word| word == "zpool" || word == "zfs")?;
    Some(words[first..].join(" "))
}
