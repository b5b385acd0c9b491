//! Whole pools whose checksums fit, with anything in them, opened for writing and written to.
//!
//! What was changed leads to it past all checksums, so that what is written may rest on a lie: a space map that has used space for
//! free, a birth that says that nobody else has a block. No pool can stay sound then, and none is asked to. Each call ends, in an
//! answer or an error, and the pool that was closed is read to the end like any other. Where nothing was changed it stays sound.
//!
//! Input: which pool, what is done; then changes as of [`super::pool`].

use super::images;
use super::pool::{on_changed, open};
use rt::{Buf, MemoryDevice, Rt};
use std::cell::Cell;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::catalog::Node;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs::zpl::attributes::Moment;
use zfs::zpl::change::NewFile;

/// File systems that are written to.
const FILE_SYSTEMS_MAX: usize = 3;
/// Names of a directory that are changed.
const NAMES_MAX: usize = 4;
/// Groups in which what was destroyed is freed.
const GROUPS_MAX: usize = 4;
/// Blocks freed in a group: a pool that says more keeps nobody busy.
const FREED_MAX: u64 = 500;

/// Numbers by a seed, and a clock that stands still.
struct Numbers(Cell<Prng>);

impl Fresh for Numbers {
    fn number(&self) -> u64 {
        let mut random = self.0.replace(Prng::new(0));
        let number = random.next_u64() | 1;
        self.0.set(random);
        number
    }

    fn now(&self) -> u64 {
        1_700_000_000
    }
}

/// What is done, by bits of a number.
#[derive(Clone, Copy)]
struct Deeds(u8);

impl Deeds {
    fn removes_files(self) -> bool {
        self.0 & 1 != 0
    }

    fn destroys_snapshots(self) -> bool {
        self.0 & 2 != 0
    }

    fn destroys_datasets(self) -> bool {
        self.0 & 4 != 0
    }

    fn clones(self) -> bool {
        self.0 & 8 != 0
    }

    fn rolls_back(self) -> bool {
        self.0 & 16 != 0
    }
}

/// Files come, change and go. What can't be done is an error.
async fn write_files(files: &FileSystem, deeds: Deeds) {
    let root = files.root_number();
    let plan = files.objset().change(|_| files.objset().plan_number(1)).await;
    if let Ok((number, _)) = plan {
        let new = NewFile {
            number,
            slots: 1,
            mode: 0o100_644,
            user: 1,
            group: 2,
            generation: 7,
            created: Moment { seconds: 5, nanoseconds: 6 },
            device: 0,
            target: None,
        };
        if files.create(root, b"written by a fuzzer", &new).await.is_ok() {
            let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
            let len = bytes.len() as u64;
            let _ = files.write(number, 0, &Buf::copy_of(&bytes), len).await;
            let _ = files.truncate(number, 150_000).await;
        }
    }
    let Ok(top) = files.root().await else { return };
    for name in files.names(&top).await.unwrap_or_default().into_iter().take(NAMES_MAX) {
        let number = name.entry.object;
        let _ = files.write(number, 1000, &Buf::copy_of(&[7; 5000]), 6000).await;
        let _ = files.punch(number, 0, 1 << 17).await;
        let _ = files.set_extended_attribute(number, b"user.fuzz", Some(&[5; 300])).await;
        let _ = files.truncate(number, 100).await;
        let _ = files.rename((root, &name.name), (root, b"moved")).await;
        if deeds.removes_files() {
            let _ = files.unlink(root, b"moved").await;
        }
    }
}

/// Snapshots and datasets come and go.
async fn change_dataset(live: &Live, node: &Node, deeds: Deeds) -> Result<(), ()> {
    let (number, directory) = (node.head.number, node.directory.number);
    // Only a pool that is stopped ends it.
    macro_rules! task {
        ($tasks:ident => $call:expr) => {
            live.task(async |$tasks| $call.await).await.map_err(drop)?
        };
    }
    let taken = task!(tasks => tasks.snapshot(number, "fuzz"));
    if let (Ok(snapshot), true) = (&taken, deeds.clones()) {
        let new = NewClone { name: "fuzzed".to_owned(), properties: Vec::new() };
        if let Ok(clone) = task!(tasks => tasks.clone(*snapshot, directory, &new)) {
            let _ = task!(tasks => tasks.promote(clone));
        }
    }
    let new = NewDataset { name: "child".to_owned(), owner: (0, 0), properties: Vec::new() };
    let _ = task!(tasks => tasks.create(directory, &new));
    let Ok(snapshots) = live.spa().dsl().snapshots(&node.head).await else { return Ok(()) };
    if let (Some(newest), true) = (snapshots.last(), deeds.rolls_back()) {
        let newest = newest.number;
        let _ = task!(tasks => tasks.rollback(number, newest));
    }
    if deeds.destroys_snapshots() {
        for snapshot in snapshots.iter().take(NAMES_MAX) {
            let snapshot = snapshot.number;
            let _ = task!(tasks => tasks.destroy_snapshot(snapshot, false));
        }
    }
    if deeds.destroys_datasets() {
        let _ = task!(tasks => tasks.destroy(number));
    }
    Ok(())
}

/// Opens a pool for writing, does all that, and closes it. Whether it was written to the end.
async fn write_pool(spa: Spa, deeds: Deeds) -> bool {
    let fresh: Rc<dyn Fresh> = Rc::new(Numbers(Cell::new(Prng::new(5))));
    let Ok(live) = Live::open(Rc::new(spa), &fresh).await else { return false };
    live.freeing().set_blocks_max(FREED_MAX);
    let mut nodes = Vec::new();
    if let Ok(catalog) = live.spa().catalog(0).await
        && let Ok(root) = catalog.root().await
    {
        nodes.extend(catalog.children(&root).await.unwrap_or_default());
        nodes.push(root);
    }
    for node in nodes.iter().take(FILE_SYSTEMS_MAX) {
        if let Ok(files) = live.files(node).await {
            write_files(&files, deeds).await;
        }
        if live.sync(async |_| Ok(())).await.is_err() {
            return false;
        }
        if change_dataset(&live, node, deeds).await.is_err() {
            return false;
        }
    }
    for _ in 0..GROUPS_MAX {
        if !live.freeing().waits() {
            break;
        }
        if live.sync(async |_| Ok(())).await.is_err() {
            return false;
        }
    }
    live.close(LabelState::Exported).await.is_ok()
}

/// Whether all that is allocated is reached, all that is reached allocated once, and every copy whole.
async fn is_sound(spa: &Spa) -> bool {
    let scrubbed = spa.scrub(|_| {}).await;
    let Ok(mut claims) = spa.claims().await else { return false };
    let mut walk = spa.walk();
    while let Some(met) = walk.next().await {
        let Ok(visited) = met else { return false };
        if claims.claim(spa, &visited).await.is_err() {
            return false;
        }
    }
    let Ok(miscounted) = spa.miscounted(&claims).await else { return false };
    let left: u64 = claims.left().map(|(_, left)| left.allocated()).sum();
    miscounted.is_empty() && scrubbed.is_whole() && claims.fault_count == 0 && left == 0
}

async fn write_all(rt: &Rt, disk: &Rc<MemoryDevice>, deeds: Deeds, is_changed: bool) {
    for spa in open(rt, disk).await {
        let was_written = write_pool(spa, deeds).await;
        for spa in open(rt, disk).await {
            let sound = is_sound(&spa).await;
            assert!(sound || is_changed, "it stays sound; written: {was_written}");
        }
    }
}

/// The target.
pub fn written_pool(input: &[u8]) {
    on_changed(input, async |rt, disk, how, is_changed| {
        write_all(rt, disk, Deeds(how), is_changed).await;
    });
}

/// Each pool as it is, and one input for each place of it.
pub fn seeds() -> Vec<Vec<u8>> {
    let changed =
        super::pool::seeds().into_iter().zip((0..).step_by(5)).map(|(mut seed, deeds)| {
            // What is looked at stands where here stands what is done.
            seed[1] = deeds as u8;
            seed
        });
    let whole = (0..images::POOLS.len() as u8).map(|pool| vec![pool, 0xff]);
    whole.chain(changed).collect()
}
