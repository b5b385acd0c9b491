//! Workers on this host: each a thread with a runtime of its own.
//!
//! What a worker's I/O costs is then what the tool's costs for which it stands: a plain call on its own
//! thread, or a queue of its own. All runtimes have one clock.

use host::{Clock, HostRuntime, HostTree, ReactorKind};
use rt::TreeError;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use workload::crew::{Body, Calls, Crew, Place, WorkerLost};

/// Stack of a worker's thread. The engines' futures live on the heap; the stack holds a few calls.
const STACK_BYTES: usize = 1 << 20;

/// A crew on this host. See the [module](self).
pub struct ThreadCrew {
    place: Place,
    root: PathBuf,
    clock: Clock,
    queued: ReactorKind,
}

impl ThreadCrew {
    /// A crew on the tree below `root`, whose conductor runs on `runtime`. Workers with queued calls
    /// get a reactor of the kind `queued`.
    ///
    /// # Errors
    /// Where there is no such directory.
    pub fn new(
        runtime: &HostRuntime,
        clock: Clock,
        root: &Path,
        queued: ReactorKind,
    ) -> Result<ThreadCrew, TreeError> {
        let tree = Rc::new(HostTree::open(&runtime.host(), root)?);
        let place = Place { rt: runtime.rt(), tree };
        Ok(ThreadCrew { place, root: root.to_owned(), clock, queued })
    }
}

impl Crew for ThreadCrew {
    fn place(&self) -> Place {
        self.place.clone()
    }

    fn begin(&self, name: &str, calls: Calls, body: Body) -> Result<(), WorkerLost> {
        let kind = match calls {
            Calls::Blocking => ReactorKind::Blocking,
            Calls::Queued => self.queued,
        };
        let (clock, root) = (self.clock, self.root.clone());
        // Where the runtime or the tree can't be had (no more open files), the body is dropped, and
        // who waits for the worker hears that it is lost.
        let work = move || {
            let Ok(runtime) = HostRuntime::with_clock(kind, clock) else { return };
            let Ok(tree) = HostTree::open(&runtime.host(), &root) else { return };
            let place = Place { rt: runtime.rt(), tree: Rc::new(tree) };
            let ended = runtime.runtime().block_on(async move { body(place).await });
            debug_assert!(ended.is_ok(), "a real runtime never knows that it would wait for ever");
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(work)
            .map(drop)
            .map_err(|_| WorkerLost { worker: name.to_owned() })
    }
}
