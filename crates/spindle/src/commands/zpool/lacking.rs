//! Leaves that came back without what was written while they were away: which groups each one lacks.
//!
//! A pool notes that in the dirty time log of the leaf, and OpenZFS resilvers the leaf when it imports the pool.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use stdx::RangeSet;
use zfs::health::{Health, VdevHealth};
use zfs::spa::Spa;

/// Stretches of groups that are named in a line; more are counted.
const NAMED_MAX: usize = 3;

/// Transaction groups whose blocks leaves lack, by the leaves' GUIDs. Those that lack nothing are not in it.
#[derive(Default)]
pub struct Lacking(BTreeMap<u64, RangeSet>);

impl Lacking {
    /// Of a pool that is open.
    pub fn of(spa: &Spa) -> Lacking {
        let vdevs = spa.vdevs();
        let leaves = vdevs.leaves().into_iter();
        let lacking = leaves.filter_map(|leaf| Some((leaf.guid, spa.tree().dtl(leaf.guid)?)));
        Lacking(lacking.filter(|(_, groups)| !groups.is_empty()).collect())
    }

    /// The groups that a leaf lacks which is online; nothing of others: that those lack something goes without saying.
    fn of_leaf(&self, node: &VdevHealth) -> Option<&RangeSet> {
        let is_online = node.children.is_empty() && node.health == Health::Online;
        self.0.get(&node.vdev.guid).filter(|_| is_online)
    }

    /// Whether a leaf at or below a vdev is online and lacks something.
    pub fn is_any(&self, node: &VdevHealth) -> bool {
        node.any_leaf(&|leaf| self.of_leaf(leaf).is_some())
    }

    /// What is said of a leaf in its line; nothing where it lacks nothing.
    pub fn note(&self, node: &VdevHealth) -> Option<String> {
        let groups = self.of_leaf(node)?;
        let named = groups.iter().take(NAMED_MAX);
        let named: Vec<String> =
            named.map(|one| format!("{}-{}", one.start, one.end - 1)).collect();
        let more = match groups.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} stretches more"),
        };
        Some(format!("lacks data of groups {}{more}", named.join(", ")))
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
        let groups = self.of_leaf(node)?;
        let groups: Vec<Value> =
            groups.iter().map(|one| json!({"first": one.start, "last": one.end - 1})).collect();
        Some(Value::Array(groups))
    }
}
