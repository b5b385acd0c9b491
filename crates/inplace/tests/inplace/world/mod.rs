//! What the tests of this crate share: a runtime in virtual time, file systems on memory, and comparing
//! a tree with the one that it should be.

use inplace::{FileSystem, MountOptions, Preset, Settings, Stripe};
use rt::{
    Buf, DeviceRef, FileKind, FileRef, FileTree, MemoryDevice, OpenHow, Reactor, Request, Rt,
    Runtime,
};
use sim::SimReactor;
use sim::host::Processor;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// A runtime whose clock jumps and whose processor costs nothing.
pub fn runtime() -> Runtime {
    Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>)
}

/// Runs a test's future to its end.
pub fn run<F>(runtime: &Runtime, future: F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    runtime.block_on(future).expect("a test's future ends")
}

/// The presets, and mixes of them that no preset has.
pub fn variants(capacity: ByteCount) -> Vec<(String, Settings, MountOptions)> {
    let stripe = Some(Stripe { unit: ByteCount::kib(16), width: 3 });
    let cache = ByteCount::mib(4);
    let mut variants: Vec<_> = Preset::ALL
        .into_iter()
        .map(|preset| {
            let settings = preset.settings(capacity, stripe);
            (preset.to_string(), settings, preset.mount_options(cache))
        })
        .collect();
    let xfs = Preset::Xfs.settings(capacity, None);
    let ext3 = Preset::Ext3Ordered.settings(capacity, None);
    variants.push((
        "extents at write, full journal blocks".into(),
        Settings { inode: ByteCount(256), mapping: inplace::Mapping::Extents, ..ext3 },
        Preset::Ext3Ordered.mount_options(cache),
    ));
    variants.push((
        "indirect at write-back, ranges".into(),
        Settings { mapping: inplace::Mapping::Indirect, ..xfs },
        Preset::Xfs.mount_options(cache),
    ));
    variants
}

/// A mounted file system that was just made.
pub async fn fresh(
    rt: &Rt,
    device: DeviceRef,
    settings: &Settings,
    options: MountOptions,
) -> Rc<FileSystem> {
    FileSystem::format(rt, Rc::clone(&device), settings).await.expect("made");
    FileSystem::mount(rt, device, options).await.expect("mounted")
}

pub fn memory(capacity: ByteCount) -> DeviceRef {
    MemoryDevice::new("m", capacity)
}

pub fn path(text: &str) -> &Path {
    Path::new(text)
}

pub async fn create(tree: &dyn FileTree, name: &str) -> FileRef {
    tree.open(path(name), OpenHow::create()).await.expect("created")
}

pub async fn write(file: &FileRef, at: u64, data: Buf) {
    file.submit(Request::write(Offset(at), data)).await.expect("written");
}

pub async fn read(file: &FileRef, at: u64, len: u64) -> Vec<u8> {
    file.submit(Request::read(Offset(at), ByteCount(len))).await.expect("read").to_vec()
}

/// Everything in a tree: paths, in order, with the content of files.
pub async fn content(tree: &dyn FileTree) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut below = vec![PathBuf::new()];
    while let Some(directory) = below.pop() {
        for entry in tree.list(&directory).await.expect("listed") {
            let path = directory.join(&entry.name);
            if entry.kind == FileKind::Directory {
                found.push((path.clone(), None));
                below.push(path);
            } else {
                let file = tree.open(&path, OpenHow::read()).await.expect("opened");
                let size = file.status().await.expect("known").size;
                let unit = file.alignment();
                let len = size.round_up(unit).bytes();
                let bytes = read(&file, 0, len).await;
                assert_eq!(bytes.len() as u64, size.bytes());
                found.push((path, Some(bytes)));
            }
        }
    }
    found.sort();
    found
}

/// Fails with what a check found.
pub async fn assert_sound(tree: &FileSystem, when: &str) {
    let report = tree.check().await.expect("checked");
    assert!(report.faults.is_empty(), "{when}: {:#?}", report.faults);
}
