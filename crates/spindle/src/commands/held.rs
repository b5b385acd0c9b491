//! Commands on pools that another process holds: sent there, and carried out there.
//!
//! A command that changes a pool opens it; where somebody has it mounted or serves it, it goes to that process, which
//! [carries it out](super::carried) on the pool that it has open, and what it says and its exit status come back. Commands that
//! work on files of this host (`cp`, `load`) are [lent](attach::pools::running) what they change; those that end the pool end who holds it.

use crate::events::{events, events_of_a_change};
use crate::output::{Failure, print_bytes, say};
use crate::pools::command_given;
use ::zfs::spa::{FoundPool, OpenOptions};
use attach::paths::named;
use attach::pools::running::client;
use attach::pools::running::protocol::{Ask, Done, Said};
use attach::pools::{PoolPlace, Pools};
use attach::uri::absolute_in;
use std::path::PathBuf;

/// Carries out a command on the pools of these devices. One that `goes` to who holds its pool is carried out there, if somebody
/// does.
///
/// # Errors
/// Those of the command.
pub fn run(
    devices: &[PathBuf],
    options: OpenOptions,
    goes: bool,
    carry_out: impl FnOnce(&PoolPlace<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let events = if goes { events_of_a_change() } else { events() };
    let (held, directory) = Default::default();
    let command = command_given();
    let place = PoolPlace { devices, options, events, command, held, directory };
    match carry_out(&place) {
        Err(failure) if goes && failure.held.is_some() => forward(failure, &place),
        done => done,
    }
}

/// A command that failed because somebody holds its pool is carried out there.
fn forward(failure: Failure, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let words: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|word| word.into_string().ok()).collect();
    // A dataset's name is text.
    let (Some(words), Some(name)) = (words, &failure.held) else { return Err(failure) };
    match send(place, name, words)? {
        Some(done) => tell(done),
        // It was let go meanwhile.
        None => Err(failure),
    }
}

/// Has words carried out by who holds the pool of this name or GUID; nothing where nobody does.
///
/// # Errors
/// They don't reach it.
pub fn send(
    place: &PoolPlace<'_>,
    name: &str,
    words: Vec<String>,
) -> Result<Option<Done>, Failure> {
    let pools = Pools::find(place)?;
    match pools.named(name)? {
        Some(found) => send_to(place, &pools, found, words),
        None => Ok(None),
    }
}

/// The same of a pool that was found.
///
/// # Errors
/// They don't reach it.
pub fn send_to(
    place: &PoolPlace<'_>,
    pools: &Pools,
    found: &FoundPool,
    words: Vec<String>,
) -> Result<Option<Done>, Failure> {
    let directory = std::env::current_dir().unwrap_or_default();
    let devices = named(place.devices);
    let devices = devices.iter().map(|path| absolute_in(&directory, path)).collect();
    Ok(client::ask(pools, found, Ask::Command { words, devices, directory })?)
}

/// Says what a command said that was carried out elsewhere.
///
/// # Errors
/// It failed.
pub fn tell(done: Done) -> Result<(), Failure> {
    for said in done.said {
        match said {
            Said::Out(text) => print_bytes(text.as_bytes())?,
            Said::Error(line) => say(&line),
        }
    }
    match done.status {
        0 => Ok(()),
        status => Err(Failure::told(done.message, status)),
    }
}
