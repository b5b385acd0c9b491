//! A tree of this host, copied into a dataset: directories, links, device nodes, and which files are the same.
//!
//! Directories are walked depth first, names in the order of their bytes, with a descriptor for each directory of the way down, so
//! depth is bounded ([`DEPTH_MAX`]). A file with several names is copied under the first that is met; the others become further
//! names of it, as long as the first is known ([`LINKS_MAX`]). What is there and the same is kept.

use super::super::place::{MARK, MARK_BYTES_MAX, OwnNames};
use super::super::tally::{self, DEPTH_MAX, LINKS_MAX, Stop, Trouble, refuse_one_name};
use super::entries::{Entries, kind_of, moment};
use super::file::{Way, part_of};
use super::place::Given;
use super::target::Target;
use crate::printable;
use ::host::directory::{Directory, EntryKind};
use ::host::reading::{self, Known};
use attach::pools::running::files::Entry;
use rt::inodes::{InodeError, InodeKind, Node};
use rt::{Buf, Rt, SgList};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;

/// See the [module](self).
pub(super) struct Tree {
    pub(super) entries: Entries,
    /// The files that the pool lies on, by device and inode.
    pub(super) devices: BTreeSet<(u64, u64)>,
    /// Paths at which datasets of their own lie, from the root of the target's.
    pub(super) children: BTreeSet<Vec<u8>>,
    pub(super) rt: Rt,
    /// First names of files with several, by device and inode.
    pub(super) links: RefCell<BTreeMap<(u64, u64), Node>>,
    /// What was given and copied, by device and inode.
    pub(super) given: tally::Given<Node, (u64, u64)>,
}

/// A directory that is copied, and where to.
struct Step<'a> {
    from: &'a Directory,
    into: Node,
    depth: usize,
    /// Names that look like this command's own.
    taken: &'a OwnNames,
    /// What lies in the target's directory already of this one.
    done: &'a RefCell<BTreeSet<Node>>,
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if path.is_empty() || path.ends_with(b"/") { b"" } else { b"/" };
    [path, separator, name].concat()
}

fn is_device(known: &Known) -> bool {
    matches!(known.kind, EntryKind::CharacterDevice | EntryKind::BlockDevice)
}

/// Whether a file that is there was copied from this one: both have the same size and time.
fn is_content(known: &Known, there: &Entry) -> bool {
    let are_files = known.kind == EntryKind::File && there.kind == InodeKind::File;
    are_files && there.size.bytes() == known.size && there.modified == moment(known.modified)
}

impl Tree {
    /// Copies all that was given.
    pub(super) async fn copy_all(
        &self,
        given: &[Given],
        target: &Target,
        recursive: bool,
        many: bool,
    ) -> Result<(), Stop> {
        for one in given {
            if one.is_directory() && !recursive {
                let text = "it is a directory: -r copies those";
                self.complain(one.shown.as_os_str().as_bytes(), text);
                continue;
            }
            self.count(one);
            match self.copy(one, target, many).await {
                Ok(()) | Err(Trouble::Told) => {}
                Err(Trouble::Failed(text)) => {
                    self.complain(one.shown.as_os_str().as_bytes(), &text);
                }
                Err(Trouble::Stop(stop)) => return Err(stop),
            }
        }
        Ok(())
    }

    fn complain(&self, shown: &[u8], text: &str) {
        self.entries.tally.complain(&format!("{}: {text}", printable::bytes(shown)));
    }

    /// Counts beside the copying what there is to copy.
    fn count(&self, given: &Given) {
        let bar = self.entries.tally.bar();
        let first = match &given.name {
            _ if !given.is_directory() => return bar.inc_length(given.known.size),
            None => given.directory.again(),
            Some(name) => given.directory.enter(name),
        };
        let (rt, Ok(first)) = (self.rt.clone(), first) else { return };
        let counting = async move {
            let mut waiting = vec![first];
            while let Some(directory) = waiting.pop() {
                for name in reading::names(&directory).unwrap_or_default() {
                    match reading::known(&directory, &name) {
                        Ok(Some(known)) if known.kind == EntryKind::File => {
                            bar.inc_length(known.size);
                        }
                        // Of a tree that is wider than that the bar knows a part.
                        Ok(Some(known))
                            if known.kind == EntryKind::Directory && waiting.len() < DEPTH_MAX =>
                        {
                            waiting.extend(directory.enter(&name));
                        }
                        _ => {}
                    }
                }
                rt.yield_now().await;
            }
        };
        self.rt.spawn(counting).detach();
    }

    /// The directory that the target's path leads to, as far as it is one; and the last name, where nothing has it yet or something
    /// else than a directory has it.
    async fn found(&self, target: &Target) -> Result<(Node, Option<Vec<u8>>), Trouble> {
        let mut at = Node::ROOT;
        for (n, part) in target.path.iter().enumerate() {
            let is_last = n + 1 == target.path.len();
            let place = || {
                let path = target.path[..=n].join(&b'/');
                format!("{}:/{}", target.dataset, printable::bytes(&path))
            };
            match self.entries.look(at, part).await? {
                Some(there) if there.kind == InodeKind::Directory => at = there.node,
                _ if is_last => return Ok((at, Some(part.clone()))),
                Some(_) => {
                    return Err(Trouble::Failed(format!("{} is no directory", place())));
                }
                None => {
                    let text = "there is no directory";
                    return Err(Trouble::Failed(format!("{text} {}: make it first", place())));
                }
            }
        }
        Ok((at, None))
    }

    /// Copies one to its place.
    async fn copy(&self, given: &Given, target: &Target, many: bool) -> Result<(), Trouble> {
        let (mut at, mut last) = self.found(target).await?;
        let within = target.path.join(&b'/');
        let goes_into = given.is_directory() && given.name.is_none();
        if (goes_into || many || target.is_directory)
            && let Some(name) = last.take()
        {
            at = self.entries.entered(at, &name).await?;
        }
        let shown = given.shown.as_os_str().as_bytes();
        let Some(own) = &given.name else {
            let from = given.directory.again()?;
            return self.tree((&from, at), (shown, &within), 0, None).await;
        };
        if given.is_directory() {
            let (from, mark) = (given.directory.enter(own)?, given.mark());
            let name = OwnNames::of_names(reading::names(&from)?).free(MARK).into_bytes();
            let (into, within) = match &last {
                Some(name_there) => {
                    if self.entries.look(at, name_there).await?.is_some() {
                        return Err(Trouble::Failed(
                            "there is something else in the target".into(),
                        ));
                    }
                    (self.begin(at, name_there, (&name, &mark)).await?, within)
                }
                None if !many && self.is_marked(at, &name, &mark).await? => (at, within),
                None => {
                    let within = joined(&within, own);
                    self.check_child(&within)?;
                    let there = self.entries.look(at, own).await?.map(|there| there.node);
                    let source = given.known.identity;
                    self.given.refuse(there.as_ref(), (&source, own), true)?;
                    let into = self.entries.entered(at, own).await?;
                    self.given.add(Some(into), source, own);
                    return self.tree((&from, into), (shown, &within), 0, None).await;
                }
            };
            return self.tree((&from, into), (shown, &within), 0, Some(name)).await;
        }
        let (name, within) = match last {
            Some(name) => (name, within),
            None => (own.clone(), joined(&within, own)),
        };
        let taken = OwnNames::default();
        let from = &given.directory;
        let step = Step { from, into: at, depth: 0, taken: &taken, done: &RefCell::default() };
        let there = async || -> Result<Option<Node>, Trouble> {
            Ok(self.entries.look(at, &name).await?.map(|there| there.node))
        };
        let source = given.known.identity;
        self.given.refuse(there().await?.as_ref(), (&source, own), false)?;
        self.one(&step, (own, &name), shown.to_vec(), within).await?;
        self.given.add(there().await?, source, own);
        Ok(())
    }

    /// Whether a directory was begun by an earlier command for the same.
    async fn is_marked(&self, at: Node, name: &[u8], text: &[u8]) -> Result<bool, Trouble> {
        match self.entries.look(at, name).await? {
            Some(mark) if mark.kind == InodeKind::File => {
                let read = self.entries.files.read(mark.node, MARK_BYTES_MAX as u32).await;
                Ok(read.is_ok_and(|read| read == text))
            }
            _ => Ok(false),
        }
    }

    /// Makes a directory that bears a mark from the first moment that it has its name.
    async fn begin(
        &self,
        at: Node,
        name: &[u8],
        (mark, text): (&[u8], &[u8]),
    ) -> Result<Node, Trouble> {
        let hash = super::super::copy::told_apart(name.iter().copied());
        let begun = format!(".spindle-{hash:016x}.begun").into_bytes();
        let entries = &self.entries;
        let top = entries.entered(at, &begun).await?;
        let file = entries.make(top, mark, InodeKind::File, (0, 0)).await?;
        let text = SgList::from(Buf::copy_of(text));
        let written = entries.files.write(entries.by, file, 0, text).await;
        written.map_err(|error| entries.trouble(error))?;
        entries.rename(at, &begun, name, false).await?;
        Ok(top)
    }

    /// A directory over which a dataset lies is copied into only where that is wanted.
    fn check_child(&self, within: &[u8]) -> Result<(), Trouble> {
        match self.children.contains(within) && !self.entries.rules.children {
            true => {
                let text = "is a dataset of its own in the target: add --children";
                Err(Trouble::Failed(format!("{} {text}", printable::bytes(within))))
            }
            false => Ok(()),
        }
    }

    /// Copies what is in a directory, then the directory's attributes.
    async fn tree(
        &self,
        (from, into): (&Directory, Node),
        (shown, within): (&[u8], &[u8]),
        depth: usize,
        mark: Option<Vec<u8>>,
    ) -> Result<(), Trouble> {
        if depth >= DEPTH_MAX {
            let text = format!("directories lie deeper than the {DEPTH_MAX} that are copied");
            return Err(Trouble::Failed(text));
        }
        let known = reading::known_of(from)?;
        let attributes = reading::attributes_of(from)?;
        let names = reading::names(from)?;
        let taken = OwnNames::of_names(names.iter().cloned());
        let done = RefCell::default();
        let step = Step { from, into, depth, taken: &taken, done: &done };
        for name in names {
            let (shown, within) = (joined(shown, &name), joined(within, &name));
            match self.one(&step, (&name, &name), shown.clone(), within).await {
                Ok(()) => {
                    let there = self.entries.look(into, &name).await?;
                    done.borrow_mut().extend(there.map(|there| there.node));
                }
                Err(Trouble::Told) => {}
                Err(Trouble::Failed(text)) => self.complain(&shown, &text),
                Err(stop @ Trouble::Stop(_)) => return Err(stop),
            }
        }
        let entries = &self.entries;
        if let Some(mark) = mark.filter(|_| !entries.tally.has_failed()) {
            // What was begun is whole but for its own time, which taking the mark away would change.
            entries.remove_if_there(into, &mark).await?;
        }
        entries.set(into, &known).await?;
        entries.set_extended(into, attributes, shown).await
    }

    /// Copies one name, whatever it is.
    async fn one(
        &self,
        step: &Step<'_>,
        (own, name): (&[u8], &[u8]),
        shown: Vec<u8>,
        within: Vec<u8>,
    ) -> Result<(), Trouble> {
        let entries = &self.entries;
        entries.pause().await?;
        let known = reading::known(step.from, own)?;
        let known = known.ok_or_else(|| Trouble::Failed("it is gone".into()))?;
        if self.devices.contains(&known.identity) {
            return Err(Trouble::Failed("it is one of the pool's devices: leave it out".into()));
        }
        let there = entries.look(step.into, name).await?;
        // A further name of a file leads to what its first one was copied to.
        let first = self.links.borrow().get(&known.identity).copied();
        let is_known = known.links == 1 || self.links.borrow().len() < LINKS_MAX;
        refuse_one_name(there.map(|there| there.node), first, is_known, &step.done.borrow())?;
        if known.kind == EntryKind::Directory {
            self.check_child(&within)?;
            let from = step.from.enter(own)?;
            let into = entries.entered(step.into, name).await?;
            let deeper = self.tree((&from, into), (&shown, &within), step.depth + 1, None);
            return Box::pin(deeper).await;
        }
        if known.links > 1 && self.hard_link(step, name, &known, &shown, there).await? {
            return Ok(());
        }
        let node = match there {
            Some(there) if there.kind == InodeKind::Directory => {
                return Err(Trouble::Failed("there is a directory in the target".into()));
            }
            Some(there) if self.is_same(step, own, &known, &there).await? => {
                entries.tally.count_kept(content_bytes(&known));
                there.node
            }
            Some(_) if !entries.rules.force => {
                let text = "another file is there in the target; --force replaces it";
                return Err(Trouble::Failed(text.into()));
            }
            _ if is_device(&known) && entries.rules.no_devices => {
                entries.tally.say_name(&shown);
                return Ok(());
            }
            found => {
                entries.tally.say_name(&shown);
                let part = part_of(&known, step.taken);
                let (from, into) = ((step.from, own), (step.into, name));
                let way = Way { from, into, part, replaces: found.is_some(), shown: &shown };
                let node = match known.kind {
                    EntryKind::File => entries.file(&way, &known).await?,
                    _ => self.special(&way, &known).await?,
                };
                entries.tally.count_copied();
                node
            }
        };
        if known.links > 1 && self.links.borrow().len() < LINKS_MAX {
            self.links.borrow_mut().insert(known.identity, node);
        }
        Ok(())
    }

    /// Makes a further name of a file that was copied under another; false where none is known, or that lies in another dataset.
    async fn hard_link(
        &self,
        step: &Step<'_>,
        name: &[u8],
        known: &Known,
        shown: &[u8],
        there: Option<Entry>,
    ) -> Result<bool, Trouble> {
        let Some(first) = self.links.borrow().get(&known.identity).copied() else {
            return Ok(false);
        };
        let entries = &self.entries;
        match there {
            Some(there) if there.node == first => {
                entries.tally.count_kept(0);
                return Ok(true);
            }
            Some(there) if there.kind == InodeKind::Directory => return Ok(false),
            Some(_) if !entries.rules.force => {
                let text = "another file is there in the target; --force replaces it";
                return Err(Trouble::Failed(text.into()));
            }
            Some(_) => entries.remove_if_there(step.into, name).await?,
            None => {}
        }
        entries.tally.say_name(shown);
        match entries.files.link(entries.by, first, (step.into, name)).await {
            Ok(_) => {
                entries.tally.count_copied();
                Ok(true)
            }
            Err(InodeError::CrossDevice | InodeError::TooManyLinks) => Ok(false),
            Err(error) => Err(entries.trouble(error)),
        }
    }

    /// Whether what is there is what would be copied, as far as that is known without reading it.
    async fn is_same(
        &self,
        step: &Step<'_>,
        own: &[u8],
        known: &Known,
        there: &Entry,
    ) -> Result<bool, Trouble> {
        if kind_of(known.kind) != Some(there.kind) {
            return Ok(false);
        }
        Ok(match known.kind {
            EntryKind::File => is_content(known, there),
            EntryKind::SymbolicLink => {
                let text = self.entries.files.link_text(there.node).await;
                text.is_ok_and(|text| step.from.link_text(own).is_ok_and(|own| own == text))
            }
            EntryKind::CharacterDevice | EntryKind::BlockDevice => there.device == known.device,
            _ => true,
        })
    }

    /// Makes a link or node, with what is known of it.
    async fn special(&self, way: &Way<'_>, known: &Known) -> Result<Node, Trouble> {
        let entries = &self.entries;
        let kind = kind_of(known.kind);
        let kind = kind.ok_or_else(|| Trouble::Failed("nothing is known of its kind".into()))?;
        let node = match known.kind {
            EntryKind::SymbolicLink => {
                let text = way.from.0.link_text(way.from.1)?;
                entries.make_link(way.into.0, &way.part, &text).await?
            }
            _ => entries.make(way.into.0, &way.part, kind, known.device).await?,
        };
        entries.finish(way, node, known).await?;
        Ok(node)
    }
}

/// Bytes that a file's copy takes.
fn content_bytes(known: &Known) -> u64 {
    if known.kind == EntryKind::File { known.size } else { 0 }
}
