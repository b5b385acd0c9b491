//! The status of a pool as who holds it tells it, where nobody else can: its devices can't be reached, or too few to open it.

use super::rows::{Form, Rows, count, head, troubles_json, vdev};
use crate::commands::zfs::json;
use crate::commands::zpool::lacking::Lacking;
use crate::commands::zpool::opened::state_of;
use crate::commands::zpool::reason::{Reason, troubles};
use crate::commands::zpool::tree::{self, CLASSES, Devices};
use crate::printable;
use attach::pools::running::protocol::Picture;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use zfs::health::{self, VdevHealth};
use zfs_format::vdev::Vdev;

/// A pool of which only who holds it can tell: its devices can't be reached.
pub(super) struct HeldPool<'a> {
    picture: &'a Picture,
    /// How its vdevs are.
    pub(super) health: VdevHealth,
    /// Names of its devices.
    pub(super) devices: Devices,
    errors: BTreeMap<u64, [u64; 3]>,
}

impl HeldPool<'_> {
    /// Nothing where what is told of its vdevs is no such thing.
    pub(super) fn of(picture: &Picture) -> Option<HeldPool<'_>> {
        let mut root = picture.root()?;
        let vdevs = &picture.health.vdevs;
        let faulted = vdevs.iter().filter(|one| one.is_faulted);
        faulted.for_each(|one| health::mark_faulted(&mut root, one.guid));
        let present = root.leaves().iter().map(|leaf| leaf.guid).collect();
        let named = |leaf: &&Vdev| Some((leaf.guid, leaf.path.as_ref()?.to_string()));
        let mut devices: Devices = root.leaves().iter().filter_map(named).collect();
        devices.extend(picture.devices.iter().cloned());
        let errors = vdevs.iter().map(|one| (one.guid, [one.read, one.write, one.checksum]));
        let errors = errors.collect();
        let health = health::of_pool(&root, &present, false);
        Some(HeldPool { picture, health, devices, errors })
    }

    /// What is the matter.
    pub(super) fn reason(&self) -> Reason {
        self.picture.health.suspended.map_or(Reason::Fine, Reason::Suspended)
    }

    /// As lines. Writing to a string can't fail.
    pub(super) fn as_text(&self, out: &mut String, form: &Form<'_>) {
        let name = printable::word(&self.picture.name);
        let _ = write!(out, "  pool: {name}\n state: {}\n", state_of(self.picture));
        troubles(out, self.reason(), &[]);
        head(out, form);
        // Of what leaves lack who holds the pool says nothing.
        let lacking = Lacking::default();
        let rows = Rows { devices: &self.devices, errors: &self.errors, lacking: &lacking };
        vdev(out, rows, &self.health, Some(&self.picture.name), 0, form);
        for (of, name) in CLASSES {
            let tops = tree::of_class(&self.health, of);
            if !tops.is_empty() {
                let _ = writeln!(out, "\t{name}\t");
            }
            tops.iter().for_each(|top| vdev(out, rows, top, None, 2, form));
        }
        out.push_str(match self.picture.health.suspended {
            Some(_) => "\nerrors: List of errors unavailable: pool I/O is currently suspended\n",
            None => "\nerrors: List of errors unavailable: its devices can't be reached\n",
        });
    }

    /// As JSON.
    pub(super) fn as_json(&self, form: &Form<'_>) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("name".to_owned(), self.picture.name.as_str().into());
        object.insert("state".to_owned(), state_of(self.picture).into());
        let guid = json::value(&self.picture.guid.to_string(), form.numbers);
        object.insert("pool_guid".to_owned(), guid);
        troubles_json(&mut object, self.reason());
        let mut errors = Map::new();
        for leaf in self.picture.root().iter().flat_map(Vdev::leaves) {
            let name = tree::name(leaf, 0, &self.devices, form.naming);
            let of = self.errors.get(&leaf.guid).copied().unwrap_or_default();
            let names = ["read_errors", "write_errors", "checksum_errors"].into_iter();
            let of = names.zip(of).map(|(name, errors)| (name.to_owned(), count(errors, form)));
            errors.insert(name, Value::Object(of.collect()));
        }
        object.insert("vdevs".to_owned(), Value::Object(errors));
        object
    }
}
