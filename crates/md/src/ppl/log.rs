//! The partial parity log, written: RAID 5, in md's form.
//!
//! Each member has a log in a space of its own. A row is logged on the member that has its parity, so a lost
//! member takes with it only the log of rows whose parity is lost too. A record is a header, which lists entries
//! (what is written, and where), and the partial parities of the entries, one after another. The format stands
//! in [`superblock::ppl`](crate::superblock::ppl), the way back in `recovery`.
//!
//! **One record a member at a time.** The last record is the only one that counts. So the next is written only
//! when all rows of the last were written and, where members have volatile caches, were flushed. Writes that
//! come meanwhile wait and ride in the next record together.
//!
//! **Where.** A space that holds several records (bit 11) is filled from its start to its end, and then anew,
//! so that a torn record leaves the one before it whole. Otherwise (bit 10) each record lies at the start.
//!
//! **Emptied first.** What stands in a log that this opening did not write is of an earlier life: rows that were
//! written since without it, or records with a greater generation. It is taken away before the first record, the
//! header at the start first, since reading begins there: from then on nothing behind it counts.
//!
//! **Doubt.** While parity is not known to be right everywhere, each record begins with an entry of nothing whose
//! checksum is wrong. Who reads the log repairs the rows that it names and then does not take the set for clean,
//! as a log without a mismatch would have it.
//!
//! **No deadlock.** A write over rows of several members joins all their logs in one step. So the records of any
//! two members have the writes that they share in the same order, and a write waits only for earlier ones.
//!
//! **A log that can't be written** fails its member, as md does: then its rows have no parity, and no hole.
//!
//! Source: Linux `drivers/md/raid5-ppl.c` (`ppl_log_stripe`, `ppl_submit_iounit`, `ppl_write_empty_header`).

use super::format::{ENTRIES_MAX, Entry, Header};
use super::space::{PARTIAL_BYTES, Space};
use crate::layout::Place;
use crate::layout::parity::ParityMap;
use crate::loss::{Cause, Metadata};
use crate::member::{DeviceId, MemberState};
use crate::set::Set;
use crate::superblock::SECTOR;
use crate::write_log::{Beginning, Held, STRETCHES_MAX, Stretch, WriteLog};
use rt::sync::{Mutex, oneshot};
use rt::{Buf, IoError, Request, SgList};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::ByteCount;

/// One entry of a header is kept for doubt.
const RECORD_ENTRIES_MAX: usize = ENTRIES_MAX - 1;
const _: () = assert!(STRETCHES_MAX <= RECORD_ENTRIES_MAX, "a call fits a record");

/// See the [module](self).
pub(crate) struct PartialParityLog {
    set: Rc<Set>,
    map: ParityMap,
    signature: u32,
    /// By the name of the device's data area, which is one shared piece of memory.
    spaces: RefCell<Vec<(Arc<str>, Space)>>,
    partial_max: u64,
    logs: Vec<MemberLog>,
    myself: Weak<PartialParityLog>,
}

/// The log of the member in one slot.
#[derive(Default)]
struct MemberLog {
    waiting: RefCell<VecDeque<Waiting>>,
    /// A task writes records as long as somebody waits.
    running: Cell<bool>,
    /// Rows of the last record may lie in the members' caches.
    unflushed: Cell<bool>,
    /// Held by whoever writes into the space.
    head: Mutex<Head>,
}

/// Where a log is.
#[derive(Default)]
struct Head {
    /// The device whose space was emptied.
    emptied: Option<DeviceId>,
    generation: u64,
    /// Where the next record goes, from the space's start.
    at: u64,
}

/// Entries that are to be in one record, and who waits for it.
struct Waiting {
    entries: Vec<(Entry, Option<SgList>)>,
    grant: oneshot::Sender<oneshot::Sender<()>>,
}

impl Waiting {
    fn partial_bytes(&self) -> u64 {
        self.entries.iter().map(|(entry, _)| u64::from(entry.parity_bytes)).sum()
    }
}

impl PartialParityLog {
    /// The logs of a set, in the spaces of its members and spares.
    pub(crate) fn new(
        set: &Rc<Set>,
        map: &ParityMap,
        signature: u32,
        spaces: Vec<(Arc<str>, Space)>,
    ) -> Rc<PartialParityLog> {
        let partial_max =
            spaces.iter().map(|(_, space)| space.partial_max()).min().unwrap_or(PARTIAL_BYTES);
        Rc::new_cyclic(|myself| PartialParityLog {
            set: Rc::clone(set),
            map: map.clone(),
            signature,
            spaces: RefCell::new(spaces),
            partial_max,
            logs: (0..map.disks).map(|_| MemberLog::default()).collect(),
            myself: myself.clone(),
        })
    }

    /// Notes the space of a device that was added.
    pub(crate) fn add(&self, area: Arc<str>, space: Space) {
        self.spaces.borrow_mut().push((area, space));
    }

    /// Forgets the space of a device that left the set, and with it the device.
    pub(crate) fn forget(&self, area: &Arc<str>) {
        self.spaces.borrow_mut().retain(|(name, _)| !Arc::ptr_eq(name, area));
    }

    /// Empties the logs of devices that hold nothing of the array.
    pub(crate) async fn empty_spares(&self) -> Result<(), IoError> {
        let members: Vec<Arc<str>> =
            self.set.members.devices().map(|(_, _, device)| device.name()).collect();
        let spares: Vec<Arc<str>> =
            self.set.members.spares().into_iter().map(|device| device.name()).collect();
        let is_spare = |name: &Arc<str>| {
            let same = |other: &Arc<str>| Arc::ptr_eq(other, name);
            spares.iter().any(same) && !members.iter().any(same)
        };
        let mut empty = Vec::new();
        for (name, space) in &*self.spaces.borrow() {
            if is_spare(name) {
                empty.push(space.clone());
            }
        }
        for space in empty {
            space.empty(self.signature).await?;
        }
        Ok(())
    }

    /// The space of the device that stands in a slot now.
    fn space(&self, slot: usize) -> Option<(DeviceId, Space)> {
        let members = &self.set.members;
        if !matches!(members.state(slot), MemberState::Active | MemberState::Rebuilding) {
            return None;
        }
        let id = members.id(slot);
        let (_, _, device) = members.devices().find(|(_, other, _)| *other == id)?;
        let (spaces, name) = (self.spaces.borrow(), device.name());
        let (_, space) = spaces.iter().find(|(area, _)| Arc::ptr_eq(area, &name))?;
        Some((id, space.clone()))
    }

    async fn ready(&self, head: &mut Head, id: DeviceId, space: &Space) -> Result<(), IoError> {
        if head.emptied != Some(id) {
            space.empty(self.signature).await?;
            *head = Head { emptied: Some(id), ..Head::default() };
        }
        Ok(())
    }

    /// The entry of a stretch; none where it has no parity in use.
    fn entry(&self, stretch: &Stretch) -> Option<(usize, Entry)> {
        let (parity_slot, _) = stretch.parity.first()?;
        let row = self.map.row(stretch.row);
        let index = |(slot, _): &(usize, SgList)| self.map.data_index(&row, *slot);
        let first = stretch.data.iter().filter_map(index).min()?;
        let slot = self.map.data_slot(&row, first);
        let byte = self.map.array_byte(Place { slot, at: stretch.places.start })?;
        let len = stretch.places.end - stretch.places.start;
        let entry = Entry {
            data_sector: byte / SECTOR,
            parity_bytes: stretch.partial.as_ref().map_or(0, |partial| partial.len() as u32),
            data_bytes: (len * stretch.data.len() as u64) as u32,
            parity_slot: *parity_slot as u32,
            checksum: 0,
        };
        Some((*parity_slot, entry))
    }

    /// Puts entries down for a slot's next record.
    fn put_down(
        &self,
        slot: usize,
        entries: Vec<(Entry, Option<SgList>)>,
    ) -> oneshot::Receiver<oneshot::Sender<()>> {
        let (grant, granted) = oneshot::channel();
        let log = &self.logs[slot];
        log.waiting.borrow_mut().push_back(Waiting { entries, grant });
        if !log.running.replace(true)
            && let Some(this) = self.myself.upgrade()
        {
            self.set.rt.spawn(async move { this.run(slot).await }).detach();
        }
        granted
    }

    /// Writes records of a slot as long as somebody waits.
    async fn run(&self, slot: usize) {
        let log = &self.logs[slot];
        loop {
            if log.waiting.borrow().is_empty() {
                log.running.set(false);
                return;
            }
            if log.unflushed.replace(false) {
                self.set.members.flush_caches().await;
            }
            let record = self.take_record(slot);
            self.write_record(slot, &record).await;
            let mut ends = Vec::with_capacity(record.len());
            for waiting in record {
                let (held, end) = oneshot::channel();
                if waiting.grant.send(held).is_ok() {
                    ends.push(end);
                }
            }
            for end in ends {
                // Nothing is ever sent: it ends when the other side is dropped.
                let _ = end.await;
            }
            log.unflushed.set(true);
        }
    }

    /// Those that wait, as many as one record takes.
    fn take_record(&self, slot: usize) -> Vec<Waiting> {
        let mut waiting = self.logs[slot].waiting.borrow_mut();
        let (mut record, mut entries, mut bytes) = (Vec::new(), 0, 0);
        while let Some(next) = waiting.front() {
            entries += next.entries.len();
            bytes += next.partial_bytes();
            let fits = entries <= RECORD_ENTRIES_MAX && bytes <= self.partial_max;
            if !fits && !record.is_empty() {
                break;
            }
            record.extend(waiting.pop_front());
        }
        record
    }

    async fn write_record(&self, slot: usize, record: &[Waiting]) {
        let Some((id, space)) = self.space(slot) else { return };
        let mut head = self.logs[slot].head.lock().await;
        let mut written = self.ready(&mut head, id, &space).await;
        if written.is_ok() {
            let bytes = self.record(slot, record, head.generation + 1);
            let len = bytes.len() as u64;
            assert!(len <= space.bytes, "a record fits the space of its log");
            if head.at + len > space.bytes {
                head.at = 0;
            }
            let request = Request::write_fua(space.at + ByteCount(head.at), bytes);
            written = space.device.submit(request).await.map(|_| ());
            head.generation += 1;
            head.at = if space.holds_several() { head.at + len } else { 0 };
        }
        if let Err(error) = written {
            let cause = Cause::Metadata { what: Metadata::PartialParityLog, kind: error.kind };
            self.set.members.write_failed(slot, id, cause, |_| false);
        }
    }

    /// A record's bytes.
    fn record(&self, slot: usize, record: &[Waiting], generation: u64) -> SgList {
        let mut entries = Vec::new();
        let mut partials = SgList::new();
        if !self.set.all_clean() {
            let nothing = Entry {
                data_sector: 0,
                parity_bytes: 0,
                data_bytes: 0,
                parity_slot: slot as u32,
                checksum: 0,
            };
            let right = nothing.with_checksum_of(&[]);
            entries.push(Entry { checksum: !right.checksum, ..right });
        }
        for (entry, partial) in record.iter().flat_map(|waiting| &waiting.entries) {
            let bytes = partial.as_ref().map(SgList::to_vec).unwrap_or_default();
            entries.push(entry.with_checksum_of(&bytes));
            if let Some(partial) = partial {
                partials.append(partial.clone());
            }
        }
        let header = Header { signature: self.signature, generation, entries };
        let header = header.encode().expect("a record has no more entries than a header takes");
        let mut bytes = SgList::from(Buf::copy_of(&header));
        bytes.append(partials);
        bytes
    }
}

impl WriteLog for PartialParityLog {
    fn partial_max(&self) -> Option<u64> {
        Some(self.partial_max)
    }

    fn page(&self) -> Option<u64> {
        None
    }

    fn rows_max(&self) -> u64 {
        STRETCHES_MAX as u64
    }

    fn begin(&self, stretches: &[Stretch]) -> Beginning {
        let mut by_slot: BTreeMap<usize, Vec<(Entry, Option<SgList>)>> = BTreeMap::new();
        for stretch in stretches {
            if let Some((slot, entry)) = self.entry(stretch) {
                by_slot.entry(slot).or_default().push((entry, stretch.partial.clone()));
            }
        }
        // In one step, nothing awaited: see the head of this file.
        let granted: Vec<_> =
            by_slot.into_iter().map(|(slot, entries)| self.put_down(slot, entries)).collect();
        Box::pin(async move {
            let mut held = Held::default();
            for granted in granted {
                held.0.extend(granted.await);
            }
            Ok(held)
        })
    }
}
