//! `spindle lab`: runs studies, and reads and compares what runs left.

use crate::commands::clock::unix_s;
use crate::commands::progress::ProgressBar;
use crate::commands::reports::{self, raise_on_interrupt, text, write_report};
use crate::commands::workloads;
use crate::output::{Failure, print, print_bytes, print_json, say};
use crate::signals::AGAIN;
use clap::{Args, Subcommand, ValueEnum};
use lab::kept::{KeptHead, KeptRuns};
use lab::output::{check_output, read_results, to_json};
use lab::report;
use lab::run::{self, Ended, RunError, RunOptions};
use lab::study::{Options, Study};
use lab::target::StopFlag;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use targets::Leave;
use targets::this_machine::PROGRAM;

/// Where results go unless told otherwise: a folder a study, in here.
const RESULTS_DIR: &str = "spindle-results";

/// The studies that are part of the program, so that they run without a checkout.
const STUDIES: [(&str, &str); 11] = [
    ("raid-layouts", include_str!("../../../../studies/raid-layouts.toml")),
    ("rebuild-times", include_str!("../../../../studies/rebuild-times.toml")),
    ("raid6-72tb", include_str!("../../../../studies/raid6-72tb.toml")),
    ("oxygenraid", include_str!("../../../../studies/oxygenraid.toml")),
    ("asm-zfs-ufs", include_str!("../../../../studies/asm-zfs-ufs.toml")),
    ("iscsi-m610i", include_str!("../../../../studies/iscsi-m610i.toml")),
    ("array-hosts", include_str!("../../../../studies/array-hosts.toml")),
    ("linux-raid5-ext3", include_str!("../../../../studies/linux-raid5-ext3.toml")),
    ("this-host", include_str!("../../../../studies/this-host.toml")),
    ("nbd", include_str!("../../../../studies/nbd.toml")),
    ("noatime", include_str!("../../../../studies/noatime.toml")),
];

/// What can be done in the lab.
#[derive(Subcommand)]
#[command(defer = true)]
pub enum LabCommand {
    /// Run a study and write its report
    #[command(after_help = "Examples:\n  \
        spindle lab run raid-layouts --quick\n  \
        spindle lab run mail.toml --set machine.disk=exos-x20 --only raid6\n  \
        spindle lab run raid-layouts --resume          after Ctrl-C\n  \
        spindle lab run this-host --set machine.directory=/mnt/data")]
    Run(RunArguments),
    /// List the studies that ship
    List {
        /// As JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Show what a study would run
    #[command(
        after_help = "Examples:\n  spindle lab show raid-layouts\n  spindle lab show mail.toml --set repeats=3\n  \
            spindle lab show raid-layouts --text > mine.toml"
    )]
    Show {
        /// A study file, or the name of a study that ships
        study: String,
        /// As JSON
        #[arg(short, long)]
        json: bool,
        /// Change a key of the study
        #[arg(long = "set", value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Only the cells whose names hold this text or match this pattern
        #[arg(long, value_name = "CELL")]
        only: Vec<String>,
        /// The study's own text, to begin one of your own with
        #[arg(long, conflicts_with_all = ["json", "settings", "only"])]
        text: bool,
    },
    /// Show the results of an earlier run
    #[command(
        after_help = "Examples:\n  spindle lab report raid-layouts\n  spindle lab report DIR --format csv > cells.csv"
    )]
    Report {
        /// The folder that the run wrote, or the study's name
        dir: PathBuf,
        /// How to show them
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// Every cell, not only the summary tables
        #[arg(long)]
        full: bool,
    },
    /// Run one of the field's tools on a directory
    #[command(flatten)]
    Workload(Box<workloads::WorkloadCommand>),
    /// Say whether two runs differ, and by how much
    #[command(
        after_help = "Example:\n  spindle lab compare spindle-results/before spindle-results/after"
    )]
    Compare {
        /// The folder of the one run
        dir_a: PathBuf,
        /// The folder of the other
        dir_b: PathBuf,
        /// Every metric of every cell, not only each cell's main one where it differs
        #[arg(long)]
        all: bool,
        /// As JSON
        #[arg(short, long)]
        json: bool,
    },
}

// How a run is asked for.
#[derive(Args)]
pub struct RunArguments {
    /// A study file, or the name of a study that ships
    study: String,
    /// Folder for the report [default: spindle-results/STUDY]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change a key of the study, as repeats=3 or workload.random.queue_depth=1,16
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Run only the cells whose names hold this text or match this pattern
    #[arg(long, value_name = "CELL")]
    only: Vec<String>,
    /// How many cells may run at the same time [default: one a processor; always 1 on real storage]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Derive all randomness from this number, in place of the study's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Shorten the study for a first look; its intervals are wide
    #[arg(long)]
    quick: bool,
    /// How to show the results
    #[arg(long, value_enum, default_value_t = RunFormat::Text)]
    format: RunFormat,
    /// Go on with a run that was interrupted: called up as it was, it runs only what is missing
    #[arg(long)]
    resume: bool,
    /// Write the report into a folder that holds other things or a result that this run does not make again, and
    /// throw an unfinished run there away, unless --resume goes on with it
    #[arg(short, long)]
    force: bool,
    /// Let the study write to devices and files that have content, and destroy it
    #[arg(long)]
    destructive: bool,
    /// Let the study run the commands of its factors (`lab show` lists them)
    #[arg(long)]
    allow_commands: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RunFormat {
    Text,
    Json,
}

/// How earlier results are shown.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables
    Text,
    /// results.json
    Json,
    /// results.csv
    Csv,
    /// The page
    Html,
}

/// Carries out a lab command.
///
/// # Errors
/// With the line to print.
pub fn run(command: LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Run(arguments) => run_study(&arguments),
        LabCommand::List { json } => list(json),
        LabCommand::Show { study, json, settings, only, text } => {
            let study = find_study(&study, &Options { settings, seed: None, quick: false })?;
            match text {
                true => print(&study.text),
                false => show(&study, &only, json),
            }
        }
        LabCommand::Report { dir, format, full } => {
            let results = read_results(&find_results(&dir)).map_err(Failure::usage)?;
            match format {
                // It has colours of its own, and made others' words printable.
                ReportFormat::Text => print_bytes(text(&results, full).as_bytes()),
                ReportFormat::Json => print_json(&to_json(&results)),
                ReportFormat::Csv => print(&report::csv(&results)),
                ReportFormat::Html => print(&report::html(&results)),
            }
        }
        LabCommand::Compare { dir_a, dir_b, all, json } => compare(&dir_a, &dir_b, all, json),
        LabCommand::Workload(command) => workloads::run(*command),
    }
}

fn run_study(arguments: &RunArguments) -> Result<(), Failure> {
    check_only(&arguments.only)?;
    let options = Options {
        settings: arguments.settings.clone(),
        seed: arguments.seed,
        quick: arguments.quick,
    };
    let study = find_study(&arguments.study, &options)?;
    let dir = arguments.out.clone().unwrap_or_else(|| Path::new(RESULTS_DIR).join(&study.name));
    check_output(&dir, arguments.force).map_err(Failure::usage)?;
    let leave = Leave { destructive: arguments.destructive, commands: arguments.allow_commands };
    let target = targets::open(&study, leave).map_err(Failure::usage)?;
    if !arguments.force {
        check_same_study(&dir, &study, target.simulated())?;
        check_nothing_lost(&dir, &study, &arguments.only)?;
    }

    let stop = StopFlag::new();
    let bar = ProgressBar::new(&study.name, &study.question);
    let tell = bar.teller();
    let first = move || {
        tell(&format!("interrupted: what is done is kept, and what is under way ends; {AGAIN}"));
    };
    raise_on_interrupt(&stop, first, || "what it wrote is left as it is".to_owned())?;
    let jobs = arguments.jobs.map_or_else(processors, usize::from);
    let options = RunOptions {
        jobs,
        only: arguments.only.clone(),
        stop,
        spindle_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: Some(unix_s),
    };
    // What can't be run is found before the folder is made, and a folder that can't be written to before anything runs.
    run::check(&study, &*target, &options).map_err(failure)?;
    let host = target.machine(&[]).remove("host");
    let head = KeptHead::of(&study, &options.spindle_version, target.simulated(), host);
    let (keeper, kept) = match arguments.resume {
        true => KeptRuns::resume(&dir, &head).map_err(Failure::usage)?,
        false => {
            let keeper = KeptRuns::begin(&dir, &head, arguments.force).map_err(Failure::usage)?;
            (keeper, Vec::new())
        }
    };
    if !kept.is_empty() {
        say(&format!("{}: {} runs were done before", study.name, kept.len()));
    }
    let kept_cells: BTreeSet<String> = kept.iter().map(|run| run.cell.clone()).collect();
    if !target.simulated() {
        say_what_is_measured(&target.machine(&[]));
    }
    let ended = run::run_from(&study, &*target, &options, &bar, kept, &keeper);
    bar.finish();
    let Ended { results, stopped } = ended.map_err(failure)?;

    // Whatever becomes of the folder, the figures are on the terminal.
    match arguments.format {
        RunFormat::Text => print_bytes(text(&results, false).as_bytes())?,
        RunFormat::Json => print_json(&to_json(&results))?,
    }
    if let Some(error) = keeper.failure() {
        say(&format!("spindle: runs could not be kept: {error}"));
    }
    let whole_before = matches!(read_results(&dir), Ok(earlier) if earlier.partial.is_none());
    let written = match (&stopped, whole_before) {
        // A part does not take the place of a whole.
        (Some(_), true) => {
            Ok(format!("the whole result of an earlier run in {} was left as it is", dir.display()))
        }
        _ => write_report(&dir, &results, arguments.force, true),
    };
    let page = written?;
    say(&page);
    // Here its commands put things back.
    drop(target);
    if let Some(error) = stopped {
        let mend = format!(
            "what is done is kept in {}; go on with the same command and --resume",
            dir.display()
        );
        let failure = failure(error);
        return Err(failure.and_do(&mend));
    }
    let of_others = |cell: &&String| !results.cells.iter().any(|of| of.id == **cell);
    match kept_cells.iter().filter(of_others).count() {
        0 => keeper.discard(),
        others => say(&format!(
            "done runs of {others} cells more stay kept in {}: the same command with --resume and without --only goes on with them",
            dir.display()
        )),
    }
    let not_put_back = targets::not_put_back();
    not_put_back.iter().for_each(|error| say(&format!("spindle: {error}")));
    if !not_put_back.is_empty() {
        return Err(Failure::failed(
            "the figures are good, but a command that puts things back failed, as said above: put them \
             back by hand",
        ));
    }
    let failed = results.cells.iter().filter(|cell| cell.error.is_some()).count();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!(
            "{failed} of {} cells failed; the report names each with its reason",
            results.cells.len()
        ))),
    }
}

fn check_only(only: &[String]) -> Result<(), Failure> {
    match only.iter().any(String::is_empty) {
        true => Err(Failure::usage(
            "--only needs a part of a cell's name; `spindle lab show` lists them",
        )),
        false => Ok(()),
    }
}

/// What is said of a run that did not come to its end, or to its beginning.
fn failure(error: RunError) -> Failure {
    match error {
        RunError::Design(_) | RunError::Refused { .. } => Failure::usage(error),
        RunError::Fatal { .. } => Failure::failed(error),
        RunError::Interrupted { .. } => Failure::interrupted(error),
    }
}

/// On which file system and device: who measures another disk than he thinks sees it before he waits.
fn say_what_is_measured(machine: &BTreeMap<String, String>) {
    let parts = ["directory", "place", "file system", "disks below"];
    let said: Vec<&str> =
        parts.iter().filter_map(|part| machine.get(*part)).map(String::as_str).collect();
    if !said.is_empty() {
        say(&format!("measuring {}", said.join(", ")));
    }
    if let Some(program) = machine.get(PROGRAM) {
        say(&format!("note: this program is {program} that the figures have in them"));
    }
}

/// Whether an earlier result in the folder is of the same study on the same kind of machine: a new run
/// takes its place.
fn check_same_study(dir: &Path, study: &Study, simulated: bool) -> Result<(), Failure> {
    match read_results(dir) {
        Ok(earlier) if earlier.study != study.name || earlier.simulated != simulated => {
            let kind = if earlier.simulated { "simulated" } else { "measured" };
            Err(Failure::usage(format!(
                "{}: it holds the {kind} results of the study '{}'; name another folder with --out, or \
                 replace them with --force",
                dir.display(),
                earlier.study
            )))
        }
        _ => Ok(()),
    }
}

/// Whether a whole result in the folder holds nothing that would be lost: this run is the same once more, or a longer
/// one.
fn check_nothing_lost(dir: &Path, study: &Study, only: &[String]) -> Result<(), Failure> {
    let Some(earlier) = read_results(dir).ok().filter(|earlier| earlier.partial.is_none()) else {
        return Ok(());
    };
    let cells = lab::design::cells(study).map_err(Failure::usage)?;
    let cells = lab::design::select(cells, only).map_err(Failure::usage)?;
    match lab::output::lost(&earlier, study, &cells) {
        None => Ok(()),
        Some(why) => Err(Failure::usage(format!(
            "{}: the whole result of an earlier run lies there, and this run would not make it again ({why}); name \
             another folder with --out, or replace it with --force",
            dir.display()
        ))),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The folder of an earlier run, or of the study of this name where runs are left by default.
fn find_results(dir: &Path) -> PathBuf {
    let by_name = Path::new(RESULTS_DIR).join(dir);
    if !dir.exists() && by_name.exists() { by_name } else { dir.to_owned() }
}

/// A study by its file, or by its name where it ships.
fn find_study(name: &str, options: &Options) -> Result<Study, Failure> {
    let file = Path::new(name);
    // A folder of that name is as a rule what an earlier run left.
    if !file.is_file()
        && let Some((name, text)) = STUDIES.iter().find(|(known, _)| *known == name)
    {
        return Study::parse(name, name, text, options).map_err(Failure::usage);
    }
    if !file.exists() && !name.contains(['/', '.']) {
        let known: Vec<&str> = STUDIES.iter().map(|(name, _)| *name).collect();
        return Err(Failure::usage(format!(
            "no study is called '{name}'; name a file, or one of {}",
            known.join(", ")
        )));
    }
    Study::load(file, options).map_err(Failure::usage)
}

fn list(json: bool) -> Result<(), Failure> {
    let mut studies = Vec::new();
    for (name, text) in STUDIES {
        let study = Study::parse(name, name, text, &Options::default()).map_err(Failure::failed)?;
        studies.push(study);
    }
    if json {
        let rows: Vec<_> = studies
            .iter()
            .map(|study| {
                serde_json::json!({
                    "name": study.name, "title": study.title, "question": study.question,
                })
            })
            .collect();
        return print_json(&format!("{:#}\n", serde_json::Value::from(rows)));
    }
    let width = studies.iter().map(|study| study.name.len()).max().unwrap_or(0);
    let rows: Vec<String> = studies
        .iter()
        .map(|study| format!("{:width$}  {}\n", study.name, study.question))
        .collect();
    print(&rows.concat())
}

fn show(study: &Study, only: &[String], json: bool) -> Result<(), Failure> {
    check_only(only)?;
    let cells = lab::design::cells(study).map_err(Failure::usage)?;
    let cells = lab::design::select(cells, only).map_err(Failure::usage)?;
    // What a run would refuse is said now. Nothing is opened for writing.
    let target = targets::open(study, Leave::all()).map_err(Failure::usage)?;
    for cell in &cells {
        target
            .check(cell)
            .map_err(|reason| Failure::usage(format!("cell {}: {reason}", cell.id)))?;
    }
    if json {
        let value = serde_json::json!({
            "name": study.name, "title": study.title, "question": study.question,
            "repeats": study.repeats, "seed": study.seed,
            "cells": cells.iter().map(|cell| &cell.id).collect::<Vec<_>>(),
            "claims": study.claims.iter().map(|claim| &claim.id).collect::<Vec<_>>(),
        });
        return print_json(&format!("{value:#}\n"));
    }
    let mut text = format!("{}\n{}\n\n", study.title, study.question);
    if let Some(about) = &study.about {
        text.push_str(&format!("{}\n\n", about.trim()));
    }
    for (part, what) in target.machine(&cells) {
        text.push_str(&format!("{part}: {what}\n"));
    }
    for factor in &study.factors {
        let levels: Vec<String> = factor.levels.iter().map(ToString::to_string).collect();
        text.push_str(&format!("factor {}: {}\n", factor.name, levels.join(", ")));
    }
    for command in targets::commands_of(study) {
        text.push_str(&format!("runs on this host: {command}\n"));
    }
    for claim in &study.claims {
        text.push_str(&format!("claim {}: {} ({})\n", claim.id, claim.text, claim.source));
    }
    let many = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    text.push_str(&format!(
        "\n{} (a cell is one combination of levels under one workload), {} each:\n",
        many(cells.len(), "cell"),
        many(study.repeats as usize, "repeat")
    ));
    for cell in &cells {
        text.push_str(&format!("  {}\n", cell.id));
    }
    print(&text)
}

fn compare(dir_a: &Path, dir_b: &Path, all: bool, json: bool) -> Result<(), Failure> {
    let a = read_results(&find_results(dir_a)).map_err(Failure::usage)?;
    let b = read_results(&find_results(dir_b)).map_err(Failure::usage)?;
    let comparison = lab::compare::compare(&a, &b).map_err(Failure::usage)?;
    if json {
        let value = serde_json::to_value(&comparison).map_err(Failure::failed)?;
        return print_json(&format!("{value:#}\n"));
    }
    let text = comparison.text(reports::width(), all);
    print(&format!("{}\n", report::printable(text.trim_end())))
}
