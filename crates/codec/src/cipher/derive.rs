//! Keys made of keys and of passphrases, and codes that authenticate without encrypting.

use ring::hkdf::{HKDF_SHA512, KeyType, Salt};
use ring::hmac::{self, HMAC_SHA512};
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA1};
use std::fmt;
use std::num::NonZeroU32;

/// Bytes of HMAC-SHA-512.
const HMAC_BYTES: usize = 64;

/// How many bytes HKDF is asked for.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// A key of another, by HKDF with SHA-512 and no salt; `info` tells one from the next.
///
/// # Panics
/// Where more than 16 320 bytes are asked for: our bug.
pub fn derived_key(secret: &[u8], info: &[u8], key: &mut [u8]) {
    let made = Salt::new(HKDF_SHA512, &[]).extract(secret);
    let info = [info];
    let made = made.expand(&info, Bytes(key.len()));
    made.and_then(|made| made.fill(key)).expect("so many bytes can be made");
}

/// A key of a passphrase, by PBKDF2 with HMAC-SHA-1. The time it takes grows with the iterations: that is what they
/// are for.
pub fn key_of_passphrase(passphrase: &[u8], salt: &[u8], iterations: NonZeroU32, key: &mut [u8]) {
    pbkdf2::derive(PBKDF2_HMAC_SHA1, iterations, salt, passphrase, key);
}

/// A key of HMAC-SHA-512.
#[derive(Clone)]
pub struct MacKey(hmac::Key);

impl MacKey {
    /// A key of any length.
    pub fn new(key: &[u8]) -> MacKey {
        MacKey(hmac::Key::new(HMAC_SHA512, key))
    }

    /// A code under way.
    pub fn start(&self) -> Mac {
        Mac(hmac::Context::with_key(&self.0))
    }

    /// The code of these bytes.
    pub fn code(&self, bytes: &[u8]) -> [u8; HMAC_BYTES] {
        let mut code = self.start();
        code.add(bytes);
        code.finish()
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey")
    }
}

/// HMAC-SHA-512 under way.
pub struct Mac(hmac::Context);

impl Mac {
    /// The next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The code of all of them.
    pub fn finish(self) -> [u8; HMAC_BYTES] {
        let tag = self.0.sign();
        std::array::from_fn(|byte| tag.as_ref()[byte])
    }
}
