//! The options of bonnie++ that are little languages.
//!
//! * `-r memory`: in MiB, or with `g` or `t` in GiB or TiB.
//! * `-s size[:block[:seeks[:seekers]]]`. The size is in MiB, or with `g` or `t` in GiB or TiB; the block in bytes, or with `k` in
//!   KiB; seeks may have a `k` (1024).
//! * `-n files[:max[:min[:directories[:block]]]]`. Files are in units of 1024, or with `m` of 1024²; sizes in bytes, or with `k`,
//!   `m`, `g`; directories may have a `k`. A `max` of −1 (hard links) or −2 (symbolic links) is refused: a
//!   [`FileTree`](rt::FileTree) has no links.
//!
//! bonnie++ reads numbers by `atoi`, so that `2gb` is 2 MiB there and `8x` is 8. Here what is no number
//! is refused, and `m` behind a size in MiB is taken for what it says.

use super::plan::{Creation, File};
use stdx::ByteCount;

/// What is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No number, or with a letter that does not belong there.
    #[error(
        "{option} {text}: at column {column}: {part} must be a whole number, with {letters} behind it if you like, not {given:?}"
    )]
    Number {
        /// The option.
        option: &'static str,
        /// All of its value.
        text: String,
        /// Where the part begins, counted from 1.
        column: usize,
        /// Which part.
        part: &'static str,
        /// What stands there.
        given: String,
        /// Letters that may follow.
        letters: &'static str,
    },
    /// A number beyond what can be meant.
    #[error("{option} {text}: at column {column}: {part} is too large")]
    TooLarge {
        /// The option.
        option: &'static str,
        /// All of its value.
        text: String,
        /// Where the part begins, counted from 1.
        column: usize,
        /// Which part.
        part: &'static str,
    },
    /// More parts than there are.
    #[error("{option} {text}: at column {column}: nothing follows {last}; write {form}")]
    TooManyParts {
        /// The option.
        option: &'static str,
        /// All of its value.
        text: String,
        /// Where the first of them begins, counted from 1.
        column: usize,
        /// The last part.
        last: &'static str,
        /// The form.
        form: &'static str,
    },
    /// Links.
    #[error(
        "-n {text}: links ({max}) are not supported, only files; give their largest size, or leave it out"
    )]
    Links {
        /// All of the value.
        text: String,
        /// −1 or −2.
        max: String,
    },
}

/// One part of an option: what it is, and the letters that multiply it, each with its factor.
struct Part {
    name: &'static str,
    letters: &'static [(char, u64)],
    said: &'static str,
}

const KI: u64 = 1 << 10;
const MEMORY: Part =
    Part { name: "the memory", letters: &[('m', 1), ('g', KI), ('t', KI * KI)], said: "m, g or t" };
const SIZE: Part =
    Part { name: "the size", letters: &[('m', 1), ('g', KI), ('t', KI * KI)], said: "m, g or t" };
const BLOCK: Part =
    Part { name: "the block", letters: &[('k', KI), ('m', KI * KI)], said: "k or m" };
const SEEKS: Part = Part { name: "the number of seeks", letters: &[('k', KI)], said: "k" };
const SEEKERS: Part = Part { name: "the number of seekers", letters: &[], said: "nothing" };
const FILES: Part =
    Part { name: "the number of files", letters: &[('k', 1), ('m', KI)], said: "m" };
const BYTES: &[(char, u64)] = &[('k', KI), ('m', KI * KI), ('g', KI * KI * KI)];
const MAX: Part = Part { name: "the largest size", letters: BYTES, said: "k, m or g" };
const MIN: Part = Part { name: "the smallest size", letters: BYTES, said: "k, m or g" };
const DIRECTORIES: Part =
    Part { name: "the number of directories", letters: &[('k', KI)], said: "k" };

/// The parts of an option's value, between colons.
struct Parts<'a> {
    option: &'static str,
    text: &'a str,
    form: &'static str,
    /// What is left, and where it begins.
    rest: Option<&'a str>,
    column: usize,
}

impl<'a> Parts<'a> {
    fn new(option: &'static str, form: &'static str, text: &'a str) -> Parts<'a> {
        Parts { option, text, form, rest: Some(text), column: 1 }
    }

    /// The next part's number; `None` where it is missing or empty.
    fn next(&mut self, part: &Part) -> Result<Option<u64>, OptionError> {
        let Some(rest) = self.rest else { return Ok(None) };
        let (given, rest) = match rest.split_once(':') {
            Some((given, rest)) => (given, Some(rest)),
            None => (rest, None),
        };
        let column = self.column;
        self.rest = rest;
        self.column += given.chars().count() + 1;
        if given.is_empty() {
            return Ok(None);
        }
        let wrong = || OptionError::Number {
            option: self.option,
            text: self.text.to_owned(),
            column,
            part: part.name,
            given: given.to_owned(),
            letters: part.said,
        };
        let factor = |letter: char| {
            let found = part.letters.iter().find(|(known, _)| letter.eq_ignore_ascii_case(known));
            found.map(|(_, factor)| *factor)
        };
        let (digits, factor) = match given.chars().next_back() {
            Some(last) if !last.is_ascii_digit() => {
                (&given[..given.len() - last.len_utf8()], factor(last).ok_or_else(wrong)?)
            }
            _ => (given, 1),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        number.map(Some).ok_or_else(|| self.too_large(column, part))
    }

    /// The same as a small number.
    fn next_u32(&mut self, part: &Part) -> Result<Option<u32>, OptionError> {
        let column = self.column;
        let number = self.next(part)?;
        number
            .map(|number| u32::try_from(number).map_err(|_| self.too_large(column, part)))
            .transpose()
    }

    fn too_large(&self, column: usize, part: &Part) -> OptionError {
        let text = self.text.to_owned();
        OptionError::TooLarge { option: self.option, text, column, part: part.name }
    }

    fn end(self, last: &Part) -> Result<(), OptionError> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(OptionError::TooManyParts {
                option: self.option,
                text: self.text.to_owned(),
                column: self.column,
                last: last.name,
                form: self.form,
            }),
        }
    }
}

/// The value of `-r`: the memory, in MiB or as the size of `-s`.
///
/// # Errors
/// [`OptionError`].
pub fn memory(text: &str) -> Result<ByteCount, OptionError> {
    let mut parts = Parts::new("-r", "MEMORY", text);
    let mib = parts.next_u32(&MEMORY)?.unwrap_or(0);
    parts.end(&MEMORY)?;
    Ok(ByteCount::mib(u64::from(mib)))
}

/// The value of `-s`. `None` where the size is 0: these phases are left out.
///
/// # Errors
/// [`OptionError`].
pub fn file(text: &str) -> Result<Option<File>, OptionError> {
    let mut parts = Parts::new("-s", "SIZE[:BLOCK[:SEEKS[:SEEKERS]]]", text);
    let size = parts.next_u32(&SIZE)?.unwrap_or(0);
    let default = File::of_size(ByteCount::mib(u64::from(size)));
    let file = File {
        chunk: parts.next(&BLOCK)?.map_or(default.chunk, ByteCount),
        seeks: parts.next_u32(&SEEKS)?.unwrap_or(default.seeks),
        seekers: parts.next_u32(&SEEKERS)?.unwrap_or(default.seekers),
        ..default
    };
    parts.end(&SEEKERS)?;
    Ok((size > 0).then_some(file))
}

/// The value of `-n`. `None` where the number is 0: these phases are left out.
///
/// # Errors
/// [`OptionError`].
pub fn creation(text: &str) -> Result<Option<Creation>, OptionError> {
    if let Some(max @ ("-1" | "-2")) = text.split(':').nth(1) {
        return Err(OptionError::Links { text: text.to_owned(), max: max.to_owned() });
    }
    let mut parts = Parts::new("-n", "FILES[:MAX[:MIN[:DIRECTORIES[:BLOCK]]]]", text);
    let files_ki = parts.next_u32(&FILES)?.unwrap_or(0);
    let default = Creation::of_files(files_ki);
    let creation = Creation {
        size_max: parts.next(&MAX)?.map_or(default.size_max, ByteCount),
        size_min: parts.next(&MIN)?.map_or(default.size_min, ByteCount),
        directories: parts.next_u32(&DIRECTORIES)?.map_or(1, |directories| directories.max(1)),
        chunk: parts.next(&BLOCK)?.map_or(default.chunk, ByteCount),
        ..default
    };
    parts.end(&BLOCK)?;
    Ok((files_ki > 0).then_some(creation))
}

#[cfg(test)]
mod tests {
    //! What could break: a size that is read in another unit than bonnie++'s; a slip of the finger that
    //! is taken for a small number.

    use super::*;

    #[test]
    fn sizes_have_the_units_of_bonnie() {
        let of = |text: &str| file(text).expect("it reads").expect("there is a file");
        assert_eq!(of("300"), File::of_size(ByteCount::mib(300)));
        assert_eq!(of("2g").size, ByteCount::gib(2));
        assert_eq!(of("1T").size, ByteCount::gib(1024));
        assert_eq!(of("64m:512").chunk, ByteCount(512));
        let all = of("2g:64k:16k:3");
        assert_eq!((all.chunk, all.seeks, all.seekers), (ByteCount::kib(64), 16384, 3));
        assert_eq!(of("2g:::3").seekers, 3);
        assert_eq!(file("0"), Ok(None));
        assert_eq!(memory("512"), Ok(ByteCount::mib(512)));
        assert_eq!(memory("1g"), Ok(ByteCount::gib(1)));
        assert!(memory("1:2").is_err() && memory("x").is_err());
    }

    #[test]
    fn files_are_counted_in_thousands() {
        let of = |text: &str| creation(text).expect("it reads").expect("there are files");
        assert_eq!(of("16"), Creation::of_files(16));
        assert_eq!(of("2m").files(), 2 << 20);
        let all = of("16:64k:1k:10:4k");
        assert_eq!((all.size_max, all.size_min), (ByteCount::kib(64), ByteCount::kib(1)));
        assert_eq!((all.directories, all.chunk), (10, ByteCount::kib(4)));
        assert_eq!(creation("0"), Ok(None));
    }

    #[test]
    fn what_is_no_number_is_refused_by_its_place() {
        let error = |text: &str| file(text).expect_err("refused").to_string();
        assert_eq!(
            error("2g:8q"),
            "-s 2g:8q: at column 4: the block must be a whole number, with k or m behind it if you like, not \"8q\""
        );
        assert_eq!(
            error("1:8k:1:1:1"),
            "-s 1:8k:1:1:1: at column 10: nothing follows the number of seekers; write SIZE[:BLOCK[:SEEKS[:SEEKERS]]]"
        );
        assert_eq!(error("99999999t"), "-s 99999999t: at column 1: the size is too large");
        for text in ["2gb", "-1", "é", "1.5g", "g"] {
            assert!(file(text).is_err(), "{text} was taken");
        }
        assert!(matches!(creation("16:-1"), Err(OptionError::Links { .. })));
    }
}
