//! Snapshots of one moment: all of them in one group, or none.

use crate::error::Error;
use ::zfs::ZfsError;
use ::zfs::dsl::catalog::Node;
use ::zfs::spa::datasets::SNAPSHOT_BLOCKS;
use ::zfs::spa::datasets::limits::check_properties;
use ::zfs::spa::datasets::reserve::Spares;
use ::zfs::spa::live::{Live, LiveError};
use std::rc::Rc;
use zfs_format::zap::leaf::LeafValue;

/// A dataset that a snapshot is taken of.
struct Wanted {
    number: u64,
    /// The snapshot's own name.
    snapshot: String,
    /// The whole of it.
    whole: String,
}

/// Snapshots that are to be taken.
pub struct NewSnapshots {
    /// Datasets, each with the name of its snapshot.
    pub wanted: Vec<(String, String)>,
    /// Of all below them, too.
    pub recursive: bool,
    /// What users' own properties are set to on each.
    pub properties: Vec<(String, LeafValue)>,
}

/// Takes snapshots.
///
/// # Errors
/// There is no such dataset, one can't be taken, or the pool is not written any more.
pub async fn take(live: &Live, new: &NewSnapshots) -> Result<(), Error> {
    let names = &new.wanted;
    let all = find(live, names, new.recursive).await?;
    let done = live.task(async |tasks| {
        // All of them or none: each is checked before the first is taken.
        for wanted in &all {
            if let Err(error) = tasks.check_snapshot(wanted.number, &wanted.snapshot).await? {
                return Ok(Ok(Err((wanted.whole.clone(), error))));
            }
        }
        if let (Err(error), Some(first)) =
            (tasks.check_space(Spares::All, SNAPSHOT_BLOCKS * all.len() as u64), all.first())
        {
            return Ok(Ok(Err((first.whole.clone(), error))));
        }
        let properties = check_properties(&new.properties);
        if let (Err(error), Some(first)) = (properties, all.first()) {
            return Ok(Ok(Err((first.whole.clone(), error))));
        }
        for wanted in &all {
            let taken = match tasks.snapshot(wanted.number, &wanted.snapshot).await? {
                Ok(taken) => taken,
                Err(error) => return Ok(Ok(Err((wanted.whole.clone(), error)))),
            };
            for (name, value) in &new.properties {
                let set = tasks.set_snapshot_property(taken, name, Some(value.clone())).await?;
                assert!(set.is_ok(), "they were checked");
            }
        }
        Ok(Ok(Ok(())))
    });
    let stopped = |error: LiveError| {
        let name = live.spa().name().to_owned();
        Error::NotWritten { name, error: Box::new(error) }
    };
    let name = || names.first().map_or_else(String::new, |(of, name)| format!("{of}@{name}"));
    let done = done.await.map_err(stopped)?;
    let done = done.map_err(|error| Error::NotTaken { name: name(), error })?;
    done.map_err(|(name, error)| Error::NotTaken { name, error })
}

async fn find(
    live: &Live,
    names: &[(String, String)],
    recursive: bool,
) -> Result<Vec<Wanted>, Error> {
    let failed = |name: &str| {
        let name = name.to_owned();
        move |error: ZfsError| Error::CannotOpen { name, error: Box::new(error) }
    };
    let mut all = Vec::new();
    for (dataset, snapshot) in names {
        let catalog = live.spa().catalog(0).await.map_err(failed(dataset))?;
        let top = catalog.find(dataset).await.map_err(failed(dataset))?;
        let top = top.ok_or_else(|| Error::NoDataset { name: dataset.clone() })?;
        let mut waiting: Vec<Rc<Node>> = vec![top];
        while let Some(node) = waiting.pop() {
            if recursive {
                let children = catalog.children_and_damaged(&node).await;
                let children = children.map_err(failed(&node.directory.name))?.whole();
                let named = |damaged: Box<(String, ZfsError)>| failed(&damaged.0)(damaged.1);
                waiting.extend(children.map_err(named)?);
            }
            let whole = format!("{}@{snapshot}", node.directory.name);
            all.push(Wanted { number: node.head.number, snapshot: snapshot.clone(), whole });
        }
    }
    let mut numbers: Vec<u64> = all.iter().map(|wanted| wanted.number).collect();
    numbers.sort_unstable();
    match numbers.windows(2).any(|two| two[0] == two[1]) {
        true => Err(Error::TakenTwice),
        false => Ok(all),
    }
}
