//! Checking every piece of a block: data, parities, and what stands twice.
//!
//! Everything that should be right is read at once. If the data has the block's checksum, all other pieces must be what
//! they are in that block; else the block is made as when it is read, and whoever differs is found by that.

use super::{Cell, Reading, Striped, Suspects};
use crate::vdev::leaf::on_device;
use crate::vdev::raidz::map::Map;
use crate::vdev::{Ask, Failure};
use rt::Buf;

impl Striped {
    /// Reads all pieces of the block of this map, and counts errors on the leaves whose pieces are wrong.
    pub(crate) async fn verify(
        &self,
        map: Map,
        suspects: Suspects,
        ask: &Ask<'_>,
    ) -> Result<Buf, Failure> {
        let mut reading = Reading::new(self, map, ask);
        reading.fetch(|_, _, _| true, false).await;
        let block = match reading.attempt(&[]).await {
            Some(block) => {
                reading.blame(&block).await;
                block
            }
            None => reading.rescue(suspects).await?,
        };
        reading.check_twins().await;
        Ok(block)
    }
}

impl Reading<'_> {
    /// Reads what further leaves hold of the pieces, where children have several, and compares it. Which of two is wrong
    /// was found with the block; here the one that was read for it counts as right, unless it lied itself.
    async fn check_twins(&self) {
        for (row, cells) in self.map.rows.iter().zip(&self.cells) {
            for (column, cell) in row.columns.iter().zip(cells) {
                let Cell::Bytes(bytes, Some(read)) = cell else { continue };
                let child = &self.striped.children[column.child];
                let (fresh, _) = child.candidates(column.at, self.ask.birth);
                for leaf in fresh.iter().filter(|leaf| leaf.guid != read.guid) {
                    let at = on_device(column.at);
                    let twin = leaf.read(at, column.len, self.ask.priority).await;
                    if twin.is_ok_and(|twin| twin != *bytes) {
                        self.ask.blame(leaf);
                    }
                }
            }
        }
    }
}
