//! DiskSim's two formats of text.

use super::line::{Line, Stage, sectors, time, whole};

/// `R Hit 1975456 4 15362.0 56074.0`
pub(super) fn validate(line: usize, text: &str) -> Result<Line<'_>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let &[kind, _, at, count, took, pause] = words.as_slice() else {
        return Err("write: R or W, hit or miss, sector, sectors, µs, µs until the next".to_owned());
    };
    let write = match kind {
        "R" | "r" => false,
        "W" | "w" => true,
        _ => return Err(format!("'{kind}' is neither R nor W")),
    };
    let mut asked = sectors(line, write, at, count)?;
    asked.took = Some(time(took, 1e3)?);
    asked.pause = Some(time(pause, 1e3)?);
    Ok(Line::Asked { device: "", asked, stage: Stage::Sent })
}

/// `0.53 0 1975456 8 1`
pub(super) fn ascii(line: usize, text: &str) -> Result<Line<'_>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let &[sent, device, at, count, flags] = words.as_slice() else {
        return Err("write: ms, device, sector, sectors, flags".to_owned());
    };
    whole(device, "device number")?;
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16)
        .map_err(|_| format!("'{flags}' is no hexadecimal number of flags"))?;
    let mut asked = sectors(line, flags & 1 == 0, at, count)?;
    asked.sent = Some(time(sent, 1e6)?);
    Ok(Line::Asked { device, asked, stage: Stage::Sent })
}
