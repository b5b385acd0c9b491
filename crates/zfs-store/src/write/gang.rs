//! How a block is divided that finds no place in one piece.
//!
//! ```text
//!   block    one place a copy
//!   gang     a header, which lists up to three parts ── each a block, or a gang again
//! ```
//!
//! Places are taken for all of it before anything is written: where one is missing, all go back, and nothing was done.
//!
//! A header is stored once more than what it leads to, so that all of the gang is found and can be freed where a copy is damaged. What
//! a place of a gang counts is its header and what of the parts has the same number among their copies.
//!
//! Source: OpenZFS, `zio.c` (`zio_write_gang_block`, `zio_write_gang_member_ready`).

use crate::zio::GANG_DEPTH_MAX;
use zfs_format::block_pointer::Dva;
use zfs_format::gang;

/// Copies of anything at the most.
const COPIES_MAX: usize = 3;

/// A block or a gang, with the places that were taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Bytes that are stored of it.
    pub(super) size: u64,
    /// Its places; a gang's are those of its header.
    pub(super) places: Vec<Dva>,
    /// What a gang lists; nothing of a block.
    pub(super) parts: Vec<Part>,
}

/// What a place is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// Bytes of a block.
    Bytes,
    /// A header: it is as short as anything is.
    Header,
}

/// Whoever gives places: so many bytes, so many copies; or nothing.
pub(super) type Take<'a> = dyn FnMut(For, u64, usize) -> Option<Vec<Dva>> + 'a;

impl Part {
    /// A block in one piece.
    pub(super) fn whole(size: u64, places: Vec<Dva>) -> Part {
        Part { size, places, parts: Vec::new() }
    }

    /// Takes places for a block, in pieces that are multiples of a unit where need be. What was taken for nothing comes back.
    pub(super) fn take(
        size: u64,
        unit: u64,
        copies: usize,
        take: &mut Take<'_>,
    ) -> Result<Part, Vec<Dva>> {
        let mut taken = Vec::new();
        Part::within(size, (unit, copies, 0), take, &mut taken).ok_or(taken)
    }

    fn within(
        size: u64,
        (unit, copies, depth): (u64, usize, usize),
        take: &mut Take<'_>,
        taken: &mut Vec<Dva>,
    ) -> Option<Part> {
        if let Some(places) = take(For::Bytes, size, copies) {
            taken.extend(&places);
            return Some(Part::whole(size, places));
        }
        // What is as short as can be isn't divided.
        if depth >= GANG_DEPTH_MAX || size <= unit {
            return None;
        }
        let headers = take(For::Header, gang::BYTES as u64, (copies + 1).min(COPIES_MAX))?;
        taken.extend(&headers);
        let (mut parts, mut left) = (Vec::with_capacity(gang::PIECES), size);
        while left > 0 {
            let among = (gang::PIECES - parts.len()) as u64;
            let len = (left / among).max(1).next_multiple_of(unit).min(left);
            parts.push(Part::within(len, (unit, copies, depth + 1), take, taken)?);
            left -= len;
        }
        let counted = |(copy, header): (usize, Dva)| {
            let below = parts.iter().filter_map(|part| part.places.get(copy));
            let bytes = header.allocated() + below.map(Dva::allocated).sum::<u64>();
            Dva::new(header.vdev(), header.offset(), bytes, true)
        };
        let places = headers.into_iter().enumerate().map(counted).collect();
        Some(Part { size, places, parts })
    }

    /// Whether it is a gang.
    pub(super) fn is_gang(&self) -> bool {
        !self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places in one row, none longer than so much.
    fn row(longest: u64) -> impl FnMut(For, u64, usize) -> Option<Vec<Dva>> {
        let mut at = 0;
        move |what, size, copies| {
            (what == For::Header || size <= longest).then(|| {
                (0..copies)
                    .map(|_| {
                        let offset = at;
                        at += size;
                        Dva::new(0, offset, size, false)
                    })
                    .collect()
            })
        }
    }

    fn bytes(part: &Part) -> u64 {
        match part.is_gang() {
            true => part.parts.iter().map(bytes).sum(),
            false => part.size,
        }
    }

    fn depth(part: &Part) -> usize {
        part.parts.iter().map(|part| 1 + depth(part)).max().unwrap_or(0)
    }

    #[test]
    fn a_block_is_divided_as_far_as_it_must_be_and_loses_nothing() {
        let unit = 4096;
        for (size, longest, deep) in [
            (128 << 10, 128 << 10, 0),
            (128 << 10, 64 << 10, 1),
            (128 << 10, 16 << 10, 2),
            (8192, 4096, 1),
            (12_288 + 512, 8192, 1),
            (16 << 20, 4096, 8),
        ] {
            let part = Part::take(size, unit, 2, &mut row(longest)).expect("there is room");
            assert_eq!((bytes(&part), depth(&part)), (size, deep), "{size} in {longest}");
            let gangs = part.parts.iter().chain([&part]).filter(|part| part.is_gang());
            for gang in gangs {
                assert!(gang.parts.len() <= gang::PIECES && gang.places.len() == 3);
                let [first, _, header] = [0, 1, 2].map(|copy| gang.places[copy].allocated());
                let below: u64 = gang.parts.iter().map(|part| part.places[0].allocated()).sum();
                assert_eq!((first - below, gang.places[0].is_gang()), (gang::BYTES as u64, true));
                let nested = gang.parts.iter().filter(|part| part.is_gang());
                let nested: u64 = nested.map(|part| part.places[2].allocated()).sum();
                assert_eq!(header, gang::BYTES as u64 + nested, "a third copy is of headers alone");
            }
        }
    }

    #[test]
    fn what_was_taken_for_nothing_comes_back() {
        let (mut given, mut gave) = (0, Vec::new());
        let mut row = row(16 << 10);
        let taken = Part::take(1 << 20, 4096, 1, &mut |what, size, copies| {
            given += usize::from(what == For::Header || size <= 16 << 10);
            let places = if given > 20 { None } else { row(what, size, copies) };
            gave.extend(places.iter().flatten().copied());
            places
        });
        assert_eq!(taken, Err(gave));
        let short = Part::take(4096, 4096, 1, &mut |_, _, _| None);
        assert_eq!(short, Err(Vec::new()));
    }
}
