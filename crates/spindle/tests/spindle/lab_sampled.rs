//! Whether stretches stand for the whole: an operation that is sampled takes as long as it takes whole.
//!
//! What could break (found by a newcomer): what a stretch leaves in the disks' write caches is nobody's, and few short stretches
//! come out too short; each pays once more for coming to its place; stretches where a far layout's operation finds nothing
//! to do stand beside those where it does all.

use crate::lab_runs::{json, printed, write_small_disk};
use fixtures::extent::some;
use serde_json::Value;

/// Disks of 3 GB, whose write cache holds as much as a stretch writes.
const STUDY: &str = r#"
title = "Small disks"
question = "Do stretches stand for the whole?"
repeats = 2
seed = 1
[machine]
kind = "simulated"
host = "epyc-2024"
disk = "./small.toml"
disks = 5
[layouts.far]
level = "raid10"
layout = "far-2"
disks = 4
[layouts.near]
level = "raid10"
disks = 4
[layouts.five]
level = "raid5"
disks = 4
[layouts.six]
level = "raid6"
disks = 4
[[factor]]
name = "layout"
levels = ["far", "near", "five", "six"]
[[factor]]
name = "write_cache"
levels = [true, false]
[[workload]]
name = "rebuild"
kind = "rebuild"
[[workload]]
name = "initialise"
kind = "initialise"
"#;

#[test]
fn what_is_sampled_by_few_short_stretches_takes_as_long_as_the_whole() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a folder");
    write_small_disk(dir.path(), 6_000_000);
    let cells = |name: &str, study: &str| -> Vec<Value> {
        std::fs::write(dir.path().join(name), study).expect("written");
        let results = json(&printed(dir.path(), &["lab", "run", name, "--format", "json"]));
        results["cells"].as_array().expect("cells").clone()
    };
    let layouts = some(["far", "near", "five", "six"], 2);
    let study = STUDY.replace(r#"["far", "near", "five", "six"]"#, &format!("{layouts:?}"));
    let whole = cells("whole.toml", &study.replace("repeats = 2", "repeats = 1"));
    let stretches = "sampled = { strata = 4, per_stratum = 2, sample = \"64m\" }\n";
    let sampled =
        study.replace("kind = \"rebuild\"\n", &format!("kind = \"rebuild\"\n{stretches}"));
    let sampled =
        sampled.replace("kind = \"initialise\"\n", &format!("kind = \"initialise\"\n{stretches}"));
    let sampled = cells("sampled.toml", &sampled);
    assert_eq!((whole.len(), sampled.len()), (4 * layouts.len(), 4 * layouts.len()));
    for (whole, sampled) in whole.iter().zip(&sampled) {
        let id = &whole["id"];
        let mean = |cell: &Value, metric: &str| cell["metrics"][metric]["mean"].as_f64();
        let truth = mean(whole, "duration_s").expect("a time");
        let is = mean(sampled, "duration_s").expect("a time");
        assert_eq!((id, mean(whole, "sampling_error_s")), (&sampled["id"], None));
        assert!((is / truth - 1.0).abs() < 0.05, "{id}: {is} for {truth}");
        let error = mean(sampled, "sampling_error_s").expect("it was sampled");
        assert!((0.0..0.05 * truth).contains(&error), "{id}: ± {error} of {truth}");
    }
}

/// Writes that the load could only make while they find room in the disks' caches.
#[test]
fn short_stretches_beside_a_load_that_writes_do_not_count_what_caches_take_once() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a folder");
    let cell = |sample: &str| -> Value {
        let study = format!(
            r#"
title = "Beside writes"
question = "Do short stretches tell of writes that caches take?"
repeats = 1
seed = 1
[machine]
kind = "simulated"
host = "epyc-2024"
disk = "exos-x20"
disks = 9
[layouts.ten]
level = "raid10"
disks = 8
[[factor]]
name = "layout"
levels = ["ten"]
[[workload]]
name = "writers"
kind = "random"
read_share = 0
block_size = "16k"
queue_depth = 32
rate_iops = 5000
[[workload]]
name = "beside"
kind = "rebuild"
load = "writers"
priority = "high"
sampled = {{ strata = 3, per_stratum = 2, sample = "{sample}" }}
"#
        );
        std::fs::write(dir.path().join("study.toml"), study).expect("written");
        let words = ["lab", "run", "study.toml", "--only", "*/beside*", "--force"];
        let printed = printed(dir.path(), &[&words[..], &["--format", "json"]].concat());
        json(&printed)["cells"][0]["metrics"].clone()
    };
    let (short, long) = (cell("32m"), cell("256m"));
    let of = |cell: &Value, metric: &str| cell[metric]["mean"].as_f64().expect("a figure");
    // Longer stretches tell what the disks go on doing; the short ones told of a seventh of the time and five times the writes.
    let (time, truth) = (of(&short, "duration_s"), of(&long, "duration_s"));
    assert!((0.5..2.0).contains(&(time / truth)), "{time} s for {truth} s");
    let (writes, truth) = (of(&short, "load_iops"), of(&long, "load_iops"));
    assert!((0.8..1.25).contains(&(writes / truth)), "{writes} writes/s for {truth}");
}

/// Found by a newcomer: 1.92 TB that go at 2700 MB/s at the most took 9 min 49 s, by stretches whose first 32 MiB the drives' buffers
/// took, which a flush does not write out.
#[test]
fn stretches_on_solid_state_drives_are_no_quicker_than_their_medium() {
    let dir = tempfile::tempdir().expect("a folder");
    let time = |sample: &str| {
        let study = format!(
            r#"
title = "Drives with buffers"
question = "Do short stretches tell of what buffers take?"
repeats = 1
seed = 1
[machine]
kind = "simulated"
host = "epyc-2024"
disk = "pm9a3"
disks = 5
[layouts.ten]
level = "raid10"
disks = 4
[[factor]]
name = "layout"
levels = ["ten"]
[[workload]]
name = "rebuild"
kind = "rebuild"
sampled = {{ strata = 2, per_stratum = 2, sample = "{sample}" }}
"#
        );
        std::fs::write(dir.path().join("study.toml"), study).expect("written");
        let printed =
            printed(dir.path(), &["lab", "run", "study.toml", "--force", "--format", "json"]);
        let results = json(&printed);
        let shown = results["machine"]["disks' write cache"].as_str().expect("a line").to_owned();
        assert_eq!(shown, "32 MiB, it outlasts a power cut, as the profile says");
        results["cells"][0]["metrics"]["duration_s"]["mean"].as_f64().expect("a time")
    };
    let least = 3_750_748_848.0 * 512.0 / 2700e6;
    let (short, long) = (time("32m"), time("512m"));
    assert!(short >= 0.99 * least, "{short} s, and the medium takes {least} s");
    assert!((0.97..1.03).contains(&(short / long)), "{short} s for {long} s");
}
