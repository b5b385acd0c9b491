//! cp: all that is known of files, going on, staying inside, full targets, damaged pools.

use super::fixture::{Fixture, compare, digest_of, is_root, path_of};
use fixtures::extent::some;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
fn a_copy_has_all_that_is_known_of_the_files() {
    if !is_root() {
        println!("skipped: owners and devices are for root");
        return;
    }
    let datasets = [
        ("single", "t_single"),
        ("version28", "t_version28@s"),
        ("bigdir", "t_bigdir/big"),
        ("xattr-acl", "t_xattr_acl/sa"),
        ("xattr-acl", "t_xattr_acl/dir"),
        ("corrupt-z1", "t_corrupt_z1"),
    ];
    for (name, dataset) in some(datasets, 3) {
        let Some(fixture) = Fixture::unpack(name) else { return };
        let target = fixtures::scratch::folder();
        let out = target.path().join("out");
        let source = format!("{dataset}:");
        let first = fixture.output(&["zfs", "cp", "-r", &source, text(&out)]);
        let said = String::from_utf8_lossy(&first.stderr);
        // Below the test may lie an ext4, which does not take long attributes.
        let lacks = said.contains("could not be set on")
            && said.contains("; ext4 holds about 4 KiB of attributes of a file, XFS holds more")
            && first.status.code() == Some(1);
        assert!(first.status.success() && !said.contains("could not be set") || lacks, "{said}");
        assert!(compare(&out, &fixture.entries(dataset), false) > 3, "{name}");
        // Once more: everything is there already.
        let again = fixture.output(&["zfs", "cp", "-r", &source, text(&out)]);
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.success() && said.contains("0 files copied"), "{said}");
        compare(&out, &fixture.entries(dataset), false);
    }
}

#[test]
fn targets_are_chosen_as_cp_chooses_them() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let target = fixtures::scratch::folder();
    let at = |name: &str| target.path().join(name);
    let modes = "t_single:files/modes";
    fixture.prints(&["zfs", "cp", "-r", modes, text(&at("copy"))]);
    assert!(at("copy/m4755").is_file(), "what is not there becomes the copy");
    assert!(!at("copy/.spindle-unfinished").exists());
    fixture.prints(&["zfs", "cp", "-r", modes, text(&at("copy"))]);
    assert!(at("copy/modes/m4755").is_file(), "what is there gets the copy under its name");
    std::fs::create_dir(at("into")).expect("made");
    fixture.prints(&["zfs", "cp", "-r", "t_single:files/modes/", text(&at("into"))]);
    assert!(at("into/m4755").is_file(), "a path with a slash is the content");
    fixture.prints(&["zfs", "cp", "t_single:files/modes/m4755", text(&at("one"))]);
    assert!(at("one").is_file());
    for (arguments, says) in [
        (vec!["zfs", "cp", modes, text(&at("other"))], "-r copies those"),
        (vec!["zfs", "cp", "t_single:nope", text(&at("other"))], "there is no such file"),
    ] {
        let said = fixture.refusal(&arguments);
        assert!(said.contains(says), "{said}");
    }
    // What differs is kept, unless one is told to replace it.
    std::fs::write(at("one"), "mine").expect("written");
    let said = fixture.refusal(&["zfs", "cp", "t_single:files/modes/m4755", text(&at("one"))]);
    assert!(said.contains("--force replaces it"), "{said}");
    assert_eq!(std::fs::read(at("one")).expect("read"), b"mine");
    fixture.prints(&["zfs", "cp", "--force", "t_single:files/modes/m4755", text(&at("one"))]);
    assert_ne!(std::fs::read(at("one")).expect("read"), b"mine");
}

/// What could break: the pool's own disk is what `--force` replaces, or what a dump is written to, because it goes by
/// another name there.
#[test]
fn the_devices_that_are_read_are_never_written_over() {
    fixtures::takes_long!();
    let (Some(volumes), Some(files)) = (Fixture::unpack("volumes"), Fixture::unpack("single"))
    else {
        return;
    };
    let elsewhere = fixtures::scratch::folder();
    let disk = volumes.path().join("disk0.raw");
    let before = digest_of(&disk);
    let (other, link) = (elsewhere.path().join("other"), elsewhere.path().join("link"));
    std::fs::hard_link(&disk, &other).expect("linked");
    std::os::unix::fs::symlink(&disk, &link).expect("linked");
    for name in [&disk, &other, &link] {
        let said = volumes.refusal(&["zfs", "dump", "--overwrite", "t_volumes/v4k", text(name)]);
        assert!(said.contains("is one of the devices: name another file"), "{said}");
    }
    assert_eq!(digest_of(&disk), before);
    let disk = files.path().join("disk0.raw");
    let before = digest_of(&disk);
    let other = elsewhere.path().join("hard");
    std::fs::hard_link(&disk, &other).expect("linked");
    for name in [&disk, &other] {
        let said = files.refusal(&["zfs", "cp", "--force", "t_single:files/random", text(name)]);
        assert!(said.contains("is one of the devices that are read: name another"), "{said}");
    }
    assert_eq!((digest_of(&disk), digest_of(&other)), (before.clone(), before));
}

/// What could break: the note promises that devices are left out, and then each of them is an error.
#[test]
fn without_root_devices_are_left_out_and_said() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let Some(fixture) = Fixture::unpack("single") else { return };
    let target = fixtures::scratch::folder();
    let open = std::fs::Permissions::from_mode(0o777);
    for path in [fixture.path(), &fixture.path().join("disk0.raw"), target.path()] {
        std::fs::set_permissions(path, open.clone()).expect("set");
    }
    let out = target.path().join("out");
    let mut copy = fixture.spindle(&["zfs", "cp", "-v", "-r", "t_single:", text(&out)]);
    if is_root() {
        copy.uid(65534).gid(65534);
    }
    let Ok(copy) = copy.output() else {
        println!("skipped: another user can't run the program where it lies");
        return;
    };
    let said = String::from_utf8_lossy(&copy.stderr);
    assert!(copy.status.success() && !said.contains("not permitted"), "{said}");
    assert!(said.contains("device nodes were left out: only root can make them"), "{said}");
    assert!(out.join("files/random").is_file());
    let names = String::from_utf8_lossy(&copy.stdout);
    assert!(names.lines().any(|line| line == "t_single:/files/random"), "{names}");
}

#[test]
fn links_in_the_target_do_not_lead_out_of_it() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let (target, outside) = (fixtures::scratch::folder(), fixtures::scratch::folder());
    std::os::unix::fs::symlink(outside.path(), target.path().join("files")).expect("a link");
    let said = fixture.refusal(&["zfs", "cp", "-r", "--force", "t_single:", text(target.path())]);
    assert!(said.contains("there is something else in the target"), "{said}");
    assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 0);
}

#[test]
fn a_copy_that_was_killed_goes_on() {
    if !is_root() {
        println!("skipped: owners and devices are for root");
        return;
    }
    let Some(fixture) = Fixture::unpack("single") else { return };
    let target = fixtures::scratch::folder();
    let out = target.path().join("out");
    let arguments = ["zfs", "cp", "-r", "t_single:files", text(&out)];
    for wait_ms in [30, 60, 90, 120, 150] {
        let mut copy =
            fixture.spindle(&arguments).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(wait_ms));
        // It may have ended by itself.
        let _ = copy.kill();
        let ended = copy.wait().expect("it ended").success();
        // One that is killed when all is there already would begin below it once more.
        if ended || out.exists() && !out.join(".spindle-unfinished").exists() {
            break;
        }
    }
    if out.join(".spindle-unfinished").exists() || !out.exists() {
        fixture.prints(&arguments);
    }
    let left: Vec<String> =
        walk(&out).into_iter().filter(|name| name.contains(".spindle-")).collect();
    assert!(left.is_empty(), "{left:?}");
    let below: Vec<serde_json::Value> = fixture
        .entries("t_single")
        .into_iter()
        .filter_map(|entry| {
            let mut entry = entry.clone();
            let path = path_of(&entry).strip_prefix("files/")?.to_owned();
            entry["path"] = path.into();
            Some(entry)
        })
        .collect();
    assert!(compare(&out, &below.iter().collect::<Vec<_>>(), false) > 100);
}

/// A copy is killed when a link is there, and not yet what is known of it.
#[test]
fn a_link_that_was_only_just_made_gets_its_time_when_the_copy_goes_on() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let folder = fixtures::scratch::folder();
    let arguments = ["zfs", "cp", "-r", "t_single:files", text(folder.path())];
    fixture.prints(&arguments);
    let is_link = |name: &String| Path::new(name).is_symlink();
    let link = walk(folder.path()).into_iter().find(is_link).expect("the fixture has links");
    let modified = || {
        let found = std::fs::symlink_metadata(&link).expect("it is there");
        (found.mtime(), found.mtime_nsec())
    };
    let whole = modified();
    let touched = Command::new("touch").args(["-h", "-d", "@4711", &link]).status();
    assert!(touched.expect("coreutils").success() && modified() == (4711, 0));
    fixture.prints(&arguments);
    assert_eq!(modified(), whole);
}

fn walk(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        names.push(entry.path().to_string_lossy().into_owned());
        if entry.file_type().expect("a type").is_dir() {
            names.extend(walk(&entry.path()));
        }
    }
    names
}

#[test]
fn a_full_target_is_told_and_goes_on_when_there_is_room() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let folder = fixtures::scratch::folder();
    let mount = |size: &str, how: &str| {
        let options = format!("{how}size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path());
        mount.output().is_ok_and(|done| done.status.success())
    };
    if !is_root() || !mount("1m", "") {
        println!("skipped: mounting is not allowed");
        return;
    }
    let arguments = ["zfs", "cp", "-r", "t_single:files", text(folder.path())];
    let full = fixture.output(&arguments);
    let grown = mount("64m", "remount,");
    let went_on = fixture.output(&arguments);
    let files = fixture.entries("t_single").into_iter().filter(|entry| entry["type"] == "file");
    let files = files.filter(|entry| {
        path_of(entry).starts_with("files/") && !path_of(entry).contains('\u{fffd}')
    });
    let wrong: Vec<&str> = files
        .filter(|entry| {
            let path = folder.path().join(path_of(entry));
            !path.is_file() || Some(&*digest_of(&path)) != entry["sha256"].as_str()
        })
        .map(path_of)
        .collect();
    let unmounted = Command::new("umount").arg(folder.path()).status().expect("umount runs");
    assert!(grown && unmounted.success());
    let said = (full.status.code(), String::from_utf8_lossy(&full.stderr).into_owned());
    assert!(said.0 == Some(1) && said.1.contains("the target is full"), "{said:?}");
    let said = String::from_utf8_lossy(&went_on.stderr);
    assert!(went_on.status.success() && said.contains("were there already"), "{said}");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Of a pool without redundancy a block of a file is overwritten: that file is told, all others are copied.
#[test]
fn what_is_damaged_takes_nothing_else_with_it() {
    use std::os::unix::fs::FileExt;
    let Some(fixture) = Fixture::unpack("single") else { return };
    let disk = fixture.path().join("disk0.raw");
    let image = fixtures::Disk::of_file(&disk);
    let entries = fixture.entries("t_single");
    // What does not compress is stored as it is, and is found by its bytes.
    let path = "files/random";
    let whole = fixture.prints(&["zfs", "cat", &format!("t_single:{path}")]);
    let sample = &whole[8192..8704];
    let sectors =
        image.parts().flat_map(|(at, part)| (at..).step_by(512).zip(part.bytes().chunks(512)));
    let places: Vec<u64> =
        sectors.filter(|(_, sector)| *sector == sample).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{path} is stored as it is");
    let file = std::fs::File::options().write(true).open(&disk).expect("it opens");
    for at in places {
        file.write_all_at(&[0x5a; 512], at).expect("overwritten");
    }
    let target = fixtures::scratch::folder();
    let out = target.path().join("out");
    let said = fixture.refusal(&["zfs", "cp", "-r", "t_single:", text(&out)]);
    assert!(said.contains(path) && said.contains("--skip-damaged copies the rest"), "{said}");
    assert!(!out.join(path).exists(), "half a file bears no name");
    let others = entries.iter().filter(|entry| entry["type"] == "file" && path_of(entry) != path);
    for entry in others.filter(|entry| !path_of(entry).contains('\u{fffd}')) {
        let copy = digest_of(&out.join(path_of(entry)));
        assert_eq!(Some(&*copy), entry["sha256"].as_str(), "{}", path_of(entry));
    }
    let said = fixture.refusal(&["zfs", "cat", &format!("t_single:{path}")]);
    assert!(said.contains("it was written up to byte 0"), "{said}");
    let said = fixture.refusal(&["zfs", "cp", "-r", "--skip-damaged", "t_single:", text(&out)]);
    assert!(said.contains("bytes 0 to 131072 can't be read, and are zeros in the copy"), "{said}");
    let copy = std::fs::read(out.join(path)).expect("it is there");
    assert_eq!(copy.len(), whole.len());
    assert!(copy[..131_072].iter().all(|byte| *byte == 0), "the block that is missing");
    assert_eq!(copy[131_072..], whole[131_072..], "the block behind it");
}
