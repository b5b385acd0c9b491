//! The phases on many small files.
//!
//! A file's name is ten hexadecimal digits of its number and up to twelve random letters and digits;
//! the number stands first for the sequential order and last for the random one. In sequence files are
//! looked at and removed in the order in which the directory lists them; at random, in a shuffled order.
//! "Stat" asks for a file's status and, where the file is not empty, opens and reads it.
//!
//! Names are made and directories created outside the measured time; making and removing end with a
//! `sync`, removing also removes the directories, inside it.
//!
//! The shuffle swaps each name with any other, which is not quite fair, and each directory but the
//! last gets one name too many: both as bonnie++ does, so that one seed gives the same files.

use super::bulk::{Watch, Why};
use super::figures::{Figure, Phase};
use super::glibc_rand::GlibcRand;
use super::job::{BonnieError, Heard, Job};
use super::plan::{Creation, Written};
use rt::{BufMut, OpenHow};
use std::path::{Path, PathBuf};
use stdx::{ByteCount, Offset};
use workload::blocks::Blocks;
use workload::crew::Place;
use workload::io_failure::IoFailure;
use workload::one_buffer::{self, OneBuffer};

/// Random letters and digits in a name at the most.
const RANDOM_LETTERS_MAX: u32 = 12;

const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The worker's number among the sources of content; others have those below.
const WORKER: u64 = 1 << 16;

/// A small file: its path in the tree, and the number of its directory.
struct Name {
    path: PathBuf,
    directory: u32,
}

/// The path of a directory; one alone is the run's own.
fn directory(plan: &Creation, root: &Path, number: u32) -> PathBuf {
    match plan.directories {
        1 => root.to_owned(),
        _ => root.join(format!("{number:05}")),
    }
}

/// Names for all files below `root`, in the order of their numbers.
fn names(plan: &Creation, root: &Path, random: &mut GlibcRand, number_last: bool) -> Vec<Name> {
    let each = plan.files() / u64::from(plan.directories);
    let (mut number_of_directory, mut in_directory) = (0_u32, 0_u64);
    let mut path = directory(plan, root, 0);
    let mut names = Vec::with_capacity(plan.files() as usize);
    for number in 0..plan.files() {
        let len = random.modulo(RANDOM_LETTERS_MAX + 1);
        let mut letter = || char::from(LETTERS[random.modulo(LETTERS.len() as u32) as usize]);
        let letters: String = (0..len).map(|_| letter()).collect();
        let name = match number_last {
            true => format!("{letters}{number:010x}"),
            false => format!("{number:010x}{letters}"),
        };
        names.push(Name { path: path.join(name), directory: number_of_directory });
        in_directory += 1;
        if in_directory > each {
            in_directory = 0;
            number_of_directory += 1;
            path = directory(plan, root, number_of_directory);
        }
    }
    names
}

/// The size of the next file.
fn size(plan: &Creation, random: &mut GlibcRand) -> u64 {
    let (min, max) = (plan.size_min.bytes(), plan.size_max.bytes());
    match u32::try_from(max - min + 1) {
        Ok(range) if range > 1 => min + u64::from(random.modulo(range)),
        _ => max,
    }
}

/// Makes, looks at and removes files, in sequence and at random.
pub(super) async fn run(
    place: &Place,
    job: &Job,
    plan: &Creation,
    random: GlibcRand,
) -> Result<Vec<(Phase, Figure)>, BonnieError> {
    let blocks = match job.plan.written {
        Written::Generated => Some(Blocks::new(&job.content, WORKER, plan.chunk.as_usize())),
        Written::AsBonnie => None,
    };
    let buffer = OneBuffer::new(plan.chunk);
    let mut test = Test { place, job, plan, random, blocks, buffer, there: 0, figures: Vec::new() };
    let done = match test.in_sequence().await {
        Ok(()) => test.at_random().await,
        other => other,
    };
    if done.is_err() {
        // What went wrong counts more than what is left behind.
        let _ = test.clean_up().await;
    }
    done.map(|()| test.figures)
}

struct Test<'a> {
    place: &'a Place,
    job: &'a Job,
    plan: &'a Creation,
    random: GlibcRand,
    /// What the files hold; zeros where there is nothing.
    blocks: Option<Blocks>,
    /// Where files are read to.
    buffer: OneBuffer,
    /// Files that are there now.
    there: u64,
    figures: Vec<(Phase, Figure)>,
}

impl Test<'_> {
    async fn in_sequence(&mut self) -> Result<(), BonnieError> {
        let names = names(self.plan, &self.job.path(), &mut self.random, false);
        let made = self.create(&names).await;
        self.note(Phase::SequentialCreate, made)?;
        let seen = self.stat_listed().await;
        self.note(Phase::SequentialStat, seen)?;
        let removed = self.delete_listed().await;
        self.note(Phase::SequentialDelete, removed)
    }

    async fn at_random(&mut self) -> Result<(), BonnieError> {
        let mut names = names(self.plan, &self.job.path(), &mut self.random, true);
        let made = self.create(&names).await;
        self.note(Phase::RandomCreate, made)?;
        self.shuffle(&mut names);
        let seen = self.stat(&names).await;
        self.note(Phase::RandomStat, seen)?;
        self.shuffle(&mut names);
        let removed = self.delete(&names).await;
        self.note(Phase::RandomDelete, removed)
    }

    fn note(&mut self, phase: Phase, done: Result<Figure, Why>) -> Result<(), BonnieError> {
        let figure = done.map_err(|why| why.in_phase(phase))?;
        (self.job.listener)(Heard::Ends(phase, figure));
        self.figures.push((phase, figure));
        Ok(())
    }

    fn directory(&self, number: u32) -> PathBuf {
        directory(self.plan, &self.job.path(), number)
    }

    fn shuffle(&mut self, names: &mut [Name]) {
        for at in 0..names.len() {
            let other = self.random.modulo(names.len() as u32) as usize;
            names.swap(at, other);
        }
    }

    async fn create(&mut self, names: &[Name]) -> Result<Figure, Why> {
        let random_order = self.figures.len() >= 3;
        let phase = if random_order { Phase::RandomCreate } else { Phase::SequentialCreate };
        (self.job.listener)(Heard::Begins(phase));
        let tree = &self.place.tree;
        tree.create_directory(&self.job.path()).await?;
        if self.plan.directories > 1 {
            for number in 0..self.plan.directories {
                tree.create_directory(&self.directory(number)).await?;
            }
        }
        let how = OpenHow { write: true, create: true, exclusive: true, ..OpenHow::default() };
        let zeros = BufMut::zeroed(self.plan.chunk.as_usize()).freeze();
        let mut watch = Watch::start(&self.place.rt);
        for name in names {
            self.job.go_on().map_err(Why::Ended)?;
            let begun = watch.begin();
            let size = size(self.plan, &mut self.random);
            let file = tree.open(&name.path, how).await?;
            self.there += 1;
            let mut at = 0;
            while at < size {
                let len = (size - at).min(self.plan.chunk.bytes()) as usize;
                let block = match &mut self.blocks {
                    Some(blocks) => blocks.next(),
                    None => zeros.clone(),
                };
                one_buffer::write(&*file, Offset(at), block.slice(0..len)).await?;
                at += len as u64;
            }
            if self.job.plan.durable {
                file.sync().await?;
                tree.sync_directory(&self.directory(name.directory)).await?;
            }
            drop(file);
            watch.end(begun);
        }
        tree.sync().await?;
        Ok(watch.stop(self.plan.files()))
    }

    async fn stat_listed(&mut self) -> Result<Figure, Why> {
        (self.job.listener)(Heard::Begins(Phase::SequentialStat));
        let mut watch = Watch::start(&self.place.rt);
        let mut found = 0;
        for number in 0..self.plan.directories {
            let directory = self.directory(number);
            let mut begun = watch.begin();
            for entry in self.place.tree.list(&directory).await? {
                self.job.go_on().map_err(Why::Ended)?;
                self.look_at(&directory.join(entry.name)).await?;
                found += 1;
                watch.end(begun);
                begun = watch.begin();
            }
        }
        self.check_count(Phase::SequentialStat, found)?;
        Ok(watch.stop(found))
    }

    async fn stat(&mut self, names: &[Name]) -> Result<Figure, Why> {
        (self.job.listener)(Heard::Begins(Phase::RandomStat));
        let mut watch = Watch::start(&self.place.rt);
        for name in names {
            self.job.go_on().map_err(Why::Ended)?;
            let begun = watch.begin();
            self.look_at(&name.path).await?;
            watch.end(begun);
        }
        Ok(watch.stop(self.plan.files()))
    }

    /// Asks for the status, and reads a file that is not empty.
    async fn look_at(&mut self, path: &Path) -> Result<(), Why> {
        let size = self.place.tree.status(path).await?.size.bytes();
        if size == 0 {
            return Ok(());
        }
        let file = self.place.tree.open(path, OpenHow::read()).await?;
        let mut at = 0;
        while at < size {
            let len = (size - at).min(self.plan.chunk.bytes());
            let _ = self.buffer.read(&*file, Offset(at), ByteCount(len)).await?;
            at += len;
        }
        Ok(())
    }

    async fn delete_listed(&mut self) -> Result<Figure, Why> {
        (self.job.listener)(Heard::Begins(Phase::SequentialDelete));
        let tree = &self.place.tree;
        let mut watch = Watch::start(&self.place.rt);
        let mut found = 0;
        for number in 0..self.plan.directories {
            let directory = self.directory(number);
            let mut begun = watch.begin();
            for entry in tree.list(&directory).await? {
                self.job.go_on().map_err(Why::Ended)?;
                tree.remove_file(&directory.join(entry.name)).await?;
                self.there = self.there.saturating_sub(1);
                if self.job.plan.durable {
                    tree.sync_directory(&directory).await?;
                }
                found += 1;
                watch.end(begun);
                begun = watch.begin();
            }
            if self.plan.directories > 1 {
                tree.remove_directory(&directory).await?;
            }
        }
        tree.remove_directory(&self.job.path()).await?;
        self.check_count(Phase::SequentialDelete, found)?;
        tree.sync().await?;
        Ok(watch.stop(found))
    }

    async fn delete(&mut self, names: &[Name]) -> Result<Figure, Why> {
        (self.job.listener)(Heard::Begins(Phase::RandomDelete));
        let tree = &self.place.tree;
        let mut watch = Watch::start(&self.place.rt);
        for name in names {
            self.job.go_on().map_err(Why::Ended)?;
            let begun = watch.begin();
            tree.remove_file(&name.path).await?;
            self.there = self.there.saturating_sub(1);
            if self.job.plan.durable {
                tree.sync_directory(&self.directory(name.directory)).await?;
            }
            watch.end(begun);
        }
        if self.plan.directories > 1 {
            for number in 0..self.plan.directories {
                tree.remove_directory(&self.directory(number)).await?;
            }
        }
        tree.remove_directory(&self.job.path()).await?;
        tree.sync().await?;
        Ok(watch.stop(self.plan.files()))
    }

    fn check_count(&self, phase: Phase, found: u64) -> Result<(), Why> {
        let made = self.plan.files();
        match made == found {
            true => Ok(()),
            false => Err(Why::Ended(BonnieError::Count { phase, made, found })),
        }
    }

    /// Removes what is left after an error: the files, the directories.
    async fn clean_up(&self) -> Result<(), IoFailure> {
        let tree = &self.place.tree;
        let mut left = self.there;
        if left > 0 {
            (self.job.listener)(Heard::Removing(left));
        }
        for number in 0..self.plan.directories {
            let directory = self.directory(number);
            // A directory may not have been made yet, or be gone already.
            for entry in tree.list(&directory).await.unwrap_or_default() {
                tree.remove_file(&directory.join(entry.name)).await?;
                left = left.saturating_sub(1);
                (self.job.listener)(Heard::Removing(left));
            }
            if self.plan.directories > 1 {
                let _ = tree.remove_directory(&directory).await;
            }
        }
        Ok(tree.remove_directory(&self.job.path()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and sizes are what bonnie++ 2.00a makes with `-s 0 -n 1:3000:100:4 -z 42`, so that runs of
    /// both can be held against each other.
    #[test]
    fn one_seed_gives_the_files_of_bonnie() {
        let plan = Creation {
            size_max: ByteCount(3000),
            size_min: ByteCount(100),
            directories: 4,
            ..Creation::of_files(1)
        };
        let mut random = GlibcRand::new(42);
        let made = names(&plan, Path::new(""), &mut random, false);
        let sizes: Vec<u64> = (0..1024).map(|_| size(&plan, &mut random)).collect();
        let path = |at: usize| made[at].path.to_str().expect("it is ASCII");
        assert_eq!(path(0), "00000/0000000000k9FkytmJl6r");
        assert_eq!(path(0x100), "00000/0000000100Y6ng5XYU");
        assert_eq!(path(0x101), "00001/0000000101vVMXRrvq");
        assert_eq!(path(0x3ff), "00003/00000003ff");
        assert_eq!(sizes[..6], [975, 2545, 164, 1680, 2694, 448]);
    }
}
