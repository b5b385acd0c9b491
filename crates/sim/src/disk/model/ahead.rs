//! Reading ahead: rules 1, 7 and 8 of the [model](super).
//!
//! After a read the mechanism goes on reading, up to a limit, and what passes enters the buffer. Reading ahead takes no events:
//! what it has brought follows from the time that has gone by since it began, and is noted when somebody asks.

use super::{Ahead, DiskModel, Mechanism, PATIENCE};
use crate::profile::ReadAheadUntil;
use std::ops::Range;
use stdx::{Duration, Instant};

impl Ahead {
    /// Whether it reads one of these blocks, and nobody counts on it any more.
    pub(super) fn is_spoilt_by(&self, blocks: &Range<u64>, now: Instant) -> bool {
        blocks.end > self.from && blocks.start < self.limit && self.promised <= now
    }
}

impl DiskModel {
    /// How far the disk reads when `end` is where the host's last read ended.
    fn ahead_limit(&self, end: u64) -> u64 {
        let sectors = self.layout.sectors();
        let far = (end + self.ahead_rules.limit).min(sectors);
        match self.ahead_rules.until {
            ReadAheadUntil::Limit => far,
            _ if end >= sectors => sectors,
            ReadAheadUntil::None => end,
            ReadAheadUntil::Track => self.layout.track(end - 1).end.min(far),
            ReadAheadUntil::Cylinder => self.layout.cylinder(end - 1).end.min(far),
            ReadAheadUntil::NextTrack => {
                let track = self.layout.track(end);
                let comes_from_before =
                    self.reads.stretch(end - 1).is_some_and(|held| held.start < track.start);
                if comes_from_before && track.end < sectors {
                    self.layout.track(track.end).end
                } else {
                    track.end
                }
            }
        }
    }

    /// A read has ended at `end`: goes on reading from there.
    pub(super) fn read_on(&mut self, now: Instant, end: u64, on_arrival: bool, of_stream: bool) {
        let limit = self.ahead_limit(end);
        if limit <= end {
            return;
        }
        // The next block may lie behind a skew.
        let from_ns = self.layout.locate(end).unrolled_ns;
        let wait = match on_arrival {
            true => self.angle_wait(now, from_ns),
            false => from_ns - self.head.unrolled_ns,
        };
        self.begin_ahead(
            now,
            end..limit,
            from_ns,
            now + Duration::from_nanos(wait),
            of_stream.then_some(now),
        );
    }

    fn begin_ahead(
        &mut self,
        now: Instant,
        blocks: Range<u64>,
        from_ns: u64,
        since: Instant,
        stream_read: Option<Instant>,
    ) {
        let Range { start: from, end: limit } = blocks;
        let least = (from + self.ahead_rules.least).min(limit);
        let promised = if least > from {
            since + Duration::from_nanos(self.layout.end(least).unrolled_ns - from_ns)
        } else {
            now
        };
        self.mechanism = Mechanism::Ahead(Ahead {
            from,
            from_ns,
            since,
            noted: from,
            limit,
            promised,
            counted: since,
            stream_read,
        });
    }

    /// The buffer held a read whole: disks that go on reading then do so where its stretch ends.
    pub(super) fn read_on_after_hit(&mut self, now: Instant, blocks: &Range<u64>) {
        let free = match &self.mechanism {
            Mechanism::Idle => true,
            Mechanism::Ahead(ahead) => ahead.promised <= now,
            Mechanism::Busy { .. } => false,
        };
        if self.ahead_rules.after_hit != Some(true) || !free || self.mechanism_wanted() {
            return;
        }
        let Some(held) = self.reads.stretch(blocks.end - 1) else { return };
        let limit = self.ahead_limit(blocks.end);
        if held.end >= limit {
            return;
        }
        self.note_ahead(now);
        self.count_ahead(now);
        let place = self.layout.locate(held.end);
        let ready = now + self.overheads.read_hit.of(self.after_write.is_some());
        let wait = self.positioning(ready, held.end, &place, false).total();
        let since = ready + Duration::from_nanos(wait);
        self.begin_ahead(now, held.end..limit, place.unrolled_ns, since, Some(now));
    }

    /// When reading ahead stands at its limit.
    fn stands(&self, ahead: &Ahead) -> Instant {
        let last = self.layout.end(ahead.limit.max(ahead.from + 1)).unrolled_ns;
        ahead.since + Duration::from_nanos(last.saturating_sub(ahead.from_ns))
    }

    /// Until when reading ahead is not left for what waits: requests count on it, or it is a stream's, and there are only
    /// write-backs, which have time. Rule 8.
    pub(super) fn goes_on_until(&self, ahead: &Ahead) -> Instant {
        match ahead.stream_read {
            Some(read) if self.queue.is_empty() && self.write_backs_have_time() => {
                let next = read + Duration::from_nanos(self.layout.revolution_ns()) * PATIENCE;
                self.stands(ahead).max(next).max(ahead.promised)
            }
            _ => ahead.promised,
        }
    }

    /// Counts reading ahead as work, until it stands at its limit.
    pub(super) fn count_ahead(&mut self, now: Instant) {
        let Mechanism::Ahead(ahead) = &self.mechanism else { return };
        let until = now.min(self.stands(ahead));
        let Mechanism::Ahead(ahead) = &mut self.mechanism else { return };
        if until > ahead.counted {
            self.worked += until.since(ahead.counted);
            ahead.counted = until;
        }
    }

    /// Whether reading ahead brings, or has brought, all of `missing`: then when. It is told to go on
    /// beyond `end`, what the host has asked for.
    pub(super) fn count_on_ahead(
        &mut self,
        now: Instant,
        missing: &Range<u64>,
        end: u64,
    ) -> Option<Instant> {
        self.count_ahead(now);
        let Mechanism::Ahead(ahead) = &self.mechanism else { return None };
        let mut ahead = ahead.clone();
        // Behind the read-ahead and not in the buffer any more, or far before it: another stream.
        if missing.start > ahead.limit || missing.start < ahead.from {
            return None;
        }
        let wanted = self.mechanism_wanted();
        let stays = missing.is_empty() && self.ahead_rules.after_hit == Some(false);
        if !wanted && !stays {
            self.move_on(now, &mut ahead, end);
        }
        let mut reached = now;
        if !missing.is_empty() {
            if end > ahead.limit || missing.start < ahead.noted {
                return None;
            }
            let passed = self.layout.end(end).unrolled_ns - ahead.from_ns;
            reached = ahead.since + Duration::from_nanos(passed);
            if wanted && reached > ahead.promised {
                return None;
            }
            ahead.promised = ahead.promised.max(reached);
        }
        ahead.stream_read = Some(now);
        self.mechanism = Mechanism::Ahead(ahead);
        Some(reached)
    }

    /// Has reading ahead go on to where the host's read up to `end` takes it.
    fn move_on(&self, now: Instant, ahead: &mut Ahead, end: u64) {
        let (sectors, limit) = (self.layout.sectors(), self.ahead_limit(end));
        if limit <= ahead.limit {
            return;
        }
        let stop = self.layout.end(ahead.limit.max(ahead.from + 1)).unrolled_ns - ahead.from_ns;
        let stopped = ahead.since + Duration::from_nanos(stop);
        if ahead.limit > ahead.from && stopped > now {
            ahead.limit = limit;
            return;
        }
        // It stands at its limit. Move on when half of what it read is used up.
        let unused = ahead.limit.saturating_sub(end);
        let at_once = self.ahead_rules.after_hit == Some(true);
        if (at_once || unused <= self.ahead_rules.limit / 2) && ahead.limit < sectors {
            ahead.from = ahead.limit;
            ahead.from_ns = self.layout.locate(ahead.from).unrolled_ns;
            ahead.noted = ahead.from;
            ahead.since = now + Duration::from_nanos(self.angle_wait(now, ahead.from_ns));
            ahead.counted = ahead.since;
            ahead.limit = limit;
        }
    }

    /// Enters into the buffer what reading ahead has brought by now.
    pub(super) fn note_ahead(&mut self, now: Instant) {
        let Mechanism::Ahead(ahead) = &mut self.mechanism else { return };
        let passed = now.since(ahead.since).as_nanos() as u64;
        let reached = self.layout.reached(ahead.from_ns + passed).min(ahead.limit);
        if reached > ahead.noted {
            self.reads.fill(ahead.noted..reached);
            ahead.noted = reached;
            self.head_lba = reached;
            self.head = self.layout.end(reached);
        }
    }
}
