//! A tool's run on a tree of files, held against what the disks below did.
//!
//! The tool has figures of its own. Beside them stand the counters of disks and host at both ends of its
//! run, and what all its workers asked of the tree ([`Traffic`]): from these come the same metrics of cost
//! and the same pitfalls as of a block workload.
//!
//! A tool that goes through phases is looked at phase by phase, too ([`Phases`]): one that only writes is a stream of writes
//! like another, whatever the others read.

use crate::measure::{DiskView, Mark, processor_use};
use crate::phases;
use crate::pitfalls::{self, Demand, Moved, Surroundings};
use crate::target::CellRun;
use rt::filter::{ReadFiles, Traffic};
use std::rc::Rc;
use workload::crew::PhaseEnd;
use workload::outcome::Outcome;

/// The counters at both ends of a run.
pub struct Ends<'a> {
    /// When it began.
    pub begin: &'a Mark,
    /// When it ended.
    pub end: &'a Mark,
    /// The disks of the counters.
    pub disks: &'a [Rc<dyn DiskView>],
    /// The tool's phases, where they were heard of.
    pub phases: &'a [PhaseRun],
}

/// A phase of a tool: the counters at its ends, and what was asked of the tree in between.
pub struct PhaseRun {
    name: &'static str,
    begin: Mark,
    end: Mark,
    traffic: Traffic,
}

/// The phases of a run as they are heard of.
#[derive(Default)]
pub struct Phases {
    begun: Option<(Mark, Traffic)>,
    /// Those that have ended.
    pub ended: Vec<PhaseRun>,
}

impl Phases {
    /// A phase begins or ends, with these counters and so much asked of the tree so far. Phases do not overlap.
    pub fn note(&mut self, end: PhaseEnd, mark: Mark, traffic: Traffic) {
        match (end, self.begun.take()) {
            (PhaseEnd::Begins(_), _) => self.begun = Some((mark, traffic)),
            (PhaseEnd::Ends(name), Some((begin, before))) => {
                let traffic = traffic.since(before);
                self.ended.push(PhaseRun { name, begin, end: mark, traffic });
            }
            (PhaseEnd::Ends(_), None) => {}
        }
    }
}

/// Of its I/Os so many must jump for the workload to count as random: a sequential one jumps where a
/// file begins.
const RANDOM_SHARE: f64 = 0.5;

/// A tool's outcome as a repeat of a cell. `traffic` is what it asked of the tree between the ends, and what it
/// read of which files; whether that was buffered, and random, it says itself.
pub fn tool_run(
    outcome: Outcome,
    ends: &Ends<'_>,
    (traffic, read): (Traffic, ReadFiles),
    mut surroundings: Surroundings,
) -> CellRun {
    let mut run = CellRun::from(outcome);
    surroundings.buffered = buffered(traffic).or(surroundings.buffered);
    let read_set = read.bytes().filter(|bytes| !bytes.is_zero());
    let demand = Demand { read_set, read_cold: read.was_cold(), ..asked(traffic) };
    let evidence = ends.end.evidence_since(ends.begin, demand);
    let seconds = evidence.span.as_secs_f64();
    if seconds > 0.0 {
        for (name, value) in processor_use(evidence.processor, seconds, &surroundings) {
            run.metrics.entry(name.to_owned()).or_insert(value);
        }
    }
    run.disk_utilisation = ends.end.utilisation_since(ends.begin, ends.disks);
    run.pitfalls.extend(pitfalls::find(&surroundings, &evidence));
    let phases = ends.phases.iter().map(|phase| {
        let its = Surroundings { buffered: buffered(phase.traffic), ..surroundings.clone() };
        // A phase reads no more than all do.
        let demand = Demand { read_set, ..asked(phase.traffic) };
        let evidence = phase.end.evidence_since(&phase.begin, demand);
        (phases::name_of(phase.name), its, evidence)
    });
    pitfalls::add_phases(phases, &mut run.pitfalls);
    run
}

/// Whether most of it went through the page cache; `None` where nothing was read or written.
fn buffered(traffic: Traffic) -> Option<bool> {
    let ios = traffic.reads + traffic.writes;
    (ios > 0).then_some(traffic.direct * 2 < ios)
}

/// What was asked of a tree, but for which places.
fn asked(traffic: Traffic) -> Demand {
    Demand {
        reads: Moved { ios: traffic.reads, bytes: traffic.read_bytes },
        writes: Moved { ios: traffic.writes, bytes: traffic.written_bytes },
        flushes: traffic.flushes,
        random: traffic.jumps as f64 > RANDOM_SHARE * (traffic.reads + traffic.writes) as f64,
        ..Demand::default()
    }
}
