//! Writing labels: configurations and uberblocks, on all leaves.
//!
//! A label is half written only together with no other of its device: who commits writes labels 0 and 2, flushes, then 1 and
//! 3 ([`LABEL_PAIRS`]). So two whole ones are on each device at any moment.
//!
//! A leaf that is not online is passed over: its label says an older transaction group, and so that it was left behind. One that
//! fails is counted. What has to succeed, so that a commit is one, who commits decides by what is returned.
//!
//! Source: OpenZFS, `vdev_label.c` (`vdev_config_sync`, `vdev_uberblock_sync`).

use super::leaf::{Leaf, LeafState};
use super::queue::IoClass;
use super::top::Top;
use super::tree::Tree;
use futures_util::future::join_all;
use rt::Buf;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::label::{self, Configuration, LABELS, Ring};
use zfs_format::nvlist::{Encoding, NvList};
use zfs_format::uberblock::Uberblock;
use zfs_format::{Endian, FormatError};

/// The labels in the order in which they are written.
pub const LABEL_PAIRS: [[usize; 2]; 2] = [[0, 2], [1, 3]];

/// How many writes of labels succeeded, and how many were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelsWritten {
    /// Leaves on which at least one was written.
    pub leaves: usize,
    /// Leaves that were tried.
    pub tried: usize,
}

impl Tree {
    /// The GUIDs of the leaves, with the number of their top-level vdev.
    pub fn leaf_guids(&self) -> Vec<(u32, u64)> {
        let tops = self.tops.borrow();
        let of = |(id, top): (&u32, &Rc<Top>)| -> Vec<(u32, u64)> {
            top.leaves.iter().map(|leaf| (*id, leaf.guid)).collect()
        };
        tops.iter().flat_map(of).collect()
    }

    /// Bytes of the devices that are there, by the GUIDs of their leaves: as they were when they were opened.
    pub fn device_bytes(&self) -> BTreeMap<u64, u64> {
        let tops = self.tops.borrow();
        let leaves = tops.values().flat_map(|top| &top.leaves).filter(|leaf| leaf.is_there());
        leaves.map(|leaf| (leaf.guid, leaf.device_bytes())).collect()
    }

    /// Writes a configuration into these labels of each leaf that `of` has one for.
    ///
    /// # Errors
    /// A configuration is longer than its place.
    pub async fn write_configurations(
        &self,
        labels: &[usize],
        of: impl Fn(u32, u64) -> Option<NvList>,
    ) -> Result<LabelsWritten, FormatError> {
        let mut writes = Vec::new();
        for (top, leaf) in self.online() {
            let Some(list) = of(top, leaf.guid) else { continue };
            let configuration = Configuration {
                list,
                encoding: Encoding::Xdr(Endian::Big),
                endian: Endian::Little,
            };
            let mut parts = Vec::new();
            for place in places(&leaf, labels) {
                let at = place + label::CONFIGURATION_AT;
                parts.push((at, configuration.encode(at)?));
            }
            writes.push(write_parts(leaf, parts));
        }
        Ok(counted(join_all(writes).await))
    }

    /// Clears the boot area and the ring of labels that are new: what a device held before must not be taken for an uberblock.
    pub async fn clear_labels(&self) -> LabelsWritten {
        let writes = self.online().into_iter().map(|(_, leaf)| {
            let all: Vec<usize> = (0..LABELS).collect();
            let parts =
                places(&leaf, &all).map(|place| (place, vec![0; label::LABEL_BYTES as usize]));
            let parts = parts.collect();
            write_parts(leaf, parts)
        });
        counted(join_all(writes).await)
    }

    /// Writes an uberblock into its slot of these labels of each leaf. So many of the last slots are kept for multi-modifier
    /// protection.
    pub async fn write_uberblock(
        &self,
        labels: &[usize],
        uberblock: &Uberblock,
        kept: u64,
    ) -> LabelsWritten {
        let writes = self.online().into_iter().map(|(top, leaf)| {
            let ring = Ring::new(self.ashift(top).unwrap_or(0).into());
            let is_one = planted::is(Bug::OneSlot);
            let slot = ring.slot_of(if is_one { 0 } else { uberblock.txg }, kept);
            let at = ring.slot_at(slot).expect("a transaction group has a slot");
            let parts = places(&leaf, labels).map(|place| {
                (place + at, label::encode_slot(uberblock, ring, place + at, Endian::Little))
            });
            let parts = parts.collect();
            write_parts(leaf, parts)
        });
        counted(join_all(writes).await)
    }

    /// Makes the labels durable: of all leaves, whatever was written to them.
    pub async fn flush_leaves(&self) -> LabelsWritten {
        let online = self.online();
        let flushed = online.iter().map(|(top, leaf)| self.flush_leaf(*top, leaf));
        counted(join_all(flushed).await)
    }

    async fn flush_leaf(&self, top: u32, leaf: &Leaf) -> bool {
        let Err(failed) = leaf.flush().await else { return true };
        // Of a group that is on its way.
        match failed.written {
            // Who is alone is written again.
            Some(_) if self.top(top).is_none_or(|top| top.leaves.len() == 1) => {
                self.flushes_failed.set(self.flushes_failed.get() + 1);
            }
            Some((first, last)) => leaf.dtl.add(first..last + 1),
            None => {}
        }
        false
    }

    /// Writes an uberblock into the last slot of one label of a leaf, and makes it durable: a sign of life (MMP). Says whether it is there.
    pub async fn write_sign(&self, leaf: u64, label: usize, uberblock: &Uberblock) -> bool {
        let Some((top, leaf)) = self.online().into_iter().find(|(_, one)| one.guid == leaf) else {
            return false;
        };
        let ring = Ring::new(self.ashift(top).unwrap_or(0).into());
        let at = ring.slot_at(ring.slots() - 1).expect("a ring has slots");
        let parts = places(&leaf, &[label]).map(|place| {
            (place + at, label::encode_slot(uberblock, ring, place + at, Endian::Little))
        });
        let parts = parts.collect();
        write_parts(Rc::clone(&leaf), parts).await && self.flush_leaf(top, &leaf).await
    }

    fn online(&self) -> Vec<(u32, Rc<Leaf>)> {
        let tops = self.tops.borrow();
        let all =
            tops.iter().flat_map(|(id, top)| top.leaves.iter().map(|leaf| (*id, Rc::clone(leaf))));
        all.filter(|(_, leaf)| leaf.state() == LeafState::Online).collect()
    }
}

/// Where these labels begin on a leaf.
fn places(leaf: &Leaf, labels: &[usize]) -> impl Iterator<Item = u64> + use<> {
    let bytes = leaf.device_bytes();
    let labels: Vec<usize> = labels.to_vec();
    labels.into_iter().filter_map(move |number| label::label_at(number, bytes))
}

/// Whether one of the parts at least was written.
async fn write_parts(leaf: Rc<Leaf>, parts: Vec<(u64, Vec<u8>)>) -> bool {
    let mut any = false;
    for (at, bytes) in parts {
        let data = Buf::copy_of(&bytes).into();
        any |= leaf.write(at, data, IoClass::SyncWrite).await.is_ok();
    }
    any
}

fn counted(done: Vec<bool>) -> LabelsWritten {
    LabelsWritten { leaves: done.iter().filter(|done| **done).count(), tried: done.len() }
}
