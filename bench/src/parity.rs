//! `cargo xtask bench parity`: our parity beside ISA-L's and OpenZFS's own.
//!
//! Three generations (`gen-p`, `gen-pq`, `gen-pqr`) and seven reconstructions, named as raidz names
//! them: `rec-pr` rebuilds two lost data members from P and R. There are 8 data members. The size is that
//! of the data of one stripe, as in OpenZFS's `raidz_test -B`: 128 KiB means 16 KiB a member. Rates are
//! data bytes (those of all 8 members, lost or not) a second, in one thread.
//!
//! # How the comparison is made
//!
//! * The peers are C libraries, and code that calls C is unsafe, which this crate forbids. So each peer is a
//!   process (`parity_peer.c`, compiled on the spot with `cc`) that times its own calls on request. It
//!   waits while we run and we wait while it runs.
//! * A **round** starts the peers anew and allocates our memory anew, because where pages lie in the
//!   cache moves these figures by several percent. Within a round each case is timed by turns (ours, peer,
//!   peer; ours, peer, peer; …) in slices of some milliseconds, and a side's time is the fastest of its
//!   slices, since whatever else the machine does can only add to it. The ratio that is reported is the
//!   median over the rounds, with the least and the greatest.
//! * Both sides work on one page-aligned piece of memory that holds the members one after the other, warm.
//!   Before a case is timed, its outputs are spoilt, made once, and compared: by the peers with the
//!   definition of parity, by us with what our parity was (that it is right is for `codec`'s tests).
//! * OpenZFS has several implementations; its side tries them all on each case and uses the fastest. ISA-L
//!   picks by processor itself; it has no function for rebuilding, so its general erasure code is used, with
//!   tables made beforehand (ours are worked out in each call).
//!
//! A peer that can't be compiled is named with its Debian package, and the rest is measured.

use super::peer::{PeerProcess, Rounds, ScratchFolder, compiled, fastest};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codec::parity::{self, Member};

const PEER_SOURCE: &str = include_str!("parity_peer.c");

const DATA_MEMBERS: usize = 8;
const PARITY_MEMBERS: usize = 3;
const PAGE_BYTES: usize = 4096;

/// Data bytes of a stripe, and how the case's name ends.
const SIZES: [(usize, &str); 2] = [(128 << 10, "128KiB"), (1 << 20, "1MiB")];

/// How often everything starts anew. More: a steadier median, a wider least-to-greatest, more time.
const ROUNDS: usize = 15;

/// Turns in a round. More: a better chance that each side gets an undisturbed slice; more time.
const TURNS: usize = 7;

/// The least time of a slice. Less: the timer's and the pipe's noise shows. More: the machine's
/// own speed changes between the two sides' slices.
const SLICE: Duration = Duration::from_millis(2);

/// What is timed: parity made, or data members rebuilt.
struct Case {
    name: &'static str,
    /// The data members from 0 that are lost; none if parity is to be made.
    lost: usize,
    /// The parities that are made or used.
    parities: &'static [usize],
}

const CASES: [Case; 10] = [
    Case { name: "gen-p", lost: 0, parities: &[0] },
    Case { name: "gen-pq", lost: 0, parities: &[0, 1] },
    Case { name: "gen-pqr", lost: 0, parities: &[0, 1, 2] },
    Case { name: "rec-p", lost: 1, parities: &[0] },
    Case { name: "rec-q", lost: 1, parities: &[1] },
    Case { name: "rec-r", lost: 1, parities: &[2] },
    Case { name: "rec-pq", lost: 2, parities: &[0, 1] },
    Case { name: "rec-pr", lost: 2, parities: &[0, 2] },
    Case { name: "rec-qr", lost: 2, parities: &[1, 2] },
    Case { name: "rec-pqr", lost: 3, parities: &[0, 1, 2] },
];

/// Another library to compare with.
struct PeerLibrary {
    name: &'static str,
    debian_package: &'static str,
    compiler_arguments: &'static [&'static str],
}

const PEERS: [PeerLibrary; 2] = [
    PeerLibrary {
        name: "isa-l",
        debian_package: "libisal-dev",
        compiler_arguments: &["-DPEER_ISAL", "-lisal"],
    },
    PeerLibrary {
        name: "openzfs",
        debian_package: "libzfslinux-dev (component contrib)",
        compiler_arguments: &[
            "-DPEER_OPENZFS",
            // libzpool is always built with this, and its structures depend on it.
            "-DZFS_DEBUG",
            "-D_GNU_SOURCE",
            "-w",
            "-I/usr/include/libzfs",
            "-I/usr/include/libspl",
            "-lzpool",
        ],
    },
];

/// Runs the benchmark; `arguments` are the names of the cases to run (`gen-pq`), or none for all.
///
/// # Errors
/// If an argument isn't the name of a case, or a peer that was compiled fails.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(unknown) = arguments.iter().find(|name| CASES.iter().all(|c| c.name != **name)) {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(format!("bench parity: no case {unknown}; there are {}", names.join(", ")));
    }
    let cases: Vec<&Case> = CASES
        .iter()
        .filter(|case| arguments.is_empty() || arguments.iter().any(|name| name == case.name))
        .collect();

    let folder = ScratchFolder::new("parity")?;
    let peers: Vec<(&PeerLibrary, PathBuf)> =
        PEERS.iter().filter_map(|peer| Some((peer, compile(peer, &folder.0)?))).collect();
    eprintln!(
        "bench parity: {DATA_MEMBERS} data members, one thread, our kernel {}; a size is that of \
         the data of a stripe",
        parity::Kernel::best().name()
    );

    // measured[size][case] is one result a round.
    let mut measured: Vec<Vec<Vec<RoundResult>>> =
        SIZES.iter().map(|_| cases.iter().map(|_| Vec::new()).collect()).collect();
    for _ in 0..ROUNDS {
        for ((data_bytes, _), measured) in SIZES.iter().zip(&mut measured) {
            let mut stripe = Stripe::new(data_bytes / DATA_MEMBERS);
            let mut processes = Vec::new();
            for (peer, program) in &peers {
                processes.push(PeerProcess::start(peer.name, program)?);
            }
            for (case, measured) in cases.iter().zip(measured) {
                measured.push(run_round(case, &mut stripe, &mut processes)?);
            }
        }
    }

    for ((data_bytes, size_name), measured) in SIZES.iter().zip(measured) {
        for (case, rounds) in cases.iter().zip(measured) {
            report(case, size_name, *data_bytes, &rounds, &peers);
        }
    }
    Ok(())
}

/// Seconds a call, ours and each peer's, with the name of the function that the peer used.
struct RoundResult {
    ours: f64,
    peers: Vec<(f64, String)>,
}

fn run_round(
    case: &Case,
    stripe: &mut Stripe,
    processes: &mut [PeerProcess],
) -> Result<RoundResult, String> {
    stripe.check(case)?;
    // Each side's slices are equally long, not equally many calls: a longer slice is more often disturbed.
    let mut repeats = 1_u32;
    while stripe.time(case, repeats) < SLICE {
        repeats *= 2;
    }
    let mut peers = Vec::new();
    for process in &mut *processes {
        // The first call prepares, and picks the implementation.
        let mut peer_repeats = 1_u32;
        let mut answer = process.time(&request(case, stripe, peer_repeats))?;
        while answer.0 < SLICE.as_secs_f64() {
            peer_repeats *= 2;
            answer = process.time(&request(case, stripe, peer_repeats))?;
        }
        peers.push((peer_repeats, Vec::new(), answer.1));
    }
    let mut ours = Vec::new();
    for _ in 0..TURNS {
        ours.push(stripe.time(case, repeats).as_secs_f64() / f64::from(repeats));
        for (process, (repeats, times, _)) in processes.iter_mut().zip(&mut peers) {
            let (seconds, _) = process.time(&request(case, stripe, *repeats))?;
            times.push(seconds / f64::from(*repeats));
        }
    }
    Ok(RoundResult {
        ours: fastest(&ours),
        peers: peers.into_iter().map(|(_, times, used)| (fastest(&times), used)).collect(),
    })
}

/// What a peer is asked.
fn request(case: &Case, stripe: &Stripe, repeats: u32) -> String {
    format!("{} {} {repeats}", case.name, stripe.member_bytes)
}

/// Prints a line for each peer; one without a peer if there is none.
fn report(
    case: &Case,
    size_name: &str,
    data_bytes: usize,
    rounds: &[RoundResult],
    peers: &[(&PeerLibrary, PathBuf)],
) {
    let mib_per_s = |seconds: f64| (data_bytes as f64 / f64::from(1 << 20) / seconds).round();
    let name = format!("{}-{size_name}", case.name);
    let print = |told: &Rounds, peer: &str| {
        println!("{}", told.line("parity", &name, "MiB/s", peer, mib_per_s));
    };
    if peers.is_empty() {
        let mut told = Rounds::default();
        rounds.iter().for_each(|round| told.add_alone(round.ours));
        print(&told, "");
    }
    for (index, (peer, _)) in peers.iter().enumerate() {
        let mut told = Rounds::default();
        for round in rounds {
            let theirs = round.peers[index].0;
            told.add(round.ours, theirs, theirs / round.ours);
        }
        print(&told, &format!("{} {}", peer.name, rounds[0].peers[index].1));
    }
}

/// Our side: a stripe in one piece of memory, data first.
struct Stripe {
    memory: Vec<u8>,
    /// Where the first page boundary in `memory` is.
    start: usize,
    member_bytes: usize,
}

impl Stripe {
    fn new(member_bytes: usize) -> Stripe {
        let bytes = (DATA_MEMBERS + PARITY_MEMBERS) * member_bytes;
        let mut memory = vec![1_u8; bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        let mut random = 1_u32;
        for byte in &mut memory[start..start + DATA_MEMBERS * member_bytes] {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (random >> 24) as u8;
        }
        let mut stripe = Stripe { memory, start, member_bytes };
        stripe.work(&CASES[2]);
        stripe
    }

    fn bytes(&mut self) -> &mut [u8] {
        let bytes = (DATA_MEMBERS + PARITY_MEMBERS) * self.member_bytes;
        &mut self.memory[self.start..self.start + bytes]
    }

    /// Does the case once. This is what is timed, and all of it: from slices of the members to the result.
    fn work(&mut self, case: &Case) {
        let member_bytes = self.member_bytes;
        let (data, parity) = self.bytes().split_at_mut(DATA_MEMBERS * member_bytes);
        if case.lost == 0 {
            let mut members = data.chunks_exact(member_bytes);
            let data: [&[u8]; DATA_MEMBERS] = std::array::from_fn(|_| members.next().unwrap());
            let mut members = parity.chunks_exact_mut(member_bytes);
            let mut parity: [&mut [u8]; PARITY_MEMBERS] =
                std::array::from_fn(|_| members.next().unwrap());
            parity::generate(&data, &mut parity[..case.parities.len()]);
        } else {
            let mut members = data.chunks_exact_mut(member_bytes);
            let mut data: [Member; DATA_MEMBERS] = std::array::from_fn(|i| {
                let bytes = members.next().unwrap();
                if i < case.lost { Member::Lost(bytes) } else { Member::Present(bytes) }
            });
            let mut members = parity.chunks_exact(member_bytes);
            let mut parity: [Member; PARITY_MEMBERS] = std::array::from_fn(|i| {
                let bytes = members.next().unwrap();
                if case.parities.contains(&i) { Member::Present(bytes) } else { Member::Absent }
            });
            parity::reconstruct(&mut data, &mut parity);
        }
    }

    fn time(&mut self, case: &Case, repeats: u32) -> Duration {
        let start = Instant::now();
        for _ in 0..repeats {
            self.work(case);
            std::hint::black_box(&mut self.memory);
        }
        start.elapsed()
    }

    /// Does the case on spoilt members and compares with what was there. (That parity itself is right is
    /// for `codec`'s tests; here it is made by the first use of the stripe.)
    fn check(&mut self, case: &Case) -> Result<(), String> {
        let before = self.bytes().to_vec();
        let spoilt = if case.lost == 0 {
            let first = DATA_MEMBERS * self.member_bytes;
            first..first + case.parities.len() * self.member_bytes
        } else {
            0..case.lost * self.member_bytes
        };
        self.bytes()[spoilt].fill(0x5a);
        self.work(case);
        if *self.bytes() == *before {
            Ok(())
        } else {
            Err(format!("bench parity: our {} gives wrong bytes", case.name))
        }
    }
}

/// Compiles a peer's process; says what is missing and returns `None` if that fails.
fn compile(peer: &PeerLibrary, folder: &Path) -> Option<PathBuf> {
    let program = compiled(PEER_SOURCE, peer.compiler_arguments, folder, peer.name);
    let said = |failure| {
        eprintln!(
            "bench parity: without {}, which is in the Debian package {}: {failure}",
            peer.name, peer.debian_package
        );
    };
    program.map_err(said).ok()
}
