//! What a running set is asked for, carried out where it runs.
//!
//! Devices are found by the file that a path leads to, as the members were when the set was opened or they came: the
//! client may know them by other paths. One that leads nowhere any more is found by the path itself.
//!
//! Devices come and go one request after another, and never while the caretaker takes a spare. `check` and `repair` wait
//! for a resync or rebuild under way, and there is one of them at a time.

use super::super::{create, members};
use super::caretaker::Caretaker;
use super::control::Said;
use super::protocol::{
    Ask, Failed, Findings, Joined, Left, Marked, Numbers, Picture, Pictured, doing,
};
use crate::commands::Failure;
use crate::serve::Told;
use ::md::assemble::{self, Found};
use ::md::live::{DeviceReport, LiveArray, LiveError};
use ::md::superblock::Uuid;
use ::md::{MemberState, SyncPriority};
use host::{FileDevice, FileOptions, Host, Identity, OpenError};
use rt::sync::oneshot;
use rt::{DeviceRef, Rt, Task};
use serde::Serialize;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// A device of the set, and the file that it is.
#[derive(Clone)]
struct Known {
    name: Arc<str>,
    path: PathBuf,
    identity: Option<Numbers>,
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
    known: RefCell<Vec<Known>>,
    ends: Option<Arc<Told>>,
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
        host: &Host,
        rt: &Rt,
        set: Rc<LiveArray>,
        caretaker: Rc<Caretaker>,
        ends: Option<&Arc<Told>>,
    ) -> Rc<Served> {
        let known = set.devices().into_iter().map(|device| Known::at(device.name)).collect();
        Rc::new(Served {
            name: set.device().name(),
            set,
            rt: rt.clone(),
            caretaker,
            host: host.clone(),
            known: RefCell::new(known),
            ends: ends.cloned(),
            checks: Cell::new(false),
            stopping: RefCell::default(),
            work: RefCell::default(),
        })
    }

    /// Whether these are devices of the set.
    pub fn has(&self, devices: &[Numbers]) -> bool {
        let known = self.known.borrow();
        let is_ours = |device: &Numbers| known.iter().any(|one| one.identity == Some(*device));
        !devices.is_empty() && devices.iter().all(is_ours)
    }

    /// Keeps what was begun, for [`Served::end`].
    pub fn began(&self, task: Task<()>) {
        let mut work = self.work.borrow_mut();
        work.retain(|task| !task.is_finished());
        work.push(task);
    }

    /// Nothing of what was begun goes on, but devices that come or go have come or gone.
    pub async fn end(&self) {
        let _alone = self.caretaker.devices.lock().await;
        drop(self.work.take());
    }

    /// The set was stopped, or could not be.
    pub fn stopped(&self, result: &Result<(), Failure>) {
        for waiting in self.stopping.take() {
            let told = match result {
                Ok(()) => Ok(()),
                Err(failure) => Err(failure.message.clone()),
            };
            // Who waited may be gone.
            let _ = waiting.send(told);
        }
    }

    /// Does what is asked.
    ///
    /// # Errors
    /// With the line to print.
    pub async fn carry_out(&self, ask: Ask, said: &Said) -> Result<Value, Failure> {
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
            Ask::Stop => told(&self.stop().await?),
        }
    }

    fn picture(&self) -> Picture {
        let known = self.known.borrow();
        let pictured = |report: &DeviceReport| {
            let own = known.iter().find(|one| one.name == report.name);
            let path = own.map_or_else(|| PathBuf::from(&*report.name), |own| own.path.clone());
            Pictured::of(report, path, own.and_then(|own| own.identity))
        };
        Picture {
            devices: self.set.devices().iter().map(pictured).collect(),
            under_way: self.set.under_way().map(doing),
            failed: self.set.has_failed(),
        }
    }

    /// The device of the set that a path leads to.
    fn device_at(&self, path: &Path) -> Option<DeviceReport> {
        let (file, known) = (numbers(path), self.known.borrow());
        let is_file = |one: &&Known| file.is_some() && one.identity == file;
        // Another file may lie there now.
        let was_there = |one: &&Known| one.path == path;
        let own = known.iter().find(is_file).or_else(|| known.iter().find(was_there))?;
        let name = Arc::clone(&own.name);
        self.set.devices().into_iter().find(|device| device.name == name)
    }

    async fn fail(&self, path: &Path) -> Result<Failed, Failure> {
        let _alone = self.caretaker.devices.lock().await;
        let device = self.device_at(path).filter(|one| one.state != MemberState::Failed);
        let none =
            || Failure::usage(format!("{}: it is no working device of the set", path.display()));
        let device = device.ok_or_else(none)?;
        self.set.fail_number(device.number).await.map_err(Failure::failed)?;
        Ok(Failed { slot: device.slot })
    }

    async fn add(
        &self,
        paths: &[PathBuf],
        re_add: bool,
        force: bool,
        said: &Said,
    ) -> Result<Joined, Failure> {
        let _alone = self.caretaker.devices.lock().await;
        // All of them before the first one joins.
        for (n, path) in paths.iter().enumerate() {
            create::check_distinct(path, paths[..n].iter().map(|other| other.as_path()))?;
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
            let added = self.set.add(device, found, uuid).await.map_err(Failure::failed)?;
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
    async fn look_at(&self, path: &Path, force: bool) -> Result<(), Failure> {
        let usage = |text: &str| Failure::usage(format!("{}: {text}", path.display()));
        let own = self.device_at(path);
        if own.as_ref().is_some_and(|own| own.state != MemberState::Failed) {
            return Err(usage("it is a device of the set already"));
        }
        if own.as_ref().is_some_and(|own| own.is_journal) {
            return Err(usage("it was the set's journal: stop the server to make it one anew"));
        }
        let options = FileOptions { direct: false, read_only: true };
        let device = FileDevice::open(&self.host, path, options).map_err(Failure::failed)?;
        // Opening it for writing would wait for whoever holds it, and every client of the set with it. One that the set
        // lost is open here.
        if own.is_none() && device.is_written_elsewhere() {
            return Err(Failure::failed(OpenError::Locked(path.into())));
        }
        let device: DeviceRef = Rc::new(device);
        let (capacity, needed) = (device.geometry().capacity, self.set.bytes_needed());
        let needed = needed.map_err(Failure::failed)?;
        if capacity < needed {
            let device = path.display().to_string();
            return Err(Failure::failed(LiveError::TooSmall { device, capacity, needed }));
        }
        match self.found_on(&device).await {
            None => create::check_expendable(path, force)?,
            Some(found) if !force && self.set.has_gone_on(&found) => {
                return Err(members::gone_on(&path.display().to_string()));
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
    async fn open(&self, path: &Path) -> Result<Joining, Failure> {
        if let Some(own) = self.device_at(path) {
            self.set.remove_number(own.number).await.map_err(Failure::failed)?;
            self.known.borrow_mut().retain(|known| known.name != own.name);
        }
        let options = FileOptions { direct: false, read_only: false };
        let opened = FileDevice::open(&self.host, path, options).map_err(Failure::failed)?;
        let device: DeviceRef = Rc::new(opened);
        let found = self.found_on(&device).await;
        let known = Known::at(device.name());
        Ok(Joining { device, found, uuid: create::random()?, known })
    }

    async fn remove(&self, paths: &[PathBuf], failed: bool) -> Result<Left, Failure> {
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
            self.set.remove_number(number).await.map_err(Failure::failed)?;
            let Some(own) = own else { continue };
            let mut known = self.known.borrow_mut();
            let own = known.iter().position(|known| known.name == own.name);
            left.extend(own.map(|place| known.remove(place)).map(|one| (one.path, one.identity)));
        }
        for found in strangers {
            self.set.remove(&found).await.map_err(Failure::failed)?;
            let known = Known::at(found.device.name());
            left.push((known.path, known.identity));
        }
        Ok(Left { devices: left })
    }

    /// A device that was left out when the set was opened.
    async fn left_out(&self, path: &Path) -> Result<Found, Failure> {
        let options = FileOptions { direct: false, read_only: true };
        let opened = FileDevice::open(&self.host, path, options).map_err(Failure::usage)?;
        let found = assemble::find(&(Rc::new(opened) as DeviceRef)).await;
        let found = found.map_err(Failure::failed)?;
        let found = found.filter(|one| one.superblock.set_uuid() == self.set.uuid());
        let none = || Failure::usage(format!("{}: it is no device of the set", path.display()));
        found.ok_or_else(none)
    }

    async fn replace(&self, path: &Path, with: Option<&Path>) -> Result<Marked, Failure> {
        let _alone = self.caretaker.devices.lock().await;
        let slot = self.device_at(path).and_then(|one| one.slot);
        let none = || Failure::usage(format!("{}: it holds no slot of the set", path.display()));
        let slot = slot.ok_or_else(none)?;
        let spare = match with {
            None => None,
            Some(with) => {
                let spare = self.device_at(with).filter(|one| one.state == MemberState::Spare);
                let none = || Failure::usage(format!("{}: it is no spare: add it", with.display()));
                Some(spare.ok_or_else(none)?.name)
            }
        };
        self.set.begin_replace(slot, spare.as_deref()).await.map_err(Failure::failed)?;
        self.caretaker.look_again();
        Ok(Marked { slot })
    }

    async fn check(&self, mends: bool, said: &Said) -> Result<Findings, Failure> {
        if self.checks.replace(true) {
            let text = "a check or repair is under way: wait for it (spindle md detail)";
            return Err(Failure::failed(format!("{}: {text}", self.name)));
        }
        let _ends = Checks(&self.checks);
        if self.caretaker.is_busy() {
            said.say(&format!("spindle: {}: waiting until it is whole", self.name));
            self.caretaker.idle().await;
        }
        let (array, priority) = (self.set.array(), SyncPriority::Normal);
        let report = match mends {
            true => self.set.repair(priority).await.map_err(Failure::failed)?,
            false => array.check(array.whole(), priority).await.map_err(Failure::failed)?,
        };
        Ok(Findings::from(&report))
    }

    async fn stop(&self) -> Result<(), Failure> {
        let Some(ends) = &self.ends else {
            let text = "its server serves other things too: end it with SIGTERM";
            return Err(Failure::failed(format!("{}: {text}", self.name)));
        };
        let (waiting, end) = oneshot::channel();
        self.stopping.borrow_mut().push(waiting);
        ends.tell();
        match end.await {
            Ok(result) => result.map_err(Failure::failed),
            Err(_) => Err(Failure::failed(format!("{}: its server ended", self.name))),
        }
    }
}

impl Known {
    /// The device of this name, which is a path.
    fn at(name: Arc<str>) -> Known {
        let path = Path::new(&*name);
        let resolved = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        let resolved = resolved.unwrap_or_else(|_| path.to_owned());
        Known { identity: numbers(path), path: resolved, name }
    }
}

/// No check is under way when this is dropped.
struct Checks<'a>(&'a Cell<bool>);

impl Drop for Checks<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// What tells the file at a path from others; none where none is there.
fn numbers(path: &Path) -> Option<Numbers> {
    Identity::of(path).ok().map(Identity::numbers)
}

fn told(result: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(Failure::failed)
}
