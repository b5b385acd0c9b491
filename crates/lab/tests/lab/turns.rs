//! Whether an order of layouts that turns is told: with one setting, with two, between two runs; and in which words where the
//! repeats are too few to tell.
//!
//! What could break (all found by newcomers): a layout that is best everywhere hides that the others change places; an
//! order that turns only where two settings meet; two runs that have turned it, and "no difference"; a figure of a third
//! of the best beside "not told from the best".

use crate::scripted::{noisy, ran, scripted, set, study_with};
use lab::compare::{Difference, compare};
use lab::report::{TextOptions, text};
use lab::results::Results;

const STUDY: &str = r#"
title = "t"
question = "q?"
repeats = 3
machine = {}
layouts = { raid0-8 = {}, raid10-8 = {}, raid5-8 = {} }
[[factor]]
name = "layout"
levels = ["raid0-8", "raid10-8", "raid5-8"]
[[workload]]
name = "random"
kind = "random"
queue_depth = [1, 16]
read_share = [0.0, 1.0]
[verdict]
by = "layout"
"#;

/// What a study gives where each layout makes so many I/Os a second, by depth, read share and repeat.
fn measured(
    settings: &[&str],
    rate: impl Fn(&str, u32, bool, u32) -> f64 + Sync + 'static,
) -> Results {
    let target = scripted(move |cell, plan| {
        let layout = cell.factors["layout"].to_string();
        let depth = if cell.property("queue_depth").as_deref() == Some("16") { 16 } else { 1 };
        let reads = cell.property("read_share").as_deref() == Some("1");
        noisy("iops", rate(&layout, depth, reads, plan.repeat), 0.01, plan.seed)
    });
    ran(&study_with(STUDY, &set(settings)), &target)
}

#[test]
fn a_layout_that_is_always_best_does_not_hide_that_the_others_change_places() {
    let results = measured(&[], |layout, depth, _, _| match (layout, depth) {
        ("raid0-8", _) => 5000.0,
        ("raid10-8", 1) => 200.0,
        ("raid10-8", _) => 300.0,
        (_, 1) => 100.0,
        _ => 2000.0,
    });
    let text = &results.verdict;
    assert!(text.contains("raid0-8 does best"), "{text}");
    assert!(
        text.contains("The order turns with queue_depth: at 1 raid10-8 comes before raid5-8 ("),
        "{text}"
    );
    assert!(!text.contains("turns with read_share"), "{text}");
    assert!(!text.contains("Two settings"), "the one setting says it: {text}");
}

#[test]
fn an_order_that_turns_where_two_settings_meet_is_told_with_both() {
    let results = measured(&[], |layout, depth, reads, _| match (layout, depth, reads) {
        ("raid0-8", ..) => 50.0,
        ("raid10-8", 16, true) => 1000.0,
        ("raid10-8", ..) => 100.0,
        _ => 400.0,
    });
    let text = &results.verdict;
    assert!(!text.contains("The order turns with"), "{text}");
    let told =
        "Two settings together turn it: at queue_depth=16, read_share=1 raid10-8 does best, 2.";
    assert!(text.contains(told) && text.contains(" × raid5-8."), "{text}");
    // Nothing turns, nothing is said.
    let steady = measured(&[], |layout, depth, _, _| {
        f64::from(depth) * if layout == "raid10-8" { 2.0 } else { 1.0 }
    });
    assert!(!steady.verdict.contains("turn"), "{}", steady.verdict);
}

/// Found by a newcomer: "at 16 raid5-8 does best, 1.13 × raid10-8", as a mean over one stream and four; with four it does worse.
#[test]
fn a_mean_that_turns_and_that_some_of_its_cells_deny_is_told_of_those_that_bear_it() {
    let rates = |others: f64| {
        move |layout: &str, depth: u32, reads: bool, _: u32| match (layout, depth, reads) {
            ("raid0-8", ..) => 50.0,
            ("raid5-8", 16, true) => 400.0,
            ("raid5-8", 16, false) => others,
            ("raid5-8", ..) => 50.0,
            (_, 16, _) => 200.0,
            _ => 220.0,
        }
    };
    for (others, is_of_the_depth) in [(150.0, false), (200.0, false), (300.0, true)] {
        let text = measured(&[], rates(others)).verdict;
        assert!(text.contains("raid10-8 does best: "), "{text}");
        let alone = text.contains("The order turns with queue_depth: at 16 raid5-8 does best, 1.");
        assert_eq!(alone, is_of_the_depth, "{others}: {text}");
        assert_eq!(text.contains("The order turns with"), is_of_the_depth, "{others}: {text}");
        let both =
            "Two settings together turn it: at queue_depth=16, read_share=1 raid5-8 does best, ";
        assert_eq!(text.contains(both), !is_of_the_depth, "{others}: {text}");
        let cells = if is_of_the_depth { 2 } else { 1 };
        let elsewhere = format!("; in {cells} of 4 cells raid5-8 does better.");
        assert!(text.contains(&elsewhere), "{others}: {text}");
    }
    // What is best in each cell is best; noise is no other order.
    let steady = measured(&[], |layout, _, _, _| match layout {
        "raid10-8" => 105.0,
        _ => 100.0,
    });
    assert!(!steady.verdict.contains("does better"), "{}", steady.verdict);
}

/// Two settings are a mean, too, where there is a third.
#[test]
fn what_takes_three_settings_is_not_told_of_two_but_counted() {
    let three = STUDY.replace("repeats = 3", "repeats = 4");
    let three = three.replace("read_share =", "block_size = [\"4k\", \"8k\"]\nread_share =");
    let rates = |bears: bool| {
        scripted(move |cell, plan| {
            let is = |key: &str, value: &str| cell.property(key).as_deref() == Some(value);
            let meets = is("queue_depth", "16") && is("read_share", "1");
            let rate = match cell.factors["layout"].to_string().as_str() {
                "raid5-8" if meets && is("block_size", "4k") => 800.0,
                "raid5-8" if meets => {
                    if bears {
                        300.0
                    } else {
                        150.0
                    }
                }
                "raid5-8" | "raid0-8" => 50.0,
                _ => 200.0,
            };
            noisy("iops", rate, 0.01, plan.seed)
        })
    };
    let text = ran(&study_with(&three, &set(&[])), &rates(true)).verdict;
    assert!(text.contains("at queue_depth=16, read_share=1 raid5-8 does best, 2.4"), "{text}");
    let text = ran(&study_with(&three, &set(&[])), &rates(false)).verdict;
    assert!(!text.contains("queue_depth=16, read_share=1"), "150 is below 200: {text}");
    assert!(text.contains("; in 1 of 8 cells raid5-8 does better."), "{text}");
}

/// A tie of means over cells that are far apart is no equality of the levels.
#[test]
fn levels_that_tie_on_average_and_nowhere_are_said_to() {
    let text = measured(&["repeats=5"], |layout, depth, _, _| match (layout, depth) {
        ("raid10-8", 1) | ("raid5-8", 16) => 400.0,
        ("raid10-8", _) | ("raid5-8", _) => 100.0,
        _ => 20.0,
    });
    let text = text.verdict;
    assert!(text.contains("; on average they differ by no more than "), "{text}");
    assert!(text.contains("; in 2 of 4 cells raid"), "{text}");
}

/// At depth 1 it turns, surely for writes; reads scatter too much for the depth alone to be told. It is the depth all the same.
#[test]
fn what_one_setting_turns_is_not_put_down_to_two() {
    let results = measured(&[], |layout, depth, reads, repeat| {
        let scatter = if reads { [0.8, 1.0, 1.3][repeat as usize % 3] } else { 1.0 };
        match (layout, depth) {
            ("raid0-8", _) => 5000.0,
            ("raid10-8", 1) => 118.0 * scatter,
            ("raid10-8", _) => 300.0,
            (_, 1) => 100.0 * scatter,
            _ => 2000.0,
        }
    });
    let text = &results.verdict;
    let told = "The order turns with queue_depth: at 1 raid10-8 comes before raid5-8 (1.1";
    assert!(text.contains(told) && text.contains("not sure"), "{text}");
    assert!(!text.contains("Two settings"), "{text}");
}

#[test]
fn what_turns_in_each_of_too_few_repeats_is_told_and_marked() {
    let results = measured(&["repeats=2"], |layout, depth, _, repeat| {
        let noise = if repeat % 2 == 0 { 1.0 } else { 1.5 };
        match (layout, depth) {
            ("raid10-8", 1) => 1000.0 * noise,
            ("raid10-8", _) => 100.0 * noise,
            ("raid5-8", 1) => 400.0,
            ("raid5-8", _) => 4000.0 * noise,
            _ => 20.0,
        }
    });
    let text = &results.verdict;
    assert!(
        text.contains("at 1 raid10-8 does best, ") && text.contains(" × raid5-8, not sure"),
        "{text}"
    );
    // The count of cells says no more than what turns in them.
    assert!(text.contains("; in 2 of 4 cells raid10-8 does better, not sure"), "{text}");
}

#[test]
fn too_few_repeats_are_said_to_be_that_and_not_an_equality() {
    let results = measured(&["repeats=2"], |layout, _, _, repeat| match (layout, repeat % 2) {
        ("raid10-8", _) => 968.0,
        ("raid5-8", 0) => 200.0,
        ("raid5-8", _) => 380.0,
        _ => 268.0,
    });
    let text = &results.verdict;
    assert!(text.contains("raid10-8 came out best: "), "{text}");
    assert!(
        text.contains("each of 2 repeats puts it before raid5-8, too few to be sure at 95 %"),
        "{text}"
    );
    assert!(!text.contains("not distinguishable") && !text.contains("no more than"), "{text}");
    let rows = &results.rankings[0].rows;
    let five = rows.iter().find(|row| row.level == "raid5-8").expect("it is ranked");
    assert!(five.standing.ends_with(" × the best, not sure after 2 repeats"), "{five:?}");
    assert!(rows.is_sorted_by(|one, next| one.score.mean >= next.score.mean), "{rows:?}");
}

#[test]
fn two_runs_between_which_layouts_change_places_say_so() {
    let by_depth = |deep: bool| {
        measured(&["repeats=2"], move |layout, _, _, repeat| {
            let noise = 1.0 + 0.1 * f64::from(repeat);
            noise
                * match (layout, deep) {
                    ("raid0-8", _) => 2000.0,
                    ("raid10-8", _) => 1140.0,
                    (_, false) => 180.0,
                    _ => 1996.0,
                }
        })
    };
    let turned = compare(&by_depth(false), &by_depth(true)).expect("they share cells");
    let text = &turned.verdict;
    assert!(text.contains("The order of layout turned: at random/"), "{text}");
    assert!(
        text.contains("raid10-8 is better than raid5-8 in A, 6.3")
            && text.contains(" and worse in B, 1.7"),
        "{text}"
    );
    assert!(turned.to_string().contains("The order of layout turned"), "{turned}");
    let five = |one: &&lab::compare::Comparison| one.id.contains("raid5-8");
    assert!(
        turned.comparisons.iter().filter(five).all(|one| one.difference != Difference::None),
        "eleven times as much is no equality: {text}"
    );
    let same = compare(&by_depth(true), &by_depth(true)).expect("they share cells");
    assert!(!same.verdict.contains("turned"), "{}", same.verdict);
}

/// 1139.6 against 1139.4, without any noise: sure, and nothing.
#[test]
fn a_difference_below_what_is_shown_is_none() {
    let exactly = |rate: f64| {
        let target = scripted(move |_, plan| noisy("iops", rate, 0.0, plan.seed));
        ran(&study_with(STUDY, &set(&[])), &target)
    };
    let tiny = compare(&exactly(1139.6), &exactly(1139.4)).expect("they share cells");
    assert_eq!(tiny.verdict, "No difference at 95 % in any of 12 cells.");
    let small = compare(&exactly(1000.0), &exactly(990.0)).expect("they share cells");
    assert_eq!(small.verdict, "B is worse in 12 of 12 cells, by 1.0 %.");
}

/// A rebuild of 57 minutes that is "1.00 × less" than another of 57 minutes.
#[test]
fn what_differs_by_less_than_is_shown_has_no_ratio_of_one() {
    let results = measured(&[], |layout, _, _, repeat| {
        let noise = 1.0 + 1e-7 * f64::from(repeat);
        noise * if layout == "raid10-8" { 1001.0 } else { 1000.0 }
    });
    assert!(!results.verdict.contains("1.00 ×"), "{}", results.verdict);
    let exact = scripted(|cell, _| {
        let rate = match cell.factors["layout"].to_string().as_str() {
            "raid10-8" => 1001.0,
            _ => 1000.0,
        };
        noisy("iops", rate, 0.0, 1)
    });
    let text = ran(&study_with(STUDY, &set(&[])), &exact).verdict;
    assert!(text.contains("less than 0.5 % above raid"), "{text}");
}

/// Found by a newcomer: "came out best, in one repeat" beside an interval.
#[test]
fn a_level_that_was_run_once_beside_others_is_said_to_be_that_and_they_are_not() {
    let once = |levels: &str| {
        measured(&["repeats=3", levels], |layout, _, _, repeat| match (layout, repeat) {
            ("raid5-8", 1..) => f64::NAN,
            ("raid5-8", _) => 500.0,
            ("raid10-8", _) => 1000.0,
            _ => 100.0,
        })
    };
    let two = once("factor.layout=raid10-8,raid5-8");
    let text = &two.verdict;
    assert!(text.contains("; one repeat of raid5-8 does not tell how sure that is"), "{text}");
    let standings = |results: &Results| -> Vec<String> {
        results.rankings[0].rows.iter().map(|row| row.standing.clone()).collect()
    };
    let [best, next] = &standings(&two)[..] else { panic!("{:?}", two.rankings) };
    assert_eq!(best, "came out best");
    assert!(next.ends_with(" × the best, in one repeat"), "{next}");
    // Those that were run often enough are told from one another.
    let three = once("factor.layout=raid0-8,raid10-8,raid5-8");
    assert!(three.verdict.contains("raid10-8 does best"), "{}", three.verdict);
    let standings = standings(&three);
    assert_eq!(
        (&*standings[0], &*standings[1]),
        ("best of those run more than once", "one repeat: no interval")
    );
    for said in
        [" more than once: 1", " × raid0-8, the next that can be placed", "not placed: raid5-8 50"]
    {
        assert!(three.verdict.contains(said), "{said}: {}", three.verdict);
    }
    assert!(standings[2].ends_with(" × the best"), "{standings:?}");
}

/// A mean over cells that are unlike stands for none of them.
#[test]
fn a_score_over_several_cells_says_so_and_shows_their_ends() {
    let results = measured(&[], |layout, depth, _, _| {
        let rate = if depth == 1 { 100.0 } else { 900.0 };
        if layout == "raid0-8" { 2.0 * rate } else { rate }
    });
    const WIDE: TextOptions = TextOptions { width: 200, colour: false, full: false };
    let ranking = &results.rankings[0];
    assert_eq!(ranking.cells, 4);
    for row in &ranking.rows {
        let one = if row.level == "raid0-8" { 200.0 } else { 100.0 };
        for (is, expected) in
            [(row.lowest_cell, one), (row.score.mean, 3.0 * one), (row.highest_cell, 9.0 * one)]
        {
            assert!((is / expected - 1.0).abs() < 0.05, "{row:?}");
        }
    }
    let shown = text(&results, WIDE);
    assert!(shown.contains("(geometric mean of 4 cells)"), "{shown}");
    assert!(shown.contains("lowest – highest"), "{shown}");
    let one = measured(
        &["workload.random.queue_depth=1", "workload.random.read_share=1"],
        |_, _, _, _| 1.0,
    );
    assert_eq!(one.rankings[0].cells, 1);
    let figure = |layout: &str| {
        let cell = one.cells.iter().find(|cell| cell.factors["layout"] == layout);
        cell.expect("it was run").metrics["iops"].clone()
    };
    for row in &one.rankings[0].rows {
        assert_eq!(row.score, figure(&row.level), "a cell's own figure and interval");
    }
    assert!(!text(&one, WIDE).contains("lowest – highest"));
}

/// Found by a newcomer: a mirror's mix above reads alone and writes alone, without a word.
#[test]
fn a_mix_that_does_more_than_reads_and_than_writes_is_said_to_be_no_error() {
    let shares = ["workload.random.read_share=0,0.7,1", "workload.random.queue_depth=16"];
    let with = |mix: f64, wild: bool| {
        let target = scripted(move |cell, plan| {
            let rate = match cell.property("read_share").as_deref() {
                Some("1") => 610.0,
                Some("0") => 660.0,
                _ if wild && plan.repeat == 0 => 600.0,
                _ => mix,
            };
            noisy("iops", rate, 0.001, plan.seed)
        });
        ran(&study_with(STUDY, &set(&shares)), &target).verdict
    };
    let said = with(690.0, false);
    assert!(
        said.contains("Of random, reads and writes mixed do more than either alone ("),
        "{said}"
    );
    assert!(said.contains("read_share=0.7") && said.contains("no error"), "{said}");
    for (mix, wild) in [(650.0, false), (690.0, true)] {
        let said = with(mix, wild);
        assert!(!said.contains("mixed do more"), "{said}");
    }
}
