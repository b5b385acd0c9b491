//! The section `ACCESS SPECIFICATIONS`.

use super::lines::{Fields, Lines};
use super::{DELAY_MS_MAX, IO_BYTES_MAX, IcfError, IcfErrorKind, SPEC_LINES_MAX, SPECS_MAX};
use crate::iometer::icf::{AccessLine, AccessSpec, DefaultAssignment};
use std::num::NonZeroU32;
use std::time::Duration;
use stdx::ByteCount;

const SECTION: &str = "ACCESS SPECIFICATIONS";
const END: &str = "'END access specifications";

const ASSIGNMENTS: [(&str, DefaultAssignment); 4] = [
    ("NONE", DefaultAssignment::None),
    ("ALL", DefaultAssignment::All),
    ("DISK", DefaultAssignment::Disk),
    ("NET", DefaultAssignment::Net),
];

/// Reads specifications with names. One whose name is there already replaces it, as in IOMeter.
pub(super) fn read(lines: &mut Lines<'_>, specs: &mut Vec<AccessSpec>) -> Result<(), IcfError> {
    loop {
        let line = lines.key(SECTION, END)?;
        let key = line.text();
        if key.eq_ignore_ascii_case(END) {
            return Ok(());
        }
        if !key.eq_ignore_ascii_case("'Access specification name,default assignment") {
            let kind = IcfErrorKind::UnknownKey { section: SECTION, key: key.to_owned() };
            return Err(lines.error(&line, key, kind));
        }
        let mut head = lines.data("the name of an access specification")?;
        let name = head.up_to_comma();
        let word = head.up_to_comma();
        let assigned = head.one_of(
            lines,
            word,
            "the default assignment",
            "NONE, ALL, DISK, NET",
            &ASSIGNMENTS,
            &ASSIGNMENTS.map(|(_, meaning)| meaning),
        )?;
        // The titles of the columns.
        lines.key(SECTION, END)?;
        let mut rows = Vec::new();
        while let Some(mut row) = lines.data_if_any() {
            if rows.len() == SPEC_LINES_MAX {
                let kind = too_many("lines in an access specification", SPEC_LINES_MAX);
                return Err(lines.error(&row.line, row.text(), kind));
            }
            rows.push(access_line(lines, &mut row, name, Fields::up_to_comma)?);
        }
        let sum: u64 = rows.iter().map(|row: &AccessLine| u64::from(row.share_percent)).sum();
        if sum != 100 {
            let kind = IcfErrorKind::SharesNot100 { spec: name.to_owned(), sum };
            return Err(lines.error(&head.line, name, kind));
        }
        let spec = AccessSpec { name: name.to_owned(), assigned, lines: rows };
        match specs.iter().position(|old| old.name.eq_ignore_ascii_case(name)) {
            Some(old) => specs[old] = spec,
            None if specs.len() == SPECS_MAX => {
                let kind = too_many("access specifications", SPECS_MAX);
                return Err(lines.error(&head.line, name, kind));
            }
            None => specs.push(spec),
        }
    }
}

/// Reads specifications of versions that had no names: numbers with space between them, and a new
/// specification wherever the shares have reached 100.
pub(super) fn read_unnamed(
    lines: &mut Lines<'_>,
    specs: &mut Vec<AccessSpec>,
) -> Result<(), IcfError> {
    // The titles of the columns.
    lines.key(SECTION, END)?;
    let (mut rows, mut sum) = (Vec::new(), 0);
    while let Some(mut row) = lines.data_if_any() {
        if specs.len() == SPECS_MAX || rows.len() == SPEC_LINES_MAX {
            let kind = too_many("access specifications", SPECS_MAX);
            return Err(lines.error(&row.line, row.text(), kind));
        }
        let line = access_line(lines, &mut row, "unnamed", Fields::word)?;
        sum += u64::from(line.share_percent);
        rows.push(line);
        if sum > 100 {
            let kind = IcfErrorKind::SharesNot100 { spec: "unnamed".to_owned(), sum };
            return Err(lines.error(&row.line, row.text(), kind));
        }
        if sum == 100 {
            let name = name_for(&rows, specs);
            let assigned = DefaultAssignment::All;
            specs.push(AccessSpec { name, assigned, lines: std::mem::take(&mut rows) });
            sum = 0;
        }
    }
    if sum > 0 {
        let kind = IcfErrorKind::SharesNot100 { spec: "unnamed".to_owned(), sum };
        return Err(lines.error_at_end(kind));
    }
    Ok(())
}

/// A row: size, share, reads, random, delay, burst, and in later versions alignment and reply.
fn access_line<'a>(
    lines: &Lines<'a>,
    row: &mut Fields<'a>,
    spec: &str,
    next: fn(&mut Fields<'a>) -> &'a str,
) -> Result<AccessLine, IcfError> {
    let columns = [
        ("the size of an I/O", 1, IO_BYTES_MAX),
        ("'% of size'", 1, 100),
        ("'% reads'", 0, 100),
        ("'% random'", 0, 100),
        ("the delay in milliseconds", 0, DELAY_MS_MAX),
        ("the burst length", 0, u64::from(u32::MAX)),
        ("the alignment", 0, IO_BYTES_MAX),
        ("the reply size", 0, IO_BYTES_MAX),
    ];
    /// Columns that every version has.
    const ALWAYS: usize = 6;
    let mut values = [0; 8];
    for (column, (what, min, max)) in columns.into_iter().enumerate() {
        if column >= ALWAYS && row.is_done() {
            break;
        }
        let field = next(row);
        values[column] = row.number(lines, field, what, min, max)?;
    }
    // A comma at the end is no further column; results files write one.
    let rest = row.remainder();
    if !rest.is_empty() {
        let kind = IcfErrorKind::Expected { expected: "8 numbers in a line", found: rest.into() };
        return Err(lines.error(&row.line, rest, kind));
    }
    let [size, share, reads, random, delay, burst, align, reply] = values;
    if reply != 0 {
        let kind = IcfErrorKind::Reply { spec: spec.to_owned(), bytes: reply };
        return Err(lines.error(&row.line, row.text(), kind));
    }
    Ok(AccessLine {
        size: ByteCount(size),
        share_percent: share as u8,
        reads_percent: reads as u8,
        random_percent: random as u8,
        delay: Duration::from_millis(delay),
        // IOMeter takes a burst of 0 as one of 1.
        burst: NonZeroU32::new(burst as u32).unwrap_or(NonZeroU32::MIN),
        align: ByteCount(align),
    })
}

/// A name that says what a specification does, and that no other has.
fn name_for(rows: &[AccessLine], specs: &[AccessSpec]) -> String {
    let share = |percent: u8, none: &str, all: &str, some: &str| match percent {
        0 => none.to_owned(),
        100 => all.to_owned(),
        percent => format!("{percent}% {some}"),
    };
    let base = match rows {
        [row] => format!(
            "{} {} {}",
            row.size,
            share(row.random_percent, "sequential", "random", "random"),
            share(row.reads_percent, "writes", "reads", "reads"),
        ),
        _ => "Untitled".to_owned(),
    };
    let taken = |name: &str| specs.iter().any(|spec| spec.name == name);
    let numbered = (2..=SPECS_MAX + 1).map(|number| format!("{base} {number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    names.find(|name| !taken(name)).expect("there are more names than specifications")
}

fn too_many(what: &'static str, max: usize) -> IcfErrorKind {
    IcfErrorKind::TooMany { what, max }
}
