//! Devices that come to a set: whether they may be overwritten, and by what identity they are known from then on.
//!
//! Nothing that holds something is overwritten without `--force`, unless it is an old member of the set.

use crate::error::Error;
use ::md::superblock::Uuid;
use host::identity::{self, NotExpendable, Unseen, overlap, same};
use std::io::Read;
use std::path::Path;

/// Whether a device may be overwritten.
///
/// # Errors
/// Where it holds something, and nobody forces it.
pub fn check_expendable(path: &Path, force: bool) -> Result<(), Error> {
    if force {
        return Ok(());
    }
    identity::check_expendable(path, Unseen::Nothing).map_err(|error| match error {
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

/// An identity from the system's randomness.
///
/// # Errors
/// Where there is none.
pub fn random() -> Result<Uuid, Error> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(Error::Random)?;
    Ok(Uuid(bytes))
}
