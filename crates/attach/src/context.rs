//! Where things are attached: an executor on this host's disks, and who is told what happens there.

use crate::error::Error;
use crate::event::{Event, Events};
use crate::mount_directories::Directories;
use ::md::superblock::Uuid;
use host::{HostRuntime, ReactorKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;

/// See the [module](self). It belongs to the thread that made it.
pub struct Context {
    runtime: HostRuntime,
    events: Events,
    /// What the sets are called that were seen.
    names: RefCell<BTreeMap<Uuid, String>>,
    directories: Directories,
}

impl Context {
    /// An executor for this thread.
    ///
    /// # Errors
    /// Where none can be made.
    pub fn new(events: &Events) -> Result<Context, Error> {
        let runtime = HostRuntime::new(ReactorKind::Auto)?;
        let (names, directories) = Default::default();
        Ok(Context { runtime, events: events.clone(), names, directories })
    }

    /// Who is told.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// What is mounted here.
    pub fn directories(&self) -> &Directories {
        &self.directories
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

    /// A set was seen that is called so: errors name it by that from now on.
    pub fn know(&self, set: Uuid, name: String) {
        self.names.borrow_mut().insert(set, name);
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
