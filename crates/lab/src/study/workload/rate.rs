//! `rate` and `rate_iops`: a load that asks no faster than it is told, as fio's options of these names have it.
//!
//! Without one a load asks as soon as it is answered, so a slower array is asked less. With one it is asked alike whatever
//! it is, as by users who come by themselves: as long as `queue_depth` I/Os under way are enough.

use crate::study::error::Fault;
use crate::study::reader::{Reader, size_text};
use stdx::ByteCount;

/// The most I/Os a second: 1 a microsecond.
const IOPS_MAX: u32 = 1_000_000;

/// At which rate a load asks, all its streams together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many bytes a second.
    Bytes(ByteCount),
    /// So many I/Os a second.
    Ios(u32),
}

impl Rate {
    /// Reads it; none where the load asks as fast as it is answered.
    pub(super) fn read(reader: &mut Reader) -> Result<Option<Rate>, Fault> {
        let (bytes, ios) = (reader.size("rate")?, reader.count("rate_iops", 1..=IOPS_MAX)?);
        match (bytes, ios) {
            (Some(_), Some(_)) => Err(reader.contradiction(
                "rate_iops",
                "it has both 'rate' and 'rate_iops'",
                "leave out one of them",
            )),
            (Some(bytes), None) => Ok(Some(Rate::Bytes(bytes))),
            (None, ios) => Ok(ios.map(Rate::Ios)),
        }
    }

    /// As a study writes it.
    pub(super) fn parameter(self) -> (&'static str, String) {
        match self {
            Rate::Bytes(bytes) => ("rate", size_text(bytes)),
            Rate::Ios(ios) => ("rate_iops", ios.to_string()),
        }
    }

    /// I/Os of this size a second.
    pub fn ios_a_second(self, block: ByteCount) -> f64 {
        match self {
            Rate::Bytes(bytes) => bytes.bytes() as f64 / block.bytes() as f64,
            Rate::Ios(ios) => f64::from(ios),
        }
    }
}
