//! The field's tools on a directory of this host, ended before their end, and where there is no room.
//!
//! What could break: minutes of silence while a million files are removed; what others made meanwhile named as the tool's; files of
//! which there are more than inodes; a repeat that came to no end among those that did; work that is done and lost with what is not.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// When what is waited for does not come any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two signals that lie further apart are two wishes.
const TWO_WISHES: Duration = Duration::from_millis(1100);

/// A tool under way, and what it says.
struct Started {
    child: Child,
    errors: BufReader<ChildStderr>,
    said: String,
}

impl Started {
    fn tool(dir: &Path, words: &[&str]) -> Started {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.arg("lab").args(words).current_dir(dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        Started { child, errors, said: String::new() }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().expect("kill");
        assert!(sent.success(), "{name}");
    }

    /// Reads what it says up to a line that has this in it.
    #[track_caller]
    fn until_it_says(&mut self, words: &str) {
        loop {
            let before = self.said.len();
            let read = self.errors.read_line(&mut self.said).expect("text");
            assert!(read > 0, "it never said '{words}': {}", self.said);
            if self.said[before..].contains(words) {
                return;
            }
        }
    }

    /// What it said, what it printed, and its exit status.
    fn ended(mut self) -> (String, String, Option<i32>) {
        self.errors.read_to_string(&mut self.said).expect("text");
        let output = self.child.wait_with_output().expect("it ends");
        let printed = String::from_utf8(output.stdout).expect("text");
        (self.said, printed, output.status.code())
    }
}

#[track_caller]
fn waited_for(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn count(dir: &Path) -> usize {
    dir.read_dir().map_or(0, |entries| entries.count())
}

/// The folder that a tool made, by the beginning of its name.
fn made(dir: &Path, begins: &str) -> Option<PathBuf> {
    let entries = dir.read_dir().ok()?.flatten();
    let mut names = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(begins));
    names.next().map(|entry| entry.path())
}

#[test]
fn many_files_are_removed_with_words_and_left_where_it_is_asked_again() {
    fixtures::takes_long!();
    // To be asked again while it removes them it must have many.
    for (again, files) in [(false, 1000), (true, 20_000)] {
        let dir = tempfile::tempdir().expect("a folder");
        let words = ["smallfiles", "-n", "100000", "-s", "1", "--dirs", "1"];
        let mut tool = Started::tool(dir.path(), &words);
        waited_for(|| {
            made(dir.path(), "smallfiles.").is_some_and(|made| count(&made.join("000000")) >= files)
        });
        // Somebody else's, which it must not name.
        std::fs::write(dir.path().join("others"), "x").expect("written");
        let folder = made(dir.path(), "smallfiles.").expect("it is there");
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        tool.signal("-INT");
        tool.until_it_says("Ctrl-C again, a second later or more, ends it at once and leaves ");
        assert!(
            tool.said.lines().last().is_some_and(|line| line.ends_with(&name)),
            "{}",
            tool.said
        );
        tool.until_it_says("removing ");
        let line = tool.said.lines().last().expect("a line").to_owned();
        let number: usize = line.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
        assert!(number >= files && line.contains(" files of ") && line.ends_with(&name), "{line}");
        if again {
            // It stands still meanwhile, so that it is not done before it is asked again.
            tool.signal("-STOP");
            std::thread::sleep(TWO_WISHES);
            tool.signal("-INT");
            tool.signal("-CONT");
        }
        let (said, _, status) = tool.ended();
        assert_eq!(status, Some(130), "{said}");
        assert!(!said.contains("others"), "{said}");
        let last = said.lines().last().expect("a line");
        match again {
            true => {
                assert!(last.contains("interrupted twice: ended at once"), "{said}");
                assert!(last.contains("it leaves ") && last.ends_with(&name), "{said}");
                assert!(folder.join("000000").is_dir());
            }
            false => {
                assert!(last.contains("there is no result") && !last.contains("leaves"), "{said}");
                assert!(last.contains("as a study can by --resume: run it anew"), "{said}");
                assert!(!folder.exists());
            }
        }
    }
}

#[test]
fn small_files_of_bonnie_are_removed_with_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let words = ["bonnie", "-d", ".", "-s", "0", "-n", "64:100:100", "-q"];
    let mut tool = Started::tool(dir.path(), &words);
    waited_for(|| made(dir.path(), "Bonnie.").is_some_and(|made| count(&made) >= 500));
    tool.signal("-INT");
    tool.until_it_says("removing ");
    let (said, _, status) = tool.ended();
    assert_eq!(status, Some(130), "{said}");
    assert_eq!(count(dir.path()), 0, "{said}");
}

#[test]
fn a_repeat_that_came_to_no_end_is_not_told_among_the_others() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a folder");
    let words = [
        "fio",
        "--name=a",
        "--rw=read",
        "--size=64k",
        "--time_based",
        "--runtime=2",
        "--repeats=3",
    ];
    let words = [&words[..], &["--output-format=json,terse", "--out=report"]].concat();
    let mut tool = Started::tool(dir.path(), &words);
    let mut first = [0];
    // The terse line of the first repeat.
    tool.child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("a repeat is told");
    std::thread::sleep(Duration::from_millis(300));
    tool.signal("-INT");
    let (said, printed, status) = tool.ended();
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("interrupted after 1 of 3 repeats"), "{said}");
    assert!(said.contains("what was under way is left out"), "{said}");
    let (terse, json) = printed.split_once('\n').expect("a line, and a document");
    assert!(!terse.is_empty() && !terse.contains('{'), "{printed}");
    let json: serde_json::Value = serde_json::from_str(json).expect("one document");
    let repeats: Vec<_> =
        json["jobs"].as_array().expect("jobs").iter().map(|job| &job["repeat"]).collect();
    assert_eq!(repeats, [1]);
    // The figures of that one are whole; those of all are not there.
    assert!(json.get("interrupted").is_none());
    assert_eq!(json["partial"], true);

    // Where it is all that there is, it is told, and what it is.
    let words = [
        "fio",
        "--name=a",
        "--rw=read",
        "--size=64k",
        "--time_based",
        "--runtime=60",
        "--output-format=json",
    ];
    let tool = Started::tool(dir.path(), &words);
    std::thread::sleep(Duration::from_millis(1500));
    tool.signal("-INT");
    let (said, printed, status) = tool.ended();
    assert_eq!(status, Some(130), "{said}");
    let json: serde_json::Value = serde_json::from_str(&printed).expect("one document");
    assert_eq!(json["interrupted"], true, "{said}");
    assert!(json.get("partial").is_none(), "there are no repeats");
}

/// What a script does that mounts where nobody else sees it; nothing where that can't be, or it ends with 77.
fn with_mounts_of_its_own(script: &str) -> Option<Output> {
    let output = Command::new("unshare").args(["-rm", "sh", "-c", script]).output();
    let output = output.ok().filter(|output| output.status.code() != Some(77))?;
    let refused = String::from_utf8_lossy(&output.stderr).contains("unshare");
    (!refused).then_some(output)
}

/// Runs a tool in a file system of few inodes of its own; nothing where none can be mounted.
fn in_few_inodes(size: &str, words: &str) -> Option<Output> {
    let dir = tempfile::tempdir().expect("a folder");
    let program = env!("CARGO_BIN_EXE_spindle");
    let script = format!(
        "mount -t tmpfs -o size={size},nr_inodes=300 few {at} || exit 77; cd {at} && exec {program} lab {words}",
        at = dir.path().display()
    );
    with_mounts_of_its_own(&script)
}

#[test]
fn files_without_inodes_are_refused_and_named_where_they_run_out() {
    fixtures::takes_long!();
    let Some(output) = in_few_inodes("64m", "smallfiles -n 500 -s 1") else {
        println!("skipped: nothing can be mounted");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("1006 files and directories are to be made") && said.contains("inodes"),
        "{said}"
    );
    let output = in_few_inodes("64m", "bonnie -d . -s 0 -n 1").expect("as before");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("1025 files and directories are to be made"), "{said}");
    // Blocks, of which each file takes one, and there are 256.
    let output = in_few_inodes("1m", "smallfiles -n 140 -s 1").expect("as before");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("whole blocks of 4 KiB"), "{said}");
    // What nobody counts before runs out while it runs.
    let job = "fio --name=a --rw=write --bs=4k --size=4m --nrfiles=1000";
    let output = in_few_inodes("64m", job).expect("as before");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no inodes left") && said.contains("df -i"), "{said}");
}

/// What a report in this folder says of how much is done, and the names of its figures.
fn kept(report: &Path) -> (serde_json::Value, Vec<String>) {
    let text = std::fs::read_to_string(report.join("results.json")).expect("a result");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let metrics = json["cells"][0]["metrics"].as_object().expect("figures").keys().cloned();
    (json["partial"].clone(), metrics.collect())
}

#[test]
fn cases_of_tiobench_that_are_done_are_told_and_kept() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let words = ["tiobench", "--target", ".", "--size", "4", "--threads", "1", "--random", "20"];
    let more = ["--threads", "2", "--numruns", "1", "--size", "1024", "--out", "report"];
    let mut started = Started::tool(dir.path(), &[&words[..], &more].concat());
    // Cases of 4 MiB come first, and are short; the file of the next is not written before the signal comes.
    started.until_it_says("1024 MiB");
    started.signal("-INT");
    let (said, printed, status) = started.ended();
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("2 of 4 cases of the first run are done, and told:"), "{said}");
    let rows = printed.lines().filter(|line| line.contains(" 4     4096    "));
    assert_eq!(rows.count(), 8, "{printed}");
    let last = said.lines().last().expect("a line");
    assert!(last.contains("interrupted after 2 of 4 cases of the first run: the result"), "{said}");
    assert_eq!(count(dir.path()), 1, "{said}");
    let (partial, metrics) = kept(&dir.path().join("report"));
    assert_eq!(partial, serde_json::json!({"done": 2, "total": 4, "of": "cases"}));
    assert!(metrics.contains(&"4_mib_2_threads_read_iops".to_owned()), "{metrics:?}");
    assert!(!metrics.iter().any(|name| name.starts_with("1024")), "{metrics:?}");
    let page = std::fs::read_to_string(dir.path().join("report/report.html")).expect("a report");
    assert!(page.contains("2 of 4 cases of the first run are done"));
    assert!(page.contains("This is a part of the run, 2 of 4 cases of the first run: "), "{page}");
}

#[test]
fn phases_that_are_done_are_told_and_kept() {
    fixtures::takes_long!();
    for (words, until, done, total, told, not) in [
        (
            // A byte at a time takes its time on any disk.
            &["smallfiles", "-n", "20", "-s", "32k", "--block", "1"][..],
            "copy ...",
            3,
            5,
            ("create", "create_ops_per_s"),
            ("copy", "copy_ops_per_s"),
        ),
        (
            &["bonnie", "-d", ".", "-s", "4", "-r", "0", "-f", "2", "-n", "0"],
            "Reading a byte at a time...",
            3,
            6,
            ("Sequential Output", "rewrite_throughput_mb_s"),
            ("1.98", "getc_throughput_mb_s"),
        ),
    ] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let more = ["--out", "report", "--repeats", "2"];
        let mut tool = Started::tool(dir.path(), &[words, &more].concat());
        tool.until_it_says(until);
        tool.signal("-INT");
        let (said, printed, status) = tool.ended();
        assert_eq!(status, Some(130), "{said}");
        let phases = format!("{done} of {total} phases of the first run");
        assert!(said.contains(&format!("{phases} are done, and told:")), "{said}");
        let last = said.lines().last().expect("a line");
        assert!(last.contains(&format!("interrupted after {phases}: ")), "{said}");
        let begins = |word: &str| printed.lines().any(|line| line.starts_with(word));
        assert!(printed.contains(told.0) && !begins(not.0), "{printed}");
        assert!(!printed.contains("MEASURED"), "{printed}");
        assert_eq!(count(dir.path()), 1, "{said}");
        let (partial, metrics) = kept(&dir.path().join("report"));
        assert_eq!(partial, serde_json::json!({"done": done, "total": total, "of": "phases"}));
        assert!(metrics.iter().any(|name| name == told.1), "{metrics:?}");
        assert!(!metrics.iter().any(|name| name == not.1), "{metrics:?}");
    }
}

/// A figure over all phases is another one where some are missing.
#[test]
fn a_part_of_a_tool_is_compared_phase_by_phase() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let words = ["smallfiles", "-n", "20", "-s", "32k", "--block"];
    let mut tool = Started::tool(dir.path(), &[&words[..], &["1", "--out", "part"]].concat());
    tool.until_it_says("copy ...");
    tool.signal("-INT");
    assert_eq!(tool.ended().2, Some(130));
    let whole = Started::tool(dir.path(), &[&words[..], &["4k", "--out", "whole"]].concat());
    assert_eq!(whole.ended().2, Some(0));
    let (said, text, _) = Started::tool(dir.path(), &["compare", "part", "whole"]).ended();
    assert!(text.contains("A is partial: 3 of 5 phases of the first run are done"), "{text}{said}");
    let row = text.lines().find(|line| line.contains("operations a second")).expect("its row");
    assert!(row.contains("no verdict"), "{text}");
    assert!(text.contains("one did a part of it"), "{text}");
}

#[test]
fn jobs_of_fio_that_are_done_are_kept() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file =
        "[global]\nsize=1m\nrw=write\n[first]\n[second]\nstonewall\ntime_based=1\nruntime=60s\n";
    std::fs::write(dir.path().join("two.fio"), file).expect("written");
    let words = ["fio", "two.fio", "--out", "report"];
    let tool = Started::tool(dir.path(), &words);
    // It makes its file when it begins.
    let begins = Instant::now();
    while !dir.path().join("second.0.0").exists() && begins.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    tool.signal("-INT");
    let (said, printed, status) = tool.ended();
    assert_eq!(status, Some(130), "{said}");
    assert!(printed.contains("first: ") && printed.contains("second: "), "{printed}");
    let last = said.lines().last().expect("a line");
    assert!(last.contains("interrupted after 1 of 2 jobs of the first run: the result"), "{said}");
    let (partial, metrics) = kept(&dir.path().join("report"));
    assert_eq!(partial, serde_json::json!({"done": 1, "total": 2, "of": "jobs"}));
    assert!(metrics.contains(&"iops".to_owned()), "{metrics:?}");
    assert!(!metrics.iter().any(|name| name.starts_with("second")), "{metrics:?}");
}

/// Runs a tool whose report shall lie where so many KiB of 512 are free; nothing where none can be mounted. `$at` is there, and
/// `$other` has room.
fn with_report_on(free_kib: u32, other: &Path, words: &str) -> Option<Output> {
    let dir = tempfile::tempdir().expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=512k full {at} || exit 77; head -c {fill} /dev/zero > {at}/fill; at={at} other={other}; cd $other && {words}",
        at = dir.path().display(),
        other = other.display(),
        fill = (512 - free_kib) * 1024,
    );
    with_mounts_of_its_own(&script)
}

/// Found by a newcomer: `fill_device` took the room of where it was called for that of `directory=`.
#[test]
fn a_device_that_is_filled_is_the_one_on_which_the_files_lie() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = env!("CARGO_BIN_EXE_spindle");
    let script = format!(
        "cd {at} && mkdir small large && mount -t tmpfs -o size=1m small small && mount -t tmpfs -o size=8m large large || exit 77
         cd small && exec {program} lab fio --name=x --rw=write --bs=64k --fill_device=1 --directory=../large --output-format=json",
        at = dir.path().display()
    );
    let Some(output) = with_mounts_of_its_own(&script) else {
        println!("skipped: nothing can be mounted");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let bytes = json["jobs"][0]["write"]["io_bytes"].as_u64().expect("a number");
    assert!((7 << 20..=8 << 20).contains(&bytes), "{bytes}: {said}");
}

#[test]
fn what_is_measured_outlives_a_full_disk_below_the_report() {
    let other = tempfile::tempdir().expect("a folder");
    let program = env!("CARGO_BIN_EXE_spindle");
    let run = format!("{program} lab fio --name=a --rw=read --size=64k --out $at/report");
    for (free_kib, words, said, is_printed) in [
        // The page does not fit, the figures do.
        (
            24,
            format!("{run}; echo status $?; {program} lab report $at/report"),
            "results.json alone lies there: spindle lab report ",
            true,
        ),
        (0, format!("TMPDIR=$other {run}; echo status $?"), "the results lie in ", false),
        (
            0,
            format!("TMPDIR=$at {run} --output=told; echo status $?"),
            "the results were printed, and lie nowhere",
            true,
        ),
    ] {
        let Some(output) = with_report_on(free_kib, other.path(), &words) else {
            println!("skipped: nothing can be mounted");
            return;
        };
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(errors.contains("the disk is full") && errors.contains(said), "{errors}");
        assert!(printed.contains("status 1"), "{printed}");
        // The text of results ends so.
        assert_eq!(printed.contains("Verdict"), is_printed, "{printed}");
    }
    let instead = made(other.path(), "spindle-results-").expect("kept");
    assert!(instead.join("report.html").is_file());
    let (partial, metrics) = kept(&instead);
    assert!(partial.is_null() && metrics.iter().any(|name| name == "read_iops"), "{metrics:?}");
}

/// What could break: the next run takes the file's length for what was laid out, and measures places that were never written.
#[test]
fn a_file_that_was_being_laid_out_does_not_stay() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let words = ["fio", "--name=big", "--rw=read", "--size=1g"];
    let mut started = Started::tool(dir.path(), &words);
    started.until_it_says("Laying out IO file");
    started.signal("-INT");
    let (said, _, status) = started.ended();
    assert_eq!(status, Some(130), "{said}");
    assert_eq!(count(dir.path()), 0, "{said}");
}
