//! Where the sockets lie: a folder that belongs to who runs the servers, and to nobody else.
//!
//! `$SPINDLE_RUN_DIR`; else `/run/spindle` for root; else `$XDG_RUNTIME_DIR/spindle`. Made with mode 0700 where it is not
//! there; one that others may enter, or that belongs to somebody else, is not used: who can write to a socket there can
//! fail members and stop the server.
//!
//! A set's socket is `UUID.sock`, a pool's `GUID.sock`. Beside them lie files whose locks stand for what has none (`NAME.lock`).

use rustix::process::geteuid;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a socket's path at the most: Linux's `sun_path` has 108, with a zero at the end.
const PATH_BYTES_MAX: usize = 107;
/// What may be done by others than the owner.
const OTHERS_MODE: u32 = 0o077;

/// Why there can be no socket.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum FolderError {
    #[error("there is no folder for its socket: name one in SPINDLE_RUN_DIR")]
    None,
    #[error(
        "the socket's path {} has more than {PATH_BYTES_MAX} bytes: name a shorter folder in SPINDLE_RUN_DIR",
        .0.display()
    )]
    TooLong(PathBuf),
    #[error("the folder {} is not yours alone: chmod 700 it, or name another in SPINDLE_RUN_DIR", .0.display())]
    Shared(PathBuf),
    #[error("{} is no folder: name one in SPINDLE_RUN_DIR", .0.display())]
    NoFolder(PathBuf),
    #[error("the folder {}: {error}", .path.display())]
    Os {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

fn folder() -> Result<PathBuf, FolderError> {
    let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty());
    if let Some(folder) = named("SPINDLE_RUN_DIR") {
        return Ok(folder.into());
    }
    if geteuid().is_root() {
        return Ok("/run/spindle".into());
    }
    let user = named("XDG_RUNTIME_DIR").ok_or(FolderError::None)?;
    Ok(Path::new(&user).join("spindle"))
}

/// The path of the socket of this name, in a folder that is ours alone. `make` makes the folder where it is not there.
///
/// # Errors
/// [`FolderError`].
pub fn socket_of(name: &str, make: bool) -> Result<PathBuf, FolderError> {
    let path = own_folder(make)?.join(format!("{name}.sock"));
    match path.as_os_str().len() > PATH_BYTES_MAX {
        true => Err(FolderError::TooLong(path)),
        false => Ok(path),
    }
}

/// The names of the sockets that there are, by which [`socket_of`] knows them; nothing where there is no folder that is ours alone.
pub fn sockets() -> Vec<String> {
    let entries = own_folder(false).ok().and_then(|folder| std::fs::read_dir(folder).ok());
    let named =
        entries.into_iter().flatten().flatten().filter_map(|entry| {
            Some(entry.file_name().to_str()?.strip_suffix(".sock")?.to_owned())
        });
    let mut names: Vec<String> = named.collect();
    names.sort_unstable();
    names
}

/// The path of the file of this name whose lock stands for something, in the same folder.
///
/// # Errors
/// [`FolderError`].
pub fn lock_of(name: &str, make: bool) -> Result<PathBuf, FolderError> {
    Ok(own_folder(make)?.join(format!("{name}.lock")))
}

/// A folder that is ours alone.
fn own_folder(make: bool) -> Result<PathBuf, FolderError> {
    // Without a slash at its end, which would lead through a link.
    let folder: PathBuf = folder()?.components().collect();
    let os = |error| FolderError::Os { path: folder.clone(), error };
    if make {
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(os(error)),
            _ => {}
        }
    }
    // Not through a link: what it leads to may be another's tomorrow.
    let found = std::fs::symlink_metadata(&folder).map_err(os)?;
    if !found.is_dir() {
        return Err(FolderError::NoFolder(folder));
    }
    if found.uid() != geteuid().as_raw() || found.mode() & OTHERS_MODE != 0 {
        return Err(FolderError::Shared(folder));
    }
    Ok(folder)
}
