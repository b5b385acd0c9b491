//! Keys of a pool's encrypted datasets: loaded once at an encryption root, used by everything below it.
//!
//! Each encrypted dataset has a stored key (an object of the MOS), wrapped by what the user has. Datasets that inherit their
//! encryption have stored keys of their own, which name the directory that they inherit from: the *encryption root*.
//! A clone shares its origin's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs_format::dsl::crypto_key::CryptoKey;
use zfs_store::crypt::{DatasetKey, WrappingKey};

/// The wrapping keys that were loaded, by the objects of their encryption roots.
#[derive(Default)]
pub(super) struct Keys {
    wrapping: RefCell<BTreeMap<u64, Rc<WrappingKey>>>,
    unwrapped: RefCell<BTreeMap<u64, Rc<DatasetKey>>>,
}

impl Keys {
    /// A wrapping key was given for an encryption root.
    pub(super) fn add(&self, root: u64, wrapping: WrappingKey) {
        self.wrapping.borrow_mut().insert(root, Rc::new(wrapping));
    }

    /// Whether that of a stored key's encryption root is here.
    pub(super) fn has(&self, stored: &CryptoKey) -> bool {
        self.wrapping.borrow().contains_key(&stored.root_directory)
    }

    /// The key that was unwrapped before, by the object of the stored one.
    pub(super) fn unwrapped(&self, number: u64) -> Option<Rc<DatasetKey>> {
        self.unwrapped.borrow().get(&number).cloned()
    }

    /// Unwraps a stored key; nothing where what wraps it is not here.
    pub(super) fn unwrap(&self, number: u64, stored: &CryptoKey) -> Option<Rc<DatasetKey>> {
        let wrapping = self.wrapping.borrow().get(&stored.root_directory).cloned()?;
        let key = Rc::new(DatasetKey::unwrap(stored, &wrapping).ok()?);
        self.unwrapped.borrow_mut().insert(number, Rc::clone(&key));
        Some(key)
    }
}
