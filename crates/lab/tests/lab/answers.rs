//! Claims, the verdict and the comparison of two runs: what is said of figures that are known.

use crate::scripted;

use lab::compare::{Difference, compare};
use lab::results::{Cell, ClaimResult, Results};
use scripted::{Scripted, attempt, noisy, ran, scripted, set, study, study_with};

const STUDY: &str = r#"
title = "t"
question = "q?"
repeats = 5
machine = {}
layouts = { disk = {}, raid10-4 = {}, raid5-6 = {} }
[[factor]]
name = "layout"
levels = ["disk", "raid10-4", "raid5-6"]
[[workload]]
name = "random"
kind = "random"
queue_depth = [1, 16]
[[workload]]
name = "rebuild"
kind = "rebuild"
except = { layout = "disk" }
"#;

/// RAID 10 of four makes four times a disk's random I/O, RAID 5 of six twice; at depth 16 all make
/// three times as much.
fn array(noise: f64) -> Scripted {
    scripted(move |cell, plan| {
        let layout = match cell.factors["layout"].to_string().as_str() {
            "disk" => 1.0,
            "raid10-4" => 4.0,
            _ => 2.0,
        };
        if cell.workload.name == "rebuild" {
            return noisy("duration_s", 31_000.0 / layout, noise, plan.seed);
        }
        let depth = if cell.property("queue_depth").as_deref() == Some("16") { 3.0 } else { 1.0 };
        noisy("iops", 100.0 * layout * depth, noise, plan.seed)
    })
}

fn claim(check: &str) -> ClaimResult {
    claim_on(check, &array(0.01), &[])
}

fn claim_on(check: &str, target: &Scripted, only: &[&str]) -> ClaimResult {
    let text = format!(
        "{STUDY}\n[[claim]]\nid = 'c'\ntext = 't'\nsource = 's'\npublished = 'p'\n\
         explanation = 'the model has no cache'\ncheck = {check}"
    );
    let results = attempt(&study(&text), target, 2, only).expect("it runs");
    results.claims.into_iter().next().expect("one claim")
}

#[test]
fn a_claim_about_a_value_holds_within_its_tolerance_only() {
    let check = |value: &str, tolerance: &str| {
        claim(&format!(
            "{{ metric = 'duration_s', of = {{ workload = 'rebuild', layout = 'raid5-6' }}, \
             relation = 'about', value = {value}, tolerance = {tolerance} }}"
        ))
    };
    let held = check("'4h18m'", "0.05");
    assert!(held.reproduced, "{held:?}");
    assert!(held.measured.starts_with("4 h 1"), "{held:?}");
    assert_eq!(held.explanation, None);
    let missed = check("'8h36m'", "0.10");
    assert!(!missed.reproduced && !missed.unsure, "{missed:?}");
    assert!(missed.measured.contains(", −49."), "{missed:?}");
    assert_eq!(missed.explanation.as_deref(), Some("the model has no cache"));
}

/// The sloppier the measurement, the easier a claim would be met, were its interval to help it.
#[test]
fn a_measurement_too_uncertain_to_tell_reproduces_nothing() {
    let check = "{ metric = 'iops', of = { workload = 'random', layout = 'disk', queue_depth = 1 }, \
                 relation = 'about', value = 100, tolerance = 0.10 }";
    assert!(claim(check).reproduced);
    let sloppy = scripted(|_, plan| {
        noisy("iops", if plan.repeat % 2 == 0 { 60.0 } else { 160.0 }, 0.0, plan.seed)
    });
    let vague = claim_on(check, &sloppy, &[]);
    assert!(!vague.reproduced);
    assert!(vague.measured.ends_with("too uncertain to tell: run more repeats"), "{vague:?}");
    assert!(vague.unsure && vague.explanation.is_none(), "{vague:?}");
}

#[test]
fn an_ordered_claim_must_hold_in_every_cell_with_confidence() {
    let above = |value: u32| {
        claim(&format!(
            "{{ metric = 'iops', of = {{ workload = 'random', layout = 'raid10-4' }}, \
             relation = 'above', value = {value} }}"
        ))
    };
    assert!(above(380).reproduced);
    let missed = above(1000);
    assert!(!missed.reproduced);
    assert!(missed.measured.contains("in 2 cells; it does not hold in 1 of them"), "{missed:?}");
    // The mean lies above, its interval does not.
    let sloppy =
        scripted(|_, plan| noisy("iops", [90.0, 100.0, 115.0][plan.repeat as usize % 3], 0.0, 0));
    let check = "{ metric = 'iops', of = { workload = 'random' }, relation = 'above', value = 99 }";
    let unsure = claim_on(check, &sloppy, &[]);
    assert!(!unsure.reproduced && unsure.unsure, "{unsure:?}");
}

#[test]
fn a_claim_against_other_cells_pairs_those_that_agree_in_the_rest() {
    let check = |relation: &str, factor: f64| {
        claim(&format!(
            "{{ metric = 'iops', of = {{ workload = 'random', layout = 'raid10-4' }}, \
             relation = '{relation}', to = {{ layout = 'raid5-6' }}, factor = {factor} }}"
        ))
    };
    let held = check("above", 1.9);
    assert!(held.reproduced, "{held:?}");
    assert!(held.measured.contains(" × in 2 cells"), "{held:?}");
    assert!(!check("above", 2.1).reproduced);
    assert!(check("below", 2.1).reproduced);
    assert!(check("about", 2.0).reproduced);
    assert!(!check("about", 3.0).reproduced);
    let workloads = claim(
        "{ metric = 'iops', of = { workload = 'random', layout = 'disk', queue_depth = 16 }, \
         relation = 'about', to = { queue_depth = 1 }, factor = 3 }",
    );
    assert!(workloads.reproduced && workloads.measured.contains(" × (95 % "), "{workloads:?}");
}

#[test]
fn a_claim_whose_cells_were_left_out_is_not_measured() {
    let check = "{ metric = 'iops', of = { layout = 'disk' }, relation = 'above', value = 1 }";
    let left_out = claim_on(check, &array(0.01), &["raid10-4"]);
    assert_eq!(
        (left_out.reproduced, left_out.measured.as_str()),
        (false, "not measured in this run")
    );
    let other =
        claim("{ metric = 'read_iops', of = { layout = 'disk' }, relation = 'above', value = 1 }");
    assert!(other.measured.ends_with("has no metric 'read_iops'; there are: iops"), "{other:?}");
}

fn verdict(rules: &str, target: &Scripted, settings: &[&str]) -> String {
    ran(&study_with(&format!("{STUDY}\n{rules}"), &set(settings)), target).verdict
}

const RULES: &str = "[verdict]\nby = 'layout'\n[[verdict.use]]\nname = 'random reads'\n\
                     of = { workload = 'random' }";

#[test]
fn the_verdict_names_the_best_level_how_good_and_how_sure() {
    let text = verdict(RULES, &array(0.01), &[]);
    assert!(text.starts_with("For random reads, raid10-4 does best: 69"), "{text}");
    assert!(text.contains(" I/Os a second (95 % 6"), "{text}");
    assert!(text.contains(" over 2 cells, "), "{text}");
    assert!(text.ends_with(" × raid5-6, which comes next."), "{text}");
}

#[test]
fn the_verdict_does_not_choose_between_levels_that_can_not_be_told_apart() {
    let equal = scripted(|cell, plan| match cell.factors["layout"].to_string().as_str() {
        "disk" => noisy("iops", 100.0, 0.1, plan.seed),
        _ => noisy("iops", 200.0, 0.1, plan.seed),
    });
    let text = verdict(RULES, &equal, &[]);
    assert!(text.contains("the best 2 levels are not distinguishable at 95 %: raid"), "{text}");
    assert!(text.contains(" they differ by no more than "), "{text}");
    assert!(text.contains(" × disk, which comes next."), "{text}");
}

#[test]
fn one_repeat_does_not_tell_how_sure_a_verdict_is() {
    let text = verdict(RULES, &array(0.0), &["repeats=1"]);
    assert_eq!(
        text,
        "For random reads, raid10-4 came out best: 693 I/Os a second over 2 cells, \
         against 346 I/Os a second of raid5-6; one repeat does not tell how sure that is."
    );
}

#[test]
fn where_less_is_better_the_least_wins() {
    let rules = "[verdict]\nby = 'layout'\n[[verdict.use]]\nname = 'a rebuild'\n\
                 of = { workload = 'rebuild' }";
    assert_eq!(
        verdict(rules, &array(0.0), &[]),
        "For a rebuild, raid10-4 does best: 2 h 9 min, 50.0 % less than raid5-6, which comes next."
    );
}

#[test]
fn the_yield_of_a_disk_is_ranked_where_the_study_counts_disks() {
    let rules = format!(
        "{RULES}\n[verdict.per]\nunit = 'disk'\ncounts = {{ disk = 1, raid10-4 = 8, raid5-6 = 6 }}"
    );
    let text = verdict(&rules, &array(0.0), &[]);
    assert!(text.ends_with(" Per disk, disk yields most: 173 I/Os a second."), "{text}");
}

#[test]
fn without_rules_the_verdict_is_a_plain_account() {
    let text = verdict("", &array(0.0), &[]);
    assert_eq!(
        text,
        "random: from 100 I/Os a second (layout=disk/random/queue_depth=1) to 1200 I/Os a second \
         (layout=raid10-4/random/queue_depth=16). rebuild: from 2 h 9 min (layout=raid10-4/rebuild) to \
         4 h 18 min (layout=raid5-6/rebuild)."
    );
    let few = verdict("", &array(0.0), &["factor.layout=disk"]);
    assert_eq!(
        few,
        "layout=disk/random/queue_depth=1: 100 I/Os a second; layout=disk/random/queue_depth=16: 300 \
         I/Os a second."
    );
}

fn results(scale: f64, seed: u64) -> Results {
    let target = scripted(move |cell, plan| {
        let faster = cell.factors["layout"].to_string() == "raid10-4";
        noisy("iops", 100.0 * if faster { scale } else { 1.0 }, 0.01, plan.seed)
    });
    let text = STUDY.split("[[workload]]\nname = \"rebuild\"").next().unwrap_or_default();
    let options = lab::study::Options { seed: Some(seed), ..Default::default() };
    ran(&study_with(text, &options), &target)
}

#[test]
fn two_runs_of_the_same_thing_do_not_differ() {
    let comparison = compare(&results(1.0, 1), &results(1.0, 2)).expect("they share cells");
    assert_eq!(comparison.verdict, "No difference at 95 % in any of 6 cells.");
    assert!(comparison.comparisons.iter().all(|one| one.main));
    assert_eq!(comparison.notes, ["seed: 1 in A, 2 in B"]);
}

#[test]
fn a_difference_is_found_where_it_is_and_measured() {
    let comparison = compare(&results(1.0, 1), &results(1.5, 2)).expect("they share cells");
    assert!(
        comparison.verdict.starts_with("B is better in 2 of 6 cells, by 4"),
        "{}",
        comparison.verdict
    );
    assert!(
        comparison.verdict.ends_with("; no difference at 95 % in 4."),
        "{}",
        comparison.verdict
    );
    let worse = compare(&results(1.5, 1), &results(1.0, 2)).expect("they share cells");
    assert!(worse.verdict.starts_with("B is worse in 2 of 6 cells, by 3"), "{}", worse.verdict);
    let one = &comparison.comparisons[2];
    assert_eq!(
        (one.id.as_str(), one.difference),
        ("layout=raid10-4/random/queue_depth=1", Difference::Better)
    );
    assert!(one.change_percent_low < Some(50.0) && Some(50.0) < one.change_percent_high, "{one:?}");
    let table = comparison.to_string();
    assert!(table.starts_with("Before you believe it:"), "caveats come first: {table}");
    assert!(table.contains(&comparison.verdict), "{table}");
    assert!(table.contains("better"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert_eq!(
        table.matches("layout=disk").count(),
        0,
        "what does not differ is left out: {table}"
    );
}

#[test]
fn simulated_and_real_figures_are_never_compared() {
    let mut real = results(1.0, 1);
    real.simulated = false;
    let error = compare(&results(1.0, 1), &real).expect_err("they must not be");
    assert_eq!(
        error.to_string(),
        "A is simulated and B is real; simulated and real figures are never compared: run both on the \
         same kind of machine"
    );
}

#[test]
fn cells_that_only_one_run_has_are_listed() {
    let (a, mut b) = (results(1.0, 1), results(1.0, 2));
    let gone = b.cells.remove(0);
    let comparison = compare(&a, &b).expect("they share cells");
    assert_eq!((comparison.only_a, comparison.only_b), (vec![gone.id], Vec::new()));
    b.cells.clear();
    let error = compare(&a, &b).expect_err("nothing is left");
    assert!(error.to_string().contains("no cell in common"), "{error}");
}

#[test]
fn that_nothing_differs_is_no_verdict_of_cells_that_did_not_run_alike() {
    let (a, mut b) = (results(1.0, 1), results(1.0, 2));
    b.cells[0].parameters.insert("queue_depth".to_owned(), "7".to_owned());
    let comparison = compare(&a, &b).expect("they share cells");
    assert_eq!(
        comparison.verdict,
        "no difference at 95 % in 5; there is no verdict in 1: none shows between runs that were not alike: \
         random.queue_depth."
    );
    assert_eq!(comparison.comparisons[0].difference, Difference::Undecided);
    assert!(!comparison.to_string().contains("metrics differ"), "{comparison}");
}

/// More repeats never give a verdict on two kinds of work.
#[test]
fn that_repeats_are_too_few_is_not_said_of_cells_that_did_not_run_alike() {
    let (mut a, mut b) = (results(1.0, 1), results(1.0, 2));
    for (results, samples) in [(&mut a, [100.0, 300.0]), (&mut b, [500.0, 900.0])] {
        let metric = results.cells[0].metrics.get_mut("iops").expect("it is measured");
        metric.mean = samples.iter().sum::<f64>() / 2.0;
        metric.samples = samples.to_vec();
    }
    let comparison = compare(&a, &b).expect("they share cells");
    assert!(comparison.verdict.contains("too few to be sure"), "{}", comparison.verdict);
    let one = comparison.comparisons.iter().find(|one| one.metric == "iops").expect("it is held");
    // The interval is that of a figure that can't be below nothing.
    assert_eq!(one.change_percent_low, Some(-100.0));
    b.cells[0].parameters.insert("queue_depth".to_owned(), "7".to_owned());
    let comparison = compare(&a, &b).expect("they share cells");
    let why = "there is no verdict in 1: none is sure between runs that were not alike: random.queue_depth";
    assert!(comparison.verdict.contains(why), "{}", comparison.verdict);
}

/// Real results of runs that began at this second and took a minute.
fn real(scale: f64, seed: u64, began: u64) -> Results {
    let mut made = results(scale, seed);
    made.simulated = false;
    (made.run.began_unix_s, made.run.ended_unix_s) = (Some(began), Some(began + 60));
    made
}

#[test]
fn real_runs_far_apart_in_time_are_not_judged_by_what_may_be_drift() {
    // Samples scatter by 2 % within a minute; by ten days later they may drift by root 14 400, 120 times as far.
    let near = compare(&real(1.0, 1, 0), &real(1.5, 2, 120)).expect("they share cells");
    assert!(near.verdict.starts_with("B is better in 2 of 6 cells"), "{}", near.verdict);
    let far = compare(&real(1.0, 1, 0), &real(1.5, 2, 864_000)).expect("they share cells");
    assert!(!far.verdict.contains("better"), "{}", far.verdict);
    assert!(far.verdict.contains("no verdict in 2: they lie 10 days apart"), "{}", far.verdict);
    let mut undated = real(1.5, 2, 0);
    undated.run.began_unix_s = None;
    let text = compare(&real(1.0, 1, 0), &undated).expect("they share cells").verdict;
    assert!(text.contains("does not say when it was made"), "{text}");
}

#[test]
fn what_both_runs_were_limited_by_or_a_cache_answered_is_no_verdict() {
    let with = |id: &str, scale: f64, seed: u64| {
        let mut made = results(scale, seed);
        for cell in &mut made.cells {
            cell.pitfalls.push(lab::results::FoundPitfall {
                id: id.to_owned(),
                text: String::new(),
                mend: String::new(),
                phase: None,
                processor: None,
            });
        }
        made
    };
    for (id, words) in
        [("saturated-link", "both runs filled the link"), ("cached", "a cache answered in A and B")]
    {
        let both = compare(&with(id, 1.0, 1), &with(id, 1.5, 2)).expect("they share cells");
        assert!(both.verdict.contains(words), "{}", both.verdict);
        assert!(!both.verdict.contains("better"), "{}", both.verdict);
        assert_eq!(both.comparisons[2].difference, Difference::Undecided);
    }
    // A host that others kept busy was not filled by the runs.
    let of_host = |scale: f64, seed: u64| {
        let mut made = with("saturated-processor", scale, seed);
        made.cells.iter_mut().for_each(|cell| cell.pitfalls[0].processor = Some("host".to_owned()));
        made
    };
    let both = compare(&of_host(1.0, 1), &of_host(1.5, 2)).expect("they share cells");
    assert!(both.verdict.contains("all processors of the host were busy"), "{}", both.verdict);
    assert!(!both.verdict.contains("filled"), "{}", both.verdict);
    // Of a phase of a tool that is said, and of the other metrics it says nothing.
    let in_phase = |phase: Option<&str>| {
        let mut made = with("cached-by-disks", 1.5, 2);
        let of_it = |cell: &mut Cell| cell.pitfalls[0].phase = phase.map(str::to_owned);
        made.cells.iter_mut().for_each(of_it);
        compare(&results(1.0, 1), &made).expect("they share cells").verdict
    };
    let seeks = in_phase(Some("random seeks"));
    assert!(seeks.starts_with("B is better in 2 of 6 cells"), "{seeks}");
    let all = in_phase(None);
    assert!(all.contains("there is no verdict in 2: a cache answered in B"), "{all}");
    let one = compare(&with("saturated-link", 1.0, 1), &results(1.5, 2)).expect("they share cells");
    assert!(
        one.verdict.starts_with("B is better in 2 of 6 cells"),
        "one of them was not: {}",
        one.verdict
    );
}

#[test]
fn a_verdict_that_turns_between_two_settings_says_so() {
    // RAID 5 wins at depth 16 and overall, RAID 10 at depth 1.
    let turning = scripted(|cell, plan| {
        let deep = cell.property("queue_depth").as_deref() == Some("16");
        let rate = match (cell.factors["layout"].to_string().as_str(), deep) {
            ("disk", _) => 50.0,
            ("raid10-4", _) => 200.0,
            (_, false) => 150.0,
            (_, true) => 2000.0,
        };
        noisy("iops", rate, 0.01, plan.seed)
    });
    let results = ran(&study_with(&format!("{STUDY}\n{RULES}"), &set(&[])), &turning);
    let text = &results.verdict;
    assert!(text.contains("raid5-6 does best"), "{text}");
    assert!(
        text.contains("The order turns with queue_depth: at 1 raid10-4 does best, 1.3"),
        "{text}"
    );
    let steady = verdict(RULES, &array(0.01), &[]);
    assert!(!steady.contains("turns"), "{steady}");
    let table = &results.rankings[0];
    let levels: Vec<&str> = table.rows.iter().map(|row| row.level.as_str()).collect();
    assert_eq!(levels, ["raid5-6", "raid10-4", "disk"]);
    assert_eq!(table.rows[0].standing, "best");
    assert!(table.rows[1].standing.ends_with(" × the best"), "{:?}", table.rows[1]);
    assert_eq!(table.turns.len(), 1);
}

/// Found by newcomers: intervals up to 10²⁴, and a level that ties with the best below one that does not.
#[test]
fn what_is_too_uncertain_is_told_in_words_and_placed_nowhere() {
    let wild = scripted(|cell, plan| {
        let rate = match cell.factors["layout"].to_string().as_str() {
            "disk" => [3.0, 3000.0][plan.repeat as usize % 2],
            "raid10-4" => 1000.0 + f64::from(plan.repeat),
            _ => 500.0 + f64::from(plan.repeat),
        };
        noisy("iops", rate, 0.0, plan.seed)
    });
    let text = verdict(RULES, &wild, &["repeats=2"]);
    assert!(text.contains("raid10-4 does best"), "{text}");
    assert!(text.contains("; disk too uncertain to place: more repeats tell"), "{text}");
    let longest = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
    assert!(longest < Some(7), "no number of 10²⁴: {text}");
    let only = verdict(RULES, &wild, &["repeats=2", "factor.layout=disk"]);
    assert!(only.contains("(too uncertain to tell)"), "{only}");
}

#[test]
fn claims_fall_away_with_the_machine_that_they_are_of() {
    let text = format!(
        "{}\n[[claim]]\nid = 'c'\ntext = 't'\nsource = 's'\npublished = 'p'\ncheck = {{ metric = 'iops', of = {{ layout = \
         'disk' }}, relation = 'above', value = 1 }}",
        STUDY.replace("machine = {}", "machine = { kind = 'simulated', disk = 'a' }")
    );
    let same = ran(&study_with(&text, &set(&["machine.disk=a", "repeats=3"])), &array(0.01));
    assert_eq!(same.claims.len(), 1);
    let other = ran(&study_with(&text, &set(&["machine.disk=b"])), &array(0.01));
    assert!(other.claims.is_empty());
    assert!(
        other.notes.iter().any(|note| note.contains("fall away: machine.disk was changed")),
        "{:?}",
        other.notes
    );
    // What a study of a host claims, it claims of any.
    let host = text.replace("'simulated'", "'host'");
    let other = ran(&study_with(&host, &set(&["machine.disk=b"])), &array(0.01));
    assert_eq!(other.claims.len(), 1);
}

fn claim_with(keys: &str) -> ClaimResult {
    let text =
        format!("{STUDY}\n[[claim]]\nid = 'c'\ntext = 't'\nsource = 's'\npublished = 'p'\n{keys}");
    let results = attempt(&study(&text), &array(0.01), 2, &[]).expect("it runs");
    results.claims.into_iter().next().expect("one claim")
}

#[test]
fn an_order_of_several_levels_holds_only_if_each_step_does() {
    let order = |relation: &str, levels: &str| {
        claim(&format!(
            "{{ metric = 'iops', of = {{ workload = 'random' }}, relation = '{relation}', \
             along = {{ layout = [{levels}] }} }}"
        ))
    };
    let held = order("rising", "'disk', 'raid5-6', 'raid10-4'");
    assert!(held.reproduced && held.measured.starts_with("disk to raid5-6: "), "{held:?}");
    assert_eq!(held.kind, "direction");
    assert!(order("falling", "'raid10-4', 'raid5-6', 'disk'").reproduced);
    let missed = order("rising", "'disk', 'raid10-4', 'raid5-6'");
    assert!(!missed.reproduced && missed.measured.ends_with('✗'), "{missed:?}");
    assert_eq!(missed.measured.matches('✗').count(), 1, "{missed:?}");
}

#[test]
fn a_figure_repeats_as_well_as_its_interval_is_narrow() {
    let check = |tolerance: f64| {
        format!(
            "{{ metric = 'iops', of = {{ workload = 'random' }}, relation = 'repeatable', \
             tolerance = {tolerance} }}"
        )
    };
    // 100, 101, 102, 100 and 101: ± 1.04 %.
    let noisy = scripted(|_, plan| noisy("iops", 100.0 + f64::from(plan.repeat % 3), 0.0, 0));
    let held = claim_on(&check(0.011), &noisy, &[]);
    assert!(held.reproduced && held.measured.contains("± 1.0 % to ± 1.0 %"), "{held:?}");
    assert_eq!((held.kind.as_str(), held.tolerance.as_deref()), ("quantity", Some("1.1 %")));
    assert!(!claim_on(&check(0.01), &noisy, &[]).reproduced);
    let text = format!(
        "{}\n[[claim]]\nid = 'c'\ntext = 't'\nsource = 's'\npublished = 'p'\ncheck = {}",
        STUDY.replace("repeats = 5", "repeats = 1"),
        check(0.011)
    );
    let once = attempt(&study(&text), &noisy, 2, &[]).expect("it runs").claims.remove(0);
    assert!(!once.reproduced && once.measured.contains("one repeat has no spread"), "{once:?}");
}

#[test]
fn a_claim_of_several_checks_holds_only_if_all_do() {
    let check = |value: u32| {
        format!(
            "{{ metric = 'iops', of = {{ workload = 'random', layout = 'disk', queue_depth = 1 }}, \
             relation = 'about', value = {value}, tolerance = 0.05 }}"
        )
    };
    let both = claim_with(&format!("check = [{}, {}]", check(100), check(102)));
    assert!(both.reproduced && both.measured.matches("I/Os").count() == 2, "{both:?}");
    assert_eq!(both.tolerance.as_deref(), Some("5 %"));
    let one = claim_with(&format!("check = [{}, {}]", check(100), check(200)));
    assert!(!one.reproduced && one.measured.ends_with(" ✗"), "{one:?}");
}

#[test]
fn the_best_of_all_cells_can_be_held_against_a_value() {
    let check = |take: &str, value: u32| {
        claim(&format!(
            "{{ metric = 'iops', of = {{ workload = 'random' }}, relation = 'about', \
             value = {value}, tolerance = 0.05, take = '{take}' }}"
        ))
    };
    assert!(check("largest", 1200).reproduced);
    assert!(check("smallest", 100).reproduced);
    assert!(!check("all", 1200).reproduced);
}

#[test]
fn conjectures_and_calibrations_are_checked_and_not_counted() {
    let check = "check = { metric = 'iops', of = { workload = 'random', layout = 'disk' }, \
                 relation = 'equal', to = { layout = 'raid10-4' } }\n\
                 suspect = { parameter = 'cache', value = 'none', needs = '1 GB', \
                 judgement = 'Hardly.' }\n";
    let plain = claim_with(check);
    assert_eq!(
        (plain.reproduced, plain.uncounted, plain.kind.as_str()),
        (false, None, "direction")
    );
    assert_eq!(
        plain.suspect.map(|suspect| suspect.sentence()).as_deref(),
        Some("cache is none and would have to be 1 GB. Hardly.")
    );
    let conjecture = claim_with(&format!("kind = 'conjecture'\n{check}"));
    assert_eq!(conjecture.uncounted.as_deref(), Some("a conjecture of its author"));
    let words = claim_with("kind = 'conjecture'");
    assert_eq!((words.reproduced, words.uncounted.is_some()), (false, true));
    let calibrated = claim_with(&format!("calibrates = 'step_ms of x'\n{check}"));
    assert_eq!(calibrated.uncounted.as_deref(), Some("step_ms of x was taken from it"));
    let count = lab::results::ClaimCount::of(&[conjecture, calibrated]);
    assert_eq!((count.held, count.counted, count.uncounted), (0, 0, 2));
}

#[test]
fn a_price_falls_away_with_the_disk_that_it_is_of() {
    let text = STUDY
        .replace("machine = {}", "machine = { kind = 'simulated', disk = 'a', disk_price = 330 }");
    let price = |settings: &[&str]| {
        let study = study_with(&text, &set(settings));
        (study.machine.get("disk_price").cloned(), study.notes.join("\n"))
    };
    assert_eq!(price(&[]).0, Some(330.into()));
    assert_eq!(price(&["machine.disk=a"]).0, Some(330.into()));
    let (gone, notes) = price(&["machine.disk=b"]);
    assert!(gone.is_none() && notes.contains("disk_price is of another disk"), "{notes}");
    let (given, notes) = price(&["machine.disk=b", "machine.disk_price=500"]);
    assert!(given == Some(500.into()) && !notes.contains("disk_price is"), "{notes}");
}
