//! What a device is to an array, as superblock 1.x writes it: a slot's number, or one of three words.

use stdx::bytes::Problem;

/// The most slots: greater numbers are words.
pub const SLOT_MAX: u16 = 0xff00;
const JOURNAL: u16 = 0xfffd;
const FAULTY: u16 = 0xfffe;
const SPARE: u16 = 0xffff;

/// What a device is to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds this slot.
    Slot(u16),
    /// Waits for a slot (a number that no device has is written as this, too).
    Spare,
    /// Was failed, or removed.
    Faulty,
    /// Is the journal device.
    Journal,
}

impl Role {
    pub(super) fn decode(number: u16) -> Result<Role, Problem> {
        match number {
            SPARE => Ok(Role::Spare),
            FAULTY => Ok(Role::Faulty),
            JOURNAL => Ok(Role::Journal),
            0..=SLOT_MAX => Ok(Role::Slot(number)),
            other => {
                let most = u64::from(SLOT_MAX);
                Err(Problem::Range { found: u64::from(other), least: 0, most })
            }
        }
    }

    pub(super) fn encode(self) -> u16 {
        match self {
            Role::Slot(slot) => slot,
            Role::Spare => SPARE,
            Role::Faulty => FAULTY,
            Role::Journal => JOURNAL,
        }
    }

    /// The slot, where it has one.
    pub fn slot(self) -> Option<usize> {
        match self {
            Role::Slot(slot) => Some(usize::from(slot)),
            _ => None,
        }
    }
}
