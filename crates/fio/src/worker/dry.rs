//! A pass without its I/O: `verify_only` checks what an earlier run of the same job wrote.
//!
//! The same job writes the same places in the same order, so it is enough to go through them. Nothing of it counts in the figures but the
//! reads that check; fio shows the writes that it left out, too.

use super::{TURN_IOS, Worker};
use crate::aim::Target;
use crate::figures::Direction;
use crate::files::Files;
use crate::verify::{PIECES_MAX, Piece};
use std::sync::atomic::Ordering;

impl Worker {
    /// The number of the next write with a checksum, which is remembered where it is to be read back.
    pub(super) fn number_write(&mut self, target: &Target) -> u64 {
        self.write_number += 1;
        let number = self.write_number;
        if self.spec.verify.after_writing && self.written.len() < PIECES_MAX {
            let (file, offset, len) = (target.file, target.offset, target.len);
            self.written.insert(Piece { file, offset, len, number });
            self.since_backlog += 1;
        }
        number
    }

    /// Goes through the places of a pass.
    pub(super) async fn dry_pass(&mut self, files: &Files) {
        self.pass_bytes = 0;
        let (of_pass, of_all) = self.limits(files);
        while self.pass_bytes < of_pass && self.issued_bytes < of_all && !self.ios_exceeded() {
            if self.is_over() || self.stop.load(Ordering::Relaxed) {
                break;
            }
            let direction = self.aim.direction();
            let Some(target) = self.aim.next(direction) else { break };
            self.count_issued(&target);
            self.done_bytes += target.len;
            if direction == Direction::Write && self.spec.verify.checksum.is_some() {
                self.number_write(&target);
            }
            self.turn += 1;
            if self.turn >= TURN_IOS {
                self.turn = 0;
                self.rt.yield_now().await;
            }
        }
    }
}
