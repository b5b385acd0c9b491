//! What ZFS pools hold, read out by the program: ls, cat, stat, cp, dump, diff, mount, and volumes over NBD.
//!
//! What could break: a byte, an attribute or a name that differs from what OpenZFS stored; a copy that does not go on
//! where it was stopped, leads out of its target, or overwrites what was there; a damaged block that takes more with
//! it than itself; a key that is not asked for. The pools are the fixtures that the real OpenZFS made, held against
//! their manifests; forged ones are these, changed by the fuzz targets' own forge. Owners, devices and mounts need root: without it those comparisons are left out, aloud.

mod copying;
mod copying_children;
mod copying_damage;
mod damage;
mod fixture;
#[path = "../../../../../fuzz/src/zfs/forge.rs"]
#[allow(dead_code, reason = "the fuzz targets use the rest")]
mod forge;
mod forged;
mod hostile;
mod mounting;
mod reading;
