//! Fields of a structure in a byte slice: each read names the field, so that a short slice is an error
//! that tells where. Little-endian, as everything of md's but nothing else is here.

use super::error::{FormatError, Problem, Structure};

/// A structure's bytes, as they were read.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) structure: Structure,
    pub(super) bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(structure: Structure, bytes: &'a [u8]) -> Fields<'a> {
        Fields { structure, bytes }
    }

    /// The error of a field.
    pub(super) fn error(
        &self,
        field: &'static str,
        offset: usize,
        problem: Problem,
    ) -> FormatError {
        FormatError { structure: self.structure, field, offset, problem }
    }

    /// The bytes of a field.
    pub(super) fn array<const N: usize>(
        &self,
        field: &'static str,
        offset: usize,
    ) -> Result<[u8; N], FormatError> {
        self.bytes
            .get(offset..)
            .and_then(|rest| rest.first_chunk::<N>())
            .copied()
            .ok_or_else(|| self.error(field, offset, Problem::Truncated))
    }

    pub(super) fn u8(&self, field: &'static str, offset: usize) -> Result<u8, FormatError> {
        self.array(field, offset).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&self, field: &'static str, offset: usize) -> Result<u16, FormatError> {
        self.array(field, offset).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&self, field: &'static str, offset: usize) -> Result<u32, FormatError> {
        self.array(field, offset).map(u32::from_le_bytes)
    }

    pub(super) fn i32(&self, field: &'static str, offset: usize) -> Result<i32, FormatError> {
        self.array(field, offset).map(i32::from_le_bytes)
    }

    pub(super) fn u64(&self, field: &'static str, offset: usize) -> Result<u64, FormatError> {
        self.array(field, offset).map(u64::from_le_bytes)
    }

    /// A number that must lie in a range.
    pub(super) fn within(
        &self,
        field: &'static str,
        offset: usize,
        found: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<(), FormatError> {
        if range.contains(&found) {
            return Ok(());
        }
        let (least, most) = (*range.start(), *range.end());
        Err(self.error(field, offset, Problem::Range { found, least, most }))
    }

    /// The number that says what the structure is.
    pub(super) fn magic(
        &self,
        field: &'static str,
        offset: usize,
        expected: u32,
    ) -> Result<(), FormatError> {
        let found = self.u32(field, offset)?;
        if found == expected {
            return Ok(());
        }
        Err(self.error(field, offset, Problem::Magic { found, expected }))
    }
}

/// Puts a field into a structure that is being encoded.
///
/// # Panics
/// Where it would lie beyond the end: the sizes of our own structures are constants.
pub(super) fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    bytes[offset..offset + field.len()].copy_from_slice(field);
}

/// The sum with which superblocks are checked: 32-bit little-endian words (a last half word counts as a
/// word) added in 64 bits, the halves added again.
pub(super) fn word_sum(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(4);
    let mut sum: u64 = words
        .by_ref()
        .filter_map(|word| word.first_chunk::<4>())
        .map(|word| u64::from(u32::from_le_bytes(*word)))
        .sum();
    if let Some(half) = words.remainder().first_chunk::<2>() {
        sum += u64::from(u16::from_le_bytes(*half));
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
