//! The names of fio's options: other spellings, those that are refused and why, and guesses at what
//! was meant.

use super::error::{JobError, Place};

/// Options with several spellings: what is written, and the name that the code uses.
const SPELLINGS: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("ba", "blockalign"),
    ("blocksize_range", "bsrange"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("io_limit", "io_size"),
    ("fill_fs", "fill_device"),
    ("fileoffset", "offset"),
    ("nr_files", "nrfiles"),
    ("timeout", "runtime"),
    ("threads", "thread"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("ratemin", "rate_min"),
    ("ratecycle", "rate_cycle"),
    ("wait_for_previous", "stonewall"),
    ("disable_bw", "disable_bw_measurement"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
    ("ss_interval", "steadystate_check_interval"),
    ("sync_io", "sync"),
];

/// Options of fio's core that are not supported, and why or what to write instead.
const REFUSED: &[(&str, &str)] = &[
    ("opendir", "list the files with filename="),
    ("lockfile", "jobs take no locks on files"),
    ("serialize_overlap", "writes under way are not looked through for overlaps"),
    ("atomic", "files take no atomic writes"),
    ("write_barrier", "files take no barriers; use fdatasync="),
    ("sync_file_range", "there is no such call here; use fdatasync="),
    ("trim_percentage", "verified blocks are not trimmed"),
    ("trim_verify_zero", "verified blocks are not trimmed"),
    ("trim_backlog", "verified blocks are not trimmed"),
    ("trim_backlog_batch", "verified blocks are not trimmed"),
    ("verify_offset", "the header stands at the start of its block"),
    ("verify_async_cpus", "workers are not bound to processors; use taskset"),
    ("verify_state_load", "what was written is known to its own run only"),
    ("experimental_verify", "what was written is kept instead of drawn again"),
    ("write_iolog", "I/Os are not recorded"),
    ("read_iolog", "recorded I/Os are not replayed"),
    ("read_iolog_chunked", "recorded I/Os are not replayed"),
    ("replay_no_stall", "recorded I/Os are not replayed"),
    ("replay_redirect", "recorded I/Os are not replayed"),
    ("replay_scale", "recorded I/Os are not replayed"),
    ("replay_align", "recorded I/Os are not replayed"),
    ("replay_time_scale", "recorded I/Os are not replayed"),
    ("replay_skip", "recorded I/Os are not replayed"),
    ("merge_blktrace_file", "recorded I/Os are not replayed"),
    ("merge_blktrace_scalars", "recorded I/Os are not replayed"),
    ("merge_blktrace_iters", "recorded I/Os are not replayed"),
    ("exec_prerun", "no commands are run; run it before"),
    ("exec_postrun", "no commands are run; run it afterwards"),
    ("ioscheduler", "settings of the system are not changed; write to /sys before"),
    ("zonecapacity", "zoned devices are not supported"),
    ("read_beyond_wp", "zoned devices are not supported"),
    ("max_open_zones", "zoned devices are not supported"),
    ("job_max_open_zones", "zoned devices are not supported"),
    ("ignore_zone_limits", "zoned devices are not supported"),
    ("zone_reset_threshold", "zoned devices are not supported"),
    ("zone_reset_frequency", "zoned devices are not supported"),
    ("lockmem", "memory is not pinned"),
    ("nice", "run the whole under nice(1)"),
    ("prio", "I/O priorities are not set; run the whole under ionice(1)"),
    ("prioclass", "I/O priorities are not set; run the whole under ionice(1)"),
    ("cmdprio", "I/O priorities are not set"),
    ("cmdprio_percentage", "I/O priorities are not set"),
    ("cmdprio_class", "I/O priorities are not set"),
    ("cmdprio_hint", "I/O priorities are not set"),
    ("cmdprio_bssplit", "I/O priorities are not set"),
    ("log_prio", "I/O priorities are not set"),
    ("cpumask", "workers are not bound to processors; run the whole under taskset(1)"),
    ("cpus_allowed", "workers are not bound to processors; run the whole under taskset(1)"),
    ("cpus_allowed_policy", "workers are not bound to processors"),
    ("numa_cpu_nodes", "workers are not bound to nodes; run the whole under numactl(8)"),
    ("numa_mem_policy", "memory is not bound to nodes; run the whole under numactl(8)"),
    ("gpu_dev_id", "there are no engines for graphics processors"),
    ("gpu_dev_ids", "there are no engines for graphics processors"),
    ("cuda_io", "there are no engines for graphics processors"),
    ("rocm_io", "there are no engines for graphics processors"),
    ("write_hint", "writes carry no hints of lifetime"),
    ("write_hist_log", "histograms over time are not logged; take --output-format=json+"),
    ("log_hist_msec", "histograms over time are not logged"),
    ("log_hist_coarseness", "histograms over time are not logged"),
    ("log_compression", "logs are not compressed"),
    ("log_compression_cpus", "logs are not compressed"),
    ("log_store_compressed", "logs are not compressed"),
    ("log_unix_epoch", "logs count from the job's start"),
    ("log_alternate_epoch", "logs count from the job's start"),
    ("log_alternate_epoch_clock_id", "logs count from the job's start"),
    ("block_error_percentiles", "trimmed blocks are not followed to their failure"),
    ("gtod_cpu", "time is read where the I/O is made"),
    ("profile", "give its jobs by their options, or in a job file"),
    ("cgroup", "run the whole in a control group"),
    ("cgroup_nodelete", "run the whole in a control group"),
    ("cgroup_weight", "run the whole in a control group"),
    ("uid", "run as that user"),
    ("gid", "run as that group"),
    ("hugepage-size", "memory comes from the pool of buffers"),
    ("flow_watermark", "fio itself has dropped it; use flow="),
    ("verify_header_seed", "headers carry no seed"),
    ("random_sequence_stride", "there is no random_distribution=sequence"),
    ("sprandom", "devices are not preconditioned by region; write them through"),
    ("spr_op", "devices are not preconditioned by region"),
    ("spr_num_regions", "devices are not preconditioned by region"),
    ("fdp", "placement in flash devices is not controlled"),
    ("fdp_pli", "placement in flash devices is not controlled"),
    ("dataplacement", "placement in flash devices is not controlled"),
    ("num_range", "a trim has one range"),
    ("md_per_io_size", "blocks carry no metadata"),
    ("pi_act", "blocks carry no metadata"),
    ("pi_chk", "blocks carry no metadata"),
    ("apptag", "blocks carry no metadata"),
    ("apptag_mask", "blocks carry no metadata"),
    ("readfua", "it is an option of the engine sg"),
    ("writefua", "it is an option of the engine sg; use sync=dsync"),
    ("sg_write_mode", "it is an option of the engine sg"),
    ("cmd_type", "it is an option of the engine io_uring_cmd"),
    ("cpuload", "it is an option of the engine cpuio"),
    ("cpuchunks", "it is an option of the engine cpuio"),
    ("hostname", "it is an option of network engines"),
    ("port", "it is an option of network engines"),
];

/// Supported options by the name that the code uses. A test holds them against `settings`.
pub(super) const SUPPORTED: &[&str] = &[
    "description",
    "name",
    "wait_for",
    "filename",
    "directory",
    "filename_format",
    "unique_filename",
    "rw",
    "rw_sequencer",
    "ioengine",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "io_submit_mode",
    "size",
    "io_size",
    "fill_device",
    "filesize",
    "file_append",
    "offset",
    "offset_align",
    "offset_increment",
    "number_ios",
    "bs",
    "blockalign",
    "bsrange",
    "bssplit",
    "bs_unaligned",
    "bs_is_seq_rand",
    "randrepeat",
    "randseed",
    "allrandrepeat",
    "norandommap",
    "softrandommap",
    "random_generator",
    "random_distribution",
    "percentage_random",
    "percentage_sequential",
    "nrfiles",
    "openfiles",
    "file_service_type",
    "fallocate",
    "fadvise_hint",
    "fsync",
    "fdatasync",
    "direct",
    "buffered",
    "sync",
    "overwrite",
    "loops",
    "numjobs",
    "startdelay",
    "runtime",
    "time_based",
    "verify_only",
    "ramp_time",
    "clocksource",
    "mem",
    "iomem",
    "iomem_align",
    "mem_align",
    "verify",
    "do_verify",
    "verifysort",
    "verifysort_nr",
    "verify_interval",
    "verify_pattern",
    "verify_fatal",
    "verify_dump",
    "verify_async",
    "verify_backlog",
    "verify_backlog_batch",
    "verify_write_sequence",
    "verify_state_save",
    "zonemode",
    "zonesize",
    "zonerange",
    "zoneskip",
    "rwmixread",
    "rwmixwrite",
    "rwmixcycle",
    "thinktime",
    "thinktime_spin",
    "thinktime_blocks",
    "thinktime_blocks_type",
    "thinktime_iotime",
    "rate",
    "rate_min",
    "rate_iops",
    "rate_iops_min",
    "rate_process",
    "rate_cycle",
    "rate_ignore_thinktime",
    "max_latency",
    "latency_target",
    "latency_window",
    "latency_percentile",
    "latency_run",
    "invalidate",
    "create_serialize",
    "create_fsync",
    "create_on_open",
    "create_only",
    "allow_file_create",
    "allow_mounted_write",
    "pre_read",
    "end_fsync",
    "fsync_on_close",
    "unlink",
    "unlink_each_loop",
    "exitall",
    "exitall_on_error",
    "exit_what",
    "stonewall",
    "new_group",
    "thread",
    "per_job_logs",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "log_entries",
    "log_avg_msec",
    "log_max_value",
    "log_offset",
    "bwavgtime",
    "iopsavgtime",
    "group_reporting",
    "stats",
    "zero_buffers",
    "refill_buffers",
    "scramble_buffers",
    "buffer_pattern",
    "buffer_compress_percentage",
    "buffer_compress_chunk",
    "dedupe_percentage",
    "dedupe_mode",
    "dedupe_global",
    "dedupe_working_set_percentage",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "significant_figures",
    "disk_util",
    "gtod_reduce",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "unified_rw_reporting",
    "continue_on_error",
    "ignore_error",
    "error_dump",
    "kb_base",
    "unit_base",
    "flow_id",
    "flow",
    "flow_sleep",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "steadystate_check_interval",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "nonvectored",
    "userspace_reap",
];

/// The name that the code uses for what is written.
pub(super) fn canonical(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let found = SPELLINGS.iter().find(|(written, _)| *written == name);
    found.map_or(name, |(_, known)| (*known).to_owned())
}

/// Options that stand alone on a command line.
const FLAGS: &[&str] = &[
    "bs_unaligned",
    "norandommap",
    "time_based",
    "verify_only",
    "exitall",
    "exitall_on_error",
    "stonewall",
    "new_group",
    "thread",
    "group_reporting",
    "zero_buffers",
    "refill_buffers",
    "userspace_reap",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
];

/// Whether an option, by the name that the code uses, stands alone on a command line.
pub(super) fn is_flag(name: &str) -> bool {
    FLAGS.contains(&name)
}

/// Why an option, by the name that the code uses, can't be taken that no file of options knows.
pub(super) fn refusal(name: &str, written: &str, place: Place) -> JobError {
    let option = written.to_owned();
    match refused(name) {
        Some(why) => JobError::RefusedOption { place, option, why },
        None => JobError::UnknownOption { place, option, nearest: nearest(name) },
    }
}

/// The same, where no file of options knows it.
pub(super) fn unknown(name: &str, written: &str, place: Place) -> Option<JobError> {
    (!SUPPORTED.contains(&name)).then(|| refusal(name, written, place))
}

/// Why an option of fio is not supported; `None` where fio has no such option in its core.
fn refused(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
}

/// The known option that is nearest, if one is near enough to be what was meant.
fn nearest(name: &str) -> Option<&'static str> {
    let spellings = SPELLINGS.iter().map(|(written, _)| *written);
    nearest_of(name, SUPPORTED.iter().copied().chain(spellings))
}

/// The one of these words that is nearest, if it is near enough to be what was meant.
pub fn nearest_of<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters wrong is still a misspelling; more is another word.
    let far = (name.len() / 3).max(1);
    // Longer than any option; a longer text is none that was misspelt.
    const LETTERS_MAX: usize = 64;
    known
        .filter(|_| name.len() <= LETTERS_MAX)
        .map(|known| (strsim::levenshtein(name, known), known))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_option_is_recognised_and_another_word_is_not() {
        assert_eq!(nearest("iodpeth"), Some("iodepth"));
        assert_eq!(nearest("blocksiz"), Some("blocksize"));
        assert_eq!(nearest("elephants"), None);
    }

    #[test]
    fn a_flag_is_an_option() {
        for name in FLAGS {
            assert!(SUPPORTED.contains(name) && canonical(name) == *name, "{name}");
        }
    }

    #[test]
    fn no_option_is_both_supported_and_refused() {
        for (name, _) in REFUSED {
            assert!(!SUPPORTED.contains(name), "{name}");
            assert_eq!(canonical(name), *name, "a refusal goes by the written name");
        }
    }
}
