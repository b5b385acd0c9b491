//! One file, copied: content, then attributes, then its name.
//!
//! The temporary name is made of what the file is: dataset, object, size and times. So what was begun of a file that has
//! changed since (in a live dataset) is never continued.
//!
//! **Continuing.** Content is written from front to back, and made durable each [`STEP_BYTES`]. A temporary file that is
//! longer than a whole number of steps was durable up to there before more was written, whatever ended the
//! command: a signal or the machine. There it goes on. What is shorter than a step begins anew.
//!
//! **Order of attributes.** Owner, then mode (changing the owner takes setuid away), then extended attributes, times last.
//! Lists of access come with the extended attributes and may change the mode's group bits, as they should.

use super::super::pieces::{Piece, Pieces};
use super::super::source::Source;
use super::tree::{Copier, Stop, Trouble};
use ::host::directory::{self, Directory, EntryKind, FileTimes};
use ::zfs::zpl::Node;
use ::zfs::zpl::attributes::{Attributes, Moment};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

/// Bytes between two moments at which what was written is made durable. More loses more of a copy that was
/// stopped; less waits for the disk more often.
const STEP_BYTES: u64 = 64 << 20;
/// Bytes from which a file is made durable before it gets its name. Smaller ones are made durable all together at the
/// end: a file system keeps no length of what it has not written.
const DURABLE_BYTES: u64 = 1 << 20;

/// Times of a file as the host keeps them.
pub(super) fn times(attributes: &Attributes) -> FileTimes {
    let time = |moment: Moment| (moment.seconds, moment.nanoseconds);
    FileTimes { accessed: time(attributes.accessed), modified: time(attributes.modified) }
}

/// The name under which a file is written.
fn temporary(source: &Source, node: &Node) -> Vec<u8> {
    let a = &node.attributes;
    let words = [
        source.of.spa.guid,
        node.object().objset(),
        a.generation,
        a.size,
        a.modified.seconds as u64,
        a.modified.nanoseconds.into(),
        a.changed.seconds as u64,
        a.changed.nanoseconds.into(),
    ];
    // FNV-1a, 64 bits: it tells apart, and guards against nothing.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, mix);
    format!(".spindle-{}-{hash:016x}.part", node.number()).into_bytes()
}

impl Copier {
    /// Copies a regular file to a name that is free, or may be replaced.
    pub(super) async fn file(
        &self,
        source: &Source,
        path: &[u8],
        node: &Node,
        into: &Directory,
        name: &[u8],
    ) -> Result<(), Trouble> {
        let part = temporary(source, node);
        let (mut file, from) = begin(into, &part)?;
        // What lies there already was copied before.
        self.progress(from);
        let written = self.content(source, path, node, &mut file, from).await;
        let damaged = match written {
            Ok(damaged) => damaged,
            Err(Trouble::Stop(stop)) => return Err(Trouble::Stop(stop)),
            Err(trouble) => {
                // The rest can't be had, so there is nothing to go on with. What can't be removed stays.
                let _ = into.remove(&part);
                return Err(trouble);
            }
        };
        let size = node.attributes.size;
        file.set_len(size)?;
        self.attributes(source, path, node, &file).await?;
        if size >= DURABLE_BYTES || damaged {
            file.sync_data()?;
        }
        into.rename(&part, name, self.rules.force)?;
        if damaged { Err(Trouble::Told) } else { Ok(()) }
    }

    /// Writes a file's content from there on. True where some of it could not be had, and is told.
    async fn content(
        &self,
        source: &Source,
        path: &[u8],
        node: &Node,
        file: &mut File,
        from: u64,
    ) -> Result<bool, Trouble> {
        let mut pieces = Pieces::new(&self.rt, node.object(), from, node.attributes.size);
        let mut lost: Vec<(u64, u64)> = Vec::new();
        let mut durable = from;
        file.seek(SeekFrom::Start(from))?;
        while let Some((at, piece)) = pieces.next().await {
            let len = piece.len();
            match piece {
                Piece::Data(data) => {
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
                    match lost.last_mut() {
                        Some((_, end)) if *end == at => *end = at + len,
                        _ => lost.push((at, at + len)),
                    }
                    file.seek(SeekFrom::Current(i64::try_from(len).unwrap_or(i64::MAX)))?;
                }
            }
            self.progress(len);
            let done = at + len;
            if done / STEP_BYTES > durable / STEP_BYTES {
                self.stop_if_full(file.sync_data())?;
                durable = done;
            }
        }
        for (from, until) in &lost {
            let text = format!("bytes {from} to {until} can't be read, and are zeros in the copy");
            self.complain(&source.about(path, text));
        }
        Ok(!lost.is_empty())
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
        let mut permissions = a.permissions;
        if self.root {
            directory::set_owner(of, a.user.id(), a.group.id())?;
        } else {
            // A program that runs as its owner must not come to run as another.
            permissions &= 0o1777;
        }
        directory::set_permissions(of, permissions)?;
        for (name, value) in self.known_attributes(source, path, node).await {
            if let Err(error) = directory::set_attribute(of, &name, &value) {
                self.lacks(source, path, &name, &error);
            }
        }
        directory::set_times(of, times(a))?;
        Ok(())
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
            Ok(found) => found,
            Err(error) => {
                self.complain(&source.about(path, format!("its extended attributes: {error}")));
                Vec::new()
            }
        }
    }

    /// Makes an error of writing end the command where there is no room.
    pub(super) fn stop_if_full<T>(&self, done: std::io::Result<T>) -> Result<T, Trouble> {
        use std::io::ErrorKind;
        done.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Trouble::Stop(Stop::Full(self.full(&error)))
            }
            _ => Trouble::from(error),
        })
    }
}

/// Opens the temporary file, and says up to where it is good. What stands there and is no file of its own (a device,
/// another name of some file) gives way.
fn begin(into: &Directory, part: &[u8]) -> Result<(File, u64), Trouble> {
    let Some(entry) = into.look(part)? else { return Ok((into.create(part)?, 0)) };
    if entry.kind != EntryKind::File || entry.links != 1 {
        into.remove(part)?;
        return Ok((into.create(part)?, 0));
    }
    let mut file = into.reopen(part)?;
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
            let part = File::create(folder.path().join("part")).expect("made");
            part.set_len(len).expect("grown");
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
