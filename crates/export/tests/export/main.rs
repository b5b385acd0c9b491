//! Servers, tested by clients, the kernel's among them. One test program: what its files share is
//! compiled and linked once. The tests of one file: `cargo test --test export -- fuse::`.

mod fuse;
#[path = "../support/judges.rs"]
mod judges;
mod model;
mod writable;
