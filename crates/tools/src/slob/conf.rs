//! Reading `slob.conf`.
//!
//! SLOB's configuration is a piece of shell that `runit.sh` takes in: `NAME=value` lines and comments.
//! Only that is read here; whatever a shell would have to compute (`$`, backquotes, commands) is
//! refused.
//!
//! **Three kinds of names.** Those that concern storage apply ([`Conf`]). Those that concern only
//! Oracle (connections, statistics, scripts) are accepted, because every file has them, and listed in
//! [`Conf::ignored`]. All others are refused by name; for those of SLOB 2.0 to 2.2 that later versions
//! renamed, the error names the successor.
//!
//! Names, defaults and limits are those of `runit.sh` and `slob.sql` of SLOB 2.5.3. Its smallest run
//! time (30 s) and scale (10 000 blocks), which keep figures meaningful, are not enforced.

use std::time::Duration;
use stdx::ByteCount;

/// The largest file that is read, in bytes; real ones have 2 KiB.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// The largest run time, in seconds: two months.
const RUN_TIME_S_MAX: u64 = 5_184_000;

/// The largest think time, in seconds; SLOB speaks of hundreds.
const THINK_S_MAX: f64 = 3600.0;

/// What a `slob.conf` says about storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Conf {
    /// `UPDATE_PCT`: how many of 100 statements update; 0 to 50, or 100.
    pub update_percent: u8,
    /// `SCAN_PCT`: how many of 100 queries scan a table; 0 to 50, or 100.
    pub scan_percent: u8,
    /// `RUN_TIME`.
    pub run_time: Duration,
    /// `WORK_LOOP`: statements of each session; 0: until the run time is over.
    pub work_loop: u64,
    /// `SCALE`: how large the table of each schema is.
    pub scale: Scale,
    /// `SCAN_TABLE_SZ`: how large the table of each schema is that is scanned.
    pub scan_table: Scale,
    /// `WORK_UNIT`: one more than the blocks that a statement touches.
    pub work_unit: u64,
    /// `REDO_STRESS`.
    pub redo_stress: RedoStress,
    /// `LOAD_PARALLEL_DEGREE`: writes under way while the tables are made.
    pub load_parallel_degree: u32,
    /// `THREADS_PER_SCHEMA`: sessions of each schema.
    pub threads_per_schema: u32,
    /// `HOT_SCHEMA_FREQUENCY`: every so many statements one goes to the first schema; 0: none.
    pub hot_schema_frequency: u64,
    /// `DO_HOTSPOT`, with the three parameters of the spot.
    pub hotspot: Option<Hotspot>,
    /// `THINK_TM_FREQUENCY`: about every so many statements a session thinks; 0: never.
    pub think_frequency: u64,
    /// `THINK_TM_MIN` and `THINK_TM_MAX`.
    pub think: (Duration, Duration),
    /// `BLOCK_SZ`.
    pub block: ByteCount,
    /// Names that stand in the file and concern Oracle only.
    pub ignored: Vec<String>,
}

/// A size of a table: SLOB counts blocks, or bytes with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// `10000`
    Blocks(u64),
    /// `80M`, `1G`, `1T`
    Bytes(ByteCount),
}

impl Scale {
    /// In blocks of this size.
    pub fn blocks(self, block: ByteCount) -> u64 {
        match self {
            Scale::Blocks(blocks) => blocks,
            Scale::Bytes(bytes) => bytes.bytes() / block.bytes().max(1),
        }
    }
}

/// How much an update changes of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedoStress {
    /// Two columns of 128 B.
    Lite,
    /// Nineteen.
    Heavy,
}

/// A part of each table that is used more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotspot {
    /// `HOTSPOT_MB`: how large it is.
    pub size: ByteCount,
    /// `HOTSPOT_OFFSET_MB`: where it begins.
    pub offset: ByteCount,
    /// `HOTSPOT_FREQUENCY`: every so many statements one goes there; at least 1.
    pub frequency: u64,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            update_percent: 25,
            scan_percent: 0,
            run_time: Duration::from_secs(300),
            work_loop: 0,
            scale: Scale::Blocks(10_000),
            scan_table: Scale::Bytes(ByteCount::mib(1)),
            work_unit: 256,
            redo_stress: RedoStress::Lite,
            load_parallel_degree: 8,
            threads_per_schema: 1,
            hot_schema_frequency: 0,
            hotspot: None,
            think_frequency: 0,
            think: (Duration::from_millis(100), Duration::from_millis(500)),
            block: ByteCount::kib(8),
            ignored: Vec::new(),
        }
    }
}

/// Names that concern Oracle only.
const ORACLE: [&str; 11] = [
    "ADMIN_SQLNET_SERVICE",
    "DATABASE_STATISTICS_TYPE",
    "DBA_PRIV_USER",
    "EXTERNAL_SCRIPT",
    "NO_OS_PERF_DATA",
    "OBFUSCATE_COLUMNS",
    "SLOB_DEBUG",
    "SLOB_TEMPDIR",
    "SQLNET_SERVICE_BASE",
    "SQLNET_SERVICE_MAX",
    "SYSDBA_PASSWD",
];

/// Names of earlier versions, and what became of them.
const RENAMED: [(&str, &str); 4] = [
    ("THINK_TM_MODULUS", "THINK_TM_FREQUENCY"),
    ("SHARED_DATA_MODULUS", "HOT_SCHEMA_FREQUENCY"),
    ("DO_UPDATE_HOTSPOT", "DO_HOTSPOT"),
    ("HOTSPOT_PCT", "HOTSPOT_MB"),
];

/// Where in a file something is wrong, and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {kind}")]
pub struct ConfError {
    /// The file, as the caller called it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub kind: ConfErrorKind,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfErrorKind {
    /// Too much.
    #[error("the file is larger than {} MiB; a slob.conf has some KiB", FILE_BYTES_MAX >> 20)]
    TooLarge,
    /// No `NAME=value`.
    #[error("expected NAME=value or a comment, found '{0}'")]
    NoAssignment(String),
    /// What only a shell could tell.
    #[error("'{0}' would have to be computed by a shell; write the value itself")]
    Shell(String),
    /// A quote without its end.
    #[error("the quote has no end")]
    Quote,
    /// No such name.
    #[error("SLOB has no parameter {0}; remove it")]
    UnknownName(String),
    /// A name of an earlier version.
    #[error("{name} belongs to an earlier SLOB; use {successor}, whose meaning is like it")]
    Renamed {
        /// The name.
        name: String,
        /// Its successor.
        successor: &'static str,
    },
    /// Not what the parameter takes.
    #[error("{name} takes {takes}, not '{found}'")]
    Value {
        /// The name.
        name: String,
        /// What it takes.
        takes: &'static str,
        /// What stands there.
        found: String,
    },
}

/// Reads a `slob.conf`; `file` is its name for errors.
///
/// # Errors
/// [`ConfError`]
pub fn parse(file: &str, text: &str) -> Result<Conf, ConfError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let error = |line: usize, column: usize, kind| ConfError {
        file: file.to_owned(),
        line: u32::try_from(line + 1).unwrap_or(u32::MAX),
        column: u32::try_from(column + 1).unwrap_or(u32::MAX),
        kind,
    };
    if text.len() > FILE_BYTES_MAX {
        return Err(error(0, 0, ConfErrorKind::TooLarge));
    }
    let mut raw = Raw::default();
    for (number, line) in text.lines().enumerate() {
        let found = assignment(line).map_err(|(column, kind)| error(number, column, kind))?;
        if let Some(found) = found {
            raw.take(&found).map_err(|in_name| {
                let column = if in_name.0 { found.name_column } else { found.value_column };
                error(number, column, in_name.1)
            })?;
        }
    }
    Ok(raw.finish())
}

/// `NAME=value`, with the columns where both begin, counted from 0.
struct Assignment<'a> {
    name: &'a str,
    name_column: usize,
    value: String,
    value_column: usize,
}

/// What a line assigns, if anything.
fn assignment(line: &str) -> Result<Option<Assignment<'_>>, (usize, ConfErrorKind)> {
    let trimmed = line.trim_start();
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return Ok(None);
    }
    let column_of = |part: &str| {
        let at = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
        line.get(..at).map_or(0, |before| before.chars().count())
    };
    let word = match trimmed.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
        _ => trimmed,
    };
    let none = || (column_of(word), ConfErrorKind::NoAssignment(word.trim_end().to_owned()));
    let (name, rest) = word.split_once('=').ok_or_else(none)?;
    let is_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(none());
    }
    let (value, rest) = value_of(rest).map_err(|kind| (column_of(rest), kind))?;
    let rest_trimmed = rest.trim_start();
    let is_over = rest_trimmed.is_empty() || rest_trimmed.starts_with('#') && rest_trimmed != rest;
    if !is_over {
        let kind = ConfErrorKind::NoAssignment(rest_trimmed.to_owned());
        return Err((column_of(rest_trimmed), kind));
    }
    let value_column = column_of(name) + name.chars().count() + 1;
    Ok(Some(Assignment { name, name_column: column_of(name), value, value_column }))
}

/// A shell word without what a shell would compute, and what follows it.
fn value_of(text: &str) -> Result<(String, &str), ConfErrorKind> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(['"', '\'', ' ', '\t']).unwrap_or(rest.len());
        value.push_str(&rest[..end]);
        rest = &rest[end..];
        let Some(quote) = rest.chars().next().filter(|sign| *sign == '"' || *sign == '\'') else {
            break;
        };
        let (quoted, after) = rest[1..].split_once(quote).ok_or(ConfErrorKind::Quote)?;
        value.push_str(quoted);
        rest = after;
    }
    match value.contains(['$', '`', ';', '&', '|', '\\', '(']) {
        true => Err(ConfErrorKind::Shell(value)),
        false => Ok((value, rest)),
    }
}

/// The configuration while it is read: the hotspot's parameters may come in any order.
struct Raw {
    conf: Conf,
    do_hotspot: bool,
    hotspot: Hotspot,
}

impl Default for Raw {
    fn default() -> Raw {
        let hotspot = Hotspot { size: ByteCount::mib(10), offset: ByteCount::ZERO, frequency: 1 };
        Raw { conf: Conf::default(), do_hotspot: false, hotspot }
    }
}

/// An error, and whether it lies in the name rather than the value.
type InName = (bool, ConfErrorKind);

impl Raw {
    fn take(&mut self, found: &Assignment<'_>) -> Result<(), InName> {
        let (conf, name, value) = (&mut self.conf, found.name, found.value.as_str());
        let wrong = |takes: &'static str| {
            let (name, found) = (name.to_owned(), value.to_owned());
            (false, ConfErrorKind::Value { name, takes, found })
        };
        let number = |min: u64, max: u64, takes: &'static str| match value.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(wrong(takes)),
        };
        let percent = || {
            let takes = "a percentage of 0 to 50, or 100 (SLOB's quota can't be met in between)";
            match number(0, 100, takes)? {
                51..=99 => Err(wrong(takes)),
                percent => Ok(percent as u8),
            }
        };
        let frequency = || number(0, u64::MAX >> 1, "a whole number; 0 switches it off");
        let mebibytes = || {
            let takes = "a whole number of MB below 1048576";
            Ok(ByteCount::mib(number(0, 1 << 20, takes)?))
        };
        let think = || {
            let takes = "seconds, as .5";
            let seconds = value.parse::<f64>().map_err(|_| wrong(takes))?;
            match (0.0..=THINK_S_MAX).contains(&seconds) {
                true => Ok(Duration::from_secs_f64(seconds)),
                false => Err(wrong(takes)),
            }
        };
        let scale =
            || scale_of(value).ok_or_else(|| wrong("a number of blocks, or a size as 80M, 1G, 1T"));
        match name {
            "UPDATE_PCT" => conf.update_percent = percent()?,
            "SCAN_PCT" => conf.scan_percent = percent()?,
            "RUN_TIME" => {
                let takes = "a whole number of seconds, at least 1";
                conf.run_time = Duration::from_secs(number(1, RUN_TIME_S_MAX, takes)?);
            }
            "WORK_LOOP" => conf.work_loop = frequency()?,
            "SCALE" => conf.scale = scale()?,
            "SCAN_TABLE_SZ" => conf.scan_table = scale()?,
            "WORK_UNIT" => conf.work_unit = number(3, 1024, "a number of blocks, 3 to 1024")?,
            "REDO_STRESS" => {
                conf.redo_stress = match value {
                    "LITE" => RedoStress::Lite,
                    "HEAVY" => RedoStress::Heavy,
                    _ => return Err(wrong("LITE or HEAVY")),
                };
            }
            "LOAD_PARALLEL_DEGREE" => {
                conf.load_parallel_degree = number(1, 1024, "a number of 1 to 1024")? as u32;
            }
            "THREADS_PER_SCHEMA" => {
                conf.threads_per_schema = number(1, 4096, "a number of 1 to 4096")? as u32;
            }
            "HOT_SCHEMA_FREQUENCY" => conf.hot_schema_frequency = frequency()?,
            "DO_HOTSPOT" => {
                self.do_hotspot = match value {
                    "TRUE" => true,
                    "FALSE" => false,
                    _ => return Err(wrong("TRUE or FALSE")),
                };
            }
            "HOTSPOT_MB" => self.hotspot.size = mebibytes()?,
            "HOTSPOT_OFFSET_MB" => self.hotspot.offset = mebibytes()?,
            // In Oracle a remainder of 0 is the number itself: the spot is then used once.
            "HOTSPOT_FREQUENCY" => self.hotspot.frequency = frequency()?.max(1),
            "THINK_TM_FREQUENCY" => conf.think_frequency = frequency()?,
            "THINK_TM_MIN" => conf.think.0 = think()?,
            "THINK_TM_MAX" => conf.think.1 = think()?,
            "BLOCK_SZ" => {
                let block = number(512, 1 << 20, "a power of two of 512 to 1048576")?;
                if !block.is_power_of_two() {
                    return Err(wrong("a power of two of 512 to 1048576"));
                }
                conf.block = ByteCount(block);
            }
            name if ORACLE.contains(&name) => conf.ignored.push(name.to_owned()),
            name => {
                let name = name.to_owned();
                let successor = RENAMED.iter().find(|(old, _)| *old == name);
                let kind = match successor {
                    Some((_, successor)) => ConfErrorKind::Renamed { name, successor },
                    None => ConfErrorKind::UnknownName(name),
                };
                return Err((true, kind));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Conf {
        self.conf.hotspot = self.do_hotspot.then_some(self.hotspot);
        if self.conf.think.1 < self.conf.think.0 {
            self.conf.think.1 = self.conf.think.0;
        }
        self.conf
    }
}

/// `10000`, `80M`, `1G`, `1T`.
pub fn scale_of(text: &str) -> Option<Scale> {
    let (digits, unit) = match text.strip_suffix(['M', 'G', 'T']) {
        Some(digits) => (digits, text.chars().last()),
        None => (text, None),
    };
    let count = digits.trim().parse::<u64>().ok().filter(|count| *count < 1 << 40)?;
    Some(match unit {
        None => Scale::Blocks(count),
        Some(unit) => {
            let shift = match unit {
                'M' => 20,
                'G' => 30,
                _ => 40,
            };
            let bytes = count.checked_mul(1 << shift).filter(|bytes| *bytes < 1 << 62)?;
            Scale::Bytes(ByteCount(bytes))
        }
    })
}

#[cfg(test)]
mod tests {
    //! What could break: a parameter that is read as another value than SLOB takes it for, or silently
    //! left out.

    use super::*;

    #[test]
    fn our_file_is_read() {
        let text = include_str!("../../../../workloads/slob.conf");
        let conf = parse("slob.conf", text).expect("ours");
        assert_eq!((conf.update_percent, conf.scan_percent), (25, 0));
        assert_eq!(conf.scale.blocks(conf.block), 10_240);
        assert_eq!(conf.work_unit, 64);
        assert_eq!(conf.hotspot, None);
        assert_eq!(conf.ignored, ["DATABASE_STATISTICS_TYPE"]);
    }

    #[test]
    fn values_comments_quotes_and_exports_are_shell() {
        let text = "# first\n\n  export UPDATE_PCT=10   # note\nSCALE=\"1G\"\nWORK_UNIT='64'\n\
                    SQLNET_SERVICE_BASE=\"\"\nDO_HOTSPOT=TRUE\nHOTSPOT_MB=8\nHOTSPOT_OFFSET_MB=16\n\
                    HOTSPOT_FREQUENCY=3\nTHINK_TM_FREQUENCY=7\nTHINK_TM_MIN=.1\nTHINK_TM_MAX=.25\n\
                    SYSDBA_PASSWD=\"a b#c\"\nREDO_STRESS=HEAVY\n";
        let conf = parse("x", text).expect("shell");
        assert_eq!(conf.update_percent, 10);
        assert_eq!(conf.scale, Scale::Bytes(ByteCount::gib(1)));
        let hotspot = Hotspot { size: ByteCount::mib(8), offset: ByteCount::mib(16), frequency: 3 };
        assert_eq!(conf.hotspot, Some(hotspot));
        assert_eq!(conf.think, (Duration::from_millis(100), Duration::from_millis(250)));
        assert_eq!(conf.redo_stress, RedoStress::Heavy);
        assert_eq!(conf.ignored, ["SQLNET_SERVICE_BASE", "SYSDBA_PASSWD"]);
    }

    #[test]
    fn errors_name_the_place_and_the_mend() {
        let cases = [
            (
                "UPDATE_PCT=60",
                "x:1:12: UPDATE_PCT takes a percentage of 0 to 50, or 100 (SLOB's quota can't be met in between), not '60'",
            ),
            ("\n  COLOUR=red", "x:2:3: SLOB has no parameter COLOUR; remove it"),
            (
                "THINK_TM_MODULUS=7",
                "x:1:1: THINK_TM_MODULUS belongs to an earlier SLOB; use THINK_TM_FREQUENCY, whose meaning is like it",
            ),
            (
                "SCALE=$BIG",
                "x:1:7: '$BIG' would have to be computed by a shell; write the value itself",
            ),
            (
                "SCALE=10K",
                "x:1:7: SCALE takes a number of blocks, or a size as 80M, 1G, 1T, not '10K'",
            ),
            ("WORK_UNIT=2", "x:1:11: WORK_UNIT takes a number of blocks, 3 to 1024, not '2'"),
            ("source other", "x:1:1: expected NAME=value or a comment, found 'source other'"),
            ("RUN_TIME=3 sleep 1", "x:1:12: expected NAME=value or a comment, found 'sleep 1'"),
            ("SCALE='1G", "x:1:7: the quote has no end"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse("x", text).expect_err(text).to_string(), expected);
        }
    }
}
