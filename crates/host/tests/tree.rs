//! A directory of this host keeps the contract of `FileTree`, whichever reactor serves it.
//!
//! What could break: a short read taken for an error, a direct file that takes what is off its grid,
//! errors of the system that lose their meaning, a path that leaves the directory.

use host::{HostRuntime, HostTree, ReactorKind};
use rt::{Buf, FileKind, FileTree, IoErrorKind, OpenHow, Request, TreeErrorKind};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset};

/// When a wake-up counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// Runs a scenario over each reactor, each in a directory of its own.
fn on_each<F>(scenario: impl Fn(Rc<HostTree>) -> F)
where
    F: Future<Output = ()> + 'static,
{
    for kind in [ReactorKind::Auto, ReactorKind::Threads, ReactorKind::Blocking] {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = HostRuntime::new(kind).expect("a runtime");
        let tree = HostTree::open(&runtime.host(), directory.path()).expect("a tree");
        runtime.runtime().block_on(scenario(Rc::new(tree))).expect("it ends");
    }
}

/// What could break: a thread that works in the tree's directory and takes others there with it, or that
/// finds other files than those of the tree.
#[test]
#[expect(clippy::disallowed_methods, reason = "what is tested is one thread among others")]
fn a_thread_alone_in_its_tree_leaves_the_others_where_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let before = std::env::current_dir().expect("it is somewhere");
    let root = directory.path().to_owned();
    let alone = move || {
        let runtime = HostRuntime::new(ReactorKind::Blocking).expect("a runtime");
        let tree = HostTree::open_alone(&runtime.host(), &root).expect("a tree");
        let scenario = async move {
            tree.create_directory(path("d")).await.expect("made");
            let file = tree.open(path("d/f"), OpenHow::create()).await.expect("created");
            file.write_at_once(Offset(3), b"xyz").expect("at once").expect("written");
            let mut read = [1; 9];
            assert_eq!(file.read_at_once(Offset(0), &mut read).expect("at once"), Ok(6));
            assert_eq!(read[..6], *b"\0\0\0xyz");
            tree.rename(path("d/f"), path("g")).await.expect("renamed");
            assert_eq!(tree.list(path("")).await.expect("listed").len(), 2);
            let missing = tree.status(path("d/f")).await.expect_err("it is gone").to_string();
            let name = root.join("d/f").display().to_string();
            assert_eq!(missing, format!("looking at {name}: there is no such file or directory"));
            let outside = tree.status(path("../g")).await.expect_err("refused");
            assert_eq!(outside.kind, TreeErrorKind::BadPath);
        };
        runtime.runtime().block_on(scenario).expect("it ends");
    };
    std::thread::Builder::new().spawn(alone).expect("a thread").join().expect("it ends well");
    assert_eq!(std::env::current_dir().expect("it is somewhere"), before);
    assert!(directory.path().join("g").exists());
}

#[test]
fn a_read_beyond_the_end_is_short_and_a_gap_reads_as_zeros() {
    on_each(|tree| async move {
        let file = tree.open(path("a"), OpenHow::create()).await.expect("created");
        file.submit(Request::write(Offset(3), Buf::copy_of(b"xyz"))).await.expect("written");
        let read = file.submit(Request::read(Offset(1), ByteCount(100))).await.expect("read");
        assert_eq!(read.to_vec(), b"\0\0xyz");
        let read = file.submit(Request::read(Offset(6), ByteCount(100))).await.expect("read");
        assert!(read.is_empty());
        file.set_size(ByteCount(4)).await.expect("cut");
        file.allocate(ByteCount(5000)).await.expect("space");
        file.submit(Request::flush()).await.expect("flushed");
        file.sync().await.expect("synced");
        file.drop_cache().await.expect("dropped");
        let status = file.status().await.expect("known");
        assert_eq!((status.kind, status.size), (FileKind::File, ByteCount(5000)));
        let read = file.submit(Request::read(Offset(0), ByteCount(5))).await.expect("read");
        assert_eq!(read.to_vec(), b"\0\0\0x\0");
        tree.sync().await.expect("synced");
    });
}

#[test]
fn names_come_and_go_and_errors_say_what_and_why() {
    on_each(|tree| async move {
        tree.create_directory(path("d")).await.expect("made");
        drop(tree.open(path("d/f"), OpenHow::create()).await.expect("created"));
        let exclusive = OpenHow { exclusive: true, ..OpenHow::create() };
        let kinds = [
            (tree.open(path("d/f"), exclusive).await.err(), TreeErrorKind::Exists),
            (tree.open(path("d"), OpenHow::read()).await.err(), TreeErrorKind::IsDirectory),
            (tree.open(path("d/f/g"), OpenHow::read()).await.err(), TreeErrorKind::NotDirectory),
            (tree.open(path("x"), OpenHow::read()).await.err(), TreeErrorKind::NotFound),
            (tree.remove_directory(path("d")).await.err(), TreeErrorKind::NotEmpty),
            (tree.open(path("../x"), OpenHow::read()).await.err(), TreeErrorKind::BadPath),
            (tree.rename(path("d/f"), path("/x")).await.err(), TreeErrorKind::BadPath),
        ];
        for (error, kind) in kinds {
            assert_eq!(error.expect("refused").kind, kind);
        }
        let missing = tree.remove_file(path("x")).await.expect_err("missing").to_string();
        assert!(missing.starts_with("removing /") && missing.ends_with("directory"), "{missing}");
        tree.rename(path("d/f"), path("g")).await.expect("renamed");
        let mut names = tree.list(path("")).await.expect("listed");
        names.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = names.iter().map(|entry| (entry.name.as_path(), entry.kind)).collect();
        assert_eq!(names, [(path("d"), FileKind::Directory), (path("g"), FileKind::File)]);
        tree.remove_directory(path("d")).await.expect("removed");
        tree.remove_file(path("g")).await.expect("removed");
        let space = tree.space().await.expect("known");
        assert!(space.free <= space.total && !space.total.is_zero());
    });
}

#[test]
fn a_file_lives_as_long_as_it_is_open_and_a_reader_can_not_write() {
    on_each(|tree| async move {
        let file = tree.open(path("a"), OpenHow::create()).await.expect("created");
        file.submit(Request::write(Offset(0), Buf::fill(7, 4096))).await.expect("written");
        let reader = tree.open(path("a"), OpenHow::read()).await.expect("opened");
        tree.remove_file(path("a")).await.expect("removed");
        let read = reader.submit(Request::read(Offset(0), ByteCount(4096))).await.expect("read");
        assert_eq!(read.to_vec(), Buf::fill(7, 4096).bytes());
        let write = reader.submit(Request::write(Offset(0), Buf::fill(1, 512))).await;
        assert_eq!(write.expect_err("refused").kind, IoErrorKind::ReadOnly);
    });
}

#[test]
fn a_direct_file_takes_whole_blocks_only_and_copies_memory_off_the_grid() {
    on_each(|tree| async move {
        let how = OpenHow { direct: true, ..OpenHow::create() };
        // tmpfs of older kernels has no direct I/O.
        let file = match tree.open(path("a"), how).await {
            Err(error) if error.kind == TreeErrorKind::NotSupported => return,
            other => other.expect("created"),
        };
        let unit = file.alignment();
        let odd = Buf::copy_of(&vec![5; unit.as_usize() + 8]).slice(8..unit.as_usize() + 8);
        file.submit(Request::write(Offset(0), odd.clone())).await.expect("written");
        let read = file.submit(Request::read(Offset(0), unit * 4)).await.expect("read");
        assert_eq!(read.to_vec(), odd.bytes());
        if unit > ByteCount(1) {
            let off = file.submit(Request::read(Offset(1), unit)).await;
            assert_eq!(off.expect_err("refused").kind, IoErrorKind::Invalid);
        }
    });
}

/// What could break: a thread with a table of open files of its own that rings for a thread whose bell
/// came later, and so stands in no table of its own. It would write to a stranger's file.
#[test]
#[expect(clippy::disallowed_methods, reason = "what is tested is one thread among others")]
fn a_thread_alone_in_its_tree_wakes_one_that_came_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().to_owned();
    let (to_alone, told) = std::sync::mpsc::channel::<rt::sync::oneshot::Sender<u32>>();
    let alone = std::thread::spawn(move || {
        let runtime = HostRuntime::new(ReactorKind::Blocking).expect("a runtime");
        let tree = HostTree::open_alone(&runtime.host(), &root).expect("a tree");
        for (number, sender) in told.iter().enumerate() {
            // Time enough for the other to park.
            std::thread::sleep(Duration::from_millis(20));
            sender.send(number as u32).expect("somebody waits");
        }
        drop(tree);
    });
    for number in 0..5 {
        let runtime = HostRuntime::new(ReactorKind::Auto).expect("a runtime");
        let (sender, woken) = rt::sync::oneshot::channel();
        to_alone.send(sender).expect("it listens");
        let rt = runtime.rt();
        // A thread that was not woken looks again when this is over.
        let _looks_again = rt.spawn({
            let rt = rt.clone();
            async move { rt.sleep(LOST_AFTER).await }
        });
        let begun = rt.now();
        assert_eq!(runtime.runtime().block_on(woken).expect("it ends"), Ok(number));
        assert!(rt.now().since(begun) < LOST_AFTER, "the thread was woken");
    }
    drop(to_alone);
    alone.join().expect("it ends well");
}
