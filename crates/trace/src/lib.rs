//! Recorded loads: what was asked of a disk, when, and how long it took.
//!
//! A [`Trace`] is read from a file in one of the [formats](Format) that are in use, plain or compressed by zstd. Nothing in it
//! is believed: a line that makes no request is an error that names file and line. [`Distribution`] says what a list of
//! response times looks like, and [`demerit`] how far two of them lie apart.

#![forbid(unsafe_code)]

mod distribution;
mod error;
mod format;
mod load;
mod name;

pub use distribution::{Distribution, demerit};
pub use error::TraceError;
pub use load::{Asked, Trace};
pub use name::Format;

use std::path::Path;

/// Bytes that a trace may have when it is unpacked.
const BYTES_MAX: u64 = 2 << 30;

/// Reads a trace; of a disk by this name, where it is of several, and in this format, where its lines are not to say.
///
/// # Errors
/// Where the file or a line of it can't be used.
pub fn read(
    path: &Path,
    format: Option<Format>,
    device: Option<&str>,
) -> Result<Trace, TraceError> {
    let file = path.display().to_string();
    let unreadable = |reason: String| TraceError::Unreadable { file: file.clone(), reason };
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let bytes =
        if bytes.starts_with(&ZSTD_MAGIC) { unpacked(&bytes).map_err(unreadable)? } else { bytes };
    let text = String::from_utf8_lossy(&bytes);
    format::parse(&file, &text, format, device)
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let decoder = zstd::Decoder::new(bytes).map_err(|error| format!("zstd: {error}"))?;
    let mut out = Vec::new();
    let mut limited = decoder.take(BYTES_MAX + 1);
    limited.read_to_end(&mut out).map_err(|error| format!("zstd: {error}"))?;
    if out.len() as u64 > BYTES_MAX {
        return Err("it unpacks to more than 2 GiB".to_owned());
    }
    Ok(out)
}
