//! What is said of the loads beside which operations run: what they were asked, and beside which a rebuild takes longest.
//!
//! What could break (all found by newcomers): runs whose rebuilds had other loads held to be alike; a load whose rate, block and
//! depth stand nowhere; an estimate named as longest where a longer time was measured.

use crate::many_cells::Waiting;
use crate::scripted::{noisy, options, ran, scripted, set, study_with};
use lab::compare::{Difference, RunComparison, compare};
use lab::report::{TextOptions, csv, html, text};
use lab::results::Results;
use lab::run::{NoObserver, run};

const WIDE: TextOptions = TextOptions { width: 300, colour: false, full: false };

const STUDY: &str = r#"
title = "t"
question = "q?"
repeats = 3
machine = {}
layouts = { raid10-8 = {}, raid5-8 = {} }
[[factor]]
name = "layout"
levels = ["raid10-8", "raid5-8"]
[[workload]]
name = "rebuild"
kind = "rebuild"
load = ["users", "idle"]
[[workload]]
name = "users"
kind = "random"
block_size = "8k"
queue_depth = 4
"#;

fn results(settings: &[&str]) -> Results {
    let target = scripted(|_, plan| noisy("duration_s", 1e6, 0.01, plan.seed));
    ran(&study_with(STUDY, &set(settings)), &target)
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_a_load_was_asked_stands_with_the_operation_beside_it() {
    let results = results(&["workload.users.rate_iops=50"]);
    let beside = |load: &str| {
        let cell = results.cells.iter().find(|cell| cell.factors["load"] == load);
        cell.expect(load).parameters.clone()
    };
    let asked = beside("users");
    for (name, value) in [
        ("load", "users"),
        ("load.kind", "random"),
        ("load.queue_depth", "4"),
        ("load.block_size", "8k"),
        ("load.rate_iops", "50"),
    ] {
        assert_eq!(asked.get(name).map(String::as_str), Some(value), "{name}: {asked:?}");
    }
    assert!(!beside("idle").keys().any(|name| name.starts_with("load.")));
    let shown = words(&text(&results, WIDE));
    for said in ["users: align 8k · block size 8k · kind random · queue depth 4", "rate iops 50"]
    {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert!(shown.contains("rebuild: priority normal users:"), "each line once: {shown}");
    assert!(html(&results).contains("block size 8k · kind random · queue depth 4"));
    assert!(csv(&results).contains("load.queue_depth=4"));
}

#[test]
fn operations_beside_loads_that_were_asked_otherwise_did_not_run_alike() {
    let a = results(&["seed=1"]);
    for (setting, said) in [
        ("workload.users.queue_depth=16", "rebuild.load.queue_depth"),
        ("workload.users.rate_iops=50", "rebuild.load.rate_iops"),
    ] {
        let compared = compare(&a, &results(&["seed=2", setting])).expect("they share cells");
        assert_eq!(
            compared.verdict,
            format!(
                "no difference at 95 % in 2; there is no verdict in 2: none shows between runs that were not alike: {said}."
            )
        );
        let note = format!("{said}: ");
        assert!(compared.notes.iter().any(|one| one.starts_with(&note)), "{:?}", compared.notes);
        let undecided: Vec<&str> = compared
            .comparisons
            .iter()
            .filter(|one| one.difference == Difference::Undecided)
            .map(|one| one.id.as_str())
            .collect();
        assert_eq!(undecided.len(), 2);
        assert!(undecided.iter().all(|id| id.contains("load=users")), "{undecided:?}");
    }
}

/// An earlier Spindle wrote the load's name alone.
#[test]
fn results_that_do_not_say_what_a_load_was_asked_are_compared_and_that_is_said() {
    let (mut a, b) = (results(&["seed=1"]), results(&["seed=2"]));
    for cell in &mut a.cells {
        cell.parameters.retain(|name, _| !name.starts_with("load."));
    }
    let said = |compared: &RunComparison| {
        let of = |name: &str| {
            let note =
                format!("{name} does not say what the loads beside its operations were asked");
            compared.notes.iter().any(|one| one.starts_with(&note))
        };
        (of("A"), of("B"))
    };
    let compared = compare(&a, &b).expect("they share cells");
    assert_eq!(compared.verdict, "No difference at 95 % in any of 4 cells.");
    assert_eq!(said(&compared), (true, false), "{:?}", compared.notes);
    let compared = compare(&results(&["seed=1"]), &b).expect("they share cells");
    assert_eq!(said(&compared), (false, false), "{:?}", compared.notes);
}

/// Found by a newcomer: a rebuild was measured beside `users` under both layouts and beside `busy` under one, and the note named
/// what is worked out beside `small`, which is shorter than what was measured beside `busy`.
#[test]
fn the_longest_rebuild_that_is_known_is_named_measured_before_worked_out() {
    let head = STUDY.split("[[workload]]").next().unwrap_or_default();
    let study = head.to_owned()
        + r#"
[[workload]]
name = "first"
kind = "rebuild"
load = "users"
[[workload]]
name = "second"
kind = "rebuild"
load = "busy"
only = { layout = "raid10-8" }
[[workload]]
name = "users"
kind = "random"
[[workload]]
name = "busy"
kind = "random"
[[workload]]
name = "small"
kind = "random"
"#;
    let study = study_with(&study, &set(&["repeats=1"]));
    let warned = |waits: fn(&str, &str) -> f64, layout: &str| {
        let results = run(&study, &Waiting(waits), &options(1, &[]), &NoObserver).expect("it runs");
        let its = results.layouts.iter().find(|one| one.name == layout).expect("it is there");
        assert_eq!(its.loaded_by.as_deref(), Some("users"));
        let told = |warning: &&String| warning.starts_with("the rebuild beside load is");
        its.warnings.iter().find(told).cloned().unwrap_or_default()
    };
    const DAY: f64 = 86_400.0;
    // All reads wait 10 ms, so that all rebuilds are worked out to take 13 days 19 h, to which the floor keeps them.
    let quick = |_: &str, what: &str| match what {
        "beside users" => 14.0 * DAY,
        "beside busy" => 20.0 * DAY,
        _ => 0.01,
    };
    let warning = warned(quick, "raid10-8");
    assert!(warning.ends_with("; beside busy it took 20 days, as it was measured"), "{warning}");
    assert_eq!(warned(quick, "raid5-8"), "", "nothing is known to be longer");
    // Those of `small` wait, for less than what was measured beside `busy`.
    let less = |_: &str, what: &str| match what {
        "beside users" => 14.0 * DAY,
        "beside busy" => 90.0 * DAY,
        "small" => 0.1,
        _ => 0.01,
    };
    let warning = warned(less, "raid10-8");
    assert!(warning.ends_with("; beside busy it took 90 days, as it was measured"), "{warning}");
    assert!(warned(less, "raid5-8").contains("beside layout=raid5-8/small it is ≈ "));
    // For more.
    let more = |_: &str, what: &str| match what {
        "beside users" => 14.0 * DAY,
        "beside busy" => 20.0 * DAY,
        "small" => 0.4,
        _ => 0.01,
    };
    let warning = warned(more, "raid10-8");
    assert!(
        warning.contains("beside busy it took 20 days, as it was measured; beside "),
        "{warning}"
    );
    assert!(warning.contains("beside layout=raid10-8/small it is ≈ "), "{warning}");
}
