//! Devices over devices: each changes one thing about the device below.
//!
//! They stack at any height: under a RAID set a filter spoils one disk, above it the volume.
