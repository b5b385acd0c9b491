//! A set that is open for writing for as long as somebody serves it, with what runs beside it, as a running md has it.
//!
//! ```text
//!   RunningSet (here)
//!     ├─ LiveArray    the set
//!     ├─ caretaker    makes right what needs it: resync, spares, rebuilds, replacements
//!     └─ monitor      says on standard error what happens to the members
//! ```
//!
//! Whoever serves the set [starts](RunningSet::start) it, serves its [device](RunningSet::device), and
//! [stops](RunningSet::stop) it when the last client has gone. The tasks run whenever the runtime does.

mod caretaker;
mod monitor;

use super::live;
use crate::commands::Failure;
use crate::serve::Told;
use ::md::live::LiveArray;
use caretaker::Caretaker;
use host::HostRuntime;
use rt::{DeviceRef, Task};
use std::rc::Rc;
use std::sync::Arc;

/// See the [module](self).
pub struct RunningSet {
    set: Rc<LiveArray>,
    tasks: Vec<Task<()>>,
    _ends: Option<Arc<Told>>,
}

impl RunningSet {
    /// Begins to care for a set. `ends` is told when somebody asks for the set to be stopped; none where what serves it
    /// serves other things too, and the wish is refused.
    pub fn start(runtime: &HostRuntime, set: LiveArray, ends: Option<&Arc<Told>>) -> RunningSet {
        let (set, rt) = (Rc::new(set), runtime.rt());
        let name = set.device().name();
        let caretaker = Caretaker::new(&set, &name);
        let tasks = vec![
            rt.spawn(monitor::watch(Rc::clone(&set), name)),
            rt.spawn(async move { caretaker.run().await }),
        ];
        RunningSet { set, tasks, _ends: ends.cloned() }
    }

    /// The set as a device.
    pub fn device(&self) -> DeviceRef {
        self.set.device()
    }

    /// Ends what runs beside the set, and stops it cleanly. Nothing may be written to it any more. How far a resync
    /// or rebuild came that is under way stands in the superblocks, and the next start goes on from there.
    ///
    /// # Errors
    /// With the line to print.
    pub fn stop(self, runtime: &HostRuntime) -> Result<(), Failure> {
        // Steps that are under way end by themselves.
        drop(self.tasks);
        let set = self.set;
        live::wait(runtime, async move { set.stop().await })
    }
}
