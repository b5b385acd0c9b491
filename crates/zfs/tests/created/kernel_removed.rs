//! A pool from which the OpenZFS kernel removed vdevs of all kinds (a file, a mirror, one for metadata, a log), in a chain: Spindle
//! writes it, the kernel goes on, condenses mappings by what Spindle said, and leaves one half condensed, which Spindle writes again.
//!
//! What could break: the kernel doesn't open what Spindle wrote, or finds an entry of a mapping that is counted otherwise than it is
//! named; a place that OpenZFS let name where its bytes lie now, and its list; a configuration without a hole.

use super::kernel::{churn, digest, make_disks, oracle, run};
use super::stock::check_space;
use super::{Rig, Seeded, new_file};
use rt::Buf;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::Zap;
use zfs_format::dsl::dataset::fields;
use zfs_format::pool_directory;
use zfs_format::vdev::VdevKind;

const DISKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Bytes of all but the last, and of the last: what is left must hold twice what goes.
const SMALL: u64 = 128 << 20;
const LARGE: u64 = 448 << 20;
/// What OpenZFS 2.1 knows: its `zdb` judges here, too.
const FEATURES: &str = "async_destroy empty_bpobj lz4_compress spacemap_histogram enabled_txg hole_birth spacemap_v2 \
    extensible_dataset bookmarks embedded_data large_blocks large_dnode sha512 skein edonr bookmark_v2 livelist \
    allocation_classes resilver_defer device_rebuild zstd_compress log_spacemap zpool_checkpoint device_removal \
    obsolete_counts bookmark_written";
/// Mappings are condensed whatever that saves.
const CONDENSE: &str = "modprobe zfs; cd /sys/module/zfs/parameters; echo 1 > zfs_condense_min_mapping_bytes; \
    echo 0 > zfs_condense_indirect_obsolete_pct; cd /\n";
/// And slowly: an export comes between.
const SLOWLY: &str =
    "echo 5000 > /sys/module/zfs/parameters/zfs_condense_indirect_commit_entry_delay_ms\n";
const NEVER: &str =
    "modprobe zfs; echo 0 > /sys/module/zfs/parameters/zfs_condense_indirect_vdevs_enable\n";
/// What the kernel's own `zdb` says of leaks and counts.
const JUDGE: &str = "zdb -e -p /p -bcc moved 2>&1 | grep -i -e leak -e mismatch -e 'does not match' -e refcount \
    -e 'cannot verify' -e 'Condensing' || true\n";

fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; 2_000_000 + seed as usize];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

/// Whether a mapping of the pool is being condensed.
async fn is_condensing(spa: &Spa) -> bool {
    let directory = spa.mos().dnode(pool_directory::OBJECT).await.expect("it is there");
    let directory = Zap::open(directory).await.expect("a table");
    directory.get(pool_directory::CONDENSING.as_bytes()).await.expect("read").is_some()
}

/// Datasets and snapshots that have a list of what they moved off.
async fn lists(spa: &Spa) -> usize {
    let (dsl, mut count) = (spa.dsl(), 0);
    for directory in dsl.below(dsl.root().await.expect("read")).await.expect("read") {
        let head = dsl.head(&directory).await.expect("read").expect("it has one");
        let snapshots = dsl.snapshots(&head).await.expect("read");
        for dataset in [head].into_iter().chain(snapshots) {
            let Some(own) = dataset.fields else { continue };
            count += usize::from(own.number(fields::REMAP_DEADLIST).await.expect("read").is_some());
        }
    }
    count
}

/// Spindle writes a file, does away with some and with a snapshot; says whether a mapping was being condensed.
fn written(folder: &Path, name: &str, seed: u64, gone: &[&str], snapshot: &str) -> bool {
    let disks = DISKS.iter().map(|disk| fixtures::Disk::of_file(&folder.join(disk)).device());
    let fresh: Rc<dyn Fresh> = Rc::new(Seeded(Cell::new(Prng::new(seed))));
    let rig = Rig::over((0..).zip(disks).collect(), fresh);
    let name = name.to_owned();
    let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
    let snapshot = format!("moved@{snapshot}");
    let condensing = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        check_space(&spa, "as the kernel left it").await;
        let kinds = spa.vdevs().children.iter().filter(|top| !top.is_there()).count();
        let holes = spa.vdevs().children.iter().filter(|top| top.kind == VdevKind::Hole).count();
        assert_eq!((kinds, holes), (4, 1), "{:?}", spa.vdevs());
        assert!(lists(&spa).await > 0, "places were moved off");
        let condensing = is_condensing(&spa).await;
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let files = live.files(&node).await.expect("it opens");
        let plan = files.objset().change(|_| files.objset().plan_number(1)).await;
        let (number, _) = plan.expect("one is free");
        let root = files.root_number();
        files.create(root, name.as_bytes(), &new_file(number)).await.expect("it is made");
        let bytes = content(seed);
        let end = bytes.len() as u64;
        files.write(number, 0, &Buf::copy_of(&bytes), end).await.expect("it is written");
        for name in gone {
            files.unlink(root, name.as_bytes()).await.expect("it goes");
            live.sync(async |_| Ok(())).await.expect("it is written");
            check_space(live.spa(), &name).await;
        }
        let snapshot = live.spa().dsl().find(&snapshot).await.expect("read").expect("there").1;
        let snapshot = snapshot.number;
        let gone = live.task(async |tasks| tasks.destroy_snapshot(snapshot, false).await).await;
        gone.expect("it is written").expect("it goes");
        live.finish_freeing().await.expect("it is freed");
        check_space(live.spa(), "a snapshot less").await;
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
        assert_eq!(is_condensing(live.spa()).await, condensing, "it is left as it is");
        condensing
    });
    rig.judge_pool("moved");
    for ((_, device), disk) in rig.disks.iter().zip(DISKS) {
        super::dump(device, &folder.join(disk));
    }
    condensing
}

#[test]
#[ignore = "boots a machine, three times: some minutes"]
fn the_kernel_goes_on_with_removed_vdevs_that_spindle_wrote() {
    let Some(oracle) = oracle() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    make_disks(at, &DISKS[..5], SMALL);
    make_disks(at, &DISKS[5..], LARGE);
    let enabled: String =
        FEATURES.split_whitespace().map(|name| format!(" -o feature@{name}=enabled")).collect();
    let first = churn("moved");
    let make = format!(
        "{NEVER}zpool create -f -d{enabled} moved /p/a mirror /p/b /p/c log /p/d special /p/e\n\
         {first}cp /moved/k4 /moved/kept; zfs create moved/loose\n\
         dd if=/dev/urandom of=/moved/loose/x bs=64k count=30 status=none; zfs snapshot moved@one; rm /moved/k5; zpool sync moved\n\
         zpool add -f moved /p/f; zpool remove moved /p/d; zpool remove -w moved /p/e\n\
         zpool remove -w moved /p/a\n\
         for i in 1 3 4; do dd if=/dev/urandom of=/moved/k$i bs=64k count=5 conv=notrunc status=none; done\n\
         for j in $(seq 20 28); do echo again > /moved/s$j.3; done; zpool sync moved\n\
         zfs snapshot moved@two; rm /moved/s2*.2; zpool sync moved; zpool remove -w moved mirror-1\n\
         for j in $(seq 20 28); do echo more > /moved/s$j.4; done; zpool sync moved\n\
         zfs snapshot moved@three; rm /moved/s3*; zpool sync moved\n\
         echo kept $(sha256sum < /moved/kept); zpool list -v moved; zpool export moved\n{JUDGE}"
    );
    let said = run(&oracle, at, &DISKS, &make);
    println!("{said}");
    let kept = said.lines().find(|line| line.starts_with("kept ")).expect("its digest").to_owned();
    assert!(!written(at, "spindle1", 1, &["k1", "k3"], "one"), "nothing is condensed yet");
    let more = format!(
        "{JUDGE}{CONDENSE}zpool import -f -d /p moved; echo digest $(sha256sum < /moved/spindle1)\n\
         echo kept $(sha256sum < /moved/kept)\n\
         zpool scrub -w moved; zpool status moved\n\
         for i in 1 2 3 4 5 6; do echo $i > /moved/n$i; zpool sync moved; sleep 1; done\n\
         zpool list -v moved; zpool export moved\n{JUDGE}\
         zpool import -f -d /p moved; zpool sync moved; sleep 3\n{SLOWLY}\
         rm /moved/loose/x; zpool sync moved; for i in 1 2 3; do echo $i > /moved/o$i; zpool sync moved; done\n\
         zpool export moved\n{JUDGE}"
    );
    let said = run(&oracle, at, &DISKS, &more);
    println!("{said}");
    let times = |text: &str| said.matches(text).count();
    assert_eq!(times("No leaks (block sum matches space maps exactly)"), 3, "{said}");
    assert_eq!((times("mismatch"), times("does not match"), times("with 0 errors")), (0, 0, 1));
    assert_eq!((times(&digest(&content(1))), times(&kept)), (1, 1), "{said}");
    let condensing = written(at, "spindle2", 2, &["k6"], "two");
    println!("half condensed: {condensing}");
    let last = format!(
        "{JUDGE}{CONDENSE}zpool import -f -d /p moved; echo digest $(sha256sum < /moved/spindle2)\n\
         echo kept $(sha256sum < /moved/kept)\n\
         zfs destroy moved@three; for i in 1 2 3 4 5 6; do echo $i > /moved/p$i; zpool sync moved; sleep 1; done\n\
         zpool scrub -w moved; zpool status moved; zpool export moved\n{JUDGE}"
    );
    let said = run(&oracle, at, &DISKS, &last);
    println!("{said}");
    let times = |text: &str| said.matches(text).count();
    assert_eq!(times("No leaks (block sum matches space maps exactly)"), 2, "{said}");
    assert_eq!((times("mismatch"), times("does not match"), times("with 0 errors")), (0, 0, 1));
    assert_eq!((times(&digest(&content(2))), times(&kept)), (1, 1), "{said}");
    assert!(condensing, "the export came while a mapping was condensed");
}
