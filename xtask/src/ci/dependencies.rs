//! What comes from outside: is it allowed, and is it what the lock file says?
//!
//! Four checks over `cargo metadata --locked`, which need no tool of their own (cargo-deny does more, and
//! takes minutes to build):
//!
//! 1. The lock file fits the manifests.
//! 2. Everything that is not ours comes from Cargo's registry, whose checksums stand in the lock file.
//! 3. Every licence is satisfied by one of the allowed ones (see [`super::licence`]).
//! 4. Of crates whose values pass between other crates there is one version.
//!
//! **What it can't do.** Security advisories live in a database on the network. They are not checked;
//! the step says so.

use super::licence;
use super::workspace::Workspace;
use serde_json::Value;
use std::collections::BTreeMap;

/// Crates of which two versions would mean two incompatible types of one name, or twice the code.
const ONE_VERSION: [&str; 10] = [
    "clap",
    "futures-util",
    "hdrhistogram",
    "libc",
    "serde",
    "serde_json",
    "thiserror",
    "tokio",
    "toml",
    "winnow",
];

impl Workspace {
    /// What cargo knows of the workspace and everything that it is built from.
    pub(super) fn metadata(&self) -> Result<Value, String> {
        let mut command = self.cargo(&["metadata", "--locked", "--format-version", "1"]);
        let output = command.output().map_err(|error| format!("starting cargo: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text
                .lines()
                .find(|line| line.starts_with("error"))
                .unwrap_or("cargo metadata failed");
            return Err(format!(
                "{line} (`cargo update --workspace` brings Cargo.lock up to date)"
            ));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
    }
}

pub(super) fn check(workspace: &Workspace) -> Result<(), String> {
    let metadata = workspace.metadata()?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut licences: BTreeMap<&str, usize> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or("?");
        let version = package["version"].as_str().unwrap_or("?");
        check_source(package["source"].as_str(), &metadata["workspace_members"], &package["id"])
            .map_err(|problem| format!("{name} {version} {problem}"))?;
        let expression = package["license"]
            .as_str()
            .ok_or_else(|| format!("{name} {version} states no licence"))?;
        if !licence::is_allowed(expression)? {
            return Err(format!(
                "{name} {version} has the licence {expression}, which is not on our list"
            ));
        }
        *licences.entry(expression).or_default() += 1;
        versions.entry(name).or_default().push(version);
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let list = versions.join(", ");
        if ONE_VERSION.contains(name) {
            return Err(format!(
                "{name} is there in several versions: {list}; `cargo tree -d` says why"
            ));
        }
        println!("ci: dependencies: note: {name} is there in several versions: {list}");
    }
    for (licence, count) in licences {
        println!("ci: dependencies: {count:>4} × {licence}");
    }
    println!("ci: dependencies: advisories are not checked: their database needs a network");
    Ok(())
}

/// Ours, or from Cargo's registry: neither a git repository nor a path.
fn check_source(source: Option<&str>, members: &Value, id: &Value) -> Result<(), String> {
    match source {
        None if members.as_array().is_some_and(|members| members.contains(id)) => Ok(()),
        None => Err("is a path outside the workspace".into()),
        Some(source) if source.starts_with("registry+") => Ok(()),
        Some(source) => Err(format!("comes from {source}; only Cargo's registry is allowed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_members_and_the_registry_are_allowed_sources() {
        let members = json!(["a"]);
        let check = |source, id: &str| check_source(source, &members, &json!(id));
        assert_eq!(check(None, "a"), Ok(()));
        assert!(check(None, "b").is_err());
        assert_eq!(check(Some("registry+https://example.org/index"), "c"), Ok(()));
        assert!(check(Some("git+https://example.org/c"), "c").is_err());
    }
}
