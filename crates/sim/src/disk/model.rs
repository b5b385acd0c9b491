//! The behaviour of a hard disk over time, as a state machine without bytes.
//!
//! **What passes through.** A command is [submitted](DiskModel::submit); later
//! [`advance`](DiskModel::advance) yields [`Effect`]s: that the data of a write has entered the buffer,
//! that blocks have reached the medium, that a command is answered. Who owns the model moves the bytes
//! as the effects say, calls `advance` at each [`next_event`](DiskModel::next_event), and never before.
//!
//! **The parts.** The *interface* carries one transfer at a time; that of a read goes on while the
//! medium is read. The *mechanism* (arm and medium) does one thing at a time: a read, a write, a
//! write-back, or reading ahead, which it leaves for anything else. The *queue* holds up to
//! `queue_depth` commands; more wait outside in their order.
//!
//! **The rules, in order.**
//!
//! 1. A read that the buffers hold whole is answered over the interface. One that continues the stream
//!    being read ahead is answered when the medium has come to its end. Any other queues for the
//!    mechanism, for the part that is missing.
//! 2. A write crosses the interface first. With the write cache on it is answered then, unless the
//!    buffer is full: then when a write-back has made room. FUA, or the cache off: it queues for the
//!    mechanism and is answered when it is on the medium.
//! 3. The mechanism takes the command with the shortest positioning time (seek, then the wait for the
//!    sector to come round; Seltzer, Chen and Ousterhout 1990; Jacobson and Wilkes 1991), less what it
//!    has on account of its age, among the oldest `reorder_depth`; or the oldest one when it is older
//!    than the age limit and as many have gone before it. Commands that follow one another are a run, of which the first alone is looked at: else a
//!    run that was entered in its midst leaves pieces behind, and coming back for them leaves others, for as long as there is
//!    a queue. They follow one another where no more than twice their length lies between: the parity of a set, which the
//!    heads pass.
//! 4. Write-backs take part in that choice when no command waits, when the buffer is half full, when
//!    writes wait for room, and in a flush. Only the stretches nearest to the head are looked at;
//!    or, of a disk that writes back in sweeps, the next one.
//! 5. A flush is not a queued command (ATA: FLUSH CACHE EXT is non-data): it begins when everything
//!    before it is answered, holds up everything after it, and ends when nothing is dirty.
//! 6. A write that does not cover whole physical sectors costs a revolution more: they are read first. A part of a stretch that is
//!    written back ends with a whole one, so that only the ends of the stretch cost it.
//! 7. After a read the mechanism reads ahead while it has nothing else to do, up to a limit beyond
//!    what was asked for.
//! 8. Write-backs wait for a stream (reads of which one goes on from what the buffer holds): they don't end its reading ahead,
//!    nor do they begin within `PATIENCE` after its last read. With half of the buffer in use, or half of the pieces that it
//!    can remember, they wait no longer; and a buffer that was half full so has them take part in the choice until it is down to a
//!    quarter.
//!
//! How long the electronics take for a command, [`Overheads`] says. Where a profile says so, reading and writing begin in the
//! middle of what is asked for (*on arrival*: within a track), and what passes before it is read along. Some reads come out at a
//! later attempt only, where the profile says how many and how much later.
//!
//! Not modelled: thermal recalibration, media errors, adaptive read-ahead, the time to load heads or spin up.

use super::cache::ReadCache;
use super::geometry::{Layout, Place};
use super::overheads::Overheads;
use super::read_ahead::AheadRules;
use super::seek::SeekCurve;
use super::slow_reads::SlowReads;
use super::stretches::Stretches;
use crate::profile::{DiskProfile, Given, WriteBackOrder};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use stdx::{Duration, Instant, Prng};

mod ahead;
mod choice;
mod reading;
mod writing;

/// Revolutions for which write-backs wait for a stream's next read. What they would cost it is about that: the way to them and
/// back, twice a seek (about a revolution) and half a revolution. Who waits for as long as leaving would cost loses twice the
/// best at the most.
const PATIENCE: u32 = 3;

/// Names a command; its owner chooses it.
pub type CommandId = usize;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads.
    Read,
    /// Writes.
    Write {
        /// Answered only when it is on the medium.
        fua: bool,
        /// Whether data crosses the interface (not so for write-zeroes).
        data: bool,
    },
    /// Makes all answered writes durable.
    Flush,
}

/// A command to the disk.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its name.
    pub id: CommandId,
    /// What.
    pub action: Action,
    /// Which blocks; none for a flush.
    pub blocks: Range<u64>,
}

/// What became of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The data of this write is in the buffer: later reads see it, a power cut loses it.
    Buffered(CommandId),
    /// The data of this write is on the medium, without having been in the buffer.
    Written(CommandId),
    /// These blocks went from the buffer to the medium.
    WrittenBack(Range<u64>),
    /// The command is answered.
    Done(CommandId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A write is understood, and its data has crossed the interface where it goes into the buffer.
    Crossed(usize),
    /// The command of this name is answered.
    Answered(CommandId),
    /// The mechanism may be free; the number tells a stale event from a live one.
    Free(u64),
}

/// A command that needs the mechanism.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    id: CommandId,
    write: bool,
    /// Blocks that the mechanism has to pass; fewer than were asked for where some are in the buffer.
    blocks: Range<u64>,
    bytes: u64,
    pub(super) place: Place,
    /// The angle of its first block.
    angle_ns: u64,
    arrived: Instant,
    /// The arm may start.
    ready: Instant,
    /// Of a read: the bus may carry it. Of a write: the bus is free of it.
    bus: Instant,
    /// Of a write: heads may begin, so that data comes over in time.
    data: Instant,
    /// Of a read: its first part is in the buffer. Of a write: it has left the bus twice.
    apart: bool,
    /// Commands that arrived later and went before it.
    overtaken: u64,
    /// Write-backs that went before it.
    written_back: u64,
    /// The command in the queue that it goes on from: it is not looked at before that one is done.
    behind: Option<CommandId>,
}

#[derive(Clone, Debug)]
enum Job {
    Read(Waiting),
    Write(Waiting),
    WriteBack(Range<u64>),
}

#[derive(Debug)]
enum Mechanism {
    Idle,
    Busy { job: Job, media_start: Instant, passed: Passed, end: Place },
    Ahead(Ahead),
}

/// The flush under way.
#[derive(Clone, Copy, Debug)]
struct Flush {
    id: CommandId,
    /// Nothing is dirty any more; its answer is on the way.
    ended: bool,
}

/// A write whose command is being understood.
#[derive(Clone, Debug)]
struct Crossing {
    command: Command,
    /// The bus is free of it.
    bus: Instant,
    /// Heads may begin.
    data: Instant,
    /// It leaves the bus before its data, too.
    extra: bool,
}

/// Reading ahead: from a block, since a moment (which may lie in the future), to a limit.
#[derive(Clone, Debug)]
struct Ahead {
    from: u64,
    from_ns: u64,
    since: Instant,
    /// Up to here it has been entered into the buffer.
    noted: u64,
    limit: u64,
    /// Until then requests count on it.
    promised: Instant,
    /// Up to here it is counted as work.
    counted: Instant,
    /// When the last read of a stream came, if it follows one.
    stream_read: Option<Instant>,
}

/// How the heads come to what they do.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    /// Sectors before it that are read along.
    before: u64,
    /// They began in its middle, so that they don't end at its end.
    on_arrival: bool,
}

/// A hard disk. See the [module](self).
#[derive(Debug)]
pub struct DiskModel {
    pub(super) layout: Layout,
    pub(super) seek: SeekCurve,
    phase_ns: u64,
    sector_bytes: u64,
    physical_sectors: u64,
    overheads: Overheads,
    minimum_write_seek_ns: u64,
    /// Of what is read, and of what is written.
    interface_ns_per_byte: [f64; 2],
    queue_depth: usize,
    reorder_depth: usize,
    /// What having been overtaken once is worth.
    overtaken_ns: u64,
    age_limit: Duration,
    ahead_rules: AheadRules,
    reads_what_passes: bool,
    read_on_arrival: bool,
    write_on_arrival: bool,
    reads_hit_writes: bool,
    watermark_percent: f64,
    sweeps: bool,
    slow_reads: Option<SlowReads>,
    write_cache: bool,
    flush_ignored: bool,
    dirty_sectors_max: u64,
    stretches_max: usize,

    /// Time in which heads and arm were at work, but for what is under way.
    worked: Duration,
    /// Since when they are busy with a job.
    busy_since: Instant,

    /// Reads for which the buffer had, or got meanwhile, all that was asked for.
    answered_from_buffer: u64,

    /// Where the last write ended, if the last command was one.
    after_write: Option<u64>,
    interface_free: Instant,
    mechanism: Mechanism,
    mechanism_number: u64,
    head: Place,
    head_lba: u64,
    queue: Vec<Waiting>,
    outside: VecDeque<Command>,
    outstanding: usize,
    flushing: Option<Flush>,
    crossing: Vec<Option<Crossing>>,
    crossing_free: Vec<usize>,
    for_room: VecDeque<Command>,
    dirty: Stretches,
    /// Write-backs waited for a stream until the buffer was half full, and it is not down to a quarter yet.
    draining: bool,
    reads: ReadCache,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    event_number: u64,
}

impl DiskModel {
    /// A disk of this profile, its platters in a random phase.
    pub fn new(profile: &DiskProfile, prng: &mut Prng) -> DiskModel {
        let layout = Layout::new(profile);
        let seek = SeekCurve::new(profile, layout.cylinders());
        let sector_bytes = profile.sector_bytes.value;
        let sectors = |mb: f64| ((mb * 1_048_576.0) as u64 / sector_bytes).max(1);
        let segments = profile.read_segments.value;
        let segment_sectors = (sectors(profile.read_cache_mb.value) / segments).max(1);
        let overheads = Overheads::new(profile);
        let is = |given: &Option<Given<bool>>| given.as_ref().is_some_and(|given| given.value);
        DiskModel {
            phase_ns: prng.below(layout.revolution_ns()),
            sector_bytes,
            physical_sectors: profile.physical_sector_bytes.value / sector_bytes,
            minimum_write_seek_ns: overheads.minimum_write_seek.as_nanos() as u64,
            overheads,
            interface_ns_per_byte: [
                1e3 / profile.interface_mb_s.value,
                1e3 / profile
                    .interface_write_mb_s
                    .as_ref()
                    .unwrap_or(&profile.interface_mb_s)
                    .value,
            ],
            queue_depth: profile.queue_depth.value as usize,
            reorder_depth: profile.reorder_depth.value as usize,
            overtaken_ns: (layout.revolution_ns() as f64 / profile.age_commands.value) as u64,
            age_limit: Duration::from_nanos((profile.age_limit_ms.value * 1e6) as u64),
            ahead_rules: AheadRules::new(profile, segment_sectors),
            reads_what_passes: is(&profile.reads_what_passes),
            read_on_arrival: is(&profile.read_on_arrival),
            write_on_arrival: is(&profile.write_on_arrival),
            reads_hit_writes: is(&profile.reads_hit_writes),
            sweeps: profile.write_back_order.as_ref().map(|o| o.value)
                == Some(WriteBackOrder::Sweep),
            slow_reads: SlowReads::new(profile, prng),
            watermark_percent: profile.read_watermark_percent.as_ref().map_or(0.0, |p| p.value),
            write_cache: profile.write_cache_enabled.value,
            flush_ignored: false,
            dirty_sectors_max: sectors(profile.write_cache_mb.value),
            stretches_max: profile.write_cache_extents.value as usize,
            worked: Duration::ZERO,
            busy_since: Instant::START,
            answered_from_buffer: 0,
            after_write: None,
            interface_free: Instant::START,
            mechanism: Mechanism::Idle,
            mechanism_number: 0,
            head: layout.locate(0),
            head_lba: 0,
            queue: Vec::new(),
            outside: VecDeque::new(),
            outstanding: 0,
            flushing: None,
            crossing: Vec::new(),
            crossing_free: Vec::new(),
            for_room: VecDeque::new(),
            dirty: Stretches::default(),
            draining: false,
            reads: ReadCache::new(segments as usize, segment_sectors),
            events: BinaryHeap::new(),
            event_number: 0,
            layout,
            seek,
        }
    }

    /// The layout of the platters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether answered writes may be lost before a flush.
    pub fn write_cache(&self) -> bool {
        self.write_cache
    }

    /// Gives the platters a phase, as when they were spun up anew.
    pub fn set_phase(&mut self, prng: &mut Prng) {
        self.phase_ns = prng.below(self.layout.revolution_ns());
    }

    /// Turns the write cache on or off, before the first command.
    pub fn set_write_cache(&mut self, on: bool) {
        assert!(self.outstanding == 0 && self.dirty.is_empty(), "the disk is idle and clean");
        self.write_cache = on;
    }

    /// Has flushes, and writes with FUA, answered as if there were nothing to wait for, as disks do that
    /// lie about their cache.
    pub fn ignore_flushes(&mut self, ignored: bool) {
        self.flush_ignored = ignored;
    }

    /// The parts of `blocks` that are in the write buffer and not on the medium.
    pub fn buffered(&self, blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let writing = match &self.mechanism {
            Mechanism::Busy { job: Job::WriteBack(writing), .. } => writing.clone(),
            _ => 0..0,
        };
        let writing = writing.start.max(blocks.start)..writing.end.min(blocks.end);
        let writing = (writing.start < writing.end).then_some(writing);
        self.dirty.within(blocks).chain(writing)
    }

    /// How many blocks of writes wait in the buffer, or are on their way out of it.
    pub fn buffered_blocks(&self) -> u64 {
        let writing = match &self.mechanism {
            Mechanism::Busy { job: Job::WriteBack(writing), .. } => writing.end - writing.start,
            _ => 0,
        };
        self.dirty.total() + writing
    }

    /// Whether less than half of the buffer is taken by writes: the heads keep up with what comes.
    pub fn keeps_up(&self) -> bool {
        !self.is_full_to(2)
    }

    /// The moment at which [`advance`](DiskModel::advance) is due.
    pub fn next_event(&self) -> Option<Instant> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes a command. Effects come from [`advance`](DiskModel::advance).
    pub fn submit(&mut self, now: Instant, command: Command) {
        self.outside.push_back(command);
        self.admit(now);
    }

    /// Does what is due by `now`, and adds to `effects` what came of it.
    pub fn advance(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
            if at > now {
                return;
            }
            self.events.pop();
            match event {
                Event::Answered(id) => {
                    effects.push(Effect::Done(id));
                    if self.flushing.is_some_and(|flush| flush.id == id) {
                        self.flushing = None;
                    }
                    self.outstanding -= 1;
                    self.admit(at);
                }
                Event::Crossed(slot) => {
                    let crossing = self.crossing[slot].take().expect("a slot holds its command");
                    self.crossing_free.push(slot);
                    self.take_write(at, crossing, effects);
                }
                Event::Free(number) if number == self.mechanism_number => {
                    self.finish(at, effects);
                    self.start_next(at);
                }
                Event::Free(_) => {}
            }
        }
    }

    /// For how long heads and arm were at work until now: reading, reading ahead, writing, writing back. Not what a
    /// host sees: a write is answered from the buffer, and a read of a stream has been read before.
    pub fn at_work(&mut self, now: Instant) -> Duration {
        self.count_ahead(now);
        match &self.mechanism {
            Mechanism::Busy { .. } => self.worked + now.since(self.busy_since),
            _ => self.worked,
        }
    }

    /// Reads that were answered from the buffer until now, without the arm going there.
    pub fn answered_from_buffer(&self) -> u64 {
        self.answered_from_buffer
    }

    /// Cuts the power: forgets all commands and all buffers. A write-back or write that was under way
    /// has reached the medium up to a sector between where it was and, torn, where the head was:
    /// returned are those blocks, and the command where it was a write of its own.
    pub fn cut_power(&mut self, now: Instant) -> Option<(Range<u64>, Option<CommandId>)> {
        let torn = match std::mem::replace(&mut self.mechanism, Mechanism::Idle) {
            Mechanism::Busy { job, media_start, .. } if now > media_start => {
                let (blocks, id) = match job {
                    Job::Write(waiting) => (waiting.blocks, Some(waiting.id)),
                    Job::WriteBack(blocks) => (blocks, None),
                    Job::Read(_) => (0..0, None),
                };
                let from = self.layout.locate(blocks.start.min(self.layout.sectors() - 1));
                let passed = now.since(media_start).as_nanos() as u64;
                let reached = self.layout.reached(from.unrolled_ns + passed).min(blocks.end);
                // A physical sector is written whole or not at all.
                let whole = reached - reached % self.physical_sectors;
                (whole > blocks.start).then_some((blocks.start..whole, id))
            }
            _ => None,
        };
        self.mechanism_number += 1;
        self.queue.clear();
        self.outside.clear();
        self.crossing.clear();
        self.crossing_free.clear();
        self.for_room.clear();
        self.dirty.clear();
        self.draining = false;
        self.reads.clear();
        self.events.clear();
        self.outstanding = 0;
        self.after_write = None;
        self.flushing = None;
        torn
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.event_number += 1;
        self.events.push(Reverse((at, self.event_number, event)));
    }

    fn schedule_free(&mut self, at: Instant) {
        self.mechanism_number += 1;
        self.schedule(at, Event::Free(self.mechanism_number));
    }

    /// Lets commands in from outside, as far as the queue and a flush allow.
    fn admit(&mut self, now: Instant) {
        while let Some(command) = self.outside.front() {
            let flush = command.action == Action::Flush;
            let full = self.outstanding >= self.queue_depth;
            if self.flushing.is_some() || full || flush && self.outstanding > 0 {
                return;
            }
            let command = self.outside.pop_front().expect("it was just seen");
            self.outstanding += 1;
            match command.action {
                Action::Flush if self.flush_ignored => {
                    self.schedule(now + self.overheads.command, Event::Answered(command.id));
                }
                Action::Flush => {
                    self.flushing = Some(Flush { id: command.id, ended: false });
                    self.poke(now);
                    self.end_flush(now);
                }
                Action::Read => {
                    self.begin_read(now, command);
                    self.after_write = None;
                }
                Action::Write { .. } => {
                    let end = command.blocks.end;
                    self.begin_write(now, command);
                    self.after_write = Some(end);
                }
            }
        }
    }

    fn bytes(&self, blocks: &Range<u64>) -> u64 {
        (blocks.end - blocks.start) * self.sector_bytes
    }

    /// How long bytes that are read take over the interface.
    fn interface_time(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes as f64 * self.interface_ns_per_byte[0]) as u64)
    }

    /// Likewise those that are written.
    fn interface_time_in(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes as f64 * self.interface_ns_per_byte[1]) as u64)
    }

    /// Something new may need the mechanism.
    fn poke(&mut self, now: Instant) {
        match &self.mechanism {
            Mechanism::Busy { .. } => {}
            Mechanism::Idle | Mechanism::Ahead(_) => self.start_next(now),
        }
    }

    /// The mechanism has done its job.
    fn finish(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if let Mechanism::Busy { .. } = &self.mechanism {
            self.worked += now.since(self.busy_since);
        }
        match std::mem::replace(&mut self.mechanism, Mechanism::Idle) {
            Mechanism::Busy { job: Job::Read(read), media_start, passed, end: place } => {
                self.park_head(read.blocks.end, place);
                let done = self.transferred(&read, media_start, now);
                self.interface_free = done;
                self.schedule(done, Event::Answered(read.id));
                let Range { start, end } = read.blocks;
                let before = start.checked_sub(1).and_then(|block| self.reads.stretch(block));
                self.reads.fill(start - passed.before..end);
                self.read_on(now, end, passed.on_arrival, before.is_some());
            }
            Mechanism::Busy { job: Job::Write(write), end, .. } => {
                self.park_head(write.blocks.end, end);
                // What the buffer still had of these blocks is older.
                self.dirty.remove(write.blocks, &self.layout);
                self.note_drained();
                effects.push(Effect::Written(write.id));
                let back = match write.apart {
                    true => self.overheads.reselect_again,
                    false => self.overheads.reselect,
                };
                let done = now.max(write.bus) + back + self.overheads.write_completion;
                self.schedule(done, Event::Answered(write.id));
            }
            Mechanism::Busy { job: Job::WriteBack(blocks), end, .. } => {
                self.park_head(blocks.end, end);
                effects.push(Effect::WrittenBack(blocks));
                self.make_room(now, effects);
                self.end_flush(now);
            }
            ahead => self.mechanism = ahead,
        }
    }

    fn park_head(&mut self, end: u64, place: Place) {
        self.head_lba = end;
        self.head = place;
    }
}
