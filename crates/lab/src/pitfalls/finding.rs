//! Finds pitfalls: facts against evidence, by thresholds that each have their reason here.

use super::{
    DiskSample, Evidence, FlushDoubt, Grid, Link, LinkSpan, Pitfall, ProcessorPart, StreamPace,
    Surroundings,
};
use std::time::Duration;
use stdx::ByteCount;

/// Below this share of the workload's bytes, what the disks moved says that a cache stood in for them.
/// Parity, mirrors and read-ahead only add to what disks do, so an honest run has 1 or more; a cache
/// that holds a small part of the working set takes away a small part.
const CACHED_SHARE: f64 = 0.5;

/// From this many bytes of the disks for each byte of the workload a record that is too large shows. A
/// record of twice the I/O gives 2; metadata and other programs' I/O add some percent.
const AMPLIFIED: f64 = 1.5;

/// From this many bytes read for each byte that a stream writes its stripes were partial: a stream has a partial
/// stripe at its start and where it turns round, and metadata is read now and then.
const STRIPES_READ: f64 = 0.05;

/// From so many reads for each write its stripes were partial, too: of a long write the rest of a stripe is few bytes, but all
/// of it waits until those are read, a turn of the disk or more, and so do those that are under way with it. One write in
/// twenty that waits is a sixth of the rate of a stream of 4 MiB, and most of that of one of 128 KiB; where whole
/// stripes are written there is none in a thousand.
const READS_A_WRITE: f64 = 0.05;

/// What a page cache writes back has other sizes than the workload's writes. Where write-back begins with less than it takes at
/// once, more than one read for each time that it begins are those of the part of a stripe with which it ended: all that is
/// written waits for them, as for those of long writes one at a time. (Where it goes on, the rest of that stripe comes with what
/// follows, and reads are of metadata, for which no data waits.)
/// A file or phase has two such parts anyway, at its start and at its end, for which each disk may read.
const ENDS: u64 = 2;

/// From this share of what a link can carry it is what was measured: the rest is gaps between commands.
const LINK_FULL: f64 = 0.95;
/// A disk whose mechanism is at work for such a share of the time could do no more.
const NEVER_RESTS: f64 = 0.97;
/// A disk carries the load where it moves such a share of what the busiest one does.
const CARRIES: f64 = 0.5;

/// From this share of all cores it is the processor that was measured.
const PROCESSOR_FULL: f64 = 0.95;

/// The same of one thread on one core. Higher, because nobody else's work adds to it: a thread that
/// waits for the storage at all is below.
const THREAD_FULL: f64 = 0.97;

/// Ticks below which the kernel's count of a host's processor time is too coarse to take a share of: a
/// second of one core.
const TICKS_MIN: u64 = 100;

/// The share of what is written that may be compressible or repeated before it is said: block headers
/// and stamps of any load are that much.
const COMPRESSIBLE_SHARE: f64 = 0.05;

/// The free share of a volume below which file systems and pools look long for space and scatter what
/// they find.
const FREE_SHARE: f64 = 0.10;

/// A mean flush below this has put nothing on a platter: a tenth of a turn at 7200 rpm, and a write waits
/// for half a turn on average (2 ms of the 4 ms of the fastest disks, at 15 000 rpm).
const FLUSH_OF_TURNING_DISK_MIN: Duration = Duration::from_micros(833);

/// Flushes below which a mean or a missing count may be chance.
const FLUSHES_MIN: u64 = 20;

/// The pitfalls that facts and evidence show, in a fixed order, each at most once.
pub fn find(surroundings: &Surroundings, evidence: &Evidence) -> Vec<Pitfall> {
    let mut found = Vec::new();
    cached(surroundings, evidence, &mut found);
    found.extend(ssd_state(surroundings, evidence));
    found.extend(record_size(surroundings, evidence));
    found.extend(partial_stripes(surroundings, evidence));
    found.extend(misaligned(surroundings, evidence));
    found.extend(flush_ignored(surroundings, evidence).map(Pitfall::FlushIgnored));
    found.extend(saturated_link(surroundings, evidence));
    found.extend(saturated_processor(surroundings, evidence));
    found.extend(compressible(surroundings, evidence));
    found.extend(smaller_than_memory(surroundings, evidence));
    found.extend(nearly_full(surroundings));
    found
}

fn cached(surroundings: &Surroundings, evidence: &Evidence, found: &mut Vec<Pitfall>) {
    let demand = &evidence.demand;
    let disks = evidence.all_disks().filter(|_| !demand.disks_do_more);
    let Some(disks) = disks else { return };
    let less = |disks: u64, workload: u64| (disks as f64) < CACHED_SHARE * workload as f64;
    if less(disks.read_bytes, demand.reads.bytes) {
        let (disks, workload) = (ByteCount(disks.read_bytes), ByteCount(demand.reads.bytes));
        found.push(Pitfall::Cached { disks, workload });
    } else {
        found.extend(cached_by_disks(surroundings, evidence));
    }
    if less(disks.written_bytes, demand.writes.bytes) {
        let (disks, workload) = (ByteCount(disks.written_bytes), ByteCount(demand.writes.bytes));
        found.push(Pitfall::CachedWrites { disks, workload });
    } else if evidence.caches_fill() {
        let (taken, written) = evidence.taken_by_caches();
        found.push(Pitfall::FillingCaches { taken, written });
    }
}

/// Reads at random places that the disks' caches answered, which hold a good part of what is read. (Of a stream they answer all:
/// heads have read it ahead.)
fn cached_by_disks(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let demand = &evidence.demand;
    let (caches, set) = (surroundings.disk_caches?, demand.read_set?);
    let disks = evidence.all_disks().filter(|_| demand.random && !demand.disks_do_more)?;
    let (reads, answered) = (disks.reads, disks.reads_from_cache?);
    let shows = demand.reads.ios > 0
        && answered as f64 > CACHED_SHARE * reads as f64
        && caches.bytes() as f64 > CACHED_SHARE * set.bytes() as f64;
    shows.then_some(Pitfall::CachedByDisks { reads, answered, caches, set, phase: None })
}

/// What is only read costs the same in all states.
fn ssd_state(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let writes = evidence.demand.writes.ios > 0;
    surroundings.ssds.clone().filter(|_| writes).map(Pitfall::SsdState)
}

/// A sequential load fills whole records however small its I/Os are.
fn record_size(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let demand = &evidence.demand;
    let (record, io) = (surroundings.record?, demand.mean_io()?);
    if !demand.random || (record.bytes() as f64) < AMPLIFIED * io.bytes() as f64 {
        return None;
    }
    let amplification = evidence.all_disks().filter(|_| !demand.disks_do_more).map(|disks| {
        let moved = (disks.read_bytes + disks.written_bytes) as f64;
        moved / (demand.reads.bytes + demand.writes.bytes).max(1) as f64
    });
    // Where the disks are seen they have the last word: a cache may hold the records.
    let shows = amplification.is_none_or(|times| times >= AMPLIFIED);
    shows.then_some(Pitfall::RecordSize { io, record, amplification })
}

/// Adds what the phases of a tool ran into that the run as a whole was not found to, each of the phase in which it is worst: writes
/// of partial stripes, by what was read for each byte written, and reads that the disks' own caches answered. Each phase comes
/// with its facts and what was seen in it.
pub fn add_phases<'a>(
    phases: impl Iterator<Item = (&'a str, Surroundings, Evidence)>,
    found: &mut Vec<Pitfall>,
) {
    let mut worst: Vec<(f64, Pitfall)> = Vec::new();
    for (name, surroundings, evidence) in phases {
        let ones =
            [partial_stripes(&surroundings, &evidence), cached_by_disks(&surroundings, &evidence)];
        for mut one in ones.into_iter().flatten() {
            let name = name.to_owned();
            let much = match &mut one {
                Pitfall::PartialStripes { phase, read, written, .. } => {
                    *phase = Some(name);
                    read.bytes() as f64 / written.bytes() as f64
                }
                Pitfall::CachedByDisks { phase, reads, answered, .. } => {
                    *phase = Some(name);
                    *answered as f64 / *reads as f64
                }
                _ => continue,
            };
            match worst.iter_mut().find(|(_, known)| known.id() == one.id()) {
                Some(known) if known.0 >= much => {}
                Some(known) => *known = (much, one),
                None => worst.push((much, one)),
            }
        }
    }
    for (_, one) in worst {
        if !found.iter().any(|known| known.id() == one.id()) {
            found.push(one);
        }
    }
}

/// Small writes at random places have no whole stripes to offer: what they cost on parity is no pitfall but the price.
fn partial_stripes(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let (stripe, demand) = (surroundings.stripe?, &evidence.demand);
    if demand.random || demand.disks_do_more || demand.reads.ios > 0 || demand.writes.bytes == 0 {
        return None;
    }
    let (disks, writes) = (evidence.all_disks()?, demand.writes);
    let written = writes.bytes as f64;
    let write_back = surroundings.write_back.filter(|_| surroundings.buffered == Some(true));
    let shows = match write_back {
        None => {
            disks.read_bytes as f64 > STRIPES_READ * written
                || disks.reads as f64 > READS_A_WRITE * writes.ios as f64
        }
        Some(write_back) => {
            let of_ends = ENDS * evidence.disks.len() as u64;
            let bytes_of_ends = (stripe.of_set * ENDS).bytes();
            let batches = written / write_back.begins_at.bytes().max(1) as f64;
            disks.read_bytes.saturating_sub(bytes_of_ends) as f64 > STRIPES_READ * written
                || write_back.is_short() && disks.reads.saturating_sub(of_ends) as f64 > batches
        }
    };
    let pace = demand.depth.map(|under_way| StreamPace {
        under_way,
        apart: evidence.span.mul_f64(demand.streams.max(1) as f64 / writes.ios.max(1) as f64),
        link_is_full: full_link(surroundings, evidence).is_some(),
    });
    shows.then_some(Pitfall::PartialStripes {
        read: ByteCount(disks.read_bytes),
        written: ByteCount(writes.bytes),
        reads: disks.reads,
        writes: writes.ios,
        stripe,
        phase: None,
        write_back,
        pace,
    })
}

fn misaligned(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let demand = &evidence.demand;
    let mean_write = demand.writes.bytes.checked_div(demand.writes.ios).map(ByteCount);
    surroundings.partitions.iter().find_map(|partition| {
        let off = |unit: ByteCount| {
            let start = i128::from(partition.start.bytes());
            (start - i128::from(partition.origin.bytes())).rem_euclid(i128::from(unit.bytes())) != 0
        };
        let matters = |grid: Grid, unit: ByteCount| match grid {
            Grid::PhysicalBlock | Grid::Chunk => true,
            // Only who writes whole rows loses by a row that begins elsewhere.
            Grid::Stripe => mean_write.is_some_and(|write| write >= unit),
        };
        let grids = partition.grids.iter();
        let wrong = grids.filter(|(_, unit)| unit.bytes() > 0);
        let (grid, unit) = wrong.copied().find(|&(grid, unit)| matters(grid, unit) && off(unit))?;
        let (partition, start) = (partition.name.clone(), partition.start);
        Some(Pitfall::Misaligned { partition, start, grid, unit })
    })
}

fn flush_ignored(surroundings: &Surroundings, evidence: &Evidence) -> Option<FlushDoubt> {
    let (facts, demand) = (surroundings.flush, &evidence.demand);
    // What survives the power may ignore a flush.
    let forgets = facts.volatile_cache;
    if facts.honoured == Some(false) && forgets != Some(false) && demand.writes.ios > 0 {
        return Some(FlushDoubt::Known);
    }
    // Flushes with nothing to write are free, and rightly so.
    let meaningful = demand.flushes >= FLUSHES_MIN && demand.writes.ios >= demand.flushes;
    if !meaningful || forgets != Some(true) || facts.honoured == Some(true) {
        return None;
    }
    let disks = evidence.all_disks()?;
    if disks.flushes.is_some_and(|seen| seen.ios == 0) && facts.fua == Some(false) {
        return (disks.writes > 0).then_some(FlushDoubt::NotPassedOn { flushes: demand.flushes });
    }
    let mean = mean_flush(evidence).filter(|_| facts.rotational == Some(true))?;
    (mean < FLUSH_OF_TURNING_DISK_MIN).then_some(FlushDoubt::TooFast { mean })
}

/// How long a flush took on average: the workload's, which waits for all disks; else that of the disk
/// whose flushes took longest, since others may have had nothing to write.
fn mean_flush(evidence: &Evidence) -> Option<Duration> {
    let mean = |time: Duration, flushes: u64| time / u32::try_from(flushes).unwrap_or(u32::MAX);
    if let Some(time) = evidence.demand.flush_time {
        return Some(mean(time, evidence.demand.flushes));
    }
    let disks = evidence.disks.iter().filter_map(|disk| disk.flushes);
    disks.filter(|seen| seen.ios >= FLUSHES_MIN).map(|seen| mean(seen.time, seen.ios)).max()
}

/// The bytes of some I/Os that pass a link one way, the fuller one.
fn passed(link: &Link, reads: u64, writes: u64) -> u64 {
    if link.full_duplex { reads.max(writes) } else { reads + writes }
}

fn passed_to(link: &Link, disk: &DiskSample) -> u64 {
    passed(link, disk.read_bytes, disk.written_bytes)
}

/// What the link carried, its fullest one where each disk has its own (10⁶ B/s), where that is about all that it can.
fn full_link(surroundings: &Surroundings, evidence: &Evidence) -> Option<(Link, f64)> {
    let link = surroundings.link?;
    let seconds = evidence.span.as_secs_f64();
    let demand = &evidence.demand;
    let bytes = match link.span {
        LinkSpan::Volume => passed(&link, demand.reads.bytes, demand.writes.bytes),
        LinkSpan::AllDisks => passed_to(&link, &evidence.all_disks()?),
        LinkSpan::EachDisk => evidence.disks.iter().map(|disk| passed_to(&link, disk)).max()?,
    };
    let rate_mb_s = bytes as f64 / 1e6 / seconds;
    (seconds > 0.0 && rate_mb_s >= LINK_FULL * link.limit_mb_s).then_some((link, rate_mb_s))
}

fn saturated_link(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let (link, rate_mb_s) = full_link(surroundings, evidence)?;
    let seconds = evidence.span.as_secs_f64();
    // Disks whose mechanism never rests are the limit themselves, unless their caches take what the mechanisms can't. Only those
    // count that carry the load: of a mirror that reads from one side the other rests, and hides nothing.
    let bytes = |disk: &DiskSample| passed_to(&link, disk) as f64;
    let busiest = evidence.disks.iter().map(bytes).fold(0.0, f64::max);
    let least = match link.span {
        LinkSpan::EachDisk => LINK_FULL * link.limit_mb_s * 1e6 * seconds,
        LinkSpan::Volume | LinkSpan::AllDisks => CARRIES * busiest,
    };
    let mut carriers = evidence.disks.iter().filter(|disk| bytes(disk) >= least);
    // One that only writes what comes, as it comes, has no rest either, and could do more.
    let waits = |disk: &DiskSample| disk.keeps_up && disk.written_bytes > disk.read_bytes;
    let never_rests =
        |disk: &DiskSample| disk.at_work.as_secs_f64() >= NEVER_RESTS * seconds && !waits(disk);
    let is_hidden = evidence.caches_fill() || !carriers.all(never_rests);
    is_hidden.then_some(Pitfall::SaturatedLink { rate_mb_s, limit_mb_s: link.limit_mb_s })
}

/// The narrowest part first: it is the one to mend.
fn saturated_processor(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let seconds = evidence.span.as_secs_f64();
    if seconds <= 0.0 {
        return None;
    }
    let full = |part, share: f64| {
        // Counters are read one after another; a share may come out a little above 1.
        Some(Pitfall::SaturatedProcessor { part, share: share.min(1.0) })
    };
    if let Some(cores) = surroundings.cores {
        let share = evidence.processor.as_secs_f64() / seconds / f64::from(cores.max(1));
        if share >= PROCESSOR_FULL {
            return full(ProcessorPart::Process { cores }, share);
        }
    }
    if let Some(thread) = evidence.load_thread {
        let share = thread.as_secs_f64() / seconds;
        if share >= THREAD_FULL {
            return full(ProcessorPart::LoadThread, share);
        }
    }
    let host = evidence.host.filter(|host| host.total >= TICKS_MIN)?;
    let share = host.busy as f64 / host.total as f64;
    if share >= PROCESSOR_FULL { full(ProcessorPart::Host, share) } else { None }
}

fn compressible(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let content = surroundings.content?;
    let shows = content.zeros
        || content.compressible > COMPRESSIBLE_SHARE
        || content.duplicates > COMPRESSIBLE_SHARE;
    (shows && evidence.demand.writes.ios > 0).then_some(Pitfall::Compressible { content })
}

fn smaller_than_memory(surroundings: &Surroundings, evidence: &Evidence) -> Option<Pitfall> {
    let demand = &evidence.demand;
    let (memory, set) = (surroundings.memory?, demand.read_set?);
    let read = surroundings.buffered == Some(true) && demand.reads.ios > 0 && !demand.read_cold;
    (read && set < memory).then_some(Pitfall::SmallerThanMemory { set, memory })
}

fn nearly_full(surroundings: &Surroundings) -> Option<Pitfall> {
    let (free, total) = surroundings.space?;
    let full = (free.bytes() as f64) < FREE_SHARE * total.bytes() as f64;
    full.then_some(Pitfall::NearlyFull { free, total })
}

#[cfg(test)]
mod tests {
    //! What could break: a stream, which disks read ahead, taken for one that their caches hold; and a hit by chance.

    use super::super::{Demand, Moved};
    use super::*;

    #[test]
    fn reads_that_disks_caches_answer_are_found_where_they_are_random_and_hold_a_good_part() {
        let shows = |caches, answered, random| {
            let disk =
                DiskSample { reads: 100, reads_from_cache: answered, ..DiskSample::default() };
            let demand = Demand {
                reads: Moved { ios: 100, bytes: 100 << 13 },
                read_set: Some(ByteCount::mib(64)),
                random,
                ..Demand::default()
            };
            let evidence = Evidence { demand, disks: vec![disk], ..Evidence::default() };
            let surroundings = Surroundings { disk_caches: caches, ..Surroundings::default() };
            cached_by_disks(&surroundings, &evidence).is_some()
        };
        let (small, large) = (Some(ByteCount::mib(16)), Some(ByteCount::mib(48)));
        assert!(shows(large, Some(70), true));
        assert!(!shows(large, Some(70), false), "a stream");
        assert!(!shows(large, Some(40), true), "most were read");
        assert!(!shows(small, Some(70), true), "small files in their order");
        assert!(!shows(None, Some(70), true) && !shows(large, None, true), "not known");
    }
}
