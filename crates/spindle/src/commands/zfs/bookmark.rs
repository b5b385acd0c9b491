//! `zfs bookmark`: the moment of a snapshot, or of another bookmark, marked under a name of its own.
//!
//! Source: OpenZFS, `zfs_main.c` (`zfs_do_bookmark`).

use super::changed::{Changed, absent};
use crate::output::Failure;
use ::zfs::spa::datasets::bookmarks::BookmarkSource;
use attach::pools::{PoolPlace, check_name, pool_of};
use clap::Args;

// What `bookmark` takes.
#[derive(Args)]
pub struct BookmarkArgs {
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The snapshot or bookmark; @SNAPSHOT is enough where the other one says of what
    #[arg(value_name = "DATASET@SNAPSHOT|DATASET#BOOKMARK")]
    source: String,
    /// The new one; #BOOKMARK is enough where the other one says of what
    #[arg(value_name = "DATASET#BOOKMARK")]
    bookmark: String,
}

/// Both names in full.
fn whole(source: &str, bookmark: &str) -> Result<(String, String), Failure> {
    let at = source.find(['@', '#']).ok_or_else(|| {
        Failure::usage(format!("invalid source name '{source}': must contain a '@' or '#'"))
    })?;
    let mark = bookmark.find('#').ok_or_else(|| {
        Failure::usage(format!("invalid bookmark name '{bookmark}': must contain a '#'"))
    })?;
    match (at, mark) {
        (0, 0) => {
            let text = "either source or bookmark must be specified as full dataset paths";
            Err(Failure::usage(text))
        }
        (0, mark) => Ok((format!("{}{source}", &bookmark[..mark]), bookmark.to_owned())),
        (at, 0) => Ok((source.to_owned(), format!("{}{bookmark}", &source[..at]))),
        _ => Ok((source.to_owned(), bookmark.to_owned())),
    }
}

/// Carries out `bookmark`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &BookmarkArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let (source, bookmark) = whole(&args.source, &args.bookmark)?;
    let refuse = |why: &str| Failure::failed(format!("cannot create bookmark '{bookmark}': {why}"));
    check_name(&bookmark)?;
    let changed = Changed::open(place, &source, args.force)?;
    let from = match source.split_once('#') {
        Some((of, name)) => {
            let known = changed.datasets.find(of).ok_or_else(|| absent(&source))?;
            let name = known.bookmarks.iter().map(|(name, _)| name).find(|known| *known == name);
            BookmarkSource::Bookmark(known.dataset, name.ok_or_else(|| absent(&source))?.clone())
        }
        None => BookmarkSource::Snapshot(changed.snapshot(&source)?.1.number),
    };
    if pool_of(&source) != pool_of(&bookmark) {
        return Err(refuse("bookmark is in a different pool"));
    }
    let (of, name) = bookmark.split_once('#').unwrap_or_default();
    let known = changed.datasets.find(of).ok_or_else(|| refuse("dataset does not exist"))?;
    let (dataset, name) = (known.dataset, name.to_owned());
    let done = changed.pool.task(async move |tasks| tasks.bookmark(dataset, &name, &from).await)?;
    changed.pool.finish()?;
    done.map_err(|error| refuse(&error.to_string()))
}
