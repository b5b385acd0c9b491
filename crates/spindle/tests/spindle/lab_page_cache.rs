//! Streams through a simulated host's page cache: what reaches the disks is what the cache asks for, in the order of the file and
//! without a pause, whatever the program's requests are.
//!
//! What could break: reads that overtake one another bring the disks pieces in another order, and one of them falls behind by a
//! revolution for each; a write-back that waits for its answers leaves a part of a stripe at its end, for which a set with
//! parity reads the rest.

use crate::lab_runs::{json, printed, write_small_disk};
use fixtures::extent::some;
use serde_json::Value;

const STREAM: &str = r#"
title = "One file through XFS' page cache"
question = "Does it come at the disks' rate?"
repeats = 1
[steady]
round = "250ms"
window = 2
rounds_max = 4
[machine]
kind = "simulated"
host = "epyc-2024"
link = "sata-6g"
disk = "small.toml"
disks = 9
filesystem = "xfs"
direct = false
page_cache = "128m"
[layouts.raid5-8]
level = "raid5"
disks = 8
[layouts.raid5-9]
level = "raid5"
disks = 9
[[factor]]
name = "layout"
levels = ["raid5-8", "raid5-9"]
[[workload]]
name = "stream"
kind = "stream"
op = ["read", "write"]
queue_depth = [1, 4]
working_set = "1g"
"#;

/// Seven and eight disks of data, each of 285 MB/s: what the page cache makes of a stream fits the one's stripes (448 KiB) as little
/// as the other's (512 KiB) in pieces, and both well in one go. Reads at a depth of 4 came at 476 of 1995 MB/s, writes on eight disks at 596.
#[test]
fn a_stream_comes_at_the_rate_of_the_disks_at_any_depth_and_width() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a folder");
    let (layouts, depths) = (some(["raid5-8", "raid5-9"], 1), some(["1", "4"], 1));
    let levels = layouts.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let study = STREAM
        .replace("levels = [\"raid5-8\", \"raid5-9\"]", &format!("levels = [{levels}]"))
        .replace("queue_depth = [1, 4]", &format!("queue_depth = [{}]", depths.join(", ")));
    std::fs::write(dir.path().join("s.toml"), study).expect("written");
    // Of 160 GB, not 20 TB, whose file system is made and mounted for each cell.
    write_small_disk(dir.path(), 40_000_000);
    let run = |set: &[&str]| {
        let run = ["lab", "run", "s.toml", "--force", "--format", "json"];
        let results = json(&printed(dir.path(), &[&run[..], set].concat()));
        results["cells"].as_array().expect("cells").clone()
    };
    let mut cells: Vec<Value> = run(&[]);
    assert_eq!(cells.len(), 2 * layouts.len() * depths.len());
    // Without file system and cache, with more under way than a disk looks at.
    let raw =
        ["machine.filesystem=none", "workload.stream.queue_depth=16", "workload.stream.op=read"];
    let raw = run(&raw.map(|set| ["--set", set]).concat());
    assert_eq!(raw.len(), layouts.len());
    cells.extend(raw);
    for cell in cells {
        let data_disks = if cell["factors"]["layout"] == "raid5-8" { 7.0 } else { 8.0 };
        let rate = cell["metrics"]["throughput_mb_s"]["mean"].as_f64().expect("a rate");
        let share = rate / (data_disks * 285.0);
        assert!((0.8..=1.0).contains(&share), "{}: {rate} MB/s", cell["id"]);
    }
}

/// The file of a load over a whole volume has its places, and was not written for hours before; it is read from the disk, at the rate
/// of its outer zone (157 MB/s).
#[test]
fn a_load_over_a_whole_file_system_begins_at_once_and_reads_the_disk() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a folder");
    let study = STREAM
        .replace("small.toml", "hua723030ala640")
        .replace("direct = false\n", "")
        .replace("levels = [\"raid5-8\", \"raid5-9\"]", "levels = [\"one\"]")
        .replace("[[factor]]", "[layouts.one]\nlevel = \"disk\"\n[[factor]]")
        .replace("working_set = \"1g\"\n", "")
        .replace("op = [\"read\", \"write\"]\nqueue_depth = [1, 4]\n", "");
    std::fs::write(dir.path().join("s.toml"), study).expect("written");
    let results = json(&printed(dir.path(), &["lab", "run", "s.toml", "--format", "json"]));
    let cells = results["cells"].as_array().expect("cells");
    let [cell] = &cells[..] else { panic!("{results}") };
    let rate = cell["metrics"]["throughput_mb_s"]["mean"].as_f64().expect("a rate");
    assert!((130.0..160.0).contains(&rate), "{cell}");
}
