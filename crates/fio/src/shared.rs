//! What a job's worker shares with the conductor and with other jobs, in atomics.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stdx::{Duration, Instant};

/// The state of one job.
#[derive(Debug, Default)]
pub(super) struct JobState {
    ending: AtomicBool,
    /// Whether the conductor looks at the counts below.
    counted: bool,
    ios: AtomicU64,
    bytes: AtomicU64,
    lat_ns: AtomicU64,
}

impl JobState {
    pub(super) fn new(counted: bool) -> JobState {
        JobState { counted, ..JobState::default() }
    }

    /// Tells the job to end.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    pub(super) fn wants_counts(&self) -> bool {
        self.counted
    }

    /// An I/O was answered. Only the job's worker calls it, so a load and a store do.
    pub(super) fn count(&self, bytes: u64, lat_ns: u64) {
        for (count, more) in [(&self.ios, 1), (&self.bytes, bytes), (&self.lat_ns, lat_ns)] {
            count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    /// I/Os, bytes, and the sum of latencies so far.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.ios, &self.bytes, &self.lat_ns].map(|count| count.load(Ordering::Relaxed))
    }
}

/// What jobs with one `flow_id` did together.
#[derive(Debug, Default)]
pub(super) struct FlowGroup {
    ios: AtomicU64,
    weights: AtomicU64,
    began: OnceLock<Instant>,
}

/// Jobs of a flow that begin within this begin together.
const TOGETHER: Duration = Duration::from_millis(100);

/// One job's part in it. A job waits while its share of the I/Os is above its share of the weights.
#[derive(Debug)]
pub(super) struct FlowShare {
    group: std::sync::Arc<FlowGroup>,
    weight: u64,
    ios: AtomicU64,
}

impl FlowShare {
    /// Enters the group.
    pub(super) fn enter(group: &std::sync::Arc<FlowGroup>, weight: u64) -> FlowShare {
        group.weights.fetch_add(weight, Ordering::Relaxed);
        FlowShare { group: std::sync::Arc::clone(group), weight, ios: AtomicU64::new(0) }
    }

    /// Whether the job may make an I/O, which then counts as made.
    pub(super) fn may_go(&self) -> bool {
        let mine = u128::from(self.ios.load(Ordering::Relaxed));
        let all = u128::from(self.group.ios.load(Ordering::Relaxed));
        let weights = u128::from(self.group.weights.load(Ordering::Relaxed));
        if mine * weights > all * u128::from(self.weight) {
            return false;
        }
        self.ios.fetch_add(1, Ordering::Relaxed);
        self.group.ios.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// When the jobs of the flow began, for one that does now: those that began together end together, since who goes on alone, be it for
    /// a thousandth of a second, waits for nobody.
    pub(super) fn began(&self, now: Instant) -> Instant {
        let first = *self.group.began.get_or_init(|| now);
        if now.since(first) < TOGETHER { first } else { now }
    }

    /// Leaves it, so that nobody waits for this job.
    pub(super) fn leave(&self) {
        self.group.weights.fetch_sub(self.weight, Ordering::Relaxed);
        self.group.ios.fetch_sub(self.ios.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn shares_of_a_flow_follow_the_weights() {
        let group = Arc::<FlowGroup>::default();
        let (one, three) = (FlowShare::enter(&group, 1), FlowShare::enter(&group, 3));
        let (mut ones, mut threes) = (0, 0);
        for _ in 0..1000 {
            ones += u32::from(one.may_go());
            threes += u32::from(three.may_go());
        }
        assert!(threes >= 900 && (threes / 3).abs_diff(ones) <= 2, "{ones} to {threes}");
        let now = Instant::default();
        let (soon, late) = (now + Duration::from_millis(3), now + Duration::from_secs(2));
        assert_eq!([one.began(now), three.began(soon), three.began(late)], [now, now, late]);
        three.leave();
        assert!((0..10).all(|_| one.may_go()), "nobody waits for a job that left");
    }
}
