//! How much a job does: bytes of a pass and of all, and whether another pass is made for what is left.
//!
//! As in fio (backend.c, `do_io` and `keep_running`): a pass ends where no file has another place, so a job may do less than its
//! size (`rw=write:16k`, blocks that don't fit a file's end), and of what is queued at the bytes of `size=`; the next is made for `loops`
//! and `io_size` alone.

use super::Worker;
use crate::files::Files;
use crate::plan::largest_block;
use crate::spec::Engine;

impl Worker {
    /// Bytes of one pass, and of all.
    pub(super) fn limits(&self, files: &Files) -> (u64, u64) {
        let (spec, mode) = (&self.spec, self.spec.mode);
        let is_queued = match spec.engine {
            Engine::Blocking => false,
            Engine::Null => spec.depth > 1,
            Engine::Queued => true,
        };
        let of_pass = match (spec.time_based, spec.verify.checksum.is_some()) {
            (true, false) => u64::MAX,
            _ if !is_queued => u64::MAX,
            _ if mode.trim_write => files.pass.saturating_add(self.total_limit),
            // Places that may come again are gone on with at once.
            _ if mode.write && mode.random && !spec.map => files.pass.max(files.wanted),
            _ => files.pass,
        };
        let of_all = match (spec.time_based, mode.trim_write) {
            (true, _) => u64::MAX,
            (false, true) => self.total_limit.saturating_mul(2),
            (false, false) => self.total_limit,
        };
        (of_pass, of_all)
    }

    /// Whether bytes are left to do that the passes so far did not: those of `io_size`, or of files that are not used up.
    pub(super) fn has_more(&self, files: &Files, is_used_up: bool) -> bool {
        let left = files.wanted.saturating_sub(self.done_bytes);
        let is_more = left >= largest_block(&self.spec) && !self.ios_exceeded();
        is_more && (files.beyond_pass || !is_used_up)
    }

    pub(super) fn ios_exceeded(&self) -> bool {
        let all: u64 = self.issued.iter().sum();
        let twice = if self.spec.mode.trim_write { 2 } else { 1 };
        self.spec.number_ios > 0
            && all >= self.spec.number_ios.saturating_mul(self.spec.loops).saturating_mul(twice)
    }
}
