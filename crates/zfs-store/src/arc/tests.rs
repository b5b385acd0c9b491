//! What could break: two reads of one block, a waiter that is never told, a block that is handed out without its key.

use super::*;
use crate::block::Bookmark;
use crate::no_time::run;
use futures_util::future::join_all;
use std::cell::Cell;
use std::time::Duration;
use zfs_format::block_pointer::Dva;

/// Answers after a second: with the pointer's offset, or with an error for offset 0.
struct Below {
    rt: Rt,
    reads: Cell<usize>,
}

impl ReadBlocks for Below {
    fn cached(&self, pointer: &BlockPointer) -> Option<Buf> {
        pointer.is_hole().then(|| Buf::zeros(512))
    }

    fn read(&self, request: BlockRequest) -> BlockFuture {
        self.reads.set(self.reads.get() + 1);
        let (rt, at, offset) = (self.rt.clone(), request.at, request.pointer.dva(0).offset());
        Box::pin(async move {
            rt.sleep(Duration::from_secs(1)).await;
            match offset {
                0 => Err(BlockError { at, birth: 3, kind: BlockErrorKind::Checksum }),
                offset => Ok(Buf::fill(offset, 512)),
            }
        })
    }
}

fn pointer(offset: u64) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    pointer.set_dva(0, Dva::new(0, offset, 512, false));
    pointer.set_births(3, 3);
    pointer.set_object_type(ObjectType::PLAIN_FILE_CONTENTS);
    pointer
}

fn request(offset: u64, block: u64) -> BlockRequest {
    BlockRequest::new(pointer(offset), Bookmark { block, ..Bookmark::default() })
}

fn with_cache<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt, Arc, Rc<Below>) -> F) {
    run(|rt| {
        let below = Rc::new(Below { rt: rt.clone(), reads: Cell::new(0) });
        let arc = Arc::new(&rt, Rc::clone(&below) as Rc<dyn ReadBlocks>, ArcOptions::default());
        test(rt, arc, below)
    });
}

#[test]
fn readers_of_one_block_share_one_read() {
    with_cache(|_, arc, below| async move {
        assert_eq!(arc.cached(&pointer(512)), None);
        let all = join_all((0..5).map(|block| arc.read(request(512, block)))).await;
        assert!(all.into_iter().all(|block| block == Ok(Buf::fill(512, 512))));
        assert_eq!(arc.cached(&pointer(512)), Some(Buf::fill(512, 512)));
        assert_eq!(arc.read(request(512, 9)).await, Ok(Buf::fill(512, 512)));
        let counts = arc.statistics();
        assert_eq!((below.reads.get(), counts.misses, counts.joined, counts.hits), (1, 1, 4, 2));
    });
}

#[test]
fn an_error_names_who_asked_and_is_not_kept() {
    with_cache(|_, arc, below| async move {
        let both = join_all([arc.read(request(0, 1)), arc.read(request(0, 2))]).await;
        let blocks: Vec<u64> =
            both.into_iter().map(|result| result.expect_err("it is wrong").at.block).collect();
        assert_eq!((blocks, below.reads.get()), (vec![1, 2], 1));
        assert!(arc.read(request(0, 3)).await.is_err());
        assert_eq!(below.reads.get(), 2);
    });
}

#[test]
fn a_read_ends_though_who_began_it_has_gone() {
    with_cache(|rt, arc, below| async move {
        let ahead = BlockRequest { prefetch: true, ..request(512, 0) };
        drop(arc.read(ahead));
        rt.yield_now().await;
        assert_eq!(arc.read(request(512, 1)).await, Ok(Buf::fill(512, 512)));
        let counts = arc.statistics();
        assert_eq!((below.reads.get(), counts.joined, counts.prefetched_hits), (1, 1, 0));
        drop(arc.read(BlockRequest { prefetch: true, ..request(1024, 0) }));
        rt.sleep(Duration::from_secs(2)).await;
        assert!(arc.cached(&pointer(1024)).is_some());
        assert_eq!(arc.statistics().prefetched_hits, 1);
    });
}

#[test]
fn what_is_read_once_is_kept_only_if_somebody_else_waits_for_it() {
    with_cache(|_, arc, below| async move {
        let once = |offset| BlockRequest { once: true, ..request(offset, 0) };
        assert_eq!(arc.read(once(512)).await, Ok(Buf::fill(512, 512)));
        assert!(arc.cached(&pointer(512)).is_none());
        for pair in [[once(1024), request(1024, 1)], [request(2048, 1), once(2048)]] {
            let offset = pair[0].pointer.dva(0).offset();
            let both = join_all(pair.map(|request| arc.read(request))).await;
            assert!(both.iter().all(Result::is_ok));
            assert!(arc.cached(&pointer(offset)).is_some());
            arc.read(once(offset)).await.expect("it is there");
        }
        assert_eq!(below.reads.get(), 3);
    });
}

#[test]
fn stored_and_logical_bytes_are_two_things_and_holes_need_no_read() {
    with_cache(|_, arc, below| async move {
        arc.read(request(512, 0)).await.expect("it is read");
        arc.read(BlockRequest { raw: true, ..request(512, 0) }).await.expect("it is read");
        assert_eq!(below.reads.get(), 2);
        assert_eq!(arc.cached(&BlockPointer::HOLE), Some(Buf::zeros(512)));
        let other = |birth| {
            let mut pointer = pointer(512);
            pointer.set_births(birth, birth);
            pointer
        };
        assert!(arc.cached(&other(4)).is_none(), "another block at the same place");
    });
}

#[test]
fn without_a_key_nothing_is_read_from_the_cache() {
    with_cache(|_, arc, below| async move {
        let mut secret = request(512, 0);
        secret.pointer.set_uses_crypt(true);
        arc.read(BlockRequest { raw: true, ..secret.clone() }).await.expect("it is read");
        for _ in 0..2 {
            // Below refuses; this one doesn't know of keys.
            arc.read(secret.clone()).await.expect("it is asked below");
        }
        assert_eq!((below.reads.get(), arc.statistics().hits), (3, 0));
    });
}
