//! Running it: make the files, start the sessions and the log writer, add up.

use super::log::{self, LogHandle};
use super::plan::{DATA_FILE, Plan, REDO_BYTES, REDO_FILE};
use super::scatter::Scatter;
use super::session::Running;
use super::tally::{Counted, SessionTally};
use rt::sync::oneshot;
use rt::{FileKind, OpenHow, TreeError, TreeErrorKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stdx::{ByteCount, Instant, Prng};
use workload::blocks::Blocks;
use workload::content::Content;
use workload::crew::{Calls, Crew, Place, WorkerLost, start};
use workload::filled::{Filling, fill};
use workload::gate::{Gate, start_together};
use workload::io_failure::IoFailure;
use workload::outcome::Outcome;

/// How much is written at once while the files are made.
const FILL_BLOCK: ByteCount = ByteCount::mib(1);

/// Tells the content of the files as they are made, and of the log, from that of sessions.
const LOADER: u64 = (1 << 24) - 1;
const LOG_WRITER: u64 = LOADER - 1;

/// Why a plan was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlobError {
    /// An operation failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// A worker gave no result.
    #[error(transparent)]
    Lost(#[from] WorkerLost),
    /// Direct I/O is refused.
    #[error(
        "{}: the file system takes no direct I/O, which a database's is; --buffered goes through its \
         cache, and measures that too",
        .file.display()
    )]
    NoDirect {
        /// The file.
        file: PathBuf,
    },
    /// A file of this name is there, and nobody said that it may be used.
    #[error(
        "{file} is there already, of another run or of one that was killed; remove it, or say --keep to \
         use it"
    )]
    Exists {
        /// The file.
        file: &'static str,
    },
    /// Blocks that don't fit direct I/O.
    #[error("{file}: past the cache only multiples of {alignment} go, not blocks of {block}")]
    Misaligned {
        /// The file.
        file: String,
        /// What goes.
        alignment: ByteCount,
        /// The block size.
        block: ByteCount,
    },
}

fn opening(error: TreeError) -> SlobError {
    match error.kind {
        TreeErrorKind::NotSupported => SlobError::NoDirect { file: error.path },
        _ => SlobError::Io(error.into()),
    }
}

/// What a plan gave.
#[derive(Clone, Debug)]
pub struct SlobOutcome {
    /// For how long it was counted.
    pub time: Duration,
    /// Single blocks read.
    pub reads: Counted,
    /// Single blocks written.
    pub writes: Counted,
    /// Reads of scans.
    pub scanned: Counted,
    /// Writes to the log.
    pub redo: Counted,
    /// Commits.
    pub commits: Counted,
    /// Queries done.
    pub queries: u64,
    /// Updates done.
    pub updates: u64,
    /// Scans done.
    pub scans: u64,
    /// Processor time used meanwhile.
    pub processor: Duration,
    /// What the reader must know.
    pub warnings: Vec<String>,
}

/// Carries out a plan. A raised `stop` ends it; the outcome is then of what was done until then.
///
/// # Errors
/// [`SlobError`]
pub async fn run(
    crew: &dyn Crew,
    plan: &Plan,
    content: &Content,
    seed: u64,
    stop: &Arc<AtomicBool>,
) -> Result<SlobOutcome, SlobError> {
    let tree = crew.place().tree;
    for file in [DATA_FILE, REDO_FILE] {
        tree.check_no_link(Path::new(file)).await.map_err(IoFailure::from)?;
        match tree.status(Path::new(file)).await {
            Ok(status) if !plan.keep || status.kind != FileKind::File => {
                return Err(SlobError::Exists { file });
            }
            _ => {}
        }
    }
    let result = measure(crew, plan, content, seed, stop).await;
    if plan.keep {
        return result;
    }
    for file in [DATA_FILE, REDO_FILE] {
        match tree.remove_file(Path::new(file)).await {
            // What failed before is what the user must hear.
            Err(error) if result.is_ok() && error.kind != TreeErrorKind::NotFound => {
                return Err(IoFailure::from(error).into());
            }
            _ => {}
        }
    }
    result
}

async fn measure(
    crew: &dyn Crew,
    plan: &Plan,
    content: &Content,
    seed: u64,
    stop: &Arc<AtomicBool>,
) -> Result<SlobOutcome, SlobError> {
    let plan = Arc::new(plan.clone());
    let loaded = {
        let (plan, content, stop) = (Arc::clone(&plan), content.clone(), Arc::clone(stop));
        start(crew, "slob load", Calls::Queued, move |place| load(plan, content, stop, place))?
    };
    loaded.await??;
    let (log, log_writer) = match plan.updates() {
        false => (None, None),
        true => {
            let (handle, queue) = log::queue(plan.sessions.len());
            let (window, window_of_writer) = oneshot::channel();
            let (direct, source) = (plan.direct, content.source(LOG_WRITER));
            let writer = start(crew, "slob log", Calls::Blocking, move |place| async move {
                let how = OpenHow::write().with_direct(direct).with_durable_writes(true);
                let file = place.tree.open(Path::new(REDO_FILE), how).await.map_err(opening)?;
                let written = log::write(place.rt, file, queue, source, window_of_writer).await;
                written.map_err(SlobError::from)
            })?;
            (Some((handle, window)), Some(writer))
        }
    };
    let (handle, window) = match log {
        Some((handle, window)) => (Some(handle), Some(window)),
        None => (None, None),
    };
    let start_of = Start {
        plan: Arc::clone(&plan),
        content: content.clone(),
        seed,
        stop: Arc::clone(stop),
        handle,
        window: Arc::new(Mutex::new(window)),
    };
    let count = plan.sessions.len();
    let (_, results) =
        start_together(crew, "slob", count, Calls::Blocking, move |number, place, gate| {
            session(start_of.clone(), number, place, gate)
        })
        .await?;
    let mut failed = None;
    let mut tallies = Vec::new();
    for result in results {
        match result {
            Ok(tally) => tallies.extend(tally),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // All sessions are gone, and with them their ends of the queue: the log writer ends too. Why it
    // failed explains why they did.
    let redo = match log_writer {
        Some(writer) => writer.await??,
        None => Counted::default(),
    };
    if let Some(error) = failed {
        return Err(error);
    }
    let mut outcome = add_up(&tallies, redo, plan.notes.clone());
    if stop.load(Ordering::Relaxed) {
        let seconds = outcome.time.as_secs_f64();
        outcome.warnings.push(format!("stopped; the figures are of {seconds:.1} s"));
    }
    Ok(outcome)
}

/// Makes the data file and the log, written whole.
async fn load(
    plan: Arc<Plan>,
    content: Content,
    stop: Arc<AtomicBool>,
    place: Place,
) -> Result<(), SlobError> {
    let mut files = vec![(DATA_FILE, plan.data_bytes())];
    if plan.updates() {
        files.push((REDO_FILE, REDO_BYTES));
    }
    let how = Filling { block: FILL_BLOCK, outstanding: plan.conf.load_parallel_degree as usize };
    for (name, size) in files {
        let path = Path::new(name);
        let there = place.tree.status(path).await.map(|status| status.size);
        // Kept from a run before.
        if there.is_ok_and(|there| there >= size) {
            continue;
        }
        let open = OpenHow::create().with_direct(plan.direct);
        let file = place.tree.open(path, open).await.map_err(opening)?;
        let (alignment, block) = (file.alignment(), plan.block);
        if !block.is_multiple_of(alignment) {
            let file = file.name().to_string();
            return Err(SlobError::Misaligned { file, alignment, block });
        }
        fill(&place.rt, &file, 0..size.bytes(), how, content.source(LOADER), &stop).await?;
    }
    Ok(())
}

/// Tells the log writer between which moments it counts.
type Window = oneshot::Sender<(Instant, Instant)>;

/// What a session is started with.
#[derive(Clone)]
struct Start {
    plan: Arc<Plan>,
    content: Content,
    seed: u64,
    stop: Arc<AtomicBool>,
    handle: Option<LogHandle>,
    /// Where the log writer waits for the moments between which it counts; the first session that
    /// begins tells it.
    window: Arc<Mutex<Option<Window>>>,
}

async fn session(
    start: Start,
    number: usize,
    place: Place,
    gate: Arc<Gate>,
) -> Result<Option<SessionTally>, SlobError> {
    let plan = Arc::clone(&start.plan);
    let session = plan.sessions[number];
    let how = OpenHow { write: session.update_percent > 0, random: true, ..OpenHow::default() };
    let how = how.with_direct(plan.direct);
    let file = place.tree.open(Path::new(DATA_FILE), how).await.map_err(opening)?;
    let blocks = Blocks::new(&start.content, number as u64, plan.block.as_usize());
    let scatter = Scatter::new(plan.table_blocks, start.seed);
    if !gate.pass().await {
        return Ok(None);
    }
    let begun = place.rt.now();
    let (on, off) = (begun + plan.warm_up, begun + plan.run_time);
    let waiting = start.window.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(window) = waiting {
        // Nobody listens any more where the log could not be opened.
        let _ = window.send((on, off));
    }
    let running = Running {
        rt: place.rt,
        session,
        file,
        scatter,
        prng: Prng::for_part(start.seed, &format!("slob session {number}")),
        blocks,
        log: start.handle,
        stop: start.stop,
        on,
        off,
        tally: SessionTally::default(),
        plan,
    };
    Ok(Some(running.run().await?))
}

fn add_up(tallies: &[SessionTally], redo: Counted, warnings: Vec<String>) -> SlobOutcome {
    let mut outcome = SlobOutcome {
        time: tallies.iter().map(|tally| tally.time).max().unwrap_or_default(),
        reads: Counted::default(),
        writes: Counted::default(),
        scanned: Counted::default(),
        redo,
        commits: Counted::default(),
        queries: 0,
        updates: 0,
        scans: 0,
        processor: tallies.iter().map(|tally| tally.processor).max().unwrap_or_default(),
        warnings,
    };
    for tally in tallies {
        outcome.reads.add(&tally.reads);
        outcome.writes.add(&tally.writes);
        outcome.scanned.add(&tally.scanned);
        outcome.commits.add(&tally.commits);
        outcome.queries += tally.queries;
        outcome.updates += tally.updates;
        outcome.scans += tally.scans;
    }
    outcome
}

impl SlobOutcome {
    /// So many in the time, each second.
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Processor time over time: 1 is one processor that was busy all the time.
    pub fn processors_busy(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.processor.as_secs_f64() / seconds } else { 0.0 }
    }

    /// In the lab's terms. `iops` are single blocks read and written; latencies are of both.
    pub fn outcome(&self) -> Outcome {
        let mut metrics = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            metrics.insert(name.to_owned(), value);
        };
        put("ops_per_s", self.per_second(self.queries + self.updates + self.scans));
        put("iops", self.per_second(self.reads.count + self.writes.count));
        put("read_iops", self.per_second(self.reads.count));
        put("write_iops", self.per_second(self.writes.count));
        let bytes = self.reads.bytes + self.writes.bytes + self.scanned.bytes + self.redo.bytes;
        put("throughput_mb_s", self.per_second(bytes) / 1e6);
        put("scan_throughput_mb_s", self.per_second(self.scanned.bytes) / 1e6);
        put("redo_throughput_mb_s", self.per_second(self.redo.bytes) / 1e6);
        put("redo_write_iops", self.per_second(self.redo.count));
        put("processors_busy", self.processors_busy());
        let kinds = [("read", &self.reads), ("write", &self.writes), ("commit", &self.commits)];
        for (kind, counted) in kinds {
            if counted.count > 0 {
                let [mean, p50, p99] = counted.latency_us();
                put(&format!("{kind}_latency_us_mean"), mean);
                put(&format!("{kind}_latency_us_p50"), p50);
                put(&format!("{kind}_latency_us_p99"), p99);
            }
        }
        let mut both = self.reads.clone();
        both.add(&self.writes);
        if both.count > 0 {
            put("latency_us_mean", both.latency_us()[0]);
        }
        Outcome {
            metrics,
            latency: Some(both.latency),
            warnings: self.warnings.clone(),
            failed: Vec::new(),
            measured: None,
        }
    }
}
