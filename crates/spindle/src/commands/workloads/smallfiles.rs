//! `spindle lab smallfiles`: create, stat, read, copy and delete many small files.

use super::session::{self, Common, Session, ToolRun, lock};
use crate::output::{Failure, print, say};
use clap::Args;
use lab::results::{Partial, PartialOf};
use lab::study::ToolKind;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use stdx::ByteCount;
use tools::smallfiles::{self, Heard, Listener, Phase, Plan, Sizes, SmallFilesOutcome, table};

// What is done to how many files.
#[derive(Args)]
#[command(
    after_help = "Example:\n  spindle lab smallfiles -n 10000 -s 1k:64k -t 4 --cold --repeats 5 --out report"
)]
pub struct SmallFilesArgs {
    /// The directory to work in
    #[arg(short = 'd', long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Files
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000)]
    files: u64,
    /// Their size, or a range of sizes, each as likely as another
    #[arg(short = 's', long, value_name = "SIZE[:MAX]", default_value = "4k")]
    size: Sizes,
    /// Directories that share them [default: one for each hundred]
    #[arg(long, value_name = "N")]
    dirs: Option<u64>,
    /// Threads that share them
    #[arg(short = 't', long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// The block by which files are read and written
    #[arg(long, value_name = "SIZE", default_value = "64k")]
    block: ByteCount,
    /// Make each file durable (fsync) before the next
    #[arg(long)]
    fsync: bool,
    /// Make the system forget each file's data before it is read or copied
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the phases, and prints the table.
///
/// # Errors
/// With the line to print.
pub fn run(args: SmallFilesArgs) -> Result<(), Failure> {
    let default = Plan::of_files(args.files);
    let plan = Plan {
        number: std::process::id(),
        sizes: args.size,
        directories: args.dirs.unwrap_or(default.directories),
        threads: args.threads,
        block: args.block,
        durable: args.fsync,
        cold: args.cold,
        ..default
    };
    plan.check().map_err(Failure::usage)?;
    let settings = [
        ("files", plan.files.to_string()),
        ("size", plan.sizes.to_string()),
        ("directories", plan.directories.to_string()),
        ("threads", plan.threads.to_string()),
        ("block", plan.block.to_string()),
        ("fsync", plan.durable.to_string()),
        ("cold", plan.cold.to_string()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let session = Session::open(&args.common, &args.directory)?;
    let spec = session.content_spec();
    let content = session.content(spec);
    session::check_names(&args.directory, plan.names(), "make the files fewer (-n)")?;
    let block = session::block(&args.directory);
    let told = match block {
        ByteCount(1) => "make the files fewer or smaller".to_owned(),
        block => format!(
            "each file and its copy takes whole blocks of {block}: make them fewer or smaller"
        ),
    };
    session::check_fits(&args.directory, plan.space(block), &told)?;
    session.makes([plan.root()]);
    let tool = ToolRun {
        tool: ToolKind::SmallFiles,
        title: "Small files",
        workload: "smallfiles",
        content: Some(spec),
        settings,
        text: None,
        table: true,
    };
    let mut outcomes = Vec::new();
    for repeat in 0..session.repeats() {
        let (plan, content, stop) = (plan.clone(), content.clone(), session.stop());
        let seed = session.seed(repeat);
        let removing = session.removing();
        let (of_done, done) = (plan.clone(), Arc::new(Mutex::new(BTreeMap::new())));
        let kept = Arc::clone(&done);
        let listener: Listener = Arc::new(move |heard| match heard {
            Heard::Begins(phase) => say(&format!("{} ...", phase.word())),
            Heard::Ends(phase, figure) => {
                lock(&kept).insert(phase, figure.clone());
            }
            Heard::Removing(left) => removing(left),
        });
        let ended = session.block_on(move |crew| async move {
            smallfiles::run(&*crew, &plan, &content, seed, stop, listener).await
        });
        // Of the first repeat, the phases that are done are told, and that they are not all.
        let some = std::mem::take(&mut *lock(&done));
        if let (Err(error), true, false) = (&ended, outcomes.is_empty(), some.is_empty()) {
            let (done, total) = (some.len(), Phase::ALL.len());
            let partial = Partial { done, total, of: PartialOf::Phases };
            say(&format!("{partial} are done, and told:"));
            let outcome = SmallFilesOutcome::of(of_done, spec, some);
            session.told(print(&table::text(&outcome)))?;
            return session.conclude_part(&tool, outcome.outcome(), partial, error);
        }
        let Some(outcome) = session.ended(ended, &outcomes)? else { break };
        session.told(print(&table::text(&outcome)))?;
        outcomes.push(outcome.outcome());
    }
    session.conclude(&tool, outcomes)
}
