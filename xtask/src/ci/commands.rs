//! The steps that run cargo.
//!
//! The two commands that a newcomer types are taken from the README itself (its first block of code), so
//! that what it promises is what is checked.

use super::patience;
use super::workspace::Workspace;
use crate::cargo;
use serde_json::Value;
use std::process::{Command, Stdio};

/// What every `results.json` holds (DESIGN §6).
const RESULT_KEYS: [&str; 7] =
    ["study", "seed", "spindle_version", "simulated", "cells", "claims", "verdict"];

impl Workspace {
    /// A command of cargo in the project, with no terminal to read from.
    pub(super) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo::command(args);
        command.current_dir(&self.root).stdin(Stdio::null());
        command
    }
}

/// Runs a command to its end; where it fails, the reason is `mend`, and where it hangs, what it hangs in.
fn run(mut command: Command, mend: &str) -> Result<(), String> {
    let child = command.spawn().map_err(|error| format!("starting cargo: {error}"))?;
    if patience::wait(child, patience::STEP_MAX)? { Ok(()) } else { Err(mend.to_owned()) }
}

/// Says which part of the tool chain is missing, where one is.
fn needs_component(workspace: &Workspace, component: &str, args: &[&str]) -> Result<(), String> {
    let mut version = workspace.cargo(args);
    version.stdout(Stdio::null()).stderr(Stdio::null());
    run(version, &format!("{component} is missing; `rustup component add {component}` gets it"))
}

pub(super) fn fmt(workspace: &Workspace) -> Result<(), String> {
    needs_component(workspace, "rustfmt", &["fmt", "--version"])?;
    run(workspace.cargo(&["fmt", "--all", "--check"]), "`cargo fmt --all` mends it")
}

pub(super) fn clippy(workspace: &Workspace) -> Result<(), String> {
    needs_component(workspace, "clippy", &["clippy", "--version"])?;
    let args = [
        "clippy",
        "--locked",
        "--quiet",
        "--keep-going",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run(workspace.cargo(&args), "clippy has complaints; they stand above")
}

pub(super) fn test(workspace: &Workspace) -> Result<(), String> {
    let command = readme_command(&workspace.read("README.md")?, "cargo test")?;
    let (variable, form) = cargo::THOROUGH;
    println!("ci: test: {variable}={form} {command}");
    let args: Vec<&str> = command.split_whitespace().skip(1).collect();
    let mut test = workspace.cargo(&args);
    test.env(variable, form);
    run(test, "a test failed; its name stands above")
}

/// The fuzz targets, as functions, on the stable compiler: what they stand on is built already, for the tests.
pub(super) fn test_fuzz(workspace: &Workspace) -> Result<(), String> {
    let format = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
    run(workspace.cargo(&format), "`cargo fmt --manifest-path fuzz/Cargo.toml` mends it")?;
    let test = workspace.cargo(&["test", "--locked", "--quiet", "--test", "seeds"]);
    run(test, "a fuzz target does not hold; its name and input stand above")
}

pub(super) fn docs(workspace: &Workspace) -> Result<(), String> {
    let mut doc = workspace.cargo(&[
        "doc",
        "--locked",
        "--quiet",
        "--keep-going",
        "--no-deps",
        "--workspace",
    ]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    run(doc, "rustdoc has complaints; they stand above")
}

pub(super) fn readme(workspace: &Workspace) -> Result<(), String> {
    let command = readme_command(&workspace.read("README.md")?, "cargo run ")?;
    let folder = tempfile::tempdir().map_err(|error| format!("making a folder: {error}"))?;
    let out = folder.path().join("results");
    let out_text = out.to_str().ok_or("the folder for temporary files is not UTF-8")?;
    println!("ci: readme: {command} --quick --out {out_text}");
    let mut args: Vec<&str> = command.split_whitespace().skip(1).collect();
    args.extend(["--quick", "--out", out_text]);
    run(workspace.cargo(&args), "the README's first command failed")?;
    // Nothing else builds with all optimisation what users work with.
    let release = ["build", "--locked", "--release", "--bin", "spindle"];
    run(workspace.cargo(&release), "the program does not build with all optimisation")?;

    let read = |name: &str| {
        let text = std::fs::read_to_string(out.join(name));
        text.map_err(|error| format!("the README's first command left no {name}: {error}"))
    };
    check_results(&read("results.json")?)?;
    if read("results.csv")?.lines().count() < 2 {
        return Err("results.csv has no rows".into());
    }
    if !read("report.html")?.trim_end().ends_with("</html>") {
        return Err("report.html is not whole".into());
    }
    Ok(())
}

fn check_results(text: &str) -> Result<(), String> {
    let results: Value =
        serde_json::from_str(text).map_err(|error| format!("results.json is no JSON: {error}"))?;
    if let Some(missing) = RESULT_KEYS.iter().find(|key| results.get(key).is_none()) {
        return Err(format!("results.json has no '{missing}'"));
    }
    if results["cells"].as_array().is_none_or(Vec::is_empty) {
        return Err("results.json has no cells".into());
    }
    Ok(())
}

/// The command in the README's first block of code that begins so.
fn readme_command(readme: &str, begin: &str) -> Result<String, String> {
    let block = readme.split("```").nth(1).unwrap_or_default();
    let command = block.lines().map(str::trim).find(|line| line.starts_with(begin));
    command.map(str::to_owned).ok_or_else(|| {
        format!("the first block of code in README.md has no line that begins with '{begin}'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_from_the_first_block_of_the_readme() {
        let readme =
            "# S\n\n```\ncargo run -- lab run x.toml\ncargo test\n```\n```\ncargo bench\n```\n";
        let run = readme_command(readme, "cargo run ").expect("it is there");
        assert_eq!(run, "cargo run -- lab run x.toml");
        assert!(readme_command(readme, "cargo bench").is_err());
        assert!(readme_command("no code", "cargo test").is_err());
    }

    #[test]
    fn results_without_cells_or_verdict_are_refused() {
        let whole = r#"{"study":"s","seed":1,"spindle_version":"0","simulated":true,"cells":[{}],"claims":[],"verdict":"v"}"#;
        assert_eq!(check_results(whole), Ok(()));
        assert!(check_results(&whole.replace("[{}]", "[]")).is_err());
        assert!(check_results(&whole.replace("verdict", "answer")).is_err());
        assert!(check_results(&whole[1..]).is_err());
    }
}
