//! The files of a job: their names and their sizes. `layout` makes those that are too short.
//!
//! Names are fio's: those of `filename=`, or `filename_format` (`JOB.CLONE.FILE`) for each of
//! `nrfiles`, below `directory=` (clones take turns at several). Which part of a file is used, and how
//! much is done in all, follows fio's `setup_files`: without `filesize=` the size is shared by the
//! files, the first ones taking what is left over; without `size=` it is what is there.

use super::error::FioError;
use super::plan::{Job, Plan, smallest_block};
use super::spec::{Engine, Extent, Spec};
use rt::{FileKind, OpenHow, TreeError, TreeErrorKind, TreeRef};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use stdx::Prng;

/// One file of a job and the part of it that is used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    /// Its path in the tree.
    pub(super) path: PathBuf,
    pub(super) kind: FileKind,
    /// Whether it was there when it was looked at.
    pub(super) there: bool,
    /// Its size.
    pub(super) real: u64,
    /// Where the part begins.
    pub(super) offset: u64,
    /// How long the part is.
    pub(super) len: u64,
    /// Whether it must be made longer first.
    pub(super) extend: bool,
}

#[cfg(test)]
impl Span {
    /// A file that is as large as it is used.
    pub(super) fn for_test(kind: FileKind, offset: u64, len: u64) -> Span {
        Span { path: "f".into(), kind, there: true, real: offset + len, offset, len, extend: false }
    }
}

/// The files of a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Files {
    pub(super) spans: Vec<Span>,
    /// Bytes of one pass over them.
    pub(super) pass: u64,
    /// Bytes that are done for each of `loops`: `io_size`, or those of a pass.
    pub(super) wanted: u64,
    /// Whether more passes are made for them when the files are used up: with `io_size`.
    pub(super) beyond_pass: bool,
}

/// The paths of a job's files, relative to the tree.
pub(super) fn paths(job: &Job) -> Vec<PathBuf> {
    // In the tree there is no root: it stands over "/" where a path is absolute.
    let in_tree = |path: PathBuf| path.strip_prefix("/").map(Path::to_path_buf).unwrap_or(path);
    named(job).into_iter().map(in_tree).collect()
}

/// The paths of a job's files as it names them.
fn named(job: &Job) -> Vec<PathBuf> {
    let spec = &job.spec;
    let directory = match spec.directories.len() as u64 {
        0 => None,
        count => spec.directories.get((job.clone % count) as usize),
    };
    let placed = |name: &str| match directory {
        // As fio puts them together, a name below a directory is never absolute.
        Some(directory) => Path::new(directory).join(name.trim_start_matches('/')),
        None => PathBuf::from(name),
    };
    if !spec.filenames.is_empty() {
        return spec.filenames.iter().map(|name| placed(name)).collect();
    }
    (0..spec.nrfiles).map(|file| placed(&formatted(job, file))).collect()
}

/// A path of a job's file as its user knows it: with the root that the tree has not.
pub(super) fn shown(job: &Job, path: &Path) -> String {
    let spec = &job.spec;
    let named = if spec.directories.is_empty() { &spec.filenames } else { &spec.directories };
    match named.iter().any(|name| name.starts_with('/')) {
        true => Path::new("/").join(path).display().to_string(),
        false => path.display().to_string(),
    }
}

impl Plan {
    /// The files of all jobs, by their paths in the tree.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        self.jobs.iter().flat_map(paths).collect()
    }

    /// Whether any job goes to a file by an absolute path or a `..`, so that the tree must be over `/`.
    pub fn leads_out(&self) -> bool {
        let up = |path: &PathBuf| path.components().any(|part| part == Component::ParentDir);
        self.jobs.iter().flat_map(named).any(|path| path.is_absolute() || up(&path))
    }

    /// The same with every file at the absolute path that `place` gives for what the job calls it, for a tree over the root.
    pub fn with_files_at(&self, place: impl Fn(&Path) -> PathBuf) -> Plan {
        let mut plan = self.clone();
        for job in &mut plan.jobs {
            let placed = named(job);
            let placed = placed.iter().map(|path| place(path).display().to_string());
            let mut spec = Spec::clone(&job.spec);
            (spec.filenames, spec.directories) = (placed.collect(), Vec::new());
            job.spec = Arc::new(spec);
        }
        plan
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
        let (kind, there, real) = if spec.engine == Engine::Null {
            (FileKind::File, false, 0)
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
                    (FileKind::BlockDevice, true, status.size.bytes())
                }
                Ok(status) => (status.kind, true, status.size.bytes()),
                Err(error) if error.kind == TreeErrorKind::NotFound => (FileKind::File, false, 0),
                Err(source) => return Err(FioError::Tree { job: job.name.clone(), source }),
            }
        };
        if let FileKind::Directory | FileKind::Pipe = kind {
            let kind = match kind {
                FileKind::Directory => TreeErrorKind::IsDirectory,
                _ => TreeErrorKind::IsPipe,
            };
            let path = PathBuf::from(shown(job, &path));
            let source = TreeError { op: rt::TreeOp::Open, path, kind };
            return Err(FioError::Tree { job: job.name.clone(), source });
        }
        if spec.mode.trim && kind == FileKind::File && spec.engine != Engine::Null {
            return Err(FioError::TrimOfFile { job: job.name.clone(), file: shown(job, &path) });
        }
        spans.push(Span { path, kind, there, real, offset: 0, len: 0, extend: false });
    }
    let mut free = 0;
    if spec.fill_device {
        // Of files on several file systems each is written until its own is full.
        for span in &spans {
            let space = tree.space_at(&span.path).await;
            let space = space.map_err(|source| FioError::Tree { job: job.name.clone(), source })?;
            free = free.max(space.free.bytes());
        }
        free += spans.iter().map(|span| span.real).sum::<u64>();
    }
    settle(job, spans, free, prng)
}

/// What is used of each file: fio's rules.
fn settle(job: &Job, mut spans: Vec<Span>, free: u64, prng: &mut Prng) -> Result<Files, FioError> {
    let spec = &job.spec;
    let job_name = || job.name.clone();
    let first = || spans.first().map_or(String::new(), |span| shown(job, &span.path));
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
        let beyond = || FioError::OffsetBeyond { job: job_name(), file: shown(job, &span.path) };
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
                let mut size = low;
                if low < high {
                    size += prng.below(high - low);
                    size -= size % block;
                }
                size.checked_sub(span.offset).ok_or_else(beyond)?
            }
            Some(_) => span.real.checked_sub(span.offset).ok_or_else(beyond)?,
        };
        if let Extent::Percent(percent) = spec.size
            && percent != 100
        {
            span.len = share_of(span.len + span.offset, percent).min(span.len);
            span.len -= span.len % block;
        }
        total = total.saturating_add(match spec.io_size {
            Extent::Percent(percent) => share_of(span.len, percent),
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
    let (wanted, beyond_pass) = match spec.io_size {
        // Without a verification to come fio does not begin them again for this alone.
        Extent::Bytes(size) if size > 0 => (size, spec.verify.after_writing || spec.loops > 1),
        _ => (pass, false),
    };
    Ok(Files { spans, pass, wanted, beyond_pass })
}

/// Where in a file the job begins.
fn start(job: &Job, span: &Span) -> u64 {
    let spec = &job.spec;
    let size = span.real;
    let offset = match spec.offset {
        Extent::Unset => 0,
        Extent::Bytes(offset) => offset,
        Extent::Percent(percent) => share_of(size, percent),
    };
    let increment = match spec.offset_increment {
        Extent::Unset => 0,
        Extent::Bytes(increment) => increment,
        Extent::Percent(percent) => share_of(size, percent),
    };
    let offset = offset.saturating_add(increment.saturating_mul(job.clone));
    let is_share = |extent| matches!(extent, Extent::Percent(percent) if percent > 0);
    if !is_share(spec.offset) && !is_share(spec.offset_increment) {
        return offset;
    }
    let align = if spec.offset_align == 0 { smallest_block(spec) } else { spec.offset_align };
    offset.checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

/// So many per cent of a size.
fn share_of(size: u64, percent: u32) -> u64 {
    let percent = u64::from(percent);
    size / 100 * percent + size % 100 * percent / 100
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
