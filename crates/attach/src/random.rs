//! The system's randomness: identities of what is made.

use crate::error::Error;
use ::md::superblock::Uuid;
use std::io::Read;
use stdx::Prng;

fn bytes<const MANY: usize>() -> Result<[u8; MANY], Error> {
    let mut bytes = [0; MANY];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(Error::Random)?;
    Ok(bytes)
}

/// An identity that nothing else has.
///
/// # Errors
/// Where the system has no randomness.
pub fn uuid() -> Result<Uuid, Error> {
    Ok(Uuid(bytes()?))
}

/// Numbers for several, seeded anew.
///
/// # Errors
/// Where the system has no randomness.
pub fn prng() -> Result<Prng, Error> {
    Ok(Prng::new(u64::from_le_bytes(bytes()?)))
}
