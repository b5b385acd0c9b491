//! Unix sockets and TCP by both reactors: the same claims by io_uring and by threads.
//!
//! What could break: bytes lost where a socket is full, a dropped read that keeps the connection open, a
//! socket path stolen from a server that runs, or not taken over from one that died.

#![allow(clippy::disallowed_methods)] // host is the real world: threads, clocks, and places for files

use host::{
    Address, HostRuntime, ListenError, ReactorKind, SocketListener, SocketStream, StartError,
};
use rt::{Buf, BufMut, Listener, SgList, Stream, StreamError};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;

fn both(test: impl Fn(&HostRuntime, &Address)) {
    for kind in [ReactorKind::Uring, ReactorKind::Threads] {
        let runtime = match HostRuntime::new(kind) {
            Ok(runtime) => runtime,
            Err(error @ (StartError::UringRefused(_) | StartError::UringTooOld)) => {
                eprintln!("skipped by {kind}: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let dir = tempfile::tempdir().expect("a temporary directory");
        test(&runtime, &Address::Unix(dir.path().join("socket")));
        test(&runtime, &Address::Tcp("127.0.0.1:0".into()));
    }
}

fn run<F: Future + 'static>(runtime: &HostRuntime, future: F) -> F::Output
where
    F::Output: 'static,
{
    runtime.runtime().block_on(future).expect("a real run never stalls")
}

/// The two ends of a connection.
fn connected(runtime: &HostRuntime, address: &Address) -> (Rc<dyn Stream>, Rc<dyn Stream>) {
    let listener = SocketListener::bind(&runtime.host(), address).expect("listens");
    let address: Address = listener.name().parse().expect("a name is an address");
    let client = SocketStream::connect(&runtime.host(), &address).expect("connected");
    let server = run(runtime, listener.accept()).expect("accepted");
    (Rc::new(client), server)
}

#[test]
fn megabytes_pass_both_ways_at_once_as_they_were_written() {
    both(|runtime, address| {
        let (one, other) = connected(runtime, address);
        let mut prng = Prng::new(1);
        let bytes = prng.bytes(3_000_000);
        let pieces: SgList = bytes.chunks(999).map(Buf::copy_of).collect();
        let both_ways = [(Rc::clone(&one), Rc::clone(&other)), (other, one)];
        let tasks = both_ways.map(|(from, to)| {
            let data = pieces.clone();
            let writer = runtime.rt().spawn(async move {
                from.write(data).await.expect("written");
                from.shutdown().await.expect("shut down");
            });
            let reader = runtime.rt().spawn(async move {
                let mut all = Vec::new();
                loop {
                    let lent = BufMut::for_overwrite(70_000);
                    let (buf, count) = to.read(lent, 3).await.expect("read");
                    if count == 0 {
                        return all;
                    }
                    all.extend_from_slice(&buf[3..3 + count]);
                }
            });
            (writer, reader)
        });
        for (writer, reader) in tasks {
            run(runtime, writer);
            assert!(run(runtime, reader) == bytes, "what was read is what was written");
        }
    });
}

#[test]
fn a_dropped_read_lets_the_connection_close() {
    both(|runtime, address| {
        let (one, other) = connected(runtime, address);
        let rt = runtime.rt();
        run(runtime, async move {
            let waiting = rt.spawn(async move { one.read(BufMut::zeroed(10), 0).await });
            rt.sleep(Duration::from_millis(5)).await;
            drop(waiting);
            let (_, count) = other.read(BufMut::zeroed(10), 0).await.expect("read");
            assert_eq!(count, 0, "the end: the reader's end was closed");
        });
    });
}

#[test]
fn a_peer_that_is_gone_is_an_error_and_no_signal() {
    both(|runtime, address| {
        let (one, other) = connected(runtime, address);
        drop(other);
        run(runtime, async move {
            let data = SgList::from(Buf::zeros(100_000));
            let mut outcome = Ok(());
            for _ in 0..100 {
                outcome = outcome.and(one.write(data.clone()).await);
            }
            assert_eq!(outcome, Err(StreamError::Gone));
        });
    });
}

#[test]
fn a_dropped_accept_takes_no_connection() {
    both(|runtime, address| {
        let listener = Rc::new(SocketListener::bind(&runtime.host(), address).expect("listens"));
        let rt = runtime.rt();
        let host = runtime.host();
        run(runtime, async move {
            let waiting = rt.spawn({
                let listener = Rc::clone(&listener);
                async move { listener.accept().await.is_ok() }
            });
            rt.sleep(Duration::from_millis(5)).await;
            drop(waiting);
            let address = listener.name().parse().expect("a name is an address");
            let client = SocketStream::connect(&host, &address).expect("connected");
            let server = listener.accept().await.expect("accepted");
            server.write(Buf::copy_of(b"hello").into()).await.expect("written");
            assert_eq!(client.read(BufMut::zeroed(10), 0).await.expect("read").1, 5);
        });
    });
}

#[test]
fn a_path_is_refused_while_a_server_lives_and_taken_over_when_it_died() {
    let runtime = HostRuntime::new(ReactorKind::Auto).expect("a runtime");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("socket");
    let address = Address::Unix(path.clone());
    let bind = || SocketListener::bind(&runtime.host(), &address);
    let first = bind().expect("listens");
    assert!(matches!(bind(), Err(ListenError::InUse(_))));
    drop(first);
    assert!(!path.exists(), "the path goes with its listener");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a dead server's socket"));
    drop(bind().expect("taken over"));
    std::fs::write(&path, "precious").expect("written");
    assert!(matches!(bind(), Err(ListenError::NotASocket(_))));
    assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
}

#[test]
fn addresses_are_read_or_refused() {
    for text in ["unix:/a/b", "127.0.0.1:10809", "[::1]:0", "host:1"] {
        assert_eq!(text.parse::<Address>().expect("an address").to_string(), text);
    }
    for text in ["", "unix:", "/a/b", "host", "host:", ":1", "host:70000"] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}

#[test]
fn a_peer_that_hangs_up_is_noticed_though_nobody_reads() {
    both(|runtime, address| {
        let (ours, theirs) = connected(runtime, address);
        let rt = runtime.rt();
        run(runtime, async move {
            theirs.write(Buf::copy_of(b"unread").into()).await.expect("written");
            let told = rt.spawn(ours.hung_up());
            rt.sleep(Duration::from_millis(50)).await;
            assert!(!told.is_finished(), "what is unread is no end");
            drop(theirs);
            told.await;
        });
    });
}
