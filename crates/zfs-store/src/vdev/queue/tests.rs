//! What could break: more under way than the limit, a read that nobody begins any more, bytes that go to the wrong
//! reader of a joined read, one bad sector that fails its neighbours.

use super::*;
use crate::no_time::run;
use futures_util::future::join_all;
use rt::{Device, Geometry, IoCompletion, IoError, IoFuture, Op, SgList};
use std::cell::Cell;
use std::sync::Arc;

/// Answers when it is told to. Each 512 bytes hold their number; those of [`BAD`] can't be read.
#[derive(Default)]
struct Slow {
    open: RefCell<Vec<(Request, IoCompletion)>>,
    seen: RefCell<Vec<(u64, u64)>>,
    most: Cell<usize>,
}

const BAD: u64 = 77;

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        Geometry::plain(ByteCount::mib(64))
    }
    fn name(&self) -> Arc<str> {
        "slow".into()
    }
    fn begin(&self, request: Request) -> IoFuture {
        let (completion, future) = IoFuture::pending();
        self.seen.borrow_mut().push((request.offset.bytes() / 512, request.len().bytes() / 512));
        self.open.borrow_mut().push((request, completion));
        self.most.set(self.most.get().max(self.open.borrow().len()));
        future
    }
}

impl Slow {
    /// Answers the oldest request; false where there is none.
    fn answer(&self) -> bool {
        if self.open.borrow().is_empty() {
            return false;
        }
        let (request, completion) = self.open.borrow_mut().remove(0);
        let Op::Read(len) = request.op else { panic!("only reads come") };
        let first = request.offset.bytes() / 512;
        let sectors = first..first + len.bytes() / 512;
        let result = if sectors.contains(&BAD) {
            Err(IoError::of(&request, self, IoErrorKind::Medium))
        } else {
            Ok(sectors.map(|sector| Buf::fill(sector, 512)).collect::<SgList>())
        };
        completion.complete(result);
        true
    }
}

/// Begins reads of these sectors (first, count) and answers until all are done.
fn read_all(reads: Vec<(u64, u64)>, priority: Priority) -> (Vec<Answer>, Rc<Slow>) {
    let device = Rc::new(Slow::default());
    let answering = Rc::clone(&device);
    let answers = run(|rt| async move {
        let queue = Rc::new(Queue::new(&rt, Rc::clone(&answering) as DeviceRef));
        let tasks: Vec<_> = reads
            .into_iter()
            .map(|(first, count)| {
                let queue = Rc::clone(&queue);
                let read =
                    async move { queue.read(first * 512, count as usize * 512, priority).await };
                rt.spawn(read)
            })
            .collect();
        rt.yield_now().await;
        while answering.answer() {
            for _ in 0..4 {
                rt.yield_now().await;
            }
        }
        assert_eq!(queue.load(), 0, "nothing is left");
        join_all(tasks).await
    });
    (answers, device)
}

#[test]
fn no_more_are_under_way_than_the_class_allows_and_neighbours_are_joined() {
    let reads: Vec<(u64, u64)> = (100..400).rev().map(|sector| (sector, 1)).collect();
    for (priority, limit) in
        [(Priority::Foreground, FOREGROUND_MAX), (Priority::Background, BACKGROUND_MAX)]
    {
        let (answers, device) = read_all(reads.clone(), priority);
        assert_eq!(device.most.get(), limit);
        for ((sector, _), answer) in reads.iter().zip(answers) {
            assert_eq!(answer.expect("it is read"), Buf::fill(*sector, 512));
        }
        // The first ones went alone; the rest was a few long reads.
        let seen = device.seen.borrow();
        assert!(seen.len() < limit + 4, "{seen:?}");
        assert!(seen.iter().all(|(_, count)| count * 512 <= JOINED_BYTES_MAX));
    }
}

#[test]
fn a_bad_sector_fails_its_own_read_only() {
    let (answers, _) = read_all((60..90).map(|sector| (sector, 1)).collect(), Priority::Background);
    for (sector, answer) in (60..90).zip(answers) {
        match sector {
            BAD => assert_eq!(answer, Err(IoErrorKind::Medium)),
            _ => assert_eq!(answer.expect("it is read"), Buf::fill(sector, 512)),
        }
    }
}

#[test]
fn what_nobody_waits_for_is_not_read_and_holds_nothing_up() {
    let device = Rc::new(Slow::default());
    let answering = Rc::clone(&device);
    let done = run(|rt| async move {
        let queue = Rc::new(Queue::new(&rt, Rc::clone(&answering) as DeviceRef));
        let begin = |sector: u64| {
            let queue = Rc::clone(&queue);
            rt.spawn(async move { queue.read(sector * 512, 512, Priority::Background).await })
        };
        let mut tasks: Vec<_> = (0..20).map(|n| begin(n * 1000)).collect();
        rt.yield_now().await;
        // Those under way and some that wait are given up.
        tasks.drain(0..10);
        for _ in 0..4 {
            rt.yield_now().await;
        }
        while answering.answer() {
            for _ in 0..4 {
                rt.yield_now().await;
            }
        }
        join_all(tasks).await.into_iter().filter(Result::is_ok).count()
    });
    assert_eq!(done, 10);
    // Those that were begun, and those that took their places before they were given up too.
    let for_nobody = device.seen.borrow().len() - 10;
    assert!((BACKGROUND_MAX..=2 * BACKGROUND_MAX).contains(&for_nobody), "{for_nobody}");
}
