//! Bookmarks that say what was freed before the next snapshot: what they tell is held against a walk.
//!
//! What could break: what dies before there is another snapshot, after there is one, when that goes, when the bookmark's own goes; a
//! key of a deadlist that is missing when it is asked for, or stays; a bookmark that moves with a promotion, or whose head is
//! taken back; counts of the feature.

use super::datasets::{files, in_random_order_over, node, number, task};
use super::{Model, Rig, change, features, top};
use fixtures::extent::some;
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::bpobj::Sums;
use zfs::dsl::deadlist::Deadlist;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::datasets::bookmarks::BookmarkSource;
use zfs::spa::live::Live;
use zfs_format::features::Feature;
use zfs_format::vdev::VdevKind;

const FEATURE: &str = "bookmark_written";

fn rig(more: &[&str]) -> Rig {
    let guid = |name: &&str| Feature::named(name).expect("it is known").guid;
    let all = features().into_iter().chain([FEATURE].iter().chain(more).map(guid)).collect();
    Rig::with_features(vec![top(0, VdevKind::File, 1)], all)
}

/// What is told as written since each bookmark is what a walk meets that was born since. Says how many bookmarks tell it.
pub(crate) async fn check_marks(spa: &Spa) -> usize {
    let catalog = spa.catalog(0).await.expect("it is read");
    let dsl = spa.dsl();
    let mut checked = 0;
    for directory in dsl.below(dsl.root().await.expect("read")).await.expect("read") {
        let node = catalog.find(&directory.name).await.expect("read").expect("it is there");
        for mark in catalog.bookmarks(&node).await.expect("read") {
            let short = mark.name.split_once('#').expect("a bookmark").1;
            let told = catalog.written_since_bookmark(&node, short).await.expect("it is read");
            let Some(told) = told else { continue };
            let since = mark.numbers["createtxg"];
            let (mut met, mut walk) =
                (0, spa.walk_dataset(node.head.number, &node.head.head, since));
            while let Some(visited) = walk.next().await {
                met += Sums::of(spa.tree(), &visited.expect("it is read").pointer).used;
            }
            assert_eq!(told as i64, met, "{}", mark.name);
            checked += 1;
        }
    }
    checked
}

async fn uses(live: &Live) -> u64 {
    let uses = task(live, async |tasks| Ok(Ok(tasks.maker.uses(FEATURE).await?))).await;
    uses.expect("it is told").expect("it is enabled")
}

async fn snapshot(live: &Live, name: &str) {
    let head = number(live, "tank/a").await;
    task(live, async |tasks| tasks.snapshot(head, name).await).await.expect("it is taken");
}

async fn destroy(live: &Live, name: &str) {
    let object = number(live, &format!("tank/a@{name}")).await;
    let done = task(live, async |tasks| tasks.destroy_snapshot(object, false).await).await;
    done.expect("it goes");
}

async fn bookmark(live: &Live, of: &str, name: &str) {
    let head = number(live, "tank/a").await;
    let source = BookmarkSource::Snapshot(number(live, &format!("tank/a@{of}")).await);
    let done = task(live, async |tasks| tasks.bookmark(head, name, &source).await).await;
    done.expect("it is made");
}

async fn unmark(live: &Live, name: &str) {
    let head = number(live, "tank/a").await;
    let done = task(live, async |tasks| tasks.destroy_bookmark(head, name).await).await;
    done.expect("it goes");
}

async fn keys(live: &Live) -> BTreeSet<u64> {
    let deadlist = node(live, "tank/a").await.head.head.deadlist;
    let keys = task(live, async |tasks| {
        Ok(Ok(Deadlist::open(tasks.maker, deadlist).await?.keys().collect()))
    });
    keys.await.expect("it is told")
}

/// Bookmarks of snapshots that stay, that go before the next is taken, and after.
#[test]
fn what_was_written_since_a_bookmark_is_told_when_its_snapshot_is_gone() {
    fixtures::takes_long!();
    let rig = rig(&[]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let new = NewDataset { name: "a".to_owned(), owner: (0, 0), properties: Vec::new() };
        let above = node(&live, "tank").await.directory.number;
        task(&live, async |tasks| tasks.create(above, &new).await).await.expect("it is made");
        let (mut model, mut random) = (Model::new(), Prng::new(5));
        let mut marks = 0;
        for round in 0..12 {
            let fs = files(&live, "tank/a").await;
            for _ in 0..8 {
                change(&fs, &mut model, &mut random).await;
            }
            drop(fs);
            live.sync(async |_| Ok(())).await.expect("it is written");
            assert_eq!(check_marks(live.spa()).await, marks);
            let name = format!("s{round}");
            match round {
                // One that is there to the end, and whose bookmark is.
                0 | 4 => {
                    snapshot(&live, &name).await;
                    bookmark(&live, &name, &format!("b{round}")).await;
                    marks += 1;
                }
                // One that goes before the next is taken, with two bookmarks.
                1 | 5 | 8 => {
                    snapshot(&live, &name).await;
                    bookmark(&live, &name, &format!("b{round}")).await;
                    bookmark(&live, &name, &format!("c{round}")).await;
                    destroy(&live, &name).await;
                    marks += 2;
                }
                2 | 6 | 9 => snapshot(&live, &name).await,
                3 => destroy(&live, "s2").await,
                7 => {
                    bookmark(&live, "s6", "late").await;
                    marks += 1;
                    destroy(&live, "s4").await;
                    assert_eq!(check_marks(live.spa()).await, marks);
                    destroy(&live, "s6").await;
                }
                10 => {
                    let (head, last) =
                        (number(&live, "tank/a").await, number(&live, "tank/a@s9").await);
                    bookmark(&live, "s9", "last").await;
                    marks += 1;
                    let done = task(&live, async |tasks| tasks.rollback(head, last).await).await;
                    done.expect("it goes back");
                    let fs = files(&live, "tank/a").await;
                    let root = fs.root().await.expect("it is read");
                    let there = fs.names(&root).await.expect("they are read");
                    let there: BTreeSet<u64> = there.iter().map(|n| n.entry.object).collect();
                    for number in &there {
                        let name = format!("file {number}").into_bytes();
                        fs.unlink(fs.root_number(), &name).await.expect("it goes");
                    }
                    model.clear();
                }
                _ => {}
            }
            assert_eq!(uses(&live).await, marks as u64);
        }
        let with = keys(&live).await;
        for name in ["b5", "c5", "b8"] {
            unmark(&live, name).await;
        }
        let without = keys(&live).await;
        assert_eq!(with.len(), without.len() + 1, "c8 needs its moment, b5 and c5 theirs no more");
        unmark(&live, "c8").await;
        assert_eq!(keys(&live).await.len(), without.len() - 1);
        assert_eq!(check_marks(live.spa()).await, marks - 4);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        destroy(&live, "s0").await;
        destroy(&live, "s9").await;
        check_marks(live.spa()).await;
        let head = number(&live, "tank/a").await;
        task(&live, async |tasks| tasks.destroy(head).await).await.expect("it goes");
        assert_eq!(uses(&live).await, 0);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Datasets of all kinds, with livelists as well: what bookmarks tell is checked with the books.
#[test]
fn bookmarks_of_datasets_in_random_order_tell_what_was_written_since() {
    fixtures::takes_long!();
    for seed in some([41, 42], 1) {
        in_random_order_over(&rig(&["livelist"]), seed, 30);
    }
}
