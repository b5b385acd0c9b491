//! Pools that are full: what makes more is refused, whatever it is, what lets go is done, and the pool is written on.
//!
//! What could break: a group that finds no room ends a pool, which can't be opened for writing ever after, since that takes a group.
//! Datasets, snapshots, bookmarks and properties take room as files do, and so does each group while a checkpoint keeps all.

use super::datasets::{node, number, task};
use super::mounted::{Steps, mounted};
use super::{Rig, features_and, top};
use rt::inodes::{Caller, InodeError, Inodes, New, Node, SetAttributes, WriteAt};
use rt::{Buf, SgList};
use std::cell::Cell;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::mounted::Mounted;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::bookmarks::BookmarkSource;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::datasets::{NewDataset, TaskError};
use zfs::spa::live::{CheckpointError, Live};
use zfs::zap::table;
use zfs_format::vdev::VdevKind;
use zfs_store::alloc::Class;

/// Tasks that are tried till one is refused: the slop of such a pool has room for some thousand.
const TRIED_MAX: u64 = 100;

fn rig(more: &[&str]) -> Rig {
    Rig::with_features(vec![top(0, VdevKind::File, 1)], features_and(more))
}

async fn opened(spa: Rc<Spa>, fresh: &Rc<dyn Fresh>) -> Rc<Live> {
    Rc::new(Live::open(spa, fresh).await.expect("it opens for writing"))
}

async fn mount(live: &Rc<Live>) -> Mounted {
    mounted(live, Rc::new(Steps(Cell::new(0)))).await
}

/// Writes a file until there is no room.
async fn fill(real: &Mounted, name: &[u8]) {
    let by = Caller::default();
    let new = New { permissions: 0o644, umask: 0 };
    let made = real.create(by, Node::ROOT, name, new).await.expect("it is made");
    let mut random = Prng::new(3);
    for len in [1 << 20, 1 << 17, 1 << 12] {
        loop {
            let bytes = random.bytes(len);
            let data = SgList::from(Buf::copy_of(&bytes));
            match real.write(by, made.node, WriteAt::End, data, false).await {
                Ok(_) => {}
                Err(error) => break assert_eq!(error, InodeError::NoSpace),
            }
        }
    }
    real.release(made.node);
}

fn new(name: String) -> NewDataset {
    NewDataset { name, owner: (0, 0), properties: Vec::new() }
}

#[test]
fn a_full_pool_takes_no_more_datasets_and_lets_them_go() {
    fixtures::takes_long!();
    let rig = rig(&[]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = opened(spa, &fresh).await;
        let root = node(&live, "tank").await;
        let (directory, head) = (root.directory.number, root.head.number);
        for name in ["a", "b"] {
            let made = task(&live, async |tasks| tasks.create(directory, &new(name.into())).await);
            made.await.expect("it is made");
        }
        let a = number(&live, "tank/a").await;
        task(&live, async |tasks| tasks.snapshot(a, "s").await).await.expect("it is taken");
        let snapshot = number(&live, "tank/a@s").await;
        let real = mount(&live).await;
        fill(&real, b"f").await;
        drop(real);
        live.sync(async |_| Ok(())).await.expect("it is written");

        // Each is refused before long, and ever after.
        let clone = |name| NewClone { name, properties: Vec::new() };
        for kind in 0..4 {
            let mut done = 0;
            let error = loop {
                let name = format!("more{kind}-{done}");
                let done_or_not = task(&live, async |tasks| {
                    let mark = BookmarkSource::Snapshot(snapshot);
                    Ok(match kind {
                        0 => tasks.create(directory, &new(name)).await?.map(drop),
                        1 => tasks.snapshot(head, &name).await?.map(drop),
                        2 => tasks.clone(snapshot, directory, &clone(name)).await?.map(drop),
                        _ => tasks.bookmark(a, &name, &mark).await?,
                    })
                });
                match done_or_not.await {
                    Ok(()) => done += 1,
                    Err(error) => break error,
                }
                assert!(done < TRIED_MAX, "kind {kind} is done for ever");
            };
            assert_eq!(error, TaskError::NoSpace, "kind {kind}");
        }
        // What changes something, and what lets go, is done.
        let set = task(&live, async |tasks| {
            tasks.set_property(directory, "a:b", Some(table::text("c"))).await
        });
        set.await.expect("it is set");
        task(&live, async |tasks| tasks.hold(snapshot, "h").await).await.expect("it is held");
        task(&live, async |tasks| tasks.release(snapshot, "h").await).await.expect("it is let go");
        let gone = task(&live, async |tasks| tasks.destroy_snapshot(snapshot, false).await);
        gone.await.expect("it goes");
        let b = number(&live, "tank/b").await;
        task(&live, async |tasks| tasks.destroy(b).await).await.expect("it goes");
        // Where there is room again, there is for all.
        let real = mount(&live).await;
        real.unlink(Caller::default(), Node::ROOT, b"f").await.expect("it goes");
        drop(real);
        let made = task(&live, async |tasks| tasks.create(directory, &new("b".into())).await);
        made.await.expect("what was freed is waited for");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Records that are shorter than a sector take a sector each.
#[test]
fn a_pool_of_large_sectors_is_not_filled_beyond_its_end_by_small_records() {
    fixtures::takes_long!();
    let rig = rig(&[]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = opened(spa, &fresh).await;
        let directory = node(&live, "tank").await.directory.number;
        for (name, number) in [("recordsize", 512), ("compression", 2)] {
            let value = Some(table::number(number));
            let set = task(&live, async |tasks| tasks.set_property(directory, name, value).await);
            set.await.expect("it is set");
        }
        let real = mount(&live).await;
        fill(&real, b"f").await;
        live.sync(async |_| Ok(())).await.expect("what was taken has room");
        real.unlink(Caller::default(), Node::ROOT, b"f").await.expect("it goes");
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Properties are small, and there may be any number of them.
#[test]
fn a_full_pool_takes_no_end_of_properties() {
    fixtures::takes_long!();
    let rig = rig(&[]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = opened(spa, &fresh).await;
        let directory = node(&live, "tank").await.directory.number;
        let real = mount(&live).await;
        fill(&real, b"f").await;
        drop(real);
        let mut random = Prng::new(8);
        let mut set = 0;
        let error = loop {
            let done = task(&live, async |tasks| {
                // Some at once, as of a command that sets several.
                for _ in 0..64 {
                    let (name, text) = (format!("a:{set}"), random.bytes(3500));
                    let text: String = text.iter().map(|byte| char::from(byte % 90 + 33)).collect();
                    let text = Some(table::text(&text));
                    match tasks.set_property(directory, &name, text).await? {
                        Ok(()) => set += 1,
                        Err(error) => return Ok(Err(error)),
                    }
                }
                Ok(Ok(()))
            });
            match done.await {
                Ok(()) => assert!(set < 100_000, "they are set for ever"),
                Err(error) => break error,
            }
        };
        assert_eq!(error, TaskError::NoSpace);
        assert!(set > 64, "half of the slop was theirs: {set}");
        for number in 0..set {
            let name = format!("a:{number}");
            let gone = task(&live, async |tasks| tasks.set_property(directory, &name, None).await);
            gone.await.expect("it goes");
            if number == 3 {
                break;
            }
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// What was there at a checkpoint is not freed before that goes.
#[test]
fn a_full_pool_with_a_checkpoint_is_written_on() {
    fixtures::takes_long!();
    let rig = rig(&["zpool_checkpoint", "spacemap_histogram"]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = opened(spa, &fresh).await;
        let real = mount(&live).await;
        let by = Caller::default();
        fill(&real, b"f").await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        real.unlink(by, Node::ROOT, b"f").await.expect("it goes");
        fill(&real, b"half").await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        real.unlink(by, Node::ROOT, b"half").await.expect("it goes");
        let new = New { permissions: 0o644, umask: 0 };
        let made = real.create(by, Node::ROOT, b"kept", new).await.expect("it is made");
        let data = SgList::from(Buf::copy_of(&Prng::new(4).bytes(8 << 20)));
        real.write(by, made.node, WriteAt::End, data, false).await.expect("it is written");
        live.sync(async |_| Ok(())).await.expect("it is written");
        live.checkpoint().await.expect("it is taken");
        fill(&real, b"f").await;
        for permissions in 0..50 {
            let set = SetAttributes { permissions: Some(permissions), ..SetAttributes::default() };
            real.setattr(by, made.node, set).await.expect("it is changed");
            live.sync(async |_| Ok(())).await.expect("it is written");
        }
        real.release(made.node);
        real.unlink(by, Node::ROOT, b"kept").await.expect("it goes");
        let directory = node(&live, "tank").await.directory.number;
        let made = task_create(&live, directory, "d").await;
        assert_eq!(made, Err(TaskError::NoSpace), "the checkpoint keeps what went");
        live.discard_checkpoint().await.expect("it goes");
        live.finish_freeing().await.expect("it is freed");
        task_create(&live, directory, "d").await.expect("there is room");
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

async fn task_create(live: &Live, directory: u64, name: &str) -> Result<u64, TaskError> {
    let named = new(name.to_owned());
    task(live, async |tasks| tasks.create(directory, &named).await).await
}

/// Whatever took it: some of the slop is left for who destroys something, and the last of it for no one.
#[test]
fn the_last_of_the_slop_is_nobodys() {
    let rig = rig(&[]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = opened(spa, &fresh).await;
        let directory = node(&live, "tank").await.directory.number;
        task_create(&live, directory, "a").await.expect("it is made");
        let real = mount(&live).await;
        let writer = live.syncer().writer();
        let take_until = |halvings: u32| {
            // And some more: each group frees a few blocks of the one before.
            let mut more = 16;
            while writer.beyond_slop(halvings) > 0 || more > 0 {
                more -= u32::from(writer.beyond_slop(halvings) == 0);
                let txg = live.syncer().groups().open().0;
                let taken = writer.space(|space| {
                    space.allocate(txg, Class::Normal, 1, |_| Some(128 << 10)).map(drop)
                });
                taken.expect("there is room");
            }
        };
        let change = async || {
            let set = SetAttributes { permissions: Some(0o700), ..SetAttributes::default() };
            real.setattr(Caller::default(), Node::ROOT, set).await.map(drop)
        };
        let set = async || {
            let value = Some(table::text("c"));
            task(&live, async |tasks| tasks.set_property(directory, "a:b", value).await).await
        };
        let a = number(&live, "tank/a").await;
        let destroy = async || task(&live, async |tasks| tasks.destroy(a).await).await;
        take_until(0);
        assert_eq!((change().await, set().await), (Ok(()), Ok(())));
        take_until(1);
        assert_eq!((change().await, set().await), (Ok(()), Err(TaskError::NoSpace)));
        take_until(2);
        assert_eq!(change().await, Err(InodeError::NoSpace));
        assert_eq!(destroy().await, Err(TaskError::NoSpace));
        live.close(LabelState::Exported).await.expect("it is closed");
    });
}

/// One that is full has no room for what it would keep.
#[test]
fn a_full_pool_takes_no_checkpoint() {
    fixtures::takes_long!();
    let rig = rig(&["zpool_checkpoint", "spacemap_histogram"]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = opened(spa, &fresh).await;
        let real = mount(&live).await;
        fill(&real, b"f").await;
        drop(real);
        let directory = node(&live, "tank").await.directory.number;
        let mut made = 0;
        let error = loop {
            let named = new(format!("d{made}"));
            match task(&live, async |tasks| tasks.create(directory, &named).await).await {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
            assert!(made < TRIED_MAX, "it is full");
        };
        assert_eq!(error, TaskError::NoSpace);
        assert_eq!(live.checkpoint().await, Err(CheckpointError::NoSpace));
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
