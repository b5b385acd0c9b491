//! `spindle zpool upgrade`: which features pools lack, and having them enabled.
//!
//! Enabled are those that are [written here](super::features), as far as the pool's property `compatibility` allows. A pool of
//! version 28 becomes one that has features first; those of versions before are only read, and not made others.
//!
//! Source for the words: OpenZFS 2.3, `zpool_main.c` (`zpool_do_upgrade`).

use super::features::{self, WRITTEN};
use super::opened::{not_opened, say_called_alike, say_missing};
use crate::commands::held;
use crate::output::{Failure, print, say};
use crate::printable;
use ::zfs::spa::config::LabelState;
use ::zfs::spa::{FoundPool, Spa};
use attach::pools::running::protocol::Said;
use attach::pools::{LivePool, PoolPlace, Pools};
use clap::Args;
use std::fmt::Write;
use std::rc::Rc;
use zfs_format::features::Feature;
use zfs_format::uberblock::{VERSION_BEFORE_FEATURES, VERSION_FEATURES};

const HEAD: &str = "This system supports ZFS pool feature flags.\n\n";

// What `upgrade` takes.
#[derive(Args)]
pub struct UpgradeArgs {
    /// List the features that can be enabled
    #[arg(short = 'v', conflicts_with_all = ["all", "pools"])]
    known: bool,
    /// Enable the features of all pools
    #[arg(short = 'a', conflicts_with = "pools")]
    all: bool,
    /// A version without features: none is given here to a pool
    #[arg(short = 'V', value_name = "VERSION", hide = true)]
    version: Option<String>,
    /// Pools whose features are to be enabled; without any, pools that lack some are listed
    pools: Vec<String>,
}

/// A pool, and the features that it could have.
struct Looked {
    spa: Rc<Spa>,
    lacks: Vec<&'static str>,
    /// Whether its property `compatibility` keeps it as old as it is.
    is_kept_old: bool,
}

impl Looked {
    fn of(pools: &Pools, found: &Rc<FoundPool>) -> Result<Looked, Failure> {
        let spa = pools.open_found(found)?;
        let compatibility =
            spa.config().text("compatibility").ok().flatten().map(ToString::to_string);
        let compatibility = compatibility.unwrap_or_else(|| "off".to_owned());
        let failed = |error| Failure::failed(format!("cannot upgrade '{}': {error}", found.name));
        let mut lacks = features::allowed(&compatibility).map_err(failed)?;
        lacks.retain(|name| !Feature::named(name).is_some_and(|f| spa.has_feature(f.guid)));
        Ok(Looked { spa, lacks, is_kept_old: compatibility == "legacy" })
    }

    /// Its version, where that is one before features.
    fn old_version(&self) -> Option<u64> {
        Some(self.spa.uberblock().version).filter(|version| *version < VERSION_FEATURES)
    }
}

/// Carries out `upgrade`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &UpgradeArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if let Some(version) = &args.version {
        let text = "pools get all features here, and no version of before";
        return Err(Failure::failed(format!("cannot upgrade to version '{version}': {text}")));
    }
    print(HEAD)?;
    if args.known {
        return print(&known());
    }
    let pools = Pools::find(place)?;
    let (chosen, without) = pools.chosen(&args.pools)?;
    say_called_alike(&pools, &args.pools);
    let mut failed = say_missing(&without, |name| format!("cannot open '{name}': no such pool"));
    let mut looked = Vec::new();
    for found in &chosen {
        match Looked::of(&pools, found) {
            Ok(one) => looked.push(one),
            Err(failure) => {
                say(&format!("spindle: {}", failure.message));
                failed = true;
            }
        }
    }
    drop(pools);
    if !args.all && args.pools.is_empty() {
        print(&lacking(&looked))?;
    } else {
        failed |= upgrade(args, place, &looked)?;
    }
    if failed { Err(Failure::said()) } else { Ok(()) }
}

/// Upgrades pools; whether one can't be.
fn upgrade(args: &UpgradeArgs, place: &PoolPlace<'_>, looked: &[Looked]) -> Result<bool, Failure> {
    let mut failed = false;
    for one in looked {
        let name = printable::word(one.spa.name()).into_owned();
        let old = one.old_version();
        if let Some(version) = old.filter(|version| *version < VERSION_BEFORE_FEATURES) {
            let why = format!("pools of version {version} are only read");
            say(&format!("spindle: cannot upgrade '{name}': {why}"));
            failed = true;
        } else if old.is_some() && one.is_kept_old {
            let why = "its property 'compatibility' is 'legacy', which keeps its version";
            say(&format!("spindle: cannot upgrade '{name}': {why}"));
            failed = true;
        } else if one.lacks.is_empty() && old.is_none() {
            if !args.all {
                let text = "already has all supported and requested features enabled.";
                print(&format!("Pool '{name}' {text}\n"))?;
            }
        } else {
            match enable(place, one.spa.guid(), &one.lacks) {
                Ok(enabled) => {
                    if let Some(version) = old {
                        let text = format!("from version {version} to feature flags.");
                        print(&format!("Successfully upgraded '{name}' {text}\n\n"))?;
                    }
                    if enabled.is_empty() {
                        continue;
                    }
                    let names = enabled.iter().fold(String::new(), |mut text, feature| {
                        // Writing to a string can't fail.
                        let _ = writeln!(text, "  {}", feature.name);
                        text
                    });
                    print(&format!("Enabled the following features on '{name}':\n{names}\n"))?;
                }
                Err(failure) if failure.held.is_some() => {
                    failed |= !upgrade_held(place, one.spa.guid(), failure)?;
                }
                Err(failure) => {
                    say(&format!("spindle: cannot upgrade '{name}': {}", failure.message));
                    failed = true;
                }
            }
        }
    }
    let lacks = |one: &Looked| !one.lacks.is_empty() || one.old_version().is_some();
    if args.all && !failed && !looked.iter().any(lacks) {
        print(
            "All pools are already formatted using feature flags.\n\nEvery feature flags pool already has all supported and requested \
             features enabled.\n",
        )?;
    }
    Ok(failed)
}

/// Has a pool upgraded by who holds it; whether that was done.
fn upgrade_held(place: &PoolPlace<'_>, guid: u64, failure: Failure) -> Result<bool, Failure> {
    let words = ["zpool".to_owned(), "upgrade".to_owned(), guid.to_string()].to_vec();
    let done = held::send(place, &guid.to_string(), words)?;
    let mut done = done.ok_or(failure)?;
    // The head was printed.
    done.said.retain(|said| !matches!(said, Said::Out(text) if text == HEAD));
    match held::tell(done) {
        Ok(()) => Ok(true),
        Err(failure) => {
            if !failure.message.is_empty() {
                say(&format!("spindle: {}", failure.message));
            }
            Ok(false)
        }
    }
}

/// Enables features in a pool; gives those that were not enabled.
///
/// # Errors
/// The pool can't be written.
fn enable(
    place: &PoolPlace<'_>,
    guid: u64,
    names: &[&'static str],
) -> Result<Vec<&'static Feature>, Failure> {
    let pool = LivePool::open(place, &guid.to_string(), false).map_err(not_opened)?;
    let names = names.to_vec();
    let done = pool.task(async move |tasks| {
        tasks.have_features().await?;
        tasks.enable_features(&names).await.map(Ok)
    })?;
    let enabled = done.map_err(Failure::failed)?;
    pool.live.syncer().note_deed();
    pool.close(LabelState::Exported)?;
    Ok(enabled)
}

/// The pools that lack features.
fn lacking(looked: &[Looked]) -> String {
    let mut text = String::new();
    let old: Vec<&Looked> = looked.iter().filter(|one| one.old_version().is_some()).collect();
    match old.is_empty() {
        true => text += "All pools are formatted using feature flags.\n\n",
        false => {
            text += "The following pools are formatted with legacy version numbers and can\nbe upgraded to use feature flags, if they are of version 28; older ones are\nonly read here. Once \
                     upgraded, a pool is no longer accessible by software that\ndoes not know feature flags.\n\n\
                     Note that setting a pool's 'compatibility' feature to 'legacy' inhibits\nupgrades.\n\n";
            text += "VER  POOL\n---  ------------\n";
            for one in old {
                let name = printable::word(one.spa.name()).into_owned();
                text += &format!("{:2}   {name}\n", one.spa.uberblock().version);
            }
            text.push('\n');
        }
    }
    let lacks = |one: &&Looked| !one.lacks.is_empty() && one.old_version().is_none();
    let lacking: Vec<&Looked> = looked.iter().filter(lacks).collect();
    if lacking.is_empty() {
        text += "Every feature flags pool has all supported and requested features enabled.\n";
        return text;
    }
    text += "\nSome supported features are not enabled on the following pools. Once a\nfeature is enabled the pool may become \
             incompatible with software\nthat does not support the feature. See zpool-features(7) for details.\n\n\
             Note that the pool 'compatibility' feature can be used to inhibit\nfeature upgrades.\n\n\
             POOL  FEATURE\n---------------\n";
    for one in lacking {
        text += &format!("{}\n", printable::word(one.spa.name()));
        one.lacks.iter().for_each(|name| text += &format!("      {name}\n"));
    }
    text.push('\n');
    text
}

/// The features that can be enabled.
fn known() -> String {
    let mut text = "The following features are supported:\n\nFEAT DESCRIPTION\n".to_owned();
    text += &format!("{}\n", "-".repeat(61));
    for (name, words) in WRITTEN {
        let compatible = Feature::named(name).is_some_and(Feature::is_read_only_compatible);
        let compatible = if compatible { " (read-only compatible)" } else { "" };
        text += &format!("{name:<37}{compatible}\n     {words}\n");
    }
    text
}
