//! Disk images of whose partitions something is written.
//!
//! The writer's lock is on a whole file, and a member of a set on one of its partitions. So an image is open once for all that is
//! written there by one process, be it members of one set or of several; other processes are kept off all of it.

use crate::error::Error;
use host::{FileDevice, FileOptions, Host, Identity};
use std::cell::RefCell;
use std::path::Path;
use std::rc::{Rc, Weak};

/// Those that are open now.
#[derive(Default)]
pub struct Images(RefCell<Vec<(Identity, Weak<FileDevice>)>>);

impl Images {
    /// The image at a path, open for writing for as long as somebody has it.
    ///
    /// # Errors
    /// Where it can't be opened, or another process uses it.
    pub fn open(&self, host: &Host, path: &Path) -> Result<Rc<FileDevice>, Error> {
        let mut open = self.0.borrow_mut();
        open.retain(|(_, image)| image.upgrade().is_some_and(|image| !image.is_closed()));
        let identity = Identity::of(path).ok();
        let known = open.iter().find(|(own, _)| Some(*own) == identity);
        if let Some(image) = known.and_then(|(_, image)| image.upgrade()) {
            return Ok(image);
        }
        let options = FileOptions { direct: false, read_only: false };
        let image = Rc::new(FileDevice::open(host, path, options).map_err(Error::Named)?);
        open.extend(identity.map(|identity| (identity, Rc::downgrade(&image))));
        Ok(image)
    }
}
