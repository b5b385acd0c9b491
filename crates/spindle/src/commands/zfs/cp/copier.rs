//! How a copy goes on and how it went: counters, the bar, what is told at the end.

use super::super::source::Source;
use crate::foreign;
use crate::output::{Failure, say};
use ::host::directory::{self, Directory};
use ::zfs::zpl::descent::Descent;
use ::zfs::zpl::{FileSystem, Node};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rt::Rt;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use stdx::ByteCount;
use zfs_format::zpl::acl::{AclEntry, Who};
use zfs_format::zpl::directory::FileKind;

/// Directories in directories that are copied: a descriptor each.
pub(super) const DEPTH_MAX: usize = 400;
/// Files with several names whose first name is remembered. Beyond, further names become files of their own.
pub(super) const LINKS_MAX: usize = 1 << 20;

/// Extended attributes that the target does not take, by name, that are told.
const LACKS_MAX: usize = 64;
/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How a command is carried out.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) force: bool,
    pub(super) skip_damaged: bool,
    pub(super) verbose: bool,
    pub(super) children: bool,
    pub(super) no_devices: bool,
    pub(super) no_setuid: bool,
}

/// Why the command ends.
pub(super) enum Stop {
    /// There is no room at the target.
    Full(String),
}

/// Why a file is not copied.
pub(super) enum Trouble {
    /// This is to be told, and the next file is copied.
    Failed(String),
    /// It was told.
    Told,
    /// The command ends.
    Stop(Stop),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Failed(error.to_string())
    }
}

/// Files on which an attribute could not be set.
struct Lack {
    files: u64,
    /// The first of them, and why.
    first: String,
    kind: io::ErrorKind,
}

impl Lack {
    /// Whether only root may set it, as owners.
    fn is_for_root(&self, name: &[u8]) -> bool {
        let names: [&[u8]; 2] = [b"trusted.", b"security."];
        let is_such = names.iter().any(|space| name.starts_with(space));
        is_such && self.kind == io::ErrorKind::PermissionDenied
    }

    fn told(&self, name: &[u8]) -> String {
        let (name, files, first) = (foreign::bytes(name), files(self.files), &self.first);
        let cause = match self.kind {
            io::ErrorKind::StorageFull => {
                "; ext4 holds about 4 KiB of attributes of a file, XFS holds more"
            }
            io::ErrorKind::Unsupported => "; the file system of the target has no such attributes",
            _ => "",
        };
        format!("the attribute {name} could not be set on {files} (first {first}){cause}")
    }
}

/// See the [module](self).
pub(super) struct Copier {
    pub(super) rt: Rt,
    pub(super) rules: Rules,
    /// Whether owners can be set.
    pub(super) root: bool,
    /// The files that the pool lies on, by device and inode.
    pub(super) devices: BTreeSet<(u64, u64)>,
    bar: ProgressBar,
    line: Option<Cell<Instant>>,
    pub(super) failed: Cell<u64>,
    pub(super) copied: Cell<u64>,
    pub(super) kept: Cell<u64>,
    /// Lists of access that say more than the mode.
    lists: Cell<u64>,
    /// What extended attributes the target didn't take: how often, and why.
    lacks: RefCell<BTreeMap<Vec<u8>, Lack>>,
    /// Device nodes that were left out.
    nodes: Cell<u64>,
    /// The top of each copy, to be made durable at the end.
    pub(super) tops: RefCell<Vec<Directory>>,
}

impl Copier {
    pub(super) fn new(rt: &Rt, rules: Rules, devices: BTreeSet<(u64, u64)>) -> Copier {
        let terminal = io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = "{bar:30} {bytes}/{total_bytes} at {bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        Copier {
            rt: rt.clone(),
            rules,
            root: directory::is_root(),
            devices,
            bar,
            line: (!terminal).then(|| Cell::new(Instant::now())),
            failed: Cell::new(0),
            copied: Cell::new(0),
            kept: Cell::new(0),
            lists: Cell::new(0),
            lacks: RefCell::default(),
            nodes: Cell::new(0),
            tops: RefCell::default(),
        }
    }

    /// Counts beside the copying what there is to copy.
    pub(super) fn begin(&self, source: &Source, node: &Node) {
        let (files, node, bar) = (source.files.clone(), node.clone(), self.bar.clone());
        self.rt.spawn(async move { count(files, node, bar).await }).detach();
    }

    /// So many bytes more are there.
    pub(super) fn progress(&self, bytes_more: u64) {
        self.bar.inc(bytes_more);
        let Some(last) = self.line.as_ref().filter(|last| last.get().elapsed() >= LINE_EVERY)
        else {
            return;
        };
        last.set(Instant::now());
        let (done, all, left) =
            (self.bar.position(), self.bar.length().unwrap_or(0), self.bar.eta().as_secs());
        say(&format!("{} of {} copied, some {left} s left", bytes(done), bytes(all)));
    }

    /// Tells what went wrong with a file.
    pub(super) fn complain(&self, text: &str) {
        self.failed.set(self.failed.get() + 1);
        let shown = Failure::failed(text).message;
        self.bar.suspend(|| say(&format!("spindle: {shown}")));
    }

    /// What is said when there is no room.
    pub(super) fn full(&self, error: &io::Error) -> String {
        let copied = files(self.copied.get());
        format!(
            "the target is full ({error}) after {copied}; make room, and the same command goes on"
        )
    }

    /// Counts an extended attribute that the target does not take. One that is too large for it looks like a full
    /// target, so it is not taken for one.
    pub(super) fn lacks(&self, source: &Source, path: &[u8], name: &[u8], error: &io::Error) {
        let mut lacks = self.lacks.borrow_mut();
        if lacks.len() < LACKS_MAX || lacks.contains_key(name) {
            let first = || Lack { files: 0, first: source.about(path, error), kind: error.kind() };
            lacks.entry(name.to_vec()).or_insert_with(first).files += 1;
        }
    }

    /// Counts a device node that is not made.
    pub(super) fn left_out(&self) {
        self.nodes.set(self.nodes.get() + 1);
    }

    /// Says that a file is copied, where that is wanted.
    pub(super) fn names(&self, source: &Source, path: &[u8]) {
        if !self.rules.verbose {
            return;
        }
        let name = [source.of.name().as_bytes(), b":/", path].concat();
        let mut line = foreign::name(&name, io::stdout().is_terminal()).into_owned();
        line.push(b'\n');
        // Who reads the names may go away; the copy goes on.
        let _ = self.bar.suspend(|| io::stdout().lock().write_all(&line));
    }

    /// Counts lists of access that say more than the mode.
    pub(super) fn count_access(&self, list: &[AclEntry]) {
        if list.iter().any(|entry| matches!(entry.who, Who::Id(_))) {
            self.lists.set(self.lists.get() + 1);
        }
    }

    /// Makes all durable, and says how it went.
    pub(super) fn end(&self) -> Result<(), Failure> {
        for top in self.tops.borrow().iter() {
            let failed = |error| Failure::failed(format!("making the copy durable: {error}"));
            top.sync_all().map_err(failed)?;
        }
        self.bar.finish_and_clear();
        for (name, lack) in self.lacks.borrow().iter() {
            let text = lack.told(name);
            match lack.is_for_root(name) && !self.root {
                true => say(&format!("note: {text}")),
                false => self.complain(&text),
            }
        }
        if self.nodes.get() > 0 {
            let (nodes, why) = match self.root {
                true => (self.nodes.get(), "as --no-devices says"),
                false => (self.nodes.get(), "only root can make them"),
            };
            say(&format!("note: {nodes} device nodes were left out: {why}"));
        }
        if self.lists.get() > 0 {
            let count = files(self.lists.get());
            say(&format!(
                "note: {count} had NFSv4 lists of access, which Linux does not keep: zfs stat shows them"
            ));
        }
        let copied = files(self.copied.get());
        let kept = match self.kept.get() {
            0 => String::new(),
            kept => format!(", {kept} were there already"),
        };
        match self.failed.get() {
            0 => {
                say(&format!("{copied} copied, {}{kept}", bytes(self.bar.position())));
                Ok(())
            }
            1 => Err(Failure::failed(format!(
                "{copied} copied{kept}; one thing went wrong, as told above"
            ))),
            failed => {
                let text =
                    format!("{copied} copied{kept}; {failed} things went wrong, as told above");
                Err(Failure::failed(text))
            }
        }
    }
}

/// Adds up the bytes below a node, of a file with several names once. What can't be had is not counted: the copy itself
/// tells.
async fn count(files: FileSystem, node: Node, bar: ProgressBar) {
    let mut linked = BTreeSet::new();
    let mut add = |node: &Node| {
        let again =
            node.attributes.links > 1 && linked.len() < LINKS_MAX && !linked.insert(node.number());
        if !again {
            bar.inc_length(content_bytes(node));
        }
    };
    let top = node.clone();
    let mut waiting = vec![(0, node)];
    while let Some((depth, node)) = waiting.pop() {
        let mut descent = Descent::new(&top, &node);
        if !node.is_directory() {
            add(&node);
        } else if depth < DEPTH_MAX
            && let Ok(names) = files.names(&node).await
        {
            for name in names {
                match files.node(name.entry.object).await {
                    Ok(node) if descent.enter(&node).is_err() => {}
                    Ok(node) if node.is_directory() => waiting.push((depth + 1, node)),
                    Ok(node) => add(&node),
                    Err(_) => {}
                }
            }
        }
    }
}

/// Bytes that a file's copy takes.
pub(super) fn content_bytes(node: &Node) -> u64 {
    if node.attributes.kind == FileKind::File { node.attributes.size } else { 0 }
}

/// A number of files, in words.
fn files(count: u64) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

/// Bytes, in words.
fn bytes(count: u64) -> String {
    ByteCount(count).to_string()
}
