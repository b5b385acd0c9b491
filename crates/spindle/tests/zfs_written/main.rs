//! What the program writes into pools, from the outside: files copied in, and pools changed as a whole. `zdb` judges each pool.

#![allow(clippy::disallowed_methods, reason = "the program is tested from the outside")]

mod administered;
mod checkpoint;
mod cloned;
mod copying_in;
mod draid;
mod kernel;
mod pool_verbs;
#[path = "../support/pools.rs"]
mod pools;
#[path = "../support/serving.rs"]
mod serving;
mod tree;
