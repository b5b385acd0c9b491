//! The traces of Microsoft Research, Cambridge: a line of seven fields between commas.

use super::line::{Line, Stage, asked, whole};
use stdx::Duration;

/// Its times are counted in these.
const TICK_NS: u64 = 100;
const TICKS_PER_SECOND: u64 = 1_000_000_000 / TICK_NS;

pub(super) fn line(line: usize, text: &str) -> Result<Line<'_>, String> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let &[sent, _, device, kind, at, len, took] = fields.as_slice() else {
        return Err(
            "write: time, host, disk, Read or Write, offset, bytes, time that it took".to_owned()
        );
    };
    if line == 1 && sent.eq_ignore_ascii_case("timestamp") {
        return Ok(Line::Nothing);
    }
    let write = match kind {
        "Read" | "read" => false,
        "Write" | "write" => true,
        _ => return Err(format!("'{kind}' is neither Read nor Write")),
    };
    // Since 1601 there are more nanoseconds than 64 bits hold.
    let ticks = |word| {
        let ticks = whole(word, "time")?;
        let (seconds, rest) = (ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND);
        Ok::<_, String>(Duration::from_secs(seconds) + Duration::from_nanos(rest * TICK_NS))
    };
    let mut asked = asked(line, write, whole(at, "offset")?, whole(len, "number of bytes")?)?;
    asked.sent = Some(ticks(sent)?);
    asked.took = Some(ticks(took)?);
    Ok(Line::Asked { device, asked, stage: Stage::Sent })
}
