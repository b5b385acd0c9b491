//! The lab: designed experiments on storage.
//!
//! A *study* (a TOML file) says what to compare; the lab runs every cell of it often enough to say
//! how sure it is, and writes the answer as `results.json`, `results.csv`, a page of HTML and a
//! table in the terminal.

#![forbid(unsafe_code)]

pub mod claims;
pub mod compare;
pub mod design;
mod digits;
pub mod duration;
pub mod kept;
pub mod layout;
pub mod layouts;
pub mod measure;
mod merge;
pub mod metrics;
pub mod moment;
pub mod output;
pub mod pace;
pub mod phases;
pub mod pitfalls;
pub mod report;
pub mod results;
pub mod run;
pub mod single;
pub mod stats;
pub mod steady;
pub mod study;
pub mod target;
pub mod verdict;
mod words;
