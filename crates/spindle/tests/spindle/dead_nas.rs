//! A box of disks, told apart and read from the outside: `spindle scan`, and the way from there to files.
//!
//! What could break: something that lies there and is not told of; a thing that is told to be whole and isn't; a command to
//! type next that does not do it; a byte that is written; a list that is empty because it could not be read.

mod copies;
mod forced;
mod in_part;
mod labels;
mod partitions;

use crate::serving;

use fixtures::{Disk, images};
use serde_json::Value;
use serving::Serving;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MIB: u64 = 1 << 20;

fn program(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(arguments).current_dir(dir);
    command.env_remove("SPINDLE_DEVICES").env("SPINDLE_RUN_DIR", dir.join("run"));
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    program(dir, arguments).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn done(dir: &Path, arguments: &[&str]) -> String {
    let output = run(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn refused(dir: &Path, arguments: &[&str], saying: &str) {
    let output = run(dir, arguments);
    let said = said(&output);
    assert!(!output.status.success() && said.contains(saying), "{arguments:?}: {said}");
}

/// Runs the command that a text says to type next, the one that begins so.
#[track_caller]
fn next(text: &str, begins: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| {
        line.trim().strip_prefix("next: spindle ").filter(|line| line.contains(begins))
    });
    let line = line.unwrap_or_else(|| panic!("no next command {begins}: {text}"));
    line.split("     #")
        .next()
        .unwrap_or(line)
        .split(' ')
        .map(|word| word.trim_matches('\'').to_owned())
        .collect()
}

/// A folder with disks in `disks`, beside which other files can lie.
fn folder() -> tempfile::TempDir {
    let dir = fixtures::scratch::folder();
    fs::create_dir(dir.path().join("disks")).expect("made");
    dir
}

fn image(path: &Path, bytes: u64) -> File {
    let file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(path)
        .expect("made");
    file.set_len(bytes).expect("grown");
    file
}

/// Images `disks/a`, `disks/b` and `disks/c`, each of so many bytes.
fn three_disks(at: &Path, bytes: u64) {
    for name in ["a", "b", "c"] {
        image(&at.join("disks").join(name), bytes);
    }
}

fn hash_of(path: &Path) -> Vec<u8> {
    let (mut file, mut hasher) = (File::open(path).expect("it opens"), Sha256::new());
    let mut piece = vec![0; 1 << 17];
    loop {
        match file.read(&mut piece).expect("it is read") {
            0 => return hasher.finalize().to_vec(),
            len => hasher.update(&piece[..len]),
        }
    }
}

fn has(tool: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
    let there = there.is_ok_and(|found| found.status.success());
    if !there {
        println!("skipped: {tool} is not there");
    }
    there
}

/// A box with a degraded RAID 5 that holds XFS, a degraded pool, and a disk with nothing.
#[test]
fn a_box_of_disks_is_told_apart_and_nothing_is_written() {
    let (Some(md), Some(zfs)) = (fixtures::folder("md"), fixtures::folder("zfs")) else { return };
    let dir = folder();
    let disks = dir.path().join("disks");
    let set = fixtures::unpack(&md, "raid5-4-xfs");
    for (n, name) in [(0, "sda"), (1, "sdb"), (3, "sdd")] {
        fixtures::copy(&set.path().join(format!("disk{n}.raw")), &disks.join(name));
    }
    let pool = fixtures::unpack(&zfs, "corrupt-mirror");
    fixtures::copy(&pool.path().join("disk1.raw"), &disks.join("sde"));
    image(&disks.join("sdf"), 8 * MIB);
    let before = images(&disks);
    let output = run(dir.path(), &["-d", "disks", "scan"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    for line in [
        "RAID set raid5-4-xfs: raid5, ",
        "degraded: 3 of 4 members",
        "  slot 2  missing",
        "  slot 3  disks/sdd",
        "  xfs",
        "ZFS pool t_corrupt_mirror: DEGRADED",
        ", missing",
        "disks/sdf  8 MiB  nothing",
        "5 files and devices were looked at; nothing was written",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // Each disk is named once.
    for disk in ["disks/sda", "disks/sdb", "disks/sdd", "disks/sde", "disks/sdf"] {
        let lines = text.lines().filter(|line| line.contains(disk) && !line.contains("next:"));
        assert_eq!(lines.count(), 1, "{disk}: {text}");
    }
    for call in [&["disks"][..], &["-d", "disks"], &["scan", "disks"]] {
        let other = done(dir.path(), call);
        let same = other.replace("spindle disks ", "spindle -d disks ");
        assert_eq!(same, text, "{call:?}");
    }
    // What it says to type next does it.
    let list: Vec<String> = next(&text, "zfs list");
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    assert!(done(dir.path(), &list).contains("t_corrupt_mirror"));
    let serve = next(&text, "serve");
    assert_eq!(serve[2..], ["serve", "--volume", "raid5-4-xfs", "--readonly"]);
    let json: Value = serde_json::from_str(&done(dir.path(), &["disks", "-j"])).expect("JSON");
    let set = &json["sets"][0];
    assert_eq!((&set["level"], &set["whole"]), (&"raid5".into(), &false.into()));
    assert_eq!(set["slots"][2]["device"], Value::Null);
    assert_eq!(set["volume"]["holds"]["kind"], "xfs");
    assert_eq!(json["pools"][0]["state"], "DEGRADED");
    assert_eq!(json["devices"][4]["holds"]["kind"], "nothing");
    assert!(images(&disks) == before);
}

/// A set of the real md with XFS on it, in copies: of slots 0, 1, 2, 3 those that are named.
fn copies_of_set(disks: &Path, slots: &[usize]) -> Option<()> {
    let md = fixtures::folder("md")?;
    let set = fixtures::unpack(&md, "raid5-4-xfs");
    for n in slots {
        let from = set.path().join(format!("disk{n}.raw"));
        fixtures::copy(&from, &disks.join(format!("d{n}")));
    }
    Some(())
}

/// What lies in the first half of a disk.
fn first_half(disk: &Disk) -> Vec<(u64, Vec<u8>)> {
    let parts = disk.parts().filter(|(at, _)| *at < disk.bytes / 2);
    parts.map(|(at, part)| (at, part.bytes().to_vec())).collect()
}

/// The bytes of the set that lies in `disks`.
#[track_caller]
fn dumped(dir: &Path, set: &str) -> Disk {
    done(dir, &["-d", "disks", "md", "dump", set, "out"]);
    let disk = Disk::of_file(&dir.join("out"));
    fs::remove_file(dir.join("out")).expect("removed");
    disk
}

#[test]
fn a_cut_image_that_a_set_lacks_is_taken_once_it_is_as_long_again_as_is_said() {
    fixtures::takes_long!();
    let dir = folder();
    let disks = dir.path().join("disks");
    let Some(()) = copies_of_set(&disks, &[0, 1, 3]) else { return };
    let whole = dumped(dir.path(), "raid5-4-xfs");
    let file = File::options().write(true).open(disks.join("d3")).expect("opened");
    let len = file.metadata().expect("its size").len();
    // Behind what the set uses there is little.
    file.set_len(len - 4 * MIB).expect("cut");
    let output = run(dir.path(), &["-d", "disks", "md", "dump", "raid5-4-xfs", "out"]);
    let said = said(&output);
    assert!(!output.status.success() && said.contains("is it cut short?"), "{said}");
    let needed = said.split("truncate -s ").nth(1).and_then(|rest| rest.split(' ').next());
    let needed: u64 = needed.and_then(|word| word.parse().ok()).expect("a number of bytes");
    assert!(needed > len - 4 * MIB && needed <= len, "{needed} of {len}");
    file.set_len(needed).expect("made longer");
    let again = dumped(dir.path(), "raid5-4-xfs");
    assert_eq!(again.bytes, whole.bytes);
    assert!(!first_half(&whole).is_empty(), "the set holds something");
    assert!(first_half(&again) == first_half(&whole), "before the cut all is there");
}

#[test]
fn a_dump_says_first_that_room_may_lack_and_leaves_nothing_where_it_does() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let Some(()) = copies_of_set(&disks, &[0, 1, 2, 3]) else { return };
    let small = dir.path().join("small");
    fs::create_dir(&small).expect("a folder");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "small"]).arg(&small);
    if !mount.status().is_ok_and(|ran| ran.success()) {
        println!("skipped: mounting needs root");
        return;
    }
    let output = run(dir.path(), &["-d", "disks", "md", "dump", "raid5-4-xfs", "small/out"]);
    let left = fs::read_dir(&small).expect("read").count();
    let _ = Command::new("umount").arg(&small).status();
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("small/out: 1 MiB are free there for"), "{said}");
    assert!(said.contains("make room, or name a place that has it"), "{said}");
    assert_eq!(left, 0, "nothing bears a name that is not whole");
}

#[test]
fn superblocks_that_were_overwritten_are_written_anew_as_the_guide_says() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let Some(()) = copies_of_set(&disks, &[0, 1, 2, 3]) else { return };
    let whole = dumped(dir.path(), "raid5-4-xfs");
    let told = done(dir.path(), &["md", "examine", "disks/d0"]);
    let field = |name: &str| {
        let line = told.lines().find(|line| line.trim_start().starts_with(name));
        let value = line.and_then(|line| line.split(" : ").nth(1))?;
        value.split(' ').next().map(str::to_owned)
    };
    for n in [1, 2] {
        let file = File::options().write(true).open(disks.join(format!("d{n}"))).expect("opened");
        file.write_all_at(&[0; 64 << 10], 0).expect("overwritten");
    }
    let text = done(dir.path(), &["disks"]);
    let hint = "disks/d1, disks/d2 are as large as its members, and without a superblock";
    assert!(text.contains(hint), "{text}");
    let kib = |text: String| (text.parse::<u64>().expect("sectors") / 2).to_string();
    let offset = kib(field("Data Offset").expect("an offset"));
    // Where it is not told, all is used that there is.
    let size = field("Used Dev Size").map_or("max".to_owned(), kib);
    let chunk = field("Chunk Size").expect("a chunk").replace('K', "");
    let version = field("Version").expect("a version");
    let shape = ["md", "create", "new", "-l5", "-n4", "-c", &chunk, "-e", &version];
    let place = ["--data-offset", &offset, "-z", &size, "--assume-clean", "--force"];
    let members = ["disks/d0", "disks/d1", "disks/d2", "disks/d3"];
    // A place that md can't mean is refused before anything is written.
    let before = images(&disks);
    let wrong =
        [&shape[..], &["--data-offset", "5", "--assume-clean", "--force"], &members].concat();
    refused(dir.path(), &wrong, "data can't begin at 5 KiB");
    assert!(images(&disks) == before);
    done(dir.path(), &[&shape[..], &place, &members].concat());
    assert!(dumped(dir.path(), "new") == whole, "not a byte of the set is another");
}

/// What could break: of a pool that opens here and there what is there is changed until a write fails.
#[test]
fn a_pool_that_lacks_too_many_disks_is_not_written_to() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let names: Vec<String> = (0..5).map(|n| format!("disks/d{n}")).collect();
    names.iter().for_each(|name| drop(image(&dir.path().join(name), 64 * MIB)));
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    done(dir.path(), &[&["zpool", "create", "tank", "raidz2"][..], &members].concat());
    done(dir.path(), &["-d", "disks", "zfs", "create", "tank/home"]);
    fs::write(dir.path().join("file"), [7; 100_000]).expect("written");
    done(dir.path(), &["-d", "disks", "zfs", "cp", "file", "tank/home:/"]);
    for name in &names[2..] {
        fs::rename(dir.path().join(name), dir.path().join(name.replace('/', "-"))).expect("away");
    }
    let before = images(&disks);
    for verb in [
        &["zpool", "import", "-f", "tank"][..],
        &["zpool", "export", "tank"],
        &["zfs", "snapshot", "tank/home@a"],
        &["zfs", "cp", "file", "tank/home:/other"],
    ] {
        let saying = "raidz2-0 needs 3 of its 5 devices, and 2 are there; missing: ";
        refused(dir.path(), &[&["-d", "disks"][..], verb].concat(), saying);
        assert!(images(&disks) == before, "{verb:?} wrote");
    }
}

#[test]
fn a_file_whose_name_is_no_text_is_refused_by_that_reason() {
    use std::os::unix::ffi::OsStrExt;
    let dir = folder();
    let name = std::ffi::OsStr::from_bytes(b"disks/s\xff");
    image(&dir.path().join(name), MIB);
    let output = run(dir.path(), &["disks"]);
    let both = format!("{}{}", String::from_utf8_lossy(&output.stdout), said(&output));
    assert!(both.contains("its name is no UTF-8"), "{both}");
}

/// What could break: a set of which too few are left is silently left out, or what is told to do doesn't help.
#[test]
fn a_set_that_can_not_be_opened_says_why_and_what_to_try() {
    let dir = folder();
    let disks = dir.path().join("disks");
    three_disks(dir.path(), 24 * MIB);
    let make =
        ["md", "create", "data", "-l5", "-n3", "--assume-clean", "disks/a", "disks/b", "disks/c"];
    done(dir.path(), &make);
    done(dir.path(), &["-d", "disks", "md", "fail", "data", "disks/a"]);
    fs::remove_file(disks.join("b")).expect("removed");
    let text = done(dir.path(), &["disks"]);
    assert!(text.contains("RAID set data: raid5, can't be opened"), "{text}");
    assert!(text.contains("  slot 1  missing") && text.contains("disks/a  left out: "), "{text}");
    let try_it = ["-d", "disks", "md", "assemble", "data", "--readonly", "--force"];
    let text = done(dir.path(), &try_it);
    assert!(
        text.contains("/dev/md/data can be read with 2 drives (out of 3), and is closed again."),
        "{text}"
    );
}

/// What could break: whoever takes a RAID set for a dataset, or asks for groups where there are none, is told no and nothing else.
#[test]
fn a_wrong_turn_with_a_set_says_the_way() {
    let dir = folder();
    three_disks(dir.path(), 24 * MIB);
    let at = dir.path();
    let make =
        ["md", "create", "data", "-l5", "-n3", "--assume-clean", "disks/a", "disks/b", "disks/c"];
    done(at, &make);
    fs::create_dir(at.join("m")).expect("made");
    let way = "datasets of ZFS pools alone are opened here: spindle -d disks serve --volume data --readonly";
    for call in
        [&["zfs", "ls", "data:"][..], &["zfs", "list", "data"], &["zfs", "get", "all", "data"]]
    {
        let call = [&["-d", "disks"], call].concat();
        refused(at, &call, "cannot open 'data': dataset does not exist; data: ");
        refused(at, &call, way);
    }
    let output = run(at, &["-d", "disks", "zfs", "list", "other"]);
    assert!(said(&output).trim_end().ends_with("dataset does not exist"), "{}", said(&output));
    let groups = run(at, &["-d", "disks", "lvm", "vgs"]);
    assert!(
        said(&groups).contains("; spindle -d disks scan shows what lies where"),
        "{}",
        said(&groups)
    );
    refused(at, &["-d", "disks", "serve"], "spindle -d disks scan shows what is there");
    for name in ["b", "c"] {
        fs::rename(at.join("disks").join(name), at.join(name)).expect("away");
    }
    refused(
        at,
        &["-d", "disks", "mount", "data", "m"],
        "data: it is a RAID set that can't be opened: ",
    );
}

/// What could break: a kind that is taken for another, a label of another place, a UUID in another order. `blkid` is the judge.
#[test]
fn file_systems_are_known_as_blkid_knows_them() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let makers: [(&str, u64, &str, &str); 11] = [
        ("ext2", 16, "mke2fs", "mke2fs -q -t ext2 -L two -U 11111111-2222-3333-4444-555555555555"),
        ("ext3", 16, "mke2fs", "mke2fs -q -t ext3 -L three"),
        ("ext4", 16, "mke2fs", "mke2fs -q -t ext4 -L four"),
        ("xfs", 320, "mkfs.xfs", "mkfs.xfs -q -L data"),
        ("btrfs", 128, "mkfs.btrfs", "mkfs.btrfs -q -L volume1"),
        ("vfat", 64, "mkfs.vfat", "mkfs.vfat -n BOOT"),
        ("ntfs", 16, "mkntfs", "mkntfs -q -F -L win"),
        ("exfat", 16, "mkfs.exfat", "mkfs.exfat -L card"),
        ("f2fs", 128, "mkfs.f2fs", "mkfs.f2fs -q -l flash"),
        ("swap", 16, "mkswap", "mkswap -q -L rest"),
        (
            "crypto_LUKS",
            32,
            "cryptsetup",
            "cryptsetup luksFormat -q --type luks2 --label secret --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /dev/zero --keyfile-size 32",
        ),
    ];
    let mut made = Vec::new();
    for (kind, mib, tool, command) in makers {
        if !has(tool) {
            continue;
        }
        image(&disks.join(kind), mib * MIB);
        let path = disks.join(kind);
        let status = Command::new("sh")
            .args(["-c", &format!("{command} {} >/dev/null 2>&1", path.display())])
            .status();
        assert!(status.expect("sh").success(), "{kind}");
        made.push(kind);
    }
    let json: Value = serde_json::from_str(&done(dir.path(), &["disks", "-j"])).expect("JSON");
    let devices = json["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), made.len());
    for device in devices {
        let path = device["name"].as_str().expect("a name");
        let kind = path.rsplit('/').next().expect("a name");
        let holds = &device["holds"];
        let told = holds["kind"].as_str().expect("a kind");
        assert_eq!(told, if kind == "crypto_LUKS" { "LUKS2" } else { kind });
        let size = holds["bytes"].as_u64();
        assert!(
            size.is_none_or(|size| size <= device["bytes"].as_u64().expect("a size")),
            "{device}"
        );
        assert_eq!(holds["clean"], true);
        if !has("blkid") {
            continue;
        }
        let value = |key: &str| {
            let out = Command::new("blkid")
                .args(["-p", "-s", key, "-o", "value"])
                .arg(dir.path().join(path))
                .output();
            let text =
                String::from_utf8(out.expect("blkid").stdout).expect("text").trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        assert_eq!(value("TYPE").as_deref(), Some(kind));
        assert_eq!(holds["id"].as_str().map(str::to_owned), value("UUID"), "{kind}");
        // Labels of NTFS and exFAT are files, which are not looked for.
        if !["ntfs", "exfat"].contains(&kind) {
            assert_eq!(holds["label"].as_str().map(str::to_owned), value("LABEL"), "{kind}");
        }
    }
}

/// What could break: bytes that nobody wrote on purpose end the program, or make a terminal do something.
#[test]
fn garbage_is_told_to_be_garbage() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for n in 0..8 {
        let bytes: Vec<u8> = (0..256 << 10).map(|_| random() as u8).collect();
        image(&disks.join(format!("noise{n}")), MIB).write_all_at(&bytes, 0).expect("written");
    }
    // Magic numbers with nothing right behind them.
    for (n, (at, magic)) in [
        (1080, &b"\x53\xef"[..]),
        (0, b"XFSB"),
        (0, b"LUKS\xba\xbe"),
        (65_600, b"_BHRfS_M"),
        (4086, b"SWAPSPACE2"),
        (510, b"\x55\xaa"),
        (512, b"EFI PART"),
        (512, b"LABELONE"),
        (4096, b"\xfc\x4e\x2b\xa9"),
        (131_072, b"\x0c\xb1\xba\x00\x00\x00\x00\x00"),
        (3, b"NTFS    "),
        (1024, b"\x10\x20\xf5\xf2"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = image(&disks.join(format!("magic{n}")), MIB);
        file.write_all_at(&[0xff; 4096], 0).expect("written");
        file.write_all_at(magic, at).expect("written");
    }
    let label = image(&disks.join("label"), 16 * MIB);
    if has("mke2fs") {
        let status =
            Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(disks.join("label")).status();
        assert!(status.expect("it runs").success());
        label.write_all_at(b"\x1b]0;evil\x07\n\xff", 1024 + 120).expect("written");
    }
    let output = run(dir.path(), &["disks"]);
    assert!(output.status.code() == Some(0), "{}", said(&output));
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains(&0x1b) && !text.contains(&7), "{}", String::from_utf8_lossy(text));
    }
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.matches("noise").count(), 8, "{text}");
    let json = done(dir.path(), &["disks", "--json"]);
    serde_json::from_str::<Value>(&json).expect("JSON");
}

/// What could break: a box whose disks may not be read is told to be empty, and that it is well.
#[test]
fn what_may_not_be_read_is_named_and_the_list_fails() {
    let dir = folder();
    let disks = dir.path().join("disks");
    let (open, shut) = (disks.join("open"), disks.join("shut"));
    image(&open, 24 * MIB);
    image(&shut, 24 * MIB);
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let is_root = own_uid() == 0;
    // Somebody else, who finds his way to the folder and the program.
    let binary = dir.path().join("spindle");
    fs::copy(env!("CARGO_BIN_EXE_spindle"), &binary).expect("copied");
    for path in [dir.path(), &disks] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    if is_root {
        chown(&shut, Some(0), Some(0)).expect("given");
    }
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).expect("set");
    let as_other = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(arguments).current_dir(dir.path()).env_remove("SPINDLE_DEVICES");
        command.env("SPINDLE_RUN_DIR", dir.path().join("run"));
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        command.output().expect("it starts")
    };
    for call in [
        &["zpool", "list"][..],
        &["zpool", "import"],
        &["zpool", "status"],
        &["zfs", "list"],
        &["zpool", "list", "-j"],
        &["md", "examine", "--scan"],
        &["md", "examine"],
        &["lvm", "vgs"],
        &["lvm", "pvs"],
        &["lvm", "lvs"],
        &["scan"],
        &["scan", "-j"],
    ] {
        let output = as_other(&[&["-d", "disks"], call].concat());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{call:?}: {said}");
        assert!(
            said.contains("disks/shut: permission denied") && said.contains("sudo"),
            "{call:?}: {said}"
        );
    }
    // One that was named alone is as bad.
    for call in [&["zpool", "list"][..], &["md", "examine"], &["scan"]] {
        let output = as_other(&[&["-d", "disks/shut"], call].concat());
        let said = said(&output);
        assert!(
            output.status.code() == Some(1) && said.contains("disks/shut") && said.contains("sudo"),
            "{call:?}: {said}"
        );
    }
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o644)).expect("set");
    assert_eq!(as_other(&["-d", "disks", "zpool", "list"]).status.code(), Some(0));
}

fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").expect("Linux tells").uid()
}

/// What could break: who looks for the one with the other's command is told that there is nothing.
#[test]
fn the_commands_of_pools_and_of_sets_point_to_each_other() {
    let Some(zfs) = fixtures::folder("zfs") else { return };
    let pool = fixtures::unpack(&zfs, "single");
    refused(pool.path(), &["md", "examine", "disk0.raw"], "no md superblock; it holds ");
    let output = run(pool.path(), &["-d", ".", "md", "examine", "--scan"]);
    assert!(
        said(&output).contains("no md superblock is there, but ./disk0.raw holds ")
            && said(&output).contains("spindle -d . scan"),
        "{}",
        said(&output)
    );
    let dir = folder();
    for name in ["disks/a", "disks/b"] {
        image(&dir.path().join(name), 24 * MIB);
    }
    done(
        dir.path(),
        &["md", "create", "data", "-l1", "-n2", "--assume-clean", "disks/a", "disks/b"],
    );
    for call in
        [&["zpool", "import"][..], &["zpool", "list"], &["zpool", "status"], &["zfs", "list"]]
    {
        let output = run(dir.path(), &[&["-d", "disks"], call].concat());
        let said = said(&output);
        assert!(
            output.status.success()
                && said.contains("but RAID set")
                && said.contains("spindle -d disks scan"),
            "{call:?}: {said}"
        );
    }
}

/// A RAID 5 with a volume group, one volume of which holds ext4 with a file.
fn set_with_volume() -> Option<(tempfile::TempDir, PathBuf)> {
    if !has("mke2fs") {
        return None;
    }
    let dir = folder();
    three_disks(dir.path(), 64 * MIB);
    let at = dir.path();
    done(
        at,
        &["md", "create", "data", "-l5", "-n3", "--assume-clean", "disks/a", "disks/b", "disks/c"],
    );
    done(at, &["-d", "disks", "lvm", "vgcreate", "vg0", "data", "-s", "1m"]);
    done(at, &["-d", "disks", "lvm", "lvcreate", "vg0", "-n", "home", "-L", "24"]);
    fs::create_dir(at.join("tree")).expect("made");
    fs::write(at.join("tree/letter"), "all is well\n").expect("written");
    let ext4 = at.join("ext4.img");
    image(&ext4, 24 * MIB);
    let made = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-L", "home", "-d", "tree"])
        .arg(&ext4)
        .current_dir(at)
        .status();
    assert!(made.expect("mke2fs").success());
    Some((dir, ext4))
}

/// What could break: the way from a volume to files ends at a socket.
#[test]
fn a_volume_is_dumped_and_served_with_all_that_is_typed_next() {
    let Some((dir, ext4)) = set_with_volume() else { return };
    if !has("nbdcopy") || !has("nbdinfo") {
        return;
    }
    let at = dir.path();
    let address = format!("unix:{}/s", at.display());
    let socket = format!("nbd+unix:///{{}}?socket={}/s", at.display());
    let uri = |name: &str| socket.replace("{}", name);
    let serve = ["-d", "disks", "serve", "--volume", "vg0/home", "--nbd", &address];
    let serving = Serving::start(&mut program(at, &serve));
    let copied = Command::new("nbdcopy").arg(&ext4).arg(uri("vg0/home")).status();
    assert!(copied.expect("nbdcopy").success());
    serving.stop();

    let text = done(at, &["disks"]);
    for line in
        ["RAID set data: raid5, ", "  volume group vg0: ", "    vg0/home  24 MiB  ext4 \"home\""]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    done(at, &["-d", "disks", "lvm", "dump", "vg0/home", "out"]);
    assert_eq!(hash_of(&at.join("out")), hash_of(&ext4));
    refused(at, &["-d", "disks", "lvm", "dump", "vg0/home", "out"], "--overwrite");
    refused(
        at,
        &["-d", "disks", "lvm", "dump", "vg0/home", "disks/a", "--overwrite"],
        "is one of the devices",
    );
    refused(at, &["-d", "disks", "lvm", "dump", "vg0/nope", "x"], "there are vg0/home");
    for way in [&["vg0/home", "m"][..], &["-o", "rw", "vg0/home", "m"]] {
        fs::create_dir_all(at.join("m")).expect("made");
        let call = [&["-d", "disks", "mount"], way].concat();
        refused(
            at,
            &call,
            "it holds ext4, and datasets of ZFS pools alone are mounted here: spindle -d disks serve --volume vg0/home",
        );
    }

    // What it says next is what works.
    let serve: Vec<String> = next(&text, "serve");
    let mut command = program(at, &serve.iter().map(String::as_str).collect::<Vec<_>>());
    command.args(["--nbd", &address]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines = {
        use std::io::{BufRead, BufReader};
        let out = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(out).lines().map(|line| line.expect("text"));
        (
            lines.next().expect("served"),
            lines.next().expect("an address"),
            lines.next().expect("a way"),
        )
    };
    assert!(lines.0.contains("serving 1 export"), "{lines:?}");
    assert_eq!(lines.1, format!("spindle: clients connect to '{}'", uri("vg0/home")));
    assert!(
        lines.2.contains("it holds ext4: ") && lines.2.contains("mount -t ext4 -o loop,ro,noload"),
        "{lines:?}"
    );
    let info = Command::new("nbdinfo").arg(uri("vg0/home")).output().expect("nbdinfo");
    assert!(info.status.success(), "{}", said(&info));
    let wrong = Command::new("nbdinfo")
        .env("LIBNBD_DEBUG", "1")
        .arg(uri("home"))
        .output()
        .expect("nbdinfo");
    let answer = said(&wrong);
    assert!(
        !wrong.status.success() && answer.contains("there is no such export; there are 'vg0/home'"),
        "{answer}"
    );
    if has("nbdfuse") && own_uid() == 0 && Path::new("/dev/fuse").exists() {
        let raw = at.join("raw");
        fs::create_dir(&raw).expect("made");
        let mut fuse = Command::new("nbdfuse")
            .arg("-r")
            .arg(&raw)
            .arg(uri("vg0/home"))
            .spawn()
            .expect("nbdfuse");
        let file = raw.join("nbd");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !file.exists() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let same = file.exists() && hash_of(&file) == hash_of(&ext4);
        // The last mile, as it was told.
        let options = "loop,ro,noload";
        let mounted = at.join("m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", options]);
        let done = mount.arg(&file).arg(&mounted).output().expect("mount runs");
        let letter = fs::read_to_string(mounted.join("letter"));
        for place in [&mounted, &raw] {
            let _ = Command::new("umount").arg("-l").arg(place).stderr(Stdio::null()).status();
        }
        // Unmounted it ends; where that failed nothing may stay.
        let _ = fuse.kill();
        let _ = fuse.wait();
        match done.status.success() {
            true => assert_eq!(letter.expect("it is there"), "all is well\n"),
            false => println!("skipped: no loop mount here: {}", said(&done)),
        }
        assert!(same, "nbdfuse shows the volume as a file");
    }
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(told.expect("kill").success() && child.wait().expect("it ends").success());
}
