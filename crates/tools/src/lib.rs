//! The field's smaller tools, over any [`FileTree`](rt::FileTree).
//!
//! Each is a folder: its language (a parser that refuses what it does not know by name, file, line and
//! column), its engine, and the output that its users know. No tool uses another; what they share lies
//! in [`workload`]. The two large languages are crates of their own, `fio` and `filebench`.
//!
//! Rule: an engine never asks whether the tree is real. Time comes from `rt`, randomness from a seed.

#![forbid(unsafe_code)]

pub mod bonnie;
pub mod iometer;
pub mod probe;
pub mod slob;
pub mod smallfiles;
pub mod tiobench;
