//! Carrying a plan out: its steps, its processes' threads, its figures.
//!
//! **A run.** Each thread of each process is a worker of the crew. All get ready, then start at one
//! moment, from which time and events count. The conductor waits for the end: the time that was set,
//! a thread that has nothing left to do (`finishoncount`, no file left) where the mode says that this
//! ends the run, an error, or Ctrl-C. Then every thread ends its op and closes its files; an op that
//! ends after the run's last moment is not counted.
//!
//! Threads with `aiowrite` are [`Calls::Queued`], so that their writes are under way together; all
//! others call the system as filebench's do.
//!
//! filebench gives no figures where a thread runs out of files in a run that time was to end; here the
//! run ends at that moment, with the figures up to it and a warning.

mod operations;
mod shared;
mod waiting;
mod worker;

use self::shared::{
    Block, Ending, Events, Messages, Named, RunShared, Semaphore, Totals, WorkerPlan,
};
use self::worker::{End, Worker};
use super::error::FilebenchError;
use super::fileset::Fileset;
pub use super::fileset::prepare::Preparation;
use super::fileset::prepare::Say;
pub use super::limits::IO_BYTES_MAX;
use super::output;
use super::plan::{Flowop, FlowopKind, Plan, ProcessPlan, QuitMode, RunPlan, Step, Target};
use super::statistics::{Figures, WorkerStatistics};
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, select_biased};
use rt::sync::{Notify, watch};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stdx::{ByteCount, Instant};
use workload::content::Content;
use workload::crew::{Calls, Crew, WorkerLost, start};
use workload::outcome::Outcome;

/// How often the conductor looks for Ctrl-C and for lines of threads.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Where lines and progress go.
pub trait Console {
    /// A line of filebench's output, and how long after the beginning.
    fn line(&self, at: Duration, text: &str);

    /// How the preparation of filesets goes on; called while it does.
    fn progress(&self, preparation: &Preparation);

    /// Runs a shell command of the workload (`system`), which the plan allowed.
    ///
    /// # Errors
    /// What the system says.
    fn system(&self, command: &str) -> Result<(), String>;

    /// How much may be written beforehand, where that is known.
    fn room(&self) -> Option<ByteCount> {
        None
    }
}

/// What a workload gave.
#[derive(Clone, Debug)]
pub struct FilebenchOutcome {
    /// The figures of each run: of all of it, or, where `psrun -` starts them anew, of its last period.
    pub runs: Vec<Figures>,
    /// What a reader must know, a sentence each.
    pub warnings: Vec<String>,
}

impl FilebenchOutcome {
    /// In the lab's terms: the last run.
    pub fn outcome(&self) -> Outcome {
        match self.runs.last() {
            Some(run) => run.outcome(self.warnings.clone()),
            None => Outcome { warnings: self.warnings.clone(), ..Outcome::default() },
        }
    }
}

/// Carries out a workload, whose files come to lie in the crew's tree.
///
/// `seed` is what the filesets, the random variables and the places in files come from. With `clean`
/// the filesets are removed at the end; else they stay, as filebench leaves them.
///
/// # Errors
/// [`FilebenchError`], which says which flowop or fileset, and why.
pub async fn run(
    crew: &dyn Crew,
    plan: &Plan,
    content: &Content,
    seed: u64,
    clean: bool,
    stop: &Arc<AtomicBool>,
    console: Rc<dyn Console>,
) -> Result<FilebenchOutcome, FilebenchError> {
    let rt = crew.place().rt;
    let conductor = Conductor {
        crew,
        plan,
        content,
        seed,
        stop,
        log: Log { begin: rt.now(), rt, console },
        filesets: RefCell::default(),
        warnings: RefCell::new(plan.notes.clone()),
    };
    let mut runs = Vec::new();
    let mut result = Ok(());
    for step in &plan.steps {
        result = conductor.step(step, &mut runs).await;
        if result.is_err() {
            break;
        }
    }
    if clean {
        let tree = crew.place().tree;
        let filesets = conductor.filesets.borrow().clone();
        for fileset in filesets.unwrap_or_default() {
            let removed = fileset.remove(&*tree).await;
            result = result.and(removed);
        }
    }
    result?;
    Ok(FilebenchOutcome { runs, warnings: conductor.warnings.into_inner() })
}

struct Conductor<'a> {
    crew: &'a dyn Crew,
    plan: &'a Plan,
    content: &'a Content,
    seed: u64,
    stop: &'a Arc<AtomicBool>,
    log: Log,
    /// Once they are created.
    filesets: RefCell<Option<Vec<Arc<Fileset>>>>,
    warnings: RefCell<Vec<String>>,
}

struct Log {
    begin: Instant,
    rt: rt::Rt,
    console: Rc<dyn Console>,
}

impl Say for Log {
    fn say(&self, text: String) {
        self.console.line(self.rt.now() - self.begin, &text);
    }
}

impl Conductor<'_> {
    fn say(&self, text: impl Into<String>) {
        self.log.say(text.into());
    }

    fn check_stop(&self) -> Result<(), FilebenchError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(FilebenchError::Interrupted),
            false => Ok(()),
        }
    }

    async fn step(&self, step: &Step, runs: &mut Vec<Figures>) -> Result<(), FilebenchError> {
        self.check_stop()?;
        match step {
            Step::Print(text) => self.say(text.clone()),
            Step::Version => self.say(format!("Filebench Version: {}", output::VERSION)),
            Step::Sleep(span) => {
                self.say("Sleeping...");
                let until = self.log.rt.now() + *span;
                while self.log.rt.now() < until {
                    let look = self.log.rt.now() + LOOK_EVERY;
                    self.log.rt.sleep_until(look.min(until)).await;
                    self.check_stop()?;
                }
                self.say(format!("Slept for {} seconds...", span.as_secs()));
            }
            Step::Create => self.create(true).await?,
            Step::ListFilesets => {
                output::fileset_list(&self.plan.filesets)
                    .into_iter()
                    .for_each(|line| self.say(line));
            }
            Step::Sync => self.crew.place().tree.sync().await.map_err(FilebenchError::Sync)?,
            Step::DropCaches => {
                let filesets = self.filesets.borrow().clone();
                for fileset in filesets.unwrap_or_default() {
                    fileset.drop_caches(&*self.crew.place().tree).await?;
                }
            }
            Step::System(command) => {
                self.log
                    .console
                    .system(command)
                    .map_err(|why| FilebenchError::System { command: command.clone(), why })?;
            }
            Step::Run(run) => {
                self.create(false).await?;
                runs.push(self.run(run).await?);
            }
        }
        Ok(())
    }

    /// Refuses a fileset that does not fit, before the first of its files is made. Of one that is used again it is not known what is
    /// there.
    fn check_room(&self, set: &Fileset) -> Result<(), FilebenchError> {
        let share = set.plan.preallocated_percent.min(100);
        let bytes = ByteCount((u128::from(set.bytes) * u128::from(share) / 100) as u64);
        match self.log.console.room() {
            Some(room) if bytes > room && !set.plan.reuse => {
                let fileset = Arc::clone(&set.plan.name);
                Err(FilebenchError::NoRoom { fileset, bytes, room })
            }
            _ => Ok(()),
        }
    }

    async fn create(&self, asked: bool) -> Result<(), FilebenchError> {
        if self.filesets.borrow().is_some() {
            if asked || !self.plan.filesets.is_empty() {
                self.say("Attempting to create fileset more than once, ignoring");
            }
            return Ok(());
        }
        self.say("Populating and pre-allocating filesets");
        let progress = Arc::new(Preparation::default());
        let mut filesets: Vec<Option<Arc<Fileset>>> = vec![None; self.plan.filesets.len()];
        // filebench takes the one that was defined last first.
        for (number, plan) in self.plan.filesets.iter().enumerate().rev() {
            let set = Arc::new(Fileset::populate(plan, &self.plan.variables, self.seed));
            output::populated(&set).into_iter().for_each(|line| self.say(line));
            self.check_room(&set)?;
            let creating = Arc::clone(&set);
            let mut created = std::pin::pin!(
                creating
                    .create(self.crew, self.content, self.seed, self.stop, &progress, &self.log)
                    .fuse()
            );
            loop {
                let mut look = std::pin::pin!(self.log.rt.sleep(LOOK_EVERY).fuse());
                select_biased! {
                    result = created => break result?,
                    () = look => self.log.console.progress(&progress),
                }
            }
            if let Some(place) = filesets.get_mut(number) {
                *place = Some(set);
            }
        }
        self.log.console.progress(&progress);
        self.say(
            "Waiting for pre-allocation to finish (in case of a parallel pre-allocation)"
                .to_owned(),
        );
        self.say("Population and pre-allocation of filesets completed");
        *self.filesets.borrow_mut() = Some(filesets.into_iter().flatten().collect());
        Ok(())
    }

    async fn run(&self, run: &RunPlan) -> Result<Figures, FilebenchError> {
        let filesets = self.filesets.borrow().clone().unwrap_or_default();
        let (workers, blocks, semaphores, processes) = unfold(&run.processes);
        for process in run.processes.iter().rev() {
            self.say(format!("Starting {} {} instances", process.instances, process.name));
        }
        let shared = Arc::new(RunShared {
            filesets,
            variables: Arc::clone(&self.plan.variables),
            content: self.content.clone(),
            ending: Ending::new(None),
            event_rate: run.event_rate,
            events: Events::new(),
            blocks,
            semaphores,
            messages: Messages::default(),
        });
        let totals: Vec<Arc<Totals>> = (0..processes).map(|_| Arc::default()).collect();
        let (go, wait_for_go) = watch::channel(false);
        let ready = Arc::new((AtomicUsize::new(0), Notify::new()));
        let mut statistics = Vec::new();
        let mut under_way: FuturesUnordered<LocalBoxFuture<'_, Result<End, WorkerLost>>> =
            FuturesUnordered::new();
        for (process, worker) in workers {
            let figures = Arc::new(Mutex::new(WorkerStatistics::new(run.rows.len())));
            statistics.push(Arc::clone(&figures));
            let (shared_of_worker, worker) = (Arc::clone(&shared), Arc::new(worker));
            let (ready, mut wait_for_go) = (Arc::clone(&ready), wait_for_go.clone());
            let totals = totals.get(process).cloned().unwrap_or_default();
            let calls = if worker.queued { Calls::Queued } else { Calls::Blocking };
            let (name, seed) = (Arc::clone(&worker.name), self.seed);
            let started = start(self.crew, &name, calls, move |place| async move {
                let shared = shared_of_worker;
                let mut worker =
                    Worker::new(place, Arc::clone(&shared), worker, totals, figures, seed);
                worker.prepare();
                ready.0.fetch_add(1, Ordering::SeqCst);
                ready.1.notify_one();
                // The conductor is gone where the wait fails.
                let end = match wait_for_go.wait_for(|go| *go).await.is_ok() {
                    true => worker.work().await,
                    false => End::RunOver,
                };
                worker.close().await;
                end
            });
            match started {
                Ok(worker) => under_way.push(worker.boxed_local()),
                Err(lost) => {
                    shared.ending.end(self.log.rt.now());
                    return Err(lost.into());
                }
            }
        }
        while ready.0.load(Ordering::SeqCst) < statistics.len() {
            select_biased! {
                ended = under_way.next() => {
                    shared.ending.end(self.log.rt.now());
                    if let Some(Err(lost)) = ended {
                        return Err(lost.into());
                    }
                    break;
                }
                () = ready.1.notified().fuse() => {}
            }
        }
        let begin = self.log.rt.now();
        if let Some(duration) = run.duration {
            shared.ending.schedule(begin + duration);
        }
        shared.events.start(begin);
        self.say("Running...");
        let mut running = Running { shared, statistics, run, begin, since: begin, failure: None };
        // Somebody waits, unless there is no worker at all.
        let _ = go.send(true);
        running.conduct(self, &mut under_way).await;
        let end = running.shared.ending.at().min(self.log.rt.now());
        // All threads end what they are at.
        while let Some(ended) = under_way.next().await {
            running.take(ended, &mut self.warnings.borrow_mut(), self.log.rt.now());
        }
        running.shared.messages.take().into_iter().for_each(|line| self.say(line));
        if let Some(error) = running.failure {
            return Err(error);
        }
        self.check_stop()?;
        self.say(format!("Run took {} seconds...", (end - begin).as_secs()));
        let figures = running.figures(end);
        self.say(output::breakdown(&figures));
        self.say(output::summary(&figures.summary()));
        self.say("Shutting down processes");
        Ok(figures)
    }
}

/// A run under way.
struct Running<'a> {
    shared: Arc<RunShared>,
    statistics: Vec<Arc<Mutex<WorkerStatistics>>>,
    run: &'a RunPlan,
    begin: Instant,
    /// When the figures began.
    since: Instant,
    failure: Option<FilebenchError>,
}

impl Running<'_> {
    fn figures(&self, now: Instant) -> Figures {
        let mut figures = Figures::new(self.run, now - self.since);
        for worker in &self.statistics {
            figures.add(&worker.lock().unwrap_or_else(PoisonError::into_inner));
        }
        figures
    }

    /// Waits until the run is over, and ends it.
    async fn conduct(
        &mut self,
        conductor: &Conductor<'_>,
        under_way: &mut FuturesUnordered<LocalBoxFuture<'_, Result<End, WorkerLost>>>,
    ) {
        let rt = &conductor.log.rt;
        let deadline = self.run.duration.map(|duration| self.begin + duration);
        let mut next_period = self.run.period.map(|period| self.begin + period.every);
        loop {
            let now = rt.now();
            let mut until = now + LOOK_EVERY;
            for moment in [deadline, next_period].into_iter().flatten() {
                until = until.min(moment);
            }
            select_biased! {
                ended = under_way.next() => match ended {
                    None => break,
                    Some(ended) => {
                        let mut warnings = conductor.warnings.borrow_mut();
                        if self.take(ended, &mut warnings, rt.now()) {
                            break;
                        }
                    }
                },
                () = rt.sleep_until(until).fuse() => {}
            }
            self.shared.messages.take().into_iter().for_each(|line| conductor.say(line));
            let now = rt.now();
            if deadline.is_some_and(|deadline| now >= deadline)
                || conductor.stop.load(Ordering::Relaxed)
            {
                break;
            }
            if let (Some(moment), Some(period)) = (next_period, self.run.period)
                && now >= moment
            {
                let figures = self.figures(now);
                conductor.say(output::breakdown(&figures));
                conductor.say(output::summary(&figures.summary()));
                if period.clears {
                    for worker in &self.statistics {
                        worker.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    }
                    self.since = now;
                }
                next_period = Some(moment + period.every);
            }
        }
        self.shared.ending.end(rt.now());
    }

    /// Takes up a thread's end; true where it ends the run.
    fn take(
        &mut self,
        ended: Result<End, WorkerLost>,
        warnings: &mut Vec<String>,
        now: Instant,
    ) -> bool {
        let over = self.shared.ending.is_over();
        let ends = self.run.mode != QuitMode::AllDone;
        match ended {
            Ok(End::RunOver) => false,
            Ok(End::Finished) => ends,
            Ok(End::NothingLeft(flowop)) => {
                if !over && self.run.mode == QuitMode::Timeout {
                    let after = (now - self.begin).as_secs_f64();
                    warnings.push(format!(
                        "the run stopped early, after {after:.3} s: flowop {flowop} could not obtain \
                         a file; reduce the run time, increase the fileset's entries, or use set \
                         mode quit firstdone"
                    ));
                }
                ends
            }
            Ok(End::Failed(error)) => {
                self.failure.get_or_insert(error);
                true
            }
            Err(lost) => {
                self.failure.get_or_insert(lost.into());
                true
            }
        }
    }
}

type Unfolded = (Vec<(usize, WorkerPlan)>, Named<Block>, Named<Semaphore>, usize);

/// Processes and threads in all their instances, each with the number of its process; and the blocks and
/// semaphores of all.
fn unfold(processes: &[ProcessPlan]) -> Unfolded {
    let (mut workers, mut process_number) = (Vec::new(), 0);
    let (mut blocks, mut semaphores) = (Named::new(), Named::new());
    for process in processes {
        let needs_totals = process.threads.iter().any(|thread| looks_at_totals(&thread.flowops));
        for process_instance in 1..=process.instances {
            for thread in &process.threads {
                for instance in 1..=thread.instances {
                    let name = format!(
                        "process ({},{process_instance}), thread ({},{instance})",
                        process.name, thread.name
                    );
                    let mut worker = WorkerPlan {
                        name: name.into(),
                        number: workers.len() as u64,
                        flowops: thread.flowops.clone(),
                        slots: thread.slots,
                        needs_totals,
                        queued: false,
                        blocks: Vec::new(),
                        semaphores: Vec::new(),
                        tested: Vec::new(),
                    };
                    worker.enter(&thread.flowops, &mut blocks, &mut semaphores);
                    workers.push((process_number, worker));
                }
            }
            process_number += 1;
        }
    }
    (workers, blocks, semaphores, process_number)
}

impl WorkerPlan {
    fn enter(
        &mut self,
        flowops: &[Flowop],
        blocks: &mut Named<Block>,
        semaphores: &mut Named<Semaphore>,
    ) {
        for flowop in flowops {
            let name = || Arc::clone(&flowop.name);
            match flowop.kind {
                FlowopKind::Block => {
                    let block = Arc::new(Block::default());
                    blocks.entry(name()).or_default().push(Arc::clone(&block));
                    self.blocks.push((flowop.slot, block));
                }
                FlowopKind::SemBlock => {
                    let semaphore = Arc::new(Semaphore::new(flowop.highwater));
                    semaphores.entry(name()).or_default().push(Arc::clone(&semaphore));
                    self.semaphores.push((flowop.slot, semaphore));
                }
                FlowopKind::AioWrite => self.queued = true,
                FlowopKind::TestRandVar => self.tested.push((flowop.slot, name())),
                _ => {}
            }
            self.enter(&flowop.inner, blocks, semaphores);
        }
    }
}

fn looks_at_totals(flowops: &[Flowop]) -> bool {
    use FlowopKind::{BwLimit, FinishOnBytes, FinishOnCount, IopsLimit, OpsLimit};
    flowops.iter().any(|flowop| {
        let looks =
            matches!(flowop.kind, BwLimit | FinishOnBytes | FinishOnCount | IopsLimit | OpsLimit);
        looks && flowop.target == Target::None || looks_at_totals(&flowop.inner)
    })
}
