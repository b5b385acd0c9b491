//! File systems on simulated volumes: the model of update-in-place file systems, by its presets.
//!
//! With `filesystem` in its machine a simulated volume is made and mounted before a cell runs. A tool then
//! works on its tree. A block workload works on one file of it, as large as the workload's working set, in which
//! every block has its place and is read from the disks. An
//! operation of the array has nothing to do with what lies on it, and runs as without.
//!
//! **That file.** Where pointers lie among the data (UFS, ext3) it is written from end to end, which leaves them where writing does.
//! Where extents map it (XFS) they are few, and it is laid out in no time: to write 160 TB takes the simulated disks days, and
//! whoever simulates them hours.
//!
//! **Read-ahead over md.** Linux takes how far it reads ahead from the device, and a striped set of md asks for two of its
//! stripes where that is more than the usual 128 KiB: less would leave disks without work. A RAID controller's
//! volume asks for nothing.

use super::array;
use super::layout::{CHUNK_DEFAULT, Layout, Level};
use super::machine::{Atime, SimulatedMachine};
use super::measured::measure;
use super::paid_io::PaidIo;
use super::tools::Plan;
use inplace::{AccessTimes, FileSystem, Mapping, MountOptions, Preset, Stripe};
use lab::measure::files::{Ends, Phases, tool_run};
use lab::measure::{Mark, Volume};
use lab::pitfalls::WriteBack;
use lab::study::{Kind, WorkingSet, Workload};
use lab::target::{CellRun, RepeatPlan, StopFlag, TargetError};
use rt::filter::CountedTree;
use rt::{Buf, FileTree, FileVolume, Geometry, OpenHow, Request, Rt, TreeError};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};
use workload::content::{Content, ContentSpec, Form};
use workload::crew::{OneRuntime, PhaseListener};

/// Memory for the page cache where the machine does not say: what a host with 4 GiB has left.
pub(crate) const PAGE_CACHE_DEFAULT: ByteCount = ByteCount::gib(2);

/// The share of a file system that a block workload's file takes where its working set is the whole
/// volume: some must be left for metadata, and nobody runs one full.
const FILE_SHARE: f64 = 0.9;

/// The file of a block workload, and the piece in which it is written.
const FILE: &str = "volume";
const FILL_STEP: ByteCount = ByteCount::mib(1);

/// A file system that a machine asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    preset: Preset,
    page_cache: ByteCount,
    stripe: Option<Stripe>,
    /// A stripe of the set of md that it lies on.
    md_stripe: Option<ByteCount>,
    atime: Option<Atime>,
    barriers: Option<bool>,
    direct: bool,
    /// See [`SimulatedMachine::filesystem_time`].
    time: Duration,
}

impl Wish {
    /// What a machine asks for; `None` where it asks for no file system. `stripe` is that of the volume.
    ///
    /// # Errors
    /// A name that is no preset.
    pub fn of(
        machine: &SimulatedMachine,
        stripe: Option<Stripe>,
    ) -> Result<Option<Wish>, TargetError> {
        let Some(name) = machine.filesystem.as_deref().filter(|name| *name != "none") else {
            return Ok(None);
        };
        let preset = Preset::parse(name).map_err(|error| TargetError::Unfit {
            what: "[machine] filesystem".to_owned(),
            why: error.to_string(),
            mend: "or \"none\"".to_owned(),
        })?;
        Ok(Some(Wish {
            preset,
            page_cache: machine.page_cache.unwrap_or(PAGE_CACHE_DEFAULT),
            stripe: stripe.filter(|_| machine.stripe_aware.unwrap_or(true)),
            md_stripe: None,
            atime: machine.atime,
            barriers: machine.barriers,
            direct: machine.direct.unwrap_or(true),
            time: machine.filesystem_time.unwrap_or_default(),
        }))
    }

    /// The same on a set of md, if one of `stripe` lies below.
    pub fn over_md(self, stripe: Option<ByteCount>) -> Wish {
        Wish { md_stripe: stripe, ..self }
    }

    fn options(&self) -> MountOptions {
        let usual = self.preset.mount_options(self.page_cache);
        let stripe = self.md_stripe.filter(|_| self.preset.is_linux()).unwrap_or(ByteCount::ZERO);
        MountOptions {
            access_times: match self.atime {
                None => usual.access_times,
                Some(Atime::Noatime) => AccessTimes::Never,
                Some(Atime::Relatime) => AccessTimes::Relative,
                Some(Atime::Strictatime) => AccessTimes::Always,
            },
            barriers: self.barriers.unwrap_or(usual.barriers),
            read_ahead_max: usual.read_ahead_max.max(stripe * 2),
            ..usual
        }
    }

    /// Whether it could be made on a layout's volume.
    ///
    /// # Errors
    /// Why not, and the mend.
    pub fn check(&self, name: &str, volume: Geometry) -> Result<(), TargetError> {
        let settings = self.preset.settings(volume.capacity, self.stripe);
        FileSystem::fits(volume, &settings).map_err(|error| TargetError::Unfit {
            what: format!("file system {} on layout '{name}'", self.preset),
            why: error.to_string(),
            mend: "choose another file system, other disks, or another number of them".to_owned(),
        })
    }

    /// Makes it on the volume and mounts it.
    async fn mount(&self, rt: &Rt, volume: &Volume) -> Result<Rc<FileSystem>, TargetError> {
        let capacity = volume.device.geometry().capacity;
        let settings = self.preset.settings(capacity, self.stripe);
        let failed = |why: String| TargetError::Failed {
            doing: format!("making the file system {}", self.preset),
            why,
            mend: "give it a larger volume or other disks".to_owned(),
        };
        FileSystem::format(rt, Rc::clone(&volume.device), &settings)
            .await
            .map_err(|error| failed(error.to_string()))?;
        FileSystem::mount(rt, Rc::clone(&volume.device), self.options())
            .await
            .map_err(|error| failed(error.to_string()))
    }
}

/// The stripes of a layout's volume, or of each of its LUNs; `None` where it has none. Of sets that are put together or copied those
/// of one set, of which a RAID 0 deals out whole ones; where a set has none, as a mirror, those of the RAID 0.
pub fn stripe_of(layout: &Layout) -> Option<Stripe> {
    let passes_on = matches!(layout.level, Level::Linear | Level::Raid0 | Level::Raid1);
    if let Some(stripe) = layout.of.as_deref().filter(|_| passes_on).and_then(stripe_of) {
        return Some(stripe);
    }
    let width = data_members(layout, layout.members() / 2);
    (width > 1).then(|| Stripe { unit: layout.chunk.unwrap_or(CHUNK_DEFAULT), width })
}

/// Members over which a stripe's data goes; 0 where a volume is not striped. Of a RAID 10 they are what its user takes for them.
fn data_members(layout: &Layout, of_raid10: u32) -> u32 {
    let members = layout.members();
    match layout.level {
        Level::Raid0 => members,
        Level::Raid4 | Level::Raid5 => members.saturating_sub(1),
        Level::Raid6 => members.saturating_sub(2),
        Level::Raid10 => of_raid10,
        Level::Disk | Level::Linear | Level::Raid1 | Level::Asm => 0,
    }
}

/// What the host's md deals out over its members before it comes back to the first, of data; `None` where the volume is no
/// set of md, or one that is not striped. Of a set of sets the host asks the outermost.
pub fn md_stripe_of(layout: &Layout, has_raid_controller: bool) -> Option<ByteCount> {
    // A controller puts the sets together, but for its LUNs.
    if has_raid_controller && !layout.luns {
        return None;
    }
    // Copies that lie near one another are read as one; where they lie elsewhere, or go round, all members take part.
    let (members, laid) = (layout.members(), layout.layout.as_deref().unwrap_or("near-2"));
    let near = laid.strip_prefix("near-").and_then(|copies| copies.parse().ok());
    let of_raid10 =
        near.filter(|copies| members.is_multiple_of(*copies)).map_or(members, |c| members / c);
    let width = data_members(layout, of_raid10);
    (width > 0).then(|| layout.chunk.unwrap_or(CHUNK_DEFAULT) * u64::from(width))
}

/// Runs a workload on a file system on a volume.
///
/// # Errors
/// What failed, with the mend.
pub async fn run(
    rt: Rt,
    wish: Wish,
    mut volume: Volume,
    workload: Workload,
    plan: RepeatPlan,
    stop: StopFlag,
) -> Result<CellRun, TargetError> {
    let filesystem = match &workload.kind {
        Kind::Operation(_) => return measure(rt, volume, workload, plan, stop).await,
        _ => wish.mount(&rt, &volume).await?,
    };
    let known = &mut volume.surroundings;
    known.memory = Some(wish.page_cache);
    known.buffered = Some(!wish.direct);
    known.write_back = Some(WriteBack {
        cache: wish.page_cache,
        begins_at: filesystem.options().write_back_begins(),
        takes: filesystem.options().write_back_takes(filesystem.settings().block),
    });
    known.record = (!wish.direct).then(|| filesystem.settings().block);
    if !filesystem.options().barriers {
        known.flush.honoured = Some(false);
    }
    let Kind::Tool(tool) = &workload.kind else {
        let file = block_file(&rt, &filesystem, &wish, &workload, &plan, &stop).await?;
        volume.device = PaidIo::of_filesystem(&rt, Rc::new(file), wish.time);
        let whole = Workload { working_set: WorkingSet::Whole, ..workload };
        return measure(rt, volume, whole, plan, stop).await;
    };
    let tool = Plan::read(tool).map_err(|error| array::unfit_tool(tool, error.to_string()))?;
    let content = ContentSpec { form: Form::Words, ..tool.content() };
    let tree = Rc::new(CountedTree::new(filesystem));
    let phases: Rc<RefCell<Phases>> = Rc::default();
    let listener: PhaseListener = {
        let (rt, disks, tree) = (rt.clone(), volume.disks.clone(), Rc::clone(&tree));
        let phases = Rc::clone(&phases);
        Rc::new(move |end| {
            phases.borrow_mut().note(end, Mark::take(&rt, &disks, None), tree.traffic());
        })
    };
    let crew = OneRuntime::new(rt.clone(), Rc::clone(&tree) as _).with_phases(listener);
    let crew = Rc::new(crew);
    let begin = Mark::take(&rt, &volume.disks, volume.host.as_deref());
    let outcome = tool.run(crew, Content::new(content, plan.seed), plan.seed, stop.shared()).await;
    let end = Mark::take(&rt, &volume.disks, volume.host.as_deref());
    if stop.is_raised() {
        return Err(TargetError::Interrupted);
    }
    let outcome = outcome.map_err(|error| TargetError::Failed {
        doing: format!("running '{}'", workload.name),
        why: error.to_string(),
        mend: "give it a larger volume, or leave the cell out".to_owned(),
    })?;
    let phases = &phases.borrow().ended;
    let ends = Ends { begin: &begin, end: &end, disks: &volume.disks, phases };
    volume.surroundings.content = Some(content);
    Ok(tool_run(outcome, &ends, (tree.traffic(), tree.read()), volume.surroundings))
}

/// The file that stands for a volume: written from end to end or laid out, synced, and forgotten by the cache.
async fn block_file(
    rt: &Rt,
    tree: &Rc<FileSystem>,
    wish: &Wish,
    workload: &Workload,
    plan: &RepeatPlan,
    stop: &StopFlag,
) -> Result<FileVolume, TargetError> {
    let failed = |why: String| TargetError::Failed {
        doing: format!("writing the file for '{}' on {}", workload.name, wish.preset),
        why,
        mend: "give the workload a smaller working_set, or the machine larger disks".to_owned(),
    };
    let tree_failed = |error: TreeError| failed(error.to_string());
    let free = tree.space().await.map_err(tree_failed)?.free;
    let share = ByteCount((free.bytes() as f64 * FILE_SHARE) as u64);
    let size = match workload.working_set {
        WorkingSet::Whole => share,
        set => set.of(free),
    };
    let size = size.round_down(FILL_STEP).max(FILL_STEP);
    let by_extents = tree.settings().mapping == Mapping::Extents;
    let how = match by_extents {
        true => OpenHow::write(),
        false => OpenHow::create(),
    };
    if by_extents {
        tree.lay_out(Path::new(FILE), size).await.map_err(tree_failed)?;
    }
    let how = how.with_direct(wish.direct);
    let file = tree.open(Path::new(FILE), how).await.map_err(tree_failed)?;
    // One word over and over: the disks hold it as that, however large they are.
    let word = Prng::for_part(plan.seed, "content of the file").next_u64() | 1;
    let mut at = Offset::ZERO;
    while at.from_start() < size && !by_extents {
        if stop.is_raised() {
            return Err(TargetError::Interrupted);
        }
        let step = FILL_STEP.min(size - at.from_start());
        let data = Buf::fill(word, step.as_usize());
        let written = file.submit(Request::write(at, data)).await;
        written.map_err(|error| failed(error.to_string()))?;
        at += step;
    }
    file.sync().await.map_err(tree_failed)?;
    file.drop_cache().await.map_err(tree_failed)?;
    rt.yield_now().await;
    FileVolume::open(file).await.map_err(tree_failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_ahead(filesystem: &str, layout: &str, has_raid_controller: bool) -> ByteCount {
        let machine = format!("host = 'a'\ndisk = 'b'\ndisks = 12\nfilesystem = '{filesystem}'");
        let machine: SimulatedMachine = toml::from_str(&machine).expect("a machine");
        let layout = Layout::read(layout.parse().expect("TOML")).expect("a layout");
        let wish = Wish::of(&machine, stripe_of(&layout)).expect("a preset").expect("one");
        wish.over_md(md_stripe_of(&layout, has_raid_controller)).options().read_ahead_max
    }

    /// Found by a newcomer: a RAID 0 of mirrors was not told, and a RAID 10 of the same places was.
    #[test]
    fn a_file_system_is_told_of_the_stripes_below_it_whatever_makes_them() {
        for (text, stripe) in [
            ("level = 'raid1'\ndisks = 2", None),
            ("level = 'raid10'\ndisks = 8", Some((64, 4))),
            ("level = 'raid0'\nsets = 4\nof = { level = 'raid1', disks = 2 }", Some((64, 4))),
            ("level = 'raid1'\nsets = 2\nof = { level = 'raid0', disks = 4 }", Some((64, 4))),
            ("level = 'linear'\nsets = 4\nof = { level = 'raid1', disks = 2 }", None),
            ("level = 'raid0'\nsets = 2\nof = { level = 'raid5', disks = 4 }", Some((64, 3))),
            ("level = 'raid5'\nsets = 4\nof = { level = 'raid1', disks = 2 }", Some((64, 3))),
        ] {
            let layout = Layout::read(text.parse().expect("TOML")).expect("a layout");
            let told = stripe_of(&layout).map(|stripe| (stripe.unit.bytes() >> 10, stripe.width));
            assert_eq!(told, stripe, "{text}");
        }
    }

    /// Too little leaves members of a striped set without work; too much is not what Linux does.
    #[test]
    fn linux_reads_two_stripes_of_md_ahead() {
        for (layout, kib) in [
            ("level = 'disk'", 128),
            ("level = 'raid1'\ndisks = 2", 128),
            ("level = 'linear'\ndisks = 4", 128),
            ("level = 'raid0'\ndisks = 4", 512),
            ("level = 'raid0'\ndisks = 2\nchunk = '16k'", 128),
            ("level = 'raid5'\ndisks = 4", 384),
            ("level = 'raid6'\ndisks = 8\nchunk = '512k'", 6144),
            ("level = 'raid10'\ndisks = 8", 512),
            ("level = 'raid10'\ndisks = 8\nlayout = 'far-2'", 1024),
            ("level = 'raid10'\ndisks = 5", 640),
            ("level = 'raid0'\nsets = 3\nof = { level = 'raid5', disks = 4 }", 1152),
        ] {
            for filesystem in ["xfs", "ext3-ordered"] {
                let ours = read_ahead(filesystem, layout, false);
                assert_eq!(ours, ByteCount::kib(kib), "{filesystem} on {layout}");
            }
            assert_eq!(read_ahead("ufs", layout, false), ByteCount::mib(1), "{layout}: no Linux");
            assert_eq!(read_ahead("xfs", layout, true), ByteCount::kib(128), "{layout}: no md");
        }
        let luns = "level = 'raid0'\nsets = 3\nluns = true\nof = { level = 'raid5', disks = 4 }";
        assert_eq!(read_ahead("xfs", luns, true), ByteCount::kib(1152), "md over LUNs");
    }
}
