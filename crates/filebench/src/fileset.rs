//! A fileset: a tree of directories with files in them, and who may use which one now.
//!
//! **The tree** (after filebench 1.5's fileset.c). With n files and leaf directories and directories
//! of mean width w, the mean depth is log n / log w. Each directory draws a depth and a width from a
//! gamma distribution (shape `dirgamma` / 1000) around those means; where its own depth has reached
//! what it drew it holds files, else directories. The root always holds directories, as many as it
//! takes. Names are eight digits, counted from 1 in each directory. A single `file` is a fileset of
//! one, so `largefile1` is `largefile1/00000001/00000001`, in filebench too.
//!
//! **Picking.** A file is *existing* or *missing*; creating picks among the missing, all else among the
//! existing. Picks go round in the order of their numbers ([`Rotor`]), or by a given number, or, while
//! the set is prepared, at random. A picked file is *busy* for the one operation on it. Where all that
//! fit are busy, the thread waits for one; where none fits, there is nothing to pick, which ends the
//! thread. (filebench gives up in the first case, too, where some other file of the set is not busy: a
//! race that stops a run of few files by chance. Spindle waits.)
//!
//! The state is behind one lock per set, held for a look into a tree of numbers and never across an
//! await.

pub(super) mod prepare;

use super::distribution::{Distribution, RandomVariable, gamma};
use super::plan::{ENTRIES_MAX, FilesetPlan, Number};
use rt::sync::Notify;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stdx::Prng;

/// Levels of directories at the most, so that a path stays below the 4096 bytes of a system: a width
/// of 1 asks for any number.
const DEPTH_MAX: u32 = 256;

/// The number of a file, directory or leaf directory in its set.
pub(super) type Entry = u32;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Directory,
    LeafDirectory,
}

/// Which ones may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Existing,
    Missing,
}

/// Which one of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'a> {
    /// The next in the set's own round.
    Next,
    /// The next in a thread's round.
    NextOf(&'a Rotor),
    /// This one, or the next higher.
    Number(Entry),
}

/// A place in a round: the number of the next one. A thread's own, so no lock guards it.
#[derive(Debug, Default)]
pub(super) struct Rotor(std::cell::Cell<Entry>);

/// What a pick gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picked {
    /// It is busy now, until [`Fileset::release`].
    Entry(Entry),
    /// All that fit are busy.
    Busy,
    /// None fits.
    None,
}

/// What becomes of a picked entry when it is no longer busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Release {
    /// It is there now, or is not, where that changed.
    pub(super) exists: Option<bool>,
    /// So many more, or fewer, threads have it open.
    pub(super) opens: i32,
    /// No thread counts as having it open any more: it was removed.
    pub(super) closes_all: bool,
}

/// A file or directory: in which directory, and its number there.
#[derive(Clone, Copy, Debug)]
struct Node {
    directory: u32,
    serial: u32,
}

/// A populated fileset.
pub(super) struct Fileset {
    pub(super) plan: FilesetPlan,
    /// The directories, the root first.
    directories: Vec<Node>,
    files: Vec<Node>,
    sizes: Vec<u64>,
    leaves: Vec<Node>,
    /// What `populated` prints.
    pub(super) mean_width: u64,
    pub(super) mean_depth: f64,
    pub(super) bytes: u64,
    state: Mutex<State>,
    /// Told whenever something is no longer busy and somebody waits.
    pub(super) released: Notify,
}

#[derive(Default)]
struct State {
    files: Group,
    directories: Group,
    leaves: Group,
    open: Vec<u32>,
    waiting: usize,
}

#[derive(Default)]
struct Group {
    existing: BTreeSet<Entry>,
    missing: BTreeSet<Entry>,
    busy: Vec<bool>,
    next_existing: Entry,
    next_missing: Entry,
}

impl Fileset {
    /// Draws the tree. All files are missing.
    pub(super) fn populate(plan: &FilesetPlan, variables: &[RandomVariable], seed: u64) -> Fileset {
        let mut prng = Prng::for_part(seed, &format!("fileset {}", plan.name));
        let mean_width = match plan.width {
            Number::Constant(width) => width,
            Number::Random(number) => variables.get(number).map_or(0, |variable| {
                variable.distribution.mean().unwrap_or_else(|| variable.sample(&mut prng)) as u64
            }),
        };
        let depth = ((plan.entries + plan.leaf_directories) as f64).ln() / (mean_width as f64).ln();
        let mean_depth = if depth > 0.0 { depth.min(f64::from(DEPTH_MAX)) } else { 0.0 };
        let mut tree = Tree {
            plan,
            variables,
            mean_depth,
            prng,
            directories: Vec::new(),
            files: Vec::new(),
            leaves: Vec::new(),
        };
        tree.directory(Node { directory: 0, serial: 0 }, 0);
        let mut prng = tree.prng;
        let (directories, files, leaves) = (tree.directories, tree.files, tree.leaves);
        let sizes: Vec<u64> = files.iter().map(|_| plan.file_size(variables, &mut prng)).collect();
        let group = |count: usize, existing: bool| {
            let all: BTreeSet<Entry> = (0..count as Entry).collect();
            let busy = vec![false; count];
            match existing {
                true => Group { existing: all, busy, ..Group::default() },
                false => Group { missing: all, busy, ..Group::default() },
            }
        };
        let state = State {
            files: group(files.len(), false),
            directories: group(directories.len(), true),
            leaves: group(leaves.len(), false),
            open: vec![0; files.len()],
            waiting: 0,
        };
        Fileset {
            plan: plan.clone(),
            bytes: sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)),
            directories,
            files,
            sizes,
            leaves,
            mean_width,
            mean_depth,
            state: Mutex::new(state),
            released: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock but our own mistake; the numbers are whole either way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    pub(super) fn size_of(&self, file: Entry) -> u64 {
        self.sizes.get(file as usize).copied().unwrap_or(0)
    }

    pub(super) fn directories(&self) -> usize {
        self.directories.len()
    }

    pub(super) fn path_of(&self, kind: EntryKind, entry: Entry) -> PathBuf {
        let nodes = match kind {
            EntryKind::File => &self.files,
            EntryKind::LeafDirectory => &self.leaves,
            EntryKind::Directory => &self.directories,
        };
        let mut serials = Vec::new();
        let mut node = nodes.get(entry as usize);
        // The root has no number in a directory above it.
        while let Some(Node { directory, serial }) = node.filter(|node| node.serial > 0) {
            serials.push(*serial);
            node = self.directories.get(*directory as usize);
        }
        let mut path = self.plan.root.clone();
        serials.iter().rev().for_each(|serial| path.push(format!("{serial:08}")));
        path
    }

    /// Picks one, which is then busy.
    pub(super) fn pick(&self, kind: EntryKind, want: Want, which: Which<'_>) -> Picked {
        let mut state = self.state();
        let picked = state.group(kind).pick(want, which);
        if picked == Picked::Busy {
            // The caller enters the queue before it looks again.
            state.waiting += 1;
        }
        picked
    }

    /// Makes this one busy, where it is not.
    pub(super) fn seize(&self, kind: EntryKind, entry: Entry) -> Picked {
        let mut state = self.state();
        match state.group(kind).busy.get_mut(entry as usize) {
            None => Picked::None,
            Some(busy) if *busy => {
                state.waiting += 1;
                Picked::Busy
            }
            Some(busy) => {
                *busy = true;
                Picked::Entry(entry)
            }
        }
    }

    /// Nobody works on it any more.
    pub(super) fn release(&self, kind: EntryKind, entry: Entry, release: Release) {
        let mut state = self.state();
        let group = state.group(kind);
        match release.exists {
            Some(true) => {
                group.missing.remove(&entry);
                group.existing.insert(entry);
            }
            Some(false) => {
                group.existing.remove(&entry);
                group.missing.insert(entry);
            }
            None => {}
        }
        if let Some(busy) = group.busy.get_mut(entry as usize) {
            *busy = false;
        }
        if kind == EntryKind::File
            && let Some(open) = state.open.get_mut(entry as usize)
        {
            *open = match release.closes_all {
                true => 0,
                false => open.saturating_add_signed(release.opens),
            };
        }
        if std::mem::take(&mut state.waiting) > 0 {
            drop(state);
            self.released.notify_waiters();
        }
    }

    /// How many threads have a file open.
    pub(super) fn opens(&self, file: Entry) -> u32 {
        self.state().open.get(file as usize).copied().unwrap_or(0)
    }

    /// All files or leaf directories, in a random order, with whether each is to be there when a run
    /// begins; and forgets what was there.
    pub(super) fn draw_existing(&self, kind: EntryKind, prng: &mut Prng) -> Vec<(Entry, bool)> {
        let mut state = self.state();
        let group = state.group(kind);
        let all: BTreeSet<Entry> = (0..group.busy.len() as Entry).collect();
        group.existing.clear();
        let mut order: Vec<Entry> = all.iter().copied().collect();
        group.missing = all;
        drop(state);
        prng.shuffle(&mut order);
        let share = self.plan.preallocated_percent as f64 / 100.0;
        order.into_iter().map(|entry| (entry, prng.chance(share))).collect()
    }

    /// Notes that an entry is there, or is not.
    pub(super) fn set_existing(&self, kind: EntryKind, entry: Entry, exists: bool) {
        self.release(kind, entry, Release { exists: Some(exists), ..Release::default() });
    }
}

impl State {
    fn group(&mut self, kind: EntryKind) -> &mut Group {
        match kind {
            EntryKind::File => &mut self.files,
            EntryKind::Directory => &mut self.directories,
            EntryKind::LeafDirectory => &mut self.leaves,
        }
    }
}

impl Group {
    fn pick(&mut self, want: Want, which: Which<'_>) -> Picked {
        let (set, own_next) = match want {
            Want::Existing => (&self.existing, &mut self.next_existing),
            Want::Missing => (&self.missing, &mut self.next_missing),
        };
        let from = match which {
            Which::Next => *own_next,
            Which::NextOf(rotor) => rotor.0.get(),
            Which::Number(number) => number,
        };
        let Some(first) = set.range(from..).next().or_else(|| set.first()).copied() else {
            return Picked::None;
        };
        match which {
            Which::Next => *own_next = first + 1,
            Which::NextOf(rotor) => rotor.0.set(first + 1),
            Which::Number(_) => {}
        }
        let idle = |entry: &&Entry| self.busy.get(**entry as usize) == Some(&false);
        let round = set.range(first..).chain(set.range(..first));
        match round.into_iter().find(idle).copied() {
            Some(entry) => {
                if let Some(busy) = self.busy.get_mut(entry as usize) {
                    *busy = true;
                }
                Picked::Entry(entry)
            }
            None => Picked::Busy,
        }
    }
}

impl FilesetPlan {
    fn file_size(&self, variables: &[RandomVariable], prng: &mut Prng) -> u64 {
        match (self.size, self.size_gamma) {
            (Number::Random(number), _) => {
                variables.get(number).map_or(0, |variable| variable.sample(prng) as u64)
            }
            (Number::Constant(mean), Some(per_mille)) => {
                let shape = per_mille as f64 / 1000.0;
                (gamma(shape, prng) * mean as f64 / shape) as u64
            }
            (Number::Constant(size), None) => size,
        }
    }
}

/// A tree being drawn.
struct Tree<'a> {
    plan: &'a FilesetPlan,
    variables: &'a [RandomVariable],
    mean_depth: f64,
    prng: Prng,
    directories: Vec<Node>,
    files: Vec<Node>,
    leaves: Vec<Node>,
}

impl Tree<'_> {
    fn wants_files(&self) -> bool {
        (self.files.len() as u64) < self.plan.entries
    }

    fn wants_leaves(&self) -> bool {
        (self.leaves.len() as u64) < self.plan.leaf_directories
    }

    /// Draws a directory and all below it. `above` is the number of directories over it.
    fn directory(&mut self, node: Node, above: u32) {
        let number = self.directories.len() as u32;
        self.directories.push(node);
        let (depth, width) = (self.depth(), self.width());
        let is_root = above == 0;
        let full = above + 1 >= DEPTH_MAX || self.directories.len() as u64 >= ENTRIES_MAX;
        let holds_files = !is_root && (above + 1 >= depth || full);
        // Files and leaf directories count on, where a set has both: filebench gives both the same
        // names, which no directory can hold.
        let mut serial = 0;
        for leaves in [false, true] {
            let mut made = 0;
            while (is_root || made < width)
                && if leaves { self.wants_leaves() } else { self.wants_files() }
            {
                (made, serial) = (made + 1, serial + 1);
                let node = Node { directory: number, serial };
                match (holds_files, leaves) {
                    (true, false) => self.files.push(node),
                    (true, true) => self.leaves.push(node),
                    (false, _) => self.directory(node, above + 1),
                }
            }
        }
    }

    fn depth(&mut self) -> u32 {
        let variable = match self.plan.depth {
            Some(Number::Random(number)) => self.variables.get(number),
            _ => None,
        };
        // A float becomes the nearest whole number that the type has.
        let depth = match (variable, self.shape()) {
            (Some(variable), _) => {
                let distribution = variable.distribution.with_mean(self.mean_depth);
                RandomVariable { distribution, ..variable.clone() }.sample(&mut self.prng) as u32
            }
            (None, Some(shape)) => (gamma(shape, &mut self.prng) * self.mean_depth / shape) as u32,
            (None, None) => self.mean_depth as u32,
        };
        depth.max(1)
    }

    fn width(&mut self) -> u64 {
        let width = match (self.plan.width, self.shape()) {
            (Number::Random(number), _) => {
                self.variables.get(number).map_or(0.0, |variable| variable.sample(&mut self.prng))
            }
            (Number::Constant(width), Some(shape)) => {
                gamma(shape, &mut self.prng) * width as f64 / shape
            }
            (Number::Constant(width), None) => width as f64,
        };
        (width.ceil() as u64).max(1)
    }

    fn shape(&self) -> Option<f64> {
        (self.plan.gamma > 0).then(|| self.plan.gamma as f64 / 1000.0)
    }
}

impl Distribution {
    /// The mean of a randvar; none of a cvar, which filebench asks for a value instead.
    fn mean(&self) -> Option<f64> {
        match self {
            Distribution::Uniform(low, high) => Some((low + high) / 2.0),
            Distribution::Gamma { min, shape, scale } => Some(min + shape * scale),
            Distribution::Table(slots) => {
                let sum: f64 = slots.iter().map(|(low, high)| (low + high) / 2.0).sum();
                Some(sum / slots.len().max(1) as f64)
            }
            _ => None,
        }
    }

    /// The same with another mean, as filebench gives the depths' variable the tree's mean depth.
    fn with_mean(&self, mean: f64) -> Distribution {
        match (self, self.mean()) {
            (Distribution::Uniform(low, _), _) => Distribution::Uniform(*low, 2.0 * mean - low),
            (Distribution::Gamma { min, shape, .. }, _) => {
                Distribution::Gamma { min: *min, shape: *shape, scale: (mean - min) / shape }
            }
            (Distribution::Table(slots), Some(own)) if own != 0.0 => {
                let scale = mean / own;
                let slots = slots.iter().map(|(low, high)| (low * scale, high * scale));
                Distribution::Table(slots.collect())
            }
            (other, _) => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
