//! Whether devices may be made members of a set or pool, and so overwritten.
//!
//! Nothing that holds something is overwritten without `--force` ([`host::expendable`] looks), unless it is an old member of the
//! set; and nothing is made a member twice, by whatever names.

use crate::error::Error;
use host::expendable::{self, NotExpendable, Unseen};
use host::identity::{overlap, same};
use std::path::Path;

/// Whether a device may be overwritten.
///
/// # Errors
/// Where it holds something, and nobody forces it.
pub fn check_expendable(path: &Path, force: bool) -> Result<(), Error> {
    if force {
        return Ok(());
    }
    expendable::check_expendable(path, Unseen::Nothing).map_err(|error| match error {
        NotExpendable::Probe(error) => Error::Probe(error),
        error => Error::Holds(error),
    })
}

/// Whether a device shares nothing with the others.
///
/// # Errors
/// Where it is one of them, or a part of one, or one is a part of it.
pub fn check_distinct<'a>(
    path: &Path,
    mut others: impl Iterator<Item = &'a Path>,
) -> Result<(), Error> {
    match others.find(|other| overlap(other, path)) {
        None => Ok(()),
        Some(other) if same(other, path) => Err(Error::Twice { path: path.into() }),
        Some(other) => Err(Error::Shared { one: other.into(), other: path.into() }),
    }
}
