//! `spindle md` on sets that it writes: assemble, add, fail, remove, replace, stop.
//!
//! What could break: content that changes while members come and go, a set that is not whole after what should make
//! it so, a message that does not name what was done. Most sets here were made by the real md.

use crate::md::sha256;
use fixtures::extent::some;
use std::path::Path;
use std::process::{Command, Output};

/// A set's disks in a folder of their own.
struct Set {
    folder: tempfile::TempDir,
    name: String,
}

impl Set {
    fn unpacked(from: &Path, name: &str) -> Set {
        let folder = fixtures::unpack(from, name);
        Set { folder, name: name.to_owned() }
    }

    fn disk(&self, number: usize) -> String {
        self.folder.path().join(format!("disk{number}.raw")).display().to_string()
    }

    fn new_disk(&self, number: usize, bytes: u64) -> String {
        let path = self.disk(number);
        let file = std::fs::File::create(&path).expect("a disk");
        file.set_len(bytes).expect("a size");
        path
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(["-d", &self.folder.path().display().to_string(), "md"])
            .args(arguments)
            .env_remove("SPINDLE_DEVICES")
            .output()
            .expect("the program starts")
    }

    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {arguments:?}: {errors}", self.name);
        String::from_utf8(output.stdout).expect("text")
    }

    #[track_caller]
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{}: {arguments:?}", self.name);
        let errors = String::from_utf8(output.stderr).expect("text");
        errors.lines().last().unwrap_or_default().to_owned()
    }

    /// The digest of the content.
    fn content(&self) -> String {
        let out = fixtures::scratch::folder();
        let file = out.path().join("out.raw");
        self.text(&["dump", &self.name, &file.display().to_string()]);
        sha256(&file)
    }

    fn detail(&self, label: &str) -> String {
        let text = self.text(&["detail", &self.name]);
        let lines = text.lines().filter_map(|line| line.split_once(" : "));
        let mut found = lines.filter(|(own, _)| own.trim() == label).map(|(_, value)| value.trim());
        found.next().unwrap_or_default().to_owned()
    }
}

fn size(path: &str) -> u64 {
    std::fs::metadata(path).expect("a disk").len()
}

#[test]
fn sets_that_md_left_in_the_middle_of_something_are_assembled_to_the_end() {
    fixtures::takes_long!();
    let Some(fixtures) = fixtures::folder("md") else { return };
    let left = [
        ("raid1-2-dirty-bitmap", "resynchronised"),
        ("raid6-4-resync-bitmap", "resynchronised"),
        ("raid5-4-resync", "resynchronised"),
        ("raid5-4-recovery", "rebuilt slot"),
    ];
    for (name, done) in some(left, 2) {
        let set = Set::unpacked(&fixtures, name);
        let before = set.content();
        let json = set.text(&["assemble", "--json", name]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let said = json[0]["done"][0].as_str().expect("something was done");
        assert!(said.starts_with(done), "{name}: {said}");
        assert_eq!(set.detail("State"), "clean", "{name}");
        assert_eq!(set.text(&["check", name]), "mismatch_cnt = 0\n", "{name}");
        assert_eq!(set.content(), before, "{name}");
        // Once more there is nothing to be done.
        let again = set.text(&["assemble", "--json", name]);
        let again: serde_json::Value = serde_json::from_str(&again).expect("JSON");
        assert_eq!(again[0]["done"], serde_json::json!([]), "{name}");
        let started = set.text(&["assemble", name]);
        assert!(started.contains("was assembled with"), "{started}");
        assert_eq!(set.text(&["stop", name]), format!("stopped {name}\n"));
    }
}

#[test]
fn a_member_is_failed_re_added_by_the_bitmap_replaced_and_removed_and_the_content_stays() {
    let Some(fixtures) = fixtures::folder("md") else { return };
    let names = ["raid1-2-bitmap", "raid5-3-512k-bitmap", "raid6-6-512k-bitmap"];
    for name in some(names, 1) {
        let set = Set::unpacked(&fixtures, name);
        let (before, victim) = (set.content(), set.disk(1));
        assert!(set.text(&["fail", name, &victim]).contains("faulty"));
        assert!(set.detail("State").contains("degraded"), "{name}");
        if !name.starts_with("raid6") {
            let needed = set.refusal(&["fail", name, &set.disk(0)]);
            assert!(needed.contains("can't do without slot 0"), "{needed}");
        }
        let lacking = set.text(&["assemble", name]);
        assert!(lacking.contains("(out of"), "{lacking}");
        let json = set.text(&["add", name, &victim, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let device = &json["devices"][0];
        assert_eq!(
            (device["added"].as_str(), device["slot"].as_u64()),
            (Some("re-added"), Some(1))
        );
        assert_eq!(device["missed_bytes"].as_u64(), Some(0), "{name}: nothing was written");
        assert_eq!(set.detail("State"), "clean", "{name}");
        assert!(set.refusal(&["add", name, &victim]).contains("already"));

        let bits = set.text(&["examine", "-X", &victim]);
        assert!(
            bits.contains("         Version : 4\n") && bits.contains(" 0 dirty (0.0%)"),
            "{bits}"
        );
        let log = set.text(&["examine", "--badblocks", &victim]);
        assert_eq!(log, format!("Bad-blocks list is empty in {victim}\n"));

        let spare = set.new_disk(70, size(&victim));
        assert_eq!(set.text(&["add", name, &spare]), format!("added {spare}\n"));
        assert_eq!(set.detail("Spare Devices"), "1");
        assert!(set.refusal(&["remove", name, &victim]).contains("fail it first"));
        let said = set.text(&["replace", name, &victim, "--with", &spare]);
        assert!(said.contains("replaced") && said.contains("slot 1"), "{said}");
        let none = set.refusal(&["replace", name, &spare]);
        assert!(none.contains("no spare for slot 1"), "{none}");
        assert_eq!(set.text(&["check", name]), "mismatch_cnt = 0\n", "{name}");
        assert_eq!(set.content(), before, "{name}");
        let removed = set.text(&["remove", name, "failed"]);
        assert_eq!(removed, format!("hot removed {victim} from {name}\n"));

        // An old member whose slot is taken becomes a spare; one of nobody is asked for.
        assert!(set.refusal(&["add", name, "--re-add", &victim]).contains("can't be re-added"));
        assert_eq!(set.text(&["add", name, &victim]), format!("added {victim}\n"));
        assert_eq!(
            set.text(&["remove", name, &victim]),
            format!("hot removed {victim} from {name}\n")
        );
        let foreign = set.new_disk(80, size(&spare));
        let status = Command::new("mke2fs").args(["-q", "-F", &foreign]).status();
        if status.is_ok_and(|status| status.success()) {
            let refused = set.refusal(&["add", name, &foreign]);
            assert!(refused.contains("--force"), "{refused}");
        }
        let small = set.new_disk(81, 4 << 20);
        assert!(set.refusal(&["add", name, &small]).contains("the set needs"));
    }
}

#[test]
fn a_set_that_lacks_a_member_it_had_is_started_only_when_told_to() {
    let Some(fixtures) = fixtures::folder("md") else { return };
    let set = Set::unpacked(&fixtures, "raid5-ls-4");
    std::fs::remove_file(set.disk(2)).expect("removed");
    let refused = set.refusal(&["assemble", "raid5-ls-4"]);
    assert!(refused.contains("3 drives of 4") && refused.contains("--run"), "{refused}");
    // A server asks the same before it listens; nobody can listen there.
    let serve = ["serve", "raid5-ls-4", "--nbd", "unix:/nowhere/s"];
    let refused = set.refusal(&serve);
    assert!(refused.contains("3 drives of 4") && refused.contains("--run"), "{refused}");
    let told = set.refusal(&[&serve[..], &["--run"]].concat());
    assert!(told.contains("/nowhere/s"), "{told}");
    let started = set.text(&["assemble", "--run", "raid5-ls-4"]);
    assert!(started.contains("3 drives (out of 4)"), "{started}");
    // What it says to type next needs not be told again.
    assert!(started.trim_end().ends_with(" md serve /dev/md/raid5-ls-4"), "{started}");
    let told = set.refusal(&serve);
    assert!(told.contains("/nowhere/s"), "{told}");
    let old = Set::unpacked(&fixtures, "raid5-4-v090");
    assert!(old.refusal(&["assemble", &old.disk(0)]).contains("superblocks 0.90"));
}

/// What could break: a name that no path can have, or that the superblock cuts; one copy taken for a mirror.
#[test]
fn a_set_gets_a_name_as_mdadm_gives_it_and_more_than_one_member() {
    let set = Set { folder: fixtures::scratch::folder(), name: "new".to_owned() };
    let disk = set.new_disk(0, 24 << 20);
    let long = "a".repeat(32);
    for name in ["", " ", "a b", "a/b", "-x", ".x", "/dev/sda", &long] {
        let refused = set.refusal(&["create", "-l0", "-n1", "--force", "--", name, &disk]);
        assert!(refused.contains(&format!("'{name}'")), "{refused}");
    }
    for (given, name) in [("/dev/md/x", "x"), ("/dev/md0", "0"), ("/dev/md_y", "y"), ("h:z", "h:z")]
    {
        let created = set.text(&["create", given, "-l0", "-n1", "--force", &disk]);
        let named = created.contains(&format!(":{name} created"))
            || created.contains(&format!("array {name} created"));
        assert!(named, "{created}");
    }
    let empty = set.new_disk(1, 24 << 20);
    let refused = set.refusal(&["create", "one", "-l1", "-n1", &empty]);
    assert!(refused.contains("one member") && refused.contains("--force"), "{refused}");
}

/// What could break: a note among the disks ends the command, or a damaged member hides the others.
#[test]
fn a_folder_is_examined_around_what_is_no_member() {
    let set = Set { folder: fixtures::scratch::folder(), name: "new".to_owned() };
    let disks: Vec<String> = (0..3).map(|n| set.new_disk(n, 24 << 20)).collect();
    set.text(&["create", "new", "-l5", "-n3", &disks[0], &disks[1], &disks[2]]);
    std::fs::write(set.folder.path().join("a-note"), "3 B").expect("a note");
    let member = std::fs::OpenOptions::new().write(true).open(&disks[1]).expect("a member");
    // A byte of the set's name.
    std::os::unix::fs::FileExt::write_at(&member, b"X", 4096 + 32).expect("damaged");
    let output = set.run(&["examine"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.matches("Magic").count() == 3, "{text}");
    assert_eq!((text.matches(" - correct").count(), text.matches(" - expected ").count()), (2, 1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("checksum is wrong") && said.contains(&disks[1]), "{said}");
    let named = set.refusal(&["examine", &disks[1]]);
    assert!(named.contains("checksum"), "{named}");
}

/// What could break: newer data that is overwritten by older, content that changes because a member went before parity
/// could tell what it held, a spare that is used although it was removed.
#[test]
fn what_would_lose_data_is_refused_and_what_was_removed_stays_away() {
    let set = Set { folder: fixtures::scratch::folder(), name: "new".to_owned() };
    let disks: Vec<String> = (0..4).map(|n| set.new_disk(n, 24 << 20)).collect();
    set.text(&["create", "new", "-l1", "-n2", "--assume-clean", &disks[0], &disks[1]]);
    // The second goes on alone, while the first lies elsewhere.
    let elsewhere = fixtures::scratch::folder();
    let away = elsewhere.path().join("disk0.raw");
    std::fs::rename(&disks[0], &away).expect("away");
    set.text(&["assemble", "--run", "new"]);
    set.text(&["add", "new", &disks[2], "--run"]);
    set.text(&["fail", "new", &disks[2]]);
    set.text(&["remove", "new", &disks[2]]);
    let older = Set { folder: elsewhere, name: "new".to_owned() };
    let newer = std::fs::read(&disks[1]).expect("read");
    let refused = older.refusal(&["add", "new", &disks[1]]);
    assert!(refused.contains("may hold newer data") && refused.contains("--force"), "{refused}");
    assert!(std::fs::read(&disks[1]).expect("read") == newer, "nothing is written to it");

    let fresh = Set { folder: fixtures::scratch::folder(), name: "new".to_owned() };
    let disks: Vec<String> = (0..4).map(|n| fresh.new_disk(n, 24 << 20)).collect();
    fresh.text(&["create", "new", "-l5", "-n3", &disks[0], &disks[1], &disks[2]]);
    let refused = fresh.refusal(&["fail", "new", &disks[1]]);
    assert!(refused.contains("is not resynchronised"), "{refused}");
    fresh.text(&["repair", "new"]);
    fresh.text(&["add", "new", &disks[3]]);
    assert_eq!(fresh.detail("Spare Devices"), "1");
    fresh.text(&["remove", "new", &disks[3]]);
    assert_eq!(fresh.detail("Spare Devices"), "0");
    fresh.text(&["fail", "new", &disks[1]]);
    fresh.text(&["assemble", "new"]);
    assert_eq!(fresh.detail("State"), "clean, degraded", "nothing was rebuilt on it");
}

#[test]
fn create_takes_a_size_and_a_bitmaps_chunk() {
    let set = Set { folder: fixtures::scratch::folder(), name: "new".to_owned() };
    let disks: Vec<String> = (0..3).map(|n| set.new_disk(n, 24 << 20)).collect();
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    let create = ["create", "new", "-l5", "-n3", "-c64", "-binternal"];
    let with = |more: &[&'static str]| -> Vec<&str> {
        create.iter().copied().chain(more.iter().copied()).chain(disks.iter().copied()).collect()
    };
    let text = set.refusal(&with(&["--bitmap-chunk", "3"]));
    assert!(text.contains("power of two from 4 KiB"), "{text}");
    assert!(set.refusal(&with(&["--size", "1G"])).contains("at the most"));
    set.text(&with(&["--bitmap-chunk", "64", "--size", "10M"]));
    assert!(set.detail("Used Dev Size").starts_with("10240"), "{}", set.detail("Used Dev Size"));
    let json = set.text(&["examine", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["bitmap"]["chunk_bytes"].as_u64(), Some(65536));
    set.text(&["assemble", "new"]);
    assert_eq!(set.detail("State"), "clean");
}

/// What could break: an answer that is no JSON or has text beside it, a slot of another member, a path that is not
/// the one that was given, an answer to what was refused.
#[test]
fn each_change_of_members_is_told_as_json() {
    let folder = fixtures::scratch::folder();
    let set = Set { folder, name: "data".to_owned() };
    let disks: Vec<String> = (0..5).map(|number| set.new_disk(number, 24 << 20)).collect();
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&set.text(arguments)).expect("JSON and nothing else")
    };
    let made = ["create", "data", "-l", "5", "-n", "3", "--assume-clean"];
    set.text(&[&made[..], &[&disks[0], &disks[1], &disks[2]]].concat());

    let refused = set.run(&["fail", "data", &disks[3], "--json"]);
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    let failed = json(&["fail", "data", &disks[1], "--json"]);
    assert_eq!(failed, serde_json::json!({ "array": "data", "faulty": disks[1], "slot": 1 }));
    let removed = json(&["remove", "data", &disks[1], "-j"]);
    assert_eq!(removed, serde_json::json!({ "array": "data", "removed": [disks[1]] }));
    // Its superblock stays, and by that alone it is as good as one that failed.
    std::fs::remove_file(&disks[1]).expect("pulled out");
    let refused = set.run(&["remove", "data", &disks[0], "--json"]);
    assert!(!refused.status.success() && refused.stdout.is_empty(), "a member in use: {refused:?}");

    let added = json(&["add", "data", &disks[3], &disks[4], "--json"]);
    let devices = added["devices"].as_array().expect("a list");
    let names: Vec<&str> = devices.iter().filter_map(|one| one["device"].as_str()).collect();
    assert_eq!(names, [&disks[3], &disks[4]]);
    assert!(devices.iter().all(|one| one["added"] == "added" && one["slot"].is_null()), "{added}");
    let done = added["done"].as_array().expect("a list");
    assert_eq!(done.len(), 1, "one spare is taken, one stays: {added}");

    let replaced = json(&["replace", "data", &disks[0], "--json"]);
    assert_eq!((&replaced["array"], &replaced["slot"]), (&"data".into(), &0.into()));
    assert_eq!(replaced["done"].as_array().map(Vec::len), Some(1), "{replaced}");
    // The word stands for what was replaced.
    let removed = json(&["remove", "data", "failed", "--json"]);
    assert_eq!(removed["removed"], serde_json::json!([disks[0]]));

    let detail = json(&["detail", "data", "--json"]);
    assert_eq!(
        (detail["raid_devices"].as_u64(), detail["active_devices"].as_u64()),
        (Some(3), Some(3))
    );
    let assembled = json(&["assemble", "data", "--readonly", "--json"]);
    assert_eq!(
        (&assembled[0]["readonly"], &assembled[0]["active_devices"]),
        (&true.into(), &3.into())
    );
    for arguments in [&["examine", "--json"][..], &["examine", "--scan", "--json"]] {
        assert!(json(arguments).as_array().is_some_and(|all| !all.is_empty()), "{arguments:?}");
    }
}

/// Two disks of three, in a folder; the third lies beside it, with all that was written.
fn without_one() -> (tempfile::TempDir, Set) {
    let aside = fixtures::scratch::folder();
    let set = Set { folder: fixtures::scratch::folder(), name: "data".to_owned() };
    let disks: Vec<String> = (0..3).map(|number| set.new_disk(number, 24 << 20)).collect();
    let [a, b, c] = [0, 1, 2].map(|number| disks[number].as_str());
    set.text(&["create", "data", "-l", "5", "-n", "3", "--assume-clean", a, b, c]);
    std::fs::rename(c, aside.path().join("disk2.raw")).expect("moved");
    (aside, set)
}

/// mdadm starts no set that lacks members which it had, unless told to. What could break: a device that is only
/// unplugged is taken for lost, and the set goes on without it.
#[test]
fn a_set_that_lacks_members_is_not_started_by_add_or_replace_without_run() {
    for word in ["add", "replace"] {
        let (aside, set) = without_one();
        let (first, more) = (set.disk(0), set.new_disk(3, 24 << 20));
        let before: Vec<Vec<u8>> =
            [0, 1].map(|number| std::fs::read(set.disk(number)).expect("there")).into();
        let arguments = match word {
            "add" => [word, "data", &more],
            _ => [word, "data", &first],
        };
        let refused = set.refusal(&arguments);
        assert!(refused.contains("/dev/md/data: 2 drives of 3 members that it had"), "{refused}");
        assert!(refused.contains("--run"), "{refused}");
        let after: Vec<Vec<u8>> =
            [0, 1].map(|number| std::fs::read(set.disk(number)).expect("there")).into();
        assert!(before == after, "nothing was written");
        std::fs::rename(aside.path().join("disk2.raw"), set.disk(2)).expect("moved back");
        assert_eq!(set.detail("State"), "clean");
    }
    let (_aside, set) = without_one();
    let more = set.new_disk(3, 24 << 20);
    set.text(&["add", "data", &more, "--run"]);
    assert_eq!(set.detail("State"), "clean");
    // Now it has all that it had: no word is needed.
    set.text(&["fail", "data", &set.disk(1)]);
    set.text(&["add", "data", &set.new_disk(4, 24 << 20)]);
    assert_eq!(set.detail("State"), "clean");
}

/// What could break: a message speaks of a UUID, and the person who reads it has to look up whose that is.
#[test]
fn messages_name_a_set_by_its_name() {
    let (_aside, set) = without_one();
    std::fs::remove_file(set.disk(1)).expect("gone");
    for arguments in
        [&["assemble", "data"][..], &["assemble", "data", "--readonly"], &["check", "data"]]
    {
        let refused = set.refusal(arguments);
        assert!(refused.contains("set /dev/md/data: 2 of 3 members"), "{refused}");
    }
}

/// What could break: a superblock with one damaged byte of which it is said that there is none, or only that its checksum is wrong.
#[test]
fn a_superblock_with_an_impossible_field_is_named_by_it() {
    let set = Set { folder: fixtures::scratch::folder(), name: "data".to_owned() };
    let disks: Vec<String> = (0..3).map(|number| set.new_disk(number, 12 << 20)).collect();
    let create = ["create", "data", "-l", "5", "-n", "3", "--assume-clean"];
    set.text(&[&create[..], &disks.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    let whole = std::fs::read(&disks[0]).expect("read");
    // Places within the superblock, which lies 4 KiB in.
    for (at, byte, said) in [
        (95, 0xff, "a superblock of md 1.x with an impossible raid_disks (4278190083 "),
        (4, 0xfe, "a superblock of md 1.x with an impossible major_version (254 "),
        (144, 9, "a superblock of md 1.x with an impossible super_offset (9 "),
        (72, 9, "(a superblock of md with an impossible level (9))"),
    ] {
        let mut bytes = whole.clone();
        bytes[4096 + at] = byte;
        std::fs::write(&disks[0], bytes).expect("written");
        let output = set.run(&["examine", &disks[0]]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && errors.contains(said), "{at}: {errors}");
    }
}
