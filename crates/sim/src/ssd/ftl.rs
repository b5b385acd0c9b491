//! What a flash translation layer costs: how many bytes a drive writes for each byte of the host.
//!
//! Theory. Flash is erased in blocks far larger than what a host writes, so a drive writes elsewhere
//! and collects what is still valid from old blocks. On an empty drive that costs nothing; once the
//! spare blocks are used up, it costs the copying of what is valid in the block that has the least.
//!
//! **A sample of the drive.** A map of every unit of a drive of terabytes would take gigabytes, and hours of writing.
//! So one mapping unit stands for `n` that lie side by side: which one of them is drawn, once, and the collector's
//! flash has a page for it, a page for that of the next `n`, and so on, some 2¹⁸ in all, with as much spare in proportion. A
//! write that covers the drawn unit writes its page; a write that doesn't, changes nothing. (So caches are
//! simulated by a sample of their keys: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015.) Of writes at
//! random, wherever they are dense or rare, the sample sees an even share, in random order; a stream
//! writes the sample's pages in order, as it does the units; what is trimmed is trimmed in the sample. Hence sequential,
//! random, skewed and mixed loads cost what they cost the whole drive. What the sample can't show is what happens within `n`
//! units (2 to 15 MiB of a drive of 1 to 4 TB), which wears a few pages or none.
//!
//! The drawn unit lies elsewhere in each `n`, so that loads of a fixed stride don't hit all or none. What is regular block by
//! block on the drive is random in the sample: streams of which each write is followed by exactly one of another load
//! copy less on the whole drive (1.6 pages for each of the host's, not 2.5, at 12.5 % spare and half of the drive for each), and
//! where an eighth of each block is written over again and again it copies more (6.4, not 4.9), since greedy then has no block that
//! is better than another.
//!
//! Not modelled: SLC buffers, wear levelling, collection while idle, more than two open blocks.

use super::collector::Collector;
use crate::profile::SsdProfile;
use serde::Deserialize;
use std::fmt;
use std::ops::Range;
use stdx::Prng;

/// Slots of the sampled flash, about: 4 bytes each for the map and the way back, so 2 MiB a drive.
const SLOTS: f64 = 262_144.0;
/// Pages of a sampled block at the most. A real one has thousands of mapping units; from here on that makes less than
/// two per cent.
const PER_BLOCK_MAX: u32 = 256;
/// Blocks of the sampled flash: enough that the best of them is as good as the best of very many.
const BLOCKS: u64 = 1024;

/// What was done with a drive before. What it writes from here on costs accordingly, until as much was written as it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SsdState {
    /// Nothing, or all of it was discarded.
    #[default]
    Fresh,
    /// It was written from its beginning to its end, again and again: nothing has to be copied while that goes on.
    Sequential,
    /// It was written over at random until nothing changes any more, as the SNIA performance test specification asks.
    Random,
}

impl fmt::Display for SsdState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SsdState::Fresh => "empty",
            SsdState::Sequential => "written over in order",
            SsdState::Random => "written over at random",
        })
    }
}

/// The state of the translation layer. See the [module](self).
#[derive(Debug)]
pub struct Ftl {
    unit_bytes: u64,
    units: u64,
    /// Units for which one page of the sample stands.
    per_page: u64,
    flash: Collector,
}

impl Ftl {
    /// A translation layer in this state.
    pub fn new(profile: &SsdProfile, state: SsdState) -> Ftl {
        let unit_bytes = profile.mapping_bytes.value;
        let units = profile.sectors.value * profile.sector_bytes.value / unit_bytes;
        let spare = profile.over_provisioning_percent.value / 100.0;
        let per_page = (units as f64 * (1.0 + spare) / SLOTS).ceil().max(1.0) as u64;
        let pages = units.div_ceil(per_page);
        let per_block = ((pages / BLOCKS) as u32).clamp(1, PER_BLOCK_MAX);
        let flash = match state {
            SsdState::Fresh => Collector::new(pages as u32, spare, per_block),
            SsdState::Sequential => Collector::in_order(pages as u32, spare, per_block),
            SsdState::Random => {
                let mut prng = Prng::for_part(units, &profile.name);
                Collector::steady(pages as u32, spare, per_block, &mut prng)
            }
        };
        Ftl { unit_bytes, units, per_page, flash }
    }

    /// Bytes written to flash for each byte of the host, over the last percent or so of the drive.
    pub fn write_amplification(&self) -> f64 {
        self.flash.amplification()
    }

    /// Whether what is written now is written on flash that was used before, and so had to be erased.
    pub fn reuses(&self) -> bool {
        self.flash.reuses()
    }

    /// The host writes these bytes.
    pub fn write(&mut self, bytes: Range<u64>) {
        let first = bytes.start / self.unit_bytes;
        let last = bytes.end.div_ceil(self.unit_bytes).min(self.units);
        for page in self.sampled(first..last) {
            self.flash.write(page);
        }
    }

    /// The host does not need these bytes any more.
    pub fn discard(&mut self, bytes: Range<u64>) {
        let first = bytes.start.div_ceil(self.unit_bytes);
        let last = (bytes.end / self.unit_bytes).max(first).min(self.units);
        for page in self.sampled(first..last) {
            self.flash.discard(page);
        }
    }

    /// The pages of the sample whose units lie in a range.
    fn sampled(&self, units: Range<u64>) -> Range<u32> {
        if units.is_empty() {
            return 0..0;
        }
        let (first, last) = (units.start / self.per_page, (units.end - 1) / self.per_page);
        let from = first + u64::from(self.drawn(first) < units.start);
        let to = last + u64::from(self.drawn(last) < units.end);
        debug_assert!(to <= self.flash.pages().into(), "{units:?} lie in the drive");
        from as u32..to as u32
    }

    /// The unit that was drawn of those for which a page stands.
    fn drawn(&self, page: u64) -> u64 {
        let start = page * self.per_page;
        let of = self.per_page.min(self.units - start);
        // A fixed hash: multiplying spreads what differs in the low bits to the high ones, which are taken.
        let spread = (page ^ (page >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        start + ((spread * of) >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::ssd_profile;
    use stdx::GIB;

    /// A small drive: a page of the sample for three units.
    fn small() -> SsdProfile {
        let mut profile = ssd_profile("pm9a3");
        profile.sectors.value = BYTES / 512;
        profile
    }

    const BYTES: u64 = 2 * GIB;
    const UNITS: u64 = BYTES / 4096;

    fn write(ftl: &mut Ftl, unit: u64) {
        ftl.write(unit * 4096..(unit + 1) * 4096);
    }

    /// A buyer sees the fresh rate, a user the steady one; both must come out of one model.
    #[test]
    fn random_writes_cost_nothing_on_an_empty_drive_and_what_greedy_costs_on_a_full_one() {
        let profile = small();
        let mut ftl = Ftl::new(&profile, SsdState::Fresh);
        let mut prng = Prng::new(1);
        for _ in 0..UNITS / 2 {
            write(&mut ftl, prng.below(UNITS));
        }
        assert_eq!((ftl.write_amplification(), ftl.reuses()), (1.0, false));
        for _ in 0..UNITS * 5 {
            write(&mut ftl, prng.below(UNITS));
        }
        assert!(ftl.reuses());
        let steady = Ftl::new(&profile, SsdState::Random).write_amplification();
        let came = ftl.write_amplification();
        println!("{came:.2} written over at random, {steady:.2} when new and steady");
        // 12.5 % spare, blocks of 170 pages: 4.57 in the mean field.
        assert!((4.4..4.8).contains(&came) && (4.4..4.8).contains(&steady), "{came}, {steady}");
    }

    #[test]
    fn a_drive_that_is_written_in_order_copies_nothing_whatever_the_size_of_a_write() {
        for len in [512, 4096, 65536, 3 << 20] {
            let mut ftl = Ftl::new(&small(), SsdState::Fresh);
            for _ in 0..3 {
                for at in (0..BYTES).step_by(len as usize) {
                    ftl.write(at..(at + len).min(BYTES));
                }
            }
            assert!(ftl.reuses());
            assert_eq!(ftl.write_amplification(), 1.0, "writes of {len}");
        }
    }

    /// One that was written in order stays so; if it is written at random it comes to where such a drive is.
    #[test]
    fn a_drive_that_was_written_in_order_copies_nothing_until_it_is_written_at_random() {
        let mut ftl = Ftl::new(&small(), SsdState::Sequential);
        assert!(ftl.reuses());
        let half = BYTES / 2;
        for at in (half..BYTES).step_by(65536).chain((0..half).step_by(65536)) {
            ftl.write(at..at + 65536);
            assert_eq!(ftl.write_amplification(), 1.0, "at {at}");
        }
        let mut prng = Prng::new(4);
        for _ in 0..UNITS * 5 {
            write(&mut ftl, prng.below(UNITS));
        }
        let came = ftl.write_amplification();
        println!("{came:.2} written over at random");
        assert!((4.4..4.8).contains(&came), "{came}");
    }

    #[test]
    fn writing_a_scattered_drive_over_in_order_or_discarding_it_heals_it() {
        let mut ftl = Ftl::new(&small(), SsdState::Random);
        for at in (0..BYTES).step_by(65536) {
            ftl.write(at..at + 65536);
        }
        let healed = ftl.write_amplification();
        let mut ftl = Ftl::new(&small(), SsdState::Random);
        let steady = ftl.write_amplification();
        ftl.discard(0..BYTES / 2);
        // At first the emptiest block is still two fifths valid; in the long run a sixth, as 0.44 of the flash is (1.17).
        let mut prng = Prng::new(2);
        let mut after = |ftl: &mut Ftl, writes: u64| {
            for _ in 0..writes {
                write(ftl, UNITS / 2 + prng.below(UNITS / 2));
            }
            ftl.write_amplification()
        };
        let (soon, later) = (after(&mut ftl, UNITS / 20), after(&mut ftl, UNITS));
        println!("{steady:.2}; {healed:.2} written in order, {soon:.2}, {later:.2} half trimmed");
        assert!(healed < 1.05, "{healed}");
        assert!((1.3..1.8).contains(&soon) && (1.1..1.25).contains(&later), "{soon}, {later}");
    }

    /// The sample must cost what the whole drive costs; a load that the sample sees too often or too rarely
    /// would show.
    #[test]
    fn the_sample_costs_what_all_units_cost_under_skewed_and_mixed_loads() {
        type Load = fn(&mut Prng, &mut u64) -> u64;
        let loads: [(&str, Load); 2] = [
            ("nine of ten writes to a tenth", |prng, _| {
                let (hot, at) = (prng.chance(0.9), prng.below(UNITS / 10));
                if hot { at } else { UNITS / 10 + prng.below(UNITS - UNITS / 10) }
            }),
            ("half of the writes in order, over half of the drive", |prng, at| {
                let half = UNITS / 2;
                if prng.chance(0.5) {
                    *at = (*at + 1) % half;
                    *at
                } else {
                    half + prng.below(half)
                }
            }),
        ];
        for (name, load) in loads {
            let spare = 0.125;
            // All units, in blocks of as many pages as makes as many blocks.
            let mut whole = Collector::new(UNITS as u32, spare, 512);
            let mut ftl = Ftl::new(&small(), SsdState::Fresh);
            for unit in 0..UNITS {
                whole.write(unit as u32);
                write(&mut ftl, unit);
            }
            let (mut prng, mut at, mut copied, mut told) = (Prng::new(3), 0, 0, 0.0);
            for turn in 0..UNITS * 4 {
                let unit = load(&mut prng, &mut at);
                whole.write(unit as u32);
                write(&mut ftl, unit);
                if turn == UNITS * 2 {
                    (copied, told) = (whole.copied, 0.0);
                }
                told += ftl.write_amplification();
            }
            let all = 1.0 + (whole.copied - copied) as f64 / (UNITS * 2) as f64;
            let sample = told / (UNITS * 2) as f64;
            println!("{name}: {all:.3} for all units, {sample:.3} for the sample");
            assert!((sample / all - 1.0).abs() < 0.05, "{name}: {sample}, not {all}");
        }
    }

    #[test]
    fn of_units_at_a_fixed_stride_the_sample_has_its_share() {
        let ftl = Ftl::new(&ssd_profile("pm9a3"), SsdState::Fresh);
        let pages = u64::from(ftl.flash.pages());
        for stride in [2, 3, 8, 64, 100, 1024] {
            let hit =
                (0..pages).filter(|page| ftl.drawn(*page).is_multiple_of(stride)).count() as f64;
            let share = pages as f64 / stride as f64;
            // Six standard deviations of as many drawn at random.
            assert!((hit - share).abs() < 6.0 * share.sqrt(), "{stride}: {hit}, not {share}");
        }
        let whole = ftl.sampled(0..ftl.units);
        assert_eq!(whole, 0..ftl.flash.pages());
        for page in [0, 1, 777, pages - 1] {
            let unit = ftl.drawn(page);
            let page = page as u32;
            assert_eq!(ftl.sampled(unit..unit + 1), page..page + 1);
            assert!(ftl.sampled(unit + 1..unit + 1).is_empty());
            assert!(ftl.sampled(unit - u64::from(page > 0)..unit).is_empty());
        }
    }
}
