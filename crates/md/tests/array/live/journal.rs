//! Sets with a journal: that fails, is not there, is damaged, or was written by md in write-back mode.
//!
//! What could break: a write past a journal that can't be written, a set that is written without the journal that it
//! says it has, a damaged journal that is taken for an empty one, data whose parity was never made that is lost or
//! stands without parity. (Power cuts: `power_cuts`.)

use super::{Level, Machine, choose, devices, live, new, read, resynchronised, write};
use crate::rig::runtime;
use ::fixtures::extent::{by_extent, places};
use md::SyncPriority;
use md::assemble::{AssembleError, Choice, OpenArray, OpenOptions, Superblock};
use md::create::{NewArray, Policy};
use md::live::{LiveArray, LiveError, LiveOptions};
use md::superblock::journal::{BLOCK_BYTES, MetaBlock, Payload, checksum, seed};
use md::superblock::{Features, Role, Uuid};
use rt::filter::{Effect, Fault, Rule};
use rt::{Buf, Device, DeviceRef, IoErrorKind, MemoryDevice, OpKind, Request, Rt};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

const SET: Uuid = Uuid([7; 16]);
/// Blocks of a chunk.
const CHUNK: u64 = 4;

fn journalled(level: Level, slots: usize) -> NewArray {
    NewArray { policy: Policy::Journal, ..new(level, slots) }
}

/// A RAID 5 of four and its journal, with a word in each of the first blocks.
async fn written(rt: &Rt) -> Vec<Rc<MemoryDevice>> {
    let disks = resynchronised(rt, &journalled(Level::Raid5, 4), 5, 1).await;
    let set = live(rt, &devices(&disks), false).await.expect("opened");
    for block in 0..48 {
        write(&set.device(), block, 100 + block).await.expect("written");
    }
    set.stop().await.expect("stopped");
    disks
}

async fn roles(devices: &[DeviceRef]) -> Vec<Option<Role>> {
    let facts = choose(devices).await.facts;
    (0..5).map(|number| facts.role_of(number)).collect()
}

async fn opened(rt: &Rt, choice: Choice, force: bool) -> Result<Rc<OpenArray>, AssembleError> {
    OpenArray::open(rt, "a", choice, OpenOptions { force, ..OpenOptions::default() }).await
}

async fn check(set: &LiveArray) -> u64 {
    let report = set.array().check(set.array().whole(), SyncPriority::High).await;
    report.expect("checked").mismatched_sectors
}

#[test]
fn without_its_journal_a_set_is_read_and_not_written_and_goes_on_by_force_alone() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = written(&rt).await;
        let mut all = devices(&disks);
        let fault = Fault::new(Rc::clone(&all[4]), &rt, Prng::new(1));
        all[4] = Rc::clone(&fault) as DeviceRef;
        let set = live(&rt, &all, false).await.expect("opened");
        let device = set.device();
        write(&device, 0, 500).await.expect("written");
        fault.add(Rule::new(Effect::Fail(IoErrorKind::Gone)).on(&[OpKind::Write]));
        assert!(write(&device, 1, 501).await.is_err(), "the journal fails");
        assert!(set.lacks_journal() && set.journal().is_some_and(|journal| journal.failed));
        assert!(write(&device, 47, 1).await.is_err(), "nothing is written past the journal");
        assert_eq!(read(&*device, 47).await, Some(147));
        assert_eq!(read(&*device, 0).await, Some(500));
        set.stop().await.expect("stopped");
        drop((set, device));
        let here = &all[..4];
        assert_eq!(roles(here).await[4], Some(Role::Faulty));

        // For reading: with all members, or by force.
        let choice = choose(here).await;
        assert!(choice.lacks_journal());
        let array = opened(&rt, choice, false).await.expect("for reading");
        assert_eq!(read(&*array, 0).await, Some(500));
        let refused = opened(&rt, choose(&here[1..]).await, false).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, AssembleError::NoJournal { missing: 1, .. }), "{refused}");
        opened(&rt, choose(&here[1..]).await, true).await.expect("by force");

        let refused = live(&rt, here, false).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, LiveError::NoJournal { .. }), "{refused}");
        let options = LiveOptions { without_journal: true, ..LiveOptions::default() };
        let set = LiveArray::open(&rt, "a", choose(here).await, options).await.expect("opened");
        assert!(set.lacks_journal());
        let error = write(&set.device(), 0, 1).await.expect_err("no data is written");
        assert_eq!(error.kind, IoErrorKind::ReadOnly);
        drop(set);

        let set = live(&rt, here, true).await.expect("by force");
        assert!(!set.lacks_journal() && set.needs_resync(), "nothing is known of its parity");
        set.resync(SyncPriority::High).await.expect("done");
        write(&set.device(), 1, 900).await.expect("written");
        let joins = Rc::clone(&disks[4]) as DeviceRef;
        set.add_journal(joins, Uuid([77; 16])).await.expect("added");
        write(&set.device(), 2, 901).await.expect("written");
        drop(set);
        let again = devices(&disks);
        let facts = choose(&again).await.facts;
        assert!(facts.features().has(Features::JOURNAL));
        let set = live(&rt, &again, false).await.expect("with its new journal");
        assert_eq!(check(&set).await, 0);
        for (block, word) in [(0, 500), (1, 900), (2, 901), (47, 147)] {
            assert_eq!(read(&*set.device(), block).await, Some(word), "block {block}");
        }
    };
    runtime.block_on(test).expect("it ends");
}

/// Mdadm's rule: what works is failed before it is removed.
#[test]
fn a_journal_is_failed_removed_and_added() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = written(&rt).await;
        let all = devices(&disks);
        let found = choose(&all).await.journal.expect("a journal");
        let set = live(&rt, &all, false).await.expect("opened");
        let joins = Rc::clone(&disks[4]) as DeviceRef;
        let refused = set.add_journal(Rc::clone(&joins), Uuid([77; 16])).await.unwrap_err();
        assert!(matches!(refused, LiveError::CantHaveJournal { .. }), "{refused}");
        let refused = set.remove(&found).await.unwrap_err();
        assert!(matches!(refused, LiveError::JournalInUse { .. }), "{refused}");
        set.fail_journal().await.expect("recorded");
        assert_eq!(roles(&all).await[4], Some(Role::Faulty));
        set.remove(&found).await.expect("removed");
        assert_eq!(roles(&all).await[4], Some(Role::Spare));
        assert!(write(&set.device(), 0, 1).await.is_err());
        set.add_journal(joins, Uuid([77; 16])).await.expect("added");
        assert_eq!(roles(&all).await[4], Some(Role::Journal));
        write(&set.device(), 0, 1).await.expect("written");
        set.stop().await.expect("stopped");
        let set = live(&rt, &all, false).await.expect("opened");
        assert_eq!((read(&*set.device(), 0).await, check(&set).await), (Some(1), 0));
    };
    runtime.block_on(test).expect("it ends");
}

/// A set that names a journal which is not whole yet would be refused, one with a journal that nobody names would
/// have a write hole.
#[test]
fn after_a_power_cut_while_a_journal_is_added_the_set_opens_and_no_flushed_byte_is_lost() {
    let mut cuts = 0;
    for first in [0, 4] {
        for at in places(1, 4) {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                let mut disks = resynchronised(&rt, &new(Level::Raid5, 4), 4, 1).await;
                disks.push(MemoryDevice::new("disk4.", super::DISK));
                let set = live(&rt, &devices(&disks), false).await.expect("opened");
                for block in 0..24 {
                    write(&set.device(), block, 100 + block).await.expect("written");
                }
                set.stop().await.expect("stopped");
                let mut machine = Machine::new(&rt, &disks);
                machine.cut_at_write(first, at, at);
                let all = machine.devices();
                let (set, mut flushed) = (live(&rt, &all[..4], false).await.expect("opened"), 100);
                if set.add_journal(Rc::clone(&all[4]), Uuid([77; 16])).await.is_ok() {
                    let mut went_well = true;
                    for block in 0..24 {
                        went_well &= write(&set.device(), block, 200 + block).await.is_ok();
                    }
                    let flush = set.device().submit(Request::flush()).await;
                    if went_well && flush.is_ok() && !machine.is_off() {
                        flushed = 200;
                    }
                }
                drop(set);
                let ended = !machine.is_off();
                let after = machine.power_on(at).await;
                let set = live(&rt, &after, false).await;
                let set = set.unwrap_or_else(|error| panic!("disk {first}, cut {at}: {error}"));
                for block in 0..24 {
                    let found = read(&*set.device(), block).await;
                    let right = found == Some(flushed + block) || found == Some(200 + block);
                    assert!(right, "disk {first}, cut {at}, block {block}: {found:?}");
                }
                if set.needs_resync() {
                    set.resync(SyncPriority::High).await.expect("done");
                }
                assert_eq!(check(&set).await, 0, "disk {first}, cut {at}");
                ended
            };
            if runtime.block_on(test).expect("it ends") {
                break;
            }
            cuts += 1;
        }
    }
    assert!(cuts > by_extent(6, 30), "{cuts} cuts");
}

/// Where the ring of the journal begins on its device, and its tail.
async fn ring(all: &[DeviceRef]) -> (u64, u64) {
    let found = choose(all).await.journal.expect("a journal");
    let Superblock::V1(sb) = &found.superblock else { panic!("superblock 1.2") };
    (sb.data_offset * 512, sb.recovery_offset * 512)
}

/// Puts a meta block with what it lists behind the tail's, which is empty.
async fn append(disks: &[Rc<MemoryDevice>], payloads: Vec<Payload>, blocks: &[Vec<u8>]) {
    let (start, tail) = ring(&devices(disks)).await;
    let journal = &disks[4];
    let len = ByteCount(BLOCK_BYTES as u64);
    let bytes = journal.peek(Offset(start + tail), len).to_vec();
    let first = MetaBlock::decode(&bytes, seed(SET)).expect("the tail leads to a block");
    assert!(first.payloads.is_empty(), "it was stopped");
    let at = tail + len.bytes();
    let meta = MetaBlock { sequence: first.sequence + 1, position: at / 512, payloads };
    journal.poke(Offset(start + at), &Buf::copy_of(&meta.encode(seed(SET))).into());
    for (n, block) in (1..).zip(blocks) {
        journal.poke(Offset(start + at + n * len.bytes()), &Buf::copy_of(block).into());
    }
}

fn data(block: u64, word: u64) -> (Payload, Vec<u8>) {
    let bytes = word.to_le_bytes().repeat(BLOCK_BYTES / 8);
    let checksum = checksum(seed(SET), &bytes);
    (Payload::Data { sector: block * 8, checksum }, bytes)
}

/// md's write-back mode answers when data stands in the journal; parity comes later, or after a power cut.
#[test]
fn data_whose_parity_was_never_made_is_brought_in_with_its_parity() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        // Blocks of two rows: of slots 0 and 1 in row 0, and of row 1.
        let written_blocks = [(0, 700), (CHUNK, 701), (3 * CHUNK + 1, 702)];
        let with_log = || async {
            let disks = written(&rt).await;
            let parts = written_blocks.map(|(block, word)| data(block, word));
            let (payloads, blocks): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            append(&disks, payloads, &blocks).await;
            disks
        };
        let right = |block: u64| {
            let new = written_blocks.iter().find(|(at, _)| *at == block);
            new.map_or(100 + block, |(_, word)| *word)
        };
        let disks = with_log().await;
        let before: Vec<_> = disks.iter().map(|disk| disk.peek(Offset(0), super::DISK)).collect();
        let array = opened(&rt, choose(&devices(&disks)).await, false).await.expect("opened");
        for block in 0..48 {
            assert_eq!(read(&*array, block).await, Some(right(block)), "block {block}");
        }
        for (disk, before) in disks.iter().zip(&before) {
            let after = disk.peek(Offset(0), super::DISK);
            assert!(after.to_vec() == before.to_vec(), "reading wrote to {}", disk.name());
        }
        let set = live(&rt, &devices(&disks), false).await.expect("opened");
        for block in 0..48 {
            assert_eq!(read(&*set.device(), block).await, Some(right(block)), "block {block}");
        }
        assert_eq!(check(&set).await, 0);
        drop(set);

        // Without a member whose data of these rows is in the journal, or parity; and one that is needed.
        let (mut went_well, mut refused) = (0, 0);
        for gone in 0..4 {
            let disks = with_log().await;
            let mut all = devices(&disks);
            all.remove(gone);
            let array = opened(&rt, choose(&all).await, false).await;
            let set = live(&rt, &all, false).await;
            match (array, set) {
                (Ok(array), Ok(set)) => {
                    went_well += 1;
                    for block in 0..48 {
                        let (a, b) =
                            (read(&*array, block).await, read(&*set.device(), block).await);
                        assert_eq!((a, b), (Some(right(block)), Some(right(block))), "{block}");
                    }
                }
                (Err(error), Err(LiveError::Assemble(same))) => {
                    refused += 1;
                    assert_eq!(error, same);
                    let needs = AssembleError::JournalNeeds { device: "disk4.".into(), slot: gone };
                    assert_eq!(error, needs);
                }
                (array, set) => panic!("{:?}, {:?}", array.err(), set.err()),
            }
        }
        assert!(went_well > 0 && refused > 0, "{went_well} went well, {refused} were refused");
    };
    runtime.block_on(test).expect("it ends");
}

/// What was logged while a member was away is read back with a spare in its place, which the rebuild filled past the
/// journal.
#[test]
fn a_replay_after_a_rebuild_leaves_the_parity_of_the_rebuilt_member_right() {
    for (level, slots) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for lost in 0..slots {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                // A spare behind the members, and the journal.
                let disks = resynchronised(&rt, &journalled(level, slots), slots + 2, 1).await;
                let all = devices(&disks);
                let set = live(&rt, &all, false).await.expect("opened");
                set.fail(lost).await.expect("recorded");
                for block in (0..64).step_by(3) {
                    write(&set.device(), block, 300 + block).await.expect("written");
                }
                set.rebuild(lost, SyncPriority::High).await.expect("done");
                // As if the machine stopped here.
                drop(set);
                let set = live(&rt, &all, false).await.expect("opened");
                assert_eq!(check(&set).await, 0, "{level} without slot {lost}");
                for block in (0..64).step_by(3) {
                    assert_eq!(read(&*set.device(), block).await, Some(300 + block));
                }
            };
            runtime.block_on(test).expect("it ends");
        }
    }
}

/// A write that the power cut may leave a later block whole where an earlier one is torn.
#[test]
fn what_a_torn_write_left_behind_the_end_is_never_taken_for_a_later_part_of_the_log() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = written(&rt).await;
        let (payload, block) = data(0, 700);
        append(&disks, vec![payload], &[block]).await;
        // Behind that a block that is torn, and behind this one that is whole and the next but one.
        let (start, tail) = ring(&devices(&disks)).await;
        let len = BLOCK_BYTES as u64;
        let first = disks[4].peek(Offset(start + tail), ByteCount(len)).to_vec();
        let first = MetaBlock::decode(&first, seed(SET)).expect("the tail leads to a block");
        let (torn, whole) = (tail + 3 * len, tail + 4 * len);
        disks[4].poke(Offset(start + torn), &Buf::fill(5, BLOCK_BYTES).into());
        let (payload, block) = data(5, 999);
        let sequence = first.sequence + 3;
        let meta = MetaBlock { sequence, position: whole / 512, payloads: vec![payload] };
        disks[4].poke(Offset(start + whole), &Buf::copy_of(&meta.encode(seed(SET))).into());
        disks[4].poke(Offset(start + whole + len), &Buf::copy_of(&block).into());
        for life in 0..3 {
            let set = live(&rt, &devices(&disks), false).await.expect("opened");
            let found = (read(&*set.device(), 0).await, read(&*set.device(), 5).await);
            assert_eq!(found, (Some(700), Some(105)), "life {life}");
            // As if the machine stopped here.
            drop(set);
        }
    };
    runtime.block_on(test).expect("it ends");
}

/// A place beyond the set, and a parity of a RAID 6.
#[test]
fn a_journal_of_something_else_is_refused() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (_, block) = data(0, 1);
        let sum = checksum(seed(SET), &block);
        let far = Payload::Data { sector: 1 << 40, checksum: sum };
        let pq = Payload::Parity { sector: 0, p: sum, q: Some(sum) };
        for (payload, blocks) in [(far, 1), (pq, 2)] {
            let disks = written(&rt).await;
            append(&disks, vec![payload], &vec![block.clone(); blocks]).await;
            let all = devices(&disks);
            let error = opened(&rt, choose(&all).await, false).await.map(|_| ()).unwrap_err();
            assert_eq!(error, AssembleError::JournalStray { device: "disk4.".into() });
        }
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn no_flipped_bit_at_the_tail_is_taken_for_an_empty_journal_and_the_error_names_device_and_field() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = written(&rt).await;
        let all = devices(&disks);
        let (start, tail) = ring(&all).await;
        let at = Offset(start + tail);
        let whole = disks[4].peek(at, ByteCount(BLOCK_BYTES as u64)).to_vec();
        let choice = choose(&all).await;
        for bit in (0..64 * 8).chain((64 * 8..BLOCK_BYTES * 8).step_by(997)) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            disks[4].poke(at, &Buf::copy_of(&bytes).into());
            let error = opened(&rt, choice.clone(), false).await.map(|_| ()).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, AssembleError::Format { .. }), "bit {bit}: {text}");
            assert!(text.starts_with("disk4.: journal meta block: "), "bit {bit}: {text}");
        }
        // A tail that leads nowhere.
        let mut found = choice.journal.clone().expect("a journal");
        if let Superblock::V1(sb) = &mut found.superblock {
            sb.recovery_offset = 3;
        }
        let choice = Choice { journal: Some(found), ..choice };
        let text = opened(&rt, choice, false).await.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("disk4.") && text.contains("journal_tail at byte 152"), "{text}");

        let refused = live(&rt, &all, false).await.map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("disk4.: journal meta block"), "{refused}");
        let set = live(&rt, &all, true).await.expect("by force: as a new one");
        assert!(set.needs_resync(), "what it held is not known");
        set.resync(SyncPriority::High).await.expect("done");
        write(&set.device(), 3, 800).await.expect("written");
        drop(set);
        let set = live(&rt, &all, false).await.expect("opened");
        assert_eq!((read(&*set.device(), 3).await, check(&set).await), (Some(800), 0));
    };
    runtime.block_on(test).expect("it ends");
}

/// Parts of pages, pages, rows and many rows, on all levels, against what was written.
#[test]
fn writes_of_any_length_through_a_journal_read_back_with_their_parity() {
    for (level, slots) in [(Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let disks = resynchronised(&rt, &journalled(level, slots), slots + 1, 1).await;
            let all = devices(&disks);
            let set = live(&rt, &all, false).await.expect("opened");
            let device = set.device();
            let mut prng = Prng::new(5);
            let sectors = 2000;
            let mut model = vec![0_u8; sectors * 512];
            let zero = Request::write(Offset(0), Buf::copy_of(&model));
            device.submit(zero).await.expect("written");
            for turn in 0..120 {
                if turn == 60 {
                    set.fail(1).await.expect("it can do without");
                }
                let at = prng.below(sectors as u64 - 1) as usize;
                let most = if turn % 8 == 0 { 900 } else { 20 };
                let len = (1 + prng.below(most) as usize).min(sectors - at);
                let range = at * 512..(at + len) * 512;
                prng.fill(&mut model[range.clone()]);
                let write = Request::write(Offset(range.start as u64), Buf::copy_of(&model[range]));
                device.submit(write).await.expect("written");
            }
            // As if the machine stopped here: all stands in the journal or on the members.
            drop((set, device));
            let set = live(&rt, &all, false).await.expect("opened");
            let whole = Request::read(Offset(0), ByteCount(model.len() as u64));
            let found = set.device().submit(whole).await.expect("read").to_vec();
            assert!(found == model, "{level}");
        };
        runtime.block_on(test).expect("it ends");
    }
}
