//! RAID sets that are served by executors of their own: threads, each with what lies on its sets.
//!
//! ```text
//!   the executor of the connections              an executor of sets
//!   sockets, TLS, protocol ─▶ Elsewhere ══▶ Gate ─▶ volumes ─▶ sets, their caretakers and control sockets
//! ```
//!
//! Exports that lie on one set belong together (`divided`): they go to one executor, which opens the set as if it
//! served alone. Exports that touch no set, and such as are only read, stay with the connections; so do those on sets below pools
//! that are written, and those pools themselves.
//!
//! **The end.** An executor of sets runs until nobody can ask for its devices any more; then it stops its sets cleanly.
//! So who has started one drops all its devices, and the executor that they are on, and then awaits
//! `Apart::end`. Where such a thread panics, its exports answer that the device is gone, and the end is a failure.

use super::exports::{ExportSettings, Held, Wanted, open, pool_of_volume};
use crate::disks::{Disks, Whole};
use crate::error::Error;
use crate::event::Events;
use crate::pools::{Pools, View};
use crate::sets::running::RunningSets;
use ::zfs::spa::OpenOptions;
use export::nbd::Export;
use futures_util::future::join_all;
use rt::Rt;
use rt::filter::{Elsewhere, Gate};
use rt::sync::oneshot;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// Executors of sets at the most: each is a thread with a ring of its own.
pub const EXECUTORS_MAX: usize = 64;

/// What pools lie on that are written: those that are held, and those of volumes.
fn below_pools(
    pools: &Pools,
    exports: &[ExportSettings],
    held: &[Held],
) -> Result<BTreeSet<Whole>, Error> {
    let mut below = BTreeSet::new();
    for Held { pool, .. } in held {
        if let Some(found) = pools.named(pool)? {
            below.extend(pools.lies_on(found));
        }
    }
    let volumes = exports.iter().filter(|settings| !settings.readonly);
    for volume in volumes.filter_map(|settings| settings.volume.as_ref()) {
        if let Some(found) = pool_of_volume(pools, volume)? {
            below.extend(pools.lies_on(&found));
        }
    }
    Ok(below)
}

/// The exports that stay, and those for each of so many executors at the most: what lies on one set is not divided.
///
/// # Errors
/// Where the devices can't be opened, or several volumes are called so.
pub(super) fn divided(
    events: &Events,
    devices: &[PathBuf],
    exports: Vec<ExportSettings>,
    held: &[Held],
    options: OpenOptions,
    executors: usize,
) -> Result<(Vec<ExportSettings>, Vec<Vec<ExportSettings>>), Error> {
    let by_force = exports.iter().any(ExportSettings::is_by_force);
    let disks = Disks::open_by_force(events, devices, by_force)?;
    disks.tell_complaints();
    let pools = Pools::over(disks, options);
    pools.tell_of_members();
    let (disks, below_pools) = (pools.disks(), below_pools(&pools, &exports, held)?);
    let mut stay = Vec::new();
    let mut groups: Vec<(BTreeSet<Whole>, Vec<ExportSettings>)> = Vec::new();
    for settings in exports {
        let below = match &settings.volume {
            Some(volume) => disks.lies_on(volume)?,
            None => BTreeSet::new(),
        };
        if below.is_empty() {
            stay.push(settings);
            continue;
        }
        let (mut all, mut together) = (below, vec![settings]);
        let (touched, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(of, _)| !of.is_disjoint(&all));
        // Those that were named first come first.
        for (of, settings) in touched.into_iter().rev() {
            all.extend(of);
            together.splice(0..0, settings);
        }
        groups = others;
        groups.push((all, together));
    }
    let mut apart: Vec<Vec<ExportSettings>> = Vec::new();
    let mut dealt = 0;
    for (below, settings) in groups {
        let is_on_set = below.iter().any(|whole| matches!(whole, Whole::Array(_)));
        let is_below_pool = !below.is_disjoint(&below_pools);
        if !is_on_set || is_below_pool || settings.iter().all(|settings| settings.readonly) {
            stay.extend(settings);
        } else if apart.len() < executors {
            apart.push(settings);
        } else {
            apart[dealt % executors].extend(settings);
            dealt += 1;
        }
    }
    Ok((stay, apart))
}

/// An export of another executor, on its way here.
struct Passed {
    name: String,
    description: String,
    read_only: bool,
    gate: Gate,
}

/// An executor of sets. See the [module](self).
pub(super) struct Apart {
    thread: JoinHandle<Result<(), Error>>,
}

impl Apart {
    /// Starts one that opens these exports. Returns them as the executor of `rt` has them.
    ///
    /// # Errors
    /// What can't be opened.
    pub(super) fn start(
        rt: &Rt,
        events: &Events,
        number: usize,
        devices: Vec<PathBuf>,
        exports: Vec<ExportSettings>,
        options: OpenOptions,
        view: View,
    ) -> Result<(Apart, Vec<Export>), Error> {
        let (pass, passed) = oneshot::channel();
        let events = events.clone();
        let thread = std::thread::Builder::new()
            .name(format!("sets-{number}"))
            .spawn(move || serve(&events, &devices, exports, options, &view, pass))
            .map_err(Error::Thread)?;
        let apart = Apart { thread };
        let Ok(passed) = passed.blocking_recv() else {
            // It has ended: with the reason.
            apart.end()?;
            return Err(Error::ExecutorEnded);
        };
        let here = |Passed { name, description, read_only, gate }| {
            let device = Elsewhere::new(rt, gate);
            Export { name, description, device, read_only }
        };
        Ok((apart, passed.into_iter().map(here).collect()))
    }

    /// Waits until its sets are stopped.
    ///
    /// # Errors
    /// What failed, also where the thread panicked.
    pub(super) fn end(self) -> Result<(), Error> {
        self.thread.join().unwrap_or(Err(Error::ExecutorPanicked))
    }
}

/// The thread.
fn serve(
    events: &Events,
    devices: &[PathBuf],
    exports: Vec<ExportSettings>,
    options: OpenOptions,
    view: &View,
    pass: oneshot::Sender<Vec<Passed>>,
) -> Result<(), Error> {
    let wanted = Wanted { exports, ..Wanted::default() };
    let served = open(events, devices, wanted, options, view, false)?;
    let disks = served.session.pools.disks();
    let context = disks.context();
    let (mut passed, mut tasks) = (Vec::new(), Vec::new());
    for Export { name, description, device, read_only } in served.exports {
        let (gate, task) = Gate::open(&context.rt(), device);
        passed.push(Passed { name, description, read_only, gate });
        tasks.push(task);
    }
    let mut running = RunningSets::default();
    running.start(context, disks.take_live(), None);
    // Where nobody takes them any more the tasks end at once.
    drop(pass.send(passed));
    let ended = context.runtime().block_on(join_all(tasks)).map(drop);
    ended.map_err(Error::from).and(running.stop(context))
}
