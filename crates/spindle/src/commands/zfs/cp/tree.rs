//! A tree of files, copied: directories, links, device nodes, and which files are the same.
//!
//! Directories are walked depth first, names in the order of their bytes, with a descriptor for each directory of the way
//! down, so depth is bounded ([`DEPTH_MAX`]). A file with several names is copied under the first that is met; the
//! others become hard links, as long as the first is known ([`LINKS_MAX`]). On its way a second task counts what there
//! is to copy, so that progress can say how long it takes.

use super::super::show;
use super::super::source::Source;
use super::{MARK, Place, Rules, bytes, files, mark};
use crate::commands::{Failure, say};
use ::host::directory::{self, Directory, Entry, EntryKind};
use ::zfs::zpl::attributes::Moment;
use ::zfs::zpl::{FileSystem, Name, Node};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rt::Rt;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};
use zfs_format::zpl::acl::{AclEntry, Who};
use zfs_format::zpl::directory::FileKind;

/// Directories in directories that are copied: a descriptor each, and a damaged pool may have them in a circle.
const DEPTH_MAX: usize = 400;
/// Files with several names whose first name is remembered. Beyond, further names become files of their own.
const LINKS_MAX: usize = 1 << 20;
/// Extended attributes that the target does not take, by name, that are told.
const LACKS_MAX: usize = 64;
/// Units in which file systems keep times: ext4 and XFS, NTFS, some network ones, exFAT, ext3.
const MOMENT_UNITS_NS: [u32; 5] = [1, 100, 1_000, 10_000_000, 1_000_000_000];
/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

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

/// A name of a file that was copied, from the directory into which it was copied.
type Below = Vec<Vec<u8>>;

/// See the [module](self).
pub(super) struct Copier {
    pub(super) rt: Rt,
    pub(super) rules: Rules,
    /// Whether owners can be set.
    pub(super) root: bool,
    bar: ProgressBar,
    line: Option<Cell<Instant>>,
    failed: Cell<u64>,
    copied: Cell<u64>,
    kept: Cell<u64>,
    /// Lists of access that say more than the mode.
    lists: Cell<u64>,
    /// What extended attributes the target didn't take: how often, and why.
    lacks: RefCell<BTreeMap<Vec<u8>, (u64, String)>>,
    /// The top of each copy, to be made durable at the end.
    tops: RefCell<Vec<Directory>>,
}

/// What the walk over one source carries.
struct Walk<'a> {
    source: &'a Source,
    top: &'a Directory,
    links: BTreeMap<u64, Below>,
}

impl Copier {
    pub(super) fn new(rt: &Rt, rules: Rules) -> Copier {
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
            bar,
            line: (!terminal).then(|| Cell::new(Instant::now())),
            failed: Cell::new(0),
            copied: Cell::new(0),
            kept: Cell::new(0),
            lists: Cell::new(0),
            lacks: RefCell::default(),
            tops: RefCell::default(),
        }
    }

    /// Counts beside the copying what there is to copy.
    pub(super) fn begin(&self, source: &Rc<Source>, node: &Node) {
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
            let first = source.about(path, error);
            lacks.entry(name.to_vec()).or_insert((0, first)).0 += 1;
        }
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
        for (name, (count, first)) in self.lacks.borrow().iter() {
            let name = show::text(name);
            say(&format!(
                "note: the attribute {name} could not be set on {} ({first})",
                files(*count)
            ));
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

    /// Copies one source to its place.
    pub(super) async fn copy(&self, source: &Source, node: Node, place: Place) -> Result<(), Stop> {
        match self.copy_to(source, node, place).await {
            Ok(()) | Err(Trouble::Told) => Ok(()),
            Err(Trouble::Failed(text)) => {
                self.complain(&source.about(&source.path, text));
                Ok(())
            }
            Err(Trouble::Stop(stop)) => Err(stop),
        }
    }

    async fn copy_to(&self, source: &Source, node: Node, place: Place) -> Result<(), Trouble> {
        let (directory, name, begins) = match place {
            Place::Named { directory, name, begins } => (directory, name, begins),
            Place::Into(top) => {
                self.tops.borrow_mut().push(top.again()?);
                let mut walk = Walk { source, top: &top, links: BTreeMap::new() };
                self.tree(&mut walk, Vec::new(), source.path.clone(), &node, top.again()?).await?;
                return self.whole(&top);
            }
        };
        self.tops.borrow_mut().push(directory.again()?);
        if !begins {
            let mut walk = Walk { source, top: &directory, links: BTreeMap::new() };
            return self
                .one(&mut walk, &mut Vec::new(), &source.path, &node, &directory, &name)
                .await;
        }
        directory.make(&name)?;
        let top = directory.enter(&name)?;
        self.stop_if_full(top.create(MARK).and_then(|mut file| file.write_all(&mark(source))))?;
        let mut walk = Walk { source, top: &top, links: BTreeMap::new() };
        self.tree(&mut walk, Vec::new(), source.path.clone(), &node, top.again()?).await?;
        self.whole(&top)
    }

    /// Takes the mark away, and leaves the directory's time as it was.
    fn whole(&self, top: &Directory) -> Result<(), Trouble> {
        if self.failed.get() > 0 || top.look(MARK)?.is_none() {
            return Ok(());
        }
        Ok(top.remove(MARK)?)
    }

    /// Copies what is in a directory, then the directory's attributes.
    async fn tree(
        &self,
        walk: &mut Walk<'_>,
        below: Below,
        path: Vec<u8>,
        node: &Node,
        into: Directory,
    ) -> Result<(), Trouble> {
        let mut below = below;
        if below.len() >= DEPTH_MAX {
            let text = format!("directories lie deeper than the {DEPTH_MAX} that are copied");
            return Err(Trouble::Failed(text));
        }
        let source = walk.source;
        let names = source.files.names(node).await;
        let mut names = names.map_err(|error| Trouble::Failed(error.to_string()))?;
        names.sort_by(|a, b| a.name.cmp(&b.name));
        for Name { name, entry, .. } in names {
            let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
            let within = [&path[..], separator, &name].concat();
            if !directory::plain(&name) {
                self.complain(&source.about(&within, "this is no name that a file may have"));
                continue;
            }
            let done = match source.files.node(entry.object).await {
                Ok(node) => self.one(walk, &mut below, &within, &node, &into, &name).await,
                Err(error) => Err(Trouble::Failed(error.to_string())),
            };
            match done {
                Ok(()) | Err(Trouble::Told) => {}
                Err(Trouble::Failed(text)) => self.complain(&source.about(&within, text)),
                Err(stop @ Trouble::Stop(_)) => return Err(stop),
            }
        }
        if below.is_empty() {
            // What was begun is whole but for its own time, which taking the mark away would change.
            self.whole(&into)?;
        }
        self.attributes(source, &path, node, &into).await
    }

    /// Copies one name, whatever it is.
    async fn one(
        &self,
        walk: &mut Walk<'_>,
        below: &mut Below,
        path: &[u8],
        node: &Node,
        into: &Directory,
        name: &[u8],
    ) -> Result<(), Trouble> {
        let there = into.look(name)?;
        if node.is_directory() {
            match there {
                None => self.stop_if_full(into.make(name))?,
                Some(entry) if entry.kind == EntryKind::Directory => {}
                Some(_) => {
                    return Err(Trouble::Failed("there is something else in the target".into()));
                }
            }
            let inside = into.enter(name)?;
            let mut deeper = below.clone();
            deeper.push(name.to_vec());
            return Box::pin(self.tree(walk, deeper, path.to_vec(), node, inside)).await;
        }
        let links = node.attributes.links > 1;
        if links && self.hard_link(walk, node, into, name, there)? {
            return Ok(());
        }
        match there {
            Some(entry) if entry.kind == EntryKind::Directory => {
                return Err(Trouble::Failed("there is a directory in the target".into()));
            }
            Some(entry) if self.is_same(walk.source, node, into, name, &entry).await => {
                self.kept.set(self.kept.get() + 1);
                self.progress(content_bytes(node));
            }
            Some(_) if !self.rules.force => {
                let text = "another file is there in the target; --force replaces it";
                return Err(Trouble::Failed(text.into()));
            }
            found => {
                if node.attributes.kind == FileKind::File {
                    self.file(walk.source, path, node, into, name).await?;
                } else {
                    if found.is_some() {
                        into.remove(name)?;
                    }
                    self.special(walk.source, path, node, into, name).await?;
                }
                self.copied.set(self.copied.get() + 1);
            }
        }
        if links && walk.links.len() < LINKS_MAX {
            let mut known = below.clone();
            known.push(name.to_vec());
            walk.links.insert(node.number(), known);
        }
        Ok(())
    }

    /// Makes a further name of a file that was copied under another; false where none is known.
    fn hard_link(
        &self,
        walk: &Walk<'_>,
        node: &Node,
        into: &Directory,
        name: &[u8],
        there: Option<Entry>,
    ) -> Result<bool, Trouble> {
        let Some((file, way)) = walk.links.get(&node.number()).and_then(|known| known.split_last())
        else {
            return Ok(false);
        };
        let mut first = walk.top.again()?;
        for part in way {
            first = first.enter(part)?;
        }
        let of = first.look(file)?;
        if let (Some(there), Some(of)) = (&there, &of)
            && there.identity == of.identity
        {
            self.kept.set(self.kept.get() + 1);
            return Ok(true);
        }
        if there.is_some() {
            if !self.rules.force {
                let text = "another file is there in the target; --force replaces it";
                return Err(Trouble::Failed(text.into()));
            }
            into.remove(name)?;
        }
        self.stop_if_full(into.hard_link(&first, file, name))?;
        self.copied.set(self.copied.get() + 1);
        Ok(true)
    }

    /// Whether what is there is what would be copied, as far as that is known without reading it.
    async fn is_same(
        &self,
        source: &Source,
        node: &Node,
        into: &Directory,
        name: &[u8],
        there: &Entry,
    ) -> bool {
        let a = &node.attributes;
        if there.kind != kind_of(a.kind) {
            return false;
        }
        match a.kind {
            FileKind::File => there.size == a.size && is_moment(there.modified, a.modified),
            FileKind::SymbolicLink => {
                let texts = (source.files.link_target(node).await, into.link_text(name));
                matches!(texts, (Ok(ours), Ok(theirs)) if ours == theirs)
            }
            FileKind::CharacterDevice | FileKind::BlockDevice => there.device == a.device_numbers(),
            _ => true,
        }
    }

    /// Makes a link or node, with what is known of it.
    async fn special(
        &self,
        source: &Source,
        path: &[u8],
        node: &Node,
        into: &Directory,
        name: &[u8],
    ) -> Result<(), Trouble> {
        let a = &node.attributes;
        if a.kind == FileKind::SymbolicLink {
            let target = source.files.link_target(node).await;
            let target = target.map_err(|error| Trouble::Failed(error.to_string()))?;
            self.stop_if_full(into.make_link(name, &target))?;
        } else {
            self.stop_if_full(into.make_node(name, kind_of(a.kind), a.device_numbers()))?;
        }
        if self.root {
            into.set_owner(name, a.user.id(), a.group.id())?;
        }
        if a.kind != FileKind::SymbolicLink {
            let permissions = if self.root { a.permissions } else { a.permissions & 0o1777 };
            into.set_permissions(name, permissions)?;
        }
        for (attribute, value) in self.known_attributes(source, path, node).await {
            if let Err(error) = into.set_attribute(name, &attribute, &value) {
                self.lacks(source, path, &attribute, &error);
            }
        }
        into.set_times(name, super::copy::times(a))?;
        Ok(())
    }
}

/// Whether a moment that a file system keeps is this one, as exactly as file systems keep moments.
fn is_moment((seconds, nanoseconds): (i64, u32), of: Moment) -> bool {
    let kept = |unit: u32| nanoseconds == of.nanoseconds / unit * unit;
    seconds == of.seconds && MOMENT_UNITS_NS.into_iter().any(kept)
}

fn content_bytes(node: &Node) -> u64 {
    if node.attributes.kind == FileKind::File { node.attributes.size } else { 0 }
}

fn kind_of(kind: FileKind) -> EntryKind {
    match kind {
        FileKind::File => EntryKind::File,
        FileKind::Directory => EntryKind::Directory,
        FileKind::SymbolicLink => EntryKind::SymbolicLink,
        FileKind::Fifo => EntryKind::Fifo,
        FileKind::Socket => EntryKind::Socket,
        FileKind::CharacterDevice => EntryKind::CharacterDevice,
        FileKind::BlockDevice => EntryKind::BlockDevice,
        FileKind::Other(_) => EntryKind::Other,
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
    let mut waiting = vec![(0, node)];
    while let Some((depth, node)) = waiting.pop() {
        if !node.is_directory() {
            add(&node);
        } else if depth < DEPTH_MAX
            && let Ok(names) = files.names(&node).await
        {
            for name in names {
                match files.node(name.entry.object).await {
                    Ok(node) if node.is_directory() => waiting.push((depth + 1, node)),
                    Ok(node) => add(&node),
                    Err(_) => {}
                }
            }
        }
    }
}
