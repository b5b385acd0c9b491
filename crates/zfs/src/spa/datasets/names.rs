//! Names of directories, as a task found them.
//!
//! A directory doesn't know its name: the one above has a table of names. So who asks for the names of many would go over that table
//! for each. It is gone over once; what is known may have changed since, and whoever uses it looks it up.

use crate::dmu::Dnode;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// See the [module](self).
#[derive(Default)]
pub struct KnownNames {
    names: RefCell<BTreeMap<u64, String>>,
    /// The tables that they are from, which stay decoded as long as somebody has them.
    tables: RefCell<Vec<Dnode>>,
}

impl KnownNames {
    /// What a directory was called.
    pub(super) fn of(&self, directory: u64) -> Option<String> {
        self.names.borrow().get(&directory).cloned()
    }

    /// Names that stand in a table.
    pub(super) fn learn(&self, table: Dnode, all: Vec<(String, u64)>) {
        self.names.borrow_mut().extend(all.into_iter().map(|(name, number)| (number, name)));
        self.tables.borrow_mut().push(table);
    }
}
