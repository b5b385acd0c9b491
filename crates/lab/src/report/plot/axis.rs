//! Axes: which range, which ticks, where a value lies.
//!
//! A linear axis has ticks at 1, 2 or 5 times a power of ten (Heckbert, "Nice numbers for graph
//! labels", Graphics Gems 1990), and its ends are ticks. A logarithmic one has ticks at powers of
//! ten, with 2 and 5 between where there is room. *Nines* is the axis of a latency's distribution:
//! each further nine of the share (90 %, 99 %, 99.9 %) takes the same length, because the tail is what
//! one looks for. *Levels* has its ticks where the measured points are.

use crate::report::figures::tick;

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
    /// −log₁₀(1 − share).
    Nines,
}

/// A tick with what is written at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub value: f64,
    /// The label; empty for a line without one.
    pub label: String,
}

/// An axis of a plot, without its length.
#[derive(Clone, Debug)]
pub struct Axis {
    kind: Kind,
    low: f64,
    high: f64,
    /// Ascending, within the axis.
    pub ticks: Vec<Tick>,
    /// What is along it, with the unit.
    pub title: String,
}

/// A linear axis may span this ratio between largest and smallest value; beyond it a logarithmic one
/// shows more.
const LINEAR_RATIO_MAX: f64 = 25.0;

/// Up to this ratio between its ends a logarithmic axis has room for ticks at 2 and 5.
const LABELLED_RATIO_MAX: f64 = 1_200.0;

impl Axis {
    /// From zero to at least `high`; some `count` ticks.
    pub fn from_zero(title: &str, high: f64, count: usize) -> Axis {
        Axis::linear(title, 0.0, if high > 0.0 { high } else { 1.0 }, count)
    }

    /// Covers `low` to `high`, which must be finite.
    pub fn linear(title: &str, low: f64, high: f64, count: usize) -> Axis {
        let (values, step) = nice_ticks(low, high, count);
        let ticks = values.iter().map(|&value| Tick { value, label: tick(value, step) }).collect();
        let (low, high) = (values[0], values[values.len() - 1]);
        Axis { kind: Kind::Linear, low, high, ticks, title: title.to_owned() }
    }

    /// Covers `low` to `high`, both positive.
    pub fn log(title: &str, low: f64, high: f64) -> Axis {
        let mut values = log_ticks(low, high);
        let (low, high) = (values[0], values[values.len() - 1]);
        if high / low > LABELLED_RATIO_MAX {
            values.retain(|value| (value.log10() - value.log10().round()).abs() < 1e-6);
        }
        let label = |&value: &f64| Tick { value, label: tick(value, value) };
        let ticks = values.iter().map(label).collect();
        Axis { kind: Kind::Log, low, high, ticks, title: title.to_owned() }
    }

    /// Linear from zero, or logarithmic where the positive values are too far apart for that.
    pub fn for_values(
        title: &str,
        values: impl Iterator<Item = f64> + Clone,
        count: usize,
    ) -> Axis {
        let finite = values.filter(|value| value.is_finite());
        let low = finite.clone().fold(f64::INFINITY, f64::min);
        let high = finite.fold(f64::NEG_INFINITY, f64::max);
        match high > 0.0 && low > 0.0 && high / low > LINEAR_RATIO_MAX {
            true => Axis::log(title, low, high),
            false if low < 0.0 => Axis::linear(title, low, high.max(0.0), count),
            false => Axis::from_zero(title, high, count),
        }
    }

    /// From 0 to `nines` nines.
    pub fn nines(title: &str, nines: u32) -> Axis {
        let label = |share: f64| format!("{} %", tick(share * 100.0, 100.0 * (1.0 - share)));
        let mut ticks = vec![Tick { value: 0.0, label: "0".into() }];
        ticks.extend((0..=nines).map(|n| {
            let value = if n == 0 { 0.5 } else { 1.0 - 0.1_f64.powi(n as i32) };
            Tick { value, label: label(value) }
        }));
        let high = 1.0 - 0.1_f64.powi(nines as i32);
        Axis { kind: Kind::Nines, low: 0.0, high, ticks, title: title.to_owned() }
    }

    /// A tick at each of these numbers (ascending, at least one); logarithmic where they grow by
    /// ratios.
    pub fn levels(title: &str, numbers: &[f64], labels: &[String]) -> Axis {
        let (low, high) = (numbers[0], numbers[numbers.len() - 1]);
        let kind = if low > 0.0 && high / low >= 8.0 { Kind::Log } else { Kind::Linear };
        let ticks = numbers.iter().zip(labels);
        let ticks = ticks.map(|(&value, label)| Tick { value, label: label.clone() }).collect();
        let high = if high > low { high } else { low + 1.0 };
        Axis { kind, low, high, ticks, title: title.to_owned() }
    }

    /// Where a value lies, 0 to 1; beyond the ends it lies at the end.
    pub fn share(&self, value: f64) -> f64 {
        let place = |v: f64| match self.kind {
            Kind::Linear => v,
            Kind::Log => v.max(self.low).ln(),
            Kind::Nines => -(1.0 - v.min(self.high)).log10(),
        };
        ((place(value) - place(self.low)) / (place(self.high) - place(self.low))).clamp(0.0, 1.0)
    }

    /// Whether lengths from the axis's start are in proportion to values, so that a bar tells no lie.
    pub fn begins_at_zero(&self) -> bool {
        self.kind == Kind::Linear && self.low == 0.0
    }

    /// Whether the value is between the ends.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high + 1e-12).contains(&value)
    }
}

/// Ticks from below `low` to above `high`, about `count` of them, and their step.
fn nice_ticks(low: f64, high: f64, count: usize) -> (Vec<f64>, f64) {
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let rough = span / (count.max(2) - 1) as f64;
    let power = 10_f64.powi(rough.log10().floor() as i32);
    let step = match rough / power {
        r if r <= 1.000_001 => power,
        r if r <= 2.000_001 => 2.0 * power,
        r if r <= 5.000_001 => 5.0 * power,
        _ => 10.0 * power,
    };
    let first = (low / step + 1e-9).floor();
    let last = (high.max(low + span) / step - 1e-9).ceil().max(first + 1.0);
    let values = (0..=(last - first) as usize).map(|n| (first + n as f64) * step).collect();
    (values, step)
}

/// The values at 1, 2, 5 times powers of ten; the first is at most `low`, the last at least `high`.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let low = low.max(f64::MIN_POSITIVE * 1e3);
    let high = high.max(low);
    let mantissas = [1.0, 2.0, 5.0];
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all: Vec<f64> = (first - 1..=last + 1)
        .flat_map(|power| mantissas.map(|mantissa| mantissa * 10_f64.powi(power)))
        .collect();
    let start = all.iter().rposition(|&v| v <= low * 1.000_001).unwrap_or(0);
    let end = all.iter().position(|&v| v >= high * 0.999_999).unwrap_or(all.len() - 1);
    all[start..=end.max(start + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A range that the ticks don't cover cuts the data off; ticks at 3.7 can't be read.
        #[test]
        fn linear_ticks_are_nice_and_cover_the_range(
            low in -1e9_f64..1e9, span in 1e-6_f64..1e9, count in 2_usize..10,
        ) {
            let high = low + span.max(low.abs() * 1e-6);
            let (ticks, step) = nice_ticks(low, high, count);
            let slack = step * 1e-6;
            prop_assert!(ticks[0] <= low + slack && ticks[ticks.len() - 1] >= high - slack);
            prop_assert!(ticks.len() <= count + 2, "{} ticks for {count}", ticks.len());
            let mantissa = step / 10_f64.powi(step.log10().floor() as i32);
            let nice = [1.0, 2.0, 5.0, 10.0].iter().any(|m| (mantissa - m).abs() < 1e-6);
            prop_assert!(nice, "step {step}");
            for pair in ticks.windows(2) {
                prop_assert!((pair[1] - pair[0] - step).abs() < step * 1e-3);
            }
        }

        #[test]
        fn logarithmic_ticks_are_nice_and_cover_the_range(
            low_log in -9.0_f64..9.0, decades in 0.0_f64..8.0,
        ) {
            let (low, high) = (10_f64.powf(low_log), 10_f64.powf(low_log + decades));
            let axis = Axis::log("", low, high);
            prop_assert!(axis.low <= low * 1.00001 && axis.high >= high * 0.99999);
            prop_assert!(axis.low >= low / 2.6 && axis.high <= high * 2.6, "no wasted room");
            let ticks: Vec<f64> = axis.ticks.iter().map(|tick| tick.value).collect();
            prop_assert!(ticks.len() >= 2 && ticks.len() <= 12, "{ticks:?}");
            for value in ticks {
                prop_assert!(value >= axis.low && value <= axis.high);
                let mantissa = value / 10_f64.powi((value.log10() + 1e-9).floor() as i32);
                prop_assert!([1.0, 2.0, 5.0].iter().any(|m| (mantissa - m).abs() < 1e-6));
            }
        }

        /// What lies beyond an axis must not be drawn over its neighbour.
        #[test]
        fn every_value_lies_within_its_axis(value in any::<f64>(), high in 1e-3_f64..1e9) {
            prop_assume!(value.is_finite());
            for axis in [
                Axis::from_zero("", high, 5),
                Axis::log("", high / 1e3, high),
                Axis::nines("", 3),
                Axis::levels("", &[1.0, 4.0, 16.0], &["1".into(), "4".into(), "16".into()]),
            ] {
                let share = axis.share(value);
                prop_assert!((0.0..=1.0).contains(&share), "{share} of {value}");
            }
        }
    }

    /// The parts of the axis that a quantile lies beyond are not a part of the line.
    #[test]
    fn values_beyond_an_axis_are_known() {
        assert!(Axis::nines("", 3).holds(0.99) && !Axis::nines("", 3).holds(0.9999));
    }

    #[test]
    fn each_nine_takes_the_same_length() {
        let axis = Axis::nines("", 3);
        assert!((axis.share(0.9) - 1.0 / 3.0).abs() < 1e-9);
        assert!((axis.share(0.99) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(axis.share(1.0), 1.0);
        let labels: Vec<&str> = axis.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["0", "50 %", "90 %", "99 %", "99.9 %"]);
    }

    #[test]
    fn values_that_are_decades_apart_get_a_logarithmic_axis() {
        assert_eq!(Axis::for_values("", [3.0, 300_000.0].into_iter(), 5).kind, Kind::Log);
        assert!(Axis::for_values("", [30.0, 300.0].into_iter(), 5).begins_at_zero());
        assert!(Axis::for_values("", [0.0, 300_000.0].into_iter(), 5).begins_at_zero());
    }
}
