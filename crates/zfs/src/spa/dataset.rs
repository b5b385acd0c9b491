//! What a dataset of an open pool holds, with its key if that is loaded.

use super::error::LoadKeyError;
use super::open::Spa;
use crate::dmu::Objset;
use crate::dsl::{Dataset, Directory};
use crate::error::ZfsError;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::rc::Rc;
use zfs_format::dsl::crypto_key::CryptoKey;
use zfs_store::crypt::{DatasetKey, WrappingKey};

impl Spa {
    /// The stored key of a directory; nothing where it is not encrypted.
    ///
    /// # Errors
    /// It can't be had.
    #[boxed(?Send)]
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
    #[boxed(?Send)]
    pub async fn load_key(&self, directory: &Directory, given: &[u8]) -> Result<(), LoadKeyError> {
        let dataset = || directory.name.clone();
        let stored = self.stored_key(directory).await;
        let stored = stored
            .map_err(|error| LoadKeyError::Zfs { dataset: dataset(), error: Box::new(error) })?;
        let stored = stored.ok_or_else(|| LoadKeyError::NotEncrypted { dataset: dataset() })?;
        let wrong = |error| LoadKeyError::Key { dataset: dataset(), error };
        let wrapping = WrappingKey::new(&stored, given).map_err(wrong)?;
        DatasetKey::unwrap(&stored, &wrapping).map_err(wrong)?;
        self.keys.add(stored.root_directory, wrapping);
        Ok(())
    }

    /// Whether the key of a stored key's encryption root is loaded.
    pub fn has_key(&self, stored: &CryptoKey) -> bool {
        self.keys.has(stored)
    }

    /// The key of a directory's datasets; nothing where they are not encrypted, or the key is not loaded.
    ///
    /// # Errors
    /// It can't be had.
    #[boxed(?Send)]
    pub async fn key(&self, directory: &Directory) -> Result<Option<Rc<DatasetKey>>, ZfsError> {
        let Some(number) = self.dsl().crypto_key(directory).await? else { return Ok(None) };
        if let Some(key) = self.keys.unwrapped(number) {
            return Ok(Some(key));
        }
        let Some(stored) = self.stored_key(directory).await? else { return Ok(None) };
        Ok(self.keys.unwrap(number, &stored))
    }

    /// Opens what a dataset holds, with its key if that is loaded.
    ///
    /// # Errors
    /// It can't be had. Without the key, what is encrypted in it can't either, later.
    #[boxed(?Send)]
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
