//! `zfs version` and `zpool version`: what this is, and which versions of pools and file systems it knows.
//!
//! OpenZFS prints the versions of its tools and of its kernel module, a line each. There is no module here: the program itself
//! reads pools, so its own version is the one line that scripts look at; `-j` has the shape of OpenZFS's.

use super::json;
use crate::output::{Failure, print, print_json};
use clap::Args;
use serde_json::json as object;
use zfs::zpl::VERSION_MAX;
use zfs_format::uberblock::VERSION_FEATURES;

#[derive(Args)]
pub struct VersionArgs {
    /// As JSON
    #[arg(short = 'j', long = "json")]
    json: bool,
}

/// Carries out the command of this name.
///
/// # Errors
/// With the line to print.
pub fn run(args: &VersionArgs, command: &str) -> Result<(), Failure> {
    let program = concat!("spindle-", env!("CARGO_PKG_VERSION"));
    if !args.json {
        return print(&format!("{program}\n"));
    }
    let mut all = json::schema(command);
    let known = object!({
        "userland": program, "spa_version": VERSION_FEATURES, "zpl_version": VERSION_MAX,
    });
    all.insert("zfs_version".to_owned(), known);
    print_json(&json::line(all))
}
