//! `spindle md examine --bitmap` and `--badblocks`: what a device keeps beside its superblock, in the lines of
//! `mdadm --examine-bitmap` and `mdadm --examine-badblocks`.
//!
//! Source of the form: mdadm 4.2, `bitmap.c` (`ExamineBitmap`) and `super1.c` (`examine_badblocks_super1`).

use super::words;
use crate::output::Failure;
use ::md::assemble::{Found, Superblock};
use ::md::superblock::bad_blocks::BadBlock;
use ::md::superblock::bitmap::{BitmapSuperblock, Bits, STATE_STALE, STATE_WRITE_ERROR};
use std::fmt::Write;

/// The lines of a bitmap.
///
/// # Errors
/// Where the device has none.
pub fn bitmap(found: &Found, bitmap: Option<&(BitmapSuperblock, Bits)>) -> Result<String, Failure> {
    let Some((superblock, bits)) = bitmap else {
        return Err(Failure::failed(format!("{}: it has no bitmap", found.name())));
    };
    let state = match superblock.state {
        0 => "OK",
        state if state & STATE_STALE != 0 => "Out of date",
        state if state & STATE_WRITE_ERROR != 0 => "Write error",
        _ => "Unknown",
    };
    let mode = match superblock.write_behind {
        0 => "Normal".to_owned(),
        max => format!("Allow write behind, max {max}"),
    };
    let size = superblock.sync_sectors;
    let (count, dirty) = (bits.count(), bits.dirty());
    let percent = 100.0 * dirty as f64 / count.max(1) as f64;
    let lines = [
        ("Filename", found.name()),
        ("Magic", "6d746962".to_owned()),
        ("Version", "4".to_owned()),
        ("UUID", superblock.set_uuid.to_string()),
        ("Events", superblock.events.to_string()),
        ("Events Cleared", superblock.events_cleared.to_string()),
        ("State", state.to_owned()),
        ("Chunksize", chunk(superblock.chunk_bytes)),
        ("Daemon", format!("{}s flush period", superblock.daemon_sleep_s)),
        ("Write Mode", mode),
        ("Sync Size", format!("{}{}", size / 2, words::human_size(size << 9))),
        ("Bitmap", format!("{count} bits (chunks), {dirty} dirty ({percent:.1}%)")),
    ];
    let mut text = String::new();
    for (label, value) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{label:>16} : {value}");
    }
    Ok(text)
}

/// `64 MB`, as mdadm writes a power of two.
fn chunk(bytes: u32) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MB", bytes >> 20),
        _ => format!("{} GB", bytes >> 30),
    }
}

/// The lines of a bad-block log.
pub fn bad_blocks(found: &Found, list: &[BadBlock]) -> String {
    let name = found.name();
    let has_log = match &found.superblock {
        Superblock::V1(sb) => sb.bad_blocks.sectors > 0 && sb.bad_blocks.offset != 0,
        Superblock::V090(_) => false,
    };
    match (has_log, list) {
        (false, _) => format!("No bad-blocks list configured on {name}\n"),
        (true, []) => format!("Bad-blocks list is empty in {name}\n"),
        (true, list) => {
            let mut text = format!("Bad-blocks on {name}:\n");
            for block in list {
                let _ = writeln!(text, "{:>20} for {} sectors", block.sector, block.sectors);
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_have_mdadms_units() {
        assert_eq!((chunk(512).as_str(), chunk(4096).as_str()), ("512 bytes", "4 KB"));
        assert_eq!((chunk(64 << 20).as_str(), chunk(1 << 30).as_str()), ("64 MB", "1 GB"));
    }
}
