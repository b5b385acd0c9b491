//! A program that serves until it is told to stop.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// A server that runs; killed when the test fails.
pub struct Serving {
    pub child: Child,
    /// The line that it printed when it served.
    pub ready: String,
}

impl Serving {
    /// Starts it, and waits until it says that it serves.
    #[track_caller]
    pub fn start(command: &mut Command) -> Serving {
        Serving::try_start(command).unwrap_or_else(|said| panic!("it does not serve: {said}"))
    }

    /// The same; what it says where it doesn't serve, as far as that is piped.
    pub fn try_start(command: &mut Command) -> Result<Serving, String> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut ready = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut ready).expect("a line");
        if !ready.contains("serving") {
            // Whatever it does instead, it shall not go on after the test.
            let _ = child.kill();
            if let Some(mut piped) = child.stderr.take() {
                piped.read_to_string(&mut ready).expect("text");
            }
            child.wait().expect("it ends");
            return Err(ready);
        }
        Ok(Serving { child, ready })
    }

    /// The most memory it ever had, in bytes.
    pub fn memory_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux tells");
        let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
        kib.expect("a number") << 10
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Tells it to stop, and holds it to the promise that it ends well.
    #[track_caller]
    pub fn stop(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(told.expect("kill starts").success());
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After `stop` there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
