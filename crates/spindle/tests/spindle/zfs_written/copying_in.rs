//! `zfs cp HOSTPATH DATASET:PATH`.
//!
//! What could break: something of a file is lost on the way in, a copy that was stopped counts as whole or is begun anew, a full
//! pool is not a pool any more, something of the user's is replaced, the wrong thing is written to.

use super::pools::{disks, done, judge, printed_and_said, program, refused, run};
use super::tree::{compare, known, text, with_everything};
use fixtures::extent::by_extent;
use fixtures::noise;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

#[test]
fn a_tree_with_everything_comes_out_as_it_went_in() {
    let folder = disks(&["a", "b"], 256 << 20);
    let at = folder.path();
    let place = fixtures::scratch::folder();
    let (tree, out) = (place.path().join("tree"), place.path().join("out"));
    with_everything(&tree);
    done(at, &["zpool", "create", "-O", "compression=lz4", "tank", "mirror", "a", "b"]);
    // Its lists of access come along though they don't count in mounts of it (`acltype=off`).
    done(at, &["zfs", "create", "tank/home"]);
    let source = format!("{}/.", text(&tree));
    // Twice: at the second time all is there.
    let (_, said) = printed_and_said(at, &["zfs", "cp", "-r", &source, "tank/home:"]);
    assert!(said.contains(" files copied, "), "{said}");
    let (_, said) = printed_and_said(at, &["zfs", "cp", "-r", &source, "tank/home:"]);
    assert!(
        said.contains("0 files copied, 0 B, ") && said.contains("were there already"),
        "{said}"
    );
    judge(at, "tank");
    done(at, &["zfs", "cp", "-r", "tank/home:", text(&out)]);
    compare(&tree, &out);
    let holes = std::fs::metadata(out.join("holes")).expect("it is there");
    assert!(holes.size() > 20 << 20 && holes.blocks() * 512 < 2 << 20, "{}", holes.blocks());
    // A name of its own, and what is replaced only when that is said.
    let large = tree.join("large");
    done(at, &["zfs", "cp", text(&large), "tank/home:deep/er"]);
    std::fs::write(&large, "other").expect("written");
    let again = ["zfs", "cp", text(&large), "tank/home:deep/er/large"];
    refused(at, &again, "--force replaces it");
    done(at, &["zfs", "cp", "--force", text(&large), "tank/home:deep/er/large"]);
    let printed = done(at, &["zfs", "cat", "tank/home:deep/er/large"]);
    assert_eq!(printed, "other");
    // A directory under its own name, and what bears no mark any more gets it below.
    for _ in 0..2 {
        done(at, &["zfs", "cp", "-r", text(&tree.join("deep")), "tank:copy"]);
    }
    let printed = done(at, &["zfs", "ls", "tank:copy"]);
    assert!(
        printed.contains("deep") && printed.contains("er") && !printed.contains("spindle"),
        "{printed}"
    );
    judge(at, "tank");
}

#[test]
fn what_can_not_be_written_to_is_refused_in_words() {
    let folder = disks(&["a"], 128 << 20);
    let at = folder.path();
    std::fs::write(at.join("file"), "text").expect("written");
    std::fs::create_dir(at.join("dir")).expect("made");
    done(at, &["zpool", "create", "tank", "a"]);
    done(at, &["zfs", "create", "tank/home"]);
    done(at, &["zfs", "create", "-o", "readonly=on", "tank/shut"]);
    done(at, &["zfs", "snapshot", "tank@one"]);
    let long = format!("tank:{}", "n".repeat(256));
    for (words, why) in [
        (&["file", "tank@one:"][..], "a snapshot is only read"),
        (&["file", "tank/shut:"], "tank/shut is read-only: spindle zfs set readonly=off"),
        (&["file", "tank/none:"], "dataset does not exist"),
        (&["file", "other:"], "dataset does not exist"),
        (&["file", "tank:no/such/place"], "there is no directory tank:/no: make it first"),
        (&["none", "tank:"], "none: No such file or directory"),
        (&["dir", "tank:"], "it is a directory: -r copies those"),
        (&["file", &long], "names in a dataset have 255 at the most"),
        (&["file", "tank:../up"], "'..' leads nowhere"),
        (&["a", "tank:"], "one of the pool's devices"),
        (&["--skip-damaged", "file", "tank:"], "for copies out"),
    ] {
        refused(at, &[&["zfs", "cp"], words].concat(), why);
    }
    // What a child covers is the child's.
    std::fs::create_dir(at.join("dir/home")).expect("made");
    std::fs::write(at.join("dir/home/inner"), "text").expect("written");
    refused(
        at,
        &["zfs", "cp", "-r", "dir/.", "tank:"],
        "home is a dataset of its own in the target: add --children",
    );
    done(at, &["zfs", "cp", "-r", "--children", "dir/.", "tank:"]);
    assert_eq!(done(at, &["zfs", "cat", "tank/home:inner"]), "text");
    judge(at, "tank");
}

#[test]
fn a_copy_that_was_killed_goes_on_and_one_that_was_stopped_leaves_an_exported_pool() {
    fixtures::takes_long!();
    let folder = disks(&["a"], 1 << 30);
    let at = folder.path();
    let place = fixtures::scratch::folder();
    let (tree, out) = (place.path().join("tree"), place.path().join("out"));
    std::fs::create_dir(&tree).expect("made");
    for n in 0..60 {
        // Enough is left after each of the places where it is stopped.
        let (large, small) = by_extent((40 << 20, 700_000), (96 << 20, 1_500_000));
        let len = if n == 30 || n == 50 { large } else { small };
        std::fs::write(tree.join(format!("{n:03}")), noise(n, len)).expect("written");
    }
    done(at, &["zpool", "create", "-O", "compression=off", "tank", "a"]);
    let copy = ["zfs", "cp", "-rv", text(&tree), "tank:copy"];
    for (lines, signal) in [(31, "-KILL"), (33, "-KILL"), (45, "-TERM")] {
        let mut child = program(at, &copy)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let reader = BufReader::new(child.stdout.take().expect("a pipe"));
        let of = format!("{:03}", lines - 1);
        // Later runs begin further on.
        for line in reader.lines() {
            if line.expect("a line").ends_with(&of) {
                break;
            }
        }
        if lines == 31 {
            // In the midst of the large file, with a group in the pool.
            std::thread::sleep(std::time::Duration::from_millis(150));
        }
        let pid = child.id().to_string();
        std::process::Command::new("kill").args([signal, &pid]).status().expect("killed");
        let status = child.wait().expect("it ended");
        assert!(!status.success());
        match signal {
            "-KILL" => {
                // This host goes on; another one is asked.
                let mut other = program(at, &["zfs", "cp", "-r", text(&tree), "tank:copy"]);
                let output = other.env("ZFS_HOSTID", "0x77").output().expect("it starts");
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(said.contains("say so with --force-import"), "{said}");
            }
            _ => assert_eq!(status.code(), Some(130)),
        }
        judge(at, "tank");
    }
    // Exported: nothing is forced.
    let (_, said) = printed_and_said(at, &["zfs", "cp", "-r", text(&tree), "tank:copy"]);
    assert!(said.contains("were there already"), "{said}");
    let printed = done(at, &["zfs", "ls", "-a", "tank:copy"]);
    assert!(!printed.contains("spindle"), "{printed}");
    done(at, &["zfs", "cp", "-r", "tank:copy/.", text(&out)]);
    compare(&tree, &out);
    judge(at, "tank");
}

#[test]
fn a_full_pool_says_so_and_is_sound() {
    fixtures::takes_long!();
    let folder = disks(&["a"], 192 << 20);
    let at = folder.path();
    let place = fixtures::scratch::folder();
    let (tree, out) = (place.path().join("tree"), place.path().join("out"));
    std::fs::create_dir(&tree).expect("made");
    for n in 0..60 {
        std::fs::write(tree.join(format!("{n:03}")), noise(n, 3_000_000)).expect("written");
    }
    done(at, &["zpool", "create", "tank", "a"]);
    let source = format!("{}/.", text(&tree));
    refused(at, &["zfs", "cp", "-r", &source, "tank:"], "the target is full (no space left)");
    judge(at, "tank");
    let copied = run(at, &["zfs", "cp", "-r", "tank:/", text(&out)]);
    assert!(copied.status.success());
    let (whole, there) = (known(&tree), known(&out));
    let files = there.iter().filter(|(name, _)| !name.is_empty() && !name.starts_with('.'));
    let mut count = 0;
    for (name, text) in files {
        assert_eq!(Some(text), whole.get(name), "{name}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

/// What could break: a name that a dataset can't take is told in words that say nothing of it.
#[test]
fn a_name_that_is_not_utf_8_is_told_as_such_where_a_dataset_takes_no_other() {
    use std::os::unix::ffi::OsStrExt;
    let folder = disks(&["a"], 128 << 20);
    let at = folder.path();
    let place = fixtures::scratch::folder();
    let tree = place.path();
    std::fs::write(tree.join("good"), "good").expect("a file");
    let bad = std::ffi::OsStr::from_bytes(b"caf\xe9");
    std::fs::write(tree.join(bad), "bad").expect("a file");
    std::fs::create_dir(tree.join(std::ffi::OsStr::from_bytes(b"dir\xff"))).expect("a folder");
    done(at, &["zpool", "create", "tank", "a"]);
    let source = format!("{}/.", text(tree));
    for (dataset, property) in [("tank/form", "normalization=formC"), ("tank/text", "utf8only=on")]
    {
        done(at, &["zfs", "create", "-o", property, dataset]);
        let output = run(at, &["zfs", "cp", "-r", &source, &format!("{dataset}:")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let why = "its name is not UTF-8, and the dataset takes no other names";
        assert_eq!(said.matches(why).count(), 2, "{said}");
        assert_eq!(done(at, &["zfs", "cat", &format!("{dataset}:good")]), "good");
    }
    done(at, &["zfs", "create", "tank/any"]);
    done(at, &["zfs", "cp", "-r", &source, "tank/any:"]);
}
