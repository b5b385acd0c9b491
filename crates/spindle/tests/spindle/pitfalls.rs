//! Pitfalls from the outside: a study's machine has one thing wrong, and `spindle lab run` says which, with
//! the mend; one with nothing wrong is left alone.
//!
//! What could break: facts that a target knows and does not tell the lab, or tells of another machine.

use fixtures::extent::is_thorough;
use std::path::Path;
use std::process::Command;

/// A study that runs in a moment, of a machine without a fault.
const CLEAN: &str = r#"
title = "t"
question = "q?"
repeats = 5
[steady]
round = "2s"
[machine]
kind = "simulated"
host = "opteron-2008"
disk = "st3750640as"
disks = 3
write_cache = true
[layouts.set]
level = "raid5"
disks = 3
partition_offset = "1m"
[[factor]]
name = "layout"
levels = ["set"]
[[workload]]
name = "mixed"
kind = "random"
read_share = 0.7
block_size = "8k"
queue_depth = 8
"#;

/// The names of the pitfalls of the study's one cell, and what the terminal shows.
fn run(study: &str, settings: &[&str]) -> (Vec<String>, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("study.toml"), study).expect("written");
    let spindle = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(arguments)
            .current_dir(dir.path())
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let mut arguments = vec!["lab", "run", "study.toml", "--out", "out"];
    settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
    let shown = spindle(&arguments).split_whitespace().collect::<Vec<_>>().join(" ");
    (ids(&dir.path().join("out/results.json")), shown)
}

fn ids(results: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(results).expect("it was written");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let pitfalls = results["cells"][0]["pitfalls"].as_array().expect("a list");
    pitfalls.iter().map(|pitfall| pitfall["id"].as_str().expect("a name").to_owned()).collect()
}

#[track_caller]
fn finds(id: &str, mend: &str, study: &str, settings: &[&str]) {
    let (found, shown) = run(study, settings);
    assert_eq!(found, [id], "{shown}");
    assert!(shown.contains(mend), "{shown}");
}

#[test]
fn a_machine_without_a_fault_is_left_alone() {
    fixtures::takes_long!();
    for settings in [&[][..], &["workload.mixed.read_share=0"], &["machine.flush=honoured"]] {
        let (found, shown) = run(CLEAN, settings);
        assert_eq!(found, [""; 0], "{shown}");
        assert!(!shown.contains("Pitfalls") && !shown.contains("Warnings"), "{shown}");
    }
}

#[test]
fn each_fault_of_a_simulated_machine_is_named_with_its_mend() {
    fixtures::takes_long!();
    let sector_63 = ["layouts.set.partition_offset=31.5k"];
    finds("misaligned", "let it begin at 1 MiB", CLEAN, &sector_63);
    finds("flush-ignored", "have them carried out", CLEAN, &["machine.flush=ignored"]);
    finds("few-repeats", "--set repeats=5", CLEAN, &["repeats=1"]);
    finds(
        "few-ios",
        "lengthen steady.round",
        CLEAN,
        &[
            "steady.round=100ms",
            "steady.range=0.9",
            "steady.slope=0.9",
            "workload.mixed.read_share=1",
        ],
    );
}

/// Nothing is lost where nothing can be.
#[test]
fn ignored_flushes_over_disks_without_a_write_cache_are_left_alone() {
    let (found, shown) = run(CLEAN, &["machine.flush=ignored", "machine.write_cache=false"]);
    assert_eq!(found, [""; 0], "{shown}");
}

#[test]
fn a_full_link_is_named() {
    fixtures::takes_long!();
    let study = CLEAN.replace("st3750640as", "870-evo").replace("write_cache = true\n", "");
    let study = study.replace("[layouts.set]", "link = \"iscsi-1g-1500\"\n[layouts.set]");
    let study = study.replace("read_share = 0.7\nblock_size = \"8k\"", "block_size = \"1m\"");
    finds("saturated-link", "more or faster channels", &study, &[]);
}

/// Four disks write 285 MB/s each, and their link gives them 300. In half-second rounds the disks' caches take the rest for
/// longer than a window lasts: a layout's rate was the link's then, and nothing said so.
#[test]
fn a_link_that_fills_the_disks_write_caches_is_no_steady_state() {
    fixtures::takes_long!();
    let study = r#"
title = "t"
question = "q?"
repeats = 3
[steady]
round = "500ms"
[machine]
kind = "simulated"
host = "epyc-2024"
link = "sas-3g-x4"
disk = "exos-x20"
disks = 4
[layouts.set]
level = "raid10"
disks = 4
[[factor]]
name = "layout"
levels = ["set"]
[[workload]]
name = "write"
kind = "stream"
op = "write"
block_size = "1m"
queue_depth = 4
"#;
    let (found, shown) = run(study, &[]);
    assert_eq!(found, [""; 0], "{shown}");
    assert!(shown.contains("Verdict write: 57"), "two disks' worth: {shown}");
    let (found, shown) = run(study, &["steady.rounds_max=5"]);
    assert_eq!(found, ["filling-caches", "saturated-link"], "{shown}");
    assert!(shown.contains("write for longer"), "{shown}");
}

/// A disk's cache that takes less than a hundredth makes a stream faster than its platter all the same, by what three digits show: of
/// a stream that is awaited, and of a tool's one pass it is told.
#[test]
fn a_stream_that_is_faster_than_the_platter_is_awaited_or_told() {
    fixtures::takes_long!();
    let study = |workload: &str| {
        format!(
            r#"
title = "t"
question = "q?"
repeats = 3
[machine]
kind = "simulated"
host = "epyc-2024"
link = "sas-3g-x4"
disk = "exos-x20"
disks = 1
[layouts.one]
level = "disk"
[[factor]]
name = "layout"
levels = ["one"]
[[workload]]
name = "write"
op = "write"
{workload}
"#
        )
    };
    let stream = study("kind = \"stream\"\nblock_size = \"256k\"\nqueue_depth = 1\n");
    let (found, shown) = run(&stream, &[]);
    assert_eq!(found, [""; 0], "{shown}");
    assert!(shown.contains("Verdict write: 285 MB/s"), "{shown}");
    let (found, shown) = run(&study("kind = \"probe\"\ntime = \"30s\"\n"), &[]);
    assert_eq!(found, ["filling-caches"], "{shown}");
    assert!(shown.contains("they took 0.8 % of what was written"), "{shown}");
}

#[test]
fn a_raid_controller_that_answers_from_its_cache_is_named() {
    fixtures::takes_long!();
    let study = CLEAN.replace("write_cache = true\n", "controller = \"infortrend-2012\"\n");
    let study = study.replace("read_share = 0.7", "read_share = 1\nworking_set = \"1m\"");
    let study = study.replace("round = \"2s\"", "round = \"300ms\"");
    finds("cached", "over a working set larger than the memory below", &study, &[]);
}

/// Of writes of 4 MiB the rest of a stripe is few bytes, and each waits for them.
#[test]
fn long_writes_one_at_a_time_that_wait_for_parts_of_stripes_are_named() {
    fixtures::takes_long!();
    let start = CLEAN.find("[layouts.set]").expect("a layout");
    let machine = CLEAN[..start].replace("disks = 3", "disks = 8");
    let study = format!(
        "{machine}[layouts.set]\nlevel = \"raid5\"\ndisks = 8\n[[factor]]\nname = \"layout\"\nlevels = [\"set\"]\n\
         [[workload]]\nname = \"write\"\nkind = \"stream\"\nop = \"write\"\nblock_size = \"4m\"\nqueue_depth = 1\n"
    );
    finds("partial-stripes", "a multiple of 448 KiB", &study, &[]);
    let (found, shown) = run(&study, &["workload.write.block_size=4032k"]);
    assert_eq!(found, [""; 0], "whole stripes: {shown}");
    let (found, shown) = run(&study, &["workload.write.queue_depth=4"]);
    assert_eq!(found, [""; 0], "parts that wait for one another: {shown}");
}

/// A third of the rate, and the order of RAID 5 and 10 turned, without a word: a page cache of which a tenth is less than what is
/// written back at once.
#[test]
fn a_writing_phase_whose_write_back_fills_no_stripes_is_named_with_a_page_cache_that_mends_it() {
    fixtures::takes_long!();
    let study = |filesystem: &str| {
        let start = CLEAN.find("[layouts.set]").expect("a layout");
        let machine = CLEAN[..start].replace("disks = 3", "disks = 8");
        format!(
            "{machine}filesystem = \"{filesystem}\"\npage_cache = \"64m\"\n[layouts.set]\nlevel = \"raid5\"\ndisks = 8\n\
             [[factor]]\nname = \"layout\"\nlevels = [\"set\"]\n[[workload]]\nname = \"bonnie\"\nkind = \"bonnie\"\n\
             size = \"128m:64k:0\"\nfiles = \"0\"\nbytes = 0\n"
        )
    };
    let (found, shown) = run(&study("xfs"), &["repeats=1"]);
    assert!(found.iter().any(|id| id == "partial-stripes"), "{found:?}: {shown}");
    assert!(shown.contains("writes of partial stripes in output block: "), "{shown}");
    let mend = "page_cache = 160 MiB and more";
    assert!(shown.contains(mend), "{shown}");
    for setting in ["machine.page_cache=160m", "layouts.set.level=raid10"] {
        let (found, shown) = run(&study("xfs"), &["repeats=1", setting]);
        assert!(!found.iter().any(|id| id == "partial-stripes"), "{setting}: {shown}");
    }
}

/// RAID 60 whose outer chunk is half of an inner stripe: writes of a whole inner stripe are halves on both sets, and the
/// advice is one that helps. By default the outer chunk is the stripe.
#[test]
fn a_set_of_sets_that_deals_out_parts_of_stripes_is_told_to_deal_out_whole_ones() {
    fixtures::takes_long!();
    let start = CLEAN.find("[layouts.set]").expect("a layout");
    let machine = CLEAN[..start].replace("disks = 3", "disks = 8");
    let study = |chunk: &str, of: &str, depth: u32| {
        format!(
            "{machine}[layouts.set]\nlevel = \"raid0\"\nsets = 2\n{chunk}\nof = {{ level = \"{of}\", disks = 4 }}\n\
             [[factor]]\nname = \"layout\"\nlevels = [\"set\"]\n[[workload]]\nname = \"write\"\nkind = \"stream\"\n\
             op = \"write\"\nblock_size = \"128k\"\nqueue_depth = {depth}\n"
        )
    };
    let run = |study: &str| run(study, &["repeats=1", "steady.round=1s"]);
    let (found, shown) = run(&study("chunk = \"64k\"", "raid6", 1));
    assert!(found.iter().any(|id| id == "partial-stripes"), "{found:?}: {shown}");
    assert!(shown.contains("chunk = a multiple of 128 KiB"), "{shown}");
    for (chunk, depth) in [("chunk = \"128k\"", 1), ("", 1), ("chunk = \"64k\"", 4)] {
        let (found, shown) = run(&study(chunk, "raid6", depth));
        assert!(!found.iter().any(|id| id == "partial-stripes"), "{chunk}, {depth}: {shown}");
    }
    // Few reads, but all that is under way waits for each; and the depth that is named is enough.
    let (found, shown) = run(&study("chunk = \"512k\"", "raid5", 4));
    assert!(found.iter().any(|id| id == "partial-stripes"), "{found:?}: {shown}");
    assert!(shown.contains("queue_depth = 16 and more"), "{shown}");
    let (found, shown) = run(&study("chunk = \"512k\"", "raid5", 16));
    assert!(!found.iter().any(|id| id == "partial-stripes"), "{shown}");
}

/// What a file system does here depends on where the tests run; that its pages are in memory does not.
#[test]
fn buffered_files_smaller_than_memory_are_named() {
    fixtures::takes_long!();
    let start = CLEAN.find("kind = \"simulated\"").expect("a machine");
    let end = CLEAN.find("[layouts.set]").expect("a layout");
    let machine = "kind = \"host\"\ndirectory = \".\"\nfile_size = \"8m\"\ndirect = false\n";
    let study = format!("{}{machine}{}", &CLEAN[..start], &CLEAN[end..]);
    let study = study.replace("partition_offset = \"1m\"\n", "").replace("\"2s\"", "\"30ms\"");
    let (found, shown) = run(&study, &["repeats=3", "steady.rounds_max=5"]);
    assert!(found.iter().any(|id| id == "smaller-than-memory"), "{found:?}");
    assert!(shown.contains("over twice the memory"), "{shown}");
}

/// Eight disks of 16 MB of cache each seek in a file of 64 MiB three times as often as in one of 2 GiB.
#[test]
fn seeks_that_the_disks_own_caches_answer_are_named_with_a_file_that_is_large_enough() {
    fixtures::takes_long!();
    let study = |size: &str| {
        format!(
            "title = \"t\"\nquestion = \"q?\"\nrepeats = 3\n[machine]\nkind = \"simulated\"\nhost = \"opteron-2008\"\n\
             disk = \"st3750640as\"\ndisks = 8\nfilesystem = \"xfs\"\npage_cache = \"16m\"\n\
             [layouts.set]\nlevel = \"raid0\"\ndisks = 8\n[[factor]]\nname = \"layout\"\nlevels = [\"set\"]\n\
             [[workload]]\nname = \"bonnie\"\nkind = \"bonnie\"\nsize = \"{size}\"\nbytes = \"0\"\n"
        )
    };
    let (found, shown) = run(&study("64m"), &[]);
    assert_eq!(found, ["cached-by-disks"], "{shown}");
    for said in [
        "answered from the disks' own caches in random seeks: ",
        "those hold 128 MiB, and what is read is 64 MiB",
        "a file or working set of 1280 MiB and more",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    if is_thorough() {
        let (found, shown) = run(&study("1280m"), &[]);
        assert_eq!(found, [""; 0], "{shown}");
    }
}
