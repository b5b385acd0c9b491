//! Which file system a path lies on: `/proc/self/mountinfo`.
//!
//! The longest mount point that begins the path is it; of several on one point the last, which covers the
//! others. Device numbers won't do for that: subvolumes of btrfs have some of their own.

use super::kernel::Kernel;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub point: PathBuf,
    /// Of which kind: `ext4`, `zfs`, `nfs4`.
    pub kind: String,
    /// What is mounted: a device, a dataset, a server's directory.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

impl Kernel {
    /// The file system on which an existing path lies.
    pub(super) fn mount_of(&self, path: &Path) -> Option<Mount> {
        let path = std::fs::canonicalize(path).ok()?;
        let text = std::fs::read_to_string(self.proc.join("self/mountinfo")).ok()?;
        let mounts = text.lines().filter_map(parse);
        let over = mounts.filter(|mount| path.starts_with(&mount.point));
        // Of equally long ones `max_by_key` takes the last.
        over.max_by_key(|mount| mount.point.components().count())
    }
}

/// Fields that a line has before those of any number.
const FIELDS_BEFORE: usize = 6;

/// `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/sda1 rw,errors=continue`; between the options
/// and the dash stand any number of fields.
fn parse(line: &str) -> Option<Mount> {
    let fields: Vec<&str> = line.split(' ').collect();
    let dash = FIELDS_BEFORE + fields.iter().skip(FIELDS_BEFORE).position(|f| *f == "-")?;
    let field = |index: usize| fields.get(index).copied();
    let mut options: Vec<String> = Vec::new();
    for option in field(5)?.split(',').chain(field(dash + 3)?.split(',')) {
        if !option.is_empty() && !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    Some(Mount {
        point: PathBuf::from(unescaped(field(4)?)),
        kind: field(dash + 1)?.to_owned(),
        source: field(dash + 2)?.to_owned(),
        options,
    })
}

/// Spaces, tabs, newlines and backslashes stand as `\040` and the like.
fn unescaped(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = |digits: &[u8]| {
            digits.iter().try_fold(0_u32, |number, digit| {
                (b'0'..=b'7').contains(digit).then(|| number * 8 + u32::from(digit - b'0'))
            })
        };
        let escaped = after.get(..3).filter(|_| first == b'\\').and_then(octal);
        match escaped.and_then(|number| u8::try_from(number).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_comes_apart() {
        let line =
            "36 35 98:0 /r /mnt/a\\040b rw,noatime shared:1 master:2 - ext4 /dev/sda1 rw,barrier=0";
        let mount = parse(line).expect("a line as the kernel writes it");
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext4", "/dev/sda1"));
        assert_eq!(mount.options, ["rw", "noatime", "barrier=0"]);
        for broken in ["", "36 35 98:0", "36 35 98:0 /r /mnt rw -", "- - - - - - -"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
        assert_eq!(unescaped("a\\"), "a\\");
        assert_eq!(unescaped("\\777x"), "\\777x", "no byte is that large");
    }
}
