//! What logs of space maps have and metaslabs' own maps don't: kept in memory, and which maps are to be brought up to date.
//!
//! ```text
//!   group N   log N begins ── some metaslabs are flushed ── logs that nobody needs go ── what N changes goes into log N
//! ```
//!
//! A metaslab has a *number*, the first group whose changes its own map doesn't have (0: it is in no log yet), and a *net*: what changed
//! since, as the difference of what is allocated. *Flushing* it in N puts the net into its map; its number is N from there on.
//!
//! **Rules.**
//!
//! 1. A number's log is there. OpenZFS doesn't open a pool otherwise.
//! 2. What is allocated in a metaslab is what its own map says, and after it what the logs from its number on say of it.
//!    So a metaslab is flushed before anything of its group is logged.
//! 3. A log is needed as long as a number is its own or an earlier one; then it goes, in the same group as the last flush that it
//!    waited for.
//! 4. One whose net is empty needs no flush, whatever logs say of it: it gets a new number, and its map is left alone. But not once the
//!    group's own log speaks of it, for that is carried out from there on: what earlier passes said, too.
//!
//! **How many are flushed.** The oldest first, in a circle. While a circle lasts, logs are kept; they are few enough when a circle takes
//! no more groups than logs may be there ([`LOGS_MAX`]), and no more than fill the blocks that logs may have, at the rate of the last
//! few groups. That many metaslabs are *owed* each group, in thousandths, so that a pool of which only little changes flushes one now
//! and then. What bursts are is not foreseen: as long as a bound is overstepped, one more is flushed. So the logs are within their
//! bounds, but for what one group logs, whatever comes.
//!
//! The bounds on blocks are OpenZFS's. It keeps up to 1000 logs; here there are fewer, because who opens a pool after a crash reads
//! each of them, and a disk reads a hundred or so places a second.
//!
//! Source: OpenZFS, `spa_log_spacemap.c`, `metaslab.c` (`metaslab_flush`, `metaslab_unflushed_bump`); how many are flushed is ours.

use super::allocator::Changes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stdx::planted::{self, Bug};
use zfs_format::space_map::Change;

/// Logs at the most.
pub const LOGS_MAX: usize = 128;
/// Blocks of all logs at the most: so many for each metaslab with changes, within bounds.
const BLOCKS_A_SLAB: u64 = 4;
const BLOCKS_BOUNDS: (u64, u64) = (1000, 1 << 17);
/// Stretches of all nets at the most: some tens of MiB.
const STRETCHES_MAX: usize = 1 << 20;
/// Logs from which the rate of blocks is taken.
const RECENT: usize = 5;
/// What one metaslab counts in what is owed.
const ONE: u64 = 1000;

/// A metaslab: its vdev, and which of it.
pub type SlabKey = (u32, usize);

/// What logs have and maps don't. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Unflushed {
    slabs: BTreeMap<SlabKey, Behind>,
    by_number: BTreeSet<(u64, SlabKey)>,
    /// Metaslabs whose net is not empty.
    changed: usize,
    /// Stretches of all nets.
    stretches: usize,
    logs: BTreeMap<u64, Log>,
    owed: u64,
}

/// A metaslab that logs speak of.
#[derive(Clone, Debug, Default)]
struct Behind {
    number: u64,
    net: Changes,
    /// The last group whose log speaks of it, since the pool is open.
    logged: u64,
}

/// A log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The transaction group whose changes it has.
    pub txg: u64,
    /// Its object.
    pub object: u64,
    /// How many blocks it takes.
    pub blocks: u64,
}

/// A damaged pool may have logs of any length.
fn sum(blocks: impl Iterator<Item = u64>) -> u64 {
    blocks.fold(0, u64::saturating_add)
}

impl Behind {
    fn is_changed(&self) -> bool {
        !(self.net.allocated.is_empty() && self.net.freed.is_empty())
    }

    fn stretches(&self) -> usize {
        self.net.allocated.len() + self.net.freed.len()
    }
}

impl Unflushed {
    /// A log that is there.
    pub fn add_log(&mut self, log: Log) {
        let before = self.logs.insert(log.txg, log);
        assert!(before.is_none(), "one log a group");
    }

    /// A metaslab has a number. Says whether its log is there.
    pub fn add_slab(&mut self, slab: SlabKey, number: u64) -> bool {
        self.set_number(slab, number);
        self.logs.contains_key(&number)
    }

    /// The log of a group says something of a metaslab that its map doesn't have. Logs are gone through in order.
    pub fn note(&mut self, txg: u64, slab: SlabKey, change: Change, range: Range<u64>) {
        if !self.slabs.contains_key(&slab) {
            self.set_number(slab, txg);
        }
        self.change(slab, |net| net.note(change, range));
    }

    /// The logs, in the order of their groups.
    pub fn logs(&self) -> impl Iterator<Item = &Log> {
        self.logs.values()
    }

    /// Whether a group has its log.
    pub fn has_log(&self, txg: u64) -> bool {
        self.logs.contains_key(&txg)
    }

    /// What of a metaslab its map doesn't have.
    pub fn net(&self, slab: SlabKey) -> Option<&Changes> {
        self.slabs.get(&slab).map(|behind| &behind.net)
    }

    /// The group that syncs has a log from here on, and so many metaslabs are owed; all of them, if `all`.
    pub fn begin(&mut self, txg: u64, object: u64, all: bool) {
        assert!(self.logs.keys().all(|before| *before < txg), "groups come one after the other");
        let recent: Vec<u64> =
            self.logs.values().rev().take(RECENT).map(|log| log.blocks).collect();
        let rate = sum(recent.iter().copied()).div_ceil(recent.len().max(1) as u64);
        let changed = self.changed as u64 * ONE;
        let by_blocks = changed.saturating_mul(rate) / self.blocks_max();
        self.owed = match all {
            true => u64::MAX,
            false => self.owed.saturating_add(by_blocks.max(changed / LOGS_MAX as u64)),
        };
        self.add_log(Log { txg, object, blocks: 0 });
    }

    fn blocks_max(&self) -> u64 {
        let (least, most) = BLOCKS_BOUNDS;
        (self.changed as u64 * BLOCKS_A_SLAB).clamp(least, most)
    }

    /// Logs that a metaslab needs, and that of the group that syncs.
    fn needed(&self, txg: u64) -> impl Iterator<Item = &Log> {
        let first = self.by_number.first().map_or(txg, |(number, _)| *number);
        self.logs.range(first..).map(|(_, log)| log)
    }

    /// Whether a bound is overstepped.
    fn is_over(&self, txg: u64) -> bool {
        let blocks = sum(self.needed(txg).map(|log| log.blocks));
        self.needed(txg).count() > LOGS_MAX
            || blocks > self.blocks_max()
            || self.stretches > STRETCHES_MAX
    }

    /// A metaslab that is to be flushed in the group that syncs, with its net; nothing once it is enough.
    pub fn next_due(&mut self, txg: u64) -> Option<(SlabKey, Changes)> {
        let Some((number, slab)) = self.by_number.first().copied() else {
            self.owed = 0;
            return None;
        };
        if number == txg {
            // All have been.
            self.owed = 0;
            return None;
        }
        if self.owed < ONE && !self.is_over(txg) {
            return None;
        }
        assert!(number < txg, "nobody is ahead of the group that syncs");
        let mut net = Changes::default();
        self.change(slab, |behind| net = std::mem::take(behind));
        if !(net.allocated.is_empty() && net.freed.is_empty()) && self.owed != u64::MAX {
            self.owed = self.owed.saturating_sub(ONE);
        }
        self.set_number(slab, txg);
        Some((slab, net))
    }

    /// Logs that nobody needs any more, which whoever asks does away with.
    pub fn take_needless(&mut self, txg: u64) -> Vec<Log> {
        let first = self.by_number.first().map_or(txg, |(number, _)| *number);
        let is_early = planted::is(Bug::MapLogGoneEarly) && first < txg;
        let kept = self.logs.split_off(&if is_early { first + 1 } else { first });
        std::mem::replace(&mut self.logs, kept).into_values().collect()
    }

    /// What changed in a metaslab goes into the log of the group that syncs. Says whether it has another number from here on.
    pub fn log(&mut self, txg: u64, slab: SlabKey, changes: &Changes) -> bool {
        assert!(self.has_log(txg), "the group has a log");
        let is_new = match self.slabs.get(&slab) {
            Some(behind) => behind.number != txg && behind.logged != txg && !behind.is_changed(),
            None => true,
        };
        if is_new {
            self.set_number(slab, txg);
        }
        self.slabs.entry(slab).or_default().logged = txg;
        self.change(slab, |net| {
            for (change, set) in
                [(Change::Allocate, &changes.allocated), (Change::Free, &changes.freed)]
            {
                set.iter().for_each(|range| net.note(change, range));
            }
        });
        is_new
    }

    /// How many blocks the log of the group that syncs takes.
    pub fn set_blocks(&mut self, txg: u64, blocks: u64) {
        self.logs.get_mut(&txg).expect("the group has a log").blocks = blocks;
    }

    /// Each number's log is there.
    ///
    /// # Panics
    /// That is our bug.
    pub fn assert_whole(&self) {
        let mut last = 0;
        for (number, slab) in &self.by_number {
            if *number != last {
                assert!(self.logs.contains_key(number), "{slab:?} needs log {number}");
                last = *number;
            }
        }
    }

    fn change(&mut self, slab: SlabKey, how: impl FnOnce(&mut Changes)) {
        let behind = self.slabs.entry(slab).or_default();
        self.changed -= usize::from(behind.is_changed());
        self.stretches -= behind.stretches();
        how(&mut behind.net);
        self.changed += usize::from(behind.is_changed());
        self.stretches += behind.stretches();
    }

    fn set_number(&mut self, slab: SlabKey, number: u64) {
        let behind = self.slabs.entry(slab).or_default();
        self.by_number.remove(&(behind.number, slab));
        behind.number = number;
        self.by_number.insert((number, slab));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    const SLABS: u64 = 40;
    const STRIDE: u64 = 6;

    fn one(range: Range<u64>, is_taken: bool) -> Changes {
        let mut changes = Changes::default();
        changes.note(if is_taken { Change::Allocate } else { Change::Free }, range);
        changes
    }

    /// Groups that change metaslabs at random, beside plain maps and logs: what is allocated is at any time what the maps and the logs
    /// say, as who opens the pool takes them together. What could break: a log that goes too early, a net that forgets, bounds that
    /// are not kept, a metaslab that is never flushed.
    fn groups(seed: u64, slabs: u64, a_group: u64, blocks: u64) -> usize {
        let mut random = Prng::new(seed);
        let mut unflushed = Unflushed::default();
        let mut now: BTreeMap<SlabKey, stdx::RangeSet> = BTreeMap::new();
        let mut maps: BTreeMap<SlabKey, (u64, stdx::RangeSet)> = BTreeMap::new();
        let mut logs: BTreeMap<u64, Vec<(SlabKey, Changes)>> = BTreeMap::new();
        let mut flushes = 0;
        for txg in 5..600 {
            unflushed.begin(txg, txg, false);
            logs.insert(txg, Vec::new());
            while let Some((slab, net)) = unflushed.next_due(txg) {
                let (number, map) = maps.get_mut(&slab).expect("it was changed before");
                flushes += usize::from(!(net.allocated.is_empty() && net.freed.is_empty()));
                for range in net.freed.iter() {
                    map.remove(range);
                }
                for range in net.allocated.iter() {
                    map.insert(range);
                }
                *number = txg;
            }
            for gone in unflushed.take_needless(txg) {
                logs.remove(&gone.txg).expect("it was there");
            }
            for _ in 0..a_group {
                let slab = (0, random.below(slabs) as usize);
                let at = random.below(STRIDE);
                let set = now.entry(slab).or_default();
                let is_taken = !set.contains(at);
                let changes = one(at..at + 1, is_taken);
                if is_taken {
                    set.insert(at..at + 1)
                } else {
                    set.remove(at..at + 1)
                };
                if unflushed.log(txg, slab, &changes) {
                    maps.entry(slab).or_default().0 = txg;
                }
                logs.get_mut(&txg).expect("it is there").push((slab, changes));
            }
            unflushed.set_blocks(txg, blocks);
            unflushed.assert_whole();
            assert_eq!(
                unflushed.logs().map(|log| log.txg).collect::<Vec<_>>(),
                logs.keys().copied().collect::<Vec<_>>()
            );
            assert!(logs.len() <= LOGS_MAX, "{} logs", logs.len());
            let most = (slabs * BLOCKS_A_SLAB).max(BLOCKS_BOUNDS.0) + blocks;
            assert!(unflushed.logs().map(|log| log.blocks).sum::<u64>() <= most);
            let mut found: BTreeMap<SlabKey, stdx::RangeSet> =
                maps.iter().map(|(slab, (_, map))| (*slab, map.clone())).collect();
            for (of, entries) in &logs {
                for (slab, changes) in entries.iter().filter(|(slab, _)| maps[slab].0 <= *of) {
                    let set = found.get_mut(slab).expect("it is known");
                    let takes = |range: Range<u64>| range.end - range.start;
                    changes
                        .allocated
                        .iter()
                        .for_each(|r| assert_eq!(set.insert(r.clone()), takes(r)));
                    changes.freed.iter().for_each(|r| assert_eq!(set.remove(r.clone()), takes(r)));
                }
            }
            assert!(found == now, "group {txg}");
        }
        flushes
    }

    #[test]
    fn maps_and_logs_say_together_what_is_allocated_and_logs_stay_few() {
        // Much is owed where groups are large, little where one metaslab changes.
        let many = groups(1, SLABS, 60, 90);
        let few = groups(2, SLABS, 60, 1);
        let single = groups(3, 1, 3, 1);
        assert!(many > 2 * few && few > 100, "{many} and {few} flushes");
        assert!(single < 12, "{single} flushes of one metaslab in 600 groups");
    }

    #[test]
    fn all_are_flushed_where_that_is_asked_for_and_one_log_is_left() {
        let mut unflushed = Unflushed::default();
        for txg in 5..20 {
            unflushed.begin(txg, txg, false);
            while unflushed.next_due(txg).is_some() {}
            unflushed.log(txg, (0, txg as usize), &one(txg..txg + 1, true));
            unflushed.set_blocks(txg, 1);
        }
        unflushed.begin(20, 20, true);
        let flushed = std::iter::from_fn(|| unflushed.next_due(20)).count();
        assert_eq!((flushed, unflushed.take_needless(20).len()), (15, 15));
        assert_eq!(unflushed.logs().map(|log| log.txg).collect::<Vec<_>>(), [20]);
        unflushed.assert_whole();
        // What is owed is not owed for ever.
        unflushed.log(20, (0, 5), &one(7..8, true));
        unflushed.begin(21, 21, false);
        assert_eq!(unflushed.next_due(21), None);
    }

    #[test]
    fn what_a_burst_brings_is_flushed_whatever_was_owed() {
        let mut unflushed = Unflushed::default();
        for txg in 5..8 {
            unflushed.begin(txg, txg, false);
            while unflushed.next_due(txg).is_some() {}
            unflushed.take_needless(txg);
            for slab in 0..30 {
                unflushed.log(txg, (1, slab), &one(txg..txg + 1, true));
            }
            unflushed.set_blocks(txg, 700);
        }
        unflushed.begin(8, 8, false);
        while unflushed.next_due(8).is_some() {}
        unflushed.take_needless(8);
        let blocks: u64 = unflushed.logs().map(|log| log.blocks).sum();
        assert!(blocks <= BLOCKS_BOUNDS.0, "{blocks} blocks");
    }

    #[test]
    fn one_whose_net_is_empty_gets_a_number_and_no_flush() {
        let mut unflushed = Unflushed::default();
        unflushed.begin(5, 1, false);
        assert!(unflushed.log(5, (0, 3), &one(0..9, true)));
        assert!(!unflushed.log(5, (0, 3), &one(0..9, false)));
        unflushed.begin(6, 2, true);
        assert_eq!(unflushed.next_due(6), Some(((0, 3), Changes::default())));
        assert_eq!(unflushed.next_due(6), None);
        // One that is changed again needs what is logged from now on only.
        unflushed.begin(7, 3, false);
        assert!(unflushed.log(7, (0, 3), &one(0..9, true)));
        assert_eq!(unflushed.take_needless(7).len(), 2);
    }

    /// What could break: a number in the middle of a group, from which the group's log is carried out that frees what only an
    /// earlier log has.
    #[test]
    fn one_whose_net_becomes_empty_within_a_group_keeps_its_number_until_the_next() {
        let mut unflushed = Unflushed::default();
        unflushed.begin(5, 1, false);
        assert!(unflushed.log(5, (0, 3), &one(0..9, true)));
        unflushed.begin(6, 2, false);
        assert!(!unflushed.log(6, (0, 3), &one(0..9, false)));
        assert!(!unflushed.log(6, (0, 3), &one(20..30, true)), "in a later pass");
        assert!(!unflushed.log(6, (0, 3), &one(20..30, false)));
        unflushed.begin(7, 3, false);
        assert!(unflushed.log(7, (0, 3), &one(20..30, true)));
    }

    #[test]
    fn a_number_without_its_log_is_known() {
        let mut unflushed = Unflushed::default();
        unflushed.add_log(Log { txg: 9, object: 1, blocks: 1 });
        assert!(unflushed.add_slab((0, 0), 9) && !unflushed.add_slab((0, 1), 8));
    }
}
