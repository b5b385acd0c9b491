//! Superblocks of one set that say different things of it, each with a right checksum.
//!
//! What could break: the first device's word is believed, content is read at the wrong places with success, and the
//! next write copies the odd word to the others. Or too much is refused: a set whose superblocks were being written when
//! the power went, one with a device that was left behind and is simply old.

use super::*;
use md::assemble::{AssembleError, Found, OpenArray, OpenOptions, Superblock, Why};
use md::create::Policy;
use md::superblock::v1::SuperblockV1;
use md::superblock::{ALL_SECTORS, Features, Role, SUPERBLOCK_BYTES};

const PLACE: Offset = Offset(4096);

fn superblock_of(disk: &MemoryDevice) -> SuperblockV1 {
    let bytes = disk.peek(PLACE, ByteCount(SUPERBLOCK_BYTES as u64)).to_vec();
    SuperblockV1::decode(&bytes).expect("a superblock")
}

/// Changes what a disk's superblock says.
fn say(disk: &MemoryDevice, change: impl FnOnce(&mut SuperblockV1)) {
    let mut superblock = superblock_of(disk);
    change(&mut superblock);
    disk.poke(PLACE, &Buf::copy_of(&superblock.encode()).into());
}

async fn found(disks: &[Rc<MemoryDevice>]) -> Vec<Found> {
    let mut all = Vec::new();
    for disk in devices(disks) {
        all.extend(assemble::find(&disk).await.expect("readable"));
    }
    all
}

async fn chosen(disks: &[Rc<MemoryDevice>]) -> Result<Choice, AssembleError> {
    Choice::of(Uuid([7; 16]), found(disks).await)
}

fn clean(level: Level, slots: usize) -> NewArray {
    NewArray { assume_clean: true, ..new(level, slots) }
}

/// One wrong word.
type Word = (&'static str, fn(&mut SuperblockV1));

const WORDS: [Word; 11] = [
    ("creation time", |sb| sb.created.0 += 1),
    ("level", |sb| sb.level = 4),
    ("chunk", |sb| sb.chunk *= 2),
    ("layout", |sb| sb.layout = 0),
    ("number of slots", |sb| sb.slots += 1),
    ("size of each member", |sb| sb.size -= 8),
    ("consistency policy", |sb| {
        sb.features = sb.features.with(Features::BITMAP, true);
        sb.bitmap_or_ppl = 8_i32.to_le_bytes();
    }),
    ("consistency policy", |sb| sb.features = sb.features | Features::JOURNAL),
    ("reshape", |sb| {
        sb.features = sb.features | Features::RESHAPE_ACTIVE;
        sb.reshape.new_level = sb.level;
        sb.reshape.new_chunk = sb.chunk;
        sb.reshape.new_layout = sb.layout;
        sb.reshape.position = 4096;
    }),
    ("table of roles", |sb| sb.roles[1] = Role::Faulty),
    ("table of roles", |sb| sb.roles.swap(1, 2)),
];

#[test]
fn one_superblock_that_contradicts_the_others_is_named_whoever_it_is() {
    let runtime = crate::rig::runtime();
    let done = runtime.block_on(async {
        for (fact, change) in WORDS {
            for odd in 0..4 {
                let disks = disks(&clean(Level::Raid5, 3), 4, 1);
                say(&disks[odd], change);
                let Err(error) = chosen(&disks).await else {
                    panic!("{fact} of disk {odd} was believed");
                };
                let AssembleError::Contradiction { fact: told, odd: names, is_majority, .. } =
                    &error
                else {
                    panic!("{fact} of disk {odd}: {error}");
                };
                let names: Vec<&String> = names.iter().flat_map(|(_, names)| names).collect();
                assert_eq!((*told, *is_majority), (fact, true), "{error}");
                assert_eq!(names, [&format!("disk{odd}.")], "{error}");
                // Without it the others are a set.
                let mut others = disks.clone();
                others.remove(odd);
                chosen(&others).await.unwrap_or_else(|error| panic!("{fact}, {odd}: {error}"));
            }
        }
    });
    done.expect("all is done");
}

#[test]
fn of_two_superblocks_that_contradict_each_other_both_are_named_with_what_they_say() {
    let runtime = crate::rig::runtime();
    let done = runtime.block_on(async {
        let disks = disks(&clean(Level::Raid0, 2), 2, 1);
        say(&disks[0], |sb| sb.chunk *= 2);
        let text = chosen(&disks).await.err().expect("refused").to_string();
        for part in ["chunk", "disk0. says 32 KiB", "disk1. says 16 KiB", "nothing tells"] {
            assert!(text.contains(part), "{text}");
        }
    });
    done.expect("all is done");
}

/// Whether a set takes it, and what the odd one says.
type Step = (bool, fn(&mut SuperblockV1));

#[test]
fn a_step_that_was_cut_off_is_no_contradiction_and_one_that_no_set_takes_is() {
    let runtime = crate::rig::runtime();
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        // The odd one is one event further: superblocks were being written one after another.
        let steps: [Step; 8] = [
            (true, |_| {}),
            (true, |sb| sb.features = sb.features.with(Features::BITMAP, false)),
            (true, |sb| {
                sb.resync_offset = sb.size - 8;
                sb.size += 8;
            }),
            // Nothing says that the new part is to be made right.
            (false, |sb| sb.size += 8),
            (false, |sb| sb.size -= 8),
            (false, |sb| sb.chunk *= 2),
            (false, |sb| sb.layout = 0),
            (false, |sb| sb.slots += 1),
        ];
        for (n, (is_step, change)) in steps.into_iter().enumerate() {
            for odd in 0..3 {
                let new = NewArray {
                    policy: Policy::Bitmap,
                    size: Some(ByteCount::mib(4)),
                    ..clean(Level::Raid5, 3)
                };
                let disks = disks(&new, 3, 1);
                say(&disks[odd], change);
                say(&disks[odd], |sb| sb.events += 1);
                match (is_step, chosen(&disks).await) {
                    (true, Ok(choice)) => {
                        assert_eq!(choice.degraded(), 0);
                        // Its bitmap, which is made larger first, was not.
                        if n == 2 {
                            continue;
                        }
                        let options = LiveOptions::default();
                        let set = LiveArray::open(&rt, "live", choice, options).await;
                        set.expect("opens").stop().await.expect("stops");
                    }
                    (false, Err(AssembleError::Contradiction { .. })) => {}
                    (_, Ok(_)) => panic!("step {n} of disk {odd} was taken"),
                    (_, Err(error)) => panic!("step {n} of disk {odd}: {error}"),
                }
            }
        }
    });
    done.expect("all is done");
}

#[test]
fn who_is_older_than_the_set_may_say_what_was_true_then() {
    let runtime = crate::rig::runtime();
    let done = runtime.block_on(async {
        let disks = disks(&clean(Level::Raid6, 4), 4, 1);
        say(&disks[2], |sb| sb.size -= 64);
        disks.iter().enumerate().filter(|(n, _)| *n != 2).for_each(|(_, disk)| {
            say(disk, |sb| sb.events += 9);
        });
        let choice = chosen(&disks).await.expect("one is old, and the others agree");
        assert_eq!(choice.left_out.len(), 1);
        assert_eq!(choice.left_out[0].why, Why::Stale(9));
        // But not of another creation: that is none of this set at any time.
        say(&disks[2], |sb| sb.created.0 += 1);
        let error = chosen(&disks).await.err().expect("refused").to_string();
        assert!(error.contains("creation time: disk2. says"), "{error}");
    });
    done.expect("all is done");
}

#[test]
fn nobody_is_written_while_superblocks_contradict_each_other() {
    let runtime = crate::rig::runtime();
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let disks = disks(&clean(Level::Raid5, 3), 3, 1);
        let set = live(&rt, &devices(&disks), false).await.expect("opens");
        write(&set.device(), 5, 77).await.expect("written");
        set.stop().await.expect("stops");
        say(&disks[0], |sb| sb.chunk *= 2);
        let before: Vec<SuperblockV1> = disks.iter().map(|disk| superblock_of(disk)).collect();
        assert!(chosen(&disks).await.is_err());
        let after: Vec<SuperblockV1> = disks.iter().map(|disk| superblock_of(disk)).collect();
        assert_eq!(before, after);
        // And the two that agree have everything.
        let choice = chosen(&disks[1..]).await.expect("they agree");
        let array = OpenArray::open(&rt, "read", choice, OpenOptions::default()).await;
        assert_eq!(read(&*array.expect("opens"), 5).await, Some(77));
    });
    done.expect("all is done");
}

#[test]
fn the_lowest_place_below_which_members_say_that_parity_is_right_counts() {
    let runtime = crate::rig::runtime();
    let done = runtime.block_on(async {
        for odd in 0..3 {
            let disks = disks(&clean(Level::Raid5, 3), 3, 1);
            say(&disks[odd], |sb| sb.resync_offset = 512);
            let choice = chosen(&disks).await.expect("it is no contradiction");
            assert_eq!(choice.facts.resync_offset(), 512);
        }
        let disks = disks(&clean(Level::Raid5, 3), 3, 1);
        assert_eq!(chosen(&disks).await.expect("agree").facts.resync_offset(), ALL_SECTORS);
    });
    done.expect("all is done");
}

/// A set of so many spares used to be created and then ended every program that opened it for writing.
#[test]
fn a_set_of_more_spares_than_members_opens_and_takes_another() {
    let runtime = crate::rig::runtime();
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let mut disks = disks(&clean(Level::Raid1, 2), 72, 1);
        let last = disks.pop().expect("a disk");
        last.poke(PLACE, &Buf::zeros(SUPERBLOCK_BYTES).into());
        let set = live(&rt, &devices(&disks), false).await.expect("opens");
        set.add(last as DeviceRef, None, Uuid([99; 16])).await.expect("one more");
        set.stop().await.expect("stops");
        assert_eq!(set.devices().len(), 72);
    });
    done.expect("all is done");
}

/// The table has one word for a number: the spare's used to be written over the member's.
#[test]
fn a_spare_with_a_members_number_gets_another_and_the_member_stays_one() {
    let runtime = crate::rig::runtime();
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let disks = disks(&clean(Level::Raid1, 2), 4, 1);
        // It was away while the number was given to a member.
        say(&disks[2], |sb| {
            sb.events = 0;
            sb.device_number = 1;
            sb.roles[1] = Role::Spare;
        });
        for n in [0, 1, 3] {
            say(&disks[n], |sb| sb.events += 5);
        }
        let set = live(&rt, &devices(&disks), false).await.expect("opens");
        write(&set.device(), 1, 5).await.expect("written");
        set.stop().await.expect("stops");
        let choice = chosen(&disks).await.expect("agrees");
        assert_eq!((choice.degraded(), choice.spares.len()), (0, 2));
        let numbers = |found: &Found| match &found.superblock {
            Superblock::V1(sb) => sb.device_number,
            Superblock::V090(_) => unreachable!("they are of version 1"),
        };
        let mut all: Vec<u32> = choice.taking_part().map(numbers).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4, "each has its own number");
    });
    done.expect("all is done");
}
