//! What is stored of blocks, byte by byte.
//!
//! What could break: memory that was somebody else's goes to disk behind what is compressed; what just doesn't fit a pointer is put
//! there all the same. Neither shows when blocks are read that were written by the same hand. And what is kept of a block that was
//! written is not what lies in its place: that shows in nothing that is read from the disks.

use super::features::set;
use super::logs::{NEW, bytes, clock};
use super::mounted::mounted;
use super::{Rig, files_of, new_file, top};
use rt::Buf;
use rt::inodes::{Caller, Inodes, Node, SetHow, WallClock, WriteAt};
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::inspect::walk::Reached;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs_format::block_pointer::Kind;
use zfs_format::compression::Compression;
use zfs_format::object_type::ObjectType;
use zfs_format::vdev::VdevKind;
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

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

/// Compares what is kept of the pool's blocks with what lies on the disks; says how many blocks of data are.
async fn check_kept(spa: &Rc<Spa>) -> usize {
    let (mut walk, mut kept) = (spa.walk(), 0);
    while let Some(visited) = walk.next().await {
        let visited = visited.expect("it is read");
        let pointer = visited.pointer;
        // What waits to be freed may be another's already.
        let known = spa.blocks().cached(&pointer).filter(|_| visited.reached == Reached::Tree);
        let Some(known) = known else { continue };
        let request = BlockRequest::new(pointer, Bookmark::default());
        let stored = spa.zio().read(request).await.expect("it is read");
        assert!(known == stored, "{pointer:?}");
        let is_data = pointer.object_type() == ObjectType::PLAIN_FILE_CONTENTS;
        kept += usize::from(is_data && pointer.level() == 0);
    }
    kept
}

#[test]
fn what_was_written_is_kept_as_it_lies_on_the_disks() {
    fixtures::takes_long!();
    const FILES: u64 = 4;
    const LEN: u64 = 40 << 10;
    for seed in 0..4 {
        let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(Rc::clone(&spa), &fresh).await.expect("it opens for writing");
            let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
            let files = live.files(&node).await.expect("it opens");
            let root = files.root_number();
            let (mut random, mut kept, mut is_there) =
                (Prng::new(seed), 0, [false; FILES as usize]);
            for step in 0..200 {
                let number = 100 + random.below(FILES);
                let (name, there) = (number.to_string(), &mut is_there[(number - 100) as usize]);
                if !*there {
                    let made = files.create(root, name.as_bytes(), &new_file(number)).await;
                    made.expect("it is made");
                    *there = true;
                }
                let at = random.below(LEN);
                match random.below(12) {
                    0 => files.truncate(number, at).await.expect("it is cut"),
                    1 => {
                        files.unlink(root, name.as_bytes()).await.expect("it goes");
                        *there = false;
                    }
                    _ => {
                        let bytes = Buf::copy_of(&content(random.below(BLOCK as u64) as usize));
                        let end = at + bytes.len() as u64;
                        files.write(number, at, &bytes, end).await.expect("it is written");
                    }
                }
                if step % 9 == 0 {
                    live.make_durable().await.expect("it is committed");
                    kept += check_kept(&spa).await;
                }
            }
            assert!(kept > 40, "{kept} blocks were kept");
            drop(files);
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        rig.judge();
    }
}

#[test]
fn what_was_written_is_read_from_memory() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(Rc::clone(&spa), &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        let made = files.create(files.root_number(), b"file", &new_file(100)).await;
        made.expect("it is made");
        let bytes = Buf::copy_of(&content(BLOCK));
        files.write(100, 0, &bytes, BLOCK as u64).await.expect("it is written");
        live.make_durable().await.expect("it is committed");
        let before = spa.arc().statistics();
        let found = files.node(100).await.expect("it is there");
        let read = found.dnode().read(0, BLOCK).await.expect("it is read").to_vec();
        assert!(read == content(BLOCK));
        let after = spa.arc().statistics();
        assert_eq!(after.misses, before.misses, "nothing is read from the disks");
        assert!(after.hits > before.hits);
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
}

/// Attributes that stand beside the bonus are written when they change, not whenever a file's times do.
#[test]
fn a_spill_block_is_written_when_what_it_holds_changes() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let steps = clock();
        let real = mounted(&live, Rc::clone(&steps) as Rc<dyn WallClock>).await;
        let by = Caller::default();
        let file = real.create(by, Node::ROOT, b"one", NEW).await.expect("it is made").node;
        let set = async |byte: u8| {
            let value = [byte; 3000];
            let set = real.set_extended_attribute(by, file, b"user.v", &value, SetHow::Any);
            set.await.expect("it is set");
        };
        let born = async || {
            live.sync(async |_| Ok(())).await.expect("it is written");
            let files = super::datasets::files(&live, "tank").await;
            let root = files.root().await.expect("it is read");
            let found =
                files.lookup(&root, b"one").await.expect("it is read").expect("it is there");
            let node = files.node(found.object).await.expect("it is there");
            let (phys, now) = (node.dnode().phys(), live.spa().uberblock().txg);
            let spill = phys.spill.expect("it has one").logical_birth();
            let found = real.extended_attribute(file, b"user.v").await.expect("it is there");
            (spill == now, found[0], node.attributes.modified)
        };
        set(1).await;
        let (is_written, _, modified) = born().await;
        assert!(is_written);
        steps.0.set(steps.0.get() + 5);
        real.write(by, file, WriteAt::End, bytes(1, 10_000), false).await.expect("it is written");
        let (is_written, byte, later) = born().await;
        assert!(!is_written && byte == 1 && later != modified, "its times are others");
        set(2).await;
        assert!(matches!(born().await, (true, 2, _)));
        real.release(file);
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// What could break: a property that is only stored, or only looked at when a dataset is opened; content that is kept when it is
/// written and not when it is read; metadata that is read anew each time though only content is left out.
#[test]
fn what_is_not_cached_is_read_anew_each_time() {
    const NONE: u64 = 0;
    const METADATA: u64 = 1;
    const ALL: u64 = 2;
    const FILES: u64 = 40;
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(Rc::clone(&spa), &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        // It stays open over all of it.
        let files = live.files(&node).await.expect("it opens");
        let misses = || spa.arc().statistics().misses;
        for (round, (code, content_anew, metadata_anew)) in
            [(ALL, false, false), (METADATA, true, false), (NONE, true, true), (ALL, false, false)]
                .into_iter()
                .enumerate()
        {
            set(&live, "tank", "primarycache", code).await;
            let first = 100 + round as u64 * FILES;
            for number in first..first + FILES {
                let name = number.to_string().into_bytes();
                let made = files.create(files.root_number(), &name, &new_file(number)).await;
                made.expect("it is made");
                let bytes = Buf::copy_of(&content(BLOCK));
                files.write(number, 0, &bytes, BLOCK as u64).await.expect("it is written");
            }
            live.make_durable().await.expect("it is committed");
            // What is read first may have to be fetched, whatever is set.
            let read = async |number: u64| {
                let found = files.node(number).await.expect("it is there");
                let read = found.dnode().read(0, BLOCK).await.expect("it is read").to_vec();
                assert!(read == content(BLOCK));
            };
            for again in [false, true] {
                let before = misses();
                for number in first..first + FILES {
                    read(number).await;
                }
                let missed = misses() - before;
                let context = format!("round {round}, again {again}: {missed} missed");
                assert_eq!(missed >= FILES, content_anew, "{context}");
                assert_eq!(missed > FILES, metadata_anew, "{context}");
            }
        }
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
