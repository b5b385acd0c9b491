//! What a trace may be written in, by name.

use std::fmt;

/// What a trace is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// DiskSim's, for validation: one request at a time, with the times that were measured.
    Validate,
    /// DiskSim's.
    Ascii,
    /// fio's.
    Iolog,
    /// blkparse's, as it prints by default.
    Blkparse,
    /// That of the traces of Microsoft Research, Cambridge.
    Msr,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 5] =
        [Format::Validate, Format::Ascii, Format::Iolog, Format::Blkparse, Format::Msr];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Validate => "validate",
            Format::Ascii => "ascii",
            Format::Iolog => "iolog",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
        }
    }

    /// Whether one request was sent at a time, the next some time after the end of the last.
    pub fn is_closed(self) -> bool {
        self == Format::Validate
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Format {
    type Err = String;
    fn from_str(name: &str) -> Result<Format, String> {
        let known = Format::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| format!("write one of {}", names()))
    }
}

/// All names, for people.
pub(crate) fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}
