//! A database's sessions on a simulated host: what they ask for, and what of its processor they take.
//!
//! What could break: writers that write blocks which they never read (twice the updates that a database makes),
//! sessions that cost nothing or all take turns on one core, threads of a core that are as good as cores, a use of the
//! processor that counts cores where an operating system counts threads.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Memory behind a fast link: the processor is the limit.
const STUDY: &str = r#"
title = "Sessions"
question = "What do they take?"
repeats = 1
[steady]
round = "500ms"
window = 2
rounds_max = 3
[machine]
kind = "simulated"
host = "HOST"
disk = "zfs-7320-dram"
disks = 1
[[workload]]
name = "sessions"
kind = "slob"
readers = 0
working_set = "1g"
"#;

fn run(dir: &Path, study: &str) -> Output {
    std::fs::write(dir.join("s.toml"), study).expect("the study is written");
    Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["lab", "run", "s.toml", "--format", "json", "--force"])
        .current_dir(dir)
        .env_remove("SPINDLE_DEVICES")
        .output()
        .expect("the program starts")
}

/// Figures of the one cell of a study.
struct Figures(Value);

impl Figures {
    #[track_caller]
    fn of(host: &str, sessions: &str) -> Figures {
        let dir = tempfile::tempdir().expect("a folder");
        let output = run(dir.path(), &STUDY.replace("HOST", host).replace("readers = 0", sessions));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        Figures(results["cells"][0]["metrics"].clone())
    }

    #[track_caller]
    fn get(&self, metric: &str) -> f64 {
        self.0[metric]["mean"].as_f64().unwrap_or_else(|| panic!("no {metric}: {}", self.0))
    }
}

#[test]
fn a_writer_reads_each_block_before_it_writes_it() {
    let figures = Figures::of("opteron-2008", "writers = 3");
    let (reads, writes) = (figures.get("read_iops"), figures.get("write_iops"));
    assert!(
        writes > 1000.0 && (reads / writes - 1.0).abs() < 0.01,
        "{reads} reads, {writes} writes"
    );
    let mixed = Figures::of("opteron-2008", "readers = 3\nwriters = 3");
    assert!(mixed.get("read_iops") > 2.0 * mixed.get("write_iops"));
}

#[test]
fn sessions_run_side_by_side_on_as_many_cores_as_there_are() {
    // Four cores; each read costs its session 1 ms of one, and the system 12 µs.
    let figures = Figures::of("opteron-2008", "readers = 32\nprocessor_time = \"1ms\"");
    let (reads, used) = (figures.get("iops"), figures.get("processor_share"));
    assert!((reads / (4.0 / 1012e-6) - 1.0).abs() < 0.01, "{reads}");
    assert!((0.99..1.01).contains(&used), "{used}");
    let alone = Figures::of("opteron-2008", "readers = 1\nprocessor_time = \"1ms\"");
    assert!(
        (0.20..0.25).contains(&alone.get("processor_share")),
        "one core of four, less its waits"
    );
}

#[test]
fn threads_of_a_core_share_it_and_count_as_processors() {
    // Four cores of eight threads, which gain a core 2.8.
    let figures = Figures::of("sparc-t4-4core", "readers = 64\nprocessor_time = \"990us\"");
    let (reads, used) = (figures.get("iops"), figures.get("processor_share"));
    assert!((reads / (4.0 * 2.8 * 1e3) - 1.0).abs() < 0.03, "{reads}");
    assert!((0.99..1.01).contains(&used), "{used}");
    assert!((31.5..32.5).contains(&figures.get("processor_cores_busy")));
    // Half as many sessions as threads fill half of them, and do more than half of it.
    let half = Figures::of("sparc-t4-4core", "readers = 16\nprocessor_time = \"990us\"");
    assert!((0.45..0.51).contains(&half.get("processor_share")), "{}", half.0);
    assert!(half.get("iops") > 0.6 * reads, "{}", half.get("iops"));
}

#[test]
fn a_session_whose_time_a_real_host_would_measure_is_refused_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let study = r#"
title = "Sessions"
question = "What do they take?"
repeats = 1
[machine]
kind = "host"
directory = "."
file_size = "8m"
[[workload]]
name = "sessions"
kind = "slob"
processor_time = "85us"
"#;
    let output = run(dir.path(), study);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("processor_time"), "{errors}");
    assert_eq!(errors.trim().lines().count(), 1, "{errors}");
}

#[test]
fn what_was_published_of_ufs_on_a_t4_comes_out_but_for_its_reads_which_come_near() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["lab", "run", "asm-zfs-ufs", "--format", "json", "--set", "repeats=1"])
        .args(["--set", "steady.round=100ms", "--only", "layout=volume,*partition_offset=0/*"])
        .current_dir(dir.path())
        .env_remove("SPINDLE_DEVICES")
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let claims = results["claims"].as_array().expect("claims");
    for id in
        ["ufs-writes", "asm-over-ufs-reads", "asm-over-ufs-writes", "ufs-bound", "records-of-128k"]
    {
        let claim = claims.iter().find(|claim| claim["id"] == id).expect(id);
        assert_eq!(claim["reproduced"], true, "{claim}");
    }
    let cells = results["cells"].as_array().expect("cells");
    let reads = |files: &str| {
        let is = |cell: &&Value| cell["workload"] == "read" && cell["factors"]["files"] == files;
        let cell = cells.iter().find(is).unwrap_or_else(|| panic!("no read of {files}"));
        cell["metrics"]["iops"]["mean"].as_f64().expect("a rate")
    };
    // Published: 97 845 by ASM, 41 320.
    assert!((0.95..1.05).contains(&(reads("none") / 97_845.0)), "{}", reads("none"));
    assert!(
        (0.85..1.15).contains(&(reads("ufs-directio") / 41_320.0)),
        "{}",
        reads("ufs-directio")
    );
}
