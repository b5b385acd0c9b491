//! Results on disk: whole or not at all, and nothing of anyone else's is touched.

use crate::scripted;

use lab::output::{check_output, read_results, write_results};
use lab::results::Results;
use scripted::{noisy, ran, scripted, study};
use std::fs;

fn results() -> Results {
    let text = "title = 't'\nquestion = 'q?'\nrepeats = 3\nmachine = {}\n\
                [[workload]]\nname = 'random'\nkind = 'random'";
    ran(&study(text), &scripted(|_, plan| noisy("iops", 100.0, 0.0, plan.seed)))
}

#[test]
fn what_was_written_is_read_again() {
    let dir = tempfile::tempdir().expect("a place");
    let out = dir.path().join("deep/down");
    let results = results();
    write_results(&out, &results, &[("results.csv", b"a,b\n")], false).expect("it is written");
    assert_eq!(read_results(&out).expect("it is read"), results);
    assert_eq!(read_results(&out.join("results.json")).expect("it is read"), results);
    assert_eq!(fs::read(out.join("results.csv")).expect("it is there"), b"a,b\n");
    let names = fs::read_dir(&out).expect("a directory").count();
    assert_eq!(names, 2, "no partial file is left");
}

#[test]
fn an_earlier_result_is_replaced_and_what_lies_beside_it_stays() {
    let dir = tempfile::tempdir().expect("a place");
    let mut results = results();
    write_results(dir.path(), &results, &[], false).expect("it is written");
    fs::write(dir.path().join("notes.txt"), "mine").expect("it is written");
    results.seed = 9;
    write_results(dir.path(), &results, &[], false).expect("it is replaced");
    assert_eq!(read_results(dir.path()).expect("it is read").seed, 9);
    assert!(dir.path().join("notes.txt").exists());
}

#[test]
fn a_directory_with_other_things_is_left_alone_unless_forced() {
    let dir = tempfile::tempdir().expect("a place");
    fs::write(dir.path().join("thesis.tex"), "mine").expect("it is written");
    let error = write_results(dir.path(), &results(), &[], false).expect_err("it is refused");
    let line = error.to_string();
    assert!(line.contains("other things than an earlier result (thesis.tex)"), "{line}");
    assert!(line.ends_with("name another with --out, or write into it with --force"), "{line}");
    assert!(!dir.path().join("results.json").exists());
    check_output(dir.path(), true).expect("it is forced");
    write_results(dir.path(), &results(), &[], true).expect("it is forced");
    assert!(dir.path().join("thesis.tex").exists());
}

#[test]
fn a_file_that_can_not_be_written_takes_no_earlier_result_with_it() {
    let dir = tempfile::tempdir().expect("a place");
    let earlier = results();
    write_results(dir.path(), &earlier, &[], false).expect("it is written");
    // A directory stands where the partial file would: writing fails after the first file.
    fs::create_dir(dir.path().join("report.html.partial")).expect("it is made");
    let others: [(&str, &[u8]); 2] = [("results.csv", b"new"), ("report.html", b"new")];
    let error = write_results(dir.path(), &earlier, &others, false).expect_err("it fails");
    assert!(error.to_string().contains("report.html: cannot be written: "), "{error}");
    assert_eq!(read_results(dir.path()).expect("it is still there"), earlier);
    assert!(!dir.path().join("results.csv").exists());
    assert!(!dir.path().join("results.csv.partial").exists());
}

/// `/dev/full` answers every write as a full disk does.
#[test]
fn a_full_disk_is_named_with_the_mend() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        eprintln!("skipped: this system has no /dev/full");
        return;
    }
    let dir = tempfile::tempdir().expect("a place");
    #[cfg(unix)]
    std::os::unix::fs::symlink(full, dir.path().join("results.json.partial")).expect("a link");
    let error = write_results(dir.path(), &results(), &[], false).expect_err("it is full");
    let line = error.to_string();
    assert!(
        line.ends_with("the disk is full; free some space or name another place with --out"),
        "{line}"
    );
    assert!(!dir.path().join("results.json").exists());
}

#[test]
fn what_is_no_result_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a place");
    let line = |text: &str| {
        fs::write(dir.path().join("results.json"), text).expect("it is written");
        read_results(dir.path()).expect_err("it is no result").to_string()
    };
    assert!(line("{}").contains("this is no results.json of Spindle: missing field"));
    assert!(line("not json").contains("this is no results.json of Spindle"));
    let later = line("{\"format\": 99, \"spindle_version\": \"9.9\"}");
    assert!(later.contains("its format is 99"), "{later}");
    assert!(later.ends_with("use the version that wrote it, 9.9"), "{later}");
    let nowhere = read_results(&dir.path().join("nowhere")).expect_err("nothing there").to_string();
    assert!(
        nowhere.ends_with("name a directory that `spindle lab run`, or a tool's --out, wrote"),
        "{nowhere}"
    );
}
