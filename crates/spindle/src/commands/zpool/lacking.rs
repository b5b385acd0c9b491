//! Leaves that came back without what was written while they were away: which groups each one lacks; and what is lost by it, where
//! too few others are there to stand in.
//!
//! A pool notes what a leaf lacks in its dirty time log, and OpenZFS resilvers the leaf when it imports the pool. Where it could not
//! note that, the leaf's own labels tell. Of a pool none of whose devices knows better nothing can tell: what is missing may have been
//! used alone since, as one side of a mirror may, and that is said.

use super::tree::{self, Devices, Naming};
use crate::commands::clock;
use crate::printable;
use attach::pools::Pools;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use stdx::RangeSet;
use zfs::health::{Health, VdevHealth, lost_groups};
use zfs::show;
use zfs::spa::{Apart, FoundPool, Lost, Missed, Spa};

/// Devices that are named in a line; more are counted.
const DEVICES_MAX: usize = 8;

/// What leaves lack. Of a pool that doesn't open that isn't known.
#[derive(Default)]
pub struct Lacking {
    missed: Missed,
    /// The last group before each of these, the first ones that leaves lack, and when it was written.
    before: BTreeMap<u64, (u64, u64)>,
    /// The group that is shown, and when it was written.
    shown: (u64, u64),
    /// Devices that went on without the others.
    apart: Option<Apart>,
}

impl Lacking {
    /// Of a pool that is open.
    pub fn of(pools: &Pools, spa: &Spa, found: &FoundPool) -> Lacking {
        let missed = Missed::of(spa, found);
        let before = missed.starts().filter_map(|first| Some((first, found.last_before(first)?)));
        let (before, uberblock) = (before.collect(), spa.uberblock());
        let (shown, apart) = ((uberblock.txg, uberblock.timestamp), pools.apart(found));
        Lacking { missed, before, shown, apart }
    }

    /// Of one that doesn't open: nothing is known but whether devices went on without the others.
    pub fn of_closed(pools: &Pools, found: &FoundPool) -> Lacking {
        Lacking { apart: pools.apart(found), ..Lacking::default() }
    }

    /// The groups that a leaf lacks which is online; nothing of others: that those lack something goes without saying.
    fn of_leaf(&self, node: &VdevHealth) -> Option<&RangeSet> {
        let is_online = node.children.is_empty() && node.health == Health::Online;
        self.missed.lacks(node.vdev.guid).filter(|_| is_online)
    }

    /// Whether a leaf at or below a vdev is online and lacks something.
    pub fn is_any(&self, node: &VdevHealth) -> bool {
        node.any_leaf(&|leaf| self.of_leaf(leaf).is_some())
    }

    /// What is said of a leaf in its line; nothing where it lacks nothing.
    pub fn note(&self, node: &VdevHealth) -> Option<String> {
        Some(format!("lacks data of {}", show::groups(self.of_leaf(node)?)))
    }

    /// The leaves at or below a vdev that are online and lack something, each with that as JSON.
    pub fn all<'a>(&self, node: &'a VdevHealth) -> Vec<(&'a VdevHealth, Value)> {
        match node.children.is_empty() {
            true => self.as_json(node).map(|groups| (node, groups)).into_iter().collect(),
            false => node.children.iter().flat_map(|child| self.all(child)).collect(),
        }
    }

    /// The same as JSON: the first and the last group of each stretch.
    pub fn as_json(&self, node: &VdevHealth) -> Option<Value> {
        self.of_leaf(node).map(groups_json)
    }

    /// The top-level vdevs that are in use and yet can't give all that was written in some groups.
    pub fn lost<'a>(&self, root: &'a VdevHealth) -> Vec<Lost<'a>> {
        self.missed.lost(root)
    }

    /// What is lost, a sentence for each top-level vdev; and with which group what was there before may be read.
    pub fn lost_said(&self, root: &VdevHealth, devices: &Devices) -> Vec<String> {
        let lost = self.lost(root);
        let mut said: Vec<String> = lost.iter().map(|lost| self.said(lost, devices)).collect();
        let first = lost.iter().filter_map(Lost::first).min();
        said.extend(first.and_then(|first| self.last_before(first)).map(|(group, time)| {
            format!(
                "what was there before that, on {}, may be whole still: 'zfs -T {group}' with list, ls, cat, cp or dump shows it, or says that \
                 it was overwritten",
                show::date(time, &clock::local())
            )
        }));
        said
    }

    /// The last group before the first that is lost, of which an uberblock is left.
    fn last_before(&self, first: u64) -> Option<(u64, u64)> {
        self.before.range(..=first).next_back().map(|(_, before)| *before)
    }

    fn said(&self, lost: &Lost<'_>, devices: &Devices) -> String {
        let since = lost.first().and_then(|first| self.last_before(first)).map(|(_, time)| time);
        let since = since.map_or(String::new(), |time| {
            format!(", after {},", show::date(time, &clock::local()))
        });
        let (short, missing) = lost.missing.iter().partition(|leaf| leaf.is_short());
        let said = [(&lost.behind, ["lacks it", "lack it"])].into_iter().chain([
            (&missing, ["is missing", "are missing"]),
            (&short, ["is cut short", "are cut short"]),
        ]);
        let said = said.filter(|(leaves, _)| !leaves.is_empty()).map(|(leaves, [one, many])| {
            format!("{} {}", listed(leaves, devices), if leaves.len() == 1 { one } else { many })
        });
        let said: Vec<String> = said.collect();
        format!(
            "{}: not all that was written in {}{since} can be read: {}",
            name(lost.top, devices),
            show::groups(&lost.groups),
            said.join(", and "),
        )
    }

    /// What is lost, as JSON.
    pub fn lost_json(&self, root: &VdevHealth, devices: &Devices) -> Vec<Value> {
        let names = |leaves: &[&VdevHealth]| -> Vec<String> {
            leaves.iter().map(|leaf| path(leaf, devices)).collect()
        };
        let lost = self.lost(root).into_iter().map(|lost| {
            let before = lost.first().and_then(|first| self.last_before(first));
            json!({
                "vdev": name(lost.top, devices), "groups": groups_json(&lost.groups),
                "behind": names(&lost.behind), "missing": names(&lost.missing),
                "group_before": before.map(|(group, _)| group),
            })
        });
        lost.collect()
    }

    /// Whether devices went on without the others, or what is missing may be newer: sentences.
    pub fn notes(&self, root: &VdevHealth, devices: &Devices) -> Vec<String> {
        let apart = self.apart(root, devices).into_iter();
        apart.chain(self.perhaps_older(root, devices)).collect()
    }

    /// A sentence where devices went on without the others.
    pub fn apart(&self, root: &VdevHealth, devices: &Devices) -> Option<String> {
        let apart = self.apart.as_ref()?;
        let after = apart.after.map_or(String::new(), |group| format!(" after group {group}"));
        Some(format!(
            "{} went on without the others{}, until {}: what was written then is only there; it is shown where those alone are \
             named with -d, and is overwritten when the pool is written",
            listed(&leaves_of(apart, root), devices),
            after,
            show::date(apart.last.1, &clock::local()),
        ))
    }

    /// The same as JSON.
    pub fn apart_json(&self, root: &VdevHealth, devices: &Devices) -> Option<Value> {
        let apart = self.apart.as_ref()?;
        let names = leaves_of(apart, root).into_iter().map(|leaf| path(leaf, devices));
        let (last, time) = apart.last;
        Some(json!({
            "devices": names.collect::<Vec<_>>(), "group_before": apart.after,
            "last_group": last, "last_time": time,
        }))
    }

    /// A sentence where the devices that are missing would do for the pool by themselves, and nothing was written without them, as far as
    /// those know that are here: they may be newer.
    fn perhaps_older(&self, root: &VdevHealth, devices: &Devices) -> Option<String> {
        let mut missing = Vec::new();
        root.each_leaf(&mut |leaf| {
            if !self.missed.is_there(leaf) && self.missed.lacks(leaf.vdev.guid).is_none() {
                missing.push(leaf);
            }
        });
        let is_missing =
            |leaf: &VdevHealth| missing.iter().any(|one| one.vdev.guid == leaf.vdev.guid);
        let lacks = |leaf: &VdevHealth| match is_missing(leaf) {
            true => RangeSet::default(),
            false => std::iter::once(0..u64::MAX).collect(),
        };
        let needed = root.children.iter().filter(|top| !top.vdev.is_for_logs());
        if !self.missed.is_known()
            || missing.is_empty()
            || !needed.map(|top| lost_groups(top, &lacks)).all(|lost| lost.is_empty())
        {
            return None;
        }
        let (group, time) = self.shown;
        Some(format!(
            "this is what was there after group {group}, on {}: if the pool was used since with {} alone, what was written then is \
             only there",
            show::date(time, &clock::local()),
            listed(&missing, devices),
        ))
    }
}

/// The leaves that went on without the others.
fn leaves_of<'a>(apart: &Apart, root: &'a VdevHealth) -> Vec<&'a VdevHealth> {
    let mut leaves = Vec::new();
    root.each_leaf(&mut |leaf| {
        if apart.devices.contains(&leaf.vdev.guid) {
            leaves.push(leaf);
        }
    });
    leaves
}

fn groups_json(groups: &RangeSet) -> Value {
    let groups = groups.iter().map(|one| json!({"first": one.start, "last": one.end - 1}));
    Value::Array(groups.collect())
}

fn name(node: &VdevHealth, devices: &Devices) -> String {
    tree::shown(
        &node.vdev,
        node.children.len(),
        devices,
        Naming { paths: true, ..Naming::default() },
    )
}

/// A leaf by its whole path, as it is found or was.
fn path(leaf: &VdevHealth, devices: &Devices) -> String {
    tree::name(&leaf.vdev, 0, devices, Naming { paths: true, ..Naming::default() })
}

fn listed(leaves: &[&VdevHealth], devices: &Devices) -> String {
    let shown = leaves.iter().take(DEVICES_MAX);
    let shown: Vec<String> = shown.map(|leaf| printable::line(&path(leaf, devices))).collect();
    match (leaves.len() - shown.len(), shown.split_last()) {
        (0, Some((last, first @ [_, ..]))) => format!("{} and {last}", first.join(", ")),
        (0, _) => shown.concat(),
        (more, _) => format!("{} and {more} more", shown.join(", ")),
    }
}
