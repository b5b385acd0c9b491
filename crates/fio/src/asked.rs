//! What jobs are asked for, by fio's names: so that who holds two runs against each other sees whether they did the same.
//!
//! It is told from the job as it was read, not from its text: values in one form (`--runtime=1s` is `--runtime=1`), none that are fio's
//! defaults (`--loops=1`), nothing of options without effect (`--thread`). What matters most stands in any case.
//!
//! Nothing is said of where a job works (`directory`, `filename`, `unlink`), of its random numbers (`randseed`), and of what becomes of
//! its figures (percentiles, logs, `group_reporting`).

use super::figures::Each;
use super::plan::{Job, Plan, settle};
use super::spec::{
    Bytes, Checksum, Distribution, ExitWhat, Extent, Fallocate, FileService, Generator,
    LatencyTarget, Mode, RateProcess, Sequencer, Spec, Steady, SteadyFigure, Syncs, Think,
    Tolerance, Verify, Zones,
};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::ByteCount;

impl Plan {
    /// The names of the jobs, once each, in their order.
    pub fn job_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for job in &self.jobs {
            if !names.contains(&job.name.as_str()) {
                names.push(&job.name);
            }
        }
        names
    }

    /// What the jobs do, by fio's names of options: what is not fio's default, and what matters most in any case. With several
    /// jobs each name has its job's before it, `JOB.rw`.
    pub fn asked(&self) -> Vec<(String, String)> {
        let several = self.job_names().len() > 1;
        let clones = self.jobs.iter().filter(|job| job.clone == 0);
        let named = clones.flat_map(|job: &Job| {
            asked(&job.spec).into_iter().map(move |(name, value)| match several {
                true => (format!("{}.{name}", job.name), value),
                false => (name.to_owned(), value),
            })
        });
        named.collect()
    }
}

fn asked(spec: &Spec) -> BTreeMap<&'static str, String> {
    /// What is said in any case.
    const ALWAYS: [&str; 7] = ["rw", "bs", "iodepth", "ioengine", "direct", "numjobs", "size"];
    // Of what some defaults are made: a job that reads overwrites, blocks are aligned by their size.
    const GROUND: [&str; 2] = ["bssplit", "random_distribution"];
    let mut usual = Spec {
        mode: spec.mode,
        block: spec.block,
        block_split: spec.block_split.clone(),
        distribution: spec.distribution.clone(),
        ..Spec::default()
    };
    // The job itself was settled, with the same of all that could be wrong here.
    let _ = settle(&mut usual);
    let (plain, usual) = (all(&Spec::default()), all(&usual));
    let is_usual = |name: &str, value: &String| {
        let usual = if GROUND.contains(&name) { &plain } else { &usual };
        usual.get(name) == Some(value)
    };
    let mut asked = all(spec);
    asked.retain(|name, value| ALWAYS.contains(name) || !is_usual(name, value));
    asked
}

/// All that a job does, by fio's names.
fn all(spec: &Spec) -> BTreeMap<&'static str, String> {
    // Taken apart, so that what is added to it is thought of here.
    let Spec {
        description: _,
        mode,
        sequence_nr,
        sequence_add,
        sequencer,
        engine: _,
        engine_name,
        depth,
        depth_low,
        offload,
        direct,
        durable_writes,
        syncs,
        directories: _,
        filenames: _,
        filename_format: _,
        nrfiles,
        openfiles,
        file_service,
        file_service_nr,
        size,
        io_size,
        filesize,
        offset,
        offset_align,
        offset_increment,
        fill_device,
        number_ios,
        zones,
        block,
        block_split,
        block_unaligned,
        block_by_randomness,
        align,
        read_percent,
        random_percent,
        distribution,
        map,
        generator,
        seed: _,
        overwrite,
        fallocate,
        invalidate,
        advise_random,
        create_on_open,
        create_only,
        create_fsync,
        create_serialize,
        allow_create,
        pre_read,
        unlink: _,
        unlink_each_loop,
        numjobs,
        stonewall,
        new_group,
        group_reporting: _,
        wait_for,
        exit_all,
        exit_all_on_error,
        exit_what,
        start_delay,
        runtime,
        time_based,
        ramp,
        loops,
        flow,
        flow_id,
        flow_sleep,
        rate,
        rate_min,
        rate_iops,
        rate_iops_min,
        rate_process,
        rate_cycle,
        rate_ignores_thinking,
        think,
        max_latency,
        latency,
        steady,
        bytes,
        verify,
        tolerance,
        logs: _,
        kept: _,
        told,
    } = spec;
    let mut said = BTreeMap::new();
    said.extend([
        ("rw", mode_word(*mode, *sequence_nr, *sequence_add)),
        ("rw_sequencer", word(*sequencer, &[(Sequencer::Identical, "identical")], "sequential")),
        ("ioengine", (*engine_name).to_owned()),
        ("iodepth", depth.to_string()),
        ("iodepth_low", depth_low.to_string()),
        ("io_submit_mode", if *offload { "offload" } else { "inline" }.to_owned()),
        ("direct", flag(*direct)),
        ("sync", flag(*durable_writes)),
        ("nrfiles", nrfiles.to_string()),
        ("openfiles", openfiles.to_string()),
        ("file_service_type", service(*file_service, *file_service_nr)),
        ("offset_align", bytes_text(*offset_align)),
        ("fill_device", flag(*fill_device)),
        ("number_ios", number_ios.to_string()),
        ("bs", each(block, |(low, high)| range(low, high, bytes_text))),
        ("bssplit", each_of(block_split, |(size, share)| format!("{}/{share}", bytes_text(*size)))),
        ("bs_unaligned", flag(*block_unaligned)),
        ("bs_is_seq_rand", flag(*block_by_randomness)),
        ("blockalign", each(align, bytes_text)),
        ("rwmixread", read_percent.to_string()),
        ("percentage_random", each(random_percent, |share| share.to_string())),
        ("random_distribution", distributed(distribution)),
        ("norandommap", flag(!map)),
        ("random_generator", word(*generator, &[(Generator::Permutation, "lfsr")], "tausworthe")),
        ("overwrite", flag(*overwrite)),
        (
            "fallocate",
            word(
                *fallocate,
                &[(Fallocate::None, "none"), (Fallocate::Truncate, "truncate")],
                "native",
            ),
        ),
        ("invalidate", flag(*invalidate)),
        (
            "fadvise_hint",
            match advise_random {
                None => "1",
                Some(false) => "sequential",
                Some(true) => "random",
            }
            .to_owned(),
        ),
        ("create_on_open", flag(*create_on_open)),
        ("create_only", flag(*create_only)),
        ("create_fsync", flag(*create_fsync)),
        ("create_serialize", flag(*create_serialize)),
        ("allow_file_create", flag(*allow_create)),
        ("pre_read", flag(*pre_read)),
        ("unlink_each_loop", flag(*unlink_each_loop)),
        ("numjobs", numjobs.to_string()),
        ("stonewall", flag(*stonewall)),
        ("new_group", flag(*new_group)),
        ("wait_for", wait_for.clone().unwrap_or_default()),
        ("exitall", flag(*exit_all)),
        ("exitall_on_error", flag(*exit_all_on_error)),
        (
            "exit_what",
            word(
                *exit_what,
                &[(ExitWhat::Stonewall, "stonewall"), (ExitWhat::All, "all")],
                "group",
            ),
        ),
        ("startdelay", range(start_delay.0, start_delay.1, span)),
        ("runtime", span(*runtime)),
        ("time_based", flag(*time_based)),
        ("ramp_time", span(*ramp)),
        ("loops", loops.to_string()),
        ("flow", flow.to_string()),
        ("flow_id", flow_id.to_string()),
        ("flow_sleep", span(*flow_sleep)),
        ("rate", each(rate, bytes_text)),
        ("rate_min", each(rate_min, bytes_text)),
        ("rate_iops", each(rate_iops, |rate| rate.to_string())),
        ("rate_iops_min", each(rate_iops_min, |rate| rate.to_string())),
        ("rate_process", word(*rate_process, &[(RateProcess::Poisson, "poisson")], "linear")),
        ("rate_cycle", span(*rate_cycle)),
        ("rate_ignore_thinktime", flag(*rate_ignores_thinking)),
        ("max_latency", each(max_latency, span)),
        ("stats", flag(*told)),
    ]);
    for (name, extent) in [
        ("size", size),
        ("io_size", io_size),
        ("offset", offset),
        ("offset_increment", offset_increment),
    ] {
        match extent {
            // No offset is the beginning, and no bytes to do are a pass.
            Extent::Unset | Extent::Bytes(0) | Extent::Percent(0) => {}
            Extent::Bytes(bytes) => _ = said.insert(name, bytes_text(*bytes)),
            Extent::Percent(share) => _ = said.insert(name, format!("{share}%")),
        }
    }
    if let Some((low, high)) = filesize {
        said.insert("filesize", range(*low, *high, bytes_text));
    }
    if let Some(Zones { size, range, skip }) = zones {
        said.insert("zonemode", "strided".to_owned());
        let sizes = [("zonesize", size), ("zonerange", range), ("zoneskip", skip)];
        said.extend(sizes.map(|(name, size)| (name, bytes_text(*size))));
    }
    syncs_of(*syncs, &mut said);
    think_of(*think, &mut said);
    said.extend(latency.iter().flat_map(search));
    said.extend(steady.iter().flat_map(steadiness));
    written(bytes, verify, &mut said);
    verified(verify, &mut said);
    tolerated(tolerance, &mut said);
    said
}

/// What is said by name.
type Said = BTreeMap<&'static str, String>;

fn syncs_of(syncs: Syncs, said: &mut Said) {
    let Syncs { fsync, fdatasync, at_end, on_close } = syncs;
    said.extend([
        ("fsync", fsync.to_string()),
        ("fdatasync", fdatasync.to_string()),
        ("end_fsync", flag(at_end)),
        ("fsync_on_close", flag(on_close)),
    ]);
}

fn think_of(think: Think, said: &mut Said) {
    let Think { time, spin, blocks, by_issue, io_time } = think;
    // After each block, where it says neither a number nor a time.
    let usual = if io_time.is_zero() { "1" } else { "none" };
    let blocks = blocks.map_or_else(|| usual.to_owned(), |blocks| blocks.to_string());
    said.extend([
        ("thinktime", span(time)),
        ("thinktime_spin", span(spin)),
        ("thinktime_blocks", blocks),
        ("thinktime_blocks_type", if by_issue { "issue" } else { "complete" }.to_owned()),
        ("thinktime_iotime", span(io_time)),
    ]);
}

fn search(latency: &LatencyTarget) -> [(&'static str, String); 4] {
    let LatencyTarget { target, window, percentile, go_on } = *latency;
    [
        ("latency_target", span(target)),
        ("latency_window", span(window)),
        ("latency_percentile", percentile.to_string()),
        ("latency_run", flag(go_on)),
    ]
}

fn steadiness(steady: &Steady) -> [(&'static str, String); 4] {
    let Steady { figure, slope, limit, percent, window, ramp, interval } = *steady;
    let figure = match figure {
        SteadyFigure::Iops => "iops",
        SteadyFigure::Bandwidth => "bw",
        SteadyFigure::Latency => "lat",
    };
    let (slope, percent) = (if slope { "_slope" } else { "" }, if percent { "%" } else { "" });
    [
        ("steadystate", format!("{figure}{slope}:{limit}{percent}")),
        ("steadystate_duration", span(window)),
        ("steadystate_ramp_time", span(ramp)),
        ("steadystate_check_interval", span(interval)),
    ]
}

fn written(bytes: &Bytes, verify: &Verify, said: &mut Said) {
    let Bytes { zeros, refill, pattern, compress_percent, dedupe_percent } = bytes;
    said.extend([
        ("zero_buffers", flag(*zeros)),
        ("buffer_pattern", hexadecimal(pattern)),
        ("buffer_compress_percentage", compress_percent.to_string()),
        ("dedupe_percentage", dedupe_percent.to_string()),
    ]);
    // What is verified is new for each write anyway.
    let usual = verify.checksum.is_some();
    said.extend(refill.filter(|refill| *refill != usual).map(|new| ("refill_buffers", flag(new))));
}

fn verified(verify: &Verify, said: &mut Said) {
    let Verify {
        checksum,
        after_writing,
        only,
        interval,
        pattern,
        fatal,
        backlog,
        backlog_batch,
        write_sequence,
    } = verify;
    let checksum = checksum.map_or("0", |checksum| match checksum {
        Checksum::Meta => "meta",
        Checksum::PatternOnly => "pattern",
        Checksum::Pattern => "pattern_hdr",
        Checksum::Crc7 => "crc7",
        Checksum::Crc16 => "crc16",
        Checksum::Crc32 => "crc32",
        Checksum::Crc32c => "crc32c",
        Checksum::Crc64 => "crc64",
        Checksum::Sha256 => "sha256",
        Checksum::Sha512 => "sha512",
        Checksum::Null => "null",
    });
    said.extend([
        ("verify", checksum.to_owned()),
        ("do_verify", flag(*after_writing)),
        ("verify_only", flag(*only)),
        ("verify_interval", bytes_text(*interval)),
        ("verify_pattern", hexadecimal(pattern)),
        ("verify_fatal", flag(*fatal)),
        ("verify_backlog", backlog.to_string()),
        ("verify_backlog_batch", backlog_batch.to_string()),
        ("verify_write_sequence", flag(*write_sequence)),
    ]);
}

fn tolerated(tolerance: &Tolerance, said: &mut Said) {
    let Tolerance { goes_on, listed } = tolerance;
    let on = ["read", "write", "trim", "verify"].into_iter().zip(goes_on);
    let on: Vec<&str> = on.filter(|(_, goes_on)| **goes_on).map(|(of, _)| of).collect();
    said.insert("continue_on_error", on.join(","));
    let numbers = |errors: &Option<Vec<i32>>| {
        let errors: Vec<String> = errors.iter().flatten().map(i32::to_string).collect();
        errors.join(":")
    };
    said.insert("ignore_error", listed.each_ref().map(numbers).join(","));
}

/// `randwrite`, `read:8 KiB`.
fn mode_word(mode: Mode, nr: u64, add: i64) -> String {
    let Mode { read, write, trim, random, trim_write } = mode;
    let plain = match (read, write, trim) {
        _ if trim_write => "trimwrite",
        (true, true, _) => "rw",
        (true, ..) => "read",
        (_, true, _) => "write",
        _ => "trim",
    };
    let word = format!("{}{plain}", if random { "rand" } else { "" });
    match (nr, add) {
        (1, 0) => word,
        (nr, 0) => format!("{word}:{nr}"),
        (_, add) if add < 0 => format!("{word}:-{}", bytes_text(add.unsigned_abs())),
        (_, add) => format!("{word}:{}", bytes_text(add.unsigned_abs())),
    }
}

fn service(service: FileService, nr: u64) -> String {
    match service {
        FileService::RoundRobin => format!("roundrobin:{nr}"),
        FileService::Random => format!("random:{nr}"),
        FileService::Sequential => format!("sequential:{nr}"),
        FileService::Zipf(theta) => format!("zipf:{theta}"),
        FileService::Pareto(power) => format!("pareto:{power}"),
        FileService::Normal(deviation) => format!("normal:{deviation}"),
    }
}

fn distributed(distribution: &Distribution) -> String {
    let with = |kind: &str, number: f64, center: Option<f64>| match center {
        Some(center) => format!("{kind}:{number}:{center}"),
        None => format!("{kind}:{number}"),
    };
    match distribution {
        Distribution::Uniform => "random".to_owned(),
        Distribution::Zipf { theta, center } => with("zipf", *theta, *center),
        Distribution::Pareto { power, center } => with("pareto", *power, *center),
        Distribution::Normal { deviation_percent, center } => {
            with("normal", *deviation_percent, *center)
        }
        Distribution::Zoned(zones) => {
            format!("zoned:{}", each_of(zones, |(share, part)| format!("{share}/{part}")))
        }
        Distribution::ZonedAbsolute(zones) => {
            let zone = |(share, part): &(u32, u64)| format!("{share}/{}", bytes_text(*part));
            format!("zoned_abs:{}", each_of(zones, zone))
        }
    }
}

/// One value for all directions, or `READ,WRITE,TRIM`.
fn each<T: Copy>(values: &Each<T>, text: impl Fn(T) -> String) -> String {
    let texts = values.map(text);
    match texts.iter().all(|one| *one == texts[0]) {
        true => texts[0].clone(),
        false => texts.join(","),
    }
}

/// The same of lists, whose parts `:` parts.
fn each_of<T>(lists: &Each<Vec<T>>, text: impl Fn(&T) -> String) -> String {
    let list = |list: &Vec<T>| list.iter().map(&text).collect::<Vec<_>>().join(":");
    let texts = [list(&lists[0]), list(&lists[1]), list(&lists[2])];
    match texts.iter().all(|one| *one == texts[0]) {
        true => texts[0].clone(),
        false => texts.join(","),
    }
}

fn range<T: Copy + PartialEq>(low: T, high: T, text: impl Fn(T) -> String) -> String {
    if low == high { text(low) } else { format!("{}-{}", text(low), text(high)) }
}

/// The value of one of these; that of all others else.
fn word<T: PartialEq>(value: T, words: &[(T, &str)], usual: &str) -> String {
    words.iter().find(|(known, _)| *known == value).map_or(usual, |(_, word)| word).to_owned()
}

fn flag(is_set: bool) -> String {
    u8::from(is_set).to_string()
}

/// `1.5s`, `90s`.
fn span(span: Duration) -> String {
    format!("{span:?}")
}

/// In the largest unit that divides it: two sizes that are not the same are not told alike.
fn bytes_text(bytes: u64) -> String {
    let shown = ByteCount(bytes).to_string();
    if shown.contains('.') { format!("{bytes} B") } else { shown }
}

fn hexadecimal(pattern: &[u8]) -> String {
    match pattern {
        [] => String::new(),
        some => some.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}
