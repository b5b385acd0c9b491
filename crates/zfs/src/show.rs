//! Numbers and times as ZFS's commands write them.
//!
//! Sizes take at most five characters: `1.21M`, `39.3M`, `720K`; whole multiples of their unit no point: `80M`. Times
//! are in UTC unless an offset is given, since what a time zone says is the world's matter ([`Clock`]).
//!
//! Source: OpenZFS, `zutil_nicenum.c`.

use std::fmt::Write;

/// Units by powers of 1024. What follows a plain number of bytes is `B`.
const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
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

/// A ratio in hundredths: `1.00x`, or `1.00` where it is to be read by a program.
pub fn ratio(hundredths: u64, literal: bool) -> String {
    let unit = if literal { "" } else { "x" };
    format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
}

/// A share in percent.
pub fn percent(number: u64, literal: bool) -> String {
    if literal { number.to_string() } else { format!("{number}%") }
}

/// What the clock on the wall says at a moment: the offset from UTC in seconds.
pub type Clock<'a> = &'a dyn Fn(u64) -> i64;

/// UTC.
pub fn utc(_: u64) -> i64 {
    0
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY_SECONDS: i64 = 86_400;

/// A date and a time of day.
struct Civil {
    weekday: &'static str,
    year: i64,
    /// From 0.
    month: usize,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

fn civil(unix_s: u64, clock: Clock<'_>) -> Civil {
    let local = i64::try_from(unix_s).unwrap_or(i64::MAX / 2).saturating_add(clock(unix_s));
    let (days, within) = (local.div_euclid(DAY_SECONDS), local.rem_euclid(DAY_SECONDS) as u32);
    // Days since the first of March of year 0, in eras of 400 years.
    let shifted = days.saturating_add(719_468);
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096).div_euclid(365);
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * from_march + 2) / 5 + 1) as u32;
    let month = ((from_march + 2) % 12) as usize;
    let year = year_of_era + era * 400 + i64::from(from_march >= 10);
    let weekday = DAYS[days.rem_euclid(7) as usize];
    let (hour, minute, second) = (within / 3600, within / 60 % 60, within % 60);
    Civil { weekday, year, month, day, hour, minute, second }
}

/// `Sat Nov 21 20:22 2026`.
pub fn minute(unix_s: u64, clock: Clock<'_>) -> String {
    let t = civil(unix_s, clock);
    let month = MONTHS[t.month];
    format!("{} {month} {:>2} {:>2}:{:02} {}", t.weekday, t.day, t.hour, t.minute, t.year)
}

/// `Sat Nov 21  8:22:05 2026`: the hour padded with a space.
pub fn second(unix_s: u64, clock: Clock<'_>) -> String {
    let t = civil(unix_s, clock);
    let (month, of_day) =
        (MONTHS[t.month], format!("{:>2}:{:02}:{:02}", t.hour, t.minute, t.second));
    format!("{} {month} {:>2} {of_day} {}", t.weekday, t.day, t.year)
}

/// `Sat Nov 21 08:22:05 2026`: the hour padded with a zero.
pub fn date(unix_s: u64, clock: Clock<'_>) -> String {
    let t = civil(unix_s, clock);
    let (month, of_day) =
        (MONTHS[t.month], format!("{:02}:{:02}:{:02}", t.hour, t.minute, t.second));
    format!("{} {month} {:>2} {of_day} {}", t.weekday, t.day, t.year)
}

/// `2026-11-21.20:22:05`, as the history has it.
pub fn stamp(unix_s: u64, clock: Clock<'_>) -> String {
    let t = civil(unix_s, clock);
    let day = format!("{}-{:02}-{:02}", t.year, t.month + 1, t.day);
    format!("{day}.{:02}:{:02}:{:02}", t.hour, t.minute, t.second)
}

/// A span: `00:00:02`, `3 days 04:05:06`.
pub fn span(seconds: u64) -> String {
    let (days, rest) = (seconds / DAY_SECONDS as u64, seconds % DAY_SECONDS as u64);
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
        assert_eq!(minute(1_795_292_558, &utc), "Sat Nov 21 20:22 2026");
        assert_eq!(second(0, &utc), "Thu Jan  1  0:00:00 1970");
        assert_eq!(date(951_782_400, &utc), "Tue Feb 29 00:00:00 2000");
        assert_eq!(stamp(1_795_292_239, &utc), "2026-11-21.20:17:19");
        assert_eq!(stamp(0, &|_| -3600), "1969-12-31.23:00:00");
        let _ = date(u64::MAX, &utc);
        assert_eq!((span(2).as_str(), span(90_061).as_str()), ("00:00:02", "1 days 01:01:01"));
    }
}
