//! The mark of a file whose copy has zeros for what could not be read.
//!
//! Such a copy has the size and the time of its file, so nothing in it says that it is not whole. The mark does: a file
//! beside it, with a line for each range of bytes that is missing. As long as it is there the same command copies
//! the file anew, and tells of it again; it goes when everything could be read.
//!
//! **Order.** A line is written before anything behind the range is, and made durable before that is. So of a copy that
//! was stopped and goes on in its middle the mark knows what is missing before the middle; those ranges are read again
//! first. A mark that is longer than [`BYTES_MAX`], or that somebody else may have put there, is not read: the file is then
//! begun anew.

use crate::printable;
use ::host::directory::{Directory, EntryKind};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Bytes of a mark that are read: some hundred thousand ranges.
const BYTES_MAX: u64 = 4 << 20;

/// A range of bytes, from and until.
type Range = (u64, u64);

/// See the [module](self).
pub(super) struct Lost {
    into: Directory,
    /// The mark's name.
    mark: Vec<u8>,
    /// Its first line.
    title: String,
    file: Option<File>,
    good: u64,
    earlier: Vec<Range>,
    found: Vec<Range>,
    /// What the mark held.
    before: Vec<u8>,
}

fn name_of(stem: &str) -> Vec<u8> {
    format!("{stem}.damaged").into_bytes()
}

/// Whether the copy of a file in this directory is known to be damaged.
pub(super) fn is_marked(stem: &str, into: &Directory) -> io::Result<bool> {
    let found = into.look(&name_of(stem))?;
    Ok(found.is_some_and(|found| found.kind == EntryKind::File))
}

impl Lost {
    /// What is known to be missing in the copy of a file under this name, of whose content `good` bytes are written.
    pub(super) fn open(stem: &str, into: &Directory, name: &[u8], good: u64) -> io::Result<Lost> {
        let title =
            format!("zeros stand for these bytes of {}, from and until\n", printable::bytes(name));
        Lost::open_mark(into, name_of(stem), title, good)
    }

    fn open_mark(into: &Directory, mark: Vec<u8>, title: String, good: u64) -> io::Result<Lost> {
        let into = into.again()?;
        let (earlier, found, before) = Default::default();
        let mut lost = Lost { into, mark, title, file: None, good, earlier, found, before };
        let Some(own) = lost.into.open_own(&lost.mark)? else {
            if lost.into.look(&lost.mark)?.is_some() {
                // Whose it is, nobody knows what is missing.
                lost.into.remove(&lost.mark)?;
                lost.good = 0;
            }
            return Ok(lost);
        };
        let file = lost.file.insert(own);
        let mut text = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut text)?;
        file.seek(SeekFrom::End(0))?;
        if text.len() as u64 > BYTES_MAX {
            lost.good = 0;
        } else {
            lost.earlier = ranges(&text, lost.good);
        }
        lost.before = text;
        Ok(lost)
    }

    /// Up to where the content is written and known.
    pub(super) fn good(&self) -> u64 {
        self.good
    }

    /// Takes the ranges before there that could not be read when they were written.
    pub(super) fn earlier(&mut self) -> Vec<Range> {
        std::mem::take(&mut self.earlier)
    }

    /// What could not be read this time.
    pub(super) fn found(&self) -> &[Range] {
        &self.found
    }

    /// Adds a range, and writes it down.
    pub(super) fn add(&mut self, from: u64, until: u64) -> io::Result<()> {
        let mut range = (from, until);
        match self.found.last_mut() {
            Some(last) if last.1 == from => {
                last.1 = until;
                range = *last;
            }
            _ => self.found.push(range),
        }
        let title = self.title.clone();
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = self.into.create(&self.mark)?;
                file.write_all(title.as_bytes())?;
                none.insert(file)
            }
        };
        file.write_all(line(range).as_bytes())
    }

    /// Makes durable what was written down.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Leaves in the mark what is missing in the end; of a copy that misses nothing it is left as it is.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| !self.found.is_empty()) else {
            return Ok(());
        };
        let lines: String = self.found.iter().map(|range| line(*range)).collect();
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all([self.title.as_bytes(), lines.as_bytes()].concat().as_slice())?;
        file.sync_all()
    }

    /// Leaves the mark as it was where there `is` a copy from before that had one; else takes it away.
    pub(super) fn take_back(mut self, is: bool) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| is && !self.before.is_empty()) else {
            return self.remove();
        };
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&self.before)?;
        file.sync_all()
    }

    /// Takes the mark away.
    pub(super) fn remove(self) -> io::Result<()> {
        if self.file.is_some() { self.into.remove(&self.mark) } else { Ok(()) }
    }
}

fn line((from, until): Range) -> String {
    format!("{from} {until}\n")
}

/// The ranges that whole lines of a mark name, as far as they lie before `good`: in their order, joined where they meet.
fn ranges(text: &[u8], good: u64) -> Vec<Range> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').skip(1);
    let range = |line: &[u8]| -> Option<Range> {
        let (from, until) = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?.split_once(' ')?;
        let (from, until) = (from.parse().ok()?, until.parse::<u64>().ok()?.min(good));
        (from < until).then_some((from, until))
    };
    let mut all: Vec<Range> = lines.filter_map(range).collect();
    all.sort_unstable();
    let mut joined: Vec<Range> = Vec::new();
    for (from, until) in all {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => joined.push((from, until)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a copy that was stopped behind a damaged block goes on there, and then counts as whole.
    #[test]
    fn what_is_missing_before_the_middle_is_known_when_a_copy_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path()).expect("it opens");
        let open = |good| {
            let (mark, title) = (b"mark".to_vec(), "title 1 2\n".to_owned());
            Lost::open_mark(&directory, mark, title, good).expect("it opens")
        };
        let mut lost = open(0);
        for (from, until) in [(10, 20), (20, 30), (50, 90)] {
            lost.add(from, until).expect("written");
        }
        assert_eq!(lost.found(), [(10, 30), (50, 90)]);
        lost.sync().expect("durable");
        drop(lost);
        let mark = folder.path().join("mark");
        let mut file = File::options().append(true).open(&mark).expect("it opens");
        file.write_all(b"0 100").expect("written");
        let mut lost = open(60);
        assert_eq!((lost.earlier(), lost.good()), (vec![(10, 30), (50, 60)], 60));
        lost.add(50, 60).expect("written");
        lost.settle().expect("written");
        assert_eq!(std::fs::read(&mark).expect("read"), b"title 1 2\n50 60\n");
        open(0).remove().expect("removed");
        assert!(!mark.exists());
        // A copy that was not made again keeps its mark; without one there is none.
        let before = b"title 1 2\n3 9\n";
        for (is, held) in [(true, Some(&before[..])), (false, None)] {
            std::fs::write(&mark, before).expect("written");
            let mut lost = open(0);
            lost.add(0, 9).expect("written");
            lost.take_back(is).expect("written");
            assert_eq!(std::fs::read(&mark).ok().as_deref(), held);
        }
        // One that is too long is not trusted to be whole.
        directory.create(b"mark").expect("made");
        std::fs::write(&mark, vec![b'\n'; BYTES_MAX as usize + 1]).expect("written");
        assert_eq!((open(60).good(), open(60).earlier()), (0, vec![]));
    }
}
