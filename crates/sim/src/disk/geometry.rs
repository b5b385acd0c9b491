//! Where a logical block lies on the platters, and when the head is over it.
//!
//! Theory. The surface is divided into zones, each with its number of sectors on a track. Blocks are numbered along a track,
//! then over the heads of a cylinder, then inward. The start of each track is turned against the last one by the time that a
//! switch of heads (or a step to the next cylinder) takes: the skew, which lets a sequential transfer
//! go on without waiting a revolution.
//!
//! *Unrolled time.* Lay the tracks end to end in the order of their blocks, each one revolution long
//! and followed by its skew. The place of a sector on this line, in nanoseconds, is its unrolled time.
//! Two things follow at once: the media time from sector a to sector b is the difference of their
//! unrolled times, over any number of tracks and zones; and a sector's angle is its unrolled time
//! modulo a revolution. So a transfer costs two look-ups, however long it is. (A skew that is shorter than the switch it is
//! for costs a revolution more: then that revolution is part of it.)
//!
//! **A measured disk** has a [table of zones](crate::profile::ZoneTable): sectors of a track, skews, and
//! [which sectors bear no number](crate::profile). **Of others** the zones are derived: equally many cylinders each; linear
//! density is about the same everywhere, so the sectors of a track, and with them the rate, fall linearly with the radius.
//! Sectors per track follow from the *sustained* rate of the data sheet by the maker's own formula
//! (Hitachi 7K500 specification, 4.4.4): bytes of a cylinder / (heads × revolution + (heads − 1) ×
//! head switch + step to the next cylinder).
//!
//! Not modelled: sectors that were remapped after formatting, adaptive densities per head.

use super::seek::SeekCurve;
use crate::profile::numbers::{Run, numbering};
use crate::profile::{DiskProfile, Numbering, ZoneRow, ZoneTable};
use std::sync::Arc;

/// A zone: where it begins, and how dense it is.
#[derive(Clone, Debug)]
struct Zone {
    first_lba: u64,
    first_cylinder: u64,
    sectors_per_track: u64,
    /// Unrolled time of its first sector.
    base_ns: u64,
    /// A revolution and the skew of a track.
    track_ns: u64,
    /// All tracks of a cylinder and the skew to the next.
    cylinder_ns: u64,
    /// Numbers before the first that is a block's.
    reserved: u64,
    /// Its numbering; none where every sector has its number.
    runs: Arc<[Run]>,
}

/// The place of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Cylinder, counted from the outside.
    pub cylinder: u64,
    /// Head.
    pub head: u64,
    /// Unrolled time of the sector's start. See the [module](self).
    pub unrolled_ns: u64,
}

/// The layout of a disk.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<Zone>,
    cylinders: u64,
    heads: u64,
    revolution_ns: u64,
    numbering: Numbering,
    sectors: u64,
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

impl Layout {
    /// The layout that the figures of a profile imply.
    pub fn new(profile: &DiskProfile) -> Layout {
        let layout = match &profile.zone_table {
            Some(table) => Layout::of_table(profile, &table.value),
            None => Layout::of_rates(profile),
        };
        let after = layout.zones.last().map_or(0, |zone| zone.first_lba);
        assert!(after < layout.sectors, "the last zone holds a block");
        layout
    }

    fn of_rates(profile: &DiskProfile) -> Layout {
        let revolution_ns = ns(60_000.0 / profile.rpm.value);
        let head_switch_ns = ns(profile.head_switch_ms.value);
        let step_ns = ns(profile.track_to_track_ms.value).max(head_switch_ns);
        let heads = profile.heads.value;
        let track_ns = revolution_ns + head_switch_ns;
        let cylinder_ns = heads * revolution_ns + (heads - 1) * head_switch_ns + step_ns;
        let count = profile.zones.value;
        let (outer, inner) = (profile.outer_rate_mb_s.value, profile.inner_rate_mb_s.value);
        let densities: Vec<u64> = (0..count)
            .map(|zone| {
                let inward = zone as f64 / (count - 1).max(1) as f64;
                let rate_mb_s = outer + (inner - outer) * inward;
                let cylinder_bytes = rate_mb_s * 1e6 * cylinder_ns as f64 / 1e9;
                let track_bytes = cylinder_bytes / heads as f64;
                let sectors = (track_bytes / profile.sector_bytes.value as f64).round() as u64;
                sectors.max(1)
            })
            .collect();
        let sectors = profile.sectors.value;
        let sectors_per_radius: u64 = densities.iter().map(|density| density * heads).sum();
        let cylinders_per_zone = sectors.div_ceil(sectors_per_radius);
        let mut first_lba = 0;
        let mut zones = Vec::new();
        for (index, sectors_per_track) in (0..).zip(densities) {
            if first_lba >= sectors {
                break;
            }
            let first_cylinder = index * cylinders_per_zone;
            zones.push(Zone {
                first_lba,
                first_cylinder,
                sectors_per_track,
                base_ns: first_cylinder * cylinder_ns,
                track_ns,
                cylinder_ns,
                reserved: 0,
                runs: Arc::new([]),
            });
            first_lba += cylinders_per_zone * heads * sectors_per_track;
        }
        assert!(first_lba >= sectors, "the zones hold every sector");
        let cylinders = cylinders_per_zone * count;
        let numbering = Numbering::ByCylinder;
        Layout { zones, cylinders, heads, revolution_ns, numbering, sectors }
    }

    fn of_table(profile: &DiskProfile, table: &ZoneTable) -> Layout {
        let cylinders = table.0.last().map_or(0, |zone| zone.last_cylinder) + 1;
        let mut layout = Layout {
            zones: Vec::new(),
            cylinders,
            heads: profile.heads.value,
            revolution_ns: ns(60_000.0 / profile.rpm.value),
            numbering: profile.numbering.as_ref().map_or(Numbering::ByCylinder, |n| n.value),
            sectors: 0,
        };
        let seek = SeekCurve::new(profile, cylinders);
        let mut holds = 0;
        for row in &table.0 {
            let (runs, numbers) = numbering(row, layout.heads, profile.spares());
            if numbers <= row.reserved_sectors {
                continue;
            }
            let base_ns = layout.base_of(row, holds, &seek);
            let zone = layout.zone_of(row, holds, base_ns, &seek, runs.into());
            layout.zones.push(zone);
            holds += numbers - row.reserved_sectors;
            layout.sectors = holds;
        }
        layout.sectors = profile.sectors.value;
        layout.zones.retain(|zone| zone.first_lba < profile.sectors.value);
        assert!(holds >= layout.sectors, "the zones hold every sector");
        layout
    }

    /// The first unrolled time after all before it at which the zone's first sector, which has its angle, can be reached.
    fn base_of(&self, row: &ZoneRow, holds: u64, seek: &SeekCurve) -> u64 {
        let angle = sectors_ns(row.first_sector_at, row.sectors_per_track, self.revolution_ns);
        if holds == 0 {
            return angle;
        }
        let before = self.end(holds);
        let arm = seek.time_ns(row.first_cylinder.abs_diff(before.cylinder), true, false);
        let earliest = before.unrolled_ns + arm;
        earliest + (angle + self.revolution_ns - earliest % self.revolution_ns) % self.revolution_ns
    }

    fn zone_of(
        &self,
        row: &ZoneRow,
        first_lba: u64,
        base_ns: u64,
        seek: &SeekCurve,
        runs: Arc<[Run]>,
    ) -> Zone {
        let skew_ns = |sectors: f64, switch_ns: u64| {
            let mut skew = sectors_ns(sectors, row.sectors_per_track, self.revolution_ns);
            while skew < switch_ns {
                skew += self.revolution_ns;
            }
            skew
        };
        let track_skew = skew_ns(row.track_skew, seek.time_ns(0, true, false));
        let other_head = self.numbering == Numbering::ByCylinder && self.heads > 1;
        let cylinder_skew = skew_ns(row.cylinder_skew, seek.time_ns(1, other_head, false));
        let tracks_ns = self.heads * self.revolution_ns + (self.heads - 1) * track_skew;
        Zone {
            first_lba,
            first_cylinder: row.first_cylinder,
            sectors_per_track: row.sectors_per_track,
            base_ns,
            track_ns: self.revolution_ns + track_skew,
            cylinder_ns: tracks_ns + cylinder_skew,
            reserved: row.reserved_sectors,
            runs,
        }
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Zones.
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// The first block of each zone, from the outside.
    pub fn zone_start(&self, zone: usize) -> u64 {
        self.zones.get(zone).map_or(self.sectors, |zone| zone.first_lba)
    }

    /// The time of a revolution.
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    /// The angle that comes at an unrolled time, in nanoseconds of the revolution.
    pub fn angle_ns(&self, unrolled_ns: u64) -> u64 {
        unrolled_ns % self.revolution_ns
    }

    /// Where the sector of block `lba` starts.
    pub fn locate(&self, lba: u64) -> Place {
        self.locate_with_sector(lba).0
    }

    /// Where the last of the blocks before `end` ends: the head is here after a transfer.
    pub fn end(&self, end: u64) -> Place {
        let (place, sector_ns) = self.locate_with_sector(end - 1);
        Place { unrolled_ns: place.unrolled_ns + sector_ns, ..place }
    }

    /// How long a sector of the track of block `lba` takes to pass.
    pub fn sector_ns(&self, lba: u64) -> u64 {
        self.revolution_ns / self.zone_at(lba).sectors_per_track
    }

    /// The blocks on the track of block `lba`.
    pub fn track(&self, lba: u64) -> std::ops::Range<u64> {
        self.part(lba, 1)
    }

    /// The blocks on the cylinder of block `lba`.
    pub fn cylinder(&self, lba: u64) -> std::ops::Range<u64> {
        self.part(lba, self.heads)
    }

    fn part(&self, lba: u64, tracks: u64) -> std::ops::Range<u64> {
        let zone = self.zone_at(lba);
        let len = tracks * zone.sectors_per_track;
        let first = zone.sector_of(lba) / len * len;
        zone.first_at(first)..zone.first_at(first + len).min(self.zone_end(lba))
    }

    fn zone_end(&self, lba: u64) -> u64 {
        let index = self.zones.partition_point(|zone| zone.first_lba <= lba);
        self.zone_start(index).min(self.sectors)
    }

    fn zone_at(&self, lba: u64) -> &Zone {
        debug_assert!(lba < self.sectors);
        &self.zones[self.zones.partition_point(|zone| zone.first_lba <= lba) - 1]
    }

    fn locate_with_sector(&self, lba: u64) -> (Place, u64) {
        let zone = self.zone_at(lba);
        let (within, turned) = zone.place_of(lba);
        let spt = zone.sectors_per_track;
        let (track, sector) = (within / spt, within % spt);
        let (cylinder, nth) = (track / self.heads, track % self.heads);
        let unrolled_ns = zone.base_ns
            + cylinder * zone.cylinder_ns
            + nth * zone.track_ns
            + (sector + turned) * self.revolution_ns / spt;
        let backwards = match self.numbering {
            Numbering::ByCylinder => false,
            Numbering::Serpentine => cylinder % 2 == 1,
            Numbering::SerpentineThroughout => (zone.first_cylinder + cylinder) % 2 == 1,
        };
        let head = if backwards { self.heads - 1 - nth } else { nth };
        let cylinder = zone.first_cylinder + cylinder;
        (Place { cylinder, head, unrolled_ns }, self.revolution_ns / spt)
    }

    /// How far a transfer has come at this unrolled time: the first block that has not passed whole.
    pub fn reached(&self, unrolled_ns: u64) -> u64 {
        let index = self.zones.partition_point(|zone| zone.base_ns <= unrolled_ns);
        let Some(zone) = index.checked_sub(1).and_then(|index| self.zones.get(index)) else {
            return 0;
        };
        if !zone.runs.is_empty() {
            return self.reached_by_search(index, unrolled_ns);
        }
        let rest = unrolled_ns - zone.base_ns;
        let (cylinder, rest) = (rest / zone.cylinder_ns, rest % zone.cylinder_ns);
        let head = (rest / zone.track_ns).min(self.heads - 1);
        let rest = rest - head * zone.track_ns;
        let spt = zone.sectors_per_track;
        let sector = (rest * spt / self.revolution_ns).min(spt);
        let within = (cylinder * self.heads + head) * spt + sector;
        (zone.first_lba + within).min(self.zone_start(index)).min(self.sectors)
    }

    fn reached_by_search(&self, next_zone: usize, unrolled_ns: u64) -> u64 {
        let mut from = self.zones[next_zone - 1].first_lba;
        let mut to = self.zone_start(next_zone).min(self.sectors);
        while from < to {
            let middle = from + (to - from) / 2;
            if self.end(middle + 1).unrolled_ns <= unrolled_ns {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

fn sectors_ns(sectors: f64, sectors_per_track: u64, revolution_ns: u64) -> u64 {
    (sectors / sectors_per_track as f64 * revolution_ns as f64).round() as u64
}

impl Zone {
    /// Where in the zone's row of sectors a block lies, and by how many sectors its track is turned on.
    fn place_of(&self, lba: u64) -> (u64, u64) {
        let number = lba - self.first_lba + self.reserved;
        if self.runs.is_empty() {
            return (number, 0);
        }
        let run = self.runs[self.runs.partition_point(|run| run.number <= number) - 1];
        (run.sector + (number - run.number), run.turned)
    }

    fn sector_of(&self, lba: u64) -> u64 {
        self.place_of(lba).0
    }

    /// The first block at or behind this place of the row.
    fn first_at(&self, sector: u64) -> u64 {
        let number = match self.runs.partition_point(|run| run.sector <= sector) {
            _ if self.runs.is_empty() => sector,
            0 => 0,
            after => {
                let run = self.runs[after - 1];
                let next = self.runs.get(after).map_or(u64::MAX, |next| next.number);
                (run.number + (sector - run.sector)).min(next)
            }
        };
        self.first_lba + number.saturating_sub(self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::{disk_profile, disk_profiles};
    use crate::profile::{Given, Origin, Sparing};

    /// Two zones with a gap, a slip, reserved sectors and spares.
    fn measured() -> DiskProfile {
        let mut profile = disk_profile("st3750640as");
        let text = "[{ first_cylinder = 0, last_cylinder = 9999, sectors_per_track = 100, reserved_sectors = 50, \
                     track_skew = 20, cylinder_skew = 40, spares = 3, slips = [120, 7000] }, \
                    { first_cylinder = 10001, last_cylinder = 19999, sectors_per_track = 80, first_sector_at = 8, \
                     track_skew = 16, cylinder_skew = 32, spares = 3 }]";
        let table: toml::Table = toml::from_str(&format!("value = {text}")).expect("sound");
        let origin = Origin::Guessed("a test".to_owned());
        let rows = table["value"].clone().try_into().expect("zones");
        profile.heads.value = 4;
        profile.rpm.value = 6000.0;
        profile.zone_table = Some(Given::of(rows, origin.clone()));
        profile.sparing = Some(Given::of(Sparing::ZoneEnd, origin));
        profile.sectors.value = 10_000 * 400 - 53 + 9_999 * 320 - 3;
        profile
    }

    #[test]
    fn a_table_of_zones_puts_each_block_where_the_drive_has_it() {
        let layout = Layout::new(&measured());
        assert_eq!(layout.zones(), 2);
        let at = |lba| {
            let place = layout.locate(lba);
            (place.cylinder, place.head, place.unrolled_ns)
        };
        // Reserved are 50 sectors; a sector takes 100 µs; the second track begins 20 sectors later.
        assert_eq!(at(0), (0, 0, 5_000_000));
        assert_eq!(at(50), (0, 1, 12_000_000));
        assert_eq!(at(70), (0, 1, 14_100_000), "sector 120 of the zone is passed over");
        assert_eq!(at(349), (1, 0, 4 * 10_000_000 + 3 * 2_000_000 + 4_000_000));
        let second = 10_000 * 400 - 53;
        assert_eq!(layout.zone_start(1), second);
        let (cylinder, head, unrolled) = at(second);
        assert_eq!(
            (cylinder, head, unrolled % 10_000_000),
            (10_001, 0, 1_000_000),
            "8 of 80 sectors"
        );
        assert!(unrolled > layout.end(second).unrolled_ns);
        assert_eq!((layout.track(0), layout.track(60)), (0..50, 50..149));
        assert_eq!(layout.cylinder(60), 0..349);
        assert_eq!(layout.track(second + 5), second..second + 80);
        assert_eq!(layout.track(second - 1).end, second);
        for lba in (0..layout.sectors()).step_by(10_007) {
            assert_eq!(layout.reached(layout.locate(lba).unrolled_ns + 10), lba);
        }
    }

    #[test]
    fn a_skew_too_short_for_the_switch_costs_a_revolution() {
        let mut profile = measured();
        let span = |profile: &DiskProfile| {
            let layout = Layout::new(profile);
            layout.locate(50).unrolled_ns - layout.end(50).unrolled_ns
        };
        assert_eq!(span(&profile), 2_000_000);
        profile.head_switch_ms.value = 2.5;
        assert_eq!(span(&profile), 12_000_000);
    }

    #[test]
    fn serpentine_numbering_steps_to_the_next_cylinder_on_the_same_head() {
        let mut profile = measured();
        let origin = Origin::Guessed("a test".to_owned());
        profile.numbering = Some(Given::of(Numbering::Serpentine, origin));
        let layout = Layout::new(&profile);
        assert_eq!((layout.locate(348).head, layout.locate(349).head), (3, 3));
        assert_eq!(layout.locate(348 + 400).head, 0);
    }

    #[test]
    fn places_rise_with_block_numbers_and_can_be_found_again() {
        let layout = Layout::new(&disk_profile("st3750640as"));
        let mut last = 0;
        for i in 0..10_000 {
            let lba = i * (layout.sectors() / 10_000);
            let place = layout.locate(lba);
            assert!(i == 0 || place.unrolled_ns > last);
            assert!(place.cylinder < layout.cylinders());
            last = place.unrolled_ns;
            // A few nanoseconds later the sector before has passed, and this one has not.
            assert_eq!(layout.reached(place.unrolled_ns + 10), lba);
        }
    }

    /// The sheet's rates are what buyers go by; the layout must give them back.
    #[test]
    fn the_outer_and_the_inner_zone_run_at_the_rates_of_the_sheet() {
        for profile in disk_profiles() {
            let layout = Layout::new(&profile);
            let rate = |from: u64, sectors: u64| {
                let ns = layout.end(from + sectors).unrolled_ns - layout.locate(from).unrolled_ns;
                (sectors * profile.sector_bytes.value) as f64 * 1e3 / ns as f64
            };
            let span = 1 << 19;
            for (measured, sheet) in [
                (rate(0, span), profile.outer_rate_mb_s.value),
                (rate(layout.sectors() - span, span), profile.inner_rate_mb_s.value),
            ] {
                assert!((measured / sheet - 1.0).abs() < 0.05, "{}: {measured}", profile.name);
            }
        }
    }
}
