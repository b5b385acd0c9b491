//! What is done to both pools: operations drawn from a seed, with what they need to know to be possible.
//!
//! Nothing is asked for that can fail: what an operation refuses is another test's matter. Operations on files stand in bundles
//! between two commits; operations on datasets are committed one by one, so that each has an interval of its own.

use std::collections::BTreeMap;
use stdx::Prng;

/// An operation on files. Paths are below the root of their file system.
#[derive(Clone, Debug)]
pub(super) enum FileDeed {
    Create(String),
    Mkdir(String),
    Rmdir(String),
    /// At an offset.
    Write(String, u64, Content),
    Append(String, Content),
    Truncate(String, u64),
    Punch(String, u64, u64),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    Unlink(String),
    Chmod(String, u16),
    Chown(String, u32, u32),
    /// An extended attribute, of the one name that is used.
    SetValue(String, Content),
}

/// A stretch of the bytes that both take theirs from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) at: usize,
    pub(super) len: usize,
}

/// A property with what it is set to: by number, and as a user says it.
pub(super) type Setting = (&'static str, u64, String);

/// One thing that is done.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    File(String, FileDeed),
    VolumeWrite(String, u64, Content),
    VolumeDiscard(String, u64, u64),
    /// By its whole name; bytes of its blocks.
    CreateFiles(String, u64),
    /// The same with its size.
    CreateVolume(String, u64, u64),
    Snapshot(String),
    /// Whether it is a volume.
    Clone(String, String, bool),
    Rollback(String),
    DestroySnapshot(String),
    Destroy(String),
    Promote(String),
    Bookmark(String, String),
    Set(String, Setting),
    /// All is committed, and births after it are of another interval.
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
    Link,
}

/// Names of a file system.
type Tree = BTreeMap<String, Kind>;

#[derive(Clone, Default)]
struct Dataset {
    /// Nothing for a volume.
    tree: Option<Tree>,
    snapshots: Vec<(String, Option<Tree>)>,
    origin: Option<(String, String)>,
}

/// Draws a sequence.
pub(super) struct Generator {
    random: Prng,
    all: BTreeMap<String, Dataset>,
    made: usize,
    /// Numbers of snapshots that have bookmarks: nobody is rolled back behind one.
    marked: Vec<usize>,
    content: Vec<u8>,
    deeds: Vec<Deed>,
}

/// Bytes of a volume.
pub(super) const VOLUME_BYTES: u64 = 4 << 20;
/// Bytes of a volume's blocks.
const VOLUME_BLOCK: u64 = 16 << 10;
const DATASETS_MAX: usize = 7;

/// A sequence, and the bytes that are written in it.
pub(super) fn draw(seed: u64, bundles: usize) -> (Vec<Deed>, Vec<u8>) {
    let mut generator = Generator {
        random: Prng::new(seed),
        all: BTreeMap::new(),
        made: 0,
        marked: Vec::new(),
        content: Vec::new(),
        deeds: Vec::new(),
    };
    generator.begin();
    for _ in 0..bundles {
        generator.bundle();
        generator.datasets();
    }
    (generator.deeds, generator.content)
}

/// Which snapshot it is, by its name.
fn number(snapshot: &str) -> usize {
    snapshot[1..].parse().expect("an `s` and a number")
}

impl Generator {
    /// One that is put down.
    fn deed(&mut self, deed: Deed) {
        self.deeds.push(deed);
    }

    /// One that is committed by itself.
    fn alone(&mut self, deed: Deed) {
        self.deeds.extend([deed, Deed::Sync]);
    }

    fn begin(&mut self) {
        self.deed(Deed::Sync);
        let record = [512, 4 << 10, 16 << 10][self.random.below(3) as usize];
        for (name, record) in [("tank/a", record), ("tank/b", 128 << 10)] {
            self.alone(Deed::CreateFiles(name.to_owned(), record));
            let tree = Some(Tree::new());
            self.all.insert(name.to_owned(), Dataset { tree, ..Dataset::default() });
        }
        self.alone(Deed::CreateVolume("tank/v".to_owned(), VOLUME_BYTES, VOLUME_BLOCK));
        self.all.insert("tank/v".to_owned(), Dataset::default());
    }

    fn pick_dataset(&mut self) -> String {
        let at = self.random.below(self.all.len() as u64) as usize;
        self.all.keys().nth(at).expect("there is one").clone()
    }

    fn name(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{what}{}", self.made)
    }

    /// Some bytes: random, alike, repeating, zeros, or few.
    fn content(&mut self, len: usize) -> Content {
        let (at, word) = (self.content.len(), self.random.next_u64() | 1);
        match self.random.below(6) {
            0 => self.content.extend(std::iter::repeat_n(word as u8 | 1, len)),
            1 => self.content.extend((0..len).map(|n| (n as u64 / 64).wrapping_mul(word) as u8)),
            2 => self.content.extend(std::iter::repeat_n(0, len)),
            _ => {
                let mut bytes = vec![0; len];
                self.random.fill(&mut bytes);
                self.content.extend(bytes);
            }
        }
        Content { at, len }
    }

    /// Some operations on files and volumes, and a commit.
    fn bundle(&mut self) {
        for _ in 0..1 + self.random.below(6) {
            let of = self.pick_dataset();
            match self.all[&of].tree {
                Some(_) => self.change_files(&of),
                None => self.change_volume(of),
            }
        }
        self.deed(Deed::Sync);
    }

    fn change_volume(&mut self, of: String) {
        const PAGE: u64 = 4096;
        let at = self.random.below(VOLUME_BYTES / PAGE) * PAGE;
        let most = if self.random.chance(0.1) { 100 } else { 12 };
        let len = ((1 + self.random.below(most)) * PAGE).min(VOLUME_BYTES - at);
        if self.random.chance(0.3) {
            return self.deed(Deed::VolumeDiscard(of, at, len));
        }
        let content = self.content(len as usize);
        self.deed(Deed::VolumeWrite(of, at, content));
    }

    fn pick_path(&mut self, of: &str, wanted: Kind) -> Option<String> {
        let tree = self.all[of].tree.as_ref()?;
        let all: Vec<&String> =
            tree.iter().filter(|(_, kind)| **kind == wanted).map(|(path, _)| path).collect();
        (!all.is_empty()).then(|| all[self.random.below(all.len() as u64) as usize].clone())
    }

    /// A name that may be new, in a directory that is there.
    fn some_path(&mut self, of: &str) -> String {
        let name = format!("f{}", self.random.below(6));
        match self.pick_path(of, Kind::Directory) {
            Some(directory) if self.random.chance(0.4) => format!("{directory}/{name}"),
            _ => name,
        }
    }

    fn somewhere(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 0,
            1..=4 => self.random.below(60_000),
            5 | 6 => self.random.below(700_000),
            _ => self.random.below(30 << 20),
        }
    }

    fn length(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 1 + self.random.below(100),
            1..=5 => 1 + self.random.below(30_000),
            _ => 1 + self.random.below(200_000),
        }
    }

    fn tree(&mut self, of: &str) -> &mut Tree {
        let dataset = self.all.get_mut(of).expect("it is known");
        dataset.tree.as_mut().expect("it has files")
    }

    fn file_deed(&mut self, of: &str, deed: FileDeed) {
        self.deed(Deed::File(of.to_owned(), deed));
    }

    fn change_files(&mut self, of: &str) {
        let Some(path) = self.pick_path(of, Kind::File).filter(|_| self.random.chance(0.85)) else {
            return self.make_one(of);
        };
        let deed = match self.random.below(24) {
            0..=8 => {
                let (at, len) = (self.somewhere(), self.length() as usize);
                FileDeed::Write(path, at, self.content(len))
            }
            9 => {
                let len = self.length() as usize;
                FileDeed::Append(path, self.content(len))
            }
            10 | 11 => FileDeed::Truncate(path, self.somewhere()),
            12 => FileDeed::Truncate(path, 0),
            13..=15 => {
                let long = if self.random.chance(0.2) { 20 << 20 } else { 0 };
                FileDeed::Punch(path, self.somewhere(), self.length() + long)
            }
            16..=18 => return self.name_anew(of, path),
            19 | 20 => {
                self.tree(of).remove(&path);
                FileDeed::Unlink(path)
            }
            21 => match self.random.below(2) {
                0 => FileDeed::Chmod(path, 0o600 + self.random.below(64) as u16),
                _ => FileDeed::Chown(path, self.random.below(3) as u32, 7),
            },
            // Short, longer than what fits into the bonus, and long.
            _ => {
                let len = [20, 300, 3000][self.random.below(3) as usize];
                FileDeed::SetValue(path, self.content(len))
            }
        };
        self.file_deed(of, deed);
    }

    /// A file is moved, in another's place too, or gets one more name.
    fn name_anew(&mut self, of: &str, path: String) {
        let new = self.some_path(of);
        let is_there = self.tree(of).contains_key(&new);
        if self.random.chance(0.3) {
            if !is_there {
                self.tree(of).insert(new.clone(), Kind::File);
                self.file_deed(of, FileDeed::Link(path, new));
            }
            return;
        }
        // Two names of one file would both stay.
        let has_links =
            self.deeds.iter().any(|deed| matches!(deed, Deed::File(_, FileDeed::Link(..))));
        if new == path || is_there && has_links {
            return;
        }
        self.tree(of).remove(&path);
        self.tree(of).insert(new.clone(), Kind::File);
        self.file_deed(of, FileDeed::Rename(path, new));
    }

    fn make_one(&mut self, of: &str) {
        match self.random.below(10) {
            0 | 1 => {
                let path = format!("d{}", self.random.below(3));
                let below = format!("{path}/");
                if !self.tree(of).contains_key(&path) {
                    self.tree(of).insert(path.clone(), Kind::Directory);
                    self.file_deed(of, FileDeed::Mkdir(path));
                } else if !self.tree(of).keys().any(|other| other.starts_with(&below)) {
                    self.tree(of).remove(&path);
                    self.file_deed(of, FileDeed::Rmdir(path));
                }
            }
            2 => {
                let path = format!("l{}", self.random.below(3));
                if self.tree(of).insert(path.clone(), Kind::Link).is_none() {
                    let to = "somewhere/else/".repeat(1 + self.random.below(5) as usize);
                    self.file_deed(of, FileDeed::Symlink(to, path));
                } else {
                    self.tree(of).remove(&path);
                    self.file_deed(of, FileDeed::Unlink(path));
                }
            }
            _ => {
                let path = self.some_path(of);
                if self.tree(of).contains_key(&path) {
                    return;
                }
                self.tree(of).insert(path.clone(), Kind::File);
                self.file_deed(of, FileDeed::Create(path.clone()));
                let (at, len) = (self.somewhere(), self.length() as usize);
                let content = self.content(len);
                self.file_deed(of, FileDeed::Write(path, at, content));
            }
        }
    }

    /// One operation on datasets.
    fn datasets(&mut self) {
        let of = self.pick_dataset();
        match self.random.below(13) {
            0..=3 => self.snapshot(of),
            4 | 5 => self.clone_one(&of),
            6 | 7 => self.destroy_snapshot(&of),
            8 => self.roll_back(of),
            9 => self.promote(of),
            10 => self.destroy(of),
            11 => {
                if let Some(snapshot) = self.pick_snapshot(&of) {
                    let mark = self.name("m");
                    self.marked.push(number(&snapshot));
                    self.alone(Deed::Bookmark(format!("{of}@{snapshot}"), format!("{of}#{mark}")));
                }
            }
            _ => self.set(of),
        }
    }

    fn pick_snapshot(&mut self, of: &str) -> Option<String> {
        let known = &self.all[of].snapshots;
        let at = self.random.below(known.len().max(1) as u64) as usize;
        known.get(at).map(|(name, _)| name.clone())
    }

    fn snapshot(&mut self, of: String) {
        let name = self.name("s");
        let dataset = self.all.get_mut(&of).expect("it is known");
        dataset.snapshots.push((name.clone(), dataset.tree.clone()));
        self.alone(Deed::Snapshot(format!("{of}@{name}")));
    }

    fn clone_one(&mut self, of: &str) {
        let Some(snapshot) = self.pick_snapshot(of).filter(|_| self.all.len() < DATASETS_MAX)
        else {
            return;
        };
        let name = self.name("tank/c");
        let then = self.all[of].snapshots.iter().find(|(known, _)| *known == snapshot);
        let tree = then.expect("it is known").1.clone();
        let origin = Some((of.to_owned(), snapshot.clone()));
        let is_volume = tree.is_none();
        self.all.insert(name.clone(), Dataset { tree, snapshots: Vec::new(), origin });
        self.alone(Deed::Clone(format!("{of}@{snapshot}"), name, is_volume));
    }

    fn has_clones(&self, of: &str, snapshot: &str) -> bool {
        let is_it = |(fs, of_it): &(String, String)| fs == of && of_it == snapshot;
        self.all.values().any(|dataset| dataset.origin.as_ref().is_some_and(is_it))
    }

    fn destroy_snapshot(&mut self, of: &str) {
        let Some(snapshot) = self.pick_snapshot(of) else { return };
        if self.has_clones(of, &snapshot) {
            return;
        }
        let known = &mut self.all.get_mut(of).expect("it is known").snapshots;
        known.retain(|(name, _)| *name != snapshot);
        self.alone(Deed::DestroySnapshot(format!("{of}@{snapshot}")));
    }

    /// To the newest snapshot.
    fn roll_back(&mut self, of: String) {
        let dataset = self.all.get_mut(&of).expect("it is known");
        let Some((snapshot, tree)) = dataset.snapshots.last().cloned() else { return };
        if self.marked.iter().any(|marked| *marked > number(&snapshot)) {
            return;
        }
        dataset.tree = tree;
        self.alone(Deed::Rollback(format!("{of}@{snapshot}")));
    }

    fn promote(&mut self, of: String) {
        let Some((from, at)) = self.all[&of].origin.clone() else { return };
        let other = self.all.get_mut(&from).expect("it is known");
        let place = other.snapshots.iter().position(|(name, _)| *name == at).expect("it is there");
        let kept = other.snapshots.split_off(place + 1);
        let moved = std::mem::replace(&mut other.snapshots, kept);
        let above = other.origin.replace((of.clone(), at));
        for dataset in self.all.values_mut() {
            if let Some((fs, snapshot)) = &mut dataset.origin
                && *fs == from
                && moved.iter().any(|(name, _)| name == snapshot)
            {
                *fs = of.clone();
            }
        }
        let clone = self.all.get_mut(&of).expect("it is known");
        clone.origin = above;
        clone.snapshots.splice(0..0, moved);
        self.alone(Deed::Promote(of));
    }

    fn destroy(&mut self, of: String) {
        let is_one = self.all[&of].origin.is_some() && self.all[&of].snapshots.is_empty();
        if is_one {
            self.all.remove(&of);
            self.alone(Deed::Destroy(of));
        }
    }

    fn set(&mut self, of: String) {
        let is_volume = self.all[&of].tree.is_none();
        let setting = match self.random.below(if is_volume { 2 } else { 3 }) {
            0 => {
                let all = [(2, "off"), (15, "lz4"), (14, "zle"), (3, "lzjb")];
                let (number, word) = all[self.random.below(4) as usize];
                ("compression", number, word.to_owned())
            }
            1 => {
                let copies = 1 + self.random.below(2);
                ("copies", copies, copies.to_string())
            }
            _ => {
                let bytes = [512, 4 << 10, 16 << 10, 128 << 10][self.random.below(4) as usize];
                ("recordsize", bytes, bytes.to_string())
            }
        };
        self.alone(Deed::Set(of, setting));
    }
}
