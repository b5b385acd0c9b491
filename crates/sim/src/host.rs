//! The processor of a simulated host, or of a RAID controller: cores, their threads, and what work costs them.
//!
//! Theory. A piece of work takes bytes / rate of its kind (for an I/O: a fixed time, and a copy where
//! the system makes one; for a call that the page cache answers: a fixed time). It is booked on a hardware thread of a core; while that is busy, it waits. Which one, is
//! decided as a real executor's host decides it ([`rt::work`]):
//!
//! * Each executor has a thread, the first of a core. What is done here (the host's share of an I/O, small
//!   work) is done on it, one after another, though others may be idle.
//! * Large work goes to the thread that is free first, to the executor's only where the others are no sooner free;
//!   its answer comes later by what [handing over](HAND_OVER) takes. On a host of one thread it is done here.
//! * What stands for threads of a program's own goes to the thread that is free first, of several to the one on the
//!   core with the fewest busy ones, as schedulers do.
//!
//! **Threads of one core** share its pipelines and caches. All rates and times of a profile are those of a thread
//! that is alone on its core. With `n` of a core's `t` threads busy, work takes `1 + (n − 1) × s` times as long: each
//! neighbour slows it by as much. The profile gives what the core gains by its threads, `g`, and so `s`: with all of
//! them busy it does `t / (1 + (t − 1) × s) = g` times what one does. (So the gain falls off as more are busy, as it
//! does where threads wait for one another's pipelines: four threads of a T4, whose eight gain 2.8, gain 2.2.) A
//! piece of work is stretched by those that are busy as it begins, and not again as they come and go. A thread is
//! busy for as long as its work takes, neighbours and all: so an operating system counts it, too.
//!
//! Profiles have rates of what RAID sets do. Checksums, compression and ciphers cost what [`rt::WorkKind::rate`] says
//! of a core of today, and as much more as this host compares bytes slower than that core does.
//!
//! Making up test data costs nothing here: it is the lab's cost, and a real host would be given the
//! data. Not modelled: caches, memory bandwidth shared by cores, frequency changes, interrupts on a
//! core of their own, the moves of tasks from thread to thread.

use crate::profile::{ControllerProfile, HostProfile};
use rt::work::{HAND_OVER, Place};
use rt::{Work, WorkKind};
use stdx::{ByteCount, Duration, Instant};

/// What one core does, in ns a byte; for an I/O and a call, in ns beside.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    io_ns: f64,
    call_ns: f64,
    copy: f64,
    parity_p: f64,
    parity_pq: f64,
    parity_pqr: f64,
    reconstruct: f64,
    compare: f64,
    /// How much longer what has no rate of its own takes than on the core of the rates.
    slower: f64,
}

/// Cores, their threads, and what is booked on them.
#[derive(Clone, Debug)]
pub struct Processor {
    costs: Costs,
    cores: usize,
    /// By how much each busy neighbour on the core lengthens work.
    neighbour: f64,
    /// When each thread is free; those of a core lie side by side.
    free: Vec<Instant>,
    /// Time for which each thread was busy.
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
            WorkKind::Call => self.call_ns,
            WorkKind::Copy => self.copy * bytes,
            WorkKind::ParityP => self.parity_p * bytes,
            WorkKind::ParityPq => self.parity_pq * bytes,
            WorkKind::ParityPqr => self.parity_pqr * bytes,
            WorkKind::Reconstruct => self.reconstruct * bytes,
            WorkKind::Compare => self.compare * bytes,
            WorkKind::Generate => 0.0,
            WorkKind::Program => bytes,
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

    /// Cores of one thread each.
    fn with(costs: Costs, cores: usize) -> Processor {
        let (free, busy) = (vec![Instant::START; cores], vec![Duration::ZERO; cores]);
        Processor { costs, cores, neighbour: 0.0, free, busy }
    }

    /// The same with so many threads a core, by which a core gains so much.
    fn with_threads(self, threads: usize, gain: f64) -> Processor {
        let all = self.cores * threads;
        let neighbours = threads.saturating_sub(1).max(1) as f64;
        Processor {
            neighbour: (threads as f64 / gain - 1.0) / neighbours,
            free: vec![Instant::START; all],
            busy: vec![Duration::ZERO; all],
            ..self
        }
    }

    /// The processor of a host.
    pub fn of_host(profile: &HostProfile) -> Processor {
        let costs = Costs {
            io_ns: profile.io_us.value * 1e3,
            call_ns: profile.call_us() * 1e3,
            copy: ns_per_byte(profile.copy_mb_s.value),
            parity_p: ns_per_byte(profile.parity_p_mb_s.value),
            parity_pq: ns_per_byte(profile.parity_pq_mb_s.value),
            parity_pqr: ns_per_byte(profile.parity_pqr_mb_s.value),
            reconstruct: ns_per_byte(profile.reconstruct_mb_s.value),
            compare: ns_per_byte(profile.compare_mb_s.value),
            slower: slower(profile.compare_mb_s.value),
        };
        let gain = profile.threads_gain.as_ref().map_or(1.0, |gain| gain.value);
        Processor::with(costs, profile.cores.value as usize)
            .with_threads(profile.threads() as usize, gain)
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
            call_ns: 0.0,
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
        self.cores
    }

    /// How many pieces of work it does at once: the hardware threads of all cores.
    pub fn threads(&self) -> usize {
        self.free.len()
    }

    /// The threads of the core that has this thread.
    fn siblings(&self, thread: usize) -> std::ops::Range<usize> {
        let threads = self.free.len() / self.cores;
        let first = thread / threads * threads;
        first..first + threads
    }

    /// How many other threads of its core are busy then.
    fn neighbours(&self, thread: usize, then: Instant) -> usize {
        let busy = |other: &usize| *other != thread && self.free[*other] > then;
        self.siblings(thread).filter(busy).count()
    }

    /// The thread that is free first; of several, one with few busy neighbours, and any but `own`.
    fn first_free(&self, now: Instant, own: usize) -> usize {
        let rank = |thread: &usize| {
            let begin = now.max(self.free[*thread]);
            (begin, self.neighbours(*thread, begin), *thread == own)
        };
        // None comes before one that is idle on an idle core, and mostly there is one: the rest need no look.
        let none_before = (now, 0, false);
        let all = 0..self.free.len();
        let idle = all.clone().find(|thread| rank(thread) == none_before);
        idle.or_else(|| all.min_by_key(rank)).unwrap_or(own)
    }

    /// Books a piece of work of the executor that has this core; returns when who waits for it may go on.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn book(&mut self, now: Instant, core: usize, work: Work) -> Instant {
        let cost =
            |(kind, bytes): (WorkKind, ByteCount)| self.costs.ns_of(kind, bytes.bytes() as f64);
        let alone = work.parts().map(cost).sum::<f64>();
        if alone < 1.0 {
            return now;
        }
        let own = core * (self.free.len() / self.cores);
        let is_large = work.is_large() && self.free.len() > 1;
        let thread = match work.place() {
            Place::Anywhere => self.first_free(now, own),
            Place::Planned if is_large => self.first_free(now, own),
            Place::Planned | Place::Here => own,
        };
        let begin = now.max(self.free[thread]);
        let slower = 1.0 + self.neighbour * self.neighbours(thread, begin) as f64;
        let span = Duration::from_nanos((alone * slower) as u64);
        self.busy[thread] += span;
        self.free[thread] = begin + span;
        let done = self.free[thread];
        if is_large { done + HAND_OVER } else { done }
    }

    /// Modelled time for which threads were busy.
    pub fn busy(&self) -> Duration {
        self.busy.iter().sum()
    }

    /// Modelled time for which the first thread of a core was busy, which is its executor's.
    pub fn busy_of(&self, core: usize) -> Duration {
        let first = core * (self.free.len() / self.cores);
        self.busy.get(first).copied().unwrap_or_default()
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

    /// Four cores of eight threads, which gain 2.8.
    fn t4() -> Processor {
        let Ok(Profile::Host(profile)) = load("sparc-t4-4core") else { panic!("a host") };
        Processor::of_host(&profile)
    }

    #[test]
    fn as_many_programs_run_at_once_as_there_are_threads_each_at_its_share_of_a_core() {
        let program = Work::program(Duration::from_micros(100));
        let mut processor = t4();
        assert_eq!((processor.cores(), processor.threads()), (4, 32));
        let mut book = || processor.book(Instant::START, 0, program).since(Instant::START);
        let done: Vec<Duration> = (0..33).map(|_| book()).collect();
        // One a core: nobody slows anybody.
        assert!(done[..4].iter().all(|done| *done == Duration::from_micros(100)), "{done:?}");
        assert!(done[4..8].iter().all(|other| *other > done[3] && *other == done[4]), "{done:?}");
        // All eight: 8 / 2.8 times as long.
        assert_eq!(done[31], Duration::from_nanos(285_714));
        assert!(done[32] > 2 * done[0], "the next waits for a thread: {done:?}");
    }

    #[test]
    fn a_core_with_all_threads_busy_does_what_the_profile_says_it_gains() {
        let mut processor = t4();
        let program = Work::program(Duration::from_micros(100));
        let (mut waiting, mut done) = (vec![Instant::START; 32], 0);
        loop {
            let (at, now) =
                waiting.iter().copied().enumerate().min_by_key(|one| one.1).expect("32");
            if now > micros(1_000_000) {
                break;
            }
            waiting[at] = processor.book(now, 0, program);
            done += 1;
        }
        let gain = f64::from(done) * 100e-6 / 4.0;
        assert!((2.75..2.95).contains(&gain), "{gain}");
        let busy = processor.busy().as_secs_f64();
        assert!((31.9..32.1).contains(&busy), "an operating system shows all of them busy: {busy}");
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
