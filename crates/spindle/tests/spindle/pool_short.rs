//! Pools of which a device ends before what they have on it: an image that was cut, a partition that was made smaller.
//!
//! What could break: it is counted as whole, and the pool said to bear a loss that it doesn't; it is written, and listed as good from
//! then on; what it still has is not read, though nobody else may have it.

use crate::pools;

use pools::{add_disks, done, printed_and_said, refused, run};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;

const DISK: u64 = 80 << 20;
const LEFT: u64 = 20 << 20;

/// A pool `z` on these disks, with a file in it.
fn pool(kind: &[&str], disks: &[&str]) -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    fs::create_dir(place.join("disks")).expect("a folder");
    add_disks(&place.join("disks"), disks, DISK);
    fs::write(place.join("file"), fixtures::noise(1, 3 << 20)).expect("a file");
    let disks: Vec<String> = disks.iter().map(|disk| format!("disks/{disk}")).collect();
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    done(place, &[&["zpool", "create", "z"], kind, &disks].concat());
    done(place, &["zfs", "cp", "file", "z:/"]);
    folder
}

fn cut(place: &Path, disk: &str) {
    let disk = File::options().write(true).open(place.join("disks").join(disk));
    disk.and_then(|disk| disk.set_len(LEFT)).expect("it is cut");
}

fn content(place: &Path, disk: &str) -> Vec<u8> {
    fs::read(place.join("disks").join(disk)).expect("it is read")
}

#[track_caller]
fn file_is_read(place: &Path) {
    let read = run(place, &["zfs", "cat", "z:file"]);
    let file = fs::read(place.join("file")).expect("it is read");
    assert!(read.stdout == file, "{}", String::from_utf8_lossy(&read.stderr));
}

/// The line of a text that begins with a word.
#[track_caller]
fn line<'a>(text: &'a str, word: &str) -> &'a str {
    let found = text.lines().find(|line| line.trim_start().starts_with(word));
    found.unwrap_or_else(|| panic!("no line '{word}': {text}"))
}

#[test]
fn a_device_that_was_cut_is_read_and_stands_in_for_no_other() {
    let folder = pool(&["raidz"], &["a", "b", "c"]);
    let place = folder.path();
    cut(place, "b");
    let before = content(place, "b");
    let is_told = |after: &str| {
        let (status, said) = printed_and_said(place, &["zpool", "status", "z"]);
        assert!(said.contains("it stands in for no other device, and is not written"), "{said}");
        assert_eq!(line(&status, "state:").trim(), "state: DEGRADED", "{after}");
        let leaf = line(&status, "b ");
        assert!(
            leaf.contains("UNAVAIL") && leaf.contains("too small: ends at 20 MiB of "),
            "{leaf}"
        );
        assert!(
            status.contains("devices end before what the pool has on them.  Sufficient"),
            "{status}"
        );
    };
    is_told("before it is written");
    let import = done(place, &["zpool", "import"]);
    assert!(import.contains("too small: ends at 20 MiB of "), "{import}");
    let scan = done(place, &["scan"]);
    assert!(line(&scan, "ZFS pool z").contains("DEGRADED"), "{scan}");
    assert!(scan.contains("disks/b  UNAVAIL, too small: ends at 20 MiB of "), "{scan}");
    assert!(scan.contains("zfs list -r z"), "{scan}");
    let json: Value = serde_json::from_str(&done(place, &["scan", "--json"])).expect("JSON");
    assert_eq!(json["pools"][0]["short"][0]["bytes"], LEFT, "{json}");
    file_is_read(place);

    done(place, &["zfs", "create", "z/x"]);
    assert!(content(place, "b") == before, "it was not written");
    is_told("after it was written");
    file_is_read(place);
}

#[test]
fn a_pool_with_a_cut_device_and_a_missing_one_bears_no_more_and_is_not_written() {
    let folder = pool(&["raidz"], &["a", "b", "c"]);
    let place = folder.path();
    cut(place, "b");
    fs::rename(place.join("disks/c"), place.join("c")).expect("it is away");
    let before = [content(place, "a"), content(place, "b")];
    let scan = done(place, &["scan"]);
    assert!(line(&scan, "ZFS pool z").contains("UNAVAIL"), "{scan}");
    let lack = "raidz1-0 needs 2 of its 3 devices, and 1 is there and whole; missing: ";
    assert!(scan.contains(lack) && scan.contains("ends at 20 MiB of "), "{scan}");
    let import = done(place, &["zpool", "import"]);
    assert_eq!(line(&import, "state:").trim(), "state: UNAVAIL");
    assert!(!import.contains("can be imported"), "{import}");
    refused(place, &["zfs", "create", "z/x"], lack);
    refused(place, &["zpool", "import", "z"], lack);
    assert!(before == [content(place, "a"), content(place, "b")], "nothing was written");
    // Two that are cut are two too many.
    fs::rename(place.join("c"), place.join("disks/c")).expect("it is back");
    cut(place, "c");
    refused(place, &["zfs", "create", "z/x"], lack);
    let status = run(place, &["zpool", "status", "z"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(!status.contains("Sufficient"), "{status}");
    file_is_read(place);
}

#[test]
fn a_pool_on_one_device_that_was_cut_is_read_as_far_as_it_goes_and_not_written() {
    let folder = pool(&[], &["a"]);
    let place = folder.path();
    cut(place, "a");
    let before = content(place, "a");
    let scan = done(place, &["scan"]);
    assert!(scan.contains("ZFS pool z: UNAVAIL") && scan.contains("zfs list -r z"), "{scan}");
    for command in
        [&["zfs", "create", "z/x"][..], &["zpool", "import", "z"], &["zpool", "export", "z"]]
    {
        refused(place, command, "is cut short, and nothing stands in for it");
        refused(place, command, "what is left can be read");
    }
    assert!(before == content(place, "a"), "nothing was written");
    file_is_read(place);
    assert!(done(place, &["zpool", "import"]).contains("-o readonly=on"));
}
