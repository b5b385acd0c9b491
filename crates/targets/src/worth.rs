//! What a layout is worth beside its speed: room, the losses that it survives, how a lost disk comes back.
//!
//! Sets are counted from within: a set of sets loses a member when the member has lost more than it bears. "Any" is
//! the number of disks of which every choice may be lost, "at best" the number that may where they are the right
//! ones: of RAID 10 of eight any one, and one of each pair, four.
//!
//! What this file knows of a drive is what its profile says (sizes, rates, the data sheet's failures). Files and
//! devices of a host say no such thing: room and losses are known of them, and nothing of time and risk.

use crate::layout::{CHUNK_DEFAULT, Layout, Level, Redundancy};
use lab::layout::{LayoutFacts, Legs, RebuildFacts};
use lab::pitfalls::{Link, LinkSpan};
use md::sync::{LOOK_EVERY, SPEED_MIN_NORMAL, STEP, WINDOW_MAX};
use sim::Profile;
use stdx::ByteCount;

/// What a rebuild of normal priority keeps to beside a load, on each member (B/s): `md`'s rate for it.
const REBUILD_FLOOR: f64 = SPEED_MIN_NORMAL.bytes() as f64;
/// What it asks each member for at a time: `md`'s step.
const REBUILD_STEP: f64 = STEP.bytes() as f64;

/// The bits by which a profile counts unreadable sectors.
const PETABIT: f64 = 1e15;

/// What is known of a drive.
#[derive(Clone, Debug, Default)]
pub struct DriveFacts {
    /// What it holds.
    pub capacity: ByteCount,
    /// The mean rate over its surface (B/s).
    pub rate: Option<f64>,
    /// The rates (B/s) at its outer and inner edge, where they differ.
    pub edges: Option<(f64, f64)>,
    /// What lies between the host, which mends, and its disks, if it can be a limit.
    pub link: Option<Link>,
    /// Failures in a year, as a share.
    pub failures_a_year: Option<f64>,
    /// Unreadable sectors for each bit read.
    pub unreadable_per_bit: Option<f64>,
    /// What it costs.
    pub price: Option<f64>,
    /// Where its failures are from.
    pub basis: String,
}

impl DriveFacts {
    /// Of a profile.
    pub fn of(profile: &Profile) -> DriveFacts {
        let stated = |afr: Option<&f64>, bit: Option<&f64>, title: &str| match (afr, bit) {
            (Some(afr), Some(bit)) => format!(
                "{title}: {afr} % fail in a year, one unreadable sector in {:.0e} bits read (`spindle hw show` says \
                 where from)",
                1.0 / bit
            ),
            _ => format!("{title}: its profile says nothing of failures"),
        };
        match profile {
            Profile::Disk(disk) => {
                let (afr, bit) = (
                    disk.afr_percent.as_ref().map(|given| given.value),
                    disk.unreadable_per_petabit.as_ref().map(|given| given.value / PETABIT),
                );
                // Rates fall evenly from outside to inside, and the faster tracks hold the more: of the time that a
                // pass takes, each cylinder takes as long as another, so the mean rate is that of both ends.
                let rate = (disk.outer_rate_mb_s.value + disk.inner_rate_mb_s.value) / 2.0 * 1e6;
                DriveFacts {
                    capacity: ByteCount(disk.sectors.value * disk.sector_bytes.value),
                    rate: Some(rate),
                    edges: Some((
                        disk.outer_rate_mb_s.value * 1e6,
                        disk.inner_rate_mb_s.value * 1e6,
                    )),
                    link: None,
                    failures_a_year: afr.map(|afr| afr / 100.0),
                    unreadable_per_bit: bit,
                    price: None,
                    basis: stated(afr.as_ref(), bit.as_ref(), &disk.title),
                }
            }
            Profile::Ssd(ssd) => {
                let (afr, bit) = (
                    ssd.afr_percent.as_ref().map(|given| given.value),
                    ssd.unreadable_per_petabit.as_ref().map(|given| given.value / PETABIT),
                );
                let rate = ssd.sheet_write_mb_s.value.min(ssd.sheet_read_mb_s.value) * 1e6;
                DriveFacts {
                    capacity: ByteCount(ssd.sectors.value * ssd.sector_bytes.value),
                    rate: (rate > 0.0).then_some(rate),
                    edges: None,
                    link: None,
                    failures_a_year: afr.map(|afr| afr / 100.0),
                    unreadable_per_bit: bit,
                    price: None,
                    basis: stated(afr.as_ref(), bit.as_ref(), &ssd.title),
                }
            }
            _ => DriveFacts::default(),
        }
    }
}

/// What a layout of such drives is worth.
pub fn facts(name: &str, layout: &Layout, drive: &DriveFacts) -> LayoutFacts {
    let capacity = drive.capacity;
    LayoutFacts {
        name: name.to_owned(),
        what: words(layout),
        disks: layout.disks_in_all(),
        disk_bytes: capacity.bytes(),
        usable_bytes: room(layout, capacity).bytes(),
        survives_any: any(layout),
        survives_at_best: at_best(layout),
        shares_disks: false,
        rebuild: mending(layout).map(|(mates, pieces)| RebuildFacts {
            bytes: lost_member(layout).map_or(capacity, |of| room(of, capacity)).bytes(),
            rate: rebuild_rate(layout, drive, pieces),
            floor: REBUILD_FLOOR,
            look: Some(LOOK_EVERY.as_secs_f64()),
            step: REBUILD_STEP,
            mates,
            read_bytes: capacity.bytes().saturating_mul(pieces),
            legs: legs(layout),
        }),
        failures_a_year: drive.failures_a_year,
        unreadable_per_bit: drive.unreadable_per_bit,
        disk_price: drive.price,
        basis: drive.basis.clone(),
    }
}

/// How fast (B/s) an idle set writes what was lost, for which it reads `pieces` disks: as its disks do, and the link to them.
fn rebuild_rate(layout: &Layout, drive: &DriveFacts, pieces: u64) -> Option<f64> {
    let lost = lost_member(layout);
    let written = lost.map_or(1.0, stripes);
    let slower = drive.edges.map_or(1.0, |edges| of_far_copies(mender(layout), edges));
    let of_disks = drive.rate? * written / slower;
    let read = pieces as f64 / lost.map_or(1, Layout::disks_in_all).max(1) as f64;
    let of_link = drive.link.as_ref().map_or(f64::INFINITY, |link| {
        let limit = link.limit_mb_s * 1e6;
        match (link.span, link.full_duplex) {
            // The controller mends, behind it.
            (LinkSpan::Volume, _) => f64::INFINITY,
            (LinkSpan::EachDisk, _) => limit * written,
            (LinkSpan::AllDisks, true) => limit / read.max(1.0),
            (LinkSpan::AllDisks, false) => limit / (read + 1.0),
        }
    });
    Some(of_disks.min(of_link))
}

/// The set that mends a lost disk: the innermost that has redundancy.
fn mender(layout: &Layout) -> &Layout {
    match layout.of.as_deref().filter(|of| mending(of).is_some()) {
        Some(of) => mender(of),
        None => layout,
    }
}

/// How many times as long a disk of a RAID 10 with far copies takes: of each of its parts the copy lies on another part of a
/// neighbour's, and both go at the rate of the inner one. Read is the outermost copy that there is.
fn of_far_copies(set: &Layout, (outer, inner): (f64, f64)) -> f64 {
    let far = set.layout.as_deref().and_then(|laid| laid.strip_prefix("far-")?.parse().ok());
    let Some(copies) = far.filter(|copies: &u32| *copies > 1 && outer > inner) else { return 1.0 };
    // Cylinders take one time each, and the rate falls evenly over them: where so large a share of the bytes lies outside.
    let time_to = |share: f64| {
        let rate = (outer.powi(2) - share * (outer.powi(2) - inner.powi(2))).sqrt();
        (outer - rate) / (outer - inner)
    };
    let edge = |part: u32| time_to(f64::from(part) / f64::from(copies));
    let time = |part: u32| edge(part + 1) - edge(part);
    // The outermost part is read from the second, each other from the outermost.
    (1..copies).map(time).sum::<f64>() + time(1)
}

/// `RAID 6 of 8 disks, chunk 64 KiB`.
fn words(layout: &Layout) -> String {
    let members = layout.members();
    let of = match &layout.of {
        Some(of) => format!("{members} × ({})", words(of)),
        None => format!("{members} disks"),
    };
    let chunk = layout.chunk.unwrap_or(CHUNK_DEFAULT);
    let laid = layout.layout.as_ref().map_or_else(String::new, |laid| format!(", {laid}"));
    match layout.level {
        Level::Disk => "one disk".to_owned(),
        Level::Linear => format!("{of}, one after another"),
        Level::Raid1 => format!("RAID 1 of {of}"),
        Level::Asm => {
            let copies = copies_of_group(layout);
            let copies =
                if copies == 1 { "one copy".to_owned() } else { format!("{copies} copies") };
            let groups = match layout.failure_groups {
                Some(groups) if groups < members => format!(", {groups} failure groups"),
                _ => String::new(),
            };
            format!("a disk group of {of}, {copies} of each extent{groups}")
        }
        level => {
            let number = level.word().trim_start_matches("raid");
            format!("RAID {number} of {of}, chunk {chunk}{laid}")
        }
    }
}

fn copies_of_group(layout: &Layout) -> u64 {
    match layout.redundancy {
        None | Some(Redundancy::External) => 1,
        Some(Redundancy::Normal) => 2,
        Some(Redundancy::High) => 3,
    }
}

/// Disks of a disk group's smallest failure group: one, where they are not told.
fn of_failure_group(layout: &Layout) -> u64 {
    let members = u64::from(layout.members());
    layout.failure_groups.map_or(1, |groups| (members / u64::from(groups.max(1))).max(1))
}

/// Copies of each chunk of a RAID 10, by the name of its layout: `near-2`, `far-3`.
fn copies_of_raid10(layout: &Layout) -> u64 {
    let named = layout.layout.as_deref().and_then(|name| name.rsplit('-').next()?.parse().ok());
    named.unwrap_or(2)
}

/// What the volume holds.
fn room(layout: &Layout, disk: ByteCount) -> ByteCount {
    let members = u64::from(layout.members());
    let member = layout.of.as_ref().map_or(disk, |of| room(of, disk));
    let chunk = layout.chunk.unwrap_or(CHUNK_DEFAULT);
    let whole = member.round_down(chunk);
    let volume = match layout.level {
        Level::Disk => disk,
        Level::Linear => member * members,
        Level::Raid0 => whole * members,
        Level::Raid1 => member,
        Level::Raid4 | Level::Raid5 => whole * members.saturating_sub(1),
        Level::Raid6 => whole * members.saturating_sub(2),
        Level::Raid10 => {
            let copies = copies_of_raid10(layout).max(1);
            (whole * members / copies).round_down(chunk)
        }
        Level::Asm => member * members / copies_of_group(layout),
    };
    let before = layout.partition_offset.map_or(0, ByteCount::bytes);
    ByteCount(volume.bytes().saturating_sub(before))
}

/// How many members a set may lose, whichever they are.
fn members_lost(layout: &Layout) -> u64 {
    let members = u64::from(layout.members());
    match layout.level {
        Level::Disk | Level::Linear | Level::Raid0 => 0,
        Level::Raid1 => members.saturating_sub(1),
        Level::Raid4 | Level::Raid5 => 1,
        Level::Raid6 => 2,
        Level::Raid10 => copies_of_raid10(layout).saturating_sub(1),
        Level::Asm => copies_of_group(layout) - 1,
    }
}

/// How many disks may be lost, whichever they are.
fn any(layout: &Layout) -> u64 {
    // A member is lost with one disk more than it bears, and the set with one member more.
    let each = layout.of.as_ref().map_or(1, |of| any(of) + 1);
    (members_lost(layout) + 1) * each - 1
}

/// How many disks may be lost where they are the right ones.
fn at_best(layout: &Layout) -> u64 {
    let members = u64::from(layout.members());
    let (size, inner) = match &layout.of {
        Some(of) => (of.disks_in_all(), at_best(of)),
        None => (1, 0),
    };
    let whole = match layout.level {
        // One copy of each chunk must be left, so of each group of copies all but one may go. Copies that lie far or
        // offset are with the neighbours: no two of those, so half of the disks for two copies as well.
        Level::Raid10 => members - members.div_ceil(copies_of_raid10(layout).max(1)),
        // Partners are scattered over the other failure groups: those of one may go all.
        Level::Asm => members_lost(layout) * of_failure_group(layout),
        _ => members_lost(layout),
    };
    whole * size + (members - whole) * inner
}

/// Of the set that mends a lost disk: whose loss meanwhile costs it redundancy, and how many disks' content it reads.
/// `None` where no disk can be mended.
fn mending(layout: &Layout) -> Option<(u64, u64)> {
    if let Some(of) = &layout.of
        && let Some(inner) = mending(of)
    {
        // The innermost set that has redundancy mends its own disk.
        return Some(inner);
    }
    let members = u64::from(layout.members());
    let each = layout.of.as_ref().map_or(1, |of| of.disks_in_all());
    let (mates, read) = match layout.level {
        Level::Disk | Level::Linear | Level::Raid0 => return None,
        Level::Raid1 => (members - 1, 1),
        Level::Raid4 | Level::Raid5 => (members - 1, members - 1),
        Level::Raid6 => (members - 1, members - 2),
        // The other copies: with near ones its partners, else its neighbours on both sides.
        Level::Raid10 => {
            let copies = copies_of_raid10(layout);
            let far = layout.layout.as_deref().is_some_and(|name| !name.starts_with("near"));
            let sides = if far || !members.is_multiple_of(copies.max(1)) { 2 } else { 1 };
            ((sides * copies.saturating_sub(1)).min(members - 1), 1)
        }
        // Copies of a disk's extents lie on all disks of other failure groups.
        Level::Asm if copies_of_group(layout) > 1 => (members - of_failure_group(layout), 1),
        Level::Asm => return None,
    };
    (mates > 0).then_some((mates * each, read * each))
}

/// The member that is lost with one of its disks, and rebuilt whole: of the innermost set with redundancy, where its members are sets.
pub(crate) fn lost_member(layout: &Layout) -> Option<&Layout> {
    mender(layout).of.as_deref()
}

/// How many disks of a set without redundancy are written at a time.
fn stripes(layout: &Layout) -> f64 {
    let members = match layout.level {
        Level::Raid0 => f64::from(layout.members()),
        _ => 1.0,
    };
    members * layout.of.as_deref().map_or(1.0, stripes)
}

/// The sets side by side of which the innermost with redundancy, which mends, is one; none where there is only one.
fn legs(layout: &Layout) -> Option<Legs> {
    let above: Vec<&Layout> = std::iter::successors(Some(layout), |set| set.of.as_deref())
        .take_while(|set| set.of.as_deref().is_some_and(|of| mending(of).is_some()))
        .collect();
    let count: u64 = above.iter().map(|set| u64::from(set.members())).product();
    let unit = |set: &Layout| match set.level {
        Level::Linear => u64::MAX,
        _ => set.chunk.unwrap_or(CHUNK_DEFAULT).bytes(),
    };
    let unit = above.iter().map(|set| unit(set)).min()?;
    let (look, window) = (LOOK_EVERY.as_secs_f64(), WINDOW_MAX as u64);
    (count > 1).then_some(Legs { count, unit, look, window })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> LayoutFacts {
        let layout = Layout::read(text.parse().expect("TOML")).expect("a layout");
        let capacity = ByteCount::gib(1000);
        facts("l", &layout, &DriveFacts { capacity, rate: Some(1e8), ..DriveFacts::default() })
    }

    /// Level, disks, room in disks, losses of any disks, losses at best, mates, disks read.
    #[test]
    fn layouts_hold_survive_and_read_what_the_field_says() {
        for (text, room, any, best, mending) in [
            ("level = 'disk'", 1.0, 0, 0, None),
            ("level = 'raid0'\ndisks = 4", 4.0, 0, 0, None),
            ("level = 'raid1'\ndisks = 3", 1.0, 2, 2, Some((2, 1))),
            ("level = 'raid5'\ndisks = 8", 7.0, 1, 1, Some((7, 7))),
            ("level = 'raid6'\ndisks = 8", 6.0, 2, 2, Some((7, 6))),
            ("level = 'raid10'\ndisks = 8", 4.0, 1, 4, Some((1, 1))),
            ("level = 'raid10'\ndisks = 5", 2.5, 1, 2, Some((2, 1))),
            ("level = 'raid10'\ndisks = 6\nlayout = 'near-3'", 2.0, 2, 4, Some((2, 1))),
            ("level = 'raid10'\ndisks = 4\nlayout = 'far-2'", 2.0, 1, 2, Some((2, 1))),
            // RAID 50: one of each set, of its own set any one.
            (
                "level = 'raid0'\nsets = 4\nof = { level = 'raid5', disks = 3 }",
                8.0,
                1,
                4,
                Some((2, 2)),
            ),
            // RAID 5 over mirrors: three losses of any, and the inner mirror mends.
            (
                "level = 'raid5'\nsets = 3\nof = { level = 'raid1', disks = 2 }",
                2.0,
                3,
                4,
                Some((1, 1)),
            ),
            ("level = 'asm'\ndisks = 6\nredundancy = 'normal'", 3.0, 1, 1, Some((5, 1))),
            ("level = 'asm'\ndisks = 6", 6.0, 0, 0, None),
            (
                "level = 'asm'\ndisks = 8\nredundancy = 'normal'\nfailure_groups = 2",
                4.0,
                1,
                4,
                Some((4, 1)),
            ),
        ] {
            let made = of(text);
            let held = made.usable_bytes as f64 / made.disk_bytes as f64;
            assert!((held - room).abs() < 1e-3, "{text}: room of {held} disks");
            assert_eq!((made.survives_any, made.survives_at_best), (any, best), "{text}");
            let found =
                made.rebuild.map(|rebuild| (rebuild.mates, rebuild.read_bytes / made.disk_bytes));
            assert_eq!(found, mending, "{text}");
        }
    }

    /// A member that is lost with one of its disks is rebuilt whole, at the rate of all its disks, and within the floor of one member.
    /// Found by a newcomer: copies that lie far made no difference, nor did a link that carries a tenth.
    #[test]
    fn a_rebuild_goes_as_copies_lie_and_as_the_link_carries() {
        let time = |text: &str, edges, link: Option<(LinkSpan, bool)>| {
            let layout = Layout::read(text.parse().expect("TOML")).expect("a layout");
            let link =
                link.map(|(span, full_duplex)| Link { limit_mb_s: 100.0, full_duplex, span });
            let (rate, capacity) = (Some(1.5e8), ByteCount(1 << 40));
            let drive = DriveFacts { capacity, rate, edges, link, ..DriveFacts::default() };
            let rebuild = facts("l", &layout, &drive).rebuild.expect("it is mended");
            1.5e8 / rebuild.rate.expect("a rate")
        };
        let far = |copies: u32| format!("level = 'raid10'\ndisks = 8\nlayout = 'far-{copies}'");
        let edges = Some((2e8, 1e8));
        // Half of the bytes lie outside of where the rate is the root of (4 + 1) / 2: 0.58 of the cylinders lie inside, twice.
        assert!((time(&far(2), edges, None) - 2.0 * (2.5_f64.sqrt() - 1.0)).abs() < 1e-9);
        let (middle, inner) = (3_f64.sqrt() - 2_f64.sqrt(), 2_f64.sqrt() - 1.0);
        assert!((time(&far(3), edges, None) - 2.0 * middle - inner).abs() < 1e-9);
        assert!((time(&far(2), None, None) - 1.0).abs() < 1e-9);
        let near = "level = 'raid10'\ndisks = 8";
        assert!((time(near, edges, None) - 1.0).abs() < 1e-9);
        let raid6 = "level = 'raid6'\ndisks = 12";
        for (text, span, full_duplex, times) in [
            (raid6, LinkSpan::AllDisks, false, 1.5 * 11.0),
            (raid6, LinkSpan::AllDisks, true, 1.5 * 10.0),
            (raid6, LinkSpan::EachDisk, false, 1.5),
            (raid6, LinkSpan::Volume, false, 1.0),
            (near, LinkSpan::AllDisks, false, 3.0),
            (
                "level = 'raid5'\nsets = 4\nof = { level = 'raid0', disks = 2 }",
                LinkSpan::AllDisks,
                false,
                1.5 * 4.0,
            ),
        ] {
            let took = time(text, None, Some((span, full_duplex)));
            assert!((took - times).abs() < 1e-9, "{text} {span:?}: {took}");
        }
    }

    #[test]
    fn a_member_of_stripes_is_rebuilt_whole() {
        for (text, disks, stripes) in [
            ("level = 'raid5'\ndisks = 8", 1.0, 1.0),
            ("level = 'raid1'\nsets = 2\nof = { level = 'raid0', disks = 4 }", 4.0, 4.0),
            ("level = 'raid5'\nsets = 4\nof = { level = 'linear', disks = 2 }", 2.0, 1.0),
            ("level = 'raid5'\nsets = 3\nof = { level = 'raid1', disks = 2 }", 1.0, 1.0),
        ] {
            let (made, one) = (of(text), of("level = 'raid5'\ndisks = 8"));
            let (rebuild, one) = (made.rebuild.expect("one"), one.rebuild.expect("one"));
            let share = rebuild.bytes as f64 / made.disk_bytes as f64;
            assert!((share - disks).abs() < 1e-3, "{text}: {share} disks");
            let rate = rebuild.rate.expect("a rate") / one.rate.expect("a rate");
            assert!((rate - stripes).abs() < 1e-9, "{text}: {rate} times the rate");
        }
    }

    /// A load that goes over several sets leaves pauses to the one that mends; a single set it does not.
    #[test]
    fn sets_side_by_side_are_counted_down_to_the_one_that_mends() {
        for (text, expected) in [
            ("level = 'raid6'\ndisks = 8", None),
            ("level = 'raid10'\ndisks = 8", None),
            ("level = 'raid0'\ndisks = 4", None),
            ("level = 'raid5'\nsets = 3\nof = { level = 'raid0', disks = 2 }", None),
            (
                "level = 'raid0'\nsets = 2\nchunk = '128k'\nof = { level = 'raid6', disks = 8 }",
                Some((2, 128 << 10)),
            ),
            (
                "level = 'linear'\nsets = 3\nof = { level = 'raid1', disks = 2 }",
                Some((3, u64::MAX)),
            ),
            (
                "level = 'raid0'\nsets = 2\nof = { level = 'raid5', sets = 3, chunk = '16k', of = { level = 'raid1', \
                 disks = 2 } }",
                Some((6, 16 << 10)),
            ),
        ] {
            let legs = of(text).rebuild.and_then(|rebuild| rebuild.legs);
            assert_eq!(legs.map(|legs| (legs.count, legs.unit)), expected, "{text}");
        }
    }

    #[test]
    fn a_layout_is_told_in_words() {
        let nested =
            of("level = 'raid0'\nsets = 2\nof = { level = 'raid6', disks = 4, chunk = '128k' }");
        assert_eq!(nested.what, "RAID 0 of 2 × (RAID 6 of 4 disks, chunk 128 KiB), chunk 256 KiB");
        assert_eq!(
            of("level = 'raid10'\ndisks = 4\nlayout = 'far-2'").what,
            "RAID 10 of 4 disks, chunk 64 KiB, far-2"
        );
    }

    #[test]
    fn the_levels_of_zfs_are_refused_in_words() {
        for (level, part) in [
            ("raidz2", "raid6 is the RAID set of the same redundancy"),
            ("raidz3", "no RAID set has three parities"),
            ("draid2:4d:11c:1s", "spares that are spread"),
            ("mirror", "raid1"),
            ("raid50", "of = { level = \"raid5\""),
            ("raid7", "write one of disk, linear"),
        ] {
            let text = format!("level = '{level}'\ndisks = 4");
            let error = Layout::read(text.parse().expect("TOML")).expect_err(level).to_string();
            assert!(error.contains(part) && error.contains(level), "{level}: {error}");
            assert!(!error.contains("variant") && !error.contains('\n'), "{level}: {error}");
        }
    }
}
