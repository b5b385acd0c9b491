//! Bytes of which it is known where they belong, and that are not there: a device that answers no read.
//!
//! What stands beside them is read by way of a [`Linear`] or a stripe that has such a stretch in it, and whoever reads the stretch is told
//! whose it was.

use rt::filter::{Linear, Slice};
use rt::{Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, Op, Request, SgList};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// See the [module](self).
pub struct Absent {
    name: Arc<str>,
    geometry: Geometry,
    kind: IoErrorKind,
}

impl Absent {
    /// So many bytes of a device that is not there, whose name is for errors.
    pub fn missing(name: &str, len: ByteCount) -> DeviceRef {
        let (geometry, kind) = (Geometry::plain(len), IoErrorKind::TooFewMembers);
        Rc::new(Absent { name: name.into(), geometry, kind })
    }
}

impl Device for Absent {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        match request.op {
            // Nothing was written here.
            Op::Flush => IoFuture::ready(Ok(SgList::new())),
            _ => IoFuture::ready(Err(IoError::of(&request, self, self.kind))),
        }
    }
}

/// The `len` bytes from `start` on of a device that may end before them: what lies there, and behind its end nothing that can be read.
/// Nothing where they are not made of whole logical blocks.
pub fn lengthened(device: &DeviceRef, start: u64, len: u64) -> Option<DeviceRef> {
    let geometry = device.geometry();
    let capacity = geometry.capacity.round_down(geometry.logical_block);
    let there = capacity.bytes().saturating_sub(start).min(len);
    let cut = ByteCount(len - there);
    let block = geometry.logical_block;
    if !ByteCount(start).is_multiple_of(block) || !ByteCount(len).is_multiple_of(block) {
        return None;
    }
    let mut parts: Vec<DeviceRef> = Vec::new();
    if there > 0 {
        parts.push(Slice::new(Rc::clone(device), Offset(start), ByteCount(there)));
    }
    if !cut.is_zero() {
        let (name, kind) = (device.name(), IoErrorKind::CutShort);
        let geometry = Geometry { capacity: cut, ..geometry };
        parts.push(Rc::new(Absent { name, geometry, kind }));
    }
    match &parts[..] {
        [] => None,
        [_] => parts.pop(),
        _ => Some(Linear::new(&device.name(), parts)),
    }
}
