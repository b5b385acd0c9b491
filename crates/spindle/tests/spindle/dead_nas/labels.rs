//! A physical volume whose label and text were written over: it is told which device it may be, and made again on that.
//!
//! What could break: nothing joins the device to the group that lacks it; a byte behind the first extent, or of another device, is written;
//! a device that is something else is taken for it.

use super::partitions::gpt_of;
use super::*;

/// What one command of an administrator writes over: the first sectors, but for the very first.
fn write_over(file: &File, at: u64) {
    file.write_all_at(&fixtures::noise(3, 200 * 512), at + 512).expect("written");
}

/// The UUID of the physical volume that is missing.
fn missing(at: &Path) -> String {
    let pvs = done(at, &["-d", "disks", "lvm", "pvs"]);
    let lines: Vec<&str> = pvs.lines().filter(|line| line.contains("[missing]")).collect();
    let [line] = lines[..] else { panic!("one is missing: {pvs}") };
    line.split_whitespace().last().expect("its UUID").to_owned()
}

/// That a scan says what may be the one that is missing, and in one place.
#[track_caller]
fn may_be(at: &Path, device: &str, id: &str) {
    let text = done(at, &["disks"]);
    let hint = format!("{device} as large as the one with UUID {id} was, and without a label: the");
    assert!(text.contains(&hint), "{text}");
    assert_eq!(text.matches("and without a label").count(), 1, "{text}");
}

fn dumped_volume(at: &Path) -> Vec<u8> {
    done(at, &["-d", "disks", "lvm", "dump", "vg0/one", "out", "--overwrite"]);
    fs::read(at.join("out")).expect("read")
}

/// `disks/a` and `disks/b` with a volume over both, and what that holds; and `disks/small`, which holds something.
fn group(at: &Path) -> Vec<u8> {
    let [a, b] = ["disks/a", "disks/b"].map(|name| image(&at.join(name), 8 * MIB));
    done(at, &["lvm", "vgcreate", "vg0", "-s", "1m", "disks/a", "disks/b"]);
    done(at, &["-d", "disks", "lvm", "lvcreate", "vg0", "-n", "one", "-L", "12"]);
    let content = fixtures::noise(1, 12 << 20);
    a.write_all_at(&content[..7 << 20], MIB).expect("written");
    b.write_all_at(&content[7 << 20..], MIB).expect("written");
    let small = image(&at.join("disks/small"), 4 * MIB);
    small.write_all_at(&content[..4096], 0).expect("written");
    content
}

#[test]
fn a_physical_volume_that_was_overwritten_is_made_again_as_the_guide_says() {
    let folder = folder();
    let at = folder.path();
    let content = group(at);
    assert!(dumped_volume(at) == content);
    assert!(!done(at, &["disks"]).contains("without a label"));
    let disk = File::options().write(true).open(at.join("disks/a")).expect("opened");
    write_over(&disk, 0);
    let id = missing(at);
    may_be(at, "disks/a is", &id);
    let before = images(&at.join("disks"));

    // The guide's way: a copy, which lies elsewhere.
    fs::rename(at.join("disks/a"), at.join("a")).expect("away");
    fs::copy(at.join("a"), at.join("copy")).expect("copied");
    let pvcreate = ["-d", "disks", "lvm", "pvcreate", "--uuid", &id, "copy"];
    let tried = run(at, &[&pvcreate[..], &["--dry-run"]].concat());
    let told = said(&tried);
    let again = format!("copy is the physical volume {id} of volume group vg0 again");
    assert!(tried.status.success() && told.contains(&again), "{told}");
    assert!(hash_of(&at.join("copy")) == hash_of(&at.join("a")), "it was a dry run");
    let made = run(at, &pvcreate);
    let told = said(&made);
    assert!(made.status.success() && told.contains(&again), "{told}");
    let [was, is] = ["a", "copy"].map(|name| fs::read(at.join(name)).expect("read"));
    assert!(was[1 << 20..] == is[1 << 20..] && was[..512] == is[..512]);
    // Nothing of the others was written, nor of the original.
    fs::rename(at.join("a"), at.join("disks/a")).expect("back");
    assert!(images(&at.join("disks")) == before);
    fs::rename(at.join("disks/a"), at.join("a")).expect("away");
    fs::rename(at.join("copy"), at.join("disks/copy")).expect("there");
    assert!(dumped_volume(at) == content);
    let text = done(at, &["disks"]);
    assert!(text.contains(" free, whole"), "{text}");
    assert!(text.contains("on disks/copy\n") && !text.contains("missing"), "{text}");
    let elsewhere = ["-d", "disks", "lvm", "pvcreate", "--uuid", &id, "a"];
    refused(at, &elsewhere, &format!("its physical volume {id} is there: disks/copy"));
    // Later changes are written to it as to the others.
    done(at, &["-d", "disks", "lvm", "lvcreate", "vg0", "-n", "more", "-L", "1"]);
    fs::rename(at.join("disks/b"), at.join("b")).expect("away");
    assert!(done(at, &["-d", "disks", "lvm", "lvs"]).contains("more"));
}

#[test]
fn what_can_not_be_the_physical_volume_is_refused_and_not_written() {
    let folder = folder();
    let at = folder.path();
    let content = group(at);
    let disk = File::options().write(true).open(at.join("disks/a")).expect("opened");
    write_over(&disk, 0);
    let id = missing(at);
    let pvs = done(at, &["-d", "disks", "lvm", "pvs"]);
    let line = pvs.lines().find(|line| line.contains("disks/b ")).expect("it is listed");
    let of_b = line.split_whitespace().last().expect("its UUID");
    let xfs = image(&at.join("disks/xfs"), 8 * MIB);
    xfs.write_all_at(b"XFSB", 0).expect("written");
    let before = images(&at.join("disks"));
    let pvcreate = |rest: &[&str], saying: &str| {
        refused(at, &[&["-d", "disks", "lvm", "pvcreate"], rest].concat(), saying);
        assert!(images(&at.join("disks")) == before, "{rest:?}");
    };
    pvcreate(&["disks/a"], "new ones are made with their group: lvm vgcreate");
    pvcreate(&["--uuid", "a", "disks/a"], "'a' is no UUID of a physical volume");
    let unknown = "0123456789abcdefghijklmnopqrstuv";
    pvcreate(
        &["--uuid", unknown, "disks/a"],
        &format!(
            "lacks the physical volume 012345-6789-abcd-efgh-ijkl-mnop-qrstuv; missing are vg0: {id}"
        ),
    );
    pvcreate(
        &["--uuid", of_b, "disks/a"],
        &format!("its physical volume {of_b} is there: disks/b"),
    );
    pvcreate(
        &["--uuid", &id, "disks/b", "--force"],
        &format!("disks/b is another physical volume of volume group vg0: {of_b}"),
    );
    pvcreate(&["--uuid", &id, "vg0/one"], "vg0/one is a logical volume: physical volumes lie on");
    pvcreate(&["--uuid", &id, "disks/none"], "disks/none");
    pvcreate(
        &["--uuid", &id, "disks/small"],
        "disks/small has 4194304 bytes, and the extents of the physical volume",
    );
    pvcreate(
        &["--uuid", &id, "disks/xfs"],
        "disks/xfs holds something that is known (an XFS file system), and its first 1 MiB would be written over; add --force",
    );
    refused(
        at,
        &["lvm", "pvcreate", "--uuid", &id, "disks/a"],
        "none lacks any, and a group of which no other device is here is not known",
    );
    assert!(images(&at.join("disks")) == before);
    done(at, &["-d", "disks", "lvm", "pvcreate", "--uuid", &id, "disks/xfs", "--force"]);
    let zeros = dumped_volume(at);
    assert!(
        zeros[..7 << 20].iter().all(|byte| *byte == 0) && zeros[7 << 20..] == content[7 << 20..]
    );
}

/// A physical volume of no group that is known is one of another all the same.
#[test]
fn a_physical_volume_of_another_group_is_not_taken() {
    let folder = folder();
    let at = folder.path();
    group(at);
    image(&at.join("disks/other"), 8 * MIB);
    done(at, &["lvm", "vgcreate", "other", "-s", "1m", "disks/other"]);
    let disk = File::options().write(true).open(at.join("disks/a")).expect("opened");
    write_over(&disk, 0);
    let id = missing(at);
    let pvcreate = ["-d", "disks", "lvm", "pvcreate", "--uuid", &id, "disks/other"];
    refused(at, &pvcreate, "(physical volume of volume group other)");
    // Its text is gone, and its label is not.
    let disk = File::options().write(true).open(at.join("disks/other")).expect("opened");
    disk.write_all_at(&[0; 8192], 4096).expect("written");
    let before = images(&at.join("disks"));
    refused(at, &pvcreate, "(an LVM physical volume)");
    assert!(images(&at.join("disks")) == before);
}

#[test]
fn a_physical_volume_on_a_partition_or_a_set_is_made_again_there() {
    let folder = folder();
    let at = folder.path();
    for name in ["a", "b"] {
        let disk = image(&at.join("disks").join(name), 12 * MIB);
        gpt_of(&disk, [(1, MIB, MIB), (3, 3 * MIB, 8 * MIB)]);
    }
    // Superblocks at the end, so that what lies at the start of the set does so on its members.
    for name in ["m", "n", "o", "p"] {
        image(&at.join("disks").join(name), 10 * MIB);
    }
    for [set, one, other] in [["left", "m", "n"], ["right", "o", "p"]] {
        let [one, other] = [one, other].map(|name| format!("disks/{name}"));
        let make = ["md", "create", set, "-l", "1", "-n", "2", "-e", "1.0", "--assume-clean"];
        done(at, &[&make[..], &[&one, &other]].concat());
    }
    for (group, places) in
        [("on_parts", ["disks/a:3", "disks/b:3"]), ("on_sets", ["left", "right"])]
    {
        let vgcreate = ["-d", "disks", "lvm", "vgcreate", group, "-s", "1m"];
        done(at, &[&vgcreate[..], &places].concat());
    }
    let whole = done(at, &["disks"]);
    assert_eq!(whole.matches(" free, whole").count(), 2, "{whole}");

    let disk = File::options().write(true).open(at.join("disks/b")).expect("opened");
    let table = |at: &Path| fs::read(at.join("disks/b")).expect("read")[..3 << 20].to_vec();
    let before = table(at);
    write_over(&disk, 3 * MIB);
    let id = missing(at);
    may_be(at, "disks/b:3 is", &id);
    done(at, &["-d", "disks", "lvm", "pvcreate", "--uuid", &id, "disks/b:3"]);
    assert!(table(at) == before, "what lies before the partition was written");
    assert_eq!(done(at, &["disks"]).matches(" free, whole").count(), 2);

    for member in ["m", "n"] {
        let disk = File::options().write(true).open(at.join("disks").join(member));
        write_over(&disk.expect("opened"), 0);
    }
    let id = missing(at);
    may_be(at, "left is", &id);
    let before = images(&at.join("disks"));
    let pvcreate = ["-d", "disks", "lvm", "pvcreate", "--uuid", &id];
    let refusal = "disks/m is a member of RAID set left: name the set";
    refused(at, &[&pvcreate[..], &["disks/m", "--force"]].concat(), refusal);
    assert!(images(&at.join("disks")) == before);
    done(at, &[&pvcreate[..], &["left"]].concat());
    assert_eq!(done(at, &["disks"]).matches(" free, whole").count(), 2);
    let [m, n] = ["m", "n"].map(|name| fs::read(at.join("disks").join(name)).expect("read"));
    assert!(m[..9 << 20] == n[..9 << 20], "both members have it");
}
