//! Where on a device a superblock lies.
//!
//! ```text
//! 1.1   at the start                          1.2   4 KiB from the start
//! 1.0   8 KiB before the end, and back to a multiple of 4 KiB
//! 0.90  64 KiB before the end rounded down to 64 KiB
//! ```
//!
//! The two at the end depend on the device's size: a device that was enlarged hides them. Source:
//! Linux `drivers/md/md.c` (`super_1_load`, `calc_dev_sboffset`) and `md_p.h`.

use super::SECTOR;
use std::fmt;
use std::str::FromStr;
use stdx::{ByteCount, Offset};

/// Which superblock: its format and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.90, at the end.
    V090,
    /// 1.0, at the end.
    V10,
    /// 1.1, at the start.
    V11,
    /// 1.2, 4 KiB from the start.
    V12,
}

impl Version {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Version; 4] = [Version::V12, Version::V11, Version::V10, Version::V090];

    /// Where it lies on a device of this size; none where the device is too small for it.
    pub fn place(self, capacity: ByteCount) -> Option<Offset> {
        let sectors = capacity.bytes() / SECTOR;
        let sector = match self {
            Version::V11 => Some(0),
            Version::V12 => Some(8),
            Version::V10 => sectors.checked_sub(16).map(|sector| sector & !7),
            Version::V090 => (sectors & !127).checked_sub(128),
        }?;
        (sector + 8 <= sectors).then_some(Offset(sector * SECTOR))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V090 => "0.90",
            Version::V10 => "1.0",
            Version::V11 => "1.1",
            Version::V12 => "1.2",
        })
    }
}

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no metadata version: write 1.2, 1.1, 1.0 or 0.90")]
pub struct VersionError(pub String);

impl FromStr for Version {
    type Err = VersionError;
    fn from_str(text: &str) -> Result<Version, VersionError> {
        match text {
            "1" | "1.2" | "default" => Ok(Version::V12),
            "1.1" => Ok(Version::V11),
            "1.0" => Ok(Version::V10),
            "0" | "0.90" => Ok(Version::V090),
            other => Err(VersionError(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_md() {
        let place = |version: Version, bytes| version.place(ByteCount(bytes)).map(Offset::bytes);
        // 48 MiB: 98 304 sectors; the fixtures of 1.0 say 98288.
        assert_eq!(place(Version::V10, 48 << 20), Some(98_288 * 512));
        assert_eq!(place(Version::V090, (48 << 20) + 5000), Some((48 << 20) - 65_536));
        assert_eq!(place(Version::V090, 65_536), Some(0));
        assert_eq!(place(Version::V12, 8191), None);
        assert_eq!(place(Version::V10, 8000), None);
    }
}
