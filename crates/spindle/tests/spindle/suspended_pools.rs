//! Pools whose devices fill up while they are mounted: files on a file system that is too small for them.
//!
//! What could break: a program loses what it was promised; it waits for ever, or is told of success; the pool does not go on when there
//! is room again; who holds it can't be ended.

use crate::pools;

use pools::{done, judge, program, refused, run};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes of the file that doesn't fit.
const BIG: usize = 160 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of disks on a file system of its own.
struct Small(TempDir);

impl Small {
    /// Of some MiB; nothing where nothing can be mounted.
    fn new(mib: u32) -> Option<Small> {
        let folder = fixtures::scratch::folder();
        let at = folder.path().join("disks");
        fs::create_dir(&at).expect("a folder");
        fs::create_dir(folder.path().join("home")).expect("a folder");
        let size = format!("size={mib}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "small"]).arg(&at).status();
        if !Path::new("/dev/fuse").exists() || !mounted.is_ok_and(|ran| ran.success()) {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        File::create(at.join("a")).and_then(|file| file.set_len(512 << 20)).expect("a disk");
        Some(Small(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// There is more room from here on.
    fn grow(&self, mib: u32) {
        let size = format!("remount,size={mib}m");
        let at = self.path().join("disks");
        let grown = Command::new("mount").args(["-o", &size]).arg(at).status();
        assert!(grown.expect("mount runs").success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.path().join("disks")).status();
    }
}

/// `spindle mount`, once it is mounted.
struct Mount {
    child: Child,
    said: Option<JoinHandle<String>>,
}

impl Mount {
    fn start(at: &Path) -> Mount {
        Mount::of(program(at, &["mount", "-o", "rw", "tank/home", "home"]))
    }

    fn of(mut command: Command) -> Mount {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        assert!(lines.read_line(&mut line).expect("a line") > 0, "it ended");
        let mut errors = child.stderr.take().expect("it is piped");
        let said = thread::spawn(move || {
            let mut said = String::new();
            let _ = errors.read_to_string(&mut said);
            said
        });
        Mount { child, said: Some(said) }
    }

    fn signal(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(id).status().expect("kill runs").success());
    }

    /// Its exit status and what it said, once it has ended.
    fn ended(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("it is ours").is_none() {
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(50));
        }
        let status = self.child.wait().expect("it has ended");
        (status.code(), self.said.take().expect("it is asked once").join().expect("it was read"))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After it has ended there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bytes() -> Vec<u8> {
    fixtures::noise(7, BIG)
}

/// Writes more than there is room for, and makes it durable.
fn fill(at: &Path) -> JoinHandle<std::io::Result<()>> {
    let path = at.join("home/big");
    thread::spawn(move || {
        let mut file = File::create(path)?;
        file.write_all(&bytes())?;
        file.sync_all()
    })
}

fn letter(at: &Path) {
    let mut file = File::create(at.join("home/letter")).expect("a file");
    file.write_all(b"dear").and_then(|()| file.sync_all()).expect("it is written");
}

fn await_status(at: &Path, words: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = done(at, &["zpool", "status", "tank"]);
        if status.contains(words) {
            return status;
        }
        assert!(Instant::now() < until, "{status}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn made(failmode: &str) -> Option<Small> {
    let small = Small::new(96)?;
    let at = small.path();
    done(at, &["zpool", "create", "tank", "disks/a"]);
    done(at, &["zpool", "set", &format!("failmode={failmode}"), "tank"]);
    done(at, &["zfs", "create", "tank/home"]);
    Some(small)
}

#[test]
fn a_mount_on_a_full_file_system_waits_for_room() {
    fixtures::takes_long!();
    let Some(small) = made("wait") else { return };
    let at = small.path();
    let mount = Mount::start(at);
    letter(at);
    let filling = fill(at);
    let status = await_status(at, "state: SUSPENDED");
    assert!(
        status.contains("status: One or more devices are faulted in response to IO failures.\n"),
        "{status}"
    );
    assert!(status.contains(
        "action: Make sure the affected devices are connected, then run 'zpool clear'.\n"
    ));
    assert!(status.contains("/msg/ZFS-8000-HC\n"), "{status}");
    assert_eq!(done(at, &["zpool", "list", "-Ho", "health"]).trim(), "SUSPENDED");
    assert_eq!(fs::read(at.join("home/letter")).expect("it is read"), b"dear");
    refused(at, &["zfs", "create", "tank/x"], "pool I/O is currently suspended");
    refused(at, &["zpool", "clear", "tank"], "cannot clear errors for tank: I/O error");
    assert!(!filling.is_finished());
    small.grow(400);
    refused(at, &["zpool", "clear", "tank", "disks/b"], "no such device in pool");
    done(at, &["zpool", "clear", "tank"]);
    filling.join().expect("it ended").expect("all of it is written");
    let status = await_status(at, "state: ONLINE");
    assert!(!status.contains("IO failures"), "{status}");
    assert!(fs::read(at.join("home/big")).expect("it is read") == bytes());
    mount.signal();
    let (code, said) = mount.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("has been suspended") && said.contains("not suspended any more"),
        "{said}"
    );
    judge(at, "tank");
}

#[test]
fn a_mount_that_waits_for_room_can_be_ended() {
    fixtures::takes_long!();
    let Some(small) = made("wait") else { return };
    let at = small.path();
    let mount = Mount::start(at);
    letter(at);
    let filling = fill(at);
    await_status(at, "state: SUSPENDED");
    mount.signal();
    let (code, said) = mount.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is left as a power cut would leave it"), "{said}");
    assert!(filling.join().expect("it ended").is_err());
    small.grow(400);
    assert_eq!(done(at, &["zfs", "cat", "tank/home:letter"]), "dear");
    done(at, &["zpool", "sync", "tank"]);
    judge(at, "tank");
}

/// What could break: the export's last flush fails, which ends all before the mount is gone.
#[test]
fn a_server_that_waits_for_room_leaves_no_mount_behind() {
    fixtures::takes_long!();
    let Some(small) = made("wait") else { return };
    let at = small.path();
    done(at, &["zfs", "create", "-s", "-V", "8M", "tank/v"]);
    let text = "listen = [\"unix:nbd\"]\n[[export]]\nname = \"v\"\nvolume = \"tank/v\"\n\
                [[mount]]\ndataset = \"tank/home\"\ndirectory = \"home\"\n";
    fs::write(at.join("config"), text).expect("it is written");
    let serving = Mount::of(program(at, &["serve", "--config", "config"]));
    let filling = fill(at);
    await_status(at, "SUSPENDED");
    serving.signal();
    let (status, said) = serving.ended();
    assert_eq!(status, Some(1), "{said}");
    let mounts = fs::read_to_string("/proc/mounts").expect("they are read");
    let home = at.join("home").display().to_string();
    assert!(!mounts.contains(&home), "{said}");
    assert!(filling.join().expect("it ended").is_err());
    assert!(said.contains("tank/v: flush"), "{said}");
    assert!(said.contains("is left as a power cut would leave it"), "{said}");
    small.grow(700);
    done(at, &["zpool", "import", "tank"]);
    judge(at, "tank");
}

#[test]
fn with_continue_programs_are_told_and_with_panic_it_ends() {
    fixtures::takes_long!();
    let Some(small) = made("continue") else { return };
    let at = small.path();
    let mount = Mount::start(at);
    letter(at);
    let filling = fill(at);
    let status = await_status(at, "state: SUSPENDED");
    assert!(status.contains("/msg/ZFS-8000-JQ\n"), "{status}");
    let refused = File::create(at.join("home/other")).expect_err("it is refused");
    assert_eq!(refused.raw_os_error(), Some(5), "{refused}");
    assert_eq!(fs::read(at.join("home/letter")).expect("it is read"), b"dear");
    small.grow(400);
    done(at, &["zpool", "clear", "tank"]);
    // What it had written when it was refused is there; more may not be.
    let _ = filling.join().expect("it ended");
    fs::write(at.join("home/other"), b"now").expect("it is written");
    mount.signal();
    assert_eq!(mount.ended().0, Some(0));
    judge(at, "tank");

    let Some(small) = made("panic") else { return };
    let at = small.path();
    let mount = Mount::start(at);
    letter(at);
    let filling = fill(at);
    let (code, said) = mount.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("uncorrectable I/O failure") && said.contains("failmode is panic"),
        "{said}"
    );
    assert!(filling.join().expect("it ended").is_err());
    small.grow(400);
    assert!(run(at, &["zpool", "sync", "tank"]).status.success());
    assert_eq!(done(at, &["zfs", "cat", "tank/home:letter"]), "dear");
    judge(at, "tank");
}
