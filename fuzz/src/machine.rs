//! What targets run on: an executor whose time jumps, disks in memory, and input read field by field.

use rt::{Buf, DeviceRef, MemoryDevice, Reactor, Rt, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::future::Future;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Runs something to its end.
///
/// # Panics
/// If it waits for ever, which is a finding.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(work: impl FnOnce(Rt) -> F) -> T {
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
    let rt = runtime.handle();
    runtime.block_on(work(rt)).expect("it ends")
}

/// A disk of this size with these bytes at their places.
pub fn disk(name: &str, size: ByteCount, parts: &[(u64, &[u8])]) -> Rc<MemoryDevice> {
    let disk = MemoryDevice::new(name, size);
    for (at, bytes) in parts {
        let room = size.bytes().saturating_sub(*at).min(bytes.len() as u64) as usize;
        if room > 0 {
            disk.poke(Offset(*at), &Buf::copy_of(&bytes[..room]).into());
        }
    }
    disk
}

/// A disk as whoever only knows devices sees it.
pub fn device(disk: &Rc<MemoryDevice>) -> DeviceRef {
    Rc::clone(disk) as DeviceRef
}

/// Input of a target, taken from the front. Where it ends there are zeros: shorter input means less, never nothing.
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next bytes, as many as there are.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        front
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// A number, little-endian.
    pub fn number<const BYTES: usize>(&mut self) -> u64 {
        let mut number = [0; 8];
        let front = self.take(BYTES);
        number[..front.len()].copy_from_slice(front);
        u64::from_le_bytes(number)
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.number::<1>() as u8
    }
}
