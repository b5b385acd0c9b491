//! What of a block is encrypted, and what goes into its message authentication code.
//!
//! Which of four forms a block of an encrypted dataset has, its pointer says ([`Protection`]):
//!
//! | block | form | here |
//! |---|---|---|
//! | level 0 of an encrypted type | encrypted as it is stored, whole | |
//! | … of dnodes | bonuses of encrypted types; the rest, where portable, is associated data | [`dnode_block`] |
//! | … of the intent log | all but the chain, the records' headers and pointers, which are associated data | [`log_block`] |
//! | level 0 of another type | in the clear; HMAC of what is stored | |
//! | … the objset | in the clear; two HMACs, in the block itself | [`objset`] |
//! | a level above | in the clear; SHA-512 of the pointers' portable part, no key needed | [`indirect_block`] |
//!
//! So the tree can be walked, scrubbed and freed without the key. *Portable* is what is the same on another machine
//! that got the dataset by a raw stream: not how much is allocated, not the checksum function.
//!
//! Nothing is computed here. [`Parts`] says which bytes are which; who has the key does the rest.
//!
//! Source: OpenZFS, `zio_crypt.c`.
//!
//! [`Protection`]: crate::block_pointer::Protection

mod dnodes;
mod log;
mod message;
mod objset;

pub use dnodes::dnode_block;
pub use log::{LOG_MAC_AT, log_block};
pub use message::{Parts, indirect_block};
pub use objset::{LOCAL_MAC_AT, ObjsetMessages, PORTABLE_MAC_AT, objset};

#[cfg(test)]
mod tests;
