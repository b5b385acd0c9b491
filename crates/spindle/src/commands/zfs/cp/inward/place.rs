//! What of this host is copied into a pool, and under which name: as with copies outward.
//!
//! A directory goes to PATH itself where nothing has that name yet, and below it, under its own name, where PATH is a directory. The
//! content of a directory (a path that ends with `/` or `/.`) goes into PATH. A directory that was begun bears a mark until it is
//! whole, so that the same command goes on with it.

use crate::output::Failure;
use ::host::directory::{Directory, EntryKind};
use ::host::reading::{self, Known};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file or directory of this host, as it was named.
pub(super) struct Given {
    /// The directory that it lies in; of a directory whose content is copied, it.
    pub(super) directory: Directory,
    /// Its name there; nothing of what is copied by its content.
    pub(super) name: Option<Vec<u8>>,
    /// How it was named.
    pub(super) shown: PathBuf,
    /// What is known of it.
    pub(super) known: Known,
}

impl Given {
    /// Looks for it.
    ///
    /// # Errors
    /// It is not there, or can't be opened.
    pub(super) fn find(given: &OsString) -> Result<Given, Failure> {
        let path = Path::new(given);
        let failed =
            |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let bytes = given.as_bytes();
        let is_content = matches!(bytes, b"." | b"..")
            || [&b"/"[..], b"/.", b"/.."].iter().any(|end| bytes.ends_with(end));
        let shown = path.to_path_buf();
        if is_content {
            let directory = Directory::open(path).map_err(failed)?;
            let known = reading::known_of(&directory).map_err(failed)?;
            return Ok(Given { directory, name: None, shown, known });
        }
        let name = path.file_name().map(|name| name.as_bytes().to_vec());
        let name = name.ok_or_else(|| Failure::usage("an empty name is none of a file"))?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let directory = Directory::open(parent).map_err(failed)?;
        let known = reading::known(&directory, &name).map_err(failed)?;
        let known = known.ok_or_else(|| {
            Failure::failed(format!("{}: No such file or directory", path.display()))
        })?;
        Ok(Given { directory, name: Some(name), shown, known })
    }

    /// Whether it is a directory.
    pub(super) fn is_directory(&self) -> bool {
        self.known.kind == EntryKind::Directory
    }

    /// What a directory that is copied from it says of itself until it is whole.
    pub(super) fn mark(&self) -> Vec<u8> {
        let whole = std::fs::canonicalize(&self.shown).unwrap_or_else(|_| self.shown.clone());
        [whole.as_os_str().as_bytes(), b"\n"].concat()
    }
}
