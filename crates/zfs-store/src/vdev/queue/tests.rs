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
        let first = request.offset.bytes() / 512;
        let sectors = first..first + request.len().bytes() / 512;
        let result = match &request.op {
            _ if sectors.contains(&BAD) => Err(IoError::of(&request, self, IoErrorKind::Medium)),
            Op::Read(_) => Ok(sectors.map(|sector| Buf::fill(sector, 512)).collect::<SgList>()),
            Op::Write { data, .. } => {
                let bytes = data.to_vec();
                for (sector, bytes) in sectors.zip(bytes.chunks(512)) {
                    assert_eq!(bytes, Buf::fill(sector, 512).bytes(), "at its place");
                }
                Ok(SgList::new())
            }
            Op::Discard(_) => Ok(SgList::new()),
            other => panic!("nobody asks for {other:?}"),
        };
        completion.complete(result);
        true
    }
}

/// Begins requests for these sectors (first, count) and answers until all are done.
fn do_all(requests: Vec<(u64, u64, IoClass)>, dirty: u64) -> (Vec<Answer>, Rc<Slow>) {
    let device = Rc::new(Slow::default());
    let answering = Rc::clone(&device);
    let answers = run(|rt| async move {
        let queue = Rc::new(Queue::new(
            &rt,
            Rc::clone(&answering) as DeviceRef,
            &Rc::new(Cell::new(dirty)),
        ));
        let tasks: Vec<_> = requests
            .into_iter()
            .map(|(first, count, class)| {
                let queue = Rc::clone(&queue);
                let (at, len) = (first * 512, count * 512);
                rt.spawn(async move {
                    let data = || (first..first + count).map(|n| Buf::fill(n, 512)).collect();
                    let done = |done: Result<(), IoErrorKind>| done.map(|()| Buf::empty());
                    match class {
                        IoClass::SyncWrite | IoClass::AsyncWrite => {
                            done(queue.write(at, data(), class).await)
                        }
                        IoClass::Trim => done(queue.trim(at, len).await),
                        _ => queue.read(at, len as usize, class).await,
                    }
                })
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

fn of_class(sectors: impl Iterator<Item = u64>, class: IoClass) -> Vec<(u64, u64, IoClass)> {
    sectors.map(|sector| (sector, 1, class)).collect()
}

#[test]
fn no_more_are_under_way_than_the_class_allows_and_neighbours_are_joined() {
    for class in IoClass::ALL {
        let requests = of_class((100..400).rev(), class);
        let (answers, device) = do_all(requests.clone(), 100);
        let limit = class.limits().1;
        assert_eq!(device.most.get(), limit, "{class:?}");
        let reads = matches!(class, IoClass::SyncRead | IoClass::AsyncRead | IoClass::Scrub);
        for ((sector, ..), answer) in requests.iter().zip(answers) {
            let expected = if reads { Buf::fill(*sector, 512) } else { Buf::empty() };
            assert_eq!(answer.expect("it is done"), expected);
        }
        // The first ones went alone; the rest was a few long ones. Trims stay as they are.
        let seen = device.seen.borrow();
        if class == IoClass::Trim {
            assert_eq!(seen.len(), 300);
            continue;
        }
        assert!(seen.len() < limit + 4, "{class:?}: {seen:?}");
        assert!(seen.iter().all(|(_, count)| count * 512 <= JOINED_BYTES_MAX));
    }
}

/// What could break: a scrub that stands still while others read, or that doesn't get its share back.
#[test]
fn scrubs_and_trims_give_way_and_writes_follow_dirty_data() {
    // Far apart, so that nothing is joined.
    let far = |n: u64, class| of_class((0..n).map(move |n| n * 900 + class as u64 * 100), class);
    let both = [far(30, IoClass::SyncRead), far(30, IoClass::Scrub)].concat();
    let (answers, device) = do_all(both, 0);
    assert!(answers.iter().all(Result::is_ok));
    // Reads came first, so the scrub began with its least; alone at last, it has its most.
    let seen = device.seen.borrow();
    let scrubbed = |seen: &[(u64, u64)]| seen.iter().filter(|(at, _)| at % 900 == 400).count();
    assert_eq!(scrubbed(&seen[..11]), 1, "{seen:?}");
    assert_eq!(device.most.get(), 11);
    drop(seen);
    for (dirty, most) in [(0, 2), (30, 2), (45, 6), (60, 10), (100, 10)] {
        let (answers, device) = do_all(far(40, IoClass::AsyncWrite), dirty);
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(device.most.get(), most, "{dirty} %");
    }
}

#[test]
fn a_bad_sector_fails_its_own_request_only() {
    for class in [IoClass::Scrub, IoClass::AsyncRead, IoClass::AsyncWrite] {
        let (answers, _) = do_all(of_class(60..90, class), 0);
        for (sector, answer) in (60..90).zip(answers) {
            assert_eq!(answer.is_err(), sector == BAD, "{class:?} {sector}");
            assert!(answer.is_ok() || answer == Err(IoErrorKind::Medium));
        }
    }
}

/// What could break: a write joined over a gap, which would put somebody's bytes where nobody wrote.
#[test]
fn writes_are_joined_only_where_they_touch() {
    // The first two go at once; the others wait.
    let sectors = [900, 950, 100, 101, 103, 104, 110];
    let (answers, device) = do_all(of_class(sectors.into_iter(), IoClass::AsyncWrite), 0);
    assert!(answers.iter().all(Result::is_ok));
    let seen = device.seen.borrow();
    assert_eq!(seen[2..], [(100, 2), (103, 2), (110, 1)], "{seen:?}");
}

#[test]
fn what_nobody_waits_for_is_not_read_and_holds_nothing_up() {
    let device = Rc::new(Slow::default());
    let answering = Rc::clone(&device);
    let done = run(|rt| async move {
        let device = Rc::clone(&answering) as DeviceRef;
        let queue = Rc::new(Queue::new(&rt, device, &Rc::default()));
        let begin = |sector: u64| {
            let queue = Rc::clone(&queue);
            rt.spawn(async move { queue.read(sector * 512, 512, IoClass::Scrub).await })
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
    let most = IoClass::Scrub.limits().1;
    assert!((most..=2 * most).contains(&for_nobody), "{for_nobody}");
}
