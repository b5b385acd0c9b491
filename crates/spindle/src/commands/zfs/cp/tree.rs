//! A tree of files, copied: directories, links, device nodes, and which files are the same.
//!
//! Directories are walked depth first, names in the order of their bytes, with a descriptor for each directory of the way
//! down, so depth is bounded ([`DEPTH_MAX`]); what is its own ancestor is not entered ([`Descent`]). A file with several names is copied under the first that is met; the
//! others become hard links, as long as the first is known ([`LINKS_MAX`]). What is there already is kept,
//! but a file whose copy had to do without some of its bytes ([`lost`]) is copied anew.

use super::super::source::Source;
use super::children::{Child, Children};
use super::copier::{Copier, content_bytes};
use super::copy::{stem, told_apart};
use super::lost;
use super::place::{Mark, OwnNames, Place};
use super::tally::{DEPTH_MAX, LINKS_MAX, Stop, Trouble, refuse_one_name};
use super::walk::{Below, Walk, join};
use crate::printable;
use ::host::directory::{self, Directory, Entry, EntryKind};
use ::zfs::ZfsError;
use ::zfs::zpl::attributes::Moment;
use ::zfs::zpl::descent::Descent;
use ::zfs::zpl::{Name, Node};
use std::io::{self, Write};
use zfs_format::zpl::directory::FileKind;

/// Names under which a directory is begun. Each that others took is passed over.
const BEGUN_MAX: u32 = 16;
/// Bytes of a name in a directory of Linux at the most (`NAME_MAX`); ZFS with the feature `longname` has 1023.
const NAME_BYTES_MAX: usize = 255;
/// Units in which file systems keep times: ext4 and XFS, NTFS, some network ones, exFAT, ext3.
const MOMENT_UNITS_NS: [u32; 5] = [1, 100, 1_000, 10_000_000, 1_000_000_000];

/// Makes a directory that bears a mark from the first moment that it is seen: without one, the same command would take it
/// for somebody else's. So it has another name until the mark is whole. What an earlier command left under that name,
/// before it came to copy anything, is used; not what somebody else put there.
fn begin(into: &Directory, name: &[u8], mark: &Mark) -> io::Result<Directory> {
    let hash = told_apart(name.iter().copied());
    for n in 0..BEGUN_MAX {
        let begun = format!(
            ".spindle-{hash:016x}{}.begun",
            if n == 0 { String::new() } else { format!("-{n}") }
        );
        let begun = begun.into_bytes();
        let there = into.look(&begun)?;
        if there.as_ref().is_some_and(|there| there.kind != EntryKind::Directory) {
            continue;
        }
        if there.is_none() {
            into.make(&begun)?;
        }
        let top = into.enter(&begun)?;
        // What was just made may look like another's where the file system keeps no owners.
        if !top.is_own()? && (there.is_some() || directory::is_root()) {
            continue;
        }
        if top.look(&mark.name)?.is_some() {
            top.remove(&mark.name)?;
        }
        top.create(&mark.name)?.write_all(&mark.text)?;
        into.rename(&begun, name, false)?;
        return Ok(top);
    }
    Err(io::Error::other(
        "somebody else made the directories .spindle-….begun there that it begins with: remove them",
    ))
}

impl Copier {
    /// Copies one source to its place.
    pub(super) async fn copy(
        &self,
        source: &Source,
        node: Node,
        place: Place,
        children: &Children,
    ) -> Result<(), Stop> {
        let done = self.copy_to(source, node, place, children).await;
        for name in children.unmet() {
            self.tally
                .complain(&format!("{name}: what lies above it is not there: copy it by itself"));
        }
        match done {
            Ok(()) | Err(Trouble::Told) => Ok(()),
            Err(Trouble::Failed(text)) => {
                self.tally.complain(&source.about(&source.path, text));
                Ok(())
            }
            Err(Trouble::Stop(stop)) => Err(stop),
        }
    }

    async fn copy_to(
        &self,
        source: &Source,
        node: Node,
        place: Place,
        children: &Children,
    ) -> Result<(), Trouble> {
        let (directory, name, begins) = match place {
            Place::Named { directory, name, begins } => (directory, name, begins),
            Place::Into { directory: top, mark } => {
                self.tops.borrow_mut().push(top.again()?);
                let mut walk = Walk::new(source, &top, &node, children, Vec::new());
                walk.mark = mark;
                return self
                    .tree(&mut walk, Vec::new(), source.path.clone(), &node, top.again()?)
                    .await;
            }
        };
        self.tops.borrow_mut().push(directory.again()?);
        let Some(mark) = begins else {
            let there = || directory.look(&name).map(|there| there.map(|there| there.identity));
            let own = source.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let which = (source.of.spa.guid(), node.dnode().objset(), node.number());
            self.given.refuse(there()?.as_ref(), (&which, own), node.is_directory())?;
            let mut walk = Walk::new(source, &directory, &node, children, Vec::new());
            self.one(&mut walk, &mut Vec::new(), &source.path, &node, &directory, &name).await?;
            self.given.add(there()?, which, own);
            return Ok(());
        };
        let top = self.stop_if_full(begin(&directory, &name, &mark))?;
        let mut walk = Walk::new(source, &top, &node, children, Vec::new());
        walk.mark = Some(mark.name);
        self.tree(&mut walk, Vec::new(), source.path.clone(), &node, top.again()?).await
    }

    /// Takes the mark away, before the directory's times are set.
    fn whole(&self, top: &Directory, mark: &[u8]) -> Result<(), Trouble> {
        if self.tally.has_failed() || top.look(mark)?.is_none() {
            return Ok(());
        }
        Ok(top.remove(mark)?)
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
        let source = walk.source;
        let names = match source.files.names_until(node).await {
            (names, None) => names,
            (names, Some(error)) if self.passes(&error) => {
                self.names_left(walk, &path, node.number(), (names, error)).await
            }
            (_, Some(error)) => return Err(unread(&error)),
        };
        self.entries(walk, below, &path, node.number(), names, &into).await?;
        self.attributes(source, &path, node, &into).await
    }

    /// Whether what can't be read for this reason is done without.
    fn passes(&self, error: &ZfsError) -> bool {
        self.rules.skip_damaged && !error.needs_key()
    }

    /// Copies what these names in a directory lead to, and the children that lie in it.
    pub(super) async fn entries(
        &self,
        walk: &mut Walk<'_>,
        mut below: Below,
        path: &[u8],
        directory: u64,
        mut names: Vec<Name>,
        into: &Directory,
    ) -> Result<(), Trouble> {
        if below.len() >= DEPTH_MAX {
            let text = format!("directories lie deeper than the {DEPTH_MAX} that are copied");
            return Err(Trouble::Failed(text));
        }
        let source = walk.source;
        names.sort_by(|a, b| a.name.cmp(&b.name));
        let above = std::mem::replace(&mut walk.taken, OwnNames::of(&names));
        let done_above = std::mem::take(&mut walk.done);
        let mut descent = Descent::new(walk.begun.number(), directory);
        for Name { name, entry, .. } in names {
            let within = join(path, &name);
            if !directory::plain(&name) {
                self.tally.complain(&source.about(&within, "this is no name that a file may have"));
                continue;
            }
            let done = match source.files.node(entry.object).await {
                Ok(node) => match descent.enter(&node) {
                    Ok(()) => self.one(walk, &mut below, &within, &node, into, &name).await,
                    Err(error) => Err(Trouble::Failed(error.to_string())),
                },
                Err(error) if entry.kind != Some(FileKind::Directory) => {
                    Err(Trouble::Failed(error.to_string()))
                }
                Err(error) if !self.passes(&error) => Err(unread(&error)),
                Err(error) => {
                    let lost = (entry.object, error);
                    self.lost_directory(walk, &below, &within, lost, (into, &name)).await
                }
            };
            match done {
                Ok(()) => walk.done.extend(into.look(&name)?.map(|there| there.identity)),
                Err(Trouble::Told) => {}
                Err(Trouble::Failed(text)) => self.tally.complain(&source.about(&within, text)),
                Err(stop @ Trouble::Stop(_)) => return Err(stop),
            }
        }
        (walk.taken, walk.done) = (above, done_above);
        let here = walk.whole(path);
        for name in walk.children.unmet_in(&here) {
            let whole = join(&here, &name);
            let Some(child) = walk.children.meet(&whole) else { continue };
            match self.child(walk, child, whole, into, &name).await {
                Ok(()) | Err(Trouble::Told) => {}
                Err(Trouble::Failed(text)) => self.tally.complain(&child.source.about(b"", text)),
                Err(stop @ Trouble::Stop(_)) => return Err(stop),
            }
        }
        if below.is_empty()
            && let Some(mark) = &walk.mark
        {
            // What was begun is whole but for its own time, which taking the mark away would change.
            self.whole(into, mark)?;
        }
        Ok(())
    }

    /// Copies a child into the directory that it covers, or would cover.
    pub(super) async fn child(
        &self,
        walk: &Walk<'_>,
        child: &Child,
        prefix: Vec<u8>,
        into: &Directory,
        name: &[u8],
    ) -> Result<(), Trouble> {
        let inside = self.entered(into, name)?;
        let mut walk = Walk::new(&child.source, &inside, &child.root, walk.children, prefix);
        let into = inside.again()?;
        Box::pin(self.tree(&mut walk, Vec::new(), Vec::new(), &child.root, into)).await
    }

    /// A directory of the target, made if it is not there.
    pub(super) fn entered(&self, into: &Directory, name: &[u8]) -> Result<Directory, Trouble> {
        match into.look(name)? {
            None => {
                self.stop_if_full(into.make(name))?;
                let made = into.enter(name)?;
                match self.root && !made.is_own()? {
                    true => Err(Trouble::Failed(directory::REPLACED.into())),
                    false => Ok(made),
                }
            }
            Some(entry) if entry.kind == EntryKind::Directory => Ok(into.enter(name)?),
            Some(_) => Err(Trouble::Failed("there is something else in the target".into())),
        }
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
        if name.len() > NAME_BYTES_MAX {
            let shown = [walk.source.of.name().as_bytes(), b":", path].concat();
            let text = format!(
                "its name has {} bytes, and file systems here take {NAME_BYTES_MAX}; copy it under a shorter \
                 one: spindle zfs cp{} '{}' SHORTER-NAME",
                name.len(),
                if node.is_directory() { " -r" } else { "" },
                printable::bytes(&shown)
            );
            return Err(Trouble::Failed(text));
        }
        let there = into.look(name)?;
        if there.as_ref().is_some_and(|there| self.devices.contains(&there.identity)) {
            let text = "the target is one of the devices that are read: name another";
            return Err(Trouble::Failed(text.into()));
        }
        // A further name of a file leads to what its first one was copied to.
        let first = walk.links.get(&node.number()).map(|(_, identity)| *identity);
        let is_known = node.attributes.links == 1 || walk.links.len() < LINKS_MAX;
        let identity = there.as_ref().map(|there| there.identity);
        refuse_one_name(identity, first, is_known, &walk.done)?;
        if node.is_directory() {
            let whole = walk.whole(path);
            if let Some(child) = walk.children.meet(&whole) {
                return self.child(walk, child, whole, into, name).await;
            }
            let inside = self.entered(into, name)?;
            let mut deeper = below.clone();
            deeper.push(name.to_vec());
            return Box::pin(self.tree(walk, deeper, path.to_vec(), node, inside)).await;
        }
        let links = node.attributes.links > 1;
        if links && self.hard_link(walk, path, node, (into, name), there)? {
            return Ok(());
        }
        match there {
            Some(entry) if entry.kind == EntryKind::Directory => {
                return Err(Trouble::Failed("there is a directory in the target".into()));
            }
            Some(entry)
                if self.is_same(walk.source, node, into, name, &entry).await
                    && !lost::is_marked(&stem(walk.source, node, &walk.taken), into)? =>
            {
                // A copy that was killed may have made it, and come no further: the time is set last.
                let is_file = node.attributes.kind == FileKind::File;
                if !is_file && !is_moment(entry.modified, node.attributes.modified) {
                    self.finish_special(walk.source, path, node, into, name).await?;
                }
                self.tally.count_kept(content_bytes(node));
            }
            Some(entry) if !self.rules.force && !is_content(node, &entry) => {
                let text = "another file is there in the target; --force replaces it";
                return Err(Trouble::Failed(text.into()));
            }
            _ if is_device(node) && (!self.root || self.rules.no_devices) => {
                self.left_out();
                return Ok(());
            }
            found => {
                self.names(walk.source, path);
                if node.attributes.kind == FileKind::File {
                    if links && found.is_some() && walk.anew.len() < LINKS_MAX {
                        walk.anew.insert(node.number());
                    }
                    self.file(walk, path, node, (into, name), found.is_some()).await?;
                } else {
                    if found.is_some() {
                        into.remove(name)?;
                    }
                    self.make_special(walk.source, node, into, name).await?;
                    self.finish_special(walk.source, path, node, into, name).await?;
                }
                self.tally.count_copied();
            }
        }
        if links && walk.links.len() < LINKS_MAX {
            let mut known = below.clone();
            known.push(name.to_vec());
            if let Some(there) = into.look(name)? {
                walk.links.insert(node.number(), (known, there.identity));
            }
        }
        Ok(())
    }

    /// Makes a further name of a file that was copied under another; false where none is known.
    fn hard_link(
        &self,
        walk: &Walk<'_>,
        path: &[u8],
        node: &Node,
        (into, name): (&Directory, &[u8]),
        there: Option<Entry>,
    ) -> Result<bool, Trouble> {
        let Some((known, identity)) = walk.links.get(&node.number()) else { return Ok(false) };
        let Some((file, way)) = known.split_last() else { return Ok(false) };
        let mut first = walk.top.again()?;
        for part in way {
            first = first.enter(part)?;
        }
        let is_it = |found: Option<Entry>| found.is_some_and(|found| found.identity == *identity);
        // Somebody else took the name: what was copied is copied once more.
        if !is_it(first.look(file)?) {
            return Ok(false);
        }
        if there.as_ref().is_some_and(|there| there.identity == *identity) {
            self.tally.count_kept(0);
            return Ok(true);
        }
        if let Some(entry) = &there {
            let is_anew = walk.anew.contains(&node.number()) && is_content(node, entry);
            if !self.rules.force && !is_anew {
                let text = "another file is there in the target; --force replaces it";
                return Err(Trouble::Failed(text.into()));
            }
            into.remove(name)?;
        }
        self.names(walk.source, path);
        self.stop_if_full(into.hard_link(&first, file, name))?;
        if !is_it(into.look(name)?) {
            return Err(Trouble::Failed(directory::REPLACED.into()));
        }
        self.tally.count_copied();
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
            FileKind::File => is_content(node, there),
            FileKind::SymbolicLink => {
                let texts = (source.files.link_target(node).await, into.link_text(name));
                matches!(texts, (Ok(ours), Ok(theirs)) if ours == theirs)
            }
            FileKind::CharacterDevice | FileKind::BlockDevice => there.device == a.device_numbers(),
            _ => true,
        }
    }

    /// Makes a link or node.
    async fn make_special(
        &self,
        source: &Source,
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
        Ok(())
    }

    /// Gives a link or node that is there what is known of it.
    async fn finish_special(
        &self,
        source: &Source,
        path: &[u8],
        node: &Node,
        into: &Directory,
        name: &[u8],
    ) -> Result<(), Trouble> {
        let a = &node.attributes;
        let made = into.made(name, kind_of(a.kind))?;
        if self.root {
            made.set_owner(a.user.id(), a.group.id())?;
        }
        if a.kind != FileKind::SymbolicLink {
            made.set_permissions(self.permissions(node))?;
        }
        for (attribute, value) in self.known_attributes(source, path, node).await {
            if let Err(error) = made.set_attribute(&attribute, &value) {
                self.lacks(source, path, &attribute, &error);
            }
        }
        made.set_times(super::copy::times(a))?;
        Ok(())
    }
}

/// A directory that can't be read.
fn unread(error: &ZfsError) -> Trouble {
    Trouble::Failed(match error.needs_key() {
        true => error.to_string(),
        false => format!("{error}; --skip-damaged copies what lies in it"),
    })
}

fn is_device(node: &Node) -> bool {
    matches!(node.attributes.kind, FileKind::CharacterDevice | FileKind::BlockDevice)
}

/// Whether a file that is there was copied from this one: both have the same size and time.
fn is_content(node: &Node, there: &Entry) -> bool {
    let a = &node.attributes;
    let are_files = a.kind == FileKind::File && there.kind == EntryKind::File;
    are_files && there.size == a.size && is_moment(there.modified, a.modified)
}

/// Whether a moment that a file system keeps is this one, as exactly as file systems keep moments.
fn is_moment((seconds, nanoseconds): (i64, u32), of: Moment) -> bool {
    let kept = |unit: u32| nanoseconds == of.nanoseconds / unit * unit;
    seconds == of.seconds && MOMENT_UNITS_NS.into_iter().any(kept)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a command that was killed before the mark was whole leaves a directory that the same command then
    /// takes for somebody else's, and copies into it under another name.
    #[test]
    fn a_directory_is_never_seen_without_its_mark() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path()).expect("it opens");
        let names = || {
            let entries = std::fs::read_dir(folder.path()).expect("it is listed");
            entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
        };
        let mark_of =
            |text: &[u8]| Mark { name: b".spindle-unfinished".to_vec(), text: text.to_vec() };
        let ours = mark_of(b"what it is");
        begin(&directory, b"out", &ours).expect("it begins");
        let [out] = names().try_into().expect("there is one");
        let mark = out.join(".spindle-unfinished");
        assert_eq!(std::fs::read(&mark).expect("a mark"), b"what it is");
        // Killed before the name was given, with part of a mark, and without one.
        let begun = format!(".spindle-{:016x}.begun", told_apart(b"out".iter().copied()));
        for left in [Some("wh"), None] {
            std::fs::rename(&out, folder.path().join(&begun)).expect("renamed");
            std::fs::remove_file(folder.path().join(&begun).join(".spindle-unfinished"))
                .expect("removed");
            if let Some(left) = left {
                std::fs::write(folder.path().join(&begun).join(".spindle-unfinished"), left)
                    .expect("written");
            }
            begin(&directory, b"out", &ours).expect("it begins");
            assert_eq!(names().as_slice(), std::slice::from_ref(&out));
            assert_eq!(std::fs::read(&mark).expect("a mark"), b"what it is");
        }
        // Somebody else's directory is not taken.
        assert!(begin(&directory, b"out", &mark_of(b"other")).is_err());
        assert_eq!(std::fs::read(&mark).expect("a mark"), b"what it is");
    }

    /// What could break: another user made the directory beforehand that a copy begins with, and owns all that comes into it.
    #[test]
    fn a_copy_is_not_begun_in_what_somebody_else_made() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path()).expect("it opens");
        let hash = told_apart(b"out".iter().copied());
        let theirs = folder.path().join(format!(".spindle-{hash:016x}.begun"));
        std::fs::create_dir(&theirs).expect("made");
        std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o777)).expect("set");
        let mark = Mark { name: b"mark".to_vec(), text: b"text".to_vec() };
        begin(&directory, b"out", &mark).expect("it begins");
        let inode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").ino();
        assert_ne!(inode(&theirs), inode(&folder.path().join("out")));
        assert_eq!(std::fs::read_dir(&theirs).expect("listed").count(), 0);
        // A link that leads elsewhere is no directory.
        std::fs::remove_dir(&theirs).expect("removed");
        std::os::unix::fs::symlink(folder.path().join("out"), &theirs).expect("linked");
        begin(&directory, b"out2", &mark).expect("it begins");
        assert!(folder.path().join("out2/mark").is_file());
    }
}
