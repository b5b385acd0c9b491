//! When a workload is steady: the rule of SNIA's Solid State Storage Performance Test Specification.
//!
//! A disk with an empty cache or a fresh SSD is faster at first than ever again. So a workload runs
//! in rounds of equal length, each giving one value (its rate), until the last `window` rounds are
//! steady:
//!
//! 1. data excursion: the largest value minus the smallest is at most `range` of their average, and
//! 2. slope excursion: the least-squares line through them rises or falls, from the first round of
//!    the window to its last, by at most `slope` of the average.
//!
//! Both are shares of the average: SNIA's 0.20 and 0.10, over 5 rounds, within 25. A third condition is ours: what write
//! caches are seen must not be filling any more ([`Evidence::caches_fill`](crate::pitfalls::Evidence::caches_fill)). A cache
//! that fills for as long as five short rounds last gives five equal values, and then others. After `rounds_max`
//! rounds the rule gives up: the figures are of the last window all the same, and carry a warning.
//!
//! States: not yet → steady or gave up; nothing is fed in after that. Pure logic: it neither runs
//! rounds nor knows how long they are. A window in which nothing was done at all is not steady.

use crate::pitfalls::Pitfall;
use std::ops::Range;
use std::time::Duration;

/// When a workload counts as steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyRules {
    /// The length of a round. Shorter: more noise in each value; longer: more waiting.
    pub round: Duration,
    /// How many rounds must be steady together.
    pub window: u32,
    /// After so many rounds it gives up.
    pub rounds_max: u32,
    /// The largest data excursion, as a share of the window's average.
    pub range: f64,
    /// The largest slope excursion, as a share of the window's average.
    pub slope: f64,
}

impl Default for SteadyRules {
    /// SNIA's limits, with rounds of 2 s.
    fn default() -> SteadyRules {
        SteadyRules {
            round: Duration::from_secs(2),
            window: 5,
            rounds_max: 25,
            range: 0.20,
            slope: 0.10,
        }
    }
}

/// What is known after a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Steady {
    /// Go on.
    NotYet,
    /// The window of the report is what to measure.
    Steady(WindowReport),
    /// It never became steady; the report is of the last window.
    GaveUp(WindowReport),
}

/// The figures of a window, as SNIA has them reported.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowReport {
    /// The rounds of the window, counted from 0.
    pub rounds: Range<usize>,
    /// Average of their values.
    pub average: f64,
    /// Where the least-squares line begins, at the window's first round.
    pub line_start: f64,
    /// Where it ends, at the window's last round.
    pub line_end: f64,
    /// Largest minus smallest value, as a share of the average.
    pub data_excursion: f64,
    /// How far the line rises or falls, as a share of the average.
    pub slope_excursion: f64,
}

/// Watches the rounds of one workload.
#[derive(Clone, Debug)]
pub struct SteadyState {
    rules: SteadyRules,
    values: Vec<f64>,
}

impl SteadyState {
    /// Nothing has run yet.
    pub fn new(rules: SteadyRules) -> SteadyState {
        SteadyState { rules, values: Vec::new() }
    }

    /// The values so far, one a round.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Takes the value of the round that just ended. `filling` says whether over the window that ends with it write caches
    /// filled.
    pub fn push(&mut self, value: f64, filling: bool) -> Steady {
        self.values.push(value);
        let window = self.rules.window as usize;
        let Some(start) = self.values.len().checked_sub(window) else {
            return self.not_yet_or_gave_up(0);
        };
        let report = WindowReport::of(&self.values, start);
        if report.is_steady(&self.rules) && !filling {
            return Steady::Steady(report);
        }
        self.not_yet_or_gave_up(start)
    }

    fn not_yet_or_gave_up(&self, start: usize) -> Steady {
        if self.values.len() < self.rules.rounds_max as usize {
            return Steady::NotYet;
        }
        Steady::GaveUp(WindowReport::of(&self.values, start))
    }
}

impl WindowReport {
    /// The figures of the rounds from `start` on.
    fn of(values: &[f64], start: usize) -> WindowReport {
        let window = &values[start..];
        let n = window.len() as f64;
        let average = window.iter().sum::<f64>() / n;
        // Least squares with the rounds at 0, 1, 2, ...: the line goes through (middle, average).
        let middle = (n - 1.0) / 2.0;
        let (mut products, mut squares) = (0.0, 0.0);
        for (round, value) in window.iter().enumerate() {
            let x = round as f64 - middle;
            products += x * (value - average);
            squares += x * x;
        }
        let slope = if squares > 0.0 { products / squares } else { 0.0 };
        let largest = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = window.iter().copied().fold(f64::INFINITY, f64::min);
        WindowReport {
            rounds: start..values.len(),
            average,
            line_start: average - slope * middle,
            line_end: average + slope * middle,
            data_excursion: (largest - smallest) / average,
            slope_excursion: (slope * (n - 1.0)).abs() / average,
        }
    }

    /// Whether its values are steady.
    fn is_steady(&self, rules: &SteadyRules) -> bool {
        // NaN, of a window whose average is 0, fails both comparisons.
        self.data_excursion <= rules.range && self.slope_excursion <= rules.slope
    }

    /// What a cell that gave up is warned of by these rules; nothing where it was only that caches filled.
    pub fn pitfall(&self, rules: &SteadyRules) -> Option<Pitfall> {
        let (rounds, window) = (self.rounds.end, self.rounds.len());
        (!self.is_steady(rules)).then_some(Pitfall::NotSteady { rounds, window })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(values: &[f64]) -> (usize, Steady) {
        let mut state = SteadyState::new(SteadyRules::default());
        for (round, value) in values.iter().enumerate() {
            match state.push(*value, false) {
                Steady::NotYet => {}
                end => return (round + 1, end),
            }
        }
        (values.len(), Steady::NotYet)
    }

    #[test]
    fn a_constant_rate_is_steady_as_soon_as_the_window_is_full() {
        let (rounds, end) = feed(&[100.0; 25]);
        assert_eq!(rounds, 5);
        match end {
            Steady::Steady(report) => {
                assert_eq!(report.rounds, 0..5);
                assert_eq!(report.average, 100.0);
                assert_eq!((report.data_excursion, report.slope_excursion), (0.0, 0.0));
            }
            other => panic!("{other:?}"),
        }
    }

    /// The case that the rule is for: a cache that fills, then the disks' own rate.
    #[test]
    fn a_fast_start_is_left_out_of_the_window() {
        let mut values = vec![900.0, 880.0, 600.0, 300.0];
        values.extend([101.0, 99.0, 100.0, 102.0, 98.0]);
        let (rounds, end) = feed(&values);
        assert_eq!(rounds, 9);
        assert!(matches!(end, Steady::Steady(report) if report.rounds == (4..9)));
    }

    #[test]
    fn a_slow_slide_is_not_steady_though_its_range_is_small() {
        // 15 % down over each window of 5: within the range, beyond the slope.
        let values: Vec<f64> = (0..25).map(|round| 1000.0 * 0.96_f64.powi(round)).collect();
        let (rounds, end) = feed(&values);
        assert_eq!(rounds, 25);
        match end {
            Steady::GaveUp(report) => {
                assert_eq!(report.rounds, 20..25);
                assert!(report.data_excursion < 0.20 && report.slope_excursion > 0.10);
                assert!(report.line_start > report.line_end);
                let warned = report.pitfall(&SteadyRules::default());
                assert_eq!(warned, Some(Pitfall::NotSteady { rounds: 25, window: 5 }));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn noise_without_a_slope_is_not_steady_beyond_the_range() {
        let values: Vec<f64> =
            (0..25).map(|round| if round % 2 == 0 { 85.0 } else { 115.0 }).collect();
        assert!(matches!(feed(&values).1, Steady::GaveUp(_)));
    }

    /// A link that fills caches gives equal values until they are full.
    #[test]
    fn a_window_in_which_caches_fill_is_not_steady() {
        let mut state = SteadyState::new(SteadyRules::default());
        let ends: Vec<Steady> = (0..12).map(|round| state.push(100.0, round < 8)).collect();
        assert!(ends[..8].iter().all(|end| *end == Steady::NotYet), "{ends:?}");
        assert!(matches!(&ends[8], Steady::Steady(report) if report.rounds == (4..9)), "{ends:?}");
        let mut state = SteadyState::new(SteadyRules::default());
        let last = (0..25).map(|_| state.push(100.0, true)).last();
        let Some(Steady::GaveUp(report)) = last else { panic!("{last:?}") };
        assert_eq!(report.pitfall(&SteadyRules::default()), None, "the values are steady");
    }

    #[test]
    fn nothing_done_is_not_steady() {
        assert!(matches!(feed(&[0.0; 25]).1, Steady::GaveUp(_)));
    }

    proptest! {
        /// Steady or not does not depend on the unit that the rate is counted in.
        #[test]
        fn the_unit_does_not_matter(
            values in prop::collection::vec(1.0..100.0_f64, 25),
            scale in 0.001..1000.0_f64,
        ) {
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            let rules = SteadyRules { range: 0.7, slope: 0.4, ..SteadyRules::default() };
            let (mut one, mut two) = (SteadyState::new(rules), SteadyState::new(rules));
            for (a, b) in values.iter().zip(&scaled) {
                let (a, b) = (one.push(*a, false), two.push(*b, false));
                prop_assert_eq!(std::mem::discriminant(&a), std::mem::discriminant(&b));
                if !matches!(a, Steady::NotYet) { break; }
            }
        }

        /// It always ends, after `rounds_max` rounds at the latest, with a full window.
        #[test]
        fn it_always_ends(values in prop::collection::vec(0.0..1e6_f64, 25)) {
            let (rounds, end) = feed(&values);
            prop_assert!(rounds <= 25);
            match end {
                Steady::Steady(report) | Steady::GaveUp(report) => {
                    prop_assert_eq!(report.rounds, rounds - 5..rounds);
                }
                Steady::NotYet => prop_assert!(false, "25 rounds are the limit"),
            }
        }
    }
}
