//! zle: runs of zeros.
//!
//! A token *t* below *n* stands before t + 1 bytes that are as they are; one from *n* on stands for
//! t − n + 1 zeros. ZFS's *n* is 64.

/// Fills `into`; `None` where the bytes are bad.
pub(super) fn decompress(block: &[u8], into: &mut [u8], n: usize) -> Option<()> {
    let (mut from, mut at) = (0, 0);
    while at < into.len() {
        let len = 1 + usize::from(*block.get(from)?);
        from += 1;
        if len <= n {
            let target = into.get_mut(at..at + len)?;
            target.copy_from_slice(block.get(from..from + len)?);
            (from, at) = (from + len, at + len);
        } else {
            let zeros = len - n;
            into.get_mut(at..at + zeros)?.fill(0);
            at += zeros;
        }
    }
    Some(())
}

/// Writes the block and says how long it is; `None` where it doesn't fit.
pub(super) fn compress(data: &[u8], into: &mut [u8], n: usize) -> Option<usize> {
    let zeros_max = 256 - n;
    let (mut at, mut to) = (0, 0);
    while at < data.len() {
        let rest = &data[at..];
        let zeros = rest.iter().take(zeros_max).take_while(|byte| **byte == 0).count();
        if zeros > 0 {
            *into.get_mut(to)? = (zeros - 1 + n) as u8;
            (at, to) = (at + zeros, to + 1);
        } else {
            // Up to the next two zeros: a single one is cheaper as it is.
            let literal = (1..rest.len().min(n))
                .find(|len| rest[*len] == 0 && rest.get(len + 1).is_none_or(|next| *next == 0))
                .unwrap_or(rest.len().min(n));
            let (token, place) = into.get_mut(to..=to + literal)?.split_first_mut()?;
            *token = (literal - 1) as u8;
            place.copy_from_slice(&rest[..literal]);
            (at, to) = (at + literal, to + 1 + literal);
        }
    }
    Some(to)
}
