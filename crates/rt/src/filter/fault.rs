//! Misbehaves by rules: errors, latency, corruption, and writes that are lost, torn or misdirected.
//!
//! A [`Rule`] is an [`Effect`] and when it strikes: on which kinds of request, in which range, after
//! how many matching requests, from which moment, with which probability, how often at the most. Every
//! condition must hold. Rules are added and removed while the device runs, and each counts its hits, so
//! that a test can claim that the fault it wanted did happen.
//!
//! **Together.** All rules are asked, in the order of adding, and the effects of those that strike are
//! combined: delays add up; corruption, tearing, misdirection and loss change what is passed down, in
//! this order; then a failure is answered, whatever was done. A read that fails is not passed down; a
//! write that fails is passed down only where another rule says what became of it (torn *and* failed: a
//! write interrupted half-way).
//!
//! **Silent** effects answer as if all were well; that is their point. Write-zeroes is corrupted, torn
//! and misdirected like a write. A discard can be lost, delayed or failed.
//!
//! It doesn't lose unflushed writes ([`PowerCut`](crate::filter::PowerCut) does) and doesn't model why
//! disks fail.

mod rule;

pub use rule::{Effect, Misdirection, Rule};

use crate::buf::BufMut;
use crate::device::{
    Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, Op, OpKind, Request,
};
use crate::executor::Rt;
use crate::sg::SgList;
use rule::Armed;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

/// Names a rule of one [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(usize);

/// See the [module](self).
pub struct Fault {
    below: DeviceRef,
    rt: Rt,
    rules: Rc<Rules>,
}

struct Rules {
    armed: RefCell<Vec<Armed>>,
    prng: RefCell<Prng>,
    gone: Cell<bool>,
}

/// What becomes of one request.
#[derive(Default)]
struct Fate {
    delay: Duration,
    failure: Option<IoErrorKind>,
    read_flips: Vec<(Range<u64>, u32)>,
    write_flips: Vec<(Range<u64>, u32)>,
    torn: Vec<Range<u64>>,
    misdirection: Option<Misdirection>,
    lost: bool,
}

impl Fault {
    /// `below` with no rules yet.
    pub fn new(below: DeviceRef, rt: &Rt, prng: Prng) -> Rc<Fault> {
        let rules =
            Rules { armed: RefCell::default(), prng: RefCell::new(prng), gone: Cell::new(false) };
        Rc::new(Fault { below, rt: rt.clone(), rules: Rc::new(rules) })
    }

    /// Adds a rule.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut armed = self.rules.armed.borrow_mut();
        armed.push(Armed::new(rule, self.below.geometry().capacity));
        RuleId(armed.len() - 1)
    }

    /// Ends a rule. Its hits stay; a device that it made go away stays away until
    /// [`come_back`](Fault::come_back).
    pub fn remove(&self, rule: RuleId) {
        self.rules.armed.borrow_mut()[rule.0].removed = true;
    }

    /// How often a rule has struck.
    pub fn hits(&self, rule: RuleId) -> u64 {
        self.rules.armed.borrow()[rule.0].hits
    }

    /// The device answers nothing any more, from this moment on; requests in flight fail too.
    pub fn go_away(&self) {
        self.rules.gone.set(true);
    }

    /// The device answers again, with what it held.
    pub fn come_back(&self) {
        self.rules.gone.set(false);
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        self.rules.gone.get()
    }

    /// Asks all rules, and counts their hits.
    fn fate_of(&self, request: &Request) -> Fate {
        let now = self.rt.now();
        let mut prng = self.rules.prng.borrow_mut();
        let mut fate = Fate::default();
        for armed in self.rules.armed.borrow_mut().iter_mut() {
            let Some(hit) = armed.strikes(request, now, &mut prng) else { continue };
            match armed.rule.effect {
                Effect::Fail(kind) => fate.failure = fate.failure.or(Some(kind)),
                Effect::Unreadable => fate.failure = fate.failure.or(Some(IoErrorKind::Medium)),
                Effect::Gone => self.rules.gone.set(true),
                Effect::Delay(span) => fate.delay += span,
                Effect::FlipReadBits(bits) => fate.read_flips.push((hit, bits)),
                Effect::FlipWriteBits(bits) => fate.write_flips.push((hit, bits)),
                Effect::Tear => fate.torn.push(hit),
                Effect::Misdirect(where_to) => fate.misdirection = Some(where_to),
                Effect::Lose => fate.lost = true,
            }
        }
        fate
    }

    /// What is passed down instead of `request`.
    fn parts_of(&self, request: Request, fate: &Fate) -> Vec<Request> {
        let tampered =
            !fate.write_flips.is_empty() || !fate.torn.is_empty() || fate.misdirection.is_some();
        if fate.lost || fate.failure.is_some() && (!tampered || request.kind() == OpKind::Read) {
            return Vec::new();
        }
        if !tampered {
            return vec![request];
        }
        let Request { op, offset, priority } = request;
        let (mut data, fua) = match op {
            Op::Write { data, fua } => (data, fua),
            Op::WriteZeroes(len) => (SgList::zeros(len.as_usize()), false),
            Op::Read(_) | Op::Flush | Op::Discard(_) => {
                unreachable!("rules tamper with writes only")
            }
        };
        let prng = &mut *self.rules.prng.borrow_mut();
        for (range, bits) in &fate.write_flips {
            data = with_flipped_bits(&data, offset, range, *bits, prng);
        }
        let block = self.below.geometry().logical_block;
        let mut kept = vec![true; (ByteCount(data.len() as u64) / block) as usize];
        for range in &fate.torn {
            tear(&mut kept, offset, range, block, prng);
        }
        let mut target = offset;
        if let Some(where_to) = fate.misdirection {
            let room = self.below.geometry().capacity - ByteCount(data.len() as u64);
            target = where_to.target(room, block, prng);
        }
        runs(&kept)
            .map(|run| {
                let at = target + block * run.start as u64;
                let block = block.as_usize();
                let data = data.slice(run.start * block..run.end * block);
                Request { op: Op::Write { data, fua }, offset: at, priority }
            })
            .collect()
    }
}

/// `data`, which lies at `at`, with so many bits flipped within `range` of the device. Bits are drawn
/// one by one; the same bit twice is no flip, so an odd count always changes something.
fn with_flipped_bits(
    data: &SgList,
    at: Offset,
    range: &Range<u64>,
    bits: u32,
    prng: &mut Prng,
) -> SgList {
    let mut bytes = BufMut::for_overwrite(data.len());
    data.copy_to(&mut bytes);
    let target = &mut bytes[(range.start - at.bytes()) as usize..(range.end - at.bytes()) as usize];
    for _ in 0..bits {
        let bit = prng.below(target.len() as u64 * 8);
        target[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
    bytes.into()
}

/// Marks some of the blocks in `range` as not written: at least one of them, and not the whole write. A
/// write of one block can't be torn.
fn tear(kept: &mut [bool], at: Offset, range: &Range<u64>, block: ByteCount, prng: &mut Prng) {
    let first = (range.start.saturating_sub(at.bytes()) / block.bytes()) as usize;
    let last = (range.end - at.bytes()).div_ceil(block.bytes()) as usize;
    if kept.len() < 2 {
        return;
    }
    let in_range = last - first;
    let survivor = prng.below(kept.len() as u64) as usize;
    for block in &mut kept[first..last] {
        *block &= prng.chance(0.5);
    }
    kept[first + prng.below(in_range as u64) as usize] = false;
    if !kept.contains(&true) {
        kept[survivor] = true;
    }
}

/// The runs of `true`, as ranges of indexes.
fn runs(kept: &[bool]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    kept.chunk_by(|a, b| a == b).filter_map(move |run| {
        let range = start..start + run.len();
        start = range.end;
        run[0].then_some(range)
    })
}

impl Rules {
    /// Whether the device is gone, or goes at this moment by a rule that knows only the time.
    fn is_gone(&self, rt: &Rt) -> bool {
        let due = |armed: &mut Armed| armed.is_due_alone(rt.now());
        if !self.gone.get() && self.armed.borrow_mut().iter_mut().any(due) {
            self.gone.set(true);
        }
        self.gone.get()
    }

    /// Makes what was written readable again.
    fn heal(&self, offset: Offset, len: ByteCount) {
        for armed in self.armed.borrow_mut().iter_mut() {
            armed.heal(offset, len);
        }
    }
}

impl Device for Fault {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let failed = IoError::of(&request, self, IoErrorKind::Gone);
        if self.rules.is_gone(&self.rt) {
            return IoFuture::ready(Err(failed));
        }
        let fate = self.fate_of(&request);
        if self.rules.gone.get() {
            return IoFuture::ready(Err(failed));
        }
        let parts = self.parts_of(request, &fate);
        let (below, rt, rules) = (Rc::clone(&self.below), self.rt.clone(), Rc::clone(&self.rules));
        let sleep = (fate.delay > Duration::ZERO).then(|| rt.sleep(fate.delay));
        IoFuture::new(async move {
            if let Some(sleep) = sleep {
                sleep.await;
            }
            let mut answer = SgList::new();
            for part in parts {
                let (kind, offset, len) = (part.kind(), part.offset, part.len());
                let result = below.submit(part).await;
                if rules.is_gone(&rt) {
                    return Err(failed);
                }
                answer = result?;
                if matches!(kind, OpKind::Write | OpKind::WriteZeroes) {
                    rules.heal(offset, len);
                }
            }
            if rules.is_gone(&rt) {
                return Err(failed);
            }
            if let Some(kind) = fate.failure {
                return Err(IoError { kind, ..failed });
            }
            let prng = &mut *rules.prng.borrow_mut();
            for (range, bits) in &fate.read_flips {
                answer = with_flipped_bits(&answer, failed.offset, range, *bits, prng);
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests;
