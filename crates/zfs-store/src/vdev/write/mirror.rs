//! Writing to a mirror: to all leaves that should hold it, and whoever doesn't take it misses it from then on.

use super::{Lost, Put};
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

    pub(super) async fn write(&self, offset: u64, data: SgList, put: &Put<'_>) -> Result<(), Lost> {
        let has_sides = self.leaves.len() > 1;
        let written = self.targets(offset, put.txg).into_iter().map(|(leaf, dtl)| {
            let data = data.clone();
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
                if result.is_err() && !planted::is(Bug::MissNotNoted) {
                    dtl.add(put.txg..put.txg + 1);
                }
                result
            }
        });
        one_is_enough(join_all(written).await)
    }

    pub(super) async fn flush(&self, txgs: &Range<u64>) -> Result<(), Lost> {
        let online = self.leaves.iter().filter(|leaf| leaf.state() == LeafState::Online);
        let flushed = online.map(|leaf| async move {
            let result = leaf.flush().await.map_err(Some);
            if result.is_err() {
                leaf.dtl.add(txgs.clone());
            }
            result
        });
        let mut flushed = join_all(flushed).await;
        if flushed.is_empty() && !self.spares.is_empty() {
            // The spare space is on other children, which are flushed there.
            flushed.push(Ok(()));
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
fn one_is_enough(results: Vec<Result<(), Lost>>) -> Result<(), Lost> {
    let mut lost = None;
    for result in results {
        match result {
            Ok(()) => return Ok(()),
            Err(kind) => lost = kind.or(lost),
        }
    }
    Err(lost)
}
