//! A recorded load: requests, and when they were sent.

use crate::name::Format;
use stdx::{ByteCount, Duration, Offset};

/// A request of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Whether it writes.
    pub write: bool,
    /// Where.
    pub at: Offset,
    /// How much.
    pub len: ByteCount,
    /// When it was sent, since the first one was.
    pub sent: Option<Duration>,
    /// How long after its end the next one was sent.
    pub pause: Option<Duration>,
    /// How long it took.
    pub took: Option<Duration>,
}

/// A recorded load of one disk.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What it was written in.
    pub format: Format,
    /// Requests, in the order in which they were sent.
    pub asked: Vec<Asked>,
    /// Lines of the file that hold no request of this disk: other events, other disks.
    pub passed_over: usize,
}

impl Trace {
    /// How long each request took, where the trace says so of every one.
    pub fn measured(&self) -> Option<Vec<Duration>> {
        self.asked.iter().map(|asked| asked.took).collect()
    }
}
