//! A tree of files with all that files can have, and all that is known of a tree, to be compared.

use fixtures::noise;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

pub fn is_root() -> bool {
    File::open("/proc/self").is_ok()
        && std::fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
}

/// What the shell makes of it; a line that begins with `try` may fail.
fn shell(at: &Path, script: &str) {
    let script = format!("set -e\ntry() {{ \"$@\" 2>/dev/null || true; }}\n{script}");
    let done = Command::new("sh").arg("-c").arg(script).current_dir(at).output().expect("sh");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A tree with everything in it; owners and devices where that is allowed.
pub fn with_everything(at: &Path) {
    std::fs::create_dir(at).expect("made");
    for (name, len) in [("empty", 0), ("one", 1), ("block", 5000), ("large", 3_300_001)] {
        std::fs::write(at.join(name), noise(len as u64, len)).expect("written");
    }
    let holes = File::create(at.join("holes")).expect("made");
    for place in [4 << 20, 9 << 20] {
        holes.write_all_at(&noise(place, 300_000), place).expect("written");
    }
    holes.set_len((20 << 20) + 77).expect("grown");
    File::create(at.join("hole")).expect("made").set_len(1 << 20).expect("grown");
    std::fs::create_dir(at.join("many")).expect("made");
    for n in 0..700 {
        let name = at.join(format!("many/file {n:04}"));
        std::fs::write(name, noise(n, (n as usize * 37) % 9000)).expect("written");
    }
    std::fs::write(at.join("n".repeat(255)), "long name").expect("written");
    std::fs::write(at.join("söder\nund –"), "odd name").expect("written");
    drop(std::os::unix::net::UnixListener::bind(at.join("socket")).expect("bound"));
    shell(
        at,
        r#"
        mkdir -p deep/er/est empty-directory acl
        ln large deep/large2; ln large deep/er/large3
        ln -s nowhere dangling; ln -s /etc/passwd absolute; ln -s "$(printf '%03000d' 7)" long-link
        mkfifo pipe; chmod 640 pipe
        chmod 4755 one; chmod 2750 deep; chmod 1777 empty-directory; chmod 0 block
        touch -d '1969-12-31 23:59:58.25' one
        touch -d '2033-05-18 03:33:20.123456789' -h dangling
        touch -a -d '2001-09-09 01:46:40.5' block; touch -m -d '2010-01-02 03:04:05.987654321' block
        try setfattr -n user.comment -v 'a word' large
        try setfattr -n user.long -v "$(printf '%03000d' 7)" empty
        try setfattr -n user.dir -v d deep
        try setfattr -n trusted.t -v t empty
        try setfacl -m u:1234:rw,g:55:r empty
        try setfacl -m u:77:rwx -d -m u:99:rx,o::--- acl
        echo in > acl/file; try setfacl -b acl/file
        "#,
    );
    if is_root() {
        shell(
            at,
            r#"
            mknod null c 1 3; mknod disk b 259 1048574
            chown 1000:1001 large; chown -h 65534:65533 dangling; chown 12:13 empty-directory pipe
            chmod 4755 one
            try setfattr -n security.capability -v 0sAQAAAgAEAAAAAAAAAAAAAAAAAAA= block
            "#,
        );
    }
    // Directories last: what is made in them changes their times.
    shell(
        at,
        "touch -d '2005-06-07 08:09:10.111222333' many deep/er/est; touch -d '2007-01-01' deep",
    );
}

/// All that is known of the entries of a tree, by their paths.
pub fn known(top: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut waiting = vec![top.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let found = std::fs::symlink_metadata(&path).expect("looked");
        let name = path.strip_prefix(top).expect("it is below").to_string_lossy().into_owned();
        let kind = found.file_type();
        let mut text = format!(
            "{:o} {}:{} {}.{:09}",
            found.mode(),
            found.uid(),
            found.gid(),
            found.mtime(),
            found.mtime_nsec()
        );
        if kind.is_dir() {
            let entries = std::fs::read_dir(&path).expect("listed");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
            // A file has the first of its names in an order that no file system chooses.
            waiting.sort_unstable();
        } else {
            let first = names.entry((found.dev(), found.ino()));
            let first = first.or_insert_with(|| name.clone());
            text +=
                &format!(" links {} {}", found.nlink(), if found.nlink() > 1 { first } else { "" });
        }
        if kind.is_symlink() {
            let target = std::fs::read_link(&path).expect("read");
            text += &format!(" -> {}", target.display());
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).expect("read");
            text += &format!(" {} {:02x?}", bytes.len(), Sha256::digest(&bytes).as_slice());
        } else if kind.is_char_device() || kind.is_block_device() {
            text += &format!(" device {}", found.rdev());
        }
        if name.ends_with("block") {
            text += &format!(" read {}.{:09}", found.atime(), found.atime_nsec());
        }
        all.insert(name, text);
    }
    all
}

/// The extended attributes of all below a directory, as `getfattr` prints them; nothing where it isn't there.
pub fn attributes(top: &Path) -> String {
    let mut list = Command::new("getfattr");
    let list = list.args(["-R", "-h", "-P", "-d", "-m", "-", "-e", "hex", "."]).current_dir(top);
    let Ok(printed) = list.output() else { return String::new() };
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let mut parts: Vec<&str> = text.split("\n\n").collect();
    parts.sort_unstable();
    parts.join("\n\n")
}

/// Two trees are the same, entry for entry.
#[track_caller]
pub fn compare(one: &Path, other: &Path) {
    // Attributes first: reading a file changes its time of access.
    assert_eq!(attributes(one), attributes(other));
    let (one, other) = (known(one), known(other));
    for (name, text) in &one {
        assert_eq!(Some(text), other.get(name), "{name:?}");
    }
    let more: Vec<_> = other.keys().filter(|name| !one.contains_key(*name)).collect();
    assert!(more.is_empty(), "{more:?}");
}

/// The path as text.
pub fn text(path: &Path) -> &str {
    std::str::from_utf8(path.as_os_str().as_bytes()).expect("a path")
}
