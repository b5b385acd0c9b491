//! Reads all that a pool has to show, as the commands do: health, space, history, datasets with their properties, files with
//! all that is known of them, volumes, logs, differences, every block.
//!
//! Whatever comes back is right: an answer, or an error that names something. It must come back soon, too. Steps are
//! counted, since a pool of some megabytes that keeps a reader busy for ever is a finding; libFuzzer's own
//! `-timeout` finds what goes round between two steps.

use std::cell::Cell;
use std::collections::BTreeSet;
use zfs::spa::Spa;
use zfs::zap::{Cursor, Zap};
use zfs::zpl::FileSystem;
use zfs::zpl::difference::Differences;
use zfs::zvol::Volume;
use zfs::{dmu, zil};
use zfs_format::objset::ObjsetKind;

/// Steps that a reader may take: many times what the largest of the pools has.
const STEPS_MAX: u64 = 100_000;
/// Steps after which reading ends early, as a person would lose patience: a target has to be fast.
const PATIENCE: u64 = 500;
const READ_BYTES: usize = 1 << 20;

/// Counts what is done.
#[derive(Default)]
pub struct Steps(Cell<u64>);

impl Steps {
    fn more(&self) -> bool {
        self.0.set(self.0.get() + 1);
        assert!(self.0.get() < STEPS_MAX, "reading ends");
        self.0.get() < PATIENCE
    }
}

/// What of a pool is looked at: all of it would make each input slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Health, space, history, and every object of the MOS.
    Pool,
    /// Every block, and whose space it is.
    Blocks,
    /// Datasets with their properties.
    Properties,
    /// Files and volumes.
    Files,
    /// Files and volumes with the intent log laid over them.
    Logs,
    /// What differs between snapshots and what came after them.
    Differences,
}

impl Look {
    /// All of them.
    pub const ALL: [Look; 6] =
        [Look::Pool, Look::Blocks, Look::Properties, Look::Files, Look::Logs, Look::Differences];
}

/// Reads a pool.
pub async fn read_pool(spa: &Spa, look: Look, steps: &Steps) {
    if look == Look::Pool {
        let _ = (spa.state().await, spa.history().await, spa.classified().await);
        let (space, dedup, cloned) = (spa.space().await, spa.dedup().await, spa.cloned().await);
        if let (Ok(dedup), Ok(cloned)) = (dedup, cloned) {
            let _ = (dedup.ratio(), dedup.saved(), cloned.ratio());
        }
        drop(space);
        if let Ok(view) = spa.view("ONLINE".to_owned(), 0).await {
            for name in view.feature_names() {
                let _ = view.feature(&name);
            }
        }
        every_object(spa, steps).await;
    }
    if look == Look::Blocks {
        let claims = spa.claims().await;
        let (mut walk, mut count) = (spa.walk(), zfs::inspect::count::BlockCount::default());
        let mut claims = claims.ok();
        while let Some(met) = walk.next().await {
            if let Ok(visited) = met {
                count.add(&visited);
                if let Some(claims) = &mut claims {
                    let _ = claims.claim(spa, &visited).await;
                }
            }
            if !steps.more() {
                break;
            }
        }
        let _ = (count.table(), count.total());
        if let Some(claims) = claims {
            let _ = (claims.allocated(), claims.left().count());
        }
    }
    match look {
        Look::Pool | Look::Blocks => {}
        Look::Properties => catalog(spa, steps).await,
        Look::Files | Look::Logs | Look::Differences => datasets(spa, look, steps).await,
    }
}

/// Every object of the MOS, and of tables each entry.
async fn every_object(spa: &Spa, steps: &Steps) {
    let mut from = 0;
    while let Ok(Some((objects, next))) = spa.mos().dnodes_from(from).await {
        assert!(next > from, "objects go on");
        from = next;
        for (number, dnode, endian) in objects {
            let object = spa.mos().detached(number, dnode, endian);
            let _ = object.spill().await;
            if let Ok(zap) = Zap::open(object).await {
                let mut cursor = Cursor::default();
                while let Ok(entries) = zap.list(cursor).await {
                    let Some(last) = entries.last() else { break };
                    assert!(last.next > cursor, "listing goes on");
                    cursor = last.next;
                    if !steps.more() {
                        return;
                    }
                }
            }
        }
        if !steps.more() {
            return;
        }
    }
}

/// Datasets as `zfs list` and `zfs get` see them.
async fn catalog(spa: &Spa, steps: &Steps) {
    let Ok(catalog) = spa.catalog(1 << 40).await else { return };
    let Ok(root) = catalog.root().await else { return };
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        if !steps.more() {
            return;
        }
        let _ = catalog.view(&node).await;
        let _ = (catalog.snapshots(&node).await, catalog.bookmarks(&node).await);
        let _ = catalog.written_since(&node, "s1").await;
        let _ = catalog.written_since_bookmark(&node, "b1").await;
        if let Ok(children) = catalog.children(&node).await {
            waiting.extend(children);
        }
    }
}

/// What is in datasets.
async fn datasets(spa: &Spa, look: Look, steps: &Steps) {
    let Ok(root) = spa.dsl().root().await else { return };
    let Ok(directories) = spa.dsl().below(root).await else { return };
    for directory in directories {
        let _ = spa.dsl().stored(&directory).await;
        let Ok(Some(head)) = spa.dsl().head(&directory).await else { continue };
        let snapshots = spa.dsl().snapshots(&head).await.unwrap_or_default();
        let Ok(objset) = spa.objset(&directory, &head).await else { continue };
        if look == Look::Logs {
            let logged = zil::unreplayed(&objset, 0).await.unwrap_or_default().records;
            let Ok(laid) = spa.objset(&directory, &head).await else { continue };
            match objset.root().kind {
                ObjsetKind::Volume => {
                    let _ = Volume::open_with_log(&laid, "v", &logged).await;
                }
                _ => {
                    if let Ok(files) = FileSystem::open_with_log(&laid, &logged).await {
                        self::files(&files, steps).await;
                    }
                }
            }
        }
        if objset.root().kind == ObjsetKind::Volume {
            volume(&objset).await;
            continue;
        }
        let Ok(files) = FileSystem::open(&objset).await else { continue };
        if look == Look::Files {
            self::files(&files, steps).await;
        }
        if look == Look::Differences {
            for snapshot in snapshots.iter().take(2) {
                let Ok(earlier) = spa.objset(&directory, snapshot).await else { continue };
                let Ok(earlier) = FileSystem::open(&earlier).await else { continue };
                let Ok(mut differences) = Differences::new(earlier, files.clone()).await else {
                    continue;
                };
                while let Ok(Some(_)) = differences.next().await {
                    if !steps.more() {
                        return;
                    }
                }
            }
        }
    }
}

async fn volume(objset: &dmu::Objset) {
    let Ok(volume) = Volume::open(objset, "v").await else { return };
    let (size, data) = (volume.size().bytes(), volume.data());
    let _ = volume.block();
    for at in [0, size / 2, size.saturating_sub(READ_BYTES as u64), u64::MAX - 4096] {
        let _ = data.read(at, READ_BYTES).await;
        let _ = (data.next_data(at).await, data.next_hole(at).await);
    }
}

/// Every file by its names.
async fn files(files: &FileSystem, steps: &Steps) {
    let Ok(root) = files.root().await else { return };
    let (mut waiting, mut seen) = (vec![root], BTreeSet::new());
    while let Some(node) = waiting.pop() {
        if !steps.more() {
            return;
        }
        if !seen.insert(node.number()) {
            continue;
        }
        let _ = files.extended_attributes(&node).await;
        let _ = files.access_list(&node).await;
        let _ = (node.attributes.mode(), node.attributes.device_numbers());
        let _ = zfs::inspect::scrub::path_of(files, node.number()).await;
        if !node.is_directory() {
            let _ = files.link_target(&node).await;
            for at in [0, node.attributes.size.saturating_sub(4096), 1 << 62] {
                let _ = files.read(&node, at, READ_BYTES).await;
                let object = node.dnode();
                let _ = (object.next_data(at).await, object.next_hole(at).await);
            }
            continue;
        }
        let mut cursor = Cursor::default();
        while let Ok(names) = files.list(&node, cursor).await {
            let Some(last) = names.last() else { break };
            assert!(last.next > cursor, "listing goes on");
            cursor = last.next;
            for name in names {
                if !steps.more() {
                    return;
                }
                if let Ok(node) = files.node(name.entry.object).await {
                    waiting.push(node);
                }
            }
        }
        let _ = files.find(b"files/a/../b", true).await;
    }
}
