//! The connection over which who holds a pool is asked. What is asked over it is told by [`client`](super::client).

use super::protocol::Ask;
use crate::context::Context;
use crate::control::client::{Server, Wanted, Words, reach};
use crate::control::folder::sockets;
use crate::error::Error;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
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

/// Asks all who hold pools, by the sockets that there are: those that have the lock of this file; without one, all who answer anyone. That is
/// for devices that can't be looked at, so that nobody knows which pool's they are.
pub fn ask_all<T: DeserializeOwned>(context: &Context, locked: Option<&Path>, ask: &Ask) -> Vec<T> {
    let pools = sockets().into_iter().filter(|name| name.parse::<u64>().is_ok());
    let of_pool = |socket: String| {
        let devices = locked.map(Path::to_owned).into_iter().collect();
        let wanted = Wanted { socket: &socket, devices, words: WORDS };
        // One that doesn't answer holds another, or ends.
        answer(&mut reach(context, wanted, ask).ok().flatten()?).ok()
    };
    pools.filter_map(of_pool).collect()
}

/// What is answered.
///
/// # Errors
/// It is a refusal, ends before it says anything, or is no such thing.
pub fn answer<T: DeserializeOwned>(server: &mut Server) -> Result<T, Error> {
    let read = serde_json::from_value(server.result()?);
    read.map_err(|error| Error::BadAnswer { what: WORDS.what, error })
}
