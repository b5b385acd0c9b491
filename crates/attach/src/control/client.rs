//! Asking the process that holds what a command is about.
//!
//! It is held where one of its devices is locked by a writer and somebody answers on its socket who has the very same
//! files open. Then that process does what is asked, since nobody else may write to the devices. In any other case the
//! command goes on by itself, and is told by the locks what it can't do.
//!
//! The command blocks while it waits: it has nothing else to do.

use super::folder::socket_of;
use super::message::{Answer, LINE_BYTES_MAX, Numbers, Request, VERSION};
use crate::context::Context;
use crate::error::Error;
use crate::event::{Event, Events};
use host::{FileDevice, FileOptions, Identity, SocketStream};
use rt::StreamRef;
use serde::Serialize;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// How long a server may take to say that it heard. One that is stopped, or hangs, is not waited for longer.
const HEARD_MAX: Duration = Duration::from_secs(10);
/// How long locks of a server that ended are waited for, in steps of [`RELEASE_REST`]: the kernel closes its files some
/// milliseconds after it.
const RELEASE_TRIES_MAX: u32 = 100;
const RELEASE_REST: Duration = Duration::from_millis(50);

/// What may be held by another process.
pub struct Wanted<'a> {
    /// The name of its socket.
    pub socket: &'a str,
    /// Its devices. With none whoever has the socket is asked, and answers what does not hang on them.
    pub devices: Vec<PathBuf>,
    /// What it is, and how it is served, for messages.
    pub words: Words,
}

/// How messages speak of what is held.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// `set`.
    pub what: &'static str,
    /// The command that serves one.
    pub serve: &'static str,
}

/// Why a server says nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// It closed the connection.
    Ended,
    /// It had its time.
    TooLong,
}

/// The process that holds it, and took the request.
pub struct Server {
    answers: BufReader<UnixStream>,
    held: Vec<PathBuf>,
    events: Events,
    words: Words,
}

/// Waits until nobody holds these devices any more; false where somebody goes on holding them.
fn await_release(context: &Context, held: &[PathBuf]) -> bool {
    for _ in 0..RELEASE_TRIES_MAX {
        if !held.iter().any(|path| is_held(context, path)) {
            return true;
        }
        std::thread::sleep(RELEASE_REST);
    }
    false
}

fn is_held(context: &Context, path: &Path) -> bool {
    let options = FileOptions { direct: false, read_only: true };
    let device = FileDevice::open(&context.host(), path, options);
    device.is_ok_and(|device| device.is_written_elsewhere())
}

/// Sends a request to who holds it, and returns when it was taken; none where nobody does.
///
/// # Errors
/// What is answered, and where the other end goes before it says anything.
pub fn reach(
    context: &Context,
    wanted: Wanted<'_>,
    ask: impl Serialize,
) -> Result<Option<Server>, Error> {
    let Wanted { socket, devices, words } = wanted;
    let is_named = !devices.is_empty();
    let held: Vec<PathBuf> = devices.into_iter().filter(|path| is_held(context, path)).collect();
    let numbers = |path: &PathBuf| Identity::of(path).ok().map(Identity::numbers);
    let devices: Vec<Numbers> = held.iter().filter_map(numbers).collect();
    if devices.is_empty() && is_named {
        return Ok(None);
    }
    // Without a folder, or with nobody there, the locks say what is to be said.
    let Ok(path) = socket_of(socket, false) else { return Ok(None) };
    let Ok(stream) = UnixStream::connect(path) else { return Ok(None) };
    let line = serde_json::to_string(&Request { version: VERSION, devices, ask });
    let line = line.map_err(Error::NoRequest)?;
    let sent = stream
        .set_read_timeout(Some(HEARD_MAX))
        .and_then(|()| stream.set_write_timeout(Some(HEARD_MAX)))
        .and_then(|()| (&stream).write_all(format!("{line}\n").as_bytes()));
    let answers = BufReader::new(stream);
    let mut server = Server { answers, held, events: context.events().clone(), words };
    if sent.is_err() {
        return Ok(None);
    }
    if let Some(silence) = server.silence() {
        // Killed a moment ago: the kernel keeps its socket and its locks for some milliseconds more, and longer where much is to do.
        let may_have_ended = silence == Silence::Ended || !server.held.is_empty();
        return match may_have_ended && await_release(context, &server.held) {
            true => Ok(None),
            false => Err(server.unheard()),
        };
    }
    match server.line()? {
        Answer::Taken => {}
        Answer::Elsewhere => return Ok(None),
        Answer::Error { message, status } => return Err(Error::Answered { message, status }),
        Answer::Say(_) | Answer::Result(_) => return Err(server.unheard()),
    }
    // From here on it may take as long as a rebuild.
    let _ = server.answers.get_ref().set_read_timeout(None);
    Ok(Some(server))
}

impl Server {
    /// Waits for the first answer; why there is none.
    fn silence(&mut self) -> Option<Silence> {
        loop {
            return match self.answers.fill_buf() {
                Ok([_, ..]) => None,
                Ok([]) => Some(Silence::Ended),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => Some(Silence::TooLong),
                    _ => Some(Silence::Ended),
                },
            };
        }
    }

    fn unheard(&self) -> Error {
        Error::Unheard { what: self.words.what, serve: self.words.serve }
    }

    fn line(&mut self) -> Result<Answer, Error> {
        let mut line = Vec::new();
        let mut limited = self.answers.by_ref().take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line).map_err(|_| self.unheard())?;
        serde_json::from_slice(&line).map_err(|_| self.unheard())
    }

    /// Waits for the end, and tells what is said meanwhile.
    ///
    /// # Errors
    /// What is answered.
    pub fn result(&mut self) -> Result<Value, Error> {
        loop {
            match self.line()? {
                Answer::Say(text) => self.events.tell(Event::Said(text)),
                Answer::Result(value) => return Ok(value),
                Answer::Error { message, status } => {
                    return Err(Error::Answered { message, status });
                }
                Answer::Taken | Answer::Elsewhere => return Err(self.unheard()),
            }
        }
    }

    /// The connection, for what goes on over it once the result was read.
    pub fn into_stream(self, context: &Context) -> StreamRef {
        debug_assert!(self.answers.buffer().is_empty(), "it waits for a byte from here");
        Rc::new(SocketStream::over_unix(&context.host(), self.answers.into_inner()))
    }

    /// Waits until it, which ends, holds nothing any more; false where somebody goes on holding the devices.
    pub fn released(self, context: &Context) -> bool {
        await_release(context, &self.held)
    }
}
