//! Whole pools, over images in memory: those that the real OpenZFS wrote, whole and damaged.

mod blocks;
mod damage;
mod fixtures;
mod garbage;
mod made;
mod oracle;
mod rig;
mod walk;
mod written;
