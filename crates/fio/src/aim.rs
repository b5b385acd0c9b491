//! Where the next I/O of a job goes: which file, which place, how many bytes.
//!
//! The rules are fio's (io_u.c: `get_next_offset`, `get_next_buflen`, `get_next_file`): each direction
//! goes on in sequence from where it ended; random places are multiples of `blockalign`, each once a
//! pass where a map is kept; a block that would reach beyond what is used of the file ends the file; a
//! file that ended is passed over until the next pass (of files that are drawn by a distribution, it
//! begins again at once).

use super::figures::{Direction, Each};
use super::files::Files;
use super::map::BlockMap;
use super::skew::{Skew, Walk};
use super::spec::{Distribution, FileService, Generator, Sequencer, Spec};
use std::sync::Arc;
use stdx::Prng;

/// Sizes that are drawn before the smallest is taken: near a file's end few fit.
const SIZE_DRAWS_MAX: usize = 100;

/// Files that are drawn before the next one that is not done is taken: near a pass's end few are left.
const FILE_DRAWS_MAX: usize = 100;

/// One I/O that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) direction: Direction,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Where a job is in one file.
struct InFile {
    /// Where the used part begins; strided zones move it.
    start: u64,
    first: u64,
    len: u64,
    real: u64,
    position: Each<u64>,
    last_start: Each<Option<u64>>,
    map: Option<BlockMap>,
    walk: Option<Walk>,
    skew: Option<Skew>,
    /// Whether an I/O went there since it was begun.
    begun: bool,
    done: bool,
}

/// See the [module](self).
pub(super) struct Aim {
    spec: Arc<Spec>,
    files: Vec<InFile>,
    places: Prng,
    sizes: Prng,
    kinds: Prng,
    /// The file in turn and how many I/Os it still has.
    turn: Option<(usize, u64)>,
    /// The file after that of the last turn; a new pass goes on there.
    following: usize,
    file_skew: Option<Skew>,
    /// I/Os until the next random place (`rw=randread:8`), the first of which is random.
    until_random: u64,
    zone_bytes: u64,
    /// A file was begun again, so that its cache is to be dropped.
    rewound: Option<usize>,
}

impl Aim {
    pub(super) fn new(spec: &Arc<Spec>, files: &Files, seed: u64) -> Aim {
        let mut places = Prng::for_part(seed, "places");
        let in_files = files.spans.iter().map(|span| {
            let mut in_file = InFile {
                start: span.offset,
                first: span.offset,
                len: span.len,
                real: span.real,
                position: [span.offset; 3],
                last_start: [None; 3],
                map: None,
                walk: None,
                skew: None,
                begun: false,
                done: false,
            };
            if spec.mode.random {
                let at = if spec.mode.read { 0 } else { 1 };
                let blocks = blocks_of(spec, &in_file, at);
                in_file.skew = Skew::new(&spec.distribution, blocks, &mut places);
                if spec.generator == Generator::Permutation {
                    in_file.walk = Some(Walk::new(blocks, &mut places));
                } else if spec.map {
                    let least = spec.block.iter().map(|(low, _)| *low).min().unwrap_or(1);
                    // A device may be smaller than what is asked of it.
                    let there = in_file.len.min(in_file.real);
                    in_file.map = Some(BlockMap::new(there / least));
                }
            }
            in_file
        });
        let in_files: Vec<InFile> = in_files.collect();
        let count = in_files.len() as u64;
        let by_file = match spec.file_service {
            FileService::Zipf(theta) => Distribution::Zipf { theta, center: Some(0.0) },
            FileService::Pareto(power) => Distribution::Pareto { power, center: Some(0.0) },
            FileService::Normal(deviation_percent) => {
                Distribution::Normal { deviation_percent, center: Some(0.5) }
            }
            _ => Distribution::Uniform,
        };
        let mut kinds = Prng::for_part(seed, "kinds");
        Aim {
            file_skew: Skew::new(&by_file, count, &mut kinds),
            spec: Arc::clone(spec),
            files: in_files,
            places,
            sizes: Prng::for_part(seed, "sizes"),
            kinds,
            turn: None,
            following: 0,
            until_random: 1,
            zone_bytes: 0,
            rewound: None,
        }
    }

    /// A new pass: all files from their start, all blocks unused.
    pub(super) fn begin_pass(&mut self) {
        for file in &mut self.files {
            file.done = false;
            file.start = file.first;
            file.restart();
        }
        self.turn = None;
        self.zone_bytes = 0;
    }

    /// Whether all files are done.
    pub(super) fn is_done(&self) -> bool {
        self.files.iter().all(|file| file.done)
    }

    /// The file that was begun again since this was asked last.
    pub(super) fn take_rewound(&mut self) -> Option<usize> {
        self.rewound.take()
    }

    /// The direction of the next I/O, before rates are looked at. Of trims and writes in turn the file decides, in [`next`](Aim::next).
    pub(super) fn direction(&mut self) -> Direction {
        let mode = self.spec.mode;
        match (mode.read, mode.write) {
            (true, true) => {
                let drawn = self.kinds.below(100) < u64::from(self.spec.read_percent);
                if drawn { Direction::Read } else { Direction::Write }
            }
            (true, false) => Direction::Read,
            (false, true) => Direction::Write,
            (false, false) => Direction::Trim,
        }
    }

    /// The next I/O in a direction; `None` where all files are done.
    pub(super) fn next(&mut self, direction: Direction) -> Option<Target> {
        loop {
            let index = self.next_file()?;
            if let Some(target) = self.in_file(index, direction) {
                return Some(target);
            }
            let file = self.files.get_mut(index)?;
            // One in which nothing has room would begin again for ever.
            file.done = self.file_skew.is_none() || !file.begun;
            if !file.done {
                file.restart();
            }
            self.turn = None;
        }
    }

    fn next_file(&mut self) -> Option<usize> {
        let count = self.files.len();
        if count == 1 {
            return self.files.first().is_some_and(|file| !file.done).then_some(0);
        }
        if let Some((file, left)) = &mut self.turn {
            if self.spec.file_service == FileService::Sequential {
                return Some(*file);
            }
            if *left > 0 {
                *left -= 1;
                return Some(*file);
            }
        }
        let is_left = |file: &usize| self.files.get(*file).is_some_and(|file| !file.done);
        let drawn = match self.spec.file_service {
            FileService::RoundRobin | FileService::Sequential => None,
            FileService::Random => {
                let mut draws =
                    (0..FILE_DRAWS_MAX).map(|_| self.kinds.below(count as u64) as usize);
                draws.find(is_left)
            }
            FileService::Zipf(_) | FileService::Pareto(_) | FileService::Normal(_) => {
                let skew = self.file_skew.as_ref();
                skew.map(|skew| skew.draw(&mut self.kinds) as usize).filter(is_left)
            }
        };
        let found = match drawn {
            Some(file) => file,
            None => (self.following..count).chain(0..self.following).find(is_left)?,
        };
        self.following = (found + 1) % count;
        self.turn = Some((found, self.spec.file_service_nr - 1));
        Some(found)
    }

    fn in_file(&mut self, index: usize, direction: Direction) -> Option<Target> {
        let spec = Arc::clone(&self.spec);
        let mode = spec.mode;
        let file = self.files.get(index)?;
        let direction = match mode.trim_write {
            true if file.last_start[1] == file.last_start[2] => Direction::Trim,
            true => Direction::Write,
            false => direction,
        };
        self.move_zone(index, direction);
        let single = self.files.len() == 1;
        let at = direction.index();
        if mode.trim_write && direction == Direction::Write {
            // The block that was trimmed just now.
            let file = self.files.get_mut(index)?;
            let offset = file.last_start[2]?;
            let len = file.position[2].checked_sub(offset)?;
            file.last_start[1] = Some(offset);
            file.position[1] = file.position[2];
            return Some(Target { direction, file: index, offset, len });
        }
        // With `:0` no place is random.
        let turn = spec.sequence_nr > 0 && self.until_random <= 1;
        self.until_random =
            if turn { spec.sequence_nr } else { self.until_random.saturating_sub(1) };
        let share = spec.random_percent[at];
        let random = mode.random
            && turn
            && (share >= 100 || share > 0 && self.kinds.below(100) < u64::from(share));
        let file = self.files.get_mut(index)?;
        let mut marks = false;
        let relative = if random {
            marks = true;
            self.random_place(index, at)?
        } else if mode.random && !turn && spec.sequencer == Sequencer::Identical {
            file.last_start[at].map_or(0, |start| start - file.start)
        } else {
            match file.sequential_place(at, &spec, spec.time_based && single) {
                Some((place, rewound)) => {
                    if rewound {
                        self.rewound = Some(index);
                    }
                    place
                }
                None if mode.random => self.random_place(index, at)?,
                None => return None,
            }
        };
        let file = self.files.get(index)?;
        if relative >= file.len {
            return None;
        }
        let offset = file.start + relative;
        let mut len = self.length(index, offset, at, random)?;
        let file = self.files.get_mut(index)?;
        if offset.checked_add(len).is_none_or(|end| end > file.real) {
            return None;
        }
        if marks && let Some(map) = &mut file.map {
            let unit = spec.block[at].0;
            let used = map.use_up_to(relative / unit, len.div_ceil(unit)).max(1);
            len = len.min(used * unit);
        }
        // The same place trimmed twice running is written twice, too.
        if mode.trim_write && file.last_start[at] == Some(offset) {
            file.last_start[1] = None;
        }
        file.last_start[at] = Some(offset);
        file.position[at] = offset + len;
        file.begun = true;
        self.zone_bytes += len;
        Some(Target { direction, file: index, offset, len })
    }

    /// A random place, as bytes from the start of the used part.
    fn random_place(&mut self, index: usize, at: usize) -> Option<u64> {
        let align = self.spec.align[at];
        if let Some(block) = self.random_block(index, at) {
            return Some(block * align);
        }
        if !self.spec.time_based && self.file_skew.is_none() {
            return None;
        }
        self.files.get_mut(index)?.restart();
        self.rewound = Some(index);
        self.random_block(index, at).map(|block| block * align)
    }

    fn random_block(&mut self, index: usize, at: usize) -> Option<u64> {
        let file = self.files.get_mut(index)?;
        let blocks = blocks_of(&self.spec, file, at);
        if blocks == 0 {
            return None;
        }
        if let Some(skew) = &file.skew {
            return Some(skew.draw(&mut self.places));
        }
        if let Some(walk) = &mut file.walk {
            return walk.next();
        }
        let align = self.spec.align[at];
        let block = match &self.spec.distribution {
            Distribution::Zoned(zones) if !zones[at].is_empty() => {
                let drawn = self.places.below(100) as u32;
                let (mut accesses, mut size, mut before) = (0, 100, 0);
                for (share, part) in &zones[at] {
                    accesses += share;
                    size = *part;
                    if drawn < accesses {
                        break;
                    }
                    before += part;
                }
                let blocks_of = |percent: u32| {
                    (blocks / 100) * u64::from(percent) + (blocks % 100) * u64::from(percent) / 100
                };
                blocks_of(before) + self.places.below(blocks_of(size).max(1))
            }
            Distribution::ZonedAbsolute(zones) if !zones[at].is_empty() => {
                let drawn = self.places.below(100) as u32;
                let (mut accesses, mut size, mut before) = (0, 0, 0_u64);
                for (share, part) in &zones[at] {
                    accesses += share;
                    size = *part;
                    if drawn < accesses {
                        break;
                    }
                    before = before.saturating_add(*part);
                }
                before / align + self.places.below((size / align).max(1))
            }
            _ => self.places.below(blocks),
        };
        match &file.map {
            // The map counts the smallest blocks; where those are the places, one is one.
            Some(map) if map.is_used(block) => map.next_free(block),
            _ => Some(block),
        }
    }

    /// How many bytes from there, within what is used of the file.
    fn length(&mut self, index: usize, offset: u64, at: usize, random: bool) -> Option<u64> {
        let spec = &self.spec;
        let at = if spec.block_by_randomness { usize::from(random) } else { at };
        let (low, high) = spec.block[at];
        if low == high {
            return Some(low);
        }
        let file = self.files.get(index)?;
        let room = (file.first + file.len).checked_sub(offset)?;
        if room < low {
            return None;
        }
        for _ in 0..SIZE_DRAWS_MAX {
            let split = &spec.block_split[at];
            let drawn = if split.is_empty() {
                low + (high as f64 * self.sizes.unit()) as u64
            } else {
                let drawn = self.sizes.below(100) as u32;
                let mut accesses = 0;
                let found = split.iter().find(|(_, share)| {
                    accesses += share;
                    drawn < accesses
                });
                found.map_or(low, |(size, _)| *size)
            };
            let whole = if spec.block_unaligned { drawn } else { drawn - drawn % low };
            let len = whole.min(high);
            if len <= room {
                return Some(len);
            }
        }
        Some(low)
    }

    /// Strided zones: so many bytes in one, then the next.
    fn move_zone(&mut self, index: usize, direction: Direction) {
        let (Some(zones), Some(file)) = (self.spec.zones, self.files.get_mut(index)) else {
            return;
        };
        let at = direction.index();
        if self.zone_bytes >= zones.size {
            self.zone_bytes = 0;
            file.start += zones.range + zones.skip;
            if file.start >= file.real {
                file.start = file.first;
            }
            file.position = [file.start; 3];
        }
        if file.position[at] >= file.start + zones.range {
            file.position[at] = file.start;
        }
    }
}

impl InFile {
    /// Back to the start, with all blocks unused.
    fn restart(&mut self) {
        self.position = [self.start; 3];
        self.last_start = [None; 3];
        self.begun = false;
        if let Some(map) = &mut self.map {
            map.clear();
        }
        if let Some(walk) = &mut self.walk {
            walk.rewind();
        }
    }

    /// The place after the last one, from the start of the used part, and whether it began again.
    ///
    /// With a step (`rw=read:8k`) what lies beyond either end of the file goes on from the other: forwards from as far behind
    /// the start as the used part begins, backwards from its end, both as in fio.
    fn sequential_place(&mut self, at: usize, spec: &Spec, repeats: bool) -> Option<(u64, bool)> {
        let mut rewound = false;
        if repeats && self.position[at] >= self.first + self.len {
            self.position[at] = self.start;
            rewound = true;
        }
        if self.position[at] >= self.real {
            return None;
        }
        let step = spec.sequence_add;
        let end = self.real.min(self.len);
        // Backwards begins at the end where there is an offset to go back to.
        if self.position[at] == self.start && self.start > 0 && step < 0 {
            self.position[at] = end;
        }
        // Below the start it wraps: what lies there is beyond the end.
        let mut place = self.position[at].wrapping_sub(self.start);
        if place > 0 && step != 0 {
            place = place.wrapping_add_signed(step);
            if place >= self.real {
                place = if step > 0 { self.start } else { end.wrapping_add_signed(step) };
            }
        }
        Some((place, rewound))
    }
}

/// Places of one alignment in the used part.
fn blocks_of(spec: &Spec, file: &InFile, at: usize) -> u64 {
    let mut bytes = file.len.min(file.real);
    if let Some(zones) = spec.zones {
        bytes = zones.range.min(bytes);
    }
    let (low, align) = (spec.block[at].0, spec.align[at]);
    bytes.saturating_sub(low.saturating_sub(align)) / align
}

#[cfg(test)]
mod tests;
