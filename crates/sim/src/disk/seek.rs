//! How long the arm takes for a distance.
//!
//! Theory (Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994):
//! a short seek is all acceleration and braking, so its time grows with the square root of the
//! distance; a long one coasts, so its time grows linearly. A data sheet gives three numbers: the seek
//! to the next track, the average over all pairs of cylinders, and mostly the full stroke. The recipe:
//!
//! * t(1) = track to track;
//! * t(d) = t(1) + b (√d − 1) up to the knee at a third of the stroke, where the average seek lies;
//! * from the knee a straight line to the full stroke;
//! * b is such that the mean of t, weighted as makers weight it, is the average seek. Their weighting
//!   (Hitachi's specifications, "average seek time"): distance d has weight 2 (C − d) / (C (C − 1)) on
//!   C cylinders. The mean is linear in b, so b is one division.
//!
//! Times include settling for a read. A write settles longer, by the difference of the two averages.

use crate::profile::DiskProfile;

/// Where the curve turns straight, as a share of the stroke.
const KNEE_SHARE: f64 = 1.0 / 3.0;
/// Points at which the mean is taken. The curve is smooth; more change nothing.
const MEAN_POINTS: u64 = 10_000;

/// The seek curve of a disk.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    next_track_ns: f64,
    root_ns: f64,
    knee: f64,
    knee_ns: f64,
    slope_ns: f64,
    /// What a write waits beyond a read.
    write_settle_ns: u64,
    head_switch_ns: u64,
}

impl SeekCurve {
    /// The curve that a profile implies on so many cylinders.
    pub fn new(profile: &DiskProfile, cylinders: u64) -> SeekCurve {
        let ns = |ms: f64| ms * 1e6;
        let (next_track, full) =
            (ns(profile.track_to_track_ms.value), ns(profile.full_stroke_ms.value));
        let stroke = (cylinders - 1).max(3) as f64;
        let knee = (stroke * KNEE_SHARE).max(2.0);
        // t(d) = fixed(d) + b · rooted(d); take the weighted means of both parts.
        let parts = |distance: f64| {
            if distance <= knee {
                return (next_track, distance.sqrt() - 1.0);
            }
            let along = (distance - knee) / (stroke - knee);
            (next_track + (full - next_track) * along, (knee.sqrt() - 1.0) * (1.0 - along))
        };
        let (mut weights, mut fixed, mut rooted) = (0.0, 0.0, 0.0);
        for point in 0..MEAN_POINTS {
            let distance = 1.0 + (stroke - 1.0) * (point as f64 + 0.5) / MEAN_POINTS as f64;
            let weight = stroke + 1.0 - distance;
            let (f, r) = parts(distance);
            weights += weight;
            fixed += weight * f;
            rooted += weight * r;
        }
        let average = ns(profile.avg_seek_read_ms.value);
        let root_ns = ((average * weights - fixed) / rooted).max(0.0);
        let knee_ns = next_track + root_ns * (knee.sqrt() - 1.0);
        // A sheet whose numbers don't fit together must not make far seeks shorter than near ones.
        let slope_ns = ((full - knee_ns) / (stroke - knee)).max(0.0);
        let settle = profile.avg_seek_write_ms.value - profile.avg_seek_read_ms.value;
        SeekCurve {
            next_track_ns: next_track,
            root_ns,
            knee,
            knee_ns,
            slope_ns,
            write_settle_ns: ns(settle) as u64,
            head_switch_ns: ns(profile.head_switch_ms.value) as u64,
        }
    }

    /// From one place to another: cylinders apart, and whether the head is another.
    pub fn time_ns(&self, distance: u64, other_head: bool, write: bool) -> u64 {
        let arm = if distance == 0 {
            if !other_head {
                return 0;
            }
            self.head_switch_ns
        } else {
            let d = distance as f64;
            let ns = if d <= self.knee {
                self.next_track_ns + self.root_ns * (d.sqrt() - 1.0)
            } else {
                self.knee_ns + self.slope_ns * (d - self.knee)
            };
            (ns as u64).max(self.head_switch_ns)
        };
        arm + if write { self.write_settle_ns } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::disk_profiles;

    #[test]
    fn the_curve_goes_through_the_three_numbers_of_the_sheet() {
        const CYLINDERS: u64 = 100_000;
        for profile in disk_profiles() {
            let curve = SeekCurve::new(&profile, CYLINDERS);
            let (mut sum, mut weights) = (0.0, 0.0);
            for distance in 1..CYLINDERS {
                let weight = (CYLINDERS - distance) as f64;
                sum += weight * curve.time_ns(distance, false, false) as f64;
                weights += weight;
            }
            let close = |ns: f64, ms: f64| assert!((ns / 1e6 / ms - 1.0).abs() < 0.01, "{ns} {ms}");
            close(sum / weights, profile.avg_seek_read_ms.value);
            close(curve.time_ns(CYLINDERS - 1, true, false) as f64, profile.full_stroke_ms.value);
            let next = profile.track_to_track_ms.value.max(profile.head_switch_ms.value);
            close(curve.time_ns(1, false, false) as f64, next);
        }
    }

    #[test]
    fn a_longer_way_never_takes_less_time() {
        for profile in disk_profiles() {
            let curve = SeekCurve::new(&profile, 50_000);
            let times: Vec<u64> = (0..50_000).map(|d| curve.time_ns(d, false, false)).collect();
            assert!(times.is_sorted(), "{}", profile.name);
        }
    }
}
