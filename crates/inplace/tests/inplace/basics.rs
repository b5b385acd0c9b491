//! The contract of a tree, on each kind of file system. What could break: bytes that come back wrong
//! after a remount, a file that dies with its name, space that is never given back, garbage that is
//! mounted or makes the mount panic.

use crate::world;

use fixtures::extent::some;
use inplace::{FileSystem, MountError, MountOptions, Preset, SettingsError};
use rt::{Buf, FileTree, IoErrorKind, MemoryDevice, OpenHow, Request, TreeErrorKind};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use world::*;

const CAPACITY: ByteCount = ByteCount::mib(64);

#[test]
fn bytes_names_and_sizes_survive_a_remount() {
    for (name, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let device = memory(CAPACITY);
            let tree = fresh(&rt, Rc::clone(&device), &settings, options).await;
            tree.create_directory(path("d")).await.expect("made");
            let mut bytes = vec![0; 300_000];
            Prng::new(1).fill(&mut bytes);
            let file = create(&*tree, "d/f").await;
            write(&file, 12_345, Buf::copy_of(&bytes)).await;
            for i in 0..300 {
                create(&*tree, &format!("d/small{i}")).await;
            }
            drop(file);
            assert_sound(&tree, &name).await;
            let before = content(&*tree).await;
            assert_eq!(before.len(), 302, "{name}");
            tree.unmount().await.expect("unmounted");
            let tree = FileSystem::mount(&rt, device, options).await.expect("mounted again");
            assert_eq!(tree.replayed(), 0, "{name}: an unmount leaves nothing to replay");
            assert_eq!(content(&*tree).await, before, "{name}");
            assert_sound(&tree, &name).await;
        });
    }
}

/// The stored size follows the data; here there is none that it could follow.
#[test]
fn a_size_survives_a_remount_where_no_data_is_left_before_it() {
    for (name, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let device = memory(CAPACITY);
            let tree = fresh(&rt, Rc::clone(&device), &settings, options).await;
            for (file, cut) in [("cut", true), ("hole", false)] {
                let file = create(&*tree, file).await;
                write(&file, 5 << 20, Buf::fill(1, 20_480)).await;
                if cut {
                    file.set_size(ByteCount(1_000_001)).await.expect("cut");
                } else {
                    let hole = Request::discard(Offset(1 << 20), ByteCount(8 << 20));
                    file.submit(hole).await.expect("made");
                }
            }
            tree.unmount().await.expect("unmounted");
            let tree = FileSystem::mount(&rt, device, options).await.expect("mounted");
            for (file, size) in [("cut", 1_000_001), ("hole", (5 << 20) + 20_480)] {
                let status = tree.status(path(file)).await.expect("known");
                assert_eq!(status.size, ByteCount(size), "{name}: {file}");
            }
        });
    }
}

/// A model's large file: its blocks have places, and are read from the device, which was never written there.
#[test]
fn a_file_that_is_laid_out_reads_what_the_device_holds_and_keeps_what_is_written() {
    for (name, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let size = ByteCount::mib(20);
            let device = memory(CAPACITY);
            let all = Buf::fill(0x0101_0101_0101_0101, CAPACITY.as_usize());
            device.submit(Request::write(Offset::ZERO, all)).await.expect("written");
            let tree = fresh(&rt, Rc::clone(&device), &settings, options).await;
            tree.lay_out(path("f"), size).await.expect("there is room");
            assert_sound(&tree, &name).await;
            tree.unmount().await.expect("unmounted");
            let tree = FileSystem::mount(&rt, device, options).await.expect("mounted again");
            let status = tree.status(path("f")).await.expect("known");
            assert!(status.size == size && status.allocated >= size, "{name}: {status:?}");
            let file = tree.open(path("f"), OpenHow::write()).await.expect("opened");
            for at in [0, 7 << 20, (20 << 20) - 4096] {
                assert_eq!(read(&file, at, 4096).await, vec![1; 4096], "{name}: no hole at {at}");
            }
            write(&file, 5 << 20, Buf::fill(2, 4096)).await;
            assert_eq!(read(&file, 5 << 20, 8).await, 2_u64.to_le_bytes(), "{name}");
            drop(file);
            let error = tree.lay_out(path("g"), CAPACITY).await.expect_err("there is no such room");
            assert_eq!(error.kind, TreeErrorKind::NoSpace, "{name}");
            assert_sound(&tree, &name).await;
        });
    }
}

#[test]
fn a_file_that_is_removed_while_it_is_open_lives_until_it_is_closed_and_gives_its_space_back() {
    for (name, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let tree = fresh(&rt, memory(CAPACITY), &settings, options).await;
            create(&*tree, "other").await;
            tree.sync().await.expect("synced");
            let free = tree.space().await.expect("known").free;
            let file = create(&*tree, "f").await;
            write(&file, 0, Buf::fill(7, 3 << 20)).await;
            tree.sync().await.expect("synced");
            tree.remove_file(path("f")).await.expect("removed");
            let missing = tree.open(path("f"), OpenHow::read()).await.map(drop);
            assert_eq!(missing.expect_err("gone").kind, TreeErrorKind::NotFound);
            let read = file.submit(Request::read(Offset(0), ByteCount(3 << 20))).await;
            assert_eq!(read.expect("read").slice(0..8).to_vec(), 7_u64.to_le_bytes());
            assert!(tree.space().await.expect("known").free <= free - ByteCount(3 << 20));
            assert_sound(&tree, &name).await;
            drop(file);
            tree.sync().await.expect("synced");
            rt.yield_now().await;
            tree.sync().await.expect("synced");
            let now = tree.space().await.expect("known").free;
            assert!(now + ByteCount::kib(64) > free, "{name}: {now} of {free} free");
            assert_sound(&tree, &name).await;
        });
    }
}

#[test]
fn a_full_device_refuses_and_keeps_what_it_took() {
    for (name, settings, options) in variants(CAPACITY) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let tree = fresh(&rt, memory(CAPACITY), &settings, options).await;
            let file = create(&*tree, "f").await;
            let mut at = 0;
            let refused = loop {
                let write = Request::write(Offset(at), Buf::fill(at, 64 << 10));
                match file.submit(write).await {
                    Ok(_) => at += 64 << 10,
                    Err(error) => break error.kind,
                }
                assert!(at < CAPACITY.bytes(), "{name}: it must end");
            };
            assert_eq!(refused, IoErrorKind::NoSpace, "{name}");
            assert!(at > CAPACITY.bytes() / 2, "{name}: only {at} fit");
            file.sync().await.expect("what was taken can be written");
            assert_sound(&tree, &name).await;
            for i in 0..at >> 16 {
                let start = read(&file, i << 16, 512).await;
                assert_eq!(start[..8], (i << 16).to_le_bytes(), "{name}");
            }
            drop(file);
            tree.remove_file(path("f")).await.expect("removed from a full device");
            let file = create(&*tree, "g").await;
            write(&file, 0, Buf::fill(1, 1 << 20)).await;
            assert_sound(&tree, &name).await;
        });
    }
}

#[test]
fn garbage_is_refused_and_nothing_panics() {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let options = Preset::Xfs.mount_options(ByteCount::mib(4));
        let mount = async |device| FileSystem::mount(&rt, device, options).await.map(drop);
        for seed in 0..20 {
            let device = MemoryDevice::new("m", CAPACITY);
            let mut bytes = vec![0; 1 << 20];
            Prng::new(seed).fill(&mut bytes);
            device.poke(Offset::ZERO, &Buf::copy_of(&bytes).into());
            let refused = mount(device).await.expect_err("garbage");
            assert!(matches!(refused, MountError::Format(_)), "{refused}");
        }
        let tiny = MemoryDevice::new("m", ByteCount(512));
        assert!(matches!(mount(tiny).await, Err(MountError::Format(_))));
    });
}

/// Bytes of metadata that turn bad on the device: reads and changes fail or go on, and nothing panics.
#[test]
fn spoilt_metadata_is_an_error_and_never_a_panic() {
    for (_, settings, options) in variants(CAPACITY) {
        for seed in some(0..25, 8) {
            let runtime = runtime();
            let rt = runtime.handle();
            run(&runtime, async move {
                let device = MemoryDevice::new("m", CAPACITY);
                let tree = fresh(&rt, device.clone(), &settings, options).await;
                for i in 0..40 {
                    let file = create(&*tree, &format!("f{i}")).await;
                    write(&file, i * 50_000, Buf::fill(i, 20_000)).await;
                }
                tree.unmount().await.expect("unmounted");
                drop(tree);
                let mut prng = Prng::new(seed);
                // The first megabyte has all tables and the first group's metadata.
                for _ in 0..200 {
                    let at = Offset(4096 + prng.below(2 << 20) / 8 * 8);
                    let mut word = [0; 8];
                    prng.fill(&mut word);
                    let word = if prng.chance(0.5) { [word[0] % 3; 8] } else { word };
                    device.poke(at, &Buf::copy_of(&word).into());
                }
                let Ok(tree) = FileSystem::mount(&rt, device, options).await else { return };
                for i in 0..40 {
                    let name = format!("f{i}");
                    if let Ok(file) = tree.open(path(&name), OpenHow::write()).await {
                        let size = file.status().await.expect("known").size;
                        let len = size.min(ByteCount::mib(3)).round_up(ByteCount(512));
                        let _ = file.submit(Request::read(Offset(0), len)).await;
                        let _ = file.submit(Request::write(Offset(0), Buf::fill(1, 8192))).await;
                        let _ = file.sync().await;
                    }
                    let _ = tree.remove_file(path(&name)).await;
                    let _ = tree.open(path("new"), OpenHow::create()).await;
                }
                let _ = tree.list(path("")).await;
                let _ = tree.sync().await;
            });
        }
    }
}

#[test]
fn what_can_not_be_is_refused_by_name() {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let settings = Preset::Xfs.settings(CAPACITY, None);
        let small = FileSystem::format(&rt, memory(ByteCount::mib(1)), &settings).await;
        assert!(small.expect_err("too small").to_string().contains("1 MiB"));
        let device = memory(CAPACITY);
        FileSystem::format(&rt, device.clone(), &settings).await.expect("made");
        let options = Preset::Xfs.mount_options(ByteCount::kib(64));
        let refused = FileSystem::mount(&rt, device.clone(), options).await.map(drop);
        assert!(matches!(refused, Err(MountError::Options(SettingsError::Cache { .. }))));
        let options = MountOptions { cache: ByteCount::mib(4), ..options };
        let tree = FileSystem::mount(&rt, device, options).await.expect("mounted");
        let long = "x".repeat(256);
        let refused = tree.open(path(&long), OpenHow::create()).await.map(drop);
        assert_eq!(refused.expect_err("too long").kind, TreeErrorKind::NameTooLong);
        let up = tree.create_directory(path("../x")).await;
        assert_eq!(
            up.expect_err("refused").to_string(),
            "creating the directory m/../x: the path must be relative, of plain names"
        );
        let file = tree.open(path("d"), OpenHow::create().with_direct(true)).await.expect("made");
        let off = file.submit(Request::write(Offset(100), Buf::fill(0, 512))).await;
        assert_eq!(off.expect_err("misaligned").kind, IoErrorKind::Invalid);
    });
}
