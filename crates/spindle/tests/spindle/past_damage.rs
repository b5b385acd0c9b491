//! What is copied past damage: volumes with blocks that can't be read, dumped and served; directories whose names are lost, or of which
//! nothing is left.
//!
//! What could break: zeros that nobody is told of, or at a wrong place; a program that copies and ends at the first error; a file that is
//! there and not copied, since the directory that knew its name is lost; a line for each block of a long stretch.

use crate::holding::can_mount;
use crate::pools::{add_disks, done, program, refused, run};
use crate::serving::{self, Ask, Serving};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

const DISK_BYTES: u64 = 128 << 20;
/// Bytes of a block of the volume.
const BLOCK: usize = 16 << 10;
/// Where data begins on a device of a pool.
const DATA_START: u64 = 4 << 20;
const BAD: [Range<usize>; 2] = [3..6, 40..41];

/// A folder with a pool `w` on the disk `disks/a`.
fn pool() -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a"], DISK_BYTES);
    done(at, &["zpool", "create", "w", "disks/a"]);
    folder
}

fn disk(at: &Path) -> File {
    File::options().read(true).write(true).open(at.join("disks/a")).expect("it opens")
}

/// Overwrites where these bytes begin on the disk.
fn spoil(at: &Path, content: &[u8]) {
    let image = fs::read(at.join("disks/a")).expect("read");
    let found = image.chunks(512).position(|sector| sector == &content[..512]);
    let place = found.expect("it is stored as it is") * 512;
    disk(at).write_all_at(&[0x5a; 512], place as u64).expect("overwritten");
}

/// A pool with a volume `w/v` of which some blocks can't be read; and what can be read of it, with zeros for those.
fn with_damaged_volume() -> (tempfile::TempDir, Vec<u8>) {
    let folder = pool();
    let at = folder.path();
    let mut content = fixtures::noise(7, 1 << 20);
    fs::write(at.join("content"), &content).expect("written");
    done(at, &["zfs", "create", "-V", "1M", "-b", "16K", "w/v"]);
    done(at, &["zfs", "load", "w/v", "content"]);
    for block in BAD.into_iter().flatten() {
        let bytes = block * BLOCK..(block + 1) * BLOCK;
        spoil(at, &content[bytes.clone()]);
        content[bytes].fill(0);
    }
    (folder, content)
}

fn said_by(at: &Path, arguments: &[&str]) -> String {
    let output = run(at, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    format!("{}{said}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn blocks_that_follow_one_another_are_told_in_one_line() {
    let (folder, content) = with_damaged_volume();
    let at = folder.path();
    let said = said_by(at, &["zfs", "dump", "--skip-damaged", "w/v", "out"]);
    assert!(fs::read(at.join("out")).expect("it is there") == content);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("can't be read")).collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].contains("w/v: bytes 49152 to 98304 (3 blocks) can't be read"), "{said}");
    assert!(lines[1].contains("w/v: bytes 655360 to 671744 can't be read: "), "{said}");
    assert!(lines[2].contains("65536 bytes are zeros for what can't be read"), "{said}");
    let said = said_by(at, &["zpool", "scrub", "--read-only", "w"]);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with('\t')).collect();
    let of_volume = lines.iter().filter(|line| line.contains("w/v:<0x1>")).count();
    assert_eq!(of_volume, 2, "{said}");
    assert!(said.contains("w/v:<0x1> bytes 49152 to 98304 (3 blocks): "), "{said}");
    assert!(said.contains("w/v:<0x1> bytes 655360 to 671744: "), "{said}");
}

fn there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}

#[test]
fn a_damaged_volume_is_served_with_zeros_where_that_is_asked_for() {
    fixtures::takes_long!();
    let (folder, content) = with_damaged_volume();
    let at = folder.path();
    let serve = |more: &[&str]| {
        let words = [&["serve", "--volume", "w/v", "--nbd", "unix:s"], more].concat();
        let said = File::create(at.join("said")).expect("a file");
        let mut command = program(at, &words);
        command.stderr(said);
        Serving::start(&mut command)
    };
    let why = "skip_damaged is for what is only read: add readonly";
    refused(at, &["serve", "--volume", "w/v", "--nbd", "unix:s", "--skip-damaged"], why);
    fs::write(
        at.join("configuration"),
        "listen = [\"unix:s\"]\n[[export]]\nname = \"v\"\nvolume = \"w/v\"\nskip_damaged = true\n",
    )
    .expect("written");
    refused(at, &["serve", "--config", "configuration"], "add readonly");

    // Who did not ask for zeros gets an error.
    let server = serve(&["--readonly"]);
    if there("nbdcopy") {
        let copied = Command::new("nbdcopy")
            .args(["nbd+unix:///w/v?socket=s", "plain"])
            .current_dir(at)
            .output()
            .expect("it starts");
        assert!(!copied.status.success());
    }
    server.stop();

    let server = serve(&["--readonly", "--skip-damaged"]);
    let mut client = serving::connected(&at.join("s"), "w/v").expect("it is served");
    assert!(serving::read(&mut client, 1 << 20) == content);
    assert!(serving::read(&mut client, 1 << 20) == content, "once more");
    if there("nbdcopy") {
        let copied = Command::new("nbdcopy")
            .args(["nbd+unix:///w/v?socket=s", "copied"])
            .current_dir(at)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&copied.stderr);
        assert!(copied.status.success(), "{said}");
        assert!(fs::read(at.join("copied")).expect("it is there") == content);
    }
    drop(client);
    server.stop();
    let said = fs::read_to_string(at.join("said")).expect("text");
    // Each once, in as many stretches as it was met.
    let told = said.lines().filter_map(|line| {
        let (from, rest) = line.strip_prefix("spindle: w/v: bytes ")?.split_once(" to ")?;
        let (to, _) = rest.split_once(" can't be read (")?;
        Some(from.parse::<u64>().ok()?..to.parse().ok()?)
    });
    let mut told: Vec<Range<u64>> = told.collect();
    told.sort_by_key(|stretch| stretch.start);
    assert!(told.windows(2).all(|two| two[0].end <= two[1].start), "{said}");
    assert_eq!(
        told.iter().map(|stretch| stretch.end - stretch.start).sum::<u64>(),
        65536,
        "{said}"
    );
    let all = "w/v: zeros stood for 65536 bytes that can't be read: bytes 49152 to 98304, 655360 to 671744\n";
    assert!(said.ends_with(all), "{said}");
}

/// The object of a path in `w/d`.
fn object(at: &Path, path: &str) -> u64 {
    let stat = done(at, &["zfs", "stat", &format!("w/d:{path}")]);
    let line = stat.lines().find(|line| line.contains("object")).expect("its number is told");
    let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("object"));
    let number = words.nth(1).expect("a number").trim_end_matches(',');
    number.parse().expect("a number")
}

/// Overwrites all copies of a block, or of all blocks, of an object of `w/d`.
fn lose(at: &Path, object: u64, block: Option<u64>) {
    let pointers = done(at, &["zpool", "debug", "bp", "w/d", &object.to_string()]);
    let chosen = |line: &&str| {
        let mut words = line.split_whitespace();
        let (level, number) = (words.next(), words.next().and_then(|word| word.parse().ok()));
        block.is_none_or(|block| level == Some("L0") && number == Some(block))
    };
    let mut lost = 0;
    for line in pointers.lines().filter(chosen) {
        for place in line.split(['<', '>', ' ']).filter(|word| word.starts_with("0:")) {
            let offset = place.split(':').nth(1).expect("an offset");
            let offset = u64::from_str_radix(offset, 16).expect("a number");
            disk(at).write_all_at(&[0x5a; 512], DATA_START + offset).expect("overwritten");
            lost += 1;
        }
    }
    assert!(lost >= 2, "it has copies: {pointers}");
}

#[test]
fn files_of_a_directory_whose_names_are_lost_are_copied_by_their_numbers() {
    let folder = pool();
    let at = folder.path();
    let tree = at.join("tree/lost");
    fs::create_dir_all(tree.join("below/deeper")).expect("made");
    let mut contents = BTreeSet::new();
    for n in 0..30 {
        let content = fixtures::noise(n, 20_000 + n as usize);
        let name =
            format!("{:x}-{n}", content[0..12].iter().fold(0_u128, |a, b| a << 8 | u128::from(*b)));
        fs::write(tree.join(name), &content).expect("written");
        contents.insert(content);
    }
    fs::write(tree.join("below/deeper/kept"), b"its own name").expect("written");
    fs::write(at.join("tree/beside"), b"beside").expect("written");
    done(at, &["zfs", "create", "w/d"]);
    done(at, &["zfs", "cp", "-r", "tree/", "w/d:"]);
    let first = contents.iter().next().expect("there are some").clone();
    lose(at, object(at, "/lost"), None);

    let said = said_by(at, &["zfs", "cp", "-r", "w/d:", "bare"]);
    assert!(said.contains("w/d:/lost: ") && said.contains("--skip-damaged copies what"), "{said}");
    let cp = ["zfs", "cp", "-r", "--skip-damaged", "w/d:", "out"];
    let said = said_by(at, &cp);
    assert!(said.contains("31 files in it have lost their names"), "{said}");
    let out = at.join("out");
    assert_eq!(fs::read(out.join("beside")).expect("it is there"), b"beside");
    let (mut found, mut below) = (BTreeSet::new(), None);
    for entry in fs::read_dir(out.join("lost")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let number = name.strip_prefix('#').and_then(|number| number.parse::<u64>().ok());
        assert!(number.is_some(), "{name}");
        match path.is_dir() {
            true => below = Some(path),
            false => drop(found.insert(fs::read(&path).expect("read"))),
        }
    }
    assert!(found == contents);
    let below = below.expect("the directory in it");
    assert_eq!(fs::read(below.join("deeper/kept")).expect("it is there"), b"its own name");
    // Once more nothing is copied anew.
    let again = said_by(at, &cp);
    assert!(again.contains("0 files copied") && again.contains("32 were there already"), "{again}");

    // What is damaged in it is told by its place, as far as that is known.
    spoil(at, &first);
    let said = said_by(at, &["zpool", "scrub", "--read-only", "w"]);
    assert!(said.contains("\tw/d:/lost bytes 0 to "), "{said}");
    assert!(said.contains("\tw/d:/lost/<0x"), "{said}");
}

/// Objects that lie in one block of the array of them.
const OBJECTS_PER_BLOCK: u64 = 32;

#[test]
fn files_of_a_directory_of_which_nothing_can_be_read_are_copied_by_their_numbers() {
    let folder = pool();
    let at = folder.path();
    done(at, &["zfs", "create", "w/d"]);
    // What is made before and behind it fills the blocks beside its own.
    for (tree, names) in [("before", 0..2 * OBJECTS_PER_BLOCK), ("behind", 0..OBJECTS_PER_BLOCK)] {
        fs::create_dir(at.join(tree)).expect("made");
        for n in names {
            fs::write(at.join(tree).join(format!("{tree}{n}")), tree).expect("written");
        }
    }
    fs::create_dir_all(at.join("empty/lost")).expect("made");
    fs::create_dir_all(at.join("within/below/deeper")).expect("made");
    fs::write(at.join("within/below/deeper/kept"), b"its own name").expect("written");
    fs::write(at.join("within/file"), b"a file").expect("written");
    for tree in ["before/", "empty/", "behind/"] {
        done(at, &["zfs", "cp", "-r", tree, "w/d:"]);
    }
    done(at, &["zfs", "cp", "-r", "within/", "w/d:/lost"]);
    let [lost, root, file, below] =
        ["/lost", "/", "/lost/file", "/lost/below"].map(|path| object(at, path));
    let block = lost / OBJECTS_PER_BLOCK;
    assert!([root, file, below].iter().all(|other| other / OBJECTS_PER_BLOCK != block));
    lose(at, 0, Some(block));

    let said = said_by(at, &["zfs", "cp", "-r", "w/d:", "bare"]);
    assert!(said.contains("w/d:/lost: ") && said.contains("--skip-damaged copies what"), "{said}");
    let cp = ["zfs", "cp", "-r", "--skip-damaged", "w/d:", "out"];
    let said = said_by(at, &cp);
    let told = "2 files in it have lost their names, and are copied as #NUMBER";
    assert!(said.contains("w/d:/lost: ") && said.contains(told), "{said}");
    let out = at.join("out/lost");
    assert_eq!(fs::read(out.join(format!("#{file}"))).expect("it is there"), b"a file");
    let kept = out.join(format!("#{below}/deeper/kept"));
    assert_eq!(fs::read(kept).expect("it is there"), b"its own name");
    assert_eq!(fs::read_dir(&out).expect("a folder").count(), 2);
    assert!(at.join("out/before0").exists());
    let again = said_by(at, &cp);
    assert!(again.contains("0 files copied"), "{again}");
}

/// What could break: a client gets an error, and who runs the server can't tell why; a client that reads a damaged disk fills a log.
#[test]
fn a_server_tells_of_reads_and_of_writes_that_fail_on_what_cant_be_read() {
    fixtures::takes_long!();
    let (folder, _) = with_damaged_volume();
    let at = folder.path();
    let said = File::create(at.join("said")).expect("a file");
    let call = ["serve", "--volume", "w/v", "--nbd", "unix:s"];
    let server = Serving::start(program(at, &call).stderr(said));
    let mut client = serving::connected(&at.join("s"), "w/v").expect("it is served");
    let place = (BAD[0].start * BLOCK) as u64;
    let mut tried = |ask, at, bytes| serving::tried(&mut client, ask, at, bytes);
    // Parts of a block that can't be read.
    assert_eq!(tried(Ask::Read, place, 4096), 5);
    assert_eq!(tried(Ask::Write, place + 512, 1024), 5);
    assert_eq!(tried(Ask::WriteZeroes, place + 4096, 4096), 5);
    // What is the client's own fault is its own.
    assert_ne!(tried(Ask::Read, 1 << 30, 4096), 0);
    // Without its old content it can be written.
    assert_eq!(tried(Ask::Write, place, BLOCK as u32), 0);
    assert_eq!(tried(Ask::Read, place, BLOCK as u32), 0);
    let told = fs::read_to_string(at.join("said")).expect("text");
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("gets an error: ")).collect();
    let of = |what: &str| format!("spindle: a client of 'w/v' gets an error: w/v: {what}");
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[0].starts_with(&of("read of 4 KiB at byte 49152: ")), "{told}");
    assert!(lines[1].starts_with(&of("write of 1 KiB at byte 49664: ")), "{told}");
    assert!(lines[2].starts_with(&of("write-zeroes of 4 KiB at byte 53248: ")), "{told}");
    for _ in 0..150 {
        assert_eq!(tried(Ask::Read, place + BLOCK as u64, 512), 5);
    }
    drop(client);
    server.stop();
    let told = fs::read_to_string(at.join("said")).expect("text");
    assert_eq!(told.matches("gets an error: ").count(), 100, "{told}");
    assert!(told.contains("what more fails is only counted\n"), "{told}");
    assert!(told.contains("153 requests of clients failed\n"), "{told}");
}

/// The same of a mount.
#[test]
fn a_mount_tells_of_writes_that_fail_on_what_cant_be_read() {
    if !can_mount() {
        return;
    }
    let folder = pool();
    let at = folder.path();
    let content = fixtures::noise(8, 256 << 10);
    fs::write(at.join("content"), &content).expect("written");
    done(at, &["zfs", "create", "-o", "recordsize=16K", "-o", "compression=off", "w/f"]);
    done(at, &["zfs", "cp", "content", "w/f:"]);
    spoil(at, &content[BAD[0].start * BLOCK..]);
    fs::create_dir(at.join("m")).expect("a folder");
    let said = File::create(at.join("said")).expect("a file");
    let mount = ["mount", "-o", "rw", "w/f", "m"];
    let mut holder = program(at, &mount).stderr(said).stdout(Stdio::piped()).spawn();
    let holder = holder.as_mut().expect("it starts");
    let mut ready = String::new();
    let output = holder.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut ready).expect("a line");
    assert!(ready.contains("is mounted on"), "{ready}");
    let file = File::options().write(true).open(at.join("m/content")).expect("it opens");
    let place = (BAD[0].start * BLOCK) as u64;
    let written = file.write_all_at(&[1; 512], place + 512);
    let cut = file.set_len(place + 100);
    drop(file);
    let told = Command::new("kill").args(["-TERM", &holder.id().to_string()]).status();
    assert!(told.expect("kill starts").success());
    holder.wait().expect("it ends");
    assert_eq!(written.expect_err("it can't be").raw_os_error(), Some(5));
    assert_eq!(cut.expect_err("it can't be").raw_os_error(), Some(5));
    let told = fs::read_to_string(at.join("said")).expect("text");
    for bytes in ["bytes 49664 to 50176 can't be read: ", "bytes 49251 to 49252 can't be read: "] {
        assert!(told.contains(bytes), "{bytes}: {told}");
    }
}
