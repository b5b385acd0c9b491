//! Whole pools, over images in memory: those that the real OpenZFS wrote, whole and damaged.

#![allow(clippy::disallowed_methods, reason = "the fixtures are unpacked by zstd and tar")]

mod damage;
mod fixtures;
mod garbage;
mod images;
mod made;
mod rig;
mod walk;
