//! `dd`'s operands: `if=… of=… bs=… count=…`.
//!
//! Those that measure something are understood, with GNU's numbers (`1M` is 1024², `1MB` is 1000²,
//! `2x512` a product). The others convert text, pad, or copy parts; they are refused by name.

use std::path::PathBuf;
use stdx::ByteCount;

/// The largest block, in bytes: it is held in memory.
pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// `dd`'s block size where nobody says one.
const BLOCK_DEFAULT: ByteCount = ByteCount(512);

/// What a copy is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operands {
    /// `if=`
    pub input: Input,
    /// `of=`
    pub output: Output,
    /// `bs=`
    pub block: ByteCount,
    /// `count=`: blocks; `None`: to the end of the input.
    pub count: Option<u64>,
    /// `skip=`: blocks of the input to leave out.
    pub skip: u64,
    /// `seek=`: blocks of the output to leave out.
    pub seek: u64,
    /// `conv=`
    pub conversions: Conversions,
    /// `iflag=direct`
    pub direct_in: bool,
    /// `oflag=direct`
    pub direct_out: bool,
    /// `oflag=dsync`
    pub dsync_out: bool,
}

/// Where bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// `/dev/zero`, or none.
    Zeros,
    /// `/dev/urandom`
    Random,
    /// A file.
    File(PathBuf),
}

/// Where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// `/dev/null`, or none.
    Null,
    /// A file.
    File(PathBuf),
}

/// `conv=`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversions {
    /// Don't cut the output.
    pub notrunc: bool,
    /// Don't create it.
    pub nocreat: bool,
    /// Create it, or fail.
    pub excl: bool,
    /// Sync data and what is known of the file at the end.
    pub fsync: bool,
    /// Sync data at the end.
    pub fdatasync: bool,
}

/// What is wrong with operands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperandError {
    /// No `name=value`.
    #[error("'{0}' is no operand; dd's have the form bs=1M")]
    NoOperand(String),
    /// Unknown.
    #[error(
        "dd's operand '{0}' is not supported; there are if, of, bs, count, skip, seek, conv, iflag, \
         oflag and status"
    )]
    Unknown(String),
    /// Given twice.
    #[error("the operand '{0}' stands there twice")]
    Twice(String),
    /// A word that is not understood.
    #[error("{operand}= takes {words}, not '{found}'")]
    Word {
        /// Which.
        operand: &'static str,
        /// What stands there.
        found: String,
        /// What may.
        words: &'static str,
    },
    /// No number.
    #[error("'{found}' is no number of dd's (such as 512, 4k, 1M, 1MB or 2x512)")]
    Number {
        /// What stands there.
        found: String,
    },
    /// Too small or too large.
    #[error("bs={0} is not between 1 B and 1 GiB")]
    Block(String),
    /// It would never end.
    #[error("zeros and random bytes have no end; say count=")]
    Endless,
    /// Contradiction.
    #[error("conv=excl and conv=nocreat contradict each other; leave one out")]
    Contradiction,
}

/// Reads operands.
///
/// # Errors
/// [`OperandError`]
pub fn parse<'a>(operands: impl IntoIterator<Item = &'a str>) -> Result<Operands, OperandError> {
    let mut read = Operands {
        input: Input::Zeros,
        output: Output::Null,
        block: BLOCK_DEFAULT,
        count: None,
        skip: 0,
        seek: 0,
        conversions: Conversions::default(),
        direct_in: false,
        direct_out: false,
        dsync_out: false,
    };
    let mut seen: Vec<String> = Vec::new();
    for operand in operands {
        let (name, value) =
            operand.split_once('=').ok_or_else(|| OperandError::NoOperand(operand.to_owned()))?;
        if seen.iter().any(|seen| seen == name) {
            return Err(OperandError::Twice(name.to_owned()));
        }
        seen.push(name.to_owned());
        match name {
            "if" => {
                read.input = match value {
                    "/dev/zero" => Input::Zeros,
                    "/dev/urandom" | "/dev/random" => Input::Random,
                    path => Input::File(path.into()),
                }
            }
            "of" => {
                read.output = match value {
                    "/dev/null" => Output::Null,
                    path => Output::File(path.into()),
                }
            }
            "bs" => read.block = block(value)?,
            "count" => read.count = Some(number(value)?),
            "skip" | "iseek" => read.skip = number(value)?,
            "seek" | "oseek" => read.seek = number(value)?,
            "conv" => conversions(value, &mut read.conversions)?,
            "iflag" => {
                flags(value, "iflag", "direct", &mut [("direct", &mut read.direct_in)])?;
            }
            "oflag" => {
                let mut words = [("direct", &mut read.direct_out), ("dsync", &mut read.dsync_out)];
                flags(value, "oflag", "direct, dsync", &mut words)?;
            }
            // What is printed does not depend on it; progress is not.
            "status" => {
                let words = "none, noxfer, progress";
                if !["none", "noxfer", "progress"].contains(&value) {
                    let found = value.to_owned();
                    return Err(OperandError::Word { operand: "status", found, words });
                }
            }
            name => return Err(OperandError::Unknown(name.to_owned())),
        }
    }
    if read.count.is_none() && !matches!(read.input, Input::File(_)) {
        return Err(OperandError::Endless);
    }
    if read.conversions.excl && read.conversions.nocreat {
        return Err(OperandError::Contradiction);
    }
    Ok(read)
}

/// A block size.
///
/// # Errors
/// [`OperandError`]
pub fn block(text: &str) -> Result<ByteCount, OperandError> {
    match number(text)? {
        bytes @ 1..=BLOCK_BYTES_MAX => Ok(ByteCount(bytes)),
        _ => Err(OperandError::Block(text.to_owned())),
    }
}

/// A number of `dd`'s.
fn number(text: &str) -> Result<u64, OperandError> {
    let wrong = || OperandError::Number { found: text.to_owned() };
    let mut product: u64 = 1;
    for factor in text.split('x') {
        let end = factor.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(factor.len());
        let (digits, unit) = factor.split_at(end);
        let value: u64 = digits.parse().map_err(|_| wrong())?;
        let unit = unit_of(unit).ok_or_else(wrong)?;
        product = value
            .checked_mul(unit)
            .and_then(|value| product.checked_mul(value))
            .ok_or_else(wrong)?;
    }
    Ok(product)
}

fn unit_of(unit: &str) -> Option<u64> {
    match unit {
        "" | "c" => return Some(1),
        "w" => return Some(2),
        "b" => return Some(512),
        _ => {}
    }
    let prefix = unit.chars().next()?;
    let base: u64 = match unit.get(prefix.len_utf8()..)? {
        "" | "iB" => 1024,
        "B" => 1000,
        _ => return None,
    };
    let power = match prefix {
        'k' | 'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        'P' => 5,
        _ => return None,
    };
    Some(base.pow(power))
}

fn conversions(value: &str, conversions: &mut Conversions) -> Result<(), OperandError> {
    let mut words = [
        ("notrunc", &mut conversions.notrunc),
        ("nocreat", &mut conversions.nocreat),
        ("excl", &mut conversions.excl),
        ("fsync", &mut conversions.fsync),
        ("fdatasync", &mut conversions.fdatasync),
    ];
    flags(value, "conv", "notrunc, nocreat, excl, fsync, fdatasync", &mut words)
}

/// Raises the flags that `value` lists.
fn flags(
    value: &str,
    operand: &'static str,
    words: &'static str,
    flags: &mut [(&str, &mut bool)],
) -> Result<(), OperandError> {
    for word in value.split(',') {
        match flags.iter_mut().find(|(name, _)| *name == word) {
            Some((_, flag)) => **flag = true,
            None => {
                let found = word.to_owned();
                return Err(OperandError::Word { operand, found, words });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What could break: a size that is taken for another than GNU's dd takes it for.

    use super::*;

    #[test]
    fn numbers_are_gnus() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4kB", 4000),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("1MB", 1_000_000),
            ("2b", 1024),
            ("3w", 6),
            ("2x512x4", 4096),
            ("1G", 1 << 30),
        ] {
            assert_eq!(block(text), Ok(ByteCount(bytes)), "{text}");
        }
        for text in ["", "k", "-1", "1Q", "1kb", "4x", "1 M", "99999999999999999999"] {
            assert!(block(text).is_err(), "{text}");
        }
        assert_eq!(block("0"), Err(OperandError::Block("0".to_owned())));
        assert_eq!(block("2G"), Err(OperandError::Block("2G".to_owned())));
    }

    #[test]
    fn operands_are_read() {
        let text = "if=/dev/zero of=a/b bs=1M count=100 conv=fsync,notrunc oflag=direct seek=2 \
                    status=progress";
        let read = parse(text.split(' ')).expect("they are right");
        assert_eq!(read.input, Input::Zeros);
        assert_eq!(read.output, Output::File("a/b".into()));
        assert_eq!((read.block, read.count, read.seek), (ByteCount::mib(1), Some(100), 2));
        assert!(read.conversions.fsync && read.conversions.notrunc && read.direct_out);
        let read = parse(["if=x"]).expect("they are right");
        assert_eq!((read.block, read.output), (ByteCount(512), Output::Null));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, expected) in [
            ("bs", "'bs' is no operand; dd's have the form bs=1M"),
            (
                "cbs=2",
                "dd's operand 'cbs' is not supported; there are if, of, bs, count, skip, seek, conv, iflag, oflag and status",
            ),
            ("conv=swab", "conv= takes notrunc, nocreat, excl, fsync, fdatasync, not 'swab'"),
            ("oflag=sync", "oflag= takes direct, dsync, not 'sync'"),
            ("count=a", "'a' is no number of dd's (such as 512, 4k, 1M, 1MB or 2x512)"),
            ("of=x", "zeros and random bytes have no end; say count="),
            ("bs=1 bs=2", "the operand 'bs' stands there twice"),
        ] {
            assert_eq!(parse(text.split(' ')).expect_err(text).to_string(), expected);
        }
    }
}
