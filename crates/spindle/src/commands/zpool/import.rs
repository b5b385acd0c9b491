//! `zpool import`: which pools the devices hold, as OpenZFS lists them; and [`one`] of them opened.
//!
//! A pool that opens is shown as its own configuration has it, so that vdevs without a device are there; one that does
//! not is shown as its devices' labels have it.
//!
//! Source: OpenZFS 2.3, `zpool_main.c`.

mod args;
mod one;

pub use args::ImportArgs;

use super::features::lacks_written;
use super::lacking::Lacking;
use super::opened::{devices, say_lacking};
use super::reason::{Importable, Reason};
use super::tree::{self, CLASSES, Devices, Naming};
use crate::commands::elsewhere::say_others_than_pools;
use crate::events::refuse_denied;
use crate::output::{Failure, print, say};
use crate::printable;
use attach::pools::host::host_id;
use attach::pools::running::protocol::Holder;
use attach::pools::{PoolPlace, Pools};
use std::fmt::Write;
use std::rc::Rc;
use zfs::ZfsError;
use zfs::health::{self, Cause, Health, VdevHealth};
use zfs::inspect::state::State;
use zfs::spa::{FoundPool, OpenError, PoolState, lacking_of};
use zfs_format::features::Feature;
use zfs_format::uberblock::{VERSION_BEFORE_FEATURES, VERSION_FEATURES};
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Class;

/// The names' column is at least so wide.
const NAME_MIN: usize = 10;

/// A pool as it is listed.
struct Listed {
    health: VdevHealth,
    lacking: Lacking,
    state: Option<State>,
    devices: Devices,
    version: u64,
    lacks_features: Option<bool>,
    barred: Option<Reason>,
    /// Why it doesn't open, where a device that is away has what it needs for that.
    lost_root: Option<String>,
    /// Who holds it.
    holder: Option<Holder>,
    /// Features that are not known.
    features: Vec<String>,
    /// Whether it opens for reading, and enough is there of each vdev, if not all whole.
    is_readable: bool,
}

impl Listed {
    fn standing(self) -> Standing {
        let Listed { health, lacking, devices, barred, lost_root, holder, is_readable, .. } = self;
        let is_open = barred.is_none();
        Standing { health, stale: lacking, devices, is_open, lost_root, is_readable, holder }
    }
}

/// How a pool stands.
pub struct Standing {
    /// Its vdevs.
    pub health: VdevHealth,
    /// Devices that are there, and lack what was written while they were away.
    pub stale: Lacking,
    /// Names of the devices that are there.
    pub devices: Devices,
    /// Whether it opens for reading.
    pub is_open: bool,
    /// Why it doesn't open, where a device that is away has what it needs for that.
    lost_root: Option<String>,
    /// Whether it does, and no vdev lost more than it can do without; such as end too soon are not lost.
    pub is_readable: bool,
    /// The process of this host that holds it.
    pub holder: Option<Holder>,
}

impl Standing {
    /// What it lacks, in words.
    pub fn lacking(&self, found: &FoundPool) -> Vec<String> {
        if self.is_open { lacking_of(&self.health) } else { found.lacking() }
    }

    /// What of it can't be read though it opens, and whether what is missing may be newer: sentences.
    pub fn lost(&self) -> Vec<String> {
        let lost = self.stale.lost_said(&self.health, &self.devices).into_iter();
        lost.chain(self.lost_root.clone())
            .chain(self.stale.notes(&self.health, &self.devices))
            .collect()
    }

    /// What a vdev is called: a device by its whole path.
    pub fn name_of(&self, node: &VdevHealth) -> String {
        let naming = Naming { paths: true, ..Naming::default() };
        tree::shown(&node.vdev, node.children.len(), &self.devices, naming)
    }
}

/// How a pool stands, whether it can be imported or not.
pub fn standing(pools: &Pools, found: &Rc<FoundPool>) -> Standing {
    listed(pools, found).standing()
}

pub fn run(args: &ImportArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    // Whether and where something would be mounted says nothing: nothing is.
    let _ = (args.no_mounts, &args.root);
    let devices = [place.devices, &args.devices[..]].concat();
    let (options, events, command) = (place.options, place.events.clone(), place.command.clone());
    let (held, directory) = Default::default();
    let place = &PoolPlace { devices: &devices, options, events, command, held, directory };
    let import = one::Import::of(args, place)?;
    let pools = Pools::find(place)?;
    let wanted = |pool: &&Rc<FoundPool>| (pool.state == PoolState::Destroyed) == args.destroyed;
    match &args.pool {
        None if !args.all => {
            let chosen: Vec<&Rc<FoundPool>> = pools.found.iter().filter(wanted).collect();
            if chosen.is_empty() {
                say("no pools available to import");
                say(&format!("note: {}", pools.disks().searched()));
                say_others_than_pools(pools.disks(), place.devices);
                return refuse_denied(pools.disks().context());
            }
            let (mut text, mut notes) = (String::new(), Vec::new());
            for (n, found) in chosen.into_iter().enumerate() {
                if n > 0 {
                    text.push('\n');
                }
                let listed = listed(&pools, found);
                write_pool(&mut text, found, &listed);
                let standing = listed.standing();
                notes.push((&found.name, [standing.lacking(found), standing.lost()].concat()));
            }
            print(&text)?;
            notes.iter().for_each(|(name, lacking)| say_lacking(name, lacking));
            refuse_denied(pools.disks().context())
        }
        None => {
            let mut failed = false;
            for found in pools.found.iter().filter(wanted) {
                if let Err(failure) = import.carry_out(&pools, found) {
                    if !failure.message.is_empty() {
                        say(&format!("spindle: {}", failure.message));
                    }
                    failed = true;
                }
            }
            if failed { Err(Failure::said()) } else { Ok(()) }
        }
        Some(name) => match named(&pools, name, args.destroyed)? {
            Some(found) => import.carry_out(&pools, found),
            None => Err(Failure::failed(format!("cannot import '{name}': no such pool available"))),
        },
    }
}

fn named<'a>(
    pools: &'a Pools,
    name: &str,
    destroyed: bool,
) -> Result<Option<&'a Rc<FoundPool>>, Failure> {
    let found = if destroyed { pools.destroyed(name)? } else { pools.named(name)? };
    Ok(found.filter(|found| (found.state == PoolState::Destroyed) == destroyed))
}

/// Features of a label that are not known.
fn unknown_features(found: &FoundPool) -> Vec<String> {
    let list = found.config.list("features_for_read").ok().flatten();
    let pairs = list.map(|list| list.pairs.as_slice()).unwrap_or_default();
    let names = pairs.iter().map(|(name, _)| name.to_string());
    names.filter(|name| Feature::find(name).is_none()).collect()
}

/// A pool as it is listed.
pub fn described(pools: &Pools, found: &Rc<FoundPool>) -> String {
    let mut text = String::new();
    write_pool(&mut text, found, &listed(pools, found));
    text
}

fn listed(pools: &Pools, found: &Rc<FoundPool>) -> Listed {
    let (devices, _) = devices(pools, found);
    let present = found.present();
    let version = found.number("version").unwrap_or(VERSION_FEATURES);
    let is_active = found.state == PoolState::Active;
    let holder = is_active.then(|| pools.holder(found)).flatten();
    let opened = pools.try_open(found);
    let barred = match &opened {
        Ok(_) => None,
        Err(OpenError::Version { .. }) => Some(Reason::VersionNewer),
        Err(OpenError::Features { .. }) => Some(Reason::Features),
        Err(_) if version > VERSION_BEFORE_FEATURES && version != VERSION_FEATURES => {
            Some(Reason::VersionNewer)
        }
        Err(_) => Some(Reason::Metadata),
    };
    let lost_root = match &opened {
        Err(OpenError::LostRoot { why, .. }) => Some(why.to_string()),
        _ => None,
    };
    if let Ok(spa) = opened {
        let pool = Rc::clone(&spa);
        let done = pools.wait(async move {
            let view = pool.view(String::new(), 0).await?;
            Ok::<_, ZfsError>((lacks_written(&view), pool.state().await?, pool.classified().await?))
        });
        let (lacks_features, state, root) = match done {
            Ok((lacks, state, root)) => (Some(lacks), Some(state), root),
            Err(_) => (None, None, (*spa.vdevs()).clone()),
        };
        let health = health::of_pool(&root, &present, false);
        let for_reading = health::of_pool(&root, &present.for_reading(), false);
        let is_readable = for_reading.health <= Health::Degraded;
        let (version, features) = (spa.uberblock().version, Vec::new());
        return Listed {
            health,
            lacking: Lacking::of(pools, &spa, found),
            state,
            devices,
            version,
            lacks_features,
            barred,
            lost_root,
            holder,
            features,
            is_readable,
        };
    }
    let tops_missing = (found.tops.len() as u64) < found.tops_expected;
    let mut health = health::of_pool(&root(found), &present, tops_missing);
    if health.health <= Health::Degraded {
        health.health = Health::Unavailable;
    }
    let features = unknown_features(found);
    let lacking = Lacking::of_closed(pools, found);
    let (state, lacks_features, is_readable) = (None, None, false);
    Listed {
        health,
        lacking,
        state,
        devices,
        version,
        lacks_features,
        barred,
        lost_root,
        holder,
        features,
        is_readable,
    }
}

/// The tree as labels have it.
fn root(found: &FoundPool) -> Vdev {
    let children = found.tops.values().cloned().collect();
    Vdev { children, ..Vdev::new(VdevKind::Root, 0, found.guid) }
}

// Writing to a string can't fail.
fn write_pool(out: &mut String, found: &FoundPool, listed: &Listed) {
    let comment = found.text("comment");
    let indent = if comment.is_some() { " " } else { "" };
    let compatibility = found.text("compatibility").unwrap_or_else(|| "off".to_owned());
    let hosts = (found.number("hostid").unwrap_or(0), host_id());
    let importable = Importable {
        health: &listed.health,
        lacks_data: listed.lacking.is_any(&listed.health),
        has_lost: !listed.lacking.lost(&listed.health).is_empty(),
        state: found.state,
        hosts,
        version: listed.version,
        lacks_features: listed.lacks_features,
        compatibility: &compatibility,
        barred: listed.barred,
    };
    let reason = importable.reason();
    let state = listed.health.health.name();
    let destroyed = if found.state == PoolState::Destroyed { " (DESTROYED)" } else { "" };
    let (name, guid) = (&found.name, found.guid);
    let shown = printable::word(name);
    let _ = writeln!(out, "{indent}  pool: {shown}\n{indent}    id: {guid}");
    let _ = writeln!(out, "{indent} state: {state}{destroyed}");
    let indented = |text: &str| text.replace("\n\t", &format!("\n\t{indent}"));
    if let Some(status) = reason.of_import() {
        let _ = write!(out, "{indent}status: {}", indented(status));
        if reason == Reason::Features {
            listed.features.iter().for_each(|feature| {
                let _ = writeln!(out, "\t{}", printable::word(feature));
            });
        }
    }
    let action = match &listed.holder {
        Some(Holder { process, what }) => {
            format!(
                "The pool is held by process {process} ({what}), and need not be imported:\n\t{indent}commands go there. It can be \
                 imported once that one has ended; 'zpool export' ends it.\n"
            )
        }
        None => indented(reason.import_action(listed.health.health)),
    };
    let _ = write!(out, "{indent}action: {action}");
    if let Some(comment) = comment {
        let _ = writeln!(out, "comment: {}", printable::word(&comment));
    }
    if listed.barred == Some(Reason::Metadata) && listed.health.cause.is_none() {
        if found.state == PoolState::Destroyed {
            let text = "The pool was destroyed, but can be imported using the '-Df' flags.";
            let _ = writeln!(out, "\t{indent}{text}");
        } else if found.state != PoolState::Exported {
            let text = "The pool may be active on another system, but can be imported using";
            let _ = writeln!(out, "\t{indent}{text}\n\t{indent}the '-f' flag.");
        }
    }
    if let Some(page) = reason.page() {
        let _ = writeln!(out, "{indent}   see: https://openzfs.github.io/openzfs-docs/msg/{page}");
    }
    let _ = write!(out, "{indent}config:\n\n");
    let naming = Naming::default();
    let width = tree::width(&listed.health, Some(name), 0, &listed.devices, naming).max(NAME_MIN);
    node(out, &listed.health, Some(name), 0, listed, width);
    if let Some(state) = &listed.state {
        for (head, devices) in [("cache", &state.cache), ("spares", &state.spares)] {
            if !devices.is_empty() {
                let _ = writeln!(out, "\t{head}");
            }
            for device in devices {
                let _ = writeln!(out, "\t  {}", tree::shown(device, 0, &listed.devices, naming));
            }
        }
    }
    for (of, head) in CLASSES {
        let tops = tree::of_class(&listed.health, of);
        if !tops.is_empty() {
            let _ = writeln!(out, "\t{head}\t");
        }
        tops.iter().for_each(|top| node(out, top, None, 2, listed, width));
    }
    if reason == Reason::MissingTop {
        let _ = writeln!(
            out,
            "\n\t{indent}Additional devices are known to be part of this pool, though their\n\t{indent}exact \
             configuration cannot be determined."
        );
    }
}

fn node(
    out: &mut String,
    node_: &VdevHealth,
    pool: Option<&str>,
    depth: usize,
    listed: &Listed,
    width: usize,
) {
    if matches!(node_.vdev.kind, VdevKind::Hole | VdevKind::Missing) {
        return;
    }
    let name = match pool {
        Some(pool) => printable::word(pool).into_owned(),
        None => tree::shown(&node_.vdev, node_.children.len(), &listed.devices, Naming::default()),
    };
    let (width_here, state) = (width.saturating_sub(depth), node_.health.name());
    let _ = write!(out, "\t{:depth$}{name:<width_here$}  {state}", "");
    let cause = node_.cause.filter(|cause| *cause != Cause::Spared);
    let cause = cause.map(|cause| cause.text().into_owned());
    let notes = cause.into_iter().chain(listed.lacking.note(node_));
    let _ = writeln!(out, "{}", notes.map(|note| format!("  {note}")).collect::<String>());
    for child in &node_.children {
        let apart = pool.is_some() && Class::of(&child.vdev) != Class::Normal;
        if !apart {
            node(out, child, None, depth + 2, listed, width);
        }
    }
}
