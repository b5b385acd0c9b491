//! The tables of `tiobench.pl`: one a phase, a line a case.
//!
//! Columns have its widths. It cuts the CPU share to its first five characters; here it has the
//! decimals that fit. Over several runs it adds up latencies; here they are means and maxima.

use super::figures::{CaseOutcome, Figure, Phase, TiobenchOutcome};
use std::fmt::Write;

const UNITS: &str = "
Unit information
================
File size = megabytes (2^20 bytes, 1,048,576 bytes)
Blk Size  = bytes
Rate      = megabytes per second
CPU%      = percentage of CPU used during the test
Latency   = milliseconds
Lat%      = percent of requests that took longer than X seconds
CPU Eff   = Rate divided by CPU% - throughput per cpu load
";

const HEAD: &str = "                              File   Blk   Num                         Avg      Maximum      Lat%     Lat%     CPU
Identifier                    Size   Size  Thr      Rate     (CPU%)  Latency    Latency      >2s      >10s     Eff
---------------------------- ------ ------ ---  ------------ ------ --------- -----------  -------- -------- -------
";

/// The phases in the order of the tables, with what heads them.
const TABLES: [(Phase, &str); 4] = [
    (Phase::Read, "Sequential Reads"),
    (Phase::RandomRead, "Random Reads"),
    (Phase::Write, "Sequential Writes"),
    (Phase::RandomWrite, "Random Writes"),
];

/// The tables of a run.
pub fn text(outcome: &TiobenchOutcome) -> String {
    let mut text = UNITS.to_owned();
    for (phase, title) in TABLES {
        // Writing to a string can't fail.
        let _ = write!(text, "\n{title}\n{}\n{HEAD}", "=".repeat(title.len()));
        for done in &outcome.cases {
            if let Some(figure) = done.figure(phase) {
                text.push_str(&line(&outcome.plan.identifier, done, figure));
            }
        }
    }
    text
}

fn line(identifier: &str, done: &CaseOutcome, figure: &Figure) -> String {
    let identifier: String = identifier.chars().take(28).collect();
    let case = done.case;
    let percent = figure.processor_percent();
    let cpu = if percent < 100.0 { format!("{percent:.2}") } else { format!("{percent:.1}") };
    format!(
        "{identifier:<28} {:^6} {:^6} {:>3}  {:>12.2} {cpu:>5}% {:>9.3} {:>11.2}  {:>8.5} {:>8.5} {:>7.0}\n",
        case.size_mib,
        case.block.bytes(),
        case.threads,
        figure.rate_mib_s(),
        figure.latency_ms_mean(),
        figure.latency_ms_max(),
        figure.percent(figure.above_2_s),
        figure.percent(figure.above_10_s),
        figure.efficiency(),
    )
}
