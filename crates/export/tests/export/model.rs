//! The file system in memory, by call, beside a directory of this host: the same random operations, the same results.
//!
//! What could break: an error that Linux's file systems give otherwise or in another order; names, link counts, modes or
//! bytes that differ after many operations. The mount's tests (`writable.rs`) don't see it where the kernel refuses first.

use futures_util::FutureExt;
use rt::inodes::{Caller, New, RenameHow, SetAttributes, WriteAt};
use rt::{Attributes, Buf, Cookie, InodeError, InodeFuture, InodeKind, Inodes, MemoryTree, Node};
use rustix::fs::{CWD, RenameFlags};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

const SEEDS: u64 = 30;
const STEPS: u64 = 500;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const FILE_BYTES: u64 = 20_000;

/// A path of plain names.
type Names = Vec<&'static str>;

/// What is done, to both.
#[derive(Clone, Debug)]
enum Step {
    Create(Names),
    Mkdir(Names),
    Symlink(Names),
    Link(Names, Names),
    Unlink(Names),
    Rmdir(Names),
    Rename(Names, Names, bool),
    Chmod(Names, u16),
    Write(Names, u64, Vec<u8>),
    Truncate(Names, u64),
    Look(Names),
}

/// What is seen, or the number of the error.
type Seen = Result<String, i32>;

fn names(random: &mut Prng) -> Names {
    let depth = 1 + random.below(3);
    (0..depth).map(|_| NAMES[random.below(NAMES.len() as u64) as usize]).collect()
}

fn step(random: &mut Prng) -> Step {
    let path = names(random);
    match random.below(14) {
        0 | 1 => Step::Create(path),
        2 | 3 => Step::Mkdir(path),
        4 => Step::Symlink(path),
        5 => Step::Link(path, names(random)),
        6 => Step::Unlink(path),
        7 => Step::Rmdir(path),
        8 | 9 => Step::Rename(path, names(random), random.below(4) == 0),
        10 => Step::Chmod(path, random.below(0o1000) as u16),
        11 => {
            let byte = random.below(256) as u8;
            Step::Write(path, random.below(FILE_BYTES), vec![byte; random.below(5000) as usize])
        }
        12 => Step::Truncate(path, random.below(FILE_BYTES)),
        _ => Step::Look(path),
    }
}

fn told(kind: char, mode: u32, links: u64, content: &[u8]) -> String {
    // How many names a directory has is the file system's business.
    let links = if kind == 'd' { 0 } else { links };
    format!("{kind} {mode:o} {links} {}", String::from_utf8_lossy(content))
}

struct Real(PathBuf);

impl Real {
    fn path(&self, names: &Names) -> PathBuf {
        self.0.join(names.join("/"))
    }

    fn is_file(path: &Path) -> std::io::Result<()> {
        // Links lead nowhere; who would follow one is not what is looked at here.
        match fs::symlink_metadata(path)?.is_file() {
            true => Ok(()),
            false => Err(std::io::Error::from_raw_os_error(22)),
        }
    }

    fn apply(&self, step: &Step) -> Seen {
        let done = |result: std::io::Result<()>| match result {
            Ok(()) => Ok(String::new()),
            Err(error) => Err(error.raw_os_error().expect("by the system")),
        };
        let at = |names| self.path(names);
        done(match step {
            Step::Create(path) => fs::File::create_new(at(path)).map(drop),
            Step::Mkdir(path) => fs::create_dir(at(path)),
            Step::Symlink(path) => std::os::unix::fs::symlink("nowhere", at(path)),
            Step::Link(from, to) => fs::hard_link(at(from), at(to)),
            Step::Unlink(path) => rustix::fs::unlink(at(path)).map_err(Into::into),
            Step::Rmdir(path) => fs::remove_dir(at(path)),
            Step::Rename(from, to, keeps) => {
                let flags = if *keeps { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
                rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags).map_err(Into::into)
            }
            Step::Chmod(path, mode) => Real::is_file(&at(path)).and_then(|()| {
                fs::set_permissions(at(path), fs::Permissions::from_mode((*mode).into()))
            }),
            Step::Write(path, to, data) => Real::is_file(&at(path)).and_then(|()| {
                fs::OpenOptions::new().write(true).open(at(path))?.write_all_at(data, *to)
            }),
            Step::Truncate(path, size) => Real::is_file(&at(path))
                .and_then(|()| fs::OpenOptions::new().write(true).open(at(path))?.set_len(*size)),
            Step::Look(path) => return self.look(&at(path)),
        })
    }

    fn look(&self, path: &Path) -> Seen {
        let errno = |error: std::io::Error| error.raw_os_error().expect("by the system");
        let known = fs::symlink_metadata(path).map_err(errno)?;
        let (kind, content) = match known.file_type() {
            kind if kind.is_file() => ('f', fs::read(path).map_err(errno)?),
            kind if kind.is_dir() => {
                let entries = fs::read_dir(path).map_err(errno)?;
                let names: BTreeSet<String> = entries
                    .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
                    .collect();
                ('d', format!("{names:?}").into_bytes())
            }
            _ => ('l', b"nowhere".to_vec()),
        };
        Ok(told(kind, known.mode() & 0o7777, known.nlink(), &content))
    }
}

struct Model(Rc<MemoryTree>);

/// What the tree in memory answers, at once.
fn now<T>(answer: InodeFuture<T>) -> Result<T, i32> {
    answer.now_or_never().expect("it answers at once").map_err(InodeError::errno)
}

impl Model {
    /// The directory of the last name.
    fn parent<'a>(&self, names: &'a Names) -> Result<(Node, &'a [u8]), i32> {
        let (last, above) = names.split_last().expect("a name");
        let mut at = now(Inodes::attributes(&*self.0, Node::ROOT))?;
        for name in above {
            at = now(self.0.lookup(at.node, name.as_bytes()))?;
            match at.kind {
                InodeKind::Directory => {}
                // It leads nowhere.
                InodeKind::Link => return Err(2),
                _ => return Err(20),
            }
        }
        Ok((at.node, last.as_bytes()))
    }

    fn found(&self, names: &Names) -> Result<Attributes, i32> {
        let (directory, name) = self.parent(names)?;
        now(self.0.lookup(directory, name))
    }

    fn file(&self, names: &Names) -> Result<Node, i32> {
        let found = self.found(names)?;
        if found.kind == InodeKind::File { Ok(found.node) } else { Err(22) }
    }

    fn apply(&self, step: &Step) -> Seen {
        let (tree, by) = (&*self.0, Caller::default());
        let new = |permissions| New { permissions, umask: 0 };
        match step {
            Step::Create(path) => {
                let (directory, name) = self.parent(path)?;
                let made = now(tree.create(by, directory, name, new(0o644)))?;
                tree.release(made.node);
            }
            Step::Mkdir(path) => {
                let (directory, name) = self.parent(path)?;
                now(tree.mkdir(by, directory, name, new(0o755)))?;
            }
            Step::Symlink(path) => {
                let (directory, name) = self.parent(path)?;
                now(tree.symlink(by, directory, name, b"nowhere"))?;
            }
            Step::Link(from, to) => {
                let from = self.found(from)?;
                let (directory, name) = self.parent(to)?;
                now(tree.link(by, from.node, directory, name))?;
            }
            Step::Unlink(path) => {
                let (directory, name) = self.parent(path)?;
                now(tree.unlink(by, directory, name))?;
            }
            Step::Rmdir(path) => {
                let (directory, name) = self.parent(path)?;
                now(tree.rmdir(by, directory, name))?;
            }
            Step::Rename(from, to, keeps) => {
                let (from, to) = (self.parent(from)?, self.parent(to)?);
                let how = if *keeps { RenameHow::NoReplace } else { RenameHow::Replace };
                now(Inodes::rename(tree, by, from, to, how))?;
            }
            Step::Chmod(path, mode) => {
                let set = SetAttributes { permissions: Some(*mode), ..SetAttributes::default() };
                now(tree.setattr(by, self.file(path)?, set))?;
            }
            Step::Write(path, at, data) => {
                let (at, data) = (WriteAt::Offset(Offset(*at)), Buf::copy_of(data).into());
                now(tree.write(by, self.file(path)?, at, data, false))?;
            }
            Step::Truncate(path, size) => {
                let size = Some(ByteCount(*size));
                let set = SetAttributes { size, ..SetAttributes::default() };
                now(tree.setattr(by, self.file(path)?, set))?;
            }
            Step::Look(path) => return self.look(&self.found(path)?),
        }
        Ok(String::new())
    }

    fn look(&self, known: &Attributes) -> Seen {
        let (kind, content) = match known.kind {
            InodeKind::File => {
                let all = now(self.0.read(known.node, Offset(0), ByteCount(1 << 20)))?;
                ('f', all.to_vec())
            }
            InodeKind::Directory => {
                let entries = now(Inodes::list(&*self.0, known.node, Cookie::START, 100))?;
                let text = |name| String::from_utf8(name).expect("text");
                let names: BTreeSet<String> =
                    entries.into_iter().map(|entry| text(entry.name)).collect();
                ('d', format!("{names:?}").into_bytes())
            }
            _ => ('l', now(self.0.link_target(known.node))?),
        };
        Ok(told(kind, known.permissions.into(), known.links.into(), &content))
    }

    /// All paths that there are.
    fn paths(&self, below: Node, at: &Names, all: &mut Vec<Names>) {
        for entry in now(Inodes::list(&*self.0, below, Cookie::START, 100)).expect("listed") {
            let name = NAMES.into_iter().find(|name| name.as_bytes() == entry.name);
            let path: Names = at.iter().copied().chain(name).collect();
            if entry.kind == InodeKind::Directory {
                self.paths(entry.node, &path, all);
            }
            all.push(path);
        }
    }
}

#[test]
fn random_operations_end_as_on_this_host() {
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o022));
    let (mut done, mut refused) = (0, BTreeSet::new());
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir().expect("a folder");
        let real = Real(folder.path().to_owned());
        let model = Model(MemoryTree::new("m"));
        let mut random = Prng::new(seed);
        for number in 0..STEPS {
            let step = step(&mut random);
            let (expected, seen) = (real.apply(&step), model.apply(&step));
            assert_eq!(seen, expected, "seed {seed}, step {number}: {step:?}");
            done += u64::from(seen.is_ok());
            refused.extend(seen.err());
        }
        let mut paths = Vec::new();
        model.paths(Node::ROOT, &Vec::new(), &mut paths);
        for path in paths {
            let look = Step::Look(path);
            assert_eq!(model.apply(&look), real.apply(&look), "seed {seed} at the end: {look:?}");
        }
    }
    assert!(done > SEEDS * STEPS / 10, "{done} steps did something");
    // There is none, is one, is (no) directory, not permitted, into itself, not empty.
    assert!([1, 2, 17, 20, 21, 22, 39].iter().all(|errno| refused.contains(errno)), "{refused:?}");
}
