//! A recorded load, played to a simulated drive.
//!
//! A trace says what was asked and when. Played *closed*, one request is under way at a time, and the next is sent so long
//! after the last one's end as it was then: a drive that is slower is asked later. Played *open*, requests are sent at their
//! times, whether others are under way or not.

use crate::disk::Disk;
use crate::host::Processor;
use crate::profile::Profile;
use crate::reactor::SimReactor;
use crate::ssd::{Ssd, SsdState};
use rt::{Buf, DeviceRef, Request, Runtime};
use std::rc::Rc;
use stdx::{ByteCount, Duration, Offset, Prng};
use trace::Asked;

/// How a load is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Playing {
    /// One request at a time.
    Closed,
    /// By the times at which requests were sent.
    Open,
}

/// Why a load can't be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The profile is of something that stores nothing.
    #[error("'{name}' is a {kind}, and only a disk or an ssd can be asked for blocks")]
    Kind {
        /// Its name.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// A request lies beyond the end.
    #[error(
        "line {line}: a request for {len} bytes at byte {at}, and '{name}' ends at {capacity}: \
         take a larger drive, or leave such requests out"
    )]
    Beyond {
        /// The line of the trace.
        line: usize,
        /// Where it begins.
        at: u64,
        /// How long it is.
        len: u64,
        /// The drive.
        name: String,
        /// Its bytes.
        capacity: u64,
    },
    /// The trace has no times to go by.
    #[error("line {line}: it does not say when it was sent: play the trace closed")]
    Untimed {
        /// The line of the trace.
        line: usize,
    },
    /// The drive failed, or stopped.
    #[error("the simulated drive did not answer: {0}")]
    Stopped(String),
}

/// A drive for replaying, on a reactor of its own.
fn drive(reactor: &Rc<SimReactor>, profile: &Profile, seed: u64) -> Result<DeviceRef, ReplayError> {
    match profile {
        Profile::Disk(disk) => {
            Ok(Disk::new(reactor, profile.name(), disk, &mut Prng::new(seed)) as DeviceRef)
        }
        Profile::Ssd(ssd) => {
            Ok(Ssd::new(reactor, profile.name(), ssd, SsdState::Fresh) as DeviceRef)
        }
        other => Err(ReplayError::Kind { name: other.name().to_owned(), kind: other.kind() }),
    }
}

/// The request on whole blocks of the drive.
fn request(asked: &Asked, block: ByteCount) -> Request {
    let block = block.bytes();
    let from = asked.at.bytes() / block * block;
    let end = (asked.at + asked.len).bytes().div_ceil(block) * block;
    let len = ByteCount(end - from);
    match asked.write {
        true => Request::write(Offset(from), Buf::fill(0, len.as_usize())),
        false => Request::read(Offset(from), len),
    }
}

/// How long the drive takes for each request.
///
/// # Errors
/// Where the load does not fit the drive.
pub fn replay(
    profile: &Profile,
    asked: &[Asked],
    playing: Playing,
    seed: u64,
) -> Result<Vec<Duration>, ReplayError> {
    let reactor = SimReactor::new(Processor::infinite());
    let runtime = Runtime::new(Rc::clone(&reactor) as _);
    let device = drive(&reactor, profile, seed)?;
    let geometry = device.geometry();
    for one in asked {
        if (one.at + one.len).bytes() > geometry.capacity.bytes() {
            return Err(ReplayError::Beyond {
                line: one.line,
                at: one.at.bytes(),
                len: one.len.bytes(),
                name: profile.name().to_owned(),
                capacity: geometry.capacity.bytes(),
            });
        }
        if playing == Playing::Open && one.sent.is_none() {
            return Err(ReplayError::Untimed { line: one.line });
        }
    }
    let (rt, asked) = (runtime.handle(), asked.to_vec());
    let block = geometry.logical_block;
    let all = runtime.block_on(async move {
        let mut times = Vec::with_capacity(asked.len());
        match playing {
            Playing::Closed => {
                for one in &asked {
                    let sent = rt.now();
                    device.submit(request(one, block)).await?;
                    times.push(rt.now().since(sent));
                    rt.sleep(one.pause.unwrap_or_default()).await;
                }
            }
            Playing::Open => {
                let begin = rt.now();
                let mut under_way = Vec::with_capacity(asked.len());
                for one in &asked {
                    rt.sleep_until(begin + one.sent.unwrap_or_default()).await;
                    let (sent, clock) = (rt.now(), rt.clone());
                    let answer = device.submit(request(one, block));
                    under_way.push(rt.spawn(async move {
                        answer.await?;
                        Ok(clock.now().since(sent))
                    }));
                }
                for one in under_way {
                    times.push(one.await?);
                }
            }
        }
        Ok::<_, rt::IoError>(times)
    });
    match all {
        Ok(times) => times.map_err(|error| ReplayError::Stopped(error.to_string())),
        Err(stalled) => Err(ReplayError::Stopped(stalled.to_string())),
    }
}
