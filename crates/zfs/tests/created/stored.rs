//! What is stored of blocks, byte by byte.
//!
//! What could break: memory that was somebody else's goes to disk behind what is compressed; what just doesn't fit a pointer is put
//! there all the same. Neither shows when blocks are read that were written by the same hand.

use super::{Rig, files_of, new_file, top};
use rt::Buf;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::inspect::walk::Reached;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs_format::block_pointer::Kind;
use zfs_format::compression::Compression;
use zfs_format::vdev::VdevKind;
use zfs_store::BlockRequest;

const BLOCK: usize = 4096;

/// So many bytes that don't compress, and zeros: compressed they take a few more.
fn content(len: usize) -> Vec<u8> {
    let mut random = Prng::new(len as u64);
    (0..BLOCK).map(|at| if at < len { random.next_u64() as u8 | 1 } else { 0 }).collect()
}

/// Writes files of one block each, whose contents are of these lengths.
fn written(lens: impl Iterator<Item = usize> + Clone + 'static) -> Rig {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let wanted = lens.clone();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        for (number, len) in (100..).zip(wanted) {
            let name = number.to_string().into_bytes();
            let made = files.create(files.root_number(), &name, &new_file(number)).await;
            made.expect("it is made");
            let bytes = Buf::copy_of(&content(len));
            files.write(number, 0, &bytes, BLOCK as u64).await.expect("it is written");
        }
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        let files = files_of(&spa, "tank").await;
        for (number, len) in (100..).zip(lens) {
            let node = files.node(number).await.expect("it is there");
            let read = node.dnode().read(0, BLOCK).await.expect("it is read").to_vec();
            assert!(read == content(len), "of {len} bytes");
        }
    });
    rig
}

/// A pointer has place for 112 bytes.
#[test]
fn what_just_fits_a_pointer_and_what_does_not_is_read() {
    let rig = written(80..130);
    rig.judge();
}

#[test]
fn behind_what_is_compressed_there_are_zeros() {
    // Two sectors and less of 4096 bytes are not stored shorter; metadata is.
    let rig = written((200..3000).step_by(50));
    rig.with(async |spa: Rc<Spa>, _| {
        let (mut walk, mut count) = (spa.walk(), 0);
        while let Some(visited) = walk.next().await {
            let visited = visited.expect("it is read");
            let pointer = visited.pointer;
            let is_lz4 = pointer.compression() == Some(Compression::Lz4);
            // What waits to be freed may be another's already.
            let is_live = visited.reached == Reached::Tree;
            if pointer.kind() != Kind::Block || !is_lz4 || !is_live {
                continue;
            }
            let request = BlockRequest::new(pointer, visited.at);
            let request = BlockRequest { raw: true, ..request };
            let stored = spa.blocks().read(request).await.expect("it is read");
            // Its first word says how long it is.
            let (len, rest) = stored.bytes().split_first_chunk().expect("it has one");
            let behind = &rest[u32::from_be_bytes(*len) as usize..];
            assert!(behind.iter().all(|byte| *byte == 0), "{:?}", visited.at);
            count += usize::from(behind.len() > 100);
        }
        assert!(count > 10, "{count} blocks have room behind");
    });
}
