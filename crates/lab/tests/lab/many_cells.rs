//! What is said at the head of a comparison, a ranking or a table, of many cells: of how many of them it holds.
//!
//! What could break (all found by a newcomer): one layout's difference named for the cells of all; rows whose own interval
//! contradicts the verdict without a word; an interval of a mean that is narrower than those of what it is a mean of; rebuilds of layouts
//! beside different loads in one column.

use crate::scripted::{noisy, options, ran, scripted, set, study_with};
use lab::compare::{Difference, compare};
use lab::design::CellSpec;
use lab::layout::{LayoutFacts, RebuildFacts};
use lab::report::{TextOptions, csv, html, text};
use lab::results::Results;
use lab::run::{NoObserver, run};
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use std::collections::BTreeMap;

const STUDY: &str = r#"
title = "t"
question = "q?"
repeats = 3
machine = {}
layouts = { raid10-8 = {}, raid5-8 = {}, raid6-8 = {} }
[[factor]]
name = "layout"
levels = ["raid10-8", "raid5-8", "raid6-8"]
[[workload]]
name = "random"
kind = "random"
queue_depth = [1, 2, 4, 8, 16]
[verdict]
by = "layout"
"#;

const WIDE: TextOptions = TextOptions { width: 200, colour: false, full: false };

/// What the study gives with this seed's noise of a percent.
fn results(seed: u64) -> Results {
    let target = scripted(|_, plan| noisy("iops", 100.0, 0.01, plan.seed));
    ran(&study_with(STUDY, &set(&[&format!("seed={seed}")])), &target)
}

#[test]
fn what_differs_between_runs_is_told_with_how_many_cells_it_is_of() {
    let (mut a, mut b) = (results(1), results(2));
    let layouts = ["raid10-8", "raid5-8", "raid6-8"];
    for (results, chunk) in [(&mut a, "64 KiB"), (&mut b, "512 KiB")] {
        let of = |name: &&str| lab::results::LayoutFigures {
            name: (*name).to_owned(),
            what: format!("{name}, chunk {chunk}"),
            ..Default::default()
        };
        results.layouts = layouts.iter().map(of).collect();
    }
    let compared = compare(&a, &b).expect("they share cells");
    assert_eq!(
        compared.verdict,
        "there is no verdict in 15: none shows between runs that were not alike (layout raid10-8 in 5, layout raid5-8 in 5, \
         layout raid6-8 in 5)."
    );
    let note = "layout raid5-8: raid5-8, chunk 64 KiB in A, raid5-8, chunk 512 KiB in B (of 5 of 15 cells)";
    assert!(compared.notes.iter().any(|one| one == note), "{:?}", compared.notes);
    // Of those that are better, too.
    for cell in b.cells.iter_mut().filter(|cell| cell.factors["layout"] != "raid6-8") {
        let metric = cell.metrics.get_mut("iops").expect("it is measured");
        metric.mean *= 2.0;
        metric.samples.iter_mut().for_each(|sample| *sample *= 2.0);
    }
    let compared = compare(&a, &b).expect("they share cells");
    let verdict = &compared.verdict;
    let better = "(10 of which did not run alike: layout raid10-8 in 5, layout raid5-8 in 5)";
    assert!(
        verdict.starts_with("B is better in 10 of 15 cells, by ") && verdict.contains(better),
        "{verdict}"
    );
    let rest =
        "there is no verdict in 5: none shows between runs that were not alike: layout raid6-8.";
    assert!(verdict.ends_with(rest), "{verdict}");
}

/// A cache that answered in A is another reason than one that answered in B.
#[test]
fn reasons_that_differ_are_told_apart() {
    let (mut a, mut b) = (results(1), results(2));
    let cached = |results: &mut Results, cell: usize| {
        let cell = &mut results.cells[cell];
        cell.pitfalls.push(lab::results::FoundPitfall {
            id: "cached".to_owned(),
            text: String::new(),
            mend: String::new(),
            phase: None,
            processor: None,
        });
    };
    b.cells.iter_mut().for_each(|cell| {
        let metric = cell.metrics.get_mut("iops").expect("it is measured");
        metric.mean *= 2.0;
        metric.samples.iter_mut().for_each(|sample| *sample *= 2.0);
    });
    cached(&mut a, 0);
    cached(&mut b, 1);
    let verdict = compare(&a, &b).expect("they share cells").verdict;
    for said in
        ["no verdict in 1: a cache answered in A;", "no verdict in 1: a cache answered in B."]
    {
        assert!(verdict.contains(said), "{said}: {verdict}");
    }
}

#[test]
fn a_row_whose_own_interval_says_otherwise_than_the_correction_says_so() {
    let (a, mut b) = (results(1), results(2));
    // Two per cent more, in repeats that scatter by half of one: by itself hardly chance, of 15 well.
    let metric = b.cells[0].metrics.get_mut("iops").expect("it is measured");
    let of_a = a.cells[0].metrics["iops"].clone();
    let spread = of_a.samples.iter().map(|sample| (sample - of_a.mean).abs()).fold(0.0, f64::max);
    let mean = of_a.mean + 2.5 * spread;
    metric.samples = of_a.samples.iter().map(|sample| sample - of_a.mean + mean).collect();
    metric.mean = mean;
    let compared = compare(&a, &b).expect("they share cells");
    let one = &compared.comparisons[0];
    assert!(one.change_percent_low > Some(0.0), "{one:?}");
    assert!(one.p_alone < Some(0.05) && one.p > Some(0.05), "{one:?}");
    assert_eq!((one.difference, one.told_alone), (Difference::None, true));
    assert_eq!(compared.verdict, "No difference at 95 % in any of 15 cells.");
    let table = compared.text(200, true);
    let marked = compared.comparisons.iter().filter(|one| one.told_alone).count();
    assert_eq!(table.matches("no difference *").count(), marked, "{table}");
    assert!(
        table.contains("* By its own 95 % interval it differs. Among so many comparisons"),
        "{table}"
    );
    let json = serde_json::to_value(&compared).expect("JSON");
    assert_eq!(json["comparisons"][0]["told_alone"], true);
    // By itself it is told.
    let only =
        |results: &Results| Results { cells: vec![results.cells[0].clone()], ..results.clone() };
    let alone = compare(&only(&a), &only(&b)).expect("they share a cell");
    assert_eq!(
        (alone.comparisons[0].difference, alone.comparisons[0].told_alone),
        (Difference::Better, false)
    );
    assert!(!alone.text(200, true).contains('*'), "{alone}");
}

#[test]
fn of_what_the_interval_of_a_score_is_stands_with_it() {
    let note = "The interval of a score is that of its mean over the repeats";
    let several = results(1);
    let shown = text(&several, WIDE).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(note) && html(&several).contains(note), "{shown}");
    let target = scripted(|_, plan| noisy("iops", 100.0, 0.01, plan.seed));
    for setting in ["repeats=1", "workload.random.queue_depth=4"] {
        let none = ran(&study_with(STUDY, &set(&[setting])), &target);
        let shown = text(&none, WIDE).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!shown.contains(note), "{setting}: {shown}");
    }
}

/// Layouts of disks of 20 TB, beside loads whose reads wait as long as this says: by layout and workload; and rebuilds that take as
/// long, by layout and `beside LOAD`.
pub struct Waiting(pub fn(&str, &str) -> f64);

impl Target for Waiting {
    fn machine(&self, _: &[CellSpec]) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    fn simulated(&self) -> bool {
        true
    }
    fn jobs_max(&self) -> usize {
        1
    }
    fn check(&self, _: &CellSpec) -> Result<(), TargetError> {
        Ok(())
    }
    fn layout(&self, cell: &CellSpec) -> Option<LayoutFacts> {
        let disk_bytes = 20_000_000_000_000;
        Some(LayoutFacts {
            name: cell.factors["layout"].to_string(),
            what: cell.factors["layout"].to_string(),
            disks: 8,
            disk_bytes,
            usable_bytes: 7 * disk_bytes,
            survives_any: 1,
            survives_at_best: 1,
            shares_disks: false,
            rebuild: Some(RebuildFacts {
                bytes: disk_bytes,
                rate: Some(200e6),
                floor: 16.0 * 1024.0 * 1024.0,
                look: Some(0.01),
                step: 1024.0 * 1024.0,
                mates: 7,
                read_bytes: 7 * disk_bytes,
                legs: None,
            }),
            failures_a_year: Some(0.0035),
            unreadable_per_bit: Some(1e-15),
            disk_price: None,
            basis: String::new(),
        })
    }
    fn run(&self, cell: &CellSpec, _: &RepeatPlan, _: &StopFlag) -> Result<CellRun, TargetError> {
        let layout = cell.factors["layout"].to_string();
        if let Some(load) = cell.workload.parameter("load") {
            let took = (self.0)(&layout, &format!("beside {load}"));
            return Ok(CellRun {
                metrics: BTreeMap::from([("duration_s".to_owned(), took)]),
                ..CellRun::default()
            });
        }
        let wait_us = 1e6 * (self.0)(&layout, &cell.workload.name);
        let metrics = [
            ("iops", 1e6 / wait_us),
            ("latency_us_mean", wait_us),
            ("latency_us_read_mean", wait_us),
        ];
        Ok(CellRun {
            metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
            disk_utilisation: BTreeMap::from([("disk0".to_owned(), 0.9)]),
            ..CellRun::default()
        })
    }
}

/// Found by a newcomer: each layout beside the load that was its own worst.
#[test]
fn rebuilds_of_all_layouts_stand_beside_one_load_which_is_named() {
    let study = STUDY.split("[[workload]]").next().unwrap_or_default().to_owned()
        + "[[workload]]\nname = 'mail'\nkind = 'random'\n[[workload]]\nname = 'shop'\nkind = 'random'\n";
    let study = study_with(&study, &set(&["repeats=1"]));
    let gave = |waits: fn(&str, &str) -> f64, only: &[&str]| {
        run(&study, &Waiting(waits), &options(1, only), &NoObserver).expect("it runs")
    };
    // RAID 5 waits longest beside mail, the others beside shop.
    let waits = |layout: &str, load: &str| match (layout, load) {
        ("raid5-8", "mail") => 0.4,
        ("raid5-8", _) => 0.3,
        (_, "mail") => 0.1,
        _ => 0.3,
    };
    let results = gave(waits, &[]);
    let by: Vec<&str> = results.layouts.iter().filter_map(|one| one.loaded_by.as_deref()).collect();
    assert_eq!(by, ["layout=raid10-8/shop", "layout=raid5-8/shop", "layout=raid6-8/shop"]);
    let times: Vec<Option<f64>> = results.layouts.iter().map(|one| one.rebuild_loaded_s).collect();
    assert!(times.windows(2).all(|pair| pair[0] == pair[1]), "they wait alike there: {times:?}");
    let shown = text(&results, WIDE);
    assert!(shown.contains("rebuild beside") && shown.contains(" shop "), "{shown}");
    assert!(shown.contains("The rebuild beside load is beside shop for all layouts"), "{shown}");
    assert!(html(&results).contains("Rebuild beside shop"));
    assert!(csv(&results).contains("loaded_by=layout=raid5-8/shop"));
    // One that was not run beside that load is named with its own.
    let some = gave(waits, &["raid5-8/mail", "raid6-8/shop"]);
    let shown = text(&some, WIDE);
    for said in [
        "raid5-8: the rebuild beside load is beside mail.",
        "raid6-8: the rebuild beside load is beside shop.",
        "Rebuilds that stand beside different loads do not compare.",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}
