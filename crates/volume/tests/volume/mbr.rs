//! The partitions of a device in the older form.
//!
//! What could break: a logical partition that is counted from the wrong place, a boot sector that is taken for a table, a
//! chain that never ends, a partition that reaches beyond the device.

use crate::world;

use rt::{Buf, DeviceRef, MemoryDevice, SgList};
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use volume::mbr::{LOGICAL_MAX, Table, read_table};
use world::*;

const SIZE: ByteCount = ByteCount::mib(16);
/// What is no entry.
const NONE: [u8; 16] = [0; 16];

fn entry(kind: u8, first: u32, blocks: u32) -> [u8; 16] {
    let mut entry = NONE;
    entry[4] = kind;
    entry[8..12].copy_from_slice(&first.to_le_bytes());
    entry[12..].copy_from_slice(&blocks.to_le_bytes());
    entry
}

fn table(entries: [[u8; 16]; 4]) -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[446..510].copy_from_slice(&entries.concat());
    sector[510..].copy_from_slice(b"\x55\xaa");
    sector
}

/// The table of a disk with these sectors, by block.
fn read(sectors: &[(u64, Vec<u8>)]) -> Option<Table> {
    let disk = MemoryDevice::new("disk", SIZE);
    for (block, sector) in sectors {
        disk.poke(Offset(block * 512), &SgList::from(Buf::copy_of(sector)));
    }
    run(|_| async move { read_table(&(disk as DeviceRef)).await }).expect("readable")
}

/// Numbers, first blocks and blocks of what is found.
fn found(table: &Table) -> Vec<(u32, u64, u64)> {
    let one =
        |one: &volume::mbr::Partition| (one.number, one.start.bytes() / 512, one.len.bytes() / 512);
    table.partitions.iter().map(one).collect()
}

#[test]
fn logical_partitions_are_counted_from_their_own_table_and_numbered_from_five() {
    let primary =
        table([entry(0x83, 2048, 2048), NONE, entry(0x0f, 8192, 16_384), entry(7, 4096, 1)]);
    let first = table([entry(0xfd, 64, 100), entry(5, 4096, 4096), NONE, NONE]);
    let second = table([entry(0x82, 32, 10), NONE, NONE, NONE]);
    let read = read(&[(0, primary), (8192, first), (8192 + 4096, second)]).expect("a table");
    let expected = [(1, 2048, 2048), (4, 4096, 1), (5, 8192 + 64, 100), (6, 8192 + 4096 + 32, 10)];
    assert_eq!(found(&read), expected);
    assert!(read.beyond.is_empty());
}

#[test]
fn a_partition_is_called_by_its_disk_and_number() {
    run(|_| async {
        let disk = disk("disk", SIZE, &table([entry(0x83, 2048, 2048), NONE, NONE, NONE]));
        let whole = Rc::clone(&disk) as DeviceRef;
        let table = read_table(&whole).await.expect("readable").expect("a table");
        let part = table.partitions[0].device(&whole);
        assert_eq!((&*part.name(), part.geometry().capacity), ("disk:1", ByteCount::mib(1)));
    });
}

#[test]
fn what_is_no_table_has_no_partitions() {
    let good = entry(0x83, 2048, 2048);
    let mut flagged = good;
    flagged[0] = 0x33;
    let mut unsigned = table([good, NONE, NONE, NONE]);
    unsigned[511] = 0;
    // Code of a boot sector, a length that is none, a GPT's stand-in, and nothing within the disk.
    for sector in [
        table([flagged, NONE, NONE, NONE]),
        table([good, entry(0x83, 9000, 0), NONE, NONE]),
        table([entry(0xee, 1, 32_767), NONE, NONE, NONE]),
        table([entry(0x83, u32::MAX, u32::MAX), NONE, NONE, NONE]),
        table([NONE; 4]),
        unsigned,
    ] {
        assert_eq!(read(&[(0, sector.clone())]), None, "{:x?}", &sector[446..]);
    }
}

#[test]
fn of_what_reaches_beyond_the_end_what_lies_before_it_is_there_and_it_is_named() {
    let blocks = SIZE.bytes() / 512;
    let gone = entry(0x83, blocks as u32, 8);
    let read =
        read(&[(0, table([entry(0x83, 2048, 2048), entry(0x83, 8192, 1 << 20), gone, NONE]))]);
    let read = read.expect("a table");
    assert_eq!(read.beyond_to, Offset((8192 + (1 << 20)) * 512));
    assert_eq!(found(&read), [(1, 2048, 2048), (2, 8192, blocks - 8192)]);
    let cut: Vec<Option<ByteCount>> = read.partitions.iter().map(|one| one.cut).collect();
    assert_eq!((&cut[..], read.beyond), (&[None, Some(ByteCount(512 << 20))][..], vec![2, 3]));
}

/// What could break: the one data partition of a box's disk lies in an extended one, and a copy that broke off has none.
#[test]
fn the_chain_of_an_extended_partition_that_is_cut_is_followed() {
    let blocks = SIZE.bytes() / 512;
    let primary = table([entry(0x0f, 8192, 1 << 20), NONE, NONE, NONE]);
    let first = table([entry(0xfd, 64, 100), entry(5, 4096, 1 << 19), NONE, NONE]);
    let second = table([entry(0xfd, 64, 1 << 18), entry(5, 1 << 19, 4096), NONE, NONE]);
    let read = read(&[(0, primary), (8192, first), (8192 + 4096, second)]).expect("a table");
    let at = 8192 + 4096 + 64;
    assert_eq!(found(&read), [(5, 8192 + 64, 100), (6, at, blocks - at)]);
    assert_eq!((&read.beyond[..], read.beyond_to), (&[1, 6][..], Offset((8192 + (1 << 20)) * 512)));
}

#[test]
fn a_chain_ends_whatever_it_says() {
    let primary = || (0, table([entry(5, 1024, 16_384), NONE, NONE, NONE]));
    // To itself, backward out of the extended partition, to nothing.
    for next in [1, u32::MAX, 16_384, 9000] {
        let own = table([entry(0x83, 8, 8), entry(5, next, 8), NONE, NONE]);
        let read = read(&[primary(), (1024, own)]).expect("a table");
        assert_eq!(found(&read), [(5, 1032, 8)], "{next}");
    }
    let mut sectors = vec![primary()];
    for n in 0..100_u32 {
        let own = table([entry(0x83, 8, 8), entry(5, (n + 1) * 100, 100), NONE, NONE]);
        sectors.push((u64::from(1024 + n * 100), own));
    }
    assert_eq!(found(&read(&sectors).expect("a table")).len(), LOGICAL_MAX as usize);
}

/// A FAT's boot sector ends with the same two bytes, and what stands before may look like entries.
#[test]
fn a_device_that_begins_with_a_file_system_has_no_table() {
    let mut sector = table([entry(0x83, 2048, 2048), NONE, NONE, NONE]);
    sector[11..13].copy_from_slice(&512_u16.to_le_bytes());
    sector[13] = 4;
    sector[54..62].copy_from_slice(b"FAT16   ");
    let tables = run(|_| async move {
        let fat = disk("fat", SIZE, &sector) as DeviceRef;
        let plain = disk("plain", SIZE, &table([entry(0x83, 2048, 2048), NONE, NONE, NONE]));
        let read = volume::partition::read_table;
        (read(&fat).await, read(&(plain as DeviceRef)).await)
    });
    assert!(tables.0.expect("readable").is_none());
    let plain = tables.1.expect("readable").expect("a table");
    assert_eq!((plain.form, plain.partitions.len()), ("MBR", 1));
}
