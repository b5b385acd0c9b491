//! ls, cat, stat, dump, diff, and volumes over NBD.

use super::fixture::{Fixture, digest, digest_of, path_of, unhex};
use fixtures::extent::by_extent;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn ls_lists_what_is_there_and_cat_gives_its_bytes() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let entries = fixture.entries("t_single");
    // What else lies in the folder of the disks is passed over.
    std::fs::write(fixture.path().join("README"), "no disk").expect("written");
    let listed = fixture.prints(&["zfs", "ls", "-R", "-a", "--json", "t_single:"]);
    let listed: Value = serde_json::from_slice(&listed).expect("JSON");
    let whole = |line: &Value| {
        let (directory, name) = (line["directory"].as_str()?, line["name"].as_str()?);
        let own = matches!(name, "." | "..");
        let path =
            if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
        (!own).then_some(path)
    };
    let found: BTreeSet<String> =
        listed.as_array().expect("a list").iter().filter_map(whole).collect();
    let below = fixture.mounted_below("t_single");
    let plain =
        |path: &str| !path.contains(['\u{fffd}', '\\']) && path.chars().all(|c| !c.is_control());
    let expected: BTreeSet<String> = entries
        .iter()
        .map(|entry| path_of(entry).to_owned())
        .filter(|path| path != "." && plain(path))
        .collect();
    let found: BTreeSet<String> =
        found.into_iter().filter(|path| plain(path) && !below.contains(path)).collect();
    assert_eq!(found, expected);
    let mut compared = 0;
    for entry in entries.iter().filter(|entry| entry["type"] == "file").step_by(17) {
        let argument = format!("t_single:/{}", path_of(entry));
        if !argument.contains('\u{fffd}') {
            let bytes = fixture.prints(&["zfs", "cat", &argument]);
            assert_eq!(Some(&*digest(&bytes)), entry["sha256"].as_str(), "{argument}");
            compared += 1;
        }
    }
    assert!(compared > 5);
    let largest = entries.iter().max_by_key(|entry| entry["size"].as_u64()).expect("files");
    let bytes = fixture.prints(&["zfs", "cat", &format!("t_single:{}", path_of(largest))]);
    assert_eq!(Some(&*digest(&bytes)), largest["sha256"].as_str());

    let long = fixture.prints(&["zfs", "ls", "-l", "t_single:files/modes/m4755"]);
    assert!(long.starts_with(b"-rwsr-xr-x 1 "), "{}", String::from_utf8_lossy(&long));
    for (arguments, text) in [
        (&["zfs", "cat", "t_single:nope"][..], "t_single:/nope: there is no such file"),
        (&["zfs", "cat", "t_single:files"], "it is a directory"),
        (&["zfs", "ls", "t_single"], "name a file as DATASET:PATH"),
        (&["zfs", "ls", "other:x"], "cannot open 'other': dataset does not exist"),
        (&["zfs", "ls", "t_single/nope:x"], "cannot open 't_single/nope': dataset does not exist"),
    ] {
        let said = fixture.refusal(arguments);
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}

#[test]
fn stat_tells_attributes_lists_of_access_and_holes() {
    fixtures::takes_long!();
    let Some(fixture) = Fixture::unpack("xattr-acl") else { return };
    for dataset in ["t_xattr_acl/sa", "t_xattr_acl/dir", "t_xattr_acl/sa-large-dnode"] {
        for entry in fixture.entries(dataset) {
            let argument = format!("{dataset}:{}", path_of(entry));
            let known = fixture.prints(&["zfs", "stat", "-j", &argument]);
            let known: Value = serde_json::from_slice(&known).expect("JSON");
            let expected = entry["xattrs_hex"].as_object().cloned().unwrap_or_default();
            let found = known[0]["xattrs_hex"].as_object().expect("attributes");
            assert_eq!(found.len(), expected.len(), "{argument}");
            expected.iter().for_each(|(name, value)| assert_eq!(&found[name], value, "{argument}"));
            assert_eq!(known[0]["object"], entry["ino"]);
        }
    }
    let text = fixture.prints(&["zfs", "stat", "t_xattr_acl/sa:f3"]);
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("access: A::OWNER@:") && text.contains("type: file"), "{text}");
}

#[test]
fn ls_shows_directories_themselves_and_sizes_for_people() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let listed = |arguments: &[&str]| {
        let all = [&["zfs", "ls"], arguments].concat();
        String::from_utf8(fixture.prints(&all)).expect("UTF-8")
    };
    assert_eq!(listed(&["-d", "t_single:files"]), "files\n");
    assert_eq!(listed(&["-d", "t_single:"]), "/\n");
    let line = listed(&["-ld", "t_single:files"]);
    assert!(line.starts_with('d') && line.ends_with(" files\n"), "{line}");
    let size = listed(&["-l", "t_single:files/random"]);
    let size: u64 = size.split_whitespace().nth(4).expect("a size").parse().expect("a number");
    let human = listed(&["-lh", "t_single:files/random"]);
    assert!(size >= 1024 && human.split_whitespace().nth(4).expect("a size").len() <= 5, "{human}");
    let json: Value =
        serde_json::from_str(&listed(&["-j", "t_single:files/random"])).expect("JSON");
    let entries = fixture.entries("t_single");
    let entry = entries.iter().find(|entry| path_of(entry) == "files/random").expect("it is there");
    assert_eq!(json[0]["modified_ns"], entry["mtime_ns"]);
    assert!(json[0]["modified"].as_str().expect("a time").ends_with('Z'), "{json}");
}

#[test]
fn a_volume_is_dumped_whole_and_its_holes_are_holes() {
    fixtures::takes_long!();
    let Some(fixture) = Fixture::unpack("volumes") else { return };
    let target = fixtures::scratch::folder();
    let datasets = fixture.manifest["datasets"].as_object().expect("datasets");
    let mut dumped = 0;
    for (name, says) in datasets.iter().filter(|(_, says)| says["sha256"].is_string()) {
        let file = target.path().join("volume");
        let done = fixture.output(&["zfs", "dump", name, file.to_str().expect("a path")]);
        let said = String::from_utf8_lossy(&done.stderr);
        let told = format!("written to {}", file.display());
        assert!(done.status.success() && said.contains(&told), "{said}");
        assert_eq!(Some(&*digest_of(&file)), says["sha256"].as_str(), "{name}");
        let piped = fixture.prints(&["zfs", "dump", name, "-"]);
        assert_eq!(Some(&*digest(&piped)), says["sha256"].as_str(), "{name}");
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(&file).expect("it is there");
        let zeros =
            piped.chunks(64 << 10).filter(|chunk| chunk.iter().all(|byte| *byte == 0)).count()
                as u64;
        assert!(
            found.blocks() * 512 <= found.len() - (zeros << 15) + (1 << 20),
            "{name} keeps its holes"
        );
        let said = fixture.refusal(&["zfs", "dump", name, file.to_str().expect("a path")]);
        assert!(said.contains("File exists; name another, or add --overwrite"), "{said}");
        std::fs::remove_file(&file).expect("removed");
        dumped += 1;
    }
    assert!(dumped >= 5);
    let said = fixture.refusal(&["zfs", "dump", "t_volumes", "-"]);
    assert!(said.contains("it is a file system"), "{said}");
    let own = fixture.path().join("disk0.raw");
    let said = fixture.refusal(&[
        "zfs",
        "dump",
        "--force",
        "t_volumes/v8k",
        own.to_str().expect("a path"),
    ]);
    assert!(said.contains("is one of the devices"), "{said}");
}

#[test]
fn an_encrypted_dataset_asks_for_its_key() {
    fixtures::takes_long!();
    let Some(fixture) = Fixture::unpack("encrypted") else { return };
    let said = fixture.refusal(&["zfs", "ls", "t_encrypted/enc:"]);
    let text = "dataset t_encrypted/enc is encrypted and its key is not loaded; give --key-file";
    assert!(said.contains(text), "{said}");
    let keys = fixtures::scratch::folder();
    let (right, wrong, raw) =
        (keys.path().join("right"), keys.path().join("wrong"), keys.path().join("raw"));
    std::fs::write(&right, "correct horse battery\n").expect("written");
    std::fs::write(&wrong, "wrong horse battery\n").expect("written");
    let digits = fixture.manifest["keys"]["t_encrypted/raw"]["key_hex"].as_str().expect("a key");
    std::fs::write(&raw, unhex(digits)).expect("written");
    let with = |key: &std::path::Path, rest: &[&str]| {
        let key = key.to_str().expect("a path").to_owned();
        [rest, &["--key-file", &key]].concat().iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()
    };
    let said = {
        let arguments = with(&wrong, &["zfs", "ls", "t_encrypted/enc:"]);
        fixture.refusal(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(said.contains("the key is wrong"), "{said}");
    let step = by_extent(160, 40);
    for (dataset, key) in [
        ("t_encrypted/enc", &right),
        ("t_encrypted/enc/child", &right),
        ("t_encrypted/raw@s", &raw),
    ] {
        for entry in
            fixture.entries(dataset).iter().filter(|entry| entry["type"] == "file").step_by(step)
        {
            let argument = format!("{dataset}:{}", path_of(entry));
            let arguments = with(key, &["zfs", "cat", &argument]);
            let bytes = fixture.prints(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(Some(&*digest(&bytes)), entry["sha256"].as_str(), "{argument}");
        }
    }
    let arguments = with(&right, &["zfs", "dump", "t_encrypted/enc/vol", "-"]);
    let bytes = fixture.prints(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(Some(&*digest(&bytes)), fixture.dataset("t_encrypted/enc/vol")["sha256"].as_str());
}

#[test]
fn diff_tells_what_the_manifests_tell() {
    let Some(fixture) = Fixture::unpack("snapshots-clones") else { return };
    let (from, to) = ("t_snapshots_clones/a@one", "t_snapshots_clones/a@two");
    let printed = fixture.prints(&["zfs", "diff", "-H", "-h", "-F", from, to]);
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let by_path = |name: &str| -> std::collections::BTreeMap<String, Value> {
        let entries = fixture.dataset(name)["entries"].as_array().expect("entries");
        entries.iter().map(|entry| (path_of(entry).to_owned(), entry.clone())).collect()
    };
    let (earlier, later) = (by_path(from), by_path(to));
    let mut lines = BTreeSet::new();
    for line in printed.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let path = columns[2].strip_prefix("/t_snapshots_clones/a").expect("a mountpoint");
        lines.insert((columns[0].to_owned(), path.trim_start_matches('/').to_owned()));
    }
    let numbers = |of: &std::collections::BTreeMap<String, Value>| -> BTreeSet<u64> {
        of.values().filter_map(|entry| entry["ino"].as_u64()).collect()
    };
    let (before, after) = (numbers(&earlier), numbers(&later));
    for (path, entry) in &earlier {
        let gone = !after.contains(&entry["ino"].as_u64().expect("a number"));
        assert_eq!(
            gone && !later.contains_key(path),
            lines.contains(&("-".into(), path.clone())),
            "{path}"
        );
    }
    for (path, entry) in &later {
        let is_new = !before.contains(&entry["ino"].as_u64().expect("a number"));
        assert_eq!(
            is_new && !earlier.contains_key(path),
            lines.contains(&("+".into(), path.clone())),
            "{path}"
        );
        let changed = earlier
            .get(path)
            .is_some_and(|old| old["mtime_ns"] != entry["mtime_ns"] && old["ino"] == entry["ino"]);
        // A file of several names is told under one of them.
        let changed = changed && (entry["type"] == "dir" || entry["nlink"] == 1);
        let shown = if path == "." { String::new() } else { path.clone() };
        assert!(!changed || lines.contains(&("M".into(), shown)), "{path} was modified");
    }
    let fewer = "M\tF\t/t_snapshots_clones/a/files/hundred/hard-2\t(-1)\n";
    assert!(printed.contains(fewer), "a name of several is gone");
    assert!(lines.iter().filter(|(change, _)| change == "-").count() > 100);
    assert!(
        fixture.prints(&["zfs", "diff", to, to.split('@').next().expect("a name")]).len()
            < printed.len()
    );
    let said = fixture.refusal(&["zfs", "diff", to, from]);
    assert!(said.contains("is not an earlier snapshot"), "{said}");
    let clone = fixture.prints(&["zfs", "diff", from, "t_snapshots_clones/clone"]);
    assert!(clone.len() < printed.len(), "a clone that nobody changed");
}

#[test]
fn a_volume_is_served_for_reading() {
    fixtures::takes_long!();
    let Some(fixture) = Fixture::unpack("volumes") else { return };
    if Command::new("nbdcopy").arg("--version").output().is_err() {
        println!("skipped: nbdcopy is not installed");
        return;
    }
    let folder = fixtures::scratch::folder();
    let socket = folder.path().join("socket");
    let address = format!("unix:{}", socket.display());
    let said = fixture.refusal(&["serve", "--volume", "t_volumes/v8k@s1", "--nbd", &address]);
    assert!(said.contains("a snapshot never changes") && said.contains("add readonly"), "{said}");
    let mut server = fixture
        .spindle(&["serve", "--volume", "t_volumes/v8k@s1", "--readonly", "--nbd", &address])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let out = server.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("it says that it serves");
    let file = folder.path().join("copy");
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let copied = Command::new("nbdcopy").arg(uri).arg(&file).status().expect("nbdcopy runs");
    let disk = fixture.path().join("disk0.raw").display().to_string();
    let second = format!("unix:{}", folder.path().join("second").display());
    let said = fixture.refusal(&["serve", &disk, "--nbd", &second]);
    assert!(said.contains("another process writes to it or serves it"), "{said}");
    server.kill().expect("it is stopped");
    server.wait().expect("it ended");
    assert!(copied.success(), "{line}");
    let expected = &fixture.manifest["volume_snapshot_sha256"];
    let expected = expected["t_volumes/v8k@s1"]
        .as_str()
        .or(fixture.dataset("t_volumes/v8k@s1")["sha256"].as_str());
    let size = fixture.dataset("t_volumes/v8k@s1")["volsize"].as_u64();
    assert_eq!(std::fs::metadata(&file).ok().map(|found| found.len()), size);
    if let Some(expected) = expected {
        assert_eq!(digest_of(&file), expected);
    }
}

/// A pool on a RAID set of md, whole and with a lost member.
#[test]
fn a_pool_on_a_raid_set_is_read() {
    let Some(fixture) = Fixture::unpack("single") else { return };
    let disk = fixture.path().join("disk0.raw");
    let members = [fixture.path().join("a"), fixture.path().join("b")];
    // The superblock of metadata 1.0 stands at the end, so what lies at the beginning is the set's.
    let file = std::fs::File::options().write(true).open(&disk).expect("it opens");
    file.set_len(file.metadata().expect("looked at").len() + (4 << 20)).expect("grown");
    fixtures::copy(&disk, &members[0]);
    std::fs::rename(&disk, &members[1]).expect("renamed");
    let made = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(["md", "create", "set", "--level", "1", "--raid-devices", "2", "--metadata", "1.0"])
        .args(["--assume-clean", "--force"])
        .args(&members)
        .output()
        .expect("the program starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for left in [2, 1] {
        let entry = &fixture.entries("t_single");
        let entry = entry.iter().find(|entry| path_of(entry) == "files/random").expect("a file");
        let bytes = fixture.prints(&["zfs", "cat", "t_single:files/random"]);
        assert_eq!(Some(&*digest(&bytes)), entry["sha256"].as_str(), "{left} members");
        if left == 2 {
            std::fs::remove_file(&members[0]).expect("removed");
        }
    }
}
