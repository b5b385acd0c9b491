//! `spindle md dump`: a set's whole content, written to a file or to standard output.
//!
//! Stretches of zeros become holes in a file. A file that is there is
//! not overwritten without `--force`; one that was begun and not ended is removed.

use super::assemble::{OpeningArgs, open};
use super::sources;
use crate::commands::{Failure, say};
use ::md::assemble::OpenArray;
use clap::Args;
use host::HostRuntime;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rt::{Device, Request, SgList};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stdx::{ByteCount, Offset};

/// Bytes that are read at once: rows of the largest common arrays.
const PIECE: ByteCount = ByteCount::mib(4);
/// The unit in which zeros are left out of a file: a file system's block.
const HOLE: usize = 4096;
/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What `dump` takes.
#[derive(Args)]
pub struct DumpArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// Where to write it; - is standard output
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Overwrite a file or block device that is there
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    opening: OpeningArgs,
}

/// Where the bytes go.
pub enum Sink {
    /// A pipe: every byte.
    Stream(std::io::Stdout),
    /// A file or device, and whether it was empty, so that zeros can be left out.
    Place {
        /// It.
        file: File,
        /// Whether it was empty.
        sparse: bool,
    },
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: DumpArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = sources::runtime()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if choice.slots.iter().flatten().any(|found| is_same(Path::new(&found.name()), &args.file)) {
        let text = format!("{} is a member of the set: name another file", args.file.display());
        return Err(Failure::usage(text));
    }
    let array = open(&runtime, choice, args.opening.options())?;
    let is_stream = args.file.as_os_str() == "-";
    let was_there = args.file.exists();
    let sink = if is_stream {
        Sink::Stream(std::io::stdout())
    } else {
        Sink::open(&args.file, args.overwrite)?
    };
    let done = copy(&runtime, &array, sink, &args.file);
    if done.is_err() && !is_stream && !was_there {
        // What can't be removed stays; the error says that it is not whole.
        let _ = std::fs::remove_file(&args.file);
    }
    done
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

impl Sink {
    /// Makes a file, or opens one that is there to be overwritten.
    ///
    /// # Errors
    /// It is there and is not to be overwritten, or can't be made.
    pub fn open(path: &Path, overwrite: bool) -> Result<Sink, Failure> {
        let is_file = !path.exists() || path.is_file();
        let mut options = OpenOptions::new();
        options.write(true).create_new(!overwrite).create(overwrite).truncate(overwrite && is_file);
        let file = options.open(path).map_err(|error| {
            let mend = match error.kind() {
                std::io::ErrorKind::AlreadyExists => "; name another, or add --overwrite",
                _ => "",
            };
            Failure::failed(format!("creating {}: {error}{mend}", path.display()))
        })?;
        Ok(Sink::Place { file, sparse: is_file })
    }

    /// Writes on.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, data: &SgList) -> std::io::Result<()> {
        for piece in data.pieces() {
            match self {
                Sink::Stream(out) => out.write_all(piece.bytes())?,
                Sink::Place { file, sparse: false } => file.write_all(piece.bytes())?,
                Sink::Place { file, sparse: true } => write_sparse(file, piece.bytes())?,
            }
        }
        Ok(())
    }

    /// Makes all of it durable; `size` is how long it is with zeros at its end.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(&mut self, size: u64) -> std::io::Result<()> {
        match self {
            Sink::Stream(out) => out.flush(),
            Sink::Place { file, sparse } => {
                if *sparse {
                    file.set_len(size)?;
                }
                file.sync_all()
            }
        }
    }
}

/// Writes what is not zero, and passes over the rest.
fn write_sparse(file: &mut File, mut bytes: &[u8]) -> std::io::Result<()> {
    let is_hole = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    while !bytes.is_empty() {
        let first = is_hole(&bytes[..HOLE.min(bytes.len())]);
        let blocks = bytes.chunks(HOLE).take_while(|block| is_hole(block) == first).count();
        let (run, rest) = bytes.split_at((blocks * HOLE).min(bytes.len()));
        if first {
            file.seek(SeekFrom::Current(run.len() as i64))?;
        } else {
            file.write_all(run)?;
        }
        bytes = rest;
    }
    Ok(())
}

fn copy(
    runtime: &HostRuntime,
    array: &Rc<OpenArray>,
    mut sink: Sink,
    path: &Path,
) -> Result<(), Failure> {
    let size = array.geometry().capacity;
    let (array, path) = (Rc::clone(array), path.to_owned());
    let failed = move |error: std::io::Error| {
        Failure::failed(format!("writing {}: {error}", path.display()))
    };
    let copied = async move {
        let progress = Progress::new(size.bytes());
        let mut at = Offset::ZERO;
        while at.from_start() < size {
            let len = PIECE.min(size - at.from_start());
            let data = array.submit(Request::read(at, len)).await.map_err(Failure::failed)?;
            sink.write(&data).map_err(&failed)?;
            progress.advance(len.bytes());
            at += len;
        }
        sink.finish(size.bytes()).map_err(&failed)?;
        progress.finish();
        Ok(())
    };
    runtime.runtime().block_on(copied).expect("I/O on a real device ends")
}

/// A bar on a terminal, a line now and then elsewhere.
pub struct Progress {
    bar: ProgressBar,
    lines: Option<std::cell::Cell<Instant>>,
}

impl Progress {
    /// Nothing of `size` bytes is done.
    pub fn new(size: u64) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(size), target);
        let style = "{bar:30} {bytes}/{total_bytes} at {bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        let lines = (!terminal).then(|| std::cell::Cell::new(Instant::now()));
        Progress { bar, lines }
    }

    /// So many bytes more are done.
    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
        let Some(last) = self.lines.as_ref().filter(|last| last.get().elapsed() >= LINE_EVERY)
        else {
            return;
        };
        last.set(Instant::now());
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        say(&format!("{} of {} written", ByteCount(done), ByteCount(all)));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
