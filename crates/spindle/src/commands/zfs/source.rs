//! What a command reads: `DATASET[@SNAPSHOT]:PATH`, and the datasets behind it.
//!
//! A colon may stand in names of datasets and in paths, so the first colon before which a dataset's name ends
//! divides the two. A path is bytes, from the root of the dataset, whether it begins with `/` or not.

use super::keys::{self, KeyArgs};
use crate::output::{Failure, say};
use crate::printable;
use ::zfs::zpl::{FileSystem, Node};
use attach::pools::{OpenDataset, Session, View};
use clap::Args;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

// How datasets are looked at.
#[derive(Args, Clone, Default)]
pub struct ViewArgs {
    #[command(flatten)]
    keys: KeyArgs,
    /// Lay the intent log over the dataset, in memory: what it would be after a replay, of a pool that was not closed
    #[arg(long)]
    replay_view: bool,
}

impl From<KeyArgs> for ViewArgs {
    /// The datasets as the pool has them.
    fn from(keys: KeyArgs) -> ViewArgs {
        ViewArgs { keys, replay_view: false }
    }
}

impl ViewArgs {
    /// Whether intent logs are laid over datasets.
    pub fn replays(&self) -> bool {
        self.replay_view
    }

    /// Whether they are looked at as they are, without keys.
    pub fn is_plain(&self) -> bool {
        self.keys.key_file.is_empty() && !self.replay_view
    }

    /// For what opens them.
    pub fn view(&self) -> View {
        let keys = self.keys.key_file.clone();
        View { keys, ask: keys::ask, replay_view: self.replay_view }
    }
}

/// A file of a dataset.
pub struct Source {
    /// The dataset.
    pub of: OpenDataset,
    /// Its files.
    pub files: FileSystem,
    /// The path as it was given, without slashes at its ends.
    pub path: Vec<u8>,
    /// Whether the path was given with a slash at its end, or is the root.
    pub content: bool,
}

/// An error about a dataset.
pub fn failed(of: &OpenDataset, error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("{}: {error}", of.name()))
}

impl Source {
    /// What `DATASET[@SNAPSHOT]:PATH` names, as far as the dataset.
    ///
    /// # Errors
    /// As of [`Session::dataset`], and where it is a volume.
    pub fn find(session: &Session, argument: &OsStr) -> Result<Source, Failure> {
        let bytes = argument.as_bytes();
        let colons = bytes.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
        let mut first = None;
        for at in colons {
            let Ok(name) = std::str::from_utf8(&bytes[..at]) else { break };
            let of = match session.dataset(name) {
                Ok(of) => of,
                Err(failure) => {
                    first.get_or_insert(failure.into());
                    continue;
                }
            };
            let files = session.files(&of)?;
            let path = &bytes[at + 1..];
            let content =
                matches!(path, b"" | b".") || path.ends_with(b"/") || path.ends_with(b"/.");
            let parts = path.split(|byte| *byte == b'/');
            let parts: Vec<&[u8]> =
                parts.filter(|part| !part.is_empty() && *part != b".").collect();
            return Ok(Source { of, files, path: parts.join(&b'/'), content });
        }
        Err(first.unwrap_or_else(|| {
            let shown = String::from_utf8_lossy(bytes);
            Failure::usage(format!(
                "'{shown}': name a file as DATASET:PATH or DATASET@SNAPSHOT:PATH"
            ))
        }))
    }

    /// The file at a source's path; the last link is followed only if `follow`.
    ///
    /// # Errors
    /// Where there is none, or it can't be had.
    pub fn node(&self, session: &Session, follow: bool) -> Result<Node, Failure> {
        let (files, path) = (self.files.clone(), self.path.clone());
        let found = session.wait(async move { files.find(&path, follow).await });
        let found = found.map_err(|error| self.failed(&self.path, error))?;
        found.ok_or_else(|| self.failed(&self.path, "there is no such file"))
    }

    /// An error about a file of it.
    pub fn failed(&self, path: &[u8], error: impl std::fmt::Display) -> Failure {
        Failure::failed(self.about(path, error))
    }

    /// What an error about a file of it says.
    pub fn about(&self, path: &[u8], error: impl std::fmt::Display) -> String {
        let place = [self.of.name().as_bytes(), b":/", path].concat();
        format!("{}: {error}", printable::bytes(&place))
    }
}

/// Says what went wrong with one of several things, and that something did.
pub fn complain(failed: &std::cell::Cell<bool>, failure: &Failure) {
    failed.set(true);
    say(&format!("spindle: {}", failure.message));
}
