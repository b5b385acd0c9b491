//! A file of a tree as a device: how a load of blocks runs on a file system.
//!
//! The file has its size already (see `allocate`); it neither grows nor shrinks while it is a
//! device. What it costs is what the tree makes of it: that is the point.

use crate::device::{Device, Geometry, IoErrorKind, IoFuture, Request};
use crate::file_tree::{FileRef, TreeError};
use crate::{IoError, Op};
use std::sync::Arc;
use stdx::ByteCount;

/// The logical block where the file asks for no other.
const BLOCK_MIN: ByteCount = ByteCount(512);

/// See the [module](self).
pub struct FileVolume {
    file: FileRef,
    geometry: Geometry,
}

impl FileVolume {
    /// The file as a device of the file's size, rounded down to whole blocks.
    ///
    /// # Errors
    /// Where the tree does not tell the size.
    pub async fn open(file: FileRef) -> Result<FileVolume, TreeError> {
        let size = file.status().await?.size;
        let block = BLOCK_MIN.max(file.alignment());
        let geometry = Geometry {
            capacity: size.round_down(block),
            logical_block: block,
            physical_block: block,
            volatile_cache: true,
            ..Geometry::plain(size)
        };
        Ok(FileVolume { file, geometry })
    }
}

impl Device for FileVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        self.file.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let Op::Read(len) = request.op else { return self.file.submit(request) };
        let short = IoError::of(&request, self, IoErrorKind::Medium);
        let read = self.file.submit(request);
        IoFuture::new(async move {
            let data = read.await?;
            // A file that somebody cut gives no zeros in place of what is gone.
            if data.len() == len.as_usize() { Ok(data) } else { Err(short) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_time::{run, runtime};
    use crate::{Buf, FileTree, MemoryTree, OpenHow};
    use std::path::Path;
    use std::rc::Rc;
    use stdx::Offset;

    #[test]
    fn a_file_that_was_cut_is_an_error_and_not_zeros() {
        let tree = MemoryTree::new("m");
        run(&runtime(), async move {
            let file = tree.open(Path::new("a"), OpenHow::create()).await.expect("created");
            file.allocate(ByteCount(10_000)).await.expect("space");
            let volume = FileVolume::open(Rc::clone(&file)).await.expect("a volume");
            assert_eq!(volume.geometry().capacity, ByteCount(9728));
            let write = Request::write(Offset(512), Buf::fill(7, 1024));
            volume.submit(write).await.expect("written");
            let read = Request::read(Offset(512), ByteCount(1024));
            assert_eq!(
                volume.submit(read.clone()).await.expect("read").to_vec(),
                Buf::fill(7, 1024).bytes()
            );
            file.set_size(ByteCount(1000)).await.expect("cut");
            let error = volume.submit(read).await.expect_err("cut");
            assert_eq!(error.kind, IoErrorKind::Medium);
        });
    }
}
