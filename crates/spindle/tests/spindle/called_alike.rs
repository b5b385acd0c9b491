//! Two pools, or two volume groups, of one name on the devices, as two machines' disks beside each other have them.
//!
//! What could break: what is of one of them is shown as the other's, or not at all; a command guesses which is meant.

use crate::pools;
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::Path;

const DISK_BYTES: u64 = 128 << 20;

/// Two pools `p1` and one `other`; and the GUIDs of the two, the least first, each with the dataset that only it has.
fn three_pools() -> (tempfile::TempDir, Vec<(String, &'static str)>) {
    let folder = pools::disks(&[], 0);
    let mut alike = Vec::new();
    for (pool, dataset, disk) in
        [("p1", "p1/first", "a"), ("p1", "p1/second", "b"), ("other", "other/third", "c")]
    {
        let own = pools::disks(&[disk], DISK_BYTES);
        let at = own.path();
        pools::done(at, &["zpool", "create", pool, disk]);
        pools::done(at, &["zfs", "create", dataset]);
        let guid = pools::done(at, &["zpool", "list", "-H", "-o", "guid"]);
        std::fs::copy(at.join(disk), folder.path().join(disk)).expect("it is copied");
        if pool == "p1" {
            alike.push((guid.trim().to_owned(), dataset));
        }
    }
    alike.sort_by_key(|(guid, _)| guid.parse::<u64>().expect("a number"));
    (folder, alike)
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&pools::done(folder, arguments)).expect("it is JSON")
}

#[test]
fn datasets_of_pools_that_are_called_alike_are_not_mixed() {
    fixtures::takes_long!();
    let (folder, alike) = three_pools();
    let at = folder.path();
    let [(one, of_one), (other, of_other)] = &alike[..] else { panic!("{alike:?}") };
    let refusal =
        format!("'p1': more than one matching pool: name it by its GUID, {one} or {other}");
    for verb in [&["list", "-H", "-o", "name"][..], &["get", "-H", "-o", "name", "type"]] {
        let verb = [&["zfs"], verb].concat();
        let output = pools::run(at, &verb);
        let (printed, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(printed, "other\nother/third\n", "{verb:?}");
        assert_eq!(said.matches(&*refusal).count(), 1, "{said}");
        pools::refused(at, &[&verb[..], &["p1"]].concat(), &refusal);
        // By the GUID each is had, with what is its own.
        for (guid, own) in &alike {
            let names = pools::done(at, &[&verb[..], &["-r", guid]].concat());
            assert_eq!(names, format!("p1\n{own}\n"), "{verb:?}");
        }
        let both = [&verb[..], &["-r", one, other]].concat();
        pools::refused(at, &both, &format!("its pool is called 'p1', as pool {one} is"));
    }
    let of = |guid: &str, dataset: &str| format!("{guid}{}", &dataset[2..]);
    pools::done(at, &["zfs", "list", &of(one, of_one)]);
    pools::done(at, &["zfs", "list", &of(other, of_other)]);
    pools::refused(at, &["zfs", "list", &of(one, of_other)], "dataset does not exist");
}

#[test]
fn pools_that_are_called_alike_are_all_shown() {
    fixtures::takes_long!();
    let (folder, alike) = three_pools();
    let at = folder.path();
    let [(one, _), (other, _)] = &alike[..] else { panic!("{alike:?}") };
    let note = format!("note: 2 pools are called 'p1': {one} and {other} by their GUIDs");
    for (verb, mark, times) in [
        (&["list", "-H", "-o", "name"][..], "p1\n", 2),
        (&["get", "-H", "-o", "name", "size"], "p1\n", 2),
        (&["status"], "  pool: p1\n", 2),
        (&["history"], "History for 'p1':\n", 2),
        (&["iostat"], "\np1 ", 2),
    ] {
        let verb = [&["zpool"], verb].concat();
        let (printed, said) = pools::printed_and_said(at, &verb);
        assert_eq!(printed.matches(mark).count(), times, "{verb:?}: {printed}");
        assert_eq!(said.matches(&*note).count(), 1, "{verb:?}: {said}");
        let (_, said) = pools::printed_and_said(at, &["zpool", "list", "other"]);
        assert_eq!(said, "", "who names a pool is told of no others");
    }
    for verb in [&["list", "-j"][..], &["get", "-j", "size"], &["status", "-j"]] {
        let shown = json(at, &[&["zpool"], verb].concat());
        let pools = shown["pools"].as_object().expect("an object");
        let mut keys: Vec<&str> = pools.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut expected = vec![one.as_str(), other, "other"];
        expected.sort_unstable();
        assert_eq!(keys, expected, "{verb:?}");
        assert_eq!(pools[one]["name"], "p1");
        assert_eq!(pools[one]["pool_guid"], one.as_str());
    }
    // Which row is whose is told to people; who asks for columns, or reads by program, has those.
    let (printed, _) = pools::printed_and_said(at, &["zpool", "list"]);
    let head = printed.lines().next().expect("a head");
    assert!(head.starts_with("NAME") && head.contains("GUID   SIZE"), "{printed}");
    for guid in [one, other] {
        let is_row = |line: &&str| line.split_whitespace().take(2).eq(["p1", guid]);
        assert_eq!(printed.lines().filter(is_row).count(), 1, "{guid}: {printed}");
    }
    let (printed, _) = pools::printed_and_said(at, &["zpool", "list", "-v"]);
    let ends: Vec<usize> = printed.lines().map(|line| line.find("  128M  ").unwrap_or(0)).collect();
    assert!(printed.contains(&**one) && printed.contains(&**other), "{printed}");
    let devices: Vec<usize> = ends.into_iter().filter(|end| *end > 0).collect();
    let size = printed.find("   SIZE").expect("a head") + 1;
    assert_eq!(devices, [size; 3], "{printed}");
    for call in [&["zpool", "list", "other"][..], &["zpool", "list", "-H"]] {
        let (printed, _) = pools::printed_and_said(at, call);
        assert!(!printed.contains(&**one) && !printed.contains("GUID"), "{printed}");
    }
    // What is done to all is done to each.
    pools::done(at, &["zpool", "sync"]);
}

/// What could break: one disk is shown as what lies on the other, and whoever follows never finds its files.
#[test]
fn a_scan_shows_each_of_two_pools_on_its_own_disk() {
    fixtures::takes_long!();
    let (folder, alike) = three_pools();
    let at = folder.path();
    for (guid, dataset) in &alike {
        let disk = if *dataset == "p1/first" { "a" } else { "b" };
        let below = |shown: &str| -> String {
            let (_, rest) = shown.split_once(&format!("{disk}  128 MiB  ")).expect("it is shown");
            rest.lines().take(3).collect::<Vec<_>>().join("\n")
        };
        let shown = pools::done(at, &["scan"]);
        assert!(below(&shown).contains(&format!("zfs list -r {guid}")), "{shown}");
    }
    let found = json(at, &["scan", "-j"]);
    let next = found["pools"].as_array().expect("pools").iter().map(|pool| &pool["next"]);
    let next: Vec<&str> = next.map(|next| next.as_str().expect("a command")).collect();
    for (guid, _) in &alike {
        assert!(
            next.iter().any(|next| next.ends_with(&format!(" zfs list -r {guid}"))),
            "{next:?}"
        );
    }
    // What becomes of one is not told of the other.
    let (gone, _) = &alike[0];
    pools::done(at, &["zpool", "destroy", gone]);
    let shown = pools::done(at, &["scan"]);
    assert_eq!(shown.matches(", destroyed").count(), 1, "{shown}");
    assert!(shown.contains(&format!("zfs list -r {}", alike[1].0)), "{shown}");
}

/// What could break: one of them is read, served or written without a word, and what is on the other is not shown.
#[test]
fn a_volume_of_one_of_two_groups_is_named_by_the_groups_uuid() {
    let folder = pools::disks(&[], 0);
    let at = folder.path();
    let content = |byte: u8| vec![byte; 4 << 20];
    for (disk, byte) in [("a", 1), ("b", 2)] {
        let own = pools::disks(&[disk], 40 << 20);
        pools::done(own.path(), &["lvm", "vgcreate", "vg", disk]);
        pools::done(own.path(), &["lvm", "lvcreate", "vg", "-n", "lv", "-L", "4MiB"]);
        let path = own.path().join(disk);
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a disk");
        file.write_all_at(&content(byte), 1 << 20).expect("written");
        std::fs::copy(&path, at.join(disk)).expect("it is copied");
    }
    let groups = json(at, &["scan", "-j"]);
    let uuid = |n: usize| groups["groups"][n]["uuid"].as_str().expect("text").to_owned();
    let uuids = [uuid(0), uuid(1)];
    let shown = pools::done(at, &["scan"]);
    let refusal = "vg/lv: 2 volume groups on the devices are called vg: name one by its UUID (";
    for change in
        [&["lvm", "lvcreate", "vg", "-n", "x", "-L", "4m"][..], &["lvm", "lvremove", "vg/lv", "-y"]]
    {
        pools::refused(
            at,
            change,
            "vg: 2 volume groups on the devices are called vg: name one by ",
        );
        pools::refused(at, change, &format!("{} on ", uuids[0]));
    }
    pools::refused(at, &["lvm", "dump", "vg/lv", "f"], refusal);
    pools::refused(at, &["serve", "--volume", "vg/lv", "--nbd", "unix:s"], refusal);
    let mut found = Vec::new();
    for uuid in &uuids {
        assert!(shown.contains(&format!("{uuid}/lv  4 MiB")), "{shown}");
        let to = format!("of-{uuid}");
        pools::done(at, &["lvm", "dump", &format!("{uuid}/lv"), &to]);
        found.push(std::fs::read(at.join(to)).expect("it is read"));
    }
    found.sort();
    assert!(found == [content(1), content(2)]);
    let create = ["lvm", "lvcreate", &uuids[1], "-n", "more", "-L", "4m"];
    let (_, said) = pools::printed_and_said(at, &create);
    assert_eq!(said, format!("logical volume {}/more made\n", uuids[1]));
    let groups = json(at, &["scan", "-j"]);
    let groups = groups["groups"].as_array().expect("groups");
    let volumes = groups.iter().map(|group| {
        let volumes = group["logical"].as_array().map_or(0, Vec::len);
        (group["uuid"].as_str().expect("text") == uuids[1], volumes)
    });
    assert!(volumes.clone().all(|(is_it, count)| count == if is_it { 2 } else { 1 }));
    let (_, said) =
        pools::printed_and_said(at, &["lvm", "lvremove", &format!("{}/lv", uuids[1]), "-y"]);
    assert_eq!(said, format!("logical volume {}/lv removed\n", uuids[1]));
}

#[test]
fn one_of_two_pools_that_are_called_alike_is_changed_by_its_guid() {
    fixtures::takes_long!();
    let (folder, alike) = three_pools();
    let at = folder.path();
    let [(one, _), (_, own)] = &alike[..] else { panic!("{alike:?}") };
    std::fs::write(at.join("file"), "text").expect("a file");
    let of = |rest: &str| format!("{one}{rest}");
    for words in [
        &["create", &of("/new")][..],
        &["create", "-V", "1M", &of("/volume")],
        &["load", &of("/volume"), "file"],
        &["set", "atime=off", &of("/new")],
        &["cp", "file", &of("/new:/")],
        &["snapshot", &of("/new@then")],
        &["hold", "kept", &of("/new@then")],
        &["release", "kept", &of("/new@then")],
        &["bookmark", &of("/new@then"), &of("/new#mark")],
        &["clone", &of("/new@then"), &of("/clone")],
        &["promote", &of("/clone")],
        &["rename", &of("/new"), &of("/renamed")],
        &["rollback", &of("/clone@then")],
        &["destroy", &of("/renamed")],
        &["destroy", "-r", &of("/clone")],
    ] {
        pools::done(at, &[&["zfs"], words].concat());
    }
    // What is below goes only where that is asked for.
    for below in ["/top", "/top/below"] {
        pools::done(at, &["zfs", "create", &of(below)]);
    }
    pools::refused(at, &["zfs", "destroy", &of("/top")], "filesystem has children");
    pools::refused(
        at,
        &["zfs", "rename", &of("/top"), &of("/top/below/top")],
        "a descendant of current",
    );
    pools::done(at, &["zfs", "destroy", "-r", &of("/top")]);
    let names = pools::done(at, &["zfs", "list", "-H", "-o", "name", "-r", one]);
    assert!(names.starts_with("p1\n") && names.ends_with("p1/volume\n"), "{names}");
    let others = pools::done(at, &["zfs", "list", "-H", "-o", "name", "-r", &alike[1].0]);
    assert_eq!(others, format!("p1\n{own}\n"));
}
