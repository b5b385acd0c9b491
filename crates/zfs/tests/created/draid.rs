//! dRAIDs that Spindle makes: groups that lie anywhere over the disks, blocks that fill rows, spare space.
//!
//! What could break: space that is counted beside the groups, a metaslab that begins amid one, columns that are too short to be
//! rebuilt from, spare space that OpenZFS does not know.

use super::{Model, Rig, USABLE, change, compare, features, files_over_groups, leaf, root_files};
use fixtures::extent::some;
use std::cell::RefCell;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs_format::features::Feature;
use zfs_format::vdev::{Draid, Vdev, VdevKind};
use zfs_store::vdev::draid::Layout;

/// A dRAID of files.
pub(super) fn draid(id: u64, draid: Draid, leaves: u64) -> Vdev {
    let guid = 1000 * (id + 1);
    let layout = Layout::new(&draid, leaves as usize).expect("the numbers fit");
    let mut top = Vdev::new(VdevKind::Draid(draid), id, guid);
    (top.ashift, top.asize, top.is_log) = (Some(12), Some(layout.asize(USABLE)), Some(0));
    top.children = (0..leaves).map(|child| leaf(child, guid + child + 1)).collect();
    top
}

/// What pools with dRAIDs have.
pub(super) fn with_draid() -> Vec<&'static str> {
    features().into_iter().chain(Feature::named("draid").map(|feature| feature.guid)).collect()
}

const ONE: Draid = Draid { parity: 1, data: 2, spares: 1, groups: 4 };
const TWO: Draid = Draid { parity: 2, data: 3, spares: 0, groups: 6 };

#[test]
fn files_over_draids_are_what_was_written() {
    fixtures::takes_long!();
    for (seed, tops) in some([(3, draid(0, ONE, 5)), (4, draid(0, TWO, 6))], 1) {
        files_over_groups(seed, Rig::with_features(vec![tops], with_draid()));
    }
}

#[test]
fn a_draid_is_read_and_written_without_as_many_disks_as_it_has_parities() {
    fixtures::takes_long!();
    for (kind, leaves, away) in [(ONE, 5, &[2][..]), (TWO, 6, &[0, 5])] {
        let rig = Rig::with_features(vec![draid(0, kind, leaves)], with_draid());
        let model: Rc<RefCell<Model>> = Rc::default();
        let left: Vec<_> = rig.devices().into_iter().enumerate().collect();
        let left = move || {
            let kept = left.iter().filter(|(number, _)| !away.contains(number));
            kept.map(|(_, (_, device))| Rc::clone(device)).collect::<Vec<_>>()
        };
        let all: Vec<_> = rig.devices().into_values().collect();
        for (seed, devices) in [(1, all), (2, left())] {
            let model = Rc::clone(&model);
            rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
                let live = Live::open(spa, &fresh).await.expect("it opens for writing");
                let catalog = live.spa().catalog(0).await.expect("it is read");
                let node = catalog.root().await.expect("it is there");
                let objset = live.objset(&node).await.expect("it opens");
                let files = FileSystem::open(&objset).await.expect("it is one");
                compare(&files, &model.borrow()).await;
                let mut random = Prng::new(seed);
                for _ in 0..40 {
                    change(&files, &mut model.borrow_mut(), &mut random).await;
                }
                live.close(LabelState::Exported).await.expect("it is closed");
            });
        }
        let kept = Rc::clone(&model);
        rig.with_devices(left(), async move |spa: Rc<Spa>, _| {
            compare(&root_files(&spa).await, &kept.borrow()).await;
        });
        // What came back does not have what was written without it, and is not asked for it.
        rig.with(async move |spa: Rc<Spa>, _| {
            compare(&root_files(&spa).await, &model.borrow()).await;
        });
        rig.judge();
    }
}
