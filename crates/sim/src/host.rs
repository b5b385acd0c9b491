//! The processor of a simulated host, or of a RAID controller: cores, and what work costs them.
//!
//! Theory. A piece of work takes bytes / rate of its kind (for an I/O: a fixed time, and a copy where
//! the system makes one). It is booked on the core that is free first; if none is, it waits. So work
//! queues when the cores are full, which is all of a scheduler that throughput needs.
//!
//! Making up test data costs nothing here: it is the lab's cost, and a real host would be given the
//! data. Not modelled: caches, memory bandwidth shared by cores, frequency changes, interrupts on a
//! core of their own.

use crate::profile::{ControllerProfile, HostProfile};
use rt::{Work, WorkKind};
use stdx::{Duration, Instant};

/// What one core does, in ns a byte; for an I/O, in ns beside.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    io_ns: f64,
    copy: f64,
    parity_p: f64,
    parity_pq: f64,
    parity_pqr: f64,
    reconstruct: f64,
    compare: f64,
}

/// Cores and their bookings.
#[derive(Clone, Debug)]
pub struct Processor {
    costs: Costs,
    free: Vec<Instant>,
    busy: Duration,
}

/// ns a byte from 10⁶ bytes a second.
fn ns_per_byte(mb_s: f64) -> f64 {
    1e3 / mb_s
}

impl Processor {
    /// A processor that does everything in no time.
    pub fn infinite() -> Processor {
        Processor { costs: Costs::default(), free: vec![Instant::START], busy: Duration::ZERO }
    }

    /// The processor of a host.
    pub fn of_host(profile: &HostProfile) -> Processor {
        let costs = Costs {
            io_ns: profile.io_us.value * 1e3,
            copy: ns_per_byte(profile.copy_mb_s.value),
            parity_p: ns_per_byte(profile.parity_p_mb_s.value),
            parity_pq: ns_per_byte(profile.parity_pq_mb_s.value),
            parity_pqr: ns_per_byte(profile.parity_pqr_mb_s.value),
            reconstruct: ns_per_byte(profile.reconstruct_mb_s.value),
            compare: ns_per_byte(profile.compare_mb_s.value),
        };
        let free = vec![Instant::START; profile.cores.value as usize];
        Processor { costs, free, busy: Duration::ZERO }
    }

    /// The processor of a RAID controller, which does the parity of its sets with one engine; `None`
    /// where the host does it. Its copies run at the rate of all that passes it, its reconstruction at
    /// that of P and Q.
    pub fn of_controller(profile: &ControllerProfile) -> Option<Processor> {
        let (p, pq) = (profile.parity_p_mb_s.value, profile.parity_pq_mb_s.value);
        if p == 0.0 || pq == 0.0 {
            return None;
        }
        let throughput = ns_per_byte(profile.throughput_mb_s.value);
        let costs = Costs {
            // Booked by the controller's own device, once per host command.
            io_ns: 0.0,
            copy: throughput,
            parity_p: ns_per_byte(p),
            parity_pq: ns_per_byte(pq),
            parity_pqr: ns_per_byte(pq),
            reconstruct: ns_per_byte(pq),
            compare: throughput,
        };
        Some(Processor { costs, free: vec![Instant::START], busy: Duration::ZERO })
    }

    /// Books a piece of work; returns when it is done.
    pub fn book(&mut self, now: Instant, work: Work) -> Instant {
        let costs = &self.costs;
        let (fixed, per_byte) = match work.kind {
            WorkKind::Io => (costs.io_ns, costs.copy),
            WorkKind::Copy => (0.0, costs.copy),
            WorkKind::ParityP => (0.0, costs.parity_p),
            WorkKind::ParityPq => (0.0, costs.parity_pq),
            WorkKind::ParityPqr => (0.0, costs.parity_pqr),
            WorkKind::Reconstruct => (0.0, costs.reconstruct),
            WorkKind::Compare => (0.0, costs.compare),
            // Profiles have no figures of their own for these: fletcher and lz4 run about as fast as memory is read.
            WorkKind::Checksum | WorkKind::Decompress | WorkKind::Decrypt => (0.0, costs.compare),
            WorkKind::Generate => (0.0, 0.0),
        };
        let span = Duration::from_nanos((fixed + per_byte * work.bytes.bytes() as f64) as u64);
        if span.is_zero() {
            return now;
        }
        self.busy += span;
        let core = self.free.iter_mut().min().expect("a processor has a core");
        *core = now.max(*core) + span;
        *core
    }

    /// Modelled time for which cores were busy.
    pub fn busy(&self) -> Duration {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, load};
    use stdx::ByteCount;

    #[test]
    fn work_beyond_the_cores_waits_for_the_first_that_is_free() {
        let Ok(Profile::Host(profile)) = load("opteron-2008") else { panic!("a host") };
        let mut processor = Processor::of_host(&profile);
        let work = Work::new(WorkKind::ParityP, ByteCount(3_000_000));
        let millis = |ms| Instant::START + Duration::from_millis(ms);
        let done: Vec<Instant> = (0..5).map(|_| processor.book(Instant::START, work)).collect();
        assert_eq!(done, [millis(1), millis(1), millis(1), millis(1), millis(2)]);
        assert_eq!(processor.busy(), Duration::from_millis(5));
        let free = processor.book(Instant::START, Work::new(WorkKind::Generate, ByteCount::gib(1)));
        assert_eq!(free, Instant::START);
    }
}
