//! What a command asks the server of a set for, and what is answered: the [frame](crate::control::message) says how.
//!
//! A change here that the other end could misread raises the frame's [version](crate::control::message::VERSION).

use crate::control::message::Numbers;
use ::md::live::{Activity, Added, DeviceReport, UnderWay};
use ::md::{CheckReport, MemberState};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Mismatches that are listed; all are counted.
pub const LISTED_MAX: usize = 20;

/// What can be asked for. Paths are absolute.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// The set as it is now: a [`Picture`].
    Detail,
    /// A member or the journal is not to be used any more: [`Failed`].
    Fail {
        /// Which.
        device: PathBuf,
    },
    /// Devices join: [`Joined`].
    Add {
        /// Which.
        devices: Vec<PathBuf>,
        /// Only members that need no whole rebuild.
        re_add: bool,
        /// Whatever they hold.
        force: bool,
    },
    /// Spares and lost devices leave: [`Left`].
    Remove {
        /// Which.
        devices: Vec<PathBuf>,
        /// And all that failed.
        failed: bool,
    },
    /// A member is to be copied to a spare: [`Marked`].
    Replace {
        /// Which.
        device: PathBuf,
        /// To which spare; by default the first.
        with: Option<PathBuf>,
    },
    /// Copies and parity are compared: [`Findings`].
    Check,
    /// And mended: [`Findings`].
    Repair,
    /// The server ends: nothing.
    Stop {
        /// Though clients have it open.
        force: bool,
    },
}

impl Ask {
    /// Whether the set, or its server, is another afterwards.
    pub fn changes(&self) -> bool {
        !matches!(self, Ask::Detail | Ask::Check)
    }
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the states of the engine")]
pub enum State {
    Active,
    Rebuilding,
    Replacement,
    Spare,
    Failed,
}

/// What goes over the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the activities of the engine")]
pub enum Doing {
    Rebuild,
    Resync,
    Check,
    Repair,
}

/// A set as its server sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Picture {
    /// Its devices, by number.
    pub devices: Vec<Pictured>,
    /// What goes over the members, and per cent of it.
    pub under_way: Option<(Doing, u64)>,
    /// Whether more members are lost than it can do without.
    pub failed: bool,
    /// The server's process; a server of an earlier version doesn't say it.
    #[serde(default)]
    pub process: Option<u32>,
}

/// A device of a set as its server sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pictured {
    /// Its number.
    pub number: u32,
    /// Where it lies; by the name that the server was given where that leads nowhere any more.
    pub path: PathBuf,
    /// The file, where there was one, and it is no part of it.
    pub identity: Option<Numbers>,
    /// What it is.
    pub state: State,
    /// The slot that it holds or is to take over.
    pub slot: Option<usize>,
    /// Whether it is the journal.
    pub journal: bool,
}

impl Pictured {
    /// Of what the engine reports.
    pub fn of(report: &DeviceReport, path: PathBuf, identity: Option<Numbers>) -> Pictured {
        let state = match report.state {
            MemberState::Active => State::Active,
            MemberState::Rebuilding => State::Rebuilding,
            MemberState::Replacement => State::Replacement,
            MemberState::Spare => State::Spare,
            MemberState::Failed | MemberState::Missing => State::Failed,
        };
        let (number, slot) = (report.number as u32, report.slot);
        Pictured { number, path, identity, state, slot, journal: report.is_journal }
    }
}

/// The same of what is under way.
pub fn doing(under_way: UnderWay) -> (Doing, u64) {
    let doing = match under_way.activity {
        Activity::Rebuild => Doing::Rebuild,
        Activity::Resync => Doing::Resync,
        Activity::Check => Doing::Check,
        Activity::Repair => Doing::Repair,
    };
    (doing, under_way.percent)
}

/// A member, or the journal, was failed.
#[derive(Serialize, Deserialize)]
pub struct Failed {
    /// The slot that it held; none of the journal.
    pub slot: Option<usize>,
}

/// What became of devices that were added, in their order.
#[derive(Serialize, Deserialize)]
pub struct Joined {
    /// None where it can't be re-added and nothing else was wanted.
    pub devices: Vec<Option<JoinedAs>>,
}

/// What a device became.
#[derive(Serialize, Deserialize)]
pub struct JoinedAs {
    /// The slot in which it stands again; none of a spare.
    pub slot: Option<usize>,
    /// What it missed, where it stands in a slot again.
    pub missed_bytes: Option<u64>,
}

impl From<Added> for JoinedAs {
    fn from(added: Added) -> JoinedAs {
        match added {
            Added::Back { slot, missed } => {
                JoinedAs { slot: Some(slot), missed_bytes: Some(missed.bytes()) }
            }
            Added::Spare => JoinedAs { slot: None, missed_bytes: None },
        }
    }
}

/// Who left.
#[derive(Serialize, Deserialize)]
pub struct Left {
    /// Paths, and the files where there were some and they are no parts of them.
    pub devices: Vec<(PathBuf, Option<Numbers>)>,
}

/// A member is being replaced.
#[derive(Serialize, Deserialize)]
pub struct Marked {
    /// Its slot.
    pub slot: usize,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Sectors that differ.
    pub mismatched_sectors: u64,
    /// Where: the first of them.
    pub places: Vec<Difference>,
    /// Whether there are more.
    pub more: bool,
}

/// Where copies or parity differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Byte of the members' data areas.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Byte of the set, where it can be told.
    pub array: Option<u64>,
    /// The slot that must be wrong, where it can be told.
    pub suspect: Option<usize>,
}

impl From<&CheckReport> for Findings {
    fn from(report: &CheckReport) -> Findings {
        let place = |one: &::md::Mismatch| Difference {
            at: one.at.bytes(),
            len: one.len.bytes(),
            array: one.array.map(|at| at.bytes()),
            suspect: one.suspect,
        };
        Findings {
            mismatched_sectors: report.mismatched_sectors,
            places: report.mismatches.iter().take(LISTED_MAX).map(place).collect(),
            more: report.mismatches.len() > LISTED_MAX,
        }
    }
}
