//! A device of a set that is open for writing: its superblock, its data area, and where it stands.
//!
//! Where it stands (member, replacement, spare, nobody) is asked of the engine each time, by the name of its data
//! area; nothing here repeats it. What the engine does not know is kept here: how much of a device that is filled
//! is right *and durable*, and whether its copy of the bitmap is whole.
//!
//! A journal's device is no member: it is here or has failed, which its log knows.

use crate::array::Array;
use crate::assemble::{Found, Superblock};
use crate::journal::log::Journal;
use crate::loss::Cause;
use crate::member::{MemberReport, MemberState};
use crate::ppl::space::space;
use crate::superblock::v1::SuperblockV1;
use crate::superblock::{Features, SECTOR};
use crate::window::Window;
use rt::DeviceRef;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// A device of the set.
pub(super) struct Kept {
    pub(super) device: DeviceRef,
    /// Where its superblock lies.
    pub(super) at: Offset,
    /// The device's number, by which the superblocks list its role.
    pub(super) number: usize,
    pub(super) superblock: RefCell<SuperblockV1>,
    pub(super) area: Rc<Window>,
    /// Up to which byte of its data area it is right and that is durable; none where it is whole. A spare
    /// has nothing.
    pub(super) filled: Cell<Option<u64>>,
    /// It is filled in the bitmap's stretches alone.
    pub(super) by_bitmap: Cell<bool>,
    /// Its copy of the bitmap is to be written whole.
    pub(super) without_bitmap: Cell<bool>,
    /// It can't be written any more.
    lost: Cell<bool>,
}

/// What a device is to the engine now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Member { slot: usize, whole: bool },
    Replacement { slot: usize },
    Spare,
    Nobody,
}

impl Standing {
    pub(super) fn slot(self) -> Option<usize> {
        match self {
            Standing::Member { slot, .. } | Standing::Replacement { slot } => Some(slot),
            Standing::Spare | Standing::Nobody => None,
        }
    }
}

impl Kept {
    pub(super) fn of(found: &Found, area: Rc<Window>) -> Rc<Kept> {
        let Superblock::V1(superblock) = &found.superblock else {
            unreachable!("superblocks 0.90 were refused")
        };
        let mut superblock = (**superblock).clone();
        // md takes no device that is smaller than it says.
        superblock.data_size = superblock.sectors_there(found.device.geometry().capacity);
        // Before several records are written the superblocks say that there may be several.
        if superblock.features.has(Features::PPL)
            && space(found).is_ok_and(|space| space.holds_several())
        {
            superblock.features = superblock.features.with(Features::PPL, false);
            superblock.features = superblock.features.with(Features::MULTIPLE_PPLS, true);
        }
        let by_bitmap = superblock.features.has(Features::RECOVERY_BITMAP);
        let recovered =
            found.superblock.recovery_offset().map(|sectors| sectors.saturating_mul(SECTOR));
        let has_slot = superblock.role().is_some_and(|role| role.slot().is_some());
        let filled = recovered.or((!has_slot).then_some(0));
        Rc::new(Kept {
            device: found.device.clone(),
            at: found.at,
            number: superblock.device_number as usize,
            superblock: RefCell::new(superblock),
            area,
            by_bitmap: Cell::new(by_bitmap),
            without_bitmap: Cell::new(filled.is_some()),
            filled: Cell::new(filled),
            lost: Cell::new(false),
        })
    }

    /// The same, of a member that was away. `whole` is one that missed nothing.
    pub(super) fn come_back(found: &Found, area: Rc<Window>, whole: bool) -> Rc<Kept> {
        let kept = Kept::of(found, area);
        kept.by_bitmap.set(true);
        kept.without_bitmap.set(true);
        kept.filled.set((!whole).then_some(0));
        kept
    }

    /// Whether the engine's device of this name is the data area of this one.
    fn is_called(&self, name: &Arc<str>) -> bool {
        Arc::ptr_eq(&rt::Device::name(&*self.area), name)
    }

    pub(super) fn standing(&self, members: &[MemberReport]) -> Standing {
        if self.lost.get() {
            return Standing::Nobody;
        }
        let own = members.iter().find(|one| one.name.as_ref().is_some_and(|n| self.is_called(n)));
        let Some(own) = own else { return Standing::Nobody };
        match (own.state, own.slot) {
            (MemberState::Active, Some(slot)) => Standing::Member { slot, whole: true },
            (MemberState::Rebuilding, Some(slot)) => Standing::Member { slot, whole: false },
            (MemberState::Replacement, Some(slot)) => Standing::Replacement { slot },
            (MemberState::Spare, _) => Standing::Spare,
            _ => Standing::Nobody,
        }
    }

    /// It can't be written: the array goes on without it.
    pub(super) fn is_lost(&self, array: &Array, cause: Cause) {
        let standing = self.standing(&array.members());
        self.lost.set(true);
        let name = rt::Device::name(&*self.area);
        match standing {
            Standing::Member { slot, .. } => array.set.members.fail(slot, cause),
            Standing::Replacement { slot } => array.set.members.lose_replacement(slot, cause),
            Standing::Spare => array.set.members.lose_spare(&name, cause),
            Standing::Nobody => {}
        }
    }

    pub(super) fn block(&self) -> ByteCount {
        self.device.geometry().logical_block
    }
}

/// The device of a set's journal.
pub(super) struct KeptJournal {
    pub(super) device: DeviceRef,
    /// Where its superblock lies.
    pub(super) at: Offset,
    pub(super) number: usize,
    pub(super) superblock: RefCell<SuperblockV1>,
    pub(super) log: Rc<Journal>,
}

impl KeptJournal {
    pub(super) fn of(found: &Found, log: Rc<Journal>) -> Rc<KeptJournal> {
        let Superblock::V1(superblock) = &found.superblock else {
            unreachable!("superblocks 0.90 have no journal")
        };
        Rc::new(KeptJournal {
            device: found.device.clone(),
            at: found.at,
            number: superblock.device_number as usize,
            superblock: RefCell::new((**superblock).clone()),
            log,
        })
    }
}

/// What a set has of a journal.
#[derive(Clone)]
pub(super) enum JournalState {
    /// It has none.
    None,
    /// It has one that is not here: nothing is written.
    Lost,
    /// It is here, or has failed since.
    Here(Rc<KeptJournal>),
}

impl JournalState {
    /// The journal, where it can be written.
    pub(super) fn working(&self) -> Option<&Rc<KeptJournal>> {
        match self {
            JournalState::Here(journal) if !journal.log.has_failed() => Some(journal),
            _ => None,
        }
    }
}
