//! A page map and a greedy collector: which pages of flash are valid, and what is copied to get a block free.
//!
//! Theory. A page of flash can't be written over: what the host writes goes to the next page of an open block, and the
//! page that held it before is stale. A block is erased as a whole, so what is still valid in it has to be copied
//! first. The *greedy* collector takes the block with the fewest valid pages. What the host's writes and those copies
//! come to for each write of the host is the write amplification, and nothing here says how much it is: it comes out of which
//! pages were written in which order.
//!
//! * **Two open blocks**, one for what the host writes and one for copies, so that what is collected, and so is old,
//!   isn't mixed with what is new (Van Houdt, "On the necessity of hot and cold data identification to reduce the write
//!   amplification in flash-based SSDs", Performance Evaluation 82, 2014: the double write frontier).
//! * **A victim is found in a step**: full blocks stand in lists by their count of valid pages. Of equals the one that has
//!   stood there longest is taken.
//! * A full block without a valid page is free at once: greedy would take it next, and for nothing.
//! * The host's next block is opened when one more is free for the copies; before that blocks are collected.
//!
//! What uniformly random writes come to is known: with many blocks it is a mean field (Desnoyers, "Analytic modeling of SSD
//! write performance", SYSTOR 2012; Van Houdt, "A mean field model for a class of garbage collection algorithms in
//! flash-based solid state drives", SIGMETRICS 2013). With blocks of many pages, and valid data on a share `α` of
//! the flash, a block is collected when a share `x` of it is valid, where
//!
//! > α = (1 − x) / ln(1/x),
//!
//! and the amplification is 1 / (1 − x). The tests hold the collector against that, and against the same for
//! blocks of few pages, where it is less: a victim then may well have a page less than the mean says.

use stdx::Prng;

/// No page, no slot, no block.
const NONE: u32 = u32::MAX;
/// Blocks beyond those that the drive's flash makes: one that stays free for copies, and half of each open one,
/// which in a real drive, of many more blocks, are nothing beside its spare.
const EXTRA_BLOCKS: u32 = 2;
/// Blocks that there are at least beyond those that hold the data, or nothing could be collected: two open, one
/// free, and one that is partly stale.
const SPARE_BLOCKS_MIN: u32 = 4;
/// Blocks written by the host over which the amplification is taken.
const WINDOW: usize = 16;
/// What is written after the steady state was laid out, in parts of all pages: so much that each open block is one
/// that the collector chose.
const SETTLING: f64 = 0.1;

/// A block that is being written.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u32,
    /// The slot that is written next, and where the block ends.
    next: u32,
    end: u32,
}

/// None yet.
const NOT_OPEN: Open = Open { block: NONE, next: 0, end: 0 };

/// The flash of a drive. See the [module](self).
#[derive(Debug)]
pub(super) struct Collector {
    per_block: u32,
    /// Where each page of the host lies: the block times the pages of a block, and the place in it.
    slot_of: Box<[u32]>,
    /// Whose page each slot holds.
    page_in: Box<[u32]>,
    valid: Box<[u32]>,
    /// Full blocks by valid pages: the first and the last of each list, and who stands before and behind each block.
    first: Box<[u32]>,
    last: Box<[u32]>,
    before: Box<[u32]>,
    behind: Box<[u32]>,
    /// No full block has fewer valid pages.
    fewest: u32,
    free: Vec<u32>,
    host: Open,
    copies: Open,
    /// Pages copied and blocks opened for the host, from the start.
    pub(super) copied: u64,
    opened: u64,
    /// What was copied when each of the last blocks was opened.
    copied_by: [u64; WINDOW],
    amplification: f64,
    reuses: bool,
}

impl Collector {
    /// Empty flash for so many pages of the host, with so much more (a share of them), in blocks of `per_block`.
    pub(super) fn new(pages: u32, spare: f64, per_block: u32) -> Collector {
        let for_data = pages.div_ceil(per_block);
        let nominal = (f64::from(pages) * (1.0 + spare) / f64::from(per_block)).round() as u32;
        let blocks = (nominal + EXTRA_BLOCKS).max(for_data + SPARE_BLOCKS_MIN);
        let of_blocks = vec![NONE; blocks as usize].into_boxed_slice();
        let of_counts = vec![NONE; per_block as usize + 1].into_boxed_slice();
        Collector {
            per_block,
            slot_of: vec![NONE; pages as usize].into(),
            page_in: vec![NONE; (blocks * per_block) as usize].into(),
            valid: vec![0; blocks as usize].into(),
            first: of_counts.clone(),
            last: of_counts,
            before: of_blocks.clone(),
            behind: of_blocks,
            fewest: per_block,
            free: (0..blocks).rev().collect(),
            host: NOT_OPEN,
            copies: NOT_OPEN,
            copied: 0,
            opened: 0,
            copied_by: [0; WINDOW],
            amplification: 1.0,
            reuses: false,
        }
    }

    /// The same, with all pages written in order, again and again.
    pub(super) fn in_order(pages: u32, spare: f64, per_block: u32) -> Collector {
        let mut drive = Collector::new(pages, spare, per_block);
        (0..pages).for_each(|page| drive.write(page));
        // What is still free was written before.
        drive.reuses = true;
        drive
    }

    /// The same, with all pages written over at random until nothing changes any more.
    ///
    /// Blocks are laid out as the mean field has them, each with as many random pages as one of its age has valid, and
    /// written over at random for a while.
    pub(super) fn steady(pages: u32, spare: f64, per_block: u32, prng: &mut Prng) -> Collector {
        let mut drive = Collector::new(pages, spare, per_block);
        let mut order: Vec<u32> = (0..pages).collect();
        prng.shuffle(&mut order);
        // Two are left for the open ones, one stays free.
        let blocks = drive.valid.len() as u32 - 3;
        let at_the_end = collected_at(f64::from(pages) / f64::from(blocks * per_block));
        let (mut dealt, mut due) = (0, 0.0);
        for age in 0..blocks {
            due += at_the_end.powf((f64::from(age) + 0.5) / f64::from(blocks));
            let until = if age + 1 == blocks {
                pages
            } else {
                ((due * f64::from(per_block)).round() as u32).min(pages).min(dealt + per_block)
            };
            let Some(block) = drive.free.pop() else { unreachable!("as many as there are") };
            for (slot, page) in (block * per_block..).zip(&order[dealt as usize..until as usize]) {
                drive.put(slot, *page);
            }
            drive.seal(block);
            dealt = until;
        }
        for _ in 0..(f64::from(pages) * SETTLING) as u64 {
            drive.write(prng.below(pages.into()) as u32);
        }
        drive
    }

    /// Pages of the host.
    pub(super) fn pages(&self) -> u32 {
        self.slot_of.len() as u32
    }

    /// Pages written to flash for each page of the host, over the last blocks that it wrote.
    ///
    /// What is copied to make room for a block of the host's is borne by that block and those after it, so that the
    /// mean over what the host writes is what was written.
    pub(super) fn amplification(&self) -> f64 {
        self.amplification
    }

    /// Whether blocks were freed, so that what is written now is written on flash that had to be erased.
    pub(super) fn reuses(&self) -> bool {
        self.reuses
    }

    /// The host writes a page. One that it wrote last is still in the drive's buffer, and costs nothing.
    pub(super) fn write(&mut self, page: u32) {
        let old = self.slot_of[page as usize];
        if old != NONE && old + 1 == self.host.next {
            return;
        }
        self.forget_slot(old);
        if self.host.next == self.host.end {
            self.seal_open(self.host);
            self.host = NOT_OPEN;
            while self.free.len() < 2 {
                self.collect();
            }
            self.host = self.open();
            self.set_amplification();
        }
        self.put(self.host.next, page);
        self.host.next += 1;
    }

    /// The host does not need a page any more.
    pub(super) fn discard(&mut self, page: u32) {
        let slot = std::mem::replace(&mut self.slot_of[page as usize], NONE);
        self.forget_slot(slot);
    }

    fn put(&mut self, slot: u32, page: u32) {
        self.page_in[slot as usize] = page;
        self.slot_of[page as usize] = slot;
        self.valid[(slot / self.per_block) as usize] += 1;
    }

    fn is_open(&self, block: u32) -> bool {
        block == self.host.block || block == self.copies.block
    }

    /// What a slot holds is stale.
    fn forget_slot(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        self.page_in[slot as usize] = NONE;
        let block = slot / self.per_block;
        if self.is_open(block) {
            self.valid[block as usize] -= 1;
            return;
        }
        self.take_out(block);
        self.valid[block as usize] -= 1;
        self.seal(block);
    }

    fn open(&mut self) -> Open {
        let Some(block) = self.free.pop() else { unreachable!("a block is kept free") };
        Open { block, next: block * self.per_block, end: (block + 1) * self.per_block }
    }

    fn seal_open(&mut self, open: Open) {
        if open.block != NONE {
            self.seal(open.block);
        }
    }

    /// Puts a full block where the collector finds it; frees it where nothing in it is valid.
    fn seal(&mut self, block: u32) {
        let valid = self.valid[block as usize];
        if valid == 0 {
            self.set_free(block);
            return;
        }
        let last = std::mem::replace(&mut self.last[valid as usize], block);
        (self.before[block as usize], self.behind[block as usize]) = (last, NONE);
        match last {
            NONE => self.first[valid as usize] = block,
            last => self.behind[last as usize] = block,
        }
        self.fewest = self.fewest.min(valid);
    }

    fn take_out(&mut self, block: u32) {
        let valid = self.valid[block as usize] as usize;
        let (before, behind) = (self.before[block as usize], self.behind[block as usize]);
        match before {
            NONE => self.first[valid] = behind,
            before => self.behind[before as usize] = behind,
        }
        match behind {
            NONE => self.last[valid] = before,
            behind => self.before[behind as usize] = before,
        }
    }

    /// Copies what is valid of the block with the least of it, which is free then.
    fn collect(&mut self) {
        while self.first[self.fewest as usize] == NONE {
            self.fewest += 1;
        }
        let valid = self.fewest;
        let block = self.first[valid as usize];
        self.take_out(block);
        for slot in block * self.per_block..(block + 1) * self.per_block {
            let page = std::mem::replace(&mut self.page_in[slot as usize], NONE);
            if page == NONE {
                continue;
            }
            if self.copies.next == self.copies.end {
                self.seal_open(self.copies);
                self.copies = self.open();
            }
            self.put(self.copies.next, page);
            self.copies.next += 1;
        }
        self.copied += u64::from(valid);
        self.valid[block as usize] = 0;
        self.set_free(block);
    }

    fn set_free(&mut self, block: u32) {
        self.free.push(block);
        self.reuses = true;
    }

    /// The host's next block was opened.
    fn set_amplification(&mut self) {
        let place = (self.opened % WINDOW as u64) as usize;
        let before = std::mem::replace(&mut self.copied_by[place], self.copied);
        self.opened += 1;
        let blocks = self.opened.min(WINDOW as u64) * u64::from(self.per_block);
        self.amplification = 1.0 + (self.copied - before) as f64 / blocks as f64;
    }
}

/// The share of a block that is valid when it is collected, in the mean field for blocks of many pages; by
/// bisection, for valid data on this share of the flash.
fn collected_at(valid: f64) -> f64 {
    let (mut low, mut high) = (1e-9_f64, 1.0 - 1e-9);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let holds = (1.0 - middle) / (1.0 / middle).ln();
        if holds < valid { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests;
