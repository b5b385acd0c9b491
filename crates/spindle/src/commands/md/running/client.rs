//! A command that finds its set served asks the server.
//!
//! A set is served where one of its devices is locked by a writer and somebody answers on the set's socket who has the
//! very same files open. Then the server does what is asked, since nobody else may write to the members. In any other
//! case the command goes on by itself, and is told by the locks what it can't do.
//!
//! The command blocks while it waits: it has nothing else to do.

use super::folder::socket_of;
use super::protocol::{Answer, Ask, LINE_BYTES_MAX, Numbers, Picture, Request};
use crate::commands::{Failure, say};
use ::md::assemble::{Choice, Found};
use host::{FileDevice, FileOptions, HostRuntime, Identity};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may take to say that it heard. One that is stopped, or hangs, is not waited for longer.
const HEARD_MAX: Duration = Duration::from_secs(10);
/// How long locks of a server that ended are waited for, in steps of [`RELEASE_REST`]: the kernel closes its files some
/// milliseconds after it.
const RELEASE_TRIES_MAX: u32 = 100;
const RELEASE_REST: Duration = Duration::from_millis(50);

/// The server of a set, that answered.
pub struct Server {
    answers: BufReader<UnixStream>,
    held: Vec<PathBuf>,
}

/// Asks the server of a set for something; none where nobody serves it.
///
/// # Errors
/// What the server says, and where it ends before it says anything.
pub fn ask<T: DeserializeOwned>(
    runtime: &HostRuntime,
    choice: &Choice,
    ask: Ask,
) -> Result<Option<T>, Failure> {
    let Some(server) = reach(runtime, choice, ask)? else { return Ok(None) };
    let value = server.result()?;
    let read = serde_json::from_value(value);
    read.map(Some).map_err(|error| Failure::failed(format!("the set's server answers: {error}")))
}

/// Ends the server of a set, and waits until nothing holds its devices; false where nobody serves it.
///
/// # Errors
/// What the server says.
pub fn stop(runtime: &HostRuntime, choice: &Choice) -> Result<bool, Failure> {
    let Some(server) = reach(runtime, choice, Ask::Stop)? else { return Ok(false) };
    let held = server.held.clone();
    server.result()?;
    await_release(runtime, &held);
    Ok(true)
}

/// Waits until nobody holds these devices any more; false where somebody goes on holding them.
fn await_release(runtime: &HostRuntime, held: &[PathBuf]) -> bool {
    for _ in 0..RELEASE_TRIES_MAX {
        if !held.iter().any(|path| is_held(runtime, path)) {
            return true;
        }
        std::thread::sleep(RELEASE_REST);
    }
    false
}

/// The set as its server sees it; none where nobody serves it.
///
/// # Errors
/// What the server says.
pub fn picture(runtime: &HostRuntime, choice: &Choice) -> Result<Option<Picture>, Failure> {
    ask(runtime, choice, Ask::Detail)
}

/// A path as the server, which may stand in another folder, finds it.
pub fn absolute(path: &Path) -> PathBuf {
    let resolved = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    resolved.unwrap_or_else(|_| path.to_owned())
}

fn is_held(runtime: &HostRuntime, path: &Path) -> bool {
    let options = FileOptions { direct: false, read_only: true };
    let device = FileDevice::open(&runtime.host(), path, options);
    device.is_ok_and(|device| device.is_written_elsewhere())
}

/// Sends a request to the server of a set, which has taken it then.
fn reach(runtime: &HostRuntime, choice: &Choice, ask: Ask) -> Result<Option<Server>, Failure> {
    let paths = choice.taking_part().map(Found::name).map(PathBuf::from);
    let held: Vec<PathBuf> = paths.filter(|path| is_held(runtime, path)).collect();
    let numbers = |path: &PathBuf| Identity::of(path).ok().map(Identity::numbers);
    let devices: Vec<Numbers> = held.iter().filter_map(numbers).collect();
    if devices.is_empty() {
        return Ok(None);
    }
    // Without a folder, or with nobody there, the locks say what is to be said.
    let Ok(path) = socket_of(choice.set, false) else { return Ok(None) };
    let Ok(stream) = UnixStream::connect(path) else { return Ok(None) };
    let line = serde_json::to_string(&Request { devices, ask });
    let line = line.map_err(|error| Failure::usage(format!("asking the set's server: {error}")))?;
    let sent = stream
        .set_read_timeout(Some(HEARD_MAX))
        .and_then(|()| stream.set_write_timeout(Some(HEARD_MAX)))
        .and_then(|()| (&stream).write_all(format!("{line}\n").as_bytes()));
    let mut server = Server { answers: BufReader::new(stream), held };
    if sent.is_err() {
        return Ok(None);
    }
    // Killed a moment ago: the kernel keeps its socket and its locks for some milliseconds more.
    if server.has_ended() && await_release(runtime, &server.held) {
        return Ok(None);
    }
    match server.line()? {
        Answer::Taken => {}
        Answer::Elsewhere => return Ok(None),
        Answer::Error { message, status } => return Err(Failure { message, status }),
        Answer::Say(_) | Answer::Result(_) => return Err(unheard()),
    }
    // From here on it may take as long as a rebuild.
    let _ = server.answers.get_ref().set_read_timeout(None);
    Ok(Some(server))
}

fn unheard() -> Failure {
    Failure::failed(
        "the set's server ended or does not answer: look whether it runs, and start it again with spindle md serve",
    )
}

impl Server {
    /// Whether the server closed the connection, with nothing said that was not read yet.
    fn has_ended(&mut self) -> bool {
        match self.answers.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    fn line(&mut self) -> Result<Answer, Failure> {
        let mut line = Vec::new();
        let mut limited = self.answers.by_ref().take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line).map_err(|_| unheard())?;
        serde_json::from_slice(&line).map_err(|_| unheard())
    }

    /// Waits for the end, and shows what is said meanwhile.
    fn result(mut self) -> Result<Value, Failure> {
        loop {
            match self.line()? {
                Answer::Say(text) => say(&text),
                Answer::Result(value) => return Ok(value),
                Answer::Error { message, status } => return Err(Failure { message, status }),
                Answer::Taken | Answer::Elsewhere => return Err(unheard()),
            }
        }
    }
}
