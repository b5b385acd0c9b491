//! What blkparse prints of a block trace, in its default form.
//!
//! A request passes several stages, a line each. Of a trace that has them, the line at which a request is issued to the driver
//! (D) says when it was sent, else the one at which it was queued (Q); the line of its completion (C) says when it was done.

use super::line::{Line, Stage, sectors, time};
use crate::load::Asked;
use std::collections::{BTreeMap, VecDeque};
use stdx::{Duration, Offset};

pub(super) fn line(line: usize, text: &str) -> Result<Line<'_>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // What blkparse adds at the end ("CPU0 (sda):", "Total …") and other programs' lines are no events.
    let &[device, _, _, when, _, action, what, ref rest @ ..] = words.as_slice() else {
        return Ok(Line::Nothing);
    };
    let is_device = |word: &str| {
        let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        word.split_once(',').is_some_and(|(major, minor)| number(major) && number(minor))
    };
    if !is_device(device) {
        return Ok(Line::Nothing);
    }
    let write = match what {
        _ if what.contains('D') => return Ok(Line::Nothing),
        _ if what.contains('W') => true,
        _ if what.contains('R') => false,
        _ => return Ok(Line::Nothing),
    };
    let &[at, "+", count, ..] = rest else { return Ok(Line::Nothing) };
    if count == "0" {
        return Ok(Line::Nothing);
    }
    let when = time(when, 1e9)?;
    let stage = match action {
        "Q" => Stage::Queued,
        "D" => Stage::Sent,
        "C" => {
            let at = sectors(line, write, at, count)?.at;
            return Ok(Line::Done { device, at, write, when });
        }
        _ => return Ok(Line::Nothing),
    };
    let mut asked = sectors(line, write, at, count)?;
    asked.sent = Some(when);
    Ok(Line::Asked { device, asked, stage })
}

/// Gives each request the time until the completion at its place.
pub(super) fn match_ends(
    asked: &mut [Asked],
    done: impl Iterator<Item = (Offset, bool, Duration)>,
) {
    let mut ends: BTreeMap<(u64, bool), VecDeque<Duration>> = BTreeMap::new();
    for (at, write, when) in done {
        ends.entry((at.bytes(), write)).or_default().push_back(when);
    }
    for asked in asked {
        let Some(ends) = ends.get_mut(&(asked.at.bytes(), asked.write)) else { continue };
        let Some(sent) = asked.sent else { continue };
        while let Some(end) = ends.pop_front() {
            if end >= sent {
                asked.took = Some(end - sent);
                break;
            }
        }
    }
}
