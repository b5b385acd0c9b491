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

mod error;
mod lines;
mod managers;
mod setup;
mod specs;
#[cfg(test)]
mod tests;

pub use error::{
    ASSIGNED_MAX, DELAY_MS_MAX, FILE_BYTES_MAX, IO_BYTES_MAX, IcfError, IcfErrorKind, MANAGERS_MAX,
    OUTSTANDING_MAX, RUN_HOURS_MAX, SPEC_LINES_MAX, SPECS_MAX, TARGETS_MAX,
};

use super::icf::{IDLE, Icf};
use lines::Lines;

/// The version from which access specifications have names: 1998.05.21.
const NAMED_SPECS: u64 = 19_980_521;

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
