//! Commands on pools that another process holds: sent there, and carried out there.
//!
//! A command that changes a pool opens it; where somebody has it mounted or serves it, it goes to that process, which
//! [carries it out](super::carried) on the pool that it has open, and what it says and its exit status come back. Commands that
//! work on files of this host (`cp`, `load`) or end the pool don't.

use crate::output::{Failure, print_bytes, say};
use attach::pools::running::client;
use attach::pools::running::protocol::{Ask, Done, Said};
use attach::pools::{PoolPlace, Pools};

/// A command that failed because somebody holds its pool is carried out there.
///
/// # Errors
/// Those of the command.
pub fn forward(done: Result<(), Failure>, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let failure = match done {
        Err(failure) if failure.held.is_some() && place.held.is_none() => failure,
        done => return done,
    };
    let words: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|word| word.into_string().ok()).collect();
    // A dataset's name is text.
    let (Some(words), Some(name)) = (words, &failure.held) else { return Err(failure) };
    let devices = place.devices.iter().filter_map(|path| std::path::absolute(path).ok()).collect();
    let pools = Pools::find(place)?;
    let Some(found) = pools.named(name)? else { return Err(failure) };
    let done: Option<Done> = client::ask(&pools, found, Ask::Command { words, devices })?;
    // It was let go meanwhile.
    let Some(Done { said, message, status }) = done else { return Err(failure) };
    for said in said {
        match said {
            Said::Out(text) => print_bytes(text.as_bytes())?,
            Said::Error(line) => say(&line),
        }
    }
    match status {
        0 => Ok(()),
        status => Err(Failure { message, status, held: None }),
    }
}
