//! A program's one buffer: read into it, change it, write from it, again and again.
//!
//! So do the field's older tools. Where the tree's calls are plain system calls of this thread
//! ([`File::read_at_once`]), this makes just those calls, with one piece of memory that stays in the
//! processor's cache, and nothing between. Elsewhere (simulated trees, memory, direct I/O) it goes by
//! [`File::submit`], which gives each read memory of its own: what was read is then [held](Held) there.

use crate::io_failure::IoFailure;
use rt::{Buf, BufMut, File, Request, SgList};
use stdx::{ByteCount, Offset};

/// See the [module](self).
pub struct OneBuffer {
    memory: BufMut,
}

/// Where the bytes of the last read are.
#[must_use]
pub enum Held {
    /// In the buffer, so many of them.
    InBuffer(usize),
    /// Here.
    Here(SgList),
}

impl OneBuffer {
    /// A buffer of this size.
    pub fn new(len: ByteCount) -> OneBuffer {
        OneBuffer { memory: BufMut::zeroed(len.as_usize()) }
    }

    /// Reads just so much; at the most what the buffer holds.
    ///
    /// # Errors
    /// Those of the file, and [`IoFailure::Short`] at its end.
    pub async fn read(
        &mut self,
        file: &dyn File,
        at: Offset,
        len: ByteCount,
    ) -> Result<Held, IoFailure> {
        let into = &mut self.memory[..len.as_usize()];
        let (held, got) = match file.read_at_once(at, into) {
            Some(read) => {
                let got = read?;
                (Held::InBuffer(got), got)
            }
            None => {
                let data = file.submit(Request::read(at, len)).await?;
                let got = data.len();
                (Held::Here(data), got)
            }
        };
        let got = ByteCount(got as u64);
        match got == len {
            true => Ok(held),
            false => Err(IoFailure::Short { file: file.name().to_string(), offset: at, len, got }),
        }
    }

    /// The first byte that was read.
    pub fn first(&self, held: &Held) -> u8 {
        match held {
            Held::InBuffer(_) => self.memory[0],
            Held::Here(data) => {
                data.pieces().first().and_then(|piece| piece.bytes().first()).copied().unwrap_or(0)
            }
        }
    }

    /// Writes what was read, to a place of this or another file.
    ///
    /// # Errors
    /// Those of the file.
    pub async fn write(
        &mut self,
        file: &dyn File,
        at: Offset,
        held: Held,
    ) -> Result<(), IoFailure> {
        let data = match held {
            Held::InBuffer(len) => match file.write_at_once(at, &self.memory[..len]) {
                Some(written) => return Ok(written?),
                None => Buf::copy_of(&self.memory[..len]).into(),
            },
            Held::Here(data) => data,
        };
        file.submit(Request::write(at, data)).await?;
        Ok(())
    }

    /// Writes back what was read, with `by` added to the byte at `change`.
    ///
    /// # Errors
    /// Those of the file.
    ///
    /// # Panics
    /// If fewer bytes were read.
    pub async fn write_changed(
        &mut self,
        file: &dyn File,
        at: Offset,
        held: Held,
        change: usize,
        by: i8,
    ) -> Result<(), IoFailure> {
        let bytes = match held {
            Held::InBuffer(len) => {
                let bytes = &mut self.memory[..len];
                bytes[change] = bytes[change].wrapping_add_signed(by);
                match file.write_at_once(at, bytes) {
                    Some(written) => return Ok(written?),
                    None => BufMut::copy_of(bytes),
                }
            }
            Held::Here(data) => {
                let mut bytes = into_mut(data.into_contiguous());
                bytes[change] = bytes[change].wrapping_add_signed(by);
                bytes
            }
        };
        file.submit(Request::write(at, bytes)).await?;
        Ok(())
    }
}

/// Writes bytes from wherever they are, by the shortest way.
///
/// # Errors
/// Those of the file.
pub async fn write(file: &dyn File, at: Offset, data: Buf) -> Result<(), IoFailure> {
    // A word repeated is for trees that keep it so; as bytes it would have to be written out.
    if data.fill_word().is_none()
        && let Some(written) = file.write_at_once(at, data.bytes())
    {
        return Ok(written?);
    }
    file.submit(Request::write(at, data)).await?;
    Ok(())
}

/// The memory of a buffer to be written; a copy where others hold it.
pub fn into_mut(buf: Buf) -> BufMut {
    buf.try_into_mut().unwrap_or_else(|buf| BufMut::copy_of(buf.bytes()))
}
