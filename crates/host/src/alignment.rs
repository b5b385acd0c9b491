//! The grid of direct I/O: memory and lengths that it takes, and data put on it.

use rt::{BufMut, NoMemory, SgList};

/// What direct I/O asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alignment {
    pub(crate) memory: usize,
    pub(crate) length: usize,
}

impl Alignment {
    /// The data with all of its memory on this grid.
    pub(crate) fn of(self, data: SgList) -> Result<SgList, NoMemory> {
        let fits = data.pieces().iter().all(|piece| {
            piece.len().is_multiple_of(self.length)
                && (piece.bytes().as_ptr() as usize).is_multiple_of(self.memory)
        });
        if fits {
            return Ok(data);
        }
        let mut copy = BufMut::try_for_overwrite(data.len())?;
        data.copy_to(&mut copy);
        Ok(copy.into())
    }
}
