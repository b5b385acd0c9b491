//! `spindle serve` among clients that mean no good, or are just strange: from the outside, by raw connections.
//!
//! What could break: a few bytes that keep the server busy after their sender has gone, strangers that keep out who has a
//! certificate, memory beyond what was allowed, zeros for what can't be read, bytes of a file that nobody can reach.
//!
//! All that the server is asked is bounded in number and time, and it listens on unix sockets in a temporary folder.

use crate::serving;

use serving::Serving;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Within this a new client is greeted and its first read answered, whatever others do. (Half a second would do; the
/// machine of a test has other work.)
const PROMPT: Duration = Duration::from_secs(2);

const READ: u16 = 0;
const DISC: u16 = 2;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

fn start(dir: &Path, program: &str, arguments: &[&str]) -> Serving {
    Serving::start(Command::new(program).args(arguments).current_dir(dir))
}

fn spindle(dir: &Path, arguments: &[&str]) -> Serving {
    let all = [&["serve"], arguments, &["--nbd", "unix:s"]].concat();
    start(dir, env!("CARGO_BIN_EXE_spindle"), &all)
}

fn connect(dir: &Path) -> UnixStream {
    let stream = UnixStream::connect(dir.join("s")).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn request(command: u16, flags: u16, at: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(7_u64.to_be_bytes());
    bytes.extend(at.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

fn take<const N: usize>(stream: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).expect("an answer");
    bytes
}

/// Takes the replies to an option, up to the last; its type.
fn option_end(stream: &mut UnixStream) -> u32 {
    loop {
        let head: [u8; 20] = take(stream);
        let number =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let mut data = vec![0; number(16) as usize];
        stream.read_exact(&mut data).expect("its data");
        if number(12) == 1 || number(12) >> 31 == 1 {
            return number(12);
        }
    }
}

/// A client that was greeted and chose the first export; its size.
fn go(dir: &Path, structured: bool) -> (UnixStream, u64) {
    let mut stream = connect(dir);
    assert_eq!(&take::<18>(&mut stream)[..16], b"NBDMAGICIHAVEOPT");
    stream.write_all(&3_u32.to_be_bytes()).expect("sent");
    if structured {
        stream.write_all(&option(8, &[])).expect("sent");
        assert_eq!(option_end(&mut stream), 1);
        let context = [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15][..], b"base:allocation"].concat();
        stream.write_all(&option(10, &context)).expect("sent");
        assert_eq!(option_end(&mut stream), 1);
    }
    // EXPORT_NAME with the empty name: size and flags are all that is answered.
    stream.write_all(&option(1, &[])).expect("sent");
    let told: [u8; 10] = take(&mut stream);
    (
        stream,
        u64::from_be_bytes([
            told[0], told[1], told[2], told[3], told[4], told[5], told[6], told[7],
        ]),
    )
}

/// Reads, over a connection without structured replies: the bytes, or the error's number.
fn read(stream: &mut UnixStream, at: u64, len: u32) -> Result<Vec<u8>, u32> {
    stream.write_all(&request(READ, 0, at, len)).expect("sent");
    let head: [u8; 16] = take(stream);
    match u32::from_be_bytes([head[4], head[5], head[6], head[7]]) {
        0 => {
            let mut data = vec![0; len as usize];
            stream.read_exact(&mut data).expect("its data");
            Ok(data)
        }
        error => Err(error),
    }
}

#[track_caller]
fn is_served_promptly(dir: &Path) {
    let begun = Instant::now();
    let (mut stream, _) = go(dir, false);
    read(&mut stream, 0, 512).expect("read");
    let took = begun.elapsed();
    assert!(took < PROMPT, "a new client waited for {took:?}");
}

fn sparse(path: &Path, len: u64) {
    fs::File::create(path).and_then(|file| file.set_len(len)).expect("made");
}

#[test]
fn thousands_of_huge_requests_whose_clients_leave_keep_nobody_waiting() {
    let dir = fixtures::scratch::folder();
    let dir = dir.path();
    sparse(&dir.join("disk"), 5 << 30);
    let serving = spindle(dir, &["disk"]);
    for (command, flags) in [(CACHE, 0), (WRITE_ZEROES, 0), (TRIM, 0), (BLOCK_STATUS, 0), (READ, 0)]
    {
        for goodbye in [false, true] {
            let len = if command == READ { 2 << 20 } else { u32::MAX };
            let mut requests = request(command, flags, 0, len).repeat(16);
            if goodbye {
                requests.extend(request(DISC, 0, 0, 0));
            }
            let clients: Vec<UnixStream> = (0..64).map(|_| go(dir, true).0).collect();
            clients.iter().for_each(|mut client| client.write_all(&requests).expect("sent"));
            drop(clients);
            is_served_promptly(dir);
        }
    }
    serving.stop();
}

#[test]
fn strangers_that_say_nothing_or_half_of_something_keep_nobody_waiting() {
    let dir = fixtures::scratch::folder();
    let dir = dir.path();
    sparse(&dir.join("disk"), 1 << 20);
    let serving = spindle(dir, &["disk"]);
    let (mut served, _) = go(dir, false);
    let says: [&[u8]; 5] =
        [b"", &[0, 0, 0, 3], b"\0\0\0\x03IHAVEOPT\0\0", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 100]];
    let mut strangers = Vec::new();
    for n in 0..300 {
        let mut stranger = connect(dir);
        stranger.write_all(says[n % says.len()]).expect("sent");
        strangers.push(stranger);
    }
    is_served_promptly(dir);
    // A flood of options whose answers nobody takes.
    for _ in 0..100 {
        let mut flood = connect(dir);
        flood.set_write_timeout(Some(Duration::from_millis(10))).expect("set");
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option(3, &[]).repeat(4000));
        // It may be full, or sent away.
        let _ = flood.write_all(&bytes);
        strangers.push(flood);
    }
    is_served_promptly(dir);
    read(&mut served, 0, 512).expect("who is served stays so");
    serving.stop();
}

#[test]
fn clients_that_take_no_answers_hold_no_more_memory_than_was_allowed() {
    fixtures::takes_long!();
    let dir = fixtures::scratch::folder();
    let dir = dir.path();
    sparse(&dir.join("disk"), 64 << 20);
    let serving = spindle(dir, &["disk", "--memory", "64MiB"]);
    let before = serving.memory_max();
    let clients: Vec<UnixStream> = (0..32).map(|_| go(dir, false).0).collect();
    for mut client in &clients {
        client.write_all(&request(READ, 0, 0, 32 << 20).repeat(4)).expect("sent");
    }
    std::thread::sleep(Duration::from_secs(1));
    let grown = serving.memory_max() - before;
    assert!(grown < (64 + 40) << 20, "it grew by {} MiB", grown >> 20);
    drop(clients);
    is_served_promptly(dir);
    serving.stop();
}

#[test]
fn a_lack_of_memory_is_the_error_of_a_request_and_not_the_end_of_the_server() {
    fixtures::takes_long!();
    let dir = fixtures::scratch::folder();
    let dir = dir.path();
    sparse(&dir.join("disk"), 64 << 20);
    let script = "ulimit -v 700000; exec \"$0\" serve disk --nbd unix:s";
    let serving = start(dir, "sh", &["-c", script, env!("CARGO_BIN_EXE_spindle")]);
    let mut clients: Vec<UnixStream> = (0..40).map(|_| go(dir, false).0).collect();
    for client in &mut clients {
        client.write_all(&request(READ, 0, 0, 32 << 20)).expect("sent");
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut refused = 0;
    for client in &mut clients {
        let head: [u8; 16] = take(client);
        match u32::from_be_bytes([head[4], head[5], head[6], head[7]]) {
            0 => {}
            error => {
                assert_eq!(error, 12, "ENOMEM");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "there was not memory for all");
    drop(clients);
    is_served_promptly(dir);
    serving.stop();
}

#[test]
fn a_file_of_any_length_is_served_whole() {
    let dir = fixtures::scratch::folder();
    let dir = dir.path();
    for len in [1, 511, 513, 100_001] {
        let mut bytes: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        fs::write(dir.join("disk"), &bytes).expect("written");
        let serving = spindle(dir, &["disk"]);
        let (mut stream, size) = go(dir, false);
        assert_eq!(size, len as u64);
        assert!(read(&mut stream, 0, len as u32).expect("read") == bytes);
        stream.write_all(&request(1, 1, len as u64 - 1, 1)).expect("sent");
        stream.write_all(b"x").expect("sent");
        assert_eq!(take::<16>(&mut stream)[4..8], [0; 4]);
        drop(stream);
        serving.stop();
        bytes[len - 1] = b'x';
        assert!(fs::read(dir.join("disk")).expect("there") == bytes);
    }
}

#[test]
fn what_was_cut_off_a_served_file_is_no_hole_to_copy_programs() {
    let dir = fixtures::scratch::folder();
    let dir = dir.path();
    fs::write(dir.join("disk"), vec![1; 8 << 20]).expect("written");
    let serving = spindle(dir, &["disk", "--readonly"]);
    fs::File::options()
        .write(true)
        .open(dir.join("disk"))
        .and_then(|file| file.set_len(3 << 20))
        .expect("cut");
    let (mut stream, _) = go(dir, true);
    stream.write_all(&request(BLOCK_STATUS, 0, 4 << 20, 4 << 20)).expect("sent");
    let head: [u8; 20] = take(&mut stream);
    assert_eq!((head[7], head[19]), (5, 12), "one extent");
    assert_eq!(take::<12>(&mut stream), [0, 0, 0, 1, 0, 0x40, 0, 0, 0, 0, 0, 0], "of data");
    drop(stream);
    for call in [
        &["nbdcopy", "nbd+unix:///?socket=s", "copy"][..],
        &["qemu-img", "convert", "-O", "raw", "nbd+unix:///?socket=s", "copy"],
    ] {
        let Ok(output) = Command::new(call[0]).args(&call[1..]).current_dir(dir).output() else {
            eprintln!("skipped: {} is not installed", call[0]);
            continue;
        };
        assert!(!output.status.success(), "{call:?}");
    }
    serving.stop();
}
