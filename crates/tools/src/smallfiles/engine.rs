//! The phases over small files, on all threads.

use super::figures::{Figure, Phase, SmallFilesOutcome};
use super::plan::Plan;
use rt::{FileRef, OpenHow};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stdx::{ByteCount, Instant, Offset, Prng};
use workload::blocks::Blocks;
use workload::content::Content;
use workload::crew::{Calls, Crew, Place, start};
use workload::gate::{Moment, start_together};
use workload::io_failure::IoFailure;
use workload::one_buffer::{self, OneBuffer};
use workload::outcome::count_latency;
use workload::run_error::RunError;

/// What a listener hears.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// A phase begins.
    Begins(Phase),
    /// It has ended, and gave this; it stays so if the run comes to no end.
    Ends(Phase, &'a Figure),
    /// The run comes to no end, and removes what it made: so many files are left of that.
    Removing(u64),
}

/// Who listens. It is called on workers' threads, too.
pub type Listener = Arc<dyn Fn(Heard<'_>) + Send + Sync>;

/// What all threads share. Cheap to clone.
#[derive(Clone)]
struct Job {
    plan: Arc<Plan>,
    content: Content,
    seed: u64,
    stop: Arc<AtomicBool>,
    listener: Listener,
    /// Files that are there now.
    there: Arc<AtomicU64>,
}

impl Job {
    fn directory(&self, number: u64) -> PathBuf {
        self.plan.root().join(format!("{number:06}"))
    }

    /// # Errors
    /// [`RunError::Stopped`].
    fn go_on(&self) -> Result<(), RunError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(RunError::Stopped),
            false => Ok(()),
        }
    }

    /// Files go evenly over the directories, consecutive ones into the same.
    fn path(&self, file: u64) -> PathBuf {
        let directory = u128::from(file) * u128::from(self.plan.directories);
        let directory = (directory / u128::from(self.plan.files)) as u64;
        self.directory(directory).join(format!("{file:09}"))
    }

    /// The files of a thread.
    fn part(&self, thread: u64) -> Range<u64> {
        let threads = u128::from(self.plan.threads);
        let bound =
            |thread: u64| (u128::from(self.plan.files) * u128::from(thread) / threads) as u64;
        bound(thread)..bound(thread + 1)
    }
}

/// Runs all phases.
///
/// # Errors
/// [`RunError`]; the files are removed.
pub async fn run(
    crew: &dyn Crew,
    plan: &Plan,
    content: &Content,
    seed: u64,
    stop: Arc<AtomicBool>,
    listener: Listener,
) -> Result<SmallFilesOutcome, RunError> {
    let (plan, content) = (Arc::new(plan.clone()), content.clone());
    let job = Job { plan, content, seed, stop, listener, there: Arc::default() };
    let mut figures = BTreeMap::new();
    let done = phases(crew, &job, &mut figures).await;
    let for_worker = job.clone();
    let removed = start(crew, "smallfiles end", Calls::Blocking, move |place| async move {
        remove(&place, &for_worker).await
    });
    let removed = match removed {
        Ok(removed) => removed.await,
        Err(lost) => Err(lost),
    };
    // What went wrong counts more than what comes of tidying up.
    done?;
    removed??;
    Ok(SmallFilesOutcome::of(Plan::clone(&job.plan), job.content.spec(), figures))
}

async fn phases(
    crew: &dyn Crew,
    job: &Job,
    figures: &mut BTreeMap<Phase, Figure>,
) -> Result<(), RunError> {
    let tree = crew.place().tree;
    tree.create_directory(&job.plan.root()).await.map_err(IoFailure::from)?;
    for number in 0..job.plan.directories {
        job.go_on()?;
        tree.create_directory(&job.directory(number)).await.map_err(IoFailure::from)?;
    }
    for phase in Phase::ALL {
        (job.listener)(Heard::Begins(phase));
        let figure = on_all_threads(crew, job, phase).await?;
        (job.listener)(Heard::Ends(phase, &figure));
        figures.insert(phase, figure);
    }
    Ok(())
}

async fn on_all_threads(crew: &dyn Crew, job: &Job, phase: Phase) -> Result<Figure, RunError> {
    let place = crew.place();
    let for_workers = job.clone();
    let (opened, done) = start_together(
        crew,
        "smallfiles",
        job.plan.threads as usize,
        Calls::Blocking,
        move |thread, place, gate| {
            let job = for_workers.clone();
            async move {
                let worker = Worker::new(job, phase, thread as u64);
                match gate.pass().await {
                    true => worker.work(&place).await.map(Some),
                    false => Ok(None),
                }
            }
        },
    )
    .await?;
    let mut figure = Figure::default();
    let mut ended = opened;
    for done in done {
        if let Some((end, part)) = done? {
            figure.add(&part);
            ended = ended.max(end);
        }
    }
    if phase.changes() {
        place.tree.sync().await.map_err(IoFailure::from)?;
        ended = Moment::now(&place.rt);
    }
    figure.elapsed = ended.at.since(opened.at);
    figure.processor = ended.processor.saturating_sub(opened.processor);
    Ok(figure)
}

/// Removes what is there of the directories and files.
async fn remove(place: &Place, job: &Job) -> Result<(), IoFailure> {
    let tree = &place.tree;
    let mut left = job.there.load(Ordering::Relaxed);
    if left > 0 {
        (job.listener)(Heard::Removing(left));
    }
    for number in 0..job.plan.directories {
        let directory = job.directory(number);
        match tree.list(&directory).await.map_err(IoFailure::from) {
            Ok(entries) => {
                for entry in entries {
                    tree.remove_file(&directory.join(entry.name)).await?;
                    left = left.saturating_sub(1);
                    (job.listener)(Heard::Removing(left));
                }
                tree.remove_directory(&directory).await?;
            }
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
    }
    match tree.remove_directory(&job.plan.root()).await.map_err(IoFailure::from) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

/// One file: its number and its size.
struct SmallFile {
    number: u64,
    size: u64,
}

/// One thread in one phase.
struct Worker {
    job: Job,
    phase: Phase,
    files: Vec<SmallFile>,
    /// What is written where files are made; prepared before the time runs.
    written: Option<Blocks>,
    buffer: OneBuffer,
}

impl Worker {
    fn new(job: Job, phase: Phase, thread: u64) -> Worker {
        let plan = &job.plan;
        // The same sizes in every phase.
        let mut sizes = Prng::for_part(job.seed, &format!("sizes of thread {thread}"));
        let (min, max) = (plan.sizes.min.bytes(), plan.sizes.max.bytes());
        let mut files: Vec<SmallFile> = job
            .part(thread)
            .map(|number| SmallFile { number, size: min + sizes.below(max - min + 1) })
            .collect();
        if phase != Phase::Create {
            let part = format!("order of {} of thread {thread}", phase.word());
            Prng::for_part(job.seed, &part).shuffle(&mut files);
        }
        let block = plan.block.min(plan.sizes.max).max(ByteCount(1));
        let written =
            (phase == Phase::Create).then(|| Blocks::new(&job.content, thread, block.as_usize()));
        Worker { buffer: OneBuffer::new(block), written, files, phase, job }
    }

    async fn work(mut self, place: &Place) -> Result<(Moment, Figure), RunError> {
        let mut figure = Figure::default();
        for file in std::mem::take(&mut self.files) {
            self.job.go_on()?;
            let path = self.job.path(file.number);
            if self.job.plan.cold && matches!(self.phase, Phase::Read | Phase::Copy) {
                // Outside the file's latency; the phase's time has it, and it is small.
                let opened = place.tree.open(&path, OpenHow::read()).await;
                opened.map_err(IoFailure::from)?.drop_cache().await.map_err(IoFailure::from)?;
            }
            let begun = place.rt.now();
            let moved = match self.phase {
                Phase::Create => self.create(place, &path, file.size).await?,
                Phase::Stat => {
                    place.tree.status(&path).await.map_err(IoFailure::from)?;
                    0
                }
                Phase::Read => self.read(place, &path, file.size).await?,
                Phase::Copy => self.copy(place, &path, file.size).await?,
                Phase::Delete => {
                    self.remove_file(place, &path).await?;
                    0
                }
            };
            note(&mut figure, place, begun, moved);
            if self.phase == Phase::Delete {
                let begun = place.rt.now();
                self.remove_file(place, &copy_of(&path)).await?;
                note(&mut figure, place, begun, 0);
            }
        }
        Ok((Moment::now(&place.rt), figure))
    }

    async fn new_file(&self, place: &Place, path: &Path) -> Result<FileRef, IoFailure> {
        let how = OpenHow { write: true, create: true, exclusive: true, ..OpenHow::default() };
        let file = place.tree.open(path, how).await?;
        self.job.there.fetch_add(1, Ordering::Relaxed);
        Ok(file)
    }

    async fn remove_file(&self, place: &Place, path: &Path) -> Result<(), IoFailure> {
        place.tree.remove_file(path).await?;
        self.job.there.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    async fn finish(&self, file: FileRef) -> Result<(), IoFailure> {
        if self.job.plan.durable {
            file.sync().await?;
        }
        Ok(())
    }

    async fn create(&mut self, place: &Place, path: &Path, size: u64) -> Result<u64, IoFailure> {
        let file = self.new_file(place, path).await?;
        for (at, len) in self.pieces(size) {
            if let Some(blocks) = &mut self.written {
                let block = blocks.next().slice(0..len.as_usize());
                one_buffer::write(&*file, at, block).await?;
            }
        }
        self.finish(file).await?;
        Ok(size)
    }

    async fn read(&mut self, place: &Place, path: &Path, size: u64) -> Result<u64, IoFailure> {
        let file = place.tree.open(path, OpenHow::read()).await?;
        for (at, len) in self.pieces(size) {
            let _ = self.buffer.read(&*file, at, len).await?;
        }
        Ok(size)
    }

    async fn copy(&mut self, place: &Place, path: &Path, size: u64) -> Result<u64, IoFailure> {
        let from = place.tree.open(path, OpenHow::read()).await?;
        let to = self.new_file(place, &copy_of(path)).await?;
        for (at, len) in self.pieces(size) {
            let held = self.buffer.read(&*from, at, len).await?;
            self.buffer.write(&*to, at, held).await?;
        }
        self.finish(to).await?;
        Ok(size)
    }

    /// The blocks of a file.
    fn pieces(&self, size: u64) -> impl Iterator<Item = (Offset, ByteCount)> + use<> {
        let block = self.job.plan.block.bytes();
        (0..size.div_ceil(block)).map(move |number| {
            let at = number * block;
            (Offset(at), ByteCount((size - at).min(block)))
        })
    }
}

fn copy_of(path: &Path) -> PathBuf {
    path.with_extension("copy")
}

/// Counts a file.
fn note(figure: &mut Figure, place: &Place, begun: Instant, bytes: u64) {
    figure.files += 1;
    figure.bytes += bytes;
    count_latency(&mut figure.latencies, place.rt.now().since(begun));
}
