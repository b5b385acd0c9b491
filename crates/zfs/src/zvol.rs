//! A volume as a device.
//!
//! Object 1 holds the bytes, object 2 is a table with the size. What lies in memory is answered at once, without a
//! task.
//!
//! * here: a volume that is read, and what a log lays over it; its size.
//! * [`live`]: one that is written.
//! * [`make`]: a new one. [`reservation`]: how much space it may come to take.
//!
//! Source: OpenZFS, `zvol.h`, `zvol.c`.

pub mod live;
pub mod make;
pub mod reservation;

use crate::dmu::{Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use crate::zil::Logged;
use crate::zpl::replay::{Written, in_memory, written};
use async_recursion::async_recursion as boxed;
use rt::{
    Buf, Device, Extent, ExtentKind, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture, Op,
    Request,
};
use std::sync::Arc;
use stdx::planted::{self, Bug};
use stdx::{ByteCount, Offset};
use zfs_format::objset::ObjsetKind;
use zfs_format::zil::record::{Body, LogRecord};
use zfs_store::{BlockError, BlockErrorKind};

/// The object with the bytes.
const DATA: u64 = 1;
/// The object with the size.
const PROPERTIES: u64 = 2;
/// The name of the size.
const SIZE: &str = "size";

/// A volume that is open.
pub struct Volume {
    name: Arc<str>,
    objset: Objset,
    data: Dnode,
}

impl Volume {
    /// Opens the volume in an objset.
    ///
    /// # Errors
    /// The objset holds something else, or an object can't be had.
    #[boxed(?Send)]
    pub async fn open(objset: &Objset, name: &str) -> Result<Volume, ZfsError> {
        if objset.root().kind != ObjsetKind::Volume {
            return Err(objset.wrong(0, Problem::NotVolume));
        }
        let properties = Zap::open(objset.dnode(PROPERTIES).await?).await?;
        objset.set_volume_bytes(properties.needed(SIZE).await?);
        let data = objset.dnode(DATA).await?;
        Ok(Volume { name: name.into(), objset: objset.clone(), data })
    }

    /// Opens it as it would be after a replay of its intent log.
    ///
    /// # Errors
    /// As of [`Volume::open`]; or a block that the log points to can't be had.
    #[boxed(?Send)]
    pub async fn open_with_log(
        objset: &Objset,
        name: &str,
        records: &[Logged],
    ) -> Result<Volume, ZfsError> {
        in_memory(objset, records);
        let volume = Volume::open(objset, name).await?;
        for Logged { record, .. } in records {
            volume.replay(record).await?;
        }
        Ok(volume)
    }

    /// Carries out a record of its intent log.
    ///
    /// # Errors
    /// It can't be; or the block that it points to can't be had.
    #[boxed(?Send)]
    pub async fn replay(&self, record: &LogRecord) -> Result<(), ZfsError> {
        match &record.body {
            Body::Write(write) => match written(&self.objset, write, record).await? {
                Written::Bytes(at, bytes) => self.write(at, &bytes).await,
                Written::Zeros(at, len) => self.zero(at, len).await,
            },
            Body::Truncate(truncate) => self.zero(truncate.offset, truncate.length).await,
            // Nothing else is logged of a volume.
            _ => Ok(()),
        }
    }

    /// Writes bytes, a change for each block. What lies beyond its end is left out.
    ///
    /// # Errors
    /// A block that is covered in part can't be had.
    #[boxed(?Send)]
    pub async fn write(&self, at: u64, bytes: &Buf) -> Result<(), ZfsError> {
        let block = self.block().bytes().max(1);
        let end = at.saturating_add(bytes.len() as u64).min(self.objset.volume_bytes());
        let mut from = at;
        while from < end {
            let to = (from - from % block).saturating_add(block).min(end);
            let piece = bytes.slice((from - at) as usize..(to - at) as usize);
            let change = self.objset.change(|tx| {
                self.data.plan_write(from..to)?;
                self.data.write(tx, from, &piece);
                Ok(())
            });
            change.await?;
            from = to;
        }
        Ok(())
    }

    /// Zeros a stretch.
    ///
    /// # Errors
    /// A block at its ends can't be had.
    #[boxed(?Send)]
    pub async fn zero(&self, at: u64, len: u64) -> Result<(), ZfsError> {
        let range = at..at.saturating_add(len).min(self.objset.volume_bytes());
        let change = self.objset.change(|tx| {
            self.data.plan_zero(range.clone())?;
            self.data.zero(tx, range.clone());
            Ok(())
        });
        change.await
    }

    /// Gives the volume another size: what lies behind the end is freed. It holds for all who have it open: from its beginning
    /// on nothing is written behind a nearer end, and what lies before a farther one can be written when it is done.
    ///
    /// # Errors
    /// An object can't be had.
    ///
    /// # Panics
    /// The size is not one of whole blocks.
    #[boxed(?Send)]
    pub async fn resize(&self, bytes: u64) -> Result<(), ZfsError> {
        assert!(bytes > 0 && bytes.is_multiple_of(self.block().bytes()), "it is whole blocks long");
        let before = self.objset.volume_bytes();
        self.objset.set_volume_bytes(before.min(bytes));
        let done = self.set_size(bytes).await;
        self.objset.set_volume_bytes(if done.is_ok() { bytes } else { before });
        done
    }

    async fn set_size(&self, bytes: u64) -> Result<(), ZfsError> {
        let properties = self.objset.dnode(PROPERTIES).await?;
        table::set(&self.objset, &properties, SIZE, table::number(bytes)).await?;
        let behind = bytes..self.data.capacity().max(bytes);
        let behind = if planted::is(Bug::EndComesBack) { 0..0 } else { behind };
        let change = self.objset.change(|tx| {
            self.data.plan_zero(behind.clone())?;
            self.data.zero(tx, behind.clone());
            Ok(())
        });
        change.await
    }

    /// Bytes.
    pub fn size(&self) -> ByteCount {
        ByteCount(self.objset.volume_bytes())
    }

    /// The object with the bytes.
    pub fn data(&self) -> &Dnode {
        &self.data
    }

    /// Bytes of a block.
    pub fn block(&self) -> ByteCount {
        ByteCount(self.data.block_bytes())
    }
}

impl Device for Volume {
    fn geometry(&self) -> Geometry {
        let mut geometry = Geometry::plain(self.size());
        geometry.physical_block = self.block().max(geometry.logical_block);
        geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let (offset, len) = (request.offset.bytes(), request.len().bytes() as usize);
        match request.op {
            Op::Read { .. } => {}
            Op::Flush => return IoFuture::ready(Ok(Default::default())),
            _ => {
                let error = IoError::of(&request, self, IoErrorKind::ReadOnly);
                return IoFuture::ready(Err(error));
            }
        }
        // One block in memory: no task.
        let size = self.data.block_bytes().max(1);
        let start = (offset % size) as usize;
        if start + len <= size as usize
            && let Some(block) = self.data.cached(offset / size)
            && block.bytes.len() >= start + len
        {
            return IoFuture::ready(Ok(block.bytes.slice(start..start + len).into()));
        }
        let data = self.data.clone();
        let error = IoError::of(&request, self, IoErrorKind::Medium);
        IoFuture::new(async move {
            let read = data.read(offset, len).await;
            read.map_err(|why| IoError { kind: kind_of(&why), ..error })
        })
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        let (data, size) = (self.data.clone(), self.size().bytes());
        let end = offset.bytes().saturating_add(len.bytes()).min(size);
        let mut at = offset.bytes();
        Box::pin(async move {
            let mut extents = Vec::new();
            while at < end && extents.len() < count_max.max(1) {
                let broken = |why| kind_of(&why);
                let next = data.next_data(at).await.map_err(broken)?.unwrap_or(end).min(end);
                let (to, kind) = match next > at {
                    true => (next, ExtentKind::Hole),
                    false => (data.next_hole(at).await.map_err(broken)?.min(end), ExtentKind::Data),
                };
                // Beyond the last block nothing is stored.
                let (to, kind) = if to > at { (to, kind) } else { (end, ExtentKind::Hole) };
                extents.push(Extent { len: ByteCount(to - at), kind });
                at = to;
            }
            Ok(extents)
        })
    }
}

/// What an error of the pool is in the words of devices.
fn kind_of(error: &ZfsError) -> IoErrorKind {
    let ZfsError::Block(BlockError { kind, .. }) = error else {
        return match error {
            ZfsError::Object { problem: Problem::Stopped, .. } => IoErrorKind::Gone,
            ZfsError::Object { problem: Problem::BehindEnd, .. } => IoErrorKind::Invalid,
            ZfsError::Object { problem: Problem::Suspended, .. } => IoErrorKind::Medium,
            _ => IoErrorKind::Medium,
        };
    };
    match kind {
        BlockErrorKind::Io(kind) => *kind,
        BlockErrorKind::Missing(_) | BlockErrorKind::NoVdev(_) => IoErrorKind::TooFewMembers,
        BlockErrorKind::NoKey => IoErrorKind::Locked,
        BlockErrorKind::Unsupported(_) => IoErrorKind::NotSupported,
        BlockErrorKind::Format(_)
        | BlockErrorKind::Checksum
        | BlockErrorKind::Decompress(_)
        | BlockErrorKind::Authentication => IoErrorKind::Medium,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: who serves a volume tells its user of a broken disk where a key is missing, or a device was unplugged.
    #[test]
    fn a_missing_key_or_device_is_no_broken_medium() {
        let of =
            |kind| kind_of(&ZfsError::Block(BlockError { at: Default::default(), birth: 0, kind }));
        assert_eq!(of(BlockErrorKind::NoKey), IoErrorKind::Locked);
        assert_eq!(of(BlockErrorKind::Missing(1)), IoErrorKind::TooFewMembers);
        assert_eq!(of(BlockErrorKind::Io(IoErrorKind::Gone)), IoErrorKind::Gone);
        assert_eq!(of(BlockErrorKind::Unsupported("x")), IoErrorKind::NotSupported);
        assert_eq!(of(BlockErrorKind::Checksum), IoErrorKind::Medium);
    }
}
