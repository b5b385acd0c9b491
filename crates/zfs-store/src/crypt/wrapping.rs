//! The wrapping key: what the user has, as 256 bits.
//!
//! | `keyformat` | what the user gives |
//! |---|---|
//! | `raw` | 32 bytes |
//! | `hex` | 64 hexadecimal digits |
//! | `passphrase` | 8 to 512 bytes of text, through PBKDF2 with the properties `pbkdf2salt` and `pbkdf2iters` |
//!
//! The three properties stand with each stored key.
//!
//! Source: OpenZFS, `libzfs_crypto.c`.

use codec::cipher::key_of_passphrase;
use std::fmt;
use std::num::NonZeroU32;
use zeroize::Zeroizing;
use zfs_format::dsl::crypto_key::{CryptoKey, KeyFormat};

/// Bytes of a wrapping key, whatever the suite.
pub const WRAPPING_KEY_BYTES: usize = 32;
/// Bytes of the shortest passphrase.
pub const PASSPHRASE_BYTES_MIN: usize = 8;
/// Bytes of the longest passphrase.
pub const PASSPHRASE_BYTES_MAX: usize = 512;
/// Iterations of PBKDF2 that are taken. OpenZFS's default is 350 000; so many take a minute or two, and a number from a
/// bad or forged disk must not take hours.
pub const ITERATIONS_MAX: u32 = 1 << 26;

/// A key that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It does not unwrap the dataset's key.
    #[error("the key is wrong: it does not unwrap the dataset's key {guid:#x}")]
    Wrong {
        /// Of the stored key.
        guid: u64,
    },
    /// The dataset's key is stored in a form that is not known.
    #[error("the dataset's key has version {0}, which is not known")]
    Version(u64),
    /// The dataset's key is for no cipher.
    #[error("the dataset's key is for {0:?}, which is no cipher")]
    Suite(&'static str),
    /// Raw bytes of another length.
    #[error("a raw key has {WRAPPING_KEY_BYTES} bytes, this one has {0}")]
    RawLength(usize),
    /// Another number of digits.
    #[error("a hex key has 64 digits, this one has {0}")]
    HexLength(usize),
    /// Not a hexadecimal digit.
    #[error("a hex key has digits from 0 to f; the character at {0} is none")]
    HexDigit(usize),
    /// A passphrase that is too short or too long.
    #[error(
        "a passphrase has {PASSPHRASE_BYTES_MIN} to {PASSPHRASE_BYTES_MAX} bytes, this one has {0}"
    )]
    PassphraseLength(usize),
    /// A number of iterations that can't be.
    #[error(
        "the property pbkdf2iters is {0}; it must be from 1 to {ITERATIONS_MAX}: more would take hours"
    )]
    Iterations(u64),
}

/// What a dataset's key is wrapped with.
pub struct WrappingKey(Zeroizing<[u8; WRAPPING_KEY_BYTES]>);

impl WrappingKey {
    /// The key of what the user gave for this stored key: a file's content, or what was typed. One newline at the end
    /// of text is not counted.
    ///
    /// # Errors
    /// What was given is not of the key's format.
    pub fn new(stored: &CryptoKey, given: &[u8]) -> Result<WrappingKey, KeyError> {
        let text = given.strip_suffix(b"\n").unwrap_or(given);
        let mut key = Zeroizing::new([0; WRAPPING_KEY_BYTES]);
        match stored.key_format {
            KeyFormat::Raw => {
                let raw = given.try_into().map_err(|_| KeyError::RawLength(given.len()))?;
                *key = raw;
            }
            KeyFormat::Hex => {
                let (pairs, rest) = text.as_chunks::<2>();
                if pairs.len() != WRAPPING_KEY_BYTES || !rest.is_empty() {
                    return Err(KeyError::HexLength(text.len()));
                }
                for (at, (byte, [high, low])) in key.iter_mut().zip(pairs).enumerate() {
                    *byte = digit(*high, 2 * at)? << 4 | digit(*low, 2 * at + 1)?;
                }
            }
            KeyFormat::Passphrase => {
                if !(PASSPHRASE_BYTES_MIN..=PASSPHRASE_BYTES_MAX).contains(&text.len()) {
                    return Err(KeyError::PassphraseLength(text.len()));
                }
                let iterations = stored.passphrase_iterations;
                let count = u32::try_from(iterations).ok().filter(|count| *count <= ITERATIONS_MAX);
                let count = count.and_then(NonZeroU32::new);
                let count = count.ok_or(KeyError::Iterations(iterations))?;
                let salt = stored.passphrase_salt.to_le_bytes();
                key_of_passphrase(text, &salt, count, &mut key[..]);
            }
        }
        Ok(WrappingKey(key))
    }

    pub(super) fn bytes(&self) -> &[u8; WRAPPING_KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey")
    }
}

fn digit(character: u8, at: usize) -> Result<u8, KeyError> {
    let value = char::from(character).to_digit(16);
    value.map(|value| value as u8).ok_or(KeyError::HexDigit(at))
}
