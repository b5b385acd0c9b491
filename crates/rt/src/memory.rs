//! A device in memory, for tests of everything that stands on devices.
//!
//! It answers each request at once, keeps every rule of the contract of [`Device`], and
//! loses nothing: a write is durable when it is answered. Bytes are kept sparsely: what was never
//! written takes no memory and reads as zeros, and a word repeated ([`Buf::fill`])
//! takes a few bytes whatever its length. Other data is copied, so that a small piece of a large
//! buffer does not keep the whole alive.
//!
//! It models no hardware: for time, caches and power cuts see `sim`, or put
//! [filters](crate::filter) over it.

use crate::buf::Buf;
use crate::device::{Device, Extent, ExtentKind, ExtentsFuture, Geometry, IoFuture, Op, Request};
use crate::extents::{Extents, Stretch};
use crate::sg::SgList;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// See the [module](self).
pub struct MemoryDevice {
    name: Arc<str>,
    geometry: Geometry,
    extents: RefCell<Extents>,
}

impl MemoryDevice {
    /// A device of this size, all zeros, with blocks of 512 B.
    pub fn new(name: &str, capacity: ByteCount) -> Rc<MemoryDevice> {
        MemoryDevice::with_geometry(name, Geometry::plain(capacity))
    }

    /// A device of this shape, all zeros.
    pub fn with_geometry(name: &str, geometry: Geometry) -> Rc<MemoryDevice> {
        Rc::new(MemoryDevice { name: name.into(), geometry, extents: RefCell::default() })
    }

    /// Another device that holds the same now. Bytes are shared until one of them is written.
    pub fn fork(&self) -> Rc<MemoryDevice> {
        let (name, geometry) = (Arc::clone(&self.name), self.geometry);
        Rc::new(MemoryDevice { name, geometry, extents: self.extents.clone() })
    }

    /// What lies in a range, without a request; for tests.
    pub fn peek(&self, at: Offset, len: ByteCount) -> SgList {
        let mut data = SgList::new();
        for stretch in self.extents.borrow().read(at, len) {
            data.push(match stretch {
                Stretch::Held(buf) => buf,
                Stretch::Gap(_, len) => Buf::zeros(len.as_usize()),
            });
        }
        data
    }

    /// Changes what lies at a place, without a request: so a test spoils a disk behind an engine's
    /// back.
    pub fn poke(&self, at: Offset, data: &SgList) {
        let own = data.pieces().iter().map(|piece| match piece.fill_word() {
            Some(_) => piece.clone(),
            None => Buf::copy_of(piece.bytes()),
        });
        let own: SgList = own.collect();
        self.extents.borrow_mut().insert(at, &own);
    }
}

impl Device for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let at = request.offset;
        match request.op {
            Op::Read(len) => return IoFuture::ready(Ok(self.peek(at, len))),
            Op::Write { data, .. } => self.poke(at, &data),
            Op::Flush => {}
            Op::Discard(len) | Op::WriteZeroes(len) => self.extents.borrow_mut().remove(at, len),
        }
        IoFuture::ready(Ok(SgList::new()))
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        let stretches = self.extents.borrow().read(offset, len);
        let extents = stretches.into_iter().take(count_max).map(|stretch| match stretch {
            Stretch::Held(buf) => {
                Extent { len: ByteCount(buf.len() as u64), kind: ExtentKind::Data }
            }
            Stretch::Gap(_, len) => Extent { len, kind: ExtentKind::Hole },
        });
        Box::pin(std::future::ready(Ok(extents.collect())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::IoErrorKind;
    use crate::virtual_time::{run, runtime};

    #[test]
    fn terabytes_of_one_word_take_no_memory_and_read_back() {
        let device = MemoryDevice::new("m", ByteCount::gib(4096));
        run(&runtime(), async move {
            let len = ByteCount::gib(4000);
            let fill = Buf::fill(0xabcd, len.as_usize());
            device.submit(Request::write(Offset(0), fill)).await.expect("written");
            device.submit(Request::discard(Offset(4096), ByteCount(512))).await.expect("discarded");
            let read = device.submit(Request::read(Offset(0), len)).await.expect("read");
            assert_eq!(read.slice(0..8).to_vec(), 0xabcd_u64.to_le_bytes());
            assert_eq!(read.slice(4096..4104).to_vec(), [0; 8]);
            assert_eq!(read.pieces().len(), 3);
        });
    }

    #[test]
    fn extents_tell_what_was_written_from_holes() {
        let device = MemoryDevice::new("m", ByteCount(8192));
        run(&runtime(), async move {
            device.submit(Request::write(Offset(1024), Buf::fill(1, 512))).await.expect("written");
            let extents = device.extents(Offset(512), ByteCount(4096), 10).await.expect("known");
            let found: Vec<_> =
                extents.iter().map(|extent| (extent.len.bytes(), extent.kind)).collect();
            let hole = ExtentKind::Hole;
            assert_eq!(found, [(512, hole), (512, ExtentKind::Data), (3072, hole)]);
            assert_eq!(
                device.extents(Offset(512), ByteCount(4096), 1).await.expect("known").len(),
                1
            );
        });
    }

    #[test]
    fn a_request_beyond_the_end_is_refused_and_changes_nothing() {
        let device = MemoryDevice::new("m", ByteCount(1024));
        run(&runtime(), async move {
            let write = Request::write(Offset(512), Buf::fill(1, 1024));
            let error = device.submit(write).await.expect_err("refused");
            assert_eq!(error.kind, IoErrorKind::Invalid);
            assert_eq!(device.peek(Offset(0), ByteCount(1024)).to_vec(), [0; 1024]);
        });
    }
}
