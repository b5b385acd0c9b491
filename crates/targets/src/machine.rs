//! What the `[machine]` table of a study says, and what a cell's factors make of it.

use super::layout::{Layout, LayoutError};
use super::table;
use host::ReactorKind;
use lab::design::CellSpec;
use lab::study::{LAYOUT, Level, Study, Workload};
use lab::target::TargetError;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sim::SsdState;
use std::path::PathBuf;
use std::time::Duration;
use stdx::ByteCount;
use toml::{Table, Value};

/// When access times are noted, in the words of `mount`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Atime {
    /// Never.
    Noatime,
    /// Where the last one is older than the last change.
    Relatime,
    /// At each read.
    Strictatime,
}

/// A machine.
#[derive(Clone, Debug)]
pub enum Machine {
    /// `kind = "simulated"`.
    Simulated(SimulatedMachine),
    /// `kind = "host"`.
    Host(HostMachine),
}

/// A machine of hardware profiles.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedMachine {
    /// Profile of the host.
    pub host: String,
    /// Profile of every disk or SSD.
    pub disk: String,
    /// How many there are.
    pub disks: u32,
    /// Profile of the link between host and disks (or controller), if it can be a limit.
    pub link: Option<String>,
    /// Profile of a controller between the link and the disks.
    pub controller: Option<String>,
    /// The disks' own write cache; as the profile says where it is left out.
    pub write_cache: Option<bool>,
    /// The state in which solid-state drives begin; as the load leaves them in the long run where it is left out.
    pub ssd_state: Option<SsdState>,
    /// The RAID controller's cache: `write-back` or `write-through`; write-back where its profile has a
    /// battery.
    pub cache: Option<Cache>,
    /// What becomes of flushes, at a RAID controller or, without one, at the disks: `honoured` or
    /// `ignored`.
    pub flush: Option<Flush>,
    /// How far the RAID controller reads a stream ahead; `"0"` for not at all.
    pub read_ahead: Option<ByteCount>,
    /// The size of the RAID controller's cache; as its profile says where it is left out.
    pub controller_cache: Option<ByteCount>,
    /// The controller's firmware, a `[firmware.NAME]` of its profile.
    pub firmware: Option<String>,
    /// What a disk costs, in whatever money; the answer then says what each layout costs.
    pub disk_price: Option<f64>,
    /// Links side by side; LUNs, or without a RAID controller disks, take turns. 1 by default.
    pub channels: Option<u32>,
    /// Reads go through the host's page cache, which reads so far ahead (`blockdev --setra`, but in
    /// bytes); directly where it is left out.
    pub host_read_ahead: Option<ByteCount>,
    /// A file system on the volume: a preset of the model of update-in-place file systems, or `none`.
    pub filesystem: Option<String>,
    /// Memory for that file system's cache; 2 GiB by default.
    pub page_cache: Option<ByteCount>,
    /// Whether it is told of the volume's stripes (XFS's `su` and `sw`); yes by default.
    pub stripe_aware: Option<bool>,
    /// When it notes access times: `noatime`, `relatime`, `strictatime`; as the preset does.
    pub atime: Option<Atime>,
    /// Whether it flushes the disks' caches; yes by default.
    pub barriers: Option<bool>,
    /// Whether a block workload goes past its cache (the default), or through it.
    pub direct: Option<bool>,
    /// Processor time of the file system's own for each I/O of a block workload, of a hardware thread that is alone on
    /// its core; none by default.
    #[serde(default, deserialize_with = "span")]
    pub filesystem_time: Option<Duration>,
}

/// A span of time, as a study writes it.
fn span<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(text)?;
    lab::duration::parse(&text).map(Some).map_err(D::Error::custom)
}

/// A cache's policy for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Answered from the cache.
    WriteBack,
    /// Answered from the volume.
    WriteThrough,
}

impl From<Cache> for sim::CachePolicy {
    fn from(cache: Cache) -> sim::CachePolicy {
        match cache {
            Cache::WriteBack => sim::CachePolicy::WriteBack,
            Cache::WriteThrough => sim::CachePolicy::WriteThrough,
        }
    }
}

/// What becomes of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// It waits until all is durable.
    Honoured,
    /// It is answered at once.
    Ignored,
}

impl From<Flush> for sim::FlushPolicy {
    fn from(flush: Flush) -> sim::FlushPolicy {
        match flush {
            Flush::Honoured => sim::FlushPolicy::Honoured,
            Flush::Ignored => sim::FlushPolicy::Ignored,
        }
    }
}

/// Links side by side at the most: more ports than any host has.
const CHANNELS_MAX: u32 = 64;

/// This host: files that the lab makes and removes, or devices and files that are there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostMachine {
    /// Folder in which the lab makes one file a disk.
    pub directory: Option<std::path::PathBuf>,
    /// Size of each such file; 1 GiB by default.
    pub file_size: Option<ByteCount>,
    /// What a disk costs, in whatever money.
    pub disk_price: Option<f64>,
    /// Files or block devices to use instead. They keep what the study writes to them.
    #[serde(default)]
    pub devices: Vec<std::path::PathBuf>,
    /// Past the page cache (the default), or through it.
    #[serde(default = "yes")]
    pub direct: bool,
    /// `auto`, `uring` or `threads`.
    #[serde(default)]
    pub reactor: Reactor,
    /// How the volume is reached: `local` (the default) or `nbd`.
    #[serde(default)]
    pub access: Access,
}

/// How a volume of this host is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// As it is.
    #[default]
    Local,
    /// Through our own NBD server, over a unix socket.
    Nbd,
}

/// The smallest file that stands for a disk: some stripes of the usual chunks.
const FILE_SIZE_MIN: ByteCount = ByteCount::mib(1);

fn yes() -> bool {
    true
}

/// How I/O reaches the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reactor {
    /// `io_uring`, or threads where it is refused.
    #[default]
    Auto,
    /// `io_uring`.
    Uring,
    /// Threads.
    Threads,
}

impl From<Reactor> for ReactorKind {
    fn from(reactor: Reactor) -> ReactorKind {
        match reactor {
            Reactor::Auto => ReactorKind::Auto,
            Reactor::Uring => ReactorKind::Uring,
            Reactor::Threads => ReactorKind::Threads,
        }
    }
}

/// Keys of the two kinds of machine that a factor may vary.
const MACHINE_KEYS: [&str; 24] = [
    "disk_price",
    "filesystem",
    "page_cache",
    "stripe_aware",
    "atime",
    "barriers",
    "filesystem_time",
    "host",
    "disk",
    "disks",
    "link",
    "channels",
    "controller",
    "firmware",
    "cache",
    "flush",
    "read_ahead",
    "controller_cache",
    "host_read_ahead",
    "write_cache",
    "ssd_state",
    "direct",
    "reactor",
    "access",
];
/// Keys of a layout that a factor may vary.
const LAYOUT_KEYS: [&str; 10] = [
    "chunk",
    "level",
    "disks",
    "sets",
    "luns",
    "partition_offset",
    "redundancy",
    "striping",
    "au",
    "failure_groups",
];

impl Machine {
    /// Reads a `[machine]` table.
    ///
    /// # Errors
    /// Why not, with the mend.
    pub fn read(mut table: Table) -> Result<Machine, String> {
        let kind = table.remove("kind");
        let no_kind = || "write kind = \"simulated\" or kind = \"host\"".to_owned();
        match kind.as_ref().and_then(Value::as_str).ok_or_else(no_kind)? {
            "simulated" => {
                let machine: SimulatedMachine = table::read(table)?;
                if machine.disks == 0 {
                    return Err("disks = 0: give it one at least".to_owned());
                }
                check_price(machine.disk_price)?;
                if machine.channels.is_some() && machine.link.is_none() {
                    return Err(
                        "`channels` are links side by side: name one with `link`".to_owned()
                    );
                }
                if machine.channels.is_some_and(|count| !(1..=CHANNELS_MAX).contains(&count)) {
                    return Err(format!("`channels` must be from 1 to {CHANNELS_MAX}"));
                }
                if machine.filesystem_time.is_some() && machine.filesystem.is_none() {
                    return Err("`filesystem_time` is a file system's: name one with `filesystem`"
                        .to_owned());
                }
                if machine
                    .host_read_ahead
                    .is_some_and(|size| size > sim::read_ahead::READ_AHEAD_MAX)
                {
                    let max = sim::read_ahead::READ_AHEAD_MAX;
                    return Err(format!("`host_read_ahead` must be {max} at the most"));
                }
                Ok(Machine::Simulated(machine))
            }
            "host" => {
                let machine: HostMachine = table::read(table)?;
                check_price(machine.disk_price)?;
                if machine.directory.is_some() != machine.devices.is_empty() {
                    return Err("give it either `directory` or `devices`".to_owned());
                }
                if machine.directory.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
                    return Err(
                        "`directory` is empty: name a folder, \".\" for this one".to_owned()
                    );
                }
                if machine.file_size.is_some_and(|size| size < FILE_SIZE_MIN) {
                    return Err(format!("`file_size` must be {FILE_SIZE_MIN} at the least"));
                }
                if machine.file_size.is_some() && machine.directory.is_none() {
                    return Err("`file_size` goes with `directory`".to_owned());
                }
                Ok(Machine::Host(machine))
            }
            other => Err(format!("kind = \"{other}\": there are \"simulated\" and \"host\"")),
        }
    }

    /// The machine and the layout of a cell.
    ///
    /// # Errors
    /// What of the cell can't be had, and the mend.
    pub fn of_cell(
        study: &Study,
        cell: &CellSpec,
    ) -> Result<(Machine, String, Layout), TargetError> {
        let mut machine = study.machine.clone();
        let (name, mut table) = match study.layout_of(cell) {
            Some((name, table)) => (name.to_owned(), table.clone()),
            None => match study.layouts.iter().next() {
                Some((name, table)) if study.layouts.len() == 1 => (name.clone(), table.clone()),
                None => {
                    ("disk".to_owned(), Table::from_iter([("level".to_owned(), "disk".into())]))
                }
                Some(_) => {
                    return Err(TargetError::Unfit {
                        what: format!("study '{}'", study.name),
                        why: "it has several [layouts] and no factor \"layout\"".to_owned(),
                        mend: "write [[factor]] with name = \"layout\" and levels".to_owned(),
                    });
                }
            },
        };
        for (factor, level) in cell.factors.iter().filter(|(factor, _)| *factor != LAYOUT) {
            if let Some(given) = study.factors.iter().find(|given| given.name == *factor)
                && !(given.settings.is_empty() && given.before.is_empty())
            {
                let settings = given.settings.get(&level.to_string());
                machine.extend(settings.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
            } else if MACHINE_KEYS.contains(&factor.as_str()) {
                machine.insert(factor.clone(), value(level));
            } else if LAYOUT_KEYS.contains(&factor.as_str()) {
                table.insert(factor.clone(), value(level));
            } else {
                return Err(TargetError::Unfit {
                    what: format!("factor '{factor}'"),
                    why: "neither a machine nor a layout has such a key".to_owned(),
                    mend: format!(
                        "name one of layout, {}, {}",
                        MACHINE_KEYS.join(", "),
                        LAYOUT_KEYS.join(", ")
                    ),
                });
            }
        }
        let machine = Machine::read(machine).map_err(|why| TargetError::Unfit {
            what: "[machine]".to_owned(),
            why,
            mend: "see docs/guide/studies.md".to_owned(),
        })?;
        let by_factor = cell.factors.keys().find(|factor| {
            let its = study.factors.iter().find(|given| given.name == **factor);
            its.is_some_and(|given| given.settings.is_empty() && given.before.is_empty())
                && LAYOUT_KEYS.contains(&factor.as_str())
        });
        let layout = Layout::read(table).map_err(|error| match (&error, by_factor) {
            (LayoutError::Disk, Some(factor)) => TargetError::Unfit {
                what: format!("layout '{name}'"),
                why: format!("the factor '{factor}' sets a key of sets, and this is a single disk"),
                mend: format!(
                    "leave '{name}' out of the factor \"layout\", or give each layout its '{factor}' by itself"
                ),
            },
            _ => TargetError::Unfit {
                what: format!("layout '{name}'"),
                why: error.to_string(),
                mend: "see docs/guide/studies.md".to_owned(),
            },
        })?;
        Ok((machine, name, layout))
    }
}

fn check_price(price: Option<f64>) -> Result<(), String> {
    match price {
        Some(price) if !(price.is_finite() && price >= 0.0) => {
            Err(format!("disk_price = {price}: write what a disk costs, as 329.0"))
        }
        _ => Ok(()),
    }
}

/// The directory on which a cell runs, where its machine has one.
pub fn directory_of(study: &Study, cell: &CellSpec) -> Option<PathBuf> {
    match Machine::of_cell(study, cell) {
        Ok((Machine::Host(machine), ..)) => machine.directory,
        _ => None,
    }
}

fn value(level: &Level) -> Value {
    match level {
        Level::Text(text) => Value::String(text.clone()),
        Level::Integer(number) => Value::Integer(*number),
        Level::Real(number) => Value::Float(*number),
        Level::Switch(switch) => Value::Boolean(*switch),
    }
}

/// Whether the machine has the disks that a layout takes, and the spares that a workload does.
///
/// # Errors
/// How many there are, and the mend.
pub fn enough_disks(
    name: &str,
    layout: &Layout,
    workload: &Workload,
    disks: usize,
    mend: &str,
) -> Result<(), TargetError> {
    let spares = super::array::spares(layout, workload);
    let needed = layout.disks_in_all() + spares as u64;
    if needed <= disks as u64 {
        return Ok(());
    }
    let spare = match spares {
        0 => String::new(),
        1 => ", a spare among them,".to_owned(),
        n => format!(", {n} spares among them (a member is lost with any of its disks),"),
    };
    Err(TargetError::Unfit {
        what: format!("layout '{name}' under '{}'", workload.name),
        why: format!("it needs {needed} disks{spare} and the machine has {disks}"),
        mend: mend.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Machine, String> {
        Machine::read(text.parse().expect("TOML"))
    }

    #[test]
    fn what_a_machine_lacks_is_said_in_one_line() {
        for (text, part) in [
            ("", "kind"),
            ("kind = 'quantum'", "quantum"),
            ("kind = 'simulated'", "host"),
            ("kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 0", "disks = 0"),
            ("kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 2\nraid = 5", "raid"),
            ("kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 2\nchannels = 2", "`link`"),
            (
                "kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 2\nlink = 'l'\nchannels = 0",
                "64",
            ),
            ("kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 2\ncache = 'none'", "write-back"),
            (
                "kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 2\nhost_read_ahead = '1g'",
                "32 MiB",
            ),
            (
                "kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 2\nfilesystem_time = '9us'",
                "`filesystem`",
            ),
            (
                "kind = 'simulated'\nhost = 'a'\ndisk = 'b'\ndisks = 2\nfilesystem_time = 'long'",
                "long",
            ),
            ("kind = 'host'", "directory"),
            ("kind = 'host'\ndirectory = 'x'\ndevices = ['y']", "either"),
            ("kind = 'host'\ndevices = ['y']\nfile_size = '1g'", "file_size"),
            ("kind = 'host'\ndirectory = 'x'\nfile_size = 'big'", "big"),
            ("kind = 'host'\ndirectory = 'x'\nfile_size = 0", "1 MiB"),
            ("kind = 'host'\ndirectory = ''", "empty"),
            ("kind = 'host'\ndirectory = 'x'\naccess = 'iscsi'", "iscsi"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
