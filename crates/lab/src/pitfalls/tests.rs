//! What could break: a pitfall that is there and not found, one that is found and not there, a text
//! without a number or a mend, two with one name.
//!
//! [`clean`] is a run without any. Each test plants one thing in it, and nothing else may be found; then
//! it takes back the one fact without which the pitfall would be a guess.

use super::*;
use std::collections::BTreeSet;

const SECONDS: u64 = 10;

/// Stripes of a set and of the volume, and once round, in KiB.
fn stripe(of_set: u64, of_volume: u64, round: u64) -> Stripe {
    let [of_set, of_volume, round] = [of_set, of_volume, round].map(ByteCount::kib);
    Stripe { of_set, of_volume, round }
}

/// Random I/O of 4 KiB, three reads to a write, on one honest disk of an honest host.
fn clean() -> (Surroundings, Evidence) {
    let surroundings = Surroundings {
        cores: Some(4),
        memory: Some(ByteCount::gib(8)),
        disk_caches: Some(ByteCount::mib(16)),
        buffered: Some(true),
        write_back: None,
        content: Some(ContentSpec::default()),
        partitions: vec![Partition {
            name: "sda1".to_owned(),
            start: ByteCount::mib(1),
            origin: ByteCount::ZERO,
            grids: vec![(Grid::PhysicalBlock, ByteCount::kib(4))],
        }],
        record: Some(ByteCount::kib(4)),
        ssds: None,
        stripe: Some(stripe(448, 448, 448)),
        link: Some(Link { limit_mb_s: 300.0, full_duplex: false, span: LinkSpan::EachDisk }),
        flush: FlushFacts {
            honoured: None,
            volatile_cache: Some(true),
            rotational: Some(true),
            fua: Some(false),
        },
        space: Some((ByteCount::gib(200), ByteCount::gib(500))),
    };
    let moved = |ios: u64| Moved { ios, bytes: ios * 4096 };
    let evidence = Evidence {
        span: Duration::from_secs(SECONDS),
        demand: Demand {
            reads: moved(3_000),
            writes: moved(1_000),
            flushes: 100,
            flush_time: Some(Duration::from_millis(900)),
            random: true,
            read_set: Some(ByteCount::gib(32)),
            ..Demand::default()
        },
        disks: vec![DiskSample {
            reads: 3_000,
            read_bytes: 3_000 * 4096,
            writes: 1_100,
            written_bytes: 1_100 * 4096,
            flushes: Some(FlushSample { ios: 100, time: Duration::from_millis(850) }),
            busy: Duration::from_secs(9),
            at_work: Duration::from_secs(9),
            reads_from_cache: Some(40),
            unwritten: 0,
            keeps_up: false,
        }],
        taken_before_disks: ByteCount::ZERO,
        caches_rise: false,
        processor: Duration::from_secs(2),
        host: Some(HostUse { busy: 1_000, total: 4_000 }),
        load_thread: Some(Duration::from_secs(2)),
    };
    (surroundings, evidence)
}

/// What is found after this was changed in a clean run.
fn found(plant: impl FnOnce(&mut Surroundings, &mut Evidence)) -> Vec<Pitfall> {
    let (mut surroundings, mut evidence) = clean();
    plant(&mut surroundings, &mut evidence);
    find(&surroundings, &evidence)
}

#[track_caller]
fn one(plant: impl FnOnce(&mut Surroundings, &mut Evidence)) -> Pitfall {
    let mut found = found(plant);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[track_caller]
fn none(plant: impl FnOnce(&mut Surroundings, &mut Evidence)) {
    assert_eq!(found(plant), []);
}

#[test]
fn a_clean_run_has_none() {
    none(|_, _| {});
}

#[test]
fn nothing_known_is_nothing_found() {
    assert_eq!(find(&Surroundings::default(), &clean().1), []);
    assert_eq!(find(&clean().0, &Evidence::default()), []);
    assert_eq!(find(&Surroundings::default(), &Evidence::default()), []);
}

#[test]
fn reads_and_writes_that_did_not_reach_the_disks_were_cached() {
    let pitfall = one(|_, evidence| evidence.disks[0].read_bytes = 1_400 * 4096);
    assert_eq!(pitfall.id(), "cached");
    assert_eq!(
        pitfall.what(),
        "answered from a cache: the disks read 47 % of what the workload read"
    );
    let pitfall = one(|_, evidence| evidence.disks[0].written_bytes = 4096);
    assert_eq!(pitfall.id(), "cached-writes");
    assert!(pitfall.what().contains("wrote under 1 %"), "{pitfall}");
    // Half of it is a working set twice the cache: a small wrong. And a rebuild reads by itself.
    none(|_, evidence| evidence.disks[0].read_bytes = 1_500 * 4096);
    none(|_, evidence| {
        evidence.disks[0].read_bytes = 0;
        evidence.demand.disks_do_more = true;
    });
    // Of two disks the one that is idle is no cache.
    none(|_, evidence| evidence.disks.push(DiskSample::default()));
}

#[test]
fn a_record_larger_than_the_io_is_found_where_the_disks_move_whole_records() {
    let plant = |surroundings: &mut Surroundings, evidence: &mut Evidence| {
        surroundings.record = Some(ByteCount::kib(128));
        evidence.disks[0].read_bytes *= 32;
        evidence.span *= 100; // Not to fill the link with it.
    };
    let pitfall = one(plant);
    assert_eq!(pitfall.id(), "record-size");
    assert!(pitfall.what().contains("4 KiB") && pitfall.what().contains("128 KiB"), "{pitfall}");
    assert!(
        matches!(pitfall, Pitfall::RecordSize { amplification: Some(times), .. } if times > 20.0)
    );
    // The disks have the last word; where they can't be seen, the sizes alone tell.
    none(|surroundings, _| surroundings.record = Some(ByteCount::kib(128)));
    let pitfall = one(|surroundings, evidence| {
        surroundings.record = Some(ByteCount::kib(128));
        evidence.disks.clear();
    });
    assert!(matches!(pitfall, Pitfall::RecordSize { amplification: None, .. }));
    // Streams fill their records.
    none(|surroundings, evidence| {
        plant(surroundings, evidence);
        evidence.demand.random = false;
    });
}

#[test]
fn a_stream_of_writes_for_which_the_disks_read_has_partial_stripes() {
    let stream = |evidence: &mut Evidence| {
        evidence.demand.random = false;
        evidence.demand.reads = Moved::default();
        evidence.demand.writes = Moved { ios: 100, bytes: 100 << 20 };
        evidence.disks[0].written_bytes = 120 << 20;
        evidence.disks[0].reads = 230;
        evidence.disks[0].read_bytes = 140 << 20;
    };
    let pitfall = one(|_, evidence| stream(evidence));
    assert_eq!(pitfall.id(), "partial-stripes");
    let seen = "2.30 times for each write and 1.40 bytes for each byte written";
    assert!(pitfall.what().contains(seen), "{pitfall}");
    assert!(pitfall.mend().contains("a multiple of 448 KiB"), "{pitfall}");
    // Small writes at random pay that price by nature; a set without parity has no stripes; metadata is read at times.
    none(|_, evidence| {
        stream(evidence);
        evidence.demand.random = true;
    });
    none(|surroundings, evidence| {
        stream(evidence);
        surroundings.stripe = None;
    });
    none(|_, evidence| {
        stream(evidence);
        evidence.disks[0].reads = 5;
        evidence.disks[0].read_bytes = 4 << 20;
    });
    // Long writes: few bytes, but each waits for them. And small ones that are read for in long reads.
    let pitfall = one(|_, evidence| {
        stream(evidence);
        evidence.disks[0].reads = 6;
        evidence.disks[0].read_bytes = 4 << 20;
    });
    assert_eq!(pitfall.id(), "partial-stripes");
    let pitfall = one(|_, evidence| {
        stream(evidence);
        evidence.disks[0].reads = 5;
        evidence.disks[0].read_bytes = 6 << 20;
    });
    assert_eq!(pitfall.id(), "partial-stripes");
}

/// A page cache of 64 MiB is written back at a tenth of it, by 8 MiB: each batch ends with a part of a stripe and nothing follows.
#[test]
fn a_phase_that_is_written_back_in_batches_of_which_none_follows_has_partial_stripes() {
    let cache = |mib: u64| {
        let (cache, takes) = (ByteCount::mib(mib), ByteCount::mib(8));
        WriteBack { cache, begins_at: cache / 10, takes }
    };
    let phase = |plant: fn(&mut Surroundings, &mut Evidence), name| {
        let (mut surroundings, mut evidence) = clean();
        surroundings.write_back = Some(cache(64));
        evidence.demand.random = false;
        evidence.demand.reads = Moved::default();
        evidence.demand.writes = Moved { ios: 8192, bytes: 512 << 20 };
        let disk = DiskSample { reads: 40, read_bytes: 40 << 14, ..DiskSample::default() };
        evidence.disks = vec![disk; 4];
        plant(&mut surroundings, &mut evidence);
        (name, surroundings, evidence)
    };
    let found = |phases: Vec<(&str, Surroundings, Evidence)>| {
        let mut found = Vec::new();
        add_phases(phases.into_iter(), &mut found);
        found
    };
    let more = |_: &mut Surroundings, evidence: &mut Evidence| {
        evidence.disks[0].read_bytes += 1 << 20;
    };
    let both = found(vec![phase(|_, _| {}, "output per chr"), phase(more, "output block")]);
    let [worst] = &both[..] else { panic!("{both:?}") };
    let what = worst.what();
    assert_eq!(worst.id(), "partial-stripes");
    assert!(what.contains("stripes in output block: ") && what.contains("160 times and"), "{what}");
    let mend = worst.mend();
    assert!(mend.contains("page_cache = 160 MiB and more") && !mend.contains("queue"), "{mend}");
    // What follows at once; a start and an end; a rewrite, whose reads are wanted; small writes at random places.
    let none: [fn(&mut Surroundings, &mut Evidence); 4] = [
        |surroundings, _| {
            let more = surroundings.write_back.map(|one| WriteBack { begins_at: one.takes, ..one });
            surroundings.write_back = more;
        },
        |_, evidence| evidence.disks.iter_mut().for_each(|disk| disk.reads = 2),
        |_, evidence| evidence.demand.reads = evidence.demand.writes,
        |_, evidence| evidence.demand.random = true,
    ];
    for plant in none {
        assert_eq!(found(vec![phase(plant, "output block")]), []);
    }
    // Clusters that fill no stripe are read for however much follows; and direct writes are judged as they come.
    let clusters = found(vec![phase(
        |surroundings, evidence| {
            surroundings.write_back =
                surroundings.write_back.map(|one| WriteBack { takes: one.begins_at, ..one });
            evidence.disks[0].read_bytes = 60 << 20;
        },
        "write",
    )]);
    assert!(clusters[0].mend().contains("a smaller chunk"), "{clusters:?}");
    let direct = found(vec![phase(
        |surroundings, evidence| {
            surroundings.buffered = Some(false);
            evidence.disks[0].reads = 8192;
        },
        "write",
    )]);
    assert!(direct[0].what().contains(" times for each write"), "{direct:?}");
    assert!(direct[0].mend().contains("blocks of whole stripes"), "{direct:?}");
    // Once: where the run as a whole is found to, its phases say no more.
    let (_, surroundings, evidence) = phase(|_, _| {}, "");
    let mut whole = find(&surroundings, &evidence);
    let before = whole.len();
    assert!(whole.iter().any(|one| one.id() == "partial-stripes"), "{whole:?}");
    add_phases([phase(more, "output block")].into_iter(), &mut whole);
    assert_eq!(whole.len(), before);
}

#[test]
fn a_partition_off_its_grid_is_misaligned() {
    let sector_63 = ByteCount(63 * 512);
    let pitfall = one(|surroundings, _| surroundings.partitions[0].start = sector_63);
    assert_eq!(pitfall.id(), "misaligned");
    assert_eq!(
        pitfall.to_string(),
        "misaligned: sda1 begins at 31.50 KiB, no multiple of the physical block of 4 KiB; let it begin \
         at 1 MiB (sector 2048)"
    );
    // Disks that shift their sectors for just that start, and disks of 512 B.
    none(|surroundings, _| {
        surroundings.partitions[0].start = sector_63;
        surroundings.partitions[0].origin = ByteCount(7 * 512);
    });
    none(|surroundings, _| {
        surroundings.partitions[0].start = sector_63;
        surroundings.partitions[0].grids = vec![(Grid::PhysicalBlock, ByteCount(512))];
    });
    // A later one of several.
    let pitfall = one(|surroundings, _| {
        let aligned = surroundings.partitions[0].clone();
        let off = Partition { name: "sdb1".to_owned(), start: sector_63, ..aligned };
        surroundings.partitions.push(off);
    });
    assert!(pitfall.what().contains("sdb1"), "{pitfall}");
}

#[test]
fn a_row_of_an_array_matters_to_those_who_write_whole_rows() {
    let row = ByteCount::kib(320); // Five data disks of 64 KiB; 1 MiB is no multiple of it.
    let grids = vec![(Grid::Chunk, ByteCount::kib(64)), (Grid::Stripe, row)];
    none(|surroundings, _| surroundings.partitions[0].grids = grids.clone());
    let pitfall = one(|surroundings, evidence| {
        surroundings.partitions[0].grids = grids.clone();
        evidence.demand.writes = Moved { ios: 100, bytes: 100 * row.bytes() };
        evidence.disks[0].written_bytes = 100 * row.bytes();
    });
    assert!(matches!(pitfall, Pitfall::Misaligned { grid: Grid::Stripe, .. }));
    assert_eq!(pitfall.mend(), "let it begin at 1280 KiB (sector 2560)");
}

#[test]
fn flushes_that_are_not_carried_out_are_found_by_three_signs() {
    let pitfall = one(|surroundings, _| surroundings.flush.honoured = Some(false));
    assert_eq!(pitfall, Pitfall::FlushIgnored(FlushDoubt::Known));
    let too_fast = |_: &mut Surroundings, evidence: &mut Evidence| {
        evidence.demand.flush_time = Some(Duration::from_millis(20));
    };
    let pitfall = one(too_fast);
    let mean = Duration::from_micros(200);
    assert_eq!(pitfall, Pitfall::FlushIgnored(FlushDoubt::TooFast { mean }));
    let not_passed = |_: &mut Surroundings, evidence: &mut Evidence| {
        evidence.disks[0].flushes = Some(FlushSample::default());
    };
    assert_eq!(one(not_passed), Pitfall::FlushIgnored(FlushDoubt::NotPassedOn { flushes: 100 }));
}

#[test]
fn flushes_that_cost_nothing_for_a_good_reason_are_left_alone() {
    let fast = |evidence: &mut Evidence| {
        evidence.demand.flush_time = Some(Duration::from_millis(20));
    };
    // A solid-state disk, a disk that may be one, a cache with a battery, too few to tell, nothing to
    // write, nobody looked at the clock but the one slow disk among idle ones.
    for plant in [
        (|surroundings, _| surroundings.flush.rotational = Some(false))
            as fn(&mut Surroundings, &mut Evidence),
        |surroundings, _| surroundings.flush.rotational = None,
        |surroundings, _| surroundings.flush.volatile_cache = Some(false),
        |_, evidence| evidence.demand.flushes = 19,
        |_, evidence| evidence.demand.writes = Moved { ios: 50, bytes: 50 * 4096 },
        |_, evidence| {
            evidence.demand.flush_time = None;
            let idle = FlushSample { ios: 100, time: Duration::from_millis(1) };
            evidence.disks.push(DiskSample { flushes: Some(idle), ..DiskSample::default() });
        },
    ] {
        none(|surroundings, evidence| {
            fast(evidence);
            plant(surroundings, evidence);
        });
    }
    // A disk that takes FUA, an old kernel that counts none, and what is ignored with a battery.
    none(|surroundings, evidence| {
        surroundings.flush.fua = Some(true);
        evidence.disks[0].flushes = Some(FlushSample::default());
    });
    none(|_, evidence| evidence.disks[0].flushes = None);
    none(|surroundings, _| {
        surroundings.flush.honoured = Some(false);
        surroundings.flush.volatile_cache = Some(false);
    });
}

#[test]
fn a_full_link_is_found_on_whichever_side_it_lies() {
    let bytes = 290_000_000 * SECONDS;
    let read = |evidence: &mut Evidence, bytes: u64| {
        evidence.demand.reads = Moved { ios: bytes / (1 << 20), bytes };
        evidence.demand.random = false;
        evidence.disks[0].read_bytes = bytes;
    };
    let pitfall = one(|_, evidence| read(evidence, bytes));
    assert_eq!(pitfall.id(), "saturated-link");
    assert!(pitfall.what().contains("290 of the 300 MB/s"), "{pitfall}");
    none(|_, evidence| read(evidence, bytes * 9 / 10));
    // A disk that never rests is as much of a limit.
    none(|_, evidence| {
        read(evidence, bytes);
        evidence.disks[0].at_work = evidence.span;
    });
    // So are the disks of one side of a mirror, while those of the other have nothing to do; but not where one of several rests.
    let mirrors = |of_rests: u64| {
        move |surroundings: &mut Surroundings, evidence: &mut Evidence| {
            read(evidence, bytes);
            evidence.disks[0].at_work = evidence.span;
            let (mut idle, mut rests) = (evidence.disks[0], evidence.disks[0]);
            (idle.reads, idle.read_bytes, idle.at_work) = (0, 0, Duration::ZERO);
            rests.at_work = evidence.span / 2;
            rests.read_bytes = bytes * of_rests / 100;
            evidence.disks.extend([idle, rests]);
            evidence.demand.reads.bytes = bytes + rests.read_bytes;
            let link = surroundings.link.expect("it has one");
            let limit_mb_s = if of_rests == 60 { 464.0 } else { link.limit_mb_s };
            let span = if of_rests == 60 { LinkSpan::AllDisks } else { link.span };
            surroundings.link = Some(Link { limit_mb_s, span, ..link });
        }
    };
    none(mirrors(0));
    none(mirrors(90));
    assert_eq!(one(mirrors(99)).id(), "saturated-link");
    assert_eq!(one(mirrors(60)).id(), "saturated-link", "it has a good part of the load");
    // But not while its cache takes what it can't: five of a hundred parts are more than its mechanism writes.
    let filling = found(|_, evidence| {
        evidence.demand.reads = Moved::default();
        evidence.demand.writes = Moved { ios: bytes >> 20, bytes };
        evidence.demand.random = false;
        let disk = &mut evidence.disks[0];
        (disk.reads, disk.read_bytes, disk.written_bytes) = (0, 0, bytes);
        (disk.at_work, disk.unwritten) = (evidence.span, bytes / 20);
    });
    let ids: Vec<&str> = filling.iter().map(Pitfall::id).collect();
    assert_eq!(ids, ["filling-caches", "saturated-link"], "{filling:?}");
    // A disk that writes what comes as it comes never rests, and is no limit while its cache has room.
    let writes = |keeps_up: bool| {
        move |_: &mut Surroundings, evidence: &mut Evidence| {
            evidence.demand.reads = Moved::default();
            evidence.demand.writes = Moved { ios: bytes >> 20, bytes };
            evidence.demand.random = false;
            let disk = &mut evidence.disks[0];
            (disk.reads, disk.read_bytes, disk.written_bytes) = (0, 0, bytes);
            (disk.at_work, disk.keeps_up) = (evidence.span, keeps_up);
        }
    };
    none(writes(false));
    assert_eq!(one(writes(true)).id(), "saturated-link");
    // Two disks of which each has its own; the same of one link for both; the host's side of a cache.
    let two = |span| {
        move |surroundings: &mut Surroundings, evidence: &mut Evidence| {
            read(evidence, bytes / 2);
            evidence.disks.push(evidence.disks[0]);
            evidence.demand.reads.bytes = bytes;
            surroundings.link = surroundings.link.map(|link| Link { span, ..link });
        }
    };
    none(two(LinkSpan::EachDisk));
    assert_eq!(one(two(LinkSpan::AllDisks)).id(), "saturated-link");
    assert_eq!(one(two(LinkSpan::Volume)).id(), "saturated-link");
    // Both ways at once.
    let both = |full_duplex| {
        move |surroundings: &mut Surroundings, evidence: &mut Evidence| {
            read(evidence, bytes * 6 / 10);
            evidence.disks[0].written_bytes = bytes * 6 / 10;
            surroundings.link = surroundings.link.map(|link| Link { full_duplex, ..link });
        }
    };
    none(both(true));
    assert_eq!(one(both(false)).id(), "saturated-link");
}

#[test]
fn writes_on_ssds_that_began_in_another_state_than_the_loads_are_found() {
    let begin = SsdsBegin { state: "empty".to_owned(), left: "full".to_owned() };
    let pitfall = one(|facts, _| facts.ssds = Some(begin.clone()));
    assert_eq!(pitfall, Pitfall::SsdState(begin.clone()));
    assert!(pitfall.what().contains("began empty"), "{pitfall}");
    none(|facts, evidence| (facts.ssds, evidence.demand.writes) = (Some(begin), Moved::default()));
}

#[test]
fn write_caches_that_take_more_than_a_hundredth_are_found() {
    let written = 1_000 * 4096; // By the load; the disks wrote a tenth more.
    let pitfall = one(|_, evidence| evidence.disks[0].unwritten = written / 10);
    assert_eq!(pitfall.id(), "filling-caches");
    assert!(pitfall.what().contains("they took 9 % of what was written"), "{pitfall}");
    none(|_, evidence| evidence.disks[0].unwritten = written / 100);
    // What goes up and down; or up alone.
    let rises = |share: u64| {
        move |_: &mut Surroundings, evidence: &mut Evidence| {
            (evidence.disks[0].unwritten, evidence.caches_rise) = (written / share, true);
        }
    };
    assert!(one(rises(170)).what().contains("they took 0.5 % of what was written"));
    none(rises(700));
    let controller = one(|_, evidence| evidence.taken_before_disks = ByteCount(written / 10));
    assert_eq!(controller.id(), "filling-caches");
    // A rebuild's own writes are no measure of the load's.
    none(|_, evidence| {
        evidence.disks[0].unwritten = written / 10;
        evidence.demand.disks_do_more = true;
    });
    // Where next to nothing reached the disks that is what is said.
    let kept = one(|_, evidence| {
        evidence.disks[0].written_bytes = written / 10;
        evidence.taken_before_disks = ByteCount(written * 9 / 10);
    });
    assert_eq!(kept.id(), "cached-writes");
}

#[test]
fn a_full_processor_is_found_and_which_part_of_it() {
    let part = |pitfall| match pitfall {
        Pitfall::SaturatedProcessor { part, .. } => part,
        other => panic!("{other:?}"),
    };
    let found = one(|_, evidence| evidence.processor = Duration::from_secs(39));
    assert_eq!(part(found), ProcessorPart::Process { cores: 4 });
    let found = one(|_, evidence| evidence.load_thread = Some(Duration::from_millis(9_750)));
    assert!(found.what().contains("one thread"), "{found}");
    assert_eq!(part(found), ProcessorPart::LoadThread);
    let found = one(|_, evidence| evidence.host = Some(HostUse { busy: 3_900, total: 4_000 }));
    assert_eq!(part(found), ProcessorPart::Host);
    none(|_, evidence| evidence.processor = Duration::from_secs(37));
    none(|_, evidence| evidence.load_thread = Some(Duration::from_millis(9_600)));
    // Half a second of one core is five ticks or six.
    none(|_, evidence| evidence.host = Some(HostUse { busy: 50, total: 50 }));
    none(|_, evidence| evidence.span = Duration::ZERO);
}

#[test]
fn data_that_something_below_could_shrink_are_found() {
    for content in [
        ContentSpec { zeros: true, ..ContentSpec::default() },
        ContentSpec { compressible: 0.5, ..ContentSpec::default() },
        ContentSpec { duplicates: 0.2, ..ContentSpec::default() },
    ] {
        let pitfall = one(|surroundings, _| surroundings.content = Some(content));
        assert_eq!(pitfall.id(), "compressible");
        assert!(pitfall.what().contains(&content.to_string()), "{pitfall}");
        none(|surroundings, evidence| {
            surroundings.content = Some(content);
            evidence.demand.writes = Moved::default(); // Nothing of it was written.
            evidence.demand.flushes = 0;
        });
    }
    let little = ContentSpec { compressible: 0.05, ..ContentSpec::default() };
    none(|surroundings, _| surroundings.content = Some(little));
}

#[test]
fn what_fits_into_memory_is_found_where_it_is_read_through_memory() {
    let small = |evidence: &mut Evidence| evidence.demand.read_set = Some(ByteCount::gib(1));
    let pitfall = one(|_, evidence| small(evidence));
    assert_eq!(pitfall.id(), "smaller-than-memory");
    assert_eq!(pitfall.mend(), "read directly, or over twice the memory: 16 GiB");
    none(|surroundings, evidence| {
        small(evidence);
        surroundings.buffered = Some(false);
    });
    none(|_, evidence| {
        small(evidence);
        evidence.demand.reads = Moved::default();
    });
    none(|_, evidence| {
        small(evidence);
        evidence.demand.read_cold = true;
    });
}

#[test]
fn a_volume_with_less_than_a_tenth_free_is_nearly_full() {
    let free = |gib| {
        move |surroundings: &mut Surroundings, _: &mut Evidence| {
            surroundings.space = Some((ByteCount::gib(gib), ByteCount::gib(500)));
        }
    };
    let pitfall = one(free(49));
    assert_eq!(pitfall.id(), "nearly-full");
    assert!(pitfall.what().contains("49 GiB of 500 GiB"), "{pitfall}");
    none(free(50));
}

/// One of each.
fn all() -> Vec<Pitfall> {
    let (disks, workload) = (ByteCount::mib(1), ByteCount::gib(1));
    let content = ContentSpec::default();
    let (metric, confidence, share) = ("iops".to_owned(), 0.95, 0.3);
    vec![
        Pitfall::Cached { disks, workload },
        Pitfall::CachedByDisks { reads: 9, answered: 7, caches: disks, set: disks, phase: None },
        Pitfall::CachedWrites { disks, workload },
        Pitfall::FillingCaches { taken: disks, written: workload },
        Pitfall::SsdState(SsdsBegin { state: "empty".to_owned(), left: "full".to_owned() }),
        Pitfall::RecordSize { io: ByteCount(4096), record: disks, amplification: Some(8.0) },
        Pitfall::PartialStripes {
            read: disks,
            written: workload,
            reads: 1024,
            writes: 1024,
            stripe: stripe(448, 448, 448),
            phase: None,
            write_back: None,
            pace: None,
        },
        Pitfall::Misaligned {
            partition: "sda1".to_owned(),
            start: ByteCount(512),
            grid: Grid::Chunk,
            unit: ByteCount::kib(64),
        },
        Pitfall::FlushIgnored(FlushDoubt::Known),
        Pitfall::FewRepeats { repeats: 2 },
        Pitfall::WideInterval { metric, confidence, share, odd: Some((2, 7.0)) },
        Pitfall::NotSteady { rounds: 25, window: 5 },
        Pitfall::FewIos { ios: 7 },
        Pitfall::ShortRun { time: Duration::from_millis(3), ios: 16 },
        Pitfall::SaturatedLink { rate_mb_s: 1.0, limit_mb_s: 1.0 },
        Pitfall::SaturatedProcessor { part: ProcessorPart::LoadThread, share: 0.99 },
        Pitfall::Compressible { content },
        Pitfall::SmallerThanMemory { set: disks, memory: workload },
        Pitfall::NearlyFull { free: disks, total: workload },
    ]
}

#[test]
fn each_has_a_name_a_title_a_text_and_a_mend_of_its_own() {
    let all = all();
    let ids: BTreeSet<&str> = all.iter().map(Pitfall::id).collect();
    assert_eq!(ids.len(), TITLES.len(), "a title for each, each once");
    for pitfall in &all {
        assert_ne!(title(pitfall.id()), pitfall.id(), "it has a title");
        let text = pitfall.to_string();
        assert_eq!(text, format!("{}; {}", pitfall.what(), pitfall.mend()));
        assert!(!pitfall.what().is_empty() && !pitfall.mend().is_empty());
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
    }
    assert_eq!(title("of-a-later-version"), "of-a-later-version");
}
