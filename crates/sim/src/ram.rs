//! Devices that take no time: what an engine costs without its disks.
//!
//! [`RamDisk`] holds bytes; [`NullDisk`] holds none and reads zeros. Both answer at once, in the call
//! that submits, so they also measure the executor: an I/O is a call and a poll.

use crate::content;
use crate::store::Store;
use rt::{Device, Geometry, IoFuture, Op, Request, SgList};
use std::cell::RefCell;
use std::sync::Arc;
use stdx::ByteCount;

/// A device that holds bytes and takes no time. Never loses anything.
pub struct RamDisk {
    name: Arc<str>,
    geometry: Geometry,
    store: RefCell<Store>,
}

impl RamDisk {
    /// A device of this size, all zeros.
    pub fn new(name: impl Into<Arc<str>>, capacity: ByteCount) -> RamDisk {
        let geometry = Geometry::plain(capacity);
        let store = RefCell::new(Store::new(geometry.capacity));
        RamDisk { name: name.into(), geometry, store }
    }

    /// A device of this size with logical blocks of 512 B or 4 KiB.
    pub fn with_block(name: impl Into<Arc<str>>, capacity: ByteCount, block: ByteCount) -> RamDisk {
        let mut disk = RamDisk::new(name, capacity.round_down(block));
        disk.geometry.logical_block = block;
        disk.geometry.physical_block = block;
        disk
    }

    /// Memory that the content takes, about.
    pub fn memory(&self) -> ByteCount {
        self.store.borrow().memory()
    }
}

impl Device for RamDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let mut out = SgList::new();
        let store = &mut *self.store.borrow_mut();
        match &request.op {
            Op::Read(len) => content::read(store, request.offset, *len, &mut out),
            Op::Write { data, .. } => content::write(store, request.offset, data),
            Op::WriteZeroes(len) | Op::Discard(len) => store.write_word(request.offset, *len, 0),
            Op::Flush => {}
        }
        IoFuture::ready(Ok(out))
    }
}

/// A device that forgets writes and reads zeros, in no time.
pub struct NullDisk {
    name: Arc<str>,
    geometry: Geometry,
}

impl NullDisk {
    /// A device of this size.
    pub fn new(name: impl Into<Arc<str>>, capacity: ByteCount) -> NullDisk {
        NullDisk { name: name.into(), geometry: Geometry::plain(capacity) }
    }
}

impl Device for NullDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        IoFuture::ready(Ok(match request.op {
            Op::Read(len) => SgList::zeros(len.as_usize()),
            _ => SgList::new(),
        }))
    }
}
