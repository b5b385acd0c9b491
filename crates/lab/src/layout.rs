//! What a target tells of a layout beside its speed. What follows from it is worked out in [`crate::layouts`].

/// What a layout is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutFacts {
    /// Its name in the study.
    pub name: String,
    /// What it is: `RAID 6 of 8 disks, chunk 64 KiB`.
    pub what: String,
    /// Disks that it takes.
    pub disks: u64,
    /// What the smallest holds.
    pub disk_bytes: u64,
    /// What the volume holds.
    pub usable_bytes: u64,
    /// Disks of which any may be lost.
    pub survives_any: u64,
    /// Disks that may be lost where they are the right ones.
    pub survives_at_best: u64,
    /// Whether its disks are files, or parts of fewer disks than it has: then these losses tell nothing.
    pub shares_disks: bool,
    /// How a lost disk comes back; none where it does not.
    pub rebuild: Option<RebuildFacts>,
    /// Failures of a disk in a year, 0.0044 for an AFR of 0.44 %; none where it is not known.
    pub failures_a_year: Option<f64>,
    /// Unreadable sectors for each bit read; none where it is not known.
    pub unreadable_per_bit: Option<f64>,
    /// What a disk costs.
    pub disk_price: Option<f64>,
    /// Where these rates are from.
    pub basis: String,
}

/// How a lost disk comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct RebuildFacts {
    /// What it writes: a disk's content, or that of all disks of a member that is lost with one of them.
    pub bytes: u64,
    /// At which rate (B/s) on an idle set; none where it is not known.
    pub rate: Option<f64>,
    /// The rate (B/s) that it keeps to, and no more, while a load is at work.
    pub floor: f64,
    /// How often (s) it looks whether its set had requests of the load since it looked last, which is to be at work; none where
    /// what a load asks does not reach the sets as it asks it: there is a cache, a read-ahead or a file system between.
    pub look: Option<f64>,
    /// Bytes a member that it then asks for at a time, one after the other.
    pub step: f64,
    /// Disks whose loss meanwhile costs redundancy that the lost disk was a part of.
    pub mates: u64,
    /// What it reads of them.
    pub read_bytes: u64,
    /// Where it is one of several sets side by side; none where the volume is one set, which a load keeps at work.
    pub legs: Option<Legs>,
}

/// Sets side by side, over which a load goes and of which one mends.
#[derive(Clone, Debug, PartialEq)]
pub struct Legs {
    /// How many.
    pub count: u64,
    /// Bytes on one of them before the next one's turn.
    pub unit: u64,
    /// How often (s) the rebuild looks whether its set still has requests of the load.
    pub look: f64,
    /// Steps that it has in flight while there are none.
    pub window: u64,
}
