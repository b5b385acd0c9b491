//! A server by hand: it says what the test says, right or wrong.

use crate::nbd::client::{Client, ClientOptions};
use crate::nbd::inbox::Inbox;
use crate::nbd::protocol::{
    self, BASE_ALLOCATION, Command, Fields, Request as Asked, info, option, option_reply, reply,
};
use rt::{Buf, Rt};
use std::rc::Rc;

use super::{ALL, SIZE};

/// A server by hand.
pub(super) struct ByHand {
    pub(super) inbox: Inbox,
}

/// What a server by hand says of its export.
#[derive(Clone, Copy)]
pub(super) struct Export {
    pub(super) size: u64,
    pub(super) flags: u16,
    pub(super) sizes: Option<[u32; 3]>,
}

impl Export {
    pub(super) fn plain() -> Export {
        Export { size: SIZE, flags: ALL, sizes: None }
    }
}

impl ByHand {
    pub(super) async fn send(&self, bytes: &[u8]) {
        // A client that has ended it takes no more.
        let _ = self.inbox.stream().write(Buf::copy_of(bytes).into()).await;
    }

    pub(super) async fn greet(&mut self) {
        self.send(b"NBDMAGICIHAVEOPT\0\x03").await;
        self.inbox.fill(4).await.expect("flags");
        assert_eq!(self.inbox.take(4), [0, 0, 0, 3]);
    }

    /// The next option; `None` where the client has gone.
    pub(super) async fn option(&mut self) -> Option<(u32, Vec<u8>)> {
        self.inbox.fill(protocol::OPTION_HEAD).await.ok()?;
        let mut head = Fields(self.inbox.take(protocol::OPTION_HEAD));
        assert_eq!(head.u64(), Some(protocol::IHAVEOPT));
        let (option, len) = (head.u32()?, head.u32()?);
        Some((option, self.inbox.payload(len as usize).await.ok()?.to_vec()))
    }

    pub(super) async fn reply(&self, option: u32, kind: u32, data: &[u8]) {
        let mut out = Vec::new();
        option_reply(&mut out, option, kind, data);
        self.send(&out).await;
    }

    /// Answers options until the client has chosen.
    pub(super) async fn choose(&mut self, structured: bool, export: Export) {
        while let Some((option, _)) = self.option().await {
            match option {
                option::STRUCTURED_REPLY if structured => self.reply(option, reply::ACK, &[]).await,
                option::SET_META_CONTEXT => {
                    let context = [&7_u32.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat();
                    self.reply(option, reply::META_CONTEXT, &context).await;
                    self.reply(option, reply::ACK, &[]).await;
                }
                option::GO => {
                    let mut told = info::EXPORT.to_be_bytes().to_vec();
                    told.extend_from_slice(&export.size.to_be_bytes());
                    told.extend_from_slice(&export.flags.to_be_bytes());
                    self.reply(option, reply::INFO, &told).await;
                    // Of a kind that is not known.
                    self.reply(option, reply::INFO, &[0x40, 0, 1, 2, 3]).await;
                    if let Some(sizes) = export.sizes {
                        let sizes = sizes.map(u32::to_be_bytes);
                        let told = [&info::BLOCK_SIZE.to_be_bytes(), sizes.as_flattened()].concat();
                        self.reply(option, reply::INFO, &told).await;
                    }
                    return self.reply(option, reply::ACK, &[]).await;
                }
                _ => self.reply(option, reply::ERR_UNSUP, b"no").await,
            }
        }
    }

    /// The next request, with a write's payload.
    pub(super) async fn request(&mut self) -> Option<(Asked, Vec<u8>)> {
        self.inbox.fill(Asked::HEAD).await.ok()?;
        let asked = Asked::decode(self.inbox.take(Asked::HEAD)).expect("a request");
        let len = if asked.command == Command::Write { asked.len as usize } else { 0 };
        Some((asked, self.inbox.payload(len).await.ok()?.to_vec()))
    }
}

/// A client, and the server by hand that it has chosen.
pub(super) async fn by_hand(rt: &Rt, structured: bool, export: Export) -> (Rc<Client>, ByHand) {
    let (ours, theirs) = rt::pipe(1 << 20);
    let mut by_hand = ByHand { inbox: Inbox::new(theirs) };
    let serving = rt.spawn(async move {
        by_hand.greet().await;
        by_hand.choose(structured, export).await;
        by_hand
    });
    let client = Client::connect(rt, ours, &ClientOptions::default()).await.expect("connected");
    (Rc::new(client), serving.await)
}

/// A chunk of a reply.
pub(super) fn chunk_of(cookie: u64, flags: u16, kind: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = protocol::only_chunk(cookie, kind, data.len() as u32).to_vec();
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

pub(super) fn at(offset: u64, data: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes(), data].concat()
}

pub(super) fn hole(offset: u64, len: u32) -> Vec<u8> {
    at(offset, &len.to_be_bytes())
}
