//! Pools with members missing, and folders without pools: states, messages and what to do, in OpenZFS's words.

use crate::zfs_list::{done, refused, spindle};
use std::fs;

fn section<'a>(text: &'a str, head: &str) -> &'a str {
    let start = text.find(head).unwrap_or_else(|| panic!("{head} is in {text}"));
    let rest = &text[start + head.len()..];
    let end = rest.find("\n\n").unwrap_or(rest.len());
    rest[..end].trim()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_pool_is_listed_with_its_devices() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "log-cache-special");
    let text = done(disks.path(), &["zpool", "import"]);
    assert!(
        text.starts_with(
            "  pool: t_log_cache_special\n    id: 9614157352010720814\n state: ONLINE\n"
        ),
        "{text}"
    );
    let lines: Vec<Vec<&str>> = text.lines().map(words).collect();
    for line in [
        vec!["t_log_cache_special", "ONLINE"],
        vec!["mirror-0", "ONLINE"],
        vec!["disk0.raw", "ONLINE"],
        vec!["cache"],
        vec!["disk3.raw"],
        vec!["special"],
        vec!["disk4.raw", "ONLINE"],
        vec!["logs"],
        vec!["disk2.raw", "ONLINE"],
    ] {
        assert!(lines.contains(&line), "{line:?} is in {text}");
    }
}

/// What could break: an image that was not copied whole is taken for whole, and one of two copies is read without a word.
#[test]
fn devices_that_were_cut_short_or_copied_are_told_of() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let notes = |folder: &std::path::Path| {
        let output = spindle(folder, &["zpool", "list"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let disks = fixtures::unpack(&folder, "z1-3");
    assert_eq!(notes(disks.path()), "");
    let disk = disks.path().join("disk1.raw");
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("it opens");
    file.set_len(30 << 20).expect("it is cut");
    let text = notes(disks.path());
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("disk1.raw has 30 MiB, and pool 't_z1_3' goes up to"), "{text}");
    let disks = fixtures::unpack(&folder, "single");
    fixtures::copy(&disks.path().join("disk0.raw"), &disks.path().join("copy.raw"));
    let text = notes(disks.path());
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("both say that they are the same device of pool 't_single'"), "{text}");
}

#[test]
fn a_pool_without_some_of_its_devices_is_degraded_or_gone() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "z2-5");
    let lose =
        |n: u32| fs::remove_file(disks.path().join(format!("disk{n}.raw"))).expect("it was there");
    lose(3);
    let text = done(disks.path(), &["zpool", "import"]);
    assert!(
        text.contains(
            " state: DEGRADED\nstatus: One or more devices are missing from the system.\n"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "action: The pool can be imported despite missing or damaged devices.  The\n\tfault"
        ),
        "{text}"
    );
    assert!(text.contains("see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-2Q"), "{text}");
    let text = done(disks.path(), &["zpool", "status"]);
    assert_eq!(
        section(&text, "status: ").lines().next(),
        Some("One or more devices could not be opened.  Sufficient replicas exist for")
    );
    assert!(
        text.contains("15395343591688839687  UNAVAIL      0     0     0  was /dev/loop3\n"),
        "{text}"
    );
    let listed = done(disks.path(), &["zpool", "list", "-H", "-o", "name,health"]);
    assert_eq!(listed, "t_z2_5\tDEGRADED\n");
    lose(0);
    assert_eq!(
        done(disks.path(), &["zfs", "list", "-H", "-o", "name"]).lines().next(),
        Some("t_z2_5")
    );
    lose(1);
    let text = done(disks.path(), &["zpool", "import"]);
    assert!(
        text.contains(
            " state: UNAVAIL\nstatus: One or more devices are missing from the system.\n"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "action: The pool cannot be imported. Attach the missing\n\tdevices and try again.\n"
        ),
        "{text}"
    );
    assert!(text.contains("UNAVAIL  insufficient replicas\n"), "{text}");
    let (status, _) = refused(disks.path(), &["zfs", "list"]);
    assert_eq!(status, 1);
}

#[test]
fn a_missing_vdev_of_a_stripe_is_named() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "stripe-of-two-mirrors");
    for disk in ["disk2.raw", "disk3.raw"] {
        fs::remove_file(disks.path().join(disk)).expect("it was there");
    }
    let text = done(disks.path(), &["zpool", "import"]);
    assert!(text.contains(" state: UNAVAIL\n"), "{text}");
    let lines: Vec<Vec<&str>> = text.lines().map(words).collect();
    assert!(lines.contains(&vec!["mirror-0", "ONLINE"]), "{text}");
    assert!(text.contains("missing from the system"), "{text}");
}

#[test]
fn a_pool_of_another_host_needs_force_to_import_and_none_to_read() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "zil");
    let text = done(disks.path(), &["zpool", "import"]);
    assert!(text.contains("status: The pool was last accessed by another system.\n"), "{text}");
    assert!(text.contains("numeric identifier and\n\tthe '-f' flag.\n"), "{text}");
    let (status, said) = refused(disks.path(), &["zpool", "import", "-o", "readonly=on", "t_zil"]);
    assert!(
        status == 1 && said.contains("pool was previously in use from another system"),
        "{said}"
    );
    let text = done(disks.path(), &["zpool", "import", "-f", "-N", "-o", "readonly=on", "t_zil"]);
    assert!(text.starts_with("pool 't_zil' opens for reading"), "{text}");
    let (status, said) = refused(disks.path(), &["zpool", "import", "t_zil"]);
    assert!(status == 1 && said.contains("Last accessed by oracle (hostid=bab10c)"), "{said}");
    let output = spindle(disks.path(), &["zfs", "list"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("'t_zil' was not exported"), "{said}");
    assert_eq!(said.lines().count(), 1, "it is said once");
}

#[test]
fn what_is_not_there_is_said_in_the_words_that_scripts_look_for() {
    let empty = fixtures::scratch::folder();
    fs::write(empty.path().join("disk"), vec![0; 1 << 20]).expect("written");
    let said = |arguments: &[&str]| {
        let output = spindle(empty.path(), arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    for (arguments, text) in [
        (
            &["zpool", "import"][..],
            "no pools available to import\nnote: 1 file or device was looked at\n",
        ),
        (&["zpool", "list"], "no pools available\n"),
        (&["zpool", "status"], "no pools available\n"),
        (&["zpool", "history"], "no pools available\n"),
        (&["zfs", "list"], "no datasets available\n"),
    ] {
        assert_eq!(said(arguments), (Some(0), text.to_owned()), "{arguments:?}");
    }
    for (arguments, status, text) in [
        (&["zpool", "list", "p"][..], 1, "cannot open 'p': no such pool"),
        (&["zpool", "status", "p"], 1, "cannot open 'p': no such pool"),
        (&["zpool", "history", "p"], 1, "cannot open 'p': no such pool"),
        (&["zpool", "get", "all", "p"], 1, "Cannot get properties of p: no such pool available."),
        (
            &["zpool", "import", "-o", "readonly=on", "p"],
            1,
            "cannot import 'p': no such pool available",
        ),
        (&["zpool", "import", "-o", "colour=red", "p"], 1, "'-o colour=red'"),
        (&["zfs", "list", "p/a"], 1, "cannot open 'p/a': dataset does not exist"),
        (&["zfs", "get", "all", "p@s"], 1, "cannot open 'p@s': dataset does not exist"),
        (
            &["zfs", "list", "bad name!"],
            1,
            "cannot open 'bad name!': invalid character '!' in name",
        ),
        (&["zfs", "get", "nonsense"], 2, "bad property list: invalid property 'nonsense'"),
        (&["zfs", "list", "-o", "nonsense"], 2, "bad property list: invalid property 'nonsense'"),
        (&["zpool", "get", "nonsense"], 2, "bad property list: invalid property 'nonsense'"),
        (&["zpool", "list", "-o", "nonsense"], 2, "bad property list: invalid property 'nonsense'"),
        (&["zfs", "list", "-t", "nonsense"], 2, "invalid type 'nonsense'"),
        (&["zfs", "list", "-s", "nonsense"], 2, "invalid property 'nonsense'"),
        (&["zfs", "get", "-s", "nonsense", "all"], 2, "invalid source 'nonsense'"),
        (&["zfs", "get", "-o", "nonsense", "all"], 2, "invalid column name 'nonsense'"),
        (&["zfs", "get"], 2, "PROPERTY"),
    ] {
        let (code, printed) = said(arguments);
        assert!(
            code == Some(status) && printed.contains(text),
            "{arguments:?}: {code:?} {printed}"
        );
    }
}

/// What could break: a pool is shown as if nothing were the matter, or not at all, with an address inside it for a reason.
#[test]
fn a_pool_that_lacks_too_much_says_what() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "log-cache-special");
    fs::remove_file(disks.path().join("disk4.raw")).expect("it was there");
    let missing =
        "top-level vdev 1 is missing with all its devices: attach them, or name where they lie";
    for arguments in [&["zpool", "list"][..], &["zpool", "status"], &["zfs", "list"]] {
        let output = spindle(disks.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(missing), "{said}");
        assert!(said.starts_with("spindle: "), "{said}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.contains("UNAVAIL"), arguments[0] == "zpool", "{text}");
    }
    let disks = fixtures::unpack(&folder, "corrupt-z2-two");
    for disk in ["disk1.raw", "disk2.raw", "disk3.raw"] {
        fs::remove_file(disks.path().join(disk)).expect("it was there");
    }
    let import = ["zpool", "import", "-f", "-o", "readonly=on", "t_corrupt_z2_two"];
    let text = done(disks.path(), &import);
    assert!(text.contains("opens for reading, with vdev raidz2-0 UNAVAIL"), "{text}");
    let text = done(disks.path(), &["zpool", "status"]);
    assert!(text.contains(" state: UNAVAIL\n") && !text.contains("No known data"), "{text}");
    // Who is missing is told by the path that it had last and its GUID, in the labels of those that are there.
    for arguments in [&["zpool", "status"][..], &["zpool", "import"]] {
        let said = String::from_utf8(spindle(disks.path(), arguments).stderr).expect("text");
        let who = "raidz2-0 needs 2 of its 4 devices, and 1 is there; missing: ";
        assert!(said.contains(who) && said.matches("(GUID ").count() == 3, "{arguments:?}: {said}");
    }
}

/// What could break: a list of checksums beside the images makes a note, a disk that is named twice is a clash.
#[test]
fn what_lies_beside_the_disks_is_passed_over() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "single");
    fs::write(disks.path().join("disk0.raw.md5"), "00  disk0.raw\n").expect("written");
    fs::create_dir(disks.path().join("older")).expect("made");
    let disk = disks.path().join("disk0.raw");
    let disk = disk.to_str().expect("a path");
    let output = spindle(disks.path(), &["-d", disk, "zpool", "list"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(done(disks.path(), &["zpool", "import", "-d", disk]).contains("t_single"));
    let (status, said) = refused(&disks.path().join("disk0.raw.md5"), &["zpool", "list"]);
    assert!(status == 1 && said.contains("disk0.raw.md5"), "{said}");
    let only = disks.path().join("older");
    fs::create_dir(only.join("oldest")).expect("made");
    let output = spindle(&only, &["zpool", "import"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("0 files") && said.contains("older/oldest"), "{said}");
}
