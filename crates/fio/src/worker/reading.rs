//! Reading files outside the passes: back, to verify what was written, and beforehand (`pre_read`).

use super::{Kind, TURN_IOS, Worker};
use crate::aim::Target;
use crate::error::FioError;
use crate::figures::Direction;
use crate::files::Files;
use crate::spec::Tolerance;
use crate::verify::{self, Piece};
use rt::{Buf, Request, SgList};
use std::sync::atomic::Ordering;
use stdx::{ByteCount, Offset};
use workload::io_failure::IoFailure;

impl Worker {
    pub(super) fn check(
        &mut self,
        target: Target,
        number: Option<u64>,
        data: SgList,
    ) -> Result<(), FioError> {
        let data = data.into_contiguous();
        let checked = verify::check(data.bytes(), &self.spec.verify, target.offset, number);
        let Err(what) = checked else { return Ok(()) };
        let file = self.open.name(target.file);
        let (job, offset, len) = (self.job.name.clone(), target.offset, target.len);
        let error = FioError::Verify { job, file, offset, len, what };
        self.met(Tolerance::VERIFY, error)
    }

    pub(super) fn must_read_back(&self) -> bool {
        let verify = &self.spec.verify;
        verify.checksum.is_some()
            && verify.after_writing
            && self.spec.mode.write
            && !self.is_over()
            && self.now < self.deadline
    }

    pub(super) async fn read_pieces(&mut self, most: u64) -> Result<(), FioError> {
        let mut read = 0;
        while read < most && !self.is_over() {
            let Some(piece) = self.written.take() else { break };
            if self.now >= self.next_tick && !self.tick()? {
                break;
            }
            if !self.open.is_open(piece.file) {
                self.open_file(piece.file).await?;
            }
            read += 1;
            let Piece { file, offset, len, number } = piece;
            let target = Target { direction: Direction::Read, file, offset, len };
            self.start(target, Kind::Check(Some(number)), Buf::empty());
            if self.queue.last_waits() {
                self.hand_over().await;
            }
            if self.queue.len() >= self.queue_depth() {
                self.take_answers().await?;
            }
            self.turn += 1;
            if self.turn >= TURN_IOS {
                self.turn = 0;
                self.rt.yield_now().await;
            }
        }
        self.drain().await
    }

    /// Reads all files once, so that they are in memory.
    pub(super) async fn pre_read(&mut self, files: &Files) -> Result<(), FioError> {
        const PRE_READ_BYTES: u64 = 1 << 20;
        for (index, span) in files.spans.iter().enumerate() {
            self.open_file(index).await?;
            let mut at = span.offset;
            while at < span.offset + span.len && !self.stop.load(Ordering::Relaxed) {
                let len = PRE_READ_BYTES.min(span.offset + span.len - at);
                let request = Request::read(Offset(at), ByteCount(len));
                let read = self.open.submit(index, request).await;
                read.map_err(|error| FioError::Io {
                    job: self.job.name.clone(),
                    source: IoFailure::from(error),
                })?;
                at += len;
            }
        }
        Ok(())
    }
}
