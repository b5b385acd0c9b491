//! What is to be served, opened, with the sets below it.

use crate::control::server::Bound;
use crate::disks::{Disks, Whole, Writing, Written};
use crate::error::Error;
use crate::event::{Event, Events};
use crate::past_damage::PastDamage;
use crate::pools::host::check_not_in_use;
use crate::pools::running::client::refuse_held;
use crate::pools::writing::{Opening, check_nothing_lost, open_live};
use crate::pools::{HeldBy, Pools, Session, View, pool_of, within};
use crate::sets::sources;
use ::md::superblock::Uuid;
use ::zfs::ZfsError;
use ::zfs::dsl::property::view::Kind;
use ::zfs::spa::live::{Live, set_number};
use ::zfs::spa::{FoundPool, OpenOptions};
use ::zfs::zvol::live::LiveVolume;
use export::nbd::Export;
use host::{FileDevice, Identity};
use rt::{Device, DeviceRef};
use serde::Deserialize;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How the description of a RAID set's member begins.
const MEMBER: &str = "an md RAID member";

/// What is to be served under a name: a path or a volume.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportSettings {
    /// What clients ask for.
    pub name: String,
    /// A file or block device.
    pub path: Option<PathBuf>,
    /// A volume on the devices.
    pub volume: Option<String>,
    /// Writes are refused.
    #[serde(default)]
    pub readonly: bool,
    /// RAID sets below it are also started with fewer members than they had when they were used last.
    #[serde(default)]
    pub run: bool,
    /// A ZFS pool below it is also written where it was not exported; what is only read is also read where RAID sets below it can only
    /// be put together by force.
    #[serde(default)]
    pub force: bool,
    /// What can't be read is read as zeros.
    #[serde(default)]
    pub skip_damaged: bool,
    /// For people.
    #[serde(default)]
    pub description: String,
}

impl ExportSettings {
    /// Whether its keys fit together.
    ///
    /// # Errors
    /// Where they don't.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |why| Err(Error::Export { name: self.name.clone(), why });
        match (&self.path, &self.volume) {
            (Some(_), None) if self.run => wrong("run is for a volume, and it has a path"),
            (None, Some(_)) if self.run && self.readonly => {
                wrong("run is for a volume that is written, and it is readonly")
            }
            _ if self.skip_damaged && !self.readonly => {
                wrong("skip_damaged is for what is only read: add readonly")
            }
            (Some(_), None) if self.force => wrong("force is for a volume, and it has a path"),
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => wrong("give it either path or volume"),
        }
    }

    /// Whether sets below it are put together by force.
    pub(super) fn is_by_force(&self) -> bool {
        self.force && self.readonly
    }

    /// The volume, where it is to be written.
    fn written(&self) -> Option<Written> {
        let volume = self.volume.clone().filter(|_| !self.readonly)?;
        Some(Written { volume, run: self.run })
    }
}

/// What is served.
pub(super) struct Served {
    pub(super) session: Session,
    pub(super) exports: Vec<Export>,
    /// What is only read.
    pub(super) read: Vec<OnlyRead>,
    /// Files that are written.
    written: BTreeSet<Identity>,
    /// Pools that are written, by name.
    pub(super) live: BTreeMap<String, HeldBy>,
    /// Exports that lie on the devices, each with its volume.
    on_devices: Vec<(String, String)>,
    /// Exports that are served with zeros for what can't be read.
    past_damage: Vec<ToTell>,
}

/// What could not be read of an export is told when it ends.
struct ToTell(Rc<PastDamage>);

impl Drop for ToTell {
    fn drop(&mut self) {
        self.0.tell_all();
    }
}

/// A pool that is written, beside what else is served.
pub(super) struct OpenPool {
    pub(super) pool: HeldBy,
    /// The RAID sets below it.
    pub(super) sets: Vec<Uuid>,
    /// Nothing else lies on what it lies on.
    pub(super) is_apart: bool,
    /// Where commands wait until it is served, from before anything of it is mounted.
    pub(super) socket: Bound,
}

/// What is only read, for writers to be kept off.
pub(super) enum OnlyRead {
    File(Rc<FileDevice>),
    Volume(String),
    /// A ZFS volume.
    OfPool(String),
}

impl Served {
    fn open(&mut self, settings: ExportSettings) -> Result<(), Error> {
        let ExportSettings { name, path, volume, readonly: read_only, description, .. } = settings;
        let ExportSettings { force, skip_damaged, .. } = settings;
        let (mut device, lacks) = match (path, volume) {
            (Some(path), _) => (self.open_path(&path, read_only)?, false),
            (_, Some(volume)) => {
                self.on_devices.push((name.clone(), volume.clone()));
                self.open_volume(volume, read_only, force, skip_damaged)?
            }
            _ => unreachable!("one of them was given"),
        };
        if skip_damaged {
            let events = self.session.pools.disks().context().events();
            let past = PastDamage::of(device, events, lacks);
            self.past_damage.push(ToTell(Rc::clone(&past)));
            device = past;
        }
        self.exports.push(Export { name, description, device, read_only });
        Ok(())
    }

    fn open_path(&mut self, path: &Path, read_only: bool) -> Result<DeviceRef, Error> {
        let host = self.session.pools.disks().context().host();
        let device = FileDevice::open_to_the_byte(&host, path, read_only);
        let device = Rc::new(device?);
        if !read_only {
            self.tell_members(path);
        }
        match read_only {
            true => self.read.push(OnlyRead::File(Rc::clone(&device))),
            false => self.written.extend(Identity::of(path)),
        }
        Ok(device)
    }

    /// Says that members of sets lie there.
    fn tell_members(&self, path: &Path) {
        if let Ok(Some(content)) = host::probe::content(path)
            && content.what.starts_with(MEMBER)
        {
            return self.tell(Event::MemberServed { path: path.into(), what: content.what });
        }
        let context = self.session.pools.disks().context();
        // By its blocks, as tables count them.
        let Ok(device) = sources::open(&context.host(), path) else { return };
        let Ok(Some(table)) = sources::table_of(context, &device, &[]) else { return };
        let found = context.finish(async move {
            let mut members = Vec::new();
            for part in table.partitions {
                let (found, damaged) = sources::on_partitions(std::slice::from_ref(&part)).await;
                members.extend((found.len() + damaged.len() > 0).then_some(part.number));
            }
            Ok::<_, Error>(members)
        });
        if let Ok(partitions) = found
            && !partitions.is_empty()
        {
            self.tell(Event::MembersServed { path: path.into(), partitions });
        }
    }

    /// A volume, and whether it lacks some of its devices.
    fn open_volume(
        &mut self,
        volume: String,
        read_only: bool,
        force: bool,
        in_part: bool,
    ) -> Result<(DeviceRef, bool), Error> {
        let pools = &self.session.pools;
        let found = match in_part {
            true => pools.disks().volume_in_part(&volume),
            false => pools.disks().volume(&volume),
        };
        let opened = match found {
            Ok(_) if force && !read_only => return Err(Error::ForcedIsRead { called: volume }),
            Ok(opened) if opened.by_force && !force => {
                return Err(Error::ByForce { called: volume });
            }
            Ok(opened) => opened,
            Err(error) => match pools.named(pool_of(&volume))? {
                None if force && error.force_helps() => {
                    return Err(Error::ForcedIsRead { called: volume });
                }
                None => return Err(error),
                Some(found) if !force && !pools.forced_below(found).is_empty() => {
                    return Err(Error::ByForce { called: volume });
                }
                Some(_) if read_only => {
                    let (_, device) = self.session.volume(&volume)?;
                    self.read.push(OnlyRead::OfPool(volume));
                    return Ok((Rc::new(device), false));
                }
                Some(found) => {
                    let found = Rc::clone(found);
                    return Ok((self.open_in_pool(&found, volume, force)?, false));
                }
            },
        };
        if read_only && opened.read_only.is_some() {
            // Who writes was told when the set was opened.
            pools.disks().tell_left_out(&volume)?;
        }
        let lacks = opened.tell_lacking(&volume, pools.disks().context().events());
        match opened.read_only {
            _ if read_only => self.read.push(OnlyRead::Volume(volume)),
            None => {}
            Some(why) => {
                return Err(Error::NotWritable { volume, why });
            }
        }
        Ok((opened.device, lacks))
    }

    /// A pool for writing, opened once.
    pub(super) fn open_pool(
        &mut self,
        found: &Rc<FoundPool>,
        force: bool,
    ) -> Result<Rc<Live>, Error> {
        let pools = &self.session.pools;
        let place = match self.live.entry(found.name.clone()) {
            Entry::Occupied(place) => return Ok(Rc::clone(&place.get().live)),
            Entry::Vacant(place) => place,
        };
        check_not_in_use(pools, found, force)?;
        let how = Opening::default();
        check_nothing_lost(pools, found, how)?;
        pools.check_writable(found)?;
        let files = pools.paths_of(found);
        let live = open_live(pools, found, None, how)?;
        Ok(Rc::clone(&place.insert(HeldBy::new(pools, live, files)).live))
    }

    /// A volume of a pool, for writing.
    fn open_in_pool(
        &mut self,
        found: &Rc<FoundPool>,
        volume: String,
        force: bool,
    ) -> Result<DeviceRef, Error> {
        if volume.contains('@') {
            return Err(Error::NotWritable { volume, why: "a snapshot never changes".into() });
        }
        let live = self.open_pool(found, force)?;
        let pools = &self.session.pools;
        let called = within(live.spa(), &volume).into_owned();
        let opened = pools.wait(async move {
            let Some(node) = live.spa().catalog(0).await?.find(&called).await? else {
                return Ok(None);
            };
            let is_volume = node.kind == Kind::Volume;
            let is_read_only = set_number(&node, "readonly").unwrap_or(0) != 0;
            match is_volume && !is_read_only {
                true => Ok(Some((is_volume, Some(LiveVolume::open(&live, &node).await?)))),
                false => Ok(Some((is_volume, None))),
            }
        });
        let failed = |error: ZfsError| {
            let name = volume.clone();
            Error::CannotOpen { name, error: Box::new(error) }
        };
        match opened.map_err(failed)? {
            None => Err(Error::NoDataset { name: volume }),
            Some((false, _)) => Err(Error::IsFileSystem { dataset: volume }),
            Some((true, None)) => {
                Err(Error::NotWritable { volume, why: "its property readonly is on".into() })
            }
            Some((true, Some(opened))) => Ok(Rc::new(opened)),
        }
    }

    fn tell(&self, event: Event) {
        self.session.pools.disks().context().tell(event);
    }

    /// Where this process writes to it itself its clients are to know.
    fn keep_off_file(&self, file: &FileDevice) {
        let name = file.name();
        let path = Path::new(&*name);
        let is_own = Identity::of(path).is_ok_and(|identity| self.written.contains(&identity));
        if !is_own && !self.session.pools.disks().is_writing(path) && !file.keep_writers_off() {
            self.tell(Event::WrittenElsewhere { path: path.into() });
        }
    }

    /// The pool that is written and that a name begins with, where what is called so is not something else.
    fn pool_written(&self, called: &str) -> Result<Option<&HeldBy>, Error> {
        let pools = &self.session.pools;
        if pools.disks().volume(called).is_ok() {
            return Ok(None);
        }
        let found = pools.named(pool_of(called))?;
        Ok(found.and_then(|found| self.live.get(&found.name)))
    }

    /// What each of those lies on that is no part of a pool that is written: exports on the devices, and datasets of these names.
    fn others_lie_on(&self, mounted: &[String]) -> Result<BTreeSet<Whole>, Error> {
        let pools = &self.session.pools;
        let mut all = BTreeSet::new();
        let exported = self.on_devices.iter().map(|(_, volume)| volume);
        for called in exported.chain(mounted) {
            if self.pool_written(called)?.is_some() {
                continue;
            }
            all.extend(pools.disks().lies_on(called)?);
            if let Some(found) = pools.named(pool_of(called))? {
                all.extend(pools.lies_on(found));
            }
        }
        Ok(all)
    }

    /// The pools that are written, by name, each with its exports put down; these datasets are mounted besides.
    ///
    /// # Errors
    /// Several have a name.
    pub(super) fn pools(&self, mounted: &[String]) -> Result<Vec<OpenPool>, Error> {
        for (export, volume) in &self.on_devices {
            if let Some(pool) = self.pool_written(volume)? {
                pool.exports.put(export);
            }
        }
        let pools = &self.session.pools;
        let others = self.others_lie_on(mounted)?;
        let mut below = Vec::new();
        for (name, pool) in &self.live {
            let found = pools.found.iter().find(|found| found.name == *name);
            let found = found.expect("it was opened as it was found");
            below.push((pool.clone(), pools.lies_on(found), pools.writing(found).sets().collect()));
        }
        let of = |n: usize, (pool, lies_on, sets): &(HeldBy, BTreeSet<Whole>, Vec<Uuid>)| {
            let rest = below.iter().enumerate().filter(|(m, _)| *m != n);
            let mut rest = rest.map(|(_, (_, lies_on, _))| lies_on).chain([&others]);
            let is_apart = rest.all(|others| others.is_disjoint(lies_on));
            OpenPool { pool: pool.clone(), sets: sets.clone(), is_apart, socket: pool.socket() }
        };
        Ok(below.iter().enumerate().map(|(n, one)| of(n, one)).collect())
    }

    /// Keeps writers off what is only read. After all is open: what this process writes to itself is not in its own way; again where it
    /// writes to less.
    pub(super) fn keep_writers_off(&self) -> Result<(), Error> {
        let pools = &self.session.pools;
        for read in &self.read {
            match read {
                OnlyRead::File(file) => self.keep_off_file(file),
                OnlyRead::Volume(volume) => pools.disks().keep_writers_off(volume)?,
                OnlyRead::OfPool(volume) => {
                    let pool = pools.named(pool_of(volume))?;
                    let pool = pool.filter(|pool| !self.live.contains_key(&pool.name));
                    let devices = pool.iter().flat_map(|pool| pool.members.values());
                    let devices = devices.map(|member| &member.device);
                    pools.disks().keep_writers_off_devices(devices);
                }
            }
        }
        Ok(())
    }
}

/// What lies below pools that are to be written: those of these names, and those of volumes.
fn below_pools(
    events: &Events,
    devices: &[PathBuf],
    options: OpenOptions,
    written: &[Written],
    held: &[Held],
) -> Result<Writing, Error> {
    let mut writing = Writing::default();
    if held.is_empty() && !written.iter().any(|written| may_be_of_pool(&written.volume)) {
        return Ok(writing);
    }
    let pools = Pools::over(Disks::open(events, devices)?, options);
    let mut take = |found: &Rc<FoundPool>| {
        if options.txg.is_some() || options.checkpoint {
            return Err(Error::OldAndWritten { name: found.name.clone() });
        }
        refuse_held(&pools, found)?;
        writing.add(pools.writing(found));
        Ok(())
    };
    for Held { pool, .. } in held {
        let found = pools.named(pool)?.ok_or_else(|| Error::NoPool { name: pool.clone() })?;
        take(found)?;
    }
    for Written { volume, .. } in written {
        if let Some(found) = pool_of_volume(&pools, volume)? {
            take(&found)?;
        }
    }
    Ok(writing)
}

/// Whether a volume's name may be that of one of a pool.
fn may_be_of_pool(called: &str) -> bool {
    called.contains('/') && !called.contains('@')
}

/// The pool that a volume is of; nothing for one that is something else.
pub(super) fn pool_of_volume(pools: &Pools, volume: &str) -> Result<Option<Rc<FoundPool>>, Error> {
    if !may_be_of_pool(volume) || !pools.disks().lies_on(volume)?.is_empty() {
        return Ok(None);
    }
    Ok(pools.named(pool_of(volume))?.cloned())
}

/// A pool that is to be held for writing, whatever of it is served.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) pool: String,
    pub(super) force: bool,
}

/// What is to be opened.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) exports: Vec<ExportSettings>,
    pub(super) held: Vec<Held>,
    /// Pools are looked for, though no export needs one.
    pub(super) reads_pools: bool,
}

/// Whether force was said of the export of this volume.
fn is_forced(exports: &[ExportSettings], volume: &str) -> bool {
    exports.iter().any(|settings| settings.force && settings.volume.as_deref() == Some(volume))
}

/// Opens what is to be served, and the sets below it, which the session's disks have to be [taken](Disks::take_live) of. Where several executors of this process do so, each sees what the
/// others write to as if another process did: they say no notes.
///
/// # Errors
/// What can't be opened.
pub(super) fn open(
    events: &Events,
    devices: &[PathBuf],
    wanted: Wanted,
    options: OpenOptions,
    view: &View,
    says_notes: bool,
) -> Result<Served, Error> {
    let Wanted { exports, held, reads_pools } = wanted;
    let wants_volumes =
        reads_pools || !held.is_empty() || exports.iter().any(|settings| settings.volume.is_some());
    let disks = match wants_volumes {
        true => {
            let written: Vec<Written> =
                exports.iter().filter_map(ExportSettings::written).collect();
            let mut besides = below_pools(events, devices, options, &written, &held)?;
            besides.add(Writing::nothing(exports.iter().any(ExportSettings::is_by_force)));
            let disks = Disks::open_for(events, devices, &written, besides);
            let disks = disks.map_err(|error| match error {
                Error::Refused { called, force_helps: true, .. }
                    if is_forced(&exports, &called) =>
                {
                    Error::ForcedIsRead { called }
                }
                error => error,
            })?;
            if says_notes {
                disks.tell_complaints();
            }
            disks
        }
        false => Disks::open_files(events, &[], true)?,
    };
    let session = Session::over(Pools::over(disks, options), view);
    if says_notes {
        session.pools.tell_of_members();
    }
    let (exports_open, read, written, live, on_devices, past_damage) = Default::default();
    let mut served =
        Served { session, exports: exports_open, read, written, live, on_devices, past_damage };
    for Held { pool, force } in &held {
        let found = served.session.pools.named(pool)?;
        let found = Rc::clone(found.ok_or_else(|| Error::NoPool { name: pool.clone() })?);
        served.open_pool(&found, *force)?;
    }
    exports.into_iter().try_for_each(|settings| served.open(settings))?;
    served.keep_writers_off()?;
    Ok(served)
}
