//! Tools on a directory of this host.
//!
//! Each run has a folder of its own in the machine's `directory`, which is removed after it, so that every
//! repeat starts from the same state. What an earlier cell has left dirty in memory is written out first,
//! so that it does not fall into this one's time.

use super::crew::ThreadCrew;
use super::left_over::{FOLDER, IN_USE};
use super::machine::HostMachine;
use super::surroundings::HostFacts;
use super::surroundings::counters::HostCounters;
use super::tools::Plan;
use host::{Clock, HostRuntime};
use lab::measure::files::{Ends, tool_run};
use lab::measure::{DiskView, Mark};
use lab::pitfalls::Pitfall;
use lab::target::{CellRun, RepeatPlan, StopFlag, TargetError};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::content::Content;
use workload::crew::Crew;

/// How often the conductor looks whether the study was told to stop.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// A run's folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn make(directory: &Path) -> Result<Folder, TargetError> {
        let path = directory.join(FOLDER);
        std::fs::create_dir(&path).map_err(|error| TargetError::Fatal {
            doing: format!("making the folder {}", path.display()),
            why: error.to_string(),
            mend: match error.kind() {
                std::io::ErrorKind::AlreadyExists => IN_USE,
                _ => "name a directory that can be written with --set machine.directory=DIR",
            }
            .to_owned(),
        })?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed stays, under a name that says whose it is.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool once on the machine's directory.
///
/// # Errors
/// What failed, with the mend.
pub fn run(
    machine: &HostMachine,
    directory: &Path,
    tool: Plan,
    plan: &RepeatPlan,
    stop: &StopFlag,
) -> Result<CellRun, TargetError> {
    let fatal = |doing: &str, why: String, mend: &str| TargetError::Fatal {
        doing: doing.to_owned(),
        why,
        mend: mend.to_owned(),
    };
    let folder = Folder::make(directory)?;
    let clock = Clock::start();
    let runtime = HostRuntime::with_clock(machine.reactor.into(), clock).map_err(|error| {
        fatal(
            "starting the reactor",
            error.to_string(),
            "or choose another with --set machine.reactor=threads",
        )
    })?;
    let crew =
        ThreadCrew::new(&runtime, clock, &folder.0, runtime.host().kind()).map_err(|error| {
            fatal("opening the directory", error.to_string(), "see to the directory")
        })?;
    let crew = Rc::new(crew);
    let disks = HostFacts::of(&folder.0, true).disks;
    let disks: Vec<Rc<dyn DiskView>> = disks.into_iter().map(|disk| Rc::new(disk) as _).collect();

    let content = tool.content();
    let work = {
        let (rt, stop, disks, seed) = (runtime.rt(), stop.clone(), disks.clone(), plan.seed);
        let crew: Rc<dyn Crew> = Rc::clone(&crew) as _;
        async move {
            let tree = Rc::clone(&crew.place().tree);
            tree.sync().await.map_err(|error| error.to_string())?;
            let begin = Mark::take(&rt, &disks, Some(&HostCounters::of_threads()));
            // The engine's own flag is raised when the study's is: that one has others above it.
            let raised = Arc::new(AtomicBool::new(false));
            let watch = {
                let (rt, raised) = (rt.clone(), Arc::clone(&raised));
                rt.clone().spawn(async move {
                    while !stop.is_raised() {
                        rt.sleep(STOP_LOOK).await;
                    }
                    raised.store(true, Ordering::Relaxed);
                })
            };
            let content = Content::new(content, seed);
            let done = tool.run(crew, content, seed, raised).await;
            let end = Mark::take(&rt, &disks, Some(&HostCounters::of_threads()));
            drop(watch);
            done.map(|outcome| (outcome, begin, end)).map_err(|error| error.to_string())
        }
    };
    let done = runtime.runtime().block_on(work).expect("I/O on a real tree ends");
    // Waits until no worker touches the folder any more.
    let traffic = crew.traffic();
    if stop.is_raised() {
        return Err(TargetError::Interrupted);
    }
    let (outcome, begin, end) = done.map_err(|why| TargetError::Failed {
        doing: format!("running it in {}", directory.display()),
        why,
        mend: "see to what it names, or leave the cell out".to_owned(),
    })?;
    let mut surroundings = HostFacts::of(&folder.0, true).surroundings;
    surroundings.content = Some(content);
    let ends = Ends { begin: &begin, end: &end, disks: &disks, phases: &[] };
    let short = outcome.measured.and_then(Pitfall::of_length);
    let mut run = tool_run(outcome, &ends, traffic, surroundings);
    run.pitfalls.extend(short);
    Ok(run)
}
