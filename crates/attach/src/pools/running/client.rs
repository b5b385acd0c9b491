//! Asking who holds a pool.

use super::connection::{answer, connect};
use super::files::{Files, Lent};
use super::protocol::{Ask, GO, Health, Holder, MountedDataset};
use crate::control::client::Server;
use crate::error::Error;
use crate::pools::find::Pools;
use ::zfs::spa::{FoundPool, PoolState};
use export::nbd::{Client, ClientOptions};
use futures_util::future::{Either, select};
use rt::{Buf, BufMut, SgList, StreamRef};
use serde::de::DeserializeOwned;
use std::pin::pin;
use std::rc::Rc;

/// Who only tries a command out has nothing changed elsewhere.
fn asked(pools: &Pools, found: &FoundPool, ask: Ask) -> Result<Option<Server>, Error> {
    if ask.changes() && pools.disks().context().host().is_covered() {
        return match self::ask(pools, found, Ask::Who)? {
            None => Ok(None),
            Some(Holder { process, what }) => {
                Err(Error::NotTried { name: found.name.clone(), process, what })
            }
        };
    }
    connect(pools.disks().context(), found, pools.paths_of(found), ask)
}

/// Asks who holds a pool for something; none where nobody holds it.
///
/// # Errors
/// What is answered, and where it ends before it says anything.
pub fn ask<T: DeserializeOwned>(
    pools: &Pools,
    found: &FoundPool,
    ask: Ask,
) -> Result<Option<T>, Error> {
    let Some(mut server) = asked(pools, found, ask)? else { return Ok(None) };
    answer(&mut server).map(Some)
}

/// What who holds a pool knows of it; nothing where nobody does, or doesn't answer.
pub fn health(pools: &Pools, found: &FoundPool) -> Health {
    let asked = match found.state {
        PoolState::Active => ask(pools, found, Ask::Health),
        _ => Ok(None),
    };
    asked.ok().flatten().unwrap_or_default()
}

/// A connection to who holds a pool, over which what was asked for goes on; none where nobody holds it.
fn borrow(pools: &Pools, found: &FoundPool, ask: Ask) -> Result<Option<StreamRef>, Error> {
    let Some(mut server) = asked(pools, found, ask)? else { return Ok(None) };
    server.result()?;
    let stream = server.into_stream(pools.disks().context());
    let sent = Rc::clone(&stream);
    let go = SgList::from(Buf::copy_of(&[GO]));
    let ends = |_| Error::HolderEnds { name: found.name.clone() };
    pools.wait(async move { sent.write(go).await }).map_err(ends)?;
    Ok(Some(stream))
}

/// A volume of a pool that somebody holds, as a device; none where nobody does.
///
/// # Errors
/// It can't be had.
pub fn volume(pools: &Pools, found: &FoundPool, name: &str) -> Result<Option<Client>, Error> {
    let ask = Ask::Volume { name: name.to_owned() };
    let Some(stream) = borrow(pools, found, ask)? else { return Ok(None) };
    let (rt, options) = (pools.rt(), ClientOptions::default());
    let client = pools.wait(async move { Client::connect(&rt, stream, &options).await });
    let failed = |error| Error::Borrowed { name: name.to_owned(), error };
    client.map(Some).map_err(failed)
}

/// The files of a dataset of a pool that somebody holds; none where nobody does.
///
/// # Errors
/// They can't be had.
pub fn files(pools: &Pools, found: &FoundPool, name: &str) -> Result<Option<Files>, Error> {
    let stream = borrow(pools, found, Ask::Files { name: name.to_owned() })?;
    Ok(stream.map(|stream| Files::Lent(Lent::over(stream))))
}

/// What is mounted of a pool: nothing where nobody holds it.
///
/// # Errors
/// What is answered.
pub fn mounts(pools: &Pools, found: &FoundPool) -> Result<Vec<MountedDataset>, Error> {
    Ok(ask(pools, found, Ask::Mounts)?.unwrap_or_default())
}

/// A mount that who holds the pool has made for this process.
pub struct LeasedMount {
    /// What is mounted.
    pub mounted: MountedDataset,
    stream: StreamRef,
}

impl LeasedMount {
    /// Waits until it ends, or ends it when this does: then it is unmounted.
    pub async fn until(self, end: impl Future<Output = ()>) {
        let LeasedMount { stream, .. } = self;
        {
            let gone = pin!(stream.read(BufMut::for_overwrite(1), 0));
            if let Either::Left(_) = select(gone, pin!(end)).await {
                return;
            }
        }
        // Who holds the pool may end itself.
        let _ = stream.write(SgList::from(Buf::copy_of(&[GO]))).await;
        let _ = stream.read(BufMut::for_overwrite(1), 0).await;
    }
}

/// Has who holds a pool mount a dataset; none where nobody holds it.
///
/// # Errors
/// It is not mounted.
pub fn mount(pools: &Pools, found: &FoundPool, wanted: Ask) -> Result<Option<LeasedMount>, Error> {
    let Some(mut server) = asked(pools, found, wanted)? else { return Ok(None) };
    let mounted = answer(&mut server)?;
    let stream = server.into_stream(pools.disks().context());
    Ok(Some(LeasedMount { mounted, stream }))
}

/// Has who holds a pool close it, and waits until nothing holds its devices; false where nobody holds it.
///
/// # Errors
/// It is not closed.
pub fn end(pools: &Pools, found: &FoundPool, wanted: Ask) -> Result<bool, Error> {
    let Some(mut server) = asked(pools, found, wanted)? else { return Ok(false) };
    server.result()?;
    server.released(pools.disks().context());
    Ok(true)
}

/// Refuses a pool that somebody holds, and says who.
///
/// # Errors
/// Somebody does.
pub fn refuse_held(pools: &Pools, found: &FoundPool) -> Result<(), Error> {
    match ask::<Holder>(pools, found, Ask::Who)? {
        None => Ok(()),
        Some(Holder { process, what }) => {
            Err(Error::PoolHeld { name: found.name.clone(), process, what })
        }
    }
}
