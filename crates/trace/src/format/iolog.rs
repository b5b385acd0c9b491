//! fio's logs, versions 2 and 3.

use super::line::{Line, Stage, asked, time, whole};

/// `/dev/sda read 4096 512`, or with the ms before it; `fio version N iolog` at its head.
pub(super) fn line(line: usize, text: &str) -> Result<Line<'_>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let known = |action: &str| {
        ["read", "write", "trim", "sync", "datasync", "wait", "add", "open", "close"]
            .contains(&action)
    };
    let (sent, file, action, rest) = match words.as_slice() {
        ["fio", "version", version, "iolog"] => {
            return match *version {
                "2" | "3" => Ok(Line::Nothing),
                _ => Err(format!("version {version} of iolog: 2 and 3 are read")),
            };
        }
        // A name may be a number: the action tells them apart.
        [ms, file, action, rest @ ..] if known(action) && !known(file) => {
            (Some(time(ms, 1e6)?), *file, *action, rest)
        }
        [file, action, rest @ ..] if known(action) => (None, *file, *action, rest),
        _ => return Err("write: file, action, offset, length".to_owned()),
    };
    let write = match action {
        "read" => false,
        "write" => true,
        "wait" => {
            // Its length is µs in version 2; version 3 has the time on each line.
            let us = rest.last().copied().unwrap_or("0");
            return Ok(if sent.is_none() { Line::Wait(time(us, 1e3)?) } else { Line::Nothing });
        }
        _ => return Ok(Line::Nothing),
    };
    let [at, len] = rest else { return Err("write an offset and a length".to_owned()) };
    let mut asked = asked(line, write, whole(at, "offset")?, whole(len, "length")?)?;
    asked.sent = sent;
    Ok(Line::Asked { device: file, asked, stage: Stage::Sent })
}
