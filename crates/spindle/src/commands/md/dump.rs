//! `spindle md dump`: a set's whole content, written to a file or to standard output.
//!
//! Stretches of zeros become holes in a file. A file that is there is not overwritten without `--overwrite`, and a file
//! gets its name when it is whole ([`sink`]).

mod sink;

pub use sink::Sink;

use super::assemble::OpeningArgs;
use super::words::by_force;
use crate::commands::elsewhere::volume_of_pool;
use crate::events::context;
use crate::output::{Failure, say};
use attach::Context;
use attach::past_damage::PastDamage;
use attach::sets::{reading, sources};
use attach::typed;
use clap::Args;
use host::identity::overlap;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rt::{DeviceRef, Request};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stdx::{ByteCount, Offset};

/// Bytes that are read at once: rows of the largest common arrays.
const PIECE: ByteCount = ByteCount::mib(4);
/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

// What `dump` takes.
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
    /// Go on past what can't be read, with zeros in its place; it is listed at the end
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    opening: OpeningArgs,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: DumpArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    dump(&args, paths).map_err(|failure| {
        failure.or_by_force(|| {
            let file = typed::quoted(&args.file.to_string_lossy());
            let overwrite = if args.overwrite { " --overwrite" } else { "" };
            by_force(paths, "dump", &args.array, &format!(" {file}{overwrite}"))
        })
    })
}

fn dump(args: &DumpArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let choice = sources::choice(&runtime, paths, &args.array)
        .map_err(|error| perhaps_volume(error, args, paths))?;
    let taking_part = choice.slots.iter().flatten().chain(&choice.spares).chain(&choice.journal);
    let taking_part = taking_part.chain(choice.replacements.iter().map(|(_, found)| found));
    let mut all = taking_part.chain(choice.left_out.iter().map(|left| &left.found));
    if all.any(|found| overlap(&sources::path_of(found), &args.file)) {
        let text = format!("{} is a device of the set: name another file", args.file.display());
        return Err(Failure::usage(text));
    }
    let array = reading::open(&runtime, choice, args.opening.options())?;
    let sink = match args.file.as_os_str() == "-" {
        true => Sink::stream()?,
        false => Sink::open(&args.file, args.overwrite)?,
    };
    let past = || PastDamage::new(Rc::clone(&array) as DeviceRef, runtime.events());
    let past = args.skip_damaged.then(past);
    copy(&runtime, &(Rc::clone(&array) as DeviceRef), sink, &args.file, past)
}

/// What is no set may be a volume or partition on one.
fn perhaps_volume(error: attach::Error, args: &DumpArgs, paths: &[PathBuf]) -> Failure {
    let is_perhaps =
        matches!(error, attach::Error::NoSet { .. }) && args.array.contains(['/', ':']);
    let failure = Failure::from(error);
    if !is_perhaps {
        return failure;
    }
    if let Some(instead) = volume_of_pool((&args.array, &args.file), paths) {
        return failure.and_do(&instead);
    }
    let (spindle, volume) = (typed::spindle(paths), typed::quoted(&args.array));
    let file = typed::quoted(&args.file.to_string_lossy());
    failure.and_do(&format!("a volume or a partition: {spindle} lvm dump {volume} {file}"))
}

/// Writes all of a device out; with zeros for what can't be read where it is read `past` that.
///
/// # Errors
/// It can't be read, or the file not written; or zeros stand for a part of it.
pub fn copy(
    runtime: &Context,
    device: &DeviceRef,
    sink: Sink,
    path: &Path,
    past: Option<Rc<PastDamage>>,
) -> Result<(), Failure> {
    let Some(past) = past else {
        return copy_all(
            runtime,
            device,
            sink,
            path,
            "; --skip-damaged goes on with zeros in its place",
        );
    };
    copy_all(runtime, &(Rc::clone(&past) as DeviceRef), sink, path, "")?;
    match past.tell_all() {
        0 => Ok(()),
        lost => Err(Failure::failed(format!("{lost} bytes are zeros for what can't be read"))),
    }
}

fn copy_all(
    runtime: &Context,
    device: &DeviceRef,
    mut sink: Sink,
    path: &Path,
    mend: &'static str,
) -> Result<(), Failure> {
    let size = device.geometry().capacity;
    let (device, path, target) = (Rc::clone(device), path.to_owned(), path.to_owned());
    let failed = move |error: std::io::Error| Sink::wrong(&path, &error);
    if let Some(room) = sink.check_room(size).map_err(&failed)? {
        say(&format!("{}: {room}", target.display()));
    }
    let copied = async move {
        let progress = Progress::new(size.bytes());
        let mut at = Offset::ZERO;
        while at.from_start() < size {
            let len = PIECE.min(size - at.from_start());
            let data = device.submit(Request::read(at, len)).await;
            let data = data.map_err(|error| Failure::failed(format!("{error}{mend}")))?;
            sink.write(&data).map_err(&failed)?;
            progress.advance(len.bytes());
            at += len;
        }
        sink.finish(size.bytes()).map_err(&failed)?;
        progress.finish();
        say(&told(size.bytes(), &target));
        Ok(())
    };
    runtime.runtime().block_on(copied).expect("I/O on a real device ends")
}

/// What is said in the end.
pub fn told(size: u64, target: &Path) -> String {
    let to = match target.as_os_str() == "-" {
        true => "standard output".into(),
        false => target.display().to_string(),
    };
    format!("{} written to {to}", ByteCount(size))
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
