//! Volume groups.
//!
//! The data are the first 16 KiB of three disks of 64 MiB on which LVM 2.03.16 made a group `vgtest` with
//! the volumes `lin`, `str` (three stripes of 16 KiB) and `big` (two segments), in four changes. (A
//! comment of the text that named the machine's kernel was blanked, and the checksums made anew.)
//!
//! What could break: an extent that lies elsewhere than Linux looks for it, a text that LVM can't read
//! back, a power cut that leaves no group at all, bytes of a stranger that are believed or end the
//! program, a change that forgets what it does not know.

use crate::world;

use proptest::prelude::*;
use rt::filter::{PowerCut, Slice};
use rt::{Buf, DeviceRef, IoErrorKind, MemoryDevice, Request, Rt, SgList};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use volume::lvm::change::{Origin, Wanted, create_group};
use volume::lvm::label::Label;
use volume::lvm::metadata::Mapping;
use volume::lvm::text::{Node, Section, Value};
use volume::lvm::{FoundGroups, Group, Lacks, LvmError, SECTOR, find_groups, group_lacking};
use world::*;

const SIZE: ByteCount = ByteCount::mib(64);
const HEADS: [&[u8]; 3] = [
    include_bytes!("../data/lvm-disk0.head"),
    include_bytes!("../data/lvm-disk1.head"),
    include_bytes!("../data/lvm-disk2.head"),
];

fn of_lvm() -> Vec<Rc<MemoryDevice>> {
    let disk_of = |(number, head): (usize, &&[u8])| disk(&format!("d{number}"), SIZE, head);
    HEADS.iter().enumerate().map(disk_of).collect()
}

fn blank(count: usize) -> Vec<Rc<MemoryDevice>> {
    (0..count).map(|number| disk(&format!("d{number}"), SIZE, &[])).collect()
}

fn origin() -> Origin {
    Origin { unix_s: 1_700_000_000, host: "test".into() }
}

fn wanted(name: &str, mib: u64, stripes: usize) -> Wanted {
    let (size, stripe) = (ByteCount::mib(mib), ByteCount::kib(64));
    Wanted { name: name.into(), size, stripes, stripe }
}

async fn only_group(disks: &[DeviceRef]) -> Group {
    let FoundGroups { mut groups, errors, .. } = find_groups(disks).await;
    // Texts are written to one after another: a cut leaves some of them one change behind, and that bars nothing.
    let is_cut = |error: &LvmError| matches!(error, LvmError::Outdated { seqno, newest, .. } if newest - seqno == 1);
    assert!(groups.len() == 1 && errors.iter().all(is_cut), "{errors:?}");
    assert_eq!(groups[0].barred_by_outdated(), None);
    groups.remove(0)
}

#[test]
fn a_group_that_lvm_made_is_read_as_lvm_tells_it() {
    run(|_| async {
        let Group { group, found, .. } = only_group(&devices(&of_lvm())).await;
        assert_eq!((&*group.name, group.seqno, group.extent_sectors), ("vgtest", 4, 8192));
        assert_eq!(group.id.to_string(), "gvvD9l-0zKI-2rth-I28v-V7qK-0ipB-jhJSzi");
        assert_eq!((found.len(), group.physical["pv1"].extents), (3, 15));
        let extents: Vec<(&str, u64)> =
            group.logical.iter().map(|volume| (&*volume.name, volume.extents())).collect();
        assert_eq!(extents, [("lin", 5), ("str", 12), ("big", 15)]);
        let Mapping::Striped { stripe_sectors, stripes } = &group.logical[1].segments[0].mapping
        else {
            panic!("it is striped");
        };
        let places: Vec<(&str, u64)> = stripes.iter().map(|(pv, at)| (&**pv, *at)).collect();
        assert_eq!((*stripe_sectors, places), (32, vec![("pv0", 5), ("pv1", 0), ("pv2", 0)]));
    });
}

/// The first byte of a volume at each of these places, written through the volume and found on the disk.
async fn lies_at(rt: &Rt, group: &Group, volume: &str, places: &[(u64, &Rc<MemoryDevice>, u64)]) {
    let device = group.open(rt, volume).expect("opened");
    for (number, (at, disk, place)) in places.iter().enumerate() {
        let data = Buf::fill(0x1234_5678 + number as u64, 4096);
        device.submit(Request::write(Offset(*at), data.clone())).await.expect("written");
        let found = disk.peek(Offset(*place), ByteCount(4096)).to_vec();
        assert_eq!(found, data.bytes(), "{volume} at {at}");
    }
}

#[test]
fn bytes_of_a_volume_lie_where_linux_looks_for_them() {
    run(|rt| async move {
        const MIB: u64 = 1 << 20;
        const KIB: u64 = 1 << 10;
        let disks = of_lvm();
        let group = only_group(&devices(&disks)).await;
        // pv0 was loop1, the second disk; pv1 loop2, the third; pv2 loop0, the first.
        let (pv0, pv1, pv2) = (&disks[1], &disks[2], &disks[0]);
        lies_at(&rt, &group, "lin", &[(0, pv0, MIB), (20 * MIB - 4096, pv0, 21 * MIB - 4096)])
            .await;
        let str_places = [
            (0, pv0, 21 * MIB),
            (16 * KIB, pv1, MIB),
            (32 * KIB, pv2, MIB),
            (48 * KIB, pv0, 21 * MIB + 16 * KIB),
            (68 * KIB, pv1, MIB + 20 * KIB),
        ];
        lies_at(&rt, &group, "str", &str_places).await;
        let Mapping::Striped { stripes, .. } = &group.group.logical[2].segments[0].mapping else {
            panic!("it is linear");
        };
        assert_eq!(stripes[..], [("pv1".to_owned(), 4)]);
        lies_at(&rt, &group, "big", &[(0, pv1, 17 * MIB), (44 * MIB, pv0, 37 * MIB)]).await;
    });
}

/// What could break: bytes that are there are lost with those that aren't, or others are given for them; how many are lost is counted wrongly.
#[test]
fn of_a_volume_in_part_all_is_read_that_lies_on_what_is_there() {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    run(|rt| async move {
        let disks = of_lvm();
        let whole = only_group(&devices(&disks)).await;
        for (name, bytes) in [("str", 12 * MIB), ("big", 60 * MIB)] {
            let device = whole.open(&rt, name).expect("opened");
            let len = device.geometry().capacity;
            assert!(len.bytes() >= bytes, "{name} {len}");
            for at in (0..len.bytes()).step_by(16 << 10) {
                let data = Buf::fill(at | 1, 16 << 10);
                device.submit(Request::write(Offset(at), data)).await.expect("written");
            }
            assert_eq!(whole.lacking(whole.volume(name).expect("there")), []);
        }
        // pv0 is the second disk: a third of what is striped, and the second segment of the other.
        let there: Vec<DeviceRef> =
            [&disks[0], &disks[2]].map(|disk| Rc::clone(disk) as DeviceRef).into();
        let missing = whole.group.physical["pv0"].id;
        let mut cut = there.clone();
        let short = ByteCount(37 * MIB + 20 * KIB);
        cut.push(Slice::called("short", Rc::clone(&disks[1]) as DeviceRef, Offset(0), short));
        for (devices, is_cut) in [(there, false), (cut, true)] {
            let group = only_group(&devices).await;
            for name in ["str", "big"] {
                let device = group.open_in_part(&rt, name).expect("opened");
                let len = device.geometry().capacity.bytes();
                let (mut lost, mut within) = (0, len..0);
                for at in (0..len).step_by(16 << 10) {
                    let read = device.submit(Request::read(Offset(at), ByteCount::kib(16))).await;
                    match read {
                        Ok(data) => assert_eq!(data.to_vec(), Buf::fill(at | 1, 16 << 10).bytes()),
                        Err(error) => {
                            let kind = if is_cut {
                                IoErrorKind::CutShort
                            } else {
                                IoErrorKind::TooFewMembers
                            };
                            assert_eq!(error.kind, kind);
                            lost += 16 << 10;
                            within = within.start.min(at)..at + (16 << 10);
                        }
                    }
                }
                let lacking = group.lacking(group.volume(name).expect("there"));
                if is_cut && name == "str" {
                    // All of it lies before the end.
                    assert_eq!((lost, &lacking[..]), (0, &[][..]));
                    continue;
                }
                let [lacking] = &lacking[..] else { panic!("{lacking:?}") };
                let why =
                    if is_cut { Lacks::CutShort("short".into()) } else { Lacks::Missing(missing) };
                assert_eq!(lacking.why, why);
                // A block that is cut can't be read as a whole.
                let rest = if is_cut { 4 * KIB } else { 0 };
                assert_eq!(
                    (lacking.bytes + rest, lacking.within.end),
                    (lost, within.end),
                    "{name}"
                );
                assert_eq!(lacking.within.start, within.start + rest, "{name}");
                assert!(group.open(&rt, name).is_err());
            }
        }
    });
}

#[test]
fn what_is_made_here_is_found_again_on_disks_in_another_order() {
    run(|rt| async move {
        let disks = blank(3);
        let mut prng = Prng::new(1);
        let extent = ByteCount::mib(1);
        let mut group =
            create_group(&devices(&disks), "vg", extent, &origin(), &mut prng).await.expect("made");
        for volume in [wanted("two", 30, 3), wanted("one", 70, 1), wanted("three", 5, 1)] {
            group.create_volume(&volume, &origin(), &mut prng).await.expect("made");
        }
        let device = group.open(&rt, "one").expect("opened");
        assert_eq!(device.geometry().capacity, ByteCount::mib(70));
        let data = Buf::fill(99, 1 << 20);
        device.submit(Request::write(Offset(65 << 20), data.clone())).await.expect("written");
        group.remove_volume("three", &origin()).await.expect("removed");

        let turned: Vec<DeviceRef> = devices(&disks).into_iter().rev().collect();
        let again = only_group(&turned).await;
        assert_eq!(again.group, group.group);
        assert_eq!(again.group.seqno, 5);
        let device = again.open(&rt, "one").expect("opened");
        let read = Request::read(Offset(65 << 20), ByteCount::mib(1));
        assert_eq!(device.submit(read).await.expect("read").to_vec(), data.bytes());
        let free: u64 = ["pv0", "pv1", "pv2"]
            .iter()
            .flat_map(|pv| again.group.free(pv))
            .map(|r| r.end - r.start)
            .sum();
        assert_eq!(free, 3 * 63 - 70 - 30);
    });
}

#[test]
fn a_change_to_a_group_of_lvms_keeps_what_it_does_not_know() {
    run(|_| async {
        let disks = devices(&of_lvm());
        let mut group = only_group(&disks).await;
        let known =
            group.text.section("vgtest").and_then(|vg| vg.section("logical_volumes")).cloned();
        group
            .create_volume(&wanted("new", 4, 1), &origin(), &mut Prng::new(1))
            .await
            .expect("made");
        let again = only_group(&disks).await;
        assert_eq!((again.group.seqno, again.group.logical.len()), (5, 4));
        let volumes = again.text.section("vgtest").and_then(|vg| vg.section("logical_volumes"));
        let (known, volumes) = (known.expect("there"), volumes.expect("there"));
        assert_eq!(volumes.nodes[..3], known.nodes[..]);
        assert!(again.text.value("description").is_some());
    });
}

#[test]
fn wishes_that_can_not_be_met_are_named() {
    run(|rt| async move {
        let mut group = only_group(&devices(&of_lvm())).await;
        let mut prng = Prng::new(1);
        let mut refused = async |wish: Wanted| {
            let result = group.create_volume(&wish, &origin(), &mut prng).await;
            result.expect_err("it is refused").to_string()
        };
        assert!(refused(wanted("lin", 4, 1)).await.contains("has a logical volume lin already"));
        assert!(refused(wanted("-x", 4, 1)).await.contains("a name has letters"));
        assert!(
            refused(wanted("x", 500, 1))
                .await
                .contains("500 MiB are wanted (125 extents of 4 MiB), on any physical volumes")
        );
        let odd = Wanted { stripe: ByteCount(5000), ..wanted("x", 4, 2) };
        assert!(refused(odd).await.contains("a power of two"));
        let error = group.open(&rt, "nope").err().expect("there is none");
        assert!(matches!(error, LvmError::NoVolume { .. }));

        let two = devices(&of_lvm()[..2]);
        let mut group = only_group(&two).await;
        let error = group.open(&rt, "str").err().expect("a stripe is missing").to_string();
        assert!(
            error.contains("vgtest/str: the physical volume hLb0Ov") || error.contains("rRgGqP"),
            "{error}"
        );
        let error = group.create_volume(&wanted("x", 4, 1), &origin(), &mut prng).await;
        assert!(matches!(error, Err(LvmError::MissingForChange { .. })));
    });
}

/// A change with the power cut at a write leaves the group as before it or as after it.
#[test]
fn a_power_cut_at_any_write_leaves_the_old_group_or_the_new_one() {
    let mut cuts = 0;
    for seed in 0..8 {
        for write in 1.. {
            let done = run(move |rt| async move {
                let disks = of_lvm();
                let cut: Vec<Rc<PowerCut>> =
                    devices(&disks).into_iter().map(|disk| PowerCut::new(disk, &rt)).collect();
                // One device loses its power at its own n-th write, and the others with it.
                let place = (write - 1) % 3;
                cut[place].cut_at_write(1 + (write as u64 - 1) / 3, Prng::new(seed));
                let behind: Vec<DeviceRef> =
                    cut.iter().map(|cut| Rc::clone(cut) as DeviceRef).collect();
                let mut group = only_group(&behind).await;
                let mut prng = Prng::new(seed);
                let result = group.create_volume(&wanted("new", 8, 1), &origin(), &mut prng).await;
                let is_cut = cut[place].is_cut();
                for (number, cut) in cut.iter().enumerate() {
                    if !cut.is_cut() {
                        cut.cut(Prng::for_part(seed, &format!("disk {number}")));
                    }
                }
                let mut after = Vec::new();
                for cut in &cut {
                    after.push(cut.power_on().await.expect("it is whole"));
                }
                let again = only_group(&after).await;
                match again.group.seqno {
                    4 => assert!(result.is_err() && again.group.logical.len() == 3),
                    5 => assert_eq!(again.group.logical.len(), 4),
                    other => panic!("seqno {other}"),
                }
                assert!(result.is_err() || again.group.seqno == 5, "an answered change stays");
                !is_cut
            });
            cuts += u32::from(!done);
            if done && write > 12 {
                break;
            }
        }
    }
    assert!(cuts >= 8 * 6, "{cuts} cuts");
}

/// Where data begin on LVM's disks.
const DATA: u64 = 1 << 20;

/// LVM's disks, of which this one begins with noise up to its data, but for its first sector; and which physical volume that was.
async fn overwritten(number: usize) -> (Vec<Rc<MemoryDevice>>, Group, volume::lvm::label::Id) {
    let disks = of_lvm();
    let whole = only_group(&devices(&disks)).await;
    let is_it = |device: &DeviceRef| *device.name() == *format!("d{number}");
    let found = whole.found.values().find(|found| is_it(&found.device)).expect("it is there");
    let id = found.label.id;
    let mut noise = vec![0; (DATA - SECTOR) as usize];
    Prng::new(number as u64).fill(&mut noise);
    disks[number].poke(Offset(SECTOR), &SgList::from(Buf::copy_of(&noise)));
    (disks, whole, id)
}

fn bytes(disk: &MemoryDevice, at: u64, len: u64) -> Vec<u8> {
    disk.peek(Offset(at), ByteCount(len)).to_vec()
}

/// What could break: the text is another than the others', so that LVM warns; a byte of the data, or of another disk, is written; an old
/// label before ours counts.
#[test]
fn a_physical_volume_that_was_overwritten_is_made_again_and_nothing_else_is_written() {
    run(|rt| async move {
        for number in 0..3 {
            let (disks, whole, id) = overwritten(number).await;
            let device = whole.open(&rt, "str").expect("opened");
            let content = Buf::fill(0x5a5a_1234, 12 << 20);
            let write = Request::write(Offset(0), content.clone());
            device.submit(write).await.expect("written");
            let stranger = Label {
                id: whole.group.id,
                device_bytes: SIZE.bytes(),
                data: Vec::new(),
                metadata: Vec::new(),
            };
            let is_labelled = number == 2;
            if is_labelled {
                disks[number].poke(Offset(0), &SgList::from(Buf::copy_of(&stranger.encode(0))));
            }
            let before: Vec<Vec<u8>> = disks.iter().map(|disk| bytes(disk, 0, 2 * DATA)).collect();
            let there: Vec<DeviceRef> = devices(&disks)
                .into_iter()
                .filter(|one| *one.name() != *format!("d{number}"))
                .collect();
            let lacking = only_group(&there).await;
            let device: DeviceRef = Rc::clone(&disks[number]) as DeviceRef;
            let group = group_lacking(std::slice::from_ref(&lacking), id).expect("it lacks that");
            group.restore_physical(id, &device).await.expect("made");

            let FoundGroups { groups, errors, apart, .. } = find_groups(&devices(&disks)).await;
            assert!(errors.is_empty() && apart.is_empty(), "{errors:?}");
            let [again] = &groups[..] else { panic!("it is one group") };
            assert_eq!((&again.group, again.found.len()), (&whole.group, 3));
            assert!(again.missing().is_empty());
            let found = again.found.values().find(|found| found.label.id == id).expect("there");
            assert_eq!(found.label.device_bytes, SIZE.bytes());
            let device = again.open(&rt, "str").expect("opened");
            let read = Request::read(Offset(0), ByteCount::mib(12));
            assert!(device.submit(read).await.expect("read").to_vec() == content.bytes());

            let after: Vec<Vec<u8>> = disks.iter().map(|disk| bytes(disk, 0, 2 * DATA)).collect();
            let (area, text) = (4096, 2214);
            for (other, (before, after)) in before.iter().zip(&after).enumerate() {
                if other != number {
                    assert!(before == after, "d{other} was written");
                    continue;
                }
                // Sector 0 stays but for a label; behind the label's sector all stays up to the area, and behind its text.
                let kept = [(0, 512), (1024, area), (area + 512 + 2560, before.len())];
                for (from, to) in kept.into_iter().skip(usize::from(is_labelled)) {
                    assert!(before[from..to] == after[from..to], "d{other}: {from} to {to}");
                }
                assert!(!is_labelled || after[..512] == [0; 512]);
                // Letter for letter what the others have, comments too.
                let of_lvm = &HEADS[(number + 1) % 3][area + 5632..][..text];
                assert!(of_lvm.starts_with(b"vgtest {") && of_lvm.contains(&b'#'));
                assert!(&after[area + 512..][..text] == of_lvm);
            }
        }
    });
}

/// What could break: a power cut leaves half a physical volume, which can't be made again.
#[test]
fn a_power_cut_leaves_a_physical_volume_missing_or_made_again() {
    let mut missing = 0;
    for seed in 0..4 {
        for write in 1.. {
            let is_cut = run(move |rt| async move {
                let (disks, whole, id) = overwritten(1).await;
                let others = [&disks[0], &disks[2]].map(|disk| Rc::clone(disk) as DeviceRef);
                let lacking = only_group(&others).await;
                let cut = PowerCut::new(Rc::clone(&disks[1]) as DeviceRef, &rt);
                cut.cut_at_write(write, Prng::new(seed));
                let result = lacking.restore_physical(id, &(Rc::clone(&cut) as DeviceRef)).await;
                let is_cut = cut.is_cut();
                if !is_cut {
                    cut.cut(Prng::new(seed));
                }
                let after = cut.power_on().await.expect("it is whole");
                let mut all = others.to_vec();
                all.push(Rc::clone(&after) as DeviceRef);
                let group = only_group(&all).await;
                assert_eq!(group.group, whole.group);
                let is_missing = !group.missing().is_empty();
                assert!(is_missing || group.found.len() == 3);
                assert!(result.is_err() || !is_missing, "what was answered stays");
                if is_missing {
                    let device = Rc::clone(&after) as DeviceRef;
                    group.restore_physical(id, &device).await.expect("made at the second try");
                    assert!(only_group(&all).await.missing().is_empty());
                }
                (is_cut, is_missing)
            });
            missing += u32::from(is_cut.1);
            if !is_cut.0 {
                break;
            }
        }
    }
    assert!(missing >= 4 * 2, "{missing} times it was missing");
}

#[test]
fn a_device_that_can_not_be_the_physical_volume_is_refused_before_it_is_written() {
    run(|_| async {
        let (disks, whole, id) = overwritten(1).await;
        let (own, others) = (
            devices(&disks[1..2]),
            [&disks[0], &disks[2]].map(|disk| Rc::clone(disk) as DeviceRef),
        );
        let before = bytes(&disks[1], 0, DATA);
        let group = only_group(&others).await;
        let mib = |mib: u64| mib << 20;
        assert_eq!(group.missing(), [(id, mib(61)..=mib(64))]);
        let mut unsaid = group.clone();
        unsaid.group.physical.values_mut().for_each(|one| one.device_sectors = None);
        assert_eq!(unsaid.missing(), [(id, mib(61)..=mib(65))]);

        // Which group.
        let nobody = whole.group.id;
        let groups = [group.clone()];
        let error = group_lacking(&groups, nobody).err().expect("none names it");
        assert_eq!(
            error,
            LvmError::NotMissing { id: nobody, missing: vec![("vgtest".into(), id)] }
        );
        assert!(error.to_string().contains(&format!("missing are vgtest: {id}")), "{error}");
        let error =
            group_lacking(std::slice::from_ref(&whole), nobody).err().expect("none names it");
        assert!(error.to_string().contains("none lacks any"), "{error}");
        let error = group_lacking(&[whole], id).err().expect("it is there");
        assert_eq!(
            error.to_string(),
            format!("volume group vgtest: its physical volume {id} is there: d1")
        );
        let two = [group.clone(), group.clone()];
        let error = group_lacking(&two, id).err().expect("it is of two");
        assert!(matches!(error, LvmError::SeveralName { .. }), "{error}");

        // Which device.
        let other = group.check_restorable(id, &others[0]);
        assert!(matches!(other, Err(LvmError::IsAnother { .. })), "{other:?}");
        let short = ByteCount(mib(61) - 4096);
        let short = Slice::called("short", Rc::clone(&own[0]), Offset(0), short) as DeviceRef;
        let error = group.check_restorable(id, &short).expect_err("it is too short");
        assert!(error.to_string().contains("truncate -s 63963136 COPY"), "{error}");
        let enough = Slice::called("enough", Rc::clone(&own[0]), Offset(0), ByteCount(mib(61)));
        assert_eq!(group.check_restorable(id, &(enough as DeviceRef)), Ok(()));

        // What the group says.
        let refused = async |change: &dyn Fn(&mut Group)| {
            let mut group = group.clone();
            change(&mut group);
            group.restore_physical(id, &own[0]).await.expect_err("it is refused")
        };
        let name = group.group.physical.iter().find(|(_, one)| one.id == id).expect("there").0;
        let older = refused(&|group| group.is_older = true).await;
        assert!(matches!(older, LvmError::Older { .. }), "{older}");
        let outdated = refused(&|group| group.outdated.push(("d0".into(), 2))).await;
        assert!(matches!(outdated, LvmError::Outdated { .. }), "{outdated}");
        let two = refused(&|group| group.contradicting.push("d0".into())).await;
        assert!(matches!(two, LvmError::TwoTexts { .. }), "{two}");
        let start = |sector: u64| {
            move |group: &mut Group| {
                group.group.physical.get_mut(name).expect("there").start_sector = sector;
            }
        };
        // The text has 2214 bytes, its area's header 512.
        for sector in [0, 8, 9, 8 + 1 + 4] {
            let error = refused(&start(sector)).await;
            assert!(matches!(error, LvmError::NoRoom { .. }), "{sector}: {error}");
        }
        let with_boot_area = |group: &mut Group| {
            let volumes = group.text.section_mut("vgtest").section_mut("physical_volumes");
            volumes.section_mut(name).set("ba_start", Value::Number(2048));
        };
        let boot = refused(&with_boot_area).await;
        assert!(matches!(boot, LvmError::BootArea { .. }), "{boot}");
        assert!(bytes(&disks[1], 0, DATA) == before);

        let mut group = group.clone();
        start(8 + 1 + 5)(&mut group);
        group.restore_physical(id, &own[0]).await.expect("there is room for the text");
    });
}

#[test]
fn no_flipped_bit_of_label_header_or_text_is_believed() {
    run(|_| async {
        let expected = only_group(&devices(&of_lvm()[..1])).await.group;
        let text = 4096 + 5632..4096 + 5632 + 2214;
        let bits =
            (512..1024).chain(4096..4096 + 512).chain(text).flat_map(|byte| byte * 8..byte * 8 + 8);
        // Every 21st bit: all places within a byte, in turn.
        for bit in bits.step_by(21) {
            let mut head = HEADS[0].to_vec();
            head[bit / 8] ^= 1 << (bit % 8);
            let FoundGroups { groups, errors, .. } =
                find_groups(&devices(&[disk("d", SIZE, &head)])).await;
            match groups.first() {
                Some(group) => assert_eq!(group.group, expected, "bit {bit} was believed"),
                // A label whose first letters are wrong is none.
                None => assert!(!errors.is_empty() || bit / 8 < 520, "bit {bit} was passed over"),
            }
        }
    });
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![any::<i64>().prop_map(Value::Number), "[ -~]{0,20}".prop_map(Value::Text),];
    leaf.prop_recursive(2, 8, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::List))
}

fn section() -> impl Strategy<Value = Section> {
    let leaf = prop::collection::vec(("[a-z][a-z0-9_]{0,8}", value().prop_map(Node::Value)), 0..4)
        .prop_map(|nodes| Section { nodes });
    leaf.prop_recursive(3, 16, 4, |inner| {
        let node = prop_oneof![value().prop_map(Node::Value), inner.prop_map(Node::Section)];
        prop::collection::vec(("[a-z][a-z0-9_]{0,8}", node), 0..4)
            .prop_map(|nodes| Section { nodes })
    })
}

proptest! {
    #[test]
    fn a_text_reads_back_as_it_was_written(section in section()) {
        prop_assert_eq!(Section::parse(&section.text()), Ok(section));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z{}=\\[\\]\", 0-9\n#\\\\-]{0,200}") {
        let _ = Section::parse(&text);
    }

    #[test]
    fn any_sector_is_a_label_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 512)) {
        bytes[..8].copy_from_slice(b"LABELONE");
        prop_assert!(Label::decode(&bytes, 1).is_err());
    }
}
