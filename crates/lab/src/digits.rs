//! Numbers with as many digits as a reader can use.

/// A number with as many digits as matter: three, or all before the point.
pub fn figures(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        s if !s.is_finite() || s == 0.0 || s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        s if s >= 0.0995 => 3,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    // Thousands stand apart, as people read them: 24 455.
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |parts| parts);
    let digits = whole.trim_start_matches('-');
    if digits.len() < 5 {
        return text;
    }
    let mut grouped = String::from(if whole.starts_with('-') { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_show_three_digits_and_no_more_than_matter() {
        for (value, text) in [
            (0.0, "0"),
            (1.9, "1.90"),
            (12.34, "12.3"),
            (412.3, "412"),
            (4123.0, "4123"),
            (24_455.0, "24\u{202f}455"),
            (-24_455.0, "-24\u{202f}455"),
            (0.25, "0.250"),
        ] {
            assert_eq!(figures(value), text);
        }
    }
}
