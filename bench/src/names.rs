//! The benchmarks, by name: what each compares. `xtask` reads this file, too, so that they can be listed, and a wrong
//! name refused, without building what they measure.

/// A benchmark's name, and what it compares.
pub const BENCHES: &[(&str, &str)] = &[
    ("codec", "checksums, compression and ciphers, beside OpenZFS's and the C libraries'"),
    ("cores", "RAID 6 sets on one executor and on several"),
    ("executor", "4 KiB reads through Device and io_uring, beside fio"),
    (
        "fidelity",
        "simulated drives under the loads of real ones, beside what was measured, and DiskSim",
    ),
    ("lab-load", "a fio job in the lab, beside fio, by processor time"),
    ("nbd", "I/Os through the NBD server, beside qemu-nbd and nbdkit"),
    ("parity", "P, P+Q, P+Q+R: generate and reconstruct, beside ISA-L and OpenZFS"),
    ("raid", "full-stripe writes of RAID 5 and 6 over tmpfs, beside parity plus bare writes"),
    ("simulation", "simulated I/Os a second on one core"),
    ("zfs-read", "a large object of a pool, beside libzpool and zfs-fuse"),
    ("zfs-write", "volumes and files of pools written, beside libzpool, zfs-fuse and btrfs"),
];

/// Whether there is one of this name; if not, what is said of it.
pub fn check(name: &str) -> Result<(), String> {
    if BENCHES.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let names: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
    Err(format!("there is no benchmark '{name}'; there are: {}", names.join(", ")))
}
