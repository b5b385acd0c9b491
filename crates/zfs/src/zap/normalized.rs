//! Names as tables compare them that normalise names.

use unicode_normalization::UnicodeNormalization;
use zfs_format::zap::normalization;

/// A name as such tables compare it. What is not UTF-8 stays as it is.
pub(crate) fn normalized(name: &[u8], how: u64) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(name) else { return name.to_vec() };
    // All bits that say which form it is.
    let text: String = match how & (normalization::NFC | normalization::NFKC) {
        normalization::NFC => text.nfc().collect(),
        normalization::NFD => text.nfd().collect(),
        normalization::NFKC => text.nfkc().collect(),
        normalization::NFKD => text.nfkd().collect(),
        _ => text.to_owned(),
    };
    match how & (normalization::UPPER | normalization::LOWER) {
        0 => text.into_bytes(),
        normalization::LOWER => text.to_lowercase().into_bytes(),
        _ => text.to_uppercase().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_as_the_table_says() {
        let same =
            |a: &str, b: &str, how| normalized(a.as_bytes(), how) == normalized(b.as_bytes(), how);
        assert!(!same("Straße", "STRASSE", 0));
        assert!(same("Straße", "STRASSE", normalization::UPPER));
        assert!(
            same("é", "e\u{301}", normalization::NFC) && same("é", "e\u{301}", normalization::NFD)
        );
        assert!(!same("ﬁ", "fi", normalization::NFD) && same("ﬁ", "fi", normalization::NFKD));
        assert_eq!(normalized(&[0xff, b'a'], normalization::UPPER), [0xff, b'a']);
    }
}
