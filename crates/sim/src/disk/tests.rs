//! What could break: a disk that is faster or slower than its data sheet. The tests know the sheet
//! and the model's effects only, not its inside.

use super::model::{Action, Command, CommandId, DiskModel, Effect};
use crate::profile::{DiskProfile, Profile, load, names};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::{Duration, Instant, Prng};

pub(crate) fn disk_profile(name: &str) -> DiskProfile {
    match load(name) {
        Ok(Profile::Disk(profile)) => *profile,
        other => panic!("{name} is a disk, not {other:?}"),
    }
}

fn is_of_a_sheet(disk: &DiskProfile) -> bool {
    disk.zone_table.is_none() && disk.slow_reads_per_million.is_none()
}

/// Those that stand on a data sheet's numbers.
pub(crate) fn disk_profiles() -> Vec<DiskProfile> {
    all_disk_profiles().into_iter().filter(is_of_a_sheet).collect()
}

/// Those of a sheet, and those that were measured.
pub(crate) fn all_disk_profiles() -> Vec<DiskProfile> {
    let disk = |name| match load(name) {
        Ok(Profile::Disk(profile)) => Some(*profile),
        _ => None,
    };
    names().filter_map(disk).collect()
}

/// A disk and the times of its answers.
struct Bench {
    model: DiskModel,
    now: Instant,
    effects: Vec<Effect>,
    submitted: BTreeMap<CommandId, Instant>,
    next_id: CommandId,
    sectors: u64,
    sector_bytes: u64,
}

impl Bench {
    fn new(profile: &DiskProfile) -> Bench {
        Bench {
            model: DiskModel::new(profile, &mut Prng::new(1)),
            now: Instant::START,
            effects: Vec::new(),
            submitted: BTreeMap::new(),
            next_id: 0,
            sectors: profile.sectors.value,
            sector_bytes: profile.sector_bytes.value,
        }
    }

    fn submit(&mut self, action: Action, blocks: Range<u64>) -> CommandId {
        let id = self.next_id;
        self.next_id += 1;
        self.submitted.insert(id, self.now);
        self.model.submit(self.now, Command { id, action, blocks });
        id
    }

    /// Runs until a command is answered; returns it and how long it took.
    fn answer(&mut self) -> (CommandId, Duration) {
        loop {
            let done = self.effects.iter().position(|e| matches!(e, Effect::Done(_)));
            if let Some(index) = done {
                let Effect::Done(id) = self.effects.remove(index) else { unreachable!() };
                let submitted = self.submitted.remove(&id).expect("answered once");
                return (id, self.now.since(submitted));
            }
            self.effects.clear();
            self.now = self.model.next_event().expect("a command under way has an event");
            self.model.advance(self.now, &mut self.effects);
        }
    }

    fn run(&mut self, action: Action, blocks: Range<u64>) -> Duration {
        let id = self.submit(action, blocks);
        let (answered, took) = self.answer();
        assert_eq!(id, answered);
        took
    }

    /// Random 4 KiB commands at a queue depth: commands a second, and the longest.
    fn random(
        &mut self,
        action: Action,
        depth: usize,
        count: usize,
        prng: &mut Prng,
    ) -> (f64, Duration) {
        let len = 4096 / self.sector_bytes;
        let (start, mut longest) = (self.now, Duration::ZERO);
        for submitted in 0..count + depth {
            if submitted >= depth {
                longest = longest.max(self.answer().1);
            }
            if submitted < count {
                let at = prng.below(self.sectors / len) * len;
                self.submit(action, at..at + len);
            }
        }
        (count as f64 / self.now.since(start).as_secs_f64(), longest)
    }

    /// Sequential commands at a queue depth: 10⁶ bytes a second.
    fn sequential(&mut self, action: Action, from: u64, len: u64, depth: u64, count: u64) -> f64 {
        let start = self.now;
        for index in 0..count + depth {
            if index >= depth {
                self.answer();
            }
            if index < count {
                self.submit(action, from + index * len..from + (index + 1) * len);
            }
        }
        (count * len * self.sector_bytes) as f64 / 1e6 / self.now.since(start).as_secs_f64()
    }
}

const WRITE: Action = Action::Write { fua: false, data: true };

#[test]
fn random_reads_alone_take_a_seek_and_half_a_revolution() {
    for profile in disk_profiles() {
        let mut bench = Bench::new(&profile);
        let (iops, _) = bench.random(Action::Read, 1, 5000, &mut Prng::new(2));
        let revolution_ms = 60_000.0 / profile.rpm.value;
        let transfer_ms = 4.096 / profile.outer_rate_mb_s.value;
        let sheet = 1e3 / (profile.avg_seek_read_ms.value + revolution_ms / 2.0 + transfer_ms);
        println!("{}: QD1 {iops:.1} a second, sheet {sheet:.1}", profile.name);
        assert!((iops / sheet - 1.0).abs() < 0.10, "{}: {iops} against {sheet}", profile.name);
    }
}

#[test]
fn a_queue_of_32_gains_half_as_much_again_to_three_times() {
    for profile in disk_profiles() {
        let mut bench = Bench::new(&profile);
        let (alone, _) = bench.random(Action::Read, 1, 3000, &mut Prng::new(3));
        let (queued, longest) = bench.random(Action::Read, 32, 6000, &mut Prng::new(4));
        let gain = queued / alone;
        println!("{}: QD32 {queued:.1} a second, gain {gain:.2}, worst {longest:?}", profile.name);
        assert!((1.5..3.0).contains(&gain), "{}: {gain}", profile.name);
        // The age limit, and then at worst the commands that are as old come first.
        let service_ms = profile.full_stroke_ms.value + 60_000.0 / profile.rpm.value;
        let bound_ms = profile.age_limit_ms.value + 32.0 * service_ms;
        assert!(longest.as_secs_f64() * 1e3 < bound_ms, "{}: {longest:?}", profile.name);
    }
}

/// Without the limit the shortest-positioning rule starves what lies far away.
#[test]
fn the_age_limit_bounds_the_worst_wait() {
    let worst = |limit_ms: f64| {
        let mut profile = disk_profile("hua723030ala640");
        profile.age_limit_ms.value = limit_ms;
        let mut bench = Bench::new(&profile);
        // Commands crowd in the first hundredth of the disk; one in a hundred is far away.
        let (mut prng, mut far) = (Prng::new(5), Vec::new());
        let mut longest = Duration::ZERO;
        for index in 0..6000_u64 {
            if index >= 32 {
                let (id, took) = bench.answer();
                if far.contains(&id) {
                    longest = longest.max(took);
                }
            }
            let span = if index % 100 == 50 { bench.sectors } else { bench.sectors / 100 };
            let at = bench.sectors - prng.below(span / 8) * 8 - 8;
            let id = bench.submit(Action::Read, at..at + 8);
            if index % 100 == 50 {
                far.push(id);
            }
        }
        longest.as_secs_f64() * 1e3
    };
    let (limited, loose) = (worst(100.0), worst(10_000.0));
    println!("worst far wait: {limited:.0} ms with the limit, {loose:.0} ms without");
    assert!(limited < 300.0 && loose > 2.0 * limited, "{limited} ms, {loose} ms");
}

/// What a queue saves of each command's way it saves of slow commands as well, in which all that wait are older than the age limit:
/// the oldest first would be no faster than one at a time.
#[test]
fn a_queue_of_slow_commands_is_chosen_from_like_any_other() {
    let profile = disk_profile("exos-x20");
    let physical = profile.physical_sector_bytes.value / profile.sector_bytes.value;
    let service_ms = |len: u64, depth: usize| {
        let mut bench = Bench::new(&profile);
        bench.model.set_write_cache(false);
        let (mut prng, start, count) = (Prng::new(9), bench.now, 2000);
        for submitted in 0..count + depth {
            if submitted >= depth {
                bench.answer();
            }
            if submitted < count {
                let at = prng.below(bench.sectors / physical) * physical;
                bench.submit(WRITE, at..at + len);
            }
        }
        bench.now.since(start).as_secs_f64() * 1e3 / count as f64
    };
    for depth in [8, 32] {
        let saved = |len: u64| service_ms(len, 1) - service_ms(len, depth);
        let (whole, part) = (saved(physical), saved(1));
        println!("depth {depth} saves {whole:.2} ms of whole sectors, {part:.2} of parts");
        assert!((part / whole - 1.0).abs() < 0.15, "depth {depth}: {part} ms for {whole}");
    }
}

/// Writes without end, through to the medium or back from the cache, keep no read waiting for longer than the age limit and the
/// commands that are as old.
#[test]
fn a_read_beside_writes_without_end_is_answered() {
    for profile in disk_profiles() {
        let random = |_: u64, prng: &mut Prng| prng.below(1 << 26) * 8;
        type Place<'a> = &'a dyn Fn(u64, &mut Prng) -> u64;
        let loads: [(&str, Place<'_>, u64); 3] = [
            ("a stream", &|index, _| index * 128, 128),
            ("random", &random, 8),
            ("random parts of sectors", &random, 1),
        ];
        for (load, write_cache) in loads.into_iter().flat_map(|load| [(load, false), (load, true)])
        {
            let (name, place, len) = load;
            let mut bench = Bench::new(&profile);
            bench.model.set_write_cache(write_cache);
            let (mut prng, mut reading) = (Prng::new(17), None);
            let (mut reads, mut writes, mut longest) = (0, 0, Duration::ZERO);
            while bench.now < Instant::START + Duration::from_secs(20) {
                let read = *reading.get_or_insert_with(|| {
                    let at = prng.below(bench.sectors / 8) * 8;
                    bench.submit(Action::Read, at..at + 8)
                });
                while bench.submitted.len() < 32 {
                    let at = place(writes, &mut prng);
                    bench.submit(WRITE, at..at + len);
                    writes += 1;
                }
                bench.answer();
                // Also of one that is never answered.
                let waits = bench.submitted.get(&read).map(|since| bench.now.since(*since));
                (longest, reads, reading) = match waits {
                    Some(waits) => (longest.max(waits), reads, Some(read)),
                    None => (longest, reads + 1, None),
                };
            }
            let with = if write_cache { "with" } else { "without" };
            let case = format!("{}, {name}, {with} cache", profile.name);
            println!("{case}: {reads} reads and {writes} writes, a read waits up to {longest:?}");
            // What waits in a queue may be as old; what goes through the cache does not.
            let before = if write_cache { 2.0 } else { 32.0 };
            let service_ms = profile.full_stroke_ms.value + 3.0 * 60_000.0 / profile.rpm.value;
            let bound_ms = profile.age_limit_ms.value + before * service_ms;
            assert!(longest.as_secs_f64() * 1e3 < bound_ms, "{case}: {longest:?}");
        }
    }
}

#[test]
fn sequential_reads_run_at_the_rate_of_the_medium_at_any_request_size() {
    for profile in disk_profiles() {
        for (bytes, depth, count) in [(1 << 20, 1, 100), (65536, 1, 1500), (65536, 4, 1500)] {
            let mut bench = Bench::new(&profile);
            let len = bytes / profile.sector_bytes.value;
            let inner = bench.sectors - count * len - len;
            for (from, sheet) in
                [(0, profile.outer_rate_mb_s.value), (inner, profile.inner_rate_mb_s.value)]
            {
                let rate = bench.sequential(Action::Read, from, len, depth, count);
                let close = (rate / sheet - 1.0).abs() < 0.05;
                println!("{}: {bytes} B, depth {depth}: {rate:.1}, sheet {sheet}", profile.name);
                assert!(close, "{}: {bytes} B × {depth}: {rate}, {sheet}", profile.name);
            }
        }
    }
}

#[test]
fn sequential_writes_through_the_cache_run_at_the_rate_of_the_medium() {
    for profile in disk_profiles().iter().filter(|p| p.write_cache_enabled.value) {
        let mut bench = Bench::new(profile);
        let len = (1 << 20) / profile.sector_bytes.value;
        let count = 600.0;
        let rate = bench.sequential(WRITE, 0, len, 2, count as u64);
        println!("{}: writes {rate:.1}", profile.name);
        // At the end the buffer is still full: so much less went to the medium.
        let rate = rate * (1.0 - profile.write_cache_mb.value / count);
        let sheet = profile.outer_rate_mb_s.value;
        assert!((rate / sheet - 1.0).abs() < 0.05, "{}: {rate}", profile.name);
    }
}

/// What the cache holds side by side is one stretch to write back, wherever it begins: of a stream at sector 63 only the ends are parts
/// of physical sectors.
#[test]
fn a_misaligned_stream_of_cached_writes_costs_no_more_than_its_ends() {
    let profile = disk_profile("exos-x20");
    for (len, depth) in [(256, 1), (2048, 1), (256, 32)] {
        let bytes = 400 << 20;
        let rate =
            |from| Bench::new(&profile).sequential(WRITE, from, len, depth, bytes / 512 / len);
        let (aligned, misaligned) = (rate(0), rate(63));
        println!("{len} sectors, {depth} at a time: {aligned:.1} MB/s, {misaligned:.1} at 63");
        assert!((misaligned / aligned - 1.0).abs() < 0.03, "{misaligned} for {aligned}");
    }
}

/// Over an interface that is slower than the medium a read takes what the interface needs, counted from when the head is there.
#[test]
fn a_read_crosses_the_interface_after_the_head_is_there() {
    let mut profile = disk_profile("st3750640as");
    profile.read_ahead_kb.value = 0;
    profile.interface_mb_s.value = 10.0;
    let mut bench = Bench::new(&profile);
    let (mut prng, mut sum) = (Prng::new(8), Duration::ZERO);
    for _ in 0..500 {
        let at = prng.below(bench.sectors / 256) * 256;
        sum += bench.run(Action::Read, at..at + 256);
    }
    let mean_ms = sum.as_secs_f64() * 1e3 / 500.0;
    let revolution_ms = 60_000.0 / profile.rpm.value;
    let transfer_ms = 256.0 * 512.0 / 10e6 * 1e3;
    let expected = profile.avg_seek_read_ms.value + revolution_ms / 2.0 + transfer_ms;
    assert!((mean_ms / expected - 1.0).abs() < 0.04, "{mean_ms} ms for {expected}");
}

/// Each write-back would cost the stream a revolution; but what has to be on the medium comes there, and nobody waits for room.
#[test]
fn write_backs_that_have_time_wait_for_a_stream() {
    for profile in disk_profiles().iter().filter(|p| p.write_cache_enabled.value) {
        let len = 65536 / profile.sector_bytes.value;
        // A stream of 64 KiB reads that gives its reader no time, beside it a stream of writes in the middle of the disk.
        let rate = |writes_every: u64| {
            let mut bench = Bench::new(profile);
            let (count, middle) = (4000, bench.sectors / 2 / len * len);
            let (start, mut waited) = (bench.now, Duration::ZERO);
            for index in 0..count {
                bench.run(Action::Read, index * len..(index + 1) * len);
                if index % writes_every == 0 {
                    let at = middle + index / writes_every * len;
                    waited = waited.max(bench.run(WRITE, at..at + len));
                }
            }
            let read = (count * 65536) as f64 / 1e6 / bench.now.since(start).as_secs_f64();
            // No more than half of the buffer is left to write, if that.
            let left: u64 = bench.model.buffered(0..bench.sectors).map(|b| b.end - b.start).sum();
            let left_mb = (left * profile.sector_bytes.value) as f64 / 1_048_576.0;
            assert!(left_mb < 0.6 * profile.write_cache_mb.value, "{}: {left_mb}", profile.name);
            (read, waited.as_secs_f64() * 1e3)
        };
        let (alone, beside) = (rate(u64::MAX), rate(8));
        println!("{}: {:.1} MB/s, beside writes {:.1}", profile.name, alone.0, beside.0);
        assert!(beside.0 > 0.6 * alone.0, "{}: {beside:?} for {alone:?}", profile.name);
        assert!(beside.1 < 100.0, "{}: a write of {} ms", profile.name, beside.1);
    }
}

/// With a queue of one place the drive still finds what is dirty, on whichever side of the head it lies.
#[test]
fn a_drive_that_looks_at_one_command_writes_its_cache_back() {
    let mut profile = disk_profile("st3750640as");
    profile.reorder_depth.value = 1;
    let mut bench = Bench::new(&profile);
    let (iops, _) = bench.random(WRITE, 1, 3000, &mut Prng::new(8));
    bench.run(Action::Flush, 0..0);
    assert!((30.0..200.0).contains(&iops), "{iops}");
}

#[test]
fn the_write_cache_answers_in_a_fifth_of_a_millisecond_until_it_is_full() {
    for profile in disk_profiles().iter().filter(|p| p.write_cache_enabled.value) {
        let mut bench = Bench::new(profile);
        let mut prng = Prng::new(6);
        let slow = Duration::from_micros(200);
        let mut fast = 0;
        while fast < 1_000_000 {
            let at = prng.below(bench.sectors / 8) * 8;
            if bench.run(WRITE, at..at + 8) >= slow {
                break;
            }
            fast += 1;
        }
        println!("{}: {fast} fast writes", profile.name);
        // Whichever comes first: the table of stretches, or the memory.
        let full = profile
            .write_cache_extents
            .value
            .min((profile.write_cache_mb.value * 1_048_576.0) as u64 / 4096);
        assert!(fast >= full && fast < 2 * full + 50, "{}: {fast}, {full}", profile.name);
    }
}

#[test]
fn a_flush_waits_for_what_came_before_and_holds_up_what_comes_after() {
    let profile = disk_profile("st3750640as");
    let mut bench = Bench::new(&profile);
    for i in 0..50 {
        bench.run(WRITE, i * 10_000_000..i * 10_000_000 + 8);
    }
    let read = bench.submit(Action::Read, 500..508);
    let flush = bench.submit(Action::Flush, 0..0);
    let after = bench.submit(Action::Read, 600..608);
    let order: Vec<_> = (0..3).map(|_| bench.answer()).collect();
    assert_eq!(order.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [read, flush, after]);
    assert_eq!(bench.model.buffered(0..bench.sectors).count(), 0);
    let flush_ms = order[1].1.as_secs_f64() * 1e3;
    assert!(flush_ms > 50.0, "50 scattered writes are not on the medium in {flush_ms} ms");
    assert!(bench.run(Action::Flush, 0..0) < Duration::from_millis(1), "nothing is dirty");
}

#[test]
fn a_write_of_part_of_a_physical_sector_costs_a_revolution_more() {
    let profile = disk_profile("exos-x20");
    let mean = |blocks: u64| {
        let mut bench = Bench::new(&profile);
        let mut prng = Prng::new(7);
        let fua = Action::Write { fua: true, data: true };
        let mut sum = Duration::ZERO;
        for _ in 0..500 {
            let at = prng.below(bench.sectors / 8) * 8;
            sum += bench.run(fua, at..at + blocks);
        }
        sum.as_secs_f64() * 1e3 / 500.0
    };
    let more = mean(1) - mean(8);
    assert!((7.5..9.0).contains(&more), "{more} ms");
}

#[test]
fn what_was_just_written_or_read_comes_from_the_buffer() {
    let mut bench = Bench::new(&disk_profile("wd5000aaks"));
    bench.run(Action::Read, 1_000_000..1_000_064);
    assert!(bench.run(Action::Read, 1_000_000..1_000_064) < Duration::from_millis(1));
    bench.run(WRITE, 2_000_000..2_000_064);
    assert!(bench.run(Action::Read, 2_000_000..2_000_064) < Duration::from_millis(1));
}

#[test]
fn one_seed_gives_one_timing_and_another_seed_another() {
    let run = |seed| {
        let profile = disk_profile("st3750640as");
        let mut bench = Bench::new(&profile);
        bench.model = DiskModel::new(&profile, &mut Prng::new(seed));
        bench.random(Action::Read, 8, 300, &mut Prng::new(9));
        bench.random(WRITE, 8, 600, &mut Prng::new(10));
        bench.run(Action::Flush, 0..0);
        bench.now
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// The one desktop disk whose cached writes and flushes were measured writes back in sweeps, and is held to that. A disk that
/// takes whatever is nearest of what is dirty would write 180 times a second, and flush 64 writes in 468 ms.
#[test]
fn a_desktop_disk_writes_and_flushes_scattered_writes_as_measured() {
    let profile = disk_profile("st2000dm006");
    let mut bench = Bench::new(&profile);
    let (writes, _) = bench.random(WRITE, 32, 6000, &mut Prng::new(11));
    let mut figures = vec![("cached writes a second", writes, 124.0)];
    for (what, count, measured_ms) in [("ms to flush 64", 64, 630.0), ("ms to flush 8", 8, 101.0)] {
        let (mut prng, mut sum) = (Prng::new(12), 0.0);
        for _ in 0..30 {
            for _ in 0..count {
                let at = prng.below(bench.sectors / 8) * 8;
                bench.run(WRITE, at..at + 8);
            }
            sum += bench.run(Action::Flush, 0..0).as_secs_f64() * 1e3;
        }
        figures.push((what, sum / 30.0, measured_ms));
    }
    let mut bench = Bench::new(&profile);
    let (reads, _) = bench.random(Action::Read, 32, 6000, &mut Prng::new(13));
    figures.push(("reads a second at depth 32", reads, 94.0));
    for (what, ours, measured) in &figures {
        println!("{what}: {ours:.1}, measured {measured}");
    }
    let apart = |(_, ours, measured): &(_, f64, f64)| (ours / measured - 1.0).abs();
    assert!(figures.iter().all(|figure| apart(figure) < 0.25), "{figures:?}");
}

#[test]
fn rare_reads_that_come_out_late_lengthen_the_tail_and_not_the_middle() {
    let quantiles = |per_million: f64| {
        let mut profile = disk_profile("st2000dm006");
        profile.slow_reads_per_million.as_mut().expect("it has them").value = per_million;
        let mut bench = Bench::new(&profile);
        let mut prng = Prng::new(14);
        let mut times: Vec<f64> = (0..20_000)
            .map(|_| {
                let at = prng.below(bench.sectors / 8) * 8;
                bench.run(Action::Read, at..at + 8).as_secs_f64() * 1e3
            })
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        (times[10_000], times[19_980])
    };
    let (without, with) = (quantiles(0.0), quantiles(1500.0));
    println!("median and p99.9: {without:.1?} ms without, {with:.1?} with");
    assert!((with.0 / without.0 - 1.0).abs() < 0.02);
    // Measured: 103 ms, where a model that knows no second attempt has 32.
    assert!(without.1 < 45.0 && (90.0..115.0).contains(&with.1), "{without:?} {with:?}");
}

/// Writes to the medium take the arm's way while their data comes over: only what is left of the way costs time.
#[test]
fn a_write_through_seeks_while_its_data_crosses_the_interface() {
    let mean = |mb_s: f64| {
        let mut profile = disk_profile("st3750640as");
        profile.interface_mb_s.value = mb_s;
        let mut bench = Bench::new(&profile);
        bench.model.set_write_cache(false);
        let (iops, _) = bench.random(WRITE, 1, 3000, &mut Prng::new(15));
        1e3 / iops
    };
    // 4 KiB take 0.02 ms over the one and 4 ms over the other; almost every seek is longer than that.
    let (fast, slow) = (mean(200.0), mean(1.0));
    println!("{fast:.2} ms, over a slow interface {slow:.2}");
    assert!(slow - fast < 1.5, "{fast} ms, {slow} ms");
}

/// Of a disk that was measured each class of command has its own time before and after.
#[test]
fn overheads_are_those_of_the_class_and_of_the_command_before() {
    let profile = disk_profile("cheetah4lp");
    let mut bench = Bench::new(&profile);
    let hit = |bench: &mut Bench| bench.run(Action::Read, 1000..1008).as_secs_f64() * 1e6;
    let bus = 8.0 * 512.0 / profile.interface_mb_s.value;
    bench.run(Action::Read, 1000..1008);
    assert!((hit(&mut bench) - 68.0 - bus).abs() < 1.0, "a hit after a read");
    bench.run(WRITE, 500_000..500_008);
    bench.run(Action::Flush, 0..0);
    bench.run(WRITE, 500_000..500_008);
    assert!((hit(&mut bench) - 309.0 - bus).abs() < 1.0, "a hit after a write");
    let write = bench.run(WRITE, 700_000..700_008).as_secs_f64() * 1e6;
    assert!((write - 474.0 - bus).abs() < 1.0, "a cached write after a read: {write}");
}

/// The heads come down somewhere on the track: a whole track then takes a revolution, not one and a half.
#[test]
fn a_disk_that_reads_on_arrival_has_a_track_after_one_revolution() {
    let mean = |on_arrival: bool| {
        let mut profile = disk_profile("cheetah9lp");
        let given = profile.read_on_arrival.as_mut().expect("it says so");
        given.value = on_arrival;
        profile.interface_mb_s.value = 1e4;
        let mut bench = Bench::new(&profile);
        let (mut prng, mut sum) = (Prng::new(16), 0.0);
        for _ in 0..500 {
            // The first zone's tracks have 254 sectors; all but the last 14, wherever the heads come down.
            let track = bench.model.layout().track(prng.below(1_800_000));
            sum += bench.run(Action::Read, track.start..track.start + 240).as_secs_f64() * 1e3;
        }
        sum / 500.0
    };
    let (late, early) = (mean(false), mean(true));
    let revolution_ms = 60_000.0 / 10_045.0;
    println!("{late:.2} ms, on arrival {early:.2}");
    assert!((late - early) / revolution_ms > 0.3, "{late} and {early} ms");
}
