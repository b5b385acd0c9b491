//! Syllables of Hangul, and their parts: one that begins, a vowel, and one that ends or none.

const SYLLABLE: u32 = 0xac00;
const FIRST: u32 = 0x1100;
const VOWEL: u32 = 0x1161;
/// None that ends.
const LAST: u32 = 0x11a7;
const VOWELS: u32 = 21;
const LASTS: u32 = 28;

pub(super) fn is_syllable(letter: char) -> bool {
    ('\u{ac00}'..='\u{d7a3}').contains(&letter)
}

pub(super) fn is_first(letter: char) -> bool {
    ('\u{1100}'..='\u{1112}').contains(&letter)
}

pub(super) fn is_vowel(letter: char) -> bool {
    ('\u{1161}'..='\u{1175}').contains(&letter)
}

pub(super) fn is_last(letter: char) -> bool {
    ('\u{11a8}'..='\u{11c2}').contains(&letter)
}

/// The syllable that parts begin with, and how many it is made of.
pub(super) fn syllable(mut parts: impl Iterator<Item = char>) -> Option<(char, usize)> {
    let first = parts.next().filter(|part| is_first(*part))?;
    let vowel = parts.next().filter(|part| is_vowel(*part))?;
    let last = parts.next().filter(|part| is_last(*part));
    let place = |part: char, from: u32| u32::from(part) - from;
    let without = (place(first, FIRST) * VOWELS + place(vowel, VOWEL)) * LASTS;
    let code = SYLLABLE + without + last.map_or(0, |last| place(last, LAST));
    Some((char::from_u32(code)?, if last.is_some() { 3 } else { 2 }))
}
