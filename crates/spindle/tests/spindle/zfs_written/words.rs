//! What commands that change something say when they don't, and with which status they end: scripts of OpenZFS's users look at both.
//!
//! Source for the words: OpenZFS 2.1, `zpool_main.c`, `zfs_main.c`, `libzfs_dataset.c`, `libzfs_pool.c`.

use super::pools::{disks, done, run};
use std::path::Path;

#[track_caller]
fn says(at: &Path, cases: &[(&[&str], i32, &str)]) {
    for (words, status, text) in cases {
        let output = run(at, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(*status), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    }
}

#[test]
fn properties_that_cannot_be_are_refused_by_what_they_are_set_on() {
    let folder = disks(&["a", "b"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    says(
        at,
        &[
            (
                &["zfs", "set", "compression=bad", "tank"],
                1,
                "cannot set property for 'tank': 'compression' must be one of 'on | off | lzjb",
            ),
            (
                &["zfs", "set", "foo=bar", "tank"],
                1,
                "cannot set property for 'tank': invalid property 'foo'",
            ),
            (
                &["zfs", "set", "used=1", "tank"],
                1,
                "cannot set property for 'tank': 'used' is readonly",
            ),
            (&["zfs", "set", "quota=many", "tank"], 1, "bad numeric value 'many'"),
            (&["zfs", "set", "compression=on", "tank/none"], 1, "dataset does not exist"),
            (
                &["zfs", "create", "-o", "foo=bar", "tank/x"],
                1,
                "cannot create 'tank/x': invalid property 'foo'",
            ),
            (
                &["zfs", "create", "-V", "8M", "-o", "atime=on", "tank/v"],
                1,
                "cannot create 'tank/v': 'atime' does not apply to datasets of this type",
            ),
            (
                &["zfs", "create", "-s", "tank/x"],
                2,
                "'-s' and '-b' can only be used when creating a",
            ),
            (
                &["zfs", "create", "tank/x%"],
                1,
                "cannot create 'tank/x%': invalid character '%' in name",
            ),
            (
                &["zfs", "create", "tank//x"],
                1,
                "cannot create 'tank//x': empty component or misplaced '@' or '#' delimiter in name",
            ),
            (&["zfs", "create", "none/x"], 1, "cannot create 'none/x': no such pool 'none'"),
            (&["zfs", "destroy", "none/x"], 1, "cannot open 'none/x': dataset does not exist"),
            (
                &["zpool", "create", "-O", "foo=bar", "other", "b"],
                1,
                "cannot create 'other': invalid property 'foo'",
            ),
            (
                &["zpool", "create", "-o", "foo=bar", "other", "b"],
                1,
                "property 'foo' is not a valid pool property",
            ),
            (
                &["zpool", "create", "-o", "ashift=30", "other", "b"],
                1,
                "cannot create 'other': property 'ashift' number 30 is invalid, only values between 9",
            ),
        ],
    );
}

#[test]
fn a_pool_has_a_name_that_no_other_has() {
    let folder = disks(&["a", "b"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    says(
        at,
        &[
            (&["zpool", "create", "tank", "b"], 1, "cannot create 'tank': pool already exists"),
            (&["zpool", "create", "mirror", "b"], 1, "cannot create 'mirror': name is reserved"),
            (&["zpool", "create", "log", "b"], 1, "cannot create 'log': name is reserved"),
            (
                &["zpool", "create", "1st", "b"],
                1,
                "cannot create '1st': name must begin with a letter",
            ),
            (&["zpool", "create", "a/b", "b"], 1, "invalid character '/' in pool name"),
        ],
    );
    // What only begins as a word does is a name; and one that was destroyed has none.
    done(at, &["zpool", "create", "logs", "b"]);
    done(at, &["zpool", "destroy", "tank"]);
    done(at, &["zpool", "create", "-f", "tank", "b"]);
    assert_eq!(done(at, &["zpool", "list", "-Ho", "name"]), "tank\n");
}

#[test]
fn snapshots_are_taken_with_properties_or_not_at_all() {
    let folder = disks(&["a"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    done(at, &["zfs", "create", "tank/a"]);
    let snapshot = ["zfs", "snapshot", "-r", "-o", "x:why=backup", "-o", "x:n=1", "tank@s"];
    done(at, &snapshot);
    for name in ["tank@s", "tank/a@s"] {
        let got = done(at, &["zfs", "get", "-Ho", "value,source", "x:why,x:n", name]);
        assert_eq!(got, "backup\tlocal\n1\tlocal\n", "{name}");
    }
    says(
        at,
        &[
            (
                &["zfs", "snapshot", "tank@t", "tank/a@s"],
                1,
                "cannot create snapshot 'tank/a@s': dataset already exists\nno snapshots were created",
            ),
            (
                &["zfs", "snapshot", "-o", "compression=on", "tank@t"],
                1,
                "this property can not be modified for snapshots",
            ),
            (&["zfs", "snapshot", "-o", "x:Y=1", "tank@t"], 1, "no snapshots were created"),
            (&["zfs", "snapshot", "tank"], 2, "missing '@' delimiter in snapshot name"),
        ],
    );
    assert_eq!(done(at, &["zfs", "list", "-Ht", "snapshot", "-o", "name"]), "tank@s\ntank/a@s\n");
}

/// What could break: a script that takes a call that was wrong for a pool that is, or the other way round.
#[test]
fn what_a_library_refuses_is_1_and_a_wrong_call_is_2() {
    let folder = disks(&["a", "b"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    let create = |words: &[&'static str]| [&["zpool", "create"], words].concat();
    let refused: &[(&[&str], &str)] = &[
        (
            &["other", "mirror", "b"],
            "invalid vdev specification: mirror requires at least 2 devices",
        ),
        (&["other", "raidz3", "b"], "invalid vdev specification: raidz3 requires at least"),
        (&["other", "draid9", "b"], "parity level"),
        (&["-f", "other", "mirror", "b", "b"], "given twice"),
        (&["other", "a"], "it holds a ZFS pool member"),
        (&["other", "none"], "none"),
        (&["other", "spare", "b"], "at least one"),
        (&["-o", "ashift=99", "other", "b"], "ashift"),
        (&["-o", "feature@none=enabled", "other", "b"], "none"),
        (&["-o", "comment", "other", "b"], "missing '='"),
        (&["-R", "here", "other", "b"], "must be an absolute path"),
        (&["mirror", "b"], "name is reserved"),
    ];
    for (words, text) in refused {
        says(at, &[(&create(words), 1, text)]);
    }
    for words in [&[][..], &["other"], &["--nonsense", "other", "b"]] {
        says(at, &[(&create(words), 2, "")]);
    }
    says(
        at,
        &[
            (&["zpool", "set", "colour=red", "tank"], 1, "cannot set property for 'tank'"),
            (&["zpool", "set", "bootfs=other", "tank"], 1, "cannot set property for 'tank'"),
            (&["zpool", "set", "comment", "tank"], 2, "missing '='"),
            (&["zpool", "add", "-o", "ashift", "tank", "b"], 2, "missing '='"),
            (&["zpool", "add", "tank", "mirror", "b"], 1, "invalid vdev specification"),
            (&["zpool", "import", "-o", "colour=red", "tank"], 1, "not a valid pool property"),
            (&["zfs", "create", "-V", "many", "tank/v"], 1, "bad volume size 'many'"),
            (&["zfs", "create", "-V", "0", "tank/v"], 1, "volume size cannot be zero"),
            (&["zfs", "create", "-V", "8M", "-b", "1000", "tank/v"], 1, "must be power of 2"),
            (&["zfs", "create", "-o", "atime", "tank/x"], 1, "missing '='"),
            (&["zfs", "create", "-o", "userquota@nobody-here=1G", "tank/x"], 1, "nobody-here"),
            (&["zfs", "set", "atime", "tank"], 2, "missing property=value argument"),
            (&["zfs", "set", "atime=on"], 2, "(see --help)"),
            (&["zfs", "clone", "tank", "tank/x"], 1, "cannot open 'tank'"),
            (&["zfs", "rollback", "tank"], 1, "cannot open 'tank'"),
            (&["zfs", "diff", "tank"], 1, "must be a snapshot"),
            (&["zfs", "destroy", "-r", "tank#b"], 1, "not supported with bookmark"),
            (&["zfs", "bookmark", "tank", "tank#b"], 2, "invalid source name 'tank'"),
            (&["zfs", "inherit", "colour", "tank"], 2, "invalid property 'colour'"),
            (&["zfs", "snapshot", "tank@a", "other@a"], 1, "of one pool"),
        ],
    );
}
