//! Servers, tested by clients, the kernel's among them. One test program: what its files share is
//! compiled and linked once. The tests of one file: `cargo test --test export -- fuse::`.

#![allow(clippy::disallowed_methods, reason = "programs, threads and files are what it is about")]

mod fuse;
#[path = "../support/judges.rs"]
mod judges;
mod model;
mod writable;
