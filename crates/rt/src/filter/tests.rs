//! Filters in towers. What could break: a filter that drops the priority, the `fua` or the order of what
//! passes through it, and towers whose answer depends on how they are stacked.

use super::*;
use crate::device::{DeviceRef, Priority, Request};
use crate::virtual_time::{run, runtime};
use crate::{Buf, MemoryDevice, Rt};
use proptest::prelude::*;
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

const SECTORS: u64 = 32;

/// Puts a filter that changes nothing (but time) over `below`.
fn harmless(which: u8, below: DeviceRef, rt: &Rt) -> DeviceRef {
    let capacity = below.geometry().capacity;
    match which {
        0 => Slice::new(below, Offset(0), capacity),
        1 => Linear::new("linear", vec![below]),
        2 => Stats::new(below, rt),
        3 => Trace::new(below, rt),
        4 => Fault::new(below, rt, Prng::new(1)),
        5 => PowerCut::with_memory(below, rt, ByteCount::kib(4)),
        6 => Overlap::new(below, rt),
        7 => Overlay::new(below, ByteCount::mib(1)),
        8 => {
            let (gate, task) = Gate::open(rt, below);
            task.detach();
            Elsewhere::new(rt, gate)
        }
        _ => {
            let slowness = Slowness { latency: Duration::from_micros(3), ..Slowness::default() };
            Delay::new(below, rt, slowness)
        }
    }
}

proptest! {
    /// Any tower of filters that do no harm is a plain array of bytes.
    #[test]
    fn a_tower_of_harmless_filters_behaves_as_plain_bytes(
        tower in proptest::collection::vec(0_u8..10, 0..6),
        steps in proptest::collection::vec((0..SECTORS, 0..SECTORS, 0_u8..6), 1..30),
    ) {
        let runtime = runtime();
        let rt = runtime.handle();
        let memory = MemoryDevice::new("m", ByteCount(512 * SECTORS)) as DeviceRef;
        let device = tower.iter().fold(memory, |below, which| harmless(*which, below, &rt));
        run(&runtime, async move {
            let mut bytes = vec![0_u8; 512 * SECTORS as usize];
            for (i, (a, b, what)) in steps.into_iter().enumerate() {
                let (a, b) = (a.min(b), a.max(b));
                let (at, len) = (Offset(512 * a), ByteCount(512 * (b - a)));
                let expected = &mut bytes[512 * a as usize..512 * b as usize];
                let request = match what {
                    0 => Request::flush(),
                    1 => {
                        expected.fill(0);
                        Request::write_zeroes(at, len)
                    }
                    2 => Request::read(at, len),
                    fua => {
                        Prng::new(i as u64).fill(expected);
                        let data = Buf::copy_of(expected);
                        if fua == 3 { Request::write_fua(at, data) } else { Request::write(at, data) }
                    }
                };
                let read = device.submit(request).await.expect("answered");
                if what == 2 {
                    assert_eq!(read.to_vec(), expected);
                }
            }
            let all = Request::read(Offset(0), ByteCount(512 * SECTORS));
            assert_eq!(device.submit(all).await.expect("read").to_vec(), bytes);
        });
    }

    /// What a request says beside its bytes reaches the bottom of any tower without a cache in it.
    #[test]
    fn priority_and_fua_reach_the_bottom(tower in proptest::collection::vec(0_u8..10, 0..6), background: bool, fua: bool) {
        let runtime = runtime();
        let rt = runtime.handle();
        let trace = Trace::new(MemoryDevice::new("m", ByteCount(4096)), &rt);
        let tower = tower.into_iter().filter(|which| ![5, 7].contains(which));
        let device = tower.fold(Rc::clone(&trace) as DeviceRef, |below, which| harmless(which, below, &rt));
        let priority = if background { Priority::Background } else { Priority::Foreground };
        run(&runtime, async move {
            let data = Buf::zeros(512);
            let write = if fua { Request::write_fua(Offset(512), data) } else { Request::write(Offset(512), data) };
            device.submit(write.with_priority(priority)).await.expect("written");
            let record = trace.records()[0];
            assert_eq!((record.priority, record.fua, record.offset), (priority, fua, Offset(512)));
        });
    }
}
