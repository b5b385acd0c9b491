//! What SLOB's users look for in a database's report: physical reads and writes, redo, and latencies.

use super::conf::{RedoStress, Scale};
use super::engine::SlobOutcome;
use super::plan::Plan;
use super::tally::Counted;
use std::fmt::Write;

/// What is run, as `runit.sh` prints its parameters.
pub fn parameters(plan: &Plan) -> String {
    let conf = &plan.conf;
    let scale = match conf.scale {
        Scale::Blocks(blocks) => format!("{blocks} blocks"),
        Scale::Bytes(bytes) => format!("{bytes} ({} blocks)", plan.table_blocks),
    };
    let redo = match conf.redo_stress {
        RedoStress::Lite => "LITE",
        RedoStress::Heavy => "HEAVY",
    };
    let count = |percent: u8| {
        plan.sessions.iter().filter(|session| session.update_percent == percent).count()
    };
    let sessions = plan.sessions.len();
    let kinds = match (count(0), count(100)) {
        (readers, writers) if readers + writers == sessions && writers > 0 => {
            format!("{readers} readers, {writers} writers")
        }
        (readers, _) if readers == sessions => format!("{readers} readers"),
        _ => format!("{sessions} sessions, UPDATE_PCT: {}", conf.update_percent),
    };
    let hotspot = match plan.hotspot {
        None => String::new(),
        Some((first, blocks, frequency)) => {
            format!(", hotspot of {blocks} blocks from {first}, every {frequency} statements")
        }
    };
    format!(
        "{kinds} in {} schemas, SCALE: {scale}, blocks of {}, WORK_UNIT: {}, SCAN_PCT: {}, \
         REDO_STRESS: {redo}{hotspot}",
        plan.schemas, plan.block, conf.work_unit, conf.scan_percent
    )
}

/// The figures.
pub fn report(outcome: &SlobOutcome) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
    line(format!(
        "{:<22} {:>12} {:>10} {:>12} {:>12} {:>12}",
        "", "per second", "MB/s", "mean us", "p50 us", "p99 us"
    ));
    let mut row = |name: &str, counted: &Counted| {
        if counted.count == 0 {
            return;
        }
        let [mean, p50, p99] = counted.latency_us();
        line(format!(
            "{name:<22} {:>12.1} {:>10.2} {mean:>12.1} {p50:>12.1} {p99:>12.1}",
            outcome.per_second(counted.count),
            outcome.per_second(counted.bytes) / 1e6,
        ));
    };
    row("Physical reads", &outcome.reads);
    row("Physical writes", &outcome.writes);
    row("Scan reads", &outcome.scanned);
    row("Redo writes", &outcome.redo);
    row("Commits", &outcome.commits);
    line(format!(
        "{:<22} {:>12.2}   ({} queries, {} updates, {} scans)",
        "Statements",
        outcome.per_second(outcome.queries + outcome.updates + outcome.scans),
        outcome.queries,
        outcome.updates,
        outcome.scans
    ));
    line(format!(
        "{:<22} {:>12.3}   processors busy, over {:.2} s",
        "Processor",
        outcome.processors_busy(),
        outcome.time.as_secs_f64()
    ));
    text
}
