//! A program that serves until it is told to stop.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
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

/// A client of NBD at a socket, once it has chosen the export of this name; nothing where there is none.
pub fn connected(socket: &Path, name: &str) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("it greets");
    // Fixed newstyle without zeros, and the option that names an export.
    let len = (name.len() as u32).to_be_bytes();
    let words =
        [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &len, name.as_bytes()];
    stream.write_all(&words.concat()).expect("it is taken");
    let mut info = [0; 10];
    stream.read_exact(&mut info).is_ok().then_some(stream)
}

/// The head of a request: of this kind, at this place, for so many bytes.
fn head(command: u16, at: u64, bytes: u32) -> Vec<u8> {
    let magic = 0x2560_9513_u32.to_be_bytes();
    let (at, len, cookie) = (at.to_be_bytes(), bytes.to_be_bytes(), [0; 8]);
    [&magic[..], &[0; 2], &command.to_be_bytes(), &cookie, &at, &len].concat()
}

/// Waits for an answer without an error.
#[track_caller]
fn answered(client: &mut UnixStream) {
    let mut answer = [0; 16];
    client.read_exact(&mut answer).expect("it answers");
    assert_eq!(answer[4..8], [0; 4], "an error");
}

/// Writes to the begin of a client's export, and flushes.
#[track_caller]
pub fn write(client: &mut UnixStream, content: &[u8]) {
    const PIECE: usize = 1 << 20;
    for (at, piece) in content.chunks(PIECE).enumerate() {
        client.write_all(&head(1, (at * PIECE) as u64, piece.len() as u32)).expect("taken");
        client.write_all(piece).expect("taken");
        answered(client);
    }
    client.write_all(&head(3, 0, 0)).expect("taken");
    answered(client);
}

/// Asks for this at a place of a client's export, and gives back the number of the error; 0 where there is none.
pub fn tried(client: &mut UnixStream, command: Ask, at: u64, bytes: u32) -> u32 {
    client.write_all(&head(command as u16, at, bytes)).expect("taken");
    if let Ask::Write = command {
        client.write_all(&vec![0x5a; bytes as usize]).expect("taken");
    }
    let mut answer = [0; 16];
    client.read_exact(&mut answer).expect("it answers");
    let error = u32::from_be_bytes([answer[4], answer[5], answer[6], answer[7]]);
    if let (Ask::Read, 0) = (command, error) {
        client.read_exact(&mut vec![0; bytes as usize]).expect("it answers");
    }
    error
}

/// What a client asks for.
#[derive(Clone, Copy)]
pub enum Ask {
    Read = 0,
    Write = 1,
    WriteZeroes = 6,
}

/// What the begin of a client's export holds.
#[track_caller]
pub fn read(client: &mut UnixStream, bytes: u32) -> Vec<u8> {
    client.write_all(&head(0, 0, bytes)).expect("taken");
    answered(client);
    let mut content = vec![0; bytes as usize];
    client.read_exact(&mut content).expect("it answers");
    content
}

/// Has a client write so many zeros to the begin of its export, or flush it where they are none; nobody waits for the answer.
pub fn ask_to_write(client: &mut UnixStream, bytes: u32) {
    let command = if bytes == 0 { 3_u16 } else { 1 };
    client
        .write_all(&head(command, 0, bytes))
        .and_then(|()| client.write_all(&vec![0; bytes as usize]))
        .expect("taken");
}
