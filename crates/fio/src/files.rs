//! The files of a job: their names, their sizes, and laying them out before the job begins.
//!
//! Names are fio's: those of `filename=`, or `filename_format` (`JOB.CLONE.FILE`) for each of
//! `nrfiles`, below `directory=` (clones take turns at several). Which part of a file is used, and how
//! much is done in all, follows fio's `setup_files`: without `filesize=` the size is shared by the
//! files, the first ones taking what is left over; without `size=` it is what is there.
//!
//! A file that is too short is laid out: for reads (and `overwrite=1`) it is written whole, made
//! durable and dropped from memory; for writes it is made anew and its space taken (`fallocate=`). One
//! that is long enough is used as it is. So the state in which a job finds its files is fio's.

use super::data::Filler;
use super::error::FioError;
use super::plan::{Job, Plan, largest_block, smallest_block};
use super::spec::{Engine, Extent, Fallocate, Spec};
use rt::{FileKind, FileRef, OpenHow, Request, TreeError, TreeErrorKind, TreeRef};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::{ByteCount, Offset, Prng};

/// What is written at once while a file is laid out. Larger costs memory, smaller time.
const LAYOUT_BLOCK: u64 = 1 << 20;

/// One file of a job and the part of it that is used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    /// Its path in the tree.
    pub(super) path: PathBuf,
    pub(super) kind: FileKind,
    /// Its size.
    pub(super) real: u64,
    /// Where the part begins.
    pub(super) offset: u64,
    /// How long the part is.
    pub(super) len: u64,
    /// Whether it must be made longer first.
    extend: bool,
}

#[cfg(test)]
impl Span {
    /// A file that is as large as it is used.
    pub(super) fn for_test(kind: FileKind, offset: u64, len: u64) -> Span {
        Span { path: "f".into(), kind, real: offset + len, offset, len, extend: false }
    }
}

/// The files of a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Files {
    pub(super) spans: Vec<Span>,
    /// Bytes of one pass over them.
    pub(super) pass: u64,
    /// Bytes that are done in all.
    pub(super) total: u64,
}

/// The paths of a job's files, relative to the tree.
pub(super) fn paths(job: &Job) -> Vec<PathBuf> {
    let spec = &job.spec;
    let directory = match spec.directories.len() as u64 {
        0 => None,
        count => spec.directories.get((job.clone % count) as usize),
    };
    let placed = |name: &str| {
        let path = directory.map_or_else(PathBuf::new, PathBuf::from).join(name);
        // In the tree there is no root: it stands over "/" where a path is absolute.
        path.strip_prefix("/").map(Path::to_path_buf).unwrap_or(path)
    };
    if !spec.filenames.is_empty() {
        return spec.filenames.iter().map(|name| placed(name)).collect();
    }
    (0..spec.nrfiles).map(|file| placed(&formatted(job, file))).collect()
}

impl Plan {
    /// The files of all jobs, by their paths in the tree.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        self.jobs.iter().flat_map(paths).collect()
    }
}

fn formatted(job: &Job, file: u64) -> String {
    let format = &job.spec.filename_format;
    if format.is_empty() {
        return format!("{}.{}.{file}", job.name, job.clone);
    }
    format
        .replace("$jobname", &job.name)
        .replace("$jobnum", &job.clone.to_string())
        .replace("$filenum", &file.to_string())
        .replace("$clientuid", "localhost")
}

/// Looks at the files and works out what is used of them.
pub(super) async fn measure(
    tree: &TreeRef,
    job: &Job,
    destructive: bool,
    prng: &mut Prng,
) -> Result<Files, FioError> {
    let spec = &job.spec;
    let mut spans = Vec::new();
    for path in paths(job) {
        let (kind, real) = if spec.engine == Engine::Null {
            (FileKind::File, 0)
        } else {
            match tree.status(&path).await {
                Ok(status) if status.kind == FileKind::BlockDevice => {
                    if (spec.mode.write || spec.mode.trim) && !destructive {
                        let file = Path::new(&*tree.name()).join(&path).display().to_string();
                        return Err(FioError::NotDestructive { job: job.name.clone(), file });
                    }
                    // Its size is known only to who opens it.
                    let failed = |source| FioError::Tree { job: job.name.clone(), source };
                    let device = tree.open(&path, OpenHow::read()).await.map_err(failed)?;
                    let status = device.status().await.map_err(failed)?;
                    (FileKind::BlockDevice, status.size.bytes())
                }
                Ok(status) => (status.kind, status.size.bytes()),
                Err(error) if error.kind == TreeErrorKind::NotFound => (FileKind::File, 0),
                Err(source) => return Err(FioError::Tree { job: job.name.clone(), source }),
            }
        };
        if let FileKind::Directory | FileKind::Pipe = kind {
            let kind = match kind {
                FileKind::Directory => TreeErrorKind::IsDirectory,
                _ => TreeErrorKind::IsPipe,
            };
            let source = TreeError { op: rt::TreeOp::Open, path, kind };
            return Err(FioError::Tree { job: job.name.clone(), source });
        }
        spans.push(Span { path, kind, real, offset: 0, len: 0, extend: false });
    }
    let free = match spec.fill_device {
        true => {
            let space = tree.space().await;
            let space = space.map_err(|source| FioError::Tree { job: job.name.clone(), source })?;
            space.free.bytes() + spans.iter().map(|span| span.real).sum::<u64>()
        }
        false => 0,
    };
    settle(job, spans, free, prng)
}

/// What is used of each file: fio's rules.
fn settle(job: &Job, mut spans: Vec<Span>, free: u64, prng: &mut Prng) -> Result<Files, FioError> {
    let spec = &job.spec;
    let job_name = || job.name.clone();
    let first = || spans.first().map_or(String::new(), |span| span.path.display().to_string());
    let there: u64 = spans.iter().map(|span| span.real).sum();
    let size = match spec.size {
        Extent::Bytes(size) => Some(size),
        _ => None,
    };
    if there == 0 && size.is_none() && !spec.fill_device && spec.filesize.is_none() {
        return Err(FioError::NoSize { job: job_name(), file: first() });
    }
    let block = smallest_block(spec);
    let count = (spans.len() as u64).max(1);
    let wanted = match size {
        None if spec.fill_device => free,
        size => size.unwrap_or_default(),
    };
    let share = wanted / count;
    let mut left_over = if spec.filesize.is_none() { (wanted - share * count) / block } else { 0 };
    let mut total = 0_u64;
    for span in &mut spans {
        let beyond =
            || FioError::OffsetBeyond { job: job_name(), file: span.path.display().to_string() };
        span.offset = start(job, span);
        span.len = match spec.filesize {
            None => {
                let extra = if left_over > 0 { block } else { 0 };
                left_over = left_over.saturating_sub(1);
                match share + extra {
                    0 => span.real.checked_sub(span.offset).ok_or_else(beyond)?,
                    len => len,
                }
            }
            Some((low, high)) if span.real < low || span.real > high => {
                let size = if low == high { low } else { low + prng.below(high - low + 1) };
                size.checked_sub(span.offset).ok_or_else(beyond)?
            }
            Some(_) => span.real.checked_sub(span.offset).ok_or_else(beyond)?,
        };
        if let Extent::Percent(percent) = spec.size
            && percent != 100
        {
            let whole = span.len + span.offset;
            let part = (whole / 100 * u64::from(percent)) + whole % 100 * u64::from(percent) / 100;
            span.len = part.min(span.len);
            span.len -= span.len % block;
        }
        total = total.saturating_add(match spec.io_size {
            Extent::Percent(percent) => span.len / 100 * u64::from(percent),
            _ => span.len,
        });
        let end = span.offset.checked_add(span.len).ok_or_else(beyond)?;
        match span.kind {
            FileKind::File if spec.engine == Engine::Null || spec.create_on_open => {
                span.real = span.real.max(end);
            }
            FileKind::File => {
                span.extend = end > span.real;
            }
            // What has no size, a character device, is as large as is asked for.
            FileKind::Other => span.real = end,
            FileKind::Directory | FileKind::BlockDevice | FileKind::Pipe => {}
        }
    }
    let pass = size.filter(|size| total == 0 || *size <= total).unwrap_or(total);
    if pass < block {
        return Err(FioError::TooSmall { job: job_name(), block_bytes: block });
    }
    let io_size = match spec.io_size {
        Extent::Bytes(size) if size > 0 => size,
        _ => pass,
    };
    Ok(Files { spans, pass, total: io_size.saturating_mul(spec.loops) })
}

/// Where in a file the job begins.
fn start(job: &Job, span: &Span) -> u64 {
    let spec = &job.spec;
    let size = span.real;
    let share = |percent: u32| size / 100 * u64::from(percent);
    let offset = match spec.offset {
        Extent::Unset => 0,
        Extent::Bytes(offset) => offset,
        Extent::Percent(percent) => share(percent),
    };
    let increment = match spec.offset_increment {
        Extent::Unset => 0,
        Extent::Bytes(increment) => increment,
        Extent::Percent(percent) => share(percent),
    };
    let offset = offset.saturating_add(increment.saturating_mul(job.clone));
    match (spec.offset_align, spec.offset) {
        (0, Extent::Percent(_)) => offset - offset % smallest_block(spec),
        (0, _) => offset,
        (align, _) => offset.next_multiple_of(align),
    }
}

/// What laying out did, for the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaidOut {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Makes the files that are too short, and the directories that they are in.
pub(super) async fn lay_out(
    tree: &TreeRef,
    job: &Job,
    files: &mut Files,
    filler: &mut Filler,
    stop: &AtomicBool,
) -> Result<LaidOut, FioError> {
    let spec = &job.spec;
    let mut done = LaidOut::default();
    if spec.engine == Engine::Null {
        return Ok(done);
    }
    for span in &mut files.spans {
        if span.kind == FileKind::File {
            make_directories(tree, &span.path)
                .await
                .map_err(|source| FioError::Tree { job: job.name.clone(), source })?;
        }
        if span.extend && !stop.load(Ordering::Relaxed) {
            done.files += 1;
            done.bytes += span.offset + span.len;
            extend(tree, job, span, filler, stop).await?;
            span.extend = false;
        }
    }
    Ok(done)
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
    spec.mode.read || spec.mode.write && spec.overwrite && !spec.append
}

/// Whether files take all their room before a job begins.
pub(super) fn takes_room(spec: &Spec) -> bool {
    !spec.fill_device && (is_written_before(spec) || matches!(spec.fallocate, Fallocate::Native))
}

async fn make_directories(tree: &TreeRef, path: &Path) -> Result<(), TreeError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    match tree.status(parent).await {
        Ok(_) => return Ok(()),
        Err(error) if error.kind == TreeErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut made = PathBuf::new();
    for name in parent.components() {
        made.push(name);
        match tree.create_directory(&made).await {
            Ok(()) => {}
            Err(error) if error.kind == TreeErrorKind::Exists => {}
            // Where a directory is there, others may forbid to make it.
            Err(_) if tree.status(&made).await.is_ok() => {}
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
) -> Result<(), FioError> {
    let spec = &job.spec;
    let failed = |source| FioError::Tree { job: job.name.clone(), source };
    let mode = spec.mode;
    let written = is_written_before(spec);
    let anew = written || mode.write && !spec.overwrite && !spec.append;
    if anew {
        match tree.remove_file(&span.path).await {
            Err(error) if error.kind != TreeErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    span.real = span.offset + span.len;
    let filled = fill(tree, job, span, written, filler, stop).await;
    // What was begun here and could not be ended takes the room of others.
    if filled.is_err() && anew {
        let _ = tree.remove_file(&span.path).await;
    }
    filled
}

/// Gives a file its size, and its content where that is read before it is written.
async fn fill(
    tree: &TreeRef,
    job: &Job,
    span: &mut Span,
    written: bool,
    filler: &mut Filler,
    stop: &AtomicBool,
) -> Result<(), FioError> {
    let spec = &job.spec;
    let failed = |source| FioError::Tree { job: job.name.clone(), source };
    let how = OpenHow { write: true, create: spec.allow_create, ..OpenHow::default() };
    let file = tree.open(&span.path, how).await.map_err(failed)?;
    let size = ByteCount(span.real);
    if !spec.fill_device {
        match spec.fallocate {
            Fallocate::None => {}
            Fallocate::Native => file.allocate(size).await.map_err(failed)?,
            Fallocate::Truncate => file.set_size(size).await.map_err(failed)?,
        }
    }
    if !written {
        return Ok(());
    }
    if !spec.fill_device {
        file.set_size(size).await.map_err(failed)?;
    }
    write_whole(job, span, &file, filler, stop).await?;
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

/// Removes the files of a job (`unlink=1`).
pub(super) async fn remove(tree: &TreeRef, job: &Job, files: &Files) -> Result<(), FioError> {
    for span in files.spans.iter().filter(|span| span.kind == FileKind::File) {
        match tree.remove_file(&span.path).await {
            Err(error) if error.kind != TreeErrorKind::NotFound => {
                return Err(FioError::Tree { job: job.name.clone(), source: error });
            }
            _ => {}
        }
    }
    Ok(())
}
