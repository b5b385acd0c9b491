//! Writing blocks: from bytes to a block pointer.
//!
//! ```text
//!   bytes ── transform: one job ──▶ what is stored ── allocator: places ── vdevs: all copies, side by side ──▶ pointer
//! ```
//!
//! The pointer that comes back is whole but for its fill, which only who knows the block's meaning can tell. What is zeros, or
//! small enough to stand in the pointer, takes no place.
//!
//! **Rewriting.** A block that was born in the same transaction group may be put where it is, if it has kept its length: nobody
//! but that group can refer to it. That is how the passes of a sync come to rest: no new place, so no change of a space map.
//!
//! **Durable** it is after [`Writer::flush`]. Where devices fail, who writes waits (`again`).
//!
//! **Gangs.** A block that finds no place in one piece is written in pieces (`gang`). Until its group is in the pool its division is
//! remembered, so that it can be written again where it is. Who frees one has to know its pieces, which stand in its header on the
//! devices: [`Writer::free`] puts it aside, and [`Writer::free_aside`] frees header and pieces, before space maps are written. Of
//! one whose header can't be read only the header is freed.
//!
//! **What lies on a removed vdev** is freed where it lies now (`removed`).
//!
//! What it doesn't do: gangs of encrypted blocks.
//!
//! Source: OpenZFS, `zio.c` (`zio_write_compress`, `zio_dva_allocate`, `zio_write_gang_block`, `zio_free_gang`), `metaslab.c`
//! (`metaslab_force_ganging`).

mod again;
mod gang;
mod pace;
mod removed;

use self::again::Puts;
use self::gang::{For, Part};
use self::removed::Frees;
use crate::alloc::{Allocator, Class, Clones, Lowered};
use crate::error::BlockErrorKind;
use crate::scrub;
use crate::slop::slop;
use crate::transform::{self, Props, Rounding, Salt, Stored};
use crate::vdev::{IoClass, Tree, WriteAt, WriteError};
use futures_util::future::join_all;
use rt::{Buf, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use stdx::RangeSet;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::block_pointer::{BlockPointer, Dva, Kind};
use zfs_format::compression::Compression;
use zfs_format::gang::{BYTES as HEADER_BYTES, GangHeader, PIECES};
use zfs_format::object_type::ObjectType;

/// Copies of a block at the most.
pub const COPIES_MAX: usize = 3;

/// Why a block was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteBlockError {
    /// There is no room.
    #[error("there is no space left in the pool")]
    NoSpace,
    /// The devices did not take it.
    #[error(transparent)]
    Device(#[from] WriteError),
    /// It can't be made what is to be stored.
    #[error(transparent)]
    Transform(#[from] BlockErrorKind),
}

/// A block that is to be written.
#[derive(Clone)]
pub struct WriteBlock {
    /// Its bytes.
    pub bytes: Buf,
    /// How it is stored.
    pub props: Props,
    /// How many copies.
    pub copies: usize,
    /// What it is, where there is a class for that.
    pub class: Class,
    /// The transaction group.
    pub txg: u64,
    /// Whose writing it is.
    pub io: IoClass,
    /// The pointer that it takes the place of, if it may be written there.
    pub rewrites: Option<BlockPointer>,
}

/// Writes blocks to the vdevs of a pool, and frees them.
#[derive(Clone)]
pub struct Writer(Rc<Shared>);

struct Shared {
    rt: Rt,
    tree: Rc<Tree>,
    allocator: RefCell<Allocator>,
    salt: Cell<Option<Salt>>,
    /// Gangs that were written in groups that are not in the pool, by their first place: group, and how they are divided.
    gangs: RefCell<BTreeMap<[u64; 2], (u64, Part)>>,
    /// Gangs that were freed, whose pieces are not; and what nobody needs that was written outside of a sync.
    aside: RefCell<Vec<BlockPointer>>,
    forced: Cell<Option<Forced>>,
    not_held: Cell<Option<Dva>>,
    clones: RefCell<Clones>,
    frees: Frees,
    puts: Puts,
}

/// Blocks that are written as gangs though there may be room for them.
#[derive(Clone, Copy)]
struct Forced {
    /// Of those that are so long, in bytes.
    least: u64,
    /// Each n-th.
    each: u64,
    count: u64,
}

type Writing<'a> = Pin<Box<dyn Future<Output = Result<(), WriteBlockError>> + 'a>>;

impl Writer {
    /// Writes to these vdevs, into space of this allocator.
    pub fn new(rt: &Rt, tree: Rc<Tree>, allocator: Allocator, salt: Option<Salt>) -> Writer {
        let (allocator, salt) = (RefCell::new(allocator), Cell::new(salt));
        let (gangs, aside, forced, not_held, clones) = Default::default();
        let (frees, puts) = (Frees::new(&tree), Puts::new(rt, &tree));
        let rt = rt.clone();
        Writer(Rc::new(Shared {
            rt,
            tree,
            allocator,
            salt,
            gangs,
            aside,
            forced,
            not_held,
            clones,
            frees,
            puts,
        }))
    }

    /// From here on each n-th of all blocks that are so long is written as a gang, and of their pieces: for tests.
    pub fn force_gangs(&self, least: u64, each: u64) {
        assert!(each > 0, "each n-th is at least each");
        self.0.forced.set(Some(Forced { least, each, count: 0 }));
    }

    fn is_forced(&self, size: u64) -> bool {
        let Some(mut forced) = self.0.forced.get().filter(|forced| size >= forced.least) else {
            return false;
        };
        forced.count += 1;
        self.0.forced.set(Some(forced));
        forced.count.is_multiple_of(forced.each)
    }

    /// The vdevs.
    pub fn tree(&self) -> &Rc<Tree> {
        &self.0.tree
    }

    /// The executor.
    pub fn rt(&self) -> &Rt {
        &self.0.rt
    }

    /// The salt of salted checksums.
    pub fn salt(&self) -> Option<Salt> {
        self.0.salt.get()
    }

    /// From here on the pool has one.
    pub fn set_salt(&self, salt: Salt) {
        self.0.salt.set(Some(salt));
    }

    /// Looks at the space, or changes it; nothing is waited for meanwhile.
    pub fn space<T>(&self, how: impl FnOnce(&mut Allocator) -> T) -> T {
        how(&mut self.0.allocator.borrow_mut())
    }

    /// How space is allocated on the vdevs that there are.
    pub fn rounding(&self) -> Rounding {
        let shifts = self.space(|space| {
            space.vdevs().filter_map(|vdev| self.0.tree.ashift(vdev)).collect::<Vec<_>>()
        });
        let least = shifts.iter().min().copied().unwrap_or(9);
        // Sectors are powers of two, so the smallest divides all.
        Rounding { least: 1 << least, unit: 1 << least }
    }

    /// Whether there is a log device to write to.
    pub fn has_log_device(&self) -> bool {
        let can_be = |vdev| self.0.tree.can_be_written(vdev);
        self.space(|space| space.of_class(Class::Log).any(can_be))
    }

    /// Bytes that are free beyond the [slop](mod@crate::slop), which is kept for what no group can be committed without: metadata,
    /// deletions, and what is wrong with estimates of how much a change takes.
    pub fn unreserved(&self) -> u64 {
        self.beyond_slop(0)
    }

    /// Bytes that are free beyond a share of the slop: that halved so often.
    pub fn beyond_slop(&self, halvings: u32) -> u64 {
        let ((size, free), (log, _)) =
            self.space(|space| (space.sizes(Class::Normal), space.sizes(Class::EmbeddedLog)));
        free.saturating_sub(slop(size, log) >> halvings)
    }

    /// Writes a block. A hole comes back without a birth.
    ///
    /// # Errors
    /// There is no room, or a device does not take it; the space is free again then.
    pub async fn write(&self, block: WriteBlock) -> Result<BlockPointer, WriteBlockError> {
        let written = self.write_while(block, || true).await?;
        Ok(written.expect("it is written whatever comes"))
    }

    /// The same, unless it may not be written any more when it is ready: no place is taken for it then.
    ///
    /// # Errors
    /// As of [`Writer::write`].
    pub async fn write_while(
        &self,
        block: WriteBlock,
        still: impl Fn() -> bool,
    ) -> Result<Option<BlockPointer>, WriteBlockError> {
        let WriteBlock { bytes, props, copies, class, txg, io, rewrites } = block;
        assert!((1..=COPIES_MAX).contains(&copies), "{copies} copies");
        let stored = transform::store(&self.0.rt, props.clone(), bytes).await?;
        let (mut pointer, bytes) = match stored {
            Stored::Hole => return Ok(Some(BlockPointer::HOLE)),
            Stored::Embedded(mut pointer) => {
                pointer.set_logical_birth(txg);
                return Ok(Some(pointer));
            }
            Stored::Bytes(pointer, bytes) => (pointer, bytes),
        };
        if let Some(old) = rewrites.filter(|old| self.is_there(old, &pointer, &props, copies)) {
            return Ok(Some(old));
        }
        if !still() {
            return Ok(None);
        }
        pointer.set_births(txg, txg);
        let size = bytes.len() as u64;
        let part = match rewrites.and_then(|old| self.again(&old, txg, copies, size)) {
            Some(part) => part,
            None => self.take(txg, class, copies, size, props.crypt.is_none())?,
        };
        for (copy, dva) in part.places.iter().enumerate() {
            pointer.set_dva(copy, *dva);
        }
        self.write_part(&pointer, &part, &props, (txg, io), bytes).await?;
        if part.is_gang() {
            self.0.gangs.borrow_mut().insert(pointer.dva(0).words, (txg, part));
        }
        Ok(Some(pointer))
    }

    /// Whether what is to be stored stands where a pointer leads already: by its sum, where that is as good as the bytes. Then nothing
    /// is written (nopwrite), and the block is as old as it was, for snapshots and streams, too.
    ///
    /// Source: OpenZFS, `zio.c` (`zio_nop_write`), `dmu.c` (`dmu_write_policy`).
    fn is_there(
        &self,
        old: &BlockPointer,
        new: &BlockPointer,
        props: &Props,
        copies: usize,
    ) -> bool {
        let is_data = props.level == 0 && !props.object_type.is_metadata();
        let may_be = is_data
            && props.checksum.is_for_no_write()
            && props.compression != Compression::Off
            && props.crypt.is_none();
        let form = |of: &BlockPointer| {
            (of.object_type(), of.level(), of.checksum_function(), of.compression(), of.endian())
        };
        let sizes = |of: &BlockPointer| (of.logical_size(), of.physical_size());
        may_be
            && old.kind() == Kind::Block
            && !old.uses_crypt()
            && form(old) == form(new)
            && sizes(old) == sizes(new)
            && (old.checksum() == new.checksum() || planted::nth(Bug::TakenForTheSame, 5))
            && old.dvas().count() == copies
            // What lies on a vdev that was removed, or is away, gets a place anew.
            && old.dvas().all(|dva| self.0.tree.can_be_written(dva.vdev()))
    }

    /// Where a block is written that takes the place of another, if it may be written there.
    fn again(&self, old: &BlockPointer, txg: u64, copies: usize, size: u64) -> Option<Part> {
        let is_older = old.logical_birth() + 1 == txg;
        let is_fresh = old.logical_birth() == txg;
        let may_be = is_fresh || is_older && planted::nth(Bug::OlderRewritten, 5);
        if !may_be || old.physical_size() != size {
            return None;
        }
        match old.kind() {
            Kind::Gang => {
                let gangs = self.0.gangs.borrow();
                let (_, part) = gangs.get(&old.dva(0).words)?;
                let blocks = |part: &Part| part.places.len() == gang_copies(copies);
                (part.size == size && blocks(part)).then(|| part.clone())
            }
            _ if old.dvas().count() != copies => None,
            _ => Some(Part::whole(size, old.dvas().collect())),
        }
    }

    /// Writes what is stored of a block to the places that it got.
    fn write_part<'a>(
        &'a self,
        pointer: &'a BlockPointer,
        part: &'a Part,
        props: &'a Props,
        (txg, class): (u64, IoClass),
        bytes: Buf,
    ) -> Writing<'a> {
        Box::pin(async move {
            let bytes = match part.is_gang() {
                false => bytes,
                true => self.write_parts(pointer, part, props, (txg, class), bytes).await?,
            };
            let writes = part
                .places
                .iter()
                .map(|dva| self.0.puts.put(WriteAt { dva: *dva, txg, class }, bytes.clone()));
            for written in join_all(writes).await {
                written?;
            }
            Ok(())
        })
    }

    /// Writes the parts of a gang; its header comes back.
    async fn write_parts(
        &self,
        pointer: &BlockPointer,
        part: &Part,
        props: &Props,
        at: (u64, IoClass),
        bytes: Buf,
    ) -> Result<Buf, WriteBlockError> {
        let plain = Props {
            object_type: ObjectType::NONE,
            level: 0,
            compression: Compression::Off,
            embed: false,
            crypt: None,
            ..props.clone()
        };
        let mut pieces = [BlockPointer::HOLE; PIECES];
        let mut contents = Vec::with_capacity(part.parts.len());
        let mut from = 0;
        for (piece, part) in pieces.iter_mut().zip(&part.parts) {
            let to = from + part.size as usize;
            let content = bytes.slice(from..to);
            from = to;
            let stored = transform::store(&self.0.rt, plain.clone(), content).await?;
            let Stored::Bytes(mut pointer, content) = stored else {
                unreachable!("what is neither compressed nor embedded is stored as it is");
            };
            pointer.set_births(at.0, at.0);
            for (copy, dva) in part.places.iter().enumerate() {
                pointer.set_dva(copy, *dva);
            }
            *piece = pointer;
            contents.push(content);
        }
        assert_eq!(from, bytes.len(), "the parts of a gang are all of it");
        let writes = pieces.iter().zip(&part.parts).zip(contents);
        let writes = writes
            .map(|((piece, part), content)| self.write_part(piece, part, &plain, at, content));
        for written in join_all(writes).await {
            written?;
        }
        Ok(Buf::copy_of(&GangHeader { pieces }.encode(pointer, props.endian)))
    }

    /// Makes durable what was written before; waits while the pool is suspended. A leaf that fails misses these groups.
    ///
    /// # Errors
    /// Of a top-level vdev too few devices did it, and the pool is not suspended, or was given up.
    pub async fn flush(&self, txgs: Range<u64>) -> Result<(), WriteError> {
        self.0.puts.flush(txgs).await
    }

    /// Takes a place for one copy of a block that is written later, by [`Writer::fill`]: a block of an intent log has to be
    /// known to the one before it. The pointer has place, sizes and births; the rest is the caller's.
    ///
    /// # Errors
    /// There is no room.
    pub fn reserve(
        &self,
        txg: u64,
        class: Class,
        size: u64,
    ) -> Result<BlockPointer, WriteBlockError> {
        let places = self.allocate(txg, class, 1, size)?;
        let mut pointer = BlockPointer::HOLE;
        pointer.set_sizes(size, size);
        pointer.set_compression(Compression::Off);
        pointer.set_endian(Endian::Little);
        pointer.set_dva(0, places[0]);
        pointer.set_births(txg, txg);
        Ok(pointer)
    }

    /// Writes what belongs in a place that was [reserved](Writer::reserve). Somebody waits for it.
    ///
    /// # Errors
    /// The device does not take it, or the pool is suspended: it does not wait.
    pub async fn fill(
        &self,
        pointer: &BlockPointer,
        txg: u64,
        bytes: Buf,
    ) -> Result<(), WriteBlockError> {
        assert_eq!(bytes.len() as u64, pointer.physical_size(), "a block fills its place");
        let suspension = self.0.tree.suspension();
        if suspension.reason().is_some() || suspension.is_late(self.0.rt.now()) {
            return Err(WriteError::Suspended.into());
        }
        let at = WriteAt { dva: pointer.dva(0), txg, class: IoClass::SyncWrite };
        Ok(self.0.tree.write(&at, bytes).await?)
    }

    fn allocate(
        &self,
        txg: u64,
        class: Class,
        copies: usize,
        size: u64,
    ) -> Result<Vec<Dva>, WriteBlockError> {
        let tree = &self.0.tree;
        let bytes = |vdev| tree.allocated_on(vdev, size, txg);
        let mut allocator = self.0.allocator.borrow_mut();
        // What has no vdev of its own class, or no room there, goes where everything goes.
        for class in class.instead() {
            let may_be = |vdev| *class != Class::Log || tree.can_be_written(vdev);
            let bytes = |vdev| may_be(vdev).then(|| bytes(vdev)).flatten();
            if let Ok(places) = allocator.allocate(txg, *class, copies, bytes) {
                return Ok(places);
            }
        }
        Err(WriteBlockError::NoSpace)
    }

    /// Takes places for a block; where there is none in one piece, for a gang.
    fn take(
        &self,
        txg: u64,
        class: Class,
        copies: usize,
        size: u64,
        may_gang: bool,
    ) -> Result<Part, WriteBlockError> {
        if !may_gang {
            return Ok(Part::whole(size, self.allocate(txg, class, copies, size)?));
        }
        let unit = self.rounding().least;
        let part = Part::take(size, unit, copies, &mut |what, size, copies| match what {
            For::Bytes if size > unit && self.is_forced(size) => None,
            _ => self.allocate(txg, class, copies, size).ok(),
        });
        part.map_err(|taken| {
            let mut allocator = self.0.allocator.borrow_mut();
            taken.iter().for_each(|dva| allocator.give_back(txg, dva));
            WriteBlockError::NoSpace
        })
    }

    /// What of a block's place is its own: all of it, or of a gang its header.
    fn own(&self, dva: &Dva, birth: u64) -> Dva {
        match dva.is_gang() {
            false => *dva,
            true => {
                let header = HEADER_BYTES as u64;
                let (tree, vdev) = (&self.0.tree, dva.vdev());
                // On a removed vdev it took whole sectors.
                let sector = 1 << tree.ashift(vdev).unwrap_or(0);
                let len = tree.allocated_on(vdev, header, birth);
                let len = len.unwrap_or(header.next_multiple_of(sector));
                Dva::new(dva.vdev(), dva.offset(), len, false)
            }
        }
    }

    fn own_places(&self, pointer: &BlockPointer) -> Vec<Dva> {
        pointer.dvas().map(|dva| self.own(&dva, pointer.physical_birth())).collect()
    }

    /// These blocks are named by more pointers than one.
    pub fn set_clones(&self, clones: Clones) {
        *self.0.clones.borrow_mut() = clones;
    }

    /// Which of them are named by fewer now, by vdev and offset: whoever asks writes it down.
    pub fn take_lowered(&self) -> BTreeMap<(u32, u64), Lowered> {
        self.0.clones.borrow_mut().take()
    }

    /// A pointer to a block dies. Says whether others name it.
    fn is_named_yet(&self, pointer: &BlockPointer) -> bool {
        let mut clones = self.0.clones.borrow_mut();
        if clones.is_empty() || pointer.level() > 0 || planted::is(Bug::CloneFreed) {
            return false;
        }
        clones.lower(&pointer.dva(0), self.0.tree.deflated_size(pointer))
    }

    /// Frees the places of a block, unless it was cloned and others name it. A gang's are free with [`Writer::free_aside`]. What is not allocated stays as it is, and is
    /// [told](Writer::not_held) to whoever commits the group.
    pub fn free(&self, pointer: &BlockPointer) {
        if self.is_named_yet(pointer) {
            return;
        }
        if pointer.kind() != Kind::Gang {
            let birth = pointer.physical_birth();
            return pointer.dvas().for_each(|dva| self.free_place(&dva, birth));
        }
        match self.holds(pointer) {
            true => self.0.aside.borrow_mut().push(*pointer),
            false => self.note_not_held(pointer.dva(0)),
        }
    }

    /// Frees a place. A damaged block's may lie in each other, so that each is looked at when its turn comes.
    fn free_place(&self, dva: &Dva, birth: u64) {
        if !self.space(|space| self.0.frees.try_free(space, dva, birth)) {
            self.note_not_held(*dva);
        }
    }

    fn note_not_held(&self, dva: Dva) {
        let first = self.0.not_held.get().unwrap_or(dva);
        self.0.not_held.set(Some(first));
    }

    /// The first place that was to be freed and is not allocated: the pool is damaged, or we err. A group in which that happened
    /// is not to be committed.
    pub fn not_held(&self) -> Option<Dva> {
        self.0.not_held.get()
    }

    /// A place on a removed vdev is named by nobody any more, though its bytes are. Of one that is none nothing is said: what
    /// comes of that is a mapping that stays longer than it need.
    pub fn set_obsolete(&self, dva: &Dva) {
        self.space(|space| self.0.frees.set_obsolete(space, dva));
    }

    /// What nobody names any more, by removed vdev, which whoever asks writes down.
    pub fn take_obsolete(&self) -> BTreeMap<u32, RangeSet> {
        self.0.frees.take_obsolete()
    }

    /// Frees a block with the group that syncs, or the next: for who isn't syncing.
    pub fn free_late(&self, pointer: &BlockPointer) {
        self.0.aside.borrow_mut().push(*pointer);
    }

    /// Frees headers and pieces of the gangs that were freed, and what is to be freed late. Who writes space maps has done this before.
    pub async fn free_aside(&self) {
        loop {
            // Nothing of the list is borrowed while a header is read: others may be freed meanwhile.
            let Some(gang) = self.0.aside.borrow().last().copied() else { return };
            let pieces = self.pieces(&gang).await;
            self.0.aside.borrow_mut().retain(|other| other.dva(0) != gang.dva(0));
            self.0.gangs.borrow_mut().remove(&gang.dva(0).words);
            let places = self.own_places(&gang);
            places.iter().for_each(|dva| self.free_place(dva, gang.physical_birth()));
            for piece in pieces {
                if planted::nth(Bug::PieceLeaked, 7) {
                    continue;
                }
                // A header that was forged may list anything.
                if self.holds(&piece) {
                    self.free(&piece);
                }
            }
        }
    }

    /// What a gang lists: nothing where its header can't be read.
    async fn pieces(&self, gang: &BlockPointer) -> Vec<BlockPointer> {
        scrub::gang_pieces(&self.0.tree, gang).await.unwrap_or_default()
    }

    /// A group is in the pool: what it freed can be used in time, and what it wrote is written.
    pub fn done(&self, txg: u64) {
        self.0.gangs.borrow_mut().retain(|_, (written, _)| *written > txg);
        assert!(self.0.frees.is_at_rest(), "what is obsolete is written down");
        let rates = self.0.puts.rates();
        self.space(|space| {
            space.done(txg);
            space.set_rates(rates);
        });
    }

    /// Takes the places of a block that a log leads to, and that no space map knows: whoever opens the pool after a crash
    /// claims them. Says whether they were free.
    pub async fn claim(&self, txg: u64, pointer: &BlockPointer) -> bool {
        let mut open = vec![*pointer];
        while let Some(pointer) = open.pop() {
            let places = self.own_places(&pointer);
            if !self.space(|space| places.iter().all(|dva| space.claim(txg, dva))) {
                return false;
            }
            if pointer.kind() == Kind::Gang {
                open.extend(self.pieces(&pointer).await);
            }
        }
        true
    }

    /// Whether all places of a block are allocated; of a gang its header's.
    pub fn holds(&self, pointer: &BlockPointer) -> bool {
        let dies = |gang: &BlockPointer| gang.dva(0).words == pointer.dva(0).words;
        if self.0.aside.borrow().iter().any(dies) {
            return false;
        }
        let places = self.own_places(pointer);
        self.space(|space| places.iter().all(|dva| self.0.frees.holds(space, dva)))
    }
}

/// Copies of the header of a gang whose pieces have so many.
fn gang_copies(copies: usize) -> usize {
    (copies + 1).min(COPIES_MAX)
}
