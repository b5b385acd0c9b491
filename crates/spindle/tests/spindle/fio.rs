//! `spindle lab fio` from the outside.
//!
//! What could break: a job file that fio runs and this does not; output that is no JSON; a device that is
//! written without leave; a refusal that names nothing.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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

/// fio's command line, without a job file of ours.
fn line(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["lab", "fio"]).args(words).current_dir(dir);
    command.output().expect("the program starts")
}

#[track_caller]
fn told(dir: &Path, words: &[&str]) -> serde_json::Value {
    let output = line(dir, &[words, &["--output-format=json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What could break: an option that goes to another job or to nobody, an option of ours that is taken for one of fio's, a job file
/// that is passed over.
#[test]
fn jobs_are_given_by_options_as_to_fio() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("t")).expect("made");
    let words = [
        "--bs=8k",
        "--directory",
        "t",
        "--repeats=1",
        "--name=w",
        "-rw=randwrite",
        "--iodepth=16",
        "--ioengine=libaio",
        "--size",
        "1m",
        "--seed",
        "5",
        "--norandommap",
        "--name=r",
        "--stonewall",
        "--rw=read",
        "--bs=4k",
        "--size=512k",
        "--filename=w.0.0",
    ];
    let json = told(dir.path(), &words);
    let jobs = json["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 2);
    assert_eq!((&jobs[0]["jobname"], &jobs[1]["jobname"]), (&"w".into(), &"r".into()));
    assert_eq!(jobs[0]["write"]["total_ios"], 128);
    assert_eq!(jobs[1]["read"]["total_ios"], 128);
    assert_eq!(json["global options"]["bs"], "8k");
    assert_eq!(jobs[0]["job options"]["iodepth"], "16");
    assert_eq!(std::fs::metadata(dir.path().join("t/w.0.0")).expect("there").len(), 1 << 20);

    // A job file beside them: its jobs come after, and begin with what holds for all.
    std::fs::write(dir.path().join("j.fio"), "[f]\nrw=write\nsize=64k\n").expect("written");
    let words = ["j.fio", "--directory=t", "--bs=16k", "--name=c", "--rw=write", "--size=32k"];
    let json = told(dir.path(), &words);
    assert_eq!(
        (&json["jobs"][0]["jobname"], &json["jobs"][1]["jobname"]),
        (&"c".into(), &"f".into())
    );
    assert_eq!(json["jobs"][1]["write"]["total_ios"], 4);
    let only = told(dir.path(), &[&words[..], &["--section=f"]].concat());
    assert_eq!(only["jobs"].as_array().map(Vec::len), Some(1));

    // One dash does for the program's own options, too.
    let words = ["-name=o", "-rw=read", "-size=64k", "-output-format=json", "-output", "o.json"];
    let output = line(dir.path(), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = std::fs::read(dir.path().join("o.json")).expect("there");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["jobs"][0]["jobname"], "o");
    let output = line(dir.path(), &["--version"]);
    assert!(text(&output.stdout).starts_with("spindle"), "{output:?}");

    // Time counts, and a report has the job as a file.
    let began = std::time::Instant::now();
    let words = [
        "--name=x",
        "--rw=randread",
        "--bs=4k",
        "--size=256k",
        "--runtime=1",
        "--time_based",
        "--eta=never",
    ];
    let output = line(dir.path(), &[&words[..], &["--minimal", "--out", "report"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(began.elapsed() >= std::time::Duration::from_secs(1));
    assert!(text(&output.stdout).starts_with("3;fio-"), "{}", text(&output.stdout));
    let report = std::fs::read_to_string(dir.path().join("report/results.json")).expect("there");
    assert!(
        report.contains("[x]\\nrw=randread\\nbs=4k\\nsize=256k\\nruntime=1\\ntime_based\\n"),
        "{report}"
    );
}

#[test]
fn what_a_command_line_says_wrongly_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = ["--name=a", "--rw=read"];
    for (words, said) in [
        (&["--iodpeth=4"][..], "command line: unknown option iodpeth; did you mean iodepth?"),
        (&["--repeets=4"], "command line: unknown option repeets; did you mean repeats?"),
        (&["--elephants"], "command line: unknown option elephants"),
        (&["--cpus_allowed=1"], "command line: option cpus_allowed is not supported"),
        (&["-o", "out.txt"], "-o of fio's program is not known: --output=FILE"),
        (&["--status-interval=1"], "--status-interval of fio's program is not known: what"),
        (&["--client", "host"], "--client of fio's program is not known: it runs here"),
        (&["--debug=io"], "--debug of fio's program is not known: --parse-only"),
        (&["-v"], "-v of fio's program is not known: spindle --version"),
        (&["--ioengine=rdma"], "command line: ioengine=rdma is not supported"),
        (&["--direct", "--size=1m"], "command line: --direct needs a value: --direct=VALUE"),
        (&["--bs=4q"], "command line: bs=4q: write a size"),
        (&["--direct=2", "--size=1m"], "command line: direct=2: write 0 or 1"),
        (&["--size=64k:1m"], "command line: size=64k:1m: write one size"),
        (&["--size=64k-1m"], "filesize=64k-1m"),
        (&["nope.fio"], "nope.fio: No such file"),
    ] {
        let output = line(dir.path(), &[&job, words].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.lines().count() == 1 && error.contains(said), "{words:?}: {error}");
    }
    let output = line(dir.path(), &["--rw=read", "--size=1m"]);
    assert!(text(&output.stderr).contains("begin a job with --name=NAME"), "{output:?}");
    assert_eq!(line(dir.path(), &[]).status.code(), Some(2));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0, "nothing was begun");
}

/// Runs jobs that standard input says.
fn piped(dir: &Path, job: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["lab", "fio"]).args(words).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(job.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_job_file_may_come_by_standard_input() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = "[piped]\nrw=write\nsize=64k\nbs=4k\n";
    for (at, name) in ["-", "/dev/stdin"].into_iter().enumerate() {
        let out = format!("--out=out{at}");
        let output = piped(dir.path(), job, &[name, "--output-format=json", &out]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["jobs"][0]["write"]["total_ios"], 16);
        // It is kept for the report, though a pipe is read once.
        let report = dir.path().join(format!("out{at}/results.json"));
        let report = std::fs::read_to_string(report).expect("written");
        assert!(report.contains("[piped]\\nrw=write"), "{report}");
        assert!(report.contains("fio: standard input"), "{report}");
    }
}

/// What could break: a file that a job may not make, and that is made; a look beforehand that finds nothing, or makes something.
#[test]
fn what_a_run_would_refuse_is_refused_by_a_look_beforehand() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("short"), "precious").expect("written");
    for (words, said) in [
        (
            &["--rw=read", "--size=1m", "--allow_file_create=0", "--filename=short"][..],
            "job x: short is not there or too short",
        ),
        (
            &["--rw=write", "--size=1m", "--allow_file_create=0"],
            "job x: x.0.0 is not there or too short",
        ),
        (
            &["--rw=trim", "--size=1m"],
            "job x: x.0.0 is a file, and trims go to block devices alone",
        ),
        (&["--rw=randtrimwrite", "--filename=short"], "short is a file, and trims"),
        (&["--rw=read"], "no size= is given"),
        (&["--rw=read", "--size=900t"], "its files take 900 TiB"),
        (&["--rw=read", "--filename=short", "--offset=1m"], "offset= lies beyond the end"),
    ] {
        for look in [&["--parse-only"][..], &[]] {
            let output = line(dir.path(), &[&["--name=x"], words, look].concat());
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
            assert!(error.lines().count() == 1 && error.contains(said), "{words:?}: {error}");
            assert!(look.is_empty() || output.stdout.is_empty(), "{output:?}");
        }
        assert_eq!(std::fs::read(dir.path().join("short")).expect("there"), b"precious");
        assert_eq!(dir.path().read_dir().expect("it lists").count(), 1, "{words:?}");
    }
    let nowhere = line(dir.path(), &["--name=x", "--directory=no", "--size=1m", "--parse-only"]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    // What another job makes before is no hindrance, and what is there may be used.
    let two = [
        "--name=w",
        "--rw=write",
        "--size=1m",
        "--filename=f",
        "--name=r",
        "--stonewall",
        "--rw=read",
        "--filename=f",
    ];
    let two = [&two[..], &["--allow_file_create=0"]].concat();
    let output = line(dir.path(), &[&two[..], &["--parse-only"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("r: group 1"), "{output:?}");
    assert!(!dir.path().join("f").exists());
    assert!(line(dir.path(), &two).status.success());
    let there = ["--name=x", "--rw=read", "--filename=f", "--size=1m", "--allow_file_create=0"];
    assert!(line(dir.path(), &there).status.success());
}

#[test]
fn a_base_of_sizes_counts_wherever_it_stands() {
    let dir = tempfile::tempdir().expect("a directory");
    let size = |words: &[&str]| {
        let told = told(dir.path(), words);
        told["jobs"][0]["write"]["io_bytes"].as_u64().expect("a number")
    };
    let job = ["--rw=write", "--bs=1k", "--size=10k"];
    for words in [
        [&["--name=x", "--kb_base=1000"], &job[..]].concat(),
        [&["--name=x"], &job[..], &["--kb_base=1000"]].concat(),
        [&["--kb_base=1000", "--name=x"], &job[..]].concat(),
        [&job[..], &["--kb_base=1000", "--name=x"]].concat(),
        [&job[..], &["--name=x", "--kb_base=1000"]].concat(),
    ] {
        assert_eq!(size(&words), 10_000, "{words:?}");
    }
}

/// What could break: repeats of whole milliseconds that look alike, with an interval of nothing.
#[test]
fn a_run_of_milliseconds_says_that_it_is_short() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = ["--name=x", "--rw=read", "--size=64k", "--bs=4k"];
    let output = line(dir.path(), &job);
    let error = text(&output.stderr);
    assert!(
        output.status.success() && error.contains("note: a short run: the figures are of"),
        "{error}"
    );
    assert!(error.contains("and 16 I/Os") && error.contains("runtime= with time_based"), "{error}");
    let output = line(dir.path(), &[&job[..], &["--repeats=4", "--out=out"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results = std::fs::read_to_string(dir.path().join("out/results.json")).expect("written");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let cell = &results["cells"][0];
    let pitfalls = cell["pitfalls"].as_array().expect("a list");
    assert!(pitfalls.iter().any(|found| found["id"] == "short-run"), "{pitfalls:?}");
    let iops = &cell["metrics"]["iops"];
    let ends = ["ci_low", "ci_high"].map(|end| iops[end].as_f64().expect("a number"));
    assert!(ends[0] < ends[1], "{iops}");
}

/// What could break: what is written, or lies beside what is read, counts as read.
#[test]
fn a_note_of_the_cache_counts_what_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let fits = "that are read fit into";
    let write = ["--name=w", "--rw=write", "--bs=64k", "--size=8m", "--filename=f"];
    let output = line(dir.path(), &write);
    assert!(output.status.success() && !text(&output.stderr).contains(fits), "{output:?}");
    let read = [
        "--name=w",
        "--rw=write",
        "--bs=64k",
        "--size=8m",
        "--filename=g",
        "--name=r",
        "--rw=read",
        "--bs=64k",
        "--offset=1m",
        "--size=2m",
        "--filename=f",
        // Else memory forgets the file before it is read.
        "--invalidate=0",
    ];
    let output = line(dir.path(), &read);
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("the 2 MiB that are read fit into"), "{told}");
}

/// What could break: a user's file that goes because what a job wants of it does not fit; a path that is looked for below another
/// root.
#[test]
fn a_file_that_was_there_outlives_a_job_that_does_not_fit() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data.bin");
    std::fs::write(&data, "precious").expect("written");
    let whole = format!("--filename={}", data.display());
    let below = format!("--directory={}", dir.path().display());
    for place in [&[whole.as_str()][..], &["--filename=data.bin", &below], &["--filename=data.bin"]]
    {
        for rw in ["--rw=read", "--rw=write"] {
            let words = [&["--name=x", rw, "--size=900t"], place].concat();
            let output = line(dir.path(), &words);
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
            assert!(error.contains("job x: its files take 900 TiB, and "), "{error}");
            if place.iter().any(|word| word.contains("=/")) {
                assert!(error.contains(&format!("where {} is to lie", data.display())), "{error}");
            }
            assert_eq!(std::fs::read_to_string(&data).expect("there"), "precious");
        }
    }
}

/// What could break: a repeat that takes another's place in the output.
#[test]
fn every_repeat_is_told_in_every_form_and_has_its_logs() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a directory");
    let job = ["--name=a", "--rw=write", "--size=64k", "--name=b", "--rw=read", "--size=64k"];
    let run = |more: &[&str]| {
        let output = line(dir.path(), &[&job, more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("there");
    run(&["--repeats=3", "--minimal", "--output=o.terse"]);
    assert_eq!(read("o.terse").lines().filter(|line| line.starts_with("3;fio-")).count(), 6);
    for form in ["json", "json+"] {
        run(&["--repeats=3", "--output=o.json", &format!("--output-format={form}")]);
        let told = run(&["--repeats=3", &format!("--output-format={form}")]);
        for told in [told, read("o.json")] {
            let json: serde_json::Value = serde_json::from_str(&told).expect("one document");
            let jobs = json["jobs"].as_array().expect("jobs");
            let of: Vec<_> =
                jobs.iter().map(|job| (job["repeat"].as_u64(), job["jobname"].as_str())).collect();
            let expected = [1, 2, 3].map(|n| [(Some(n), Some("a")), (Some(n), Some("b"))]).concat();
            assert_eq!(of, expected);
        }
    }
    run(&["--write_bw_log=l", "--repeats=2"]);
    // The log is of the job that names it.
    for repeat in [1, 2] {
        assert_eq!(read(&format!("l_bw.2.{repeat}.log")).lines().count(), 16);
    }
    run(&["--write_bw_log=once"]);
    assert_eq!(read("once_bw.2.log").lines().count(), 16);
}
