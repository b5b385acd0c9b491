//! What a flash translation layer costs: how many bytes a drive writes for each byte of the host.
//!
//! Theory. Flash is erased in blocks far larger than what a host writes, so a drive writes elsewhere
//! and collects what is still valid from old blocks. On an empty drive that costs nothing. Once the
//! spare blocks are used up, each block that is reclaimed has to be copied as far as it is valid. With
//! random writes over the whole drive and the emptiest block reclaimed first, the write amplification
//! is about
//!
//! > (1 + ρ) / 2ρ,  ρ = (physical − valid) / valid
//!
//! (Agarwal and Marrow, "A closed-form expression for write amplification in NAND flash", IEEE GLOBECOM
//! Workshops 2010). Data that was written sequentially dies together, block by block, and costs 1. In
//! between, the drive is taken as a mixture: a share F of what it holds was last written at random.
//!
//! So the state is: which mapping units hold data (a bit each, allocated where touched), how far each
//! MiB was scattered by random writes, and how much of the flash is still fresh. That is what makes a
//! drive of terabytes cheap: a real page map with a real collector would have to be filled twice over
//! before it told anything about the steady state.
//!
//! A write is sequential when it goes on where one of the last few streams ended, or is a whole MiB.
//!
//! Not modelled: SLC buffers, wear, collection while idle, hot and cold data kept apart.

use crate::profile::{SheetState, SsdProfile};
use std::ops::Range;
use stdx::{GIB, MIB};

/// Streams that are followed; more than a host usually has per drive.
const STREAMS_MAX: usize = 16;
/// Share of the flash that is kept free for the collector to work with.
const RESERVE_SHARE: f64 = 0.005;

/// The state of the translation layer. See the [module](self).
#[derive(Debug)]
pub struct Ftl {
    unit_bytes: u64,
    units: u64,
    physical_bytes: f64,
    fresh_bytes: f64,
    mapped: u64,
    /// Sum over all units that hold data of how scattered their MiB is.
    scattered: f64,
    regions: Vec<Option<Box<Region>>>,
    /// What holds for a region that was never touched.
    untouched: Part,
    streams: [u64; STREAMS_MAX],
    next_stream: usize,
}

/// A GiB.
#[derive(Debug)]
struct Region {
    mapped: Box<[u64]>,
    parts: Box<[Part]>,
}

/// A MiB: units that hold data, and how scattered it is, 0 to 1.
#[derive(Clone, Copy, Debug)]
struct Part {
    mapped: u32,
    scattered: f32,
}

impl Ftl {
    /// A translation layer, empty, or written over at random until nothing changes any more.
    pub fn new(profile: &SsdProfile, state: SheetState) -> Ftl {
        let unit_bytes = profile.mapping_bytes.value;
        let bytes = profile.sectors.value * profile.sector_bytes.value;
        let units = bytes / unit_bytes;
        let spare = profile.over_provisioning_percent.value / 100.0;
        let physical_bytes = bytes as f64 * (1.0 + spare);
        let full = state == SheetState::Steady;
        let per_part = (MIB / unit_bytes) as u32;
        Ftl {
            unit_bytes,
            units,
            physical_bytes,
            fresh_bytes: if full { 0.0 } else { physical_bytes },
            mapped: if full { units } else { 0 },
            scattered: if full { units as f64 } else { 0.0 },
            regions: (0..bytes.div_ceil(GIB)).map(|_| None).collect(),
            untouched: Part {
                mapped: if full { per_part } else { 0 },
                scattered: if full { 1.0 } else { 0.0 },
            },
            streams: [u64::MAX; STREAMS_MAX],
            next_stream: 0,
        }
    }

    /// Bytes written to flash for each byte of the host, at this moment.
    pub fn write_amplification(&self) -> f64 {
        if self.fresh_bytes > self.physical_bytes * RESERVE_SHARE || self.mapped == 0 {
            return 1.0;
        }
        let valid = (self.mapped * self.unit_bytes) as f64;
        let spare = ((self.physical_bytes - valid) / valid).max(1e-3);
        let at_random = ((1.0 + spare) / (2.0 * spare)).max(1.0);
        1.0 + (at_random - 1.0) * (self.scattered / self.mapped as f64).clamp(0.0, 1.0)
    }

    /// The host writes these bytes.
    pub fn write(&mut self, bytes: Range<u64>) {
        let sequential = self.follows(&bytes);
        let written = (bytes.end - bytes.start) as f64;
        let reserve = self.physical_bytes * RESERVE_SHARE;
        // Beyond the reserve the collector frees as much as is written.
        self.fresh_bytes = (self.fresh_bytes - written).max(reserve.min(self.fresh_bytes));
        let first = bytes.start / self.unit_bytes;
        let last = bytes.end.div_ceil(self.unit_bytes).min(self.units);
        self.touch(first..last, |part, units_per_part, units, newly| {
            part.mapped += newly;
            let share = units as f32 / units_per_part as f32;
            // In order, what was scattered is written over just once; at random, some of it twice.
            part.scattered = if sequential || share >= 1.0 {
                (part.scattered - share).max(0.0)
            } else {
                part.scattered + (1.0 - part.scattered) * share
            };
        });
    }

    /// The host does not need these bytes any more.
    pub fn discard(&mut self, bytes: Range<u64>) {
        let first = bytes.start.div_ceil(self.unit_bytes);
        let last = (bytes.end / self.unit_bytes).max(first).min(self.units);
        let mut at = first;
        while at < last {
            let n = (last - at).min(GIB / self.unit_bytes);
            self.set_mapped(at..at + n, false);
            at += n;
        }
    }

    fn follows(&mut self, bytes: &Range<u64>) -> bool {
        if let Some(stream) = self.streams.iter_mut().find(|end| **end == bytes.start) {
            *stream = bytes.end;
            return true;
        }
        self.streams[self.next_stream] = bytes.end;
        self.next_stream = (self.next_stream + 1) % STREAMS_MAX;
        false
    }

    fn region(&mut self, index: usize) -> &mut Region {
        let (unit_bytes, untouched) = (self.unit_bytes, self.untouched);
        self.regions[index].get_or_insert_with(|| {
            let words = (GIB / unit_bytes / 64) as usize;
            let all = if untouched.mapped > 0 { u64::MAX } else { 0 };
            Box::new(Region {
                mapped: vec![all; words].into(),
                parts: vec![untouched; (GIB / MIB) as usize].into(),
            })
        })
    }

    /// Maps `units` and lets `change` act on each MiB of them; keeps the sums.
    fn touch(&mut self, units: Range<u64>, change: impl Fn(&mut Part, u64, u64, u32)) {
        let per_part = MIB / self.unit_bytes;
        let per_region = GIB / self.unit_bytes;
        let mut at = units.start;
        while at < units.end {
            let n = (units.end - at).min(per_part - at % per_part);
            let within = at % per_region;
            let region = self.region((at / per_region) as usize);
            let newly = set_bits(&mut region.mapped, within..within + n, true);
            let part = &mut region.parts[(within / per_part) as usize];
            let before = f64::from(part.mapped) * f64::from(part.scattered);
            change(part, per_part, n, newly);
            let after = f64::from(part.mapped) * f64::from(part.scattered);
            self.mapped += u64::from(newly);
            self.scattered += after - before;
            at += n;
        }
    }

    fn set_mapped(&mut self, units: Range<u64>, to: bool) {
        let per_part = MIB / self.unit_bytes;
        let per_region = GIB / self.unit_bytes;
        let mut at = units.start;
        while at < units.end {
            let n = (units.end - at).min(per_part - at % per_part);
            let within = at % per_region;
            let region = self.region((at / per_region) as usize);
            let changed = set_bits(&mut region.mapped, within..within + n, to);
            let part = &mut region.parts[(within / per_part) as usize];
            part.mapped -= changed;
            let scattered = f64::from(part.scattered);
            self.mapped -= u64::from(changed);
            self.scattered -= f64::from(changed) * scattered;
            at += n;
        }
    }
}

/// Sets bits; returns how many changed.
fn set_bits(words: &mut [u64], bits: Range<u64>, to: bool) -> u32 {
    let (mut at, mut changed) = (bits.start, 0);
    while at < bits.end {
        let (word, bit) = ((at / 64) as usize, at % 64);
        let n = (bits.end - at).min(64 - bit);
        let mask = (u64::MAX >> (64 - n)) << bit;
        changed += (mask & if to { !words[word] } else { words[word] }).count_ones();
        if to {
            words[word] |= mask;
        } else {
            words[word] &= !mask;
        }
        at += n;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::ssd_profile;
    use stdx::Prng;

    fn small() -> SsdProfile {
        let mut profile = ssd_profile("pm9a3");
        profile.sectors.value = 8 * GIB / 512;
        profile
    }

    /// A buyer sees the fresh rate, a user the steady one; both must come out of one model.
    #[test]
    fn random_writes_cost_nothing_on_an_empty_drive_and_the_closed_form_on_a_full_one() {
        let profile = small();
        let mut ftl = Ftl::new(&profile, SheetState::Fresh);
        let mut prng = Prng::new(1);
        let units = 8 * GIB / 4096;
        for _ in 0..units / 2 {
            let at = prng.below(units) * 4096;
            ftl.write(at..at + 4096);
        }
        assert_eq!(ftl.write_amplification(), 1.0);
        for _ in 0..units * 6 {
            let at = prng.below(units) * 4096;
            ftl.write(at..at + 4096);
        }
        let closed = Ftl::new(&profile, SheetState::Steady).write_amplification();
        assert!((closed - 1.125 / 0.25).abs() < 1e-6);
        assert!((ftl.write_amplification() / closed - 1.0).abs() < 0.05, "{closed}");
    }

    #[test]
    fn writing_a_scattered_drive_over_in_order_or_discarding_it_heals_it() {
        let mut ftl = Ftl::new(&small(), SheetState::Steady);
        for at in (0..8 * GIB).step_by(65536) {
            ftl.write(at..at + 65536);
        }
        assert!(ftl.write_amplification() < 1.05, "{}", ftl.write_amplification());
        let mut ftl = Ftl::new(&small(), SheetState::Steady);
        ftl.discard(0..4 * GIB);
        assert!(ftl.write_amplification() < 1.1, "{}", ftl.write_amplification());
    }
}
