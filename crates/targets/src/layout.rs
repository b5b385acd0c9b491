//! What a layout table of a study says: a plain disk, a RAID set, perhaps of sets, or a disk group in the
//! manner of Oracle ASM.

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
    /// Bytes on one member before the next one's turn; 64 KiB by default, over sets with parity a stripe of theirs.
    /// Larger keeps one request on one disk, smaller spreads it over more.
    pub chunk: Option<ByteCount>,
    /// Where data and parity lie, in md's words: `left-symmetric` (the default), `near-2`, ...
    pub layout: Option<String>,
    /// Each set of `of` is a LUN: a volume of the RAID controller by itself, which the host sees as a
    /// disk and puts together with the others. Else the controller puts the sets together.
    #[serde(default)]
    pub luns: bool,
    /// Where the partition begins on what the host sees as a disk: on the volume, on each LUN, on each
    /// disk of a disk group. 0 by default; `"31.5k"` is sector 63, where partitions began until 2009.
    pub partition_offset: Option<ByteCount>,
    /// Copies of each extent of a disk group: `external` (one, the default), `normal`, `high`.
    pub redundancy: Option<Redundancy>,
    /// How a disk group is striped: `coarse` (by AUs, the default) or `fine` (by 128 KiB).
    pub striping: Option<Striping>,
    /// Allocation unit of a disk group; 1 MiB by default.
    pub au: Option<ByteCount>,
    /// Failure groups of a disk group: neighbours share one. As many as disks by default.
    pub failure_groups: Option<u32>,
}

/// Copies of each extent, in Oracle's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Redundancy {
    /// One.
    External,
    /// Two.
    Normal,
    /// Three.
    High,
}

/// How a disk group is striped, in Oracle's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Striping {
    /// One AU after another.
    Coarse,
    /// 128 KiB of each of eight AUs in turn.
    Fine,
}

/// A level, in md's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
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
    /// A disk group in the manner of Oracle ASM.
    Asm,
}

impl Level {
    /// All of them by their words.
    const ALL: [(&str, Level); 9] = [
        ("disk", Level::Disk),
        ("linear", Level::Linear),
        ("raid0", Level::Raid0),
        ("raid1", Level::Raid1),
        ("raid4", Level::Raid4),
        ("raid5", Level::Raid5),
        ("raid6", Level::Raid6),
        ("raid10", Level::Raid10),
        ("asm", Level::Asm),
    ];

    /// The word that a study takes.
    pub fn word(self) -> &'static str {
        Level::ALL.iter().find(|(_, level)| *level == self).map_or("", |(word, _)| word)
    }
}

impl TryFrom<String> for Level {
    type Error = String;

    /// What is known by another name, or from ZFS, is answered as such.
    fn try_from(word: String) -> Result<Level, String> {
        if let Some((_, level)) = Level::ALL.iter().find(|(known, _)| *known == word) {
            return Ok(*level);
        }
        let zfs = |instead: &str| {
            format!(
                "level = \"{word}\" is ZFS's, and the lab does not simulate pools yet: {instead} is the RAID set of the \
                 same redundancy and room (it writes small blocks otherwise); a real pool is measured as a directory, \
                 kind = \"host\""
            )
        };
        Err(match word.as_str() {
            "raidz" | "raidz1" => zfs("raid5"),
            "raidz2" => zfs("raid6"),
            "raidz3" => format!(
                "level = \"{word}\" is ZFS's, and the lab does not simulate pools yet; no RAID set has three parities: \
                 raid6 has two. A real pool is measured as a directory, kind = \"host\""
            ),
            "mirror" => {
                "level = \"mirror\" is ZFS's word: write raid1, or raid10 for several pairs"
                    .to_owned()
            }
            "stripe" | "striped" => format!("level = \"{word}\": write raid0"),
            "jbod" | "concat" | "concatenation" => format!("level = \"{word}\": write linear"),
            "raid50" | "raid60" => format!(
                "level = \"{word}\" is a set of sets: write level = \"raid0\", sets = 2, of = {{ level = \"{}\", \
                 disks = 4 }}",
                if word == "raid50" { "raid5" } else { "raid6" }
            ),
            dspare if dspare.starts_with("draid") => format!(
                "level = \"{word}\" is ZFS's, and the lab does not simulate pools yet: spares that are spread over the \
                 disks are not modelled. A real pool is measured as a directory, kind = \"host\""
            ),
            _ => {
                let known: Vec<&str> = Level::ALL.iter().map(|(word, _)| *word).collect();
                format!("there is no level \"{word}\": write one of {}", known.join(", "))
            }
        })
    }
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
    /// A disk group inside a set.
    #[error("level = \"asm\" is the outermost: a disk group is put together by the host")]
    InnerAsm,
    /// A key of a disk group elsewhere, or of a RAID set in a disk group.
    #[error(
        "redundancy, striping, au and failure_groups go with level = \"asm\", chunk and layout with \
         RAID levels"
    )]
    AsmKeys,
    /// As many failure groups as there can't be.
    #[error("`failure_groups` must be from 1 to the number of disks")]
    FailureGroups,
    /// LUNs where there are none, or of a level that the host would compute parity for.
    #[error("`luns` goes with level = \"raid0\" or \"linear\", `sets` and `of`, at the outermost")]
    Luns,
    /// A partition inside.
    #[error("`partition_offset` goes with the outermost table: the host partitions what it sees")]
    InnerPartition,
    /// A partition that does not begin at a sector.
    #[error("`partition_offset` must be a multiple of 512 bytes, up to {PARTITION_OFFSET_MAX}")]
    PartitionOffset,
    /// Nested too deep.
    #[error("sets nest {LEVELS_MAX} deep at the most")]
    Depth,
}

/// How deep sets may nest: RAID 0 of RAID 5 of mirrors is three; nobody builds more.
const LEVELS_MAX: usize = 4;

/// How far in a partition may begin: the largest alignment that anybody uses is a stripe of some MiB.
const PARTITION_OFFSET_MAX: ByteCount = ByteCount::gib(1);

/// The default chunk. md's own default is 512 KiB; arrays of the studies' time had 64 KiB.
pub const CHUNK_DEFAULT: ByteCount = ByteCount::kib(64);

impl Layout {
    /// Reads a layout table.
    ///
    /// # Errors
    /// Names the key and the mend.
    pub fn read(table: toml::Table) -> Result<Layout, LayoutError> {
        let mut layout: Layout = super::table::read(table).map_err(LayoutError::Table)?;
        layout.check(1)?;
        layout.settle();
        Ok(layout)
    }

    /// Gives sets of sets with parity, where the study says nothing, chunks that are whole stripes of theirs: by less each
    /// set would get parts of stripes, however large the writes.
    fn settle(&mut self) {
        let Some(of) = &mut self.of else { return };
        of.settle();
        if self.level == Level::Raid0 && self.chunk.is_none() {
            self.chunk = of.stripe_with_parity();
        }
    }

    /// The data of a stripe, where that is of several chunks with parity.
    pub fn stripe_with_parity(&self) -> Option<ByteCount> {
        let parity = match self.level {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => return None,
        };
        let data = u64::from(self.members().saturating_sub(parity));
        (data > 1).then(|| self.chunk.unwrap_or(CHUNK_DEFAULT) * data)
    }

    fn check(&self, depth: usize) -> Result<(), LayoutError> {
        if depth > LEVELS_MAX {
            return Err(LayoutError::Depth);
        }
        if depth > 1 && self.partition_offset.is_some() {
            return Err(LayoutError::InnerPartition);
        }
        if let Some(offset) = self.partition_offset
            && (!offset.is_multiple_of(ByteCount(512)) || offset > PARTITION_OFFSET_MAX)
        {
            return Err(LayoutError::PartitionOffset);
        }
        let asm = self.level == Level::Asm;
        if asm && depth > 1 {
            return Err(LayoutError::InnerAsm);
        }
        let asm_keys = self.redundancy.is_some()
            || self.striping.is_some()
            || self.au.is_some()
            || self.failure_groups.is_some();
        if !asm && asm_keys || asm && (self.chunk.is_some() || self.layout.is_some()) {
            return Err(LayoutError::AsmKeys);
        }
        if self.failure_groups.is_some_and(|groups| groups == 0 || groups > self.members()) {
            return Err(LayoutError::FailureGroups);
        }
        let puts_luns_together =
            depth == 1 && matches!(self.level, Level::Raid0 | Level::Linear) && self.of.is_some();
        if self.luns && !puts_luns_together {
            return Err(LayoutError::Luns);
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

    /// Whether the host sees each member as a disk: LUNs, and what a disk group is made of.
    pub fn host_sees_members(&self) -> bool {
        self.luns || self.level == Level::Asm
    }

    /// How many disks the host sees.
    pub fn luns_seen(&self) -> usize {
        if self.host_sees_members() { self.members() as usize } else { 1 }
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
    fn sets_of_sets_deal_out_whole_stripes_unless_told_otherwise() {
        let chunk = |text: &str| read(text).expect("right").chunk.map(|size| size.bytes() >> 10);
        let sets =
            |of: &str, chunk: &str| format!("level = 'raid0'\nsets = 2\n{chunk}\nof = {{ {of} }}");
        let six = "level = 'raid6', disks = 4";
        assert_eq!(chunk(&sets(six, "")), Some(128));
        assert_eq!(chunk(&sets("level = 'raid5', disks = 4, chunk = '512k'", "")), Some(1536));
        assert_eq!(chunk(&sets(six, "chunk = '64k'")), Some(64), "what is given stays");
        assert_eq!(chunk(&sets("level = 'raid1', disks = 2", "")), None);
    }

    #[test]
    fn what_a_layout_lacks_is_said() {
        assert_eq!(read("level = 'raid5'").expect_err("no disks"), LayoutError::Members);
        assert_eq!(read("level = 'disk'\nchunk = '4k'").expect_err("chunk"), LayoutError::Disk);
        let error = read("level = 'raid7'\ndisks = 3").expect_err("no such level").to_string();
        assert!(error.contains("raid7") && error.contains("raid5"), "{error}");
        for (text, error) in [
            ("level = 'raid5'\ndisks = 3\nluns = true", LayoutError::Luns),
            (
                "level = 'raid5'\nsets = 3\nluns = true\nof = { level = 'raid0', disks = 2 }",
                LayoutError::Luns,
            ),
            ("level = 'raid0'\ndisks = 2\nau = '1m'", LayoutError::AsmKeys),
            ("level = 'asm'\ndisks = 2\nchunk = '1m'", LayoutError::AsmKeys),
            ("level = 'asm'\ndisks = 2\nfailure_groups = 3", LayoutError::FailureGroups),
            ("level = 'raid0'\nsets = 2\nof = { level = 'asm', disks = 2 }", LayoutError::InnerAsm),
            ("level = 'disk'\npartition_offset = '31.6k'", LayoutError::Table(String::new())),
            ("level = 'disk'\npartition_offset = 100", LayoutError::PartitionOffset),
            (
                "level = 'raid0'\nsets = 2\nof = { level = 'disk', partition_offset = '1m' }",
                LayoutError::InnerPartition,
            ),
        ] {
            let found = read(text).expect_err(text);
            assert_eq!(
                std::mem::discriminant(&found),
                std::mem::discriminant(&error),
                "{text}: {found}"
            );
        }
        let error = read("level = 'raid5'\ndisk = 3").expect_err("unknown key").to_string();
        assert!(error.contains("disk"), "{error}");
    }
}
