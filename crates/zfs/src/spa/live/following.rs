//! What is open follows what is set: for datasets, and for the pool.
//!
//! How blocks are stored, what is counted and which salt checksums begin with follows from the features that are enabled and from
//! the vdevs that there are. It is found out when the pool is opened, and again when a task enabled a feature or vdevs were added,
//! before another group closes: what the group stored that did so is of the time before, and so does the table of when features
//! were enabled say.

use super::super::features::{self, InUse};
use super::super::map_logs;
use super::super::maps::{BLOCK_BYTES, BLOCK_BYTES_LOGGED, MapForm};
use super::{Live, OpenDataset, set_number, stored};
use crate::dmu::{Caching, Counted, Policy};
use crate::dsl::catalog::Node;
use crate::dsl::features::{BLOCK_BYTES_PLAIN, LARGE_BLOCKS, LARGE_DNODES, dnode_bytes};
use crate::dsl::make::Fresh;
use crate::error::ZfsError;
use crate::zpl::FileSystem;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BLOCK_BYTES_MAX;
use zfs_format::features::Feature;
use zfs_store::{Salt, Writer};

/// Features of checksums that begin with the pool's salt.
const SALTED: [&str; 3] = ["skein", "edonr", "blake3"];

/// A salt that no other pool has.
fn new_salt(fresh: &dyn Fresh) -> Salt {
    let mut salt = [0; size_of::<Salt>()];
    for word in salt.chunks_exact_mut(size_of::<u64>()) {
        word.copy_from_slice(&fresh.number().to_le_bytes());
    }
    salt
}

/// What a pool's features say of how it is written.
pub(super) struct Enabled<'a>(pub(super) &'a [InUse]);

impl Enabled<'_> {
    fn find(&self, name: &str) -> Option<&InUse> {
        let guid = Feature::named(name)?.guid;
        self.0.iter().find(|one| one.guid == guid)
    }

    /// Whether one of this short name is enabled.
    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Whether one of this short name is in use.
    pub(super) fn in_use(&self, name: &str) -> bool {
        self.find(name).is_some_and(|one| one.count > 0)
    }

    /// What file systems count.
    pub(super) fn counted(&self) -> Counted {
        Counted::of_pool(|name| self.has(name))
    }

    /// The salt that the pool needs and does not have.
    pub(super) fn new_salt(&self, has_one: bool, fresh: &dyn Fresh) -> Option<Salt> {
        let is_salted = SALTED.iter().any(|name| self.has(name));
        (is_salted && !has_one).then(|| new_salt(fresh))
    }

    /// How blocks of the MOS are stored.
    pub(super) fn policy(&self, writer: &Writer) -> Policy {
        Policy::of_mos(writer, |name| self.in_use(name))
    }

    /// What space maps have.
    pub(super) fn map_form(&self) -> MapForm {
        let block_bytes = match self.has_map_logs() {
            true => BLOCK_BYTES_LOGGED,
            false => BLOCK_BYTES,
        };
        MapForm { long_entries: self.in_use("spacemap_v2"), block_bytes }
    }

    /// Whether what changes in space maps goes into logs.
    pub(super) fn has_map_logs(&self) -> bool {
        self.has(map_logs::FEATURE)
    }
}

impl Live {
    /// The pool is written from here on as its features say and its vdevs let it. For who keeps others from syncing.
    pub(in super::super) async fn follow_pool(&self) -> Result<(), ZfsError> {
        let features = features::in_use(self.spa.mos()).await?;
        let enabled = Enabled(&features);
        if let Some(salt) = enabled.new_salt(self.spa.zio().salt().is_some(), &*self.fresh) {
            self.spa.zio().set_salt(salt);
            self.syncer.writer().set_salt(salt);
            self.new_salt.set(Some(salt));
        }
        if !planted::is(Bug::FeaturesOfBefore) {
            self.syncer.set_policy(enabled.policy(self.syncer.writer()));
        }
        self.syncer.set_map_form(enabled.map_form());
        self.count_sectors();
        if enabled.has_map_logs() {
            self.syncer.write_map_logs(None);
        }
        self.counted.set(enabled.counted());
        self.open.borrow().values().for_each(|open| open.objset.set_counted(self.counted.get()));
        self.spa.set_features(features);
        self.follow_failmode().await?;
        self.follow_multihost().await?;
        self.follow_properties().await
    }

    /// How long blocks and dnodes of a dataset's files become: as its properties `recordsize` and `dnodesize` say, where the pool
    /// takes such.
    pub(super) fn shape(&self, files: &FileSystem, node: &Node) {
        let most = match self.is_enabled(LARGE_BLOCKS) {
            true => BLOCK_BYTES_MAX,
            false => BLOCK_BYTES_PLAIN,
        };
        files.set_record_bytes(
            set_number(node, "recordsize").unwrap_or(BLOCK_BYTES_PLAIN).min(most),
        );
        let asked = set_number(node, "dnodesize").filter(|_| self.is_enabled(LARGE_DNODES));
        files.set_dnode_bytes(dnode_bytes(asked.unwrap_or(0)));
    }

    /// Those that are open are stored as is set for them.
    async fn follow_properties(&self) -> Result<(), ZfsError> {
        let open: Vec<(u64, Rc<OpenDataset>)> =
            self.open.borrow().iter().map(|(n, o)| (*n, Rc::clone(o))).collect();
        if open.is_empty() {
            return Ok(());
        }
        let catalog = self.spa.catalog(0).await?;
        for (number, open) in open {
            let name = catalog.dataset_name(number).await?;
            let Some(node) = catalog.find(&name).await? else { continue };
            *open.policy.borrow_mut() = Rc::new(self.policy(&node));
            open.log.set_stored(stored(&node, &open.policy.borrow()));
            open.objset.set_caching(Caching::of(set_number(&node, "primarycache")));
            if let Some(files) = &*open.files.borrow() {
                self.shape(files, &node);
            }
        }
        Ok(())
    }
}
