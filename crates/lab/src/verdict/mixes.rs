//! A mix of reads and writes that does more than either alone: a figure that looks like an error and is none.
//!
//! Reads alone leave a disk with few requests to choose among, or with none for a moment; a write is answered from its cache,
//! and written back where the heads come by in between. A link that carries both ways at once does the same.

use crate::claims::Measured;
use crate::metrics::{SHOWN_RATIO_MIN, quantity};
use crate::results::{Cell, Metric};
use crate::stats;
use crate::study::Kind;
use std::collections::BTreeMap;

/// The metric that is compared.
const METRIC: &str = "iops";
/// The parameter by which such cells differ.
const KEY: &str = "read_share";

/// A cell of a workload, by the share of reads.
type ByShare<'a> = (f64, &'a Cell, &'a Metric);

/// What cells that are compared share: the workload, and the levels of all else.
type Alike<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// A sentence for each workload that has such a mix.
pub(super) fn sentences(cells: &[Measured<'_>]) -> Vec<String> {
    let mut alike: BTreeMap<Alike<'_>, Vec<ByShare<'_>>> = BTreeMap::new();
    for measured in cells {
        let Kind::Random(random) = &measured.spec.workload.kind else { continue };
        let Some(metric) = measured.cell.metrics.get(METRIC) else { continue };
        let factors = measured.cell.factors.iter().filter(|(name, _)| *name != KEY);
        let rest = factors.map(|(name, level)| (name.as_str(), level.as_str())).collect();
        let key = (measured.cell.workload.as_str(), rest);
        alike.entry(key).or_default().push((random.read_share, measured.cell, metric));
    }
    // Of a workload the cells where it does most beyond both.
    let mut most: BTreeMap<&str, (f64, String)> = BTreeMap::new();
    for ((workload, _), cells) in &alike {
        let Some((ratio, text)) = beyond_both(cells) else { continue };
        if most.get(workload).is_none_or(|(known, _)| ratio > *known) {
            most.insert(workload, (ratio, text));
        }
    }
    let sentence = |(workload, (_, text)): (&str, (f64, String))| {
        format!(
            "Of {workload}, reads and writes mixed do more than either alone ({text}). That is no error: what a write \
             cache has answered is written back in between the reads, and a link may carry both ways at once."
        )
    };
    most.into_iter().map(sentence).collect()
}

/// By which factor a mix is above both reads and writes alone, in each repeat, with the figures.
fn beyond_both(cells: &[ByShare<'_>]) -> Option<(f64, String)> {
    let alone = |share: f64| cells.iter().find(|(its, ..)| *its == share);
    let ((_, _, reads), (_, _, writes)) = (alone(1.0)?, alone(0.0)?);
    let (_, cell, mixed) = cells
        .iter()
        .filter(|(share, ..)| *share > 0.0 && *share < 1.0)
        .max_by(|(.., one), (.., other)| one.mean.total_cmp(&other.mean))?;
    let ratio = mixed.mean / reads.mean.max(writes.mean);
    let is_above = |other: &Metric| stats::ends(&mixed.samples).0 > stats::ends(&other.samples).1;
    (ratio >= SHOWN_RATIO_MIN && is_above(reads) && is_above(writes)).then(|| {
        let figure = |metric: &Metric| quantity(METRIC, metric.mean);
        let (mixed, reads, writes) = (figure(mixed), figure(reads), figure(writes));
        (ratio, format!("{}: {mixed}, against {reads} of reads and {writes} of writes", cell.id))
    })
}
