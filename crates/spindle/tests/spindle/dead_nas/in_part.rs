//! What is left of volumes and partitions of which a part is not there: a disk of the group is missing, an image ends too soon.
//!
//! What could break: what is there can't be had for what isn't; zeros that nobody is told of, or that stand for bytes that are there; a
//! write to what is not whole.

use super::partitions::gpt_of;
use super::*;

const STRIPE: usize = 64 << 10;

/// A group of three disks with a volume that is striped over them, `wide`, and `one`, of which the middle lies on the second; and what
/// both hold.
fn group(at: &Path) -> [Vec<u8>; 2] {
    three_disks(at, 16 * MIB);
    let disks = ["disks/a", "disks/b", "disks/c"];
    done(at, &[&["lvm", "vgcreate", "vg0", "-s", "1m"][..], &disks].concat());
    let create = ["-d", "disks", "lvm", "lvcreate", "vg0", "-n"];
    done(at, &[&create[..], &["wide", "-L", "30", "-i", "3", "-I", "64k"]].concat());
    done(at, &[&create[..], &["one", "-L", "12"]].concat());
    [("vg0/wide", 30), ("vg0/one", 12)].map(|(volume, mib)| {
        let content = fixtures::noise(mib as u64, mib << 20);
        let address = format!("unix:{}/s", at.display());
        let call = ["-d", "disks", "serve", "--volume", volume, "--nbd", &address];
        let serving = Serving::start(program(at, &call).stderr(Stdio::null()));
        let mut client = serving::connected(&at.join("s"), volume).expect("an export");
        serving::write(&mut client, &content);
        drop(client);
        serving.stop();
        content
    })
}

/// Carries out what was said to be typed next, which writes `out` with zeros in it, and gives back `out` and what was said.
#[track_caller]
fn in_part(at: &Path, refusal: &str) -> (Vec<u8>, String) {
    let call = refusal.split("as zeros: spindle ").nth(1).expect("what to do").trim_end();
    let output = run(at, &call.split(' ').collect::<Vec<_>>());
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "zeros are no content: {told}");
    let out = fs::read(at.join("out")).expect("it is there");
    fs::remove_file(at.join("out")).expect("removed");
    (out, told)
}

#[test]
fn of_a_volume_on_a_group_that_lacks_a_disk_all_is_had_that_lies_on_the_others() {
    fixtures::takes_long!();
    let folder = folder();
    let at = folder.path();
    let [mut wide, mut one] = group(at);
    let pvs = done(at, &["-d", "disks", "lvm", "pvs"]);
    let line = pvs.lines().find(|line| line.contains("disks/b")).expect("it is listed");
    let id = line.split_whitespace().last().expect("its UUID").to_owned();
    fs::rename(at.join("disks/b"), at.join("b")).expect("away");
    let before = images(&at.join("disks"));
    for (n, stripe) in wide.chunks_mut(STRIPE).enumerate() {
        if n % 3 == 1 {
            stripe.fill(0);
        }
    }
    one[5 << 20..10 << 20].fill(0);
    let told = [
        (
            "vg0/wide",
            &wide,
            "10485760 bytes that lay on it, within bytes 65536 to 31391744",
            "65536 to 131072, 262144 to 327680, ",
        ),
        (
            "vg0/one",
            &one,
            "5242880 bytes that lay on it, within bytes 5242880 to 10485760",
            "5242880 to 10485760\n",
        ),
    ];
    for (volume, content, lacks, stretches) in told {
        let output = run(at, &["-d", "disks", "lvm", "dump", volume, "out"]);
        let refusal = said(&output);
        let last = refusal.lines().last().expect("a line");
        assert_eq!(output.status.code(), Some(1), "{refusal}");
        assert!(
            last.contains(&format!("{volume}: the physical volume {id} is missing")),
            "{refusal}"
        );
        assert!(!at.join("out").exists());
        let (out, told) = in_part(at, last);
        assert!(out == *content, "{volume}");
        assert!(
            told.contains(&format!("{volume}: the physical volume {id} is missing: {lacks}")),
            "{told}"
        );
        let all = told.lines().find(|line| line.contains("zeros stood for")).expect("what is lost");
        // What lay there was told with why, and stripes are not told one by one.
        assert!(!told.contains("too many members") && !told.contains("zeros stand for"), "{told}");
        assert!(told.lines().count() < 8 && all.len() < 400, "{told}");
        assert!(format!("{all}\n").contains(&format!("can't be read: bytes {stretches}")), "{all}");

        // Served likewise, and only so.
        let address = format!("unix:{}/s", at.display());
        let serve = ["-d", "disks", "serve", "--volume", volume, "--nbd", &address];
        for more in [&[][..], &["--readonly"]] {
            let refusal = format!(
                "as zeros: spindle -d disks serve --volume {volume} --readonly --skip-damaged"
            );
            refused(at, &[&serve, more].concat(), &refusal);
        }
        let text = done(at, &["disks"]);
        let scanned = text
            .lines()
            .find(|line| line.contains(&format!("  {volume}  ")))
            .expect("it is listed");
        assert!(scanned.contains(" MiB of data of group vg0: the physical volume "), "{scanned}");
        let mut call = next(&text, volume);
        call.extend(["--nbd".to_owned(), address.clone()]);
        let call: Vec<&str> = call.iter().map(String::as_str).collect();
        let heard = File::create(at.join("said")).expect("a file");
        let serving = Serving::start(program(at, &call).stderr(heard));
        let mut client = serving::connected(&at.join("s"), volume).expect("an export");
        assert!(serving::read(&mut client, content.len() as u32) == *content, "{volume}");
        drop(client);
        serving.stop();
        let heard = fs::read_to_string(at.join("said")).expect("text");
        assert!(
            heard.contains(lacks)
                && heard.contains(&format!("bytes {stretches}").replace('\n', "")),
            "{heard}"
        );
    }
    assert!(images(&at.join("disks")) == before);
    refused(
        at,
        &["-d", "disks", "mount", "vg0/one", "/nowhere"],
        "serve --volume vg0/one --readonly --skip-damaged lends it",
    );
}

#[test]
fn of_a_volume_on_a_group_with_a_disk_that_was_cut_all_before_its_end_is_had() {
    let folder = folder();
    let at = folder.path();
    let [wide, mut one] = group(at);
    let disk = File::options().write(true).open(at.join("disks/b")).expect("opened");
    // Of its first MiB, the ten of `wide` and the five of `one`: two and a half of these are lost.
    disk.set_len(13 * MIB + MIB / 2).expect("cut");
    let before = images(&at.join("disks"));
    done(at, &["-d", "disks", "lvm", "dump", "vg0/wide", "out"]);
    assert!(fs::read(at.join("out")).expect("read") == wide, "it lies before the end");
    fs::remove_file(at.join("out")).expect("removed");
    let refusal = said(&run(at, &["-d", "disks", "lvm", "dump", "vg0/one", "out"]));
    one[(7 << 20) + (1 << 19)..10 << 20].fill(0);
    let (out, told) = in_part(at, refusal.lines().last().expect("a line"));
    assert!(out == one);
    let lacks = "vg0/one: disks/b ends too soon: 2621440 bytes that lay behind its end, within bytes 7864320 to 10485760, ";
    assert!(told.contains(lacks), "{told}");
    let text = done(at, &["disks"]);
    assert!(
        text.contains(", it lacks 2560 KiB of data of group vg0: disks/b ends too soon"),
        "{text}"
    );
    // Nobody gives out extents that are not there.
    let create = ["-d", "disks", "lvm", "lvcreate", "vg0", "-n", "more", "-L", "1m"];
    refused(at, &create, "disks/b ends before its extents do: nothing is changed");
    assert!(images(&at.join("disks")) == before);
}

#[test]
fn of_a_partition_that_its_image_cuts_off_all_before_the_end_is_had_and_nothing_is_written() {
    let folder = folder();
    let at = folder.path();
    let disk = image(&at.join("disks/a"), 32 * MIB);
    gpt_of(&disk, [(1, MIB, MIB), (3, 4 * MIB, 20 * MIB)]);
    let mut content = fixtures::noise(7, 20 << 20);
    disk.write_all_at(&content, 4 * MIB).expect("written");
    disk.set_len(16 * MIB).expect("cut");
    content[12 << 20..].fill(0);
    let before = images(&at.join("disks"));
    let text = done(at, &["disks"]);
    assert!(text.contains("  disks/a:3  12 MiB  data of no form that is known here, cut short: its table has it 20 MiB long\n"), "{text}");
    let json: Value = serde_json::from_str(&done(at, &["disks", "-j"])).expect("JSON");
    assert_eq!(
        json["devices"][0]["partitions"][1]["lacks"],
        "cut short: its table has it 20 MiB long"
    );

    done(at, &["-d", "disks", "lvm", "dump", "disks/a:3", "out"]);
    assert!(fs::read(at.join("out")).expect("read") == content[..12 << 20]);
    let output = run(
        at,
        &["-d", "disks", "lvm", "dump", "disks/a:3", "out", "--overwrite", "--skip-damaged"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains(
            "zeros stood for 8388608 bytes that can't be read: bytes 12582912 to 20971520\n"
        ),
        "{}",
        said(&output)
    );
    assert!(fs::read(at.join("out")).expect("read") == content);
    let mut call = next(&text, "serve");
    assert!(call.ends_with(&["--readonly", "--skip-damaged"].map(str::to_owned)), "{call:?}");
    call.extend(["--nbd".to_owned(), format!("unix:{}/s", at.display())]);
    let call: Vec<&str> = call.iter().map(String::as_str).collect();
    let serving = Serving::start(program(at, &call).stderr(Stdio::null()));
    let mut client = serving::connected(&at.join("s"), "disks/a:3").expect("an export");
    assert!(serving::read(&mut client, 20 << 20) == content);
    drop(client);
    serving.stop();

    for call in [
        &["-d", "disks", "serve", "--volume", "disks/a:3", "--nbd", "unix:s"][..],
        &["-d", "disks", "lvm", "vgcreate", "vg", "disks/a:3"],
        &["-d", "disks", "zpool", "create", "-f", "tank", "disks/a:3"],
    ] {
        refused(at, call, "can't be written: disks/a, which it lies on, ends before it does");
    }
    refused(
        at,
        &["md", "create", "r", "-l1", "-n2", "--force", "disks/a:3", "missing"],
        "its disk ends before it does",
    );
    assert!(images(&at.join("disks")) == before);
}

/// What could break: the one device of a pool is not found, since the image of its disk broke off.
#[test]
fn a_pool_on_a_partition_that_its_image_cuts_off_is_read_as_far_as_it_goes() {
    let folder = folder();
    let at = folder.path();
    let disk = image(&at.join("disks/a"), 132 * MIB);
    gpt_of(&disk, [(1, MIB, MIB), (3, 4 * MIB, 126 * MIB)]);
    done(at, &["-d", "disks", "zpool", "create", "tank", "disks/a:3"]);
    fs::write(at.join("note"), "the first bytes of a pool are written first").expect("written");
    done(at, &["-d", "disks", "zfs", "cp", "note", "tank:"]);
    disk.set_len(100 * MIB).expect("cut");
    let before = images(&at.join("disks"));
    let text = done(at, &["disks"]);
    assert!(text.contains("  disks/a:3  96 MiB  device of ZFS pool tank, cut short: its table has it 126 MiB long\n"), "{text}");
    let list = next(&text, "zfs list");
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    assert!(done(at, &list).contains("tank"));
    let cat = done(at, &["-d", "disks", "zfs", "cat", "tank:note"]);
    assert_eq!(cat, "the first bytes of a pool are written first");
    let output = run(at, &["-d", "disks", "zfs", "create", "tank/x"]);
    let told = said(&output);
    let refusal = "can't be written: disks/a, which it lies on, ends before it does";
    assert!(!output.status.success() && told.contains(refusal), "{told}");
    // It is looked at for reading first, and told of once.
    assert_eq!(told.matches("beyond the end: its GPT goes up to").count(), 1, "{told}");
    assert!(images(&at.join("disks")) == before);
}
