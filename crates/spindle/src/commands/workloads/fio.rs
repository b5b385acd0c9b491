//! `spindle lab fio`: fio's job files, as they are, with fio's output.
//!
//! The options of fio's command line that go with a job file have their names here (`--section`,
//! `--output`, `--output-format`, `--parse-only`); what describes a job stands in the file.

use super::session::{self, Common, Session, ToolRun};
use crate::commands::clock::ctime;
use crate::output::{Failure, print, say};
use clap::{Args, ValueEnum};
use fio::{FioOutcome, Plan, Setup, Stamp};
use lab::study::ToolKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use targets::inputs::{InputError, fio_plan};
use workload::content::Form;
use workload::outcome::Outcome;

/// The version of fio whose forms the output has.
const FIO_VERSION: &str = "fio-3.33";

// A job file and what is told of it.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    printf '[randread]\\nrw=randread\\nbs=4k\\nsize=256m\\n' > job.fio\n  \
    spindle lab fio job.fio --dir /mnt/scratch --repeats 5 --out report")]
pub struct FioArgs {
    /// The job file
    #[arg(value_name = "JOB.fio")]
    file: PathBuf,
    /// The directory that relative paths in the job file start from
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Run only this section (and the section global); may be given several times
    #[arg(long, value_name = "NAME")]
    section: Vec<String>,
    /// Write the output to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The forms of the output, in fio's words
    #[arg(
        long,
        value_name = "FORMAT,...",
        value_enum,
        value_delimiter = ',',
        default_value = "normal"
    )]
    output_format: Vec<Format>,
    /// Read the job file, say what it would run, and stop
    #[arg(long)]
    parse_only: bool,
    /// Let jobs write to block devices; what is on them is lost
    #[arg(long)]
    destructive: bool,
    #[command(flatten)]
    common: Common,
}

/// A form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Normal,
    /// One document
    Json,
    /// JSON with the bins of latencies
    #[value(name = "json+")]
    JsonPlus,
    /// One line a job, version 3
    Terse,
}

/// Runs the job file.
///
/// # Errors
/// With the line to print.
pub fn run(args: FioArgs) -> Result<(), Failure> {
    if args.common.compressible.is_some() || args.common.duplicates.is_some() {
        return Err(Failure::usage(
            "fio's jobs say what they write: put buffer_compress_percentage= or dedupe_percentage= into the job file",
        ));
    }
    let plan = fio_plan(&args.file, &args.section).map_err(|error| match error {
        InputError::Memory(error) => Failure::failed(error),
        error => Failure::usage(error),
    })?;
    if args.parse_only {
        return print(&plan.describe());
    }
    let plan = Arc::new(plan);
    // Absolute paths may lead to several file systems.
    let room = match plan.has_absolute_paths() {
        true => None,
        false => session::free(&args.dir),
    };
    let root = match plan.has_absolute_paths() {
        true => Path::new("/"),
        false => &args.dir,
    };
    let plan = match plan.has_absolute_paths() {
        true => Arc::new(below_root(&plan, &args.dir)?),
        false => plan,
    };
    let measured = plan.first_absolute_path().unwrap_or_else(|| args.dir.clone());
    let session = Session::open_at(&args.common, root, there(&measured))?;
    let told = Told { formats: &args.output_format, file: args.output.as_deref() };
    if told.is_for_people() {
        told.begin(&fio::opening(&plan, &version()))?;
    }
    let (mut outcomes, mut failed) = (Vec::new(), None);
    for repeat in 0..session.repeats() {
        let (plan, stop) = (Arc::clone(&plan), session.stop());
        let quiet = !told.is_for_people();
        let setup = Setup {
            seed: session.seed(repeat),
            form: Form::Bytes,
            destructive: args.destructive,
            room,
            say: Rc::new(move |line: &str| {
                if !quiet {
                    say(line);
                }
            }),
        };
        let ended = session.block_on(move |crew| fio::run(crew, plan, setup, stop));
        if ended.is_err() && session.ends_early(&outcomes)? {
            break;
        }
        let outcome = ended.map_err(Failure::failed)?;
        told.tell(&outcome)?;
        write_logs(&outcome)?;
        // What was done until then is told, as fio does, and that it is no result.
        if session.ends_early(&outcomes)? {
            break;
        }
        for error in &outcome.errors {
            failed = Some(error.to_string());
        }
        outcomes.push(outcome.outcome());
    }
    conclude(&args, &session, outcomes)?;
    match failed {
        Some(error) => Err(Failure::failed(error)),
        None => Ok(()),
    }
}

fn conclude(args: &FioArgs, session: &Session, outcomes: Vec<Outcome>) -> Result<(), Failure> {
    let text = targets::inputs::job_text(&args.file).ok();
    let name = args.file.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let tool = ToolRun {
        tool: ToolKind::Fio,
        title: &format!("fio: {name}"),
        workload: &name,
        content: None,
        settings: match args.section.as_slice() {
            [] => Vec::new(),
            some => vec![("section".to_owned(), some.join(", "))],
        },
        text: text.as_deref(),
        table: args.output_format == [Format::Normal],
    };
    session.conclude(&tool, outcomes)
}

/// The path, or the first directory above it that is there: the job makes its files only later.
fn there(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}

/// The plan with its relative paths below `dir`, for a tree over the root.
fn below_root(plan: &Plan, dir: &Path) -> Result<Plan, Failure> {
    let full = dir.canonicalize().map_err(|error| {
        Failure::usage(format!("{}: {error}; name a directory that is there", dir.display()))
    })?;
    Ok(plan.with_relative_paths_below(&full))
}

fn version() -> String {
    // Readers of the JSON look for fio's name and version.
    format!("{FIO_VERSION} (spindle {})", env!("CARGO_PKG_VERSION"))
}

/// Where the output goes and in which forms.
struct Told<'a> {
    formats: &'a [Format],
    file: Option<&'a Path>,
}

impl Told<'_> {
    fn is_for_people(&self) -> bool {
        self.formats.contains(&Format::Normal)
    }

    /// The first lines. They begin the file where the output goes to one.
    fn begin(&self, text: &str) -> Result<(), Failure> {
        match self.file {
            Some(path) => std::fs::write(path, text).map_err(|error| unwritable(path, &error)),
            None => print(text),
        }
    }

    fn tell(&self, outcome: &FioOutcome) -> Result<(), Failure> {
        let stamp = stamp()?;
        let mut text = String::new();
        for format in self.formats {
            match format {
                Format::Normal => text.push_str(&outcome.text(&stamp)),
                Format::Terse => text.push_str(&outcome.terse(&stamp)),
                Format::Json | Format::JsonPlus => {
                    let bins = *format == Format::JsonPlus;
                    let document = outcome.json(&stamp, bins);
                    let written = serde_json::to_string_pretty(&document);
                    text.push_str(&written.map_err(Failure::failed)?);
                    text.push('\n');
                }
            }
        }
        let Some(path) = self.file else { return print(&text) };
        let append = self.is_for_people();
        let mut options = std::fs::OpenOptions::new();
        options.create(true).write(true).append(append).truncate(!append);
        let file = options.open(path);
        let written =
            file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        written.map_err(|error| unwritable(path, &error))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("writing {}: {error}", path.display()))
}

/// Logs go to the current directory, as fio's do.
fn write_logs(outcome: &FioOutcome) -> Result<(), Failure> {
    for (name, text) in &outcome.logs {
        let path = Path::new(name);
        std::fs::write(path, text).map_err(|error| unwritable(path, &error))?;
    }
    Ok(())
}

/// The moment, as fio's output has it; in universal time.
fn stamp() -> Result<Stamp, Failure> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let unix_ms = since.map_err(Failure::failed)?.as_millis() as u64;
    Ok(Stamp { unix_ms, text: ctime(unix_ms / 1000), version: version() })
}
