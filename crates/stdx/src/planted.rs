//! Planted bugs: faults of a writer of pools that are known by name, to measure whether the tests would notice.
//!
//! A test suite that passes says little until it is known what it fails on. So each rule that keeps a pool whole is broken on
//! purpose at the one place that keeps it, and the test that is there for it has to fail: `cargo xtask planted` sees to that, and
//! says after how many seeds. A bug that no test notices is a hole in the suite, and the suite is mended.
//!
//! **Nothing of it is in a program.** Without the cargo feature `planted`, which only that command asks for, [`is`] and [`nth`] are
//! constants and what they guard is not compiled. With it one bug is there, which `SPINDLE_PLANTED` names.
//!
//! **Where.** Whoever keeps a rule asks here by the name of its bug; it stands in this list with what goes wrong, and the test.
//! Faults that strike each time are found by anything. So most are rare: of a boundary, or each n-th time ([`nth`]).
//!
//! Many are of OpenZFS's own past; `trap` and a number is that of the project's list of what went wrong with writers of ZFS.

/// A test that catches a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// The integration test, by cargo's name of it.
    pub target: &'static str,
    /// The test's name in it, or how it begins.
    pub name: &'static str,
    /// It goes through as many seeds as `SEEDS` says, and prints each; nobody runs it else.
    pub takes_seeds: bool,
}

const fn created(name: &'static str) -> Test {
    Test { target: "created", name, takes_seeds: false }
}

const fn campaign(name: &'static str) -> Test {
    Test { target: "created", name, takes_seeds: true }
}

const fn store(name: &'static str) -> Test {
    Test { target: "pools", name, takes_seeds: false }
}

const FILES: Test = created("files_that_change_over_many_groups");
const CUTS: Test = created("cuts::a_cut_at_any_write_leaves_one_group_or_the_next");
const LABELS: Test = campaign("cuts::many_cuts_while_labels_are_written");
const CHECKPOINTS: Test = created("checkpoints::what_a_checkpoint_has");
const CHECKPOINTS_CUT: Test = created("checkpoints::a_cut_while_a_pool_is_taken_back");
const CLONES: Test = created("cloned::");
const REMOVED: Test = created("removed::what_lay_on_a_removed_vdev");
const REWOUND: Test = created("rewound::");
const POINTERS: Test = created("pointers::");
const DATASETS: Test = created("datasets::datasets_in_random_order");
const MANY_DATASETS: Test = campaign("datasets::many_datasets");
const DATASETS_CUT: Test = created("cuts::a_cut_while_datasets_change");
const LOGS: Test = created("logs::what_was_committed_is_there");
const FSYNC: Test = created("logs::an_fsync_is_of_its_file");
const REPLAY: Test = created("logs::a_cut_while_a_log_is_replayed");
const MOUNT: Test = created("mounted::a_mount_answers");
const DESTROYED: Test = created("mounted::what_commands_do_shows");
const ENABLED: Test = created("features::a_feature_holds_from_when_it_is_enabled");
const ACCOUNTS: Test = created("accounting::what_everybody_takes");
const VOLUMES: Test = created("volumes::");
const DURABLE: Test = created("volumes::what_was_answered_as_durable");
const TABLES: Test = created("accounting::many_users");
const MIRRORS: Test = store("written::");
const STORED: Test = created("stored::");
const MAPS: Test = created("maps::");
const FIRST_LOGGED: Test = created("maps::what_changes_now_and_then");
const SUSPENDED: Test = created("suspended::");

macro_rules! bugs {
    ($($(#[doc = $what:literal])+ $bug:ident, $name:literal, $test:expr;)+) => {
        /// A planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[doc = $what])+ $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$bug),+];

            /// How `SPINDLE_PLANTED` names it.
            pub const fn name(self) -> &'static str {
                match self { $(Bug::$bug => $name,)+ }
            }

            /// What goes wrong.
            pub fn what(self) -> &'static str {
                match self { $(Bug::$bug => concat!($($what),+).trim(),)+ }
            }

            /// The test that is there for it.
            pub const fn test(self) -> Test {
                match self { $(Bug::$bug => $test,)+ }
            }
        }
    };
}

bugs! {
    // Space.
    /// What a group freed is used again one group too early.
    FreedAGroupEarly, "freed-a-group-early", REWOUND;
    /// What a group freed is used again by the next.
    FreedTwoGroupsEarly, "freed-two-groups-early", REWOUND;
    /// Now and then what a checkpoint has is used again.
    CheckpointFreed, "checkpoint-freed", CHECKPOINTS;
    /// Taken back to a checkpoint, a pool is written before an uberblock says so.
    RewoundLate, "rewound-late", CHECKPOINTS_CUT;
    /// A block is freed though clones of it are there (trap 18).
    CloneFreed, "clone-freed", CLONES;
    /// Now and then a space map isn't told what was allocated (trap 12).
    AllocationNotWrittenDown, "allocation-not-written-down", FILES;
    /// Now and then a space map isn't told what was freed.
    FreeNotWrittenDown, "free-not-written-down", FILES;
    /// Now and then a block is written where it is though the group before wrote it.
    OlderRewritten, "older-rewritten", CUTS;
    /// Now and then a block is left as it is though another one is to stand there.
    TakenForTheSame, "taken-for-the-same", created("same_again::");
    /// Now and then a piece of a gang that is freed is not.
    PieceLeaked, "piece-leaked", created("gangs::");
    /// Now and then a block on a removed vdev is freed, and one of the pieces that it lies in now is not.
    MovedPieceLeaked, "moved-piece-leaked", REMOVED;
    /// Now and then nothing is said of what nobody names any more on a removed vdev.
    ObsoleteNotNoted, "obsolete-not-noted", REMOVED;
    /// A snapshot goes, and what its dataset had moved off a removed vdev stays named there for good.
    MovedOffForgotten, "moved-off-forgotten", created("removed::what_was_moved_off");
    /// A block that was written early and overtaken is taken for what is there.
    EarlyOvertaken, "early-overtaken", created("indirect::");
    /// A record whose block was torn by the power cut is replayed.
    TornBlockReplayed, "torn-block-replayed", created("indirect::");
    /// What was written early and no tree leads to is not freed.
    EarlyLeaked, "early-leaked", created("indirect::");
    /// A space map that is written anew forgets a stretch.
    CondensedShort, "condensed-short", MAPS;
    /// Now and then a metaslab is flushed, and its map isn't told what logs had.
    FlushForgotten, "flush-forgotten", MAPS;
    /// Now and then it isn't put down up to which group a metaslab's map was flushed.
    FlushNotNumbered, "flush-not-numbered", MAPS;
    /// A log of space maps goes one log too early.
    MapLogGoneEarly, "map-log-gone-early", MAPS;
    /// Now and then who opens a pool forgets what a log has that the map hasn't, once it is counted.
    LogNetForgotten, "log-net-forgotten", MAPS;
    /// Now and then a metaslab that logs speak of for the first time since it was flushed has no new number.
    FirstLogNotNumbered, "first-log-not-numbered", FIRST_LOGGED;
    // What is stored, and where.
    /// What lies behind compressed bytes in their last sector is somebody else's memory.
    TailNotZeroed, "tail-not-zeroed", STORED;
    /// A few bytes more than fit are stored in a pointer, and cut off.
    EmbeddedTooLong, "embedded-too-long", STORED;
    /// Now and then one side of a mirror is not written, and nobody knows.
    SideNotWritten, "side-not-written", FILES;
    /// A side that didn't take a write isn't known to miss it.
    MissNotNoted, "miss-not-noted", MIRRORS;
    /// The first two parities of a row change places.
    ParitiesSwapped, "parities-swapped", MIRRORS;
    /// A column that is shorter than the first doesn't count in the parity.
    ShortColumnLeftOut, "short-column-left-out", MIRRORS;
    // A group, and how it gets into the pool.
    /// The uberblock is written before what it leads to is durable.
    FlushBeforeLeftOut, "flush-before-left-out", CUTS;
    /// A group is said to be in the pool before its uberblock is durable.
    FlushAfterLeftOut, "flush-after-left-out", CUTS;
    /// All labels of a device are written at once.
    LabelsAtOnce, "labels-at-once", LABELS;
    /// Each uberblock takes the place of the one before.
    OneSlot, "one-slot", REWOUND;
    /// A block that was freed in a late pass is on no list of what waits.
    LateFreesLost, "late-frees-lost", FILES;
    /// What waited is freed and stays on its list (trap 18).
    WaitingNotCleared, "waiting-not-cleared", FILES;
    /// A flush that failed is tried again, and what it dropped is not written again.
    FlushTriedAgain, "flush-tried-again", SUSPENDED;
    // Objects.
    /// A block that is freed leaves a hole without a birth (trap 1).
    HoleWithoutBirth, "hole-without-birth", POINTERS;
    /// An indirect block that is made in the place of a hole has holes without a birth (trap 1).
    HolesBelowWithoutBirth, "holes-below-without-birth", POINTERS;
    /// A pointer to an indirect block doesn't say how many blocks are below.
    FillNotSummed, "fill-not-summed", POINTERS;
    /// An object goes on counting indirect blocks that were freed.
    UsedNotCounted, "used-not-counted", POINTERS;
    /// An indirect block that leads to nothing any more is kept.
    EmptyIndirectKept, "empty-indirect-kept", POINTERS;
    /// The spill block of a file that goes is not freed (trap 3).
    SpillLeaked, "spill-leaked", ACCOUNTS;
    /// Now and then an indirect block of what is freed is not.
    IndirectLeaked, "indirect-leaked", FILES;
    /// A group writes attributes and lengths as the next group has them.
    LaterDnodeWritten, "later-dnode-written", REWOUND;
    /// A change reaches bytes of a group that is closed.
    ClosedGroupEdited, "closed-group-edited", REWOUND;
    /// Of an object that is freed and made again in one group the slot is cleared last.
    ClearedAfterMade, "cleared-after-made", MOUNT;
    /// Now and then a range that is freed is forgotten before it is synced.
    FreedRangeLost, "freed-range-lost", FILES;
    /// An object whose last blocks are freed goes on to say that it reaches so far.
    LastBlockKept, "last-block-kept", created("features::what_is_emptied");
    /// A file that becomes longer keeps its short block.
    LengthenedShort, "lengthened-short", created("features::what_is_emptied");
    /// A spill block that isn't needed any more is kept.
    SpillKept, "spill-kept", created("large_dnodes::attributes_stay");
    /// A dnode of several slots that is new takes only the first of them.
    LargeDnodeSlotForgotten, "large-dnode-slot-forgotten", created("large_dnodes::");
    /// A hole is told where data is dirty (trap 2).
    DirtyTakenForHole, "dirty-taken-for-hole", MOUNT;
    // Datasets.
    /// Now and then a block that dies is on no deadlist.
    DeadLost, "dead-lost", DATASETS;
    /// A block that was born with a snapshot is taken for one of the snapshot before.
    DeadInWrongList, "dead-in-wrong-list", MANY_DATASETS;
    /// A block that was born with a snapshot is freed though the snapshot has it.
    SnapshotFreed, "snapshot-freed", FILES;
    /// Now and then a list of dead blocks doesn't count one.
    DeadNotCounted, "dead-not-counted", DATASETS;
    /// A replay cuts the block to which a record leads at the record's end: what later records say of it is nowhere else.
    ReplayCutsBlock, "replay-cuts-block", created("indirect::");
    /// A list of dead blocks keeps the data of those that were embedded, one bit of which is taken for another thing.
    DeadKeepsData, "dead-keeps-data", DATASETS;
    /// Now and then a snapshot isn't told what only it has from then on.
    UniqueForgotten, "unique-forgotten", DATASETS;
    /// A snapshot of a clone is not among what its origin is followed by.
    NextCloneLost, "next-clone-lost", DATASETS;
    /// A dataset says that it uses a feature, and the pool doesn't count it.
    FeatureNotCounted, "feature-not-counted", created("features::");
    /// A feature isn't in use less when a dataset goes that uses it.
    FeatureNotDropped, "feature-not-dropped", DATASETS;
    /// A clone begins with its origin's intent log.
    LogCloned, "log-cloned", created("logs::a_clone_begins");
    /// A clone that is destroyed has its origin's blocks freed.
    OriginFreed, "origin-freed", DATASETS;
    /// Now and then a clone's livelist isn't told what was freed.
    LivelistFreeLost, "livelist-free-lost", created("livelists::");
    /// Now and then a bookmark isn't told what was freed of what it reached.
    MarkedFreeLost, "marked-free-lost", created("marks::");
    /// A deadlist doesn't tell the moment of a bookmark apart whose snapshot is gone.
    MarkedMomentLost, "marked-moment-lost", created("marks::");
    /// How far a tree was freed is not put down (trap 13).
    PlaceNotKept, "place-not-kept", DATASETS_CUT;
    /// A snapshot that a promotion moves stays in its old directory.
    PromotedLeftBehind, "promoted-left-behind", DATASETS;
    /// What is kept free for a child counts beside what the child takes of it.
    KeptCountedTwice, "kept-counted-twice", VOLUMES;
    /// Now and then what an owner had before a change isn't taken off.
    OwnerNotUncounted, "owner-not-uncounted", ACCOUNTS;
    // Intent logs.
    /// What was logged is acknowledged before it is durable.
    LogNotFlushed, "log-not-flushed", LOGS;
    /// A log is used before anything in the pool leads to it.
    LogNotAnnounced, "log-not-announced", LOGS;
    /// The bytes of a file are logged behind its new name.
    BytesBehindName, "bytes-behind-name", FSYNC;
    /// A write that doesn't follow right behind another is logged as if it did.
    JoinedOverGap, "joined-over-gap", FSYNC;
    /// A stretch that is zeroed is not logged.
    PunchNotLogged, "punch-not-logged", FSYNC;
    /// The last block of a log is not claimed before space is allocated.
    LastLogBlockUnclaimed, "last-log-block-unclaimed", REPLAY;
    /// Up to where a log was replayed is not put down.
    ReplayNotNoted, "replay-not-noted", REPLAY;
    // Tables.
    /// A name is lost when a leaf is split.
    SplitLosesName, "split-loses-name", TABLES;
    /// The last name is lost when a small table becomes one of leaves.
    FatLosesName, "fat-loses-name", TABLES;
    /// The last place of the table of pointers that should lead to a new leaf leads to the old one.
    LeafHalfPointed, "leaf-half-pointed", TABLES;
    // Files and volumes.
    /// Now and then a directory that comes or goes doesn't count in the one above.
    LinksNotCounted, "links-not-counted", MOUNT;
    /// A directory that is moved goes on saying where it was.
    ParentNotSet, "parent-not-set", MOUNT;
    /// A file that loses its last name while somebody holds it is on no list.
    UnlinkedNotListed, "unlinked-not-listed", created("mounted::what_was_held_without_a_name");
    /// Now and then what lies behind a file's new end in its last block stays.
    TailKept, "tail-kept", FILES;
    /// A discard frees blocks that it covers in part.
    DiscardedInPart, "discarded-in-part", VOLUMES;
    /// A write of a volume that is to be durable is answered before it is.
    FuaNotDurable, "fua-not-durable", DURABLE;
    /// A stretch of a volume that is zeroed is not logged.
    ZeroNotLogged, "zero-not-logged", DURABLE;
    /// What is behind a volume's new end comes back when it grows.
    EndComesBack, "end-comes-back", VOLUMES;
    /// A snapshot that was destroyed is read on, where blocks of others are by then.
    DestroyedIsRead, "destroyed-is-read", DESTROYED;
    /// A pool is written by the features that it had when it was opened.
    FeaturesOfBefore, "features-of-before", ENABLED;
}

#[cfg(feature = "planted")]
mod chosen {
    use super::Bug;
    use std::cell::Cell;
    use std::sync::OnceLock;

    static CHOSEN: OnceLock<Option<Bug>> = OnceLock::new();

    thread_local! {
        /// How often the bug could have struck on this thread: tests run side by side, and each is to be as it is alone.
        static CHANCES: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn chosen() -> Option<Bug> {
        *CHOSEN.get_or_init(|| {
            #[allow(clippy::disallowed_methods, reason = "only in tests that were built to fail")]
            let name = std::env::var("SPINDLE_PLANTED").ok().filter(|name| !name.is_empty())?;
            let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
            Some(*bug.unwrap_or_else(|| panic!("no planted bug is called {name}")))
        })
    }

    pub(super) fn chance() -> u64 {
        CHANCES.replace(CHANCES.get() + 1)
    }
}

/// Whether this bug is there.
#[cfg(feature = "planted")]
#[inline]
pub fn is(bug: Bug) -> bool {
    chosen::chosen() == Some(bug)
}

/// Whether this bug is there, and strikes: each `n`-th time that a thread asks.
#[cfg(feature = "planted")]
#[inline]
pub fn nth(bug: Bug, n: u64) -> bool {
    is(bug) && chosen::chance() % n == n - 1
}

/// Whether this bug is there: it isn't.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_: Bug) -> bool {
    false
}

/// Whether this bug is there, and strikes: it isn't.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn nth(_: Bug, _: u64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_bug_has_a_name_of_its_own_that_can_be_typed() {
        let names: BTreeSet<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert_eq!(names.len(), Bug::ALL.len());
        let typed = |name: &str| name.chars().all(|c| c == '-' || c.is_ascii_lowercase());
        assert!(names.into_iter().all(typed));
        assert!(Bug::ALL.iter().all(|bug| bug.what().ends_with('.')));
    }
}
