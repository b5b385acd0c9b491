//! How long the whole names of datasets are, and how deep they lie, within a group.

use super::limits::{NAME_BYTES_MAX, NESTING_MAX};
use super::{TaskError, Tasks};
use crate::error::ZfsError;

impl Tasks<'_> {
    /// Bytes of the whole name of a directory.
    pub(super) async fn name_bytes(&self, directory: u64) -> Result<usize, ZfsError> {
        let line = self.line_of(directory).await?;
        // The root has no name but the pool's.
        let parts = line.iter().filter(|(_, part)| !part.is_empty());
        let path: usize = parts.map(|(_, part)| 1 + part.len()).sum();
        Ok(self.syncer.config().name.len() + path)
    }

    /// Whether a child of a directory, below which there are so many more levels, lies no deeper than datasets do.
    pub(super) async fn check_depth(
        &self,
        parent: u64,
        below: usize,
    ) -> Result<Result<(), TaskError>, ZfsError> {
        // The root has no slash, and its line has one part.
        let slashes = self.line_of(parent).await?.len() + below;
        Ok(if slashes > NESTING_MAX { Err(TaskError::Deep) } else { Ok(()) })
    }

    /// Whether something of this name fits below a directory, or behind its `@` or `#`.
    pub(super) async fn check_fits(
        &self,
        directory: u64,
        part: &str,
    ) -> Result<Result<(), TaskError>, ZfsError> {
        // Sooner than a damaged tree is gone through for nothing.
        if part.len() > NAME_BYTES_MAX {
            return Ok(Err(TaskError::Long));
        }
        let whole = self.name_bytes(directory).await? + 1 + part.len();
        Ok(if whole > NAME_BYTES_MAX { Err(TaskError::Long) } else { Ok(()) })
    }
}
