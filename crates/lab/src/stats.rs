//! The statistics of repeats: means and their intervals, tests of differences, effects of factors.
//!
//! One sample is one repeat of a cell, run from a seed or a moment of its own; the thousands of I/Os
//! within a repeat are not independent and count as one. So samples are few (2 to 20), and:
//!
//! * The interval of a mean is Student's t (the default), or the percentile bootstrap, which assumes
//!   no shape but is too narrow below some ten repeats.
//! * Two means are compared by Welch's test, which does not assume equal spreads.
//! * Where a figure is an estimate with a standard error of its own (a rebuild of which stretches were carried out), no
//!   difference is told that is within it, however near the few repeats lie together.
//! * Where many are compared at once, p values are corrected after Holm (1979), or one in twenty
//!   differences would be found where there are none.
//! * Ratios and effects are found on logarithms: a layout that doubles 100 I/Os a second and halves
//!   1000 comes out even.
//!
//! Samples without spread (a simulation that has nothing random in it) are not an error: their
//! interval is a point, and any difference between two such cells is certain.

use crate::results::{Cell, Metric, Results};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use std::collections::BTreeMap;
use stdx::Prng;

/// Resamplings of the bootstrap: at 2000 the ends of a 95 % interval vary by a few hundredths of it.
const BOOTSTRAP_RESAMPLINGS: usize = 2000;

/// How the interval of a mean is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalMethod {
    /// Student's t.
    T,
    /// The percentile bootstrap.
    Bootstrap,
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The difference of two means, `a − b`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// The difference.
    pub difference: f64,
    /// Its interval.
    pub interval: Interval,
    /// How likely a difference as large would be if there were none.
    pub p: f64,
}

impl Welch {
    /// The same where of the difference so large a standard error is known that the spread of few samples may not show: the
    /// interval is no narrower than that leaves it, and chance no less likely.
    pub fn with_known_error(self, error: f64, confidence: f64) -> Welch {
        if error <= 0.0 {
            return self;
        }
        let half = Normal::standard().inverse_cdf(0.5 + confidence / 2.0) * error;
        let p = 2.0 * Normal::standard().cdf(-(self.difference / error).abs());
        let interval = Interval {
            low: self.interval.low.min(self.difference - half),
            high: self.interval.high.max(self.difference + half),
        };
        Welch { interval, p: self.p.max(p), ..self }
    }
}

/// What one factor does to a metric, over the cells of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorEffect {
    /// The workload.
    pub workload: String,
    /// The factor, or the parameter that varies.
    pub factor: String,
    /// Its levels in the study's order.
    pub levels: Vec<LevelEffect>,
    /// The share of the metric's variance (of its logarithm) that goes with the factor, 0 to 1
    /// (η²). What the shares of all factors leave over is their interplay and noise.
    pub share: f64,
    /// Whether every level met the same levels of the other factors equally often. If not, a part of
    /// what the factor seems to do may be another's.
    pub balanced: bool,
}

/// A level's part in a [`FactorEffect`].
#[derive(Clone, Debug, PartialEq)]
pub struct LevelEffect {
    /// The level.
    pub level: String,
    /// The geometric mean over its cells and their repeats.
    pub mean: f64,
    /// That mean, as a multiple of the geometric mean over all cells.
    pub ratio: f64,
}

/// The mean; 0 of nothing.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The variance of the population that the samples are drawn from; 0 of less than two.
pub fn variance(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return 0.0;
    }
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    squares / (samples.len() - 1) as f64
}

/// How many standard errors lie on each side of an estimate with this many degrees of freedom.
fn t_quantile(confidence: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(t) => t.inverse_cdf(0.5 + confidence / 2.0),
        // Degrees of freedom come from a count of samples or Welch's formula, both above 0.
        Err(error) => unreachable!("{freedom} degrees of freedom: {error}"),
    }
}

/// Student's interval of the mean; a point of less than two samples.
pub fn t_interval(samples: &[f64], confidence: f64) -> Interval {
    let mean = mean(samples);
    let deviation = variance(samples).sqrt();
    if samples.len() < 2 || deviation == 0.0 {
        return Interval { low: mean, high: mean };
    }
    debug_assert!((0.0..1.0).contains(&confidence), "a confidence is a share");
    let n = samples.len() as f64;
    let half = t_quantile(confidence, n - 1.0) * deviation / n.sqrt();
    Interval { low: mean - half, high: mean + half }
}

/// The percentile bootstrap's interval of the mean: the means of samples drawn from the samples.
pub fn bootstrap_interval(samples: &[f64], confidence: f64, prng: &mut Prng) -> Interval {
    let n = samples.len();
    if n < 2 {
        let mean = mean(samples);
        return Interval { low: mean, high: mean };
    }
    let mut means: Vec<f64> = (0..BOOTSTRAP_RESAMPLINGS)
        .map(|_| {
            let sum: f64 = (0..n).map(|_| samples[prng.below(n as u64) as usize]).sum();
            sum / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((means.len() - 1) as f64 * share).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    Interval { low: at(tail), high: at(1.0 - tail) }
}

/// A metric of `results.json` from its samples.
pub fn metric(samples: Vec<f64>, confidence: f64, method: IntervalMethod, prng: Prng) -> Metric {
    let interval = match method {
        IntervalMethod::T => t_interval(&samples, confidence),
        IntervalMethod::Bootstrap => {
            let mut prng = prng;
            bootstrap_interval(&samples, confidence, &mut prng)
        }
    };
    Metric { mean: mean(&samples), ci_low: interval.low, ci_high: interval.high, samples }
}

/// Welch's test of two means. None where one of them has a single sample: then nothing is known of
/// its spread.
pub fn welch(a: &[f64], b: &[f64], confidence: f64) -> Option<Welch> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let difference = mean(a) - mean(b);
    let (error_a, error_b) = (variance(a) / a.len() as f64, variance(b) / b.len() as f64);
    let error = (error_a + error_b).sqrt();
    if error == 0.0 {
        let p = if difference == 0.0 { 1.0 } else { 0.0 };
        return Some(Welch {
            difference,
            interval: Interval { low: difference, high: difference },
            p,
        });
    }
    // Welch and Satterthwaite's degrees of freedom.
    let part = |error: f64, n: usize| error.powi(2) / (n - 1) as f64;
    let freedom = (error_a + error_b).powi(2) / (part(error_a, a.len()) + part(error_b, b.len()));
    let half = t_quantile(confidence, freedom) * error;
    let p = match StudentsT::new(0.0, 1.0, freedom) {
        Ok(t) => (2.0 * t.cdf(-(difference / error).abs())).clamp(0.0, 1.0),
        Err(reason) => unreachable!("{freedom} degrees of freedom: {reason}"),
    };
    let interval = Interval { low: difference - half, high: difference + half };
    Some(Welch { difference, interval, p })
}

/// Holm's correction of many p values, in their order: each is at least what it was, and with the
/// corrected ones the chance of any false alarm at all is what one alone would have.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p[index] * (p.len() - rank) as f64).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

/// What several cells come to in each repeat: the mean of their samples of that repeat, as far as all have some. None of no cell.
/// Repeats are independent and cells of one repeat need not be, so it is these that an interval of their mean is of.
pub fn by_repeat(cells: &[&[f64]]) -> Option<Vec<f64>> {
    let repeats = cells.iter().map(|samples| samples.len()).min()?;
    let in_one = |repeat: usize| {
        let sum: f64 = cells.iter().map(|samples| samples[repeat]).sum();
        sum / cells.len() as f64
    };
    Some((0..repeats).map(in_one).collect())
}

/// The geometric mean with its t interval on logarithms. None if a sample is not above 0, or there
/// is none.
pub fn geometric_mean(samples: &[f64], confidence: f64) -> Option<(f64, Interval)> {
    let logs = logarithms(samples)?;
    let interval = t_interval(&logs, confidence);
    let back = Interval { low: interval.low.exp(), high: interval.high.exp() };
    Some((mean(&logs).exp(), back))
}

/// The lowest and the highest of some samples; infinities, the wrong way round, of none.
pub fn ends(samples: &[f64]) -> (f64, f64) {
    let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
    (low, samples.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Whether all samples of one lie on one side of all of the other's.
pub fn are_apart(a: &[f64], b: &[f64]) -> bool {
    let ((low, high), (others_low, others_high)) = (ends(a), ends(b));
    low > others_high || high < others_low
}

/// The natural logarithms of samples that are all above 0; None if one is not, or there is none.
pub fn logarithms(samples: &[f64]) -> Option<Vec<f64>> {
    let above = !samples.is_empty() && samples.iter().all(|sample| *sample > 0.0);
    above.then(|| samples.iter().map(|sample| sample.ln()).collect())
}

/// What each factor and varied parameter does to a metric: for each workload by itself, since
/// workloads have parameters of their own. Workloads in the study's order; in each the strongest
/// effect first. Cells that failed, without the metric, or with samples that are not above 0, are left out.
pub fn effects(results: &Results, metric: &str) -> Vec<FactorEffect> {
    let mut workloads: Vec<&str> = Vec::new();
    for cell in &results.cells {
        if !workloads.contains(&cell.workload.as_str()) {
            workloads.push(&cell.workload);
        }
    }
    workloads.into_iter().flat_map(|workload| workload_effects(results, workload, metric)).collect()
}

fn workload_effects(results: &Results, workload: &str, metric: &str) -> Vec<FactorEffect> {
    let of = |cell: &&Cell| cell.workload == workload && cell.is_sound();
    let mine = results.cells.iter().filter(of);
    let cells: Vec<(&Cell, Vec<f64>)> = mine
        .filter_map(|cell| Some((cell, logarithms(&cell.metrics.get(metric)?.samples)?)))
        .collect();
    let all: Vec<f64> = cells.iter().flat_map(|(_, logs)| logs.iter().copied()).collect();
    let grand = mean(&all);
    let total: f64 = all.iter().map(|log| (log - grand).powi(2)).sum();
    let mut names: Vec<&String> = cells.iter().flat_map(|(cell, _)| cell.factors.keys()).collect();
    names.sort();
    names.dedup();
    let mut effects = Vec::new();
    for name in names {
        let mut levels: Vec<(&String, Vec<f64>)> = Vec::new();
        for (cell, logs) in &cells {
            let Some(level) = cell.factors.get(name) else { continue };
            match levels.iter_mut().find(|(other, _)| *other == level) {
                Some((_, samples)) => samples.extend(logs),
                None => levels.push((level, logs.clone())),
            }
        }
        if levels.len() < 2 {
            continue; // What does not vary has no effect to speak of.
        }
        let between: f64 =
            levels.iter().map(|(_, logs)| logs.len() as f64 * (mean(logs) - grand).powi(2)).sum();
        effects.push(FactorEffect {
            workload: workload.to_owned(),
            factor: name.clone(),
            share: if total > 0.0 { between / total } else { 0.0 },
            balanced: is_balanced(&cells, name),
            levels: levels
                .into_iter()
                .map(|(level, logs)| LevelEffect {
                    level: level.clone(),
                    mean: mean(&logs).exp(),
                    ratio: (mean(&logs) - grand).exp(),
                })
                .collect(),
        });
    }
    effects.sort_by(|a, b| b.share.total_cmp(&a.share));
    effects
}

/// Whether each level of the factor met each combination of the others' levels with equally many
/// samples.
fn is_balanced(cells: &[(&Cell, Vec<f64>)], name: &str) -> bool {
    let mut met: BTreeMap<&str, BTreeMap<Vec<&str>, usize>> = BTreeMap::new();
    for (cell, logs) in cells {
        let Some(level) = cell.factors.get(name) else { continue };
        let others = cell.factors.iter().filter(|(key, _)| *key != name);
        let others: Vec<&str> = others.flat_map(|(key, level)| [key.as_str(), level]).collect();
        *met.entry(level).or_default().entry(others).or_default() += logs.len();
    }
    let mut combinations = met.values();
    let first = combinations.next();
    combinations.all(|other| Some(other) == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From the tables of Student's t that stand in every textbook.
    #[test]
    fn t_quantiles_agree_with_the_printed_tables() {
        for (confidence, freedom, expected) in [
            (0.95, 1.0, 12.706),
            (0.95, 2.0, 4.303),
            (0.95, 4.0, 2.776),
            (0.99, 9.0, 3.250),
            (0.90, 30.0, 1.697),
        ] {
            let t = t_quantile(confidence, freedom);
            assert!((t - expected).abs() < 0.001, "{confidence} {freedom}: {t}");
        }
    }

    /// The expected figures come from integrating Student's density numerically, apart from statrs.
    #[test]
    fn welch_agrees_with_an_integration_by_hand() {
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8];
        let test = welch(&a, &b, 0.95).expect("both have a spread");
        assert!((test.difference + 2.7944444).abs() < 1e-6, "{test:?}");
        assert!((test.p - 0.0214607).abs() < 1e-6, "{test:?}");
        assert_eq!(welch(&a[..1], &b, 0.95), None);
    }

    #[test]
    fn holm_agrees_with_its_worked_example() {
        // As R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - expected).abs() < 1e-12, "{corrected:?}");
        }
    }

    #[test]
    fn samples_without_spread_have_a_point_as_interval_and_a_certain_difference() {
        assert_eq!(t_interval(&[3.0; 4], 0.95), Interval { low: 3.0, high: 3.0 });
        assert_eq!(welch(&[3.0; 4], &[3.0; 4], 0.95).map(|test| test.p), Some(1.0));
        assert_eq!(welch(&[3.0; 4], &[4.0; 4], 0.95).map(|test| test.p), Some(0.0));
    }

    /// Three repeats that happen to lie together do not make an estimate better than it says it is.
    #[test]
    fn a_known_error_widens_what_a_few_samples_say() {
        let test = welch(&[1.016, 1.017, 1.015], &[1.0, 1.001, 0.999], 0.95).expect("3 of each");
        assert!(test.p < 0.001);
        let known = test.with_known_error(0.025, 0.95);
        assert!((known.p - 0.522).abs() < 0.001, "{known:?}");
        assert!((known.interval.high - (0.016 + 1.96 * 0.025)).abs() < 1e-4, "{known:?}");
        assert_eq!(test.with_known_error(0.0, 0.95), test);
        let wide = welch(&[1.0, 3.0], &[1.5, 0.5], 0.95).expect("2 of each");
        assert_eq!(wide.with_known_error(0.001, 0.95), wide);
    }

    #[test]
    fn a_bootstrap_of_one_seed_repeats_itself() {
        let samples = [9.0, 10.0, 11.0, 10.5, 9.5, 12.0];
        let interval = |seed| bootstrap_interval(&samples, 0.95, &mut Prng::new(seed));
        assert_eq!(interval(1), interval(1));
        assert!(interval(1).low < mean(&samples) && mean(&samples) < interval(1).high);
    }

    /// Draws 2000 times from a population whose mean is known.
    #[test]
    fn a_95_percent_interval_holds_the_truth_95_times_in_100() {
        let mut prng = Prng::new(11);
        let runs = 2000;
        let mut held = 0;
        for _ in 0..runs {
            // The sum of 12 uniform draws: as good as normal, with mean 6.
            let samples: Vec<f64> =
                (0..5).map(|_| (0..12).map(|_| prng.unit()).sum::<f64>()).collect();
            let interval = t_interval(&samples, 0.95);
            held += usize::from(interval.low <= 6.0 && 6.0 <= interval.high);
        }
        let share = held as f64 / runs as f64;
        assert!((0.935..0.965).contains(&share), "{share}");
    }

    fn cell(layout: &str, depth: &str, samples: &[f64]) -> Cell {
        let metric = metric(samples.to_vec(), 0.95, IntervalMethod::T, Prng::new(0));
        Cell {
            id: format!("layout={layout}/random/queue_depth={depth}"),
            factors: BTreeMap::from([
                ("layout".to_owned(), layout.to_owned()),
                ("queue_depth".to_owned(), depth.to_owned()),
            ]),
            workload: "random".to_owned(),
            repeats: samples.len() as u32,
            metrics: BTreeMap::from([("iops".to_owned(), metric)]),
            disk_utilisation: BTreeMap::new(),
            latency: Vec::new(),
            progress: Vec::new(),
            warnings: Vec::new(),
            pitfalls: Vec::new(),
            error: None,
            parameters: BTreeMap::new(),
            main_metric: None,
            rounds: Vec::new(),
        }
    }

    fn results(cells: Vec<Cell>) -> Results {
        Results {
            format: crate::results::FORMAT,
            study: "s".to_owned(),
            title: String::new(),
            question: String::new(),
            seed: 1,
            spindle_version: String::new(),
            simulated: true,
            quick: false,
            machine: BTreeMap::new(),
            confidence: 0.95,
            cells,
            claims: Vec::new(),
            verdict: String::new(),
            notes: Vec::new(),
            partial: None,
            run: crate::results::RunFacts::default(),
            rankings: Vec::new(),
            layouts: Vec::new(),
        }
    }

    #[test]
    fn effects_find_which_factor_matters_and_by_how_much() {
        // Queue depth multiplies by 4, layout by 2, nothing else happens.
        let run = results(vec![
            cell("a", "1", &[100.0, 100.0]),
            cell("a", "16", &[400.0, 400.0]),
            cell("b", "1", &[200.0, 200.0]),
            cell("b", "16", &[800.0, 800.0]),
        ]);
        let effects = effects(&run, "iops");
        let shares: Vec<(&str, f64)> =
            effects.iter().map(|effect| (effect.factor.as_str(), effect.share)).collect();
        assert_eq!(shares.len(), 2);
        assert_eq!(shares[0].0, "queue_depth");
        assert!((shares[0].1 - 0.8).abs() < 1e-9 && (shares[1].1 - 0.2).abs() < 1e-9, "{shares:?}");
        let levels = &effects[0].levels;
        assert!((levels[1].mean / levels[0].mean - 4.0).abs() < 1e-9);
        assert!((levels[1].ratio - 2.0).abs() < 1e-9);
        assert!(effects.iter().all(|effect| effect.balanced));
    }

    #[test]
    fn a_missing_cell_is_seen_as_imbalance() {
        let run = results(vec![
            cell("a", "1", &[100.0]),
            cell("a", "16", &[400.0]),
            cell("b", "1", &[200.0]),
        ]);
        assert!(effects(&run, "iops").iter().all(|effect| !effect.balanced));
        assert!(effects(&run, "no_such_metric").is_empty());
    }

    proptest! {
        /// The mean lies in its interval, and more confidence never makes it narrower.
        #[test]
        fn intervals_hold_the_mean_and_widen_with_confidence(
            samples in prop::collection::vec(1.0..1e6_f64, 1..12),
        ) {
            let (narrow, wide) = (t_interval(&samples, 0.8), t_interval(&samples, 0.99));
            let mean = mean(&samples);
            prop_assert!(narrow.low <= mean && mean <= narrow.high);
            prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
            let drawn = bootstrap_interval(&samples, 0.95, &mut Prng::new(1));
            let largest = samples.iter().copied().fold(f64::MIN, f64::max);
            let smallest = samples.iter().copied().fold(f64::MAX, f64::min);
            prop_assert!(smallest * (1.0 - 1e-12) <= drawn.low);
            prop_assert!(drawn.low <= drawn.high && drawn.high <= largest * (1.0 + 1e-12));
        }

        /// a against b is b against a, with the sign turned; p is a probability.
        #[test]
        fn welch_is_antisymmetric(
            a in prop::collection::vec(1.0..1e3_f64, 2..8),
            b in prop::collection::vec(1.0..1e3_f64, 2..8),
        ) {
            let (ab, ba) = (welch(&a, &b, 0.95).expect("2"), welch(&b, &a, 0.95).expect("2"));
            prop_assert!((ab.difference + ba.difference).abs() < 1e-9);
            prop_assert!((ab.p - ba.p).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&ab.p));
            // The test and the interval say the same.
            let excludes_zero = ab.interval.low > 0.0 || ab.interval.high < 0.0;
            prop_assert!(excludes_zero == (ab.p < 0.05) || (ab.p - 0.05).abs() < 1e-6);
        }

        /// Correction never makes a p value smaller, and keeps their order.
        #[test]
        fn holm_only_raises(p in prop::collection::vec(0.0..=1.0_f64, 0..30)) {
            let corrected = holm(&p);
            for i in 0..p.len() {
                prop_assert!(corrected[i] >= p[i] && corrected[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || corrected[i] <= corrected[j]);
                }
            }
        }

        /// Shares of a balanced design are shares: none negative, together no more than the whole.
        #[test]
        fn effect_shares_are_shares(values in prop::collection::vec(1.0..1e4_f64, 12)) {
            let mut cells = Vec::new();
            for (at, value) in values.chunks(2).enumerate() {
                cells.push(cell(["a", "b", "c"][at / 2], ["1", "16"][at % 2], value));
            }
            let total: f64 = effects(&results(cells), "iops").iter().map(|e| e.share).sum();
            prop_assert!((0.0..=1.0 + 1e-9).contains(&total));
        }
    }
}
