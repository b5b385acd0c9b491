//! The dataset layer's structures in the MOS: [directories](dir), [datasets](dataset), what they no longer need
//! ([deadlist], [bpobj], [bptree]), [bookmarks](bookmark), [properties](property), [keys](crypto_key) and
//! [scans](scan).
//!
//! Each is the bonus of an object or the value of a name in a ZAP. An object that grew further fields became a ZAP
//! itself and kept its bonus ("zapified"); the names of those fields stand with their structure.

pub mod bookmark;
pub mod bpobj;
pub mod bptree;
pub mod crypto_key;
pub mod dataset;
pub mod deadlist;
pub mod dir;
pub mod property;
pub mod scan;

/// A number as a ZAP's name: hexadecimal, without leading zeros. So deadlists, log space maps, and sets of objects
/// are keyed.
pub fn number_name(number: u64) -> String {
    format!("{number:x}")
}

/// The number that a ZAP's name says.
pub fn name_number(name: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(name).ok()?;
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits { u64::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_names_in_hexadecimal() {
        for number in [0, 0x1f, u64::MAX] {
            assert_eq!(name_number(number_name(number).as_bytes()), Some(number));
        }
        for name in ["", "+1", "g", "10000000000000000"] {
            assert_eq!(name_number(name.as_bytes()), None);
        }
    }
}
