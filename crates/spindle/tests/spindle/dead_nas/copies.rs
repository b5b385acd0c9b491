//! Copies beside what they are copies of: of a disk of a group, of a set whose members were used apart, a member that lost its superblock.
//!
//! What could break: one of two is taken without a word, the old one, and written; what lies on a set is taken from a disk that was a
//! member once; a disk that is not told of at all; an honest set that is refused.

use super::*;
use std::thread::sleep;
use std::time::Duration;

/// Writes to the begin of a volume.
#[track_caller]
fn put(at: &Path, volume: &[&str], content: &[u8]) {
    put_on(at, "disks", volume, content);
}

#[track_caller]
fn put_on(at: &Path, devices: &str, volume: &[&str], content: &[u8]) {
    let address = format!("unix:{}/s", at.display());
    let name = *volume.last().expect("a volume");
    let call = [&["-d", devices], volume, &["--nbd", &address]].concat();
    let serving = Serving::start(program(at, &call).stderr(Stdio::null()));
    let mut client = serving::connected(&at.join("s"), name).expect("an export");
    serving::write(&mut client, content);
    drop(client);
    serving.stop();
}

/// What it said where it is not served.
#[track_caller]
fn not_served(at: &Path, call: &[&str]) -> String {
    let address = format!("unix:{}/s", at.display());
    let call = [&["-d", "disks"], call, &["--nbd", &address]].concat();
    let started = Serving::try_start(program(at, &call).stderr(Stdio::piped()));
    started.err().expect("it is not served")
}

fn lines_of(text: &str, what: &str) -> usize {
    text.lines().filter(|line| line.contains(what)).count()
}

#[test]
fn of_two_devices_that_bear_one_physical_volume_none_is_taken() {
    let folder = folder();
    let at = folder.path();
    for name in ["p", "q"] {
        image(&at.join("disks").join(name), 16 * MIB);
    }
    done(at, &["lvm", "vgcreate", "vg0", "-s", "1m", "disks/p", "disks/q"]);
    // Its text is older than what comes.
    fs::copy(at.join("disks/q"), at.join("disks/0q")).expect("copied");
    let q = ["-d", "disks/p", "-d", "disks/q"];
    done(at, &[&q[..], &["lvm", "lvcreate", "vg0", "-n", "v", "-L", "24"]].concat());
    let content = fixtures::noise(3, 24 << 20);
    {
        fs::rename(at.join("disks/0q"), at.join("0q")).expect("away");
        put(at, &["serve", "--volume", "vg0/v"], &content);
        fs::rename(at.join("0q"), at.join("disks/0q")).expect("back");
    }
    let before = images(&at.join("disks"));
    let why = "disks/q and disks/0q both bear one physical volume";
    for list in ["pvs", "vgs", "lvs"] {
        let output = run(at, &["-d", "disks", "lvm", list]);
        assert!(said(&output).contains(why), "{list}: {}", said(&output));
    }
    let pvs = done(at, &["-d", "disks", "lvm", "pvs"]);
    for name in ["disks/p ", "disks/q ", "disks/0q "] {
        assert_eq!(lines_of(&pvs, name), 1, "{pvs}");
    }
    let dump = ["-d", "disks", "lvm", "dump", "vg0/v", "out"];
    refused(at, &dump, why);
    refused(at, &[&dump[..], &["--skip-damaged"]].concat(), why);
    assert!(!at.join("out").exists());
    refused(at, &["-d", "disks", "lvm", "lvcreate", "vg0", "-n", "w", "-L", "1"], why);
    refused(at, &["-d", "disks", "lvm", "lvremove", "vg0/v", "-y"], why);
    for more in [&[][..], &["--readonly"]] {
        let said = not_served(at, &[&["serve", "--volume", "vg0/v"], more].concat());
        assert!(said.contains(why), "{said}");
    }
    assert!(images(&at.join("disks")) == before, "nothing was written");

    let scan = done(at, &["scan", "disks"]);
    assert!(scan.contains("MiB free, not to be opened\n"), "{scan}");
    assert_eq!(
        lines_of(&scan, "  on disks/q or disks/0q: both bear this physical volume"),
        1,
        "{scan}"
    );
    let found: Value = serde_json::from_str(&done(at, &["scan", "disks", "--json"])).expect("JSON");
    let group = &found["groups"][0];
    assert_eq!(group["alike"][0]["devices"], serde_json::json!(["disks/q", "disks/0q"]));
    // The one with the newer text is named first.
    let call = next(&scan, "scan");
    let command = format!("spindle {}", call.join(" "));
    assert_eq!(group["next"], command);
    let with_one = done(at, &call.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        with_one.contains("vg0/v  24 MiB") && !with_one.contains("not to be opened"),
        "{with_one}"
    );
    done(at, &[&q[..], &["lvm", "dump", "vg0/v", "out"]].concat());
    assert!(fs::read(at.join("out")).expect("dumped") == content);
}

/// A mirror with its superblocks at the end, `disks/a` and `disks/b`, of which the first failed before `late` was written where `place` is,
/// and lost its superblock.
fn with_an_old_member(at: &Path, make: impl Fn(&Path), place: &[&str], late: &[u8]) {
    for name in ["a", "b"] {
        image(&at.join("disks").join(name), 80 * MIB);
    }
    done(at, &["md", "create", "om", "-l1", "-n2", "-e", "1.0", "disks/a", "disks/b"]);
    done(at, &["-d", "disks", "md", "assemble", "om"]);
    make(at);
    done(at, &["-d", "disks", "md", "fail", "om", "disks/a"]);
    if !late.is_empty() {
        put(at, place, late);
    }
    let disk = File::options().write(true).open(at.join("disks/a")).expect("a disk");
    disk.write_all_at(&fixtures::noise(1, 1 << 20), 79 * MIB).expect("written");
}

#[test]
fn what_a_set_holds_is_not_taken_from_a_disk_that_was_its_member() {
    let folder = folder();
    let at = folder.path();
    let old = fixtures::noise(4, 8 << 20);
    let late = fixtures::noise(5, 8 << 20);
    let make = |at: &Path| {
        done(at, &["-d", "disks", "lvm", "vgcreate", "og", "-s", "1m", "om"]);
        done(at, &["-d", "disks", "lvm", "lvcreate", "og", "-n", "v", "-L", "8"]);
        put(at, &["serve", "--volume", "og/v"], &old);
    };
    let place = ["serve", "--run", "--volume", "og/v"];
    with_an_old_member(at, make, &place, &late);
    let output = run(at, &["-d", "disks", "lvm", "dump", "og/v", "out"]);
    let note =
        "disks/a holds the same physical volume as om does, and has no superblock of that RAID set";
    assert!(output.status.success() && said(&output).contains(note), "{}", said(&output));
    assert!(fs::read(at.join("out")).expect("dumped") == late);
    let scan = done(at, &["scan", "disks"]);
    assert!(scan.contains("\n  volume group og: "), "{scan}");
    assert_eq!(
        lines_of(&scan, "disks/a  80 MiB  begins as om does, without a superblock"),
        1,
        "{scan}"
    );
    let found: Value = serde_json::from_str(&done(at, &["scan", "disks", "--json"])).expect("JSON");
    assert_eq!(found["devices"][0]["holds"], serde_json::json!({ "kind": "of_set", "set": "om" }));

    // Where the disk's text is the newer one nothing tells which counts.
    done(at, &["-d", "disks/a", "lvm", "lvcreate", "og", "-n", "w", "-L", "1"]);
    refused(
        at,
        &["-d", "disks", "lvm", "dump", "og/v", "again"],
        "om both bear one physical volume",
    );
}

#[test]
fn a_disk_that_was_a_member_below_a_pool_is_told() {
    let folder = folder();
    let at = folder.path();
    let make = |at: &Path| {
        done(at, &["-d", "disks", "zpool", "create", "tank", "om"]);
    };
    with_an_old_member(at, make, &[], &[]);
    let output = run(at, &["-d", "disks", "scan"]);
    let scan = String::from_utf8(output.stdout.clone()).expect("text");
    assert_eq!(
        lines_of(&scan, "disks/a  80 MiB  begins as om does, without a superblock"),
        1,
        "{scan}"
    );
    let note = "disks/a holds a device of pool 'tank' as om does";
    assert!(said(&output).contains(note), "{}", said(&output));
    assert!(!said(&output).contains("leave one out"), "{}", said(&output));
}

#[test]
fn members_of_copies_that_were_used_apart_are_told_by_their_times() {
    fixtures::takes_long!();
    let folder = folder();
    let at = folder.path();
    three_disks(at, 24 * MIB);
    let members = ["disks/a", "disks/b", "disks/c"];
    done(at, &[&["md", "create", "data", "-l5", "-n3"][..], &members].concat());
    done(at, &["-d", "disks", "md", "assemble", "data"]);
    let before: Vec<Vec<u8>> =
        members.iter().map(|name| fs::read(at.join(name)).expect("read")).collect();
    let content = [fixtures::noise(6, 4 << 20), fixtures::noise(7, 4 << 20)];
    put(at, &["md", "serve", "data"], &content[0]);
    let other = fs::read(at.join("disks/b")).expect("read");
    for (name, bytes) in members.iter().zip(&before) {
        fs::write(at.join(name), bytes).expect("written");
    }
    // The next second.
    sleep(Duration::from_millis(1100));
    put(at, &["md", "serve", "data"], &content[1]);
    let whole = run(at, &["-d", "disks", "md", "detail", "data"]);
    assert!(!said(&whole).contains("another time"), "{}", said(&whole));
    fs::write(at.join("disks/b"), &other).expect("written");

    let why = "disks/b was written last at another time than disks/a, disks/c";
    let scan = done(at, &["scan", "disks"]);
    assert!(
        scan.contains("3 of 3 members, not all of one history") && scan.contains(why),
        "{scan}"
    );
    assert!(!scan.contains("whole"), "{scan}");
    let found: Value = serde_json::from_str(&done(at, &["scan", "disks", "--json"])).expect("JSON");
    let histories = &found["sets"][0]["histories"];
    assert_eq!(histories["odd"], serde_json::json!(["disks/b"]));
    assert_eq!(found["sets"][0]["whole"], false);
    for verb in [
        &["detail", "data"][..],
        &["dump", "data", "out"],
        &["examine", "disks/a", "disks/b", "disks/c"],
    ] {
        let output = run(at, &[&["-d", "disks", "md"], verb].concat());
        assert!(
            output.status.success() && said(&output).contains(why),
            "{verb:?}: {}",
            said(&output)
        );
    }
    let mixed = images(&at.join("disks"));
    refused(at, &["-d", "disks", "md", "assemble", "data"], why);
    let told = not_served(at, &["md", "serve", "data"]);
    assert!(told.contains(why) && told.contains("--force"), "{told}");
    let told = not_served(at, &["serve", "--volume", "data"]);
    assert!(told.contains(why) && told.contains("spindle md assemble --force"), "{told}");
    assert!(images(&at.join("disks")) == mixed, "nothing was written");
    // What it says to name.
    done(at, &["-d", "disks/a", "-d", "disks/c", "md", "dump", "data", "own"]);
    assert!(fs::read(at.join("own")).expect("dumped").starts_with(&content[1]));
    done(at, &["-d", "disks", "md", "assemble", "data", "--force"]);
    let after = run(at, &["-d", "disks", "md", "detail", "data"]);
    assert!(!said(&after).contains("another time"), "{}", said(&after));
}

#[test]
fn no_set_of_the_real_md_has_members_of_different_times() {
    let Some(md) = fixtures::folder("md") else { return };
    let few = [
        "raid1-2-degraded",
        "raid5-4-recovery",
        "raid5-3-reshape-to-4",
        "raid5-4-v090",
        "raid5-ppl",
    ];
    let all = || {
        let names = fs::read_dir(&md).expect("a folder").map(|one| one.expect("read").file_name());
        let names = names.filter_map(|name| Some(name.to_str()?.strip_suffix(".json")?.to_owned()));
        names.collect::<Vec<_>>()
    };
    let names = match fixtures::extent::is_thorough() {
        true => all(),
        false => few.map(str::to_owned).to_vec(),
    };
    let mut sets = 0;
    for name in &names {
        let set = fixtures::unpack(&md, name);
        let dir = set.path();
        let found: Value =
            serde_json::from_str(&done(dir, &["scan", ".", "--json"])).expect("JSON");
        for set in found["sets"].as_array().expect("sets") {
            assert!(set["histories"].is_null(), "{name}: {set}");
            sets += 1;
        }
    }
    assert!(sets >= names.len(), "{sets} sets of {}", names.len());
}

/// What could break: a disk of a guest is bytes of no form; a partition of it can't be had; what is written to one lands elsewhere.
#[test]
fn the_partitions_of_a_disk_in_a_logical_volume_are_had_as_those_of_a_set() {
    let folder = folder();
    let at = folder.path();
    for name in ["p", "q"] {
        image(&at.join("disks").join(name), 24 * MIB);
    }
    done(at, &["lvm", "vgcreate", "vgx", "-s", "1m", "disks/p", "disks/q"]);
    done(at, &["-d", "disks", "lvm", "lvcreate", "vgx", "-n", "big", "-L", "40"]);
    let guest = image(&at.join("guest"), 40 * MIB);
    partitions::gpt_of(&guest, [(1, MIB, 4 * MIB), (2, 16 * MIB, 20 * MIB)]);
    let inner = fixtures::noise(8, 20 << 20);
    guest.write_all_at(&inner, 16 * MIB).expect("written");
    put(at, &["serve", "--volume", "vgx/big"], &fs::read(at.join("guest")).expect("read"));

    let scan = done(at, &["scan", "disks"]);
    assert!(scan.contains("  vgx/big  40 MiB  GPT partition table\n"), "{scan}");
    assert!(scan.contains("    vgx/big:2  20 MiB  data of no form"), "{scan}");
    let found: Value = serde_json::from_str(&done(at, &["scan", "disks", "--json"])).expect("JSON");
    let volume = &found["groups"][0]["logical"][0];
    assert_eq!(volume["partitions"][1]["name"], "vgx/big:2");
    done(at, &["-d", "disks", "lvm", "dump", "vgx/big:2", "out"]);
    assert!(fs::read(at.join("out")).expect("dumped") == inner);
    refused(at, &["-d", "disks", "lvm", "dump", "vgx/big:3", "no"], "big:3");
    let new = fixtures::noise(9, 1 << 20);
    put(at, &["serve", "--volume", "vgx/big:2"], &new);
    done(at, &["-d", "disks", "lvm", "dump", "vgx/big", "all"]);
    let mut expected = fs::read(at.join("guest")).expect("read");
    expected[16 << 20..17 << 20].copy_from_slice(&new);
    assert!(fs::read(at.join("all")).expect("dumped") == expected);

    // A physical volume of the guest's is none of the host's.
    done(at, &["lvm", "vgcreate", "own", "out", "--force"]);
    put(
        at,
        &["serve", "--volume", "vgx/big:2"],
        &fs::read(at.join("out")).expect("read")[..2 << 20],
    );
    let scan = done(at, &["scan", "disks"]);
    assert!(scan.contains("vgx/big:2  20 MiB  LVM2 physical volume of a guest"), "{scan}");
    assert!(!scan.contains("volume group own"), "{scan}");
}

#[test]
fn a_member_that_is_named_twice_is_one_member() {
    let folder = folder();
    let at = folder.path();
    three_disks(at, 16 * MIB);
    fs::remove_file(at.join("disks/c")).expect("removed");
    done(at, &["md", "create", "om", "-l1", "-n2", "disks/a", "disks/b"]);
    fs::hard_link(at.join("disks/a"), at.join("disks/hard")).expect("linked");
    std::os::unix::fs::symlink("b", at.join("disks/soft")).expect("linked");
    let text = done(at, &["-d", "disks/a", "-d", "disks", "md", "assemble", "om"]);
    assert!(text.contains("was assembled with 2 drives"), "{text}");
    let text = done(at, &["-d", "disks", "md", "detail", "disks/hard"]);
    assert!(text.contains("Active Devices : 2"), "{text}");
    // A copy is another matter.
    fs::copy(at.join("disks/a"), at.join("disks/copy")).expect("copied");
    refused(at, &["-d", "disks", "md", "assemble", "om"], "both say");
}

/// What could break: half of a mirror is left out where it is served by the way that scan says, and nobody hears of it.
#[test]
fn who_serves_a_set_for_reading_hears_which_half_is_left_out() {
    let folder = folder();
    let at = folder.path();
    three_disks(at, 16 * MIB);
    fs::remove_file(at.join("disks/c")).expect("removed");
    done(at, &["md", "create", "om", "-l1", "-n2", "disks/a", "disks/b"]);
    done(at, &["-d", "disks", "md", "assemble", "om"]);
    for name in ["disks/a", "disks/b"] {
        done(at, &["-d", name, "md", "assemble", "om", "--run"]);
    }
    put_on(at, "disks/b", &["md", "serve", "om"], &[7; 4096]);
    let address = format!("unix:{}/s", at.display());
    let heard = File::create(at.join("said")).expect("a file");
    let call = ["-d", "disks", "serve", "--volume", "om", "--readonly", "--nbd", &address];
    Serving::start(program(at, &call).stderr(heard)).stop();
    let heard = fs::read_to_string(at.join("said")).expect("text");
    assert!(heard.contains("left out: disks/a went on without disks/b"), "{heard}");
}

/// A disk of a group that is an older image of itself, and disks of two copies of a group that were both changed.
#[test]
fn texts_of_a_group_that_do_not_agree_are_told_and_nothing_is_changed() {
    for (is_older, told, kept) in [
        (true, "disks/q has an older text than the others (seqno 2, not 4)", "vg0/v"),
        (false, "have texts of one age (seqno 3) that say different things", "not to be opened"),
    ] {
        let folder = folder();
        let at = folder.path();
        for name in ["p", "q"] {
            image(&at.join("disks").join(name), 16 * MIB);
        }
        let make = |volume: &str| {
            done(at, &["-d", "disks", "lvm", "lvcreate", "vg0", "-n", volume, "-L", "4"]);
        };
        done(at, &["lvm", "vgcreate", "vg0", "-s", "1m", "disks/p", "disks/q"]);
        make("v");
        let away = |from: &str, to: &str| {
            fs::copy(at.join(from), at.join(to)).expect("copied");
        };
        away("disks/p", "p");
        away("disks/q", "q");
        if !is_older {
            make("x");
            away("disks/q", "q-of-copy");
            away("p", "disks/p");
            away("q", "disks/q");
            away("q-of-copy", "q");
        }
        make("w");
        if is_older {
            make("another");
        }
        away("q", "disks/q");
        let before = images(&at.join("disks"));
        let scanned = done(at, &["-d", "disks", "scan"]);
        assert!(scanned.contains(kept), "{scanned}");
        let line = if is_older { "its text is older (seqno 2)" } else { "says something else" };
        assert!(scanned.contains(line), "{scanned}");
        let listed = run(at, &["-d", "disks", "lvm", "lvs"]);
        assert!(String::from_utf8_lossy(&listed.stderr).contains(told), "{told}");
        refused(at, &["-d", "disks", "lvm", "lvcreate", "vg0", "-n", "y", "-L", "4"], told);
        let said = not_served(at, &["serve", "--volume", "vg0/v"]);
        assert!(said.contains(told), "{said}");
        let dump = ["-d", "disks", "lvm", "dump", "vg0/v", "out"];
        match is_older {
            true => drop(done(at, &dump)),
            false => refused(at, &dump, told),
        }
        assert!(images(&at.join("disks")) == before, "nothing is written");
    }
}
