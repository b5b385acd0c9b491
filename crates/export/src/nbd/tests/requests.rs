//! What could break: a refused request whose payload is taken for the next request, a request that is
//! carried out though it should be refused, memory beyond the limits, a stop that loses an answer.

use super::client::*;
use crate::nbd::protocol::*;
use crate::nbd::{
    CLIENT_MEMORY_MIN, CONNECTIONS_MAX, DRAIN_MAX, Export, IN_FLIGHT_BYTES_MAX,
    IN_FLIGHT_REQUESTS_MAX, LINGER_MAX, REQUEST_BYTES_MAX, STALL_MAX, STEPS_MAX, STEPS_OF_ONE_MAX,
    Server,
};
use crate::tls::Tls;
use rt::{Device, Geometry, IoFuture, MemoryDevice, Request as IoRequest, SgList};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::ByteCount;

const SIZE: u64 = 1 << 20;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

#[test]
fn each_malformed_request_is_refused_by_its_error_and_the_next_is_answered() {
    const EPERM: u32 = 1;
    const EINVAL: u32 = 22;
    const ENOSPC: u32 = 28;
    const EOVERFLOW: u32 = 75;
    const ENOTSUP: u32 = 95;
    for structured in [false, true] {
        for read_only in [false, true] {
            run(async move |rt| {
                let disk = MemoryDevice::new("disk", ByteCount::mib(64));
                let server = server(&rt, Rc::clone(&disk) as _, read_only, Tls::off());
                let mut client = connect(&rt, &server, 4096);
                client.go(structured).await;
                let or_read_only = |error| if read_only { EPERM } else { error };
                let end = 64 << 20;
                let cases = [
                    (99, 0, 0, 0, EINVAL),
                    (READ, 0, end, 1, EINVAL),
                    (READ, 0, u64::MAX, 512, EINVAL),
                    (READ, 0, 0, REQUEST_BYTES_MAX + 1, EOVERFLOW),
                    (READ, 1 << 9, 0, 512, EINVAL),
                    (READ, 1 << 1, 0, 512, EINVAL),
                    (FLUSH, 0, 0, 512, EINVAL),
                    (WRITE, 0, end - 511, 512, or_read_only(ENOSPC)),
                    (WRITE, 1 << 4, 0, 512, EINVAL),
                    (TRIM, 0, end, 512, or_read_only(ENOSPC)),
                    (WRITE_ZEROES, 0, end, 512, or_read_only(ENOSPC)),
                    (WRITE_ZEROES, 1 << 4, 0, 512, or_read_only(ENOTSUP)),
                    (CACHE, 0, end, 1, EINVAL),
                    (BLOCK_STATUS, 0, 0, 0, EINVAL),
                    (BLOCK_STATUS, 0, end, 1, EINVAL),
                    (BLOCK_STATUS, 1 << 1, 0, 512, EINVAL),
                ];
                for (n, (command, flags, offset, len, error)) in cases.into_iter().enumerate() {
                    client
                        .send(&request(command, flags, n as u64, offset, len))
                        .await
                        .expect("sent");
                    if command == WRITE {
                        // Made of what would pass for requests.
                        let payload = request(WRITE, 0, 666, 0, 512).repeat(19);
                        client.send(&payload[..512]).await.expect("sent");
                    }
                    let answer = client.answer(|_| 0).await.expect("answered");
                    assert_eq!((answer.cookie, answer.error), (n as u64, error), "case {n}");
                    assert_eq!(answer.kind.is_some(), structured);
                }
                let untouched = disk.peek(stdx::Offset(0), ByteCount::mib(1)).to_vec();
                assert!(untouched.iter().all(|byte| *byte == 0));
                client.send(&request(READ, 0, 77, 0, 512)).await.expect("sent");
                assert_eq!(client.answer(|_| 512).await.expect("answered").error, 0);
            });
        }
    }
}

#[test]
fn a_wrong_magic_or_an_oversized_write_closes_the_connection() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount(SIZE));
        let server = server(&rt, disk, false, Tls::off());
        let mut wrong = request(READ, 0, 0, 0, 512);
        wrong[0] ^= 1;
        for bytes in [wrong, request(WRITE, 0, 0, 0, REQUEST_BYTES_MAX + 1)] {
            let mut client = connect(&rt, &server, 4096);
            client.go(false).await;
            client.send(&bytes).await.expect("sent");
            assert!(client.bytes(1).await.is_err());
        }
    });
}

#[test]
fn holes_are_told_and_the_first_extent_alone_where_one_is_asked_for() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount(SIZE));
        let server = server(&rt, disk, false, Tls::off());
        let mut client = connect(&rt, &server, 4096);
        client.go(true).await;
        client.send(&request(WRITE, 0, 1, 8192, 4096)).await.expect("sent");
        client.send(&[1; 4096]).await.expect("sent");
        client.answer(|_| 0).await.expect("answered");
        let pairs = |data: &[u8]| -> Vec<u32> {
            let mut fields = Fields(data);
            std::iter::from_fn(|| fields.u32()).collect()
        };
        let hole = STATE_HOLE | STATE_ZERO;
        client.send(&request(BLOCK_STATUS, 0, 2, 4096, 100_000)).await.expect("sent");
        let told = client.answer(|_| 0).await.expect("answered");
        assert_eq!(told.kind, Some(chunk::BLOCK_STATUS));
        assert_eq!(pairs(&told.data), [1, 4096, hole, 4096, 0, 100_000 - 8192, hole]);
        client.send(&request(BLOCK_STATUS, 1 << 3, 3, 4096, 100_000)).await.expect("sent");
        let told = client.answer(|_| 0).await.expect("answered");
        assert_eq!(pairs(&told.data), [1, 4096, hole]);
    });
}

/// Counts what it is asked, and never answers.
struct Stuck {
    requests: Cell<usize>,
    bytes: Cell<usize>,
}

impl Device for Stuck {
    fn geometry(&self) -> Geometry {
        Geometry::plain(ByteCount::gib(1))
    }
    fn name(&self) -> Arc<str> {
        "stuck".into()
    }
    fn begin(&self, request: IoRequest) -> IoFuture {
        self.requests.set(self.requests.get() + 1);
        self.bytes.set(self.bytes.get() + request.len().as_usize());
        IoFuture::new(std::future::pending())
    }
}

#[test]
fn a_device_that_is_stuck_is_asked_no_more_than_the_limits_allow() {
    for (command, len) in [(READ, 1 << 20), (READ, 512), (WRITE, 102_400), (CACHE, 32 << 20)] {
        run(async move |rt| {
            let device = Rc::new(Stuck { requests: Cell::new(0), bytes: Cell::new(0) });
            let server = server(&rt, Rc::clone(&device) as _, false, Tls::off());
            let mut client = connect(&rt, &server, 4096);
            client.go(false).await;
            let pump = rt.spawn(async move {
                for cookie in 0..10_000 {
                    let mut bytes = request(command, 0, cookie, 0, len);
                    bytes.resize(bytes.len() + if command == WRITE { len as usize } else { 0 }, 0);
                    client.send(&bytes).await.expect("sent");
                }
            });
            rt.sleep(Duration::from_secs(1)).await;
            drop(pump);
            assert!(device.requests.get() <= IN_FLIGHT_REQUESTS_MAX);
            assert!(device.bytes.get() <= IN_FLIGHT_BYTES_MAX);
            if command == CACHE {
                return assert_eq!(device.requests.get(), STEPS_OF_ONE_MAX);
            }
            let nearly = device.requests.get() == IN_FLIGHT_REQUESTS_MAX
                || device.bytes.get() + len as usize > IN_FLIGHT_BYTES_MAX;
            assert!(nearly, "and what the limits allow is asked");
        });
    }
}

#[test]
fn a_client_that_does_not_take_its_replies_is_not_read_from_any_more() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::mib(8));
        let device = Moody::new(disk, &rt, 1, Duration::ZERO);
        let counted = Rc::clone(&device);
        let server = server(&rt, device, false, Tls::off());
        let mut client = connect(&rt, &server, 4096);
        client.go(false).await;
        let asked = Rc::new(Cell::new(0_usize));
        let pump = rt.spawn({
            let asked = Rc::clone(&asked);
            async move {
                loop {
                    client.send(&request(READ, 0, 0, 0, 1 << 20)).await.expect("sent");
                    asked.set(asked.get() + 1);
                }
            }
        });
        rt.sleep(Duration::from_secs(1)).await;
        drop(pump);
        // What lies in the inbox and in the pipe was taken, but not begun.
        let ahead = (crate::nbd::INPUT_BYTES + 4096) / Request::HEAD + 2;
        assert!(asked.get() <= IN_FLIGHT_BYTES_MAX / (1 << 20) + ahead, "{}", asked.get());
        assert!(counted.bytes_max.get() <= IN_FLIGHT_BYTES_MAX);
    });
}

#[test]
fn a_server_that_stops_answers_what_it_has_taken_flushes_and_ends_its_connections() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::mib(8));
        let device = Moody::new(disk, &rt, 5, Duration::from_millis(50));
        let counted = Rc::clone(&device);
        let server = server(&rt, device, false, Tls::off());
        let mut client = connect(&rt, &server, 100_000);
        let idle = connect(&rt, &server, 4096);
        client.go(false).await;
        for cookie in 0..20 {
            client.send(&request(WRITE, 0, cookie, cookie * 512, 512)).await.expect("sent");
            client.send(&[7; 512]).await.expect("sent");
        }
        rt.sleep(Duration::from_micros(1)).await;
        assert!(counted.requests.get() > 0, "some are under way");
        server.stop();
        server.drained().await.expect("flushed");
        assert_eq!((server.connections(), counted.requests.get()), (0, 0));
        assert_eq!(counted.flushes.get(), 1);
        for _ in 0..20 {
            assert_eq!(client.answer(|_| 0).await.expect("answered").error, 0);
        }
        assert!(client.bytes(1).await.is_err(), "then the end");
        drop(idle);
    });
}

#[test]
fn a_client_that_stalls_within_a_write_holds_up_no_stop() {
    for read_only in [false, true] {
        run(async move |rt| {
            let disk = MemoryDevice::new("disk", ByteCount::mib(8));
            let server = server(&rt, Rc::clone(&disk) as _, read_only, Tls::off());
            let mut client = connect(&rt, &server, 100_000);
            client.go(true).await;
            client.send(&request(WRITE, 0, 1, 0, 1 << 20)).await.expect("sent");
            client.send(&[7; 5000]).await.expect("sent");
            rt.sleep(Duration::from_secs(1)).await;
            let told = rt.now();
            server.stop();
            server.drained().await.expect("flushed");
            assert!(rt.now() < told + Duration::from_secs(1));
            assert!(client.bytes(1).await.is_err(), "it is closed, without an answer");
            assert!(disk.peek(stdx::Offset(0), ByteCount(8192)).to_vec() == [0; 8192]);
        });
    }
}

#[test]
fn what_a_client_began_goes_on_when_it_leaves() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::mib(8));
        let device = Moody::new(Rc::clone(&disk) as _, &rt, 3, Duration::from_millis(50));
        let server = server(&rt, device, false, Tls::off());
        let mut client = connect(&rt, &server, 100_000);
        client.go(false).await;
        for cookie in 0..8 {
            client.send(&request(WRITE, 0, cookie, 100 + cookie * 600, 600)).await.expect("sent");
            client.send(&[7; 600]).await.expect("sent");
        }
        client.send(&request(DISC, 0, 0, 0, 0)).await.expect("sent");
        rt.sleep(Duration::from_micros(1)).await;
        drop(client);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(server.connections(), 0);
        let data: SgList = disk.peek(stdx::Offset(0), ByteCount(5120));
        assert_eq!(data.slice(100..4900).to_vec(), [7; 4800]);
    });
}

/// A client that sends these requests and hangs up, with a goodbye or without; how the device was used until nothing
/// of it was under way any more, and when the connection's place was free.
async fn ask_and_leave(
    rt: &rt::Rt,
    device: &Rc<Moody>,
    clients: usize,
    requests: Vec<u8>,
) -> (Duration, Duration) {
    let server = server(rt, Rc::clone(device) as _, false, Tls::off());
    for _ in 0..clients {
        let mut client = connect(rt, &server, 100_000);
        client.go(true).await;
        client.send(&requests).await.expect("sent");
    }
    rt.sleep(Duration::from_millis(1)).await;
    let left = rt.now();
    while server.connections() > 0 {
        rt.sleep(Duration::from_millis(10)).await;
    }
    let free = rt.now().since(left);
    // While the last of it goes on, others are served as ever.
    let mut client = connect(rt, &server, 4096);
    client.go(false).await;
    let begun = rt.now();
    client.send(&request(READ, 0, 7, 0, 512)).await.expect("sent");
    assert_eq!(client.answer(|_| 512).await.expect("answered").error, 0);
    assert!(rt.now().since(begun) < Duration::from_secs(1));
    drop(client);
    while device.requests.get() > 0 {
        rt.sleep(Duration::from_millis(10)).await;
    }
    (free, rt.now().since(left))
}

/// What could break: 28 bytes that keep the server busy for minutes after their sender has gone.
#[test]
fn what_is_small_to_ask_and_large_to_do_ends_with_its_client() {
    for (command, flags) in
        [(CACHE, 0), (WRITE_ZEROES, 0), (WRITE_ZEROES, 2), (TRIM, 0), (FLUSH, 0)]
    {
        for goodbye in [false, true] {
            run(async move |rt| {
                let disk = MemoryDevice::new("disk", ByteCount::gib(5));
                let device = Moody::new(disk, &rt, 1, Duration::from_millis(100));
                let len = if command == FLUSH { 0 } else { u32::MAX - 4095 };
                let mut requests = request(command, flags, 1, 0, len).repeat(100);
                if goodbye {
                    requests.extend(request(DISC, 0, 0, 0, 0));
                }
                let (free, done) = ask_and_leave(&rt, &device, CONNECTIONS_MAX, requests).await;
                let what = format!("{command} {flags} {goodbye}");
                assert!(free <= LINGER_MAX + Duration::from_secs(1), "{what}: {free:?}");
                assert!(done <= LINGER_MAX + Duration::from_secs(2), "{what}: {done:?}");
                assert!(device.requests_max.get() <= STEPS_MAX + 1, "{what}");
            });
        }
    }
}

#[test]
fn long_requests_of_one_client_leave_room_for_those_of_another_and_for_reads() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::gib(5));
        let device = Moody::new(disk, &rt, 1, Duration::from_millis(10));
        let server = server(&rt, Rc::clone(&device) as _, false, Tls::off());
        let mut greedy = connect(&rt, &server, 100_000);
        greedy.go(false).await;
        greedy.send(&request(WRITE_ZEROES, 0, 1, 0, u32::MAX).repeat(200)).await.expect("sent");
        let mut modest = connect(&rt, &server, 4096);
        modest.go(false).await;
        let begun = rt.now();
        for (cookie, command) in [(1, WRITE_ZEROES), (2, READ), (3, TRIM), (4, FLUSH)] {
            let len = if command == FLUSH { 0 } else { 65_536 };
            modest.send(&request(command, 0, cookie, 0, len)).await.expect("sent");
            let answer = modest.answer(|_| if command == READ { 65_536 } else { 0 }).await;
            assert_eq!(answer.expect("answered").error, 0);
        }
        assert!(rt.now().since(begun) < Duration::from_millis(200));
        assert!(device.requests_max.get() <= STEPS_OF_ONE_MAX + 1);
    });
}

#[test]
fn flushes_that_wait_for_one_another_are_one_and_each_covers_what_was_answered_before_it() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::mib(8));
        let device = Moody::new(disk, &rt, 3, Duration::from_millis(100));
        let server = server(&rt, Rc::clone(&device) as _, false, Tls::off());
        let mut client = connect(&rt, &server, 100_000);
        client.go(false).await;
        client.send(&request(FLUSH, 0, 1, 0, 0).repeat(200)).await.expect("sent");
        for _ in 0..200 {
            assert_eq!(client.answer(|_| 0).await.expect("answered").error, 0);
        }
        let begun = device.flushes.get();
        assert!(
            (2..=4).contains(&begun),
            "one for all that came while another was under way: {begun}"
        );
        client.send(&request(FLUSH, 0, 1, 0, 0)).await.expect("sent");
        client.answer(|_| 0).await.expect("answered");
        assert_eq!(device.flushes.get(), begun + 1, "nobody takes one that had begun before");
    });
}

/// Panics where a request begins at this place, as a bug would.
struct Buggy(Rc<MemoryDevice>, u64);

impl Device for Buggy {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn name(&self) -> Arc<str> {
        "buggy".into()
    }
    fn begin(&self, request: IoRequest) -> IoFuture {
        assert!(request.offset.bytes() != self.1, "an assertion of the device's");
        self.0.submit(request)
    }
}

#[test]
fn a_panic_behind_one_export_fails_that_export_and_no_other() {
    run(async |rt| {
        let disks = [0, 1].map(|_| MemoryDevice::new("disk", ByteCount(SIZE)));
        let export = |name: &str, device| Export {
            name: name.into(),
            description: String::new(),
            device,
            read_only: false,
        };
        let buggy = Rc::new(Buggy(Rc::clone(&disks[0]), 4096));
        let exports = vec![export("disk", buggy as _), export("other", Rc::clone(&disks[1]) as _)];
        let server = Server::new(&rt, exports, Tls::off()).expect("a server");
        let mut first = connect(&rt, &server, 10_000);
        first.go(true).await;
        let mut other = connect(&rt, &server, 10_000);
        other.greet().await;
        other.option_replies(option::GO, &info_option("other", &[])).await;
        for (at, error) in [(0, 0), (4096, 5), (0, 5)] {
            first.send(&request(WRITE, 0, 1, at, 512)).await.expect("sent");
            first.send(&[7; 512]).await.expect("sent");
            let answer = first.answer(|_| 0).await.expect("answered");
            assert_eq!(answer.error, error, "write at {at}");
            let text = String::from_utf8_lossy(&answer.data).into_owned();
            assert!(error == 0 || text.contains("an assertion of the device's"), "{text}");
        }
        for _ in 0..3 {
            other.send(&request(WRITE, 0, 1, 4096, 512)).await.expect("sent");
            other.send(&[9; 512]).await.expect("sent");
            assert_eq!(other.answer(|_| 0).await.expect("answered").error, 0);
        }
        drop((first, other));
        server.stop();
        assert!(server.drained().await.is_err(), "that the one could not be flushed is told");
        assert_eq!(disks[1].peek(stdx::Offset(4096), ByteCount(512)).to_vec(), [9; 512]);
    });
}

/// What could break: a device that is closed while a client's request is under way or may still come; a client that asks for no export by
/// name and gets another disk than before; another export's clients that are hung up on.
#[test]
fn an_export_ends_by_itself_once_what_is_under_way_is_answered() {
    run(async |rt| {
        let export = |name: &str, device| Export {
            name: name.into(),
            description: String::new(),
            device,
            read_only: false,
        };
        let below = MemoryDevice::new("disk", ByteCount(SIZE));
        let moody = Moody::new(below, &rt, 5, Duration::from_millis(50));
        let other = MemoryDevice::new("other", ByteCount(SIZE));
        let exports = vec![export("disk", Rc::clone(&moody) as _), export("other", other as _)];
        let server = Server::new(&rt, exports, Tls::off()).expect("a server");
        let (mut first, mut idle) = (connect(&rt, &server, 10_000), connect(&rt, &server, 10_000));
        first.go(true).await;
        idle.go(false).await;
        let mut second = connect(&rt, &server, 10_000);
        second.greet().await;
        second.option_replies(option::GO, &info_option("other", &[])).await;
        let counted = ["disk", "other", "none"].map(|name| server.connections_to(name));
        assert_eq!(counted, [2, 1, 0]);
        for cookie in 0..10 {
            first.send(&request(WRITE, 0, cookie, cookie * 512, 512)).await.expect("sent");
            first.send(&[7; 512]).await.expect("sent");
        }
        rt.sleep(Duration::from_micros(1)).await;
        assert!(moody.requests.get() > 0, "some are under way");
        server.end("disk").await.expect("flushed");
        assert_eq!((moody.requests.get(), moody.flushes.get()), (0, 1));
        for _ in 0..10 {
            assert_eq!(first.answer(|_| 0).await.expect("answered").error, 0);
        }
        assert!(first.bytes(1).await.is_err() && idle.bytes(1).await.is_err(), "then the end");
        for name in ["disk", ""] {
            let mut late = connect(&rt, &server, 10_000);
            late.greet().await;
            let replies = late.option_replies(option::GO, &info_option(name, &[])).await;
            assert_eq!(replies.last().expect("a reply").0, reply::ERR_UNKNOWN, "'{name}'");
        }
        second.send(&request(READ, 0, 1, 0, 512)).await.expect("sent");
        assert_eq!(second.answer(|_| 512).await.expect("answered").error, 0);
        server.end("disk").await.expect("it has ended");
        server.end("other").await.expect("flushed");
        let mut late = connect(&rt, &server, 10_000);
        late.greet().await;
        let replies = late.option_replies(option::GO, &info_option("other", &[])).await;
        let text = String::from_utf8_lossy(&replies.last().expect("a reply").1).into_owned();
        assert!(text.contains("all have ended"), "{text}");
    });
}

/// What could break: clients that sit on memory and keep all others waiting, or the other way round, one that is hung
/// up on though nobody needs what it holds.
#[test]
fn a_client_that_takes_no_answers_is_left_alone_until_others_wait_for_its_memory() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::mib(64));
        let device = Moody::new(disk, &rt, 1, Duration::ZERO);
        let counted = Rc::clone(&device);
        let export =
            Export { name: "disk".into(), description: String::new(), device, read_only: false };
        let made = Server::with_memory(&rt, vec![export], Tls::off(), CLIENT_MEMORY_MIN);
        let server = made.expect("a server");
        let mut stalled = Vec::new();
        for command in [READ, WRITE] {
            let mut client = connect(&rt, &server, 4096);
            client.go(false).await;
            client.send(&request(command, 0, 1, 0, 24 << 20)).await.expect("sent");
            client.send(&[7; 1000]).await.ok();
            stalled.push(client);
        }
        rt.sleep(Duration::from_secs(3600)).await;
        assert_eq!(server.connections(), 2, "an hour is nothing while nobody waits");
        let mut client = connect(&rt, &server, 4096);
        client.go(false).await;
        let begun = rt.now();
        client.send(&request(READ, 0, 2, 0, 32 << 20)).await.expect("sent");
        assert_eq!(client.answer(|_| 32 << 20).await.expect("answered").error, 0);
        assert!(rt.now().since(begun) <= STALL_MAX, "{:?}", rt.now().since(begun));
        assert_eq!(server.connections(), 1);
        assert!(counted.bytes_max.get() <= CLIENT_MEMORY_MIN.as_usize());
        drop(client);
        server.stop();
        let stopping = rt.now();
        server.drained().await.expect("flushed");
        assert!(rt.now().since(stopping) < DRAIN_MAX, "all memory was given back");
    });
}
