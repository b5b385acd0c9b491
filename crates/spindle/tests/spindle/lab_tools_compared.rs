//! `lab compare` of runs of the field's tools.
//!
//! What could break: a verdict over jobs that did other work; another main metric than the tool's; a mend that no tool knows.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

#[track_caller]
fn lab(dir: &Path, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .arg("lab")
        .args(words)
        .current_dir(dir)
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// What `lab compare` says, in words and as JSON.
#[track_caller]
fn compared(dir: &Path) -> (String, Value) {
    let text = lab(dir, &["compare", "a", "b"]).replace("\n    ", " ");
    let json = lab(dir, &["compare", "a", "b", "--json"]);
    (text, serde_json::from_str(&json).expect("JSON"))
}

fn main_metrics(json: &Value) -> Vec<&str> {
    let all = json["comparisons"].as_array().expect("comparisons");
    let main = all.iter().filter(|one| one["main"] == true);
    main.map(|one| one["metric"].as_str().expect("a name")).collect()
}

#[test]
fn jobs_of_fio_that_did_other_work_get_no_verdict_and_are_told_apart() {
    let dir = tempfile::tempdir().expect("a folder");
    let job = ["fio", "--name=x", "--size=1m", "--repeats=3"];
    lab(dir.path(), &[&job[..], &["--rw=read", "--bs=4k", "--out=a"]].concat());
    lab(dir.path(), &[&job[..], &["--rw=write", "--bs=64k", "--out=b"]].concat());
    let (text, json) = compared(dir.path());
    for said in ["x.rw: read in A, write in B", "x.bs: 4 KiB in A, 64 KiB in B"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    for one in json["comparisons"].as_array().expect("comparisons") {
        assert_eq!(one["difference"], "undecided", "{one}");
    }
    let verdict = json["verdict"].as_str().expect("text");
    assert!(
        verdict
            .starts_with("there is no verdict in 1: the jobs were not asked for the same work (x."),
        "{verdict}"
    );
    assert!(verdict.contains("x.rw: read in A, write in B"), "{verdict}");
    assert_eq!(main_metrics(&json), ["iops"]);

    // The same work, said otherwise.
    let same = ["--rw=read", "--blocksize=4096", "--ioengine=psync", "--force", "--out=b"];
    lab(dir.path(), &[&job[..], &same].concat());
    let (text, _) = compared(dir.path());
    assert!(!text.contains("x.") && !text.contains("not run alike"), "{text}");

    // Figures of several jobs are told to be of all.
    let two = ["--rw=read", "--out=two", "--name=y", "--size=64k", "--rw=write"];
    lab(dir.path(), &[&job[..], &two].concat());
    let results = std::fs::read_to_string(dir.path().join("two/results.json")).expect("there");
    let results: Value = serde_json::from_str(&results).expect("JSON");
    assert_eq!(results["cells"][0]["workload"], "x and y together");
    assert_eq!(results["cells"][0]["parameters"]["y.rw"], "write");
}

#[test]
fn runs_that_share_nothing_are_told_with_what_each_has() {
    let dir = tempfile::tempdir().expect("a folder");
    lab(dir.path(), &["fio", "--name=x", "--size=64k", "--rw=write", "--out=a"]);
    lab(dir.path(), &["smallfiles", "-n", "10", "--out", "b"]);
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["lab", "compare", "a", "b"])
        .current_dir(dir.path())
        .output()
        .expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{error}");
    assert!(
        error.contains("A ('fio': x) and B ('smallfiles': smallfiles) have no cell"),
        "{error}"
    );
}

#[test]
fn what_is_said_of_a_tool_is_what_a_tool_can_do() {
    let dir = tempfile::tempdir().expect("a folder");
    for out in ["a", "b"] {
        let words = ["tiobench", "--size", "1", "--threads", "1", "--random", "50", "-d", "."];
        lab(dir.path(), &[&words[..], &["--out", out]].concat());
    }
    let results = dir.path().join("a/results.json");
    let text = std::fs::read_to_string(&results).expect("there");
    let mut partial: Value = serde_json::from_str(&text).expect("JSON");
    partial["partial"] = serde_json::json!({ "done": 1, "total": 3 });
    std::fs::write(&results, partial.to_string()).expect("written");
    let (text, json) = compared(dir.path());
    assert_eq!(main_metrics(&json), ["throughput_mb_s"]);
    assert!(text.contains("1 of 3 runs are done; a tool can't go on with it"), "{text}");
    assert!(text.contains("run both with --repeats 5"), "{text}");
    assert!(!text.contains("--resume") && !text.contains("--set"), "{text}");
}

#[test]
fn a_job_is_compared_with_the_same_one_of_another_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let job = ["--rw=read", "--bs=4k", "--size=1m", "--repeats=2"];
    std::fs::write(dir.path().join("after.fio"), "[x]\nrw=read\nbs=4k\nsize=1m\n").expect("a job");
    lab(dir.path(), &[&["fio", "--name=before", "--out=a"], &job[..]].concat());
    for words in [&["fio", "--name=after"][..], &["fio", "after.fio", "--repeats=2"]] {
        let more = if words.len() == 2 { &job[..] } else { &[] };
        lab(dir.path(), &[words, more, &["--out=b", "--force"]].concat());
        let (text, json) = compared(dir.path());
        assert!(text.contains("A's run is called before, B's after"), "{text}");
        assert_eq!(main_metrics(&json), ["iops"]);
        let options = text.contains(".rw: ") || text.contains(".bs: ");
        assert!(!options || words.len() == 3, "{text}");
    }
}
