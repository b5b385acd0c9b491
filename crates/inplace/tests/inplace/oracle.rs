//! Random operations on a file system and on a tree in memory: the same answers, the same bytes. What
//! could break: anything that one operation leaves behind for the next (stale pages, blocks beyond the
//! end, a page that is dirty in two places, names that moved when a directory grew).

use crate::world;

use fixtures::extent::by_extent;
use inplace::{FileSystem, MountOptions, Settings};
use proptest::prelude::*;
use rt::{Buf, FileRef, FileTree, MemoryTree, OpenHow, Request, Rt, TreeErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{ByteCount, Duration, Offset, Prng};
use world::*;

const CAPACITY: ByteCount = ByteCount::mib(80);

/// What one step does: its kind, two names, a place, a length.
type Step = (u8, u8, u8, u16, u16);

struct Pair {
    rt: Rt,
    device: rt::DeviceRef,
    options: MountOptions,
    ours: Rc<FileSystem>,
    oracle: Rc<MemoryTree>,
    /// Files that stay open over other steps.
    held: Vec<(FileRef, FileRef)>,
}

fn name(n: u8) -> PathBuf {
    match n % 12 {
        n @ 0..4 => PathBuf::from(format!("f{n}")),
        n @ 4..8 => PathBuf::from(format!("d{}/f{n}", n % 2)),
        n @ 8..10 => PathBuf::from(format!("d{}", n % 2)),
        n => PathBuf::from(format!("d0/d{n}")),
    }
}

/// Places near block borders, and a few far away, under the second and third indirect block.
fn place(at: u16) -> u64 {
    let far = [0, 0, 0, 0, 0, 0, 1 << 20, 5 << 20][usize::from(at % 8)];
    far + u64::from(at / 8) * 37
}

fn same<T, U>(ours: &Result<T, rt::TreeError>, oracle: &Result<U, rt::TreeError>, what: &str) {
    let kind = |error: &rt::TreeError| error.kind;
    let (ours, oracle) = (ours.as_ref().err().map(kind), oracle.as_ref().err().map(kind));
    assert_eq!(ours, oracle, "{what}");
}

impl Pair {
    async fn both(&self, path: &Path, how: OpenHow) -> Option<(FileRef, FileRef)> {
        let ours = self.ours.open(path, how).await;
        let oracle = self.oracle.open(path, how).await;
        same(&ours, &oracle, &format!("open {}", path.display()));
        Some((ours.ok()?, oracle.ok()?))
    }

    async fn ask(&self, files: &(FileRef, FileRef), request: Request) {
        let what = format!("{} of {} at {}", request.kind(), request.len(), request.offset);
        let ours = files.0.submit(request.clone()).await.expect(&what);
        let oracle = files.1.submit(request).await.expect(&what);
        assert_eq!(ours.len(), oracle.len(), "{what}");
        assert!(ours.to_vec() == oracle.to_vec(), "{what}: other bytes");
    }

    async fn step(&mut self, i: usize, step: Step) {
        let (kind, a, b, at, len) = step;
        let (path, other) = (name(a), name(b));
        let (at, len) = (place(at), u64::from(len) % 30_000 + 1);
        let write = OpenHow { write: true, create: true, ..OpenHow::default() };
        let direct = write.with_direct(true);
        let (sector_at, sectors) =
            (Offset(at / 512 * 512), ByteCount(len).round_up(ByteCount(512)));
        let data = |len: u64| match b % 3 {
            0 => Buf::fill(i as u64 * 0x0101_0101, len as usize),
            _ => {
                let mut bytes = vec![0; len as usize];
                Prng::new(i as u64).fill(&mut bytes);
                Buf::copy_of(&bytes)
            }
        };
        match kind % 24 {
            0..6 => {
                let how = write.with_durable_writes(b % 7 == 0);
                let Some(files) = self.both(&path, how).await else { return };
                self.ask(&files, Request::write(Offset(at), data(len))).await;
            }
            6..9 => {
                let Some(files) = self.both(&path, direct).await else { return };
                self.ask(&files, Request::write(sector_at, data(sectors.bytes()))).await;
            }
            9..12 => {
                let how = OpenHow::read().with_direct(b % 2 == 0);
                let Some(files) = self.both(&path, how).await else { return };
                let (at, len) =
                    if b % 2 == 0 { (sector_at, sectors) } else { (Offset(at), ByteCount(len)) };
                self.ask(&files, Request::read(at, len)).await;
            }
            12 => {
                let Some((ours, oracle)) = self.both(&path, write).await else { return };
                let size = ByteCount(if b % 2 == 0 { at } else { len });
                same(&ours.set_size(size).await, &oracle.set_size(size).await, "set size");
            }
            13 => {
                let Some(files) = self.both(&path, write).await else { return };
                self.ask(&files, Request::discard(Offset(at), ByteCount(len * 3))).await;
            }
            14 => {
                let Some(files) = self.both(&path, write).await else { return };
                self.ask(&files, Request::write_zeroes(Offset(at), ByteCount(len))).await;
            }
            15 => {
                let Some((ours, oracle)) = self.both(&path, write).await else { return };
                let size = ByteCount(at.min(1 << 20));
                same(&ours.allocate(size).await, &oracle.allocate(size).await, "allocate");
            }
            16 => {
                let ours = self.ours.create_directory(&path).await;
                same(&ours, &self.oracle.create_directory(&path).await, "create directory");
            }
            17 => {
                let ours = self.ours.remove_directory(&path).await;
                same(&ours, &self.oracle.remove_directory(&path).await, "remove directory");
            }
            18 => {
                let ours = self.ours.remove_file(&path).await;
                same(&ours, &self.oracle.remove_file(&path).await, "remove file");
            }
            19 if path != other => {
                let ours = self.ours.rename(&path, &other).await;
                same(&ours, &self.oracle.rename(&path, &other).await, "rename");
            }
            20 => {
                let Some(files) = self.both(&path, write).await else { return };
                if b % 2 == 0 {
                    self.held.push(files);
                } else {
                    files.0.sync().await.expect("synced");
                    files.0.drop_cache().await.expect("dropped");
                }
            }
            21 => {
                for files in std::mem::take(&mut self.held) {
                    self.ask(&files, Request::write(Offset(at), data(len))).await;
                    self.ask(&files, Request::read(Offset(0), ByteCount(1 << 20))).await;
                }
            }
            // The commit, the write-back and the checkpoint by age.
            22 => self.rt.sleep(Duration::from_secs(u64::from(b) % 40)).await,
            _ => {
                self.held.clear();
                if b % 3 == 0 {
                    assert_sound(&self.ours, "before a remount").await;
                }
                self.ours.unmount().await.expect("unmounted");
                let device = Rc::clone(&self.device);
                let mounted = FileSystem::mount(&self.rt, device, self.options).await;
                self.ours = mounted.expect("mounted");
            }
        }
    }
}

fn play(settings: Settings, options: MountOptions, steps: Vec<Step>) {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let device = memory(CAPACITY);
        let ours = fresh(&rt, Rc::clone(&device), &settings, options).await;
        let oracle = MemoryTree::new("m");
        let mut pair = Pair { rt, device, options, ours, oracle, held: Vec::new() };
        for directory in ["d0", "d1"] {
            pair.ours.create_directory(path(directory)).await.expect("made");
            pair.oracle.create_directory(path(directory)).await.expect("made");
        }
        for (i, step) in steps.into_iter().enumerate() {
            pair.step(i + 1, step).await;
        }
        assert!(content(&*pair.ours).await == content(&*pair.oracle).await, "other content");
        pair.held.clear();
        pair.ours.sync().await.expect("synced");
        assert_sound(&pair.ours, "at the end").await;
        assert!(content(&*pair.ours).await == content(&*pair.oracle).await, "other content");
        assert_eq!(pair.ours.damage(), None);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_extent(8, 24), failure_persistence: None, ..ProptestConfig::default() })]

    /// The same operations on both give the same answers and the same bytes.
    #[test]
    fn a_file_system_behaves_as_a_tree_in_memory(
        variant in 0_usize..6,
        small_cache: bool,
        steps in proptest::collection::vec(any::<Step>(), 1..120),
    ) {
        let (_, settings, mut options) = variants(CAPACITY).swap_remove(variant);
        if small_cache {
            options.cache = settings.block * 256;
        }
        play(settings, options, steps);
    }
}

/// Which of several things that are wrong is told: first the ways to both names, then the source, then
/// the target, as rename(2) has it. (A way to the target through a file was told after the source.)
#[test]
fn a_wrong_rename_is_told_in_the_order_of_the_model() {
    for (kind, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let device = memory(CAPACITY);
            let ours = fresh(&rt, device, &settings, options).await;
            let oracle = MemoryTree::new("m");
            let places =
                ["gone", "f", "f/x", "f/x/y", "d", "d/gone", "d/f", "d/f/x", "d/d", "gone/x"];
            for tree in [&*ours as &dyn FileTree, &*oracle] {
                for directory in ["d", "d/d"] {
                    tree.create_directory(path(directory)).await.expect("made");
                }
                for file in ["f", "d/f"] {
                    tree.open(path(file), OpenHow::create()).await.expect("made");
                }
            }
            for (from, to) in places.iter().flat_map(|from| places.iter().map(move |to| (from, to)))
            {
                let renamed = ours.rename(path(from), path(to)).await;
                let expected = oracle.rename(path(from), path(to)).await;
                same(&renamed, &expected, &format!("{kind}: {from} to {to}"));
                if renamed.is_ok() && from != to {
                    for tree in [&*ours as &dyn FileTree, &*oracle] {
                        tree.rename(path(to), path(from)).await.expect("renamed back");
                        if to.ends_with('f') {
                            tree.open(path(to), OpenHow::create()).await.expect("made");
                        }
                        if *to == "d/d" {
                            tree.create_directory(path(to)).await.expect("made");
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn a_directory_of_thousands_of_names_keeps_each_of_them() {
    fixtures::takes_long!();
    for (kind, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let device = memory(CAPACITY);
            let tree = fresh(&rt, Rc::clone(&device), &settings, options).await;
            let name = |i: u32| PathBuf::from(format!("a-rather-long-name-for-a-file-{i}"));
            for i in 0..3000 {
                tree.open(&name(i), OpenHow::create()).await.expect("created");
            }
            for i in (0..3000).step_by(3) {
                tree.remove_file(&name(i)).await.expect("removed");
            }
            tree.unmount().await.expect("unmounted");
            let tree = FileSystem::mount(&rt, device, options).await.expect("mounted");
            assert_eq!(tree.list(path("")).await.expect("listed").len(), 2000, "{kind}");
            for i in 0..3000 {
                let known = tree.status(&name(i)).await.map(drop).map_err(|error| error.kind);
                let expected = if i % 3 == 0 { Err(TreeErrorKind::NotFound) } else { Ok(()) };
                assert_eq!(known, expected, "{kind}: {i}");
            }
            assert_sound(&tree, &kind).await;
        });
    }
}
