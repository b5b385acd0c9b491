//! Values with their provenance, and the form that all kinds of profiles have.

use serde::Deserialize;
use std::fmt;

/// Where a number is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Read in this document.
    Source(String),
    /// Worked out, so.
    Derived(String),
    /// Guessed, for this reason.
    Guessed(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Source(text) => write!(f, "source: {text}"),
            Origin::Derived(text) => write!(f, "derived: {text}"),
            Origin::Guessed(text) => write!(f, "guessed: {text}"),
        }
    }
}

/// A value with its provenance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RawGiven<T>", bound(deserialize = "T: Deserialize<'de> + fmt::Display"))]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// Where it is from.
    pub origin: Origin,
    /// Between what it may lie, where it is guessed and somebody says so.
    pub range: Option<(f64, f64)>,
}

impl<T> Given<T> {
    /// A value with its provenance.
    pub fn of(value: T, origin: Origin) -> Given<T> {
        Given { value, origin, range: None }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGiven<T> {
    value: T,
    source: Option<String>,
    derived: Option<String>,
    guessed: Option<String>,
    range: Option<(f64, f64)>,
}

impl<T: fmt::Display> TryFrom<RawGiven<T>> for Given<T> {
    type Error = &'static str;
    fn try_from(raw: RawGiven<T>) -> Result<Given<T>, &'static str> {
        let origin = match (raw.source, raw.derived, raw.guessed) {
            (Some(text), None, None) => Origin::Source(text),
            (None, Some(text), None) => Origin::Derived(text),
            (None, None, Some(text)) => Origin::Guessed(text),
            _ => return Err("give exactly one of source, derived and guessed beside the value"),
        };
        let (Origin::Source(text) | Origin::Derived(text) | Origin::Guessed(text)) = &origin;
        if text.trim().is_empty() {
            return Err("say where the value is from: the provenance is empty");
        }
        if let Some((low, high)) = raw.range {
            if !matches!(origin, Origin::Guessed(_)) {
                return Err("a range is for what is guessed: leave it out");
            }
            let number: Option<f64> = raw.value.to_string().parse().ok();
            if !number.is_some_and(|number| low <= number && number <= high) {
                return Err("write a range as [low, high] with the value in it");
            }
        }
        Ok(Given { value: raw.value, origin, range: raw.range })
    }
}

/// One line of a profile, for showing it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key, with its unit.
    pub key: &'static str,
    /// The value as text.
    pub value: String,
    /// The value where it is a number.
    pub number: Option<f64>,
    /// Where it is from.
    pub origin: Origin,
    /// Between what it may lie, where it is guessed and somebody says so.
    pub range: Option<(f64, f64)>,
}

/// What stands behind a key of a profile: something given, or possibly nothing.
pub(crate) trait Field {
    fn entry(&self, key: &'static str) -> Option<Entry>;
}

impl<T: fmt::Display> Field for Given<T> {
    fn entry(&self, key: &'static str) -> Option<Entry> {
        let value = self.value.to_string();
        let number = value.parse().ok();
        Some(Entry { key, value, number, origin: self.origin.clone(), range: self.range })
    }
}

impl<T: fmt::Display> Field for Option<Given<T>> {
    fn entry(&self, key: &'static str) -> Option<Entry> {
        self.as_ref().and_then(|given| given.entry(key))
    }
}

/// A flaw that only a look at several values shows.
pub(crate) struct Flaw {
    pub(crate) key: &'static str,
    pub(crate) mend: String,
}

impl Flaw {
    pub(crate) fn unless(holds: bool, key: &'static str, mend: &str) -> Result<(), Flaw> {
        if holds { Ok(()) } else { Err(Flaw { key, mend: mend.to_owned() }) }
    }
}

/// Declares a profile: the head that all kinds have, and the keys of this kind.
macro_rules! profile {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            #[serde(rename = "kind")]
            _kind: String,
            /// The name it is looked up by.
            pub name: String,
            /// What it is, for people.
            pub title: String,
            /// What a reader should know beside the numbers.
            #[serde(default)]
            pub notes: String,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            /// Every value with its provenance, in the order of declaration.
            pub fn entries(&self) -> Vec<$crate::profile::Entry> {
                use $crate::profile::Field;
                [$(self.$field.entry(stringify!($field)),)*].into_iter().flatten().collect()
            }
        }
    };
}
pub(crate) use profile;
