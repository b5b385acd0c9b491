//! Random scripts against a model, and random bytes against everything.
//!
//! What could break: bytes at another place, neighbours of an unaligned write that lose theirs, answers
//! that are mixed up when they overtake each other, a parser that panics.

use super::client::*;
use crate::nbd::IN_FLIGHT_BYTES_MAX;
use crate::nbd::protocol::*;
use crate::tls::Tls;
use proptest::prelude::*;
use rt::{Geometry, MemoryDevice};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

const SIZE: u64 = 64 << 10;

#[derive(Clone, Debug)]
struct Step {
    command: u16,
    flags: u16,
    /// Within the step's part of the device.
    from: u64,
    len: u64,
    byte: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![Just(0_u16), Just(1), Just(1), Just(4), Just(6), Just(5), Just(3)];
    (command, any::<u16>(), 0_u64..3000, 0_u64..3000, 1_u8..).prop_map(
        |(command, flags, from, len, byte)| {
            let flags = flags & if command == 6 { 3 } else { 1 };
            Step { command, flags, from, len, byte }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Steps of one batch are in flight together, each in a part of its own; parts share blocks at their
    /// edges. After each batch the device holds what the model holds, but for what was trimmed.
    #[test]
    fn a_device_behind_the_server_holds_what_was_written(
        batches in proptest::collection::vec(proptest::collection::vec(step(), 1..16), 1..6),
        block in prop_oneof![Just(512_u64), Just(4096)],
        structured: bool,
        seed: u64,
    ) {
        run(async move |rt| {
            let geometry = Geometry {
                logical_block: ByteCount(block),
                ..Geometry::plain(ByteCount(SIZE))
            };
            let disk = MemoryDevice::with_geometry("disk", geometry);
            let device = Moody::new(Rc::clone(&disk) as _, &rt, seed, Duration::from_micros(100));
            let server = server(&rt, device, false, Tls::off());
            let mut client = connect(&rt, &server, 3000);
            client.go(structured).await;
            let mut model = vec![0_u8; SIZE as usize];
            for batch in batches {
                let part = SIZE / batch.len() as u64;
                let mut waiting = BTreeMap::new();
                let mut bytes = Vec::new();
                for (n, step) in batch.iter().enumerate() {
                    let from = step.from.min(part);
                    let len = step.len.min(part - from);
                    let (from, len) = match step.command {
                        3 => (0, 0),
                        _ => (n as u64 * part + from, len),
                    };
                    bytes.extend(request(step.command, step.flags, n as u64, from, len as u32));
                    if step.command == 1 {
                        bytes.resize(bytes.len() + len as usize, step.byte);
                    }
                    waiting.insert(n as u64, (step.clone(), from as usize..(from + len) as usize));
                }
                let stream = stream_of(&client);
                let sender = rt.spawn(async move {
                    stream.write(rt::Buf::copy_of(&bytes).into()).await.expect("sent");
                });
                while !waiting.is_empty() {
                    let len_of = |cookie| match &waiting[&cookie] {
                        (Step { command: 0, .. }, range) => range.len(),
                        _ => 0,
                    };
                    let answer = client.answer(len_of).await.expect("answered");
                    let (step, range) = waiting.remove(&answer.cookie).expect("asked, and once");
                    assert_eq!(answer.error, 0, "{step:?}");
                    match step.command {
                        0 => assert!(answer.data == model[range], "{step:?}"),
                        1 => model[range].fill(step.byte),
                        6 => model[range].fill(0),
                        // The device in memory reads zeros where whole blocks were discarded.
                        4 => {
                            let block = block as usize;
                            let from = range.start.next_multiple_of(block);
                            let to = range.end - range.end % block;
                            if from < to {
                                model[from..to].fill(0);
                            }
                        }
                        _ => assert!(answer.data.is_empty()),
                    }
                }
                sender.await;
                assert!(disk.peek(Offset(0), ByteCount(SIZE)).to_vec() == model);
            }
        });
    }
}

/// Sends `bytes` to a server, takes all that it answers until it closes or falls silent, and leaves.
fn throw(bytes: Vec<u8>, seed: u64) {
    run(async move |rt| {
        let disk = MemoryDevice::new("disk", ByteCount(SIZE));
        let device = Moody::new(disk, &rt, seed, Duration::from_micros(100));
        let counted = Rc::clone(&device);
        let server = server(&rt, device, false, Tls::off());
        let mut client = connect(&rt, &server, 1000);
        let stream = stream_of(&client);
        let sender = rt.spawn(async move {
            // The server may close first.
            let _ = stream.write(rt::Buf::copy_of(&bytes).into()).await;
            let _ = stream.shutdown().await;
        });
        while client.bytes(1).await.is_ok() {}
        sender.await;
        drop(client);
        rt.sleep(Duration::from_secs(60)).await;
        assert_eq!(server.connections(), 0, "every connection ends");
        assert!(counted.bytes_max.get() <= IN_FLIGHT_BYTES_MAX);
    });
}

/// A conversation without a fault: options, then requests.
fn conversation() -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    let option = |bytes: &mut Vec<u8>, option: u32, data: &[u8]| {
        bytes.extend_from_slice(b"IHAVEOPT");
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
    };
    option(&mut bytes, option::LIST, &[]);
    option(&mut bytes, option::STRUCTURED_REPLY, &[]);
    option(&mut bytes, option::LIST_META_CONTEXT, &context_option("disk", &["base:"]));
    option(&mut bytes, option::SET_META_CONTEXT, &context_option("disk", &[BASE_ALLOCATION]));
    option(&mut bytes, option::INFO, &info_option("disk", &[0, 1, 2, 3]));
    option(&mut bytes, option::GO, &info_option("disk", &[3]));
    for command in [0_u16, 1, 3, 4, 5, 6, 7, 0] {
        let range = if command == 3 { (0, 0) } else { (700, 900) };
        bytes.extend(request(command, 0, command.into(), range.0, range.1));
        if command == 1 {
            bytes.extend([5; 900]);
        }
    }
    bytes.extend(request(2, 0, 0, 0, 0));
    bytes
}

#[test]
fn flipped_bits_and_lost_ends_never_harm_the_server() {
    let whole = conversation();
    let mut prng = Prng::new(7);
    for round in 0..1500 {
        let mut bytes = whole.clone();
        for _ in 0..=prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << prng.below(8);
        }
        if prng.chance(0.3) {
            bytes.truncate(prng.below(bytes.len() as u64) as usize);
        }
        throw(bytes, round);
    }
}

#[test]
fn random_bytes_never_harm_the_server() {
    let whole = conversation();
    let mut prng = Prng::new(8);
    for round in 0..700 {
        // Some begin as a conversation does, so that they come further.
        let keep = prng.below(whole.len() as u64) as usize;
        let mut bytes = whole[..if prng.chance(0.7) { keep } else { 0 }].to_vec();
        let mut noise = vec![0; prng.below(3000) as usize];
        prng.fill(&mut noise);
        bytes.extend(noise);
        throw(bytes, round);
    }
}

#[test]
fn random_fields_of_requests_are_answered_one_by_one() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount(SIZE));
        let server = server(&rt, disk, false, Tls::off());
        let mut client = connect(&rt, &server, 1 << 20);
        client.go(true).await;
        let mut prng = Prng::new(9);
        for cookie in 0..5000 {
            // Writes would need their payload, and a disconnect is no request.
            let command = [0, 3, 4, 5, 6, 7, 8, 0xffff][prng.below(8) as usize];
            let flags = if prng.chance(0.5) { 0 } else { prng.next_u64() as u16 };
            let offset = prng.next_u64() >> prng.below(64);
            let len = (prng.next_u64() as u32) >> prng.below(32);
            client.send(&request(command, flags, cookie, offset, len)).await.expect("sent");
            let answer = client.answer(|_| 0).await.expect("answered");
            assert_eq!(answer.cookie, cookie);
            if answer.error == 0 && command == 0 {
                assert_eq!(answer.data.len(), len as usize);
            }
        }
    });
}
