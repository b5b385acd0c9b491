//! How a set stands, as `spindle scan` and `md` tell it: just made, degraded, served, failed while it is served.
//!
//! What could break: a set that is whole and told to be broken; a command to type next that can't be carried out; a table that
//! contradicts itself; words that sound as if something had been written.

use crate::serving::{Serving, connected};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output};

fn spindle(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(arguments).current_dir(dir).env_remove("SPINDLE_DEVICES");
    command.env("SPINDLE_RUN_DIR", dir.join("run"));
    command.output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn done(dir: &Path, arguments: &[&str]) -> String {
    let output = spindle(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a call says that was wrong, with this status.
#[track_caller]
fn refused(dir: &Path, arguments: &[&str], status: i32, saying: &str) {
    let output = spindle(dir, arguments);
    let told = said(&output);
    assert!(output.status.code() == Some(status) && told.contains(saying), "{arguments:?}: {told}");
}

/// A RAID 5 set `r` of three disks in `disks`, not resynchronised yet.
fn made() -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let dir = folder.path();
    fs::create_dir(dir.join("disks")).expect("a folder");
    for name in ["disks/a", "disks/b", "disks/c"] {
        File::create(dir.join(name)).and_then(|file| file.set_len(24 << 20)).expect("a disk");
    }
    done(dir, &["md", "create", "r", "-l", "5", "-n", "3", "disks/a", "disks/b", "disks/c"]);
    folder
}

fn served(dir: &Path) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["-d", "disks", "md", "serve", "r", "--nbd", "unix:s"]).current_dir(dir);
    command.env_remove("SPINDLE_DEVICES").env("SPINDLE_RUN_DIR", dir.join("run"));
    Serving::start(&mut command)
}

/// Writes something as a client of the set that is served; the error that is answered.
fn write(dir: &Path, at: u64) -> u32 {
    let mut client = connected(&dir.join("s"), "r").expect("it is served");
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0, 0, 1], &[7; 8]].concat();
    let request = [&head[..], &at.to_be_bytes(), &4096_u32.to_be_bytes(), &[7; 4096]];
    client.write_all(&request.concat()).expect("it is asked");
    let mut reply = [0; 16];
    client.read_exact(&mut reply).expect("it answers");
    u32::from_be_bytes(reply[4..8].try_into().expect("4 bytes"))
}

fn head(dir: &Path) -> String {
    done(dir, &["scan", "disks"]).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_set_that_was_just_made_is_to_be_resynchronised() {
    let folder = made();
    let dir = folder.path();
    assert!(head(dir).ends_with("whole, 3 members, resyncing: 0 % done"), "{}", head(dir));
    let json = done(dir, &["scan", "disks", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let set = &json["sets"][0];
    assert_eq!((&set["clean"], &set["resyncing"]), (&true.into(), &0.into()));
    done(dir, &["-d", "disks", "md", "assemble", "r"]);
    assert!(head(dir).ends_with("whole, 3 members"), "{}", head(dir));
}

#[test]
fn a_set_that_is_served_is_told_to_be_and_not_to_be_served_again() {
    let folder = made();
    let dir = folder.path();
    done(dir, &["-d", "disks", "md", "assemble", "r"]);
    let server = served(dir);
    assert_eq!(write(dir, 0), 0);
    server.stop();
    assert!(done(dir, &["scan", "disks"]).contains("serve --volume r --readonly"));
    let server = served(dir);
    let scan = done(dir, &["scan", "disks"]);
    let process = format!("served by process {}", server.child.id());
    assert!(scan.contains(&process) && !scan.contains("not stopped cleanly"), "{scan}");
    assert!(!scan.contains("serve --volume"), "{scan}");
    assert!(scan.contains("next: spindle -d disks md detail r "), "{scan}");
    server.stop();
    assert!(done(dir, &["scan", "disks"]).contains("serve --volume r --readonly"));
}

#[test]
fn a_set_that_failed_while_it_is_served_is_told_as_its_server_has_it() {
    let folder = made();
    let dir = folder.path();
    done(dir, &["-d", "disks", "md", "assemble", "r"]);
    let mut server = served(dir);
    assert_eq!(write(dir, 0), 0);
    done(dir, &["-d", "disks", "md", "fail", "r", "disks/a"]);
    refused(dir, &["-d", "disks", "md", "fail", "r", "disks/a"], 2, "it has failed already");
    refused(dir, &["-d", "disks", "md", "fail", "r", "disks/x"], 2, "there is no such file");
    File::options()
        .write(true)
        .open(dir.join("disks/b"))
        .expect("a disk")
        .set_len(1 << 20)
        .expect("cut");
    assert_ne!(write(dir, 8 << 20), 0);
    let detail = spindle(dir, &["-d", "disks", "md", "detail", "r", "--force"]);
    let (table, told) = (String::from_utf8_lossy(&detail.stdout).into_owned(), said(&detail));
    let state = table.lines().find(|line| line.contains("State : "));
    assert!(state.is_some_and(|state| state.contains("FAILED")), "{table}");
    assert_eq!((table.matches(" removed").count(), told.as_str()), (2, ""), "{table}");
    let scan = done(dir, &["scan", "disks"]);
    let next: Vec<&str> = scan.lines().filter(|line| line.contains("next: ")).collect();
    assert!(next.len() == 1 && next[0].contains("md detail r "), "{scan}");
    // It can't be closed as clean; its server ends all the same.
    refused(
        dir,
        &["-d", "disks", "md", "stop", "r"],
        1,
        "its server ended, but could not close it",
    );
    server.child.wait().expect("it ends");
}

#[test]
fn what_is_no_working_device_is_told_apart() {
    let folder = made();
    let dir = folder.path();
    done(dir, &["-d", "disks", "md", "assemble", "r"]);
    done(dir, &["-d", "disks", "lvm", "vgcreate", "vg", "r"]);
    done(dir, &["-d", "disks", "lvm", "lvcreate", "vg", "-n", "v", "-L", "8m"]);
    done(dir, &["-d", "disks", "md", "fail", "r", "disks/b"]);
    let fail = |member| ["-d", "disks", "md", "fail", "r", member];
    refused(dir, &fail("disks/b"), 2, "disks/b: it has failed already");
    refused(dir, &fail("disks/x"), 2, "disks/x: there is no such file or device");
    fs::write(dir.join("other"), b"").expect("a file");
    refused(dir, &fail("other"), 2, "other: it is no working device of the set");
    // What lies on it is read, and who takes no part is told.
    let dumped = spindle(dir, &["-d", "disks", "lvm", "dump", "vg/v", "out"]);
    assert!(
        dumped.status.success() && said(&dumped).contains("left out: disks/b"),
        "{}",
        said(&dumped)
    );
    // A volume is no set, however it is called.
    let next = "spindle -d disks lvm dump vg/v image";
    refused(dir, &["-d", "disks", "md", "dump", "vg/v", "image"], 2, next);
    for volume in ["none", "vg/none", "none/v", "r:1"] {
        refused(dir, &["-d", "disks", "lvm", "dump", volume, "image"], 2, "(there are vg/v, r)");
    }
}

/// Images of virtual machines, and compressed ones, hold what is looked for in a form that nothing here reads.
#[test]
fn what_holds_an_image_in_another_form_is_told_with_the_command_that_makes_a_raw_one() {
    let folder = fixtures::scratch::folder();
    let dir = folder.path();
    let image = |name: &str, begins: &[u8]| {
        fs::write(dir.join(name), [begins, &[7; 80 << 10]].concat()).expect("an image");
    };
    image("a.qcow2", b"QFI\xfb");
    image("my nas.vmdk", b"KDMV");
    image("b.img.gz", b"\x1f\x8b\x08");
    image("raw", b"7777");
    let told = done(dir, &["-d", ".", "scan"]);
    for line in [
        "a QCOW2 image",
        "next: qemu-img convert -O raw ./a.qcow2 ./a.qcow2.raw ",
        "next: qemu-img convert -O raw './my nas.vmdk' './my nas.vmdk.raw' ",
        "a file compressed by gzip",
        "next: gunzip --keep ./b.img.gz ",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert_eq!(told.matches("next:").count(), 3, "{told}");
    let json: serde_json::Value =
        serde_json::from_str(&done(dir, &["-d", ".", "scan", "--json"])).expect("it is read");
    assert!(json.to_string().contains("qemu-img convert -O raw ./a.qcow2"), "{json}");
}
