//! Bringing a fileset's files into being, and removing them.
//!
//! **Order**, as filebench's: what lies at the set's place is removed, unless it is to be used again;
//! directories are made from the root down; the files that are to be there are written in a random
//! order, a mebibyte at a time, one by one or, with `paralloc`, [`PARALLEL_MAX`] at once. A file that is
//! used again is kept where it has its size, cut where it is longer, and written anew where it is
//! shorter.
//!
//! Nothing outside the set's place is touched. What is no file and no directory there (a link, a
//! socket) is removed as a file is, never followed.

use super::{Entry, EntryKind, Fileset};
use crate::error::FilebenchError;
use rt::file_tree::TreeErrorKind;
use rt::{FileKind, FileTree, OpenHow, Request, TreeError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stdx::{ByteCount, Offset, Prng};
use workload::content::{Content, Source};
use workload::crew::{Calls, Crew, Place, start};
use workload::io_failure::IoFailure;

/// Files that are written at once with `paralloc`: filebench's.
const PARALLEL_MAX: usize = 32;

/// Bytes of one write: filebench's.
const WRITE: u64 = 1 << 20;

/// How far the preparation is. The counters may be read at any time.
#[derive(Debug, Default)]
pub struct Preparation {
    /// Files that are to be written in this set.
    pub files: AtomicU64,
    /// Files that are.
    pub files_done: AtomicU64,
    /// Bytes that are written.
    pub bytes_done: AtomicU64,
}

/// What is said while a set is prepared.
pub(crate) trait Say {
    fn say(&self, text: String);
}

impl Fileset {
    fn failed(&self, source: impl Into<IoFailure>) -> FilebenchError {
        FilebenchError::Prepare { fileset: Arc::clone(&self.plan.name), source: source.into() }
    }

    /// Brings the set into being. See the [module](self).
    pub(crate) async fn create(
        self: &Arc<Fileset>,
        crew: &dyn Crew,
        content: &Content,
        seed: u64,
        stop: &Arc<AtomicBool>,
        progress: &Arc<Preparation>,
        say: &dyn Say,
    ) -> Result<(), FilebenchError> {
        let tree = crew.place().tree;
        let name = &self.plan.name;
        tree.check_no_link(&self.plan.root).await.map_err(|error| self.failed(error))?;
        let there = match tree.status(&self.plan.root).await {
            Ok(status) => Some(status.kind),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(self.failed(error)),
        };
        if there == Some(FileKind::BlockDevice) {
            return Err(FilebenchError::BlockDevice { fileset: Arc::clone(name) });
        }
        let reusing = self.plan.trust || self.plan.reuse && there.is_some();
        if reusing {
            say.say(format!("Reusing existing {name} tree"));
        } else {
            say.say(format!("Removing {name} tree (if exists)"));
            remove_all(&*tree, &self.plan.root).await.map_err(|error| self.failed(error))?;
            say.say(format!("Pre-allocating directories in {name} tree"));
            make_directories(&*tree, &self.plan.root).await.map_err(|error| self.failed(error))?;
            for directory in 1..self.directories() as Entry {
                // Numbers grow from the root down, so the parent is there.
                let path = self.path_of(EntryKind::Directory, directory);
                tree.create_directory(&path).await.map_err(|error| self.failed(error))?;
            }
        }
        say.say(format!("Pre-allocating files in {name} tree"));
        let mut prng = Prng::for_part(seed, &format!("preallocation of {name}"));
        let drawn = self.draw_existing(EntryKind::File, &mut prng);
        let files: Vec<Entry> =
            drawn.into_iter().filter(|(_, there)| *there).map(|(entry, _)| entry).collect();
        progress.files.fetch_add(files.len() as u64, Ordering::Relaxed);
        let filling = Arc::new(Filling {
            set: Arc::clone(self),
            files,
            next: AtomicUsize::new(0),
            reusing,
            failure: Mutex::new(None),
            stop: Arc::clone(stop),
            progress: Arc::clone(progress),
        });
        let parallel = if self.plan.parallel { PARALLEL_MAX.min(filling.files.len()) } else { 0 };
        // The numbers of workers that write during a run begin at 0: these have others.
        let source = |worker: usize| content.source(u64::MAX / 2 - worker as u64);
        if parallel > 1 {
            let mut workers = Vec::new();
            for worker in 0..parallel {
                let (filling, source) = (Arc::clone(&filling), source(worker));
                let name = format!("prepare {worker}");
                workers.push(start(crew, &name, Calls::Blocking, move |place| async move {
                    filling.work(&place, source).await;
                })?);
            }
            for worker in workers {
                worker.await?;
            }
        } else {
            filling.work(&crew.place(), source(0)).await;
        }
        let failure = filling.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(error) = failure {
            return Err(error);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(FilebenchError::Interrupted);
        }
        for (leaf, wanted) in self.draw_existing(EntryKind::LeafDirectory, &mut prng) {
            let path = self.path_of(EntryKind::LeafDirectory, leaf);
            if wanted {
                match tree.create_directory(&path).await {
                    Err(error) if !(reusing && error.kind == TreeErrorKind::Exists) => {
                        return Err(self.failed(error));
                    }
                    _ => self.set_existing(EntryKind::LeafDirectory, leaf, true),
                }
            }
        }
        Ok(())
    }

    /// Removes all of the set.
    pub(crate) async fn remove(&self, tree: &dyn FileTree) -> Result<(), FilebenchError> {
        remove_all(tree, &self.plan.root).await.map_err(|error| self.failed(error))
    }

    /// Lets memory forget all files that are there.
    pub(crate) async fn drop_caches(&self, tree: &dyn FileTree) -> Result<(), FilebenchError> {
        for file in 0..self.files() as Entry {
            let path = self.path_of(EntryKind::File, file);
            let forget = async {
                match tree.open(&path, OpenHow::read()).await {
                    Ok(file) => file.drop_cache().await,
                    Err(error) if is_missing(&error) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            forget.await.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}

/// The files of one set on their way.
struct Filling {
    set: Arc<Fileset>,
    files: Vec<Entry>,
    next: AtomicUsize,
    reusing: bool,
    failure: Mutex<Option<FilebenchError>>,
    stop: Arc<AtomicBool>,
    progress: Arc<Preparation>,
}

impl Filling {
    /// Takes one file after the other, until none is left or something failed.
    async fn work(&self, place: &Place, mut source: Source) {
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = self.files.get(next).copied() else { return };
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Err(error) = self.file(place, &mut source, file).await {
                self.next.store(self.files.len(), Ordering::Relaxed);
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
                return;
            }
            self.set.set_existing(EntryKind::File, file, true);
            self.progress.files_done.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn file(
        &self,
        place: &Place,
        source: &mut Source,
        number: Entry,
    ) -> Result<(), FilebenchError> {
        let (tree, set) = (&*place.tree, &self.set);
        let (path, size) = (set.path_of(EntryKind::File, number), set.size_of(number));
        let failed = |error: TreeError| set.failed(error);
        let there = match self.reusing {
            true if set.plan.trust => Some(size),
            true => match tree.status(&path).await {
                Ok(status) => Some(status.size.bytes()),
                Err(error) if is_missing(&error) => None,
                Err(error) => return Err(failed(error)),
            },
            false => None,
        };
        let file = match there {
            Some(there) if there >= size => {
                let write = !set.plan.read_only;
                let how = OpenHow { write, ..OpenHow::default() };
                let file = tree.open(&path, how).await.map_err(failed)?;
                if there > size && write {
                    file.set_size(ByteCount(size)).await.map_err(failed)?;
                }
                if set.plan.uncached {
                    file.drop_cache().await.map_err(failed)?;
                }
                return Ok(());
            }
            Some(_) => tree.open(&path, OpenHow::write()).await.map_err(failed)?,
            None => {
                let how = OpenHow { truncate: false, ..OpenHow::create() };
                match tree.open(&path, how).await {
                    // The directories of an earlier run may be others.
                    Err(error) if self.reusing && is_missing(&error) => {
                        if let Some(parent) = path.parent() {
                            make_directories(tree, parent).await.map_err(failed)?;
                        }
                        tree.open(&path, how).await.map_err(failed)?
                    }
                    file => file.map_err(failed)?,
                }
            }
        };
        let mut at = 0;
        while at < size && !self.stop.load(Ordering::Relaxed) {
            let len = WRITE.min(size - at);
            let write = Request::write(Offset(at), source.next(len as usize));
            file.submit(write).await.map_err(|error| set.failed(error))?;
            at += len;
            self.progress.bytes_done.fetch_add(len, Ordering::Relaxed);
        }
        if set.plan.uncached {
            file.sync().await.map_err(failed)?;
            file.drop_cache().await.map_err(failed)?;
        }
        Ok(())
    }
}

pub(crate) fn is_missing(error: &TreeError) -> bool {
    matches!(error.kind, TreeErrorKind::NotFound | TreeErrorKind::NotDirectory)
}

/// Makes a directory and those above it, where they are not there.
pub(crate) async fn make_directories(tree: &dyn FileTree, path: &Path) -> Result<(), TreeError> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        match tree.status(ancestor).await {
            Ok(_) => break,
            Err(_) => missing.push(ancestor),
        }
    }
    for directory in missing.into_iter().rev() {
        match tree.create_directory(directory).await {
            // Another worker may have been first.
            Err(error) if error.kind != TreeErrorKind::Exists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes a file, or a directory with all that is in it; nothing where there is none. A link is removed
/// itself, whatever it leads to. The way to the root is known to be [without links].
///
/// [without links]: FileTree::check_no_link
async fn remove_all(tree: &dyn FileTree, root: &Path) -> Result<(), TreeError> {
    match tree.status(root).await {
        Ok(status) if status.kind == FileKind::Directory => {}
        Ok(_) => return tree.remove_file(root).await,
        Err(error) if is_missing(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    // Each directory comes twice: to remove what is in it, and then itself.
    let mut stack: Vec<(PathBuf, bool)> = vec![(root.to_owned(), false)];
    while let Some((path, emptied)) = stack.pop() {
        if emptied {
            tree.remove_directory(&path).await?;
            continue;
        }
        let entries = tree.list(&path).await?;
        stack.push((path.clone(), true));
        for entry in entries {
            let below = path.join(&entry.name);
            match entry.kind {
                FileKind::Directory => stack.push((below, false)),
                _ => tree.remove_file(&below).await?,
            }
        }
    }
    Ok(())
}
