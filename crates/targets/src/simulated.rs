//! The target "simulated machine": hardware profiles in virtual time.
//!
//! Each repeat of a cell builds a machine of its own from its seed, and drops it; cells share nothing,
//! so as many run at once as there are processors.

use super::array;
use super::error::{MachineError, mixed_kinds};
use super::machine::{Machine, SimulatedMachine, enough_disks};
use super::machine_lines;
use super::measured::measure;
use super::paid_io::PaidIo;
use super::ssds;
use super::surroundings::modelled;
use super::views::FilterView;
use super::worth::{self, DriveFacts};
use super::{filesystem, tools};
use lab::design::CellSpec;
use lab::layout::LayoutFacts;
use lab::measure::{DataSource, DiskView, Volume};
use lab::pitfalls::Surroundings;
use lab::study::{Kind, Study};
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use rt::DeviceRef;
use rt::filter::stats::Stats;
use sim::{CachedDevice, HostReadAhead, SsdState};
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
        build(&machine, 0, Ssds::EMPTY).map_err(|error| MachineError(error.to_string()))?;
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

/// How the solid-state drives of a machine begin: those of the layout, which come first, in this state, the others empty.
#[derive(Clone, Copy)]
struct Ssds {
    of_layout: usize,
    state: SsdState,
}

impl Ssds {
    /// All of them empty.
    const EMPTY: Ssds = Ssds { of_layout: 0, state: SsdState::Fresh };
}

/// Puts a machine together.
fn build(
    machine: &SimulatedMachine,
    seed: u64,
    ssds: Ssds,
) -> Result<sim::Machine, sim::ProfileError> {
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
    let of_layout = ssds.of_layout.min(disks);
    let disk = machine.disk.as_str();
    let drives = |builder: sim::MachineBuilder, state, count| {
        builder.ssd_state(state).drives(disk, count).map_err(|error| among_drives(error, disk))
    };
    let builder = drives(builder, ssds.state, of_layout)?;
    Ok(drives(builder, SsdState::Fresh, disks - of_layout)?.build())
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

impl Target for SimulatedTarget {
    fn machine(&self, cells: &[CellSpec]) -> BTreeMap<String, String> {
        let of_cell = |cell| Some((self.machine_of(cell).ok()?.0, Some(cell)));
        let mut machines: Vec<(SimulatedMachine, Option<&CellSpec>)> =
            cells.iter().filter_map(of_cell).collect();
        if machines.is_empty() {
            machines.push((self.machine.clone(), None));
        }
        let ssds = ssds::told(&self.study, machines.iter().map(|(machine, _)| machine));
        let mut lines = machine_lines::of_all(&machines, machine_lines::of);
        lines.extend(ssds.map(|how| ("SSDs begin".to_owned(), how)));
        lines.extend(machine_lines::inputs(cells));
        lines
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
        if machine.controller.is_none() {
            drive.link = modelled::link(&machine, &layout, false);
        }
        let mut facts = worth::facts(&name, &layout, &drive);
        let is_direct = machine.controller.is_none()
            && machine.host_read_ahead.is_none()
            && machine.filesystem.is_none();
        if let Some(rebuild) = facts.rebuild.as_mut().filter(|_| !is_direct) {
            rebuild.look = None;
        }
        Some(facts)
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
        let built = build(&machine, 0, Ssds::EMPTY).map_err(no_profile)?;
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
        let kind = &cell.workload.kind;
        let of_layout = layout.disks_in_all() as usize;
        let ssds = Ssds { of_layout, state: ssds::begin(&spec, kind) };
        let machine = build(&spec, plan.seed, ssds).map_err(no_profile)?;
        let rt = machine.rt();
        let has_engine = machine.has_raid_controller();
        let paid = |below| PaidIo::of_system(&rt, below, &cell.workload);
        let mut disks: Vec<DeviceRef> = Vec::new();
        let mut views: Vec<Rc<dyn DiskView>> = Vec::new();
        let count = of_layout + array::spares(&layout, &cell.workload);
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
        let surroundings = Surroundings {
            ssds: ssds::unlike_the_load(&spec, kind),
            ..modelled::facts(&spec, &layout, disk, device.geometry(), has_engine)
        };
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
    use lab::steady::SteadyRules;
    use lab::study::Options;
    use std::time::Duration;

    fn study(disk: &str, more: &str) -> Study {
        let text = format!(
            "title = 't'\nquestion = 'q?'\nrepeats = 1\n[machine]\nkind = 'simulated'\nhost = 'epyc-2024'\n\
             disk = '{disk}'\ndisks = 3\n[layouts.mirror]\nlevel = 'raid1'\ndisks = 2\n{more}"
        );
        Study::parse("study", "study.toml", &text, &Options::default()).expect("a study")
    }

    fn target(study: &Study) -> SimulatedTarget {
        match Machine::read(study.machine.clone()) {
            Ok(Machine::Simulated(machine)) => {
                SimulatedTarget::new(study, machine).expect("it ships")
            }
            other => panic!("{other:?}"),
        }
    }

    /// The first cell.
    fn run_first(study: &Study, steady: SteadyRules) -> CellRun {
        let cells = lab::design::cells(study).expect("cells");
        let plan = RepeatPlan { seed: 1, repeat: 0, steady, quick: false };
        target(study).run(&cells[0], &plan, &StopFlag::new()).expect("it runs")
    }

    fn ssds() -> impl Iterator<Item = sim::profile::SsdProfile> {
        let ssd = |name| match sim::profile::load(name) {
            Ok(sim::Profile::Ssd(profile)) => Some(*profile),
            _ => None,
        };
        sim::profile::names().filter_map(ssd)
    }

    /// Where no rebuild is measured the answer has the worked-out one: both must be one figure. A spare that was written over
    /// at random made the measured one five times as long.
    #[test]
    fn an_idle_rebuild_of_ssds_takes_as_long_as_is_worked_out() {
        let rebuild = "[[workload]]\nname = 'r'\nkind = 'rebuild'\n\
                       sampled = { strata = 3, per_stratum = 2, sample = '256m' }";
        for ssd in ssds() {
            let study = study(&ssd.name, rebuild);
            let cells = lab::design::cells(&study).expect("cells");
            let facts = target(&study).layout(&cells[0]).expect("a layout");
            let rate = facts.rebuild.and_then(|rebuild| rebuild.rate).expect("a rate");
            let worked_out = facts.disk_bytes as f64 / rate;
            let took = run_first(&study, SteadyRules::default()).metrics["duration_s"];
            println!("{}: {took:.0} s measured, {worked_out:.0} s worked out", ssd.name);
            assert!((took / worked_out - 1.0).abs() < 0.05, "{}: {took}", ssd.name);
        }
    }

    /// What a study measures is what the data sheet promises of a stream, and the same for all drives under random writes: the rate
    /// that stays. Streams at the rate of random writes ranked a drive for data centres behind one for desktops.
    #[test]
    fn ssds_begin_as_the_load_leaves_them_unless_the_study_says_how() {
        let cell = |disk: &str, state: &str, load: &str| {
            // So many I/Os of 1 MiB, and so few of 4 KiB.
            let ms = if load.contains("stream") { 300 } else { 50 };
            let round = Duration::from_millis(ms);
            let steady = SteadyRules { round, window: 3, rounds_max: 10, ..SteadyRules::default() };
            let text = format!("[[workload]]\nname = 'w'\n{load}");
            let mut study = study(disk, &text);
            if !state.is_empty() {
                study.machine.insert("ssd_state".to_owned(), state.into());
            }
            study.layouts.clear();
            let run = run_first(&study, steady);
            let found = run.pitfalls.iter().any(|pitfall| pitfall.id() == "ssd-state");
            (run.metrics["throughput_mb_s"], found)
        };
        let stream = "kind = 'stream'\nop = 'write'";
        let random = "kind = 'random'\nread_share = 0\nqueue_depth = 64";
        for ssd in ssds().filter(|ssd| ssd.garbage_collection.value) {
            let sheet = ssd.sheet_write_mb_s.value;
            let (of_stream, found) = cell(&ssd.name, "", stream);
            println!("{}: a stream {of_stream:.0} MB/s, sheet {sheet:.0}", ssd.name);
            assert!((of_stream / sheet - 1.0).abs() < 0.05 && !found, "{}: {of_stream}", ssd.name);
            let (of_random, found) = cell(&ssd.name, "", random);
            assert!(!found);
            assert_eq!(cell(&ssd.name, "random", random), (of_random, false));
            let (fresh, found) = cell(&ssd.name, "fresh", random);
            println!("{}: at random {of_random:.0} MB/s, {fresh:.0} empty", ssd.name);
            assert!(of_random < 0.7 * fresh && found, "{}: {of_random} and {fresh}", ssd.name);
            let (scattered, found) = cell(&ssd.name, "random", stream);
            assert!(scattered < 0.7 * of_stream && found, "{}: {scattered}", ssd.name);
            assert!(!cell(&ssd.name, "fresh", stream).1, "it goes at the rate that stays");
        }
    }

    /// A reader who is not told how drives begin takes the figures for another state's.
    #[test]
    fn the_machine_says_how_its_ssds_begin() {
        let workload = "[[workload]]\nname = 'w'\nkind = 'stream'\n";
        let factor = |name: &str, levels: &str| {
            format!("{workload}[[factor]]\nname = '{name}'\nlevels = {levels}")
        };
        let told = |disk: &str, more: &str| {
            let study = study(disk, more);
            let cells = lab::design::cells(&study).expect("cells");
            target(&study).machine(&cells).remove("SSDs begin")
        };
        let told = |disk: &str, more: &str| told(disk, more).unwrap_or_default();
        assert_eq!(told("exos-x20", workload), "");
        assert_eq!(told("p4800x", workload), "", "it is written in place");
        let by_load = told("pm9a3", workload);
        assert!(by_load.starts_with("as the load leaves them in the long run"), "{by_load}");
        assert_eq!(told("exos-x20", &factor("disk", "['exos-x20', 'pm9a3']")), by_load);
        let by_factor = told("pm9a3", &factor("ssd_state", "['fresh', 'random']"));
        assert_eq!(by_factor, "as the factor ssd_state says; spares empty");
        let mut set = study("pm9a3", workload);
        set.machine.insert("ssd_state".to_owned(), "fresh".into());
        assert_eq!(
            target(&set).machine(&[])["SSDs begin"],
            "empty, as the study says; spares empty"
        );
    }

    /// Found by a newcomer: the head of a report named the disks of the table, where a factor had swapped them in all cells.
    #[test]
    fn the_parts_that_factors_change_are_told_as_the_cells_have_them() {
        let workload = "[[workload]]\nname = 'random'\nkind = 'random'\n[[factor]]\nname = 'layout'\nlevels = ['mirror']\n";
        let drives = "[[factor]]\nname = 'drive'\nlevels = ['old', 'new']\n[factor.settings]\n\
             old = { disk = 'st3750640as', disk_price = 99.0 }\nnew = { disk = 'exos-x20', disk_price = 329.0 }\n";
        let study = study("870-evo", &format!("{workload}{drives}"));
        let cells = lab::design::cells(&study).expect("cells");
        let told = |cells: &[CellSpec]| target(&study).machine(cells);
        let disks = |lines: &BTreeMap<String, String>| lines["disks"].clone();
        let both = told(&cells);
        assert!(!disks(&both).contains("870-evo"), "{both:?}");
        for said in ["(st3750640as) (drive=old); ", "(exos-x20) (drive=new)"] {
            assert!(disks(&both).contains(said), "{both:?}");
        }
        assert_eq!(both["price of a disk"], "99 (drive=old); 329 (drive=new)");
        assert_eq!(both["host"], told(&[])["host"], "what is alike is told once");
        // Of one that was run alone the other is not told.
        let one = told(&cells[..1]);
        assert!(disks(&one).ends_with("(st3750640as)"), "{one:?}");
        assert_eq!(one["price of a disk"], "99");
        assert!(disks(&told(&[])).contains("870-evo"));
    }

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
