//! The rules of the house that no lint knows.
//!
//! 1. Arrows point down: a crate uses only the crates that [`ARROWS`] gives it (DESIGN §1). Engines may
//!    use `sim` in their tests.
//! 2. `unsafe` lives in `codec` and `host`; every other crate forbids it at its root.
//! 3. Each source file opens with its theory (`//!`), or is the test file of one that does.
//! 4. Nothing is called `util`, `common`, `helpers` or `manager`.
//!
//! A file past [`LINES_MAX`] lines is probably two; it is named, and passes.

use super::Workspace;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A crate, what it may use, and what its tests may use besides.
type Arrow = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Bottom up. `spindle` and `xtask` stand on top and may use all.
const ARROWS: &[Arrow] = &[
    ("stdx", &[], &[]),
    ("codec", &["stdx"], &[]),
    ("rt", &["stdx", "codec"], &[]),
    ("fixtures", &["stdx", "rt"], &[]),
    ("sim", &["stdx", "codec", "rt"], &[]),
    ("host", &["stdx", "codec", "rt"], &[]),
    ("md", &["stdx", "codec", "rt"], &["sim", "fixtures"]),
    ("asm", &["stdx", "codec", "rt"], &["sim"]),
    ("volume", &["stdx", "codec", "rt", "md"], &["sim"]),
    ("zfs-format", &["stdx", "codec"], &["fixtures"]),
    ("zfs-store", &["stdx", "codec", "rt", "zfs-format"], &["sim", "fixtures"]),
    ("zfs", &["stdx", "codec", "rt", "zfs-format", "zfs-store"], &["sim", "fixtures"]),
    ("export", &["stdx", "codec", "rt"], &["sim", "host"]),
    ("inplace", &["stdx", "codec", "rt"], &["sim"]),
    ("workload", &["stdx", "codec", "rt"], &["sim"]),
    ("lab", &["stdx", "codec", "rt", "workload"], &["sim"]),
];
const ON_TOP: [&str; 2] = ["spindle", "xtask"];
const MAY_BE_UNSAFE: [&str; 2] = ["codec", "host"];
const BARRED_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];
const LINES_MAX: usize = 600;

pub(super) fn check(workspace: &Workspace) -> Result<(), String> {
    let metadata = workspace.metadata()?;
    let members =
        metadata["workspace_members"].as_array().ok_or("cargo metadata names no members")?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let ours: Vec<&Value> =
        packages.iter().filter(|package| members.contains(&package["id"])).collect();
    let names: Vec<&str> = ours.iter().filter_map(|package| package["name"].as_str()).collect();
    for package in ours {
        let name = package["name"].as_str().unwrap_or("?");
        check_arrows(name, &package["dependencies"], &names)?;
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().ok_or("a manifest lies in a folder")?;
        if name != "xtask" && folder != workspace.root.join("crates").join(name) {
            return Err(format!("{name} does not lie in crates/{name}"));
        }
        check_sources(name, &folder.join("src"), &workspace.root)?;
    }
    Ok(())
}

fn check_arrows(name: &str, dependencies: &Value, ours: &[&str]) -> Result<(), String> {
    let arrow = ARROWS.iter().find(|(known, ..)| *known == name);
    if arrow.is_none() && !ON_TOP.contains(&name) {
        return Err(format!(
            "the crate {name} has no place in the house: add it to ARROWS in xtask"
        ));
    }
    for dependency in dependencies.as_array().into_iter().flatten() {
        let used = dependency["name"].as_str().unwrap_or("?");
        let in_tests = dependency["kind"].as_str() == Some("dev");
        let Some((_, allowed, in_tests_too)) = arrow else { continue };
        if ours.contains(&used)
            && !allowed.contains(&used)
            && !(in_tests && in_tests_too.contains(&used))
        {
            return Err(format!("{name} uses {used}, which is not below it (DESIGN §1)"));
        }
    }
    Ok(())
}

fn check_sources(name: &str, folder: &Path, root: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let mut has_root = false;
    for path in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("reading {}: {error}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let in_barred_folder =
            path.components().any(|part| BARRED_NAMES.iter().any(|name| part.as_os_str() == *name));
        if BARRED_NAMES.contains(&stem) || in_barred_folder && path.starts_with(root.join("crates"))
        {
            return Err(format!("{shown}: name it after what it holds (DESIGN §9, rule 10)"));
        }
        if !text.starts_with("//!") {
            return Err(format!("{shown} does not open with its theory (DESIGN §9, rule 5)"));
        }
        let is_root = path.parent() == Some(folder) && ["lib", "main"].contains(&stem);
        if is_root && !MAY_BE_UNSAFE.contains(&name) && !forbids_unsafe(&text) {
            return Err(format!("{shown} lacks #![forbid(unsafe_code)]"));
        }
        has_root |= is_root;
        let lines = text.lines().count();
        if lines > LINES_MAX {
            println!(
                "ci: house: note: {shown} has {lines} lines; past {LINES_MAX} it is probably two files"
            );
        }
    }
    if has_root { Ok(()) } else { Err(format!("{name} has neither src/lib.rs nor src/main.rs")) }
}

fn forbids_unsafe(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]")
}

/// All Rust files below a folder, in the order of their names.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("reading the folder {}: {error}", folder.display());
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(failed)?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OURS: [&str; 5] = ["stdx", "rt", "sim", "md", "lab"];

    fn arrows(name: &str, used: &str, kind: Option<&str>) -> Result<(), String> {
        check_arrows(name, &json!([{"name": used, "kind": kind}]), &OURS)
    }

    #[test]
    fn an_engine_may_use_the_simulation_in_its_tests_only() {
        assert!(arrows("md", "sim", None).is_err());
        assert!(arrows("md", "sim", Some("build")).is_err());
        assert_eq!(arrows("md", "sim", Some("dev")), Ok(()));
    }

    #[test]
    fn arrows_never_point_up_or_across() {
        for (name, used) in
            [("rt", "md"), ("stdx", "rt"), ("lab", "md"), ("md", "lab"), ("rt", "sim")]
        {
            let message = arrows(name, used, Some("dev")).expect_err("it points up");
            assert!(message.contains(name) && message.contains(used));
        }
        assert_eq!(arrows("rt", "serde", None), Ok(()));
        assert_eq!(arrows("xtask", "md", None), Ok(()));
        assert!(arrows("newcomer", "serde", None).is_err());
    }

    #[test]
    fn a_comment_that_speaks_of_forbidding_forbids_nothing() {
        assert!(forbids_unsafe("//! x\n#![forbid(unsafe_code)]\n"));
        assert!(!forbids_unsafe("//! x\n// #![forbid(unsafe_code)]\n"));
    }
}
