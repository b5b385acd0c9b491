//! What the tests stand on: an executor without time, and a pool opened from the labels of its devices.

use crate::walk;
use ::fixtures::Vdev as Image;
use rt::Work;
use rt::reactor::{ComputePlan, Job, Parked, Reactor, Unpark};
use rt::{DeviceRef, Rt, Runtime};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;
use zfs_format::nvlist::NvList;
use zfs_format::uberblock::Uberblock;
use zfs_format::vdev::indirect::{self, Mapping};
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::label::{self, Labels};
use zfs_store::{Errors, Tree, VdevReport, Zio};

struct NoTime;

impl Unpark for NoTime {
    fn unpark(&self) {}
}

impl Reactor for NoTime {
    fn now(&self) -> Instant {
        Instant::START
    }
    fn poll(&self) {}
    fn park(&self, _: Option<Instant>) -> Parked {
        Parked::Stalled
    }
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(NoTime)
    }
    fn plan(&self, _: Work) -> ComputePlan {
        ComputePlan::Inline
    }
    fn offload(&self, _: Job) {
        unreachable!("this reactor never asks for it")
    }
    fn processor_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// Runs a future to its end.
pub fn run<F>(future: impl FnOnce(Rt) -> F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    let runtime = Runtime::new(Rc::new(NoTime));
    let future = future(runtime.handle());
    runtime.block_on(future).expect("nothing waits for ever")
}

/// A pool that was opened.
pub struct Pool {
    pub zio: Zio,
    pub uberblock: Uberblock,
    /// The number of the image of each leaf, by GUID.
    numbers: BTreeMap<u64, usize>,
}

impl Pool {
    /// Opens the pool of these devices: by the labels, then by the configuration in the MOS.
    pub async fn open(rt: &Rt, images: &[Image]) -> Pool {
        let mut labels = Vec::new();
        for image in images {
            labels.push((Rc::clone(&image.device), label::read(&image.device).await));
        }
        let best = labels.iter().filter_map(|(_, labels)| labels.best_uberblock());
        let best = best.max_by(|one, other| one.uberblock.newer(&other.uberblock));
        let uberblock = best.expect("there is an uberblock").uberblock.clone();
        let mut devices: BTreeMap<u64, DeviceRef> = BTreeMap::new();
        let mut newest: BTreeMap<u64, (u64, NvList)> = BTreeMap::new();
        let mut stale = Vec::new();
        let mut numbers = BTreeMap::new();
        for (number, (device, labels)) in labels.iter().enumerate() {
            let Some((txg, guid)) = member(labels) else { continue };
            numbers.insert(guid, number);
            devices.insert(guid, Rc::clone(device));
            for (_, configuration) in labels.configurations() {
                let Ok(Some(tree)) = configuration.list.list("vdev_tree") else { continue };
                let id = tree.u64("id").expect("a number").expect("it is there");
                if newest.get(&id).is_none_or(|(known, _)| *known < txg) {
                    newest.insert(id, (txg, tree.clone()));
                }
            }
            stale.push((guid, txg));
        }
        let newest_txg = newest.values().map(|(txg, _)| *txg).max().unwrap_or(0);
        let configs: Vec<Vdev> =
            newest.values().map(|(_, tree)| Vdev::from_list(tree).expect("a tree")).collect();
        let open = |configs: &[Vdev]| {
            let tree = Tree::open(rt, configs, &devices).expect("a tree that can be");
            tree.set_reflow(uberblock.raidz_reflow());
            for (guid, txg) in &stale {
                // Disks of one transaction group may have been written one after another.
                if *txg < newest_txg {
                    tree.set_dtl(*guid, std::iter::once(*txg..u64::MAX).collect());
                }
            }
            Zio::new(rt, Rc::new(tree))
        };
        let first = open(&configs);
        let Some(config) = walk::configuration(&first, &uberblock.root).await else {
            return Pool { zio: first, uberblock, numbers };
        };
        let tree = Vdev::from_list(config.list("vdev_tree").expect("a list").expect("a tree"));
        let tree = tree.expect("a tree");
        assert_eq!(tree.kind, VdevKind::Root);
        let zio = open(&tree.children);
        let mos = walk::objset(&first, &uberblock.root).await.expect("it was read before");
        for (vdev, objects) in zio.tree().unmapped() {
            let dnode = walk::object(&first, &mos, objects.mapping).await.expect("a mapping");
            let header = Mapping::from_bonus(&dnode.bonus, mos.1).expect("a header");
            let bytes = walk::content(&first, &dnode, header.entries * 24, mos.1).await;
            let entries = indirect::entries(&bytes.expect("it is read"), mos.1).expect("entries");
            zio.tree().set_indirect(vdev, &entries).expect("in order");
        }
        if let Some(salt) = walk::salt(&zio, &uberblock.root).await {
            zio.set_salt(salt);
        }
        Pool { zio, uberblock, numbers }
    }

    /// Errors of the leaves, where there are any, by the number of the image.
    pub fn errors(&self) -> BTreeMap<usize, Errors> {
        let mut found = BTreeMap::new();
        for report in self.zio.tree().report() {
            self.leaves(&report, &mut found);
        }
        found
    }

    fn leaves(&self, report: &VdevReport, into: &mut BTreeMap<usize, Errors>) {
        if let Some(number) = self.numbers.get(&report.guid)
            && report.errors != Errors::default()
        {
            into.insert(*number, report.errors);
        }
        report.children.iter().for_each(|child| self.leaves(child, into));
    }
}

/// The transaction group of a device's newest label, and its GUID.
fn member(labels: &Labels) -> Option<(u64, u64)> {
    let number = |list: &NvList, name| list.u64(name).ok().flatten();
    let all = labels.configurations().filter_map(|(_, configuration)| {
        let list = &configuration.list;
        Some((number(list, "txg")?, number(list, "guid")?))
    });
    all.max()
}
