//! What a layout table of a study says: a plain disk, or a RAID set, perhaps of sets.

use serde::Deserialize;
use stdx::ByteCount;

/// A layout, as a study writes it.
///
/// ```toml
/// [layouts.raid50]
/// level = "raid0"
/// chunk = "128k"
/// sets = 4
/// of = { level = "raid5", disks = 3, chunk = "64k" }
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// `disk`, or a RAID level.
    pub level: Level,
    /// How many disks; 1 for `disk`.
    pub disks: Option<u32>,
    /// How many sets of the kind `of` stand in place of disks.
    pub sets: Option<u32>,
    /// What each member is, where it is not a disk.
    pub of: Option<Box<Layout>>,
    /// Bytes on one member before the next one's turn; 64 KiB by default. Larger keeps one request on
    /// one disk, smaller spreads it over more.
    pub chunk: Option<ByteCount>,
    /// Where data and parity lie, in md's words: `left-symmetric` (the default), `near-2`, ...
    pub layout: Option<String>,
}

/// A level, in md's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// One disk as it is.
    Disk,
    /// Disks one after another.
    Linear,
    /// Striped, no redundancy.
    Raid0,
    /// Mirrored.
    Raid1,
    /// Striped with parity on one disk.
    Raid4,
    /// Striped with rotating parity.
    Raid5,
    /// Striped with two rotating parities.
    Raid6,
    /// Striped and mirrored.
    Raid10,
}

/// What is wrong with a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not a table of the right keys.
    #[error("{0}")]
    Table(String),
    /// The number of members is missing or said twice.
    #[error("give it either `disks` or `sets` with `of`")]
    Members,
    /// A single disk with a number of disks.
    #[error(
        "a layout with level = \"disk\" is one disk: leave out disks, sets, of, chunk and layout"
    )]
    Disk,
    /// Nested too deep.
    #[error("sets nest {LEVELS_MAX} deep at the most")]
    Depth,
}

/// How deep sets may nest: RAID 0 of RAID 5 of mirrors is three; nobody builds more.
const LEVELS_MAX: usize = 4;

/// The default chunk. md's own default is 512 KiB; arrays of the studies' time had 64 KiB.
pub const CHUNK_DEFAULT: ByteCount = ByteCount::kib(64);

impl Layout {
    /// Reads a layout table.
    ///
    /// # Errors
    /// Names the key and the mend.
    pub fn read(table: toml::Table) -> Result<Layout, LayoutError> {
        let layout: Layout = table
            .try_into()
            .map_err(|error: toml::de::Error| LayoutError::Table(one_line(&error)))?;
        layout.check(1)?;
        Ok(layout)
    }

    fn check(&self, depth: usize) -> Result<(), LayoutError> {
        if depth > LEVELS_MAX {
            return Err(LayoutError::Depth);
        }
        if self.level == Level::Disk {
            let bare = self.disks.is_none_or(|disks| disks == 1)
                && self.sets.is_none()
                && self.of.is_none()
                && self.chunk.is_none()
                && self.layout.is_none();
            return if bare { Ok(()) } else { Err(LayoutError::Disk) };
        }
        match (&self.disks, &self.sets, &self.of) {
            (Some(_), None, None) => Ok(()),
            (None, Some(_), Some(of)) => of.check(depth + 1),
            _ => Err(LayoutError::Members),
        }
    }

    /// How many members the set has.
    pub fn members(&self) -> u32 {
        self.sets.or(self.disks).unwrap_or(1)
    }

    /// How many disks it takes in all.
    pub fn disks_in_all(&self) -> u64 {
        let each = self.of.as_ref().map_or(1, |of| of.disks_in_all());
        u64::from(self.members()) * each
    }
}

/// The first line of a TOML error; the rest shows the place in a file that we were not given.
pub fn one_line(error: &toml::de::Error) -> String {
    error.message().lines().next().unwrap_or("unreadable").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Layout, LayoutError> {
        Layout::read(text.parse().expect("TOML"))
    }

    #[test]
    fn sets_of_sets_count_their_disks() {
        let layout =
            read("level = 'raid0'\nsets = 4\nof = { level = 'raid5', disks = 3 }").expect("right");
        assert_eq!(layout.disks_in_all(), 12);
        assert_eq!(read("level = 'disk'").expect("right").disks_in_all(), 1);
    }

    #[test]
    fn what_a_layout_lacks_is_said() {
        assert_eq!(read("level = 'raid5'").expect_err("no disks"), LayoutError::Members);
        assert_eq!(read("level = 'disk'\nchunk = '4k'").expect_err("chunk"), LayoutError::Disk);
        let error = read("level = 'raid7'\ndisks = 3").expect_err("no such level").to_string();
        assert!(error.contains("raid7") && error.contains("raid5"), "{error}");
        let error = read("level = 'raid5'\ndisk = 3").expect_err("unknown key").to_string();
        assert!(error.contains("disk"), "{error}");
    }
}
