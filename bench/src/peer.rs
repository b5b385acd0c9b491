//! What benchmarks share: a peer's process, a folder for what is compiled, processor time, the statistics and the line that
//! tells them.
//!
//! Code that calls C is unsafe, which this crate forbids. So each peer is a process, compiled on the spot with `cc`,
//! that times its own calls on request: a line in, a line out. It waits while we run and we wait while it runs.

use serde_json::Value;
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

/// What the rounds of a case gave: ours, the peer's, and a ratio each, over 1 where ours is better.
#[derive(Default)]
pub(super) struct Rounds {
    ours: Vec<f64>,
    peers: Vec<f64>,
    ratios: Vec<f64>,
}

impl Rounds {
    /// A round with a peer.
    pub(super) fn add(&mut self, ours: f64, peer: f64, ratio: f64) {
        self.ours.push(ours);
        self.peers.push(peer);
        self.ratios.push(ratio);
    }

    /// A round of ours alone.
    pub(super) fn add_alone(&mut self, ours: f64) {
        self.ours.push(ours);
    }

    /// The line that tells a case: medians, and the least and the greatest ratio. `shown` makes of a figure what is
    /// printed.
    pub(super) fn line(
        &self,
        bench: &str,
        case: &str,
        unit: &str,
        peer_name: &str,
        shown: impl Fn(f64) -> f64,
    ) -> Value {
        let least = self.ratios.iter().copied().reduce(f64::min);
        let greatest = self.ratios.iter().copied().reduce(f64::max);
        serde_json::json!({
            "bench": bench,
            "case": case,
            "unit": unit,
            "ours": median(&self.ours).map(&shown),
            "peer": median(&self.peers).map(&shown),
            "peer_name": (!self.peers.is_empty()).then_some(peer_name),
            "ratio": median(&self.ratios).map(three_digits),
            "ratio_min": least.map(three_digits),
            "ratio_max": greatest.map(three_digits),
            "runs": self.ours.len(),
        })
    }
}

/// The middle one, or the mean of the two in the middle; of nothing, none.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// As it is printed.
pub(super) fn three_digits(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// Builds the program as its users have it, and says where it lies: beside this one.
pub(super) fn built_spindle() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "--bin", "spindle"]);
    // What `cargo run` said of this package would make cargo build ring anew, and all above it.
    let of_this = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_this)) {
        build.env_remove(name);
    }
    let status = build.status().map_err(|error| format!("starting cargo: {error}"))?;
    if !status.success() {
        return Err("spindle does not build".into());
    }
    let this = std::env::current_exe().map_err(|error| format!("this program's place: {error}"))?;
    let program = this.with_file_name("spindle");
    if program.exists() { Ok(program) } else { Err(format!("{} is not there", program.display())) }
}

/// Ticks of `/proc` a second: `USER_HZ`, which is 100 on every Linux.
pub(super) const TICKS_PER_S: f64 = 100.0;

/// Processor time of children that ended, user and system, in ticks: fields 16 and 17 (proc(5)).
pub(super) fn children_ticks() -> Result<f64, String> {
    ticks("/proc/self/stat", 13)
}

/// Processor time of a process, user and system, in ticks: fields 14 and 15.
pub(super) fn ticks_of(process: u32) -> Result<f64, String> {
    ticks(&format!("/proc/{process}/stat"), 11)
}

fn ticks(path: &str, first: usize) -> Result<f64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"))?;
    // The second field is the program's name in brackets, which may hold spaces.
    let fields: Vec<&str> =
        text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    match (field(first), field(first + 1)) {
        (Some(user), Some(system)) => Ok(user + system),
        _ => Err(format!("{path} has no times")),
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a median of the wrong one, a line without a peer that claims a ratio.

    use super::*;

    #[test]
    fn a_line_has_medians_and_the_ends_of_the_ratios() {
        let mut rounds = Rounds::default();
        for (ours, peer) in [(30.0, 10.0), (10.0, 10.0), (40.0, 20.0), (20.0, 30.0)] {
            rounds.add(ours, peer, ours / peer);
        }
        let line = rounds.line("b", "c", "u", "p", f64::round);
        assert_eq!((line["ours"].as_f64(), line["peer"].as_f64()), (Some(25.0), Some(15.0)));
        assert_eq!(line["ratio"].as_f64(), Some(1.5));
        assert_eq!(
            (line["ratio_min"].as_f64(), line["ratio_max"].as_f64()),
            (Some(0.667), Some(3.0))
        );
        assert_eq!((line["runs"].as_u64(), line["peer_name"].as_str()), (Some(4), Some("p")));
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        let mut rounds = Rounds::default();
        rounds.add_alone(2.0);
        rounds.add_alone(1.0);
        rounds.add_alone(9.0);
        let line = rounds.line("b", "c", "u", "p", |figure| figure);
        assert_eq!(line["ours"].as_f64(), Some(2.0));
        assert!(line["peer"].is_null() && line["peer_name"].is_null() && line["ratio"].is_null());
    }
}
