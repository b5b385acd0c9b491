//! `spindle zpool create`: a pool of devices, with OpenZFS's words.
//!
//! Nothing that holds something is overwritten without `-f`, and neither are vdevs of different redundancy, or devices of
//! different sizes in one vdev, put together without it. [`vdevs`] reads them. A device is whatever [`attach::pools::members`] finds under
//! its name.
//!
//! A pool that was made is left as exported: whoever opens it next takes it, this program or OpenZFS.

use super::features::{WRITTEN, allowed};
use super::set;
use super::vdevs::{self, Present};
use crate::commands::zfs::set::{check_rules, split, stored, stored_new};
use crate::commands::zfs::taken::check_taken;
use crate::output::{Failure, print};
use ::zfs::spa::config::LabelState;
use ::zfs::spa::create::{NewPool, POOL_NAME_BYTES_MAX, root_of};
use ::zfs::spa::datasets::check_part;
use ::zfs::spa::enable::with_needed;
use attach::paths::named;
use attach::pools::{NewMembers, PoolPlace, Pools};
use clap::Args;
use std::path::PathBuf;
use zfs_format::features::Feature;
use zfs_format::zap::leaf::LeafValue;

/// The sector of vdevs where nobody says, as a power of two: 4 KiB, which no disk of these years minds.
const ASHIFT: u64 = 12;
/// Names that begin vdevs, and that pools can't begin with.
const WORDS: [&str; 4] = ["mirror", "raidz", "draid", "spare"];
// What `create` takes.
#[derive(Args)]
pub struct CreateArgs {
    /// Overwrite what the devices hold, and put different redundancy and sizes together
    #[arg(short, long)]
    force: bool,
    /// Show the layout and make nothing
    #[arg(short = 'n')]
    dry_run: bool,
    /// No features, but those that are given with -o
    #[arg(short = 'd', long)]
    no_features: bool,
    /// A property of the pool: ashift, comment, compatibility, feature@NAME, or one that zpool set takes
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    pool_properties: Vec<String>,
    /// A property of the root file system
    #[arg(short = 'O', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Where the root file system is to be mounted
    #[arg(short, long, value_name = "DIR")]
    mountpoint: Option<String>,
    /// What mountpoints are below until the export, with which this ends: `spindle zfs mount --altroot` has the pool below one for long
    #[arg(short = 'R', value_name = "DIR")]
    root: Option<PathBuf>,
    /// The pool's name
    pool: String,
    /// Vdevs: devices (paths, NBD URIs, or volumes on the devices of -d: SET, SET:N, GROUP/VOLUME), or mirror, raidz1 to raidz3, draid2:4d:8c:1s (parities, data, disks, spares) with their devices; behind
    /// log or special those of that class
    #[arg(required = true)]
    vdevs: Vec<String>,
}

/// Properties of a pool, as they were given.
struct PoolProperties {
    ashift: u64,
    comment: Option<String>,
    compatibility: Option<String>,
    /// What else was asked for, as it is stored.
    settings: Vec<(String, LeafValue)>,
    features: Vec<&'static str>,
}

/// Whether pools with a feature are written here.
fn is_written(feature: &Feature) -> bool {
    WRITTEN.iter().any(|(name, _)| *name == feature.name)
}

fn pool_properties(args: &CreateArgs) -> Result<PoolProperties, Failure> {
    let (mut ashift, mut comment, mut compatibility) = (ASHIFT, None, None);
    let (mut asked, mut settings) = (Vec::<(&'static str, bool)>::new(), Vec::new());
    let refuse = |why| Failure::failed(format!("cannot create '{}': {why}", args.pool));
    for given in &args.pool_properties {
        let (name, value) = split(given)?;
        match name {
            "ashift" => {
                ashift = vdevs::ashift(value)
                    .map_err(|failure| failure.of(&format!("cannot create '{}'", args.pool)))?;
            }
            "comment" => {
                comment = Some(set::comment(value).map_err(refuse)?);
            }
            // No cache file is kept, and nothing is mounted.
            "cachefile" if value == "none" => {}
            "altroot" if value.starts_with('/') => {}
            "compatibility" => {
                compatibility = Some(value.to_owned()).filter(|value| value != "off")
            }
            _ => match name.strip_prefix("feature@").and_then(Feature::named) {
                Some(feature) if value == "enabled" && is_written(feature) => {
                    asked.push((feature.name, true));
                }
                Some(feature) if value == "disabled" => asked.push((feature.name, false)),
                Some(_) if value != "enabled" => {
                    let text =
                        format!("property '{name}' can only be set to 'enabled' or 'disabled'");
                    return Err(refuse(text));
                }
                Some(feature) => {
                    let text = format!(
                        "feature@{}={value}: pools with it are not written here: leave it out",
                        feature.name
                    );
                    return Err(Failure::failed(text));
                }
                None => match set::change(name, value).map_err(Failure::failed)? {
                    set::Change::Stored(name, Some(value)) => settings.push((name, value)),
                    _ => {
                        return Err(refuse(format!(
                            "property '{name}' is set once there is a pool"
                        )));
                    }
                },
            },
        }
    }
    let mut features = match args.no_features {
        true => Vec::new(),
        false => allowed(compatibility.as_deref().unwrap_or("off")).map_err(Failure::failed)?,
    };
    for (name, is_wanted) in asked {
        match is_wanted {
            true => features.push(name),
            false => features.retain(|known| *known != name),
        }
    }
    let wanted = with_needed(&features).iter().map(|feature| feature.guid).collect();
    Ok(PoolProperties { ashift, comment, compatibility, settings, features: wanted })
}

/// Whether a pool can be called so; why not.
pub(super) fn check_pool_name(name: &str) -> Result<(), String> {
    if WORDS.iter().any(|word| name.starts_with(word)) || name == "log" {
        return Err("name is reserved".to_owned());
    }
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err("name must begin with a letter".to_owned());
    }
    if name.len() > POOL_NAME_BYTES_MAX {
        return Err("name is too long".to_owned());
    }
    check_part(name).map_err(|error| format!("{error} in pool name"))
}

/// Refuses a second pool of a name: by it neither could be told from the other.
fn refuse_second(place: &PoolPlace<'_>, name: &str) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let is_there = pools.living().any(|known| known.name == name);
    match is_there {
        true => Err(Failure::failed(format!("cannot create '{name}': pool already exists"))),
        false => Ok(()),
    }
}

/// Carries out `create`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CreateArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let what = format!("cannot create '{}'", args.pool);
    let refuse = |why: String| Failure::failed(format!("{what}: {why}"));
    let cannot = |failure: Failure| failure.of(&what);
    check_pool_name(&args.pool).map_err(refuse)?;
    if let Some(root) = args.root.as_ref().filter(|root| !root.is_absolute()) {
        let text = format!("bad alternate root '{}': must be an absolute path", root.display());
        return Err(Failure::failed(text));
    }
    let all = vdevs::given(&args.vdevs)?;
    vdevs::check_data(&all)?;
    let pool = pool_properties(args)?;
    let mut properties = Vec::new();
    for property in &args.properties {
        let (name, value) = split(property)?;
        properties.push(stored_new(name, value).map_err(cannot)?);
    }
    check_rules(&properties).map_err(cannot)?;
    if let Some(directory) = &args.mountpoint {
        properties.push(stored("mountpoint", directory).map_err(cannot)?);
    }
    for (name, value) in &properties {
        let guid = |name: &str| Feature::named(name).map(|feature| feature.guid);
        let has = |name: &str| guid(name).is_some_and(|guid| pool.features.contains(&guid));
        check_taken(name, Some(value), has).map_err(refuse)?;
    }
    if !args.force {
        vdevs::check_redundancy(&all, None)?;
    }
    let paths = vdevs::paths(&all);
    if !args.force && !named(place.devices).is_empty() {
        refuse_second(place, &args.pool)?;
    }
    let devices = NewMembers::open(place, &paths, args.force)?;
    let new = vdevs::over(&all, &devices.members, &*devices.fresh, pool.ashift, args.force)?;
    // What would be refused has been by now.
    if args.dry_run {
        devices.leave()?;
        let layout = vdevs::layout(&args.pool, &Present::default(), &all);
        let name = &args.pool;
        return print(&format!("would create '{name}' with the following layout:\n\n{layout}"));
    }
    let guid = devices.fresh.number();
    devices.create(NewPool {
        name: args.pool.clone(),
        root: root_of(guid, new.tops),
        spares: new.spares,
        cache: new.cache,
        features: pool.features,
        state: LabelState::Exported,
        host: None,
        comment: pool.comment,
        compatibility: pool.compatibility,
        settings: pool.settings,
        owner: (0, 0),
        properties,
    })?;
    Ok(())
}
