//! The program from the outside: what a user types, what comes back, and what is left on the disk.
//!
//! What could break: an error that takes several lines or names nothing, a wrong exit status, a report
//! of a run that did not end, files left behind, figures that depend on the number of threads.

use std::path::Path;
use std::process::{Command, Output};

fn spindle(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(arguments)
        .current_dir(dir)
        .env_remove("SPINDLE_DEVICES")
        .output()
        .expect("the program starts")
}

/// The one line that a failing call prints.
#[track_caller]
fn refusal(dir: &Path, arguments: &[&str], status: i32) -> String {
    let output = spindle(dir, arguments);
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
    let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("spindle: ")).collect();
    assert_eq!(lines.len(), 1, "{arguments:?} is answered with one line: {errors}");
    lines[0].to_owned()
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A study of two layouts that runs in a moment.
const SMALL: &str = r#"
title = "Two layouts"
question = "Which of the two?"
repeats = 3
[steady]
round = "500ms"
window = 3
rounds_max = 6
[machine]
kind = "simulated"
host = "opteron-2008"
disk = "st3750640as"
disks = 4
[layouts.disk]
level = "disk"
[layouts.raid5-3]
level = "raid5"
disks = 3
[[factor]]
name = "layout"
levels = ["disk", "raid5-3"]
[[workload]]
name = "random"
kind = "random"
read_share = [1, 0]
block_size = "4k"
queue_depth = 4
"#;

fn is_empty(dir: &Path) -> bool {
    dir.read_dir().expect("it is there").next().is_none()
}

fn small(dir: &Path, change: impl Fn(&str) -> String) -> String {
    let file = dir.join("small.toml");
    std::fs::write(&file, change(SMALL)).expect("the study is written");
    "small.toml".to_owned()
}

#[test]
fn bad_input_is_answered_with_one_line_that_names_the_thing() {
    let dir = temporary();
    let run = |change: &dyn Fn(&str) -> String| {
        let study = small(dir.path(), change);
        refusal(dir.path(), &["lab", "run", &study], 2)
    };
    for (line, parts) in [
        (run(&|text| text.replace("repeats", "repeat")), &["small.toml", "repeat", "repeats"][..]),
        (run(&|text| text.replace("raid5\"\ndisks", "raid7\"\ndisks")), &["raid5-3", "raid7"]),
        (run(&|text| text.replace("st3750640as", "st3750640a")), &["st3750640a", "st3750640as"]),
        (run(&|text| text.replace("disks = 4", "disks = 2")), &["raid5-3", "3 disks", "2"]),
        (run(&|text| text.replace("disks = 3", "disks = 1")), &["raid5-3", "1"]),
        (run(&|text| text.replace("[\"disk\", ", "[\"disc\", ")), &["disc"]),
        (
            run(&|text| text.replace("kind = \"random\"", "kind = \"randon\"")),
            &["randon", "random"],
        ),
        (run(&|text| text.replace("host = ", "hots = ")), &["hots", "did you mean 'host'?"]),
        (run(&|text| text.replace("st3750640as", "exosx20")), &["did you mean 'exos-x20'?"]),
        (
            run(&|text| {
                text[..text.find("kind = \"random\"").expect("a kind")].to_owned()
                    + "kind = \"bonnie\"\nsize = 1\n"
            }),
            &["'size' is 1", "a text in quotation marks", "size = \"1\""],
        ),
        (
            refusal(dir.path(), &["lab", "probe", "dd"], 2),
            &["of= is missing", "if=/dev/urandom of=FILE bs=1M"],
        ),
        (run(&|text| text.replace("\"simulated\"", "\"quantum\"")), &["quantum", "simulated"]),
        (run(&|text| text[..200].to_owned()), &["small.toml"]),
        (refusal(dir.path(), &["lab", "run", "none.toml"], 2), &["none.toml"]),
        (refusal(dir.path(), &["lab", "run", "raid-layout"], 2), &["raid-layout", "raid-layouts"]),
        (refusal(dir.path(), &["lab", "run", "raid-layouts", "--only", "raid9"], 2), &["raid9"]),
        (
            refusal(dir.path(), &["lab", "run", "raid-layouts", "--set", "repeets=3"], 2),
            &["repeets"],
        ),
        (refusal(dir.path(), &["lab", "run", "raid-layouts", "--jobs", "0"], 2), &["--jobs"]),
        (refusal(dir.path(), &["lab", "report", "nowhere"], 2), &["nowhere"]),
        (refusal(dir.path(), &["lab", "frobnicate"], 2), &["frobnicate"]),
        (refusal(dir.path(), &["hw", "show", "st3750640"], 2), &["st3750640", "st3750640as"]),
    ] {
        for part in parts {
            assert!(line.contains(part), "'{part}' is not in: {line}");
        }
    }
    assert!(!dir.path().join("spindle-results").exists(), "nothing was written");
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_one_thread_and_on_four() {
    let dir = temporary();
    let study = small(dir.path(), str::to_owned);
    for (out, jobs) in [("one", "1"), ("four", "4")] {
        let output = spindle(dir.path(), &["lab", "run", &study, "--out", out, "--jobs", jobs]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for file in ["results.json", "results.csv", "report.html"] {
        let read = |out| std::fs::read(dir.path().join(out).join(file)).expect(file);
        assert!(read("one") == read("four"), "{file} differs");
    }
    let output = spindle(dir.path(), &["lab", "compare", "one", "four"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("No difference"));
    let output = spindle(dir.path(), &["lab", "compare", "one", "four", "--json"]);
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let compared = compared["comparisons"].as_array().expect("comparisons");
    let main = compared.iter().filter(|one| one["main"] == true);
    let main: Vec<&str> = main.filter_map(|one| one["metric"].as_str()).collect();
    assert_eq!(main, ["iops"; 4], "random I/O is counted");
    let output = spindle(dir.path(), &["lab", "run", &study, "--out", "other", "--seed", "2"]);
    assert!(output.status.success());
    let read = |out| std::fs::read(dir.path().join(out).join("results.json")).expect("results");
    assert!(read("one") != read("other"), "another seed gives other figures");
}

#[test]
fn results_json_keeps_its_contract() {
    let dir = temporary();
    let study = small(dir.path(), str::to_owned);
    let output = spindle(dir.path(), &["lab", "run", &study, "--quick", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for key in ["study", "seed", "spindle_version", "simulated", "cells", "claims", "verdict"] {
        assert!(results.get(key).is_some(), "{key}");
    }
    assert_eq!(results["simulated"], true);
    assert_eq!(results["quick"], true);
    let cells = results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    for cell in cells {
        for metric in
            ["iops", "throughput_mb_s", "latency_us_p50", "latency_us_p99", "cpu_us_per_io"]
        {
            let metric = &cell["metrics"][metric];
            assert!(metric["mean"].as_f64().expect("a mean") > 0.0);
            assert!(metric["ci_low"].as_f64() <= metric["ci_high"].as_f64());
            assert_eq!(
                metric["samples"].as_array().map(Vec::len),
                cell["repeats"].as_u64().map(|n| n as usize)
            );
        }
    }
}

#[test]
fn a_folder_that_holds_other_things_is_left_alone_without_force() {
    let dir = temporary();
    let study = small(dir.path(), str::to_owned);
    std::fs::create_dir(dir.path().join("photos")).expect("a folder");
    std::fs::write(dir.path().join("photos/cat.jpg"), "cat").expect("a file");
    let line = refusal(dir.path(), &["lab", "run", &study, "--out", "photos"], 2);
    assert!(line.contains("photos") && line.contains("--force"), "{line}");
    let forced = ["lab", "run", &study, "--quick", "--out", "photos", "--force"];
    assert!(spindle(dir.path(), &forced).status.success());
    assert!(dir.path().join("photos/cat.jpg").exists());
    assert!(dir.path().join("photos/report.html").exists());
}

#[test]
fn a_run_that_is_interrupted_before_anything_is_done_leaves_nothing_and_says_so() {
    fixtures::takes_long!();
    let dir = temporary();
    // Hours of simulated time: it can't be over before the signal. A round that has begun is finished.
    let study = small(dir.path(), |text| {
        text.replace("500ms", "5m").replace("rounds_max = 6", "rounds_max = 1000")
    });
    let child = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["lab", "run", &study])
        .current_dir(dir.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let id = child.id().to_string();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("interrupted"), "{errors}");
    assert!(!dir.path().join("spindle-results").exists(), "nothing was written");
}

/// Files of this host: made, measured, removed.
#[test]
fn a_study_of_this_host_leaves_nothing_behind() {
    fixtures::takes_long!();
    let dir = temporary();
    std::fs::create_dir(dir.path().join("scratch")).expect("a folder");
    let study = small(dir.path(), |text| {
        let machine = text.find("kind = \"simulated\"").expect("a machine");
        let layouts = text.find("[layouts.disk]").expect("layouts");
        let host = "kind = \"host\"\ndirectory = \"scratch\"\nfile_size = \"8m\"\ndirect = false\n";
        format!("{}{host}{}", &text[..machine], &text[layouts..]).replace("500ms", "20ms")
    });
    let output = spindle(dir.path(), &["lab", "run", &study, "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["simulated"], false);
    assert!(is_empty(&dir.path().join("scratch")), "the lab's files are removed");
}

/// The study that ships, in small: both sides are measured, and neither server nor socket is left behind.
#[test]
fn the_study_of_nbd_measures_both_sides_and_leaves_nothing_behind() {
    fixtures::takes_long!();
    let dir = temporary();
    let sockets = dir.path().join("t");
    std::fs::create_dir(&sockets).expect("a folder");
    std::fs::create_dir(dir.path().join("scratch")).expect("a folder");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/nbd.toml");
    let text = std::fs::read_to_string(shipped).expect("the study is there");
    std::fs::write(dir.path().join("small.toml"), text).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["lab", "run", "small.toml", "--format", "json", "--set", "steady.round=10ms"])
        .args(["--set", "repeats=1", "--set", "machine.file_size=4m"])
        .args(["--set", "machine.direct=false", "--set", "machine.directory=scratch"])
        .current_dir(dir.path())
        .env("TMPDIR", &sockets)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cells = results["cells"].as_array().expect("cells");
    for access in ["local", "nbd"] {
        let its = cells.iter().filter(|cell| cell["factors"]["access"] == access);
        let rates: Vec<f64> = its
            .filter_map(|cell| {
                let metrics = &cell["metrics"];
                metrics["iops"].get("mean").or(metrics["throughput_mb_s"].get("mean"))?.as_f64()
            })
            .collect();
        assert_eq!(rates.len(), 8, "{access}");
        assert!(rates.iter().all(|rate| *rate > 0.0), "{access}: {rates:?}");
    }
    assert!(is_empty(&dir.path().join("scratch")), "the lab's files are removed");
    let left = std::fs::read_dir(&sockets).expect("there").count();
    assert_eq!(left, 0, "the socket and its folder are removed");
}

#[test]
fn an_export_has_neither_files_nor_members() {
    let dir = temporary();
    std::fs::create_dir(dir.path().join("scratch")).expect("a folder");
    let study = small(dir.path(), |text| {
        let machine = text.find("kind = \"simulated\"").expect("a machine");
        let layouts = text.find("[layouts.disk]").expect("layouts");
        let host = "kind = \"host\"\ndirectory = \"scratch\"\naccess = \"nbd\"\n";
        let rebuild = "[[workload]]\nname = \"again\"\nkind = \"rebuild\"\n";
        format!("{}{host}{}{rebuild}", &text[..machine], &text[layouts..])
    });
    let line = refusal(dir.path(), &["lab", "run", &study], 2);
    assert!(line.contains("'again' with access \"nbd\"") && line.contains("except"), "{line}");
}

#[test]
fn content_is_not_destroyed_without_leave() {
    fixtures::takes_long!();
    let dir = temporary();
    let disk = dir.path().join("precious.img");
    let precious = vec![0x5a_u8; 1 << 20];
    std::fs::write(&disk, &precious).expect("a file");
    let with_device = |text: &str| {
        let machine = text.find("kind = \"simulated\"").expect("a machine");
        let layouts = text.find("[layouts.disk]").expect("layouts");
        let host = "kind = \"host\"\ndevices = [\"precious.img\"]\ndirect = false\n";
        format!("{}{host}{}", &text[..machine], &text[layouts..])
            .replace("500ms", "20ms")
            .replace("levels = [\"disk\", \"raid5-3\"]", "levels = [\"disk\"]")
    };
    let study = small(dir.path(), with_device);
    let line = refusal(dir.path(), &["lab", "run", &study], 2);
    assert!(line.contains("precious.img") && line.contains("--destructive"), "{line}");
    assert_eq!(std::fs::read(&disk).expect("it is there"), precious);

    // A study that only reads needs no leave and changes nothing.
    let study = small(dir.path(), |text| with_device(text).replace("[1, 0]", "[1]"));
    let output = spindle(dir.path(), &["lab", "run", &study, "--out", "reads"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(&disk).expect("it is there"), precious);

    let study = small(dir.path(), with_device);
    let output = spindle(dir.path(), &["lab", "run", &study, "--out", "writes", "--destructive"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_ne!(std::fs::read(&disk).expect("it is there"), precious);
}

#[test]
fn every_study_that_ships_can_be_shown_and_every_profile_too() {
    fixtures::takes_long!();
    let dir = temporary();
    let list = |arguments: &[&str]| {
        let output = spindle(dir.path(), arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    for (group, count) in [("lab", 3), ("hw", 20)] {
        let rows = list(&[group, "list", "--json"]);
        let rows = rows.as_array().expect("a list");
        assert!(rows.len() >= count);
        for row in rows {
            let name = row["name"].as_str().expect("a name");
            let shown = list(&[group, "show", name, "--json"]);
            assert_eq!(shown["name"], name);
        }
    }
}

/// Found by a tester: each of these ran, hung or took all memory.
#[test]
fn what_can_not_be_measured_is_refused_before_it_runs() {
    let dir = temporary();
    let host = |devices: &str| {
        let study = small(dir.path(), |text| {
            let machine = text.find("kind = \"simulated\"").expect("a machine");
            let layouts = text.find("[layouts.disk]").expect("layouts");
            format!(
                "{}kind = \"host\"\ndevices = [{devices}]\n{}",
                &text[..machine],
                &text[layouts..]
            )
        });
        refusal(dir.path(), &["lab", "run", &study], 2)
    };
    std::fs::write(dir.path().join("one.img"), []).expect("a file");
    std::fs::hard_link(dir.path().join("one.img"), dir.path().join("same.img")).expect("a link");
    assert!(host("\"one.img\", \"same.img\", \"one.img\"").contains("same storage"));
    assert!(host("\"/dev/null\"").contains("neither a file nor a block device"));
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(host("\"pipe\"").contains("neither a file nor a block device"));
    }

    let study = small(dir.path(), |text| text.replace("\"4k\"", "\"1t\""));
    let line = refusal(dir.path(), &["lab", "run", &study], 2);
    assert!(line.contains("block_size") && line.contains("64 MiB"), "{line}");

    // One disk of 20 TB is larger than ext3 can be, with its blocks of 4 KiB; two are larger than UFS with blocks of 8 KiB.
    let large = |filesystem: &str| {
        small(dir.path(), |text| {
            let machine = format!("disk = \"exos-x20\"\nfilesystem = \"{filesystem}\"");
            text.replace("disk = \"st3750640as\"", &machine)
        })
    };
    for (filesystem, limit) in [("ext3-ordered", "16 TiB"), ("ufs", "32 TiB")] {
        let study = large(filesystem);
        let line = refusal(dir.path(), &["lab", "run", &study], 2);
        assert!(line.contains(filesystem) && line.contains("is too large"), "{line}");
        assert!(line.contains("layout 'raid5-3'") || limit == "16 TiB", "{line}");
        assert!(line.contains(&format!("reach less than {limit}")), "{line}");
    }
    assert!(!dir.path().join("spindle-results").exists(), "nothing was begun");

    let study =
        small(dir.path(), |text| text.replace("Which of the two?", "\\u001b[31mred\\u0007?"));
    let output = spindle(dir.path(), &["lab", "run", &study, "--quick"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = [output.stderr, output.stdout].concat();
    assert!(!written.contains(&0x1b) && !written.contains(&7), "nothing steers the terminal");
}

#[test]
fn results_of_another_study_are_not_replaced_without_force() {
    let dir = temporary();
    let study = small(dir.path(), str::to_owned);
    assert!(
        spindle(dir.path(), &["lab", "run", &study, "--quick", "--out", "mine"]).status.success()
    );
    std::fs::rename(dir.path().join("small.toml"), dir.path().join("other.toml")).expect("renamed");
    let line = refusal(dir.path(), &["lab", "run", "other.toml", "--quick", "--out", "mine"], 2);
    assert!(line.contains("'small'") && line.contains("--force"), "{line}");
}

/// A study that measures files in `scratch`.
fn of_this_host(dir: &Path) -> String {
    std::fs::create_dir(dir.join("scratch")).expect("a folder");
    small(dir, |text| {
        let machine = text.find("kind = \"simulated\"").expect("a machine");
        let layouts = text.find("[layouts.disk]").expect("layouts");
        let host = "kind = \"host\"\ndirectory = \"scratch\"\nfile_size = \"8m\"\ndirect = false\n";
        format!("{}{host}{}", &text[..machine], &text[layouts..])
    })
}

/// What could break: who removes one file of a killed run is told of the next; a file of the user's is taken for one of them, or
/// removed.
#[test]
fn what_a_killed_run_left_is_told_of_all_at_once() {
    fixtures::takes_long!();
    let dir = temporary();
    let study = of_this_host(dir.path());
    let scratch = dir.path().join("scratch");
    let left = ["spindle-disk0.raw", "spindle-disk2.raw", "spindle-disk10.raw", "spindle-work"];
    for name in ["spindle-diskette.raw", "spindle-disk10.raw.old"].iter().chain(&left[..3]) {
        std::fs::write(scratch.join(name), "bytes").expect("written");
    }
    std::fs::create_dir(scratch.join(left[3])).expect("made");
    let line = refusal(dir.path(), &["lab", "run", &study], 1);
    let all = left.map(|name| format!("scratch/{name}")).join(", ");
    assert!(
        line.contains(&format!("{all} are there already")) && line.contains("killed"),
        "{line}"
    );
    assert_eq!(scratch.read_dir().expect("there").count(), 6, "nothing was made or removed");
    std::fs::remove_dir(scratch.join(left[3])).expect("removed");
    left[..3].iter().for_each(|name| std::fs::remove_file(scratch.join(name)).expect("removed"));
    let run = ["lab", "run", &study, "--quick", "--set", "steady.round=20ms"];
    let output = spindle(dir.path(), &run);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(scratch.read_dir().expect("there").count(), 2);
}

/// A closed terminal or a service manager ends a run no less politely than Ctrl-C does.
#[test]
fn a_terminated_run_removes_the_files_that_it_made() {
    let dir = temporary();
    let study = of_this_host(dir.path());
    for signal in ["-TERM", "-HUP"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(["lab", "run", &study])
            .current_dir(dir.path())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the program starts");
        while !dir.path().join("scratch/spindle-disk0.raw").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(child.try_wait().expect("it can be asked").is_none(), "it runs");
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(130));
        assert!(is_empty(&dir.path().join("scratch")), "{signal}: the files are removed");
    }
}

/// Found by hand: a run whose progress went to `head` panicked when that had seen enough.
#[test]
fn nobody_reading_the_progress_is_no_reason_to_stop() {
    let dir = temporary();
    let study = small(dir.path(), str::to_owned);
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["lab", "run", &study, "--quick"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(dir.path().join("spindle-results/small/report.html").exists());
}

/// Found by newcomers: each was answered in words that were not about what they had typed.
#[test]
fn what_is_not_there_is_told_as_such() {
    let dir = temporary();
    let line = refusal(dir.path(), &["nas/nope"], 2);
    assert!(line.starts_with("spindle: nas/nope: no such file or folder; name "), "{line}");
    let line = refusal(dir.path(), &["lab", "fio", "nope.fio"], 2);
    assert!(line.starts_with("spindle: nope.fio: No such file"), "{line}");
    assert!(line.contains("name a job file"), "{line}");
    let line = refusal(dir.path(), &["lab", "bonnie", "--format", "json"], 2);
    assert!(line.contains("'--format'") && !line.contains("--force"), "{line}");
    // A mistyped command stays one.
    let line = refusal(dir.path(), &["zpol", "list"], 2);
    assert!(line.contains("unrecognized subcommand 'zpol'"), "{line}");
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    let output = spindle(dir.path(), &["empty"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text, "0 files and devices were looked at; nothing was written\n");
}
