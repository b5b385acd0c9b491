//! Top-level vdevs that take in what their devices have grown by.
//!
//! ```text
//!   before   L0 L1 │ metaslabs │ L2 L3
//!   grown    L0 L1 │ metaslabs │ (old labels)  nothing yet        │ L2 L3      the devices' ends are found when they are opened
//!   after    L0 L1 │ metaslabs                  more of them      │ L2 L3      one group: the vdev's size in the configuration
//! ```
//!
//! A vdev is as large as the smallest of its devices lets it, and takes whole metaslabs of its own size only. Where one of them is missing
//! it stays as it is.
//!
//! **Cut at any write** the vdev is as before or as after: its size stands in the configuration, and comes into the pool with it. What
//! is allocated in the new metaslabs is of later groups.
//!
//! Source: OpenZFS, `vdev.c` (`vdev_open`, `vdev_expand`, `vdev_metaslab_init`).

use super::live::{Live, LiveError};
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use zfs_format::label;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Metaslabs;
use zfs_store::vdev::draid::Layout;

/// Bytes of a device that ZFS can use: what its labels leave.
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
        VdevKind::Raidz(_) => least.checked_mul(vdev.children.len() as u64),
        VdevKind::Draid(draid) => {
            Layout::new(draid, vdev.children.len()).map(|layout| layout.asize(least))
        }
        VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare => Some(least),
        _ => None,
    }
}

/// Bytes that a top-level vdev could grow by, in whole metaslabs, by its devices' sizes: as OpenZFS tells them, for which what is left over
/// behind the last metaslab counts as had.
pub fn expandable(vdev: &Vdev, sizes: &BTreeMap<u64, u64>) -> u64 {
    let (Some(asize), Some(shift @ 1..64)) = (vdev.asize, vdev.metaslab_shift) else { return 0 };
    let more = possible(vdev, sizes).unwrap_or(0).saturating_sub(asize);
    more >> shift << shift
}

/// A vdev as it is when it has grown, with how many metaslabs it has then; nothing where it doesn't grow.
fn grown(vdev: &Vdev, sizes: &BTreeMap<u64, u64>) -> Option<(Vdev, usize)> {
    let after = Vdev { asize: possible(vdev, sizes), ..vdev.clone() };
    let many = |of: &Vdev| Some(Metaslabs::of(of).ok().flatten()?.len());
    let (before, now) = (many(vdev)?, many(&after)?);
    (now > before).then_some((after, now))
}

impl Live {
    /// Has top-level vdevs take in what their devices had grown by when they were opened: those with one of these leaves, or all. Says which
    /// have, by their GUIDs.
    ///
    /// # Errors
    /// The pool is not written any more.
    #[boxed(?Send)]
    pub async fn expand(&self, of: Option<&[u64]>) -> Result<Vec<u64>, LiveError> {
        let one = self.alone().await;
        let sizes = self.syncer().writer().tree().device_bytes();
        let is_asked = |top: &&Vdev| {
            of.is_none_or(|of| top.leaves().iter().any(|leaf| of.contains(&leaf.guid)))
        };
        let config = self.syncer().config();
        let tops = config.root.children.iter().filter(is_asked);
        let grown: Vec<(Vdev, usize)> = tops.filter_map(|top| grown(top, &sizes)).collect();
        if grown.is_empty() {
            return Ok(Vec::new());
        }
        let written = self.sync_alone(&one, async |_| {
            self.syncer().change_config(|config| {
                for top in &mut config.root.children {
                    if let Some((after, _)) = grown.iter().find(|(after, _)| after.guid == top.guid)
                    {
                        top.asize = after.asize;
                    }
                }
            });
            Ok(())
        });
        written.await?;
        for (top, many) in &grown {
            self.syncer().writer().space(|space| space.expand(top.id as u32, *many));
        }
        Ok(grown.into_iter().map(|(top, _)| top.guid).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vdev_grows_by_whole_metaslabs_and_with_its_smallest_device() {
        let mut top = Vdev::new(VdevKind::Mirror, 0, 1);
        top.children = vec![Vdev::new(VdevKind::File, 0, 2), Vdev::new(VdevKind::File, 1, 3)];
        let device = |usable: u64| usable + label::DATA_START + label::DATA_END;
        // The last part of a metaslab was no metaslab.
        (top.asize, top.metaslab_shift) = (Some((40 << 20) + 4096), Some(24));
        let sizes = |a: u64, b: u64| BTreeMap::from([(2, device(a << 20)), (3, device(b << 20))]);
        let many = |sizes| grown(&top, &sizes).map(|(_, many)| many);
        assert_eq!(many(sizes(47, 100)), None);
        assert_eq!((many(sizes(48, 100)), many(sizes(100, 64))), (Some(3), Some(4)));
        assert_eq!(many(sizes(20, 64)), None, "none shrinks");
        assert_eq!(many(BTreeMap::from([(2, device(64 << 20))])), None, "one is missing");
        assert_eq!(expandable(&top, &sizes(100, 48)), 0);
        assert_eq!(expandable(&top, &sizes(100, 64)), 16 << 20);
    }
}
