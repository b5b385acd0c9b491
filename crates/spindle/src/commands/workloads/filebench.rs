//! `spindle lab filebench`: a workload in filebench's language, on a directory.

use super::session::{self, Common, Session, ToolRun};
use crate::output::{Failure, print, say};
use clap::Args;
use filebench::engine::Preparation;
use filebench::plan::Step;
use filebench::{Console, Plan, PlanOptions, library, output, run as run_filebench};
use lab::study::ToolKind;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stdx::ByteCount;
use targets::inputs::filebench_text;
use targets::this_machine;

/// Time between two lines about the preparation. Shorter fills logs, longer looks dead.
const LINE_EVERY: Duration = Duration::from_secs(10);

// Which workload, and where.
#[derive(Args)]
#[command(
    after_help = "Example:\n  spindle lab filebench --list\n  spindle lab filebench varmail --dir /mnt/scratch --run 30 --repeats 5 --out report"
)]
pub struct FilebenchArgs {
    /// A workload file (.f), or the name of a personality that comes with Spindle
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<String>,
    /// The directory to work in; nothing outside it is touched. It is what $dir is, whatever the file
    /// sets
    #[arg(short = 'd', long = "dir", value_name = "DIR", required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// How long each run takes, whatever the file says
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    run: Option<u64>,
    /// Set a variable of the workload, whatever the file sets: nfiles=20000, filesize=64k
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Remove the filesets at the end; else they stay, as filebench leaves them
    #[arg(long)]
    clean: bool,
    /// Let the workload run shell commands (system "..."). sync and drop_caches need no permission
    #[arg(long)]
    allow_system: bool,
    /// List the personalities that come with Spindle
    #[arg(long, conflicts_with_all = ["file", "directory"])]
    list: bool,
    #[command(flatten)]
    common: Common,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let text = text.strip_prefix('$').unwrap_or(text);
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write NAME=VALUE, as nfiles=20000".to_owned()),
    }
}

/// Runs the workload, and prints what filebench prints.
///
/// # Errors
/// With the line to print.
pub fn run(args: FilebenchArgs) -> Result<(), Failure> {
    let (Some(file), Some(directory)) = (&args.file, &args.directory) else {
        return list();
    };
    let (name, text) = filebench_text(file).map_err(Failure::usage)?;
    this_machine::check_directory(directory).map_err(Failure::usage)?;
    let absolute = std::fs::canonicalize(directory)
        .map_err(|error| Failure::usage(format!("{}: {error}", directory.display())))?;
    let options = PlanOptions {
        directory: absolute.display().to_string(),
        variables: args.variables.clone(),
        run_seconds: args.run,
        allow_system: args.allow_system,
    };
    let plan = Rc::new(Plan::read(&name, &text, &options).map_err(Failure::usage)?);
    let session = Session::open(&args.common, directory)?;
    session.makes(plan.filesets.iter().map(|fileset| fileset.root.clone()));
    let spec = session.content_spec();
    let content = session.content(spec);
    let mut outcomes = Vec::new();
    // What a repeat leaves the next one writes over.
    let room = session::free(directory);
    for repeat in 0..session.repeats() {
        session.told(print(&format!(
            "Filebench Version {} (Spindle {})\n",
            output::VERSION,
            env!("CARGO_PKG_VERSION")
        )))?;
        let (plan, content, stop) = (Rc::clone(&plan), content.clone(), session.stop());
        let (seed, clean) = (session.seed(repeat), args.clean);
        let ended = session.block_on(move |crew| async move {
            let console = Rc::new(Terminal { last: Cell::new(Instant::now()), room });
            run_filebench(&*crew, &plan, &content, seed, clean, &stop, console).await
        });
        let Some(outcome) = session.ended(ended, &outcomes)? else { break };
        if repeat == 0 {
            outcome.warnings.iter().for_each(|warning| say(&format!("note: {warning}")));
        }
        outcomes.push(outcome.outcome());
    }
    let workload = Path::new(&name)
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let runs = plan.steps.iter().filter(|step| matches!(step, Step::Run(_))).count();
    if runs > 1 {
        say(&format!("note: the workload has {runs} runs; the results are of the last one"));
    }
    let title = format!("filebench {workload}");
    let tool = ToolRun {
        tool: ToolKind::Filebench,
        title: &title,
        workload: &workload,
        content: Some(spec),
        settings: args.variables.clone(),
        text: Some(&text),
        table: true,
    };
    session.conclude(&tool, outcomes)
}

fn list() -> Result<(), Failure> {
    let mut text = String::new();
    for personality in library::PERSONALITIES {
        text.push_str(&format!("{:<30} {}\n", personality.name, personality.title()));
    }
    print(&text)
}

/// filebench's lines to standard output, progress to standard error.
struct Terminal {
    last: Cell<Instant>,
    room: Option<ByteCount>,
}

impl Console for Terminal {
    fn room(&self) -> Option<ByteCount> {
        self.room
    }

    fn line(&self, at: Duration, text: &str) {
        // The latency histogram stands behind a tab.
        let shown: Vec<String> = text.split('\t').map(lab::report::printable).collect();
        // A reader that has seen enough is no reason to stop a run.
        let _ = print(&format!("{}\n", output::stamped(at, &shown.join("\t"))));
    }

    fn progress(&self, preparation: &Preparation) {
        if self.last.get().elapsed() < LINE_EVERY {
            return;
        }
        self.last.set(Instant::now());
        let number = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (done, files) = (number(&preparation.files_done), number(&preparation.files));
        let bytes = ByteCount(number(&preparation.bytes_done));
        say(&format!("filebench: {done} of {files} files are there, {bytes} written"));
    }

    #[allow(clippy::disallowed_methods, reason = "the user allowed it with --allow-system")]
    fn system(&self, command: &str) -> Result<(), String> {
        let ended = std::process::Command::new("sh").arg("-c").arg(command).status();
        // As filebench, which looks at no exit status.
        ended.map(|_| ()).map_err(|error| error.to_string())
    }
}
