//! `spindle hw replay`: what could break is what a user sees of it.

use std::path::Path;
use std::process::{Command, Output};

fn spindle(dir: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_spindle"));
    program.args(arguments).current_dir(dir).output().expect("the program starts")
}

/// The one line that a failing call prints.
#[track_caller]
fn refusal(dir: &Path, arguments: &[&str], status: i32) -> String {
    let output = spindle(dir, arguments);
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
    assert_eq!(errors.trim_end().lines().count(), 1, "{arguments:?}: {errors}");
    errors
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Reads all over a disk, so that each takes a seek; as DiskSim writes such traces down.
fn load() -> String {
    (0..400_u64)
        .map(|n| format!("R Miss {} 8 {}.0 20000.0\n", n * 7_919 % 1_000 * 17_000, 9_000 + n * 10))
        .collect()
}

#[test]
fn a_recorded_load_is_played_compared_and_drawn() {
    let dir = temporary();
    std::fs::write(dir.path().join("load"), load()).expect("written");
    let args = ["hw", "replay", "cheetah9lp", "load", "--json", "--out", "page.html"];
    let output = spindle(dir.path(), &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&all["n"], &all["format"]), (&400.into(), &"validate".into()));
    assert_eq!(all["measured_mean_ms"], 10.995);
    let mean = all["mean_ms"].as_f64().expect("a number");
    // A seek of a third of the way, half a revolution of 6 ms.
    assert!((6.0..12.0).contains(&mean), "{mean}");
    assert!(all["demerit"].as_f64().is_some_and(|apart| apart > 0.0));
    assert!(all["p50_ms"].as_f64() <= all["p99_ms"].as_f64());
    let page = std::fs::read_to_string(dir.path().join("page.html")).expect("a page");
    assert_eq!(page.matches("role=\"img\"").count(), 2);

    let again = spindle(dir.path(), &args);
    assert!(output.stdout == again.stdout, "one seed, one answer");
    let text = spindle(dir.path(), &["hw", "replay", "cheetah9lp", "load"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("400 requests (validate), closed") && text.contains("demerit"), "{text}");
}

#[test]
fn the_same_load_open_needs_times_and_a_log_of_fio_has_them() {
    let dir = temporary();
    std::fs::write(dir.path().join("load"), load()).expect("written");
    let line = refusal(dir.path(), &["hw", "replay", "cheetah9lp", "load", "--open"], 2);
    assert!(line.contains("load") && line.contains("line 1") && line.contains("closed"), "{line}");
    let log =
        "fio version 3 iolog\n0 a read 0 4096\n0 a read 819200000 4096\n50 a write 4096 4096\n";
    std::fs::write(dir.path().join("log"), log).expect("written");
    let output = spindle(dir.path(), &["hw", "replay", "870-evo", "log", "--json"]);
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&all["n"], &all["closed"]), (&3.into(), &false.into()));
    assert!(all.get("demerit").is_none() && all.get("measured_mean_ms").is_none());
}

#[test]
fn what_can_not_be_played_is_refused_in_a_line_that_names_it() {
    let dir = temporary();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect(name);
    write("bad", "R Hit 5 4 1.0 2.0\nR Hit x 4 1.0 2.0\n");
    write("far", "R Hit 5 4 1.0 2.0\nR Hit 99999999999 4 1.0 2.0\n");
    write("prose", "to be or not to be\n");
    write("x.diskspecs", "disksim_disk X {\n Model = source none.model\n}\n");
    for (args, parts) in [
        (["hw", "replay", "cheetah9lp", "bad"], vec!["bad:2", "'x' is no sector"]),
        (["hw", "replay", "cheetah9lp", "far"], vec!["far", "line 2", "cheetah9lp", "ends at"]),
        (["hw", "replay", "cheetah9lp", "prose"], vec!["prose", "--format"]),
        (["hw", "replay", "cheetah9lp", "none"], vec!["none"]),
        (["hw", "replay", "cheetah9l", "bad"], vec!["cheetah9lp"]),
        (["hw", "replay", "sata-3g", "bad"], vec!["bad:2"]),
        (["hw", "replay", "x.diskspecs", "far"], vec!["x.model"]),
    ] {
        let line = refusal(dir.path(), &args, 2);
        for part in parts {
            assert!(line.contains(part), "'{part}' is not in: {line}");
        }
    }
    write("good", "R Hit 5 4 1.0 2.0\n");
    let line = refusal(dir.path(), &["hw", "replay", "sata-3g", "good"], 2);
    assert!(line.contains("sata-3g") && line.contains("link"), "{line}");
}

/// The profile that ships and the files it was made from are one disk.
#[test]
fn a_disk_as_for_disksim_answers_as_its_profile_does() {
    let drives = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/drives");
    if !drives.is_dir() {
        println!("skipped: the measured drives are not beside the project (../shared/drives)");
        return;
    }
    let dir = temporary();
    std::fs::write(dir.path().join("load"), load()).expect("written");
    for (file, name) in [("cheetah9LP", "cheetah9lp"), ("ibm18es", "ibm18es")] {
        let path = drives.join(file).with_extension("model");
        let path = path.to_string_lossy();
        let answer = |drive: &str| {
            let output = spindle(dir.path(), &["hw", "replay", drive, "load"]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.split_once('\n').map(|(_, figures)| figures.to_owned()).expect("figures")
        };
        assert_eq!(answer(&path), answer(name));
    }
}
