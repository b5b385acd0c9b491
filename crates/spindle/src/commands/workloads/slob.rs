//! `spindle lab slob`: SLOB's sessions on a file, by its parameters.

use super::session::{Common, Session, ToolRun};
use crate::output::{Failure, print, say};
use clap::Args;
use lab::study::ToolKind;
use std::path::PathBuf;
use std::time::Duration;
use stdx::ByteCount;
use targets::inputs::read_input;
use tools::slob::conf::{Conf, scale_of};
use tools::slob::output::{parameters, report};
use tools::slob::{self, Options, Plan};

// SLOB's parameters.
#[derive(Args)]
#[command(after_help = "Example:\n  spindle lab slob --dir /mnt/scratch --repeats 5 --out report")]
pub struct SlobArgs {
    /// A slob.conf; without it, SLOB's defaults
    #[arg(value_name = "slob.conf")]
    conf: Option<PathBuf>,
    /// The directory for the data file (slob.dbf) and the log (slob.redo)
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Schemas, each with tables of its own [default: 1, or one for each reader and writer]
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    schemas: Option<u32>,
    /// Sessions of each schema, instead of THREADS_PER_SCHEMA
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with_all = ["readers", "writers"])]
    threads: Option<u32>,
    /// Sessions that only query; with --writers, instead of sessions that mix by UPDATE_PCT
    #[arg(long, value_name = "N", default_value_t = 0)]
    readers: u32,
    /// Sessions that only update
    #[arg(long, value_name = "N", default_value_t = 0)]
    writers: u32,
    /// Size of a block, instead of 8 KiB
    #[arg(long, value_name = "SIZE")]
    block: Option<ByteCount>,
    /// Size of each schema's table, in blocks or with M, G, T, instead of SCALE
    #[arg(long, value_name = "SCALE")]
    scale: Option<String>,
    /// Seconds to run, instead of RUN_TIME
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    run_time: Option<u32>,
    /// Seconds of that which are not measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    warm_up: u32,
    /// Go through the file system's cache, which a database goes past
    #[arg(long)]
    buffered: bool,
    /// Leave the data file and the log, for the next run
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the sessions, and prints the report.
///
/// # Errors
/// With the line to print.
pub fn run(args: SlobArgs) -> Result<(), Failure> {
    let plan = plan_of(&args)?;
    let session = Session::open(&args.common, &args.dir)?;
    let content_spec = session.content_spec();
    let content = session.content(content_spec);
    session.makes([slob::plan::DATA_FILE, slob::plan::REDO_FILE].map(PathBuf::from));
    session.told(print(&format!("{}\n", parameters(&plan))))?;
    say(&format!(
        "{} are written first, then it runs for {} s",
        plan.data_bytes(),
        plan.run_time.as_secs()
    ));
    let mut outcomes = Vec::new();
    for repeat in 0..session.repeats() {
        let (plan, content, stop) = (plan.clone(), content.clone(), session.stop());
        let seed = session.seed(repeat);
        let ended = session.block_on(move |crew| async move {
            slob::run(&*crew, &plan, &content, seed, &stop).await
        });
        let Some(outcome) = session.ended(ended, &outcomes)? else { break };
        session.told(print(&report(&outcome)))?;
        let ends = session.ends_early(&outcomes);
        if repeat == 0 || ends.is_err() {
            outcome.warnings.iter().for_each(|warning| say(&format!("note: {warning}")));
        }
        if ends? {
            break;
        }
        outcomes.push(outcome.outcome());
    }
    let tool = ToolRun {
        tool: ToolKind::Slob,
        title: "SLOB",
        workload: "slob",
        content: plan.updates().then_some(content_spec),
        settings: vec![("parameters".to_owned(), parameters(&plan).trim().replace('\n', " "))],
        text: None,
        table: true,
    };
    session.conclude(&tool, outcomes)
}

fn plan_of(args: &SlobArgs) -> Result<Plan, Failure> {
    let mut conf = match &args.conf {
        None => Conf::default(),
        Some(path) => {
            let name = path.display().to_string();
            let bytes = read_input(path)
                .map_err(|error| Failure::usage(format!("{name}: {error}; name a slob.conf")))?;
            let text = String::from_utf8_lossy(&bytes);
            slob::parse(&name, &text).map_err(Failure::usage)?
        }
    };
    if let Some(scale) = &args.scale {
        conf.scale = scale_of(scale).ok_or_else(|| {
            Failure::usage(format!("--scale takes blocks, or a size as 80M, 1G, 1T, not '{scale}'"))
        })?;
    }
    let options = Options {
        schemas: args.schemas,
        threads: args.threads,
        readers: args.readers,
        writers: args.writers,
        run_time: args.run_time.map(|seconds| Duration::from_secs(seconds.into())),
        warm_up: Duration::from_secs(args.warm_up.into()),
        block: args.block,
        buffered: args.buffered,
        keep: args.keep,
    };
    slob::plan(&conf, &options).map_err(Failure::usage)
}
