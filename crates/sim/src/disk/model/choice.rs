//! What the mechanism does next: rules 3, 4, 6 and 8 of the [model](super).
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
//! theirs; what firmware does is not published.
//!
//! The last resort is the age limit, and that is counted in both: a command is *aged* when it is older than the limit, and as many
//! others have gone before it as are looked at: commands that arrived later, and write-backs. By time alone all commands of a long queue
//! are aged where each takes long (32 writes of parts of sectors), though none was passed over; the oldest first would then make
//! all take longer, and so keep all of them aged. The wait is bounded all the same: whatever the mechanism does is counted, or is
//! one of the commands that arrived before. Write-backs give no credit: a read that breaks into them halfway has the arm go there and back
//! once more.

use super::{CommandId, DiskModel, Job, Mechanism, Passed, Waiting};
use crate::disk::geometry::Place;
use crate::disk::stretches::Stretch;
use std::ops::Range;
use stdx::{Duration, Instant};

/// What the mechanism writes back in one go (2¹⁸ B). Longer keeps room blocked until its end; since
/// neighbours follow without a wait, shorter costs nothing on the medium.
const WRITE_BACK_BYTES_MAX: u64 = 256 << 10;
/// Commands are a run where no more than so many times the length of the later one lies between.
const GAP_LENGTHS_MAX: u64 = 2;
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

/// A command that is the best so far.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// Until it is under the heads, less what it has on account of its age.
    cost: i64,
    start_ns: u64,
    index: usize,
    way: Way,
    /// It is aged, and the only one that was looked at.
    aged: bool,
}

impl DiskModel {
    /// How long until the sector at this unrolled time comes round.
    pub(super) fn angle_wait(&self, at: Instant, unrolled_ns: u64) -> u64 {
        self.wait_from(self.angle_at(at), 0, self.layout.angle_ns(unrolled_ns))
    }

    /// The angle that is under the heads, in nanoseconds of the revolution.
    fn angle_at(&self, at: Instant) -> u64 {
        self.layout.angle_ns(at.as_nanos() + self.phase_ns)
    }

    /// How long until `angle` comes round, for heads that are over `here` now and look from `later` on.
    fn wait_from(&self, here: u64, later: u64, angle: u64) -> u64 {
        let revolution = self.layout.revolution_ns();
        let mut phase = here + later;
        // A seek is a revolution or two, and many are weighed: a division costs more.
        for _ in 0..3 {
            if phase >= revolution {
                phase -= revolution;
            }
        }
        let phase = if phase < revolution { phase } else { phase % revolution };
        let wait = if angle >= phase { angle - phase } else { angle + revolution - phase };
        if wait > revolution - ANGLE_TOLERANCE_NS { 0 } else { wait }
    }

    /// From `from` on: seek and wait until the head is over the start of these blocks.
    pub(super) fn positioning(&self, from: Instant, lba: u64, place: &Place, write: bool) -> Way {
        let arm = self.arm_ns(lba, place.cylinder, place.head != self.head.head, write);
        let wait = self.angle_wait(from + Duration::from_nanos(arm), place.unrolled_ns);
        Way { arm, wait }
    }

    /// How long the arm takes to a block on this cylinder. It takes no less with another head.
    fn arm_ns(&self, lba: u64, cylinder: u64, other_head: bool, write: bool) -> u64 {
        // The neighbour of the last block lies behind the skew, which was made for the switch.
        let arm = match lba == self.head_lba {
            true => 0,
            false => self.seek.time_ns(cylinder.abs_diff(self.head.cylinder), other_head, write),
        };
        if write { arm.max(self.minimum_write_seek_ns) } else { arm }
    }

    /// Gives the mechanism its next job, if there is one. Rules 3, 4, 6 and 8.
    pub(super) fn start_next(&mut self, now: Instant) {
        if self.queue.is_empty() && self.dirty.is_empty() {
            return;
        }
        if let Mechanism::Ahead(ahead) = &self.mechanism {
            self.draining |= ahead.stream_read.is_some() && self.is_full_to(2);
            let until = self.goes_on_until(ahead);
            if until > now {
                return self.schedule_free(until);
            }
        }
        self.note_ahead(now);
        let best = self.best_of_queue(now);
        let least = best.as_ref().map_or(i64::MAX, |best| best.cost);
        let aged = best.as_ref().is_some_and(|best| best.aged);
        let back = match !aged && self.may_write_back() {
            true => self.best_to_write_back(now, least),
            false => None,
        };
        let (job, from, media_start, way) = if let Some((stretch, way)) = back {
            let blocks = self.in_one_go(stretch.blocks());
            self.dirty.remove(blocks.clone(), &self.layout);
            self.note_drained();
            self.queue.iter_mut().for_each(|waiting| waiting.written_back += 1);
            let start = now + Duration::from_nanos(way.total());
            (Job::WriteBack(blocks), stretch.unrolled_ns, start, way)
        } else if let Some(Choice { start_ns, index, way, .. }) = best {
            self.queue[..index].iter_mut().for_each(|older| older.overtaken += 1);
            let waiting = self.queue.remove(index);
            let next = self.queue.iter_mut().filter(|other| other.behind == Some(waiting.id));
            next.for_each(|other| other.behind = None);
            let from = waiting.place.unrolled_ns;
            let job = if waiting.write { Job::Write(waiting) } else { Job::Read(waiting) };
            (job, from, Instant::from_nanos(start_ns), way)
        } else {
            return;
        };
        let (blocks, write) = match &job {
            Job::Read(waiting) => (&waiting.blocks, false),
            Job::Write(waiting) => (&waiting.blocks, true),
            Job::WriteBack(blocks) => (blocks, true),
        };
        let place = self.layout.end(blocks.end);
        let span = place.unrolled_ns - from;
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
        self.mechanism = Mechanism::Busy { job, media_start, passed, end: place };
        self.schedule_free(end);
    }

    /// What of a stretch is written back in one go. Where more of it follows it ends with a whole physical sector, or both this
    /// and the next would have to read one first: only the ends of a stretch can be parts of sectors. Rule 6.
    fn in_one_go(&self, stretch: Range<u64>) -> Range<u64> {
        let most = stretch.start + WRITE_BACK_BYTES_MAX / self.sector_bytes;
        if stretch.end <= most {
            return stretch;
        }
        let whole = most - most % self.physical_sectors;
        stretch.start..if whole > stretch.start { whole } else { most }
    }

    /// The command in the queue that these blocks, to be read or to be written, go on from.
    pub(super) fn goes_on_from(&self, write: bool, blocks: &Range<u64>) -> Option<CommandId> {
        let gap_max = GAP_LENGTHS_MAX * (blocks.end - blocks.start);
        let follows = |waiting: &&Waiting| {
            let gap = blocks.start.checked_sub(waiting.blocks.end);
            waiting.write == write && gap.is_some_and(|gap| gap <= gap_max)
        };
        self.queue.iter().find(follows).map(|waiting| waiting.id)
    }

    /// Of the commands that are looked at, the one that costs least. What the arm alone takes is a bound, which spares most of
    /// them the rest. In nanoseconds throughout: many are looked at.
    fn best_of_queue(&self, now: Instant) -> Option<Choice> {
        let oldest = self.queue.first()?;
        let looked_at = self.reorder_depth.min(self.queue.len());
        let is_passed_over = oldest.overtaken + oldest.written_back >= looked_at as u64;
        let aged = is_passed_over && now.since(oldest.arrived) >= self.age_limit;
        let looked_at = if aged { 1 } else { looked_at };
        let mut best: Option<Choice> = None;
        let mut least = i64::MAX;
        let (here, now_ns) = (self.angle_at(now), now.as_nanos());
        for (index, waiting) in self.queue[..looked_at].iter().enumerate() {
            if waiting.behind.is_some() {
                continue;
            }
            let from_ns = now_ns.max(waiting.ready.as_nanos());
            let (lba, place, write) = (waiting.blocks.start, &waiting.place, waiting.write);
            let credit = (waiting.overtaken * self.overtaken_ns) as i64;
            let other_head = place.head != self.head.head;
            let mut arm = self.arm_ns(lba, place.cylinder, other_head, write);
            let begins = from_ns - now_ns;
            let bound = begins as i64 + arm as i64 - credit;
            if best.is_some() && bound >= least {
                continue;
            }
            if write {
                // Its data is not over yet where the heads could be there before.
                arm = arm.max(waiting.data.as_nanos().saturating_sub(from_ns));
            }
            let way = Way { arm, wait: self.wait_from(here, begins + arm, waiting.angle_ns) };
            let start_ns = from_ns + way.total();
            let cost = (start_ns - now_ns) as i64 - credit;
            if best.is_none() || cost < least {
                least = cost;
                best = Some(Choice { cost, start_ns, index, way, aged });
            }
        }
        best
    }

    /// Of the stretches that are looked at, the one that is first under the heads, if that is before `least`.
    ///
    /// They come the nearest first. Where one on a side of the head is too far for the arm alone, so are those behind it.
    fn best_to_write_back(&self, now: Instant, least: i64) -> Option<(Stretch, Way)> {
        let mut least = least;
        let mut back = None;
        let here = self.angle_at(now);
        let sweep = self.sweeps.then(|| self.dirty.next_from(self.head_lba)).flatten();
        let nearest = if self.sweeps { 0 } else { self.reorder_depth };
        // Before the head, and behind it.
        let mut too_far = [false; 2];
        for stretch in self.dirty.near(self.head_lba, nearest).chain(sweep) {
            let (lba, cylinder) = (stretch.start, stretch.cylinder);
            let side = usize::from(lba >= self.head_lba);
            if too_far[side] {
                if too_far[1 - side] {
                    break;
                }
                continue;
            }
            let bound = self.arm_ns(lba, cylinder, false, true);
            if bound as i64 >= least {
                too_far[side] = self.seek.farther_is_later();
                continue;
            }
            let other_head = stretch.head != self.head.head;
            let arm = match other_head && self.seek.heads_count(cylinder != self.head.cylinder) {
                true => self.arm_ns(lba, cylinder, true, true),
                false => bound,
            };
            let way = Way { arm, wait: self.wait_from(here, arm, stretch.angle_ns) };
            if (way.total() as i64) < least {
                least = way.total() as i64;
                back = Some((stretch, way));
            }
        }
        back.map(|(stretch, way)| (*stretch, way))
    }

    /// Whether more than reading ahead is waiting for the mechanism.
    pub(super) fn mechanism_wanted(&self) -> bool {
        !self.queue.is_empty() || !self.dirty.is_empty() && self.may_write_back_beside_reads()
    }

    fn may_write_back(&self) -> bool {
        self.queue.is_empty() || self.may_write_back_beside_reads()
    }

    fn may_write_back_beside_reads(&self) -> bool {
        self.flushing.is_some() || !self.for_room.is_empty() || self.draining || self.is_full_to(2)
    }

    /// Whether the write buffer holds one of so many parts of what it can.
    pub(super) fn is_full_to(&self, parts: u64) -> bool {
        self.dirty.total() * parts >= self.dirty_sectors_max
    }

    /// Whether write-backs have time, whatever they cost later: half of the buffer is free, and half of the pieces that it can
    /// remember.
    pub(super) fn write_backs_have_time(&self) -> bool {
        !self.may_write_back_beside_reads() && self.dirty.len() * 2 < self.stretches_max
    }

    /// Notes that what waited for a stream is written back.
    pub(super) fn note_drained(&mut self) {
        self.draining &= self.is_full_to(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::all_disk_profiles;
    use stdx::Prng;

    /// What would go wrong: a stretch that is first under the heads is left out, since one before it on its side was too far.
    #[test]
    fn the_stretch_that_is_first_is_found_though_not_all_are_weighed() {
        for profile in all_disk_profiles() {
            let mut prng = Prng::new(7);
            let mut disk = DiskModel::new(&profile, &mut prng);
            disk.sweeps = false;
            disk.reorder_depth = 32;
            let sectors = disk.layout.sectors();
            for _ in 0..300 {
                disk.dirty.clear();
                for _ in 0..=prng.below(150) {
                    let at = prng.below(sectors - 8);
                    disk.dirty.insert(at..at + 8, &disk.layout);
                }
                let end = 1 + prng.below(sectors - 1);
                disk.park_head(end, disk.layout.end(end));
                let now = Instant::from_nanos(prng.below(1 << 40));
                let least = prng.below(30_000_000) as i64;
                let way = |stretch: &Stretch| {
                    let place = disk.layout.locate(stretch.start);
                    disk.positioning(now, stretch.start, &place, true).total()
                };
                let all = disk.dirty.near(end, 32).map(|stretch| (way(stretch), *stretch));
                let first = all.filter(|(way, _)| (*way as i64) < least).min_by_key(|all| all.0);
                let found = disk.best_to_write_back(now, least);
                assert_eq!(found.map(|(stretch, way)| (way.total(), stretch)), first);
            }
        }
    }
}
