//! Blocks by type and level: how many, and how much they take.
//!
//! The counts are those of `zdb -b`: a block goes by the type in its pointer; types of the newer kind are all `other`, and
//! what waits to be freed is `deferred free`. Embedded blocks count with their logical size alone. A deduplicated or cloned
//! block counts as often as it is pointed to; what that is more than the space it takes is summed up apart.
//!
//! Source: OpenZFS, `zdb.c`.

use super::walk::{Reached, Visited};
use std::collections::BTreeMap;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::object_type::ObjectType;

/// What a block counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// A type of the closed list.
    Type(ObjectType),
    /// Waiting to be freed.
    DeferredFree,
    /// Further copies of deduplicated blocks: in `zdb`'s table, and made by nobody any more.
    DedupDitto,
    /// A type of the newer kind.
    Other,
}

impl Counted {
    /// What this block counts as.
    pub fn of(visited: &Visited) -> Counted {
        let object_type = visited.pointer.object_type();
        match visited.reached {
            Reached::Freed => Counted::DeferredFree,
            _ if object_type.is_new() => Counted::Other,
            _ => Counted::Type(object_type),
        }
    }

    /// All of them, in the order of `zdb`'s table.
    pub fn all() -> impl Iterator<Item = Counted> {
        let types = (0..ObjectType::KNOWN_COUNT).map(|code| Counted::Type(ObjectType(code)));
        types.chain([Counted::DeferredFree, Counted::DedupDitto, Counted::Other])
    }

    /// Its name in `zdb`'s words.
    pub fn name(self) -> String {
        match self {
            Counted::Type(object_type) => object_type.to_string(),
            Counted::DeferredFree => "deferred free".into(),
            Counted::DedupDitto => "dedup ditto".into(),
            Counted::Other => "other".into(),
        }
    }

    fn is_metadata(self) -> bool {
        matches!(self, Counted::Type(object_type) if object_type.is_metadata())
    }
}

/// Blocks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub blocks: u64,
    /// Bytes before compression.
    pub logical: u64,
    /// Bytes as they are stored.
    pub physical: u64,
    /// Bytes that are allocated for them: all copies, with parity.
    pub allocated: u64,
    /// Places that hold gang headers.
    pub gangs: u64,
}

impl Sum {
    fn add_pointer(&mut self, pointer: &BlockPointer) {
        let embedded = pointer.is_embedded();
        self.add(&Sum {
            blocks: 1,
            logical: pointer.logical_size(),
            physical: if embedded { 0 } else { pointer.physical_size() },
            allocated: pointer.allocated(),
            gangs: pointer.dvas().filter(|dva| dva.is_gang()).count() as u64,
        });
    }

    /// Adds others of the kind.
    pub fn add(&mut self, other: &Sum) {
        self.blocks += other.blocks;
        self.logical = self.logical.saturating_add(other.logical);
        self.physical = self.physical.saturating_add(other.physical);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.gangs += other.gangs;
    }
}

/// A line of `zdb`'s table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The type, or `Total`.
    pub name: String,
    /// The level; nothing for all levels together.
    pub level: Option<u8>,
    /// The blocks. Lines without allocated bytes stand there for the whole type only.
    pub sum: Sum,
}

/// The blocks of a pool. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// By what they count as, then level.
    pub by_type: BTreeMap<Counted, BTreeMap<u8, Sum>>,
    /// Embedded blocks.
    pub embedded: u64,
    /// Blocks with several places of which two are on one vdev.
    pub dittos_on_one_vdev: u64,
}

impl BlockCount {
    /// Counts a block.
    pub fn add(&mut self, visited: &Visited) {
        let pointer = &visited.pointer;
        let levels = self.by_type.entry(Counted::of(visited)).or_default();
        levels.entry(pointer.level()).or_default().add_pointer(pointer);
        self.embedded += u64::from(pointer.is_embedded());
        let mut vdevs: Vec<u32> = pointer.dvas().map(|dva| dva.vdev()).collect();
        vdevs.sort_unstable();
        self.dittos_on_one_vdev += u64::from(vdevs.windows(2).any(|pair| pair[0] == pair[1]));
    }

    /// All blocks.
    pub fn total(&self) -> Sum {
        let mut sum = Sum::default();
        self.by_type.values().flat_map(BTreeMap::values).for_each(|one| sum.add(one));
        sum
    }

    /// The lines of `zdb -bbb`'s table, in order, without metadata's total: for each type the levels from the highest down,
    /// then all of it. A level 0 that is all there is has no line of its own.
    pub fn table(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut group = |name: String, levels: &BTreeMap<u8, Sum>| {
            let mut whole = Sum::default();
            levels.values().for_each(|one| whole.add(one));
            for (level, sum) in levels.iter().rev() {
                let is_all = *level == 0 && sum.allocated == whole.allocated;
                if sum.allocated != 0 && !is_all {
                    lines.push(Line { name: name.clone(), level: Some(*level), sum: *sum });
                }
            }
            lines.push(Line { name, level: None, sum: whole });
        };
        for counted in Counted::all() {
            group(counted.name(), self.by_type.get(&counted).unwrap_or(&BTreeMap::new()));
        }
        let mut all = BTreeMap::<u8, Sum>::new();
        for (level, one) in self.by_type.values().flatten() {
            all.entry(*level).or_default().add(one);
        }
        group("Total".into(), &all);
        lines
    }

    /// Metadata: types that are, and everything above level 0.
    pub fn metadata(&self) -> Sum {
        let mut sum = Sum::default();
        for (counted, levels) in &self.by_type {
            if matches!(counted, Counted::Type(_)) {
                let fits = |level: u8| level > 0 || counted.is_metadata();
                levels.iter().filter(|(level, _)| fits(**level)).for_each(|(_, one)| sum.add(one));
            }
        }
        sum
    }
}
