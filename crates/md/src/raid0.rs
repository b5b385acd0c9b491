//! I/O on linear and RAID 0: cut, pass on, join.
//!
//! No redundancy, hence no state: a request that lies on one member is passed to it as it is, with its
//! place changed, and its answer is the answer; errors name the member. One that spans members is
//! cut into runs that are under way together. A member that has failed answers for its bytes with
//! [`TooFewMembers`](rt::IoErrorKind::TooFewMembers); the others go on.

use crate::layout::zones::StripedMap;
use crate::set::Set;
use crate::spread::Spread;
use crate::together::all;
use rt::{IoFuture, Op, Request, SgList};
use smallvec::SmallVec;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// See the [module](self).
pub(crate) struct Striped {
    pub(crate) set: Rc<Set>,
    pub(crate) map: StripedMap,
}

impl Striped {
    /// Carries out a request that was checked; flushes don't come here.
    pub(crate) fn submit(&self, mut request: Request) -> IoFuture {
        let members = &self.set.members;
        self.set.stats.borrow_mut().host_requests += 1;
        let (mut at, end) = (request.offset.bytes(), (request.offset + request.len()).bytes());
        if at == end {
            return IoFuture::ready(Ok(SgList::new()));
        }
        let (place, rest) = self.map.locate(at);
        if rest >= end - at {
            request.offset = Offset(place.at);
            return members.submit(place.slot, request);
        }
        let mut spread = Spread::default();
        while at < end {
            let (place, rest) = self.map.locate(at);
            let len = rest.min(end - at);
            spread.add(place.slot, place.at, len, members.len());
            at += len;
        }
        let mut parts = match &request.op {
            Op::Write { data, .. } => spread.scatter(data),
            _ => SmallVec::new(),
        }
        .into_iter();
        let futures: SmallVec<[IoFuture; 4]> = spread
            .runs
            .iter()
            .map(|run| {
                let op = match &request.op {
                    Op::Read(_) => Op::Read(ByteCount(run.len)),
                    Op::Write { fua, .. } => {
                        Op::Write { data: parts.next().unwrap_or_default(), fua: *fua }
                    }
                    Op::Discard(_) => Op::Discard(ByteCount(run.len)),
                    Op::WriteZeroes(_) => Op::WriteZeroes(ByteCount(run.len)),
                    Op::Flush => unreachable!("a flush goes to all members"),
                };
                let part = Request { op, offset: Offset(run.at), priority: request.priority };
                members.submit(run.slot, part)
            })
            .collect();
        let is_read = matches!(request.op, Op::Read(_));
        IoFuture::new(async move {
            let mut answers: SmallVec<[SgList; 4]> = SmallVec::new();
            for answer in all(futures).await {
                answers.push(answer?);
            }
            Ok(if is_read { spread.assemble(&answers) } else { SgList::new() })
        })
    }
}
