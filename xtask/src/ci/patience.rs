//! Waiting for what a step runs, but not for ever: a test that hangs is told as one, with what it hangs in.
//!
//! Whoever runs the checks of a change that nobody watches learns nothing from a run that doesn't end. So a command has
//! [`STEP_MAX`]; then what still runs below it is shown (each process with its threads, libtest names those by their
//! tests, and what each waits for in the kernel), all of it is killed, and the step has failed.

use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// How long the command of a step may run: four times what the longest (the thorough tests, with their building) takes on two
/// cores that do nothing else.
pub(super) const STEP_MAX: Duration = Duration::from_secs(45 * 60);
/// Time between looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits for a command; says whether it succeeded.
///
/// # Errors
/// It did not end within `limit`, and what it was doing; or it can't be waited for.
pub(super) fn wait(mut child: Child, limit: Duration) -> Result<bool, String> {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait().map_err(|error| format!("waiting for a command: {error}"))? {
            Some(status) => return Ok(status.success()),
            None if Instant::now() < end => std::thread::sleep(LOOK_EVERY),
            None => break,
        }
    }
    let below = below(child.id());
    let mut told = format!("it was ended after {} minutes; this ran:", limit.as_secs() / 60);
    for process in &below {
        let _ = write!(told, "\n{process}");
    }
    for process in &below {
        kill(process.pid);
    }
    let _ = child.wait();
    Err(told)
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It has ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A process as it is shown.
struct Process {
    pid: u32,
    parent: u32,
}

impl Process {
    fn of(pid: u32) -> Option<Process> {
        // "PID (NAME) STATE PARENT ...": a name may hold anything, parentheses as well.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some(Process { pid, parent })
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = PathBuf::from(format!("/proc/{}", self.pid));
        let line = text(&of.join("cmdline")).replace('\0', " ");
        write!(f, "  {} {}", self.pid, line.trim_end())?;
        for thread in entries(&of.join("task")) {
            let of = of.join("task").join(thread.to_string());
            let (name, waits) = (text(&of.join("comm")), text(&of.join("wchan")));
            write!(f, "\n    {thread} {:<16} {}", name.trim_end(), waits.trim_end())?;
        }
        Ok(())
    }
}

fn text(path: &Path) -> String {
    fs::read(path).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into())
}

/// The numbers that a folder of `/proc` has entries for, in their order.
fn entries(folder: &Path) -> Vec<u32> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A process and all that it started and that still is its, parents first.
fn below(root: u32) -> Vec<Process> {
    let mut rest: Vec<Process> =
        entries(Path::new("/proc")).into_iter().filter_map(Process::of).collect();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    found.extend(rest.extract_if(.., |process| process.pid == root));
    while let Some(parent) = parents.pop() {
        for child in rest.extract_if(.., |process| process.parent == parent) {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    //! What could break: a run that hangs goes on for ever, says nothing, or leaves behind what hung.

    use super::*;
    use std::process::Command;

    #[test]
    fn what_hangs_is_named_and_ended() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 4711 & wait"]);
        let child = shell.spawn().expect("a shell");
        let root = child.id();
        while below(root).len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let pids: Vec<u32> = below(root).iter().map(|process| process.pid).collect();
        let told = wait(child, Duration::from_millis(1)).expect_err("it hangs");
        assert!(told.contains("sleep 4711"), "{told}");
        let gone = |pid: &u32| {
            let state = text(&PathBuf::from(format!("/proc/{pid}/stat")));
            state.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
        };
        let end = Instant::now() + Duration::from_secs(10);
        while !pids.iter().all(gone) {
            assert!(Instant::now() < end, "something of it is left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_ends_says_how() {
        for (program, succeeds) in [("true", true), ("false", false)] {
            let child = Command::new(program).spawn().expect("it is everywhere");
            assert_eq!(wait(child, Duration::from_secs(60)), Ok(succeeds));
        }
    }
}
