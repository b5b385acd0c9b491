//! What the walk over one source carries.

use super::super::source::Source;
use super::children::Children;
use super::place::OwnNames;
use ::host::directory::Directory;
use ::zfs::zpl::Node;
use ::zfs::zpl::by_parent::ByParent;
use std::collections::{BTreeMap, BTreeSet};

/// A name of a file that was copied, from the directory into which it was copied.
pub(super) type Below = Vec<Vec<u8>>;

/// What the walk over one source carries.
pub(super) struct Walk<'a> {
    pub(super) source: &'a Source,
    pub(super) top: &'a Directory,
    /// The directory where it began.
    pub(super) begun: Node,
    /// The name of the mark in the top directory, where it has one.
    pub(super) mark: Option<Vec<u8>>,
    /// Names in the directory of the pool that it is in.
    pub(super) taken: OwnNames,
    /// What lies in the target's directory already of the one that it is in, by device and inode.
    pub(super) done: BTreeSet<(u64, u64)>,
    /// First names, with the files that they led to.
    pub(super) links: BTreeMap<u64, (Below, (u64, u64))>,
    /// Files with several names that were copied anew: their further names give way.
    pub(super) anew: BTreeSet<u64>,
    /// Files by the directories that they lie in, where names were found to be lost.
    pub(super) by_parent: Option<ByParent>,
    /// Directories of which nothing could be read, and what lies in them was copied.
    pub(super) lost: BTreeSet<u64>,
    pub(super) children: &'a Children,
    /// Where the root of the source's dataset lies below that of the dataset that was named.
    pub(super) prefix: Vec<u8>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        source: &'a Source,
        top: &'a Directory,
        begun: &Node,
        children: &'a Children,
        prefix: Vec<u8>,
    ) -> Walk<'a> {
        let (begun, mark, taken) = (begun.clone(), None, OwnNames::default());
        let (links, anew, done) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let (by_parent, lost) = (None, BTreeSet::new());
        Walk {
            source,
            top,
            begun,
            mark,
            taken,
            done,
            links,
            anew,
            by_parent,
            lost,
            children,
            prefix,
        }
    }

    /// A path in the source's dataset, from the root of the dataset that was named.
    pub(super) fn whole(&self, path: &[u8]) -> Vec<u8> {
        join(&self.prefix, path)
    }
}

pub(super) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if path.is_empty() || name.is_empty() { b"" } else { b"/" };
    [path, separator, name].concat()
}
