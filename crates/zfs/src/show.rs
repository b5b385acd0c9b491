//! Numbers and times as ZFS's commands write them.
//!
//! Sizes take at most five characters: `1.21M`, `39.3M`, `720K`; whole multiples of their unit no point: `80M`. Times
//! are in the zone that is given, since which one that is is the world's matter ([`Clock`]).
//!
//! Source: OpenZFS, `zutil_nicenum.c`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::Write;
use stdx::RangeSet;

/// Units by powers of 1024. What follows a plain number of bytes is `B`.
const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
/// Stretches of groups that are named in a line; more are counted.
const STRETCHES_MAX: usize = 3;
/// Characters that a size takes, its unit included.
const WIDTH: usize = 5;

/// A count: `12`, `1.5K`.
pub fn count(number: u64) -> String {
    scaled(number, "")
}

/// Bytes: `12B`, `1.5K`.
pub fn bytes(number: u64) -> String {
    scaled(number, "B")
}

fn scaled(number: u64, plain: &str) -> String {
    let mut index = 0;
    let mut whole = number;
    while whole >= 1024 && index + 1 < UNITS.len() {
        whole /= 1024;
        index += 1;
    }
    let unit = if index == 0 { plain } else { UNITS[index] };
    let size = 1u64 << (10 * index);
    if number.is_multiple_of(size) {
        return format!("{whole}{unit}");
    }
    let value = number as f64 / size as f64;
    let fitting = (0..=2).rev().map(|digits| format!("{value:.digits$}{unit}"));
    let mut last = String::new();
    for text in fitting {
        let fits = text.len() <= WIDTH;
        last = text;
        if fits {
            break;
        }
    }
    last
}

/// Transaction groups: `groups 5-9, 12-12`.
pub fn groups(groups: &RangeSet) -> String {
    let named = groups.iter().take(STRETCHES_MAX);
    let named: Vec<String> = named.map(|one| format!("{}-{}", one.start, one.end - 1)).collect();
    let more = match groups.len().saturating_sub(STRETCHES_MAX) {
        0 => String::new(),
        more => format!(" and {more} stretches more"),
    };
    format!("groups {}{more}", named.join(", "))
}

/// A ratio in hundredths: `1.00x`, or `1.00` where it is to be read by a program.
pub fn ratio(hundredths: u64, literal: bool) -> String {
    let unit = if literal { "" } else { "x" };
    format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
}

/// A share in percent.
pub fn percent(number: u64, literal: bool) -> String {
    if literal { number.to_string() } else { format!("{number}%") }
}

/// What the clock on the wall says, as the caller has it: an engine asks no system for its zone.
pub type Clock<'a> = &'a TimeZone;

/// UTC.
pub static UTC: TimeZone = TimeZone::UTC;

const DAY_SECONDS: u64 = 86_400;

/// A moment by a clock and a form of `strftime`. What lies behind the calendar's end, in the year 9999, is shown as it.
fn shown(unix_s: u64, clock: Clock<'_>, form: &str) -> String {
    let moment = i64::try_from(unix_s).ok().and_then(|at| Timestamp::from_second(at).ok());
    moment.unwrap_or(Timestamp::MAX).to_zoned(clock.clone()).strftime(form).to_string()
}

/// `Sat Nov 21 20:22 2026`.
pub fn minute(unix_s: u64, clock: Clock<'_>) -> String {
    shown(unix_s, clock, "%a %b %e %k:%M %Y")
}

/// `Sat Nov 21  8:22:05 2026`: the hour padded with a space.
pub fn second(unix_s: u64, clock: Clock<'_>) -> String {
    shown(unix_s, clock, "%a %b %e %k:%M:%S %Y")
}

/// `Sat Nov 21 08:22:05 2026`: the hour padded with a zero.
pub fn date(unix_s: u64, clock: Clock<'_>) -> String {
    shown(unix_s, clock, "%a %b %e %H:%M:%S %Y")
}

/// The same in universal time.
pub fn universal_date(unix_s: u64) -> String {
    date(unix_s, &jiff::tz::TimeZone::UTC)
}

/// `2026-11-21.20:22:05`, as the history has it.
pub fn stamp(unix_s: u64, clock: Clock<'_>) -> String {
    shown(unix_s, clock, "%Y-%m-%d.%H:%M:%S")
}

/// A span: `00:00:02`, `3 days 04:05:06`.
pub fn span(seconds: u64) -> String {
    let (days, rest) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let mut text = String::new();
    if days > 0 {
        // Writing to a string can't fail.
        let _ = write!(text, "{days} days ");
    }
    let _ = write!(text, "{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_five_characters() {
        for (number, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1K"),
            (402_432, "393K"),
            (41_205_248, "39.3M"),
            (10_239, "10.0K"),
            (4_431_872, "4.23M"),
            (1_048_575, "1024K"),
            (80 << 20, "80M"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!((bytes(0).as_str(), bytes(1536).as_str()), ("0B", "1.50K"));
        assert_eq!((ratio(764, false).as_str(), ratio(100, true).as_str()), ("7.64x", "1.00"));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(minute(1_795_292_558, &UTC), "Sat Nov 21 20:22 2026");
        assert_eq!(second(0, &UTC), "Thu Jan  1  0:00:00 1970");
        assert_eq!(date(951_782_400, &UTC), "Tue Feb 29 00:00:00 2000");
        assert_eq!(stamp(1_795_292_239, &UTC), "2026-11-21.20:17:19");
        assert_eq!(
            stamp(0, &jiff::tz::TimeZone::fixed(jiff::tz::offset(-1))),
            "1969-12-31.23:00:00"
        );
        let _ = date(u64::MAX, &UTC);
        assert_eq!((span(2).as_str(), span(90_061).as_str()), ("00:00:02", "1 days 01:01:01"));
    }
}
