//! The formats of traces.
//!
//! | name | of | a line |
//! |---|---|---|
//! | `validate` | DiskSim | `R Hit 1975456 4 15362.0 56074.0`: what, how, sector, sectors, µs that it took, µs until the next |
//! | `ascii` | DiskSim | `0.53 0 1975456 8 1`: ms, device, sector, sectors, flags in hexadecimal (1: a read) |
//! | `iolog` | fio, versions 2 and 3 | `/dev/sda read 4096 512`, in version 3 after the ms at which it was sent |
//! | `blkparse` | blktrace | `8,0 3 11 0.009 697 D R 223490 + 8 [name]`: issued (or queued) and completed requests |
//! | `msr` | Microsoft Research, Cambridge | `128166372003061629,usr,0,Read,7014609920,24576,41286`: 100 ns, bytes |

mod blkparse;
mod disksim;
mod iolog;
mod line;
mod msr;

use crate::error::TraceError;
use crate::load::{Asked, Trace};
use crate::name::{Format, names};
use line::{Line, Reader};
use std::collections::BTreeSet;
use stdx::Duration;

/// Reads a line of this format.
fn reader(format: Format) -> Reader {
    match format {
        Format::Validate => disksim::validate,
        Format::Ascii => disksim::ascii,
        Format::Iolog => iolog::line,
        Format::Blkparse => blkparse::line,
        Format::Msr => msr::line,
    }
}

/// Lines in which a format is looked for.
const LINES_TRIED: usize = 200;

/// The format that most of the first lines read in.
fn recognised(text: &str) -> Option<Format> {
    let first: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_TRIED).collect();
    let requests = |format: Format| {
        let reads = |line: &&&str| matches!((reader(format))(1, line), Ok(Line::Asked { .. }));
        first.iter().filter(reads).count()
    };
    let best = Format::ALL.into_iter().max_by_key(|format| requests(*format))?;
    (requests(best) > 0).then_some(best)
}

pub(crate) fn parse(
    file: &str,
    text: &str,
    format: Option<Format>,
    device: Option<&str>,
) -> Result<Trace, TraceError> {
    let unknown = || TraceError::Unknown { file: file.to_owned(), known: names() };
    let format = format.or_else(|| recognised(text)).ok_or_else(unknown)?;
    let (mut devices, mut all, mut done) = (BTreeSet::new(), Vec::new(), Vec::new());
    let (mut passed_over, mut waited) = (0, Duration::ZERO);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |mend| TraceError::Wrong { file: file.to_owned(), line: number, mend };
        match (reader(format))(number, line).map_err(wrong)? {
            Line::Asked { device: of, mut asked, stage } => {
                devices.insert(of);
                if format == Format::Iolog && asked.sent.is_none() {
                    asked.sent = Some(waited);
                }
                all.push((of, stage, asked));
            }
            Line::Done { device: of, at, write, when } => done.push((of, at, write, when)),
            Line::Wait(time) => waited += time,
            Line::Nothing => passed_over += 1,
        }
    }
    let chosen = match (device, devices.len()) {
        (Some(name), _) => name,
        (None, 0 | 1) => devices.first().copied().unwrap_or_default(),
        (None, _) => {
            let devices = devices.into_iter().take(20).collect::<Vec<_>>().join(", ");
            return Err(TraceError::Devices { file: file.to_owned(), devices });
        }
    };
    let ours = all.iter().filter(|(of, ..)| *of == chosen);
    let stage = ours.clone().map(|(_, stage, _)| *stage).max();
    let mut asked: Vec<Asked> =
        ours.filter(|(_, at, _)| Some(*at) == stage).map(|(.., asked)| asked.clone()).collect();
    passed_over += all.len() - asked.len();
    if asked.is_empty() {
        return Err(TraceError::Empty { file: file.to_owned(), format });
    }
    asked.sort_by_key(|asked| asked.sent);
    let begin = asked.first().and_then(|asked| asked.sent).unwrap_or_default();
    let done = done.into_iter().filter(|(of, ..)| *of == chosen);
    blkparse::match_ends(&mut asked, done.map(|(_, at, write, when)| (at, write, when)));
    for asked in &mut asked {
        asked.sent = asked.sent.map(|sent| sent - begin);
    }
    Ok(Trace { format, asked, passed_over })
}

#[cfg(test)]
mod tests;
