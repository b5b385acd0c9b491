//! A spare that failed.
//!
//! What could break: it can't be told that it failed, so its own superblock calls it a spare for ever. Whoever opens the
//! set next would take its word, and rebuild a member on it.

use super::{choose, devices, disks, live, new};
use crate::rig::runtime;
use md::assemble::Why;
use md::create::NewArray;
use md::live::{Added, LiveArray};
use md::superblock::{Role, Uuid};
use md::{Level, MemberState, SyncPriority};

/// The numbers of a set's spares.
fn spares(set: &LiveArray) -> Vec<usize> {
    let spare = |one: &md::live::DeviceReport| one.state == MemberState::Spare;
    set.devices().iter().filter(|one| spare(one)).map(|one| one.number).collect()
}

#[test]
fn a_spare_that_failed_stays_failed_after_a_restart_until_it_is_added_again() {
    for (level, slots) in super::SHAPES {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let new = NewArray { assume_clean: true, ..new(level, slots) };
            let disks = disks(&new, slots + 1, 3);
            let set = live(&rt, &devices(&disks), false).await.expect("opened");
            assert_eq!(spares(&set), [slots], "{level}");
            set.fail_number(slots).await.expect("recorded");
            assert!(spares(&set).is_empty());
            set.stop().await.expect("stopped");

            let choice = choose(&devices(&disks)).await;
            assert!(choice.spares.is_empty(), "{level}: it is no spare");
            let left: Vec<(String, Why)> =
                choice.left_out.iter().map(|one| (one.found.name(), one.why)).collect();
            assert_eq!(left, [(format!("disk{slots}."), Why::Faulty)], "{level}");
            let found = choice.left_out[0].found.clone();
            let own = found.superblock.role();
            assert_eq!(own, Some(Role::Spare), "{level}: it could not be told");

            let set = live(&rt, &devices(&disks), false).await.expect("opened");
            set.fail(0).await.expect("recorded");
            assert!(set.needs_rebuild().is_empty(), "{level}: nothing is rebuilt on it");
            let device = devices(&disks).remove(slots);
            let added = set.add(device, Some(found), Uuid([99; 16])).await;
            assert_eq!(added, Ok(Added::Spare), "{level}");
            assert_eq!(set.needs_rebuild(), [0], "{level}: somebody said that it is good");
            set.rebuild(0, SyncPriority::High).await.expect("rebuilt");
            set.stop().await.expect("stopped");
            let choice = choose(&devices(&disks)).await;
            let name = choice.slots[0].as_ref().map(|found| found.name());
            assert_eq!(name, Some(format!("disk{slots}.")), "{level}");
        };
        runtime.block_on(test).expect("it does not stall");
    }
}

#[test]
fn a_spare_that_was_only_away_comes_back_as_a_spare() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let new = NewArray { assume_clean: true, ..new(Level::Raid5, 4) };
        let disks = disks(&new, 5, 3);
        let set = live(&rt, &devices(&disks[..4]), false).await.expect("opened");
        super::write(&set.device(), 1, 1).await.expect("written");
        set.stop().await.expect("stopped");
        let set = live(&rt, &devices(&disks), false).await.expect("opened");
        assert_eq!(spares(&set), [4]);
        set.stop().await.expect("stopped");
    };
    runtime.block_on(test).expect("it does not stall");
}
