//! The client beside our own server, and beside servers by hand that can do less or break the rules.
//!
//! What could break: answers that are mixed up when they overtake each other, a promise (FUA, flush) that a
//! poorer server does not keep for us, a number of the server's that is believed, memory that it makes us
//! hold, a request that is never answered.
//!
//! * `by_hand`: the server by hand.
//! * `handshake`: handshakes that break the rules or refuse.

mod by_hand;
mod handshake;

use super::*;
use crate::nbd::protocol::{self, chunk};
use crate::nbd::tests::client::{Moody, run, server};
use crate::nbd::{CLIENT_IN_FLIGHT_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX, SILENCE_MAX, Server};
use crate::tls::Tls;
use by_hand::{ByHand, Export, at, by_hand, chunk_of, hole};
use futures_util::future::join_all;
use proptest::prelude::*;
use rt::StreamError;
use rt::{Buf, DeviceRef, MemoryDevice};
use std::cell::{Cell, RefCell};
use std::time::Duration;

const SIZE: u64 = 1 << 20;
const ALL: u16 = {
    use transmission_flag::*;
    HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES
};

/// A client of our server of this device.
async fn client_of(rt: &Rt, device: DeviceRef, read_only: bool) -> (Rc<Client>, Server) {
    let server = server(rt, device, read_only, Tls::off());
    let (ours, theirs) = rt::pipe(5000);
    let serving = server.clone();
    rt.spawn(async move { serving.serve(theirs).await }).detach();
    let options = ClientOptions { export: "disk".into(), ..ClientOptions::default() };
    (Rc::new(Client::connect(rt, ours, &options).await.expect("connected")), server)
}

#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    fua: bool,
    from: u64,
    len: u64,
    byte: u8,
}

fn step() -> impl Strategy<Value = Step> {
    (0_u8..5, any::<bool>(), 0_u64..12, 0_u64..12, 1_u8..)
        .prop_map(|(kind, fua, from, len, byte)| Step { kind, fua, from, len, byte })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Steps of one batch are in flight together, each in a part of its own.
    #[test]
    fn a_device_over_our_server_holds_what_was_written(
        batches in proptest::collection::vec(proptest::collection::vec(step(), 1..12), 1..5),
        block in prop_oneof![Just(512_u64), Just(4096)],
        seed: u64,
    ) {
        run(async move |rt| {
            let geometry =
                Geometry { logical_block: ByteCount(block), ..Geometry::plain(ByteCount(SIZE)) };
            let disk = MemoryDevice::with_geometry("disk", geometry);
            let moody = Moody::new(Rc::clone(&disk) as _, &rt, seed, Duration::from_micros(100));
            let (client, server) = client_of(&rt, moody, false).await;
            // The protocol of our server has blocks of a byte; a device has 512 at the least.
            prop_assert_eq!(client.geometry().logical_block, ByteCount(512));
            let mut model = vec![0_u8; SIZE as usize];
            for batch in batches {
                let part = SIZE / batch.len() as u64 / 512;
                let asked = batch.iter().enumerate().map(|(n, step)| {
                    let from = (n as u64 * part + step.from.min(part)) * 512;
                    let len = step.len.min(part - step.from.min(part)) * 512;
                    let (at, count) = (Offset(from), ByteCount(len));
                    let data = SgList::from(Buf::copy_of(&vec![step.byte; len as usize]));
                    let request = match step.kind {
                        0 => Request::read(at, count),
                        1 if step.fua => Request::write_fua(at, data),
                        1 => Request::write(at, data),
                        2 => Request::discard(at, count),
                        3 => Request::write_zeroes(at, count),
                        _ => Request::flush(),
                    };
                    let client = Rc::clone(&client);
                    async move { client.submit(request).await }
                });
                let ends = join_all(asked).await;
                for (n, (step, end)) in batch.iter().zip(ends).enumerate() {
                    let from = ((n as u64 * part + step.from.min(part)) * 512) as usize;
                    let to = from + (step.len.min(part - step.from.min(part)) * 512) as usize;
                    let data = end.expect("answered");
                    match step.kind {
                        0 => prop_assert!(data.to_vec() == model[from..to]),
                        1 => model[from..to].fill(step.byte),
                        2 => {
                            let block = block as usize;
                            let (from, to) = (from.next_multiple_of(block), to - to % block);
                            if from < to {
                                model[from..to].fill(0);
                            }
                        }
                        3 => model[from..to].fill(0),
                        _ => {}
                    }
                }
            }
            prop_assert!(disk.peek(Offset(0), ByteCount(SIZE)).to_vec() == model);
            prop_assert_eq!(client.fault(), None);
            client.disconnect().await;
            rt.sleep(Duration::from_secs(1)).await;
            prop_assert_eq!(server.connections(), 0);
            let late = client.submit(Request::flush()).await.expect_err("it has left");
            prop_assert_eq!(late.kind, IoErrorKind::Gone);
            Ok(())
        })?;
    }

    /// Whatever a server sends, the client comes to an end and does not panic.
    #[test]
    fn random_bytes_from_a_server_end_in_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        good in 0_usize..4,
        structured: bool,
    ) {
        run(async move |rt| {
            let (ours, theirs) = rt::pipe(100_000);
            let mut by_hand = ByHand { inbox: Inbox::new(theirs) };
            let client = rt.spawn({
                let rt = rt.clone();
                async move {
                    let client = Client::connect(&rt, ours, &ClientOptions::default()).await?;
                    let reads = (0..3).map(|n| client.submit(Request::read(Offset(n * 512), ByteCount(512))));
                    let ends = join_all(reads).await;
                    let told = ends.iter().all(|end| end.is_err()) == client.fault().is_some();
                    assert!(told || ends.iter().any(|end| end.is_ok()));
                    Ok::<(), ClientError>(())
                }
            });
            // Good as far as it goes, then not.
            if good > 0 {
                by_hand.greet().await;
            }
            if good > 1 {
                by_hand.choose(structured, Export::plain()).await;
            }
            by_hand.send(&bytes).await;
            drop(by_hand);
            let _ = client.await;
        });
    }
}

const DONE: u16 = chunk::DONE;

#[test]
fn a_read_s_pieces_come_in_any_order_with_holes_and_between_those_of_others() {
    run(async |rt| {
        let (client, mut by_hand) = by_hand(&rt, true, Export::plain()).await;
        let one = client.submit(Request::read(Offset(4096), ByteCount(4096)));
        let two = client.submit(Request::read(Offset(0), ByteCount(512)));
        let asked = rt.spawn(async move { futures_util::future::join(one, two).await });
        let (first, second) =
            (by_hand.request().await.expect("one").0, by_hand.request().await.expect("two").0);
        for bytes in [
            chunk_of(first.cookie, 0, chunk::OFFSET_DATA, &at(7168, &[3; 1024])),
            chunk_of(first.cookie, 0, chunk::OFFSET_DATA, &at(4096, &[1; 1000])),
            chunk_of(second.cookie, DONE, chunk::OFFSET_HOLE, &hole(0, 512)),
            chunk_of(first.cookie, 0, chunk::OFFSET_HOLE, &hole(5096, 2072)),
            chunk_of(first.cookie, DONE, chunk::NONE, &[]),
        ] {
            by_hand.send(&bytes).await;
        }
        let (one, two) = asked.await;
        let one = one.expect("answered").to_vec();
        assert!(one[..1000] == [1; 1000] && one[1000..3072] == [0; 2072]);
        assert!(one[3072..] == [3; 1024]);
        assert_eq!(two.expect("answered").to_vec(), [0; 512]);
    });
}

#[test]
fn a_reply_that_breaks_the_rules_ends_the_connection_and_says_how() {
    use chunk::{BLOCK_STATUS, ERROR, NONE, OFFSET_DATA, OFFSET_HOLE};
    let read = |structured, bytes: Vec<u8>, fault| (structured, bytes, fault);
    let error =
        |errno: u32, text_len: u16| [&errno.to_be_bytes()[..], &text_len.to_be_bytes()].concat();
    let mut overlap = chunk_of(0, 0, OFFSET_DATA, &at(4096, &[1; 512]));
    overlap.extend(chunk_of(0, 0, OFFSET_DATA, &at(4607, &[1; 512])));
    let mut twice = chunk_of(0, 0, OFFSET_DATA, &at(4096, &[1; 4096]));
    twice.extend(chunk_of(0, 0, OFFSET_HOLE, &hole(4096, 4096)));
    let mut again = chunk_of(0, DONE, OFFSET_DATA, &at(4096, &[1; 4096]));
    again.extend(chunk_of(0, DONE, NONE, &[]));
    let mut short = chunk_of(0, 0, OFFSET_DATA, &at(4096, &[1; 512]));
    short.extend(chunk_of(0, DONE, NONE, &[]));
    let simple = protocol::simple_reply;
    let beyond = |offset, len| ReplyError::Beyond { offset, len };
    for (structured, bytes, fault) in [
        read(true, vec![0; 16], ReplyError::Magic(0)),
        read(true, chunk_of(9, DONE, NONE, &[]), ReplyError::Cookie(9)),
        read(false, simple(9, None).to_vec(), ReplyError::Cookie(9)),
        read(true, simple(0, None).to_vec(), ReplyError::Form(0)),
        read(false, chunk_of(0, DONE, NONE, &[]), ReplyError::Form(0)),
        read(true, chunk_of(0, 2, NONE, &[]), ReplyError::ChunkFlags(2)),
        read(true, chunk_of(0, DONE, 3, &[]), ReplyError::ChunkKind(3)),
        read(true, chunk_of(0, DONE, BLOCK_STATUS, &[0; 12]), ReplyError::ChunkKind(BLOCK_STATUS)),
        read(true, chunk_of(0, DONE, NONE, &[0]), ReplyError::ChunkLen { kind: NONE, len: 1 }),
        read(true, chunk_of(0, 0, NONE, &[]), ReplyError::ChunkLen { kind: NONE, len: 0 }),
        read(
            true,
            chunk_of(0, DONE, OFFSET_DATA, &[0; 7]),
            ReplyError::ChunkLen { kind: OFFSET_DATA, len: 7 },
        ),
        read(
            true,
            chunk_of(0, DONE, OFFSET_HOLE, &[0; 13]),
            ReplyError::ChunkLen { kind: OFFSET_HOLE, len: 13 },
        ),
        read(true, chunk_of(0, DONE, OFFSET_DATA, &at(4096, &[])), beyond(4096, 0)),
        read(true, chunk_of(0, DONE, OFFSET_DATA, &at(4095, &[1; 9])), beyond(4095, 9)),
        read(true, chunk_of(0, DONE, OFFSET_DATA, &at(u64::MAX, &[1; 9])), beyond(u64::MAX, 9)),
        read(
            true,
            chunk_of(0, DONE, OFFSET_HOLE, &hole(4096, u32::MAX)),
            beyond(4096, u32::MAX.into()),
        ),
        // Of 4 GiB that are announced nothing is awaited.
        read(
            true,
            [&protocol::only_chunk(0, OFFSET_DATA, u32::MAX)[..], &4096_u64.to_be_bytes()].concat(),
            beyond(4096, u64::from(u32::MAX) - 8),
        ),
        read(true, overlap, ReplyError::Twice { offset: 4607, len: 512 }),
        read(true, twice, ReplyError::Twice { offset: 4096, len: 4096 }),
        read(true, again, ReplyError::Cookie(0)),
        read(true, short, ReplyError::Incomplete { missing: 3584 }),
        read(true, chunk_of(0, DONE, NONE, &[]), ReplyError::Incomplete { missing: 4096 }),
        read(true, chunk_of(0, DONE, ERROR, &error(0, 0)), ReplyError::NoError),
        read(
            true,
            chunk_of(0, DONE, ERROR, &error(5, 1)),
            ReplyError::ChunkLen { kind: ERROR, len: 6 },
        ),
        read(true, chunk_of(0, DONE, ERROR, &[0; 5]), ReplyError::ChunkLen { kind: ERROR, len: 5 }),
        read(true, Vec::new(), ReplyError::Stream(StreamError::Gone)),
    ] {
        run(async move |rt| {
            let (client, mut by_hand) = by_hand(&rt, structured, Export::plain()).await;
            let asked = client.submit(Request::read(Offset(4096), ByteCount(4096)));
            let other = client.submit(Request::write_zeroes(Offset(0), ByteCount(4096)));
            by_hand.request().await.expect("one");
            by_hand.send(&bytes).await;
            drop(by_hand);
            let _ = asked.await;
            let end = other.await.expect_err("the connection is over");
            assert_eq!(end.kind, IoErrorKind::Gone, "{fault}");
            assert_eq!(client.fault(), Some(fault));
            let late = client.submit(Request::flush()).await.expect_err("over");
            assert_eq!(late.kind, IoErrorKind::Gone);
            // Returns, though there is nobody to take leave of.
            client.disconnect().await;
        });
    }
}

#[test]
fn the_pieces_of_a_read_can_not_be_scattered_without_end() {
    run(async |rt| {
        let (client, mut by_hand) = by_hand(&rt, true, Export::plain()).await;
        let asked = client.submit(Request::read(Offset(0), ByteCount(1 << 20)));
        by_hand.request().await.expect("one");
        for n in 0..1025 {
            by_hand.send(&chunk_of(0, 0, chunk::OFFSET_HOLE, &hole(n * 2, 1))).await;
        }
        asked.await.expect_err("over");
        assert_eq!(client.fault(), Some(ReplyError::Scattered));
    });
}

#[test]
fn each_error_number_has_a_device_s_word_and_the_connection_stays() {
    run(async |rt| {
        for structured in [false, true] {
            let (client, mut by_hand) = by_hand(&rt, structured, Export::plain()).await;
            for (errno, kind) in [
                (1, IoErrorKind::ReadOnly),
                (5, IoErrorKind::Medium),
                (22, IoErrorKind::Invalid),
                (28, IoErrorKind::NoSpace),
                (95, IoErrorKind::NotSupported),
                (108, IoErrorKind::Gone),
                (12, IoErrorKind::Os(12)),
                (u32::MAX, IoErrorKind::Medium),
            ] {
                let asked = client.submit(Request::read(Offset(0), ByteCount(512)));
                let (request, _) = by_hand.request().await.expect("asked");
                let mut bytes = protocol::simple_reply(request.cookie, None).to_vec();
                bytes[4..8].copy_from_slice(&errno.to_be_bytes());
                if structured {
                    let why = [&errno.to_be_bytes()[..], &[0, 2], b"no", &[0; 8]].concat();
                    bytes = chunk_of(request.cookie, DONE, chunk::ERROR_OFFSET, &why);
                }
                by_hand.send(&bytes).await;
                let error = asked.await.expect_err("refused");
                assert_eq!((error.kind, &*error.device), (kind, "nbd pipe"));
            }
            assert_eq!(client.fault(), None);
        }
    });
}

#[test]
fn a_server_that_can_do_little_keeps_every_promise_with_our_help() {
    run(async |rt| {
        let flags = transmission_flag::HAS_FLAGS | transmission_flag::SEND_FLUSH;
        let sizes = Some([1024, 4096, 8192]);
        let export = Export { size: SIZE + 700, flags, sizes };
        let (client, mut by_hand) = by_hand(&rt, false, export).await;
        let geometry = client.geometry();
        assert_eq!(geometry.capacity, ByteCount(SIZE));
        assert_eq!((geometry.logical_block.bytes(), geometry.physical_block.bytes()), (1024, 4096));
        let log = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&log);
        rt.spawn(async move {
            while let Some((asked, data)) = by_hand.request().await {
                let zero = data.iter().all(|byte| *byte == 0);
                seen.borrow_mut().push((asked.command, asked.flags, asked.offset, asked.len, zero));
                by_hand.send(&protocol::simple_reply(asked.cookie, None)).await;
            }
        })
        .detach();
        let data = SgList::from(Buf::copy_of(&[7; 20480]));
        client.submit(Request::write_fua(Offset(1024), data)).await.expect("written");
        client.submit(Request::write_zeroes(Offset(0), ByteCount(9216))).await.expect("zeroed");
        let discard = client.submit(Request::discard(Offset(0), ByteCount(1024))).await;
        assert_eq!(discard.expect_err("not known").kind, IoErrorKind::NotSupported);
        assert_eq!(
            *log.borrow(),
            [
                (Command::Write, 0, 1024, 8192, false),
                (Command::Write, 0, 9216, 8192, false),
                (Command::Write, 0, 17408, 4096, false),
                (Command::Flush, 0, 0, 0, true),
                (Command::Write, 0, 0, 8192, true),
                (Command::Write, 0, 8192, 1024, true),
            ]
        );
        let told = client.extents(Offset(0), ByteCount(SIZE), 9).await.expect("told");
        assert_eq!(told, [Extent { len: ByteCount(SIZE), kind: ExtentKind::Data }]);
    });
}

#[test]
fn a_read_only_export_takes_no_writes_and_neither_does_one_that_is_to_be_read() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount(SIZE));
        let (client, _server) = client_of(&rt, Rc::clone(&disk) as _, true).await;
        assert!(client.read_only());
        let data = SgList::from(Buf::copy_of(&[7; 512]));
        for request in [
            Request::write(Offset(0), data),
            Request::discard(Offset(0), ByteCount(512)),
            Request::write_zeroes(Offset(0), ByteCount(512)),
        ] {
            let error = client.submit(request).await.expect_err("refused");
            assert_eq!(error.kind, IoErrorKind::ReadOnly);
        }
        client.submit(Request::read(Offset(0), ByteCount(512))).await.expect("read");
        client.submit(Request::flush()).await.expect("flushed");
    });
}

#[test]
fn holes_are_told_as_the_server_s_device_tells_them() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::mib(4));
        let (client, _server) = client_of(&rt, Rc::clone(&disk) as _, false).await;
        for n in [0, 3, 5, 900] {
            let data = SgList::from(Buf::copy_of(&[7; 4096]));
            client.submit(Request::write(Offset(n * 4096), data)).await.expect("written");
        }
        for (from, len, max) in
            [(0, 4 << 20, 100), (100, 20_000, 100), (4096, 8192, 1), (0, 4 << 20, 2), (1, 1, 1)]
        {
            let (from, len) = (Offset(from), ByteCount(len));
            let ours = client.extents(from, len, max).await.expect("told");
            let own = disk.extents(from, len, max).await.expect("told");
            assert_eq!(ours, own, "{from} {len}");
        }
    });
}

#[test]
fn extents_that_tell_nothing_or_too_much_end_in_an_error() {
    let status = |id: u32, extents: &[(u32, u32)]| {
        let mut data = id.to_be_bytes().to_vec();
        for (len, flags) in extents {
            data.extend_from_slice(&len.to_be_bytes());
            data.extend_from_slice(&flags.to_be_bytes());
        }
        data
    };
    for (data, fault) in [
        (status(8, &[(512, 0)]), Some(ReplyError::Status)),
        (status(7, &[(0, 0)]), Some(ReplyError::Status)),
        (status(7, &[(8192, 0), (1, 0)]), Some(ReplyError::Status)),
        (status(7, &[]), Some(ReplyError::ChunkLen { kind: chunk::BLOCK_STATUS, len: 4 })),
        (vec![0; 13], Some(ReplyError::ChunkLen { kind: chunk::BLOCK_STATUS, len: 13 })),
        // Right, but it ends before the range begins: it would be asked for without end.
        (status(7, &[(80, 0)]), None),
    ] {
        run(async move |rt| {
            let (client, mut by_hand) = by_hand(&rt, true, Export::plain()).await;
            let asked = client.extents(Offset(600), ByteCount(8000), 100);
            let asked = rt.spawn(asked);
            let (request, _) = by_hand.request().await.expect("asked");
            assert_eq!((request.offset, request.len), (512, 8192));
            by_hand.send(&chunk_of(request.cookie, DONE, chunk::BLOCK_STATUS, &data)).await;
            asked.await.expect_err("it tells nothing");
            assert_eq!(client.fault(), fault);
        });
    }
}

#[test]
fn a_silent_server_is_sent_no_more_than_the_limits_allow() {
    for len in [512, 1 << 20] {
        run(async move |rt| {
            let (client, mut by_hand) =
                by_hand(&rt, true, Export { size: 1 << 40, ..Export::plain() }).await;
            let (requests, bytes) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let seen = (Rc::clone(&requests), Rc::clone(&bytes));
            rt.spawn(async move {
                while let Some((asked, _)) = by_hand.request().await {
                    seen.0.set(seen.0.get() + 1);
                    seen.1.set(seen.1.get() + asked.len as usize);
                }
            })
            .detach();
            let asked = (0..1000).map(|n| {
                let request = Request::read(Offset(n * len), ByteCount(len));
                rt.spawn(client.submit(request))
            });
            let asked: Vec<_> = asked.collect();
            rt.sleep(Duration::from_secs(3600)).await;
            assert!(requests.get() <= IN_FLIGHT_REQUESTS_MAX);
            assert!(bytes.get() <= CLIENT_IN_FLIGHT_BYTES_MAX);
            assert!(
                requests.get() == IN_FLIGHT_REQUESTS_MAX
                    || bytes.get() == CLIENT_IN_FLIGHT_BYTES_MAX
            );
            drop(asked);
        });
    }
}

#[test]
fn a_client_that_is_dropped_takes_its_leave_after_the_last_answer() {
    run(async |rt| {
        let (client, mut by_hand) = by_hand(&rt, true, Export::plain()).await;
        let asked = client.submit(Request::read(Offset(0), ByteCount(512)));
        drop(client);
        let (request, _) = by_hand.request().await.expect("asked");
        let data = chunk_of(request.cookie, DONE, chunk::OFFSET_DATA, &at(0, &[1; 512]));
        by_hand.send(&data).await;
        assert_eq!(asked.await.expect("answered").to_vec(), [1; 512]);
        assert_eq!(by_hand.request().await.expect("a leave").0.command, Command::Disconnect);
        assert!(by_hand.request().await.is_none(), "then the end");
    });
}

/// A server that hangs is no different from one that is gone; one that is slow, and one that nobody asks, stay.
#[test]
fn a_server_that_falls_silent_while_requests_wait_is_given_up() {
    run(async |rt| {
        let (client, mut by_hand) = by_hand(&rt, false, Export::plain()).await;
        rt.sleep(10 * SILENCE_MAX).await;
        for (request, patience) in [
            (Request::read(Offset(0), ByteCount(512)), SILENCE_MAX),
            (Request::flush(), 4 * SILENCE_MAX),
        ] {
            let slow = client.submit(request);
            let (request, _) = by_hand.request().await.expect("asked");
            rt.sleep(patience * 9 / 10).await;
            by_hand.send(&protocol::simple_reply(request.cookie, None)).await;
            let read = if request.command == Command::Read { vec![7; 512] } else { Vec::new() };
            by_hand.send(&read).await;
            assert_eq!(slow.await.expect("it is slow").to_vec(), read);
        }
        let (begun, lost) = (rt.now(), client.submit(Request::read(Offset(0), ByteCount(512))));
        assert_eq!(lost.await.expect_err("it hangs").kind, IoErrorKind::Gone);
        let waited = rt.now() - begun;
        assert!(waited >= SILENCE_MAX && waited <= SILENCE_MAX * 4 / 3, "{waited:?}");
        assert_eq!(client.fault(), Some(ReplyError::Silent));
        let late = client.submit(Request::flush()).await.expect_err("it is over");
        assert_eq!(late.kind, IoErrorKind::Gone);
    });
}
