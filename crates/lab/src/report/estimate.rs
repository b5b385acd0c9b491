//! Figures with their uncertainty, and how several are drawn together.
//!
//! A big study has more cells than a reader has patience, so a report shows means over the levels of
//! the factors that matter least. They are **geometric** means: cells of different block sizes lie
//! factors apart, and an arithmetic mean would be that of the largest alone; and what a reader takes
//! from them are ratios.
//!
//! Their interval is found as the verdict finds that of a score ([`crate::stats::by_repeat`]), so that one mean has one interval
//! wherever it stands: the geometric mean of the cells in each repeat is a sample, and Student's interval is of those. It is the
//! uncertainty of the mean of *these* cells; it says nothing of levels that were not run.
//!
//! Where a value is not positive the mean is arithmetic, by the same rule. What is
//! not a finite number is treated as not measured.

use crate::results::{Cell, Metric};
use crate::stats;

/// A mean with the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The fewest repeats behind any part of it; with one there is no interval.
    pub samples: usize,
    /// How many cells were drawn together.
    pub cells: usize,
}

impl Estimate {
    /// A metric of a cell; `None` where it has no finite mean.
    pub fn of(metric: &Metric) -> Option<Estimate> {
        let end = |value: f64| if value.is_finite() { value } else { metric.mean };
        metric.mean.is_finite().then(|| Estimate {
            mean: metric.mean,
            low: end(metric.ci_low).min(metric.mean),
            high: end(metric.ci_high).max(metric.mean),
            samples: metric.samples.len(),
            cells: 1,
        })
    }

    /// A cell's metric by name.
    pub fn of_cell(cell: &Cell, metric: &str) -> Option<Estimate> {
        Estimate::of(cell.metrics.get(metric)?)
    }

    /// The distance to the farther end of the interval; `None` where there is only one sample.
    pub fn half_width(self) -> Option<f64> {
        let half = (self.high - self.mean).max(self.mean - self.low);
        (self.samples > 1 || half > 0.0).then_some(half)
    }

    /// The mean of a metric of several cells; `None` of none. Of one cell it is the cell's own.
    pub fn mean_of(metrics: &[&Metric], confidence: f64) -> Option<Estimate> {
        let finite = |metric: &&&Metric| metric.mean.is_finite();
        let metrics: Vec<&Metric> = metrics.iter().filter(finite).copied().collect();
        if let [one] = metrics.as_slice() {
            return Estimate::of(one);
        }
        let samples = |metric: &Metric| match metric.samples.is_empty() {
            true => vec![metric.mean],
            false => metric.samples.clone(),
        };
        let all: Vec<Vec<f64>> = metrics.iter().map(|metric| samples(metric)).collect();
        let logs: Option<Vec<Vec<f64>>> =
            all.iter().map(|samples| stats::logarithms(samples)).collect();
        let is_geometric = logs.is_some();
        let back = |value: f64| if is_geometric { value.exp() } else { value };
        let all = logs.unwrap_or(all);
        let cells: Vec<&[f64]> = all.iter().map(Vec::as_slice).collect();
        let repeats = stats::by_repeat(&cells)?;
        let interval = stats::t_interval(&repeats, confidence);
        Some(Estimate {
            mean: back(stats::mean(&repeats)),
            low: back(interval.low),
            high: back(interval.high),
            samples: repeats.len(),
            cells: metrics.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(samples: &[f64]) -> Metric {
        let prng = stdx::Prng::new(1);
        stats::metric(samples.to_vec(), 0.95, stats::IntervalMethod::T, prng)
    }

    /// With an arithmetic mean the largest block size alone would decide which layout looks best.
    #[test]
    fn cells_are_drawn_together_by_their_geometric_mean() {
        let (small, large) = (metric(&[9.0, 10.0, 11.0]), metric(&[990.0, 1000.0, 1010.0]));
        let both = Estimate::mean_of(&[&small, &large], 0.95).unwrap();
        let repeats = [(9.0_f64 * 990.0).sqrt(), 100.0, (11.0_f64 * 1010.0).sqrt()];
        let (mean, interval) = stats::geometric_mean(&repeats, 0.95).expect("above 0");
        for (is, expected) in
            [(both.mean, mean), (both.low, interval.low), (both.high, interval.high)]
        {
            assert!((is / expected - 1.0).abs() < 1e-9, "{both:?}");
        }
        assert_eq!((both.cells, both.samples), (2, 3));
        let one = Estimate::mean_of(&[&small], 0.95).unwrap();
        assert_eq!((one.mean, one.low), (small.mean, small.ci_low), "a cell's own");
    }

    #[test]
    fn a_figure_that_is_no_number_counts_as_not_measured() {
        let metric =
            Metric { mean: f64::NAN, ci_low: 0.0, ci_high: 1.0, samples: vec![f64::NAN, 1.0] };
        assert_eq!(Estimate::of(&metric), None);
        let open =
            Metric { mean: 5.0, ci_low: f64::NEG_INFINITY, ci_high: 6.0, samples: vec![5.0] };
        assert_eq!(Estimate::of(&open).unwrap().low, 5.0);
    }

    #[test]
    fn a_zero_among_the_cells_does_not_swallow_the_mean() {
        let both = Estimate::mean_of(&[&metric(&[0.0, 0.0]), &metric(&[9.0, 11.0])], 0.95).unwrap();
        assert_eq!(both.mean, 5.0);
    }
}
