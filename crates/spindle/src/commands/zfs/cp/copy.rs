//! One file, copied: content, then attributes, then its name.
//!
//! The temporary name is made of what the file is: dataset, object, size and times. So what was begun of a file that has
//! changed since (in a live dataset) is never continued.
//!
//! **Continuing.** Content is written from front to back, and made durable each [`STEP_BYTES`]. A temporary file that is
//! longer than a whole number of steps was durable up to there before more was written, whatever ended the
//! command: a signal or the machine. There it goes on. What is shorter than a step begins anew; so does what somebody else
//! may have put there ([`Directory::open_own`]): in a directory that others may write nothing is gone on with.
//!
//! **The name** is given at the end, and looked at: where others may write the directory it must still lead to what was written.
//!
//! **Order of attributes.** Owner, then mode (changing the owner takes setuid away), then extended attributes, times last.
//! Lists of access come with the extended attributes and may change the mode's group bits, as they should.

use super::super::pieces::{Piece, Pieces};
use super::super::source::Source;
use super::copier::Copier;
use super::lost::Lost;
use super::place::OwnNames;
use super::tally::{Stop, Trouble};
use super::walk::Walk;
use ::host::directory::{self, Directory, FileTimes};
use ::zfs::zpl::Node;
use ::zfs::zpl::attributes::{Attributes, Moment};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use stdx::ByteCount;

/// Bytes between two moments at which what was written is made durable. More loses more of a copy that was
/// stopped; less waits for the disk more often.
const STEP_BYTES: u64 = 64 << 20;
/// Bytes from which a file is made durable before it gets its name. Smaller ones are made durable all together at the
/// end: a file system keeps no length of what it has not written.
const DURABLE_BYTES: u64 = 1 << 20;

/// The attribute that gives a program rights of root's, as setuid does.
const CAPABILITIES: &[u8] = b"security.capability";

/// Times of a file as the host keeps them.
pub(super) fn times(attributes: &Attributes) -> FileTimes {
    let time = |moment: Moment| (moment.seconds, moment.nanoseconds);
    FileTimes { accessed: time(attributes.accessed), modified: time(attributes.modified) }
}

/// What a file is, in a name: what is written for it until it is whole begins with it.
pub(super) fn stem(source: &Source, node: &Node, taken: &OwnNames) -> String {
    let a = &node.attributes;
    let words = [
        source.of.spa.guid(),
        node.dnode().objset(),
        a.generation,
        a.size,
        a.modified.seconds as u64,
        a.modified.nanoseconds.into(),
        a.changed.seconds as u64,
        a.changed.nanoseconds.into(),
    ];
    let hash = told_apart(words.iter().flat_map(|word| word.to_le_bytes()));
    taken.free(&format!(".spindle-{}-{hash:016x}", node.number()))
}

/// FNV-1a, 64 bits: it tells apart, and guards against nothing.
pub(super) fn told_apart(bytes: impl Iterator<Item = u8>) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, mix)
}

impl Copier {
    /// Copies a regular file to a name that is free, or may be replaced.
    pub(super) async fn file(
        &self,
        walk: &Walk<'_>,
        path: &[u8],
        node: &Node,
        (into, name): (&Directory, &[u8]),
        replace: bool,
    ) -> Result<(), Trouble> {
        let (source, stem) = (walk.source, stem(walk.source, node, &walk.taken));
        let part = format!("{stem}.part").into_bytes();
        let (mut file, from) = begin(into, &part)?;
        let mut lost = Lost::open(&stem, into, name, from)?;
        // What lies there already was copied before.
        self.tally.progress(lost.good());
        let written = self.content(source, path, node, &mut file, &mut lost).await;
        match written {
            Ok(true) => {}
            Ok(false) => {
                // Zeros alone under its name would be taken for the file; a copy that is there is better.
                into.remove(&part)?;
                lost.take_back(into.look(name)?.is_some())?;
                self.tally.count_nothing(source.about(path, ByteCount(node.attributes.size)));
                return Err(Trouble::Told);
            }
            Err(Trouble::Stop(stop)) => return Err(Trouble::Stop(stop)),
            Err(trouble) => {
                // The rest can't be had, so there is nothing to go on with. What can't be removed stays.
                let _ = into.remove(&part);
                return Err(trouble);
            }
        }
        let size = node.attributes.size;
        file.set_len(size)?;
        self.attributes(source, path, node, &file).await?;
        let damaged = !lost.found().is_empty();
        if size >= DURABLE_BYTES || damaged {
            file.sync_data()?;
        }
        // The mark stands before the name does: without it the zeros would be taken for the file.
        self.stop_if_full(lost.settle())?;
        into.rename(&part, name, self.rules.force || replace)?;
        if !into.is_private()? {
            let there = into.look(name)?.map(|there| there.identity);
            if there != Some(directory::identity(&file)?) {
                return Err(Trouble::Failed(directory::REPLACED.into()));
            }
        }
        if damaged {
            self.tally.count_in_part();
            return Err(Trouble::Told);
        }
        Ok(lost.remove()?)
    }

    /// Writes a file's content: again what could not be read when it was begun, then from where it goes on. What can't be
    /// had is told; false where that is all of it, which is told in the end.
    async fn content(
        &self,
        source: &Source,
        path: &[u8],
        node: &Node,
        file: &mut File,
        lost: &mut Lost,
    ) -> Result<bool, Trouble> {
        let (good, earlier) = (lost.good(), lost.earlier());
        let lacking: u64 = earlier.iter().map(|(from, until)| until - from).sum();
        let mut any = good > lacking;
        for (from, until) in earlier {
            any |= self.stretch(node, file, lost, from, until).await?;
        }
        any |= self.stretch(node, file, lost, good, node.attributes.size).await?;
        if !any && !lost.found().is_empty() {
            return Ok(false);
        }
        for (from, until) in lost.found() {
            let text = format!("bytes {from} to {until} can't be read, and are zeros in the copy");
            self.tally.complain(&source.about(path, text));
        }
        Ok(true)
    }

    /// Writes the bytes from there to there; says whether any could be read.
    async fn stretch(
        &self,
        node: &Node,
        file: &mut File,
        lost: &mut Lost,
        from: u64,
        until: u64,
    ) -> Result<bool, Trouble> {
        let mut any = false;
        let mut pieces = Pieces::new(&self.rt, node.dnode(), from, until);
        let mut durable = from;
        file.seek(SeekFrom::Start(from))?;
        while let Some((at, piece)) = pieces.next().await {
            let len = piece.len();
            match piece {
                Piece::Data(data) => {
                    any = true;
                    for piece in data.pieces() {
                        self.stop_if_full(file.write_all(piece.bytes()))?;
                    }
                }
                Piece::Hole(len) => {
                    file.seek(SeekFrom::Current(i64::try_from(len).unwrap_or(i64::MAX)))?;
                }
                Piece::Damaged(len, error) => {
                    if !self.rules.skip_damaged {
                        let mend = "--skip-damaged copies the rest";
                        return Err(Trouble::Failed(format!("{error}; {mend}")));
                    }
                    self.stop_if_full(lost.add(at, at + len))?;
                    file.seek(SeekFrom::Current(i64::try_from(len).unwrap_or(i64::MAX)))?;
                }
            }
            self.tally.progress(len);
            let done = at + len;
            if done / STEP_BYTES > durable / STEP_BYTES {
                self.stop_if_full(lost.sync().and_then(|()| file.sync_data()))?;
                durable = done;
            }
        }
        Ok(any)
    }

    /// Sets all that is known of a file or directory that is open.
    pub(super) async fn attributes(
        &self,
        source: &Source,
        path: &[u8],
        node: &Node,
        of: &impl std::os::fd::AsFd,
    ) -> Result<(), Trouble> {
        let a = &node.attributes;
        if self.root {
            directory::set_owner(of, a.user.id(), a.group.id())?;
        }
        directory::set_permissions(of, self.permissions(node))?;
        for (name, value) in self.known_attributes(source, path, node).await {
            if let Err(error) = directory::set_attribute(of, &name, &value) {
                self.lacks(source, path, &name, &error);
            }
        }
        directory::set_times(of, times(a))?;
        Ok(())
    }

    /// The permissions that a copy gets. Setuid and setgid go with the owner alone: a program that runs as its owner must not
    /// come to run as another.
    pub(super) fn permissions(&self, node: &Node) -> u32 {
        let permissions = node.attributes.permissions;
        match self.root && !self.rules.no_setuid {
            true => permissions,
            false => permissions & 0o1777,
        }
    }

    /// The extended attributes of a file; those that can't be had are told.
    pub(super) async fn known_attributes(
        &self,
        source: &Source,
        path: &[u8],
        node: &Node,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        if let Ok(Some(list)) = source.files.access_list(node).await {
            self.count_access(&list);
        }
        match source.files.extended_attributes(node).await {
            Ok(mut found) => {
                if self.rules.no_setuid {
                    found.retain(|(name, _)| name != CAPABILITIES);
                }
                found
            }
            Err(error) => {
                self.tally
                    .complain(&source.about(path, format!("its extended attributes: {error}")));
                Vec::new()
            }
        }
    }

    /// Makes an error of writing end the command where there is no room.
    pub(super) fn stop_if_full<T>(&self, done: std::io::Result<T>) -> Result<T, Trouble> {
        use std::io::ErrorKind;
        done.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Trouble::Stop(Stop::Full(self.tally.full(&error)))
            }
            _ => Trouble::from(error),
        })
    }
}

/// Opens the temporary file, and says up to where it is good. What stands there and is not its own (a device,
/// another name of some file, what another user made) gives way.
fn begin(into: &Directory, part: &[u8]) -> Result<(File, u64), Trouble> {
    let Some(mut file) = into.open_own(part)? else {
        if into.look(part)?.is_some() {
            into.remove(part)?;
        }
        return Ok((into.create(part)?, 0));
    };
    let found = file.metadata()?;
    // A length of whole steps may have been reached before the last of them was durable.
    let good = found.len().saturating_sub(1) / STEP_BYTES * STEP_BYTES;
    file.set_len(good)?;
    file.seek(SeekFrom::Start(good))?;
    Ok((file, good))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: another user puts the beginning of a file there, or holds it open, and root goes on with it.
    #[test]
    fn a_part_that_others_may_write_begins_anew() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path()).expect("it opens");
        let part = folder.path().join("part");
        let chmod = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
        };
        for (file, directory_mode) in [(0o666, 0o700), (0o600, 0o777), (0o600, 0o1777)] {
            chmod(folder.path(), 0o700);
            let _ = directory.remove(b"part");
            let theirs = File::create(&part).expect("made");
            theirs.set_len(2 * STEP_BYTES).expect("grown");
            chmod(&part, file);
            chmod(folder.path(), directory_mode);
            let Ok((ours, 0)) = begin(&directory, b"part") else { panic!("it begins anew") };
            let (ours, theirs) = (directory::identity(&ours), directory::identity(&theirs));
            assert_ne!(ours.expect("looked"), theirs.expect("looked"), "{file:o}");
        }
    }

    /// What was written since the last moment at which all was durable is not trusted.
    #[test]
    fn a_part_goes_on_at_the_last_whole_step() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path()).expect("it opens");
        for (len, good) in [
            (0, 0),
            (STEP_BYTES - 1, 0),
            (STEP_BYTES, 0),
            (STEP_BYTES + 1, STEP_BYTES),
            (3 * STEP_BYTES, 2 * STEP_BYTES),
        ] {
            let _ = directory.remove(b"part");
            directory.create(b"part").expect("made").set_len(len).expect("grown");
            let Ok((mut file, from)) = begin(&directory, b"part") else { panic!("it begins") };
            assert_eq!((from, file.stream_position().ok()), (good, Some(good)), "{len}");
            assert_eq!(file.metadata().expect("looked at").len(), good);
        }
        // Another file's name is not written to.
        std::fs::write(folder.path().join("other"), "kept").expect("written");
        std::fs::remove_file(folder.path().join("part")).expect("removed");
        std::fs::hard_link(folder.path().join("other"), folder.path().join("part"))
            .expect("linked");
        let Ok((file, 0)) = begin(&directory, b"part") else { panic!("it begins") };
        file.set_len(9).expect("grown");
        assert_eq!(std::fs::read(folder.path().join("other")).expect("read"), b"kept");
    }
}
