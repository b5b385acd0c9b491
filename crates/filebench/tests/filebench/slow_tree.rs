//! A tree in memory whose operations take time: 0.1 ms for names, 1 ms for data and durability.

use rt::{
    DirectoryEntry, File, FileRef, FileStatus, FileTree, IoFuture, OpenHow, Request, Rt, Space,
    TreeFuture,
};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::ByteCount;

const NAMES: Duration = Duration::from_micros(100);
const DATA: Duration = Duration::from_millis(1);

/// See the [module](self).
pub struct SlowTree {
    rt: Rt,
    below: Rc<dyn FileTree>,
}

impl SlowTree {
    /// Over this tree.
    pub fn over(rt: &Rt, below: Rc<dyn FileTree>) -> Rc<SlowTree> {
        Rc::new(SlowTree { rt: rt.clone(), below })
    }

    fn after<T: 'static>(&self, span: Duration, below: TreeFuture<T>) -> TreeFuture<T> {
        let rt = self.rt.clone();
        Box::pin(async move {
            rt.sleep(span).await;
            below.await
        })
    }
}

impl FileTree for SlowTree {
    fn name(&self) -> Rc<str> {
        self.below.name()
    }
    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        let (rt, open) = (self.rt.clone(), self.below.open(path, how));
        Box::pin(async move {
            rt.sleep(NAMES).await;
            let file: FileRef = Rc::new(SlowFile { rt, below: open.await? });
            Ok(file)
        })
    }
    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        self.after(NAMES, self.below.create_directory(path))
    }
    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        self.after(NAMES, self.below.remove_directory(path))
    }
    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        self.after(NAMES, self.below.remove_file(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        self.after(NAMES, self.below.rename(from, to))
    }
    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        self.after(NAMES, self.below.list(path))
    }
    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        self.after(NAMES, self.below.status(path))
    }
    fn sync(&self) -> TreeFuture<()> {
        self.after(DATA, self.below.sync())
    }
    fn space(&self) -> TreeFuture<Space> {
        self.below.space()
    }
}

struct SlowFile {
    rt: Rt,
    below: FileRef,
}

impl SlowFile {
    fn after<T: 'static>(&self, span: Duration, below: TreeFuture<T>) -> TreeFuture<T> {
        let rt = self.rt.clone();
        Box::pin(async move {
            rt.sleep(span).await;
            below.await
        })
    }
}

impl File for SlowFile {
    fn name(&self) -> Arc<str> {
        self.below.name()
    }
    fn alignment(&self) -> ByteCount {
        self.below.alignment()
    }
    fn submit(&self, request: Request) -> IoFuture {
        let (rt, below) = (self.rt.clone(), Rc::clone(&self.below));
        IoFuture::new(async move {
            rt.sleep(DATA).await;
            below.submit(request).await
        })
    }
    fn status(&self) -> TreeFuture<FileStatus> {
        self.below.status()
    }
    fn set_size(&self, size: ByteCount) -> TreeFuture<()> {
        self.below.set_size(size)
    }
    fn allocate(&self, size: ByteCount) -> TreeFuture<()> {
        self.below.allocate(size)
    }
    fn sync(&self) -> TreeFuture<()> {
        self.after(DATA, self.below.sync())
    }
    fn drop_cache(&self) -> TreeFuture<()> {
        self.below.drop_cache()
    }
}
