//! The field's tools as workloads of a study: what their settings mean, and how they run.
//!
//! A `[[workload]]` whose kind is a tool keeps its settings as a table. Here it becomes the tool's plan
//! ([`Plan::read`], before anything runs) and, over a crew, an outcome ([`Plan::run`]). The settings have
//! the names of the tool's own options wherever it has some.

use lab::study::{Tool, ToolKind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stdx::ByteCount;
use toml::Table;
use workload::bonnie;
use workload::content::{Content, ContentSpec};
use workload::crew::Crew;
use workload::outcome::Outcome;

/// A tool's settings, read.
#[derive(Clone, Debug)]
pub struct Plan {
    content: ContentSpec,
    tool: ToolPlan,
}

#[derive(Clone, Debug)]
enum ToolPlan {
    Bonnie(bonnie::Plan),
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
            ToolKind::Bonnie => ToolPlan::Bonnie(bonnie(settings(own)?)?),
            other => return Err(ToolError(format!("{} is not there", other.word()))),
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
            ToolPlan::Bonnie(plan) => {
                // bonnie++ has 32 bits of seed.
                let plan = bonnie::Plan { seed: seed as u32, ..plan };
                let quiet: bonnie::Listener = Arc::new(|_, _| {});
                let done = bonnie::run(&*crew, plan, &content, stop, quiet).await;
                done.map(|outcome| outcome.outcome()).map_err(ToolError::of)
            }
        }
    }
}

/// A table as a tool's settings.
fn settings<T: DeserializeOwned>(table: Table) -> Result<T, ToolError> {
    table.try_into().map_err(|error| ToolError(super::layout::one_line(&error)))
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
    files: Option<String>,
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

fn bonnie(given: Bonnie) -> Result<bonnie::Plan, ToolError> {
    let Bonnie { size, files, bytes, durable, direct } = given;
    let file = match size {
        Some(text) => bonnie::options::file(&text).map_err(ToolError::of)?,
        None => None,
    };
    let file = file.map(|file| bonnie::File { bytes: bytes.unwrap_or(file.bytes), direct, ..file });
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
