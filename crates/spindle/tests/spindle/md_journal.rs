//! `spindle md` on sets with a journal, from the outside.
//!
//! What could break: a set that is started without its journal and without a word, a journal that is not what mdadm
//! would have written and printed, a damaged one that is taken for a new one. (The real md reads such sets in
//! `md_log_oracle`.)

use std::path::Path;
use std::process::{Command, Output};

fn spindle(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spindle"))
        .current_dir(dir)
        .args(["-d", ".", "md"])
        .args(arguments)
        .env_remove("SPINDLE_DEVICES")
        .output()
        .expect("the program starts")
}

#[track_caller]
fn text(dir: &Path, arguments: &[&str]) -> String {
    let output = spindle(dir, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = spindle(dir, arguments);
    assert!(!output.status.success(), "{arguments:?} went well");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn disks() -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    for (disk, mib) in [("a", 24), ("b", 24), ("c", 24), ("j", 16), ("k", 16)] {
        let file = std::fs::File::create(folder.path().join(disk)).expect("a disk");
        file.set_len(mib << 20).expect("a size");
    }
    folder
}

const CREATE: [&str; 8] = ["create", "x", "-l", "5", "-n", "3", "-c", "64"];

#[test]
fn what_contradicts_a_journal_is_refused_with_its_mend() {
    let folder = disks();
    let dir = folder.path();
    let with = |more: &[&str]| {
        let words: Vec<&str> = CREATE.iter().chain(more).copied().collect();
        refused(dir, &words)
    };
    let both = with(&["-b", "internal", "--write-journal", "j", "a", "b", "c"]);
    assert!(both.contains("a bitmap and a journal exclude one another"), "{both}");
    let ppl = with(&["-k", "ppl", "--write-journal", "j", "a", "b", "c"]);
    assert!(ppl.contains("contradict one another"), "{ppl}");
    let none = with(&["-k", "journal", "a", "b", "c"]);
    assert!(none.contains("add --write-journal"), "{none}");
    let twice = with(&["--write-journal", "a", "a", "b", "c"]);
    assert!(twice.contains("'a' is given twice"), "{twice}");
    let mirror = ["create", "x", "-l", "1", "-n", "2", "--write-journal", "j", "a", "b"];
    let mirror = refused(dir, &mirror);
    assert!(mirror.contains("raid1 does not keep a journal"), "{mirror}");
    assert!(text(dir, &["examine"]).is_empty(), "nothing was written");
}

#[test]
fn a_journal_is_made_shown_failed_removed_added_and_missed() {
    let folder = disks();
    let dir = folder.path();
    let create: Vec<&str> =
        CREATE.iter().chain(&["--write-journal", "j", "a", "b", "c"]).copied().collect();
    text(dir, &create);
    assert!(text(dir, &["repair", "x"]).contains("mismatch_cnt = 0"));

    let detail = text(dir, &["detail", "x"]);
    for line in [
        "     Total Devices : 4\n",
        "   Working Devices : 4\n",
        "    Active Devices : 3\n",
        "Consistency Policy : journal\n",
        "\n\n       3       0        0        -      journal   ./j\n",
    ] {
        assert!(detail.contains(line), "{line}: {detail}");
    }
    let examined = text(dir, &["examine", "j"]);
    // Smaller than the members, and all of it is in use.
    let journal = [
        "    Feature Map : 0x200\n",
        "after=0 sectors\n",
        "   Device Role : Journal\n",
        "Array State : AAA ",
    ];
    for line in journal {
        assert!(examined.contains(line), "{line}: {examined}");
    }
    assert!(text(dir, &["examine", "a"]).contains("    Feature Map : 0x200\n"));

    assert_eq!(text(dir, &["fail", "x", "j"]), "set j faulty in x\n");
    let why = refused(dir, &["assemble", "x"]);
    assert!(why.contains("lacks its journal") && why.contains("--force"), "{why}");
    let read_only = spindle(dir, &["assemble", "--readonly", "x"]);
    assert!(read_only.status.success());
    let said = String::from_utf8_lossy(&read_only.stderr);
    assert!(said.contains("the journal is not there"), "{said}");
    assert_eq!(text(dir, &["remove", "x", "j"]), "hot removed ./j from x\n");

    assert_eq!(text(dir, &["add", "--journal", "x", "k"]), "added k as journal\n");
    assert!(text(dir, &["detail", "x"]).contains("journal   ./k\n"));
    let started = text(dir, &["assemble", "x"]);
    assert!(
        started.contains("was assembled with 3 drives and 1 journal, and is closed again."),
        "{started}"
    );
    assert!(text(dir, &["check", "x"]).contains("mismatch_cnt = 0"));
    let second = refused(dir, &["add", "--force", "--journal", "x", "j"]);
    assert!(second.contains("has a journal: fail and remove it first"), "{second}");

    // One bit of the block to which the tail leads.
    let examined = text(dir, &["examine", "--json", "k"]);
    let examined: serde_json::Value = serde_json::from_str(&examined).expect("JSON");
    let number = |name: &str| examined[0][name].as_u64().expect("a number");
    let at = (number("data_offset_sectors") + number("journal_tail_sectors")) * 512 + 16;
    let mut bytes = std::fs::read(dir.join("k")).expect("read");
    bytes[at as usize] ^= 1;
    std::fs::write(dir.join("k"), bytes).expect("written");
    let damaged = refused(dir, &["assemble", "x"]);
    assert!(damaged.contains("./k: journal meta block: checksum"), "{damaged}");
    text(dir, &["assemble", "--force", "x"]);
    assert!(text(dir, &["check", "x"]).contains("mismatch_cnt = 0"));
}
