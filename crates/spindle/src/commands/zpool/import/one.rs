//! One pool imported: opened for reading, or taken for writing.
//!
//! There is no daemon to hand a pool to, so none stays open. What an import does here is what it does to the pool on its devices:
//!
//! * `-o readonly=on`: it is opened, and it is said that it can be read, and with which words. Nothing is written.
//! * else it is opened for writing and closed as exported: intent logs are replayed, a pool that a crash or another host left open is
//!   this host's, properties are set, it is renamed, taken back (`-F`, `--rewind-to-checkpoint`), or brought back from where it was
//!   destroyed (`-D`); what only a log device had that is missing is given up (`-m`), and so is what no device has that is there
//!   (`--accept-loss`). Every other command opens it then without more words.
//!
//! A temporary name (`-t`) lasts until the export, and a pool is exported when this ends: it has its own in all labels, as there.
//!
//! Source for the words: OpenZFS 2.3, `zpool_main.c`, `libzfs_pool.c` (`zpool_rewind_exclaim`, `zpool_explain_recover`).

use super::super::create;
use super::super::lacking::Lacking;
use super::super::opened::{devices, say_lacking};
use super::super::set::{Change, change, set_in};
use super::super::tree::{self, Naming};
use super::args::ImportArgs;
use crate::commands::clock;
use crate::commands::zfs::set::split;
use crate::output::{Failure, print, say};
use crate::printable;
use attach::Error;
use attach::pools::host::check_not_in_use;
use attach::pools::{LivePool, Opening, PoolPlace, Pools, Rewind, open_rewound};
use std::rc::Rc;
use zfs::dsl::dependents::Datasets;
use zfs::health::{self, Health, VdevHealth};
use zfs::show;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::limits::NAME_BYTES_MAX;
use zfs::spa::live::LiveError;
use zfs::spa::{FoundPool, OpenError, PoolState, Spa};
use zfs_format::uberblock::Uberblock;
use zfs_store::alloc::Class;

/// Seconds from which on what is lost is told in minutes.
const MINUTES_FROM: u64 = 120;

/// Options of mounts that OpenZFS takes for its file systems.
const MOUNT_WORDS: [&str; 18] = [
    "defaults",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "dev",
    "nodev",
    "devices",
    "nodevices",
    "exec",
    "noexec",
    "suid",
    "nosuid",
    "setuid",
    "nosetuid",
    "xattr",
    "noxattr",
];

/// What is to be done with a pool.
pub struct Import<'a> {
    args: &'a ImportArgs,
    place: &'a PoolPlace<'a>,
    read_only: bool,
    /// Properties that are set, as they were given.
    properties: Vec<(String, String, Change)>,
    rewind: Option<Rewind>,
}

impl<'a> Import<'a> {
    /// What the arguments ask for.
    ///
    /// # Errors
    /// They don't fit together, or ask for what can't be.
    pub fn of(args: &'a ImportArgs, place: &'a PoolPlace<'a>) -> Result<Import<'a>, Failure> {
        let mut import =
            Import { args, place, read_only: false, properties: Vec::new(), rewind: None };
        for option in &args.options {
            import.take(option)?;
        }
        if (args.dry_run || args.far) && !args.rewind {
            return Err(Failure::usage("-n or -X only meaningful with -F"));
        }
        if args.temporary && args.new_name.is_none() {
            return Err(Failure::usage("-t: name the pool, and the name that it has meanwhile"));
        }
        if args.rewind {
            import.rewind = Some(if args.far { Rewind::Far } else { Rewind::Near });
        }
        if import.rewind.is_some() && place.options.checkpoint {
            return Err(Failure::usage(
                "-F and --rewind-to-checkpoint take a pool back to different states: give one of them",
            ));
        }
        let is_renamed = args.new_name.is_some() && !args.temporary;
        if import.read_only && (is_renamed || !import.properties.is_empty()) {
            return Err(Failure::usage(
                "with -o readonly=on nothing is written: leave it out, or another name and other properties",
            ));
        }
        if let Some(name) = &args.new_name {
            let refuse = |why: String| {
                let pool = args.pool.as_deref().unwrap_or_default();
                Failure::failed(format!("cannot import '{pool}' as '{name}': {why}"))
            };
            create::check_pool_name(name).map_err(refuse)?;
        }
        Ok(import)
    }

    /// One of the options.
    fn take(&mut self, option: &str) -> Result<(), Failure> {
        let refuse = |why: &str| Failure::failed(format!("'-o {option}': {why}"));
        if !option.contains('=') {
            for word in option.split(',') {
                match word {
                    "ro" => self.read_only = true,
                    "rw" => self.read_only = false,
                    // Nothing is mounted that they would be for.
                    word if MOUNT_WORDS.contains(&word) => {}
                    _ => return Err(refuse("it is no option of mounts")),
                }
            }
            return Ok(());
        }
        match split(option)? {
            ("readonly", "on") => self.read_only = true,
            ("readonly", "off") => self.read_only = false,
            // There is neither a cache file nor anything that is mounted.
            ("cachefile", "none" | "") | ("altroot", _) => {}
            (name, value) => {
                let change = change(name, value).map_err(|why| refuse(&why))?;
                self.properties.push((name.to_owned(), value.to_owned(), change));
            }
        }
        Ok(())
    }

    /// Imports a pool.
    ///
    /// # Errors
    /// With the line to print, or without where it was said.
    pub fn carry_out(&self, pools: &Pools, found: &Rc<FoundPool>) -> Result<(), Failure> {
        let (name, force) = (&found.name, self.args.force);
        if found.state == PoolState::Destroyed && !force {
            let text = "the pool was destroyed, but can be imported using the '-Df' flags";
            return Err(Failure::failed(format!("cannot import '{name}': {text}")));
        }
        if self.read_only && !self.args.dry_run {
            // Reading harms nobody, so signs of life are not waited for; but one wants to know of another host.
            let checked = if force { Ok(()) } else { check_not_in_use(pools, found, false) };
            return match checked {
                Err(error @ Error::PoolOfOther { .. }) => Err(in_use(found, error)),
                _ => self.read(pools, found),
            };
        }
        check_not_in_use(pools, found, force).map_err(|error| in_use(found, error))?;
        if self.args.dry_run {
            let rewind = self.rewind.unwrap_or(Rewind::Near);
            let spa = open_rewound(pools, found, rewind, self.args.accept_loss);
            let spa = spa.map_err(|error| failed(name, &error))?;
            return exclaim(found, &spa.uberblock(), true);
        }
        self.write(pools, found)
    }

    fn read(&self, pools: &Pools, found: &Rc<FoundPool>) -> Result<(), Failure> {
        let cannot = |error: OpenError| failed(&found.name, &error);
        let spa = match self.rewind {
            None => pools.try_open(found).map_err(cannot)?,
            Some(rewind) => {
                let back = open_rewound(pools, found, rewind, self.args.accept_loss);
                let spa = back.map_err(|error| failed(&found.name, &error))?;
                exclaim(found, &spa.uberblock(), true)?;
                spa
            }
        };
        let health = self.check_devices(pools, found, &spa)?;
        let lost = unusable(pools, found, &health);
        let but = match lost.as_slice() {
            [] => String::new(),
            lost => {
                format!(", with vdev {} UNAVAIL: much of it can't be read", lost.join(", "))
            }
        };
        say_opened(spa.name(), &format!("opens for reading{but}"), &spa)
    }

    /// How its vdevs are; refused where a log is missing, and nobody said that it may.
    fn check_devices(
        &self,
        pools: &Pools,
        found: &Rc<FoundPool>,
        spa: &Spa,
    ) -> Result<VdevHealth, Failure> {
        let health = health::of_pool(&spa.vdevs(), &found.present(), false);
        let (names, _) = devices(pools, found);
        let lacking = Lacking::of(pools, spa, found);
        let apart = lacking.apart(&health, &names).into_iter().collect();
        say_lacking(&found.name, &[lacking.lost_said(&health, &names), apart].concat());
        if !self.args.without_log {
            refuse_without_log(pools, found, &health)?;
        }
        Ok(health)
    }

    fn write(&self, pools: &Pools, found: &Rc<FoundPool>) -> Result<(), Failure> {
        let name = &found.name;
        if self.rewind.is_none() {
            let spa = pools.try_open(found).map_err(|error| failed(name, &error))?;
            self.check_devices(pools, found, &spa)?;
        }
        let opening = Opening {
            // It was decided a moment ago, and a watch takes its time.
            force: true,
            destroyed: found.state == PoolState::Destroyed,
            rewind: self.rewind,
            checkpoint: self.place.options.checkpoint,
            without_log: self.args.without_log,
            accepts_loss: self.args.accept_loss,
            watched: true,
        };
        let opened = LivePool::open_by(self.place, &found.guid.to_string(), opening);
        let pool = opened.map_err(|error| match &error {
            Error::NotWritten { error: reason, .. } => match **reason {
                LiveError::Older { txg, far } => recoverable(found, txg, far),
                _ => failed(name, &error),
            },
            _ => in_use(found, error),
        })?;
        let spa = Rc::clone(pool.live.spa());
        let opened_at = spa.uberblock();
        let new_name = self.args.new_name.as_deref().filter(|_| !self.args.temporary);
        if let Some(new) = new_name
            && !names_fit(&pool.datasets()?, name, new)
        {
            // As it was found: nothing was asked of it yet.
            pool.close(LabelState::Exported)?;
            let text =
                "new name of at least one dataset is longer than the maximum allowable length";
            return Err(Failure::failed(format!("cannot import '{name}' as '{new}': {text}")));
        }
        for (property, value, change) in &self.properties {
            set_in(&pool, property, value, change.clone())?;
        }
        if let Some(new) = new_name.map(str::to_owned) {
            pool.live.syncer().change_config(|config| config.name = new);
        }
        pool.live.syncer().note_deed();
        let is_back = self.rewind.is_some();
        pool.close(LabelState::Exported)?;
        if is_back {
            exclaim(found, &opened_at, false)?;
        }
        let name = match &self.args.new_name {
            Some(new) if self.args.temporary => {
                let kept = format!(
                    "was imported as '{}', and keeps its name: it can be written",
                    printable::word(new)
                );
                return say_opened(spa.name(), &kept, &spa);
            }
            new => new.as_deref().unwrap_or(spa.name()),
        };
        say_opened(name, "can be written", &spa)
    }
}

/// Whether the names of all datasets, snapshots and bookmarks are names when the pool is called otherwise.
fn names_fit(datasets: &Datasets, old: &str, new: &str) -> bool {
    let fits = |bytes: usize| bytes - old.len() + new.len() <= NAME_BYTES_MAX;
    datasets.all.iter().all(|known| {
        let bookmarks = known.bookmarks.iter().map(|(short, _)| known.name.len() + 1 + short.len());
        let snapshots = known.snapshots.iter().map(|snapshot| snapshot.name.len());
        fits(known.name.len()) && snapshots.chain(bookmarks).all(fits)
    })
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot import '{name}': {error}"))
}

/// What is said of a pool that opened.
fn say_opened(name: &str, how: &str, spa: &Spa) -> Result<(), Failure> {
    let (name, txg) = (printable::word(name), spa.uberblock().txg);
    let next = "there is no daemon that keeps it open: give the same -d to `spindle zfs`, `zpool` and `mount`";
    print(&format!("pool '{name}' {how}, at transaction group {txg}; {next}\n"))
}

/// In OpenZFS's words, that a pool may be in use elsewhere.
fn in_use(found: &FoundPool, error: Error) -> Failure {
    let shown = printable::word(&found.name);
    let zone = clock::local();
    match error {
        Error::PoolActive { host, id, .. } => {
            let host = printable::word(&host);
            say(&format!("cannot import '{shown}': pool is imported on {host} (hostid: {id:#x})"));
            say("Export the pool on the other system, then run 'zpool import'.");
            Failure::said()
        }
        Error::PoolOfOther { .. } | Error::PoolInUse { .. } => {
            let host = found.text("hostname").unwrap_or_else(|| "<unknown>".to_owned());
            let (host, last) = (printable::word(&host), found.number("hostid").unwrap_or(0));
            let when = found.uberblock.as_ref().map_or(0, |uberblock| uberblock.timestamp);
            let when = show::date(when, &zone);
            say(&format!(
                "cannot import '{shown}': pool was previously in use from another system."
            ));
            say(&format!("Last accessed by {host} (hostid={last:x}) at {when}"));
            say("The pool can be imported, use 'zpool import -f' to import the pool.");
            Failure::said()
        }
        error => failed(&found.name, &error),
    }
}

/// Seconds between the newest group of a pool and another.
fn loss(found: &FoundPool, at: &Uberblock) -> u64 {
    let newest = found.uberblock.as_ref().map_or(0, |newest| newest.timestamp);
    newest.saturating_sub(at.timestamp)
}

/// What was, or would be, lost by taking a pool back; nothing where it was not.
fn exclaim(found: &FoundPool, at: &Uberblock, dry_run: bool) -> Result<(), Failure> {
    let (shown, when) = (printable::word(&found.name), show::date(at.timestamp, &clock::local()));
    if found.uberblock.as_ref().is_some_and(|newest| newest.txg == at.txg) {
        return match dry_run {
            true => print(&format!("{shown} can be imported as it is.\n")),
            false => Ok(()),
        };
    }
    let mut text = match dry_run {
        true => format!("Would be able to return {shown} to its state as of {when}.\n"),
        false => format!("Pool {shown} returned to its state as of {when}.\n"),
    };
    let discarded = if dry_run { "Would discard" } else { "Discarded" };
    match loss(found, at) {
        0 => {}
        seconds @ ..=MINUTES_FROM => {
            text += &format!("{discarded} approximately {seconds} seconds of transactions.\n");
        }
        seconds => {
            let minutes = (seconds + 30) / 60;
            text += &format!("{discarded} approximately {minutes} minutes of transactions.\n");
        }
    }
    print(&text)
}

/// Says that a pool can be taken back.
fn recoverable(found: &FoundPool, txg: u64, far: bool) -> Failure {
    let how = if far { "-FX" } else { "-F" };
    let shown = printable::word(&found.name);
    say(&format!("cannot import '{shown}': its newest transaction group can't be opened"));
    say("\tRecovery is possible, but will result in some data loss.");
    let at = found.uberblocks().into_iter().find(|uberblock| uberblock.txg == txg);
    if let Some(at) = at {
        let when = show::date(at.timestamp, &clock::local());
        say(&format!("\tReturning the pool to its state as of {when}"));
        let lost = match loss(found, &at) {
            0 => String::new(),
            seconds @ ..=MINUTES_FROM => format!("  Approximately {seconds} seconds of data"),
            seconds => format!("  Approximately {} minutes of data", (seconds + 30) / 60),
        };
        say(&format!("\tshould correct the problem.{lost}"));
        if !lost.is_empty() {
            say("\tmust be discarded, irreversibly.");
        }
    }
    say(&format!("\tRecovery can be attempted by executing 'zpool import {how} {shown}'."));
    say("\tA scrub of the pool is strongly recommended after recovery.");
    Failure::said()
}

/// Names of the top-level vdevs that can't be used, but those for the intent log.
fn unusable(pools: &Pools, found: &Rc<FoundPool>, health: &VdevHealth) -> Vec<String> {
    let (devices, _) = devices(pools, found);
    let lost = health
        .children
        .iter()
        .filter(|top| top.health > Health::Degraded && Class::of(&top.vdev) != Class::Log);
    lost.map(|top| tree::shown(&top.vdev, top.children.len(), &devices, Naming::default()))
        .collect()
}

/// Whoever opens a pool without its log loses what only that holds, so it wants to be said.
fn refuse_without_log(
    pools: &Pools,
    found: &Rc<FoundPool>,
    health: &VdevHealth,
) -> Result<(), Failure> {
    let logs = tree::of_class(health, Class::Log).into_iter();
    let lost: Vec<&VdevHealth> = logs.filter(|log| log.health > Health::Degraded).collect();
    if lost.is_empty() {
        return Ok(());
    }
    say("The devices below are missing or corrupted, use '-m' to import the pool anyway:");
    let (devices, _) = devices(pools, found);
    let named = |node: &VdevHealth| {
        tree::shown(&node.vdev, node.children.len(), &devices, Naming::default())
    };
    for log in lost {
        say(&format!("\t    {} [log]", named(log)));
        log.children.iter().for_each(|child| say(&format!("\t      {}", named(child))));
    }
    let text = "one or more devices is currently unavailable";
    Err(Failure::failed(format!("cannot import '{}': {text}", found.name)))
}
