//! Directories whose names can't be read: what lies in them is copied under numbers.
//!
//! A file says in which directory it lies. So what a directory that can't be read had in it is found by looking at all files of the
//! dataset, once for a copy, and gets the name `#OBJECT`; what lies below a directory so found has its own name again. The same command finds
//! the same names, and goes on. That is told, and the status is 1: a name is lost, and perhaps a file that says another
//! directory, since it has a name there, too.

use super::copier::Copier;
use super::tally::files;
use super::walk::Walk;
use crate::output::say;
use ::zfs::ZfsError;
use ::zfs::zap::Cursor;
use ::zfs::zpl::{Name, Node};
use std::collections::BTreeSet;
use zfs_format::zpl::directory::DirectoryEntry;

impl Copier {
    /// The names of a directory as far as they can be had, which they can't all for this reason; and names for what lies in it besides.
    pub(super) async fn names_left(
        &self,
        walk: &mut Walk<'_>,
        path: &[u8],
        node: &Node,
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
        let hidden = node.attributes.extended_attributes;
        let lies_in = walk.by_parent.iter().flat_map(|all| all.of(node.number()));
        let nameless = lies_in.filter(|object| !objects.contains(object) && *object != hidden);
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
}
