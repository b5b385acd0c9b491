//! One file copied into a pool: content, then attributes, then its name.
//!
//! The temporary name is made of what the file is: device, inode, size and times. So what was begun of a file that has changed since
//! is never continued. A file that changes while it is read is not copied: what was read is of no one moment.
//!
//! **Continuing.** Content is written from front to back, and the pool keeps the order of changes; so what was begun is good up to
//! its end, and goes on there.
//!
//! **Order of attributes.** Owner, mode and times in one change, which takes privileges away with the owner and sets those of the
//! mode; then extended attributes, which leave times alone. A list of access that the directory handed down and the file doesn't
//! have goes.

use super::super::copy::told_apart;
use super::super::place::OwnNames;
use super::super::tally::Trouble;
use super::entries::Entries;
use crate::printable;
use ::host::directory::Directory;
use ::host::reading::{self, Known};
use attach::pools::running::files::{DATA_BYTES_MAX, Set};
use rt::inodes::{InodeError, InodeKind, Node, acl, rules};
use rt::{BufMut, SgList};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are read and written at once.
const PIECE_BYTES: u64 = DATA_BYTES_MAX as u64;
/// Bytes of extended attributes near which a file takes no more: names and values, without what lies around them.
const LIST_BYTES: usize = 48 << 10;

/// What a file is, in a name: what is written for it until it is whole.
pub(super) fn part_of(known: &Known, taken: &OwnNames) -> Vec<u8> {
    let words = [
        known.identity.0,
        known.size,
        known.modified.0 as u64,
        known.modified.1.into(),
        known.changed.0 as u64,
        known.changed.1.into(),
    ];
    let hash = told_apart(words.iter().flat_map(|word| word.to_le_bytes()));
    let stem = taken.free(&format!(".spindle-{}-{hash:016x}", known.identity.1));
    format!("{stem}.part").into_bytes()
}

/// Where something is copied from and to.
pub(super) struct Way<'a> {
    /// The directory of the host, and the name in it.
    pub(super) from: (&'a Directory, &'a [u8]),
    /// The directory of the dataset, and the name in it.
    pub(super) into: (Node, &'a [u8]),
    /// The name until it is whole.
    pub(super) part: Vec<u8>,
    /// What has the name gives way.
    pub(super) replaces: bool,
    /// The path on the host, for what is told.
    pub(super) shown: &'a [u8],
}

impl Entries {
    /// Copies a plain file.
    pub(super) async fn file(&self, way: &Way<'_>, known: &Known) -> Result<Node, Trouble> {
        let (from, name) = way.from;
        let file = reading::open(from, name)?;
        let begun = reading::known_of(&file)?;
        if begun.identity != known.identity {
            return Err(Trouble::Failed(::host::directory::REPLACED.into()));
        }
        let (node, good) = match self.look(way.into.0, &way.part).await? {
            Some(there) if there.kind == InodeKind::File && there.size.bytes() <= begun.size => {
                (there.node, there.size.bytes())
            }
            _ => (self.make(way.into.0, &way.part, InodeKind::File, (0, 0)).await?, 0),
        };
        self.tally.progress(good);
        let written = self.content(&file, node, good, begun.size).await;
        let is_as_it_was = reading::known_of(&file)
            .is_ok_and(|now| (now.size, now.modified) == (begun.size, begun.modified));
        let text = "it changed while it was read: copy it once more";
        let done = match written {
            Err(stop @ Trouble::Stop(_)) => return Err(stop),
            _ if !is_as_it_was => Err(Trouble::Failed(text.into())),
            other => other,
        };
        if let Err(trouble) = done {
            // There is nothing to go on with.
            self.remove_if_there(way.into.0, &way.part).await?;
            return Err(trouble);
        }
        self.finish(way, node, &begun).await?;
        Ok(node)
    }

    /// Sets all that is known of what was made, and gives it its name.
    pub(super) async fn finish(
        &self,
        way: &Way<'_>,
        node: Node,
        known: &Known,
    ) -> Result<(), Trouble> {
        self.set(node, known).await?;
        let attributes = reading::attributes(way.from.0, way.from.1);
        self.set_extended(node, attributes?, way.shown).await?;
        self.rename(way.into.0, &way.part, way.into.1, way.replaces).await
    }

    /// Writes a file's content from a place on.
    async fn content(&self, file: &File, node: Node, good: u64, size: u64) -> Result<(), Trouble> {
        let mut at = good;
        while let Some((data, end)) = reading::data_from(file, at, size)? {
            self.tally.progress(data - at);
            at = data;
            while at < end {
                self.pause().await?;
                // Pieces end where blocks do.
                let until = (at / PIECE_BYTES + 1).saturating_mul(PIECE_BYTES).min(end);
                let mut bytes = BufMut::for_overwrite((until - at) as usize);
                file.read_exact_at(&mut bytes, at)?;
                let data = SgList::from(bytes.freeze());
                let written = self.files.write(self.by, node, at, data).await;
                written.map_err(|error| self.trouble(error))?;
                self.tally.progress(until - at);
                at = until;
            }
        }
        if at < size {
            self.tally.progress(size - at);
            let set = Set { bytes: Some(size), ..Set::default() };
            let set = self.files.set(self.by, node, set).await;
            set.map_err(|error| self.trouble(error))?;
        }
        Ok(())
    }

    /// Sets extended attributes, and tells which are not taken; takes lists of access away that the directory handed down.
    pub(super) async fn set_extended(
        &self,
        node: Node,
        attributes: Vec<(Vec<u8>, Vec<u8>)>,
        shown: &[u8],
    ) -> Result<(), Trouble> {
        let has = |name: &[u8]| attributes.iter().any(|(known, _)| known == name);
        let there = self.files.extended_attributes(node).await;
        for name in there.map_err(|error| self.trouble(error))? {
            if (name == acl::ACCESS || name == acl::DEFAULT) && !has(&name) {
                let removed = self.files.remove_extended(self.by, node, &name).await;
                removed.map_err(|error| self.trouble(error))?;
            }
        }
        // Too many for one file look like a full pool.
        let all: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        for (name, value) in attributes {
            if self.rules.no_setuid && name == rules::CAPABILITIES {
                continue;
            }
            let set = self.files.set_extended(self.by, node, (&name, &value)).await;
            let Err(error) = set else { continue };
            let trouble = match error {
                InodeError::NoSpace if all >= LIST_BYTES => Trouble::Failed(error.to_string()),
                other => self.trouble(other),
            };
            match trouble {
                stop @ Trouble::Stop(_) => return Err(stop),
                _ => self.tally.complain(&format!(
                    "{}: the attribute {} could not be set: {error}{}",
                    printable::bytes(shown),
                    printable::bytes(&name),
                    mend(&name, error)
                )),
            }
        }
        Ok(())
    }
}

/// What lets a dataset take an attribute that it doesn't.
fn mend(name: &[u8], error: InodeError) -> &'static str {
    match error {
        InodeError::NotSupported if name.starts_with(b"user.") => {
            " (spindle zfs set xattr=sa lets the dataset have it)"
        }
        _ => "",
    }
}
