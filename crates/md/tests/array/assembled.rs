//! Arrays of the real md, assembled from what md wrote on them.
//!
//! What could break: a field read at a wrong place, a stale member that is used, a member half rebuilt that is
//! believed, a reshape cut at the wrong place, a byte written. Every fixture's disks are opened, those that failed
//! among them; the whole content must have the manifest's digest, and the disks must be as before.

use crate::fixtures::{folder, manifest, number};
use ::fixtures::Disk;
use ::fixtures::extent::some;
use md::assemble::{self, AssembleError, Choice, Found, OpenArray, OpenOptions, Why};
use md::superblock::bad_blocks::{self, BadBlock};
use md::superblock::ppl::{Entry, Header, signature};
use md::superblock::{Features, Uuid};
use rt::{Buf, Device, DeviceRef, MemoryDevice, Request, Rt};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn digest(device: &dyn Device) -> Result<String, rt::IoError> {
    let size = device.geometry().capacity.bytes();
    let (mut hasher, mut at) = (Sha256::new(), 0);
    while at < size {
        // No multiple of a chunk, so that reads cross everything.
        let len = ((3 << 20) + 4096).min(size - at);
        let data = device.submit(Request::read(Offset(at), ByteCount(len))).await?;
        data.pieces().iter().for_each(|piece| hasher.update(piece.bytes()));
        at += len;
    }
    Ok(hex(hasher.finalize()))
}

async fn found_on(devices: &[DeviceRef]) -> Result<Vec<Found>, AssembleError> {
    let mut found = Vec::new();
    for device in devices {
        found.extend(assemble::find(device).await?);
    }
    Ok(found)
}

async fn choose(devices: &[DeviceRef]) -> Result<Choice, AssembleError> {
    let mut sets = assemble::sets(found_on(devices).await?);
    assert_eq!(sets.len(), 1, "one set");
    let (set, found) = sets.pop_first().expect("one set");
    Choice::of(set, found)
}

async fn open(
    rt: &Rt,
    devices: &[DeviceRef],
    options: OpenOptions,
) -> Result<Rc<OpenArray>, AssembleError> {
    OpenArray::open(rt, "array", choose(devices).await?, options).await
}

fn verify(folder: &Path, name: &str) {
    let manifest = manifest(folder, name);
    let images = ::fixtures::disks(folder, name);
    assert_eq!(images.len(), manifest["disks"].as_array().expect("disks").len());
    let memory: Vec<Rc<MemoryDevice>> = images.iter().map(Disk::device).collect();
    let disks: Vec<DeviceRef> = memory.iter().map(|disk| Rc::clone(disk) as DeviceRef).collect();
    let runtime = crate::rig::runtime();
    let rt = runtime.handle();
    let ran = runtime.block_on(async move {
        let array = open(&rt, &disks, OpenOptions::default()).await;
        let array = array.unwrap_or_else(|error| panic!("{}: {error}", manifest["name"]));
        let expected = &manifest["array"];
        assert_eq!(array.geometry().capacity.bytes(), number(&expected["size"]));
        assert_eq!(digest(&*array).await, Ok(expected["sha256"].as_str().expect("").to_owned()));
        let failed = manifest["failed_disks"].as_array().cloned().unwrap_or_default();
        for disk in failed.iter().map(|disk| format!("disk{disk}.raw")) {
            let left_out = &array.choice().left_out;
            assert!(left_out.iter().any(|left| left.found.name() == disk), "{disk} is left out");
        }
        for (disk, before) in memory.iter().zip(&images) {
            assert!(before.is_on(disk), "{} is as it was", before.name);
        }
    });
    ran.unwrap_or_else(|error| panic!("{name}: {error:?}"));
}

/// The names in the folder whose number leaves `part` when divided by 3: a third each, so that they run
/// side by side.
fn verify_third(part: usize) {
    let Some(folder) = folder() else { return };
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort_unstable();
    assert!(names.len() > 30, "the fixtures are there");
    let third = names.iter().skip(part).step_by(3);
    some(third, 5).into_iter().for_each(|name| verify(&folder, name));
}

#[test]
fn every_array_of_the_real_md_opens_and_has_its_content_first_third() {
    fixtures::takes_long!();
    verify_third(0);
}

#[test]
fn every_array_of_the_real_md_opens_and_has_its_content_second_third() {
    fixtures::takes_long!();
    verify_third(1);
}

#[test]
fn every_array_of_the_real_md_opens_and_has_its_content_last_third() {
    fixtures::takes_long!();
    verify_third(2);
}

/// Runs a test on the disks of one fixture, where the fixtures are there.
fn with_fixture<F: Future<Output = ()> + 'static>(
    name: &str,
    test: impl FnOnce(Rt, Vec<DeviceRef>, String) -> F,
) {
    let Some(folder) = folder() else { return };
    let manifest = manifest(&folder, name);
    let disks = ::fixtures::disks(&folder, name);
    let disks = disks.iter().map(|disk| disk.device() as DeviceRef).collect();
    let digest = manifest["array"]["sha256"].as_str().expect("a digest").to_owned();
    let runtime = crate::rig::runtime();
    runtime.block_on(test(runtime.handle(), disks, digest)).expect("the test ends");
}

#[test]
fn a_reshape_is_read_with_a_member_lost() {
    with_fixture("raid5-3-reshape-to-4", |rt, mut disks, expected| async move {
        disks.remove(1);
        let array = open(&rt, &disks, OpenOptions::default()).await.expect("opens");
        assert_eq!(array.engines().count(), 2);
        assert_eq!(digest(&*array).await, Ok(expected));
    });
}

#[test]
fn a_half_rebuilt_member_serves_what_it_has_and_no_more() {
    with_fixture("raid5-4-recovery", |rt, mut disks, expected| async move {
        let array = open(&rt, &disks, OpenOptions::default()).await.expect("opens");
        let member = &array.engines().next().expect("an engine").members()[3];
        assert_eq!(member.recovered, ByteCount(51_584 * 512));
        assert_eq!(digest(&*array).await, Ok(expected));
        disks.remove(0);
        let refused = open(&rt, &disks, OpenOptions::default()).await.err().expect("refused");
        assert!(matches!(refused, AssembleError::TooFew { missing: 2, covered: 1, .. }));
    });
}

#[test]
fn a_dirty_array_that_lacks_a_member_is_refused_until_it_is_forced() {
    with_fixture("raid6-4-resync-bitmap", |rt, mut disks, _| async move {
        disks.remove(2);
        let refused = open(&rt, &disks, OpenOptions::default()).await.err().expect("refused");
        let text = refused.to_string();
        assert!(text.contains("not stopped cleanly") && text.contains("--force"), "{text}");
        let options = OpenOptions { force: true, ..OpenOptions::default() };
        let array = open(&rt, &disks, options).await.expect("opens");
        digest(&*array).await.expect("reads");
    });
}

#[test]
fn stale_members_are_named_with_how_far_they_are_behind() {
    with_fixture("raid6-5-degraded-2", |_, disks, _| async move {
        let choice = choose(&disks).await.expect("chosen");
        let left: Vec<_> =
            choice.left_out.iter().map(|left| (left.found.name(), left.why)).collect();
        let expected =
            vec![("disk0.raw".to_owned(), Why::Stale(10)), ("disk3.raw".to_owned(), Why::Stale(7))];
        assert_eq!(left, expected);
    });
}

/// Its superblock lies at its end, so one that was copied onto a smaller device may stand in its own data.
#[test]
fn a_member_with_superblock_0_90_whose_data_would_reach_into_it_is_left_out() {
    with_fixture("raid5-4-v090", |_, disks, _| async move {
        let mut found = Vec::new();
        for disk in &disks {
            found.extend(assemble::find(disk).await.expect("readable"));
        }
        let set = found[0].superblock.set_uuid();
        let whole = Choice::of(set, found.clone()).expect("chosen");
        assert!(whole.left_out.is_empty());
        found[2].at = Offset(whole.facts.size() * 512 - 4096);
        let choice = Choice::of(set, found).expect("chosen");
        let left: Vec<_> = choice.left_out.iter().map(|left| left.why).collect();
        assert!(matches!(left[..], [Why::CutShort { .. }]), "{left:?}");
        assert_eq!(choice.degraded(), 1);
    });
}

#[test]
fn two_devices_with_one_slot_are_refused() {
    with_fixture("raid1-2-bitmap", |_, mut disks, _| async move {
        disks.push(Rc::clone(&disks[0]));
        let refused = choose(&disks).await.err().expect("refused");
        assert!(matches!(refused, AssembleError::SameSlot { slot: 0, .. }), "{refused}");
    });
}

/// A flipped bit anywhere in what is read first: an error that names the device, never another array.
#[test]
fn a_damaged_superblock_is_an_error_that_names_device_and_field() {
    with_fixture("raid5-ls-4", |_, disks, _| async move {
        let device = MemoryDevice::new("spoilt", ByteCount::mib(48));
        let read = disks[0].submit(Request::read(Offset(4096), ByteCount(4096)));
        let mut bytes = read.await.expect("read").to_vec();
        for bit in (0..264 * 8).step_by(5) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            device.poke(Offset(4096), &Buf::copy_of(&bytes).into());
            bytes[bit / 8] ^= 1 << (bit % 8);
            let below: DeviceRef = device.clone();
            match assemble::find(&below).await {
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with("spoilt: md superblock 1.x: "), "{text}");
                }
                Ok(found) => assert!(found.is_none() && bit < 64, "bit {bit}"),
            }
        }
    });
}

/// The bad-block log of one member covers what lies under the first records: they must come from the others.
#[test]
fn bad_blocks_are_read_from_the_redundancy() {
    with_fixture("raid5-ls-4", |rt, disks, expected| async move {
        let found = assemble::find(&disks[0]).await.expect("read").expect("a member");
        let assemble::Superblock::V1(mut sb) = found.superblock else { panic!("version 1") };
        let list = [BadBlock { sector: sb.data_offset, sectors: 512 }];
        let log = bad_blocks::encode(&list, sb.bad_blocks.sectors).expect("fits");
        sb.features = sb.features | Features::BAD_BLOCKS;
        let write = |at: u64, bytes: &[u8]| {
            disks[0].submit(Request::write(Offset(at), Buf::copy_of(bytes)))
        };
        write(4096, &sb.encode()).await.expect("written");
        write((8 + sb.bad_blocks.offset as u64) * 512, &log).await.expect("written");
        // What lies there is lost.
        write(sb.data_offset * 512, &[0xee; 512 * 512]).await.expect("written");
        let array = open(&rt, &disks, OpenOptions::default()).await.expect("opens");
        assert_eq!(digest(&*array).await, Ok(expected));
        // Of the four chunks one is a parity.
        assert_eq!(array.engines().next().expect("one").stats().reconstructed_bytes, 3 << 16);
    });
}

/// The write hole: data of row 0 was written on slot 0, its parity on slot 2 was not, and then slot 1 is lost.
/// Without the log, slot 1's data would come back as the difference of two moments.
#[test]
fn a_partial_parity_log_closes_the_write_hole() {
    with_fixture("raid5-ppl", |rt, mut disks, _| async move {
        let data_at = 4096 * 512;
        let read = disks[1].submit(Request::read(Offset(data_at), ByteCount(4096)));
        let untouched = read.await.expect("read").to_vec();
        let entry = Entry {
            data_sector: 0,
            parity_bytes: 4096,
            data_bytes: 4096,
            parity_slot: 2,
            checksum: 0,
        };
        for (slot, disk) in disks.iter().enumerate() {
            let found = assemble::find(disk).await.expect("read").expect("a member");
            let assemble::Superblock::V1(mut sb) = found.superblock else { panic!("version 1") };
            // Dirty, as a power cut leaves it.
            sb.resync_offset = 0;
            let (offset, _) = sb.ppl().expect("it has a log");
            let log = (8 + u64::from(offset.unsigned_abs())) * 512;
            let mut entries = Vec::new();
            if slot == 2 {
                entries.push(entry.with_checksum_of(&untouched));
            }
            let header = Header { signature: signature(sb.set_uuid), generation: 99, entries };
            let write =
                |at, bytes: &[u8]| disk.submit(Request::write(Offset(at), Buf::copy_of(bytes)));
            write(4096, &sb.encode()).await.expect("written");
            write(log, &header.encode().expect("fits")).await.expect("written");
            if slot == 2 {
                write(log + 4096, &untouched).await.expect("written");
            }
            // Ends the run of records.
            let next = log + 4096 + if slot == 2 { 4096 } else { 0 };
            write(next, &[0; 4096]).await.expect("written");
            if slot == 0 {
                write(data_at, &[0x5a; 4096]).await.expect("written");
            }
        }
        disks.remove(1);
        let array = open(&rt, &disks, OpenOptions::default()).await.expect("opens");
        let read = |at| array.submit(Request::read(Offset(at), ByteCount(4096)));
        assert_eq!(read(0).await.expect("read").to_vec(), vec![0x5a; 4096]);
        assert!(read(65_536).await.expect("read").to_vec() == untouched, "slot 1's data is back");
    });
}

#[test]
fn what_has_no_superblock_is_nothing_and_a_set_of_spares_is_no_array() {
    let runtime = crate::rig::runtime();
    let ran = runtime.block_on(async {
        for size in [0, 512, 4096, 65_536, 1 << 20] {
            let empty: DeviceRef = MemoryDevice::new("empty", ByteCount(size));
            assert!(assemble::find(&empty).await.expect("read").is_none());
        }
        let refused = Choice::of(Uuid([1; 16]), Vec::new()).err().expect("refused");
        assert!(matches!(refused, AssembleError::NoMembers { .. }));
    });
    ran.expect("the test ends");
}
