//! Names that are the same to a directory and not to the kernel: a file system that normalises names, or in which case does not matter.
//!
//! The kernel believes what it was told of a name for as long as it likes, that there is nothing as well. So what it was asked is
//! remembered by what is the same, and where one spelling is changed it is told that the others lead elsewhere.

use super::shared::{NAMES_MAX, Served, Shared};
use rt::inodes::{ChangeNotice, MountId};

impl Shared {
    /// A name of a directory was asked for.
    pub(super) fn note_spelling(&self, of: &Served, directory: u64, name: &[u8]) {
        let rules = of.files.name_rules();
        if rules.of_names() == 0 {
            return;
        }
        let mut all = self.spelled.borrow_mut();
        if all.len() >= NAMES_MAX {
            let names = std::mem::take(&mut *all)
                .into_iter()
                .flat_map(|((inode, _), names)| names.into_iter().map(move |name| (inode, name)));
            let notices: Vec<ChangeNotice> = names.filter_map(|of| self.notice_of(of)).collect();
            self.tell_all(MountId::NONE, &notices);
        }
        let same = (of.inode(directory), rules.same(name).into_owned());
        all.entry(same).or_default().insert(name.to_vec());
    }

    fn notice_of(&self, (inode, name): (u64, Vec<u8>)) -> Option<ChangeNotice> {
        let (index, object) = Served::parts(inode);
        let served = self.served.borrow().get(index).cloned().flatten()?;
        Some(ChangeNotice::Entry { directory: served.node(object), name })
    }

    /// A name of a directory leads elsewhere, changed by this mount: others are told so, and all are of other spellings.
    pub(super) fn tell_of_entry(&self, by: MountId, of: &Served, directory: u64, name: &[u8]) {
        let node = of.node(directory);
        let entry = |name: &[u8]| ChangeNotice::Entry { directory: node, name: name.to_vec() };
        self.tell_all(by, &[entry(name), ChangeNotice::Content(node)]);
        let rules = of.files.name_rules();
        if rules.of_names() == 0 {
            return;
        }
        let same = (of.inode(directory), rules.same(name).into_owned());
        let known = self.spelled.borrow_mut().remove(&same).unwrap_or_default();
        let others = known.iter().filter(|known| *known != name);
        let notices: Vec<ChangeNotice> = others.map(|other| entry(other)).collect();
        if !notices.is_empty() {
            self.tell_all(MountId::NONE, &notices);
        }
    }
}
