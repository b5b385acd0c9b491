//! Keys of a pool's encrypted datasets: loaded once at an encryption root, used by everything below it.
//!
//! Each encrypted dataset has a stored key (an object of the MOS), wrapped by what the user has. Datasets that inherit their
//! encryption have stored keys of their own, which name the directory that they inherit from: the *encryption root*.
//! A clone shares its origin's.

use super::Spa;
use crate::dmu::Objset;
use crate::dsl::{Dataset, Directory};
use crate::error::ZfsError;
use crate::zap::Zap;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs_format::dsl::crypto_key::CryptoKey;
use zfs_store::crypt::{DatasetKey, KeyError, WrappingKey};

/// Why a key can't be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum LoadKeyError {
    #[error("{dataset} is not encrypted")]
    NotEncrypted { dataset: String },
    #[error("{dataset}: {error}")]
    Key { dataset: String, error: KeyError },
    #[error("{dataset}: {error}")]
    Zfs { dataset: String, error: ZfsError },
}

/// The wrapping keys that were loaded, by the objects of their encryption roots.
#[derive(Default)]
pub(super) struct Keys {
    wrapping: RefCell<BTreeMap<u64, Rc<WrappingKey>>>,
    unwrapped: RefCell<BTreeMap<u64, Rc<DatasetKey>>>,
}

impl Spa {
    /// The stored key of a directory; nothing where it is not encrypted.
    ///
    /// # Errors
    /// It can't be had.
    pub async fn stored_key(&self, directory: &Directory) -> Result<Option<CryptoKey>, ZfsError> {
        let Some(number) = self.dsl().crypto_key(directory).await? else { return Ok(None) };
        let zap = Zap::open(self.mos().dnode(number).await?).await?;
        let entries = zap.entries().await?;
        let find = |name: &'static str| {
            let found = entries.iter().find(|entry| entry.name == name.as_bytes());
            found.map(|entry| entry.value.clone())
        };
        CryptoKey::from_values(find).map(Some).map_err(|error| zap.dnode().wrong(error))
    }

    /// Loads the key of a directory's encryption root from what the user gave: a passphrase, hex digits, or raw bytes.
    ///
    /// # Errors
    /// The directory is not encrypted, or the key is not its.
    pub async fn load_key(&self, directory: &Directory, given: &[u8]) -> Result<(), LoadKeyError> {
        let dataset = || directory.name.clone();
        let stored = self.stored_key(directory).await;
        let stored = stored.map_err(|error| LoadKeyError::Zfs { dataset: dataset(), error })?;
        let stored = stored.ok_or_else(|| LoadKeyError::NotEncrypted { dataset: dataset() })?;
        let wrong = |error| LoadKeyError::Key { dataset: dataset(), error };
        let wrapping = WrappingKey::new(&stored, given).map_err(wrong)?;
        DatasetKey::unwrap(&stored, &wrapping).map_err(wrong)?;
        self.keys.wrapping.borrow_mut().insert(stored.root_directory, Rc::new(wrapping));
        Ok(())
    }

    /// Whether the key of a stored key's encryption root is loaded.
    pub fn has_key(&self, stored: &CryptoKey) -> bool {
        self.keys.wrapping.borrow().contains_key(&stored.root_directory)
    }

    /// The key of a directory's datasets; nothing where they are not encrypted, or the key is not loaded.
    ///
    /// # Errors
    /// It can't be had.
    pub async fn key(&self, directory: &Directory) -> Result<Option<Rc<DatasetKey>>, ZfsError> {
        let Some(number) = self.dsl().crypto_key(directory).await? else { return Ok(None) };
        if let Some(key) = self.keys.unwrapped.borrow().get(&number) {
            return Ok(Some(Rc::clone(key)));
        }
        let Some(stored) = self.stored_key(directory).await? else { return Ok(None) };
        let wrapping = self.keys.wrapping.borrow().get(&stored.root_directory).cloned();
        let unwrapped = wrapping.and_then(|wrapping| DatasetKey::unwrap(&stored, &wrapping).ok());
        let Some(key) = unwrapped.map(Rc::new) else { return Ok(None) };
        self.keys.unwrapped.borrow_mut().insert(number, Rc::clone(&key));
        Ok(Some(key))
    }

    /// Opens what a dataset holds, with its key if that is loaded.
    ///
    /// # Errors
    /// It can't be had. Without the key, what is encrypted in it can't either, later.
    pub async fn objset(
        &self,
        directory: &Directory,
        dataset: &Dataset,
    ) -> Result<Objset, ZfsError> {
        let key = self.key(directory).await?;
        let blocks = self.blocks();
        Objset::open(self.rt(), &blocks, dataset.number, &dataset.head.pointer, key).await
    }
}
