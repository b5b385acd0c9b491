//! A rule of a faulty device: what happens, and when.
//!
//! The conditions of a rule are asked in this order: kind, range, moment, hits so far, the count of
//! matching requests, probability. So "after 10 writes to this range" counts only such writes, and
//! chance is drawn last, once for each request that meets all else.

use crate::device::{IoErrorKind, OpKind, Request};
use std::ops::Range;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset, Prng};

/// What a rule does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It fails with this error and is not done.
    Fail(IoErrorKind),
    /// The rule's range can't be read ([`IoErrorKind::Medium`]) until it is written; what was written
    /// is readable again, sector by sector.
    Unreadable,
    /// The device answers nothing any more ([`IoErrorKind::Gone`]), this request and all others, also
    /// those in flight. Strikes once.
    Gone,
    /// It takes so much longer.
    Delay(Duration),
    /// Silently, so many random bits of the data that a read returns are flipped; the medium is good.
    FlipReadBits(u32),
    /// Silently, so many random bits of the data that a write leaves on the medium are flipped.
    FlipWriteBits(u32),
    /// Silently, only some of a write's sectors are written. A write of one sector is never torn.
    Tear,
    /// Silently, a write goes to another place.
    Misdirect(Misdirection),
    /// Silently, it is answered and not done: a lost write, or a flush that lies.
    Lose,
}

/// Where a misdirected write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdirection {
    /// To this place, or as near as the end of the device allows.
    To(Offset),
    /// To a random place on the device.
    Anywhere,
}

impl Misdirection {
    /// The place, on a device with so much room before the last place where the write fits.
    pub(super) fn target(self, room: ByteCount, block: ByteCount, prng: &mut Prng) -> Offset {
        match self {
            Misdirection::To(offset) => offset.min(Offset::ZERO + room).round_down(block),
            Misdirection::Anywhere => Offset::ZERO + block * prng.below(room / block + 1),
        }
    }
}

/// An [`Effect`] and its conditions. Without conditions it strikes every request that it can concern.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) effect: Effect,
    kinds: Vec<OpKind>,
    range: Option<Range<u64>>,
    skip: u64,
    from: Option<Instant>,
    probability: f64,
    hits_max: u64,
}

impl Rule {
    /// This effect, on every request of the kinds that it can concern.
    pub fn new(effect: Effect) -> Rule {
        use OpKind::{Discard, Flush, Read, Write, WriteZeroes};
        let kinds = match effect {
            Effect::Fail(_) | Effect::Gone | Effect::Delay(_) => {
                vec![Read, Write, Flush, Discard, WriteZeroes]
            }
            Effect::Unreadable | Effect::FlipReadBits(_) => vec![Read],
            Effect::FlipWriteBits(_) | Effect::Tear | Effect::Misdirect(_) => {
                vec![Write, WriteZeroes]
            }
            Effect::Lose => vec![Write, Discard, WriteZeroes],
        };
        // A device that came back does not go again by the same rule.
        let hits_max = if effect == Effect::Gone { 1 } else { u64::MAX };
        Rule { effect, kinds, range: None, skip: 0, from: None, probability: 1.0, hits_max }
    }

    /// Only on requests of these kinds.
    ///
    /// # Panics
    /// If the effect can't concern one of them. A flush can be lost, but only when it is named here.
    pub fn on(mut self, kinds: &[OpKind]) -> Rule {
        let possible = |kind| {
            self.kinds.contains(kind) || self.effect == Effect::Lose && *kind == OpKind::Flush
        };
        assert!(kinds.iter().all(possible), "{:?} concerns {:?} only", self.effect, self.kinds);
        self.kinds = kinds.to_vec();
        self
    }

    /// Only on requests that touch this range; corruption and tearing stay within it. A flush touches
    /// no range.
    pub fn within(mut self, start: Offset, len: ByteCount) -> Rule {
        self.range = Some(start.bytes()..(start + len).bytes());
        self
    }

    /// Only after so many requests that met the other conditions.
    pub fn after(mut self, requests: u64) -> Rule {
        self.skip = requests;
        self
    }

    /// Only from this moment on.
    pub fn from(mut self, moment: Instant) -> Rule {
        self.from = Some(moment);
        self
    }

    /// Only with this probability, 0 to 1.
    pub fn with_probability(mut self, probability: f64) -> Rule {
        self.probability = probability;
        self
    }

    /// At most so many times.
    pub fn at_most(mut self, times: u64) -> Rule {
        self.hits_max = times;
        self
    }
}

/// A rule at work.
pub(super) struct Armed {
    pub(super) rule: Rule,
    pub(super) hits: u64,
    pub(super) removed: bool,
    matched: u64,
    /// What can't be read, of a rule that makes things unreadable.
    unreadable: Vec<Range<u64>>,
}

impl Armed {
    pub(super) fn new(rule: Rule, capacity: ByteCount) -> Armed {
        let unreadable = match rule.effect {
            Effect::Unreadable => vec![rule.range.clone().unwrap_or(0..capacity.bytes())],
            _ => Vec::new(),
        };
        Armed { rule, hits: 0, removed: false, matched: 0, unreadable }
    }

    /// Whether the rule strikes this request, and which part of it.
    pub(super) fn strikes(
        &mut self,
        request: &Request,
        now: Instant,
        prng: &mut Prng,
    ) -> Option<Range<u64>> {
        let rule = &self.rule;
        let asked = request.offset.bytes()..(request.offset + request.len()).bytes();
        let hit = match &rule.range {
            Some(range) => overlap(range, &asked)?,
            None if asked.is_empty() && request.kind() != OpKind::Flush => return None,
            None => asked.clone(),
        };
        let healed = rule.effect == Effect::Unreadable
            && !self.unreadable.iter().any(|range| overlap(range, &asked).is_some());
        if self.removed
            || healed
            || !rule.kinds.contains(&request.kind())
            || rule.from.is_some_and(|from| now < from)
            || self.hits >= rule.hits_max
        {
            return None;
        }
        self.matched += 1;
        if self.matched <= rule.skip || rule.probability < 1.0 && !prng.chance(rule.probability) {
            return None;
        }
        self.hits += 1;
        Some(hit)
    }

    /// Whether it is a rule by which the device goes at a moment, with no other condition, and that
    /// moment has come. Counts as a hit, once.
    pub(super) fn is_due_alone(&mut self, now: Instant) -> bool {
        let rule = &self.rule;
        let due = rule.effect == Effect::Gone
            && !self.removed
            && self.hits < rule.hits_max
            && rule.from.is_some_and(|from| from <= now)
            && rule.kinds.len() == 5
            && rule.range.is_none()
            && rule.skip == 0
            && rule.probability >= 1.0;
        self.hits += u64::from(due);
        due
    }

    /// Makes a range readable.
    pub(super) fn heal(&mut self, offset: Offset, len: ByteCount) {
        if self.unreadable.is_empty() {
            return;
        }
        let (from, to) = (offset.bytes(), (offset + len).bytes());
        let pieces = self
            .unreadable
            .iter()
            .flat_map(|bad| [bad.start..bad.end.min(from), bad.start.max(to)..bad.end]);
        self.unreadable = pieces.filter(|bad| !bad.is_empty()).collect();
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}
