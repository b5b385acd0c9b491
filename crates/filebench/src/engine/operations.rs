//! Flowops that touch files: the same calls in the same order, of the same sizes, as filebench's.
//!
//! A thread has [`DESCRIPTORS`] descriptors. A flowop's is its `fd`, or with `opennext` the next one
//! downwards, or number 0. Reads and writes open a file of their set where the descriptor has none.
//! Places in a file belong to the descriptor, as the system's file offsets do.
//!
//! Known oddities of filebench that are kept, since figures depend on them: `writewholefile` rounds a
//! size above `iosize` up to a multiple of it; sequential writes never go back to the beginning;
//! `deletefile` leaves a file alone that another descriptor has open, and counts no op then.
//!
//! `aiowait` waits until half of what is under way is done, as filebench does on Solaris. On Linux it
//! takes what happens to be done and goes on, so that thousands of writes pile up that were counted
//! and are not written.
//!
//! What filebench overlooks and we don't: a failing fsync or stat is an error and ends the run.

use super::worker::{Called, End, Worker};
use crate::error::FlowopError;
use crate::fileset::prepare::{is_missing, make_directories};
use crate::fileset::{Entry, EntryKind, Fileset, Picked, Release, Want, Which};
use crate::limits::IO_BYTES_MAX;
use crate::plan::{DESCRIPTORS, Flowop, FlowopKind, Number};
use rt::file_tree::TreeErrorKind;
use rt::{Buf, BufMut, FileRef, OpenHow, Request};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset};

/// Writes of one thread that may be under way: filebench's. `aiowrite` waits beyond.
const WRITES_MAX: u64 = 4096;

/// What `listdir` counts for an entry beside its name: C's `struct dirent` without the byte for the
/// end of the name.
const ENTRY_BYTES: u64 = 279;

/// The entries `.` and `..`, which a tree does not list and filebench counts.
const DOT_BYTES: u64 = 2 * ENTRY_BYTES + 3;

/// Whose round a pick goes on with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// The set's, which all threads share.
    Shared,
    /// The thread's.
    Own,
}

impl Worker {
    /// Carries out one call of a flowop.
    pub(super) async fn call(&mut self, flowop: &Flowop) -> Called {
        use FlowopKind as K;
        match flowop.kind {
            K::Read => self.read(flowop).await,
            K::Write => self.write(flowop).await,
            K::ReadWholeFile => self.read_whole_file(flowop).await,
            K::WriteWholeFile => self.write_whole_file(flowop).await,
            K::AppendFile => {
                let size = self.number(flowop.iosize);
                self.append(flowop, size).await
            }
            K::AppendFileRand => self.append_random(flowop).await,
            K::AioWrite => self.aio_write(flowop).await,
            K::AioWait => self.aio_wait(flowop).await,
            K::OpenFile => {
                let descriptor = self.descriptor(flowop);
                self.open(flowop, descriptor).await
            }
            K::CreateFile => self.create_file(flowop).await,
            K::CloseFile => self.close_file(flowop).await,
            K::DeleteFile => self.delete_file(flowop).await,
            K::StatFile => self.stat_file(flowop).await,
            K::Fsync => self.fsync(flowop).await,
            K::FsyncSet => self.fsync_set(flowop).await,
            K::MakeDir => self.make_directory(flowop).await,
            K::RemoveDir => self.remove_directory(flowop).await,
            K::ListDir => self.list_directory(flowop).await,
            K::Block => self.block(flowop).await,
            K::Wakeup => self.wakeup(flowop),
            K::SemBlock => self.sem_block(flowop).await,
            K::SemPost => self.sem_post(flowop).await,
            K::Hog => self.hog(flowop).await,
            K::Delay => self.delay(flowop).await,
            K::EventLimit => self.event_limit(flowop).await,
            K::BwLimit | K::IopsLimit | K::OpsLimit => self.limit(flowop).await,
            K::FinishOnCount | K::FinishOnBytes => self.finish(flowop),
            K::Print => self.print(flowop),
            K::TestRandVar => self.test_random(flowop),
            // Unfolded by the caller.
            K::Composite => Ok(()),
        }
    }

    fn now(&self) -> Instant {
        self.place.rt.now()
    }

    fn descriptor(&mut self, flowop: &Flowop) -> usize {
        if flowop.descriptor > 0 || !flowop.open_next {
            return flowop.descriptor;
        }
        // filebench's rotor leaves out the last descriptor.
        self.turn = if self.turn == 0 { DESCRIPTORS - 2 } else { self.turn - 1 };
        self.turn
    }

    fn open_file(&self, flowop: &Flowop, descriptor: usize) -> Result<FileRef, End> {
        match self.descriptors.get(descriptor).and_then(|slot| slot.file.clone()) {
            Some(file) => Ok(file),
            None => Err(self.wrong(flowop, FlowopError::Closed(descriptor))),
        }
    }

    fn entry_of(&self, descriptor: usize) -> Option<(usize, Entry)> {
        self.descriptors.get(descriptor).and_then(|slot| slot.entry)
    }

    /// Picks one of the flowop's set, and waits where all that fit are busy.
    async fn pick(
        &mut self,
        flowop: &Flowop,
        kind: EntryKind,
        want: Want,
        round: Round,
    ) -> Result<(usize, Arc<Fileset>, Entry), End> {
        let (number, set) = self.fileset(flowop)?;
        let index = match flowop.index {
            // Directories are listed in turn, whatever the flowop says.
            Some(index) if kind != EntryKind::Directory => Some(self.index(&set, kind, index)),
            _ => None,
        };
        loop {
            let mut released = pin!(set.released.notified());
            released.as_mut().enable();
            let which = match (index, self.rotors.get(number)) {
                (Some(index), _) => Which::Number(index),
                (None, Some(rotor)) if round == Round::Own => Which::NextOf(rotor),
                _ => Which::Next,
            };
            match set.pick(kind, want, which) {
                Picked::Entry(entry) => {
                    return Ok((number, Arc::clone(&set), entry));
                }
                Picked::None => return Err(End::NothingLeft(Arc::clone(&flowop.name))),
                Picked::Busy => {}
            }
            if !self.ending().wait(released).await {
                return Err(End::RunOver);
            }
        }
    }

    /// `indexed`: the number of a file, or a share of the leaf directories, as filebench has it.
    fn index(&mut self, set: &Fileset, kind: EntryKind, index: Number) -> Entry {
        let drawn = self.float(index).max(0.0);
        let (place, count) = match kind {
            EntryKind::LeafDirectory => (drawn * (set.leaves() / 2) as f64, set.leaves()),
            _ => (drawn, set.files()),
        };
        (place as u64 % count.max(1) as u64) as Entry
    }

    fn how(&self, flowop: &Flowop, set: &Fileset) -> OpenHow {
        OpenHow {
            write: !set.plan.read_only,
            direct: flowop.direct,
            durable_writes: flowop.durable,
            random: flowop.no_read_ahead,
            ..OpenHow::default()
        }
    }

    /// Opens a file of the flowop's set on a descriptor that has none; counts one op.
    async fn open(&mut self, flowop: &Flowop, descriptor: usize) -> Called {
        self.check_free(flowop, descriptor)?;
        let round = if flowop.open_next { Round::Own } else { Round::Shared };
        let (number, set, entry) =
            self.pick(flowop, EntryKind::File, Want::Existing, round).await?;
        let (path, how) = (set.path_of(EntryKind::File, entry), self.how(flowop, &set));
        let begin = self.now();
        let opened = self.place.tree.open(&path, how).await;
        let release = Release { opens: i32::from(opened.is_ok()), ..Release::default() };
        set.release(EntryKind::File, entry, release);
        let file = opened.map_err(|error| self.failed(flowop, error))?;
        self.count(flowop, begin, Duration::ZERO, 0);
        self.keep(descriptor, file, (number, entry));
        Ok(())
    }

    fn check_free(&self, flowop: &Flowop, descriptor: usize) -> Called {
        match self.descriptors.get(descriptor).is_some_and(|slot| slot.file.is_some()) {
            true => Err(self.wrong(flowop, FlowopError::Open(descriptor))),
            false => Ok(()),
        }
    }

    fn keep(&mut self, descriptor: usize, file: FileRef, entry: (usize, Entry)) {
        if let Some(slot) = self.descriptors.get_mut(descriptor) {
            (slot.file, slot.entry, slot.position) = (Some(file), Some(entry), 0);
        }
    }

    async fn create_file(&mut self, flowop: &Flowop) -> Called {
        let descriptor = self.descriptor(flowop);
        self.check_free(flowop, descriptor)?;
        let (number, set, entry) =
            self.pick(flowop, EntryKind::File, Want::Missing, Round::Shared).await?;
        let path = set.path_of(EntryKind::File, entry);
        let how = OpenHow { create: true, ..self.how(flowop, &set) };
        let begin = self.now();
        let tree = Rc::clone(&self.place.tree);
        let mut opened = tree.open(&path, how).await;
        if let (Err(error), Some(parent)) = (&opened, path.parent())
            && is_missing(error)
        {
            opened = match make_directories(&*tree, parent).await {
                Ok(()) => tree.open(&path, how).await,
                Err(error) => Err(error),
            };
        }
        let there = opened.is_ok();
        let release =
            Release { exists: there.then_some(true), opens: there.into(), closes_all: false };
        set.release(EntryKind::File, entry, release);
        let file = opened.map_err(|error| self.failed(flowop, error))?;
        self.count(flowop, begin, Duration::ZERO, 0);
        self.keep(descriptor, file, (number, entry));
        Ok(())
    }

    /// Makes a file busy that the thread knows, waiting until it can.
    async fn seize(&self, set: &Fileset, entry: Entry) -> Called {
        loop {
            let mut released = pin!(set.released.notified());
            released.as_mut().enable();
            if set.seize(EntryKind::File, entry) != Picked::Busy {
                return Ok(());
            }
            if !self.ending().wait(released).await {
                return Err(End::RunOver);
            }
        }
    }

    async fn close_file(&mut self, flowop: &Flowop) -> Called {
        let descriptor = self.descriptor(flowop);
        let file = self.open_file(flowop, descriptor)?;
        let set = self
            .entry_of(descriptor)
            .and_then(|(set, entry)| Some((Arc::clone(self.run.filesets.get(set)?), entry)));
        if let Some((set, entry)) = &set {
            self.seize(set, *entry).await?;
        }
        let begin = self.now();
        if let Some(slot) = self.descriptors.get_mut(descriptor) {
            slot.file = None;
        }
        drop(file);
        self.count(flowop, begin, Duration::ZERO, 0);
        if let Some((set, entry)) = set {
            set.release(EntryKind::File, entry, Release { opens: -1, ..Release::default() });
        }
        Ok(())
    }

    async fn delete_file(&mut self, flowop: &Flowop) -> Called {
        let descriptor = self.descriptor(flowop);
        let known = match descriptor {
            0 => None,
            _ => self.descriptors.get_mut(descriptor).and_then(|slot| slot.entry.take()),
        };
        let mine = descriptor > 0
            && self.descriptors.get(descriptor).is_some_and(|slot| slot.file.is_some());
        let known =
            known.and_then(|(set, entry)| Some((Arc::clone(self.run.filesets.get(set)?), entry)));
        let (set, entry) = match known {
            Some((set, entry)) => {
                self.seize(&set, entry).await?;
                (set, entry)
            }
            None => {
                let (_, set, entry) =
                    self.pick(flowop, EntryKind::File, Want::Existing, Round::Shared).await?;
                (set, entry)
            }
        };
        if set.opens(entry) > u32::from(mine) {
            set.release(EntryKind::File, entry, Release::default());
            return Ok(());
        }
        let path = set.path_of(EntryKind::File, entry);
        let begin = self.now();
        let removed = self.place.tree.remove_file(&path).await;
        self.count(flowop, begin, Duration::ZERO, 0);
        let release = Release { exists: Some(false), opens: 0, closes_all: true };
        set.release(EntryKind::File, entry, release);
        match removed {
            // It was removed through another descriptor before.
            Err(error) if !is_missing(&error) => Err(self.failed(flowop, error)),
            _ => Ok(()),
        }
    }

    async fn stat_file(&mut self, flowop: &Flowop) -> Called {
        let descriptor = self.descriptor(flowop);
        let open = self.descriptors.get(descriptor).and_then(|slot| slot.file.clone());
        let begin;
        let looked = match open.filter(|_| descriptor > 0) {
            Some(file) => {
                begin = self.now();
                file.status().await
            }
            None => {
                let (_, set, entry) =
                    self.pick(flowop, EntryKind::File, Want::Existing, Round::Shared).await?;
                let path = set.path_of(EntryKind::File, entry);
                begin = self.now();
                let looked = self.place.tree.status(&path).await;
                set.release(EntryKind::File, entry, Release::default());
                looked
            }
        };
        self.count(flowop, begin, Duration::ZERO, 0);
        looked.map(|_| ()).map_err(|error| self.failed(flowop, error))
    }

    async fn fsync(&mut self, flowop: &Flowop) -> Called {
        let descriptor = self.descriptor(flowop);
        let file = self.open_file(flowop, descriptor)?;
        let begin = self.now();
        let synced = file.sync().await;
        self.count(flowop, begin, Duration::ZERO, 0);
        synced.map_err(|error| self.failed(flowop, error))
    }

    async fn fsync_set(&mut self, flowop: &Flowop) -> Called {
        for descriptor in 0..DESCRIPTORS - 1 {
            let of_set = |slot: &super::worker::Descriptor| {
                let (set, _) = slot.entry?;
                slot.file.clone().filter(|_| Some(set) == flowop.fileset)
            };
            let Some(file) = self.descriptors.get(descriptor).and_then(of_set) else { continue };
            let begin = self.now();
            let synced = file.sync().await;
            self.count(flowop, begin, Duration::ZERO, 0);
            synced.map_err(|error| self.failed(flowop, error))?;
        }
        Ok(())
    }

    async fn make_directory(&mut self, flowop: &Flowop) -> Called {
        let kind = EntryKind::LeafDirectory;
        let (_, set, entry) = self.pick(flowop, kind, Want::Missing, Round::Shared).await?;
        let path = set.path_of(kind, entry);
        let begin = self.now();
        let made = self.place.tree.create_directory(&path).await;
        self.count(flowop, begin, Duration::ZERO, 0);
        set.release(kind, entry, Release { exists: Some(true), ..Release::default() });
        match made {
            Err(error) if error.kind != TreeErrorKind::Exists => Err(self.failed(flowop, error)),
            _ => Ok(()),
        }
    }

    async fn remove_directory(&mut self, flowop: &Flowop) -> Called {
        let kind = EntryKind::LeafDirectory;
        let (_, set, entry) = self.pick(flowop, kind, Want::Existing, Round::Shared).await?;
        let path = set.path_of(kind, entry);
        let begin = self.now();
        let removed = self.place.tree.remove_directory(&path).await;
        self.count(flowop, begin, Duration::ZERO, 0);
        set.release(kind, entry, Release { exists: Some(false), ..Release::default() });
        match removed {
            Err(error) if !is_missing(&error) => Err(self.failed(flowop, error)),
            _ => Ok(()),
        }
    }

    async fn list_directory(&mut self, flowop: &Flowop) -> Called {
        let (_, set) = self.fileset(flowop)?;
        let picked = match set.directories() {
            0 => return Err(self.wrong(flowop, FlowopError::NoDirectory)),
            _ => self.pick(flowop, EntryKind::Directory, Want::Existing, Round::Shared).await?,
        };
        let path = set.path_of(EntryKind::Directory, picked.2);
        let begin = self.now();
        let listed = self.place.tree.list(&path).await;
        let names = |entries: &Vec<rt::DirectoryEntry>| {
            let name = |entry: &rt::DirectoryEntry| entry.name.as_os_str().len() as u64;
            entries.iter().map(|entry| name(entry) + ENTRY_BYTES).sum::<u64>() + DOT_BYTES
        };
        let bytes = listed.as_ref().map_or(0, names);
        self.count(flowop, begin, Duration::ZERO, bytes);
        set.release(EntryKind::Directory, picked.2, Release::default());
        listed.map(|_| ()).map_err(|error| self.failed(flowop, error))
    }

    /// The flowop's open file, opened where there is none, and the bytes that random places are in.
    async fn file_for_io(&mut self, flowop: &Flowop) -> Result<(usize, FileRef, u64), End> {
        let descriptor = self.descriptor(flowop);
        if let (true, Some((set, _)), Some(named)) =
            (descriptor > 0, self.entry_of(descriptor), flowop.fileset)
            && set != named
        {
            return Err(self.wrong(flowop, FlowopError::OtherFileset(descriptor)));
        }
        if self.descriptors.get(descriptor).is_none_or(|slot| slot.file.is_none()) {
            self.open(flowop, descriptor).await?;
        }
        let file = self.open_file(flowop, descriptor)?;
        let working_set = match self.kept.get(flowop.slot).map_or(0, |kept| kept.working_set) {
            0 => self.size_on(descriptor).unwrap_or(0),
            bytes => bytes,
        };
        Ok((descriptor, file, working_set))
    }

    /// The size that the set gave the descriptor's file.
    fn size_on(&self, descriptor: usize) -> Option<u64> {
        let (set, entry) = self.entry_of(descriptor)?;
        Some(self.run.filesets.get(set)?.size_of(entry))
    }

    fn check_size(&self, flowop: &Flowop, size: u64) -> Called {
        match size {
            0 => Err(self.wrong(flowop, FlowopError::ZeroSize)),
            size if size > IO_BYTES_MAX => Err(self.wrong(flowop, FlowopError::HugeSize(size))),
            _ => Ok(()),
        }
    }

    /// A random place for `size` bytes: a multiple of `size`.
    fn random_place(&mut self, flowop: &Flowop, working_set: u64, size: u64) -> Result<u64, End> {
        match working_set.checked_sub(size) {
            Some(last) => Ok(self.prng.below(last.saturating_add(1)) / size * size),
            None => Err(self.wrong(flowop, FlowopError::SmallFile { iosize: size, working_set })),
        }
    }

    fn set_position(&mut self, descriptor: usize, position: u64) {
        if let Some(slot) = self.descriptors.get_mut(descriptor) {
            slot.position = position;
        }
    }

    /// Reads into the thread's memory where the tree can, as a program does; how much came.
    async fn read_at(
        &mut self,
        flowop: &Flowop,
        file: &FileRef,
        at: u64,
        size: u64,
    ) -> Result<u64, End> {
        let len = ByteCount(size).as_usize();
        if self.memory.len() < len {
            self.memory = BufMut::for_overwrite(len);
        }
        let read = match file.read_at_once(Offset(at), &mut self.memory[..len]) {
            Some(read) => read,
            None => {
                let read = file.submit(Request::read(Offset(at), ByteCount(size))).await;
                read.map(|data| data.len())
            }
        };
        read.map(|bytes| bytes as u64).map_err(|error| self.failed(flowop, error))
    }

    async fn write_at(&mut self, flowop: &Flowop, file: &FileRef, at: u64, data: Buf) -> Called {
        // A word repeated is for devices that don't look; to lay it out would cost what it saves.
        let at_once = match data.fill_word() {
            None => file.write_at_once(Offset(at), data.bytes()),
            Some(_) => None,
        };
        let written = match at_once {
            Some(written) => written,
            None => file.submit(Request::write(Offset(at), data)).await.map(|_| ()),
        };
        written.map_err(|error| self.failed(flowop, error))
    }

    async fn read(&mut self, flowop: &Flowop) -> Called {
        let size = self.number(flowop.iosize);
        let (descriptor, file, working_set) = self.file_for_io(flowop).await?;
        self.check_size(flowop, size)?;
        let at = match flowop.random {
            true => self.random_place(flowop, working_set, size)?,
            false => self.descriptors.get(descriptor).map_or(0, |slot| slot.position),
        };
        let begin = self.now();
        let bytes = self.read_at(flowop, &file, at, size).await?;
        self.count(flowop, begin, Duration::ZERO, bytes);
        // At the end of the file it begins again with the next one.
        match (bytes, flowop.random) {
            (0, _) => self.set_position(descriptor, 0),
            (_, false) => self.set_position(descriptor, at.saturating_add(bytes)),
            _ => {}
        }
        Ok(())
    }

    async fn write(&mut self, flowop: &Flowop) -> Called {
        let size = self.number(flowop.iosize);
        let (descriptor, file, working_set) = self.file_for_io(flowop).await?;
        self.check_size(flowop, size)?;
        let at = match flowop.random {
            true => self.random_place(flowop, working_set, size)?,
            false => self.descriptors.get(descriptor).map_or(0, |slot| slot.position),
        };
        let data = self.source.next(size as usize);
        let begin = self.now();
        self.write_at(flowop, &file, at, data).await?;
        self.count(flowop, begin, Duration::ZERO, size);
        if !flowop.random {
            self.set_position(descriptor, at.saturating_add(size));
        }
        Ok(())
    }

    async fn read_whole_file(&mut self, flowop: &Flowop) -> Called {
        let (descriptor, file, working_set) = self.file_for_io(flowop).await?;
        let size = match self.number(flowop.iosize) {
            0 => working_set.min(IO_BYTES_MAX),
            size => size,
        };
        let begin = self.now();
        let mut at = 0u64;
        // Until nothing comes; without a size there is nothing to ask for.
        if size > 0 {
            self.check_size(flowop, size)?;
            loop {
                let bytes = self.read_at(flowop, &file, at, size).await?;
                if bytes == 0 || self.ending().is_over() {
                    break;
                }
                at = at.saturating_add(bytes);
            }
        }
        self.count(flowop, begin, Duration::ZERO, at);
        self.set_position(descriptor, at);
        Ok(())
    }

    async fn write_whole_file(&mut self, flowop: &Flowop) -> Called {
        let (descriptor, file, working_set) = self.file_for_io(flowop).await?;
        let size = match self.number(flowop.iosize) {
            0 => working_set.min(IO_BYTES_MAX),
            size => size,
        };
        let wanted = match (self.size_on(flowop.source_descriptor), flowop.source_descriptor) {
            (Some(bytes), _) => bytes,
            (None, 0) => working_set,
            (None, source) => return Err(self.wrong(flowop, FlowopError::NoSource(source))),
        };
        let mut at = self.descriptors.get(descriptor).map_or(0, |slot| slot.position);
        let begin = self.now();
        let (mut done, mut bytes, mut untimed) = (0u64, 0u64, Duration::ZERO);
        let mut next = wanted.min(size);
        while done < wanted && next > 0 && !self.ending().is_over() {
            self.check_size(flowop, next)?;
            let making = self.now();
            let data = self.source.next(next as usize);
            untimed += self.now() - making;
            self.write_at(flowop, &file, at, data).await?;
            at = at.saturating_add(next);
            bytes += next;
            // filebench reckons what is left before it counts what it wrote.
            let left = wanted - done;
            next = left.min(size);
            done = done.saturating_add(next);
        }
        self.count(flowop, begin, untimed, bytes);
        self.set_position(descriptor, at);
        Ok(())
    }

    async fn append_random(&mut self, flowop: &Flowop) -> Called {
        let most = self.number(flowop.iosize);
        self.check_size(flowop, most)?;
        match self.prng.below(most) {
            0 => {
                let begin = self.now();
                self.count(flowop, begin, Duration::ZERO, 0);
                Ok(())
            }
            size => self.append(flowop, size).await,
        }
    }

    async fn append(&mut self, flowop: &Flowop, size: u64) -> Called {
        let (descriptor, file, _) = self.file_for_io(flowop).await?;
        self.check_size(flowop, size)?;
        let data = self.source.next(size as usize);
        let begin = self.now();
        let end = file.status().await.map_err(|error| self.failed(flowop, error))?.size;
        self.write_at(flowop, &file, end.bytes(), data).await?;
        self.count(flowop, begin, Duration::ZERO, size);
        self.set_position(descriptor, end.bytes().saturating_add(size));
        Ok(())
    }

    async fn aio_write(&mut self, flowop: &Flowop) -> Called {
        let size = self.number(flowop.iosize);
        let (_, file, working_set) = self.file_for_io(flowop).await?;
        self.check_size(flowop, size)?;
        if self.writes.borrow().outstanding >= WRITES_MAX {
            self.collect(flowop, 1).await?;
        }
        let at = self.random_place(flowop, working_set, size)?;
        let data = self.source.next(size as usize);
        let begin = self.now();
        let mut write = file.submit(Request::write(Offset(at), data));
        let first = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut write).poll(context)));
        match first.await {
            Poll::Ready(written) => {
                written.map_err(|error| self.failed(flowop, error))?;
                let mut writes = self.writes.borrow_mut();
                writes.outstanding += 1;
                writes.done += 1;
            }
            Poll::Pending => {
                self.writes.borrow_mut().outstanding += 1;
                let (writes, told) = (Rc::clone(&self.writes), Rc::clone(&self.written));
                let ends = async move {
                    // The file stays open as long as it is written.
                    let (written, _file) = (write.await, file);
                    let mut writes = writes.borrow_mut();
                    writes.done += 1;
                    writes.failed = writes.failed.take().or(written.err());
                    drop(writes);
                    told.notify_one();
                };
                self.place.rt.spawn(ends).detach();
            }
        }
        self.count(flowop, begin, Duration::ZERO, size);
        Ok(())
    }

    /// Waits until half of what is under way is done, one write at least, and takes all that is.
    async fn aio_wait(&mut self, flowop: &Flowop) -> Called {
        let begin = self.now();
        let half = self.writes.borrow().outstanding.div_ceil(2);
        self.collect(flowop, half).await?;
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    /// Waits until so many writes are done, and takes all that are.
    async fn collect(&mut self, flowop: &Flowop, wanted: u64) -> Called {
        // Completions that are there need a turn of the runtime to be taken.
        self.place.rt.yield_now().await;
        while self.writes.borrow().done < wanted {
            if !self.ending().wait(self.written.notified()).await {
                return Err(End::RunOver);
            }
        }
        let failed = {
            let mut writes = self.writes.borrow_mut();
            writes.outstanding -= writes.done;
            writes.done = 0;
            writes.failed.take()
        };
        match failed {
            Some(error) => Err(self.failed(flowop, error)),
            None => Ok(()),
        }
    }
}
