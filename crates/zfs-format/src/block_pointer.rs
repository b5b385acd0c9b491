//! Block pointers: where a block lies, what it is, when it was born, and its checksum.
//!
//! ```text
//!   word 0–5  three DVAs of two words: vdev, allocated size; gang flag, offset
//!        6    sizes, compression, embedded?, checksum, type, level, encrypted?, dedup?, byte order
//!        7,8  unused
//!        9    birth of the copies, where it differs from
//!        10   the birth of the block (transaction groups)
//!        11   fill: blocks that are no holes below
//!        12–15 checksum
//! ```
//!
//! The same 128 bytes mean five things ([`Kind`]): a hole, a block, a gang (the block is in pieces that a
//! gang header lists), embedded data (112 bytes in all words but 6 and 10), or what was redacted from a
//! received stream. An encrypted block's third DVA is its salt and the first part of its IV, the rest of which
//! stands in the upper half of `fill`; the upper half of its checksum is the MAC.
//!
//! The pointer keeps its 16 words as they are, so nothing gets lost that this version does not know, and an
//! undamaged one encodes to the bytes it came from. Getters take the words apart; [`BlockPointer::check`] says
//! whether a pointer can be followed.
//!
//! Source: OpenZFS, `spa.h`, `blkptr.c`, `zio.c` (what is verified before a pointer is followed).

use crate::checksum::{Checksum, ChecksumFunction};
use crate::compression::Compression;
use crate::object_type::ObjectType;
use crate::wire::{Endian, Number, Reader, Record, Wire, Writer};
use std::fmt;
use stdx::bytes::{FormatError, Problem};

/// Sectors in which sizes and places are counted, as a power of two: 512 bytes.
pub const SECTOR_SHIFT: u32 = 9;
/// Bytes of the largest block: 16 MiB.
pub const BLOCK_BYTES_MAX: u64 = 16 << 20;
/// Bytes that a pointer can hold itself.
pub const EMBEDDED_BYTES_MAX: usize = 112;
/// Places that a pointer can name.
pub const DVAS: usize = 3;
/// The highest level that the pointer can state.
const LEVEL_BITS: u32 = 5;

const PROPERTIES: usize = 6;
const PHYSICAL_BIRTH: usize = 9;
const LOGICAL_BIRTH: usize = 10;
const FILL: usize = 11;
const CHECKSUM: usize = 12;

fn bits(word: u64, low: u32, len: u32) -> u64 {
    word >> low & (u64::MAX >> (64 - len))
}

fn set_bits(word: &mut u64, low: u32, len: u32, value: u64) {
    let mask = u64::MAX >> (64 - len);
    assert!(value <= mask, "{value} fits into {len} bits");
    *word = *word & !(mask << low) | value << low;
}

/// A place: a data virtual address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dva {
    /// The words as they stand.
    pub words: [u64; 2],
}

impl Dva {
    /// A place on a top-level vdev; sizes and places in bytes, multiples of 512.
    pub fn new(vdev: u32, offset: u64, allocated: u64, gang: bool) -> Dva {
        let mut words = [0; 2];
        set_bits(&mut words[0], 0, 24, allocated >> SECTOR_SHIFT);
        set_bits(&mut words[0], 32, 24, vdev.into());
        set_bits(&mut words[1], 0, 63, offset >> SECTOR_SHIFT);
        set_bits(&mut words[1], 63, 1, gang.into());
        Dva { words }
    }

    /// The number of the top-level vdev.
    pub fn vdev(&self) -> u32 {
        bits(self.words[0], 32, 24) as u32
    }

    /// Bytes that are allocated: with parity, padding, and the pieces of a gang.
    pub fn allocated(&self) -> u64 {
        bits(self.words[0], 0, 24) << SECTOR_SHIFT
    }

    /// Where on the vdev's data area, in bytes. A number of sectors beyond 2⁵⁵ stays the largest offset.
    pub fn offset(&self) -> u64 {
        bits(self.words[1], 0, 63).saturating_mul(1 << SECTOR_SHIFT)
    }

    /// Whether a gang header lies there.
    pub fn is_gang(&self) -> bool {
        bits(self.words[1], 63, 1) != 0
    }

    /// Whether it is none at all.
    pub fn is_empty(&self) -> bool {
        self.words == [0, 0]
    }

    /// Whether it names a place.
    pub fn is_valid(&self) -> bool {
        self.allocated() != 0
    }
}

impl Wire for Dva {
    const BYTES: usize = 16;

    fn read(from: &mut Reader<'_>, field: &'static str) -> Result<Self, FormatError> {
        Ok(Dva { words: from.get(field)? })
    }

    fn write(&self, to: &mut Writer) {
        self.words.write(to);
    }
}

impl fmt::Display for Dva {
    /// `vdev:offset:size`, as `zdb` prints it: the latter two in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}:{:x}", self.vdev(), self.offset(), self.allocated())
    }
}

/// What a block pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing was written there: zeros.
    Hole,
    /// A block at up to three places.
    Block,
    /// A block in pieces: at the places are gang headers.
    Gang,
    /// The data itself.
    Embedded,
    /// The block was left out of a redacted stream.
    Redacted,
}

/// How a block is protected in an encrypted dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Not at all.
    None,
    /// Encrypted; salt, IV and MAC are in the pointer.
    Encrypted,
    /// In the clear, with a MAC.
    Authenticated,
    /// An indirect block: the MAC is a hash of the MACs below.
    IndirectMac,
}

/// A block pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockPointer {
    /// The words as they stand.
    pub words: [u64; 16],
}

impl BlockPointer {
    /// A hole that was never written.
    pub const HOLE: BlockPointer = BlockPointer { words: [0; 16] };
    /// Bytes of a pointer, as a power of two.
    pub const SHIFT: u32 = 7;

    fn property(&self, low: u32, len: u32) -> u64 {
        bits(self.words[PROPERTIES], low, len)
    }

    /// Sets bits of the property word.
    ///
    /// # Panics
    /// The value does not fit into them: our bug.
    fn set_property(&mut self, low: u32, len: u32, value: u64) {
        set_bits(&mut self.words[PROPERTIES], low, len, value);
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        if self.is_embedded() {
            match self.embedded_type() {
                REDACTED => Kind::Redacted,
                _ => Kind::Embedded,
            }
        } else if self.dva(0).is_empty() {
            Kind::Hole
        } else if self.dva(0).is_gang() {
            Kind::Gang
        } else {
            Kind::Block
        }
    }

    /// Whether it is a hole.
    pub fn is_hole(&self) -> bool {
        self.kind() == Kind::Hole
    }

    /// Whether the words are data, or stand for what was redacted.
    pub fn is_embedded(&self) -> bool {
        self.property(39, 1) != 0
    }

    /// How the embedded words are to be taken: 0 data, 2 redacted.
    pub fn embedded_type(&self) -> u8 {
        self.property(40, 8) as u8
    }

    /// One of the three places, whatever it holds; an empty one for a fourth.
    pub fn dva(&self, copy: usize) -> Dva {
        match self.words.get(copy * 2..copy * 2 + 2) {
            Some(words) if copy < DVAS => Dva { words: [words[0], words[1]] },
            _ => Dva::default(),
        }
    }

    /// Puts a place.
    ///
    /// # Panics
    /// There are only three.
    pub fn set_dva(&mut self, copy: usize, dva: Dva) {
        assert!(copy < DVAS, "a pointer has three places");
        self.words[copy * 2..copy * 2 + 2].copy_from_slice(&dva.words);
    }

    /// The places that are in use, in order. An encrypted block has two at the most.
    pub fn dvas(&self) -> impl Iterator<Item = Dva> + use<> {
        let places = match self.kind() {
            Kind::Embedded | Kind::Redacted => 0,
            _ if self.protection() == Protection::Encrypted => DVAS - 1,
            _ => DVAS,
        };
        let this = *self;
        (0..places).map(move |copy| this.dva(copy)).filter(Dva::is_valid)
    }

    /// Bytes of the block before compression.
    pub fn logical_size(&self) -> u64 {
        match self.kind() {
            Kind::Embedded => self.property(0, 25) + 1,
            Kind::Redacted => 0,
            _ => (self.property(0, 16) + 1) << SECTOR_SHIFT,
        }
    }

    /// Bytes of the block as it is stored; for embedded data, bytes of the words that count.
    pub fn physical_size(&self) -> u64 {
        match self.kind() {
            Kind::Embedded => self.property(25, 7) + 1,
            Kind::Redacted => 0,
            _ => (self.property(16, 16) + 1) << SECTOR_SHIFT,
        }
    }

    /// Bytes that all copies take together.
    pub fn allocated(&self) -> u64 {
        self.dvas().map(|dva| dva.allocated()).sum()
    }

    /// Sets both sizes of a block, in bytes: multiples of 512 up to 32 MiB.
    ///
    /// # Panics
    /// They can't be stored.
    pub fn set_sizes(&mut self, logical: u64, physical: u64) {
        for size in [logical, physical] {
            assert!(size != 0 && size.is_multiple_of(1 << SECTOR_SHIFT), "{size} is in sectors");
        }
        self.set_property(0, 16, (logical >> SECTOR_SHIFT) - 1);
        self.set_property(16, 16, (physical >> SECTOR_SHIFT) - 1);
    }

    /// How it is compressed; nothing for a number that is not known.
    pub fn compression(&self) -> Option<Compression> {
        Compression::from_code(self.property(32, 7) as u8)
    }

    /// Says how it is compressed.
    pub fn set_compression(&mut self, compression: Compression) {
        self.set_property(32, 7, compression.code().into());
    }

    /// The checksum's function; nothing for a number that is not known, `Off` for embedded data.
    pub fn checksum_function(&self) -> Option<ChecksumFunction> {
        if self.is_embedded() {
            return Some(ChecksumFunction::Off);
        }
        ChecksumFunction::from_code(self.property(40, 8) as u8)
    }

    /// Says which function the checksum is of.
    pub fn set_checksum_function(&mut self, function: ChecksumFunction) {
        self.set_property(40, 8, function.code().into());
    }

    /// The type of the object.
    pub fn object_type(&self) -> ObjectType {
        ObjectType(self.property(48, 8) as u8)
    }

    /// Says what type the object is of.
    pub fn set_object_type(&mut self, object_type: ObjectType) {
        self.set_property(48, 8, object_type.0.into());
    }

    /// 0 for data, else an indirect block so many levels above.
    pub fn level(&self) -> u8 {
        self.property(56, LEVEL_BITS) as u8
    }

    /// Sets the level.
    ///
    /// # Panics
    /// It is above 31.
    pub fn set_level(&mut self, level: u8) {
        self.set_property(56, LEVEL_BITS, level.into());
    }

    /// Whether the dataset is encrypted.
    pub fn uses_crypt(&self) -> bool {
        self.property(61, 1) != 0
    }

    /// Says whether the dataset is encrypted.
    pub fn set_uses_crypt(&mut self, crypt: bool) {
        self.set_property(61, 1, crypt.into());
    }

    /// How it is protected.
    pub fn protection(&self) -> Protection {
        match (self.uses_crypt(), self.level(), self.object_type().is_encrypted()) {
            (false, ..) => Protection::None,
            (true, 0, true) => Protection::Encrypted,
            (true, 0, false) => Protection::Authenticated,
            (true, ..) => Protection::IndirectMac,
        }
    }

    /// Whether it stands in the deduplication table.
    pub fn is_dedup(&self) -> bool {
        self.property(62, 1) != 0
    }

    /// Says whether it stands in the deduplication table.
    pub fn set_dedup(&mut self, dedup: bool) {
        self.set_property(62, 1, dedup.into());
    }

    /// The byte order of the numbers in the block.
    pub fn endian(&self) -> Endian {
        if self.property(63, 1) != 0 { Endian::Little } else { Endian::Big }
    }

    /// Sets the byte order of the numbers in the block.
    pub fn set_endian(&mut self, endian: Endian) {
        self.set_property(63, 1, (endian == Endian::Little).into());
    }

    /// The transaction group in which the block's content came to be; for a hole, in which it was punched.
    pub fn logical_birth(&self) -> u64 {
        self.words[LOGICAL_BIRTH]
    }

    /// The transaction group in which these copies were written: another where a block was deduplicated,
    /// cloned or moved. 0 for embedded data, which lies nowhere.
    pub fn physical_birth(&self) -> u64 {
        match self.words[PHYSICAL_BIRTH] {
            _ if self.is_embedded() => 0,
            0 => self.logical_birth(),
            birth => birth,
        }
    }

    /// Sets both births, the second of which is stored only where it differs; embedded data has the first only.
    pub fn set_births(&mut self, logical: u64, physical: u64) {
        self.words[LOGICAL_BIRTH] = logical;
        if !self.is_embedded() {
            self.words[PHYSICAL_BIRTH] = if physical == logical { 0 } else { physical };
        }
    }

    /// Sets the birth of a pointer without a place: of a hole, or of embedded data, whose other birth is data.
    pub fn set_logical_birth(&mut self, birth: u64) {
        self.words[LOGICAL_BIRTH] = birth;
    }

    /// A hole that was punched in this transaction group, where a block of this type, level and length was.
    pub fn hole(object_type: ObjectType, level: u8, logical: u64, birth: u64) -> BlockPointer {
        let mut hole = BlockPointer::HOLE;
        hole.set_object_type(object_type);
        hole.set_level(level);
        hole.set_property(0, 16, (logical >> SECTOR_SHIFT) - 1);
        hole.set_logical_birth(birth);
        hole
    }

    /// How many blocks below, itself counted, are no holes; for dnodes, how many are in use. An encrypted
    /// pointer has only 32 bits for it.
    pub fn fill(&self) -> u64 {
        match self.protection() {
            _ if self.is_embedded() => 1,
            Protection::Encrypted => bits(self.words[FILL], 0, 32),
            _ => self.words[FILL],
        }
    }

    /// Sets the fill.
    ///
    /// # Panics
    /// The pointer is encrypted and the number beyond 32 bits.
    pub fn set_fill(&mut self, fill: u64) {
        let len = if self.protection() == Protection::Encrypted { 32 } else { 64 };
        set_bits(&mut self.words[FILL], 0, len, fill);
    }

    /// The checksum. Where the dataset is encrypted and the block is no objset, only the first two words
    /// are it: the others are the MAC, and a function that is not
    /// [for deduplication](ChecksumFunction::is_for_dedup) is folded, words 2 and 3 into 0 and 1 by exclusive or.
    pub fn checksum(&self) -> Checksum {
        let mut words = [0; 4];
        words.copy_from_slice(&self.words[CHECKSUM..]);
        Checksum { words }
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: Checksum) {
        self.words[CHECKSUM..].copy_from_slice(&checksum.words);
    }

    /// The salt of the key: 8 bytes, of an encrypted block. As IV and MAC, they are bytes that were put into words
    /// by a machine of the block's order, and come out in it.
    pub fn salt(&self) -> Option<[u8; 8]> {
        self.encryption_word(4).map(|word| self.endian().bytes(word))
    }

    /// The initialisation vector: 12 bytes, of an encrypted block.
    pub fn iv(&self) -> Option<[u8; 12]> {
        let first = self.encryption_word(5)?;
        let second = bits(self.words[FILL], 32, 32) as u32;
        let mut iv = [0; 12];
        iv[..8].copy_from_slice(&self.endian().bytes(first));
        iv[8..].copy_from_slice(&match self.endian() {
            Endian::Little => second.to_le_bytes(),
            Endian::Big => second.to_be_bytes(),
        });
        Some(iv)
    }

    fn encryption_word(&self, at: usize) -> Option<u64> {
        (self.protection() == Protection::Encrypted).then(|| self.words[at])
    }

    /// Puts salt and initialisation vector into an encrypted pointer, whose byte order was set.
    pub fn set_salt_and_iv(&mut self, salt: [u8; 8], iv: [u8; 12]) {
        let [a, b, c, d, e, f, g, h, rest @ ..] = iv;
        self.words[4] = self.endian().u64(salt);
        self.words[5] = self.endian().u64([a, b, c, d, e, f, g, h]);
        let second = match self.endian() {
            Endian::Little => u32::from_le_bytes(rest),
            Endian::Big => u32::from_be_bytes(rest),
        };
        set_bits(&mut self.words[FILL], 32, 32, second.into());
    }

    /// The message authentication code: 16 bytes, of a block in an encrypted dataset. An objset's stands in
    /// the objset instead.
    pub fn mac(&self) -> Option<[u8; 16]> {
        (self.uses_crypt() && self.object_type() != ObjectType::OBJSET).then(|| self.mac_bytes())
    }

    /// The last two words of the checksum as bytes: a MAC, or zeros in a hole.
    pub(crate) fn mac_bytes(&self) -> [u8; 16] {
        let mut mac = [0; 16];
        mac[..8].copy_from_slice(&self.endian().bytes(self.words[CHECKSUM + 2]));
        mac[8..].copy_from_slice(&self.endian().bytes(self.words[CHECKSUM + 3]));
        mac
    }

    /// Puts a message authentication code into a pointer whose byte order was set.
    pub fn set_mac(&mut self, mac: [u8; 16]) {
        let endian = self.endian();
        for (word, bytes) in self.words[CHECKSUM + 2..].iter_mut().zip(mac.as_chunks::<8>().0) {
            *word = endian.u64(*bytes);
        }
    }

    /// The bytes that an embedded pointer holds, as stored: of the physical size, to be decompressed to
    /// the logical one. Nothing for other pointers.
    pub fn embedded_data(&self) -> Option<Vec<u8>> {
        if self.kind() != Kind::Embedded {
            return None;
        }
        let words = (0..16).filter(|at| *at != PROPERTIES && *at != LOGICAL_BIRTH);
        let mut data: Vec<u8> = words.flat_map(|at| self.words[at].to_le_bytes()).collect();
        data.truncate(self.physical_size() as usize);
        Some(data)
    }

    /// Embedded data becomes zeros; what is said of it stays.
    pub fn drop_embedded_data(&mut self) {
        for at in (0..16).filter(|at| *at != PROPERTIES && *at != LOGICAL_BIRTH) {
            self.words[at] = 0;
        }
    }

    /// A pointer that holds these bytes, which decompress to so many.
    ///
    /// # Panics
    /// There are none, or more than fit.
    pub fn embed(data: &[u8], logical: u64, compression: Compression) -> BlockPointer {
        assert!(!data.is_empty() && data.len() <= EMBEDDED_BYTES_MAX, "the data fits a pointer");
        let mut pointer = BlockPointer::HOLE;
        let mut padded = [0; EMBEDDED_BYTES_MAX];
        padded[..data.len()].copy_from_slice(data);
        let places = (0..16).filter(|at| *at != PROPERTIES && *at != LOGICAL_BIRTH);
        for (at, bytes) in places.zip(padded.as_chunks::<8>().0) {
            pointer.words[at] = u64::from_le_bytes(*bytes);
        }
        pointer.set_property(39, 1, 1);
        pointer.set_property(0, 25, logical - 1);
        pointer.set_property(25, 7, data.len() as u64 - 1);
        pointer.set_compression(compression);
        pointer.set_endian(Endian::Little);
        pointer
    }

    /// Whether the pointer can be followed: known functions and types, sizes within bounds.
    ///
    /// # Errors
    /// The first thing that can't be, and in which word it stands.
    pub fn check(&self) -> Result<(), FormatError> {
        let wrong = |field, word: usize, value| {
            let (structure, problem) = (BlockPointer::NAME, Problem::Value(value));
            Err(FormatError { structure, field, offset: word * 8, problem })
        };
        let kind = self.kind();
        if !self.object_type().is_valid() {
            return wrong("type", PROPERTIES, self.object_type().0.into());
        }
        if kind == Kind::Hole || kind == Kind::Redacted {
            return Ok(());
        }
        if self.compression().is_none() {
            return wrong("compression", PROPERTIES, self.property(32, 7));
        }
        if self.logical_size() > BLOCK_BYTES_MAX {
            return wrong("logical size", PROPERTIES, self.logical_size());
        }
        if kind == Kind::Embedded {
            return match self.embedded_type() {
                EMBEDDED if self.physical_size() <= EMBEDDED_BYTES_MAX as u64 => Ok(()),
                EMBEDDED => wrong("physical size", PROPERTIES, self.physical_size()),
                other => wrong("embedded type", PROPERTIES, other.into()),
            };
        }
        if self.checksum_function().is_none() {
            return wrong("checksum function", PROPERTIES, self.property(40, 8));
        }
        if self.physical_size() > BLOCK_BYTES_MAX {
            return wrong("physical size", PROPERTIES, self.physical_size());
        }
        if let Some(dva) = self.dvas().find(|dva| dva.offset() == u64::MAX) {
            return wrong("offset", 1, dva.words[1]);
        }
        Ok(())
    }
}

/// An embedded pointer's words are data.
const EMBEDDED: u8 = 0;
/// An embedded pointer stands for a block that was redacted.
const REDACTED: u8 = 2;

impl Wire for BlockPointer {
    const BYTES: usize = 128;

    fn read(from: &mut Reader<'_>, field: &'static str) -> Result<Self, FormatError> {
        Ok(BlockPointer { words: from.get(field)? })
    }

    fn write(&self, to: &mut Writer) {
        self.words.write(to);
    }
}

impl BlockPointer {
    /// The pointer that these bytes are: any are one.
    #[inline]
    pub fn of_bytes(bytes: &[u8; BlockPointer::BYTES], endian: Endian) -> BlockPointer {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = endian.u64(*bytes);
        }
        BlockPointer { words }
    }
}

impl Record for BlockPointer {
    const NAME: &'static str = "block pointer";
}

/// An indirect block in place: its pointers, each read where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Pointers<'a> {
    words: &'a [[u8; BlockPointer::BYTES]],
    endian: Endian,
}

impl<'a> Pointers<'a> {
    /// The pointers of an indirect block.
    ///
    /// # Errors
    /// The block is no multiple of a pointer's size.
    pub fn of(block: &'a [u8], endian: Endian) -> Result<Pointers<'a>, FormatError> {
        let (words, rest) = block.as_chunks();
        if rest.is_empty() {
            return Ok(Pointers { words, endian });
        }
        let from = Reader::new("indirect block", block, endian);
        Err(from.wrong_at("block pointer", block.len() - rest.len(), Problem::Short))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Option<BlockPointer> {
        self.words.get(index).map(|bytes| BlockPointer::of_bytes(bytes, self.endian))
    }

    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = BlockPointer> + ExactSizeIterator + 'a {
        let endian = self.endian;
        self.words.iter().map(move |bytes| BlockPointer::of_bytes(bytes, endian))
    }
}

/// Puts a pointer into an indirect block.
///
/// # Panics
/// The block has no such place.
pub fn put(block: &mut [u8], index: usize, pointer: &BlockPointer, endian: Endian) {
    let at = index * BlockPointer::BYTES;
    for (word, place) in pointer.words.iter().zip((at..).step_by(8)) {
        word.put(block, place, endian);
    }
}

#[cfg(test)]
mod tests;
