//! An I/O of a job, from its data to its place in the figures.
//!
//! What is timed when stands at the head of `worker`.

use super::{Kind, UNTIMED_IOS, UnderWay, Worker};
use crate::aim::Target;
use crate::error::FioError;
use crate::figures::{Depths, Direction};
use crate::series::Took;
use crate::spec::Engine;
use crate::verify;
use rt::{Buf, IoErrorKind, IoFuture, IoResult, Request, SgList};
use stdx::{ByteCount, Instant, Offset};
use workload::io_failure::IoFailure;

impl Worker {
    pub(super) fn submit(&mut self, target: Target) -> Result<(), FioError> {
        let len = ByteCount(target.len).as_usize();
        let mut kind = if self.verify_reads { Kind::Check(None) } else { Kind::Plain };
        let data = match target.direction {
            Direction::Write if self.spec.verify.checksum.is_some() => {
                let number = self.number_write(&target);
                let mut block = self.filler.next_to_change(len);
                verify::seal(&mut block, &self.spec.verify, target.offset, number);
                kind = Kind::Sealed;
                block.freeze()
            }
            Direction::Write => self.filler.next(len),
            _ => Buf::empty(),
        };
        self.open.touch(target.file);
        self.count_issued(&target);
        if target.direction == Direction::Write {
            self.issued_writes += 1;
        }
        self.last_was_sync = false;
        if self.limited {
            self.pace.issued(target.direction, target.len);
        }
        self.start(target, kind, data);
        Ok(())
    }

    /// Counts an I/O towards what the job and its pass are to do.
    pub(super) fn count_issued(&mut self, target: &Target) {
        self.issued[target.direction.index()] += 1;
        self.issued_bytes += target.len;
        self.pass_bytes += target.len;
    }

    /// Hands an I/O to the file.
    pub(super) fn start(&mut self, target: Target, kind: Kind, data: Buf) {
        if self.timed {
            self.now = self.rt.now();
        }
        let started = self.now;
        let future = self.request(target, data);
        let depth = self.queue.len() + 1;
        self.figures.depths.count_level(depth);
        self.queue.push(future, |_| UnderWay { target, started, issued: started, kind });
        if self.spec.engine == Engine::Queued && !self.queue.last_waits() {
            self.handed_over();
        }
        if self.timed && self.spec.engine == Engine::Blocking && !self.queue.last_waits() {
            // The call has returned; what the queue does with the answer is not its time.
            self.now = self.rt.now();
            self.is_now = true;
        }
    }

    /// Lets the runtime hand what was submitted to the system. fio does so for each I/O by itself.
    pub(super) async fn hand_over(&mut self) {
        self.rt.yield_now().await;
        self.turn = 0;
        if self.spec.engine == Engine::Queued {
            self.handed_over();
        }
    }

    /// The I/O that was submitted last is with the system now: its submission is over.
    fn handed_over(&mut self) {
        if !self.spec.kept.slat {
            return;
        }
        let issued = self.rt.now();
        self.now = issued;
        if let Some(last) = self.queue.last_pushed() {
            last.issued = issued;
            let at = last.target.direction.index();
            self.figures.flows[at].slat.count(nanos(issued, last.started));
        }
    }

    pub(super) fn request(&self, target: Target, data: Buf) -> IoFuture {
        if self.spec.engine == Engine::Null {
            return IoFuture::ready(Ok(SgList::new()));
        }
        let (offset, len) = (Offset(target.offset), ByteCount(target.len));
        let request = match target.direction {
            Direction::Read => Request::read(offset, len),
            Direction::Write => Request::write(offset, data),
            Direction::Trim => Request::discard(offset, len),
        };
        self.open.submit(target.file, request)
    }

    /// Takes answers until there is room again.
    pub(super) async fn take_answers(&mut self) -> Result<(), FioError> {
        let low = match self.spec.depth_low {
            0 => self.depth(),
            low => (low as usize).min(self.depth()),
        };
        let mut taken = 0_usize;
        loop {
            match self.queue.take() {
                Some((what, result)) => {
                    taken += 1;
                    self.answered(what, result)?;
                }
                None if self.queue.len() == 0 => break,
                None => self.queue.wait().await,
            }
            if taken > 0 && self.queue.len() < low.max(1) {
                break;
            }
        }
        self.figures.depths.complete[Depths::class_of(taken)] += taken as u64;
        Ok(())
    }

    /// Takes all answers.
    pub(super) async fn drain(&mut self) -> Result<(), FioError> {
        while self.queue.len() > 0 {
            match self.queue.take() {
                Some((what, result)) => {
                    self.figures.depths.complete[Depths::class_of(1)] += 1;
                    self.answered(what, result)?;
                }
                None => self.queue.wait().await,
            }
        }
        Ok(())
    }

    /// An I/O was answered: count it, check it, ask for the rest.
    pub(super) fn answered(&mut self, what: UnderWay, result: IoResult) -> Result<(), FioError> {
        if std::mem::take(&mut self.is_now) {
            // Read when the call returned.
        } else if self.timed {
            self.now = self.rt.now();
        } else {
            self.untimed += 1;
            if self.untimed >= UNTIMED_IOS {
                self.untimed = 0;
                self.now = self.rt.now();
            }
        }
        let UnderWay { target, started, issued, kind } = what;
        let at = target.direction.index();
        let data = match result {
            Ok(data) => data,
            Err(error) => {
                if kind == Kind::Sealed {
                    self.written.forget(target.file, target.offset);
                }
                return self.io_failed(target.direction, error);
            }
        };
        let mut len = target.len;
        if target.direction == Direction::Read && self.spec.engine != Engine::Null {
            let got = data.len() as u64;
            if got == 0 {
                let file = self.open.name(target.file);
                let job = self.job.name.clone();
                let (direction, offset) = (target.direction, target.offset);
                if self.spec.create_on_open {
                    return Err(FioError::NotLaidOut { job, file, offset });
                }
                return Err(FioError::Nothing { job, file, direction, offset });
            }
            if got < len {
                // The rest is asked for again, as a part of the same I/O.
                self.figures.flows[at].short += 1;
                self.figures.flows[at].bytes += got;
                self.done_bytes += got;
                len -= got;
                let rest = Target { offset: target.offset + got, len, ..target };
                self.start(rest, kind, Buf::empty());
                return Ok(());
            }
        }
        let flow = &mut self.figures.flows[at];
        flow.bytes += len;
        flow.ios += 1;
        self.done_bytes += len;
        self.done_blocks += 1;
        if self.timed {
            let kept = &self.spec.kept;
            let (clat, lat) = (nanos(self.now, issued), nanos(self.now, started));
            if kept.clat {
                flow.clat.count(clat);
                self.figures.spread.count(clat);
            }
            if kept.lat {
                flow.lat.count(lat);
                let limit = self.spec.max_latency[at];
                if !limit.is_zero() && u128::from(lat) > limit.as_nanos() {
                    self.too_late(lat, limit.as_micros() as u64);
                }
                if let Some(search) = &mut self.search
                    && search.answered(lat)
                {
                    let max_us = search.target_us();
                    self.too_late(lat, max_us);
                }
            }
            if self.each_in_series {
                let slat = (self.spec.engine == Engine::Queued).then(|| nanos(issued, started));
                let took = Took { slat, clat, lat };
                self.series.answered(target.direction, len, target.offset, took, self.now);
            }
        }
        if self.state.wants_counts() {
            self.state.count(target.len, nanos(self.now, started));
        }
        if let Kind::Check(number) = kind {
            self.check(target, number, data)?;
        }
        Ok(())
    }

    /// An I/O took longer than it may: the job ends.
    fn too_late(&mut self, took_ns: u64, max_us: u64) {
        let job = self.job.name.clone();
        let error = FioError::TooLate { job, took_us: took_ns / 1000, max_us };
        self.figures.count_error(error.number());
        self.error.get_or_insert(error);
    }

    /// An I/O failed: pass it over, or end.
    pub(super) fn io_failed(
        &mut self,
        direction: Direction,
        error: rt::IoError,
    ) -> Result<(), FioError> {
        if self.spec.fill_device && error.kind == IoErrorKind::NoSpace {
            self.full = true;
            return Ok(());
        }
        let source = IoFailure::from(error);
        self.met(direction.index(), FioError::Io { job: self.job.name.clone(), source })
    }

    pub(super) async fn sync(&mut self, data_only: bool) -> Result<(), FioError> {
        self.last_was_sync = true;
        // Engines that queue make it when nothing is under way; fio's libaio answers "busy" till then.
        self.drain().await?;
        let began = self.rt.now();
        let synced = self.open.sync_current(data_only).await;
        synced.map_err(|source| FioError::Io { job: self.job.name.clone(), source })?;
        self.now = self.rt.now();
        self.figures.fsyncs += u64::from(!data_only);
        if self.spec.kept.clat {
            self.figures.syncs.count(nanos(self.now, began));
        }
        Ok(())
    }
}

fn nanos(later: Instant, earlier: Instant) -> u64 {
    later.as_nanos().saturating_sub(earlier.as_nanos())
}
