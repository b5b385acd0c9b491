//! Properties as they are stored: names, values, and who set them.

use crate::zap::Entry;
use zfs_format::FormatError;
use zfs_format::dsl::property::{PropertyValue, Source, split_name};

/// A property that is stored with a directory or snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name, without what says who set it.
    pub name: String,
    /// Who set it.
    pub source: Source,
    /// Its value.
    pub value: PropertyValue,
}

impl Stored {
    pub(super) fn of(entry: &Entry) -> Result<Stored, FormatError> {
        let text = entry.text();
        let (name, source) = split_name(&text);
        let value = PropertyValue::from_value(&entry.value)?;
        Ok(Stored { name: name.to_owned(), source, value })
    }
}
