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
//! Times include settling for a read. A write settles longer, by the difference of the two averages, or by what the profile
//! says. Where the profile holds a [table](crate::profile::SeekTable) of seeks that were timed, that is the curve.

use crate::profile::{DiskProfile, SeekTable};
use std::sync::Arc;

/// Where the curve turns straight, as a share of the stroke.
const KNEE_SHARE: f64 = 1.0 / 3.0;
/// Points at which the mean is taken. The curve is smooth; more change nothing.
const MEAN_POINTS: u64 = 10_000;

/// The seek curve of a disk.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    arm: Arm,
    /// What a write waits beyond a read.
    write_settle_ns: i64,
    /// Seeks before a write, where they are known apart.
    for_writes: Option<Arc<[(u64, u64)]>>,
    head_switch_ns: u64,
    farther_is_later: bool,
}

/// How long the arm takes before a read.
#[derive(Clone, Debug)]
enum Arm {
    Sheet(Sheet),
    /// Cylinders and nanoseconds.
    Table(Arc<[(u64, u64)]>),
}

/// The curve through the numbers of a data sheet.
#[derive(Clone, Debug)]
struct Sheet {
    next_track_ns: f64,
    root_ns: f64,
    knee: f64,
    knee_ns: f64,
    slope_ns: f64,
}

impl Sheet {
    fn new(profile: &DiskProfile, cylinders: u64) -> Sheet {
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
        Sheet { next_track_ns: next_track, root_ns, knee, knee_ns, slope_ns }
    }

    #[inline]
    fn time_ns(&self, distance: u64) -> u64 {
        let d = distance as f64;
        let ns = if d <= self.knee {
            self.next_track_ns + self.root_ns * (d.sqrt() - 1.0)
        } else {
            self.knee_ns + self.slope_ns * (d - self.knee)
        };
        // By way of the signed number, to which a processor converts in one step.
        (ns as i64).max(0) as u64
    }
}

impl SeekCurve {
    /// The curve that a profile implies on so many cylinders.
    pub fn new(profile: &DiskProfile, cylinders: u64) -> SeekCurve {
        let averages = profile.avg_seek_write_ms.value - profile.avg_seek_read_ms.value;
        let settle_ms = profile.write_settle_ms.as_ref().map_or(averages, |given| given.value);
        let arm = match &profile.seek_table {
            Some(table) => Arm::Table(points(&table.value)),
            None => Arm::Sheet(Sheet::new(profile, cylinders)),
        };
        let for_writes = profile.seek_table_write.as_ref().map(|table| points(&table.value));
        let curve = match &arm {
            Arm::Sheet(_) => None,
            Arm::Table(table) => Some(table),
        };
        let mut tables = curve.into_iter().chain(&for_writes);
        let farther_is_later = tables.all(|table| table.is_sorted_by_key(|(_, ns)| *ns));
        SeekCurve {
            arm,
            write_settle_ns: (settle_ms * 1e6) as i64,
            for_writes,
            head_switch_ns: (profile.head_switch_ms.value * 1e6) as u64,
            farther_is_later,
        }
    }

    /// Whether a longer way never takes less time. By a data sheet it does not; among seeks that were timed one may.
    pub fn farther_is_later(&self) -> bool {
        self.farther_is_later
    }

    /// Whether another head may make a difference to [`time_ns`](SeekCurve::time_ns), to another cylinder or on the same.
    pub fn heads_count(&self, other_cylinder: bool) -> bool {
        !other_cylinder || self.for_writes.is_some() || matches!(self.arm, Arm::Table(_))
    }

    /// From one place to another: cylinders apart, and whether the head is another.
    #[inline]
    pub fn time_ns(&self, distance: u64, other_head: bool, write: bool) -> u64 {
        let switch = if other_head { self.head_switch_ns } else { 0 };
        if distance == 0 && !other_head {
            return 0;
        }
        if let (Some(table), true, true) = (&self.for_writes, write, distance > 0) {
            return on_table(table, distance).max(switch);
        }
        let arm = match &self.arm {
            _ if distance == 0 => switch,
            // A sheet's seek to the next track is not shorter than a switch of heads.
            Arm::Sheet(sheet) => sheet.time_ns(distance).max(self.head_switch_ns),
            Arm::Table(table) => on_table(table, distance).max(switch),
        };
        if write { arm.saturating_add_signed(self.write_settle_ns) } else { arm }
    }
}

fn points(table: &SeekTable) -> Arc<[(u64, u64)]> {
    table.0.iter().map(|(cylinders, ms)| (*cylinders, (ms * 1e6).round() as u64)).collect()
}

/// On the straight line between two points; the last line goes on.
fn on_table(points: &[(u64, u64)], distance: u64) -> u64 {
    let after = points.partition_point(|(at, _)| *at < distance);
    match (points.get(after.wrapping_sub(1)), points.get(after)) {
        (_, Some((at, ns))) if *at == distance => *ns,
        (None, Some((_, ns))) => *ns,
        (Some(before), Some(behind)) => on_line(*before, *behind, distance),
        (Some(last), None) => match points.get(after.wrapping_sub(2)) {
            Some(before) => on_line(*before, *last, distance),
            None => last.1,
        },
        (None, None) => 0,
    }
}

fn on_line((from, from_ns): (u64, u64), (to, to_ns): (u64, u64), distance: u64) -> u64 {
    let share = (distance - from) as f64 / (to - from) as f64;
    (from_ns as f64 + share * (to_ns as f64 - from_ns as f64)).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::disk_profiles;
    use crate::profile::{Given, Origin};

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
    fn a_table_is_the_curve_and_a_write_settles_as_the_profile_says() {
        let mut profile = disk_profiles().remove(0);
        fn given<T>(value: T) -> Option<Given<T>> {
            Some(Given::of(value, Origin::Guessed("a test".to_owned())))
        }
        profile.seek_table = given(SeekTable(vec![(1, 0.8), (11, 1.8), (1000, 9.0)]));
        profile.write_settle_ms = given(-0.25);
        profile.head_switch_ms.value = 1.0;
        let curve = SeekCurve::new(&profile, 1001);
        assert!(curve.farther_is_later());
        assert_eq!(curve.time_ns(0, false, true), 0);
        assert_eq!(curve.time_ns(0, true, false), 1_000_000);
        assert_eq!(curve.time_ns(1, false, false), 800_000);
        assert_eq!(
            curve.time_ns(1, true, false),
            1_000_000,
            "the switch takes longer than the step"
        );
        assert_eq!(curve.time_ns(6, false, true), 1_300_000 - 250_000);
        assert_eq!(curve.time_ns(1000, false, false), 9_000_000);
        let beyond = 9_000_000 + 9_000_000 / 989;
        assert!(curve.time_ns(1001, false, false).abs_diff(beyond) < 2_000);
        profile.seek_table_write = given(SeekTable(vec![(1, 1.0), (1000, 10.0)]));
        assert_eq!(SeekCurve::new(&profile, 1001).time_ns(1000, true, true), 10_000_000);
    }

    #[test]
    fn a_longer_way_never_takes_less_time() {
        for profile in disk_profiles() {
            let curve = SeekCurve::new(&profile, 50_000);
            let times: Vec<u64> = (0..50_000).map(|d| curve.time_ns(d, false, false)).collect();
            assert!(times.is_sorted(), "{}", profile.name);
        }
    }

    #[test]
    fn a_table_in_which_a_longer_way_is_shorter_is_known_as_one() {
        let mut profile = disk_profiles().remove(0);
        assert!(SeekCurve::new(&profile, 1001).farther_is_later());
        let origin = Origin::Guessed("a test".to_owned());
        let table = SeekTable(vec![(1, 0.8), (11, 0.7), (1000, 9.0)]);
        profile.seek_table_write = Some(Given::of(table, origin));
        assert!(!SeekCurve::new(&profile, 1001).farther_is_later());
    }
}
