//! Pools that were forged: directories in a circle, names that steer a terminal, names that `cp` uses itself. And users of
//! the same machine, who may write where root copies to.

use super::fixture::{Fixture, compare, is_root, path_of};
use super::forge::Place;
use super::forged::{add_entry, dataset, forge, replace};
use super::mounting::Mount;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

const POOL: &str = "t_all_features";
/// Directories of that pool: the root, `files`, `files/deep`, `files/deep/level-00`, and `level-01` in that.
const DIRECTORIES: [u64; 5] = [34, 2, 57, 59, 61];

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// A pool in which `level-00` holds itself, two directories above it, one of another place, and `level-01` twice.
fn circles() -> Option<Fixture> {
    let fixture = Fixture::unpack("all-features")?;
    forge(&fixture, async |spa, forge| {
        let dataset = dataset(spa, POOL).await;
        let [root, files, deep, here, below] = DIRECTORIES;
        for (name, object) in
            [("itself", here), ("above", files), ("root", root), ("twice", below), ("parent", deep)]
        {
            add_entry(forge, dataset, here, name, object).await;
        }
    });
    Some(fixture)
}

/// The names that are refused in it: of two names the one that is met second.
const REFUSED: [&str; 5] = ["above", "itself", "parent", "root", "twice"];

/// What could break: a walk through directories that lead back to where it was never ends; or it ends with a copy, and a
/// status, that say nothing of what was left out; or it leaves out more.
#[test]
fn directories_in_a_circle_are_told_and_the_rest_is_copied() {
    let Some(fixture) = circles() else { return };
    let target = fixtures::scratch::folder();
    let out = target.path().join("out");
    let source = format!("{POOL}:");
    for arguments in
        [vec!["zfs", "ls", "-R", &*source], vec!["zfs", "cp", "-r", &*source, text(&out)]]
    {
        let done = fixture.output(&arguments);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        let told: Vec<&str> = said.lines().filter(|line| line.contains("level-00/")).collect();
        assert_eq!(told.len(), REFUSED.len(), "{said}");
        for name in REFUSED {
            let place = format!("{POOL}:/files/deep/level-00/{name}: ");
            assert!(told.iter().any(|line| line.contains(&place)), "{name}: {said}");
        }
    }
    if is_root() {
        compare(&out, &fixture.entries(POOL), false);
    }
    assert!(!out.join("files/deep/level-00/itself").exists());
    // Where a walk begins it is not asked for its parent.
    let listed = fixture.prints(&["zfs", "ls", &format!("{POOL}:files/deep/level-00/twice")]);
    assert!(String::from_utf8_lossy(&listed).contains("level-02"));
}

#[test]
fn directories_in_a_circle_end_for_programs_that_walk_a_mount() {
    let Some(fixture) = circles() else { return };
    let Some(mount) = Mount::new(&fixture, &[POOL]) else { return };
    // Of two names of one directory it is the first that is asked for.
    std::fs::metadata(mount.path().join("files/deep/level-00/level-01")).expect("it is there");
    let found = Command::new("timeout").args(["60", "find"]).arg(mount.path()).output();
    let found = found.expect("find runs");
    let (names, said) =
        (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    assert_eq!(found.status.code(), Some(1), "{said}");
    assert_eq!(names.lines().filter(|name| name.ends_with("/level-02")).count(), 1, "{names}");
    // All others are there.
    compare(mount.path(), &fixture.entries(POOL), true);
    for name in REFUSED {
        let place = mount.path().join("files/deep/level-00").join(name);
        let error = std::fs::read_dir(&place).expect_err(name);
        assert_eq!(error.raw_os_error(), Some(40), "{name}: {error}");
    }
    mount.stop();
}

/// What could break: `zfs list` goes round for ever.
#[test]
fn datasets_in_a_circle_are_refused() {
    let Some(fixture) = Fixture::unpack("snapshots-clones") else { return };
    forge(&fixture, async |spa, forge| {
        let root = spa.dsl().root().await.expect("the root");
        let a =
            spa.dsl().find_directory("t_snapshots_clones/a").await.expect("read").expect("there");
        let mut edit = |block: &mut [u8]| {
            let free = block.chunks_exact_mut(64).skip(1).find(|entry| entry[14] == 0);
            let free = free.expect("a free entry");
            free[..8].copy_from_slice(&root.number.to_le_bytes());
            free[14..17].copy_from_slice(b"top");
        };
        assert!(forge.mos(Place::Data(a.head.children, 0), &mut edit).await.is_ok());
    });
    let said = fixture.refusal(&["zfs", "list", "-r", "t_snapshots_clones"]);
    assert!(said.contains("within itself"), "{said}");
    let listed = fixture.prints(&["zfs", "list", "-H", "-o", "name", "t_snapshots_clones/clone"]);
    assert_eq!(listed, b"t_snapshots_clones/clone\n");
}

/// Whether a text holds what only the program itself may print: line breaks and tabs are its own.
fn steers(text: &[u8]) -> bool {
    String::from_utf8_lossy(text)
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}')
}

/// What could break: a name, a property or the history of a pool that somebody made to steer the terminal of whoever looks at
/// it, or to make lines and columns of its own in what a script reads.
#[test]
fn nothing_in_a_pool_reaches_the_terminal_raw() {
    fixtures::takes_long!();
    let Some(fixture) = Fixture::unpack("snapshots-clones") else { return };
    let disk = fixture.path().join("disk0.raw");
    let lines = |arguments: &[&str]| {
        let done = fixture.output(arguments);
        assert!(!steers(&done.stdout) && !steers(&done.stderr), "{arguments:?}: {done:?}");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        (said.lines().count(), said)
    };
    let commands: Vec<Vec<&str>> = vec![
        vec!["zpool", "import"],
        vec!["zpool", "list", "-v"],
        vec!["zpool", "status"],
        vec!["zpool", "get", "-H", "all"],
        vec!["zpool", "history", "-il"],
        vec!["zfs", "list", "-o", "name,org.example:note"],
        vec!["zfs", "list", "-H", "-o", "name,org.example:note"],
        vec!["zfs", "get", "-H", "-o", "name,value", "org.example:note"],
        vec!["zpool", "debug", "label", text(&disk)],
    ];
    let before: Vec<usize> = commands.iter().map(|command| lines(command).0).collect();
    let (note, evil) = (b"a user property", b"a\n\tnames\x1b[2J\x9b31");
    forge(&fixture, async |spa, forge| {
        let a =
            spa.dsl().find_directory("t_snapshots_clones/a").await.expect("read").expect("there");
        let mut changed = 0;
        for block in 0..2 {
            let mut edit = |bytes: &mut [u8]| changed += replace(bytes, note, evil);
            assert!(forge.mos(Place::Data(a.head.properties, block), &mut edit).await.is_ok());
        }
        assert!(changed > 0, "the property is there");
        let directory = spa.mos().dnode(1).await.expect("the directory of the pool");
        let directory = zfs::zap::Zap::open(directory).await.expect("a table");
        let history = directory.number("history").await.expect("read").expect("there");
        let mut changed = 0;
        let mut edit =
            |bytes: &mut [u8]| changed += replace(bytes, b"zpool create", b"zp\n\x1b[41m\tate");
        assert!(forge.mos(Place::Data(history, 0), &mut edit).await.is_ok());
        assert!(changed > 0, "the command is there");
        let mut changed = 0;
        let mut edit = |bytes: &mut [u8]| {
            changed += replace(bytes, b"t_snapshots_clones", b"t_\x1b]0;x\x07s\n_clones\x7f");
        };
        let own = directory.number("config").await.expect("read").expect("there");
        assert!(forge.mos(Place::Data(own, 0), &mut edit).await.is_ok());
        forge.configuration(&mut edit);
        assert_eq!(changed, 5, "the pool's name is in the MOS and in four labels");
    });
    for (command, before) in commands.iter().zip(before) {
        let (after, said) = lines(command);
        assert_eq!(after, before, "{command:?}: {said}");
    }
    let (_, values) = lines(&["zfs", "get", "-H", "-o", "value", "org.example:note"]);
    assert!(values.contains("a\\x0a\\x09names\\x1b[2J"), "{values}");
    let (_, listed) = lines(&["zpool", "list", "-H", "-o", "name"]);
    assert_eq!(listed, "t_\\x1b]0;x\\x07s\\x0a_clones\\x7f\n");
    // JSON says exactly what the pool holds.
    let listed = fixture.prints(&["zpool", "list", "-j"]);
    assert!(!steers(&listed));
    let listed: serde_json::Value = serde_json::from_slice(&listed).expect("JSON");
    let pools = listed["pools"].as_object().expect("pools");
    assert!(pools.contains_key("t_\u{1b}]0;x\u{7}s\n_clones\u{7f}"), "{listed}");
}

/// What could break: a file's name makes two lines of one for a script, or can't be read back.
#[test]
fn names_of_files_make_one_line_and_can_be_had_exactly() {
    let Some(fixture) = Fixture::unpack("all-features") else { return };
    let root = DIRECTORIES[0];
    forge(&fixture, async move |spa, forge| {
        let dataset = dataset(spa, POOL).await;
        let mut edit = |block: &mut [u8]| {
            assert_eq!(replace(block, b"later\0\0\0\0", b"l\n\x1bter\xe9\\\0"), 1);
        };
        assert!(forge.dataset(dataset, Place::Data(root, 0), &mut edit).await.is_ok());
    });
    let source = format!("{POOL}:");
    let listed = fixture.prints(&["zfs", "ls", &source]);
    assert_eq!(listed, b"files\nl\\x0a\\x1bter\\xe9\\\\\n");
    let exact = fixture.prints(&["zfs", "ls", "--zero", &source]);
    assert_eq!(exact, b"files\0l\n\x1bter\xe9\\\0");
    let json = fixture.prints(&["zfs", "ls", "-j", &source]);
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json[1]["name_hex"], "6c0a1b746572e95c");
    let target = fixtures::scratch::folder();
    let out = target.path().join("out");
    let said = fixture.output(&["zfs", "cp", "-v", "-r", &source, text(&out)]);
    assert!(!steers(&said.stdout) && !steers(&said.stderr), "{said:?}");
}

/// What could break: a file of the pool is taken for `cp`'s own mark, and is not in the copy, whose status is 0.
#[test]
fn a_pools_own_file_called_as_the_mark_is_copied() {
    let Some(fixture) = Fixture::unpack("all-features") else { return };
    let root = DIRECTORIES[0];
    let whole = fixture.prints(&["zfs", "cat", &format!("{POOL}:later")]);
    forge(&fixture, async move |spa, forge| {
        let dataset = dataset(spa, POOL).await;
        let mut edit = |block: &mut [u8]| {
            let old = [&b"later"[..], &[0; 14]].concat();
            assert_eq!(replace(block, &old, b".spindle-unfinished"), 1);
        };
        assert!(forge.dataset(dataset, Place::Data(root, 0), &mut edit).await.is_ok());
    });
    let target = fixtures::scratch::folder();
    let (source, out) = (format!("{POOL}:"), target.path().join("out"));
    for _ in 0..2 {
        fixture.prints(&["zfs", "cp", "-r", &source, text(&out)]);
        let copy = std::fs::read(out.join(".spindle-unfinished")).expect("it is copied");
        assert_eq!(copy, whole);
        let own = std::fs::read_dir(&out).expect("listed").filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().starts_with(".spindle-")
        });
        assert_eq!(own.count(), 1, "the mark is gone");
    }
}

#[test]
fn what_gives_rights_is_left_out_where_that_is_asked_for() {
    if !is_root() {
        println!("skipped: setuid files and devices are for root");
        return;
    }
    let Some(fixture) = Fixture::unpack("all-features") else { return };
    let target = fixtures::scratch::folder();
    let (source, out) = (format!("{POOL}:"), target.path().join("out"));
    let done =
        fixture.output(&["zfs", "cp", "-r", "--no-devices", "--no-setuid", &source, text(&out)]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("2 device nodes were left out"), "{said}");
    let mut special = 0;
    for entry in fixture.entries(POOL) {
        let mode = u32::from_str_radix(entry["mode"].as_str().expect("a mode"), 8).expect("octal");
        let found = std::fs::symlink_metadata(out.join(path_of(entry)));
        match entry["type"].as_str() {
            Some("chardev" | "blockdev") => assert!(found.is_err(), "{}", path_of(entry)),
            Some("symlink") => {}
            _ if path_of(entry).contains('\u{fffd}') => {}
            _ => {
                special += u32::from(mode & 0o6000 != 0);
                assert_eq!(
                    found.expect("it is there").mode() & 0o7777,
                    mode & 0o1777,
                    "{}",
                    path_of(entry)
                );
            }
        }
    }
    assert!(special > 1, "there are such files");
}

/// What could break: a user who may write where root copies to puts things there beforehand, and gets the copy's bytes into a
/// file of his own, or has one of his own taken for the copy.
#[test]
fn what_another_user_put_into_the_target_is_not_used() {
    if !is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let Some(fixture) = Fixture::unpack("single") else { return };
    let target = fixtures::scratch::folder();
    std::fs::set_permissions(target.path(), std::fs::Permissions::from_mode(0o1777)).expect("set");
    // A directory that root would begin in, made by another user: passed over.
    let theirs = |name: &str| {
        let path = target.path().join(name);
        std::fs::create_dir(&path).expect("made");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("set");
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).expect("given");
        path
    };
    let hash = b"tree".iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let planted = theirs(&format!(".spindle-{hash:016x}.begun"));
    let tree = target.path().join("tree");
    fixture.prints(&["zfs", "cp", "-r", "t_single:files/modes", text(&tree)]);
    assert_eq!(std::fs::read_dir(&planted).expect("it is still there").count(), 0);
    assert_eq!(std::fs::metadata(&tree).expect("made").uid(), 0);
    assert!(tree.join("m4755").is_file());
}

#[test]
fn versions_are_told() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    for command in ["zpool", "zfs"] {
        let text = fixture.prints(&[command, "version"]);
        assert_eq!(text, concat!("spindle-", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
        let json = fixture.prints(&[command, "version", "-j"]);
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["output_version"]["command"], format!("{command} version"));
        assert_eq!(
            (&json["zfs_version"]["spa_version"], &json["zfs_version"]["zpl_version"]),
            (&5000.into(), &5.into())
        );
    }
}
