//! What is asked of who holds a pool beside changes of it: mounts, events, the end; and who holds one to mount it.
//!
//! What could break: a mount that nobody unmounts, or that is pulled away under who uses it; a dataset that two mounts write; a
//! holder that waits for itself; a pool that is said to be exported, and is still written; an event that is told of what was not done.

use crate::holding;
use crate::pools;
use crate::serving::Serving;

use holding::{Holder, can_mount, is_mounted, soon};
use pools::{add_disks, done, judge, refused, run};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DISK_BYTES: u64 = 128 << 20;
const HELD: &str = "pools = [\"tank\"]\n";

/// A folder with disks, and a pool on two of them that is mounted in it.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = fixtures::scratch::folder();
    // As the system has it: mounts are told by whole paths.
    let at = folder.path().canonicalize().expect("it is there");
    fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a", "b", "c"], DISK_BYTES);
    let mountpoint = at.join("m").to_str().expect("text").to_owned();
    done(&at, &["zpool", "create", "-m", &mountpoint, "tank", "mirror", "disks/a", "disks/b"]);
    (folder, at)
}

fn path(at: &Path, name: &str) -> String {
    at.join(name).to_str().expect("text").to_owned()
}

/// Makes a file system that is mounted in the folder, with more that is set.
fn make(at: &Path, dataset: &str, mountpoint: &str, more: &[&str]) {
    let mountpoint = match mountpoint {
        "none" | "legacy" => format!("mountpoint={mountpoint}"),
        below => format!("mountpoint={}", path(at, below)),
    };
    done(at, &[&["zfs", "create", "-o", &mountpoint], more, &[dataset]].concat());
}

fn mounted_of(at: &Path, dataset: &str) -> String {
    done(at, &["zfs", "get", "-Ho", "value", "mounted", dataset]).trim().to_owned()
}

#[test]
fn file_systems_are_mounted_where_their_properties_say_by_who_holds_them() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-p", "tank/home/anna"]);
    make(&at, "tank/away", "elsewhere", &[]);
    make(&at, "tank/none", "none", &[]);
    make(&at, "tank/old", "legacy", &[]);
    make(&at, "tank/off", "off", &["-o", "canmount=off"]);
    make(&at, "tank/auto", "auto", &["-o", "canmount=noauto"]);
    make(&at, "tank/bare", "bare", &["-o", "overlay=off"]);
    done(&at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    refused(&at, &["zfs", "unmount", "tank/home"], "cannot unmount 'tank/home': not currently");
    assert_eq!(done(&at, &["zfs", "mount"]), "");
    let holder = Holder::start(&at, HELD);
    refused(&at, &["zfs", "mount", "tank/none"], "cannot mount 'tank/none': no mountpoint set");
    refused(&at, &["zfs", "mount", "tank/old"], "cannot mount 'tank/old': legacy mountpoint");
    refused(&at, &["zfs", "mount", "tank/off"], "'canmount' property is set to 'off'");
    refused(&at, &["zfs", "mount", "tank/v"], "operation not applicable to datasets of this type");
    refused(&at, &["zfs", "mount", "tank/lost"], "dataset does not exist");
    assert_eq!(mounted_of(&at, "tank"), "no");
    // With those below it that are mounted in its directory.
    assert_eq!(done(&at, &["zfs", "mount", "tank"]), "");
    fs::write(at.join("m/home/anna/letter"), b"dear").expect("it is written");
    let mut names: Vec<_> = fs::read_dir(at.join("m"))
        .expect("it is there")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    assert_eq!(names, ["home"]);
    refused(&at, &["zfs", "mount", "tank/home"], "filesystem already mounted");
    // All others that are mounted by themselves, but what is in the way.
    fs::create_dir(at.join("bare")).expect("a folder");
    fs::write(at.join("bare/file"), b"").expect("a file");
    refused(&at, &["zfs", "mount", "-a"], "directory is not empty");
    fs::remove_file(at.join("bare/file")).expect("it goes");
    done(&at, &["zfs", "mount", "-a"]);
    let listed = done(&at, &["zfs", "mount"]);
    let wanted: String = [
        ("tank", "m"),
        ("tank/away", "elsewhere"),
        ("tank/bare", "bare"),
        ("tank/home", "m/home"),
        ("tank/home/anna", "m/home/anna"),
    ]
    .map(|(dataset, below)| format!("{dataset:<30}  {}\n", path(&at, below)))
    .concat();
    assert_eq!(listed, wanted);
    for (dataset, mounted) in [("tank/home/anna", "yes"), ("tank/away", "yes"), ("tank/auto", "no")]
    {
        assert_eq!(mounted_of(&at, dataset), mounted, "{dataset}");
    }
    assert!(done(&at, &["zfs", "list", "-Ho", "name,mounted"]).contains("tank/away\tyes\n"));
    done(&at, &["zfs", "mount", "tank/auto"]);
    fs::create_dir(at.join("here")).expect("a folder");
    done(&at, &["zfs", "mount", "tank/old", "here"]);
    assert!(is_mounted(&at.join("here")) && is_mounted(&at.join("auto")));
    // One that is used stays; by force it goes all the same.
    let mut open = File::create(at.join("elsewhere/file")).expect("a file");
    open.write_all(b"before").expect("it is written");
    refused(&at, &["zfs", "unmount", "tank/away"], "pool or dataset is busy");
    open.write_all(b" and after").expect("it goes on");
    drop(open);
    done(&at, &["zfs", "umount", "tank/away"]);
    assert!(!is_mounted(&at.join("elsewhere")));
    let mut open = File::create(at.join("auto/file")).expect("a file");
    open.write_all(b"kept").expect("it is written");
    open.sync_all().expect("it is durable");
    done(&at, &["zfs", "unmount", "-f", "tank/auto"]);
    assert!(!is_mounted(&at.join("auto")));
    assert!(open.write_all(b"lost").and_then(|()| open.sync_all()).is_err());
    drop(open);
    refused(&at, &["zfs", "unmount", &path(&at, "m/home")], "it is in the mount of tank");
    refused(&at, &["zfs", "unmount", &path(&at, "disks")], "not a ZFS filesystem");
    done(&at, &["zfs", "unmount", &path(&at, "m")]);
    assert!(!is_mounted(&at.join("m")));
    refused(&at, &["zfs", "unmount", "tank"], "not currently mounted");
    // It is nobody's any more.
    done(&at, &["zfs", "destroy", "-r", "tank/auto"]);
    done(&at, &["zfs", "unmount", "-a"]);
    assert_eq!(done(&at, &["zfs", "mount"]), "");
    holder.stop();
    assert_eq!(done(&at, &["zfs", "cat", "tank/home/anna:letter"]), "dear");
    assert_eq!(done(&at, &["zfs", "cat", "tank/away:file"]), "before and after");
    judge(&at, "tank");
}

/// What could break: whoever has a pool changed by its holder is told to doubt what is read, once per disk.
#[test]
fn only_what_is_read_beside_a_holder_is_told_to_be_so() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zpool", "create", "-m", "none", "other", "disks/c"]);
    let holder = Holder::start(&at, HELD);
    let said = |words: &[&str]| pools::printed_and_said(&at, words).1;
    for words in [
        &["zfs", "create", "tank/home"][..],
        &["zfs", "set", "atime=off", "tank/home"],
        &["zfs", "snapshot", "tank/home@a"],
        &["zfs", "mount", "tank/home"],
        &["zfs", "unmount", "tank/home"],
        &["zfs", "destroy", "-r", "tank/home"],
        &["zfs", "create", "other/home"],
        &["zpool", "sync", "tank"],
        &["zpool", "checkpoint", "tank"],
        &["zpool", "import"],
    ] {
        let said = said(words);
        assert!(!said.contains("note:"), "{words:?}: {said}");
    }
    let import = run(&at, &["zpool", "import", "tank"]);
    assert!(!String::from_utf8_lossy(&import.stderr).contains("note:"), "{import:?}");
    let held = format!("tank is held by process {} (spindle serve)", holder.id());
    for words in [&["zpool", "status", "tank"][..], &["zfs", "list"], &["zpool", "list"]] {
        let said = said(words);
        let notes: Vec<&str> = said.lines().filter(|line| line.contains("tank")).collect();
        let note = format!("note: {held}: what is shown is as of its last transaction group");
        assert_eq!(notes, [note.as_str()], "{words:?}: {said}");
        assert!(!said.contains("disks/"), "{words:?}: {said}");
    }
    let held = &held["tank is ".len()..];
    let listed = done(&at, &["zpool", "import"]);
    let (other, tank) = listed.split_once("pool: tank").expect("both");
    assert!(tank.contains(&format!("The pool is {held}")), "{tank}");
    assert!(!tank.contains("can be imported using") && !other.contains("held by"), "{listed}");
    let scanned = done(&at, &["scan"]);
    assert!(scanned.contains(&format!("ZFS pool tank: ONLINE, {held}")), "{scanned}");
    assert!(scanned.contains("ZFS pool other: ONLINE, exported"), "{scanned}");
    assert!(!said(&["zpool", "export", "tank"]).contains("note:"));
    drop(holder);
}

#[test]
fn what_is_set_counts_for_what_is_mounted() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "tank/home"]);
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank"]);
    let home = at.join("m/home");
    fs::write(home.join("file"), b"text").expect("it is written");
    let set = |what: &str| done(&at, &["zfs", "set", what, "tank/home"]);
    set("readonly=on");
    assert!(fs::write(home.join("other"), b"text").is_err());
    set("readonly=off");
    fs::write(home.join("other"), b"text").expect("it is written");
    // Times of access: never, each time, and where they would tell of something.
    let read_at = |file: &str| {
        let listed = fs::read_dir(home.join(file)).expect("it is read").count();
        assert_eq!(listed, 0);
        fs::metadata(home.join(file)).expect("it is there").accessed().expect("it is known")
    };
    fs::create_dir(home.join("folder")).expect("a folder");
    set("atime=off");
    let never = read_at("folder");
    assert_eq!(read_at("folder"), never);
    set("atime=on");
    set("relatime=off");
    let once = read_at("folder");
    let again = read_at("folder");
    assert!(never < once && once < again, "{never:?} {once:?} {again:?}");
    set("relatime=on");
    assert_eq!(read_at("folder"), again);
    // `.zfs` is found by its name, and listed if that is set.
    let lists = || {
        let entries = fs::read_dir(&home).expect("it is read");
        entries.map(|entry| entry.expect("an entry").file_name()).any(|name| name == ".zfs")
    };
    assert!(!lists() && home.join(".zfs/snapshot").is_dir());
    set("snapdir=visible");
    assert!(lists());
    // How much is free is told of the dataset that is asked, and at once.
    let free = |at: &Path| {
        let told = rustix::fs::statvfs(at).expect("it is told");
        told.f_bavail * told.f_frsize
    };
    let before = free(&home);
    set("quota=16M");
    assert!(before > 32 << 20 && free(&home) <= 16 << 20 && free(&at.join("m")) > 32 << 20);
    fs::write(home.join("large"), vec![1; 4 << 20]).expect("it fits");
    assert!(free(&home) <= 12 << 20);
    set("quota=none");
    assert!(free(&home) > 16 << 20);
    holder.stop();
    judge(&at, "tank");
}

#[test]
fn names_are_the_same_as_the_dataset_was_made_to_have_them() {
    fixtures::takes_long!();
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (_folder, at) = folder();
    fn create<'a>(set: &[&'a str], dataset: &'a str) -> Vec<&'a str> {
        let set: Vec<&str> = set.iter().flat_map(|set| ["-o", *set]).collect();
        [&["zfs", "create"], &set[..], &[dataset]].concat()
    }
    done(&at, &create(&["casesensitivity=insensitive"], "tank/any"));
    done(&at, &create(&["normalization=formC"], "tank/form"));
    done(&at, &create(&["casesensitivity=mixed", "normalization=formD"], "tank/both"));
    let rules = ["normalization=formD", "utf8only=off"];
    refused(&at, &create(&rules, "tank/no"), "'utf8only' must be set 'on'");
    refused(&at, &["zfs", "set", "casesensitivity=insensitive", "tank/form"], "is readonly");
    refused(&at, &["zfs", "set", "mountpoint=here", "tank/form"], "must be an absolute path");
    done(&at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    refused(&at, &["zfs", "set", "recordsize=8K", "tank/v"], "does not apply to datasets");
    let of = |dataset: &str| {
        let names = "casesensitivity,normalization,utf8only";
        done(&at, &["zfs", "get", "-Ho", "value", names, dataset]).replace('\n', " ")
    };
    assert_eq!(of("tank/any"), "insensitive none off ");
    assert_eq!(of("tank/form"), "sensitive formC on ");
    assert_eq!(of("tank/both"), "mixed formD on ");
    assert_eq!(of("tank"), "sensitive none off ");
    // Found by a newcomer: children did not inherit them, and can't be changed afterwards.
    done(&at, &create(&[], "tank/any/below"));
    done(&at, &create(&[], "tank/both/below"));
    done(&at, &create(&["casesensitivity=sensitive"], "tank/both/other"));
    done(&at, &create(&["utf8only=on"], "tank/any/utf8"));
    assert_eq!(of("tank/any/below"), "insensitive none off ");
    assert_eq!(of("tank/both/below"), "mixed formD on ");
    assert_eq!(of("tank/both/other"), "sensitive formD on ");
    assert_eq!(of("tank/any/utf8"), "insensitive none on ");
    for gone in ["any/below", "any/utf8", "both/below", "both/other"] {
        done(&at, &["zfs", "destroy", &format!("tank/{gone}")]);
    }
    if can_mount() {
        let holder = Holder::start(&at, HELD);
        done(&at, &["zfs", "mount", "tank"]);
        let any = at.join("m/any");
        fs::create_dir(any.join("Folder")).expect("it is made");
        fs::write(any.join("folder/Letter"), b"dear").expect("it is written");
        assert_eq!(fs::read(any.join("FOLDER/LETTER")).expect("it is there"), b"dear");
        assert!(fs::create_dir(any.join("foldeR")).is_err());
        // The name is the one that it was given.
        let names: Vec<_> = fs::read_dir(any.join("folder")).expect("it is read").collect();
        let name = names.into_iter().next().expect("one").expect("an entry").file_name();
        assert_eq!(name, "Letter");
        // What is done under one name is seen under the others, whatever was asked for before.
        assert!(!any.join("new").exists());
        fs::rename(any.join("FOLDER/letteR"), any.join("New")).expect("it is renamed");
        soon(|| any.join("new").exists() && !any.join("folder/letter").exists());
        fs::remove_file(any.join("NEW")).expect("it goes");
        soon(|| !any.join("new").exists() && !any.join("New").exists());
        fs::write(any.join("folder/Letter"), b"dear").expect("it is written");
        done(&at, &["zfs", "snapshot", "tank/any@Snap"]);
        refused(&at, &["zfs", "snapshot", "tank/any@SNAP"], "already exists");
        let form = at.join("m/form");
        fs::write(form.join("e\u{301}"), b"accent").expect("it is written");
        assert_eq!(fs::read(form.join("\u{e9}")).expect("it is there"), b"accent");
        assert!(fs::write(form.join(OsStr::from_bytes(b"\xff\xfe")), b"").is_err());
        // Names that differ by case are two, and those that differ by form are one.
        let both = at.join("m/both");
        fs::write(both.join("\u{e9}"), b"small").expect("it is written");
        assert!(!both.join("\u{c9}").exists());
        fs::write(both.join("\u{c9}"), b"large").expect("it is another");
        assert_eq!(fs::read(both.join("e\u{301}")).expect("it is there"), b"small");
        assert_eq!(fs::read(both.join("E\u{301}")).expect("it is there"), b"large");
        fs::rename(both.join("\u{e9}"), both.join("name")).expect("it is renamed");
        fs::rename(both.join("name"), both.join("NAME")).expect("it is renamed");
        soon(|| !both.join("e\u{301}").exists() && !both.join("name").exists());
        fs::remove_file(both.join("E\u{301}")).expect("it goes");
        soon(|| !both.join("\u{c9}").exists());
        assert_eq!(fs::read(both.join("NAME")).expect("it stays"), b"small");
        // Once it is in its form it is longer than a name may be.
        assert!(fs::write(both.join("\u{e9}".repeat(120)), b"").is_err());
        fs::write(both.join("\u{e9}".repeat(80)), b"").expect("it is written");
        fs::write(any.join(OsStr::from_bytes(b"\xff\xfe")), b"").expect("any bytes are a name");
        holder.stop();
        assert_eq!(done(&at, &["zfs", "cat", "tank/any:FOLDER/letter"]), "dear");
        assert_eq!(done(&at, &["zfs", "cat", "tank/both:NAME"]), "small");
        refused(&at, &["zfs", "cat", "tank/both:name"], "no such");
    }
    judge(&at, "tank");
}

/// The tables of snapshots and bookmarks take names for equal that differ by case. Where the dataset doesn't, one that is new must not take
/// another's place.
#[test]
fn snapshots_whose_names_differ_by_case_are_two() {
    let (_folder, at) = folder();
    fs::write(at.join("first"), b"first").expect("a file");
    done(&at, &["zfs", "cp", "first", "tank:first"]);
    done(&at, &["zfs", "snapshot", "tank@day"]);
    refused(&at, &["zfs", "list", "tank@DAY"], "does not exist");
    refused(&at, &["zfs", "destroy", "tank@DAY"], "could not find any snapshots");
    done(&at, &["zfs", "cp", "first", "tank:second"]);
    done(&at, &["zfs", "snapshot", "tank@DAY"]);
    done(&at, &["zfs", "snapshot", "tank@other"]);
    done(&at, &["zfs", "bookmark", "tank@day", "tank#day"]);
    done(&at, &["zfs", "bookmark", "tank@DAY", "tank#DAY"]);
    let listed = done(&at, &["zfs", "list", "-rHo", "name", "-t", "all", "tank"]);
    for name in ["tank@day\n", "tank@DAY\n", "tank#day\n", "tank#DAY\n"] {
        assert!(listed.contains(name), "{listed}");
    }
    assert!(!done(&at, &["zfs", "ls", "tank@day:"]).contains("second"));
    assert!(done(&at, &["zfs", "ls", "-R", "tank@DAY:"]).starts_with("tank@DAY:\nfirst\nsecond\n"));
    done(&at, &["zfs", "rename", "tank@other", "tank@Day"]);
    done(&at, &["zfs", "destroy", "tank@DAY"]);
    assert!(!done(&at, &["zfs", "ls", "tank@day:"]).contains("second"));
    assert!(done(&at, &["zfs", "ls", "tank@Day:"]).contains("second"));
    judge(&at, "tank");
}

#[test]
fn no_dataset_is_mounted_twice_and_no_mount_lies_in_another() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-p", "tank/home/anna"]);
    done(&at, &["zfs", "create", "tank/other"]);
    let holder = Holder::start(&at, HELD);
    for name in ["x", "y"] {
        fs::create_dir(at.join(name)).expect("a folder");
    }
    done(&at, &["zfs", "mount", "tank/home/anna", "x"]);
    refused(&at, &["zfs", "mount", "tank"], "tank/home/anna is mounted by itself");
    refused(&at, &["zfs", "mount", "tank/home", "y"], "tank/home/anna is mounted by itself");
    // A way into a mount that is only seen by who serves it.
    fs::create_dir(at.join("x/below")).expect("a folder");
    std::os::unix::fs::symlink("x/below", at.join("link")).expect("a link");
    refused(&at, &["zfs", "mount", "tank/other", "x/below"], "where another is mounted");
    done(&at, &["zfs", "set", &format!("mountpoint={}", path(&at, "link")), "tank/other"]);
    refused(&at, &["zfs", "mount", "tank/other"], "where another is mounted");
    done(&at, &["zfs", "set", &format!("mountpoint={}", path(&at, "y")), "tank/other"]);
    done(&at, &["zfs", "mount", "tank/other"]);
    // What is lent goes through the mount that shows it.
    fs::write(at.join("file"), b"text").expect("a file");
    done(&at, &["zfs", "cp", "file", "tank/other:file"]);
    assert_eq!(fs::read(at.join("y/file")).expect("it is there"), b"text");
    holder.stop();
    assert!(!is_mounted(&at.join("x")) && !is_mounted(&at.join("y")));
    judge(&at, "tank");
}

#[test]
fn mount_of_a_held_pool_lasts_as_long_as_the_command() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "tank/home"]);
    for name in ["h", "i"] {
        fs::create_dir(at.join(name)).expect("a folder");
    }
    let mount = |words: &[&str]| Holder::run(&at, &[&["mount"], words].concat(), "is mounted on");
    let holder = Holder::start(&at, HELD);
    let lease = mount(&["-o", "rw", "tank/home", "h"]);
    fs::write(at.join("h/one"), b"1").expect("it is written");
    assert_eq!(mounted_of(&at, "tank/home"), "yes");
    refused(&at, &["mount", "-o", "rw", "tank/home", "i"], "filesystem already mounted");
    lease.stop();
    assert!(!is_mounted(&at.join("h")));
    // For reading, where nothing is said; a snapshot, too.
    done(&at, &["zfs", "snapshot", "tank/home@now"]);
    let lease = mount(&["tank/home@now", "i"]);
    let other = mount(&["tank/home", "h"]);
    assert_eq!(fs::read(at.join("i/one")).expect("it is there"), b"1");
    assert!(fs::write(at.join("h/two"), b"2").is_err());
    // Who is killed wants nothing any more.
    lease.kill();
    soon(|| !is_mounted(&at.join("i")));
    // Somebody else may end it.
    done(&at, &["zfs", "unmount", "tank/home"]);
    other.ended();
    // And who holds the pool, with all that is mounted.
    let lease = mount(&["-o", "rw", "tank/home", "h"]);
    fs::write(at.join("h/two"), b"2").expect("it is written");
    holder.stop();
    lease.ended();
    assert!(!is_mounted(&at.join("h")));
    // One that holds the pool by itself mounts for others, and ends when all is unmounted.
    let first = mount(&["-o", "rw", "tank/home", "h"]);
    done(&at, &["zfs", "create", "tank/other"]);
    done(&at, &["zfs", "mount", "tank/other", "i"]);
    done(&at, &["zfs", "unmount", "tank/home"]);
    fs::write(at.join("i/three"), b"3").expect("it is written");
    done(&at, &["zfs", "unmount", "tank/other"]);
    first.ended();
    assert_eq!(done(&at, &["zfs", "cat", "tank/home:two"]), "2");
    assert_eq!(done(&at, &["zfs", "cat", "tank/other:three"]), "3");
    judge(&at, "tank");
}

#[test]
fn mount_of_all_holds_pools_that_nobody_holds_until_all_is_unmounted() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    let mountpoint = path(&at, "n");
    done(&at, &["zpool", "create", "-m", &mountpoint, "pond", "disks/c"]);
    done(&at, &["zfs", "create", "tank/home"]);
    make(&at, "tank/away", "elsewhere", &[]);
    let held = Holder::run(&at, &["zfs", "mount", "-a"], "holding ");
    assert!(held.said.contains("tank is mounted on"), "{}", held.said);
    for (file, bytes) in [("m/home/f", "1"), ("elsewhere/f", "2"), ("n/f", "3")] {
        fs::write(at.join(file), bytes).expect("it is written");
    }
    done(&at, &["zfs", "unmount", "tank"]);
    assert!(is_mounted(&at.join("elsewhere")) && is_mounted(&at.join("n")));
    done(&at, &["zfs", "unmount", "-a"]);
    held.ended();
    // One, below another root, and until it is told.
    let root = path(&at, "root");
    let held = Holder::run(&at, &["zfs", "mount", "--altroot", &root, "tank/away"], "holding ");
    let below = PathBuf::from(format!("{root}{}", path(&at, "elsewhere")));
    assert_eq!(fs::read(below.join("f")).expect("it is there"), b"2");
    held.stop();
    assert!(!is_mounted(&below));
    assert_eq!(done(&at, &["zfs", "cat", "tank/home:f"]), "1");
    assert_eq!(done(&at, &["zfs", "cat", "pond:f"]), "3");
    judge(&at, "tank");
    judge(&at, "pond");
}

#[test]
fn a_held_pool_is_exported_unless_somebody_uses_it() {
    fixtures::takes_long!();
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    done(&at, &["zfs", "create", "tank/home"]);
    let served = "listen = [\"unix:s\"]\n[[export]]\nname = \"v\"\nvolume = \"tank/v\"\n";
    let holder = Holder::start(&at, served);
    let client = UnixStream::connect(at.join("s")).expect("it listens");
    refused(&at, &["zpool", "export", "tank"], "cannot export 'tank': pool is busy");
    refused(&at, &["zpool", "destroy", "tank"], "cannot destroy 'tank': pool is busy");
    done(&at, &["zfs", "create", "tank/meanwhile"]);
    drop(client);
    done(&at, &["zpool", "export", "tank"]);
    holder.ended();
    assert!(done(&at, &["zpool", "history", "tank"]).contains("zpool export tank"));
    let holder = Holder::start(&at, served);
    let _client = UnixStream::connect(at.join("s")).expect("it listens");
    done(&at, &["zpool", "export", "-f", "tank"]);
    holder.ended();
    // One that has other things to do goes on with them.
    done(&at, &["zpool", "create", "pond", "disks/c"]);
    let holder = Holder::start(&at, "pools = [\"tank\", \"pond\"]\n");
    done(&at, &["zpool", "export", "tank"]);
    done(&at, &["zfs", "create", "tank/after"]);
    done(&at, &["zfs", "create", "pond/held"]);
    holder.stop();
    judge(&at, "tank");
    if can_mount() {
        done(&at, &["zpool", "export", "-a"]);
        let holder = Holder::run(&at, &["zfs", "mount", "tank"], "holding ");
        let open = File::create(at.join("m/home/file")).expect("a file");
        refused(&at, &["zpool", "export", "tank"], "pool or dataset is busy");
        assert!(is_mounted(&at.join("m")));
        drop(open);
        done(&at, &["zpool", "export", "tank"]);
        holder.ended();
        assert!(!is_mounted(&at.join("m")));
        fs::create_dir(at.join("h")).expect("a folder");
        let words = ["mount", "-o", "rw", "tank/home", "h"];
        let holder = Holder::run(&at, &words, "is mounted on");
        let _open = File::create(at.join("h/other")).expect("a file");
        done(&at, &["zpool", "destroy", "-f", "tank"]);
        holder.ended();
    } else {
        let holder = Holder::start(&at, HELD);
        done(&at, &["zpool", "destroy", "tank"]);
        holder.ended();
    }
    refused(&at, &["zpool", "list", "tank"], "no such pool");
    assert!(done(&at, &["zpool", "import", "-D"]).contains("tank"));
    done(&at, &["zpool", "import", "-D", "-f", "tank"]);
    judge(&at, "tank");
}

#[test]
fn events_of_a_held_pool_are_told_in_openzfs_words() {
    let (_folder, at) = folder();
    assert_eq!(done(&at, &["zpool", "events"]), format!("{:<30} CLASS\n", "TIME"));
    let holder = Holder::start(&at, HELD);
    let events = |words: &[&str]| done(&at, &[&["zpool", "events"], words].concat());
    let text = events(&["-H", "tank"]);
    let first = text.lines().next().expect("an event");
    assert_eq!(first.split('\t').nth(1), Some("sysevent.fs.zfs.pool_import"), "{text}");
    // `Nov 24 2026 14:30:00.123456789`
    assert_eq!(first.find('\t'), Some(30), "{text}");
    assert!(text.contains("\tsysevent.fs.zfs.config_sync\n"), "{text}");
    let count = text.lines().count();
    assert_eq!(events(&["-c"]), format!("cleared {count} events\n"));
    assert_eq!(events(&["-H"]), "");
    let mut follower = Holder::run(&at, &["zpool", "events", "-f", "tank"], "CLASS");
    done(&at, &["zfs", "create", "tank/x"]);
    assert!(follower.line().ends_with(" sysevent.fs.zfs.history_event\n"));
    let text = events(&["-v"]);
    for wanted in [
        "        version = 0x0\n        class = \"sysevent.fs.zfs.history_event\"\n        pool = \"tank\"\n",
        "        history_dsname = \"tank/x\"\n",
        "        history_internal_name = \"create\"\n",
        "        pool_state = 0x0\n        pool_context = 0x0\n",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(text.contains(&format!("        eid = 0x{:x}\n\n", count + 1)), "{text}");
    // A command that is refused did nothing.
    let before = events(&["-H"]);
    refused(&at, &["zfs", "create", "tank/x"], "already exists");
    assert_eq!(events(&["-H"]), before);
    done(&at, &["zpool", "add", "-f", "tank", "disks/c"]);
    done(&at, &["zpool", "reguid", "tank"]);
    let text = events(&["-H", "tank"]);
    assert!(text.contains("\tsysevent.fs.zfs.vdev_add\n"), "{text}");
    assert!(text.contains("\tsysevent.fs.zfs.pool_reguid\n"), "{text}");
    follower.kill();
    holder.stop();
    judge(&at, "tank");
}

#[test]
fn what_a_device_does_wrong_is_an_event() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-o", "primarycache=none", "tank/home"]);
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank"]);
    let bytes: Vec<u8> = (0..4u32 << 20).map(|at| (at >> 7) as u8 ^ at as u8).collect();
    write_durably(&at.join("m/home/file"), &bytes);
    done(&at, &["zpool", "sync", "tank"]);
    spoil(&at.join("disks/a"));
    let read = read_past_the_kernel(&at.join("m/home/file"));
    assert!(read.expect("the other side has it") == bytes);
    let text = done(&at, &["zpool", "events", "-v"]);
    let at_fault = text.find(" ereport.fs.zfs.checksum\n").expect("it is told");
    let report = &text[at_fault..];
    for wanted in [
        "        detector = (embedded nvlist)\n                version = 0x0\n                scheme = \"zfs\"\n",
        "        (end detector)\n",
        "        pool_failmode = \"wait\"\n",
        "        vdev_type = \"file\"\n",
        "        zio_err = 0x34\n",
    ] {
        assert!(report.contains(wanted), "{report}");
    }
    assert!(
        report.contains(&format!("        vdev_path = \"{}\"\n", path(&at, "disks/a"))),
        "{report}"
    );
    holder.stop();
}

/// Writes a file and makes it durable.
fn write_durably(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("a file");
    file.write_all(bytes).expect("it is written");
    file.sync_all().expect("it is durable");
}

/// What who serves a mount gives of a file, past what the kernel keeps of it; nothing where that fails.
fn read_past_the_kernel(path: &Path) -> Option<Vec<u8>> {
    let input = format!("if={}", path.to_str().expect("text"));
    let mut read = Command::new("dd");
    let output = read.args([&input, "bs=128k", "iflag=direct"]).output().expect("dd starts");
    output.status.success().then_some(output.stdout)
}

/// Overwrites all that a device has between its labels.
fn spoil(disk: &Path) {
    let mut file = File::options().write(true).open(disk).expect("it opens");
    file.seek(SeekFrom::Start(4 << 20)).expect("it is long enough");
    let junk = vec![0xa5; 1 << 20];
    for _ in 4..DISK_BYTES >> 20 {
        // The labels at the end stay.
        if file.stream_position().expect("a place") + (2 << 20) > DISK_BYTES {
            break;
        }
        file.write_all(&junk).expect("it is written");
    }
}

#[test]
fn what_is_not_cached_is_read_from_the_devices_each_time() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-o", "primarycache=metadata", "tank/up"]);
    done(&at, &["zfs", "create", "tank/up/inherits"]);
    done(&at, &["zfs", "create", "-o", "secondarycache=none", "tank/all"]);
    done(&at, &["zfs", "create", "tank/changes"]);
    assert_eq!(done(&at, &["zfs", "get", "-Ho", "value", "secondarycache", "tank/all"]), "none\n");
    let source =
        done(&at, &["zfs", "get", "-Ho", "value,source", "primarycache", "tank/up/inherits"]);
    assert_eq!(source, "metadata\tinherited from tank/up\n");
    // What is set below is as above again, of all that has such.
    done(&at, &["zfs", "create", "-o", "copies=2", "tank/up/other"]);
    done(&at, &["zfs", "create", "-s", "-V", "1M", "-o", "copies=3", "tank/up/other/v"]);
    done(&at, &["zfs", "inherit", "-r", "copies", "tank/up"]);
    for dataset in ["tank/up/other", "tank/up/other/v"] {
        assert_eq!(
            done(&at, &["zfs", "get", "-Ho", "value,source", "copies", dataset]),
            "1\tdefault\n"
        );
    }
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank"]);
    // While it is open.
    done(&at, &["zfs", "set", "primarycache=none", "tank/changes"]);
    let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at >> 7) as u8 ^ at as u8).collect();
    let files = ["all", "up/inherits", "changes"].map(|of| at.join("m").join(of).join("file"));
    for file in &files {
        write_durably(file, &bytes);
    }
    done(&at, &["zpool", "sync", "tank"]);
    for file in &files {
        assert!(read_past_the_kernel(file).expect("it is read") == bytes);
    }
    // What is still there can only come from memory.
    spoil(&at.join("disks/a"));
    spoil(&at.join("disks/b"));
    assert!(read_past_the_kernel(&files[0]).expect("it is in memory") == bytes);
    assert_eq!(read_past_the_kernel(&files[1]), None);
    assert_eq!(read_past_the_kernel(&files[2]), None);
    // Its metadata is.
    assert_eq!(fs::metadata(&files[1]).expect("it is known").len(), bytes.len() as u64);
    holder.kill();
    let unmounted = Command::new("umount").arg("-l").arg(at.join("m")).status();
    assert!(unmounted.expect("umount starts").success());
}

/// What is too long for a pool is refused, whoever holds it; and who holds it goes on.
#[test]
fn names_and_values_that_are_too_long_stop_nobody() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a"], DISK_BYTES);
    let long_pool = "a".repeat(240);
    refused(at, &["zpool", "create", &long_pool, "disks/a"], "name is too long");
    let long_name = format!("a:{}=1", "a".repeat(254));
    let create = ["zpool", "create", "-O", &long_name, "tank", "disks/a"];
    refused(at, &create, "property name is too long");
    done(at, &["zpool", "create", "-m", "none", "tank", "disks/a"]);
    done(at, &["zfs", "snapshot", "tank@s"]);
    let holder = Holder::start(at, HELD);
    let long = "a".repeat(9000);
    let value = format!("org:x={long}");
    let mountpoint = format!("mountpoint=/{long}");
    let snapshot = format!("tank@{}", "a".repeat(2000));
    let tag = "a".repeat(256);
    let cases: [(&[&str], &str); 10] = [
        (&["zfs", "set", &value, "tank"], "property value too long"),
        (&["zfs", "set", &mountpoint, "tank"], "property value too long"),
        (&["zfs", "set", "mountpoint=/a\nb", "tank"], "must be an absolute path"),
        (&["zfs", "create", "-o", &value, "tank/a"], "property value too long"),
        (&["zfs", "clone", "-o", &value, "tank@s", "tank/a"], "property value too long"),
        (&["zfs", "create", "tank/a\nb"], "invalid character '\\n'"),
        (&["zfs", "snapshot", &snapshot], "name is too long"),
        (&["zpool", "set", &long_name, "tank"], "property name is too long"),
        (&["zfs", "hold", "", "tank@s"], "tag is empty"),
        (&["zfs", "hold", &tag, "tank@s"], "tag too long"),
    ];
    for (words, why) in cases {
        refused(at, words, why);
        done(at, &["zfs", "set", "org:x=fine", "tank"]);
    }
    assert_eq!(done(at, &["zfs", "get", "-Ho", "value", "org:x", "tank"]), "fine\n");
    holder.stop();
    assert_eq!(done(at, &["zfs", "list", "-Ho", "name", "-r", "tank"]), "tank\n");
    judge(at, "tank");
}

#[test]
fn who_sees_a_mount_can_ask_who_holds_the_pool() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    let inside = at.join("inside");
    fs::create_dir(&inside).expect("a folder");
    let text = format!("[[mount]]\ndataset = \"tank\"\ndirectory = \"{}\"\n", inside.display());
    fs::write(at.join("mount.toml"), text).expect("a configuration");
    let ways = [&["serve", "--config", "mount.toml"][..], &["mount", "-o", "rw", "tank", "inside"]];
    for (round, words) in ways.into_iter().cycle().take(6).enumerate() {
        let child = pools::program(&at, words).stdout(Stdio::null()).spawn().expect("it starts");
        let mut server = Serving { child, ready: String::new() };
        // As soon as it can be seen.
        while !is_mounted(&inside) {
            assert!(server.child.try_wait().expect("it is known").is_none(), "{words:?} ended");
        }
        done(&at, &["zfs", "snapshot", &format!("tank@{round}")]);
        server.stop();
    }
}

#[test]
fn signals_of_one_moment_are_one_wish_and_a_later_one_leaves_no_mount_behind() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    let inside = at.join("inside");
    fs::create_dir(&inside).expect("a folder");
    let send = |signal: &str, id: u32| {
        let sent = Command::new("kill").args([signal, &id.to_string()]).status();
        assert!(sent.expect("it runs").success());
    };
    for _ in 0..3 {
        let holder = Holder::run(&at, &["mount", "-o", "rw", "tank", "inside"], "is mounted on");
        send("-INT", holder.id());
        send("-INT", holder.id());
        holder.ended();
        assert!(!is_mounted(&inside));
    }
    // One that waits for a device that is silent.
    fs::create_dir(at.join("apart")).expect("a folder");
    add_disks(&at.join("apart"), &["x"], DISK_BYTES);
    let server = Serving::start(&mut pools::program(&at, &["serve", "apart/x", "--nbd", "unix:s"]));
    let uri = format!("nbd+unix:///?socket={}", at.join("s").display());
    done(&at, &["-d", &uri, "zpool", "create", "-m", "none", "far", &uri]);
    let words = ["-d", &uri, "mount", "-o", "rw", "far", "inside"];
    let child = pools::program(&at, &words).stdout(Stdio::null()).spawn().expect("it starts");
    let mut holder = Serving { child, ready: String::new() };
    soon(|| is_mounted(&inside));
    send("-STOP", server.child.id());
    send("-INT", holder.child.id());
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert!(holder.child.try_wait().expect("it is known").is_none(), "it waits");
    send("-INT", holder.child.id());
    assert_eq!(holder.child.wait().expect("it ends").code(), Some(1));
    assert!(!is_mounted(&inside));
    send("-CONT", server.child.id());
    server.stop();
}

/// What could break: who reads beside a holder is shown less than what was done before.
#[test]
fn who_reads_beside_a_holder_sees_what_was_done_before() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    let inside = at.join("inside");
    fs::create_dir(&inside).expect("a folder");
    let holder = Holder::run(&at, &["mount", "-o", "rw", "tank", "inside"], "is mounted on");
    done(&at, &["zfs", "snapshot", "tank@before"]);
    for name in ["x", "y"] {
        fs::write(inside.join(name), name).expect("a file");
        assert_eq!(done(&at, &["zfs", "cat", &format!("tank:{name}")]), name);
    }
    let differs = done(&at, &["zfs", "diff", "-H", "tank@before"]);
    assert!(["x", "y"].iter().all(|name| differs.contains(&format!("/{name}\n"))), "{differs}");
    holder.stop();
}
