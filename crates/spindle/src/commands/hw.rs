//! `spindle hw`: the hardware that can be simulated.

use crate::commands::replay::{self, ReplayArgs};
use crate::output::{Failure, print, print_json};
use clap::Subcommand;
use sim::profile::{self, Origin, Profile};

/// What can be asked about hardware.
#[derive(Subcommand)]
#[command(defer = true)]
pub enum HwCommand {
    /// List the hardware profiles that ship
    List {
        /// As JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Show a profile: each number with its source
    Show {
        /// A profile's name, or the path of a profile file
        profile: String,
        /// As JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Play a recorded load to a simulated drive, and compare with what was measured
    Replay(ReplayArgs),
}

/// Carries out a hardware command.
///
/// # Errors
/// With the line to print.
pub fn run(command: HwCommand) -> Result<(), Failure> {
    match command {
        HwCommand::List { json } => list(json),
        HwCommand::Show { profile, json } => {
            let profile = profile::load(&profile).map_err(Failure::usage)?;
            if json {
                return print_json(&format!("{:#}\n", profile_json(&profile)));
            }
            print(&profile.show())
        }
        HwCommand::Replay(args) => replay::run(&args),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let mut profiles = Vec::new();
    for name in profile::names() {
        profiles.push(profile::load(name).map_err(Failure::failed)?);
    }
    if json {
        let rows: Vec<_> = profiles
            .iter()
            .map(|profile| {
                serde_json::json!({
                    "name": profile.name(), "kind": profile.kind(), "title": profile.title(),
                })
            })
            .collect();
        return print_json(&format!("{:#}\n", serde_json::Value::from(rows)));
    }
    let width = profiles.iter().map(|profile| profile.name().len()).max().unwrap_or(0);
    let rows: Vec<String> = profiles
        .iter()
        .map(|profile| {
            format!("{:width$}  {:10}  {}\n", profile.name(), profile.kind(), profile.title())
        })
        .collect();
    print(&rows.concat())
}

fn profile_json(profile: &Profile) -> serde_json::Value {
    let entries = profile.entries().into_iter().map(|entry| {
        let (kind, text) = match entry.origin {
            Origin::Source(text) => ("source", text),
            Origin::Derived(text) => ("derived", text),
            Origin::Guessed(text) => ("guessed", text),
        };
        let value = match entry.number {
            Some(number) => serde_json::json!(number),
            None => serde_json::json!(entry.value),
        };
        let mut fields = serde_json::Map::from_iter([("value".to_owned(), value)]);
        fields.insert(kind.to_owned(), text.into());
        if let Some((low, high)) = entry.range {
            fields.insert("range".to_owned(), serde_json::json!([low, high]));
        }
        (entry.key.to_owned(), serde_json::Value::Object(fields))
    });
    serde_json::json!({
        "name": profile.name(), "kind": profile.kind(), "title": profile.title(),
        "values": serde_json::Map::from_iter(entries),
    })
}
