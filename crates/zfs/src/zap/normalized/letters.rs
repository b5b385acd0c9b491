//! Letters as OpenZFS knows them: as of Unicode 5.0, for ever, since what is hashed by them lies on disks.
//!
//! The standard library's and `unicode-normalization`'s Unicode is younger. What a letter was in 5.0 it still is (Unicode
//! promises that much), so only what came later is left out: letters that came later themselves, and the case of those whose other
//! case did. Case is the simple one, a letter for a letter: `ß`, whose capital is two, stays.
//!
//! Source: OpenZFS, `u8_textprep.c`; Unicode's `UnicodeData.txt`.

use super::hangul;
use unicode_normalization::char::{
    canonical_combining_class, compose, decompose_canonical, decompose_compatible,
};

/// What came after Unicode 5.0 and has a case, a form or a class. What else lies between has none of them.
const LATER: [(u32, u32); 47] = [
    (0x0370, 0x0372),
    (0x0376, 0x0376),
    (0x037f, 0x037f),
    (0x03cf, 0x03cf),
    (0x0487, 0x0487),
    (0x0514, 0x052e),
    (0x0558, 0x0558),
    (0x058b, 0x058c),
    (0x05c8, 0x05c9),
    (0x0616, 0x061a),
    (0x065f, 0x065f),
    (0x07fd, 0x08ff),
    (0x09fe, 0x09fe),
    (0x0c3c, 0x0c3c),
    (0x0d3b, 0x0d3c),
    (0x0eba, 0x0eba),
    (0x103a, 0x108d),
    (0x10c7, 0x10cd),
    (0x135d, 0x135e),
    (0x13f0, 0x13f5),
    (0x1715, 0x1715),
    (0x1a60, 0x1af0),
    (0x1baa, 0x1cf9),
    (0x1dcb, 0x1dfd),
    (0x1efa, 0x1efe),
    (0x2095, 0x209f),
    (0x20f0, 0x20f0),
    (0x2150, 0x2152),
    (0x2189, 0x2189),
    (0x2c2f, 0x2c2f),
    (0x2c6d, 0x2c72),
    (0x2c7c, 0x2c7f),
    (0x2ceb, 0x2cf2),
    (0x2d7f, 0x2dff),
    (0x3244, 0x3247),
    (0x32ff, 0x32ff),
    (0xa640, 0xa7f9),
    (0xa82c, 0xabed),
    (0xfa2e, 0xfa2f),
    (0xfa6b, 0xfa6d),
    (0xfe24, 0xfe2f),
    (0x101fd, 0x1037a),
    (0x104b0, 0x107bf),
    (0x10ae5, 0x1d128),
    (0x1d250, 0x1d281),
    (0x1d6a6, 0x1d6a6),
    (0x1df95, 0x1fbf9),
];

fn is_later(letter: char) -> bool {
    let code = u32::from(letter);
    let at = LATER.partition_point(|(_, last)| *last < code);
    LATER.get(at).is_some_and(|(first, _)| *first <= code)
}

/// A letter's capital; itself where it has none.
pub(super) fn capital(letter: char) -> char {
    // Whose capital is two letters in a word and one by itself: Greek ones with an iota below.
    let beyond = match letter {
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => 0,
    };
    if beyond > 0 {
        return char::from_u32(u32::from(letter) + beyond).unwrap_or(letter);
    }
    let mut capitals = letter.to_uppercase();
    match (capitals.next(), capitals.next()) {
        (Some(capital), None) if !is_later(letter) && !is_later(capital) => capital,
        _ => letter,
    }
}

/// What a letter is made of: by its canonical form, or by the compatible one.
pub(super) fn parts(letter: char, compatible: bool, mut each: impl FnMut(char)) {
    match (is_later(letter), compatible) {
        (true, _) => each(letter),
        (false, true) => decompose_compatible(letter, each),
        (false, false) => decompose_canonical(letter, each),
    }
}

/// The class of a mark that stands with a letter; 0 of all else.
pub(super) fn class(letter: char) -> u8 {
    if is_later(letter) { 0 } else { canonical_combining_class(letter) }
}

/// The letter that two make. Those of Hangul are made by rules of their own.
pub(super) fn composed(one: char, other: char) -> Option<char> {
    if hangul::is_first(one) || hangul::is_syllable(one) {
        return None;
    }
    compose(one, other).filter(|made| !is_later(*made))
}
