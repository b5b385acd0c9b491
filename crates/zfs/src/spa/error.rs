//! Why a pool can't be opened, or a key not loaded: texts that name pool or dataset, and the mend.

use crate::error::ZfsError;
use zfs_store::TreeError;
use zfs_store::crypt::KeyError;

/// Why a pool can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum OpenError {
    #[error("pool {pool}: no device of it has a valid uberblock")]
    NoUberblock { pool: String },
    #[error(
        "pool {pool}: no uberblock of transaction group {txg} is left on its devices; spindle zpool debug uberblock {pool} \
         lists those that are"
    )]
    NoSuchUberblock { pool: String, txg: u64 },
    #[error("pool {pool} has no checkpoint")]
    NoCheckpoint { pool: String },
    #[error("pool {pool} is of version {version}, which is not known")]
    Version { pool: String, version: u64 },
    #[error("pool {pool} uses what is not supported: {}", .features.join(", "))]
    Features { pool: String, features: Vec<String> },
    #[error("pool {pool}: {what}: attach them, or name where they lie with one more -d")]
    Missing { pool: String, what: String },
    #[error("pool {pool}: {error}")]
    Tree { pool: String, error: TreeError },
    #[error("pool {pool}: {error}")]
    Zfs { pool: String, error: ZfsError },
}

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
