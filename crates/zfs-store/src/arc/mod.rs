//! The cache of blocks: adaptive replacement over anything that reads blocks.
//!
//! **What is kept** are logical bytes: checked, decrypted, decompressed. Keeping them as they are stored holds half
//! as much again to twice as many blocks of compressible data in the same memory, but then each hit costs a
//! decompression: some 40 µs for 128 KiB by lz4, against well under a microsecond for handing out a reference.
//! Nothing above this cache keeps blocks that nobody holds, so hits here are the common case, and they are what it
//! is for. Who wants stored bytes (`raw`) gets an entry of its own.
//!
//! **Keys.** A block is known by the place of its first copy and the birth of its copies. A place is given to
//! another block only in a later transaction group, so a key means one content for ever, and nothing must be taken
//! back when blocks are freed or datasets destroyed. Holes and embedded data have no place and are not kept.
//!
//! **One read at a time.** Who asks for a block that is being read waits for that read. It runs as a task of its
//! own, so it ends even if who began it loses interest, and a read ahead needs nobody to wait for it.
//!
//! **Encryption.** A decrypted block is given to whoever names it by [`ReadBlocks::cached`]: pointers to it are
//! found only in a dataset that was opened. A [`read`](ReadBlocks::read) without a key goes past the cache, and is
//! refused below.
//!
//! **Reads that come once.** Who goes through a file or volume from end to end (`once`) takes what is here, and has the
//! rest read without keeping it, as long as nobody else waits for it: so the cache stays as it was, and the same
//! few buffers serve the whole stream.
//!
//! **What is written** is kept from the moment on at which its group is in the pool ([`ReadBlocks::keep`]), as if it had been read
//! then; but not small parts of large requests, each of which would keep the whole request's memory.
//!
//! **Datasets that aren't cached** (`primarycache`) read as if each read came once, and whoever writes them keeps nothing here.
//!
//! Which blocks stay is decided in `cache`. Errors are not kept. Scrubs read below this cache, since they are about
//! what is on the disks.

mod cache;
mod index;

pub use cache::ArcStatistics;

use crate::block::{BlockError, BlockErrorKind, BlockFuture, BlockRequest, ReadBlocks};
use cache::Cache;
use index::Key;
use rt::sync::oneshot;
use rt::{Buf, IoErrorKind, Rt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::ByteCount;
use zfs_format::block_pointer::{BlockPointer, Kind, Protection};
use zfs_format::object_type::ObjectType;

/// How large the cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArcOptions {
    /// Memory for blocks.
    pub size: ByteCount,
    /// Below this share of the size, in percent, metadata stays as long as there is data to let go.
    pub metadata_percent: u8,
}

impl Default for ArcOptions {
    /// 1 GiB, a quarter of it for metadata.
    fn default() -> ArcOptions {
        ArcOptions { size: ByteCount::gib(1), metadata_percent: 25 }
    }
}

impl ArcOptions {
    fn metadata_floor(&self) -> u64 {
        self.size.bytes() / 100 * u64::from(self.metadata_percent.min(100))
    }
}

/// A cache of blocks. See the [module](self).
#[derive(Clone)]
pub struct Arc {
    shared: Rc<Shared>,
}

struct Shared {
    rt: Rt,
    below: Rc<dyn ReadBlocks>,
    cache: RefCell<Cache>,
    /// Reads under way.
    flights: RefCell<BTreeMap<Key, Flight>>,
}

/// A read under way.
struct Flight {
    /// Whether only reads ahead asked for it so far.
    ahead: bool,
    /// Whether only such asked for it as won't again.
    once: bool,
    waiting: Vec<oneshot::Sender<Result<Buf, BlockErrorKind>>>,
}

impl Arc {
    /// An empty cache over `below`.
    pub fn new(rt: &Rt, below: Rc<dyn ReadBlocks>, options: ArcOptions) -> Arc {
        let cache = Cache::new(options.size.bytes(), options.metadata_floor());
        let (cache, flights) = (RefCell::new(cache), RefCell::default());
        Arc { shared: Rc::new(Shared { rt: rt.clone(), below, cache, flights }) }
    }

    /// What happened so far, and how full it is.
    pub fn statistics(&self) -> ArcStatistics {
        self.shared.cache.borrow().statistics()
    }

    /// Makes it larger or smaller; what has no room any more leaves.
    pub fn resize(&self, options: ArcOptions) {
        let (bytes, floor) = (options.size.bytes(), options.metadata_floor());
        self.shared.cache.borrow_mut().resize(bytes, floor);
    }
}

/// The key of a block; nothing for what lies nowhere.
fn key(pointer: &BlockPointer, raw: bool) -> Option<Key> {
    match pointer.kind() {
        Kind::Block | Kind::Gang => {
            let dva = pointer.dva(0).words;
            Some(Key { dva, birth: pointer.physical_birth(), raw })
        }
        Kind::Hole | Kind::Embedded | Kind::Redacted => None,
    }
}

/// Whether it is anything but the content of files and volumes.
pub fn is_metadata(pointer: &BlockPointer) -> bool {
    let content = [ObjectType::PLAIN_FILE_CONTENTS, ObjectType::ZVOL];
    pointer.level() > 0 || !content.contains(&pointer.object_type())
}

impl ReadBlocks for Arc {
    fn cached(&self, pointer: &BlockPointer) -> Option<Buf> {
        match key(pointer, false) {
            Some(key) => self.shared.cache.borrow_mut().get(&key, || self.shared.rt.now()),
            None => self.shared.below.cached(pointer),
        }
    }

    fn read(&self, request: BlockRequest) -> BlockFuture {
        let (pointer, at) = (&request.pointer, request.at);
        let birth = pointer.physical_birth();
        let locked = pointer.protection() == Protection::Encrypted && request.key.is_none();
        let Some(key) = key(pointer, request.raw).filter(|_| request.raw || !locked) else {
            return self.shared.below.read(request);
        };
        if let Some(block) = self.shared.cache.borrow_mut().get(&key, || self.shared.rt.now()) {
            return Box::pin(std::future::ready(Ok(block)));
        }
        let (sender, receiver) = oneshot::channel();
        let joined = match self.shared.flights.borrow_mut().get_mut(&key) {
            Some(flight) => {
                flight.ahead &= request.prefetch;
                flight.once &= request.once;
                flight.waiting.push(sender);
                None
            }
            None => Some(sender),
        };
        match joined {
            None => self.shared.cache.borrow_mut().counts.joined += 1,
            Some(sender) => {
                if !request.prefetch {
                    self.shared.cache.borrow_mut().counts.misses += 1;
                }
                let (ahead, once) = (request.prefetch, request.once);
                let flight = Flight { ahead, once, waiting: vec![sender] };
                self.shared.flights.borrow_mut().insert(key, flight);
                let shared = Rc::clone(&self.shared);
                self.shared.rt.spawn(shared.fly(key, request)).detach();
            }
        }
        Box::pin(async move {
            // A read that was begun answers, unless the executor is shutting down.
            let answer = receiver.await.unwrap_or(Err(BlockErrorKind::Io(IoErrorKind::Gone)));
            answer.map_err(|kind| BlockError { at, birth, kind })
        })
    }

    fn keep(&self, pointer: &BlockPointer, block: Buf) {
        // A part of what was written at once would keep all of it.
        if block.memory() > 2 * block.len() {
            return;
        }
        if let Some(key) = key(pointer, false) {
            let (mut cache, now) = (self.shared.cache.borrow_mut(), self.shared.rt.now());
            cache.insert(key, block, is_metadata(pointer), false, now);
        }
    }
}

impl Shared {
    /// Reads a block, keeps it, and tells all who wait for it.
    async fn fly(self: Rc<Self>, key: Key, request: BlockRequest) {
        let metadata = is_metadata(&request.pointer);
        let result = self.below.read(request).await.map_err(|error| error.kind);
        let flight = self.flights.borrow_mut().remove(&key);
        let Some(flight) = flight else { return };
        if let Ok(block) = &result
            && !flight.once
        {
            let (mut cache, now) = (self.cache.borrow_mut(), self.rt.now());
            cache.insert(key, block.clone(), metadata, flight.ahead, now);
        }
        for waiting in flight.waiting {
            // Who asked may be gone.
            let _ = waiting.send(result.clone());
        }
    }
}

#[cfg(test)]
mod tests;
