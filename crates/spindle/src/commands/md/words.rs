//! Sizes, layouts, levels and names in mdadm's words.
//!
//! Source: mdadm's `util.c` (`human_size`), `maps.c`, `super1.c`.

use ::md::assemble::{Superblock, level_of};
use ::md::{Layout, Level};
use attach::sets::name::device_name;
use attach::typed;
use std::path::PathBuf;

/// ` (63.00 MiB 66.06 MB)`, from 5000 KiB on.
pub fn human_size(bytes: u64) -> String {
    let bytes = u128::from(bytes);
    let hundredths = |unit: u128| (bytes * 200 / unit).div_ceil(2);
    let (binary, decimal, prefix) = match bytes {
        0..5_120_000 => return String::new(),
        5_120_000..0x8000_0000 => (1 << 20, 1_000_000, "M"),
        0x8000_0000..0x200_0000_0000 => (1 << 30, 1_000_000_000, "G"),
        _ => (1 << 40, 1_000_000_000_000, "T"),
    };
    let (b, d) = (hundredths(binary), hundredths(decimal));
    let (bw, bf, dw, df) = (b / 100, b % 100, d / 100, d % 100);
    format!(" ({bw}.{bf:02} {prefix}iB {dw}.{df:02} {prefix}B)")
}

/// The command that gets at a set by force.
pub fn by_force(paths: &[PathBuf], verb: &str, set: &str, words: &str) -> String {
    format!("{} md {verb} {}{words} --force", typed::spindle(paths), typed::quoted(set))
}

/// The level's name.
pub fn level(number: i32) -> String {
    match level_of(number) {
        Ok(level) => level.to_string(),
        Err(name) if name.parse::<i32>().is_err() => name,
        Err(_) => "-unknown-".to_owned(),
    }
}

/// The layout's name, for the levels of which one is printed.
pub fn layout(level: i32, number: Option<u32>) -> Option<String> {
    let (level, number) = (level_of(level).ok()?, number?);
    match level {
        Level::Raid0 => Some(match number {
            0 => return None,
            1 => "original".to_owned(),
            2 => "alternate".to_owned(),
            _ => "-unknown-".to_owned(),
        }),
        Level::Raid5 | Level::Raid6 => Some(match Layout::from_md(level, number as i32) {
            Ok(Layout::Parity(layout)) => layout.name().to_owned(),
            _ => "-unknown-".to_owned(),
        }),
        Level::Raid10 => {
            let (near, far) = (number & 255, number >> 8 & 255);
            let mut parts = Vec::new();
            if near != 1 {
                parts.push(format!("near={near}"));
            }
            if far != 1 {
                let kind = if number & 0x1_0000 != 0 { "offset" } else { "far" };
                parts.push(format!("{kind}={far}"));
            }
            if near * far == 1 {
                parts.push("NO REDUNDANCY".to_owned());
            }
            Some(parts.join(", "))
        }
        Level::Linear | Level::Raid1 | Level::Raid4 => None,
    }
}

/// KiB of an array that uses `size` sectors of each of `slots` members; none where that does not tell.
pub fn array_kib(level: i32, layout: Option<u32>, slots: u64, size: u64) -> Option<u64> {
    let number = layout.unwrap_or(0);
    let (data, copies) = match level {
        1 => (1, 1),
        4 | 5 => (slots.saturating_sub(1), 1),
        6 => (slots.saturating_sub(2), 1),
        10 => (slots, u64::from((number & 255) * (number >> 8 & 255)).max(1)),
        _ => return None,
    };
    let sectors = u128::from(size) * u128::from(data) / u128::from(copies);
    (data > 0).then_some((sectors / 2) as u64)
}

/// This host's name, by which mdadm tells its own arrays.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The set's name as it is printed: with a remark where it is this host's.
pub fn name_with_host(name: &str) -> String {
    let (host, shown) = (host(), crate::printable::word(name));
    match name.split_once(':') {
        Some((first, _)) if !host.is_empty() && first == host => {
            format!("{shown}  (local to host {host})")
        }
        _ => shown.into_owned(),
    }
}

/// A set's device as mdadm.conf has it: mdadm's `print_escape` of what stands behind /dev/md/, and control characters,
/// which mdadm lets through, as blanks. The name is somebody else's, and a word of it must not become a line.
pub fn conf_device(superblock: &Superblock) -> Option<String> {
    let device = device_name(superblock)?;
    let (folder, name) = match device.strip_prefix("/dev/md/") {
        Some(name) => ("/dev/md/", name),
        None => ("", &*device),
    };
    let escaped = |c: char| match c {
        '/' if !folder.is_empty() => '-',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    };
    Some(format!("{folder}{}", name.chars().map(escaped).collect::<String>()))
}

/// A set's name as a word of mdadm.conf, quoted as mdadm's `print_quoted` does it. None where no word can say it: a
/// word ends with its line, and has no escapes. mdadm then knows the set by its UUID alone.
pub fn conf_name(name: &str) -> Option<String> {
    if name.is_empty() || name.chars().any(|c| c.is_control() && c != '\t' || c == '\u{fffd}') {
        return None;
    }
    let is_quote = |c: &char| matches!(c, '\'' | '"');
    let first = name.chars().find(is_quote);
    if first.is_none() && !name.contains([' ', '\t']) {
        return Some(name.to_owned());
    }
    let mut quote = if first == Some('"') { '\'' } else { '"' };
    let mut word = String::from(quote);
    for c in name.chars() {
        if c == quote {
            // The other kind from here on.
            word.push(quote);
            quote = if quote == '"' { '\'' } else { '"' };
            word.push(quote);
        }
        word.push(c);
    }
    word.push(quote);
    Some(word)
}

/// The consistency policy.
pub fn policy(superblock: &Superblock) -> &'static str {
    use ::md::superblock::Features;
    let features = superblock.features();
    if features.has(Features::JOURNAL) {
        "journal"
    } else if features.has_ppl() {
        "ppl"
    } else if features.has(Features::BITMAP) {
        "bitmap"
    } else if superblock.level() <= 0 {
        "none"
    } else {
        "resync"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_mdadm_does() {
        assert_eq!(human_size(64_512 << 10), " (63.00 MiB 66.06 MB)");
        assert_eq!(human_size(77_824 << 10), " (76.00 MiB 79.69 MB)");
        assert_eq!(human_size(32_704 << 10), " (31.94 MiB 33.49 MB)");
        assert_eq!(human_size(4999 << 10), "");
        assert_eq!(human_size(8_001_563_222_016), " (7.28 TiB 8.00 TB)");
    }

    #[test]
    fn a_name_is_one_word_of_one_line_of_mdadm_conf_or_is_not_said() {
        assert_eq!(conf_name("host:data").as_deref(), Some("host:data"));
        assert_eq!(conf_name("my data").as_deref(), Some("\"my data\""));
        assert_eq!(conf_name("it's").as_deref(), Some("\"it's\""));
        assert_eq!(conf_name("a\"b'c").as_deref(), Some("'a\"b'\"'c\""));
        for name in
            ["", "x\nPROGRAM /evil", "x\rPROGRAM /evil", "x\u{1b}[2J", "x\u{85}y", "\u{fffd}"]
        {
            assert_eq!(conf_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn layouts_of_raid_10_name_what_is_not_one() {
        assert_eq!(layout(10, Some(0x102)).as_deref(), Some("near=2"));
        assert_eq!(layout(10, Some(0x1_0201)).as_deref(), Some("offset=2"));
        assert_eq!(layout(10, Some(0x202)).as_deref(), Some("near=2, far=2"));
        assert_eq!(layout(6, Some(18)).as_deref(), Some("left-symmetric-6"));
        assert_eq!(layout(4, Some(0)), None);
    }
}
