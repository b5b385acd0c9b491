//! The tools on directories that hold other things than theirs.
//!
//! What could break: a file that the user had there is overwritten or removed; a symbolic link leads a
//! tool out of its directory; a pipe is waited for without end; an earlier result is lost; a machine that
//! could not be put back looks like a success.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

fn lab(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.arg("lab").args(arguments).current_dir(dir).output().expect("the program starts")
}

fn refused(output: &Output, saying: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(saying), "{said}");
}

const FILESET: &str = "define fileset name=docs,path=$dir,entries=5,filesize=1k,prealloc\n\
    define process name=p { thread name=t { flowop statfile name=s,filesetname=docs } }\nrun 1\n";

#[test]
fn filebench_follows_no_link_out_of_its_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let (work, outside) = (dir.path().join("work"), dir.path().join("outside"));
    fs::create_dir_all(&work).expect("made");
    fs::create_dir_all(outside.join("docs")).expect("made");
    fs::write(outside.join("docs/thesis"), "years").expect("written");
    fs::write(dir.path().join("a.f"), FILESET).expect("written");
    fs::write(dir.path().join("b.f"), FILESET.replace("$dir", "$dir/sub")).expect("written");
    symlink("../outside/docs", work.join("docs")).expect("linked");
    symlink("../outside", work.join("sub")).expect("linked");
    for file in ["a.f", "b.f"] {
        let output = lab(dir.path(), &["filebench", file, "--dir", "work", "--clean"]);
        refused(&output, "symbolic link");
    }
    assert_eq!(fs::read(outside.join("docs/thesis")).expect("still there"), b"years");
}

#[test]
fn a_tool_neither_uses_nor_removes_a_file_of_its_name_that_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    for name in ["spindle-probe.tst", "slob.dbf"] {
        fs::write(file(name), "mine").expect("written");
    }
    refused(&lab(dir.path(), &["probe", "hdparm", "--size", "4m"]), "it is there already");
    let slob = ["slob", "--buffered", "--scale", "600", "--run-time", "1"];
    refused(&lab(dir.path(), &slob), "slob.dbf is there already");
    for name in ["spindle-probe.tst", "slob.dbf"] {
        assert_eq!(fs::read(file(name)).expect("still there"), b"mine");
    }
}

#[test]
fn iometer_writes_through_no_link() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("thesis"), "years").expect("written");
    symlink("thesis", dir.path().join("iobw.tst")).expect("linked");
    let icf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/iometer-servers.icf");
    let output = lab(dir.path(), &["iometer", icf, "--size", "1m", "--buffered", "--remove"]);
    refused(&output, "symbolic link");
    assert_eq!(fs::read(dir.path().join("thesis")).expect("still there"), b"years");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    fs::write(dir.path().join("j.fio"), "[a]\nrw=read\nsize=64k\nfilename=pipe\n")
        .expect("written");
    refused(&lab(dir.path(), &["fio", "j.fio"]), "a pipe or a socket");
    refused(&lab(dir.path(), &["probe", "hdparm", "pipe"]), "a pipe or a socket");
    refused(&lab(dir.path(), &["probe", "dd", "if=pipe", "of=/dev/null"]), "a pipe or a socket");
}

#[test]
fn an_earlier_result_is_kept_unless_it_may_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = ["smallfiles", "-n", "10", "--out", "result"];
    assert!(lab(dir.path(), &run).status.success());
    let first = fs::read(dir.path().join("result/results.json")).expect("written");
    refused(&lab(dir.path(), &run), "an earlier result lies there");
    assert_eq!(fs::read(dir.path().join("result/results.json")).expect("there"), first);
    let forced = [&run[..], &["--force"]].concat();
    assert!(lab(dir.path(), &forced).status.success());
}

#[test]
fn an_input_that_can_be_no_job_file_is_not_read_to_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    for tool in ["fio", "iometer", "filebench"] {
        let output = lab(dir.path(), &[tool, "/dev/zero", "--dir", "."]);
        refused(&output, "more than 16 MiB");
    }
    refused(&lab(dir.path(), &["run", "/dev/zero"]), "more than 4194304 bytes");
}

#[test]
fn a_machine_that_could_not_be_put_back_is_a_failure_with_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let study = "title = \"t\"\nquestion = \"q?\"\nrepeats = 1\n[machine]\nkind = \"host\"\n\
        directory = \".\"\n[[factor]]\nname = \"x\"\nlevels = [\"a\"]\nbefore = { a = \"true\" }\n\
        after = \"exit 7\"\n[[workload]]\nname = \"w\"\nkind = \"smallfiles\"\nfiles = 10\n";
    fs::write(dir.path().join("s.toml"), study).expect("written");
    let output = lab(dir.path(), &["run", "s.toml", "--allow-commands", "--out", "result"]);
    refused(&output, "running `exit 7` to put things back: exit status: 7");
    refused(&output, "the figures are good");
    assert!(dir.path().join("result/results.json").exists());
}
