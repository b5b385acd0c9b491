//! Byte streams: a connection with a peer, and what such connections come from.
//!
//! A server of blocks (`export`) is written against [`Stream`] and [`Listener`] and never asks what is
//! below: `host` has sockets, [`pipe`](mod@crate::pipe) joins two tasks in memory, TLS is a stream over a
//! stream.
//!
//! **The contract.**
//!
//! 1. Bytes arrive as they were written, in order, none twice; where one write ends and the next begins is
//!    not kept.
//! 2. At most one read and one write are under way at a time. They don't hinder each other.
//! 3. Dropping a future ends the read or write. What a dropped read had taken and what a dropped write had
//!    sent is unknown: the stream is good for nothing but to be dropped.
//! 4. The memory of a read is lent to the stream and comes back with the answer. It is not given back by a
//!    read that failed or was dropped.
//! 5. Dropping the last reference closes the stream: the peer reads what was written, then the end.

use crate::buf::BufMut;
use crate::sg::SgList;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// A shared stream.
pub type StreamRef = Rc<dyn Stream>;

/// A read, write or accept under way.
pub type StreamFuture<T> = Pin<Box<dyn Future<Output = Result<T, StreamError>>>>;

/// A wait for the [end](Stream::hung_up) of a stream.
pub type HungUp = Pin<Box<dyn Future<Output = ()>>>;

/// A connection. The contract stands in the [module](self).
pub trait Stream {
    /// Reads some bytes, at least one, into `into[from..]`; answers with the memory and how many there
    /// are. Zero is the end: the peer writes no more.
    ///
    /// # Panics
    /// If `from` is not before the end of `into`.
    fn read(&self, into: BufMut, from: usize) -> StreamFuture<(BufMut, usize)>;

    /// Writes all of these bytes. They were taken by the system below when it is answered, not by the
    /// peer.
    fn write(&self, data: SgList) -> StreamFuture<()>;

    /// Ends writing: the peer reads what was written, then the end. Reading goes on.
    fn shutdown(&self) -> StreamFuture<()>;

    /// Waits until the peer has closed the stream or ended writing, or is found to be gone, whether or not what it
    /// wrote was read: for whoever does something long for it and does not read meanwhile. A stream that can't tell
    /// never answers.
    fn hung_up(&self) -> HungUp {
        Box::pin(std::future::pending())
    }

    /// Who is at the other end, for messages.
    fn peer(&self) -> Rc<str>;
}

/// Where connections come from.
pub trait Listener {
    /// The next connection.
    fn accept(&self) -> StreamFuture<StreamRef>;

    /// The address that peers use, for messages.
    fn name(&self) -> Rc<str>;
}

/// What went wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The peer closed its end or vanished.
    #[error("the peer is gone")]
    Gone,
    /// No descriptors or memory are left for a new connection; the next try may succeed.
    #[error(
        "no descriptors or memory left for a connection; raise the limit of open files (ulimit -n)"
    )]
    NoResources,
    /// The bytes break the rules of the layer that makes this stream (TLS).
    #[error("the peer breaks the rules of the encrypted stream")]
    Protocol,
    /// Another error of the operating system, by number.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Os(i32),
}
