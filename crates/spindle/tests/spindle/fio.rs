//! `spindle lab fio` from the outside.
//!
//! What could break: a job file that fio runs and this does not; output that is no JSON; a device that is
//! written without leave; a refusal that names nothing.

use std::path::Path;
use std::process::{Command, Output};

fn fio(dir: &Path, job: &str, args: &[&str]) -> Output {
    let file = dir.join("job.fio");
    std::fs::write(&file, job).expect("the directory is ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["lab", "fio"]).arg(&file).arg("--dir").arg(dir).args(args).current_dir(dir);
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_job_runs_on_this_host_and_tells_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = "[global]\nsize=1m\nbs=4k\n[w]\nrw=randwrite\nioengine=libaio\niodepth=8\nverify=crc32c\nfilename=f\n[r]\nstonewall\nrw=read\nfilename=f\nverify=crc32c\n";
    let output = fio(dir.path(), job, &["--output-format=json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ios = |job: usize, direction: &str| json["jobs"][job][direction]["total_ios"].clone();
    assert_eq!(
        (ios(0, "write"), ios(0, "read"), ios(1, "read")),
        (256.into(), 256.into(), 256.into())
    );
    assert_eq!(std::fs::metadata(dir.path().join("f")).expect("is there").len(), 1 << 20);
}

#[test]
fn the_output_for_people_goes_to_a_file_with_logs_beside() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = "[a]\nrw=write\nsize=64k\nbs=4k\nwrite_lat_log=x\n[b]\nrw=read\nsize=64k\n";
    let output = fio(dir.path(), job, &["--section", "a", "--output", "out.txt"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = std::fs::read_to_string(dir.path().join("out.txt")).expect("written");
    assert!(told.contains("a: (groupid=0, jobs=1): err= 0") && !told.contains("b: "), "{told}");
    let log = std::fs::read_to_string(dir.path().join("x_lat.1.log")).expect("written");
    assert_eq!(log.lines().count(), 16);
}

#[test]
fn what_is_refused_is_named_with_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    for (job, status, said) in [
        ("[a]\nioengine=rdma\n", 2, "job.fio:2:1: ioengine=rdma is not supported"),
        ("[a]\nrw=read\ncpus_allowed=1\n", 2, "job.fio:3:1: option cpus_allowed is not supported"),
        ("[a]\niodpeth=4\n", 2, "unknown option iodpeth; did you mean iodepth?"),
        ("[a]\nrw=read\n", 1, "no size= is given"),
        ("[a]\nrw=read\nsize=900t\n", 1, "job a: its files take 900 TiB, and "),
    ] {
        let output = fio(dir.path(), job, &[]);
        assert_eq!(output.status.code(), Some(status), "{job}");
        let error = text(&output.stderr);
        assert!(error.lines().count() == 1 && error.contains(said), "{error}");
    }
    assert!(!dir.path().join("a.0.0").exists(), "nothing was begun");
}
