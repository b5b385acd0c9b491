//! The phases on one large file: by bytes and by blocks, all in sequence.
//!
//! As bonnie++ does, each phase opens the file anew and ends with `fsync` and `close`, inside the
//! measured time; what comes before the first call (opening, making the file) is outside. The file is
//! removed and made again between writing by bytes and by blocks. A byte at a time means a system call
//! for each byte: bonnie++ gave up the C library's `putc` in version 2.
//!
//! In rewriting, one byte of each block is changed between reading and writing. Where the block is a
//! word repeated (simulated disks), another such block is written instead: a changed byte would turn
//! terabytes of words into real memory, and no disk model looks at them.

use super::figures::{Figure, Phase};
use super::job::{BonnieError, Heard, Job};
use super::plan::{File, Written};
use rt::{Buf, BufMut, FileRef, OpenHow, Rt};
use std::hint::black_box;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset};
use workload::blocks::Blocks;
use workload::content::{Content, Form};
use workload::crew::{PhaseEnd, Place};
use workload::io_failure::IoFailure;
use workload::one_buffer::{self, Held, OneBuffer, into_mut};

/// The worker's number among the sources of content.
const WORKER: u64 = 0;

/// The blocks that are written from scratch.
enum Source {
    Generated(Box<Blocks>),
    /// Zeros, with the byte at `at` counted up for each block.
    Counted {
        block: Buf,
        at: usize,
    },
}

impl Source {
    fn new(content: &Content, written: Written, len: usize) -> Source {
        match written {
            Written::Generated => Source::Generated(Box::new(Blocks::new(content, WORKER, len))),
            Written::AsBonnie => Source::Counted { block: BufMut::zeroed(len).freeze(), at: 0 },
        }
    }

    fn next(&mut self) -> Buf {
        match self {
            Source::Generated(blocks) => blocks.next(),
            Source::Counted { block, at } => {
                let mut bytes = into_mut(std::mem::replace(block, Buf::empty()));
                bytes[*at] = bytes[*at].wrapping_add(1);
                *at = (*at + 1) % bytes.len();
                *block = bytes.freeze();
                block.clone()
            }
        }
    }

    /// A block whose bytes are written one by one.
    fn next_bytes(&mut self, len: usize) -> Buf {
        match self {
            Source::Generated(blocks) => blocks.next(),
            Source::Counted { .. } => {
                let bytes: Vec<u8> = (0..len).map(|at| (at & 0x7f) as u8).collect();
                Buf::copy_of(&bytes)
            }
        }
    }
}

/// Reads blocks, changes a byte in each, and writes them back.
pub(super) struct Rewriter {
    buffer: OneBuffer,
    /// Where blocks are words: a source of others.
    words: Option<workload::content::Source>,
}

impl Rewriter {
    /// For blocks of this size, and one worker of the load.
    pub(super) fn new(content: &Content, worker: u64, chunk: ByteCount) -> Rewriter {
        let is_words = content.spec().form == Form::Words;
        let words = is_words.then(|| content.source(worker));
        Rewriter { buffer: OneBuffer::new(chunk), words }
    }

    /// Reads a block.
    pub(super) async fn read(
        &mut self,
        file: &FileRef,
        at: Offset,
        len: ByteCount,
    ) -> Result<Held, IoFailure> {
        self.buffer.read(&**file, at, len).await
    }

    /// Writes it back with the byte at `change` counted up (or down).
    pub(super) async fn write_changed(
        &mut self,
        file: &FileRef,
        at: Offset,
        block: Held,
        change: usize,
        by: i8,
    ) -> Result<(), IoFailure> {
        match (&mut self.words, block) {
            (Some(words), Held::Here(block)) => {
                one_buffer::write(&**file, at, words.next(block.len())).await
            }
            (_, block) => self.buffer.write_changed(&**file, at, block, change, by).await,
        }
    }
}

/// Removes the file, where it is there.
pub(super) async fn remove(place: &Place, job: &Job) -> Result<(), BonnieError> {
    match place.tree.remove_file(&job.path()).await {
        Ok(()) => Ok(()),
        Err(error) => match IoFailure::from(error) {
            failure if failure.is_not_found() => Ok(()),
            failure => Err(BonnieError::Io { phase: Phase::Seeks, failure }),
        },
    }
}

/// The clock of a phase.
pub(super) struct Watch {
    rt: Rt,
    begun: Instant,
    processor: Duration,
    latency_max: Duration,
}

impl Watch {
    pub(super) fn start(rt: &Rt) -> Watch {
        let processor = rt.processor_time();
        Watch { rt: rt.clone(), begun: rt.now(), processor, latency_max: Duration::ZERO }
    }

    /// The moment at which an operation begins.
    pub(super) fn begin(&self) -> Instant {
        self.rt.now()
    }

    /// An operation has ended.
    pub(super) fn end(&mut self, begun: Instant) {
        self.latency_max = self.latency_max.max(self.rt.now().since(begun));
    }

    pub(super) fn stop(self, amount: u64) -> Figure {
        Figure {
            amount,
            elapsed: self.rt.now().since(self.begun),
            processor: self.rt.processor_time().saturating_sub(self.processor),
            latency_max: self.latency_max,
        }
    }
}

/// All phases but the seeks.
pub(super) async fn run(
    place: &Place,
    job: &Job,
    plan: &File,
) -> Result<Vec<(Phase, Figure)>, BonnieError> {
    let bulk = Bulk { place, job, plan };
    let mut figures = Vec::new();
    let mut source = Source::new(&job.content, job.plan.written, plan.chunk.as_usize());
    for phase in job.plan.phases().into_iter().filter(|phase| phase.counts_bytes()) {
        (job.listener)(Heard::Begins(phase));
        place.says(PhaseEnd::Begins(phase.column()));
        let done = match phase {
            Phase::PutByte => bulk.put_bytes(&mut source).await,
            Phase::PutBlock => bulk.put_blocks(&mut source).await,
            Phase::Rewrite => bulk.rewrite().await,
            Phase::GetByte => bulk.get_bytes().await,
            _ => bulk.get_blocks().await,
        };
        let figure = done.map_err(|why| why.in_phase(phase))?;
        place.says(PhaseEnd::Ends(phase.column()));
        (job.listener)(Heard::Ends(phase, figure));
        figures.push((phase, figure));
    }
    Ok(figures)
}

/// Why a phase ended early: an I/O, or the wish to stop.
pub(super) enum Why {
    Io(IoFailure),
    Ended(BonnieError),
}

impl Why {
    pub(super) fn in_phase(self, phase: Phase) -> BonnieError {
        match self {
            Why::Io(failure) => BonnieError::Io { phase, failure },
            Why::Ended(error) => error,
        }
    }
}

impl<E: Into<IoFailure>> From<E> for Why {
    fn from(error: E) -> Why {
        Why::Io(error.into())
    }
}

struct Bulk<'a> {
    place: &'a Place,
    job: &'a Job,
    plan: &'a File,
}

impl Bulk<'_> {
    /// The file anew, empty.
    async fn create(&self) -> Result<FileRef, Why> {
        let path = self.job.path();
        match self.place.tree.remove_file(&path).await.map_err(IoFailure::from) {
            Err(failure) if !failure.is_not_found() => return Err(Why::Io(failure)),
            _ => {}
        }
        let how = OpenHow { write: true, create: true, exclusive: true, ..OpenHow::default() };
        Ok(self.place.tree.open(&path, how.with_direct(self.plan.direct)).await?)
    }

    async fn open(&self) -> Result<FileRef, Why> {
        Ok(self.place.tree.open(&self.job.path(), OpenHow::write()).await?)
    }

    fn go_on(&self) -> Result<(), Why> {
        self.job.go_on().map_err(Why::Ended)
    }

    /// The places of the blocks within the first `len` bytes.
    fn blocks(&self, len: ByteCount) -> impl Iterator<Item = Offset> + use<> {
        let chunk = self.plan.chunk.bytes();
        (0..len.bytes() / chunk).map(move |number| Offset(number * chunk))
    }

    async fn put_bytes(&self, source: &mut Source) -> Result<Figure, Why> {
        let len = self.plan.bytes_phase();
        let file = self.create().await?;
        let mut watch = Watch::start(&self.place.rt);
        for at in self.blocks(len) {
            self.go_on()?;
            let block = source.next_bytes(self.plan.chunk.as_usize());
            let begun = watch.begin();
            let bytes = block.bytes();
            for byte in 0..bytes.len() {
                let place = Offset(at.bytes() + byte as u64);
                // The short way stands here and not in a function: a byte costs so little that a
                // call more would be seen in the figure.
                match file.write_at_once(place, &bytes[byte..byte + 1]) {
                    Some(written) => written?,
                    None => one_buffer::write(&*file, place, block.slice(byte..byte + 1)).await?,
                }
            }
            watch.end(begun);
        }
        close(file).await?;
        Ok(watch.stop(len.bytes()))
    }

    async fn put_blocks(&self, source: &mut Source) -> Result<Figure, Why> {
        let file = self.create().await?;
        let mut watch = Watch::start(&self.place.rt);
        for at in self.blocks(self.plan.size) {
            self.go_on()?;
            let block = source.next();
            let begun = watch.begin();
            one_buffer::write(&*file, at, block).await?;
            watch.end(begun);
        }
        close(file).await?;
        Ok(watch.stop(self.plan.size.bytes()))
    }

    async fn rewrite(&self) -> Result<Figure, Why> {
        let chunk = self.plan.chunk;
        let mut rewriter = Rewriter::new(&self.job.content, WORKER + 1, chunk);
        let file = self.open().await?;
        let mut watch = Watch::start(&self.place.rt);
        for (number, at) in self.blocks(self.plan.size).enumerate() {
            self.go_on()?;
            let begun = watch.begin();
            let block = rewriter.read(&file, at, chunk).await?;
            let change = number % chunk.as_usize();
            rewriter.write_changed(&file, at, block, change, 1).await?;
            watch.end(begun);
        }
        close(file).await?;
        Ok(watch.stop(self.plan.size.bytes()))
    }

    async fn get_bytes(&self) -> Result<Figure, Why> {
        let len = self.plan.bytes_phase();
        let file = self.open().await?;
        let mut watch = Watch::start(&self.place.rt);
        // Each byte is looked at, so that nobody can leave out reading it.
        let mut seen = [0_u32; 256];
        let mut buffer = OneBuffer::new(ByteCount(1));
        let mut one = [0_u8];
        for at in self.blocks(len) {
            self.go_on()?;
            let begun = watch.begin();
            for byte in 0..self.plan.chunk.bytes() {
                let place = Offset(at.bytes() + byte);
                let value = match file.read_at_once(place, &mut one) {
                    Some(Ok(1)) => one[0],
                    Some(Err(error)) => return Err(error.into()),
                    // Not to be had at once, or the end of the file, which the buffer reports.
                    Some(Ok(_)) | None => {
                        let held = buffer.read(&*file, place, ByteCount(1)).await?;
                        buffer.first(&held)
                    }
                };
                let count = &mut seen[usize::from(value)];
                *count = count.wrapping_add(1);
            }
            watch.end(begun);
        }
        black_box(seen);
        close(file).await?;
        Ok(watch.stop(len.bytes()))
    }

    async fn get_blocks(&self) -> Result<Figure, Why> {
        let mut buffer = OneBuffer::new(self.plan.chunk);
        let file = self.open().await?;
        let mut watch = Watch::start(&self.place.rt);
        for at in self.blocks(self.plan.size) {
            self.go_on()?;
            let begun = watch.begin();
            let _ = black_box(buffer.read(&*file, at, self.plan.chunk).await?);
            watch.end(begun);
        }
        close(file).await?;
        Ok(watch.stop(self.plan.size.bytes()))
    }
}

/// `fsync` and `close`, which every phase ends with.
pub(super) async fn close(file: FileRef) -> Result<(), Why> {
    file.sync().await?;
    drop(file);
    Ok(())
}
