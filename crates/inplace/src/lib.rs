//! A model of update-in-place file systems, to compare with: no place for data.

#![forbid(unsafe_code)]
