//! `zpool import` for writing, `add`, `labelclear`, `upgrade`, from the outside.
//!
//! What could break: a pool that another host has is written, or one that this host had is not; a device that holds something is
//! overwritten; words or exit statuses that scripts of OpenZFS's users don't know; a pool that `zdb` finds fault with.

use super::pools::{add_disks, disks, done, judge, program, refused, run, zdb};
use super::serving::Serving;
use std::path::Path;
use std::process::Output;

const DISK_BYTES: u64 = 128 << 20;

/// The program as a host of this number runs it.
fn by_host(folder: &Path, host: &str, arguments: &[&str]) -> Output {
    let mut command = program(folder, arguments);
    command.env("ZFS_HOSTID", host).env("TZ", "UTC").output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn has(folder: &Path, name: &str) -> bool {
    let names = done(folder, &["zfs", "list", "-H", "-o", "name"]);
    names.lines().any(|line| line == name)
}

/// A server of the pool's volume on a host of this number.
fn serving(folder: &Path, host: &str, more: &[&str]) -> Serving {
    let socket = format!("unix:{}", folder.join("nbd/socket").display());
    std::fs::create_dir_all(folder.join("nbd")).expect("a folder");
    let serve = [&["serve", "--volume", "tank/v", "--nbd", &socket], more].concat();
    Serving::start(program(folder, &serve).env("ZFS_HOSTID", host))
}

/// A pool whose server was killed on a host of this number.
fn left_open(folder: &Path, host: &str) {
    add_disks(folder, &["a", "b"], DISK_BYTES);
    done(folder, &["zpool", "create", "tank", "mirror", "a", "b"]);
    done(folder, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    let server = serving(folder, host, &[]);
    refused(folder, &["zpool", "import", "-f", "tank"], "is held by process");
    refused(folder, &["zpool", "add", "-f", "tank", "a"], "of pool 'tank' already");
    server.kill();
}

#[test]
fn a_pool_that_another_host_has_is_refused_in_openzfs_words_and_forced() {
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    left_open(at, "0x77");
    for arguments in [&["zpool", "import", "tank"][..], &["zpool", "import", "-a"]] {
        let output = by_host(at, "0x78", arguments);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.starts_with("cannot import 'tank': pool was previously in use from another system.\nLast accessed by "),
            "{text}"
        );
        assert!(text.contains("(hostid=77) at "), "{text}");
        assert!(
            text.ends_with("The pool can be imported, use 'zpool import -f' to import the pool.\n"),
            "{text}"
        );
    }
    for arguments in [
        &["zfs", "create", "tank/x"][..],
        &["zpool", "set", "comment=x", "tank"],
        &["zpool", "export", "tank"],
        &["zpool", "add", "tank", "log", "c"],
        &["zpool", "upgrade", "-a"],
    ] {
        let output = by_host(at, "0x78", arguments);
        let text = said(&output);
        let of_other = text.contains("was last in use by") || text.contains("another host may");
        assert!(!output.status.success() || text.contains("already"), "{arguments:?}: {text}");
        assert!(of_other || text.contains("already"), "{arguments:?}: {text}");
    }
    let output = by_host(at, "0x78", &["zpool", "import", "-f", "tank"]);
    assert!(output.status.success() && said(&output).contains("pool 'tank' can be written"));
    // It is exported then: whoever comes takes it.
    let output = by_host(at, "0x79", &["zfs", "create", "tank/x"]);
    assert!(output.status.success(), "{}", said(&output));
    judge(at, "tank");
}

#[test]
fn a_pool_that_this_host_had_is_taken_without_a_word() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    left_open(at, "0x77");
    if let Some(text) = zdb(at, &["-C", "tank"]) {
        assert!(text.contains("hostid: 119\n"), "{text}");
    }
    let output = by_host(at, "0x77", &["zfs", "create", "tank/x"]);
    assert!(output.status.success(), "{}", said(&output));
    serving(at, "0x77", &[]).kill();
    // Who has no number is nobody in particular.
    let output = by_host(at, "0", &["zfs", "create", "tank/y"]);
    assert!(!output.status.success() && said(&output).contains("was last in use by"));
    serving(at, "0", &["--force"]).kill();
    let output = by_host(at, "0", &["zfs", "create", "tank/y"]);
    assert!(!output.status.success() && said(&output).contains("was not exported"));
    assert!(by_host(at, "0", &["zfs", "create", "-f", "tank/y"]).status.success());
    judge(at, "tank");
}

#[test]
fn an_import_renames_sets_and_brings_back() {
    fixtures::takes_long!();
    let folder = disks(&["a", "b"], DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    done(at, &["zfs", "create", "tank/home"]);
    for (arguments, status, why) in [
        (&["-n", "tank"][..], 2, "only meaningful with -F"),
        (&["-t", "tank"], 2, "the name that it has meanwhile"),
        (&["tank", "mirror"], 1, "cannot import 'tank' as 'mirror': name is reserved"),
        (&["-o", "colour=red", "tank"], 1, "not a valid pool property"),
        (&["-o", "multihost=perhaps", "tank"], 1, "must be one of"),
        (&["-o", "sideways", "tank"], 1, "no option of mounts"),
        (&["-o", "readonly=on", "tank", "other"], 2, "nothing is written"),
        (&["-o", "readonly=on", "-o", "comment=x", "tank"], 2, "nothing is written"),
        (&["-D", "tank"], 1, "no such pool available"),
        (&["gone"], 1, "no such pool available"),
    ] {
        let output = run(at, &[&["zpool", "import"], arguments].concat());
        let text = said(&output);
        assert!(
            output.status.code() == Some(status) && text.contains(why),
            "{arguments:?}: {text}"
        );
    }
    let options = ["-N", "-R", "/mnt", "-o", "comment=mine", "-o", "cachefile=none"];
    let text = done(at, &[&["zpool", "import"], &options[..], &["tank", "other"]].concat());
    assert!(text.starts_with("pool 'other' can be written"), "{text}");
    assert!(has(at, "other/home") && !has(at, "tank/home"));
    assert_eq!(done(at, &["zpool", "get", "-Ho", "value", "comment", "other"]), "mine\n");
    let guid = done(at, &["zpool", "get", "-Ho", "value", "guid", "other"]);
    done(at, &["zpool", "import", guid.trim(), "tank"]);
    assert!(has(at, "tank/home"));
    let text = done(at, &["zpool", "import", "-t", "tank", "other"]);
    assert!(text.starts_with("pool 'tank' was imported as 'other', and keeps its name"), "{text}");
    assert!(has(at, "tank/home"));
    let text = done(at, &["zpool", "import", "-F", "-n", "tank"]);
    assert_eq!(text, "tank can be imported as it is.\n");
    judge(at, "tank");
    done(at, &["zpool", "destroy", "tank"]);
    for arguments in
        [&["zfs", "create", guid.trim()][..], &["zpool", "set", "comment=x", guid.trim()]]
    {
        assert!(!run(at, arguments).status.success());
    }
    refused(at, &["zpool", "set", "comment=x", guid.trim()], "was destroyed");
    refused(at, &["zpool", "import", "tank"], "no such pool available");
    refused(at, &["zpool", "import", "-D", "tank"], "using the '-Df' flags");
    assert!(done(at, &["zpool", "import", "-D"]).contains("ONLINE (DESTROYED)"));
    done(at, &["zpool", "import", "-D", "-f", "tank"]);
    assert!(has(at, "tank/home"));
    judge(at, "tank");
}

#[test]
fn a_pool_goes_on_without_its_log_device() {
    let folder = disks(&["a", "b"], DISK_BYTES);
    let at = folder.path();
    let away = fixtures::scratch::folder();
    done(at, &["zpool", "create", "tank", "a", "log", "b"]);
    std::fs::rename(at.join("b"), away.path().join("b")).expect("it goes");
    refused(at, &["zpool", "import", "tank"], "one or more devices is currently unavailable");
    done(at, &["zpool", "import", "-m", "tank"]);
    done(at, &["zfs", "create", "tank/home"]);
    let text = done(at, &["zpool", "status", "tank"]);
    assert!(text.contains("state: DEGRADED") && text.contains("UNAVAIL"), "{text}");
    std::fs::rename(away.path().join("b"), at.join("b")).expect("it is back");
    done(at, &["zfs", "create", "tank/other"]);
    assert!(has(at, "tank/home") && has(at, "tank/other"));
    judge(at, "tank");
}

#[test]
fn vdevs_are_added_with_openzfs_words_and_what_does_not_fit_is_refused() {
    fixtures::takes_long!();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let folder = disks(&names, DISK_BYTES);
    let at = folder.path();
    std::fs::write(at.join("small"), vec![0; 1 << 20]).expect("a disk");
    std::fs::write(at.join("full"), vec![7; 64 << 20]).expect("a disk");
    done(at, &["zpool", "create", "tank", "mirror", "a", "b", "spare", "g"]);
    let all = || {
        let names = names.iter().chain(&["small", "full"]);
        let changed = |name: &&str| std::fs::metadata(at.join(name)).and_then(|of| of.modified());
        names.map(|name| changed(name).expect("it is there")).collect::<Vec<_>>()
    };
    let before = all();
    for (arguments, status, why) in [
        (
            &["tank", "c"][..],
            1,
            "mismatched replication level: pool uses mirror and new vdev is file",
        ),
        (
            &["tank", "mirror", "c", "d", "e"],
            1,
            "pool uses 2-way mirror and new vdev uses 3-way mirror",
        ),
        (&["tank", "raidz2", "c", "d", "e", "f"], 1, "pool uses mirror and new vdev is raidz"),
        (&["tank", "mirror", "c"], 1, "mirror requires at least 2 devices"),
        (&["-f", "tank", "mirror", "c", "c"], 1, "given twice"),
        (&["-f", "tank", "a"], 1, "is a part of pool 'tank' already"),
        (&["-f", "tank", "g"], 1, "is a part of pool 'tank' already"),
        (&["-f", "tank", "small"], 1, "device is too small"),
        (&["-f", "tank", "absent"], 1, "absent"),
        (&["tank", "log", "full"], 1, "it holds data"),
        (&["tank", "spare"], 1, "requires at least 1"),
        (&["-o", "ashift=8", "tank", "log", "c"], 1, "only values between 9 and 16"),
        (&["-o", "comment=x", "tank", "log", "c"], 2, "only ashift is set"),
        (&["none", "c"], 1, "no such pool"),
    ] {
        let output = run(at, &[&["zpool", "add"], arguments].concat());
        let text = said(&output);
        assert!(
            output.status.code() == Some(status) && text.contains(why),
            "{arguments:?}: {text}"
        );
        assert!(all() == before, "{arguments:?}");
    }
    let at_path = std::fs::canonicalize(at).expect("a path");
    let path = |name: &str| at_path.join(name).display().to_string();
    let add = ["mirror", "c", "d", "log", "e", "cache", "f", "spare", "h"];
    let text = done(at, &[&["zpool", "add", "-n", "tank"], &add[..]].concat());
    assert_eq!(
        text,
        format!(
            "would update 'tank' to the following configuration:\n\n\ttank\n\t  mirror-0\n\t    {}\n\t    {}\n\t  mirror\n\t    c\n\t    d\n\
             \tlogs\n\t  e\n\tcache\n\t  f\n\tspares\n\t  {}\n\t  h\n",
            path("a"),
            path("b"),
            path("g")
        )
    );
    assert!(all() == before);
    done(at, &[&["zpool", "add", "tank"], &add[..]].concat());
    judge(at, "tank");
    let status = done(at, &["zpool", "status", "tank"]);
    for line in ["mirror-1", "logs", "cache", "spares", "h         AVAIL"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let list = done(at, &["zpool", "list", "-Hpv", "tank"]);
    assert!(list.contains("mirror-1") && list.contains("\tAVAIL"), "{list}");
    assert!(done(at, &["zpool", "history", "tank"]).contains("zpool add tank mirror c d log e"));
    // Metadata has a vdev of its own from here on, and the pool goes on.
    done(at, &["zpool", "add", "-f", "-o", "ashift=9", "tank", "special", "i"]);
    let uses = ["zpool", "get", "-Ho", "value", "feature@allocation_classes", "tank"];
    assert_eq!(done(at, &uses), "active\n");
    done(at, &["zfs", "create", "-p", "tank/home/anna"]);
    done(at, &["zfs", "snapshot", "-r", "tank@monday"]);
    judge(at, "tank");
    done(at, &["zpool", "scrub", "--read-only", "tank"]);
}

#[test]
fn labels_are_cleared_of_what_no_pool_needs_and_else_where_that_is_forced() {
    // Not in memory: a path below /dev that is not there may be a volume's.
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    add_disks(at, &["a", "b", "c", "d", "e"], DISK_BYTES);
    done(at, &["zpool", "create", "tank", "mirror", "a", "b", "spare", "c"]);
    let clear = |arguments: &[&str]| run(at, &[&["zpool", "labelclear"], arguments].concat());
    let name = |disk: &str| at.join(disk).display().to_string();
    let output = clear(&[&name("a")]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("use '-f' to override the following error"), "{text}");
    assert!(text.contains("is a member of exported pool \"tank\""), "{text}");
    for (disk, why) in [("d", "it has none"), ("absent", "no such device")] {
        let output = clear(&["-f", &name(disk)]);
        assert!(!output.status.success() && said(&output).contains(why), "{}", said(&output));
    }
    assert!(clear(&[&name("c")]).status.success(), "a spare holds nothing");
    assert!(clear(&["-f", &name("a")]).status.success());
    assert!(said(&clear(&["-f", &name("a")])).contains("it has none"));
    assert!(done(at, &["zpool", "status", "tank"]).contains("DEGRADED"));
    // It is no pool's any more; its data lies there all the same, and is asked after.
    refused(at, &["zpool", "create", "other", "a"], "it holds data");
    done(at, &["zpool", "create", "-f", "other", "a"]);
    done(at, &["zpool", "destroy", "other"]);
    assert!(clear(&[&name("a")]).status.success(), "its pool was destroyed");
    let open = fixtures::scratch::folder();
    left_open(open.path(), "0x77");
    let member = open.path().join("a").display().to_string();
    let text = said(&clear(&[&member]));
    assert!(text.contains("is a member of potentially active pool \"tank\""), "{text}");
}

#[test]
fn features_are_enabled_as_far_as_compatibility_allows() {
    fixtures::takes_long!();
    let folder = disks(&["a", "b"], DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "-d", "old", "a"]);
    let text = done(at, &["zpool", "upgrade"]);
    assert!(
        text.starts_with("This system supports ZFS pool feature flags.\n\nAll pools are formatted using feature flags.\n\n\nSome supported"),
        "{text}"
    );
    assert!(text.contains("POOL  FEATURE\n---------------\nold\n      async_destroy\n"), "{text}");
    assert!(done(at, &["zpool", "upgrade", "-v"]).contains("lz4_compress"));
    let state = |name: &str| {
        let property = format!("feature@{name}");
        done(at, &["zpool", "get", "-Ho", "value", &property, "old"]).trim().to_owned()
    };
    for (pair, why) in [
        ("feature@nope=enabled", "feature 'nope' unsupported"),
        ("feature@lz4_compress=disabled", "can only be set to 'disabled' at creation time"),
        ("feature@lz4_compress=on", "can only be set to 'enabled' or 'disabled'"),
        ("feature@encryption=enabled", "are not written here"),
        ("compatibility=no-such-file", "there is no file 'no-such-file'"),
    ] {
        refused(at, &["zpool", "set", pair, "old"], why);
    }
    done(at, &["zpool", "set", "feature@bookmark_v2=enabled", "old"]);
    assert_eq!((state("bookmark_v2"), state("bookmarks")), ("enabled".into(), "enabled".into()));
    assert_eq!(state("extensible_dataset"), "enabled", "others need it");
    assert_eq!(state("lz4_compress"), "disabled");
    judge(at, "old");
    done(at, &["zpool", "set", "compatibility=legacy", "old"]);
    let text = done(at, &["zpool", "upgrade", "old"]);
    assert!(
        text.ends_with("Pool 'old' already has all supported and requested features enabled.\n")
    );
    done(at, &["zpool", "set", "compatibility=off", "old"]);
    done(at, &["zfs", "create", "old/before"]);
    let text = done(at, &["zpool", "upgrade", "old"]);
    assert!(text.contains("Enabled the following features on 'old':\n  async_destroy\n"), "{text}");
    assert!(!text.contains("bookmark_v2"), "it was enabled already: {text}");
    assert_eq!(
        (state("lz4_compress"), state("zstd_compress")),
        ("active".into(), "enabled".into())
    );
    assert_eq!(state("enabled_txg"), "active");
    judge(at, "old");
    done(at, &["zfs", "create", "-o", "compression=lz4", "old/after"]);
    done(at, &["zfs", "snapshot", "-r", "old@now"]);
    done(at, &["zfs", "destroy", "old@now"]);
    judge(at, "old");
    let text = done(at, &["zpool", "upgrade", "-a"]);
    assert!(text.ends_with(
        "Every feature flags pool already has all supported and requested features enabled.\n"
    ));
    refused(at, &["zpool", "upgrade", "none"], "cannot open 'none': no such pool");
    if Path::new("/usr/share/zfs/compatibility.d/zol-0.6.1").is_file() {
        done(at, &["zpool", "create", "-o", "compatibility=zol-0.6.1", "few", "b"]);
        let value = ["zpool", "get", "-Ho", "value", "feature@lz4_compress,feature@skein", "few"];
        let lines = done(at, &value);
        assert!(lines.contains("disabled"), "{lines}");
        assert!(done(at, &["zpool", "upgrade", "few"]).contains("already has all supported"));
    }
}

/// What could break: blocks that software of its time doesn't know; a version in labels that is not the uberblock's; tables of
/// features that only half of the pool knows of.
#[test]
fn a_pool_of_version_28_is_written_as_such_until_it_is_upgraded() {
    fixtures::takes_long!();
    let Some(from) = fixtures::folder("zfs") else { return };
    let folder = fixtures::unpack(&from, "version28");
    let at = folder.path();
    let pool = "t_version28";
    let version = || done(at, &["zpool", "get", "-Ho", "value", "version", pool]).trim().to_owned();
    for (pair, why) in [
        ("compression=lz4", "pool must be upgraded to set this property or value"),
        ("checksum=sha512", "pool must be upgraded to set this property or value"),
        ("recordsize=1M", "must be power of 2 from 512B to 128K"),
    ] {
        refused(at, &["zfs", "set", pair, pool], why);
    }
    done(at, &["zfs", "create", "-o", "compression=on", "t_version28/old"]);
    std::fs::create_dir(at.join("of")).expect("a folder");
    std::fs::write(at.join("of/text"), "as it was then ".repeat(9999)).expect("written");
    done(at, &["zfs", "cp", "-r", "of/.", "t_version28/old:/"]);
    done(at, &["zfs", "snapshot", "-r", "t_version28@now"]);
    done(at, &["zfs", "clone", "t_version28/old@now", "t_version28/clone"]);
    refused(at, &["zfs", "bookmark", "t_version28/old@now", "t_version28/old#b"], "not enabled");
    refused(at, &["zpool", "checkpoint", pool], "it needs feature@zpool_checkpoint");
    assert_eq!(version(), "28");
    judge(at, pool);
    if let Some(pointers) = zdb(at, &["-ddddd", "-bbbb", "t_version28/old"]) {
        assert!(pointers.contains("lzjb") && !pointers.contains(" lz4"), "{pointers}");
    }
    add_disks(at, &["more"], DISK_BYTES);
    done(at, &["zpool", "add", pool, "spare", "more"]);

    let text = done(at, &["zpool", "upgrade"]);
    assert!(text.contains("VER  POOL\n---  ------------\n28   t_version28\n"), "{text}");
    done(at, &["zpool", "set", "compatibility=legacy", pool]);
    refused(at, &["zpool", "upgrade", pool], "'compatibility' is 'legacy'");
    done(at, &["zpool", "set", "compatibility=off", pool]);
    let text = done(at, &["zpool", "upgrade", pool]);
    assert!(text.contains("Successfully upgraded 't_version28' from version 28"), "{text}");
    assert!(text.contains("Enabled the following features on 't_version28':\n"), "{text}");
    assert_eq!(version(), "-", "as OpenZFS shows a pool with features");
    let text = done(at, &["zpool", "upgrade", "-a"]);
    assert!(text.contains("already has all supported and requested"), "{text}");
    done(at, &["zfs", "set", "compression=lz4", "t_version28/old"]);
    done(at, &["zfs", "bookmark", "t_version28/old@now", "t_version28/old#b"]);
    judge(at, pool);
}

/// The same by one feature that is set, as OpenZFS does.
#[test]
fn a_feature_that_is_set_upgrades_a_pool_of_version_28() {
    let Some(from) = fixtures::folder("zfs") else { return };
    let folder = fixtures::unpack(&from, "version28");
    let (at, pool) = (folder.path(), "t_version28");
    done(at, &["zpool", "set", "feature@skein=enabled", pool]);
    let wanted = "version,feature@skein,feature@extensible_dataset,feature@lz4_compress";
    let values = done(at, &["zpool", "get", "-Ho", "value", wanted, pool]);
    assert_eq!(values, "-\nenabled\nenabled\ndisabled\n");
    done(at, &["zfs", "create", "-o", "checksum=skein", "t_version28/new"]);
    judge(at, pool);
}
