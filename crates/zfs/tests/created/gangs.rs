//! Blocks that find no place in one piece: written as gangs, written again where they are, freed, and found after a power cut.
//!
//! What could break: a piece that nobody frees, or that two blocks have; a header that leads elsewhere; passes of a sync that don't
//! come to rest since what is written again moves; space that is counted otherwise than it is taken (WRITER-TRAPS 11).

use super::cuts::{Left, at_each_write, cut_at, look_at_files, write_files};
use super::datasets::{check_books, files, number, task};
use super::{Model, Rig, change, compare, files_of, new_file, raidz, root_files, top};
use fixtures::extent::some;
use rt::Buf;
use std::cell::RefCell;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::inspect::walk::Reached;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs_format::block_pointer::Kind;
use zfs_format::vdev::{Vdev, VdevKind};

const MIB: u64 = 1 << 20;

/// Gangs of data, and of what leads to it.
async fn gangs(spa: &Spa) -> (u64, u64) {
    let (mut walk, mut data, mut metadata) = (spa.walk(), 0, 0);
    while let Some(visited) = walk.next().await {
        let visited = visited.expect("it is read");
        if visited.pointer.kind() == Kind::Gang && visited.reached == Reached::Tree {
            match visited.pointer.level() == 0 && visited.pointer.object_type().is_metadata() {
                true => metadata += 1,
                false => data += 1,
            }
        }
    }
    (data, metadata)
}

/// As of files over groups, with each third block of two sectors and more in pieces; pieces of pieces too.
fn over_groups(seed: u64, mut tops: Vec<Vdev>, ashift: u64) {
    tops.iter_mut().for_each(|top| top.ashift = Some(ashift));
    let rig = Rig::new(tops);
    let model: Rc<RefCell<Model>> = Rc::default();
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    for round in 0..3 {
        let (kept, random) = (Rc::clone(&model), Rc::clone(&random));
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            live.syncer().writer().force_gangs(2 << ashift, 3);
            let files = files(&live, "tank").await;
            for group in 0..6 {
                for _ in 0..20 {
                    change(&files, &mut kept.borrow_mut(), &mut random.borrow_mut()).await;
                }
                let head = number(&live, "tank").await;
                if group == 1 {
                    let name = format!("s{round}");
                    let taken = task(&live, async |tasks| tasks.snapshot(head, &name).await).await;
                    taken.expect("it is taken");
                } else {
                    live.sync(async |_| Ok(())).await.expect("it is written");
                }
                compare(&files, &kept.borrow()).await;
            }
            if round > 0 {
                let snapshot = number(&live, &format!("tank@s{}", round - 1)).await;
                let gone = task(&live, async |tasks| tasks.destroy_snapshot(snapshot, false).await);
                gone.await.expect("it goes");
            }
            live.finish_freeing().await.expect("it is freed");
            drop(files);
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        let kept = Rc::clone(&model);
        rig.with(async move |spa: Rc<Spa>, _| {
            compare(&root_files(&spa).await, &kept.borrow()).await;
            check_books(&spa).await;
            let (data, metadata) = gangs(&spa).await;
            // Metadata compresses to one of the longer sectors.
            let enough = data > 5 && (metadata > 0 || ashift == 12);
            assert!(enough, "{data} gangs of data, {metadata} of metadata");
        });
        rig.judge();
    }
}

#[test]
fn files_in_pieces_over_many_groups_are_what_was_written() {
    fixtures::takes_long!();
    let pools = [
        (21, vec![top(0, VdevKind::Mirror, 2)], 9),
        (22, vec![top(0, raidz(1), 3), top(1, raidz(1), 3)], 12),
    ];
    for (seed, tops, groups) in some(pools, 1) {
        over_groups(seed, tops, groups);
    }
}

#[test]
fn a_cut_at_any_write_of_gangs_leaves_one_group_or_the_next() {
    let base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let forced = async |live: Live, left: Left<Model>| {
        live.syncer().writer().force_gangs(8192, 3);
        write_files(live, left).await;
    };
    at_each_write(&base, 9, |disk, write| cut_at(&base, disk, write, forced, look_at_files));
}

/// No metaslab is as long as this block: each has a copy of what all pools have.
#[test]
fn a_block_that_is_longer_than_any_free_stretch_is_written_in_pieces() {
    let mut small = top(0, VdevKind::File, 1);
    small.asize = Some(48 * MIB);
    let rig = Rig::new(vec![small]);
    let content = Prng::new(5).bytes(16 * MIB as usize);
    let wanted = content.clone();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let directory = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let directory = directory.directory.number;
        let set = task(&live, async |tasks| {
            let record = table::number(16 * MIB);
            tasks.set_property(directory, "recordsize", Some(record)).await
        });
        set.await.expect("it is set");
        let files = files(&live, "tank").await;
        files.create(files.root_number(), b"long", &new_file(100)).await.expect("it is made");
        let bytes = Buf::copy_of(&wanted);
        files.write(100, 0, &bytes, 16 * MIB).await.expect("it is written");
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        assert_eq!(gangs(&spa).await.0, 1);
        let node = files_of(&spa, "tank").await.node(100).await.expect("it is there");
        let read = node.dnode().read(0, content.len()).await.expect("it is read").to_vec();
        assert!(read == content);
        drop(node);
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let files = files(&live, "tank").await;
        files.unlink(files.root_number(), b"long").await.expect("it goes");
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
    rig.with(async |spa: Rc<Spa>, _| assert_eq!(gangs(&spa).await, (0, 0)));
}
