//! The partitions of a device.
//!
//! The data were made by `sgdisk` 1.0.9 on a disk of 16 MiB: the first 34 and the last 33 blocks.
//!
//! What could break: a range that is a block off, a name in another script, a copy at the end that is
//! not looked at, a damaged table that is believed or that ends the program.

use crate::world;

use rt::{Buf, MemoryDevice, Request, SgList};
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use volume::gpt::{GptError, read_table};
use world::*;

const SIZE: ByteCount = ByteCount::mib(16);
const HEAD: &[u8] = include_bytes!("../data/gpt.head");
const TAIL: &[u8] = include_bytes!("../data/gpt.tail");

fn disk_with(head: &[u8], tail: &[u8]) -> Rc<MemoryDevice> {
    let disk = disk("disk", SIZE, head);
    disk.poke(Offset(SIZE.bytes() - TAIL.len() as u64), &SgList::from(Buf::copy_of(tail)));
    disk
}

#[test]
fn partitions_lie_where_the_program_that_made_them_says() {
    let table = run(|_| async { read_table(&(disk_with(HEAD, TAIL) as _)).await });
    let table = table.expect("readable").expect("there is one");
    assert!(!table.from_backup);
    let [first, third] = &table.partitions[..] else { panic!("{table:?}") };
    let sectors = |at: u64| Offset(at * 512);
    assert_eq!((first.number, first.start, first.len), (1, sectors(2048), ByteCount(8192 * 512)));
    assert_eq!(
        (third.number, third.start, third.len),
        (3, sectors(10_240), ByteCount(22_495 * 512))
    );
    assert_eq!((&*first.name, &*third.name), ("data one", "zweite Größe"));
    assert_eq!(third.kind.to_string(), "e6d6d379-f507-44c2-a23c-238f2a3df928");
    assert_eq!(third.id.to_string(), "cf2ec641-e0cb-4b20-9013-9c1cfa640bfd");
}

#[test]
fn a_partition_is_a_device_of_its_own() {
    run(|_| async {
        let disk = disk_with(HEAD, TAIL);
        let table = read_table(&(Rc::clone(&disk) as _)).await.expect("good").expect("there");
        let partition = table.partitions[0].device(&(Rc::clone(&disk) as _));
        let data = Buf::fill(7, 512);
        partition.submit(Request::write(Offset(512), data.clone())).await.expect("written");
        assert_eq!(disk.peek(Offset(2049 * 512), ByteCount(512)).to_vec(), data.bytes());
        assert_eq!(partition.geometry().capacity, ByteCount(8192 * 512));
    });
}

#[test]
fn where_the_first_header_is_bad_the_copy_counts() {
    let mut head = HEAD.to_vec();
    head[600] ^= 1;
    let table = run(move |_| async move { read_table(&(disk_with(&head, TAIL) as _)).await });
    let table = table.expect("readable").expect("there is one");
    assert!(table.from_backup && table.partitions.len() == 2, "{table:?}");
}

#[test]
fn a_disk_without_a_table_has_none_and_one_with_two_bad_ones_says_so() {
    let none = run(|_| async { read_table(&(disk("d", SIZE, &[]) as _)).await });
    assert_eq!(none, Ok(None));
    let (mut head, mut tail) = (HEAD.to_vec(), TAIL.to_vec());
    head[1100] ^= 4; // in the table
    let len = tail.len();
    tail[len - 500] ^= 4; // in the header
    let both = run(move |_| async move { read_table(&(disk_with(&head, &tail) as _)).await });
    let Err(GptError::Bad { error, .. }) = both else { panic!("{both:?}") };
    assert_eq!(error.to_string(), "GPT table: table checksum at byte 0: the checksum is wrong");
}

#[test]
fn no_flipped_bit_of_header_or_table_is_believed() {
    let expected = run(|_| async { read_table(&(disk_with(HEAD, TAIL) as _)).await });
    let expected = expected.expect("good").expect("there");
    // The protective MBR in block 0 is not looked at; of the table, what has entries and some more.
    for bit in (512 * 8..512 * 8 + 92 * 8).chain(1024 * 8..1536 * 8) {
        let mut head = HEAD.to_vec();
        head[bit / 8] ^= 1 << (bit % 8);
        let table = run(move |_| async move { read_table(&(disk_with(&head, TAIL) as _)).await });
        let table = table.expect("the copy is good").expect("there is one");
        assert!(table.from_backup, "bit {bit}");
        assert_eq!(table.partitions, expected.partitions);
    }
}

/// What could break: the table of a copy that broke off is told to be bad, and lost with the partitions that are there.
#[test]
fn of_a_device_that_is_shorter_than_its_table_says_what_is_there_is_read() {
    let read = |size: ByteCount| {
        run(move |_| async move { read_table(&(disk("disk", size, HEAD) as _)).await })
    };
    let table = read(ByteCount::mib(8)).expect("readable").expect("there is one");
    let (one, other) = (&table.partitions[0], &table.partitions[1]);
    assert_eq!((one.number, one.cut, other.number, &table.beyond[..]), (1, None, 3, &[3][..]));
    assert_eq!((table.size, table.from_backup), (SIZE, false));
    // Of the one that is cut there is what lies before the end.
    let all = other.cut.expect("it is cut");
    assert_eq!(other.start.from_start() + other.len, ByteCount::mib(8));
    assert!(other.start.from_start() + all <= SIZE && all > other.len);
    // What begins behind it is not there at all.
    let table = read(other.start.from_start()).expect("readable").expect("there is one");
    let numbers: Vec<u32> = table.partitions.iter().map(|one| one.number).collect();
    assert_eq!((&numbers[..], &table.beyond[..]), (&[1][..], &[3][..]));
    // Cut behind the last partition nothing is missing but the copy of the table.
    let table = read(ByteCount(SIZE.bytes() - 512)).expect("readable").expect("there is one");
    assert_eq!((table.partitions.len(), table.beyond.len(), table.size), (2, 0, SIZE));
}
