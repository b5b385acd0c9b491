//! Errors that OpenZFS noted by dataset, in pools that are written: they go with their dataset, and follow what a promotion moves.
//!
//! What could break: OpenZFS looks a dataset up that is gone, or takes what is noted of one for another's; an error of a snapshot is no
//! longer told where the snapshot went.

use super::datasets::{node, number, task};
use super::mounted::{Steps, mounted};
use super::{Rig, features_and, top};
use rt::inodes::{Caller, Inodes, New, Node, WriteAt};
use rt::{Buf, SgList};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::Offset;
use zfs::dsl::make::Fresh;
use zfs::inspect::names::Names;
use zfs::spa::Spa;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::datasets::{NewDataset, Tasks};
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::number_name;
use zfs_format::error_log::HeadError;
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;
use zfs_format::vdev::VdevKind;

/// Notes an error of each of these objects of a head, born in these groups.
async fn note(tasks: &Tasks<'_>, log: &str, noted: &[(u64, &[(u64, u64)])]) {
    let (maker, mos) = (tasks.maker, tasks.maker.mos);
    let all = maker.table(ObjectType::ERROR_LOG).await.expect("it is made");
    let directory = mos.dnode(pool_directory::OBJECT).await.expect("read");
    table::set(mos, &directory, log, table::number(all.number())).await.expect("it is set");
    for (head, errors) in noted {
        let of_head = maker.table(ObjectType::ERROR_LOG).await.expect("it is made");
        let value = table::number(of_head.number());
        table::set(mos, &all, &number_name(*head), value).await.expect("it is set");
        for (object, birth) in *errors {
            let name = HeadError { object: *object, level: 0, block: 0, birth: *birth }.name();
            table::set(mos, &of_head, &name, table::text("")).await.expect("it is set");
        }
    }
}

async fn damaged(live: &Live) -> Vec<(u64, u64)> {
    let noted = live.spa().state().await.expect("read").damaged;
    let places: BTreeSet<_> = noted.iter().map(|noted| (noted.dataset, noted.object)).collect();
    places.into_iter().collect()
}

#[test]
fn what_is_noted_of_a_dataset_goes_with_it_or_where_its_snapshots_go() {
    let rig = Rig::with_features(vec![top(0, VdevKind::File, 1)], features_and(&["head_errlog"]));
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let above = node(&live, "tank").await.directory.number;
        let named = |name: &str| NewDataset {
            name: name.to_owned(),
            owner: (0, 0),
            properties: Vec::new(),
        };
        for name in ["a", "b"] {
            let made = task(&live, async |tasks| tasks.create(above, &named(name)).await);
            made.await.expect("it is made");
        }
        let (a, b) = (number(&live, "tank/a").await, number(&live, "tank/b").await);
        task(&live, async |tasks| tasks.snapshot(a, "s").await).await.expect("it is taken");
        let snapshot = number(&live, "tank/a@s").await;
        let new = NewClone { name: "c".to_owned(), properties: Vec::new() };
        let cloned = task(&live, async |tasks| tasks.clone(snapshot, above, &new).await);
        cloned.await.expect("it is made");
        let c = number(&live, "tank/c").await;
        task(&live, async |tasks| {
            let object = tasks.maker.mos.dnode(snapshot).await?;
            let taken = tasks.maker.bonus::<DslDataset>(&object)?.creation_txg;
            let of_a: &[(u64, u64)] = &[(7, taken), (8, taken + 1), (9, 4)];
            note(tasks, pool_directory::ERROR_LOG_LAST, &[(a, of_a), (b, &[(5, 4)])]).await;
            note(tasks, pool_directory::ERROR_LOG_SCRUB, &[(a, &[(6, 4)]), (c, &[(6, 5)])]).await;
            Ok(Ok(()))
        })
        .await
        .expect("it is noted");
        let mut all = vec![(a, 6), (a, 7), (a, 8), (a, 9), (b, 5), (c, 6)];
        all.sort_unstable();
        assert_eq!(damaged(&live).await, all);

        task(&live, async |tasks| tasks.promote(c).await).await.expect("it is done");
        let mut all = vec![(a, 8), (b, 5), (c, 6), (c, 7), (c, 9)];
        all.sort_unstable();
        assert_eq!(damaged(&live).await, all);
        assert_eq!(live.spa().state().await.expect("read").errors, 6, "two of one object");

        for head in [a, b] {
            task(&live, async |tasks| tasks.destroy(head).await).await.expect("it goes");
        }
        live.finish_freeing().await.expect("it is freed");
        assert_eq!(damaged(&live).await, [(c, 6), (c, 7), (c, 9)]);
    });
    // zdb of OpenZFS 2.1 doesn't know the feature.
    rig.check();
}

/// What could break: a file is named that has another block there by now, or took the number of one that is gone; a file that only a
/// snapshot has has no name.
#[test]
fn what_is_noted_is_named_where_the_block_is() {
    let rig = Rig::with_features(vec![top(0, VdevKind::File, 1)], features_and(&["head_errlog"]));
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let mount = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        let (by, new) = (Caller::default(), New { permissions: 0o644, umask: 0 });
        let inside = mount.mkdir(by, Node::ROOT, b"d", new).await.expect("it is made").node;
        let mut files = Vec::new();
        for name in [&b"stays"[..], b"changes", b"goes"] {
            let file = mount.create(by, inside, name, new).await.expect("it is made").node;
            let bytes = SgList::from(Buf::copy_of(&[5; 100_000]));
            mount.write(by, file, WriteAt::End, bytes, false).await.expect("it is written");
            mount.release(file);
            files.push(file);
        }
        mount.sync().await.expect("it is durable");
        let head = mount.dataset();
        let objects: Vec<u64> = {
            let mut objects = Vec::new();
            for file in &files {
                objects.push(mount.attributes(*file).await.expect("it is there").inode);
            }
            objects
        };
        task(&live, async |tasks| tasks.snapshot(head, "s").await).await.expect("it is taken");
        let noted = pointers(&live, "tank@s", &objects).await;
        let bytes = SgList::from(Buf::copy_of(&[6; 100_000]));
        mount.write(by, files[1], WriteAt::Offset(Offset(0)), bytes, false).await.expect("written");
        mount.unlink(by, inside, b"goes").await.expect("it goes");
        mount.sync().await.expect("it is durable");
        task(&live, async |tasks| tasks.snapshot(head, "t").await).await.expect("it is taken");
        task(&live, async |tasks| {
            note(tasks, pool_directory::ERROR_LOG_SCRUB, &[(head, &noted)]).await;
            Ok(Ok(()))
        })
        .await
        .expect("it is noted");
        let damaged = live.spa().state().await.expect("read").damaged;
        let named = Names::of(live.spa()).await.of_damaged(&damaged).await;
        let named: BTreeSet<String> =
            named.into_iter().map(|name| String::from_utf8(name).expect("text")).collect();
        let expected = [
            "tank:/d/stays",
            "tank@s:/d/stays",
            "tank@t:/d/stays",
            "tank@s:/d/changes",
            "tank@s:/d/goes",
        ];
        assert_eq!(named, expected.map(str::to_owned).into());
    });
    rig.check();
}

/// Objects with the groups in which their first blocks were born.
async fn pointers(live: &Live, dataset: &str, objects: &[u64]) -> Vec<(u64, u64)> {
    let (directory, dataset) =
        live.spa().dsl().find(dataset).await.expect("it is read").expect("it is there");
    let objset = live.spa().objset(&directory, &dataset).await.expect("it is read");
    let mut births = Vec::new();
    for object in objects {
        let pointer = objset.dnode(*object).await.expect("it is there").pointer(0).await;
        let pointer = pointer.expect("it is read").expect("it is written");
        births.push((*object, pointer.logical_birth()));
    }
    births
}
