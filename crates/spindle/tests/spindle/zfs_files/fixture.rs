//! Pools of the fixtures on disk, the program, and a folder held against a manifest.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Hexadecimal digits of extended attributes that ext4 takes at the most, with others beside them.
const LONG_DIGITS: usize = 2 * 2048;

/// A fixture that is unpacked.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    /// What it should be.
    pub(crate) manifest: Value,
}

impl Fixture {
    /// Unpacks a fixture; nothing, said aloud, where it or the tools are missing.
    pub(crate) fn unpack(name: &str) -> Option<Fixture> {
        let from = fixtures::folder("zfs")?;
        let folder = fixtures::unpack(&from, name);
        Some(Fixture { folder, manifest: fixtures::manifest(&from, name) })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What a dataset should be.
    pub(crate) fn dataset(&self, name: &str) -> &Value {
        &self.manifest["datasets"][name]
    }

    /// The entries of a file system, without the directories that others are mounted on.
    pub(crate) fn entries(&self, name: &str) -> Vec<&Value> {
        let below = self.mounted_below(name);
        let entries = self.dataset(name)["entries"].as_array().expect("entries");
        entries.iter().filter(|entry| !below.contains(path_of(entry))).collect()
    }

    /// Paths within a file system on which its children are mounted.
    pub(crate) fn mounted_below(&self, name: &str) -> BTreeSet<String> {
        let datasets = self.manifest["datasets"].as_object().expect("datasets");
        let heads = datasets.keys().filter(|other| !other.contains(['@', '#']));
        let below = heads.filter_map(|other| other.strip_prefix(name)?.strip_prefix('/'));
        if name.contains('@') { BTreeSet::new() } else { below.map(str::to_owned).collect() }
    }

    pub(crate) fn spindle(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.arg("-d").arg(self.path()).args(arguments).env_remove("SPINDLE_DEVICES");
        command.stdin(std::process::Stdio::null());
        command
    }

    #[track_caller]
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.spindle(arguments).output().expect("the program starts")
    }

    /// What a command prints that does what it should.
    #[track_caller]
    pub(crate) fn prints(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        output.stdout
    }

    /// What a command says that fails.
    #[track_caller]
    pub(crate) fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?} is done");
        assert!(!errors.contains("panicked"), "{errors}");
        errors
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn path_of(entry: &Value) -> &str {
    entry["path"].as_str().expect("a path")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digit).collect()
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn digest_of(path: &Path) -> String {
    let mut file = std::fs::File::open(path).expect("it opens");
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece).expect("it is read") {
            0 => return hex(&hasher.finalize()),
            len => hasher.update(&piece[..len]),
        }
    }
}

/// Extended attributes of a path, names with values in hexadecimal digits.
pub(crate) fn attributes(path: &Path) -> BTreeMap<String, String> {
    let mut names = vec![0; 64 << 10];
    let len = rustix::fs::llistxattr(path, &mut names[..]).expect("they are listed");
    let mut found = BTreeMap::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        let len =
            rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..]).expect("a value");
        found.insert(String::from_utf8_lossy(name).into_owned(), hex(&value[..len]));
    }
    found
}

/// Holds a folder against entries of a manifest, and says how many were compared. `inodes`: whether the numbers must be
/// the same, as in a mount.
pub(crate) fn compare(folder: &Path, entries: &[&Value], inodes: bool) -> usize {
    let mut by_inode: BTreeMap<u64, u64> = BTreeMap::new();
    for entry in entries {
        let name = path_of(entry);
        // Names that are not UTF-8 can't be told from the manifest.
        if name.contains('\u{fffd}') {
            continue;
        }
        let path: PathBuf = if name == "." { folder.to_owned() } else { folder.join(name) };
        let found =
            std::fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let number = |key: &str| entry[key].as_u64();
        let mode = u32::from_str_radix(entry["mode"].as_str().expect("a mode"), 8).expect("octal");
        let kind = entry["type"].as_str().expect("a type");
        let kinds = found.file_type();
        let is = match kind {
            "dir" => kinds.is_dir(),
            "file" => kinds.is_file(),
            "symlink" => kinds.is_symlink(),
            "fifo" => kinds.is_fifo(),
            "socket" => kinds.is_socket(),
            "chardev" => kinds.is_char_device(),
            "blockdev" => kinds.is_block_device(),
            other => panic!("{name}: {other}"),
        };
        assert!(is, "{name} is a {kind}");
        if kind != "symlink" {
            assert_eq!(found.mode() & 0o7777, mode, "{name}");
        }
        assert_eq!(
            (Some(found.uid().into()), Some(found.gid().into())),
            (number("uid"), number("gid")),
            "{name}"
        );
        let modified = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        assert_eq!(Some(modified), entry["mtime_ns"].as_i64().map(i128::from), "{name}");
        if kind == "file" {
            assert_eq!(Some(found.len()), number("size"), "{name}");
            assert_eq!(Some(found.nlink()), number("nlink"), "{name}");
            assert_eq!(Some(&*digest_of(&path)), entry["sha256"].as_str(), "{name}");
            let ours = *by_inode.entry(number("ino").expect("a number")).or_insert(found.ino());
            assert_eq!(ours, found.ino(), "{name}: a hard link");
        }
        if let Some(target) = entry["target"].as_str() {
            let found = std::fs::read_link(&path).expect("a link");
            assert_eq!(found.to_string_lossy(), target, "{name}");
        }
        if let Some(rdev) = entry["rdev"].as_array() {
            let device = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
            assert_eq!(
                (Some(device.0.into()), Some(device.1.into())),
                (rdev[0].as_u64(), rdev[1].as_u64()),
                "{name}"
            );
        }
        if inodes && name != "." {
            assert_eq!(Some(found.ino()), number("ino"), "{name}");
        }
        let expected = entry["xattrs_hex"].as_object().into_iter().flatten();
        let expected: BTreeMap<String, String> = expected
            .map(|(name, value)| (name.clone(), value.as_str().expect("hex").to_owned()))
            .collect();
        let found = attributes(&path);
        for (attribute, value) in &expected {
            // The file system below the test may not take long ones, which cp tells.
            if !(found.contains_key(attribute) || !inodes && value.len() > LONG_DIGITS) {
                panic!("{name}: {attribute} is missing");
            }
        }
        for (attribute, value) in &found {
            assert_eq!(Some(value), expected.get(attribute), "{name}: {attribute}");
        }
    }
    entries.len()
}
