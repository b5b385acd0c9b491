//! `cargo xtask bench codec`: checksums, compression and ciphers beside OpenZFS's own and the C libraries'.
//!
//! A call works on one record of 128 KiB, the default of file systems, and one thread makes them. The records are
//! text-like: words of a made-up language, the frequent ones often, with some repeated passages; they
//! compress by half or so, as source texts and logs do. Several are taken in turn, so that nothing is learnt by heart.
//! Rates are plain bytes a second.
//!
//! # How the comparison is made
//!
//! * The peers are C libraries in a process (`codec_peer.c`, compiled on the spot), opened by their names, so that
//!   their headers are not needed. One that is not there is named with its Debian package, and our figure is printed alone.
//! * Decompressors get the same compressed bytes (ours), without the frames that are ZFS's own.
//! * Rounds, turns and what is reported as in [`parity`](super::parity). A compressor's ratio counts only beside its
//!   result's size, which is printed as `stored`: bytes of all records as we compress them.

use super::peer::{PeerProcess, Rounds, ScratchFolder, compiled, fastest};
use codec::cipher::{Cipher, Mode};
use codec::compress::Form;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stdx::Prng;

const PEER_SOURCE: &str = include_str!("codec_peer.c");
const RECORD_BYTES: usize = 128 << 10;
/// Records in turn. Together they and what they compress to fit into a second-level cache of 2 MiB.
const RECORDS: usize = 6;
/// How often the peer starts anew. More: a steadier median, more time.
const ROUNDS: usize = 9;
/// Turns in a round. More: a better chance that each side gets an undisturbed slice; more time.
const TURNS: usize = 5;
/// The least time of a slice. Less: the timer's and the pipe's noise shows. More: the machine's own speed changes
/// between the two sides' slices.
const SLICE: Duration = Duration::from_millis(4);
const SALT: [u8; 32] = [9; 32];

/// What is timed.
#[derive(Clone, Copy)]
enum Work {
    Sum(fn(&[u8]) -> codec::checksum::Sum),
    Decompress(Form),
    Compress(Form),
    Seal(Mode),
    Open(Mode),
}

struct Case {
    name: &'static str,
    work: Work,
    /// Whether the peer knows it.
    has_peer: bool,
}

const fn case(name: &'static str, work: Work) -> Case {
    Case { name, work, has_peer: true }
}

const fn alone(name: &'static str, work: Work) -> Case {
    Case { name, work, has_peer: false }
}

const CASES: [Case; 16] = [
    case("fletcher4", Work::Sum(codec::checksum::fletcher4)),
    case("sha256", Work::Sum(codec::checksum::sha256)),
    case("sha512", Work::Sum(codec::checksum::sha512_256)),
    alone("skein", Work::Sum(|bytes| codec::checksum::skein(&SALT, bytes))),
    alone("edonr", Work::Sum(|bytes| codec::checksum::edonr(&SALT, bytes))),
    alone("blake3", Work::Sum(|bytes| codec::checksum::blake3(&SALT, bytes))),
    case("lz4-decompress", Work::Decompress(Form::Lz4)),
    case("zstd-decompress", Work::Decompress(Form::Zstd(3))),
    case("gzip-decompress", Work::Decompress(Form::Gzip(6))),
    case("lz4-compress", Work::Compress(Form::Lz4)),
    case("zstd-compress", Work::Compress(Form::Zstd(3))),
    case("gzip-compress", Work::Compress(Form::Gzip(6))),
    case("aes-256-gcm", Work::Seal(Mode::Gcm)),
    case("aes-256-ccm", Work::Seal(Mode::Ccm)),
    alone("aes-256-gcm-open", Work::Open(Mode::Gcm)),
    alone("aes-256-ccm-open", Work::Open(Mode::Ccm)),
];

/// Runs the benchmark; `arguments` are the names of the cases to run, or none for all.
///
/// # Errors
/// An argument isn't the name of a case, or a peer that was compiled fails.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(unknown) = arguments.iter().find(|name| CASES.iter().all(|c| c.name != **name)) {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(format!("bench codec: no case {unknown}; there are {}", names.join(", ")));
    }
    let folder = ScratchFolder::new("codec")?;
    let program = compiled(PEER_SOURCE, &["-ldl"], &folder.0, "codec_peer");
    let program =
        program.map_err(|failure| eprintln!("bench codec: without peers: {failure}")).ok();
    let plain: Vec<Vec<u8>> = (0..RECORDS as u64).map(text).collect();
    for case in &CASES {
        if arguments.is_empty() || arguments.iter().any(|name| name == case.name) {
            measure(case, &plain, program.as_deref(), &folder.0)?;
        }
    }
    Ok(())
}

/// A record of text: words that are frequent as words are, now and then a passage once more.
fn text(seed: u64) -> Vec<u8> {
    let mut random = Prng::new(seed);
    let vocabulary: Vec<String> = (0..4000)
        .map(|_| {
            (0..2 + random.below(8)).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
        })
        .collect();
    let mut text = Vec::with_capacity(RECORD_BYTES + 64);
    while text.len() < RECORD_BYTES {
        if text.len() > 4096 && random.below(60) == 0 {
            let from = random.below(text.len() as u64 - 200) as usize;
            let len = 20 + random.below(120) as usize;
            text.extend_from_within(from..from + len);
            continue;
        }
        // The k-th word about once in k: where the logarithm lies is uniform.
        let rank = (4000_f64.ln() * random.unit()).exp();
        text.extend_from_slice(vocabulary[(rank as usize).min(3999)].as_bytes());
        text.push(if random.below(12) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(RECORD_BYTES);
    text
}

/// Our side of a case: the records as they are worked on.
struct Ours {
    work: Work,
    plain: Vec<Vec<u8>>,
    stored: Vec<Vec<u8>>,
    codes: Vec<[u8; 16]>,
    cipher: Option<Cipher>,
    into: Vec<u8>,
    next: usize,
}

impl Ours {
    fn new(work: Work, plain: &[Vec<u8>]) -> Ours {
        let plain = plain.to_vec();
        let mut ours = Ours {
            work,
            stored: plain.clone(),
            plain,
            codes: vec![[0; 16]; RECORDS],
            cipher: None,
            into: vec![0; RECORD_BYTES],
            next: 0,
        };
        match work {
            Work::Sum(_) => {}
            Work::Decompress(form) | Work::Compress(form) => {
                let compress = |plain: &Vec<u8>| form.compress(plain, usize::MAX);
                ours.stored =
                    ours.plain.iter().map(|p| compress(p).expect("it compresses")).collect();
            }
            Work::Seal(mode) | Work::Open(mode) => {
                let cipher = Cipher::new(mode, &[7; 32]).expect("32 bytes");
                for (stored, code) in ours.stored.iter_mut().zip(&mut ours.codes) {
                    *code = cipher.seal(&[1; 12], &[], stored).expect("short enough");
                }
                ours.cipher = Some(cipher);
            }
        }
        ours
    }

    fn once(&mut self) {
        let at = self.next;
        self.next = (at + 1) % RECORDS;
        match self.work {
            Work::Sum(sum) => {
                black_box(sum(&self.plain[at]));
            }
            Work::Decompress(form) => {
                form.decompress(&self.stored[at], &mut self.into).expect("it was compressed here");
            }
            Work::Compress(form) => {
                black_box(form.compress(&self.plain[at], RECORD_BYTES));
            }
            Work::Seal(_) => {
                let cipher = self.cipher.as_ref().expect("it has one");
                black_box(cipher.seal(&[2; 12], &[], &mut self.into).expect("short enough"));
            }
            Work::Open(_) => {
                self.into.copy_from_slice(&self.stored[at]);
                let cipher = self.cipher.as_ref().expect("it has one");
                cipher.open(&[1; 12], &[], &mut self.into, &self.codes[at]).expect("sealed here");
            }
        }
    }

    fn time(&mut self, repeats: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..repeats {
            self.once();
        }
        start.elapsed().as_secs_f64()
    }

    /// Whether what comes out is what went in.
    fn check(&mut self, name: &str) -> Result<(), String> {
        for record in 0..RECORDS {
            self.next = record;
            self.once();
            let gives_plain = matches!(self.work, Work::Decompress(_) | Work::Open(_));
            if gives_plain && self.into != self.plain[record] {
                return Err(format!("bench codec: our {name} gives wrong bytes"));
            }
        }
        Ok(())
    }

    /// The records for the peer, without the headers that ZFS puts before them.
    fn write(&self, folder: &Path, name: &str) -> Result<PathBuf, String> {
        let header = match self.work {
            Work::Decompress(Form::Lz4) => 4,
            Work::Decompress(Form::Zstd(_)) => 8,
            _ => 0,
        };
        let mut bytes = Vec::new();
        for (plain, stored) in self.plain.iter().zip(&self.stored) {
            let stored = &stored[header..];
            bytes.extend_from_slice(&(plain.len() as u32).to_ne_bytes());
            bytes.extend_from_slice(&(stored.len() as u32).to_ne_bytes());
            bytes.extend_from_slice(plain);
            bytes.extend_from_slice(stored);
        }
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

fn measure(
    case: &Case,
    plain: &[Vec<u8>],
    peer: Option<&Path>,
    folder: &Path,
) -> Result<(), String> {
    let mut ours = Ours::new(case.work, plain);
    ours.check(case.name)?;
    let file = ours.write(folder, case.name)?;
    let peer = peer.filter(|_| case.has_peer);
    let mut rounds = Rounds::default();
    let mut peer_name = String::new();
    for _ in 0..ROUNDS {
        // Memory anew too: where pages lie moves these figures.
        let mut ours = Ours::new(case.work, plain);
        let mut repeats = 1;
        while ours.time(repeats) < SLICE.as_secs_f64() {
            repeats *= 2;
        }
        let mut process = peer.map(|program| PeerProcess::start(case.name, program)).transpose()?;
        let request = |repeats: u32| format!("{} {} {repeats}", case.name, file.display());
        let mut peer_repeats = 1;
        while let Some(started) = &mut process {
            match started.time(&request(peer_repeats)) {
                Ok((seconds, name)) if seconds >= SLICE.as_secs_f64() => {
                    peer_name = name;
                    break;
                }
                Ok(_) => peer_repeats *= 2,
                Err(problem) => {
                    eprintln!("{problem}");
                    process = None;
                }
            }
        }
        let (mut our_slices, mut peer_slices) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            our_slices.push(ours.time(repeats) / f64::from(repeats));
            if let Some(process) = &mut process {
                let (seconds, _) = process.time(&request(peer_repeats))?;
                peer_slices.push(seconds / f64::from(peer_repeats));
            }
        }
        let (own, peers) = (fastest(&our_slices), fastest(&peer_slices));
        match process.is_some() {
            true => rounds.add(own, peers, peers / own),
            false => rounds.add_alone(own),
        }
    }
    let mib_per_s = |seconds: f64| (RECORD_BYTES as f64 / f64::from(1 << 20) / seconds).round();
    let name = format!("{}-128KiB", case.name);
    let mut line = rounds.line("codec", &name, "MiB/s", &peer_name, mib_per_s);
    if matches!(case.work, Work::Compress(_)) {
        line["stored"] = ours.stored.iter().map(Vec::len).sum::<usize>().into();
    }
    println!("{line}");
    Ok(())
}
