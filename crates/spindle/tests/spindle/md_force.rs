//! `spindle md` on sets of which too few members are left, and on halves that went on without each other.
//!
//! What could break: data that is there and that nothing opens, a member that is taken back without a word, a refusal
//! that does not name what helps, one half that wins silently, a set that stops all others from being assembled, a
//! state that is told as it was before, advice to force what a server has open.

use crate::serving::Serving;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a served set may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);
const DISK_BYTES: u64 = 24 << 20;

/// Where no socket can lie: a server can't be asked here, and what it holds is known by its locks alone.
const NO_FOLDER: &str = "/dev/null";

/// Runs `spindle md` over the devices of some folders.
fn run(folders: &[&Path], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    for folder in folders {
        command.arg("-d").arg(folder);
    }
    command.arg("md").args(arguments).env_remove("SPINDLE_DEVICES");
    command.env("SPINDLE_RUN_DIR", NO_FOLDER);
    command.output().expect("the program starts")
}

#[track_caller]
fn text(folders: &[&Path], arguments: &[&str]) -> String {
    let output = run(folders, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn refusal(folders: &[&Path], arguments: &[&str]) -> String {
    let output = run(folders, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let errors = String::from_utf8(output.stderr).expect("text");
    errors.lines().last().unwrap_or_default().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Disks of a set in a folder of its own, full of something.
fn disks(folder: &Path, count: usize) -> Vec<PathBuf> {
    std::fs::create_dir_all(folder).expect("a folder");
    let disk = |n: usize| {
        let path = folder.join(format!("disk{n}.raw"));
        std::fs::write(&path, fixtures::noise(n as u64 + 1, DISK_BYTES as usize)).expect("a disk");
        path
    };
    (0..count).map(disk).collect()
}

fn create(name: &str, arguments: &[&str], disks: &[PathBuf]) {
    let disks: Vec<String> = disks.iter().map(|disk| disk.display().to_string()).collect();
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    text(&[], &[&["create", name, "--force"], arguments, &disks].concat());
}

fn field(detail: &str, label: &str) -> String {
    let lines = detail.lines().filter_map(|line| line.split_once(" : "));
    let mut found = lines.filter(|(own, _)| own.trim() == label).map(|(_, value)| value.trim());
    found.next().unwrap_or_default().to_owned()
}

/// Two members of three are behind, one more than the other: as when their disks were full one after another.
#[test]
fn members_that_are_behind_are_taken_back_by_force_and_the_content_is_there() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let folder = folder.path();
    let images = disks(folder, 3);
    create("data", &["-l5", "-n3", "-c64", "-binternal"], &images);
    let (d, on) = (images.iter().map(|one| one.display().to_string()), [folder]);
    let names: Vec<String> = d.collect();
    text(&on, &["assemble", "data"]);
    let whole = run(&on, &["dump", "data", "-"]).stdout;
    assert!(whole.len() > 32 << 20);
    let oldest = std::fs::read(&images[2]).expect("read");
    text(&on, &["fail", "data", &names[2]]);
    let older = std::fs::read(&images[1]).expect("read");
    for _ in 0..2 {
        text(&on, &["add", "data", &names[2]]);
        text(&on, &["fail", "data", &names[2]]);
    }
    std::fs::write(&images[1], &older).expect("written");
    std::fs::write(&images[2], &oldest).expect("written");

    for words in [&["assemble", "data"][..], &["assemble", "--run", "data"], &["dump", "data", "-"]]
    {
        let told = refusal(&on, words);
        assert!(told.contains("2 of 3 members are missing"), "{words:?}: {told}");
        let listed =
            |disk: &str| told.split(disk).nth(1).is_some_and(|rest| rest.contains("behind"));
        assert!(listed(&names[1]) && listed(&names[2]), "{words:?}: {told}");
        assert!(told.contains("--force") && told.contains("lost"), "{words:?}: {told}");
    }
    let dumped = run(&on, &["dump", "--force", "data", "-"]);
    assert!(dumped.stdout == whole, "{}", said(&dumped));
    let forced = |text: &str| text.matches("forcing event count in ").count();
    let line = format!("counting {}(1) in, which has ", names[1]);
    let told = said(&dumped);
    assert!(told.matches(&line).count() == 1 && forced(&told) == 0, "{told}");
    assert_eq!(std::fs::read(&images[1]).expect("read"), older, "nothing is written");
    let over = run(&on, &["dump", "--force", "data", &names[2], "--overwrite"]);
    assert!(over.status.code() == Some(2) && said(&over).contains("is a device of the set"));
    let detail = run(&on, &["detail", "--force", "data"]);
    assert_eq!(field(&String::from_utf8_lossy(&detail.stdout), "Active Devices"), "2");

    // Of what is in use nothing is forced, and nothing is told to be.
    let socket = format!("unix:{}", folder.join("s").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["serve", &names[0], "--nbd", &socket]).env("SPINDLE_RUN_DIR", NO_FOLDER);
    let serving = Serving::start(command.stderr(Stdio::null()));
    let barred = run(&on, &["assemble", "--force", "data"]);
    assert!(barred.status.code() == Some(1) && forced(&said(&barred)) == 0, "{}", said(&barred));
    serving.stop();
    let started = run(&on, &["assemble", "--force", "data"]);
    assert!(started.status.success() && forced(&said(&started)) == 1, "{}", said(&started));
    let told = String::from_utf8_lossy(&started.stdout).into_owned();
    assert!(
        told.contains("was assembled with 2 drives (out of 3), and is closed again."),
        "{told}"
    );
    assert_eq!(field(&text(&on, &["detail", "data"]), "State"), "clean, degraded");
    // The oldest comes back as a spare: no bit tells what it missed.
    let added = text(&on, &["add", "data", &names[2]]);
    assert_eq!(added, format!("added {}\n", names[2]));
    assert_eq!(text(&on, &["check", "data"]), "mismatch_cnt = 0\n");
    assert!(run(&on, &["dump", "data", "-"]).stdout == whole);
}

#[test]
fn a_raid_0_that_lacks_a_member_has_nothing_to_force() {
    let folder = fixtures::scratch::folder();
    let images = disks(folder.path(), 3);
    create("fast", &["-l0", "-n3"], &images);
    std::fs::remove_file(&images[1]).expect("removed");
    for words in [
        &["assemble", "fast"][..],
        &["assemble", "--force", "fast"],
        &["dump", "--force", "fast", "-"],
    ] {
        let told = refusal(&[folder.path()], words);
        assert!(
            told.contains("1 of 3 members are missing") && told.contains("without none"),
            "{told}"
        );
        assert!(
            told.contains("bring the missing ones back") && !told.contains("--force"),
            "{told}"
        );
    }
}

#[test]
fn a_set_that_lacks_one_member_and_is_not_resynchronised_is_told_so_in_the_singular() {
    let folder = fixtures::scratch::folder();
    let images = disks(folder.path(), 3);
    create("data", &["-l5", "-n3"], &images);
    std::fs::remove_file(&images[2]).expect("removed");
    let told = refusal(&[folder.path()], &["assemble", "data", "--run"]);
    assert!(told.contains("has 1 member less than it should and is not resynchronised"), "{told}");
}

/// Members lie in a folder each half, so that each can be opened alone.
#[test]
fn halves_that_went_on_without_each_other_are_told_and_neither_wins_silently() {
    let folder = fixtures::scratch::folder();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let images = disks(folder.path(), 4);
    create("mirror", &["-l1", "-n4"], &images);
    text(&[folder.path()], &["assemble", "mirror"]);
    let mut moved = Vec::new();
    for (n, image) in images.iter().enumerate() {
        let half = if n < 2 { &a } else { &b };
        std::fs::create_dir_all(half).expect("a folder");
        let to = half.join(image.file_name().expect("a name"));
        std::fs::rename(image, &to).expect("moved");
        moved.push(to.display().to_string());
    }
    let (a, b) = (a.as_path(), b.as_path());
    // Each half loses a member, and so writes its superblocks.
    text(&[a], &["fail", "mirror", &moved[1]]);
    text(&[b], &["fail", "mirror", &moved[3]]);
    let both = [a, b];
    for words in [&["assemble", "mirror"][..], &["detail", "mirror"], &["dump", "mirror", "-"]] {
        let told = refusal(&both, words);
        let either = told.contains(&format!("-d {}", moved[0]))
            && told.contains(&format!("-d {}", moved[2]));
        assert!(told.contains("went on without each other") && either, "{words:?}: {told}");
    }
    assert!(said(&run(&both, &["examine"])).contains("went on without each other"));
    for half in both {
        text(&[half], &["assemble", "--readonly", "mirror"]);
    }
    // Another set is assembled all the same.
    let c = folder.path().join("c");
    create("other", &["-l1", "-n2", "--assume-clean"], &disks(&c, 2));
    let scanned = run(&[a, b, &c], &["assemble", "--scan", "--readonly"]);
    assert_eq!(scanned.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&scanned.stdout).contains("other can be read with 2 drives"));

    text(&[b], &["add", "mirror", &moved[3]]);
    let opened = run(&both, &["assemble", "--readonly", "mirror"]);
    let told = said(&opened);
    let line = format!("{} went on without {}", moved[0], moved[2]);
    assert!(opened.status.success() && told.contains(&line), "{told}");
    for words in [&["detail", "mirror"][..], &["examine"]] {
        assert!(said(&run(&both, words)).contains(&line), "{words:?}");
    }
}

/// One device counts most events, and can do nothing alone; the others went on without it, and can.
#[test]
fn the_side_that_is_enough_is_told_where_the_one_that_counts_is_not() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let images = disks(&a, 4);
    std::fs::create_dir(&b).expect("a folder");
    create("data", &["-l5", "-n4", "-c64", "--assume-clean"], &images);
    let (a, b) = (a.as_path(), b.as_path());
    text(&[a], &["fail", "data", &images[1].display().to_string()]);
    let copies: Vec<PathBuf> = (0..4).map(|n| b.join(format!("disk{n}.raw"))).collect();
    for n in 0..3 {
        std::fs::copy(&images[n], &copies[n]).expect("copied");
    }
    text(&[b], &["assemble", "data", "--force"]);
    let content = run(&[b], &["dump", "data", "-"]).stdout;
    // The rebuild counts many events.
    text(&[a], &["add", "data", &images[1].display().to_string()]);
    std::fs::copy(&images[3], &copies[3]).expect("copied");
    let names: Vec<String> = copies.iter().map(|copy| copy.display().to_string()).collect();
    let others = format!("-d {} -d {} -d {}", names[0], names[1], names[2]);
    for words in [&["assemble", "data", "--force"][..], &["detail", "data"], &["dump", "data", "-"]]
    {
        let told = said(&run(&[b], words));
        let halves =
            format!("{}, {}, {} went on without {}", names[0], names[1], names[2], names[3]);
        let lost = format!("what was written with {} since is not in them", names[3]);
        assert!(
            [&halves, &others, &lost].iter().all(|part| told.contains(*part)),
            "{words:?}: {told}"
        );
    }
    let scan = Command::new(env!("CARGO_BIN_EXE_spindle")).arg("scan").arg(b).output();
    let scan = String::from_utf8(scan.expect("the program starts").stdout).expect("text");
    assert!(scan.contains(&format!("next: spindle {others} scan\n")), "{scan}");
    assert!(
        scan.contains(&format!("{}  left out: it went on without {}", names[1], names[3])),
        "{scan}"
    );
    // And that does it.
    let three: Vec<&Path> = copies[..3].iter().map(PathBuf::as_path).collect();
    assert_eq!(run(&three, &["dump", "data", "-"]).stdout, content);
    assert!(!content.is_empty());
}

#[test]
fn what_is_told_of_a_set_that_was_assembled_is_how_it_stands_then() {
    let folder = fixtures::scratch::folder();
    let images = disks(folder.path(), 4);
    create("data", &["-l5", "-n3", "-c64", "--assume-clean", "-x1"], &images);
    let on = [folder.path()];
    text(&on, &["fail", "data", &images[0].display().to_string()]);
    let started = text(&on, &["assemble", "--json", "data"]);
    let started: serde_json::Value = serde_json::from_str(&started).expect("JSON");
    assert_eq!(started[0]["done"], serde_json::json!(["rebuilt slot 0"]));
    assert_eq!(started[0]["active_devices"], 3);
    let again = text(&on, &["assemble", "data"]);
    assert!(again.contains("was assembled with 3 drives, and is closed again."), "{again}");
}

/// A client that writes through an export without a name, again and again, until it is told to stop.
fn write_until(socket: &Path, stop: &AtomicBool) {
    let mut server = UnixStream::connect(socket).expect("it listens");
    let mut greeting = [0; 18];
    server.read_exact(&mut greeting).expect("a greeting");
    // Fixed newstyle, no zeroes; the export without a name.
    server.write_all(&3_u32.to_be_bytes()).expect("sent");
    server.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").expect("sent");
    server.read_exact(&mut [0; 10]).expect("size and flags");
    while !stop.load(Ordering::Relaxed) {
        let mut write = 0x2560_9513_u32.to_be_bytes().to_vec();
        write.extend([0, 0, 0, 1]);
        write.extend([0; 16]);
        write.extend(4096_u32.to_be_bytes());
        write.extend([7; 4096]);
        server.write_all(&write).expect("sent");
        server.read_exact(&mut [0; 16]).expect("an answer");
    }
}

#[test]
fn detail_of_a_degraded_set_that_is_being_served_says_who_has_it_and_not_to_force_it() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let images = disks(folder.path(), 3);
    create("data", &["-l5", "-n3", "-c64", "--assume-clean"], &images);
    let on = [folder.path()];
    text(&on, &["fail", "data", &images[2].display().to_string()]);
    let sockets = fixtures::scratch::folder();
    let socket = sockets.path().join("s");
    let mut server = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .arg("-d")
        .arg(folder.path())
        .args(["md", "serve", "data", "--nbd", &format!("unix:{}", socket.display())])
        .env("SPINDLE_RUN_DIR", NO_FOLDER)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let began = Instant::now();
    while !socket.exists() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let stop = AtomicBool::new(false);
    let detail = std::thread::scope(|scope| {
        scope.spawn(|| write_until(&socket, &stop));
        std::thread::sleep(Duration::from_millis(300));
        let detail = run(&on, &["detail", "data"]);
        stop.store(true, Ordering::Relaxed);
        detail
    });
    server.kill().expect("it runs");
    server.wait().expect("it ended");
    let (told, text) = (said(&detail), String::from_utf8_lossy(&detail.stdout).into_owned());
    assert!(told.contains("another process has the set open") && told.contains("server"), "{told}");
    assert!(!told.contains("--force"), "{told}");
    assert!(field(&text, "State").starts_with("active, degraded"), "{text}");
}
