//! Workers on this host: each a thread with a runtime of its own.
//!
//! What a worker's I/O costs is then what the tool's costs for which it stands: a plain call on its own
//! thread, or a queue of its own. All runtimes have one clock. Each worker's tree counts what is asked
//! of it; the crew adds it up when the worker ends.

use super::tickets::Piped;
use host::{Clock, HostRuntime, HostTree, ReactorKind};
use rt::TreeError;
use rt::filter::{CountedTree, ReadFiles, Traffic};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use workload::crew::{Body, Calls, Crew, Place, WorkerLost};
use workload::tickets::{Counted, Tickets};

/// Stack of a worker's thread. The engines' futures live on the heap; the stack holds a few calls.
const STACK_BYTES: usize = 1 << 20;

/// How long [`ThreadCrew::traffic`] waits for workers that have given their results and end. An I/O of
/// theirs may still be under way where they were told to stop.
const END_MAX: Duration = Duration::from_secs(10);

/// A crew on this host. See the [module](self).
pub struct ThreadCrew {
    place: Place,
    conductor: Rc<CountedTree>,
    workers: Arc<Workers>,
    root: PathBuf,
    clock: Clock,
    queued: ReactorKind,
    /// The last tickets. Workers have tables of open files of their own, so a pipe is closed for the
    /// conductor only where the conductor is the last to let go of it.
    tickets: RefCell<Option<Arc<Piped>>>,
}

/// What is known of the workers.
#[derive(Default)]
struct Workers {
    state: Mutex<WorkersState>,
    ended: Condvar,
}

#[derive(Default)]
struct WorkersState {
    running: usize,
    /// What those asked that have ended.
    traffic: Traffic,
    read: ReadFiles,
}

impl Workers {
    fn lock(&self) -> MutexGuard<'_, WorkersState> {
        // Counters are whole whatever happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let tree = HostTree::open(&runtime.host(), root)?;
        let conductor = Rc::new(CountedTree::new(Rc::new(tree)));
        let place = Place::new(runtime.rt(), Rc::clone(&conductor) as _);
        let (root, workers) = (root.to_owned(), Arc::default());
        let tickets = RefCell::default();
        Ok(ThreadCrew { place, conductor, workers, root, clock, queued, tickets })
    }

    /// What the conductor and the workers asked of the tree. Waits until workers that are about to end
    /// have ended, so that nothing touches the tree any more.
    pub fn traffic(&self) -> (Traffic, ReadFiles) {
        let state = self.workers.lock();
        let waited =
            self.workers.ended.wait_timeout_while(state, END_MAX, |state| state.running > 0);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let (mut traffic, mut read) = (state.traffic, state.read.clone());
        drop(state);
        traffic += self.conductor.traffic();
        read.merge(&self.conductor.read());
        (traffic, read)
    }
}

impl Crew for ThreadCrew {
    fn place(&self) -> Place {
        self.place.clone()
    }

    /// Through a pipe, as bonnie++ does; in memory where there is none to be had.
    fn tickets(&self, all: Vec<u32>, takers: usize) -> Arc<dyn Tickets> {
        let Ok(piped) = Piped::new(&all, takers) else { return Arc::new(Counted::new(all)) };
        let piped = Arc::new(piped);
        *self.tickets.borrow_mut() = Some(Arc::clone(&piped));
        piped
    }

    fn begin(&self, name: &str, calls: Calls, body: Body) -> Result<(), WorkerLost> {
        let kind = match calls {
            Calls::Blocking => ReactorKind::Blocking,
            Calls::Queued => self.queued,
        };
        let (clock, root) = (self.clock, self.root.clone());
        self.workers.lock().running += 1;
        let workers = Arc::clone(&self.workers);
        let (traffic, read) = (Traffic::default(), ReadFiles::default());
        let mut presence = Presence { workers, traffic, read };
        // Where the runtime or the tree can't be had (no more open files), the body is dropped, and
        // who waits for the worker hears that it is lost.
        let work = move || {
            let Ok(runtime) = HostRuntime::with_clock(kind, clock) else { return };
            let Ok(tree) = HostTree::open_alone(&runtime.host(), &root) else { return };
            let tree = Rc::new(CountedTree::new(Rc::new(tree)));
            let place = Place::new(runtime.rt(), Rc::clone(&tree) as _);
            let ended = runtime.runtime().block_on(async move { body(place).await });
            debug_assert!(ended.is_ok(), "a real runtime never knows that it would wait for ever");
            drop(runtime);
            (presence.traffic, presence.read) = (tree.traffic(), tree.read());
            drop(presence);
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(work)
            .map(drop)
            .map_err(|_| WorkerLost { worker: name.to_owned() })
    }
}

/// A worker that has not ended.
struct Presence {
    workers: Arc<Workers>,
    /// What it asked of its tree, and of which files; known at its end.
    traffic: Traffic,
    read: ReadFiles,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.workers.lock();
        state.running -= 1;
        state.traffic += self.traffic;
        state.read.merge(&self.read);
        drop(state);
        self.workers.ended.notify_all();
    }
}
