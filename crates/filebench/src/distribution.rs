//! Random variables: filebench's `randvar` and `cvar`.
//!
//! | variable | value |
//! |---|---|
//! | `randvar` uniform | from `min` to 2 × mean − min |
//! | `randvar` gamma | min + Gamma(shape = gamma / 1000, mean = mean − min); without a mean it is gamma / 1000 |
//! | `randvar` tabular | each row gives its percentage of the values, uniform from its min to its max; with a mean, scaled so that the mean is that |
//! | `cvar-uniform` | from `lower` to `upper` |
//! | `cvar-normal` | Normal(mean, sigma) |
//! | `cvar-lognormal` | exp(Normal(scale, shape)) |
//! | `cvar-exponential` | mean `mean` |
//! | `cvar-gamma` | Gamma(shape = gamma, mean = mean) |
//! | `cvar-erlang` | Gamma(shape = the whole number `shape`, mean = `rate`) |
//! | `cvar-weibull` | scale × Weibull(shape) |
//! | `cvar-triangular` | from `lower` to `upper`, highest at `mode` |
//!
//! `round` brings a randvar to the nearest multiple; a cvar is cut to a whole number first, and is
//! then held between `min` and `max`. Definitions: filebench 1.5-alpha3, fb_random.c and cvars/. Some
//! are not what their names promise (Erlang's `rate` is a mean); files depend on them as they are.
//!
//! **Sampling.** Gamma by G. Marsaglia, W. W. Tsang, *A simple method for generating gamma variables*
//! (ACM TOMS 26, 2000), with their boost for shapes below 1; normal by the polar method; the others
//! by inversion. The distributions are filebench's, the values are not: they come from the run's
//! seed, a stream for each worker and variable, where filebench's workers share one.

use super::error::DistributionError;
use stdx::Prng;

/// Rows of a table have percentages, so a value's row is found in a hundred slots.
const SLOTS: usize = 100;

/// One random variable.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomVariable {
    /// Its name, without `$`.
    pub name: String,
    /// `seed`, of a randvar: another one is another stream.
    pub seed: u64,
    /// What it is.
    pub distribution: Distribution,
    /// What becomes of a value.
    pub finish: Finish,
}

/// How the values lie.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// From the first to the second.
    Uniform(f64, f64),
    /// An offset, a shape, and the scale.
    Gamma {
        /// The least value.
        min: f64,
        /// Shape.
        shape: f64,
        /// Mean above `min`, divided by the shape.
        scale: f64,
    },
    /// A hundred slots, each from a value to another.
    Table(Vec<(f64, f64)>),
    /// Mean and standard deviation.
    Normal(f64, f64),
    /// Mean and standard deviation of the logarithm.
    LogNormal(f64, f64),
    /// Mean.
    Exponential(f64),
    /// Shape and scale.
    Weibull(f64, f64),
    /// Lower end, upper end, highest point.
    Triangular(f64, f64, f64),
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finish {
    /// To the nearest multiple; 0 for none.
    Round(f64),
    /// A cvar's: to the nearer multiple of a whole number (0 for none), then between two ends.
    Clamp {
        /// The multiple.
        round: u64,
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
    },
}

/// A row of a table: percent, least and greatest value.
pub type Row = (u64, f64, f64);

impl RandomVariable {
    /// A value.
    pub fn sample(&self, prng: &mut Prng) -> f64 {
        let value = self.distribution.sample(prng);
        match self.finish {
            Finish::Round(0.0) => value,
            Finish::Round(multiple) => (value / multiple).round() * multiple,
            Finish::Clamp { round, min, max } => {
                let value = match round {
                    0 => value,
                    _ => {
                        let lower = value as u64 / round * round;
                        let over = value as u64 - lower;
                        let nearer = if over > round - over { round } else { 0 };
                        lower.saturating_add(nearer) as f64
                    }
                };
                value.clamp(min, max)
            }
        }
    }

    /// For `echo`.
    pub fn describe(&self) -> &'static str {
        match (&self.finish, &self.distribution) {
            (Finish::Clamp { .. }, _) => "custom variable",
            (_, Distribution::Uniform(..)) => "uniform random var",
            (_, Distribution::Table(_)) => "tabular random var",
            _ => "gamma random var",
        }
    }
}

impl Distribution {
    /// A randvar's table, scaled to a mean where one is given (not 0), with `min` added as filebench
    /// adds it.
    ///
    /// # Errors
    /// The sum of the percentages where it is not 100.
    pub fn table(rows: &[Row], min: f64, mean: f64) -> Result<Distribution, u64> {
        let percent = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.0));
        if percent != SLOTS as u64 {
            return Err(percent);
        }
        let least = rows.iter().map(|row| row.1).fold(f64::INFINITY, f64::min);
        let weighed = rows.iter().map(|(percent, low, high)| (low + high) / 2.0 * *percent as f64);
        let table_mean = weighed.sum::<f64>() / SLOTS as f64;
        let mean = if mean == 0.0 { table_mean } else { mean };
        let spread = table_mean - least;
        let place = |value: f64| match spread {
            // The table is one value.
            0.0 => min,
            _ => (value - least) / spread * (mean - min) + min,
        };
        let slots = rows.iter().flat_map(|(percent, low, high)| {
            std::iter::repeat_n((place(*low), place(*high)), *percent as usize)
        });
        Ok(Distribution::Table(slots.collect()))
    }

    fn sample(&self, prng: &mut Prng) -> f64 {
        match self {
            Distribution::Uniform(low, high) => low + prng.unit() * (high - low),
            Distribution::Gamma { min, shape, scale } => min + gamma(*shape, prng) * scale,
            Distribution::Table(slots) => {
                let at = prng.unit() * slots.len() as f64;
                match slots.get(at as usize) {
                    Some((low, high)) => low + at.fract() * (high - low),
                    None => 0.0,
                }
            }
            Distribution::Normal(mean, sigma) => mean + sigma * normal(prng),
            Distribution::LogNormal(mean, sigma) => (mean + sigma * normal(prng)).exp(),
            Distribution::Exponential(mean) => -mean * positive_unit(prng).ln(),
            Distribution::Weibull(shape, scale) => {
                scale * (-positive_unit(prng).ln()).powf(1.0 / shape)
            }
            Distribution::Triangular(low, high, mode) => {
                let (width, peak) = (high - low, (mode - low) / (high - low));
                let unit = prng.unit();
                let place = match unit <= peak {
                    true => (peak * unit).sqrt(),
                    false => 1.0 - ((1.0 - peak) * (1.0 - unit)).sqrt(),
                };
                if width == 0.0 { *low } else { low + width * place }
            }
        }
    }

    /// A `cvar` from its type and parameters (`mean:16384;gamma:1.5`).
    ///
    /// # Errors
    /// An unknown type or parameter, or parameters that make no distribution.
    pub fn custom(type_name: &str, parameters: &str) -> Result<Distribution, DistributionError> {
        let (name, known) = CUSTOM
            .iter()
            .find(|(name, _)| *name == type_name)
            .ok_or_else(|| DistributionError::CustomType(type_name.to_owned()))?;
        let mut values: Vec<f64> = known.iter().map(|(_, default)| *default).collect();
        for parameter in parameters.split(';').filter(|parameter| !parameter.trim().is_empty()) {
            let (key, value) = parameter.split_once(':').unwrap_or((parameter, ""));
            let (key, value) = (key.trim(), value.trim());
            let Some(place) = known.iter().position(|(known, _)| *known == key) else {
                let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                return Err(DistributionError::Parameter {
                    type_name: name,
                    parameter: key.to_owned(),
                    known: known.join(", "),
                });
            };
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
            values[place] = number.ok_or_else(|| DistributionError::Value {
                parameter: key.to_owned(),
                value: value.to_owned(),
            })?;
        }
        shaped(name, &values)
    }
}

/// The types of cvars, their parameters and the defaults.
const CUSTOM: &[(&str, &[(&str, f64)])] = &[
    ("cvar-erlang", &[("shape", 1.0), ("rate", 1.0)]),
    ("cvar-exponential", &[("mean", 1.0)]),
    ("cvar-gamma", &[("mean", 4096.0), ("gamma", 1.5)]),
    ("cvar-lognormal", &[("shape", 1.0), ("scale", 1.0)]),
    ("cvar-normal", &[("mean", 0.0), ("sigma", 1.0)]),
    ("cvar-triangular", &[("lower", 0.0), ("upper", 1.0), ("mode", 0.5)]),
    ("cvar-uniform", &[("lower", 0.0), ("upper", 1.0)]),
    ("cvar-weibull", &[("shape", 1.0), ("scale", 1.0)]),
];

fn shaped(name: &str, values: &[f64]) -> Result<Distribution, DistributionError> {
    let need = |good: bool, why: &'static str| match good {
        true => Ok(()),
        false => Err(DistributionError::Shape(why)),
    };
    Ok(match (name, values) {
        ("cvar-erlang", [shape, rate]) => {
            need(*shape >= 0.0 && *rate >= 0.0, "shape and rate must not be negative")?;
            let shape = shape.trunc().max(1.0);
            Distribution::Gamma { min: 0.0, shape, scale: rate / shape }
        }
        ("cvar-exponential", [mean]) => Distribution::Exponential(mean.max(0.0)),
        ("cvar-gamma", [mean, shape]) => {
            need(*shape > 0.0, "gamma must be greater than 0")?;
            Distribution::Gamma { min: 0.0, shape: *shape, scale: mean / shape }
        }
        ("cvar-lognormal", [shape, scale]) => {
            need(*shape >= 0.0 && *scale >= 0.0, "shape and scale must not be negative")?;
            Distribution::LogNormal(*scale, *shape)
        }
        ("cvar-normal", [mean, sigma]) => Distribution::Normal(*mean, *sigma),
        ("cvar-triangular", [lower, upper, mode]) => {
            need(lower <= mode && mode <= upper, "lower <= mode <= upper is not so")?;
            Distribution::Triangular(*lower, *upper, *mode)
        }
        ("cvar-uniform", [lower, upper]) => {
            need(lower <= upper, "lower must not be greater than upper")?;
            Distribution::Uniform(*lower, *upper)
        }
        (_, [shape, scale]) => {
            need(*shape > 0.0 && *scale >= 0.0, "shape must be greater than 0, scale at least 0")?;
            Distribution::Weibull(*shape, *scale)
        }
        _ => return Err(DistributionError::CustomType(name.to_owned())),
    })
}

/// From the open interval, so that it has a logarithm.
fn positive_unit(prng: &mut Prng) -> f64 {
    1.0 - prng.unit()
}

/// Standard normal, by the polar method (Knuth, vol. 2, 3.4.1 P).
fn normal(prng: &mut Prng) -> f64 {
    loop {
        let (x, y) = (2.0 * prng.unit() - 1.0, 2.0 * prng.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Gamma of this shape and scale 1.
pub(super) fn gamma(shape: f64, prng: &mut Prng) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, prng) * positive_unit(prng).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(prng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && positive_unit(prng).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a distribution with another mean or spread than its name and parameters say.

    use super::*;

    fn moments(distribution: Distribution, finish: Finish) -> (f64, f64) {
        let variable = RandomVariable { name: "x".into(), seed: 0, distribution, finish };
        let mut prng = Prng::new(5);
        let values: Vec<f64> = (0..100_000).map(|_| variable.sample(&mut prng)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (mean, (square / values.len() as f64).sqrt())
    }

    fn check(distribution: Distribution, mean: f64, deviation: f64) {
        let text = format!("{distribution:?}");
        let (m, d) = moments(distribution, Finish::Round(0.0));
        assert!(
            (m - mean).abs() < 0.02 * deviation.max(mean.abs()),
            "{text}: mean {m}, not {mean}"
        );
        assert!((d / deviation - 1.0).abs() < 0.03, "{text}: deviation {d}, not {deviation}");
    }

    #[test]
    fn means_and_deviations_are_those_of_the_formulas() {
        let custom = |name: &str, text: &str| Distribution::custom(name, text).expect("good");
        check(Distribution::Uniform(10.0, 20.0), 15.0, 10.0 / 12f64.sqrt());
        check(custom("cvar-gamma", "mean:16384;gamma:1.5"), 16384.0, 16384.0 / 1.5f64.sqrt());
        check(custom("cvar-gamma", "mean:10;gamma:0.1"), 10.0, 10.0 / 0.1f64.sqrt());
        check(custom("cvar-erlang", "shape:4;rate:8"), 8.0, 4.0);
        check(custom("cvar-exponential", "mean:3"), 3.0, 3.0);
        check(custom("cvar-normal", "mean:5;sigma:2"), 5.0, 2.0);
        let log = |s: f64, m: f64| (m + s * s / 2.0).exp();
        let deviation = log(0.5, 1.0) * (0.25f64.exp() - 1.0).sqrt();
        check(custom("cvar-lognormal", "shape:0.5;scale:1"), log(0.5, 1.0), deviation);
        check(custom("cvar-triangular", "lower:0;upper:10;mode:2"), 4.0, (84.0 / 18f64).sqrt());
        // Weibull of shape 2: mean scale × √π / 2.
        let pi = std::f64::consts::PI;
        check(
            custom("cvar-weibull", "shape:2;scale:4"),
            2.0 * pi.sqrt(),
            4.0 * (1.0 - pi / 4.0).sqrt(),
        );
    }

    #[test]
    fn a_table_gives_each_row_its_share() {
        let rows = [(80, 1024.0, 4096.0), (15, 4096.0, 16384.0), (5, 16384.0, 65536.0)];
        let distribution = Distribution::table(&rows, 1024.0, 0.0).expect("adds up");
        let mut prng = Prng::new(1);
        let (mut observed, count) = ([0u32; 3], 50_000);
        for _ in 0..count {
            let value = distribution.sample(&mut prng);
            let row = rows.iter().position(|(_, low, high)| (*low..*high).contains(&value));
            observed[row.expect("within a row")] += 1;
        }
        // Chi-square with 2 degrees of freedom; 13.8 is passed once in a thousand.
        let chi_square: f64 = rows
            .iter()
            .zip(observed)
            .map(|((percent, ..), observed)| {
                let expected = f64::from(count) * *percent as f64 / 100.0;
                (f64::from(observed) - expected).powi(2) / expected
            })
            .sum();
        assert!(chi_square < 13.8, "{observed:?}");
        assert_eq!(Distribution::table(&rows[..2], 0.0, 0.0), Err(95));
    }

    #[test]
    fn a_table_is_scaled_to_a_mean() {
        let rows = [(50, 0.0, 10.0), (50, 10.0, 30.0)];
        let distribution = Distribution::table(&rows, 0.0, 50.0).expect("adds up");
        let (mean, _) = moments(distribution, Finish::Round(0.0));
        assert!((mean - 50.0).abs() < 0.5, "{mean}");
    }

    #[test]
    fn rounding_and_ends_are_kept() {
        let uniform = || Distribution::Uniform(0.0, 100.0);
        let mut prng = Prng::new(2);
        let variable =
            |finish| RandomVariable { name: "x".into(), seed: 0, distribution: uniform(), finish };
        let rounded = variable(Finish::Round(8.0));
        let clamped = variable(Finish::Clamp { round: 10, min: 20.0, max: 50.0 });
        for _ in 0..1000 {
            assert_eq!(rounded.sample(&mut prng) % 8.0, 0.0);
            let value = clamped.sample(&mut prng);
            assert!((20.0..=50.0).contains(&value) && value % 10.0 == 0.0, "{value}");
        }
    }

    #[test]
    fn what_makes_no_distribution_is_refused() {
        let error = |name: &str, text: &str| {
            Distribution::custom(name, text).expect_err("refused").to_string()
        };
        assert!(error("cvar-foo", "").starts_with("unknown type \"cvar-foo\""));
        let message = error("cvar-gamma", "mean:4;shape:1");
        assert_eq!(message, "cvar-gamma has no parameter \"shape\"; it has mean, gamma");
        assert!(error("cvar-gamma", "mean:x").contains("which is no number"));
        assert!(error("cvar-triangular", "mode:2").contains("is not so"));
    }
}
