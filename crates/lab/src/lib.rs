//! The lab: designed experiments on storage.
//!
//! A *study* (a TOML file) says what to compare; the lab runs every cell of it often enough to say
//! how sure it is, and writes the answer as `results.json`, `results.csv`, a page of HTML and a
//! table in the terminal.

#![forbid(unsafe_code)]

pub mod results;
