//! The handshake: from the greeting to a chosen export, or to the end of the connection.
//!
//! The client sends options, each answered before the next is read. `EXPORT_NAME` and `GO` choose an export and
//! end the handshake; `STARTTLS` puts all that follows inside TLS and forgets what was negotiated before,
//! since anybody on the way could have changed it. Bytes that a client sends after `STARTTLS` without waiting
//! for its answer close the connection: they would pass for encrypted ones.
//!
//! An option that is malformed or unknown is refused by the protocol's error, and the handshake goes on. A
//! wrong magic, unknown client flags, an `EXPORT_NAME` that can't be served (it has no error reply) and an
//! option of more than [`OPTION_SKIPPED_BYTES_MAX`] end it.
//!
//! **Strangers.** Nobody knows who it is, so whatever it sends costs little: a long answer is written in parts, each option
//! is answered before the next is looked at, others run between two of them and between two steps of TLS, and there are
//! [`OPTIONS_MAX`] at the most. The [lobby](super::lobby) says how many strangers there may be.

use super::inbox::Inbox;
use super::protocol::{
    self, Fields, OPTION_HEAD, info, option, option_reply, reply, transmission_flag,
};
use super::shared::{Exported, Place, Shared};
use super::{INPUT_BYTES, OPTION_SKIPPED_BYTES_MAX, OPTIONS_MAX, STRANGER_MAX, volume};
use crate::tls::{self, TlsMode};
use futures_util::future::{Either, select};
use rt::{Buf, StreamError};
use std::pin::pin;
use std::rc::Rc;

/// What was agreed on, at the end of a handshake.
pub(crate) struct Agreed {
    pub(crate) export: Rc<Exported>,
    pub(crate) structured: bool,
    /// Whether block status tells of `base:allocation`.
    pub(crate) allocation: bool,
    /// Held until its client has left.
    pub(crate) place: Option<Place>,
}

/// Why a handshake came to nothing.
pub(crate) enum Closed {
    /// The client has gone, by `ABORT` or without a word.
    Left,
    /// It broke the protocol in a way that has no answer.
    Broken,
}

impl From<StreamError> for Closed {
    fn from(_: StreamError) -> Closed {
        Closed::Left
    }
}

/// What an option leads to.
enum Next {
    Option,
    /// The exports are to be listed.
    List,
    Transmission(Rc<Exported>),
    Tls,
}

struct Handshake<'a> {
    shared: &'a Shared,
    inbox: Inbox,
    encrypted: bool,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export for which block status was asked for.
    allocation: Option<String>,
    /// Whether it takes a place among those who are served, and the place.
    needs_place: bool,
    place: Option<Place>,
}

/// Bytes of a list of exports that are written at a time. More makes fewer calls; it is memory that anybody can take.
const LIST_BYTES: usize = 64 << 10;

/// Negotiates. The inbox comes back with what was read ahead, over TLS where that was begun.
pub(crate) async fn negotiate(
    shared: &Shared,
    inbox: Inbox,
    needs_place: bool,
) -> Result<(Agreed, Inbox), Closed> {
    let mut handshake = Handshake {
        shared,
        inbox,
        encrypted: false,
        fixed: false,
        no_zeroes: false,
        structured: false,
        allocation: None,
        needs_place,
        place: None,
    };
    let mut met = {
        let meeting = pin!(handshake.meet());
        match select(meeting, pin!(shared.rt.sleep(STRANGER_MAX))).await {
            Either::Left((met, _)) => Some(met?),
            Either::Right(_) => return Err(Closed::Left),
        }
    };
    for _ in 0..OPTIONS_MAX {
        let next = match met.take() {
            Some(met) => met,
            None => handshake.next_option().await?,
        };
        match next {
            Next::Option | Next::List => {}
            Next::Tls => handshake.start_tls().await?,
            Next::Transmission(export) => {
                let allocation = handshake.allocation.as_deref() == Some(&*export.name);
                let (structured, place) = (handshake.structured, handshake.place);
                let agreed = Agreed { export, structured, allocation, place };
                return Ok((agreed, handshake.inbox));
            }
        }
        // Many options may lie in the inbox, and their answers in the socket's: nothing would make it wait.
        shared.rt.yield_now().await;
    }
    Err(Closed::Broken)
}

impl Handshake<'_> {
    async fn write(&self, bytes: &[u8]) -> Result<(), Closed> {
        Ok(self.inbox.stream().write(Buf::copy_of(bytes).into()).await?)
    }

    /// What a stranger does: greets, and says a first thing worth an answer; where TLS is required, begins that.
    async fn meet(&mut self) -> Result<Next, Closed> {
        self.greet().await?;
        loop {
            let next = self.next_option().await?;
            if matches!(next, Next::Tls) {
                self.start_tls().await?;
                return Ok(Next::Option);
            }
            if self.shared.tls.mode() != TlsMode::Require {
                return Ok(next);
            }
            self.shared.rt.yield_now().await;
        }
    }

    async fn greet(&mut self) -> Result<(), Closed> {
        let ours = protocol::FIXED_NEWSTYLE | protocol::NO_ZEROES;
        let mut greeting = Vec::new();
        greeting.extend_from_slice(&protocol::NBDMAGIC.to_be_bytes());
        greeting.extend_from_slice(&protocol::IHAVEOPT.to_be_bytes());
        greeting.extend_from_slice(&ours.to_be_bytes());
        self.write(&greeting).await?;
        self.inbox.fill(4).await?;
        let theirs = Fields(self.inbox.take(4)).u32().ok_or(Closed::Broken)?;
        self.fixed = theirs & u32::from(protocol::FIXED_NEWSTYLE) != 0;
        self.no_zeroes = theirs & u32::from(protocol::NO_ZEROES) != 0;
        if theirs & !u32::from(ours) != 0 { Err(Closed::Broken) } else { Ok(()) }
    }

    async fn next_option(&mut self) -> Result<Next, Closed> {
        self.inbox.fill(OPTION_HEAD).await?;
        let mut head = Fields(self.inbox.take(OPTION_HEAD));
        let (magic, option, len) = (head.u64(), head.u32(), head.u32());
        let (Some(protocol::IHAVEOPT), Some(option), Some(len)) = (magic, option, len) else {
            return Err(Closed::Broken);
        };
        // Who is not fixed newstyle understands no replies to options.
        if !self.fixed && option != option::EXPORT_NAME {
            return Err(Closed::Broken);
        }
        let mut out = Vec::new();
        if len as usize > INPUT_BYTES {
            if option == option::EXPORT_NAME || len > OPTION_SKIPPED_BYTES_MAX {
                return Err(Closed::Broken);
            }
            self.inbox.skip(len as usize).await?;
            option_reply(&mut out, option, reply::ERR_TOO_BIG, b"the option is too long");
            self.write(&out).await?;
            return Ok(Next::Option);
        }
        self.inbox.fill(len as usize).await?;
        let data = self.inbox.take(len as usize).to_vec();
        let mut next = self.answer(option, &data, &mut out);
        if let Ok(Next::List) = next {
            self.list(&mut out).await?;
        }
        if let Ok(Next::Transmission(_)) = next
            && self.needs_place
        {
            self.place = self.shared.place().await;
            if self.place.is_none() {
                if option == option::EXPORT_NAME {
                    return Err(Closed::Left);
                }
                let text = b"the server has as many clients as it takes; try again later";
                out.clear();
                option_reply(&mut out, option, reply::ERR_POLICY, text);
                next = Ok(Next::Option);
            }
        }
        if !out.is_empty() {
            self.write(&out).await?;
        }
        next
    }

    /// Lists the exports, part by part; what is left is in `out`.
    async fn list(&self, out: &mut Vec<u8>) -> Result<(), Closed> {
        for export in self.shared.exports() {
            let mut entry = string(&export.name);
            entry.extend_from_slice(export.description.as_bytes());
            option_reply(out, option::LIST, reply::SERVER, &entry);
            if out.len() >= LIST_BYTES {
                self.write(out).await?;
                out.clear();
            }
        }
        option_reply(out, option::LIST, reply::ACK, &[]);
        Ok(())
    }

    /// Answers an option, whose data is there. Pure but for what is agreed on.
    fn answer(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Next, Closed> {
        let needs_tls = self.shared.tls.mode() == TlsMode::Require && !self.encrypted;
        let refuse = |out: &mut Vec<u8>, kind, text: &str| {
            option_reply(out, option, kind, text.as_bytes());
            Ok(Next::Option)
        };
        match option {
            option::ABORT => {
                option_reply(out, option, reply::ACK, &[]);
                // The client may be gone before it reads that.
                Err(Closed::Left)
            }
            option::EXPORT_NAME => {
                let name = std::str::from_utf8(data).map_err(|_| Closed::Broken)?;
                let export = self.shared.find(name).filter(|_| !needs_tls).ok_or(Closed::Broken)?;
                out.extend_from_slice(&export_info(&export, self.structured));
                if !self.no_zeroes {
                    out.extend_from_slice(&[0; protocol::EXPORT_NAME_ZEROES]);
                }
                Ok(Next::Transmission(export))
            }
            option::STARTTLS => match self.shared.tls.mode() {
                _ if !data.is_empty() => refuse(out, reply::ERR_INVALID, "STARTTLS has no data"),
                TlsMode::Off => refuse(out, reply::ERR_UNSUP, "this server has no TLS"),
                _ if self.encrypted => refuse(out, reply::ERR_INVALID, "TLS was begun already"),
                TlsMode::Allow | TlsMode::Require => {
                    option_reply(out, option, reply::ACK, &[]);
                    Ok(Next::Tls)
                }
            },
            _ if needs_tls => refuse(out, reply::ERR_TLS_REQD, "this server asks for TLS"),
            option::LIST if data.is_empty() => Ok(Next::List),
            option::LIST => refuse(out, reply::ERR_INVALID, "LIST has no data"),
            option::INFO | option::GO => self.info(option, data, out),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                option_reply(out, option, reply::ACK, &[]);
                Ok(Next::Option)
            }
            option::STRUCTURED_REPLY => {
                refuse(out, reply::ERR_INVALID, "STRUCTURED_REPLY has no data")
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(option, data, out);
                Ok(Next::Option)
            }
            _ => refuse(out, reply::ERR_UNSUP, "the option is not known"),
        }
    }

    fn info(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Next, Closed> {
        let Some((name, wishes)) = info_wishes(data) else {
            option_reply(out, option, reply::ERR_INVALID, b"the option's lengths do not fit");
            return Ok(Next::Option);
        };
        let Some(export) = self.shared.find(name) else {
            let text = self.shared.no_such_export();
            option_reply(out, option, reply::ERR_UNKNOWN, text.as_bytes());
            return Ok(Next::Option);
        };
        let mut tell = |kind: u16, text: &[u8]| {
            let data = [&kind.to_be_bytes(), text].concat();
            option_reply(out, option, reply::INFO, &data);
        };
        tell(info::EXPORT, &export_info(&export, self.structured));
        if wishes.contains(&info::NAME) {
            tell(info::NAME, export.name.as_bytes());
        }
        if wishes.contains(&info::DESCRIPTION) {
            tell(info::DESCRIPTION, export.description.as_bytes());
        }
        if wishes.contains(&info::BLOCK_SIZE) {
            let (preferred, largest) = volume::block_sizes(&export.volume);
            let sizes = [1_u32, preferred, largest].map(u32::to_be_bytes);
            tell(info::BLOCK_SIZE, sizes.as_flattened());
        }
        option_reply(out, option, reply::ACK, &[]);
        match option {
            option::GO => Ok(Next::Transmission(export)),
            _ => Ok(Next::Option),
        }
    }

    fn meta_context(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let listing = option == option::LIST_META_CONTEXT;
        if !listing {
            self.allocation = None;
        }
        let Some((name, queries)) = context_queries(data) else {
            return option_reply(
                out,
                option,
                reply::ERR_INVALID,
                b"the option's lengths do not fit",
            );
        };
        if !self.structured {
            return option_reply(out, option, reply::ERR_INVALID, b"STRUCTURED_REPLY comes first");
        }
        let Some(export) = self.shared.find(name) else {
            let text = self.shared.no_such_export();
            return option_reply(out, option, reply::ERR_UNKNOWN, text.as_bytes());
        };
        let wanted = match listing {
            true => queries.is_empty() || queries.contains(&"base:"),
            false => false,
        } || queries.contains(&protocol::BASE_ALLOCATION);
        if wanted {
            let id = if listing { 0 } else { protocol::BASE_ALLOCATION_ID };
            let context = [&id.to_be_bytes(), protocol::BASE_ALLOCATION.as_bytes()].concat();
            option_reply(out, option, reply::META_CONTEXT, &context);
            if !listing {
                self.allocation = Some(export.name.clone());
            }
        }
        option_reply(out, option, reply::ACK, &[]);
    }

    async fn start_tls(&mut self) -> Result<(), Closed> {
        if self.inbox.len() > 0 {
            return Err(Closed::Broken);
        }
        let config = self.shared.tls.config().ok_or(Closed::Broken)?;
        let stream = tls::accept(Rc::clone(self.inbox.stream()), config, &self.shared.turn).await?;
        self.inbox = Inbox::new(stream);
        self.encrypted = true;
        self.structured = false;
        self.allocation = None;
        Ok(())
    }
}

/// A text with its length before it.
fn string(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("names are checked when the server is made");
    [&len.to_be_bytes(), text.as_bytes()].concat()
}

/// Size and flags of an export.
fn export_info(export: &Exported, structured: bool) -> [u8; 10] {
    use transmission_flag::*;
    let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | SEND_CACHE;
    if export.read_only {
        flags |= READ_ONLY;
    } else {
        flags |= SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO;
    }
    if structured {
        flags |= SEND_DF;
    }
    if export.volume.device.geometry().rotational {
        flags |= ROTATIONAL;
    }
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&export.volume.capacity().to_be_bytes());
    bytes[8..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

/// The data of INFO and GO: a name, and what the client wishes to know.
fn info_wishes(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u16()?;
    let wishes = (0..count).map(|_| fields.u16()).collect::<Option<Vec<u16>>>()?;
    fields.is_empty().then_some((name, wishes))
}

/// The data of LIST_ and SET_META_CONTEXT: a name and queries. Each query takes four bytes at the least, so
/// the option's length bounds them.
fn context_queries(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u32()?;
    let queries = (0..count).map(|_| fields.string()).collect::<Option<Vec<&str>>>()?;
    fields.is_empty().then_some((name, queries))
}
