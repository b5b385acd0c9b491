//! `spindle md grow` on arrays that the real md made, and what the real md makes of it.
//!
//! What could break: content that moves to a wrong place, a reshape that can't be finished after the program was
//! killed, a set that the real md does not take, or goes on with wrongly; a new part that is not synchronised.
//!
//! The last test boots the oracle machine, which takes half a minute, so it runs when it is asked for: `cargo test
//! --test spindle -- md_grow:: --ignored`. Where the machine or the fixtures are not there tests are skipped.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn shared(below: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(below);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// A fixture's disks in a folder, and what its content should be.
struct Fixture {
    name: &'static str,
    folder: tempfile::TempDir,
    size: u64,
    digest: String,
}

impl Fixture {
    fn unpack(name: &'static str) -> Option<Fixture> {
        let from = fixtures::folder("md")?;
        let folder = fixtures::unpack(&from, name);
        let manifest = fixtures::manifest(&from, name);
        let array = &manifest["array"];
        let size = array["size"].as_u64().expect("a size");
        let digest = array["sha256"].as_str().expect("a digest").to_owned();
        Some(Fixture { name, folder, size, digest })
    }

    fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().expect("a path").to_owned()
    }

    /// An empty disk beside the others.
    fn new_disk(&self, bytes: u64) -> String {
        let path = self.path("new.raw");
        std::fs::File::create(&path).expect("a disk").set_len(bytes).expect("a size");
        path
    }

    /// A command of `spindle md` on these disks.
    fn md(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.args(["md", "-d"]).arg(self.folder.path()).args(arguments);
        command.env_remove("SPINDLE_DEVICES");
        command
    }

    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.md(arguments).output().expect("the program starts");
        succeeded(&output, &format!("{arguments:?}"))
    }

    #[track_caller]
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.md(arguments).output().expect("the program starts");
        assert!(!output.status.success(), "{arguments:?}");
        let errors = String::from_utf8(output.stderr).expect("text");
        errors.lines().last().unwrap_or_default().to_owned()
    }

    /// The content is what it was, in the first part of the set; its parity and copies are right.
    #[track_caller]
    fn verify(&self, is_at_rest: bool) {
        let out = fixtures::scratch::folder();
        let file = out.path().join("out.raw");
        self.text(&["dump", self.name, file.to_str().expect("a path")]);
        assert_eq!(digest(&file, self.size), self.digest, "{}: the content", self.name);
        if is_at_rest {
            assert!(self.text(&["check", self.name]).contains("mismatch_cnt = 0"), "{}", self.name);
        }
    }

    /// Begins a reshape, and kills it as soon as something is moved.
    fn kill_reshape(&self, slots: &str, add: &str) {
        let mut command = self.md(&["grow", self.name, "--raid-devices", slots, "--add", add]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let moved = lines.map_while(Result::ok).find(|line| line.starts_with("reshaping: "));
        child.kill().expect("killed");
        child.wait().expect("it ends");
        assert!(moved.is_some(), "something was moved");
        let examined = self.text(&["examine", &self.path("disk0.raw")]);
        assert!(examined.contains("Reshape pos'n"), "it was in its middle: {examined}");
    }
}

#[track_caller]
fn succeeded(output: &Output, what: &str) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{what}: {text}{errors}");
    text
}

/// Of the first bytes of a file.
fn digest(path: &Path, len: u64) -> String {
    let script = format!("head -c {len} '{}' | sha256sum", path.display());
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    String::from_utf8_lossy(&output.stdout).chars().take(64).collect()
}

fn enlarge(path: &str, bytes: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("a disk");
    let size = file.metadata().expect("a size").len();
    file.set_len(size + bytes).expect("larger");
}

#[test]
fn a_reshape_that_was_killed_reads_as_before_and_is_continued() {
    fixtures::takes_long!();
    let Some(set) = Fixture::unpack("raid5-ls-4") else { return };
    let new = set.new_disk(48 << 20);
    set.kill_reshape("5", &new);
    set.verify(false);
    let refused = set.refusal(&["repair", set.name]);
    assert!(refused.contains("grow --continue"), "{refused}");
    let refused = set.refusal(&["grow", set.name, "-n", "6", "--add", &new]);
    assert!(refused.contains("--continue"), "{refused}");
    let done = set.text(&["grow", set.name, "--continue"]);
    assert_eq!(done, "raid5-ls-4 has 5 members now and 188 MiB\n");
    set.verify(true);
    let refused = set.refusal(&["grow", set.name, "--continue"]);
    assert!(refused.contains("nothing to continue"), "{refused}");
}

#[test]
fn a_reshape_that_md_left_is_continued() {
    fixtures::takes_long!();
    let Some(set) = Fixture::unpack("raid5-3-reshape-to-4") else { return };
    set.text(&["grow", set.name, "--continue"]);
    set.verify(true);
    let examined = set.text(&["examine", &set.path("disk3.raw")]);
    assert!(examined.contains("Feature Map : 0x0") && examined.contains("1664 sectors"));
}

#[test]
fn a_third_mirror_holds_everything() {
    fixtures::takes_long!();
    let Some(mut set) = Fixture::unpack("raid1-2-bitmap") else { return };
    let new = set.new_disk(std::fs::metadata(set.path("disk0.raw")).expect("a disk").len());
    let refused = set.refusal(&["grow", set.name, "-n", "3"]);
    assert!(refused.contains("--add"), "{refused}");
    let done = set.text(&["grow", set.name, "-n", "3", "--add", &new]);
    assert!(done.starts_with("raid1-2-bitmap has 3 members now"), "{done}");
    set.verify(true);
    // The new one alone.
    let alone = fixtures::scratch::folder();
    std::fs::rename(&new, alone.path().join("new.raw")).expect("moved");
    set.folder = alone;
    set.verify(false);
}

#[test]
fn members_that_were_enlarged_are_used_whole() {
    fixtures::takes_long!();
    let Some(set) = Fixture::unpack("raid5-3-512k-bitmap") else { return };
    let refused = set.refusal(&["grow", set.name, "--size", "max"]);
    assert!(refused.contains("enlarge the members first"), "{refused}");
    (0..3).for_each(|n| enlarge(&set.path(&format!("disk{n}.raw")), 8 << 20));
    let done = set.text(&["grow", set.name, "--size", "max"]);
    let expected = format!("has 3 members now and {} MiB\n", (set.size >> 20) + 16);
    assert!(done.ends_with(&expected), "{done}, not {expected}");
    set.verify(true);
}

/// Its superblocks lie at the end, where the old one was.
#[test]
fn a_set_with_its_superblocks_at_the_end_grows_with_its_members() {
    fixtures::takes_long!();
    let Some(set) = Fixture::unpack("raid1-3-v10") else { return };
    let before = std::fs::metadata(set.path("disk0.raw")).expect("a disk").len();
    (0..3).for_each(|n| enlarge(&set.path(&format!("disk{n}.raw")), 8 << 20));
    let hidden = set.refusal(&["grow", set.name, "--size", "max"]);
    assert!(hidden.contains("no set is called so"), "{hidden}");
    let old = (before >> 10).to_string();
    set.text(&["grow", set.name, "--size", "max", "--old-size", &old]);
    let detail = set.text(&["detail", set.name]);
    let size = format!("Array Size : {} ", (set.size + (8 << 20)) >> 10);
    assert!(detail.contains(&size), "{detail}");
    set.verify(true);
}

#[test]
fn a_bitmap_comes_and_goes() {
    fixtures::takes_long!();
    let Some(set) = Fixture::unpack("raid5-3-v11") else { return };
    assert!(set.refusal(&["grow", set.name, "-b", "none"]).contains("has no write-intent bitmap"));
    let added = set.text(&["grow", set.name, "-b", "internal", "--bitmap-chunk", "64"]);
    assert_eq!(
        added,
        format!("{} has a write-intent bitmap now, a bit for each 64 KiB\n", set.name)
    );
    let detail = set.text(&["detail", set.name]);
    assert!(detail.contains("Consistency Policy : bitmap"), "{detail}");
    // Gone and back: what it missed is nothing.
    let member = set.path("disk1.raw");
    set.text(&["fail", set.name, &member]);
    let back = set.text(&["add", "--re-add", set.name, &member]);
    assert!(back.contains("re-added"), "{back}");
    set.verify(true);
    assert!(set.text(&["grow", set.name, "-b", "none"]).contains("no write-intent bitmap now"));
    assert!(set.text(&["detail", set.name]).contains("Consistency Policy : resync"));
    set.verify(true);
}

#[test]
fn what_is_asked_wrongly_is_refused_in_a_line() {
    let Some(set) = Fixture::unpack("raid5-3-v11") else { return };
    assert!(set.refusal(&["grow", set.name, "--size", "much"]).contains("much"));
    let held = set.path("disk0.raw");
    let refused = set.refusal(&["grow", set.name, "-n", "4", "--add", &held]);
    assert!(refused.contains("it is a member of the set already"), "{refused}");
    let new = set.new_disk(48 << 20);
    let refused = set.refusal(&["grow", set.name, "-n", "3", "--add", &new]);
    assert!(refused.contains("given more, not 3"), "{refused}");
    // Part of another set.
    let other = set.path("other.raw");
    let mut create = Command::new(env!("CARGO_BIN_EXE_spindle"));
    create.args(["md", "create", "other", "-l1", "-n1", "--force", "--assume-clean", &new]);
    succeeded(&create.output().expect("the program starts"), "create");
    std::fs::rename(&new, &other).expect("renamed");
    let refused = set.refusal(&["grow", set.name, "-n", "4", "--add", &other]);
    assert!(refused.contains("other.raw: it holds") && refused.contains("--force"), "{refused}");
}

/// md takes what was grown, goes on with what was killed, and Spindle reads what md made of it.
#[test]
#[ignore = "boots a machine: half a minute"]
fn the_real_md_takes_what_was_grown_and_goes_on_with_what_was_killed() {
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    let Some(oracle) = shared("oracle/oracle").filter(|_| qemu) else { return };
    let names = ["raid5-3-v11", "raid5-ls-4", "raid5-3-512k-bitmap", "raid1-2-bitmap", "raid6-5"];
    let mut sets = Vec::new();
    for name in names {
        let Some(set) = Fixture::unpack(name) else { return };
        sets.push(set);
    }
    let disk = |set: &Fixture| std::fs::metadata(set.path("disk0.raw")).expect("a disk").len();
    let whole = |set: &Fixture, slots: &str| {
        let new = set.new_disk(disk(set));
        set.text(&["grow", set.name, "-n", slots, "--add", &new]);
    };
    whole(&sets[0], "4");
    sets[0].text(&["grow", sets[0].name, "-b", "internal"]);
    sets[2].text(&["grow", sets[2].name, "-b", "none"]);
    sets[1].kill_reshape("5", &sets[1].new_disk(disk(&sets[1])));
    (0..3).for_each(|n| enlarge(&sets[2].path(&format!("disk{n}.raw")), 8 << 20));
    sets[2].text(&["grow", sets[2].name, "--size", "max"]);
    whole(&sets[3], "3");
    sets[4].kill_reshape("6", &sets[4].new_disk(disk(&sets[4])));
    let (mut machine, mut script) = (Command::new(&oracle), String::from("cd /dev\n"));
    machine.args(["--cache", "unsafe", "--timeout", "280"]);
    let mut letters = 'a'..='z';
    for (n, set) in sets.iter().enumerate() {
        let mut nodes = String::new();
        let mut files: Vec<PathBuf> = std::fs::read_dir(set.folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("a disk").path())
            .collect();
        files.sort_unstable();
        for file in files {
            machine.arg("--disk").arg(file);
            let _ = write!(nodes, " vd{}", letters.next().expect("a letter"));
        }
        let blocks = set.size / 4096;
        let _ = write!(
            script,
            "mdadm --assemble /dev/md{n}{nodes} 2>&1\nS=/sys/block/md{n}/md\n\
             for i in $(seq 100); do [ $(cat $S/sync_action) = idle ] && break; sleep 1; done\n\
             echo degraded {n} $(cat $S/degraded) $(cat $S/raid_disks)\n\
             echo policy {n} $(cat $S/consistency_policy)\n\
             echo check > $S/sync_action; mdadm --wait /dev/md{n}\n\
             echo mismatches {n} $(cat $S/mismatch_cnt)\n\
             echo content {n} $(dd if=/dev/md{n} bs=4096 count={blocks} status=none | sha256sum)\n\
             mdadm --stop /dev/md{n} 2>&1\n"
        );
    }
    let scripts = fixtures::scratch::folder();
    let path = scripts.path().join("check.sh");
    std::fs::write(&path, script).expect("a script");
    let said = succeeded(&machine.arg(&path).output().expect("it starts"), "the oracle");
    let after = [(4, "bitmap"), (5, "resync"), (3, "resync"), (3, "bitmap"), (6, "resync")];
    for (n, (set, (slots, policy))) in sets.iter().zip(after).enumerate() {
        let expected = [
            format!("policy {n} {policy}"),
            format!("degraded {n} 0 {slots}"),
            format!("mismatches {n} 0"),
            format!("content {n} {} -", set.digest),
        ];
        for expected in expected {
            assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
        }
        set.verify(true);
    }
}
