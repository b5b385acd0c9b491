//! Reading from a mirror: a block, from one copy after another; or a part of one, from the first copy that gives it.

use crate::vdev::ask::{Ask, Failure};
use crate::vdev::leaf::{Leaf, on_device};
use crate::vdev::mirror::Mirror;
use rt::{Buf, IoErrorKind};
use std::rc::Rc;

/// Bytes of a block that is spread over several.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Where, from the start of the data area.
    pub(crate) offset: u64,
    /// Where, from the start of the device.
    pub(crate) at: u64,
    pub(crate) len: usize,
    /// Whether only stale copies are read; otherwise only those that are not.
    pub(crate) stale: bool,
    /// Whether it is several parts, which are read one by one if this fails; so a failure isn't counted yet.
    pub(crate) joined: bool,
}

impl Mirror {
    /// Reads a block, from one copy after another until one has the right checksum.
    pub(crate) async fn read(
        &self,
        offset: u64,
        size: usize,
        ask: &Ask<'_>,
    ) -> Result<Buf, Failure> {
        let (fresh, stale) = self.candidates(offset, ask.birth);
        let mut failure = Failure::Missing;
        for leaf in fresh.into_iter().chain(stale) {
            match leaf.read(on_device(offset), size, ask.class).await {
                Ok(bytes) if ask.holds(&bytes).await => return Ok(bytes),
                Ok(_) => {
                    ask.blame(&leaf);
                    failure = Failure::Checksum;
                }
                Err(kind) => failure = failure.or(Failure::Io(kind)),
            }
        }
        Err(failure)
    }

    /// Reads bytes whose checksum can only be taken together with others', from the first copy that can be read,
    /// and says which that was.
    pub(crate) async fn read_part(
        &self,
        part: Part,
        ask: &Ask<'_>,
    ) -> Result<(Buf, Rc<Leaf>), Option<IoErrorKind>> {
        let (fresh, old) = self.candidates(part.offset, ask.birth);
        let mut failure = None;
        for leaf in if part.stale { old } else { fresh } {
            let result = if part.joined {
                leaf.read_uncounted(part.at, part.len, ask.class).await
            } else {
                leaf.read(part.at, part.len, ask.class).await
            };
            match result {
                Ok(bytes) => return Ok((bytes, leaf)),
                Err(kind) => failure = Some(kind),
            }
        }
        Err(failure)
    }
}
