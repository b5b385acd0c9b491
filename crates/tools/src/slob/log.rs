//! The log writer: makes the redo of commits durable, those that wait together in one write.
//!
//! Sessions hand over how much redo they made, and wait. The writer takes all that wait, rounds what
//! each made up to 512 B, writes it in one go (1 MiB at a time at the most) where it stopped last, and
//! wakes them. The file was written whole before and is written round and round, so that a write only
//! overwrites; each is durable when it is answered. So does Oracle's `LGWR`.

use super::plan::REDO_BYTES;
use super::tally::Counted;
use rt::sync::{mpsc, oneshot};
use rt::{FileRef, Request, Rt};
use stdx::{ByteCount, Instant, Offset};
use workload::content::Source;
use workload::io_failure::IoFailure;

/// The unit of the log.
const UNIT: u64 = 512;

/// The largest write.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// What a session asks for: so many bytes, and to be told.
struct Commit {
    bytes: u64,
    done: oneshot::Sender<()>,
}

/// A session's way to the log writer.
#[derive(Clone)]
pub(super) struct LogHandle(mpsc::Sender<Commit>);

/// The log writer's end.
pub(super) struct LogQueue(mpsc::Receiver<Commit>);

/// A queue for so many sessions, each of which waits for one commit at a time.
pub(super) fn queue(sessions: usize) -> (LogHandle, LogQueue) {
    let (sender, receiver) = mpsc::channel(sessions.max(1));
    (LogHandle(sender), LogQueue(receiver))
}

impl LogHandle {
    /// Waits until so much redo is durable. False where the log writer has failed.
    pub(super) async fn commit(&self, bytes: u64) -> bool {
        let (done, answer) = oneshot::channel();
        self.0.send(Commit { bytes, done }).await.is_ok() && answer.await.is_ok()
    }
}

/// Writes until all sessions have ended. Counts what is written from `on` to `off`.
pub(super) async fn write(
    rt: Rt,
    file: FileRef,
    mut queue: LogQueue,
    mut source: Source,
    window: oneshot::Receiver<(Instant, Instant)>,
) -> Result<Counted, IoFailure> {
    let mut counted = Counted::default();
    // No session begins before the moments are known; without them there is none.
    let Ok((on, off)) = window.await else {
        return Ok(counted);
    };
    let unit = file.alignment().bytes().max(UNIT);
    let mut place = 0;
    while let Some(first) = queue.0.recv().await {
        let mut waiting = vec![first];
        while let Ok(more) = queue.0.try_recv() {
            waiting.push(more);
        }
        let of = |commit: &Commit| commit.bytes.next_multiple_of(unit);
        let mut left: u64 = waiting.iter().map(of).sum();
        while left > 0 {
            let len = left.min(WRITE_BYTES_MAX).min(REDO_BYTES.bytes() - place);
            let began = rt.now();
            let data = source.next(len as usize);
            file.submit(Request::write(Offset(place), data)).await?;
            counted.count(began, rt.now(), ByteCount(len), on, off);
            place = (place + len) % REDO_BYTES.bytes();
            left -= len;
        }
        for commit in waiting {
            // A session that ended meanwhile needs no answer.
            let _ = commit.done.send(());
        }
    }
    Ok(counted)
}
