//! What superblocks say: of the set, the same on all devices, and of the device that carries it.
//!
//! Everything comes from what the engine and the keeper know now; of what was read from the device only its identity
//! and its places stay.
//!
//! **With a journal** a set that is dirty says what it says when it is clean, as md does: what was being written
//! stands in the journal. Its tail stands in its own superblock, where members say how much of them is right.
//!
//! Source: Linux `drivers/md/md.c` (`super_1_sync`).

use super::Keeper;
use crate::live::kept::{JournalState, Kept, KeptJournal, Standing};
use crate::superblock::v1::SuperblockV1;
use crate::superblock::{ALL_SECTORS, Features, Role, SECTOR, Stamp};
use std::rc::Rc;

impl Keeper {
    /// What a device's superblock says now.
    pub(super) fn superblock_of(
        &self,
        kept: &Kept,
        standing: Standing,
        all: &[(Rc<Kept>, Standing)],
        seconds: u64,
    ) -> SuperblockV1 {
        let mut superblock = kept.superblock.borrow_mut();
        self.say_of_the_set(&mut superblock, all, seconds);
        let recovered = match standing {
            Standing::Member { whole: false, .. } | Standing::Replacement { .. } => {
                Some(kept.filled.get().unwrap_or(0))
            }
            Standing::Member { whole: true, .. } => kept.filled.get(),
            Standing::Spare | Standing::Nobody => None,
        };
        let is_replacement = matches!(standing, Standing::Replacement { .. });
        let by_bitmap = recovered.is_some() && !is_replacement && kept.by_bitmap.get();
        superblock.features = superblock
            .features
            .with(Features::RECOVERY_OFFSET, recovered.is_some())
            .with(Features::RECOVERY_BITMAP, by_bitmap)
            .with(Features::REPLACEMENT, is_replacement);
        superblock.recovery_offset = recovered.unwrap_or(0) / SECTOR;
        superblock.clone()
    }

    /// What the journal's superblock says now.
    pub(super) fn superblock_of_journal(
        &self,
        journal: &KeptJournal,
        all: &[(Rc<Kept>, Standing)],
        seconds: u64,
    ) -> SuperblockV1 {
        let mut superblock = journal.superblock.borrow_mut();
        self.say_of_the_set(&mut superblock, all, seconds);
        superblock.recovery_offset = journal.log.tail();
        superblock.clone()
    }

    /// The time, for all superblocks of a pass: by it members are told apart that count as many events.
    pub(super) fn seconds(&self) -> u64 {
        self.unix_s + self.rt.now().since(self.opened).as_secs()
    }

    /// What every superblock says of the set.
    fn say_of_the_set(
        &self,
        superblock: &mut SuperblockV1,
        all: &[(Rc<Kept>, Standing)],
        seconds: u64,
    ) {
        let stood = superblock.role().is_some_and(|role| role.slot().is_some());
        let state = self.journal.borrow();
        let mut roles: Vec<(usize, Role)> = Vec::new();
        for (other, its_standing) in all {
            let role = match *its_standing {
                Standing::Nobody => Role::Faulty,
                Standing::Spare => Role::Spare,
                Standing::Member { slot, .. } | Standing::Replacement { slot } => {
                    Role::Slot(slot as u16)
                }
            };
            roles.push((other.number, role));
        }
        if let JournalState::Here(journal) = &*state {
            let failed = journal.log.has_failed();
            roles.push((journal.number, if failed { Role::Faulty } else { Role::Journal }));
        }
        for (number, role) in &roles {
            if superblock.roles.len() <= *number {
                superblock.roles.resize(number + 1, Role::Spare);
            }
            superblock.roles[*number] = *role;
        }
        // Who holds a slot or is the journal by the table and is not here was missing when the set was opened.
        for (number, role) in superblock.roles.iter_mut().enumerate() {
            let stands = role.slot().is_some() || *role == Role::Journal;
            if stands && !roles.iter().any(|(here, _)| *here == number) {
                *role = Role::Faulty;
            }
        }
        let has_journal = !matches!(*state, JournalState::None);
        superblock.features = superblock.features.with(Features::JOURNAL, has_journal);
        // As md has it: while something is being written nothing is known to be right everywhere.
        let logged = has_journal && self.resynced.get() == ALL_SECTORS;
        superblock.resync_offset =
            if self.dirty.get() && !logged { 0 } else { self.resynced.get() };
        assert!(
            !stood || superblock.events <= self.events.get(),
            "the events of a member never fall"
        );
        superblock.events = self.events.get();
        superblock.updated = Stamp::from_seconds(seconds);
    }
}
