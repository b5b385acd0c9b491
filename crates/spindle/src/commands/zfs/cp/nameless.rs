//! Directories whose names can't be read, or of which nothing can: what lies in them is copied under numbers.
//!
//! A file says in which directory it lies. So what a directory that can't be read had in it is found by looking at all files of the
//! dataset, once for a copy, and gets the name `#OBJECT`; what lies below a directory so found has its own name again. The same command finds
//! the same names, and goes on. That is told, and the status is 1: a name is lost, and perhaps a file that says another
//! directory, since it has a name there, too.

use super::copier::Copier;
use super::tally::{Trouble, files};
use super::walk::{Below, Walk};
use crate::output::say;
use ::host::directory::Directory;
use ::zfs::ZfsError;
use ::zfs::zap::Cursor;
use ::zfs::zpl::Name;
use std::collections::BTreeSet;
use zfs_format::zpl::directory::DirectoryEntry;

impl Copier {
    /// The names of a directory as far as they can be had, which they can't all for this reason; and names for what lies in it besides.
    pub(super) async fn names_left(
        &self,
        walk: &mut Walk<'_>,
        path: &[u8],
        directory: u64,
        (mut names, error): (Vec<Name>, ZfsError),
    ) -> Vec<Name> {
        let source = walk.source;
        if walk.by_parent.is_none() {
            let dataset = source.of.name();
            say(&format!(
                "note: {dataset}: names are lost: looking at all files for where they lie"
            ));
            walk.by_parent = Some(source.files.by_parent().await.unwrap_or_default());
        }
        let objects: BTreeSet<u64> = names.iter().map(|name| name.entry.object).collect();
        let taken: BTreeSet<Vec<u8>> = names.iter().map(|name| name.name.clone()).collect();
        let lies_in = walk.by_parent.iter().flat_map(|all| all.of(directory));
        let nameless = lies_in.filter(|object| !objects.contains(object));
        let before = names.len();
        for object in nameless {
            let mut name = format!("#{object}").into_bytes();
            while taken.contains(&name) {
                name.push(b'#');
            }
            let entry = DirectoryEntry { object, kind: None };
            names.push(Name { name, entry, next: Cursor::default() });
        }
        let text = match (names.len() - before) as u64 {
            0 => format!("{error}; names are lost, and no file says that it lies there"),
            1 => format!("{error}; 1 file in it has lost its name, and is copied as #NUMBER"),
            many => format!(
                "{error}; {} in it have lost their names, and are copied as #NUMBER",
                files(many)
            ),
        };
        self.tally.complain(&source.about(path, text));
        names
    }

    /// Copies what lies in a directory of which nothing can be read, for this reason, but its name and number where it is named. It gets no
    /// attributes. Each is entered once: it says no parent, so an image may be forged to lead back to it.
    pub(super) async fn lost_directory(
        &self,
        walk: &mut Walk<'_>,
        below: &Below,
        path: &[u8],
        (directory, error): (u64, ZfsError),
        (into, name): (&Directory, &[u8]),
    ) -> Result<(), Trouble> {
        let whole = walk.whole(path);
        if let Some(child) = walk.children.meet(&whole) {
            return self.child(walk, child, whole, into, name).await;
        }
        if !walk.lost.insert(directory) {
            return Err(Trouble::Failed(format!("{error}; what lies in it was copied elsewhere")));
        }
        let inside = self.entered(into, name)?;
        let mut deeper = below.clone();
        deeper.push(name.to_vec());
        let names = self.names_left(walk, path, directory, (Vec::new(), error)).await;
        Box::pin(self.entries(walk, deeper, path, directory, names, &inside)).await
    }
}
