//! `cargo xtask map`: every module of the named crates, or of all, in a line: its path, and the first paragraph of its
//! head. The list is made from the sources each time, so it can't be wrong; `ARCHITECTURE.md` is the page to read first.

use crate::failure::Failure;
use crate::modules;
use std::path::{Path, PathBuf};

/// `cargo xtask map [CRATE]...`
pub fn run(args: &[String]) -> Result<(), Failure> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = manifest.as_deref().and_then(Path::parent);
    let crates = root
        .ok_or("start it as `cargo xtask map`, from within the project".to_owned())?
        .join("crates");
    let listed = std::fs::read_dir(&crates)
        .map_err(|error| format!("reading the folder {}: {error}", crates.display()))?;
    let mut names: Vec<String> = listed
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    if let Some(unknown) = args.iter().find(|arg| !names.contains(arg)) {
        return Err(Failure::Usage(format!(
            "there is no crate '{unknown}'; there are {}",
            names.join(", ")
        )));
    }
    for name in names.iter().filter(|name| args.is_empty() || args.contains(name)) {
        println!("{name}");
        for module in modules::of(&crates.join(name).join("src"))? {
            println!("  {}: {}", module.shown_path(), module.head);
        }
    }
    Ok(())
}
