//! What benchmarks beside C libraries share: a peer's process, a folder for what is compiled, the statistics.
//!
//! Code that calls C is unsafe, which this crate forbids. So each peer is a process, compiled on the spot with `cc`,
//! that times its own calls on request: a line in, a line out. It waits while we run and we wait while it runs.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A peer's process, waiting for requests.
pub(super) struct PeerProcess {
    name: &'static str,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl PeerProcess {
    pub(super) fn start(name: &'static str, program: &Path) -> Result<PeerProcess, String> {
        Self::start_with(name, program, &[])
    }

    pub(super) fn start_with(
        name: &'static str,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<PeerProcess, String> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("bench: starting the peer {name}: {error}"))?;
        let requests = child.stdin.take().expect("its stdin is a pipe");
        let answers = BufReader::new(child.stdout.take().expect("its stdout is a pipe"));
        Ok(PeerProcess { name, child, requests, answers })
    }

    /// The next line of its answers, which nobody asked for: that it is ready.
    pub(super) fn line(&mut self) -> Result<String, String> {
        let mut answer = String::new();
        let read = self.answers.read_line(&mut answer);
        match read {
            Ok(0) => Err(format!("bench: the peer {} ended", self.name)),
            Ok(_) => Ok(answer),
            Err(error) => Err(format!("bench: peer {}: {error}", self.name)),
        }
    }

    /// Asks for so many calls of something: the seconds they took, and the name of the function that was called.
    pub(super) fn time(&mut self, request: &str) -> Result<(f64, String), String> {
        let name = self.name;
        let failed = |why: &dyn fmt::Display| format!("bench: peer {name}, {request}: {why}");
        writeln!(self.requests, "{request}").map_err(|e| failed(&e))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|e| failed(&e))?;
        let (seconds, function) = answer
            .trim()
            .split_once(' ')
            .ok_or_else(|| failed(&format!("it answered {answer:?}")))?;
        if seconds == "-" {
            return Err(failed(&format!(
                "its library is not there; it is in the Debian package {function}"
            )));
        }
        let seconds = seconds.parse().map_err(|e| failed(&e))?;
        Ok((seconds, function.to_owned()))
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // It holds nothing that needs an orderly end; errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles a peer's program.
///
/// # Errors
/// The compiler's first complaint.
pub(super) fn compiled(
    source: &str,
    arguments: &[&str],
    folder: &Path,
    name: &str,
) -> Result<PathBuf, String> {
    let file = folder.join(format!("{name}.c"));
    let program = folder.join(name);
    let mut command = Command::new("cc");
    command.arg("-O2").arg(&file).args(arguments).arg("-o").arg(&program);
    match std::fs::write(&file, source).and_then(|()| command.output()) {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let line = errors.lines().find(|line| line.contains("error"));
            Err(line.unwrap_or("cc failed").to_owned())
        }
        Err(error) => Err(format!("cc: {error}")),
    }
}

/// A folder for what is compiled; gone when dropped.
pub(super) struct ScratchFolder(pub(super) PathBuf);

impl ScratchFolder {
    pub(super) fn new(bench: &str) -> Result<ScratchFolder, String> {
        let name = format!("spindle-bench-{bench}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("bench {bench}: making {}: {error}", path.display()))?;
        Ok(ScratchFolder(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Left behind at worst, in the folder that is for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The middle one, or the mean of the two in the middle; sorts the values.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// As it is printed.
pub(super) fn three_digits(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}
