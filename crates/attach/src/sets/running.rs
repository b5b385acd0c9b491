//! A set that is open for writing for as long as somebody serves it, with what runs beside it, as a running md has it.
//!
//! ```text
//!   RunningSet (here)
//!     ├─ LiveArray    the set
//!     ├─ caretaker    makes right what needs it: resync, spares, rebuilds, replacements
//!     ├─ monitor      tells what happens to the members
//!     └─ requests     its socket: what commands that find it served ask for (protocol) is carried out here;
//!                     client is the other end
//! ```
//!
//! Whoever serves the set [starts](RunningSet::start) it, serves its [device](RunningSet::device), and
//! [stops](RunningSet::stop) it when the last client has gone. The tasks run whenever the runtime does.

mod caretaker;
pub mod client;
mod monitor;
pub mod protocol;
mod requests;

use crate::context::Context;
use crate::control::server::{Bound, Control, listen};
use crate::ending::Ending;
use crate::error::Error;
use ::md::live::LiveArray;
use ::md::superblock::Uuid;
use caretaker::Caretaker;
use requests::Served;
use rt::{DeviceRef, Task};
use std::rc::Rc;

/// See the [module](self).
pub struct RunningSet {
    served: Rc<Served>,
    tasks: Vec<Task<()>>,
    control: Option<Control<Served>>,
}

impl RunningSet {
    /// Begins to care for a set, and to listen on its socket. `ends` is told when somebody asks for the set to be
    /// stopped; none where what serves it serves other things too, and the wish is refused.
    pub fn start(context: &Context, set: Rc<LiveArray>, ends: Option<&Rc<Ending>>) -> RunningSet {
        // A panic in any of this breaks the set, and nothing else that the program serves.
        let rt = set.rt().clone();
        let (name, events) = (set.device().name(), context.events().clone());
        let caretaker = Caretaker::new(&set, &name, &events);
        let served = Served::new(context, &rt, Rc::clone(&set), Rc::clone(&caretaker), ends);
        let control = listen(&served, Bound::new(&context.host(), &set.uuid().to_string()));
        let tasks = vec![
            rt.spawn(monitor::watch(set, name, events)),
            rt.spawn(async move { caretaker.run().await }),
        ];
        RunningSet { served, tasks, control }
    }

    /// The set as a device.
    pub fn device(&self) -> DeviceRef {
        self.served.set.device()
    }

    /// Ends what runs beside the set, and stops it cleanly. Nothing may be written to it any more. How far a resync
    /// or rebuild came that is under way stands in the superblocks, and the next start goes on from there.
    ///
    /// # Errors
    /// It can't be stopped.
    pub fn stop(self, context: &Context) -> Result<(), Error> {
        let RunningSet { served, tasks, control } = self;
        // Steps that are under way end by themselves.
        drop(tasks);
        let its = Rc::clone(&served);
        let stopped = context.finish(async move {
            its.end().await;
            its.set.stop().await
        });
        served.stopped(&stopped);
        let Some(control) = control else { return stopped };
        let said = context.runtime().block_on(control.ended());
        said.expect("a clock that runs ends it");
        stopped
    }
}

/// All sets that a process runs.
#[derive(Default)]
pub struct RunningSets(Vec<RunningSet>);

impl RunningSets {
    /// These too, as [`RunningSet::start`] does it.
    pub fn start(
        &mut self,
        context: &Context,
        sets: Vec<Rc<LiveArray>>,
        ends: Option<&Rc<Ending>>,
    ) {
        self.0.extend(sets.into_iter().map(|set| RunningSet::start(context, set, ends)));
    }

    /// Stops these alone. What lies on them has to be closed by now.
    ///
    /// # Errors
    /// As of [`RunningSets::stop`].
    pub fn stop_these(&mut self, context: &Context, sets: &[Uuid]) -> Result<(), Error> {
        let is_meant = |set: &mut RunningSet| sets.contains(&set.served.set.uuid());
        RunningSets(self.0.extract_if(.., is_meant).collect()).stop(context)
    }

    /// Stops them all. What lies on them has to be closed by now.
    ///
    /// # Errors
    /// Of the first that could not be stopped; all were tried.
    pub fn stop(&mut self, context: &Context) -> Result<(), Error> {
        let mut outcome = Ok(());
        for set in std::mem::take(&mut self.0) {
            let stopped = set.stop(context);
            outcome = outcome.and(stopped);
        }
        outcome
    }
}
