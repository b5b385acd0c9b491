//! What a device is to an array. Below everything that speaks of members, so it knows none of it.

/// What a device is to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// In its slot, with everything it should have.
    Active,
    /// In its slot, partly filled.
    Rebuilding,
    /// Was in the slot and is not used any more.
    Failed,
    /// The slot has been empty from the start.
    Missing,
    /// Waits for a slot.
    Spare,
    /// Is being filled to take over a slot.
    Replacement,
}

/// Tells the devices that were members apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(pub(super) u64);
