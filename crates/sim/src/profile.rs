//! Hardware profiles: what a piece of hardware is, number by number, and where each number is from.
//!
//! A profile is a TOML file. Every number in it is a small table that holds the value and exactly one
//! of three provenances: `source` (read in a named document), `derived` (worked out, and how) or
//! `guessed` (why this and no other). So a reader of a simulated result can see what it stands on, and
//! nobody can bend a number without writing down a reason:
//!
//! ```toml
//! kind = "disk"
//! name = "st3750640as"
//! title = "Seagate Barracuda 7200.10, 750 GB"
//! rpm = { value = 7200, source = "data sheet DS1232" }
//! inner_rate_mb_s = { value = 37.3, derived = "0.478 of the outer rate, as on the Hitachi 7K500" }
//! ```
//!
//! A guess may say how far off it may be: `{ value = 8, range = [4, 32], guessed = "…" }`.
//!
//! Rules: a key carries its unit; MB and kB in `_mb`, `_mb_s`, `_kb` are powers of 1000 for rates and
//! powers of 1024 for memory, as data sheets have it; an unknown key, a missing one, a number without
//! provenance or with two is refused in one line that names the file, the key and the mend.
//!
//! The profiles in `hardware/` are part of the program ([`names`], [`load`]); a profile of one's own
//! is loaded by its path. So is a disk whose parameters are written down as for DiskSim.

mod controller;
mod disk;
mod disksim;
mod given;
mod host;
mod library;
mod link;
pub(crate) mod numbers;
mod ssd;
mod tables;

pub use controller::{ControllerProfile, Firmware, LockStep, OperationHabits, ServiceRate};
pub use disk::DiskProfile;
pub(crate) use given::Field;
use given::Flaw;
pub use given::{Entry, Given, Origin};
pub use host::HostProfile;
pub use library::{load, load_path, names};
pub use link::LinkProfile;
pub use ssd::{SheetState, SsdProfile};
pub use tables::{
    Numbering, PageTimes, ReadAheadUntil, SeekTable, Sparing, WriteBackOrder, ZoneRow, ZoneTable,
};

use serde::Deserialize;

/// Why a profile can't be used. One line: file, key, mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name.
    #[error("no hardware profile is called '{name}'{hint}; `spindle hw list` shows them all")]
    Unknown {
        /// What was asked for.
        name: String,
        /// "; did you mean …?", or nothing.
        hint: String,
    },
    /// The file can't be read.
    #[error("{file}: {reason}; give the path of a readable TOML file")]
    Unreadable {
        /// The path.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// Something in the file is wrong.
    #[error("{file}:{line}: {key}: {mend}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The key, or "profile" where it concerns the whole.
        key: String,
        /// What is wrong and how to mend it.
        mend: String,
    },
    /// The profile is of another kind than the one that is needed here.
    #[error("'{name}' is a {is}, not a {wanted}; `spindle hw list` shows the kinds")]
    Kind {
        /// Its name.
        name: String,
        /// Its kind.
        is: &'static str,
        /// The kind that is needed.
        wanted: &'static str,
    },
    /// The controller has no firmware of this name.
    #[error("controller '{controller}' has no firmware '{name}': {known}")]
    Firmware {
        /// The controller.
        controller: String,
        /// What was asked for.
        name: String,
        /// "it has 'a', 'b'", or that there is none.
        known: String,
    },
    /// An option that needs another controller.
    #[error("`{option}` needs {needs}: name one with `controller`, or leave `{option}` out")]
    Option {
        /// The option.
        option: &'static str,
        /// What it needs.
        needs: &'static str,
    },
}

/// A profile of any kind.
#[derive(Clone, Debug)]
pub enum Profile {
    /// A hard disk.
    Disk(Box<DiskProfile>),
    /// A solid-state drive.
    Ssd(Box<SsdProfile>),
    /// What connects devices with a host.
    Link(Box<LinkProfile>),
    /// A host bus adapter or RAID controller.
    Controller(Box<ControllerProfile>),
    /// A computer.
    Host(Box<HostProfile>),
}

/// What all kinds have, for finding out the kind.
#[derive(Deserialize)]
struct Head {
    kind: String,
}

impl Profile {
    /// Reads a profile from the text of the file called `file`.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        let located = |error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            wrong_at(file, text, start, error.message())
        };
        let head: Head = toml::from_str(text).map_err(located)?;
        let profile = match head.kind.as_str() {
            "disk" => Profile::Disk(Box::new(toml::from_str(text).map_err(located)?)),
            "ssd" => Profile::Ssd(Box::new(toml::from_str(text).map_err(located)?)),
            "link" => Profile::Link(Box::new(toml::from_str(text).map_err(located)?)),
            "controller" => Profile::Controller(Box::new(toml::from_str(text).map_err(located)?)),
            "host" => Profile::Host(Box::new(toml::from_str(text).map_err(located)?)),
            other => {
                let mend =
                    format!("'{other}' is no kind: write disk, ssd, link, controller or host");
                return Err(wrong_key(file, text, "kind", &mend));
            }
        };
        profile.check().map_err(|flaw| wrong_key(file, text, flaw.key, &flaw.mend))?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), Flaw> {
        for entry in self.entries() {
            // The one that may be negative has limits of its own.
            let sane = entry.key == "write_settle_ms"
                || entry.number.is_none_or(|n| n == 0.0 || (1e-3..=1e15).contains(&n));
            Flaw::unless(sane, entry.key, "write 0, or a number from 0.001 to 1e15")?;
        }
        match self {
            Profile::Disk(disk) => disk.check(),
            Profile::Ssd(ssd) => ssd.check(),
            Profile::Link(link) => link.check(),
            Profile::Controller(controller) => controller.check(),
            Profile::Host(host) => host.check(),
        }
    }

    /// "disk", "ssd", "link", "controller" or "host".
    pub fn kind(&self) -> &'static str {
        match self {
            Profile::Disk(_) => "disk",
            Profile::Ssd(_) => "ssd",
            Profile::Link(_) => "link",
            Profile::Controller(_) => "controller",
            Profile::Host(_) => "host",
        }
    }

    /// The name it is looked up by.
    pub fn name(&self) -> &str {
        self.head().0
    }

    /// What it is, for people.
    pub fn title(&self) -> &str {
        self.head().1
    }

    fn head(&self) -> (&str, &str, &str) {
        match self {
            Profile::Disk(p) => (&p.name, &p.title, &p.notes),
            Profile::Ssd(p) => (&p.name, &p.title, &p.notes),
            Profile::Link(p) => (&p.name, &p.title, &p.notes),
            Profile::Controller(p) => (&p.name, &p.title, &p.notes),
            Profile::Host(p) => (&p.name, &p.title, &p.notes),
        }
    }

    /// Every value with its provenance.
    pub fn entries(&self) -> Vec<Entry> {
        match self {
            Profile::Disk(p) => p.entries(),
            Profile::Ssd(p) => p.entries(),
            Profile::Link(p) => p.entries(),
            Profile::Controller(p) => p.entries(),
            Profile::Host(p) => p.entries(),
        }
    }

    /// The profile as text, each number with its provenance.
    pub fn show(&self) -> String {
        let (name, title, notes) = self.head();
        let mut text = format!("{name} ({}): {title}\n", self.kind());
        for paragraph in notes.lines().map(str::trim).filter(|line| !line.is_empty()) {
            text.push_str(&format!("  {paragraph}\n"));
        }
        let entries = self.entries();
        let key_width = entries.iter().map(|e| e.key.len()).max().unwrap_or(0);
        let value_width = entries.iter().map(|e| e.value.len()).max().unwrap_or(0);
        for Entry { key, value, origin, range, .. } in entries {
            text.push_str(&format!("  {key:key_width$}  {value:>value_width$}  {origin}"));
            if let Some((low, high)) = range {
                text.push_str(&format!(" (between {low} and {high})"));
            }
            text.push('\n');
        }
        if let Profile::Disk(disk) = self
            && !disk.lacks().is_empty()
        {
            text.push_str(&format!(
                "  not given, so derived from the above: {}\n",
                disk.lacks().join("; ")
            ));
        }
        if let Profile::Controller(controller) = self {
            text.push_str(&controller.show_firmwares());
        }
        text
    }

    /// The error for a place where another kind is needed.
    pub fn wrong_kind(&self, wanted: &'static str) -> ProfileError {
        ProfileError::Kind { name: self.name().to_owned(), is: self.kind(), wanted }
    }
}

/// The error at byte `start` of the file; the key is the one of that line.
fn wrong_at(file: &str, text: &str, start: usize, message: &str) -> ProfileError {
    let before = text.get(..start).unwrap_or(text);
    let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
    let content = text.lines().nth(line - 1).unwrap_or_default();
    let key = match content.split_once('=') {
        Some((key, _)) if start > 0 => key.trim().to_owned(),
        _ => "profile".to_owned(),
    };
    let mend = message.lines().collect::<Vec<_>>().join(", ");
    ProfileError::Wrong { file: file.to_owned(), line, key, mend }
}

fn wrong_key(file: &str, text: &str, key: &str, mend: &str) -> ProfileError {
    let is_key = |line: &str| line.split_once('=').is_some_and(|(k, _)| k.trim() == key);
    let line = text.lines().position(is_key).map_or(1, |index| index + 1);
    ProfileError::Wrong { file: file.to_owned(), line, key: key.to_owned(), mend: mend.to_owned() }
}

#[cfg(test)]
mod tests;
