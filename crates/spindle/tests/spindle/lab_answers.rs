//! Whether a stranger can build on the answers of the lab's layout studies.
//!
//! What could break (all found by newcomers): a rebuild beside load worked out six times too short where the study
//! measures none; an order of layouts that turns with a setting behind a winner that stays; two runs between which layouts
//! change places, and a comparison that finds no difference; words that contradict the figure beside them.

use crate::lab_runs::{json, printed, refused, spindle};
use serde_json::Value;

/// Eight disks of 20 TB in three layouts, and what follows.
const LAYOUTS: &str = r#"
title = "Eight disks of 20 TB"
question = "Which layout?"
repeats = 2
[steady]
round = "500ms"
window = 3
rounds_max = 4
[machine]
kind = "simulated"
host = "epyc-2024"
disk = "exos-x20"
disks = 9
[layouts.raid5-8]
level = "raid5"
disks = 8
[layouts.raid6-8]
level = "raid6"
disks = 8
[layouts.raid10-8]
level = "raid10"
disks = 8
[[factor]]
name = "layout"
levels = ["raid5-8", "raid6-8", "raid10-8"]
"#;

/// A study of these layouts in a folder of its own.
fn study(rest: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("s.toml"), format!("{LAYOUTS}{rest}")).expect("written");
    dir
}

/// What the results say of a layout.
#[track_caller]
fn layout<'a>(results: &'a Value, name: &str) -> &'a Value {
    let layouts = results["layouts"].as_array().expect("layouts");
    layouts.iter().find(|layout| layout["name"] == name).expect(name)
}

#[test]
fn a_rebuild_beside_load_that_is_worked_out_is_as_long_as_one_that_is_measured() {
    for (size, depth, saturated) in [("4k", 2, false), ("16k", 4, false), ("4k", 16, true)] {
        let load = format!(
            "[[workload]]\nname = \"random\"\nkind = \"random\"\nread_share = 0.7\nblock_size = \"{size}\"\n\
             queue_depth = {depth}\n"
        );
        let rebuild = "[[workload]]\nname = \"rebuild\"\nkind = \"rebuild\"\nload = \"random\"\n\
             sampled = { strata = 4, per_stratum = 2, sample = \"16m\" }\n";
        let run = |rest: &str| {
            let dir = study(rest);
            json(&printed(dir.path(), &["lab", "run", "s.toml", "--format", "json"]))
        };
        let (worked_out, measured) = (run(&load), run(&format!("{load}{rebuild}")));
        for name in ["raid5-8", "raid6-8", "raid10-8"] {
            let (ours, theirs) = (layout(&worked_out, name), layout(&measured, name));
            assert_eq!(
                (&ours["rebuild_measured"], &theirs["rebuild_measured"]),
                (&false.into(), &true.into())
            );
            let seconds = |layout: &Value, key: &str| layout[key].as_f64().expect(key);
            let (is, truth) =
                (seconds(ours, "rebuild_loaded_s"), seconds(theirs, "rebuild_loaded_s"));
            assert!((is / truth - 1.0).abs() < 0.25, "{name}, {size} × {depth}: {is} for {truth}");
            let (low, high) =
                (seconds(ours, "rebuild_loaded_low_s"), seconds(ours, "rebuild_loaded_high_s"));
            assert!(
                low * 0.97 <= truth && truth <= high * 1.03,
                "{name}: {truth} in {low} to {high}"
            );
            assert_eq!(high > 1.5 * low, saturated, "{name}, {size} × {depth}: {low} to {high}");
            assert!(theirs["rebuild_loaded_low_s"].is_null(), "what is measured is no estimate");
            // What may happen meanwhile follows the time.
            let risk = seconds(ours, "second_loss") / seconds(theirs, "second_loss");
            assert!((risk - 1.0).abs() < 0.25, "{name}: {risk}");
        }
    }
}

/// A stream's next block is always the nearest one: how long a rebuild waits behind it, its latency does not tell.
#[test]
fn a_rebuild_beside_streams_at_the_disks_limit_is_bounded_below_and_says_so() {
    let dir =
        study("[[workload]]\nname = \"write\"\nkind = \"stream\"\nop = \"write\"\nstreams = 4\n");
    let text = printed(dir.path(), &["lab", "run", "s.toml", "--width", "200"]);
    let results = crate::lab_runs::written(dir.path(), "spindle-results/s");
    let five = layout(&results, "raid5-8");
    assert!(
        five["rebuild_loaded_high_s"].is_null() && five["rebuild_loaded_low_s"].is_number(),
        "{five}"
    );
    assert!(text.contains("≥ 13 days"), "{text}");
}
