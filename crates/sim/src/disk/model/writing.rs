//! Writes on their way in: rules 2 and 5 of the [model](super).
//!
//! What goes into the buffer crosses the interface first. What goes to the medium at once does so while the arm is on its way:
//! the heads begin when data comes over in time, so that they need not wait a revolution for the rest.

use super::{Action, Command, Crossing, DiskModel, Effect, Event, Job, Mechanism, Waiting};
use stdx::Instant;

impl DiskModel {
    pub(super) fn begin_write(&mut self, now: Instant, command: Command) {
        let Action::Write { fua, data } = command.action else {
            unreachable!("only writes come here")
        };
        let bytes = if data { self.bytes(&command.blocks) } else { 0 };
        let after_write = self.after_write.is_some();
        let overheads = self.overheads;
        if self.is_buffered(fua) {
            let from = now + overheads.write_hit.of(after_write) + overheads.preparation;
            let over = self.cross(from, bytes);
            let crossing = Crossing { command, bus: over, data: over, extra: false };
            return self.schedule_crossed(over, crossing);
        }
        let elsewhere = self.after_write.is_some_and(|end| end != command.blocks.start);
        let (ready, from, leaving, extra) = match overheads.extra.filter(|_| elsewhere) {
            Some(extra) => {
                let left = now + extra.command + extra.disconnect + extra.pause;
                let ready = now + extra.command + extra.seek_delay;
                (ready, left + overheads.reselect, extra.second_disconnect, true)
            }
            None => {
                let ready = now + overheads.write_miss.of(after_write);
                (ready, ready, overheads.write_disconnect, false)
            }
        };
        let begun = (from + overheads.preparation).max(self.interface_free);
        let over = self.cross(begun, bytes);
        let first = begun + self.interface_time_in(self.sector_bytes.min(bytes));
        let span = self.span_ns(&command.blocks);
        let in_time = Instant::from_nanos(over.as_nanos().saturating_sub(span));
        let bus = over + leaving;
        let crossing = Crossing { command, bus, data: first.max(in_time), extra };
        self.schedule_crossed(ready, crossing);
    }

    /// Carries bytes in over the interface, not before `from`; returns when they are over.
    fn cross(&mut self, from: Instant, bytes: u64) -> Instant {
        self.interface_free = from.max(self.interface_free) + self.interface_time_in(bytes);
        self.interface_free
    }

    /// Whether a write is answered when it is in the buffer.
    fn is_buffered(&self, fua: bool) -> bool {
        self.write_cache && (!fua || self.flush_ignored)
    }

    fn schedule_crossed(&mut self, at: Instant, crossing: Crossing) {
        let slot = self.crossing_free.pop().unwrap_or_else(|| {
            self.crossing.push(None);
            self.crossing.len() - 1
        });
        self.crossing[slot] = Some(crossing);
        self.schedule(at, Event::Crossed(slot));
    }

    /// A write is understood, and its data is there where it goes into the buffer.
    pub(super) fn take_write(
        &mut self,
        now: Instant,
        crossing: Crossing,
        effects: &mut Vec<Effect>,
    ) {
        let Crossing { command, bus, data, extra } = crossing;
        let Action::Write { fua, .. } = command.action else { unreachable!("only writes cross") };
        self.note_ahead(now);
        self.reads.forget(&command.blocks);
        if let Mechanism::Ahead(ahead) = &self.mechanism
            && ahead.is_spoilt_by(&command.blocks, now)
        {
            self.count_ahead(now);
            self.mechanism = Mechanism::Idle;
        }
        if self.reads_hit_writes {
            self.reads.fill(command.blocks.clone());
        }
        if self.is_buffered(fua) {
            self.for_room.push_back(command);
            self.make_room(now, effects);
        } else {
            let (id, blocks) = (command.id, command.blocks);
            let place = self.layout.locate(blocks.start);
            let behind = self.goes_on_from(true, &blocks);
            self.queue.push(Waiting {
                id,
                write: true,
                blocks,
                bytes: 0,
                angle_ns: self.layout.angle_ns(place.unrolled_ns),
                place,
                arrived: now,
                ready: now,
                bus,
                data,
                apart: extra,
                overtaken: 0,
                written_back: 0,
                behind,
            });
        }
        self.poke(now);
    }

    /// Lets writes into the buffer in their order, as far as there is room.
    pub(super) fn make_room(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        while let Some(command) = self.for_room.front() {
            let blocks = command.blocks.clone();
            let writing = match &self.mechanism {
                Mechanism::Busy { job: Job::WriteBack(b), .. } => b.end - b.start,
                _ => 0,
            };
            let after = self.dirty.total() + writing + (blocks.end - blocks.start);
            let fits = after <= self.dirty_sectors_max
                && (self.dirty.len() < self.stretches_max || self.dirty.would_merge(&blocks));
            // A write that is larger than the buffer goes through it alone.
            if !(fits || self.dirty.is_empty() && writing == 0) {
                return;
            }
            let command = self.for_room.pop_front().expect("it was just seen");
            self.dirty.insert(blocks, &self.layout);
            effects.push(Effect::Buffered(command.id));
            self.schedule(now + self.overheads.write_completion, Event::Answered(command.id));
        }
    }

    pub(super) fn end_flush(&mut self, now: Instant) {
        let busy = matches!(self.mechanism, Mechanism::Busy { job: Job::WriteBack(_), .. });
        if let Some(flush) = &mut self.flushing
            && self.dirty.is_empty()
            && !busy
            && !flush.ended
        {
            flush.ended = true;
            let (id, done) = (flush.id, now + self.overheads.command);
            self.schedule(done, Event::Answered(id));
        }
    }

    /// How long these blocks take to pass under the heads.
    pub(super) fn span_ns(&self, blocks: &std::ops::Range<u64>) -> u64 {
        self.layout.end(blocks.end).unrolled_ns - self.layout.locate(blocks.start).unrolled_ns
    }
}
