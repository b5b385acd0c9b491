//! `spindle zpool create`: a pool of devices, with OpenZFS's words.
//!
//! ```text
//!   zpool create tank mirror a b  mirror c d  log e  special mirror f g
//!                     └ one vdev each; a word begins the next, and a bare device is a vdev of its own
//! ```
//!
//! Nothing that holds something is overwritten without `-f`, and neither are vdevs of different redundancy, or devices of
//! different sizes in one vdev, put together without it.
//!
//! A pool that was made is left as exported: whoever opens it next takes it, this program or OpenZFS.

use super::opened::usable;
use crate::commands::zfs::set::{split, stored};
use crate::output::{Failure, print};
use ::zfs::spa::config::LabelState;
use ::zfs::spa::create::{NewPool, root_of};
use ::zfs::spa::datasets::check_part;
use attach::pools::{NewMembers, PoolPlace};
use clap::Args;
use std::path::PathBuf;
use zfs_format::features::{FEATURES, Feature};
use zfs_format::nvlist::{Text, Value};
use zfs_format::vdev::{Raidz, Vdev, VdevKind};

/// Bytes of the smallest device of a pool.
const DEVICE_BYTES_MIN: u64 = 64 << 20;
/// The sector of vdevs where nobody says, as a power of two: 4 KiB, which no disk of these years minds.
const ASHIFT: u64 = 12;
/// Names that begin vdevs, and that pools can't begin with.
const WORDS: [&str; 8] = ["mirror", "raidz", "draid", "spare", "log", "special", "dedup", "cache"];
/// Features that new pools have: of those that OpenZFS 2.1 reads, the ones that are written here.
const FEATURES_NEW: [&str; 22] = [
    "async_destroy",
    "empty_bpobj",
    "lz4_compress",
    "multi_vdev_crash_dump",
    "enabled_txg",
    "hole_birth",
    "spacemap_v2",
    "extensible_dataset",
    "bookmarks",
    "embedded_data",
    "large_blocks",
    "large_dnode",
    "sha512",
    "skein",
    "edonr",
    "userobj_accounting",
    "bookmark_v2",
    "project_quota",
    "allocation_classes",
    "resilver_defer",
    "device_rebuild",
    "zstd_compress",
];

/// What `create` takes.
#[derive(Args)]
pub struct CreateArgs {
    /// Overwrite what the devices hold, and put different redundancy and sizes together
    #[arg(short, long)]
    force: bool,
    /// Show the layout and make nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// No features, but those that are given with -o
    #[arg(short = 'd', long)]
    no_features: bool,
    /// A property of the pool: ashift, comment, compatibility, feature@NAME
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    pool_properties: Vec<String>,
    /// A property of the root file system
    #[arg(short = 'O', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Where the root file system is to be mounted
    #[arg(short, long, value_name = "DIR")]
    mountpoint: Option<String>,
    /// The pool's name
    pool: String,
    /// Vdevs: devices, or mirror, raidz1 to raidz3 with their devices; behind log or special those of that class
    #[arg(required = true)]
    vdevs: Vec<String>,
}

/// A vdev as it was given.
struct Given {
    kind: GivenKind,
    class: Class,
    devices: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GivenKind {
    Device,
    Mirror,
    Raidz(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Normal,
    Log,
    Special,
    Dedup,
}

impl GivenKind {
    fn of(word: &str) -> Option<GivenKind> {
        match word {
            "mirror" => Some(GivenKind::Mirror),
            "raidz" | "raidz1" => Some(GivenKind::Raidz(1)),
            "raidz2" => Some(GivenKind::Raidz(2)),
            "raidz3" => Some(GivenKind::Raidz(3)),
            _ => None,
        }
    }

    fn name(self) -> String {
        match self {
            GivenKind::Device => "device".to_owned(),
            GivenKind::Mirror => "mirror".to_owned(),
            GivenKind::Raidz(parity) => format!("raidz{parity}"),
        }
    }

    fn devices_min(self) -> usize {
        match self {
            GivenKind::Device => 1,
            GivenKind::Mirror => 2,
            GivenKind::Raidz(parity) => parity as usize + 1,
        }
    }
}

/// What the words say.
fn given(words: &[String]) -> Result<Vec<Given>, Failure> {
    let mut all: Vec<Given> = Vec::new();
    let mut class = Class::Normal;
    let mut open = false;
    for word in words {
        let next = match word.as_str() {
            "log" | "logs" => Some(Class::Log),
            "special" => Some(Class::Special),
            "dedup" => Some(Class::Dedup),
            _ => None,
        };
        if let Some(next) = next {
            (class, open) = (next, false);
        } else if let Some(kind) = GivenKind::of(word) {
            all.push(Given { kind, class, devices: Vec::new() });
            open = true;
        } else if matches!(word.as_str(), "cache" | "spare") || word.starts_with("draid") {
            let text = format!("'{word}': such vdevs are not made here yet; OpenZFS can add them");
            return Err(Failure::usage(text));
        } else {
            match all.last_mut().filter(|_| open) {
                Some(last) => last.devices.push(word.into()),
                None => {
                    all.push(Given { kind: GivenKind::Device, class, devices: vec![word.into()] })
                }
            }
        }
    }
    for vdev in &all {
        let (least, has, name) = (vdev.kind.devices_min(), vdev.devices.len(), vdev.kind.name());
        if has < least {
            let text = format!(
                "invalid vdev specification: {name} requires at least {least} devices, and has {has}"
            );
            return Err(Failure::usage(text));
        }
        if vdev.class == Class::Log && matches!(vdev.kind, GivenKind::Raidz(_)) {
            let text = "invalid vdev specification: unsupported 'log' device: raidz; mirror it, or name devices";
            return Err(Failure::usage(text));
        }
    }
    if !all.iter().any(|vdev| vdev.class == Class::Normal) {
        return Err(Failure::usage(
            "invalid vdev specification: at least one toplevel vdev must be specified",
        ));
    }
    Ok(all)
}

/// Whether the redundancy of all is the same.
fn check_redundancy(all: &[Given]) -> Result<(), Failure> {
    let data: Vec<&Given> = all.iter().filter(|vdev| vdev.class != Class::Log).collect();
    let Some(first) = data.first() else { return Ok(()) };
    let ways = |vdev: &Given| match vdev.kind {
        GivenKind::Device => 0,
        GivenKind::Mirror => vdev.devices.len() as u64 - 1,
        GivenKind::Raidz(parity) => parity,
    };
    for vdev in &data[1..] {
        // What holds metadata only may be a mirror beside a raidz of as much redundancy.
        let alike = vdev.kind == first.kind || vdev.class != Class::Normal;
        if !alike || ways(vdev) != ways(first) {
            let (one, other) = (describe(first), describe(vdev));
            let text = format!(
                "invalid vdev specification: mismatched replication level: {one} and {other} vdevs are present; use '-f' to override"
            );
            return Err(Failure::failed(text));
        }
    }
    Ok(())
}

fn describe(vdev: &Given) -> String {
    match vdev.kind {
        GivenKind::Device => "unreplicated".to_owned(),
        GivenKind::Mirror => format!("{}-way mirror", vdev.devices.len()),
        GivenKind::Raidz(_) => format!("{}-way {}", vdev.devices.len(), vdev.kind.name()),
    }
}

/// Properties of a pool, as they were given.
struct PoolProperties {
    ashift: u64,
    comment: Option<String>,
    compatibility: Option<String>,
    features: Vec<&'static str>,
}

fn pool_properties(args: &CreateArgs) -> Result<PoolProperties, Failure> {
    let mut features: Vec<&'static str> = match args.no_features {
        true => Vec::new(),
        false => FEATURES_NEW.to_vec(),
    };
    let (mut ashift, mut comment, mut compatibility) = (ASHIFT, None, None);
    for given in &args.pool_properties {
        let (name, value) = split(given)?;
        match name {
            "ashift" => {
                let number: Option<u64> =
                    value.parse().ok().filter(|shift| (9..=16).contains(shift));
                ashift = number.ok_or_else(|| {
                    Failure::usage(format!("property 'ashift' number {value} is invalid, only values between 9 and 16 are allowed"))
                })?;
            }
            "comment" => comment = Some(value.to_owned()),
            "compatibility" if value == "legacy" => features.clear(),
            "compatibility" => {
                compatibility = Some(value.to_owned()).filter(|value| value != "off")
            }
            _ => match name.strip_prefix("feature@").and_then(Feature::named) {
                Some(feature) if value == "enabled" && FEATURES_NEW.contains(&feature.name) => {
                    features.push(feature.name);
                }
                Some(feature) if value == "disabled" => {
                    features.retain(|name| *name != feature.name)
                }
                Some(feature) => {
                    let text = format!(
                        "feature@{}={value}: pools with it are not written here: leave it out",
                        feature.name
                    );
                    return Err(Failure::usage(text));
                }
                None => {
                    return Err(Failure::usage(format!(
                        "property '{name}' is not a valid pool property"
                    )));
                }
            },
        }
    }
    // In the table's order, and with what each needs.
    let mut wanted: Vec<&'static str> = Vec::new();
    for feature in &FEATURES {
        let needed = features
            .iter()
            .filter_map(|name| Feature::named(name))
            .any(|wanted| wanted.guid == feature.guid || wanted.needs.contains(&feature.guid));
        if needed {
            wanted.push(feature.guid);
        }
    }
    Ok(PoolProperties { ashift, comment, compatibility, features: wanted })
}

/// Carries out `create`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CreateArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let refuse = |why: &str| Failure::usage(format!("cannot create '{}': {why}", args.pool));
    if WORDS.iter().any(|word| args.pool.starts_with(word)) {
        return Err(refuse("name is reserved"));
    }
    if !args.pool.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err(refuse("name must begin with a letter"));
    }
    check_part(&args.pool).map_err(|error| refuse(&error.to_string()))?;
    let all = given(&args.vdevs)?;
    let pool = pool_properties(args)?;
    let mut properties = Vec::new();
    for property in &args.properties {
        let (name, value) = split(property)?;
        properties.push(stored(name, value)?);
    }
    if let Some(directory) = &args.mountpoint {
        properties.push(stored("mountpoint", directory)?);
    }
    if !args.force {
        check_redundancy(&all)?;
    }
    let paths: Vec<PathBuf> = all.iter().flat_map(|vdev| vdev.devices.clone()).collect();
    if args.dry_run {
        return show(&args.pool, &all);
    }
    let devices = NewMembers::open(&place.events, &paths, args.force, place.command.as_deref())?;
    let tops = tops(&all, &devices, pool.ashift, args.force)?;
    let guid = devices.fresh.number();
    devices.create(NewPool {
        name: args.pool.clone(),
        root: root_of(guid, tops),
        features: pool.features,
        state: LabelState::Exported,
        host: None,
        comment: pool.comment,
        compatibility: pool.compatibility,
        owner: (0, 0),
        properties,
    })?;
    Ok(())
}

/// The vdevs over their devices.
fn tops(
    all: &[Given],
    devices: &NewMembers,
    ashift: u64,
    force: bool,
) -> Result<Vec<Vdev>, Failure> {
    let mut members = devices.members.iter();
    let mut tops = Vec::new();
    for (id, vdev) in (0..).zip(all) {
        let mut leaves = Vec::new();
        let mut sizes = Vec::new();
        for (number, path) in (0..).zip(&vdev.devices) {
            let member = members.next().expect("each device was opened");
            if member.bytes.bytes() < DEVICE_BYTES_MIN {
                let text = format!(
                    "{}: device is too small: a pool's have 64 MiB at the least",
                    path.display()
                );
                return Err(Failure::failed(text));
            }
            sizes.push(usable(member.bytes.bytes()) >> ashift << ashift);
            let kind = if member.is_disk { VdevKind::Disk } else { VdevKind::File };
            let mut leaf = Vdev::new(kind, number, member.guid);
            leaf.path = Some(Text::from(member.path.display().to_string().as_str()));
            if member.is_disk {
                leaf.other.push((Text::from("whole_disk"), Value::Uint64(0)));
            }
            leaves.push(leaf);
        }
        let least = sizes.iter().copied().min().unwrap_or(0);
        if !force && sizes.iter().any(|size| *size != least) {
            let text = format!(
                "invalid vdev specification: {} contains devices of different sizes; use '-f' to override",
                vdev.kind.name()
            );
            return Err(Failure::failed(text));
        }
        let mut top = match vdev.kind {
            GivenKind::Device => leaves.remove(0),
            GivenKind::Mirror => Vdev::new(VdevKind::Mirror, 0, devices.fresh.number()),
            GivenKind::Raidz(parity) => {
                let raidz = Raidz { parity, expanding: false, expand_txgs: Vec::new() };
                Vdev::new(VdevKind::Raidz(raidz), 0, devices.fresh.number())
            }
        };
        let many = leaves.len() as u64;
        (top.id, top.ashift, top.children) = (id, Some(ashift), leaves);
        top.asize =
            Some(if matches!(vdev.kind, GivenKind::Raidz(_)) { least * many } else { least });
        top.is_log = Some(u64::from(vdev.class == Class::Log));
        top.allocation_bias = match vdev.class {
            Class::Normal => None,
            Class::Log => Some(Text::from("log")),
            Class::Special => Some(Text::from("special")),
            Class::Dedup => Some(Text::from("dedup")),
        };
        tops.push(top);
    }
    Ok(tops)
}

/// The layout, as `-n` shows it.
fn show(pool: &str, all: &[Given]) -> Result<(), Failure> {
    let mut text = format!("would create '{pool}' with the following layout:\n\n\t{pool}\n");
    for class in [Class::Normal, Class::Dedup, Class::Special, Class::Log] {
        let of_class = all.iter().filter(|vdev| vdev.class == class);
        let head = match class {
            Class::Normal => "",
            Class::Dedup => "\tdedup\n",
            Class::Special => "\tspecial\n",
            Class::Log => "\tlogs\n",
        };
        for (n, vdev) in of_class.enumerate() {
            if n == 0 {
                text.push_str(head);
            }
            let mut indent = "\t  ";
            if vdev.kind != GivenKind::Device {
                text.push_str(&format!("{indent}{}\n", vdev.kind.name()));
                indent = "\t    ";
            }
            for device in &vdev.devices {
                text.push_str(&format!("{indent}{}\n", device.display()));
            }
        }
    }
    print(&text)
}
