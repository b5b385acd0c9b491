//! A RAID set that is served for writing, and is changed, watched and stopped meanwhile.
//!
//! What could break: a command that writes to members beside the server, content that changes while members come and go,
//! a spare that is not taken, a failure that nobody hears of, a request that reaches the server of a copy, a socket that
//! a dead server left, one that others may use, junk on it that ends the server.
//!
//! Members that fail are files in memory that are sealed against writing while they are served.

use export::nbd::{Client, ClientOptions};
use host::{Address, HostRuntime, ReactorKind, SocketStream};
use rt::{Buf, Device, Request, SgList};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stdx::{Offset, Prng};

const DISK_BYTES: u64 = 24 << 20;
/// What the writer writes to: the first of the set.
const WRITTEN_BYTES: usize = 8 << 20;
/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with disks, a folder for sockets, and what the program does with them.
struct Bench {
    folder: tempfile::TempDir,
    /// Keeps the disks that are files in memory.
    sealed: Vec<OwnedFd>,
}

impl Bench {
    fn new() -> Bench {
        let folder = fixtures::scratch::folder();
        std::fs::create_dir(folder.path().join("disks")).expect("made");
        Bench { folder, sealed: Vec::new() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Disks `disks/0` and so on.
    fn with_files(count: usize) -> Bench {
        let bench = Bench::new();
        for number in 0..count {
            let file = std::fs::File::create(bench.path().join(format!("disks/{number}")));
            file.and_then(|file| file.set_len(DISK_BYTES)).expect("a disk");
        }
        bench
    }

    /// The same, of files in memory that can be sealed.
    fn with_memory(count: usize) -> Bench {
        let mut bench = Bench::new();
        for number in 0..count {
            let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
            let file = memfd_create("disk", flags).expect("memory");
            ftruncate(&file, DISK_BYTES).expect("a size");
            let at = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            let link = bench.path().join(format!("disks/{number}"));
            std::os::unix::fs::symlink(at, link).expect("linked");
            bench.sealed.push(file);
        }
        bench
    }

    /// From now on nothing can be written to a disk in memory.
    fn break_disk(&self, number: usize) {
        fcntl_add_seals(&self.sealed[number], SealFlags::WRITE).expect("sealed");
    }

    fn run_in(&self, folder: &str, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(["-d", folder, "md"])
            .args(arguments)
            .current_dir(self.path())
            .env_remove("SPINDLE_DEVICES")
            .env("SPINDLE_RUN_DIR", self.path().join("run"))
            .output()
            .expect("the program starts")
    }

    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run_in("disks", arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.text(arguments)).expect("JSON and nothing else")
    }

    #[track_caller]
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run_in("disks", arguments);
        assert!(!output.status.success(), "{arguments:?} is refused");
        let errors = String::from_utf8(output.stderr).expect("text");
        errors.lines().last().unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn create(&self, level: &str, count: usize, more: &[&str]) {
        let count_text = count.to_string();
        let disks: Vec<String> = (0..count).map(|number| format!("disks/{number}")).collect();
        let mut all = vec!["create", "data", "-l", level, "-n", &count_text, "--assume-clean"];
        all.extend(more);
        all.extend(disks.iter().map(String::as_str));
        self.text(&all);
    }

    fn serve(&self) -> Serving {
        Serving::start(self, "disks", "s")
    }

    fn writer(&self) -> Writer {
        Writer::start(self.path().join("s"))
    }

    fn socket(&self) -> PathBuf {
        let run = std::fs::read_dir(self.path().join("run")).expect("a folder");
        let sockets: Vec<PathBuf> = run.map(|entry| entry.expect("listed").path()).collect();
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        sockets[0].clone()
    }

    /// Holds the set's content and its redundancy to what was written.
    #[track_caller]
    fn holds(&self, model: &[u8]) {
        let out = self.path().join("out");
        self.text(&["dump", "data", "--overwrite", out.to_str().expect("text")]);
        let content = std::fs::read(&out).expect("dumped");
        assert!(content[..model.len()] == *model, "the content is what was written");
        assert!(content[model.len()..].iter().all(|byte| *byte == 0), "and nothing else");
        assert_eq!(self.text(&["check", "data"]), "mismatch_cnt = 0\n");
    }

    fn detail(&self, label: &str) -> String {
        let text = self.text(&["detail", "data"]);
        let lines = text.lines().filter_map(|line| line.split_once(" : "));
        let mut found = lines.filter(|(own, _)| own.trim() == label).map(|(_, value)| value.trim());
        found.next().unwrap_or_default().to_owned()
    }
}

/// A server that runs, and what it says; killed at the end.
struct Serving {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Serving {
    fn start(bench: &Bench, folder: &str, socket: &str) -> Serving {
        let address = format!("unix:{socket}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(["-d", folder, "md", "serve", "data", "--nbd", &address])
            .current_dir(bench.path())
            .env_remove("SPINDLE_DEVICES")
            .env("SPINDLE_RUN_DIR", bench.path().join("run"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let said = Arc::new(Mutex::new(Vec::new()));
        let (errors, heard) = (child.stderr.take().expect("piped"), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                heard.lock().expect("nobody panics").push(line);
            }
        });
        let mut ready = String::new();
        let output = child.stdout.as_mut().expect("piped");
        BufReader::new(output).read_line(&mut ready).expect("a line");
        let serving = Serving { child, said };
        assert!(ready.contains("serving 1 export"), "{ready}: {:?}", serving.said());
        serving
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().expect("nobody panics").clone()
    }

    /// Waits until the server has said a line with all of these.
    #[track_caller]
    fn says(&self, parts: &[&str]) -> String {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let said = self.said();
            let mut lines = said.into_iter();
            if let Some(line) = lines.find(|line| parts.iter().all(|part| line.contains(part))) {
                return line;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{parts:?} was not said: {:#?}", self.said());
    }

    /// Waits for its end; the exit status.
    fn ended(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    fn signal(&self, signal: &str) {
        let told = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(told.expect("kill starts").success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After its end there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An NBD client that writes at random all the time.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<u8>>>,
}

impl Writer {
    fn start(socket: PathBuf) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime = HostRuntime::new(ReactorKind::Auto).expect("a reactor");
            let stream = SocketStream::connect(&runtime.host(), &Address::Unix(socket));
            let (rt, stream) = (runtime.rt(), Rc::new(stream.expect("it listens")));
            let run = async move {
                let client = Client::connect(&rt, stream, &ClientOptions::default()).await;
                let client = client.expect("connected");
                let (mut prng, mut model) = (Prng::new(3), vec![0; WRITTEN_BYTES]);
                while !told.load(Ordering::SeqCst) {
                    let len = 512 * (1 + prng.below(128)) as usize;
                    let at = 512 * prng.below((WRITTEN_BYTES - len) as u64 / 512) as usize;
                    let byte = 1 + prng.below(255) as u8;
                    let data = SgList::from(Buf::copy_of(&vec![byte; len]));
                    let written = client.submit(Request::write(Offset(at as u64), data)).await;
                    written.expect("a set within its redundancy takes writes");
                    model[at..at + len].fill(byte);
                    rt.sleep(Duration::from_millis(1)).await;
                }
                client.disconnect().await;
                model
            };
            runtime.runtime().block_on(run).expect("it ends")
        });
        Writer { stop, thread: Some(thread) }
    }

    /// Ends it; what the set must hold.
    fn model(mut self) -> Vec<u8> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().expect("once").join().expect("all was written")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

#[test]
fn every_command_works_on_a_set_that_is_served_and_written_and_its_content_stays() {
    fixtures::takes_long!();
    let bench = Bench::with_files(5);
    bench.create("5", 3, &["--bitmap=internal"]);
    let serving = bench.serve();
    let writer = bench.writer();
    let running = bench.text(&["assemble", "data"]);
    assert!(running.contains("running already with 3 drives"), "{running}");
    assert_eq!(bench.json(&["assemble", "data", "--json"])[0]["served"], true);

    // Lost, and caught up by the bitmap.
    assert_eq!(bench.text(&["fail", "data", "disks/1"]), "set disks/1 faulty in data\n");
    let line = serving.says(&[": Fail: ", "disks/1"]);
    assert!(line.contains("(slot 1): failed by hand; 2 of 3 members are left"), "{line}");
    assert!(line.ends_with("another loss is not survived"), "{line}");
    let needed = bench.refusal(&["fail", "data", "disks/0"]);
    assert!(needed.contains("can't do without slot 0"), "{needed}");
    assert!(bench.detail("State").contains("degraded"), "{}", bench.detail("State"));
    assert_eq!(bench.detail("Failed Devices"), "1");
    let rows = bench.text(&["detail", "data"]);
    assert!(rows.contains("-      faulty   disks/1\n") && rows.contains("removed\n"), "{rows}");
    let added = bench.json(&["add", "data", "disks/1", "--json"]);
    let device = &added["devices"][0];
    assert_eq!((&device["added"], &device["slot"]), (&"re-added".into(), &1.into()));
    assert_eq!(added["done"], serde_json::json!([]), "the server does it");
    serving.says(&["SpareActive: ", "disks/1 (slot 1)"]);
    assert!(bench.refusal(&["add", "data", "disks/1"]).contains("already"));

    // A spare, which a member is copied to; the old one goes.
    assert_eq!(bench.text(&["add", "data", "disks/3"]), "added disks/3\n");
    assert_eq!(bench.detail("Spare Devices"), "1");
    assert!(bench.refusal(&["remove", "data", "disks/1"]).contains("fail it first"));
    let marked = bench.text(&["replace", "data", "disks/0", "--with", "disks/3"]);
    assert_eq!(marked, "marked disks/0 (slot 0 in data) for replacement\n");
    serving.says(&["RebuildFinished: replaced slot 0", "disks/3"]);
    serving.says(&["SpareActive: ", "disks/3 (slot 0)"]);
    let removed = bench.json(&["remove", "data", "failed", "--json"]);
    assert_eq!(removed["removed"], serde_json::json!(["disks/0"]));
    assert_eq!(bench.detail("Failed Devices"), "0");

    // What failed and was not removed can be added again, too.
    assert_eq!(bench.json(&["fail", "data", "disks/3", "--json"])["slot"], 0);
    bench.text(&["add", "data", "disks/3", "disks/4"]);
    serving.says(&["SpareActive: ", "disks/3 (slot 0)"]);
    assert_eq!(bench.text(&["remove", "data", "disks/4"]), "hot removed disks/4 from data\n");

    assert_eq!(bench.text(&["check", "data"]), "mismatch_cnt = 0\n");
    assert_eq!(bench.text(&["repair", "data"]), "mismatch_cnt = 0\n");
    for arguments in
        [&["grow", "data", "--size", "max"][..], &["add", "data", "--journal", "disks/4"]]
    {
        let refused = bench.refusal(arguments);
        assert!(refused.contains("stop its server first"), "{arguments:?}: {refused}");
    }
    let model = writer.model();
    assert!(bench.socket().exists());
    // Somebody is connected, and has not said anything yet.
    let idle = UnixStream::connect(bench.path().join("s")).expect("it listens");
    let refused = bench.refusal(&["stop", "data"]);
    assert!(refused.contains("busy: 1 client is connected"), "{refused}");
    assert_eq!(bench.text(&["stop", "data", "--force"]), "stopped data\n");
    drop(idle);
    // At once: nothing holds the members any more.
    bench.holds(&model);
    assert_eq!(bench.detail("State"), "clean");
    assert_eq!(serving.ended(), Some(0));
    let left = std::fs::read_dir(bench.path().join("run")).expect("a folder").count();
    assert_eq!(left, 0, "the socket is removed");
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_fails_while_it_is_written() {
    fixtures::takes_long!();
    let bench = Bench::with_memory(4);
    bench.create("5", 3, &[]);
    bench.text(&["add", "data", "disks/3"]);
    let serving = bench.serve();
    let writer = bench.writer();
    bench.break_disk(1);
    let line = serving.says(&[": Fail: ", "disks/1 (slot 1)"]);
    assert!(line.contains("not permitted"), "it says why: {line}");
    serving.says(&["RebuildStarted: rebuilding slot 1 on ", "disks/3"]);
    serving.says(&["RebuildFinished: rebuilt slot 1 on "]);
    serving.says(&["SpareActive: ", "disks/3 (slot 1)"]);
    let removed = bench.text(&["remove", "data", "failed"]);
    assert_eq!(removed, "hot removed disks/1 from data\n");
    let model = writer.model();
    bench.text(&["stop", "data"]);
    std::fs::remove_file(bench.path().join("disks/1")).expect("pulled out");
    bench.holds(&model);
}

/// A cut file is no disk with a bad place: what is written there anew would be a hole among right data.
#[test]
fn a_member_whose_file_is_cut_is_failed_and_the_others_tell_what_it_held() {
    fixtures::takes_long!();
    let bench = Bench::with_files(3);
    bench.create("5", 3, &["-c", "64"]);
    let serving = bench.serve();
    let writer = bench.writer();
    std::thread::sleep(Duration::from_millis(300));
    let model = writer.model();
    let cut = std::fs::File::options().write(true).open(bench.path().join("disks/1"));
    cut.and_then(|file| file.set_len(12 << 20)).expect("cut");
    // Its end is read, and missed.
    let refused = bench.refusal(&["check", "data"]);
    assert!(refused.contains("nothing to compare with"), "{refused}");
    let line = serving.says(&[": Fail: ", "disks/1 (slot 1)"]);
    assert!(line.contains("cut short"), "{line}");
    bench.text(&["stop", "data"]);
    let size = std::fs::metadata(bench.path().join("disks/1")).expect("there").len();
    assert_eq!(size, 12 << 20, "nobody made it longer");
    let out = bench.path().join("out");
    bench.text(&["dump", "data", out.to_str().expect("text")]);
    assert!(std::fs::read(&out).expect("dumped")[..model.len()] == *model);
}

#[test]
fn spares_and_replacements_are_failed_too_and_a_refused_add_changes_nothing() {
    let bench = Bench::with_files(5);
    bench.create("5", 3, &[]);
    bench.text(&["add", "data", "disks/3"]);
    let serving = bench.serve();
    assert_eq!(bench.text(&["fail", "data", "disks/3"]), "set disks/3 faulty in data\n");
    serving.says(&["FailSpare", "disks/3", "failed by hand"]);
    bench.text(&["fail", "data", "disks/1"]);
    let refused = bench.refusal(&["add", "data", "disks/1", "disks/nowhere"]);
    assert!(refused.contains("nowhere"), "{refused}");
    assert!(bench.text(&["detail", "data"]).contains("faulty   disks/1"), "it is still listed");
    let twice = bench.refusal(&["add", "data", "disks/4", "disks/../disks/4"]);
    assert!(twice.contains("given twice"), "{twice}");
    bench.text(&["stop", "data"]);

    let offline = Bench::with_files(4);
    offline.create("5", 3, &[]);
    offline.text(&["add", "data", "disks/3"]);
    let spare = offline.refusal(&["fail", "data", "disks/3"]);
    assert!(spare.contains("it is a spare") && spare.contains("remove"), "{spare}");
}

#[test]
fn a_set_without_its_journal_keeps_its_members_and_lets_the_journal_go() {
    let bench = Bench::with_files(4);
    let members = ["disks/0", "disks/1", "disks/2"];
    let create = ["create", "data", "-l5", "-n3", "--assume-clean", "--write-journal", "disks/3"];
    bench.text(&[&create[..], &members].concat());
    let _serving = bench.serve();
    bench.text(&["fail", "data", "disks/3"]);
    let refused = bench.refusal(&["fail", "data", "disks/1"]);
    assert!(
        refused.contains("lacks its journal") && refused.contains("add a journal"),
        "{refused}"
    );
    bench.text(&["remove", "data", "disks/3"]);
    // Nobody has it open any more.
    bench.text(&["create", "other", "-l1", "-n1", "--force", "disks/3"]);
    bench.text(&["stop", "data"]);
}

#[test]
fn a_set_says_when_it_starts_degraded_and_when_too_many_members_are_lost() {
    let bench = Bench::with_memory(4);
    bench.create("6", 4, &[]);
    bench.text(&["fail", "data", "disks/0"]);
    let mut serving = bench.serve();
    serving.says(&["DegradedArray: 3 of 4 members are left", "another loss is survived"]);
    let write = |byte: u8| {
        let runtime = HostRuntime::new(ReactorKind::Auto).expect("a reactor");
        let address = Address::Unix(bench.path().join("s"));
        let stream = SocketStream::connect(&runtime.host(), &address).expect("it listens");
        let rt = runtime.rt();
        let run = async move {
            let client = Client::connect(&rt, Rc::new(stream), &ClientOptions::default()).await;
            let client = client.expect("connected");
            let data = SgList::from(Buf::copy_of(&vec![byte; 4 << 20]));
            let written = client.submit(Request::write(Offset(0), data)).await;
            client.disconnect().await;
            written.is_ok()
        };
        runtime.runtime().block_on(run).expect("it ends")
    };
    bench.break_disk(1);
    assert!(write(1), "one parity is left");
    serving.says(&["Fail: ", "disks/1", "2 of 4 members are left; another loss is not survived"]);
    bench.break_disk(2);
    assert!(!write(2), "nothing is left");
    serving.says(&["has failed: 1 of 4 members are left"]);
    assert!(bench.detail("State").contains("FAILED"), "{}", bench.detail("State"));
    serving.signal("-TERM");
    assert!(serving.child.wait().expect("it ends").code().is_some(), "it ends by itself");
}

#[test]
fn a_server_takes_over_the_socket_of_one_that_was_killed() {
    let bench = Bench::with_files(2);
    bench.create("1", 2, &["--bitmap=internal"]);
    let serving = bench.serve();
    let writer = bench.writer();
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&bench.socket()), mode(&bench.path().join("run"))), (0o600, 0o700));
    let model = writer.model();
    serving.signal("-KILL");
    assert_eq!(serving.ended(), None);
    assert!(bench.socket().exists(), "nobody removed it");
    assert_eq!(bench.detail("Failed Devices"), "0", "and nobody answers there");
    let serving = bench.serve();
    assert!(!serving.said().iter().any(|line| line.starts_with("note:")), "{:?}", serving.said());
    bench.text(&["fail", "data", "disks/1"]);
    serving.says(&["Fail: ", "disks/1 (slot 1)"]);
    bench.text(&["add", "data", "disks/1"]);
    serving.says(&["SpareActive"]);
    bench.text(&["stop", "data"]);
    bench.holds(&model);
}

#[test]
fn a_request_never_reaches_the_server_of_a_copy() {
    fixtures::takes_long!();
    let bench = Bench::with_files(2);
    bench.create("1", 2, &[]);
    std::fs::create_dir(bench.path().join("copy")).expect("made");
    for disk in ["0", "1"] {
        let (from, to) = (format!("disks/{disk}"), format!("copy/{disk}"));
        fixtures::copy(&bench.path().join(from), &bench.path().join(to));
    }
    let first = bench.serve();
    let second = Serving::start(&bench, "copy", "t");
    second.says(&["note: ", "another server listens there"]);
    let refused = bench.run_in("copy", &["fail", "data", "copy/1"]);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && errors.contains("for writing: another process"),
        "{errors}"
    );
    let refused = bench.run_in("copy", &["stop", "data"]);
    assert!(!refused.status.success());
    bench.text(&["fail", "data", "disks/1"]);
    first.says(&["Fail: ", "disks/1"]);
    let copy = bench.run_in("copy", &["detail", "data"]);
    let copy = String::from_utf8_lossy(&copy.stdout).into_owned();
    assert!(!copy.contains("degraded") && !copy.contains("faulty"), "{copy}");
    bench.text(&["stop", "data"]);
    assert_eq!(first.ended(), Some(0));
}

#[test]
fn a_folder_that_others_may_enter_is_not_used_and_the_set_is_served_all_the_same() {
    fixtures::takes_long!();
    let bench = Bench::with_files(2);
    bench.create("1", 2, &[]);
    let run = bench.path().join("run");
    std::fs::create_dir(&run).expect("made");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).expect("allowed");
    let serving = bench.serve();
    serving.says(&["note: ", "chmod 700", "need the server stopped"]);
    assert!(bench.refusal(&["fail", "data", "disks/1"]).contains("for writing: another process"));
    bench.writer().model();
    serving.signal("-TERM");
    assert_eq!(serving.ended(), Some(0));
}

/// One line of a server that was sent this; none where it closed.
fn answer_to(socket: &Path, bytes: &[u8]) -> Option<String> {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    // It may close before it has read all of it.
    let _ = stream.write_all(bytes);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer.lines().next().map(str::to_owned)
}

#[test]
fn junk_on_the_socket_is_answered_and_the_server_goes_on() {
    let bench = Bench::with_files(3);
    bench.create("1", 2, &[]);
    let serving = bench.serve();
    let socket = bench.socket();
    let mut junk: Vec<Vec<u8>> = [
        "\n",
        "GET / HTTP/1.1\r\n",
        "{\"version\":1,\"devices\":[],\"ask\":\"detonate\"}\n",
        "{\"version\":1,\"devices\":[[0,0]],\"ask\":\"check\"}\nand more\n",
        "null\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    junk.push(vec![b'['; 100_000]);
    junk.last_mut().expect("pushed").push(b'\n');
    junk.push(b"\xff\xfe\x00\n".to_vec());
    for bytes in junk {
        let answer = answer_to(&socket, &bytes).expect("a line");
        assert!(answer.starts_with("{\"error\":"), "{answer}");
    }
    // More than a line may have: it may be closed before the answer was read.
    let long = answer_to(&socket, &vec![b' '; 4 << 20]);
    assert!(long.is_none_or(|answer| answer.starts_with("{\"error\":")));
    let elsewhere = answer_to(
        &socket,
        b"{\"version\":1,\"devices\":[[0,0]],\"ask\":{\"stop\":{\"force\":false}}}\n",
    );
    assert_eq!(elsewhere.as_deref(), Some("\"elsewhere\""));
    // As many as are taken at a time, and more; then they go.
    let idle: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    drop(idle);
    bench.text(&["fail", "data", "disks/1"]);
    serving.says(&["Fail: "]);
    assert!(bench.refusal(&["add", "data", "/nowhere"]).contains("/nowhere"));
    bench.text(&["stop", "data"]);
    assert_eq!(serving.ended(), Some(0));
}

/// mdadm refuses to stop what is open. What could break: a client loses its disk by a slip; or a set can't be stopped at all.
#[test]
fn a_set_is_not_stopped_under_a_client_that_writes_unless_it_is_forced() {
    fixtures::takes_long!();
    let bench = Bench::with_files(3);
    bench.create("5", 3, &[]);
    let serving = bench.serve();
    let writer = bench.writer();
    let refused = bench.refusal(&["stop", "data"]);
    assert!(refused.contains("/dev/md/data: it is busy: 1 client is connected"), "{refused}");
    assert!(refused.contains("--force"), "{refused}");
    // It goes on as if nothing had been asked.
    assert_eq!(bench.detail("State"), "active");
    let model = writer.model();
    assert_eq!(bench.text(&["stop", "data"]), "stopped data\n");
    assert_eq!(serving.ended(), Some(0));
    bench.holds(&model);

    let serving = bench.serve();
    let connected = UnixStream::connect(bench.path().join("s")).expect("it listens");
    assert_eq!(bench.text(&["stop", "data", "--force"]), "stopped data\n");
    assert_eq!(serving.ended(), Some(0));
    drop(connected);
    bench.holds(&model);
}

/// What could break: the program is exchanged while a server of the old one runs, and each takes the other's words for
/// something else.
#[test]
fn a_command_of_another_version_is_told_so() {
    let bench = Bench::with_files(2);
    bench.create("1", 2, &[]);
    let serving = bench.serve();
    let mut stream = UnixStream::connect(bench.socket()).expect("it listens");
    stream.write_all(b"{\"version\":99,\"anything\":true}\n").expect("sent");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("a line");
    assert!(answer.contains("version 99") && answer.contains("version 1"), "{answer}");
    bench.text(&["stop", "data"]);
    assert_eq!(serving.ended(), Some(0));
}

#[test]
fn a_client_that_goes_away_does_not_stop_what_it_began() {
    fixtures::takes_long!();
    use std::os::unix::fs::MetadataExt;
    let bench = Bench::with_files(4);
    bench.create("5", 3, &[]);
    let serving = bench.serve();
    let writer = bench.writer();
    bench.text(&["fail", "data", "disks/2"]);
    let disk = std::fs::metadata(bench.path().join("disks/0")).expect("there");
    let devices = serde_json::json!([[disk.dev(), disk.ino()]]);
    let ask = |ask: serde_json::Value| {
        let line =
            format!("{}\n", serde_json::json!({ "version": 1, "devices": devices, "ask": ask }));
        let mut stream = UnixStream::connect(bench.socket()).expect("it listens");
        stream.write_all(line.as_bytes()).expect("sent");
        let mut taken = String::new();
        BufReader::new(stream).read_line(&mut taken).expect("a line");
        assert_eq!(taken, "\"taken\"\n");
    };
    let added = bench.path().join("disks/3");
    ask(serde_json::json!({ "add": { "devices": [added], "re_add": false, "force": false } }));
    serving.says(&["SpareActive: ", "disks/3 (slot 2)"]);
    // A check that nobody waits for ends, and then there may be another.
    ask("check".into());
    let until = Instant::now() + PATIENCE;
    loop {
        let output = bench.run_in("disks", &["check", "data"]);
        if output.status.success() {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "mismatch_cnt = 0\n");
            break;
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains("under way") && Instant::now() < until, "{errors}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let model = writer.model();
    bench.text(&["stop", "data"]);
    bench.holds(&model);
}
