//! Halves of a set that went on without each other.
//!
//! What could break: one half that wins without a word, a member that only failed and is called a half, nothing that
//! opens either half.

use super::{choose, devices, live, new, read, resynchronised, write};
use crate::rig::runtime;
use md::Level;
use md::assemble::{self, AssembleError, Choice};
use md::create::NewArray;
use rt::{DeviceRef, Rt};

/// A set of which each half was written alone, so many times.
async fn halves(rt: &Rt, new: &NewArray, writes: [u64; 2]) -> Vec<DeviceRef> {
    let all = devices(&resynchronised(rt, new, new.slots, 3).await);
    for (half, writes) in writes.into_iter().enumerate() {
        let own: Vec<DeviceRef> = all.iter().skip(half).step_by(2).cloned().collect();
        let set = live(rt, &own, true).await.expect("half of the copies are enough");
        for n in 0..writes {
            write(&set.device(), 5, 100 * (half as u64 + 1) + n).await.expect("written");
            rt.sleep(md::live::QUIET * 3).await;
        }
        set.stop().await.expect("stopped");
    }
    all
}

async fn chosen(devices: &[DeviceRef]) -> Result<Choice, AssembleError> {
    let mut found = Vec::new();
    for device in devices {
        found.extend(assemble::find(device).await.expect("readable"));
    }
    let (set, found) = assemble::sets(found).pop_first().expect("a set");
    Choice::of(set, found)
}

#[test]
fn the_half_with_fewer_events_is_named_and_opens_alone() {
    for (level, slots) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let all = halves(&rt, &new(level, slots), [1, 4]).await;
            let choice = chosen(&all).await.expect("one has more events");
            let apart: Vec<(String, String)> = choice
                .apart()
                .into_iter()
                .map(|(left, member)| (left.found.name(), member.name()))
                .collect();
            let name = |n: usize| (format!("disk{n}."), "disk1.".to_owned());
            let expected: Vec<_> = (0..slots).step_by(2).map(name).collect();
            assert_eq!(apart, expected, "{level}");
            let own: Vec<DeviceRef> = all.iter().step_by(2).cloned().collect();
            let set = live(&rt, &own, false).await.expect("alone");
            assert_eq!(read(&*set.device(), 5).await, Some(100), "{level}");
        };
        runtime.block_on(test).expect("it ends");
    }
}

#[test]
fn between_halves_with_as_many_events_nothing_chooses() {
    for (level, slots) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let mut all = halves(&rt, &new(level, slots), [2, 2]).await;
            let refused = chosen(&all).await.err().expect("refused");
            let text = refused.to_string();
            let AssembleError::Apart { own, other, .. } = refused else { panic!("{text}") };
            let names = |half: usize| -> Vec<String> {
                (half..slots).step_by(2).map(|n| format!("disk{n}.")).collect()
            };
            assert_eq!((own, other), (names(0), names(1)), "{level}");
            assert!(text.contains("-d disk0.") && text.contains("-d disk1."), "{text}");
            all.reverse();
            assert!(matches!(chosen(&all).await, Err(AssembleError::Apart { .. })), "{level}");
            for half in 0..2 {
                let own: Vec<DeviceRef> = all.iter().rev().skip(half).step_by(2).cloned().collect();
                chosen(&own).await.expect("alone it is the set");
            }
        };
        runtime.block_on(test).expect("it ends");
    }
}

/// Who failed while another one was away knows nothing of that one; it is no half all the same.
#[test]
fn a_member_that_failed_while_another_was_away_is_no_half() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let all = devices(&resynchronised(&rt, &new(Level::Raid1, 3), 4, 3).await);
        let set = live(&rt, &all, false).await.expect("opened");
        set.fail(1).await.expect("recorded");
        write(&set.device(), 5, 5).await.expect("written");
        set.fail(2).await.expect("recorded");
        set.rebuild(1, md::SyncPriority::High).await.expect("rebuilt on the spare");
        set.stop().await.expect("stopped");
        let choice = choose(&all).await;
        assert_eq!((choice.left_out.len(), choice.apart().len()), (2, 0));
    };
    runtime.block_on(test).expect("it ends");
}
