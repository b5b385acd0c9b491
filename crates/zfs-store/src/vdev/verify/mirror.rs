//! Checking every copy of a block on a mirror.

use crate::vdev::ask::{Ask, Failure};
use crate::vdev::leaf::on_device;
use crate::vdev::mirror::Mirror;
use futures_util::future::join_all;
use rt::Buf;

impl Mirror {
    /// Reads a block from all copies, side by side.
    pub(super) async fn verify(
        &self,
        offset: u64,
        size: usize,
        ask: &Ask<'_>,
    ) -> Result<Buf, Failure> {
        let (fresh, stale) = self.candidates(offset, ask.birth);
        let at = on_device(offset);
        let read = join_all(fresh.iter().map(|leaf| leaf.read(at, size, ask.class))).await;
        let (mut good, mut failure): (Option<Buf>, _) = (None, Failure::Missing);
        for (leaf, bytes) in fresh.iter().zip(read) {
            match bytes {
                // Bytes equal to right ones are right.
                Ok(bytes) if good.as_ref() == Some(&bytes) => {}
                Ok(bytes) if ask.holds(&bytes).await => good = Some(bytes),
                Ok(_) => {
                    ask.blame(leaf);
                    failure = Failure::Checksum;
                }
                Err(kind) => failure = failure.or(Failure::Io(kind)),
            }
        }
        for leaf in stale {
            let was_away = leaf.was_away(ask.birth);
            if good.is_some() && !was_away {
                continue;
            }
            let bytes = match leaf.read(at, size, ask.class).await {
                Ok(bytes) => bytes,
                Err(kind) => {
                    failure = failure.or(Failure::Io(kind));
                    continue;
                }
            };
            let is_right = match &good {
                Some(good) => good.bytes()[..ask.size] == bytes.bytes()[..ask.size],
                None => ask.holds(&bytes).await,
            };
            if is_right {
                good.get_or_insert(bytes);
                continue;
            }
            failure = Failure::Checksum;
            if was_away && !ask.may_be_wrong() {
                leaf.lacks_copy();
            }
        }
        good.ok_or(failure)
    }
}
