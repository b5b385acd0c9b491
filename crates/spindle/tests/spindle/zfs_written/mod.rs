//! What the program writes into pools, from the outside: files copied in, and pools changed as a whole. `zdb` judges each pool.

mod administered;
mod checkpoint;
mod cloned;
mod copying_in;
mod draid;
mod kernel;
mod pool_verbs;
mod properties;
mod removed;
use crate::pools;
use crate::serving;
mod taken;
mod tree;
mod words;
