//! Tables that a disk's profile may hold where the disk was measured: how long the arm takes for which distance, and what
//! lies where. A data sheet has neither; then both are derived from its few numbers.
//!
//! ```toml
//! seek_table = { value = [[1, 0.831], [2, 1.003], [6961, 10.627]], source = "timed on the drive" }
//! zone_table = { value = [
//!     { first_cylinder = 0, last_cylinder = 846, sectors_per_track = 254, track_skew = 97, cylinder_skew = 133 },
//! ], source = "the drive's own translation of addresses" }
//! sparing = { value = "zone-end", source = "the same" }
//! ```

use super::given::Flaw;
use serde::Deserialize;
use std::fmt;

/// Times of seeks: cylinders apart, and ms, in rising order of cylinders. Between two points the time is taken to be on a
/// straight line.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct SeekTable(pub Vec<(u64, f64)>);

impl fmt::Display for SeekTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} points", self.0.len())
    }
}

impl SeekTable {
    pub(crate) fn check(&self, key: &'static str) -> Result<(), Flaw> {
        let points = &self.0;
        let mend = "write [cylinders, ms] in rising order of cylinders, from 1 on";
        Flaw::unless(points.first().is_some_and(|(cylinders, _)| *cylinders >= 1), key, mend)?;
        Flaw::unless(points.is_sorted_by(|a, b| a.0 < b.0), key, mend)?;
        let sane = points.iter().all(|(_, ms)| (0.0..=1e4).contains(ms));
        Flaw::unless(sane, key, "write times from 0 to 10 000 ms")
    }

    /// The time of a seek over so many cylinders, ms; nothing for none.
    pub fn ms(&self, cylinders: u64) -> f64 {
        let points = &self.0;
        if cylinders == 0 || points.is_empty() {
            return 0.0;
        }
        let after = points.partition_point(|(at, _)| *at < cylinders);
        if points.get(after).is_some_and(|(at, _)| *at == cylinders) || points.len() == 1 {
            return points[after.min(points.len() - 1)].1;
        }
        if after == 0 {
            return points[0].1;
        }
        // Beyond the last point the last line goes on.
        let after = after.min(points.len() - 1);
        let ((from, from_ms), (to, to_ms)) = (points[after - 1], points[after]);
        let share = (cylinders as f64 - from as f64) / (to as f64 - from as f64);
        (from_ms + share * (to_ms - from_ms)).max(0.0)
    }
}

/// What lies where, zone by zone from the outside.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct ZoneTable(pub Vec<ZoneRow>);

/// A zone: cylinders with equally many sectors on each track.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneRow {
    /// Its first cylinder.
    pub first_cylinder: u64,
    /// Its last cylinder.
    pub last_cylinder: u64,
    /// Sectors of a track, whether numbered or not.
    pub sectors_per_track: u64,
    /// The angle of its first sector, in sectors.
    #[serde(default)]
    pub first_sector_at: f64,
    /// Sectors at its front that bear no number.
    #[serde(default)]
    pub reserved_sectors: u64,
    /// Sectors by which a track is turned against the one before it in the cylinder.
    #[serde(default)]
    pub track_skew: f64,
    /// Sectors by which a cylinder's first track is turned against the last one of the cylinder before.
    #[serde(default)]
    pub cylinder_skew: f64,
    /// Spares: tracks or sectors for each part of the zone that [`Sparing`] says.
    #[serde(default)]
    pub spares: u64,
    /// Bad places that numbering passes over: sectors (or tracks, with [`Sparing::Tracks`]), counted from the zone's start.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// Bad places and those that were put in their stead. Read, and not modelled: a sector is taken to lie where it did.
    #[serde(default)]
    pub remapped: Vec<(u64, u64)>,
}

impl ZoneRow {
    /// Cylinders.
    pub fn cylinders(&self) -> u64 {
        self.last_cylinder + 1 - self.first_cylinder
    }
}

impl fmt::Display for ZoneTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} zones", self.0.len())
    }
}

impl ZoneTable {
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        let (zones, key) = (&self.0, "zone_table");
        Flaw::unless((1..=1024).contains(&zones.len()), key, "write 1 to 1024 zones")?;
        for zone in zones {
            let ordered = zone.first_cylinder <= zone.last_cylinder;
            Flaw::unless(ordered, key, "a zone's last cylinder must not lie before its first")?;
            let cylinders = zone.last_cylinder < 1 << 24;
            Flaw::unless(cylinders, key, "write cylinders below 2^24")?;
            let dense = (1..=1 << 20).contains(&zone.sectors_per_track);
            Flaw::unless(dense, key, "write 1 to 2^20 sectors_per_track")?;
            let skews = [zone.first_sector_at, zone.track_skew, zone.cylinder_skew];
            let whole = zone.sectors_per_track as f64;
            let sane = skews.iter().all(|skew| (0.0..=whole).contains(skew));
            Flaw::unless(sane, key, "a skew must be from 0 to a whole track")?;
        }
        let rising = zones.is_sorted_by(|a, b| a.last_cylinder < b.first_cylinder);
        Flaw::unless(rising, key, "write zones in the order of their cylinders, none twice")
    }
}

/// In which order the tracks of a cylinder are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbering {
    /// In each cylinder from the first head to the last.
    #[default]
    ByCylinder,
    /// To and fro, so that a step to the next cylinder needs no switch of heads; each zone begins anew.
    Serpentine,
    /// Likewise, without a new beginning: odd cylinders run backwards.
    SerpentineThroughout,
}

impl fmt::Display for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Numbering::ByCylinder => "by-cylinder",
            Numbering::Serpentine => "serpentine",
            Numbering::SerpentineThroughout => "serpentine-throughout",
        })
    }
}

/// Where a disk keeps its spare places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sparing {
    /// None.
    #[default]
    None,
    /// Whole tracks at the end of a zone.
    Tracks,
    /// Sectors at the end of each cylinder.
    CylinderEnd,
    /// Sectors at the end of each track.
    TrackEnd,
    /// Sectors at the end of each cylinder; those passed over push everything behind them on.
    CylinderEndPushing,
    /// Sectors at the front of each cylinder.
    CylinderFront,
    /// Sectors at the front of each cylinder; those passed over push everything behind them on.
    CylinderFrontPushing,
    /// Sectors at the end of the disk.
    DiskEnd,
    /// Sectors at the end of each range of cylinders.
    RangeEnd,
    /// Sectors at the end of each zone.
    ZoneEnd,
    /// Sectors at the end of each zone; those passed over push everything behind them on.
    ZoneEndPushing,
}

impl Sparing {
    /// All, each at the number that DiskSim has for it.
    pub const ALL: [Sparing; 11] = [
        Sparing::None,
        Sparing::Tracks,
        Sparing::CylinderEnd,
        Sparing::TrackEnd,
        Sparing::CylinderEndPushing,
        Sparing::CylinderFront,
        Sparing::CylinderFrontPushing,
        Sparing::DiskEnd,
        Sparing::RangeEnd,
        Sparing::ZoneEnd,
        Sparing::ZoneEndPushing,
    ];
}

impl fmt::Display for Sparing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sparing::None => "none",
            Sparing::Tracks => "tracks",
            Sparing::CylinderEnd => "cylinder-end",
            Sparing::TrackEnd => "track-end",
            Sparing::CylinderEndPushing => "cylinder-end-pushing",
            Sparing::CylinderFront => "cylinder-front",
            Sparing::CylinderFrontPushing => "cylinder-front-pushing",
            Sparing::DiskEnd => "disk-end",
            Sparing::RangeEnd => "range-end",
            Sparing::ZoneEnd => "zone-end",
            Sparing::ZoneEndPushing => "zone-end-pushing",
        })
    }
}

/// How far reading ahead goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadUntil {
    /// Nowhere: there is none.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// As far as `read_ahead_kb` says.
    #[default]
    Limit,
    /// To the end of the track, and of the next one where the stream comes from the track before.
    NextTrack,
}

impl fmt::Display for ReadAheadUntil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadAheadUntil::None => "none",
            ReadAheadUntil::Track => "track",
            ReadAheadUntil::Cylinder => "cylinder",
            ReadAheadUntil::Limit => "limit",
            ReadAheadUntil::NextTrack => "next-track",
        })
    }
}

/// In which order a disk writes its buffer back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackOrder {
    /// Of the pieces nearest to the head the one that is soonest under it.
    #[default]
    Nearest,
    /// In sweeps over the disk, by block number.
    Sweep,
}

impl fmt::Display for WriteBackOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteBackOrder::Nearest => "nearest",
            WriteBackOrder::Sweep => "sweep",
        })
    }
}

/// Times of reading a page of flash, one for each kind of page that a cell holds, µs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct PageTimes(pub Vec<f64>);

impl fmt::Display for PageTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times: Vec<String> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&times.join(" / "))
    }
}

impl PageTimes {
    pub(crate) fn check(&self, key: &'static str) -> Result<(), Flaw> {
        let sane =
            (1..=16).contains(&self.0.len()) && self.0.iter().all(|us| (0.1..1e6).contains(us));
        Flaw::unless(sane, key, "write 1 to 16 times from 0.1 to 1 000 000 us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_points_a_seek_lies_on_the_line_and_beyond_them_the_line_goes_on() {
        let table = SeekTable(vec![(1, 1.0), (3, 2.0), (13, 7.0)]);
        for (cylinders, ms) in
            [(0, 0.0), (1, 1.0), (2, 1.5), (3, 2.0), (8, 4.5), (13, 7.0), (15, 8.0)]
        {
            assert!((table.ms(cylinders) - ms).abs() < 1e-12, "{cylinders}");
        }
        assert!((SeekTable(vec![(1, 1.0)]).ms(9) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn tables_that_make_no_disk_are_refused() {
        assert!(SeekTable(vec![]).check("seek_table").is_err());
        assert!(SeekTable(vec![(2, 1.0), (2, 1.0)]).check("seek_table").is_err());
        let zone = |first, last| ZoneRow {
            first_cylinder: first,
            last_cylinder: last,
            sectors_per_track: 100,
            ..ZoneRow::default()
        };
        assert!(ZoneTable(vec![zone(0, 9), zone(11, 19)]).check().is_ok());
        assert!(ZoneTable(vec![zone(0, 9), zone(9, 19)]).check().is_err());
        assert!(ZoneTable(vec![]).check().is_err());
        assert!(ZoneTable(vec![ZoneRow { track_skew: -1.0, ..zone(0, 9) }]).check().is_err());
    }
}
