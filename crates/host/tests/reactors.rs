//! Both reactors pass one suite: the same claims about files, through `Device`, by io_uring and by
//! threads, in memory and on a disk.
//!
//! What could break: bytes that land elsewhere or not at all, memory that is given back while the
//! kernel writes to it, an executor that sleeps through a wake-up, an error that is swallowed.

#![allow(clippy::disallowed_methods)] // host is the real world: threads, clocks, and places for files

use host::{FileDevice, FileOptions, HostRuntime, OpenError, ReactorKind, StartError};
use rt::{
    Buf, BufMut, Device, DeviceRef, ExtentKind, IoErrorKind, IoResult, PAGE, Request, Rt, SgList,
    Work, WorkKind,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, KIB, MIB, Offset, Prng};

/// What a test gets: a runtime, and a directory that goes when the test does.
struct World {
    runtime: HostRuntime,
    dir: tempfile::TempDir,
}

impl World {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn create(&self, size: ByteCount, options: FileOptions) -> FileDevice {
        FileDevice::create(&self.runtime.host(), &self.path("disk"), size, options)
            .expect("there is room for a small file")
    }

    fn run<F: Future + 'static>(&self, future: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.runtime.runtime().block_on(future).expect("a real run never stalls")
    }
}

/// Runs a test by each reactor on each sort of file system.
fn everywhere(test: impl Fn(&World) + Sync) {
    std::thread::scope(|side_by_side| {
        for kind in [ReactorKind::Uring, ReactorKind::Threads] {
            for base in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
                let test = &test;
                side_by_side.spawn(move || on(kind, &base).iter().for_each(test));
            }
        }
    });
}

/// Such a reactor, and a folder there; `None`, said, where there is none.
fn on(kind: ReactorKind, base: &Path) -> Option<World> {
    if !base.is_dir() {
        eprintln!("skipped on {}: it is not there", base.display());
        return None;
    }
    let runtime = match HostRuntime::new(kind) {
        Ok(runtime) => runtime,
        Err(error @ (StartError::UringRefused(_) | StartError::UringTooOld)) => {
            eprintln!("skipped by {kind}: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(runtime.host().kind(), kind);
    let dir = tempfile::tempdir_in(base).expect("a temporary directory");
    Some(World { runtime, dir })
}

const BUFFERED: FileOptions = FileOptions { direct: false, read_only: false };
const DIRECT: FileOptions = FileOptions { direct: true, read_only: false };

async fn read(device: &dyn Device, at: u64, len: u64) -> IoResult {
    device.submit(Request::read(Offset(at), ByteCount(len))).await
}

async fn write(device: &dyn Device, at: u64, data: impl Into<SgList>) {
    device.submit(Request::write(Offset(at), data)).await.expect("written");
}

fn kind_of(result: IoResult) -> IoErrorKind {
    result.expect_err("refused").kind
}

/// Random bytes in many pieces, some of them fills, some off every grid.
fn pieces(prng: &mut Prng, len: usize, count: usize) -> SgList {
    let mut list = SgList::new();
    while list.len() < len {
        let most = (2 * len / count).max(1) as u64;
        let piece = (1 + prng.below(most) as usize).min(len - list.len());
        if prng.chance(0.3) {
            list.push(Buf::fill(prng.next_u64(), piece));
        } else {
            let mut bytes = BufMut::zeroed(piece);
            prng.fill(&mut bytes);
            list.push(bytes.freeze());
        }
    }
    list
}

#[test]
fn what_is_read_is_what_was_written_wherever_and_in_however_many_pieces() {
    everywhere(|world| {
        for options in [BUFFERED, DIRECT] {
            let device = match FileDevice::create(
                &world.runtime.host(),
                &world.path(if options.direct { "direct" } else { "buffered" }),
                ByteCount::mib(4),
                options,
            ) {
                Err(error @ OpenError::NoDirect(_)) => {
                    eprintln!("skipped: {error}");
                    continue;
                }
                device => device.expect("created"),
            };
            world.run(async move {
                let mut prng = Prng::new(5);
                let mut model = vec![0_u8; 4 * MIB as usize];
                let block = device.geometry().logical_block.bytes();
                for _ in 0..300 {
                    let at = prng.below(4 * MIB / block) * block;
                    // Mostly small; at times beyond what a file in memory does at once.
                    let most = if prng.chance(0.1) { MIB } else { 64 * KIB };
                    let len = (block * (1 + prng.below(most / block))).min(4 * MIB - at);
                    let range = at as usize..(at + len) as usize;
                    if prng.chance(0.5) {
                        let count = 1 + prng.below(3000) as usize;
                        let data = pieces(&mut prng, len as usize, count);
                        model[range].copy_from_slice(&data.to_vec());
                        let request = match prng.chance(0.1) {
                            true => Request::write_fua(Offset(at), data),
                            false => Request::write(Offset(at), data),
                        };
                        device.submit(request).await.expect("written");
                    } else {
                        let data = read(&device, at, len).await.expect("read");
                        assert!(data.to_vec() == model[range], "{len} bytes at {at}");
                    }
                }
                device.submit(Request::flush()).await.expect("flushed");
            });
        }
    });
}

#[test]
fn more_requests_than_the_ring_holds_are_all_answered() {
    everywhere(|world| {
        let device: DeviceRef = Rc::new(world.create(ByteCount::mib(8), BUFFERED));
        let rt = world.runtime.rt();
        world.run(async move {
            let tasks: Vec<_> = (0..2000_u64)
                .map(|i| {
                    let device = Rc::clone(&device);
                    rt.spawn(async move {
                        let data = Buf::fill(i, PAGE);
                        write(&*device, i * PAGE as u64, data.clone()).await;
                        let found = read(&*device, i * PAGE as u64, PAGE as u64).await;
                        assert!(found.expect("read").into_contiguous() == data);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        });
    });
}

#[test]
fn dropping_a_future_leaves_the_memory_to_the_system_until_it_has_done() {
    everywhere(|world| {
        let requests = 24;
        let device = Rc::new(world.create(ByteCount::mib(requests), BUFFERED));
        let rt = world.runtime.rt();
        world.run(async move {
            for at in 0..requests {
                write(&*device, at * MIB, Buf::fill(0xaaaa_aaaa_aaaa_aaaa, MIB as usize)).await;
            }
            for _ in 0..3 {
                for at in 0..requests {
                    drop(device.submit(Request::read(Offset(at * MIB), ByteCount::mib(1))));
                }
                // Memory that was given back too early would come from the pool now, and be written to.
                let mut taken: Vec<BufMut> = Vec::new();
                for _ in 0..requests + 6 {
                    let mut memory = BufMut::for_overwrite(MIB as usize);
                    memory.fill(0x55);
                    taken.push(memory);
                }
                rt.sleep(Duration::from_millis(20)).await;
                assert!(taken.iter().all(|memory| memory.iter().all(|byte| *byte == 0x55)));
            }
        });
    });
}

#[test]
fn a_runtime_ends_while_requests_are_under_way() {
    everywhere(|world| {
        let runtime = HostRuntime::new(world.runtime.host().kind()).expect("as before");
        let path = world.path("disk");
        let device = FileDevice::create(&runtime.host(), &path, ByteCount::mib(64), BUFFERED)
            .expect("created");
        let device: DeviceRef = Rc::new(device);
        let rt = runtime.rt();
        let begun = Rc::new(Cell::new(0));
        for at in 0..64 {
            let (device, begun) = (Rc::clone(&device), Rc::clone(&begun));
            rt.spawn(async move {
                begun.set(begun.get() + 1);
                let data = Buf::fill(7, MIB as usize);
                let _ = device.submit(Request::write(Offset(at * MIB), data)).await;
            })
            .detach();
        }
        let yielded = rt.yield_now();
        runtime.runtime().block_on(yielded).expect("ends");
        assert_eq!(begun.get(), 64);
        drop((device, rt, runtime));
    });
}

#[test]
fn timers_fire_between_requests_that_never_wait() {
    everywhere(|world| {
        let device: DeviceRef = Rc::new(world.create(ByteCount::mib(1), BUFFERED));
        let rt = world.runtime.rt();
        world.run(async move {
            let done = Rc::new(Cell::new(false));
            let reader = rt.spawn({
                let (device, done) = (Rc::clone(&device), Rc::clone(&done));
                async move {
                    while !done.get() {
                        read(&*device, 0, 4096).await.expect("read");
                    }
                }
            });
            let begin = rt.now();
            rt.sleep(Duration::from_millis(30)).await;
            let slept = rt.now().since(begin);
            done.set(true);
            reader.await;
            assert!(slept >= Duration::from_millis(30), "{slept:?}");
        });
    });
}

#[test]
fn a_sleep_lasts_as_long_as_it_says_with_nothing_else_to_do() {
    everywhere(|world| {
        let rt = world.runtime.rt();
        world.run(async move {
            for millis in [0, 1, 20] {
                let begin = rt.now();
                rt.sleep(Duration::from_millis(millis)).await;
                assert!(rt.now().since(begin) >= Duration::from_millis(millis));
            }
        });
    });
}

#[test]
fn a_wake_up_from_another_thread_is_never_slept_through() {
    everywhere(|world| {
        for i in 0..200 {
            let (sender, receiver) = rt::sync::oneshot::channel();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(i * 3));
                sender.send(i).expect("somebody waits");
            });
            assert_eq!(world.run(receiver), Ok(i));
            thread.join().expect("the thread ended well");
        }
    });
}

#[test]
fn large_work_goes_to_other_threads_and_its_processor_time_counts() {
    everywhere(|world| {
        let rt = world.runtime.rt();
        world.run(async move {
            let before = rt.processor_time();
            let ids = Rc::new(RefCell::new(Vec::new()));
            for len in [ByteCount::kib(4), ByteCount::mib(64)] {
                let id = rt.compute(Work::new(WorkKind::Generate, len), move || {
                    let begin = std::time::Instant::now();
                    while begin.elapsed() < Duration::from_millis(20) {
                        std::hint::spin_loop();
                    }
                    std::thread::current().id()
                });
                let id = id.await;
                ids.borrow_mut().push(id == std::thread::current().id());
            }
            let one_processor = std::thread::available_parallelism().map_or(1, usize::from) == 1;
            assert_eq!(*ids.borrow(), [true, one_processor]);
            // Less than was spun where others keep the processor busy; far more than nothing.
            assert!(rt.processor_time() - before >= Duration::from_millis(4));
        });
    });
}

/// A write behind the cut used to make the file longer again: what lay between was a hole, and was read as zeros.
#[test]
fn a_file_that_was_cut_is_not_made_longer_again_by_a_write() {
    everywhere(|world| {
        for options in [BUFFERED, DIRECT] {
            let path = world.path("cut");
            let created =
                FileDevice::create(&world.runtime.host(), &path, ByteCount::mib(1), options);
            let Ok(device) = created else { continue };
            let file = std::fs::File::options().write(true).open(&path).expect("opens");
            let (device, its_path, rt) = (Rc::new(device), path.clone(), world.runtime.rt());
            world.run(async move {
                let data = || Buf::copy_of(&[9; PAGE]);
                let write = |at: u64| device.submit(Request::write(Offset(at), data()));
                write(0).await.expect("whole");
                file.set_len(256 * KIB).expect("cut");
                rt.yield_now().await;
                // In the midst of what is gone, at the very end, and before the cut.
                for at in [512 * KIB, MIB - PAGE as u64, 0] {
                    let kind = write(at).await.map_err(|error| error.kind).expect_err("cut");
                    assert_eq!(kind, IoErrorKind::CutShort);
                    let zeroed = Request::write_zeroes(Offset(at), ByteCount(PAGE as u64));
                    let kind = device.submit(zeroed).await.map_err(|error| error.kind);
                    assert_eq!(kind.expect_err("cut"), IoErrorKind::CutShort);
                    let size = std::fs::metadata(&its_path).expect("is there").len();
                    assert_eq!(size, 256 * KIB);
                }
                let kept = device.submit(Request::read(Offset(0), ByteCount(PAGE as u64))).await;
                assert_eq!(kept.expect("it is there").to_vec(), vec![9; PAGE]);
                // One that became longer is whole.
                file.set_len(2 * MIB).expect("longer");
                write(512 * KIB).await.expect("whole again");
            });
            std::fs::remove_file(&path).expect("goes");
        }
    });
}

#[test]
fn a_file_that_was_cut_is_an_error_and_not_zeros() {
    everywhere(|world| {
        let device = world.create(ByteCount::mib(1), BUFFERED);
        let path = world.path("disk");
        world.run(async move {
            let file = std::fs::File::options().write(true).open(path).expect("there");
            file.set_len(512 * KIB + 100).expect("cut");
            assert!(read(&device, 0, 512 * KIB).await.is_ok());
            let result = read(&device, 508 * KIB, 64 * KIB).await;
            assert_eq!(kind_of(result), IoErrorKind::CutShort);
            let error = read(&device, 900 * KIB, 4096).await.expect_err("nothing there");
            assert_eq!(error.kind, IoErrorKind::CutShort);
            assert!(error.to_string().contains("disk: read of 4 KiB at"), "{error}");
        });
    });
}

#[test]
fn requests_that_the_device_can_not_take_are_named() {
    everywhere(|world| {
        drop(world.create(ByteCount::mib(1), BUFFERED));
        let read_only = FileOptions { direct: false, read_only: true };
        let device = FileDevice::open(&world.runtime.host(), &world.path("disk"), read_only)
            .expect("opened");
        world.run(async move {
            let page = Buf::zeros(PAGE);
            for request in [
                Request::write(Offset::ZERO, page),
                Request::discard(Offset::ZERO, ByteCount::kib(4)),
                Request::write_zeroes(Offset::ZERO, ByteCount::kib(4)),
            ] {
                assert_eq!(kind_of(device.submit(request).await), IoErrorKind::ReadOnly);
            }
            assert_eq!(kind_of(read(&device, MIB, 512).await), IoErrorKind::Invalid);
            assert_eq!(kind_of(read(&device, 1, 512).await), IoErrorKind::Invalid);
            assert!(device.submit(Request::flush()).await.is_ok());
            assert!(read(&device, 512, 0).await.expect("nothing is read").is_empty());
        });
    });
}

#[test]
fn zeroed_ranges_read_as_zeros_and_their_neighbours_stay() {
    everywhere(|world| {
        let device = world.create(ByteCount::mib(4), BUFFERED);
        world.run(async move {
            let word = 0x0123_4567_89ab_cdef;
            write(&device, 0, Buf::fill(word, 4 * MIB as usize)).await;
            for (at, len) in [(0, 512), (5 * 512, 3 * 512), (MIB - 512, MIB + 1024), (3 * MIB, MIB)]
            {
                let (at, len) = (Offset(at), ByteCount(len));
                device.submit(Request::write_zeroes(at, len)).await.expect("zeroed");
                let found = read(&device, at.bytes(), len.bytes()).await.expect("read");
                assert!(found.to_vec().iter().all(|byte| *byte == 0));
                if at.bytes() > 0 {
                    let before = read(&device, at.bytes() - 512, 512).await.expect("read");
                    assert!(before.into_contiguous() == Buf::fill(word, 512));
                }
            }
            let discard = Request::discard(Offset(2 * MIB + 4096), ByteCount::kib(64));
            device.submit(discard).await.expect("discarded, or nothing done");
            let beside = read(&device, 2 * MIB + 68 * KIB, 4096).await.expect("read");
            assert!(beside.into_contiguous() == Buf::fill(word, 4096));
        });
    });
}

#[test]
fn creating_finds_a_full_disk_at_once_and_leaves_nothing_behind() {
    everywhere(|world| {
        let path = world.path("huge");
        // More than any disk that tests run on, less than a file system's limit for a file.
        let size = ByteCount::gib(15 << 10);
        match FileDevice::create(&world.runtime.host(), &path, size, BUFFERED) {
            Err(error @ OpenError::NoSpace { .. }) => {
                assert!(error.to_string().contains("huge"), "{error}");
            }
            Err(error) => panic!("another error: {error}"),
            Ok(_) => panic!("a disk of 15 TiB"),
        }
        assert!(!path.exists());
    });
}

#[test]
fn opening_refuses_what_stores_no_blocks_and_creating_what_exists() {
    everywhere(|world| {
        let host = world.runtime.host();
        let refused = |path: &Path| match FileDevice::open(&host, path, BUFFERED) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{} was opened", path.display()),
        };
        assert!(refused(world.dir.path()).contains("it is a directory"));
        assert!(refused(Path::new("/dev/null")).contains("it is a character device"));
        assert!(refused(&world.path("nothing")).contains("No such file"));
        std::fs::write(world.path("tiny"), "x").expect("written");
        assert!(refused(&world.path("tiny")).contains("less than one block"));
        drop(world.create(ByteCount::mib(1), BUFFERED));
        let again =
            FileDevice::create(&host, &world.path("disk"), ByteCount::mib(1), BUFFERED).err();
        assert!(matches!(again, Some(OpenError::Exists(_))));
    });
}

/// Two programs that write to one image destroy it. What could break: a lock that is lost when another
/// descriptor is closed, one that stays when its holder goes, one that keeps readers off.
#[test]
fn a_file_has_one_writer_at_a_time_and_readers_are_told() {
    everywhere(|world| {
        let host = world.runtime.host();
        let writer = world.create(ByteCount::mib(1), BUFFERED);
        let path = world.path("disk");
        let read_only = FileOptions { direct: false, read_only: true };
        let open = |options| FileDevice::open(&host, &path, options);
        let reader = open(read_only).expect("reading is allowed");
        assert!(reader.is_written_elsewhere());
        assert!(!writer.is_written_elsewhere(), "by nobody else");
        // Closing any other descriptor of the file takes nothing away.
        drop(reader);
        drop(std::fs::File::open(&path).expect("opened"));
        let refused = open(BUFFERED).err();
        assert!(matches!(refused, Some(OpenError::Locked(_))));
        let text = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            text.contains(&*path.to_string_lossy()) && text.contains("stop that one"),
            "{text}"
        );
        drop(writer);
        let writer = open(BUFFERED).expect("the lock goes with its holder");
        drop(writer);
        assert!(!open(read_only).expect("opened").is_written_elsewhere());
        // Who reads for long keeps writers off, and no other reader.
        let readers = [read_only; 2].map(|options| open(options).expect("opened"));
        assert!(readers.iter().all(FileDevice::keep_writers_off));
        assert!(matches!(open(BUFFERED).err(), Some(OpenError::Locked(_))));
        drop(readers);
        let writer = open(BUFFERED).expect("they are gone");
        assert!(!open(read_only).expect("opened").keep_writers_off());
        drop(writer);
    });
}

/// What could break: who gives a disk up keeps others from it, or takes another one with it.
#[test]
fn a_file_that_is_closed_is_free_for_others_though_its_device_is_still_known() {
    everywhere(|world| {
        let (path, other) = (world.path("disk"), world.path("other"));
        std::fs::write(&other, vec![0; 1 << 20]).expect("a file");
        let device = Rc::new(world.create(ByteCount::mib(1), FileOptions::default()));
        let host = world.runtime.host();
        let kept = FileDevice::open(&host, &other, FileOptions::default()).expect("it opens");
        let again = || FileDevice::open(&host, &path, FileOptions::default());
        assert!(matches!(again(), Err(OpenError::Locked(_))) && !device.is_closed());
        // By another name of it.
        let link = world.path("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        host.close_writers(&[link]);
        assert!(device.is_closed() && !kept.is_closed());
        let shared = Rc::clone(&device);
        let write = world.run(async move {
            shared.submit(Request::write(Offset(0), Buf::copy_of(&[1; 512]))).await
        });
        assert_eq!(kind_of(write), IoErrorKind::Gone);
        let its = again().expect("nobody has it");
        assert!(!its.is_closed());
        let write = world.run(async move {
            its.submit(Request::write(Offset(0), Buf::copy_of(&[1; 512]))).await
        });
        write.expect("it is written");
    });
}

#[test]
fn two_executors_of_one_process_do_not_disturb_each_other() {
    let threads: Vec<_> = (0..2_u64)
        .map(|seed| {
            std::thread::spawn(move || {
                let runtime = HostRuntime::new(ReactorKind::Auto).expect("a reactor");
                let dir = tempfile::tempdir().expect("a temporary directory");
                let size = ByteCount::mib(1);
                let device =
                    FileDevice::create(&runtime.host(), &dir.path().join("disk"), size, BUFFERED)
                        .expect("created");
                let write_and_read = async move {
                    for i in 0..100_u64 {
                        let data = Buf::fill(seed << 32 | i, PAGE);
                        write(&device, i * PAGE as u64, data.clone()).await;
                        let found = read(&device, i * PAGE as u64, PAGE as u64).await;
                        assert!(found.expect("read").into_contiguous() == data);
                    }
                };
                runtime.runtime().block_on(write_and_read).expect("a real run never stalls");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("ended well");
    }
}

#[test]
fn a_yielding_task_lets_requests_complete() {
    everywhere(|world| {
        let device = world.create(ByteCount::mib(1), BUFFERED);
        let rt: Rt = world.runtime.rt();
        world.run(async move {
            let done = Rc::new(Cell::new(false));
            let spinner = rt.spawn({
                let (rt, done) = (rt.clone(), Rc::clone(&done));
                async move {
                    while !done.get() {
                        rt.yield_now().await;
                    }
                }
            });
            for _ in 0..20 {
                read(&device, 0, MIB).await.expect("read");
                device.submit(Request::flush()).await.expect("flushed");
            }
            done.set(true);
            spinner.await;
        });
    });
}

#[test]
fn extents_of_a_sparse_file_tell_holes_from_data() {
    everywhere(|world| {
        let path = world.path("sparse");
        std::fs::File::create(&path).and_then(|file| file.set_len(8 * MIB)).expect("a sparse file");
        let device = FileDevice::open(&world.runtime.host(), &path, BUFFERED).expect("opened");
        world.run(async move {
            write(&device, 2 * MIB, Buf::fill(1, MIB as usize)).await;
            let extents = device.extents(Offset(MIB), ByteCount::mib(5), 10).await.expect("known");
            let found: Vec<_> =
                extents.iter().map(|extent| (extent.len.bytes() / MIB, extent.kind)).collect();
            let hole = ExtentKind::Hole;
            assert_eq!(found, [(1, hole), (1, ExtentKind::Data), (3, hole)]);
        });
    });
}

/// What could break: a copy program that believes block status skips what can't be read, and succeeds with zeros.
#[test]
fn what_was_cut_off_a_file_is_told_as_data_and_fails_when_it_is_read() {
    everywhere(|world| {
        let path = world.path("cut");
        std::fs::File::create(&path).and_then(|file| file.set_len(8 * MIB)).expect("a sparse file");
        let device = FileDevice::open(&world.runtime.host(), &path, BUFFERED).expect("opened");
        for left in [3 * MIB, MIB + 512, 0] {
            let file = std::fs::File::options().write(true).open(&path).expect("opened");
            file.set_len(left).expect("cut");
            let device = &device;
            let extents = device.extents(Offset(MIB), ByteCount(7 * MIB), 10);
            let extents = world.run(extents).expect("known");
            let mut at = MIB;
            for extent in &extents {
                assert_eq!(extent.kind == ExtentKind::Hole, at < left, "{left}: {extents:?}");
                at += extent.len.bytes();
            }
            assert_eq!(at, 8 * MIB, "{left}: {extents:?}");
            let read = world.run(device.submit(Request::read(Offset(4 * MIB), ByteCount(MIB))));
            assert_eq!(read.expect_err("it is not there").kind, IoErrorKind::CutShort);
        }
    });
}

#[test]
fn a_file_of_any_length_is_read_and_written_to_its_last_byte() {
    everywhere(|world| {
        for len in [1, 7, 511, 513, 1000, 4096, 12_345] {
            let path = world.path("odd");
            std::fs::write(&path, vec![1; len]).expect("written");
            let host = world.runtime.host();
            let device = FileDevice::open_to_the_byte(&host, &path, false).expect("opened");
            let geometry = device.geometry();
            assert_eq!(geometry.capacity, ByteCount(len as u64));
            assert!(ByteCount(len as u64).is_multiple_of(geometry.logical_block));
            let block = geometry.logical_block;
            let last = Offset(len as u64 - block.bytes());
            world.run(async move {
                let data = Buf::fill(0x0202_0202_0202_0202, block.as_usize());
                let write = Request::write(last, data);
                device.submit(write).await.expect("written");
                let read = device.submit(Request::read(Offset(0), ByteCount(len as u64))).await;
                let read = read.expect("read").to_vec();
                assert!(read[last.bytes() as usize..].iter().all(|byte| *byte == 2));
                assert!(read[..last.bytes() as usize].iter().all(|byte| *byte == 1));
            });
            assert_eq!(std::fs::metadata(&path).expect("there").len(), len as u64);
        }
    });
}
