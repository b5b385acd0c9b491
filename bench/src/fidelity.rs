//! `bench fidelity`: what simulated drives take for the loads under which the real ones were measured.
//!
//! A drive a line, twice: from its full parameters, and from what a data sheet would say of it. Mean and quantiles stand
//! beside the measured ones; the demerit (Ruemmler and Wilkes, 1994) is the root mean square of the horizontal distance
//! between the two distributions, in per cent of the measured mean. The peer is DiskSim 4.0 on the same parameters, as its
//! authors published it with its validation; where nothing was published there is none.
//!
//! The loads are not part of the project: the folder of `NAME.trace.zst` and `NAME.diskspecs` is an argument.

use serde_json::{Value, json};
use sim::Profile;
use sim::profile::{DiskProfile, load, load_path};
use sim::replay::{Playing, replay};
use std::path::{Path, PathBuf};
use trace::{Distribution, demerit};

const USAGE: &str = "usage: bench fidelity [--drives DIR] [--seed N]   (default ../shared/drives)";
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99_9")];

/// DiskSim 4.0's demerits, per cent: the distances that its validation says come out, over the measured means.
const DISKSIM: [(&str, f64); 6] = [
    ("cheetah9LP", 2.5),
    ("cheetah4LP", 6.0),
    ("ibm18es", 2.6),
    ("atlas_III", 6.0),
    ("hp_c2490a", 2.0),
    ("hp_c2247a", 0.6),
];

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut drives, mut seed) = (PathBuf::from("../shared/drives"), 1_u64);
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--drives" => drives = value.into(),
            "--seed" => seed = value.parse().map_err(|_| USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    let names = names(&drives)?;
    for figures in ["full", "sheet"] {
        let mut all = Vec::new();
        for name in &names {
            let full = profile(&drives, name)?;
            let disk = if figures == "full" { full } else { full.as_a_sheet_has_it() };
            let (line, demerit) = case(&drives, name, figures, disk, seed)?;
            println!("{line}");
            all.push(demerit);
        }
        all.sort_unstable_by(f64::total_cmp);
        let (Some(worst), count) = (all.last(), all.len()) else { continue };
        let median = (all[(count - 1) / 2] + all[count / 2]) / 2.0;
        let (median, worst) = (tenth(median), tenth(*worst));
        println!(
            "{}",
            json!({ "bench": "fidelity", "case": format!("all-{figures}"), "drives": count,
                    "unit": "% demerit", "median": median, "worst": worst })
        );
    }
    Ok(())
}

/// Names of the drives in a folder.
fn names(drives: &Path) -> Result<Vec<String>, String> {
    let unreadable =
        |error| format!("{}: {error}; name the folder with --drives", drives.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(drives).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        names.extend(file.strip_suffix(".trace.zst").map(str::to_owned));
    }
    names.sort_unstable();
    if names.is_empty() {
        return Err(format!("{}: there is no NAME.trace.zst in it", drives.display()));
    }
    Ok(names)
}

/// The profile that ships, if one is called so: it knows the bus of the measurement, too.
fn profile(drives: &Path, name: &str) -> Result<DiskProfile, String> {
    let shipped = load(&name.to_ascii_lowercase().replace('_', "-"));
    let beside = || load_path(&drives.join(name).with_extension("diskspecs"));
    match shipped.or_else(|_| beside()).map_err(|error| error.to_string())? {
        Profile::Disk(disk) => Ok(*disk),
        other => Err(format!("{name} is a {}, not a disk", other.kind())),
    }
}

fn case(
    drives: &Path,
    name: &str,
    figures: &str,
    disk: DiskProfile,
    seed: u64,
) -> Result<(Value, f64), String> {
    let recorded = trace::read(&drives.join(format!("{name}.trace.zst")), None, None)
        .map_err(|error| error.to_string())?;
    let profile = Profile::Disk(Box::new(disk));
    let times = replay(&profile, &recorded.asked, Playing::Closed, seed)
        .map_err(|error| format!("{name}: {error}"))?;
    let measured = recorded.measured().ok_or_else(|| format!("{name}: no measured times"))?;
    let (ours, measured) = (Distribution::of(&times), Distribution::of(&measured));
    let apart = demerit(&ours, &measured).ok_or_else(|| format!("{name}: nothing was measured"))?;
    let disksim = DISKSIM.iter().find(|(known, _)| *known == name).map(|(_, demerit)| *demerit);
    let mut line = json!({
        "bench": "fidelity", "case": format!("{name}-{figures}"), "n": ours.count(),
        "unit": "% demerit", "ours": tenth(apart * 100.0), "peer": "DiskSim 4.0, published",
        "theirs": disksim, "mean_ms": round(ours.mean_ms()), "measured_mean_ms": round(measured.mean_ms()),
    });
    for (share, quantile) in QUANTILES {
        line[format!("{quantile}_ms")] = round(ours.quantile_ms(share)).into();
        line[format!("measured_{quantile}_ms")] = round(measured.quantile_ms(share)).into();
    }
    Ok((line, apart * 100.0))
}

fn tenth(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

/// To the microsecond.
fn round(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}
