//! Where things are attached: an executor on this host's disks, and who is told what happens there.
//!
//! **A cover** ([`host::cover`]) keeps all that is written from the devices: changes are made in memory, and forgotten with the context.
//! So a command is tried out ([`dry_run`]), and a pool is looked at as it is after its intent logs are replayed.

use crate::error::Error;
use crate::event::{Event, Events};
use crate::mount_directories::Directories;
use crate::sets::images::Images;
use ::md::superblock::Uuid;
use host::{Address, HostRuntime, Identity, ReactorKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::ByteCount;

/// Memory for what is written to devices that are covered. A change of metadata takes some MiB; who tries out to copy much more than this hears
/// that no space is left.
pub const COVER_BYTES_MAX: ByteCount = ByteCount(2 << 30);

/// Whether this process tries its command out. Of all that it opens, so that no way to a device is forgotten.
static DRY_RUN: AtomicBool = AtomicBool::new(false);

/// From now on nothing that this process writes reaches a device: each [`Context`] that it makes is covered.
pub fn dry_run() {
    DRY_RUN.store(true, Ordering::Relaxed);
}

/// Devices that may not be read and are named: a folder like /dev has many.
const DENIED_SHOWN_MAX: usize = 4;

/// Whether an address is of this host by itself, and has the port of another that is listened at.
fn is_here(own: &str, given: &str) -> bool {
    let (Some((_, port)), Some((host, wanted))) = (own.rsplit_once(':'), given.rsplit_once(':'))
    else {
        return false;
    };
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    port == wanted
        && (host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified()))
}

/// See the [module](self). It belongs to the thread that made it.
pub struct Context {
    runtime: HostRuntime,
    events: Events,
    /// What the sets are called that were seen.
    names: RefCell<BTreeMap<Uuid, String>>,
    directories: Directories,
    images: Images,
    /// What lies in the folders that were named, and may not be read.
    denied: RefCell<Vec<PathBuf>>,
    /// Where clients of NBD are served.
    listens: RefCell<Vec<Address>>,
}

impl Context {
    /// An executor for this thread.
    ///
    /// # Errors
    /// Where none can be made.
    pub fn new(events: &Events) -> Result<Context, Error> {
        match DRY_RUN.load(Ordering::Relaxed) {
            true => Context::covered(events),
            false => Context::over(HostRuntime::new(ReactorKind::Auto)?, events),
        }
    }

    /// One from which nothing that is written reaches a device.
    ///
    /// # Errors
    /// Where none can be made.
    pub fn covered(events: &Events) -> Result<Context, Error> {
        let mut runtime = HostRuntime::new(ReactorKind::Auto)?;
        runtime.cover(COVER_BYTES_MAX);
        Context::over(runtime, events)
    }

    fn over(runtime: HostRuntime, events: &Events) -> Result<Context, Error> {
        let (names, directories, images, denied, listens) = Default::default();
        let events = events.clone();
        Ok(Context { runtime, events, names, directories, images, denied, listens })
    }

    /// Who is told.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// What is mounted here.
    pub fn directories(&self) -> &Directories {
        &self.directories
    }

    /// Disk images of whose partitions something is written here.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Tells what happened.
    pub fn tell(&self, event: Event) {
        self.events.tell(event);
    }

    /// Runs I/O to its end.
    ///
    /// # Errors
    /// Those of the I/O.
    pub fn finish<T: 'static, E: 'static>(
        &self,
        io: impl Future<Output = Result<T, E>> + 'static,
    ) -> Result<T, Error>
    where
        Error: From<E>,
    {
        let done = self.runtime.runtime().block_on(io).expect("I/O on a real device ends");
        done.map_err(|error| self.naming(error.into()))
    }

    /// Clients of NBD are served at these addresses.
    pub(crate) fn listens_at(&self, addresses: impl Iterator<Item = Address>) {
        self.listens.borrow_mut().extend(addresses);
    }

    /// Whether an export is served at this address from here. Of one by TCP that is known where the address is the one that is listened at, or
    /// one that stays in this host.
    pub(crate) fn serves_at(&self, address: &Address) -> bool {
        self.listens.borrow().iter().any(|own| match (own, address) {
            (Address::Unix(own), Address::Unix(given)) => {
                own == given
                    || Identity::of(own)
                        .ok()
                        .is_some_and(|own| Identity::of(given).ok() == Some(own))
            }
            (Address::Tcp(own), Address::Tcp(given)) => own == given || is_here(own, given),
            _ => false,
        })
    }

    /// This may not be read, and the rest is looked at without it.
    pub fn passed_denied(&self, path: &Path) {
        let mut denied = self.denied.borrow_mut();
        if !denied.iter().any(|known| known == path) {
            denied.push(path.to_owned());
        }
    }

    /// What may not be read, in words; nothing where all could be. Who only lists what is there fails then: more may be.
    pub fn denied(&self) -> Option<String> {
        let denied = self.denied.borrow();
        let shown: Vec<String> =
            denied.iter().take(DENIED_SHOWN_MAX).map(|path| path.display().to_string()).collect();
        let more = match denied.len().saturating_sub(shown.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!shown.is_empty()).then(|| {
            format!(
                "{}{more}: permission denied, so what lies there is not known{}",
                shown.join(", "),
                host::mend_of_denied()
            )
        })
    }

    /// A set was seen that is called so: errors name it by that from now on.
    pub fn know(&self, set: Uuid, name: String) {
        self.names.borrow_mut().insert(set, name);
    }

    /// What commands call a set of this name: by that where it is the only one of it that was seen, else by its UUID.
    pub fn called(&self, set: Uuid, name: &str) -> String {
        let names = self.names.borrow();
        let is_alone = !names.iter().any(|(other, known)| *other != set && known == name);
        if is_alone { name.to_owned() } else { set.to_string() }
    }

    /// The error, with sets by their names.
    pub fn naming(&self, error: Error) -> Error {
        let names = self.names.borrow();
        names.iter().fold(error, |error, (set, name)| error.naming(*set, name))
    }
}

impl Deref for Context {
    type Target = HostRuntime;

    fn deref(&self) -> &HostRuntime {
        &self.runtime
    }
}
