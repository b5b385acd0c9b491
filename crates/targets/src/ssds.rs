//! In which state the solid-state drives of a simulated machine begin.
//!
//! Theory. What flash costs to write depends on what was written before: a stream over a drive that was written over at random
//! goes at the rate of random writes until it has written the drive over, and random writes on an empty one go at the
//! rate of a stream until its spare blocks are used up. Rounds last seconds, and either takes minutes or hours, so that the
//! rate looks steady and is not the one that stays. SNIA's performance test specification has a drive therefore written
//! in the long run by the load that is measured next.
//!
//! So each drive begins as the load itself leaves it, unless `ssd_state` says otherwise: all drives of a study under one load in the same
//! state, whatever state their makers' figures are of. Streams, a probe and what an array does by itself write in order; random I/O
//! does not. A tool lays its files out before it works on them, on a file system that was just made: in order.
//!
//! A spare is empty. Nothing of anybody's was on it.

use super::machine::SimulatedMachine;
use lab::pitfalls::SsdsBegin;
use lab::study::{Factor, Kind, Study};
use sim::{Profile, SsdState};

/// The key of a machine.
const SSD_STATE: &str = "ssd_state";

/// How a load leaves the drives in the long run.
fn left_by(kind: &Kind) -> SsdState {
    match kind {
        Kind::Random(_) | Kind::Slob(_) => SsdState::Random,
        Kind::Operation(operation) => {
            operation.load.as_ref().map_or(SsdState::Sequential, |load| left_by(&load.kind))
        }
        Kind::Stream(_) | Kind::Probe(_) | Kind::Tool(_) => SsdState::Sequential,
    }
}

/// The state in which the drives of a layout begin under this load.
pub(super) fn begin(machine: &SimulatedMachine, kind: &Kind) -> SsdState {
    machine.ssd_state.unwrap_or_else(|| left_by(kind))
}

/// Whether the drives are of flash that is collected.
fn is_flash(disk: &str) -> bool {
    matches!(sim::profile::load(disk), Ok(Profile::Ssd(ssd)) if ssd.garbage_collection.value)
}

/// How the drives begin and how the load leaves them, where that is known and another rate.
pub(super) fn unlike_the_load(machine: &SimulatedMachine, kind: &Kind) -> Option<SsdsBegin> {
    let begins = machine.ssd_state.filter(|_| is_flash(&machine.disk))?;
    let left = match kind {
        Kind::Tool(_) => return None,
        kind => left_by(kind),
    };
    // In order, an empty drive is written at the rate of a full one.
    let alike = begins == left || (begins, left) == (SsdState::Fresh, SsdState::Sequential);
    (!alike).then(|| SsdsBegin { state: begins.to_string(), left: left.to_string() })
}

/// How the drives of these machines of a study begin, in words; none where no drive is of flash.
pub(super) fn told<'a>(
    study: &Study,
    mut machines: impl Iterator<Item = &'a SimulatedMachine>,
) -> Option<String> {
    let machine = machines.find(|machine| is_flash(&machine.disk))?;
    let sets = |factor: &&Factor| {
        factor.name == SSD_STATE || factor.settings.values().any(|all| all.contains_key(SSD_STATE))
    };
    let by = study.factors.iter().find(sets);
    Some(match (by, machine.ssd_state) {
        (Some(factor), _) => format!("as the factor {} says; spares empty", factor.name),
        (None, Some(state)) => format!("{state}, as the study says; spares empty"),
        (None, None) => "as the load leaves them in the long run: written over at random under random I/O, else in order; \
                 spares empty"
            .to_owned(),
    })
}
