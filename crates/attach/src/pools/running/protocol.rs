//! What a command asks who holds a pool for, and what is answered: the [frame](crate::control::message) says how.
//!
//! A change here that the other end could misread raises the frame's [version](crate::control::message::VERSION).

use crate::pools::mount_table::Shown;
use ::zfs::spa::live::{Live, Reason};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use zfs_format::nvlist::{Encoding, NvList};
use zfs_format::vdev::Vdev;
use zfs_format::wire::Endian;
use zfs_store::{Errors, IoCounts, OnFailure, VdevHealth, VdevReport};

/// What a command that is lent something sends when it has the answer.
pub const GO: u8 = b'\n';

/// What can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// Who it is: a [`Holder`].
    Who,
    /// What its devices were asked for: [`Counts`].
    Counts,
    /// How the pool is: [`Health`].
    Health,
    /// All that is known of it without a look at its devices: a [`Picture`].
    Picture,
    /// What was changed until now is in the pool, where whoever reads it finds it: nothing. One that is suspended is left as it is.
    Commit,
    /// What happened to it: an [`EventPage`].
    Events {
        /// After the one of this number.
        after: u64,
        /// Where there is none yet, the next is waited for.
        waits: bool,
    },
    /// What happened to it is forgotten: how many events that were.
    ForgetEvents,
    /// Errors of a vdev, or of all, are forgotten, and the pool is resumed if it is suspended.
    Clear {
        /// Its GUID.
        vdev: Option<u64>,
    },
    /// What of it is mounted: a list of [`MountedDataset`].
    Mounts,
    /// A dataset is mounted as long as this connection stays, from the answer on: a [`MountedDataset`].
    Mount {
        /// The file system or snapshot.
        dataset: String,
        /// Where: a whole path.
        directory: PathBuf,
        /// It can be written.
        for_writing: bool,
        /// `.zfs` is listed; where nothing is said, as its property has it.
        shows_control: Option<bool>,
    },
    /// The pool is closed, and with it ends who holds it where that has nothing else: nothing.
    End {
        /// It is destroyed, not exported.
        destroys: bool,
        /// Also while somebody uses it.
        force: bool,
        /// The command, for the history.
        command: Option<String>,
    },
    /// A volume, by NBD on this connection from the answer on.
    Volume {
        /// Its name.
        name: String,
    },
    /// The files of a dataset, by [calls](super::files) on this connection from the answer on.
    Files {
        /// Its name.
        name: String,
    },
    /// A command that changes the pool: [`Done`].
    Command {
        /// Its words, without the program's name.
        words: Vec<String>,
        /// Where its disks lie: whole paths.
        devices: Vec<PathBuf>,
        /// Where paths begin that are not whole.
        directory: PathBuf,
    },
}

impl Ask {
    /// Whether the pool, or what is done with it, is another afterwards.
    pub fn changes(&self) -> bool {
        match self {
            Ask::Who
            | Ask::Counts
            | Ask::Health
            | Ask::Picture
            | Ask::Commit
            | Ask::Events { .. }
            | Ask::Mounts => false,
            Ask::ForgetEvents
            | Ask::Clear { .. }
            | Ask::Mount { .. }
            | Ask::End { .. }
            | Ask::Volume { .. }
            | Ask::Files { .. }
            | Ask::Command { .. } => true,
        }
    }
}

/// Events of a pool, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EventPage {
    /// So many before the first are not kept any more.
    pub lost: u64,
    /// They; none where there are no more.
    pub events: Vec<PoolEvent>,
}

/// Something that happened to a pool, as OpenZFS's events have it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolEvent {
    /// Counts the events of a pool since it is held.
    pub number: u64,
    /// When, in seconds since 1970, and the rest.
    pub seconds: u64,
    /// In nanoseconds.
    pub nanoseconds: u32,
    /// What: `sysevent.fs.zfs.config_sync`.
    pub class: String,
    /// All that is said of it, in order.
    pub fields: Vec<(String, FieldValue)>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// Several.
    Numbers(Vec<u64>),
    /// Text.
    Text(String),
    /// Fields of its own.
    List(Vec<(String, FieldValue)>),
}

/// A dataset that is a directory of this host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountedDataset {
    /// Its name.
    pub dataset: String,
    /// Where its root is.
    pub directory: PathBuf,
    /// It can be written.
    pub for_writing: bool,
}

impl MountedDataset {
    /// One that a mount shows.
    pub(super) fn of(shown: Shown) -> MountedDataset {
        let Shown { dataset, directory, of } = shown;
        MountedDataset { dataset, directory, for_writing: of.for_writing }
    }
}

/// What a pool's devices were asked for since it is held.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// How long that is.
    pub nanoseconds: u64,
    /// Of each leaf.
    pub leaves: Vec<LeafCounts>,
}

/// How a pool is that is held, beyond what its devices say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// Why it is suspended, if it is.
    pub suspended: Option<Suspended>,
    /// All its vdevs.
    pub vdevs: Vec<VdevState>,
    /// What its mountpoints are below, if that is not the root of all.
    #[serde(default)]
    pub altroot: Option<PathBuf>,
}

/// A pool as who holds it knows it, whether or not its devices answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Picture {
    /// Its name.
    pub name: String,
    /// Its GUID.
    pub guid: u64,
    /// How it is.
    pub health: Health,
    /// Its vdevs, as labels have them: a list of names and values in XDR.
    pub vdevs: Vec<u8>,
    /// What its devices are called, by their GUIDs, as far as they were there when it was opened.
    pub devices: Vec<(u64, String)>,
}

impl Picture {
    /// Of a pool that is open for writing.
    pub(super) fn of(live: &Live, devices: Vec<(u64, String)>) -> Picture {
        let (name, guid) = (live.spa().name().to_owned(), live.spa().guid());
        let vdevs = live.syncer().config().root.to_list().encode(Encoding::Xdr(Endian::Little));
        Picture { name, guid, health: Health::of(live), vdevs, devices }
    }

    /// Whether it is called so: by its name or GUID.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || name.parse() == Ok(self.guid)
    }

    /// Its vdevs, from the root on; nothing where they are no such list.
    pub fn root(&self) -> Option<Vdev> {
        let (list, ..) = NvList::decode(&self.vdevs).ok()?;
        Vdev::from_list(&list).ok()
    }
}

/// Why a pool is suspended, and what is done with writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suspended {
    /// Its devices fail; who writes waits.
    Wait,
    /// Its devices fail; who writes is refused.
    Continue,
    /// It could give no signs of life.
    Multihost,
}

/// What became of a vdev since the pool is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevState {
    /// Its GUID.
    pub guid: u64,
    /// Whether it was taken out because it failed.
    pub is_faulted: bool,
    /// Reads that failed.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Blocks that were wrong.
    pub checksum: u64,
}

impl Health {
    /// Of a pool that is open for writing.
    pub(super) fn of(live: &Live) -> Health {
        let suspension = live.suspension();
        let suspended = suspension.reason().map(|reason| match reason {
            Reason::Multihost => Suspended::Multihost,
            Reason::Io if suspension.on_failure() == OnFailure::Continue => Suspended::Continue,
            Reason::Io => Suspended::Wait,
        });
        let mut open = live.spa().tree().report();
        let mut vdevs = Vec::new();
        while let Some(VdevReport { guid, health, errors, children, .. }) = open.pop() {
            let Errors { read, write, checksum } = errors;
            let is_faulted = health == VdevHealth::Faulted;
            vdevs.push(VdevState { guid, is_faulted, read, write, checksum });
            open.extend(children);
        }
        Health { suspended, vdevs, altroot: None }
    }
}

/// What a leaf was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafCounts {
    /// Its GUID.
    pub guid: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub bytes_written: u64,
}

impl LeafCounts {
    /// Of one by this GUID.
    pub fn of(guid: u64, counts: IoCounts) -> LeafCounts {
        let IoCounts { reads, bytes_read, writes, bytes_written } = counts;
        LeafCounts { guid, reads, bytes_read, writes, bytes_written }
    }
}

/// What became of a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// What it said, in order.
    pub said: Vec<Said>,
    /// The line that says why it failed. Empty where it didn't, or said so already.
    pub message: String,
    /// The exit status.
    pub status: u8,
}

/// A piece of what a command said.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// On standard output.
    Out(String),
    /// A line on standard error.
    Error(String),
}

/// Who holds a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub process: u32,
    /// The command.
    pub what: String,
}
