//! Why a pool can't be opened, or a key not loaded: texts that name pool or dataset, and the mend.

use crate::error::ZfsError;
use zfs_store::TreeError;
use zfs_store::crypt::KeyError;

/// Groups for which what was freed is still there.
pub const GROUPS_KEPT: u64 = 2;

/// Which groups can be opened.
fn can(opens: &[u64]) -> String {
    let opens: Vec<String> = opens.iter().map(u64::to_string).collect();
    match opens.is_empty() {
        true => "nor can any of the newest groups that are left".to_owned(),
        false => format!("of the newest that are left, these can: {}", opens.join(", ")),
    }
}

/// What can be had of a pool from before what it can't be opened without.
fn before_it(pool: &str, before: Option<u64>) -> String {
    match before {
        Some(group) => format!(
            "what was there before that 'spindle zfs -T {group}' with list, ls, cat, cp or dump shows, or says that it was overwritten, and \
             spindle zpool import -FX {pool} takes the pool back to the newest state that is whole"
        ),
        None => "no group from before that is left that can be opened".to_owned(),
    }
}

/// What there is to be taken back to, before what is lost.
fn back_to(far: bool) -> String {
    match far {
        true => "no state from before that is whole: --accept-loss takes the newest that opens"
            .to_owned(),
        false => format!(
            "no state of its last {} groups is from before that: -FX goes further back, --accept-loss takes it as it is",
            GROUPS_KEPT + 1
        ),
    }
}

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
    #[error(
        "pool {pool}: transaction group {txg} can't be opened, since blocks of it {} ({error}); {}",
        if newest.saturating_sub(*txg) > GROUPS_KEPT { "were overwritten by later ones" } else { "are damaged" },
        can(opens)
    )]
    Overwritten {
        pool: String,
        txg: u64,
        error: Box<ZfsError>,
        /// The newest of which an uberblock is left.
        newest: u64,
        /// Those that can be opened, of the newest ones, which were tried.
        opens: Vec<u64>,
    },
    #[error("pool {pool} has no checkpoint")]
    NoCheckpoint { pool: String },
    #[error("pool {pool} is of version {version}, which is not known")]
    Version { pool: String, version: u64 },
    #[error("pool {pool} uses what is not supported: {}", .features.join(", "))]
    Features { pool: String, features: Vec<String> },
    #[error("pool {pool}: {what}: attach them, or name where they lie with one more -d")]
    Missing { pool: String, what: String },
    #[error(
        "pool {pool}: {what}: what is left can be read, and whoever writes to the pool needs the device whole"
    )]
    Short { pool: String, what: String },
    #[error(
        "pool {pool}: not all that was written in {groups} can be read, and {}",
        back_to(*.far)
    )]
    Lost {
        pool: String,
        groups: String,
        /// Whether older states than the newest few were tried.
        far: bool,
    },
    #[error("pool {pool}: {why}")]
    LostRoot { pool: String, why: Box<LostRoot> },
    #[error("pool {pool}: {error}")]
    Tree { pool: String, error: TreeError },
    #[error("pool {pool}: {error}")]
    Zfs { pool: String, error: Box<ZfsError> },
}

/// Devices lack what a pool's newest group can't be opened without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not all that was written in {groups} can be read, and its newest group can't be opened without it ({error}): {missing}; {}",
    before_it(pool, *.before)
)]
pub struct LostRoot {
    /// The pool's name.
    pub pool: String,
    /// What they lack.
    pub groups: String,
    /// What can't be read of it.
    pub error: Box<ZfsError>,
    /// Who may have it.
    pub missing: String,
    /// The newest group from before that can be opened.
    pub before: Option<u64>,
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
    Zfs { dataset: String, error: Box<ZfsError> },
}
