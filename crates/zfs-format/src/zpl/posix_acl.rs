//! POSIX lists of access, as Linux keeps them in extended attributes: `system.posix_acl_access` and `_default`.
//!
//! A version (4 bytes, 2), then entries of 8 bytes: tag, permissions, id. Always little-endian.
//!
//! Source: Linux, `posix_acl_xattr.h`.

use crate::wire::{Endian, Reader, Record, Wire, record};
use stdx::bytes::{FormatError, Problem};

const VERSION: u32 = 2;
const NAME: &str = "POSIX list of access";

record! {
    /// An entry.
    PosixAclEntry = "POSIX list of access", 8, {
        /// 1 owner, 2 user, 4 group of the file, 8 group, 16 mask, 32 others.
        tag: u16,
        /// 4 read, 2 write, 1 execute.
        permissions: u16,
        /// The user or group; −1 for tags without.
        id: u32,
    }
}

/// The entries.
///
/// # Errors
/// The version is another, or the last entry is cut off.
pub fn decode(value: &[u8]) -> Result<Vec<PosixAclEntry>, FormatError> {
    let mut from = Reader::new(NAME, value, Endian::Little);
    let version = from.u32("version")?;
    if version != VERSION {
        return Err(from.wrong_at("version", 0, Problem::Version(version.into())));
    }
    (0..from.left().div_ceil(PosixAclEntry::BYTES)).map(|_| from.get("entry")).collect()
}

/// The attribute's value.
pub fn encode(entries: &[PosixAclEntry]) -> Vec<u8> {
    let mut value = VERSION.to_le_bytes().to_vec();
    entries.iter().for_each(|entry| value.extend(entry.encode(Endian::Little)));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_out_as_they_went_in() {
        crate::wire::checks::holds_for_any_bytes::<PosixAclEntry>();
        let entry = |tag, id| PosixAclEntry { tag, permissions: 6, id };
        let list = vec![entry(1, u32::MAX), entry(2, 1000)];
        let value = encode(&list);
        assert_eq!(decode(&value), Ok(list));
        assert!(decode(&value[1..]).is_err() && decode(&value[..9]).is_err());
    }
}
