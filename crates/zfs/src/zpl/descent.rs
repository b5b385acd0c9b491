//! Going down a tree of directories that somebody may have forged.
//!
//! In ZFS a directory has one name: it is an entry of its parent, which it names itself, and of nothing else. An image whose
//! checksums are right can say otherwise. A directory that holds itself, or one that holds it, has no end; one under two
//! names, which again holds one under two names, has 2^n paths.
//!
//! So whoever goes down enters a directory only from the parent that it names, never the one where the walk began, and of
//! each directory's entries no directory twice. Each directory then has one way that leads to it:
//!
//! * A walk that comes to a directory a second time comes from the same parent, by another entry, which is refused; or
//!   it came to the parent a second time, and so on up to where it began, which is never entered.
//! * So a walk ends, after as many directories as there are, and needs no memory but for the directory that it is in.
//!
//! What is refused is told and left; what is below can be had by naming it: where a walk begins is not asked for its parent.

use super::{FileSystem, Node};
use crate::error::{Problem, ZfsError};
use std::collections::BTreeSet;

/// The entries of one directory, on a walk. See the [module](self).
pub struct Descent {
    top: u64,
    here: u64,
    entered: BTreeSet<u64>,
}

impl Descent {
    /// In the directory `here`, on a walk that began at `top`, by their objects; the same, where it begins.
    pub fn new(top: u64, here: u64) -> Descent {
        Descent { top, here, entered: BTreeSet::new() }
    }

    /// Whether the walk may go on with what an entry leads to: always, but for directories.
    ///
    /// # Errors
    /// The directory is not to be entered from here.
    pub fn enter(&mut self, child: &Node) -> Result<(), ZfsError> {
        if !child.is_directory() {
            return Ok(());
        }
        belongs(child, self.here, self.top)?;
        match self.entered.insert(child.number()) {
            true => Ok(()),
            false => Err(child.dnode().problem(Problem::Twice)),
        }
    }
}

impl FileSystem {
    /// Whether a directory may be entered from another one, by its own word.
    ///
    /// # Errors
    /// It is not to be.
    pub(crate) fn belongs(&self, child: &Node, here: &Node) -> Result<(), ZfsError> {
        match child.is_directory() {
            true => belongs(child, here.number(), self.root_number()),
            false => Ok(()),
        }
    }
}

fn belongs(child: &Node, here: u64, top: u64) -> Result<(), ZfsError> {
    let (number, parent) = (child.number(), child.attributes.parent);
    if number == top || number == here {
        return Err(child.dnode().problem(Problem::Circle));
    }
    match parent == here {
        true => Ok(()),
        false => Err(child.dnode().problem(Problem::Elsewhere { parent })),
    }
}
