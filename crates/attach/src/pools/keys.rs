//! Keys of encrypted datasets: from files, or asked for.
//!
//! Rules:
//! 1. `--key-file DATASET=FILE` is the key of that dataset's encryption root; `--key-file FILE` is tried wherever a key is
//!    needed. A file is read once, and overwritten in memory when the command ends.
//! 2. Without any, a passphrase or hexadecimal key is [asked for](Ask), for the dataset that was named. Raw keys can't be
//!    typed. Nobody is asked for keys of children: they stay locked, and that is told.

use super::names::check_name;
use crate::error::Error;
use ::zfs::dsl::name::below;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use zeroize::Zeroizing;
use zfs_format::dsl::crypto_key::KeyFormat;

/// Bytes of a key that are read: the longest is a passphrase of 512 bytes.
const KEY_BYTES_MAX: u64 = 4096;

/// The bytes of a key.
pub type KeyBytes = Rc<Zeroizing<Vec<u8>>>;

/// Asks a person for the key of a dataset; nothing where nobody can be asked, or such a key can't be typed.
pub type Ask = fn(&str, KeyFormat) -> io::Result<Option<KeyBytes>>;

/// A key that was given.
struct Given {
    /// The dataset that it was given for.
    dataset: Option<String>,
    path: PathBuf,
    bytes: RefCell<Option<KeyBytes>>,
    fits: Cell<bool>,
}

/// See the [module](self).
pub struct Keys(Vec<Given>);

impl Given {
    fn of(argument: &Path) -> Given {
        let parts = argument.to_str().and_then(|text| text.split_once('='));
        let named = parts.filter(|(name, _)| check_name(name).is_ok() && !argument.exists());
        let (dataset, path) = match named {
            Some((dataset, path)) => (Some(dataset.to_owned()), PathBuf::from(path)),
            None => (None, argument.to_owned()),
        };
        let (bytes, fits) = Default::default();
        Given { dataset, path, bytes, fits }
    }

    fn bytes(&self) -> Result<KeyBytes, Error> {
        if let Some(known) = &*self.bytes.borrow() {
            return Ok(Rc::clone(known));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES_MAX as usize + 1));
        let read = match self.path.as_os_str() == "-" {
            true => std::io::stdin().take(KEY_BYTES_MAX + 1).read_to_end(&mut bytes),
            false => File::open(&self.path)
                .and_then(|file| file.take(KEY_BYTES_MAX + 1).read_to_end(&mut bytes)),
        };
        read.map_err(|error| Error::KeyFile { path: self.path.clone(), error })?;
        if bytes.len() as u64 > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { path: self.path.clone(), most: KEY_BYTES_MAX });
        }
        let bytes = Rc::new(bytes);
        *self.bytes.borrow_mut() = Some(Rc::clone(&bytes));
        Ok(bytes)
    }
}

impl Keys {
    /// The keys in these files.
    pub fn new(files: &[PathBuf]) -> Keys {
        Keys(files.iter().map(|argument| Given::of(argument)).collect())
    }

    /// Tries the keys that may be of a dataset: those that were given for it, then those that were given for none.
    /// Nothing where there are none; else whether one fits, or why the last doesn't.
    ///
    /// # Errors
    /// A key can't be read.
    pub fn try_on<E>(
        &self,
        dataset: &str,
        load: impl Fn(KeyBytes) -> Result<(), E>,
    ) -> Result<Option<Result<(), E>>, Error> {
        let is_below = |root: &str| below(root, dataset).is_some();
        let own = self.0.iter().filter(|key| key.dataset.as_deref().is_some_and(is_below));
        let any = self.0.iter().filter(|key| key.dataset.is_none());
        let mut last = None;
        for key in own.chain(any) {
            let tried = load(key.bytes()?);
            if tried.is_ok() {
                key.fits.set(true);
                return Ok(Some(tried));
            }
            last = Some(tried);
        }
        Ok(last)
    }

    /// Refuses keys that fit nothing of what was named.
    ///
    /// # Errors
    /// There is one.
    pub fn refuse_unused(&self, top: &str) -> Result<(), Error> {
        match self.0.iter().find(|key| !key.fits.get()) {
            None => Ok(()),
            Some(key) => Err(Error::KeyUnused {
                path: key.path.clone(),
                top: top.into(),
                dataset: key.dataset.clone(),
            }),
        }
    }
}
