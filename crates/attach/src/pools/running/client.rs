//! Asking who holds a pool.

use super::protocol::{Ask, Holder};
use crate::control::client::{Wanted, Words, reach};
use crate::error::Error;
use crate::pools::find::Pools;
use ::zfs::spa::FoundPool;
use serde::de::DeserializeOwned;
use std::path::PathBuf;

const WORDS: Words = Words { what: "pool", serve: "spindle serve" };

/// Asks who holds a pool for something; none where nobody holds it.
///
/// # Errors
/// What is answered, and where it ends before it says anything.
pub fn ask<T: DeserializeOwned>(
    pools: &Pools,
    found: &FoundPool,
    ask: Ask,
) -> Result<Option<T>, Error> {
    // A pool on something else is held by nobody.
    let Ok(files) = pools.files_of(found) else { return Ok(None) };
    let devices = files.iter().map(|file| PathBuf::from(&**file)).collect();
    let socket = found.guid.to_string();
    let wanted = Wanted { socket: &socket, devices, words: WORDS };
    let Some(mut server) = reach(pools.disks().context(), wanted, ask)? else { return Ok(None) };
    let read = serde_json::from_value(server.result()?);
    read.map(Some).map_err(|error| Error::BadAnswer { what: WORDS.what, error })
}

/// Refuses a pool that somebody holds, and says who.
///
/// # Errors
/// Somebody does.
pub fn refuse_held(pools: &Pools, found: &FoundPool) -> Result<(), Error> {
    match ask::<Holder>(pools, found, Ask::Who)? {
        None => Ok(()),
        Some(Holder { process, what }) => {
            Err(Error::PoolHeld { name: found.name.clone(), process, what })
        }
    }
}
