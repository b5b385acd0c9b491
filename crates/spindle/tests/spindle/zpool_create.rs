//! Pools that `spindle zpool create` makes, with file systems, snapshots and properties in them, from the outside.
//!
//! What could break: a pool that OpenZFS's `zdb` finds fault with, something overwritten that was not to be, redundancy mixed up
//! without a word, a refusal that changes something, words that scripts of OpenZFS's users don't know.

use crate::holding::Holder;
use crate::pools;

use pools::{done, judge, program, refused, run};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DISK_BYTES: u64 = 128 << 20;

/// Empty disks in a folder of their own.
fn disks(names: &[&str]) -> tempfile::TempDir {
    pools::disks(names, DISK_BYTES)
}

#[test]
fn a_pool_with_file_systems_and_snapshots_is_made_and_zdb_finds_nothing() {
    fixtures::takes_long!();
    let folder = disks(&["a", "b", "c", "d", "e"]);
    let at = folder.path();
    let create = ["zpool", "create", "-O", "compression=lz4", "-o", "comment=mine", "tank"];
    done(at, &[&create[..], &["raidz1", "a", "b", "c", "log", "d"]].concat());
    assert!(done(at, &["zpool", "list", "-H", "-o", "name,health"]).contains("tank\tONLINE"));
    let status = done(at, &["zpool", "status", "tank"]);
    assert!(
        status.contains("raidz1-0")
            && status.contains("logs")
            && status.contains("No known data errors")
    );
    assert_eq!(done(at, &["zpool", "get", "-Ho", "value", "comment", "tank"]), "mine\n");
    refused(at, &["zfs", "create", "tank/home/anna"], "parent does not exist");
    done(at, &["zfs", "create", "-p", "-o", "atime=off", "tank/home/anna"]);
    refused(at, &["zfs", "create", "tank/home/anna"], "dataset already exists");
    done(at, &["zfs", "create", "-p", "tank/home/anna"]);
    done(at, &["zfs", "snapshot", "-r", "tank@monday"]);
    refused(
        at,
        &["zfs", "snapshot", "tank/home@tuesday", "tank@monday"],
        "tank@monday': dataset already exists",
    );
    let all = done(at, &["zfs", "list", "-H", "-o", "name", "-t", "all", "-r", "tank"]);
    let names: Vec<&str> = all.lines().collect();
    assert_eq!(
        names,
        [
            "tank",
            "tank@monday",
            "tank/home",
            "tank/home@monday",
            "tank/home/anna",
            "tank/home/anna@monday",
        ],
        "none of a call that was refused"
    );
    done(at, &["zfs", "set", "org.example:note=hello", "recordsize=32K", "tank/home"]);
    let get = |property: &str| {
        done(at, &["zfs", "get", "-Hpo", "value,source", property, "tank/home/anna"])
    };
    assert_eq!(get("org.example:note"), "hello\tinherited from tank/home\n");
    assert_eq!(get("recordsize"), "32768\tinherited from tank/home\n");
    assert_eq!(get("compression"), "lz4\tinherited from tank\n");
    assert_eq!(get("atime"), "off\tlocal\n");
    done(at, &["zfs", "inherit", "atime", "tank/home/anna"]);
    assert_eq!(get("atime"), "on\tdefault\n");
    judge(at, "tank");
    done(at, &["zpool", "scrub", "--read-only", "tank"]);
}

#[test]
fn what_holds_something_or_does_not_fit_is_refused_and_left_alone() {
    let folder = disks(&["a", "b", "c", "d"]);
    let at = folder.path();
    std::fs::write(at.join("small"), vec![0; 1 << 20]).expect("a disk");
    let before = || fixtures::Disk::of_file(&at.join("a"));
    let empty = before();
    for (arguments, why) in [
        (&["tank", "mirror", "a"][..], "mirror requires at least 2 devices"),
        (&["tank", "raidz2", "a", "b"], "raidz2 requires at least 3 devices"),
        (&["tank", "mirror", "a", "b", "c"], "mismatched"),
        (&["tank", "a", "mirror", "b", "c"], "both file and mirror vdevs are present"),
        (&["tank", "a", "a"], "given twice"),
        (&["tank", "mirror", "a", "small"], "small"),
        (&["tank", "a", "gone"], "gone"),
        (&["mirrors", "a"], "name is reserved"),
        (&["7up", "a"], "must begin with a letter"),
        (&["ta/nk", "a"], "invalid character '/'"),
        (&["tank", "log", "a"], "at least one toplevel vdev"),
        (&["-o", "ashift=40", "tank", "a"], "only values between 9 and 16"),
        (&["-o", "nonsense=1", "tank", "a"], "not a valid pool property"),
        (&["-o", "feature@encryption=enabled", "tank", "a"], "feature@encryption"),
        (&["-O", "compression=fast", "tank", "a"], "'compression' must be one of"),
        (&["-O", "recordsize=100K", "tank", "a"], "must be power of 2 from 512B to 16M"),
        (&["-d", "-O", "recordsize=1M", "tank", "a"], "must be power of 2 from 512B to 128K"),
        (&["-d", "-O", "checksum=skein", "tank", "a"], "pool must be upgraded to set this"),
        (&["-O", "used=1", "tank", "a"], "'used' is readonly"),
    ] {
        // Three in a mirror are no mismatch; with a device beside it they are.
        let arguments = match why {
            "mismatched" => [&["zpool", "create"], arguments, &["raidz1", "d", "small"]].concat(),
            _ => [&["zpool", "create"], arguments].concat(),
        };
        refused(at, &arguments, why);
        assert!(before() == empty, "{arguments:?}");
    }
    let shown = done(at, &["zpool", "create", "-n", "tank", "mirror", "a", "b"]);
    assert_eq!(
        shown,
        "would create 'tank' with the following layout:\n\n\ttank\n\t  mirror\n\t    a\n\t    b\n"
    );
    assert!(before() == empty);
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    let made = before();
    let why = "cannot open '/no/such': no such device";
    refused(at, &["zpool", "create", "other", "/no/such"], why);
    refused(at, &["zpool", "add", "tank", "mirror", "/no/such", "/no/other"], why);
    refused(at, &["zpool", "labelclear", "/no/such"], why);
    let why = "a: it holds a ZFS pool member, a part of exported pool 'tank'; name another, or";
    refused(at, &["zpool", "create", "other", "mirror", "a", "c"], why);
    refused(at, &["zfs", "create", "other/x"], "cannot create 'other/x': no such pool 'other'");
    refused(at, &["zfs", "create", "tank/$MOS"], "invalid character '$'");
    refused(at, &["zfs", "create", "tank/.."], "reserved name");
    refused(at, &["zfs", "snapshot", "tank"], "missing '@'");
    refused(at, &["zfs", "set", "compression", "tank"], "missing property=value");
    refused(at, &["zfs", "set", "dedup=on", "tank"], "not written");
    refused(at, &["zfs", "set", "checksum=blake3", "tank"], "pool must be upgraded to set this");
    refused(at, &["zfs", "create", "-o", "checksum=blake3", "tank/x"], "pool must be upgraded");
    refused(at, &["-T", "4", "zfs", "create", "tank/x"], "");
    assert!(before() == made);
    done(at, &["zpool", "destroy", "tank"]);
    assert_eq!(done(at, &["zpool", "list", "-H"]), "");
    done(at, &["zpool", "create", "-f", "other", "mirror", "a", "b"]);
    judge(at, "other");
}

/// A pool mounted for writing; nothing, said aloud, where that can't be.
fn mounted(folder: &Path, directory: &Path, arguments: &[&str]) -> Option<Child> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return None;
    }
    let mut command = program(folder, &[&["mount", "-o", "rw"], arguments].concat());
    command.arg("tank").arg(directory).stdout(Stdio::piped());
    let mut server = command.spawn().expect("it starts");
    let mut line = String::new();
    let out = server.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("it says that it serves");
    assert!(line.contains("is mounted on") && line.contains("for writing"), "{line}");
    Some(server)
}

/// Commands of another process on a pool that is mounted.
fn carried_out_by_the_mount(at: &Path) {
    done(at, &["zfs", "create", "tank/x"]);
    refused(at, &["zfs", "create", "tank/x"], "dataset already exists");
    done(at, &["zfs", "set", "compression=gzip-9", "my:own=word", "tank/x"]);
    assert_eq!(done(at, &["zfs", "get", "-H", "-o", "value", "my:own", "tank/x"]), "word\n");
    done(at, &["zfs", "rename", "tank/x", "tank/y"]);
    done(at, &["zfs", "snapshot", "-r", "tank@mounted"]);
    done(at, &["zfs", "hold", "kept", "tank@mounted"]);
    refused(at, &["zfs", "destroy", "tank@mounted"], "held");
    done(at, &["zfs", "release", "kept", "tank@mounted"]);
    assert_eq!(
        done(at, &["zfs", "destroy", "-v", "tank/y@mounted"]).lines().next(),
        Some("will destroy tank/y@mounted")
    );
    done(at, &["zfs", "destroy", "tank/y"]);
    assert!(!done(at, &["zfs", "list", "-H"]).contains("tank/y"));
    done(at, &["zpool", "set", "comment=ours", "tank"]);
    done(at, &["zpool", "sync", "tank"]);
    let wrong = run(at, &["zfs", "set", "atime=perhaps", "tank"]);
    assert_eq!(wrong.status.code(), Some(1));
    let usage = run(at, &["zfs", "set", "atime", "tank"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn what_is_written_to_a_mount_is_there_afterwards_and_what_was_synced_survives_a_kill() {
    let folder = disks(&["a", "b"]);
    let (at, directory) = (folder.path(), fixtures::scratch::folder());
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    let Some(mut server) = mounted(at, directory.path(), &[]) else { return };
    let inside = |name: &str| directory.path().join(name);
    std::fs::create_dir(inside("d")).expect("a folder");
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    std::fs::write(inside("d/big"), &content).expect("it is written");
    std::fs::rename(inside("d/big"), inside("moved")).expect("it is renamed");
    carried_out_by_the_mount(at);
    // What others do is seen by who uses it.
    done(at, &["zfs", "create", "tank/child"]);
    std::fs::write(inside("child/file"), b"within").expect("it is written");
    let open = std::fs::File::open(inside("child/file")).expect("it is there");
    refused(at, &["zfs", "destroy", "tank/child"], "pool or dataset is busy");
    drop(open);
    let id = server.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("it runs").success());
    assert!(server.wait().expect("it ended").success());
    assert_eq!(std::fs::read_dir(directory.path()).expect("the folder").count(), 0);
    assert!(run(at, &["zfs", "cat", "tank:moved"]).stdout == content);
    assert!(run(at, &["zfs", "cat", "tank@mounted:moved"]).stdout == content);
    assert_eq!(done(at, &["zfs", "cat", "tank/child:file"]), "within");
    let history = done(at, &["zpool", "history", "tank"]);
    for command in ["zfs create tank/x", "zfs rename tank/x tank/y", "zpool set comment=ours tank"]
    {
        assert!(history.lines().any(|line| line.ends_with(command)), "{command}: {history}");
    }
    done(at, &["zfs", "snapshot", "tank@before"]);
    judge(at, "tank");
    let mut server = mounted(at, directory.path(), &[]).expect("as before");
    let mut file = std::fs::File::create(inside("d/kept")).expect("a file");
    file.write_all(b"synced").expect("it is written");
    file.sync_all().expect("it is durable");
    std::fs::remove_file(inside("moved")).expect("it goes");
    // The first took its group along. This one is in the intent log alone, with the names before it.
    let mut late = std::fs::File::create(inside("d/late")).expect("a file");
    late.write_all(&content[..400_000]).expect("it is written");
    late.sync_all().expect("it is durable");
    server.kill().expect("it is killed");
    server.wait().expect("it ended");
    drop((file, late));
    let _ = Command::new("umount").arg("-l").arg(directory.path()).status();
    assert_eq!(done(at, &["zfs", "cat", "tank:d/kept"]), "synced");
    assert!(run(at, &["zfs", "cat", "tank@before:moved"]).stdout == content);
    assert!(!run(at, &["zfs", "cat", "tank:d/late"]).status.success(), "not replayed yet");
    let modified = || std::fs::metadata(at.join("a")).and_then(|found| found.modified());
    let before = modified().expect("a disk");
    let view = run(at, &["zfs", "cat", "--replay-view", "tank:d/late"]);
    assert!(view.stdout == content[..400_000], "the log has it");
    assert_eq!(before, modified().expect("a disk"), "it is replayed in memory");
    let said = String::from_utf8_lossy(&view.stderr);
    assert!(!said.contains("can't be written"), "by an import: {said}");
    // This host had it: nobody has to be asked.
    done(at, &["zfs", "create", "tank/x"]);
    assert!(run(at, &["zfs", "cat", "tank:d/late"]).stdout == content[..400_000], "replayed");
    assert!(!run(at, &["zfs", "cat", "tank:moved"]).status.success(), "replayed");
    judge(at, "tank");
}

fn digest(at: &Path, content: &[u8]) -> String {
    std::fs::write(at.join("out"), content).expect("a file");
    let digest = Command::new("sha256sum").arg(at.join("out")).output().expect("it runs").stdout;
    String::from_utf8_lossy(&digest).split(' ').next().unwrap_or_default().to_owned()
}

/// Writes to a mount, makes it durable by the intent log, and is killed. Says what `logged` and `renamed` hold.
fn logged_and_killed(at: &Path) -> Option<Vec<u8>> {
    let directory = fixtures::scratch::folder();
    let mut server = mounted(at, directory.path(), &[])?;
    let inside = |name: &str| directory.path().join(name);
    let content: Vec<u8> = (0..700_000_u32).map(|n| (n / 3) as u8).collect();
    std::fs::File::create(inside("unlogged")).and_then(|file| file.sync_all()).expect("durable");
    for name in ["logged", "moved"] {
        let mut file = std::fs::File::create(inside(name)).expect("a file");
        file.write_all(&content).expect("it is written");
        file.set_len(600_000).expect("it is cut");
        file.sync_all().expect("it is durable");
    }
    std::fs::rename(inside("moved"), inside("renamed")).expect("it is renamed");
    std::fs::remove_file(inside("unlogged")).expect("it goes");
    let last = std::fs::File::create(inside("last")).expect("a file");
    last.sync_all().expect("it is durable");
    server.kill().expect("it is killed");
    server.wait().expect("it ended");
    drop(last);
    let _ = Command::new("umount").arg("-l").arg(directory.path()).status();
    Some([&content[..600_000], &content[..600_000]].concat())
}

/// What OpenZFS's machine says to a script, with these disks in `/p`; nothing, said aloud, where there is none.
pub(crate) fn kernel(at: &Path, disks: &[&str], script: &str) -> Option<String> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return None;
    }
    let copy = |from: &dyn Fn(&str, char) -> String| -> String {
        disks.iter().zip('a'..).map(|(name, node)| from(name, node)).collect()
    };
    let inward = copy(&|name, node| {
        format!("dd if=/dev/vd{node} of=/p/{name} bs=1M conv=sparse status=none\n")
    });
    let outward =
        copy(&|name, node| format!("dd if=/p/{name} of=/dev/vd{node} bs=1M status=none\n"));
    let begin = "set -e\nmkdir /p; mount -t tmpfs -o size=1g none /p\n";
    let path = at.join("check.sh");
    std::fs::write(&path, format!("{begin}{inward}{script}\n{outward}sync\n")).expect("a script");
    let mut machine = Command::new(&oracle);
    machine.args(["--mem", "3000", "--cache", "unsafe", "--timeout", "280"]);
    for name in disks {
        machine.arg("--disk").arg(at.join(name));
    }
    let output = machine.arg(&path).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

/// OpenZFS replays a log that leads to blocks, of long records with checksums and compressions that came late.
#[test]
#[ignore = "boots a machine: a minute"]
fn the_kernel_replays_a_log_that_leads_to_blocks() {
    let folder = disks(&["a", "b"]);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    let kinds = ["recordsize=1M", "compression=zstd", "checksum=skein", "logbias=throughput"];
    let options: Vec<&str> = kinds.iter().flat_map(|kind| ["-o", *kind]).collect();
    done(at, &[&["zfs", "create"], &options[..], &["tank/long"]].concat());
    let directory = fixtures::scratch::folder();
    let Some(mut server) = mounted(at, directory.path(), &[]) else { return };
    let file = |name: &str| directory.path().join("long").join(name);
    // The first takes its group along.
    std::fs::File::create(file("first")).and_then(|file| file.sync_all()).expect("durable");
    let mut content: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 3).wrapping_mul(n) as u8).collect();
    let mut logged = std::fs::File::create(file("logged")).expect("a file");
    logged.write_all(&content).expect("it is written");
    logged.sync_all().expect("it is durable");
    content.extend([7; 400_000]);
    logged.write_all(&content[3_000_000..]).expect("it is written");
    logged.sync_all().expect("it is durable");
    server.kill().expect("it is killed");
    server.wait().expect("it ended");
    drop(logged);
    let _ = Command::new("umount").arg("-l").arg(directory.path()).status();
    let script = "zpool import -f -d /p tank; echo logged $(sha256sum < /tank/long/logged)\n\
        zpool scrub -w tank; zpool status tank; echo more > /tank/long/more; zpool export tank";
    let Some(said) = kernel(at, &["a", "b"], script) else { return };
    assert!(said.contains(&format!("logged {}", digest(at, &content))), "{said}");
    assert!(said.contains("with 0 errors") && said.contains("No known data errors"), "{said}");
    assert_eq!(done(at, &["zfs", "cat", "tank/long:more"]), "more\n");
    judge(at, "tank");
}

/// The real OpenZFS goes on with a pool that Spindle made, and Spindle goes on after it.
#[test]
#[ignore = "boots a machine: a minute"]
fn the_kernel_goes_on_with_a_pool_and_gives_it_back() {
    let names = ["a", "b", "c", "d"];
    let folder = disks(&names);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "raidz1", "a", "b", "c", "log", "d"]);
    done(at, &["zfs", "create", "-p", "tank/home/anna"]);
    done(at, &["zfs", "snapshot", "-r", "tank@monday"]);
    let logged = logged_and_killed(at);
    let mut script = String::new();
    // Members that are files stay files to OpenZFS.
    // Spindle was killed: the kernel replays its log.
    let forced = if logged.is_some() { "-f" } else { "" };
    script += &format!("zpool import {forced} -d /p tank\n");
    script += "echo logged $(cat /tank/logged /tank/renamed | sha256sum); ls /tank\n\
        echo hello > /tank/one; mkdir /tank/home/anna/d\n\
        dd if=/dev/urandom of=/tank/home/anna/d/big bs=128k count=40 status=none\n\
        for i in $(seq 200); do echo $i > /tank/home/f$i; done\n\
        zfs snapshot -r tank@tuesday; zfs destroy tank/home/anna@monday; rm /tank/home/f1*\n\
        zpool scrub -w tank; zpool status tank\n\
        echo digest $(sha256sum < /tank/home/anna/d/big)\nzpool export tank\n\
        zpool import -d /p tank; echo first > /tank/first; sync; zpool sync tank; zpool freeze tank\n\
        mkdir /tank/after; dd if=/dev/urandom of=/tank/after/f bs=100k count=30 conv=fsync status=none\n\
        mv /tank/after/f /tank/after/g; truncate -s 2900000 /tank/after/g; ln /tank/after/g /tank/h\n\
        rm /tank/first; ln -s target /tank/after/link; chmod 640 /tank/after/g; sync /tank/after/g\n\
        echo frozen $(sha256sum < /tank/after/g)\n";
    let Some(said) = kernel(at, &names, &script) else { return };
    if let Some(logged) = logged {
        assert!(said.contains(&format!("logged {}", digest(at, &logged))), "{said}");
        assert!(!said.contains("unlogged"), "its name went: {said}");
    }
    assert!(said.contains("with 0 errors") && said.contains("No known data errors"), "{said}");
    let content = run(at, &["zfs", "cat", "tank/home/anna:d/big"]).stdout;
    assert!(said.contains(&format!("digest {}", digest(at, &content))), "{said}");
    // The kernel didn't close it, and its last deeds are in its log.
    done(at, &["zfs", "create", "-f", "tank/replayed"]);
    let frozen = run(at, &["zfs", "cat", "tank:after/g"]).stdout;
    assert!(frozen.len() == 2_900_000, "{} bytes", frozen.len());
    assert!(said.contains(&format!("frozen {}", digest(at, &frozen))), "{said}");
    assert!(run(at, &["zfs", "cat", "tank:h"]).stdout == frozen, "a second name");
    assert!(!run(at, &["zfs", "cat", "tank:first"]).status.success(), "it was removed");
    let stat = done(at, &["zfs", "stat", "tank:after/g"]);
    assert!(stat.contains("640"), "{stat}");
    assert_eq!(done(at, &["zfs", "cat", "tank:one"]), "hello\n");
    done(at, &["zfs", "snapshot", "-r", "tank@wednesday"]);
    done(at, &["zfs", "create", "tank/more"]);
    judge(at, "tank");
}

/// What could break: `zpool status` advises `zpool upgrade` for ever, which has nothing to enable.
#[test]
fn a_pool_with_all_that_is_written_here_is_not_to_be_upgraded() {
    let folder = disks(&["a"]);
    done(folder.path(), &["zpool", "create", "-m", "none", "tank", "a"]);
    assert!(!done(folder.path(), &["zpool", "status"]).contains("features"));
    done(folder.path(), &["zpool", "export", "tank"]);
    assert!(!done(folder.path(), &["zpool", "import"]).contains("features"));
    done(folder.path(), &["zpool", "destroy", "-f", "tank"]);
    let lacking =
        ["zpool", "create", "-f", "-m", "none", "-o", "feature@skein=disabled", "tank", "a"];
    done(folder.path(), &lacking);
    assert!(done(folder.path(), &["zpool", "status"]).contains("'zpool upgrade'"));
    done(folder.path(), &["zpool", "upgrade", "-a"]);
    assert!(!done(folder.path(), &["zpool", "status"]).contains("features"));
}

/// What could break: `zpool status` of a degraded pool advises commands that lead nowhere.
#[test]
fn what_status_advises_and_is_not_there_says_what_to_do() {
    let folder = disks(&["a"]);
    done(folder.path(), &["zpool", "create", "-m", "none", "tank", "a"]);
    for verb in ["online", "offline", "replace", "attach", "detach"] {
        refused(folder.path(), &["zpool", verb, "tank", "a"], "zfs cp -r copies its files out");
        refused(folder.path(), &["zpool", verb, "tank", "a"], "replaces and resilvers");
    }
    refused(folder.path(), &["zpool", "scrub", "tank"], "zpool scrub --read-only looks for damage");
    done(folder.path(), &["zpool", "scrub", "--read-only", "tank"]);
}

/// What could break: a device that has grown is used though nobody said so, or isn't though somebody did; a pool that is held is told of a
/// success.
#[test]
fn a_vdev_takes_in_what_its_device_has_grown_by_when_that_is_asked_for() {
    fixtures::takes_long!();
    let folder = disks(&["a", "b"]);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    let sizes = |at: &Path| done(at, &["zpool", "list", "-Hpo", "size,expandsize", "tank"]);
    let before = sizes(at);
    assert!(before.ends_with("\t-\n"), "{before}");
    let grow = |name: &str, bytes: u64| {
        File::options()
            .write(true)
            .open(at.join(name))
            .and_then(|disk| disk.set_len(bytes))
            .expect("it grows");
    };
    grow("a", 256 << 20);
    done(at, &["zpool", "online", "-e", "tank", "a"]);
    assert_eq!(sizes(at), before, "the other has not grown");
    grow("b", 256 << 20);
    let told = sizes(at);
    assert!(
        !told.ends_with("\t-\n") && told.split('\t').next() == before.split('\t').next(),
        "{told}"
    );
    done(at, &["zfs", "create", "tank/x"]);
    assert_eq!(sizes(at), told, "nobody asked");
    refused(
        at,
        &["zpool", "online", "tank", "a"],
        "zpool online -e takes in what a device has grown by",
    );
    refused(at, &["zpool", "online", "-e", "tank", "c"], "cannot expand c: no such device in pool");
    done(at, &["zpool", "online", "-e", "tank", at.join("b").to_str().expect("text")]);
    let size = |text: &str| {
        text.split('\t').next().and_then(|size| size.parse::<u64>().ok()).expect("a size")
    };
    let after = sizes(at);
    assert!(size(&after) > size(&before) + (100 << 20) && after.ends_with("\t-\n"), "{after}");
    judge(at, "tank");
    // By the property: what it finds, and whatever comes.
    ["a", "b"].iter().for_each(|name| grow(name, 384 << 20));
    done(at, &["zpool", "set", "autoexpand=on", "tank"]);
    let again = sizes(at);
    assert!(size(&again) > size(&after) + (100 << 20) && again.ends_with("\t-\n"), "{again}");
    ["a", "b"].iter().for_each(|name| grow(name, 512 << 20));
    done(at, &["zfs", "create", "tank/y"]);
    let last = sizes(at);
    assert!(size(&last) > size(&again) + (100 << 20) && last.ends_with("\t-\n"), "{last}");
    judge(at, "tank");
    let holder = Holder::start(at, "pools = [\"tank\"]\n");
    let why = "who holds it has its devices open as large as they were: export it first";
    refused(at, &["zpool", "online", "-e", "tank", "a"], why);
    holder.stop();
}

/// What could break: who creates a pool by a script of OpenZFS's has to set half of its properties afterwards.
#[test]
fn a_pool_gets_its_properties_when_it_is_made() {
    let folder = disks(&["a"]);
    let at = folder.path();
    let properties =
        ["-o", "failmode=continue", "-o", "autotrim=on", "-o", "autoexpand=on", "-o", "my:own=x y"];
    done(at, &[&["zpool", "create"][..], &properties, &["tank", "a"]].concat());
    let wanted = "failmode,autotrim,autoexpand,my:own,delegation";
    let lines = done(at, &["zpool", "get", "-Ho", "value,source", wanted, "tank"]);
    assert_eq!(lines, "continue\tlocal\non\tlocal\non\tlocal\nx y\tlocal\non\tdefault\n");
    judge(at, "tank");
    refused(at, &["zpool", "create", "-f", "-o", "failmode=maybe", "b", "a"], "must be one of");
}

#[test]
fn a_new_pool_says_how_fragmented_it_is_and_its_disks_are_free_when_it_is_destroyed() {
    let folder = disks(&["a", "b"]);
    let at = folder.path();
    for (option, why) in [
        ("feature@async_destroy=maybe", "can only be set to 'enabled' or 'disabled'"),
        ("altroot=here", "altroot"),
    ] {
        refused(at, &["zpool", "create", "-o", option, "tank", "a"], why);
    }
    done(at, &["zpool", "create", "-o", "altroot=/nowhere", "-o", "cachefile=none", "tank", "a"]);
    done(at, &["zfs", "create", "tank/x"]);
    // The longest free stretches of so small a disk have 8 MiB and more: OpenZFS 2.3 calls that 23 %.
    assert_eq!(done(at, &["zpool", "list", "-Ho", "frag", "tank"]), "23%\n");
    judge(at, "tank");
    done(at, &["zpool", "set", "cachefile=none", "tank"]);
    refused(at, &["zpool", "upgrade", "-V", "28", "tank"], "no version of before");
    done(at, &["zpool", "import", "-o", "rw,noatime,nodev", "tank"]);
    refused(at, &["zpool", "import", "-o", "rw,sideways", "tank"], "no option of mounts");
    refused(at, &["zpool", "create", "other", "a"], "a part of exported pool 'tank'");
    done(at, &["zpool", "destroy", "tank"]);
    done(at, &["zpool", "create", "other", "a"]);
    judge(at, "other");
}

#[test]
fn pools_are_listed_again_and_again() {
    let folder = disks(&["a"]);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    let listed = done(at, &["zpool", "list", "-o", "name", "tank", "0.01", "3"]);
    assert_eq!(listed, "NAME\ntank\ntank\ntank\n");
    let told = done(at, &["zpool", "status", "0.01", "2"]);
    assert_eq!(told.matches("pool: tank").count(), 2, "{told}");
    refused(at, &["zpool", "list", "0"], "interval cannot be zero");
}

/// What could break: a layout that is shown as what would be made, and then is refused.
#[test]
fn what_create_refuses_is_refused_with_n_too_and_writes_nothing() {
    let folder = disks(&["a", "b", "small"]);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    File::options()
        .write(true)
        .open(at.join("small"))
        .and_then(|disk| disk.set_len(8 << 20))
        .expect("cut");
    let before = fixtures::images(at);
    for (words, why) in [
        (&["other", "a"][..], "it holds a ZFS pool member"),
        (&["tank", "b"], "pool already exists"),
        (&["other", "b", "b"], "is given twice"),
        (&["other", "nothing"], "nothing"),
        (&["other", "small"], "small"),
    ] {
        for option in [&["-n"][..], &[]] {
            refused(at, &[&["zpool", "create"], option, words].concat(), why);
        }
    }
    let shown = done(at, &["zpool", "create", "-n", "other", "b"]);
    assert!(shown.contains("would create 'other'"), "{shown}");
    assert!(fixtures::images(at) == before, "nothing is written");
}

/// What could break: root, who is told to become root.
#[test]
fn root_is_not_told_to_be_root() {
    let folder = disks(&["a"]);
    let at = folder.path();
    let immutable = |how: &str| {
        let mut chattr = Command::new("chattr");
        let changed = chattr.args([how, "a"]).current_dir(at).stderr(Stdio::null()).status();
        changed.is_ok_and(|status| status.success())
    };
    if !rustix::process::geteuid().is_root() || !immutable("+i") {
        return println!("skipped: nothing is made immutable here");
    }
    let said = run(at, &["zpool", "create", "tank", "a"]);
    assert!(immutable("-i"));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("not even root may") && !said.contains("run it as root"), "{said}");
}
