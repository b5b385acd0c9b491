//! `spindle zfs cp HOSTPATH DATASET:PATH`: the other way, files of this host copied into a pool, with all that is known of them.
//!
//! **Which way.** A target with a colon leads into a pool, unless it begins with `/` or `.`, and as long as every source is this
//! host's: it begins so itself, has no colon, or is there. Where to a copy goes, what bears a mark and what is kept is as it is
//! outward ([`place`]).
//!
//! **What is kept.** Times to the nanosecond, owners (whoever copies: in the pool they are but numbers), modes, extended
//! attributes and lists of access, holes where the host's file system tells of them, hard links as far as both names are copied
//! in one run, symbolic links, device nodes, pipes, sockets. Not the time of the last change, which nothing sets.
//!
//! **Going on.** A pool changes in groups: what is there after a kill is what was there at one moment before it. So a file is
//! written from front to back under a temporary name that says what it is ([`mod@file`]), gets its attributes, and then its own name: what bears its own
//! name with the same size and time is whole, and what was begun goes on where it ends. Nothing is waited for in between.
//!
//! **A pool that another process holds** stays with it: what is read is this process's, and each change goes
//! [there](attach::pools::running::files).
//!
//! **The pool** is in use meanwhile: its labels say so, and after a kill it is opened with `--force-import`. At the end, at Ctrl-C and
//! when it is full it is exported with all that was copied so far. Groups are committed as in a mount.
//!
//! Children of the dataset lie over directories of it, as in a mount; what belongs there is copied with `--children` only.

mod entries;
mod file;
mod place;
mod target;
mod tree;

use super::tally::{Rules, Stop, Tally};
use crate::commands::held;
use crate::output::{Failure, say};
use crate::signals::{INTERRUPTED, told_by_signals};
use ::host::CalendarClock;
use ::host::Identity;
use ::zfs::mounted::{MountOptions, Mounted, Writing};
use ::zfs::spa::config::LabelState;
use ::zfs::{Problem, ZfsError};
use attach::Error;
use attach::ending::Told;
use attach::pools::PoolPlace;
use attach::pools::running::client;
use attach::pools::running::files::Files;
use entries::{End, Entries};
use futures_util::future::join;
use place::Given;
use rt::sync::Notify;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use target::{Pool, Target};
use tree::Tree;

/// What is to be copied into a pool, and how.
pub(super) struct Inward<'a> {
    pub(super) sources: &'a [OsString],
    pub(super) target: &'a OsStr,
    pub(super) recursive: bool,
    pub(super) rules: Rules,
    /// Though the pool was not exported.
    pub(super) in_use: bool,
}

/// Whether this leads from the host into a pool.
pub(super) fn is_inward(sources: &[OsString], target: &OsStr) -> bool {
    let is_path = |word: &[u8]| word.starts_with(b"/") || word.starts_with(b".");
    let has_colon = |word: &[u8]| word.contains(&b':');
    let target = target.as_bytes();
    let is_hosts = |source: &OsString| {
        let bytes = source.as_bytes();
        is_path(bytes) || !has_colon(bytes) || std::fs::symlink_metadata(Path::new(source)).is_ok()
    };
    !is_path(target) && has_colon(target) && sources.iter().all(is_hosts)
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub(super) fn run(wanted: &Inward<'_>, place: &PoolPlace<'_>) -> Result<(), Failure> {
    // What is wrong with the words is said before the pool is in use.
    let given: Result<Vec<Given>, Failure> = wanted.sources.iter().map(Given::find).collect();
    let given = given?;
    let (pool, target) = Target::open(place, wanted.target, wanted.in_use)?;
    let told = told_by_signals()?;
    if let Pool::Own(pool) = &pool {
        pool.begin()?;
    }
    let tally = Rc::new(Tally::new(wanted.rules.verbose));
    let done = copy(wanted, given, &pool, &target, &told, &tally);
    tally.clear();
    let closed = match pool {
        Pool::Own(pool) => pool.close(LabelState::Exported).map_err(Failure::from),
        Pool::Held(_, spa) => sync(place, spa.name()),
    };
    done.and(closed)?;
    tally.end()
}

/// Has who holds the pool write all that was copied.
fn sync(place: &PoolPlace<'_>, pool: &str) -> Result<(), Failure> {
    let words = ["zpool", "sync", pool].map(str::to_owned).to_vec();
    // One that is held no more was exported with all of it.
    held::send(place, pool, words)?.map_or(Ok(()), held::tell)
}

/// The files that are copied into, and what is done beside it for the pool to be written.
async fn files_of(pool: Writing, target: Target) -> Result<Files, ZfsError> {
    let spa = Rc::clone(pool.live.spa());
    let found = spa.dsl().find(&target.dataset).await?;
    let (directory, dataset) = found.ok_or_else(|| spa.mos().wrong(0, Problem::Absent))?;
    let how = MountOptions::default();
    let tell = Rc::new(|_: &::zfs::mounted::Notice| ());
    let opened = Mounted::open_for_writing(pool, Rc::new(directory), dataset, how, tell).await?;
    Ok(Files::Own(Rc::new(opened)))
}

/// Copies all, while groups are committed.
fn copy(
    wanted: &Inward<'_>,
    given: Vec<Given>,
    pool: &Pool,
    target: &Target,
    told: &Arc<Told>,
    tally: &Rc<Tally>,
) -> Result<(), Failure> {
    let pools = pool.pools();
    let devices = pools.disks().identities();
    let devices = devices.into_iter().map(Identity::numbers).collect();
    let children = pools.below(pool.spa(), &target.node)?;
    let children = children.iter().filter_map(|node| target.below(&node.directory.name)).collect();
    let failed = |error| Failure::failed(format!("{}: {error}", target.dataset));
    let (files, live) = match pool {
        Pool::Own(pool) => {
            let live = Rc::clone(&pool.live);
            let writing = Writing { live: Rc::clone(&live), clock: Rc::new(CalendarClock) };
            let files = files_of(writing, target.clone());
            (pools.wait(files).map_err(failed)?, Some(live))
        }
        Pool::Held(pools, spa) => {
            let ends = || Error::HolderEnds { name: spa.name().to_owned() };
            let found = pools.named(spa.name())?.ok_or_else(ends)?;
            (client::files(pools, found, &target.dataset)?.ok_or_else(ends)?, None)
        }
    };
    let rt = pools.rt();
    let (rules, recursive, many) = (wanted.rules, wanted.recursive, given.len() > 1);
    let (tally, parts) = (Rc::clone(tally), target.clone());
    let ending = Rc::new(End::default());
    let told = Arc::clone(told);
    pools.wait(async move {
        let watched = Rc::clone(&ending);
        // It waits for the whole run, and goes with it.
        let _signals = rt.spawn(async move {
            told.wait().await;
            watched.set(Stop::Interrupted);
        });
        let entries = Entries::new(files, Rc::clone(&tally), rules, &ending, &rt);
        let (links, given_before) = Default::default();
        let tree = Tree { entries, devices, children, rt, links, given: given_before };
        let copied = Notify::default();
        let copying = async {
            let done = tree.copy_all(&given, &parts, recursive, many).await;
            copied.notify_one();
            done
        };
        // Neither is given up in its midst: a group that is half written ends the pool's life.
        let syncing = async {
            // Who holds it does that.
            let Some(live) = live else { return };
            if let Err(error) = live.keep_synced(copied.notified()).await {
                ending.set(Stop::Ended(error.to_string()));
            }
        };
        match join(copying, syncing).await.0 {
            Ok(()) => Ok(()),
            Err(Stop::Full(text) | Stop::Ended(text)) => Err(Failure::failed(text)),
            Err(Stop::Interrupted) => {
                say("stopped: the pool has what was copied; the same command goes on");
                Err(Failure::told(String::new(), INTERRUPTED as u8))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a copy goes the other way than was meant.
    #[test]
    fn the_way_is_told_by_the_words() {
        let leads = |sources: &[&str], target: &str| {
            let sources: Vec<OsString> = sources.iter().map(OsString::from).collect();
            is_inward(&sources, OsStr::new(target))
        };
        assert!(leads(&["dir/."], "tank:"));
        assert!(leads(&["/dir", "file"], "tank/home:docs"));
        assert!(leads(&["./a:b"], "tank:"));
        assert!(!leads(&["tank:docs"], "out"));
        assert!(!leads(&["tank:docs"], "out:1"));
        assert!(!leads(&["tank:docs"], "/out:1"));
        assert!(!leads(&["dir"], "./out:1"));
        assert!(!leads(&["dir", "tank:docs"], "tank:"));
    }
}
