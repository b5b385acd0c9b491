//! How much `spindle lab fio` does: I/Os and bytes of each direction, against those that fio 3.33 counted for the same options.
//!
//! What could break: a pass that is made again over files that are used up, or not where `io_size` asks for it; blocks beyond a size; a
//! step (`rw=write:16k`) that does not end where the file does; a share of a size or an offset that is rounded another way.

use std::path::Path;
use std::process::Command;

/// I/Os and bytes of reads and of writes, for each job, and what went wrong (`error`, `err=`).
type Counts = Vec<(i64, [(u64, u64); 2])>;

fn json(dir: &Path, words: &[&str]) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["lab", "fio", "--name=x", "--output-format=json"]).args(words).current_dir(dir);
    let output = command.output().expect("the program starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn counts(words: &str) -> Counts {
    let dir = tempfile::tempdir().expect("a directory");
    let file = std::fs::File::create(dir.path().join("f")).expect("made");
    file.set_len(4 << 20).expect("made larger");
    let json = json(dir.path(), &words.split(' ').collect::<Vec<_>>());
    let jobs = json["jobs"].as_array().expect("jobs");
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let of = |job: &serde_json::Value| {
        let way = |name: &str| (number(&job[name]["total_ios"]), number(&job[name]["io_bytes"]));
        (job["error"].as_i64().expect("a number"), ["read", "write"].map(way))
    };
    jobs.iter().map(of).collect()
}

/// Options, and the I/Os that fio made of one size: reads and writes of each job.
#[track_caller]
fn assert_ios(cases: &[(&str, u64, &[[u64; 2]])]) {
    for (words, block, jobs) in cases {
        let of = |ios: &[u64; 2]| (0, ios.map(|ios| (ios, ios * block)));
        assert_eq!(counts(words), jobs.iter().map(of).collect::<Counts>(), "{words}");
    }
}

const KIB: u64 = 1024;

#[test]
fn steps_end_where_those_of_fio_do() {
    fixtures::takes_long!();
    assert_ios(&[
        ("--rw=write:16k --size=16m --bs=4k", 4 * KIB, &[[0, 820]]),
        ("--rw=read:4 --size=16m --bs=4k", 4 * KIB, &[[4092, 0]]),
        ("--rw=read:1 --size=1m --bs=4k", 4 * KIB, &[[255, 0]]),
        ("--rw=read:16k --size=1m --bs=4k --offset=64k", 4 * KIB, &[[52, 0]]),
        ("--rw=read:12k --size=1m --bs=4k --offset=4m", 4 * KIB, &[[64, 0]]),
        ("--rw=read:-8k --size=1m --bs=4k --offset=64k", 4 * KIB, &[[256, 0]]),
        ("--rw=write:16k --size=1m --bs=4k --nrfiles=3", 4 * KIB, &[[0, 51]]),
        ("--rw=write:16k --size=1m --bs=4k --loops=3", 4 * KIB, &[[0, 156]]),
        ("--rw=write:16k --size=1m --bs=4k --io_size=3m", 4 * KIB, &[[0, 768]]),
        ("--rw=write:7k --size=1m --bs=4k --loops=3 --io_size=2m", 4 * KIB, &[[0, 558]]),
        ("--rw=write:16k --size=1m --bs=4k --verify=crc32c", 4 * KIB, &[[156, 156]]),
        ("--rw=write:-8k --size=1m --bs=4k --verify=crc32c --loops=2", 4 * KIB, &[[255, 512]]),
    ]);
}

#[test]
fn files_that_are_used_up_end_a_job_as_in_fio() {
    fixtures::takes_long!();
    assert_ios(&[
        ("--rw=randread --size=17m --bs=1m --nrfiles=5", KIB * KIB, &[[15, 0]]),
        ("--rw=randread --size=17m --bs=1m --nrfiles=5 --loops=2", KIB * KIB, &[[30, 0]]),
        ("--rw=randread --size=17m --bs=1m --nrfiles=5 --io_size=40m", KIB * KIB, &[[40, 0]]),
        ("--rw=randwrite --size=17m --bs=1m --nrfiles=5 --norandommap", KIB * KIB, &[[0, 17]]),
        ("--rw=read --size=17m --bs=4k --nrfiles=5", 4 * KIB, &[[4350, 0]]),
        ("--rw=read --size=1000k --bs=64k", 64 * KIB, &[[15, 0]]),
        (
            "--rw=read --size=1000k --bs=16k --nrfiles=3 --file_service_type=sequential",
            16 * KIB,
            &[[60, 0]],
        ),
        (
            "--rw=read --size=1000k --bs=16k --nrfiles=3 --file_service_type=zipf:1.2",
            16 * KIB,
            &[[63, 0]],
        ),
        ("--rw=read --size=100k --bs=64k --nrfiles=2", 64 * KIB, &[[0, 0]]),
        ("--rw=read --size=1m --bs=4k --loops=2 --io_size=5m", 4 * KIB, &[[1280, 0]]),
        ("--rw=write --size=1m --bs=4k --verify=crc32c --io_size=3m", 4 * KIB, &[[512, 512]]),
        ("--rw=write --size=1m --bs=4k --io_size=3m --do_verify=0", 4 * KIB, &[[0, 256]]),
        (
            "--rw=write --size=1m --bs=4k --io_size=3m --do_verify=0 --ioengine=libaio",
            4 * KIB,
            &[[0, 768]],
        ),
        // What is queued ends a pass at size=, what is not where the files end.
        (
            "--rw=write --size=2m --filesize=1m --bs=4k --nrfiles=3 --verify=crc32c --io_size=5m",
            4 * KIB,
            &[[768, 768]],
        ),
        (
            "--rw=write --size=2m --filesize=1m --bs=4k --nrfiles=3 --verify=crc32c --io_size=5m --ioengine=libaio",
            4 * KIB,
            &[[1024, 1024]],
        ),
    ]);
}

#[test]
fn shares_are_rounded_as_in_fio() {
    assert_ios(&[
        ("--rw=read --size=1000003 --bs=4k --io_size=33%", 4 * KIB, &[[81, 0]]),
        ("--filename=f --rw=read --bs=64k --offset=33%", 64 * KIB, &[[42, 0]]),
        ("--filename=f --rw=read --bs=4k --offset=33% --offset_align=1m", 4 * KIB, &[[512, 0]]),
        ("--filename=f --rw=read --bs=64k --size=33% --offset=70%", 64 * KIB, &[[19, 0]]),
        // The clones of a job count down.
        (
            "--filename=f --rw=read --bs=64k --offset_increment=20% --numjobs=3",
            64 * KIB,
            &[[64, 0], [38, 0], [51, 0]],
        ),
    ]);
}

/// Sizes that are no multiples of one another take room that others can't: never more than the size, and not much less.
#[test]
fn blocks_of_any_size_do_no_more_than_the_size() {
    let counted = counts("--rw=randread --size=16m --bsrange=512-16k --bs_unaligned");
    let (error, [(_, bytes), write]) = counted[0];
    // fio 3.33: 16387716.
    assert_eq!((error, write), (0, (0, 0)));
    assert!((15 << 20..16 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn a_total_of_syncs_is_of_fsync_alone() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a directory");
    for (words, fsyncs) in [
        (&["--rw=write", "--size=16m", "--bs=4k", "--fsync=5", "--fdatasync=7"][..], 819),
        (&["--rw=write", "--size=1m", "--bs=4k", "--fdatasync=7"], 0),
        (&["--rw=write", "--size=1m", "--bs=4k", "--fsync=5", "--disable_clat=1"], 51),
    ] {
        assert_eq!(json(dir.path(), words)["jobs"][0]["sync"]["total_ios"], fsyncs, "{words:?}");
    }
}

#[test]
fn a_job_that_reads_what_nobody_laid_out_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let read = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.args(["lab", "fio", "--name=x", "--size=1m", "--create_on_open=1"]);
        command.arg("--output-format=json").args(words).current_dir(dir.path());
        command.output().expect("the program starts")
    };
    let said = "x.0.0 has nothing to read at byte 0: with create_on_open=1 no file is laid out";
    for mode in ["--rw=read", "--rw=rw"] {
        let output = read(&[mode, "--rwmixread=100"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{mode}: {error}");
        // As fio's, which finds nothing there either.
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["jobs"][0]["error"], 5);
    }
    assert!(read(&["--rw=write"]).status.success());
    assert!(read(&["--rw=read"]).status.success(), "the file is there now");
}

/// What is not queued goes on past its size until its time is over, and then there is none left to read back; what is queued reads back
/// each pass.
#[test]
fn a_job_of_a_given_time_reads_back_what_fio_does() {
    fixtures::takes_long!();
    let write = "--rw=write --size=256k --bs=4k --verify=crc32c --time_based --runtime=300ms";
    let (error, [read, written]) = counts(write)[0];
    assert_eq!((error, read.0), (0, 0));
    assert!(written.0 > 0);
    let (error, [read, written]) = counts(&format!("{write} --ioengine=libaio"))[0];
    assert!(error == 0 && read.0 > 0 && read.0.abs_diff(written.0) <= 64, "{read:?} {written:?}");
    let (error, [read, written]) = counts(&write.replace("=write", "=randrw"))[0];
    let ratio = read.0 as f64 / written.0 as f64;
    assert!(error == 0 && (0.7..1.4).contains(&ratio), "as many reads as writes: {ratio}");
}

/// Counted by fio 3.33: thinking goes on beyond a job's end; the ramp's is seen at the next I/O, from which on the job's time runs, its
/// rates begin, and blocks are counted anew, but not of how many it thought.
#[test]
fn a_job_that_thinks_beyond_its_ramp_and_its_end_does_as_many_ios_as_fios() {
    fixtures::takes_long!();
    let job = "--rw=read --size=4m --bs=4k --time_based --runtime=800ms";
    for (words, ios) in [
        ("--thinktime=360ms --thinktime_blocks=1", 3),
        ("--ramp_time=400ms --thinktime=360ms --thinktime_blocks=1", 5),
        ("--ramp_time=400ms --rate_iops=1000 --thinktime=280ms --thinktime_blocks=280", 560),
    ] {
        let (error, [read, _]) = counts(&format!("{job} {words}"))[0];
        assert_eq!((error, read.0), (0, ios), "{words}");
    }
}

/// Found by a newcomer: a verification that never began ended well without a word.
#[test]
fn a_job_that_had_no_time_to_verify_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.args(["lab", "fio", "--name=x", "--rw=write", "--size=64k", "--verify=crc32c"]);
        let output = command.args(words.split(' ')).current_dir(dir.path()).output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{words}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let nothing = "job x: nothing of what it wrote was verified";
    assert!(said("--time_based --runtime=50ms").contains(nothing));
    assert!(!said("--runtime=10s").contains(nothing));
    assert!(!said("--time_based --runtime=50ms --verify_backlog=4").contains(nothing));
    assert!(!said("--time_based --runtime=50ms --do_verify=0").contains(nothing));
}

/// Groups as fio 3.33 has them. Found by a newcomer: the jobs of all files ran at once.
#[test]
fn job_files_are_run_one_after_another() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, jobs) in [("1", "[a]\n"), ("2", "[b]\n[c]\n"), ("3", "[d]\nnumjobs=2\n")] {
        let text = format!("[global]\nrw=write\nsize=64k\n{jobs}");
        std::fs::write(dir.path().join(name), text).expect("written");
    }
    let groups = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.args(["lab", "fio", "--output-format=json"]).args(words).current_dir(dir.path());
        let json: serde_json::Value =
            serde_json::from_slice(&command.output().expect("it starts").stdout).expect("JSON");
        let jobs = json["jobs"].as_array().expect("jobs").iter();
        jobs.map(|job| job["groupid"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(groups(&["1", "2", "3"]), [0, 1, 1, 2, 2]);
    let line = ["--name=x", "--rw=write", "--size=64k"];
    assert_eq!(groups(&[&line[..], &["1", "2"]].concat()), [0, 0, 1, 1]);
}

/// fio 3.33 reads all 256 blocks of 64 KiB; a map of blocks that aren't there ended the job at the first of them.
#[test]
fn random_places_of_a_device_that_is_smaller_than_the_size_are_all_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
    let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return eprintln!("skipped: no loop device can be had here");
    };
    let device = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let (filename, mut counted) = (format!("--filename={device}"), Vec::new());
    for seed in ["--seed=1", "--seed=2"] {
        let words = ["--rw=randread", "--bs=64k", "--size=20m", &filename, seed];
        counted.push(json(dir.path(), &words)["jobs"][0]["read"]["total_ios"].as_u64());
    }
    Command::new("losetup").arg("--detach").arg(&device).status().expect("it ends");
    assert_eq!(counted, [Some(256), Some(256)]);
}
