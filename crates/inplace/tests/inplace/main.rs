//! The engine, tested through what it offers. One test program: what its files share is
//! compiled and linked once. The tests of one file: `cargo test --test inplace -- basics::`.

mod basics;
mod oracle;
mod physics;
mod power_cut;
mod together;
mod world;
