//! The target "simulated machine": hardware profiles in virtual time.
//!
//! Each repeat of a cell builds a machine of its own from its seed, and drops it; cells share nothing,
//! so as many run at once as there are processors.

use super::array;
use super::error::{MachineError, mixed_kinds};
use super::machine::{Cache, Flush, Machine, SimulatedMachine, enough_disks};
use super::measured::measure;
use super::paid_io::PaidIo;
use super::surroundings::modelled;
use super::views::FilterView;
use super::worth::{self, DriveFacts};
use super::{filesystem, tools};
use lab::design::CellSpec;
use lab::layout::LayoutFacts;
use lab::measure::{DataSource, DiskView, Volume};
use lab::study::{Kind, Study};
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use rt::DeviceRef;
use rt::filter::stats::Stats;
use sim::{CachedDevice, HostReadAhead};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Prng};

/// The most disks of a simulated machine: more than any array of the studies, and each takes memory.
const DISKS_MAX: u32 = 1024;

/// See the [module](self).
pub struct SimulatedTarget {
    study: Study,
    machine: SimulatedMachine,
}

impl SimulatedTarget {
    /// Looks the profiles up.
    ///
    /// # Errors
    /// A profile that there is not, or is of the wrong kind.
    pub fn new(study: &Study, machine: SimulatedMachine) -> Result<SimulatedTarget, MachineError> {
        // Once without a run: a misspelt profile is found before anything else.
        build(&machine, 0).map_err(|error| MachineError(error.to_string()))?;
        Ok(SimulatedTarget { study: study.clone(), machine })
    }

    fn machine_of(
        &self,
        cell: &CellSpec,
    ) -> Result<(SimulatedMachine, String, super::layout::Layout), TargetError> {
        match Machine::of_cell(&self.study, cell)? {
            (Machine::Simulated(machine), name, layout) => Ok((machine, name, layout)),
            (Machine::Host(_), ..) => Err(mixed_kinds()),
        }
    }
}

/// Puts a machine together.
fn build(machine: &SimulatedMachine, seed: u64) -> Result<sim::Machine, sim::ProfileError> {
    let mut builder = sim::Machine::builder(seed).host(&machine.host)?;
    if let Some(link) = &machine.link {
        builder = builder.link(link)?;
    }
    if let Some(controller) = &machine.controller {
        builder = builder.controller(controller)?;
    }
    if let Some(firmware) = &machine.firmware {
        builder = builder.firmware(firmware)?;
    }
    if let Some(cache) = machine.cache {
        builder = builder.cache(cache.into())?;
    }
    if let Some(flush) = machine.flush {
        builder = builder.flush(flush.into());
    }
    if let Some(size) = machine.read_ahead {
        builder = builder.read_ahead(size)?;
    }
    if let Some(size) = machine.controller_cache {
        builder = builder.cache_size(size)?;
    }
    if let Some(channels) = machine.channels {
        builder = builder.channels(channels as usize);
    }
    if let Some(on) = machine.write_cache {
        builder = builder.write_cache(on);
    }
    let disks = machine.disks.min(DISKS_MAX) as usize;
    Ok(builder
        .drives(&machine.disk, disks)
        .map_err(|error| among_drives(error, &machine.disk))?
        .build())
}

/// Of a drive that there is not: the drives whose names begin so, and no other part that is spelt alike.
fn among_drives(error: sim::ProfileError, wanted: &str) -> sim::ProfileError {
    let sim::ProfileError::Unknown { name, .. } = error else { return error };
    let wanted = wanted.to_ascii_lowercase();
    let is_drive = |name: &&str| {
        matches!(sim::profile::load(name), Ok(sim::Profile::Disk(_) | sim::Profile::Ssd(_)))
    };
    let drives: Vec<&str> = sim::profile::names().filter(is_drive).collect();
    let begin: Vec<&str> =
        drives.iter().filter(|name| name.starts_with(&wanted)).copied().collect();
    let hint = match begin.as_slice() {
        [] => format!("; {}", lab::study::suggest(&wanted, drives)),
        [one] => format!("; did you mean '{one}'?"),
        some => format!("; those that begin so are {}", some.join(", ")),
    };
    sim::ProfileError::Unknown { name, hint }
}

fn no_profile(error: sim::ProfileError) -> TargetError {
    TargetError::Unfit {
        what: "[machine]".to_owned(),
        why: error.to_string(),
        mend: "`spindle hw list` names the profiles".to_owned(),
    }
}

/// Whether the RAID controller shows its hosts as many LUNs as the layout has.
fn enough_luns(
    name: &str,
    layout: &super::layout::Layout,
    luns_max: Option<u64>,
) -> Result<(), TargetError> {
    match luns_max {
        Some(luns_max) if layout.luns_seen() as u64 > luns_max => Err(TargetError::Unfit {
            what: format!("layout '{name}'"),
            why: format!(
                "it has {} LUNs, and its controller shows {luns_max} at the most",
                layout.luns_seen()
            ),
            mend: "use fewer LUNs, or a controller whose profile allows more".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The machine, a line a part. What the study leaves to the profiles is told as well.
fn machine_lines(machine: &SimulatedMachine) -> BTreeMap<String, String> {
    let title = |name: &str| {
        sim::profile::load(name)
            .map_or(name.to_owned(), |profile| format!("{} ({name})", profile.title()))
    };
    let mut lines = BTreeMap::new();
    let mut line = |part: &str, what: String| {
        lines.insert(part.to_owned(), what);
    };
    line("host", title(&machine.host));
    line("disks", format!("{} × {}", machine.disks, title(&machine.disk)));
    if let Some(link) = &machine.link {
        line("link", title(link));
    }
    if let Some(controller) = &machine.controller {
        line("controller", title(controller));
    }
    if let Some(firmware) = &machine.firmware {
        line("firmware", firmware.clone());
    }
    if let Some(channels) = machine.channels {
        line("channels", channels.to_string());
    }
    if let Some(cache) = machine.cache {
        let state = match cache {
            Cache::WriteBack => "write-back",
            Cache::WriteThrough => "write-through",
        };
        line("controller's cache", state.to_owned());
    }
    if let Some(flush) = machine.flush {
        let state = match flush {
            Flush::Honoured => "honoured",
            Flush::Ignored => "ignored",
        };
        line("flushes", state.to_owned());
    }
    if let Some(size) = machine.controller_cache {
        line("size of the controller's cache", size.to_string());
    }
    if let Some(size) = machine.read_ahead {
        line("controller's read-ahead", size.to_string());
    }
    line(
        "host's read-ahead",
        match (machine.host_read_ahead, &machine.filesystem) {
            (Some(size), _) => size.to_string(),
            (None, Some(name)) if name != "none" => {
                "the file system's page cache has its own, for files that are not read directly"
                    .to_owned()
            }
            (None, _) => "none: direct reads".to_owned(),
        },
    );
    if let Some(name) = &machine.filesystem {
        let memory = machine.page_cache.unwrap_or(filesystem::PAGE_CACHE_DEFAULT);
        let text =
            format!("{name}, a model of update-in-place file systems, with {memory} of page cache");
        line("file system", text);
    }
    if let Some(time) = machine.filesystem_time {
        let text = format!("{} an I/O", lab::duration::compact(time));
        line("file system's processor time", text);
    }
    let state = |on: bool| if on { "on" } else { "off" };
    let by_profile = match sim::profile::load(&machine.disk) {
        Ok(sim::Profile::Disk(disk)) => Some(disk.write_cache_enabled.value),
        _ => None,
    };
    match (machine.write_cache, by_profile) {
        (Some(on), _) => line("disks' write cache", state(on).to_owned()),
        (None, Some(on)) => {
            line("disks' write cache", format!("{}, as the profile says", state(on)))
        }
        (None, None) => {}
    }
    if let Some(price) = machine.disk_price {
        line("price of a disk", price.to_string());
    }
    lines
}

impl Target for SimulatedTarget {
    fn machine(&self) -> BTreeMap<String, String> {
        machine_lines(&self.machine)
    }

    fn simulated(&self) -> bool {
        true
    }

    fn jobs_max(&self) -> usize {
        usize::MAX
    }

    fn layout(&self, cell: &CellSpec) -> Option<LayoutFacts> {
        let (machine, name, layout) = self.machine_of(cell).ok()?;
        let profile = sim::profile::load(&machine.disk).ok()?;
        let mut drive = DriveFacts::of(&profile);
        drive.price = machine.disk_price;
        Some(worth::facts(&name, &layout, &drive))
    }

    fn check(&self, cell: &CellSpec) -> Result<(), TargetError> {
        let (machine, name, layout) = self.machine_of(cell)?;
        if machine.disks > DISKS_MAX {
            return Err(TargetError::Unfit {
                what: "[machine]".to_owned(),
                why: format!("disks = {}", machine.disks),
                mend: format!("{DISKS_MAX} is the limit"),
            });
        }
        let built = build(&machine, 0).map_err(no_profile)?;
        enough_luns(&name, &layout, built.luns_max())?;
        let disks = machine.disks as usize;
        let narrower = match &layout.of {
            None => format!("make it narrower with --set layouts.{name}.disks=N, "),
            Some(_) => String::new(),
        };
        let mend = format!(
            "raise machine.disks, {narrower}or choose other levels with --set factor.layout=..."
        );
        enough_disks(&name, &layout, &cell.workload, disks, &mend)?;
        let wish = filesystem::Wish::of(&machine, filesystem::stripe_of(&layout))?;
        if let Kind::Tool(tool) = &cell.workload.kind {
            tools::Plan::read(tool).map_err(|error| array::unfit_tool(tool, error.to_string()))?;
            if wish.is_none() {
                let why = "it works on files, and the machine has no `filesystem`".to_owned();
                return Err(array::unfit_tool(tool, why));
            }
            if machine.filesystem_time.is_some() {
                let why =
                    "`filesystem_time` is of each I/O of a block workload, not of a tool's calls";
                return Err(array::unfit_tool(tool, why.to_owned()));
            }
        }
        array::check(&name, &layout, &cell.workload)?;
        // An operation of the array has nothing to do with what lies on it.
        let on_files = !matches!(cell.workload.kind, Kind::Operation(_));
        if let Some(wish) = wish.filter(|_| on_files) {
            let disks = built.devices().iter().take(layout.disks_in_all() as usize).cloned();
            let volume = array::build(&built.rt(), &name, &layout, disks.collect())?;
            wish.check(&name, volume.device.geometry())?;
        }
        Ok(())
    }

    fn run(
        &self,
        cell: &CellSpec,
        plan: &RepeatPlan,
        stop: &StopFlag,
    ) -> Result<CellRun, TargetError> {
        let (spec, name, layout) = self.machine_of(cell)?;
        let machine = build(&spec, plan.seed).map_err(no_profile)?;
        let rt = machine.rt();
        let has_engine = machine.has_raid_controller();
        let paid = |below| PaidIo::of_system(&rt, below, &cell.workload);
        let mut disks: Vec<DeviceRef> = Vec::new();
        let mut views: Vec<Rc<dyn DiskView>> = Vec::new();
        let count = layout.disks_in_all() as usize + array::spares(&cell.workload);
        for (device, drive) in machine.devices().iter().zip(machine.drives()).take(count) {
            let stats = Stats::new(Rc::clone(device), &rt);
            views.push(Rc::new(FilterView {
                name: device.name().to_string(),
                stats: Rc::clone(&stats),
                drive: Some(drive.clone()),
            }));
            // Behind a RAID controller the host pays for the commands that it gives to the volume.
            disks.push(if has_engine { stats } else { paid(stats) });
        }
        let luns = layout.luns_seen();
        // Those of a RAID controller, one before each LUN.
        let caches: RefCell<Vec<Rc<CachedDevice>>> = RefCell::default();
        let front = |volume: DeviceRef, lun: usize| {
            if !has_engine {
                return volume;
            }
            let front = machine.front_of(volume, lun, luns);
            caches.borrow_mut().extend(front.cache);
            paid(front.device)
        };
        let disk = machine.devices().first().expect("a machine has a disk at least").geometry();
        let habits = machine.operation_habits();
        let built = array::build_before(&rt, &name, &layout, disks, habits, &front)?;
        let mut device = built.device;
        let surroundings = modelled::facts(&spec, &layout, disk, device.geometry(), has_engine);
        if let Some(limit) = spec.host_read_ahead {
            device = HostReadAhead::over(&rt, device, limit);
        }
        let data = DataSource::words(Prng::for_part(plan.seed, "data"));
        let caches = caches.into_inner();
        let unwritten = (!caches.is_empty()).then(|| {
            let held = move || caches.iter().map(|cache| cache.dirty()).sum();
            Rc::new(held) as Rc<dyn Fn() -> ByteCount>
        });
        let volume = Volume {
            device,
            disks: views,
            unwritten,
            operations: built.operations,
            data,
            surroundings,
            host: None,
        };
        let (workload, plan, stop) = (cell.workload.clone(), plan.clone(), stop.clone());
        let md_stripe = filesystem::md_stripe_of(&layout, has_engine);
        let wish = filesystem::Wish::of(&spec, filesystem::stripe_of(&layout))?
            .map(|wish| wish.over_md(md_stripe));
        let measured = machine.run(async move {
            match wish {
                Some(wish) => filesystem::run(rt, wish, volume, workload, plan, stop).await,
                None => measure(rt, volume, workload, plan, stop).await,
            }
        });
        match measured {
            Ok(measured) => measured,
            Err(stalled) => Err(TargetError::Failed {
                doing: format!("simulating {}", cell.id),
                why: stalled.to_string(),
                mend: "this is a fault of Spindle; please report it with the study and the seed"
                    .to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    /// Twelve single disks behind a controller of 2008 took two controllers; here they are refused with the mend.
    #[test]
    fn a_layout_of_more_luns_than_the_controller_shows_is_refused() {
        let luns = |count: u32| {
            let text =
                format!("level = 'raid0'\nluns = true\nsets = {count}\nof = {{ level = 'disk' }}");
            let layout = Layout::read(text.parse().expect("TOML")).expect("a layout");
            enough_luns("disks", &layout, Some(8)).map_err(|error| error.to_string())
        };
        assert_eq!(luns(8), Ok(()));
        let refused = luns(12).expect_err("twelve are too many");
        assert!(refused.contains("12 LUNs") && refused.contains("8 at the most"), "{refused}");
    }
}
