//! `zfs inherit`: what is set on a dataset goes, or what came with a stream counts again.
//!
//! Source: OpenZFS, `zfs_main.c` (`zfs_do_inherit`).

use super::set::{Setting, change};
use crate::output::{Failure, say};
use ::zfs::dsl::property::effective::is_user;
use ::zfs::dsl::property::table::Property;
use attach::pools::PoolPlace;
use clap::Args;

/// Limits, which `none` clears.
const LIMITS: [&str; 4] = ["quota", "reservation", "refquota", "refreservation"];

// What `inherit` takes.
#[derive(Args)]
pub struct InheritArgs {
    /// With all below
    #[arg(short)]
    recursive: bool,
    /// To what was received with a stream, where something was
    #[arg(short = 'S')]
    received: bool,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The property
    property: String,
    /// The datasets; of a user's own property snapshots, too
    #[arg(required = true)]
    datasets: Vec<String>,
}

/// Carries out `inherit`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &InheritArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let name = match Property::find(&args.property) {
        Some(property) => {
            check(property, args.received)?;
            property.name.to_owned()
        }
        None if is_user(&args.property) => args.property.clone(),
        None => return Err(Failure::usage(format!("invalid property '{}'", args.property))),
    };
    let datasets: Vec<&str> = args.datasets.iter().map(String::as_str).collect();
    let to = if args.received { Setting::Received } else { Setting::Inherited };
    change(place, &datasets, vec![(name, to)], (args.force, args.recursive))
}

/// Whether a property of ZFS's can be inherited, or reverted to what was `received`.
fn check(property: &Property, received: bool) -> Result<(), Failure> {
    let name = property.name;
    if property.is_read_only() {
        return Err(Failure::failed(format!("{name} property is read-only")));
    }
    if !property.is_inherited() && !received {
        say(&format!("spindle: '{name}' property cannot be inherited"));
        if LIMITS.contains(&name) {
            say(&format!("use 'zfs set {name}=none' to clear"));
            say(&format!("use 'zfs inherit -S {name}' to revert to received value"));
        }
        return Err(Failure::said());
    }
    if received && ["volsize", "version"].contains(&name) {
        let text = format!("'{name}' property cannot be reverted to a received value");
        return Err(Failure::failed(text));
    }
    Ok(())
}
