//! Text in one of Unicode's forms, as OpenZFS makes it: sequence by sequence, of a letter and the marks that stand with it.
//!
//! ```text
//!   first    its capital where case does not count, then its parts
//!   marks    each by its parts; of Hangul the parts that go on with a syllable
//!   order    marks by class
//!   C, KC    the letter and what follows are put together again
//! ```
//!
//! It is Unicode's algorithm but for these, which names on disks have been hashed by:
//!
//! * Capitals are taken of a sequence's first letter only, and of the iota below, which becomes a letter and stays where it stood.
//! * After 30 letters a sequence ends, with a joiner.
//! * A mark that the letter does not take is in the way of others only until the letter took one.
//! * A letter that ends a sequence takes what comes next as it is written, not by its parts or capital.
//!
//! Source: OpenZFS, `u8_textprep.c` (`collect_a_seq`, `do_decomp`, `do_composition`).

use super::hangul;
use super::letters::{capital, class, composed, parts};
use std::str::Chars;

/// Letters of a sequence, one more than it may have.
const LETTERS_MAX: usize = 31;
/// What ends a sequence that is too long.
const JOINER: char = '\u{34f}';
/// The mark that has a capital, and that.
const IOTA_BELOW: char = '\u{345}';
const IOTA: char = '\u{399}';

/// Which form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// In capitals.
    pub(super) capitals: bool,
    /// By what letters are compatible with, not only by what they are the same as.
    pub(super) compatible: bool,
    /// Put together again.
    pub(super) composed: bool,
}

/// What a sequence is, as far as it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Letter,
    Marks,
    /// Hangul: it may go on with a vowel, with a part that ends a syllable, with nothing.
    First,
    Vowel,
    Whole,
}

/// A letter of a sequence, with its class.
type Classed = (char, u8);

/// Text in a form.
pub(super) fn text_in(text: &str, form: Form) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(first) = rest.next() {
        let mut sequence = Vec::new();
        let mut state = begin(first, form, &mut sequence);
        let begun = sequence.len();
        while let Some(next) = rest.clone().next() {
            if !go_on(next, form, &mut state, &mut sequence) {
                break;
            }
            rest.next();
        }
        if sequence.len() > begun {
            for marks in sequence.split_mut(|(_, class)| *class == 0) {
                marks.sort_by_key(|(_, class)| *class);
            }
        }
        match form.composed {
            true => put_together(&sequence, &mut rest, &mut made),
            false => made.extend(sequence.iter().map(|(letter, _)| letter)),
        }
    }
    made
}

/// Begins a sequence.
fn begin(first: char, form: Form, sequence: &mut Vec<Classed>) -> State {
    let first = if form.capitals { capital(first) } else { first };
    parts(first, form.compatible, |part| sequence.push((part, class(part))));
    let ends_syllable = sequence.last().is_some_and(|(part, _)| hangul::is_last(*part));
    match first {
        _ if hangul::is_syllable(first) && !ends_syllable => State::Vowel,
        _ if hangul::is_syllable(first) => State::Whole,
        _ if hangul::is_first(first) => State::First,
        _ if hangul::is_vowel(first) || hangul::is_last(first) => State::Whole,
        _ if sequence.last().is_some_and(|(_, class)| *class > 0) => State::Marks,
        _ => State::Letter,
    }
}

/// Lets a sequence go on with the next letter; says whether that belongs to it.
fn go_on(next: char, form: Form, state: &mut State, sequence: &mut Vec<Classed>) -> bool {
    let after = match state {
        State::First if hangul::is_vowel(next) => Some(State::Vowel),
        State::Vowel if hangul::is_last(next) => Some(State::Whole),
        _ => None,
    };
    if let Some(after) = after {
        *state = after;
        sequence.push((next, 0));
        return true;
    }
    if class(next) == 0 || !matches!(state, State::Letter | State::Marks) {
        return false;
    }
    *state = State::Marks;
    let before = sequence.len();
    parts(next, form.compatible, |part| sequence.push((part, class(part))));
    if sequence.len() >= LETTERS_MAX {
        sequence.truncate(before);
        sequence.push((JOINER, 0));
        return false;
    }
    if form.capitals
        && let Some((last, _)) = sequence.last_mut().filter(|(last, _)| *last == IOTA_BELOW)
    {
        *last = IOTA;
    }
    true
}

/// Puts the letters of a sequence together, and the last with what comes next.
fn put_together(sequence: &[Classed], rest: &mut Chars<'_>, made: &mut String) {
    let mut out: Vec<char> = Vec::with_capacity(sequence.len());
    let mut at = 0;
    while let Some((letter, class)) = sequence.get(at).copied() {
        let made_of = &sequence[at..];
        if class > 0 {
            out.push(letter);
            at += 1;
        } else if let Some((syllable, many)) = hangul::syllable(made_of.iter().map(|part| part.0)) {
            out.push(syllable);
            at += many;
        } else {
            at = with_marks(sequence, at, &mut out);
        }
    }
    if sequence.last().is_some_and(|(_, class)| *class == 0)
        && let Some(last) = out.last_mut()
    {
        while let Some(both) = rest.clone().next().and_then(|next| composed(*last, next)) {
            *last = both;
            rest.next();
        }
    }
    made.extend(out);
}

/// Puts a letter together with the marks that it takes; the others stand behind it. Says what comes after them.
fn with_marks(sequence: &[Classed], at: usize, out: &mut Vec<char>) -> usize {
    let (mut letter, mut took_one, mut others) = (sequence[at].0, false, Vec::new());
    let mut next = at + 1;
    while let Some((mark, class)) = sequence.get(next).copied() {
        let is_free = took_one || !is_in_the_way(&sequence[1..next], class) || next == at + 1;
        match composed(letter, mark).filter(|_| is_free) {
            Some(both) => (letter, took_one) = (both, true),
            None if class == 0 => break,
            None => others.push(mark),
        }
        next += 1;
    }
    out.push(letter);
    out.append(&mut others);
    next
}

/// Whether one of the marks before keeps one of this class from its letter.
fn is_in_the_way(before: &[Classed], class: u8) -> bool {
    before.iter().any(|(_, other)| *other >= class || *other == 0)
}
