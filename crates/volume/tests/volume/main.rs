//! Partitions and volume groups, tested through what the crate offers. One test program: what its files share is
//! compiled and linked once. The tests of one file: `cargo test --test volume -- damage::`.

mod damage;
mod gpt;
mod lvm;
mod mbr;
mod world;
