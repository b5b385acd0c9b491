//! Indirect blocks: pointers in the inode, and blocks of pointers.
//!
//! With n pointers in a block a file has 12 direct blocks, n behind the single indirect block, n² behind
//! the double one, n³ behind the triple one. A *table* is a block of pointers; a *leaf* is a table whose
//! pointers lead to data. 0 is a hole, at every level.
//!
//! Where a block of the file is written for the first time, the tables on the way to it are made in the
//! same step. Who writes through the cache with allocation at write gets their places at that time, so
//! that they lie before the data that they lead to, as in the file systems that this is after.

use crate::core::{Core, Outcome, Tx};
use crate::group::RegionHandle;
use crate::inode::Inode;
use crate::layout::Extent;
use crate::mapping::{DIRECT, POINTERS, Root, Run, What, pointed_blocks_max};
use crate::meta::MetaRef;
use smallvec::SmallVec;
use std::rc::Rc;

/// Extents that one step frees at the most, so that it changes few bitmaps.
const FREED_PER_STEP_MAX: usize = 16;

/// The way from the inode to a block of the file.
#[derive(Clone, Debug)]
struct Way {
    /// Which pointer of the inode.
    root: usize,
    /// Which pointer of each table.
    steps: SmallVec<[usize; 3]>,
    /// For each table, from the top: the first block of the file under it, and how many.
    spans: SmallVec<[(u64, u64); 3]>,
}

impl Way {
    fn to(n: u64, block: u64) -> Way {
        let mut rest = block;
        if rest < DIRECT {
            let (steps, spans) = (SmallVec::new(), SmallVec::new());
            return Way { root: rest as usize, steps, spans };
        }
        rest -= DIRECT;
        let mut first = DIRECT;
        let mut level = 1;
        let mut under = n;
        while rest >= under && level < 3 {
            rest -= under;
            first += under;
            level += 1;
            under *= n;
        }
        let (mut steps, mut spans) = (SmallVec::new(), SmallVec::new());
        for _ in 0..level {
            spans.push((first, under));
            under /= n;
            steps.push((rest / under) as usize);
            first += rest / under * under;
            rest %= under;
        }
        Way { root: DIRECT as usize - 1 + level, steps, spans }
    }
}

/// How many blocks from `first` on are in one leaf.
pub(crate) fn step(n: u64, first: u64) -> u64 {
    match Way::to(n, first).spans.last() {
        None => DIRECT - first,
        Some((start, len)) => start + len - first,
    }
}

/// Where a way ends.
enum End {
    /// At the inode's own pointers.
    Inode,
    /// At a leaf.
    Leaf,
    /// At a pointer that is none: this many tables are there.
    Missing(usize),
}

struct Walk {
    way: Way,
    /// The tables that are there, from the top.
    tables: SmallVec<[MetaRef; 3]>,
    end: End,
}

/// Pointer `index` of a table.
fn pointer(table: &MetaRef, index: usize) -> u64 {
    let bytes = table.bytes();
    let bytes = bytes.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok());
    u64::from(bytes.map_or(0, u32::from_le_bytes))
}

/// What is needed to map blocks in one leaf.
pub(crate) struct Plan {
    walk: Walk,
    /// Tables to make, from the top.
    new: Vec<(Extent, RegionHandle)>,
}

impl Core {
    fn pointers(&self) -> u64 {
        self.shape.block / 4
    }

    fn root_pointer(&self, inode: &Inode, index: usize) -> u64 {
        match &inode.body.borrow().root {
            Root::Indirect(pointers) => u64::from(pointers[index]),
            Root::Extents(_) => unreachable!("one form in a tree"),
        }
    }

    async fn walk(&self, inode: &Inode, block: u64) -> Outcome<Walk> {
        let way = Way::to(self.pointers(), block);
        let mut tables = SmallVec::new();
        if way.steps.is_empty() {
            return Ok(Walk { way, tables, end: End::Inode });
        }
        let mut next = self.root_pointer(inode, way.root);
        for (depth, step) in way.steps.iter().enumerate() {
            if next == 0 {
                return Ok(Walk { way, tables, end: End::Missing(depth) });
            }
            if self.shape.region_of(next).is_none() {
                return Err(self.stray(next));
            }
            let table = self.block(next).await?;
            next = pointer(&table, *step);
            tables.push(table);
        }
        Ok(Walk { way, tables, end: End::Leaf })
    }

    pub(crate) async fn lookup_indirect(
        &self,
        inode: &Inode,
        first: u64,
        most: u64,
    ) -> Outcome<Run> {
        if first >= pointed_blocks_max(self.pointers()) {
            return Ok(Run { what: What::Hole, len: most });
        }
        let walk = self.walk(inode, first).await?;
        let most = match (&walk.end, walk.way.spans.last()) {
            (End::Missing(depth), _) => {
                let (start, len) = walk.way.spans[*depth];
                return Ok(Run { what: What::Hole, len: (start + len - first).min(most) });
            }
            (_, Some((start, len))) => (start + len - first).min(most),
            (_, None) => (DIRECT - first).min(most),
        };
        let at = |i: u64| match walk.tables.last() {
            Some(leaf) => pointer(leaf, *walk.way.steps.last().unwrap_or(&0) + i as usize),
            None => self.root_pointer(inode, walk.way.root + i as usize),
        };
        let block = at(0);
        let alike = |i: u64| at(i) == if block == 0 { 0 } else { block + i };
        let len = 1 + (1..most).take_while(|i| alike(*i)).count() as u64;
        if block == 0 {
            return Ok(Run { what: What::Hole, len });
        }
        match (self.shape.region_of(block), self.shape.region_of(block + len - 1)) {
            (Some(_), Some(_)) => Ok(Run { what: What::At(block), len }),
            _ => Err(self.stray(block)),
        }
    }

    /// The tables that would have to be made to map a block: (level, first block under it).
    pub(crate) async fn missing_tables(
        &self,
        inode: &Inode,
        block: u64,
    ) -> Outcome<Vec<(usize, u64)>> {
        let walk = self.walk(inode, block).await?;
        let End::Missing(depth) = walk.end else { return Ok(Vec::new()) };
        let levels = walk.way.spans.len();
        Ok((depth..levels).map(|i| (levels - i, walk.way.spans[i].0)).collect())
    }

    pub(crate) async fn plan_indirect(
        &self,
        inode: &Inode,
        first: u64,
        extent: Extent,
    ) -> Outcome<Plan> {
        let walk = self.walk(inode, first).await?;
        let mut new = Vec::new();
        if let End::Missing(depth) = walk.end {
            let levels = walk.way.spans.len();
            for i in depth..levels {
                let key = (levels - i, walk.way.spans[i].0);
                let pending = inode.body.borrow_mut().pending_indirect.remove(&key);
                let granted = match pending {
                    Some(start) => Ok(Extent { start, len: 1 }),
                    None => self.grant_metadata(extent.start).await,
                };
                let entry = match granted {
                    Ok(table) => {
                        self.region_handle(table.start).await.map(|region| (table, region))
                    }
                    Err(error) => Err(error),
                };
                match entry {
                    Ok(entry) => new.push(entry),
                    Err(error) => {
                        if let Ok(table) = granted {
                            self.space.borrow_mut().release(&self.shape, table);
                        }
                        for (table, _) in new {
                            self.space.borrow_mut().release(&self.shape, table);
                        }
                        return Err(error);
                    }
                }
            }
        }
        Ok(Plan { walk, new })
    }

    /// Reserves and grants one block of metadata.
    pub(crate) async fn grant_metadata(&self, goal: u64) -> Outcome<Extent> {
        self.reserve(1, true).await?;
        let granted = self.grant(goal, 1).await;
        granted.inspect_err(|_| self.space.borrow_mut().unreserve(1))
    }

    pub(crate) fn apply_indirect(
        &self,
        tx: &Tx<'_>,
        inode: &Inode,
        plan: &Plan,
        first: u64,
        extent: Extent,
    ) {
        let way = &plan.walk.way;
        let mut parent = plan.walk.tables.last().cloned();
        for (depth, (table, region)) in (plan.walk.tables.len()..).zip(&plan.new) {
            tx.mark_used(region, *table);
            inode.body.borrow_mut().blocks += 1;
            let block = self.fresh_block(table.start);
            tx.edit(&block, 0..self.shape.block as usize, |bytes| bytes.fill(0));
            match &parent {
                None => self.set_root(inode, way.root, table.start),
                Some(parent) => set_pointers(tx, parent, way.steps[depth - 1], table.start, 1, 1),
            }
            parent = Some(block);
        }
        match (&parent, way.steps.last()) {
            (Some(leaf), Some(index)) => {
                set_pointers(tx, leaf, *index, extent.start, extent.len as usize, 1);
            }
            _ => {
                for i in 0..extent.len {
                    self.set_root(inode, (first + i) as usize, extent.start + i);
                }
            }
        }
    }

    fn set_root(&self, inode: &Inode, index: usize, block: u64) {
        let block = u32::try_from(block).expect("a device with indirect blocks has 32-bit places");
        match &mut inode.body.borrow_mut().root {
            Root::Indirect(pointers) => pointers[index] = block,
            Root::Extents(_) => unreachable!("one form in a tree"),
        }
    }

    /// One step of taking blocks away: the last that are mapped before `to`. Returns the end of what may
    /// still be mapped.
    pub(crate) async fn unmap_indirect(
        &self,
        inode: &Rc<Inode>,
        from: u64,
        to: u64,
    ) -> Outcome<u64> {
        let to = to.min(pointed_blocks_max(self.pointers()));
        let walk = self.walk(inode, to.saturating_sub(1)).await?;
        if let End::Missing(depth) = walk.end {
            return Ok(walk.way.spans[depth].0.max(from));
        }
        let (start, leaf) = match (walk.way.spans.last(), walk.tables.last()) {
            (Some((start, _)), Some(leaf)) => (*start, Some(leaf)),
            _ => (0, None),
        };
        let at = |block: u64| match leaf {
            Some(leaf) => pointer(leaf, (block - start) as usize),
            None => self.root_pointer(inode, block as usize),
        };
        // The last extents of the leaf that are mapped.
        let low = from.max(start);
        let mut freed: Vec<Extent> = Vec::new();
        let mut cursor = to;
        while cursor > low {
            let block = at(cursor - 1);
            let full = freed.len() == FREED_PER_STEP_MAX;
            match freed.last_mut() {
                _ if block == 0 => {}
                Some(last) if block + 1 == last.start && self.same_region(block, last.start) => {
                    last.start -= 1;
                    last.len += 1;
                }
                _ if full => break,
                _ => freed.push(Extent { start: block, len: 1 }),
            }
            cursor -= 1;
        }
        let mut regions = Vec::with_capacity(freed.len());
        for extent in &freed {
            regions.push(self.region_handle(extent.start).await?);
        }
        // Tables that lead nowhere then.
        let mut tables = Vec::new();
        for (depth, table) in walk.tables.iter().enumerate().rev() {
            let (first, _) = walk.way.spans[depth];
            let index = walk.way.steps[depth];
            let kept = if depth + 1 == walk.tables.len() {
                let cleared = (cursor.max(low) - first) as usize..(to - first) as usize;
                (0..self.pointers() as usize)
                    .any(|i| !cleared.contains(&i) && pointer(table, i) != 0)
            } else {
                (0..self.pointers() as usize).any(|i| i != index && pointer(table, i) != 0)
            };
            if kept {
                break;
            }
            tables.push((depth, self.region_handle(table.number).await?));
        }
        let inode_block = self.inode_block(inode.number).await?;
        if freed.is_empty() && tables.is_empty() {
            return Ok(cursor.max(from));
        }
        let tx = self.tx();
        for (extent, region) in freed.iter().zip(&regions) {
            tx.mark_free(region, *extent, Core::holds_metadata(inode));
            inode.body.borrow_mut().blocks -= extent.len;
        }
        match leaf {
            Some(leaf) => {
                let index = (cursor - start) as usize;
                set_pointers(&tx, leaf, index, 0, (to - cursor) as usize, 0);
            }
            None => (cursor..to).for_each(|block| self.set_root(inode, block as usize, 0)),
        }
        for (depth, region) in &tables {
            let block = walk.tables[*depth].number;
            tx.mark_free(region, Extent { start: block, len: 1 }, true);
            inode.body.borrow_mut().blocks -= 1;
            match depth.checked_sub(1) {
                None => self.set_root(inode, walk.way.root, 0),
                Some(above) => {
                    set_pointers(&tx, &walk.tables[above], walk.way.steps[above], 0, 1, 0);
                }
            }
        }
        self.store(&tx, inode, &inode_block);
        Ok(cursor)
    }

    fn same_region(&self, a: u64, b: u64) -> bool {
        self.shape.region_of(a) == self.shape.region_of(b)
    }

    /// The tables of an inode, for the checker: each with the first block of the file under it.
    pub(crate) async fn tables_of(&self, inode: &Inode) -> Outcome<Vec<u64>> {
        let mut found = Vec::new();
        let mut below: Vec<(u64, usize)> = Vec::new();
        for level in 1..=POINTERS - DIRECT as usize {
            let block = self.root_pointer(inode, DIRECT as usize - 1 + level);
            if block != 0 {
                below.push((block, level));
            }
        }
        while let Some((number, level)) = below.pop() {
            if self.shape.region_of(number).is_none() {
                return Err(self.stray(number));
            }
            found.push(number);
            if level > 1 {
                let table = self.block(number).await?;
                let next = (0..self.pointers() as usize).map(|i| pointer(&table, i));
                below.extend(next.filter(|next| *next != 0).map(|next| (next, level - 1)));
            }
        }
        Ok(found)
    }
}

/// Sets `count` pointers of a table, to `block`, `block + stride`, …
fn set_pointers(tx: &Tx<'_>, table: &MetaRef, index: usize, block: u64, count: usize, stride: u64) {
    tx.edit(table, 4 * index..4 * (index + count), |bytes| {
        for (i, place) in bytes.chunks_exact_mut(4).enumerate() {
            let block = block + i as u64 * stride;
            let block =
                u32::try_from(block).expect("a device with indirect blocks has 32-bit places");
            place.copy_from_slice(&block.to_le_bytes());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Off-by-one errors at the borders of the levels: the way leads to the block, and ways of
        /// neighbours differ.
        #[test]
        fn a_way_names_its_block(block in 0..pointed_blocks_max(16), near in 0_u64..40) {
            for block in [block, near] {
                let n = 16;
                let way = Way::to(n, block);
                let Some((first, len)) = way.spans.last() else {
                    prop_assert_eq!(way.root as u64, block);
                    continue;
                };
                prop_assert_eq!(*len, n);
                prop_assert_eq!(first + *way.steps.last().expect("a leaf") as u64, block);
                prop_assert_eq!(way.root, 11 + way.steps.len());
                let top = way.spans[0];
                prop_assert!((top.0..top.0 + top.1).contains(&block));
                prop_assert!(way.steps.iter().all(|step| (*step as u64) < n));
            }
        }
    }
}
