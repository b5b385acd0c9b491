//! What could break: a refused request whose payload is taken for the next request, a request that is
//! carried out though it should be refused, memory beyond the limits, a stop that loses an answer.

use super::client::*;
use crate::nbd::protocol::*;
use crate::nbd::{IN_FLIGHT_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX, REQUEST_BYTES_MAX};
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
