//! What can have partitions.

/// What can have partitions, by its place among the disks'.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whole {
    /// A file or block device.
    File(usize),
    /// A RAID set.
    Array(usize),
    /// A logical volume: by its group's place, and its own in that.
    Logical(usize, usize),
}
