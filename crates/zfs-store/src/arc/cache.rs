//! Which blocks stay: adaptive replacement, as plain values without tasks.
//!
//! **Lists.** *MRU* holds what was asked for once of late, *MFU* what was asked for again. Each has a *ghost* list
//! behind it: the keys of blocks that left it. A miss that finds its key among MRU's ghosts says that MRU is too
//! small; among MFU's ghosts, that MFU is. So the target size of MRU moves, and the cache fits itself to the load:
//! a scan through a large file passes through MRU and leaves MFU alone.
//!
//! **Rules.**
//!
//! 1. Asking again counts only after [`AGAIN_AFTER`]: what is read piece by piece was asked for once.
//! 2. What was read ahead and not asked for yet is on a list of its own, and leaves first, without a ghost: guesses
//!    must not drive out what was wanted. But a share of the cache ([`PREFETCHED_SHARE`]) is theirs, or a full
//!    cache would drop each one before it is asked for.
//! 3. Metadata (all but the content of files and volumes) has a floor: below it data leaves first. Above it age
//!    decides.
//! 4. A hit leaves a mark instead of moving the entry to the front: what is marked moves there when it would have
//!    to leave. So a hit touches one entry, not its neighbours in the list, and takes half as long in a large
//!    cache.
//! 5. MRU and its ghosts together are no larger than the cache, all lists together twice that. An entry counts as its
//!    bytes and [`ENTRY_BYTES`], so small blocks can't make the lists long for nothing.
//!
//! Source: N. Megiddo and D. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache" (FAST 2003), with sizes
//! for counts; the fourth rule from S. Bansal and D. Modha, "CAR: Clock with Adaptive Replacement" (FAST 2004); the
//! first two as in OpenZFS's `arc.c`.

use super::index::{Index, Key};
use rt::Buf;
use slab::Slab;
use std::time::Duration;
use stdx::Instant;

/// A block that is asked for again sooner was asked for once.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(62);
/// The part of the cache that blocks read ahead may have before they leave first: one in so many.
pub(super) const PREFETCHED_SHARE: u64 = 16;
/// What an entry takes beside its bytes.
pub(super) const ENTRY_BYTES: u64 = 160;
/// No entry.
const NONE: u32 = u32::MAX;

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Prefetched,
    Mru,
    Mfu,
    MruGhost,
    MfuGhost,
}

const PLACES: usize = 5;
/// Data and metadata have a list each in every place.
const KINDS: usize = 2;

struct Entry {
    key: Key,
    /// Nothing for a ghost.
    block: Option<Buf>,
    charge: u64,
    metadata: bool,
    place: Place,
    touched: Instant,
    /// Asked for since it came to its place: it stays a round longer.
    referenced: bool,
    /// Grows with each use; tells which of two lists' ends is older.
    age: u64,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    bytes: u64,
}

/// Counts of what happened; sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArcStatistics {
    /// Blocks that were asked for and were there.
    pub hits: u64,
    /// Hits on blocks that were asked for once of late.
    pub mru_hits: u64,
    /// Hits on blocks that were asked for more often.
    pub mfu_hits: u64,
    /// Hits on blocks that had been read ahead.
    pub prefetched_hits: u64,
    /// Blocks that were asked for and were not there.
    pub misses: u64,
    /// Misses of blocks that had left MRU not long ago.
    pub mru_ghost_hits: u64,
    /// Misses of blocks that had left MFU not long ago.
    pub mfu_ghost_hits: u64,
    /// Requests that waited for a read under way.
    pub joined: u64,
    /// Blocks that left.
    pub evicted: u64,
    /// Blocks that were read ahead and left before anybody asked for them.
    pub prefetched_in_vain: u64,
    /// Bytes of all blocks that are there, with what an entry takes.
    pub bytes: u64,
    /// Of that, metadata.
    pub metadata_bytes: u64,
    /// Of all, in MRU.
    pub mru_bytes: u64,
    /// Of all, in MFU.
    pub mfu_bytes: u64,
    /// What MRU should have.
    pub mru_target_bytes: u64,
    /// What all may have.
    pub bytes_max: u64,
}

/// See the [module](self).
pub(super) struct Cache {
    entries: Slab<Entry>,
    index: Index,
    lists: [[List; KINDS]; PLACES],
    bytes_max: u64,
    metadata_floor: u64,
    mru_target: u64,
    uses: u64,
    pub(super) counts: ArcStatistics,
}

impl Cache {
    pub(super) fn new(bytes_max: u64, metadata_floor: u64) -> Cache {
        let list = List { newest: NONE, oldest: NONE, bytes: 0 };
        Cache {
            entries: Slab::new(),
            index: Index::default(),
            lists: [[list; KINDS]; PLACES],
            bytes_max,
            metadata_floor,
            mru_target: bytes_max / 2,
            uses: 0,
            counts: ArcStatistics::default(),
        }
    }

    fn find(&self, key: &Key) -> Option<u32> {
        self.index.find(key, |number| self.entries[number as usize].key)
    }

    /// The block, if it is there; asking counts.
    pub(super) fn get(&mut self, key: &Key, now: impl FnOnce() -> Instant) -> Option<Buf> {
        let number = self.find(key)?;
        let entry = &mut self.entries[number as usize];
        let block = entry.block.clone()?;
        self.counts.hits += 1;
        match entry.place {
            Place::Mru => {
                self.counts.mru_hits += 1;
                if now().since(entry.touched) < AGAIN_AFTER {
                    entry.referenced = true;
                } else {
                    self.unlink(number);
                    self.link(number, Place::Mfu);
                }
            }
            Place::Prefetched => {
                self.counts.prefetched_hits += 1;
                entry.touched = now();
                self.unlink(number);
                self.link(number, Place::Mru);
            }
            _ => {
                self.counts.mfu_hits += 1;
                entry.referenced = true;
            }
        }
        Some(block)
    }

    /// Keeps a block that was read.
    pub(super) fn insert(
        &mut self,
        key: Key,
        block: Buf,
        metadata: bool,
        ahead: bool,
        now: Instant,
    ) {
        let charge = block.len() as u64 + ENTRY_BYTES;
        if charge > self.bytes_max {
            return;
        }
        let mut place = if ahead { Place::Prefetched } else { Place::Mru };
        if let Some(number) = self.find(&key) {
            match self.entries[number as usize].place {
                Place::MruGhost => {
                    self.counts.mru_ghost_hits += 1;
                    let step = charge * self.ratio(Place::MfuGhost, Place::MruGhost);
                    self.mru_target = (self.mru_target + step).min(self.bytes_max);
                    place = if ahead { Place::Mru } else { Place::Mfu };
                }
                Place::MfuGhost => {
                    self.counts.mfu_ghost_hits += 1;
                    let step = charge * self.ratio(Place::MruGhost, Place::MfuGhost);
                    self.mru_target = self.mru_target.saturating_sub(step);
                    place = Place::Mfu;
                }
                live => place = live,
            }
            self.remove(number);
        }
        self.make_room(charge);
        assert!(
            self.live_bytes() + charge <= self.bytes_max,
            "what is kept has room, or was refused"
        );
        let (age, newer, older, referenced) = (0, NONE, NONE, false);
        let entry = Entry {
            key,
            block: Some(block),
            charge,
            metadata,
            place,
            touched: now,
            referenced,
            age,
            newer,
            older,
        };
        let number = self.entries.insert(entry) as u32;
        self.link(number, place);
        let entries = &self.entries;
        self.index.insert(&key, number, |number| entries[number as usize].key);
        self.trim_ghosts();
    }

    /// Changes the size.
    pub(super) fn resize(&mut self, bytes_max: u64, metadata_floor: u64) {
        self.bytes_max = bytes_max;
        self.metadata_floor = metadata_floor;
        self.mru_target = self.mru_target.min(bytes_max);
        self.make_room(0);
        self.trim_ghosts();
    }

    pub(super) fn statistics(&self) -> ArcStatistics {
        let bytes = |place| self.bytes(place);
        let live = [Place::Prefetched, Place::Mru, Place::Mfu];
        ArcStatistics {
            bytes: live.into_iter().map(bytes).sum(),
            metadata_bytes: live.into_iter().map(|p| self.lists[p as usize][1].bytes).sum(),
            mru_bytes: bytes(Place::Mru),
            mfu_bytes: bytes(Place::Mfu),
            mru_target_bytes: self.mru_target,
            bytes_max: self.bytes_max,
            ..self.counts
        }
    }

    fn bytes(&self, place: Place) -> u64 {
        self.lists[place as usize].iter().map(|list| list.bytes).sum()
    }

    fn live_bytes(&self) -> u64 {
        self.bytes(Place::Prefetched) + self.bytes(Place::Mru) + self.bytes(Place::Mfu)
    }

    /// How many times larger one list is than another, one at the least.
    fn ratio(&self, one: Place, other: Place) -> u64 {
        (self.bytes(one) / self.bytes(other).max(1)).max(1)
    }

    /// Lets blocks go until so many bytes have room.
    fn make_room(&mut self, charge: u64) {
        while self.live_bytes() + charge > self.bytes_max {
            let ahead = self.bytes(Place::Prefetched);
            let (mru, mfu) = (self.bytes(Place::Mru), self.bytes(Place::Mfu));
            let place = if ahead > self.bytes_max / PREFETCHED_SHARE || mru + mfu == 0 {
                Place::Prefetched
            } else if mfu == 0 || mru > 0 && mru + charge > self.mru_target {
                Place::Mru
            } else {
                Place::Mfu
            };
            let Some(number) = self.victim(place) else { return };
            // Each mark was left by a hit, so these rounds are no more than hits.
            if self.entries[number as usize].referenced {
                self.unlink(number);
                self.link(number, place);
                continue;
            }
            self.counts.evicted += 1;
            match place {
                Place::Mru => self.turn_to_ghost(number, Place::MruGhost),
                Place::Mfu => self.turn_to_ghost(number, Place::MfuGhost),
                _ => {
                    self.counts.prefetched_in_vain += 1;
                    self.remove(number);
                }
            }
        }
    }

    /// Which one of a place leaves.
    fn victim(&self, place: Place) -> Option<u32> {
        let [data, metadata] = self.lists[place as usize].map(|list| list.oldest);
        let age = |number: u32| self.entries[number as usize].age;
        let all = [Place::Prefetched, Place::Mru, Place::Mfu];
        let low = all.into_iter().map(|place| self.lists[place as usize][1].bytes).sum::<u64>()
            <= self.metadata_floor;
        match (data, metadata) {
            (NONE, NONE) => None,
            (number, NONE) | (NONE, number) => Some(number),
            (data, _) if low => Some(data),
            (data, metadata) => Some(if age(data) < age(metadata) { data } else { metadata }),
        }
    }

    fn turn_to_ghost(&mut self, number: u32, place: Place) {
        self.unlink(number);
        self.entries[number as usize].block = None;
        self.link(number, place);
    }

    fn trim_ghosts(&mut self) {
        loop {
            let (mru, ghosts) = (self.bytes(Place::Mru), self.bytes(Place::MruGhost));
            let all = self.live_bytes() + ghosts + self.bytes(Place::MfuGhost);
            let place = if ghosts > 0 && mru + ghosts > self.bytes_max {
                Place::MruGhost
            } else if all > 2 * self.bytes_max {
                Place::MfuGhost
            } else {
                return;
            };
            let Some(number) = self.victim(place) else { return };
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u32) {
        self.unlink(number);
        let entries = &self.entries;
        let key = entries[number as usize].key;
        self.index.remove(&key, |number| entries[number as usize].key);
        self.entries.remove(number as usize);
    }

    /// Puts an entry in front of a list.
    fn link(&mut self, number: u32, place: Place) {
        self.uses += 1;
        let entry = &mut self.entries[number as usize];
        let list = &mut self.lists[place as usize][usize::from(entry.metadata)];
        (entry.place, entry.age, entry.referenced) = (place, self.uses, false);
        (entry.newer, entry.older) = (NONE, list.newest);
        list.bytes += entry.charge;
        let before = std::mem::replace(&mut list.newest, number);
        match before {
            NONE => list.oldest = number,
            before => self.entries[before as usize].newer = number,
        }
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, number: u32) {
        let entry = &self.entries[number as usize];
        let (newer, older, charge) = (entry.newer, entry.older, entry.charge);
        let list = &mut self.lists[entry.place as usize][usize::from(entry.metadata)];
        assert!(list.bytes >= charge, "a list has the bytes of its entries");
        list.bytes -= charge;
        match newer {
            NONE => list.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests;
