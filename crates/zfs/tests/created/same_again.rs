//! Blocks that are written again with what they hold (nopwrite): nothing is allocated, and they are as old as they were.
//!
//! What could break: a block is left as it is though another one was to stand there; one that was freed in the same group is named
//! again; a snapshot loses what it shares; what is stored otherwise from now on (compression, copies) stays as it was.

use super::datasets::{files, node, task};
use super::{Rig, features_and, new_file, top};
use rt::Buf;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs_format::vdev::VdevKind;

const RECORD: u64 = 16 << 10;
const BLOCKS: u64 = 24;
const FILE: u64 = 100;
const SHA256: u64 = 8;
const SKEIN: u64 = 12;
const FLETCHER4: u64 = 7;
const LZ4: u64 = 15;
const GZIP: u64 = 10;

fn rig() -> Rig {
    let tops = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
    Rig::with_features(tops, features_and(&["sha512", "skein"]))
}

/// A block whose content can be compressed.
fn block(seed: u64) -> Vec<u8> {
    let mut bytes = Prng::new(seed).bytes(RECORD as usize);
    bytes[..RECORD as usize / 2].fill(seed as u8);
    bytes
}

async fn set(live: &Live, name: &str, number: u64) {
    let directory = node(live, "tank").await.directory.number;
    let value = Some(table::number(number));
    let set = task(live, async |tasks| tasks.set_property(directory, name, value).await);
    set.await.expect("it is set");
}

/// Writes these blocks of the file with what the seeds make.
async fn write(live: &Live, blocks: impl IntoIterator<Item = (u64, u64)>) {
    let fs = files(live, "tank").await;
    for (number, seed) in blocks {
        let bytes = Buf::copy_of(&block(seed));
        fs.write(FILE, number * RECORD, &bytes, BLOCKS * RECORD).await.expect("it is written");
    }
}

async fn sync(live: &Live) {
    live.sync(async |_| Ok(())).await.expect("it is written");
}

/// The births of the file's blocks. What the snapshot has too is walked as its.
async fn births(live: &Live) -> BTreeMap<u64, u64> {
    let head = node(live, "tank").await.head.number;
    let (mut own, mut shared, mut walk) = (BTreeMap::new(), BTreeMap::new(), live.spa().walk());
    while let Some(visited) = walk.next().await {
        let visited = visited.expect("it is read");
        let at = visited.at;
        if (at.object, at.level) == (FILE, 0) && at.objset != 0 && !visited.pointer.is_hole() {
            let of = if at.objset == head { &mut own } else { &mut shared };
            of.insert(at.block, visited.pointer.logical_birth());
        }
    }
    shared.extend(own);
    shared
}

async fn check(live: &Live, seeds: impl Fn(u64) -> u64) {
    let fs = files(live, "tank").await;
    let file = fs.node(FILE).await.expect("it is there");
    for number in 0..BLOCKS {
        let read = fs.read(&file, number * RECORD, RECORD as usize).await.expect("it is read");
        assert!(read.to_vec() == block(seeds(number)), "block {number}");
    }
}

#[test]
fn what_is_there_already_is_not_written_again() {
    let rig = rig();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let all = || (0..BLOCKS).map(|number| (number, number));
        set(&live, "recordsize", RECORD).await;
        set(&live, "compression", LZ4).await;
        set(&live, "checksum", SHA256).await;
        {
            let fs = files(&live, "tank").await;
            fs.create(fs.root_number(), b"f", &new_file(FILE)).await.expect("it is made");
        }
        write(&live, all()).await;
        sync(&live).await;
        let first = births(&live).await;
        assert_eq!(first.len() as u64, BLOCKS);
        let head = node(&live, "tank").await.head.number;
        task(&live, async |tasks| tasks.snapshot(head, "s").await).await.expect("it is taken");

        // The same again; and others in between, whose first content comes back within the group.
        write(&live, all()).await;
        write(&live, (0..BLOCKS).step_by(3).map(|number| (number, 500 + number))).await;
        write(&live, (0..BLOCKS).step_by(3).map(|number| (number, number))).await;
        sync(&live).await;
        assert_eq!(births(&live).await, first, "they are as old as they were");
        check(&live, |number| number).await;

        // Some have another content, and the others not.
        write(&live, (0..BLOCKS).map(|n| (n, if n % 2 == 0 { n } else { 900 + n }))).await;
        sync(&live).await;
        let now = births(&live).await;
        for (number, birth) in &now {
            assert_eq!(*birth == first[number], number % 2 == 0, "block {number}");
        }
        check(&live, |n| if n % 2 == 0 { n } else { 900 + n }).await;

        // What was freed in the group is written anew.
        {
            let fs = files(&live, "tank").await;
            fs.truncate(FILE, 0).await.expect("it is cut");
        }
        write(&live, all()).await;
        sync(&live).await;
        let anew = births(&live).await;
        assert!(anew.iter().all(|(number, birth)| *birth > now[number]), "{anew:?}");
        check(&live, |number| number).await;

        // What is stored otherwise is, and without compression or a sum that is as good as the bytes nothing is taken for the same.
        let mut before = anew;
        for (name, value, is_kept) in [
            ("compression", GZIP, false),
            ("checksum", SKEIN, false),
            ("compression", GZIP, true),
            ("copies", 2, false),
            ("copies", 2, true),
            ("compression", 2, false),
            ("compression", 2, false),
            ("compression", LZ4, false),
            ("checksum", FLETCHER4, false),
            ("checksum", FLETCHER4, false),
        ] {
            set(&live, name, value).await;
            write(&live, all()).await;
            sync(&live).await;
            let now = births(&live).await;
            let kept = now.iter().filter(|(number, birth)| before[number] == **birth).count();
            assert_eq!(kept as u64, if is_kept { BLOCKS } else { 0 }, "{name}={value}");
            before = now;
            check(&live, |number| number).await;
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
