//! Disks of a box that are divided: members of a set on partitions, by MBR and GPT.
//!
//! What could break: a member that is not found, or named in a way that cannot be typed; a table that is believed beyond the end of an
//! image.

use super::*;

/// A table of four primary partitions, of which the last is extended and has one logical one.
fn mbr(file: &File, data: (u64, u64)) {
    let entry = |kind: u8, first: u32, sectors: u32| {
        let mut entry = [0; 16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
        entry
    };
    let table = |at: u64, entries: &[[u8; 16]]| {
        file.write_all_at(&entries.concat(), at + 446).expect("written");
        file.write_all_at(b"\x55\xaa", at + 510).expect("written");
    };
    let (first, sectors) = ((data.0 / 512) as u32, (data.1 / 512) as u32);
    let extended = first - 2048;
    table(
        0,
        &[
            entry(0x83, 2048, 2048),
            entry(0x82, 4096, 2048),
            [0; 16],
            entry(0x0f, extended, sectors + 2048),
        ],
    );
    table(u64::from(extended) * 512, &[entry(0xfd, 2048, sectors), [0; 16]]);
}

/// Where the data's partition begins on images of disks.
const DATA_AT: u64 = 8 * MIB;

/// Images of disks with members of a set of the real md, for these slots, on a partition behind [`DATA_AT`], for which `table` writes
/// the table: where the partition begins, and how long it is.
fn divided(disks: &Path, slots: &[usize], table: fn(&File, (u64, u64))) -> Option<()> {
    let members = fixtures::disks(&fixtures::folder("md")?, "raid5-4-xfs");
    for n in slots {
        let member = &members[*n];
        let disk = image(&disks.join(format!("disk{n}")), DATA_AT + member.bytes + MIB);
        table(&disk, (DATA_AT, member.bytes));
        for (at, part) in member.parts() {
            disk.write_all_at(part.bytes(), DATA_AT + at).expect("written");
        }
    }
    Some(())
}

/// A GPT of two partitions, 1 and 3, of which the last is for the data.
fn gpt(file: &File, data: (u64, u64)) {
    gpt_of(file, [(1, MIB, MIB), (3, data.0, data.1)]);
}

/// A GPT of these partitions: their numbers, where they begin, and how long they are.
pub fn gpt_of(file: &File, parts: [(usize, u64, u64); 2]) {
    let blocks = file.metadata().expect("its size").len() / 512;
    let mut table = [0; 128 * 128];
    for (number, start, len) in parts {
        let entry = &mut table[(number - 1) * 128..number * 128];
        // The kind, and who it is: anything but zeros.
        entry[..32].fill(number as u8);
        entry[32..40].copy_from_slice(&(start / 512).to_le_bytes());
        entry[40..48].copy_from_slice(&((start + len) / 512 - 1).to_le_bytes());
    }
    let header = |own: u64, other: u64, table_at: u64| {
        let mut header = [0; 512];
        header[..8].copy_from_slice(b"EFI PART");
        header[8..12].copy_from_slice(&0x1_0000_u32.to_le_bytes());
        header[12..16].copy_from_slice(&92_u32.to_le_bytes());
        for (at, value) in [(24, own), (32, other), (40, 34), (48, blocks - 34), (72, table_at)] {
            header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        header[56..72].fill(7);
        header[80..84].copy_from_slice(&128_u32.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        header[88..92].copy_from_slice(&crc32(&table).to_le_bytes());
        let sum = crc32(&header[..92]);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        header
    };
    let last = blocks - 1;
    for (at, bytes) in [
        (1, &header(1, last, 2)[..]),
        (2, &table),
        (last - 32, &table),
        (last, &header(last, 1, last - 32)),
    ] {
        file.write_all_at(bytes, at * 512).expect("written");
    }
}

/// The checksum of a GPT.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1));
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// What could break: who says what each member says of itself passes over those on partitions, which are all that most boxes have.
#[test]
fn members_on_partitions_are_examined() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let Some(()) = divided(&disks, &[0, 2, 3], mbr) else { return };
    let Some(()) = copies_of_set(&dir.path().join("disks"), &[2]) else { return };
    fs::rename(disks.join("d2"), dir.path().join("d2")).expect("away");
    let before = images(&disks);
    let alone = done(dir.path(), &["md", "examine", "d2"]);
    let own = done(dir.path(), &["md", "examine", "disks/disk2:5"]);
    assert_eq!(own.replace("disks/disk2:5:", "d2:"), alone);
    assert_eq!(done(dir.path(), &["md", "examine", "disks/disk2"]), own, "of the disk");
    let all = done(dir.path(), &["-d", "disks", "md", "examine"]);
    assert_eq!(all.matches("Device Role : ").count(), 3, "{all}");
    for n in [0, 2, 3] {
        assert!(all.contains(&format!("disks/disk{n}:5:\n")), "{all}");
    }
    let json = done(dir.path(), &["-d", "disks", "md", "examine", "-j"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(3));
    let brief = done(dir.path(), &["md", "examine", "--scan", "disks/disk2:5"]);
    assert!(brief.starts_with("ARRAY "), "{brief}");
    let listed = "disks/disk0:6: there is no such partition (disks/disk0 has 1, 2, 5)";
    refused(dir.path(), &["md", "examine", "disks/disk0:6"], listed);
    refused(dir.path(), &["md", "examine", "disks/disk0:1"], "disks/disk0:1: no md superblock");
    assert!(images(&disks) == before);
    // The image of a partition beside that of its disk is not a second device of the set.
    fs::rename(dir.path().join("d2"), disks.join("d2")).expect("back");
    let output = run(dir.path(), &["-d", "disks", "md", "examine"]);
    assert_eq!(said(&output), "");
}

/// What could break: the way to write superblocks anew ends at the boxes that most people have; a byte beside the partition is
/// written, or one that somebody reads or that holds something.
#[test]
fn superblocks_on_partitions_are_written_anew() {
    fixtures::takes_long!();
    let dir = folder();
    let disks = dir.path().join("disks");
    let Some(()) = divided(&disks, &[0, 1, 2, 3], mbr) else { return };
    let whole = dumped(dir.path(), "raid5-4-xfs");
    let told = done(dir.path(), &["md", "examine", "disks/disk0:5"]);
    let field = |name: &str| {
        let line = told.lines().find(|line| line.trim_start().starts_with(name));
        let value = line.and_then(|line| line.split(" : ").nth(1))?;
        value.split(' ').next().map(str::to_owned)
    };
    for n in [1, 2] {
        let disk = File::options().write(true).open(disks.join(format!("disk{n}")));
        disk.expect("opened").write_all_at(&[0; 64 << 10], DATA_AT).expect("overwritten");
    }
    let kib = |text: String| (text.parse::<u64>().expect("sectors") / 2).to_string();
    let offset = kib(field("Data Offset").expect("an offset"));
    let size = field("Used Dev Size").map_or("max".to_owned(), kib);
    let chunk = field("Chunk Size").expect("a chunk").replace('K', "");
    let make = |members: [&str; 4], force: &[&str]| -> Vec<String> {
        let shape = ["md", "create", "new", "-l5", "-n4", "-c", &chunk, "--data-offset", &offset];
        let words = [&shape[..], &["-z", &size, "--assume-clean"], force, &members].concat();
        words.into_iter().map(str::to_owned).collect()
    };
    let members = ["disks/disk0:5", "disks/disk1:5", "disks/disk2:5", "disks/disk3:5"];
    let before = images(&disks);
    let with = |last| [members[0], members[1], members[2], last];
    for (members, force, saying) in [
        (members, &[][..], "disks/disk0:5: it holds an md RAID member"),
        (with("disks/disk3:9"), &["--force"], "disks/disk3:9: there is no such partition"),
        (with("disks/disk0:5"), &["--force"], "'disks/disk0:5' is given twice"),
        (with("disks/disk0"), &["--force"], "'disks/disk0:5' and 'disks/disk0' share storage"),
    ] {
        let words = make(members, force);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        refused(dir.path(), &words, saying);
    }
    let words = make(members, &["--force"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let address = format!("unix:{}/s", dir.path().display());
    let call = ["serve", "disks/disk2", "--readonly", "--nbd", &address];
    let serving = Serving::start(&mut program(dir.path(), &call));
    refused(dir.path(), &words, "opening disks/disk2 for writing: another process");
    serving.stop();
    assert!(images(&disks) == before, "what is refused writes nothing");
    let beside = |n: usize| {
        let bytes = fs::read(disks.join(format!("disk{n}"))).expect("read");
        let end = bytes.len() - MIB as usize;
        (bytes[..DATA_AT as usize].to_vec(), bytes[end..].to_vec())
    };
    let others: Vec<_> = (0..4).map(beside).collect();
    done(dir.path(), &words);
    assert!((0..4).map(beside).collect::<Vec<_>>() == others, "beside the partitions");
    assert!(dumped(dir.path(), "new") == whole, "not a byte of the set is another");
}

/// What could break: the copy of a disk that broke off is told to have a bad table, and whoever believes it writes another.
#[test]
fn of_an_image_that_is_shorter_than_its_table_says_the_table_counts() {
    fixtures::takes_long!();
    for (table, form, number) in [(gpt as fn(&File, (u64, u64)), "GPT", 3), (mbr, "MBR", 5)] {
        let dir = folder();
        let disks = dir.path().join("disks");
        let Some(()) = divided(&disks, &[0, 1, 3], table) else { return };
        let whole = dumped(dir.path(), "raid5-4-xfs");
        let file = File::options().write(true).open(disks.join("disk3")).expect("opened");
        let len = file.metadata().expect("its size").len();
        let cut = len - 5 * MIB;
        file.set_len(cut).expect("cut");
        let output = run(dir.path(), &["disks"]);
        let (text, said) = (String::from_utf8(output.stdout.clone()).expect("text"), said(&output));
        assert!(!said.contains("partitioning program"), "{said}");
        let needed = if form == "GPT" { len } else { len - MIB };
        // The extended partition ends too late, and what is in it.
        let reach = match form {
            "GPT" => "its partition 3 reaches",
            _ => "its partitions 4, 5 reach",
        };
        for part in [
            format!("disks/disk3: {reach} beyond the end: its {form} goes up to"),
            format!("goes up to {needed} bytes, and it has {cut}: cut short?"),
            format!("truncate -s {needed} COPY"),
        ] {
            assert!(said.contains(&part), "{part}: {said}");
        }
        assert!(text.contains("disks/disk3:1  1 MiB"), "{text}");
        // Of the one that is cut is read what is there: its superblock says whose it is, and that it is too short for that.
        let called = format!("disks/disk3:{number}  ");
        let mut lines = text.lines().filter(|line| line.trim_start().starts_with(&called));
        let line = lines.find(|line| line.contains("member of"));
        let line = line.unwrap_or_else(|| panic!("it is listed: {text}"));
        assert!(
            line.contains("member of RAID set raid5-4-xfs, cut short: its table has it "),
            "{line}"
        );
        assert!(
            text.contains("a copy of its disk that is as long again (scan says how long"),
            "{text}"
        );
        // As the note says.
        file.set_len(needed).expect("made longer");
        let again = dumped(dir.path(), "raid5-4-xfs");
        assert_eq!(again.bytes, whole.bytes);
        assert!(first_half(&again) == first_half(&whole), "before the cut all is there");
    }
}

/// What could break: whoever writes to a disk of a box is not told that its partitions are of sets.
#[test]
fn a_disk_with_members_in_it_is_served_for_writing_with_a_note() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let Some(()) = divided(&disks, &[0], gpt) else { return };
    image(&dir.path().join("plain"), 16 * MIB);
    let address = format!("unix:{}/s", dir.path().display());
    let served = |call: &[&str]| {
        let errors = dir.path().join("said");
        let file = File::create(&errors).expect("made");
        let call = [&["serve"], call, &["--nbd", &address]].concat();
        Serving::start(program(dir.path(), &call).stderr(file)).stop();
        fs::read_to_string(&errors).expect("text")
    };
    let said = served(&["disks/disk0"]);
    let note = "disks/disk0: its partition 3 is an md RAID member: what is written there alone";
    assert!(said.contains(note), "{said}");
    assert_eq!(served(&["disks/disk0", "--readonly"]), "");
    assert_eq!(served(&["plain"]), "");
}

/// What could break: the one disk whose table is gone is not known to be of the box.
#[test]
fn a_disk_without_a_table_among_others_that_have_one_is_told_by_its_size() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let Some(()) = divided(&disks, &[0, 2, 3], mbr) else { return };
    let hint = "as large as disks/disk0, which has a partition table (MBR)";
    assert!(!done(dir.path(), &["disks"]).contains(hint));
    let file = File::options().write(true).open(disks.join("disk3")).expect("opened");
    file.write_all_at(&[0; 512], 0).expect("overwritten");
    image(&disks.join("other"), 24 * MIB);
    let text = done(dir.path(), &["disks"]);
    assert_eq!(text.matches("which has a partition table").count(), 1, "{text}");
    let line = text.lines().skip_while(|line| !line.contains("disks/disk3  ")).nth(1);
    assert!(line.is_some_and(|line| line.contains(hint)), "{text}");
    // What the page says: the other's table onto a copy.
    let other = fs::read(disks.join("disk0")).expect("read");
    file.write_all_at(&other[..512], 0).expect("written");
    assert!(done(dir.path(), &["disks"]).contains("slot 3  disks/disk3:5"));
}

/// Disks of a network storage box are partitioned, and the data lies on the last partition of each.
#[test]
fn a_set_on_partitions_of_disk_images_is_found_and_read() {
    fixtures::takes_long!();
    let Some(md) = fixtures::folder("md") else { return };
    let dir = folder();
    let disks = dir.path().join("disks");
    let manifest = fixtures::manifest(&md, "raid5-4-xfs");
    let Some(()) = divided(&disks, &[0, 2, 3], mbr) else { return };
    let before = images(&disks);
    let text = done(dir.path(), &["disks"]);
    assert!(
        text.contains("RAID set raid5-4-xfs: raid5, ") && text.contains("slot 0  disks/disk0:5"),
        "{text}"
    );
    assert!(text.contains("disks/disk0  ") && text.contains("MBR partition table"), "{text}");
    let detail = done(dir.path(), &["-d", "disks", "md", "detail", "raid5-4-xfs"]);
    assert!(detail.contains("disks/disk3:5") && detail.contains("degraded"), "{detail}");
    done(dir.path(), &["-d", "disks", "md", "dump", "raid5-4-xfs", "out"]);
    let hash: String =
        hash_of(&dir.path().join("out")).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(Some(hash.as_str()), manifest["array"]["sha256"].as_str());
    // It is not written by way of a dump onto one of its own disks.
    refused(
        dir.path(),
        &["-d", "disks", "md", "dump", "raid5-4-xfs", "disks/disk0", "--overwrite"],
        "is a device of the set",
    );
    let socket = dir.path().join("s");
    let address = format!("unix:{}", socket.display());
    let serving = Serving::start(&mut program(
        dir.path(),
        &["-d", "disks", "serve", "--volume", "raid5-4-xfs", "--readonly", "--nbd", &address],
    ));
    serving.stop();
    assert!(images(&disks) == before);
}

/// Three images of disks, each with a partition of a mirror `small` or of nothing, and one of a RAID 5 `data`, and something else
/// between them and at the end.
fn two_sets(dir: &Path) {
    for name in ["a", "b", "c"] {
        let disk = image(&dir.join("disks").join(name), DATA_AT + 26 * MIB);
        gpt_of(&disk, [(1, MIB, 6 * MIB), (3, DATA_AT, 24 * MIB)]);
        for at in [MIB - 4096, DATA_AT - MIB, DATA_AT + 24 * MIB] {
            disk.write_all_at(&[0xab; 4096], at).expect("written");
        }
    }
    done(dir, &["md", "create", "small", "-l1", "-n2", "disks/a:1", "disks/b:1"]);
    let members = ["disks/a:3", "disks/b:3", "disks/c:3"];
    done(dir, &[&["md", "create", "data", "-l5", "-n3"], &members[..]].concat());
}

/// What of an image is no partition of [`two_sets`].
fn beside(disk: &Path) -> Vec<u8> {
    let bytes = fs::read(disk).expect("read");
    let at = |at: u64| at as usize;
    let (first, second) = (at(MIB), at(DATA_AT));
    let ends = (at(7 * MIB), at(DATA_AT + 24 * MIB));
    [&bytes[..first], &bytes[ends.0..second], &bytes[ends.1..]].concat()
}

/// What could break: a set that is made on partitions of images is only read there; a byte beside the partitions is written; a command
/// does not meet the server, or takes one partition for another; a device is taken twice.
#[test]
fn a_set_on_partitions_of_disk_images_is_assembled_served_and_changed() {
    fixtures::takes_long!();
    let folder = folder();
    let dir = folder.path();
    two_sets(dir);
    let disks = ["a", "b", "c"].map(|name| dir.join("disks").join(name));
    let others = disks.clone().map(|disk| beside(&disk));
    let text = done(dir, &["-d", "disks", "md", "assemble", "data"]);
    assert!(text.contains("was assembled with 3 drives"), "{text}");
    assert_eq!(done(dir, &["-d", "disks", "md", "check", "data"]), "mismatch_cnt = 0\n");

    let socket = dir.join("s");
    let address = format!("unix:{}", socket.display());
    let call = ["-d", "disks", "md", "serve", "data", "--nbd", &address];
    let mut serving = Serving::start(&mut program(dir, &call));
    let content: Vec<u8> = (0..3 * MIB).map(|at| (at / 512 * 7 + at) as u8).collect();
    let mut client = serving::connected(&socket, "data").expect("an export");
    serving::write(&mut client, &content);
    // Who else would write to the images is kept off, whichever partition it is.
    refused(dir, &["-d", "disks", "md", "assemble", "small"], "another process");
    let detail = |set: &str| done(dir, &["-d", "disks", "md", "detail", set]);
    assert!(detail("data").contains("active sync   disks/b:3"), "{}", detail("data"));
    let member = |verb: &str, member: &str| {
        done(dir, &["-d", "disks", "md", verb, "data", member]);
    };
    refused(dir, &["-d", "disks", "md", "fail", "data", "disks/b:1"], "disks/b:1");
    member("fail", "disks/b:3");
    assert!(detail("data").contains("faulty   disks/b:3"), "{}", detail("data"));
    member("remove", "disks/b:3");
    serving::write(&mut client, &content[MIB as usize..]);
    let add = ["-d", "disks", "md", "add", "data", "disks/b:3"];
    refused(dir, &add, "none joins a set while it is served");
    let got = serving::read(&mut client, MIB as u32);
    assert!(got == content[MIB as usize..2 * MIB as usize], "it is read without the member");
    drop(client);
    done(dir, &["-d", "disks", "md", "stop", "data"]);
    assert_eq!(serving.child.wait().expect("it ends").code(), Some(0));

    // Nor is it without a server, where it is another's, or there already.
    let force = ["--force"];
    refused(dir, &[&add[..5], &["disks/a:3"]].concat(), "it is a device of the set already");
    let again = [&add[..], &["disks/b:3"], &force].concat();
    refused(dir, &again, "'disks/b:3' is given twice");
    refused(dir, &[&add[..5], &["disks/c:1", "disks/c:9"]].concat(), "no such partition");
    refused(dir, &[&add[..5], &["disks/b:1"]].concat(), "it holds an md RAID member");
    done(dir, &add);
    assert_eq!(done(dir, &["-d", "disks", "md", "check", "data"]), "mismatch_cnt = 0\n");
    assert!(detail("data").contains("active sync   disks/b:3"), "{}", detail("data"));
    let dump = dumped(dir, "data");
    let begin = dump.device().peek(stdx::Offset(0), stdx::ByteCount(3 * MIB)).to_vec();
    let written = [&content[MIB as usize..], &content[2 * MIB as usize..]].concat();
    assert!(begin == written, "what was written is there");
    assert!(disks.map(|disk| beside(&disk)) == others, "beside the partitions");
}

/// What could break: two sets on the same images keep each other off where one process serves both, on one executor or on several.
#[test]
fn sets_on_the_same_disk_images_are_written_by_one_server() {
    let folder = folder();
    let dir = folder.path();
    two_sets(dir);
    let config = "listen = ['unix:s']\ndevices = ['disks']\nexecutors = 2\n\
        [[export]]\nname = 'small'\nvolume = 'small'\n\
        [[export]]\nname = 'data'\nvolume = 'data'\n";
    fs::write(dir.join("spindle.toml"), config).expect("written");
    let content = |seed: u8| vec![seed; MIB as usize];
    let serving = Serving::start(&mut program(dir, &["serve", "--config", "spindle.toml"]));
    for (name, seed) in [("small", 1), ("data", 2)] {
        let mut client = serving::connected(&dir.join("s"), name).expect("an export");
        serving::write(&mut client, &content(seed));
        let text = done(dir, &["-d", "disks", "md", "detail", name]);
        assert!(text.contains("active sync   disks/b:"), "{text}");
    }
    serving.stop();
    for (name, seed) in [("small", 1), ("data", 2)] {
        assert_eq!(done(dir, &["-d", "disks", "md", "check", name]), "mismatch_cnt = 0\n");
        let begin = dumped(dir, name).device().peek(stdx::Offset(0), stdx::ByteCount(MIB)).to_vec();
        assert!(begin == content(seed), "{name}");
    }
}
