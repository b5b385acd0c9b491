//! `spindle lab fio`: how a job ends, where its output goes, and which paths lead where.
//!
//! What could break: a user's file that is emptied by a command line that is refused; output that another file takes the place of; a
//! path with `..` that leads elsewhere than the system would go.

use std::path::Path;
use std::process::{Command, Output};

fn fio(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["lab", "fio"]).args(words).current_dir(dir);
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn refused(dir: &Path, words: &[&str], status: i32, said: &str) {
    let output = fio(dir, words);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
    assert!(error.lines().count() == 1 && error.contains(said), "{words:?}: {error}");
}

const JOB: [&str; 4] = ["--name=a", "--rw=write", "--size=64k", "--filename=made"];

#[test]
fn what_is_refused_leaves_the_file_of_the_output_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("precious"), "precious").expect("written");
    let output = &["--output=precious"][..];
    for (words, status, said) in [
        (&["--iodpeth=4"][..], 2, "did you mean iodepth?"),
        (&["--section=none"], 2, "none"),
        (&["--directory=no"], 2, "no"),
        (&["--size=900t"], 1, "its files take 900 TiB"),
        (&["--rw=trim"], 1, "trims go to block devices alone"),
        (&["--out=precious"], 2, "precious"),
    ] {
        refused(dir.path(), &[&JOB[..], words, output].concat(), status, said);
        assert_eq!(std::fs::read(at("precious")).expect("there"), b"precious", "{words:?}");
    }
    let look = fio(dir.path(), &[&JOB[..], &["--parse-only"], output].concat());
    assert!(look.status.success(), "{look:?}");
    assert_eq!(std::fs::read(at("precious")).expect("there"), b"precious");
    // Where it can't be written, nothing runs.
    refused(dir.path(), &[&JOB[..], &["--output=no/where"]].concat(), 1, "writing no/where");
    assert!(!at("made").exists());
    // What is accepted writes it over.
    let done = fio(dir.path(), &[&JOB[..], output].concat());
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    let told = std::fs::read_to_string(at("precious")).expect("there");
    assert!(told.starts_with("a: (g=0): rw=write") && told.contains("err= 0"), "{told}");
}

#[test]
fn the_output_takes_the_place_of_nothing_that_is_needed() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("d/e")).expect("made");
    std::os::unix::fs::symlink("d/e", at("link")).expect("linked");
    let whole = format!("--out={}", at("x").display());
    for (output, out, said) in [
        ("--output=x", "--out=x", "--out makes a directory of this name"),
        ("--output=./d/../x", "--out=x/", "--out makes a directory of this name"),
        ("--output=x", &whole, "--out makes a directory of this name"),
        // Through the link it is d/x.
        ("--output=link/../x", "--out=d/x", "--out makes a directory of this name"),
        ("--output=link/told", "--out=d/e", "which holds the report alone"),
        ("--output=x/told", "--out=x", "which holds the report alone"),
    ] {
        refused(dir.path(), &[&JOB[..], &[output, out]].concat(), 2, said);
    }
    assert!(!at("x").exists() && !at("d/x").exists() && !at("made").exists());
    std::fs::write(at("job.fio"), "[a]\nrw=write\nsize=64k\n").expect("written");
    refused(dir.path(), &["job.fio", "--output=d/../job.fio"], 2, "it is a job file");
    assert!(std::fs::read_to_string(at("job.fio")).expect("there").starts_with("[a]"));
    refused(dir.path(), &[&JOB[..], &["--output=d/../made"]].concat(), 2, "it is a file of a job");
    let nowhere = ["--name=a", "--rw=write", "--size=64k", "--filename=/dev/null"];
    let nowhere = fio(dir.path(), &[&nowhere[..], &["--output=/dev/null"]].concat());
    assert!(nowhere.status.success(), "{nowhere:?}");
    let both = fio(dir.path(), &[&JOB[..], &["--output=told", "--out=x"]].concat());
    assert!(both.status.success(), "{both:?}");
    assert!(at("told").is_file() && at("x/results.json").is_file());
}

/// As the real fio leaves the same files for the same words.
#[test]
fn paths_lead_where_the_system_goes() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    for folder in ["work", "beside", "far/deep"] {
        std::fs::create_dir_all(at(folder)).expect("made");
    }
    std::os::unix::fs::symlink("../far/deep", at("work/link")).expect("linked");
    std::fs::write(at("work/j.fio"), "[j]\nrw=write\nsize=64k\nfilename=../of_file\n")
        .expect("written");
    let job = &["--name=a", "--rw=write", "--size=64k"][..];
    for (words, made) in [
        (&["--directory=../beside"][..], "beside/a.0.0"),
        (&["--directory=..", "--filename=b"], "b"),
        (&["--filename=../c"], "c"),
        (&["--filename=../c:d", "--size=128k"], "work/d"),
        (&["--directory=../beside", "--filename=../e"], "e"),
        // The link leads to far/deep, and from there up to far.
        (&["--filename=link/../f"], "far/f"),
        (&["--directory=link/.."], "far/a.0.0"),
        (&["--filename_format=../g.$filenum"], "g.0"),
    ] {
        let output = fio(&at("work"), &[job, words].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        assert_eq!(std::fs::metadata(at(made)).expect(made).len(), 65_536, "{words:?}");
    }
    let of_file = fio(&at("work"), &["j.fio"]);
    assert!(of_file.status.success(), "{}", text(&of_file.stderr));
    assert!(at("of_file").is_file() && !at("work/of_file").exists());
    // From --dir, and the directory that is not there is named.
    let output = fio(dir.path(), &[job, &["--dir=work", "--filename=../h"]].concat());
    assert!(output.status.success() && at("h").is_file(), "{}", text(&output.stderr));
    refused(&at("work"), &[job, &["--directory=../no"]].concat(), 2, "../no");
}

#[test]
fn an_io_that_took_too_long_ends_a_job_with_fios_number() {
    let dir = tempfile::tempdir().expect("a directory");
    let words = ["--name=a", "--rw=write", "--size=1m", "--max_latency=1", "--fsync=1"];
    let output = fio(dir.path(), &[&words[..], &["--output-format=json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // ETIMEDOUT, as in fio 3.33.
    assert_eq!(json["jobs"][0]["error"], 110);
    assert!(text(&output.stderr).contains("at most 1 µs are allowed"));
}

/// Found by a newcomer: a file that a killed run was laying out stays for ever, under a name that no `ls` shows.
#[test]
fn what_a_killed_layout_left_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = ["--name=a", "--rw=read", "--size=64k", "--filename=sub/f"];
    let said = |left: &[&str]| {
        for name in left {
            std::fs::write(dir.path().join("sub").join(name), "").expect("written");
        }
        let output = fio(dir.path(), &job);
        assert!(output.status.success(), "{output:?}");
        text(&output.stderr)
    };
    std::fs::create_dir(dir.path().join("sub")).expect("made");
    assert!(!said(&[]).contains("killed"));
    assert!(!said(&[".layout-a", ".layout-1-", "layout-0-0", ".layout-0-0x"]).contains("killed"));
    let named = said(&[".layout-0-0", ".layout-12-3"]);
    let line = "sub/.layout-0-0, ./sub/.layout-12-3: laid out for a run that was killed, or for another one";
    assert!(named.contains(line), "{named}");
    assert!(dir.path().join("sub/.layout-0-0").exists(), "it may be another run's");
}

/// Side by side with fio 3.33, where it is installed: what of a log does not depend on the time.
#[test]
fn logs_of_windows_have_the_columns_of_fios() {
    fixtures::takes_long!();
    let words = [
        "--name=a",
        "--filename=f",
        "--rw=randread",
        "--bs=4k",
        "--size=1m",
        "--time_based",
        "--runtime=350ms",
        "--rate_iops=200",
        "--ioengine=psync",
        "--log_avg_msec=100",
        "--write_bw_log=l",
        "--write_iops_log=l",
        "--write_lat_log=l",
    ];
    for (offset, columns) in [(&[][..], 5), (&["--log_offset=1"], 6)] {
        // Direction, block size, place and priority of the lines, without time and value.
        let read = |dir: &Path, name: &str| {
            let text = std::fs::read_to_string(dir.join(name)).expect("a log");
            let lines =
                text.lines().map(|line| line.split(", ").skip(2).collect::<Vec<_>>().join(", "));
            let mut kinds: Vec<String> = lines.collect();
            assert!(kinds.len() >= 3, "{text}");
            kinds.dedup();
            kinds
        };
        let logs = ["l_bw.1.log", "l_iops.1.log", "l_clat.1.log", "l_lat.1.log"];
        let ours = tempfile::tempdir().expect("a directory");
        let output = fio(ours.path(), &[&words, offset].concat());
        assert!(output.status.success(), "{output:?}");
        for log in logs {
            let zeros = vec!["0"; columns - 2].join(", ");
            assert_eq!(read(ours.path(), log), [zeros], "{log}");
        }
        let theirs = tempfile::tempdir().expect("a directory");
        let fio = Command::new("fio").args(words).args(offset).current_dir(theirs.path()).output();
        if fio.is_ok_and(|output| text(&output.stdout).contains("fio-3.33")) {
            for log in logs {
                assert_eq!(read(ours.path(), log), read(theirs.path(), log), "{log}");
            }
        }
    }
}
