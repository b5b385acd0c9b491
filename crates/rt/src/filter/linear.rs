//! Several devices one after another, as one device.
//!
//! A request that lies in one member goes to it as it is. One that crosses a border is cut there; the
//! parts are under way together, and the answer joins them in order. A flush goes to every member.
//! Where parts fail, the others still end before the answer, which is the first error in the order of
//! places.
//!
//! The logical block is the largest of the members'; what is left at the end of a member beyond a
//! whole block is not used. There is no redundancy and no superblock: md's `linear` is in `md`.

use crate::device::{Device, DeviceRef, Geometry, IoFuture, Op, OpKind, Request};
use crate::sg::SgList;
use futures_util::future::join_all;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// See the [module](self).
pub struct Linear {
    /// Each member with the place where it begins, in order.
    members: Vec<(Offset, DeviceRef)>,
    geometry: Geometry,
    name: Arc<str>,
}

impl Linear {
    /// The members in this order.
    ///
    /// # Panics
    /// If there are none, or if the block size of one does not divide that of another.
    pub fn new(name: &str, members: Vec<DeviceRef>) -> Rc<Linear> {
        let shapes: Vec<Geometry> = members.iter().map(|member| member.geometry()).collect();
        let block = shapes.iter().map(|shape| shape.logical_block).max();
        let block = block.expect("a linear device has a member");
        assert!(
            shapes.iter().all(|shape| block.is_multiple_of(shape.logical_block)),
            "the block sizes of a linear device's members divide one another"
        );
        let mut end = Offset::ZERO;
        let mut placed = Vec::with_capacity(members.len());
        for (member, shape) in members.into_iter().zip(&shapes) {
            placed.push((end, member));
            end += shape.capacity.round_down(block);
        }
        let physical = shapes.iter().map(|shape| shape.physical_block).max();
        let geometry = Geometry {
            capacity: end.from_start(),
            logical_block: block,
            physical_block: physical.unwrap_or(block).max(block),
            optimal_io: ByteCount::ZERO,
            rotational: shapes.iter().any(|shape| shape.rotational),
            volatile_cache: shapes.iter().any(|shape| shape.volatile_cache),
        };
        Rc::new(Linear { members: placed, geometry, name: name.into() })
    }

    /// Where the member of this index ends.
    fn end_of(&self, index: usize) -> Offset {
        match self.members.get(index + 1) {
            Some((start, _)) => *start,
            None => Offset::ZERO + self.geometry.capacity,
        }
    }
}

impl Device for Linear {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, mut request: Request) -> IoFuture {
        if request.kind() == OpKind::Flush {
            return joined(self.members.iter().map(|(_, member)| member.submit(request.clone())));
        }
        let end = request.offset + request.len();
        // Members of no size begin where the next one does: the last that begins here has the bytes.
        let first = self.members.partition_point(|(start, _)| *start <= request.offset).max(1) - 1;
        if end <= self.end_of(first) {
            let (start, member) = &self.members[first];
            request.offset = Offset::ZERO + (request.offset - *start);
            return member.submit(request);
        }
        joined(self.members[first..].iter().enumerate().filter_map(|(i, (start, member))| {
            let (from, to) = (request.offset.max(*start), end.min(self.end_of(first + i)));
            let at = Offset::ZERO + (from - *start);
            (from < to).then(|| member.submit(part(&request, from, to, at)))
        }))
    }
}

/// The part of `request` between two places, moved to `at`.
fn part(request: &Request, from: Offset, to: Offset, at: Offset) -> Request {
    let len = to - from;
    let op = match &request.op {
        Op::Read(_) => Op::Read(len),
        Op::Write { data, fua } => {
            let start = (from - request.offset).as_usize();
            Op::Write { data: data.slice(start..start + len.as_usize()), fua: *fua }
        }
        Op::Flush => Op::Flush,
        Op::Discard(_) => Op::Discard(len),
        Op::WriteZeroes(_) => Op::WriteZeroes(len),
    };
    Request { op, offset: at, priority: request.priority }
}

/// One answer from the answers of all parts, in their order.
fn joined(parts: impl Iterator<Item = IoFuture>) -> IoFuture {
    let parts: Vec<IoFuture> = parts.collect();
    IoFuture::new(async move {
        let mut data = SgList::new();
        for part in join_all(parts).await {
            data.append(part?);
        }
        Ok(data)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::IoErrorKind;
    use crate::filter::{Effect, Fault, Rule, Slice};
    use crate::virtual_time::{run, runtime};
    use crate::{Buf, MemoryDevice};
    use proptest::prelude::*;
    use stdx::Prng;

    proptest! {
        /// Cutting and moving requests at borders, seen from above: a slice of several slices of one
        /// device, joined, is a plain array of bytes.
        #[test]
        fn a_slice_of_a_linear_of_slices_behaves_as_plain_bytes(
            lens in proptest::collection::vec(0_u64..6, 1..5),
            steps in proptest::collection::vec((0_u64..16, 0_u64..16, 0_u8..5), 1..30),
        ) {
            let disk = MemoryDevice::new("disk", ByteCount(512 * 64));
            let members = lens.iter().enumerate().map(|(i, len)| {
                Slice::new(disk.clone(), Offset(512 * 8 * i as u64), ByteCount(512 * len)) as DeviceRef
            });
            let linear = Linear::new("linear", members.collect());
            let total = lens.iter().sum::<u64>();
            prop_assert_eq!(linear.geometry().capacity, ByteCount(512 * total));
            let from = total / 4;
            let sectors = total - from;
            let device = Slice::new(linear, Offset(512 * from), ByteCount(512 * sectors));
            run(&runtime(), async move {
                let mut bytes = vec![0_u8; 512 * sectors as usize];
                for (i, (a, b, what)) in steps.into_iter().enumerate() {
                    let (a, b) = (a.min(b).min(sectors), a.max(b).min(sectors));
                    let (at, len) = (Offset(512 * a), ByteCount(512 * (b - a)));
                    let expected = &mut bytes[512 * a as usize..512 * b as usize];
                    let request = match what {
                        0 => Request::read(at, len),
                        1 => {
                            expected.fill(0);
                            Request::write_zeroes(at, len)
                        }
                        2 => Request::flush(),
                        _ => {
                            Prng::new(i as u64).fill(expected);
                            Request::write(at, Buf::copy_of(expected))
                        }
                    };
                    let read = device.submit(request).await.expect("answered");
                    if what == 0 {
                        assert_eq!(read.to_vec(), expected);
                    } else {
                        assert!(read.is_empty());
                    }
                }
                let all = Request::read(Offset(0), ByteCount(512 * sectors));
                assert_eq!(device.submit(all).await.expect("read").to_vec(), bytes);
            });
        }
    }

    #[test]
    fn when_one_part_fails_the_other_is_still_written_and_the_error_names_the_member() {
        let runtime = runtime();
        let (a, b) =
            (MemoryDevice::new("a", ByteCount(1024)), MemoryDevice::new("b", ByteCount(1024)));
        let faulty = Fault::new(a, &runtime.handle(), Prng::new(1));
        faulty.add(Rule::new(Effect::Fail(IoErrorKind::Medium)));
        let linear = Linear::new("linear", vec![faulty, b.clone()]);
        run(&runtime, async move {
            let write = Request::write(Offset(512), Buf::fill(u64::MAX, 1024));
            let error = linear.submit(write).await.expect_err("half of it failed");
            assert_eq!((&*error.device, error.len), ("a", ByteCount(512)));
            assert_eq!(b.peek(Offset(0), ByteCount(512)).to_vec(), [255; 512]);
        });
    }
}
