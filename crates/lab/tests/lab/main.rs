//! The lab, tested through what it offers. One test program: what its files share is
//! compiled and linked once. The tests of one file: `cargo test --test lab -- answers::`.

mod answers;
mod loads;
mod many_cells;
mod no_ground;
mod one_repeat;
mod output_directory;
mod pitfalls;
mod running;
mod scripted;
mod study_file;
mod turns;
