//! A pool with all that the commands show of it.

use super::lacking::Lacking;
use super::tree::Devices;
use crate::output::{Failure, say};
use attach::Error;
use attach::pools::Pools;
use attach::pools::running::client;
use attach::pools::running::protocol::{Ask, Health, Suspended};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zfs::ZfsError;
use zfs::health::{self, VdevHealth};
use zfs::inspect::property::PoolView;
use zfs::inspect::state::State;
use zfs::spa::{FoundPool, OpenError, PoolState, Spa};
use zfs_format::label;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::vdev::draid::Layout;

/// A pool that is open.
pub struct Opened {
    /// It.
    pub spa: Rc<Spa>,
    /// Its properties.
    pub view: PoolView,
    /// What goes on in it.
    pub state: State,
    /// Damaged objects, as `DATASET:<0xOBJECT>`.
    pub damaged: Vec<String>,
    /// How its vdevs are.
    pub health: VdevHealth,
    /// What its leaves lack that were away.
    pub lacking: Lacking,
    /// Why it is suspended, where who holds it says so.
    pub suspended: Option<Suspended>,
    /// Errors of its vdevs by their GUIDs, since somebody holds it: reads, writes, checksums.
    pub errors: BTreeMap<u64, [u64; 3]>,
    /// Names of its devices, spares and cache devices among them.
    pub devices: Devices,
    /// Bytes of its devices.
    pub sizes: BTreeMap<u64, u64>,
}

/// The pools that a command is about.
#[derive(Default)]
pub struct All {
    /// Those that opened.
    pub opened: Vec<Opened>,
    /// Those that did not, which was said.
    pub lost: Vec<Rc<FoundPool>>,
    /// Whether one did not, or a name has none.
    pub failed: bool,
}

/// Names and sizes of the devices that were found for a pool.
pub fn devices(pools: &Pools, found: &FoundPool) -> (Devices, BTreeMap<u64, u64>) {
    let all = found.members.values().chain(&pools.auxiliary);
    let (mut names, mut sizes) = (Devices::new(), BTreeMap::new());
    for member in all {
        names.insert(member.guid, pools.name_of(&member.device));
        sizes.insert(member.guid, member.device.geometry().capacity.bytes());
    }
    (names, sizes)
}

/// What who holds a pool knows of it; nothing where nobody does, or doesn't answer.
pub fn running(pools: &Pools, found: &FoundPool) -> Health {
    let asked = match found.state {
        PoolState::Active => client::ask(pools, found, Ask::Health),
        _ => Ok(None),
    };
    asked.ok().flatten().unwrap_or_default()
}

/// Bytes of a device that ZFS can use.
pub fn usable(bytes: u64) -> u64 {
    let whole = bytes - bytes % label::LABEL_BYTES;
    whole.saturating_sub(label::DATA_START + label::DATA_END)
}

/// Bytes that a vdev could have, by its devices' sizes; nothing where a device is missing.
fn possible(vdev: &Vdev, sizes: &BTreeMap<u64, u64>) -> Option<u64> {
    if vdev.is_leaf() {
        return sizes.get(&vdev.guid).map(|bytes| usable(*bytes));
    }
    let below: Option<Vec<u64>> =
        vdev.children.iter().map(|child| possible(child, sizes)).collect();
    let least = below?.into_iter().min()?;
    match &vdev.kind {
        VdevKind::Raidz(_) => Some(least * vdev.children.len() as u64),
        VdevKind::Draid(draid) => {
            Layout::new(draid, vdev.children.len()).map(|layout| layout.asize(least))
        }
        VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare => Some(least),
        _ => None,
    }
}

/// Bytes that a top-level vdev could grow by, in whole metaslabs.
pub fn expandable(vdev: &Vdev, sizes: &BTreeMap<u64, u64>) -> u64 {
    let (Some(asize), Some(shift @ 1..64)) = (vdev.asize, vdev.metaslab_shift) else { return 0 };
    let more = possible(vdev, sizes).unwrap_or(0).saturating_sub(asize);
    more >> shift << shift
}

impl Opened {
    /// Opens a pool and works out all that is shown.
    ///
    /// # Errors
    /// It can't be opened, or something that is shown can't be had.
    pub fn open(pools: &Pools, found: &Rc<FoundPool>) -> Result<Opened, Failure> {
        let spa = pools.open_found(found)?;
        let running = running(pools, found);
        let (devices, sizes) = devices(pools, found);
        let present: BTreeSet<u64> = found.members.keys().copied().collect();
        let more = spa.vdevs().children.iter().map(|top| expandable(top, &sizes)).sum();
        let pool = Rc::clone(&spa);
        let Health { suspended, vdevs } = running;
        let errors = vdevs.iter().map(|one| (one.guid, [one.read, one.write, one.checksum]));
        let errors = errors.collect();
        let done = pools.wait(async move {
            let mut root = pool.classified().await?;
            let faulted = vdevs.iter().filter(|one| one.is_faulted);
            faulted.for_each(|one| health::mark_faulted(&mut root, one.guid));
            let health = health::of_pool(&root, &present, false);
            let shown = if suspended.is_some() { "SUSPENDED" } else { health.health.name() };
            let view = pool.view(shown.to_owned(), more).await?;
            let state = pool.state().await?;
            let mut damaged = Vec::new();
            if !state.damaged.is_empty() {
                let catalog = pool.catalog(view.space.capacity).await?;
                for (dataset, object) in &state.damaged {
                    // One that was destroyed since has no name any more.
                    let name = catalog.dataset_name(*dataset).await;
                    let name = name.unwrap_or_else(|_| format!("<{dataset:#x}>"));
                    damaged.push(format!("{name}:<{object:#x}>"));
                }
            }
            Ok((view, state, health, damaged))
        });
        let failed = |error: ZfsError| {
            let lacking = found.lacking();
            let text = match error.lacks_device() && !lacking.is_empty() {
                true => OpenError::Missing { pool: found.name.clone(), what: lacking.join("; ") }
                    .to_string(),
                false => error.to_string(),
            };
            Failure::failed(format!("cannot open '{}': {text}", found.name))
        };
        let (view, state, health, damaged) = done.map_err(failed)?;
        let lacking = Lacking::of(&spa);
        Ok(Opened { spa, view, state, damaged, health, lacking, suspended, errors, devices, sizes })
    }

    /// The pools that were named, or all; those that can't be had are said.
    ///
    /// # Errors
    /// A name stands for several.
    pub fn all(
        pools: &Pools,
        names: &[String],
        no_pool: impl Fn(&str) -> String,
    ) -> Result<All, Failure> {
        let (chosen, without) = pools.chosen(names)?;
        let mut failed = say_missing(&without, no_pool);
        let (mut opened, mut lost) = (Vec::new(), Vec::new());
        for found in chosen {
            match Opened::open(pools, &found) {
                Ok(one) => {
                    say_lacking(&found);
                    opened.push(one);
                }
                Err(failure) => {
                    say(&format!("spindle: {}", failure.message));
                    lost.push(found);
                    failed = true;
                }
            }
        }
        Ok(All { opened, lost, failed })
    }
}

/// Says which vdevs of a pool lost more than they can do without, and who is missing.
pub fn say_lacking(found: &FoundPool) {
    for lack in found.lacking() {
        say(&format!("note: pool '{}': {lack}", found.name));
    }
}

/// Says of names that they have no pool; whether there are any.
pub fn say_missing(names: &[String], no_pool: impl Fn(&str) -> String) -> bool {
    names.iter().for_each(|name| say(&format!("spindle: {}", no_pool(name))));
    !names.is_empty()
}

/// Why a pool is not open for writing, for commands in which `-f` says something else, or nothing.
pub fn not_opened(error: Error) -> Failure {
    match &error {
        Error::PoolInUse { name } | Error::PoolOfOther { name, .. } => Failure::failed(format!(
            "pool {name} was not exported, and another host may have it in use: spindle zpool import tells more, and takes it with -f"
        )),
        _ => error.into(),
    }
}

/// What is said of a pool that isn't there.
pub fn no_pool(name: &str) -> String {
    format!("cannot open '{name}': no such pool")
}
