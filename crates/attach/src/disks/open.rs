//! What lies on the devices, looked for and opened.
//!
//! What can't be read or put together is a complaint, and the rest is there all the same.
//!
//! **Writing.** All is opened for reading, but what lies below the volumes that are to be written ([`Disks::open_for`]):
//! that is found by a first look, and then opened for writing, files and sets alike. So a set that is written is open once, whatever
//! lies on it. It is stopped cleanly by whoever [takes](Disks::take_live) it or [stops](Disks::stop) it, and else when the disks are
//! dropped: what was written to it has to have ended by then.
//!
//! **By force.** A set that can only be put together by force is refused, and looked into where that is wanted
//! ([`Disks::open_by_force`]): for reading alone.

use super::arrays::{self, Array, Arrays, Refused};
use super::remote::{Remote, written_unreached};
use super::wanted::{Writing, Written};
use super::whole::Whole;
use crate::context::Context;
use crate::error::Error;
use crate::event::{Event, Events};
use crate::paths::{expand, named};
use crate::sets::place::file_of;
use crate::sets::{name, sources};
use crate::uri::{Uri, is_uri};
use ::md::assemble::{self, Found};
use ::md::live::LiveArray;
use host::identity::overlap;
use host::{FileDevice, FileOptions, Identity, OpenError};
use rt::DeviceRef;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use volume::lvm::{self, Group, Lacking, Lacks};
use volume::partition::{self, Partition, Table};

/// A partition of a device.
pub struct Part {
    /// The name of that device.
    pub of: String,
    /// Which device that is.
    pub on: Whole,
    /// Which kind of table says so.
    pub form: &'static str,
    /// Which partition.
    pub partition: Partition,
    /// The partition as a device.
    pub device: DeviceRef,
}

impl Part {
    /// Whether it lies on a file or block device itself.
    pub fn is_on_file(&self) -> bool {
        matches!(self.on, Whole::File(_))
    }

    /// What of it the end of its disk cuts off.
    pub fn lacking(&self) -> Option<Lacking> {
        let (there, all) = (self.partition.len.bytes(), self.partition.cut?.bytes());
        let why = Lacks::CutShort(self.of.clone());
        Some(Lacking { why, bytes: all - there, within: there..all })
    }
}

/// What a device is that is not put together here.
pub(super) enum Base {
    /// A file or block device.
    File(Rc<FileDevice>),
    /// An export of an NBD server, and the device that it is here: under a cover another.
    Remote(Rc<Remote>, DeviceRef),
}

impl Base {
    fn open(context: &Context, path: &Path, read_only: bool) -> Result<Base, Error> {
        if is_uri(path) {
            let remote = Rc::new(Remote::open(context, path, read_only)?);
            let device = context.host().covered(Rc::clone(&remote) as DeviceRef);
            return Ok(Base::Remote(remote, device));
        }
        let options = FileOptions { direct: false, read_only };
        let device = FileDevice::open(&context.host(), path, options).map_err(Error::Named)?;
        Ok(Base::File(Rc::new(device)))
    }

    fn device(&self) -> DeviceRef {
        match self {
            Base::File(file) => Rc::clone(file) as DeviceRef,
            Base::Remote(_, device) => Rc::clone(device),
        }
    }

    /// What has the locks for it.
    fn locked(&self) -> Option<&FileDevice> {
        match self {
            Base::File(file) => Some(file),
            Base::Remote(remote, _) => remote.lock(),
        }
    }

    /// Where that lies.
    pub(super) fn locked_path(&self) -> Option<PathBuf> {
        match self {
            Base::File(file) => Some(PathBuf::from(&*rt::Device::name(&**file))),
            Base::Remote(remote, _) => remote.lock_path().map(Path::to_owned),
        }
    }

    /// Whether it was [closed](Disks::close).
    pub(super) fn is_closed(&self) -> bool {
        self.locked().is_some_and(FileDevice::is_closed)
    }

    pub(super) fn keep_writers_off(&self) -> bool {
        self.locked().is_none_or(FileDevice::keep_writers_off)
    }

    fn is_written_elsewhere(&self) -> bool {
        self.locked().is_some_and(FileDevice::is_written_elsewhere)
    }
}

/// See the [module](self).
pub struct Disks {
    context: Rc<Context>,
    /// The files, block devices and exports themselves.
    pub files: Vec<DeviceRef>,
    /// The same, each with whether it is open for writing.
    pub(super) opened: Vec<(Base, bool)>,
    /// RAID sets.
    pub arrays: Vec<Array>,
    /// Sets that can't be opened.
    pub(super) refused: Vec<Refused>,
    /// The sets that are open for writing, and that nobody took.
    live: RefCell<Vec<Rc<LiveArray>>>,
    /// Those that somebody took.
    taken: RefCell<Vec<Weak<LiveArray>>>,
    /// Partitions.
    pub parts: Vec<Part>,
    /// Volume groups.
    pub groups: Vec<Group>,
    /// Physical volumes of which no group is known.
    pub apart: Vec<lvm::Found>,
    /// Devices that bear a physical volume of another that lies on them, each with that one.
    pub(super) beneath: Vec<(DeviceRef, DeviceRef)>,
    /// Whether there are, or were, groups or changes of them that can't be had: why is among the complaints.
    pub lacks_groups: bool,
    /// What could not be had, and why; but for sets.
    pub complaints: Vec<String>,
    /// Why sets could not be had, and how these devices are looked at all the same.
    of_refused: Vec<String>,
    /// Files that another process writes: as they were named, and what stands for them in [`Pools::paths_of`](crate::pools::Pools::paths_of).
    pub(crate) elsewhere: Vec<(PathBuf, PathBuf)>,
    /// What stands for exports that can't be reached, and that another process writes.
    pub(crate) unreached: Vec<PathBuf>,
    /// Folders below those that were named: nothing was looked for in them.
    unsearched: Vec<PathBuf>,
}

/// Bytes of the smallest file of a folder that may be a disk: less has no room for what marks one, and lies there
/// for another reason (a list of checksums, a key).
const DISK_BYTES_MIN: u64 = 64 << 10;
/// Folders that are named as not searched.
const FOLDERS_MAX: usize = 8;

fn is_too_small(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() < DISK_BYTES_MIN)
}

/// The folders in a folder, by name; none in a file.
fn folders_in(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path.is_dir()).take(FOLDERS_MAX).collect();
    folders.sort_unstable();
    folders
}

impl Disks {
    /// The files and block devices themselves: nothing may be written over them.
    pub fn identities(&self) -> BTreeSet<Identity> {
        self.files.iter().filter_map(|file| Identity::of(Path::new(&*file.name())).ok()).collect()
    }

    /// Whether a write to what lies at this path would change one of the files or block devices.
    pub fn lies_under(&self, path: &Path) -> bool {
        self.files.iter().any(|file| overlap(Path::new(&*file.name()), path))
    }

    /// The files alone, not looked at.
    ///
    /// # Errors
    /// Where one can't be opened.
    pub fn open_files(events: &Events, paths: &[PathBuf], read_only: bool) -> Result<Disks, Error> {
        let mut disks = Disks::none(Rc::new(Context::new(events)?));
        for path in paths {
            let base = Base::open(&disks.context, path, read_only)?;
            disks.add_base(base, !read_only);
        }
        Ok(disks)
    }

    fn none(context: Rc<Context>) -> Disks {
        let (files, opened, arrays, refused, live, taken) = Default::default();
        let (parts, groups, apart, beneath, lacks_groups) = Default::default();
        let (complaints, of_refused) = Default::default();
        let (elsewhere, unreached, unsearched) = Default::default();
        Disks {
            context,
            files,
            opened,
            arrays,
            refused,
            live,
            taken,
            parts,
            groups,
            apart,
            beneath,
            lacks_groups,
            complaints,
            of_refused,
            elsewhere,
            unreached,
            unsearched,
        }
    }

    fn add_base(&mut self, base: Base, is_written: bool) {
        self.files.push(base.device());
        self.opened.push((base, is_written));
    }

    /// The files, the folders' files, and all that lies on them, for reading.
    ///
    /// # Errors
    /// Where there are none, or one that was named can't be opened.
    pub fn open(events: &Events, paths: &[PathBuf]) -> Result<Disks, Error> {
        Disks::open_where(events, paths, &Writing::default())
    }

    /// The same, and where that is wanted also the sets that can only be put together by force.
    ///
    /// # Errors
    /// As [`Disks::open`].
    pub fn open_by_force(
        events: &Events,
        paths: &[PathBuf],
        by_force: bool,
    ) -> Result<Disks, Error> {
        Disks::open_where(events, paths, &Writing::nothing(by_force))
    }

    /// The same, for writing to what these volumes lie on, to what is said besides, and to nothing else: whoever writes to another file
    /// of the folders keeps it, and it is not kept from anybody. A set that can't be written is opened for reading, and
    /// [`Disks::volume`] says why.
    ///
    /// # Errors
    /// As [`Disks::open`], and where a file that is to be written can't be.
    pub fn open_for(
        events: &Events,
        paths: &[PathBuf],
        volumes: &[Written],
        besides: Writing,
    ) -> Result<Disks, Error> {
        let found = Disks::open(events, paths)?;
        let mut writing = besides;
        found.add_written(volumes, &mut writing)?;
        if writing.is_nothing() {
            return Ok(found);
        }
        drop(found);
        Disks::open_where(events, paths, &writing)
    }

    /// The same for reading on the executor of other disks, for what lies there beside them.
    ///
    /// # Errors
    /// As [`Disks::open`].
    pub fn open_beside(context: &Rc<Context>, paths: &[PathBuf]) -> Result<Disks, Error> {
        Disks::open_on(context, paths, &Writing::default())
    }

    /// Closed, and opened again for writing to what these volumes lie on.
    ///
    /// # Errors
    /// As [`Disks::open_for`].
    pub fn again_for(self, paths: &[PathBuf], volumes: &[Written]) -> Result<Disks, Error> {
        let mut writing = Writing::default();
        self.add_written(volumes, &mut writing)?;
        let context = Rc::clone(&self.context);
        drop(self);
        Disks::open_on(&context, paths, &writing)
    }

    fn add_written(&self, volumes: &[Written], writing: &mut Writing) -> Result<(), Error> {
        for Written { volume, run } in volumes {
            self.refuse_alike(volume)?;
            let below = self.below(volume)?;
            let mut its = self.writing(&below);
            its.sets.values_mut().for_each(|with_fewer| *with_fewer |= run);
            writing.add(its);
        }
        Ok(())
    }

    /// The same, for writing to this and to nothing else.
    ///
    /// # Errors
    /// As [`Disks::open`], and where a file of it can't be written, or another process writes to it.
    pub fn open_writing(
        events: &Events,
        paths: &[PathBuf],
        writing: &Writing,
    ) -> Result<Disks, Error> {
        Disks::open_where(events, paths, writing)
    }

    /// The sets and files that a volume lies on; none for one that is not there.
    ///
    /// # Errors
    /// Where several are called so.
    pub fn lies_on(&self, volume: &str) -> Result<BTreeSet<Whole>, Error> {
        Ok(self.wholes(&self.below(volume)?))
    }

    fn open_where(events: &Events, paths: &[PathBuf], writing: &Writing) -> Result<Disks, Error> {
        Disks::open_on(&Rc::new(Context::new(events)?), paths, writing)
    }

    /// What [`Disks::open_writing`] opens, on an executor that is there.
    ///
    /// # Errors
    /// As of that.
    pub fn open_on(
        context: &Rc<Context>,
        paths: &[PathBuf],
        writing: &Writing,
    ) -> Result<Disks, Error> {
        let mut disks = Disks::none(Rc::clone(context));
        let (given, paths) = (paths, &named(paths));
        disks.complaints = disks.open_paths(paths, writing)?;
        let mut members = disks.find_members();
        disks.find_parts_of_files(&members);
        disks.find_members_on_parts(&mut members);
        let names = members.iter().map(|one| one.device.name()).collect();
        disks.open_arrays(members, writing, given);
        disks.find_parts_of_arrays();
        disks.find_groups(&names);
        disks.find_parts_of_volumes();
        disks.unsearched =
            paths.iter().flat_map(|path| folders_in(path)).take(FOLDERS_MAX).collect();
        Ok(disks)
    }

    /// Opens the files. Returns what is to be noted of them.
    fn open_paths(&mut self, paths: &[PathBuf], writing: &Writing) -> Result<Vec<String>, Error> {
        let (mut notes, mut known) = (Vec::new(), BTreeSet::new());
        for path in expand(paths)? {
            if is_uri(&path) {
                Uri::of(&path)?;
            }
            // One that was named twice is one device all the same.
            if Identity::of(&path).is_ok_and(|identity| !known.insert(identity))
                || is_uri(&path) && self.files.iter().any(|file| *file.name() == *path.as_os_str())
            {
                continue;
            }
            if !paths.contains(&path) && is_too_small(&path) {
                continue;
            }
            let read_only = !writing.files.iter().any(|name| Path::new(&**name) == path);
            match Base::open(&self.context, &path, read_only) {
                Ok(base) => {
                    if read_only && base.is_written_elsewhere() {
                        let locked = base.locked_path().unwrap_or_else(|| path.clone());
                        self.elsewhere.push((path.clone(), locked));
                    }
                    self.add_base(base, !read_only);
                }
                // Such a folder as /dev has devices that stand for nothing.
                Err(Error::Named(OpenError::TooSmall { .. }))
                    if read_only && !paths.contains(&path) => {}
                // Whatever else lies in a folder of disks; a path that was named is another matter, and one that
                // is to be written. An export that nobody serves now is a device that is missing.
                Err(error) if read_only && (is_uri(&path) || !paths.contains(&path)) => {
                    match &error {
                        Error::Named(one) if one.is_denied() => self.context.passed_denied(&path),
                        _ => notes.push(error.to_string()),
                    }
                    if is_uri(&path) {
                        self.unreached.extend(written_unreached(&self.context, &path));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        notes.extend(self.context.denied());
        Ok(notes)
    }

    /// Looks which files are members of sets.
    fn find_members(&mut self) -> Vec<Found> {
        let files = self.files.clone();
        let (found, complaints) = self.wait(async move {
            let (mut found, mut complaints) = (Vec::new(), Vec::new());
            for file in &files {
                match assemble::find(file).await {
                    Ok(one) => found.extend(one),
                    Err(error) => complaints.push(error.to_string()),
                }
            }
            (found, complaints)
        });
        self.complaints.extend(complaints);
        found
    }

    /// Looks for partitions of the files that are no members.
    fn find_parts_of_files(&mut self, members: &[Found]) {
        let is_member =
            |file: &DeviceRef| members.iter().any(|member| Rc::ptr_eq(&member.device, file));
        let others: Vec<DeviceRef> =
            self.files.iter().filter(|file| !is_member(file)).cloned().collect();
        let others = sources::tabled(&others, &self.files);
        let files = self.files.iter().enumerate();
        let tabled = files.filter(|(_, file)| others.iter().any(|other| Rc::ptr_eq(other, file)));
        let whole = tabled
            .map(|(at, file)| (Rc::clone(file), Whole::File(at), file.name().to_string()))
            .collect();
        self.find_parts(whole);
    }

    /// Looks which partitions are members of sets.
    fn find_members_on_parts(&mut self, members: &mut Vec<Found>) {
        let parts: Vec<Partition> = self.parts.iter().map(|part| part.partition.clone()).collect();
        let looking = async move { sources::on_partitions(&parts).await };
        let (found, damaged) = self.wait(looking);
        self.complaints.extend(damaged.iter().map(ToString::to_string));
        sources::add_on_partitions(members, found);
    }

    /// Opens the sets that these are members of.
    fn open_arrays(&mut self, found: Vec<Found>, writing: &Writing, given: &[PathBuf]) {
        for one in &found {
            self.context.know(one.superblock.set_uuid(), name::shown_by(one));
        }
        let is_elsewhere =
            |(base, is_written): &&(Base, bool)| !is_written && base.is_written_elsewhere();
        let elsewhere = self.opened.iter().filter(is_elsewhere);
        let elsewhere = elsewhere.map(|(base, _)| PathBuf::from(&*base.device().name())).collect();
        let Arrays { open, refused, live } =
            arrays::open(&self.context, found, writing, &elsewhere);
        self.of_refused = refused.iter().map(|one| one.complaint(given)).collect();
        (self.arrays, self.refused) = (open, refused);
        self.live = RefCell::new(live.into_iter().map(Rc::new).collect());
    }

    /// Looks for partitions of the sets.
    fn find_parts_of_arrays(&mut self) {
        let arrays = self.arrays.iter().enumerate();
        let whole = arrays
            .map(|(at, array)| (Rc::clone(&array.device), Whole::Array(at), array.name.clone()));
        self.find_parts(whole.collect());
    }

    pub(super) fn find_parts(&mut self, whole: Vec<(DeviceRef, Whole, String)>) {
        let (parts, complaints) = self.wait(async move {
            let (mut parts, mut complaints) = (Vec::new(), Vec::new());
            for (device, on, of) in whole {
                match partition::read_table(&device).await {
                    Ok(None) => {}
                    Ok(Some(Table { form, partitions, remark })) => {
                        complaints.extend(remark);
                        parts.extend(partitions.into_iter().map(|partition| Part {
                            of: of.clone(),
                            on,
                            form,
                            device: Rc::clone(&partition.device),
                            partition,
                        }));
                    }
                    Err(error) => complaints.push(error.to_string()),
                }
            }
            (parts, complaints)
        });
        self.parts.extend(parts);
        self.complaints.extend(complaints);
    }

    /// The sets that can't be opened.
    pub fn refused(&self) -> impl Iterator<Item = &Refused> {
        self.refused.iter()
    }

    /// The sets that are open for writing. Who takes them stops them.
    pub fn take_live(&self) -> Vec<Rc<LiveArray>> {
        let live = self.live.take();
        self.taken.borrow_mut().extend(live.iter().map(Rc::downgrade));
        live
    }

    /// The files that members lie on now of the sets that are open for writing here, whoever took those.
    pub fn members_now(&self) -> Vec<PathBuf> {
        let taken = self.taken.borrow();
        let live = self.live.borrow();
        let all = live.iter().cloned().chain(taken.iter().filter_map(Weak::upgrade));
        let devices = all.flat_map(|set| set.devices());
        devices.map(|device| file_of(Path::new(&*device.name))).collect()
    }

    /// Stops the sets that are open for writing, and that nobody took. Nothing may be written to them any more.
    ///
    /// # Errors
    /// Of the first that could not be stopped; all were tried.
    pub fn stop(&self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for live in self.live.take() {
            outcome = outcome.and(self.context.finish(async move { live.stop().await }));
        }
        outcome
    }

    /// What was looked at, for whoever finds nothing there.
    pub fn searched(&self) -> String {
        let files = match self.files.len() {
            1 => "1 file or device was looked at".to_owned(),
            many => format!("{many} files and devices were looked at"),
        };
        let below: Vec<String> =
            self.unsearched.iter().map(|path| path.display().to_string()).collect();
        match below.is_empty() {
            true => files,
            false => {
                format!("{files}; folders below are not searched, name them: {}", below.join(", "))
            }
        }
    }

    /// Runs I/O on the disks to its end.
    #[inline]
    pub fn wait<T: 'static>(&self, io: impl Future<Output = T> + 'static) -> T {
        self.context.runtime().block_on(io).expect("I/O on a real device ends")
    }

    /// Where the devices are attached.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The same, to attach others there.
    pub fn shared_context(&self) -> &Rc<Context> {
        &self.context
    }

    /// Closes what is open for writing and has these locks, though the disks stay: nothing that lies on it is used any more.
    pub fn close(&self, locked: &[PathBuf]) {
        for (base, _) in &self.opened {
            let Base::Remote(remote, _) = base else { continue };
            if remote.lock_path().is_some_and(|path| locked.iter().any(|locked| locked == path)) {
                let remote = Rc::clone(remote);
                self.wait(async move { remote.close().await });
            }
        }
        self.context.host().close_writers(locked);
    }

    /// Tells what could not be had, and what another process writes.
    pub fn tell_complaints(&self) {
        self.tell_lost();
        let elsewhere = self.elsewhere.iter().map(|(path, _)| path.clone());
        elsewhere.for_each(|path| self.context.tell(Event::WrittenElsewhere { path }));
    }

    /// Tells what could not be had.
    pub(crate) fn tell_lost(&self) {
        self.tell_lost_but(&[]);
    }

    /// The same, but for what was told already.
    pub(crate) fn tell_lost_but(&self, told: &[String]) {
        let new = self.lost().filter(|text| !told.contains(text));
        new.cloned().map(Event::Complaint).for_each(|complaint| self.context.tell(complaint));
    }

    /// What could not be had, and why.
    pub(crate) fn lost(&self) -> impl Iterator<Item = &String> {
        self.complaints.iter().chain(&self.of_refused)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // What failed before is what is told.
            let _ = self.stop();
        }
    }
}
