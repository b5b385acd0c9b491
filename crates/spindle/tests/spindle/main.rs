//! The program, tested from the outside. One test program: what its files share is
//! compiled and linked once. The tests of one file: `cargo test --test spindle -- bonnie_tiobench_smallfiles::`.

#![allow(clippy::disallowed_methods, reason = "the program is tested from the outside")]

mod altroots;
mod bonnie_tiobench_smallfiles;
mod called_alike;
mod changing_directories;
mod command_line;
mod dead_nas;
mod dry_run;
mod fio;
mod fio_counts;
mod fio_output;
mod held_pools;
mod held_verbs;
#[path = "support/holding.rs"]
mod holding;
mod hw_replay;
mod in_use;
mod lab_answers;
mod lab_interrupted;
mod lab_page_cache;
mod lab_runs;
mod lab_sampled;
mod lab_sessions;
mod lab_tools_compared;
mod md;
mod md_force;
mod md_grow;
mod md_journal;
mod md_kills;
mod md_live_oracle;
mod md_log_oracle;
mod md_members;
mod md_mount_oracle;
mod md_oracle;
mod md_running;
mod mounted_programs;
mod moved_mounts;
mod nbd_client;
mod not_ours;
mod past_damage;
mod pitfalls;
mod pool_apart;
mod pool_damage;
mod pool_damaged_trees;
mod pool_devices;
mod pool_lost;
mod pool_short;
#[path = "support/pools.rs"]
mod pools;
mod same_storage;
mod scan_states;
mod serve;
mod serve_hostile;
mod served_pools;
mod served_sets;
#[path = "support/serving.rs"]
mod serving;
mod spelled_names;
mod suspended_pools;
mod typed_next;
mod volumes;
mod zfs_accounting;
mod zfs_datasets;
mod zfs_files;
mod zfs_list;
mod zfs_scrub;
mod zfs_volumes;
mod zfs_written;
mod zpool_create;
