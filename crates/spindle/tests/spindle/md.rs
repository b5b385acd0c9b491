//! `spindle md` on arrays that the real md made.
//!
//! What could break: a field that differs from what mdadm prints, content that differs from what md gives, a byte
//! written to a member, a set that is not found by its name. The fixtures' texts were printed by mdadm 4.2 while the
//! arrays ran; a few arrays were changed or stopped afterwards, so the fields that count moments differ there.

use fixtures::extent::{is_thorough, some};
use fixtures::unpack;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};

fn spindle(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(arguments)
        .env_remove("SPINDLE_DEVICES")
        .output()
        .expect("the program starts")
}

#[track_caller]
fn text(arguments: &[&str]) -> String {
    let output = spindle(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn refusal(arguments: &[&str], status: i32) -> String {
    let output = spindle(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    let errors = String::from_utf8(output.stderr).expect("text");
    errors.lines().last().unwrap_or_default().to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort_unstable();
    names
}

/// `Label : value` lines, without the remark that a set is of the host it was printed on.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(" : "));
    let plain = |value: &str| {
        let end = value.find("(local to host").unwrap_or(value.len());
        value[..end].trim().to_owned()
    };
    pairs.map(|(label, value)| (label.trim().to_owned(), plain(value))).collect()
}

/// Fields that went on after the text was printed, where the machine was stopped later, or a disk failed.
const LATER: [&str; 10] = [
    "Events",
    "Update Time",
    "Checksum",
    "State",
    "Reshape pos'n",
    "Reshape Status",
    "Feature Map",
    "Recovery Offset",
    "Array State",
    "Resync Status",
];

fn assert_same(name: &str, theirs: &str, ours: &str) {
    let stopped =
        ["resync", "recovery", "reshape-to", "dirty"].iter().any(|word| name.contains(word));
    let (theirs, ours) = (fields(theirs), fields(ours));
    assert!(theirs.len() > 8, "{name}: {theirs:?}");
    for (label, value) in &theirs {
        if !(stopped && LATER.contains(&&**label)) {
            assert_eq!(ours.get(label), Some(value), "{name}: {label}");
        }
    }
    let more =
        ours.keys().find(|label| !theirs.contains_key(*label) && !LATER.contains(&&***label));
    assert_eq!(more, None, "{name}: a field that mdadm does not print");
}

#[test]
fn examine_and_detail_print_what_mdadm_printed() {
    fixtures::takes_long!();
    let Some(folder) = fixtures::folder("md") else { return };
    for name in some(names(&folder), 14) {
        let images = unpack(&folder, &name);
        let printed =
            std::fs::read_to_string(folder.join(format!("{name}.d/examine.txt"))).expect("a text");
        let mut first = None;
        for part in printed.split("disk").skip(1) {
            let Some((number, theirs)) = part.split_once(".raw:\n") else { continue };
            let disk = images.path().join(format!("disk{number}.raw"));
            let disk = disk.to_str().expect("a path").to_owned();
            assert_same(&format!("{name} disk{number}"), theirs, &text(&["md", "examine", &disk]));
            first = first.or(Some(disk));
        }
        let theirs =
            std::fs::read_to_string(folder.join(format!("{name}.d/detail.txt"))).expect("a text");
        let directory = images.path().to_str().expect("a path");
        let ours = text(&["-d", directory, "md", "detail", &first.expect("a disk")]);
        assert_same(&name, &theirs, &ours);
        let rows = |text: &str| -> Vec<String> {
            let table = text.split_once("RaidDevice State").map_or("", |(_, table)| table);
            // Number, slot and state; the device numbers are those of another machine.
            let row = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let state = words.iter().skip(4).take_while(|word| !word.contains('/'));
                let state: Vec<&str> = state.copied().collect();
                (words.len() > 4).then(|| format!("{} {} {}", words[0], words[3], state.join(" ")))
            };
            table.lines().filter_map(row).collect()
        };
        assert_eq!(rows(&ours), rows(&theirs), "{name}");
    }
}

/// The digest of a file: by the processor's instructions, which not every `sha256sum` has.
pub(crate) fn sha256(path: &Path) -> String {
    let mut file = std::fs::File::open(path).expect("it opens");
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; 1 << 17]);
    loop {
        match file.read(&mut piece).expect("it is read") {
            0 => break,
            len => hasher.update(&piece[..len]),
        }
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content by its digest, through a file with holes and through a pipe; the members are as before.
#[test]
fn dump_writes_the_content_and_nothing_to_the_members() {
    fixtures::takes_long!();
    let Some(folder) = fixtures::folder("md") else { return };
    let names = ["raid6-5-degraded-2", "raid5-4-recovery", "raid5-3-reshape-to-4", "raid0-3-zones"];
    let through_pipes = some(names, 1);
    let names = if is_thorough() { names.to_vec() } else { through_pipes.clone() };
    for name in names {
        let images = unpack(&folder, name);
        let directory = images.path().to_str().expect("a path").to_owned();
        let manifest =
            std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("a text");
        let out = fixtures::scratch::folder();
        let file = out.path().join("out.raw");
        let file_text = file.to_str().expect("a path");
        let array = format!("oracle:{name}");
        text(&["md", "-d", &directory, "dump", &array, file_text]);
        let digest = sha256(&file);
        assert!(manifest.contains(&format!("\"sha256\": \"{digest}\"")), "{name}: the content");
        let again = refusal(&["md", "-d", &directory, "dump", &array, file_text], 1);
        assert!(again.contains("--overwrite"), "{again}");
        if through_pipes.contains(&name) {
            let piped = spindle(&["md", "-d", &directory, "dump", name, "-"]);
            assert!(piped.stdout == std::fs::read(&file).expect("read"), "{name}: through a pipe");
        }
        for disk in std::fs::read_dir(images.path()).expect("a folder") {
            let digest = sha256(&disk.expect("a disk").path());
            assert!(manifest.contains(&digest), "{name}: a member was changed");
        }
    }
}

#[test]
fn sets_are_found_by_name_uuid_and_member_and_told_in_mdadms_lines_and_as_json() {
    let Some(folder) = fixtures::folder("md") else { return };
    let images = unpack(&folder, "raid1-2-bitmap");
    let directory = images.path().to_str().expect("a path");
    let uuid = "3ff963bb:fcfc34a0:7caaaa8c:fad3b0ad";
    let scan = text(&["-d", directory, "md", "examine", "--scan"]);
    let line = format!(
        "ARRAY /dev/md/raid1-2-bitmap  metadata=1.2 UUID={uuid} name=oracle:raid1-2-bitmap\n"
    );
    assert_eq!(scan, line);
    for array in [uuid, "raid1-2-bitmap", "oracle:raid1-2-bitmap", "md/raid1-2-bitmap"] {
        let opened = text(&["md", "-d", directory, "assemble", "--readonly", array]);
        let expected =
            "/dev/md/raid1-2-bitmap can be read with 2 drives, and is closed again. To use it: ";
        let next = format!("spindle -d {directory} md serve /dev/md/raid1-2-bitmap --readonly\n");
        assert_eq!(opened, format!("{expected}{next}"));
    }
    let json = text(&["md", "-d", directory, "detail", "--json", "raid1-2-bitmap"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((json["uuid"].as_str(), json["active_devices"].as_u64()), (Some(uuid), Some(2)));
    let json = text(&["md", "examine", "--json", directory]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[1]["role"].as_u64(), Some(1));
    let missing = refusal(&["md", "-d", directory, "detail", "elsewhere"], 2);
    let listed = "'elsewhere': no set is called so: there are /dev/md/raid1-2-bitmap";
    assert!(missing.contains(listed), "{missing}");
    let missing = refusal(&["md", "-d", directory, "dump", "elsewhere", "-"], 2);
    assert!(missing.contains(listed), "{missing}");
}

/// What the real md makes of it is judged by `md_oracle`.
#[test]
fn what_was_created_opens_and_is_not_overwritten_without_force() {
    let folder = fixtures::scratch::folder();
    let disk = |n: usize| {
        let path = folder.path().join(format!("disk{n}.raw"));
        let file = std::fs::File::create(&path).expect("a disk");
        file.set_len(24 << 20).expect("a size");
        path.to_str().expect("a path").to_owned()
    };
    let disks: Vec<String> = (0..3).map(disk).collect();
    let directory = folder.path().to_str().expect("a path");
    let create = ["md", "create", "new", "-l5", "-n3", "-c64", "-binternal"];
    let mut arguments: Vec<&str> = create.to_vec();
    arguments.extend(disks.iter().map(String::as_str));
    assert!(text(&arguments).contains("new created, UUID "));
    let detail = text(&["-d", directory, "md", "detail", "new"]);
    let fields = fields(&detail);
    assert_eq!(fields["Consistency Policy"], "bitmap");
    assert_eq!(fields["State"], "active, resyncing");
    let again = refusal(&arguments, 2);
    assert!(again.contains(&disks[0]) && again.contains("--force"), "{again}");
    arguments.push("--force");
    text(&arguments);
    let twice = ["md", "create", "new", "-l1", "-n2", "--force", &disks[0], &disks[0]];
    assert!(refusal(&twice, 2).contains("given twice"));
    let few = ["md", "create", "new", "-l1", "-n3", "--force", &disks[0], &disks[1]];
    assert!(refusal(&few, 2).contains("2 devices are given"));
}

/// One bad copy of a disk must not shut the others out.
#[test]
fn a_member_that_is_cut_short_is_left_out_and_named() {
    let folder = fixtures::scratch::folder();
    let path = |n: usize| folder.path().join(format!("disk{n}.raw"));
    for n in 0..4 {
        std::fs::File::create(path(n)).and_then(|file| file.set_len(24 << 20)).expect("a disk");
    }
    let directory = folder.path().to_str().expect("a path");
    let disks: Vec<String> = (0..4).map(|n| path(n).display().to_string()).collect();
    let mut arguments = vec!["md", "create", "cut", "-l6", "-n4", "-c64", "--assume-clean"];
    arguments.extend(disks.iter().map(String::as_str));
    text(&arguments);
    let dump = ["-d", directory, "md", "dump", "cut", "-"];
    let whole = spindle(&dump).stdout;
    let cut = std::fs::OpenOptions::new().write(true).open(path(2)).expect("opened");
    cut.set_len(20 << 20).expect("cut");
    let output = spindle(&dump);
    assert!(output.status.success() && output.stdout == whole);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("left out") && said.contains("disk2.raw: its data area"), "{said}");
    let detail = text(&["-d", directory, "md", "detail", "cut"]);
    assert_eq!(fields(&detail)["State"], "clean, degraded");
    // Two more, and the others are too few.
    for n in [0, 1] {
        let file = std::fs::OpenOptions::new().write(true).open(path(n)).expect("opened");
        file.set_len(20 << 20).expect("cut");
    }
    assert!(!spindle(&dump).status.success());
}

/// What could break: one byte hides all that a rescue needs to know of a member, and of the sound one beside it.
#[test]
fn a_superblock_with_a_wrong_checksum_is_shown_and_opens_nothing() {
    let Some(folder) = fixtures::folder("md") else { return };
    let folder = fixtures::unpack(&folder, "raid5-4-xfs");
    let path = |n: usize| folder.path().join(format!("disk{n}.raw")).display().to_string();
    let sound = text(&["md", "examine", &path(1)]);
    let file = std::fs::OpenOptions::new().write(true).open(path(1)).expect("opened");
    // In the set's name.
    std::os::unix::fs::FileExt::write_all_at(&file, b"?", 4096 + 60).expect("damaged");
    let output = spindle(&["md", "examine", &path(0), &path(1)]);
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("disk1.raw: the superblock's checksum is wrong"), "{errors}");
    assert!(shown.contains("disk0.raw:\n") && shown.contains("disk1.raw:\n"), "{shown}");
    assert!(shown.contains(" - correct\n") && shown.contains(" - expected "), "{shown}");
    let role =
        |text: &str| text.lines().rfind(|line| line.contains("Device Role")).map(str::to_owned);
    assert_eq!(role(&shown), role(&sound), "which place it had");
    let directory = folder.path().to_str().expect("a path");
    let detail = text(&["-d", directory, "md", "detail", "raid5-4-xfs"]);
    assert_eq!(fields(&detail)["State"], "clean, degraded");
}

#[test]
fn what_is_wrong_is_named_in_one_line() {
    let folder = fixtures::scratch::folder();
    let disk = folder.path().join("disk.raw");
    std::fs::write(&disk, vec![0; 1 << 20]).expect("written");
    let path = disk.to_str().expect("a path");
    assert!(refusal(&["md", "examine", path], 1).contains("no md superblock"));
    assert!(refusal(&["md", "detail", "x"], 2).contains("-d DIR|FILE"));
    // The beginning of a superblock, and nothing else of it.
    let mut bytes = vec![0; 1 << 20];
    bytes[4096..4104].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    std::fs::write(&disk, bytes).expect("written");
    let text = refusal(&["md", "examine", path], 1);
    assert!(text.contains(path) && text.contains("with an impossible raid_disks (0 "), "{text}");
}
