//! Fuzz targets: functions that take any bytes, and panic where a claim of Spindle does not hold.
//!
//! Each target is a plain function, so that the stable compiler can run it: over its seeds and over changes of them, as a
//! test (`tests/seeds.rs`). With cargo-fuzz the same function is a libFuzzer target (`fuzz_targets/`), which looks for
//! inputs that lead to new code. README.md lists what each of them claims and how it is run.
//!
//! Rules:
//!
//! 1. Where a checksum stands before the code that is meant, the target mends it.
//! 2. A target depends on its input alone: no clock, no randomness, no files but the fixtures.
//! 3. Seeds are made by the project's own encoders, or taken from the fixtures (`examples/seeds.rs`); none are kept.

#![forbid(unsafe_code)]

pub mod damage;
pub mod machine;
pub mod md;
pub mod nbd;
pub mod volume;
pub mod zfs;

/// A target.
pub struct Target {
    /// Its name, which is that of its file in `fuzz_targets`.
    pub name: &'static str,
    /// What is run.
    pub run: fn(&[u8]),
    /// Inputs to begin with, which reach what is meant.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "md_superblock", run: md::superblock, seeds: md::superblock_seeds },
    Target { name: "md_bitmap", run: md::bitmap, seeds: md::bitmap_seeds },
    Target { name: "md_bad_blocks", run: md::bad_block_log, seeds: md::bad_block_seeds },
    Target { name: "md_ppl", run: md::ppl, seeds: md::ppl_seeds },
    Target { name: "md_journal", run: md::meta_block, seeds: md::meta_block_seeds },
    Target { name: "md_set", run: md::whole_set, seeds: md::set_seeds },
    Target { name: "gpt", run: volume::gpt, seeds: volume::gpt_seeds },
    Target { name: "mbr", run: volume::mbr, seeds: volume::mbr_seeds },
    Target { name: "content", run: volume::content, seeds: volume::content_seeds },
    Target { name: "lvm_label", run: volume::lvm_label, seeds: volume::label_seeds },
    Target { name: "lvm_text", run: volume::lvm_text, seeds: volume::text_seeds },
    Target { name: "lvm_group", run: volume::lvm_group, seeds: volume::text_seeds },
    Target { name: "nbd_server", run: nbd::server, seeds: nbd::seeds },
    Target { name: "nbd_client", run: nbd::client, seeds: nbd::client_seeds },
    Target { name: "zfs_nvlist", run: zfs::labels::nvlist, seeds: zfs::labels::nvlist_seeds },
    Target { name: "zfs_label", run: zfs::labels::label, seeds: zfs::labels::label_seeds },
    Target {
        name: "zfs_uberblock",
        run: zfs::labels::uberblock,
        seeds: zfs::labels::uberblock_seeds,
    },
    Target {
        name: "zfs_pointers",
        run: zfs::blocks::block_pointers,
        seeds: zfs::blocks::pointer_seeds,
    },
    Target { name: "zfs_dnodes", run: zfs::blocks::dnodes, seeds: zfs::blocks::dnode_seeds },
    Target { name: "zfs_objset", run: zfs::blocks::objset, seeds: zfs::blocks::objset_seeds },
    Target { name: "zfs_zap", run: zfs::tables::zap, seeds: zfs::tables::seeds },
    Target { name: "zfs_files", run: zfs::files::files, seeds: zfs::files::seeds },
    Target {
        name: "zfs_space_map",
        run: zfs::space::space_map,
        seeds: zfs::space::space_map_seeds,
    },
    Target { name: "zfs_lists", run: zfs::space::lists, seeds: zfs::space::list_seeds },
    Target { name: "zfs_sharing", run: zfs::space::sharing, seeds: zfs::space::list_seeds },
    Target { name: "zfs_intent_log", run: zfs::logs::intent_log, seeds: zfs::logs::seeds },
    Target {
        name: "zfs_decompress",
        run: zfs::compression::decompress,
        seeds: zfs::compression::seeds,
    },
    Target { name: "zfs_pool", run: zfs::pool::whole_pool, seeds: zfs::pool::seeds },
    Target { name: "zfs_written", run: zfs::writing::written_pool, seeds: zfs::writing::seeds },
];

/// The target of this name.
///
/// # Panics
/// If there is none: a file in `fuzz_targets` without its line here.
pub fn target(name: &str) -> &'static Target {
    let named = TARGETS.iter().find(|target| target.name == name);
    named.unwrap_or_else(|| panic!("{name} is a target"))
}
