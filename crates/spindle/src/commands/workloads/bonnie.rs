//! `spindle lab bonnie`: bonnie++'s phases, by its options.
//!
//! The options are bonnie++'s letters, so that a command line that is known by heart works. What it has
//! and this has not is refused by name: links (`-n N:-1`, `-n N:-2`), several copies that wait for one
//! another (`-p`, `-y`), a file of random numbers (`-Z`), and another user than the one who runs it
//! (`-u`, `-g`): a program that can change its user is a risk that a benchmark need not be.

use super::session::{self, Common, Session, ToolRun, lock};
use crate::output::{Failure, print, say};
use clap::{Args, ValueEnum};
use lab::results::{Partial, PartialOf};
use lab::study::ToolKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use stdx::ByteCount;
use targets::this_machine;
use tools::bonnie::{
    self, BonnieOutcome, Figure, Heard, Listener, Phase, Plan, Written, csv, options, plan, table,
};

/// Runs of `-x` at the most, as of `--repeats`.
const RUNS_MAX: i64 = 1000;

// bonnie++'s options.
#[derive(Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:\n  \
    spindle lab bonnie -d /mnt/scratch\n  \
    spindle lab bonnie -d /mnt/scratch -s 2g -r 1g -n 0 -f --repeats 6 --out report"
)]
pub struct BonnieArgs {
    /// The directory to work in
    #[arg(short = 'd', long = "dir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The file's size in MiB (or with g, t), its block in bytes (or with k), seeks and seekers; 0 leaves
    /// these phases out [default: twice the memory]
    #[arg(short = 's', value_name = "SIZE[:BLOCK[:SEEKS[:SEEKERS]]]")]
    size: Option<String>,
    /// Small files in units of 1024, their largest and smallest size in bytes (or with k, m, g), the
    /// directories that share them, and the block; 0 leaves these phases out
    #[arg(
        short = 'n',
        value_name = "FILES[:MAX[:MIN[:DIRS[:BLOCK]]]]",
        default_value = "16",
        allow_hyphen_values = true
    )]
    number: String,
    /// The memory to reckon with, in MiB (or with g, t); 0 for no check of the sizes [default: this
    /// machine's]
    #[arg(short = 'r', value_name = "SIZE")]
    ram: Option<String>,
    /// MiB to write and read a byte at a time; without a number, none
    #[arg(short = 'f', value_name = "MIB", num_args = 0..=1, default_missing_value = "0")]
    fast: Option<u32>,
    /// Make each small file, each removal and each updated block durable before the next
    #[arg(short = 'b')]
    durable: bool,
    /// Direct I/O where the file is written from scratch; needs -f
    #[arg(short = 'D')]
    direct: bool,
    /// Runs; from one on, only lines of comma-separated values are printed, with a header from two on
    #[arg(short = 'x', value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=RUNS_MAX))]
    runs: Option<u32>,
    /// Only the line of comma-separated values to standard output, the table to standard error
    #[arg(short = 'q')]
    quiet: bool,
    /// The machine's name in the table [default: this machine's]
    #[arg(short = 'm', value_name = "NAME")]
    machine: Option<String>,
    /// How many such runs are made at once elsewhere; is printed, and counts in the check of the size
    #[arg(short = 'c', value_name = "N", default_value_t = 1)]
    concurrency: u32,
    /// bonnie++'s seed: the same names, sizes and places as its -z [default: from --seed]
    #[arg(short = 'z', value_name = "SEED")]
    bonnie_seed: Option<u32>,
    /// The user to run as; must be the one who runs this
    #[arg(short = 'u', value_name = "USER[:GROUP]")]
    user: Option<String>,
    /// The group to run as; must be that of who runs this
    #[arg(short = 'g', value_name = "GROUP")]
    group: Option<String>,
    /// Refused: copies that wait for one another
    #[arg(short = 'p', value_name = "PROCESSES", hide = true, allow_hyphen_values = true)]
    processes: Option<String>,
    /// Refused: copies that wait for one another
    #[arg(short = 'y', value_name = "HOW", hide = true, num_args = 0..=1, default_missing_value = "s")]
    synchronise: Option<String>,
    /// Refused: a file of random numbers
    #[arg(short = 'Z', value_name = "FILE", hide = true)]
    random_file: Option<PathBuf>,
    /// What is written
    #[arg(long, value_enum, default_value_t = ContentArg::Random)]
    content: ContentArg,
    #[command(flatten)]
    common: Common,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ContentArg {
    /// Random bytes (see --compressible, --duplicates)
    Random,
    /// As bonnie++: zeros but for a few bytes
    AsBonnie,
}

/// Runs the phases, and prints the table and the line.
///
/// # Errors
/// With the line to print.
pub fn run(args: BonnieArgs) -> Result<(), Failure> {
    refuse_what_is_not_there(&args)?;
    let memory = match &args.ram {
        Some(text) => options::memory(text).map_err(Failure::usage)?,
        None => this_machine::memory().map_err(Failure::failed)?,
    };
    let plan = plan_of(&args, memory)?;
    // -x is another word for repeats.
    let common =
        Common { repeats: args.runs.unwrap_or(args.common.repeats), ..args.common.clone() };
    let bytes = plan_bytes(&plan, session::block(Path::new(".")));
    let Some(directory) = args.directory.clone() else {
        return Err(Failure::usage(format!(
            "it would write {bytes}: name the directory to write to with -d DIR (-d . for this one), and less with -s SIZE"
        )));
    };
    plan.check(memory).map_err(Failure::usage)?;
    let session = Session::open(&common, &directory)?;
    if let Some(creation) = &plan.creation {
        let told = "fewer small files are -n FILES, in units of 1024";
        session::check_names(&directory, creation.names(), told)?;
    }
    session::check_room(
        &directory,
        plan_bytes(&plan, session::block(&directory)),
        "a smaller file is -s SIZE, with -r MEMORY or -r 0 where it would be refused; small files take whole blocks, and \
         fewer are -n FILES",
    )?;
    session.makes([plan.path()]);
    let content_spec = session.content_spec();
    let content = session.content(content_spec);
    let only_lines = args.runs.is_some();
    if args.runs.is_some_and(|runs| runs > 1) {
        session.told(print(&format!("{}\n", csv::header())))?;
    }
    let tool = ToolRun {
        tool: ToolKind::Bonnie,
        title: "bonnie++",
        workload: "bonnie",
        // Zeros but for a few bytes: the nearest that can be said of it.
        content: match plan.written {
            Written::Generated => Some(content_spec),
            Written::AsBonnie => {
                Some(workload::content::ContentSpec { zeros: true, ..content_spec })
            }
        },
        settings: settings(&plan),
        text: None,
        table: !only_lines && !args.quiet,
    };
    let mut outcomes = Vec::new();
    for repeat in 0..session.repeats() {
        let mut plan = plan.clone();
        // Each run begins with the same seed there; here only where it was given.
        plan.seed = args.bonnie_seed.unwrap_or(session.seed(repeat) as u32);
        let (of_done, done) = (plan.clone(), Arc::new(Mutex::new(Vec::new())));
        let (content, stop, listener) =
            (content.clone(), session.stop(), listener(&session, args.quiet, Arc::clone(&done)));
        let ended = session.block_on(move |crew| async move {
            bonnie::run(&*crew, plan, &content, stop, listener).await
        });
        let tell_table = |outcome: &BonnieOutcome| match args.quiet || only_lines {
            true => {
                table::text(outcome).trim_end().lines().for_each(say);
                Ok(())
            }
            false => session.told(print(&table::text(outcome))),
        };
        // Of the first repeat, the phases that are done are told, and that they are not all. A line of values would be taken for
        // that of a whole run.
        let some = std::mem::take(&mut *lock(&done));
        if let (Err(error), true, false) = (&ended, outcomes.is_empty(), some.is_empty()) {
            let (done, total) = (some.len(), of_done.phases().len());
            let partial = Partial { done, total, of: PartialOf::Phases };
            say(&format!("{partial} are done, and told:"));
            let outcome = BonnieOutcome::of(of_done, content_spec, some);
            tell_table(&outcome)?;
            return session.conclude_part(&tool, outcome.outcome(), partial, error);
        }
        let Some(outcome) = session.ended(ended, &outcomes)? else { break };
        if !only_lines {
            tell_table(&outcome)?;
        }
        session.told(print(&format!("{}\n", csv::line(&outcome))))?;
        outcomes.push(outcome.outcome());
    }
    session.conclude(&tool, outcomes)
}

/// What it writes that lies there at one time, on a file system with such blocks: the file, or the small files.
fn plan_bytes(plan: &Plan, block: ByteCount) -> ByteCount {
    let file = plan.file.as_ref().map_or(ByteCount::ZERO, |file| file.size);
    let small = plan.creation.as_ref();
    let small = small.map_or(ByteCount::ZERO, |creation| creation.space(block));
    file.max(small)
}

/// By what it runs, what was left at its default among it.
fn settings(plan: &Plan) -> Vec<(String, String)> {
    let mut settings = vec![("durable (-b)".to_owned(), plan.durable.to_string())];
    let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
    if let Some(file) = &plan.file {
        set("file (-s)", file.size.to_string());
        set("block of the file", file.chunk.to_string());
        set("byte by byte (-f)", file.bytes.min(file.size).to_string());
        set("seeks", file.seeks.to_string());
        set("seekers", file.seekers.to_string());
        set("direct (-D)", file.direct.to_string());
    }
    if let Some(creation) = &plan.creation {
        set("small files (-n)", (u64::from(creation.files_ki) * 1024).to_string());
        set("size of small files", format!("{} to {}", creation.size_min, creation.size_max));
        set("directories", creation.directories.to_string());
        set("block of small files", creation.chunk.to_string());
    }
    settings
}

fn plan_of(args: &BonnieArgs, memory: ByteCount) -> Result<Plan, Failure> {
    let file = match &args.size {
        Some(text) => options::file(text).map_err(Failure::usage)?,
        None => Some(plan::File::of_size(Plan::default_size(memory))),
    };
    let file = file.map(|file| plan::File {
        bytes: args.fast.map_or(file.bytes, |mib| ByteCount::mib(u64::from(mib))),
        direct: args.direct,
        ..file
    });
    Ok(Plan {
        machine: args.machine.clone().unwrap_or_else(this_machine::name),
        number: std::process::id(),
        seed: 0,
        concurrency: args.concurrency,
        durable: args.durable,
        written: match args.content {
            ContentArg::Random => Written::Generated,
            ContentArg::AsBonnie => Written::AsBonnie,
        },
        file,
        creation: options::creation(&args.number).map_err(Failure::usage)?,
    })
}

fn refuse_what_is_not_there(args: &BonnieArgs) -> Result<(), Failure> {
    let refused = |text: &str| Err(Failure::usage(text));
    if args.processes.is_some() || args.synchronise.is_some() {
        return refused(
            "-p and -y (copies that wait for one another) are not supported; run one copy, or `spindle lab tiobench` for several threads",
        );
    }
    if args.random_file.is_some() {
        return refused("-Z (a file of random numbers) is not supported; give a seed with -z");
    }
    if args.runs.is_some() && args.common.repeats > 1 {
        return refused("-x and --repeats both say how often to run; give one of them");
    }
    if args.content == ContentArg::AsBonnie
        && (args.common.compressible.is_some() || args.common.duplicates.is_some())
    {
        return refused(
            "--compressible and --duplicates say how random content is; leave out --content as-bonnie",
        );
    }
    let (user, group) = match args.user.as_deref().and_then(|user| user.split_once(':')) {
        Some((user, group)) => (Some(user), Some(group)),
        None => (args.user.as_deref(), None),
    };
    let myself = std::fs::metadata("/proc/self")
        .map_err(|error| Failure::failed(format!("asking /proc/self who runs this: {error}")))?;
    for (option, name, own, names) in [
        ("-u", user, myself.uid(), "/etc/passwd"),
        ("-g", group.or(args.group.as_deref()), myself.gid(), "/etc/group"),
    ] {
        if let Some(name) = name
            && id_of(name, names) != Some(own)
        {
            return refused(&format!(
                "{option} {name}: this program does not change who it runs as (now number {own}); run it as {name}, with sudo or su"
            ));
        }
    }
    Ok(())
}

/// The number of a user or group, which may itself be a number. The third field of its line.
fn id_of(name: &str, names: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let lines = std::fs::read_to_string(names).ok()?;
    let line = lines.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

/// Says which phase is under way, and what is removed before the end; keeps what phases gave.
fn listener(session: &Session, quiet: bool, done: Arc<Mutex<Vec<(Phase, Figure)>>>) -> Listener {
    let removing = session.removing();
    Arc::new(move |heard| match heard {
        Heard::Removing(left) => removing(left),
        Heard::Begins(phase) => {
            if !quiet {
                say(&format!("{phase}..."));
            }
        }
        Heard::Ends(phase, figure) => {
            lock(&done).push((phase, figure));
            if !quiet {
                say(&format!("{phase}: done"));
            }
        }
    })
}
