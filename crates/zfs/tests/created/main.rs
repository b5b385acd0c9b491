//! Pools that Spindle makes, judged by `zdb`: each block's checksum, and that what is allocated is what is reached.
//!
//! What could break: a structure that OpenZFS reads otherwise, space that is taken and not reached, or reached and not taken.
//! Where `zdb` is not there the case says so and is skipped.

use rt::{DeviceRef, MemoryDevice, Reactor, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::create::{NewPool, blank, create, root_of};
use zfs::spa::{OpenOptions, Spa, find};
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

const DEVICE: u64 = 128 << 20;
/// What labels leave of a device.
const USABLE: u64 = DEVICE - (4 << 20) - (512 << 10);

fn leaf(id: u64, guid: u64) -> Vdev {
    let mut leaf = blank(VdevKind::File, id, guid);
    leaf.path = Some(Text::from(format!("/nowhere/{guid}").as_str()));
    leaf
}

fn top(id: u64, kind: VdevKind, leaves: u64) -> Vdev {
    let guid = 1000 * (id + 1);
    let asize = if matches!(kind, VdevKind::Raidz(_)) { USABLE * leaves } else { USABLE };
    let mut top = if leaves == 1 { leaf(id, guid) } else { blank(kind, id, guid) };
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
    ];
    FEATURES.iter().filter(|f| names.contains(&f.name)).map(|f| f.guid).collect()
}

/// Writes what is not zeros of a device into a file.
fn dump(device: &MemoryDevice, path: &Path) {
    let mut file = std::fs::File::create(path).expect("a file");
    file.set_len(DEVICE).expect("room");
    let step = 1 << 20;
    for at in (0..DEVICE).step_by(step) {
        let bytes = device.peek(Offset(at), ByteCount(step as u64)).to_vec();
        if bytes.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(at)).expect("a place");
            file.write_all(&bytes).expect("room");
        }
    }
}

fn zdb(folder: &Path, arguments: &[&str]) -> Option<String> {
    let ran = Command::new("zdb").args(["-e", "-p"]).arg(folder).args(arguments).output();
    let Ok(ran) = ran else {
        eprintln!("skipped: zdb is not here (Debian: zfsutils-linux)");
        return None;
    };
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "zdb {arguments:?}: {:?}\n{text}\n{errors}", ran.status);
    Some(text + &errors)
}

fn judged(tops: Vec<Vdev>) {
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
    let rt = runtime.handle();
    let guids: Vec<u64> =
        tops.iter().flat_map(|top| top.leaves().into_iter().map(|l| l.guid)).collect();
    let disks: Vec<(u64, Rc<MemoryDevice>)> = guids
        .iter()
        .map(|guid| (*guid, MemoryDevice::new(&guid.to_string(), ByteCount(DEVICE))))
        .collect();
    let devices: BTreeMap<u64, DeviceRef> =
        disks.iter().map(|(guid, disk)| (*guid, Rc::clone(disk) as DeviceRef)).collect();
    let new = NewPool {
        name: "tank".to_owned(),
        root: root_of(77, tops),
        features: features(),
        host: None,
        comment: None,
        compatibility: None,
        owner: (0, 0),
        properties: Vec::new(),
    };
    let fresh: Rc<dyn Fresh> = Rc::new(Seeded(Cell::new(Prng::new(3))));
    let all: Vec<DeviceRef> = devices.values().cloned().collect();
    runtime
        .block_on(async move {
            create(&rt, new, &devices, &fresh).await.expect("it is made");
            let found = find(&all).await;
            let spa =
                Spa::open(&rt, &found.pools[0], OpenOptions::default()).await.expect("it opens");
            assert_eq!((spa.name(), spa.uberblock().txg), ("tank", 4));
            let root = spa.dsl().find("tank").await.expect("it is read").expect("it is there");
            let objset = spa.objset(&root.0, &root.1).await.expect("it opens");
            let files = zfs::zpl::FileSystem::open(&objset).await.expect("it is one");
            let directory = files.root().await.expect("it is read");
            assert!(directory.is_directory() && directory.attributes.mode() & 0o777 == 0o755);
            assert!(files.names(&directory).await.expect("it is read").is_empty());
        })
        .expect("it ends");
    let folder = tempfile::tempdir().expect("a folder");
    for (guid, disk) in &disks {
        dump(disk, &folder.path().join(format!("d{guid}")));
    }
    if let Ok(keep) = std::env::var("KEEP_POOL") {
        let _ = Command::new("cp").arg("-r").arg(folder.path()).arg(keep).status();
    }
    let Some(text) = zdb(folder.path(), &["-bcc", "tank"]) else { return };
    assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
    zdb(folder.path(), &["-dddd", "tank"]);
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
    let raidz =
        |parity| VdevKind::Raidz(Raidz { parity, expanding: false, expand_txgs: Vec::new() });
    judged(vec![top(0, raidz(1), 3)]);
    judged(vec![top(0, raidz(2), 5), top(1, raidz(3), 6)]);
}
