//! Structures against themselves and against damage.
//!
//! What could break: a field at a wrong place (encode and decode would agree, so the fixtures judge that; here
//! only that nothing is lost), a length that is trusted, a bit that is not covered. Every truncation and every
//! flipped bit must give an error or the same value.

use super::bad_blocks::{self, BadBlock};
use super::bitmap::{BitmapSuperblock, Bits};
use super::journal::{MetaBlock, Payload, checksum, seed};
use super::ppl::{Entry, Header};
use super::v1::{BadBlockPlace, ReshapeFields, SuperblockV1};
use super::v090::SuperblockV090;
use super::*;
use proptest::prelude::*;

fn example() -> SuperblockV1 {
    let mut set_name = [0; 32];
    set_name[..9].copy_from_slice(b"host:data");
    SuperblockV1 {
        features: Features::RESHAPE_ACTIVE | Features::NEW_OFFSET | Features::BITMAP,
        set_uuid: Uuid([7; 16]),
        set_name,
        created: Stamp::from_seconds(1_800_000_000),
        level: 5,
        layout: 2,
        size: 129_024,
        chunk: 128,
        slots: 4,
        bitmap_or_ppl: 8_i32.to_le_bytes(),
        reshape: ReshapeFields {
            new_level: 5,
            position: 267_264,
            delta_slots: 1,
            new_layout: 2,
            new_chunk: 128,
            new_offset: -384,
        },
        data_offset: 2048,
        data_size: 129_024,
        super_offset: 8,
        recovery_offset: 0,
        device_number: 2,
        corrected_reads: 3,
        device_uuid: Uuid([9; 16]),
        flags: 1,
        bad_blocks: BadBlockPlace { shift: 0, sectors: 8, offset: 16 },
        updated: Stamp(1_800_000_001 | 77 << 40),
        events: 46,
        resync_offset: ALL_SECTORS,
        roles: vec![Role::Slot(0), Role::Slot(1), Role::Faulty, Role::Slot(2), Role::Spare],
    }
}

/// A 0.90 superblock of a clean RAID 1, put together by hand.
fn example_v090() -> Vec<u8> {
    let mut words = vec![0_u32; 1024];
    for (at, value) in [(0, MAGIC), (2, 90), (5, 0x1234), (6, 1_700_000_000), (7, 1), (8, 49_088)] {
        words[at] = value;
    }
    for (at, value) in [(9, 2), (10, 2), (33, 1), (39, 18), (129, 254), (132, 6), (160, 1)] {
        words[at] = value;
    }
    (words[163], words[164], words[992], words[995], words[996]) = (1, 6, 1, 1, 6);
    let sum = words.iter().fold(0_u64, |sum, word| sum + u64::from(*word));
    words[38] = (sum as u32).wrapping_add((sum >> 32) as u32);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Cuts the bytes short at each place and flips each bit: an error, or the same value.
fn damage<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    value: &T,
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
) {
    for len in 0..bytes.len() {
        if let Ok(found) = decode(&bytes[..len]) {
            assert_eq!(&found, value, "cut to {len} bytes");
        }
    }
    let mut flipped = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        match decode(&flipped) {
            Ok(found) => assert_eq!(&found, value, "bit {bit} flipped"),
            Err(error) => assert!(error.offset <= bytes.len(), "{error}"),
        }
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_superblock_is_read_as_it_was_written() {
    let superblock = example();
    let bytes = superblock.encode();
    let read = SuperblockV1::decode(&bytes).expect("decodes");
    assert_eq!((&read, read.encode()), (&superblock, bytes));
    assert_eq!(read.new_data_offset(), Some(1664));
    assert_eq!((read.bitmap_offset(), read.ppl()), (Some(8), None));
}

#[test]
fn damaged_superblocks_are_refused_or_mean_the_same() {
    let bytes = example().encode();
    damage(&bytes[..600], &example(), SuperblockV1::decode);
    let old = example_v090();
    let value = SuperblockV090::decode(&old).expect("decodes");
    assert_eq!(value.role_of(1), Some(Role::Slot(1)));
    assert_eq!(value.resync_offset(), ALL_SECTORS);
    damage(&old, &value, SuperblockV090::decode);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let refused = |features: u32| {
        let mut bytes = example().encode();
        bytes[8..12].copy_from_slice(&features.to_le_bytes());
        bytes[216..220].fill(0);
        let sum = word_sum::word_sum(&bytes[..266]);
        bytes[216..220].copy_from_slice(&sum.to_le_bytes());
        SuperblockV1::decode(&bytes).expect_err("refused").to_string()
    };
    let text = refused(256);
    assert!(text.contains("feature_map at byte 8") && text.contains("clustered bitmap"), "{text}");
    assert!(refused(1 << 20).contains("unknown bits 0x100000"));
    assert!(refused(1 | 1024).contains("the same field"));
    let mut padded = example().encode();
    padded[224] = 8;
    padded[216..220].fill(0);
    let sum = word_sum::word_sum(&padded[..266]);
    padded[216..220].copy_from_slice(&sum.to_le_bytes());
    let text = SuperblockV1::decode(&padded).expect_err("refused").to_string();
    assert!(text.contains("pad3 at byte 224"), "{text}");
}

fn example_bitmap() -> BitmapSuperblock {
    BitmapSuperblock {
        set_uuid: Uuid([7; 16]),
        events: 19,
        events_cleared: 18,
        sync_sectors: 129_024,
        state: 0,
        chunk_bytes: 131_072,
        daemon_sleep_s: 5,
        write_behind: 0,
        sectors_reserved: 8,
    }
}

#[test]
fn bitmaps_are_read_as_written_and_other_kinds_are_refused_by_name() {
    let superblock = example_bitmap();
    let bytes = superblock.encode();
    assert_eq!(BitmapSuperblock::decode(&bytes), Ok(superblock.clone()));
    assert_eq!(superblock.bits(), 504);
    let mut bits = Bits::new(superblock.bits(), false);
    (0..504).step_by(7).for_each(|bit| bits.set(bit, true));
    let read = Bits::decode(&superblock, bits.bytes()).expect("decodes");
    assert_eq!((&read, read.dirty()), (&bits, 72));
    assert!(read.get(7) && !read.get(8) && !read.get(u64::MAX));
    for (version, name) in [(3_u8, "byte order"), (5, "clustered"), (6, "llbitmap")] {
        let mut other = bytes.clone();
        other[4] = version;
        let text = BitmapSuperblock::decode(&other).expect_err("refused").to_string();
        assert!(text.contains(name), "{text}");
    }
}

/// No checksum covers a bitmap, so a flipped bit may mean another bitmap; it must not mean a huge one.
#[test]
fn no_damage_of_a_bitmap_asks_for_more_bits_than_the_limit() {
    let bytes = example_bitmap().encode();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(found) = BitmapSuperblock::decode(&flipped) {
            assert!(found.bits() <= bitmap::BITS_MAX);
            assert!(Bits::decode(&found, &[0; 4]).is_err() || found.bits() <= 32);
        }
    }
    (0..72).for_each(|len| assert!(BitmapSuperblock::decode(&bytes[..len]).is_err()));
}

#[test]
fn a_ppl_header_is_read_as_written_and_damage_is_found() {
    let entry = |n| Entry {
        data_sector: 512 * n,
        parity_bytes: 4096,
        data_bytes: 8192,
        parity_slot: 1,
        checksum: crc32c::crc32c(&[n as u8; 4096]),
    };
    let entries: Vec<Entry> = (0..ppl::ENTRIES_MAX as u64).map(entry).collect();
    assert!(entries[3].fits(&[3; 4096]) && !entries[3].fits(&[4; 4096]));
    let header = Header { signature: ppl::signature(Uuid([7; 16])), generation: 5, entries };
    let bytes = header.encode().expect("they fit");
    damage(&bytes, &header, Header::decode);
    let mut long = header.clone();
    long.entries.push(entry(0));
    assert!(long.encode().is_err());
}

#[test]
fn bad_blocks_are_read_as_written() {
    let list = [BadBlock { sector: 4096, sectors: 8 }, BadBlock { sector: 70_000, sectors: 1023 }];
    let bytes = bad_blocks::encode(&list, 8).expect("they fit");
    assert_eq!(bad_blocks::decode(&bytes, 0).as_deref(), Ok(&list[..]));
    let shifted = bad_blocks::decode(&bytes, 3).expect("decodes");
    assert_eq!(shifted[0], BadBlock { sector: 32_768, sectors: 64 });
    assert!(bad_blocks::encode(&[list[0]; 65], 1).is_err());
    assert!(bad_blocks::decode(&[0; 512], 0).is_err(), "zeros are no list");
}

proptest! {
    /// Lengths and places that are trusted: no bytes may panic a decoder.
    #[test]
    fn no_bytes_panic_a_decoder(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), fix in any::<bool>()) {
        if fix && bytes.len() > 224 {
            bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
            bytes[220..224].fill(0);
            bytes[216..220].fill(0);
            let end = bytes.len().min(256);
            let sum = word_sum::word_sum(&bytes[..end]);
            bytes[216..220].copy_from_slice(&sum.to_le_bytes());
        }
        let _ = SuperblockV1::decode(&bytes);
        let _ = SuperblockV090::decode(&bytes);
        let _ = BitmapSuperblock::decode(&bytes);
        let _ = Header::decode(&bytes);
        let _ = bad_blocks::decode(&bytes, 3);
    }
}

/// Puts something else at some places: a bit, a byte, or a number at its limits.
fn mutate(bytes: &mut [u8], prng: &mut stdx::Prng) {
    for _ in 0..=prng.below(3) {
        let at = prng.below(bytes.len() as u64) as usize;
        match prng.below(4) {
            0 => bytes[at] ^= 1 << prng.below(8),
            1 => bytes[at] = prng.next_u64() as u8,
            kind => {
                let word = bytes.len().min(at & !3);
                let number = [0, 1, u32::MAX, i32::MAX as u32, 1 << 31][prng.below(5) as usize];
                let number = if kind == 2 { number } else { prng.next_u64() as u32 };
                let end = bytes.len().min(word + 4);
                bytes[word..end].copy_from_slice(&number.to_le_bytes()[..end - word]);
            }
        }
    }
}

/// A checksum keeps out what was damaged, not what was written wrong: with a checksum that fits, any field may
/// hold anything. What is read of it then reads as itself when it is written again.
#[test]
fn fields_of_any_value_under_a_checksum_that_fits_are_refused_or_read() {
    let mut prng = stdx::Prng::new(11);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = example().encode();
        mutate(&mut bytes[8..300], &mut prng);
        let count = u32::from_le_bytes([bytes[220], bytes[221], bytes[222], bytes[223]]) as usize;
        bytes[216..220].fill(0);
        if let Some(covered) = bytes.get(..count.saturating_mul(2).saturating_add(256)) {
            let sum = word_sum::word_sum(covered);
            bytes[216..220].copy_from_slice(&sum.to_le_bytes());
        }
        match SuperblockV1::decode(&bytes) {
            Ok(found) => {
                read += 1;
                assert_eq!(SuperblockV1::decode(&found.encode()), Ok(found));
            }
            Err(error) => {
                refused += 1;
                assert!(error.offset <= bytes.len(), "{error}");
            }
        }
    }
    assert!(read > 2000 && refused > 2000, "{read} read, {refused} refused");
}

#[test]
fn mutations_of_the_other_structures_are_refused_or_read() {
    let mut prng = stdx::Prng::new(12);
    let entry = Entry {
        data_sector: 512,
        parity_bytes: 4096,
        data_bytes: 8192,
        parity_slot: 1,
        checksum: 7,
    };
    let header = Header { signature: 9, generation: 5, entries: vec![entry; 9] };
    let header = header.encode().expect("they fit");
    let log = bad_blocks::encode(&[BadBlock { sector: 4096, sectors: 8 }; 9], 8).expect("they fit");
    for _ in 0..5000 {
        let mut bytes = example_v090();
        mutate(&mut bytes, &mut prng);
        bytes[152..156].fill(0);
        let sum = word_sum::word_sum(&bytes);
        bytes[152..156].copy_from_slice(&sum.to_le_bytes());
        let _ = SuperblockV090::decode(&bytes);

        let mut bytes = header.clone();
        mutate(&mut bytes[512..1024], &mut prng);
        bytes[532..536].fill(0);
        let sum = crc32c::crc32c(&bytes);
        bytes[532..536].copy_from_slice(&sum.to_le_bytes());
        if let Ok(found) = Header::decode(&bytes) {
            assert_eq!(Header::decode(&found.encode().expect("they fit")), Ok(found));
        }

        let mut bytes = example_bitmap().encode();
        mutate(&mut bytes, &mut prng);
        if let Ok(found) = BitmapSuperblock::decode(&bytes) {
            assert!(found.bits() <= bitmap::BITS_MAX);
        }

        let mut bytes = log.clone();
        mutate(&mut bytes, &mut prng);
        let _ = bad_blocks::decode(&bytes, prng.below(60) as u8);
    }
}

fn example_meta_block() -> MetaBlock {
    let payloads = vec![
        Payload::Data { sector: 512, checksum: 1 },
        Payload::Data { sector: 640, checksum: 2 },
        Payload::Parity { sector: 256, p: 3, q: None },
        Payload::Flush { sectors: vec![8, 16] },
        Payload::Parity { sector: 264, p: 4, q: Some(5) },
    ];
    MetaBlock { sequence: 77, position: 4096, payloads }
}

#[test]
fn meta_blocks_of_a_journal_are_read_as_they_were_written_and_no_flipped_bit_is_believed() {
    let (block, seed) = (example_meta_block(), seed(Uuid([7; 16])));
    let bytes = block.encode(seed);
    assert_eq!(block.blocks(), 5);
    damage(&bytes, &block, |bytes| MetaBlock::decode(bytes, seed));
    // Another set's is none of ours.
    let error = MetaBlock::decode(&bytes, journal::seed(Uuid([8; 16]))).expect_err("another's");
    assert_eq!((error.structure, error.field), ("journal meta block", "checksum"));
}

/// A checksum that fits says who wrote a block, not that its numbers make sense.
#[test]
fn mutations_of_meta_blocks_are_refused_or_read() {
    let (mut prng, seed) = (stdx::Prng::new(13), seed(Uuid([7; 16])));
    let whole = example_meta_block().encode(seed);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..5000 {
        let mut bytes = whole.clone();
        mutate(&mut bytes[8..160], &mut prng);
        bytes[4..8].fill(0);
        let sum = checksum(seed, &bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        match MetaBlock::decode(&bytes, seed) {
            Ok(found) => {
                read += 1;
                assert_eq!(MetaBlock::decode(&found.encode(seed), seed), Ok(found));
            }
            Err(error) => {
                refused += 1;
                assert!(!error.is_absence() && error.offset <= bytes.len(), "{error}");
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}
