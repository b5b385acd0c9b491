//! Reports that are made again and again: `POOL... [INTERVAL [COUNT]]`.

use crate::output::Failure;
use std::time::Duration;

/// What is to be reported, and how often.
#[derive(Debug, PartialEq)]
pub struct Wanted {
    /// Pools; all where none are named.
    pub pools: Vec<String>,
    /// Between reports.
    pub interval: Option<Duration>,
    /// Nothing where it goes on until it is stopped.
    pub reports: Option<u64>,
}

impl Wanted {
    /// Pools, then seconds, then how many.
    ///
    /// # Errors
    /// No such numbers can be.
    pub fn of(words: &[String]) -> Result<Wanted, Failure> {
        let seconds = |word: &String| {
            let seconds = word.parse::<f64>().ok().filter(|_| !word.starts_with(['+', 'i', 'n']));
            seconds.filter(|seconds| seconds.is_finite())
        };
        let numbers = words.iter().rev().take(2).map_while(seconds).count();
        let (pools, numbers) = words.split_at(words.len() - numbers);
        let (interval, reports) = match numbers {
            [] => (None, Some(1)),
            [interval] => (seconds(interval), None),
            [interval, count, ..] => {
                let reports = count.parse::<u64>().ok().filter(|count| *count > 0);
                let reports = reports.ok_or_else(|| {
                    Failure::usage(format!("{count}: the number of reports is 1 at the least"))
                })?;
                (seconds(interval), Some(reports))
            }
        };
        let interval = match interval {
            None => None,
            Some(seconds) => {
                let interval = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                if interval.is_zero() {
                    return Err(Failure::usage("interval cannot be zero"));
                }
                Some(interval)
            }
        };
        Ok(Wanted { pools: pools.to_vec(), interval, reports })
    }

    /// The same of words of which the pools are left.
    ///
    /// # Errors
    /// As of [`Wanted::of`].
    pub fn take(words: &mut Vec<String>) -> Result<Wanted, Failure> {
        let wanted = Wanted::of(words)?;
        words.truncate(wanted.pools.len());
        Ok(wanted)
    }

    /// Makes the reports; each is told whether it is the first.
    ///
    /// # Errors
    /// Of one: it is the last.
    pub fn each(&self, mut report: impl FnMut(bool) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut made = 0;
        loop {
            report(made == 0)?;
            made += 1;
            match self.interval.filter(|_| Some(made) != self.reports) {
                Some(interval) => std::thread::sleep(interval),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a pool's name taken for a number.

    use super::*;

    fn wanted(words: &str) -> Result<Wanted, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Wanted::of(&words).map_err(|failure| failure.message)
    }

    #[test]
    fn numbers_at_the_end_are_the_interval_and_the_count() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let of = |pools: &[&str], seconds: f64, reports| Wanted {
            pools: names(pools),
            interval: Some(seconds).filter(|s| *s > 0.0).map(Duration::from_secs_f64),
            reports,
        };
        assert_eq!(wanted(""), Ok(of(&[], 0.0, Some(1))));
        assert_eq!(wanted("tank"), Ok(of(&["tank"], 0.0, Some(1))));
        assert_eq!(wanted("tank nano inf"), Ok(of(&["tank", "nano", "inf"], 0.0, Some(1))));
        assert_eq!(wanted("0.5"), Ok(of(&[], 0.5, None)));
        assert_eq!(wanted("a b 2 7"), Ok(of(&["a", "b"], 2.0, Some(7))));
        assert!(wanted("tank 0").is_err_and(|why| why.contains("zero")));
        assert!(wanted("tank 1 0").is_err() && wanted("1 1.5").is_err());
    }
}
