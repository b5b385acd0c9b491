//! What one section of a job file says, typed: a [`Spec`].
//!
//! Names are fio's options, so that a reader finds them in its HOWTO; units are in the types or at the
//! end of the name. Defaults are fio 3.33's (options.c). Values that depend on files that are looked at
//! later (sizes, offsets in per cent) stay as they were written; `files` works them out.

use super::figures::{Each, Figures, Latency};
use std::time::Duration;

/// A size that may be a share of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Extent {
    #[default]
    Unset,
    Bytes(u64),
    Percent(u32),
}

/// Which directions a job goes in, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) trim: bool,
    pub(super) random: bool,
    /// Each block is trimmed, then written (`trimwrite`, `randtrimwrite`).
    pub(super) trim_write: bool,
}

/// What `rw_sequencer` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sequencer {
    #[default]
    Sequential,
    Identical,
}

/// How I/O is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Engine {
    /// One call at a time: sync, psync, vsync, pvsync, pvsync2, mmap.
    #[default]
    Blocking,
    /// Many under way: `libaio`, `io_uring`, `posixaio`, `solarisaio`.
    Queued,
    /// Nothing is done: null.
    Null,
}

/// Which of several files is next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum FileService {
    #[default]
    RoundRobin,
    Random,
    Sequential,
    Zipf(f64),
    Pareto(f64),
    Normal(f64),
}

/// Where random I/O goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Distribution {
    #[default]
    Uniform,
    Zipf {
        theta: f64,
        center: Option<f64>,
    },
    Pareto {
        power: f64,
        center: Option<f64>,
    },
    Normal {
        deviation_percent: f64,
        center: Option<f64>,
    },
    /// Shares of accesses and of the file, in per cent, by direction.
    Zoned(Each<Vec<(u32, u32)>>),
    /// Shares of accesses in per cent and lengths in bytes, by direction.
    ZonedAbsolute(Each<Vec<(u32, u64)>>),
}

/// Draws each block once a pass with a map of those done (`tausworthe`) or without one (`lfsr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Generator {
    #[default]
    Map,
    Permutation,
}

/// How `fsync` and its kind stand among the writes: every so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Syncs {
    pub(super) fsync: u64,
    pub(super) fdatasync: u64,
    pub(super) at_end: bool,
    pub(super) on_close: bool,
}

/// How the space of a new file is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fallocate {
    None,
    #[default]
    Native,
    Truncate,
}

/// Linear, or with exponential gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RateProcess {
    #[default]
    Linear,
    Poisson,
}

/// Who ends with a job of `exitall`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ExitWhat {
    #[default]
    Group,
    Stonewall,
    All,
}

/// A checksum in, or a form of, the header of each verified block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    /// Nothing but the header.
    Meta,
    /// The bytes must be the pattern; there is no header.
    PatternOnly,
    /// The bytes behind the header must be the pattern.
    Pattern,
    Crc7,
    Crc16,
    Crc32,
    Crc32c,
    Crc64,
    Sha256,
    Sha512,
    /// Reads and looks at nothing.
    Null,
}

/// What is verified, and when.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verify {
    pub(super) checksum: Option<Checksum>,
    pub(super) after_writing: bool,
    pub(super) only: bool,
    pub(super) interval: u64,
    pub(super) pattern: Vec<u8>,
    pub(super) fatal: bool,
    pub(super) backlog: u64,
    pub(super) backlog_batch: u64,
    pub(super) write_sequence: bool,
}

impl Default for Verify {
    fn default() -> Verify {
        Verify {
            checksum: None,
            after_writing: true,
            only: false,
            interval: 0,
            pattern: Vec::new(),
            fatal: false,
            backlog: 0,
            backlog_batch: 0,
            write_sequence: true,
        }
    }
}

/// Errors that a job counts and goes on after, by what they are errors of: `continue_on_error` and `ignore_error`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tolerance {
    /// Of reads, writes and trims, and blocks that fail their verification.
    pub(super) goes_on: [bool; 4],
    /// The errors that are meant, of reads, of what changes the file, and of verification; else [`Tolerance::USUAL`].
    pub(super) listed: [Option<Vec<i32>>; 3],
}

impl Tolerance {
    /// Where blocks that fail their verification stand among what a job goes on after.
    pub(super) const VERIFY: usize = 3;
    /// The errors that are meant where none is listed: EIO and EILSEQ, as in fio.
    const USUAL: [i32; 2] = [5, 84];

    /// Whether there are any.
    pub(super) fn is_any(&self) -> bool {
        self.goes_on.contains(&true) || self.listed.iter().any(Option::is_some)
    }

    /// Whether the job goes on after this error.
    pub(super) fn allows(&self, of: usize, number: i32) -> bool {
        let listed = match of {
            0 => &self.listed[0],
            Tolerance::VERIFY => &self.listed[2],
            _ => &self.listed[1],
        };
        match listed {
            Some(listed) => listed.contains(&number),
            None => self.goes_on[of] && Tolerance::USUAL.contains(&number),
        }
    }
}

/// What is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bytes {
    pub(super) zeros: bool,
    pub(super) refill: Option<bool>,
    pub(super) pattern: Vec<u8>,
    pub(super) compress_percent: u32,
    pub(super) dedupe_percent: u32,
}

/// Pauses between I/Os.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Think {
    pub(super) time: Duration,
    pub(super) spin: Duration,
    pub(super) blocks: Option<u64>,
    pub(super) by_issue: bool,
    pub(super) io_time: Duration,
}

/// The search for a queue depth that keeps a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LatencyTarget {
    pub(super) target: Duration,
    pub(super) window: Duration,
    pub(super) percentile: f64,
    pub(super) go_on: bool,
}

/// What must be steady.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SteadyFigure {
    #[default]
    Iops,
    Bandwidth,
    Latency,
}

/// When a job is steady, and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steady {
    pub(super) figure: SteadyFigure,
    pub(super) slope: bool,
    pub(super) limit: f64,
    pub(super) percent: bool,
    pub(super) window: Duration,
    pub(super) ramp: Duration,
    pub(super) interval: Duration,
}

/// Logs of single I/Os or of windows, in fio's format, by the names of their files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Logs {
    pub(super) bandwidth: Option<String>,
    pub(super) latency: Option<String>,
    pub(super) iops: Option<String>,
    pub(super) average: Duration,
    pub(super) maximum: bool,
    pub(super) offset: bool,
    pub(super) per_job: bool,
}

/// Which figures are kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) lat: bool,
    pub(super) clat: bool,
    pub(super) slat: bool,
    pub(super) bw: bool,
    pub(super) lat_percentiles: bool,
    pub(super) clat_percentiles: bool,
    pub(super) slat_percentiles: bool,
    pub(super) percentiles: Vec<f64>,
    pub(super) bw_window: Duration,
    pub(super) iops_window: Duration,
    pub(super) significant_figures: usize,
    pub(super) kb_base: u64,
    pub(super) bits: bool,
    pub(super) mixed: bool,
}

/// fio's percentiles where `percentile_list` names none.
pub(super) const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

impl Kept {
    /// The figures of a job that has done nothing yet, with what it keeps of latencies.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = Figures { members: 1, ..Figures::default() };
        for flow in &mut figures.flows {
            flow.slat = Latency::new(self.slat_percentiles);
            flow.clat = Latency::new(self.clat_percentiles);
            flow.lat = Latency::new(self.lat_percentiles);
        }
        figures.syncs = Latency::new(self.clat_percentiles || self.lat_percentiles);
        figures
    }
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            lat: true,
            clat: true,
            slat: true,
            bw: true,
            lat_percentiles: false,
            clat_percentiles: true,
            slat_percentiles: false,
            percentiles: PERCENTILES.to_vec(),
            bw_window: Duration::from_millis(500),
            iops_window: Duration::from_millis(500),
            significant_figures: 4,
            kb_base: 1024,
            bits: false,
            mixed: false,
        }
    }
}

/// A zone of a job with `zonemode=strided`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Zones {
    pub(super) size: u64,
    pub(super) range: u64,
    pub(super) skip: u64,
}

/// Everything that a section says. See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) description: String,
    // What.
    pub(super) mode: Mode,
    pub(super) sequence_nr: u64,
    pub(super) sequence_add: i64,
    pub(super) sequencer: Sequencer,
    pub(super) engine: Engine,
    /// Its name as the job has it: several stand for one way.
    pub(super) engine_name: &'static str,
    pub(super) depth: u64,
    pub(super) depth_low: u64,
    pub(super) offload: bool,
    pub(super) direct: bool,
    pub(super) durable_writes: bool,
    pub(super) syncs: Syncs,
    // Where.
    pub(super) directories: Vec<String>,
    pub(super) filenames: Vec<String>,
    pub(super) filename_format: String,
    pub(super) nrfiles: u64,
    pub(super) openfiles: u64,
    pub(super) file_service: FileService,
    pub(super) file_service_nr: u64,
    pub(super) size: Extent,
    pub(super) io_size: Extent,
    pub(super) filesize: Option<(u64, u64)>,
    pub(super) offset: Extent,
    pub(super) offset_align: u64,
    pub(super) offset_increment: Extent,
    pub(super) fill_device: bool,
    pub(super) number_ios: u64,
    pub(super) zones: Option<Zones>,
    // How large and where in the file.
    pub(super) block: Each<(u64, u64)>,
    pub(super) block_split: Each<Vec<(u64, u32)>>,
    pub(super) block_unaligned: bool,
    pub(super) block_by_randomness: bool,
    pub(super) align: Each<u64>,
    pub(super) read_percent: u32,
    pub(super) random_percent: Each<u32>,
    pub(super) distribution: Distribution,
    pub(super) map: bool,
    pub(super) generator: Generator,
    pub(super) seed: Option<u64>,
    // Files.
    pub(super) overwrite: bool,
    pub(super) fallocate: Fallocate,
    pub(super) invalidate: bool,
    pub(super) advise_random: Option<bool>,
    pub(super) create_on_open: bool,
    pub(super) create_only: bool,
    pub(super) create_fsync: bool,
    pub(super) create_serialize: bool,
    pub(super) allow_create: bool,
    pub(super) pre_read: bool,
    pub(super) unlink: bool,
    pub(super) unlink_each_loop: bool,
    // When.
    pub(super) numjobs: u64,
    pub(super) stonewall: bool,
    pub(super) new_group: bool,
    pub(super) group_reporting: bool,
    pub(super) wait_for: Option<String>,
    pub(super) exit_all: bool,
    pub(super) exit_all_on_error: bool,
    pub(super) exit_what: ExitWhat,
    pub(super) start_delay: (Duration, Duration),
    pub(super) runtime: Duration,
    pub(super) time_based: bool,
    pub(super) ramp: Duration,
    pub(super) loops: u64,
    pub(super) flow: u64,
    pub(super) flow_id: u64,
    pub(super) flow_sleep: Duration,
    // How fast.
    pub(super) rate: Each<u64>,
    pub(super) rate_min: Each<u64>,
    pub(super) rate_iops: Each<u64>,
    pub(super) rate_iops_min: Each<u64>,
    pub(super) rate_process: RateProcess,
    pub(super) rate_cycle: Duration,
    pub(super) rate_ignores_thinking: bool,
    pub(super) think: Think,
    pub(super) max_latency: Each<Duration>,
    pub(super) latency: Option<LatencyTarget>,
    pub(super) steady: Option<Steady>,
    // What is written, checked and told.
    pub(super) bytes: Bytes,
    pub(super) verify: Verify,
    pub(super) tolerance: Tolerance,
    pub(super) logs: Logs,
    pub(super) kept: Kept,
    pub(super) told: bool,
}

/// fio's default block: 4 KiB.
const BLOCK_DEFAULT: u64 = 4096;

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            description: String::new(),
            mode: Mode { read: true, ..Mode::default() },
            sequence_nr: 1,
            sequence_add: 0,
            sequencer: Sequencer::default(),
            engine: Engine::default(),
            engine_name: "psync",
            depth: 1,
            depth_low: 0,
            offload: false,
            direct: false,
            durable_writes: false,
            syncs: Syncs::default(),
            directories: Vec::new(),
            filenames: Vec::new(),
            filename_format: "$jobname.$jobnum.$filenum".into(),
            nrfiles: 1,
            openfiles: 0,
            file_service: FileService::default(),
            file_service_nr: 1,
            size: Extent::Unset,
            io_size: Extent::Unset,
            filesize: None,
            offset: Extent::Unset,
            offset_align: 0,
            offset_increment: Extent::Unset,
            fill_device: false,
            number_ios: 0,
            zones: None,
            block: [(BLOCK_DEFAULT, BLOCK_DEFAULT); 3],
            block_split: Each::default(),
            block_unaligned: false,
            block_by_randomness: false,
            align: [0; 3],
            read_percent: 50,
            random_percent: [100; 3],
            distribution: Distribution::Uniform,
            map: true,
            generator: Generator::Map,
            seed: None,
            overwrite: false,
            fallocate: Fallocate::default(),
            invalidate: true,
            advise_random: None,
            create_on_open: false,
            create_only: false,
            create_fsync: true,
            create_serialize: true,
            allow_create: true,
            pre_read: false,
            unlink: false,
            unlink_each_loop: false,
            numjobs: 1,
            stonewall: false,
            new_group: false,
            group_reporting: false,
            wait_for: None,
            exit_all: false,
            exit_all_on_error: false,
            exit_what: ExitWhat::default(),
            start_delay: (Duration::ZERO, Duration::ZERO),
            runtime: Duration::ZERO,
            time_based: false,
            ramp: Duration::ZERO,
            loops: 1,
            flow: 0,
            flow_id: 0,
            flow_sleep: Duration::ZERO,
            rate: [0; 3],
            rate_min: [0; 3],
            rate_iops: [0; 3],
            rate_iops_min: [0; 3],
            rate_process: RateProcess::default(),
            rate_cycle: Duration::from_secs(1),
            rate_ignores_thinking: false,
            think: Think::default(),
            max_latency: [Duration::ZERO; 3],
            latency: None,
            steady: None,
            bytes: Bytes::default(),
            verify: Verify::default(),
            tolerance: Tolerance::default(),
            logs: Logs { per_job: true, ..Logs::default() },
            kept: Kept::default(),
            told: true,
        }
    }
}
