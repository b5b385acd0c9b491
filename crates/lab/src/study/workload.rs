//! What is done to a volume: the kinds of workload and their parameters.
//!
//! A [`Workload`] is concrete: each parameter has one value. (A list in the study makes several
//! workloads of one; that is [`super::variants`]' part.) Three families:
//!
//! * I/O that goes on until it is steady: [`Stream`], [`Random`] (as IOMeter does it), [`Slob`]; and
//!   [`Probe`], which runs once over so many bytes or so long, as `hdparm -t` and `dd` do.
//! * [`Operation`]s of the array itself, which end by themselves: initialise, clone, rebuild, check,
//!   rebalance.
//! * [`Tool`]s of the field, on a tree of files: filebench, fio, bonnie++ and others. What their
//!   settings mean the target knows, which has the tools.
//!
//! How they are carried out is not said here but by the generators.

use super::error::Fault;
use super::reader::{Reader, size_text};
use crate::duration;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::ByteCount;
use toml::{Table, Value};

mod rate;
mod slob;
pub use rate::Rate;
pub use slob::Slob;

/// The most outstanding I/Os or processes of one workload: more than any queue of a disk or of NVMe
/// (1023 usable slots is the usual size) takes at once.
pub const QUEUE_DEPTH_MAX: u32 = 1024;
/// The largest block of one I/O: beyond what any interface takes in one command (32 MiB of SCSI with
/// 512-byte sectors and 16 bits of length), and small enough that many outstanding fit memory.
pub const BLOCK_SIZE_MAX: ByteCount = ByteCount::kib(64 * 1024);
/// What every block size is a multiple of: the smallest sector there is.
pub const SECTOR: ByteCount = ByteCount(512);
/// The level of the parameter `load` that means: nothing else runs.
pub const IDLE: &str = "idle";
/// An operation's parameter that names its load.
pub(crate) const LOAD: &str = "load";
/// What stands before the name of a load's parameter among those of the operation that it is the load of.
pub(crate) const OF_LOAD: &str = "load.";
/// I/Os that a stream has outstanding unless the study says otherwise. A file's stream goes through a page cache: Linux
/// writes back 4 MiB of a file at the least before it turns to another (`MIN_WRITEBACK_PAGES`, 4096 KiB, in
/// `fs/fs-writeback.c`), which is four of the default blocks; and it reads ahead of a reader. One at a time is what
/// `dd oflag=direct` does: it makes whoever computes parity read first, for each end of each block.
pub const STREAM_DEPTH_DEFAULT: u32 = 4;
/// How long a probe runs unless the study says otherwise: as long as `hdparm -t`.
pub const PROBE_TIME_DEFAULT: Duration = Duration::from_secs(3);
/// The most strata or samples a stratum: 4096 × 4096 samples are more than a disk has tracks.
const SAMPLES_MAX: u32 = 4096;

/// One thing that is done to a volume, with every parameter settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name in the study.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// How much of the volume it touches.
    pub working_set: WorkingSet,
    /// At which rate it asks; none where as fast as it is answered.
    pub rate: Option<Rate>,
}

/// What a workload does.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Sequential streams side by side.
    Stream(Stream),
    /// Random I/O of one size, in IOMeter's manner.
    Random(Random),
    /// Processes that read and write single blocks at random, as SLOB does on a database.
    Slob(Slob),
    /// One sequential pass, in the manner of `hdparm -t` and `dd`.
    Probe(Probe),
    /// Something that the array does to its members.
    Operation(Operation),
    /// One of the field's tools, on a tree of files.
    Tool(Tool),
}

/// `kind = "filebench"`, `"fio"`, ...: one of the field's tools, on a tree of files.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Which.
    pub kind: ToolKind,
    /// What it is told, none of it a list; the target reads it.
    pub settings: Table,
}

/// The field's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// filebench, by a workload file.
    Filebench,
    /// fio, by a job file.
    Fio,
    /// bonnie++.
    Bonnie,
    /// tiobench.
    Tiobench,
    /// IOMeter, by an `.icf` file.
    Iometer,
    /// Creating, reading, copying and deleting small files.
    SmallFiles,
    /// SLOB on a file. Only as a command: a study's `slob` runs on the volume.
    Slob,
    /// hdparm and dd. Only as a command: a study's `probe` runs on the volume.
    Probe,
}

impl ToolKind {
    /// Every tool that a study runs, by the word that `kind` takes.
    pub const ALL: [(&str, ToolKind); 6] = [
        ("filebench", ToolKind::Filebench),
        ("fio", ToolKind::Fio),
        ("bonnie", ToolKind::Bonnie),
        ("tiobench", ToolKind::Tiobench),
        ("iometer", ToolKind::Iometer),
        ("smallfiles", ToolKind::SmallFiles),
    ];

    /// The tool that `kind` names.
    pub fn named(word: &str) -> Option<ToolKind> {
        ToolKind::ALL.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
    }

    /// The word that `kind` takes, and that results have.
    pub fn word(self) -> &'static str {
        match self {
            ToolKind::Slob => "slob",
            ToolKind::Probe => "probe",
            _ => ToolKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name),
        }
    }

    /// The metric that a reader looks at first.
    pub fn main_metric(self) -> &'static str {
        match self {
            ToolKind::Filebench | ToolKind::SmallFiles => "ops_per_s",
            ToolKind::Fio | ToolKind::Iometer | ToolKind::Slob => "iops",
            ToolKind::Bonnie | ToolKind::Tiobench | ToolKind::Probe => "throughput_mb_s",
        }
    }
}

/// How much of the volume a workload touches, from its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkingSet {
    /// All of it.
    Whole,
    /// This share of it, above 0 and up to 1.
    Share(f64),
    /// So many bytes.
    Size(ByteCount),
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// From the volume.
    Read,
    /// To the volume.
    Write,
}

/// `kind = "stream"`: sequential streams side by side, each over a part of the working set of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// How many; 1 unless the study says otherwise.
    pub streams: u32,
    /// Size of each I/O; 1 MiB by default.
    pub block_size: ByteCount,
    /// Read (the default) or write.
    pub op: Op,
    /// Outstanding I/Os of each stream; [`STREAM_DEPTH_DEFAULT`] by default.
    pub queue_depth: u32,
}

/// `kind = "random"`: I/Os of one size at random places.
#[derive(Clone, Debug, PartialEq)]
pub struct Random {
    /// The share of I/Os that read, 0 to 1; 1 by default.
    pub read_share: f64,
    /// Size of each I/O; 4 KiB by default.
    pub block_size: ByteCount,
    /// Outstanding I/Os; 1 by default.
    pub queue_depth: u32,
    /// Places are multiples of this; the block size by default.
    pub align: ByteCount,
}

/// `kind = "probe"`: one sequential pass with a single outstanding I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Read (the default) or write.
    pub op: Op,
    /// Size of each I/O; 1 MiB by default.
    pub block_size: ByteCount,
    /// How far it goes; 3 s by default.
    pub extent: ProbeExtent,
    /// Where it begins; at the start by default.
    pub at: Position,
}

/// How far a probe goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeExtent {
    /// So many bytes.
    Total(ByteCount),
    /// So long.
    Time(Duration),
}

/// Where in the working set a probe begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At its start: the outer, fast tracks of a disk.
    Start,
    /// In its middle.
    Middle,
    /// So that it ends at its end: the inner, slow tracks of a disk.
    End,
}

/// What an array does to its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// `kind = "initialise"`: makes parity or copies agree for the first time.
    Initialise(InitialiseMethod),
    /// `kind = "clone"`: copies a member to a spare before it dies.
    Clone,
    /// `kind = "rebuild"`: works out a lost member anew from the others.
    Rebuild,
    /// `kind = "check"`: reads all members and compares.
    Check,
    /// `kind = "rebalance"`: moves data after disks came or went.
    Rebalance(Rebalance),
}

/// What a rebalance evens out, and how hard it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebalance {
    /// What happened to the disks before.
    pub change: DiskChange,
    /// Moves under way at once, as Oracle's `ASM_POWER_LIMIT`; 1 by default.
    pub power: u32,
}

/// What happens to the disks of a group before it is rebalanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// A disk is added.
    Add,
    /// A disk is to be taken away.
    Drop,
}

/// The highest power of a rebalance: that of `ASM_POWER_LIMIT` since Oracle 11.2.0.2.
pub const POWER_MAX: u32 = 1024;

/// How redundancy is made right for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialiseMethod {
    /// Reads the data and writes the parity (or the other copies): the array can be in use.
    Parity,
    /// Writes zeros everywhere, as disk arrays do off line; there is no data.
    Zeros,
    /// The same, and reads everything that was written.
    ZerosVerified,
}

/// How an operation stands against host I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Host I/O goes first.
    Low,
    /// They share.
    Normal,
    /// The operation goes first.
    High,
}

/// Stratified sampling of a long operation: the disk is cut into `strata` zones of equal size, in
/// each of which `per_stratum` stretches are carried out and timed; the rest is integrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Zones; 8 by default.
    pub strata: u32,
    /// Stretches in each, 2 at least: their spread gives the sampling error. 3 by default.
    pub per_stratum: u32,
    /// The length of a stretch on each member; 256 MiB by default.
    pub sample: ByteCount,
}

/// An operation of the array: `initialise`, `clone`, `rebuild`, `check`, `rebalance`.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Which.
    pub kind: OperationKind,
    /// What runs against the volume at the same time; nothing by default.
    pub load: Option<Box<Workload>>,
    /// How it stands against that load; normal by default.
    pub priority: Priority,
    /// How it is sampled; by default it is carried out whole.
    pub sampled: Option<Sampling>,
}

/// The words that `kind` takes.
pub const KINDS: [&str; 15] = [
    "stream",
    "random",
    "slob",
    "probe",
    "initialise",
    "clone",
    "rebuild",
    "check",
    "rebalance",
    "filebench",
    "fio",
    "bonnie",
    "tiobench",
    "iometer",
    "smallfiles",
];

/// Those of them that are operations of the array.
pub(crate) const OPERATIONS: [&str; 5] = ["initialise", "clone", "rebuild", "check", "rebalance"];

impl Workload {
    /// The word of its kind: `random`, `rebuild`.
    pub fn kind_word(&self) -> &'static str {
        match &self.kind {
            Kind::Stream(_) => "stream",
            Kind::Random(_) => "random",
            Kind::Slob(_) => "slob",
            Kind::Probe(_) => "probe",
            Kind::Tool(tool) => tool.kind.word(),
            Kind::Operation(operation) => match operation.kind {
                OperationKind::Initialise(_) => "initialise",
                OperationKind::Clone => "clone",
                OperationKind::Rebuild => "rebuild",
                OperationKind::Check => "check",
                OperationKind::Rebalance(_) => "rebalance",
            },
        }
    }

    /// The metric that a reader looks at first.
    pub fn main_metric(&self) -> &'static str {
        match &self.kind {
            Kind::Stream(_) | Kind::Probe(_) => "throughput_mb_s",
            Kind::Random(_) | Kind::Slob(_) => "iops",
            Kind::Operation(_) => "duration_s",
            Kind::Tool(tool) => tool.kind.main_metric(),
        }
    }

    /// Every parameter that a list could vary, with its value as a study writes it, in the order in
    /// which they stand in the name of a cell.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let mut parameters = match &self.kind {
            Kind::Stream(stream) => vec![
                ("op", stream.op.text().to_owned()),
                ("streams", stream.streams.to_string()),
                ("block_size", size_text(stream.block_size)),
                ("queue_depth", stream.queue_depth.to_string()),
            ],
            Kind::Random(random) => vec![
                ("read_share", random.read_share.to_string()),
                ("block_size", size_text(random.block_size)),
                ("queue_depth", random.queue_depth.to_string()),
                ("align", size_text(random.align)),
            ],
            Kind::Slob(slob) => vec![
                ("readers", slob.readers.to_string()),
                ("writers", slob.writers.to_string()),
                ("block_size", size_text(slob.block_size)),
                ("processor_time", duration::compact(slob.processor_time)),
            ],
            Kind::Probe(probe) => vec![
                ("op", probe.op.text().to_owned()),
                ("block_size", size_text(probe.block_size)),
                match probe.extent {
                    ProbeExtent::Total(size) => ("total", size_text(size)),
                    ProbeExtent::Time(span) => ("time", duration::compact(span)),
                },
                ("at", probe.at.text().to_owned()),
            ],
            Kind::Operation(operation) => {
                let load = operation.load.as_ref();
                let mut parameters = vec![
                    (LOAD, load.map_or_else(|| IDLE.to_owned(), |load| load.name.clone())),
                    ("priority", operation.priority.text().to_owned()),
                ];
                if let OperationKind::Initialise(method) = operation.kind {
                    parameters.push(("method", method.text().to_owned()));
                }
                if let OperationKind::Rebalance(rebalance) = operation.kind {
                    parameters.push(("change", rebalance.change.text().to_owned()));
                    parameters.push(("power", rebalance.power.to_string()));
                }
                parameters
            }
            Kind::Tool(tool) => {
                let text = |value: &Value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let settings = tool.settings.iter();
                return settings.map(|(key, value)| (key.clone(), text(value))).collect();
            }
        };
        if !matches!(self.kind, Kind::Operation(_)) {
            parameters.push(("working_set", self.working_set.text()));
            parameters.extend(self.rate.map(Rate::parameter));
        }
        parameters.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// All that was asked: besides, what no list varies, how an operation is sampled, and what its load is asked, each as
    /// `load.NAME`.
    pub fn all_parameters(&self) -> Vec<(String, String)> {
        let mut parameters = self.parameters();
        if let Kind::Operation(Operation { load: Some(load), .. }) = &self.kind {
            let kind = ("kind".to_owned(), load.kind_word().to_owned());
            let its = std::iter::once(kind).chain(load.parameters());
            parameters.extend(its.map(|(name, value)| (format!("{OF_LOAD}{name}"), value)));
        }
        if let Kind::Operation(Operation { sampled: Some(sampling), .. }) = &self.kind {
            let Sampling { strata, per_stratum, sample } = sampling;
            let text =
                format!("{strata} zones × {per_stratum} stretches of {}", size_text(*sample));
            parameters.push(("sampled".to_owned(), text));
        }
        parameters
    }

    /// One parameter, as a study writes it.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.parameters().into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The I/Os a second that it asks for, where it is told a rate.
    pub fn ios_asked(&self) -> Option<f64> {
        let block = match &self.kind {
            Kind::Stream(stream) => stream.block_size,
            Kind::Random(random) => random.block_size,
            _ => return None,
        };
        self.rate.map(|rate| rate.ios_a_second(block))
    }

    /// The time from one I/O to the next, where it is told a rate.
    pub fn interval(&self) -> Option<Duration> {
        self.ios_asked().map(|ios| Duration::from_secs_f64(1.0 / ios))
    }

    /// Reads the parameters of a workload of this kind, none of which is a list. `loads` are the
    /// workloads that an operation may have as its load.
    pub(crate) fn read(
        name: &str,
        kind: &str,
        mut reader: Reader,
        loads: &BTreeMap<String, Workload>,
    ) -> Result<Workload, Fault> {
        if let Some(kind) = ToolKind::named(kind) {
            let settings = reader.take_rest();
            let kind = Kind::Tool(Tool { kind, settings });
            let (name, working_set) = (name.to_owned(), WorkingSet::Whole);
            return Ok(Workload { name, kind, working_set, rate: None });
        }
        let is_operation = OPERATIONS.contains(&kind);
        if is_operation && reader.has("working_set") {
            return Err(reader.contradiction(
                "working_set",
                "it is an operation on whole members, and has a working_set",
                "leave that out; `sampled` shortens an operation",
            ));
        }
        let working_set =
            if is_operation { WorkingSet::Whole } else { WorkingSet::read(&mut reader)? };
        let operation = |kind, reader: &mut Reader| Operation::read(kind, reader, loads);
        let kind = match kind {
            "stream" => Kind::Stream(Stream::read(&mut reader)?),
            "random" => Kind::Random(Random::read(&mut reader)?),
            "slob" => {
                let block_size = block_size(&mut reader, ByteCount::kib(8))?;
                Kind::Slob(Slob::read(&mut reader, block_size)?)
            }
            "probe" => Kind::Probe(Probe::read(&mut reader)?),
            "initialise" => {
                let methods = [
                    InitialiseMethod::Parity,
                    InitialiseMethod::Zeros,
                    InitialiseMethod::ZerosVerified,
                ]
                .map(|method| (method.text(), method));
                let method = reader.choice("method", &methods)?;
                let kind = OperationKind::Initialise(method.unwrap_or(InitialiseMethod::Parity));
                Kind::Operation(operation(kind, &mut reader)?)
            }
            "clone" => Kind::Operation(operation(OperationKind::Clone, &mut reader)?),
            "rebuild" => Kind::Operation(operation(OperationKind::Rebuild, &mut reader)?),
            "check" => Kind::Operation(operation(OperationKind::Check, &mut reader)?),
            "rebalance" => {
                let changes = [("add", DiskChange::Add), ("drop", DiskChange::Drop)];
                let change = reader.choice("change", &changes)?.unwrap_or(DiskChange::Add);
                let power = reader.count("power", 1..=POWER_MAX)?.unwrap_or(1);
                let kind = OperationKind::Rebalance(Rebalance { change, power });
                Kind::Operation(operation(kind, &mut reader)?)
            }
            other => unreachable!("the kind '{other}' was checked against KINDS"),
        };
        let rate = match kind {
            Kind::Stream(_) | Kind::Random(_) => Rate::read(&mut reader)?,
            _ => None,
        };
        reader.knows(&["only", "except"]);
        reader.finish()?;
        Ok(Workload { name: name.to_owned(), kind, working_set, rate })
    }
}

impl Op {
    /// `read` or `write`.
    pub fn text(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
        }
    }
    fn read(reader: &mut Reader) -> Result<Op, Fault> {
        let choices = [("read", Op::Read), ("write", Op::Write)];
        Ok(reader.choice("op", &choices)?.unwrap_or(Op::Read))
    }
}

impl Position {
    fn text(self) -> &'static str {
        match self {
            Position::Start => "start",
            Position::Middle => "middle",
            Position::End => "end",
        }
    }
}

impl InitialiseMethod {
    /// `parity` or `zeros`.
    pub fn text(self) -> &'static str {
        match self {
            InitialiseMethod::Parity => "parity",
            InitialiseMethod::Zeros => "zeros",
            InitialiseMethod::ZerosVerified => "zeros-verified",
        }
    }
}

impl DiskChange {
    /// `add` or `drop`.
    pub fn text(self) -> &'static str {
        match self {
            DiskChange::Add => "add",
            DiskChange::Drop => "drop",
        }
    }
}

impl Priority {
    /// `low`, `normal` or `high`.
    pub fn text(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        }
    }
}

impl WorkingSet {
    fn text(self) -> String {
        match self {
            WorkingSet::Whole => "1".to_owned(),
            WorkingSet::Share(share) => share.to_string(),
            WorkingSet::Size(size) => size_text(size),
        }
    }

    fn read(reader: &mut Reader) -> Result<WorkingSet, Fault> {
        const KEY: &str = "working_set";
        let Some(value) = reader.take(KEY) else { return Ok(WorkingSet::Whole) };
        match (super::reader::as_number(&value), super::reader::as_size(&value)) {
            (Some(1.0), _) => return Ok(WorkingSet::Whole),
            (Some(share), _) if share > 0.0 && share < 1.0 => return Ok(WorkingSet::Share(share)),
            (None, Some(size)) if !size.is_zero() && size.is_multiple_of(SECTOR) => {
                return Ok(WorkingSet::Size(size));
            }
            _ => {}
        }
        let expected = "a share above 0 and up to 1, or a size such as \"4g\"";
        Err(reader.bad(KEY, &value, expected))
    }

    /// How many bytes that is on a volume of this size: whole sectors, no more than the volume.
    pub fn of(self, volume: ByteCount) -> ByteCount {
        match self {
            WorkingSet::Whole => volume,
            WorkingSet::Share(share) => {
                ByteCount((volume.bytes() as f64 * share) as u64).round_down(SECTOR)
            }
            WorkingSet::Size(size) => size.min(volume),
        }
    }
}

/// A size that is a multiple of the sector.
fn sectors(reader: &mut Reader, key: &'static str, default: ByteCount) -> Result<ByteCount, Fault> {
    let size = reader.size(key)?.unwrap_or(default);
    if size.is_multiple_of(SECTOR) {
        return Ok(size);
    }
    let value = toml::Value::String(size_text(size));
    Err(reader.bad(key, &value, "a multiple of 512 bytes, the smallest sector"))
}

/// The size of an I/O.
fn block_size(reader: &mut Reader, default: ByteCount) -> Result<ByteCount, Fault> {
    const KEY: &str = "block_size";
    let size = sectors(reader, KEY, default)?;
    if size <= BLOCK_SIZE_MAX {
        return Ok(size);
    }
    let value = toml::Value::String(size_text(size));
    Err(reader.bad(KEY, &value, format!("{BLOCK_SIZE_MAX} at the most")))
}

impl Stream {
    fn read(reader: &mut Reader) -> Result<Stream, Fault> {
        Ok(Stream {
            op: Op::read(reader)?,
            streams: reader.count("streams", 1..=QUEUE_DEPTH_MAX)?.unwrap_or(1),
            block_size: block_size(reader, ByteCount::kib(1024))?,
            queue_depth: reader
                .count("queue_depth", 1..=QUEUE_DEPTH_MAX)?
                .unwrap_or(STREAM_DEPTH_DEFAULT),
        })
    }
}

impl Random {
    fn read(reader: &mut Reader) -> Result<Random, Fault> {
        let share = |share| (0.0..=1.0).contains(&share);
        let read_share =
            reader.number("read_share", "a share from 0 (writes only) to 1 (reads only)", share)?;
        let block_size = block_size(reader, ByteCount::kib(4))?;
        Ok(Random {
            read_share: read_share.unwrap_or(1.0),
            block_size,
            queue_depth: reader.count("queue_depth", 1..=QUEUE_DEPTH_MAX)?.unwrap_or(1),
            align: sectors(reader, "align", block_size)?,
        })
    }
}

impl Probe {
    fn read(reader: &mut Reader) -> Result<Probe, Fault> {
        let extent = match (reader.size("total")?, reader.span("time")?) {
            (None, None) => ProbeExtent::Time(PROBE_TIME_DEFAULT),
            (Some(total), None) => ProbeExtent::Total(total),
            (None, Some(time)) => ProbeExtent::Time(time),
            (Some(_), Some(_)) => {
                return Err(reader.contradiction(
                    "time",
                    "it has both 'total' and 'time'",
                    "leave out one of them",
                ));
            }
        };
        let positions =
            [("start", Position::Start), ("middle", Position::Middle), ("end", Position::End)];
        Ok(Probe {
            op: Op::read(reader)?,
            block_size: block_size(reader, ByteCount::kib(1024))?,
            extent,
            at: reader.choice("at", &positions)?.unwrap_or(Position::Start),
        })
    }
}

impl Operation {
    fn read(
        kind: OperationKind,
        reader: &mut Reader,
        loads: &BTreeMap<String, Workload>,
    ) -> Result<Operation, Fault> {
        let load = match reader.text(LOAD)?.as_deref() {
            None | Some(IDLE) => None,
            // The names were looked up when the loads were collected.
            Some(name) => Some(Box::new(
                loads.get(name).cloned().expect("every load was read before the operations"),
            )),
        };
        let priorities =
            [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)];
        let priority = reader.choice("priority", &priorities)?.unwrap_or(Priority::Normal);
        let within = format!("'sampled' of {}", reader.within());
        let sampled = match reader.reader("sampled", within)? {
            None => None,
            Some(mut sampled) => {
                let sampling = Sampling {
                    strata: sampled.count("strata", 1..=SAMPLES_MAX)?.unwrap_or(8),
                    per_stratum: sampled.count("per_stratum", 2..=SAMPLES_MAX)?.unwrap_or(3),
                    sample: sectors(&mut sampled, "sample", ByteCount::kib(256 * 1024))?,
                };
                sampled.finish()?;
                Some(sampling)
            }
        };
        Ok(Operation { kind, load, priority, sampled })
    }
}

#[cfg(test)]
mod tests;
