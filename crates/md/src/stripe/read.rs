//! Reads of an array with parity.
//!
//! As long as all that is asked for lies on members that have it, the request is spread over them and
//! neither looks at the cache nor takes a lock: a write in the same row changes other sectors. Where
//! something is missing, or a member answers with an error, the rows are locked and gathered: parity is
//! right only while nobody writes.

use super::Stripes;
use crate::member::DeviceId;
use crate::set::HostIo;
use crate::spread::Spread;
use crate::together::all;
use rt::{IoErrorKind, IoFuture, Priority, Request, SgList};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;

impl Stripes {
    pub(super) fn read(self: &Rc<Self>, request: Request) -> IoFuture {
        let host = self.set.host_begins();
        let members = &self.set.members;
        let (start, len, priority) =
            (request.offset.bytes(), request.len().bytes(), request.priority);
        let (place, rest) = self.map.locate(start);
        let this = Rc::clone(self);
        if rest >= len {
            if !members.readable(place.slot, &(place.at..place.at + len)) {
                return self.read_gathered(request, host);
            }
            let id = members.id(place.slot);
            let answer = members.read(place.slot, place.at, len, priority);
            return IoFuture::new(async move {
                match answer.await {
                    Ok(data) => {
                        drop(host);
                        Ok(data)
                    }
                    Err(error) => {
                        this.set.members.read_failed(place.slot, id, error.kind, |_| false);
                        this.read_gathered(request, host).await
                    }
                }
            });
        }
        let mut spread = Spread::default();
        let mut at = start;
        while at < start + len {
            let (place, rest) = self.map.locate(at);
            let piece = rest.min(start + len - at);
            if !members.readable(place.slot, &(place.at..place.at + piece)) {
                return self.read_gathered(request, host);
            }
            spread.add(place.slot, place.at, piece, members.len());
            at += piece;
        }
        let futures: SmallVec<[IoFuture; 4]> = spread
            .runs
            .iter()
            .map(|run| members.read(run.slot, run.at, run.len, priority))
            .collect();
        let ids: SmallVec<[DeviceId; 4]> =
            spread.runs.iter().map(|run| members.id(run.slot)).collect();
        IoFuture::new(async move {
            let results = all(futures).await;
            for ((run, id), result) in spread.runs.iter().zip(ids).zip(&results) {
                if let Err(error) = result {
                    this.set.members.read_failed(run.slot, id, error.kind, |_| false);
                }
            }
            if results.iter().any(Result::is_err) {
                return this.read_gathered(request, host).await;
            }
            let answers: SmallVec<[SgList; 4]> = results.into_iter().flatten().collect();
            drop(host);
            Ok(spread.assemble(&answers))
        })
    }

    /// Reads under the locks of the rows, computing what is missing. A task of its own, because bad
    /// places are written anew.
    fn read_gathered(self: &Rc<Self>, request: Request, host: HostIo) -> IoFuture {
        let (completion, future) = IoFuture::pending();
        let this = Rc::clone(self);
        let reading = async move {
            let _host = host;
            let (start, len) = (request.offset.bytes(), request.len().bytes());
            let mut whole = SgList::new();
            let (mut at, end) = (start, start + len);
            let step = this.rows_in_step() * this.map.row_bytes();
            while at < end {
                let to = ((at / step + 1) * step).min(end);
                match this.gather_array(at..to, request.priority).await {
                    Ok(data) => whole.append(data),
                    Err(kind) => {
                        let error = this.set.error(kind, request.kind(), start, len);
                        return completion.complete(Err(error));
                    }
                }
                at = to;
            }
            completion.complete(Ok(whole));
        };
        self.set.rt.spawn(reading).detach();
        future
    }

    /// A range of the array, gathered under the lock of its rows.
    async fn gather_array(
        &self,
        range: Range<u64>,
        priority: Priority,
    ) -> Result<SgList, IoErrorKind> {
        let row_bytes = self.map.row_bytes();
        let rows = range.start / row_bytes..range.end.div_ceil(row_bytes);
        let _guard = self.locks.exclusive(rows.clone()).await;
        let mut known = self.nothing_known();
        for row in rows {
            if let Some(cached) = self.cache.borrow().look(row) {
                for (slot, cached) in cached {
                    cached.iter().for_each(|(at, data)| known[*slot].insert(at, data.clone()));
                }
            }
        }
        let mut wants = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (place, rest) = self.map.locate(at);
            let piece = rest.min(range.end - at);
            wants.push((place.slot, place.at..place.at + piece));
            at += piece;
        }
        self.gather(&wants, &mut known, priority).await?;
        let mut whole = SgList::new();
        for (slot, places) in &wants {
            whole.append(known[*slot].get(places).expect("what was gathered is known"));
        }
        Ok(whole)
    }
}
