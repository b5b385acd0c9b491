//! Which sector of a zone bears which number.
//!
//! Theory. A zone is a row of sectors: track by track, cylinder by cylinder. Numbers are given along the row, but for what is
//! reserved, spare or bad. A bad sector that was known when the disk was formatted is passed over (*slipped*): the numbers
//! behind it move on by one, up to the next spare, or, where the scheme has them *push*, through the whole zone. So the
//! numbering is a list of [`Run`]s of numbers that lie side by side, and both directions are a search in it.

use super::tables::{Sparing, ZoneRow};

/// Where a disk has its spares, and how many cylinders share them where that is a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spares {
    /// Where.
    pub place: Sparing,
    /// Cylinders of a range.
    pub range_cylinders: u64,
}

/// Numbers that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first number, counted from the zone's first, reserved ones included.
    pub(crate) number: u64,
    /// Where it lies in the zone's row of sectors.
    pub(crate) sector: u64,
    /// Sectors by which slips before it have turned its track on.
    pub(crate) turned: u64,
}

/// A part of a zone that has spares of its own.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u64,
    end: u64,
    spares: u64,
}

/// Sectors of a zone that bear a number.
pub(crate) fn sectors_in(zone: &ZoneRow, heads: u64, spares: Spares) -> u64 {
    numbering(zone, heads, spares).1.saturating_sub(zone.reserved_sectors)
}

/// The numbering of a zone: its runs, and how many numbers there are, reserved ones included.
pub(crate) fn numbering(zone: &ZoneRow, heads: u64, spares: Spares) -> (Vec<Run>, u64) {
    let slips = slips(zone, heads, spares.place);
    let turns = matches!(
        spares.place,
        Sparing::CylinderEnd
            | Sparing::CylinderEndPushing
            | Sparing::CylinderFront
            | Sparing::CylinderFrontPushing
            | Sparing::TrackEnd
    );
    let mut runs: Vec<Run> = Vec::new();
    let (mut number, mut passed) = (0, 0);
    for part in parts(zone, heads, spares) {
        let turned = if turns { passed as u64 } else { 0 };
        let bad = slips[passed..].iter().take_while(|at| **at < part.end).count();
        let bad_here = &slips[passed..passed + bad];
        passed += bad;
        let good = part.end - part.first - bad as u64;
        let wanted = match pushes(spares.place) {
            true => good.saturating_sub(part.spares),
            false => (part.end - part.first).saturating_sub(part.spares).min(good),
        };
        let at_front =
            matches!(spares.place, Sparing::CylinderFront | Sparing::CylinderFrontPushing);
        let mut skipped = if at_front { good - wanted } else { 0 };
        let mut left = wanted;
        let mut at = part.first;
        for stop in bad_here.iter().copied().chain([part.end]) {
            let idle = skipped.min(stop - at);
            skipped -= idle;
            let first = at + idle;
            let count = left.min(stop - first);
            if count > 0 {
                let goes_on = runs.last().is_some_and(|run| {
                    run.sector + (number - run.number) == first && run.turned == turned
                });
                if !goes_on {
                    runs.push(Run { number, sector: first, turned });
                }
                number += count;
                left -= count;
            }
            at = stop + 1;
        }
    }
    (runs, number)
}

fn pushes(place: Sparing) -> bool {
    matches!(
        place,
        Sparing::CylinderEndPushing
            | Sparing::CylinderFrontPushing
            | Sparing::DiskEnd
            | Sparing::ZoneEndPushing
    )
}

fn sectors_of_zone(zone: &ZoneRow, heads: u64) -> u64 {
    zone.cylinders() * heads * zone.sectors_per_track
}

/// The bad sectors that are passed over, in order; each once.
fn slips(zone: &ZoneRow, heads: u64, place: Sparing) -> Vec<u64> {
    let mut slips: Vec<u64> = match place {
        Sparing::None => Vec::new(),
        Sparing::Tracks => {
            let track = |at: &u64| *at * zone.sectors_per_track..(*at + 1) * zone.sectors_per_track;
            zone.slips.iter().flat_map(track).collect()
        }
        _ => zone.slips.clone(),
    };
    slips.retain(|at| *at < sectors_of_zone(zone, heads));
    slips.sort_unstable();
    slips.dedup();
    slips
}

fn parts(zone: &ZoneRow, heads: u64, spares: Spares) -> impl Iterator<Item = Part> {
    let track = zone.sectors_per_track;
    let cylinder = heads * track;
    let all = sectors_of_zone(zone, heads);
    let (len, each) = match spares.place {
        Sparing::None => (all, 0),
        Sparing::Tracks => (all, zone.spares * track),
        Sparing::TrackEnd => (track, zone.spares),
        Sparing::CylinderEnd
        | Sparing::CylinderEndPushing
        | Sparing::CylinderFront
        | Sparing::CylinderFrontPushing => (cylinder, zone.spares),
        Sparing::DiskEnd => (all, 0),
        Sparing::RangeEnd => (cylinder * spares.range_cylinders, zone.spares),
        Sparing::ZoneEnd | Sparing::ZoneEndPushing => (all, zone.spares),
    };
    (0..all.div_ceil(len)).map(move |index| {
        let (first, end) = (index * len, ((index + 1) * len).min(all));
        // A range that the zone cuts off has none.
        Part { first, end, spares: if end - first == len { each } else { 0 } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three cylinders of two tracks of ten sectors, a spare for each part.
    fn zone(slips: &[u64]) -> ZoneRow {
        ZoneRow {
            last_cylinder: 2,
            sectors_per_track: 10,
            spares: 1,
            slips: slips.to_vec(),
            ..ZoneRow::default()
        }
    }

    /// Where each number lies.
    fn places(zone: &ZoneRow, spares: Spares) -> Vec<u64> {
        let (runs, count) = numbering(zone, 2, spares);
        let place = |number: u64| {
            let run = runs[runs.partition_point(|run| run.number <= number) - 1];
            run.sector + (number - run.number)
        };
        assert_eq!(sectors_in(zone, 2, spares), count.saturating_sub(zone.reserved_sectors));
        (0..count).map(place).collect()
    }

    fn spares(place: Sparing) -> Spares {
        Spares { place, range_cylinders: 2 }
    }

    #[test]
    fn a_slip_moves_numbers_up_to_the_next_spare_or_through_the_zone() {
        let zone = zone(&[3]);
        let of = |place| places(&zone, spares(place));
        let cylinders = of(Sparing::CylinderEnd);
        assert_eq!(cylinders[2..5], [2, 4, 5]);
        assert_eq!(cylinders[18..20], [19, 20], "the spare of the first cylinder is used up");
        assert_eq!(cylinders.last(), Some(&58), "that of the last is not");
        assert_eq!(of(Sparing::CylinderEndPushing)[17..19], [18, 20], "the spare is left alone");
        assert_eq!(of(Sparing::TrackEnd)[8..10], [9, 10]);
        assert_eq!(of(Sparing::CylinderFront)[..3], [0, 1, 2], "the spare stands in for the slip");
        assert_eq!(of(Sparing::CylinderFront)[19..21], [21, 22]);
        assert_eq!(of(Sparing::DiskEnd).last(), Some(&59));
        assert_eq!(of(Sparing::RangeEnd)[38..40], [39, 40], "the last cylinder is no whole range");
        assert_eq!(of(Sparing::RangeEnd).last(), Some(&59));
        assert_eq!(of(Sparing::ZoneEnd).last(), Some(&59));
        assert_eq!(of(Sparing::ZoneEndPushing).last(), Some(&58));
        let tracks = places(&super::tests::zone(&[1]), spares(Sparing::Tracks));
        assert_eq!(tracks[9..11], [9, 20]);
        assert_eq!(tracks.len(), 50);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// If a number were given twice or a bad sector had one, two blocks would lie in one place.
        #[test]
        fn each_number_has_a_good_sector_of_its_own_in_order(
            place in prop::sample::select(&Sparing::ALL[..]),
            slips in prop::collection::vec(0_u64..60, 0..2),
            reserved in 0_u64..15,
        ) {
            let zone = ZoneRow { reserved_sectors: reserved, ..zone(&slips) };
            let bad = super::slips(&zone, 2, place);
            let places = places(&zone, spares(place));
            prop_assert!(places.is_sorted_by(|a, b| a < b));
            prop_assert!(places.iter().all(|at| *at < 60 && !bad.contains(at)));
        }
    }
}
