//! Names and values that are too long, or can't be: refused before anything is changed, and the pool goes on.
//!
//! What could break: a group that ends in the middle, since a table doesn't take what a task puts into it; a name that OpenZFS
//! has no room for, at which it ends; one that is refused though it fits.

use super::datasets::{node, number, task};
use super::{Rig, features, top};
use std::rc::Rc;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::create::{CreateError, NewPool, create, root_of};
use zfs::spa::datasets::bookmarks::BookmarkSource;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::datasets::limits::NESTING_MAX;
use zfs::spa::datasets::{NameError, NewDataset, TaskError};
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs_format::vdev::VdevKind;
use zfs_format::zap::leaf::LeafValue;

fn letters(count: usize) -> String {
    "a".repeat(count)
}

fn new(name: &str, properties: &[(String, LeafValue)]) -> NewDataset {
    NewDataset { name: name.to_owned(), owner: (0, 0), properties: properties.to_vec() }
}

/// Properties that can't be set, and why.
fn refused_properties() -> Vec<(String, String, TaskError)> {
    let (one, user) = (|| "1".to_owned(), || "a:b".to_owned());
    let mountpoint = || "mountpoint".to_owned();
    vec![
        (String::new(), one(), TaskError::Name(NameError::Empty)),
        (format!("a:{}", letters(254)), one(), TaskError::PropertyNameLong),
        (format!("a:{}", letters(2000)), one(), TaskError::PropertyNameLong),
        ("A:b".to_owned(), one(), TaskError::PropertyName('A')),
        ("a:b\n".to_owned(), one(), TaskError::PropertyName('\n')),
        (user(), letters(8192), TaskError::ValueLong),
        (user(), letters(9000), TaskError::ValueLong),
        (mountpoint(), format!("/{}", letters(1023)), TaskError::ValueLong),
        (mountpoint(), "/a\nb".to_owned(), TaskError::Mountpoint),
        (mountpoint(), "/../..".to_owned(), TaskError::Mountpoint),
        (mountpoint(), "a".to_owned(), TaskError::Mountpoint),
    ]
}

#[test]
fn properties_that_can_not_be_are_refused_and_the_pool_goes_on() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let root = node(&live, "tank").await;
        let (directory, head) = (root.directory.number, root.head.number);
        let snapshot = task(&live, async |tasks| tasks.snapshot(head, "s").await).await;
        let snapshot = snapshot.expect("it is taken");
        for (name, value, why) in refused_properties() {
            let value = table::text(&value);
            let properties = vec![(name.clone(), value.clone())];
            let of_dataset = task(&live, async |tasks| {
                tasks.set_property(directory, &name, Some(value.clone())).await
            });
            assert_eq!(of_dataset.await, Err(why.clone()), "{name}");
            let of_pool = task(&live, async |tasks| {
                tasks.set_pool_property(&name, Some(value.clone()), "x").await
            });
            assert_eq!(of_pool.await, Err(why.clone()), "{name}");
            let child = new("child", &properties);
            let made = task(&live, async |tasks| tasks.create(directory, &child).await);
            assert_eq!(made.await, Err(why.clone()), "{name}");
            let clone = NewClone { name: "clone".to_owned(), properties };
            let made = task(&live, async |tasks| tasks.clone(snapshot, directory, &clone).await);
            assert_eq!(made.await, Err(why), "{name}");
        }
        // As long as they may be.
        let longest = format!("a:{}", letters(253));
        let path = format!("/{}", letters(1022));
        for (name, value) in [(longest.as_str(), letters(8191)), ("mountpoint", path)] {
            let value = table::text(&value);
            let set = task(&live, async |tasks| {
                tasks.set_property(directory, name, Some(value.clone())).await
            });
            set.await.expect("it is set");
        }
        let child = new("child", &[(longest.clone(), table::text(&letters(8191)))]);
        let made = task(&live, async |tasks| tasks.create(directory, &child).await);
        made.await.expect("it is made");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

#[test]
fn names_that_are_too_long_are_refused_and_the_pool_goes_on() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let root = node(&live, "tank").await;
        let (directory, head) = (root.directory.number, root.head.number);
        let snapshot = task(&live, async |tasks| tasks.snapshot(head, "s").await).await;
        let snapshot = snapshot.expect("it is taken");
        // Behind `tank` and a mark there is room for 250.
        for len in [251, 256, 2000] {
            let name = letters(len);
            let long = || Err::<(), _>(TaskError::Long);
            let child = new(&name, &[]);
            let made = task(&live, async |tasks| tasks.create(directory, &child).await);
            assert_eq!(made.await.map(drop), long(), "{len}");
            let clone = NewClone { name: name.clone(), properties: Vec::new() };
            let made = task(&live, async |tasks| tasks.clone(snapshot, directory, &clone).await);
            assert_eq!(made.await.map(drop), long(), "{len}");
            let taken = task(&live, async |tasks| tasks.snapshot(head, &name).await);
            assert_eq!(taken.await.map(drop), long(), "{len}");
            let renamed = task(&live, async |tasks| tasks.rename_snapshot(head, "s", &name).await);
            assert_eq!(renamed.await.map(drop), long(), "{len}");
            let source = BookmarkSource::Snapshot(snapshot);
            let marked = task(&live, async |tasks| tasks.bookmark(head, &name, &source).await);
            assert_eq!(marked.await, long(), "{len}");
        }
        for (tag, why) in [(String::new(), TaskError::TagEmpty), (letters(256), TaskError::TagLong)]
        {
            let held = task(&live, async |tasks| tasks.hold(snapshot, &tag).await);
            assert_eq!(held.await, Err(why));
        }
        // As long as they may be.
        let name = letters(250);
        let child = new(&name, &[]);
        let made = task(&live, async |tasks| tasks.create(directory, &child).await);
        made.await.expect("it is made");
        let taken = task(&live, async |tasks| tasks.snapshot(head, &name).await);
        taken.await.expect("it is taken");
        let source = BookmarkSource::Snapshot(snapshot);
        let marked = task(&live, async |tasks| tasks.bookmark(head, &name, &source).await);
        marked.await.expect("it is made");
        let tag = letters(255);
        let held = task(&live, async |tasks| tasks.hold(snapshot, &tag).await);
        held.await.expect("it is held");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

#[test]
fn what_lies_below_a_longer_name_has_to_fit_too() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let above = node(&live, "tank").await.directory.number;
        let short = new("a", &[]);
        let made = task(&live, async |tasks| tasks.create(above, &short).await);
        let head = made.await.expect("it is made");
        // With `tank/a@` 255.
        let name = letters(248);
        let taken = task(&live, async |tasks| tasks.snapshot(head, &name).await);
        let snapshot = taken.await.expect("it is taken");
        let directory = node(&live, "tank/a").await.directory.number;
        let renamed = task(&live, async |tasks| tasks.rename(directory, above, "ab", 4).await);
        assert_eq!(renamed.await, Err(TaskError::Long));
        let clone = NewClone { name: "ab".to_owned(), properties: Vec::new() };
        let made = task(&live, async |tasks| tasks.clone(snapshot, above, &clone).await);
        let clone = made.await.expect("it is made");
        let promoted = task(&live, async |tasks| tasks.promote(clone).await);
        assert_eq!(promoted.await, Err(TaskError::Long));
        let renamed = task(&live, async |tasks| tasks.rename(directory, above, "b", 4).await);
        renamed.await.expect("it has another name");
        assert_eq!(number(&live, "tank/b").await, head);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A pool over what a rig has.
fn make_pool(rig: &Rig, name: &str, properties: &[(String, LeafValue)]) -> Result<(), CreateError> {
    let new = NewPool {
        name: name.to_owned(),
        root: root_of(77, vec![top(0, VdevKind::File, 1)]),
        spares: Vec::new(),
        cache: Vec::new(),
        features: features(),
        state: LabelState::Exported,
        host: None,
        comment: None,
        compatibility: None,
        settings: Vec::new(),
        owner: (0, 0),
        properties: properties.to_vec(),
    };
    let (rt, devices, fresh) = (rig.runtime.handle(), rig.devices(), Rc::clone(&rig.fresh));
    let made = async move { create(&rt, new, &devices, &fresh).await };
    rig.runtime.block_on(made).expect("it ends")
}

#[test]
fn a_pool_that_can_not_be_is_not_made_and_what_was_there_stays() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    assert_eq!(make_pool(&rig, &letters(240), &[]), Err(CreateError::NameLong));
    for (name, value, why) in refused_properties() {
        let properties = [(name, table::text(&value))];
        assert_eq!(make_pool(&rig, "other", &properties), Err(CreateError::Property(why)));
    }
    rig.judge();
    let longest = [(format!("a:{}", letters(253)), table::text(&letters(8191)))];
    assert_eq!(make_pool(&rig, &letters(239), &longest), Ok(()));
    rig.judge_pool(&letters(239));
}

/// OpenZFS's kernel goes down a tree by recursion, and bounds it.
#[test]
fn datasets_that_would_lie_too_deep_are_refused() {
    fixtures::takes_long!();
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut name = String::from("tank");
        for _ in 0..NESTING_MAX {
            let above = node(&live, &name).await.directory.number;
            task(&live, async |tasks| tasks.create(above, &new("d", &[])).await)
                .await
                .expect("it is made");
            name += "/d";
        }
        let (root, last) = (node(&live, "tank").await, node(&live, &name).await.directory.number);
        let (root, head) = (root.directory.number, root.head.number);
        let deep = || Err::<(), _>(TaskError::Deep);
        let made = task(&live, async |tasks| tasks.create(last, &new("d", &[])).await);
        assert_eq!(made.await.map(drop), deep());
        let snapshot = task(&live, async |tasks| tasks.snapshot(head, "s").await).await;
        let snapshot = snapshot.expect("it is taken");
        let clone = NewClone { name: "c".into(), properties: Vec::new() };
        let made = task(&live, async |tasks| tasks.clone(snapshot, last, &clone).await);
        assert_eq!(made.await.map(drop), deep());
        // What has something below it counts with that.
        for name in ["e", "f"] {
            let above =
                if name == "e" { root } else { node(&live, "tank/e").await.directory.number };
            task(&live, async |tasks| tasks.create(above, &new(name, &[])).await)
                .await
                .expect("it is made");
        }
        let above = node(&live, name.rsplit_once('/').expect("it has one").0).await;
        let moved = node(&live, "tank/e").await.directory.number;
        let renamed =
            task(&live, async |tasks| tasks.rename(moved, above.directory.number, "e", 4).await);
        assert_eq!(renamed.await.map(drop), deep());
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
