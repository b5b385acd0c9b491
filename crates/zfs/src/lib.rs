//! ZFS pools: objects, datasets, files and volumes, over the blocks that `zfs-store` reads.

#![forbid(unsafe_code)]
