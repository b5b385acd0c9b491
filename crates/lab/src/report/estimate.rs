//! Figures with their uncertainty, and how several are drawn together.
//!
//! A big study has more cells than a reader has patience, so a report shows means over the levels of
//! the factors that matter least. They are **geometric** means: cells of different block sizes lie
//! factors apart, and an arithmetic mean would be that of the largest alone; and what a reader takes
//! from them are ratios. On the logarithmic scale the mean of *n* independent cells with relative half
//! widths *hᵢ* has the relative half width √(Σ*hᵢ*²)/*n*. That is the uncertainty of the mean of
//! *these* cells; it says nothing of levels that were not run.
//!
//! Where a value is not positive the mean is arithmetic, by the same rule on absolute widths. What is
//! not a finite number is treated as not measured.

use crate::results::{Cell, Metric};

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

    /// The mean of several cells; `None` of none. Of one cell it is the cell's own.
    pub fn mean_of(estimates: &[Estimate]) -> Option<Estimate> {
        let first = *estimates.first()?;
        if estimates.len() == 1 {
            return Some(first);
        }
        let n = estimates.len() as f64;
        let half = |e: &Estimate| (e.high - e.mean).max(e.mean - e.low);
        let geometric = estimates.iter().all(|e| e.mean > 0.0);
        let (mean, width) = if geometric {
            let mean = (estimates.iter().map(|e| e.mean.ln()).sum::<f64>() / n).exp();
            let squares: f64 = estimates.iter().map(|e| (half(e) / e.mean).powi(2)).sum();
            (mean, mean * squares.sqrt() / n)
        } else {
            let mean = estimates.iter().map(|e| e.mean).sum::<f64>() / n;
            (mean, estimates.iter().map(|e| half(e).powi(2)).sum::<f64>().sqrt() / n)
        };
        Some(Estimate {
            mean,
            low: mean - width,
            high: mean + width,
            samples: estimates.iter().map(|e| e.samples).min().unwrap_or(0),
            cells: estimates.iter().map(|e| e.cells).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half: f64) -> Estimate {
        Estimate { mean, low: mean - half, high: mean + half, samples: 3, cells: 1 }
    }

    /// With an arithmetic mean the largest block size alone would decide which layout looks best.
    #[test]
    fn cells_are_drawn_together_by_their_geometric_mean() {
        let both = Estimate::mean_of(&[estimate(10.0, 1.0), estimate(1000.0, 100.0)]).unwrap();
        assert!((both.mean - 100.0).abs() < 1e-9);
        assert!((both.half_width().unwrap() - 100.0 * 0.1 * 2_f64.sqrt() / 2.0).abs() < 1e-9);
        assert_eq!(both.cells, 2);
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
        let both = Estimate::mean_of(&[estimate(0.0, 0.0), estimate(10.0, 1.0)]).unwrap();
        assert_eq!(both.mean, 5.0);
    }
}
