//! What a file or volume holds, from front to back: data, holes, and what can't be read.
//!
//! Holes are known from the object's pointers and are not read. Data comes in large pieces; the next one is being
//! read while the caller deals with the last. Where a piece can't be read it is read again block by block, so that
//! only the blocks that are damaged are missing.

use ::zfs::ZfsError;
use ::zfs::dmu::Dnode;
use rt::{Rt, SgList, Task};
use std::ops::Range;

/// Bytes that are read at once. More hides more of a disk's latency and holds more memory: two such pieces.
const PIECE_BYTES: u64 = 4 << 20;

/// A stretch of a file.
pub enum Piece {
    /// Bytes.
    Data(SgList),
    /// So many zeros that are not stored.
    Hole(u64),
    /// So many bytes that can't be had, and why.
    Damaged(u64, ZfsError),
}

impl Piece {
    /// Bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Data(data) => data.len() as u64,
            Piece::Hole(len) | Piece::Damaged(len, _) => *len,
        }
    }
}

/// Blocks that can't be read, joined where they follow one another, as they are told.
#[derive(Default)]
pub struct DamagedRun {
    run: Option<(Range<u64>, u64, ZfsError)>,
    lost: u64,
}

impl DamagedRun {
    /// One more. What is told of those before, where it does not follow them.
    pub fn add(&mut self, at: u64, len: u64, error: ZfsError) -> Option<String> {
        self.lost += len;
        if let Some((bytes, blocks, _)) = self.run.as_mut().filter(|(bytes, ..)| bytes.end == at) {
            (bytes.end, *blocks) = (at + len, *blocks + 1);
            return None;
        }
        let before = self.end();
        self.run = Some((at..at + len, 1, error));
        before
    }

    /// What is told of the last.
    pub fn end(&mut self) -> Option<String> {
        let (Range { start, end }, blocks, error) = self.run.take()?;
        Some(match blocks {
            1 => format!("bytes {start} to {end} can't be read: {error}"),
            _ => format!(
                "bytes {start} to {end} ({blocks} blocks) can't be read, the first since: {error}"
            ),
        })
    }

    /// Bytes of all.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// See the [module](self).
pub struct Pieces {
    rt: Rt,
    object: Dnode,
    size: u64,
    at: u64,
    /// Until where it is known what is data.
    data_end: u64,
    /// Until where it is read block by block.
    careful_end: u64,
    ahead: Option<Ahead>,
}

struct Ahead {
    at: u64,
    len: u64,
    read: Task<Result<SgList, ZfsError>>,
}

impl Pieces {
    /// The content of an object, `size` bytes of it, from `at` on.
    pub fn new(rt: &Rt, object: &Dnode, at: u64, size: u64) -> Pieces {
        let (rt, object) = (rt.clone(), object.clone());
        Pieces { rt, object, size, at, data_end: at, careful_end: 0, ahead: None }
    }

    /// The next stretch, and where it begins; nothing at the end.
    pub async fn next(&mut self) -> Option<(u64, Piece)> {
        if self.at >= self.size {
            return None;
        }
        let at = self.at;
        let piece = self.piece().await;
        self.at += piece.len();
        Some((at, piece))
    }

    async fn piece(&mut self) -> Piece {
        let block = self.object.block_bytes().max(1);
        if self.at >= self.data_end && self.at >= self.careful_end {
            match self.look().await {
                Ok(Some(hole)) => return Piece::Hole(hole),
                Ok(None) => {}
                // What is a hole is not known there: each block tells by itself.
                Err(_) => self.careful_end = self.round(self.at, block),
            }
        }
        if self.at < self.careful_end {
            let len = (block - self.at % block).min(self.size - self.at);
            return match self.object.read_once(self.at, len as usize).await {
                Ok(data) => Piece::Data(data),
                Err(error) => Piece::Damaged(len, error),
            };
        }
        let ahead = match self.ahead.take().filter(|ahead| ahead.at == self.at) {
            Some(ahead) => ahead,
            None => self.start(self.at),
        };
        let next = ahead.at + ahead.len;
        if next < self.data_end {
            self.ahead = Some(self.start(next));
        }
        let (len, read) = (ahead.len, ahead.read.await);
        match read {
            Ok(data) => Piece::Data(data),
            Err(_) => {
                self.careful_end = self.at + len;
                Box::pin(self.piece()).await
            }
        }
    }

    /// The end of the stretch of at most a piece, at the end of a block.
    fn round(&self, at: u64, block: u64) -> u64 {
        let end = at.saturating_add(PIECE_BYTES.max(block));
        (end - end % block).min(self.size)
    }

    fn start(&self, at: u64) -> Ahead {
        let block = self.object.block_bytes().max(1);
        let len = self.round(at, block).min(self.data_end) - at;
        let object = self.object.clone();
        let read = self.rt.spawn(async move { object.read_once(at, len as usize).await });
        Ahead { at, len, read }
    }

    /// Looks what comes next: the bytes of a hole; or data, whose end is kept.
    async fn look(&mut self) -> Result<Option<u64>, ZfsError> {
        let next = self.object.next_data(self.at).await?.unwrap_or(self.size).min(self.size);
        if next > self.at {
            return Ok(Some(next - self.at));
        }
        self.data_end = self.object.next_hole(self.at).await?.min(self.size);
        // Beyond the last block nothing is stored.
        match self.data_end > self.at {
            true => Ok(None),
            false => Ok(Some(self.size - self.at)),
        }
    }
}
