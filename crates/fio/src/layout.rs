//! Laying out: files that are too short are made before their job begins.
//!
//! For reads (and `overwrite=1`) a file is written whole, made durable and dropped from memory; for writes it is made
//! anew and its space taken (`fallocate=`). One that is long enough is used as it is. So the state in which a job finds
//! its files is fio's.
//!
//! What was there before is not lost by a layout that fails, where fio would lose it: what takes a file's place is made
//! beside it and takes its name when it is whole, and a file that is only made longer is cut back. [`check`] asks
//! for the room of all jobs together, and for what is forbidden, before the first byte is written. What a failed layout made is removed by
//! [`Made::undo`]; what one left that was killed is known by its name ([`is_of_layout`]).

use super::data::Filler;
use super::error::FioError;
use super::files::{self, Files, Span};
use super::plan::{Job, Plan, largest_block};
use super::spec::{Engine, Fallocate, Spec};
use rt::{FileKind, FileRef, OpenHow, Request, TreeError, TreeErrorKind, TreeRef};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::{ByteCount, Offset, Prng};

/// What is written at once while a file is laid out. Larger costs memory, smaller time.
const LAYOUT_BLOCK: u64 = 1 << 20;

/// How the name of a file begins that is made beside another, to take its place.
const BESIDE: &str = ".layout-";

/// The most jobs that a refusal names.
const NAMED_MAX: usize = 4;

/// What is known of the room of file systems.
pub trait Rooms {
    /// The file system on which a path of the tree lies, or would; none where that is not known.
    fn file_system(&self, path: &Path) -> Option<u64>;

    /// What is free there.
    fn free(&self, path: &Path) -> Option<ByteCount>;
}

/// What all layouts take of one file system.
struct Taken {
    free: u64,
    now: i128,
    most: i128,
    jobs: Vec<String>,
    first: String,
}

/// Refuses files that don't fit, all jobs' together, before any is made. `seeds` are the jobs'.
async fn check_room(
    tree: &TreeRef,
    plan: &Plan,
    seeds: &[u64],
    destructive: bool,
    rooms: &dyn Rooms,
) -> Result<(), FioError> {
    let mut sizes: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut taken: BTreeMap<u64, Taken> = BTreeMap::new();
    for (job, seed) in plan.jobs.iter().zip(seeds) {
        let spec = &job.spec;
        if spec.engine == Engine::Null || !spec.create_serialize || !takes_room(spec) {
            continue;
        }
        let mut prng = Prng::for_part(*seed, "file sizes");
        // A job whose files only another's layout makes can't be measured yet, and takes no room of its own.
        let Ok(files) = files::measure(tree, job, destructive, &mut prng).await else { continue };
        for span in files.spans.iter().filter(|span| span.extend) {
            let end = span.offset + span.len;
            let before = sizes.get(&span.path).copied().unwrap_or(span.real);
            if before >= end {
                continue;
            }
            let Some(system) = rooms.file_system(&span.path) else { continue };
            sizes.insert(span.path.clone(), end);
            let taken = match taken.entry(system) {
                std::collections::btree_map::Entry::Occupied(taken) => taken.into_mut(),
                std::collections::btree_map::Entry::Vacant(vacant) => {
                    let Some(free) = rooms.free(&span.path) else { continue };
                    let first = files::shown(job, &span.path);
                    vacant.insert(Taken {
                        free: free.bytes(),
                        now: 0,
                        most: 0,
                        jobs: Vec::new(),
                        first,
                    })
                }
            };
            // What takes another's place lies beside it until it is whole.
            let beside = if is_anew(spec) { 0 } else { i128::from(before) };
            taken.most = taken.most.max(taken.now + i128::from(end) - beside);
            taken.now += i128::from(end) - i128::from(before);
            if !taken.jobs.contains(&job.name) {
                taken.jobs.push(job.name.clone());
            }
        }
    }
    let full = taken.into_values().find(|taken| taken.most > i128::from(taken.free));
    full.map_or(Ok(()), |taken| {
        Err(FioError::NoRoom {
            whose: whose(&taken.jobs),
            bytes: ByteCount(u64::try_from(taken.most).unwrap_or(u64::MAX)),
            room: ByteCount(taken.free),
            file: taken.first,
        })
    })
}

/// Whether a run can begin: what its layout would refuse, before it makes anything. `seeds` are the jobs'.
pub(super) async fn check(
    tree: &TreeRef,
    plan: &Plan,
    seeds: &[u64],
    destructive: bool,
    rooms: Option<&dyn Rooms>,
) -> Result<(), FioError> {
    if let Some(rooms) = rooms {
        check_room(tree, plan, seeds, destructive, rooms).await?;
    }
    let mut coming: BTreeSet<PathBuf> = BTreeSet::new();
    for (job, seed) in plan.jobs.iter().zip(seeds) {
        if !job.spec.create_serialize {
            continue;
        }
        let mut prng = Prng::for_part(*seed, "file sizes");
        let found = files::measure(tree, job, destructive, &mut prng).await;
        // What is not there is no hindrance where another's layout makes it before.
        if files::paths(job).iter().any(|path| coming.contains(path)) {
            continue;
        }
        let files = found?;
        check_allowed(job, &files)?;
        let made = files.spans.into_iter().filter(|span| span.extend);
        coming.extend(made.map(|span| span.path));
    }
    Ok(())
}

/// Refuses to make files, or to make them anew, where the job forbids it.
fn check_allowed(job: &Job, files: &Files) -> Result<(), FioError> {
    let spec = &job.spec;
    let is_made = |span: &&Span| span.extend && (!span.there || is_anew(spec));
    let forbids = !spec.allow_create && spec.engine != Engine::Null;
    match files.spans.iter().find(is_made).filter(|_| forbids) {
        Some(span) => {
            Err(FioError::NoCreate { job: job.name.clone(), file: files::shown(job, &span.path) })
        }
        None => Ok(()),
    }
}

/// Whose files they are, in words.
fn whose(jobs: &[String]) -> String {
    match jobs {
        [job] => format!("job {job}: its"),
        jobs if jobs.len() <= NAMED_MAX => format!("jobs {}: their", jobs.join(", ")),
        jobs => {
            let named = jobs.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            format!("jobs {named} and {} more: their", jobs.len() - NAMED_MAX)
        }
    }
}

/// What laying out did, for the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaidOut {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// What a layout made that was not there before.
#[derive(Default)]
pub(super) struct Made {
    files: BTreeSet<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Made {
    /// Removes it, after a failure. What can't be removed stays.
    pub(super) async fn undo(self, tree: &TreeRef) {
        for file in &self.files {
            let _ = tree.remove_file(file).await;
        }
        for directory in self.directories.iter().rev() {
            let _ = tree.remove_directory(directory).await;
        }
    }
}

/// Makes the files that are too short, and the directories that they are in. What is new is noted in `made`, after a
/// failure as well.
pub(super) async fn lay_out(
    tree: &TreeRef,
    job: &Job,
    files: &mut Files,
    filler: &mut Filler,
    stop: &AtomicBool,
    made: &mut Made,
) -> Result<(), FioError> {
    if job.spec.engine == Engine::Null {
        return Ok(());
    }
    check_allowed(job, files)?;
    for span in &mut files.spans {
        if span.kind == FileKind::File {
            make_directories(tree, &span.path, made)
                .await
                .map_err(|source| FioError::Tree { job: job.name.clone(), source })?;
        }
        if span.extend && !stop.load(Ordering::Relaxed) {
            extend(tree, job, span, filler, stop, made).await?;
            span.extend = false;
        }
    }
    Ok(())
}

/// What of a layout is to come, told before it begins.
pub(super) fn to_lay_out(files: &Files) -> LaidOut {
    let short = files.spans.iter().filter(|span| span.extend);
    short.fold(LaidOut::default(), |sum, span| LaidOut {
        files: sum.files + 1,
        bytes: sum.bytes + span.offset + span.len,
    })
}

/// Whether files have content before a job begins: it reads it, or writes over it.
fn is_written_before(spec: &Spec) -> bool {
    spec.mode.read || spec.mode.write && spec.overwrite
}

/// Whether a file that is too short is made anew, and not made longer.
fn is_anew(spec: &Spec) -> bool {
    spec.mode.read || spec.mode.write
}

/// Whether files take all their room before a job begins.
fn takes_room(spec: &Spec) -> bool {
    !spec.fill_device && (is_written_before(spec) || matches!(spec.fallocate, Fallocate::Native))
}

async fn make_directories(tree: &TreeRef, path: &Path, made: &mut Made) -> Result<(), TreeError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    match tree.status(parent).await {
        Ok(_) => return Ok(()),
        Err(error) if error.kind == TreeErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut path = PathBuf::new();
    for name in parent.components() {
        path.push(name);
        match tree.create_directory(&path).await {
            Ok(()) => made.directories.push(path.clone()),
            Err(error) if error.kind == TreeErrorKind::Exists => {}
            // Where a directory is there, others may forbid to make it.
            Err(_) if tree.status(&path).await.is_ok() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn extend(
    tree: &TreeRef,
    job: &Job,
    span: &mut Span,
    filler: &mut Filler,
    stop: &AtomicBool,
    made: &mut Made,
) -> Result<(), FioError> {
    let spec = &job.spec;
    let failed = |source| FioError::Tree { job: job.name.clone(), source };
    let before = ByteCount(span.real);
    span.real = span.offset + span.len;
    if !span.there {
        let how = OpenHow { write: true, create: true, ..OpenHow::default() };
        let file = tree.open(&span.path, how).await.map_err(failed)?;
        made.files.insert(span.path.clone());
        span.there = true;
        let filled = fill(job, span, &file, filler, stop).await;
        drop(file);
        if stop.load(Ordering::Relaxed) {
            // The next run would take its length for what was laid out.
            tree.remove_file(&span.path).await.map_err(failed)?;
            made.files.remove(&span.path);
            span.there = false;
        }
        return filled;
    }
    if !is_anew(spec) {
        let file = tree.open(&span.path, OpenHow::write()).await.map_err(failed)?;
        let filled = fill(job, span, &file, filler, stop).await;
        if filled.is_err() || stop.load(Ordering::Relaxed) {
            let _ = file.set_size(before).await;
        }
        return filled;
    }
    let (beside, file) = open_beside(tree, job, &span.path).await.map_err(failed)?;
    let filled = fill(job, span, &file, filler, stop).await;
    drop(file);
    let whole = filled.is_ok() && !stop.load(Ordering::Relaxed);
    let placed = match whole {
        true => tree.rename(&beside, &span.path).await.map_err(failed),
        false => filled,
    };
    if placed.is_err() || !whole {
        let _ = tree.remove_file(&beside).await;
    }
    placed
}

impl Plan {
    /// Where files are made that take the place of others when they are whole, by their paths in the tree.
    pub fn beside(&self) -> BTreeSet<PathBuf> {
        let of_job = |job| files::paths(job).into_iter().map(move |path| beside(job, &path, 0));
        self.jobs.iter().flat_map(of_job).collect()
    }
}

/// The name of a file beside another, which takes its place.
fn beside(job: &Job, path: &Path, number: u64) -> PathBuf {
    path.with_file_name(format!("{BESIDE}{}-{number}", job.number))
}

/// Whether a layout makes files of this name beside others: one that lies there before a run begins was left by a layout that was
/// killed, or is another run's that is under way. Nothing tells which.
pub fn is_of_layout(name: &str) -> bool {
    let numbers = name.strip_prefix(BESIDE).and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(job, number)| is_number(job) && is_number(number))
}

/// A new file in the directory of another, whose name nothing has.
async fn open_beside(
    tree: &TreeRef,
    job: &Job,
    path: &Path,
) -> Result<(PathBuf, FileRef), TreeError> {
    let how = OpenHow { write: true, create: true, exclusive: true, ..OpenHow::default() };
    let mut number = 0_u64;
    loop {
        let beside = beside(job, path, number);
        match tree.open(&beside, how).await {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind == TreeErrorKind::Exists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Gives a file its size, and its content where that is read before it is written.
async fn fill(
    job: &Job,
    span: &mut Span,
    file: &FileRef,
    filler: &mut Filler,
    stop: &AtomicBool,
) -> Result<(), FioError> {
    let spec = &job.spec;
    let failed = |source| FioError::Tree { job: job.name.clone(), source };
    let size = ByteCount(span.real);
    if !spec.fill_device {
        match spec.fallocate {
            Fallocate::None => {}
            Fallocate::Native => file.allocate(size).await.map_err(failed)?,
            Fallocate::Truncate => file.set_size(size).await.map_err(failed)?,
        }
    }
    if !is_written_before(spec) {
        return Ok(());
    }
    if !spec.fill_device {
        file.set_size(size).await.map_err(failed)?;
    }
    write_whole(job, span, file, filler, stop).await?;
    if spec.create_fsync {
        file.sync().await.map_err(failed)?;
    }
    file.drop_cache().await.map_err(failed)
}

async fn write_whole(
    job: &Job,
    span: &mut Span,
    file: &FileRef,
    filler: &mut Filler,
    stop: &AtomicBool,
) -> Result<(), FioError> {
    let spec: &Spec = &job.spec;
    let block = largest_block(spec).max(LAYOUT_BLOCK);
    let mut at = 0;
    while at < span.real && !stop.load(Ordering::Relaxed) {
        let len = block.min(span.real - at);
        let data = filler.next(ByteCount(len).as_usize());
        match file.submit(Request::write(Offset(at), data)).await {
            Ok(_) => at += len,
            Err(error) if spec.fill_device && error.kind == rt::IoErrorKind::NoSpace => {
                span.real = at;
                span.len = span.len.min(at.saturating_sub(span.offset));
            }
            Err(error) => {
                return Err(FioError::Io { job: job.name.clone(), source: error.into() });
            }
        }
    }
    Ok(())
}
