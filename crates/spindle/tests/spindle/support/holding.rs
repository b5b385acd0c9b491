//! A program that holds pools until it is told to stop, and whether anything can be mounted here.

use super::pools::program;
use super::serving::Serving;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether datasets can be mounted; says where they can't.
pub fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        println!("skipped: mounting needs root and /dev/fuse");
    }
    can
}

/// A process that holds pools; killed when the test fails.
pub struct Holder {
    serving: Serving,
    /// What it printed until it was ready.
    pub said: String,
    lines: BufReader<std::process::ChildStdout>,
}

impl Holder {
    /// A server by a configuration, once it holds its pools.
    #[track_caller]
    pub fn start(at: &Path, configuration: &str) -> Holder {
        fs::write(at.join("spindle.toml"), configuration).expect("a configuration");
        let command = program(at, &["serve", "--config", "spindle.toml"]);
        Holder::with(command, |said| said.contains("holding ") || said.contains("serving "))
    }

    /// Any command, once it has printed this.
    #[track_caller]
    pub fn run(at: &Path, words: &[&str], ready: &str) -> Holder {
        Holder::with(program(at, words), |said| said.contains(ready))
    }

    #[track_caller]
    fn with(mut command: Command, is_ready: impl Fn(&str) -> bool) -> Holder {
        let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut serving = Serving { child, ready: String::new() };
        let mut lines = BufReader::new(serving.child.stdout.take().expect("it is piped"));
        let mut said = String::new();
        while !is_ready(&said) {
            assert!(lines.read_line(&mut said).expect("a line") > 0, "it ended: {said}");
        }
        Holder { serving, said, lines }
    }

    /// Its next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.serving.child.id()
    }

    /// Tells it to stop, and holds it to the promise that it ends well.
    #[track_caller]
    pub fn stop(self) {
        self.serving.stop();
    }

    /// Ends it at once.
    pub fn kill(self) {
        self.serving.kill();
    }

    /// Waits until it ends by itself, and well.
    #[track_caller]
    pub fn ended(mut self) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.serving.child.try_wait().expect("it can be asked") {
                assert_eq!(status.code(), Some(0));
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it did not end");
    }
}

/// Waits until this holds.
#[track_caller]
pub fn soon(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it did not come to that");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether something is mounted on a directory.
pub fn is_mounted(directory: &Path) -> bool {
    let directory = directory.to_str().expect("text");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("Linux tells");
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(directory))
}
