//! The write-intent bitmap of a set that is open for writing: which bits must stand on the members, and which
//! may go.
//!
//! 1. A bit is set, on every member, before a write to its stretch begins ([`Intent::begin`]). Writes that find
//!    it set and durable go on at once.
//! 2. It is cleared some time after the last write to its stretch has ended ([`Intent::quiet`]), when all members
//!    have it: none is lost or being filled, and a flush came between. So a member that was away needs only the
//!    stretches whose bits are set, and a power cut makes only those suspect.
//! 3. Before any bit goes, `events_cleared` says on disk as of which event: a member that is older than that
//!    can't be caught up by the bitmap.
//! 4. Bits of a set that was not stopped cleanly stay until its resync has passed them
//!    ([`Intent::right_before`]).
//!
//! This holds the bits and says what is to be written; the [keeper](super::keeper) writes, one change after
//! another. Bits are written in pages of [`PAGE`], as md does; the last one ends with a block of the device, since
//! the data may begin there.
//!
//! When a set is opened the copies of its members are joined: where they differ a bit was being set or cleared
//! on all, and to keep it is right in both cases. A copy that is older than the superblocks (something wrote to
//! the set and did not know the bitmap) does not count; where all are, every bit is set, and so in a set whose members
//! were taken back by force, where nobody that is away now comes back by it.

use crate::array::{Array, Engine};
use crate::assemble::{AssembleError, Choice, Superblock, bitmap};
use crate::member::RANGES_MAX;
use crate::raid1::Mirror;
use crate::spec::Level;
use crate::superblock::bitmap::{
    self as format, BitmapSuperblock, Bits, STATE_STALE, SUPERBLOCK_BYTES,
};
use crate::superblock::{Features, SECTOR};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use stdx::{ByteCount, Instant, RangeSet};

/// Bytes of the bitmap that are written together.
const PAGE: u64 = 4096;

/// So often bits are looked through that may go, where the bitmap does not say: mdadm's.
const CLEAR_EVERY_DEFAULT: Duration = Duration::from_secs(5);

/// The longest such pause that is believed: an hour. Bits that stay longer help nobody.
const CLEAR_EVERY_MAX: Duration = Duration::from_secs(3600);

/// Writes to a stretch.
#[derive(Clone, Copy)]
struct Busy {
    in_flight: u32,
    last: Instant,
}

/// See the [module](self).
pub(super) struct Intent {
    superblock: RefCell<BitmapSuperblock>,
    bits: RefCell<Bits>,
    /// Set bits that are not on disk yet.
    pending: RefCell<BTreeSet<u64>>,
    /// Pages that say something else than those on disk.
    changed: RefCell<BTreeSet<u64>>,
    /// Stretches with writes under way, or some since bits were looked through. As many as set bits.
    busy: RefCell<BTreeMap<u64, Busy>>,
    /// Bits whose stretches a resync has to pass first.
    needed: RefCell<Bits>,
    /// Some copy on disk may say something else in any page.
    copies_differ: Cell<bool>,
}

/// Pages to be written, and what they make durable.
pub(super) struct Pages {
    /// Each page's place in the bitmap, and its bytes.
    pub(super) pieces: Vec<(u64, Vec<u8>)>,
    pages: BTreeSet<u64>,
    pending: BTreeSet<u64>,
}

impl Intent {
    /// The bitmap of a set; none where it has none. `dirty` is a set that was not stopped cleanly.
    ///
    /// # Errors
    /// Where no member has one that can be read, or it is of another size than the set.
    pub(super) async fn of(choice: &Choice, dirty: bool) -> Result<Option<Intent>, AssembleError> {
        let facts = &choice.facts;
        if !facts.features().has(Features::BITMAP) {
            return Ok(None);
        }
        let (mut copies, mut first_error) = (Vec::new(), None);
        let whole = |found: &&crate::assemble::Found| found.superblock.recovery_offset().is_none();
        for found in choice.slots.iter().flatten().filter(whole) {
            match bitmap(found).await {
                Ok(copy) => copies.extend(copy),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let newest = copies.iter().max_by_key(|(superblock, _)| superblock.events);
        let Some((mut superblock, mut bits)) = newest.cloned() else {
            let what = "a write-intent bitmap that no whole member has";
            let none = AssembleError::Unsupported { set: choice.set, what };
            return Err(first_error.unwrap_or(none));
        };
        if superblock.sync_sectors < sync_sectors(choice) {
            let what = "a write-intent bitmap that is smaller than the set";
            return Err(AssembleError::Unsupported { set: choice.set, what });
        }
        // It is written to all of them.
        let sectors = superblock.total_bytes().div_ceil(SECTOR);
        for found in choice.taking_part() {
            if let Superblock::V1(own) = &found.superblock
                && own.bitmap_offset().is_some_and(|at| !own.is_beside(at.into(), sectors))
            {
                return Err(AssembleError::BitmapSpace { device: found.name() });
            }
        }
        let same_form = |other: &BitmapSuperblock| {
            (other.sync_sectors, other.chunk_bytes)
                == (superblock.sync_sectors, superblock.chunk_bytes)
        };
        let fresh = |other: &BitmapSuperblock| {
            other.events >= facts.events() && other.state & STATE_STALE == 0 && same_form(other)
        };
        let mut any_fresh = false;
        // Of members that were taken back nobody knows what they missed.
        let counts = |other: &BitmapSuperblock| fresh(other) && !choice.is_forced();
        for (_, other) in copies.iter().filter(|(other, _)| counts(other)) {
            bits.join(other);
            any_fresh = true;
        }
        if !any_fresh {
            bits = Bits::new(superblock.bits(), true);
            superblock.events_cleared = facts.events() + u64::from(choice.is_forced());
        }
        // Whether what would be written is what all whole members have.
        let whole_members = choice.slots.iter().flatten().filter(whole).count();
        let same = |(other, its_bits): &&(BitmapSuperblock, Bits)| {
            (other.events, other.events_cleared) == (superblock.events, superblock.events_cleared)
                && *its_bits == bits
        };
        let copies_differ =
            choice.is_forced() || copies.iter().filter(same).count() < whole_members;
        superblock.state = 0;
        let none = || Bits::new(bits.count(), false);
        let needed = if dirty { bits.clone() } else { none() };
        Ok(Some(Intent {
            superblock: RefCell::new(superblock),
            needed: RefCell::new(needed),
            bits: RefCell::new(bits),
            pending: RefCell::default(),
            changed: RefCell::default(),
            busy: RefCell::default(),
            copies_differ: Cell::new(copies_differ),
        }))
    }

    /// How long after each other bits are looked through that may go.
    pub(super) fn clear_every(&self) -> Duration {
        match self.superblock.borrow().daemon_sleep_s {
            0 => CLEAR_EVERY_DEFAULT,
            seconds => Duration::from_secs(u64::from(seconds)).min(CLEAR_EVERY_MAX),
        }
    }

    fn bits_of(&self, range: &Range<u64>) -> Range<u64> {
        let chunk = u64::from(self.superblock.borrow().chunk_bytes);
        let bits = range.start / chunk..range.end.div_ceil(chunk);
        bits.start..bits.end.min(self.bits.borrow().count())
    }

    fn page_of(bit: u64) -> u64 {
        (SUPERBLOCK_BYTES as u64 + bit / 8) / PAGE
    }

    /// A write to a range comes. True where all its bits are durable already.
    pub(super) fn begin(&self, range: &Range<u64>, now: Instant) -> bool {
        let mut durable = true;
        for bit in self.bits_of(range) {
            let idle = Busy { in_flight: 0, last: now };
            self.busy.borrow_mut().entry(bit).or_insert(idle).in_flight += 1;
            if !self.bits.borrow().get(bit) {
                self.set(bit);
            }
            durable &= !self.pending.borrow().contains(&bit);
        }
        durable
    }

    /// Whether all bits of a range stand on the members.
    pub(super) fn is_durable(&self, range: &Range<u64>) -> bool {
        let (bits, pending) = (self.bits.borrow(), self.pending.borrow());
        self.bits_of(range).all(|bit| bits.get(bit) && !pending.contains(&bit))
    }

    fn set(&self, bit: u64) {
        self.bits.borrow_mut().set(bit, true);
        self.pending.borrow_mut().insert(bit);
        self.changed.borrow_mut().insert(Intent::page_of(bit));
    }

    /// A write to a range has ended.
    pub(super) fn end(&self, range: &Range<u64>, now: Instant) {
        for bit in self.bits_of(range) {
            let mut busy = self.busy.borrow_mut();
            let busy = busy.get_mut(&bit).filter(|busy| busy.in_flight > 0);
            let busy = busy.expect("a write that ends was counted when it began");
            busy.in_flight -= 1;
            busy.last = now;
        }
    }

    /// Whether there is something to be written.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.borrow().is_empty()
    }

    /// Copies and parity are right before this sector.
    pub(super) fn right_before(&self, sector: u64) {
        let chunk = u64::from(self.superblock.borrow().chunk_bytes) / SECTOR;
        let mut needed = self.needed.borrow_mut();
        let done: Vec<u64> = needed
            .set_bits()
            .take_while(|bit| (bit + 1).saturating_mul(chunk) <= sector || sector == u64::MAX)
            .collect();
        done.into_iter().for_each(|bit| needed.set(bit, false));
    }

    /// Bits that may go once `events_cleared` stands on disk and the members are flushed: their stretches
    /// had no write since `before`.
    pub(super) fn quiet(&self, before: Instant) -> Vec<u64> {
        let (busy, needed) = (self.busy.borrow(), self.needed.borrow());
        let is_quiet = |bit: &u64| {
            !needed.get(*bit)
                && busy.get(bit).is_none_or(|busy| busy.in_flight == 0 && busy.last <= before)
        };
        self.bits.borrow().set_bits().filter(is_quiet).collect()
    }

    /// Whether bits are set that may go some time.
    pub(super) fn has_to_clear(&self) -> bool {
        let needed = self.needed.borrow();
        self.bits.borrow().set_bits().any(|bit| !needed.get(bit))
    }

    /// Clears bits. A write that comes from here on sets them again, and waits.
    pub(super) fn clear(&self, cleared: &[u64]) {
        for bit in cleared {
            self.bits.borrow_mut().set(*bit, false);
            let busy = self.busy.borrow_mut().remove(bit);
            assert!(
                busy.is_none_or(|busy| busy.in_flight == 0),
                "no bit goes while its stretch is written"
            );
            self.changed.borrow_mut().insert(Intent::page_of(*bit));
        }
    }

    /// Takes back what [`clear`](Self::clear) did.
    pub(super) fn restore(&self, cleared: &[u64]) {
        cleared.iter().for_each(|bit| self.set(*bit));
    }

    /// A bit is cleared as of these events. True where that was not so yet.
    pub(super) fn cleared_as_of(&self, events: u64) -> bool {
        let mut superblock = self.superblock.borrow_mut();
        std::mem::replace(&mut superblock.events_cleared, events) != events
    }

    /// As of which events a bit was cleared last.
    pub(super) fn events_cleared(&self) -> u64 {
        self.superblock.borrow().events_cleared
    }

    /// Takes the pages that are to be written. With `superblock`, the first one is among them.
    pub(super) fn take_pages(&self, superblock: bool, events: u64, block: ByteCount) -> Pages {
        self.superblock.borrow_mut().events = events;
        let mut pages = std::mem::take(&mut *self.changed.borrow_mut());
        if self.copies_differ.replace(false) {
            pages.extend(0..self.superblock.borrow().total_bytes().div_ceil(PAGE));
        } else if superblock {
            pages.insert(0);
        }
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        let pieces = pages.iter().map(|page| (page * PAGE, self.page(*page, block))).collect();
        Pages { pieces, pages, pending }
    }

    /// The whole bitmap, for a member that has none.
    pub(super) fn whole(&self, block: ByteCount) -> Vec<(u64, Vec<u8>)> {
        let pages = self.superblock.borrow().total_bytes().div_ceil(PAGE);
        (0..pages).map(|page| (page * PAGE, self.page(page, block))).collect()
    }

    /// Pages that could not be written to all are still to be written.
    pub(super) fn put_back(&self, pages: Pages) {
        self.changed.borrow_mut().extend(pages.pages);
        self.pending.borrow_mut().extend(pages.pending);
    }

    fn page(&self, page: u64, block: ByteCount) -> Vec<u8> {
        let (superblock, bits) = (self.superblock.borrow(), self.bits.borrow());
        let total = superblock.total_bytes();
        let end = ((page + 1) * PAGE).min(ByteCount(total).round_up(block).bytes());
        let mut bytes = vec![0; end.saturating_sub(page * PAGE) as usize];
        let head = if page == 0 { superblock.encode() } else { Vec::new() };
        let from = (page * PAGE + head.len() as u64).saturating_sub(SUPERBLOCK_BYTES as u64);
        let body = bits.bytes().get(from as usize..).unwrap_or_default();
        let bytes_of = head.iter().chain(body);
        bytes.iter_mut().zip(bytes_of).for_each(|(to, byte)| *to = *byte);
        bytes
    }

    /// The ranges of the set (RAID 10) or of the members (else) that bits are set for.
    fn ranges(&self, bits: &Bits) -> Vec<Range<u64>> {
        let superblock = self.superblock.borrow();
        let (chunk, end) = (u64::from(superblock.chunk_bytes), superblock.sync_sectors * SECTOR);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for bit in bits.set_bits() {
            let range = bit * chunk..((bit + 1) * chunk).min(end);
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// Which places of the members a resync has to go over: those of the bits that are set, or in RAID 10
    /// of the primary copies there.
    pub(super) fn to_resync(&self, array: &Array) -> RangeSet {
        let ranges = self.ranges(&self.needed.borrow());
        match mirror_of(array) {
            None => spread_out(ranges, array),
            Some(mirror) => {
                let pieces = pieces_of(mirror, ranges);
                let primary = |piece: Range<u64>| {
                    let at = mirror.map.locate(piece.start).first().map_or(0, |place| place.at);
                    at..at + (piece.end - piece.start)
                };
                spread_out(pieces.map(primary).collect(), array)
            }
        }
    }

    /// Which places of a slot's member are old, if it missed all that was written since its bits were clear.
    pub(super) fn missed_by(&self, slot: usize, array: &Array) -> RangeSet {
        let ranges = self.ranges(&self.bits.borrow());
        match mirror_of(array) {
            None => spread_out(ranges, array),
            Some(mirror) => {
                let pieces = pieces_of(mirror, ranges);
                let own = pieces.flat_map(|piece| {
                    let places = mirror.map.locate(piece.start);
                    let own = places.into_iter().filter(|place| place.slot == slot);
                    own.map(move |place| place.at..place.at + (piece.end - piece.start))
                });
                spread_out(own.collect(), array)
            }
        }
    }
}

/// The mirror of a RAID 10, whose bitmap divides the set and not its members.
fn mirror_of(array: &Array) -> Option<&Mirror> {
    match &array.engine {
        Engine::Mirror(mirror) if array.level() == Level::Raid10 => Some(mirror),
        _ => None,
    }
}

/// The pieces of ranges of a RAID 10. mdadm's bitmap may say more sectors than there are.
fn pieces_of(
    mirror: &Mirror,
    ranges: Vec<Range<u64>>,
) -> impl Iterator<Item = Range<u64>> + use<'_> {
    let capacity = mirror.map.capacity();
    let within = move |range: Range<u64>| range.start.min(capacity)..range.end.min(capacity);
    ranges.into_iter().flat_map(move |range| mirror.pieces(within(range)))
}

/// Places of the members, rounded to what the array works on. Where they are too many, those that lie near to
/// each other are joined.
fn spread_out(mut ranges: Vec<Range<u64>>, array: &Array) -> RangeSet {
    ranges.sort_unstable_by_key(|range| range.start);
    let extent = array.component_extent().bytes();
    let mut grain = array.grain().bytes().max(1);
    loop {
        let mut rounded: Vec<Range<u64>> = Vec::new();
        for range in &ranges {
            let start = (range.start - range.start % grain).min(extent);
            let end = range.end.next_multiple_of(grain).min(extent);
            match rounded.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => rounded.push(start..end),
            }
        }
        // Half of what a set of ranges holds: its complement has as many.
        if rounded.len() <= RANGES_MAX / 2 {
            let mut set = RangeSet::default();
            set.extend(rounded);
            return set;
        }
        grain *= 2;
    }
}

/// How many sectors the bits of a set divide.
fn sync_sectors(choice: &Choice) -> u64 {
    let facts = &choice.facts;
    // Only RAID 10 counts otherwise than the rest.
    let level = if facts.level() == 10 { Level::Raid10 } else { Level::Raid1 };
    let (layout, slots) = (facts.layout().unwrap_or(0x102), facts.slots() as u64);
    format::sync_sectors(level, layout, facts.chunk(), slots, facts.size())
}
