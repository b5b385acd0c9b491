//! What could break: bytes beyond the end that come back after a file was cut and grew again,
//! space that is never given back, a file that dies with its name while a handle is open.

use super::MemoryTree;
use crate::buf::Buf;
use crate::device::{IoErrorKind, Request};
use crate::file_tree::{FileTree, OpenHow, TreeError, TreeErrorKind};
use crate::virtual_time::{run, runtime};
use std::path::Path;
use stdx::{ByteCount, Offset};

fn path(text: &str) -> &Path {
    Path::new(text)
}

#[test]
fn a_read_beyond_the_end_is_short_and_a_gap_reads_as_zeros() {
    let tree = MemoryTree::new("m");
    run(&runtime(), async move {
        let file = tree.open(path("a"), OpenHow::create()).await.expect("created");
        file.submit(Request::write(Offset(3), Buf::copy_of(b"xyz"))).await.expect("written");
        let read = file.submit(Request::read(Offset(1), ByteCount(100))).await.expect("read");
        assert_eq!(read.to_vec(), b"\0\0xyz");
        file.set_size(ByteCount(4)).await.expect("cut");
        file.set_size(ByteCount(6)).await.expect("grown");
        let read = file.submit(Request::read(Offset(0), ByteCount(100))).await.expect("read");
        assert_eq!(read.to_vec(), b"\0\0\0x\0\0");
    });
}

#[test]
fn space_is_given_back_when_the_last_handle_of_a_removed_file_goes() {
    let tree = MemoryTree::with_capacity("m", ByteCount(1000));
    run(&runtime(), async move {
        let file = tree.open(path("a"), OpenHow::create()).await.expect("created");
        file.submit(Request::write(Offset(0), Buf::fill(1, 900))).await.expect("written");
        let full = file.submit(Request::write(Offset(900), Buf::fill(1, 101))).await;
        assert_eq!(full.expect_err("full").kind, IoErrorKind::NoSpace);
        tree.remove_file(path("a")).await.expect("removed");
        let read = file.submit(Request::read(Offset(0), ByteCount(900))).await.expect("read");
        assert_eq!(read.len(), 900);
        assert_eq!(tree.space().await.expect("known").free, ByteCount(100));
        drop(file);
        assert_eq!(tree.space().await.expect("known").free, ByteCount(1000));
    });
}

#[test]
fn directories_hold_names_and_refuse_what_does_not_fit() {
    let tree = MemoryTree::new("m");
    run(&runtime(), async move {
        tree.create_directory(path("d")).await.expect("made");
        tree.open(path("d/f"), OpenHow::create()).await.expect("created");
        let kind = |error: TreeError| error.kind;
        let not_empty = tree.remove_directory(path("d")).await.map_err(kind);
        assert_eq!(not_empty, Err(TreeErrorKind::NotEmpty));
        let below_a_file = tree.open(path("d/f/g"), OpenHow::create()).await.map(|_| ());
        assert_eq!(below_a_file.map_err(kind), Err(TreeErrorKind::NotDirectory));
        let missing = tree.open(path("x"), OpenHow::read()).await.map(|_| ());
        assert_eq!(
            missing.expect_err("missing").to_string(),
            "opening m/x: there is no such file or directory"
        );
        tree.rename(path("d/f"), path("g")).await.expect("renamed");
        let names: Vec<_> = tree.list(path("")).await.expect("listed");
        assert_eq!(names.len(), 2);
        assert_eq!(
            tree.rename(path("d"), path("d/e")).await.map_err(kind),
            Err(TreeErrorKind::NotSupported)
        );
        tree.remove_directory(path("d")).await.expect("removed");
    });
}

#[test]
fn direct_files_refuse_what_is_off_the_grid() {
    let tree = MemoryTree::new("m");
    run(&runtime(), async move {
        let how = OpenHow::create().with_direct(true);
        let file = tree.open(path("a"), how).await.expect("created");
        let off = file.submit(Request::write(Offset(0), Buf::fill(1, 100))).await;
        assert_eq!(off.expect_err("refused").kind, IoErrorKind::Invalid);
    });
}
