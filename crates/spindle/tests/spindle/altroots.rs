//! Pools whose mountpoints are below another root, as long as somebody holds them.
//!
//! What could break: something is mounted over this host's own directories; a root that stays when who held the pool is gone, or that is
//! written into the pool; who asks is told of one and mounts go to another.

use crate::holding;
use crate::pools;

use holding::{Holder, can_mount, is_mounted};
use pools::{add_disks, done, judge, refused, run};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder with a pool that would be mounted where nobody can have anything.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = fixtures::scratch::folder();
    let at = folder.path().canonicalize().expect("it is there");
    fs::create_dir(at.join("disks")).expect("a folder");
    fs::create_dir(at.join("root")).expect("a folder");
    add_disks(&at.join("disks"), &["a"], 128 << 20);
    done(&at, &["zpool", "create", "-m", "/proc/nowhere", "-R", text(&at), "tank", "disks/a"]);
    (folder, at)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// What is shown of the pool and its datasets.
fn shown(at: &Path) -> (String, String) {
    let pool = done(at, &["zpool", "list", "-Ho", "altroot", "tank"]);
    let own = done(at, &["zfs", "list", "-Ho", "name,mountpoint", "-r", "tank"]);
    (pool.trim_end().to_owned(), own)
}

fn is_below(at: &Path, root: &Path) {
    let root = text(root);
    let (pool, own) = shown(at);
    assert_eq!(pool, root);
    assert_eq!(
        own,
        format!("tank\t{root}/proc/nowhere\ntank/a\t{root}/proc/nowhere/a\ntank/l\tlegacy\n")
    );
    let got = done(at, &["zpool", "get", "-Ho", "value,source", "altroot", "tank"]);
    assert_eq!(got, format!("{root}\tlocal\n"));
    let got = done(at, &["zfs", "get", "-Ho", "value,source", "mountpoint", "tank"]);
    assert_eq!(got, format!("{root}/proc/nowhere\tlocal\n"));
}

#[test]
fn a_root_holds_as_long_as_who_holds_the_pool() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    done(&at, &["zfs", "create", "tank/a"]);
    done(&at, &["zfs", "create", "-o", "mountpoint=legacy", "tank/l"]);
    let nowhere = "tank\t/proc/nowhere\ntank/a\t/proc/nowhere/a\ntank/l\tlegacy\n";
    assert_eq!(shown(&at), ("-".to_owned(), nowhere.to_owned()));
    let root = at.join("root");
    // By a configuration.
    let configuration = format!("pools = [\"tank\"]\naltroot = \"{}\"\n", text(&root));
    let holder = Holder::start(&at, &configuration);
    is_below(&at, &root);
    done(&at, &["zfs", "mount", "tank"]);
    let mounted = root.join("proc/nowhere");
    assert!(is_mounted(&mounted));
    fs::write(mounted.join("a/file"), b"bytes").expect("it is written");
    // What is set is below it, too.
    done(&at, &["zfs", "set", "mountpoint=/moved", "tank"]);
    assert!(is_mounted(&root.join("moved")) && !is_mounted(&mounted));
    done(&at, &["zfs", "set", "mountpoint=/proc/nowhere", "tank"]);
    refused(&at, &["zpool", "set", "altroot=/x", "tank"], "can only be set during pool creation");
    holder.stop();
    assert_eq!(shown(&at), ("-".to_owned(), nowhere.to_owned()), "nothing is written of it");
    // By who mounts.
    let words = ["zfs", "mount", "--altroot", text(&root), "tank"];
    let holder = Holder::run(&at, &words, "holding 1 pool");
    is_below(&at, &root);
    assert_eq!(fs::read(mounted.join("a/file")).expect("it is read"), b"bytes");
    done(&at, &["zfs", "unmount", "tank"]);
    holder.ended();
    assert_eq!(shown(&at).0, "-");
    fs::write(at.join("bad.toml"), "pools = [\"tank\"]\naltroot = \"root\"\n").expect("written");
    let output = run(&at, &["serve", "--config", "bad.toml"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("bad alternate root 'root': must be an absolute path"), "{said}");
    judge(&at.join("disks"), "tank");
}

/// What could break: who only looks at the images of another machine's disks has this host's own `/home` hidden, and what programs write
/// there goes into the pool.
#[test]
fn a_mountpoint_that_has_something_in_it_is_not_covered_unasked() {
    if !can_mount() {
        return;
    }
    let (_folder, at) = folder();
    let (home, other) = (at.join("home"), at.join("other"));
    for directory in [&home, &other] {
        fs::create_dir(directory).expect("a folder");
        fs::write(directory.join("own"), b"this host's").expect("written");
    }
    let mountpoint = format!("mountpoint={}", text(&home));
    done(&at, &["zfs", "create", "-o", &mountpoint, "tank/home"]);
    let refusal =
        "directory is not empty; -O mounts over what is there; --altroot DIR mounts below DIR";
    for call in [&["zfs", "mount", "tank/home"][..], &["zfs", "mount", "tank/home", "-o", "ro"]] {
        refused(&at, call, refusal);
        assert!(!is_mounted(&home) && home.join("own").exists());
    }
    let (root, ready) = (at.join("root"), "holding 1 pool");
    let mounted = |words: &[&str], on: &Path| {
        let holder = Holder::run(&at, &[&["zfs", "mount"], words].concat(), ready);
        assert!(holder.said.contains(&format!("is mounted on {} for writing", on.display())));
        assert!(is_mounted(on), "{words:?}");
        holder.stop();
        assert!(home.join("own").exists() && other.join("own").exists());
    };
    mounted(&["-O", "tank/home"], &home);
    mounted(
        &["--altroot", text(&root), "tank/home"],
        &root.join(text(&home).trim_start_matches('/')),
    );
    mounted(&["tank/home", text(&other)], &other);
    // Nor by who holds the pool already; where its property was set, it says so.
    let holder = Holder::start(&at, "pools = [\"tank\"]\n");
    refused(&at, &["zfs", "mount", "tank/home"], refusal);
    done(&at, &["zfs", "set", "overlay=on", "tank/home"]);
    done(&at, &["zfs", "mount", "tank/home"]);
    assert!(is_mounted(&home));
    holder.stop();
    mounted(&["tank/home"], &home);
}
