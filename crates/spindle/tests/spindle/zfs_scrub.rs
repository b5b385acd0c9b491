//! `zpool scrub --read-only` and `zpool debug` from the outside, on pools that the real OpenZFS made.
//!
//! What could break: a status that says all is well where it is not, errors on the wrong device, a byte that is written, and the
//! form of the table that `zdb`'s users know.

use fixtures::images;
use std::path::Path;
use std::process::{Command, Output};

fn fixture(name: &str) -> Option<tempfile::TempDir> {
    Some(fixtures::unpack(&fixtures::folder("zfs")?, name))
}

fn spindle(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.arg("-d").arg(folder).arg("zpool").args(arguments).output().expect("it runs")
}

#[test]
fn a_wrong_copy_is_counted_on_its_disk_and_nothing_is_written() {
    let Some(folder) = fixture("corrupt-z1") else { return };
    let before = images(folder.path());
    let output = spindle(folder.path(), &["scrub", "--read-only", "--json", "t_corrupt_z1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["damaged_blocks"], 0);
    let children = json["vdevs"][0]["vdevs"].as_array().expect("three disks");
    for child in children {
        let is_wrong = child["name"].as_str().expect("a name").ends_with("disk1.raw");
        assert_eq!(child["checksum_errors"].as_u64().expect("a number") > 0, is_wrong, "{child}");
    }
    assert!(images(folder.path()) == before, "all is as before");
}

#[test]
fn a_damaged_file_is_named_and_the_status_says_so() {
    let Some(folder) = fixture("corrupt-z1") else { return };
    // One disk has wrong bytes already; without another one they can't be told from right ones.
    std::fs::remove_file(folder.path().join("disk0.raw")).expect("it is removed");
    let output = spindle(folder.path(), &["scrub", "--read-only", "t_corrupt_z1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("these can't be had") && text.contains(":/"), "{text}");
}

/// What could break: a table in other words than `zpool status`, and nothing that says what to do about a failing disk.
#[test]
fn what_was_rebuilt_is_told_with_advice_in_the_table_of_zpool_status() {
    let Some(folder) = fixture("corrupt-z1") else { return };
    let output = spindle(folder.path(), &["scrub", "--read-only", "t_corrupt_z1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("status: 1 device returned wrong data or none, and all of it was rebuilt"),
        "{text}"
    );
    let status = spindle(folder.path(), &["status", "t_corrupt_z1"]);
    let status = String::from_utf8_lossy(&status.stdout);
    let without_counts = |text: &str| -> Vec<Vec<String>> {
        let lines =
            text.lines().skip_while(|line| !line.contains("NAME")).take_while(|l| !l.is_empty());
        lines.map(|line| line.split_whitespace().take(2).map(str::to_owned).collect()).collect()
    };
    assert_eq!(without_counts(&text), without_counts(&status));
    assert!(text.contains("READ WRITE CKSUM") && without_counts(&text).len() > 4, "{text}");
}

/// What could break: only the snapshot is named through which the block was read, and the file system that has it too is
/// taken for whole.
#[test]
fn every_dataset_that_has_a_damaged_block_is_named() {
    use std::os::unix::fs::FileExt;
    let Some(folder) = fixture("z2-5") else { return };
    for disk in ["disk0.raw", "disk1.raw"] {
        std::fs::remove_file(folder.path().join(disk)).expect("it is removed");
    }
    let disk = std::fs::File::options().write(true).open(folder.path().join("disk3.raw"));
    let disk = disk.expect("it opens");
    for at in (0x44_0000..0x4d_0000).step_by(64 << 10) {
        disk.write_all_at(&[0xde, 0xad].repeat(2048), at).expect("overwritten");
    }
    let output = spindle(folder.path(), &["scrub", "--read-only", "t_z2_5"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let of = |dataset: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(dataset));
        lines.map(str::to_owned).collect()
    };
    let (snapshot, head) = (of("t_z2_5/plain@s1:"), of("t_z2_5/plain:"));
    assert!(!snapshot.is_empty() && !head.is_empty(), "{text}");
    assert!(head.iter().any(|line| snapshot.contains(line)), "{text}");
}

#[test]
fn blocks_are_counted_in_the_form_of_zdb() {
    let Some(folder) = fixture("two-mirror") else { return };
    let output = spindle(folder.path(), &["debug", "blocks", "t_two_mirror"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
    assert!(text.contains("\nBlocks\tLSIZE\tPSIZE\tASIZE\t  avg\t comp\t%Total\tType\n"), "{text}");
    assert!(text.lines().any(|line| line.ends_with("\t100.00\tTotal")), "{text}");
}

#[test]
fn what_lies_on_a_pool_is_shown() {
    let Some(folder) = fixture("two-mirror") else { return };
    for (arguments, expected) in [
        (&["debug", "uberblock", "t_two_mirror"][..], "rootbp"),
        (&["debug", "mos", "t_two_mirror"], "object directory"),
        (&["debug", "object", "--mos", "t_two_mirror", "1"], "highest block"),
        (&["debug", "bp", "--mos", "t_two_mirror", "1"], "L0"),
        (&["debug", "zap", "--mos", "t_two_mirror", "1"], "root_dataset"),
        (&["debug", "spacemap", "t_two_mirror"], "bytes allocated"),
        (&["debug", "zil", "t_two_mirror"], "claim_txg"),
    ] {
        let output = spindle(folder.path(), arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expected), "{arguments:?}: {text}");
    }
    let output = spindle(folder.path(), &["debug", "object", "t_two_mirror", "999999"]);
    assert_eq!(output.status.code(), Some(1));
    let output = spindle(folder.path(), &["scrub", "t_two_mirror"]);
    assert_eq!(output.status.code(), Some(2), "repairing is not asked for by accident");
}

/// What could break: while a vdev is being removed, what was copied off it already lies where no pointer leads yet, and is called
/// leaked.
#[test]
fn a_pool_in_the_midst_of_a_removal_has_no_leak() {
    let Some(folder) = fixtures::folder("ztest") else { return };
    let target = fixtures::unpack(&folder, "zt16");
    let output = spindle(&target.path().join("zt16"), &["debug", "blocks", "zt16"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
    // As zdb counts this pool.
    for (name, number) in [("bp count:", "4139"), ("bp allocated:", "37282816")] {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        assert!(
            line.is_some_and(|line| line.split_whitespace().any(|word| word == number)),
            "{text}"
        );
    }
}
