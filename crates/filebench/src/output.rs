//! The lines that filebench's users know.

use super::fileset::Fileset;
use super::plan::{FilesetPlan, Number};
use super::statistics::{Figures, Summary};
use std::fmt::Write as _;
use std::time::Duration;

/// The version whose language and figures these are.
pub const VERSION: &str = "1.5-alpha3";

/// A line with its time, as filebench prints it: seconds since the beginning.
pub fn stamped(at: Duration, text: &str) -> String {
    format!("{:.3}: {text}", at.as_secs_f64())
}

/// `Per-Operation Breakdown` and a line for each flowop; the last defined one comes first.
pub fn breakdown(figures: &Figures) -> String {
    let seconds = figures.duration.as_secs_f64().max(f64::MIN_POSITIVE);
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let mut text = "Per-Operation Breakdown".to_owned();
    for (name, row) in figures.rows_by_name().iter().rev() {
        let min = if row.ops == 0 { Duration::ZERO } else { row.min };
        // Writing into a string can't fail.
        let _ = write!(
            text,
            "\n{name:<20} {}ops {:8.0}ops/s {:5.1}mb/s {:8.3}ms/op [{:.3}ms - {:5.3}ms]",
            row.ops,
            row.ops as f64 / seconds,
            row.bytes as f64 / f64::from(1 << 20) / seconds,
            row.latency_ms_mean(),
            ms(min),
            ms(row.max),
        );
        if figures.latency_histogram {
            text.push_str("\t[ ");
            for class in row.classes {
                let _ = write!(text, "{class} ");
            }
            text.push(']');
        }
    }
    text
}

/// `IO Summary:` and the sums.
pub fn summary(summary: &Summary) -> String {
    let seconds = summary.duration.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "IO Summary: {:5} ops {:5.3} ops/s {:.0}/{:.0} rd/wr {:5.1}mb/s {:5.3}ms/op",
        summary.all.ops,
        summary.ops_per_second(),
        summary.reads as f64 / seconds,
        summary.writes as f64 / seconds,
        summary.mib_per_second(),
        summary.all.latency_ms_mean(),
    )
}

/// What a fileset came to; nothing for a single file, as in filebench.
pub(super) fn populated(set: &Fileset) -> Option<String> {
    (!set.plan.is_file).then(|| {
        format!(
            "{} populated: {} files, avg. dir. width = {}, avg. dir. depth = {:.1}, {} leafdirs, \
             {:.3}MB total size",
            set.plan.name,
            set.plan.entries,
            set.mean_width,
            set.mean_depth,
            set.plan.leaf_directories,
            set.bytes as f64 / f64::from(1 << 20),
        )
    })
}

/// `list fileset`; the last defined one comes first.
pub(super) fn fileset_list(filesets: &[FilesetPlan]) -> Vec<String> {
    let mut lines = vec![format!(
        "File or Fileset name{:>20}{:>12}{:>10}",
        "file size", "dir width", "entries"
    )];
    let number = |number: Number| match number {
        Number::Constant(number) => number.to_string(),
        Number::Random(_) => "random".to_owned(),
    };
    for fileset in filesets.iter().rev() {
        let path = format!("{}/{}", fileset.shown_path, fileset.name);
        // filebench fills up to 31 characters, and puts one blank behind a longer name.
        let size = number(fileset.size);
        lines.push(match fileset.is_file {
            true => format!("{path:<31}{size:>9}     (Single File)"),
            false => {
                format!("{path:<31}{size:>9}{:>12}{:>10}", number(fileset.width), fileset.entries)
            }
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    //! What could break: a column that a script cuts out of the line.

    use super::*;
    use crate::plan::{FlowopKind, Row, RunPlan};
    use crate::statistics::FlowopStatistics;

    fn figures() -> Figures {
        let row = |name: &str, kind| Row { name: name.into(), kind };
        let run = RunPlan {
            duration: None,
            period: None,
            mode: crate::plan::QuitMode::Timeout,
            event_rate: None,
            latency_histogram: false,
            processes: Vec::new(),
            rows: vec![row("read1", FlowopKind::Read), row("limit", FlowopKind::EventLimit)],
        };
        let mut figures = Figures::new(&run, Duration::from_secs(2));
        figures.rows[0].1 = FlowopStatistics {
            ops: 104_353,
            bytes: 498 << 20,
            total: Duration::from_nanos(104_353 * 4_250),
            min: Duration::from_micros(1),
            max: Duration::from_micros(12_165),
            ..FlowopStatistics::default()
        };
        figures
    }

    #[test]
    fn lines_have_filebenchs_columns() {
        let figures = figures();
        assert_eq!(
            breakdown(&figures),
            "Per-Operation Breakdown\n\
             limit                0ops        0ops/s   0.0mb/s    0.000ms/op [0.000ms - 0.000ms]\n\
             read1                104353ops    52176ops/s 249.0mb/s    0.004ms/op [0.001ms - 12.165ms]"
        );
        assert_eq!(
            summary(&figures.summary()),
            "IO Summary: 104353 ops 52176.500 ops/s 52176/0 rd/wr 249.0mb/s 0.004ms/op"
        );
        assert_eq!(stamped(Duration::from_micros(3_036_600), "Running..."), "3.037: Running...");
    }
}
