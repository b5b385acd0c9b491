//! Partition tables and volume groups of any content.
//!
//! What could break: a place or a number that is trusted because a checksum fits, a device that ends in the
//! middle of a structure, a text that never ends.

use crate::world;
use rt::{Buf, MemoryDevice, SgList};
use std::rc::Rc;
use std::sync::LazyLock;
use stdx::{ByteCount, Offset, Prng};
use volume::gpt::read_table;
use volume::lvm::find_groups;
use world::*;

const SIZE: ByteCount = ByteCount::mib(16);
const HEAD: &[u8] = include_bytes!("../data/gpt.head");
const LVM: &[u8] = include_bytes!("../data/lvm-disk0.head");

/// What eight bits of a CRC-32 of IEEE 802.3 become.
static OF_EIGHT: LazyLock<[u32; 256]> = LazyLock::new(|| {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    std::array::from_fn(|bits| (0..8).fold(bits as u32, step))
});

/// CRC-32 of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    let table = &*OF_EIGHT;
    let mut crc = !0;
    for byte in bytes {
        crc = table[(crc as u8 ^ byte) as usize] ^ crc >> 8;
    }
    !crc
}

#[test]
fn a_table_of_any_fields_under_checksums_that_fit_is_refused_or_lies_on_the_device() {
    run(|_| async {
        let mut prng = Prng::new(21);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..4000 {
            let mut head = HEAD.to_vec();
            for _ in 0..=prng.below(3) {
                // Of the header what has a meaning, and the first entries.
                let at = if prng.chance(0.5) {
                    512 + 8 + prng.below(84) as usize
                } else {
                    1024 + prng.below(512) as usize
                };
                match prng.below(3) {
                    0 => head[at] ^= 1 << prng.below(8),
                    1 => head[at] = [0, 0xff, 0x7f, 0x80][prng.below(4) as usize],
                    _ => head[at] = prng.next_u64() as u8,
                }
            }
            let table = crc32(&head[1024..1024 + 128 * 128]).to_le_bytes();
            head[512 + 88..512 + 92].copy_from_slice(&table);
            head[512 + 16..512 + 20].fill(0);
            let header = crc32(&head[512..512 + 92]).to_le_bytes();
            head[512 + 16..512 + 20].copy_from_slice(&header);
            match read_table(&(disk("disk", SIZE, &head) as _)).await {
                Ok(table) => {
                    good += 1;
                    for partition in table.iter().flat_map(|table| &table.partitions) {
                        let end = partition.start.bytes() + partition.len.bytes();
                        assert!(end <= SIZE.bytes(), "{partition:?}");
                    }
                }
                Err(_) => bad += 1,
            }
        }
        assert!(good > 500 && bad > 500, "{good} good, {bad} bad");
    });
}

#[test]
fn a_device_that_ends_in_the_middle_of_a_table_has_none_or_says_so() {
    run(|_| async {
        for blocks in 1..HEAD.len() as u64 / 512 {
            let disk = MemoryDevice::new("disk", ByteCount(blocks * 512));
            let there = SgList::from(Buf::copy_of(&HEAD[..blocks as usize * 512]));
            disk.poke(Offset(0), &there);
            let table = read_table(&(Rc::clone(&disk) as _)).await;
            assert!(!matches!(table, Ok(Some(_))), "{blocks} blocks");
        }
    });
}

#[test]
fn a_volume_group_of_any_damage_is_refused_or_read() {
    run(|_| async {
        let mut prng = Prng::new(22);
        let expected = find_groups(&devices(&[disk("d", SIZE, LVM)])).await.groups;
        let expected = expected.first().map(|group| group.group.clone());
        for round in 0..3000 {
            let mut head = LVM.to_vec();
            for _ in 0..=prng.below(4) {
                let at = 512 + prng.below(head.len() as u64 - 512) as usize;
                head[at] = prng.next_u64() as u8;
            }
            if prng.chance(0.2) {
                head.truncate(512 * (1 + prng.below(head.len() as u64 / 512) as usize));
            }
            let groups = find_groups(&devices(&[disk("d", SIZE, &head)])).await.groups;
            // Older texts have no checksum any more.
            let group = groups.first().filter(|group| !group.is_older);
            let group = group.map(|group| group.group.clone());
            assert!(group.is_none() || group == expected, "round {round}");
        }
    });
}
