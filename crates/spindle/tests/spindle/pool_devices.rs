//! Pools on whatever is a device: RAID sets, logical volumes, partitions, exports of NBD servers.
//!
//! What could break: something overwritten that lies below or above; a set below a pool opened twice, or left dirty, or stopped before
//! what lies on it; a degraded set that a pool is not written on; a pool that is torn by a kill because a flush ended halfway
//! down; a server that goes away, and with it what was acknowledged; labels that OpenZFS doesn't read.

use crate::pools;
use crate::serving;
use fixtures::extent::some;

use attach::Events;
use attach::disks::Disks;
use fixtures::noise;
use pools::{add_disks, done, printed_and_said, program, refused, run, zdb};
use rt::Request;
use serving::{Serving, ask_to_write, connected};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use stdx::{ByteCount, Offset};
use tempfile::TempDir;

const DISK: u64 = 80 << 20;
const MIB: usize = 1 << 20;

/// A folder with `disks`, in which these lie.
fn folder(names: &[&str]) -> TempDir {
    let folder = fixtures::scratch::folder();
    fs::create_dir(folder.path().join("disks")).expect("a folder");
    add_disks(&folder.path().join("disks"), names, DISK);
    folder
}

/// A RAID 5 set of three disks.
fn raid5(at: &Path, name: &str, disks: [&str; 3]) {
    let disks = disks.map(|disk| format!("disks/{disk}"));
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    let make = ["md", "create", name, "-l", "5", "-n", "3", "--assume-clean"];
    done(at, &[&make[..], &disks].concat());
}

fn two_sets() -> TempDir {
    let folder = folder(&["a", "b", "c", "d", "e", "f"]);
    raid5(folder.path(), "left", ["a", "b", "c"]);
    raid5(folder.path(), "right", ["d", "e", "f"]);
    folder
}

/// Writes a volume out as a file, without the program.
fn dump(at: &Path, volume: &str, to: &Path) {
    let disks = Disks::open(&Events::unheard(), &[at.join("disks")]).expect("they open");
    let device = disks.volume(volume).expect("it is there").device;
    let len = device.geometry().capacity.bytes();
    let file = File::create(to).expect("a file");
    file.set_len(len).expect("room");
    for from in (0..len).step_by(MIB) {
        let request = Request::read(Offset(from), ByteCount((len - from).min(MIB as u64)));
        let its = Rc::clone(&device);
        let bytes = disks.wait(async move { its.submit(request).await }).expect("it is read");
        let bytes = bytes.to_vec();
        if !fixtures::is_zeros(&bytes) {
            file.write_all_at(&bytes, from).expect("room");
        }
    }
}

/// What `zdb` says of a pool on these volumes, and where its labels say that it lies.
fn judge(at: &Path, pool: &str, volumes: &[(&str, &str)]) {
    let dumped = fixtures::scratch::folder();
    for (n, (volume, path)) in volumes.iter().enumerate() {
        let to = dumped.path().join(format!("v{n}"));
        dump(at, volume, &to);
        let Ok(label) = Command::new("zdb").arg("-l").arg(&to).output() else { continue };
        let text = String::from_utf8_lossy(&label.stdout).into_owned();
        assert!(text.contains(&format!("path: '{path}'")), "{volume}: {text}");
    }
    if let Some(text) = zdb(dumped.path(), &["-bcc", pool]) {
        assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
    }
    done(at, &["zpool", "scrub", "--read-only", pool]);
}

/// What a set is, in words.
fn state(at: &Path, set: &str) -> String {
    let detail = done(at, &["md", "detail", set]);
    let line = detail.lines().find_map(|line| line.trim().strip_prefix("State : "));
    line.unwrap_or_else(|| panic!("{detail}")).trim().to_owned()
}

fn is_clean(at: &Path, set: &str) {
    assert_eq!(state(at, set), "clean");
    assert_eq!(done(at, &["md", "check", set]), "mismatch_cnt = 0\n");
}

/// Copies a new file into the pool's root file system, and reads it back.
fn write(at: &Path, name: &str, seed: u64) {
    let bytes = noise(seed, 3 * MIB + 17);
    fs::write(at.join(name), &bytes).expect("a file");
    done(at, &["zfs", "cp", name, &format!("tank:{name}")]);
    assert!(read(at, name) == bytes, "{name}");
}

fn read(at: &Path, name: &str) -> Vec<u8> {
    let output = run(at, &["zfs", "cat", &format!("tank:{name}")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_pool_of_two_raid_5_sets_is_made_written_degraded_and_read() {
    fixtures::takes_long!();
    let folder = two_sets();
    let at = folder.path();
    for (words, why) in [
        (&["disks/a"][..], "it holds an md RAID member"),
        (&["left", "left"], "'left' is given twice"),
        (&["left", "/dev/md/left"], "share storage"),
        (&["left", "-f", "disks/b"], "share storage"),
        (&["nothing"], "'nothing': there is no such volume on the devices (there are "),
    ] {
        refused(at, &[&["zpool", "create", "tank"], words].concat(), why);
    }
    is_clean(at, "left");
    done(at, &["zpool", "create", "tank", "left", "/dev/md/right"]);
    refused(at, &["zpool", "create", "other", "left"], "left: it holds a ZFS pool member");
    refused(at, &["zpool", "add", "-f", "tank", "right"], "'right' is a part of pool 'tank'");
    refused(at, &["zpool", "add", "-f", "tank", "disks/b"], "'disks/b' is a part of pool 'tank'");
    let status = done(at, &["zpool", "status", "tank"]);
    let rows: Vec<&str> =
        status.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(rows.contains(&"left") && rows.contains(&"right"), "{status}");
    done(at, &["zfs", "create", "tank/home"]);
    write(at, "one", 1);
    let sets = [("left", "/dev/md/left"), ("right", "/dev/md/right")];
    judge(at, "tank", &sets);
    is_clean(at, "left");
    is_clean(at, "right");
    // A member that failed is known to have.
    done(at, &["md", "fail", "left", "disks/b"]);
    write(at, "two", 2);
    done(at, &["zfs", "snapshot", "tank@two"]);
    assert_eq!(state(at, "left"), "clean, degraded");
    // One that went without a word is not done without on its own account.
    fs::rename(at.join("disks/e"), at.join("e")).expect("it is taken away");
    assert!(read(at, "two") == noise(2, 3 * MIB + 17));
    let lacking = "which can't be written: /dev/md/right: 2 drives of 3 members";
    refused(at, &["zfs", "create", "tank/x"], lacking);
    done(at, &["md", "assemble", "--run", "right"]);
    write(at, "three", 3);
    judge(at, "tank", &sets);
    done(at, &["zpool", "export", "tank"]);
    done(at, &["zpool", "import", "tank", "old"]);
    assert!(done(at, &["zpool", "list", "-Ho", "name,health"]).starts_with("old\tONLINE"));
    done(at, &["zpool", "destroy", "old"]);
    refused(at, &["zpool", "labelclear", "nothing"], "no such volume");
    done(at, &["zpool", "labelclear", "-f", "left"]);
    assert_eq!(state(at, "left"), "clean, degraded");
}

/// A server of a configuration; it is killed where the test fails.
struct Holder(Child);

impl Holder {
    /// Once it says that it serves.
    fn start(at: &Path, configuration: &str) -> Holder {
        fs::write(at.join("spindle.toml"), configuration).expect("a configuration");
        let mut command = program(at, &["serve", "--config", "spindle.toml"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        while !said.contains("spindle: holding") && !said.contains("spindle: serving") {
            assert!(lines.read_line(&mut said).expect("a line") > 0, "it ended: {said}");
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Holder(child)
    }

    #[track_caller]
    fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").arg(id).status().expect("kill runs").success());
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // After it has ended there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sets_below_a_pool_that_is_held_are_cared_for_and_stopped_after_it() {
    fixtures::takes_long!();
    let folder = two_sets();
    let at = folder.path();
    add_disks(&at.join("disks"), &["spare", "x", "y", "z"], DISK);
    raid5(at, "more", ["x", "y", "z"]);
    done(at, &["zpool", "create", "tank", "left"]);
    done(at, &["zfs", "create", "-V", "16M", "tank/v"]);
    write(at, "one", 1);
    let holder = Holder::start(at, "listen = [\"unix:s\"]\npools = [\"tank\"]\n");
    refused(at, &["md", "stop", "left"], "serves other things too");
    let (_, said) = printed_and_said(at, &["md", "fail", "left", "disks/a"]);
    assert!(said.is_empty() || said.contains("left"), "{said}");
    write(at, "two", 2);
    done(at, &["md", "add", "left", "disks/spare"]);
    let until = Instant::now() + Duration::from_secs(60);
    while !["clean", "active"].contains(&state(at, "left").as_str()) {
        assert!(Instant::now() < until, "{}", state(at, "left"));
        sleep(Duration::from_millis(100));
    }
    // The spare is a member now: whoever holds the pool is found by it.
    done(at, &["zfs", "create", "tank/home"]);
    refused(at, &["zpool", "add", "tank", "left"], "'left' is a part of pool 'tank'");
    done(at, &["zpool", "add", "tank", "more"]);
    write(at, "three", 3);
    refused(at, &["md", "stop", "more"], "serves other things too");
    done(at, &["zfs", "snapshot", "tank@s"]);
    holder.stop();
    for set in ["left", "more"] {
        is_clean(at, set);
    }
    for (name, seed) in [("one", 1), ("two", 2), ("three", 3)] {
        assert!(read(at, name) == noise(seed, 3 * MIB + 17), "{name}");
    }
    judge(at, "tank", &[("left", "/dev/md/left"), ("more", "/dev/md/more")]);
}

/// Exports of a set beside a pool on it: one executor has the set, whichever had been dealt it.
#[test]
fn a_set_is_open_once_for_a_pool_and_for_what_is_served_beside_it() {
    fixtures::takes_long!();
    let folder = two_sets();
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "left"]);
    done(at, &["zfs", "create", "-V", "8M", "tank/v"]);
    let text = "listen = [\"unix:s\"]\nexecutors = 2\n[[export]]\nname = \"v\"\nvolume = \"tank/v\"\n\
        [[export]]\nname = \"right\"\nvolume = \"right\"\n";
    let holder = Holder::start(at, text);
    let bytes = noise(5, 8 * MIB);
    fs::write(at.join("bytes"), &bytes).expect("a file");
    if Command::new("nbdcopy").arg("--version").output().is_ok() {
        for export in ["v", "right"] {
            let uri = format!("nbd+unix:///{export}?socket=s");
            let copied = Command::new("nbdcopy").args(["bytes", &uri]).current_dir(at).status();
            assert!(copied.expect("it starts").success(), "{export}");
        }
    } else {
        println!("skipped in part: nbdcopy is not installed (Debian: libnbd-bin)");
    }
    holder.stop();
    is_clean(at, "left");
    is_clean(at, "right");
    judge(at, "tank", &[("left", "/dev/md/left")]);
}

#[test]
fn a_pool_lies_on_logical_volumes_and_nothing_below_them_is_overwritten() {
    fixtures::takes_long!();
    let folder = folder(&["p", "q", "a", "b", "c"]);
    let at = folder.path();
    raid5(at, "set", ["a", "b", "c"]);
    done(at, &["lvm", "vgcreate", "vg", "disks/p", "disks/q", "-s", "1m"]);
    done(at, &["lvm", "vgcreate", "on", "set", "-s", "1m"]);
    for (group, name) in [("vg", "data"), ("vg", "more"), ("on", "data")] {
        done(at, &["lvm", "lvcreate", group, "-n", name, "-L", "70m"]);
    }
    for (words, why) in [
        (&["disks/p"][..], "it holds an LVM physical volume"),
        (&["set"], "set: it holds an LVM physical volume"),
        (&["-f", "vg/data", "disks/q"], "share storage"),
        (&["-f", "on/data", "set"], "share storage"),
        (&["-f", "on/data", "disks/b"], "share storage"),
        (&["vg/data", "/dev/vg/data"], "share storage"),
        (&["vg/none"], "no logical volume none"),
    ] {
        refused(at, &[&["zpool", "create", "tank"], words].concat(), why);
    }
    done(at, &["zpool", "create", "tank", "mirror", "vg/data", "/dev/on/data"]);
    write(at, "one", 1);
    refused(at, &["zpool", "add", "-f", "tank", "vg/data"], "is a part of pool 'tank'");
    refused(at, &["zpool", "add", "-f", "tank", "set"], "'set' is a part of pool 'tank'");
    refused(at, &["zpool", "add", "tank", "vg/more"], "pool uses mirror and new vdev is disk");
    done(at, &["zpool", "add", "-f", "tank", "vg/more"]);
    write(at, "two", 2);
    is_clean(at, "set");
    let volumes =
        [("vg/data", "/dev/vg/data"), ("on/data", "/dev/on/data"), ("vg/more", "/dev/vg/more")];
    judge(at, "tank", &volumes);
    // While the pool is held nobody changes the group.
    let holder = Holder::start(at, "listen = [\"unix:s\"]\npools = [\"tank\"]\n");
    refused(at, &["lvm", "lvremove", "vg/more", "--yes"], "another process");
    done(at, &["zfs", "create", "tank/home"]);
    holder.stop();
    // Half a mirror is written.
    fs::rename(at.join("disks/c"), at.join("c")).expect("it is taken away");
    fs::rename(at.join("disks/b"), at.join("b")).expect("it is taken away");
    assert!(read(at, "two") == noise(2, 3 * MIB + 17));
    write(at, "three", 3);
}

#[test]
fn a_pool_lies_on_partitions_of_disks_and_of_sets() {
    if Command::new("sgdisk").arg("--version").output().is_err() {
        return println!("skipped: sgdisk is not installed (Debian package gdisk)");
    }
    let folder = folder(&["a", "b", "c"]);
    let at = folder.path();
    File::create(at.join("disks/p")).and_then(|file| file.set_len(3 * DISK)).expect("a disk");
    raid5(at, "set", ["a", "b", "c"]);
    let parted = |path: &Path| {
        let parts = ["-n", "1:2048:+70M", "-n", "2:0:+70M"];
        let made = Command::new("sgdisk").args(parts).arg(path).output().expect("it starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    parted(&at.join("disks/p"));
    // The table of a set is written through it.
    let table = at.join("table");
    dump(at, "set", &table);
    parted(&table);
    let serving = {
        let mut command = program(at, &["serve", "--volume", "set", "--nbd", "unix:s"]);
        Serving::start(&mut command)
    };
    let uri = "nbd+unix:///?socket=s";
    let copied = Command::new("nbdcopy").args(["table", uri]).current_dir(at).status();
    if !copied.is_ok_and(|ran| ran.success()) {
        return println!("skipped: nbdcopy is not installed (Debian: libnbd-bin)");
    }
    serving.stop();
    for (words, why) in [
        (&["disks/p"][..], "it holds a GPT partition table"),
        (&["set"], "set: it holds a GPT partition table"),
        (&["-f", "disks/p:1", "disks/p"], "share storage"),
        (&["-f", "set:1", "set"], "share storage"),
        (&["disks/p:3"], "no such volume"),
    ] {
        refused(at, &[&["zpool", "create", "tank"], words].concat(), why);
    }
    done(at, &["zpool", "create", "tank", "disks/p:1", "set:1"]);
    write(at, "one", 1);
    done(at, &["zpool", "add", "tank", "disks/p:2"]);
    write(at, "two", 2);
    is_clean(at, "set");
    let disk = at.join("disks/p").canonicalize().expect("it is there");
    let path = |number: u32| format!("{}:{number}", disk.display());
    let volumes =
        [("disks/p:1", path(1)), ("set:1", "/dev/md/set1".to_owned()), ("disks/p:2", path(2))];
    let volumes: Vec<(String, &str)> = volumes
        .iter()
        .map(|(volume, path)| {
            (volume.replace("disks/", &format!("{}/disks/", at.display())), &**path)
        })
        .collect();
    let volumes: Vec<(&str, &str)> =
        volumes.iter().map(|(volume, path)| (volume.as_str(), *path)).collect();
    judge(at, "tank", &volumes);
}

/// The program, on exports.
fn on_exports(at: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command
        .current_dir(at)
        .env("SPINDLE_DEVICES", "nbd+unix:///one?socket=s:nbd+unix:///two?socket=t");
    command.env("SPINDLE_RUN_DIR", at.join("run")).env("ZFS_HOSTID", "0x5eed").args(arguments);
    command
}

#[track_caller]
fn done_there(at: &Path, arguments: &[&str]) -> String {
    let output = on_exports(at, arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused_there(at: &Path, arguments: &[&str], why: &str) {
    let output = on_exports(at, arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(why), "{arguments:?}: {said}");
}

fn export(at: &Path, name: &str, socket: &str) -> Serving {
    let address = format!("unix:{socket}");
    let disk = format!("disks/{name}");
    let arguments = ["serve", &disk, "--nbd", &address, "--name", name];
    Serving::start(&mut program(at, &arguments))
}

const ONE: &str = "nbd+unix:///one?socket=s";
const TWO: &str = "nbd+unix:///two?socket=t";

#[test]
fn a_pool_of_exports_is_written_and_goes_on_when_their_server_is_back() {
    fixtures::takes_long!();
    let folder = folder(&["one", "two", "full"]);
    let at = folder.path();
    fs::write(at.join("disks/full"), b"something").expect("a file");
    fs::OpenOptions::new()
        .write(true)
        .open(at.join("disks/full"))
        .and_then(|file| file.set_len(DISK))
        .expect("a disk");
    let (one, two) = (export(at, "one", "s"), export(at, "two", "t"));
    let full = export(at, "full", "u");
    refused_there(at, &["zpool", "create", "tank", "nbd+unix:///full?socket=u"], "it holds");
    refused_there(at, &["zpool", "create", "tank", ONE, ONE], "given twice");
    refused_there(at, &["zpool", "create", "tank", "nbds://localhost/x"], "encrypted are not made");
    refused_there(
        at,
        &["zpool", "create", "tank", "nbd+unix:///one?socket=v"],
        "connecting to unix:",
    );
    full.stop();
    done_there(at, &["zpool", "create", "tank", ONE, TWO]);
    let status = done_there(at, &["zpool", "status", "tank"]);
    assert!(status.contains(ONE) && status.contains(TWO), "{status}");
    let bytes = noise(1, 3 * MIB);
    fs::write(at.join("file"), &bytes).expect("a file");
    done_there(at, &["zfs", "cp", "file", "tank:file"]);
    done_there(at, &["zfs", "create", "-V", "24M", "tank/v"]);
    // Another process holds it: by the exports' locks it is found, and nobody else writes.
    let mut holder = on_exports(at, &["serve", "--volume", "tank/v", "--nbd", "unix:w"]);
    let holder = Serving::start(&mut holder);
    done_there(at, &["zfs", "create", "tank/home"]);
    // The server of one dies with what was answered, and comes back.
    let volume = noise(7, 24 * MIB);
    fs::write(at.join("volume"), &volume).expect("a file");
    let copying = Command::new("nbdcopy")
        .args(["--flush", "volume", "nbd+unix:///?socket=w"])
        .current_dir(at)
        .spawn();
    let Ok(mut copying) = copying else {
        return println!("skipped: nbdcopy is not installed (Debian: libnbd-bin)");
    };
    sleep(Duration::from_millis(150));
    one.kill();
    sleep(Duration::from_millis(300));
    let one = export(at, "one", "s");
    let until = Instant::now() + Duration::from_secs(60);
    while copying.try_wait().expect("it is ours").is_none() {
        assert!(Instant::now() < until, "it does not go on");
        // Where it came to that.
        let _ = on_exports(at, &["zpool", "clear", "tank"]).output().expect("it starts");
        sleep(Duration::from_millis(500));
    }
    assert!(copying.wait().expect("it ended").success(), "all of it was taken");
    done_there(at, &["zpool", "clear", "tank"]);
    holder.stop();
    one.stop();
    two.stop();
    // What the exports lie on is what a pool lies on.
    pools::judge(at, "tank");
    assert!(read(at, "file") == bytes);
    let dumped = run(at, &["zfs", "dump", "tank/v", "-"]).stdout;
    assert!(dumped == volume, "the volume is what was written");
    // An export that nobody serves is a device that is missing.
    let _one = export(at, "one", "s");
    let output = on_exports(at, &["zpool", "import"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("state: UNAVAIL"), "{text}");
}

/// What could break: a pool whose devices are all away is said not to be, by who could ask its holder.
#[test]
fn a_pool_whose_servers_are_all_down_is_told_by_who_holds_it() {
    fixtures::takes_long!();
    let folder = folder(&["one", "two"]);
    let at = folder.path();
    let (one, two) = (export(at, "one", "s"), export(at, "two", "t"));
    done_there(at, &["zpool", "create", "tank", ONE, TWO]);
    done_there(at, &["zfs", "create", "-V", "16M", "tank/v"]);
    let serve = ["serve", "--volume", "tank/v", "--name", "v", "--nbd", "unix:w"];
    let holder = Serving::start(&mut on_exports(at, &serve));
    let mut client = connected(&at.join("w"), "v").expect("it is served");
    let online = done_there(at, &["zpool", "status", "tank"]);
    assert!(online.contains(" state: ONLINE\n"), "{online}");
    one.kill();
    two.kill();
    refused_there(at, &["zpool", "status", "none"], "cannot open 'none': no such pool");
    let told = done_there(at, &["zpool", "status"]);
    assert!(told.contains("  pool: tank\n") && told.contains("can't be reached"), "{told}");
    assert!(told.contains(ONE) && told.contains(TWO), "{told}");
    // Whoever writes finds out.
    ask_to_write(&mut client, 4096);
    ask_to_write(&mut client, 0);
    let mut others = done_there(at, &["zpool", "status", "tank"]);
    let until = Instant::now() + Duration::from_secs(60);
    while !others.contains(" state: SUSPENDED\n") {
        assert!(Instant::now() < until, "{others}");
        sleep(Duration::from_millis(100));
        others = done_there(at, &["zpool", "status", "tank"]);
    }
    for line in [
        "status: One or more devices are faulted in response to IO failures.\n",
        "/msg/ZFS-8000-HC\n",
        "errors: List of errors unavailable: pool I/O is currently suspended\n",
    ] {
        assert!(others.contains(line), "{line}: {others}");
    }
    let rows = others.lines().filter(|line| line.contains(ONE) || line.contains(TWO));
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 2, "{others}");
    // Which of them was written to first is not known.
    let errors = rows.iter().flat_map(|row| row.split_whitespace().skip(2));
    let errors = errors.map(|word| word.parse::<u64>().expect("a number"));
    assert!(errors.sum::<u64>() > 0, "{others}");
    let json = done_there(at, &["zpool", "status", "-j", "tank"]);
    assert!(json.contains("\"state\":\"SUSPENDED\"") && json.contains("ZFS-8000-HC"), "{json}");
    // So do the others, as far as who holds it tells.
    let list = ["zpool", "list", "-Ho", "name,health,size", "tank"];
    assert_eq!(done_there(at, &list), "tank\tSUSPENDED\t-\n");
    let list = done_there(at, &["zpool", "list"]);
    assert!(list.contains("tank ") && list.contains(" SUSPENDED "), "{list}");
    let json = done_there(at, &["zpool", "list", "-j"]);
    assert!(json.contains("\"state\":\"SUSPENDED\""), "{json}");
    let got = done_there(at, &["zpool", "get", "-Ho", "property,value", "health,size", "tank"]);
    assert_eq!(got, "health\tSUSPENDED\nsize\t-\n");
    let why = "cannot export 'tank': pool I/O is currently suspended";
    refused_there(at, &["zpool", "export", "tank"], why);
    refused_there(at, &["zpool", "export", "none"], "cannot open 'none': no such pool");
    // One of two is not enough to open it.
    let one = export(at, "one", "s");
    let told = done_there(at, &["zpool", "status", "tank"]);
    assert!(told.contains(" state: SUSPENDED\n"), "{told}");
    assert_eq!(done_there(at, &["zpool", "list", "-Ho", "health", "tank"]), "SUSPENDED\n");
    let two = export(at, "two", "t");
    while !run_there(at, &["zpool", "clear", "tank"]) {
        assert!(Instant::now() < until, "it is not resumed");
        sleep(Duration::from_millis(300));
    }
    // What was written is durable now.
    let mut answers = [0; 2 * 16];
    client.read_exact(&mut answers).expect("it is answered");
    assert!(answers.chunks(16).all(|answer| answer[4..8] == [0; 4]), "{answers:?}");
    drop(client);
    let online = done_there(at, &["zpool", "status", "tank"]);
    assert!(online.contains(" state: ONLINE\n"), "{online}");
    done_there(at, &["zfs", "create", "-p", "tank/home/anna"]);
    holder.stop();
    one.stop();
    two.stop();
    pools::judge(at, "tank");
}

fn run_there(at: &Path, arguments: &[&str]) -> bool {
    on_exports(at, arguments).output().expect("it starts").status.success()
}

/// What was copied in whole and durably is there after a kill, whatever was under way.
#[test]
fn a_kill_in_the_midst_leaves_a_pool_on_raid_5_sets_whole() {
    fixtures::takes_long!();
    let folder = two_sets();
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "left", "right"]);
    done(at, &["zfs", "create", "-V", "32M", "tank/v"]);
    write(at, "kept", 1);
    fs::create_dir(at.join("tree")).expect("a folder");
    for n in 0..40 {
        fs::write(at.join(format!("tree/{n}")), noise(n, 300_000)).expect("a file");
    }
    for round in some(0..6_u64, 1) {
        let target = format!("tank:tree{round}");
        let mut copy = program(at, &["zfs", "cp", "-r", "tree/.", &target]);
        let mut child =
            copy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        sleep(Duration::from_millis(80 + 90 * round));
        // It may have ended.
        let _ = child.kill();
        let _ = child.wait();
        for set in ["left", "right"] {
            // As a start after a power cut does.
            done(at, &["md", "assemble", set]);
            is_clean(at, set);
        }
        done(at, &["zpool", "import", "-f", "tank"]);
        assert!(read(at, "kept") == noise(1, 3 * MIB + 17), "round {round}");
        judge(at, "tank", &[("left", "/dev/md/left"), ("right", "/dev/md/right")]);
    }
    write(at, "after", 2);
    std::io::stdout().flush().expect("it is ours");
}

/// What could break: what looks like a mistake is told as often as a command looks at the devices.
#[test]
fn a_note_on_devices_is_said_once_by_a_command_that_writes() {
    let folder = pools::disks(&["a"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "w", "a"]);
    fs::copy(at.join("a"), at.join("copy")).expect("it is copied");
    let (_, said) = printed_and_said(at, &["zfs", "create", "w/d"]);
    assert_eq!(
        said.matches("both say that they are the same device of pool 'w'").count(),
        1,
        "{said}"
    );
}
