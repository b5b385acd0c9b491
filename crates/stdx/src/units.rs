//! Lengths and places in bytes, and how people write them.
//!
//! A [`ByteCount`] is how much, an [`Offset`] is where. Place plus length is a place; place minus
//! place is a length; two places can't be added. Overflow is our bug, so it panics, in release too:
//! whatever came from a disk or a user is checked before it becomes one of these.
//!
//! Text: a number, then nothing or `B`, or `k m g t p` (case does not matter), which mean powers of
//! 1024, with or without `iB`/`B` after them (`64k`, `64K`, `64KiB`, `64kb`): so fio, mdadm, ZFS and
//! filebench read them too. Data-sheet units (powers of 1000) stand in profiles as plain numbers.

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};
use std::str::FromStr;

/// 1024 bytes.
pub const KIB: u64 = 1 << 10;
/// 1024² bytes.
pub const MIB: u64 = 1 << 20;
/// 1024³ bytes.
pub const GIB: u64 = 1 << 30;
/// 1024⁴ bytes.
pub const TIB: u64 = 1 << 40;

/// How much: a length in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

/// Where: a distance in bytes from the start of a device or file.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no size: write a number and k, m, g, t or p (powers of 1024), as in 64k")]
pub struct SizeError {
    /// What was given.
    pub text: String,
}

impl ByteCount {
    /// Nothing.
    pub const ZERO: ByteCount = ByteCount(0);

    /// `n` KiB.
    pub const fn kib(n: u64) -> ByteCount {
        ByteCount(n * KIB)
    }
    /// `n` MiB.
    pub const fn mib(n: u64) -> ByteCount {
        ByteCount(n * MIB)
    }
    /// `n` GiB.
    pub const fn gib(n: u64) -> ByteCount {
        ByteCount(n * GIB)
    }
    /// The bare number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
    /// The number of bytes as an index into memory.
    ///
    /// # Panics
    /// Where `usize` is too small for it.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).expect("a length in memory fits usize")
    }
    /// Whether it is nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Whether it is a whole number of `unit`s.
    pub const fn is_multiple_of(self, unit: ByteCount) -> bool {
        self.0.is_multiple_of(unit.0)
    }
    /// The largest multiple of `unit` that is not larger.
    pub const fn round_down(self, unit: ByteCount) -> ByteCount {
        ByteCount(self.0 - self.0 % unit.0)
    }
    /// The smallest multiple of `unit` that is not smaller.
    pub const fn round_up(self, unit: ByteCount) -> ByteCount {
        ByteCount(self.0.next_multiple_of(unit.0))
    }
    /// The sum, or `None` where it overflows: for what came from a disk or a user.
    pub const fn checked_add(self, other: ByteCount) -> Option<ByteCount> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(ByteCount(sum)),
            None => None,
        }
    }
}

impl Offset {
    /// The start.
    pub const ZERO: Offset = Offset(0);

    /// The bare number of bytes from the start.
    pub const fn bytes(self) -> u64 {
        self.0
    }
    /// The distance from the start.
    pub const fn from_start(self) -> ByteCount {
        ByteCount(self.0)
    }
    /// Whether it is a whole number of `unit`s from the start.
    pub const fn is_multiple_of(self, unit: ByteCount) -> bool {
        self.0.is_multiple_of(unit.0)
    }
    /// The largest multiple of `unit` that is not larger.
    pub const fn round_down(self, unit: ByteCount) -> Offset {
        Offset(self.0 - self.0 % unit.0)
    }
    /// The smallest multiple of `unit` that is not smaller.
    pub const fn round_up(self, unit: ByteCount) -> Offset {
        Offset(self.0.next_multiple_of(unit.0))
    }
    /// The end of `len` bytes from here, or `None` where it overflows: for what came from outside.
    pub const fn checked_add(self, len: ByteCount) -> Option<Offset> {
        match self.0.checked_add(len.0) {
            Some(end) => Some(Offset(end)),
            None => None,
        }
    }
}

const OVERFLOW: &str = "a sum of bytes overflowed";
const UNDERFLOW: &str = "a difference of bytes fell below 0";

impl Add for ByteCount {
    type Output = ByteCount;
    fn add(self, other: ByteCount) -> ByteCount {
        ByteCount(self.0.checked_add(other.0).expect(OVERFLOW))
    }
}
impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: ByteCount) {
        *self = *self + other;
    }
}
impl Sub for ByteCount {
    type Output = ByteCount;
    fn sub(self, other: ByteCount) -> ByteCount {
        ByteCount(self.0.checked_sub(other.0).expect(UNDERFLOW))
    }
}
impl SubAssign for ByteCount {
    fn sub_assign(&mut self, other: ByteCount) {
        *self = *self - other;
    }
}
impl Mul<u64> for ByteCount {
    type Output = ByteCount;
    fn mul(self, times: u64) -> ByteCount {
        ByteCount(self.0.checked_mul(times).expect(OVERFLOW))
    }
}
impl Div<u64> for ByteCount {
    type Output = ByteCount;
    fn div(self, parts: u64) -> ByteCount {
        ByteCount(self.0 / parts)
    }
}
impl Div for ByteCount {
    type Output = u64;
    /// How many whole times `unit` goes in.
    fn div(self, unit: ByteCount) -> u64 {
        self.0 / unit.0
    }
}
impl Rem for ByteCount {
    type Output = ByteCount;
    fn rem(self, unit: ByteCount) -> ByteCount {
        ByteCount(self.0 % unit.0)
    }
}
impl Sum for ByteCount {
    fn sum<I: Iterator<Item = ByteCount>>(counts: I) -> ByteCount {
        counts.fold(ByteCount::ZERO, Add::add)
    }
}
impl Add<ByteCount> for Offset {
    type Output = Offset;
    fn add(self, len: ByteCount) -> Offset {
        Offset(self.0.checked_add(len.0).expect(OVERFLOW))
    }
}
impl AddAssign<ByteCount> for Offset {
    fn add_assign(&mut self, len: ByteCount) {
        *self = *self + len;
    }
}
impl Sub<ByteCount> for Offset {
    type Output = Offset;
    fn sub(self, len: ByteCount) -> Offset {
        Offset(self.0.checked_sub(len.0).expect(UNDERFLOW))
    }
}
impl Sub for Offset {
    type Output = ByteCount;
    fn sub(self, earlier: Offset) -> ByteCount {
        ByteCount(self.0.checked_sub(earlier.0).expect(UNDERFLOW))
    }
}
impl Div<ByteCount> for Offset {
    type Output = u64;
    /// Which unit it lies in, counted from 0.
    fn div(self, unit: ByteCount) -> u64 {
        self.0 / unit.0
    }
}
impl Rem<ByteCount> for Offset {
    type Output = ByteCount;
    /// The distance from the start of the unit that it lies in.
    fn rem(self, unit: ByteCount) -> ByteCount {
        ByteCount(self.0 % unit.0)
    }
}

/// Writes `bytes` in the largest binary unit that divides it, or with two decimals.
fn write_bytes(bytes: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const UNITS: [(u64, &str); 4] = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            return if bytes.is_multiple_of(unit) {
                write!(f, "{} {name}", bytes / unit)
            } else if bytes.is_multiple_of(unit / KIB) && bytes < 10 * unit && unit > KIB {
                write!(f, "{} {}", bytes / (unit / KIB), below(unit))
            } else {
                write!(f, "{:.2} {name}", bytes as f64 / unit as f64)
            };
        }
    }
    write!(f, "{bytes} B")
}

fn below(unit: u64) -> &'static str {
    match unit {
        TIB => "GiB",
        GIB => "MiB",
        _ => "KiB",
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(self.0, f)
    }
}
impl fmt::Debug for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}
impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.0)
    }
}
impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl FromStr for ByteCount {
    type Err = SizeError;
    fn from_str(text: &str) -> Result<ByteCount, SizeError> {
        let error = || SizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let digits =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let factor = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => KIB,
            "m" | "mb" | "mib" => MIB,
            "g" | "gb" | "gib" => GIB,
            "t" | "tb" | "tib" => TIB,
            "p" | "pb" | "pib" => TIB * KIB,
            _ => return Err(error()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(ByteCount).ok_or_else(error);
        }
        let fraction: f64 = number.parse().map_err(|_| error())?;
        let bytes = fraction * factor as f64;
        // 2^53: up to there every whole number has an exact double.
        if !bytes.is_finite() || bytes < 0.0 || bytes.fract() != 0.0 || bytes > 9.007e15 {
            return Err(error());
        }
        Ok(ByteCount(bytes as u64))
    }
}

impl Serialize for ByteCount {
    /// As the bare number of bytes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    /// From a number of bytes or a text such as `"64k"`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteCount, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = ByteCount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"64k\", or a number of bytes")
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteCount, E> {
                Ok(ByteCount(bytes))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteCount, E> {
                u64::try_from(bytes)
                    .map(ByteCount)
                    .map_err(|_| E::custom("a size can't be negative"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteCount, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_read_as_fio_mdadm_and_zfs_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("64KiB", 65536),
            ("1M", MIB),
            ("1.5g", GIB + GIB / 2),
            ("2 TB", 2 * TIB),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_and_named() {
        for text in ["", "k", "4x", "-1", "1.5", "99999999999t", "1e3", "4kk", "nan"] {
            let error = text.parse::<ByteCount>().expect_err(text);
            assert!(error.to_string().contains(text));
        }
    }

    #[test]
    fn sizes_print_in_the_unit_that_a_person_would_choose() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (4096, "4 KiB"),
            (GIB + GIB / 2, "1536 MiB"),
            (750_156_374_016, "698.64 GiB"),
        ] {
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
    }

    proptest! {
        /// A size that is written as bytes and read again is the same size.
        #[test]
        fn json_round_trips(bytes: u64) {
            let text = serde_json::to_string(&ByteCount(bytes)).expect("a number can be written");
            prop_assert_eq!(serde_json::from_str::<ByteCount>(&text).expect("and read"), ByteCount(bytes));
        }

        /// Rounding never moves by a whole unit and ends on a multiple.
        #[test]
        fn rounding_brackets(bytes in 0..u64::MAX / 2, unit in 1..1_u64 << 30) {
            let (offset, unit) = (Offset(bytes), ByteCount(unit));
            let (down, up) = (offset.round_down(unit), offset.round_up(unit));
            prop_assert!(down <= offset && offset <= up);
            prop_assert!(down.is_multiple_of(unit) && up.is_multiple_of(unit));
            prop_assert!(up - down <= unit);
        }
    }
}
