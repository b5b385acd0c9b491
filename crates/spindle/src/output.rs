//! What the program says: results on standard output, all else on standard error; and what a command fails with.

use crate::printable;
use attach::pools::running::protocol::Said;
use std::cell::RefCell;
use std::io::Write;

/// The exit status of a program that a signal ended, as shells have it: 128 and SIGINT's number.
pub const INTERRUPTED: u8 = 130;

thread_local! {
    /// What is said by a command that is carried out for another process, which prints it.
    static KEPT: RefCell<Option<Vec<Said>>> = const { RefCell::new(None) };
}

/// A command that did not succeed.
#[derive(Debug)]
pub struct Failure {
    /// One line: the thing and the mend. Empty where it was said already.
    pub message: String,
    /// 1 failed, 2 wrong usage, 130 interrupted.
    pub status: u8,
    /// The pool that it failed for, because somebody holds it: the command can be sent there.
    pub held: Option<String>,
    /// The dataset or pool that it failed for, because there is none of that name.
    pub absent: Option<String>,
    /// Whether what it failed for would be there, or may be, where a RAID set is put together by force.
    force_helps: bool,
    /// Whether the rest of what it failed for is read by who goes on past what can't be read.
    skip_helps: bool,
    /// What was attached refused it, and not who read the command line.
    by_library: bool,
}

impl Failure {
    fn new(message: String, status: u8) -> Failure {
        let (held, absent) = (None, None);
        let (force_helps, skip_helps, by_library) = (false, false, false);
        Failure { message, status, held, absent, force_helps, skip_helps, by_library }
    }

    /// It was asked rightly, and failed.
    pub fn failed(message: impl ToString) -> Failure {
        Failure::new(printable::line(&message.to_string()), 1)
    }

    /// It failed, and why was said already.
    pub fn said() -> Failure {
        Failure::new(String::new(), 1)
    }

    /// A signal ended it, with the exit status that shells give for that.
    pub fn interrupted(message: impl ToString) -> Failure {
        Failure::new(printable::line(&message.to_string()), INTERRUPTED)
    }

    /// It was asked wrongly: a file, name or value of the user's.
    pub fn usage(message: impl ToString) -> Failure {
        Failure::new(printable::line(&message.to_string()), 2)
    }
}

impl Failure {
    /// What another process said of it, and its exit status.
    pub fn told(message: String, status: u8) -> Failure {
        Failure::new(message, status)
    }

    /// The same, and what to do.
    pub fn and_do(self, mend: &str) -> Failure {
        Failure { message: format!("{}; {mend}", self.message), ..self }
    }

    /// The same, with the command that gets at it by force, where that helps.
    pub fn or_by_force(self, command: impl FnOnce() -> String) -> Failure {
        match self.force_helps {
            true => {
                let next = printable::line(&command());
                Failure { force_helps: false, ..self.and_do(&format!("next: {next}")) }
            }
            false => self,
        }
    }

    /// The same, with the command that reads the rest of it, where that is possible.
    pub fn or_skipping(self, command: impl FnOnce() -> String) -> Failure {
        match self.skip_helps {
            true => {
                let next = printable::line(&command());
                let text = format!("or without what is not there, as zeros: {next}");
                Failure { skip_helps: false, ..self.and_do(&text) }
            }
            false => self,
        }
    }

    /// The same, as what was called in a way that can't be.
    pub fn of_caller(self) -> Failure {
        Failure { status: 2, ..self }
    }

    /// The same, as what was called rightly and can't be.
    pub fn of_library(self) -> Failure {
        Failure { status: 1, ..self }
    }

    /// The same with OpenZFS's exit status: 2 is a call that `zpool` or `zfs` answers with its usage, and whatever their library refuses (a
    /// device that holds something, a name that can't be) is 1.
    pub fn with_openzfs_status(self) -> Failure {
        if self.by_library { self.of_library() } else { self }
    }

    /// The same, with what failed by it before: it was asked rightly, and can't be.
    pub fn of(self, what: &str) -> Failure {
        Failure {
            message: printable::line(&format!("{what}: {}", self.message)),
            status: 1,
            ..self
        }
    }
}

impl From<attach::Error> for Failure {
    fn from(error: attach::Error) -> Failure {
        let held = match &error {
            attach::Error::PoolHeld { name, .. } => Some(name.clone()),
            _ => None,
        };
        let absent = match &error {
            attach::Error::NoDataset { name } | attach::Error::NoPool { name } => {
                Some(name.clone())
            }
            _ => None,
        };
        // Where disks lie is asked of who calls, and OpenZFS has no word for it; what another process answered has its status.
        let by_library =
            !matches!(error, attach::Error::NoDevices | attach::Error::Answered { .. });
        let (message, status) = (printable::line(&error.to_string()), error.status());
        let (force_helps, skip_helps) = (error.force_helps(), error.skip_helps());
        Failure { message, status, held, absent, force_helps, skip_helps, by_library }
    }
}

/// Runs a command whose output is kept, and gives back what it said.
pub fn keeping<T>(command: impl FnOnce() -> T) -> (T, Vec<Said>) {
    KEPT.set(Some(Vec::new()));
    let done = command();
    (done, KEPT.take().unwrap_or_default())
}

/// Text to standard output. Foreign words in it went through [`printable`]; what did not can still not steer a terminal.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(printable::guard(text).as_bytes())
}

/// JSON to standard output.
pub fn print_json(text: &str) -> Result<(), Failure> {
    print_bytes(printable::json(text).as_bytes())
}

/// Bytes to standard output: names that went through [`printable::name`], or ended with zeros. A reader that has seen enough
/// (`| head`) is no failure.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    if KEPT
        .with_borrow_mut(|kept| {
            kept.as_mut().map(|kept| kept.push(Said::Out(String::from_utf8_lossy(bytes).into())))
        })
        .is_some()
    {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("writing to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line on standard error. Nobody may be reading it any more; that is no reason to stop.
pub fn say(line: &str) {
    let line = printable::line(line);
    let kept =
        KEPT.with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.push(Said::Error(line.clone()))));
    if kept.is_none() {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
