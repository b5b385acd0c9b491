//! Properties: as they are stored, as they come down the tree, and as they are shown.
//!
//! * [`table`]: what ZFS itself knows, with [`words`] for the values.
//! * [`Stored`]: an entry of the table of a directory or snapshot.
//! * [`effective`]: what counts for a dataset: set here, received, or inherited.
//! * [`mountpoint`]: where file systems are mounted by themselves.
//! * [`view`]: a dataset with all that is known of it, and each property as text.

pub mod effective;
pub mod mountpoint;
pub mod table;
pub mod view;
pub mod words;

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
