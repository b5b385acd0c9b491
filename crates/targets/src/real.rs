//! The target "this host": RAID sets over files or block devices, or one of them as it is.
//!
//! With `directory` the lab makes one file a disk, takes all its space, fills it with random bytes (a
//! file that was never written is answered without a disk), and removes it at the end, also after
//! Ctrl-C. With `devices` it uses what is there: it never writes to a block device, or to a file that has
//! content, without `--destructive`; studies that only read need no leave and open read-only.
//!
//! With `access = "nbd"` the same volume is reached through our own [server](super::served).
//!
//! Cells run one at a time. The array is built anew for each; the files stay, so every cell finds them
//! full of data.

use super::array;
use super::error::{MachineError, mixed_kinds};
use super::files::open_disks;
use super::machine::{Access, HostMachine, Machine, directory_of, enough_disks};
use super::machine_lines;
use super::measured::measure;
use super::served::{Plan, Served};
use super::surroundings::HostFacts;
use super::surroundings::counters::HostCounters;
use super::surroundings::modelled::stripe;
use super::this_machine::{self, host_lines};
use super::worth::{self, DriveFacts};
use super::{directory, left_over, tools};
use host::expendable::{self, NotExpendable, Unseen};
use host::identity::overlap;
use host::{FileDevice, FileOptions, HostRuntime, OpenError, ReactorKind};
use lab::design::{self, CellSpec};
use lab::layout::LayoutFacts;
use lab::measure::{DataSource, DiskView, Volume};
use lab::pitfalls::Surroundings;
use lab::study::{Kind, Op, Study, Tool, Workload};
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use rt::{DeviceRef, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use stdx::{ByteCount, Offset, Prng};
use workload::content::ContentSpec;

/// Size of the files that the lab makes, unless the study says otherwise.
const FILE_SIZE_DEFAULT: ByteCount = ByteCount::gib(1);
/// The piece in which they are filled.
const FILL_STEP: ByteCount = ByteCount::mib(4);

/// See the [module](self).
pub struct HostTarget {
    study: Study,
    machine: HostMachine,
    reactor: ReactorKind,
    scratch: Mutex<Scratch>,
}

/// The files that the lab made, removed when dropped.
#[derive(Default)]
struct Scratch {
    files: Vec<PathBuf>,
    filled: bool,
    /// It was looked whether an earlier run left something.
    looked: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed stays, with names that say whose it is.
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl HostTarget {
    /// Looks at the machine that the study asks for, and writes nothing.
    ///
    /// # Errors
    /// Where a device can't be had, or holds something and `destructive` was not said.
    pub fn new(
        study: &Study,
        machine: HostMachine,
        destructive: bool,
    ) -> Result<HostTarget, MachineError> {
        let runtime = HostRuntime::new(machine.reactor.into()).map_err(refuse)?;
        if let Some(directory) = &machine.directory {
            this_machine::check_directory(directory)
                .map_err(|error| refuse(format!("{error}, with --set machine.directory=DIR")))?;
        }
        check_distinct(&machine.devices)?;
        if !destructive && writes(study) {
            for device in &machine.devices {
                check_expendable(device)?;
            }
        }
        for device in &machine.devices {
            let options = FileOptions { direct: machine.direct, read_only: true };
            FileDevice::open(&runtime.host(), device, options).map_err(refuse)?;
        }
        let reactor = runtime.host().kind();
        Ok(HostTarget { study: study.clone(), machine, reactor, scratch: Mutex::default() })
    }

    /// How many disks the cells need at the most.
    fn disks_needed(&self) -> usize {
        let cells = design::cells(&self.study).unwrap_or_default();
        let disks = cells.iter().filter_map(|cell| {
            let (_, _, layout) = Machine::of_cell(&self.study, cell).ok()?;
            Some(layout.disks_in_all() as usize + array::spares(&layout, &cell.workload))
        });
        disks.max().unwrap_or(1)
    }

    /// Refuses to begin where an earlier run was killed and left something, in any directory of the study.
    fn look_for_left_over(&self) -> Result<(), TargetError> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if !scratch.looked {
            let cells = design::cells(&self.study).unwrap_or_default();
            let of_cells = cells.iter().filter_map(|cell| directory_of(&self.study, cell));
            left_over::refuse(&of_cells.chain(self.machine.directory.clone()).collect())?;
            scratch.looked = true;
        }
        Ok(())
    }

    /// The files of the directory, made and filled the first time.
    fn files(&self, runtime: &HostRuntime, stop: &StopFlag) -> Result<Vec<PathBuf>, TargetError> {
        let Some(directory) = &self.machine.directory else {
            return Ok(self.machine.devices.clone());
        };
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if scratch.filled {
            return Ok(scratch.files.clone());
        }
        let size = self.machine.file_size.unwrap_or(FILE_SIZE_DEFAULT);
        for disk in 0..self.disks_needed() {
            let file = directory.join(left_over::disk(disk));
            let options = FileOptions { direct: self.machine.direct, read_only: false };
            let device =
                FileDevice::create(&runtime.host(), &file, size, options).map_err(cannot_make)?;
            scratch.files.push(file);
            let seed = Prng::for_part(self.study.seed, &format!("content of disk {disk}"));
            fill(runtime, Rc::new(device), seed, stop)?;
        }
        scratch.filled = true;
        Ok(scratch.files.clone())
    }
}

/// Writes random bytes over a whole device.
fn fill(
    runtime: &HostRuntime,
    device: DeviceRef,
    prng: Prng,
    stop: &StopFlag,
) -> Result<(), TargetError> {
    let stop = stop.clone();
    let filled = runtime.runtime().block_on(async move {
        let data = DataSource::random(prng);
        let capacity = device.geometry().capacity;
        let mut at = Offset::ZERO;
        while at.from_start() < capacity && !stop.is_raised() {
            let step = FILL_STEP.min(capacity - at.from_start());
            device.submit(Request::write(at, data.next(step.as_usize()))).await?;
            at += step;
        }
        device.submit(Request::flush()).await.map(|_| stop.is_raised())
    });
    match filled.expect("I/O on a real device ends") {
        Ok(false) => Ok(()),
        Ok(true) => Err(TargetError::Interrupted),
        Err(error) => Err(TargetError::Fatal {
            doing: "filling the lab's files with random bytes".to_owned(),
            why: error.to_string(),
            mend: "free some space, or make them smaller with --set machine.file_size=SIZE"
                .to_owned(),
        }),
    }
}

fn refuse(error: impl ToString) -> MachineError {
    MachineError(error.to_string())
}

fn cannot_make(error: OpenError) -> TargetError {
    let mend = match error {
        OpenError::Exists(_) => left_over::IN_USE,
        _ => "or choose another folder with --set machine.directory=DIR",
    };
    TargetError::Fatal {
        doing: "making the lab's files".to_owned(),
        why: error.to_string(),
        mend: mend.to_owned(),
    }
}

/// Whether any workload of the study writes.
fn writes(study: &Study) -> bool {
    let variants = study.workloads.iter().flat_map(|workload| &workload.variants);
    variants.into_iter().any(workload_writes)
}

fn workload_writes(workload: &Workload) -> bool {
    match &workload.kind {
        Kind::Stream(stream) => stream.op == Op::Write,
        Kind::Probe(probe) => probe.op == Op::Write,
        Kind::Random(random) => random.read_share < 1.0,
        Kind::Slob(slob) => slob.writers > 0,
        Kind::Operation(_) | Kind::Tool(_) => true,
    }
}

fn look_at(path: &Path) -> Result<std::fs::Metadata, MachineError> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        MachineError(format!(
            "'{}': {error}; name a file or block device that exists",
            path.display()
        ))
    })?;
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(metadata);
    }
    Err(MachineError(format!(
        "'{}' is neither a file nor a block device; name one that is",
        path.display()
    )))
}

/// Whether each device is another one: a set of a disk and itself, or a part of it, measures nothing.
fn check_distinct(devices: &[PathBuf]) -> Result<(), MachineError> {
    for (n, device) in devices.iter().enumerate() {
        look_at(device)?;
        if let Some(other) = devices[..n].iter().find(|other| overlap(other, device)) {
            return Err(MachineError(format!(
                "'{}' and '{}' are the same storage; name each device once",
                other.display(),
                device.display()
            )));
        }
    }
    Ok(())
}

/// Whether nobody would miss what is on a device. A study writes all over it, so one that was not looked at whole needs leave.
fn check_expendable(path: &Path) -> Result<(), MachineError> {
    look_at(path)?;
    expendable::check_expendable(path, Unseen::Something).map_err(|error| match error {
        NotExpendable::Probe(error) => refuse(error),
        _ => MachineError(format!(
            "{error}, and the study writes; name another, or destroy its content with --destructive"
        )),
    })
}

/// Whether these devices are no disks of their own: none (files that the lab makes), files, or parts of fewer disks.
fn share_disks(devices: &[PathBuf]) -> bool {
    let is_file = |device: &PathBuf| device.metadata().is_ok_and(|found| found.is_file());
    if devices.is_empty() || devices.iter().any(is_file) {
        return true;
    }
    let below: Vec<String> = devices
        .iter()
        .flat_map(|device| HostFacts::of(device, true).disks)
        .map(|disk| disk.name())
        .collect();
    let apart: BTreeSet<&String> = below.iter().collect();
    !below.is_empty() && apart.len() < devices.len()
}

impl HostTarget {
    /// What a machine is, a line a part.
    fn lines(&self, machine: &HostMachine) -> BTreeMap<String, String> {
        let mut lines = BTreeMap::new();
        let variants = self.study.workloads.iter().flat_map(|workload| &workload.variants);
        if let Some(directory) = &machine.directory
            && variants.into_iter().all(|variant| matches!(variant.kind, Kind::Tool(_)))
        {
            lines = HostFacts::of(directory, true).lines;
            lines.extend(host_lines(directory));
            return lines;
        }
        let disks = match &machine.directory {
            Some(_) => format!(
                "files of {} that the lab made",
                machine.file_size.unwrap_or(FILE_SIZE_DEFAULT)
            ),
            None => {
                let names = machine.devices.iter().map(|path| path.display().to_string());
                names.collect::<Vec<_>>().join(", ")
            }
        };
        if let Some(place) = machine.directory.as_ref().or(machine.devices.first()) {
            lines = HostFacts::of(place, !machine.direct).lines;
            lines.extend(host_lines(place));
        }
        lines.insert("disks".to_owned(), disks);
        let way = if machine.direct { "direct" } else { "through the page cache" };
        lines.insert("I/O".to_owned(), format!("{way}, by {}", self.reactor));
        lines
    }
}

impl Target for HostTarget {
    fn machine(&self, cells: &[CellSpec]) -> BTreeMap<String, String> {
        let of_cell = |cell| match Machine::of_cell(&self.study, cell) {
            Ok((Machine::Host(machine), ..)) => Some((machine, Some(cell))),
            _ => None,
        };
        let mut machines: Vec<(HostMachine, Option<&CellSpec>)> =
            cells.iter().filter_map(of_cell).collect();
        if machines.is_empty() {
            machines.push((self.machine.clone(), None));
        }
        let mut lines = machine_lines::of_all(&machines, |machine| self.lines(machine));
        lines.extend(machine_lines::inputs(cells));
        lines
    }

    fn simulated(&self) -> bool {
        false
    }

    /// Room and losses; of what drives these are nobody tells.
    fn layout(&self, cell: &CellSpec) -> Option<LayoutFacts> {
        let Ok((Machine::Host(machine), name, layout)) = Machine::of_cell(&self.study, cell) else {
            return None;
        };
        if matches!(cell.workload.kind, Kind::Tool(_)) {
            return None;
        }
        let capacity = match machine.devices.as_slice() {
            [] => machine.file_size.unwrap_or(FILE_SIZE_DEFAULT),
            devices => {
                let sizes = devices.iter().map(|device| size_of(device));
                sizes.collect::<Option<Vec<_>>>()?.into_iter().min()?
            }
        };
        let shares_disks = layout.disks_in_all() > 1 && share_disks(&machine.devices);
        let drive = DriveFacts {
            capacity,
            price: machine.disk_price,
            basis: match shares_disks {
                true => "the members are files, or parts of one disk: which losses a layout survives is told of \
                         disks of their own alone",
                false => "nothing is known of these disks' failures and rates",
            }
            .to_owned(),
            ..DriveFacts::default()
        };
        Some(LayoutFacts { shares_disks, ..worth::facts(&name, &layout, &drive) })
    }

    fn jobs_max(&self) -> usize {
        1
    }

    fn check(&self, cell: &CellSpec) -> Result<(), TargetError> {
        let (machine, name, layout) = Machine::of_cell(&self.study, cell)?;
        let Machine::Host(machine) = machine else {
            return Err(mixed_kinds());
        };
        if machine.access == Access::Nbd
            && matches!(cell.workload.kind, Kind::Tool(_) | Kind::Operation(_))
        {
            return Err(TargetError::Unfit {
                what: format!("'{}' with access \"nbd\"", cell.workload.name),
                why: "an export has blocks alone: no files, and no members to work on".to_owned(),
                mend: "leave the cell out with `except = { access = \"nbd\" }`".to_owned(),
            });
        }
        if let Kind::Slob(slob) = &cell.workload.kind
            && !slob.processor_time.is_zero()
        {
            return Err(TargetError::Unfit {
                what: format!("workload '{}'", cell.workload.name),
                why: "`processor_time` is what a session costs a simulated host; on a real one it takes what it takes"
                    .to_owned(),
                mend: "leave `processor_time` out".to_owned(),
            });
        }
        if let Kind::Tool(tool) = &cell.workload.kind {
            return tool_fits(&machine, tool).map(drop);
        }
        if !machine.devices.is_empty() {
            let (workload, mend) = (&cell.workload, "add devices to machine.devices");
            enough_disks(&name, &layout, workload, machine.devices.len(), mend)?;
        }
        array::check(&name, &layout, &cell.workload)
    }

    fn run(
        &self,
        cell: &CellSpec,
        plan: &RepeatPlan,
        stop: &StopFlag,
    ) -> Result<CellRun, TargetError> {
        let (machine, name, layout) = Machine::of_cell(&self.study, cell)?;
        let Machine::Host(machine) = machine else {
            return Err(mixed_kinds());
        };
        self.look_for_left_over()?;
        if let Kind::Tool(tool) = &cell.workload.kind {
            let (directory, tool) = tool_fits(&machine, tool)?;
            return directory::run(&machine, directory, tool, plan, stop);
        }
        let runtime =
            HostRuntime::new(machine.reactor.into()).map_err(|error| TargetError::Fatal {
                doing: "starting the reactor".to_owned(),
                why: error.to_string(),
                mend: "or choose another with --set machine.reactor=threads".to_owned(),
            })?;
        let files = self.files(&runtime, stop)?;
        let rt = runtime.rt();
        let options = FileOptions { direct: machine.direct, read_only: !writes(&self.study) };
        let count = layout.disks_in_all() as usize + array::spares(&layout, &cell.workload);
        let files = &files[..count.min(files.len())];
        let whole = layout.clone();
        let (device, operations, mut views, served) = match machine.access {
            Access::Local => {
                let mut views: Vec<Rc<dyn DiskView>> = Vec::new();
                let mut disks: Vec<DeviceRef> = Vec::new();
                for view in open_disks(&runtime, files, options)? {
                    disks.push(Rc::clone(&view.stats) as DeviceRef);
                    views.push(Rc::new(view));
                }
                let built = array::build(&rt, &name, &layout, disks)?;
                (built.device, built.operations, views, None)
            }
            Access::Nbd => {
                let reactor = machine.reactor.into();
                let files = files.to_vec();
                let served = Served::start(Plan { reactor, files, options, name, layout })?;
                let client = served.connect(&runtime)?;
                let views = served.views();
                (Rc::clone(&client) as DeviceRef, None, views, Some((served, client)))
            }
        };
        let facts = HostFacts::of_all(files, !machine.direct);
        let whole_stripe = stripe(&whole);
        if !machine.direct {
            // Only the kernel knows what reached the disks below the page cache.
            views = facts.disks.into_iter().map(|view| Rc::new(view) as _).collect();
        }
        let volume = Volume {
            device,
            disks: views,
            unwritten: None,
            operations,
            data: DataSource::random(Prng::for_part(plan.seed, "data")),
            surroundings: Surroundings {
                content: Some(ContentSpec::default()),
                stripe: whole_stripe,
                ..facts.surroundings
            },
            host: Some(Rc::new(HostCounters::of_one_thread())),
        };
        let measured = measure(rt, volume, cell.workload.clone(), plan.clone(), stop.clone());
        let measured = runtime.runtime().block_on(measured).expect("I/O on a real device ends");
        let Some((served, client)) = served else { return measured };
        let left = runtime.runtime().block_on(async move {
            client.disconnect().await;
            client.fault()
        });
        let fault = left.expect("a socket's I/O ends");
        let stopped = served.stop();
        match (measured, fault) {
            // What the server said of itself comes before what became of the requests by that.
            (Err(TargetError::Failed { doing, why, mend }), Some(fault)) => {
                stopped?;
                Err(TargetError::Failed { doing, why: format!("{why} ({fault})"), mend })
            }
            (measured, _) => measured.and_then(|run| stopped.map(|()| run)),
        }
    }
}

/// How large a file or a block device is: where its end is.
fn size_of(path: &Path) -> Option<ByteCount> {
    let mut file = std::fs::File::open(path).ok()?;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).ok().map(ByteCount)
}

/// Whether a tool can run here: where, and by which plan.
fn tool_fits<'a>(
    machine: &'a HostMachine,
    tool: &Tool,
) -> Result<(&'a Path, tools::Plan), TargetError> {
    let unfit = |why: String, mend: &str| TargetError::Unfit {
        what: format!("'{}'", tool.kind.word()),
        why,
        mend: mend.to_owned(),
    };
    let plan = tools::Plan::read(tool)
        .map_err(|error| unfit(error.to_string(), "docs/guide/studies.md lists its settings"))?;
    let Some(directory) = &machine.directory else {
        return Err(unfit("it works on files".to_owned(), "give the machine a `directory`"));
    };
    if !directory.is_dir() {
        return Err(unfit(
            format!("'{}' is no directory", directory.display()),
            "name one that is there with --set machine.directory=DIR",
        ));
    }
    Ok((directory, plan))
}
