//! Blocks reserved and granted, of what [`Space`](super::Space) knows to be free.

use super::REGIONS_TRIED_MAX;
use crate::core::{Core, Outcome};
use crate::layout::Extent;
use rt::TreeErrorKind;

impl Core {
    /// Counts blocks as spoken for. Where there are none left, waits for what was freed.
    ///
    /// `privileged` requests may have the last blocks too.
    pub(crate) async fn reserve(&self, blocks: u64, privileged: bool) -> Outcome<()> {
        if self.space.borrow_mut().try_reserve(blocks, privileged) {
            return Ok(());
        }
        if self.journal.has_frees() || self.journal.committed() + 1 < self.journal.running() {
            self.commit_metadata(self.journal.running()).await?;
            if self.space.borrow_mut().try_reserve(blocks, privileged) {
                return Ok(());
            }
        }
        Err(TreeErrorKind::NoSpace)
    }

    /// Grants up to `want` blocks, of those that the caller has reserved.
    pub(crate) async fn grant(&self, goal: u64, want: u64) -> Outcome<Extent> {
        self.grant_at_least(goal, want, 1).await
    }

    /// Grants exactly `len` blocks that follow one another.
    pub(crate) async fn grant_whole(&self, goal: u64, len: u64) -> Outcome<Extent> {
        self.grant_at_least(goal, len, len).await
    }

    async fn grant_at_least(&self, goal: u64, want: u64, least: u64) -> Outcome<Extent> {
        let shape = &self.shape;
        let home = shape.region_of(goal).unwrap_or(0);
        self.load_region(home).await?;
        if least == 1
            && let Some(extent) = self.space.borrow_mut().take_at(shape, goal, want)
        {
            return Ok(extent);
        }
        // A new extent: it begins on a unit of the stripe, or on a full stripe.
        let align = match self.settings.stripe {
            Some(stripe) if want * shape.block >= stripe.full().bytes() => stripe.full().bytes(),
            Some(stripe) if want * shape.block >= stripe.unit.bytes() => stripe.unit.bytes(),
            _ => shape.block,
        } / shape.block;
        // A region's worth is as long as a grant gets.
        let whole = want.min(shape.region_blocks / 2);
        for pass in [whole, least] {
            let mut region = home;
            let tries = if pass == whole { REGIONS_TRIED_MAX } else { shape.regions as usize + 1 };
            for _ in 0..tries {
                self.load_region(region).await?;
                let from = if region == home { goal } else { 0 };
                let taken = self.space.borrow_mut().take_in(shape, region, from, want, pass, align);
                if let Some(extent) = taken {
                    return Ok(extent);
                }
                let Some(next) = self.space.borrow().next_region(region + 1) else { break };
                region = next;
                if region == home {
                    break;
                }
            }
            if pass == least && self.space.borrow_mut().drop_windows(shape) {
                self.load_region(home).await?;
                let first = self.space.borrow().next_region(home);
                if let Some(region) = first {
                    self.load_region(region).await?;
                    let mut space = self.space.borrow_mut();
                    let taken = space.take_in(shape, region, goal, want, least, align);
                    if let Some(extent) = taken {
                        return Ok(extent);
                    }
                }
            }
        }
        Err(TreeErrorKind::NoSpace)
    }

    /// Grants one reserved block for a file that grows block by block, from its reservation window or
    /// from a new one of this length; says whether it is a new one.
    pub(crate) async fn grant_next(
        &self,
        inode: u64,
        goal: u64,
        window: u64,
    ) -> Outcome<(Extent, bool)> {
        if window <= 1 {
            return self.grant(goal, 1).await.map(|extent| (extent, false));
        }
        if let Some(extent) = self.next_of_window(inode, goal) {
            return Ok((extent, false));
        }
        self.space.borrow_mut().drop_window(&self.shape, inode);
        // The window is no reservation of space: it only keeps others away while there is enough.
        if !self.space.borrow_mut().try_reserve(window - 1, false) {
            return self.grant(goal, 1).await.map(|extent| (extent, false));
        }
        let granted = self.grant(goal, window).await;
        let mut space = self.space.borrow_mut();
        let extent = match granted {
            Ok(extent) => extent,
            Err(error) => {
                space.unreserve(window - 1);
                return Err(error);
            }
        };
        // `grant` counted all of it as reserved and gone; of the rest neither is true.
        space.unreserve(window - extent.len);
        let rest = Extent { start: extent.start + 1, len: extent.len - 1 };
        space.available += rest.len;
        if rest.len > 0
            && let Some(other) = space.windows.insert(inode, rest)
        {
            space.give_to_region(&self.shape, other);
        }
        Ok((Extent { start: extent.start, len: 1 }, true))
    }

    fn next_of_window(&self, inode: u64, goal: u64) -> Option<Extent> {
        let mut space = self.space.borrow_mut();
        let window = space.windows.get_mut(&inode).filter(|window| window.start == goal)?;
        let extent = Extent { start: window.start, len: 1 };
        window.start += 1;
        window.len -= 1;
        if window.len == 0 {
            space.windows.remove(&inode);
        }
        space.available -= 1;
        space.unreserve(1);
        Some(extent)
    }
}
