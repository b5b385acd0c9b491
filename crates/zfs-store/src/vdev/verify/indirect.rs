//! Checking every copy of a block that was on a vdev which was removed.

use crate::block::BlockErrorKind;
use crate::expected::Expected;
use crate::vdev::ask::Ask;
use crate::vdev::indirect::Indirect;
use crate::vdev::leaf::on_device;
use crate::vdev::top::Node;
use crate::vdev::tree::Tree;
use rt::SgList;

impl Tree {
    pub(super) async fn verify_indirect(
        &self,
        mapping: &Indirect,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<SgList, BlockErrorKind> {
        let parts = self.resolve(mapping, offset, ask.size as u64)?;
        if let [part] = parts.as_slice() {
            // No way back to here: what is resolved is on a vdev that is there.
            return Box::pin(self.verify_at(part.vdev, part.offset, ask)).await;
        }
        let block = self.read_indirect(mapping, offset, ask).await?;
        if matches!(ask.expected, Expected::Anything) {
            return Ok(block.into());
        }
        // A split block has no checksum of its parts; but now it is known what they should be.
        let mut at = 0;
        for part in parts {
            let end = (at + part.len as usize).min(block.len());
            let right = block.slice(at.min(end)..end);
            at = end;
            let top = self.top(part.vdev);
            let Some(Node::Mirror(mirror)) = top.as_deref().map(|top| &top.node) else {
                continue;
            };
            let (fresh, _) = mirror.candidates(part.offset, ask.birth);
            for leaf in fresh {
                let read = leaf.read(on_device(part.offset), part.len as usize, ask.class).await;
                if read.is_ok_and(|bytes| bytes.slice(0..right.len().min(bytes.len())) != right) {
                    ask.blame(&leaf);
                }
            }
        }
        Ok(block.into())
    }
}
