//! Reading `.icf` files.
//!
//! The form: the first line is `Version 1.1.0` (or a date, `Version 2006.07.27`). A line that begins
//! with `'` is a key; what belongs to it stands on the next line, indented by a tab. Sections begin
//! with a key in capitals and end with `'END …`.
//!
//! **Rules.**
//!
//! 1. Case and space at both ends of a line mean nothing; empty lines between keys neither.
//! 2. Further lines with `'` between a key and its data are titles of columns, and are skipped.
//! 3. A key that IOMeter does not know is refused by name, and so is what can't be done here: network
//!    workers, replies, testing the connection rate.
//! 4. Any section may be missing. Between sections, a line that begins with `'` and a space or a tab
//!    is a comment.
//! 5. Files before 1998.05.21 have access specifications without names; they get names that say what
//!    they do. Words that older versions stored as numbers are understood as numbers.
//! 6. What concerns IOMeter's window (results display, bar charts) is checked and dropped.
//!
//! Source of the format: what IOMeter 1.1.0 writes and loads (`PageSetup`, `PageDisplay`,
//! `AccessSpecList`, `ManagerList`, `Manager` and `Worker` of its sources), and files in use.

mod lines;
mod managers;
mod setup;
mod specs;
#[cfg(test)]
mod tests;

use super::icf::{IDLE, Icf};
use lines::Lines;

/// The largest file that is read, in bytes. Real ones have some 10 KiB; the limit keeps a wrong file
/// (an image, a disk) out of memory.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Access specifications in a file. IOMeter's largest collections have some 50.
pub const SPECS_MAX: usize = 1000;

/// Lines of an access specification: IOMeter's own limit, as each has at least 1 %.
pub const SPEC_LINES_MAX: usize = 100;

/// Machines in a file.
pub const MANAGERS_MAX: usize = 256;

/// Access specifications of one worker.
pub const ASSIGNED_MAX: usize = 1000;

/// Targets of one worker: IOMeter's own limit.
pub const TARGETS_MAX: usize = 2048;

/// I/Os outstanding to one target. No disk and no array tells more of them apart.
pub const OUTSTANDING_MAX: u64 = 4096;

/// The largest I/O, in bytes. A buffer of this size is made for each that is outstanding.
pub const IO_BYTES_MAX: u64 = 256 << 20;

/// The longest pause before a burst, in milliseconds: an hour.
pub const DELAY_MS_MAX: u64 = 3_600_000;

/// The longest run, in hours: two months.
pub const RUN_HOURS_MAX: u64 = 1440;

/// The version from which access specifications have names: 1998.05.21.
const NAMED_SPECS: u64 = 19_980_521;

/// Where in a file something is wrong, and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {kind}")]
pub struct IcfError {
    /// The file, as the caller called it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub kind: IcfErrorKind,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IcfErrorKind {
    /// Too much.
    #[error("the file is larger than {} MiB; an .icf file has some KiB", FILE_BYTES_MAX >> 20)]
    TooLarge,
    /// The head is missing.
    #[error("an .icf file begins with a line like 'Version 1.1.0', not with '{found}'")]
    NoVersion {
        /// The line that stands there.
        found: String,
    },
    /// No section.
    #[error(
        "'{found}' is no section; there are 'TEST SETUP, 'RESULTS DISPLAY, 'ACCESS SPECIFICATIONS and \
         'MANAGER LIST (a comment has a space after its ')"
    )]
    UnknownSection {
        /// The line.
        found: String,
    },
    /// No key of the section.
    #[error("{section} has no key '{key}'; correct it or remove it with its value")]
    UnknownKey {
        /// The section.
        section: &'static str,
        /// The key.
        key: String,
    },
    /// Something else stands there.
    #[error("expected {expected}, found '{found}'")]
    Expected {
        /// What belongs there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The file ends too soon.
    #[error("the file ends within {section}; it lacks '{end}'")]
    UnexpectedEnd {
        /// The section.
        section: &'static str,
        /// The line that ends it.
        end: &'static str,
    },
    /// No number.
    #[error("{what} is a whole number, not '{found}'")]
    NotNumber {
        /// Of what.
        what: &'static str,
        /// What stands there.
        found: String,
    },
    /// Too small or too large.
    #[error("{what} is {found}; it must lie between {min} and {max}")]
    OutOfRange {
        /// Of what.
        what: &'static str,
        /// The number.
        found: u64,
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// Not one of the words.
    #[error("{what} is one of {words}, not '{found}'")]
    UnknownWord {
        /// Of what.
        what: &'static str,
        /// What stands there.
        found: String,
        /// What may.
        words: &'static str,
    },
    /// Too many of something.
    #[error("there are more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// The shares of an access specification.
    #[error(
        "the shares ('% of size') of the access specification '{spec}' add up to {sum}, not to 100"
    )]
    SharesNot100 {
        /// The specification.
        spec: String,
        /// The sum.
        sum: u64,
    },
    /// A worker is assigned what is not there.
    #[error("there is no access specification '{name}'; define it under 'ACCESS SPECIFICATIONS")]
    UnknownSpec {
        /// Its name.
        name: String,
    },
    /// A network worker.
    #[error("the worker '{worker}' is a network worker; only DISK workers can run: remove it")]
    NetworkWorker {
        /// Its name.
        worker: String,
    },
    /// A network target.
    #[error("the target '{target}' is a network target; only DISK targets can be used: remove it")]
    NetworkTarget {
        /// Its name.
        target: String,
    },
    /// A reply.
    #[error(
        "the access specification '{spec}' asks for a reply of {bytes} B, which only network tests \
         have; set it to 0"
    )]
    Reply {
        /// The specification.
        spec: String,
        /// The size of the reply.
        bytes: u64,
    },
    /// Opening and closing again and again.
    #[error("testing the connection rate is not supported; set it to DISABLED")]
    ConnectionRate,
    /// A key that belongs to network workers.
    #[error("'{key}' belongs to network workers; only DISK workers can run: remove it")]
    NetworkKey {
        /// The key.
        key: String,
    },
}

/// Reads an `.icf` file; `file` is its name for errors.
///
/// # Errors
/// [`IcfError`]
pub fn parse(file: &str, text: &str) -> Result<Icf, IcfError> {
    let mut lines = Lines::new(file, text)?;
    let mut icf = Icf::default();
    let version = read_version(&mut lines, &mut icf)?;
    let mut assigned = Vec::new();
    while let Some(line) = lines.next_key_line() {
        let key = line.text();
        if lines::begins_with(key, "'TEST SETUP") {
            setup::read(&mut lines, &mut icf.setup, version)?;
        } else if lines::begins_with(key, "'RESULTS DISPLAY") {
            setup::skip_display(&mut lines)?;
        } else if lines::begins_with(key, "'ACCESS SPECIFICATIONS") {
            if version >= NAMED_SPECS {
                specs::read(&mut lines, &mut icf.specs)?;
            } else {
                specs::read_unnamed(&mut lines, &mut icf.specs)?;
            }
        } else if lines::begins_with(key, "'MANAGER LIST") {
            managers::read(&mut lines, &mut icf, &mut assigned)?;
        } else if !lines::is_comment(key) && !lines::begins_with(key, "Version") {
            let found = key.to_owned();
            return Err(lines.error(&line, key, IcfErrorKind::UnknownSection { found }));
        }
    }
    // Only now, because the manager list may stand before the access specifications.
    for (line, name) in assigned {
        let known = icf.specs.iter().any(|spec| spec.name.eq_ignore_ascii_case(name));
        if !known && !name.eq_ignore_ascii_case(IDLE) {
            let kind = IcfErrorKind::UnknownSpec { name: name.to_owned() };
            return Err(lines.error(&line, name, kind));
        }
    }
    Ok(icf)
}

/// Reads the first line; gives the version as one number that grows: 19981008 for 1998.10.08, and from
/// 1.1.0 on larger than any date.
fn read_version(lines: &mut Lines<'_>, icf: &mut Icf) -> Result<u64, IcfError> {
    let Some(line) = lines.next_key_line() else {
        return Err(lines.error_at_end(IcfErrorKind::NoVersion { found: String::new() }));
    };
    let text = line.text();
    let none = IcfErrorKind::NoVersion { found: text.chars().take(40).collect() };
    let rest = lines::after_prefix(text, "Version").map(str::trim).unwrap_or_default();
    let parts: Vec<u64> = rest.split('.').filter_map(|part| part.trim().parse().ok()).collect();
    let [major, middle, minor] = parts[..] else {
        return Err(lines.error(&line, text, none));
    };
    if major > 9999 || middle > 9999 || minor > 9999 {
        return Err(lines.error(&line, text, none));
    }
    rest.clone_into(&mut icf.version);
    // As IOMeter tells the two apart: no major version will reach 1900.
    Ok(if major > 1900 { major * 10_000 + middle * 100 + minor } else { u64::MAX })
}
