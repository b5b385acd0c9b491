//! What the mechanism does next: rules 3, 4 and 6 of the [model](super).
//!
//! Positioning time is the seek, and then the wait until the sector comes round. The disk knows both
//! exactly, so it can choose the command over which the head will be first (Jacobson and Wilkes, "Disk
//! scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991). Left to itself that rule
//! starves what lies far away, and what the head has just passed while a stream goes on behind it.
//!
//! The remedy of Jacobson and Wilkes, and of Worthington, Ganger and Patt ("Scheduling algorithms for
//! modern disk drives", SIGMETRICS 1994), is an *aged* positioning time: positioning time − weight ×
//! age. They measure age in time. Then one weight does not serve both: what costs no throughput
//! among random commands (up to some 0.01) lets a command that was just passed wait 0.8 s for its
//! revolution, and what lets it wait 0.1 s costs a third of the random rate. The reason is that a
//! random command takes ten times as long as one of a stream. So age is counted here in *commands that
//! overtook it*: `age_commands` of them are worth one revolution. That is a rule of ours in the manner of
//! theirs; what firmware does is not published. The age limit stays as the last resort.

use super::writing::nanos;
use super::{DiskModel, Job, Mechanism, Passed};
use crate::disk::geometry::Place;
use std::ops::Range;
use stdx::{Duration, Instant};

/// What the mechanism writes back in one go (2¹⁸ B). Longer keeps room blocked until its end; since
/// neighbours follow without a wait, shorter costs nothing on the medium.
const WRITE_BACK_BYTES_MAX: u64 = 256 << 10;
/// A sector that was missed by no more than this is not missed: times are rounded to nanoseconds.
const ANGLE_TOLERANCE_NS: u64 = 200;

/// The way to a sector, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Until the arm is there.
    arm: u64,
    /// And then until the sector comes round.
    wait: u64,
}

impl Way {
    pub(super) fn total(self) -> u64 {
        self.arm + self.wait
    }
}

impl DiskModel {
    /// How long until the sector at this unrolled time comes round.
    pub(super) fn angle_wait(&self, at: Instant, unrolled_ns: u64) -> u64 {
        let revolution = self.layout.revolution_ns();
        let phase = (at.as_nanos() + self.phase_ns) % revolution;
        let wait = (unrolled_ns % revolution + revolution - phase) % revolution;
        if wait > revolution - ANGLE_TOLERANCE_NS { 0 } else { wait }
    }

    /// From `from` on: seek and wait until the head is over the start of these blocks.
    pub(super) fn positioning(&self, from: Instant, lba: u64, place: &Place, write: bool) -> Way {
        // The neighbour of the last block lies behind the skew, which was made for the switch.
        let mut arm = if lba == self.head_lba {
            0
        } else {
            let distance = place.cylinder.abs_diff(self.head.cylinder);
            self.seek.time_ns(distance, place.head != self.head.head, write)
        };
        if write {
            arm = arm.max(nanos(self.overheads.minimum_write_seek));
        }
        let wait = self.angle_wait(from + Duration::from_nanos(arm), place.unrolled_ns);
        Way { arm, wait }
    }

    /// Gives the mechanism its next job, if there is one. Rules 3, 4 and 6.
    pub(super) fn start_next(&mut self, now: Instant) {
        if self.queue.is_empty() && self.dirty.is_empty() {
            return;
        }
        if let Mechanism::Ahead(ahead) = &self.mechanism
            && ahead.promised > now
        {
            let promised = ahead.promised;
            return self.schedule_free(promised);
        }
        self.note_ahead(now);
        let mut best: Option<(i128, Instant, usize, Way)> = None;
        let aged =
            self.queue.first().is_some_and(|oldest| now.since(oldest.arrived) >= self.age_limit);
        let looked_at = if aged { 1 } else { self.reorder_depth.min(self.queue.len()) };
        for (index, waiting) in self.queue[..looked_at].iter().enumerate() {
            let from = now.max(waiting.ready);
            let lba = waiting.blocks.start;
            let mut way = self.positioning(from, lba, &waiting.place, waiting.write);
            let mut start = from + Duration::from_nanos(way.total());
            if waiting.write && start < waiting.data {
                // Its data is not over yet.
                way.arm = nanos(waiting.data.since(from));
                way.wait = self.angle_wait(waiting.data, waiting.place.unrolled_ns);
                start = from + Duration::from_nanos(way.total());
            }
            let credit = waiting.overtaken * self.overtaken_ns;
            let cost = start.since(now).as_nanos() as i128 - i128::from(credit);
            if best.is_none_or(|(least, ..)| cost < least) {
                best = Some((cost, start, index, way));
            }
        }
        let mut back: Option<(Instant, Range<u64>, Way)> = None;
        if !aged && self.may_write_back() {
            let sweep = self.sweeps.then(|| self.next_of_sweep()).flatten();
            let nearest = if self.sweeps { 0 } else { self.reorder_depth };
            for stretch in self.dirty.near(self.head_lba, nearest).chain(sweep) {
                let place = self.layout.locate(stretch.start);
                let way = self.positioning(now, stretch.start, &place, true);
                let start = now + Duration::from_nanos(way.total());
                let earliest = back.as_ref().is_none_or(|(earliest, ..)| start < *earliest);
                let cost = start.since(now).as_nanos() as i128;
                if earliest && best.is_none_or(|(least, ..)| cost < least) {
                    back = Some((start, stretch, way));
                }
            }
        }
        let (job, media_start, way) = if let Some((start, mut blocks, way)) = back {
            blocks.end = blocks.end.min(blocks.start + WRITE_BACK_BYTES_MAX / self.sector_bytes);
            self.dirty.remove(blocks.clone());
            (Job::WriteBack(blocks), start, way)
        } else if let Some((_, start, index, way)) = best {
            self.queue[..index].iter_mut().for_each(|older| older.overtaken += 1);
            let waiting = self.queue.remove(index);
            let job = if waiting.write { Job::Write(waiting) } else { Job::Read(waiting) };
            (job, start, way)
        } else {
            return;
        };
        let (blocks, write) = match &job {
            Job::Read(waiting) => (&waiting.blocks, false),
            Job::Write(waiting) => (&waiting.blocks, true),
            Job::WriteBack(blocks) => (blocks, true),
        };
        let span = self.span_ns(blocks);
        let whole = blocks.start.is_multiple_of(self.physical_sectors)
            && (blocks.end.is_multiple_of(self.physical_sectors)
                || blocks.end == self.layout.sectors());
        let revolution = self.layout.revolution_ns();
        let read_first = if write && !whole { revolution } else { 0 };
        let mut media_start = media_start + Duration::from_nanos(read_first);
        let mut end = media_start + Duration::from_nanos(span);
        let mut passed = Passed::default();
        if !write && self.reads_what_passes {
            let track = self.layout.track(blocks.start);
            let fits = way.wait / self.layout.sector_ns(blocks.start);
            passed.before = fits.min(blocks.start - track.start);
        }
        let on_arrival = if write { self.write_on_arrival } else { self.read_on_arrival };
        // The heads come down in the middle, on the one track: a revolution brings all of it.
        if on_arrival && read_first == 0 && span < revolution && way.wait + span > revolution {
            media_start = Instant::from_nanos(media_start.as_nanos() - way.wait);
            end = media_start + Duration::from_nanos(revolution);
            passed = Passed { before: 0, on_arrival: true };
        }
        if !write && let Some(slow) = &mut self.slow_reads {
            end += slow.delay();
        }
        self.count_ahead(now);
        self.busy_since = now;
        self.mechanism = Mechanism::Busy { job, media_start, passed };
        self.schedule_free(end);
    }

    /// The next stretch from the head inward; from the outermost again where there is none.
    fn next_of_sweep(&self) -> Option<Range<u64>> {
        let here = self.head_lba;
        let next = self.dirty.stretch_of(here).or_else(|| {
            let start = self.dirty.next_start(here)?;
            self.dirty.stretch_of(start)
        });
        next.or_else(|| self.dirty.iter().next())
    }

    /// Whether more than reading ahead is waiting for the mechanism.
    pub(super) fn mechanism_wanted(&self) -> bool {
        !self.queue.is_empty() || !self.dirty.is_empty() && self.may_write_back_beside_reads()
    }

    fn may_write_back(&self) -> bool {
        self.queue.is_empty() || self.may_write_back_beside_reads()
    }

    fn may_write_back_beside_reads(&self) -> bool {
        self.flushing.is_some()
            || !self.for_room.is_empty()
            || self.dirty.total() * 2 >= self.dirty_sectors_max
    }
}
