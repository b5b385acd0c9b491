//! The table of a run over small files: a line a phase.

use super::figures::{Phase, SmallFilesOutcome};
use std::fmt::Write;

/// `1 thread`, `4 threads`.
fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// The table of a run.
pub fn text(outcome: &SmallFilesOutcome) -> String {
    let plan = &outcome.plan;
    let mut text = format!(
        "{} files of {} in {}, {}, blocks of {}; {}\n\n",
        plan.files,
        plan.sizes,
        counted(plan.directories, "directory", "directories"),
        counted(plan.threads.into(), "thread", "threads"),
        plan.block,
        outcome.content
    );
    text.push_str(
        "phase       files     files/s      MB/s    mean µs     p50 µs     p99 µs     max µs   CPU%\n",
    );
    for phase in Phase::ALL {
        let Some(figure) = outcome.figure(phase) else { continue };
        let throughput = match figure.bytes {
            0 => "-".to_owned(),
            _ => format!("{:.1}", figure.throughput_mb_s()),
        };
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "{:<7} {:>9} {:>11.0} {throughput:>9} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>6.1}",
            phase.word(),
            figure.files,
            figure.files_per_s(),
            figure.latency_us_mean(),
            figure.latency_us(0.5),
            figure.latency_us(0.99),
            figure.latency_us(1.0),
            figure.processor_percent(),
        );
    }
    text
}
