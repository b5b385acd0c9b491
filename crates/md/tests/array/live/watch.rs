//! What is told of a set that is open: changes, losses and their reasons, what is under way.
//!
//! What could break: a loss that wakes nobody, one that is told without its reason or with another's, a spare or a
//! replacement that is lost without a word, a device that is held open after it was removed.

use super::{devices, disks, live, new, write};
use crate::rig::runtime;
use futures_util::future::{Either, select};
use md::create::{NewArray, Policy};
use md::live::{Activity, LiveArray, UnderWay};
use md::{Cause, Level, MemberState, Metadata, SyncPriority};
use rt::filter::{Effect, Fault, Rule};
use rt::{DeviceRef, IoErrorKind, OpKind, Rt};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;

/// A set whose disks can fail.
async fn fragile(rt: &Rt, new: &NewArray, count: usize) -> (LiveArray, Vec<Rc<Fault>>) {
    let disks = disks(new, count, 1);
    let fragile = |disk: DeviceRef| Fault::new(disk, rt, Prng::new(1));
    let faults: Vec<Rc<Fault>> = devices(&disks).into_iter().map(fragile).collect();
    let given: Vec<DeviceRef> = faults.iter().map(|fault| Rc::clone(fault) as _).collect();
    (live(rt, &given, false).await.expect("opened"), faults)
}

fn clean(level: Level, slots: usize) -> NewArray {
    NewArray { assume_clean: true, ..new(level, slots) }
}

fn no_writes(kind: IoErrorKind) -> Rule {
    Rule::new(Effect::Fail(kind)).on(&[OpKind::Write, OpKind::WriteZeroes])
}

/// Whether a change wakes who waits for it, where `io` makes one.
async fn wakes(rt: &Rt, set: &LiveArray, io: impl AsyncFnOnce()) -> bool {
    let changed = pin!(set.changed());
    io().await;
    let late = pin!(rt.sleep(Duration::from_secs(1)));
    matches!(select(changed, late).await, Either::Left(_))
}

#[test]
fn who_waits_is_woken_by_a_member_that_fails_and_learns_why() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (set, faults) = fragile(&rt, &clean(Level::Raid5, 4), 5).await;
        let array = set.device();
        // Now the superblocks say "dirty", so the next write goes to data alone.
        write(&array, 1, 1).await.expect("written");
        assert!(!wakes(&rt, &set, async || write(&array, 2, 2).await.expect("written")).await);
        assert!(set.losses(0).is_empty() && set.survives_another_loss());

        write(&array, 3, 3).await.expect("written");
        let rule = faults[1].add(no_writes(IoErrorKind::NoSpace));
        let many = async || {
            for block in 0..64 {
                write(&array, block, block).await.expect("the others take it");
            }
        };
        assert!(wakes(&rt, &set, many).await);
        assert!(faults[1].hits(rule) > 0);
        let losses = set.losses(0);
        assert_eq!(losses.len(), 1, "{losses:?}");
        let cause = Cause::Io { op: OpKind::Write, kind: IoErrorKind::NoSpace };
        assert_eq!((losses[0].slot, losses[0].was), (Some(1), MemberState::Active));
        assert_eq!((&*losses[0].device, losses[0].cause), ("disk1.", cause));
        assert_eq!(cause.to_string(), "write: no space left");
        assert_eq!(set.array().members()[1].lost, Some(cause));
        assert!(set.losses(losses[0].number).is_empty(), "told once");
        assert!(!set.survives_another_loss() && !set.has_failed());
        let failed = |set: &LiveArray| {
            let all = set.devices().into_iter();
            all.filter(|one| one.state == MemberState::Failed).map(|one| one.number).collect()
        };
        let lost: Vec<usize> = failed(&set);
        assert_eq!(lost, [1]);

        assert_eq!(set.under_way(), None);
        set.begin_rebuild(1).await.expect("there is a spare");
        let percent = 0;
        assert_eq!(set.under_way(), Some(UnderWay { activity: Activity::Rebuild, percent }));
        let rebuild = async || set.rebuild(1, SyncPriority::High).await.expect("rebuilt");
        assert!(wakes(&rt, &set, rebuild).await, "it is whole again");
        assert_eq!(set.under_way(), None);
        assert!(set.survives_another_loss());
        set.remove_number(1).await.expect("forgotten");
        let lost: Vec<usize> = failed(&set);
        assert!(lost.is_empty());
        set.stop().await.expect("stopped");
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn spares_and_replacements_that_are_lost_are_told_too() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (set, faults) = fragile(&rt, &clean(Level::Raid1, 2), 4).await;
        let array = set.device();
        faults[2].add(no_writes(IoErrorKind::Gone));
        // The superblocks are to say "dirty", also those of spares.
        assert!(wakes(&rt, &set, async || write(&array, 1, 1).await.expect("written")).await);
        let losses = set.losses(0);
        let cause = Cause::Metadata { what: Metadata::Superblock, kind: IoErrorKind::Gone };
        assert_eq!((losses.len(), losses[0].slot, losses[0].was), (1, None, MemberState::Spare));
        assert_eq!((&*losses[0].device, losses[0].cause), ("disk2.", cause));

        set.begin_replace(0, None).await.expect("a spare is left");
        let rule = faults[3].add(no_writes(IoErrorKind::Os(5)));
        assert!(set.replace(0, SyncPriority::High).await.is_err());
        assert!(faults[3].hits(rule) > 0);
        let losses = set.losses(losses[0].number);
        assert_eq!((losses.len(), losses[0].slot), (1, Some(0)));
        assert_eq!((losses[0].was, &*losses[0].device), (MemberState::Replacement, "disk3."));
        assert_eq!(set.array().members()[0].lost, None, "the slot has its member");

        set.fail(1).await.expect("recorded");
        let by_hand = &set.losses(losses[0].number)[0];
        assert_eq!((by_hand.cause, &*by_hand.device), (Cause::ByHand, "disk1."));
        assert!(!set.survives_another_loss());
        set.stop().await.expect("stopped");
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn a_set_that_lost_more_than_it_can_do_without_says_so_and_a_removed_device_is_let_go() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let new = NewArray { policy: Policy::Ppl, ..clean(Level::Raid5, 3) };
        let (set, faults) = fragile(&rt, &new, 4).await;
        let array = set.device();
        write(&array, 1, 1).await.expect("written");
        set.fail(0).await.expect("recorded");
        set.remove_number(0).await.expect("forgotten");
        rt.sleep(md::live::QUIET * 3).await;
        assert_eq!(Rc::strong_count(&faults[0]), 1, "nothing of the set holds it open");
        // The spare may leave, a member not.
        set.remove_number(3).await.expect("a spare");
        assert!(set.remove_number(1).await.is_err());
        assert!(set.begin_rebuild(0).await.is_err(), "no spare is left");
        assert!(!set.has_failed());
        faults[1].go_away();
        for block in 0..64 {
            // None of them can be whole any more.
            let _ = write(&array, block, block).await;
        }
        assert!(set.has_failed());
        assert_eq!(set.losses(0).len(), 2);
    };
    runtime.block_on(test).expect("it ends");
}
