//! Between buffers and stores: writing an [`SgList`] into a [`Store`], and reading one out, keeping
//! what repeats a word as that word on both ways.

use crate::store::{Piece, Store};
use rt::{Buf, BufMut, SgList};
use stdx::{ByteCount, Offset};

/// Writes `data` at `at`.
pub(crate) fn write(store: &mut Store, at: Offset, data: &SgList) {
    let mut place = at;
    for piece in data.pieces() {
        let len = ByteCount(piece.len() as u64);
        match piece.fill_word() {
            Some(word) if place.bytes().is_multiple_of(8) && len.bytes().is_multiple_of(8) => {
                store.write_word(place, len, word);
            }
            _ => store.write_bytes(place, piece.bytes()),
        }
        place += len;
    }
}

/// Appends `len` bytes from `at` to `out`.
pub(crate) fn read(store: &Store, at: Offset, len: ByteCount, out: &mut SgList) {
    // Bytes that follow one another are joined in one buffer: where the run began, and its length.
    let mut run: Option<(Offset, usize)> = None;
    let mut place = at;
    let flush = |run: &mut Option<(Offset, usize)>, out: &mut SgList| {
        if let Some((start, len)) = run.take() {
            let mut buf = BufMut::for_overwrite(len);
            store.read_into(start, &mut buf);
            out.push(buf.freeze());
        }
    };
    store.read(at, len, |n, piece| {
        match piece {
            Piece::Word(word) => {
                flush(&mut run, out);
                out.push(Buf::fill(word, n as usize));
            }
            Piece::Bytes(_) => match &mut run {
                Some((_, len)) => *len += n as usize,
                none => *none = Some((place, n as usize)),
            },
        }
        place += ByteCount(n);
    });
    flush(&mut run, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bytes_come_back_as_they_went_in() {
        let mut store = Store::new(ByteCount::mib(1));
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * 7 % 251) as u8).collect();
        let data: SgList =
            [Buf::fill(9, 8192), Buf::copy_of(&bytes), Buf::fill(3, 3192)].into_iter().collect();
        write(&mut store, Offset(4096), &data);
        let mut out = SgList::new();
        read(&store, Offset(4096), ByteCount(data.len() as u64), &mut out);
        assert_eq!(out.to_vec(), data.to_vec());
        assert_eq!(out.pieces()[0].fill_word(), Some(9));
    }
}
