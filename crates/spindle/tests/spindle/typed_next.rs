//! Commands that are named to be typed next, and what a command ends with that can't do its work.
//!
//! What could break: a command that names another thing than what was meant, or one of several parts; a status that blames the caller.

use crate::pools;
use crate::serving::Serving;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands that a text says to type next, word by word.
fn next(text: &str) -> Vec<Vec<String>> {
    let lines =
        text.lines().filter_map(|line| line.split_once("spindle -d ").map(|(_, rest)| rest));
    let words = |line: &str| {
        line.split("     #").next().unwrap_or(line).split(' ').map(str::to_owned).collect()
    };
    lines.map(words).collect()
}

fn create(at: &Path, name: &str, level: &str, disks: &[&str]) {
    let count = disks.len().to_string();
    let create = ["md", "create", name, "-l", level, "-n", &count, "--assume-clean"];
    pools::done(at, &[&create[..], disks].concat());
}

#[test]
fn of_sets_that_are_called_alike_each_is_named_so_that_it_is_found() {
    let folder = pools::disks(&["a", "b"], 24 << 20);
    let at = folder.path();
    create(at, "data", "1", &["a", "b"]);
    let other = pools::disks(&["c", "d"], 24 << 20);
    create(other.path(), "data", "1", &["c", "d"]);
    let next_of = |text: &str| -> Vec<String> {
        let commands = next(text).into_iter();
        commands
            .map(|words| words.join(" ").split_once(" md serve ").expect("it serves").1.to_owned())
            .collect()
    };
    let alone = pools::done(at, &["md", "assemble", "--scan"]);
    assert_eq!(next_of(&alone), ["/dev/md/data"], "{alone}");
    for disk in ["c", "d"] {
        fs::copy(other.path().join(disk), at.join(disk)).expect("it is copied");
    }
    for flags in [&["--readonly"][..], &[]] {
        let both = pools::done(at, &[&["md", "assemble", "--scan"], flags].concat());
        let named = next_of(&both);
        assert_eq!(named.len(), 2, "{both}");
        let mut members = Vec::new();
        for command in &named {
            let set = command.split(' ').next().expect("a set");
            members.push(pools::done(at, &["md", "detail", set]));
        }
        assert!(members[0] != members[1], "{both}");
    }
    let by_member = pools::done(at, &["md", "assemble", "c"]);
    assert_ne!(next_of(&by_member), ["/dev/md/data"], "{by_member}");
}

#[test]
fn what_may_lie_on_a_set_that_is_not_started_was_asked_for_rightly() {
    let folder = pools::disks(&["a", "b", "c"], 24 << 20);
    let at = folder.path();
    create(at, "data", "5", &["a", "b", "c"]);
    pools::done(at, &["lvm", "vgcreate", "vg", "data"]);
    pools::done(at, &["lvm", "lvcreate", "vg", "-n", "lv", "-L", "4MiB"]);
    let status = |arguments: &[&str]| {
        let output = pools::run(at, arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = status(&["lvm", "dump", "vg/none", "f"]);
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = status(&["lvm", "dump", "other/lv", "f"]);
    assert_eq!(code, Some(2), "{said}");
    for gone in ["a", "b"] {
        fs::remove_file(at.join(gone)).expect("removed");
    }
    for verb in
        [&["lvm", "dump", "vg/lv", "f"][..], &["serve", "--volume", "vg/lv", "--nbd", "unix:s"]]
    {
        let (code, said) = status(verb);
        let words = "data can't be put together, and was not looked into";
        assert!(code == Some(1) && said.contains(words), "{code:?}: {said}");
    }
    // To show what there is, is what a scan does, whatever it is.
    let scanned = pools::run(at, &["scan"]);
    let printed = String::from_utf8_lossy(&scanned.stdout).into_owned();
    assert!(scanned.status.code() == Some(0) && printed.contains(", can't be opened"), "{printed}");
}

#[test]
fn a_place_that_is_named_twice_is_named_once_in_what_is_typed_next() {
    let folder = pools::disks(&["a"], 80 << 20);
    let at = folder.path();
    pools::done(at, &["zpool", "create", "z", "a"]);
    let text = pools::done(at, &["scan", "."]);
    assert!(text.contains("next: spindle -d . zfs list -r z\n"), "{text}");
    let output = pools::program(at, &["scan", "a"]).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("next: spindle -d . -d a zfs list -r z\n"), "{text}");
}

/// What could break: one device of several is served, from which no file can be had.
#[test]
fn a_file_system_over_several_devices_is_served_with_all_of_them() {
    let has = |tool: &str| {
        Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    if !has("mkfs.btrfs") {
        return;
    }
    let folder = pools::disks(&["a", "b", "other"], 256 << 20);
    let at = folder.path();
    let make = |disks: &[&str]| {
        let made =
            Command::new("mkfs.btrfs").args(["-q", "-f"]).args(disks).current_dir(at).status();
        assert!(made.expect("mkfs.btrfs").success());
    };
    make(&["a", "b"]);
    make(&["other"]);
    let text = pools::done(at, &["scan"]);
    let all = "next: spindle -d . serve --volume ./a --volume ./b --readonly\n";
    assert_eq!(text.matches(all).count(), 2, "{text}");
    assert!(text.contains("next: spindle -d . serve --volume ./other --readonly\n"), "{text}");
    let json: Value = serde_json::from_str(&pools::done(at, &["scan", "-j"])).expect("JSON");
    let next = json["devices"][0]["next"].as_str().expect("a command");
    assert_eq!(format!("next: {next}\n"), all);

    let socket = format!("unix:{}", at.join("s").display());
    let typed: Vec<&str> = next.split(' ').skip(3).chain(["--nbd", &socket]).collect();
    let serving = Serving::start(pools::program(at, &typed).stderr(Stdio::null()));
    assert!(serving.ready.contains("serving 2 exports over NBD"), "{}", serving.ready);
    if has("nbdinfo") {
        for name in ["./a", "./b"] {
            let uri = format!("nbd+unix:///{name}?socket={}", at.join("s").display());
            let size = Command::new("nbdinfo").args(["--size", &uri]).output().expect("nbdinfo");
            assert_eq!(String::from_utf8_lossy(&size.stdout).trim(), "268435456", "{name}");
        }
    }
    serving.stop();
    pools::refused(
        at,
        &[&typed[..], &["--name", "x"]].concat(),
        "--name: several volumes are served",
    );

    fs::remove_file(at.join("b")).expect("removed");
    let text = pools::done(at, &["scan"]);
    let one = "next: spindle -d . serve --volume ./a --readonly     # 1 of its 2 devices\n";
    assert!(text.contains(one), "{text}");
}
