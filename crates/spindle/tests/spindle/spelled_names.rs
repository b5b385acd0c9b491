//! Names that are the same to a file system and not to the kernel, in a mount.
//!
//! What could break: the kernel keeps a name in one spelling, there or not, that is gone or made in another; then what is written by it
//! goes to a file that has another name by now, or to none.

use crate::holding::{Holder, can_mount};
use crate::pools::{add_disks, done, judge, run};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How often each is done.
const TIMES: usize = 50;

/// Three spellings of one name.
type Spellings = [&'static str; 3];

const CASES: Spellings = ["Report", "REPORT", "report"];
const FORMS: Spellings = ["\u{212b}", "\u{c5}", "A\u{30a}"];

fn write(path: &Path, content: &str) {
    fs::write(path, content).unwrap_or_else(|error| panic!("{path:?}: {error}"));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Lists a directory as `ls -l` does, so that the kernel has looked at all of it.
fn list(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is listed").map(|entry| {
        let entry = entry.expect("an entry");
        entry.metadata().expect("it is there");
        entry.file_name().into_string().expect("text")
    });
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

fn names_are_asked_for_anew(directory: &Path, spellings: Spellings) {
    for time in 0..TIMES {
        let all = |what: &str| -> [PathBuf; 3] {
            spellings.map(|spelling| directory.join(format!("{what}-{spelling}-{time}")))
        };
        // Moved away, and made anew.
        let [first, second, third] = all("moved");
        let backup = directory.join(format!("backup-{time}"));
        write(&first, "the only copy");
        fs::rename(&second, &backup).expect("it is moved");
        write(&first, "new text");
        assert_eq!(read(&backup), "the only copy");
        assert_eq!(read(&third), "new text");
        assert_ne!(
            fs::metadata(&first).expect("there").ino(),
            fs::metadata(&backup).expect("there").ino()
        );
        // Removed, while the file lives on.
        let [first, second, third] = all("removed");
        let kept = directory.join(format!("kept-{time}"));
        write(&first, "kept");
        fs::hard_link(&first, &kept).expect("it has two names");
        if time % 10 == 0 {
            list(directory);
        }
        fs::remove_file(&second).expect("it goes");
        assert!(!first.exists() && !third.exists() && read(&kept) == "kept");
        // Removed while it is open, and made anew: another file.
        let [first, second, third] = all("open");
        write(&first, "");
        let open = fs::File::open(&first).expect("it opens");
        fs::remove_file(&second).expect("it goes");
        write(&first, "new");
        assert_eq!((open.metadata().expect("it is open").len(), read(&third)), (0, "new".into()));
        // Asked for in vain, and made.
        let [first, second, third] = all("made");
        write(&first, "");
        fs::remove_file(&second).expect("it goes");
        assert!(!first.exists());
        write(&third, "made");
        assert!(read(&first) == "made" && read(&second) == "made");
        // Directories.
        let [first, second, third] = all("folder");
        let moved = directory.join(format!("away-{time}"));
        fs::create_dir(&first).expect("it is made");
        write(&first.join("within"), "old");
        fs::rename(&second, &moved).expect("it is moved");
        assert!(!third.exists());
        fs::create_dir(&first).expect("another is made");
        write(&second.join("within"), "new");
        assert_eq!(
            (read(&moved.join("within")), read(&third.join("within"))),
            ("old".into(), "new".into())
        );
    }
    let names = list(directory);
    // Of each time: the moved and its backup, what was kept, the one that was open, the one that was made, and two directories.
    assert_eq!(names.len(), TIMES * 7, "{names:?}");
}

#[test]
fn what_is_done_under_one_spelling_is_seen_at_once_under_the_others() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let folder = fixtures::scratch::folder();
    let at = folder.path().canonicalize().expect("it is there");
    fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a"], 128 << 20);
    let mountpoint = at.join("m").to_str().expect("text").to_owned();
    done(&at, &["zpool", "create", "-m", &mountpoint, "tank", "disks/a"]);
    // All in one mount: what holds for one dataset must not be taken from another.
    let datasets = [
        ("insensitive", &["-o", "casesensitivity=insensitive"][..], CASES),
        ("decomposed", &["-o", "normalization=formD"], FORMS),
        ("composed", &["-o", "normalization=formC"], FORMS),
        ("mixed", &["-o", "casesensitivity=mixed", "-o", "normalization=formC"], FORMS),
    ];
    for (name, options, _) in datasets {
        done(&at, &[&["zfs", "create"], options, &[&format!("tank/{name}")]].concat());
    }
    let holder = Holder::start(&at, "pools = [\"tank\"]\n");
    done(&at, &["zfs", "mount", "tank"]);
    for (name, _, spellings) in datasets {
        names_are_asked_for_anew(&at.join("m").join(name), spellings);
    }
    holder.stop();
    judge(&at, "tank");
}

/// Two names of a source that are one in the target: the second was taken for a copy of itself, and lost.
#[test]
fn a_copy_tells_of_names_that_are_one_in_the_target() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let at = folder.path().canonicalize().expect("it is there");
    let (disks, two) = (at.join("disks"), at.join("two"));
    fs::create_dir(&disks).expect("a folder");
    add_disks(&disks, &["a"], 128 << 20);
    done(&at, &["zpool", "create", "tank", "disks/a"]);
    done(&at, &["zfs", "create", "-o", "casesensitivity=insensitive", "tank/folds"]);
    done(&at, &["zfs", "create", "tank/plain"]);
    for names in [["Readme", "README"], ["Docs/f", "docs/f"]] {
        for (name, content) in names.into_iter().zip(["one", "two"]) {
            let file = two.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
            write(&file, content);
            let opened = fs::File::open(&file).expect("it opens");
            opened.set_modified(std::time::UNIX_EPOCH).expect("it has a time");
        }
    }
    fs::hard_link(two.join("Readme"), two.join("another name")).expect("it has two names");
    // Where all are names of their own, twice the same.
    for _ in 0..2 {
        done(&at, &["zfs", "cp", "-r", "two/.", "tank/plain:"]);
    }
    let copied = |arguments: &[&str]| {
        for _ in 0..2 {
            let output = run(&at, &[&["zfs", "cp", "-r"], arguments].concat());
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{told}");
            let times = told.matches("takes its name for another one").count();
            assert_eq!(times, 2, "{told}");
        }
    };
    copied(&["two/.", "tank/folds:"]);
    copied(&["--force", "two/.", "tank/folds:"]);
    // Given one by one.
    done(&at, &["zfs", "create", "-o", "casesensitivity=insensitive", "tank/given"]);
    let given = ["two/Readme", "two/README", "two/Docs", "two/docs"];
    copied(&[&given[..], &["tank/given:"]].concat());
    copied(&[&["--force"], &given[..], &["tank/given:"]].concat());
    let first = String::from_utf8(run(&at, &["zfs", "cat", "tank/given:README"]).stdout);
    assert_eq!(first.expect("text"), "one");
    assert_eq!(done(&at, &["zfs", "ls", "tank/given:"]), "Docs\nReadme\n");
    if !can_mount() {
        return;
    }
    // Out of a pool, into a mount that folds.
    let mountpoint = at.join("m").to_str().expect("text").to_owned();
    done(&at, &["zfs", "set", &format!("mountpoint={mountpoint}"), "tank/folds"]);
    let holder = Holder::start(&at, "pools = [\"tank\"]\n");
    done(&at, &["zfs", "mount", "tank/folds"]);
    for name in ["m/out", "m/given"] {
        fs::create_dir(at.join(name)).expect("it is made");
    }
    copied(&["tank/plain:", "m/out"]);
    // Given one by one.
    let files =
        ["tank/plain:Readme", "tank/plain:README", "tank/plain:docs/f", "tank/plain:Docs/f"];
    for _ in 0..2 {
        let output = run(&at, &[&["zfs", "cp", "--force"], &files[..], &["m/given"]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(told.matches("takes its name for another one").count(), 1, "{told}");
        assert_eq!(
            told.matches("has another one of this command's under its name").count(),
            1,
            "{told}"
        );
        assert_eq!(list(&at.join("m/given")), ["Readme", "f"]);
    }
    assert_eq!(read(&at.join("m/given/Readme")) + &read(&at.join("m/given/f")), "onetwo");
    holder.stop();
    judge(&at, "tank");
}
