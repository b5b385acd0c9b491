//! Devices whose superblock is damaged.
//!
//! What could break: a damaged superblock that is believed, one that is passed over without a word, an error that
//! does not say which device and which field.

use crate::rig::runtime;
use md::assemble::{self, AssembleError};
use md::create::{NewArray, NewDevice, Policy};
use md::superblock::place::Version;
use md::superblock::{Stamp, Uuid};
use md::{Level, assemble::Found};
use rt::{Buf, DeviceRef, MemoryDevice};
use stdx::{ByteCount, Offset, Prng};

const DISK: ByteCount = ByteCount::mib(8);
/// Fixed part, and the roles of 128 numbers.
const COVERED: usize = 256 + 2 * 128;

/// The superblock of a new member, and where it lies.
fn superblock() -> (Offset, Vec<u8>) {
    let new = NewArray {
        version: Version::V12,
        level: Level::Raid5,
        layout: 2,
        chunk: ByteCount::kib(64),
        data_offset: None,
        policy: Policy::Ppl,
        name: "host:damaged".to_owned(),
        set_uuid: Uuid([3; 16]),
        created: Stamp::from_seconds(1_800_000_000),
        assume_clean: true,
        slots: 3,
        bitmap_chunk: None,
        size: None,
    };
    let device = |n: u8| Some(NewDevice { capacity: DISK, uuid: Uuid([n; 16]) });
    let plan = new.plan(&[device(1), device(2), device(3)]).expect("it fits");
    let pieces = plan.pieces[0].as_ref().expect("it is there");
    let last = pieces.last().expect("the superblock comes last");
    (last.at, last.bytes.clone())
}

fn found(at: Offset, bytes: Vec<u8>, capacity: ByteCount) -> Result<Option<Found>, AssembleError> {
    let runtime = runtime();
    let look = async move {
        let disk = MemoryDevice::new("sdx", capacity);
        disk.poke(at, &Buf::copy_of(&bytes).into());
        assemble::find(&(disk as DeviceRef)).await
    };
    runtime.block_on(look).expect("it ends")
}

#[test]
fn no_flipped_bit_of_a_superblock_is_believed_and_the_error_names_device_and_field() {
    let (at, whole) = superblock();
    assert!(found(at, whole.clone(), DISK).expect("read").is_some());
    for bit in 0..COVERED * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match found(at, bytes, DISK) {
            // Without magic and major version there is none.
            Ok(found) => assert!(found.is_none() && bit < 64, "bit {bit} was believed"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("sdx: ") && text.contains(" at byte "), "{text}");
                assert!(matches!(error, AssembleError::Format { .. }), "{text}");
            }
        }
    }
}

#[test]
fn a_superblock_that_is_cut_short_is_not_believed() {
    let (at, whole) = superblock();
    for len in 0..COVERED {
        let mut bytes = whole[..len].to_vec();
        // No regular bytes: md's checksum is a sum, which some of them leave as it is.
        bytes.resize(whole.len(), 0);
        Prng::new(len as u64).fill(&mut bytes[len..]);
        match found(at, bytes, DISK) {
            Ok(found) => assert!(found.is_none() && len < 8, "{len} bytes were believed"),
            Err(error) => assert!(error.to_string().starts_with("sdx: "), "{error}"),
        }
    }
    // A device that ends before its superblock does has none, or says so.
    for sectors in 1..24 {
        let capacity = ByteCount(sectors * 512);
        let there = capacity.bytes().saturating_sub(at.bytes()).min(whole.len() as u64) as usize;
        let found =
            found(Offset(at.bytes().min(capacity.bytes())), whole[..there].to_vec(), capacity);
        assert_eq!(matches!(found, Ok(Some(_))), there == whole.len(), "{sectors} sectors");
    }
}
