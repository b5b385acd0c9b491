//! How pools are opened, as options of the command line have it.

use clap::Args;
use stdx::ByteCount;
use zfs::spa::OpenOptions;
use zfs_store::arc::ArcOptions;

/// How pools are opened.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "How pools are opened")]
pub struct PoolArgs {
    /// Memory for the cache of a pool's blocks
    #[arg(long, global = true, value_name = "SIZE", default_value = "1GiB", value_parser = cache_size)]
    arc_max: ByteCount,
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
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    match size < ARC_BYTES_MIN {
        true => Err(format!("the least that works is {ARC_BYTES_MIN}")),
        false => Ok(size),
    }
}

impl PoolArgs {
    /// For the engine.
    pub fn options(self) -> OpenOptions {
        let arc = ArcOptions { size: self.arc_max, ..ArcOptions::default() };
        OpenOptions { arc, txg: self.txg, checkpoint: self.rewind_to_checkpoint }
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
