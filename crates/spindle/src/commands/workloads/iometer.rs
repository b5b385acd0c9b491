//! `spindle lab iometer`: the tests of an `.icf` file, with IOMeter's figures and results file.

use super::session::{Common, Session, ToolRun};
use crate::commands::clock::universal;
use crate::output::{Failure, print, say};
use clap::{Args, ValueEnum};
use lab::study::ToolKind;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stdx::ByteCount;
use targets::inputs::{job_text, read_input};
use tools::iometer::icf::DataPattern;
use tools::iometer::output::{Stamps, Table, results_csv};
use tools::iometer::{self, Options, Plan, TestOutcome};

// A configuration and what is told of it.
#[derive(Args)]
#[command(
    after_help = "Example:\n  spindle lab iometer pattern.icf --dir /mnt/scratch --repeats 5 --out report"
)]
pub struct IometerArgs {
    /// The configuration
    #[arg(value_name = "FILE.icf")]
    file: PathBuf,
    /// The directory for the test file (iobw.tst), which stays there for the next run
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Use this file or block device, as large as it is, instead of a test file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["dir", "remove"])]
    device: Option<PathBuf>,
    /// Let tests that write overwrite what is on --device
    #[arg(long, requires = "device")]
    destructive: bool,
    /// How much of the target is used, instead of the maximum disk size of the file
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteCount>,
    /// Seconds that each test records, instead of the run time of the file
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    run_time: Option<u32>,
    /// Seconds that each test runs before it records, instead of the ramp-up time of the file
    #[arg(long, value_name = "SECONDS")]
    ramp_up: Option<u32>,
    /// What is written, instead of the data pattern of the file
    #[arg(long, value_enum)]
    data_pattern: Option<Pattern>,
    /// Go through the file system's cache, which IOMeter never does
    #[arg(long)]
    buffered: bool,
    /// Remove the test file at the end
    #[arg(long)]
    remove: bool,
    /// Write IOMeter's results file; with --repeats one for each, numbered
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Read the file, say what it would run, and stop
    #[arg(long)]
    parse_only: bool,
    #[command(flatten)]
    common: Common,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pattern {
    /// One byte repeated, another for each write
    RepeatingBytes,
    /// Random bytes, the same for all writes of a test
    PseudoRandom,
    /// Random bytes, others for each write (see --compressible, --duplicates)
    FullRandom,
}

/// Runs the tests, and prints a row for each.
///
/// # Errors
/// With the line to print.
pub fn run(args: IometerArgs) -> Result<(), Failure> {
    let plan = plan_of(&args)?;
    if args.parse_only {
        return print(&described(&plan));
    }
    if let Some(device) = &args.device
        && plan.writes()
        && !args.destructive
    {
        return Err(Failure::usage(format!(
            "the tests write, and what is on {} would be lost; say --destructive if it may be",
            device.display()
        )));
    }
    let shares = args.common.compressible.is_some() || args.common.duplicates.is_some();
    if shares && !plan.writes_content() {
        return Err(Failure::usage(
            "--compressible and --duplicates say how random content is; say --data-pattern full-random",
        ));
    }
    let root = if args.device.is_some() { Path::new("/") } else { &args.dir };
    let session =
        Session::open_at(&args.common, root, args.device.as_deref().unwrap_or(&args.dir))?;
    let content_spec = session.content_spec();
    let content = session.content(content_spec);
    session.makes(plan.files.iter().filter(|file| file.made).map(|file| file.path.clone()));
    let minutes = plan.time().as_secs_f64() / 60.0;
    say(&format!("{} tests, {minutes:.1} minutes and the time to make files", plan.tests.len()));
    let plan = Rc::new(plan);
    let mut outcomes = Vec::new();
    for repeat in 0..session.repeats() {
        let stamps = Rc::new(RefCell::new(Stamps { begun: stamp(), ended: Vec::new() }));
        let (plan_of_run, content, stop) = (Rc::clone(&plan), content.clone(), session.stop());
        let (seed, stamps_of_run) = (session.seed(repeat), Rc::clone(&stamps));
        let untold = Rc::new(RefCell::new(None));
        let (untold_of_run, is_kept) = (Rc::clone(&untold), session.has_report());
        let ended = session.block_on(move |crew| async move {
            let (plan, table) = (&*plan_of_run, Table::new(&plan_of_run));
            let mut is_first = true;
            let stop_of_rows = Arc::clone(&stop);
            let mut each = |test: &TestOutcome| {
                stamps_of_run.borrow_mut().ended.push(stamp());
                let head =
                    if std::mem::take(&mut is_first) { table.head() + "\n" } else { String::new() };
                let row = table.row(plan, test);
                if let Err(failure) = print(&format!("{head}{row}\n")) {
                    untold_of_run.borrow_mut().get_or_insert(failure);
                    // Nobody reads any more.
                    stop_of_rows.fetch_or(!is_kept, Ordering::SeqCst);
                }
            };
            iometer::run(&*crew, plan, &content, seed, &stop, &mut each).await
        });
        session.told(untold.take().map_or(Ok(()), Err))?;
        let Some(outcome) = session.ended(ended, &outcomes)? else { break };
        // Where other repeats are the result, one that came to no end is none.
        let is_told = outcomes.is_empty() || !session.is_stopped();
        if let Some(csv) = args.csv.as_ref().filter(|_| is_told) {
            let path = numbered(csv, repeat, session.repeats());
            let text = results_csv(&plan, &outcome, &stamps.borrow());
            std::fs::write(&path, text)
                .map_err(|error| Failure::failed(format!("writing {}: {error}", path.display())))?;
        }
        let ends = session.ends_early(&outcomes);
        let outcome = outcome.outcome();
        if repeat == 0 || ends.is_err() {
            outcome.warnings.iter().for_each(|warning| say(&format!("note: {warning}")));
        }
        if ends? {
            break;
        }
        outcomes.push(outcome);
    }
    let name = args.file.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let text = job_text(&args.file).ok();
    let tool = ToolRun {
        tool: ToolKind::Iometer,
        title: &format!("IOMeter: {name}"),
        workload: &name,
        content: plan.writes_content().then_some(content_spec),
        settings: Vec::new(),
        text: text.as_deref(),
        table: true,
    };
    session.conclude(&tool, outcomes)
}

fn plan_of(args: &IometerArgs) -> Result<Plan, Failure> {
    let name = args.file.display().to_string();
    let bytes = read_input(&args.file)
        .map_err(|error| Failure::usage(format!("{name}: {error}; name an .icf file")))?;
    // Names in files of Windows may be in any code page.
    let text = String::from_utf8_lossy(&bytes);
    let icf = iometer::parse(&name, &text).map_err(Failure::usage)?;
    let device = match &args.device {
        None => None,
        Some(device) => {
            let full = device.canonicalize().map_err(|error| {
                Failure::usage(format!("{}: {error}; name a file or device", device.display()))
            })?;
            // Below the root of the tree.
            Some(full.strip_prefix("/").map_or(full.clone(), Path::to_owned))
        }
    };
    let seconds = |seconds: Option<u32>| seconds.map(|s| Duration::from_secs(s.into()));
    let options = Options {
        run_time: seconds(args.run_time),
        ramp_up: seconds(args.ramp_up),
        size: args.size,
        pattern: args.data_pattern.map(|pattern| match pattern {
            Pattern::RepeatingBytes => DataPattern::RepeatingBytes,
            Pattern::PseudoRandom => DataPattern::PseudoRandom,
            Pattern::FullRandom => DataPattern::FullRandom,
        }),
        buffered: args.buffered,
        remove: args.remove,
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        device,
    };
    iometer::plan(&icf, &options).map_err(Failure::usage)
}

/// What a plan would run.
fn described(plan: &Plan) -> String {
    let mut text = String::new();
    for (number, test) in plan.tests.iter().enumerate() {
        let targets: usize = test.workers.iter().map(|worker| worker.targets.len()).sum();
        let depth = test.depth().map_or("mixed".to_owned(), |depth| depth.to_string());
        text.push_str(&format!(
            "test {}: {}, {} workers, {targets} targets, {depth} outstanding I/Os each\n",
            number + 1,
            test.spec_name(),
            test.workers.len(),
        ));
    }
    for note in &plan.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

/// `results.csv`, or of the second of several repeats `results-2.csv`.
fn numbered(path: &Path, repeat: u32, repeats: u32) -> PathBuf {
    if repeats == 1 {
        return path.to_owned();
    }
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let name = format!("{}-{}", part(path.file_stem()), repeat + 1);
    match path.extension() {
        Some(extension) => path.with_file_name(format!("{name}.{}", part(Some(extension)))),
        None => path.with_file_name(name),
    }
}

/// Now, in UTC, in the form of IOMeter's results.
fn stamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let shown =
        universal(since.as_secs().cast_signed(), since.subsec_nanos(), "%Y-%m-%d %H:%M:%S:%3f");
    shown.expect("the clock shows a year that has four digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_repeats_have_numbers() {
        let name = |path, repeats| numbered(Path::new(path), 1, repeats).display().to_string();
        assert_eq!(name("a/r.csv", 1), "a/r.csv");
        assert_eq!(name("a/r.csv", 3), "a/r-2.csv");
        assert_eq!(name("r", 3), "r-2");
    }
}
