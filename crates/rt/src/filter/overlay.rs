//! Copy-on-write in memory: writes are kept here, and the device below stays as it is.
//!
//! So a disk that must not be changed (a fixture, somebody's only copy) is opened, repaired, replayed or
//! spoilt as if it could be. What was written goes when the overlay does: it is never written below, and a
//! flush is answered at once, because there is nothing that a power cut would leave.
//!
//! **Discards and write-zeroes** are kept as zeros, without memory for them: what was discarded does
//! not show what the device below has there.
//!
//! **The limit.** Bytes are kept as pages (a word repeated of any length as one piece), so what is held is
//! counted exactly enough: a page a piece. Several overlays may share one [`Memory`]. A write that could go beyond its limit is answered with
//! [`IoErrorKind::NoSpace`], and changes nothing. It has the name of the device below, which it stands for; in that error it says that it
//! is in memory. What is written again in
//! whole pages takes no more memory.

use crate::buf::{Buf, PAGE};
use crate::device::{Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, Op, Request};
use crate::extents::{Extents, Stretch};
use crate::sg::SgList;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// Memory that overlays share.
pub struct Memory {
    pieces: Cell<usize>,
    pieces_max: usize,
}

impl Memory {
    /// So much at the most.
    pub fn new(held_max: ByteCount) -> Rc<Memory> {
        Rc::new(Memory { pieces: Cell::new(0), pieces_max: held_max.as_usize() / PAGE })
    }

    /// How much of it holds what was written.
    pub fn held(&self) -> ByteCount {
        ByteCount((self.pieces.get() * PAGE) as u64)
    }
}

/// See the [module](self).
pub struct Overlay {
    below: DeviceRef,
    held: RefCell<Extents>,
    memory: Rc<Memory>,
}

impl Overlay {
    /// A layer over `below` that holds so much at the most.
    pub fn new(below: DeviceRef, held_max: ByteCount) -> Rc<Overlay> {
        Overlay::within(below, &Memory::new(held_max))
    }

    /// A layer over `below` that takes its memory from what it shares with others.
    pub fn within(below: DeviceRef, memory: &Rc<Memory>) -> Rc<Overlay> {
        Rc::new(Overlay { below, held: RefCell::default(), memory: Rc::clone(memory) })
    }

    /// How much memory holds what was written.
    pub fn held(&self) -> ByteCount {
        ByteCount((self.held.borrow().count() * PAGE) as u64)
    }

    /// Keeps `data` at `at`; false where it does not fit.
    fn keep(&self, at: Offset, data: &SgList) -> bool {
        let mut held = self.held.borrow_mut();
        let len = ByteCount(data.len() as u64);
        let replaced = held.read(at, len);
        let replaced = replaced.iter().filter(|part| matches!(part, Stretch::Held(_))).count();
        // What reaches beyond the range stays there.
        let cut = [at, at + len].into_iter().filter(|edge| held.crosses(*edge)).count();
        let own = pieces_of(at, data);
        let others = self.memory.pieces.get() - held.count();
        if others + held.count() + own.pieces().len() + cut - replaced > self.memory.pieces_max {
            return false;
        }
        held.insert(at, &own);
        self.memory.pieces.set(others + held.count());
        true
    }

    fn read(&self, request: &Request) -> IoFuture {
        let parts: Vec<Part> = self
            .held
            .borrow()
            .read(request.offset, request.len())
            .into_iter()
            .map(|stretch| match stretch {
                Stretch::Held(bytes) => Part::Held(bytes),
                Stretch::Gap(at, len) => {
                    let read = Request::read(at, len).with_priority(request.priority);
                    Part::Below(self.below.submit(read))
                }
            })
            .collect();
        let wanted = request.len().as_usize();
        IoFuture::new(async move {
            let mut data = SgList::new();
            for part in parts {
                match part {
                    Part::Held(bytes) => data.push(bytes),
                    Part::Below(read) => data.append(read.await?),
                }
            }
            assert_eq!(data.len(), wanted, "what is held and what is below make up the whole");
            Ok(data)
        })
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let own = self.held.borrow().count();
        self.memory.pieces.set(self.memory.pieces.get() - own);
    }
}

/// A part of a read.
enum Part {
    Held(Buf),
    Below(IoFuture),
}

/// A copy of `data`, to lie at `at`, that keeps no memory but its own: cut at the pages of the device.
fn pieces_of(at: Offset, data: &SgList) -> SgList {
    let mut own = SgList::new();
    let mut at = at.bytes() as usize;
    for piece in data.pieces() {
        if piece.fill_word().is_some() {
            own.push(piece.clone());
            at += piece.len();
            continue;
        }
        let mut rest = piece.bytes();
        while !rest.is_empty() {
            let (page, behind) = rest.split_at(rest.len().min(PAGE - at % PAGE));
            own.push(Buf::copy_of(page));
            at += page.len();
            rest = behind;
        }
    }
    own
}

impl Device for Overlay {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: false, ..self.below.geometry() }
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let fits = match &request.op {
            Op::Read(_) => return self.read(&request),
            Op::Write { data, .. } => self.keep(request.offset, data),
            Op::Discard(len) | Op::WriteZeroes(len) => {
                self.keep(request.offset, &SgList::zeros(len.as_usize()))
            }
            Op::Flush => true,
        };
        IoFuture::ready(match fits {
            true => Ok(SgList::new()),
            false => Err(IoError {
                device: format!("{} (in memory)", self.name()).into(),
                ..IoError::of(&request, self, IoErrorKind::NoSpace)
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    //! What could break: bytes of below that show through what was written, a write that reaches below,
    //! memory beyond the limit.

    use super::*;
    use crate::MemoryDevice;
    use crate::filter::Fault;
    use crate::virtual_time::{run, runtime};
    use futures_util::FutureExt;
    use proptest::prelude::*;
    use stdx::Prng;

    const SECTORS: usize = 64;

    fn answer(device: &Overlay, request: Request) -> crate::IoResult {
        device.submit(request).now_or_never().expect("memory answers at once")
    }

    /// A device of random bytes, and these.
    fn below(seed: u64) -> (Rc<MemoryDevice>, Vec<u8>) {
        let mut bytes = vec![0; 512 * SECTORS];
        Prng::new(seed).fill(&mut bytes);
        let memory = MemoryDevice::new("m", ByteCount(512 * SECTORS as u64));
        memory.poke(Offset(0), &Buf::copy_of(&bytes).into());
        (memory, bytes)
    }

    proptest! {
        /// Whatever is asked of it, it answers as the bytes of below with the writes put over them would;
        /// below stays as it was; and what doesn't fit changes nothing.
        #[test]
        fn an_overlay_behaves_as_a_copy_and_below_stays_as_it_was(
            seed: u64,
            pages_max in 0_u64..20,
            steps in proptest::collection::vec((0..SECTORS, 0..SECTORS, 0_u8..5), 0..40),
        ) {
            let (memory, before) = below(seed);
            let device = Overlay::new(memory.clone(), ByteCount(pages_max * PAGE as u64));
            let mut bytes = before.clone();
            for (i, (a, b, what)) in steps.into_iter().enumerate() {
                let (a, b) = (512 * a.min(b), 512 * a.max(b));
                let (at, len) = (Offset(a as u64), ByteCount((b - a) as u64));
                let mut new = bytes[a..b].to_vec();
                let request = match what {
                    0 => Request::flush(),
                    1 => Request::read(at, len),
                    2 => {
                        Prng::new(i as u64).fill(&mut new);
                        Request::write_fua(at, Buf::copy_of(&new))
                    }
                    more => {
                        new.fill(0);
                        if more == 3 { Request::discard(at, len) } else { Request::write_zeroes(at, len) }
                    }
                };
                match answer(&device, request) {
                    Ok(data) if what == 1 => prop_assert_eq!(data.to_vec(), &bytes[a..b]),
                    Ok(_) => bytes[a..b].copy_from_slice(&new),
                    Err(error) => prop_assert_eq!(error.kind, IoErrorKind::NoSpace),
                }
                prop_assert!(device.held() <= ByteCount(pages_max * PAGE as u64));
            }
            let all = Request::read(Offset(0), ByteCount(512 * SECTORS as u64));
            prop_assert_eq!(answer(&device, all).expect("read").to_vec(), bytes);
            let below = memory.peek(Offset(0), ByteCount(512 * SECTORS as u64));
            prop_assert_eq!(below.to_vec(), before);
        }
    }

    #[test]
    fn pages_written_again_fit_and_one_more_is_refused_by_name() {
        let (memory, _) = below(1);
        let device = Overlay::new(memory, ByteCount(4 * PAGE as u64));
        let write = |page: u64| {
            let data = Buf::copy_of(&[page as u8; PAGE]);
            answer(&device, Request::write(Offset(page * PAGE as u64), data))
        };
        for page in [0, 1, 2, 3, 1, 3] {
            write(page).expect("fits");
        }
        assert_eq!(device.held(), ByteCount(4 * PAGE as u64));
        let error = write(4).expect_err("too much");
        assert_eq!(error.to_string(), "m (in memory): write of 4 KiB at byte 16384: no space left");
    }

    #[test]
    fn overlays_share_memory_and_give_it_back() {
        let memory = Memory::new(ByteCount(2 * PAGE as u64));
        let overlay = || Overlay::within(below(1).0, &memory);
        let write = |device: &Overlay, page: u64| {
            let data = Buf::copy_of(&[1; PAGE]);
            answer(device, Request::write(Offset(page * PAGE as u64), data)).map(|_| ())
        };
        let (one, other) = (overlay(), overlay());
        write(&one, 0).expect("the first");
        write(&other, 0).expect("the second");
        write(&other, 1).expect_err("nothing is left");
        write(&other, 0).expect("again, where it is");
        assert_eq!(memory.held(), ByteCount(2 * PAGE as u64));
        drop(one);
        assert_eq!(memory.held(), ByteCount(PAGE as u64));
        write(&other, 1).expect("given back");
    }

    #[test]
    fn an_error_of_below_comes_up_where_its_bytes_are_needed_and_only_there() {
        let runtime = runtime();
        let (memory, _) = below(1);
        let fault = Fault::new(memory, &runtime.handle(), Prng::new(1));
        let device = Overlay::new(fault.clone(), ByteCount::mib(1));
        run(&runtime, async move {
            device.submit(Request::write_zeroes(Offset(0), ByteCount(1024))).await.expect("kept");
            fault.go_away();
            device.submit(Request::read(Offset(512), ByteCount(512))).await.expect("held");
            let across = device.submit(Request::read(Offset(512), ByteCount(1024))).await;
            assert_eq!(across.expect_err("below is gone").kind, IoErrorKind::Gone);
        });
    }
}
