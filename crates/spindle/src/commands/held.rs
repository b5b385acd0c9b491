//! Commands on pools that another process holds: sent there, and carried out there.
//!
//! A command that changes a pool opens it; where somebody has it mounted or serves it, it goes to that process, which
//! [carries it out](super::carried) on the pool that it has open, and what it says and its exit status come back. Commands that
//! work on files of this host (`cp`, `load`) are [lent](attach::pools::running) what they change; those that end the pool end who holds it.

use crate::events::{events, events_of_a_change};
use crate::output::{Failure, keeping, print_bytes, say};
use crate::pools::command_given;
use ::zfs::spa::{FoundPool, OpenOptions};
use attach::Events;
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

/// How often a list is made at the most, where somebody writes to the pool meanwhile.
const READS_MAX: usize = 4;

/// Carries out a command that lists what is there. Who holds the pool uses space again that a reader may still look at: where that was
/// so, what is there is looked at anew.
///
/// # Errors
/// Those of the command.
pub fn read(place: &PoolPlace<'_>, list: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let is_held = || {
        let quiet = PoolPlace { events: Events::unheard(), ..place.clone() };
        Pools::find(&quiet).is_ok_and(|pools| pools.living().any(|one| pools.holder(one).is_some()))
    };
    let (done, said) = read_until_whole(list, is_held);
    tell_all(said)?;
    done
}

/// Lists, and says what that came to and what was printed: of the first that succeeds, or can't, or of the last.
fn read_until_whole(
    list: impl Fn() -> Result<(), Failure>,
    is_held: impl Fn() -> bool,
) -> (Result<(), Failure>, Vec<Said>) {
    let mut read = keeping(&list);
    for _ in 1..READS_MAX {
        let may_be_other = |failure: &Failure| failure.status == 1 && failure.absent.is_none();
        if !read.0.as_ref().is_err_and(may_be_other) || !is_held() {
            break;
        }
        read = keeping(&list);
    }
    read
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
    tell_all(done.said)?;
    match done.status {
        0 => Ok(()),
        status => Err(Failure::told(done.message, status)),
    }
}

fn tell_all(said: Vec<Said>) -> Result<(), Failure> {
    for said in said {
        match said {
            Said::Out(text) => print_bytes(text.as_bytes())?,
            Said::Error(line) => say(&line),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::print;
    use std::cell::Cell;

    /// Fails so often, each time with words of its own.
    fn read(failures: usize, failure: fn() -> Failure, is_held: bool) -> (bool, usize, String) {
        let calls = Cell::new(0);
        let list = || {
            calls.set(calls.get() + 1);
            print(&format!("{}", calls.get()))?;
            if calls.get() <= failures { Err(failure()) } else { Ok(()) }
        };
        let (done, said) = read_until_whole(list, || is_held);
        let text = said.into_iter().map(|said| match said {
            Said::Out(text) => text,
            Said::Error(line) => line,
        });
        (done.is_ok(), calls.get(), text.collect())
    }

    /// What could break: a list beside who writes fails, or is printed twice; one that can't be made is tried for ever.
    #[test]
    fn what_somebody_wrote_over_is_looked_at_anew() {
        assert_eq!(read(0, Failure::said, true), (true, 1, "1".to_owned()));
        assert_eq!(read(2, Failure::said, true), (true, 3, "3".to_owned()));
        assert_eq!(read(9, Failure::said, true), (false, READS_MAX, READS_MAX.to_string()));
        assert_eq!(read(1, Failure::said, false), (false, 1, "1".to_owned()));
        let wrong = || Failure::usage("no such property");
        assert_eq!(read(1, wrong, true), (false, 1, "1".to_owned()));
        let absent = || attach::Error::NoDataset { name: "tank/x".to_owned() }.into();
        assert_eq!(read(1, absent, true), (false, 1, "1".to_owned()));
    }
}
