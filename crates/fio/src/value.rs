//! Values as fio reads them: sizes, spans of time, counts, shares, lists, and sums in a value.
//!
//! * A size is a whole number, decimal or `0x…`, with a unit: `k m g t p`, perhaps with `b` or `ib`
//!   after it. With `kb_base=1024` (fio's default) `k` and `kb` are 1024 and `kib` is 1000; with
//!   `kb_base=1000` it is the other way round, as SI has it (fio's HOWTO, "kb_base").
//! * A span of time is a whole number with `d h m s ms us`, or none: the option says its unit then.
//! * Where a number may stand, a sum may: `+ - * / ( )`, with units on each number, and the words
//!   `$pagesize`, `$ncpus` and `$mb_memory`.
//!
//! Pure: what the machine is comes in [`Machine`].

use std::time::Duration;

/// Brackets in one value at the most: recursion on input is bounded.
const BRACKETS_MAX: usize = 16;

/// What `$pagesize` and the others stand for.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Bytes in a page.
    pub page_bytes: u64,
    /// Processors that may be used.
    pub processors: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
}

/// A value was not what the option takes; what it takes is said in words.
pub(super) type Wanted = &'static str;

/// The unit of a bare number that stands for a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
}

const SIZE: Wanted = "a size such as 4k or 1g";
const TIME: Wanted = "a span of time such as 30, 30s, 500ms or 5m";
const NUMBER: Wanted = "a whole number";

#[derive(Clone, Copy, PartialEq)]
enum Units {
    None,
    Sizes { kb_base: u64 },
    Times { bare_ns: i128 },
}

impl Units {
    fn factor(self, unit: &str) -> Option<i128> {
        let unit = unit.to_ascii_lowercase();
        match self {
            Units::None => unit.is_empty().then_some(1),
            Units::Sizes { kb_base } => {
                let bare = unit.trim_end_matches('b');
                let (letter, other) = match bare.strip_suffix('i') {
                    Some(letter) => (letter, true),
                    None => (bare, false),
                };
                let base = if (kb_base == 1024) != other { 1024_i128 } else { 1000 };
                let power = match letter {
                    "" if !other => 0,
                    "k" => 1,
                    "m" => 2,
                    "g" => 3,
                    "t" => 4,
                    "p" => 5,
                    _ => return None,
                };
                Some(base.pow(power))
            }
            Units::Times { bare_ns } => Some(match unit.as_str() {
                "" => bare_ns,
                "us" | "usec" => 1000,
                "ms" | "msec" => 1_000_000,
                "s" | "sec" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                "d" => 86_400_000_000_000,
                _ => return None,
            }),
        }
    }
}

/// A sum: `term (+|-) term …`, `factor (*|/) factor …`, numbers, brackets.
struct Sum<'a> {
    rest: &'a str,
    units: Units,
    machine: &'a Machine,
    brackets: usize,
}

impl<'a> Sum<'a> {
    fn skip(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<i128> {
        let mut value = self.product()?;
        loop {
            if self.skip('+') {
                value = value.checked_add(self.product()?)?;
            } else if self.skip('-') {
                value = value.checked_sub(self.product()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<i128> {
        let mut value = self.number()?;
        loop {
            if self.skip('*') {
                value = value.checked_mul(self.number()?)?;
            } else if self.skip('/') {
                value = value.checked_div(self.number()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn number(&mut self) -> Option<i128> {
        if self.skip('-') {
            return self.number_unsigned()?.checked_neg();
        }
        self.number_unsigned()
    }

    fn number_unsigned(&mut self) -> Option<i128> {
        if self.skip('(') {
            self.brackets += 1;
            if self.brackets > BRACKETS_MAX {
                return None;
            }
            let value = self.sum()?;
            return self.skip(')').then_some(value);
        }
        if let Some(rest) = self.rest.strip_prefix('$') {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
            self.rest = rest;
            return Some(i128::from(match word {
                "pagesize" => self.machine.page_bytes,
                "ncpus" => self.machine.processors,
                "mb_memory" => self.machine.memory_mib,
                _ => return None,
            }));
        }
        let (digits, radix) = match self.rest.strip_prefix("0x") {
            Some(rest) => (rest, 16),
            None => (self.rest, 10),
        };
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let (digits, rest) = digits.split_at(end);
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        self.rest = rest;
        let number = i128::from_str_radix(digits, radix).ok()?;
        number.checked_mul(self.units.factor(unit)?)
    }
}

fn evaluate(text: &str, units: Units, machine: &Machine) -> Option<i128> {
    let mut sum = Sum { rest: text.trim(), units, machine, brackets: 0 };
    let value = sum.sum()?;
    sum.rest.trim().is_empty().then_some(value)
}

/// How values are read in one section: the base of sizes, and the machine.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) kb_base: u64,
    pub(super) machine: &'a Machine,
}

impl Reading<'_> {
    /// A size in bytes.
    pub(super) fn size(&self, text: &str) -> Result<u64, Wanted> {
        let units = Units::Sizes { kb_base: self.kb_base };
        let value = evaluate(text, units, self.machine).ok_or(SIZE)?;
        // fio's limit is that of its 64-bit sizes; ours leaves room for sums of two.
        u64::try_from(value).ok().filter(|size| *size <= u64::MAX / 4).ok_or(SIZE)
    }

    /// A size that may be negative.
    pub(super) fn signed_size(&self, text: &str) -> Result<i64, Wanted> {
        match text.trim().strip_prefix('-') {
            Some(text) => self.size(text).map(|size| -size.cast_signed()),
            None => self.size(text).map(u64::cast_signed),
        }
    }

    /// A span of time.
    pub(super) fn time(&self, text: &str, bare: TimeUnit) -> Result<Duration, Wanted> {
        let bare_ns = match bare {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
        };
        let value = evaluate(text, Units::Times { bare_ns }, self.machine).ok_or(TIME)?;
        u64::try_from(value).map(Duration::from_nanos).map_err(|_| TIME)
    }

    /// A whole number.
    pub(super) fn number(&self, text: &str) -> Result<u64, Wanted> {
        let value = evaluate(text, Units::None, self.machine)
            .or_else(|| evaluate(text, Units::Sizes { kb_base: self.kb_base }, self.machine));
        value.and_then(|value| u64::try_from(value).ok()).ok_or(NUMBER)
    }

    /// A range of sizes, `4k-64k` or `4k:64k`, or one size.
    pub(super) fn size_range(&self, text: &str) -> Result<(u64, u64), Wanted> {
        const RANGE: Wanted = "a size such as 4k, or a range such as 4k-64k";
        let (low, high) = text.split_once(['-', ':']).unwrap_or((text, text));
        let (low, high) = (self.size(low).map_err(|_| RANGE)?, self.size(high).map_err(|_| RANGE)?);
        Ok((low.min(high), low.max(high)))
    }
}

/// A number with a fraction, finite and not negative.
pub(super) fn fraction(text: &str) -> Result<f64, Wanted> {
    let value: f64 = text.trim().parse().map_err(|_| "a number such as 1.2")?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("a number such as 1.2") }
}

/// A share in per cent, 0 to 100.
pub(super) fn percent(text: &str) -> Result<u32, Wanted> {
    let number = text.trim().trim_end_matches('%');
    let value: u32 = number.parse().map_err(|_| "a share in per cent, 0 to 100")?;
    if value <= 100 { Ok(value) } else { Err("a share in per cent, 0 to 100") }
}

/// Yes or no. An option without a value is a yes.
pub(super) fn flag(text: Option<&str>) -> Result<bool, Wanted> {
    match text.map(str::trim) {
        None | Some("1" | "true" | "yes" | "") => Ok(true),
        Some("0" | "false" | "no") => Ok(false),
        Some(_) => Err("0 or 1"),
    }
}

/// A list whose parts are parted by `:`, with `\:` for a colon.
pub(super) fn colon_list(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = text.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&':') => {
                letters.next();
                if let Some(last) = parts.last_mut() {
                    last.push(':');
                }
            }
            ':' => parts.push(String::new()),
            _ => {
                if let Some(last) = parts.last_mut() {
                    last.push(letter);
                }
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The bytes of a pattern: parts of `"text"`, `0x…` (most significant byte first) and decimal numbers
/// (least significant byte first, as fio has it).
pub(super) fn pattern(text: &str) -> Result<Vec<u8>, Wanted> {
    const PATTERN: Wanted = "a pattern such as 0xdeadbeef, \"abcd\" or 1234";
    /// fio keeps as much.
    const PATTERN_BYTES_MAX: usize = 512;
    let (mut bytes, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('"') {
            let (quoted, after) = after.split_once('"').ok_or(PATTERN)?;
            bytes.extend_from_slice(quoted.as_bytes());
            rest = after;
        } else if let Some(after) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let end = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
            let (digits, after) = after.split_at(end);
            if digits.is_empty() {
                return Err(PATTERN);
            }
            let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.into() };
            for at in (0..padded.len()).step_by(2) {
                let pair = padded.get(at..at + 2).ok_or(PATTERN)?;
                bytes.push(u8::from_str_radix(pair, 16).map_err(|_| PATTERN)?);
            }
            rest = after;
        } else {
            let digits_from = usize::from(rest.starts_with('-'));
            let end = rest[digits_from..].find(|c: char| !c.is_ascii_digit());
            let (digits, after) = rest.split_at(end.map_or(rest.len(), |end| end + digits_from));
            let number: i64 = digits.parse().map_err(|_| PATTERN)?;
            let all = number.to_le_bytes();
            let used = all.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
            bytes.extend_from_slice(&all[..used]);
            rest = after;
        }
        if bytes.len() > PATTERN_BYTES_MAX {
            return Err("a pattern of at most 512 bytes");
        }
    }
    if bytes.is_empty() { Err(PATTERN) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    //! What could break: a size read in another unit than fio reads it, so that a job does another amount.

    use super::*;

    const MACHINE: Machine = Machine { page_bytes: 4096, processors: 3, memory_mib: 1000 };

    fn reading(kb_base: u64) -> Reading<'static> {
        Reading { kb_base, machine: &MACHINE }
    }

    #[test]
    fn sizes_have_fios_units_in_both_bases() {
        for (text, binary, decimal) in [
            ("4k", 4096, 4000),
            ("4kb", 4096, 4000),
            ("4KiB", 4000, 4096),
            ("1g", 1 << 30, 1_000_000_000),
            ("0x10", 16, 16),
            ("5*1024*1024*$mb_memory/8", 655_360_000, 655_360_000),
            ("(1k + 2) * $ncpus", 3078, 3006),
        ] {
            assert_eq!(reading(1024).size(text), Ok(binary), "{text}");
            assert_eq!(reading(1000).size(text), Ok(decimal), "{text}");
        }
        for bad in ["", "k", "1.5g", "-4k", "4x", "1/0", "((((((((((((((((((1", "9999999p", "$x"] {
            assert!(reading(1024).size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bare_span_has_the_options_unit() {
        let time = |text| reading(1024).time(text, TimeUnit::Microseconds);
        assert_eq!(time("500"), Ok(Duration::from_micros(500)));
        assert_eq!(time("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(time("2ms"), Ok(Duration::from_millis(2)));
        assert!(time("5x").is_err());
    }

    #[test]
    fn patterns_are_text_and_numbers_in_fios_byte_order() {
        assert_eq!(pattern("0xaa555aa5"), Ok(vec![0xaa, 0x55, 0x5a, 0xa5]));
        assert_eq!(pattern("\"ab\"0xf\"c\""), Ok(vec![b'a', b'b', 0x0f, b'c']));
        assert_eq!(pattern("258"), Ok(vec![2, 1]));
        for bad in ["", "\"ab", "0x", "abc"] {
            assert!(pattern(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_colon_may_be_escaped_in_a_list() {
        assert_eq!(colon_list(r"a\:b:c"), ["a:b", "c"]);
        // As fio: no other letter is escaped, and the ends are trimmed.
        assert_eq!(colon_list(r" a\\b::c : d "), [r"a\\b", "c ", " d"]);
    }
}
