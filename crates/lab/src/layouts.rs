//! What a layout is worth beside its speed: room, the losses that it survives, its rebuild, the risk meanwhile.
//!
//! The target says what a layout is made of ([`LayoutFacts`]); what depends on the run, how busy its load kept the
//! disks, is here. The formulas, their assumptions and their sources stand in `docs/theory/losses.md`:
//!
//! 1. How long a disk is rebuilt, on an idle set and beside a load: `rebuild`.
//! 2. Disks are lost independently, at a constant rate (that of the data sheet's AFR); sectors turn out unreadable
//!    independently, at the data sheet's rate a bit read.
//! 3. A set that has no redundancy left loses data by another loss or by an unreadable sector; a set that has some left
//!    by so many losses more and then one or the other, each taken to come at the rebuild's start.
//!
//! Real disks of one batch and one box fail together more often than that, and the data sheet's rate of unreadable
//! sectors is a promise and no mean: the figures order layouts, they do not foretell.

mod rebuild;

use crate::claims::Measured;
use crate::layout::{LayoutFacts, RebuildFacts};
use crate::results::LayoutFigures;
use crate::target::Target;
use rebuild::Loads;

/// Seconds of a year of 365.25 days.
const YEAR_S: f64 = 365.25 * 86_400.0;
/// The share of rebuilds that may meet an unreadable sector where nothing is left to work it out from, before that is
/// warned of: one in ten.
const UNREADABLE_MAX: f64 = 0.10;

/// The figures of all layouts of these cells, in their order.
pub(crate) fn of_cells(target: &dyn Target, cells: &[Measured<'_>]) -> Vec<LayoutFigures> {
    let mut groups: Vec<(LayoutFacts, Vec<&Measured<'_>>)> = Vec::new();
    for measured in cells {
        let Some(facts) = target.layout(measured.spec) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == facts) {
            Some((_, cells)) => cells.push(measured),
            None => groups.push((facts, vec![measured])),
        }
    }
    let named = |index: usize| {
        let (facts, cells) = &groups[index];
        let mut name = facts.name.clone();
        let namesakes = groups.iter().filter(|(other, _)| other.name == facts.name);
        if let Some(first) = cells.first().filter(|_| namesakes.count() > 1) {
            for (factor, level) in &first.spec.factors {
                let its = |cells: &[&Measured<'_>]| {
                    cells.iter().all(|cell| cell.spec.factors.get(factor) == Some(level))
                };
                let elsewhere = groups.iter().all(|(other, cells)| {
                    other.name != facts.name || cells.iter().any(|cell| its(&[cell]))
                });
                if its(cells) && !elsewhere {
                    name += &format!(", {factor}={level}");
                }
            }
        }
        name
    };
    let loads = Loads::of(&groups);
    (0..groups.len())
        .map(|index| figures(named(index), &groups[index].0, &groups[index].1, &loads))
        .collect()
}

fn figures(
    name: String,
    facts: &LayoutFacts,
    cells: &[&Measured<'_>],
    loads: &Loads,
) -> LayoutFigures {
    let mut figures = LayoutFigures {
        name,
        what: facts.what.clone(),
        disks: facts.disks,
        raw_bytes: facts.disk_bytes.saturating_mul(facts.disks),
        usable_bytes: facts.usable_bytes,
        survives_any: if facts.shares_disks { 0 } else { facts.survives_any },
        survives_at_best: if facts.shares_disks { 0 } else { facts.survives_at_best },
        shares_disks: facts.shares_disks,
        price: facts.disk_price.map(|price| price * facts.disks as f64),
        basis: facts.basis.clone(),
        ..LayoutFigures::default()
    };
    if facts.survives_any == 0 && facts.disks > 1 && !facts.shares_disks {
        let lost = match facts.survives_at_best {
            0 => "any lost disk loses the volume",
            _ => "a lost disk may lose the volume",
        };
        figures.warnings.push(lost.to_owned());
    }
    if let (0, Some(share), false) =
        (facts.survives_at_best, facts.failures_a_year, facts.shares_disks)
    {
        // Each loss is the whole volume's.
        let kept =
            (1.0 - share.clamp(0.0, 1.0)).powi(i32::try_from(facts.disks).unwrap_or(i32::MAX));
        figures.data_loss_a_year = Some(1.0 - kept);
    }
    if let Some(rebuild) = facts.rebuild.as_ref().filter(|_| facts.survives_any > 0) {
        rebuild::times(&mut figures, facts, rebuild, cells, loads);
        if !facts.shares_disks {
            risk(&mut figures, facts, rebuild);
        }
    }
    figures
}

/// What may go wrong meanwhile.
fn risk(figures: &mut LayoutFigures, facts: &LayoutFacts, rebuild: &RebuildFacts) {
    let left = facts.survives_any - 1;
    if let Some(rate) = facts.unreadable_per_bit {
        let chance = -(-rate * rebuild.read_bytes as f64 * 8.0).exp_m1();
        figures.unreadable = Some(chance);
        if left == 0 && chance >= UNREADABLE_MAX {
            figures.warnings.push(format!(
                "in {:.0} of 100 rebuilds a sector can't be read, by the disks' data sheet, and nothing is left to \
                 work it out from: that data is lost; with a second redundancy (RAID 6, three copies) it is not",
                100.0 * chance
            ));
        }
    }
    let span = figures.rebuild_loaded_s.or(figures.rebuild_idle_s);
    let (Some(share), Some(span)) = (facts.failures_a_year, span) else { return };
    // An AFR of 1 would be a rate without end.
    let rate = -(1.0 - share.clamp(0.0, 0.999)).ln() / YEAR_S;
    let lost = |mates: u64| -(-(mates as f64) * rate * span).exp_m1();
    figures.second_loss = Some(lost(rebuild.mates));
    let Some(unreadable) = figures.unreadable else { return };
    // Where the set that mends is used up it is the whole that bears the next loss.
    let others = |gone: u64| match rebuild.mates > gone {
        true => rebuild.mates - gone,
        false => facts.disks.saturating_sub(1 + gone),
    };
    let further: f64 = (0..left).map(|gone| lost(others(gone))).product();
    let last = lost(others(left));
    let loss = further * (1.0 - (1.0 - last) * (1.0 - unreadable));
    figures.data_loss = Some(loss);
    figures.data_loss_a_year = Some((facts.disks as f64 * share * loss).min(1.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(disks: u64, survives: u64, disk_bytes: u64) -> LayoutFacts {
        LayoutFacts {
            name: "l".to_owned(),
            what: String::new(),
            disks,
            disk_bytes,
            usable_bytes: (disks - survives) * disk_bytes,
            survives_any: survives,
            survives_at_best: survives,
            shares_disks: false,
            rebuild: Some(RebuildFacts {
                bytes: disk_bytes,
                rate: Some(200e6),
                floor: 16.0 * 1024.0 * 1024.0,
                look: Some(0.01),
                step: 1024.0 * 1024.0,
                mates: disks - 1,
                read_bytes: (disks - survives) * disk_bytes,
                legs: None,
            }),
            failures_a_year: Some(0.0035),
            unreadable_per_bit: Some(1e-15),
            disk_price: Some(300.0),
            basis: String::new(),
        }
    }

    /// Worked by hand: 7 × 20 TB are 1.12 × 10¹⁵ bits, so 1 − e^−1.12 = 67 %; 20 TB at 200 MB/s are 100 000 s.
    #[test]
    fn raid_5_of_20_tb_meets_an_unreadable_sector_in_two_of_three_rebuilds() {
        let made =
            figures("raid5-8".to_owned(), &facts(8, 1, 20_000_000_000_000), &[], &Loads::default());
        assert!((made.unreadable.expect("known") - 0.673_720).abs() < 1e-5, "{made:?}");
        assert_eq!(made.rebuild_idle_s, Some(100_000.0));
        assert_eq!(made.price, Some(2400.0));
        // 7 × 0.350614 % × 100 000 / 31 557 600 = 7.777 × 10⁻⁵.
        assert!((made.second_loss.expect("known") - 7.777e-5).abs() < 1e-8, "{made:?}");
        assert!(made.warnings.iter().any(|warning| warning.starts_with("in 67 of 100 rebuilds")));
    }

    #[test]
    fn a_second_parity_takes_the_warning_away_and_most_of_the_risk() {
        let one =
            figures("raid5-8".to_owned(), &facts(8, 1, 20_000_000_000_000), &[], &Loads::default());
        let two =
            figures("raid6-8".to_owned(), &facts(8, 2, 20_000_000_000_000), &[], &Loads::default());
        assert!(two.warnings.is_empty(), "{:?}", two.warnings);
        let (one, two) = (one.data_loss.expect("known"), two.data_loss.expect("known"));
        assert!(two < one / 1000.0, "{two} against {one}");
    }

    #[test]
    fn without_redundancy_there_is_no_rebuild_and_that_is_said() {
        let made = figures("raid0-4".to_owned(), &facts(4, 0, 1 << 40), &[], &Loads::default());
        assert_eq!((made.rebuild_idle_s, made.second_loss), (None, None));
        assert_eq!(made.warnings, ["any lost disk loses the volume"]);
        // 1 − 0.9965⁴: the worst of all layouts, and no blank.
        assert!((made.data_loss_a_year.expect("known") - 0.013_927).abs() < 1e-6, "{made:?}");
    }
}
