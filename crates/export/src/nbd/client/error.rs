//! Why a server can't be used: what the handshake came to.

use crate::nbd::{HANDSHAKE_MAX, STRING_BYTES_MAX};
use rt::StreamError;
use stdx::ByteCount;

/// Why a server can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The connection broke.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// No word for too long.
    #[error(
        "the server does not come to the end of the handshake in {} s; is it an NBD server?",
        HANDSHAKE_MAX.as_secs()
    )]
    TimedOut,
    /// Another protocol.
    #[error("the server does not speak NBD; name another address")]
    NotNbd,
    /// A server of before fixed newstyle or GO.
    #[error("the server is too old: it does not know NBD's option GO (2017); use a newer one")]
    Oldstyle,
    /// It wants encryption.
    #[error(
        "the server asks for TLS, which this client does not have; let it listen on a unix socket without"
    )]
    NeedsTls,
    /// No such export.
    #[error("the server has no export '{export}' ({text}); name another")]
    NoSuchExport {
        /// Which was asked for.
        export: String,
        /// The server's words.
        text: String,
    },
    /// Another refusal.
    #[error("the server refuses option {option} by error {kind:#x} ({text})")]
    Refused {
        /// The option's number.
        option: u32,
        /// The error's.
        kind: u32,
        /// The server's words.
        text: String,
    },
    /// A name that the protocol can't carry.
    #[error("the export's name has {0} bytes; the protocol has {STRING_BYTES_MAX}")]
    NameTooLong(usize),
    /// Less than a block.
    #[error("the export has {size}, less than one block of {block}")]
    TooSmall {
        /// Its size.
        size: ByteCount,
        /// The block that a device of it would have.
        block: ByteCount,
    },
    /// A reply to an option that breaks the rules.
    #[error("the server breaks the protocol: {0}")]
    Malformed(#[from] MalformedOption),
}

/// What is wrong with a reply to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedOption {
    /// It begins with another number.
    #[error("a reply to an option begins with a wrong number")]
    Magic,
    /// It answers what was not asked.
    #[error("a reply to another option than the one that was sent")]
    OtherOption,
    /// A type that does not answer the option.
    #[error("a reply to an option of a type that does not answer it")]
    Kind,
    /// Its length does not fit.
    #[error("a reply to an option of a length that does not fit")]
    Len,
    /// There is no end of them.
    #[error("too many replies to one option")]
    TooMany,
    /// GO was granted, and nothing said of the export.
    #[error("it grants an export and does not tell its size")]
    NoExport,
    /// Flags that can't be.
    #[error("the export's flags are {0:#06x}, which can't be")]
    Flags(u16),
    /// Sizes of blocks that can't be.
    #[error("the export's blocks are {min}, {preferred} and {max} bytes, which can't be")]
    BlockSizes {
        /// The smallest.
        min: u32,
        /// The preferred.
        preferred: u32,
        /// The largest.
        max: u32,
    },
    /// More bytes than there are places.
    #[error("the export has {0} bytes, which can't be")]
    Size(u64),
}
