//! The effective value of each property that is set for a dataset: here, by a stream, or above it.
//!
//! Rules, first to last:
//! 1. What is set here counts, then what was received, unless it is marked as not to be used.
//! 2. What counts for the directory above comes next, but only what is inherited, and users' own properties.
//! 3. A snapshot has its own, then those of its dataset as inherited, and of ZFS's properties only those that
//!    snapshots have.
//!
//! The order is that of the tables' hashes, as OpenZFS lists users' properties.
//!
//! Source: OpenZFS, `dsl_prop.c`.

use super::Stored;
use super::table::{Form, Kinds, Property};
use zfs_format::dsl::property::{HAS_RECEIVED, PropertyValue, Source};

/// Where a property's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is worked out: `-`.
    None,
    /// Nobody set it.
    Default,
    /// It was set here.
    Local,
    /// It came with a stream.
    Received,
    /// This dataset above has it.
    Inherited(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::None => f.write_str("-"),
            Origin::Default => f.write_str("default"),
            Origin::Local => f.write_str("local"),
            Origin::Received => f.write_str("received"),
            Origin::Inherited(from) => write!(f, "inherited from {from}"),
        }
    }
}

/// A property that is set, and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: PropertyValue,
    /// Who set it.
    pub origin: Origin,
}

/// A value as it is stored, as text.
pub fn value_text(value: &PropertyValue) -> String {
    match value {
        PropertyValue::Number(number) => number.to_string(),
        PropertyValue::Text(text) => text.to_string(),
    }
}

/// Whether a name is of a property of users' own.
pub fn is_user(name: &str) -> bool {
    name.contains(':')
}

/// What counts of a table itself.
fn own(stored: &[Stored]) -> Vec<Effective> {
    let has = |name: &str, source: Source| {
        stored.iter().any(|one| one.name == name && one.source == source)
    };
    let mut own: Vec<Effective> = Vec::new();
    for one in stored.iter().filter(|one| one.name != HAS_RECEIVED) {
        let name = one.name.as_str();
        let origin = match one.source {
            Source::Local if !has(name, Source::InheritUserVisible) => Origin::Local,
            Source::Received if !has(name, Source::Local) && !has(name, Source::Inherit) => {
                Origin::Received
            }
            Source::InheritUserVisible if is_known_word(one) => Origin::Local,
            _ => continue,
        };
        if own.iter().all(|known| known.name != one.name) {
            own.push(Effective { name: one.name.clone(), value: one.value.clone(), origin });
        }
    }
    own
}

fn is_known_word(stored: &Stored) -> bool {
    match (Property::named(&stored.name).map(|property| property.form), &stored.value) {
        (Some(Form::Word(words, _)), PropertyValue::Number(number)) => {
            super::words::word(words, *number).is_some()
        }
        _ => false,
    }
}

fn comes_down(set: &Effective) -> bool {
    Property::named(&set.name).is_none_or(Property::is_inherited)
}

fn inherit(mut all: Vec<Effective>, above: &[Effective], from: &str) -> Vec<Effective> {
    for set in above.iter().filter(|set| comes_down(set)) {
        if all.iter().any(|known| known.name == set.name) {
            continue;
        }
        let origin = match &set.origin {
            Origin::Inherited(from) => Origin::Inherited(from.clone()),
            _ => Origin::Inherited(from.to_owned()),
        };
        all.push(Effective { origin, ..set.clone() });
    }
    all
}

/// What counts for a directory: `stored` in its table, and what counts for the one above it, which has this name.
pub fn of_directory(stored: &[Stored], above: Option<(&str, &[Effective])>) -> Vec<Effective> {
    match above {
        Some((name, above)) => inherit(own(stored), above, name),
        None => own(stored),
    }
}

/// What counts for a snapshot: `stored` in its table, and what counts for its dataset, which has this name.
pub fn of_snapshot(stored: &[Stored], dataset: &str, above: &[Effective]) -> Vec<Effective> {
    let all = inherit(own(stored), above, dataset);
    let fits = |set: &Effective| {
        Property::named(&set.name).is_none_or(|property| property.kinds.has(Kinds::SNAPSHOT))
    };
    all.into_iter().filter(fits).collect()
}

/// The value that a stream brought.
pub fn received<'a>(stored: &'a [Stored], name: &str) -> Option<&'a PropertyValue> {
    let is_it = |one: &&Stored| one.name == name && one.source == Source::Received;
    stored.iter().find(is_it).map(|one| &one.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, source: Source, value: u64) -> Stored {
        Stored { name: name.to_owned(), source, value: PropertyValue::Number(value) }
    }

    fn found(all: &[Effective], name: &str) -> Option<(u64, Origin)> {
        let set = all.iter().find(|set| set.name == name)?;
        match set.value {
            PropertyValue::Number(number) => Some((number, set.origin.clone())),
            PropertyValue::Text(_) => None,
        }
    }

    #[test]
    fn what_is_set_here_beats_what_was_received_and_that_beats_what_is_above() {
        let above = of_directory(
            &[stored("compression", Source::Local, 15), stored("atime", Source::Received, 0)],
            None,
        );
        let below = of_directory(
            &[
                stored("compression", Source::Received, 16),
                stored("recordsize", Source::Received, 512),
                stored("recordsize", Source::Local, 1024),
            ],
            Some(("t", &above)),
        );
        assert_eq!(found(&below, "compression"), Some((16, Origin::Received)));
        assert_eq!(found(&below, "recordsize"), Some((1024, Origin::Local)));
        assert_eq!(found(&below, "atime"), Some((0, Origin::Inherited("t".into()))));
        let lowest = of_directory(
            &[
                stored("compression", Source::Received, 2),
                stored("compression", Source::Inherit, 0),
            ],
            Some(("t/a", &below)),
        );
        assert_eq!(found(&lowest, "compression"), Some((16, Origin::Inherited("t/a".into()))));
        assert_eq!(found(&lowest, "atime"), Some((0, Origin::Inherited("t".into()))));
    }

    #[test]
    fn what_is_not_inherited_stays_above() {
        let above = of_directory(
            &[stored("canmount", Source::Local, 0), stored("a:b", Source::Local, 1)],
            None,
        );
        let below = of_directory(&[], Some(("t", &above)));
        assert_eq!(found(&below, "canmount"), None);
        assert_eq!(found(&below, "a:b"), Some((1, Origin::Inherited("t".into()))));
    }

    #[test]
    fn a_snapshot_has_what_snapshots_have() {
        let above = [stored("xattr", Source::Local, 1), stored("atime", Source::Local, 0)];
        let above = of_directory(&above, None);
        let snapshot = of_snapshot(&[stored("a:b", Source::Local, 1)], "t", &above);
        assert_eq!(found(&snapshot, "xattr"), Some((1, Origin::Inherited("t".into()))));
        assert_eq!(found(&snapshot, "atime"), None);
        assert_eq!(found(&snapshot, "a:b"), Some((1, Origin::Local)));
    }
}
