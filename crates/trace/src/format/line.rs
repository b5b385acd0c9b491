//! What a line of a trace says, and the numbers and times in it.

use crate::load::Asked;
use stdx::{ByteCount, Duration, Offset};

/// A sector of those formats that count in sectors.
const SECTOR: u64 = 512;
/// The longest request that is taken for one.
const REQUEST_MAX: u64 = 1 << 30;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// A request of a device.
    Asked { device: &'a str, asked: Asked, stage: Stage },
    /// A request is done: where it was, and when.
    Done { device: &'a str, at: Offset, write: bool, when: Duration },
    /// So long nothing was sent.
    Wait(Duration),
    /// Nothing that is needed.
    Nothing,
}

/// How far a request has come, where a trace follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Queued by the host.
    Queued,
    /// Sent to the disk.
    Sent,
}

/// Reads one line, or says what is wrong with it.
pub(super) type Reader = for<'a> fn(usize, &'a str) -> Result<Line<'a>, String>;

/// A request, with what can be wrong about any.
pub(super) fn asked(line: usize, write: bool, at: u64, len: u64) -> Result<Asked, String> {
    if len == 0 || len > REQUEST_MAX {
        return Err(format!("a request of {len} bytes: write 1 byte to 1 GiB"));
    }
    if at.checked_add(len).is_none_or(|end| end > 1 << 60) {
        return Err("it ends beyond 2^60 bytes".to_owned());
    }
    let (at, len) = (Offset(at), ByteCount(len));
    Ok(Asked { line, write, at, len, sent: None, pause: None, took: None })
}

pub(super) fn sectors(line: usize, write: bool, at: &str, count: &str) -> Result<Asked, String> {
    let at = whole(at, "sector")?.checked_mul(SECTOR).ok_or("the sector is too far out")?;
    let len = whole(count, "number of sectors")?.checked_mul(SECTOR).ok_or("too many sectors")?;
    asked(line, write, at, len)
}

pub(super) fn whole(word: &str, what: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("'{word}' is no {what}"))
}

/// A time that is counted in units of so many nanoseconds.
pub(super) fn time(word: &str, unit_ns: f64) -> Result<Duration, String> {
    let number: f64 = word.parse().map_err(|_| format!("'{word}' is no time"))?;
    let ns = number * unit_ns;
    if !(0.0..9e18).contains(&ns) {
        return Err(format!("'{word}' is no time"));
    }
    Ok(Duration::from_nanos(ns.round() as u64))
}
