//! A volume as a device.
//!
//! Object 1 holds the bytes, object 2 is a table with the size. What lies in memory is answered at once, without a
//! task.
//!
//! Source: OpenZFS, `zvol.h`, `zvol.c`.

use crate::dmu::overlay::Overlay;
use crate::dmu::{Object, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use crate::zil::Logged;
use crate::zpl::replay::write_bytes;
use rt::{
    Device, Extent, ExtentKind, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture, Op,
    Request,
};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};
use zfs_format::objset::ObjsetKind;
use zfs_format::zil::record::Body;

/// The object with the bytes.
const DATA: u64 = 1;
/// The object with the size.
const PROPERTIES: u64 = 2;
/// The name of the size.
const SIZE: &str = "size";

/// A volume that is open for reading.
pub struct Volume {
    name: Arc<str>,
    data: Object,
    size: u64,
}

impl Volume {
    /// Opens the volume in an objset.
    ///
    /// # Errors
    /// The objset holds something else, or an object can't be had.
    pub async fn open(objset: &Objset, name: &str) -> Result<Volume, ZfsError> {
        if objset.root().kind != ObjsetKind::Volume {
            return Err(objset.wrong(0, Problem::NotVolume));
        }
        let properties = Zap::open(objset.object(PROPERTIES).await?).await?;
        let size = properties.needed(SIZE).await?;
        let data = objset.object(DATA).await?;
        Ok(Volume { name: name.into(), data, size })
    }

    /// Opens it as it would be after a replay of its intent log.
    ///
    /// # Errors
    /// As of [`Volume::open`]; or a block that the log points to can't be had.
    pub async fn open_with_log(
        objset: &Objset,
        name: &str,
        records: &[Logged],
    ) -> Result<Volume, ZfsError> {
        let overlay = Rc::new(Overlay::default());
        for Logged { record, .. } in records {
            match &record.body {
                Body::Write(write) => write_bytes(objset, &overlay, write, record).await?,
                Body::Truncate(truncate) => {
                    let end = truncate.offset.saturating_add(truncate.length);
                    overlay.zero(truncate.object, truncate.offset..end);
                }
                // Nothing else is logged of a volume.
                _ => {}
            }
        }
        objset.lay_over(overlay);
        Volume::open(objset, name).await
    }

    /// Bytes.
    pub fn size(&self) -> ByteCount {
        ByteCount(self.size)
    }

    /// The object with the bytes.
    pub fn data(&self) -> &Object {
        &self.data
    }

    /// Bytes of a block.
    pub fn block(&self) -> ByteCount {
        ByteCount(self.data.dnode().data_block_bytes())
    }
}

impl Device for Volume {
    fn geometry(&self) -> Geometry {
        let mut geometry = Geometry::plain(ByteCount(self.size));
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
        let size = self.data.dnode().data_block_bytes().max(1);
        let start = (offset % size) as usize;
        if start + len <= size as usize
            && let Some(block) = self.data.cached(offset / size)
            && block.bytes.len() >= start + len
        {
            return IoFuture::ready(Ok(block.bytes.slice(start..start + len).into()));
        }
        let data = self.data.clone();
        let error = IoError::of(&request, self, IoErrorKind::Medium);
        IoFuture::new(async move { data.read(offset, len).await.map_err(|_| error) })
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        let (data, size) = (self.data.clone(), self.size);
        let end = offset.bytes().saturating_add(len.bytes()).min(size);
        let mut at = offset.bytes();
        Box::pin(async move {
            let mut extents = Vec::new();
            while at < end && extents.len() < count_max.max(1) {
                let broken = |_| IoErrorKind::Medium;
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
