//! What could break: a pass that skips blocks or does them twice, a place beyond the file, files that are
//! never reached, shares that are not those asked for, a trim whose write goes elsewhere or never.

use super::*;
use crate::files::Span;
use crate::spec::{Mode, Zones};
use rt::FileKind;
use std::collections::BTreeMap;

const KIB: u64 = 1024;

fn files(sizes: &[(u64, u64)]) -> Files {
    let span = |(offset, len): &(u64, u64)| Span::for_test(FileKind::File, *offset, *len);
    let spans: Vec<Span> = sizes.iter().map(span).collect();
    let pass = sizes.iter().map(|(_, len)| len).sum();
    Files { spans, pass, wanted: pass, beyond_pass: false }
}

fn random(spec: Spec) -> Spec {
    let align = spec.block.map(|(low, _)| low);
    Spec { mode: Mode { random: true, ..spec.mode }, align, ..spec }
}

fn all(spec: Spec, files: &Files) -> Vec<Target> {
    let mut aim = Aim::new(&Arc::new(spec), files, 1);
    std::iter::from_fn(|| aim.next(Direction::Read)).take(100_000).collect()
}

#[test]
fn a_random_pass_reaches_each_block_once_in_no_order() {
    for generator in [Generator::Map, Generator::Permutation] {
        let spec = random(Spec { generator, ..Spec::default() });
        let mut places: Vec<u64> =
            all(spec, &files(&[(8192, 400 * KIB)])).iter().map(|target| target.offset).collect();
        assert!(places.windows(2).any(|pair| pair[0] > pair[1]));
        places.sort_unstable();
        let expected: Vec<u64> = (0..100).map(|block| 8192 + block * 4096).collect();
        assert_eq!(places, expected, "{generator:?}");
    }
}

#[test]
fn blocks_of_many_sizes_cover_a_file_once_and_end_within_it() {
    let mut spec = random(Spec::default());
    spec.block = [(4096, 65536); 3];
    let targets = all(spec, &files(&[(0, 1000 * KIB)]));
    let mut covered = vec![0; 250];
    for target in &targets {
        assert!(target.offset + target.len <= 1000 * KIB && target.len <= 65536);
        for block in target.offset / 4096..(target.offset + target.len) / 4096 {
            covered[block as usize] += 1;
        }
    }
    assert!(covered.iter().all(|count| *count == 1));
}

#[test]
fn sequences_go_on_backwards_and_with_holes() {
    let offsets = |sequence_add| {
        let spec = Spec { sequence_add, ..Spec::default() };
        let targets = all(spec, &files(&[(0, 40 * KIB)]));
        targets.iter().map(|target| target.offset / 4096).collect::<Vec<_>>()
    };
    assert_eq!(offsets(0), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(offsets(4096)[..4], [0, 2, 4, 6]);
    // rw=read:-8k goes back by a block each time, round the end (two below it, as in fio).
    assert_eq!(offsets(-8192)[..5], [0, 8, 7, 6, 5]);
}

#[test]
fn sequences_with_steps_end_and_begin_again_where_those_of_fio_do() {
    let offsets = |sequence_add, first: u64, len: u64| {
        let spec = Spec { sequence_add, ..Spec::default() };
        let targets = all(spec, &files(&[(first * KIB, len * KIB)]));
        targets.iter().map(|target| target.offset / KIB).take(10).collect::<Vec<_>>()
    };
    // Ends where the file does, and begins again where the next step is beyond it; both as fio 3.33 logs them.
    assert_eq!(offsets(16 * 1024, 0, 84), [0, 20, 40, 60, 80]);
    assert_eq!(offsets(16 * 1024, 0, 100), [0, 20, 40, 60, 80, 0, 20, 40, 60, 80]);
    assert_eq!(offsets(12 * 1024, 64, 40), [64, 80, 96]);
    // Backwards it begins at the length, counted from the file's start.
    assert_eq!(offsets(-8192, 8, 20)[..5], [12, 8, 20, 16, 12]);
    assert_eq!(offsets(-8192, 64, 20)[..5], [76, 72, 68, 64, 76]);
}

/// What could break: the first place is not random, or each is.
#[test]
fn every_so_many_places_are_random_and_the_first_is() {
    let spec = random(Spec { sequence_nr: 8, ..Spec::default() });
    let targets = all(spec, &files(&[(0, 4096 * KIB)]));
    let starts: Vec<usize> = (0..64)
        .filter(|at| *at == 0 || targets[*at].offset != targets[at - 1].offset + 4096)
        .collect();
    assert!(targets[0].offset > 0);
    assert!(starts.iter().all(|at| at % 8 == 0) && starts.len() > 4, "{starts:?}");
}

#[test]
fn a_trim_is_followed_by_the_write_of_its_place_in_each_file() {
    for is_random in [false, true] {
        let mode = Mode { write: true, trim: true, trim_write: true, ..Mode::default() };
        let mut spec = Spec { mode, map: false, ..Spec::default() };
        if is_random {
            spec = random(spec);
        }
        // One place, so that the same one is drawn twice running, and two files in turn.
        for sizes in [&[(0, 4 * KIB)][..], &[(0, 8 * KIB), (0, 8 * KIB)]] {
            let mut aim = Aim::new(&Arc::new(spec.clone()), &files(sizes), 1);
            let next = || {
                let direction = aim.direction();
                aim.next(direction)
            };
            let targets: Vec<Target> = std::iter::from_fn(next).take(8).collect();
            assert_eq!(targets.len(), if is_random || sizes.len() == 2 { 8 } else { 2 });
            for file in 0..sizes.len() {
                let of_file: Vec<_> = targets.iter().filter(|target| target.file == file).collect();
                for pair in of_file.chunks(2) {
                    assert_eq!(pair.len(), 2, "{of_file:?}");
                    assert_eq!(
                        (pair[0].direction, pair[1].direction),
                        (Direction::Trim, Direction::Write)
                    );
                    assert_eq!((pair[0].offset, pair[0].len), (pair[1].offset, pair[1].len));
                }
            }
        }
    }
}

/// What could break: files that are drawn by a distribution end a job, or one in which nothing has room holds it for ever.
#[test]
fn files_drawn_by_a_distribution_begin_again() {
    let spec = Spec { file_service: FileService::Zipf(1.2), ..Spec::default() };
    let mut aim = Aim::new(&Arc::new(spec.clone()), &files(&[(0, 8 * KIB), (0, 8 * KIB)]), 1);
    assert!((0..100).all(|_| aim.next(Direction::Read).is_some()));
    let mut aim = Aim::new(&Arc::new(spec), &files(&[(0, KIB), (0, KIB)]), 1);
    assert_eq!(aim.next(Direction::Read), None);
    assert!(aim.is_done());
}

#[test]
fn files_take_turns_until_each_is_done() {
    let targets = all(Spec::default(), &files(&[(0, 8 * KIB), (0, 16 * KIB)]));
    let order: Vec<usize> = targets.iter().map(|target| target.file).collect();
    assert_eq!(order.len(), 6);
    assert_eq!(order.iter().filter(|file| **file == 0).count(), 2);
    assert!(order[..4].windows(2).all(|pair| pair[0] != pair[1]), "{order:?}");
}

#[test]
fn shares_of_sizes_zones_and_directions_are_those_asked_for() {
    let mut spec = random(Spec { map: false, read_percent: 70, ..Spec::default() });
    spec.mode.write = true;
    spec.block = [(4096, 16384); 3];
    spec.block_split[0] = vec![(4096, 75), (16384, 25)];
    let zones = vec![(80, 10), (20, 90)];
    spec.distribution = Distribution::Zoned([zones.clone(), zones.clone(), zones]);
    let files = files(&[(0, 10_000 * KIB)]);
    let mut aim = Aim::new(&Arc::new(spec), &files, 1);
    let (mut sizes, mut first, mut reads) = (BTreeMap::new(), 0.0, 0.0);
    for _ in 0..10_000 {
        reads += f64::from(u8::from(aim.direction() == Direction::Read));
        let target = aim.next(Direction::Read).expect("without a map it never ends");
        *sizes.entry(target.len).or_insert(0.0) += 1.0;
        first += f64::from(u8::from(target.offset < 1000 * KIB));
    }
    let near = |value: f64, share: f64| (value / 1e4 - share).abs() < 0.02;
    assert!(near(reads, 0.7) && near(sizes[&4096], 0.75) && near(first, 0.8));
}

#[test]
fn a_timed_job_begins_a_file_again_and_says_so() {
    let spec = Spec { time_based: true, ..Spec::default() };
    let mut aim = Aim::new(&Arc::new(spec), &files(&[(0, 8 * KIB)]), 1);
    let offsets: Vec<u64> =
        (0..5).filter_map(|_| aim.next(Direction::Read)).map(|target| target.offset).collect();
    assert_eq!(offsets, [0, 4096, 0, 4096, 0]);
    assert_eq!((aim.take_rewound(), aim.take_rewound()), (Some(0), None));
}

#[test]
fn strided_zones_skip_what_lies_between() {
    let zones = Zones { size: 8 * KIB, range: 8 * KIB, skip: 24 * KIB };
    let spec = Spec { zones: Some(zones), map: false, ..Spec::default() };
    let mut aim = Aim::new(&Arc::new(spec), &files(&[(0, 64 * KIB)]), 1);
    let offsets: Vec<u64> = (0..4)
        .filter_map(|_| aim.next(Direction::Read))
        .map(|target| target.offset / KIB)
        .collect();
    assert_eq!(offsets, [0, 4, 32, 36]);
}
