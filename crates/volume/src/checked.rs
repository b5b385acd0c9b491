//! Fields of bytes that came from a device: read only where they are there.

use rt::{DeviceRef, IoError, Request};
use stdx::{ByteCount, Offset};

/// Bytes that are not what they should be: which structure, which field, where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {field} at byte {offset}: {problem}")]
pub struct FormatError {
    /// What was read: `GPT header`.
    pub structure: &'static str,
    /// Which part of it.
    pub field: &'static str,
    /// Where it stands, from the start of the structure, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It lies beyond the end of what there is.
    #[error("there are too few bytes")]
    Short,
    /// Not the bytes that it begins with.
    #[error("it is none of these")]
    Magic,
    /// The checksum of the structure is another.
    #[error("the checksum is wrong")]
    Checksum,
    /// A version that is not known.
    #[error("version {0} is not known")]
    Version(u64),
    /// A number that can't be.
    #[error("{0} can't be")]
    Value(u64),
    /// Text that is none.
    #[error("it is no text")]
    Text,
}

/// Bytes of one structure.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) structure: &'static str,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn wrong(
        &self,
        field: &'static str,
        offset: usize,
        problem: Problem,
    ) -> FormatError {
        FormatError { structure: self.structure, field, offset, problem }
    }

    /// So many bytes at a place.
    pub(crate) fn bytes(
        &self,
        field: &'static str,
        offset: usize,
        len: usize,
    ) -> Result<&'a [u8], FormatError> {
        let end = offset.checked_add(len);
        let found = end.and_then(|end| self.bytes.get(offset..end));
        found.ok_or_else(|| self.wrong(field, offset, Problem::Short))
    }

    pub(crate) fn u32(&self, field: &'static str, offset: usize) -> Result<u32, FormatError> {
        let bytes = self.bytes(field, offset, 4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were cut out")))
    }

    pub(crate) fn u64(&self, field: &'static str, offset: usize) -> Result<u64, FormatError> {
        let bytes = self.bytes(field, offset, 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were cut out")))
    }
}

/// Reads a range of any alignment.
pub(crate) async fn read(device: &DeviceRef, at: u64, len: u64) -> Result<Vec<u8>, IoError> {
    let block = device.geometry().logical_block;
    let start = Offset(at).round_down(block);
    let end = Offset(at.saturating_add(len)).round_up(block);
    let whole = ByteCount(end.bytes().saturating_sub(start.bytes()));
    let data = device.submit(Request::read(start, whole)).await?.to_vec();
    let skip = (at - start.bytes()) as usize;
    Ok(data[skip..skip + len as usize].to_vec())
}
