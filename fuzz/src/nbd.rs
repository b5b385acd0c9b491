//! NBD: any bytes that a client sends to our server, and any that a server sends to our client, from the first of the
//! handshake on.

use crate::machine::{disk, run};
use export::nbd::{Client, ClientOptions, Export, HANDSHAKE_MAX, Server};
use export::tls::Tls;
use rt::{Buf, BufMut, Device, DeviceRef, Request};
use stdx::{ByteCount, Offset};

const DISK: ByteCount = ByteCount::kib(64);
/// Bytes of the pipe each way: small, so that the server waits for its client too.
const PIPE_BYTES: usize = 1000;

/// The server takes it, answers or closes, and lets go of the connection.
///
/// Input: a byte (1: the export is read-only), then all that the client sends.
pub fn server(input: &[u8]) {
    let (first, bytes) = input.split_first().unwrap_or((&0, &[]));
    let (read_only, bytes) = (first & 1 == 1, bytes.to_vec());
    run(async move |rt| {
        let device = disk("disk", DISK, &[]) as DeviceRef;
        let export =
            Export { name: "disk".into(), description: "a disk".into(), device, read_only };
        let server = Server::new(&rt, vec![export], Tls::off()).expect("one export is served");
        let (ours, theirs) = rt::pipe(PIPE_BYTES);
        let serving = server.clone();
        rt.spawn(async move { serving.serve(theirs).await }).detach();
        let sending = ours.clone();
        let sender = rt.spawn(async move {
            if !bytes.is_empty() {
                // The server may close first.
                let _ = sending.write(Buf::copy_of(&bytes).into()).await;
            }
            let _ = sending.shutdown().await;
        });
        while let Ok((_, len)) = ours.read(BufMut::zeroed(PIPE_BYTES), 0).await {
            if len == 0 {
                break;
            }
        }
        sender.await;
        drop(ours);
        rt.sleep(2 * HANDSHAKE_MAX).await;
        assert_eq!(server.connections(), 0, "the connection ends");
    });
}

fn option(bytes: &mut Vec<u8>, number: u32, data: &[u8]) {
    bytes.extend_from_slice(b"IHAVEOPT");
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
}

/// The name of the export, and what follows it in INFO, GO and the context options.
fn named(rest: &[u8]) -> Vec<u8> {
    [&4_u32.to_be_bytes()[..], b"disk", rest].concat()
}

fn context(query: &[u8]) -> Vec<u8> {
    let count_and_length = [1_u32.to_be_bytes(), (query.len() as u32).to_be_bytes()].concat();
    named(&[&count_and_length, query].concat())
}

fn requests(bytes: &mut Vec<u8>) {
    for command in [0_u16, 1, 3, 4, 5, 6, 7, 0, 2] {
        let (offset, len) = if command == 3 { (0_u64, 0_u32) } else { (700, 900) };
        bytes.extend_from_slice(&0x2560_9513_u32.to_be_bytes());
        bytes.extend_from_slice(&0_u16.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        bytes.extend_from_slice(&u64::from(command).to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        if command == 1 {
            bytes.extend([5; 900]);
        }
    }
}

/// Conversations without a fault: by GO with and without structured replies, and by EXPORT_NAME.
pub fn seeds() -> Vec<Vec<u8>> {
    let start = || [&[0][..], &3_u32.to_be_bytes()].concat();
    let mut whole = start();
    option(&mut whole, 3, &[]);
    option(&mut whole, 8, &[]);
    option(&mut whole, 9, &context(b"base:"));
    option(&mut whole, 10, &context(b"base:allocation"));
    option(&mut whole, 6, &named(&[0, 4, 0, 0, 0, 1, 0, 2, 0, 3]));
    option(&mut whole, 7, &named(&[0, 1, 0, 3]));
    requests(&mut whole);
    let mut simple = start();
    option(&mut simple, 7, &named(&[0, 0]));
    requests(&mut simple);
    let mut old = start();
    option(&mut old, 1, b"disk");
    requests(&mut old);
    vec![whole, simple, old]
}

/// The client connects or says why not, and each of its requests ends: with as many bytes as were asked for, or an error.
///
/// Input: all that the server sends, then the end of the stream.
pub fn client(input: &[u8]) {
    let bytes = input.to_vec();
    run(async move |rt| {
        let (ours, theirs) = rt::pipe(PIPE_BYTES);
        let sending = theirs.clone();
        let sender = rt.spawn(async move {
            if !bytes.is_empty() {
                // The client may close first.
                let _ = sending.write(Buf::copy_of(&bytes).into()).await;
            }
            let _ = sending.shutdown().await;
        });
        let drain = rt.spawn(async move {
            while let Ok((_, len)) = theirs.read(BufMut::zeroed(PIPE_BYTES), 0).await {
                if len == 0 {
                    break;
                }
            }
        });
        if let Ok(client) = Client::connect(&rt, ours, &ClientOptions::default()).await {
            let geometry = client.geometry();
            let block = geometry.logical_block.bytes();
            assert!(geometry.capacity.bytes() >= block);
            let len = ByteCount(block);
            let read = client.submit(Request::read(Offset::ZERO, len));
            let flush = client.submit(Request::flush());
            let extents = client.extents(Offset::ZERO, geometry.capacity, 4);
            if let Ok(data) = read.await {
                assert_eq!(data.len() as u64, block);
            }
            let _ = flush.await;
            if let Ok(extents) = extents.await {
                assert!(extents.len() <= 4 && extents.iter().all(|one| one.len.bytes() > 0));
            }
            client.disconnect().await;
        }
        sender.await;
        drain.await;
    });
}

/// What a server sends for the conversation of [`client`]: with structured replies and `base:allocation`, and without.
pub fn client_seeds() -> Vec<Vec<u8>> {
    let greeting = || [&b"NBDMAGICIHAVEOPT"[..], &3_u16.to_be_bytes()].concat();
    let reply = |bytes: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]| {
        bytes.extend_from_slice(&0x0003_e889_0455_65a9_u64.to_be_bytes());
        for word in [option, kind, data.len() as u32] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(data);
    };
    let export = [&[0, 0][..], &65_536_u64.to_be_bytes(), &0x000d_u16.to_be_bytes()].concat();
    let mut structured = greeting();
    reply(&mut structured, 8, 1, &[]);
    reply(&mut structured, 10, 4, &[&7_u32.to_be_bytes()[..], b"base:allocation"].concat());
    reply(&mut structured, 10, 1, &[]);
    reply(&mut structured, 7, 3, &export);
    reply(&mut structured, 7, 1, &[]);
    let chunk = |bytes: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, data: &[u8]| {
        bytes.extend_from_slice(&0x668e_33ef_u32.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
    };
    chunk(&mut structured, 0, 1, 0, &[&[0; 8][..], &[5; 512]].concat());
    chunk(&mut structured, 1, 0, 0, &[]);
    chunk(&mut structured, 1, 0, 1, &[]);
    let extent = [7_u32, 65_536, 3].map(u32::to_be_bytes).concat();
    chunk(&mut structured, 1, 5, 2, &extent);
    let mut simple = greeting();
    reply(&mut simple, 8, 0x8000_0001, b"no");
    reply(&mut simple, 7, 3, &export);
    reply(&mut simple, 7, 1, &[]);
    for (cookie, data) in [(0_u64, 512), (1, 0)] {
        simple.extend_from_slice(&0x6744_6698_u32.to_be_bytes());
        simple.extend_from_slice(&0_u32.to_be_bytes());
        simple.extend_from_slice(&cookie.to_be_bytes());
        simple.extend(std::iter::repeat_n(5, data));
    }
    vec![structured, simple]
}
