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
use rt::{Buf, DeviceRef, IoErrorKind, MemoryDevice, Request, Rt};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use volume::lvm::change::{Origin, Wanted, create_group};
use volume::lvm::label::Label;
use volume::lvm::metadata::Mapping;
use volume::lvm::text::{Node, Section, Value};
use volume::lvm::{FoundGroups, Group, Lacks, LvmError, find_groups};
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
