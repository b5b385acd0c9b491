//! Datasets that leave a mount: one that is to be destroyed lies in the mount of what is above it.
//!
//! It leaves if nobody has a file of it open, or if it has to: who has finds that it is gone from then on. What the kernel knows of its
//! files leads nowhere; it is told to ask for the name anew. Is the dataset still there then, because what was to be done with it
//! was not done, it is taken up again as any other.

use super::shared::{OBJECT_BITS, Served, Shared};
use rt::inodes::{ChangeNotice, MountId};
use std::rc::Rc;

impl Shared {
    /// Lets go of a dataset below the one at the top. Says whether it did: else somebody has files of it open.
    pub(super) fn leave(&self, dataset: u64, by_force: bool) -> bool {
        let Some(served) = self.taken_up(dataset).filter(|served| served.index != 0) else {
            return true;
        };
        let inodes = served.index << OBJECT_BITS..(served.index + 1) << OBJECT_BITS;
        if !by_force && self.holds.any_held(inodes.clone()) {
            return false;
        }
        self.holds.forget(&inodes);
        self.open.borrow_mut().nodes.retain(|inode, _| !inodes.contains(inode));
        self.known.borrow_mut().remove(&dataset);
        self.served.borrow_mut()[served.index as usize] = None;
        self.tell_of_leaving(&served);
        true
    }

    /// A dataset that is served, by its object.
    pub(super) fn taken_up(&self, dataset: u64) -> Option<Rc<Served>> {
        let index = *self.known.borrow().get(&dataset)?;
        self.served.borrow().get(index).cloned().flatten()
    }

    pub(super) fn name_of(&self, dataset: u64) -> String {
        self.taken_up(dataset).map_or_else(String::new, |served| served.name())
    }

    fn tell_of_leaving(&self, of: &Rc<Served>) {
        let directory = of.parent.get();
        let whole = of.name();
        let name = whole.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
        self.tell_all(MountId::NONE, &[ChangeNotice::Entry { directory, name }]);
    }
}
