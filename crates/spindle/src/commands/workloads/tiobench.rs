//! `spindle lab tiobench`: threads × sequential and random reads and writes, by tiobench's options.

use super::session::{self, Common, Session, ToolRun};
use crate::output::{Failure, print, say};
use clap::Args;
use lab::results::{Partial, PartialOf};
use lab::study::ToolKind;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use stdx::ByteCount;
use stdx::units::{MIB, SizeError};
use targets::this_machine;
use tools::tiobench::{self, Case, CaseOutcome, Plan, Step, TiobenchOutcome, table};

// tiobench's options.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    spindle lab tiobench --target /mnt/scratch\n  \
    spindle lab tiobench --target /mnt/scratch --size 2000 --threads 1 --threads 16 --repeats 6")]
pub struct TiobenchArgs {
    /// The directory to work in
    #[arg(short = 'd', long, visible_alias = "dir", value_name = "DIR")]
    target: Option<PathBuf>,
    /// Size of all threads' files together, in MiB (or with g, t); several times for several [default: twice the memory]
    #[arg(long, value_name = "MIB", value_parser = size_mib)]
    size: Vec<u64>,
    /// Block in bytes (or with k, m); several times for several
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    block: Vec<ByteCount>,
    /// Threads; several times for several
    #[arg(long, value_name = "N", default_values = ["1", "2", "4", "8"])]
    threads: Vec<u32>,
    /// Random operations of all threads together
    #[arg(long, value_name = "N", default_value_t = 4000)]
    random: u64,
    /// Runs of each case, whose rates are taken together (for intervals see --repeats)
    #[arg(long, value_name = "N", default_value_t = 1)]
    numruns: u32,
    /// What the tables call it [default: the kernel's release]
    #[arg(long, value_name = "TEXT")]
    identifier: Option<String>,
    /// The threads write their files one after another, so that none is fragmented
    #[arg(long)]
    nofrag: bool,
    /// Direct I/O
    #[arg(long = "directio")]
    direct: bool,
    /// Make the system forget the files' pages before each phase
    #[arg(long = "flushCaches", visible_alias = "flush-caches")]
    flush_caches: bool,
    /// Refused: raw devices
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    raw: Option<String>,
    /// Refused: Perl's own form of the figures
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    dump: Option<String>,
    /// Refused: dots while it runs
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    progress: Option<String>,
    /// Refused: what tiotest says of itself
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    debug: Option<String>,
    /// Refused: an end by time
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    timeout: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Refuses by name what tiobench has and this has not.
fn refuse_what_is_not_there(args: &TiobenchArgs) -> Result<(), Failure> {
    let refused = [
        (&args.raw, "--raw", "it works on files: name a directory with --target"),
        (&args.dump, "--dump", "--out DIR writes all figures as results.json and results.csv"),
        (&args.progress, "--progress", "each case is told when it begins"),
        (&args.debug, "--debug", "leave it out"),
        (&args.timeout, "--timeout", "a shorter run is a smaller --size and --random"),
    ];
    match refused.into_iter().find(|(given, ..)| given.is_some()) {
        Some((_, name, instead)) => {
            Err(Failure::usage(format!("{name} of tiobench is not supported; {instead}")))
        }
        None => Ok(()),
    }
}

/// A number of MiB, or a size with its unit.
fn size_mib(text: &str) -> Result<u64, String> {
    if let Ok(mib) = text.parse() {
        return Ok(mib);
    }
    let size: ByteCount = text.parse().map_err(|error: SizeError| error.to_string())?;
    match size.is_multiple_of(ByteCount::mib(1)) {
        true => Ok(size.bytes() / MIB),
        false => Err("write whole MiB, as 2000 or 2g".to_owned()),
    }
}

/// Runs all cases, and prints the tables.
///
/// # Errors
/// With the line to print.
pub fn run(args: TiobenchArgs) -> Result<(), Failure> {
    refuse_what_is_not_there(&args)?;
    let sizes_mib = match args.size.is_empty() {
        true => vec![this_machine::memory().map_err(Failure::failed)?.bytes() / MIB * 2],
        false => args.size,
    };
    let plan = Plan {
        identifier: args.identifier.unwrap_or_else(this_machine::kernel_release),
        number: std::process::id(),
        sizes_mib,
        blocks: args.block,
        threads: args.threads,
        random: args.random,
        runs: args.numruns,
        one_after_another: args.nofrag,
        direct: args.direct,
        drop_caches: args.flush_caches,
    };
    plan.check().map_err(Failure::usage)?;
    let bytes = plan.cases().iter().map(Case::bytes).max().unwrap_or(ByteCount::ZERO);
    let Some(directory) = args.target else {
        return Err(Failure::usage(format!(
            "it would write {bytes}: name the directory to write to with --target DIR (--target . for this one), and less \
             with --size MIB"
        )));
    };
    let session = Session::open(&args.common, &directory)?;
    session::check_room(&directory, bytes, "less is --size MIB")?;
    session.makes(plan.files());
    let settings = settings(&plan);
    let spec = session.content_spec();
    let content = session.content(spec);
    let cases = plan.cases().len();
    let tool = ToolRun {
        tool: ToolKind::Tiobench,
        title: "tiobench",
        workload: "tiobench",
        content: Some(spec),
        settings,
        text: None,
        table: true,
    };
    let mut outcomes = Vec::new();
    for repeat in 0..session.repeats() {
        let (plan, content, stop) = (plan.clone(), content.clone(), session.stop());
        let seed = session.seed(repeat);
        let done: Rc<RefCell<Vec<CaseOutcome>>> = Rc::default();
        let kept = Rc::clone(&done);
        let heard = move |step: Step<'_>| match step {
            Step::Begins(number, case) => say(&format!(
                "case {} of {cases}: {} MiB, blocks of {}, {} threads",
                number + 1,
                case.size_mib,
                case.block,
                case.threads
            )),
            Step::Done(outcome) => kept.borrow_mut().push(outcome.clone()),
        };
        let of_done = (plan.clone(), spec);
        let ended = session.block_on(move |crew| async move {
            tiobench::run(&*crew, &plan, &content, seed, stop, &heard).await
        });
        // Of the first repeat, the cases that are done are told, and that they are not all.
        let some = done.take();
        if let (Err(error), true, false) = (&ended, outcomes.is_empty(), some.is_empty()) {
            let partial = Partial { done: some.len(), total: cases, of: PartialOf::Cases };
            say(&format!("{partial} are done, and told:"));
            let (plan, content) = of_done;
            let outcome = TiobenchOutcome { plan, content, cases: some };
            session.told(print(&table::text(&outcome)))?;
            return session.conclude_part(&tool, outcome.outcome(), partial, error);
        }
        let Some(outcome) = session.ended(ended, &outcomes)? else { break };
        session.told(print(&table::text(&outcome)))?;
        outcomes.push(outcome.outcome());
    }
    session.conclude(&tool, outcomes)
}

/// By what it runs, what was left at its default among it.
fn settings(plan: &Plan) -> Vec<(String, String)> {
    fn all<T: ToString>(values: &[T]) -> String {
        values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
    let settings = [
        ("size, MiB", all(&plan.sizes_mib)),
        ("block", all(&plan.blocks)),
        ("threads", all(&plan.threads)),
        ("random operations", plan.random.to_string()),
        ("runs of a case", plan.runs.to_string()),
        ("one after another", plan.one_after_another.to_string()),
        ("direct", plan.direct.to_string()),
        ("caches dropped", plan.drop_caches.to_string()),
    ];
    settings.map(|(name, value)| (name.to_owned(), value)).to_vec()
}
