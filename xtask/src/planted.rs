//! `cargo xtask planted`: sees that each planted bug ([`stdx::planted`]) is caught by the test that is there for it.
//!
//! The tests are built once, with the feature and into a folder of their own (`target/planted`); which bug is there they are told
//! when they are started. First all of them run without one, and must pass: a test that fails anyway catches nothing. Then each bug
//! is there for its test alone, which must fail. One that takes seeds is given up to [`SEEDS`] of them, and says which it is at.
//!
//! What is printed is a line a bug: the test that failed, the seed, the time. A bug that its test lets pass, a test that isn't there,
//! and one that doesn't end ([`LIMIT`]) are failures of this command. Bugs are chosen by name, or all; `--list` names them.

use crate::cargo;
use crate::failure::Failure;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stdx::planted::{Bug, Test};

/// Seeds within which a bug must be caught.
const SEEDS: &str = "1000";
/// Seeds that must pass without one: each takes as long as it does with a bug.
const SEEDS_WITHOUT: &str = "2";
/// How long one test may take.
const LIMIT: Duration = Duration::from_secs(900);
/// How often it is looked whether a test ended.
const LOOK: Duration = Duration::from_millis(20);

/// A test program, and the folder that cargo would start it in.
struct Program {
    path: PathBuf,
    folder: PathBuf,
}

type Programs = BTreeMap<String, Program>;

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Passed,
    /// These failed, after this seed if it takes them.
    Failed(String, Option<String>),
    /// No such test is there.
    Absent,
    TooLong,
}

/// `cargo xtask planted [--list] [NAME]...`
pub fn run(args: &[String]) -> Result<(), Failure> {
    if args == ["--list"] {
        for bug in Bug::ALL {
            println!("{:<26} {}", bug.name(), bug.what());
        }
        return Ok(());
    }
    let bugs = chosen(args)?;
    let programs = build()?;
    let mut wrong = 0;
    let tests: BTreeSet<Test> = bugs.iter().map(|bug| bug.test()).collect();
    for test in tests {
        let (end, seconds) = start(&programs, test, None)?;
        if end != End::Passed {
            wrong += 1;
            println!("{:<26} {} without any bug: {end:?}, {seconds:.0} s", "none", test.name);
        }
    }
    for bug in &bugs {
        let (end, seconds) = start(&programs, bug.test(), Some(*bug))?;
        let said = match &end {
            End::Failed(test, seed) => {
                let seed = seed.as_ref().map(|seed| format!(", {seed}")).unwrap_or_default();
                format!("caught by {test}{seed}")
            }
            other => {
                wrong += 1;
                format!("NOT CAUGHT by {}: {other:?}", bug.test().name)
            }
        };
        println!("{:<26} {said}, {seconds:.1} s", bug.name());
    }
    if wrong > 0 {
        return Err(Failure::Failed(format!(
            "planted: {wrong} of {} did not go as they should",
            bugs.len()
        )));
    }
    println!("planted: all {} are caught", bugs.len());
    Ok(())
}

fn chosen(args: &[String]) -> Result<Vec<Bug>, Failure> {
    let named = |name: &String| {
        let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
        let unknown = || format!("there is no planted bug '{name}'; --list names them");
        bug.copied().ok_or_else(|| Failure::Usage(unknown()))
    };
    match args {
        [] => Ok(Bug::ALL.to_vec()),
        names => names.iter().map(named).collect(),
    }
}

/// Builds the tests; says where each is.
fn build() -> Result<Programs, Failure> {
    let targets: BTreeSet<&str> = Bug::ALL.iter().map(|bug| bug.test().target).collect();
    let mut command = cargo::command(&["test", "--no-run", "--features", "stdx/planted"]);
    command.args(["--target-dir", "target/planted", "--message-format", "json-render-diagnostics"]);
    command.args(targets.iter().flat_map(|target| ["--test", target]));
    let built = command.stderr(Stdio::inherit()).output();
    let built = built.map_err(|error| format!("starting cargo: {error}"))?;
    if !built.status.success() {
        return Err(Failure::Failed("planted: the tests are not built".into()));
    }
    let text = String::from_utf8_lossy(&built.stdout).into_owned();
    Ok(text.lines().filter_map(program).collect())
}

/// The test program that a line of cargo's tells of.
fn program(line: &str) -> Option<(String, Program)> {
    let told: Value = serde_json::from_str(line).ok()?;
    let path = PathBuf::from(told["executable"].as_str()?);
    let folder = PathBuf::from(told["manifest_path"].as_str()?).parent()?.to_owned();
    Some((told["target"]["name"].as_str()?.to_owned(), Program { path, folder }))
}

/// Runs a test with a bug, or none; says how it ended, and after how many seconds.
fn start(programs: &Programs, test: Test, bug: Option<Bug>) -> Result<(End, f64), Failure> {
    let program = programs.get(test.target);
    let program = program.ok_or_else(|| format!("cargo built no test '{}'", test.target))?;
    let broken = |error: std::io::Error| format!("running {}: {error}", program.path.display());
    // A file, so that nobody waits for a reader.
    let mut output = tempfile::tempfile().map_err(broken)?;
    let mut command = Command::new(&program.path);
    command.args([test.name, "--test-threads=1", "--nocapture"]).current_dir(&program.folder);
    if test.takes_seeds {
        let seeds = if bug.is_some() { SEEDS } else { SEEDS_WITHOUT };
        command.arg("--ignored").env("SEEDS", seeds);
    }
    let (variable, form) = cargo::THOROUGH;
    command.env("SPINDLE_PLANTED", bug.map_or("", Bug::name)).env(variable, form);
    command.stdin(Stdio::null()).stdout(output.try_clone().map_err(broken)?);
    let begin = Instant::now();
    let mut running = command.stderr(Stdio::null()).spawn().map_err(broken)?;
    let status = loop {
        match running.try_wait().map_err(broken)? {
            Some(status) => break Some(status),
            None if begin.elapsed() > LIMIT => {
                running.kill().and_then(|()| running.wait()).map_err(broken)?;
                break None;
            }
            None => std::thread::sleep(LOOK),
        }
    };
    let seconds = begin.elapsed().as_secs_f64();
    let mut bytes = Vec::new();
    output.rewind().and_then(|()| output.read_to_end(&mut bytes)).map_err(broken)?;
    let text = String::from_utf8_lossy(&bytes);
    let end = match status {
        None => End::TooLong,
        Some(status) => ended(status.success(), &text),
    };
    Ok((end, seconds))
}

/// How a test ended, by what it printed.
fn ended(passed: bool, text: &str) -> End {
    if text.contains("\nrunning 0 tests") {
        return End::Absent;
    }
    if passed {
        return End::Passed;
    }
    let seed = text.lines().rev().find(|line| line.starts_with("seed "));
    let failures = text.rsplit("\nfailures:\n").next().unwrap_or_default();
    let names = failures.lines().map_while(|line| line.strip_prefix("    "));
    let names: Vec<&str> = names.collect();
    // A program that died of it names none.
    let names = if names.is_empty() { "its end".to_owned() } else { names.join(", ") };
    End::Failed(names, seed.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_test_ended_is_read_from_what_it_printed() {
        let none = "\nrunning 0 tests\n\ntest result: ok.";
        assert_eq!(ended(true, none), End::Absent);
        assert_eq!(ended(true, "\nrunning 1 test\ntest a ... ok\n"), End::Passed);
        let failed = "\nrunning 2 tests\nseed 1\nseed 7\nFAILED\n\nfailures:\n\n---- b::c\n\n\
                      failures:\n    b::c\n    b::d\n\ntest result: FAILED.";
        assert_eq!(ended(false, failed), End::Failed("b::c, b::d".into(), Some("seed 7".into())));
        assert_eq!(ended(false, "\nrunning 1 test\n"), End::Failed("its end".into(), None));
    }

    #[test]
    fn bugs_are_chosen_by_name() {
        assert_eq!(chosen(&[]).expect("all").len(), Bug::ALL.len());
        let one = Bug::ALL[3];
        assert_eq!(chosen(&[one.name().to_owned()]).expect("it is known"), [one]);
        let unknown = chosen(&["no-such-bug".to_owned()]);
        assert!(matches!(unknown, Err(Failure::Usage(text)) if text.contains("no-such-bug")));
    }
}
