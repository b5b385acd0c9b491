//! Reads on their way in and out: rule 1 of the [model](super), and when data is over the interface.

use super::{Command, CommandId, DiskModel, Event, Job, Mechanism, Waiting};
use stdx::{Duration, Instant};

impl DiskModel {
    pub(super) fn begin_read(&mut self, now: Instant, command: Command) {
        let Command { id, blocks, .. } = command;
        let bytes = self.bytes(&blocks);
        let after_write = self.after_write.is_some();
        let writing = match &self.mechanism {
            Mechanism::Busy { job: Job::WriteBack(writing), .. } => writing.clone(),
            _ => 0..0,
        };
        let begun = now + self.overheads.read_hit.of(after_write) + self.overheads.preparation;
        let in_flight = writing.start <= blocks.start && blocks.end <= writing.end;
        if in_flight || self.dirty.covers(&blocks) {
            return self.answer_from_buffer(id, begun, now, bytes);
        }
        self.note_ahead(now);
        let held = self.reads.held(&blocks);
        let missing = blocks.start + held..blocks.end;
        if let Some(reached) = self.count_on_ahead(now, &missing, blocks.end) {
            return self.answer_from_buffer(id, begun, reached, bytes);
        }
        if missing.is_empty() {
            self.answer_from_buffer(id, begun, now, bytes);
            return self.read_on_after_hit(now, &blocks);
        }
        let place = self.layout.locate(missing.start);
        let ready = now + self.overheads.read_miss.of(after_write);
        let left = ready + self.overheads.read_disconnect.of(after_write);
        let apart = held > 0;
        let behind = self.goes_on_from(false, &missing);
        self.queue.push(Waiting {
            id,
            write: false,
            blocks: missing,
            bytes,
            angle_ns: self.layout.angle_ns(place.unrolled_ns),
            place,
            arrived: now,
            ready,
            bus: if apart { begun } else { left },
            data: now,
            apart,
            overtaken: 0,
            written_back: 0,
            behind,
        });
        self.poke(now);
    }

    /// Answers a read once it is over the interface, not before the buffer holds the last of it.
    fn answer_from_buffer(&mut self, id: CommandId, begun: Instant, held: Instant, bytes: u64) {
        self.answered_from_buffer += 1;
        let over = begun.max(self.interface_free) + self.interface_time(bytes);
        let done = over.max(held) + self.overheads.read_completion;
        self.interface_free = done;
        self.schedule(done, Event::Answered(id));
    }

    /// When a read that the medium has passed is over the interface. What the buffer held could go as soon as the command was
    /// understood; what came from the medium goes along with it, once so much is there as the disk waits for.
    pub(super) fn transferred(
        &self,
        read: &Waiting,
        media_start: Instant,
        media_end: Instant,
    ) -> Instant {
        let sectors = read.blocks.end - read.blocks.start;
        let passed = self.bytes(&read.blocks);
        let share = (sectors as f64 * self.watermark_percent / 100.0) as u64;
        let awaited = self.layout.sector_ns(read.blocks.start) * share.clamp(1, sectors);
        let there = (media_start + Duration::from_nanos(awaited)).min(media_end);
        let over = if read.apart {
            let held = read.bus.max(self.interface_free) + self.interface_time(read.bytes - passed);
            held.max(there)
        } else {
            let back = self.overheads.reselect + self.overheads.preparation;
            (there.max(read.bus) + back).max(self.interface_free)
        };
        let last_sector = media_end + self.interface_time(self.sector_bytes);
        last_sector.max(over + self.interface_time(passed)) + self.overheads.read_completion
    }
}
