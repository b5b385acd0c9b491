//! How kinds, modes and times of files are shown. Times are universal; names go out through [`foreign`](crate::foreign).

use crate::commands::workloads::calendar::civil;
use ::zfs::zpl::attributes::{Attributes, Moment};
use zfs_format::zpl::directory::FileKind;

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Days from the start of the era that dates are counted in (0000-03-01, 400 years before it) to 1970: a number
/// of whole eras of 400 years, so that dates before 1970 are found by the same rule.
const ERA_DAYS: i64 = 146_097;

/// What a file is, in a word.
pub fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Fifo => "fifo",
        FileKind::CharacterDevice => "character device",
        FileKind::Directory => "directory",
        FileKind::BlockDevice => "block device",
        FileKind::File => "file",
        FileKind::SymbolicLink => "symbolic link",
        FileKind::Socket => "socket",
        FileKind::Other(_) => "unknown",
    }
}

/// Kind and permissions as `ls -l` shows them.
pub fn mode(attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        FileKind::Fifo => 'p',
        FileKind::CharacterDevice => 'c',
        FileKind::Directory => 'd',
        FileKind::BlockDevice => 'b',
        FileKind::File => '-',
        FileKind::SymbolicLink => 'l',
        FileKind::Socket => 's',
        FileKind::Other(_) => '?',
    };
    let bits = attributes.permissions;
    let mut shown = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let has = |bit: u32| bits >> shift & bit != 0;
        shown.push(if has(4) { 'r' } else { '-' });
        shown.push(if has(2) { 'w' } else { '-' });
        shown.push(match (bits & special != 0, has(1)) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    shown
}

/// A moment as date and time, with all its digits.
pub fn moment(moment: Moment) -> String {
    let days = moment.seconds.div_euclid(DAY);
    let second = moment.seconds.rem_euclid(DAY);
    // Far enough back that the count begins before any date that a file can bear in earnest.
    let eras = days.div_euclid(ERA_DAYS).min(0);
    let (year, month, day) = civil((days - eras * ERA_DAYS).unsigned_abs());
    let year = year as i64 + eras * 400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let nanoseconds = moment.nanoseconds;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{nanoseconds:09}")
}

/// A moment as date and time with its zone, for programs.
pub fn moment_utc(at: Moment) -> String {
    moment(at) + "Z"
}

/// A moment as nanoseconds since 1970; nothing where they don't fit 64 bits (before 1677, after 2262).
pub fn moment_ns(at: Moment) -> Option<i64> {
    at.seconds.checked_mul(1_000_000_000)?.checked_add(at.nanoseconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_1970_are_dates_too() {
        let at = |seconds, nanoseconds| moment(Moment { seconds, nanoseconds });
        assert_eq!(at(0, 5), "1970-01-01 00:00:00.000000005");
        assert_eq!(at(-1, 0), "1969-12-31 23:59:59.000000000");
        assert_eq!(at(-2_208_988_800, 0), "1900-01-01 00:00:00.000000000");
        assert_eq!(at(4_102_444_800, 0), "2100-01-01 00:00:00.000000000");
        let before = Moment { seconds: -1, nanoseconds: 7 };
        assert_eq!(moment_utc(before), "1969-12-31 23:59:59.000000007Z");
        assert_eq!(moment_ns(before), Some(-999_999_993));
        assert_eq!(moment_ns(Moment { seconds: i64::MAX, nanoseconds: 0 }), None);
    }
}
