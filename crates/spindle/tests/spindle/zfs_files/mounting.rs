//! mount: a dataset as programs see it.

use super::fixture::{Fixture, compare, is_root};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A mount, and the program that serves it.
pub(crate) struct Mount {
    server: Child,
    directory: tempfile::TempDir,
}

impl Mount {
    pub(crate) fn new(fixture: &Fixture, arguments: &[&str]) -> Option<Mount> {
        if !is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let directory = fixtures::scratch::folder();
        let place = directory.path().to_str().expect("a path").to_owned();
        let mut server = fixture
            .spindle(&[&["mount"], arguments, &[&place]].concat())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = server.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("it says that it serves");
        let how = if arguments.contains(&"rw") { "for writing\n" } else { "for reading\n" };
        assert!(line.contains(" is mounted on ") && line.ends_with(how), "{line}");
        Some(Mount { server, directory })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Tells it to stop, and waits for that.
    pub(crate) fn stop(mut self) {
        let id = self.server.id().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status().expect("kill runs");
        assert!(told.success() && self.server.wait().expect("it ended").success());
        assert_eq!(
            std::fs::read_dir(self.path()).expect("the folder").count(),
            0,
            "it is unmounted"
        );
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Where the test failed, nothing may stay mounted.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.directory.path())
            .stderr(Stdio::null())
            .status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_mount_shows_files_children_and_snapshots() {
    let Some(fixture) = Fixture::unpack("snapshots-clones") else { return };
    let top = "t_snapshots_clones";
    let Some(mount) = Mount::new(&fixture, &[top]) else { return };
    compare(mount.path(), &fixture.entries(top), true);
    for child in ["a", "a/b", "a/b/c", "clone", "promoted"] {
        let dataset = format!("{top}/{child}");
        let compared = compare(&mount.path().join(child), &fixture.entries(&dataset), false);
        assert!(compared > 0, "{child}");
    }
    for (snapshot, place) in [("@one", ".zfs/snapshot/one"), ("/a@two", "a/.zfs/snapshot/two")] {
        let dataset = format!("{top}{snapshot}");
        compare(&mount.path().join(place), &fixture.entries(&dataset), false);
    }
    let snapshots =
        std::fs::read_dir(mount.path().join("a/.zfs/snapshot")).expect("a folder").count();
    assert_eq!(snapshots, 2);
    assert!(std::fs::write(mount.path().join("new"), "x").is_err(), "it is read-only");
    // No number is given twice: programs that walk would see a circle.
    let found = Command::new("find").arg(mount.path()).output().expect("find runs");
    assert!(
        found.status.success() && found.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    mount.stop();
}

#[test]
fn a_snapshot_and_an_encrypted_dataset_are_mounted() {
    if let Some(fixture) = Fixture::unpack("xattr-acl")
        && let Some(mount) = Mount::new(&fixture, &["t_xattr_acl/dir"])
    {
        assert!(compare(mount.path(), &fixture.entries("t_xattr_acl/dir"), true) > 3);
        mount.stop();
    }
    let Some(fixture) = Fixture::unpack("encrypted") else { return };
    let keys = fixtures::scratch::folder();
    let key = keys.path().join("key");
    std::fs::write(&key, "correct horse battery\n").expect("written");
    let key = key.to_str().expect("a path");
    if let Some(mount) = Mount::new(&fixture, &["t_encrypted/enc@s", "--key-file", key]) {
        assert!(compare(mount.path(), &fixture.entries("t_encrypted/enc@s"), false) > 100);
        mount.stop();
    }
    // Children whose key is missing can't be entered; the rest is there.
    if let Some(mount) = Mount::new(&fixture, &["t_encrypted"]) {
        let listed =
            std::fs::read_dir(mount.path().join("raw")).and_then(|mut raw| raw.next().transpose());
        assert!(listed.is_err(), "{listed:?}");
        compare(mount.path(), &fixture.entries("t_encrypted"), true);
        mount.stop();
    }
}

/// Directories of many leaves are listed in parts, each name once.
#[test]
fn large_directories_are_whole() {
    fixtures::takes_long!();
    let Some(fixture) = Fixture::unpack("bigdir") else { return };
    let name = "t_bigdir/big";
    let Some(mount) = Mount::new(&fixture, &["--snapdir", "visible", name]) else { return };
    let entries = fixture.entries(name);
    compare(mount.path(), &entries, true);
    let mut find = Command::new("find");
    find.arg(mount.path()).args(["-path", "*/.zfs", "-prune", "-o", "-print0"]);
    let found = find.output().expect("find runs");
    let listed = found.stdout.iter().filter(|byte| **byte == 0).count();
    assert_eq!(listed, entries.len());
    assert!(
        std::fs::read_dir(mount.path())
            .expect("listed")
            .flatten()
            .any(|one| one.file_name() == ".zfs")
    );
    mount.stop();
}

#[test]
fn a_mount_that_is_unmounted_from_outside_ends() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let Some(mut mount) = Mount::new(&fixture, &["t_single/plain@s1"]) else { return };
    compare(mount.path(), &fixture.entries("t_single/plain@s1"), false);
    let unmounted = Command::new("umount").arg(mount.path()).status().expect("umount runs");
    assert!(unmounted.success() && mount.server.wait().expect("it ended").success());
}

/// What could break: keys of children are not looked at, a wrong key is passed over, and what stays locked looks empty.
#[test]
fn keys_open_all_that_lies_below_a_mount() {
    fixtures::takes_long!();
    let Some(fixture) = Fixture::unpack("encrypted") else { return };
    if !is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return;
    }
    let keys = fixtures::scratch::folder();
    let file = |name: &str, text: &str| {
        let path = keys.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let (good, wrong) =
        (file("good", "correct horse battery\n"), file("wrong", "wrong horse battery\n"));
    let named = format!("t_encrypted/enc={good}");
    for key in [&good, &named] {
        let mount = Mount::new(&fixture, &["t_encrypted", "--key-file", key]).expect("it is root");
        let compared =
            compare(&mount.path().join("enc"), &fixture.entries("t_encrypted/enc"), false);
        assert!(compared > 100);
        mount.stop();
    }
    for key in [&wrong, &format!("t_encrypted/raw={good}")] {
        let place = keys.path().to_str().expect("a path");
        let said = fixture.refusal(&["mount", "--key-file", key, "t_encrypted", place]);
        assert!(said.contains("fits no encryption root at or below t_encrypted"), "{said}");
    }
}

/// What could break: a program gets an error, and who serves the mount never learns which file is damaged.
#[test]
fn damage_that_a_program_hits_is_told_of() {
    let Some(fixture) = Fixture::unpack("corrupt-z2-two") else { return };
    if !is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return;
    }
    for disk in ["disk0.raw", "disk1.raw"] {
        std::fs::remove_file(fixture.path().join(disk)).expect("it was there");
    }
    let place = fixtures::scratch::folder();
    let directory = place.path().to_str().expect("a path");
    let mut command = fixture.spindle(&["mount", "t_corrupt_z2_two", directory]);
    let mut server =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let out = server.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("it says that it serves");
    let read = Command::new("tar").args(["-cf", "-", "."]).current_dir(place.path()).output();
    assert!(!read.expect("tar runs").status.success(), "some files are damaged");
    let unmounted = Command::new("umount").arg(place.path()).status().expect("umount runs");
    assert!(unmounted.success());
    let ended = server.wait_with_output().expect("it ended");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("spindle: t_corrupt_z2_two: object "), "{said}");
    assert!(said.contains("can't be read"), "{said}");
}
