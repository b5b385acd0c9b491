//! The phases of a case, on all of its threads.

use super::figures::{CaseOutcome, Figure, Phase, TiobenchOutcome};
use super::plan::{Case, Plan};
use rt::{FileRef, OpenHow};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset, Prng};
use workload::blocks::Blocks;
use workload::content::Content;
use workload::crew::{Calls, Crew, PhaseEnd, Place, start};
use workload::gate::{Gate, start_together};
use workload::io_failure::IoFailure;
use workload::one_buffer::{self, OneBuffer};
use workload::outcome::count_latency;
use workload::run_error::RunError;

/// What counts as slow.
const SLOW: Duration = Duration::from_secs(2);
/// What counts as very slow.
const VERY_SLOW: Duration = Duration::from_secs(10);

/// What all threads share. Cheap to clone.
#[derive(Clone)]
struct Job {
    plan: Arc<Plan>,
    content: Content,
    seed: u64,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn path(&self, thread: u32) -> PathBuf {
        self.plan.path(thread)
    }
}

/// One phase of a thread: when it ended, and its figures.
type Done = Result<Option<(Instant, Figure)>, RunError>;

/// What is told of a run while it goes on.
pub enum Step<'a> {
    /// A case begins: its number, counted from 0.
    Begins(usize, &'a Case),
    /// It is done, and stays so if the run comes to no end.
    Done(&'a CaseOutcome),
}

/// Runs all cases; `heard` is told of each before and after.
///
/// # Errors
/// [`RunError`]; the files are removed.
pub async fn run(
    crew: &dyn Crew,
    plan: &Plan,
    content: &Content,
    seed: u64,
    stop: Arc<AtomicBool>,
    heard: &dyn Fn(Step<'_>),
) -> Result<TiobenchOutcome, RunError> {
    let plan = Arc::new(plan.clone());
    let mut cases = Vec::new();
    for (number, case) in plan.cases().into_iter().enumerate() {
        heard(Step::Begins(number, &case));
        let mut figures = BTreeMap::new();
        for run in 0..plan.runs {
            let seed = Prng::for_part(seed, &format!("case {number} run {run}")).next_u64();
            let (content, stop) = (content.clone(), Arc::clone(&stop));
            let job = Job { plan: Arc::clone(&plan), content, seed, stop };
            let done = phases(crew, &job, &case, &mut figures).await;
            // What went wrong counts more than what comes of tidying up.
            let removed = remove(crew, &job, &case).await;
            done?;
            removed?;
        }
        let done = CaseOutcome { case, figures };
        heard(Step::Done(&done));
        cases.push(done);
    }
    Ok(TiobenchOutcome { plan: Plan::clone(&plan), content: content.spec(), cases })
}

async fn phases(
    crew: &dyn Crew,
    job: &Job,
    case: &Case,
    figures: &mut BTreeMap<Phase, Figure>,
) -> Result<(), RunError> {
    let place = crew.place();
    for phase in Phase::ALL {
        place.says(PhaseEnd::Begins(phase.word()));
        let figure = match phase == Phase::Write && job.plan.one_after_another {
            true => in_turn(crew, job, case, phase).await?,
            false => together(crew, job, case, phase).await?,
        };
        place.says(PhaseEnd::Ends(phase.word()));
        figures.entry(phase).or_default().add(&figure);
    }
    Ok(())
}

/// All threads at once.
async fn together(
    crew: &dyn Crew,
    job: &Job,
    case: &Case,
    phase: Phase,
) -> Result<Figure, RunError> {
    let (for_workers, case_of_workers) = (job.clone(), *case);
    let (opened, done) = start_together(
        crew,
        "tiobench",
        case.threads as usize,
        Calls::Blocking,
        move |thread, place, gate: Arc<Gate>| {
            let job = for_workers.clone();
            async move {
                let worker = Worker::new(job, case_of_workers, phase, thread as u32);
                match gate.pass().await {
                    true => worker.work(&place).await.map(Some),
                    false => Ok(None),
                }
            }
        },
    )
    .await?;
    sum(done, opened.at)
}

/// One thread after another.
async fn in_turn(
    crew: &dyn Crew,
    job: &Job,
    case: &Case,
    phase: Phase,
) -> Result<Figure, RunError> {
    let begun = crew.place().rt.now();
    let mut done: Vec<Done> = Vec::new();
    for thread in 0..case.threads {
        let worker = Worker::new(job.clone(), *case, phase, thread);
        let worker =
            start(crew, &format!("tiobench {thread}"), Calls::Blocking, move |place| async move {
                worker.work(&place).await.map(Some)
            })?;
        done.push(worker.await?);
    }
    sum(done, begun)
}

/// The figures of all threads together.
fn sum(done: Vec<Done>, begun: Instant) -> Result<Figure, RunError> {
    let mut sum = Figure::default();
    let threads = done.len() as u32;
    let mut ended = begun;
    for done in done {
        if let Some((end, figure)) = done? {
            sum.add(&figure);
            ended = ended.max(end);
        }
    }
    sum.elapsed = ended.since(begun);
    sum.processor /= threads.max(1);
    Ok(sum)
}

async fn remove(crew: &dyn Crew, job: &Job, case: &Case) -> Result<(), RunError> {
    let tree = crew.place().tree;
    for thread in 0..case.threads {
        match tree.remove_file(&job.path(thread)).await.map_err(IoFailure::from) {
            Err(failure) if !failure.is_not_found() => return Err(failure.into()),
            _ => {}
        }
    }
    Ok(())
}

/// One thread in one phase.
struct Worker {
    job: Job,
    case: Case,
    phase: Phase,
    path: PathBuf,
    blocks: u64,
    /// What is written; made before the time runs.
    written: Option<Blocks>,
    buffer: OneBuffer,
    places: Prng,
}

impl Worker {
    fn new(job: Job, case: Case, phase: Phase, thread: u32) -> Worker {
        // Each thread and phase has a source of its own.
        let source = u64::from(thread) * 2 + u64::from(phase.is_random());
        let len = case.block.as_usize();
        let written = phase.writes().then(|| Blocks::new(&job.content, source, len));
        let part = format!("{} of thread {thread}", phase.word());
        Worker {
            path: job.path(thread),
            blocks: case.blocks_of_thread(),
            written,
            buffer: OneBuffer::new(case.block),
            places: Prng::for_part(job.seed, &part),
            job,
            case,
            phase,
        }
    }

    async fn work(mut self, place: &Place) -> Result<(Instant, Figure), RunError> {
        let how = OpenHow { write: true, create: true, ..OpenHow::default() };
        let how = how.with_direct(self.job.plan.direct);
        let file = place.tree.open(&self.path, how).await.map_err(IoFailure::from)?;
        let size = ByteCount(self.blocks * self.case.block.bytes());
        file.set_size(size).await.map_err(IoFailure::from)?;
        if self.job.plan.drop_caches {
            file.drop_cache().await.map_err(IoFailure::from)?;
        }
        let processor = place.rt.processor_time();
        let mut figure = Figure::default();
        let count = match self.phase.is_random() {
            true => self.case.random_of_thread(),
            false => self.blocks,
        };
        for number in 0..count {
            if self.job.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            let block = match self.phase.is_random() {
                true => self.places.below(self.blocks),
                false => number,
            };
            let begun = place.rt.now();
            self.transfer(&file, Offset(block * self.case.block.bytes())).await?;
            note(&mut figure, place.rt.now().since(begun));
        }
        file.sync().await.map_err(IoFailure::from)?;
        drop(file);
        figure.bytes = figure.operations * self.case.block.bytes();
        figure.processor = place.rt.processor_time().saturating_sub(processor);
        Ok((place.rt.now(), figure))
    }

    async fn transfer(&mut self, file: &FileRef, at: Offset) -> Result<(), IoFailure> {
        match &mut self.written {
            Some(blocks) => one_buffer::write(&**file, at, blocks.next()).await,
            None => self.buffer.read(&**file, at, self.case.block).await.map(drop),
        }
    }
}

/// Counts an operation.
fn note(figure: &mut Figure, latency: Duration) {
    figure.operations += 1;
    figure.latency_sum += latency;
    figure.latency_max = figure.latency_max.max(latency);
    figure.above_2_s += u64::from(latency > SLOW);
    figure.above_10_s += u64::from(latency > VERY_SLOW);
    count_latency(&mut figure.latencies, latency);
}
