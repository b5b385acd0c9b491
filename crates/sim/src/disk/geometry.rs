//! Where a logical block lies on the platters, and when the head is over it.
//!
//! Theory. The surface is divided into zones of equally many cylinders. Linear density is about the
//! same everywhere, so the sectors of a track, and with them the rate, fall linearly with the radius
//! from the outermost zone to the innermost. Blocks are numbered along a track, then over the heads of
//! a cylinder, then inward. The start of each track is turned against the last one by the time that a
//! switch of heads (or a step to the next cylinder) takes: the skew, which lets a sequential transfer
//! go on without waiting a revolution.
//!
//! *Unrolled time.* Lay the tracks end to end in the order of their blocks, each one revolution long
//! and followed by its skew. The place of a sector on this line, in nanoseconds, is its unrolled time.
//! Two things follow at once: the media time from sector a to sector b is the difference of their
//! unrolled times, over any number of tracks and zones; and a sector's angle is its unrolled time
//! modulo a revolution. So a transfer costs two look-ups, however long it is.
//!
//! Sectors per track follow from the *sustained* rate of the data sheet by the maker's own formula
//! (Hitachi 7K500 specification, 4.4.4): bytes of a cylinder / (heads × revolution + (heads − 1) ×
//! head switch + step to the next cylinder).
//!
//! Not modelled: spare sectors and defects, serpentine numbering, adaptive densities per head.

use crate::profile::DiskProfile;

/// A zone: where it begins, and how dense it is.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_lba: u64,
    sectors_per_track: u64,
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
    cylinders_per_zone: u64,
    heads: u64,
    revolution_ns: u64,
    /// A revolution and a head switch.
    track_ns: u64,
    /// All tracks of a cylinder and the step to the next.
    cylinder_ns: u64,
    sectors: u64,
}

impl Layout {
    /// The layout that the figures of a profile imply.
    pub fn new(profile: &DiskProfile) -> Layout {
        let ns = |ms: f64| (ms * 1e6).round() as u64;
        let revolution_ns = ns(60_000.0 / profile.rpm.value);
        let head_switch_ns = ns(profile.head_switch_ms.value);
        let step_ns = ns(profile.track_to_track_ms.value).max(head_switch_ns);
        let heads = profile.heads.value;
        let track_ns = revolution_ns + head_switch_ns;
        let cylinder_ns = heads * revolution_ns + (heads - 1) * head_switch_ns + step_ns;
        let count = profile.zones.value;
        let (outer, inner) = (profile.outer_rate_mb_s.value, profile.inner_rate_mb_s.value);
        let mut zones: Vec<Zone> = (0..count)
            .map(|zone| {
                let inward = zone as f64 / (count - 1).max(1) as f64;
                let rate_mb_s = outer + (inner - outer) * inward;
                let cylinder_bytes = rate_mb_s * 1e6 * cylinder_ns as f64 / 1e9;
                let track_bytes = cylinder_bytes / heads as f64;
                let sectors = (track_bytes / profile.sector_bytes.value as f64).round() as u64;
                Zone { first_lba: 0, sectors_per_track: sectors.max(1) }
            })
            .collect();
        let sectors = profile.sectors.value;
        let sectors_per_radius: u64 = zones.iter().map(|zone| zone.sectors_per_track * heads).sum();
        let cylinders_per_zone = sectors.div_ceil(sectors_per_radius);
        let mut first_lba = 0;
        for zone in &mut zones {
            zone.first_lba = first_lba;
            first_lba += cylinders_per_zone * heads * zone.sectors_per_track;
        }
        assert!(first_lba >= sectors, "the zones hold every sector");
        Layout { zones, cylinders_per_zone, heads, revolution_ns, track_ns, cylinder_ns, sectors }
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u64 {
        self.cylinders_per_zone * self.zones.len() as u64
    }

    /// Zones.
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// The first block of each zone, from the outside.
    pub fn zone_start(&self, zone: usize) -> u64 {
        self.zones[zone].first_lba.min(self.sectors)
    }

    /// The time of a revolution.
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
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

    fn locate_with_sector(&self, lba: u64) -> (Place, u64) {
        debug_assert!(lba < self.sectors);
        let index = self.zones.partition_point(|zone| zone.first_lba <= lba) - 1;
        let Zone { first_lba, sectors_per_track } = self.zones[index];
        let within = lba - first_lba;
        let (track, sector) = (within / sectors_per_track, within % sectors_per_track);
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let cylinder = cylinder + index as u64 * self.cylinders_per_zone;
        let unrolled_ns = cylinder * self.cylinder_ns
            + head * self.track_ns
            + sector * self.revolution_ns / sectors_per_track;
        (Place { cylinder, head, unrolled_ns }, self.revolution_ns / sectors_per_track)
    }

    /// How far a transfer has come at this unrolled time: the first block that has not passed whole.
    pub fn reached(&self, unrolled_ns: u64) -> u64 {
        let cylinder = unrolled_ns / self.cylinder_ns;
        let index = (cylinder / self.cylinders_per_zone) as usize;
        let Some(zone) = self.zones.get(index) else { return self.sectors };
        let rest = unrolled_ns % self.cylinder_ns;
        let head = (rest / self.track_ns).min(self.heads - 1);
        let rest = rest - head * self.track_ns;
        let spt = zone.sectors_per_track;
        let sector = (rest * spt / self.revolution_ns).min(spt);
        let cylinder = cylinder - index as u64 * self.cylinders_per_zone;
        (zone.first_lba + (cylinder * self.heads + head) * spt + sector).min(self.sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::{disk_profile, disk_profiles};

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
