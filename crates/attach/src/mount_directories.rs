//! The directories that one process has mounted: none is in another.

use crate::error::Error;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// See the [module](self). All of them have the same ones.
#[derive(Clone, Default)]
pub struct Directories(Rc<RefCell<Vec<PathBuf>>>);

impl Directories {
    /// Takes one, as long as the answer is there.
    pub(crate) fn take(&self, directory: &Path) -> Taken {
        self.0.borrow_mut().push(directory.to_owned());
        Taken(self.clone(), directory.to_owned())
    }

    /// Refuses one that is in another, or has one in it.
    ///
    /// # Errors
    /// It does.
    pub(crate) fn check(&self, directory: &Path) -> Result<(), Error> {
        let taken = self.0.borrow();
        let outer = taken.iter().find(|taken| directory.starts_with(taken));
        let inner = taken.iter().find(|taken| taken.starts_with(directory));
        let within = |inner: &Path, outer: &Path| Error::MountWithin {
            inner: inner.to_owned(),
            outer: outer.to_owned(),
        };
        match (outer, inner) {
            (Some(outer), _) => Err(within(directory, outer)),
            (_, Some(inner)) => Err(within(inner, directory)),
            (None, None) => Ok(()),
        }
    }
}

/// A directory that is mounted on.
pub(crate) struct Taken(Directories, PathBuf);

impl Drop for Taken {
    fn drop(&mut self) {
        let mut all = self.0.0.borrow_mut();
        if let Some(at) = all.iter().position(|directory| *directory == self.1) {
            all.remove(at);
        }
    }
}
