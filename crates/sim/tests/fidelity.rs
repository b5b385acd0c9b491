//! What could break: a model of a disk that is not like the disk. Held against what real drives took, where the published
//! measurements are beside the project (`../shared/drives`); without them there is nothing to hold it against, and that is
//! said.

use sim::Profile;
use sim::profile::{DiskProfile, load_path};
use sim::replay::{Playing, replay};
use std::path::{Path, PathBuf};
use trace::{Distribution, demerit};

/// The drives, by the name of their files.
const DRIVES: [&str; 6] =
    ["cheetah9LP", "cheetah4LP", "ibm18es", "atlas_III", "hp_c2490a", "hp_c2247a"];
const SEED: u64 = 1;

fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/drives");
    if !folder.is_dir() {
        println!("skipped: the measured drives are not beside the project (../shared/drives)");
    }
    folder.is_dir().then_some(folder)
}

fn disk(folder: &Path, name: &str) -> DiskProfile {
    match load_path(&folder.join(name).with_extension("diskspecs")) {
        Ok(Profile::Disk(disk)) => *disk,
        Ok(other) => panic!("{name} is a {}", other.kind()),
        Err(error) => panic!("{error}"),
    }
}

/// The demerits of all drives, from profiles made of their full ones.
fn demerits(folder: &Path, made: impl Fn(DiskProfile) -> DiskProfile) -> Vec<f64> {
    let of = |name: &str| {
        let recorded = trace::read(&folder.join(format!("{name}.trace.zst")), None, None);
        let recorded = recorded.unwrap_or_else(|error| panic!("{error}"));
        let profile = Profile::Disk(Box::new(made(disk(folder, name))));
        let times = replay(&profile, &recorded.asked, Playing::Closed, SEED)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let measured = Distribution::of(&recorded.measured().expect("each line has its time"));
        let ours = Distribution::of(&times);
        let apart = demerit(&ours, &measured).expect("there are times");
        println!(
            "{name:11} {:6.2} ms for {:6.2}  p50 {:6.2} {:6.2}  p90 {:6.2} {:6.2}  p99 {:6.2} {:6.2}  demerit {:5.2} %",
            ours.mean_ms(),
            measured.mean_ms(),
            ours.quantile_ms(0.5),
            measured.quantile_ms(0.5),
            ours.quantile_ms(0.9),
            measured.quantile_ms(0.9),
            ours.quantile_ms(0.99),
            measured.quantile_ms(0.99),
            apart * 100.0,
        );
        apart * 100.0
    };
    DRIVES.into_iter().map(of).collect()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}

#[test]
fn six_measured_drives_are_met_from_their_full_parameters() {
    let Some(folder) = folder() else { return };
    let demerits = demerits(&folder, |disk| disk);
    let worst = demerits.iter().copied().fold(0.0, f64::max);
    let median = median(demerits);
    println!("median {median:.2} %, worst {worst:.2} %");
    assert!(median <= 3.0 && worst <= 7.0, "median {median:.2} %, worst {worst:.2} %");
}

#[test]
fn six_measured_drives_are_met_from_what_a_data_sheet_would_say() {
    let Some(folder) = folder() else { return };
    let demerits = demerits(&folder, |disk| disk.as_a_sheet_has_it());
    let worst = demerits.iter().copied().fold(0.0, f64::max);
    println!("median {:.2} %, worst {worst:.2} %", median(demerits));
    assert!(worst <= 12.0, "worst {worst:.2} %");
}
