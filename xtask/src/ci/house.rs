//! The rules of the house that no lint knows.
//!
//! 1. Arrows point down: a crate uses only the crates that [`ARROWS`] gives it (DESIGN §1). Engines may
//!    use `sim` in their tests.
//! 2. `unsafe` lives in `codec` and `host`; every other crate forbids it at its root.
//! 3. Each source file opens with its theory (`//!`), or is the test file of one that does.
//! 4. Nothing is called `util`, `common`, `helpers` or `manager`.
//! 5. Within a crate no two files use each other, directly or around ([`modules`] says what counts).
//! 6. What is believed is asserted, on in release: each crate keeps as many assertions as [`ASSERTIONS`] says, which may
//!    only rise.
//! 7. `ARCHITECTURE.md` names each crate, and each file that it points to is there.
//! 8. Documentation holds no code that would be compiled: a block says what it is (`text`, `toml`), and libraries say
//!    `doctest = false`, so that `cargo test` does not go through each crate once more to find none.
//!
//! A file past [`LINES_MAX`] lines is probably two; it is named, and passes.

use super::workspace::Workspace;
use crate::modules::{self, Module};
use serde_json::Value;
use std::path::Path;

/// A crate, what it may use, and what its tests may use besides.
type Arrow = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Bottom up. `spindle`, `bench`, `xtask`, the engines' large tests and the fuzz targets stand on top and may use all.
const ARROWS: &[Arrow] = &[
    ("stdx", &[], &[]),
    ("codec", &["stdx"], &[]),
    ("rt", &["stdx", "codec"], &[]),
    ("fixtures", &["stdx", "rt"], &[]),
    ("trace", &["stdx"], &[]),
    ("sim", &["stdx", "codec", "rt", "trace"], &[]),
    ("host", &["stdx", "codec", "rt"], &[]),
    ("md", &["stdx", "codec", "rt"], &[]),
    ("asm", &["stdx", "codec", "rt"], &["sim"]),
    ("volume", &["stdx", "codec", "rt", "md"], &["sim"]),
    ("zfs-format", &["stdx", "codec"], &["fixtures"]),
    ("zfs-store", &["stdx", "codec", "rt", "zfs-format"], &["sim", "fixtures"]),
    ("zfs", &["stdx", "codec", "rt", "zfs-format", "zfs-store"], &["sim", "fixtures"]),
    ("export", &["stdx", "codec", "rt"], &["sim", "host"]),
    ("inplace", &["stdx", "codec", "rt"], &[]),
    ("workload", &["stdx", "codec", "rt"], &["sim"]),
    ("filebench", &["stdx", "codec", "rt", "workload"], &["sim"]),
    ("fio", &["stdx", "codec", "rt", "workload"], &["sim"]),
    ("tools", &["stdx", "codec", "rt", "workload"], &["sim"]),
    ("lab", &["stdx", "codec", "rt", "workload"], &["sim"]),
    (
        "attach",
        &["stdx", "rt", "host", "md", "volume", "zfs-format", "zfs-store", "zfs", "export"],
        &[],
    ),
    (
        "targets",
        &[
            "stdx",
            "rt",
            "host",
            "sim",
            "md",
            "asm",
            "inplace",
            "export",
            "workload",
            "filebench",
            "fio",
            "tools",
            "lab",
        ],
        &[],
    ),
];
const ON_TOP: [&str; 5] = ["spindle", "bench", "engine-tests", "xtask", FUZZ];
/// Those that are tools of the project, beside `crates/`.
const OUTSIDE: [&str; 3] = ["bench", "xtask", FUZZ];
/// The fuzz targets for the stable compiler: their sources lie beside it, and have rules of their own (`fuzz/src/lib.rs`).
const FUZZ: &str = "fuzz-stable";
const MAY_BE_UNSAFE: [&str; 2] = ["codec", "host"];
const BARRED_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];
const LINES_MAX: usize = 600;

/// Assertions outside of tests, by crate, at the least. Where it is none: the crate says why at its root, or is not
/// among those that read and write what people keep.
const ASSERTIONS: &[(&str, usize)] = &[
    ("asm", 2),
    ("codec", 26),
    ("export", 6),
    ("fixtures", 4),
    ("host", 5),
    ("inplace", 6),
    ("lab", 3),
    ("md", 54),
    ("rt", 17),
    ("sim", 6),
    ("stdx", 1),
    ("workload", 1),
    ("zfs", 50),
    ("zfs-format", 15),
    ("zfs-store", 38),
];

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
        if !OUTSIDE.contains(&name) && folder != workspace.root.join("crates").join(name) {
            return Err(format!("{name} does not lie in crates/{name}"));
        }
        if name == FUZZ {
            continue;
        }
        let modules = modules::of(&folder.join("src"))?;
        check_sources(name, &modules, &folder.join("src"), &workspace.root)?;
        check_circles(name, &modules)?;
        check_assertions(name, &modules)?;
        check_documentation(name, &package["targets"], &modules, &workspace.root)?;
    }
    check_map(workspace, &names)
}

/// Rule 5.
fn check_circles(name: &str, modules: &[Module]) -> Result<(), String> {
    let circles = modules::circles(modules);
    let shown = |circle: &Vec<usize>| {
        let paths: Vec<String> = circle.iter().map(|n| modules[*n].shown_path()).collect();
        paths.join(", ")
    };
    match circles.is_empty() {
        true => Ok(()),
        false => {
            let all: Vec<String> = circles.iter().map(shown).collect();
            Err(format!("{name} has files that use each other: {}", all.join("; ")))
        }
    }
}

/// Rule 6.
fn check_assertions(name: &str, modules: &[Module]) -> Result<(), String> {
    let count: usize = modules.iter().map(Module::assertions).sum();
    let least = ASSERTIONS.iter().find(|(known, _)| *known == name).map_or(0, |(_, least)| *least);
    match count < least {
        true => {
            Err(format!("{name} has {count} assertions where it had {least}: which went, and why?"))
        }
        false => Ok(()),
    }
}

/// Rule 8.
fn check_documentation(
    name: &str,
    targets: &Value,
    modules: &[Module],
    root: &Path,
) -> Result<(), String> {
    let is_tested = |target: &Value| target["doctest"].as_bool() == Some(true);
    if targets.as_array().into_iter().flatten().any(is_tested) {
        return Err(format!("{name}: its [lib] lacks `doctest = false`"));
    }
    for module in modules {
        let shown = module.file.strip_prefix(root).unwrap_or(&module.file).display();
        let text = std::fs::read_to_string(&module.file)
            .map_err(|error| format!("reading {shown}: {error}"))?;
        if let Some(line) = code_in_documentation(&text) {
            return Err(format!(
                "{shown}:{line}: a block in documentation says what it holds (```text), and is no Rust: nothing compiles it"
            ));
        }
    }
    Ok(())
}

/// The line in which a block begins, in the documentation within this source, that rustdoc would take for Rust.
fn code_in_documentation(source: &str) -> Option<usize> {
    let mut is_within = false;
    for (index, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let of_documentation = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        let Some(text) = of_documentation else {
            is_within = false;
            continue;
        };
        let Some(kind) = text.trim_start().strip_prefix("```") else { continue };
        if !is_within && !["text", "toml"].contains(&kind.trim()) {
            return Some(index + 1);
        }
        is_within = !is_within;
    }
    None
}

/// Rule 7.
fn check_map(workspace: &Workspace, crates: &[&str]) -> Result<(), String> {
    let map = workspace.read("ARCHITECTURE.md")?;
    for name in crates.iter().filter(|name| !OUTSIDE.contains(name)) {
        if !map.contains(&format!("](crates/{name}/src/")) {
            return Err(format!("ARCHITECTURE.md does not name the crate {name}"));
        }
    }
    for target in map.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let file = target.split('#').next().unwrap_or_default();
        if !file.is_empty() && !file.contains("://") && !workspace.root.join(file).exists() {
            return Err(format!("ARCHITECTURE.md points to {file}, which is not there"));
        }
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

fn check_sources(name: &str, modules: &[Module], folder: &Path, root: &Path) -> Result<(), String> {
    let mut has_root = false;
    for module in modules {
        let path = &module.file;
        let shown = path.strip_prefix(root).unwrap_or(path).display();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let in_barred_folder =
            path.components().any(|part| BARRED_NAMES.iter().any(|name| part.as_os_str() == *name));
        if BARRED_NAMES.contains(&stem) || in_barred_folder && path.starts_with(root.join("crates"))
        {
            return Err(format!("{shown}: name it after what it holds (DESIGN §9, rule 10)"));
        }
        if module.head.is_empty() {
            return Err(format!("{shown} does not open with its theory (DESIGN §9, rule 5)"));
        }
        let is_root = path.parent() == Some(folder) && ["lib", "main"].contains(&stem);
        if is_root && !MAY_BE_UNSAFE.contains(&name) && !module.forbids_unsafe() {
            return Err(format!("{shown} lacks #![forbid(unsafe_code)]"));
        }
        has_root |= is_root;
        if module.lines > LINES_MAX {
            let lines = module.lines;
            println!(
                "ci: house: note: {shown} has {lines} lines; past {LINES_MAX} it is probably two files"
            );
        }
    }
    if has_root { Ok(()) } else { Err(format!("{name} has neither src/lib.rs nor src/main.rs")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OURS: [&str; 6] = ["stdx", "rt", "sim", "asm", "md", "lab"];

    fn arrows(name: &str, used: &str, kind: Option<&str>) -> Result<(), String> {
        check_arrows(name, &json!([{"name": used, "kind": kind}]), &OURS)
    }

    #[test]
    fn an_engine_may_use_the_simulation_in_its_tests_only() {
        assert!(arrows("asm", "sim", None).is_err());
        assert!(arrows("asm", "sim", Some("build")).is_err());
        assert_eq!(arrows("asm", "sim", Some("dev")), Ok(()));
    }

    #[test]
    fn rust_in_documentation_is_found() {
        let of = |text: &str| code_in_documentation(&text.replace('\'', "`"));
        assert_eq!(of("//! Theory.\n//!\n//! '''text\n//! a -> b\n//! '''\n\nfn f() {}\n"), None);
        assert_eq!(of("    /// '''toml\n    /// a = 1\n    /// '''\n"), None);
        for kind in ["", "rust", "ignore", "should_panic"] {
            assert_eq!(
                of(&format!("//! A.\n//! '''{kind}\n//! f();\n//! '''\n")),
                Some(2),
                "{kind}"
            );
        }
        // A block that was not closed ends with the comment.
        assert_eq!(of("//! '''text\nfn f() {}\n/// '''\n"), Some(3));
    }

    #[test]
    fn a_library_that_looks_for_code_in_its_documentation_is_named() {
        let root = Path::new("/");
        let lib = |doctest: bool| json!([{"kind": ["lib"], "doctest": doctest}]);
        assert_eq!(check_documentation("rt", &lib(false), &[], root), Ok(()));
        assert!(check_documentation("rt", &lib(true), &[], root).is_err());
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
}
