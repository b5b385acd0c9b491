//! lzjb: Lempel and Ziv's compression by Jeff Bonwick.
//!
//! A byte of flags stands before eight items, its lowest bit for the first. Without a flag an item is
//! one byte as it is; with one it is a copy: sixteen bits, big-endian, the upper six the length less 3, the
//! lower ten how far back it begins.

/// The shortest copy.
const COPY_MIN: usize = 3;
/// The longest copy: six bits.
const COPY_MAX: usize = COPY_MIN + (1 << 6) - 1;
/// How far back a copy can begin, and one more: ten bits.
const BACK_MAX: usize = 1 << 10;
/// Entries of the compressor's table of places.
const PLACES: usize = 1024;

/// Fills `into`; `None` where the bytes are bad.
pub(super) fn decompress(block: &[u8], into: &mut [u8]) -> Option<()> {
    let (mut from, mut at) = (0, 0);
    while at < into.len() {
        let flags = *block.get(from)?;
        from += 1;
        for bit in 0..8 {
            if at == into.len() {
                break;
            }
            if flags >> bit & 1 == 0 {
                into[at] = *block.get(from)?;
                (from, at) = (from + 1, at + 1);
                continue;
            }
            let (high, low) = (*block.get(from)?, *block.get(from + 1)?);
            from += 2;
            let len = COPY_MIN + usize::from(high >> 2);
            let back = usize::from(u16::from_be_bytes([high, low])) % BACK_MAX;
            let start = at.checked_sub(back).filter(|_| back > 0)?;
            // A copy may reach beyond the end of what is wanted, as the original allows.
            let len = len.min(into.len() - at);
            for offset in 0..len {
                into[at + offset] = into[start + offset];
            }
            at += len;
        }
    }
    Some(())
}

/// Writes the block and says how long it is; `None` where it doesn't fit.
pub(super) fn compress(data: &[u8], into: &mut [u8]) -> Option<usize> {
    let mut places = [usize::MAX; PLACES];
    let (mut at, mut to, mut flags_at, mut bit) = (0, 0, 0, 8);
    while at < data.len() {
        if bit == 8 {
            (flags_at, bit) = (to, 0);
            *into.get_mut(to)? = 0;
            to += 1;
        }
        let copy = data.get(at..at + COPY_MIN).and_then(|next| {
            let hash =
                usize::from(next[0]) << 16 | usize::from(next[1]) << 8 | usize::from(next[2]);
            let slot = (hash + (hash >> 9) + (hash >> 5)) % PLACES;
            let start = std::mem::replace(&mut places[slot], at);
            let back = at.checked_sub(start).filter(|back| (1..BACK_MAX).contains(back))?;
            let longest = COPY_MAX.min(data.len() - at);
            let len = (0..longest).take_while(|i| data[start + i] == data[at + i]).count();
            (len >= COPY_MIN).then_some((back, len))
        });
        match copy {
            Some((back, len)) => {
                let item = ((len - COPY_MIN) << 10 | back) as u16;
                into.get_mut(to..to + 2)?.copy_from_slice(&item.to_be_bytes());
                into[flags_at] |= 1 << bit;
                (at, to) = (at + len, to + 2);
            }
            None => {
                *into.get_mut(to)? = data[at];
                (at, to) = (at + 1, to + 1);
            }
        }
        bit += 1;
    }
    Some(to)
}
