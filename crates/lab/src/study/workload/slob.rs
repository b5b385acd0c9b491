//! `kind = "slob"`: processes that read and write single blocks at random places, as sessions of a database do.
//!
//! A session has one I/O outstanding. A reader reads a block, and the next. A writer updates: it reads its block
//! first, as a database must that hasn't it in memory, and then writes it. Between its I/Os a session computes:
//! `processor_time` is what each I/O costs it on a thread that has a core for itself, all that is not the operating
//! system's share of an I/O, which the host's profile has. Only a simulated host is told: on a real one it takes the
//! time that it takes.

use crate::study::error::Fault;
use crate::study::reader::Reader;
use std::time::Duration;
use stdx::ByteCount;

/// The most readers and the most writers: more sessions than a test of this kind ever had.
const SESSIONS_MAX: u32 = 1024;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slob {
    /// Processes that only read; 1 by default, or 0 where there are writers.
    pub readers: u32,
    /// Processes that update: read a block, and write it; 0 by default.
    pub writers: u32,
    /// Size of each I/O; 8 KiB by default.
    pub block_size: ByteCount,
    /// Processor time of a session's own for each I/O, on a thread that is alone on its core; none by default.
    pub processor_time: Duration,
}

impl Slob {
    /// Reads it, but for the size of a block, which all kinds read alike.
    pub(super) fn read(reader: &mut Reader, block_size: ByteCount) -> Result<Slob, Fault> {
        let writers = reader.count("writers", 0..=SESSIONS_MAX)?.unwrap_or(0);
        let readers = reader.count("readers", 0..=SESSIONS_MAX)?;
        let readers = readers.unwrap_or(u32::from(writers == 0));
        if readers + writers == 0 {
            return Err(reader.contradiction(
                "readers",
                "there are neither readers nor writers",
                "give one of them a number above 0",
            ));
        }
        Ok(Slob {
            readers,
            writers,
            block_size,
            processor_time: reader.span("processor_time")?.unwrap_or_default(),
        })
    }
}
