//! `lab compare` of runs of the field's tools.
//!
//! What could break: a verdict over jobs that did other work; another main metric than the tool's; a mend that no tool knows.

use crate::lab_runs::printed;
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
    fixtures::takes_long!();
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

    let spelt = [&job[..], &["--rw=read", "--ramp_time=10ms", "--force"]].concat();
    lab(dir.path(), &[&spelt[..], &["--out=a"]].concat());
    let aloud = ["--ramp_time=10000us", "--loops=1", "--offset=0", "--thread", "--group_reporting"];
    lab(dir.path(), &[&spelt[..], &aloud, &["--out=b"]].concat());
    let (text, _) = compared(dir.path());
    assert!(!text.contains("x.") && !text.contains("not run alike"), "{text}");

    // What a run was not given is called by no value's name, and how I/O was carried out is told.
    let write = [&job[..], &["--rw=write", "--force"]].concat();
    lab(dir.path(), &[&write[..], &["--out=a", "--reactor=threads"]].concat());
    lab(dir.path(), &[&write[..], &["--out=b", "--fallocate=none"]].concat());
    let (text, _) = compared(dir.path());
    assert!(text.contains("x.fallocate: not set in A, none in B"), "{text}");
    let results = std::fs::read_to_string(dir.path().join("a/results.json")).expect("there");
    let results: Value = serde_json::from_str(&results).expect("JSON");
    assert_eq!(results["machine"]["queued I/O"], "by threads");

    // Figures of several jobs are told to be of all.
    let two = ["--rw=read", "--out=two", "--name=y", "--size=64k", "--rw=write"];
    lab(dir.path(), &[&job[..], &two].concat());
    let results = std::fs::read_to_string(dir.path().join("two/results.json")).expect("there");
    let results: Value = serde_json::from_str(&results).expect("JSON");
    assert_eq!(results["cells"][0]["workload"], "x and y together");
    assert_eq!(results["cells"][0]["parameters"]["y.rw"], "write");
}

/// Jobs that fail at once are fast, or slow, and neither is a figure of the storage.
#[test]
fn a_job_that_failed_is_named_before_all_else_and_is_no_ground_for_a_verdict() {
    let dir = tempfile::tempdir().expect("a folder");
    let job = ["fio", "--name=x", "--size=1m", "--rw=randread", "--repeats=3"];
    lab(dir.path(), &[&job[..], &["--out=a"]].concat());
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .arg("lab")
        .args(job)
        .args(["--max_latency=1us", "--out=b"])
        .current_dir(dir.path())
        .output()
        .expect("the program starts");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success(), "{shown}");
    let verdict = shown.split("Verdict").last().expect("a report");
    let verdict = verdict.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(verdict.starts_with("x failed: job x: an I/O took "), "{shown}");
    assert!(verdict.contains(". There is no verdict on what it gave."), "{shown}");
    assert!(!verdict.contains("I/Os a second"), "{shown}");

    let (text, json) = compared(dir.path());
    let first = text.lines().nth(1).expect("a note");
    assert!(first.starts_with("  ! in B x failed: job x: an I/O took "), "{text}");
    assert_eq!(json["verdict"], "No verdict on x: failed in B.", "{text}");
    for one in json["comparisons"].as_array().expect("comparisons") {
        assert_eq!((&one["difference"], &one["p"]), (&"undecided".into(), &Value::Null), "{one}");
    }
    assert!(!text.contains("better") && !text.contains("worse"), "{text}");
    // The figures are there to look at.
    assert!(text.lines().any(|line| line.contains("I/Os a second")), "{text}");

    let text = lab(dir.path(), &["compare", "a", "a"]);
    assert!(text.contains("! A and B are the same run"), "{text}");
    assert!(!text.contains("one after the other"), "{text}");
}

/// The first run made the file that the second found: both are of one directory.
#[test]
fn the_place_is_told_alike_whether_the_file_was_there_or_not_and_from_wherever_it_is_called() {
    let dir = tempfile::tempdir().expect("a folder");
    let (sub, file) = (dir.path().join("sub"), "--rw=read");
    std::fs::create_dir(&sub).expect("made");
    let job = ["fio", "--name=x", "--size=64k", file];
    lab(dir.path(), &[&job[..], &["--dir=sub", "--out=a"]].concat());
    lab(&sub, &[&job[..], &["--out=../b"]].concat());
    let (text, _) = compared(dir.path());
    assert!(!text.contains("not said"), "{text}");
    for out in ["a", "b"] {
        let words = ["probe", "dd", "of=made", "bs=4k", "count=4", "--force", "--out", out];
        lab(dir.path(), &words);
    }
    let (text, _) = compared(dir.path());
    assert!(!text.contains("not said"), "{text}");
}

/// Such a job ends well, as fio has it, and its rate is that of what was not written.
#[test]
fn a_job_that_went_on_after_errors_is_said_to_have() {
    let dir = tempfile::tempdir().expect("a folder");
    let full = ["--filename=/dev/full", "--rw=write", "--size=64k", "--ignore_error=,ENOSPC"];
    lab(dir.path(), &[&["fio", "--name=x"], &full[..], &["--out=a"]].concat());
    let text = std::fs::read_to_string(dir.path().join("a/results.json")).expect("there");
    let results: Value = serde_json::from_str(&text).expect("JSON");
    let why = "job x: /dev/full: write of 4 KiB at byte 0: no space left; the job went on, and met 16 errors in all";
    assert_eq!(results["cells"][0]["error"], why);
    let verdict = results["verdict"].as_str().expect("text");
    assert_eq!(verdict, format!("x failed: {why}. There is no verdict on what it gave."));
}

#[test]
fn what_differs_is_named_before_what_both_were_limited_by() {
    let dir = tempfile::tempdir().expect("a folder");
    for (size, out) in [("4k", "a"), ("16k", "b")] {
        let words = ["smallfiles", "-n", "20", "--size", size, "--repeats", "2", "--out", out];
        lab(dir.path(), &words);
        // Whether it was at a limit depends on what else runs here.
        let path = dir.path().join(out).join("results.json");
        let text = std::fs::read_to_string(&path).expect("there");
        let mut results: Value = serde_json::from_str(&text).expect("JSON");
        results["cells"][0]["pitfalls"] =
            serde_json::json!([{ "id": "saturated-processor", "text": "full", "mend": "none" }]);
        for metric in results["cells"][0]["metrics"].as_object_mut().expect("metrics").values_mut()
        {
            let scale = if out == "a" { 1.0 } else { 2.0 };
            metric["mean"] = (100.5 * scale).into();
            metric["samples"] = serde_json::json!([100.0 * scale, 101.0 * scale]);
        }
        std::fs::write(&path, results.to_string()).expect("written");
    }
    let (text, json) = compared(dir.path());
    let verdict = json["verdict"].as_str().expect("text");
    assert!(
        verdict.contains(
            "no verdict in 1: they were not asked for the same work (smallfiles.size: 4 KiB in A, 16 KiB in B), and \
             both runs filled the processor"
        ),
        "{text}"
    );
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

/// A job file or a profile of one's own that was edited between two runs, or rules of steadiness that were: the runs are not of the same.
#[test]
fn what_a_study_reads_from_files_is_told_apart_by_its_content() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect(name);
    let disk = include_str!("../../../../hardware/st3750640as.toml");
    write("mine.toml", disk);
    write("jobs.fio", "[a]\nrw=randread\nbs=4k\nsize=1m\n");
    write(
        "s.toml",
        "title = \"t\"\nquestion = \"q?\"\nrepeats = 1\n[machine]\nkind = \"simulated\"\nhost = \"opteron-2008\"\n\
         disk = \"./mine.toml\"\ndisks = 1\nfilesystem = \"xfs\"\n[layouts.disk]\nlevel = \"disk\"\n\
         [[factor]]\nname = \"layout\"\nlevels = [\"disk\"]\n\
         [[workload]]\nname = \"jobs\"\nkind = \"fio\"\nfile = \"jobs.fio\"\n",
    );
    let run = |out: &str, set: &[&str]| {
        printed(dir.path(), &[&["lab", "run", "s.toml", "--out", out], set].concat());
    };
    run("first", &[]);
    write("jobs.fio", "[a]\nrw=randread\nbs=8k\nsize=1m\n");
    run("job", &[]);
    write("mine.toml", &format!("{disk}\n# another\n"));
    run("disk", &[]);
    run("steady", &["--set", "steady.round=1s"]);
    for (a, b, told) in [
        ("first", "job", "file jobs.fio: content "),
        ("job", "disk", "disks: 1 × "),
        ("disk", "steady", "steady: rounds of "),
    ] {
        let said = printed(dir.path(), &["lab", "compare", a, b]);
        assert!(said.contains(told), "{a}, {b}: {said}");
    }
}
