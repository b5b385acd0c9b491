//! Volumes of pools from the outside: made, given sizes, filled, and served for writing to real clients.
//!
//! What could break: a volume that OpenZFS's `zdb` finds fault with, or whose properties say what is not so; bytes that a client
//! was told are durable and are gone after a kill; somebody who changes a pool that is served; a pool that is left open.
//!
//! The clients are Debian's: libnbd-bin (nbdcopy, nbdinfo), qemu-utils (qemu-io), fio; what is not there is skipped, and said.

use crate::pools;
use crate::serving;

use pools::{add_disks, done, judge, program, refused, run};
use serving::Serving;
use std::fs::{self, File};
use std::io::{BufRead, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const DISK_BYTES: u64 = 192 << 20;
const MIB: usize = 1 << 20;

fn create<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["zfs", "create"], arguments].concat()
}

/// A pool `tank` on empty disks.
fn pool(names: &[&str], layout: &[&str]) -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let disks = folder.path().join("disks");
    fs::create_dir(&disks).expect("a folder");
    add_disks(&disks, names, DISK_BYTES);
    let paths: Vec<String> = layout
        .iter()
        .map(|word| if names.contains(word) { format!("disks/{word}") } else { (*word).into() })
        .collect();
    let words: Vec<&str> = paths.iter().map(String::as_str).collect();
    done(folder.path(), &[&["zpool", "create", "tank"], &words[..]].concat());
    folder
}

fn get(folder: &Path, property: &str, of: &str) -> String {
    done(folder, &["zfs", "get", "-Hpo", "value", property, of]).trim().to_owned()
}

fn there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}

#[track_caller]
fn client(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}{errors}");
    said
}

/// A server of a volume on the socket `s`.
#[track_caller]
fn serve(folder: &Path, volume: &str, more: &[&str]) -> Serving {
    let arguments = [&["serve", "--volume", volume, "--nbd", "unix:s"], more].concat();
    Serving::start(&mut program(folder, &arguments))
}

#[test]
fn volumes_are_made_and_resized_in_openzfs_words() {
    fixtures::takes_long!();
    let folder = pool(&["a", "b"], &["mirror", "a", "b"]);
    let at = folder.path();
    for (arguments, why) in [
        (&["-s", "tank/x"][..], "can only be used when creating a volume"),
        (&["-b", "8K", "tank/x"], "can only be used when creating a volume"),
        (&["-V", "0", "tank/x"], "volume size cannot be zero"),
        (&["-V", "lots", "tank/x"], "bad volume size"),
        (
            &["-V", "1M", "-b", "5000", "tank/x"],
            "'volblocksize' must be power of 2 from 512B to 16M",
        ),
        (
            &["-V", "1M", "-b", "32M", "tank/x"],
            "'volblocksize' must be power of 2 from 512B to 16M",
        ),
        (&["-V", "1M", "-o", "recordsize=8K", "tank/x"], "'recordsize' does not apply"),
        (&["-o", "volsize=8M", "tank/x"], "'volsize' does not apply"),
        (&["-V", "1G", "tank/x"], "cannot create 'tank/x': out of space"),
        (&["-V", "1M", "tank/no/x"], "parent does not exist"),
        (&["-V", "9223372036854775808", "tank/x"], "volume size exceeds limit"),
        (&["-V", "16E", "tank/x"], "bad volume size"),
    ] {
        refused(at, &create(arguments), why);
    }
    done(at, &create(&["-V", "10000000", "-o", "compression=lz4", "-o", "org.x:y=z", "tank/v"]));
    // Whole blocks of 16 KiB; a block of each level of dnodes, and one that leads to the data, twice.
    let kept = |bytes: u64| bytes + 8 * 2 * (128 << 10);
    let size = 10_000_000_u64.next_multiple_of(16 << 10);
    for (property, value) in [
        ("type", "volume".to_owned()),
        ("volsize", size.to_string()),
        ("volblocksize", "16384".to_owned()),
        ("refreservation", kept(size).to_string()),
        ("used", kept(size).to_string()),
        ("compression", "lz4".to_owned()),
        ("org.x:y", "z".to_owned()),
    ] {
        assert_eq!(get(at, property, "tank/v"), value, "{property}");
    }
    let number = |property, of| get(at, property, of).parse::<u64>().expect("a number");
    let parts = number("usedbydataset", "tank/v") + number("usedbyrefreservation", "tank/v");
    assert_eq!(parts, kept(size));
    assert!(number("used", "tank") >= kept(size));
    let before = number("available", "tank");
    done(at, &create(&["-sV", "1T", "-b", "4K", "-p", "tank/a/thin"]));
    assert_eq!(
        (get(at, "refreservation", "tank/a/thin"), number("volsize", "tank/a/thin")),
        ("0".into(), 1 << 40)
    );
    assert!(before - number("available", "tank") < 1 << 20);
    refused(at, &create(&["tank/v/below"]), "parent is not a filesystem");
    refused(at, &create(&["-V", "1M", "tank/v"]), "dataset already exists");
    refused(
        at,
        &["zfs", "set", "volsize=9999", "tank/v"],
        "must be a multiple of volume block size (16K)",
    );
    refused(at, &["zfs", "set", "volsize=0", "tank/v"], "'volsize' cannot be zero");
    refused(at, &["zfs", "set", "volsize=1M", "tank/a"], "does not apply to datasets of this type");
    refused(at, &["zfs", "set", "volblocksize=8K", "tank/v"], "'volblocksize' is readonly");
    refused(
        at,
        &["zfs", "set", "refreservation=90M", "tank/v"],
        "greater than current volume size",
    );
    refused(at, &["zfs", "set", "reservation=900M", "tank/a"], "greater than available space");
    for bytes in [16 << 20, 4 << 20] {
        done(at, &["zfs", "set", &format!("volsize={bytes}"), "tank/v"]);
        assert_eq!(number("volsize", "tank/v"), bytes);
        assert_eq!(number("refreservation", "tank/v"), kept(bytes));
    }
    done(at, &["zfs", "set", "refreservation=1M", "tank/v"]);
    assert_eq!(number("used", "tank/v"), 1 << 20);
    done(at, &["zfs", "set", "refreservation=none", "tank/v"]);
    assert!(number("used", "tank/v") < 1 << 20);
    judge(at, "tank");
}

/// Bytes with holes: data, a hole, data, and a hole at the end.
fn holey(path: &Path) -> Vec<u8> {
    let mut content = vec![0; 6 * MIB + 1536];
    content[100_000..900_000].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 3) as u8);
    content[5 * MIB..5 * MIB + 700_000].fill(0xa5);
    let mut file = File::create(path).expect("a file");
    for range in [100_000..900_000, 5 * MIB..5 * MIB + 700_000] {
        file.seek(SeekFrom::Start(range.start as u64)).expect("a place");
        file.write_all(&content[range]).expect("room");
    }
    file.set_len(content.len() as u64).expect("room");
    content
}

#[test]
fn a_volume_is_filled_from_a_file_and_from_standard_input() {
    fixtures::takes_long!();
    let folder = pool(&["a", "b", "c"], &["raidz1", "a", "b", "c"]);
    let at = folder.path();
    let content = holey(&at.join("image"));
    done(at, &["zfs", "create", "-sV", "8M", "-b", "8K", "tank/v"]);
    done(at, &["zfs", "create", "-sV", "4M", "tank/small"]);
    done(at, &["zfs", "create", "tank/files"]);
    refused(at, &["zfs", "load", "tank/small", "image"], "don't fit tank/small, which has 4 MiB");
    refused(at, &["zfs", "load", "tank/files", "image"], "it is a file system");
    refused(at, &["zfs", "load", "tank/gone", "image"], "dataset does not exist");
    refused(at, &["zfs", "load", "tank/v@s", "image"], "a snapshot never changes");
    refused(at, &["zfs", "load", "tank/v", "gone"], "reading gone");
    refused(at, &["zfs", "load", "tank/v", "disks/a"], "one of the devices");
    let whole = |bytes: &[u8]| [bytes, &vec![0; 8 * MIB - bytes.len()][..]].concat();
    let dump = || run(at, &["zfs", "dump", "tank/v", "-"]).stdout;
    // What it held before is gone, behind the end too.
    let mut old = program(at, &["zfs", "load", "tank/v", "-"]).stdin(Stdio::piped()).spawn();
    let child = old.as_mut().expect("it starts");
    child.stdin.take().expect("its input").write_all(&vec![7; 8 * MIB]).expect("it reads");
    assert!(child.wait().expect("it ends").success());
    assert!(dump() == vec![7; 8 * MIB]);
    done(at, &["zfs", "snapshot", "tank/v@sevens"]);
    done(at, &["zfs", "load", "tank/v", "image"]);
    assert!(dump() == whole(&content));
    let taken: u64 = get(at, "referenced", "tank/v").parse().expect("a number");
    assert!(taken < 3 << 20, "holes take no space: {taken}");
    // More than there is room for is seen at the end.
    let mut much = program(at, &["zfs", "load", "tank/v", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let _ = much.stdin.take().expect("its input").write_all(&vec![9; 9 * MIB]);
    let output = much.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("more than the volume's 8 MiB"), "{said}");
    assert!(run(at, &["zfs", "dump", "tank/v@sevens", "-"]).stdout == vec![7; 8 * MIB]);
    judge(at, "tank");
}

#[test]
fn a_volume_is_served_for_writing_to_real_clients() {
    fixtures::takes_long!();
    if !there("nbdcopy") || !there("qemu-io") || !there("nbdinfo") {
        return;
    }
    let folder = pool(&["a", "b"], &["mirror", "a", "b"]);
    let at = folder.path();
    let content = holey(&at.join("image"));
    done(at, &["zfs", "create", "-V", "32M", "-b", "8K", "tank/v"]);
    done(at, &["zfs", "create", "tank/files"]);
    refused(at, &["serve", "--volume", "tank/files", "--nbd", "unix:t"], "it is a file system");
    refused(at, &["serve", "--volume", "tank/none", "--nbd", "unix:t"], "dataset does not exist");
    let server = serve(at, "tank/v", &[]);
    let uri = "nbd+unix:///?socket=s";
    let info = client(at, "nbdinfo", &[uri]);
    for word in ["can_flush: true", "can_fua: true", "can_trim: true", "can_zero: true"] {
        assert!(info.contains(word), "{info}");
    }
    assert!(
        info.contains("is_read_only: false") && info.contains("export-size: 33554432"),
        "{info}"
    );
    client(at, "nbdcopy", &["--flush", "image", uri]);
    let steps = "write -P 0x5a 12M 300k; write -f -P 0x77 20M 8k; discard 20M 4k; write -z 12500k 100k; \
                 read -P 0 12500k 100k; read -P 0x5a 12M 212k; flush";
    let mut arguments = vec!["-f", "raw"];
    for step in steps.split("; ") {
        arguments.extend(["-c", step.trim()]);
    }
    arguments.push(uri);
    let said = client(at, "qemu-io", &arguments);
    assert!(!said.contains("failed"), "{said}");
    // Commands of others are carried out by who holds the pool.
    done(at, &["zfs", "create", "-p", "tank/x/y"]);
    done(at, &["zfs", "destroy", "-r", "tank/x"]);
    refused(at, &["zfs", "destroy", "tank/v"], "busy");
    refused(
        at,
        &["serve", "--volume", "tank/v", "--nbd", "unix:t"],
        "pool tank is held by process",
    );
    done(at, &["zfs", "snapshot", "-r", "tank@served"]);
    refused(at, &["zfs", "snapshot", "tank/v@served"], "'tank/v@served': dataset already exists");
    client(at, "qemu-io", &["-f", "raw", "-c", "write -P 0x11 0 6M", "-c", "flush", uri]);
    server.stop();
    let dump = run(at, &["zfs", "dump", "tank/v@served", "-"]).stdout;
    assert!(dump[..content.len()] == content[..]);
    assert!(dump[12 * MIB..12_500 << 10].iter().all(|byte| *byte == 0x5a));
    assert!(run(at, &["zfs", "dump", "tank/v", "-"]).stdout[..6 * MIB].iter().all(|b| *b == 0x11));
    judge(at, "tank");
    // Exported: opened again without force.
    done(at, &["zfs", "set", "readonly=on", "tank/v"]);
    refused(at, &["serve", "--volume", "tank/v", "--nbd", "unix:t"], "readonly is on");
    judge(at, "tank");
}

/// The protocol can't tell those who are connected: the next one finds the size, and nobody gets beyond it.
#[test]
fn a_volume_that_is_served_gets_another_size() {
    if !there("nbdinfo") || !there("qemu-io") {
        return;
    }
    let folder = pool(&["a", "b"], &["mirror", "a", "b"]);
    let at = folder.path();
    done(at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    let server = serve(at, "tank/v", &[]);
    let uri = "nbd+unix:///?socket=s";
    let size = || client(at, "nbdinfo", &["--size", uri]).trim().to_owned();
    let io = |step: &str| {
        let io =
            Command::new("qemu-io").args(["-f", "raw", "-c", step, uri]).current_dir(at).output();
        let io = io.expect("it starts");
        String::from_utf8_lossy(&[io.stdout, io.stderr].concat()).into_owned()
    };
    assert_eq!(size(), "16777216");
    done(at, &["zfs", "set", "volsize=32M", "tank/v"]);
    assert_eq!(size(), "33554432");
    let said = io("write -P 0x33 28M 1M");
    assert!(said.contains("wrote 1048576/1048576"), "{said}");
    // One who is connected since before it became shorter.
    let mut old = Command::new("qemu-io");
    old.args(["-f", "raw", uri]).current_dir(at).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut old = old.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut into = old.stdin.take().expect("it is piped");
    into.write_all(b"read 28M 1M\n").expect("it is taken");
    into.flush().expect("it is taken");
    let mut out = std::io::BufReader::new(old.stdout.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("read 1048576") {
        assert!(out.read_line(&mut said).expect("text") > 0, "{said}");
    }
    done(at, &["zfs", "set", "volsize=8M", "tank/v"]);
    into.write_all(b"write 28M 1M\nwrite 4M 1M\nquit\n").expect("it is taken");
    drop(into);
    out.read_to_string(&mut said).expect("text");
    let mut errors = String::new();
    old.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("text");
    old.wait().expect("it ends");
    said += &errors;
    assert!(said.contains("No space left") && said.contains("wrote 1048576"), "{said}");
    assert_eq!(size(), "8388608");
    // What was there before does not come back.
    done(at, &["zfs", "set", "volsize=32M", "tank/v"]);
    let said = io("read -P 0 8M 24M");
    assert!(said.contains("read 25165824/25165824") && !said.contains("failed"), "{said}");
    server.stop();
    judge(at, "tank");
}

#[test]
fn what_was_flushed_is_there_after_a_kill() {
    fixtures::takes_long!();
    if !there("qemu-io") {
        return;
    }
    let folder = pool(&["a", "b"], &["mirror", "a", "b"]);
    let at = folder.path();
    done(at, &["zfs", "create", "-V", "16M", "tank/v"]);
    let uri = "nbd+unix:///?socket=s";
    for round in 1..4_u8 {
        let more: &[&str] = if round == 1 { &[] } else { &["--force"] };
        let server = serve(at, "tank/v", more);
        let write = format!("write -P {round} {round}M 1M");
        let fua = format!("write -f -P {} {}k 4k", round + 100, 8192 + 100 * u32::from(round));
        client(at, "qemu-io", &["-f", "raw", "-c", &write, "-c", "flush", "-c", &fua, uri]);
        server.kill();
        // It may be in the intent log alone, until the pool is opened for writing.
        let dump = run(at, &["zfs", "dump", "--replay-view", "tank/v", "-"]).stdout;
        for past in 1..=round {
            let from = usize::from(past) * MIB;
            assert!(dump[from..from + MIB].iter().all(|byte| *byte == past), "round {round}");
            let from = (8192 + 100 * usize::from(past)) << 10;
            assert!(dump[from..from + 4096].iter().all(|byte| *byte == past + 100));
        }
        judge(at, "tank");
    }
    // This host would go on; another is told who had it.
    let mut other = program(at, &["serve", "--volume", "tank/v", "--nbd", "unix:t"]);
    let output = other.env("ZFS_HOSTID", "0x77").output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("was last in use by"), "{said}");
}

#[test]
fn fio_finds_what_it_wrote() {
    fixtures::takes_long!();
    if !there("fio") {
        return;
    }
    if !client(Path::new("."), "fio", &["--enghelp"]).contains("nbd") {
        return println!("skipped: this fio has no nbd engine");
    }
    let folder = pool(&["a", "b", "c"], &["raidz1", "a", "b", "c"]);
    let at = folder.path();
    done(at, &["zfs", "create", "-V", "24M", "-b", "8K", "-o", "compression=lz4", "tank/v"]);
    let server = serve(at, "tank/v", &[]);
    let shared = ["--ioengine=nbd", "--uri=nbd+unix:///?socket=s", "--verify=crc32c", "--size=24M"];
    let job =
        ["--name=random", "--rw=randwrite", "--bsrange=512-64k", "--iodepth=16", "--fsync=200"];
    client(at, "fio", &[&shared[..], &job[..]].concat());
    let job = ["--name=order", "--rw=write", "--bs=128k", "--iodepth=4", "--end_fsync=1"];
    client(at, "fio", &[&shared[..], &job[..]].concat());
    server.stop();
    judge(at, "tank");
}

/// The real OpenZFS finds in a volume what Spindle wrote, says the same of its space, goes on with it, and Spindle goes on
/// after it.
#[test]
#[ignore = "boots a machine: a minute"]
fn the_kernel_reads_a_volume_changes_it_and_gives_it_back() {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return;
    }
    let names = ["a", "b", "c"];
    let folder = pool(&names, &["raidz1", "a", "b", "c"]);
    let at = folder.path();
    holey(&at.join("image"));
    done(at, &["zfs", "create", "-V", "16M", "-b", "8K", "tank/v"]);
    done(at, &["zfs", "load", "tank/v", "image"]);
    done(at, &["zfs", "snapshot", "tank/v@ours"]);
    let properties = "used,available,referenced,volsize,volblocksize,refreservation,usedbydataset,\
                      usedbyrefreservation,usedbysnapshots";
    let ask = ["zfs", "get", "-Hpo", "property,value", properties];
    let ours = done(at, &[&ask[..], &["tank/v"]].concat());
    let digest = |bytes: &[u8]| {
        fs::write(at.join("out"), bytes).expect("a file");
        client(at, "sha256sum", &["out"]).split(' ').next().unwrap_or_default().to_owned()
    };
    let first = digest(&run(at, &["zfs", "dump", "tank/v", "-"]).stdout);
    let mut script = String::from("set -e\nmkdir /p; mount -t tmpfs -o size=1g none /p\n");
    for (name, node) in names.iter().zip('a'..) {
        script += &format!("dd if=/dev/vd{node} of=/p/{name} bs=1M conv=sparse status=none\n");
    }
    script += "wait_for() { for i in $(seq 100); do [ -b $1 ] && return 0; sleep 0.1; done; }\n";
    script += "zpool import -N -d /p tank\n";
    script += &format!("{} tank/v\n", ask.join(" "));
    // A new volume of the kernel's own has the same kept free.
    script += "zfs create -V 16M -b 8K tank/theirs\n\
        echo kept $(zfs get -Hpo value refreservation tank/theirs)\n\
        wait_for /dev/zvol/tank/v || ls -l /dev/zvol /dev/zd*\n\
        V=/dev/zvol/tank/v; [ -b $V ] || V=/dev/zd0\n\
        echo first $(sha256sum < $V)\n\
        dd if=/dev/urandom of=$V bs=64k seek=40 count=30 conv=fsync status=none\n\
        zfs snapshot tank/v@theirs; zfs set volsize=24M tank/v\n\
        echo second $(sha256sum < $V)\n\
        zpool scrub -w tank; zpool status tank\nzpool export tank\n";
    for (name, node) in names.iter().zip('a'..) {
        script += &format!("dd if=/p/{name} of=/dev/vd{node} bs=1M status=none\n");
    }
    script += "sync\n";
    let path = at.join("check.sh");
    fs::write(&path, script).expect("a script");
    let mut machine = Command::new(&oracle);
    machine.args(["--mem", "3000", "--cache", "unsafe", "--timeout", "280"]);
    for name in names {
        machine.arg("--disk").arg(at.join("disks").join(name));
    }
    let output = machine.arg(&path).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("with 0 errors") && said.contains("No known data errors"), "{said}");
    assert!(said.contains(&format!("first {first}")), "{said}");
    // What is available hangs on what the kernel keeps for itself.
    for line in ours.lines().filter(|line| !line.starts_with("available")) {
        assert!(said.contains(line), "{line}: {said}");
    }
    let kept = ours.lines().find_map(|line| line.strip_prefix("refreservation\t"));
    assert!(said.contains(&format!("kept {}", kept.expect("it is shown"))), "{said}");
    let second = digest(&run(at, &["zfs", "dump", "tank/v", "-"]).stdout);
    assert!(said.contains(&format!("second {second}")), "{said}");
    done(at, &["zfs", "load", "tank/v", "image"]);
    done(at, &["zfs", "set", "volsize=8M", "tank/v"]);
    judge(at, "tank");
}

/// What could break: half of what was to go is gone when the rest is found to be in use; a property that says what does not hold.
#[test]
fn a_volume_that_is_served_keeps_what_would_go_with_it_and_follows_its_properties() {
    if !there("qemu-io") {
        return;
    }
    let folder = pool(&["a"], &["a"]);
    let at = folder.path();
    done(at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    done(at, &["zfs", "create", "tank/other"]);
    let server = serve(at, "tank/v", &[]);
    let io = |step: &str| {
        let uri = "nbd+unix:///?socket=s";
        let mut io = Command::new("qemu-io");
        io.args(["-f", "raw", "-c", step, "-c", "flush", uri]).current_dir(at);
        let io = io.output().expect("it starts");
        String::from_utf8_lossy(&[io.stdout, io.stderr].concat()).into_owned()
    };
    assert!(io("write -P 1 0 1M").contains("wrote 1048576"));
    done(at, &["zfs", "snapshot", "-r", "tank@s"]);
    let why = format!(
        "cannot rollback 'tank/v': dataset is busy: process {} serves it",
        server.child.id()
    );
    refused(at, &["zfs", "rollback", "tank/v@s"], &why);
    let before = done(at, &["zfs", "list", "-Hro", "name", "-t", "all", "tank"]);
    for words in [&["-r", "tank/v"][..], &["-R", "tank"], &["-R", "tank@s"]] {
        let tried = run(at, &[&["zfs", "destroy"], words].concat());
        match words[1] {
            "tank@s" => assert!(tried.status.success(), "snapshots are in nobody's use"),
            _ => {
                let said = String::from_utf8_lossy(&tried.stderr).into_owned();
                assert!(!tried.status.success() && said.contains("busy"), "{words:?}: {said}");
                assert!(!said.contains("log"), "{said}");
                let now = done(at, &["zfs", "list", "-Hro", "name", "-t", "all", "tank"]);
                assert_eq!(now, before, "{words:?}");
            }
        }
    }
    done(at, &["zfs", "set", "readonly=on", "tank/v"]);
    let said = io("write -P 2 0 1M");
    assert!(!said.contains("wrote 1048576"), "{said}");
    assert!(io("read -P 1 0 1M").contains("read 1048576/1048576"));
    done(at, &["zfs", "set", "readonly=off", "tank/v"]);
    assert!(io("write -P 3 0 1M").contains("wrote 1048576"));
    server.stop();
    judge(at, "tank");
}
