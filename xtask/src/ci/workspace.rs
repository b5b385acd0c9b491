//! Where the project lies, and its files.

use std::path::PathBuf;

/// Where the project lies.
pub(super) struct Workspace {
    pub(super) root: PathBuf,
}

impl Workspace {
    /// The workspace that this xtask was started from.
    pub(super) fn here() -> Result<Workspace, String> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
        let folder = manifest.ok_or("start it as `cargo xtask ci`, from within the project")?;
        let root = PathBuf::from(folder).parent().map(PathBuf::from);
        Ok(Workspace { root: root.ok_or("the project has no folder")? })
    }

    /// Reads a file of the project.
    pub(super) fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(path))
            .map_err(|error| format!("reading {path}: {error}"))
    }
}
