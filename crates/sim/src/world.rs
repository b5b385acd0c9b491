//! Several executors of one host, under one clock.
//!
//! A real program has an executor a core, each on a thread of its own. Here one thread runs them all, in turn: at
//! each moment executor 0, 1, 2, … have a turn each, again and again, until none has anything to do; then the clock
//! goes to the first moment for which any of them waits. So a run depends on its inputs alone, byte for byte, as with
//! one executor; what really would be decided by a race is decided by the executors' order.
//!
//! Each executor has a core of the host's [processor](Processor) for itself (they share, where there are more
//! executors than cores); large work goes to whichever core is free. So executors gain here what they would gain really:
//! what each does on its own core, it does at the same time as the others.
//!
//! What one executor tells another goes by [`rt::filter::Elsewhere`], which books what a message costs.

use crate::host::Processor;
use crate::reactor::SimReactor;
use rt::{Rt, Runtime, Stalled};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use stdx::Instant;

/// See the [module](self).
pub struct World {
    clock: Rc<Cell<Instant>>,
    executors: Vec<(Rc<Runtime>, Rc<SimReactor>)>,
}

impl World {
    /// So many executors on a host with this processor, at the start of time.
    ///
    /// # Panics
    /// Without one.
    pub fn new(processor: Processor, executors: usize) -> World {
        assert!(executors > 0, "a world has an executor");
        let clock: Rc<Cell<Instant>> = Rc::default();
        let cores = processor.cores();
        let processor = Rc::new(RefCell::new(processor));
        let executors = (0..executors).map(|number| {
            let (clock, processor) = (Rc::clone(&clock), Rc::clone(&processor));
            let reactor = SimReactor::with(clock, processor, number % cores, true);
            let runtime = Runtime::new(Rc::clone(&reactor) as Rc<dyn rt::Reactor>);
            (Rc::new(runtime), reactor)
        });
        World { executors: executors.collect(), clock }
    }

    /// The handle of an executor.
    ///
    /// # Panics
    /// Where there is no such executor.
    pub fn rt(&self, executor: usize) -> Rt {
        self.executors[executor].0.handle()
    }

    pub(crate) fn executor(&self, executor: usize) -> (Rc<Runtime>, Rc<SimReactor>) {
        let (runtime, reactor) = &self.executors[executor];
        (Rc::clone(runtime), Rc::clone(reactor))
    }

    /// Runs a future on an executor to its end, and all others meanwhile.
    ///
    /// # Errors
    /// [`Stalled`] when it can never end: everybody waits, and nothing is under way.
    ///
    /// # Panics
    /// Where there is no such executor.
    pub fn run<F>(&self, executor: usize, future: F) -> Result<F::Output, Stalled>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let result = Rc::new(RefCell::new(None));
        let left = Rc::clone(&result);
        let main = Box::pin(async move { *left.borrow_mut() = Some(future.await) });
        self.run_to_end(executor, main)?;
        let output = result.borrow_mut().take();
        Ok(output.expect("a task that ended left its result"))
    }

    fn run_to_end(
        &self,
        executor: usize,
        main: Pin<Box<dyn Future<Output = ()>>>,
    ) -> Result<(), Stalled> {
        let main = self.rt(executor).spawn(main);
        loop {
            let mut is_busy = true;
            while is_busy {
                is_busy = false;
                for (runtime, _) in &self.executors {
                    is_busy |= runtime.turn();
                    if main.is_finished() {
                        return Ok(());
                    }
                }
            }
            let timers = self.executors.iter().filter_map(|(runtime, _)| runtime.next_deadline());
            let events = self.executors.iter().filter_map(|(_, reactor)| reactor.next_event());
            let next = timers.chain(events).min().ok_or(Stalled)?;
            self.clock.set(self.clock.get().max(next));
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a clock that one executor sees and another doesn't, a run that is another the next time,
    //! a wait that nobody ends, and executors that gain nothing or too much.

    use super::*;
    use crate::Machine;
    use crate::machine::MachineBuilder;
    use futures_util::future::join_all;
    use rt::filter::{Elsewhere, Gate, Trace};
    use rt::{Buf, Device, DeviceRef, Request, Work, WorkKind};
    use std::time::Duration;
    use stdx::{ByteCount, Offset, Prng};

    fn host() -> MachineBuilder {
        Machine::builder(1).host("epyc-2024").expect("it ships")
    }

    fn with_drive(world: &World, executor: usize, seed: u64) -> DeviceRef {
        let machine = Machine::builder(seed).drives("pm9a3", 1).expect("it ships");
        machine.build_in(world, executor).devices()[0].clone()
    }

    /// `device` of an executor, as another sees it.
    fn seen_from(world: &World, near: usize, far: usize, device: DeviceRef) -> Rc<Elsewhere> {
        let (gate, task) = Gate::open(&world.rt(far), device);
        task.detach();
        Elsewhere::new(&world.rt(near), gate)
    }

    /// What one drive each of three executors was asked by a fourth, and when.
    fn a_run(seed: u64) -> String {
        let world = World::new(host().processor(), 4);
        let (mut devices, mut traces) = (Vec::new(), Vec::new());
        for far in 1..4 {
            let trace = Trace::new(with_drive(&world, far, seed), &world.rt(far));
            devices.push(seen_from(&world, 0, far, trace.clone()));
            traces.push(trace);
        }
        let rt = world.rt(0);
        let ended = world.run(0, async move {
            let mut prng = Prng::new(seed);
            for _ in 0..20 {
                let asked = (0..32).map(|_| {
                    let device = &devices[prng.below(3) as usize];
                    let at = Offset(4096 * prng.below(1 << 20));
                    device.submit(match prng.chance(0.5) {
                        true => Request::read(at, ByteCount(4096)),
                        false => Request::write(at, Buf::fill(prng.below(9), 4096)),
                    })
                });
                let asked: Vec<_> = asked.collect();
                join_all(asked).await.into_iter().for_each(|answer| drop(answer.expect("done")));
            }
            rt.now()
        });
        let mut text = format!("{:?}\n", ended.expect("it ends"));
        for record in traces.iter().flat_map(|trace| trace.records()) {
            text += &format!("{record}\n");
        }
        text
    }

    #[test]
    fn one_seed_gives_one_run_however_many_executors() {
        let first = a_run(7);
        assert!(first.lines().count() > 600, "{first}");
        assert_eq!(first, a_run(7));
        assert_ne!(first, a_run(8));
    }

    #[test]
    fn a_request_that_crosses_is_booked_on_both_cores_and_else_takes_what_it_takes() {
        let world = World::new(host().processor(), 2);
        let device = with_drive(&world, 1, 1);
        let read = || Request::read(Offset(0), ByteCount(4096));
        let time = |executor: usize, device: DeviceRef| {
            let rt = world.rt(executor);
            let took = world.run(executor, async move {
                let begin = rt.now();
                device.submit(read()).await.expect("read");
                rt.now().since(begin)
            });
            took.expect("it ends")
        };
        let there = time(1, device.clone());
        let here = time(0, seen_from(&world, 0, 1, device));
        let rate = f64::from(WorkKind::Crossing.rate().fixed_ns);
        let more = (here - there).as_nanos() as f64;
        assert!((1.8 * rate..2.2 * rate).contains(&more), "{more} ns for two sides of {rate}");
    }

    #[test]
    fn executors_work_at_the_same_time_and_one_does_its_own_one_after_another() {
        let take = |executors: usize| {
            let world = World::new(host().processor(), executors);
            // 10 µs each: small, so it stays on the executor's core.
            let work = Work::new(WorkKind::ParityP, ByteCount(256_400));
            assert!(!work.is_large());
            let workers = (0..8).map(|n| {
                let rt = world.rt(n % executors);
                let own = rt.clone();
                rt.spawn(async move { own.compute(work, || ()).await })
            });
            let workers: Vec<_> = workers.collect();
            let rt = world.rt(0);
            let ended = world.run(0, async move {
                join_all(workers).await;
                rt.now().since(Instant::START)
            });
            ended.expect("it ends")
        };
        assert!(take(4) >= Duration::from_micros(19), "{:?}", take(4));
        assert_eq!(take(1), 4 * take(4));
    }

    #[test]
    fn a_wait_that_nobody_can_end_is_a_stall() {
        let world = World::new(Processor::infinite(), 3);
        let rt = world.rt(2);
        let ended = world.run(1, async move {
            rt.sleep(Duration::from_secs(1)).await;
            std::future::pending::<()>().await;
        });
        assert_eq!(ended, Err(Stalled));
    }
}
