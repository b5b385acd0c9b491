//! Checking many blocks of a vdev in the order of their places, with long reads.
//!
//! A scrub of small blocks, each read and looked at by itself, costs more for the asking than for the bytes. Here
//! the blocks of a top-level vdev are sorted by their places and cut into *stretches*: on each child one read, of up to
//! [`READ_BYTES_MAX`], over gaps of up to [`GAP_BYTES_MAX`](crate::vdev::queue). All blocks of a stretch are looked at where they
//! lie in what was read, in one job: the data's checksum, and parities and further sides beside it. No block has a
//! request, a task or memory of its own; what is known of it stays where it was put down, and its number is sorted instead.
//!
//! **It finds nobody guilty.** What is not right here, for whatever reason, is only *doubtful*: who asked has it
//! [verified](Tree::verify) by itself, which finds out which leaf was wrong, counts it, and tries all ways to make the block. So
//! a failed read of a stretch counts nothing either.
//!
//! It is for vdevs whose leaves are all there and miss nothing. All blocks of others are doubtful, and so are those
//! that an expansion of their raidz divided, and those that lie in two groups of a dRAID.
//!
//! Source: OpenZFS, `dsl_scan.c` (sorted scans), for the order; the rest is ours.

use crate::expected::Expected;
use crate::vdev::leaf::{Leaf, on_device};
use crate::vdev::mirror::Mirror;
use crate::vdev::queue::{GAP_BYTES_MAX, IoClass};
use crate::vdev::raidz::map::{Column, OFFSET_MAX};
use crate::vdev::top::{Node, Top};
use crate::vdev::tree::Tree;
use codec::parity;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use rt::{Buf, WorkKind};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::ByteCount;
use zfs_format::block_pointer::BLOCK_BYTES_MAX;

/// Bytes that one read of a child spans at the most. Measured over files in memory, raidz1 of four, blocks of 8 KiB, in
/// processor time of a whole scrub: 1 MiB 0.38 s, 256 KiB 0.25, 128 KiB 0.24, 64 KiB 0.24, for what was read is still in the
/// processor's own cache when it is looked at. More: fewer requests; less: disks have less to do at a time.
const READ_BYTES_MAX: u64 = 128 << 10;
/// Stretches of one vdev under way: one is looked at while the next is read.
const STRETCHES_MAX: usize = 3;

/// A place of a block that is to be checked.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where it begins on its top-level vdev.
    pub offset: u64,
    /// Bytes that are stored.
    pub size: u64,
    /// The transaction group in which it was written there.
    pub birth: u64,
    /// What the bytes should come to.
    pub expected: Expected,
    /// The block's number, for who asks.
    pub block: usize,
}

/// How the children of a vdev have a block.
#[derive(Clone, Copy)]
enum Form {
    /// Each all of it.
    Sides,
    /// So many parities, and the rest its data.
    Parity(usize),
}

/// Blocks that lie near each other.
struct Stretch {
    form: Form,
    /// Those of all stretches.
    places: Arc<Vec<Place>>,
    /// Of each child what is read of its data area.
    ranges: Vec<Range<u64>>,
    columns: Vec<Column>,
    items: Vec<Item>,
}

/// A block of a stretch.
struct Item {
    columns: Range<usize>,
    /// Which of the places.
    place: usize,
}

impl Tree {
    /// Checks blocks of a top-level vdev at these places, and gives the numbers of those that are doubtful. All there is
    /// of the others was read, and is right.
    pub async fn verify_in_order(&self, vdev: u32, places: Vec<Place>) -> Vec<usize> {
        let top = self.top(vdev);
        let parts = top.as_deref().and_then(|top| Some((top, top.whole_children()?)));
        let Some((top, leaves)) = parts else {
            return places.into_iter().map(|place| place.block).collect();
        };
        let (stretches, mut doubtful) = stretches(top, leaves.len(), &Arc::new(places));
        let checked = stretches.into_iter().map(|stretch| self.check(&leaves, stretch));
        let mut checked = stream::iter(checked).buffer_unordered(STRETCHES_MAX);
        while let Some(wrong) = checked.next().await {
            doubtful.extend(wrong);
        }
        doubtful
    }

    /// Reads a stretch, and gives the numbers of the blocks that are not right.
    async fn check(&self, leaves: &[Rc<Leaf>], stretch: Stretch) -> Vec<usize> {
        let read = stretch.ranges.iter().zip(leaves).map(|(range, leaf)| async move {
            match (range.end - range.start) as usize {
                0 => Ok(Buf::empty()),
                len => leaf.read_uncounted(on_device(range.start), len, IoClass::Scrub).await,
            }
        });
        let read: Result<Vec<Buf>, _> = join_all(read).await.into_iter().collect();
        let Ok(read) = read else {
            return stretch.items.iter().map(|item| stretch.place(item).block).collect();
        };
        let Some(first) = stretch.items.first() else { return Vec::new() };
        let bytes = ByteCount(stretch.items.iter().map(|item| stretch.place(item).size).sum());
        let work = stretch.place(first).expected.work(bytes);
        let work = match stretch.form {
            Form::Sides => work.and(WorkKind::Compare, bytes),
            Form::Parity(1) => work.and(WorkKind::ParityP, bytes),
            Form::Parity(2) => work.and(WorkKind::ParityPq, bytes),
            Form::Parity(_) => work.and(WorkKind::ParityPqr, bytes),
        };
        self.rt.compute(work, move || stretch.wrong(&read)).await
    }
}

impl Top {
    /// The leaves of its children, if all are there and miss nothing: then each child has one, or they are the sides of a
    /// mirror.
    fn whole_children(&self) -> Option<SmallVec<[Rc<Leaf>; 8]>> {
        let striped = match &self.node {
            Node::Mirror(mirror) => {
                return mirror.whole().map(|leaves| leaves.iter().cloned().collect());
            }
            Node::Raidz(raidz) => &raidz.striped,
            Node::Draid(draid) => &draid.striped,
            Node::Sides(_) | Node::Indirect(_) | Node::Nothing => return None,
        };
        let leaf = |child: &Mirror| match child.whole()? {
            [leaf] => Some(Rc::clone(leaf)),
            _ => None,
        };
        striped.children.iter().map(leaf).collect()
    }

    fn form(&self) -> Form {
        match &self.node {
            Node::Raidz(raidz) => Form::Parity(raidz.striped.parity),
            Node::Draid(draid) => Form::Parity(draid.striped.parity),
            _ => Form::Sides,
        }
    }

    /// Adds the columns of a block, of one row; nothing where it has others.
    fn add_columns(&self, to: &mut Vec<Column>, children: usize, place: &Place) -> Option<usize> {
        let (offset, sector) = (place.offset, 1_u64 << self.ashift);
        let can_be = offset < OFFSET_MAX
            && offset.is_multiple_of(sector)
            && (1..=BLOCK_BYTES_MAX).contains(&place.size);
        if !can_be {
            return None;
        }
        let size = place.size.next_multiple_of(sector) as usize;
        match &self.node {
            Node::Mirror(_) => {
                let side = |child| Column { child, at: offset, len: size, block_at: 0, sector: 0 };
                to.extend((0..children).map(side));
                Some(children)
            }
            Node::Raidz(raidz) => raidz.add_columns(to, offset, size, place.birth),
            Node::Draid(draid) => {
                let map = draid.layout.map(offset, size, draid.ashift)?;
                let [row] = map.rows.as_slice() else { return None };
                to.extend_from_slice(&row.columns);
                Some(row.columns.len())
            }
            Node::Sides(_) | Node::Indirect(_) | Node::Nothing => None,
        }
    }
}

/// Cuts places into stretches, in their order; and the numbers of the blocks that can't be in one.
fn stretches(top: &Top, children: usize, places: &Arc<Vec<Place>>) -> (Vec<Stretch>, Vec<usize>) {
    let mut order: Vec<(u64, usize)> =
        places.iter().enumerate().map(|(number, place)| (place.offset, number)).collect();
    order.sort_unstable();
    let (mut all, mut doubtful) = (Vec::new(), Vec::new());
    let mut stretch = Stretch::new(top.form(), children, places);
    for (_, number) in order {
        let place = &places[number];
        let before = stretch.columns.len();
        let Some(many) = top.add_columns(&mut stretch.columns, children, place) else {
            doubtful.push(place.block);
            continue;
        };
        assert_eq!(stretch.columns.len(), before + many, "the columns of a block were added");
        if !stretch.takes_last(many) {
            let mut next = stretch.next();
            next.columns.extend(stretch.columns.drain(before..));
            all.push(std::mem::replace(&mut stretch, next));
        }
        stretch.end_item(many, number);
    }
    all.push(stretch);
    (all, doubtful)
}

impl Stretch {
    fn new(form: Form, children: usize, places: &Arc<Vec<Place>>) -> Stretch {
        let (ranges, columns, items) = (vec![0..0; children], Vec::new(), Vec::new());
        Stretch { form, places: Arc::clone(places), ranges, columns, items }
    }

    /// An empty one with room for as much as this has.
    fn next(&self) -> Stretch {
        let mut next = Stretch::new(self.form, self.ranges.len(), &self.places);
        next.columns.reserve(self.columns.len());
        next.items.reserve(self.items.len());
        next
    }

    fn place(&self, item: &Item) -> &Place {
        &self.places[item.place]
    }

    /// Whether the last columns lie near enough to what it has.
    fn takes_last(&self, many: usize) -> bool {
        let columns = &self.columns[self.columns.len() - many..];
        self.items.is_empty()
            || columns.iter().filter(|column| column.len > 0).all(|column| {
                let range = &self.ranges[column.child];
                let end = column.at + column.len as u64;
                let gap = column.at.saturating_sub(range.end);
                range.is_empty()
                    || column.at >= range.start
                        && gap <= GAP_BYTES_MAX
                        && end.max(range.end) - range.start <= READ_BYTES_MAX
            })
    }

    /// The last columns are those of a block.
    fn end_item(&mut self, many: usize, place: usize) {
        let columns = self.columns.len() - many..self.columns.len();
        for column in self.columns[columns.clone()].iter().filter(|column| column.len > 0) {
            let (at, end) = (column.at, column.at + column.len as u64);
            let range = &mut self.ranges[column.child];
            *range = match range.is_empty() {
                true => at..end,
                false => range.start.min(at)..range.end.max(end),
            };
        }
        self.items.push(Item { columns, place });
    }

    /// The numbers of the blocks that are not right in what was read.
    fn wrong(&self, read: &[Buf]) -> Vec<usize> {
        assert_eq!(read.len(), self.ranges.len(), "each child was read");
        let read: SmallVec<[&[u8]; 8]> = read.iter().map(Buf::bytes).collect();
        for (bytes, range) in read.iter().zip(&self.ranges) {
            assert_eq!(
                bytes.len() as u64,
                range.end - range.start,
                "a read gives all of its range"
            );
        }
        let mut made = Vec::new();
        let is_wrong = |item: &&Item| !self.is_right(item, &read, &mut made);
        self.items.iter().filter(is_wrong).map(|item| self.place(item).block).collect()
    }

    /// Whether all there is of a block is right; `made` is room for parities.
    fn is_right(&self, item: &Item, read: &[&[u8]], made: &mut Vec<u8>) -> bool {
        let piece = |column: &Column| {
            let from = column.at.saturating_sub(self.ranges[column.child].start) as usize;
            if column.len == 0 { &[][..] } else { &read[column.child][from..from + column.len] }
        };
        let pieces: SmallVec<[&[u8]; 12]> =
            self.columns[item.columns.clone()].iter().map(piece).collect();
        let Place { size, expected, .. } = self.place(item);
        let size = *size as usize;
        match self.form {
            Form::Sides => {
                let holds =
                    pieces.first().is_some_and(|first| expected.holds_together(&[&first[..size]]));
                holds && pieces.iter().all(|side| *side == pieces[0])
            }
            Form::Parity(many) => {
                let (parities, data) = pieces.split_at(many);
                let mut left = size;
                let cut: SmallVec<[&[u8]; 12]> = data
                    .iter()
                    .map(|piece| {
                        let len = piece.len().min(left);
                        left -= len;
                        &piece[..len]
                    })
                    .collect();
                left == 0 && expected.holds_together(&cut) && are_of(parities, data, made)
            }
        }
    }
}

/// Whether these are the parities of the data.
fn are_of(parities: &[&[u8]], data: &[&[u8]], made: &mut Vec<u8>) -> bool {
    let len = parities.iter().map(|parity| parity.len()).max().unwrap_or(0);
    if made.len() < len * parities.len() {
        made.resize(len * parities.len(), 0);
    }
    // The last column's coefficient is 1.
    let reversed: SmallVec<[&[u8]; 12]> = data.iter().rev().copied().collect();
    let mut targets: SmallVec<[&mut [u8]; 3]> =
        made.chunks_exact_mut(len.max(1)).take(parities.len()).collect();
    parity::generate(&reversed, &mut targets);
    parities.iter().zip(&targets).all(|(found, made)| **found == made[..found.len()])
}
