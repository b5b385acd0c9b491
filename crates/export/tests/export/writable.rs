//! A file system in memory, mounted for writing, and used as programs do: by hand, and by the judges `fsx` and `pjdfstest`.
//!
//! What could break: anything that our side of the protocol and the kernel's understand differently; what
//! POSIX wants of a change; a change by call that the kernel is not told, so that programs see what was; bytes of a
//! file that others, cut off and written, come back.
//!
//! Each test says so and is skipped where nothing can be mounted, or a judge is missing.

use crate::judges;

use export::fuse::Server;
use futures_util::future::{Either, LocalBoxFuture, join, select};
use host::{CalendarClock, FuseMount, HostRuntime, MountError, ReactorKind, StartError};
use judges::{judge, judged};
use rt::{Buf, FileTree, InodesRef, MemoryTree, OpenHow, Request, StreamRef};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom as At, XattrFlags};
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use stdx::{ByteCount, Offset};

/// Room for files.
const CAPACITY: ByteCount = ByteCount::mib(256);

/// Something that is done with the tree by call, on its own thread.
type Call = Box<dyn FnOnce(Rc<MemoryTree>) -> LocalBoxFuture<'static, ()> + Send>;

/// A mount that another thread serves.
struct Mounted {
    folder: tempfile::TempDir,
    stop: Option<rt::sync::oneshot::Sender<()>>,
    calls: rt::sync::mpsc::UnboundedSender<Call>,
    server: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Nothing, said aloud, where nothing can be mounted.
    fn new(kind: ReactorKind, with_notices: bool) -> Option<Mounted> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let (stop, stopped) = rt::sync::oneshot::channel();
        let (calls, mut called) = rt::sync::mpsc::unbounded_channel::<Call>();
        let (tell, told) = mpsc::channel();
        let server = std::thread::spawn(move || {
            let runtime = match HostRuntime::new(kind) {
                Ok(runtime) => runtime,
                Err(error @ (StartError::UringRefused(_) | StartError::UringTooOld)) => {
                    return tell.send(Err(error.to_string())).expect("it is awaited");
                }
                Err(error) => panic!("{error}"),
            };
            let mount = match FuseMount::new(&runtime.host(), &path, "tests", host::Use::WRITE) {
                Ok(mount) => mount,
                Err(error @ (MountError::Device(_) | MountError::Denied(_))) => {
                    return tell.send(Err(error.to_string())).expect("it is awaited");
                }
                Err(error) => panic!("{error}"),
            };
            tell.send(Ok(())).expect("it is awaited");
            let tree = MemoryTree::with("tests", CAPACITY, 100_000, Rc::new(CalendarClock));
            let inodes: InodesRef = tree.clone();
            let stream: StreamRef = mount.stream();
            mount.follow(&runtime.rt());
            let server = match with_notices {
                true => Server::with_notices(inodes, stream, mount.notices()),
                false => Server::new(inodes, stream),
            };
            let ended = runtime.runtime().block_on(async move {
                let calls = async {
                    while let Some(call) = called.recv().await {
                        call(Rc::clone(&tree)).await;
                    }
                    std::future::pending::<()>().await;
                };
                let calls = pin!(calls);
                let stopped = pin!(select(calls, stopped));
                let serving = pin!(server.serve());
                match select(serving, stopped).await {
                    Either::Left((served, _)) => served.expect("served"),
                    Either::Right((_, serving)) => {
                        let (served, unmounted) = join(serving, mount.unmount_served()).await;
                        served.expect("served");
                        unmounted.expect("unmounted");
                    }
                }
                mount.unmount()
            });
            ended.expect("a real run never stalls").expect("unmounted");
        });
        match told.recv_timeout(Duration::from_secs(30)).expect("it mounts") {
            Ok(()) => Some(Mounted { folder, stop: Some(stop), calls, server: Some(server) }),
            Err(reason) => {
                println!("skipped by {kind}: {reason}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Does something with the tree by call, and waits until it is done.
    fn call<F>(&self, call: impl FnOnce(Rc<MemoryTree>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let (tell, told) = mpsc::channel();
        let call: Call = Box::new(move |tree| {
            let call = call(tree);
            Box::pin(async move {
                call.await;
                tell.send(()).expect("it is awaited");
            })
        });
        assert!(self.calls.send(call).is_ok(), "the server is there");
        told.recv_timeout(Duration::from_secs(30)).expect("it is done");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let ended = self.server.take().expect("it was started").join();
        if !std::thread::panicking() {
            ended.expect("the server ends in order");
            let entries = fs::read_dir(self.folder.path()).expect("the folder is back");
            assert_eq!(entries.count(), 0, "nothing is mounted any more");
        }
    }
}

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("it is refused").raw_os_error().expect("by the system")
}

#[test]
fn what_is_done_to_files_is_done() {
    for kind in [ReactorKind::Uring, ReactorKind::Threads] {
        let Some(mounted) = Mounted::new(kind, true) else { continue };
        let (a, b) = (mounted.path("a"), mounted.path("b"));
        let bytes: Vec<u8> = (0..3_000_001_u32).map(|n| (n * 7 + n / 251) as u8).collect();
        fs::write(&a, &bytes).expect("written");
        assert!(fs::read(&a).expect("read") == bytes);
        fs::OpenOptions::new()
            .append(true)
            .open(&a)
            .expect("opened")
            .write_all(b"end")
            .expect("written");
        assert_eq!(fs::metadata(&a).expect("there").len(), bytes.len() as u64 + 3);
        fs::hard_link(&a, &b).expect("linked");
        assert_eq!(fs::metadata(&a).expect("there").nlink(), 2);
        fs::create_dir(mounted.path("d")).expect("made");
        fs::rename(&a, mounted.path("d/a")).expect("moved");
        assert_eq!(errno(fs::remove_dir(mounted.path("d"))), 39);
        assert_eq!(errno(fs::metadata(&a)), 2);
        std::os::unix::fs::symlink("d/a", &a).expect("linked");
        assert!(fs::read(&a).expect("read")[..bytes.len()] == bytes);
        let exchange = RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(CWD, &a, CWD, &b, exchange).expect("exchanged");
        assert!(fs::symlink_metadata(&b).expect("there").is_symlink());
        let refused = rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::NOREPLACE);
        assert_eq!(refused, Err(rustix::io::Errno::EXIST));
        // A file without a name lives while it is open.
        let mut open = fs::File::open(&a).expect("opened");
        fs::remove_file(&a).expect("removed");
        fs::remove_file(mounted.path("d/a")).expect("removed");
        let mut read = Vec::new();
        open.read_to_end(&mut read).expect("read");
        assert!(read.starts_with(&bytes) && open.metadata().expect("there").nlink() == 0);
        drop(open);
        fs::remove_dir(mounted.path("d")).expect("removed");
        let names: Vec<_> = fs::read_dir(mounted.folder.path()).expect("listed").collect();
        assert_eq!(names.len(), 1);
        fs::remove_file(&b).expect("removed");
    }
}

/// The thread that serves runs beside the one program that asks, and anywhere again when nobody asks.
#[test]
fn the_server_runs_beside_who_asks_while_somebody_asks() {
    for kind in [ReactorKind::Uring, ReactorKind::Threads] {
        let Some(mounted) = Mounted::new(kind, true) else { continue };
        let allowed = || {
            let (tell, told) = mpsc::channel();
            mounted.call(async move |_| {
                let set = rustix::thread::sched_getaffinity(None).expect("it can be asked");
                tell.send(set.count()).expect("it is awaited");
            });
            told.recv().expect("it is told")
        };
        let before = allowed();
        if before == 1 {
            println!("skipped: one processor");
            return;
        }
        // Whoever else works on this machine may move the program or keep the server waiting for longer than it stays.
        let is_bound = (0..100).any(|round| {
            for n in 0..100 {
                fs::write(mounted.path(&format!("{round}-{n}")), b"small").expect("written");
            }
            allowed() == 1
        });
        assert!(is_bound, "{kind}");
        seen("the thread is free again", || {
            std::thread::sleep(Duration::from_millis(50));
            allowed() == before
        });
    }
}

/// Who only writes does so past the kernel's cache, in which others read the same bytes, and read them ahead all the time.
#[test]
fn what_one_only_writes_all_others_read_at_once() {
    const PAGES: u64 = 64;
    const PAGE: usize = 4096;
    let Some(mounted) = Mounted::new(ReactorKind::Auto, true) else { return };
    let path = mounted.path("f");
    let only_writes = fs::File::create(&path).expect("made");
    only_writes.write_all_at(&vec![0; PAGES as usize * PAGE], 0).expect("written");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let over = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        // Reads all, opens and closes all the time: so that pages come in at any moment.
        scope.spawn(|| {
            while !is_over.load(over) {
                let read = fs::read(&path).expect("read");
                assert_eq!(read.len() as u64, PAGES * PAGE as u64);
            }
        });
        let reader = fs::File::open(&path).expect("opened");
        for round in 1..=3000_u64 {
            let (at, byte) = (round * 37 % PAGES * PAGE as u64, (round % 251) as u8);
            only_writes.write_all_at(&[byte; PAGE], at).expect("written");
            let mut page = [0; PAGE];
            reader.read_exact_at(&mut page, at).expect("read");
            assert_eq!(page, [byte; PAGE], "round {round}");
        }
        is_over.store(true, over);
    });
    assert_eq!(only_writes.metadata().expect("there").len(), PAGES * PAGE as u64);
    let mut appends = fs::OpenOptions::new().append(true).open(&path).expect("opened");
    appends.write_all(b"end").expect("written");
    assert!(fs::read(&path).expect("read").ends_with(b"end"));
}

#[test]
fn holes_space_and_copies_are_what_programs_see() {
    let Some(mounted) = Mounted::new(ReactorKind::Auto, true) else { return };
    let path = mounted.path("f");
    let mut options = fs::OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).open(&path).expect("made");
    file.write_all_at(&[1; 8192], 1 << 20).expect("written");
    assert_eq!(rustix::fs::seek(&file, At::Data(0)), Ok(1 << 20));
    assert_eq!(rustix::fs::seek(&file, At::Hole(1 << 20)), Ok((1 << 20) + 8192));
    assert_eq!(rustix::fs::seek(&file, At::Data(2 << 20)), Err(rustix::io::Errno::NXIO));
    assert_eq!(file.metadata().expect("there").blocks(), 16);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1 << 20, 4096).expect("punched");
    assert_eq!(rustix::fs::seek(&file, At::Data(0)), Ok((1 << 20) + 4096));
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).expect("taken");
    let known = file.metadata().expect("there");
    assert_eq!((known.len(), known.blocks()), (2 << 20, 4096));
    let other = fs::File::create(mounted.path("g")).expect("made");
    let mut at = (1 << 20) + 4096;
    let copied = rustix::fs::copy_file_range(&file, Some(&mut at), &other, None, 100);
    assert_eq!(copied, Ok(100));
    assert_eq!(fs::read(mounted.path("g")).expect("read"), [1; 100]);
    let collapse = FallocateFlags::COLLAPSE_RANGE;
    let refused = rustix::fs::fallocate(&file, collapse, 0, 4096);
    assert_eq!(refused, Err(rustix::io::Errno::OPNOTSUPP));
    // No more is taken than there is, and what was there is still there.
    let huge = CAPACITY.bytes();
    let refused = rustix::fs::fallocate(&other, FallocateFlags::empty(), 0, huge);
    assert_eq!(refused, Err(rustix::io::Errno::NOSPC));
    let block = vec![3; 8 << 20];
    let mut full = fs::File::create(mounted.path("full")).expect("made");
    let error = (0..100).find_map(|_| full.write_all(&block).err()).expect("full at last");
    assert_eq!(error.raw_os_error(), Some(28));
    assert_eq!(fs::read(mounted.path("g")).expect("read"), [1; 100]);
    drop(full);
    fs::remove_file(mounted.path("full")).expect("removed");
    file.seek(SeekFrom::Start(0)).expect("there");
    file.write_all(&block).expect("there is room again");
    let temporary = OFlags::TMPFILE | OFlags::RDWR;
    let unnamed = rustix::fs::open(mounted.folder.path(), temporary, Mode::RUSR).expect("made");
    rustix::io::write(&unnamed, b"no name").expect("written");
    assert_eq!(fs::File::from(unnamed).metadata().expect("there").nlink(), 0);
}

#[test]
fn attributes_and_what_follows_from_them() {
    let Some(mounted) = Mounted::new(ReactorKind::Auto, true) else { return };
    let path = mounted.path("f");
    fs::OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path).expect("made");
    let set = |name, value: &[u8], how| rustix::fs::setxattr(&path, name, value, how);
    set("user.a", b"one", XattrFlags::CREATE).expect("set");
    assert_eq!(set("user.a", b"two", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    assert_eq!(set("user.b", b"two", XattrFlags::REPLACE), Err(rustix::io::Errno::NODATA));
    let mut value = [0; 100];
    assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut value[..]), Ok(3));
    rustix::fs::removexattr(&path, "user.a").expect("removed");
    assert_eq!(
        rustix::fs::getxattr(&path, "user.a", &mut value[..]),
        Err(rustix::io::Errno::NODATA)
    );
    // A list of access is the mode, and the mode is the list.
    let entry = |tag: u16, permissions: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let entries = [
        entry(1, 6, none),
        entry(2, 6, 65534),
        entry(4, 0, none),
        entry(16, 6, none),
        entry(32, 0, none),
    ];
    let list = [&[2, 0, 0, 0][..], &entries.concat()].concat();
    set("system.posix_acl_access", &list, XattrFlags::empty()).expect("set");
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
    assert_eq!(mode(&path), 0o660);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
    rustix::fs::getxattr(&path, "system.posix_acl_access", &mut value[..]).expect("there");
    assert_eq!(value[4 + 3 * 8 + 2], 4, "the mask is the group's bits");
    // A default list takes the umask's place.
    let below = mounted.path("d");
    fs::create_dir(&below).expect("made");
    let how = XattrFlags::empty();
    rustix::fs::setxattr(&below, "system.posix_acl_default", &list, how).expect("set");
    fs::create_dir(below.join("e")).expect("made");
    fs::write(below.join("e/f"), "x").expect("written");
    assert_eq!((mode(&below.join("e")), mode(&below.join("e/f"))), (0o660, 0o660));
    // A directory hands its group down.
    let shared = mounted.path("s");
    fs::create_dir(&shared).expect("made");
    std::os::unix::fs::chown(&shared, None, Some(60)).expect("given");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2777)).expect("set");
    fs::create_dir(shared.join("t")).expect("made");
    let known = fs::metadata(shared.join("t")).expect("there");
    assert_eq!((known.gid(), known.mode() & 0o2000), (60, 0o2000));
    // Who gives a program away takes its privileges.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).expect("set");
    std::os::unix::fs::chown(&path, Some(65534), None).expect("given");
    assert_eq!(mode(&path) & 0o6000, 0);
}

/// Waits until something is seen, for as long as a notice may take.
fn seen(what: &str, look: impl Fn() -> bool) {
    for _ in 0..500 {
        if look() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} is never seen");
}

#[test]
fn what_is_changed_by_call_is_seen_by_programs() {
    for with_notices in [true, false] {
        let Some(mounted) = Mounted::new(ReactorKind::Auto, with_notices) else { return };
        let (old, new) = (mounted.path("old"), mounted.path("new"));
        fs::write(&old, vec![b'a'; 100_000]).expect("written");
        // The kernel knows bytes and sizes of it, and that there is no other.
        assert_eq!(fs::read(&old).expect("read").len(), 100_000);
        assert_eq!(errno(fs::metadata(&new)), 2);
        let by_hand = fs::File::open(&old).expect("opened");
        mounted.call(|tree| async move {
            let file = FileTree::open(&*tree, Path::new("old"), OpenHow::write()).await;
            let file = file.expect("opened");
            file.submit(Request::write(Offset(5), Buf::copy_of(b"b"))).await.expect("written");
            file.set_size(ByteCount(50_000)).await.expect("cut");
            let made = FileTree::open(&*tree, Path::new("new"), OpenHow::create()).await;
            made.expect("made");
        });
        seen("the new name", || new.exists());
        seen("the new size", || fs::metadata(&old).expect("there").len() == 50_000);
        seen("the new byte", || fs::read(&old).expect("read")[5] == b'b');
        assert_eq!(by_hand.metadata().expect("there").len(), 50_000);
        mounted.call(|tree| async move {
            tree.remove_file(Path::new("old")).await.expect("removed");
        });
        seen("that the old name is gone", || !old.exists());
        // While programs change the same directory: nobody waits for another for ever.
        let folder = mounted.folder.path().to_owned();
        let maker = std::thread::spawn(move || {
            for n in 0..300 {
                fs::write(folder.join(format!("by-hand-{n}")), "x").expect("written");
                fs::remove_file(folder.join(format!("by-hand-{n}"))).expect("removed");
            }
        });
        for n in 0..300 {
            mounted.call(move |tree| async move {
                let name = format!("by-call-{n}");
                let made = FileTree::open(&*tree, Path::new(&name), OpenHow::create()).await;
                drop(made.expect("made"));
                tree.remove_file(Path::new(&name)).await.expect("removed");
            });
        }
        maker.join().expect("it goes on");
    }
}

/// Judged by fsx: writes, cuts, holes, mapped memory and copies of one file, each read compared with what it must be.
#[test]
fn fsx_finds_no_byte_that_should_be_another() {
    let Some(fsx) = judge("fsx") else { return };
    let Some(mounted) = Mounted::new(ReactorKind::Auto, true) else { return };
    let config = tempfile::NamedTempFile::new().expect("a file");
    let text = "flen = 1000000\n[opsize]\nmax = 200000\n[weights]\nclose_open = 1\ninvalidate = 1\n\
                truncate = 5\nfsync = 1\nfdatasync = 1\nposix_fallocate = 3\npunch_hole = 5\nsendfile = 2\n\
                posix_fadvise = 2\ncopy_file_range = 5\n";
    fs::write(config.path(), text).expect("written");
    let artefacts = tempfile::tempdir().expect("a folder");
    let is_thorough = std::env::var("SPINDLE_TESTS").is_ok_and(|form| form == "thorough");
    let operations = if is_thorough { "10000" } else { "3000" };
    for seed in ["1", "2", "3"] {
        let mut command = Command::new(&fsx);
        command.args(["-q", "-N", operations, "-S", seed, "-P"]).arg(artefacts.path());
        command.arg("-f").arg(config.path()).arg(mounted.path(seed));
        judged(&mut command, Duration::from_secs(120));
    }
}

/// Tests of pjdfstest that can't hold here, and why.
const EXPECTED: [&str; 0] = [];

/// Judged by pjdfstest: what POSIX wants of each call, errors and times, also for other users.
#[test]
fn pjdfstest_finds_what_posix_wants() {
    let Some(pjdfstest) = judge("pjdfstest") else { return };
    let Some(mounted) = Mounted::new(ReactorKind::Auto, true) else { return };
    let config = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "[features]\nposix_fallocate = {{}}\nutime_now = {{}}\nutimensat = {{}}\nrename_ctime = {{}}\n\
         [settings]\nnaptime = 0.002\nexpected_failures = {EXPECTED:?}\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"games\", \"games\"]]\n"
    );
    fs::write(config.path(), text).expect("written");
    let other = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(pjdfstest);
    command.arg("-c").arg(config.path()).arg("-p").arg(mounted.folder.path());
    command.arg("-s").arg(other.path());
    let said = judged(&mut command, Duration::from_secs(240));
    println!("{}", said.lines().last().unwrap_or_default());
}
