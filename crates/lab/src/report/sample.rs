//! Results to test reports with: made up, but shaped like those of real studies.
//!
//! Each is a hard case of its own: [`raid_layouts`] is large; [`rebuild_times`] has operations,
//! progress and claims that don't hold; [`this_host`] is two cells with one repeat; [`awkward`] has
//! failed cells, endless names, markup and control characters in names, five decades, and figures
//! that are no numbers.

use crate::pitfalls::Pitfall;
use crate::results::{
    Cell, ClaimResult, FORMAT, FoundPitfall, LatencyPoint, Metric, ProgressPoint, Results,
    RunFacts, SuspectParameter,
};
use std::collections::BTreeMap;
use stdx::ByteCount;
use stdx::prng::Prng;

fn empty(study: &str, title: &str, question: &str) -> Results {
    Results {
        format: FORMAT,
        study: study.into(),
        title: title.into(),
        question: question.into(),
        seed: 42,
        spindle_version: "0.1.0".into(),
        simulated: true,
        quick: false,
        machine: BTreeMap::new(),
        confidence: 0.95,
        cells: Vec::new(),
        claims: Vec::new(),
        verdict: String::new(),
        notes: Vec::new(),
        partial: None,
        run: RunFacts::default(),
        rankings: Vec::new(),
        layouts: Vec::new(),
    }
}

fn levels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect()
}

fn cell(factors: &[(&str, &str)], workload: &str, repeats: u32) -> Cell {
    let words: Vec<String> =
        factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    Cell {
        id: format!("{}/{workload}/{}", words[0], words[1..].join(",")),
        factors: levels(factors),
        workload: workload.into(),
        repeats,
        metrics: BTreeMap::new(),
        disk_utilisation: BTreeMap::new(),
        latency: Vec::new(),
        progress: Vec::new(),
        warnings: Vec::new(),
        pitfalls: Vec::new(),
        error: None,
        parameters: BTreeMap::new(),
        main_metric: None,
        rounds: Vec::new(),
    }
}

/// A metric whose samples scatter by `spread` (a share) about `mean`.
fn metric(prng: &mut Prng, mean: f64, spread: f64, repeats: u32) -> Metric {
    let scatter = |prng: &mut Prng| (prng.unit() + prng.unit() + prng.unit() - 1.5) * 1.2;
    let samples: Vec<f64> = (0..repeats).map(|_| mean * (1.0 + spread * scatter(prng))).collect();
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let half = if repeats > 1 { 4.3 * (variance / n).sqrt() } else { 0.0 };
    Metric { mean, ci_low: mean - half, ci_high: mean + half, samples }
}

/// Warns a cell of a pitfall, as `run` does.
fn ran_into(cell: &mut Cell, pitfall: &Pitfall) {
    let found = pitfall.found();
    cell.warnings.push(found.warning());
    cell.pitfalls.push(found);
}

/// Layout, disks that hold data, disks, cost of a small write in disk I/Os.
const LAYOUTS: &[(&str, f64, usize, f64)] = &[
    ("single", 1.0, 1, 1.0),
    ("raid1-2", 1.0, 2, 2.0),
    ("raid10-4", 2.0, 4, 2.0),
    ("raid5-3", 2.0, 3, 4.0),
    ("raid5-6", 5.0, 6, 4.0),
    ("raid5-12", 11.0, 12, 4.0),
    ("raid6-12", 10.0, 12, 6.0),
    ("raid50-4x3", 8.0, 12, 4.0),
];

/// The big study: 8 layouts, streams, and random I/O of 4 block sizes, 3 mixes, 4 queue depths.
pub fn raid_layouts() -> Results {
    let mut prng = Prng::new(7);
    let mut results = empty(
        "raid-layouts",
        "RAID layouts on twelve SATA disks",
        "Which RAID layout should these disks have, for this work?",
    );
    results.machine = levels(&[
        ("disks", "12 × Seagate ST3750640AS (750 GB, 7200 rpm), write cache off"),
        ("link", "SAS 3G ×4"),
        ("host", "2 × dual-core Opteron 2218, 2.6 GHz"),
        ("chunk_size", "64 KiB"),
    ]);
    for (layout, data, disks, write_cost) in LAYOUTS {
        for streams in ["1", "4", "16"] {
            for direction in ["read", "write"] {
                let n: f64 = streams.parse().unwrap();
                let reading = direction == "read";
                let width = if reading && data.fract() == 0.0 { *data } else { data * 0.8 };
                let rate = 72.0 * width * 0.93_f64.powf(n.log2() * 2.0);
                let mut cell = cell(
                    &[("layout", layout), ("direction", direction), ("streams", streams)],
                    "streams",
                    3,
                );
                fill(&mut cell, &mut prng, rate * 1e6 / 262_144.0, 262_144.0, 2.0 * n, 0.012);
                busy(&mut cell, &mut prng, *disks, 0.9);
                if streams == "1" && reading {
                    let (disks, workload) = (ByteCount::mib(3 * *disks as u64), ByteCount::gib(1));
                    ran_into(&mut cell, &Pitfall::Cached { disks, workload });
                }
                results.cells.push(cell);
            }
        }
        for block in ["4k", "8k", "16k", "32k"] {
            for share in ["1", "0.33", "0"] {
                for depth in ["1", "4", "16", "64"] {
                    let bytes = super::figures::level_value(block).unwrap();
                    let read: f64 = share.parse().unwrap();
                    let depth_n: f64 = depth.parse().unwrap();
                    let cost = read + (1.0 - read) * write_cost;
                    let spindles = *disks as f64;
                    let busy_disks = spindles * (1.0 - (1.0 - 1.0 / spindles).powf(depth_n));
                    let sorted = 1.0 + 0.22 * (1.0 + depth_n / spindles).ln();
                    let service_s = 0.0126 + bytes / 62e6;
                    let iops = (busy_disks / cost).max(0.9 / cost.sqrt()) * sorted / service_s;
                    let mut cell = cell(
                        &[
                            ("layout", layout),
                            ("block_size", block),
                            ("queue_depth", depth),
                            ("read_share", share),
                        ],
                        "random",
                        3,
                    );
                    fill(&mut cell, &mut prng, iops, bytes, depth_n, 0.02);
                    busy(&mut cell, &mut prng, *disks, busy_disks / spindles);
                    if depth == "64" && *layout == "single" {
                        cell.warnings.push(format!(
                            "Throughput still rose by {:.1} % over the last rounds; measure longer \
                             with `--set steady.rounds_max=40`.",
                            5.0 + prng.unit() * 3.0
                        ));
                    }
                    results.cells.push(cell);
                }
            }
        }
    }
    results.claims = vec![ClaimResult {
        id: "raid5-small-writes".into(),
        text: "A small random write on RAID 5 costs four disk I/Os, so RAID 10 of the same disks is at least 1.5 times as fast.".into(),
        source: "Patterson, Gibson, Katz: A Case for Redundant Arrays of Inexpensive Disks, 1988, https://doi.org/10.1145/50202.50214".into(),
        published: "ratio 2 (model)".into(),
        measured: "ratio 1.97 ±0.06".into(),
        reproduced: true,
        kind: "ratio".into(),
        ..ClaimResult::default()
    }];
    results.verdict = "For random writes take RAID 10: at queue depth 16 it does 2.0 times the \
        writes of RAID 5 on as many disks. For reads and streams the twelve-disk RAID 5 is fastest; \
        RAID 6 costs it 9 % of streaming and a third of random writes."
        .into();
    results
}

fn fill(cell: &mut Cell, prng: &mut Prng, iops: f64, bytes: f64, depth: f64, spread: f64) {
    let repeats = cell.repeats;
    let latency = depth / iops * 1e6;
    let mut put = |name: &str, mean: f64| {
        cell.metrics.insert(name.into(), metric(prng, mean, spread, repeats));
    };
    put("iops", iops);
    put("throughput_mb_s", iops * bytes / 1e6);
    put("latency_us_mean", latency);
    put("latency_us_p50", latency * 0.88);
    put("latency_us_p99", latency * 3.1);
    put("cpu_us_per_io", 6.0 + bytes / 9_000.0);
    put("duration_s", 60.0);
    for quantile in [
        0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995,
        0.998, 0.999, 0.9999, 1.0,
    ] {
        let tail = -(1.0 - f64::min(quantile, 0.99995)).ln();
        let latency_us = latency * (0.3 + 0.62 * tail.powf(0.95)) * (1.0 + 0.02 * prng.unit());
        cell.latency.push(LatencyPoint { quantile, latency_us });
    }
    cell.latency.sort_by(|a, b| a.latency_us.total_cmp(&b.latency_us));
}

fn busy(cell: &mut Cell, prng: &mut Prng, disks: usize, share: f64) {
    for disk in 0..disks {
        let here = (share * (0.95 + 0.1 * prng.unit())).min(1.0);
        cell.disk_utilisation.insert(format!("disk{disk}"), here);
    }
}

/// Operations on a RAID 6, idle and under load, with claims of which one doesn't hold.
pub fn rebuild_times() -> Results {
    let mut prng = Prng::new(11);
    let mut results = empty(
        "rebuild-times",
        "How long a RAID 6 of 3 TB disks is without its redundancy",
        "How long do initialisation, cloning and rebuild take, and what does load do to them?",
    );
    results.machine = levels(&[
        ("disks", "12 × Hitachi HUA723030ALA640 (3 TB, 7200 rpm)"),
        ("controller", "Infortrend class, 2 GB battery-backed cache"),
        ("layout", "RAID 6 of 12"),
    ]);
    for (operation, hours) in [("initialise", 8.02), ("clone", 5.81), ("rebuild", 6.37)] {
        for (load, slower) in [("idle", 1.0), ("32 readers", 1.9)] {
            let mut cell = cell(&[("load", load)], operation, 3);
            let seconds = hours * slower * 3_600.0;
            let duration = metric(&mut prng, seconds, 0.006, 3);
            cell.metrics.insert("duration_s".into(), duration);
            let rate = metric(&mut prng, 3e6 / seconds, 0.006, 3);
            cell.metrics.insert("throughput_mb_s".into(), rate);
            let cpu = metric(&mut prng, 11.0, 0.01, 3);
            cell.metrics.insert("cpu_us_per_io".into(), cpu);
            let mut time_s = 0.0;
            for step in 0..=60 {
                let done = f64::from(step) / 60.0;
                let rate_mb_s = 3e6 / seconds * (1.28 - 0.56 * done) * (0.98 + 0.04 * prng.unit());
                cell.progress.push(ProgressPoint { time_s, done, rate_mb_s });
                time_s += 3e6 / 60.0 / rate_mb_s;
            }
            cell.warnings.push("Simulated over 16 sampled zones of the disk and integrated; the sampling error is 0.6 %.".into());
            busy(&mut cell, &mut prng, 12, 0.97);
            results.cells.push(cell);
        }
    }
    let claim = |id: &str, what: &str, published: &str, measured: &str, held: bool| {
        ClaimResult {
        id: id.into(),
        text: format!("{what} of a RAID 6 of twelve 3 TB disks takes about {published}."),
        source: "made up for this sample".into(),
        published: published.into(),
        measured: measured.into(),
        reproduced: held,
        explanation: (!held).then(|| {
            "The controller's rebuild ran at its default priority, which is not published; here the \
             disks' own rate is the limit."
                .into()
        }),
        kind: "quantity".into(),
        tolerance: Some("10 %: a made-up spread".into()),
        suspect: (!held).then(|| SuspectParameter {
            parameter: "rebuild priority".into(),
            value: "high".into(),
            needs: "low".into(),
            judgement: "Plausible: arrays are delivered so.".into(),
        }),
        ..ClaimResult::default()
    }
    };
    results.claims = vec![
        claim("initialise", "Initialisation", "8 h 04 min", "8 h 01 min ±4 min", true),
        claim("clone", "Cloning a member", "5 h 44 min", "5 h 49 min ±3 min", true),
        claim("rebuild", "The rebuild", "8 h 36 min", "6 h 22 min ±3 min", false),
        ClaimResult {
            uncounted: Some("a conjecture of its author".into()),
            ..claim("age", "A clone of an old disk", "6 h", "5 h 49 min ±3 min", false)
        },
    ];
    results.verdict =
        "An idle array rebuilds in 6 h 22 min; 32 readers nearly double that. Cloning a \
        failing member before it dies is 33 minutes faster and keeps the redundancy."
            .into();
    results
}

/// Two cells, one repeat, real, shortened.
pub fn this_host() -> Results {
    let mut prng = Prng::new(3);
    let mut results = empty(
        "this-host",
        "This host's disk",
        "What does the disk under /var do with 4 KiB reads?",
    );
    results.simulated = false;
    results.quick = true;
    results.machine = levels(&[("device", "/var/tmp/spindle.img, 1 GiB, ext4"), ("cores", "2")]);
    for (depth, iops) in [("1", 9_312.0), ("32", 141_800.0)] {
        let mut cell = cell(&[("queue_depth", depth), ("block_size", "4k")], "random", 1);
        fill(&mut cell, &mut prng, iops, 4096.0, depth.parse().unwrap(), 0.0);
        cell.disk_utilisation.insert("vda".into(), 0.98);
        ran_into(&mut cell, &Pitfall::FewRepeats { repeats: 1 });
        results.cells.push(cell);
    }
    results.notes = vec!["--quick: 1 repeat of 3, 2 s of 30 s".into()];
    results.verdict = "At queue depth 32 the disk does 15 times the reads of queue depth 1.".into();
    results
}

/// Names that are markup.
pub const MARKUP: &str = "<script>alert('x')</script>&\"quoted\"";

/// Everything that could break a page.
pub fn awkward() -> Results {
    let mut prng = Prng::new(5);
    let mut results = empty(
        "awkward-<b>study</b>",
        "A title with <em>markup</em> & an ampersand",
        "Does it survive a question with \"quotes\" and </title>?",
    );
    results.notes = vec![MARKUP.into()];
    results.machine = levels(&[("disks", MARKUP)]);
    let long = "a-layout-with-a-name-that-goes-on-and-on-".repeat(4);
    for (number, layout) in
        [MARKUP, &long, "五段階の名前", "plain\u{1b}[31mred", "zero", "broken"].iter().enumerate()
    {
        for reader in ["many readers at once", "one"] {
            for size in ["4k", "1M"] {
                let mut cell =
                    cell(&[("layout", layout), ("who", reader), ("size", size)], "tiny", 3);
                let iops = 10_f64.powi(number as i32) * 3.7;
                fill(&mut cell, &mut prng, iops, 4096.0, 4.0, 0.4);
                cell.warnings.push(format!("{number} of {MARKUP}: run it again."));
                let [id, text, mend] = [MARKUP, MARKUP, "redden \u{1b}[31m"].map(str::to_owned);
                cell.pitfalls.push(FoundPitfall { id, text, mend, phase: None, processor: None });
                if *layout == "zero" {
                    let nothing = Metric {
                        mean: f64::NAN,
                        ci_low: f64::NEG_INFINITY,
                        ci_high: f64::INFINITY,
                        samples: vec![f64::NAN],
                    };
                    cell.metrics.insert("iops".into(), nothing);
                    cell.latency[3].latency_us = f64::NAN;
                }
                if *layout == "broken" && reader == "one" {
                    cell.metrics.clear();
                    cell.latency.clear();
                    cell.error = Some(format!("could not open {MARKUP}: no such device"));
                }
                results.cells.push(cell);
            }
        }
    }
    results.claims = vec![ClaimResult {
        id: MARKUP.into(),
        text: MARKUP.into(),
        source: "https://example.org/\"onmouseover=\"alert(1) and on".into(),
        published: MARKUP.into(),
        measured: MARKUP.into(),
        reproduced: false,
        unsure: false,
        explanation: Some(MARKUP.into()),
        kind: MARKUP.into(),
        uncounted: Some(MARKUP.into()),
        tolerance: Some(MARKUP.into()),
        suspect: Some(SuspectParameter {
            parameter: MARKUP.into(),
            value: MARKUP.into(),
            needs: MARKUP.into(),
            judgement: MARKUP.into(),
        }),
    }];
    results.verdict = MARKUP.into();
    results
}

/// A run in which nothing was measured at all.
pub fn nothing() -> Results {
    empty("nothing", "Nothing", "What if every cell was left out?")
}

/// All samples by name.
pub fn all() -> Vec<(&'static str, Results)> {
    vec![
        ("raid-layouts", raid_layouts()),
        ("rebuild-times", rebuild_times()),
        ("this-host", this_host()),
        ("awkward", awkward()),
        ("nothing", nothing()),
    ]
}
