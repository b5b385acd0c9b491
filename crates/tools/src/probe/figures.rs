//! Numbers as `dd` prints them.
//!
//! GNU `dd` shortens sizes and rates: three digits at the most and a prefix, one decimal below 10,
//! rounded to nearest. Seconds have six significant digits (`%g` of C).

/// Prefixes of powers of 1000, from the second on; the first differs between decimal and binary.
const PREFIXES: [&str; 7] = ["", "M", "G", "T", "P", "E", "Z"];

/// `105 MB`, `2.5 GB`, `512 B`: powers of 1000.
pub(super) fn decimal(value: f64) -> String {
    shortened(value, 1000.0, "k", "")
}

/// `100 MiB`, `1.0 GiB`: powers of 1024.
pub(super) fn binary(value: f64) -> String {
    shortened(value, 1024.0, "K", "i")
}

fn shortened(value: f64, base: f64, kilo: &str, infix: &str) -> String {
    let (mut scaled, mut power) = (value, 0);
    while scaled >= base && power < PREFIXES.len() {
        scaled /= base;
        power += 1;
    }
    // 999.6 k is 1.0 M: rounding may reach the next prefix.
    if power > 0
        && (scaled * 10.0).round() >= 100.0
        && scaled.round() >= base
        && power < PREFIXES.len()
    {
        scaled /= base;
        power += 1;
    }
    if power == 0 {
        return format!("{} B", scaled.round());
    }
    let prefix = if power == 1 { kilo } else { PREFIXES[power - 1] };
    match (scaled * 10.0).round() < 100.0 {
        true => format!("{scaled:.1} {prefix}{infix}B"),
        false => format!("{} {prefix}{infix}B", scaled.round()),
    }
}

/// Seconds with six significant digits, without zeros at the end.
pub(super) fn seconds(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // As C decides: by the exponent after rounding to six digits.
    let exponential = format!("{value:.5e}");
    let (digits, exponent) = exponential.split_once('e').unwrap_or((&exponential, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| -> String {
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        }
    };
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.abs());
    }
    let decimals = usize::try_from(5 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    //! What could break: a line that scripts which read `dd`'s output no longer understand. The
    //! expected texts are those of GNU dd 9.1.

    use super::*;

    #[test]
    fn sizes_and_rates_are_shortened_as_dd_does() {
        for (value, si, iec) in [
            (0.0, "0 B", "0 B"),
            (512.0, "512 B", "512 B"),
            (1000.0, "1.0 kB", "1000 B"),
            (1024.0, "1.0 kB", "1.0 KiB"),
            (9949.0, "9.9 kB", "9.7 KiB"),
            (9990.0, "10 kB", "9.8 KiB"),
            (104_857_600.0, "105 MB", "100 MiB"),
            (999_600.0, "1.0 MB", "976 KiB"),
            (1_073_741_824.0, "1.1 GB", "1.0 GiB"),
            (2_512_345_678.0, "2.5 GB", "2.3 GiB"),
        ] {
            assert_eq!(decimal(value), si);
            assert_eq!(binary(value), iec);
        }
    }

    #[test]
    fn seconds_have_six_digits() {
        for (value, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (0.042_627_3, "0.0426273"),
            (12.345_678_9, "12.3457"),
            (0.5, "0.5"),
            (0.000_051_2, "5.12e-05"),
            (123_456.7, "123457"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_999_999_9, "0.001"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }
}
