//! The bytes of the protocol: numbers, requests, replies. Pure: bytes to values and back.
//!
//! All numbers are big-endian. Source: `doc/proto.md` of the NBD project, whose names the constants bear.
//!
//! ```text
//!   server's greeting   NBDMAGIC u64 · IHAVEOPT u64 · flags u16        client: flags u32
//!   option              IHAVEOPT u64 · option u32 · length u32 · data
//!   option's reply      magic u64 · option u32 · type u32 · length u32 · data
//!   request             magic u32 · flags u16 · command u16 · cookie u64 · offset u64 · length u32 · data
//!   simple reply        magic u32 · error u32 · cookie u64 · data
//!   chunk of a reply    magic u32 · flags u16 · type u16 · cookie u64 · length u32 · data
//! ```

pub(crate) const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
pub(crate) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The same two bits are the server's handshake flags (u16) and the client's answer (u32).
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
pub(crate) const NO_ZEROES: u16 = 2;

/// Bytes of an option's head.
pub(crate) const OPTION_HEAD: usize = 16;
/// Zeros after the reply to `EXPORT_NAME`, where the client did not say that it can do without.
pub(crate) const EXPORT_NAME_ZEROES: usize = 124;

/// Options that are known.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options; the high bit says error.
pub(crate) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    /// What every error has.
    pub(crate) const ERR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = 1 << 31 | 1;
    pub(crate) const ERR_POLICY: u32 = 1 << 31 | 2;
    pub(crate) const ERR_INVALID: u32 = 1 << 31 | 3;
    pub(crate) const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    pub(crate) const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    pub(crate) const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// What INFO and GO tell.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub(crate) mod transmission_flag {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// How a request is to be carried out.
pub(crate) mod command_flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// The metadata context that is known, and the number by which replies name it.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;
/// Flags of its extents.
pub(crate) const STATE_HOLE: u32 = 1;
pub(crate) const STATE_ZERO: u32 = 2;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Command {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
    Trim = 4,
    Cache = 5,
    WriteZeroes = 6,
    BlockStatus = 7,
    /// Any other; nobody sends it.
    Unknown = u16::MAX,
}

/// A request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: Command,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Request {
    /// Bytes of it.
    pub(crate) const HEAD: usize = 28;

    /// From its bytes; `None` where they are no request (a wrong magic, or too few).
    pub(crate) fn decode(bytes: &[u8]) -> Option<Request> {
        let mut fields = Fields(bytes);
        if fields.u32()? != REQUEST_MAGIC {
            return None;
        }
        let flags = fields.u16()?;
        let command = match fields.u16()? {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            5 => Command::Cache,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            _ => Command::Unknown,
        };
        let (cookie, offset, len) = (fields.u64()?, fields.u64()?, fields.u32()?);
        Some(Request { flags, command, cookie, offset, len })
    }

    /// Its bytes.
    pub(crate) fn encode(&self) -> [u8; Request::HEAD] {
        let mut bytes = [0; Request::HEAD];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&(self.command as u16).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Whether this flag is set.
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Errors as clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Errno {
    NotPermitted = 1,
    Io = 5,
    NoMemory = 12,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    Shutdown = 108,
}

/// What a reply begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyHead {
    /// A simple reply; zero is no error.
    Simple { error: u32, cookie: u64 },
    /// A chunk of a structured reply, with so many bytes after it.
    Chunk { flags: u16, kind: u16, cookie: u64, len: u32 },
}

impl ReplyHead {
    /// Bytes of a simple reply's, and of what a chunk's begins with.
    pub(crate) const SIMPLE: usize = 16;
    /// Bytes of a chunk's.
    pub(crate) const CHUNK: usize = 20;

    /// How many bytes the head has that begins so; `None` where none does.
    pub(crate) fn len(magic: u32) -> Option<usize> {
        match magic {
            SIMPLE_REPLY_MAGIC => Some(ReplyHead::SIMPLE),
            STRUCTURED_REPLY_MAGIC => Some(ReplyHead::CHUNK),
            _ => None,
        }
    }

    /// From its bytes; `None` where they are no head, or too few.
    pub(crate) fn decode(bytes: &[u8]) -> Option<ReplyHead> {
        let mut fields = Fields(bytes);
        match fields.u32()? {
            SIMPLE_REPLY_MAGIC => {
                Some(ReplyHead::Simple { error: fields.u32()?, cookie: fields.u64()? })
            }
            STRUCTURED_REPLY_MAGIC => {
                let (flags, kind) = (fields.u16()?, fields.u16()?);
                let (cookie, len) = (fields.u64()?, fields.u32()?);
                Some(ReplyHead::Chunk { flags, kind, cookie, len })
            }
            _ => None,
        }
    }
}

/// The head of a simple reply.
pub(crate) fn simple_reply(cookie: u64, error: Option<Errno>) -> [u8; ReplyHead::SIMPLE] {
    let mut bytes = [0; ReplyHead::SIMPLE];
    bytes[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// Types of chunks.
pub(crate) mod chunk {
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    /// What every error has.
    pub(crate) const ERR: u16 = 1 << 15;
    pub(crate) const ERROR: u16 = 1 << 15 | 1;
    pub(crate) const ERROR_OFFSET: u16 = 1 << 15 | 2;

    /// The flag of a reply's last chunk.
    pub(crate) const DONE: u16 = 1;
}

/// The head of a chunk that is the whole reply and has so many bytes after it.
pub(crate) fn only_chunk(cookie: u64, kind: u16, len: u32) -> [u8; ReplyHead::CHUNK] {
    let mut bytes = [0; ReplyHead::CHUNK];
    bytes[0..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&chunk::DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..20].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// An option, as a client sends it.
pub(crate) fn option_request(option: u32, data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len()).expect("an option is far below 4 GiB");
    let mut out = IHAVEOPT.to_be_bytes().to_vec();
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(data);
    out
}

/// Bytes of the head of a reply to an option.
pub(crate) const OPTION_REPLY_HEAD: usize = 20;

/// A reply to an option.
pub(crate) fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    let len = u32::try_from(data.len()).expect("a reply to an option is far below 4 GiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(data);
}

/// Big-endian fields, taken one after another; `None` where the bytes are at their end.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length (u32) and so many bytes of text, no more than the protocol lets a string have.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        if len > super::STRING_BYTES_MAX {
            return None;
        }
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
