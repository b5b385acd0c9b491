//! A volume of this host behind NBD: our own server on a thread and an executor of its own, and a client of
//! it as the volume that is measured.
//!
//! So the price of the protocol is the only difference from the same volume measured as it is: the devices, the
//! array and its reactor are the same code on the same files, and a unix socket, a server and a client lie
//! between them and the load. The server works beside the load, as a server does that is a process of its
//! own; the processor time that is measured is that of both.
//!
//! The disks lie on the server's thread. Their counters are asked for over a channel, while the load waits
//! between two rounds. The socket lies in a folder of its own, which only this user enters, in the
//! system's folder for temporary files: names of sockets are short. It is removed at the end.

use super::array;
use super::files::open_disks;
use super::layout::Layout;
use super::views::FilterView;
use export::nbd::{Client, ClientOptions, Export, Server};
use export::tls::Tls;
use futures_util::future::{Either, select};
use host::{Address, FileOptions, HostRuntime, ReactorKind, SocketListener, SocketStream};
use lab::measure::{DiskSample, DiskView};
use lab::target::TargetError;
use rt::sync::{mpsc, oneshot};
use rt::{DeviceRef, Listener};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc as between_threads;
use std::thread::JoinHandle;

/// Names for the socket's folder that are tried: a run that was killed may have left its own.
const FOLDERS_TRIED_MAX: u64 = 1000;

/// What is to be served.
pub(super) struct Plan {
    /// How I/O reaches the system.
    pub(super) reactor: ReactorKind,
    /// The files or block devices.
    pub(super) files: Vec<PathBuf>,
    pub(super) options: FileOptions,
    /// The layout over them, with its name.
    pub(super) name: String,
    pub(super) layout: Layout,
}

/// A question for the disks' counters; where the answer goes.
type Ask = between_threads::SyncSender<Vec<DiskSample>>;

/// A server that runs. See the [module](self). Dropped, it stops.
pub(super) struct Served {
    folder: Folder,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), TargetError>>>,
    asks: mpsc::Sender<Ask>,
    disks: Vec<String>,
}

impl Served {
    /// Opens the volume and serves it; returns once the server listens.
    ///
    /// # Errors
    /// Where the volume can't be opened or nothing can listen.
    pub(super) fn start(plan: Plan) -> Result<Served, TargetError> {
        let folder = Folder::make()?;
        let address = folder.address();
        let (stop, stopped) = oneshot::channel();
        // One asks at a time, and waits for its answer.
        let (asks, asked) = mpsc::channel(1);
        let (ready, listens) = between_threads::sync_channel(1);
        let thread = std::thread::Builder::new().name("nbd server".to_owned()).spawn(move || {
            let mut ready = Some(ready);
            let served = serve(plan, &address, stopped, asked, &mut ready);
            // Before it listens an error goes to who waits for that, later to who joins the thread.
            match (served, ready) {
                // Nobody waits any more where the run was given up.
                (Err(error), Some(ready)) => ready.try_send(Err(error)).or(Ok(())),
                (served, _) => served,
            }
        });
        let thread = thread.map_err(|error| failed("starting the server's thread", &error))?;
        let lost = |_| failed("starting the NBD server", &"its thread has ended");
        let mut served =
            Served { folder, stop: Some(stop), thread: Some(thread), asks, disks: Vec::new() };
        served.disks = listens.recv().map_err(lost)??;
        Ok(served)
    }

    /// The volume, over the socket.
    ///
    /// # Errors
    /// Where it can't be reached.
    pub(super) fn connect(&self, runtime: &HostRuntime) -> Result<Rc<Client>, TargetError> {
        let stream = SocketStream::connect(&runtime.host(), &self.folder.address())
            .map_err(|error| failed("connecting to the NBD server", &error))?;
        let rt = runtime.rt();
        let connected = runtime.runtime().block_on(async move {
            Client::connect(&rt, Rc::new(stream), &ClientOptions::default()).await
        });
        let client = connected.expect("a socket's I/O ends");
        client.map(Rc::new).map_err(|error| failed("connecting to the NBD server", &error))
    }

    /// The disks' view, one of each.
    pub(super) fn views(&self) -> Vec<Rc<dyn DiskView>> {
        let views = self.disks.iter().enumerate().map(|(disk, name)| {
            let view = ServedView { name: name.clone(), disk, asks: self.asks.clone() };
            Rc::new(view) as Rc<dyn DiskView>
        });
        views.collect()
    }

    /// Stops the server, and waits until all is flushed and the socket is gone.
    ///
    /// # Errors
    /// Where a flush failed, or accepting did.
    pub(super) fn stop(mut self) -> Result<(), TargetError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TargetError> {
        // Where it was sent, or nobody is there to take it, the thread ends by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(failed("serving over NBD", &"the server's thread panicked")),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Who wants to know of errors has called `stop`.
        let _ = self.end();
    }
}

/// The server's thread, from the first file to the last flush.
fn serve(
    plan: Plan,
    address: &Address,
    stopped: oneshot::Receiver<()>,
    mut asked: mpsc::Receiver<Ask>,
    ready: &mut Option<between_threads::SyncSender<Result<Vec<String>, TargetError>>>,
) -> Result<(), TargetError> {
    let runtime = HostRuntime::new(plan.reactor)
        .map_err(|error| failed("starting the server's reactor", &error))?;
    let rt = runtime.rt();
    let mut disks: Vec<DeviceRef> = Vec::new();
    let mut views: Vec<FilterView> = Vec::new();
    for view in open_disks(&runtime, &plan.files, plan.options)? {
        disks.push(Rc::clone(&view.stats) as DeviceRef);
        views.push(view);
    }
    let names = views.iter().map(|view| view.name.clone()).collect();
    let built = array::build(&rt, &plan.name, &plan.layout, disks)?;
    let export = Export {
        name: String::new(),
        description: plan.name,
        device: built.device,
        read_only: plan.options.read_only,
    };
    let server = Server::new(&rt, vec![export], Tls::off())
        .map_err(|error| failed("serving over NBD", &error))?;
    let listener = SocketListener::bind(&runtime.host(), address)
        .map_err(|error| failed("serving over NBD", &error))?;
    // Nobody waits any more where the run was given up.
    let _ = ready.take().map(|ready| ready.try_send(Ok(names)));
    rt.spawn(async move {
        while let Some(answer) = asked.recv().await {
            // Nor here.
            let _ = answer.try_send(views.iter().map(FilterView::sample).collect());
        }
    })
    .detach();
    let served = runtime.runtime().block_on(async move {
        let listener = Rc::new(listener) as Rc<dyn Listener>;
        let accepted = match select(pin!(server.listen(listener)), stopped).await {
            Either::Left((ended, _)) => ended.map_err(|error| failed("accepting", &error)),
            // Told to stop, or nobody is there any more who could tell.
            Either::Right(_) => Ok(()),
        };
        server.stop();
        let drained = server.drained().await;
        accepted.and(drained.map_err(|error| failed("flushing what was served", &error)))
    });
    served.expect("a server's I/O ends")
}

fn failed(doing: &str, why: &dyn ToString) -> TargetError {
    TargetError::Failed {
        doing: doing.to_owned(),
        why: why.to_string(),
        mend: "or leave out access = \"nbd\"".to_owned(),
    }
}

/// A disk on the server's thread.
struct ServedView {
    name: String,
    disk: usize,
    asks: mpsc::Sender<Ask>,
}

impl DiskView for ServedView {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn sample(&self) -> DiskSample {
        let (answer, answered) = between_threads::sync_channel(1);
        // A server that is gone has ended the measurement with an error by now.
        let samples = self.asks.try_send(answer).ok().and_then(|()| answered.recv().ok());
        samples.and_then(|samples| samples.get(self.disk).copied()).unwrap_or_default()
    }
}

/// The folder of the socket, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Folder, TargetError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        for _ in 0..FOLDERS_TRIED_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("spindle-lab-{process}-{number}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(failed(&format!("making the folder {}", path.display()), &error));
                }
            }
        }
        let place = std::env::temp_dir();
        Err(failed(&format!("making a folder in {}", place.display()), &"all names are taken"))
    }

    fn address(&self) -> Address {
        Address::Unix(self.0.join("socket"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The listener has removed the socket. What can't be removed stays, with a name that says whose it is.
        let _ = std::fs::remove_dir(&self.0);
    }
}
