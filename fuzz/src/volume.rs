//! Partition tables, file systems' superblocks and volume groups: GPT, MBR, and LVM2's labels, areas and text.

use crate::machine::{Input, device, disk, run};
use rt::DeviceRef;
use stdx::ByteCount;
use volume::gpt::read_table;
use volume::lvm::area::AreaHeader;
use volume::lvm::find_groups;
use volume::lvm::label::Label;
use volume::lvm::metadata::VolumeGroup;
use volume::lvm::text::Section;
use volume::{content, mbr};

const DISK: ByteCount = ByteCount::mib(16);
const GPT: &[u8] = include_bytes!("../../crates/volume/tests/data/gpt.head");
const LVM: &[u8] = include_bytes!("../../crates/volume/tests/data/lvm-disk0.head");
/// LVM's start of CRC-32, which is not inverted at the end.
const LVM_START: u32 = 0xf597_a6cf;
const SECTOR: usize = 512;
/// Sectors that a device of [`mbr`] has.
const SECTORS_MAX: usize = 128;
/// Where file systems are known by what.
const MAGICS: &[(usize, &[u8])] = &[
    (0, b"LUKS\xba\xbe"),
    (0, b"XFSB"),
    (65_600, b"_BHRfS_M"),
    (1080, b"\x53\xef"),
    (1024, b"\x10\x20\xf5\xf2"),
    (4086, b"SWAPSPACE2"),
    (32_769, b"CD001"),
    (3, b"NTFS    "),
    (3, b"EXFAT   "),
    (82, b"FAT32   "),
    (54, b"FAT16   "),
];
/// Of the metadata area in the fixture, and of its header.
const AREA_AT: usize = 4096;
/// Text that is given to a group: far more than any group's that a person wrote.
const TEXT_MAX: usize = 64 << 10;

fn lvm_checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!LVM_START);
    hasher.update(bytes);
    !hasher.finalize()
}

/// The header and the table in the first 17 KiB of a device get the checksums that fit.
fn mend_gpt(head: &mut [u8]) {
    let table = crc32fast::hash(&head[1024..1024 + 128 * 128]).to_le_bytes();
    head[512 + 88..512 + 92].copy_from_slice(&table);
    head[512 + 16..512 + 20].fill(0);
    let mut length = [0; 4];
    length.copy_from_slice(&head[512 + 12..512 + 16]);
    let length = (u32::from_le_bytes(length) as usize).clamp(92, SECTOR);
    let header = crc32fast::hash(&head[512..512 + length]).to_le_bytes();
    head[512 + 16..512 + 20].copy_from_slice(&header);
}

/// A GPT of any fields under checksums that fit: each partition lies on the device and can be read.
///
/// Input: 92 bytes and more of the header, laid over a good one from byte 8 on; then entries.
pub fn gpt(input: &[u8]) {
    let mut head = GPT.to_vec();
    head.resize(1024 + 128 * 128, 0);
    let header = &input[..input.len().min(84)];
    head[512 + 8..512 + 8 + header.len()].copy_from_slice(header);
    let entries = input.get(84..).unwrap_or_default();
    let len = entries.len().min(128 * 128);
    head[1024..1024 + len].copy_from_slice(&entries[..len]);
    mend_gpt(&mut head);
    run(async move |_| {
        let whole = device(&disk("disk", DISK, &[(0, &head)]));
        let Ok(Some(table)) = read_table(&whole).await else { return };
        for partition in &table.partitions {
            let end = partition.start.bytes().checked_add(partition.len.bytes());
            assert!(end.is_some_and(|end| end <= DISK.bytes()), "{partition:?}");
            let part = partition.device(&whole);
            let len = part.geometry().capacity.min(ByteCount::kib(4));
            let read = rt::Request::read(stdx::Offset::ZERO, len);
            part.submit(read).await.expect("it lies on the device");
        }
    });
}

/// An MBR and the tables of its logical partitions: each partition lies on the device and can be read; the chain ends.
///
/// Input: sectors, each behind the number of the block where it lies, from the table at the start on.
pub fn mbr(input: &[u8]) {
    let mut input = Input::new(input);
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    while !input.is_empty() && parts.len() < SECTORS_MAX {
        let at = if parts.is_empty() { 0 } else { input.number::<2>() };
        let mut sector = vec![0; SECTOR];
        let entries = input.take(64);
        sector[446..446 + entries.len()].copy_from_slice(entries);
        sector[510..].copy_from_slice(b"\x55\xaa");
        parts.push((at * SECTOR as u64 % DISK.bytes(), sector));
    }
    run(async move |_| {
        let parts: Vec<(u64, &[u8])> =
            parts.iter().map(|(at, sector)| (*at, &sector[..])).collect();
        let whole = device(&disk("disk", DISK, &parts));
        let Ok(Some(table)) = mbr::read_table(&whole).await else { return };
        let most = 4 + mbr::LOGICAL_MAX as usize;
        assert!(table.partitions.len() <= most && table.beyond.len() <= most);
        for partition in &table.partitions {
            let end = partition.start.bytes().checked_add(partition.len.bytes());
            assert!(end.is_some_and(|end| end <= DISK.bytes()), "{partition:?}");
            let part = partition.device(&whole);
            let len = part.geometry().capacity.min(ByteCount::kib(4));
            let read = rt::Request::read(stdx::Offset::ZERO, len);
            part.submit(read).await.expect("it lies on the device");
        }
    });
}

/// Superblocks of file systems: told or not, with text that is no longer than the field.
///
/// Input: which magic number to put in, then the start of a device.
pub fn content(input: &[u8]) {
    let mut input = Input::new(input);
    let (magic, mut head) = (input.byte() as usize, input.rest().to_vec());
    if let Some((at, magic)) = MAGICS.get(magic % (MAGICS.len() + 1)) {
        head.resize(head.len().max(at + magic.len()), 0);
        head[*at..at + magic.len()].copy_from_slice(magic);
    }
    let Some(found) = content::decode(&head) else { return };
    assert!(!found.kind.name().is_empty() && !found.kind.read_only_options().is_empty());
    // A byte that is no UTF-8 becomes three.
    assert!(found.label.is_none_or(|label| !label.is_empty() && label.len() <= 3 * 1024));
    assert!(found.id.is_none_or(|id| id.len() <= 3 * 40));
}

/// LVM's label and area header: what is decoded encodes to the same.
pub fn lvm_label(input: &[u8]) {
    let mut sector = input.to_vec();
    sector.resize(SECTOR, 0);
    sector[..8].copy_from_slice(b"LABELONE");
    sector[8..16].copy_from_slice(&1_u64.to_le_bytes());
    let sum = lvm_checksum(&sector[20..]).to_le_bytes();
    sector[16..20].copy_from_slice(&sum);
    let _ = Label::decode(&sector, 1);
    let mut header = input.to_vec();
    header.resize(SECTOR, 0);
    header[4..20].copy_from_slice(&LVM[AREA_AT + 4..AREA_AT + 20]);
    let start = header[24..32].first_chunk::<8>().map_or(0, |start| u64::from_le_bytes(*start));
    let sum = lvm_checksum(&header[4..]).to_le_bytes();
    header[..4].copy_from_slice(&sum);
    if let Ok(area) = AreaHeader::decode(&header, start) {
        if let Some(text) = &area.text {
            let parts = area.parts(text);
            assert_eq!(parts[0].1 + parts[1].1, text.len);
            assert!(parts.iter().all(|(at, len)| at + len <= area.len), "{area:?}");
        }
        for len in [0, 1, 4096, 1 << 40] {
            if let Some(at) = area.place(len) {
                assert!(at + len <= area.len, "{area:?}");
            }
        }
    }
}

/// The text of a group: parsed, printed and parsed again it is the same; a group that is taken from it answers.
pub fn lvm_text(input: &[u8]) {
    let text = String::from_utf8_lossy(&input[..input.len().min(TEXT_MAX)]);
    let Ok(section) = Section::parse(&text) else { return };
    let printed = section.text();
    assert_eq!(Section::parse(&printed).as_ref(), Ok(&section), "{printed}");
    if let Ok(group) = VolumeGroup::of_text(&section) {
        for name in group.physical.keys() {
            let _ = group.free(name);
        }
        for volume in &group.logical {
            let _ = volume.extents();
        }
    }
}

/// A physical volume whose text is anything, under checksums that fit: its volumes open and are read, or are refused.
pub fn lvm_group(input: &[u8]) {
    let text = input[..input.len().min(TEXT_MAX)].to_vec();
    run(async move |rt| {
        let mut head = LVM.to_vec();
        let text_at = AREA_AT + SECTOR;
        head.resize(head.len().max(text_at + text.len()), 0);
        head[text_at..text_at + text.len()].copy_from_slice(&text);
        head[AREA_AT + 40..AREA_AT + 48].copy_from_slice(&(SECTOR as u64).to_le_bytes());
        head[AREA_AT + 48..AREA_AT + 56].copy_from_slice(&(text.len() as u64).to_le_bytes());
        head[AREA_AT + 56..AREA_AT + 60].copy_from_slice(&lvm_checksum(&text).to_le_bytes());
        let sum = lvm_checksum(&head[AREA_AT + 4..AREA_AT + SECTOR]).to_le_bytes();
        head[AREA_AT..AREA_AT + 4].copy_from_slice(&sum);
        let disk: DeviceRef = device(&disk("disk", DISK, &[(0, &head)]));
        let groups = find_groups(&[disk]).await.groups;
        for group in &groups {
            for volume in &group.group.logical {
                let lacking: u64 = group.lacking(volume).iter().map(|one| one.bytes).sum();
                let whole = group.open(&rt, &volume.name).ok();
                let in_part = group.open_in_part(&rt, &volume.name).ok();
                if let Some(in_part) = &in_part {
                    assert!(
                        lacking <= in_part.geometry().capacity.bytes()
                            && (lacking > 0 || whole.is_some())
                    );
                }
                for opened in whole.into_iter().chain(in_part) {
                    let len = opened.geometry().capacity.min(ByteCount::kib(64));
                    let _ = opened.submit(rt::Request::read(stdx::Offset::ZERO, len)).await;
                }
            }
        }
    });
}

/// Seeds of [`gpt`].
pub fn gpt_seeds() -> Vec<Vec<u8>> {
    vec![[&GPT[512 + 8..512 + 92], &GPT[1024..1024 + 512]].concat()]
}

/// Seeds of [`mbr`]: two primary partitions, and an extended one with two logical ones.
pub fn mbr_seeds() -> Vec<Vec<u8>> {
    let entry = |kind: u8, first: u32, blocks: u32| {
        let mut entry = [0; 16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&blocks.to_le_bytes());
        entry
    };
    let none = [0; 16];
    let primary = [entry(0x83, 64, 64), entry(0x82, 128, 64), entry(5, 1024, 8192), none].concat();
    let first = [entry(0xfd, 64, 64), entry(5, 512, 512), none, none].concat();
    let second = [entry(0xfd, 64, 64), none, none, none].concat();
    let at = |block: u16, table: &[u8]| [&block.to_le_bytes()[..], table].concat();
    vec![[primary, at(1024, &first), at(1536, &second)].concat()]
}

/// Seeds of [`content`]: an empty start of a device under each magic number.
pub fn content_seeds() -> Vec<Vec<u8>> {
    (0..MAGICS.len() as u8).map(|magic| [&[magic][..], &[0; 4096]].concat()).collect()
}

/// Seeds of [`lvm_label`].
pub fn label_seeds() -> Vec<Vec<u8>> {
    vec![LVM[SECTOR..2 * SECTOR].to_vec(), LVM[AREA_AT..AREA_AT + 64].to_vec()]
}

/// Seeds of [`lvm_text`] and [`lvm_group`].
pub fn text_seeds() -> Vec<Vec<u8>> {
    let mut input = Input::new(&LVM[AREA_AT + 40..]);
    let (at, len) = (input.number::<8>() as usize, input.number::<8>() as usize);
    LVM.get(AREA_AT + at..AREA_AT + at + len).map(<[u8]>::to_vec).into_iter().collect()
}
