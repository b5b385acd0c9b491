//! A pool with all that the commands show of it.

use super::lacking::Lacking;
use super::tree::Devices;
use crate::output::{Failure, say};
use crate::printable;
use attach::Error;
use attach::pools::Pools;
use attach::pools::running::client;
use attach::pools::running::protocol::{Ask, Health as Held, Picture, Suspended};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs::ZfsError;
use zfs::dsl::property::effective::Origin;
use zfs::health::{self, Health, VdevHealth};
use zfs::inspect::names::Names;
use zfs::inspect::property::{PoolProperty, PoolView};
use zfs::inspect::state::State;
use zfs::spa::expand::expandable;
use zfs::spa::{FoundPool, Spa, lacking_of};

/// A pool that is open.
pub struct Opened {
    /// It.
    pub spa: Rc<Spa>,
    /// Its properties.
    pub view: PoolView,
    /// What goes on in it.
    pub state: State,
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

impl Opened {
    /// Opens a pool and works out all that is shown.
    ///
    /// # Errors
    /// It can't be opened, or something that is shown can't be had.
    pub fn open(pools: &Pools, found: &Rc<FoundPool>) -> Result<Opened, Failure> {
        let spa = pools.open_found(found)?;
        let running = client::health(pools, found);
        let (devices, sizes) = devices(pools, found);
        let present = found.present();
        let more = spa.vdevs().children.iter().map(|top| expandable(top, &sizes)).sum();
        let pool = Rc::clone(&spa);
        let Held { suspended, vdevs, altroot } = running;
        let errors = vdevs.iter().map(|one| (one.guid, [one.read, one.write, one.checksum]));
        let errors = errors.collect();
        let done = pools.wait(async move {
            let mut root = pool.classified().await?;
            let faulted = vdevs.iter().filter(|one| one.is_faulted);
            faulted.for_each(|one| health::mark_faulted(&mut root, one.guid));
            let health = health::of_pool(&root, &present, false);
            let shown = if suspended.is_some() { "SUSPENDED" } else { health.health.name() };
            let mut view = pool.view(shown.to_owned(), more).await?;
            if let Some(directory) = altroot {
                view.set_altroot(directory.to_string_lossy().into_owned());
            }
            let state = pool.state().await?;
            Ok((view, state, health))
        });
        let failed = |error: ZfsError| {
            let lack = error.lacks_device().then(|| found.lack()).flatten();
            let text = lack.map_or_else(|| error.to_string(), |lack| lack.to_string());
            Failure::failed(format!("cannot open '{}': {text}", found.name))
        };
        let (view, state, health) = done.map_err(failed)?;
        let lacking = Lacking::of(pools, &spa, found);
        Ok(Opened { spa, view, state, health, lacking, suspended, errors, devices, sizes })
    }

    /// The files that are noted as damaged, as `DATASET[@SNAPSHOT]:PATH`.
    pub fn damaged(&self, pools: &Pools) -> Vec<Vec<u8>> {
        let (pool, damaged) = (Rc::clone(&self.spa), self.state.damaged.clone());
        match damaged.is_empty() {
            true => Vec::new(),
            false => pools.wait(async move { Names::of(&pool).await.of_damaged(&damaged).await }),
        }
    }

    /// What it lacks so that not all of it can be read, or may be older than what is missing: sentences.
    pub fn lost(&self) -> Vec<String> {
        self.lacking.lost_said(&self.health, &self.devices)
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
        say_called_alike(pools, names);
        let mut failed = say_missing(&without, no_pool);
        let (mut opened, mut lost) = (Vec::new(), Vec::new());
        for found in chosen {
            match Opened::open(pools, &found) {
                Ok(one) => {
                    let health = health::of_pool(&one.spa.vdevs(), &found.present(), false);
                    say_lacking(&found.name, &lacking_of(&health));
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

    /// The same, with those besides of which only who holds them can tell: their devices can't be reached, or too few of them to open one.
    ///
    /// # Errors
    /// As of [`Opened::all`].
    pub fn all_and_held(
        pools: &Pools,
        names: &[String],
        no_pool: impl Fn(&str) -> String,
    ) -> Result<(All, Vec<Picture>), Failure> {
        let mut held = pools.out_of_reach(names);
        let is_held = |name: &&String| held.iter().any(|one| one.is(name));
        let (of_held, names): (Vec<&String>, Vec<&String>) = names.iter().partition(is_held);
        let names: Vec<String> = names.into_iter().cloned().collect();
        let mut all = match names.is_empty() && !of_held.is_empty() {
            true => All::default(),
            false => Opened::all(pools, &names, no_pool)?,
        };
        for found in std::mem::take(&mut all.lost) {
            match client::ask(pools, &found, Ask::Picture).ok().flatten() {
                Some(picture) => held.push(picture),
                None => all.lost.push(found),
            }
        }
        Ok((all, held))
    }
}

/// How a pool is of which only who holds it can tell, in a word.
pub fn state_of(picture: &Picture) -> &'static str {
    match (picture.health.suspended, picture.root()) {
        (Some(_), _) => "SUSPENDED",
        (None, Some(root)) => {
            let present = root.leaves().iter().map(|leaf| leaf.guid).collect();
            health::of_pool(&root, &present, false).health.name()
        }
        (None, None) => Health::Unavailable.name(),
    }
}

/// What such a picture says of a property; nothing of most.
pub fn shown_of(picture: &Picture, property: &str) -> Option<(String, Origin)> {
    match PoolProperty::find(property)?.name {
        "name" => Some((picture.name.clone(), Origin::None)),
        "guid" => Some((picture.guid.to_string(), Origin::None)),
        "health" => Some((state_of(picture).to_owned(), Origin::None)),
        "altroot" => {
            let directory = picture.health.altroot.as_ref()?;
            Some((directory.to_string_lossy().into_owned(), Origin::Local))
        }
        _ => None,
    }
}

/// Says which vdevs of a pool lost more than they can do without, and who is missing.
pub fn say_lacking(pool: &str, lacking: &[String]) {
    for lack in lacking {
        say(&format!("note: pool '{pool}': {lack}"));
    }
}

/// Says which pools are called alike, where a command is about all that there are.
pub fn say_called_alike(pools: &Pools, names: &[String]) {
    let called_alike = pools.called_alike();
    for (name, guids) in called_alike.iter().filter(|_| names.is_empty()) {
        let (name, guids) = (printable::word(name), guids.iter().map(u64::to_string));
        let guids: Vec<String> = guids.collect();
        let (many, guids) = (guids.len(), guids.join(" and "));
        say(&format!(
            "note: {many} pools are called '{name}': {guids} by their GUIDs, which commands take for the name"
        ));
    }
}

/// Pools as JSON, by their names, or by their GUIDs where that was asked for or they are called alike.
pub fn by_name(pools: Vec<(&str, u64, Map<String, Value>)>, by_guid: bool) -> Map<String, Value> {
    let names: Vec<&str> = pools.iter().map(|(name, ..)| *name).collect();
    let is_alone = |name: &str| names.iter().filter(|other| **other == name).count() == 1;
    let keyed = pools.into_iter().map(|(name, guid, object)| {
        let key = if !by_guid && is_alone(name) { name.to_owned() } else { guid.to_string() };
        (key, Value::Object(object))
    });
    keyed.collect()
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
