//! The field's tools as workloads of a study: what their settings mean, and how they run.
//!
//! A `[[workload]]` whose kind is a tool keeps its settings as a table. Here it becomes the tool's plan
//! ([`Plan::read`], before anything runs) and, over a crew, an outcome ([`Plan::run`]). The settings have
//! the names of the tool's own options wherever it has some.

use crate::inputs::{filebench_text, fio_plan, read_input};
use lab::study::{Tool, ToolKind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stdx::ByteCount;
use toml::{Table, Value};
use tools::{bonnie, iometer, smallfiles, tiobench};
use workload::content::{Content, ContentSpec};
use workload::crew::Crew;
use workload::outcome::Outcome;

/// What `$dir` is in a study's filebench workloads: the root of the tree.
const FILEBENCH_DIRECTORY: &str = "/work";

/// A tool's settings, read.
#[derive(Clone, Debug)]
pub struct Plan {
    content: ContentSpec,
    tool: ToolPlan,
}

#[derive(Clone, Debug)]
enum ToolPlan {
    Filebench(Rc<filebench::Plan>),
    Fio(Arc<fio::Plan>),
    Bonnie(bonnie::Plan),
    Tiobench(tiobench::Plan),
    Iometer(Rc<iometer::Plan>),
    SmallFiles(smallfiles::Plan),
}

/// Why a tool's settings can't be used, or why it came to no end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(String);

impl ToolError {
    fn of(error: impl ToString) -> ToolError {
        ToolError(error.to_string())
    }
}

/// What every tool's table may have beside its own settings.
#[derive(Default, Deserialize)]
struct Shares {
    #[serde(default)]
    compressible: f64,
    #[serde(default)]
    duplicates: f64,
}

impl Plan {
    /// Reads a tool's settings.
    ///
    /// # Errors
    /// Names the setting and the mend.
    pub fn read(tool: &Tool) -> Result<Plan, ToolError> {
        let (mut own, mut shared) = (tool.settings.clone(), Table::new());
        for key in ["compressible", "duplicates"] {
            shared.extend(own.remove(key).map(|value| (key.to_owned(), value)));
        }
        let Shares { compressible, duplicates } = settings(shared)?;
        for (key, share) in [("compressible", compressible), ("duplicates", duplicates)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(ToolError(format!("`{key}` is {share}; write a share from 0 to 1")));
            }
        }
        let content = ContentSpec { compressible, duplicates, ..ContentSpec::default() };
        let tool = match tool.kind {
            ToolKind::Filebench => ToolPlan::Filebench(Rc::new(filebench(settings(own)?)?)),
            ToolKind::Fio => ToolPlan::Fio(Arc::new(fio(settings(own)?)?)),
            ToolKind::Bonnie => ToolPlan::Bonnie(bonnie(settings(own)?)?),
            ToolKind::Tiobench => ToolPlan::Tiobench(tiobench(settings(own)?)?),
            ToolKind::Iometer => ToolPlan::Iometer(Rc::new(iometer(settings(own)?)?)),
            ToolKind::SmallFiles => ToolPlan::SmallFiles(small_files(settings(own)?)?),
            ToolKind::Slob | ToolKind::Probe => {
                unreachable!("the reader of studies makes block workloads of these")
            }
        };
        Ok(Plan { content, tool })
    }

    /// What it writes, where nothing else is known of what lies below.
    pub fn content(&self) -> ContentSpec {
        self.content
    }

    /// Runs it with a crew.
    ///
    /// # Errors
    /// What failed; what was made stays for the caller to remove.
    pub async fn run(
        self,
        crew: Rc<dyn Crew>,
        content: Content,
        seed: u64,
        stop: Arc<AtomicBool>,
    ) -> Result<Outcome, ToolError> {
        match self.tool {
            ToolPlan::Filebench(plan) => {
                let quiet = Rc::new(Quiet);
                let done = filebench::run(&*crew, &plan, &content, seed, true, &stop, quiet).await;
                done.map(|outcome| outcome.outcome()).map_err(ToolError::of)
            }
            ToolPlan::Fio(plan) => {
                let form = content.spec().form;
                let setup = fio::Setup {
                    seed,
                    form,
                    destructive: false,
                    rooms: None,
                    say: Rc::new(|_: &str| {}),
                };
                let outcome = fio::run(crew, plan, setup, stop).await.map_err(ToolError::of)?;
                match outcome.errors.first() {
                    Some(error) => Err(ToolError::of(error)),
                    None => Ok(outcome.outcome()),
                }
            }
            ToolPlan::Bonnie(plan) => {
                // bonnie++ has 32 bits of seed.
                let plan = bonnie::Plan { seed: seed as u32, ..plan };
                let quiet: bonnie::Listener = Arc::new(|_| {});
                let done = bonnie::run(&*crew, plan, &content, stop, quiet).await;
                done.map(|outcome| outcome.outcome()).map_err(ToolError::of)
            }
            ToolPlan::Tiobench(plan) => {
                let done = tiobench::run(&*crew, &plan, &content, seed, stop, &|_| {});
                done.await.map(|outcome| outcome.outcome()).map_err(ToolError::of)
            }
            ToolPlan::Iometer(plan) => {
                let mut quiet = |_: &iometer::TestOutcome| {};
                let done = iometer::run(&*crew, &plan, &content, seed, &stop, &mut quiet).await;
                done.map(|outcome| outcome.outcome()).map_err(ToolError::of)
            }
            ToolPlan::SmallFiles(plan) => {
                let quiet: smallfiles::Listener = Arc::new(|_| {});
                let done = smallfiles::run(&*crew, &plan, &content, seed, stop, quiet).await;
                done.map(|outcome| outcome.outcome()).map_err(ToolError::of)
            }
        }
    }
}

/// filebench's lines are not for a study.
struct Quiet;

impl filebench::Console for Quiet {
    fn line(&self, _: Duration, _: &str) {}

    fn progress(&self, _: &filebench::engine::Preparation) {}

    fn system(&self, command: &str) -> Result<(), String> {
        Err(format!("a study's workload runs no shell commands (`{command}`)"))
    }
}

/// A table as a tool's settings.
fn settings<T: DeserializeOwned>(table: Table) -> Result<T, ToolError> {
    super::table::read(table).map_err(ToolError)
}

/// A span of time as a study writes it.
fn span(text: &str) -> Result<Duration, ToolError> {
    let span = lab::duration::parse(text).ok();
    span.ok_or_else(|| ToolError(format!("'{text}' is no span of time; write one as \"30s\"")))
}

/// `lab filebench`'s options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filebench {
    /// A workload file, or the name of a personality that ships.
    file: String,
    /// How long it runs, whatever the file says.
    #[serde(default)]
    run: Option<String>,
    /// Variables of the file.
    #[serde(default)]
    set: Table,
}

fn filebench(given: Filebench) -> Result<filebench::Plan, ToolError> {
    let (name, text) = filebench_text(&given.file).map_err(ToolError::of)?;
    let text_of = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let options = filebench::PlanOptions {
        directory: FILEBENCH_DIRECTORY.to_owned(),
        variables: given.set.into_iter().map(|(name, value)| (name, text_of(value))).collect(),
        run_seconds: match given.run {
            Some(text) => Some(span(&text)?.as_secs().max(1)),
            None => None,
        },
        allow_system: false,
    };
    filebench::Plan::read(&name, &text, &options).map_err(ToolError::of)
}

/// `lab fio`'s options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fio {
    /// A job file.
    file: PathBuf,
    /// Only this section of it.
    #[serde(default)]
    section: Option<String>,
}

fn fio(given: Fio) -> Result<fio::Plan, ToolError> {
    let plan = fio_plan(&given.file, &Vec::from_iter(given.section)).map_err(ToolError::of)?;
    if plan.leads_out() {
        return Err(ToolError(format!(
            "{} names absolute paths, or a `..`; leave `directory` out of it and name files plainly, so that it works where the \
             machine says",
            given.file.display()
        )));
    }
    Ok(plan)
}

/// `lab tiobench`'s options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tiobench {
    /// Size of all threads' files together.
    size: ByteCount,
    #[serde(default)]
    block_size: Option<ByteCount>,
    #[serde(default)]
    threads: Option<u32>,
    /// Random operations of all threads together.
    #[serde(default)]
    random: Option<u64>,
    #[serde(default)]
    direct: bool,
}

fn tiobench(given: Tiobench) -> Result<tiobench::Plan, ToolError> {
    let plan = tiobench::Plan {
        identifier: String::new(),
        number: std::process::id(),
        sizes_mib: vec![given.size.bytes() >> 20],
        blocks: vec![given.block_size.unwrap_or(ByteCount::kib(4))],
        threads: vec![given.threads.unwrap_or(1)],
        random: given.random.unwrap_or(1000),
        runs: 1,
        one_after_another: false,
        direct: given.direct,
        drop_caches: false,
    };
    plan.check().map_err(ToolError::of)?;
    Ok(plan)
}

/// `lab iometer`'s options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Iometer {
    /// An `.icf` file.
    file: PathBuf,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    ramp_up: Option<String>,
    /// Size of the test file, whatever the file says.
    #[serde(default)]
    size: Option<ByteCount>,
    #[serde(default)]
    buffered: bool,
}

fn iometer(given: Iometer) -> Result<iometer::Plan, ToolError> {
    let name = given.file.display().to_string();
    let bytes =
        read_input(given.file.as_ref()).map_err(|error| ToolError(format!("{name}: {error}")))?;
    // Names in files of Windows may be in any code page.
    let icf = iometer::parse(&name, &String::from_utf8_lossy(&bytes)).map_err(ToolError::of)?;
    let options = iometer::Options {
        run_time: given.run.as_deref().map(span).transpose()?,
        ramp_up: given.ramp_up.as_deref().map(span).transpose()?,
        size: given.size,
        pattern: None,
        buffered: given.buffered,
        remove: true,
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        device: None,
    };
    iometer::plan(&icf, &options).map_err(ToolError::of)
}

/// `lab smallfiles`'s options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SmallFiles {
    files: u64,
    /// `"8k"`, or a range `"1k:64k"`.
    #[serde(default)]
    size: Option<String>,
    #[serde(default)]
    directories: Option<u64>,
    #[serde(default)]
    threads: Option<u32>,
    #[serde(default)]
    block_size: Option<ByteCount>,
    #[serde(default)]
    fsync: bool,
    #[serde(default)]
    cold: bool,
}

fn small_files(given: SmallFiles) -> Result<smallfiles::Plan, ToolError> {
    let default = smallfiles::Plan::of_files(given.files);
    let plan = smallfiles::Plan {
        number: std::process::id(),
        sizes: match given.size {
            Some(text) => {
                text.parse().map_err(|error: smallfiles::SizesError| ToolError::of(error))?
            }
            None => default.sizes,
        },
        directories: given.directories.unwrap_or(default.directories),
        threads: given.threads.unwrap_or(default.threads),
        block: given.block_size.unwrap_or(default.block),
        durable: given.fsync,
        cold: given.cold,
        ..default
    };
    plan.check().map_err(ToolError::of)?;
    Ok(plan)
}

/// bonnie++'s letters, as words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bonnie {
    /// `-s`: size of the file, and what may follow it there.
    #[serde(default)]
    size: Option<String>,
    /// `-n`: small files, in units of 1024.
    #[serde(default)]
    files: Option<Files>,
    /// `-f`: bytes that are written and read one at a time.
    #[serde(default)]
    bytes: Option<ByteCount>,
    /// `-b`
    #[serde(default)]
    durable: bool,
    /// `-D`
    #[serde(default)]
    direct: bool,
}

/// What stands behind `-n`: a number, or a text where more follows it.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it takes a number, as 16, or a text, as \"16:1024:1024\"")]
enum Files {
    Units(u32),
    Text(String),
}

fn bonnie(given: Bonnie) -> Result<bonnie::Plan, ToolError> {
    let Bonnie { size, files, bytes, durable, direct } = given;
    let file = match size {
        Some(text) => bonnie::options::file(&text).map_err(ToolError::of)?,
        None => None,
    };
    let file = file.map(|file| bonnie::File { bytes: bytes.unwrap_or(file.bytes), direct, ..file });
    let files = files.map(|files| match files {
        Files::Units(units) => units.to_string(),
        Files::Text(text) => text,
    });
    let creation = match files {
        Some(text) => bonnie::options::creation(&text).map_err(ToolError::of)?,
        None => None,
    };
    if file.is_none() && creation.is_none() {
        return Err(ToolError(
            "there is nothing to do; give it `size`, as \"16g\", or `files`, as \"16\", or both"
                .to_owned(),
        ));
    }
    let plan = bonnie::Plan {
        machine: String::new(),
        number: std::process::id(),
        seed: 0,
        concurrency: 1,
        durable,
        written: bonnie::Written::Generated,
        file,
        creation,
    };
    // A study says its sizes; that they go beyond the memory is for the report to say.
    plan.check(ByteCount::ZERO).map_err(ToolError::of)?;
    Ok(plan)
}
