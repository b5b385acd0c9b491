//! What goes along with a sealed text, initialisation vector and authentication code, and what can be wrong with it.

/// Bytes of an initialisation vector.
pub const IV_BYTES: usize = 12;
/// Bytes of a message authentication code.
pub const MAC_BYTES: usize = 16;

/// An initialisation vector; never twice with one key.
pub type Iv = [u8; IV_BYTES];

/// A text that was not sealed with this key, IV and associated data; or too long a one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message authentication code is another")]
pub struct NotAuthentic;

/// A text longer than the mode can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes are more than the cipher's mode takes")]
pub struct TooLong(pub usize);

/// Whether two codes are the same, in a time that does not tell where they differ.
pub fn same_code<const N: usize>(one: &[u8; N], other: &[u8; N]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0
}
