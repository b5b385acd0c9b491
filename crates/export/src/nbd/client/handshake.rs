//! The client's side of the handshake: from the greeting to an export and its terms.
//!
//! In this order, each answered before the next is sent: structured replies (a server that has none is
//! served by simple ones), `base:allocation` where there are structured replies (a server that has none
//! tells of no holes), `GO` with the wish to know the block sizes. `EXPORT_NAME`, by which servers of before
//! 2017 are asked, is not: it can't tell of an error.
//!
//! Nothing that the server says is believed before it was checked: lengths and counts have limits, sizes
//! must be powers of two and within each other.

use super::error::{ClientError, MalformedOption};
use crate::nbd::inbox::Inbox;
use crate::nbd::protocol::{
    self, BASE_ALLOCATION, Fields, OPTION_REPLY_HEAD, info, option, option_request, reply,
    transmission_flag,
};
use crate::nbd::{INPUT_BYTES, REQUEST_BYTES_MAX, STRING_BYTES_MAX};
use rt::Buf;
use stdx::ByteCount;

/// Replies to one option at the most. GO has one for each kind of information that is told, of which the
/// protocol knows five.
const OPTION_REPLIES_MAX: usize = 64;

/// The smallest logical block of a device.
const BLOCK_MIN: u32 = 512;

/// The largest smallest block that the protocol allows.
const BLOCK_MAX: u32 = 64 << 10;

/// Bytes of a server's text that are kept for an error's line.
const TEXT_BYTES_MAX: usize = 256;

/// The greeting of servers before there were options.
const OLDSTYLE: u64 = 0x0000_4202_8186_1253;

/// What an export is and can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// A multiple of the block.
    pub(super) capacity: ByteCount,
    /// The unit of offsets and lengths.
    pub(super) block: u32,
    /// The unit in which the server likes to write.
    pub(super) preferred: u32,
    /// Bytes of a read or write at the most; a multiple of the block.
    pub(super) largest: u32,
    pub(super) structured: bool,
    /// The number by which replies name `base:allocation`, where it was agreed on.
    pub(super) allocation: Option<u32>,
    flags: u16,
}

impl Terms {
    /// Whether the server announced this.
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Negotiates for the export of this name.
pub(super) async fn negotiate(inbox: &mut Inbox, export: &str) -> Result<Terms, ClientError> {
    if export.len() > STRING_BYTES_MAX {
        return Err(ClientError::NameTooLong(export.len()));
    }
    greet(inbox).await?;
    let mut options = Options { inbox, export };
    let structured = options.structured_replies().await?;
    let allocation = if structured { options.allocation().await? } else { None };
    options.go(structured, allocation).await
}

async fn greet(inbox: &mut Inbox) -> Result<(), ClientError> {
    inbox.fill(16).await?;
    let mut fields = Fields(inbox.take(16));
    match (fields.u64(), fields.u64()) {
        (Some(protocol::NBDMAGIC), Some(protocol::IHAVEOPT)) => {}
        (Some(protocol::NBDMAGIC), Some(OLDSTYLE)) => return Err(ClientError::Oldstyle),
        _ => return Err(ClientError::NotNbd),
    }
    inbox.fill(2).await?;
    let theirs = Fields(inbox.take(2)).u16().unwrap_or_default();
    if theirs & protocol::FIXED_NEWSTYLE == 0 {
        return Err(ClientError::Oldstyle);
    }
    let ours = theirs & (protocol::FIXED_NEWSTYLE | protocol::NO_ZEROES);
    send(inbox, &u32::from(ours).to_be_bytes()).await
}

async fn send(inbox: &Inbox, bytes: &[u8]) -> Result<(), ClientError> {
    Ok(inbox.stream().write(Buf::copy_of(bytes).into()).await?)
}

/// A reply to an option that is no error.
struct OptionReply {
    kind: u32,
    data: Vec<u8>,
}

struct Options<'a> {
    inbox: &'a mut Inbox,
    export: &'a str,
}

impl Options<'_> {
    async fn structured_replies(&mut self) -> Result<bool, ClientError> {
        let option = option::STRUCTURED_REPLY;
        send(self.inbox, &option_request(option, &[])).await?;
        match self.reply(option).await {
            Ok(OptionReply { kind: reply::ACK, .. }) => Ok(true),
            Ok(_) => Err(MalformedOption::Kind.into()),
            Err(ClientError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn allocation(&mut self) -> Result<Option<u32>, ClientError> {
        let option = option::SET_META_CONTEXT;
        let mut data = string(self.export);
        data.extend_from_slice(&1_u32.to_be_bytes());
        data.extend_from_slice(&string(BASE_ALLOCATION));
        send(self.inbox, &option_request(option, &data)).await?;
        let mut found = None;
        for _ in 0..OPTION_REPLIES_MAX {
            let told = match self.reply(option).await {
                Ok(told) => told,
                // What can't be had here (the export is not known, say) is told again by GO.
                Err(ClientError::Refused { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            match told.kind {
                reply::ACK => return Ok(found),
                reply::META_CONTEXT => {
                    let mut fields = Fields(&told.data);
                    let id = fields.u32().ok_or(MalformedOption::Len)?;
                    if fields.0 == BASE_ALLOCATION.as_bytes() {
                        found = Some(id);
                    }
                }
                _ => return Err(MalformedOption::Kind.into()),
            }
        }
        Err(MalformedOption::TooMany.into())
    }

    async fn go(
        &mut self,
        structured: bool,
        allocation: Option<u32>,
    ) -> Result<Terms, ClientError> {
        let option = option::GO;
        let mut data = string(self.export);
        data.extend_from_slice(&1_u16.to_be_bytes());
        data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
        send(self.inbox, &option_request(option, &data)).await?;
        let (mut export, mut sizes) = (None, None);
        for _ in 0..OPTION_REPLIES_MAX {
            let told = self.reply(option).await?;
            match told.kind {
                reply::ACK => {
                    let (size, flags) = export.ok_or(MalformedOption::NoExport)?;
                    return terms(size, flags, sizes, structured, allocation);
                }
                reply::INFO => {
                    let mut fields = Fields(&told.data);
                    match fields.u16().ok_or(MalformedOption::Len)? {
                        info::EXPORT => {
                            let (size, flags) = (fields.u64(), fields.u16());
                            export = size.zip(flags).filter(|_| fields.is_empty());
                            export.ok_or(MalformedOption::Len)?;
                        }
                        info::BLOCK_SIZE => {
                            let all = (fields.u32(), fields.u32(), fields.u32());
                            let (Some(min), Some(preferred), Some(max), true) =
                                (all.0, all.1, all.2, fields.is_empty())
                            else {
                                return Err(MalformedOption::Len.into());
                            };
                            sizes = Some(BlockSizes { min, preferred, max });
                        }
                        // Kinds that came after this was written are for who knows them.
                        _ => {}
                    }
                }
                _ => return Err(MalformedOption::Kind.into()),
            }
        }
        Err(MalformedOption::TooMany.into())
    }

    /// The next reply to an option; an error's reply is an error.
    async fn reply(&mut self, option: u32) -> Result<OptionReply, ClientError> {
        self.inbox.fill(OPTION_REPLY_HEAD).await?;
        let mut head = Fields(self.inbox.take(OPTION_REPLY_HEAD));
        if head.u64() != Some(protocol::OPTION_REPLY_MAGIC) {
            return Err(MalformedOption::Magic.into());
        }
        if head.u32() != Some(option) {
            return Err(MalformedOption::OtherOption.into());
        }
        let (Some(kind), Some(len)) = (head.u32(), head.u32()) else {
            return Err(MalformedOption::Len.into());
        };
        let len = len as usize;
        if len > INPUT_BYTES {
            return Err(MalformedOption::Len.into());
        }
        self.inbox.fill(len).await?;
        let data = self.inbox.take(len).to_vec();
        match kind {
            reply::ACK if len > 0 => Err(MalformedOption::Len.into()),
            reply::ERR_TLS_REQD => Err(ClientError::NeedsTls),
            reply::ERR_UNKNOWN if option == option::GO => {
                Err(ClientError::NoSuchExport { export: self.export.into(), text: text(&data) })
            }
            reply::ERR_UNSUP if option == option::GO => Err(ClientError::Oldstyle),
            kind if kind & reply::ERR != 0 => {
                Err(ClientError::Refused { option, kind, text: text(&data) })
            }
            kind => Ok(OptionReply { kind, data }),
        }
    }
}

#[derive(Clone, Copy)]
struct BlockSizes {
    min: u32,
    preferred: u32,
    max: u32,
}

fn terms(
    size: u64,
    flags: u16,
    sizes: Option<BlockSizes>,
    structured: bool,
    allocation: Option<u32>,
) -> Result<Terms, ClientError> {
    if flags & transmission_flag::HAS_FLAGS == 0 {
        return Err(MalformedOption::Flags(flags).into());
    }
    let told = sizes.unwrap_or(BlockSizes { min: 1, preferred: 4096, max: REQUEST_BYTES_MAX });
    let BlockSizes { min, preferred, max } = told;
    let block = min.max(BLOCK_MIN);
    let largest = max.min(REQUEST_BYTES_MAX);
    let largest = largest - largest % block;
    let fit = min.is_power_of_two()
        && min <= BLOCK_MAX
        && preferred.is_power_of_two()
        && preferred >= min
        && largest > 0;
    if !fit {
        return Err(MalformedOption::BlockSizes { min, preferred, max }.into());
    }
    let block_len = ByteCount(block.into());
    // Places are signed numbers wherever files are.
    if size > i64::MAX as u64 {
        return Err(MalformedOption::Size(size).into());
    }
    let capacity = ByteCount(size).round_down(block_len);
    if capacity.is_zero() {
        return Err(ClientError::TooSmall { size: ByteCount(size), block: block_len });
    }
    let preferred = preferred.clamp(block, BLOCK_MAX);
    Ok(Terms { capacity, block, preferred, largest, structured, allocation, flags })
}

/// A text with its length before it.
fn string(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("names were checked");
    [&len.to_be_bytes(), text.as_bytes()].concat()
}

/// A server's words, fit for a line of ours: short, and with nothing that moves a terminal's cursor.
fn text(data: &[u8]) -> String {
    let data = &data[..data.len().min(TEXT_BYTES_MAX)];
    String::from_utf8_lossy(data).chars().filter(|c| !c.is_control()).collect()
}
