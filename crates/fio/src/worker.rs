//! One job at work: passes over its files, what is under way, and what is counted.
//!
//! The loop is fio's (backend.c, `do_io`): take a direction, wait for its rate, aim, submit; when as many
//! are under way as the depth allows, take one answer (with `iodepth_low`, down to that many). Every so
//! many writes an `fsync` or `fdatasync`. A pass ends when as many bytes were issued as the files hold,
//! and is made again while loops, bytes or time are left. After a pass that wrote, what was written is
//! read back where `verify=` asks for it.
//!
//! **Time** is read before an I/O is submitted (after its data was made), after that where the time of
//! submission is wanted, and when its answer is taken: *slat*, *clat* and *lat* are between these, as in
//! fio. Where no latency is kept, once in [`UNTIMED_IOS`].
//!
//! A worker looks at whether it is to end before each I/O, and while it sleeps every [`NAP`].

mod dry;
mod io;
mod limits;
mod reading;
mod waiting;

use super::aim::{Aim, Target};
use super::data::Filler;
use super::error::FioError;
use super::figures::{Direction, Each, Figures};
use super::files::{self, Files};
use super::layout::{self, Made};
use super::open::OpenFiles;
use super::pace::{Minimum, Pace};
use super::plan::{Job, largest_block};
use super::queue::Queue;
use super::search::{DepthSearch, Verdict};
use super::series::{Log, Series};
use super::shared::{FlowShare, JobState};
use super::spec::{Engine, Spec, Tolerance};
use super::verify::Written;
use rt::{Rt, TreeErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Instant};
use workload::content::Content;
use workload::crew::Place;

/// I/Os between two looks at the clock where no latencies are kept.
const UNTIMED_IOS: u32 = 64;

/// I/Os without waiting after which other tasks of this runtime have their turn. The host answers as
/// many at once and lets the next wait for a turn; so the turn is taken here, between two I/Os, where it
/// is in nobody's latency.
const TURN_IOS: u32 = 16;

/// The longest sleep between two looks at whether the job is to end.
const NAP: Duration = Duration::from_millis(100);

/// How long a job waits at least for the others of its flow.
const FLOW_NAP: Duration = Duration::from_micros(50);

/// What a worker is given.
pub(super) struct Order {
    pub(super) job: Job,
    pub(super) files: Option<Files>,
    pub(super) content: Content,
    pub(super) seed: u64,
    pub(super) destructive: bool,
    pub(super) state: Arc<JobState>,
    pub(super) flow: Option<Arc<FlowShare>>,
    pub(super) stop: Arc<AtomicBool>,
}

/// What it gives back.
pub(super) struct Report {
    pub(super) figures: Figures,
    pub(super) error: Option<FioError>,
    /// The first error that the job went on after.
    pub(super) passed_over: Option<FioError>,
    pub(super) logs: Vec<(&'static str, Log)>,
}

/// What is remembered of an I/O under way.
struct UnderWay {
    target: Target,
    /// The whole that it belongs to: answered short, the rest is asked for again.
    started: Instant,
    issued: Instant,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    /// A write that is remembered.
    Sealed,
    /// A read whose bytes are checked, against the write of this number where it is known.
    Check(Option<u64>),
}

/// What is done next.
enum Step {
    Submit(Target),
    Sleep(Instant, bool),
    Sync { data_only: bool },
    Exhausted,
}

/// Runs a job to its end.
pub(super) async fn run(place: Place, order: Order) -> Report {
    let Order { job, files, content, seed, destructive, state, flow, stop } = order;
    let spec = Arc::clone(&job.spec);
    let fresh = spec.bytes.refill.unwrap_or(spec.verify.checksum.is_some());
    let longest = ByteCount(largest_block(&spec)).as_usize();
    let number = job.number as u64;
    let depth = if spec.engine == Engine::Blocking { 1 } else { spec.depth as usize };
    let mut filler = Filler::new(&spec.bytes, &content, number, longest, depth, fresh);
    let files = match files {
        Some(files) => Ok(files),
        None => lay_out_here(&place, &job, &mut filler, destructive, seed, &stop).await,
    };
    let files = match files {
        Ok(files) => files,
        Err(error) => {
            let figures = spec.kept.figures();
            return Report { figures, error: Some(error), passed_over: None, logs: Vec::new() };
        }
    };
    let mut worker = Worker::new(place, job, &files, filler, seed, state, flow, stop);
    if let Err(error) = worker.passes(&files).await {
        worker.fail(error).await;
    }
    worker.report(&files).await
}

async fn lay_out_here(
    place: &Place,
    job: &Job,
    filler: &mut Filler,
    destructive: bool,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Files, FioError> {
    let mut prng = stdx::Prng::for_part(seed, "file sizes");
    let mut files = files::measure(&place.tree, job, destructive, &mut prng).await?;
    let mut made = Made::default();
    let tree = &place.tree;
    if let Err(error) = layout::lay_out(tree, job, &mut files, filler, stop, &mut made).await {
        made.undo(tree).await;
        return Err(error);
    }
    Ok(files)
}

struct Worker {
    rt: Rt,
    tree: rt::TreeRef,
    job: Job,
    spec: Arc<Spec>,
    state: Arc<JobState>,
    flow: Option<Arc<FlowShare>>,
    /// Whether the flow has counted the next I/O, which may have to wait for its rate.
    flow_allowed: bool,
    stop: Arc<AtomicBool>,
    open: OpenFiles,
    aim: Aim,
    filler: Filler,
    pace: Pace,
    limited: bool,
    minimum: Option<Minimum>,
    series: Series,
    each_in_series: bool,
    queue: Queue<UnderWay>,
    search: Option<DepthSearch>,
    figures: Figures,
    seed: u64,
    // Moments.
    epoch: Instant,
    now: Instant,
    deadline: Instant,
    next_tick: Instant,
    ramp_end: Option<Instant>,
    /// How long the ramp was.
    ramp_took: Duration,
    /// Since when the present phase (a pass, or reading back) counts as running time.
    phase_from: Instant,
    // What was issued.
    total_limit: u64,
    issued: Each<u64>,
    issued_bytes: u64,
    issued_writes: u64,
    pass_bytes: u64,
    /// Answered, with what was read back.
    done_bytes: u64,
    direction: Option<Direction>,
    last_was_sync: bool,
    // Thinking.
    thought_at: u64,
    thought_when: Instant,
    done_blocks: u64,
    // Verification.
    written: Written,
    write_number: u64,
    since_backlog: u64,
    verify_reads: bool,
    // The end.
    error: Option<FioError>,
    passed_over: Option<FioError>,
    full: bool,
    done: bool,
    timed: bool,
    /// Whether `now` is the moment of the answer that is taken next.
    is_now: bool,
    untimed: u32,
    turn: u32,
}

impl Worker {
    #[allow(clippy::too_many_arguments, reason = "each is one thing that a job is made of")]
    fn new(
        place: Place,
        job: Job,
        files: &Files,
        filler: Filler,
        seed: u64,
        state: Arc<JobState>,
        flow: Option<Arc<FlowShare>>,
        stop: Arc<AtomicBool>,
    ) -> Worker {
        let spec = Arc::clone(&job.spec);
        let now = place.rt.now();
        let depth = if spec.engine == Engine::Blocking { 1 } else { spec.depth as usize };
        let kept = &spec.kept;
        let figures = kept.figures();
        let has_minimum = spec.rate_min.iter().chain(&spec.rate_iops_min).any(|rate| *rate > 0);
        let pace = Pace::new(&spec, seed, now);
        let series = Series::new(&spec, now);
        let each_in_series = series.wants_each();
        let timed = kept.lat || kept.clat || kept.slat || each_in_series;
        Worker {
            rt: place.rt,
            tree: place.tree,
            open: OpenFiles::new(&spec, files),
            aim: Aim::new(&spec, files, seed),
            limited: pace.is_limited(),
            pace,
            minimum: has_minimum.then(Minimum::new),
            each_in_series,
            series,
            queue: Queue::new(depth),
            search: spec.latency.map(|target| DepthSearch::new(target, depth, now)),
            figures,
            seed,
            epoch: now,
            now,
            deadline: Instant::NEVER,
            next_tick: now,
            ramp_end: None,
            ramp_took: Duration::ZERO,
            phase_from: now,
            total_limit: files.wanted.saturating_mul(spec.loops),
            issued: [0; 3],
            issued_bytes: 0,
            issued_writes: 0,
            pass_bytes: 0,
            done_bytes: 0,
            direction: None,
            last_was_sync: false,
            thought_at: 0,
            thought_when: now,
            done_blocks: 0,
            written: Written::default(),
            write_number: 0,
            since_backlog: 0,
            verify_reads: spec.verify.checksum.is_some() && !spec.mode.write,
            error: None,
            passed_over: None,
            full: false,
            done: false,
            timed,
            is_now: false,
            untimed: 0,
            turn: 0,
            job,
            spec,
            state,
            flow,
            flow_allowed: false,
            stop,
            filler,
        }
    }

    /// All passes of the job.
    async fn passes(&mut self, files: &Files) -> Result<(), FioError> {
        if self.spec.create_only {
            return Ok(());
        }
        if self.spec.pre_read {
            self.pre_read(files).await?;
        }
        self.begin();
        let mut loops = self.spec.loops;
        let (mut first, mut is_used_up) = (true, false);
        while !self.is_over()
            && (self.spec.time_based || loops > 0 || self.has_more(files, is_used_up))
        {
            loops = loops.saturating_sub(1);
            if !first {
                self.aim.begin_pass();
                self.open.close_all(&self.spec).await.map_err(|error| self.tree_failed(error))?;
                if self.spec.unlink_each_loop {
                    files::remove(&self.tree, &self.job, files).await?;
                }
            }
            first = false;
            let before = self.issued_bytes;
            // A job that only reads checks what it reads.
            match self.spec.verify.only && self.spec.mode.write {
                true => self.dry_pass(files).await,
                false => self.pass(files).await?,
            }
            // fio forgets which files are done where it verifies.
            let verify = &self.spec.verify;
            let forgets = verify.checksum.is_some() && verify.after_writing;
            is_used_up = self.aim.is_done() && !forgets;
            if self.must_read_back() {
                self.end_phase(&Direction::ALL);
                self.read_pieces(u64::MAX).await?;
                self.end_phase(&[Direction::Read]);
            } else {
                self.end_phase(&Direction::ALL);
            }
            if self.issued_bytes == before {
                break;
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        let now = self.rt.now();
        self.now = now;
        self.epoch = now;
        self.phase_from = now;
        self.thought_when = now;
        self.series = Series::new(&self.spec, now);
        self.pace = Pace::new(&self.spec, self.seed, now);
        if let Some(search) = &mut self.search {
            search.begin(now);
        }
        if !self.spec.ramp.is_zero() {
            self.ramp_end = Some(now + self.spec.ramp);
        }
        if !self.spec.runtime.is_zero() {
            let began = self.flow.as_ref().map_or(now, |flow| flow.began(now));
            self.deadline = began + self.spec.ramp + self.spec.runtime;
        }
        self.next_tick = self.following_tick();
    }

    /// Whether the job is to end now.
    fn is_over(&self) -> bool {
        self.done || self.full || self.error.is_some() || self.state.is_ending()
    }

    /// One pass: issue until bytes, I/Os or places run out.
    async fn pass(&mut self, files: &Files) -> Result<(), FioError> {
        self.pass_bytes = 0;
        let spec = Arc::clone(&self.spec);
        let (pass_limit, total_limit) = self.limits(files);
        while self.pass_bytes < pass_limit && self.issued_bytes < total_limit {
            if self.is_over() || self.now >= self.deadline && self.rt.now() >= self.deadline {
                break;
            }
            if self.ios_exceeded() || self.now >= self.next_tick && !self.tick()? {
                break;
            }
            if !self.flow_allows().await? {
                continue;
            }
            match self.next_step() {
                Step::Submit(target) => {
                    self.flow_allowed = false;
                    if !self.open.is_open(target.file) {
                        self.open_file(target.file).await?;
                    }
                    self.submit(target)?;
                    if self.queue.last_waits() {
                        self.hand_over().await;
                    }
                    if let Some(file) = self.aim.take_rewound()
                        && spec.invalidate
                        && !spec.direct
                    {
                        self.open.drop_cache(file).await;
                    }
                }
                Step::Sleep(until, quiesce) => {
                    if quiesce {
                        self.drain().await?;
                    }
                    self.sleep_until(until.min(self.deadline)).await?;
                    continue;
                }
                Step::Sync { data_only } => {
                    self.flow_allowed = false;
                    self.sync(data_only).await?;
                }
                Step::Exhausted => break,
            }
            if self.queue.len() >= self.depth() {
                self.take_answers().await?;
            }
            if !spec.think.time.is_zero() {
                self.think().await?;
            }
            if let Some(search) = &mut self.search
                && self.ramp_end.is_none()
            {
                match search.look(self.now, self.done_blocks) {
                    Verdict::GoOn => {}
                    Verdict::Quiesce => self.drain().await?,
                    Verdict::LastRun => {
                        self.drain().await?;
                        self.forget_figures();
                    }
                    Verdict::Done => self.done = true,
                }
            }
            if spec.verify.backlog > 0 && self.since_backlog >= spec.verify.backlog {
                self.since_backlog = 0;
                self.drain().await?;
                let batch = match spec.verify.backlog_batch {
                    0 => u64::MAX,
                    batch => batch,
                };
                self.read_pieces(batch).await?;
            }
            self.turn += 1;
            if self.turn >= TURN_IOS {
                self.turn = 0;
                self.rt.yield_now().await;
            }
        }
        self.drain().await?;
        if self.error.is_none() && (spec.syncs.at_end || spec.syncs.on_close) && spec.mode.write {
            self.open.sync_all().await.map_err(|error| self.tree_failed(error))?;
        }
        Ok(())
    }

    fn depth(&self) -> usize {
        self.search.as_ref().map_or(self.queue_depth(), DepthSearch::depth)
    }

    fn queue_depth(&self) -> usize {
        if self.spec.engine == Engine::Blocking { 1 } else { self.spec.depth as usize }
    }

    fn next_step(&mut self) -> Step {
        let syncs = self.spec.syncs;
        if !self.last_was_sync && self.issued_writes > 0 {
            for (every, data_only) in [(syncs.fsync, false), (syncs.fdatasync, true)] {
                if every > 0 && self.issued_writes.is_multiple_of(every) {
                    return Step::Sync { data_only };
                }
            }
        }
        let mut direction = match self.direction.take() {
            Some(direction) => direction,
            None => self.aim.direction(),
        };
        if self.limited {
            let mode = self.spec.mode;
            let other = match direction {
                Direction::Read if mode.write => Some(Direction::Write),
                Direction::Write if mode.read => Some(Direction::Read),
                _ => None,
            };
            self.now = self.rt.now();
            let (chosen, due) = self.pace.when(direction, other, self.now);
            direction = chosen;
            if due > self.now {
                self.direction = Some(direction);
                return Step::Sleep(due, !self.spec.offload);
            }
        }
        match self.aim.next(direction) {
            Some(target) => Step::Submit(target),
            None => Step::Exhausted,
        }
    }

    async fn open_file(&mut self, file: usize) -> Result<(), FioError> {
        if self.open.is_full() {
            self.drain().await?;
        }
        let opened = self.open.open(&self.tree, &self.spec, file).await;
        opened.map_err(|error| match error.kind {
            TreeErrorKind::NotFound if self.spec.create_on_open => {
                let file = self.open.name(file);
                FioError::NotLaidOut { job: self.job.name.clone(), file, offset: 0 }
            }
            _ => self.tree_failed(error),
        })?;
        // Not the job's time: fio opens before the clock of the I/O is read, too.
        self.now = self.rt.now();
        Ok(())
    }

    /// What is done now and then between I/Os: ramp, windows, minimum rates. False where the job is to end.
    fn tick(&mut self) -> Result<bool, FioError> {
        self.now = self.rt.now();
        if self.ramp_end.is_some_and(|end| self.now >= end) {
            self.end_ramp();
        }
        self.tick_asleep()
    }

    /// The same of a job that sleeps: as fio's it looks only at its next I/O whether its ramp is over.
    fn tick_asleep(&mut self) -> Result<bool, FioError> {
        let now = self.rt.now();
        self.now = now;
        if self.stop.load(Ordering::Relaxed) {
            self.state.end();
        }
        let done = self.figures.flows.each_ref().map(|flow| (flow.bytes, flow.ios));
        self.series.tick(now, done);
        if self.ramp_end.is_none()
            && let Some(minimum) = &mut self.minimum
        {
            minimum.check(&self.job.name, &self.spec, &done, self.epoch, now)?;
        }
        self.next_tick = self.following_tick();
        Ok(!self.is_over())
    }

    fn following_tick(&self) -> Instant {
        let ramp = self.ramp_end.unwrap_or(Instant::NEVER);
        (self.now + NAP).min(self.series.next_tick()).min(ramp)
    }

    /// The job's time and its rates begin, as in fio, when it has seen that the ramp is over. Blocks are counted anew then, and of how many
    /// it thought last is kept: so it thinks only when it has done as many again, and those of a thought more.
    fn end_ramp(&mut self) {
        let now = self.now;
        self.ramp_end = None;
        self.ramp_took = now.since(self.epoch);
        self.forget_figures();
        self.pace = Pace::new(&self.spec, self.seed, now);
        self.thought_at += self.blocks_to_think();
        if !self.spec.runtime.is_zero() && self.flow.is_none() {
            self.deadline = now + self.spec.runtime;
        }
    }

    /// Counts begin again: after the ramp, and before the last run of a search.
    fn forget_figures(&mut self) {
        self.figures = self.spec.kept.figures();
        self.phase_from = self.now;
        self.series.restart(self.now);
    }

    /// Adds the time since the phase began to the directions that were gone in.
    fn end_phase(&mut self, directions: &[Direction]) {
        self.now = self.rt.now();
        let spent = self.now.since(self.phase_from);
        for direction in directions {
            let flow = &mut self.figures.flows[direction.index()];
            if flow.bytes > 0 {
                flow.runtime += spent;
            }
        }
        self.phase_from = self.now;
    }

    fn tree_failed(&self, source: rt::TreeError) -> FioError {
        FioError::Tree { job: self.job.name.clone(), source }
    }

    /// Ends the job for an error. What is under way is waited for and counted, as in fio.
    async fn fail(&mut self, error: FioError) {
        self.error.get_or_insert(error);
        while self.drain().await.is_err() {}
        self.end_phase(&Direction::ALL);
    }

    /// Counts an error of a direction, or of verification, and says whether the job goes on after it.
    fn met(&mut self, of: usize, error: FioError) -> Result<(), FioError> {
        let number = error.number();
        self.figures.count_error(number);
        let is_fatal = of == Tolerance::VERIFY && self.spec.verify.fatal;
        if is_fatal || !self.spec.tolerance.allows(of, number) {
            return Err(error);
        }
        self.passed_over.get_or_insert(error);
        Ok(())
    }

    async fn report(mut self, files: &Files) -> Report {
        let now = self.rt.now();
        self.figures.runtime = now.since(self.epoch);
        self.figures.ramp = self.ramp_took;
        self.figures.depth = self.depth() as u64;
        for (flow, (bandwidth, iops)) in self.figures.flows.iter_mut().zip(self.series.summaries())
        {
            (flow.bandwidth, flow.iops) = (bandwidth, iops);
        }
        let submitted: u64 = self.figures.depths.level.iter().sum();
        self.figures.depths.submit[1] = submitted;
        let mut error = self.error.take();
        let closed = self.open.close_all(&self.spec).await;
        if let (Err(source), None) = (closed, &error) {
            error = Some(self.tree_failed(source));
        }
        if self.spec.unlink
            && let Err(failed) = files::remove(&self.tree, &self.job, files).await
        {
            error.get_or_insert(failed);
        }
        if let Some(flow) = &self.flow {
            flow.leave();
        }
        let (figures, logs) = (self.figures, self.series.into_logs(now));
        Report { figures, error, passed_over: self.passed_over, logs }
    }
}
