//! Logical volumes from the outside: made, listed, removed, served; and read by LVM itself.
//!
//! What could break: a group that LVM finds fault with, a device with content that is overwritten, a name
//! that finds another volume. LVM's own look needs root (loop devices) and its programs; elsewhere that
//! test says that it is skipped.

use crate::serving::Serving;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

fn spindle(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(arguments).current_dir(dir).env_remove("SPINDLE_DEVICES");
    command.output().expect("the program starts")
}

fn done(dir: &Path, arguments: &[&str]) -> String {
    let output = spindle(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(dir: &Path, arguments: &[&str], saying: &str) {
    let output = spindle(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(saying), "{arguments:?}: {said}");
}

/// A folder with a group `vg` of three disks, and two volumes.
fn group() -> tempfile::TempDir {
    let dir = fixtures::scratch::folder();
    fs::create_dir(dir.path().join("disks")).expect("made");
    for name in ["disks/a", "disks/b", "disks/c"] {
        let file = File::create(dir.path().join(name)).expect("made");
        file.set_len(32 << 20).expect("grown");
    }
    let make = ["lvm", "vgcreate", "vg", "disks/a", "disks/b", "disks/c", "-s", "1m"];
    done(dir.path(), &make);
    let volume = |rest: &[&str]| {
        done(dir.path(), &[&["-d", "disks", "lvm", "lvcreate", "vg"], rest].concat())
    };
    volume(&["-n", "striped", "-L", "12m", "-i", "3", "-I", "16k"]);
    volume(&["-n", "linear", "-L", "40m"]);
    dir
}

/// A copy that ends too soon has what lies before its end once it is as long as is said.
#[test]
fn a_volume_on_an_image_that_was_cut_is_had_once_the_image_is_as_long_again() {
    let dir = fixtures::scratch::folder();
    let at = dir.path();
    fs::create_dir(at.join("disks")).expect("made");
    let image = File::create(at.join("disks/a")).expect("made");
    image.set_len(32 << 20).expect("grown");
    done(at, &["lvm", "vgcreate", "vg", "disks/a", "-s", "1m"]);
    done(at, &["-d", "disks", "lvm", "lvcreate", "vg", "-n", "home", "-L", "28m"]);
    let content = fixtures::noise(5, 8 << 20);
    done(at, &["-d", "disks", "lvm", "dump", "vg/home", "before"]);
    let zeros = fs::read(at.join("before")).expect("dumped");
    assert!(zeros.len() == 28 << 20 && zeros.iter().all(|byte| *byte == 0));
    // Where its extents begin: the first MiB is LVM's.
    image.write_all_at(&content, 1 << 20).expect("written");
    image.set_len(20 << 20).expect("cut");

    let output = spindle(at, &["-d", "disks", "lvm", "dump", "vg/home", "out"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("cut short?"), "{said}");
    let scan = done(at, &["scan", "disks"]);
    assert!(scan.contains("free, 1 of 1 physical volume cut short\n"), "{scan}");
    let length = "disks/a has 20971520 bytes, and the group's extents reach beyond: a copy of it that is as long again (truncate -s 33554432";
    assert!(scan.contains(length), "{scan}");
    let needed = said.split("truncate -s ").nth(1).expect("what to do");
    let needed: u64 = needed.split(' ').next().and_then(|word| word.parse().ok()).expect("bytes");
    image.set_len(needed).expect("grown");
    done(at, &["-d", "disks", "lvm", "dump", "vg/home", "out"]);
    let out = fs::read(at.join("out")).expect("dumped");
    assert!(out.len() == 28 << 20 && out[..content.len()] == content);
}

/// Damages the text that counts on a physical volume.
fn damage_text(disk: &Path) {
    let disk = File::options().read(true).write(true).open(disk).expect("a disk");
    let (area, mut offset) = (4096, [0; 8]);
    disk.read_exact_at(&mut offset, area + 40).expect("its header");
    let noise = fixtures::noise(9, 512);
    disk.write_all_at(&noise, area + u64::from_le_bytes(offset)).expect("written");
}

/// What could break: a list that lacks a group counts as the whole answer, and the device as empty.
#[test]
fn a_group_whose_only_text_is_damaged_is_no_answer_and_its_device_is_listed() {
    let dir = fixtures::scratch::folder();
    let at = dir.path();
    fs::create_dir(at.join("disks")).expect("made");
    File::create(at.join("disks/a")).and_then(|file| file.set_len(32 << 20)).expect("made");
    done(at, &["lvm", "vgcreate", "vg", "disks/a"]);
    damage_text(&at.join("disks/a"));
    for list in ["pvs", "vgs", "lvs"] {
        let output = spindle(at, &["-d", "disks", "lvm", list]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{list}: {said}");
        assert!(said.contains("disks/a: the text of its volume group does not have its"), "{said}");
        assert!(!said.contains("no volume group is there"), "{said}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed.contains("disks/a"), list == "pvs", "{printed}");
    }
}

/// What could break: what the newest text said is guessed, or written over; what an older one still says is not had.
#[test]
fn where_the_newest_text_is_damaged_an_older_one_is_read_and_nothing_is_written() {
    let dir = group();
    let at = dir.path();
    done(at, &["-d", "disks", "lvm", "dump", "vg/striped", "before"]);
    let names = ["disks/a", "disks/b", "disks/c"];
    // One may be bad: the others have it.
    damage_text(&at.join(names[0]));
    let listed = done(at, &["-d", "disks", "lvm", "lvs"]);
    assert!(listed.contains("striped") && listed.contains("linear"), "{listed}");
    let make = ["-d", "disks", "lvm", "lvcreate", "vg", "-n", "more", "-L", "1m"];
    refused(at, &make, "the text on disks/a is damaged: nothing is changed");
    names[1..].iter().for_each(|name| damage_text(&at.join(name)));
    let contents = || names.map(|name| fs::read(at.join(name)).expect("read"));
    let damaged = contents();
    let older = "volume group vg: its newest text is damaged, and it is read as an older one has it, of seqno 2: what was changed since";
    let output = spindle(at, &["-d", "disks", "lvm", "lvs"]);
    let (printed, said) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    let printed = String::from_utf8(printed).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(printed.contains("striped") && !printed.contains("linear"), "{printed}");
    assert!(said.contains(older), "{said}");
    done(at, &["-d", "disks", "lvm", "dump", "vg/striped", "after"]);
    assert!(
        fs::read(at.join("before")).expect("read") == fs::read(at.join("after")).expect("read")
    );
    let scan = done(at, &["scan", "disks"]);
    assert!(scan.contains("as an older text has it, of seqno 2"), "{scan}");
    refused(at, &make, older);
    refused(at, &["-d", "disks", "lvm", "lvremove", "vg/striped", "-y"], older);
    let mut serve = Command::new(env!("CARGO_BIN_EXE_spindle"));
    serve.args(["-d", "disks", "serve", "--volume", "vg/striped", "--nbd", "unix:s"]);
    serve.current_dir(at).env_remove("SPINDLE_DEVICES").stderr(std::process::Stdio::piped());
    let said = Serving::try_start(&mut serve).err().expect("it is not served for writing");
    assert!(said.contains(older), "{said}");
    assert!(damaged == contents(), "nothing was written");
}

#[test]
fn a_group_is_made_listed_and_changed() {
    let dir = group();
    let listed = done(dir.path(), &["-d", "disks", "lvm", "lvs"]);
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1][..6], ["striped", "vg", "12", "MiB", "striped", "3×16"]);
    assert_eq!(rows[2][..5], ["linear", "vg", "40", "MiB", "linear"]);
    let groups = done(dir.path(), &["-d", "disks", "lvm", "vgs", "--json"]);
    let groups: serde_json::Value = serde_json::from_str(&groups).expect("JSON");
    assert_eq!(
        (&groups["vg"][0]["vsize"], &groups["vg"][0]["vfree"]),
        (&"93 MiB".into(), &"41 MiB".into())
    );

    refused(dir.path(), &["-d", "disks", "lvm", "lvremove", "vg/linear"], "say --yes");
    done(dir.path(), &["-d", "disks", "lvm", "lvremove", "vg/linear", "-y"]);
    assert!(!done(dir.path(), &["-d", "disks", "lvm", "lvs"]).contains("linear"));
}

#[test]
fn what_can_not_be_done_is_named() {
    let dir = group();
    refused(dir.path(), &["lvm", "vgcreate", "other", "disks/a"], "holds an LVM physical volume");
    refused(dir.path(), &["lvm", "vgs"], "no devices: name them with -d");
    refused(
        dir.path(),
        &["-d", "disks", "lvm", "lvcreate", "nope", "-n", "x", "-L", "1m"],
        "no volume group nope",
    );
    refused(
        dir.path(),
        &["-d", "disks", "lvm", "lvcreate", "vg", "-n", "x", "-L", "1t"],
        "1 TiB are wanted (1048576 extents of 1 MiB), on any physical volumes; 41 MiB are free",
    );
    refused(dir.path(), &["-d", "disks", "serve", "--volume", "vg/nope"], "no logical volume nope");
    fs::remove_file(dir.path().join("disks/b")).expect("removed");
    refused(
        dir.path(),
        &["-d", "disks", "lvm", "lvcreate", "vg", "-n", "x", "-L", "1m"],
        "is missing",
    );
    assert!(done(dir.path(), &["-d", "disks", "lvm", "pvs"]).contains("[missing]"));
}

/// Stops a server when the test ends.
struct Served(std::process::Child);

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended by itself needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What could break: the server of a volume keeps everybody off disks that are none of its own, or lets somebody
/// change those that are.
#[test]
fn a_volume_that_is_served_keeps_others_off_its_own_disks_alone() {
    fixtures::takes_long!();
    let dir = group();
    for name in ["disks/x", "disks/y"] {
        let file = File::create(dir.path().join(name)).expect("made");
        file.set_len(24 << 20).expect("grown");
    }
    let make = ["md", "create", "r", "-l", "1", "-n", "2", "--assume-clean", "disks/x", "disks/y"];
    done(dir.path(), &make);
    let child = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["-d", "disks", "serve", "--volume", "vg/linear", "--nbd", "unix:s"])
        .current_dir(dir.path())
        .env_remove("SPINDLE_DEVICES")
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let _served = Served(child);
    for _ in 0..1500 {
        if dir.path().join("s").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    done(dir.path(), &["-d", "disks", "md", "fail", "r", "disks/y"]);
    assert!(done(dir.path(), &["-d", "disks", "lvm", "lvs"]).contains("linear"));
    let change = ["-d", "disks", "lvm", "lvremove", "vg/striped", "-y"];
    refused(dir.path(), &change, "another process writes to it or serves it");
}

/// What lvm prints of a group on these devices.
fn lvm(tool: &str, filter: &str, rest: &[&str]) -> Output {
    let config = "activation { udev_sync=0 udev_rules=0 } global { \
                  event_activation=0 use_lvmpolld=0 } backup { backup=0 archive=0 }";
    let config = format!("{filter} {config}");
    let mut command = Command::new(tool);
    command.args(["--driverloaded", "n", "--config", &config]).args(rest);
    command.env("LVM_SUPPRESS_FD_WARNINGS", "1").output().expect("the program starts")
}

/// Loop devices, given back at the end.
struct Loops(Vec<String>);

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            // What can't be given back stays; nothing else can be done here.
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

#[test]
fn lvm_finds_no_fault_with_a_group_and_its_changes_are_read_back() {
    let has_lvm =
        Command::new("vgck").arg("--version").output().is_ok_and(|out| out.status.success());
    let dir = group();
    let mut loops = Loops(Vec::new());
    for name in ["disks/a", "disks/b", "disks/c"] {
        let made =
            Command::new("losetup").args(["-f", "--show"]).arg(dir.path().join(name)).output();
        let device = made.ok().filter(|out| out.status.success());
        loops.0.extend(device.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()));
    }
    if !has_lvm || loops.0.len() < 3 {
        eprintln!("skipped: needs root and LVM's programs (Debian package lvm2)");
        return;
    }
    // Another group of this name on the machine would be looked at too.
    let only: String = loops.0.iter().map(|device| format!("\"a|^{device}$|\",")).collect();
    let filter = format!("devices {{ use_devicesfile=0 filter=[{only}\"r|.*|\"] }}");
    let said = |output: &Output| {
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    let checked = lvm("vgck", &filter, &["vg"]);
    assert!(checked.status.success(), "{}", said(&checked));
    let listed = lvm(
        "lvs",
        &filter,
        &["--noheadings", "--units", "m", "-o", "lv_name,lv_size,stripes,stripe_size", "vg"],
    );
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut rows: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    rows.sort();
    rows.dedup();
    assert_eq!(
        rows,
        [vec!["linear", "40.00m", "1", "0m"], vec!["striped", "12.00m", "3", "0.02m"]],
        "{}",
        said(&listed)
    );
    let made = lvm("lvcreate", &filter, &["-an", "-Zn", "-Wn", "-L", "8M", "-n", "of-lvm", "vg"]);
    assert!(made.status.success(), "{}", said(&made));
    drop(loops);
    assert!(done(dir.path(), &["-d", "disks", "lvm", "lvs"]).contains("of-lvm"));
}
