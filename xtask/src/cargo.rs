//! cargo, as the user would start it.
//!
//! `cargo run` tells the program that it starts of its package (`CARGO_PKG_VERSION`, `CARGO_MANIFEST_DIR`, …). Some build scripts
//! (ring's) look at just those, and cargo takes a change of them for a change of the crate: so what cargo is started with from
//! here must not hold them, or all that uses TLS were built anew each time.

use std::ffi::OsStr;
use std::process::Command;

/// What `cargo run` sets besides `CARGO_PKG_…`.
const OF_THIS_PACKAGE: [&str; 6] = [
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_MANIFEST_LINKS",
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_PRIMARY_PACKAGE",
];

/// The variable by which tests are told to try more than a person waits for, and what it says then (`fixtures::extent`).
pub const THOROUGH: (&str, &str) = ("SPINDLE_TESTS", "thorough");

/// cargo with these arguments.
pub fn command(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_this_package(name)) {
        command.env_remove(name);
    }
    command
}

fn is_of_this_package(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name.starts_with("CARGO_PKG_") || OF_THIS_PACKAGE.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests are started by cargo, too, so what has to go is there.
    #[test]
    fn what_cargo_run_says_of_xtask_is_not_handed_on() {
        assert!(std::env::var_os("CARGO_PKG_VERSION_MAJOR").is_some(), "cargo started this");
        let command = command(&["--version"]);
        let removed: Vec<&OsStr> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_PKG_VERSION_MAJOR", "CARGO_MANIFEST_DIR"] {
            assert!(removed.contains(&OsStr::new(name)), "{name}");
        }
        assert!(!removed.contains(&OsStr::new("CARGO_HOME")));
        assert!(!removed.contains(&OsStr::new("CARGO_INCREMENTAL")));
    }
}
