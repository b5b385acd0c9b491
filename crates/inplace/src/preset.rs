//! File systems that people run, as settings.
//!
//! | | `ufs`, `ufs-directio` | `ext3-ordered` | `xfs` |
//! |---|---|---|---|
//! | block, inode | 8 KiB, 128 B | 4 KiB, 128 B | 4 KiB, 256 B |
//! | groups | cylinder groups, 48 MiB here | 128 MiB: what one bitmap block covers | 4; 8 to 32 where there is a stripe |
//! | inodes | tables, one for 8 KiB (from 3 GiB on) | tables, one for 16 KiB | chunks |
//! | blocks | indirect | indirect | extents |
//! | allocation | at write; next group after 2048 blocks | at write; windows of 8 to 1024 blocks | at write-back, on stripes |
//! | directories | fewest directories first | Orlov, hashed | rotor, hashed |
//! | journal | ranges, 1/1024 of the space, ≤ 64 MiB | blocks, 4 to 128 MiB, in the middle | ranges, 1/2048 of the space, in the middle |
//! | commit | 5 s | 5 s, all data first | 30 s |
//! | write-behind, read-ahead | 1 MiB, 1 MiB | none, 128 KiB | none, 128 KiB |
//! | dirty limits | 16 MiB a file | 10 %, 20 % of memory | 10 %, 20 % |
//! | lock of a direct overwrite | shared | alone | shared |
//!
//! Sources, for facts: *UFS*: Solaris System Administration Guide (logging: 1 MiB for each GiB, at most
//! 64 MiB), newfs(1M) and mkfs_ufs(1M) (block, inode density, maxcontig, maxbpg), the Solaris Tunable
//! Parameters Reference Manual (`ufs_LW`, `ufs_HW`; `autoup` 30 s), illumos `ufs_directio.c` (overwrites of
//! aligned requests share the lock; anything else is done exclusively, or through the cache). The size
//! of a cylinder group depends on the disk's geometry as newfs made it up; 48 MiB is typical and is a
//! guess. Commits of the UFS log depend on what fills it; 5 s is a guess. *ext3*: Linux 2.6
//! `fs/ext3/balloc.c` (windows of 8, doubled up to 1027 blocks, three of which are for indirect blocks),
//! `fs/jbd` (5 s; a transaction is a quarter of the journal), mke2fs (16 KiB an inode; journal of 1024 to
//! 32 768 blocks by size; in the middle since 1.40), Documentation/filesystems/ext3.txt
//! (data=ordered). *XFS*: mkfs.xfs(8) and xfsprogs `xfs_multidisk.h` (4 groups on a plain disk; on
//! stripes 8 to 32 by size; a log of 1/2048 of the space in the middle), `xfs_aops.c`, `xfs_bmap.c`
//! (extents at write-back, aligned to the stripe), Documentation/filesystems/xfs.txt (30 s). *Linux*:
//! Documentation/sysctl/vm.txt (10 %, 20 %, 30 s, 5 s), 128 KiB of read-ahead (more over md: who mounts it
//! knows what lies below).
//!
//! All presets have barriers: without them no contract holds on a disk with a volatile cache. (ext3
//! left them off until Linux 3.1, and UFS never sent any: studies of that time say `barriers: false`.)

use crate::settings::{
    AccessTimes, Allocation, DirectoryForm, Hold, Inodes, JournalForm, JournalPlace, Locks,
    Mapping, MountOptions, Settings, Spread, Stripe,
};
use std::fmt;
use stdx::{ByteCount, Duration};

/// A file system after which the model is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Solaris UFS with logging, through the cache.
    Ufs,
    /// The same, mounted `forcedirectio`.
    UfsDirectio,
    /// Linux ext3, `data=ordered`.
    Ext3Ordered,
    /// Linux XFS.
    Xfs,
}

/// A name that is no preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is no preset: one of ufs, ufs-directio, ext3-ordered, xfs")]
pub struct PresetError {
    /// What was given.
    pub name: String,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 4] =
        [Preset::Ufs, Preset::UfsDirectio, Preset::Ext3Ordered, Preset::Xfs];

    /// Whether it runs on Linux.
    pub fn is_linux(self) -> bool {
        matches!(self, Preset::Ext3Ordered | Preset::Xfs)
    }

    /// The preset of this name.
    ///
    /// # Errors
    /// A name that is none.
    pub fn parse(name: &str) -> Result<Preset, PresetError> {
        let found = Preset::ALL.into_iter().find(|preset| preset.to_string() == name);
        found.ok_or_else(|| PresetError { name: name.to_owned() })
    }

    /// What its `mkfs` would decide on a device of this size, and with these stripes. Only XFS cares
    /// for stripes.
    pub fn settings(self, capacity: ByteCount, stripe: Option<Stripe>) -> Settings {
        match self {
            Preset::Ufs | Preset::UfsDirectio => ufs(capacity),
            Preset::Ext3Ordered => ext3(capacity),
            Preset::Xfs => xfs(capacity, stripe),
        }
    }

    /// How it is mounted by default, with so much memory for its cache.
    pub fn mount_options(self, cache: ByteCount) -> MountOptions {
        let linux = MountOptions {
            cache,
            force_direct: false,
            access_times: AccessTimes::Relative,
            time_granularity: Duration::from_millis(4),
            barriers: true,
            ordered: false,
            commit_interval: Duration::from_secs(30),
            dirty_expire: Duration::from_secs(30),
            dirty_background_percent: 10,
            dirty_percent: 20,
            file_dirty_max: ByteCount::ZERO,
            write_behind: ByteCount::ZERO,
            read_ahead_max: ByteCount::kib(128),
            io_max: ByteCount::kib(512),
            locks: Locks {
                buffered_reads: Hold::Shared,
                direct_reads: Hold::Shared,
                direct_overwrites: Hold::Shared,
            },
        };
        match self {
            Preset::Xfs => linux,
            Preset::Ext3Ordered => MountOptions {
                ordered: true,
                commit_interval: Duration::from_secs(5),
                time_granularity: Duration::from_secs(1),
                locks: Locks {
                    buffered_reads: Hold::Free,
                    direct_reads: Hold::Free,
                    direct_overwrites: Hold::Alone,
                },
                ..linux
            },
            Preset::Ufs | Preset::UfsDirectio => MountOptions {
                force_direct: self == Preset::UfsDirectio,
                access_times: AccessTimes::Always,
                time_granularity: Duration::from_secs(1),
                commit_interval: Duration::from_secs(5),
                dirty_background_percent: 50,
                dirty_percent: 80,
                file_dirty_max: ByteCount::mib(16),
                write_behind: ByteCount::mib(1),
                read_ahead_max: ByteCount::mib(1),
                io_max: ByteCount::mib(1),
                ..linux
            },
        }
    }
}

fn ufs(capacity: ByteCount) -> Settings {
    let block = ByteCount::kib(8);
    let journal = ByteCount(capacity.bytes() / 1024).min(ByteCount::mib(64));
    Settings {
        block,
        group: ByteCount::mib(48).min(small_group(capacity, block)),
        inode: ByteCount(128),
        inodes: Inodes::Tables { bytes_per_inode: ByteCount::kib(8) },
        mapping: Mapping::Indirect,
        directories: DirectoryForm::Linear,
        spread: Spread::LeastDirectories,
        allocation: Allocation::AtWrite,
        reservation_max: ByteCount::ZERO,
        section: block * 2048,
        stripe: None,
        journal: at_least(journal, block),
        journal_form: JournalForm::Ranges,
        journal_place: JournalPlace::Start,
    }
}

fn ext3(capacity: ByteCount) -> Settings {
    let block = ByteCount::kib(4);
    let journal_blocks = match capacity / block {
        ..32_768 => 1024,
        32_768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..1_048_576 => 16_384,
        _ => 32_768,
    };
    let journal = (block * journal_blocks).min(ByteCount(capacity.bytes() / 8));
    Settings {
        block,
        group: ByteCount::mib(128).min(small_group(capacity, block)),
        inode: ByteCount(128),
        inodes: Inodes::Tables { bytes_per_inode: ByteCount::kib(16) },
        mapping: Mapping::Indirect,
        directories: DirectoryForm::Hashed,
        spread: Spread::Orlov,
        allocation: Allocation::AtWrite,
        reservation_max: block * 1024,
        section: ByteCount::ZERO,
        stripe: None,
        journal: at_least(journal, block),
        journal_form: JournalForm::Blocks,
        journal_place: JournalPlace::Middle,
    }
}

fn xfs(capacity: ByteCount, stripe: Option<Stripe>) -> Settings {
    let block = ByteCount::kib(4);
    let groups = match (stripe, capacity) {
        (None, _) => 4,
        (Some(_), c) if c <= ByteCount::gib(8) => 8,
        (Some(_), c) if c <= ByteCount::gib(512) => 16,
        (Some(_), _) => 32,
    };
    // What one bitmap block covers is the model's own unit; groups are whole numbers of it.
    let region = ByteCount::mib(128);
    let even = ByteCount(capacity.bytes() / groups);
    let group = if even < region * 2 {
        region.min(small_group(capacity, block))
    } else {
        even.round_down(region).min(ByteCount::gib(1024))
    };
    let journal = ByteCount(capacity.bytes() / 2048).min(ByteCount::mib(2032));
    let journal = journal.max(ByteCount::mib(10)).min(ByteCount(capacity.bytes() / 8));
    Settings {
        block,
        group,
        inode: ByteCount(256),
        inodes: Inodes::Chunks,
        mapping: Mapping::Extents,
        directories: DirectoryForm::Hashed,
        spread: Spread::Rotor,
        allocation: Allocation::AtWriteBack,
        reservation_max: ByteCount::ZERO,
        section: ByteCount::ZERO,
        stripe,
        journal: at_least(journal, block),
        journal_form: JournalForm::Ranges,
        journal_place: JournalPlace::Middle,
    }
}

/// On small devices (tests) groups shrink, so that there are four of them.
fn small_group(capacity: ByteCount, block: ByteCount) -> ByteCount {
    ByteCount(capacity.bytes() / 4).round_down(block).max(block * 256)
}

fn at_least(journal: ByteCount, block: ByteCount) -> ByteCount {
    journal.max(block * crate::settings::JOURNAL_BLOCKS_MIN).round_down(block)
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Preset::Ufs => "ufs",
            Preset::UfsDirectio => "ufs-directio",
            Preset::Ext3Ordered => "ext3-ordered",
            Preset::Xfs => "xfs",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_made_on_any_size_from_a_test_to_an_array() {
        let stripe = Some(Stripe { unit: ByteCount::kib(64), width: 4 });
        for preset in Preset::ALL {
            for capacity in [ByteCount::mib(32), ByteCount::gib(5), ByteCount(3_000_000_000_000)] {
                for stripe in [None, stripe] {
                    let settings = preset.settings(capacity, stripe);
                    assert_eq!(settings.check(), Ok(()), "{preset} on {capacity}");
                }
            }
            let options = preset.mount_options(ByteCount::mib(64));
            assert_eq!(options.check(ByteCount::kib(8)), Ok(()));
            assert_eq!(Preset::parse(&preset.to_string()), Ok(preset));
        }
    }

    #[test]
    fn an_unknown_preset_is_named_with_the_mend() {
        let error = Preset::parse("btrfs").expect_err("refused");
        assert!(
            error.to_string().contains("'btrfs'") && error.to_string().contains("ext3-ordered")
        );
    }
}
