//! Workers that begin at the same moment.
//!
//! A tool that measures several threads together first starts them all, lets each open its files, and
//! then lets them go. [`start_together`] does so over a [`Crew`]: every worker says that it is ready by
//! waiting at the [`Gate`], and the conductor opens it when all do.
//!
//! Where a worker ends before the gate was opened, the gate is closed: the others need not wait for
//! one who does not come, and hear so from [`Gate::pass`].

use crate::crew::{Calls, Crew, Place, WorkerLost, start};
use futures_util::future::{Either, select, try_join_all};
use rt::Rt;
use rt::sync::Semaphore;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::Instant;

/// Where workers wait until all are ready.
pub struct Gate {
    ready: Semaphore,
    go: Semaphore,
    open: AtomicBool,
}

impl Gate {
    fn new() -> Gate {
        Gate { ready: Semaphore::new(0), go: Semaphore::new(0), open: AtomicBool::new(false) }
    }

    /// A worker has ended.
    fn ended(&self) {
        if !self.open.load(Ordering::SeqCst) {
            self.go.close();
        }
    }

    /// Waits for the others. False where they don't come: then there is nothing to do.
    pub async fn pass(&self) -> bool {
        self.ready.add_permits(1);
        match self.go.acquire().await {
            Ok(permit) => {
                permit.forget();
                true
            }
            Err(_) => false,
        }
    }
}

/// A moment, with the processor time until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// When.
    pub at: Instant,
    /// The processor time.
    pub processor: Duration,
}

impl Moment {
    /// This one.
    pub fn now(rt: &Rt) -> Moment {
        Moment { at: rt.now(), processor: rt.processor_time() }
    }
}

/// Starts `count` workers; each gets its number, its place and the gate, which it passes once. Gives
/// when the gate was opened (what is done to get ready lies before), and what the workers gave, in their order.
///
/// # Errors
/// [`WorkerLost`], of the first one that is.
pub async fn start_together<T, W, F>(
    crew: &dyn Crew,
    name: &str,
    count: usize,
    calls: Calls,
    work: W,
) -> Result<(Moment, Vec<T>), WorkerLost>
where
    T: Send + 'static,
    W: Fn(usize, Place, Arc<Gate>) -> F + Clone + Send + 'static,
    F: Future<Output = T> + 'static,
{
    let gate = Arc::new(Gate::new());
    let mut workers = Vec::with_capacity(count);
    for number in 0..count {
        let (work, gate_of_worker) = (work.clone(), Arc::clone(&gate));
        let worker = start(crew, &format!("{name} {number}"), calls, move |place| {
            let result = work(number, place, Arc::clone(&gate_of_worker));
            async move {
                let result = result.await;
                gate_of_worker.ended();
                result
            }
        });
        match worker {
            Ok(worker) => workers.push(worker),
            Err(lost) => {
                gate.go.close();
                return Err(lost);
            }
        }
    }
    let rt = crew.place().rt;
    let all = pin!(try_join_all(workers));
    let ready = pin!(gate.ready.acquire_many(count as u32));
    match select(ready, all).await {
        Either::Left((_, all)) => {
            let opened = Moment::now(&rt);
            gate.open.store(true, Ordering::SeqCst);
            gate.go.add_permits(count);
            Ok((opened, all.await?))
        }
        // One ended, or was lost, before the others were ready.
        Either::Right((results, _)) => {
            gate.go.close();
            Ok((Moment::now(&rt), results?))
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a worker that starts before the others are ready; a conductor that waits for
    //! ever because one worker failed to open its file.

    use super::*;
    use crate::crew::OneRuntime;
    use rt::{MemoryTree, Runtime, Work, WorkKind};
    use sim::SimReactor;
    use sim::host::Processor;
    use sim::profile::{Profile, load};
    use stdx::ByteCount;

    fn run<T: 'static>(work: impl AsyncFnOnce(&dyn Crew) -> T + 'static) -> T {
        run_on(Processor::infinite(), work)
    }

    fn run_on<T: 'static>(
        processor: Processor,
        work: impl AsyncFnOnce(&dyn Crew) -> T + 'static,
    ) -> T {
        let reactor = SimReactor::new(processor);
        let runtime = Runtime::new(reactor);
        let crew = OneRuntime::new(runtime.handle(), MemoryTree::new("m"));
        runtime.block_on(async move { work(&crew).await }).expect("it ends")
    }

    #[test]
    fn all_begin_when_the_last_one_is_ready() {
        let (opened, begun) = run(async |crew| {
            start_together(crew, "w", 4, Calls::Blocking, |number, place, gate| async move {
                place.rt.sleep(Duration::from_millis(10 * number as u64)).await;
                assert!(gate.pass().await);
                place.rt.now()
            })
            .await
            .expect("nobody is lost")
        });
        assert_eq!(opened.at, Instant::START + Duration::from_millis(30));
        assert_eq!(begun, [opened.at; 4]);
    }

    /// What a worker computes before it is ready is no work of what is measured.
    #[test]
    fn the_processor_time_of_getting_ready_lies_before_the_gate() {
        let Ok(Profile::Host(host)) = load("opteron-2008") else { panic!("a host") };
        let work = || Work::new(WorkKind::Copy, ByteCount::mib(8));
        let (opened, spent) = run_on(Processor::of_host(&host), async move |crew| {
            start_together(crew, "w", 2, Calls::Blocking, move |_, place, gate| async move {
                place.rt.charge(work()).await;
                let ready = place.rt.processor_time();
                assert!(gate.pass().await);
                place.rt.charge(work()).await;
                (ready, place.rt.processor_time())
            })
            .await
            .expect("nobody is lost")
        });
        let ready = spent.iter().map(|(ready, _)| *ready).max();
        let ended = spent.iter().map(|(_, ended)| *ended).max();
        assert!(Some(opened.processor) >= ready && !opened.processor.is_zero(), "{opened:?}");
        assert_eq!(ended, Some(2 * opened.processor));
    }

    #[test]
    fn nobody_waits_for_one_who_does_not_come() {
        let (_, passed) = run(async |crew| {
            start_together(crew, "w", 3, Calls::Blocking, |number, place, gate| async move {
                place.rt.sleep(Duration::from_millis(1)).await;
                number != 1 && gate.pass().await
            })
            .await
            .expect("nobody is lost")
        });
        assert_eq!(passed, [false; 3]);
    }
}
