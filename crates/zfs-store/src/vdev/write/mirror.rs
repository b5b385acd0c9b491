//! Writing to a mirror: to all leaves that should hold it, and whoever doesn't take it misses it from then on.

use super::{Done, Lost, Missed, Put};
use crate::vdev::leaf::{Dtl, Leaf, LeafState, on_device};
use crate::vdev::mirror::Mirror;
use futures_util::future::join_all;
use rt::SgList;
use std::ops::Range;
use std::rc::Rc;
use stdx::planted::{self, Bug};

impl Mirror {
    /// The leaves that should hold a block at this offset of the data area, and who misses it where one doesn't take it: of
    /// spare space that is the space, for the leaf that it lies on is another child. Spare space that lies nowhere
    /// misses it at once.
    fn targets(&self, offset: u64, txg: u64) -> Vec<(Rc<Leaf>, &Dtl)> {
        let mut targets: Vec<_> =
            self.leaves.iter().map(|leaf| (Rc::clone(leaf), &leaf.dtl)).collect();
        for space in &self.spares {
            let found = space.leaves_at(offset, txg);
            if found.is_empty() {
                space.dtl.add(txg..txg + 1);
            }
            targets.extend(found.into_iter().map(|(leaf, _)| (leaf, &space.dtl)));
        }
        targets
    }

    pub(super) async fn write(&self, offset: u64, data: SgList, put: &Put<'_>) -> Done<'_> {
        let has_sides = self.leaves.len() > 1;
        let txgs = put.txg..put.txg + 1;
        let written = self.targets(offset, put.txg).into_iter().map(|(leaf, dtl)| {
            let (data, txgs) = (data.clone(), txgs.clone());
            async move {
                if has_sides && planted::nth(Bug::SideNotWritten, 9) {
                    return Ok(());
                }
                let result = match leaf.state() {
                    LeafState::Online => {
                        leaf.write(on_device(offset), data, put.class).await.map_err(Some)
                    }
                    _ => Err(None),
                };
                match result {
                    Ok(()) => {
                        leaf.note_written(put.txg);
                        Ok(())
                    }
                    Err(lost) => Err((lost, Missed { leaf, dtl, txgs })),
                }
            }
        });
        one_is_enough(join_all(written).await)
    }

    /// Makes durable what was written before; of these groups, where nobody knows which they were.
    pub(super) async fn flush(&self, txgs: &Range<u64>) -> Done<'_> {
        // One that was taken out may have what no other took.
        let is_due = |leaf: &&Rc<Leaf>| leaf.state() == LeafState::Online || leaf.is_unflushed();
        let flushed = self.leaves.iter().filter(is_due).map(|leaf| async move {
            leaf.flush().await.map_err(|failed| {
                let (first, last) = failed.written.unwrap_or((txgs.start, txgs.end - 1));
                let txgs = first.min(txgs.start)..txgs.end.max(last + 1);
                (Some(failed.kind), Missed { leaf: Rc::clone(leaf), dtl: &leaf.dtl, txgs })
            })
        });
        let flushed = join_all(flushed).await;
        if flushed.is_empty() {
            // Nothing was written here; spare space is on other children, which are flushed there.
            return Done::NOTHING;
        }
        one_is_enough(flushed)
    }

    pub(super) async fn trim(&self, stretch: &Range<u64>) {
        let len = stretch.end.saturating_sub(stretch.start);
        if len == 0 {
            return;
        }
        let online = self.leaves.iter().filter(|leaf| leaf.state() == LeafState::Online);
        let trimmed = online.map(|leaf| leaf.trim(on_device(stretch.start), len));
        // Who can't do it keeps what it has.
        let _ = join_all(trimmed).await;
    }
}

/// Of several that should do a thing, one that did is enough.
fn one_is_enough(results: Vec<Result<(), (Lost, Missed<'_>)>>) -> Done<'_> {
    let (mut lost, mut is_done, mut missed) = (None, false, Vec::new());
    for result in results {
        match result {
            Ok(()) => is_done = true,
            Err((kind, one)) => {
                lost = kind.or(lost);
                missed.push(one);
            }
        }
    }
    Done { result: if is_done { Ok(()) } else { Err(lost) }, missed }
}
