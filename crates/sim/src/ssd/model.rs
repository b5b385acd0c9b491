//! When a solid-state drive answers.
//!
//! **Booking.** Unlike a hard disk, a solid-state drive serves commands by and large in their order,
//! on resources that work side by side. So each resource (controller, interface each way, channel,
//! die) has a moment from which it is free, and a command books them when it comes; its answer's moment
//! is known at once, and no state machine has to follow it.
//!
//! * A *read* occupies the controller for `read_command`, waits `read_overhead`, then reads its pages
//!   on their dies, brings them over the channels, and over the interface. A die that is programming
//!   or erasing is interrupted where the drive can do that; else the read waits for the end of that
//!   one operation (queued ones come after it).
//! * A *write* crosses the interface into the buffer and is answered there, if there is room; else
//!   when programming has made some; a large one in parts, so that it may be larger than the buffer. The
//!   buffer is written out in units of one programming, to the dies in turn; each unit also bears its
//!   share of copying by the [translation layer](super::ftl), and a die that has filled a block of its own
//!   erases one.
//! * A *flush* of a drive without protection against power loss writes the buffer out and holds up
//!   everything else meanwhile; with it there is nothing to do.
//! * Where the medium is written in place and unbuffered (3D XPoint), a write is answered by its dies.
//!
//! Shared lines (channels, interfaces) are booked from the start of the command, not from the moment
//! the die is done: a command that waits long for its die must not hold up the line for others.
//!
//! Addresses are spread over channels and dies page by page. Not modelled: read-ahead inside the drive,
//! reads served from the write buffer, thermal limits.
//!
//! A cell of several bits holds pages of several kinds, and reading one takes the longer the more levels must be told apart.
//! Where a profile has their times, page after page of a die is of the next kind. Some reads come out at a later attempt only:
//! which, is drawn from a generator of the drive's own.

use super::ftl::{Ftl, SsdState};
use crate::profile::SsdProfile;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use stdx::{Duration, Instant, Prng};

/// Names a unit of programming, in the order in which they are filled.
pub type UnitNumber = u64;

#[derive(Clone, Copy, Debug)]
struct Die {
    read_free: Instant,
    program_free: Instant,
    /// The part of a block that it has written since it erased one.
    erase_debt: f64,
}

/// A unit of data on its way from the buffer to its die.
#[derive(Clone, Copy, Debug)]
struct Unit {
    bytes: u64,
    end: Instant,
}

/// A solid-state drive. See the [module](self).
#[derive(Debug)]
pub struct SsdModel {
    dies: Vec<Die>,
    channels: Vec<Instant>,
    controller: Instant,
    inward: Instant,
    outward: Instant,
    under_way: BinaryHeap<Reverse<Instant>>,
    /// Units that are being programmed, oldest first, numbered from `first_unit`.
    units: VecDeque<Unit>,
    first_unit: UnitNumber,
    open_bytes: u64,
    buffered_bytes: u64,
    /// When the last write got its room in the buffer: the next gets none before.
    room_from: Instant,
    next_die: usize,
    ftl: Option<Ftl>,
    costs: Costs,
    /// Times of reading a page, by its kind.
    page_reads: Vec<Duration>,
    slow: Option<SlowReads>,
}

/// Reads that come out at a later attempt only.
#[derive(Debug)]
struct SlowReads {
    share: f64,
    delay: Duration,
    prng: Prng,
}

impl SlowReads {
    fn new(profile: &SsdProfile) -> Option<SlowReads> {
        let per_million = profile.slow_reads_per_million.as_ref()?.value;
        let delay = micros(profile.slow_read_us.as_ref()?.value);
        let prng = Prng::for_part(profile.sectors.value, &profile.name);
        Some(SlowReads { share: per_million / 1e6, delay, prng })
    }
}

#[derive(Clone, Copy, Debug)]
struct Costs {
    page_bytes: u64,
    read: Duration,
    program_bytes: u64,
    program: Duration,
    erase: Duration,
    /// Units of programming in a block.
    units_per_erase: f64,
    /// Page reads that copying one unit takes.
    copy_reads: f64,
    suspend: Option<Duration>,
    channel_ns_per_byte: f64,
    interface_ns_per_byte: f64,
    read_overhead: Duration,
    write_overhead: Duration,
    read_command: Duration,
    write_command: Duration,
    buffer_bytes: u64,
    protected: bool,
    flush: Duration,
    flush_ignored: bool,
    depth: usize,
}

fn micros(us: f64) -> Duration {
    Duration::from_nanos((us * 1e3).round() as u64)
}

impl SsdModel {
    /// A drive of this profile in this state.
    pub fn new(profile: &SsdProfile, state: SsdState) -> SsdModel {
        let program_bytes = profile.program_kb.value * 1024;
        let costs = Costs {
            page_bytes: profile.page_kb.value * 1024,
            read: micros(profile.read_us.value),
            program_bytes,
            program: micros(profile.program_us.value),
            erase: micros(profile.erase_us.value),
            units_per_erase: profile.erase_mb.value * 1_048_576.0 / program_bytes as f64,
            copy_reads: program_bytes as f64 / (profile.page_kb.value * 1024) as f64,
            suspend: profile.suspend_us.as_ref().map(|given| micros(given.value)),
            channel_ns_per_byte: 1e3 / profile.channel_mb_s.value,
            interface_ns_per_byte: 1e3 / profile.interface_mb_s.value,
            read_overhead: micros(profile.read_overhead_us.value),
            write_overhead: micros(profile.write_overhead_us.value),
            read_command: micros(profile.read_command_us.value),
            write_command: micros(profile.write_command_us.value),
            buffer_bytes: (profile.write_buffer_mb.value * 1_048_576.0) as u64,
            protected: profile.power_loss_protection.value,
            flush: micros(profile.flush_us.value),
            flush_ignored: false,
            depth: profile.queue_depth.value as usize,
        };
        let channels = profile.channels.value as usize;
        let start = Instant::START;
        let page_reads = match &profile.page_read_us {
            Some(times) => times.value.0.iter().map(|us| micros(*us)).collect(),
            None => vec![costs.read],
        };
        let dies = channels * profile.dies_per_channel.value as usize;
        // They come to the ends of their blocks one after another.
        let debt = |die| die as f64 / dies as f64;
        let idle = |die| Die { read_free: start, program_free: start, erase_debt: debt(die) };
        SsdModel {
            dies: (0..dies).map(idle).collect(),
            channels: vec![start; channels],
            controller: start,
            inward: start,
            outward: start,
            under_way: BinaryHeap::new(),
            units: VecDeque::new(),
            first_unit: 0,
            open_bytes: 0,
            buffered_bytes: 0,
            room_from: start,
            next_die: 0,
            ftl: profile.garbage_collection.value.then(|| Ftl::new(profile, state)),
            costs,
            page_reads,
            slow: SlowReads::new(profile),
        }
    }

    /// Whether answered writes may be lost before a flush.
    pub fn volatile(&self) -> bool {
        !self.costs.protected && self.costs.buffer_bytes > 0
    }

    /// Bytes written to flash for each byte of the host, at this moment.
    pub fn write_amplification(&self) -> f64 {
        self.ftl.as_ref().map_or(1.0, Ftl::write_amplification)
    }

    /// Books a read of these bytes; returns when it is answered.
    pub fn read(&mut self, now: Instant, bytes: Range<u64>) -> Instant {
        let costs = self.costs;
        let begun = self.command(now, costs.read_command);
        let ready = begun + costs.read_overhead;
        let (mut at, mut last, mut tail) = (bytes.start, ready, 0);
        while at < bytes.end {
            let page = at / costs.page_bytes;
            let n = (bytes.end - at).min(costs.page_bytes - at % costs.page_bytes);
            let on_die = self.read_die(ready, page);
            let carried = nanos(n as f64 * costs.channel_ns_per_byte);
            let channel = page as usize % self.channels.len();
            let channel = &mut self.channels[channel];
            *channel = ready.max(*channel) + carried;
            last = last.max((on_die + carried).max(*channel));
            tail = n;
            at += n;
        }
        let all = nanos((bytes.end - bytes.start) as f64 * costs.interface_ns_per_byte);
        self.outward = ready.max(self.outward) + all;
        let done = (last + nanos(tail as f64 * costs.interface_ns_per_byte)).max(self.outward);
        self.answer(done)
    }

    /// Books a write of these bytes. Returns when it is answered, and the unit after whose programming
    /// it is on the medium.
    pub fn write(&mut self, now: Instant, bytes: Range<u64>, fua: bool) -> (Instant, UnitNumber) {
        let costs = self.costs;
        let begun = self.command(now, costs.write_command);
        let len = bytes.end - bytes.start;
        let from = begun.max(self.inward);
        let over = |bytes: u64| from + nanos(bytes as f64 * costs.interface_ns_per_byte);
        self.inward = over(len);
        let Some(ftl) = &mut self.ftl else {
            let done = self.write_in_place(self.inward + costs.write_overhead, &bytes);
            return (self.answer(done), 0);
        };
        ftl.write(bytes);
        let amplification = ftl.write_amplification();
        // Small writes still fill whole mapping units on flash; the buffer joins neighbours, so what
        // they cost is taken as their bytes.
        let (mut accepted, mut sent) = (from, 0);
        while sent < len {
            // A write that is larger than the buffer goes through it in parts.
            let part = (len - sent).min(costs.program_bytes);
            sent += part;
            accepted = self.room(over(sent) + costs.write_overhead, part);
            self.open_bytes += part;
            self.buffered_bytes += part;
            while self.open_bytes >= costs.program_bytes {
                self.program(accepted, costs.program_bytes, amplification);
            }
        }
        let unit = self.first_unit + self.units.len() as u64;
        let unit = if self.open_bytes == 0 { unit - 1 } else { unit };
        if fua && !costs.flush_ignored && self.volatile() {
            let done = self.write_out(accepted);
            return (self.answer(done), unit);
        }
        (self.answer(accepted), unit)
    }

    /// Books a write of zeros or a discard, which concern only the tables.
    pub fn forget(&mut self, now: Instant, bytes: Range<u64>) -> Instant {
        let begun = self.command(now, self.costs.write_command);
        if let Some(ftl) = &mut self.ftl {
            ftl.discard(bytes);
        }
        let done = begun + self.costs.write_overhead;
        self.answer(done)
    }

    /// Has flushes, and writes with FUA, answered as if there were nothing to wait for.
    pub fn ignore_flushes(&mut self, ignored: bool) {
        self.costs.flush_ignored = ignored;
    }

    /// Books a flush; returns when it is answered.
    pub fn flush(&mut self, now: Instant) -> Instant {
        let begun = self.command(now, Duration::ZERO);
        if self.costs.flush_ignored {
            return self.answer(begun);
        }
        // What a flush was measured to take has the programming of what was written before in it.
        let mut done = begun + self.costs.flush;
        if self.volatile() {
            done = done.max(self.write_out(begun));
            self.controller = done;
        }
        self.answer(done)
    }

    /// When all whole units that the buffer holds are on the medium. (What fills no unit waits for more.)
    pub fn written_out(&self) -> Option<Instant> {
        self.units.iter().map(|unit| unit.end).max()
    }

    /// Whether this unit is on the medium by `now`.
    pub fn on_medium(&self, unit: UnitNumber, now: Instant) -> bool {
        if unit < self.first_unit {
            return true;
        }
        self.units.get((unit - self.first_unit) as usize).is_some_and(|unit| unit.end <= now)
    }

    /// Cuts the power: forgets all commands and the buffer.
    pub fn cut_power(&mut self, now: Instant) {
        self.first_unit += self.units.len() as u64 + 1;
        self.units.clear();
        self.under_way.clear();
        (self.open_bytes, self.buffered_bytes) = (0, 0);
        for die in &mut self.dies {
            (die.read_free, die.program_free) = (now, now);
        }
        self.channels.fill(now);
        (self.controller, self.inward, self.outward) = (now, now, now);
        self.room_from = now;
    }

    /// Admits a command to the queue and to the controller; returns when it begins.
    fn command(&mut self, now: Instant, occupied: Duration) -> Instant {
        let mut admitted = now;
        while let Some(Reverse(done)) = self.under_way.peek().copied() {
            if done > now && self.under_way.len() < self.costs.depth {
                break;
            }
            admitted = admitted.max(done);
            self.under_way.pop();
        }
        let begun = admitted.max(self.controller);
        self.controller = begun + occupied;
        begun
    }

    fn answer(&mut self, done: Instant) -> Instant {
        self.under_way.push(Reverse(done));
        done
    }

    fn read_die(&mut self, ready: Instant, page: u64) -> Instant {
        let costs = self.costs;
        let dies = self.dies.len();
        let index = page as usize % dies;
        let kind = page as usize / dies % self.page_reads.len();
        let mut read = self.page_reads[kind];
        if let Some(slow) = &mut self.slow
            && slow.prng.chance(slow.share)
        {
            read += slow.delay;
        }
        let die = &mut self.dies[index];
        let mut start = ready.max(die.read_free);
        if die.program_free > start {
            let wait = match costs.suspend {
                Some(suspend) => suspend.min(die.program_free.since(start)),
                None => {
                    let left = die.program_free.since(start).as_nanos() as u64;
                    Duration::from_nanos(left % costs.program.as_nanos().max(1) as u64)
                }
            };
            start += wait;
            die.program_free += read + costs.suspend.unwrap_or_default();
        }
        die.read_free = start + read;
        die.read_free
    }

    /// When the buffer has room for `len` bytes. Writes get it in their order.
    fn room(&mut self, from: Instant, len: u64) -> Instant {
        let mut accepted = from.max(self.room_from);
        while let Some(unit) = self.units.front() {
            let full = self.buffered_bytes + len > self.costs.buffer_bytes;
            if unit.end > accepted && !full {
                break;
            }
            accepted = accepted.max(unit.end);
            self.buffered_bytes -= unit.bytes;
            self.units.pop_front();
            self.first_unit += 1;
        }
        self.room_from = accepted;
        accepted
    }

    /// Sends a unit with `bytes` of the host to the next die.
    fn program(&mut self, from: Instant, bytes: u64, amplification: f64) {
        let costs = self.costs;
        let index = self.next_die;
        self.next_die = (index + 1) % self.dies.len();
        let copied = amplification - 1.0;
        let copy_ns =
            costs.program.as_nanos() as f64 + costs.copy_reads * costs.read.as_nanos() as f64;
        let mut span = costs.program + nanos(copied * copy_ns);
        let die = &mut self.dies[index];
        if self.ftl.as_ref().is_some_and(Ftl::reuses) {
            die.erase_debt += amplification / costs.units_per_erase;
        }
        if die.erase_debt >= 1.0 {
            die.erase_debt -= 1.0;
            span += costs.erase;
        }
        die.program_free = from.max(die.program_free).max(die.read_free) + span;
        self.units.push_back(Unit { bytes, end: die.program_free });
        self.open_bytes -= bytes;
    }

    /// Writes the whole buffer out; returns when that is done.
    fn write_out(&mut self, from: Instant) -> Instant {
        if self.open_bytes > 0 {
            let amplification = self.write_amplification();
            self.program(from, self.open_bytes, amplification);
        }
        self.units.iter().map(|unit| unit.end).fold(from, Instant::max)
    }

    fn write_in_place(&mut self, from: Instant, bytes: &Range<u64>) -> Instant {
        let (unit, span) = (self.costs.program_bytes, self.costs.program);
        let mut last = from;
        for index in bytes.start / unit..bytes.end.div_ceil(unit) {
            let count = self.dies.len();
            let die = &mut self.dies[index as usize % count];
            die.program_free = from.max(die.program_free).max(die.read_free) + span;
            last = last.max(die.program_free);
        }
        last
    }
}

fn nanos(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}
