//! From a block pointer to the block: holes, embedded data, copies, gangs; checked, and made what was written.
//!
//! **Order.** The pointer is checked before it is followed. A hole and embedded data need no device. Else the
//! copies are tried in turn, those first whose vdevs are less busy, and the vdev checks what it gives (`vdev`).
//! What is right by its checksum is decrypted and decompressed ([`transform`]); an error there is the same in every copy, so it
//! ends the reading.
//!
//! **Gangs.** Where the pool had no room for a block in one piece, the pointer's places hold a header that lists up
//! to three pieces, each of which may be a gang again. The header carries its own checksum, each piece has one in
//! its pointer, and the gang's pointer has that of all pieces together. A header's pieces are as long together as
//! the gang, none is empty, and depth is bounded (`GANG_DEPTH_MAX`); so a header that somebody forged costs no
//! more than an honest one.
//!
//! **Not cached.** Here nothing is kept: see `arc`. Only holes are known without waiting.
//!
//! Source: OpenZFS, `zio.c`.

use crate::block::{BlockError, BlockErrorKind, BlockFuture, BlockRequest, ReadBlocks};
use crate::expected::Expected;
use crate::transform::{self, Salt};
use crate::vdev::{IoClass, ReadAt, Tree};
use futures_util::future::join_all;
use rt::{Buf, Rt, SgList};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use stdx::ByteCount;
use zfs_format::block_pointer::{BlockPointer, Dva, Kind};
use zfs_format::gang::{self, GangHeader};
use zfs_format::{FormatError, Problem, Record};

/// Headers above each other that a gang may have. With three pieces each, fewer than this make the largest block of
/// the smallest pieces.
pub(crate) const GANG_DEPTH_MAX: usize = 12;

/// Reads blocks from the vdevs of a pool.
#[derive(Clone)]
pub struct Zio {
    shared: Rc<Shared>,
}

struct Shared {
    rt: Rt,
    tree: Rc<Tree>,
    salt: Cell<Option<Salt>>,
}

impl Zio {
    /// The blocks on these vdevs.
    pub fn new(rt: &Rt, tree: Rc<Tree>) -> Zio {
        Zio { shared: Rc::new(Shared { rt: rt.clone(), tree, salt: Cell::new(None) }) }
    }

    /// Gives the salt of the pool's salted checksums, when it was read from the MOS. Until then such blocks are
    /// refused.
    pub fn set_salt(&self, salt: Salt) {
        self.shared.salt.set(Some(salt));
    }

    /// The salt, if it is known.
    pub fn salt(&self) -> Option<Salt> {
        self.shared.salt.get()
    }

    /// The vdevs.
    pub fn tree(&self) -> &Rc<Tree> {
        &self.shared.tree
    }
}

impl ReadBlocks for Zio {
    fn cached(&self, pointer: &BlockPointer) -> Option<Buf> {
        pointer.is_hole().then(|| Buf::zeros(pointer.logical_size() as usize))
    }

    fn read(&self, request: BlockRequest) -> BlockFuture {
        let shared = Rc::clone(&self.shared);
        Box::pin(async move {
            let (at, birth) = (request.at, request.pointer.physical_birth());
            shared.read(request).await.map_err(|kind| BlockError { at, birth, kind })
        })
    }
}

type Stored<'a> = Pin<Box<dyn Future<Output = Result<Buf, BlockErrorKind>> + 'a>>;

impl Shared {
    async fn read(&self, request: BlockRequest) -> Result<Buf, BlockErrorKind> {
        let pointer = &request.pointer;
        pointer.check()?;
        let stored = match pointer.kind() {
            Kind::Hole => return Ok(Buf::zeros(pointer.logical_size() as usize)),
            Kind::Redacted => return Err(BlockErrorKind::Unsupported("reading redacted blocks")),
            Kind::Embedded => {
                let data = pointer.embedded_data().expect("an embedded pointer has data");
                Buf::copy_of(&data)
            }
            Kind::Block | Kind::Gang => {
                let class = IoClass::of_read(request.priority, request.prefetch);
                loop {
                    match self.stored(pointer, class, 0).await {
                        Ok(stored) => break stored,
                        Err(failed) if request.prefetch => return Err(failed),
                        Err(failed) if self.waited(pointer, &failed).await => {}
                        Err(failed) => return Err(failed),
                    }
                }
            }
        };
        if request.raw {
            return Ok(stored);
        }
        let block = transform::logical(&self.rt, pointer, request.key.as_deref(), stored).await?;
        assert_eq!(
            block.len() as u64,
            pointer.logical_size(),
            "a block that is handed out is as long as its pointer says"
        );
        Ok(block)
    }

    /// The bytes as they are stored, of the physical size.
    fn stored<'a>(&'a self, pointer: &'a BlockPointer, class: IoClass, depth: usize) -> Stored<'a> {
        Box::pin(async move {
            let expected = Expected::of(pointer, self.salt.get())?;
            if pointer.kind() != Kind::Gang {
                return self.copies(pointer, pointer.physical_size(), expected, class).await;
            }
            if depth >= GANG_DEPTH_MAX {
                return Err(bad_gang("depth", depth as u64));
            }
            let header = Expected::GangHeader(*pointer);
            let header = self.copies(pointer, gang::BYTES as u64, header, class).await?;
            let header = GangHeader::decode(header.bytes(), pointer)?;
            let pieces: Vec<BlockPointer> =
                header.pieces.into_iter().filter(|piece| !piece.is_hole()).collect();
            let whole = pieces.iter().map(BlockPointer::physical_size).fold(0, u64::saturating_add);
            if whole != pointer.physical_size() {
                return Err(bad_gang("sizes of pieces", whole));
            }
            for piece in &pieces {
                piece.check()?;
                if !matches!(piece.kind(), Kind::Block | Kind::Gang) {
                    return Err(bad_gang("piece", piece.physical_size()));
                }
            }
            let read = pieces.iter().map(|piece| self.stored(piece, class, depth + 1));
            let mut block = SgList::new();
            for piece in join_all(read).await {
                block.push(piece?);
            }
            let block = block.into_contiguous();
            match self.holds(expected, &block).await {
                true => Ok(block),
                false => Err(BlockErrorKind::Checksum),
            }
        })
    }

    async fn holds(&self, expected: Expected, bytes: &Buf) -> bool {
        let bytes = bytes.clone();
        let work = expected.work(ByteCount(bytes.len() as u64));
        self.rt.compute(work, move || expected.holds(bytes.bytes())).await
    }

    /// Reads from the places of a pointer, until one gives what is expected.
    async fn copies(
        &self,
        pointer: &BlockPointer,
        size: u64,
        expected: Expected,
        class: IoClass,
    ) -> Result<Buf, BlockErrorKind> {
        let mut places: Vec<Dva> = pointer.dvas().collect();
        if places.len() > 1 {
            places.sort_by_key(|dva| self.tree.load(*dva));
        }
        let birth = pointer.physical_birth();
        let mut failure = None;
        for dva in places {
            let read = ReadAt { dva, size, birth, expected: expected.clone(), class };
            match self.tree.read(&read).await {
                Ok(bytes) => {
                    assert_eq!(bytes.len() as u64, size, "a vdev gives what was asked for");
                    return Ok(bytes);
                }
                Err(kind) => failure = Some(worse(failure, kind)),
            }
        }
        Err(failure.unwrap_or_else(|| no_place(pointer)))
    }

    /// Whether no device of a block's vdevs answers, and it is worth another try now that they may: where somebody can resume the pool,
    /// who reads waits for that. A block that is damaged waits for nothing.
    async fn waited(&self, pointer: &BlockPointer, failed: &BlockErrorKind) -> bool {
        let suspension = self.tree.suspension();
        let is_device = matches!(failed, BlockErrorKind::Io(_) | BlockErrorKind::Missing(_));
        if !is_device || !suspension.waits_to_read() {
            return false;
        }
        for dva in pointer.dvas() {
            if self.tree.can_be_read(dva.vdev()).await {
                return false;
            }
        }
        suspension.again().await
    }
}

/// The one of two reasons that says more about the block.
fn worse(before: Option<BlockErrorKind>, now: BlockErrorKind) -> BlockErrorKind {
    let weight = |kind: &BlockErrorKind| match kind {
        BlockErrorKind::Checksum => 3,
        BlockErrorKind::Io(_) => 2,
        BlockErrorKind::Missing(_) => 1,
        _ => 0,
    };
    match before {
        Some(before) if weight(&before) >= weight(&now) => before,
        _ => now,
    }
}

fn no_place(pointer: &BlockPointer) -> BlockErrorKind {
    let problem = Problem::Value(pointer.words[0]);
    FormatError { structure: BlockPointer::NAME, field: "places", offset: 0, problem }.into()
}

fn bad_gang(field: &'static str, value: u64) -> BlockErrorKind {
    let problem = Problem::Value(value);
    FormatError { structure: "gang header", field, offset: 0, problem }.into()
}
