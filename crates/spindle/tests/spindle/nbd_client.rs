//! The NBD client on real sockets, with the field's servers at the other end.
//!
//! What could break: a server that negotiates in another way than ours, one that lacks what ours has (structured
//! replies, FUA, write-zeroes, small blocks), answers that come in pieces or out of order, a server that is killed.
//!
//! The servers are Debian's nbdkit and qemu-utils (qemu-nbd). Where one is missing its test says so and is skipped.

use export::nbd::{Client, ClientError, ClientOptions};
use fixtures::extent::some;
use futures_util::future::join_all;
use host::{Address, HostRuntime, ReactorKind, SocketStream};
use rt::{Buf, Device, ExtentKind, IoErrorKind, Request, SgList};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

const SIZE: u64 = 8 << 20;

/// A server that runs; killed at the end.
struct Serving {
    child: Child,
    socket: PathBuf,
    dir: tempfile::TempDir,
}

impl Serving {
    /// Starts a server that makes the socket `s` in its folder; `None` where it is not installed.
    fn start(program: &str, arguments: &[&str]) -> Option<Serving> {
        if Command::new(program).arg("--version").output().is_err() {
            eprintln!("skipped: {program} is not installed");
            return None;
        }
        let dir = fixtures::scratch::folder();
        let disk = std::fs::File::create(dir.path().join("disk")).expect("made");
        disk.set_len(SIZE).expect("longer");
        let socket = dir.path().join("s");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(dir.path()).stdout(Stdio::null());
        let child = command.spawn().expect("it was found before");
        let serving = Serving { child, socket, dir };
        let mut waited = 0;
        while !serving.socket.exists() {
            std::thread::sleep(Duration::from_millis(20));
            waited += 1;
            assert!(waited < 1500, "{program} {arguments:?} does not listen");
        }
        Some(serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After a test that killed it there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client on both reactors in turn.
fn everywhere(serving: &Serving, test: impl AsyncFn(Rc<Client>) + Copy + 'static) {
    for kind in [ReactorKind::Auto, ReactorKind::Threads] {
        let runtime = HostRuntime::new(kind).expect("a reactor");
        let (rt, stream) = (runtime.rt(), connect(&runtime, &serving.socket));
        let run = async move {
            let client = Client::connect(&rt, stream, &ClientOptions::default()).await;
            let client = Rc::new(client.expect("connected"));
            test(Rc::clone(&client)).await;
            client.disconnect().await;
            assert_eq!(client.fault(), None);
        };
        runtime.runtime().block_on(run).expect("a real run never stalls");
    }
}

fn connect(runtime: &HostRuntime, socket: &Path) -> Rc<SocketStream> {
    // The path is there before the server listens.
    for _ in 0..500 {
        let address = Address::Unix(socket.to_owned());
        match SocketStream::connect(&runtime.host(), &address) {
            Ok(stream) => return Rc::new(stream),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    panic!("nobody listens on {}", socket.display());
}

/// Many requests at a time, each in a part of its own, against a model.
async fn agrees_with_a_model(client: Rc<Client>) {
    let geometry = client.geometry();
    assert_eq!(geometry.capacity, ByteCount(SIZE));
    let block = geometry.logical_block.bytes();
    let mut prng = Prng::new(block);
    let mut model = vec![0_u8; SIZE as usize];
    let wipe = Request::write(Offset(0), SgList::zeros(SIZE as usize));
    client.submit(wipe).await.expect("wiped");
    for round in 0..12 {
        let parts = [1, 40, 300][round % 3];
        let part = SIZE / parts / block * block;
        let mut asked = Vec::new();
        for n in 0..parts {
            let from = n * part + prng.below(part / block) * block;
            let len = (1 + prng.below(((n + 1) * part - from) / block)) * block;
            let byte = 1 + prng.below(255) as u8;
            let data = SgList::from(Buf::copy_of(&vec![byte; len as usize]));
            let kind = prng.below(6);
            let request = match kind {
                0 | 1 => Request::read(Offset(from), ByteCount(len)),
                2 => Request::write_fua(Offset(from), data),
                3 => Request::write(Offset(from), data),
                4 => Request::write_zeroes(Offset(from), ByteCount(len)),
                _ => Request::flush(),
            };
            asked.push((kind, from as usize, (from + len) as usize, byte, client.submit(request)));
        }
        let ends: Vec<_> = asked
            .into_iter()
            .map(async |(kind, from, to, byte, end)| (kind, from, to, byte, end.await))
            .collect();
        for (kind, from, to, byte, end) in join_all(ends).await {
            let data = end.expect("answered");
            match kind {
                0 | 1 => assert!(data.to_vec() == model[from..to], "round {round}"),
                2 | 3 => model[from..to].fill(byte),
                4 => model[from..to].fill(0),
                _ => {}
            }
        }
    }
    let all = client.submit(Request::read(Offset(0), ByteCount(SIZE))).await.expect("read");
    assert!(all.to_vec() == model);
    match client.submit(Request::discard(Offset(0), ByteCount(SIZE))).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind, IoErrorKind::NotSupported),
    }
    let extents = client.extents(Offset(0), ByteCount(SIZE), 10_000).await.expect("told");
    assert_eq!(extents.iter().map(|extent| extent.len.bytes()).sum::<u64>(), SIZE);
}

#[test]
fn nbdkit_with_and_without_what_a_server_may_lack_holds_what_was_written() {
    fixtures::takes_long!();
    let base = ["--foreground", "--exit-with-parent", "-U", "s"];
    let servers = [
        &["memory", "8M"][..],
        &["--no-sr", "memory", "8M"],
        &["--filter=fua", "--filter=nozero", "memory", "8M"],
        &[
            "--filter=blocksize-policy",
            "memory",
            "8M",
            "blocksize-minimum=4096",
            "blocksize-maximum=64K",
        ],
        &["--filter=noextents", "file", "disk"],
        &["file", "disk"],
    ];
    for more in some(servers, 2) {
        let Some(serving) = Serving::start("nbdkit", &[&base[..], more].concat()) else { return };
        everywhere(&serving, agrees_with_a_model);
    }
}

#[test]
fn qemu_holds_what_was_written() {
    let arguments = ["-k", "s", "-f", "raw", "-t", "--discard=unmap", "disk"];
    // qemu-nbd wants the socket's full path.
    let dir = fixtures::scratch::folder();
    let socket = dir.path().join("s").display().to_string();
    let mut arguments = arguments.map(str::to_owned);
    arguments[1].clone_from(&socket);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if Command::new("qemu-nbd").arg("--version").output().is_err() {
        return eprintln!("skipped: qemu-nbd is not installed");
    }
    std::fs::File::create(dir.path().join("disk")).and_then(|f| f.set_len(SIZE)).expect("a disk");
    let child = Command::new("qemu-nbd").args(&arguments).current_dir(dir.path()).spawn();
    let serving =
        Serving { child: child.expect("it was found before"), socket: socket.into(), dir };
    everywhere(&serving, agrees_with_a_model);
}

#[test]
fn our_own_server_holds_what_was_written() {
    let spindle = env!("CARGO_BIN_EXE_spindle");
    let serving = Serving::start(spindle, &["serve", "disk", "--nbd", "unix:s"]);
    everywhere(&serving.expect("it is ours"), agrees_with_a_model);
}

#[test]
fn an_error_of_the_server_is_an_error_of_the_request_alone() {
    let arguments = [
        "--foreground",
        "--exit-with-parent",
        "-U",
        "s",
        "--filter=error",
        "memory",
        "8M",
        "error-pread=ENOSPC",
        "error-pread-rate=100%",
    ];
    let Some(serving) = Serving::start("nbdkit", &arguments) else { return };
    everywhere(&serving, async |client| {
        for _ in 0..3 {
            let read = client.submit(Request::read(Offset(0), ByteCount(4096))).await;
            assert_eq!(read.expect_err("it errs").kind, IoErrorKind::NoSpace);
            client.submit(Request::flush()).await.expect("flushed");
        }
    });
}

#[test]
fn a_read_only_server_an_unknown_export_and_holes_are_told() {
    let base = ["--foreground", "--exit-with-parent", "-r", "-U", "s"];
    let Some(serving) = Serving::start("nbdkit", &[&base[..], &["file", "disk"]].concat()) else {
        return;
    };
    assert!(serving.dir.path().join("disk").is_file());
    everywhere(&serving, async |client| {
        assert!(client.read_only());
        let data = SgList::from(Buf::copy_of(&[1; 4096]));
        let end = client.submit(Request::write(Offset(0), data)).await;
        assert_eq!(end.expect_err("refused").kind, IoErrorKind::ReadOnly);
        let holes = client.extents(Offset(0), ByteCount(SIZE), 10).await.expect("told");
        assert!(holes.iter().all(|extent| extent.kind == ExtentKind::Hole), "{holes:?}");
    });
    let ours = Serving::start(
        env!("CARGO_BIN_EXE_spindle"),
        &["serve", "disk", "--name", "data", "--nbd", "unix:s"],
    );
    let ours = ours.expect("it is ours");
    let runtime = HostRuntime::new(ReactorKind::Auto).expect("a reactor");
    let (rt, stream) = (runtime.rt(), connect(&runtime, &ours.socket));
    let run = async move {
        let options = ClientOptions { export: "nothing".into(), ..ClientOptions::default() };
        Client::connect(&rt, stream, &options).await.err()
    };
    let error = runtime.runtime().block_on(run).expect("ends");
    assert!(matches!(error, Some(ClientError::NoSuchExport { .. })), "{error:?}");
}

/// What was answered with FUA is there though the server is killed; what was under way ends with an error.
#[test]
fn a_killed_server_ends_what_is_under_way_and_loses_nothing_that_was_answered() {
    let spindle = env!("CARGO_BIN_EXE_spindle");
    let mut serving =
        Serving::start(spindle, &["serve", "disk", "--nbd", "unix:s"]).expect("it is ours");
    let runtime = HostRuntime::new(ReactorKind::Auto).expect("a reactor");
    let (rt, stream) = (runtime.rt(), connect(&runtime, &serving.socket));
    let id = serving.child.id().to_string();
    let run = async move {
        let client = Client::connect(&rt, stream, &ClientOptions::default()).await;
        let client = Rc::new(client.expect("connected"));
        let writes: Vec<_> = (0..512_u64)
            .map(|n| {
                let data = SgList::from(Buf::fill(n + 1, 16384));
                let client = Rc::clone(&client);
                async move { (n, client.submit(Request::write_fua(Offset(n * 16384), data)).await) }
            })
            .collect();
        let kill = async {
            rt.sleep(Duration::from_millis(3)).await;
            Command::new("kill").args(["-KILL", &id]).status().expect("kill starts");
        };
        let (ends, ()) = futures_util::future::join(join_all(writes), kill).await;
        let late = client.submit(Request::flush()).await;
        assert_eq!(late.expect_err("gone").kind, IoErrorKind::Gone);
        client.disconnect().await;
        let answered = ends.into_iter().filter_map(|(n, end)| match end {
            Ok(_) => Some(n),
            Err(error) => {
                assert_eq!(error.kind, IoErrorKind::Gone);
                None
            }
        });
        answered.collect::<Vec<u64>>()
    };
    let answered = runtime.runtime().block_on(run).expect("ends");
    serving.child.wait().expect("it was killed");
    let disk = std::fs::read(serving.dir.path().join("disk")).expect("there");
    for n in answered {
        let part = &disk[n as usize * 16384..][..16384];
        assert!(part.chunks(8).all(|word| word == (n + 1).to_le_bytes()), "write {n}");
    }
}
