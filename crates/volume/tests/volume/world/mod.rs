//! A runtime whose time jumps, and disks in memory.

use rt::{Buf, DeviceRef, MemoryDevice, Reactor, Rt, Runtime, SgList};
use sim::SimReactor;
use sim::host::Processor;
use std::future::Future;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Runs something to its end.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(work: impl FnOnce(Rt) -> F) -> T {
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
    let rt = runtime.handle();
    runtime.block_on(work(rt)).expect("it ends")
}

/// A disk of this size that begins with these bytes.
pub fn disk(name: &str, size: ByteCount, head: &[u8]) -> Rc<MemoryDevice> {
    let disk = MemoryDevice::new(name, size);
    disk.poke(Offset::ZERO, &SgList::from(Buf::copy_of(head)));
    disk
}

/// As devices.
pub fn devices(disks: &[Rc<MemoryDevice>]) -> Vec<DeviceRef> {
    disks.iter().map(|disk| Rc::clone(disk) as DeviceRef).collect()
}
