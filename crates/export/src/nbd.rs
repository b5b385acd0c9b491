//! The NBD protocol: a server (fixed newstyle, structured replies, block status, TLS), and a
//! [client](Client) that makes a [`rt::Device`] of an export.
//!
//! ```text
//!   Server (server)       accepts, counts, stops
//!     └─ a task a connection
//!          ├─ handshake   options; may go on inside TLS; ends with an export, or closes
//!          └─ transmission
//!               ├─ reads requests (inbox), checks them, starts them on the volume
//!               └─ writes replies (outbox), those that are there in one call, in the order of their ends
//!   Volume (volume)       any bytes of a device of blocks; one for an export, shared by its connections
//! ```
//!
//! **Limits.** A client's memory here is, at the most: [`INPUT_BYTES`] that were read and not yet looked at,
//! [`IN_FLIGHT_BYTES_MAX`] of payload, and [`IN_FLIGHT_REQUESTS_MAX`] requests with a reply's head each. Where
//! a limit is reached the server reads no further, so that the client waits. A request's share is
//! given back when its reply has been written, so a client that does not read its replies waits too.
//!
//! **Malformed** requests are answered with the protocol's error where the protocol says what to answer and
//! the next request can be found; otherwise (a wrong magic, a write longer than
//! [`REQUEST_BYTES_MAX`]) the connection is closed, and nobody else notices.
//!
//! **Durability.** A flush, on whichever connection, covers each write that was answered on any
//! (`CAN_MULTI_CONN`), because all share one [`rt::Device`], whose contract says so.
//!
//! What it does not do: oldstyle and non-fixed negotiation beyond `EXPORT_NAME`, resize, extended headers.
//! Numbers and rules: `doc/proto.md` of the NBD project (networkblockdevice on GitHub).

mod client;
mod handshake;
mod inbox;
mod outbox;
mod protocol;
mod server;
#[cfg(test)]
mod tests;
mod transmission;
mod volume;

pub use client::{Client, ClientError, ClientOptions, MalformedOption, ReplyError};
pub use server::{Export, Server, ServerError};

use std::time::Duration;

/// Bytes of a read, write or cache request at the most. It is announced as the largest block; clients that
/// never heard of it use 32 MiB at the most.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Bytes of payload (of writes, and of reads with their replies) under way for a connection. More serves
/// deep queues of large requests; it is memory that a client can take. One request of the largest size
/// always fits.
pub const IN_FLIGHT_BYTES_MAX: usize = REQUEST_BYTES_MAX as usize;

/// Bytes of payload that a [client](Client) has under way. Twice what our server takes, so that it never waits
/// for more.
pub const CLIENT_IN_FLIGHT_BYTES_MAX: usize = 2 * IN_FLIGHT_BYTES_MAX;

/// Requests under way for a connection. More serves deeper queues; each is some hundred bytes.
pub const IN_FLIGHT_REQUESTS_MAX: usize = 256;

/// Bytes that are read from a connection at a time, and that an option may have. More reads more requests in
/// one call.
pub const INPUT_BYTES: usize = 64 << 10;

/// Bytes of an option that is too long for [`INPUT_BYTES`], and is read only to be refused. A longer one
/// closes the connection.
pub const OPTION_SKIPPED_BYTES_MAX: u32 = 1 << 20;

/// Connections of a server at a time. Further ones wait to be accepted. Times the bytes above it is the
/// server's memory at the most: 2 GiB.
pub const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to choose an export, including TLS. Less closes on slow people with debuggers;
/// more lets those who never choose hold their place among the connections for longer.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

/// How long a server that stops waits for requests under way, and for clients to take their replies.
pub const DRAIN_MAX: Duration = Duration::from_secs(20);

/// Bytes of an export's name or description: the protocol's limit on strings.
pub const STRING_BYTES_MAX: usize = 4096;

/// Exports of a server: their list is made in memory for each client that asks.
pub const EXPORTS_MAX: usize = 1024;

/// Extents in one answer about block status. More makes fewer round trips; each is 8 bytes.
const EXTENTS_MAX: usize = 4096;
