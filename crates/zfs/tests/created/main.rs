//! Pools that Spindle makes, judged by `zdb`: each block's checksum, and that what is allocated is what is reached.
//!
//! What could break: a structure that OpenZFS reads otherwise, space that is taken and not reached, or reached and not taken.
//! Where `zdb` is not there the case says so and is skipped. In the quick form of the tests ([`fixtures::extent`]) it looks at the end
//! of a test, and once at what cuts left of a pool; what Spindle itself finds in a pool is asked as often in both.

#![allow(clippy::disallowed_methods, reason = "`zdb` is a program, and judges")]
#![allow(clippy::await_holding_refcell_ref, reason = "nothing else runs that would borrow it")]

mod accounting;
mod added;
mod checkpoints;
mod cloned;
mod compared;
mod cuts;
mod damaged;
mod datasets;
mod degraded;
mod draid;
mod expanded;
mod features;
mod full;
mod fuse;
mod gangs;
mod indirect;
mod judged;
mod kernel;
mod kernel_mixed;
mod kernel_removed;
mod large_dnodes;
mod layouts;
mod limits;
mod livelists;
mod logs;
mod long;
#[path = "../fixtures/manifest.rs"]
#[allow(dead_code, reason = "it is used in part")]
mod manifest;
mod maps;
mod marks;
mod mounted;
mod multihost;
mod names;
mod noted_errors;
mod on_sets;
mod paces;
mod pointers;
mod received;
mod recorded;
mod removed;
mod rewound;
mod same_again;
mod sequences;
mod stock;
mod stored;
mod suspended;
mod taken_back;
mod traps;
mod volumes;
mod without_log;

use fixtures::extent::{is_thorough, some};
use rt::filter::PowerCut;
use rt::{Buf, Device, DeviceRef, MemoryDevice, Reactor, Request, Runtime, SgList};
use sim::SimReactor;
use sim::host::Processor;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use tempfile::TempDir;
use zfs::dsl::make::Fresh;
use zfs::spa::config::LabelState;
use zfs::spa::create::{NewPool, create, root_of};
use zfs::spa::datasets::{NewDataset, TaskError};
use zfs::spa::live::Live;
use zfs::spa::{OpenOptions, Spa, find};
use zfs::zap::table;
use zfs::zpl::FileSystem;
use zfs::zpl::attributes::Moment;
use zfs::zpl::change::NewFile;
use zfs_format::features::FEATURES;
use zfs_format::nvlist::Text;
use zfs_format::vdev::{Raidz, Vdev, VdevKind};

/// Numbers by a seed, and a clock that stands still.
struct Seeded(Cell<Prng>);

impl Fresh for Seeded {
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

/// How many seeds a campaign goes through.
fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20)
}

const DEVICE: u64 = 128 << 20;
/// What labels leave of a device.
const USABLE: u64 = DEVICE - (4 << 20) - (512 << 10);

fn leaf(id: u64, guid: u64) -> Vdev {
    let mut leaf = Vdev::new(VdevKind::File, id, guid);
    leaf.path = Some(Text::from(format!("/nowhere/{guid}").as_str()));
    leaf
}

fn top(id: u64, kind: VdevKind, leaves: u64) -> Vdev {
    let guid = 1000 * (id + 1);
    let asize = if matches!(kind, VdevKind::Raidz(_)) { USABLE * leaves } else { USABLE };
    let mut top = if leaves == 1 { leaf(id, guid) } else { Vdev::new(kind, id, guid) };
    (top.ashift, top.asize, top.is_log) = (Some(12), Some(asize), Some(0));
    if leaves > 1 {
        top.children = (0..leaves).map(|child| leaf(child, guid + child + 1)).collect();
    }
    top
}

fn features() -> Vec<&'static str> {
    let names = [
        "async_destroy",
        "empty_bpobj",
        "lz4_compress",
        "enabled_txg",
        "hole_birth",
        "spacemap_v2",
        "extensible_dataset",
        "embedded_data",
        "large_blocks",
        "bookmarks",
        "bookmark_v2",
        "userobj_accounting",
        "project_quota",
    ];
    FEATURES.iter().filter(|f| names.contains(&f.name)).map(|f| f.guid).collect()
}

/// These and those, by their short names.
fn features_and(more: &[&str]) -> Vec<&'static str> {
    let all = features();
    let is_one = |name: &str, guid: &str| more.contains(&name) || all.contains(&guid);
    FEATURES.iter().filter(|f| is_one(f.name, f.guid)).map(|f| f.guid).collect()
}

/// What pools with logs of space maps have: `zdb` counts them among maps with a histogram.
const MAP_LOGS: [&str; 2] = ["log_spacemap", "spacemap_histogram"];

/// These features; every other seed's with logs of space maps.
fn drawn(seed: u64, features: Vec<&'static str>) -> Vec<&'static str> {
    let with_logs = features_and(&MAP_LOGS);
    let is_one =
        |guid: &&str| features.contains(guid) || seed.is_multiple_of(2) && with_logs.contains(guid);
    FEATURES.iter().map(|feature| feature.guid).filter(is_one).collect()
}

/// Writes what is not zeros of a device into a file.
fn dump(device: &MemoryDevice, path: &Path) {
    let len = device.geometry().capacity;
    write_to(path, len, [(0, device.peek(Offset(0), len))]);
}

/// Writes pieces, each behind the place where it belongs, into a file of so many bytes: what is known to be zeros stays a hole.
fn write_to(path: &Path, len: ByteCount, pieces: impl IntoIterator<Item = (u64, SgList)>) {
    let file = std::fs::File::create(path).expect("a file");
    file.set_len(len.bytes()).expect("room");
    for (mut at, bytes) in pieces {
        for piece in bytes.pieces() {
            if piece.fill_word() != Some(0) {
                file.write_all_at(piece.bytes(), at).expect("room");
            }
            at += piece.len() as u64;
        }
    }
}

/// The same of any device.
async fn dump_device(device: DeviceRef, path: std::path::PathBuf) {
    let len = device.geometry().capacity;
    let step = 1 << 20;
    let mut pieces = Vec::new();
    for at in (0..len.bytes()).step_by(step) {
        let piece = ByteCount((len.bytes() - at).min(step as u64));
        let bytes = device.submit(Request::read(Offset(at), piece)).await.expect("it is read");
        pieces.push((at, bytes));
    }
    write_to(&path, len, pieces);
}

/// What `zdb`, which finds nothing wrong, says of a pool on disks in a folder.
fn zdb(folder: &Path, arguments: &[&str]) -> Option<String> {
    let folder = folder.to_str().expect("a path");
    let said = fixtures::zdb::zdb([&["-e", "-p", folder], arguments].concat())?;
    let fixtures::zdb::Said { text, errors, is_well } = said;
    assert!(is_well, "zdb {arguments:?}:\n{text}\n{errors}");
    Some(text + &errors)
}

/// A pool in memory: its disks by GUID, and the executor.
struct Rig {
    disks: Vec<(u64, Rc<MemoryDevice>)>,
    runtime: Runtime,
    fresh: Rc<dyn Fresh>,
    /// `zdb` looked at what a cut left of it, in the quick form of the tests.
    judged_once: Cell<bool>,
}

impl Rig {
    /// On disks that are there.
    fn over(disks: Vec<(u64, Rc<MemoryDevice>)>, fresh: Rc<dyn Fresh>) -> Rig {
        let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
        Rig { disks, runtime, fresh, judged_once: Cell::new(false) }
    }

    /// Makes the pool.
    fn new(tops: Vec<Vdev>) -> Rig {
        Rig::without_all(tops, &[])
    }

    /// The same without a feature.
    fn without(tops: Vec<Vdev>, feature: &str) -> Rig {
        Rig::without_all(tops, &[feature])
    }

    /// The same without several.
    fn without_all(tops: Vec<Vdev>, left_out: &[&str]) -> Rig {
        let features = features().into_iter().filter(|guid| !left_out.contains(guid)).collect();
        Rig::with_features(tops, features)
    }

    /// The same with what a seed draws.
    fn drawn(seed: u64, tops: Vec<Vdev>) -> Rig {
        Rig::with_features(tops, drawn(seed, features()))
    }

    /// The same with logs of space maps.
    fn with_map_logs(tops: Vec<Vdev>) -> Rig {
        Rig::with_features(tops, features_and(&MAP_LOGS))
    }

    /// The same with these features.
    fn with_features(tops: Vec<Vdev>, features: Vec<&'static str>) -> Rig {
        Rig::of_size(DEVICE, tops, features)
    }

    /// The same whose root has rules of names: one of `casesensitivity` and one of `normalization`.
    fn with_rules(tops: Vec<Vdev>, case: u64, normalization: u64) -> Rig {
        let rules = [("casesensitivity", case), ("normalization", normalization)];
        Rig::made(DEVICE, tops, features(), &rules)
    }

    /// The same on disks of so many bytes.
    fn of_size(bytes: u64, tops: Vec<Vdev>, features: Vec<&'static str>) -> Rig {
        Rig::made(bytes, tops, features, &[])
    }

    fn made(
        bytes: u64,
        tops: Vec<Vdev>,
        features: Vec<&'static str>,
        rules: &[(&str, u64)],
    ) -> Rig {
        let guids = tops.iter().flat_map(|top| top.leaves().into_iter().map(|leaf| leaf.guid));
        let disk = |guid: u64| (guid, MemoryDevice::new(&guid.to_string(), ByteCount(bytes)));
        let disks = guids.map(disk).collect();
        let fresh: Rc<dyn Fresh> = Rc::new(Seeded(Cell::new(Prng::new(3))));
        let rig = Rig::over(disks, fresh);
        // Mounts have lists of access.
        let rules = [&[("acltype", 1)], rules].concat();
        let new = NewPool {
            name: "tank".to_owned(),
            root: root_of(77, tops),
            spares: Vec::new(),
            cache: Vec::new(),
            features,
            state: LabelState::Active,
            host: None,
            comment: None,
            compatibility: None,
            settings: Vec::new(),
            owner: (0, 0),
            properties: rules
                .into_iter()
                .map(|(name, number)| (name.to_owned(), table::number(number)))
                .collect(),
        };
        let (rt, devices, fresh) = (rig.runtime.handle(), rig.devices(), Rc::clone(&rig.fresh));
        let made = async move { create(&rt, new, &devices, &fresh).await.expect("it is made") };
        rig.runtime.block_on(made).expect("it ends");
        rig
    }

    /// The same pool on disks of its own.
    fn fork(&self) -> Rig {
        let disks = self.disks.iter().map(|(guid, disk)| (*guid, disk.fork())).collect();
        Rig::over(disks, Rc::clone(&self.fresh))
    }

    /// Its disks, each where its power can be cut.
    fn power_cuts(&self) -> Vec<Rc<PowerCut>> {
        let rt = self.runtime.handle();
        let cover = |disk: &Rc<MemoryDevice>| PowerCut::new(Rc::clone(disk) as DeviceRef, &rt);
        self.disks.iter().map(|(_, disk)| cover(disk)).collect()
    }

    fn devices(&self) -> BTreeMap<u64, DeviceRef> {
        self.disks.iter().map(|(guid, disk)| (*guid, Rc::clone(disk) as DeviceRef)).collect()
    }

    /// Runs work on the pool, opened for reading.
    fn with<T: 'static>(&self, work: impl AsyncFnOnce(Rc<Spa>, Rc<dyn Fresh>) -> T + 'static) -> T {
        let all = self.devices().into_values().collect();
        self.with_devices(all, work)
    }

    /// The same by other devices, which stand on the disks.
    fn with_devices<T: 'static>(
        &self,
        all: Vec<DeviceRef>,
        work: impl AsyncFnOnce(Rc<Spa>, Rc<dyn Fresh>) -> T + 'static,
    ) -> T {
        self.with_options(all, OpenOptions::default(), work)
    }

    /// The same as of a transaction group.
    fn as_of<T: 'static>(&self, txg: u64, work: impl AsyncFnOnce(Rc<Spa>) -> T + 'static) -> T {
        let all = self.devices().into_values().collect();
        let options = OpenOptions { txg: Some(txg), ..OpenOptions::default() };
        self.with_options(all, options, async |spa, _| work(spa).await)
    }

    fn with_options<T: 'static>(
        &self,
        all: Vec<DeviceRef>,
        options: OpenOptions,
        work: impl AsyncFnOnce(Rc<Spa>, Rc<dyn Fresh>) -> T + 'static,
    ) -> T {
        let (rt, fresh) = (self.runtime.handle(), Rc::clone(&self.fresh));
        let run = async move {
            let found = find(&all).await;
            let spa = Spa::open(&rt, &found.pools[0], options).await;
            work(Rc::new(spa.expect("it opens")), fresh).await
        };
        self.runtime.block_on(run).expect("it ends")
    }

    /// What `zdb` says of all of it.
    fn judge(&self) {
        self.judge_pool("tank");
    }

    /// The same where more comes, and is judged at the end: in the quick form of the tests `zdb` looks only then.
    fn judge_midway(&self) {
        match is_thorough() {
            true => self.judge(),
            false => self.check(),
        }
    }

    /// Whether `zdb` looks at what a cut at a write left of the pool: at every so many writes, in the quick form of the tests once.
    fn is_judged_at(&self, write: u64, every: u64) -> bool {
        match is_thorough() {
            true => write.is_multiple_of(every),
            false => !self.judged_once.replace(true),
        }
    }

    /// A folder with its disks.
    fn dumped(&self) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (guid, disk) in &self.disks {
            dump(disk, &folder.path().join(format!("d{guid}")));
        }
        folder
    }

    /// Pointers say what is below them, and each copy is whole.
    fn check(&self) {
        self.with(async |spa: Rc<Spa>, _| {
            pointers::check_trees(&spa).await;
            check_copies(&spa).await;
        });
    }

    /// The same of a pool that has another name.
    fn judge_pool(&self, pool: &str) {
        self.check();
        let folder = self.dumped();
        if let Ok(keep) = std::env::var("KEEP_POOL") {
            let _ = Command::new("cp").arg("-r").arg(folder.path()).arg(keep).status();
        }
        // All at once: most of what it takes is beginning and end.
        let Some(text) = zdb(folder.path(), &["-bccdddd", pool]) else { return };
        assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
        assert!(!text.contains(") leaked"), "objects that nobody refers to: {text}");
    }
}

/// Each copy of each block is whole, on each device.
async fn check_copies(spa: &Spa) {
    let found = spa.scrub(|_| {}).await;
    assert!(found.is_whole() && found.lost_places == 0, "{found:?}");
    // The chain of a log ends where a checksum is wrong.
    if !spa.was_closed() {
        return;
    }
    for report in spa.tree().report() {
        let all = std::iter::once(&report).chain(&report.children);
        let wrong = all.filter(|one| one.errors != Default::default());
        assert_eq!(wrong.count(), 0, "errors were counted: {report:?}");
    }
}

fn raidz(parity: u64) -> VdevKind {
    VdevKind::Raidz(Raidz { parity, expanding: false, expand_txgs: Vec::new() })
}

/// A new pool, and what lies in it.
fn judged(tops: Vec<Vdev>) {
    let rig = Rig::new(tops);
    rig.with(async |spa: Rc<Spa>, _| {
        assert_eq!((spa.name(), spa.uberblock().txg), ("tank", 4));
        let files = root_files(&spa).await;
        let directory = files.root().await.expect("it is read");
        assert!(directory.is_directory() && directory.attributes.mode() & 0o777 == 0o755);
        assert!(files.names(&directory).await.expect("it is read").is_empty());
    });
    rig.judge();
}

async fn root_files(spa: &Spa) -> FileSystem {
    files_of(spa, "tank").await
}

async fn files_of(spa: &Spa, name: &str) -> FileSystem {
    let root = spa.dsl().find(name).await.expect("it is read").expect("it is there");
    let objset = spa.objset(&root.0, &root.1).await.expect("it opens");
    FileSystem::open(&objset).await.expect("it is one")
}

#[test]
fn a_pool_of_one_file_is_one_of_zdbs() {
    judged(vec![top(0, VdevKind::File, 1)]);
}

#[test]
fn a_pool_of_mirrors_is_one_of_zdbs() {
    judged(vec![top(0, VdevKind::Mirror, 2), top(1, VdevKind::Mirror, 3)]);
}

#[test]
fn a_pool_of_a_raidz_is_one_of_zdbs() {
    judged(vec![top(0, raidz(1), 3)]);
    judged(vec![top(0, raidz(2), 5), top(1, raidz(3), 6)]);
}

/// What a file holds, by its number.
type Model = BTreeMap<u64, Vec<u8>>;

/// Random changes of files over many groups, beside a model; the pool is opened anew in between. What could break: a block
/// that is written and not reached, one freed that is reached, a change of a later group in an earlier one, one that is lost.
fn files_over_groups(seed: u64, rig: Rig) {
    let model: Rc<RefCell<Model>> = Rc::default();
    let snapshots: Rc<RefCell<BTreeMap<String, Model>>> = Rc::default();
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    for _ in 0..3 {
        let (kept, random) = (Rc::clone(&model), Rc::clone(&random));
        let taken = Rc::clone(&snapshots);
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let catalog = live.spa().catalog(0).await.expect("it is read");
            let node = catalog.root().await.expect("it is there");
            let objset = live.objset(&node).await.expect("it opens");
            let files = FileSystem::open(&objset).await.expect("it is one");
            for round in 0..6 {
                for _ in 0..20 {
                    change(&files, &mut kept.borrow_mut(), &mut random.borrow_mut()).await;
                }
                if round % 3 == 1 {
                    let name = format!("s{}", taken.borrow().len());
                    let number = node.head.number;
                    let done = live.task(async |tasks| tasks.snapshot(number, &name).await).await;
                    done.expect("it is written").expect("it is taken");
                    let again = live.task(async |tasks| tasks.snapshot(number, &name).await).await;
                    assert_eq!(again.expect("it goes on"), Err(TaskError::Exists));
                    taken.borrow_mut().insert(name, kept.borrow().clone());
                } else {
                    live.sync(async |_| Ok(())).await.expect("it is written");
                }
                compare(&files, &kept.borrow()).await;
            }
            let name = format!("child{}", taken.borrow().len());
            let new = NewDataset { name, owner: (3, 4), properties: Vec::new() };
            let above = node.directory.number;
            let done = live.task(async |tasks| tasks.create(above, &new).await).await;
            done.expect("it is written").expect("it is made");
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        let (kept, taken) = (Rc::clone(&model), Rc::clone(&snapshots));
        rig.with(async move |spa: Rc<Spa>, _| {
            compare(&root_files(&spa).await, &kept.borrow()).await;
            for (name, model) in &*taken.borrow() {
                compare(&files_of(&spa, &format!("tank@{name}")).await, model).await;
            }
            let child = format!("tank/child{}", taken.borrow().len());
            let root = files_of(&spa, &child).await.root().await.expect("it is read");
            assert_eq!((root.attributes.user.0, root.attributes.group.0), (3, 4));
        });
    }
    rig.judge();
}

fn new_file(number: u64) -> NewFile {
    NewFile {
        number,
        slots: 1,
        mode: 0o100_644,
        user: 1,
        group: 2,
        generation: 7,
        created: Moment { seconds: 5, nanoseconds: 6 },
        device: 0,
        target: None,
    }
}

/// Runs of so many bytes that are alike.
fn runs(len: usize, run: usize, word: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (n, run) in bytes.chunks_mut(run).enumerate() {
        run.fill((n as u64).wrapping_mul(word) as u8);
    }
    bytes
}

async fn change(files: &FileSystem, model: &mut Model, random: &mut Prng) {
    let root = files.root_number();
    let name = |number: u64| format!("file {number}").into_bytes();
    let known: Vec<u64> = model.keys().copied().collect();
    if known.is_empty() || random.chance(0.3) {
        let (objset, slots) = (files.objset(), files.dnode_slots());
        let (number, _) = objset.change(|_| objset.plan_number(slots)).await.expect("one is free");
        let new = NewFile { slots, ..new_file(number) };
        files.create(root, &name(number), &new).await.expect("it is made");
        model.insert(number, Vec::new());
        return;
    }
    let number = known[random.below(known.len() as u64) as usize];
    let content = model.get_mut(&number).expect("it is known");
    match random.below(10) {
        0 => {
            files.unlink(root, &name(number)).await.expect("it goes");
            model.remove(&number);
        }
        1 | 2 => {
            let len = random.below(content.len() as u64 + 100_000);
            files.truncate(number, len).await.expect("it is cut");
            content.resize(len as usize, 0);
        }
        _ => {
            let at = random.below(content.len() as u64 + 300_000) as usize;
            let len = 1 + random.below(400_000) as usize;
            let word = random.next_u64();
            let bytes: Vec<u8> = match random.below(3) {
                0 => vec![word as u8; len],
                1 => runs(len, 64, word),
                _ => random.bytes(len),
            };
            let end = at + len;
            let now = content.len().max(end);
            files
                .write(number, at as u64, &Buf::copy_of(&bytes), end as u64)
                .await
                .expect("it is written");
            content.resize(now, 0);
            content[at..end].copy_from_slice(&bytes);
        }
    }
}

async fn compare(files: &FileSystem, model: &Model) {
    let root = files.root().await.expect("it is read");
    let names = files.names(&root).await.expect("they are read");
    let there: BTreeSet<u64> = names.iter().map(|name| name.entry.object).collect();
    assert_eq!(there, model.keys().copied().collect::<BTreeSet<_>>());
    for (number, content) in model {
        let node = files.node(*number).await.expect("it is there");
        assert_eq!(node.attributes.size, content.len() as u64);
        let read = node.dnode().read(0, content.len()).await.expect("it is read").to_vec();
        assert!(read == *content, "file {number}");
    }
}

#[test]
fn files_that_change_over_many_groups_are_what_was_written() {
    let pools = [
        (1, vec![top(0, VdevKind::Mirror, 2)]),
        (2, vec![top(0, raidz(1), 3), top(1, raidz(1), 3)]),
    ];
    for (seed, tops) in some(pools, 1) {
        files_over_groups(seed, Rig::drawn(seed, tops));
    }
}
