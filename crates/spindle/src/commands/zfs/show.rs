//! How kinds, modes and times of files are shown. Times are universal; names go out through [`printable`](crate::printable).

use crate::commands::clock::universal;
use ::zfs::zpl::attributes::{Attributes, Moment};
use zfs_format::zpl::directory::FileKind;

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

/// A moment as date and time, with all its digits; as seconds since 1970, `@SECONDS`, where no calendar reaches.
pub fn moment(moment: Moment) -> String {
    let Moment { seconds, nanoseconds } = moment;
    let shown = universal(seconds, nanoseconds, "%Y-%m-%d %H:%M:%S.%9f");
    shown.unwrap_or_else(|| format!("@{seconds}.{nanoseconds:09}"))
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
        assert_eq!(at(i64::MAX, 1), "@9223372036854775807.000000001");
        assert_eq!(moment_ns(Moment { seconds: i64::MAX, nanoseconds: 0 }), None);
    }
}
