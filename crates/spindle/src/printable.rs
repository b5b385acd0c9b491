//! Foreign words made printable: names and texts that came with an image, a peer or a directory, on their way out.
//!
//! A pool's name, a property's value, a file's name are whatever their maker wrote. On a terminal ESC recolours, moves
//! the cursor or answers in the keyboard's place; in a pipe a line break makes a line that the program never wrote, and a
//! tab a column. So what goes out as text goes through one of these doors, and there is no other:
//!
//! | door | for | what it lets through |
//! |---|---|---|
//! | [`word`], [`bytes`] | a word in a line or table, with `-H` too | everything but [unsafe](is_unsafe) characters |
//! | [`name`] | names of files that a script may read back (`ls`, `cp -v`, `diff -h`) | in a pipe also bytes that are no UTF-8 |
//! | [`guard`], [`line()`] | a whole text that the program composed | also line breaks and tabs, which are the program's own |
//! | [`json`] | a text that is JSON | everything, in JSON's own escapes: it stays exact |
//!
//! **The form.** A word without unsafe characters goes out byte for byte, backslashes too: what OpenZFS, mdadm and LVM print
//! for ordinary names is printed here. A word that has some is written whole with `\x1b` for each byte of a control
//! character, `\u{202e}` for the others, and `\\` for a backslash. It is the same on a terminal, in a pipe and with `-H`: a
//! pipe often ends at a terminal, and a script that splits lines is led astray as easily as a person. Who needs
//! such a word exactly takes `-j`, or `zfs ls --zero` for names.
//!
//! **Invalid UTF-8** is `\xff` as text. Of names in a pipe it goes out as it is: a file that Latin-1 named is found by those
//! bytes alone, and no terminal that takes UTF-8 reads commands in them. In JSON, whose strings can't have it, a name is
//! said once more in hexadecimal digits.
//!
//! [`print`](crate::output::print), [`say`](crate::output::say) and failures pass [`guard`] or [`line()`] whatever was
//! given to them, so a word that was forgotten elsewhere can still not steer a terminal. What a file or volume holds (`zfs cat`,
//! `zfs dump`, `md dump`) is no text of ours and goes out as it is.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character could steer a terminal, or make one text look like another: control characters (C0, DEL,
/// C1), what turns the direction of what follows, and Unicode's own line breaks.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

fn push_escaped(out: &mut String, letter: char) {
    if !letter.is_control() {
        out.extend(letter.escape_unicode());
        return;
    }
    let mut bytes = [0; 4];
    for byte in letter.encode_utf8(&mut bytes).bytes() {
        push_byte(out, byte);
    }
}

fn push_byte(out: &mut String, byte: u8) {
    // Writing to a string can't fail.
    let _ = write!(out, "\\x{byte:02x}");
}

fn push_word(out: &mut String, word: &str) {
    for letter in word.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            letter if is_unsafe(letter) => push_escaped(out, letter),
            letter => out.push(letter),
        }
    }
}

/// A word as it stands in a line.
pub fn word(word: &str) -> Cow<'_, str> {
    match word.contains(is_unsafe) {
        false => Cow::Borrowed(word),
        true => Cow::Owned(bytes(word.as_bytes())),
    }
}

/// Bytes as a word.
pub fn bytes(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains(is_unsafe)
    {
        return text.to_owned();
    }
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        push_word(&mut out, chunk.valid());
        chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte));
    }
    out
}

/// A file's name or path, for a terminal or for what may read it back.
pub fn name(name: &[u8], terminal: bool) -> Cow<'_, [u8]> {
    let is_plain = name.utf8_chunks().all(|chunk| !chunk.valid().contains(is_unsafe));
    match is_plain && (!terminal || std::str::from_utf8(name).is_ok()) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(bytes(name).into_bytes()),
    }
}

fn replaced(text: &str, keep: &[char], escape: fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_unsafe(letter) && !keep.contains(&letter) {
            true => escape(&mut out, letter),
            false => out.push(letter),
        }
    }
    out
}

/// A text of several lines.
pub fn guard(text: &str) -> Cow<'_, str> {
    const OWN: [char; 2] = ['\n', '\t'];
    match text.contains(|letter| is_unsafe(letter) && !OWN.contains(&letter)) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(replaced(text, &OWN, push_escaped)),
    }
}

/// A text that is to be one line.
pub fn line(text: &str) -> String {
    guard(text).replace('\n', " ")
}

/// A text that is JSON. Outside of its strings JSON has no unsafe characters but line breaks and tabs, and within them it
/// has escapes for all.
pub fn json(text: &str) -> Cow<'_, str> {
    fn escape(out: &mut String, letter: char) {
        let mut units = [0; 2];
        for unit in letter.encode_utf16(&mut units) {
            // Writing to a string can't fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    match text.contains(|letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t')) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(replaced(text, &['\n', '\t'], escape)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: ordinary names are not printed as OpenZFS and mdadm print them any more.
    #[test]
    fn a_word_that_can_do_no_harm_goes_out_as_it_is() {
        for plain in ["tank", "Größe ä 日本 🙂", r"C:\share\x1b", "a b", "\u{200f}שלום", ""]
        {
            assert_eq!(word(plain), plain);
            assert_eq!(bytes(plain.as_bytes()), plain);
            assert_eq!((&*guard(plain), line(plain)), (plain, plain.to_owned()));
            for terminal in [false, true] {
                assert_eq!(&*name(plain.as_bytes(), terminal), plain.as_bytes());
            }
        }
    }

    /// What could break: one character of one plane is forgotten.
    #[test]
    fn no_door_lets_through_what_steers_a_terminal() {
        let all = (0..=u32::from(char::MAX)).filter_map(char::from_u32);
        let unsafe_ones: Vec<char> = all.filter(|letter| is_unsafe(*letter)).collect();
        assert_eq!(unsafe_ones.len(), 32 + 1 + 32 + 5 + 4 + 2);
        for letter in unsafe_ones {
            let text = format!("a{letter}b");
            let has = |shown: &str| shown.contains(is_unsafe);
            assert!(!has(&word(&text)) && !has(&bytes(text.as_bytes())), "{letter:?}");
            for terminal in [false, true] {
                let shown = name(text.as_bytes(), terminal);
                assert!(!has(std::str::from_utf8(&shown).expect("text")), "{letter:?}");
            }
            assert!(!has(&guard(&text).replace(['\n', '\t'], "")), "{letter:?}");
            assert!(!line(&text).contains('\n'), "{letter:?}");
        }
    }

    #[test]
    fn what_is_escaped_says_which_bytes_it_was() {
        assert_eq!(bytes(b"\x1b[31m\\\xff\n"), r"\x1b[31m\\\xff\x0a");
        assert_eq!(word("a\u{9b}b\tc\u{202e}"), r"a\xc2\x9bb\x09c\u{202e}");
        assert_eq!(&*name(b"caf\xe9", false), b"caf\xe9");
        assert_eq!(&*name(b"caf\xe9", true), br"caf\xe9");
        assert_eq!(&*name(b"caf\xe9\n", false), br"caf\xe9\x0a");
        assert_eq!(guard("a\tb\n\x07"), "a\tb\n\\x07");
        assert_eq!(line("a\nb\x07"), "a b\\x07");
    }

    /// What could break: JSON that is no longer JSON, or that says another text.
    #[test]
    fn json_stays_exact() {
        let value = serde_json::json!({ "a\u{9b}\u{2028}": "\x1b\u{7f}\u{202e}\\ \n\t\u{85}x" });
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = json(&text);
            assert!(!shown.contains(|c| is_unsafe(c) && c != '\n'), "{shown}");
            let again: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
            assert_eq!(again, value);
        }
    }
}
