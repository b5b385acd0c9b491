//! Checking every copy of a block, as a scrub does.
//!
//! [`Zio::verify`] reads each place of a pointer with all the redundancy there ([`Tree::verify`](crate::Tree::verify)),
//! and of a gang each copy of its headers and every piece. Nothing is decrypted or decompressed: the checksum is of what
//! is stored. Errors are counted on the leaves; the answer says whether the block can be had at all, and how
//! many of its places can't give it.
//!
//! [`Zio::verify_all`] does it for many at a time: in the order of their places, with long reads, where the vdevs are whole
//! ([`Tree::verify_in_order`](crate::Tree::verify_in_order)); and by itself each block that is doubtful there.
//!
//! [`Zio::gang_pieces`] says what a gang is made of, to who counts space.

use crate::block::{BlockErrorKind, BlockRequest};
use crate::expected::Expected;
use crate::vdev::{IoClass, Place, ReadAt, Tree};
use crate::zio::{GANG_DEPTH_MAX, Zio};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use rt::{Buf, SgList};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use zfs_format::block_pointer::{BlockPointer, Kind};
use zfs_format::gang::{self, GangHeader};

/// Blocks that are verified by themselves at a time: what keeps a few dozen disks busy.
const ALONE_MAX: usize = 256;

/// What became of a block that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Why it can't be had; nothing where at least one place gives it.
    pub damage: Option<BlockErrorKind>,
    /// Its places (and those of a gang's parts) that can't give it.
    pub lost_places: u32,
    /// Bytes that were read, without parity and further sides of mirrors.
    pub bytes: u64,
}

type Checking<'a> = Pin<Box<dyn Future<Output = Verified> + 'a>>;

impl Verified {
    fn whole() -> Verified {
        Verified { damage: None, lost_places: 0, bytes: 0 }
    }

    fn damaged(kind: BlockErrorKind) -> Verified {
        Verified { damage: Some(kind), lost_places: 0, bytes: 0 }
    }

    fn add(&mut self, other: Verified) {
        self.lost_places += other.lost_places;
        self.bytes += other.bytes;
        if self.damage.is_none() {
            self.damage = other.damage;
        }
    }
}

impl Zio {
    /// Reads and checks every copy of these blocks: what became of each, in their order.
    pub async fn verify_all(&self, requests: &[BlockRequest]) -> Vec<Verified> {
        let mut places: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
        let mut verified = Vec::with_capacity(requests.len());
        let mut doubtful = BTreeSet::new();
        for (block, request) in requests.iter().enumerate() {
            let pointer = &request.pointer;
            let plain = pointer.kind() == Kind::Block && pointer.check().is_ok();
            let expected = plain.then(|| Expected::of(pointer, self.salt()).ok()).flatten();
            let mut bytes = 0;
            match expected {
                // It compares with itself only, which is another matter.
                None | Some(Expected::Anything) => drop(doubtful.insert(block)),
                Some(expected) => {
                    let (size, birth) = (pointer.physical_size(), pointer.physical_birth());
                    for dva in pointer.dvas() {
                        bytes += size;
                        let (offset, expected) = (dva.offset(), expected.clone());
                        let place = Place { offset, size, birth, expected, block };
                        places.entry(dva.vdev()).or_default().push(place);
                    }
                }
            }
            verified.push(Verified { bytes, ..Verified::whole() });
        }
        assert_eq!(verified.len(), requests.len(), "each block has an answer");
        let in_order = places.into_iter().map(|(vdev, of)| self.tree().verify_in_order(vdev, of));
        doubtful.extend(join_all(in_order).await.into_iter().flatten());
        let alone = doubtful
            .into_iter()
            .map(|block| async move { (block, self.verify(&requests[block]).await) });
        let mut alone = stream::iter(alone).buffer_unordered(ALONE_MAX);
        while let Some((block, found)) = alone.next().await {
            verified[block] = found;
        }
        verified
    }

    /// Reads and checks every copy of a block.
    pub async fn verify(&self, request: &BlockRequest) -> Verified {
        self.verify_block(&request.pointer, IoClass::of_read(request.priority, false), 0).await
    }

    fn verify_block<'a>(
        &'a self,
        pointer: &'a BlockPointer,
        class: IoClass,
        depth: usize,
    ) -> Checking<'a> {
        Box::pin(async move {
            if let Err(error) = pointer.check() {
                return Verified::damaged(error.into());
            }
            match pointer.kind() {
                Kind::Hole | Kind::Redacted | Kind::Embedded => Verified::whole(),
                Kind::Block => {
                    let expected = match Expected::of(pointer, self.salt()) {
                        Ok(expected) => expected,
                        Err(kind) => return Verified::damaged(kind),
                    };
                    let size = pointer.physical_size();
                    self.verify_places(pointer, size, expected, class).await.1
                }
                Kind::Gang => self.verify_gang(pointer, class, depth).await,
            }
        })
    }

    async fn verify_gang(&self, pointer: &BlockPointer, class: IoClass, depth: usize) -> Verified {
        let expected = Expected::GangHeader(*pointer);
        let size = gang::BYTES as u64;
        let (header, mut verified) = self.verify_places(pointer, size, expected, class).await;
        let Some(header) = header else { return verified };
        match pieces(pointer, &header.into_contiguous(), depth) {
            Err(kind) => verified.add(Verified::damaged(kind)),
            Ok(pieces) => {
                for piece in &pieces {
                    verified.add(self.verify_block(piece, class, depth + 1).await);
                }
            }
        }
        verified
    }

    /// All places of a pointer, each as long; and the bytes, if one gives them.
    async fn verify_places(
        &self,
        pointer: &BlockPointer,
        size: u64,
        expected: Expected,
        class: IoClass,
    ) -> (Option<SgList>, Verified) {
        let (mut verified, mut found, mut failure) = (Verified::whole(), None, None);
        let birth = pointer.physical_birth();
        for dva in pointer.dvas() {
            let read = ReadAt { dva, size, birth, expected: expected.clone(), class };
            verified.bytes += size;
            match self.tree().verify(&read).await {
                Ok(bytes) => found = Some(bytes),
                Err(kind) => {
                    verified.lost_places += 1;
                    failure = Some(kind);
                }
            }
        }
        if found.is_none() {
            verified.damage = Some(failure.unwrap_or(BlockErrorKind::Checksum));
        }
        (found, verified)
    }

    /// The pieces of a gang; none of another block.
    ///
    /// # Errors
    /// Its header can't be had, or lists what can't be.
    pub async fn gang_pieces(
        &self,
        pointer: &BlockPointer,
    ) -> Result<Vec<BlockPointer>, BlockErrorKind> {
        gang_pieces(self.tree(), pointer).await
    }
}

/// The pieces of a gang, by its header on these vdevs; none of another block.
pub(crate) async fn gang_pieces(
    tree: &Tree,
    pointer: &BlockPointer,
) -> Result<Vec<BlockPointer>, BlockErrorKind> {
    if pointer.kind() != Kind::Gang {
        return Ok(Vec::new());
    }
    let (birth, class) = (pointer.physical_birth(), IoClass::Scrub);
    let (size, expected) = (gang::BYTES as u64, Expected::GangHeader(*pointer));
    let mut failure = BlockErrorKind::Checksum;
    for dva in pointer.dvas() {
        let read = ReadAt { dva, size, birth, expected: expected.clone(), class };
        match tree.read(&read).await {
            Ok(header) => return pieces(pointer, &header, 0),
            Err(kind) => failure = kind,
        }
    }
    Err(failure)
}

/// The pieces that a header lists, where they can be those of this gang.
fn pieces(
    pointer: &BlockPointer,
    header: &Buf,
    depth: usize,
) -> Result<Vec<BlockPointer>, BlockErrorKind> {
    let header = GangHeader::decode(header.bytes(), pointer)?;
    // As when it is read: a header that somebody forged costs no more than an honest one.
    if depth >= GANG_DEPTH_MAX || header.logical_size() != pointer.physical_size() {
        return Err(BlockErrorKind::Checksum);
    }
    Ok(header.pieces.into_iter().filter(|piece| !piece.is_hole()).collect())
}
