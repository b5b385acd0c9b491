//! What a group took and gave back, written down: into each metaslab's map, or into the group's log of all.
//!
//! ```text
//!   without logs   each pass: what changed goes behind the metaslab's map
//!   with logs      pass 1:    the log is made ── metaslabs are flushed: what earlier logs have goes behind their maps
//!                             ── logs that nobody needs go
//!                  each pass: what changed goes behind the log
//! ```
//!
//! Either way a map that says little in many words is written anew where something would go behind it.
//!
//! **Order.** Nothing of the group is in a map or a log when metaslabs are flushed, so what the allocator has as written down is what a
//! map says with its net. The allocator is asked, and it is asserted.
//!
//! A group that changes nothing makes no log and flushes nothing, so that a pool at rest stays at rest.
//!
//! Source: OpenZFS, `metaslab.c` (`metaslab_sync`), `spa_log_spacemap.c` (`spa_flush_metaslabs`).

use super::map_logs;
use super::maps::{self, BLOCK_BYTES, MapForm, MapPlace};
use crate::dmu::Dnode;
use crate::dsl::make::Maker;
use crate::error::{Problem, ZfsError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use stdx::planted::{self, Bug};
use zfs_format::vdev::Vdev;
use zfs_store::Writer;
use zfs_store::alloc::{Changes, SlabKey, Unflushed};

/// How a pool writes down what is allocated.
pub(super) struct SlabMaps {
    form: Cell<MapForm>,
    /// Where the pool has logs of space maps.
    unflushed: RefCell<Option<Unflushed>>,
    /// The next group flushes all.
    flushes_all: Cell<bool>,
}

impl Default for SlabMaps {
    fn default() -> SlabMaps {
        let form = MapForm { long_entries: false, block_bytes: BLOCK_BYTES };
        SlabMaps {
            form: Cell::new(form),
            unflushed: RefCell::default(),
            flushes_all: Cell::new(false),
        }
    }
}

/// The group that syncs.
#[derive(Clone, Copy)]
pub(super) struct Group<'a> {
    pub(super) maker: &'a Maker<'a>,
    pub(super) writer: &'a Writer,
    pub(super) tops: &'a [Vdev],
    pub(super) pass: u32,
}

impl Group<'_> {
    /// What notes in maps say.
    pub(super) fn number(&self) -> (u64, u16) {
        (self.maker.txg, self.pass as u16)
    }

    fn top(&self, vdev: u32) -> Option<&Vdev> {
        self.tops.iter().find(|top| top.id == u64::from(vdev))
    }

    /// The metaslabs that have changes.
    fn changed(&self) -> Vec<SlabKey> {
        let of = |vdev: u32| {
            let slabs = self.writer.space(|space| space.changed(vdev, self.maker.txg));
            slabs.into_iter().map(move |slab| (vdev, slab))
        };
        let vdevs: Vec<u32> = self.writer.space(|space| space.vdevs().collect());
        vdevs.into_iter().flat_map(of).collect()
    }

    /// What changed, which whoever asks writes down.
    fn take(&self, (vdev, slab): SlabKey) -> Changes {
        self.writer.space(|space| space.take_changes(vdev, slab, self.maker.txg))
    }
}

impl SlabMaps {
    /// What the pool lets its space maps have.
    pub(super) fn form(&self) -> MapForm {
        self.form.get()
    }

    /// The same, set.
    pub(super) fn set_form(&self, form: MapForm) {
        self.form.set(form);
    }

    /// The pool has logs of space maps from here on; these, if it had some.
    pub(super) fn write_logs(&self, loaded: Option<Unflushed>) {
        let mut unflushed = self.unflushed.borrow_mut();
        if unflushed.is_none() {
            *unflushed = Some(loaded.unwrap_or_default());
        }
    }

    /// Whether it has.
    pub(super) fn has_logs(&self) -> bool {
        self.unflushed.borrow().is_some()
    }

    /// The next group leaves one log at the most.
    pub(super) fn flush_all(&self) {
        self.flushes_all.set(true);
    }

    /// Writes down what the group changed since this was last asked.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(super) async fn write(&self, group: Group<'_>) -> Result<(), ZfsError> {
        // It is nobody's while it is written: who fails is stopped.
        let unflushed = self.unflushed.take();
        match unflushed {
            Some(mut unflushed) => {
                self.write_log(group, &mut unflushed).await?;
                *self.unflushed.borrow_mut() = Some(unflushed);
            }
            None => {
                for slab in group.changed() {
                    // The map is made first: what that takes is among these.
                    let map = self.map(group, slab).await?;
                    let changes = group.take(slab);
                    self.append(group, slab, &map, &changes).await?;
                }
            }
        }
        Ok(())
    }

    async fn write_log(&self, group: Group<'_>, unflushed: &mut Unflushed) -> Result<(), ZfsError> {
        let (maker, txg) = (group.maker, group.maker.txg);
        let is_at_rest = group.changed().is_empty() && !maker.mos.is_dirty();
        if !unflushed.has_log(txg) {
            if is_at_rest {
                return Ok(());
            }
            self.begin(group, unflushed).await?;
        }
        let (mut all, mut numbered) = (Vec::new(), BTreeMap::new());
        for slab in group.changed() {
            // OpenZFS has a map of each metaslab that a log speaks of.
            self.map(group, slab).await?;
            let changes = group.take(slab);
            if unflushed.log(txg, slab, &changes) && !planted::nth(Bug::FirstLogNotNumbered, 5) {
                number(&mut numbered, slab);
            }
            all.push((slab.0, changes));
        }
        set_numbers(group, &numbered).await?;
        if !all.is_empty() {
            let log = unflushed.logs().last().map_or(0, |log| log.object);
            let log = maker.mos.dnode(log).await?;
            let blocks = maps::append_to_log(maker.mos, &log, group.number(), &all).await?;
            unflushed.set_blocks(txg, blocks);
        }
        unflushed.assert_whole();
        Ok(())
    }

    /// The group has a log; and what is due of earlier ones is put into maps.
    async fn begin(&self, group: Group<'_>, unflushed: &mut Unflushed) -> Result<(), ZfsError> {
        let (maker, txg) = (group.maker, group.maker.txg);
        let log = map_logs::make(maker).await?;
        unflushed.begin(txg, log.number(), self.flushes_all.take());
        let mut numbered = BTreeMap::new();
        // What is written anew has all that the allocator has: nothing of this group yet, in its first pass only.
        let is_first = group.pass == 1;
        while let Some((slab, net)) = is_first.then(|| unflushed.next_due(txg)).flatten() {
            self.flush(group, slab, &net).await?;
            if !planted::nth(Bug::FlushNotNumbered, 5) {
                number(&mut numbered, slab);
            }
        }
        set_numbers(group, &numbered).await?;
        map_logs::destroy(maker, &unflushed.take_needless(txg), &log).await
    }

    /// A metaslab's map is told what logs have of it.
    async fn flush(&self, group: Group<'_>, slab: SlabKey, net: &Changes) -> Result<(), ZfsError> {
        if net.allocated.is_empty() && net.freed.is_empty() {
            return Ok(());
        }
        let is_so = group.writer.space(|space| {
            let slabs = space.metaslabs(slab.0).expect("a vdev that is known");
            let allocated = &slabs.slabs()[slab.1].allocated;
            net.allocated.iter().all(|range| allocated.covers(&range))
                && !net.freed.iter().any(|range| allocated.touches(&range))
        });
        assert!(is_so, "what logs say of {slab:?} is what is allocated");
        if planted::nth(Bug::FlushForgotten, 5) {
            return Ok(());
        }
        let map = self.map(group, slab).await?;
        self.append(group, slab, &map, net).await
    }

    /// Puts changes behind what a metaslab's map says, which the allocator has already; or writes it anew.
    async fn append(
        &self,
        group: Group<'_>,
        (vdev, number): SlabKey,
        map: &Dnode,
        changes: &Changes,
    ) -> Result<(), ZfsError> {
        let (mos, writer) = (group.maker.mos, group.writer);
        let place = writer.space(|space| {
            let slabs = space.metaslabs(vdev).expect("a vdev that is known");
            MapPlace { start: slabs.start(number), unit: slabs.unit() }
        });
        let free = || writer.space(|space| space.free_in(vdev, number));
        let form = self.form.get();
        if group.pass == 1 && maps::is_long(map)? {
            let allocated = writer.space(|space| {
                let slabs = space.metaslabs(vdev).expect("a vdev that is known");
                slabs.slabs()[number].allocated.clone()
            });
            if maps::condense(mos, map, form, place, group.number(), &allocated, free).await? {
                return Ok(());
            }
        }
        maps::append(mos, map, form, place, group.number(), changes, free).await
    }

    /// A metaslab's map; one that was never used gets it now.
    async fn map(&self, group: Group<'_>, (vdev, number): SlabKey) -> Result<Dnode, ZfsError> {
        let (mos, writer) = (group.maker.mos, group.writer);
        let map = writer.space(|space| {
            space.metaslabs(vdev).expect("a vdev that is known").slabs()[number].map
        });
        if map != 0 {
            return mos.dnode(map).await;
        }
        let map = maps::make(mos, self.form.get()).await?;
        let array = group.top(vdev).and_then(|top| top.metaslab_array).unwrap_or(0);
        maps::set_number(mos, &mos.dnode(array).await?, number, map.number()).await?;
        writer.space(|space| {
            let slabs = space.metaslabs_mut(vdev).expect("a vdev that is known");
            slabs.slabs_mut()[number].map = map.number();
        });
        Ok(map)
    }
}

/// By vdev, the metaslabs that have another number.
type Numbered = BTreeMap<u32, Vec<usize>>;

fn number(numbered: &mut Numbered, (vdev, slab): SlabKey) {
    numbered.entry(vdev).or_default().push(slab);
}

/// Writes down that metaslabs have the number of the group.
async fn set_numbers(group: Group<'_>, numbered: &Numbered) -> Result<(), ZfsError> {
    let txg = group.maker.txg;
    for (vdev, slabs) in numbered {
        let many = group.writer.space(|space| {
            let of = space.metaslabs_mut(*vdev).expect("a vdev that is known");
            slabs.iter().for_each(|slab| of.slabs_mut()[*slab].flushed_txg = txg);
            of.len()
        });
        let top = group.top(*vdev);
        let top = top.ok_or_else(|| group.maker.mos.wrong(0, Problem::Absent))?;
        map_logs::set_numbers(group.maker, top, (slabs, many)).await?;
    }
    Ok(())
}
