//! What was changed and may have to be logged: in memory, until somebody wants it durable or its group is in the pool.
//!
//! ```text
//!   due       names made, moved and removed: written at the next commit, whoever asks
//!   waiting   bytes and attributes of an object: written when somebody asks for that object
//! ```
//!
//! Both are written in the order in which they came. What waits for an object becomes due before the object gets another name,
//! so that a program that writes a file and renames it over another finds one or the other after a crash, whole; and is forgotten
//! with the object's last name: its number may be given to another.
//!
//! Bytes are not kept: a record of a write says where, and they are fetched when it is written. They may be younger by then; what
//! made them so comes later in the log, or isn't durable yet.
//!
//! A change that no record can say (an exchange of names, extended attributes where the pool has no record for them) is noted as
//! [`What::Whole`]: until its group is in the pool, who wants anything durable commits the group.
//!
//! Source: OpenZFS, `zil.c` (`zil_itx_assign`, `zil_async_to_sync`, `zil_remove_async`), `zfs_log.c`.

use std::collections::BTreeMap;
use stdx::planted::{self, Bug};
use zfs_format::zil::record::Body;

/// Bytes of writes that are taken together: what is fetched at once when they are logged.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// What a change was.
pub enum What {
    /// This record says it.
    Record(Box<(Body, Vec<u8>)>),
    /// Bytes were written there.
    Write {
        /// Where, in bytes.
        at: u64,
        /// How many.
        len: u64,
    },
    /// No record says it.
    Whole,
    /// The object has no name any more: what waits for it needs no record.
    Forgotten,
}

/// An intent: a change, and how urgent its record is.
pub struct Itx {
    /// The object that it is about.
    pub object: u64,
    /// Its record waits until somebody asks for the object.
    pub waits: bool,
    /// What it was.
    pub what: What,
}

/// An intent in its place.
pub(super) struct Queued {
    pub(super) txg: u64,
    /// Counts those that came.
    arrival: u64,
    pub(super) itx: Itx,
}

/// Intents that are neither logged nor in the pool.
#[derive(Default)]
pub(super) struct Queue {
    due: Vec<Queued>,
    waiting: BTreeMap<u64, Vec<Queued>>,
    arrived: u64,
    /// The last group with a change that no record says.
    whole: u64,
}

impl Queue {
    pub(super) fn push(&mut self, txg: u64, itx: Itx) {
        match itx.what {
            What::Whole => {
                assert!(self.whole <= txg, "groups come in order");
                self.whole = txg;
                return;
            }
            What::Forgotten => return drop(self.waiting.remove(&itx.object)),
            What::Write { at, len } => {
                if let Some(Queued { txg: known, itx: before, .. }) =
                    self.waiting.get_mut(&itx.object).and_then(|all| all.last_mut())
                    && let What::Write { at: from, len: so_far } = &mut before.what
                    && itx.waits
                    && *known == txg
                    && (*from + *so_far == at
                        || *from + *so_far < at && planted::is(Bug::JoinedOverGap))
                    && *so_far + len <= WRITE_BYTES_MAX
                {
                    *so_far += len;
                    self.arrived += 1;
                    return;
                }
            }
            What::Record(_) => {}
        }
        self.arrived += 1;
        let queued = Queued { txg, arrival: self.arrived, itx };
        match queued.itx.waits {
            true => self.waiting.entry(queued.itx.object).or_default().push(queued),
            false => {
                if !planted::is(Bug::BytesBehindName) {
                    self.promote(Some(queued.itx.object));
                }
                self.due.push(queued);
            }
        }
    }

    /// What waits for an object, or for any, is due.
    pub(super) fn promote(&mut self, object: Option<u64>) {
        match object {
            Some(object) => self.due.extend(self.waiting.remove(&object).unwrap_or_default()),
            None => self.due.extend(std::mem::take(&mut self.waiting).into_values().flatten()),
        }
    }

    /// How many came until now.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether something that came until then is due and not written.
    pub(super) fn has_due(&self, until: u64) -> bool {
        self.due.iter().any(|queued| queued.arrival <= until)
    }

    /// Whether a change after this group is one that no record says.
    pub(super) fn needs_group(&self, synced: u64) -> bool {
        self.whole > synced
    }

    /// All that is due, in the order in which it came.
    pub(super) fn take_due(&mut self) -> Vec<Queued> {
        let mut due = std::mem::take(&mut self.due);
        due.sort_by_key(|queued| queued.arrival);
        due
    }

    /// What was taken is not written.
    pub(super) fn put_back(&mut self, due: Vec<Queued>, synced: u64) {
        self.due.extend(due.into_iter().filter(|queued| queued.txg > synced));
    }

    /// A group is in the pool: its changes need no record.
    pub(super) fn committed(&mut self, txg: u64) {
        self.due.retain(|queued| queued.txg > txg);
        self.waiting.retain(|_, all| {
            all.retain(|queued| queued.txg > txg);
            !all.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::zil::record::{Remove, Truncate};

    fn write(object: u64, at: u64) -> Itx {
        Itx { object, waits: true, what: What::Write { at, len: 10 } }
    }

    fn name(object: u64) -> Itx {
        let body = Body::Remove(Remove { directory: object });
        Itx { object, waits: false, what: What::Record(Box::new((body, Vec::new()))) }
    }

    fn objects(queue: &mut Queue) -> Vec<u64> {
        queue.take_due().iter().map(|queued| queued.itx.object).collect()
    }

    #[test]
    fn what_waits_goes_with_its_object_in_order() {
        let mut queue = Queue::default();
        queue.push(7, write(1, 0));
        queue.push(7, name(2));
        queue.push(7, write(3, 0));
        queue.push(8, write(1, 50));
        assert!(queue.has_due(queue.arrived()) && !queue.has_due(1));
        queue.promote(Some(1));
        assert_eq!(objects(&mut queue), [1, 2, 1]);
        // A name takes along what waits for its object.
        queue.push(8, name(3));
        assert_eq!(objects(&mut queue), [3, 3]);
        queue.push(8, write(4, 0));
        queue.push(8, Itx { object: 4, waits: true, what: What::Forgotten });
        queue.promote(None);
        assert_eq!(objects(&mut queue), [0; 0]);
    }

    #[test]
    fn writes_that_follow_each_other_are_one_and_a_group_takes_its_own() {
        let mut queue = Queue::default();
        let cut = Body::Truncate(Truncate { object: 1, offset: 0, length: 5 });
        queue.push(7, write(1, 0));
        queue.push(7, write(1, 10));
        queue.push(8, write(1, 20));
        queue.push(8, Itx { object: 1, waits: true, what: What::Record(Box::new((cut, vec![]))) });
        queue.push(8, write(1, 30));
        queue.promote(None);
        let due = queue.take_due();
        assert_eq!(due.len(), 4);
        assert!(matches!(due[0].itx.what, What::Write { at: 0, len: 20 }));
        queue.put_back(due, 0);
        queue.push(8, Itx { object: 0, waits: false, what: What::Whole });
        assert!(queue.needs_group(7));
        queue.committed(7);
        assert_eq!(queue.take_due().len(), 3);
        queue.committed(8);
        assert!(!queue.needs_group(8) && !queue.has_due(queue.arrived()));
    }
}
