//! What is served, where, and on how many executors: from opening to the clean end.

use super::apart::{Apart, divided};
use super::exports::{ExportSettings, Wanted, open};
use super::held::HeldPools;
use super::mounts::{MountSettings, Points, held};
use super::until::{Clients, Commands, OfPools, until_beside};
use crate::ending::{Ending, Told};
use crate::error::Error;
use crate::event::{Event, Events};
use crate::pools::{HeldBy, View, carry_out_and_close_until};
use crate::sets::running::RunningSets;
use ::zfs::spa::OpenOptions;
use futures_util::future::{join_all, pending, select};
use host::Address;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

/// See the [module](self).
pub struct Plan {
    /// Where volumes lie.
    pub devices: Vec<PathBuf>,
    /// What is served.
    pub exports: Vec<ExportSettings>,
    /// What is mounted.
    pub mounts: Vec<MountSettings>,
    /// Pools that are held for writing besides, for commands; with whether each is though it was not exported.
    pub pools: Vec<(String, bool)>,
    /// What the mountpoints of the pools that are held are below.
    pub altroot: Option<PathBuf>,
    /// Threads that RAID sets are dealt out to; with none they stay with the connections.
    pub executors: usize,
    /// How pools are opened.
    pub options: OpenOptions,
    /// How datasets are looked at.
    pub view: View,
    /// Where clients connect.
    pub addresses: Vec<Address>,
    /// What holds for them.
    pub clients: Clients,
    /// Whether the stop of a set ends it all: only where nothing else is served.
    pub ends_with_set: bool,
    /// Where only mounts are served: it ends when nothing of the pools is mounted any more.
    pub ends_with_mounts: bool,
    /// The command.
    pub what: &'static str,
}

/// Opens all and serves it until it is told to end. `told` is asked for when all is open: until then a signal ends the
/// program as it does by itself. When all pools are held, `begin` may begin more with them. Commands that find a pool of it held
/// are carried out meanwhile.
///
/// # Errors
/// What can't be opened or served, and what failed at the end.
pub fn run<E: From<Error>>(
    events: &Events,
    plan: Plan,
    told: impl FnOnce() -> Result<Arc<Told>, E>,
    begin: impl FnOnce(&[HeldBy]) -> Result<(), E>,
    commands: Commands<'_>,
) -> Result<(), E> {
    let Plan { devices, exports, mounts, pools, executors, options, view, .. } = plan;
    let Plan { addresses, clients, ends_with_set, ends_with_mounts, what, altroot, .. } = plan;
    let altroot = match altroot {
        Some(altroot) if !altroot.is_absolute() => {
            return Err(Error::AltRoot { directory: altroot }.into());
        }
        altroot => altroot,
    };
    MountSettings::check(&mounts)?;
    let held = held(&mounts, pools);
    let (stay, elsewhere) = match executors {
        0 => (exports, Vec::new()),
        executors => divided(events, &devices, exports, &held, options, executors)?,
    };
    let is_one = elsewhere.is_empty();
    let wanted = Wanted { exports: stay, held, reads_pools: !mounts.is_empty() };
    let mut served = open(events, &devices, wanted, options, &view, is_one)?;
    let mut exports = std::mem::take(&mut served.exports);
    let count = exports.len();
    let session = &served.session;
    let context = session.pools.disks().context();
    let mounted: Vec<String> = mounts.iter().map(|mount| mount.dataset.clone()).collect();
    let open_pools = served.pools(&mounted)?;
    let points = Points::take(session, &served.live, mounts)?;
    let ending = Rc::new(Ending::by(&told()?));
    let mut others = Vec::new();
    let ends = ends_with_set.then_some(&ending);
    let mut sets = RunningSets::default();
    sets.start(context, session.pools.disks().take_live(), ends);
    let pools: Vec<HeldBy> = open_pools.iter().map(|one| one.pool.clone()).collect();
    if let Some(altroot) = &altroot {
        pools.iter().for_each(|pool| pool.set_altroot(altroot));
    }
    // Sets that are open for none of the exports are below the pool.
    let of_pools: usize = pools.iter().map(|pool| pool.exports.count()).sum();
    let has_others = of_pools < count || !is_one || !points.are_written();
    let mut held = HeldPools::new(&served, &ending, has_others, sets);
    let mut outcome: Result<(), E> = held.start(open_pools, what, &commands.queue).map_err(E::from);
    for (number, settings) in elsewhere.into_iter().enumerate() {
        let (devices, view) = (devices.clone(), view.clone());
        match Apart::start(&context.rt(), events, number, devices, settings, options, view) {
            Ok((other, its)) => {
                others.push(other);
                exports.extend(its);
            }
            Err(error) => outcome = Err(error.into()),
        }
    }
    let mut mounted = Vec::new();
    outcome = outcome.and_then(|()| Ok(points.serve(&mut mounted)?)).and_then(|()| begin(&pools));
    outcome = match outcome {
        // Who wants only mounts listens nowhere.
        Ok(()) if exports.is_empty() && !(mounted.is_empty() && held.count() == 0) => {
            context.tell(Event::Holding { pools: held.count() });
            let tables = if ends_with_mounts { pools.clone() } else { Vec::new() };
            let ending = Rc::clone(&ending);
            let told = async move {
                let unmounted = async {
                    match &tables[..] {
                        [] => pending().await,
                        tables => join_all(tables.iter().map(|pool| pool.mounts.emptied())).await,
                    }
                };
                select(pin!(ending.wait()), pin!(unmounted)).await;
            };
            let Commands { queue, carry_out } = commands;
            let close = |pool: HeldBy| held.close(&pool);
            carry_out_and_close_until(context, told, queue, carry_out, close).map_err(E::from)
        }
        Ok(()) => {
            let of_pools = OfPools { pools: &pools, close: &mut |pool| held.close(&pool) };
            // What is mounted is unmounted, and what is held is let go, whatever came of it.
            until_beside(&ending, context, exports, &addresses, clients, commands, of_pools)
                .map_err(E::from)
        }
        Err(error) => {
            drop(exports);
            Err(error)
        }
    };
    // The first failure is what it ends with; those after it are told.
    let and = |outcome: Result<(), E>, next: Result<(), Error>| match (outcome, next) {
        (Err(first), Err(error)) => {
            context.tell(Event::Complaint(error.to_string()));
            Err(first)
        }
        (outcome, next) => outcome.and(next.map_err(E::from)),
    };
    for mount in mounted {
        let ended = context.finish(mount.until(std::future::ready(())));
        outcome = and(outcome, ended.map(|ended| ended.tell(context)));
    }
    outcome = and(outcome, held.stop());
    // Its executor goes with it, and with that whoever could ask the others.
    drop((pools, served));
    for other in others {
        outcome = outcome.and(other.end().map_err(E::from));
    }
    outcome
}
