//! Which job runs when: layout first, then starts, waits, ends.
//!
//! The order is fio's (backend.c, `run_threads`): files are laid out job by job before any job begins
//! (`create_serialize`); then every job starts that need not wait for its `startdelay`, for a job that it
//! names, or, at a stonewall, for all above it. With `exitall` the first job that ends takes others with
//! it, as `exit_what` says. A job that is told to end before it began does not run.

use super::data::{Filler, content_spec};
use super::error::FioError;
use super::files::{self, Files};
use super::layout::{self, LaidOut, Made, Rooms};
use super::outcome::{FioOutcome, PassedOver, Row};
use super::plan::{Job, Plan, largest_block};
use super::shared::{FlowGroup, FlowShare, JobState};
use super::spec::{Bytes, Engine, ExitWhat};
use super::steady::SteadyWatch;
use super::worker::{self, Order, Report};
use futures_util::StreamExt;
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::stream::FuturesUnordered;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Instant, Prng};
use workload::content::{Content, Form};
use workload::crew::{Calls, Crew, Place, WorkerLost, start};

/// The longest wait between two looks at the stop flag.
const NAP: Duration = Duration::from_millis(250);

/// How a run differs from what its job file says.
pub struct Setup {
    /// All randomness comes from it; a job's `randseed=` takes its place for that job.
    pub seed: u64,
    /// Real bytes, or words where nobody looks at them.
    pub form: Form,
    /// Whether block devices may be written.
    pub destructive: bool,
    /// What is known of the room for files that are laid out.
    pub rooms: Option<Rc<dyn Rooms>>,
    /// Is told what happens before the jobs begin, a line each.
    pub say: Rc<dyn Fn(&str)>,
}

type Ended = (usize, Result<Report, WorkerLost>);

/// Carries out a plan.
///
/// # Errors
/// Where a job can't begin: its files can't be prepared, or there is no worker for it. What goes wrong
/// in a job that runs stands in the outcome.
pub async fn run(
    crew: Rc<dyn Crew>,
    plan: Arc<Plan>,
    setup: Setup,
    stop: Arc<AtomicBool>,
) -> Result<FioOutcome, FioError> {
    let place = crew.place();
    let mut conductor = Conductor {
        seeds: seeds(&plan, setup.seed),
        contents: contents(&plan, &setup),
        states: states(&plan),
        files: (0..plan.jobs.len()).map(|_| None).collect(),
        reports: (0..plan.jobs.len()).map(|_| None).collect(),
        whole: vec![false; plan.jobs.len()],
        starts: vec![None; plan.jobs.len()],
        flows: flows(&plan),
        watches: BTreeMap::new(),
        running: FuturesUnordered::new(),
        processor: vec![Duration::ZERO; plan.jobs.len()],
        processor_before: Duration::ZERO,
        crew,
        plan,
        setup,
        stop,
        place,
    };
    let mut made = Made::default();
    if let Err(error) = conductor.lay_out(&mut made).await {
        made.undo(&conductor.place.tree).await;
        return Err(error);
    }
    conductor.begin().await?;
    Ok(conductor.outcome())
}

/// Whether a plan could be carried out: what [`run`] would refuse before it makes anything.
///
/// # Errors
/// Why not.
pub async fn check(crew: Rc<dyn Crew>, plan: Arc<Plan>, setup: Setup) -> Result<(), FioError> {
    let (tree, seeds) = (crew.place().tree, seeds(&plan, setup.seed));
    layout::check(&tree, &plan, &seeds, setup.destructive, setup.rooms.as_deref()).await
}

/// A seed for each job: the same for each clone of each run, unless `randrepeat=0` asks for others.
fn seeds(plan: &Plan, seed: u64) -> Vec<u64> {
    let of_job = |job: &Job| {
        let base = job.spec.seed.unwrap_or(seed);
        Prng::for_part(base, &format!("job {}", job.number)).next_u64()
    };
    plan.jobs.iter().map(of_job).collect()
}

fn same_content(a: &Bytes, b: &Bytes) -> bool {
    content_spec(a, Form::Bytes) == content_spec(b, Form::Bytes)
}

/// The content of each job; jobs that write alike share one.
fn contents(plan: &Plan, setup: &Setup) -> Vec<Content> {
    let mut made: Vec<(Bytes, Content)> = Vec::new();
    let mut of_job = |job: &Job| {
        let bytes = &job.spec.bytes;
        if let Some((_, content)) = made.iter().find(|(other, _)| same_content(other, bytes)) {
            return content.clone();
        }
        let content = Content::new(content_spec(bytes, setup.form), setup.seed);
        made.push((bytes.clone(), content.clone()));
        content
    };
    plan.jobs.iter().map(&mut of_job).collect()
}

fn states(plan: &Plan) -> Vec<Arc<JobState>> {
    plan.jobs.iter().map(|job| Arc::new(JobState::new(job.spec.steady.is_some()))).collect()
}

fn flows(plan: &Plan) -> BTreeMap<u64, Arc<FlowGroup>> {
    let with_flow = plan.jobs.iter().filter(|job| job.spec.flow > 0);
    with_flow.map(|job| (job.spec.flow_id, Arc::default())).collect()
}

struct Conductor {
    crew: Rc<dyn Crew>,
    place: Place,
    plan: Arc<Plan>,
    setup: Setup,
    stop: Arc<AtomicBool>,
    seeds: Vec<u64>,
    contents: Vec<Content>,
    states: Vec<Arc<JobState>>,
    files: Vec<Option<Files>>,
    reports: Vec<Option<Report>>,
    /// Jobs that ended before somebody stopped the run.
    whole: Vec<bool>,
    starts: Vec<Option<Instant>>,
    flows: BTreeMap<u64, Arc<FlowGroup>>,
    /// By the first job of those that are watched together.
    watches: BTreeMap<usize, SteadyWatch>,
    running: FuturesUnordered<LocalBoxFuture<'static, Ended>>,
    /// Processor time of each job: what the runtime used while jobs ran, in equal shares.
    processor: Vec<Duration>,
    processor_before: Duration,
}

impl Conductor {
    async fn lay_out(&mut self, made: &mut Made) -> Result<(), FioError> {
        let plan = Arc::clone(&self.plan);
        if let Some(rooms) = self.setup.rooms.clone() {
            let (tree, destructive) = (&self.place.tree, self.setup.destructive);
            layout::check(tree, &plan, &self.seeds, destructive, Some(&*rooms)).await?;
        }
        for (index, job) in plan.jobs.iter().enumerate() {
            if !job.spec.create_serialize || self.stop.load(Ordering::Relaxed) {
                continue;
            }
            let seed = self.seeds[index];
            let mut prng = Prng::for_part(seed, "file sizes");
            let tree = &self.place.tree;
            let mut files = files::measure(tree, job, self.setup.destructive, &mut prng).await?;
            let LaidOut { files: count, bytes } = layout::to_lay_out(&files);
            if count > 0 {
                let plural = if count > 1 { ("s", "total ") } else { ("", "") };
                (self.setup.say)(&format!(
                    "{}: Laying out IO file{} ({count} file{} / {}{}MiB)",
                    job.name,
                    plural.0,
                    plural.0,
                    plural.1,
                    bytes >> 20
                ));
            }
            let longest = ByteCount(largest_block(&job.spec)).as_usize();
            // No worker has this number: what is laid out differs from what is written.
            let number = (plan.jobs.len() + index) as u64;
            let content = &self.contents[index];
            let mut filler = Filler::new(&job.spec.bytes, content, number, longest, 1, true);
            layout::lay_out(tree, job, &mut files, &mut filler, &self.stop, made).await?;
            self.files[index] = Some(files);
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), FioError> {
        let rt = self.place.rt.clone();
        let genesis = rt.now();
        let delays = self.delays();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                self.states.iter().for_each(|state| state.end());
            }
            let now = rt.now();
            self.start_ready(now, genesis, &delays)?;
            self.watch(now);
            if self.running.is_empty() && !self.someone_waits() {
                return Ok(());
            }
            let nap = rt.sleep_until(self.next_look(now, genesis, &delays));
            if self.running.is_empty() {
                nap.await;
                continue;
            }
            let ended = match select(self.running.next(), nap).await {
                Either::Left((Some(ended), _)) => ended,
                _ => continue,
            };
            self.ended(ended)?;
        }
    }

    fn delays(&self) -> Vec<Duration> {
        let delay = |job: &Job| {
            let (low, high) = job.spec.start_delay;
            let mut prng = Prng::for_part(self.seeds[job.number], "start delay");
            low + (high - low).mul_f64(prng.unit())
        };
        self.plan.jobs.iter().map(delay).collect()
    }

    fn someone_waits(&self) -> bool {
        let waits = |(index, start): (usize, &Option<Instant>)| {
            start.is_none() && !self.states[index].is_ending()
        };
        self.starts.iter().enumerate().any(waits)
    }

    fn start_ready(
        &mut self,
        now: Instant,
        genesis: Instant,
        delays: &[Duration],
    ) -> Result<(), FioError> {
        let plan = Arc::clone(&self.plan);
        for (index, job) in plan.jobs.iter().enumerate() {
            if self.starts[index].is_some() || self.states[index].is_ending() {
                continue;
            }
            if now < genesis + delays[index] {
                continue;
            }
            if job.stonewall && !self.running.is_empty() {
                break;
            }
            let over = |waited: &usize| {
                self.reports[*waited].is_some()
                    || self.starts[*waited].is_none() && self.states[*waited].is_ending()
            };
            if !job.waits_for.iter().all(over) {
                continue;
            }
            self.start(index, job, now)?;
        }
        Ok(())
    }

    fn start(&mut self, index: usize, job: &Job, now: Instant) -> Result<(), FioError> {
        let flow = match (job.spec.flow, self.flows.get(&job.spec.flow_id)) {
            (weight @ 1.., Some(group)) if job.flow_total > weight => {
                Some(Arc::new(FlowShare::enter(group, weight)))
            }
            _ => None,
        };
        let order = Order {
            job: job.clone(),
            files: self.files[index].take(),
            content: self.contents[index].clone(),
            seed: self.seeds[index],
            destructive: self.setup.destructive,
            state: Arc::clone(&self.states[index]),
            flow,
            stop: Arc::clone(&self.stop),
        };
        let calls = match job.spec.engine {
            Engine::Queued => Calls::Queued,
            Engine::Blocking | Engine::Null => Calls::Blocking,
        };
        let lost = |source| FioError::Lost { job: job.name.clone(), source };
        let worker = start(&*self.crew, &job.name, calls, |place| worker::run(place, order));
        let worker = worker.map_err(lost)?;
        self.book_processor();
        self.running.push(Box::pin(async move { (index, worker.await) }));
        self.starts[index] = Some(now);
        Ok(())
    }

    fn next_look(&self, now: Instant, genesis: Instant, delays: &[Duration]) -> Instant {
        let waiting = self.starts.iter().zip(delays).filter(|(start, _)| start.is_none());
        let due = waiting.map(|(_, delay)| genesis + *delay).filter(|due| *due > now);
        due.min().unwrap_or(Instant::NEVER).min(now + NAP)
    }

    fn ended(&mut self, (index, report): Ended) -> Result<(), FioError> {
        let plan = Arc::clone(&self.plan);
        let job = &plan.jobs[index];
        let report = report.map_err(|source| FioError::Lost { job: job.name.clone(), source })?;
        let all = plan.jobs.iter().any(|job| job.spec.exit_all)
            || job.spec.exit_all_on_error && report.error.is_some();
        self.book_processor();
        self.reports[index] = Some(report);
        self.whole[index] = !self.stop.load(Ordering::Relaxed);
        if !all {
            return Ok(());
        }
        for (other, state) in plan.jobs.iter().zip(&self.states) {
            let hit = match job.spec.exit_what {
                ExitWhat::All => true,
                ExitWhat::Group => other.group == job.group,
                ExitWhat::Stonewall => self.starts[other.number].is_some(),
            };
            if hit {
                state.end();
            }
        }
        Ok(())
    }

    /// Shares the processor time since the last start or end among the jobs that ran.
    fn book_processor(&mut self) {
        let now = self.place.rt.processor_time();
        let spent = now.saturating_sub(std::mem::replace(&mut self.processor_before, now));
        let ran: Vec<usize> = (0..self.starts.len())
            .filter(|at| self.starts[*at].is_some() && self.reports[*at].is_none())
            .collect();
        for at in &ran {
            self.processor[*at] += spent / ran.len() as u32;
        }
    }

    /// Looks whether jobs are steady.
    fn watch(&mut self, now: Instant) {
        let plan = Arc::clone(&self.plan);
        for (index, job) in plan.jobs.iter().enumerate() {
            let Some(rule) = job.spec.steady else { continue };
            let together: Vec<usize> = match job.spec.group_reporting {
                true => {
                    let mine = |other: &&Job| other.group == job.group;
                    plan.jobs.iter().filter(mine).map(|other| other.number).collect()
                }
                false => vec![index],
            };
            if together.first() != Some(&index) || self.starts[index].is_none() {
                continue;
            }
            if together.iter().all(|at| self.reports[*at].is_some()) {
                continue;
            }
            let counts = together.iter().fold([0_u64; 3], |sum, at| {
                let counts = self.states[*at].counts();
                std::array::from_fn(|figure| sum[figure].wrapping_add(counts[figure]))
            });
            let watch =
                self.watches.entry(index).or_insert_with(|| SteadyWatch::new(rule, now, counts));
            if watch.look(now, counts) {
                together.iter().for_each(|at| self.states[*at].end());
            }
        }
    }

    fn outcome(self) -> FioOutcome {
        let Conductor { plan, reports, mut watches, processor, whole, .. } = self;
        let mut rows: Vec<Option<Row>> = (0..plan.rows).map(|_| None).collect();
        let (mut errors, mut passed_over, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (job, report)) in plan.jobs.iter().zip(reports).enumerate() {
            let report = report.unwrap_or_else(|| Report {
                figures: job.spec.kept.figures(),
                error: None,
                passed_over: None,
                logs: Vec::new(),
            });
            let mut figures = report.figures;
            figures.steady = watches.remove(&index).map(|watch| watch.seen());
            figures.processor = processor[index];
            // As in fio an error that the job went on after is its error in the figures, though its end is a good one.
            let number = report.error.as_ref().or(report.passed_over.as_ref());
            let number = number.map_or(0, FioError::number);
            if let Some(first) = report.passed_over {
                passed_over.push(PassedOver { first, errors: figures.errors });
            }
            for (kind, log) in report.logs {
                logs.push((super::output::log_name(job, kind), log.text));
            }
            if let Some(error) = report.error {
                errors.push(error);
            }
            let Some(row) = job.row.and_then(|row| rows.get_mut(row)) else { continue };
            match row {
                Some(row) => {
                    row.figures.merge(&figures);
                    row.is_whole &= whole[index];
                    if row.error == 0 {
                        row.error = number;
                    }
                }
                none => {
                    let (job, is_whole) = (job.clone(), whole[index]);
                    *none = Some(Row { job, figures, error: number, is_whole });
                }
            }
        }
        let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
        for row in rows.iter_mut().filter(|row| row.job.spec.kept.mixed) {
            row.figures.mix();
        }
        FioOutcome { rows, errors, passed_over, logs, plan }
    }
}
