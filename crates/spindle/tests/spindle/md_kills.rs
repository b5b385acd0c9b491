//! RAID sets whose server is killed again and again: while it starts, and in the milliseconds after a write.
//!
//! What could break: a set that no command opens any more though nothing of it was lost, members that are left out though
//! they missed nothing, a write that was answered and is not there.

use export::nbd::{Client, ClientOptions};
use fixtures::extent::{by_extent, some};
use host::{Address, HostRuntime, ReactorKind, SocketStream};
use rt::{Buf, Device, Request};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use stdx::{Offset, Prng};

const DISK_BYTES: u64 = 12 << 20;
/// Kills of each set.
fn kills() -> u64 {
    by_extent(6, 16)
}
/// Sectors that are written, one at a time.
const SECTORS: u64 = 4000;

fn spindle(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.current_dir(folder).env_remove("SPINDLE_DEVICES");
    command.env("SPINDLE_RUN_DIR", folder.join("run")).args(["-d", "disks", "md"]);
    command
}

/// What a command says, which must go well.
#[track_caller]
fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = spindle(folder).args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

/// Writes a sector of this byte, and hears that it is written.
fn write(socket: &Path, sector: u64, byte: u8) {
    let runtime = HostRuntime::new(ReactorKind::Auto).expect("a reactor");
    let stream = SocketStream::connect(&runtime.host(), &Address::Unix(socket.to_owned()));
    let (rt, stream) = (runtime.rt(), Rc::new(stream.expect("it listens")));
    let run = async move {
        let client = Client::connect(&rt, stream, &ClientOptions::default()).await;
        let data = Buf::copy_of(&[byte; 512]);
        let write = Request::write(Offset(sector * 512), data);
        client.expect("connected").submit(write).await.expect("written");
    };
    runtime.runtime().block_on(run).expect("it ends");
}

fn kill_again_and_again(level: &str, count: usize, more: &[&str], seed: u64) {
    let folder = fixtures::scratch::folder();
    let folder = folder.path();
    std::fs::create_dir(folder.join("disks")).expect("made");
    let disks: Vec<String> = (0..count).map(|number| format!("disks/{number}")).collect();
    for disk in &disks {
        let file = std::fs::File::create(folder.join(disk));
        file.and_then(|file| file.set_len(DISK_BYTES)).expect("a disk");
    }
    let count_text = count.to_string();
    let mut create = vec!["create", "data", "-l", level, "-n", &count_text, "--assume-clean"];
    create.extend(more.iter().copied().chain(disks.iter().map(String::as_str)));
    said(folder, &create);
    let (mut prng, mut model) = (Prng::new(seed), vec![0; SECTORS as usize]);
    let socket = folder.join("s");
    for kill in 0..kills() {
        let mut server = spindle(folder)
            .args(["serve", "data", "--nbd", "unix:s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        if prng.chance(0.4) {
            std::thread::sleep(Duration::from_micros(prng.below(40_000)));
        } else {
            let mut ready = String::new();
            let output = server.stdout.as_mut().expect("piped");
            BufReader::new(output).read_line(&mut ready).expect("a line");
            if !ready.contains("serving 1 export") {
                let output = server.wait_with_output().expect("it ends");
                panic!("{level}, kill {kill}: {}", String::from_utf8_lossy(&output.stderr));
            }
            let (sector, byte) = (prng.below(SECTORS), 1 + prng.below(255) as u8);
            write(&socket, sector, byte);
            model[sector as usize] = byte;
            std::thread::sleep(Duration::from_micros(prng.below(4_000)));
        }
        server.kill().expect("killed");
        server.wait().expect("it ends");
    }
    let assembled = said(folder, &["assemble", "data"]);
    assert!(!assembled.contains("left out"), "{level}: {assembled}");
    let detail = said(folder, &["detail", "data"]);
    let active = format!("Active Devices : {count}\n");
    assert!(detail.contains(&active) && !detail.contains("degraded"), "{level}: {detail}");
    assert!(said(folder, &["check", "data"]).contains("mismatch_cnt = 0"), "{level}");
    said(folder, &["dump", "data", "out"]);
    let content = std::fs::read(folder.join("out")).expect("dumped");
    for (sector, byte) in content.chunks(512).zip(&model) {
        assert!(sector.iter().all(|own| own == byte), "{level}: a written sector");
    }
}

#[test]
fn servers_that_are_killed_again_and_again_leave_sets_that_are_whole() {
    let sets: [(&str, usize, &[&str]); 5] = [
        ("5", 3, &[]),
        ("5", 3, &["--bitmap=internal"]),
        ("6", 5, &[]),
        ("1", 3, &[]),
        ("10", 4, &[]),
    ];
    for (n, (level, count, more)) in some(sets.into_iter().enumerate(), 2) {
        kill_again_and_again(level, count, more, n as u64);
    }
}
