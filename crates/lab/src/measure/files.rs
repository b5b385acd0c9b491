//! A tool's run on a tree of files, held against what the disks below did.
//!
//! The tool has figures of its own. Beside them stand the counters of disks and host at both ends of its
//! run, and what all its workers asked of the tree ([`Traffic`]): from these come the same metrics of cost
//! and the same pitfalls as of a block workload.

use crate::measure::{DiskView, Mark, processor_use};
use crate::pitfalls::{self, Demand, Moved, Surroundings};
use crate::target::CellRun;
use rt::filter::{ReadFiles, Traffic};
use std::rc::Rc;
use workload::outcome::Outcome;

/// The counters at both ends of a run.
pub struct Ends<'a> {
    /// When it began.
    pub begin: &'a Mark,
    /// When it ended.
    pub end: &'a Mark,
    /// The disks of the counters.
    pub disks: &'a [Rc<dyn DiskView>],
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
    let ios = traffic.reads + traffic.writes;
    if ios > 0 {
        surroundings.buffered = Some(traffic.direct * 2 < ios);
    }
    let demand = Demand {
        reads: Moved { ios: traffic.reads, bytes: traffic.read_bytes },
        writes: Moved { ios: traffic.writes, bytes: traffic.written_bytes },
        flushes: traffic.flushes,
        random: traffic.jumps as f64 > RANDOM_SHARE * ios as f64,
        read_set: read.bytes().filter(|bytes| !bytes.is_zero()),
        ..Demand::default()
    };
    let evidence = ends.end.evidence_since(ends.begin, demand);
    let seconds = evidence.span.as_secs_f64();
    if seconds > 0.0 {
        for (name, value) in processor_use(evidence.processor, seconds, &surroundings) {
            run.metrics.entry(name.to_owned()).or_insert(value);
        }
    }
    run.disk_utilisation = ends.end.utilisation_since(ends.begin, ends.disks);
    run.pitfalls.extend(pitfalls::find(&surroundings, &evidence));
    run
}
