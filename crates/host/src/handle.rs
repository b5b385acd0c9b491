//! The files of devices, which can be closed before the devices are dropped.
//!
//! A device is shared by whatever lies on it, and is closed when all that is gone: when a program ends. Who gives up a part of what it has
//! open earlier, for another process to have it, closes the files themselves ([`Host::close_writers`](crate::Host::close_writers)): their locks and exclusive use go
//! with them, whoever still knows the devices, and finds them [gone](rt::IoErrorKind::Gone).

use crate::identity::same;
use crate::operation::OpenFile;
use std::cell::{Ref, RefCell};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A file that is open until it is closed.
pub(crate) struct Handle {
    path: PathBuf,
    file: RefCell<Option<Arc<OpenFile>>>,
}

impl Handle {
    pub(crate) fn new(path: &Path, file: OpenFile) -> Rc<Handle> {
        Rc::new(Handle { path: path.to_owned(), file: RefCell::new(Some(Arc::new(file))) })
    }

    /// The file; none where it was closed.
    pub(crate) fn file(&self) -> Ref<'_, Option<Arc<OpenFile>>> {
        self.file.borrow()
    }
}

/// The files that are open for writing on an executor.
#[derive(Default)]
pub(crate) struct Writers(RefCell<Vec<Weak<Handle>>>);

impl Writers {
    /// One more is.
    pub(crate) fn put(&self, handle: &Rc<Handle>) {
        let mut all = self.0.borrow_mut();
        all.retain(|known| known.strong_count() > 0);
        all.push(Rc::downgrade(handle));
    }

    /// Closes those at these paths. What is under way on one ends before its file is gone.
    pub(crate) fn close(&self, paths: &[PathBuf]) {
        for handle in self.0.borrow().iter().filter_map(Weak::upgrade) {
            let is_meant = |path: &PathBuf| *path == handle.path || same(path, &handle.path);
            if paths.iter().any(is_meant) {
                handle.file.take();
            }
        }
    }
}
