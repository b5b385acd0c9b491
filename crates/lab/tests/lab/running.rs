//! Running a study: the same results whatever the threads do, and where it is cut short none that pass for whole.

#![allow(clippy::disallowed_methods, reason = "these tests are about threads and real time")]

use crate::scripted;

use hdrhistogram::Histogram;
use lab::kept::{FinishedRun, Keeper, KeptHead, KeptRuns};
use lab::pace::Left;
use lab::results::{Partial, PartialOf, ProgressPoint, RoundPoint};
use lab::run::{NoObserver, Observer, Progress, RunError, run, run_from};
use lab::study::Options;
use lab::target::{CellRun, StopFlag, TargetError};
use scripted::{Scripted, attempt, noisy, options, ran, scripted, set, study, study_with};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use stdx::Prng;

const STUDY: &str = r#"
title = "t"
question = "q?"
repeats = 4
machine = {}
layouts = { a = {}, b = {} }
[[factor]]
name = "layout"
levels = ["a", "b"]
[[workload]]
name = "random"
kind = "random"
queue_depth = [1, 4, 16]
"#;

/// A repeat with everything that can be in one, all of it from the seed.
fn rich(seed: u64) -> CellRun {
    let mut prng = Prng::new(seed);
    let mut latency = Histogram::new(3).expect("3 digits");
    for _ in 0..1000 {
        latency.record(1_000 + prng.below(1_000_000)).expect("it grows");
    }
    let mut warnings = vec!["caches were cold".to_owned()];
    if prng.chance(0.5) {
        warnings.push("the disk was busy".to_owned());
    }
    CellRun {
        latency: Some(latency),
        disk_utilisation: BTreeMap::from([("disk0".to_owned(), prng.unit())]),
        progress: vec![ProgressPoint { time_s: 1.0, done: prng.unit(), rate_mb_s: 80.0 }],
        warnings,
        rounds: vec![RoundPoint { time_s: 2.0, iops: prng.unit() / 3.0, counted: true }],
        ..noisy("iops", 100.0, 0.1, seed)
    }
}

#[test]
fn results_do_not_depend_on_threads_or_their_order() {
    let study = study(STUDY);
    let slowly = |target_seed: u64| {
        scripted(move |cell, plan| {
            // Each run of the study finishes its repeats in an order of its own.
            let wait = Prng::for_part(target_seed, &format!("{}{}", cell.id, plan.repeat)).below(3);
            std::thread::sleep(Duration::from_millis(wait));
            rich(plan.seed)
        })
    };
    let one = attempt(&study, &slowly(1), 1, &[]).expect("it runs");
    for jobs in [2, 7] {
        let other = attempt(&study, &slowly(jobs as u64), jobs, &[]).expect("it runs");
        assert_eq!(lab::output::to_json(&one), lab::output::to_json(&other));
    }
    assert_eq!(one.cells.len(), 6);
    let cell = &one.cells[0];
    assert_eq!((cell.repeats, cell.metrics["iops"].samples.len()), (4, 4));
    assert!(cell.warnings.contains(&"caches were cold".to_owned()), "{:?}", cell.warnings);
    assert!(
        cell.latency.is_sorted_by(|a, b| a.quantile < b.quantile && a.latency_us <= b.latency_us)
    );
    assert_eq!(cell.latency.last().map(|point| point.quantile), Some(0.9995), "of 4000 I/Os");
}

#[test]
fn a_cell_alone_gives_the_figures_that_it_gives_among_others() {
    let study = study(STUDY);
    let target = scripted(|_, plan| rich(plan.seed));
    let whole = ran(&study, &target);
    let alone = attempt(&study, &target, 1, &["layout=b/*depth=4"]).expect("it runs");
    assert_eq!(alone.cells.len(), 1);
    assert!(whole.cells.contains(&alone.cells[0]));
    assert_eq!(alone.notes, ["--only layout=b/*depth=4"]);
    let some = study_with(STUDY, &set(&["factor.layout=b"]));
    assert!(ran(&some, &target).cells.iter().all(|cell| whole.cells.contains(cell)));
}

#[test]
fn another_seed_gives_other_samples() {
    let target = scripted(|_, plan| rich(plan.seed));
    let seeded = Options { seed: Some(2), ..Options::default() };
    let (one, two) = (ran(&study(STUDY), &target), ran(&study_with(STUDY, &seeded), &target));
    assert_eq!((one.seed, two.seed), (1, 2));
    assert_ne!(one.cells[0].metrics["iops"].samples, two.cells[0].metrics["iops"].samples);
}

fn failing(reason: fn() -> TargetError) -> Scripted {
    Scripted {
        simulated: true,
        jobs_max: 4,
        script: Box::new(move |cell, plan, _| match (cell.id.as_str(), plan.repeat) {
            ("layout=a/random/queue_depth=4", 1 | 2) => Err(reason()),
            _ => Ok(noisy("iops", 100.0, 0.01, plan.seed)),
        }),
    }
}

#[test]
fn a_cell_that_fails_says_why_and_the_others_go_on() {
    let results = ran(
        &study(STUDY),
        &failing(|| TargetError::Failed {
            doing: "reading 4 KiB at byte 0 of disk3".to_owned(),
            why: "input/output error".to_owned(),
            mend: "see to the disk".to_owned(),
        }),
    );
    let failed: Vec<_> = results.cells.iter().filter(|cell| cell.error.is_some()).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].id, "layout=a/random/queue_depth=4");
    assert!(failed[0].metrics.is_empty());
    assert_eq!(
        failed[0].error.as_deref(),
        Some("reading 4 KiB at byte 0 of disk3: input/output error; see to the disk")
    );
    assert!(
        results.verdict.contains(
            "1 of 6 cells failed and is left out: layout=a/random/queue_depth=4 (reading 4 KiB"
        ),
        "{}",
        results.verdict
    );
}

#[test]
fn a_fatal_error_stops_the_run_and_gives_no_results() {
    let target = failing(|| TargetError::Fatal {
        doing: "writing /scratch/disk0".to_owned(),
        why: "no space left".to_owned(),
        mend: "free 2 GiB".to_owned(),
    });
    let error = attempt(&study(STUDY), &target, 2, &[]).expect_err("it is fatal");
    assert_eq!(
        error.to_string(),
        "stopped at cell layout=a/random/queue_depth=4: writing /scratch/disk0: no space left; free 2 \
         GiB"
    );
}

#[test]
fn a_cell_that_can_not_run_is_refused_before_anything_runs() {
    let text = STUDY
        .replace("b = {} }", "b = {}, impossible = {} }")
        .replace("[\"a\", \"b\"]", "[\"a\", \"impossible\"]");
    let target = scripted(|_, _| panic!("nothing may run"));
    let error = attempt(&study(&text), &target, 2, &[]).expect_err("it can't run");
    assert_eq!(
        error.to_string(),
        "cell layout=impossible/random/queue_depth=1: layout 'impossible': it needs 13 disks and the \
         machine has 12; give it fewer with --set layouts.impossible.disks=12"
    );
}

#[test]
fn ctrl_c_in_the_middle_gives_no_whole_results() {
    let options = options(2, &[]);
    let stop = options.stop.clone();
    let target = Scripted {
        simulated: true,
        jobs_max: 2,
        script: Box::new(move |_, plan, mine: &StopFlag| {
            if plan.repeat == 2 {
                stop.raise(); // The user's hand.
            }
            if mine.is_raised() {
                return Err(TargetError::Interrupted);
            }
            Ok(noisy("iops", 100.0, 0.01, plan.seed))
        }),
    };
    let error = run(&study(STUDY), &target, &options, &lab::run::NoObserver);
    match error {
        Err(RunError::Interrupted { done, total: 24 }) => {
            assert!((10..24).contains(&done), "{done}")
        }
        other => panic!("{other:?}"),
    }
}

/// Found by a newcomer: "0 of 1 runs done, some 0 s left".
#[test]
fn a_run_that_was_stopped_has_no_time_left() {
    struct Ears(Mutex<Vec<Option<lab::pace::Left>>>);
    impl Observer for Ears {
        fn progress(&self, progress: Progress<'_>) {
            self.0.lock().expect("nobody panicked").push(progress.left);
        }
    }
    let ears = Ears(Mutex::default());
    let target = failing(|| TargetError::Fatal {
        doing: "writing /scratch/disk0".to_owned(),
        why: "no space left".to_owned(),
        mend: "free 2 GiB".to_owned(),
    });
    run(&study(STUDY), &target, &options(1, &[]), &ears).expect_err("it was stopped");
    let heard = ears.0.into_inner().expect("nobody panicked");
    assert_eq!(heard.last(), Some(&None), "{heard:?}");
    assert!(heard.iter().any(Option::is_some), "before it some was left: {heard:?}");
}

#[test]
fn the_observer_hears_of_every_repeat_in_order() {
    struct Ears(Mutex<Vec<(usize, usize)>>);
    impl Observer for Ears {
        fn progress(&self, progress: Progress<'_>) {
            assert_eq!(progress.total, 24);
            let mut heard = self.0.lock().expect("nobody panicked");
            heard.push((progress.done, progress.running.len()));
        }
    }
    let ears = Ears(Mutex::default());
    let target = scripted(|_, plan| rich(plan.seed));
    run(&study(STUDY), &target, &options(3, &[]), &ears).expect("it runs");
    let heard = ears.0.into_inner().expect("nobody panicked");
    assert_eq!(heard.len(), 48, "each repeat begins and ends");
    assert!(heard.is_sorted_by_key(|(done, _)| *done));
    assert!(heard.iter().all(|(_, running)| *running <= 3));
    assert_eq!(heard.last(), Some(&(24, 0)));
}

/// What could break: an estimate by the cheap cells alone, ten times too short until the first dear one came to its turn.
#[test]
fn the_time_left_is_a_lower_bound_until_each_kind_of_cell_was_run() {
    const DEAR: Duration = Duration::from_millis(60);
    /// How many dear runs began, and what each was said to take.
    struct Ears(Mutex<Vec<Option<Duration>>>);
    impl Observer for Ears {
        fn progress(&self, progress: Progress<'_>) {
            let mut dear_runs = self.0.lock().expect("nobody panicked");
            if let Some(most) = progress.left.and_then(|left| left.at_most) {
                assert!(dear_runs.len() >= 2, "no end can be told: {:?}", progress.left);
                // Whole rounds over the six cells that have not begun; two cells of each are dear.
                let rounds = (progress.total - progress.done - progress.running.len()) as u32 / 6;
                assert!(most >= DEAR * 2 * rounds, "{most:?} for {rounds} rounds");
            }
            let dear = progress.running.iter().find(|running| running.cell.contains("depth=16"));
            dear_runs.extend(dear.map(|dear| dear.takes));
        }
    }
    let target = scripted(|cell, plan| {
        if cell.id.contains("depth=16") {
            std::thread::sleep(DEAR);
        }
        rich(plan.seed)
    });
    let ears = Ears(Mutex::default());
    run(&study(STUDY), &target, &options(1, &[]), &ears).expect("it runs");
    let dear_runs = ears.0.into_inner().expect("nobody panicked");
    assert_eq!(dear_runs.len(), 8, "two layouts, four repeats");
    assert_eq!(&dear_runs[..2], &[None, None]);
    assert!(dear_runs[2..].iter().all(|takes| takes.is_some_and(|takes| takes >= DEAR)));
}

#[test]
fn a_real_machine_runs_one_cell_at_a_time() {
    static RUNNING: Mutex<()> = Mutex::new(());
    let mut target = scripted(|_, plan| {
        let _alone = RUNNING.try_lock().expect("two cells at the same time");
        std::thread::sleep(Duration::from_micros(200));
        rich(plan.seed)
    });
    (target.simulated, target.jobs_max) = (false, 1);
    let results = attempt(&study(STUDY), &target, 8, &[]).expect("it runs");
    assert!(!results.simulated);
}

#[test]
fn what_a_reader_should_doubt_carries_a_warning() {
    let target = scripted(|cell, plan| match cell.factors["layout"].to_string().as_str() {
        "a" => CellRun {
            warnings: match plan.repeat {
                0 => vec!["the rate was not steady within 25 rounds".to_owned()],
                _ => Vec::new(),
            },
            ..noisy("iops", 100.0, 0.5, plan.seed)
        },
        _ => noisy("iops", if plan.repeat == 0 { f64::NAN } else { 100.0 }, 0.0, plan.seed),
    });
    let results = ran(&study(STUDY), &target);
    let warnings = &results.cells[0].warnings;
    assert_eq!(warnings[0], "the rate was not steady within 25 rounds (in repeat 1 of 4)");
    assert!(warnings[1].starts_with("the 95 % interval of iops is ±"), "{warnings:?}");
    let warnings = &results.cells[3].warnings;
    assert_eq!(warnings, &["iops came out as NaN and is left out (in repeat 1 of 4)"]);
    for (repeats, text) in [("1", "one repeat only"), ("2", "2 repeats only")] {
        let few = study_with(STUDY, &set(&[&format!("repeats={repeats}")]));
        let results = ran(&few, &scripted(|_, plan| noisy("iops", 9.0, 0.001, plan.seed)));
        assert!(results.cells.iter().all(|cell| cell.warnings[0].starts_with(text)));
    }
}

#[test]
fn the_repeat_that_is_unlike_the_others_is_named_where_people_read() {
    let target = scripted(|_, plan| {
        let mean = if plan.repeat == 2 { 40.0 } else { 100.0 };
        let warnings = match plan.repeat {
            1 | 2 => vec!["the disk was busy".to_owned()],
            _ => Vec::new(),
        };
        CellRun { warnings, ..noisy("iops", mean, 0.01, plan.seed) }
    });
    let results = ran(&study(STUDY), &target);
    let text = lab::report::text(
        &results,
        lab::report::TextOptions { width: 400, colour: false, full: false },
    );
    for told in [text, lab::report::html(&results)] {
        let odd = "of its mean, for repeat 3 lies apart: ";
        assert!(
            told.contains(odd) && told.contains("the disk was busy (in repeats 2 and 3 of 4)"),
            "{told}"
        );
    }
}

#[test]
fn the_bootstrap_can_be_asked_for_and_repeats_itself() {
    let text = STUDY.replace("repeats = 4", "repeats = 4\ninterval = \"bootstrap\"");
    let target = scripted(|_, plan| noisy("iops", 100.0, 0.1, plan.seed));
    let (one, two) = (ran(&study(&text), &target), ran(&study(&text), &target));
    assert_eq!(one, two);
    let (bootstrap, t) = (&one.cells[0].metrics["iops"], &ran(&study(STUDY), &target).cells[0]);
    assert_eq!(bootstrap.samples, t.metrics["iops"].samples);
    assert_ne!(bootstrap.ci_low, t.metrics["iops"].ci_low);
}

/// Keeps runs in memory, and stops after so many.
struct Kept {
    runs: Mutex<Vec<FinishedRun>>,
    most: usize,
    stop: StopFlag,
}

impl Keeper for Kept {
    fn keep(&self, run: &FinishedRun) {
        let mut runs = self.runs.lock().expect("nobody panicked");
        runs.push(run.clone());
        if runs.len() >= self.most {
            self.stop.raise();
        }
    }
}

#[test]
fn a_run_that_goes_on_gives_the_bytes_of_one_that_was_never_stopped() {
    let (study, target) = (study(STUDY), scripted(|_, plan| rich(plan.seed)));
    let whole = ran(&study, &target);
    let options_of_first = options(2, &[]);
    let keeper = Kept { runs: Mutex::default(), most: 9, stop: options_of_first.stop.clone() };
    let first = run_from(&study, &target, &options_of_first, &NoObserver, Vec::new(), &keeper);
    let first = first.expect("some of it is done");
    let kept = keeper.runs.into_inner().expect("nobody panicked");
    assert!(matches!(first.stopped, Some(RunError::Interrupted { total: 24, .. })));
    assert_eq!(
        first.results.partial,
        Some(Partial { done: kept.len(), total: 24, of: PartialOf::Runs })
    );
    assert!(
        first.results.verdict.starts_with("This is a part of the run"),
        "{}",
        first.results.verdict
    );
    assert!(!first.results.verdict.contains("Nothing was run yet"), "of each level something was");
    assert!(first.results.notes.iter().any(|note| note.starts_with("PARTIAL")));
    assert!(
        first.results.cells.iter().all(|cell| cell.repeats > 0),
        "what has no figures is left out"
    );

    let heard = Kept { runs: Mutex::default(), most: usize::MAX, stop: StopFlag::new() };
    let rest = run_from(&study, &target, &options(2, &[]), &NoObserver, kept.clone(), &heard);
    let rest = rest.expect("it runs");
    assert!(rest.stopped.is_none());
    assert_eq!(heard.runs.into_inner().expect("nobody panicked").len(), 24 - kept.len());
    assert_eq!(lab::output::to_json(&rest.results), lab::output::to_json(&whole));
}

/// Found by a newcomer: levels of which nothing had been run yet were missing without a word.
#[test]
fn a_part_of_a_run_names_the_levels_of_which_nothing_was_run() {
    let three = STUDY
        .replace("b = {}", "b = {}, c = {}")
        .replace("[\"a\", \"b\"]", "[\"a\", \"b\", \"c\"]");
    let (study, target) = (study(&three), scripted(|_, plan| rich(plan.seed)));
    let options = options(1, &[]);
    let keeper = Kept { runs: Mutex::default(), most: 1, stop: options.stop.clone() };
    let part = run_from(&study, &target, &options, &NoObserver, Vec::new(), &keeper);
    let (part, runs) = (part.expect("one is done"), keeper.runs.into_inner().expect("no panic"));
    let [only] = &runs[..] else { panic!("{runs:?}") };
    let others: Vec<String> = ["a", "b", "c"]
        .map(|level| format!("layout={level}"))
        .into_iter()
        .filter(|level| !only.cell.starts_with(level))
        .collect();
    let said = format!("Nothing was run yet of {}. ", others.join(" and "));
    assert!(part.results.verdict.contains(&said), "{}", part.results.verdict);
}

#[test]
fn kept_runs_survive_the_disk_to_the_last_digit_and_a_torn_line_is_no_run() {
    let dir = tempfile::tempdir().expect("a place");
    let (study, target) = (study(STUDY), scripted(|_, plan| rich(plan.seed)));
    let whole = ran(&study, &target);
    let head = KeptHead::of(&study, "0.1.0", true, None);
    let keeper = KeptRuns::begin(dir.path(), &head, false).expect("it can be written");
    let all = run_from(&study, &target, &options(2, &[]), &NoObserver, Vec::new(), &keeper);
    assert!(all.expect("it runs").stopped.is_none());
    drop(keeper);

    // The program ended in the middle of the last line.
    let file = dir.path().join("runs.jsonl");
    let text = std::fs::read(&file).expect("it is there");
    std::fs::write(&file, &text[..text.len() - 20]).expect("written");
    let line = KeptRuns::begin(dir.path(), &head, false).expect_err("they are kept").to_string();
    assert!(line.contains("23 runs done") && line.contains("--resume"), "{line}");

    let (keeper, kept) = KeptRuns::resume(dir.path(), &head).expect("it goes on");
    assert_eq!(kept.len(), 23);
    let ended = run_from(&study, &target, &options(2, &[]), &NoObserver, kept, &keeper);
    let results = ended.expect("it runs").results;
    assert_eq!(lab::output::to_json(&results), lab::output::to_json(&whole));
    keeper.discard();
    assert!(!file.exists(), "the results hold all");
}

#[test]
fn another_run_is_not_gone_on_with() {
    let dir = tempfile::tempdir().expect("a place");
    let (one, target) = (study(STUDY), scripted(|_, plan| rich(plan.seed)));
    let head = KeptHead::of(&one, "0.1.0", true, None);
    let keeper = KeptRuns::begin(dir.path(), &head, false).expect("it can be written");
    run_from(&one, &target, &options(1, &["depth=4"]), &NoObserver, Vec::new(), &keeper)
        .expect("it runs");
    drop(keeper);
    let refused = |head: &KeptHead| {
        KeptRuns::resume(dir.path(), head).expect_err("it is another").to_string()
    };
    let seeded = Options { seed: Some(2), ..Options::default() };
    let other = KeptHead::of(&study_with(STUDY, &seeded), "0.1.0", true, None);
    assert!(refused(&other).contains("seed: 1 there, 2 here"), "{}", refused(&other));
    let other = KeptHead::of(&study_with(STUDY, &set(&["repeats=9"])), "0.1.0", true, None);
    assert!(refused(&other).contains("options: none there, --set repeats=9 here"));
    let other = KeptHead::of(&study(&STUDY.replace("q?", "why?")), "0.1.0", true, None);
    assert!(refused(&other).contains("text was changed"));
    let other = KeptHead::of(&one, "0.2.0", true, None);
    assert!(refused(&other).contains("version of Spindle: 0.1.0 there, 0.2.0 here"));
    // Which cells are run may differ.
    let (_, kept) = KeptRuns::resume(dir.path(), &head).expect("it goes on");
    assert_eq!(kept.len(), 8);
}

#[test]
fn a_folder_in_which_nothing_was_kept_is_left_as_it_was() {
    let dir = tempfile::tempdir().expect("a place");
    let head = KeptHead::of(&study(STUDY), "0.1.0", true, None);
    let out = dir.path().join("new/deep");
    drop(KeptRuns::begin(&out, &head, false).expect("it can be written"));
    assert!(!dir.path().join("new").exists());
    let nothing = KeptRuns::resume(&out, &head).expect_err("nothing there").to_string();
    assert!(nothing.contains("no unfinished run lies there"), "{nothing}");
    std::fs::write(dir.path().join("file"), "").expect("written");
    let under_a_file = dir.path().join("file/out");
    let line = KeptRuns::begin(&under_a_file, &head, false).expect_err("no folder").to_string();
    assert!(line.contains("the folder can't be made"), "{line}");
}

#[test]
fn the_time_left_is_that_of_the_runs_that_are_left() {
    struct Ears(Mutex<Vec<Option<Left>>>);
    impl Observer for Ears {
        fn progress(&self, progress: Progress<'_>) {
            self.0.lock().expect("nobody panicked").push(progress.left);
        }
    }
    let target = scripted(|cell, plan| {
        // A cell at depth 16 takes five times as long as another.
        let long = cell.property("queue_depth").as_deref() == Some("16");
        std::thread::sleep(Duration::from_millis(if long { 50 } else { 10 }));
        rich(plan.seed)
    });
    let ears = Ears(Mutex::default());
    run(&study(STUDY), &target, &options(1, &[]), &ears).expect("it runs");
    let left = ears.0.into_inner().expect("nobody panicked");
    assert_eq!(left[0], None, "nothing is known before the first run is done");
    // After the first repeat of every cell: three repeats of 2 × (50 + 10 + 10) ms.
    let told = left[2 * 6 - 1].expect("known by now");
    let most = told.at_most.expect("each cell was run");
    let range = Duration::from_millis(400)..Duration::from_secs(6);
    assert!(range.contains(&told.at_least) && range.contains(&most), "{told:?}");
    let nothing = Left { at_least: Duration::ZERO, at_most: Some(Duration::ZERO) };
    assert_eq!(left.last().copied().flatten(), Some(nothing));
}
