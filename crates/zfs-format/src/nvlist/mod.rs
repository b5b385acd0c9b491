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

pub use value::{DEPTH_MAX, NvList, Text, Value};

use crate::wire::{Endian, Reader, Writer};
use stdx::bytes::{FormatError, Problem};
use value::NAME;

/// Bytes of one packed list that are taken: 16 MiB. The largest that pools hold are configurations with
/// thousands of devices, some megabytes.
pub const BYTES_MAX: usize = 16 << 20;

/// Bytes of the header of a packed list.
const HEADER_BYTES: usize = 4;
/// How a list is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As it lay in memory, in this byte order.
    Native(Endian),
    /// External data representation; the writer's byte order is noted, and changes nothing.
    Xdr(Endian),
}

impl NvList {
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
}

#[cfg(test)]
mod tests;
