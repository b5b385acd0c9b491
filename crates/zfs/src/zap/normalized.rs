//! Names as tables hash and compare them that normalise names, and which of the names of one hash is meant.
//!
//! Such a table hashes what a name becomes as its [flags](normalization) say: all of them. Names that become the same have one hash, and are
//! told apart by their differentiators. Which of them a lookup means is the asker's ([`Match`]), and of several it is the one with the
//! lowest differentiator, as in OpenZFS.
//!
//! What names become is OpenZFS's, letter for letter ([`letters`]) and sequence for sequence ([`forms`]); a name that is hashed otherwise is
//! one that the other doesn't find. A table that normalises to a form has names in UTF-8 only; one that only takes letters for their capitals
//! takes any bytes, and what of them is no letter stays.
//!
//! Source: OpenZFS, `zap_impl.c` (`zap_name_init_str`, `zap_match`), `u8_textprep.c` (`u8_textprep_str`).

mod forms;
mod hangul;
mod letters;

use self::forms::Form;
use std::borrow::Cow;
use zfs_format::dsl::dataset::{DslDataset, flags};
use zfs_format::zap::{hash_name, normalization};

/// Which names of a table that normalises them are meant by one. In others all mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The same, byte for byte.
    Exact,
    /// Those that become the same, but for case.
    InCase,
    /// Those that become the same.
    Alike,
}

impl Match {
    /// Which snapshots and bookmarks of a dataset are meant: their tables hash names as if case did not matter, and it does but in datasets
    /// that say otherwise.
    pub(crate) fn of_snapshots(head: &DslDataset) -> Match {
        match head.flags & flags::CASE_INSENSITIVE {
            0 => Match::Exact,
            _ => Match::Alike,
        }
    }
}

/// A name that is looked for.
pub(crate) struct Wanted<'a> {
    name: &'a [u8],
    /// How those that may be it are normalised, and what they have to become.
    how: u64,
    becomes: Cow<'a, [u8]>,
    /// Its hash.
    pub(crate) hash: u64,
}

impl<'a> Wanted<'a> {
    /// A name that is looked for so in a table with this salt, these flags, and this way to normalise.
    pub(crate) fn new(
        name: &'a [u8],
        wanted: Match,
        (salt, flags, normalization): (u64, u64, u64),
    ) -> Wanted<'a> {
        let hashed = normalized(name, normalization);
        let hash = hash_name(&hashed, salt, flags);
        let how = match wanted {
            Match::Exact => 0,
            Match::InCase => normalization & !normalization::UPPER,
            Match::Alike => normalization,
        };
        let becomes = if how == normalization { hashed } else { normalized(name, how) };
        Wanted { name, how, becomes, hash }
    }

    /// Whether a name of this hash is one of those that are meant.
    pub(crate) fn is(&self, known: &[u8]) -> bool {
        known == self.name || self.how != 0 && *normalized(known, self.how) == *self.becomes
    }
}

/// What a name becomes.
pub(crate) fn normalized(name: &[u8], how: u64) -> Cow<'_, [u8]> {
    let capitals = how & normalization::UPPER != 0;
    let form = how & (normalization::NFC | normalization::NFKC);
    if form == 0 {
        return if capitals { Cow::Owned(in_capitals(name)) } else { Cow::Borrowed(name) };
    }
    // There is none such where a form counts.
    let Ok(text) = std::str::from_utf8(name) else { return Cow::Borrowed(name) };
    if text.is_ascii() {
        return if capitals { Cow::Owned(text.to_ascii_uppercase().into()) } else { name.into() };
    }
    let compatible = form & normalization::NFKD != 0;
    let composed = form & normalization::NFC & !normalization::NFD != 0;
    Cow::Owned(forms::text_in(text, Form { capitals, compatible, composed }).into_bytes())
}

/// Each letter by its capital. So many bytes as the first says are looked at together: where they are no letter none of them is one.
fn in_capitals(name: &[u8]) -> Vec<u8> {
    let (mut made, mut rest) = (Vec::with_capacity(name.len()), name);
    while let Some(first) = rest.first() {
        let bytes = match first {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        let (letter, after) = rest.split_at(rest.len().min(bytes));
        match std::str::from_utf8(letter) {
            Ok(text) => {
                let mut bytes = [0; 4];
                for letter in text.chars() {
                    made.extend(letters::capital(letter).encode_utf8(&mut bytes).bytes());
                }
            }
            Err(_) => made.extend(letter),
        }
        rest = after;
    }
    made
}

#[cfg(test)]
mod tests;
