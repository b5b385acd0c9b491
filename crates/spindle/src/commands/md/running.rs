//! A set that is open for writing for as long as somebody serves it, with what runs beside it, as a running md has it.
//!
//! ```text
//!   RunningSet (here)
//!     ├─ LiveArray    the set
//!     ├─ caretaker    makes right what needs it: resync, spares, rebuilds, replacements
//!     ├─ monitor      says on standard error what happens to the members
//!     └─ control      its socket: commands that find it served send it their requests (protocol), which
//!                     are carried out here (requests); client is the other end, folder where they meet
//! ```
//!
//! Whoever serves the set [starts](RunningSet::start) it, serves its [device](RunningSet::device), and
//! [stops](RunningSet::stop) it when the last client has gone. The tasks run whenever the runtime does.

mod caretaker;
pub mod client;
mod control;
mod folder;
mod monitor;
pub mod protocol;
mod requests;

use super::live;
use crate::commands::Failure;
use crate::serve::Told;
use ::md::live::LiveArray;
use caretaker::Caretaker;
use control::Control;
use host::HostRuntime;
use requests::Served;
use rt::{DeviceRef, Task};
use std::rc::Rc;
use std::sync::Arc;

/// See the [module](self).
pub struct RunningSet {
    served: Rc<Served>,
    tasks: Vec<Task<()>>,
    control: Option<Control>,
}

impl RunningSet {
    /// Begins to care for a set, and to listen on its socket. `ends` is told when somebody asks for the set to be
    /// stopped; none where what serves it serves other things too, and the wish is refused.
    pub fn start(runtime: &HostRuntime, set: LiveArray, ends: Option<&Arc<Told>>) -> RunningSet {
        // A panic in any of this breaks the set, and nothing else that the program serves.
        let rt = set.rt().clone();
        let set = Rc::new(set);
        let name = set.device().name();
        let caretaker = Caretaker::new(&set, &name);
        let served =
            Served::new(&runtime.host(), &rt, Rc::clone(&set), Rc::clone(&caretaker), ends);
        let control = control::listen(&runtime.host(), &served);
        let tasks = vec![
            rt.spawn(monitor::watch(set, name)),
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
    /// With the line to print.
    pub fn stop(self, runtime: &HostRuntime) -> Result<(), Failure> {
        let RunningSet { served, tasks, control } = self;
        // Steps that are under way end by themselves.
        drop(tasks);
        let its = Rc::clone(&served);
        let stopped = live::wait(runtime, async move {
            its.end().await;
            its.set.stop().await
        });
        served.stopped(&stopped);
        let Some(control) = control else { return stopped };
        let said = runtime.runtime().block_on(control.ended());
        said.expect("a clock that runs ends it");
        stopped
    }
}
