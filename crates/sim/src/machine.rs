//! A whole machine: host, link, controller, drives, and the runtime in which it lives.
//!
//! Two shapes, by the controller:
//!
//! * a plain adapter, or none: engine – link – adapter – drive. The engine runs on the host, and
//!   [`Machine::devices`] are the drives as the host sees them.
//! * a RAID controller (one with a cache): host – link – cache – engine – drive. The engine runs in the
//!   controller: [`Machine::devices`] are the drives on its back end, each on a port of its own, and
//!   what the host sees is a volume of the engine's put through [`Machine::front`].
//!
//! What all drives together exchange with a RAID controller passes its *back end*, one bus, where the profile
//! gives its rate.
//!
//! A link has one or more *channels*, each a link of the profile by itself. LUNs (volumes of a RAID
//! controller, in the order of [`Machine::front_of`]) or, without such a controller, drives are put on
//! them in turn. One controller serves all LUNs; each has an equal part of its cache.
//!
//! The phases of the platters come from the seed, each drive's own, so that disks are not in step.

use crate::controller::{CachePolicy, CachedDevice, Controller, ControllerOptions, FlushPolicy};
use crate::disk::Disk;
use crate::host::Processor;
use crate::link::Link;
use crate::profile::{
    ControllerProfile, DiskProfile, HostProfile, LinkProfile, OperationHabits, Profile,
    ProfileError, SsdProfile, load,
};
use crate::reactor::SimReactor;
use crate::service::ServicedDevice;
use crate::ssd::{Ssd, SsdState};
use crate::world::World;
use rt::{DeviceRef, Rt, Runtime, Stalled};
use std::future::Future;
use std::rc::Rc;
use stdx::{ByteCount, Duration, Instant, Prng};

/// A simulated drive of a machine, for what a [`rt::Device`] can't do.
#[derive(Clone)]
pub enum Drive {
    /// A hard disk.
    Disk(Rc<Disk>),
    /// A solid-state drive.
    Ssd(Rc<Ssd>),
}

impl Drive {
    /// The drive itself, past adapter and link.
    pub fn device(&self) -> DeviceRef {
        match self {
            Drive::Disk(disk) => Rc::clone(disk) as DeviceRef,
            Drive::Ssd(ssd) => Rc::clone(ssd) as DeviceRef,
        }
    }

    /// For how long its mechanism was at work until now; `None` of a drive that has none.
    pub fn at_work(&self) -> Option<Duration> {
        match self {
            Drive::Disk(disk) => Some(disk.at_work()),
            Drive::Ssd(_) => None,
        }
    }

    /// Reads that were answered from its buffer until now; `None` of a solid-state drive, whose buffer is hardly faster.
    pub fn answered_from_buffer(&self) -> Option<u64> {
        match self {
            Drive::Disk(disk) => Some(disk.answered_from_buffer()),
            Drive::Ssd(_) => None,
        }
    }

    /// Bytes of writes that wait in its buffer, answered and not on the medium; `None` of a solid-state drive: its buffer
    /// is full within a moment.
    pub fn unwritten(&self) -> Option<ByteCount> {
        match self {
            Drive::Disk(disk) => Some(disk.unwritten()),
            Drive::Ssd(_) => None,
        }
    }

    /// Whether less than half of its buffer is taken by writes; `None` of a solid-state drive, as of what is
    /// [unwritten](Drive::unwritten).
    pub fn keeps_up(&self) -> Option<bool> {
        match self {
            Drive::Disk(disk) => Some(disk.keeps_up()),
            Drive::Ssd(_) => None,
        }
    }

    /// When what it has answered until now will be on its medium, whether it outlasts a power cut in the buffer or not; `None` of a hard
    /// disk, which a flush has write its buffer out.
    pub fn written_out(&self) -> Option<Instant> {
        match self {
            Drive::Disk(_) => None,
            Drive::Ssd(ssd) => ssd.written_out(),
        }
    }

    /// Cuts its power: what was not durable is lost, requests fail until [`Drive::power_on`].
    pub fn cut_power(&self, prng: &mut Prng) {
        match self {
            Drive::Disk(disk) => disk.cut_power(prng),
            Drive::Ssd(ssd) => ssd.cut_power(),
        }
    }

    /// Has flushes and FUA ignored, or honoured, as they are by default.
    pub fn ignore_flushes(&self, ignored: bool) {
        match self {
            Drive::Disk(disk) => disk.ignore_flushes(ignored),
            Drive::Ssd(ssd) => ssd.ignore_flushes(ignored),
        }
    }

    /// Turns its power on again.
    pub fn power_on(&self) {
        match self {
            Drive::Disk(disk) => disk.power_on(),
            Drive::Ssd(ssd) => ssd.power_on(),
        }
    }

    /// Memory that its content takes, about.
    pub fn memory(&self) -> ByteCount {
        match self {
            Drive::Disk(disk) => disk.memory(),
            Drive::Ssd(ssd) => ssd.memory(),
        }
    }
}

/// What drives to put in.
#[derive(Clone, Debug)]
enum Bay {
    Disk(Box<DiskProfile>),
    Ssd(Box<SsdProfile>, SsdState),
}

/// Collects the parts of a [`Machine`]. Parts are named as in `spindle hw list`, or by a path.
#[derive(Clone, Debug)]
pub struct MachineBuilder {
    seed: u64,
    host: Option<HostProfile>,
    link: Option<LinkProfile>,
    controller: Option<ControllerProfile>,
    bays: Vec<Bay>,
    write_cache: Option<bool>,
    ssd_state: SsdState,
    options: ControllerOptions,
    channels: usize,
}

impl MachineBuilder {
    /// The host; without one, work takes no time.
    pub fn host(mut self, name: &str) -> Result<MachineBuilder, ProfileError> {
        match load(name)? {
            Profile::Host(profile) => self.host = Some(*profile),
            other => return Err(other.wrong_kind("host")),
        }
        Ok(self)
    }

    /// The link; without one, drives answer directly.
    pub fn link(mut self, name: &str) -> Result<MachineBuilder, ProfileError> {
        match load(name)? {
            Profile::Link(profile) => self.link = Some(*profile),
            other => return Err(other.wrong_kind("link")),
        }
        Ok(self)
    }

    /// The controller; without one, commands pass in no time.
    pub fn controller(mut self, name: &str) -> Result<MachineBuilder, ProfileError> {
        match load(name)? {
            Profile::Controller(profile) => self.controller = Some(*profile),
            other => return Err(other.wrong_kind("controller")),
        }
        Ok(self)
    }

    /// Adds `count` drives, disks or solid-state.
    pub fn drives(mut self, name: &str, count: usize) -> Result<MachineBuilder, ProfileError> {
        let bay = match load(name)? {
            Profile::Disk(profile) => Bay::Disk(profile),
            Profile::Ssd(profile) => Bay::Ssd(profile, self.ssd_state),
            other => return Err(other.wrong_kind("disk or ssd")),
        };
        self.bays.extend(std::iter::repeat_n(bay, count));
        Ok(self)
    }

    /// The controller's firmware, by its name in the controller's profile; none, as it is above them.
    pub fn firmware(mut self, name: &str) -> Result<MachineBuilder, ProfileError> {
        let needs = ProfileError::Option { option: "firmware", needs: "a controller" };
        let profile = self.controller.as_ref().ok_or(needs)?;
        let with = profile.with_firmware(name).ok_or_else(|| {
            let names: Vec<_> = profile.firmware.keys().map(|name| format!("'{name}'")).collect();
            let known = match names.is_empty() {
                true => "its profile has none".to_owned(),
                false => format!("it has {}", names.join(", ")),
            };
            let controller = profile.name.clone();
            ProfileError::Firmware { controller, name: name.to_owned(), known }
        })?;
        self.controller = Some(with);
        Ok(self)
    }

    /// Whether the RAID controller's cache answers writes; as its profile says, else.
    pub fn cache(mut self, policy: CachePolicy) -> Result<MachineBuilder, ProfileError> {
        self.needs_raid_controller("cache")?;
        self.options.cache = Some(policy);
        Ok(self)
    }

    /// How far the RAID controller reads ahead; as its profile says, else.
    pub fn read_ahead(mut self, size: ByteCount) -> Result<MachineBuilder, ProfileError> {
        self.needs_raid_controller("read_ahead")?;
        self.options.read_ahead = Some(size);
        Ok(self)
    }

    /// The size of the RAID controller's cache; as its profile says, else.
    pub fn cache_size(mut self, size: ByteCount) -> Result<MachineBuilder, ProfileError> {
        self.needs_raid_controller("controller_cache")?;
        self.options.cache_size = Some(size);
        Ok(self)
    }

    fn needs_raid_controller(&self, option: &'static str) -> Result<(), ProfileError> {
        if self.has_raid_controller() {
            return Ok(());
        }
        Err(ProfileError::Option { option, needs: "a RAID controller" })
    }

    fn has_raid_controller(&self) -> bool {
        self.controller.as_ref().is_some_and(|profile| profile.cache_mb.value > 0.0)
    }

    /// What becomes of flushes, at the RAID controller, or without one at the drives. Else a controller
    /// without battery honours them, and so do drives.
    pub fn flush(mut self, policy: FlushPolicy) -> MachineBuilder {
        self.options.flush = Some(policy);
        self
    }

    /// So many links of the profile side by side, 1 at the least. See the [module](self).
    pub fn channels(mut self, channels: usize) -> MachineBuilder {
        self.channels = channels.max(1);
        self
    }

    /// Turns the write caches of all hard disks on or off; else each is as its profile says.
    pub fn write_cache(mut self, on: bool) -> MachineBuilder {
        self.write_cache = Some(on);
        self
    }

    /// The state of the solid-state drives that are added from here on; empty, else.
    pub fn ssd_state(mut self, state: SsdState) -> MachineBuilder {
        self.ssd_state = state;
        self
    }

    /// Puts the machine together.
    pub fn build(self) -> Machine {
        let reactor = SimReactor::new(self.processor());
        let runtime = Runtime::new(Rc::clone(&reactor) as Rc<dyn rt::Reactor>);
        self.build_on(Rc::new(runtime), reactor)
    }

    /// Puts the machine together for one executor of a world, whose processor it has, whatever
    /// [`host`](MachineBuilder::host) says. The [world](World::run) runs it.
    ///
    /// # Panics
    /// Where the world has no such executor.
    pub fn build_in(self, world: &World, executor: usize) -> Machine {
        let (runtime, reactor) = world.executor(executor);
        self.build_on(runtime, reactor)
    }

    /// The processor of the host.
    pub fn processor(&self) -> Processor {
        self.host.as_ref().map_or_else(Processor::infinite, Processor::of_host)
    }

    fn build_on(self, runtime: Rc<Runtime>, reactor: Rc<SimReactor>) -> Machine {
        let rt = runtime.handle();
        let raid = self.has_raid_controller();
        let service = self.controller.as_ref().and_then(ControllerProfile::service);
        let with_options = |profile| Controller::with_options(&rt, profile, self.options);
        let controller = self.controller.as_ref().map(with_options);
        if let Some(engine) = self.controller.as_ref().and_then(Processor::of_controller) {
            reactor.set_engine(engine);
        }
        let back_end = self.controller.as_ref().and_then(|profile| profile.back_end_mb_s.as_ref());
        let back_end = back_end.map(|rate| Link::bus(&rt, rate.value));
        let habits = self.controller.as_ref().map(ControllerProfile::operations);
        let new_link = |_| self.link.as_ref().map(|profile| Link::new(&rt, profile));
        let links: Vec<Rc<Link>> = (0..self.channels).filter_map(new_link).collect();
        let (mut drives, mut devices) = (Vec::new(), Vec::new());
        for (index, bay) in self.bays.iter().enumerate() {
            let name = format!("disk{index}");
            let mut prng = Prng::for_part(self.seed, &name);
            let drive = match bay {
                Bay::Disk(profile) => {
                    let disk = Disk::new(&reactor, name, profile, &mut prng);
                    if let Some(on) = self.write_cache {
                        disk.set_write_cache(on);
                    }
                    Drive::Disk(disk)
                }
                Bay::Ssd(profile, state) => Drive::Ssd(Ssd::new(&reactor, name, profile, *state)),
            };
            let mut device = drive.device();
            if let Some(rate) = service {
                device = ServicedDevice::over(&rt, device, rate, &mut prng);
            }
            if let Some(back_end) = &back_end {
                device = back_end.attach(device);
            }
            if !raid {
                drive.ignore_flushes(self.options.flush == Some(FlushPolicy::Ignored));
                if let Some(controller) = &controller {
                    device = controller.attach(device);
                }
                if let (Some(profile), false) = (&self.link, links.is_empty()) {
                    let own = (!profile.shared.value).then(|| Link::new(&rt, profile));
                    device = own.as_ref().unwrap_or(&links[index % links.len()]).attach(device);
                }
            }
            drives.push(drive);
            devices.push(device);
        }
        let front = raid.then_some(controller).flatten();
        let habits = habits.filter(|_| raid).unwrap_or_default();
        let luns = self.controller.as_ref().and_then(|profile| profile.luns.as_ref());
        let luns_max = luns.filter(|_| raid).map(|luns| luns.value);
        Machine { runtime, reactor, drives, devices, front, links, habits, luns_max }
    }
}

/// A machine. See the [module](self).
pub struct Machine {
    runtime: Rc<Runtime>,
    reactor: Rc<SimReactor>,
    drives: Vec<Drive>,
    devices: Vec<DeviceRef>,
    front: Option<Rc<Controller>>,
    links: Vec<Rc<Link>>,
    habits: OperationHabits,
    luns_max: Option<u64>,
}

/// A volume as the host sees it, and the controller's cache in between, where there is one.
pub struct Front {
    /// What the host sees.
    pub device: DeviceRef,
    /// The cache.
    pub cache: Option<Rc<CachedDevice>>,
}

impl Machine {
    /// Begins a machine whose chance comes from this seed.
    pub fn builder(seed: u64) -> MachineBuilder {
        MachineBuilder {
            seed,
            host: None,
            link: None,
            controller: None,
            bays: Vec::new(),
            write_cache: None,
            ssd_state: SsdState::default(),
            options: ControllerOptions::default(),
            channels: 1,
        }
    }

    /// The handle that engines use.
    pub fn rt(&self) -> Rt {
        self.runtime.handle()
    }

    /// The reactor, for devices made by hand.
    pub fn reactor(&self) -> &Rc<SimReactor> {
        &self.reactor
    }

    /// The drives as the engine sees them.
    pub fn devices(&self) -> &[DeviceRef] {
        &self.devices
    }

    /// The drives themselves.
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// Whether the engine runs in a RAID controller rather than on the host.
    pub fn has_raid_controller(&self) -> bool {
        self.front.is_some()
    }

    /// How the RAID controller initialises, clones and rebuilds; as the engine does by itself without one.
    pub fn operation_habits(&self) -> OperationHabits {
        self.habits
    }

    /// LUNs that the RAID controller shows its hosts at the most, where its profile says.
    pub fn luns_max(&self) -> Option<u64> {
        self.luns_max
    }

    /// An engine's volume as the host sees it: behind the cache of a RAID controller and the link; the
    /// volume itself on a machine without a RAID controller.
    pub fn front(&self, volume: DeviceRef) -> Front {
        self.front_of(volume, 0, 1)
    }

    /// The same for one LUN of several: this one of so many.
    ///
    /// # Panics
    /// If `luns` is 0.
    pub fn front_of(&self, volume: DeviceRef, lun: usize, luns: usize) -> Front {
        let Some(controller) = &self.front else { return Front { device: volume, cache: None } };
        let cache = controller.cached_share(volume, luns as u64);
        let mut device = Rc::clone(&cache) as DeviceRef;
        if !self.links.is_empty() {
            device = self.links[lun % self.links.len()].attach(device);
        }
        Front { device, cache: Some(cache) }
    }

    /// Runs a future to its end, in virtual time.
    ///
    /// # Errors
    /// [`Stalled`] when it can never end.
    pub fn run<F>(&self, future: F) -> Result<F::Output, Stalled>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.runtime.block_on(future)
    }
}

#[cfg(test)]
mod tests;
