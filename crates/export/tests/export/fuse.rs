//! A file system of the tests', mounted, and looked at as programs do.
//!
//! What could break: anything that our side of the protocol and the kernel's understand differently, which only the
//! kernel can show; a reply that gets lost, so that a program waits for ever; a mount that is left behind.
//!
//! Each test says so and is skipped where nothing can be mounted.

use export::fuse::Server;
use host::{FuseMount, HostRuntime, MountError, ReactorKind, StartError};
use rt::{
    Attributes, Buf, Cookie, InodeError, InodeFuture, InodeKind, Inodes, ListEntry, Node, SgList,
    Timestamp, Usage,
};
use std::collections::BTreeMap;
use std::fs;
use std::future::ready;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use stdx::{ByteCount, Offset};

/// Bytes of `large`: no multiple of anything.
const LARGE_BYTES: u64 = (3 << 20) + 777;
/// Entries of `many`.
const MANY: u64 = 5_000;
/// Where the nodes of `many`'s files begin.
const MANY_NODES: u64 = 1 << 40;

/// What a byte of `large` is.
fn byte_at(place: u64) -> u8 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

enum Content {
    Directory { parent: u64, entries: BTreeMap<&'static str, u64> },
    Many { parent: u64 },
    Bytes(&'static [u8]),
    Large,
    Damaged,
    Link(&'static str),
    Device(InodeKind, u32, u32),
}

struct Tree {
    nodes: BTreeMap<u64, Content>,
}

impl Tree {
    fn new() -> Tree {
        let directory = |parent, entries: &[(&'static str, u64)]| Content::Directory {
            parent,
            entries: entries.iter().copied().collect(),
        };
        let top = [
            ("hello", 2),
            ("other-name", 2),
            ("empty", 3),
            ("large", 4),
            ("damaged", 5),
            ("link", 6),
            ("null", 7),
            ("pipe", 8),
            ("below", 9),
            ("many", 10),
            ("ünï", 3),
        ];
        let nodes = [
            (1, directory(1, &top)),
            (2, Content::Bytes(b"hello, world\n")),
            (3, Content::Bytes(b"")),
            (4, Content::Large),
            (5, Content::Damaged),
            (6, Content::Link("below/file")),
            (7, Content::Device(InodeKind::CharacterDevice, 1, 3)),
            (8, Content::Device(InodeKind::Pipe, 0, 0)),
            (9, directory(1, &[("file", 11)])),
            (10, Content::Many { parent: 1 }),
            (11, Content::Bytes(b"it lies below")),
        ];
        Tree { nodes: nodes.into() }
    }

    fn attributes_of(&self, node: Node) -> Result<Attributes, InodeError> {
        let mut attributes = Attributes {
            node,
            inode: node.0 + 1000,
            generation: 0,
            kind: InodeKind::File,
            permissions: 0o640,
            links: 1,
            user: 12,
            group: 34,
            device: (0, 0),
            size: ByteCount(0),
            allocated: ByteCount(512),
            block_size: ByteCount::kib(128),
            accessed: Timestamp { seconds: 1, nanoseconds: 0 },
            modified: Timestamp { seconds: 1_795_292_529, nanoseconds: 407_995_966 },
            changed: Timestamp { seconds: -5, nanoseconds: 7 },
        };
        if (MANY_NODES..MANY_NODES + MANY).contains(&node.0) {
            return Ok(attributes);
        }
        match self.nodes.get(&node.0).ok_or(InodeError::Gone)? {
            Content::Directory { .. } | Content::Many { .. } => {
                attributes.kind = InodeKind::Directory;
                (attributes.permissions, attributes.links) = (0o755, 2);
            }
            Content::Bytes(bytes) => attributes.size = ByteCount(bytes.len() as u64),
            Content::Large | Content::Damaged => attributes.size = ByteCount(LARGE_BYTES),
            Content::Link(target) => {
                (attributes.kind, attributes.size) =
                    (InodeKind::Link, ByteCount(target.len() as u64));
            }
            Content::Device(kind, major, minor) => {
                (attributes.kind, attributes.device) = (*kind, (*major, *minor));
            }
        }
        if node.0 == 2 {
            attributes.links = 2;
        }
        Ok(attributes)
    }
}

fn answer<T: 'static>(result: Result<T, InodeError>) -> InodeFuture<T> {
    Box::pin(ready(result))
}

impl Inodes for Tree {
    fn name(&self) -> Rc<str> {
        "tests".into()
    }

    fn lookup(&self, directory: Node, name: &[u8]) -> InodeFuture<Attributes> {
        let name = std::str::from_utf8(name).unwrap_or_default();
        let found = match self.nodes.get(&directory.0) {
            Some(Content::Directory { entries, .. }) => entries.get(name).copied(),
            Some(Content::Many { .. }) => {
                let number = name.strip_prefix("file-").and_then(|digits| digits.parse().ok());
                number.filter(|number| *number < MANY).map(|number: u64| MANY_NODES + number)
            }
            _ => return answer(Err(InodeError::NotDirectory)),
        };
        answer(found.ok_or(InodeError::NotFound).and_then(|node| self.attributes_of(Node(node))))
    }

    fn attributes(&self, node: Node) -> InodeFuture<Attributes> {
        answer(self.attributes_of(node))
    }

    fn parent(&self, directory: Node) -> InodeFuture<Node> {
        answer(match self.nodes.get(&directory.0) {
            Some(Content::Directory { parent, .. } | Content::Many { parent }) => Ok(Node(*parent)),
            _ => Err(InodeError::NotDirectory),
        })
    }

    fn read(&self, file: Node, at: Offset, len: ByteCount) -> InodeFuture<SgList> {
        answer(match self.nodes.get(&file.0) {
            Some(Content::Bytes(bytes)) => {
                let from = bytes.len().min(at.bytes() as usize);
                let to = bytes.len().min(from + len.as_usize());
                Ok(Buf::copy_of(&bytes[from..to]).into())
            }
            Some(Content::Large) => {
                let end = LARGE_BYTES.min(at.bytes() + len.bytes());
                let bytes: Vec<u8> = (at.bytes()..end).map(byte_at).collect();
                // In pieces, as blocks come from a cache.
                Ok(bytes.chunks(1 << 17).map(Buf::copy_of).collect())
            }
            _ => Err(InodeError::Damaged),
        })
    }

    fn list(
        &self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> InodeFuture<Vec<ListEntry>> {
        let entry = |name: String, node: u64, place: u64| {
            let known = self.attributes_of(Node(node)).expect("it is there");
            let (name, node, inode, kind) =
                (name.into_bytes(), known.node, known.inode, known.kind);
            ListEntry { name, node, inode, kind, cookie: Cookie(Cookie::FIRST.0 + place) }
        };
        let from = after.0.saturating_sub(Cookie::FIRST.0 - 1);
        answer(match self.nodes.get(&directory.0) {
            Some(Content::Directory { entries, .. }) => {
                let entries = entries.iter().enumerate().skip(from as usize).take(entries_max);
                let entries =
                    entries.map(|(place, (name, node))| entry((*name).into(), *node, place as u64));
                Ok(entries.collect())
            }
            Some(Content::Many { .. }) => {
                let places = (from..MANY).take(entries_max);
                Ok(places.map(|n| entry(format!("file-{n}"), MANY_NODES + n, n)).collect())
            }
            _ => Err(InodeError::NotDirectory),
        })
    }

    fn link_target(&self, link: Node) -> InodeFuture<Vec<u8>> {
        answer(match self.nodes.get(&link.0) {
            Some(Content::Link(target)) => Ok(target.as_bytes().to_vec()),
            _ => Err(InodeError::WrongKind),
        })
    }

    fn extended_attribute(&self, node: Node, name: &[u8]) -> InodeFuture<Vec<u8>> {
        answer(match (node.0, name) {
            (2, b"user.comment") => Ok(b"a \0 within".to_vec()),
            (2, b"user.long") => Ok(vec![b'x'; 60_000]),
            (2, b"security.capability" | b"system.posix_acl_access") => {
                Err(InodeError::NoAttribute)
            }
            _ => Err(InodeError::NoAttribute),
        })
    }

    fn extended_attributes(&self, node: Node) -> InodeFuture<Vec<Vec<u8>>> {
        let names: &[&[u8]] = if node.0 == 2 { &[b"user.comment", b"user.long"] } else { &[] };
        answer(Ok(names.iter().map(|name| name.to_vec()).collect()))
    }

    fn usage(&self, _: Node) -> InodeFuture<Usage> {
        let (total, free) = (ByteCount::gib(10), ByteCount::gib(4));
        answer(Ok(Usage { total, free, files: 17, files_free: 5 }))
    }
}

/// A mount that another thread serves.
struct Mounted {
    folder: tempfile::TempDir,
    stop: Option<rt::sync::oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Nothing, said aloud, where nothing can be mounted.
    fn new(kind: ReactorKind) -> Option<Mounted> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let (stop, stopped) = rt::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let server = std::thread::spawn(move || {
            let runtime = match HostRuntime::new(kind) {
                Ok(runtime) => runtime,
                Err(error @ (StartError::UringRefused(_) | StartError::UringTooOld)) => {
                    return tell.send(Err(error.to_string())).expect("it is awaited");
                }
                Err(error) => panic!("{error}"),
            };
            let mount = match FuseMount::new(&runtime.host(), &path, "tests", host::Use::READ) {
                Ok(mount) => mount,
                Err(error @ (MountError::Device(_) | MountError::Denied(_))) => {
                    return tell.send(Err(error.to_string())).expect("it is awaited");
                }
                Err(error) => panic!("{error}"),
            };
            tell.send(Ok(())).expect("it is awaited");
            let serving = Server::new(Rc::new(Tree::new()), mount.stream()).serve();
            let ended = runtime.runtime().block_on(async move {
                futures_util::future::select(Box::pin(serving), stopped).await;
                mount.unmount()
            });
            ended.expect("a real run never stalls").expect("unmounted");
        });
        match told.recv_timeout(Duration::from_secs(30)).expect("it mounts") {
            Ok(()) => Some(Mounted { folder, stop: Some(stop), server: Some(server) }),
            Err(reason) => {
                println!("skipped by {kind}: {reason}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
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

fn both(test: impl Fn(&Mounted)) {
    for kind in [ReactorKind::Uring, ReactorKind::Threads] {
        if let Some(mounted) = Mounted::new(kind) {
            test(&mounted);
        }
    }
}

/// What a program says; it must succeed.
fn said(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn files_are_what_the_tree_says_they_are() {
    both(|mounted| {
        assert_eq!(fs::read(mounted.path("hello")).expect("read"), b"hello, world\n");
        assert_eq!(fs::read(mounted.path("link")).expect("read"), b"it lies below");
        assert_eq!(fs::read(mounted.path("empty")).expect("read"), b"");
        let status = fs::metadata(mounted.path("other-name")).expect("there");
        assert_eq!((status.ino(), status.nlink(), status.mode()), (1002, 2, 0o100_640));
        assert_eq!((status.uid(), status.gid(), status.len()), (12, 34, 13));
        assert_eq!((status.mtime(), status.mtime_nsec()), (1_795_292_529, 407_995_966));
        assert_eq!((status.ctime(), status.ctime_nsec()), (-5, 7));
        let null = fs::metadata(mounted.path("null")).expect("there");
        assert!(null.file_type().is_char_device());
        assert_eq!(null.rdev(), 1 << 8 | 3);
        assert!(fs::metadata(mounted.path("pipe")).expect("there").file_type().is_fifo());
        let link = fs::read_link(mounted.path("link")).expect("a link");
        assert_eq!(link, Path::new("below/file"));
        let missing = fs::read(mounted.path("nothing")).expect_err("not there");
        assert_eq!(missing.raw_os_error(), Some(2));
        let damaged = fs::read(mounted.path("damaged")).expect_err("damaged");
        assert_eq!(damaged.raw_os_error(), Some(5));
        let long = fs::read(mounted.path(&"n".repeat(1024))).expect_err("too long");
        assert_eq!(long.raw_os_error(), Some(36));
        let written = fs::write(mounted.path("hello"), "x").expect_err("read-only");
        assert_eq!(written.raw_os_error(), Some(30));
    });
}

#[test]
fn programs_see_what_they_see_elsewhere() {
    both(|mounted| {
        let folder = mounted.folder.path();
        let listed = said("ls", &["-a"], folder);
        assert_eq!(listed.lines().count(), 13, "{listed}");
        assert!(listed.starts_with(".\n..\n") && listed.contains("ünï"), "{listed}");
        let found = said("find", &[".", "-type", "f", "-not", "-path", "./many/*"], folder);
        let mut found: Vec<&str> = found.lines().collect();
        found.sort();
        let files = ["./below/file", "./damaged", "./empty", "./hello", "./large", "./other-name"];
        assert_eq!(found[..6], files);
        let long = said("ls", &["-lin", "hello", "null"], folder);
        assert!(long.contains("1002 -rw-r----- 2 12 34"), "{long}");
        assert!(long.contains("crw-r----- 1 12 34 1, 3"), "{long}");
        let space = said("df", &["-B1", "--output=source,size,avail", "."], folder);
        assert!(space.contains("tests") && space.contains(" 10737418240 4294967296"), "{space}");
        let sum = said("cksum", &["hello"], folder);
        assert!(sum.contains(" 13 "), "{sum}");
    });
}

#[test]
fn a_large_file_reads_the_same_in_any_way_and_by_many_at_once() {
    both(|mounted| {
        let expected: Vec<u8> = (0..LARGE_BYTES).map(byte_at).collect();
        assert!(fs::read(mounted.path("large")).expect("read") == expected);
        let readers: Vec<_> = (0..8_u64)
            .map(|reader| {
                let (path, expected) = (mounted.path("large"), expected.clone());
                std::thread::spawn(move || {
                    let mut file = fs::File::open(path).expect("opened");
                    let mut random = stdx::Prng::new(reader);
                    for _ in 0..60 {
                        let at = random.below(LARGE_BYTES) as usize;
                        let mut bytes = vec![0; random.below(200_000) as usize];
                        file.seek(SeekFrom::Start(at as u64)).expect("there");
                        let mut count = 0;
                        while count < bytes.len() {
                            match file.read(&mut bytes[count..]).expect("read") {
                                0 => break,
                                more => count += more,
                            }
                        }
                        let end = expected.len().min(at + bytes.len());
                        assert!(bytes[..count] == expected[at..end], "reader {reader} at {at}");
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().expect("what it reads is right"));
    });
}

#[test]
fn a_directory_of_many_is_listed_whole_and_each_once() {
    both(|mounted| {
        let entries = fs::read_dir(mounted.path("many")).expect("listed");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
        let mut names: Vec<String> = names.map(|name| name.expect("text")).collect();
        assert_eq!(names.len() as u64, MANY);
        names.sort();
        names.dedup();
        assert_eq!(names.len() as u64, MANY);
        // With what is known of each.
        let long = said("ls", &["-ln", "many"], mounted.folder.path());
        assert_eq!(long.lines().filter(|line| line.starts_with("-rw-r-----")).count() as u64, MANY);
    });
}

#[test]
fn extended_attributes_are_those_of_the_tree() {
    let Some(mounted) = Mounted::new(ReactorKind::Auto) else { return };
    let hello = mounted.path("hello");
    let mut names = [0; 100];
    let count = rustix::fs::listxattr(&hello, &mut names).expect("listed");
    assert_eq!(&names[..count], b"user.comment\0user.long\0");
    let mut value = vec![0; 70_000];
    let count = rustix::fs::getxattr(&hello, c"user.comment", &mut value).expect("a value");
    assert_eq!(&value[..count], b"a \0 within");
    let count = rustix::fs::getxattr(&hello, c"user.long", &mut value).expect("a value");
    assert_eq!(count, 60_000);
    let error = rustix::fs::getxattr(&hello, c"user.long", &mut value[..100]).expect_err("no room");
    assert_eq!(error.raw_os_error(), 34);
    let error = rustix::fs::getxattr(&hello, c"user.none", &mut value).expect_err("none");
    assert_eq!(error.raw_os_error(), 61);
}

#[test]
fn who_unmounts_from_outside_ends_the_server() {
    let Some(mut mounted) = Mounted::new(ReactorKind::Auto) else { return };
    said("umount", &[mounted.folder.path().to_str().expect("text")], Path::new("/"));
    let server = mounted.server.take().expect("it was started");
    for _ in 0..300 {
        if server.is_finished() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.is_finished(), "nothing more to serve");
    mounted.server = Some(server);
}

#[test]
fn a_file_that_is_open_when_it_is_unmounted_gives_an_error_and_no_wait() {
    let Some(mounted) = Mounted::new(ReactorKind::Auto) else { return };
    let mut file = fs::File::open(mounted.path("large")).expect("opened");
    drop(mounted);
    let mut bytes = [0; 16];
    file.seek(SeekFrom::Start(1 << 20)).expect("a place");
    let error = file.read(&mut bytes).expect_err("nobody answers");
    assert_eq!(error.raw_os_error(), Some(107));
}
