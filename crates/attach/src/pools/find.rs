//! ZFS pools on the devices that were named: which there are, and one of them opened.
//!
//! Labels are looked for on files and block devices, RAID sets, partitions and logical volumes. Where two devices bear
//! the same label (a member of a RAID set with its superblock at the end shows the set's content), what lies on top
//! comes first: it is the one with the redundancy.
//!
//! A pool lies on whatever a device is. What it lies on, down to the files, is told by [`Pools::writing`] for who opens it for
//! writing, and by [`Pools::paths_of`] for who asks whether somebody has.
//!
//! Pools are opened for reading alone, so one that another host may have in use does no harm and takes none but
//! that what it writes meanwhile is missed; that is said once.
//!
//! Errors are in OpenZFS's words where scripts may look at them: `cannot open 'tank': no such pool`.

use super::export_table::ExportTable;
use super::mount_table::MountTable;
use super::names::{check_name, pool_of, within};
use super::running::connection::{answer, ask_all, connect};
use super::running::protocol::{Ask, Holder, Picture};
use crate::context::Context;
use crate::control::server::Bound;
use crate::disks::{Below, Disks, Part, Whole, Writing};
use crate::error::Error;
use crate::event::{Event, Events};
use crate::sets::running::RunningSets;
use crate::uri::absolute_in;
use host::forget_cached;
use rt::DeviceRef;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use stdx::RangeSet;
use zfs::ZfsError;
use zfs::dsl::catalog::Node;
use zfs::dsl::{Dataset, Directory};
use zfs::health::Short;
use zfs::mounted::Mounted;
use zfs::show;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::spa::{
    self, Apart, FoundPool, GROUPS_KEPT, Member, OpenError, OpenOptions, PoolState, Spa,
};
use zfs_format::vdev::Vdev;

/// Where pools lie, and how they are opened.
#[derive(Clone)]
pub struct PoolPlace<'a> {
    /// Files, block devices, and folders of them.
    pub devices: &'a [PathBuf],
    /// How.
    pub options: OpenOptions,
    /// Who is told what is found.
    pub events: Events,
    /// The command that was given, for the history of what is written.
    pub command: Option<String>,
    /// A pool that is open already, by who carries the command out.
    pub held: Option<HeldBy>,
    /// Where paths begin that are not whole: the working directory of who gave the command. Empty for that of this process.
    pub directory: PathBuf,
}

impl PoolPlace<'_> {
    /// A path or an export, as whoever gave the command meant it.
    pub fn path(&self, given: &Path) -> PathBuf {
        absolute_in(&self.directory, given)
    }
}

/// A pool that is held, as commands open it.
#[derive(Clone)]
pub struct HeldBy {
    /// The disks it lies on, and whatever else is there.
    pub pools: Rc<Pools>,
    /// It.
    pub live: Rc<Live>,
    /// The files and block devices that it has: those that were added since it was opened are no part of `pools`.
    files: Rc<RefCell<Vec<PathBuf>>>,
    /// What was added to it that is put together of several.
    added: Rc<RefCell<Added>>,
    mounted: Rc<RefCell<Vec<Weak<Mounted>>>>,
    /// Its datasets that are directories of this host.
    pub mounts: Rc<MountTable>,
    /// Its volumes that are served.
    pub exports: Rc<ExportTable>,
    /// How it is left when it is closed.
    pub leaving: Rc<RefCell<Leaving>>,
    /// What its mountpoints are below as long as it is held.
    altroot: Rc<RefCell<Option<PathBuf>>>,
    closed: Rc<Cell<bool>>,
}

/// How a pool is left by who holds it.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// What its labels say then.
    pub state: LabelState,
    /// The command that had it closed, for its history.
    pub command: Option<String>,
}

impl Default for Leaving {
    fn default() -> Leaving {
        Leaving { state: LabelState::Exported, command: None }
    }
}

/// Disks that a pool got while it was open.
#[derive(Default)]
struct Added {
    disks: Vec<Rc<Disks>>,
    /// Their sets, where somebody has the pool for long.
    sets: RunningSets,
}

impl HeldBy {
    /// A pool that lies on these files.
    pub fn new(pools: &Rc<Pools>, live: Rc<Live>, files: Vec<PathBuf>) -> HeldBy {
        let (pools, files) = (Rc::clone(pools), Rc::new(RefCell::new(files)));
        let (added, mounted, mounts, exports, leaving, altroot, closed) = Default::default();
        HeldBy { pools, live, files, added, mounted, mounts, exports, leaving, altroot, closed }
    }

    /// Whether it was closed: nothing can be done with it any more.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// The socket where commands look for it. Made before anything of it is mounted: who sees a mount can ask.
    pub fn socket(&self) -> Bound {
        Bound::new(&self.pools.disks().context().host(), &self.live.spa().guid().to_string())
    }

    /// It is closed from here on.
    pub(super) fn note_closed(&self) {
        self.closed.set(true);
    }

    /// The files and block devices whose locks and identities stand for it, members of RAID sets as they are now among them.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = self.files.borrow().clone();
        files.extend(self.pools.disks().members_now());
        files.extend(self.added.borrow().disks.iter().flat_map(|disks| disks.members_now()));
        files
    }

    /// What its devices are called, by their GUIDs: those that it had when it was opened.
    pub(super) fn devices(&self) -> Vec<(u64, String)> {
        let guids: BTreeSet<u64> =
            self.live.syncer().config().root.leaves().iter().map(|leaf| leaf.guid).collect();
        let members = self.pools.found.iter().flat_map(|found| found.members.values());
        let own = members.filter(|member| guids.contains(&member.guid));
        own.map(|member| (member.guid, self.pools.name_of(&member.device))).collect()
    }

    /// It has these files now, and lies on these disks besides. Where it `stays` open for long their sets are cared for from here on.
    pub(super) fn take_in(&self, files: Vec<PathBuf>, disks: Option<Disks>, stays: bool) {
        self.files.borrow_mut().extend(files);
        let Some(disks) = disks else { return };
        let mut added = self.added.borrow_mut();
        if stays {
            added.sets.start(self.pools.disks().context(), disks.take_live(), None);
        }
        added.disks.push(Rc::new(disks));
    }

    /// Stops the sets that were added to it. Nothing may be written to it any more.
    ///
    /// # Errors
    /// Of the first that could not be stopped; all were tried.
    pub(super) fn stop_added(&self) -> Result<(), Error> {
        let mut sets = std::mem::take(&mut self.added.borrow_mut().sets);
        let stopped = sets.stop(self.pools.disks().context());
        let disks = self.added.borrow().disks.clone();
        disks.iter().fold(stopped, |outcome, disks| outcome.and(disks.stop()))
    }

    /// Closes these devices of it, for others to have them: it is closed, and nothing else of this process lies on one.
    pub(crate) fn close_devices(&self, files: &[PathBuf]) {
        let added = self.added.borrow().disks.clone();
        for disks in added.iter().map(|disks| &**disks).chain([self.pools.disks()]) {
            disks.close(files);
        }
    }

    /// What its mountpoints are below, if that is not the root of all.
    pub fn altroot(&self) -> Option<PathBuf> {
        self.altroot.borrow().clone()
    }

    /// Its mountpoints are below this directory from here on, as long as it is held: nothing is written of it.
    pub fn set_altroot(&self, directory: &Path) {
        let is_root = directory == Path::new("/");
        *self.altroot.borrow_mut() = (!is_root).then(|| directory.to_owned());
    }

    /// Its datasets that are mounted for writing, each with what is below it.
    pub fn mounted(&self) -> Vec<Rc<Mounted>> {
        self.mounted.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Another one is, as long as somebody has it.
    pub fn add_mounted(&self, mounted: &Rc<Mounted>) {
        let mut all = self.mounted.borrow_mut();
        all.retain(|known| known.strong_count() > 0);
        all.push(Rc::downgrade(mounted));
    }

    /// Forgets the errors of the vdev of this GUID, or of all, and resumes the pool if it is suspended.
    ///
    /// # Errors
    /// There is no such vdev, or the pool is suspended again at once.
    pub async fn clear(&self, vdev: Option<u64>) -> Result<(), Error> {
        let name = || self.live.spa().name().to_owned();
        let root = self.live.syncer().config().root;
        let vdev = match vdev {
            Some(guid) => {
                let found = found_below(&root, guid);
                Some(found.ok_or_else(|| Error::NoVdevToClear { name: name() })?)
            }
            None => None,
        };
        let files = self.files();
        let look_anew = || files.iter().for_each(|file| forget_cached(file));
        let cleared = self.live.clear(vdev, &look_anew).await;
        cleared.map_err(|error| Error::NotCleared { name: name(), error: Box::new(error) })
    }

    /// Whether it is called so: by its name or GUID.
    pub fn is(&self, name: &str) -> bool {
        let spa = self.live.spa();
        spa.name() == name || name.parse() == Ok(spa.guid())
    }
}

/// The pools on some devices. See the [module](self).
pub struct Pools {
    disks: Disks,
    /// What of them may have labels.
    devices: Vec<DeviceRef>,
    options: OpenOptions,
    /// The pools, by name, then GUID.
    pub found: Vec<Rc<FoundPool>>,
    /// Spares and cache devices, by GUID.
    pub auxiliary: Vec<Member>,
    /// Whether holders of pools are asked who they are.
    asks: bool,
    /// Pools, by GUID, of which it was told that they are held.
    told: RefCell<BTreeSet<u64>>,
}

impl Pools {
    /// Looks for pools on the files, the folders' files, and all that lies on them.
    ///
    /// # Errors
    /// Where there are no devices, or one can't be opened.
    pub fn find(place: &PoolPlace<'_>) -> Result<Pools, Error> {
        Ok(Pools::told(Disks::open(&place.events, place.devices)?, place))
    }

    /// The same, with the pools that were not exported and that nobody holds open for writing under a cover: what is written to them is
    /// forgotten with the executor.
    ///
    /// # Errors
    /// As of [`Pools::find`].
    pub fn find_covered(place: &PoolPlace<'_>) -> Result<Pools, Error> {
        let mut writing = Writing::default();
        {
            let unheard = Rc::new(Context::new(&Events::unheard())?);
            let pools = Pools::over(Disks::open_beside(&unheard, place.devices)?, place.options);
            let left = pools.living().filter(|pool| pool.state == PoolState::Active);
            let free = left.filter(|pool| pools.holder(pool).is_none());
            free.for_each(|pool| writing.add(pools.writing(pool)));
        }
        let context = Rc::new(Context::covered(&place.events)?);
        Ok(Pools::told(Disks::open_on(&context, place.devices, &writing)?, place))
    }

    /// Looks for pools on disks that are open, and tells what is lost and who writes to it.
    fn told(disks: Disks, place: &PoolPlace<'_>) -> Pools {
        disks.tell_lost();
        let mut pools = Pools::over(disks, place.options);
        pools.tell_of_members();
        // Who holds a pool can't answer itself.
        if place.held.is_none() {
            pools.asks = true;
            pools.tell_elsewhere();
        }
        pools
    }

    /// Looks for pools on disks that are open, without a word.
    pub fn over(disks: Disks, options: OpenOptions) -> Pools {
        let mut devices: Vec<DeviceRef> = Vec::new();
        for group in &disks.groups {
            for volume in &group.group.logical {
                match group.open(&disks.context().rt(), &volume.name) {
                    Ok(device) => devices.push(device),
                    Err(error) => disks.context().tell(Event::Complaint(error.to_string())),
                }
            }
        }
        // What lies on top comes first.
        let (below, above): (Vec<&Part>, Vec<&Part>) =
            disks.parts.iter().partition(|part| part.is_on_file());
        devices.extend(above.into_iter().chain(below).map(|part| Rc::clone(&part.device)));
        devices.extend(disks.arrays.iter().map(|array| Rc::clone(&array.device)));
        devices.extend(disks.files.iter().cloned());
        let (found, auxiliary) = look(&disks, &devices);
        let (asks, told) = (false, RefCell::default());
        Pools { disks, devices, options, found, auxiliary, asks, told }
    }

    /// Has those who hold pools commit what they have in memory, and looks what is there then: who reads is to see what was done before.
    pub fn have_committed(&mut self) {
        let context = self.disks.context();
        let commit = |found: &Rc<FoundPool>| {
            let reached = connect(context, found, self.paths_of(found), Ask::Commit);
            // Who doesn't know the question, or doesn't answer, leaves it as it is.
            reached.ok().flatten().is_some_and(|mut server| answer::<()>(&mut server).is_ok())
        };
        let left = self.living().filter(|pool| pool.state == PoolState::Active);
        if left.filter(|found| commit(found)).count() > 0 {
            (self.found, self.auxiliary) = look(&self.disks, &self.devices);
        }
    }

    /// Who holds a pool; none where nobody does, or doesn't answer.
    pub fn holder(&self, found: &FoundPool) -> Option<Holder> {
        let reached = connect(self.disks.context(), found, self.paths_of(found), Ask::Who);
        answer(&mut reached.ok().flatten()?).ok()
    }

    /// The pools that processes of this host hold and that nothing tells of here, since the devices that they lie on can't be reached: those
    /// on exports that are named and that nobody serves now, and, of these names or GUIDs, such as are suspended. Without names the former
    /// alone.
    pub fn out_of_reach(&self, names: &[String]) -> Vec<Picture> {
        let (context, ask) = (self.disks.context(), Ask::Picture);
        let is_absent = |name: &String| self.named(name).is_ok_and(|found| found.is_none());
        let mut all: Vec<Picture> = Vec::new();
        if names.is_empty() || names.iter().any(is_absent) {
            let locked = self.disks.unreached.iter();
            all.extend(locked.flat_map(|locked| ask_all::<Picture>(context, Some(locked), &ask)));
        }
        if names.iter().any(|name| is_absent(name) && !all.iter().any(|one| one.is(name))) {
            let asked = ask_all::<Picture>(context, None, &ask).into_iter();
            all.extend(asked.filter(|picture| picture.health.suspended.is_some()));
        }
        all.retain(|one| names.is_empty() || names.iter().any(|name| one.is(name)));
        all.retain(|one| !self.found.iter().any(|found| found.guid == one.guid));
        all.sort_unstable_by(|a, b| (&a.name, a.guid).cmp(&(&b.name, b.guid)));
        all.dedup_by_key(|one| one.guid);
        all
    }

    /// Tells which files another process writes. Of those that are a pool's of which somebody says that he holds it nothing is in doubt.
    pub fn tell_elsewhere(&self) {
        let elsewhere = &self.disks.elsewhere;
        if elsewhere.is_empty() {
            return;
        }
        let mut held: BTreeSet<PathBuf> = BTreeSet::new();
        for found in self.living() {
            let paths = self.paths_of(found);
            let is_written = elsewhere.iter().any(|(_, locked)| paths.contains(locked));
            if is_written && self.holder(found).is_some() {
                held.extend(paths);
            }
        }
        for (path, _) in elsewhere.iter().filter(|(_, locked)| !held.contains(locked)) {
            self.disks.context().tell(Event::WrittenElsewhere { path: path.clone() });
        }
    }

    /// Tells that a pool that is read was not exported, or who holds it, once.
    fn tell_not_exported(&self, found: &FoundPool) {
        let pool = found.name.clone();
        let event = match self.asks.then(|| self.holder(found)).flatten() {
            Some(_) if !self.told.borrow_mut().insert(found.guid) => return,
            Some(Holder { process, what }) => Event::ReadBesideHolder { pool, process, what },
            None => Event::NotExported { pool },
        };
        self.disks.context().tell(event);
    }

    /// Tells what of the pools' devices looks like a mistake, and is read all the same.
    pub fn tell_of_members(&self) {
        self.living().for_each(|pool| self.tell_of_members_of(pool));
    }

    fn tell_of_members_of(&self, pool: &FoundPool) {
        for (guid, Short { has, needed }) in pool.short() {
            let Some(member) = pool.members.get(&guid) else { continue };
            let (device, pool) = (self.name_of(&member.device), pool.name.clone());
            self.disks.context().tell(Event::CutShort { device, has, pool, needed });
        }
        // What lies on top of a set or volume group shows through on a member of it: that is no copy.
        let is_plain = |device: &DeviceRef| {
            let (files, parts) = (self.disks.files.iter(), self.disks.parts.iter());
            let parts = parts.filter(|part| part.is_on_file()).map(|part| &part.device);
            files.chain(parts).any(|plain| Rc::ptr_eq(plain, device))
        };
        for copy in &pool.copies {
            let Some(used) = pool.members.get(&copy.guid) else { continue };
            if self.disks.shows_beside(&copy.device, &used.device) {
                let what = format!("a device of pool '{}'", pool.name);
                let text = self.disks.shows_through(&copy.device, &used.device, &what, None);
                self.disks.context().tell(Event::Complaint(text));
            }
            if is_plain(&used.device) && is_plain(&copy.device) {
                let (used, copy) = (self.name_of(&used.device), self.name_of(&copy.device));
                let pool = pool.name.clone();
                self.disks.context().tell(Event::SameDevice { used, copy, pool });
            }
        }
    }

    /// The disks.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Runs I/O on the devices to its end.
    #[inline]
    pub fn wait<T: 'static>(&self, io: impl Future<Output = T> + 'static) -> T {
        self.disks.wait(io)
    }

    /// What a device is called: a partition by its disk and number, a RAID set without its host, all else by its own name.
    pub fn name_of(&self, device: &DeviceRef) -> String {
        self.disks.called(device)
    }

    /// The executor of the devices.
    pub fn rt(&self) -> rt::Rt {
        self.disks.context().rt()
    }

    /// The pools that were not destroyed.
    pub fn living(&self) -> impl Iterator<Item = &Rc<FoundPool>> {
        self.found.iter().filter(|pool| pool.state != PoolState::Destroyed)
    }

    /// The names that several pools have that were not destroyed, each with their GUIDs.
    pub fn called_alike(&self) -> BTreeMap<&str, Vec<u64>> {
        let mut all: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        self.living().for_each(|pool| all.entry(&pool.name).or_default().push(pool.guid));
        all.retain(|_, guids| guids.len() > 1);
        all
    }

    /// The pool of this GUID.
    pub fn of_guid(&self, guid: u64) -> Option<&Rc<FoundPool>> {
        self.found.iter().find(|pool| pool.guid == guid)
    }

    /// The pool of this name or GUID; nothing where there is none.
    ///
    /// # Errors
    /// Several have the name.
    pub fn named(&self, name: &str) -> Result<Option<&Rc<FoundPool>>, Error> {
        if let Some(pool) = only(name, self.living().filter(|pool| pool.name == name))? {
            return Ok(Some(pool));
        }
        let guid: Option<u64> = name.parse().ok();
        Ok(guid.and_then(|guid| self.of_guid(guid)))
    }

    /// The pool of this name or GUID that was destroyed; nothing where there is none.
    ///
    /// # Errors
    /// Several have the name.
    pub fn destroyed(&self, name: &str) -> Result<Option<&Rc<FoundPool>>, Error> {
        let guid: Option<u64> = name.parse().ok();
        let all = self.found.iter().filter(|pool| pool.state == PoolState::Destroyed);
        only(name, all.filter(|pool| pool.name == name || Some(pool.guid) == guid))
    }

    /// How pools are opened.
    pub fn options(&self) -> OpenOptions {
        self.options
    }

    /// What a pool lies on.
    fn below_pool(&self, found: &FoundPool) -> Below {
        let members = found.members.values().map(|member| &member.device);
        self.disks.below_devices(members).unwrap_or_else(|device| {
            unreachable!("{}: labels are read on the disks alone", device.name())
        })
    }

    /// What is opened for writing where a pool is written.
    pub fn writing(&self, found: &FoundPool) -> Writing {
        self.disks.writing(&self.below_pool(found))
    }

    /// The files and block devices whose locks and identities stand for a pool, members of RAID sets among them.
    pub fn paths_of(&self, found: &FoundPool) -> Vec<PathBuf> {
        self.disks.paths(&self.below_pool(found))
    }

    /// The sets and files that a pool lies on.
    pub fn lies_on(&self, found: &FoundPool) -> BTreeSet<Whole> {
        self.disks.wholes(&self.below_pool(found))
    }

    /// The sets that a pool lies on and that were put together by force, by what commands call them.
    pub fn forced_below(&self, found: &FoundPool) -> Vec<String> {
        self.disks.forced(&self.below_pool(found))
    }

    /// Refuses a pool of which a device is not open for writing.
    ///
    /// # Errors
    /// One isn't, and why.
    pub fn check_writable(&self, found: &FoundPool) -> Result<(), Error> {
        let members = found.members.values().map(|member| &member.device);
        match self.disks.unwritable_of(members) {
            None => Ok(()),
            Some((device, why)) => {
                Err(Error::NotWritableMember { name: found.name.clone(), device, why })
            }
        }
    }

    /// The pools of these names, or all that were not destroyed; and names that have none.
    ///
    /// # Errors
    /// Several have a name.
    pub fn chosen(&self, names: &[String]) -> Result<(Vec<Rc<FoundPool>>, Vec<String>), Error> {
        if names.is_empty() {
            return Ok((self.living().cloned().collect(), Vec::new()));
        }
        let (mut chosen, mut without) = (Vec::new(), Vec::new());
        for name in names {
            match self.named(name)? {
                Some(found) => chosen.push(Rc::clone(found)),
                None => without.push(name.clone()),
            }
        }
        Ok((chosen, without))
    }

    /// Opens the pool of this name or GUID for reading.
    ///
    /// # Errors
    /// There is none, or it can't be opened.
    pub fn open(&self, name: &str) -> Result<Rc<Spa>, Error> {
        match self.named(name)? {
            Some(found) => self.open_found(found),
            None => Err(Error::NoPool { name: name.into() }),
        }
    }

    /// Opens a pool for reading, and says so where it was not exported.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open_found(&self, found: &Rc<FoundPool>) -> Result<Rc<Spa>, Error> {
        let is_rewound = self.options.txg.is_some() || self.options.checkpoint;
        if found.state == PoolState::Active && !is_rewound {
            self.tell_not_exported(found);
        }
        let spa = self.try_open(found)?;
        if let Some(txg) = self.options.txg
            && spa.latest_txg().saturating_sub(txg) > GROUPS_KEPT
        {
            let (pool, newest) = (found.name.clone(), spa.latest_txg());
            self.disks.context().tell(Event::OldGroupAsked { pool, txg, newest });
        }
        if !is_rewound && !spa.is_newest() {
            let uberblock = spa.uberblock();
            let newest = found.uberblocks().into_iter().next().unwrap_or_else(|| uberblock.clone());
            let seconds = newest.timestamp.saturating_sub(uberblock.timestamp);
            let (pool, txg, newest) = (found.name.clone(), uberblock.txg, newest.txg);
            self.disks.context().tell(Event::OlderGroup { pool, txg, newest, seconds });
        }
        Ok(spa)
    }

    /// Opens a pool for reading, without a word.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn try_open(&self, found: &Rc<FoundPool>) -> Result<Rc<Spa>, OpenError> {
        self.open_with(found, self.options)
    }

    /// The same in a way of its own.
    ///
    /// # Errors
    /// It can't be opened.
    pub(super) fn open_with(
        &self,
        found: &Rc<FoundPool>,
        options: OpenOptions,
    ) -> Result<Rc<Spa>, OpenError> {
        let (rt, found) = (self.rt(), Rc::clone(found));
        self.wait(async move { Spa::open(&rt, &found, options).await.map(Rc::new) })
    }

    /// Devices of a pool that went on without the others, if some did, as far as labels tell, and the books of those of which they don't.
    pub fn apart(&self, found: &FoundPool) -> Option<Apart> {
        let (parted, untold) = found.parted();
        parted.or_else(|| {
            let own = Rc::new(untold?);
            self.try_open(&own).ok()?.went_on_without(&own, found)
        })
    }

    /// Says that devices of a pool went on without the others, if some did: what only they have is missing in what is shown.
    pub fn tell_apart(&self, found: &FoundPool) {
        if let Some(Apart { devices, last: (_, seconds), .. }) = self.apart(found) {
            let (pool, devices) = (found.name.clone(), self.called(found, &devices));
            self.disks.context().tell(Event::WentApart { pool, devices, seconds });
        }
    }

    /// What these devices of a pool are called.
    pub(super) fn called(&self, found: &FoundPool, devices: &BTreeSet<u64>) -> String {
        let members = devices.iter().filter_map(|guid| found.members.get(guid));
        let names: Vec<String> = members.map(|one| one.device.name().to_string()).collect();
        names.join(", ")
    }

    /// Opens the pool that a dataset's name begins with, and says what of it is lost.
    ///
    /// # Errors
    /// There is none, or it can't be opened.
    pub fn open_of_dataset(&self, name: &str) -> Result<Rc<Spa>, Error> {
        check_name(name)?;
        match self.named(pool_of(name))? {
            Some(found) => {
                self.tell_apart(found);
                let spa = self.open_found(found)?;
                if let Some((groups, before)) = in_words(found, &spa.lost(found)) {
                    let pool = found.name.clone();
                    self.disks.context().tell(Event::GroupsLost { pool, groups, before });
                }
                Ok(spa)
            }
            None => Err(Error::NoDataset { name: name.into() }),
        }
    }

    /// The dataset of this name (`tank/home`, `tank/home@monday`) in an open pool, with its directory.
    ///
    /// # Errors
    /// There is none, or it can't be had.
    pub fn dataset(&self, spa: &Rc<Spa>, name: &str) -> Result<(Directory, Dataset), Error> {
        let (pool, called) = (Rc::clone(spa), name.to_owned());
        let found = self.wait(async move { pool.dsl().find(&called).await });
        let failed = |error| Error::CannotOpen { name: name.into(), error: Box::new(error) };
        found.map_err(failed)?.ok_or_else(|| Error::NoDataset { name: name.into() })
    }
}

/// Groups that are lost, in words, and the last group before them of which an uberblock is left; nothing, where none is.
pub(super) fn in_words(found: &FoundPool, lost: &RangeSet) -> Option<(String, Option<u64>)> {
    let first = lost.iter().next()?.start;
    Some((show::groups(lost), found.last_before(first).map(|(group, _)| group)))
}

impl Pools {
    /// The file system or volume of a name in an open pool; nothing where there is none.
    ///
    /// # Errors
    /// Something on the way can't be had.
    pub fn node(&self, spa: &Rc<Spa>, name: &str) -> Result<Option<Rc<Node>>, Error> {
        let called = within(spa, name).into_owned();
        let spa = Rc::clone(spa);
        let found = self.wait(async move { spa.catalog(0).await?.find(&called).await });
        found.map_err(|error| Error::CannotOpen { name: name.into(), error: Box::new(error) })
    }

    /// All file systems and volumes below one.
    ///
    /// # Errors
    /// One can't be had.
    pub fn below(&self, spa: &Rc<Spa>, top: &Rc<Node>) -> Result<Vec<Rc<Node>>, Error> {
        let (spa, of) = (Rc::clone(spa), Rc::clone(top));
        let name = top.directory.name.clone();
        let found = self.wait(async move {
            let catalog = spa.catalog(0).await.map_err(|error| Box::new((name, error)))?;
            let (mut all, mut waiting) = (Vec::new(), vec![of]);
            while let Some(node) = waiting.pop() {
                let children = catalog.children_and_damaged(&node).await;
                let of = || node.directory.name.clone();
                let children = children.map_err(|error| Box::new((of(), error)))?.whole()?;
                waiting.extend(children.iter().cloned());
                all.extend(children);
            }
            Ok(all)
        });
        found.map_err(|damaged: Box<(String, ZfsError)>| {
            let (name, error) = *damaged;
            Error::CannotOpen { name, error: Box::new(error) }
        })
    }
}

/// What labels on devices say: pools, and spares and cache devices.
fn look(disks: &Disks, devices: &[DeviceRef]) -> (Vec<Rc<FoundPool>>, Vec<Member>) {
    let devices = devices.to_vec();
    let found = disks.wait(async move { spa::find(&devices).await });
    (found.pools.into_iter().map(Rc::new).collect(), found.auxiliary.into_values().collect())
}

/// The vdev of a GUID at or below one.
fn found_below(vdev: &Vdev, guid: u64) -> Option<&Vdev> {
    let mut below = vdev.children.iter();
    if vdev.guid == guid { Some(vdev) } else { below.find_map(|child| found_below(child, guid)) }
}

/// The one pool that a name means, of those that it fits.
fn only<'a>(
    name: &str,
    mut fitting: impl Iterator<Item = &'a Rc<FoundPool>>,
) -> Result<Option<&'a Rc<FoundPool>>, Error> {
    match (fitting.next(), fitting.next()) {
        (Some(one), Some(other)) => {
            let (one, other) = (one.guid, other.guid);
            Err(Error::SeveralPools { name: name.into(), one, other })
        }
        (first, _) => Ok(first),
    }
}
