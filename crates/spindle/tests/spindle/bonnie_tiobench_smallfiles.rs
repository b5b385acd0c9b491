//! bonnie++, tiobench and the small files from the outside, on a directory of this host.
//!
//! What could break: a line whose fields move, a table without its phases, files left behind, a refusal
//! that does not name what is refused.

use fixtures::extent::by_extent;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lab(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spindle"))
        .arg("lab")
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("the program starts")
}

/// What it prints where it succeeds and leaves nothing behind.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let output = lab(dir.path(), arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let left = dir.path().read_dir().expect("it lists").count();
    assert_eq!(left, 0, "{arguments:?} left files behind");
    String::from_utf8(output.stdout).expect("text")
}

/// The one line that a refused call prints.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let output = lab(dir.path(), arguments);
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    errors
}

/// What could break: the time that a thread takes to get ready (an order of files that is shuffled) counted to what it then does.
#[test]
fn one_thread_takes_no_more_than_one_processor() {
    fixtures::takes_long!();
    // Two at the most: the thread, and what the program does beside it in so short a time.
    let text = printed(&["smallfiles", "-n", "1000", "-s", "512"]);
    let phases: Vec<(&str, f64)> = text
        .lines()
        .filter_map(|line| {
            let percent = line.split_whitespace().last()?.parse().ok()?;
            Some((line.split_whitespace().next()?, percent))
        })
        .collect();
    assert_eq!(phases.len(), 5, "{text}");
    assert!(phases.iter().all(|(_, percent)| *percent <= 110.0), "{phases:?}");
}

/// Found by a newcomer: what memory had been told to forget was said to be read from it.
#[test]
fn small_files_that_memory_forgot_are_not_said_to_be_read_from_it() {
    let noted = |cold: &[&str]| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let words = ["smallfiles", "-n", "40", "-s", "4k", "-t", "2"];
        let output = lab(dir.path(), &[&words[..], cold].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).contains("of memory through which they are read")
    };
    assert!(noted(&[]) && !noted(&["--cold"]));
}

#[test]
fn bonnie_prints_its_table_and_its_line() {
    fixtures::takes_long!();
    let text =
        printed(&["bonnie", "-d", ".", "-s", "4", "-r", "2", "-f1", "-n", "1:100", "-m", "here"]);
    assert!(text.contains("------Sequential Output------"), "{text}");
    assert!(text.contains("--------Random Create--------"), "{text}");
    let line = text.lines().last().expect("there is a line");
    assert!(line.starts_with("1.98,spindle-") && line.contains(",here,1,1,4M,,8192,5,"), "{line}");
    assert_eq!(line.split(',').count(), 50, "{line}");
}

#[test]
fn bonnie_repeats_by_its_own_letter_and_takes_its_content() {
    let options = ["-s", "2", "-r", "0", "-f", "-n", "0", "-z", "7", "--content", "as-bonnie"];
    let text = printed(&[&["bonnie", "-d", ".", "-x", "2"], &options[..]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "a header and two lines: {text}");
    assert!(lines[0].starts_with("format_version,bonnie_version,name,"), "{text}");
    assert!(lines[1..].iter().all(|line| line.split(',').nth(4) == Some("7")), "{text}");
}

#[test]
fn bonnie_refuses_by_name() {
    for (arguments, named) in [
        (&["-d", ".", "-s", "1", "-r", "1g"][..], "smaller than twice the memory (1 GiB)"),
        (&["-p", "3"], "-p and -y"),
        (&["-y"], "-p and -y"),
        (&["-Z", "x"], "-Z"),
        (&["-n", "1:-2"], "links (-2)"),
        (&["-d", ".", "-s", "4:3000", "-r", "0"], "power of two"),
        (&["-d", ".", "-s", "4", "-r", "0", "-D"], "leave those phases out with -f"),
        (&["-u", "4294967294"], "does not change who it runs as"),
    ] {
        let error = refused(&[&["bonnie"], arguments].concat());
        assert!(error.contains(named), "{arguments:?}: {error}");
    }
}

#[test]
fn tiobench_prints_a_table_for_each_phase() {
    let text = printed(&[
        "tiobench",
        "--target",
        ".",
        "--size",
        "2",
        "--threads",
        "1",
        "--threads",
        "2",
        "--random",
        "100",
        "--identifier",
        "here",
        "--flushCaches",
    ]);
    for title in ["Sequential Reads", "Random Reads", "Sequential Writes", "Random Writes"] {
        assert!(text.contains(&format!("\n{title}\n====")), "{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("here ")).count(), 8, "{text}");
    let units = [
        "tiobench",
        "-d",
        ".",
        "--size",
        "2m",
        "--block",
        "64k",
        "--threads",
        "1",
        "--random",
        "9",
    ];
    let text = printed(&units);
    assert!(text.contains(" 65536 ") || text.contains("64 KiB"), "{text}");
    for (words, said) in [
        (&["--dump"][..], "--dump of tiobench is not supported; --out DIR writes"),
        (&["--raw", "/dev/null"], "--raw of tiobench is not supported"),
        (&["--timeout", "5"], "--timeout of tiobench is not supported"),
        (&["--size", "1500k"], "write whole MiB"),
    ] {
        let error = refused(&[&["tiobench"], words].concat());
        assert!(error.contains(said), "{words:?}: {error}");
    }
    let error = refused(&["tiobench", "--size", "4", "--directio", "--block", "1000"]);
    assert!(error.contains("--directio moves whole sectors of 512 B"), "{error}");
    let error = refused(&["tiobench", "--size", "1", "--random", "1"]);
    assert!(error.contains("1 random operations are fewer than 2 threads"), "{error}");
}

#[test]
fn small_files_go_through_all_phases() {
    let files = ["smallfiles", "-n", "200", "-s", "1k:9k", "-t", "2", "--fsync", "--cold"];
    let text = printed(&files);
    let words: Vec<&str> = text.lines().skip(3).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(words, ["create", "stat", "read", "copy", "delete"], "{text}");
    assert!(refused(&["smallfiles", "-n", "0"]).contains("--files"));
}

/// Found by newcomers: a bare call began to write 47 GiB into whatever directory they were in.
#[test]
fn a_tool_that_writes_much_asks_where_and_says_how_much() {
    for (tool, option) in [("bonnie", "-d DIR"), ("tiobench", "--target DIR")] {
        let error = refused(&[tool]);
        assert!(error.contains("it would write") && error.contains("GiB"), "{error}");
        assert!(error.contains(option), "{error}");
    }
    // Whatever is wrong with the size: where is asked first.
    for size in [&["-s", "1g"][..], &["-s", "1", "-r", "1g"]] {
        let error = refused(&[&["bonnie"], size].concat());
        assert!(error.contains("name the directory to write to with -d DIR"), "{error}");
    }
    // A petabyte is more than half of what is free anywhere.
    let error = refused(&["bonnie", "-d", ".", "-s", "1024t:1m", "-r", "0", "-n", "0", "-f"]);
    assert!(error.contains("no more than half") && error.contains("-s SIZE"), "{error}");
    let error = refused(&["tiobench", "--target", ".", "--size", "1073741824", "--threads", "1"]);
    assert!(error.contains("no more than half") && error.contains("--size MIB"), "{error}");
}

/// What could break: a tool that fills the file system and says so only then.
#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    for (arguments, status) in [
        (&["filebench", "videoserver", "--dir", "."][..], 1),
        (&["smallfiles", "-n", "1000000", "-s", "1g"], 2),
        (&["probe", "dd", "if=/dev/zero", "of=big", "bs=1M", "count=900000000"], 2),
    ] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let output = lab(dir.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(" are free; "), "{arguments:?}: {errors}");
        assert_eq!(dir.path().read_dir().expect("it lists").count(), 0, "{arguments:?}");
    }
}

#[test]
fn a_run_that_ends_sooner_than_asked_for_says_why() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let sizes = ["--set", "nfiles=60", "--set", "filesize=16k"];
    let run = ["filebench", "fileserver", "--dir", ".", "--run", "5", "--clean"];
    let output = lab(dir.path(), &[&run[..], &sizes].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("note: the run stopped early, after "), "{errors}");
}

fn started(dir: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.arg("lab").args(arguments).current_dir(dir).env_remove("SPINDLE_DEVICES");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Sends so many signals at once; what it said, and how long it took from there.
fn interrupted(child: Child, times: usize) -> (Output, Duration) {
    let id = child.id().to_string();
    let begun = Instant::now();
    for _ in 0..times {
        assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    }
    (child.wait_with_output().expect("it ends"), begun.elapsed())
}

/// What could break: a probe that rests to its end, and one that two signals at once (a terminal's and a wrapper's) end before it
/// has said or removed anything.
#[test]
fn a_probe_that_rests_hears_ctrl_c_at_once_however_often_it_is_sent() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let child = started(dir.path(), &["probe", "hdparm", "--dir", ".", "--size", "4m"]);
    let made = dir.path().join("spindle-probe.tst");
    let until = Instant::now() + Duration::from_secs(60);
    while !made.metadata().is_ok_and(|made| made.len() == 4 << 20) {
        assert!(Instant::now() < until, "it makes its file");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (output, time) = interrupted(child, 2);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("interrupted: there is no result"), "{errors}");
    assert!(!errors.contains("it leaves"), "{errors}");
    assert!(!made.exists(), "its file is removed");
    assert!(time < Duration::from_millis(2500), "{time:?} of three seconds that it rests");
}

/// What could break: a tool in a simulation that looks at a flag which nobody raises.
#[test]
fn a_tool_on_a_simulated_file_system_hears_ctrl_c() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let study = "title = \"t\"\nquestion = \"q?\"\nrepeats = 1\n[machine]\nkind = \"simulated\"\n\
         host = \"opteron-2008\"\ndisk = \"st3750640as\"\ndisks = 1\nfilesystem = \"xfs\"\n\
         page_cache = \"64m\"\n[layouts.disk]\nlevel = \"disk\"\n[[factor]]\nname = \"layout\"\n\
         levels = [\"disk\"]\n[[workload]]\nname = \"b\"\nkind = \"bonnie\"\nsize = \"200g\"\nfiles = \"0\"\n";
    std::fs::write(dir.path().join("s.toml"), study).expect("written");
    let mut child = started(dir.path(), &["run", "s.toml"]);
    std::thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().expect("it can be asked").is_none(), "its cell takes minutes");
    let (output, time) = interrupted(child, 1);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("interrupted after 0 of 1 runs"), "{errors}");
    assert!(time < Duration::from_secs(15), "{time:?}");
}

/// What could break: a verdict of one number that does not say what it is of, and phases that stand in the alphabet's order or nowhere.
#[test]
fn a_verdict_on_tools_says_what_it_measures_and_tells_the_phases_one_by_one() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let study = "title = \"t\"\nquestion = \"q?\"\nrepeats = 2\n[machine]\nkind = \"simulated\"\n\
         host = \"opteron-2008\"\ndisk = \"st3750640as\"\ndisks = 4\nfilesystem = \"xfs\"\n\
         page_cache = \"16m\"\n[layouts]\none = { level = \"disk\" }\nfour = { level = \"raid0\", disks = 4 }\n\
         [[factor]]\nname = \"layout\"\nlevels = [\"one\", \"four\"]\n\
         [[workload]]\nname = \"large\"\nkind = \"bonnie\"\nsize = \"64m\"\nbytes = \"0\"\nfiles = \"0\"\n\
         [[workload]]\nname = \"many\"\nkind = \"bonnie\"\nsize = \"0\"\nfiles = \"1\"\n\
         [[workload]]\nname = \"mail\"\nkind = \"smallfiles\"\nfiles = 60\n[verdict]\nby = \"layout\"\n";
    std::fs::write(dir.path().join("s.toml"), study).expect("written");
    let output = lab(dir.path(), &["run", "s.toml"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let flat: Vec<&str> = text.split_whitespace().collect();
    let flat = flat.join(" ");
    let in_order = |text: &str, words: &[&str]| {
        let mut rest = text;
        for word in words {
            let at = rest.find(word).unwrap_or_else(|| panic!("no '{word}' there in {text}"));
            rest = &rest[at + word.len()..];
        }
    };
    let verdict = flat.split("Verdict").nth(1).expect("a verdict");
    in_order(
        verdict,
        &[
            "For large, ",
            "That is what the phases output block, rewrite and input block moved, over their time together; more is better.",
            "The best of each phase: output block: four (",
            "; rewrite: ",
            "; input block: four (",
            "; random seeks: ",
            "For many, ",
            "That is the files of the phases",
            "sequential create: ",
            "; random delete: ",
            "For mail, ",
            "create: ",
            "; stat: ",
            "; read: ",
            "; copy: ",
            "; delete: ",
        ],
    );
    assert!(!verdict.contains("no figures"), "{verdict}");
    let large = flat.split("Large layout ").nth(1).expect("a table of its own");
    in_order(large, &["output block", "rewrite", "input block", "random seeks"]);
    let mail = flat.split("Mail layout ").nth(1).expect("a table of its own");
    in_order(mail, &["create", "stat", "read", "copy", "delete"]);
}

/// What could break: a simulated disk that gives up a stream for each block that it may write back later, and a file system that
/// reads less ahead than one stripe. Four disks then rewrite little faster than one, or slower.
#[test]
fn bonnie_rewrites_faster_on_more_simulated_disks() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let layouts =
        by_extent(&["disk", "raid0-4"][..], &["disk", "raid0-2", "raid0-3", "raid0-4"][..]);
    let sets: String = (2..=4)
        .map(|disks| format!("[layouts.raid0-{disks}]\nlevel = \"raid0\"\ndisks = {disks}\n"))
        .collect();
    let study = format!(
        "title = \"t\"\nquestion = \"q?\"\nrepeats = 1\n[machine]\nkind = \"simulated\"\nhost = \"epyc-2024\"\n\
         disk = \"wd1002fbys\"\ndisks = 4\nfilesystem = \"xfs\"\npage_cache = \"128m\"\n\
         [layouts.disk]\nlevel = \"disk\"\n{sets}[[factor]]\nname = \"layout\"\nlevels = {layouts:?}\n\
         [[workload]]\nname = \"b\"\nkind = \"bonnie\"\nsize = \"512m\"\nbytes = 0\nfiles = \"0\"\n"
    );
    std::fs::write(dir.path().join("s.toml"), study).expect("written");
    let output = lab(dir.path(), &["run", "s.toml", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cells = results["cells"].as_array().expect("cells");
    let rewrite = |layout: &&str| {
        let cell = cells.iter().find(|cell| cell["factors"]["layout"] == *layout).expect(layout);
        cell["metrics"]["rewrite_throughput_mb_s"]["mean"].as_f64().expect("a rate")
    };
    let rates: Vec<f64> = layouts.iter().map(rewrite).collect();
    assert!(rates.windows(2).all(|two| two[1] > 1.15 * two[0]), "{rates:?}");
    assert!(rates[rates.len() - 1] > 2.5 * rates[0], "{rates:?}");
}

/// What could break: an error in a late repeat that takes those before it along.
#[test]
fn repeats_that_are_done_outlive_an_error_in_a_later_one() {
    fixtures::takes_long!();
    for (tool, words) in [
        ("smallfiles", &["-n", "300", "-s", "1k", "-d", "work"][..]),
        ("tiobench", &["--size", "2", "--threads", "1", "--random", "50", "-d", "work"]),
        ("bonnie", &["-s", "4", "-r", "0", "-n", "0", "-f", "-d", "work"]),
    ] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let work = dir.path().join("work");
        std::fs::create_dir(&work).expect("made");
        let mut child = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(["lab", tool])
            .args(words)
            .args(["--repeats", "1000", "--out", "out"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // The first that it prints is of a repeat that is done.
        let mut first = [0];
        let stdout = child.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(stdout, &mut first).expect("a repeat is told");
        std::fs::rename(&work, dir.path().join("gone")).expect("renamed");
        let output = child.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{tool}: {errors}");
        let results = std::fs::read(dir.path().join("out/results.json")).expect(tool);
        let results: serde_json::Value = serde_json::from_slice(&results).expect("JSON");
        let done = results["partial"]["done"].as_u64().expect("partial");
        assert!(done >= 1 && results["partial"]["total"] == 1000, "{tool}: {results}");
        let told = format!("repeat {} of 1000 came to no end", done + 1);
        assert!(errors.lines().any(|line| line.contains(&told)), "{tool}: {errors}");
    }
}

#[test]
fn a_report_is_written_where_nothing_can_be_printed() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (at, words) in [
        &["smallfiles", "-n", "20", "--repeats", "2"][..],
        &["bonnie", "-s", "1", "-r", "0", "-n", "0", "-d", "."],
        &["tiobench", "--size", "1", "--threads", "1", "--random", "10", "-d", "."],
        &["fio", "--name=a", "--rw=write", "--size=64k"],
        &["fio", "--name=a", "--rw=write", "--size=64k", "--output=/dev/full"],
    ]
    .into_iter()
    .enumerate()
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let out = format!("out{at}");
        let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .arg("lab")
            .args(words)
            .args(["--out", &out])
            .current_dir(dir.path())
            .stdout(full)
            .output()
            .expect("the program starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
        assert!(errors.contains("No space left on device"), "{words:?}: {errors}");
        assert!(dir.path().join(&out).join("results.json").is_file(), "{words:?}: {errors}");
    }
}

#[test]
fn figures_of_fio_are_printed_where_the_file_does_not_take_them() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["lab", "fio", "--name=a", "--rw=write", "--size=64k"])
        .args(["--output-format=json", "--output=/dev/full"])
        .current_dir(dir.path())
        .output()
        .expect("the program starts");
    let (told, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("writing /dev/full: No space left on device"), "{errors}");
    assert!(told.contains("\"total_ios\": 16"), "{told}");
}

#[test]
fn a_folder_takes_the_report_of_one_run_at_a_time() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let words = ["fio", "--name=long", "--rw=read", "--size=64k", "--time_based", "--out=same"];
    let mut first = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .arg("lab")
        .args(words)
        .arg("--runtime=3")
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let begun = dir.path().join("long.0.0");
    let until = Instant::now() + Duration::from_secs(20);
    while !begun.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    for force in [&[][..], &["--force"]] {
        let short = [&["smallfiles", "-n", "10", "--out", "same"], force].concat();
        let output = lab(dir.path(), &short);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("same: another run that is under way writes"), "{errors}");
    }
    assert!(first.wait().expect("it ends").success());
    let results = std::fs::read_to_string(dir.path().join("same/results.json")).expect("written");
    assert!(results.contains("fio: long"), "{results}");
    // A run that comes to nothing leaves no folder.
    let output = lab(dir.path(), &["fio", "--name=a", "--rw=read", "--out=none/here"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!dir.path().join("none").exists());
}
