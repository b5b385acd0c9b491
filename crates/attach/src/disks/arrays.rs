//! RAID sets on the devices: opened for reading, or for writing where something on them is to be written.
//!
//! A set that is opened for writing is one for all that lies on it: volumes that are only read go through it too.
//! It is not resynchronised or rebuilt here; who serves it does that beside the serving, and who opened it stops it
//! ([`Disks::stop`](super::open::Disks::stop)).
//!
//! **A set that another process writes** is looked at as it stands, also where it is dirty and lacks a member: who looks for what lies
//! on it, to ask that process, has to find it.
//!
//! Where a set can't be opened for writing it is opened for reading, and the reason is kept for whoever wants to
//! write. One that can't be opened at all is kept by its names, so that the answer to them is the reason.
//!
//! **By force** a set is opened for reading alone, and only one that can't be opened otherwise: what
//! [`sets::reading`](crate::sets::reading) does with `force`.

use super::wanted::Writing;
use crate::context::Context;
use crate::error::Error;
use crate::sets::missing::{refuse_lacking, take_back};
use crate::sets::{live, name, sources};
use crate::typed;
use ::md::assemble::{self, AssembleError, Choice, Found, OpenArray, OpenOptions};
use ::md::live::LiveArray;
use ::md::superblock::Uuid;
use rt::DeviceRef;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A set that is open.
pub struct Array {
    /// Its name, with its host's where it has one; its UUID where it has no name.
    pub name: String,
    /// The set as a device.
    pub device: DeviceRef,
    /// Which set.
    pub(super) set: Uuid,
    /// All devices that say they are of it: by them it is called.
    found: Vec<Found>,
    /// Those of them that take part in it.
    pub(super) members: Vec<DeviceRef>,
    /// Why it can't be written; nothing where it can.
    pub(super) unwritable: Option<String>,
    /// Whether it was put together by force.
    pub by_force: bool,
}

/// A set that can't be opened.
pub struct Refused {
    found: Vec<Found>,
    /// Its name, or its UUID where it has none.
    pub name: String,
    /// Why.
    pub why: String,
    /// Whether it can be put together by force.
    pub force_helps: bool,
}

/// The sets on some devices.
#[derive(Default)]
pub(super) struct Arrays {
    pub(super) open: Vec<Array>,
    pub(super) refused: Vec<Refused>,
    /// Those that are open for writing, to be stopped.
    pub(super) live: Vec<LiveArray>,
}

impl Array {
    /// Whether it answers to a name: its own, with or without its host's, the one below /dev, its UUID, or the path of
    /// a member.
    pub(super) fn is_called(&self, called: &str) -> bool {
        sources::is_called(&self.found, called)
    }

    /// Whether each of its members begins as it does: a mirror whose superblocks lie at the end.
    pub(super) fn begins_as_its_members(&self) -> bool {
        let begins =
            |found: &Found| found.superblock.level() == 1 && found.superblock.data_offset() == 0;
        self.found.iter().all(begins)
    }

    /// What its device is called below /dev.
    pub(super) fn device_path(&self) -> PathBuf {
        let name = self.found.first().and_then(|one| name::device_name(&one.superblock));
        name.unwrap_or_else(|| format!("/dev/md/{}", self.set)).into()
    }

    /// All devices that say they are of it.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// The name without the host's.
    pub fn short_name(&self) -> &str {
        match self.name.split_once(':') {
            // A UUID has colons of its own.
            Some((_, short)) if self.name != self.set.to_string() => short,
            _ => &self.name,
        }
    }
}

impl Refused {
    /// Why, and how these devices are looked at all the same.
    pub(super) fn complaint(&self, devices: &[PathBuf]) -> String {
        match self.force_helps {
            true => {
                format!("{}; {} scan --force looks into it", self.why, typed::spindle(devices))
            }
            false => self.why.clone(),
        }
    }

    /// All devices that say they are of it.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// As of [`Array::is_called`].
    pub(super) fn is_called(&self, called: &str) -> bool {
        sources::is_called(&self.found, called)
    }
}

/// Opens the sets that these devices are of: those in `written` for writing, and where the value says so also with
/// fewer members than they had; all others for reading. Other processes write to these files and block devices.
pub(super) fn open(
    context: &Context,
    found: Vec<Found>,
    wanted: &Writing,
    elsewhere: &BTreeSet<PathBuf>,
) -> Arrays {
    let mut arrays = Arrays::default();
    for (set, found) in assemble::sets(found) {
        let name = found.first().map_or(String::new(), |one| one.superblock.name());
        let name = if name.is_empty() { set.to_string() } else { name };
        let force = found.iter().any(|one| elsewhere.contains(&sources::path_of(one)));
        let options = OpenOptions { force, ..OpenOptions::default() };
        let choice = Choice::of(set, found.clone());
        let mut opened = choice.clone().and_then(|choice| {
            open_choice(context, &name, choice, wanted.sets.get(&set).copied(), options)
        });
        let force_helps = opened.as_ref().is_err_and(AssembleError::force_helps);
        let mut by_force = false;
        if let Ok(choice) = choice
            && force_helps
            && wanted.by_force
        {
            opened = open_by_force(context, &name, choice, options);
            by_force = opened.is_ok();
        }
        match opened {
            Ok((opened, members)) => {
                let (device, unwritable) = match opened {
                    Opened::Live(live) => {
                        let device = live.device();
                        arrays.live.push(live);
                        (device, None)
                    }
                    Opened::Reading(device, why) => (device, Some(why)),
                };
                let array = Array { name, device, set, found, members, unwritable, by_force };
                arrays.open.push(array);
            }
            Err(error) => {
                let why = reason(&error).replace(&set.to_string(), &name);
                let force_helps = error.force_helps();
                arrays.refused.push(Refused { found, name, why, force_helps });
            }
        }
    }
    arrays
}

enum Opened {
    Live(LiveArray),
    /// And why not for writing.
    Reading(DeviceRef, String),
}

/// A set, and the devices that take part in it.
fn open_choice(
    context: &Context,
    name: &str,
    choice: Choice,
    written: Option<bool>,
    options: OpenOptions,
) -> Result<(Opened, Vec<DeviceRef>), AssembleError> {
    let members = choice.taking_part().map(|found| found.device.clone()).collect();
    let why = match written {
        None => "it is open for reading".to_owned(),
        Some(run) => match for_writing(context, choice.clone(), run) {
            Ok(live) => return Ok((Opened::Live(live), members)),
            Err(error) => error.to_string(),
        },
    };
    let (rt, name) = (context.rt(), name.to_owned());
    let reading = async move { OpenArray::open(&rt, &name, choice, options).await };
    let opened = context.runtime().block_on(reading).expect("I/O on a real device ends");
    opened.map(|array| (Opened::Reading(array as DeviceRef, why), members))
}

/// The same for reading by force. Who is taken back is told.
fn open_by_force(
    context: &Context,
    name: &str,
    mut choice: Choice,
    options: OpenOptions,
) -> Result<(Opened, Vec<DeviceRef>), AssembleError> {
    take_back(context.events(), &mut choice);
    let options = OpenOptions { force: true, ..options };
    let opened = open_choice(context, name, choice, None, options)?;
    let why = "it was put together by force, for reading alone".to_owned();
    Ok(match opened {
        (Opened::Reading(device, _), members) => (Opened::Reading(device, why), members),
        live => live,
    })
}

fn for_writing(context: &Context, choice: Choice, run: bool) -> Result<LiveArray, Error> {
    // Texts name flags, which not all who come here have.
    let by = |error: Error, elsewhere| Error::By { error: Box::new(error), elsewhere };
    if !run {
        let elsewhere = "in a configuration run = true, else spindle md assemble --run";
        refuse_lacking(&choice).map_err(|error| by(error, elsewhere))?;
    }
    match choice.lacks_journal() {
        true => live::open_choice(context, choice, false)
            .map_err(|error| by(error, "spindle md assemble --force")),
        false => live::open_choice(context, choice, false).map_err(|error| match error {
            Error::Histories { .. } => by(error, "spindle md assemble --force"),
            error => error,
        }),
    }
}

/// Why a set can't be opened. What the text asks for as a flag is one of another command.
fn reason(error: &AssembleError) -> String {
    match error {
        AssembleError::DirtyDegraded { .. } | AssembleError::NoJournal { .. } => {
            format!("{error} of spindle md assemble")
        }
        AssembleError::Raid0Layout { .. } => format!("{error} to spindle md serve"),
        _ => error.to_string(),
    }
}
