//! Keys of encrypted datasets.

use zfs_format::dsl::crypto_key::Suite;

/// The unwrapped key of an encrypted dataset.
pub struct DatasetKey {
    /// The cipher and its key length.
    pub suite: Suite,
}
