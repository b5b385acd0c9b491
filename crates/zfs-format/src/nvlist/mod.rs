//! Name–value lists: how ZFS writes what has no fixed shape.
//!
//! A label's configuration, the configuration in the MOS, boot environments, history records, properties in
//! send streams and extended attributes are nvlists. A packed list begins with four bytes:
//!
//! ```text
//!   0  encoding: 0 native, 1 XDR        2  zero
//!   1  byte order: 0 big, 1 little      3  zero
//! ```
//!
//! [XDR](xdr) is what pools hold nearly everywhere; it is big-endian whatever the second byte says. The
//! [`native`] encoding is the memory of the machine that wrote it, pointers zeroed.
//!
//! Rules:
//! 1. Order is kept, and names may repeat: what is decoded encodes to the same bytes.
//! 2. Names and strings are bytes without a zero, since a name of an extended attribute may be no UTF-8.
//! 3. Depth and size are bounded ([`DEPTH_MAX`], [`BYTES_MAX`]); a count is believed only when so many
//!    elements fit into the bytes that are left.
//! 4. Bytes after the end of the list are left alone: a label's list stands in a field of 112 KiB.
//!
//! Source: OpenZFS, `nvpair.h`, `nvpair.c`; XDR: RFC 4506.

pub mod native;
mod value;
pub mod xdr;

pub use value::{Text, Value};

use crate::wire::{Endian, Reader, Writer};
use stdx::bytes::{FormatError, Problem};

/// How deep lists may lie in lists: the bound of OpenZFS's kernel side.
pub const DEPTH_MAX: usize = 20;
/// Bytes of one packed list that are taken: 16 MiB. The largest that pools hold are configurations with
/// thousands of devices, some megabytes.
pub const BYTES_MAX: usize = 16 << 20;

pub(crate) const NAME: &str = "nvlist";
/// The only version of lists.
pub(crate) const VERSION: i32 = 0;
/// Bytes of the header of a packed list.
const HEADER_BYTES: usize = 4;
/// A pair's fixed part in memory, in bytes.
pub(crate) const PAIR_BYTES: usize = 16;
/// A list's own part in memory, in bytes.
pub(crate) const LIST_BYTES: usize = 24;

/// How a list is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As it lay in memory, in this byte order.
    Native(Endian),
    /// External data representation; the writer's byte order is noted, and changes nothing.
    Xdr(Endian),
}

/// A list of names and values.
#[derive(Clone, Debug, PartialEq)]
pub struct NvList {
    /// 1: names are unique, 2: pairs of name and type are; 0: neither.
    pub flags: u32,
    /// The pairs in their order.
    pub pairs: Vec<(Text, Value)>,
}

impl Default for NvList {
    fn default() -> NvList {
        NvList { flags: NvList::UNIQUE_NAMES, pairs: Vec::new() }
    }
}

impl NvList {
    /// The flag of lists whose names are unique, which nearly all are.
    pub const UNIQUE_NAMES: u32 = 1;

    /// Decodes a packed list, and says how it was packed and how many bytes it took.
    ///
    /// # Errors
    /// The bytes are no nvlist, or it is beyond a limit.
    pub fn decode(bytes: &[u8]) -> Result<(NvList, Encoding, usize), FormatError> {
        let bytes = bytes.get(..BYTES_MAX).unwrap_or(bytes);
        let mut from = Reader::new(NAME, bytes, Endian::Big);
        let [encoding, order, ..] = from.array::<HEADER_BYTES>("header")?;
        let endian = match order {
            0 => Endian::Big,
            1 => Endian::Little,
            other => return Err(from.wrong_at("byte order", 1, Problem::Value(other.into()))),
        };
        match encoding {
            0 => {
                from.endian = endian;
                let list = native::read(&mut from)?;
                Ok((list, Encoding::Native(endian), from.at()))
            }
            1 => {
                let list = xdr::read(&mut from, DEPTH_MAX)?;
                Ok((list, Encoding::Xdr(endian), from.at()))
            }
            other => Err(from.wrong_at("encoding", 0, Problem::Value(other.into()))),
        }
    }

    /// Packs it.
    pub fn encode(&self, encoding: Encoding) -> Vec<u8> {
        let (code, endian) = match encoding {
            Encoding::Native(endian) => (0, endian),
            Encoding::Xdr(endian) => (1, endian),
        };
        let order = u8::from(endian == Endian::Little);
        let mut to = Writer::new(if code == 0 { endian } else { Endian::Big });
        to.bytes(&[code, order, 0, 0]);
        match encoding {
            Encoding::Native(_) => native::write(self, &mut to),
            Encoding::Xdr(_) => xdr::write(self, &mut to),
        }
        to.into_bytes()
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.pairs.iter().find(|(known, _)| known.as_bytes() == name.as_bytes()).map(|(_, v)| v)
    }

    /// Puts a value under a name, in place of one that is there.
    pub fn set(&mut self, name: &str, value: Value) {
        let found = self.pairs.iter_mut().find(|(known, _)| known.as_bytes() == name.as_bytes());
        match found {
            Some((_, old)) => *old = value,
            None => self.pairs.push((Text::from(name), value)),
        }
    }

    /// Takes a name away, and says what it held.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.pairs.iter().position(|(known, _)| known.as_bytes() == name.as_bytes())?;
        Some(self.pairs.remove(at).1)
    }

    /// Whether the name is there, whatever it holds: how flags are written.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn typed<'a, T>(
        &'a self,
        name: &'static str,
        of: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FormatError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => of(value).map(Some).ok_or(FormatError {
                structure: NAME,
                field: name,
                offset: 0,
                problem: Problem::Type,
            }),
        }
    }

    /// The number of this name, if it is there.
    ///
    /// # Errors
    /// It is something else than a number of 64 bits.
    pub fn u64(&self, name: &'static str) -> Result<Option<u64>, FormatError> {
        self.typed(name, |value| match value {
            Value::Uint64(number) => Some(*number),
            _ => None,
        })
    }

    /// The text of this name, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, name: &'static str) -> Result<Option<&Text>, FormatError> {
        self.typed(name, |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// The list of this name, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn list(&self, name: &'static str) -> Result<Option<&NvList>, FormatError> {
        self.typed(name, |value| match value {
            Value::NvList(list) => Some(list),
            _ => None,
        })
    }

    /// The lists of this name, if they are there.
    ///
    /// # Errors
    /// It is something else.
    pub fn lists(&self, name: &'static str) -> Result<Option<&[NvList]>, FormatError> {
        self.typed(name, |value| match value {
            Value::NvListArray(lists) => Some(lists.as_slice()),
            _ => None,
        })
    }

    /// The numbers of this name, if they are there.
    ///
    /// # Errors
    /// It is something else.
    pub fn u64s(&self, name: &'static str) -> Result<Option<&[u64]>, FormatError> {
        self.typed(name, |value| match value {
            Value::Uint64Array(numbers) => Some(numbers.as_slice()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
