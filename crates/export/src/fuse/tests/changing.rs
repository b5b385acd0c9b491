//! A file system that can be written, beside a kernel that is played by hand.
//!
//! What could break: a request that makes no sense and changes something, a length that lies, a file that is let go of more often
//! than it was opened, a change by call that nobody is told.

use super::{Kernel, begun_by, numbers, request, run};
use crate::fuse::protocol::{Agreed, DIRECT};
use crate::fuse::question::{Change, Head, Question};
use crate::fuse::{FuseError, Server};
use proptest::prelude::*;
use rt::inodes::{Caller, New};
use rt::{Buf, Inodes, InodesRef, MemoryTree, Node, Rt};
use std::rc::Rc;

const NEW: New = New { permissions: 0o644, umask: 0 };

type Serving = rt::Task<Result<(), FuseError>>;

/// A server of an empty tree, begun: it, the kernel's end, and that of notices.
async fn writable(rt: &Rt) -> (Rc<MemoryTree>, Serving, Kernel, Kernel) {
    let tree = MemoryTree::new("m");
    let ((server, kernel), (notices, told)) = (rt::pipe(4 << 20), rt::pipe(1 << 20));
    let server = Server::with_notices(tree.clone() as InodesRef, server, notices);
    let (task, kernel) = begun_by(rt, server, kernel).await;
    (tree, task, kernel, Kernel { stream: told, read: Vec::new(), number: 0 })
}

fn words(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    run(|rt| async move {
        let (tree, _server, mut kernel, _told) = writable(&rt).await;
        let made = tree.create(Caller::default(), Node::ROOT, b"f", NEW).await.expect("made");
        let file = made.node.0;
        let before = tree.attributes(made.node).await;
        let (mode, zero) = (numbers(&[0o100_644, 0]), [0; 8]);
        let (far, long) = ((1_u64 << 63).to_ne_bytes(), [&[b'x'; 256][..], &[0]].concat());
        let write = |at: [u8; 8], len: u32, data: &[u8]| {
            words(&[&zero, &at, &numbers(&[len, 0]), &[0; 16], data])
        };
        let cases = [
            (9, 1, words(&[&mode, b"a/b\0"]), 22, "a slash in a name"),
            (9, 1, words(&[&mode, b"..\0"]), 22, "a name that leads up"),
            (9, 1, words(&[&mode, b"\0"]), 22, "no name"),
            (9, 1, words(&[&mode, b"endless"]), 22, "a name without an end"),
            (9, 1, words(&[&mode, &long]), 36, "a long name"),
            (9, file, words(&[&mode, b"a\0"]), 20, "made in a file"),
            (8, 1, words(&[&numbers(&[0o070_644, 0, 0, 0]), b"a\0"]), 22, "an unknown kind"),
            (8, 1, words(&[&numbers(&[0o040_755, 0, 0, 0]), b"a\0"]), 22, "a directory by mknod"),
            (10, 1, b"nothing\0".to_vec(), 2, "removed what is not there"),
            (11, 1, b"f\0".to_vec(), 20, "a file as a directory"),
            (12, 1, words(&[&1_u64.to_ne_bytes(), b"f\0"]), 22, "one name of two"),
            (45, 1, words(&[&1_u64.to_ne_bytes(), &numbers(&[8, 0]), b"f\0g\0"]), 22, "a flag"),
            (13, 1, words(&[&1_u64.to_ne_bytes(), b"a\0"]), 1, "a second name of a directory"),
            (16, file, write(zero, 9, b"eight by"), 22, "a length beyond the request"),
            (16, file, write(far, 1, b"x"), 22, "a place beyond all"),
            (16, file, write((1_u64 << 62).to_ne_bytes(), 1, b"x"), 27, "too far for this one"),
            (16, 1, write(zero, 1, b"x"), 21, "into a directory"),
            (16, 999, write(zero, 1, b"x"), 116, "into nothing"),
            (4, file, words(&[&numbers(&[8, 0]), &zero, &far, &[0; 64]]), 27, "a size beyond all"),
            (4, file, vec![0; 20], 22, "half of what is to be set"),
            (43, file, words(&[&zero, &zero, &zero, &[0; 8]]), 22, "space for nothing"),
            (43, file, words(&[&zero, &zero, &[1; 8], &numbers(&[8, 0])]), 95, "a mode of others"),
            (46, file, words(&[&zero, &zero, &numbers(&[3, 0])]), 6, "data in nothing"),
            (46, file, words(&[&zero, &zero, &numbers(&[0, 0])]), 22, "a seek from the start"),
            (21, file, words(&[&numbers(&[9, 0, 0, 0]), b"user.a\0eight by"]), 22, "a long value"),
            (21, file, words(&[&numbers(&[1, 3, 0, 0]), b"user.a\0x"]), 22, "there and not there"),
            (24, file, b"user.a\0".to_vec(), 61, "no such attribute"),
            (18, file, vec![0; 24], 22, "closed more often than opened"),
            (999, file, vec![0; 24], 38, "an unknown request"),
        ];
        for (kind, node, rest, expected, why) in cases {
            let (error, rest) = kernel.ask(kind, node, &rest).await;
            assert_eq!((error, rest.len()), (expected, 0), "{why}");
        }
        assert_eq!(tree.attributes(made.node).await, before);
    });
}

#[test]
fn a_write_is_taken_whole_however_large_and_an_open_file_outlives_its_name() {
    run(|rt| async move {
        let (tree, server, mut kernel, _told) = writable(&rt).await;
        let create = words(&[&numbers(&[0, 0o100_644, 0o022, 0]), b"f\0"]);
        let (error, rest) = kernel.ask(35, 1, &create).await;
        assert_eq!((error, rest.len()), (0, 128 + 16));
        let node = u64::from_ne_bytes(rest[..8].try_into().expect("8 bytes"));
        let mut end = 0_u64;
        for len in [1_usize, 100, 4096, 600_000, 1 << 20, 33] {
            let head = [&[0; 8][..], &end.to_ne_bytes(), &(len as u32).to_ne_bytes(), &[0; 20]];
            let data: Vec<u8> = (0..len).map(|n| (n * 3 + len) as u8).collect();
            let (error, rest) = kernel.ask(16, node, &words(&[&head.concat(), &data])).await;
            assert_eq!((error, &rest[..4]), (0, &(len as u32).to_ne_bytes()[..]));
            let read = tree.read(Node(node), stdx::Offset(end), stdx::ByteCount(len as u64)).await;
            assert!(read.expect("read").to_vec() == data, "{len} bytes");
            end += len as u64;
        }
        assert_eq!(kernel.ask(10, 1, b"f\0").await.0, 0);
        assert_eq!(tree.attributes(Node(node)).await.expect("held").links, 0);
        // A second time it is opened, and never closed: the end of the mount closes it.
        assert_eq!(kernel.ask(14, node, &[0; 8]).await.0, 0);
        assert_eq!(kernel.ask(18, node, &[0; 24]).await.0, 0);
        assert!(tree.attributes(Node(node)).await.is_ok());
        drop(kernel);
        assert_eq!(server.await, Ok(()));
        assert_eq!(tree.attributes(Node(node)).await, Err(rt::InodeError::Gone));
        assert_eq!(tree.counts().created, 1);
        assert_eq!(tree.usage(Node::ROOT).await.map(|usage| usage.total == usage.free), Ok(true));
    });
}

#[test]
fn the_kernel_is_told_what_others_change_and_not_what_it_changes_itself() {
    run(|rt| async move {
        let (tree, _server, mut kernel, mut told) = writable(&rt).await;
        let mkdir = words(&[&numbers(&[0o755, 0]), b"its-own\0"]);
        assert_eq!(kernel.ask(9, 1, &mkdir).await.0, 0);
        tree.create(Caller::default(), Node::ROOT, b"by-call", NEW).await.expect("made");
        let mut heard = Vec::new();
        while !heard.iter().any(|(kind, _)| *kind == 3) {
            let (number, kind, rest) = told.reply().await.expect("a notice");
            assert_eq!(number, 0);
            heard.push((-kind, rest));
        }
        let entry = heard.iter().find(|(kind, _)| *kind == 3).expect("a name");
        assert_eq!(entry.1, words(&[&1_u64.to_ne_bytes(), &numbers(&[7, 0]), b"by-call\0"]));
        assert!(!heard.iter().any(|(_, rest)| rest.ends_with(b"its-own\0")));
        let content = words(&[&1_u64.to_ne_bytes(), &[0; 16]]);
        assert!(heard.contains(&(2, content)), "the directory's entries: {heard:?}");
    });
}

#[test]
fn what_only_writes_goes_past_the_cache_and_readers_are_told_before_it_is_answered() {
    run(|rt| async move {
        let (_tree, _server, mut kernel, mut told) = writable(&rt).await;
        let begin = numbers(&[7, 45, 1 << 17, u32::MAX, u32::MAX]);
        let (error, rest) = kernel.ask(26, 0, &begin).await;
        assert_eq!((error, &rest[32..36]), (0, &16_u32.to_ne_bytes()[..]));
        let only_writes = 1;
        let create = words(&[&numbers(&[only_writes, 0o100_644, 0o022, 0]), b"f\0"]);
        let (error, rest) = kernel.ask(35, 1, &create).await;
        assert_eq!((error, &rest[128..136]), (0, &1_u64.to_ne_bytes()[..]), "a handle");
        assert_eq!(rest[136..140], 3_u32.to_ne_bytes(), "past the cache, which is kept");
        let node = u64::from_ne_bytes(rest[..8].try_into().expect("8 bytes"));
        let write = |at: u64| {
            words(&[&DIRECT.to_ne_bytes(), &at.to_ne_bytes(), &numbers(&[3, 0]), &[0; 16], b"abc"])
        };
        assert_eq!(kernel.ask(16, node, &write(0)).await.0, 0);
        let (error, rest) = kernel.ask(14, node, &numbers(&[0, 0])).await;
        assert_eq!((error, rest), (0, words(&[&[0; 8], &numbers(&[2, 0])])), "a reader");
        assert_eq!(kernel.ask(16, node, &write(5000)).await.0, 0);
        let notice = told.reply().await.expect("a notice");
        let range = [node, 5000, 3].map(u64::to_ne_bytes).concat();
        assert_eq!(notice, (0, -2, range), "the first write was nobody's to read");
        // What comes by the cache is in it, in pages that are locked till it is answered: whoever takes the notice would wait for that.
        let cached =
            words(&[&[0; 8], &9000_u64.to_ne_bytes(), &numbers(&[3, 0]), &[0; 16], b"abc"]);
        assert_eq!(kernel.ask(16, node, &cached).await.0, 0);
        // Who closes says what; and of a reader that was there something may have stayed.
        let close = |handle: u64| words(&[&handle.to_ne_bytes(), &[0; 16]]);
        assert_eq!(kernel.ask(18, node, &close(0)).await.0, 0);
        assert_eq!(kernel.ask(18, node, &close(0)).await.0, 22);
        assert_eq!(kernel.ask(16, node, &write(0)).await.0, 0);
        let range = [node, 0, 3].map(u64::to_ne_bytes).concat();
        assert_eq!(told.reply().await.expect("a notice").2, range);
        assert_eq!(kernel.ask(18, node, &close(1)).await.0, 0);
        assert_eq!(kernel.ask(18, node, &close(1)).await.0, 22);
    });
}

/// The kernel asks for an `fsync` behind a synchronous write, but not where that went past its cache: there it says so in the write.
#[test]
fn a_synchronous_write_past_the_cache_is_durable_when_it_is_answered() {
    const O_WRONLY: u32 = 1;
    const O_DSYNC: u32 = 0o10000;
    let is_durable = |handle: u64, flags: u32| {
        let head = words(&[&handle.to_ne_bytes(), &[0; 8], &numbers(&[1, 0]), &[0; 8]]);
        let rest = words(&[&head, &numbers(&[flags, 0]), b"x"]);
        let bytes = Buf::copy_of(&request(16, 1, 5, &rest));
        let head = Head::decode(bytes.bytes()).expect("a head");
        match head.question(&bytes, Agreed::default()) {
            Some(Question::Change(Change::Write { durable, .. })) => durable,
            other => panic!("{other:?}"),
        }
    };
    assert!(is_durable(DIRECT, O_WRONLY | O_DSYNC));
    assert!(!is_durable(DIRECT, O_WRONLY) && !is_durable(0, O_WRONLY | O_DSYNC));
}

proptest! {
    #[test]
    fn any_bytes_change_what_they_say_or_nothing(
        requests in prop::collection::vec(
            (0_u32..60, 0_u64..5, prop::collection::vec(prop::sample::select(
                &[0_u8, 0, 0, 0, 1, 2, 7, b'a', b'b', 0xff][..]), 0..120)), 0..40),
    ) {
        run(|rt| async move {
            let (tree, server, mut kernel, _told) = writable(&rt).await;
            for (kind, node, rest) in requests {
                // 26 begins anew, 38 ends.
                kernel.send(&request(kind, 1, node, &rest)).await;
            }
            drop(kernel);
            let _ = server.await;
            let usage = tree.usage(Node::ROOT).await.expect("it is as it was made");
            assert!(usage.free <= usage.total);
        });
    }
}
