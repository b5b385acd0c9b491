//! Work that burns processor time: what it is, what it costs, and on which core it is done.
//!
//! A piece of [`Work`] is one job over some bytes, or several that are done in one go (a block that is compressed,
//! encrypted and summed). Each kind has a rate, by algorithm: SHA-256 takes ten times as long as fletcher, gzip
//! a hundred times. So what a job costs is known before it is begun, in nanoseconds, and that decides who does it:
//!
//! | [`Place`] | who says so | where it is done |
//! |---|---|---|
//! | `Planned` | [`Rt::compute`](crate::Rt::compute) | small: at once, on the executor's core; [large](Work::is_large): on another core |
//! | `Here` | [`Rt::charge`](crate::Rt::charge) | on the executor's core, whatever it costs |
//! | `Anywhere` | [`Work::anywhere`] | on any core: the work of a program's own threads, which a simulation models |
//!
//! A real reactor and a simulated one decide alike. The simulated one then books what its own host needs for the
//! work: an old processor is slower, but what is large is large by the rates below, which are all that a real
//! reactor knows.
//!
//! **The rates** of checksums, compression and ciphers were measured by `cargo xtask bench codec` on one core (2 processors
//! of a virtual machine with AVX-512 and SHA instructions, shared with other work; the fastest slices), 128 KiB of text at
//! a time; those of parity, copies and comparing are the profile `epyc-2024`'s. They need be right within a factor of
//! two: a job that costs what handing it over costs may as well be done on either side.

use std::time::Duration;
use stdx::ByteCount;

/// A job that takes as long as this is done on another core. Handing work to another thread and taking its answer
/// costs about so much (measured on two processors, Linux 6.18 in a virtual machine). More leaves processors idle, and
/// timers and other tasks waiting; less hands over at a loss.
pub const HAND_OVER: Duration = Duration::from_micros(20);

/// Kinds of work in one piece at the most: compress, encrypt, checksum.
const PARTS_MAX: usize = 3;

/// A function that sums bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names of the field")]
pub enum SumKind {
    Fletcher,
    Crc32c,
    Sha256,
    Sha512,
    Skein,
    Edonr,
    Blake3,
}

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names of the field")]
pub enum CompressKind {
    Lzjb,
    Zle,
    Lz4,
    Gzip,
    Zstd,
}

/// A mode of AES that encrypts and authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names of the field")]
pub enum CipherKind {
    Gcm,
    Ccm,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkKind {
    /// Submitting one I/O to the operating system and taking its completion; bytes count for copies
    /// that the system makes.
    Io,
    /// A call of a program to the operating system that its page cache answers; the copy is work of its own.
    Call,
    /// One executor's share of a request that another one carries out.
    Crossing,
    /// Copying bytes.
    Copy,
    /// XOR parity over the given bytes of data.
    ParityP,
    /// P and Q parity over the given bytes of data.
    ParityPq,
    /// P, Q and R parity over the given bytes of data.
    ParityPqr,
    /// Computing lost members from the given bytes of survivors.
    Reconstruct,
    /// Comparing bytes.
    Compare,
    /// Taking the checksum of bytes.
    Checksum(SumKind),
    /// Compressing the given bytes.
    Compress(CompressKind),
    /// Decompressing to the given bytes.
    Decompress(CompressKind),
    /// Encrypting and authenticating the given bytes.
    Encrypt(CipherKind),
    /// Decrypting and authenticating the given bytes.
    Decrypt(CipherKind),
    /// Making up data: the lab's own cost, kept apart from the engine's.
    Generate,
    /// What a program that is modelled does on its own between its I/Os: see [`Work::program`].
    Program,
}

/// What work costs: some nanoseconds whatever its size, and some picoseconds a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds beside the bytes.
    pub fixed_ns: u32,
    /// Picoseconds for each byte.
    pub byte_ps: u32,
}

/// What the parts of one executor's share of a [crossing](WorkKind::Crossing) take: a message sent and an answer
/// taken, or a message taken and an answer sent.
const CROSSING_NS: u32 = 372;
// In MiB/s: GCM 7425, CCM 777; opening as sealing.
const GCM_PS: u32 = 128;
const CCM_PS: u32 = 1230;

const fn sum_ps(kind: SumKind) -> u32 {
    match kind {
        // 31 307 MiB/s.
        SumKind::Fletcher => 30,
        // Guessed: a table of bytes.
        SumKind::Crc32c => 600,
        // 1719, 561, 526, 2054 and 6139 MiB/s.
        SumKind::Sha256 => 555,
        SumKind::Sha512 => 1700,
        SumKind::Skein => 1810,
        SumKind::Edonr => 464,
        SumKind::Blake3 => 155,
    }
}

const fn compress_ps(kind: CompressKind) -> u32 {
    match kind {
        // Guessed, beside lz4.
        CompressKind::Lzjb => 3000,
        CompressKind::Zle => 700,
        // 443, 48 (level 6) and 207 MiB/s (level 3).
        CompressKind::Lz4 => 2150,
        CompressKind::Gzip => 19_900,
        CompressKind::Zstd => 4610,
    }
}

const fn decompress_ps(kind: CompressKind) -> u32 {
    match kind {
        // Guessed, beside lz4.
        CompressKind::Lzjb => 1500,
        CompressKind::Zle => 300,
        // 3093, 655 and 914 MiB/s.
        CompressKind::Lz4 => 308,
        CompressKind::Gzip => 1460,
        CompressKind::Zstd => 1040,
    }
}

impl WorkKind {
    /// What it costs on the core of the [module](self)'s rates.
    pub const fn rate(self) -> Rate {
        let (fixed_ns, byte_ps) = match self {
            // The operating system's own, as the profile `epyc-2024` guesses it.
            WorkKind::Io => (2000, 0),
            // As that profile has it, which says how it was measured.
            WorkKind::Call => (600, 0),
            // Half of what `cargo xtask bench cores` has for both sides at a depth of 16, 744 ns.
            WorkKind::Crossing => (CROSSING_NS, 0),
            WorkKind::Copy => (0, 100),
            WorkKind::ParityP => (0, 39),
            WorkKind::ParityPq => (0, 82),
            WorkKind::ParityPqr => (0, 137),
            WorkKind::Reconstruct => (0, 125),
            WorkKind::Compare => (0, 67),
            WorkKind::Checksum(kind) => (0, sum_ps(kind)),
            WorkKind::Compress(kind) => (0, compress_ps(kind)),
            WorkKind::Decompress(kind) => (0, decompress_ps(kind)),
            WorkKind::Encrypt(CipherKind::Gcm) | WorkKind::Decrypt(CipherKind::Gcm) => (0, GCM_PS),
            WorkKind::Encrypt(CipherKind::Ccm) | WorkKind::Decrypt(CipherKind::Ccm) => (0, CCM_PS),
            WorkKind::Generate => (0, 100),
            // Its bytes are nanoseconds.
            WorkKind::Program => (0, 1000),
        };
        Rate { fixed_ns, byte_ps }
    }

    /// Picoseconds for so many bytes.
    const fn cost_ps(self, bytes: ByteCount) -> u64 {
        let Rate { fixed_ns, byte_ps } = self.rate();
        (fixed_ns as u64 * 1000).saturating_add(bytes.bytes().saturating_mul(byte_ps as u64))
    }

    /// Whether it is the host's own work for an I/O, which no other thread can do.
    const fn is_bound(self) -> bool {
        matches!(self, WorkKind::Io | WorkKind::Call | WorkKind::Crossing)
    }
}

/// Where a piece of work is done. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On the executor's core where it is small, on another where it is large.
    #[default]
    Planned,
    /// On the executor's core.
    Here,
    /// On any core.
    Anywhere,
}

/// A piece of work: of each kind how many bytes go through it.
///
/// It goes with every job, most of which are small: so it is small itself, and knows what it costs from when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    bytes: [ByteCount; PARTS_MAX],
    cost_ps: u64,
    kinds: [WorkKind; PARTS_MAX],
    count: u8,
    place: Place,
    /// One of its kinds is the host's own work, which no other thread can do.
    is_bound: bool,
}

const _: () = assert!(size_of::<Work>() <= 48, "a piece of work is small");

impl Work {
    /// Work of this kind over so many bytes.
    pub const fn new(kind: WorkKind, bytes: ByteCount) -> Work {
        Work {
            bytes: [bytes; PARTS_MAX],
            cost_ps: kind.cost_ps(bytes),
            kinds: [kind; PARTS_MAX],
            count: 1,
            place: Place::Planned,
            is_bound: kind.is_bound(),
        }
    }

    /// So much of a thread that has its core for itself, as a program of its own would take: done on any core. A
    /// real reactor does nothing for it, since nothing is done; it is for what a simulation models.
    pub const fn program(time: Duration) -> Work {
        // One byte of this kind is a nanosecond: all that a piece of work can carry is bytes.
        Work::new(WorkKind::Program, ByteCount(time.as_nanos() as u64)).anywhere()
    }

    /// The same, and this after it, in one go.
    ///
    /// # Panics
    /// With more than three kinds.
    pub const fn and(mut self, kind: WorkKind, bytes: ByteCount) -> Work {
        assert!((self.count as usize) < PARTS_MAX, "a piece of work has at most three kinds");
        self.kinds[self.count as usize] = kind;
        self.bytes[self.count as usize] = bytes;
        self.count += 1;
        self.cost_ps = self.cost_ps.saturating_add(kind.cost_ps(bytes));
        self.is_bound |= kind.is_bound();
        self
    }

    /// The same, done on any core: it stands for what a thread of its own does.
    pub const fn anywhere(mut self) -> Work {
        self.place = Place::Anywhere;
        self
    }

    /// The same, done on the executor's core unless it may be done anywhere.
    pub(crate) fn here(mut self) -> Work {
        if self.place == Place::Planned {
            self.place = Place::Here;
        }
        self
    }

    /// Where it is done.
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Its kinds, each with its bytes.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (WorkKind, ByteCount)> {
        self.kinds.into_iter().zip(self.bytes).take(self.count.into())
    }

    /// The bytes that go through all of its kinds.
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.parts().map(|(_, bytes)| bytes.bytes()).sum())
    }

    /// What it costs by the rates of its kinds.
    pub fn cost(&self) -> Duration {
        Duration::from_nanos(self.cost_ps / 1000)
    }

    /// Whether another core does it, where there is one: it is planned, and costs as much as handing it over.
    pub fn is_large(&self) -> bool {
        self.cost_ps / 1000 >= HAND_OVER.as_nanos() as u64
            && self.place == Place::Planned
            && !self.is_bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_so_by_its_time_and_not_by_its_bytes() {
        let block = ByteCount::kib(128);
        let of = |kind| Work::new(kind, block);
        assert!(!of(WorkKind::Checksum(SumKind::Fletcher)).is_large());
        assert!(!of(WorkKind::ParityP).is_large());
        assert!(of(WorkKind::Checksum(SumKind::Sha256)).is_large());
        assert!(of(WorkKind::Checksum(SumKind::Skein)).is_large());
        assert!(of(WorkKind::Compress(CompressKind::Gzip)).is_large());
        assert!(of(WorkKind::Decompress(CompressKind::Zstd)).is_large());
        assert!(Work::new(WorkKind::ParityP, ByteCount::mib(1)).is_large());
        assert!(!Work::new(WorkKind::Checksum(SumKind::Sha256), ByteCount::kib(4)).is_large());
    }

    #[test]
    fn a_programs_time_is_what_it_costs_on_any_core() {
        let work = Work::program(Duration::from_micros(180));
        assert_eq!((work.cost(), work.place()), (Duration::from_micros(180), Place::Anywhere));
        assert_eq!(work.here().place(), Place::Anywhere);
    }

    #[test]
    fn a_job_of_several_kinds_costs_their_sum_and_stays_where_it_must() {
        let kib = ByteCount::kib;
        let parity = Work::new(WorkKind::ParityPq, kib(128));
        let all = parity.and(WorkKind::Checksum(SumKind::Fletcher), kib(128));
        let sum = Work::new(WorkKind::Checksum(SumKind::Fletcher), kib(128));
        assert!(all.cost().abs_diff(parity.cost() + sum.cost()) <= Duration::from_nanos(1));
        assert_eq!((all.bytes(), all.parts().len()), (kib(256), 2));
        let large = Work::new(WorkKind::ParityPq, ByteCount::mib(64));
        assert!(large.is_large() && !large.here().is_large() && !large.anywhere().is_large());
        assert_eq!(large.anywhere().here().place(), Place::Anywhere);
        assert!(!Work::new(WorkKind::Io, ByteCount::gib(1)).is_large());
    }
}
