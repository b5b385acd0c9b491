//! What is mounted while its dataset is destroyed, gets another name or another mountpoint.
//!
//! What could break: a dataset that can't be destroyed because its own mount has it open; one that goes under who has files open in it;
//! a mount that stays where its dataset isn't any more; a holder that ends because for a moment nothing was mounted.

use crate::holding;
use crate::pools;

use holding::{Holder, can_mount, is_mounted, soon};
use pools::{add_disks, done, judge, refused};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const HELD: &str = "pools = [\"tank\"]\n";

/// A folder with a pool that is mounted below it.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = fixtures::scratch::folder();
    let at = folder.path().canonicalize().expect("it is there");
    fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a"], 128 << 20);
    done(&at, &["zpool", "create", "-m", &path(&at, "m"), "tank", "disks/a"]);
    (folder, at)
}

fn path(at: &Path, name: &str) -> String {
    at.join(name).to_str().expect("text").to_owned()
}

fn make(at: &Path, dataset: &str, mountpoint: &str) {
    let mountpoint = format!("mountpoint={}", path(at, mountpoint));
    done(at, &["zfs", "create", "-o", &mountpoint, dataset]);
}

/// Such a folder, and who holds the pool, with a dataset `tank/a` that is mounted on `a`; nothing where nothing can be mounted.
fn mounted() -> Option<(tempfile::TempDir, PathBuf, Holder)> {
    if !can_mount() {
        return None;
    }
    let (folder, at) = folder();
    make(&at, "tank/a", "a");
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank/a"]);
    Some((folder, at, holder))
}

fn names(at: &Path) -> Vec<String> {
    let entries = fs::read_dir(at).expect("it is listed");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn a_dataset_that_is_mounted_by_itself_is_unmounted_before_it_is_destroyed() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    make(&at, "tank/a", "a");
    done(&at, &["zfs", "create", "tank/a/b"]);
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "-a"]);
    let mut open = File::create(at.join("a/file")).expect("a file");
    open.write_all(b"before").expect("it is written");
    let why = format!("cannot unmount '{}': pool or dataset is busy", path(&at, "a"));
    refused(&at, &["zfs", "destroy", "-r", "tank/a"], &why);
    assert_eq!(names(&at.join("a")), ["b", "file"], "nothing went");
    open.write_all(b" and after").expect("it goes on");
    drop(open);
    assert_eq!(fs::read(at.join("a/file")).expect("it is read"), b"before and after");
    done(&at, &["zfs", "destroy", "-r", "tank/a"]);
    assert!(!is_mounted(&at.join("a")));
    assert!(!done(&at, &["zfs", "list", "-Ho", "name"]).contains("tank/a"));
    // By force under who uses it.
    make(&at, "tank/c", "c");
    done(&at, &["zfs", "mount", "tank/c"]);
    let mut open = File::create(at.join("c/file")).expect("a file");
    open.write_all(b"lost").expect("it is written");
    refused(&at, &["zfs", "destroy", "tank/c"], "pool or dataset is busy");
    done(&at, &["zfs", "destroy", "-f", "tank/c"]);
    assert!(!is_mounted(&at.join("c")));
    assert!(open.write_all(b"nowhere").and_then(|()| open.sync_all()).is_err());
    holder.stop();
    judge(&at, "tank");
}

/// A child has no mount of its own: that of what is above it lets go of it.
#[test]
fn a_dataset_in_the_mount_of_another_is_let_go_of_before_it_is_destroyed() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-p", "tank/a/b"]);
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank"]);
    let m = at.join("m");
    fs::write(m.join("kept"), b"kept").expect("it is written");
    fs::write(m.join("a/b/file"), b"bytes").expect("it is written");
    let open = File::open(m.join("a/b/file")).expect("it is there");
    refused(
        &at,
        &["zfs", "destroy", "tank/a/b"],
        "cannot unmount 'tank/a/b': pool or dataset is busy",
    );
    refused(&at, &["zfs", "destroy", "-r", "tank/a"], "pool or dataset is busy");
    assert_eq!(fs::read(m.join("a/b/file")).expect("it is read"), b"bytes");
    drop(open);
    done(&at, &["zfs", "destroy", "tank/a/b"]);
    assert_eq!(names(&m.join("a")), [""; 0]);
    // Another of its name is another.
    done(&at, &["zfs", "create", "tank/a/b"]);
    assert_eq!(names(&m.join("a/b")), [""; 0]);
    fs::write(m.join("a/b/new"), b"new").expect("it is written");
    // What is refused for another reason is there as before.
    done(&at, &["zfs", "snapshot", "tank/a/b@s"]);
    refused(&at, &["zfs", "destroy", "tank/a/b"], "filesystem has children");
    assert_eq!(fs::read(m.join("a/b/new")).expect("it is read"), b"new");
    // By force under who has a file open, and all that is above.
    let mut open = File::create(m.join("a/b/open")).expect("a file");
    done(&at, &["zfs", "destroy", "-rf", "tank/a"]);
    assert!(open.write_all(b"nowhere").and_then(|()| open.sync_all()).is_err());
    drop(open);
    assert_eq!(names(&m), ["kept"]);
    holder.stop();
    judge(&at, "tank");
}

/// Who only stands in a directory has nothing open there, as far as a server of files is told.
#[test]
fn a_dataset_in_the_mount_of_another_is_kept_for_who_stands_in_it() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-p", "tank/a/b"]);
    done(&at, &["zfs", "snapshot", "tank/a/b@s"]);
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank"]);
    let b = at.join("m/a/b");
    fs::create_dir(b.join("later")).expect("it is made");
    let stand = |directory: &Path| {
        let mut sleep = Command::new("sleep");
        sleep.arg("600").current_dir(directory).spawn().expect("it starts")
    };
    let mut standing = stand(&b.join("later"));
    let why = format!("is busy: process {} has its working directory there", standing.id());
    refused(&at, &["zfs", "rollback", "tank/a/b@s"], &why);
    refused(&at, &["zfs", "destroy", "-r", "tank/a"], &why);
    assert_eq!(names(&b), ["later"], "nothing went");
    // Beside it nobody stands.
    done(&at, &["zfs", "create", "tank/a/bb"]);
    assert_eq!(names(&at.join("m/a/bb")), [""; 0]);
    done(&at, &["zfs", "destroy", "tank/a/bb"]);
    standing.kill().and_then(|()| standing.wait()).expect("it ends");
    done(&at, &["zfs", "rollback", "tank/a/b@s"]);
    assert_eq!(names(&b), [""; 0]);
    let mut standing = stand(&b);
    done(&at, &["zfs", "rollback", "-f", "tank/a/b@s"]);
    standing.kill().and_then(|()| standing.wait()).expect("it ends");
    holder.stop();
    judge(&at, "tank");
}

#[test]
fn what_is_mounted_follows_its_name_and_its_mountpoint() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "-o", "canmount=off", "tank/top"]);
    done(&at, &["zfs", "create", "tank/top/a"]);
    make(&at, "tank/top/own", "own");
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank/top/a"]);
    done(&at, &["zfs", "mount", "tank/top/own"]);
    let (old, new) = (at.join("m/top/a"), at.join("m/other/a"));
    fs::write(old.join("file"), b"bytes").expect("it is written");
    // Who uses it keeps it where it is.
    let open = File::open(old.join("file")).expect("it is there");
    refused(&at, &["zfs", "rename", "tank/top", "tank/other"], "pool or dataset is busy");
    assert!(is_mounted(&old));
    drop(open);
    done(&at, &["zfs", "rename", "tank/top", "tank/other"]);
    soon(|| is_mounted(&new) && !is_mounted(&old));
    assert_eq!(fs::read(new.join("file")).expect("it is read"), b"bytes");
    assert!(is_mounted(&at.join("own")), "what has a mountpoint of its own stays");
    // With -u it stays, and goes by its new name.
    done(&at, &["zfs", "rename", "-u", "tank/other", "tank/third"]);
    assert!(is_mounted(&new));
    assert!(done(&at, &["zfs", "mount"]).contains("tank/third/a "));
    done(&at, &["zfs", "unmount", "tank/third/a"]);
    done(&at, &["zfs", "mount", "tank/third/a"]);
    // Another mountpoint, of itself or of what it has it from.
    let elsewhere = format!("mountpoint={}", path(&at, "else"));
    done(&at, &["zfs", "set", &elsewhere, "tank/third"]);
    assert!(is_mounted(&at.join("else/a")) && !is_mounted(&at.join("m/third/a")));
    assert_eq!(fs::read(at.join("else/a/file")).expect("it is read"), b"bytes");
    done(&at, &["zfs", "inherit", "mountpoint", "tank/third"]);
    assert!(is_mounted(&at.join("m/third/a")) && !is_mounted(&at.join("else/a")));
    done(&at, &["zfs", "set", "mountpoint=none", "tank/third/a"]);
    assert!(!is_mounted(&at.join("m/third/a")));
    done(&at, &["zfs", "set", "canmount=off", "tank/third/own"]);
    assert!(!is_mounted(&at.join("own")));
    assert_eq!(done(&at, &["zfs", "mount"]), "");
    holder.stop();
    judge(&at, "tank");
}

/// One that serves mounts only ends when nothing is mounted any more: not while one moves.
#[test]
fn who_holds_a_pool_for_its_mounts_goes_on_while_one_moves() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "tank/a"]);
    let holder = Holder::run(&at, &["zfs", "mount", "tank/a"], "holding 1 pool");
    fs::write(at.join("m/a/file"), b"bytes").expect("it is written");
    done(&at, &["zfs", "rename", "tank/a", "tank/b"]);
    soon(|| is_mounted(&at.join("m/b")));
    assert_eq!(fs::read(at.join("m/b/file")).expect("it is read"), b"bytes");
    done(&at, &["zfs", "destroy", "tank/b"]);
    holder.ended();
    judge(&at, "tank");
}

#[test]
fn a_mount_that_another_namespace_has_too_ends_here_and_there() {
    fixtures::takes_long!();
    let Some((_folder, at, holder)) = mounted() else { return };
    fs::write(at.join("a/file"), b"kept").expect("it is written");
    // As a container or a service has it.
    let mut apart = std::process::Command::new("unshare");
    let apart = apart.args(["-m", "sleep", "600"]).spawn();
    let Ok(mut apart) = apart else {
        println!("skipped: unshare is not here");
        return;
    };
    soon(|| {
        let mounts = fs::read_to_string(format!("/proc/{}/mounts", apart.id()));
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
        of(&apart.id().to_string()) != of("self")
            && mounts.is_ok_and(|mounts| mounts.contains(&path(&at, "a")))
    });
    done(&at, &["zfs", "unmount", "tank/a"]);
    assert!(!is_mounted(&at.join("a")));
    done(&at, &["zfs", "create", "tank/later"]);
    done(&at, &["zfs", "mount", "tank/a"]);
    assert_eq!(fs::read(at.join("a/file")).expect("it is read"), b"kept");
    let _ = apart.kill().and_then(|()| apart.wait());
    holder.stop();
    judge(&at.join("disks"), "tank");
}

#[test]
fn who_serves_a_mount_ends_though_somebody_is_in_it() {
    fixtures::takes_long!();
    const STAYS: Duration = Duration::from_secs(60);
    let Some((_folder, at, holder)) = mounted() else { return };
    let stays = STAYS.as_secs().to_string();
    let mut inside = std::process::Command::new("sleep");
    let mut inside = inside.arg(stays).current_dir(at.join("a")).spawn().expect("it sleeps");
    let mut open = File::create(at.join("a/file")).expect("a file");
    open.write_all(b"written").expect("it is written");
    let begun = Instant::now();
    holder.stop();
    assert!(begun.elapsed() < STAYS, "it was waited for");
    let _ = inside.kill().and_then(|()| inside.wait());
    drop(open);
    judge(&at.join("disks"), "tank");
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "tank/a"]);
    assert_eq!(fs::read(at.join("a/file")).expect("it is read"), b"written");
    holder.stop();
}

#[test]
fn a_mount_is_used_as_its_properties_and_quotas_say() {
    fixtures::takes_long!();
    use std::os::unix::fs::PermissionsExt;
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "set", "compression=off", "tank"]);
    make(&at, "tank/a", "a");
    done(&at, &["zfs", "set", "exec=off", "tank/a"]);
    make(&at, "tank/b", "b");
    done(&at, &["zfs", "set", "refquota=4M", "tank/b"]);
    let holder = Holder::start(&at, HELD);
    done(&at, &["zfs", "mount", "-a"]);
    for (dataset, runs) in [("a", false), ("b", true)] {
        let program = at.join(dataset).join("program");
        fs::write(&program, b"#!/bin/sh\nexit 7\n").expect("it is written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is set");
        let ran = std::process::Command::new(&program).status();
        assert_eq!(ran.ok().and_then(|status| status.code()), runs.then_some(7), "{dataset}");
    }
    let too_much = fs::write(at.join("b/big"), vec![7; 8 << 20]).expect_err("it is too much");
    assert_eq!(too_much.kind(), std::io::ErrorKind::QuotaExceeded, "the pool has room");
    let too_much = fs::write(at.join("a/big"), vec![7; 200 << 20]).expect_err("it is too much");
    assert_eq!(too_much.kind(), std::io::ErrorKind::StorageFull, "the pool has none");
    let twice = ["zfs", "snapshot", "tank/b@x", "tank/b@y"];
    refused(&at, &twice, "multiple snapshots of same fs not allowed");
    holder.stop();
    judge(&at.join("disks"), "tank");
}

#[test]
fn a_dataset_that_is_mounted_is_taken_back_and_mounted_as_it_was() {
    fixtures::takes_long!();
    let Some((_folder, at, holder)) = mounted() else { return };
    let (kept, later) = (at.join("a/kept"), at.join("a/later"));
    fs::write(&kept, b"before").expect("it is written");
    done(&at, &["zfs", "snapshot", "tank/a@s"]);
    fs::write(&kept, b"after, and longer").expect("it is written");
    fs::write(&later, b"later").expect("it is written");
    assert_eq!(fs::read(&kept).expect("it is read"), b"after, and longer");
    // Who has a file open keeps what he has.
    let mut open = File::options().append(true).open(&later).expect("it is there");
    let (directory, process) = (path(&at, "a"), std::process::id());
    let why = format!("cannot rollback 'tank/a': {directory} is busy: process {process} uses it");
    refused(&at, &["zfs", "rollback", "tank/a@s"], &why);
    open.write_all(b" still").expect("it goes on");
    drop(open);
    assert_eq!(fs::read(&later).expect("it is read"), b"later still");
    done(&at, &["zfs", "rollback", "tank/a@s"]);
    assert!(is_mounted(&at.join("a")));
    assert_eq!(names(&at.join("a")), ["kept"]);
    assert_eq!(fs::read(&kept).expect("it is read"), b"before");
    fs::write(&later, b"anew").expect("it is written");
    assert_eq!(done(&at, &["zfs", "mount"]).lines().count(), 1);
    // By force: he gets errors, and others what the snapshot has.
    let mut open = File::create(&kept).expect("it is there");
    open.write_all(b"lost").expect("it is written");
    done(&at, &["zfs", "rollback", "-f", "tank/a@s"]);
    assert!(open.write_all(b"nowhere").and_then(|()| open.sync_all()).is_err());
    assert_eq!(names(&at.join("a")), ["kept"]);
    assert_eq!(fs::read(&kept).expect("it is read"), b"before");
    // What goes with newer snapshots may be mounted, too.
    done(&at, &["zfs", "snapshot", "tank/a@t"]);
    let clone = format!("mountpoint={}", path(&at, "clone"));
    done(&at, &["zfs", "clone", "-o", &clone, "tank/a@t", "tank/clone"]);
    done(&at, &["zfs", "mount", "-a"]);
    fs::write(at.join("clone/file"), b"bytes").expect("it is written");
    done(&at, &["zfs", "rollback", "-R", "tank/a@s"]);
    assert!(!is_mounted(&at.join("clone")) && is_mounted(&at.join("a")));
    done(&at, &["zfs", "unmount", "tank/a"]);
    assert!(!is_mounted(&at.join("a")));
    holder.stop();
    judge(&at.join("disks"), "tank");
}

/// What is set counts at once; what is there stays where it is, and is found.
#[test]
fn lists_of_access_and_extended_attributes_are_kept_as_the_properties_say() {
    let Some((_folder, at, holder)) = mounted() else { return };
    let a = at.join("a");
    let shell = |script: &str| {
        let mut shell = std::process::Command::new("bash");
        let output = shell.args(["-ec", script]).current_dir(&a).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &said)
    };
    if !shell("command -v setfacl getfacl setfattr getfattr").0 {
        println!("skipped: the tools for lists of access and attributes are not here");
        return;
    }
    fs::create_dir(a.join("d")).expect("a folder");
    fs::write(a.join("file"), b"bytes").expect("it is written");
    // By default there are no lists, as with OpenZFS.
    let unsupported = |script: &str| {
        let (well, said) = shell(script);
        assert!(!well && said.contains("not supported"), "{script}: {said}");
    };
    unsupported("setfacl -m u:1234:rw file");
    done(&at, &["zfs", "set", "acltype=posix", "tank/a"]);
    let listed = |what: &str| shell(&format!("getfacl -cn {what} | tr '\\n' ' '")).1;
    let (well, said) = shell("setfacl -m u:1234:rw file; setfacl -d -m u:99:rwx d; touch d/born");
    assert!(well, "{said}");
    assert!(listed("file").contains("user:1234:rw-") && listed("d/born").contains("user:99:"));
    // Users whom the list lets in are let in.
    let reads = |user: u32, file: &str| {
        let user = user.to_string();
        let mut reader = std::process::Command::new("setpriv");
        reader.args(["--reuid", &user, "--regid", &user, "--clear-groups", "cat", file]);
        reader.current_dir(&a).output().expect("it starts").status.success()
    };
    // Users have to get there.
    for above in a.ancestors().skip(1).filter(|above| above.starts_with(at.parent().unwrap_or(&at)))
    {
        use std::os::unix::fs::PermissionsExt;
        if above != std::env::temp_dir() {
            fs::set_permissions(above, fs::Permissions::from_mode(0o755)).expect("it is set");
        }
    }
    shell("chmod o= file");
    assert!(reads(1234, "file") && !reads(1235, "file"));
    for off in ["acltype=nfsv4", "acltype=off"] {
        done(&at, &["zfs", "set", off, "tank/a"]);
        assert!(!listed("file").contains("user:1234"), "{}", listed("file"));
        assert!(!shell("getfattr -n system.posix_acl_access file").0);
        assert!(!reads(1234, "file"));
        unsupported("setfacl -m u:1234:rw file");
        let (well, _) = shell("rm -f d/plain; touch d/plain");
        assert!(well && !listed("d/plain").contains("user:99:"));
    }
    done(&at, &["zfs", "set", "acltype=posix", "tank/a"]);
    assert!(listed("file").contains("user:1234:rw-"), "it was there all the time");
    assert!(reads(1234, "file"));
    // In the list, then in the hidden directory.
    let objects = || done(&at, &["zfs", "stat", "--json", "tank/a:file"]);
    shell("setfattr -n user.listed -v one file");
    let before = objects();
    done(&at, &["zfs", "set", "xattr=dir", "tank/a"]);
    let (well, said) = shell(
        "setfattr -n user.hidden -v two file; setfattr -n user.large -v $(printf '%040000d' 7) file
        setfattr -n user.gone -v x file; setfattr -x user.gone file
        setfattr -n user.hidden -v three file; setfacl -m u:77:r file
        [ $(getfattr --only-values -n user.listed file) = one ]
        [ $(getfattr --only-values -n user.hidden file) = three ]
        [ $(getfattr --only-values -n user.large file | wc -c) = 40000 ]
        [ $(getfattr -d file | grep -c user) = 3 ]",
    );
    assert!(well, "{said}");
    assert_ne!(before, objects());
    assert!(listed("file").contains("user:77:r--") && listed("file").contains("user:1234:rw-"));
    done(&at, &["zfs", "set", "xattr=off", "tank/a"]);
    unsupported("setfattr -n user.other -v x file");
    unsupported("setfattr -x user.hidden file");
    unsupported("getfattr -n user.hidden file");
    assert_eq!(shell("getfattr -d file").1, "");
    assert!(shell("setfattr -n trusted.t -v x file").0, "that is not a user's");
    done(&at, &["zfs", "set", "xattr=sa", "tank/a"]);
    let (well, said) = shell(
        "setfattr -n user.hidden -v four file; sync
        [ $(getfattr --only-values -n user.hidden file) = four ]
        [ $(getfattr -d file | grep -c user) = 3 ]; cp -a file copy",
    );
    assert!(well, "{said}");
    done(&at, &["zfs", "unmount", "tank/a"]);
    done(&at, &["zfs", "mount", "tank/a"]);
    assert!(shell("[ $(getfattr --only-values -n user.large file | wc -c) = 40000 ]; rm file").0);
    holder.stop();
    judge(&at.join("disks"), "tank");
}

/// One that holds its pool as long as something is mounted, and one that mounts for who asked, go on.
#[test]
fn whoever_serves_a_mount_goes_on_when_its_dataset_is_taken_back() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    make(&at, "tank/a", "a");
    make(&at, "tank/b", "b");
    done(&at, &["zfs", "snapshot", "tank/a@s", "tank/b@s"]);
    let holder = Holder::run(&at, &["zfs", "mount", "tank/a"], "holding 1 pool");
    fs::create_dir(at.join("other")).expect("a folder");
    let other = Holder::run(&at, &["mount", "-o", "rw", "tank/b", &path(&at, "other")], "on ");
    for (dataset, directory) in [("tank/a@s", "a"), ("tank/b@s", "other")] {
        fs::write(at.join(directory).join("later"), b"later").expect("it is written");
        done(&at, &["zfs", "rollback", dataset]);
        assert_eq!(names(&at.join(directory)), [""; 0]);
        fs::write(at.join(directory).join("new"), b"new").expect("it is written");
    }
    other.stop();
    assert!(!is_mounted(&at.join("other")));
    done(&at, &["zfs", "unmount", "tank/a"]);
    holder.ended();
    judge(&at.join("disks"), "tank");
}

/// A file that is open for reading and writing, by the kernel's cache, and for writing alone, past it.
#[test]
fn who_writes_by_the_cache_and_past_it_waits_for_nobody() {
    use std::os::unix::fs::FileExt;
    let Some((_folder, at, holder)) = mounted() else { return };
    let path = at.join("a/file");
    // In a process of its own: a write that nobody answers can't be given up.
    let mut writer = std::process::Command::new("timeout");
    let script = "exec 3<>\"$1\"; head -c 300000 /dev/zero >&3; exec 4>\"$1\"; \
        dd if=/dev/zero bs=1 count=1 seek=200001 conv=notrunc status=none >&3; \
        printf past >&4; printf by >&3";
    writer.args(["-s", "KILL", "30", "bash", "-c", script, "bash"]).arg(&path);
    let wrote = writer.status().expect("it starts");
    if !wrote.success() {
        holder.kill();
        panic!("{wrote}: it hung");
    }
    let file = File::open(&path).expect("it is there");
    let mut first = [0; 4];
    file.read_exact_at(&mut first, 0).expect("it is read");
    assert_eq!(&first, b"past");
    drop(file);
    holder.stop();
    judge(&at.join("disks"), "tank");
}
