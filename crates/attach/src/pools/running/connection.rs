//! The connection over which who holds a pool is asked. What is asked over it is told by [`client`](super::client).

use super::protocol::Ask;
use crate::context::Context;
use crate::control::client::{Server, Wanted, Words, reach};
use crate::error::Error;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use zfs::spa::FoundPool;

const WORDS: Words = Words { what: "pool", serve: "spindle serve" };

/// Asks who holds a pool that lies on these files and block devices; none where nobody holds it.
///
/// # Errors
/// It can't be reached.
pub fn connect(
    context: &Context,
    found: &FoundPool,
    devices: Vec<PathBuf>,
    ask: Ask,
) -> Result<Option<Server>, Error> {
    let socket = found.guid.to_string();
    let wanted = Wanted { socket: &socket, devices, words: WORDS };
    reach(context, wanted, ask)
}

/// What is answered.
///
/// # Errors
/// It is a refusal, ends before it says anything, or is no such thing.
pub fn answer<T: DeserializeOwned>(server: &mut Server) -> Result<T, Error> {
    let read = serde_json::from_value(server.result()?);
    read.map_err(|error| Error::BadAnswer { what: WORDS.what, error })
}
