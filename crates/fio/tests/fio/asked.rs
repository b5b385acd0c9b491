//! What could break: the same work told as other work, by its spelling; other work told as the same.

use fio::{CommandLine, Machine, Sources, read_line};
use std::path::Path;

struct NoFiles;
impl Sources for NoFiles {
    fn text(&self, _: &Path) -> Result<String, String> {
        Err("there are no files".to_owned())
    }
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// What a job with these options is asked for.
#[track_caller]
fn of(options: &[&str]) -> Vec<(String, String)> {
    let usual = ["--name=x", "--size=1m"].iter().chain(options);
    let words: Vec<String> = usual.map(|word| (*word).to_owned()).collect();
    let machine = Machine { page_bytes: 4096, processors: 2, memory_mib: 1024 };
    let line = CommandLine::read(&words).expect("options");
    read_line(&line, &NoFiles, &machine, &[]).expect("a job").asked()
}

#[test]
fn what_matters_most_is_said_in_any_case_and_nothing_else_that_is_usual() {
    for mode in ["read", "randwrite", "randtrimwrite"] {
        let said = of(&[&format!("--rw={mode}")]);
        let said: Vec<String> =
            said.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let rw = format!("rw={mode}");
        let all =
            ["bs=4 KiB", "direct=0", "iodepth=1", "ioengine=psync", "numjobs=1", &rw, "size=1 MiB"];
        assert_eq!(said, all);
    }
}

/// Found by a newcomer: each of these was other work.
#[test]
fn the_same_work_is_the_same_however_it_is_spelt() {
    for (one, other) in [
        (vec!["--runtime=1"], vec!["--runtime=1s"]),
        (vec!["--runtime=1"], vec!["--timeout=1000ms"]),
        (vec!["--ramp_time=1m"], vec!["--ramp_time=60"]),
        (vec!["--bs=4096"], vec!["--blocksize=4k"]),
        (vec!["--rw=readwrite"], vec!["--rw=rw"]),
        (vec!["--rw=rw", "--rwmixread=70"], vec!["--rw=rw", "--rwmixwrite=30"]),
        (vec!["--rw=randread", "--bs=8k"], vec!["--rw=randread", "--bs=8k", "--ba=8k"]),
        (vec!["--time_based", "--runtime=2"], vec!["--time_based=true", "--runtime=2"]),
        (vec!["--direct=1"], vec!["--buffered=0"]),
        (vec!["--rate=1m"], vec!["--rate=1024k,1m"]),
        (vec!["--offset=1m"], vec!["--offset=1024*1024"]),
        (vec!["--random_distribution=zipf"], vec!["--random_distribution=zipf:1.10"]),
    ] {
        assert_eq!(of(&one), of(&other), "{one:?} and {other:?}");
        assert_ne!(of(&one), of(&["--iodepth=7"]));
    }
}

#[test]
fn what_changes_nothing_or_the_output_alone_is_not_said() {
    for option in [
        "--thread",
        "--group_reporting",
        "--loops=1",
        "--ramp_time=0",
        "--offset=0",
        "--offset_increment=0",
        "--norandommap=0",
        "--invalidate=1",
        "--fsync=0",
        "--refill_buffers=0",
        "--thinktime=0",
        "--percentile_list=50:99",
        "--gtod_reduce=1",
        "--write_bw_log=x",
        "--randrepeat=0",
        "--mem=mmap",
        "--description=x",
        "--unlink=1",
        "--kb_base=1024",
    ] {
        assert_eq!(of(&[option]), of(&[]), "{option}");
    }
}

#[test]
fn other_work_is_said() {
    for option in [
        "--runtime=2",
        "--loops=2",
        "--ramp_time=2",
        "--offset=4k",
        "--size=1048577",
        "--fsync=1",
        "--thinktime=1",
        "--rate_iops=10",
        "--rate=10k",
        "--blockalign=8k",
        "--bssplit=4k/50:8k/50",
        "--random_distribution=zipf:1.2",
        "--file_service_type=sequential",
        "--verify=crc32c",
        "--refill_buffers=1",
        "--continue_on_error=io",
        "--ignore_error=EIO",
        "--steadystate=iops:5%",
        "--zonemode=strided",
        "--percentage_random=50",
        "--stonewall",
    ] {
        let with: &[&str] = match option {
            "--steadystate=iops:5%" => &["--rw=randrw", "--ss_dur=10"],
            "--zonemode=strided" => &["--rw=randrw", "--zonesize=64k", "--zonerange=128k"],
            _ => &["--rw=randrw"],
        };
        let all = [with, &[option]].concat();
        assert_ne!(of(&all), of(&["--rw=randrw"]), "{option}");
        let name = option.trim_start_matches("--").split('=').next().unwrap_or_default();
        assert!(of(&all).iter().any(|(said, _)| said == name), "{option}: {:?}", of(&all));
    }
}
