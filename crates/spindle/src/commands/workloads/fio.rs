//! `spindle lab fio`: fio's job files and its command line, as they are, with fio's output.
//!
//! The options of fio's program have their names here (`--section`, `--output`, `--output-format`, `--parse-only`,
//! `--minimal`); all others describe jobs, and are [fio's](fio::CommandLine). [`arranged`] tells the two apart before the command
//! line is read.

use super::made;
use super::session::{self, Common, Session, ToolRun, directory_of, there};
use crate::commands::clock::ctime;
use crate::output::{Failure, print, say};
use clap::{Args, ValueEnum};
use fio::{CommandLine, FioOutcome, JobError, Plan, Rooms, Setup, Stamp, nearest_of};
use lab::results::{Partial, PartialOf};
use lab::study::ToolKind;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use stdx::ByteCount;
use targets::inputs::{InputError, fio_line_plan, is_standard_input};
use targets::this_machine;
use workload::content::Form;
use workload::outcome::Outcome;

/// The version of fio whose forms the output has.
const FIO_VERSION: &str = "fio-3.33";

// Jobs and what is told of them.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    spindle lab fio --name=randread --rw=randread --bs=4k --size=256m --directory=/mnt/scratch --repeats 5 --out report\n  \
    printf '[randread]\\nrw=randread\\nbs=4k\\nsize=256m\\n' > job.fio\n  \
    spindle lab fio job.fio --dir /mnt/scratch")]
pub struct FioArgs {
    /// Job files, and jobs by fio's own options: each --name=NAME begins one; those before the first hold for all jobs
    /// (a file - is standard input)
    #[arg(value_name = "JOB.fio|--OPTION=VALUE", required = true)]
    words: Vec<String>,
    /// The directory that relative paths of jobs start from
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Run only the job of this name (and what global says); may be given several times
    #[arg(long, value_name = "NAME")]
    section: Vec<String>,
    /// Write the output to this file instead of standard output; one that is there is written over, as fio does
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
    /// The same as --output-format=terse
    #[arg(long, conflicts_with = "output_format")]
    minimal: bool,
    /// Say what would run, or why it would not, and stop
    #[arg(long)]
    parse_only: bool,
    // What fio's program has for its line of progress, which is not shown here.
    #[arg(long, hide = true)]
    eta: Option<String>,
    #[arg(long, hide = true)]
    eta_newline: Option<String>,
    #[arg(long, hide = true)]
    eta_interval: Option<String>,
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

impl FioArgs {
    /// Whether the output is for people to read, too.
    fn is_for_people(&self) -> bool {
        self.output_format.contains(&Format::Normal)
    }
}

/// The options of the command itself, each with whether it takes a value.
fn own_options() -> Vec<(String, bool)> {
    let command = FioArgs::augment_args(clap::Command::new("fio"));
    let own = command.get_arguments().filter_map(|argument| {
        Some((argument.get_long()?.to_owned(), argument.get_action().takes_values()))
    });
    own.chain([("help".to_owned(), false), ("version".to_owned(), false)]).collect()
}

/// The words of a call, in the order in which they are read: those of `lab fio` itself first, then its job files and fio's options,
/// behind `--`. Those of any other command as they are.
pub fn arranged(words: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        match word {
            "-d" | "--devices" => at += 2,
            _ if word.starts_with("--devices=") => at += 1,
            _ => break,
        }
    }
    if words.get(at..at + 2).is_none_or(|group| group != ["lab", "fio"]) {
        return words;
    }
    let own = own_options();
    let mut rest = words.into_iter();
    let mut first: Vec<OsString> = rest.by_ref().take(at + 2).collect();
    let mut behind = Vec::new();
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        if text == "--" {
            behind.push(word);
            behind.extend(rest.by_ref());
            break;
        }
        let (name, has_value) = match text.split_once('=') {
            Some((name, _)) => (name, true),
            None => (text, false),
        };
        // As fio has it, one dash does.
        let option = name.strip_prefix("--").or_else(|| name.strip_prefix('-'));
        let own = own.iter().find(|(own, _)| Some(own.as_str()) == option);
        match own {
            _ if matches!(text, "-h" | "-V") => first.push(word),
            None => behind.push(word),
            Some((_, takes_value)) => {
                let takes_next = *takes_value && !has_value;
                first.push(if text.starts_with("--") { word } else { format!("-{text}").into() });
                first.extend(takes_next.then(|| rest.next()).flatten());
            }
        }
    }
    if !behind.is_empty() {
        first.push("--".into());
        first.extend(behind);
    }
    first
}

/// What there is here instead of an option of fio's program that this one lacks; nothing where fio's has none of this name.
fn instead(option: &str) -> Option<&'static str> {
    Some(match option {
        "o" => {
            "--output=FILE writes the output to a file, --output-format=FORMAT says in which form"
        }
        "m" | "f" | "append-terse" | "terse-version" => {
            "--minimal gives the terse form, version 3, and --output-format=normal,terse both"
        }
        "v" => "spindle --version tells the version",
        "d" | "debug" | "showcmd" => "--parse-only says what would run",
        "status-interval" | "bandwidth-log" | "latency-log" => {
            "what was measured is told at the end of a repeat; how it went until then is what a job's write_bw_log=NAME, \
             write_iops_log=NAME and write_lat_log=NAME put down, with log_avg_msec=MS"
        }
        "cmdhelp" | "enghelp" => "docs/guide/fio.md tells what jobs may say",
        "readonly" => "block devices are not written without --destructive",
        "server" | "client" | "remote-config" | "daemonize" => {
            "it runs here and in the foreground: start it on the other host"
        }
        "max-jobs"
        | "alloc-size"
        | "aux-path"
        | "inflate-log"
        | "warnings-fatal"
        | "idle-prof"
        | "trigger"
        | "trigger-file"
        | "trigger-timeout"
        | "trigger-remote"
        | "cpuclock-test"
        | "crctest"
        | "memcpytest"
        | "merge-blktrace-only" => "there is nothing of the kind here: leave it out",
        _ => return None,
    })
}

/// What the words say.
fn read(words: &[String]) -> Result<CommandLine, Failure> {
    CommandLine::read(words).map_err(|error| match &error {
        JobError::UnknownOption { option, .. } if instead(option).is_some() => {
            let dashes = if option.len() == 1 { "-" } else { "--" };
            let instead = instead(option).unwrap_or_default();
            Failure::usage(format!("{dashes}{option} of fio's program is not known: {instead}"))
        }
        JobError::UnknownOption { option, nearest: None, .. } => {
            let own = own_options();
            match nearest_of(option, own.iter().map(|(own, _)| own.as_str())) {
                Some(own) => Failure::usage(format!("{error}; did you mean {own}?")),
                None => Failure::usage(error),
            }
        }
        _ => Failure::usage(error),
    })
}

/// Runs the jobs.
///
/// # Errors
/// With the line to print.
pub fn run(mut args: FioArgs) -> Result<(), Failure> {
    if args.common.compressible.is_some() || args.common.duplicates.is_some() {
        return Err(Failure::usage(
            "fio's jobs say what they write: give them buffer_compress_percentage= or dedupe_percentage=",
        ));
    }
    if args.minimal {
        args.output_format = vec![Format::Terse];
    }
    let line = read(&args.words)?;
    let plan = fio_line_plan(&line, &args.section).map_err(|error| match error {
        InputError::Memory(error) => Failure::failed(error),
        error => Failure::usage(error),
    })?;
    this_machine::check_directory(&args.dir).map_err(Failure::usage)?;
    for directory in plan.directories() {
        this_machine::check_directory(&args.dir.join(directory))
            .map_err(|error| Failure::usage(format!("{error}, with directory=DIR")))?;
    }
    let measured = args.dir.join(plan.first_path().unwrap_or_default());
    let plan = Arc::new(plan);
    let asked = Arc::clone(&plan);
    let (root, plan) = match plan.leads_out() {
        true => (Path::new("/"), Arc::new(from_root(&plan, &args.dir)?)),
        false => (&*args.dir, plan),
    };
    if let Some(output) = &args.output {
        check_output(output, &args, &line)?;
        check_no_file_of_jobs(output, &plan, root)?;
    }
    let session = Session::open_at(&args.common, root, directory_of(there(&measured)))?;
    session.makes(plan.files().into_iter().chain(plan.beside()));
    let rooms: Rc<dyn Rooms> = Rc::new(HostRooms { root: root.to_owned() });
    let (looked_at, ahead) = (Arc::clone(&plan), setup(&args, &session, 0, &rooms));
    let checked = session.block_on(move |crew| fio::check(crew, looked_at, ahead));
    checked.map_err(Failure::failed)?;
    if args.parse_only {
        return print(&asked.describe());
    }
    let files = plan.files().into_iter().map(|file| root.join(file));
    if let Some(there) = made::left_beside(files, fio::is_of_layout) {
        say(&format!(
            "{there}: laid out for a run that was killed, or for another one that is under way; unless one is, remove it"
        ));
    }
    let mut told = Told::new(&args, session.repeats())?;
    if args.is_for_people() {
        session.told(told.write(&fio::opening(&plan, &version())))?;
    }
    let (mut outcomes, mut failed, mut part) = (Vec::new(), None, None);
    for repeat in 0..session.repeats() {
        let (plan, stop) = (Arc::clone(&plan), session.stop());
        let setup = setup(&args, &session, repeat, &rooms);
        let ended = session.block_on(move |crew| fio::run(crew, plan, setup, stop));
        let Some(outcome) = session.ended(ended, &outcomes)? else { break };
        let is_whole = !session.is_stopped();
        // Where nothing else is the result, what was done until then is told, as fio does, and that it is none.
        if is_whole || outcomes.is_empty() {
            session.told(told.tell(&outcome, repeat + 1, is_whole))?;
            session.told(write_logs(&outcome, repeat + 1, session.repeats()))?;
        }
        if !is_whole {
            let (jobs, done, total) = outcome.of_done();
            // The report is of the jobs that are done.
            if outcomes.is_empty() && done > 0 && session.has_report() {
                part = Some((jobs.outcome(), Partial { done, total, of: PartialOf::Jobs }));
            }
            break;
        }
        if outcomes.is_empty() {
            outcome.unverified().iter().for_each(|unverified| say(unverified));
        }
        outcome.passed_over.iter().for_each(|passed_over| say(&passed_over.to_string()));
        for error in &outcome.errors {
            failed = Some(error.to_string());
        }
        outcomes.push(outcome.outcome());
    }
    session.told(told.end(outcomes.len() < session.repeats() as usize))?;
    if part.is_none() {
        session.ends_early(&outcomes)?;
    }
    conclude(&args, &line, &asked, &session, (outcomes, part))?;
    match failed {
        Some(error) => Err(Failure::failed(error)),
        None => Ok(()),
    }
}

/// How a repeat differs from what its jobs say.
fn setup(args: &FioArgs, session: &Session, repeat: u32, rooms: &Rc<dyn Rooms>) -> Setup {
    let quiet = !args.is_for_people();
    Setup {
        seed: session.seed(repeat),
        form: Form::Bytes,
        destructive: args.destructive,
        rooms: Some(Rc::clone(rooms)),
        say: Rc::new(move |line: &str| {
            if !quiet {
                say(line);
            }
        }),
    }
}

fn conclude(
    args: &FioArgs,
    line: &CommandLine,
    asked: &Plan,
    session: &Session,
    (outcomes, part): (Vec<Outcome>, Option<(Outcome, Partial)>),
) -> Result<(), Failure> {
    let files = line.files.iter().filter_map(|file| targets::inputs::job_text(file).ok());
    let text: String = std::iter::once(line.text()).chain(files).collect();
    let stem = line.files.first().and_then(|file| match is_standard_input(file) {
        true => Some(OsStr::new("standard input")),
        false => file.file_stem(),
    });
    let name = match line.job() {
        // Figures of several are their sum, and no one's.
        Some(job) => match asked.job_names().as_slice() {
            [_] | [] => job.to_owned(),
            [first, second] => format!("{first} and {second} together"),
            [first, others @ ..] => format!("{first} and {} more together", others.len()),
        },
        None => stem.unwrap_or_default().to_string_lossy().into_owned(),
    };
    let tool = ToolRun {
        tool: ToolKind::Fio,
        title: &format!("fio: {name}"),
        workload: &name,
        content: None,
        settings: match args.section.as_slice() {
            [] => asked.asked(),
            some => {
                let section = ("section".to_owned(), some.join(", "));
                std::iter::once(section).chain(asked.asked()).collect()
            }
        },
        text: Some(&text),
        table: args.output_format == [Format::Normal],
    };
    match part {
        Some((outcome, partial)) => session.conclude_part(&tool, outcome, partial, &"interrupted"),
        None => session.conclude(&tool, outcomes),
    }
}

/// The plan with its paths as they lie in a tree over the root; relative ones start from `dir`.
fn from_root(plan: &Plan, dir: &Path) -> Result<Plan, Failure> {
    let start = dir
        .canonicalize()
        .map_err(|error| Failure::usage(format!("{}: {error}", dir.display())))?;
    Ok(plan.with_files_at(|path| without_up(&start, path)))
}

/// A path from a directory without `..`, each of which leads where the system would go, through links.
fn without_up(start: &Path, path: &Path) -> PathBuf {
    let mut at = start.to_owned();
    for part in path.components() {
        if part == Component::ParentDir {
            // What is not there is no link.
            at = at.canonicalize().unwrap_or(at);
            at.pop();
        } else {
            at.push(part);
        }
    }
    at
}

/// Refuses to write the output over what is needed otherwise.
fn check_output(output: &Path, args: &FioArgs, line: &CommandLine) -> Result<(), Failure> {
    let refused = |what: &str, mend: &str| {
        Err(Failure::usage(format!("--output={}: {what}; {mend}", output.display())))
    };
    let place = in_full(output);
    if let Some(out) = &args.common.out {
        let out = in_full(out);
        if place == out {
            return refused("--out makes a directory of this name", "give them two names");
        }
        if place.parent() == Some(&*out) {
            let mend = "name a file elsewhere";
            return refused(
                "it lies in the directory of --out, which holds the report alone",
                mend,
            );
        }
    }
    if line.files.iter().any(|file| !is_standard_input(file) && in_full(file) == place) {
        return refused("it is a job file, and would be written over", "name another file");
    }
    Ok(())
}

/// Refuses to write the output over a file that a job reads or writes.
fn check_no_file_of_jobs(output: &Path, plan: &Plan, root: &Path) -> Result<(), Failure> {
    let place = in_full(output);
    let is_device = place.exists() && !place.is_file();
    let files = plan.files();
    let mut same = files.iter().filter(|file| file.file_name() == place.file_name());
    match !is_device && same.any(|file| in_full(&root.join(file)) == place) {
        true => Err(Failure::usage(format!(
            "--output={}: it is a file of a job; name another file",
            output.display()
        ))),
        false => Ok(()),
    }
}

/// A path by which a file is known however it was spelt, whether it is there or not.
fn in_full(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let here = std::env::current_dir().unwrap_or_default();
    let full = without_up(&here, path);
    // The first directory above it that is there may be reached by links.
    let above = there(&full);
    match (above.canonicalize(), full.strip_prefix(above)) {
        (Ok(above), Ok(below)) => above.join(below),
        _ => full,
    }
}

fn version() -> String {
    // Readers of the JSON look for fio's name and version.
    format!("{FIO_VERSION} (spindle {})", env!("CARGO_PKG_VERSION"))
}

/// The room of this host's file systems, of a tree over `root`.
struct HostRooms {
    root: PathBuf,
}

impl Rooms for HostRooms {
    fn file_system(&self, path: &Path) -> Option<u64> {
        std::fs::metadata(there(&self.root.join(path))).ok().map(|found| found.dev())
    }

    fn free(&self, path: &Path) -> Option<ByteCount> {
        session::free(there(&self.root.join(path)))
    }
}

/// Where the output goes and in which forms.
struct Told<'a> {
    formats: &'a [Format],
    file: Option<(&'a Path, File)>,
    repeats: u32,
    /// fio's documents of several repeats, which are told as one for each form.
    documents: BTreeMap<usize, serde_json::Value>,
}

impl<'a> Told<'a> {
    /// Begins the output. Where it goes to a file, what was in it is gone after this.
    fn new(args: &'a FioArgs, repeats: u32) -> Result<Told<'a>, Failure> {
        let file = args.output.as_deref().map(|path| match File::create(path) {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(unwritable(path, &error)),
        });
        let documents = BTreeMap::new();
        Ok(Told { formats: &args.output_format, file: file.transpose()?, repeats, documents })
    }

    /// Writes what follows.
    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.file else { return print(text) };
        file.write_all(text.as_bytes()).or_else(|error| {
            // What was measured is not lost with the file.
            print(text)?;
            Err(unwritable(path, &error))
        })
    }

    /// Tells a repeat, counted from 1, and in JSON whether it was ended before its end.
    fn tell(&mut self, outcome: &FioOutcome, repeat: u32, is_whole: bool) -> Result<(), Failure> {
        let stamp = stamp()?;
        let mut text = String::new();
        for (at, format) in self.formats.iter().enumerate() {
            match format {
                Format::Normal => text.push_str(&outcome.text(&stamp)),
                Format::Terse => text.push_str(&outcome.terse(&stamp)),
                Format::Json | Format::JsonPlus => {
                    let mut document = outcome.json(&stamp, *format == Format::JsonPlus);
                    if let (false, Some(fields)) = (is_whole, document.as_object_mut()) {
                        fields.insert("interrupted".to_owned(), true.into());
                    }
                    match self.repeats {
                        1 => text.push_str(&document_text(&document)?),
                        _ => gather(&mut self.documents, at, document, repeat),
                    }
                }
            }
        }
        match text.is_empty() {
            true => Ok(()),
            false => self.write(&text),
        }
    }

    /// Tells what was gathered of all repeats, or of a part of them, which says so.
    fn end(&mut self, is_part: bool) -> Result<(), Failure> {
        for mut document in std::mem::take(&mut self.documents).into_values() {
            if let (true, Some(fields)) = (is_part, document.as_object_mut()) {
                fields.insert("partial".to_owned(), true.into());
            }
            self.write(&document_text(&document)?)?;
        }
        Ok(())
    }
}

fn document_text(document: &serde_json::Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(document).map(|text| text + "\n").map_err(Failure::failed)
}

/// Adds a repeat's jobs to those of the repeats before, each with the number of its repeat.
fn gather(
    documents: &mut BTreeMap<usize, serde_json::Value>,
    at: usize,
    mut document: serde_json::Value,
    repeat: u32,
) {
    let jobs = document.get_mut("jobs").and_then(serde_json::Value::as_array_mut);
    for job in jobs.into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
        job.insert("repeat".to_owned(), repeat.into());
    }
    let Some(first) = documents.get_mut(&at) else {
        documents.insert(at, document);
        return;
    };
    let jobs = first.get_mut("jobs").and_then(serde_json::Value::as_array_mut);
    let more = document.get_mut("jobs").and_then(serde_json::Value::as_array_mut);
    if let (Some(jobs), Some(more)) = (jobs, more) {
        jobs.append(more);
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("writing {}: {error}", path.display()))
}

/// Logs go to the current directory, as fio's do; those of several repeats with the repeat's number before `.log`.
fn write_logs(outcome: &FioOutcome, repeat: u32, repeats: u32) -> Result<(), Failure> {
    for (name, text) in &outcome.logs {
        let path = match (name.strip_suffix(".log"), repeats) {
            (Some(stem), 2..) => PathBuf::from(format!("{stem}.{repeat}.log")),
            _ => PathBuf::from(name),
        };
        std::fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
    }
    Ok(())
}

/// The moment, as fio's output has it; in universal time.
fn stamp() -> Result<Stamp, Failure> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let unix_ms = since.map_err(Failure::failed)?.as_millis() as u64;
    Ok(Stamp { unix_ms, text: ctime(unix_ms / 1000), version: version() })
}
