//! What a running set is asked for, carried out where it runs.
//!
//! Devices are found by the file that a path leads to, as the members were when the set was opened or they came: the
//! client may know them by other paths, and the partition of it, where it is one. One that leads nowhere any more is found by the path
//! itself.
//!
//! Devices come and go one request after another, and never while the caretaker takes a spare. `check` and `repair` wait
//! for a resync or rebuild under way, and there is one of them at a time. `stop` is refused while clients have the set open,
//! as mdadm refuses it, unless it is forced.

use super::caretaker::Caretaker;
use super::protocol::{Ask, Failed, Findings, Joined, Left, Marked, Picture, Pictured, doing};
use crate::context::Context;
use crate::control::message::Numbers;
use crate::control::server::{Said, Service};
use crate::ending::Ending;
use crate::error::Error;
use crate::event::Events;
use crate::expendable::{check_distinct, check_expendable};
use crate::paths::absolute;
use crate::random;
use crate::sets::missing;
use crate::sets::place::{Place, file_of, whole_of};
use crate::sets::sources::partition_on;
use ::md::assemble::{self, Found};
use ::md::live::{DeviceReport, LiveArray, LiveError};
use ::md::superblock::Uuid;
use ::md::{MemberState, SyncPriority};
use host::{FileDevice, FileOptions, Host, OpenError};
use rt::sync::oneshot;
use rt::{DeviceRef, Rt, Task};
use serde::Serialize;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long clients are given to go, in steps of [`BUSY_REST`], before a stop is refused: one that has just closed its
/// connection is seen to be gone some milliseconds later. mdadm waits, too.
const BUSY_TRIES_MAX: u32 = 20;
const BUSY_REST: Duration = Duration::from_millis(50);

/// A device of the set, and the file that it is.
#[derive(Clone)]
struct Known {
    name: Arc<str>,
    path: PathBuf,
    place: Option<Place>,
}

/// A device that is to join.
struct Joining {
    device: DeviceRef,
    /// What md wrote on it, where it was of this set.
    found: Option<Found>,
    uuid: Uuid,
    known: Known,
}

/// A set that runs, as requests see it.
pub struct Served {
    /// The set.
    pub set: Rc<LiveArray>,
    /// Its name, for messages.
    pub name: Arc<str>,
    /// Where it runs.
    pub rt: Rt,
    /// Who makes it whole.
    pub caretaker: Rc<Caretaker>,
    host: Host,
    events: Events,
    known: RefCell<Vec<Known>>,
    ends: Option<Rc<Ending>>,
    /// A check or repair is under way.
    checks: Cell<bool>,
    /// Who waits for the set to be stopped.
    stopping: RefCell<Vec<oneshot::Sender<Result<(), String>>>>,
    /// What was begun and has not ended.
    work: RefCell<Vec<Task<()>>>,
}

impl Served {
    /// A set whose tasks begin now.
    pub fn new(
        context: &Context,
        rt: &Rt,
        set: Rc<LiveArray>,
        caretaker: Rc<Caretaker>,
        ends: Option<&Rc<Ending>>,
    ) -> Rc<Served> {
        let known = set.devices().into_iter().map(|device| Known::at(device.name)).collect();
        Rc::new(Served {
            name: set.device().name(),
            set,
            rt: rt.clone(),
            caretaker,
            host: context.host(),
            events: context.events().clone(),
            known: RefCell::new(known),
            ends: ends.cloned(),
            checks: Cell::new(false),
            stopping: RefCell::default(),
            work: RefCell::default(),
        })
    }

    /// Nothing of what was begun goes on, but devices that come or go have come or gone.
    pub async fn end(&self) {
        let _alone = self.caretaker.devices.lock().await;
        drop(self.work.take());
    }

    /// The set was stopped, or could not be.
    pub fn stopped(&self, result: &Result<(), Error>) {
        for waiting in self.stopping.take() {
            let told = match result {
                Ok(()) => Ok(()),
                Err(error) => Err(error.to_string()),
            };
            // Who waited may be gone.
            let _ = waiting.send(told);
        }
    }

    fn picture(&self) -> Picture {
        let known = self.known.borrow();
        let pictured = |report: &DeviceReport| {
            let own = known.iter().find(|one| one.name == report.name);
            let path = own.map_or_else(|| PathBuf::from(&*report.name), |own| own.path.clone());
            Pictured::of(report, path, own.and_then(Known::file))
        };
        Picture {
            devices: self.set.devices().iter().map(pictured).collect(),
            under_way: self.set.under_way().map(doing),
            failed: self.set.has_failed(),
            process: Some(std::process::id()),
        }
    }

    /// The device of the set that a path leads to.
    fn device_at(&self, path: &Path) -> Option<DeviceReport> {
        let (place, known) = (Place::of(path), self.known.borrow());
        let is_it = |one: &&Known| place.is_some() && one.place == place;
        // Another file may lie there now.
        let was_there = |one: &&Known| one.path == path;
        let own = known.iter().find(is_it).or_else(|| known.iter().find(was_there))?;
        let name = Arc::clone(&own.name);
        self.set.devices().into_iter().find(|device| device.name == name)
    }

    async fn fail(&self, path: &Path) -> Result<Failed, Error> {
        let _alone = self.caretaker.devices.lock().await;
        let device = match self.device_at(path) {
            Some(device) if device.state != MemberState::Failed => device,
            Some(_) => return Err(Error::FailedAlready { path: path.into() }),
            None => return Err(missing::not_working(path)),
        };
        self.set.fail_number(device.number).await?;
        Ok(Failed { slot: device.slot })
    }

    async fn add(
        &self,
        paths: &[PathBuf],
        re_add: bool,
        force: bool,
        said: &Said,
    ) -> Result<Joined, Error> {
        let _alone = self.caretaker.devices.lock().await;
        // All of them before the first one joins.
        for (n, path) in paths.iter().enumerate() {
            check_distinct(path, paths[..n].iter().map(|other| other.as_path()))?;
            self.look_at(path, force).await?;
        }
        let mut devices = Vec::new();
        for path in paths {
            let Joining { device, found, uuid, known } = self.open(path).await?;
            let back = found.as_ref().and_then(|found| self.set.can_come_back(found));
            if back.is_none() && re_add {
                devices.push(None);
                continue;
            }
            // Known before it stands anywhere: it may fail at once.
            self.known.borrow_mut().push(known);
            let added = self.set.add(device, found, uuid).await?;
            devices.push(Some(added.into()));
        }
        self.caretaker.look_again();
        if !self.set.needs_rebuild().is_empty() {
            said.say(&format!(
                "spindle: {}: its server rebuilds it; spindle md detail shows how far it is",
                self.name
            ));
        }
        Ok(Joined { devices })
    }

    /// Refuses a device that can't join. Nothing is changed.
    async fn look_at(&self, path: &Path, force: bool) -> Result<(), Error> {
        let own = self.device_at(path);
        if own.as_ref().is_some_and(|own| own.state != MemberState::Failed) {
            return Err(Error::AlreadyOfSet { path: path.into() });
        }
        if own.as_ref().is_some_and(|own| own.is_journal) {
            return Err(Error::WasJournal { path: path.into() });
        }
        if let Some(whole) = whole_of(path) {
            return Err(Error::JoinsServed { path: path.into(), whole });
        }
        let options = FileOptions { direct: false, read_only: true };
        let device = FileDevice::open(&self.host, path, options)?;
        // Opening it for writing would wait for whoever holds it, and every client of the set with it. One that the set
        // lost is open here.
        if own.is_none() && device.is_written_elsewhere() {
            return Err(OpenError::Locked(path.into()).into());
        }
        let device: DeviceRef = Rc::new(device);
        let (capacity, needed) = (device.geometry().capacity, self.set.bytes_needed());
        let needed = needed?;
        if capacity < needed {
            let device = path.display().to_string();
            return Err(LiveError::TooSmall { device, capacity, needed }.into());
        }
        match self.found_on(&device).await {
            None => check_expendable(path, force)?,
            Some(found) if !force && self.set.has_gone_on(&found) => {
                return Err(Error::GoneOn { device: path.display().to_string() });
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// What md wrote on a device, where it was of this set. What can't be read as a member is none.
    async fn found_on(&self, device: &DeviceRef) -> Option<Found> {
        let found = assemble::find(device).await.ok().flatten();
        found.filter(|one| one.superblock.set_uuid() == self.set.uuid())
    }

    /// Opens a device that is to join. One that the set lost is forgotten first: it is open here until then.
    async fn open(&self, path: &Path) -> Result<Joining, Error> {
        if let Some(own) = self.device_at(path) {
            self.set.remove_number(own.number).await?;
            self.known.borrow_mut().retain(|known| known.name != own.name);
        }
        let options = FileOptions { direct: false, read_only: false };
        let opened = FileDevice::open(&self.host, path, options)?;
        let device: DeviceRef = Rc::new(opened);
        let found = self.found_on(&device).await;
        let known = Known::at(device.name());
        Ok(Joining { device, found, uuid: random::uuid()?, known })
    }

    async fn remove(&self, paths: &[PathBuf], failed: bool) -> Result<Left, Error> {
        let _alone = self.caretaker.devices.lock().await;
        let (mut numbers, mut strangers) = (Vec::new(), Vec::new());
        for path in paths {
            match self.device_at(path) {
                Some(own) => numbers.push(own.number),
                None => strangers.push(self.left_out(path).await?),
            }
        }
        if failed {
            let lost = self.set.devices().into_iter();
            numbers
                .extend(lost.filter(|one| one.state == MemberState::Failed).map(|one| one.number));
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut left = Vec::new();
        for number in numbers {
            let own = self.set.devices().into_iter().find(|one| one.number == number);
            self.set.remove_number(number).await?;
            let Some(own) = own else { continue };
            let mut known = self.known.borrow_mut();
            let own = known.iter().position(|known| known.name == own.name);
            left.extend(own.map(|place| known.remove(place)).map(Known::left));
        }
        for found in strangers {
            self.set.remove(&found).await?;
            let known = Known::at(found.device.name());
            left.push(known.left());
        }
        Ok(Left { devices: left })
    }

    /// A device that was left out when the set was opened.
    async fn left_out(&self, path: &Path) -> Result<Found, Error> {
        let options = FileOptions { direct: false, read_only: true };
        let opened = FileDevice::open(&self.host, &file_of(path), options).map_err(Error::Named)?;
        let mut device: DeviceRef = Rc::new(opened);
        if whole_of(path).is_some() {
            device = partition_on(&device, path).await?.device;
        }
        let found = assemble::find(&device).await;
        let found = found?.filter(|one| one.superblock.set_uuid() == self.set.uuid());
        found.ok_or_else(|| Error::NotOfSet { path: path.into() })
    }

    async fn replace(&self, path: &Path, with: Option<&Path>) -> Result<Marked, Error> {
        let _alone = self.caretaker.devices.lock().await;
        let slot = self.device_at(path).and_then(|one| one.slot);
        let slot = slot.ok_or_else(|| Error::NoSlot { path: path.into() })?;
        let spare = match with {
            None => None,
            Some(with) => {
                let spare = self.device_at(with).filter(|one| one.state == MemberState::Spare);
                Some(spare.ok_or_else(|| Error::NoSpare { path: with.into() })?.name)
            }
        };
        self.set.begin_replace(slot, spare.as_deref()).await?;
        self.caretaker.look_again();
        Ok(Marked { slot })
    }

    async fn check(&self, mends: bool, said: &Said) -> Result<Findings, Error> {
        if self.checks.replace(true) {
            return Err(Error::CheckUnderWay { set: self.name.to_string() });
        }
        let _ends = Checks(&self.checks);
        if self.caretaker.is_busy() {
            said.say(&format!("spindle: {}: waiting until it is whole", self.name));
            self.caretaker.idle().await;
        }
        let (array, priority) = (self.set.array(), SyncPriority::Normal);
        let report = match mends {
            true => self.set.repair(priority).await?,
            false => array.check(array.whole(), priority).await?,
        };
        Ok(Findings::from(&report))
    }

    async fn stop(&self, force: bool) -> Result<(), Error> {
        let set = || self.name.to_string();
        let ends = self.ends.as_ref().ok_or_else(|| Error::ServesOthers { set: set() })?;
        let mut tries = 0;
        while !force && ends.clients() > 0 {
            if tries == BUSY_TRIES_MAX {
                return Err(Error::Busy { set: set(), clients: ends.clients() });
            }
            tries += 1;
            self.rt.sleep(BUSY_REST).await;
        }
        let (waiting, end) = oneshot::channel();
        self.stopping.borrow_mut().push(waiting);
        ends.tell();
        match end.await {
            Ok(result) => result.map_err(Error::NotStopped),
            Err(_) => Err(Error::ServerEnded { set: set() }),
        }
    }
}

impl Service for Served {
    type Ask = Ask;

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn rt(&self) -> &Rt {
        &self.rt
    }

    fn events(&self) -> &Events {
        &self.events
    }

    fn has(&self, devices: &[Numbers]) -> bool {
        let known = self.known.borrow();
        let lies_on = |one: &Known| one.place.map(|place| place.on.numbers());
        let is_ours = |device: &Numbers| known.iter().any(|one| lies_on(one) == Some(*device));
        !devices.is_empty() && devices.iter().all(is_ours)
    }

    fn ends(&self, ask: &Ask) -> bool {
        matches!(ask, Ask::Stop { .. })
    }

    async fn carry_out(self: Rc<Self>, ask: Ask, said: &Said) -> Result<Value, Error> {
        let done = self.answer(ask, said).await;
        done.map_err(|error| error.naming(self.set.uuid(), &self.name))
    }

    /// Kept for [`Served::end`].
    fn began(&self, task: Task<()>) {
        let mut work = self.work.borrow_mut();
        work.retain(|task| !task.is_finished());
        work.push(task);
    }
}

impl Served {
    async fn answer(&self, ask: Ask, said: &Said) -> Result<Value, Error> {
        match ask {
            Ask::Detail => told(&self.picture()),
            Ask::Fail { device } => told(&self.fail(&device).await?),
            Ask::Add { devices, re_add, force } => {
                told(&self.add(&devices, re_add, force, said).await?)
            }
            Ask::Remove { devices, failed } => told(&self.remove(&devices, failed).await?),
            Ask::Replace { device, with } => told(&self.replace(&device, with.as_deref()).await?),
            Ask::Check => told(&self.check(false, said).await?),
            Ask::Repair => told(&self.check(true, said).await?),
            Ask::Stop { force } => told(&self.stop(force).await?),
        }
    }
}

impl Known {
    /// The device of this name, which is a path.
    fn at(name: Arc<str>) -> Known {
        let path = Path::new(&*name);
        Known { place: Place::of(path), path: absolute(path), name }
    }

    /// The file that it is; none where it is a part of one.
    fn file(&self) -> Option<Numbers> {
        self.place.filter(|place| place.partition.is_none()).map(|place| place.on.numbers())
    }

    /// As who left is told.
    fn left(self) -> (PathBuf, Option<Numbers>) {
        let file = self.file();
        (self.path, file)
    }
}

/// No check is under way when this is dropped.
struct Checks<'a>(&'a Cell<bool>);

impl Drop for Checks<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn told(result: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(Error::NoRequest)
}
