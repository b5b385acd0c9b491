//! Serves devices over NBD until it is told to end.
//!
//! Whoever has devices under names (files, arrays) calls [`until`]. It tells where clients find it once it listens
//! everywhere; when it is [told](Ending) to end nothing more is accepted, what is under way is finished, all is flushed, and
//! it returns.

use super::uri;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::Error;
use crate::event::Event;
use crate::pools::{Asked, HeldBy, Queue, carry_out_and_close_until};
use crate::told::Told;
use export::nbd::{CLIENT_MEMORY, CLIENT_MEMORY_MIN, Export, Server};
use export::tls::{Tls, TlsMode};
use futures_util::future::{Either, select, select_all};
use host::{Address, SocketListener};
use rt::Listener;
use std::pin::pin;
use std::rc::Rc;
use std::str::FromStr;
use stdx::ByteCount;
use volume::content::{Content, identify};

/// Addresses a server listens on at the most: each is a descriptor and a wait in the reactor.
pub const ADDRESSES_MAX: usize = 16;

/// Exports of which it is told where clients find them: of more, the first.
const TOLD_MAX: usize = 8;

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

/// Commands that are carried out while something is served.
pub struct Commands<'a> {
    /// They.
    pub queue: Queue,
    /// By whom.
    pub carry_out: &'a dyn Fn(Asked),
}

impl Commands<'_> {
    /// Where no pool is held, nobody asks.
    pub fn none() -> Commands<'static> {
        Commands { queue: Queue::default(), carry_out: &drop }
    }
}

/// What is told of an export: its name, whether it is only read, and what it holds where that is known.
fn seen(context: &Context, export: &Export) -> (String, bool, Option<Content>) {
    let device = Rc::clone(&export.device);
    // One that can't be read tells its clients so.
    let looking = async move { Ok::<_, Error>(identify(&device).await.ok().flatten()) };
    let content = context.finish(looking).ok().flatten();
    (export.name.clone(), export.read_only, content)
}

/// Serves `exports` on all of these addresses until it is told to end.
///
/// # Errors
/// What can't be served, where nothing can listen, and a flush that failed.
pub fn until(
    ending: &Rc<Ending>,
    context: &Context,
    exports: Vec<Export>,
    addresses: &[Address],
    clients: Clients,
    commands: Commands<'_>,
) -> Result<(), Error> {
    let close = &mut |_: HeldBy| unreachable!("no pool is held");
    let none = OfPools { pools: &[], close };
    until_beside(ending, context, exports, addresses, clients, commands, none)
}

/// Pools that are held by who serves.
pub(super) struct OfPools<'a> {
    /// They.
    pub(super) pools: &'a [HeldBy],
    /// Closes one of several, when its exports have ended.
    pub(super) close: &'a mut dyn FnMut(HeldBy),
}

/// The same beside pools that are held.
pub(super) fn until_beside(
    ending: &Rc<Ending>,
    context: &Context,
    exports: Vec<Export>,
    addresses: &[Address],
    clients: Clients,
    commands: Commands<'_>,
    of_pools: OfPools<'_>,
) -> Result<(), Error> {
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        return Err(Error::Addresses { count: addresses.len(), most: ADDRESSES_MAX });
    }
    let count = exports.len();
    let Clients { tls, memory } = clients;
    let is_tls = tls.mode() != TlsMode::Off;
    let seen: Vec<(String, bool, Option<Content>)> =
        exports.iter().take(TOLD_MAX).map(|export| seen(context, export)).collect();
    let server = Server::with_memory(&context.rt(), exports, tls, memory)?;
    let failed = tell_failures(context, &server);
    let mut listeners = Vec::new();
    for address in addresses {
        let listener = SocketListener::bind(&context.host(), address)?;
        listeners.push(Rc::new(listener) as Rc<dyn Listener>);
    }
    of_pools.pools.iter().for_each(|pool| pool.exports.served_by(&server));
    let counted = server.clone();
    ending.serves(move || counted.connections());
    let ending = Rc::clone(ending);
    let names: Vec<Rc<str>> = listeners.iter().map(|listener| listener.name()).collect();
    context.listens_at(names.iter().filter_map(|name| name.parse().ok()));
    let on = names.iter().map(ToString::to_string).collect();
    context.tell(Event::Serving { exports: count, on });
    if let Some(first) = names.first() {
        for (name, read_only, content) in seen {
            let uri = uri::of(first, &name, is_tls);
            context.tell(Event::Reached { uri, read_only, content });
        }
    }

    let serving = async move {
        let accepting = listeners.into_iter().zip(names).map(|(listener, name)| {
            let server = server.clone();
            Box::pin(async move {
                let ended = server.listen(listener).await;
                ended.map_err(|error| Error::Accepting { name: name.to_string(), error })
            })
        });
        let accepting = pin!(select_all(accepting));
        let accepted = match select(accepting, pin!(ending.wait())).await {
            Either::Left(((ended, ..), _)) => ended,
            Either::Right(_) => Ok(()),
        };
        server.stop();
        let drained = server.drained().await.map_err(Error::from);
        accepted.and(drained)
    };
    let Commands { queue, carry_out } = commands;
    let served = carry_out_and_close_until(context, serving, queue, carry_out, of_pools.close);
    if let Some(failed) = failed.counted() {
        context.tell(Event::RequestsSum { failed });
    }
    served?
}

/// Tells of clients' requests that fail, and counts them.
fn tell_failures(context: &Context, server: &Server) -> Rc<Told> {
    let (events, failed) = (context.events().clone(), Rc::<Told>::default());
    let told = Rc::clone(&failed);
    server.tell_failures(move |export, error| {
        let one = || Event::RequestFailed { export: export.to_owned(), error: error.clone() };
        told.tell(&events, one, Event::RequestsCounted);
    });
    failed
}
