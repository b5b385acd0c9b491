//! OpenZFS's own code in a process, and how its times are held against ours.

use crate::peer::{PeerProcess, Rounds, ScratchFolder, TICKS_PER_S, compiled, three_digits};
use std::path::Path;

const SOURCE: &str = include_str!("../zfs_read_peer.c");
/// The pool that every peer makes.
pub(super) const POOL: &str = "spindlebench";

/// Seconds of the clock and of processors.
#[derive(Clone, Copy)]
pub(super) struct Spent {
    pub(super) wall: f64,
    pub(super) processor: f64,
}

/// OpenZFS's own code in a process, with a pool that it made.
pub(super) struct Libzpool {
    peer: PeerProcess,
    _folder: ScratchFolder,
}

impl Libzpool {
    /// Makes a pool in a folder that is not there yet: a volume full of `seed`, in blocks of so many bytes.
    pub(super) fn start(
        disks: &Path,
        seed: &[u8],
        mib: usize,
        block_bytes: usize,
    ) -> Result<Libzpool, String> {
        let folder = ScratchFolder::new("zfs-read")?;
        let program = compiled(SOURCE, &["-lzpool", "-lnvpair"], &folder.0, "zfs_read_peer")
            .map_err(|why| {
                format!("bench zfs-read: {why}; libzpool is in Debian's libzfslinux-dev")
            })?;
        let seed_file = folder.0.join("seed");
        std::fs::write(&seed_file, seed)
            .map_err(|error| format!("{}: {error}", seed_file.display()))?;
        std::fs::create_dir(disks).map_err(|error| format!("{}: {error}", disks.display()))?;
        let (mib, block_bytes) = (mib.to_string(), block_bytes.to_string());
        let arguments = [
            disks.as_os_str(),
            POOL.as_ref(),
            mib.as_ref(),
            seed_file.as_os_str(),
            block_bytes.as_ref(),
        ]
        .map(|argument| argument.to_owned());
        let mut peer = PeerProcess::start_with("libzpool", &program, &arguments)?;
        peer.line()?;
        Ok(Libzpool { peer, _folder: folder })
    }

    /// What a request took.
    pub(super) fn spent(&mut self, request: &str) -> Result<Spent, String> {
        let (wall, processor) = self.peer.time(request)?;
        let processor = processor.parse().map_err(|_| "bench zfs-read: the peer's answer")?;
        Ok(Spent { wall, processor })
    }
}

/// Rounds of ours beside a peer's, told by wall and by processor time.
pub(super) fn compare(
    case: &str,
    peer: &str,
    mib: usize,
    runs: usize,
    mut round: impl FnMut() -> Result<(Spent, Spent), String>,
) -> Result<(), String> {
    let mut spent = Vec::new();
    for number in 0..=runs {
        let pair = round()?;
        // The first warms up what is not the caches' business: the program's own pages.
        if number > 0 {
            spent.push(pair);
        }
    }
    for (unit, of) in
        [("wall s", (|s| s.wall) as fn(&Spent) -> f64), ("processor s", |s| s.processor)]
    {
        let mut rounds = Rounds::default();
        for (ours, theirs) in &spent {
            rounds.add(of(ours), of(theirs), of(theirs) / of(ours).max(1.0 / TICKS_PER_S));
        }
        let case = format!("{case}-{mib}-mib");
        println!("{}", rounds.line("zfs-read", &case, unit, peer, three_digits));
    }
    Ok(())
}
