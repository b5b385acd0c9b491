//! What every tool's command has: where it works, who works, what is written, how often, and what
//! becomes of the figures.

use super::made::Made;
use crate::commands::clock::unix_s;
use crate::commands::reports::{self, raise_on_interrupt};
use crate::output::{Failure, print, say};
use crate::signals;
use clap::{Args, ValueEnum};
use host::{Clock, HostRuntime, ReactorKind, Room};
use lab::measure::files::{Ends, tool_run};
use lab::measure::{DiskView, Mark};
use lab::output::OutputError;
use lab::pitfalls::Pitfall;
use lab::results::{Partial, PartialOf};
use lab::single::{self, Single};
use lab::study::ToolKind;
use lab::target::{CellRun, StopFlag};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stdx::{ByteCount, Prng};
use targets::crew::ThreadCrew;
use targets::surroundings::HostFacts;
use targets::surroundings::counters::HostCounters;
use targets::this_machine;
use workload::content::{Content, ContentSpec};
use workload::crew::Crew;
use workload::outcome::Outcome;

/// Repeats at the most, as in a study.
const REPEATS_MAX: i64 = 1000;

/// Time between two lines about what is removed. Shorter fills logs, longer looks dead.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// What a tool that was interrupted can't be asked for.
const NO_RESUME: &str = "it can't be gone on with, as a study can by --resume: run it anew";

// What every tool's command takes.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Run it so many times, and give means with 95 % intervals
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=REPEATS_MAX))]
    pub repeats: u32,
    /// Derive all randomness from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The share of what is written that a compressor can take away, 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub compressible: Option<f64>,
    /// The share of writes that repeat what was written before, 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub duplicates: Option<f64>,
    /// How queued I/O reaches the system
    #[arg(long, value_enum, default_value_t = Reactor::Auto)]
    pub reactor: Reactor,
    /// Folder for results.json, results.csv and the report
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the report into a folder that holds an earlier result (which is lost) or other things
    #[arg(long)]
    pub force: bool,
}

/// How queued I/O reaches the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reactor {
    /// io_uring; threads where it is refused
    Auto,
    /// io_uring
    Uring,
    /// A pool of threads
    Threads,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share from 0 to 1, as 0.5".to_owned()),
    }
}

/// One tool's command under way.
pub struct Session {
    common: Common,
    runtime: HostRuntime,
    crew: Rc<ThreadCrew>,
    root: PathBuf,
    measured: PathBuf,
    disks: Vec<Rc<dyn DiskView>>,
    begin: Mark,
    stop: StopFlag,
    reads_cache: Cell<bool>,
    /// What the tool makes.
    made: Made,
    /// What was told of the host before anything ran.
    host: BTreeMap<String, String>,
    began_unix_s: u64,
    /// Why repeats end before the last.
    broken: RefCell<Option<String>>,
    /// What could not be told while the repeats ran.
    untold: RefCell<Option<Failure>>,
    /// Keeps `--out` for this run.
    _out: Option<lab::output::Held>,
}

impl Session {
    /// A session on the directory that the tool works in.
    ///
    /// # Errors
    /// Where there is no such directory, or the results can't go where they should.
    pub fn open(common: &Common, directory: &Path) -> Result<Session, Failure> {
        this_machine::check_directory(directory).map_err(Failure::usage)?;
        Session::open_at(common, directory, directory)
    }

    /// A session on the tree below `root`, which is `/` where the tool names absolute paths; `measured`
    /// is the file, device or directory that it works on, whose disks are looked at.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_at(common: &Common, root: &Path, measured: &Path) -> Result<Session, Failure> {
        let out = match &common.out {
            Some(out) => {
                let held = lab::output::hold(out).map_err(|error| match error {
                    OutputError::Busy { .. } => Failure::failed(error),
                    error => Failure::usage(error),
                })?;
                lab::output::check_new(out, common.force).map_err(Failure::usage)?;
                lab::output::check_writable(out).map_err(Failure::usage)?;
                Some(held)
            }
            None => None,
        };
        let kind = match common.reactor {
            Reactor::Auto => ReactorKind::Auto,
            Reactor::Uring => ReactorKind::Uring,
            Reactor::Threads => ReactorKind::Threads,
        };
        let clock = Clock::start();
        let runtime = HostRuntime::with_clock(kind, clock).map_err(Failure::failed)?;
        let crew = ThreadCrew::new(&runtime, clock, root, runtime.host().kind())
            .map_err(|error| Failure::usage(format!("{error}; name a directory that is there")))?;
        let stop = StopFlag::new();
        let made = Made::default();
        let (made_until_then, made_until_the_end) = (made.clone(), made.clone());
        raise_on_interrupt(
            &stop,
            move || say(&ends_soon(&made_until_then)),
            move || match made_until_the_end.there() {
                Some(there) => format!("it leaves {there}"),
                None => "it leaves nothing that it made".to_owned(),
            },
        )?;
        let mut host = targets::host_lines(measured);
        host.insert("queued I/O".to_owned(), format!("by {}", runtime.host().kind()));
        let disks = HostFacts::of(measured, true).disks;
        let disks: Vec<Rc<dyn DiskView>> =
            disks.into_iter().map(|disk| Rc::new(disk) as _).collect();
        let begin = Mark::take(&runtime.rt(), &disks, Some(&HostCounters::of_threads()));
        let (crew, measured) = (Rc::new(crew), measured.to_owned());
        Ok(Session {
            common: common.clone(),
            runtime,
            crew,
            root: root.to_owned(),
            measured,
            disks,
            begin,
            stop,
            reads_cache: Cell::new(false),
            made,
            host,
            began_unix_s: unix_s(),
            broken: RefCell::new(None),
            untold: RefCell::new(None),
            _out: out,
        })
    }

    /// What the command line says of the content that is written.
    pub fn content_spec(&self) -> ContentSpec {
        ContentSpec {
            compressible: self.common.compressible.unwrap_or(0.0),
            duplicates: self.common.duplicates.unwrap_or(0.0),
            ..ContentSpec::default()
        }
    }

    /// The tool reads from the cache on purpose, so that is no pitfall.
    pub fn reads_cache(&self) {
        self.reads_cache.set(true);
    }

    /// The tool makes these files and directories, by their paths in its tree; nothing of them was made yet.
    pub fn makes(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.made.expect(paths.into_iter().map(|path| self.root.join(path)));
    }

    /// What is there of what the tool makes, to be told after an end before the end; nothing where nothing is.
    fn left_over(&self) -> String {
        self.made.there().map_or_else(String::new, |there| format!("; it leaves {there}"))
    }

    /// Hears how many files a run that comes to no end has still to remove, and says so now and then.
    pub fn removing(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let made = self.made.clone();
        let told: Mutex<Option<(Instant, u64)>> = Mutex::new(None);
        move |left| {
            let mut told = lock(&told);
            let all = match *told {
                None => {
                    let place =
                        made.there().map_or_else(String::new, |there| format!(" of {there}"));
                    say(&format!("removing {left} files{place}"));
                    left
                }
                Some((last, all)) if last.elapsed() >= LINE_EVERY => {
                    say(&format!("{left} of {all} files are still to be removed"));
                    all
                }
                Some(_) => return,
            };
            *told = Some((Instant::now(), all));
        }
    }

    /// What is written, of this kind.
    pub fn content(&self, spec: ContentSpec) -> Content {
        Content::new(spec, self.common.seed)
    }

    /// Raised by Ctrl-C; engines look at it.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.stop.shared()
    }

    /// How many repeats are wanted.
    pub fn repeats(&self) -> u32 {
        self.common.repeats
    }

    /// The seed of a repeat, counted from 0.
    pub fn seed(&self, repeat: u32) -> u64 {
        match repeat {
            0 => self.common.seed,
            _ => Prng::for_part(self.common.seed, &format!("repeat {repeat}")).next_u64(),
        }
    }

    /// Runs something with the crew, to its end.
    pub fn block_on<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<dyn Crew>) -> F,
    ) -> T {
        let crew: Rc<dyn Crew> = Rc::clone(&self.crew) as _;
        let ended = self.runtime.runtime().block_on(work(crew));
        ended.expect("a real runtime never knows that it would wait for ever")
    }

    /// Whether Ctrl-C was pressed.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_raised()
    }

    /// Whether Ctrl-C was pressed: then the repeats that are done are the result, and what is under way is none.
    ///
    /// # Errors
    /// No repeat is done.
    pub fn ends_early(&self, done: &[Outcome]) -> Result<bool, Failure> {
        match self.stop.is_raised() {
            true if done.is_empty() => Err(Failure::interrupted(format!(
                "interrupted: there is no result (figures above, if any, are of the time until then); {NO_RESUME}{}",
                self.left_over()
            ))),
            stopped => Ok(stopped),
        }
    }

    /// What a repeat gave; `None` where it came to no end and those that are done are the result.
    ///
    /// # Errors
    /// It came to no end, and none is done.
    pub fn ended<T, E: Display>(
        &self,
        repeat: Result<T, E>,
        done: &[Outcome],
    ) -> Result<Option<T>, Failure> {
        match repeat {
            Ok(outcome) => Ok(Some(outcome)),
            Err(_) if self.ends_early(done)? => Ok(None),
            Err(error) if done.is_empty() => {
                Err(Failure::failed(format!("{error}{}", self.left_over())))
            }
            Err(error) => {
                self.broken.replace(Some(error.to_string()));
                Ok(None)
            }
        }
    }

    /// Whether a report was asked for.
    pub fn has_report(&self) -> bool {
        self.common.out.is_some()
    }

    /// What was printed or written of a repeat. Where a report was asked for, a failure is told after it is written.
    ///
    /// # Errors
    /// No report was asked for.
    pub fn told(&self, told: Result<(), Failure>) -> Result<(), Failure> {
        match told {
            Err(failure) if self.common.out.is_some() => {
                self.untold.borrow_mut().get_or_insert(failure);
                Ok(())
            }
            told => told,
        }
    }

    /// What becomes of the figures of all repeats: with several, a table of means with intervals; with
    /// `--out`, results and report. Warnings go to standard error.
    ///
    /// # Errors
    /// Where the results can't be written, or are of a part of the repeats.
    pub fn conclude(&self, run: &ToolRun<'_>, outcomes: Vec<Outcome>) -> Result<(), Failure> {
        if outcomes.is_empty() {
            return Ok(());
        }
        let (done, total) = (outcomes.len(), self.common.repeats as usize);
        let partial = Partial { done, total, of: PartialOf::Runs };
        self.keep(run, outcomes, (done < total).then_some(partial))?;
        if let Some(error) = self.broken.take() {
            return Err(Failure::failed(format!(
                "{error}: repeat {} of {total} came to no end, and the result is of the {done} before it{}",
                done + 1,
                self.left_over()
            )));
        }
        if done < total {
            return Err(Failure::interrupted(format!(
                "interrupted after {done} of {total} repeats: the result is of these, and what was under way is left out; {NO_RESUME}{}",
                self.left_over()
            )));
        }
        self.untold.take().map_or(Ok(()), Err)
    }

    /// What becomes of the parts that are done of the first repeat, which came to no end for this reason: as of whole
    /// repeats, but that they are a part. The figures themselves were told before.
    ///
    /// # Errors
    /// Always: what is kept is no whole result.
    pub fn conclude_part(
        &self,
        run: &ToolRun<'_>,
        outcome: Outcome,
        partial: Partial,
        why: &dyn Display,
    ) -> Result<(), Failure> {
        self.keep(run, vec![outcome], Some(partial))?;
        let left_over = self.left_over();
        Err(match self.stop.is_raised() {
            true => Failure::interrupted(format!(
                "interrupted after {partial}: the result is of these, and what was under way is left out; {NO_RESUME}{left_over}"
            )),
            false => Failure::failed(format!("{why}: the result is of {partial}{left_over}")),
        })
    }

    /// Writes results and report, where they were asked for, and tells what is to be told of several repeats.
    fn keep(
        &self,
        run: &ToolRun<'_>,
        outcomes: Vec<Outcome>,
        partial: Option<Partial>,
    ) -> Result<(), Failure> {
        let end = Mark::take(&self.runtime.rt(), &self.disks, Some(&HostCounters::of_threads()));
        // Asked again: the run's files take space.
        let HostFacts { mut surroundings, mut lines, .. } = HostFacts::of(&self.measured, true);
        surroundings.content = run.content;
        let ends = Ends { begin: &self.begin, end: &end, disks: &self.disks, phases: &[] };
        let mut whole = tool_run(Outcome::default(), &ends, self.crew.traffic(), surroundings);
        if self.reads_cache.get() {
            let of_cache = |pitfall: &Pitfall| {
                matches!(pitfall, Pitfall::Cached { .. } | Pitfall::SmallerThanMemory { .. })
            };
            whole.pitfalls.retain(|pitfall| !of_cache(pitfall));
        }
        lines.extend(self.host.clone());
        let single = Single {
            study: run.tool.word(),
            title: run.title,
            workload: run.workload,
            tool: run.tool,
            machine: lines,
            seed: self.common.seed,
            spindle_version: env!("CARGO_PKG_VERSION"),
            content: run.content.map(|content| content.to_string()),
            settings: run.settings.iter().cloned().collect(),
            command: Some(command_line()),
            text: run.text.map(str::to_owned),
            began_unix_s: Some(self.began_unix_s),
            ended_unix_s: Some(unix_s()),
        };
        let mut pitfalls = whole.pitfalls.clone();
        // What is told without a report: of several repeats each has its own.
        pitfalls.extend(
            outcomes.first().and_then(|outcome| outcome.measured).and_then(Pitfall::of_length),
        );
        let runs = outcomes.into_iter().map(|outcome| CellRun {
            pitfalls: outcome
                .measured
                .and_then(Pitfall::of_length)
                .into_iter()
                .chain(whole.pitfalls.clone())
                .collect(),
            disk_utilisation: whole.disk_utilisation.clone(),
            ..CellRun::from(outcome)
        });
        let mut results = single::results(&single, runs.collect());
        results.partial = partial;
        if let Some(partial) = partial {
            results.verdict = partial.verdict(&results.verdict, &[]);
        }
        let is_part = partial.is_some_and(|partial| partial.of != PartialOf::Runs);
        let has_table = self.common.repeats > 1 && run.table && !is_part;
        if has_table {
            self.told(print(&reports::text(&results, true)))?;
        } else {
            for pitfall in pitfalls {
                say(&format!("note: {}; {}", pitfall.what(), pitfall.mend()));
            }
        }
        if let Some(out) = &self.common.out {
            say(&reports::write_report(out, &results, self.common.force, has_table || is_part)?);
        }
        Ok(())
    }
}

/// What Ctrl-C does, said at once: the end of what is under way may take a while.
fn ends_soon(made: &Made) -> String {
    let leaves = made.there().map_or_else(String::new, |there| format!(" and leaves {there}"));
    format!("interrupted: it ends as soon as it can; {}{leaves}", signals::AGAIN)
}

/// The command line, as a shell would take it again.
fn command_line() -> String {
    let quoted = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("spindle".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The path, or the first directory above it that is there: what a tool makes is there only later.
pub fn there(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}

/// The directory of a file that a tool makes: what is measured is named alike, be the file there already or not. A device is itself.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if path.is_file() => directory,
        _ => path,
    }
}

/// What is guarded, which nobody leaves half changed.
pub fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is free on the file system of a directory, where that is known.
pub fn free(directory: &Path) -> Option<ByteCount> {
    HostFacts::of(directory, true).surroundings.space.map(|(free, _)| free)
}

/// Refuses to fill a file system: more than half of what is free is refused, and what is to be written is said before
/// it is. `told` says how to ask for less, or for this all the same.
///
/// # Errors
/// Where it is too much.
pub fn check_room(directory: &Path, bytes: ByteCount, told: &str) -> Result<(), Failure> {
    let Some(free) = free(directory) else {
        say(&format!("writing {bytes} to {}", directory.display()));
        return Ok(());
    };
    if bytes > free / 2 {
        return Err(Failure::usage(format!(
            "{}: {bytes} are to be written, and of {free} that are free no more than half may be; {told}",
            directory.display()
        )));
    }
    say(&format!("writing {bytes} to {}, where {free} are free", directory.display()));
    Ok(())
}

/// Refuses what was asked for by its size where it does not fit, before the file system is full of it.
///
/// # Errors
/// It does not fit.
pub fn check_fits(directory: &Path, bytes: ByteCount, told: &str) -> Result<(), Failure> {
    match free(directory) {
        Some(free) if bytes > free => Err(Failure::usage(format!(
            "{}: {bytes} are to be written, and {free} are free; {told}",
            directory.display()
        ))),
        _ => Ok(()),
    }
}

/// The block of the file system of a directory, a multiple of which each file takes; one byte where that is not known.
pub fn block(directory: &Path) -> ByteCount {
    Room::of(directory).map_or(ByteCount(1), |room| room.block())
}

/// Refuses more files and directories than the file system takes, before it is full of them.
///
/// # Errors
/// They do not fit.
pub fn check_names(directory: &Path, names: u64, told: &str) -> Result<(), Failure> {
    match Room::of(directory).and_then(|room| room.files) {
        Some(free) if names > free => Err(Failure::usage(format!(
            "{}: {names} files and directories are to be made, and the file system has inodes for {free} (df -i); {told}",
            directory.display()
        ))),
        _ => Ok(()),
    }
}

/// What a tool's figures are called. See [`Session::conclude`].
pub struct ToolRun<'a> {
    /// The tool.
    pub tool: ToolKind,
    /// What heads the report.
    pub title: &'a str,
    /// What was run: `fileserver`.
    pub workload: &'a str,
    /// What was written, where the tool writes.
    pub content: Option<ContentSpec>,
    /// By what settings it ran, those that were left at their defaults among them.
    pub settings: Vec<(String, String)>,
    /// The job file or workload file.
    pub text: Option<&'a str>,
    /// Whether to print the table of means; false where the output is to be read by a program.
    pub table: bool,
}
