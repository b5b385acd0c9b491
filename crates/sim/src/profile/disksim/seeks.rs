//! Seek curves of DiskSim's models: timed, in a file of their own, or as one of its formulas, which is sampled.

use super::part::{Part, named, read};
use crate::profile::given::{Given, Origin};
use crate::profile::{ProfileError, SeekTable};
use std::path::Path;

/// Each point of a sampled formula lies this much farther out than the last.
const STEP: f64 = 1.03;

/// The seek curve of a model; `beside` is the path of the specification.
pub(super) fn table(
    mechanics: &Part,
    beside: &Path,
    cylinders: u64,
) -> Result<Given<SeekTable>, ProfileError> {
    let kind = mechanics.word("Seek type");
    if kind == "extracted" {
        let path = named(beside, mechanics.word("Full seek curve"), "seek");
        return timed(&path);
    }
    let number = |key| mechanics.number_or(key, 0.0);
    let (one, average, full) = (
        number("Single cylinder seek time")?,
        number("Average seek time")?,
        number("Full strobe seek time")?,
    );
    let far = cylinders.saturating_sub(1).max(2) as f64;
    let formula: Box<dyn Fn(f64) -> f64> = match kind {
        "constant" => {
            let same = number("Constant seek time")?;
            Box::new(move |_| same)
        }
        // The average is taken to be the seek over a third of the cylinders.
        "linear" => Box::new(move |d| {
            let third = far / 3.0;
            match d <= third {
                true => one + (average - one) * (d - 1.0) / (third - 1.0).max(1.0),
                false => average + (full - average) * (d - third) / (far - third),
            }
        }),
        // Lee's equation; its factors stand where the average and the longest seek would.
        "curve" => Box::new(move |d| one + average * (d - 1.0) + full * (d - 1.0).sqrt()),
        "hpl" | "hplplus10" => {
            let values = mechanics.numbers("HPL seek equation values")?;
            let Ok([knee, root, by_root, line, by_cylinder, single]) =
                <[f64; 6]>::try_from(values.as_slice())
            else {
                return Err(mechanics.wrong("HPL seek equation values", "write six numbers"));
            };
            let mut first = match kind {
                "hpl" => Vec::new(),
                _ => mechanics.numbers("First ten seek times")?,
            };
            if kind == "hpl" && single != -1.0 {
                first.push(one);
            }
            Box::new(move |d| match first.get(d as usize - 1) {
                Some(ms) => *ms,
                None if d < knee => root + by_root * d.sqrt(),
                None => line + by_cylinder * d,
            })
        }
        _ => {
            let mend = "write extracted, hpl, hplplus10, linear, curve or constant";
            return Err(mechanics.wrong("Seek type", mend));
        }
    };
    let points = distances(far as u64, mechanics.numbers("HPL seek equation values")?.first());
    let points = points.into_iter().map(|d| (d, (formula(d as f64) * 1e6).round() / 1e6));
    let table = SeekTable(points.collect());
    table.check("seek_table").map_err(|flaw| mechanics.wrong("Seek type", &flaw.mend))?;
    let how = format!("the {kind} formula of the model, sampled");
    Ok(Given::of(table, Origin::Derived(how)))
}

/// Where a formula is sampled: each cylinder at first, then farther apart, and on both sides of its knee.
fn distances(far: u64, knee: Option<&f64>) -> Vec<u64> {
    let mut distances = vec![far];
    let mut at = 1.0_f64;
    while (at as u64) < far {
        distances.push(at as u64);
        at = (at + 1.0).max(at * STEP);
    }
    if let Some(knee) = knee.filter(|knee| (2.0..far as f64).contains(*knee)) {
        distances.extend([knee.ceil() as u64 - 1, knee.ceil() as u64]);
    }
    distances.sort_unstable();
    distances.dedup();
    distances
}

/// A curve in a file: a line that says how many points there are, and then cylinders and ms on each.
fn timed(path: &Path) -> Result<Given<SeekTable>, ProfileError> {
    let (file, text) = (path.display().to_string(), read(path)?);
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> =
            line.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty()).collect();
        let is_point = words.first().is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit()));
        if !is_point {
            continue;
        }
        let point = match words.as_slice() {
            [cylinders, ms] => cylinders.parse().ok().zip(ms.parse().ok()),
            _ => None,
        };
        let rises = |point: &(u64, f64)| points.last().is_none_or(|last| last.0 < point.0);
        let sane = |point: &(u64, f64)| point.0 >= 1 && (0.0..=1e4).contains(&point.1);
        match point.filter(rises).filter(sane) {
            Some(point) => points.push(point),
            None => {
                return Err(ProfileError::Wrong {
                    file,
                    line: number,
                    key: "seek".to_owned(),
                    mend: "write cylinders, ms: cylinders rising from 1".to_owned(),
                });
            }
        }
    }
    let table = SeekTable(points);
    let flaw = table.check("seek_table").err();
    if let Some(flaw) = flaw {
        let key = "seek".to_owned();
        return Err(ProfileError::Wrong { file, line: 1, key, mend: flaw.mend });
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Given::of(table, Origin::Source(format!("{name}: timed on the drive"))))
}
