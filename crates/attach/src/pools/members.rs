//! Devices that are to be parts of a pool, as words name them.
//!
//! ```text
//!   a path                 the file or block device there, wherever it lies
//!   nbd://… nbd+unix://…   an export of an NBD server
//!   any other name         a volume on the devices of -d: a RAID set, SET:N or DEVICE:N, GROUP/VOLUME
//! ```
//!
//! Whatever a device is, what it holds is looked for before it is overwritten, and nobody is overwritten twice: two of which one
//! lies on the other, or on what the pool has already, are refused. What is put together of several (a set, a volume of a group) is opened
//! with all that it lies on, once; where the pool that it is added to has that open already, it is opened there.

use super::find::{PoolPlace, Pools};
use super::fresh::HostFresh;
use crate::context::Context;
use crate::disks::{Disks, Remote, Written};
use crate::error::Error;
use crate::event::Events;
use crate::expendable::{check_distinct, check_expendable, check_expendable_device};
use crate::paths::{may_name_volume, named};
use crate::uri::{Uri, is_uri};
use ::host::expendable::NotExpendable;
use ::host::identity::overlap;
use ::host::probe::ProbeError;
use ::host::{FileDevice, FileOptions};
use ::zfs::dsl::make::Fresh;
use ::zfs::spa::create::{self, NewPool};
use ::zfs::spa::{Member, PoolState, member_on};
use rt::DeviceRef;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::ByteCount;

/// Why a device may not be overwritten, with the pool where it is a part of one, or that it isn't there. One of a pool that was destroyed may.
fn naming_pool(error: Error, member: impl FnOnce() -> Option<Member>) -> Result<(), Error> {
    let (path, content) = match error {
        Error::Holds(NotExpendable::Holds { path, content }) => (path, content),
        Error::Probe(ProbeError { path, error }) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::NoDevice { path });
        }
        error => return Err(error),
    };
    let pool = member().filter(|member| member.txg != 0).and_then(|member| {
        let name = member.config.text("name").ok().flatten()?.to_string();
        Some((member.state, name))
    });
    let (how, pool) = match pool {
        Some((PoolState::Destroyed, _)) => return Ok(()),
        Some((PoolState::Active, pool)) => ("potentially active", pool),
        Some((PoolState::Exported, pool)) => ("exported", pool),
        _ => return Err(Error::Holds(NotExpendable::Holds { path, content })),
    };
    Err(Error::HoldsMember { path, how, pool })
}

/// A device that is to be a part of a pool.
pub struct NewMember {
    /// As it stands in the labels.
    pub path: PathBuf,
    /// How long.
    pub bytes: ByteCount,
    /// Whether it is no file.
    pub is_disk: bool,
    /// Its number.
    pub guid: u64,
    pub(super) device: DeviceRef,
    /// The files whose locks and identities stand for it.
    pub(super) files: Vec<PathBuf>,
}

/// What a word names.
enum Word {
    /// A file or block device.
    Path(PathBuf),
    /// On the devices, or an export.
    Volume(String),
}

/// Devices that a command names to be overwritten. See the [module](self).
pub struct Wanted {
    words: Vec<Word>,
    /// Where volumes lie.
    places: Vec<PathBuf>,
    force: bool,
}

impl Wanted {
    /// What these words name.
    pub fn of(place: &PoolPlace<'_>, words: &[PathBuf], force: bool) -> Wanted {
        let mut places = named(place.devices);
        let has_places = !places.is_empty();
        places.extend(words.iter().filter(|word| is_uri(word)).map(|word| place.path(word)));
        let words = words.iter().map(|word| Wanted::word(place, word, has_places)).collect();
        Wanted { words, places, force }
    }

    fn word(place: &PoolPlace<'_>, word: &Path, has_places: bool) -> Word {
        let path = place.path(word);
        match word.to_str() {
            Some(_) if is_uri(word) => Word::Volume(path.to_string_lossy().into_owned()),
            Some(name) if has_places && !path.exists() && may_name_volume(word) => {
                Word::Volume(match name.rsplit_once(':') {
                    // Where the command was given.
                    Some((of, number)) if place.path(Path::new(of)).exists() => {
                        format!("{}:{number}", place.path(Path::new(of)).display())
                    }
                    _ => name.to_owned(),
                })
            }
            _ => Word::Path(path),
        }
    }

    fn volumes(&self) -> impl Iterator<Item = &str> {
        self.words.iter().filter_map(|word| match word {
            Word::Volume(volume) => Some(volume.as_str()),
            Word::Path(_) => None,
        })
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.words.iter().filter_map(|word| match word {
            Word::Path(path) => Some(path.as_path()),
            Word::Volume(_) => None,
        })
    }

    /// Refuses those that are parts already of a pool of this name that lies on these files; `apart` are the GUIDs of its spares and
    /// cache devices.
    ///
    /// # Errors
    /// One is, or holds something and nobody forces it, or is given twice.
    pub fn check_against(
        &self,
        pools: &Pools,
        (pool, mut own): (&str, Vec<PathBuf>),
        apart: &[u64],
    ) -> Result<(), Error> {
        let its = || pools.auxiliary.iter().filter(move |member| apart.contains(&member.guid));
        own.extend(its().map(|member| PathBuf::from(&*member.device.name())));
        for path in self.paths() {
            if own.iter().any(|file| overlap(file, path)) {
                return Err(Error::IsMember { path: path.to_owned(), pool: pool.to_owned() });
            }
        }
        self.check_paths()?;
        let disks = pools.disks();
        for volume in self.volumes().filter(|volume| disks.volume(volume).is_ok()) {
            let found = pools.found.iter().filter(|found| found.name == pool);
            let members = found.flat_map(|found| found.members.values());
            let devices = members.chain(its()).map(|member| &member.device);
            if disks.shares_with(volume, devices)? {
                return Err(Error::IsMember { path: volume.into(), pool: pool.to_owned() });
            }
        }
        Ok(())
    }

    /// Whether they could be made parts of a pool: what they hold is looked at, and nothing is opened for writing.
    ///
    /// # Errors
    /// As of [`Wanted::open`].
    pub fn look(&self, pools: &Pools) -> Result<(), Error> {
        self.check_paths()?;
        if self.volumes().next().is_none() {
            return Ok(());
        }
        let looked = self.looked(pools.disks().shared_context())?;
        let mut all = self.volumes().enumerate();
        all.try_for_each(|(n, volume)| self.check_volume(&looked, n, volume))
    }

    /// What can be told of files and block devices before any is opened.
    fn check_paths(&self) -> Result<(), Error> {
        let paths: Vec<&Path> = self.paths().collect();
        for (n, path) in paths.iter().enumerate() {
            check_distinct(path, paths[..n].iter().copied())?;
            check_expendable(path, self.force).or_else(|error| {
                let paths = [(*path).to_owned()];
                let member = || {
                    let disks = Disks::open_files(&Events::unheard(), &paths, true).ok()?;
                    let device = Rc::clone(disks.files.first()?);
                    disks.wait(async move { member_on(&device).await })
                };
                naming_pool(error, member)
            })?;
        }
        Ok(())
    }

    /// Looks at what lies where they are.
    fn looked(&self, context: &Rc<Context>) -> Result<Disks, Error> {
        // One that isn't served is a device that is missing, where nobody names it to be written.
        for export in self.volumes().map(Path::new).filter(|volume| is_uri(volume)) {
            drop(Remote::open(context, export, true)?);
        }
        Disks::open_beside(context, &self.places)
    }

    /// Whether a volume may be overwritten beside the others.
    fn check_volume(&self, disks: &Disks, n: usize, volume: &str) -> Result<(), Error> {
        for other in self.volumes().take(n) {
            let shares = match disks.volume(other) {
                Ok(_) => disks.share(volume, other)?,
                // It is open elsewhere, and so lies on other files.
                Err(_) => volume == other,
            };
            match shares {
                true if volume == other => return Err(Error::Twice { path: volume.into() }),
                true => return Err(Error::Shared { one: other.into(), other: volume.into() }),
                false => {}
            }
        }
        let below = disks.paths_below(volume)?;
        for path in self.paths() {
            if below.iter().any(|file| overlap(file, path)) {
                return Err(Error::Shared { one: path.to_owned(), other: volume.into() });
            }
        }
        let device = disks.volume(volume)?.device;
        let checked = check_expendable_device(disks.context(), &device, volume, self.force);
        checked.or_else(|error| {
            naming_pool(error, || disks.wait(async move { member_on(&device).await }))
        })
    }

    /// Those that the disks don't have open for writing, opened. All volumes are looked at before.
    fn open_disks(
        &self,
        context: &Rc<Context>,
        own: Option<&Disks>,
    ) -> Result<Option<Disks>, Error> {
        let has = |volume: &str| own.is_some_and(|own| is_written(own, volume));
        let missing = self.volumes().filter(|volume| !has(volume));
        let missing: Vec<Written> =
            missing.map(|volume| Written { volume: volume.to_owned(), run: false }).collect();
        let looked = match missing.is_empty() {
            true => None,
            false => Some(self.looked(context)?),
        };
        for (n, volume) in self.volumes().enumerate() {
            let disks = own.filter(|own| is_written(own, volume)).or(looked.as_ref());
            self.check_volume(disks.expect("looked at"), n, volume)?;
        }
        looked.map(|looked| looked.again_for(&self.places, &missing)).transpose()
    }

    /// Opens them for writing, in order, beside a pool's.
    ///
    /// # Errors
    /// One holds something and nobody forces it, is given twice, or can't be opened.
    pub fn open(
        &self,
        pools: &Pools,
        fresh: &dyn Fresh,
    ) -> Result<(Vec<NewMember>, Option<Disks>), Error> {
        self.open_on(pools.disks().shared_context(), Some(pools.disks()), fresh)
    }

    fn open_on(
        &self,
        context: &Rc<Context>,
        own: Option<&Disks>,
        fresh: &dyn Fresh,
    ) -> Result<(Vec<NewMember>, Option<Disks>), Error> {
        self.check_paths()?;
        for volume in self.volumes().filter(|volume| is_uri(Path::new(volume))) {
            if context.serves_at(&Uri::of(Path::new(volume))?.address) {
                return Err(Error::OwnExport { uri: volume.to_owned() });
            }
        }
        let more = self.open_disks(context, own)?;
        let mut members = Vec::new();
        for word in &self.words {
            let guid = fresh.number();
            members.push(match word {
                Word::Path(path) => Wanted::open_path(context, path, guid)?,
                Word::Volume(volume) => {
                    let disks = own.filter(|own| is_written(own, volume)).or(more.as_ref());
                    let disks = disks.expect("what the pool's own don't have was opened");
                    Wanted::open_volume(disks, volume, guid)?
                }
            });
        }
        Ok((members, more))
    }

    fn open_path(context: &Context, path: &Path, guid: u64) -> Result<NewMember, Error> {
        let options = FileOptions { direct: false, read_only: false };
        let device = FileDevice::open(&context.host(), path, options).map_err(Error::Named)?;
        let device: DeviceRef = Rc::new(device);
        let bytes = device.geometry().capacity;
        let is_disk = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(NewMember { files: vec![path.clone()], path, bytes, is_disk, guid, device })
    }

    fn open_volume(disks: &Disks, volume: &str, guid: u64) -> Result<NewMember, Error> {
        let opened = disks.volume(volume)?;
        if let Some(why) = opened.read_only {
            return Err(Error::NotWritableVolume { device: volume.to_owned(), why });
        }
        let (path, files) = (disks.label_path(volume)?, disks.paths_below(volume)?);
        let bytes = opened.device.geometry().capacity;
        Ok(NewMember { path, bytes, is_disk: true, guid, device: opened.device, files })
    }
}

/// Whether disks have a volume open for writing.
fn is_written(disks: &Disks, volume: &str) -> bool {
    disks.volume(volume).is_ok_and(|found| found.read_only.is_none())
}

/// Devices that are to be a pool.
pub struct NewMembers {
    context: Rc<Context>,
    /// They.
    pub members: Vec<NewMember>,
    /// What makes it new.
    pub fresh: Rc<dyn Fresh>,
    /// What of them is put together of several.
    disks: Option<Disks>,
}

impl NewMembers {
    /// Opens devices for writing, in order, each once.
    ///
    /// # Errors
    /// One holds something and nobody forces it, is given twice, or can't be opened.
    pub fn open(
        place: &PoolPlace<'_>,
        words: &[PathBuf],
        force: bool,
    ) -> Result<NewMembers, Error> {
        let context = Rc::new(Context::new(&place.events)?);
        let fresh: Rc<dyn Fresh> = Rc::new(HostFresh::new(place.command.as_deref())?);
        let wanted = Wanted::of(place, words, force);
        let (members, disks) = wanted.open_on(&context, None, &*fresh)?;
        Ok(NewMembers { context, members, fresh, disks })
    }

    /// Makes a pool of them.
    ///
    /// # Errors
    /// It can't be written.
    pub fn create(&self, new: NewPool) -> Result<(), Error> {
        let name = new.name.clone();
        let all = self.members.iter();
        let devices: BTreeMap<u64, DeviceRef> =
            all.map(|member| (member.guid, Rc::clone(&member.device))).collect();
        let (rt, fresh) = (self.context.rt(), Rc::clone(&self.fresh));
        let making = async move { create::create(&rt, new, &devices, &fresh).await };
        let made = self.context.runtime().block_on(making)?;
        made.map_err(|error| Error::NotCreated { name, error: Box::new(error) })?;
        self.leave()
    }

    /// Lets go of what they lie on.
    ///
    /// # Errors
    /// A set below can't be stopped.
    pub fn leave(&self) -> Result<(), Error> {
        self.disks.as_ref().map_or(Ok(()), Disks::stop)
    }
}
