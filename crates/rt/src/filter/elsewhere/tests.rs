//! What could break: a request that waits for ever because the other side ended, an answer that goes to another
//! request, order that is lost on the way, more under way than the window.
//!
//! The far executor is a thread of its own. That it behaves as plain bytes is in the filters' tests.

#![allow(clippy::disallowed_methods, reason = "the other executor is another thread")]

use super::*;
use crate::filter::{Overlay, Trace};
use crate::virtual_time::{run, runtime_with_threads};
use crate::{Buf, MemoryDevice, SgList};
use futures_util::future::join_all;
use std::sync::mpsc::{Sender, channel};

const CAPACITY: ByteCount = ByteCount::mib(1);

/// Runs `far` on a thread with an executor, and `near` here with the gate that it sends.
fn on_two_threads<F: Future<Output = ()> + 'static>(
    far: impl FnOnce(Rt, Sender<Gate>) -> F + Send + 'static,
    near: impl AsyncFnOnce(Rt, Rc<Elsewhere>) + 'static,
) -> std::thread::Result<()> {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        let runtime = runtime_with_threads();
        run(&runtime, far(runtime.handle(), sender));
    });
    let runtime = runtime_with_threads();
    let rt = runtime.handle();
    let gate = receiver.recv().expect("a gate");
    run(&runtime, async move {
        let device = Elsewhere::new(&rt, gate);
        near(rt, device).await;
    });
    drop(runtime);
    thread.join()
}

async fn serve(rt: Rt, sender: Sender<Gate>) {
    let (gate, task) = Gate::open(&rt, MemoryDevice::new("far", CAPACITY));
    sender.send(gate).expect("somebody waits");
    task.await;
}

fn write(sector: u64, word: u64) -> Request {
    Request::write(Offset(512 * sector), Buf::fill(word, 512))
}

fn read(sector: u64) -> Request {
    Request::read(Offset(512 * sector), ByteCount(512))
}

#[test]
fn a_gate_may_be_sent_to_another_thread() {
    fn crosses<T: Send>() {}
    crosses::<Gate>();
}

#[test]
fn many_requests_at_once_come_back_each_with_its_own_answer() {
    let ended = on_two_threads(serve, async |_, device| {
        let sectors = CAPACITY.bytes() / 512;
        for round in 0..3 {
            let writes = (0..sectors).map(|at| device.submit(write(at, at + round)));
            join_all(writes).await.into_iter().for_each(|answer| drop(answer.expect("written")));
            device.submit(Request::flush()).await.expect("flushed");
            let reads = join_all((0..sectors).map(|at| device.submit(read(at)))).await;
            for (at, answer) in reads.into_iter().enumerate() {
                let expected = Buf::fill(at as u64 + round, 512);
                assert_eq!(answer.expect("read").into_contiguous(), expected);
            }
        }
        assert_eq!(device.near.waiting.borrow().len(), 0);
        let found = device.extents(Offset(0), CAPACITY, 4096).await.expect("known");
        assert_eq!(found.iter().map(|extent| extent.len.bytes()).sum::<u64>(), CAPACITY.bytes());
    });
    ended.expect("the far end's task ends when the near end is gone");
}

/// An error of the far device comes as it is, with its name.
#[test]
fn an_error_crosses_as_it_is() {
    let far = async |rt: Rt, sender: Sender<Gate>| {
        let full = Overlay::new(MemoryDevice::new("m", CAPACITY), ByteCount::ZERO);
        let (gate, task) = Gate::open(&rt, full);
        sender.send(gate).expect("somebody waits");
        task.await;
    };
    let ended = on_two_threads(far, async |_, device| {
        let error = device.submit(write(1, 1)).await.expect_err("no room");
        assert_eq!(error.to_string(), "m (in memory): write of 512 B at byte 512: no space left");
    });
    ended.expect("it ends");
}

#[test]
fn requests_begin_there_in_the_order_of_submission_and_no_more_than_the_window() {
    let runtime = crate::virtual_time::runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let trace = Trace::new(MemoryDevice::new("far", CAPACITY), &rt);
        let (gate, _task) = Gate::open(&rt, trace.clone());
        let device = Elsewhere::new(&rt, gate);
        let order: Vec<u64> = (0..2 * WINDOW as u64).map(|n| n * 7 % 2000).collect();
        let answers: Vec<IoFuture> = order.iter().map(|at| device.submit(write(*at, 1))).collect();
        assert_eq!(device.near.waiting.borrow().len(), WINDOW);
        assert_eq!(device.near.line.lock().requests.len(), WINDOW);
        join_all(answers).await;
        let seen =
            trace.records().iter().map(|record| record.offset.bytes() / 512).collect::<Vec<_>>();
        assert_eq!(seen, order);
    });
}

/// Each of these far ends goes while requests are under way.
#[test]
fn when_the_far_end_goes_everything_under_way_is_answered_with_an_error() {
    /// Takes requests and answers none.
    struct Silent;
    impl Device for Silent {
        fn geometry(&self) -> Geometry {
            Geometry::plain(CAPACITY)
        }
        fn name(&self) -> Arc<str> {
            "silent".into()
        }
        fn begin(&self, request: Request) -> IoFuture {
            assert!(request.kind() != OpKind::Flush, "it panics at a flush");
            IoFuture::new(std::future::pending())
        }
    }
    /// How the far end goes.
    #[derive(Clone, Copy, PartialEq)]
    enum Goes {
        TaskDropped,
        ExecutorDropped,
        Panic,
    }
    for how in [Goes::TaskDropped, Goes::ExecutorDropped, Goes::Panic] {
        let far = move |rt: Rt, sender: Sender<Gate>| async move {
            let (gate, task) = Gate::open(&rt, Rc::new(Silent));
            sender.send(gate).expect("somebody waits");
            if how == Goes::Panic {
                task.await;
                return;
            }
            for _ in 0..1000 {
                rt.yield_now().await;
            }
            match how {
                Goes::TaskDropped => drop(task),
                _ => task.detach(),
            }
        };
        let ended = on_two_threads(far, async move |_, device| {
            // So few that the flush crosses, or more than do.
            let count = if how == Goes::Panic { 10 } else { 2 * WINDOW as u64 };
            let mut answers: Vec<IoFuture> = (0..count).map(|at| device.submit(read(at))).collect();
            answers.push(device.submit(Request::flush()));
            for answer in join_all(answers).await {
                let error = answer.expect_err("nobody answers");
                assert_eq!((error.kind, &*error.device), (IoErrorKind::Gone, "silent"));
            }
            let late = device.submit(Request::write(Offset(0), SgList::zeros(512))).await;
            assert_eq!(late.expect_err("gone").kind, IoErrorKind::Gone);
        });
        assert_eq!(ended.is_err(), how == Goes::Panic);
    }
}
