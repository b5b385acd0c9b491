//! What is to be served, opened, with the sets below it.

use crate::disks::{Disks, Written};
use crate::error::Error;
use crate::event::{Event, Events};
use crate::pools::{Pools, Session, View, pool_of};
use ::md::live::LiveArray;
use ::zfs::spa::OpenOptions;
use export::nbd::Export;
use host::{FileDevice, Identity};
use rt::{Device, DeviceRef};
use serde::Deserialize;
use std::collections::BTreeSet;
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
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => wrong("give it either path or volume"),
        }
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
}

/// What is only read, for writers to be kept off.
pub(super) enum OnlyRead {
    File(Rc<FileDevice>),
    Volume(String),
    /// A ZFS volume of this pool.
    OfPool(String),
}

impl Served {
    fn open(&mut self, settings: ExportSettings) -> Result<(), Error> {
        let ExportSettings { name, path, volume, readonly: read_only, description, .. } = settings;
        let device = match (path, volume) {
            (Some(path), _) => self.open_path(&path, read_only)?,
            (_, Some(volume)) => self.open_volume(volume, read_only)?,
            _ => unreachable!("one of them was given"),
        };
        self.exports.push(Export { name, description, device, read_only });
        Ok(())
    }

    fn open_path(&mut self, path: &Path, read_only: bool) -> Result<DeviceRef, Error> {
        let host = self.session.pools.disks().context().host();
        let device = FileDevice::open_to_the_byte(&host, path, read_only);
        let device = Rc::new(device?);
        if let Ok(Some(content)) = host::probe::content(path)
            && content.what.starts_with(MEMBER)
            && !read_only
        {
            self.tell(Event::MemberServed { path: path.into(), what: content.what });
        }
        match read_only {
            true => self.read.push(OnlyRead::File(Rc::clone(&device))),
            false => self.written.extend(Identity::of(path)),
        }
        Ok(device)
    }

    fn open_volume(&mut self, volume: String, read_only: bool) -> Result<DeviceRef, Error> {
        let pools = &self.session.pools;
        let opened = match pools.disks().volume(&volume) {
            Ok(opened) => opened,
            Err(error) => match pools.named(pool_of(&volume))? {
                None => return Err(error),
                Some(_) if read_only => {
                    let (_, device) = self.session.volume(&volume)?;
                    self.read.push(OnlyRead::OfPool(volume));
                    return Ok(Rc::new(device));
                }
                Some(_) => {
                    return Err(Error::OnlyReadable { volume });
                }
            },
        };
        match opened.read_only {
            _ if read_only => self.read.push(OnlyRead::Volume(volume)),
            None => {}
            Some(why) => {
                return Err(Error::NotWritable { volume, why });
            }
        }
        Ok(opened.device)
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

    /// Keeps writers off what is only read. After all is open: what this process writes to itself is not in its own way.
    fn keep_writers_off(&self) -> Result<(), Error> {
        let pools = &self.session.pools;
        for read in &self.read {
            match read {
                OnlyRead::File(file) => self.keep_off_file(file),
                OnlyRead::Volume(volume) => pools.disks().keep_writers_off(volume)?,
                OnlyRead::OfPool(volume) => {
                    let pool = pools.named(pool_of(volume))?;
                    let devices = pool.iter().flat_map(|pool| pool.members.values());
                    let devices = devices.map(|member| &member.device);
                    pools.disks().keep_writers_off_devices(devices);
                }
            }
        }
        Ok(())
    }
}

/// Opens what is to be served, and the sets below it. Where several executors of this process do so, each sees what the
/// others write to as if another process did: they say no notes.
///
/// # Errors
/// What can't be opened.
pub(super) fn open(
    events: &Events,
    devices: &[PathBuf],
    exports: Vec<ExportSettings>,
    options: OpenOptions,
    view: &View,
    says_notes: bool,
) -> Result<(Served, Vec<LiveArray>), Error> {
    let wants_volumes = exports.iter().any(|settings| settings.volume.is_some());
    let mut disks = match wants_volumes {
        true => {
            let written: Vec<Written> =
                exports.iter().filter_map(ExportSettings::written).collect();
            let disks = Disks::open_for(events, devices, &written)?;
            if says_notes {
                disks.tell_complaints();
            }
            disks
        }
        false => Disks::open_files(events, &[], true)?,
    };
    let live = disks.take_live();
    let session = Session::over(Pools::over(disks, options), view);
    let (exports_open, read, written) = Default::default();
    let mut served = Served { session, exports: exports_open, read, written };
    exports.into_iter().try_for_each(|settings| served.open(settings))?;
    served.keep_writers_off()?;
    Ok((served, live))
}
