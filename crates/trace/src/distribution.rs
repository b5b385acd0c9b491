//! What response times look like, and how far two distributions of them lie apart.
//!
//! Theory (Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994). A model of a disk can't
//! foretell each request: where the platter was, nobody knows. It can foretell the distribution. Plot both distributions as
//! curves that rise from 0 to 1 over time: the *demerit* is the root mean square of the horizontal distance between
//! them, mostly given as a share of the measured mean. It is 0 where they are the same, and it counts what an average hides.

use stdx::Duration;

/// What a list of times looks like, ms.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    sorted: Vec<f64>,
}

impl Distribution {
    /// That of these times.
    pub fn of(times: &[Duration]) -> Distribution {
        let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Distribution { sorted }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Their mean.
    pub fn mean_ms(&self) -> f64 {
        match self.sorted.len() {
            0 => 0.0,
            count => self.sorted.iter().sum::<f64>() / count as f64,
        }
    }

    /// The time that this share of them does not exceed.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        let last = self.sorted.len().saturating_sub(1);
        self.sorted.get(rank.saturating_sub(1).min(last)).copied().unwrap_or(0.0)
    }

    /// The longest.
    pub fn max_ms(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(0.0)
    }

    /// The shortest.
    pub fn min_ms(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(0.0)
    }
}

/// How far a modelled distribution lies from a measured one, as a share of the measured mean; `None` where either is empty or
/// nothing took any time.
pub fn demerit(modelled: &Distribution, measured: &Distribution) -> Option<f64> {
    let (ours, theirs) = (&modelled.sorted, &measured.sorted);
    let mean = measured.mean_ms();
    if ours.is_empty() || theirs.is_empty() || mean <= 0.0 {
        return None;
    }
    // Both curves are steps: between two heights at which either steps, the distance is the same.
    let (n, m) = (ours.len(), theirs.len());
    let (mut i, mut j, mut at, mut sum) = (0, 0, 0.0, 0.0);
    while i < n && j < m {
        let (end_of_ours, end_of_theirs) = ((i + 1) * m, (j + 1) * n);
        let end = end_of_ours.min(end_of_theirs) as f64 / (n as f64 * m as f64);
        sum += (end - at) * (ours[i] - theirs[j]).powi(2);
        at = end;
        i += usize::from(end_of_ours <= end_of_theirs);
        j += usize::from(end_of_theirs <= end_of_ours);
    }
    Some(sum.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ms: &[u64]) -> Distribution {
        Distribution::of(&ms.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>())
    }

    fn apart(ours: &[u64], theirs: &[u64]) -> f64 {
        demerit(&of(ours), &of(theirs)).expect("there are times")
    }

    #[test]
    fn the_demerit_is_the_distance_between_curves_and_not_between_requests() {
        assert_eq!(apart(&[3, 1, 2], &[1, 2, 3]), 0.0, "in another order it is the same curve");
        assert!(
            (apart(&[2, 4], &[1, 3]) - 0.5).abs() < 1e-12,
            "1 ms too far everywhere, mean 2 ms"
        );
        assert!((apart(&[1, 1], &[1, 3]) - 2.0_f64.sqrt() / 2.0).abs() < 1e-12);
        assert_eq!(demerit(&of(&[]), &of(&[1])), None);
    }

    #[test]
    fn lists_of_unlike_lengths_are_compared_by_shares() {
        assert!(apart(&[1, 1, 5, 5], &[1, 5]) < 1e-9);
        assert!(apart(&[1, 2, 3], &[1, 1, 2, 2, 3, 3]) < 1e-9);
        // A third of the way 1 ms apart: √(1/3) of a mean of 2 ms.
        let third = (1.0_f64 / 3.0).sqrt() / 2.0;
        assert!((apart(&[1, 2, 4], &[1, 1, 2, 2, 3, 3]) - third).abs() < 1e-9);
    }

    #[test]
    fn a_quantile_is_a_time_that_occurred() {
        let all = of(&[4, 1, 3, 2]);
        assert_eq!(
            (all.quantile_ms(0.5), all.quantile_ms(0.75), all.quantile_ms(1.0)),
            (2.0, 3.0, 4.0)
        );
        assert_eq!((all.quantile_ms(0.0), all.mean_ms(), all.count()), (1.0, 2.5, 4));
        assert_eq!(of(&[]).quantile_ms(0.5), 0.0);
    }
}
