//! A range of a device, as a device: a partition, or a part of a disk that a test or a study uses.
//!
//! Offsets are moved by the start of the range; nothing reaches beyond its end. A flush flushes the
//! whole device below, because devices know no smaller flush.

use crate::device::{Device, DeviceRef, ExtentsFuture, Geometry, IoFuture, OpKind, Request};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// See the [module](self).
pub struct Slice {
    below: DeviceRef,
    start: Offset,
    geometry: Geometry,
    name: Arc<str>,
}

impl Slice {
    /// The `len` bytes of `below` from `start`.
    ///
    /// # Panics
    /// If the range is not made of whole logical blocks within the device. Who has the range from a
    /// disk or a user looks first: `Request::read(start, len).check(below)`.
    pub fn new(below: DeviceRef, start: Offset, len: ByteCount) -> Rc<Slice> {
        let name = format!("{}[{len} from {start}]", below.name());
        Slice::called(&name, below, start, len)
    }

    /// The same under a name of its own.
    ///
    /// # Panics
    /// As [`Slice::new`].
    pub fn called(name: &str, below: DeviceRef, start: Offset, len: ByteCount) -> Rc<Slice> {
        if let Err(error) = Request::read(start, len).check(&*below) {
            panic!("a slice lies within its device, in whole blocks: {error}");
        }
        let geometry = Geometry { capacity: len, ..below.geometry() };
        Rc::new(Slice { below, start, geometry, name: name.into() })
    }
}

impl Device for Slice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, mut request: Request) -> IoFuture {
        if request.kind() != OpKind::Flush {
            request.offset = self.start + request.offset.from_start();
        }
        self.below.submit(request)
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        self.below.extents(self.start + offset.from_start(), len, count_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::IoErrorKind;
    use crate::virtual_time::{run, runtime};
    use crate::{Buf, MemoryDevice};

    #[test]
    fn a_write_through_a_slice_lies_in_its_range_and_nowhere_else() {
        let disk = MemoryDevice::new("disk", ByteCount(4096));
        let slice = Slice::new(Rc::clone(&disk) as DeviceRef, Offset(1024), ByteCount(1024));
        run(&runtime(), async move {
            let all = Buf::fill(u64::MAX, 1024);
            slice.submit(Request::write(Offset(0), all.clone())).await.expect("written");
            let beyond = slice.submit(Request::write(Offset(512), all)).await.expect_err("refused");
            assert_eq!(beyond.kind, IoErrorKind::Invalid);
            let bytes = disk.peek(Offset(0), ByteCount(4096)).to_vec();
            assert!(
                bytes.iter().enumerate().all(|(i, byte)| (*byte != 0) == (1024..2048).contains(&i))
            );
        });
    }

    #[test]
    #[should_panic(expected = "a slice lies within its device")]
    fn a_slice_beyond_the_end_is_not_made() {
        Slice::new(MemoryDevice::new("disk", ByteCount(4096)), Offset(4096), ByteCount(512));
    }
}
