//! The processor of a simulated host, or of a RAID controller: cores, and what work costs them.
//!
//! Theory. A piece of work takes bytes / rate of its kind (for an I/O: a fixed time, and a copy where
//! the system makes one). It is booked on a core; while that is busy, it waits. Which core, is decided as a
//! real executor's host decides it ([`rt::work`]):
//!
//! * Each executor has a core, the first where there is one. What is done here (the host's share of an I/O, small
//!   work) is done on it, one after another, though others may be idle.
//! * Large work goes to the core that is free first, to the executor's only where the others are no sooner free;
//!   its answer comes later by what [handing over](HAND_OVER) takes. On a host of one core it is done here.
//! * What stands for threads of a program's own goes to the core that is free first.
//!
//! Profiles have rates of what RAID sets do. Checksums, compression and ciphers cost what [`rt::WorkKind::rate`] says
//! of a core of today, and as much more as this host compares bytes slower than that core does.
//!
//! Making up test data costs nothing here: it is the lab's cost, and a real host would be given the
//! data. Not modelled: caches, memory bandwidth shared by cores, frequency changes, interrupts on a
//! core of their own.

use crate::profile::{ControllerProfile, HostProfile};
use rt::work::{HAND_OVER, Place};
use rt::{Work, WorkKind};
use stdx::{ByteCount, Duration, Instant};

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
    /// How much longer what has no rate of its own takes than on the core of the rates.
    slower: f64,
}

/// Cores and their bookings.
#[derive(Clone, Debug)]
pub struct Processor {
    costs: Costs,
    free: Vec<Instant>,
    /// Time for which each core was busy.
    busy: Vec<Duration>,
}

/// ns a byte from 10⁶ bytes a second.
fn ns_per_byte(mb_s: f64) -> f64 {
    1e3 / mb_s
}

/// How much longer this host takes to compare bytes than the core of the rates.
fn slower(compare_mb_s: f64) -> f64 {
    ns_per_byte(compare_mb_s) * 1e3 / f64::from(WorkKind::Compare.rate().byte_ps)
}

impl Costs {
    /// What one kind of work costs, in ns.
    fn ns_of(&self, kind: WorkKind, bytes: f64) -> f64 {
        match kind {
            WorkKind::Io => self.io_ns + self.copy * bytes,
            WorkKind::Copy => self.copy * bytes,
            WorkKind::ParityP => self.parity_p * bytes,
            WorkKind::ParityPq => self.parity_pq * bytes,
            WorkKind::ParityPqr => self.parity_pqr * bytes,
            WorkKind::Reconstruct => self.reconstruct * bytes,
            WorkKind::Compare => self.compare * bytes,
            WorkKind::Generate => 0.0,
            WorkKind::Crossing
            | WorkKind::Checksum(_)
            | WorkKind::Compress(_)
            | WorkKind::Decompress(_)
            | WorkKind::Encrypt(_)
            | WorkKind::Decrypt(_) => {
                let rate = kind.rate();
                self.slower * (f64::from(rate.fixed_ns) + f64::from(rate.byte_ps) * bytes / 1e3)
            }
        }
    }
}

impl Processor {
    /// A processor that does everything in no time.
    pub fn infinite() -> Processor {
        Processor::with(Costs::default(), 1)
    }

    fn with(costs: Costs, cores: usize) -> Processor {
        Processor { costs, free: vec![Instant::START; cores], busy: vec![Duration::ZERO; cores] }
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
            slower: slower(profile.compare_mb_s.value),
        };
        Processor::with(costs, profile.cores.value as usize)
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
            slower: slower(profile.throughput_mb_s.value),
        };
        Some(Processor::with(costs, 1))
    }

    /// How many cores it has.
    pub fn cores(&self) -> usize {
        self.free.len()
    }

    /// Books a piece of work of the executor that has this core; returns when who waits for it may go on.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn book(&mut self, now: Instant, own: usize, work: Work) -> Instant {
        let cost =
            |(kind, bytes): (WorkKind, ByteCount)| self.costs.ns_of(kind, bytes.bytes() as f64);
        let span = Duration::from_nanos(work.parts().map(cost).sum::<f64>() as u64);
        if span.is_zero() {
            return now;
        }
        let is_large = work.is_large() && self.free.len() > 1;
        let first_free = |cores: &[Instant]| {
            let free = cores.iter().enumerate().map(|(at, free)| (now.max(*free), at == own, at));
            free.min().map_or(own, |(.., at)| at)
        };
        let core = match work.place() {
            Place::Anywhere => first_free(&self.free),
            Place::Planned if is_large => first_free(&self.free),
            Place::Planned | Place::Here => own,
        };
        self.busy[core] += span;
        let free = &mut self.free[core];
        *free = now.max(*free) + span;
        if is_large { *free + HAND_OVER } else { *free }
    }

    /// Modelled time for which cores were busy.
    pub fn busy(&self) -> Duration {
        self.busy.iter().sum()
    }

    /// Modelled time for which one core was busy.
    pub fn busy_of(&self, core: usize) -> Duration {
        self.busy.get(core).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    //! What could break: work on a core that a real host would not give it to, so that a simulated engine looks
    //! better than it is.

    use super::*;
    use crate::profile::{Profile, load};
    use rt::SumKind;

    /// Four cores; P at 3 GB/s.
    fn opteron() -> Processor {
        let Ok(Profile::Host(profile)) = load("opteron-2008") else { panic!("a host") };
        Processor::of_host(&profile)
    }

    fn micros(us: u64) -> Instant {
        Instant::START + Duration::from_micros(us)
    }

    #[test]
    fn large_work_beyond_the_cores_waits_for_the_first_that_is_free() {
        let mut processor = opteron();
        let work = Work::new(WorkKind::ParityP, ByteCount(3_000_000));
        let done: Vec<Instant> = (0..5).map(|_| processor.book(Instant::START, 0, work)).collect();
        assert_eq!(done, [1020, 1020, 1020, 1020, 2020].map(micros));
        assert_eq!(processor.busy(), Duration::from_millis(5));
        let free =
            processor.book(Instant::START, 0, Work::new(WorkKind::Generate, ByteCount::gib(1)));
        assert_eq!(free, Instant::START);
    }

    #[test]
    fn small_work_waits_for_the_executors_core_and_large_work_leaves_it_free() {
        let mut processor = opteron();
        let small = Work::new(WorkKind::ParityP, ByteCount(30_000));
        let large = Work::new(WorkKind::ParityP, ByteCount(3_000_000));
        let done = [small, small, large, small].map(|work| processor.book(Instant::START, 0, work));
        assert_eq!(done, [10, 20, 1020, 30].map(micros));
        let anywhere = processor.book(Instant::START, 0, small.anywhere());
        assert_eq!(anywhere, micros(10));
    }

    #[test]
    fn a_digest_costs_what_it_is_and_not_what_comparing_costs() {
        let book = |kind| {
            let done = opteron().book(Instant::START, 0, Work::new(kind, ByteCount::kib(4)));
            done.since(Instant::START)
        };
        let (sha, skein) =
            (WorkKind::Checksum(SumKind::Sha256), WorkKind::Checksum(SumKind::Skein));
        assert!(book(sha) > 4 * book(WorkKind::Compare));
        assert!(book(skein) > 4 * book(WorkKind::Compare));
    }
}
