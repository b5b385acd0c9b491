//! The server beside a kernel that is played by hand, over a pipe in memory, in virtual time.
//!
//! What could break: a request that makes no sense and is taken for one that does, more under way than the limit, an
//! answer without its number, a list that is cut within an entry. What the real kernel makes of it: `tests/export/fuse.rs`.

mod changing;

use super::{FuseError, REQUESTS_MAX, Server, VALID};
use proptest::prelude::*;
use rt::inodes::Changes;
use rt::sync::Notify;
use rt::{
    Attributes, Buf, BufMut, Cookie, InodeError, InodeFuture, InodeKind, Inodes, ListEntry, Node,
    Reactor, Rt, Runtime, SgList, StreamRef, Timestamp, Usage,
};
use sim::SimReactor;
use sim::host::Processor;
use std::cell::Cell;
use std::future::{Future, ready};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

fn run<F, T>(test: impl FnOnce(Rt) -> F) -> T
where
    F: Future<Output = T> + 'static,
    T: 'static,
{
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
    let future = test(runtime.handle());
    runtime.block_on(future).expect("it goes on")
}

/// A directory of files whose reads wait until they are let go.
#[derive(Default)]
struct Waiting {
    under_way: Cell<usize>,
    most: Cell<usize>,
    go: Rc<Notify>,
    free: Rc<Cell<bool>>,
    /// The tree may change, and its root takes several names for one.
    folds: Cell<bool>,
}

fn attributes_of(node: Node) -> Attributes {
    let kind = if node == Node::ROOT { InodeKind::Directory } else { InodeKind::File };
    Attributes {
        node,
        inode: node.0,
        generation: 0,
        kind,
        permissions: 0o444,
        links: 1,
        user: 0,
        group: 0,
        device: (0, 0),
        size: ByteCount(100),
        allocated: ByteCount(512),
        block_size: ByteCount(512),
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    }
}

fn answer<T: 'static>(result: Result<T, InodeError>) -> InodeFuture<T> {
    Box::pin(ready(result))
}

struct Tree(Rc<Waiting>);

impl Inodes for Tree {
    fn name(&self) -> Rc<str> {
        "tests".into()
    }

    fn changes(&self) -> Changes {
        if self.0.folds.get() { Changes::Told } else { Changes::Never }
    }

    fn folds_names(&self, directory: Node) -> bool {
        self.0.folds.get() && directory == Node::ROOT
    }

    fn lookup(&self, _: Node, name: &[u8]) -> InodeFuture<Attributes> {
        answer(if name == b"there" {
            Ok(attributes_of(Node(5)))
        } else {
            Err(InodeError::NotFound)
        })
    }

    fn attributes(&self, node: Node) -> InodeFuture<Attributes> {
        answer(Ok(attributes_of(node)))
    }

    fn parent(&self, directory: Node) -> InodeFuture<Node> {
        answer(Ok(directory))
    }

    fn read(&self, _: Node, _: Offset, len: ByteCount) -> InodeFuture<SgList> {
        let waiting = Rc::clone(&self.0);
        Box::pin(async move {
            waiting.under_way.set(waiting.under_way.get() + 1);
            waiting.most.set(waiting.most.get().max(waiting.under_way.get()));
            while !waiting.free.get() {
                waiting.go.notified().await;
            }
            waiting.under_way.set(waiting.under_way.get() - 1);
            Ok(Buf::zeros(len.as_usize().min(100)).into())
        })
    }

    fn list(&self, _: Node, after: Cookie, entries_max: usize) -> InodeFuture<Vec<ListEntry>> {
        let from = after.0.max(2) + 1;
        let entries = (from..from + entries_max as u64).take_while(|cookie| *cookie < 40);
        let entry = |cookie: u64| ListEntry {
            name: vec![b'n'; cookie as usize],
            node: Node(cookie),
            inode: cookie,
            kind: InodeKind::File,
            cookie: Cookie(cookie),
        };
        answer(Ok(entries.map(entry).collect()))
    }

    fn link_target(&self, _: Node) -> InodeFuture<Vec<u8>> {
        answer(Err(InodeError::WrongKind))
    }

    fn extended_attribute(&self, _: Node, _: &[u8]) -> InodeFuture<Vec<u8>> {
        answer(Ok(b"value".to_vec()))
    }

    fn extended_attributes(&self, _: Node) -> InodeFuture<Vec<Vec<u8>>> {
        answer(Ok(vec![b"user.a".to_vec()]))
    }

    fn usage(&self, _: Node) -> InodeFuture<Usage> {
        answer(Err(InodeError::NoKey))
    }
}

/// The kernel's end.
struct Kernel {
    stream: StreamRef,
    read: Vec<u8>,
    number: u64,
}

fn request(kind: u32, number: u64, node: u64, rest: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend((40 + rest.len() as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(number.to_ne_bytes());
    request.extend(node.to_ne_bytes());
    request.extend([0; 16]);
    request.extend(rest);
    request
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// What is read or listed: so many bytes from a place on.
fn piece(at: u64, len: u32) -> Vec<u8> {
    [&[0; 8], &at.to_ne_bytes()[..], &len.to_ne_bytes(), &[0; 20]].concat()
}

impl Kernel {
    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write(Buf::copy_of(bytes).into()).await.expect("sent");
    }

    /// The next reply: number, error, the rest.
    async fn reply(&mut self) -> Option<(u64, i32, Vec<u8>)> {
        loop {
            if let Some((length, _)) = self.read.split_first_chunk() {
                let length = u32::from_ne_bytes(*length) as usize;
                if self.read.len() >= length {
                    let reply: Vec<u8> = self.read.drain(..length).collect();
                    let error = i32::from_ne_bytes(reply[4..8].try_into().expect("4 bytes"));
                    let number = u64::from_ne_bytes(reply[8..16].try_into().expect("8 bytes"));
                    return Some((number, -error, reply[16..].to_vec()));
                }
            }
            let (bytes, count) = self.stream.read(BufMut::zeroed(4096), 0).await.ok()?;
            if count == 0 {
                return None;
            }
            self.read.extend_from_slice(&bytes[..count]);
        }
    }

    /// Asks, and takes the reply to it: error and rest.
    async fn ask(&mut self, kind: u32, node: u64, rest: &[u8]) -> (i32, Vec<u8>) {
        self.number += 1;
        self.send(&request(kind, self.number, node, rest)).await;
        let (number, error, rest) = self.reply().await.expect("a reply");
        assert_eq!(number, self.number, "the reply to what was asked");
        (error, rest)
    }
}

/// A server, begun, and the kernel's end.
async fn begun(rt: &Rt, waiting: &Rc<Waiting>) -> (rt::Task<Result<(), FuseError>>, Kernel) {
    let (server, kernel) = rt::pipe(1 << 20);
    begun_by(rt, Server::new(Rc::new(Tree(Rc::clone(waiting))), server), kernel).await
}

async fn begun_by(
    rt: &Rt,
    server: Server,
    kernel: StreamRef,
) -> (rt::Task<Result<(), FuseError>>, Kernel) {
    let task = rt.spawn(server.serve());
    let mut kernel = Kernel { stream: kernel, read: Vec::new(), number: 100 };
    let (error, rest) = kernel.ask(3, 1, &[0; 16]).await;
    assert_eq!((error, rest.len()), (71, 0), "nothing before the beginning");
    let (error, rest) = kernel.ask(26, 0, &numbers(&[7, 45, 1 << 17, u32::MAX])).await;
    assert_eq!((error, rest.len()), (0, 64));
    assert_eq!(rest[..8], numbers(&[7, 45]));
    (task, kernel)
}

#[test]
fn questions_are_answered_and_what_makes_no_sense_is_refused() {
    run(|rt| async move {
        let (server, mut kernel) = begun(&rt, &Rc::default()).await;
        let (error, rest) = kernel.ask(1, 1, b"there\0").await;
        assert_eq!((error, rest.len(), rest[0]), (0, 128, 5));
        let (error, rest) = kernel.ask(1, 1, b"not there\0").await;
        assert_eq!((error, rest.len(), rest[0]), (0, 128, 0), "that there is none may be kept");
        let name = [&[b'x'; 1024][..], &[0]].concat();
        for (kind, rest, expected) in [
            (1, &b"endless"[..], 22),
            (1, b"\0", 22),
            (1, &name, 36),
            (5, b"", 22),
            (14, &[0; 8], 38),
            (15, &[0; 19], 22),
            (16, &[0; 100], 30),
            (9, b"12345678a name\0", 30),
            (17, b"", 126),
            (22, &[4, 0, 0, 0, 0, 0, 0, 0, b'a', 0], 34),
            (999, b"", 38),
        ] {
            let (error, rest) = kernel.ask(kind, 1, rest).await;
            assert_eq!((error, rest.len()), (expected, 0), "kind {kind}");
        }
        let (error, rest) = kernel.ask(22, 1, &[0, 0, 0, 0, 0, 0, 0, 0, b'a', 0]).await;
        assert_eq!((error, rest), (0, numbers(&[5, 0])), "only its length");
        let (error, rest) = kernel.ask(23, 1, &numbers(&[100, 0])).await;
        assert_eq!((error, &rest[..]), (0, &b"user.a\0"[..]));
        drop(kernel);
        assert_eq!(server.await, Ok(()));
    });
}

#[test]
fn a_list_is_cut_between_entries_and_goes_on_where_it_was_cut() {
    for kind in [28, 44] {
        run(move |rt| async move {
            let (_server, mut kernel) = begun(&rt, &Rc::default()).await;
            let mut names = Vec::new();
            let mut after = 0;
            loop {
                let (error, list) = kernel.ask(kind, 1, &piece(after, 700)).await;
                assert!(error == 0 && list.len() <= 700);
                if list.is_empty() {
                    break;
                }
                let mut rest = &list[..];
                while !rest.is_empty() {
                    let entry = if kind == 44 { rest.split_at(128).1 } else { rest };
                    let number = |at| u64::from_ne_bytes(entry[at..at + 8].try_into().expect("8"));
                    let name_bytes = u32::from_ne_bytes(entry[16..20].try_into().expect("4"));
                    names.push(name_bytes as usize);
                    after = number(8);
                    rest = &entry[(24 + name_bytes as usize).next_multiple_of(8)..];
                }
            }
            let expected: Vec<usize> = [1, 2].into_iter().chain(3..40).collect();
            assert_eq!(names, expected, "dots, then each once");
        });
    }
}

/// The kernel keeps names byte for byte.
#[test]
fn names_are_asked_for_each_time_where_several_are_one() {
    run(|rt| async move {
        let waiting = Rc::new(Waiting { folds: Cell::new(true), ..Waiting::default() });
        let ((server, kernel), (notices, _told)) = (rt::pipe(1 << 20), rt::pipe(1 << 20));
        let server = Server::with_notices(Rc::new(Tree(waiting)), server, notices);
        let (_server, mut kernel) = begun_by(&rt, server, kernel).await;
        let number = |rest: &[u8], at: usize| {
            u64::from_ne_bytes(rest[at..at + 8].try_into().expect("8 bytes"))
        };
        let day = VALID.as_secs();
        for (directory, kept) in [(1, 0), (7, day)] {
            let (error, found) = kernel.ask(1, directory, b"there\0").await;
            assert_eq!((error, number(&found, 16), number(&found, 24)), (0, kept, day));
            let (error, list) = kernel.ask(44, directory, &piece(2, 400)).await;
            assert_eq!((error, number(&list, 16), number(&list, 24)), (0, kept, day));
            let (error, none) = kernel.ask(1, directory, b"not there\0").await;
            match kept {
                0 => assert_eq!((error, none.len()), (2, 0), "that there is none isn't kept"),
                kept => assert_eq!((error, number(&none, 0), number(&none, 16)), (0, 0, kept)),
            }
        }
    });
}

#[test]
fn no_more_is_under_way_than_the_limit_and_all_is_answered() {
    run(|rt| async move {
        let waiting = Rc::new(Waiting::default());
        let (_server, mut kernel) = begun(&rt, &waiting).await;
        for number in 0..200 {
            kernel.send(&request(15, number, 5, &piece(0, 50))).await;
        }
        rt.sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(waiting.most.get(), REQUESTS_MAX);
        waiting.free.set(true);
        let mut answered = Vec::new();
        while answered.len() < 200 {
            waiting.go.notify_waiters();
            let (number, error, rest) = kernel.reply().await.expect("a reply");
            assert_eq!((error, rest.len()), (0, 50));
            answered.push(number);
        }
        answered.sort();
        assert!(answered.into_iter().eq(0..200));
    });
}

#[test]
fn another_protocol_is_named() {
    run(|rt| async move {
        let (server, kernel) = rt::pipe(4096);
        let task = rt.spawn(Server::new(Rc::new(Tree(Rc::default())), server).serve());
        let mut kernel = Kernel { stream: kernel, read: Vec::new(), number: 0 };
        let (error, rest) = kernel.ask(26, 0, &numbers(&[8, 1, 0, 0])).await;
        assert_eq!((error, &rest[..4]), (0, &numbers(&[7])[..]), "a later one is told ours");
        let (error, _) = kernel.ask(26, 0, &numbers(&[7, 30, 0, 0])).await;
        assert_eq!(error, 71);
        assert_eq!(task.await, Err(FuseError::TooOld { major: 7, minor: 30 }));
    });
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_end_the_server(
        requests in prop::collection::vec(
            (0_u32..60, prop::collection::vec(any::<u8>(), 0..120)), 0..20),
        garbage in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        run(|rt| async move {
            let waiting = Rc::new(Waiting { free: Rc::new(Cell::new(true)), ..Waiting::default() });
            let (server, mut kernel) = begun(&rt, &waiting).await;
            for (kind, rest) in requests {
                kernel.send(&request(kind, 1, 1, &rest)).await;
            }
            kernel.send(&garbage).await;
            drop(kernel);
            // Bytes that are no request end it with an error; the end of the stream without.
            let _ = server.await;
        });
    }
}
