//! The NBD protocol: a server (fixed newstyle, structured replies, block status, TLS), and a
//! [client](Client) that makes a [`rt::Device`] of an export.
//!
//! ```text
//!   Server (server)       accepts, counts, stops
//!     ├─ lobby           who has come and not yet chosen
//!     ├─ memory          what all clients' requests take together
//!     └─ a task a connection
//!          ├─ handshake   options; may go on inside TLS; ends with an export, or closes
//!          └─ transmission
//!               ├─ reads requests (inbox), checks them, starts them on the volume
//!               └─ writes replies (outbox), those that are there in one call, in the order of their ends
//!   Volume (volume)       any bytes of a device of blocks; one for an export, shared by its connections
//! ```
//!
//! **Limits.** A client's memory here is, at the most: [`INPUT_BYTES`] that were read and not yet looked at,
//! [`IN_FLIGHT_BYTES_MAX`] of payload, and [`IN_FLIGHT_REQUESTS_MAX`] requests with a reply's head each. All clients'
//! requests together take no more than the server was given ([`CLIENT_MEMORY`]). Where
//! a limit is reached the server reads no further, so that the client waits. A request's share is
//! given back when its reply has been written, so a client that does not read its replies waits too.
//!
//! **What is small to ask and large to do** (caching, zeroing or trimming 4 GiB, block status) is done in steps, of which
//! an export has [`STEPS_MAX`] under way and a connection [`STEPS_OF_ONE_MAX`], in the order of asking: whoever asks for
//! more waits longer, and requests that carry their data don't wait behind it. It ends with the step in which its client
//! is found to be gone. Flushes that wait for one another are one flush.
//!
//! **A panic** in the task of a connection ends that connection. One within a request may have left the device half
//! changed, so its export answers all further requests with errors, until the server is started again; other exports
//! go on. See [`rt::guarded`].
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
mod lobby;
mod memory;
mod outbox;
mod protocol;
mod server;
mod shared;
#[cfg(test)]
mod tests;
mod transmission;
mod volume;

pub use client::{Client, ClientError, ClientOptions, MalformedOption, ReplyError};
pub use server::{Export, Server, ServerError};

use std::time::Duration;
use stdx::ByteCount;

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

/// Clients that are served at a time, which have chosen an export. Further ones wait for [`PLACE_WAIT_MAX`], and are
/// refused.
pub const CONNECTIONS_MAX: usize = 64;

/// How long a client waits for a place among those who are served. Less refuses clients that would soon have had one;
/// more leaves people wondering.
pub const PLACE_WAIT_MAX: Duration = Duration::from_secs(15);

/// Clients that have come and not yet chosen an export. Each is a descriptor and some 100 KiB; the more there are, the
/// faster strangers must come to send away a client that means it.
pub const HANDSHAKES_MAX: usize = 128;

/// How long a client may take to choose an export, including TLS. Less closes on slow people with debuggers;
/// more keeps those who never choose for longer, among [`HANDSHAKES_MAX`].
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

/// How long a server may say and take nothing while requests of our client wait; four times that while one waits that makes
/// something durable. Less loses servers whose disks spin up, or that have much to flush; more keeps a pool waiting for one that
/// hangs. Linux gives a SCSI disk as long.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long a client may take of that until it has said anything worth an answer: a first option, or, where TLS is
/// required, all of TLS.
pub const STRANGER_MAX: Duration = Duration::from_secs(10);

/// Options of a handshake. Asking for three things about each of [`EXPORTS_MAX`] exports fits twice.
pub const OPTIONS_MAX: usize = 8 * EXPORTS_MAX;

/// Memory of all clients' requests together, where nothing else is said: [`CONNECTIONS_MAX`] times
/// [`IN_FLIGHT_BYTES_MAX`], so that nobody waits for another's. Less makes clients with large requests wait for one
/// another; more does not help.
pub const CLIENT_MEMORY: ByteCount = ByteCount((CONNECTIONS_MAX * IN_FLIGHT_BYTES_MAX) as u64);

/// The least of it: a request of the largest size, off the grid, beside others.
pub const CLIENT_MEMORY_MIN: ByteCount = ByteCount(2 * IN_FLIGHT_BYTES_MAX as u64);

/// How long a client may leave an answer untaken, or a write unfinished, while others wait for the memory that it
/// takes: so long for each [`STALL_PART_BYTES`]. While nobody waits it may do so for ever. Less drops clients on slow
/// networks in the worst of times; more makes the others wait.
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// See [`STALL_MAX`].
pub const STALL_PART_BYTES: usize = 1 << 20;

/// How long answers are still written to a client that has ended writing without saying goodbye, or has said it and
/// hung up.
pub const LINGER_MAX: Duration = Duration::from_secs(5);

/// Such clients at a time. Further ones are hung up on at once.
pub const LINGERING_MAX: usize = 64;

/// Steps of long requests (see the [module](self)) under way on an export. More serves fast devices better; requests
/// that carry their data wait behind so many in the device's queue.
pub const STEPS_MAX: usize = 16;

/// The same of a connection. More lets one client take all steps of the export.
pub const STEPS_OF_ONE_MAX: usize = 4;

/// How long a server that stops waits for requests under way, and for clients to take their replies.
pub const DRAIN_MAX: Duration = Duration::from_secs(20);

/// Bytes of an export's name or description: the protocol's limit on strings.
pub const STRING_BYTES_MAX: usize = 4096;

/// Exports of a server: their list is made in memory for each client that asks.
pub const EXPORTS_MAX: usize = 1024;

/// Extents in one answer about block status. More makes fewer round trips; each is 8 bytes.
const EXTENTS_MAX: usize = 4096;
