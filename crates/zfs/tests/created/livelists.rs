//! Livelists of clones: what each says is held against what the clone reaches, and what frees it against `zdb`.
//!
//! What could break: a block of a clone that is on no list, or on one after it was freed, so that destroying the clone leaks it or
//! frees another's; a list that goes on when the clone's origin is another; a count of the feature; a place that was
//! given back and taken again within one group. The OpenZFS kernel makes clones and bookmarks, Spindle writes them and makes more, and the
//! kernel goes on.

use super::datasets::{check_books, files, in_random_order_over, node, number, task};
use super::marks::check_marks;
use super::{Model, Rig, compare, dump, features, files_of, new_file, top, zdb};
use fixtures::extent::{by_extent, is_thorough, some};
use rt::Buf;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::deadlist::Deadlist;
use zfs::dsl::livelist::live;
use zfs::dsl::make::Fresh;
use zfs::inspect::walk::Reached;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::bookmarks::BookmarkSource;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::datasets::{NewDataset, Tasks};
use zfs::spa::live::Live;
use zfs_format::features::Feature;
use zfs_format::vdev::VdevKind;

const FEATURE: &str = "livelist";
/// Files of the origin, and bytes of each.
const FILES: u64 = 48;
const FILE_BYTES: u64 = 200_000;

fn rig(more: &[&str]) -> Rig {
    let guid = |name: &&str| Feature::named(name).expect("it is known").guid;
    let all = features().into_iter().chain([FEATURE].iter().chain(more).map(guid)).collect();
    Rig::with_features(vec![top(0, VdevKind::File, 1)], all)
}

/// `zdb` finds each free's allocation, and what is left of them allocated.
fn verify(rig: &Rig) {
    let folder = rig.dumped();
    let Some(text) = zdb(folder.path(), &["-y", "tank"]) else { return };
    assert!(!text.contains("ERROR"), "{text}");
}

async fn uses(live: &Live) -> u64 {
    let uses = task(live, async |tasks| Ok(Ok(tasks.maker.uses(FEATURE).await?))).await;
    uses.expect("it is told").expect("it is enabled")
}

async fn sync(live: &Live) {
    live.sync(async |_| Ok(())).await.expect("it is written");
}

fn bytes(random: &mut Prng, len: u64) -> Vec<u8> {
    random.bytes(len as usize)
}

/// Makes a file system with files, and its snapshot `s`.
async fn make_origin(live: &Live, name: &str) -> Model {
    let above = node(live, "tank").await.directory.number;
    let new = NewDataset { name: name.to_owned(), owner: (0, 0), properties: Vec::new() };
    task(live, async |tasks| tasks.create(above, &new).await).await.expect("it is made");
    let name = format!("tank/{name}");
    let (mut model, mut random) = (Model::new(), Prng::new(4));
    let fs = files(live, &name).await;
    for number in 100..100 + FILES {
        let file = format!("file {number}").into_bytes();
        fs.create(fs.root_number(), &file, &new_file(number)).await.expect("it is made");
        let content = bytes(&mut random, FILE_BYTES);
        fs.write(number, 0, &Buf::copy_of(&content), FILE_BYTES).await.expect("it is written");
        model.insert(number, content);
    }
    drop(fs);
    sync(live).await;
    let head = number(live, &name).await;
    task(live, async |tasks| tasks.snapshot(head, "s").await).await.expect("it is taken");
    model
}

async fn clone_of(live: &Live, snapshot: &str, name: &str) {
    let (snapshot, above) =
        (number(live, snapshot).await, node(live, "tank").await.directory.number);
    let new = NewClone { name: name.to_owned(), properties: Vec::new() };
    task(live, async |tasks| tasks.clone(snapshot, above, &new).await).await.expect("it is made");
}

/// Writes somewhat into a few files, over and over the same ones.
async fn scratch(live: &Live, name: &str, model: &mut Model, random: &mut Prng) {
    let fs = files(live, name).await;
    for _ in 0..3 {
        let number = 100 + random.below(3);
        let at = random.below(FILE_BYTES - 5000);
        let len = 1 + random.below(4999);
        let content = bytes(random, len);
        fs.write(number, at, &Buf::copy_of(&content), FILE_BYTES).await.expect("it is written");
        let file = model.get_mut(&number).expect("it is known");
        file[at as usize..at as usize + content.len()].copy_from_slice(&content);
    }
}

async fn livelist(live: &Live, name: &str) -> Option<u64> {
    let directory = node(live, name).await.directory.number;
    task(live, async |tasks| {
        let object = tasks.maker.mos.dnode(directory).await?;
        Ok(Ok(tasks.maker.livelist_of(&object).await?))
    })
    .await
    .expect("it is told")
}

/// What a clone without snapshots has on its livelist is what it reaches of its own; says of how many lists the livelist is.
async fn check(live: &Live, name: &str) -> usize {
    sync(live).await;
    let list = livelist(live, name).await.expect("it has one");
    let lists = task(live, async |tasks| {
        let list = Deadlist::open(tasks.maker, list).await?;
        Ok(Ok(list.lists().collect::<Vec<_>>()))
    });
    let lists = lists.await.expect("it is told");
    let spa = live.spa();
    let mut listed: BTreeMap<[u64; 2], u64> = BTreeMap::new();
    for (at, (key, list)) in lists.iter().enumerate() {
        let end = lists.get(at + 1).map_or(u64::MAX, |next| next.0);
        for pointer in live_of(spa, *list).await {
            assert!((key + 1..=end).contains(&pointer.logical_birth()), "it is in its list");
            let dva = pointer.dva(0);
            let again = listed.insert([dva.vdev().into(), dva.offset()], pointer.logical_birth());
            assert_eq!(again, None, "a place is there once");
        }
    }
    let head = number(live, name).await;
    let (mut reached, mut walk) = (BTreeMap::new(), spa.walk());
    while let Some(visited) = walk.next().await {
        let visited = visited.expect("it is read");
        let pointer = visited.pointer;
        let is_own = visited.at.objset == head && visited.reached != Reached::Log;
        if is_own && !pointer.is_embedded() {
            let dva = pointer.dva(0);
            reached.insert([dva.vdev().into(), dva.offset()], pointer.logical_birth());
        }
    }
    assert_eq!(listed, reached, "{name}");
    lists.len()
}

async fn live_of(spa: &Spa, list: u64) -> Vec<zfs_format::block_pointer::BlockPointer> {
    live(spa.mos(), list).await.expect("it is read")
}

/// Clones are written over many groups with snapshots of theirs in between; then one is destroyed, one promoted, one taken back.
#[test]
fn what_a_clone_has_of_its_own_is_on_its_livelist_until_it_goes() {
    fixtures::takes_long!();
    let rig = rig(&[]);
    let models: Rc<RefCell<BTreeMap<&str, Model>>> = Rc::default();
    let names = ["a", "b", "c"];
    let kept = Rc::clone(&models);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let model = make_origin(&live, "fs").await;
        for name in names {
            clone_of(&live, "tank/fs@s", name).await;
            kept.borrow_mut().insert(name, model.clone());
        }
        assert_eq!(uses(&live).await, 3);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    let rounds = by_extent(1, 3);
    for round in 0..rounds {
        let kept = Rc::clone(&models);
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            live.syncer().set_livelist_allocations(40);
            let (mut models, mut random) = (kept.borrow().clone(), Prng::new(round));
            let mut most = 0;
            for step in 0..24 {
                for name in names {
                    let path = format!("tank/{name}");
                    scratch(&live, &path, models.get_mut(name).expect("known"), &mut random).await;
                    sync(&live).await;
                    if step % 6 == 1 {
                        let head = number(&live, &path).await;
                        let take = task(&live, async |tasks| tasks.snapshot(head, "own").await);
                        take.await.expect("it is taken");
                    }
                    if step % 6 == 4 {
                        let own = number(&live, &format!("{path}@own")).await;
                        let done =
                            async |tasks: &Tasks<'_>| tasks.destroy_snapshot(own, false).await;
                        task(&live, done).await.expect("it goes");
                        most = most.max(check(&live, &path).await);
                    }
                }
            }
            assert!((2..8).contains(&most), "of {most} lists, that become fewer");
            live.close(LabelState::Exported).await.expect("it is closed");
            *kept.borrow_mut() = models;
        });
        if round + 1 == rounds || is_thorough() {
            verify(&rig);
        }
    }
    rig.judge_midway();
    let kept = Rc::clone(&models);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let models = kept.borrow();
        let [a, b, c] = ["tank/a", "tank/b", "tank/c"];
        let object = number(&live, b).await;
        task(&live, async |tasks| tasks.promote(object).await).await.expect("it takes the place");
        assert_eq!((livelist(&live, b).await, livelist(&live, "tank/fs").await), (None, None));
        let object = number(&live, c).await;
        task(&live, async |tasks| tasks.snapshot(object, "own").await).await.expect("it is taken");
        let own = number(&live, "tank/c@own").await;
        scratch(&live, c, &mut models["c"].clone(), &mut Prng::new(5)).await;
        task(&live, async |tasks| tasks.rollback(object, own).await).await.expect("it goes back");
        assert_eq!((livelist(&live, c).await, uses(&live).await), (None, 1));
        check(&live, a).await;
        live.freeing().set_blocks_max(1);
        let object = number(&live, a).await;
        task(&live, async |tasks| tasks.destroy(object).await).await.expect("it goes");
        live.close(LabelState::Exported).await.expect("it is closed");
        assert!(live.freeing().waits(), "it is half gone");
    });
    rig.with(async |spa: Rc<Spa>, _| check_books(&spa).await);
    rig.judge_midway();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        live.finish_freeing().await.expect("it is freed");
        assert_eq!(uses(&live).await, 0);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        check_books(&spa).await;
        for name in ["b", "c"] {
            compare(&files_of(&spa, &format!("tank/{name}")).await, &models.borrow()[name]).await;
        }
    });
    rig.judge();
}

/// One that shares little with its origin is gone over as well.
#[test]
fn a_clone_that_is_written_anew_has_no_livelist_any_more() {
    fixtures::takes_long!();
    let rig = rig(&[]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        make_origin(&live, "fs").await;
        clone_of(&live, "tank/fs@s", "a").await;
        check(&live, "tank/a").await;
        let (fs, mut random) = (files(&live, "tank/a").await, Prng::new(8));
        let mut had = BTreeSet::new();
        for number in 100..100 + FILES / 2 {
            let content = Buf::copy_of(&bytes(&mut random, FILE_BYTES));
            fs.write(number, 0, &content, FILE_BYTES).await.expect("it is written");
            sync(&live).await;
            if livelist(&live, "tank/a").await.is_some() {
                check(&live, "tank/a").await;
                had.insert(number - 100);
            }
        }
        let files = had.len() as u64;
        assert!((FILES / 5..FILES / 4 + 1).contains(&files), "until a quarter is new: {files}");
        assert_eq!(uses(&live).await, 0);
        drop(fs);
        let object = number(&live, "tank/a").await;
        task(&live, async |tasks| tasks.destroy(object).await).await.expect("it goes");
        live.finish_freeing().await.expect("it is freed");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async |spa: Rc<Spa>, _| check_books(&spa).await);
    rig.judge();
}

/// Datasets of all kinds, with the feature.
#[test]
fn datasets_in_random_order_with_livelists_are_as_the_model() {
    fixtures::takes_long!();
    for seed in some([31, 32], 1) {
        in_random_order_over(&rig(&[]), seed, 25);
    }
}

/// Runs a script in a machine with the OpenZFS kernel, on a disk that is copied in and out.
pub(crate) fn kernel(disk: &Path, work: &str) -> Option<String> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle/oracle");
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !oracle.is_file() || !qemu {
        println!("skipped: {} or qemu-system-x86_64 is not there", oracle.display());
        return None;
    }
    let script = format!(
        "set -e\nmkdir /p; mount -t tmpfs -o size=1g none /p\n\
         dd if=/dev/vda of=/p/d bs=1M conv=sparse status=none; truncate -s 128M /p/d\n\
         {work}\ndd if=/p/d of=/dev/vda bs=1M status=none; sync\n"
    );
    let path = disk.with_file_name("work.sh");
    std::fs::write(&path, script).expect("a script");
    let mut machine = Command::new(oracle);
    machine.args(["--mem", "2000", "--cache", "unsafe", "--timeout", "280", "--disk"]);
    let output = machine.arg(disk).arg(&path).output().expect("the machine starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

/// Writes somewhat into the middle of a file that is there.
async fn overwrite(live: &Live, of: &str, file: &[u8], random: &mut Prng) {
    let fs = files(live, of).await;
    let root = fs.root().await.expect("it is read");
    let names = fs.names(&root).await.expect("they are read");
    let found = names.iter().find(|name| name.name == file).expect("it is there");
    let (number, content) = (found.entry.object, bytes(random, 3000));
    let end = fs.node(number).await.expect("it is there").attributes.size;
    fs.write(number, 70_000, &Buf::copy_of(&content), end).await.expect("it is written");
}

/// What the kernel began is gone on with; what is half destroyed here the kernel finishes.
#[test]
#[ignore = "boots a machine, twice: some minutes"]
fn the_kernel_goes_on_with_clones_and_bookmarks_that_were_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    let file = std::fs::File::create(&disk).expect("a disk");
    file.set_len(128 << 20).expect("a size");
    let names = "async_destroy empty_bpobj lz4_compress spacemap_histogram enabled_txg hole_birth spacemap_v2 \
        extensible_dataset bookmarks embedded_data large_blocks large_dnode bookmark_v2 livelist bookmark_written \
        log_spacemap block_cloning";
    let enabled: String =
        names.split_whitespace().map(|name| format!(" -o feature@{name}=enabled")).collect();
    let make = format!(
        "zpool create -d{enabled} tank /p/d\nzfs create tank/fs\n\
         for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=/tank/fs/f$i bs=128k count=6 status=none; done\n\
         zfs snapshot tank/fs@s; zfs bookmark tank/fs@s '#m'\n\
         for c in a b; do zfs clone tank/fs@s tank/$c; zpool sync tank\n\
         for i in 1 2 3; do dd if=/dev/urandom of=/tank/$c/f$i bs=4k count=1 seek=5 conv=notrunc status=none; zpool sync tank; done; done\n\
         dd if=/dev/urandom of=/tank/fs/f2 bs=128k count=2 conv=notrunc status=none\n\
         zpool export tank"
    );
    if kernel(&disk, &make).is_none() {
        return;
    }
    let devices = vec![(1, fixtures::Disk::of_file(&disk).device())];
    let rig = Rig::over(devices, Rc::new(super::Seeded(std::cell::Cell::new(Prng::new(7)))));
    let told: Rc<RefCell<Vec<u64>>> = Rc::default();
    let kept = Rc::clone(&told);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut random = Prng::new(11);
        assert_eq!(check_marks(live.spa()).await, 1);
        check(&live, "tank/a").await;
        clone_of(&live, "tank/fs@s", "c").await;
        for name in ["tank/a", "tank/b", "tank/c", "tank/fs"] {
            for file in [b"f1", b"f4"] {
                overwrite(&live, name, file, &mut random).await;
                sync(&live).await;
            }
        }
        assert_eq!(uses(&live).await, 3);
        for name in ["tank/a", "tank/b", "tank/c"] {
            check(&live, name).await;
        }
        let head = number(&live, "tank/fs").await;
        task(&live, async |tasks| tasks.snapshot(head, "t").await).await.expect("it is taken");
        let source = BookmarkSource::Snapshot(number(&live, "tank/fs@t").await);
        let mark = async |tasks: &Tasks<'_>| tasks.bookmark(head, "n", &source).await;
        task(&live, mark).await.expect("it is made");
        let gone = number(&live, "tank/fs@t").await;
        let done = task(&live, async |tasks| tasks.destroy_snapshot(gone, false).await).await;
        done.expect("it goes");
        overwrite(&live, "tank/fs", b"f5", &mut random).await;
        sync(&live).await;
        assert_eq!(check_marks(live.spa()).await, 2);
        let fs = node(&live, "tank/fs").await;
        let catalog = live.spa().catalog(0).await.expect("it is read");
        for mark in ["m", "n"] {
            let since = catalog.written_since_bookmark(&fs, mark).await.expect("read");
            kept.borrow_mut().push(since.expect("it tells it"));
        }
        live.freeing().set_blocks_max(1);
        let object = number(&live, "tank/a").await;
        task(&live, async |tasks| tasks.destroy(object).await).await.expect("it goes");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    for (_, device) in &rig.disks {
        dump(device, &disk);
    }
    let go_on = "\
        zdb -e -p /p -bcc tank 2>&1 | grep -i -e leak -e error || true\n\
        zdb -e -p /p -y tank 2>&1 | grep -v '^space map' | tail -5\n\
        zpool import -d /p tank; zpool wait -t free tank; zpool sync tank\n\
        for m in m n; do echo told $(zfs get -Hpo value written#$m tank/fs); done\n\
        for c in b c; do dd if=/dev/urandom of=/tank/$c/f4 bs=4k count=1 seek=9 conv=notrunc status=none; zpool sync tank; done\n\
        cat /tank/c/* > /dev/null; zpool scrub -w tank; zpool status tank\n\
        zfs destroy tank/b; zfs destroy tank/c; zpool wait -t free tank; zpool sync tank; sleep 2; zpool sync tank\n\
        echo livelist $(zpool get -Ho value feature@livelist tank)\n\
        zfs destroy tank/fs#m; zfs destroy tank/fs#n; zfs destroy tank/fs@s\n\
        echo marks $(zpool get -Ho value feature@bookmark_written tank)\n\
        zpool export tank; zdb -e -p /p -bcc tank 2>&1 | grep -i -e leak -e error || true";
    let said = kernel(&disk, go_on).expect("it was there before");
    let times = |text: &str| said.matches(text).count();
    assert_eq!(times("No leaks (block sum matches space maps exactly)"), 2, "{said}");
    assert_eq!((times("ERROR"), times("with 0 errors")), (0, 1), "{said}");
    for since in &*told.borrow() {
        assert!(said.contains(&format!("told {since}\n")), "{since}: {said}");
    }
    assert!(said.contains("livelist enabled\n") && said.contains("marks enabled\n"), "{said}");
}
