//! The open files of a job: opened when the first I/O goes to them, as many at a time as `openfiles`
//! allows, closed in the order of opening.
//!
//! Opening does what fio's `td_io_open_file` does: direct and durable as the job says, created where the
//! job writes, what memory holds of it dropped (`invalidate`), advice given (`fadvise_hint`).

use super::files::Files;
use super::spec::{Engine, Spec};
use rt::{FileKind, FileRef, IoFuture, OpenHow, Request, SgList, TreeError, TreeRef};
use std::collections::VecDeque;
use std::path::PathBuf;
use workload::io_failure::IoFailure;

/// Files of one job that are open at a time, where it names no smaller number. A process may have 1024
/// as a rule.
const OPEN_MAX: u64 = 512;

struct Entry {
    path: PathBuf,
    kind: FileKind,
    file: Option<FileRef>,
}

/// See the [module](self).
pub(super) struct OpenFiles {
    entries: Vec<Entry>,
    order: VecDeque<usize>,
    limit: usize,
    last: usize,
    null: bool,
}

impl OpenFiles {
    pub(super) fn new(spec: &Spec, files: &Files) -> OpenFiles {
        let entry = |span: &super::files::Span| Entry {
            path: span.path.clone(),
            kind: span.kind,
            file: None,
        };
        let limit = match spec.openfiles {
            0 => OPEN_MAX,
            wished => wished.min(OPEN_MAX),
        };
        OpenFiles {
            entries: files.spans.iter().map(entry).collect(),
            order: VecDeque::new(),
            limit: limit as usize,
            last: 0,
            null: spec.engine == Engine::Null,
        }
    }

    pub(super) fn is_open(&self, at: usize) -> bool {
        self.null || self.entries.get(at).is_some_and(|entry| entry.file.is_some())
    }

    /// Whether another must be closed before one is opened.
    pub(super) fn is_full(&self) -> bool {
        self.order.len() >= self.limit
    }

    pub(super) fn name(&self, at: usize) -> String {
        self.entries.get(at).map_or(String::new(), |entry| entry.path.display().to_string())
    }

    pub(super) async fn open(
        &mut self,
        tree: &TreeRef,
        spec: &Spec,
        at: usize,
    ) -> Result<(), TreeError> {
        while self.is_full() {
            let Some(oldest) = self.order.pop_front() else { break };
            self.close(oldest, spec).await?;
        }
        let Some(entry) = self.entries.get_mut(at) else { return Ok(()) };
        let mode = spec.mode;
        let plain = entry.kind == FileKind::File;
        let advise = spec.advise_random.unwrap_or(mode.random);
        let how = OpenHow {
            write: mode.write || mode.trim,
            create: plain && spec.allow_create && mode.write,
            direct: spec.direct && (mode.read || mode.write),
            durable_writes: spec.durable_writes,
            random: advise,
            ..OpenHow::default()
        };
        let file = tree.open(&entry.path, how).await?;
        if spec.invalidate && entry.kind != FileKind::Other {
            // A wish: what can't be dropped stays, as in fio, which goes on with a warning.
            let _ = file.drop_cache().await;
        }
        entry.file = Some(file);
        self.order.push_back(at);
        Ok(())
    }

    /// Submits to an open file.
    pub(super) fn submit(&self, at: usize, request: Request) -> IoFuture {
        match self.entries.get(at).and_then(|entry| entry.file.as_ref()) {
            Some(file) => file.submit(request),
            // The null engine opens nothing.
            None => IoFuture::ready(Ok(SgList::new())),
        }
    }

    /// Remembers which file was written last: a sync goes there.
    pub(super) fn touch(&mut self, at: usize) {
        self.last = at;
    }

    /// `fsync` or `fdatasync` of the file that was written last.
    pub(super) async fn sync_current(&self, data_only: bool) -> Result<(), IoFailure> {
        let Some(file) = self.entries.get(self.last).and_then(|entry| entry.file.clone()) else {
            return Ok(());
        };
        if data_only {
            file.submit(Request::flush()).await?;
        } else {
            file.sync().await?;
        }
        Ok(())
    }

    pub(super) async fn sync_all(&self) -> Result<(), TreeError> {
        for at in &self.order {
            if let Some(file) = self.entries.get(*at).and_then(|entry| entry.file.clone()) {
                file.sync().await?;
            }
        }
        Ok(())
    }

    /// Drops what memory holds of a file.
    pub(super) async fn drop_cache(&self, at: usize) {
        if let Some(file) = self.entries.get(at).and_then(|entry| entry.file.clone()) {
            let _ = file.drop_cache().await;
        }
    }

    async fn close(&mut self, at: usize, spec: &Spec) -> Result<(), TreeError> {
        let Some(file) = self.entries.get_mut(at).and_then(|entry| entry.file.take()) else {
            return Ok(());
        };
        if spec.syncs.on_close && spec.mode.write {
            file.sync().await?;
        }
        Ok(())
    }

    pub(super) async fn close_all(&mut self, spec: &Spec) -> Result<(), TreeError> {
        while let Some(oldest) = self.order.pop_front() {
            self.close(oldest, spec).await?;
        }
        Ok(())
    }
}
