//! Spans of time as people write and read them: `500ms`, `2s`, `8h36m`, `8 h 36 min`.
//!
//! A text is one or more numbers, each with its unit: `ns`, `us` (or `µs`), `ms`, `s`, `m` (or
//! `min`), `h`, `d`; blanks don't matter. A bare number has no unit and is refused: whether it was
//! meant as seconds or milliseconds can't be told.

use std::time::Duration;

/// The longest span that a study may name, in seconds: a year, for which nobody waits.
const SPAN_MAX_S: f64 = 366.0 * 86_400.0;

/// Why a text is no span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no span of time: write a number and ms, s, m, h or d, as in 500ms or 8h36m")]
pub struct DurationError {
    /// What was given.
    pub text: String,
}

/// Reads `500ms`, `2s`, `1.5h`, `8 h 36 min`.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError { text: text.to_owned() };
    let mut rest = text.trim();
    let mut seconds = 0.0;
    if rest.is_empty() {
        return Err(error());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, tail) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| error())?;
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        seconds += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" | "sec" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(error()),
            };
        rest = tail.trim_start();
    }
    if seconds > SPAN_MAX_S {
        return Err(error());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A span in the unit that a person would choose: `8 h 36 min`, `3 min 20 s`, `12.3 s`, `450 ms`.
pub fn text(seconds: f64) -> String {
    if !seconds.is_finite() {
        return format!("{seconds} s");
    }
    if seconds < 0.0 {
        return format!("−{}", text(-seconds));
    }
    // Rounded to the unit that is shown before it is split, or 3599.9 s came out as "59 min 60 s".
    let minutes = (seconds / 60.0).round() as u64;
    let whole = seconds.round() as u64;
    // From two days on nobody counts in hours.
    if minutes >= 48 * 60 {
        let hours = (seconds / 3600.0).round() as u64;
        return match (hours / 24, hours % 24) {
            (days, _) if days >= 100 => format!("{days} days"),
            (days, 0) => format!("{days} days"),
            (days, hours) => format!("{days} days {hours} h"),
        };
    }
    if minutes >= 60 {
        return match (minutes / 60, minutes % 60) {
            (hours, 0) => format!("{hours} h"),
            (hours, minutes) => format!("{hours} h {minutes} min"),
        };
    }
    if whole >= 60 {
        return match (whole / 60, whole % 60) {
            (minutes, 0) => format!("{minutes} min"),
            (minutes, seconds) => format!("{minutes} min {seconds} s"),
        };
    }
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s >= 9.995 => format!("{s:.1} s"),
        s if s >= 0.999_5 => format!("{s:.2} s"),
        s if s >= 0.000_999_5 => format!("{} ms", crate::digits::figures(s * 1e3)),
        s => format!("{} µs", crate::digits::figures(s * 1e6)),
    }
}

/// A span as a study writes it, exactly and without blanks: `500ms`, `2s`, `1m30s`.
pub fn compact(span: Duration) -> String {
    let nanos = span.as_nanos();
    let units = [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s")];
    let small = [(1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let mut rest = nanos;
    let mut text = String::new();
    for (unit, name) in units.into_iter().chain(small) {
        if rest >= unit {
            text += &format!("{}{name}", rest / unit);
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, seconds) in [
            ("500ms", 0.5),
            ("2s", 2.0),
            ("1m", 60.0),
            ("1.5h", 5400.0),
            ("8 h 36 min", 30_960.0),
            ("8h36m", 30_960.0),
            ("20us", 2e-5),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused_and_named() {
        for text in ["", "5", "s", "5 parsecs", "-1s", "1..2s", "400000d", "s5"] {
            assert!(parse(text).expect_err(text).to_string().contains(text), "{text}");
        }
    }

    #[test]
    fn spans_print_in_the_unit_that_a_person_would_choose() {
        for (seconds, expected) in [
            (30_960.0, "8 h 36 min"),
            (19_454_400.0, "225 days"),
            (190_000.0, "2 days 5 h"),
            (172_800.0, "2 days"),
            (172_700.0, "47 h 58 min"),
            (7200.0, "2 h"),
            (3599.9, "1 h"),
            (3570.2, "1 h"),
            (3400.0, "56 min 40 s"),
            (59.99, "1 min"),
            (12.34, "12.3 s"),
            (2.0, "2.00 s"),
            (0.45, "450 ms"),
            (0.000_02, "20.0 µs"),
            (0.0, "0 s"),
        ] {
            assert_eq!(text(seconds), expected, "{seconds}");
        }
    }

    proptest! {
        /// What `compact` writes, `parse` reads as the same span.
        #[test]
        fn compact_round_trips(millis in 0..10_000_000_u64) {
            let span = Duration::from_millis(millis);
            let read = parse(&compact(span)).expect("what we wrote can be read");
            prop_assert!(read.abs_diff(span) < Duration::from_micros(1));
        }
    }
}
