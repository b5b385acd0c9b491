//! RAID sets, partitions and logical volumes of them, served for writing by `spindle serve`.
//!
//! What could break: a set below two exports is opened twice, or for reading alone; a write through a partition or
//! logical volume lands elsewhere, or is not recorded; a server that is killed leaves parity that does not fit; one that
//! is stopped leaves a set that is not clean; somebody else writes to what is served.

use crate::serving;

use export::nbd::{Client, ClientOptions};
use host::{Address, HostRuntime, ReactorKind, SocketStream};
use rt::{Buf, Device, IoErrorKind, Request, SgList};
use serving::Serving;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

const MIB: usize = 1 << 20;
/// Where LVM's extents begin on a physical volume.
const EXTENTS_AT: usize = MIB;
/// Bytes of the logical volume.
const VOLUME: usize = 16 * MIB;
/// Steps of 20 ms that something is waited for.
const WAITS_MAX: usize = 1500;

fn spindle(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(arguments).current_dir(dir).env_remove("SPINDLE_DEVICES");
    command.env("SPINDLE_RUN_DIR", dir.join("run"));
    command.output().expect("the program starts")
}

#[track_caller]
fn done(dir: &Path, arguments: &[&str]) -> String {
    let output = spindle(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The last line that a failing call prints.
#[track_caller]
fn refusal(dir: &Path, arguments: &[&str]) -> String {
    let output = spindle(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}: {said}");
    said.lines().last().unwrap_or_default().to_owned()
}

#[track_caller]
fn refused(dir: &Path, arguments: &[&str], saying: &str) {
    let line = refusal(dir, arguments);
    assert!(line.contains(saying), "{arguments:?}: {line}");
}

fn disks(dir: &Path, names: &[&str]) {
    fs::create_dir_all(dir.join("disks")).expect("made");
    for name in names {
        let file = File::create(dir.join("disks").join(name)).expect("made");
        file.set_len(24 << 20).expect("grown");
    }
}

/// A RAID 5 set `r` of three disks.
fn set() -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let dir = folder.path();
    disks(dir, &["a", "b", "c"]);
    let members = ["disks/a", "disks/b", "disks/c"];
    let make = ["md", "create", "r", "-l", "5", "-n", "3", "--assume-clean"];
    done(dir, &[&make[..], &members].concat());
    folder
}

/// The same with a group `vg` on it, and a volume `data`.
fn set_with_volume() -> tempfile::TempDir {
    let folder = set();
    done(folder.path(), &["-d", "disks", "lvm", "vgcreate", "vg", "r"]);
    let make = ["-d", "disks", "lvm", "lvcreate", "vg", "-n", "data", "-L", "16m"];
    done(folder.path(), &make);
    folder
}

/// A server. What it says is in the file `said`.
#[track_caller]
fn start(dir: &Path, arguments: &[&str]) -> Serving {
    let said = File::create(dir.join("said")).expect("made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(arguments).current_dir(dir).stderr(said);
    command.env_remove("SPINDLE_DEVICES").env("SPINDLE_RUN_DIR", dir.join("run"));
    Serving::try_start(&mut command)
        .unwrap_or_else(|ready| panic!("it does not serve: {ready}{}", said_in(dir)))
}

fn said_in(dir: &Path) -> String {
    fs::read_to_string(dir.join("said")).unwrap_or_default()
}

/// Does something as a client of an export.
fn client<T: 'static>(
    dir: &Path,
    export: &str,
    read_only: bool,
    run: impl AsyncFnOnce(Rc<Client>) -> T + 'static,
) -> T {
    let runtime = HostRuntime::new(ReactorKind::Auto).expect("a reactor");
    let address = Address::Unix(dir.join("s"));
    let stream = SocketStream::connect(&runtime.host(), &address).expect("it listens");
    let (rt, options) = (
        runtime.rt(),
        ClientOptions { export: export.to_owned(), read_only, ..ClientOptions::default() },
    );
    let all = async move {
        let client = Client::connect(&rt, Rc::new(stream), &options).await;
        let client = Rc::new(client.expect("connected"));
        let outcome = run(Rc::clone(&client)).await;
        client.disconnect().await;
        outcome
    };
    runtime.runtime().block_on(all).expect("a real run never stalls")
}

async fn read(client: &Client, at: usize, len: usize) -> Vec<u8> {
    let read = Request::read(Offset(at as u64), ByteCount(len as u64));
    client.submit(read).await.expect("read").to_vec()
}

/// Writes, zeroes, discards and flushes of many sizes through an export; what it holds then, as far as that is told
/// by `model`.
async fn change(client: &Client, seed: u64, mut model: Vec<u8>) -> Vec<u8> {
    const BLOCK: u64 = 512;
    let mut prng = Prng::new(seed);
    for round in 0..60 {
        let blocks = model.len() as u64 / BLOCK;
        let len = 1 + prng.below([4, 64, 700][round % 3]);
        let at = prng.below(blocks - len) * BLOCK;
        let (from, bytes) = (at as usize, (len * BLOCK) as usize);
        let byte = 1 + prng.below(255) as u8;
        let data = || SgList::from(Buf::copy_of(&vec![byte; bytes]));
        let range = from..from + bytes;
        match prng.below(6) {
            0 => {
                let zeroes = Request::write_zeroes(Offset(at), ByteCount(len * BLOCK));
                client.submit(zeroes).await.expect("zeroed");
                model[range].fill(0);
            }
            1 => {
                // What is discarded may read as anything: it is written again.
                let discard = Request::discard(Offset(at), ByteCount(len * BLOCK));
                client.submit(discard).await.expect("discarded");
                client.submit(Request::write(Offset(at), data())).await.expect("written");
                model[range].fill(byte);
            }
            2 => {
                client.submit(Request::write_fua(Offset(at), data())).await.expect("written");
                model[range].fill(byte);
            }
            3 => drop(client.submit(Request::flush()).await.expect("flushed")),
            _ => {
                client.submit(Request::write(Offset(at), data())).await.expect("written");
                model[range].fill(byte);
            }
        }
    }
    assert!(read(client, 0, model.len()).await == model, "what was written is read");
    model
}

/// The whole content of the set.
fn content(dir: &Path) -> Vec<u8> {
    let out = dir.join("content");
    let out = out.to_str().expect("a path of text");
    done(dir, &["-d", "disks", "md", "dump", "r", out, "--overwrite"]);
    fs::read(out).expect("there")
}

fn state(dir: &Path) -> String {
    let text = done(dir, &["-d", "disks", "md", "detail", "r"]);
    let mut lines = text.lines().filter_map(|line| line.split_once(" : "));
    let found = lines.find(|(label, _)| label.trim() == "State");
    found.map_or(String::new(), |(_, state)| state.trim().to_owned())
}

/// Waits until the superblocks say that all is right.
fn wait_until_clean(dir: &Path) {
    for _ in 0..WAITS_MAX {
        if state(dir) == "clean" {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not become clean: {}, {}", state(dir), said_in(dir));
}

/// An authority's and a server's certificate; false where openssl is not installed.
fn certificates(pki: &Path) -> bool {
    fs::create_dir(pki).expect("made");
    let openssl = |arguments: &[&str]| {
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-days", "2"]).args(curve).args(arguments);
        command.current_dir(pki).output().is_ok_and(|output| output.status.success())
    };
    let names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    let files = ["-keyout", "server-key.pem", "-out", "server-cert.pem"];
    if !openssl(&[&names[..], &files].concat()) {
        println!("skipped: openssl is not installed, so TLS is not tried");
        return false;
    }
    // The server's certificate is its own authority.
    fs::copy(pki.join("server-cert.pem"), pki.join("ca-cert.pem")).expect("copied");
    true
}

/// Whether libnbd's programs are there.
fn has_libnbd() -> bool {
    Command::new("nbdinfo").arg("--version").output().is_ok()
}

/// Kills a server whose client just wrote, so that the set is dirty; what the export `data` holds then.
fn kill_in_the_midst(
    dir: &Path,
    mut serving: Serving,
    serve: &[&str],
    mut model: Vec<u8>,
) -> Vec<u8> {
    // Where the machine is busy the set may be clean again before the server is killed.
    for seed in 2..12 {
        model = client(dir, "data", false, async move |client| change(&client, seed, model).await);
        serving.kill();
        if state(dir) != "clean" {
            return model;
        }
        serving = start(dir, serve);
    }
    panic!("it is clean each time");
}

#[test]
fn two_exports_of_one_set_are_written_killed_resynchronised_and_right() {
    fixtures::takes_long!();
    let folder = set_with_volume();
    let dir = folder.path();
    let has_tls = certificates(&dir.join("pki"));
    let tls = if has_tls { "tls = { mode = 'allow', certificates = 'pki' }\n" } else { "" };
    let config = format!(
        "listen = ['unix:s', '127.0.0.1:0']\ndevices = ['disks']\n{tls}\
         [[export]]\nname = 'data'\nvolume = 'vg/data'\n\
         [[export]]\nname = 'whole'\nvolume = 'r'\nreadonly = true\n"
    );
    fs::write(dir.join("spindle.toml"), config).expect("written");
    let serve = ["serve", "--config", "spindle.toml"];
    let serving = start(dir, &serve);
    let model = client(dir, "data", false, async |client| {
        assert_eq!(client.geometry().capacity, ByteCount(VOLUME as u64));
        change(&client, 1, vec![0; VOLUME]).await
    });
    let expected = model.clone();
    client(dir, "whole", true, async move |client| {
        assert!(client.read_only());
        assert!(read(&client, EXTENTS_AT, VOLUME).await == expected, "one set for both");
        let write = Request::write(Offset(0), SgList::zeros(512));
        let error = client.submit(write).await.expect_err("refused");
        assert_eq!(error.kind, IoErrorKind::ReadOnly);
    });
    if has_tls && has_libnbd() {
        let port = serving.ready.trim_end().rsplit(':').next().expect("a port");
        let pki = dir.join("pki");
        let uri = format!("nbds://localhost:{port}/data?tls-certificates={}", pki.display());
        let copied = Command::new("nbdcopy").args([&uri, "copy"]).current_dir(dir).output();
        let copied = copied.expect("it is installed");
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        assert!(fs::read(dir.join("copy")).expect("there") == model, "the same by TLS");
    }
    let second = ["-d", "disks", "serve", "--volume", "vg/data", "--nbd", "unix:t"];
    refused(dir, &second, "another process writes to it or serves it");
    refused(dir, &["-d", "disks", "md", "stop", "r"], "serves other things too");
    assert_eq!(done(dir, &["-d", "disks", "md", "check", "r"]), "mismatch_cnt = 0\n");
    let model = kill_in_the_midst(dir, serving, &serve, model);

    let serving = start(dir, &serve);
    let model = client(dir, "data", false, async |client| {
        assert!(read(&client, 0, VOLUME).await == model, "what was answered is there");
        change(&client, 3, model).await
    });
    wait_until_clean(dir);
    serving.stop();
    assert_eq!(state(dir), "clean");
    assert_eq!(done(dir, &["-d", "disks", "md", "check", "r"]), "mismatch_cnt = 0\n");
    assert!(content(dir)[EXTENTS_AT..EXTENTS_AT + VOLUME] == model);
    // A server of one volume ends with its set.
    let one = ["-d", "disks", "serve", "--volume", "vg/data", "--nbd", "unix:s"];
    let mut serving = start(dir, &one);
    done(dir, &["-d", "disks", "md", "stop", "r"]);
    assert_eq!(serving.child.wait().expect("it ends").code(), Some(0));
    // Once more it is as ever, and the group can be changed.
    done(dir, &["-d", "disks", "lvm", "lvremove", "vg/data", "-y"]);
    assert_eq!(state(dir), "clean");
    assert_eq!(done(dir, &["-d", "disks", "md", "check", "r"]), "mismatch_cnt = 0\n");
}

/// What could break: a set that two threads open, an answer that never comes from another thread, a set that is not
/// stopped when its thread is told so, a command that doesn't find it.
#[test]
fn sets_on_executors_of_their_own_are_written_killed_and_stopped_as_one() {
    fixtures::takes_long!();
    let folder = set_with_volume();
    let dir = folder.path();
    disks(dir, &["x", "y", "z"]);
    let make = ["md", "create", "q", "-l", "1", "-n", "2", "--assume-clean", "disks/x", "disks/y"];
    done(dir, &make);
    let config = |executors: u32| {
        let text = format!(
            "listen = ['unix:s']\ndevices = ['disks']\nexecutors = {executors}\n\
             [[export]]\nname = 'data'\nvolume = 'vg/data'\n\
             [[export]]\nname = 'whole'\nvolume = 'r'\nreadonly = true\n\
             [[export]]\nname = 'q'\nvolume = 'q'\n\
             [[export]]\nname = 'file'\npath = 'disks/z'\n"
        );
        fs::write(dir.join("spindle.toml"), text).expect("written");
    };
    let serve = ["serve", "--config", "spindle.toml"];
    config(65);
    refused(dir, &serve, "64 is the limit");
    let (mut data, mut q, mut file) = (vec![0; VOLUME], vec![0; 8 << 20], vec![0; 8 << 20]);
    for (round, executors) in [1, 2, 3].into_iter().enumerate() {
        config(executors);
        let serving = start(dir, &serve);
        let seed = 10 * round as u64;
        let was = std::mem::take(&mut data);
        data = client(dir, "data", false, async move |client| {
            assert!(read(&client, 0, VOLUME).await == was, "what was answered is there");
            change(&client, seed, was).await
        });
        let expected = data.clone();
        client(dir, "whole", true, async move |client| {
            assert!(read(&client, EXTENTS_AT, VOLUME).await == expected, "one set for both");
        });
        for (name, model) in [("q", &mut q), ("file", &mut file)] {
            let was = std::mem::take(model);
            *model = client(dir, name, false, async move |client| {
                assert!(read(&client, 0, was.len()).await == was, "what was answered is there");
                change(&client, seed + 1, was).await
            });
        }
        assert!(!said_in(dir).contains("another process"), "{}", said_in(dir));
        assert_eq!(done(dir, &["-d", "disks", "md", "check", "q"]), "mismatch_cnt = 0\n");
        refused(dir, &["-d", "disks", "md", "stop", "r"], "serves other things too");
        match round {
            0 => {
                serving.kill();
                // Requests on their way hold its files, and so its locks, some milliseconds longer.
                std::thread::sleep(Duration::from_millis(500));
            }
            _ => serving.stop(),
        }
    }
    assert_eq!(state(dir), "clean");
    assert!(content(dir)[EXTENTS_AT..EXTENTS_AT + VOLUME] == data);
    assert_eq!(done(dir, &["-d", "disks", "md", "check", "r"]), "mismatch_cnt = 0\n");
}

#[test]
fn a_set_that_lacks_a_member_is_written_only_when_it_is_said() {
    let folder = set_with_volume();
    let dir = folder.path();
    fs::rename(dir.join("disks/b"), dir.join("away")).expect("moved");
    let serve = ["-d", "disks", "serve", "--volume", "vg/data", "--nbd", "unix:s"];
    let line = refusal(dir, &serve);
    assert!(line.contains("vg/data can't be written") && line.contains("--run"), "{line}");
    assert!(line.contains("readonly"), "{line}");
    let config = |run: &str| {
        let text = format!(
            "listen = ['unix:s']\ndevices = ['disks']\n[[export]]\nname = ''\nvolume = 'vg/data'\n{run}"
        );
        fs::write(dir.join("spindle.toml"), text).expect("written");
    };
    config("");
    refused(dir, &["serve", "--config", "spindle.toml"], "--run");
    config("run = true\nreadonly = true");
    refused(dir, &["serve", "--config", "spindle.toml"], "run is for a volume that is written");

    config("run = true");
    let serving = start(dir, &["serve", "--config", "spindle.toml"]);
    let model = client(dir, "", false, async |client| change(&client, 1, vec![0; VOLUME]).await);
    serving.stop();
    assert_eq!(state(dir), "clean, degraded");
    // That it is lost is known by now.
    let serving = start(dir, &serve);
    let model = client(dir, "", false, async |client| change(&client, 2, model).await);
    serving.stop();
    fs::rename(dir.join("away"), dir.join("disks/b")).expect("moved");
    let serving = start(dir, &serve);
    assert!(said_in(dir).contains("left out: disks/b"), "{}", said_in(dir));
    serving.stop();
    assert!(content(dir)[EXTENTS_AT..EXTENTS_AT + VOLUME] == model);
}

#[test]
fn a_set_that_can_not_be_opened_at_all_says_why_and_what_opens_it() {
    let folder = set_with_volume();
    let dir = folder.path();
    let serve =
        ["-d", "disks", "serve", "--volume", "vg/data", "--name", "data", "--nbd", "unix:s"];
    let serving = start(dir, &serve);
    kill_in_the_midst(dir, serving, &serve, vec![0; VOLUME]);
    fs::remove_file(dir.join("disks/b")).expect("removed");
    for name in ["r", "/dev/md/r", "disks/a", "r:1"] {
        let line = refusal(dir, &["-d", "disks", "serve", "--volume", name, "--run"]);
        assert!(line.contains("was not stopped cleanly and lacks 1 of its members"), "{line}");
        assert!(line.contains("--force of spindle md assemble"), "{line}");
        let next = format!("; next: spindle -d disks serve --volume {name} --readonly --force");
        assert!(line.ends_with(&next), "{line}");
    }
    let read = ["-d", "disks", "serve", "--volume", "vg/data", "--readonly", "--force"];
    start(dir, &[&read[..], &["--nbd", "unix:s"]].concat()).stop();
    done(dir, &["-d", "disks", "md", "assemble", "--force", "r"]);
    start(dir, &serve).stop();
}

#[test]
fn what_is_only_read_is_kept_from_writers_and_nothing_else_is() {
    fixtures::takes_long!();
    let folder = set_with_volume();
    let dir = folder.path();
    disks(dir, &["x", "y"]);
    let other = ["md", "create", "o", "-l", "1", "-n", "2", "--assume-clean", "disks/x", "disks/y"];
    done(dir, &other);
    let read = ["-d", "disks", "serve", "--volume", "vg/data", "--readonly", "--nbd", "unix:s"];
    let serving = start(dir, &read);
    for arguments in [
        &["-d", "disks", "md", "repair", "r"][..],
        &["-d", "disks", "md", "serve", "r", "--nbd", "unix:t"],
        &["-d", "disks", "serve", "--volume", "vg/data", "--nbd", "unix:t"],
        &["-d", "disks", "lvm", "lvremove", "vg/data", "-y"],
        &["serve", "disks/a", "--nbd", "unix:t"],
    ] {
        refused(dir, arguments, "another process writes to it or serves it");
    }
    let too = ["-d", "disks", "serve", "--volume", "r", "--readonly", "--nbd", "unix:t"];
    start(dir, &too).stop();
    done(dir, &["-d", "disks", "md", "fail", "o", "disks/y"]);
    serving.stop();
    done(dir, &["-d", "disks", "md", "repair", "r"]);

    let serving = start(dir, &["serve", "disks/a", "--readonly", "--nbd", "unix:s"]);
    refused(dir, &["-d", "disks", "md", "repair", "r"], "another process writes to it or serves");
    serving.stop();
    // Where somebody writes already it is said.
    let serving = start(dir, &["serve", "disks/a", "--nbd", "unix:t"]);
    let reading = start(dir, &["serve", "disks/a", "--readonly", "--nbd", "unix:s"]);
    assert!(said_in(dir).contains("note: disks/a: another process is writing"), "{}", said_in(dir));
    reading.stop();
    serving.stop();
}

#[test]
fn a_volume_is_striped_over_two_sets() {
    let folder = set();
    let dir = folder.path();
    disks(dir, &["x", "y"]);
    let other = ["md", "create", "o", "-l", "1", "-n", "2", "--assume-clean", "disks/x", "disks/y"];
    done(dir, &other);
    let make = |sets: &[&str]| {
        let group = ["-d", "disks", "lvm", "vgcreate", "vg", "-s", "1m"];
        spindle(dir, &[&group[..], sets].concat())
    };
    for (sets, saying) in [
        (&["r", "r"][..], "named twice"),
        (&["r", "nope"], "no such volume"),
        (&["r", "disks/x"], "some devices are paths and some are not"),
    ] {
        let output = make(sets);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(saying), "{sets:?}: {said}");
    }
    assert!(make(&["r", "o"]).status.success());
    let said = String::from_utf8_lossy(&make(&["r"]).stderr).into_owned();
    assert!(said.contains("of this name lies on the devices already"), "{said}");
    let other = ["-d", "disks", "lvm", "vgcreate", "other", "-s", "1m", "r"];
    refused(dir, &other, "r holds a physical volume of group vg");
    let create = ["-d", "disks", "lvm", "lvcreate", "vg", "-n", "data", "-L", "16m", "-i", "2"];
    done(dir, &create);
    let serve = ["-d", "disks", "serve", "--volume", "vg/data", "--nbd", "unix:s"];
    let serving = start(dir, &serve);
    let model = client(dir, "", false, async |client| change(&client, 1, vec![0; VOLUME]).await);
    serving.stop();
    for name in ["r", "o"] {
        assert_eq!(done(dir, &["-d", "disks", "md", "check", name]), "mismatch_cnt = 0\n");
    }
    let serving = start(dir, &[&serve[..], &["--readonly"]].concat());
    client(dir, "", true, async move |client| assert!(read(&client, 0, VOLUME).await == model));
    serving.stop();
}

/// A set that is written does not keep others off another set of the folder.
#[test]
fn only_the_sets_below_a_written_volume_are_opened_for_writing() {
    fixtures::takes_long!();
    let folder = set_with_volume();
    let dir = folder.path();
    disks(dir, &["x", "y"]);
    let other = ["md", "create", "o", "-l", "1", "-n", "2", "--assume-clean", "disks/x", "disks/y"];
    done(dir, &other);
    let serve = ["-d", "disks", "serve", "--volume", "vg/data", "--nbd", "unix:s"];
    let serving = start(dir, &serve);
    done(dir, &["-d", "disks", "md", "repair", "o"]);
    let again = ["-d", "disks", "serve", "--volume", "r", "--nbd", "unix:t"];
    refused(dir, &again, "another process writes to it");
    let both = ["-d", "disks", "serve", "--volume", "o", "--nbd", "unix:t"];
    start(dir, &both).stop();
    serving.stop();
}

#[test]
fn a_partition_of_a_set_is_written_by_any_name_of_the_set() {
    if Command::new("sgdisk").arg("--version").output().is_err() {
        return println!("skipped: sgdisk is not installed (Debian package gdisk)");
    }
    const START: usize = 2 * MIB;
    const LEN: usize = 8 * MIB;
    let folder = set();
    let dir = folder.path();
    let serve =
        |volume: &str| start(dir, &["-d", "disks", "serve", "--volume", volume, "--nbd", "unix:s"]);
    let serving = serve("r");
    let path = dir.join("table");
    let made = client(dir, "", false, async move |client| {
        let capacity = client.geometry().capacity;
        let file = File::create(&path).expect("made");
        file.set_len(capacity.bytes()).expect("grown");
        let part = format!("1:{}:{}", START / 512, (START + LEN) / 512 - 1);
        let mut command = Command::new("sgdisk");
        let made = command.args(["-a", "1", "-n", &part]).arg(&path).output();
        let made = made.expect("it is installed").status.success();
        let table = fs::read(&path).expect("there");
        let data = SgList::from(Buf::copy_of(&table));
        client.submit(Request::write(Offset(0), data)).await.expect("written");
        made
    });
    assert!(made, "sgdisk makes a partition");
    serving.stop();

    let detail = done(dir, &["-d", "disks", "md", "detail", "r", "--json"]);
    let detail: serde_json::Value = serde_json::from_str(&detail).expect("JSON");
    let uuid = detail["uuid"].as_str().unwrap_or_default().to_owned();
    let mut model = vec![0; LEN];
    let mut names = vec!["r:1".to_owned(), "/dev/md/r:1".to_owned(), "disks/a:1".to_owned()];
    names.extend((!uuid.is_empty()).then(|| format!("{uuid}:1")));
    for (seed, name) in names.iter().enumerate() {
        let serving = serve(name);
        model = client(dir, "", false, async move |client| {
            assert_eq!(client.geometry().capacity, ByteCount(LEN as u64));
            change(&client, seed as u64, model).await
        });
        serving.stop();
    }
    let content = content(dir);
    assert!(content[START..START + LEN] == model, "and it lies where the table says");
    assert_eq!(done(dir, &["-d", "disks", "md", "check", "r"]), "mismatch_cnt = 0\n");
    let line = refusal(dir, &["-d", "disks", "serve", "--volume", "r:2", "--nbd", "unix:s"]);
    assert!(line.contains("no such volume") && line.contains("there are r, r:1"), "{line}");
}

#[test]
fn a_volume_that_is_not_there_is_answered_with_some_that_are() {
    let folder = set();
    let dir = folder.path();
    refused(dir, &["-d", "disks", "serve", "--volume", "nope"], "(there are r)");
    done(dir, &["-d", "disks", "lvm", "vgcreate", "vg", "r", "-s", "1m"]);
    for n in 0..10 {
        let name = format!("v{n}");
        done(dir, &["-d", "disks", "lvm", "lvcreate", "vg", "-n", &name, "-L", "1m"]);
    }
    refused(dir, &["-d", "disks", "serve", "--volume", "nope"], "(there are vg/v0, vg/v1");
    refused(dir, &["-d", "disks", "serve", "--volume", "nope"], "vg/v7 and 3 more)");
    refused(dir, &["-d", "disks", "serve", "--volume", "vg/nope"], "(there are vg/v0, vg/v1");
}

#[test]
fn a_set_that_can_not_be_written_says_why_and_is_read() {
    let Some(fixtures) = fixtures::folder("md") else { return };
    for (name, why) in [
        ("raid1-2-v090", "superblocks 0.90"),
        ("raid5-3-reshape-to-4", "a reshape under way, which spindle md grow --continue ends"),
    ] {
        let folder = fixtures::scratch::folder();
        let dir = folder.path();
        fixtures::unpack_to(&fixtures, name, dir);
        let disk = dir.join("disk0.raw");
        let disk = disk.to_str().expect("a path of text");
        let there = ["-d", ".", "serve", "--volume", disk, "--nbd", "unix:s"];
        let line = refusal(dir, &there);
        assert!(line.contains(why) && line.contains("add readonly"), "{name}: {line}");
        let reading = start(dir, &[&there[..], &["--readonly"]].concat());
        client(dir, "", true, async |client| assert!(read(&client, 0, 4096).await.len() == 4096));
        reading.stop();
    }
}
