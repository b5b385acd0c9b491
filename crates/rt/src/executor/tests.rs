//! What could break: the order of tasks and timers, tasks that leak when a run ends, a stall that
//! hangs, and wakers that come from other threads.

use super::*;
use crate::virtual_time::{runtime, runtime_with_threads};
use crate::work::WorkKind;
use stdx::ByteCount;

#[test]
fn tasks_run_in_the_order_of_spawning_and_timers_in_the_order_of_deadlines() {
    let runtime = runtime();
    let rt = runtime.handle();
    let log = Rc::new(RefCell::new(Vec::new()));
    let tasks: Vec<_> = [30_u64, 10, 20, 10]
        .into_iter()
        .enumerate()
        .map(|(i, micros)| {
            let (rt, log) = (rt.clone(), Rc::clone(&log));
            runtime.handle().spawn(async move {
                log.borrow_mut().push((i, 0));
                rt.sleep(Duration::from_micros(micros)).await;
                log.borrow_mut().push((i, micros));
            })
        })
        .collect();
    let done = runtime.block_on(async move {
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(done, Ok(()));
    let expected = vec![(0, 0), (1, 0), (2, 0), (3, 0), (1, 10), (3, 10), (2, 20), (0, 30)];
    assert_eq!(*log.borrow(), expected);
    assert_eq!(rt.now(), Instant::from_nanos(30_000));
}

#[test]
fn a_future_that_nothing_can_wake_is_a_stall_not_a_hang() {
    assert_eq!(runtime().block_on(std::future::pending::<()>()), Err(Stalled));
}

#[test]
fn dropping_the_runtime_drops_tasks_that_wait_in_a_circle() {
    let alive = Rc::new(());
    let runtime = runtime();
    let rt = runtime.handle();
    let notify = Rc::new(crate::sync::Notify::new());
    for _ in 0..3 {
        let (alive, notify, rt2) = (Rc::clone(&alive), Rc::clone(&notify), rt.clone());
        rt.spawn(async move {
            let _alive = alive;
            rt2.yield_now().await;
            notify.notified().await;
        })
        .detach();
    }
    let (sleeper, rt2) = (Rc::clone(&alive), rt.clone());
    rt.spawn(async move {
        let _sleeper = sleeper;
        rt2.sleep(Duration::from_secs(1_000_000)).await;
    })
    .detach();
    let rt2 = rt.clone();
    runtime.block_on(async move { rt2.yield_now().await }).expect("no stall");
    assert_eq!(Rc::strong_count(&alive), 5);
    drop(runtime);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn work_on_another_thread_wakes_its_task() {
    let runtime = runtime_with_threads();
    let rt = runtime.handle();
    let sum = runtime.block_on(async move {
        let work = Work::new(WorkKind::Copy, ByteCount::mib(1));
        let mut sum = 0;
        for i in 0..100 {
            sum += rt.compute(work, move || i).await;
        }
        sum
    });
    assert_eq!(sum, Ok(4950));
}

#[test]
fn simulated_work_takes_its_modelled_time() {
    let runtime = runtime();
    let rt = runtime.handle();
    let now = runtime.block_on(async move {
        let answer = rt.compute(Work::new(WorkKind::Copy, ByteCount(500)), || 42).await;
        (answer, rt.now())
    });
    assert_eq!(now, Ok((42, Instant::from_nanos(500))));
}

#[test]
fn a_cancelled_sleep_leaves_no_timer_that_time_waits_for() {
    let runtime = runtime();
    let rt = runtime.handle();
    let now = runtime.block_on(async move {
        for _ in 0..1000 {
            let sleep = rt.sleep(Duration::from_secs(3600));
            let quick = rt.sleep(Duration::from_nanos(1));
            futures_util::future::select(sleep, quick).await;
        }
        rt.now()
    });
    assert_eq!(now, Ok(Instant::from_nanos(1000)));
}
