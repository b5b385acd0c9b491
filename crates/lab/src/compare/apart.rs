//! How far apart in time two runs lie, and by how much figures may drift over that.

use crate::results::{Metric, Results};
use crate::stats;

/// How far apart in time two runs lie.
pub(super) struct Apart {
    /// From the middle of one to the middle of the other.
    pub(super) gap_s: f64,
    /// How long the longer one took.
    length_s: f64,
}

impl Apart {
    pub(super) fn of(a: &Results, b: &Results) -> Option<Apart> {
        let ends = |results: &Results| {
            let run = &results.run;
            Some((run.began_unix_s? as f64, run.ended_unix_s? as f64))
        };
        let ((a_began, a_ended), (b_began, b_ended)) = (ends(a)?, ends(b)?);
        let gap_s = ((b_began + b_ended) - (a_began + a_ended)).abs() / 2.0;
        // A run of no second is one: dates have no more.
        let length_s = (a_ended - a_began).max(b_ended - b_began).max(1.0);
        Some(Apart { gap_s, length_s })
    }

    /// The share by which a figure may drift from the one run to the other.
    pub(super) fn drift(&self, figure: &Metric) -> f64 {
        let (low, high) = stats::ends(&figure.samples);
        if figure.samples.len() < 2 || figure.mean == 0.0 {
            return 0.0;
        }
        (high - low) / figure.mean.abs() * (self.gap_s / self.length_s).max(1.0).sqrt()
    }
}
