//! Asking the server of a set.

use super::protocol::{Ask, Picture};
use crate::context::Context;
use crate::control::client::{Server, Wanted, Words, reach};
use crate::error::Error;
use crate::sets::sources::path_of;
use ::md::assemble::Choice;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

const WORDS: Words = Words { what: "set", serve: "spindle md serve" };

fn server(context: &Context, choice: &Choice, ask: Ask) -> Result<Option<Server>, Error> {
    let devices = choice.taking_part().map(path_of).collect::<BTreeSet<_>>().into_iter().collect();
    let socket = choice.set.to_string();
    // Who only tries a command out has nothing changed elsewhere.
    let refused = ask.changes() && context.host().is_covered();
    let ask = if refused { Ask::Detail } else { ask };
    match reach(context, Wanted { socket: &socket, devices, words: WORDS }, ask)? {
        Some(_) if refused => Err(context.naming(Error::SetHeld { set: choice.set })),
        server => Ok(server),
    }
}

/// Asks the server of a set for something; none where nobody serves it.
///
/// # Errors
/// What the server says, and where it ends before it says anything.
pub fn ask<T: DeserializeOwned>(
    context: &Context,
    choice: &Choice,
    ask: Ask,
) -> Result<Option<T>, Error> {
    let Some(mut server) = server(context, choice, ask)? else { return Ok(None) };
    let read = serde_json::from_value(server.result()?);
    read.map(Some).map_err(|error| Error::BadAnswer { what: WORDS.what, error })
}

/// Ends the server of a set, and waits until nothing holds its devices; false where nobody serves it.
///
/// # Errors
/// What the server says.
pub fn stop(context: &Context, choice: &Choice, force: bool) -> Result<bool, Error> {
    let Some(mut server) = server(context, choice, Ask::Stop { force })? else { return Ok(false) };
    server.result()?;
    server.released(context);
    Ok(true)
}

/// The set as its server sees it; none where nobody serves it.
///
/// # Errors
/// What the server says.
pub fn picture(context: &Context, choice: &Choice) -> Result<Option<Picture>, Error> {
    ask(context, choice, Ask::Detail)
}
