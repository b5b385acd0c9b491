//! What is known of a simulated machine: what its study and its profiles say.
//!
//! Nothing is known of its memory (the machine has none that holds files), of content (its devices look
//! at none) and of space (a volume has no files).

use crate::layout::{CHUNK_DEFAULT, Layout, Level};
use crate::machine::{Flush, SimulatedMachine};
use lab::pitfalls::{FlushFacts, Grid, Link, LinkSpan, Partition, Stripe, Surroundings};
use rt::Geometry;
use sim::Profile;
use stdx::ByteCount;

/// The facts of a machine with a layout on it. `disk` is the shape of each of its disks, `volume` that
/// of the layout. The engine runs on the host unless `has_raid_controller`.
pub fn facts(
    machine: &SimulatedMachine,
    layout: &Layout,
    disk: Geometry,
    volume: Geometry,
    has_raid_controller: bool,
) -> Surroundings {
    let cores = match sim::profile::load(&machine.host) {
        Ok(Profile::Host(host)) => u32::try_from(host.cores.value * host.threads()).ok(),
        _ => None,
    };
    Surroundings {
        cores,
        disk_caches: disk_caches(machine, layout),
        partitions: partition(layout, disk).into_iter().collect(),
        stripe: stripe(layout),
        link: link(machine, layout, has_raid_controller),
        flush: FlushFacts {
            // Where the study does not say, a controller with a battery may ignore them, and safely.
            honoured: match (machine.flush, has_raid_controller) {
                (Some(flush), _) => Some(flush == Flush::Honoured),
                (None, false) => Some(true),
                (None, true) => None,
            },
            volatile_cache: Some(volume.volatile_cache),
            rotational: Some(disk.rotational),
            fua: None,
        },
        ..Surroundings::default()
    }
}

/// What the buffers of the layout's disks hold, of what was read and of what was written; none of solid-state drives.
fn disk_caches(machine: &SimulatedMachine, layout: &Layout) -> Option<ByteCount> {
    let Ok(Profile::Disk(disk)) = sim::profile::load(&machine.disk) else { return None };
    let mib = disk.read_cache_mb.value + disk.write_cache_mb.value;
    Some(ByteCount((mib * ByteCount::mib(1).bytes() as f64) as u64) * layout.disks_in_all())
}

/// The partition of the layout, or the first of those that are all alike.
fn partition(layout: &Layout, disk: Geometry) -> Option<Partition> {
    let start = layout.partition_offset?;
    let mut grids = vec![(Grid::PhysicalBlock, disk.physical_block)];
    // What the host sees as a disk, and every set within.
    let seen = if layout.host_sees_members() { layout.of.as_deref() } else { Some(layout) };
    for set in std::iter::successors(seen, |set| set.of.as_deref()) {
        let chunk = set.chunk.unwrap_or(CHUNK_DEFAULT);
        // Nothing is divided, or by units of the disk group's own.
        if matches!(set.level, Level::Disk | Level::Linear | Level::Raid1 | Level::Asm) {
            continue;
        }
        grids.push((Grid::Chunk, chunk));
        if let Some(stripe) = set.stripe_with_parity() {
            grids.push((Grid::Stripe, stripe));
        }
    }
    Some(Partition { name: "the partition".to_owned(), start, origin: ByteCount::ZERO, grids })
}

/// The stripes of the sets with parity that are nearest to the disks; none where there is no parity.
pub fn stripe(layout: &Layout) -> Option<Stripe> {
    let sets: Vec<&Layout> = std::iter::successors(Some(layout), |set| set.of.as_deref()).collect();
    let of_one = |set: &Layout| set.stripe_with_parity();
    let (depth, of_set) =
        sets.iter().enumerate().rev().find_map(|(depth, set)| Some((depth, of_one(set)?)))?;
    let (mut of_volume, mut round) = (of_set, of_set);
    for set in sets[..depth].iter().rev().filter(|set| set.level == Level::Raid0) {
        let (chunk, members) = (set.chunk.unwrap_or(CHUNK_DEFAULT), u64::from(set.members()));
        round = round.max(chunk) * members;
        // Where it deals out no multiple of stripes, all its members are filled in turn.
        if !chunk.is_multiple_of(of_volume) {
            of_volume = common_multiple(chunk, of_volume) * members;
        }
    }
    Some(Stripe { of_set, of_volume, round })
}

/// The least one.
fn common_multiple(one: ByteCount, other: ByteCount) -> ByteCount {
    let (mut a, mut b) = (one.bytes(), other.bytes());
    while b > 0 {
        (a, b) = (b, a % b);
    }
    one * (other.bytes() / a.max(1))
}

/// What the link can carry, as far as the layout uses its channels.
pub fn link(
    machine: &SimulatedMachine,
    layout: &Layout,
    has_raid_controller: bool,
) -> Option<Link> {
    let Ok(Profile::Link(profile)) = sim::profile::load(machine.link.as_ref()?) else {
        return None;
    };
    let (span, users) = match (has_raid_controller, profile.shared.value) {
        (true, _) => (LinkSpan::Volume, layout.luns_seen() as u64),
        (false, true) => (LinkSpan::AllDisks, layout.disks_in_all()),
        (false, false) => (LinkSpan::EachDisk, 1),
    };
    let channels = u64::from(machine.channels.unwrap_or(1)).min(users.max(1));
    let paths = profile.paths.value.saturating_mul(channels);
    let limit_mb_s = profile.rate_mb_s.value * paths as f64;
    // What all that is on it can't fill is no limit. (Where frames go one way at a time, both ways together may.)
    let of_disk = sim::profile::load(&machine.disk).ok().and_then(|disk| match disk {
        Profile::Ssd(ssd) if profile.full_duplex.value => Some(ssd.interface_mb_s.value),
        _ => None,
    });
    let disks_fill_it = of_disk.is_none_or(|rate| rate * users as f64 >= limit_mb_s);
    if span != LinkSpan::Volume && !disks_fill_it {
        return None;
    }
    Some(Link { limit_mb_s, full_duplex: profile.full_duplex.value, span })
}

#[cfg(test)]
mod tests {
    //! What could break: a grid of a set that the host does not see, a limit of channels that nothing
    //! uses, a flush held to be ignored where it is honoured.

    use super::*;

    fn machine(more: &str) -> SimulatedMachine {
        let text = format!("host = 'opteron-2008'\ndisk = 'st3750640as'\ndisks = 12\n{more}");
        toml::from_str(&text).expect("a machine")
    }

    fn layout(text: &str) -> Layout {
        Layout::read(text.parse().expect("TOML")).expect("a layout")
    }

    fn disk() -> Geometry {
        let plain = Geometry::plain(ByteCount::gib(1));
        Geometry { physical_block: ByteCount::kib(4), rotational: true, ..plain }
    }

    fn facts_of(more: &str, text: &str, raid: bool) -> Surroundings {
        facts(&machine(more), &layout(text), disk(), disk(), raid)
    }

    #[test]
    fn a_partition_lies_on_what_the_host_sees() {
        let raid5 = "level = 'raid5'\ndisks = 6\nchunk = '128k'";
        assert_eq!(facts_of("", raid5, false).partitions, [], "there is none");
        let text = format!("{raid5}\npartition_offset = '31.5k'");
        let [partition] = &facts_of("", &text, false).partitions[..] else { panic!("one") };
        assert_eq!(partition.start, ByteCount(63 * 512));
        let grids = [
            (Grid::PhysicalBlock, ByteCount::kib(4)),
            (Grid::Chunk, ByteCount::kib(128)),
            (Grid::Stripe, ByteCount::kib(640)),
        ];
        assert_eq!(partition.grids, grids);
        let luns = "level = 'raid0'\nsets = 2\nchunk = '1m'\nluns = true\npartition_offset = '1m'\n\
                    of = { level = 'raid5', disks = 3, chunk = '64k' }";
        let [partition] = &facts_of("", luns, true).partitions[..] else { panic!("one") };
        let chunks: Vec<_> = partition.grids.iter().filter(|(g, _)| *g == Grid::Chunk).collect();
        assert_eq!(chunks, [&(Grid::Chunk, ByteCount::kib(64))], "the host's own set is above it");
    }

    /// Two sets of RAID 6 of four have stripes of 128 KiB: dealt out by 64 KiB, a write of 128 KiB is half a stripe on each.
    #[test]
    fn a_set_of_sets_that_deals_out_parts_of_stripes_takes_more_for_whole_ones() {
        let of = |text: &str| {
            let Stripe { of_set, of_volume, round } = stripe(&layout(text))?;
            Some([of_set, of_volume, round].map(|size| size.bytes() >> 10))
        };
        let sets =
            |chunk: &str, of: &str| format!("level = 'raid0'\nsets = 2\n{chunk}\nof = {{ {of} }}");
        let six = "level = 'raid6', disks = 4";
        assert_eq!(of(&sets("chunk = '64k'", six)), Some([128, 256, 256]));
        assert_eq!(of(&sets("chunk = '384k'", six)), Some([128, 128, 768]));
        assert_eq!(of(&sets("", six)), Some([128, 128, 256]), "the default is the inner stripe");
        // 192 KiB of 512: three chunks are eight stripes.
        let five = "level = 'raid5', disks = 4";
        assert_eq!(of(&sets("chunk = '512k'", five)), Some([192, 3072, 1024]));
        assert_eq!(of("level = 'raid5'\ndisks = 8"), Some([448, 448, 448]));
        assert_eq!(of(&sets("", "level = 'raid1', disks = 2")), None);
    }

    #[test]
    fn channels_count_as_far_as_something_goes_over_them() {
        let raid5 = "level = 'raid5'\ndisks = 6";
        let luns = "level = 'raid0'\nsets = 3\nluns = true\nof = { level = 'raid5', disks = 3 }";
        let one = facts_of("link = 'fc-4g'", raid5, true).link.expect("a link");
        let fc = "link = 'fc-4g'\nchannels = 4";
        assert_eq!(facts_of(fc, raid5, true).link, Some(one), "one LUN takes one");
        let three = facts_of(fc, luns, true).link.expect("a link");
        assert_eq!(three.limit_mb_s, one.limit_mb_s * 3.0);
        assert_eq!(three.span, LinkSpan::Volume);
        let sata = facts_of("link = 'sata-3g'", raid5, false).link.expect("a link");
        assert_eq!(sata.span, LinkSpan::EachDisk);
        assert_eq!(facts_of("", raid5, false).link, None);
    }

    /// Found by a newcomer: 6800 MB/s of a drive that can't do more were said to be what its link of 7000 left of it.
    #[test]
    fn a_link_that_its_disks_cannot_fill_is_no_limit() {
        let link = |model: &str, link: &str, disks: u64| {
            let text = format!("host = 'epyc-2024'\ndisk = '{model}'\ndisks = 12\nlink = '{link}'");
            let machine = toml::from_str(&text).expect("a machine");
            let set = layout(&format!("level = 'raid0'\ndisks = {disks}"));
            facts(&machine, &set, disk(), disk(), false).link
        };
        assert_eq!(link("pm9a3", "pcie4-x4", 2), None);
        assert!(link("pm9a3", "pcie3-x4", 2).is_some());
        // Shared by all: 560 MB/s each of 2400. One way at a time, where reads and writes together may fill it.
        assert_eq!(link("870-evo", "sas-6g-x4", 4), None);
        assert!(link("870-evo", "sas-6g-x4", 5).is_some());
        assert!(link("870-evo", "sata-6g", 2).is_some());
    }

    /// 12 MiB of each disk's buffer hold what was read, and 4 what was written.
    #[test]
    fn the_caches_are_those_of_the_layouts_disks() {
        let caches = |text: &str| facts_of("", text, false).disk_caches;
        assert_eq!(caches("level = 'raid5'\ndisks = 6"), Some(ByteCount::mib(96)));
        let sets = "level = 'raid0'\nsets = 2\nof = { level = 'raid1', disks = 2 }";
        assert_eq!(caches(sets), Some(ByteCount::mib(64)));
        let ssd = toml::from_str("host = 'opteron-2008'\ndisk = '870-evo'\ndisks = 2");
        let (ssd, one) = (ssd.expect("a machine"), layout("level = 'disk'"));
        assert_eq!(disk_caches(&ssd, &one), None);
    }

    #[test]
    fn flushes_are_what_the_study_says_of_them() {
        let honoured = |more: &str, raid| facts_of(more, "level = 'disk'", raid).flush.honoured;
        assert_eq!(honoured("flush = 'ignored'", false), Some(false));
        assert_eq!(honoured("flush = 'ignored'", true), Some(false));
        assert_eq!(honoured("flush = 'honoured'", true), Some(true));
        assert_eq!((honoured("", false), honoured("", true)), (Some(true), None));
    }
}
