//! Serves devices over NBD until the program is told to stop.
//!
//! Whoever has devices under names (files, arrays) calls [`until_told_to_stop`]. It says in one line where
//! clients find it once it listens everywhere; SIGINT or SIGTERM end it: nothing more is accepted, what is
//! under way is finished, all is flushed, and it returns. A second signal ends the program at once. Who must be able to
//! end it in another way (`md stop`, through the set's socket) makes the wish itself and calls [`until`].

use crate::commands::{Failure, print};
use crate::signals;
use export::nbd::{CLIENT_MEMORY, CLIENT_MEMORY_MIN, Export, Server};
use export::tls::Tls;
use futures_util::future::{Either, select, select_all};
use host::{Address, HostRuntime, SocketListener};
use rt::Listener;
use rt::sync::Notify;
use std::pin::pin;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::ByteCount;

/// Addresses a server listens on at the most: each is a descriptor and a wait in the reactor.
pub const ADDRESSES_MAX: usize = 16;

/// What holds for all clients of a server.
pub struct Clients {
    /// Whether they may or must encrypt.
    pub tls: Tls,
    /// The memory of all their requests together.
    pub memory: ByteCount,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients { tls: Tls::off(), memory: CLIENT_MEMORY }
    }
}

/// Memory for clients' requests, as people write it.
///
/// # Errors
/// Where that is no size, or one with which large requests could not be served.
pub fn memory(text: &str) -> Result<ByteCount, String> {
    let memory = ByteCount::from_str(text).map_err(|error| error.to_string())?;
    match memory < CLIENT_MEMORY_MIN {
        true => Err(format!("clients' requests need {CLIENT_MEMORY_MIN} at the least")),
        false => Ok(memory),
    }
}

/// Serves `exports` on all of these addresses until a signal ends it.
///
/// # Errors
/// With the line to print: what can't be served, where nothing can listen, and a flush that failed.
pub fn until_told_to_stop(
    runtime: &HostRuntime,
    exports: Vec<Export>,
    addresses: &[Address],
    clients: Clients,
) -> Result<(), Failure> {
    until(&Told::by_signals()?, runtime, exports, addresses, clients)
}

/// The same, until `told` is.
///
/// # Errors
/// As [`until_told_to_stop`].
pub fn until(
    told: &Arc<Told>,
    runtime: &HostRuntime,
    exports: Vec<Export>,
    addresses: &[Address],
    clients: Clients,
) -> Result<(), Failure> {
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        let count = addresses.len();
        let text = format!("{count} addresses to listen on; name 1 to {ADDRESSES_MAX}");
        return Err(Failure::usage(text));
    }
    let count = exports.len();
    let Clients { tls, memory } = clients;
    let server = Server::with_memory(&runtime.rt(), exports, tls, memory);
    let server = server.map_err(Failure::usage)?;
    let mut listeners = Vec::new();
    for address in addresses {
        let listener = SocketListener::bind(&runtime.host(), address).map_err(Failure::failed)?;
        listeners.push(Rc::new(listener) as Rc<dyn Listener>);
    }
    let told = Arc::clone(told);
    let names: Vec<Rc<str>> = listeners.iter().map(|listener| listener.name()).collect();
    let exports = if count == 1 { "1 export".into() } else { format!("{count} exports") };
    print(&format!("spindle: serving {exports} over NBD on {}\n", names.join(", ")))?;

    let outcome = runtime.runtime().block_on(async move {
        let accepting = listeners.into_iter().zip(names).map(|(listener, name)| {
            let server = server.clone();
            Box::pin(async move {
                let ended = server.listen(listener).await;
                ended.map_err(|error| Failure::failed(format!("accepting on {name}: {error}")))
            })
        });
        let accepting = pin!(select_all(accepting));
        let accepted = match select(accepting, pin!(told.wait())).await {
            Either::Left(((ended, ..), _)) => ended,
            Either::Right(_) => Ok(()),
        };
        server.stop();
        let drained = server.drained().await.map_err(Failure::failed);
        accepted.and(drained)
    });
    outcome.map_err(Failure::failed)?
}

/// The wish that what serves ends: of signals, or of somebody who [tells](Told::tell).
pub struct Told {
    stop: AtomicBool,
    notify: Notify,
}

impl Told {
    /// Waits for them from now on; once in a program.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn by_signals() -> Result<Arc<Told>, Failure> {
        let told = Arc::new(Told { stop: AtomicBool::new(false), notify: Notify::new() });
        let handler = Arc::clone(&told);
        signals::on_signal(move || {
            if handler.stop.swap(true, Ordering::SeqCst) {
                std::process::exit(1);
            }
            handler.notify.notify_one();
        })?;
        Ok(told)
    }

    /// Ends it as a first signal does; a signal that comes then is the first.
    pub fn tell(&self) {
        self.notify.notify_one();
    }

    /// Waits until there was one.
    pub async fn wait(&self) {
        // A signal that came before is kept.
        self.notify.notified().await;
    }
}
