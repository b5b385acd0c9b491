//! Ciphers that encrypt and authenticate, and how keys are made: what encrypted datasets of ZFS need.
//!
//! | what | parameters | who does it |
//! |---|---|---|
//! | AES-GCM | IV 12 bytes, MAC 16 | ring; with 192-bit keys, which it lacks, aes-gcm |
//! | AES-CCM | the same | this crate, over the block cipher of `aes` |
//! | HMAC-SHA-512, HKDF-SHA-512, PBKDF2-HMAC-SHA-1 | | ring |
//!
//! # Why so
//!
//! All of them use the processor's AES and carry-less multiplication where it has them, and find out by themselves.
//! GCM is the default of ZFS and decides how fast an encrypted pool is: measured side by side, ring does three times
//! what aes-gcm does (7.8 against 2.1 GB/s), which goes over the data twice. CCM is a chain of AES that can't run in
//! parallel; the ready-made crate asks what the processor can do anew for each block of 16 bytes, which costs it three
//! quarters of the speed (0.2 against 0.8 GB/s), so some hundred lines are here and the crate is what the tests compare
//! with. `cargo xtask bench codec` measures ours beside OpenSSL's.
//!
//! # Rules
//!
//! 1. A text that fails its authentication is never handed out: after an error, the buffer holds anything.
//! 2. A [`Cipher`] and a [`MacKey`] show nothing of their keys when printed.
//!
//! **Source**: NIST SP 800-38C and D; RFC 2104, 5869, 8018.

mod ccm;
mod derive;
mod mac;

pub use ccm::CCM_BYTES_MAX;
pub use derive::{Mac, MacKey, derived_key, key_of_passphrase};
pub use mac::{IV_BYTES, Iv, MAC_BYTES, NotAuthentic, TooLong, same_code};

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::{AeadInOut, KeyInit, consts::U12};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use std::fmt;

/// How blocks of AES are chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Counter with CBC-MAC.
    Ccm,
    /// Galois/counter mode.
    Gcm,
}

/// AES with a key, in a mode.
pub struct Cipher(Inner);

enum Inner {
    Ring(Box<LessSafeKey>),
    Gcm192(Box<AesGcm<Aes192, U12>>),
    Ccm128(Box<Aes128>),
    Ccm192(Box<Aes192>),
    Ccm256(Box<Aes256>),
}

impl Cipher {
    /// A cipher with a key of 16, 24 or 32 bytes; nothing for another length.
    pub fn new(mode: Mode, key: &[u8]) -> Option<Cipher> {
        let ring =
            |algorithm| UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new).map(Box::new);
        let inner = match (mode, key.len()) {
            (Mode::Gcm, 16) => Inner::Ring(ring(&AES_128_GCM)?),
            (Mode::Gcm, 24) => Inner::Gcm192(Box::new(AesGcm::new_from_slice(key).ok()?)),
            (Mode::Gcm, 32) => Inner::Ring(ring(&AES_256_GCM)?),
            (Mode::Ccm, 16) => Inner::Ccm128(Box::new(Aes128::new_from_slice(key).ok()?)),
            (Mode::Ccm, 24) => Inner::Ccm192(Box::new(Aes192::new_from_slice(key).ok()?)),
            (Mode::Ccm, 32) => Inner::Ccm256(Box::new(Aes256::new_from_slice(key).ok()?)),
            _ => return None,
        };
        Some(Cipher(inner))
    }

    /// Encrypts a text in place, and gives the code that authenticates it and the associated data.
    ///
    /// # Errors
    /// The text is longer than the mode takes: [`CCM_BYTES_MAX`], or 64 GiB. It is as it was.
    pub fn seal(
        &self,
        iv: &Iv,
        associated: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; MAC_BYTES], TooLong> {
        let len = text.len();
        match &self.0 {
            Inner::Ring(key) => {
                let nonce = Nonce::assume_unique_for_key(*iv);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(associated), text);
                let tag = tag.map_err(|_| TooLong(len))?;
                Ok(std::array::from_fn(|byte| tag.as_ref()[byte]))
            }
            Inner::Gcm192(key) => {
                let tag = key.encrypt_inout_detached(&(*iv).into(), associated, text.into());
                tag.map(Into::into).map_err(|_| TooLong(len))
            }
            Inner::Ccm128(key) => ccm::seal(&**key, iv, associated, text),
            Inner::Ccm192(key) => ccm::seal(&**key, iv, associated, text),
            Inner::Ccm256(key) => ccm::seal(&**key, iv, associated, text),
        }
    }

    /// Decrypts a text in place.
    ///
    /// # Errors
    /// Text, IV, associated data or code are others than were sealed. What the buffer holds then is anything.
    pub fn open(
        &self,
        iv: &Iv,
        associated: &[u8],
        text: &mut [u8],
        mac: &[u8; MAC_BYTES],
    ) -> Result<(), NotAuthentic> {
        match &self.0 {
            Inner::Ring(key) => {
                let nonce = Nonce::assume_unique_for_key(*iv);
                let (associated, tag) = (Aad::from(associated), Tag::from(*mac));
                let opened = key.open_in_place_separate_tag(nonce, associated, tag, text, 0..);
                opened.map(|_| ()).map_err(|_| NotAuthentic)
            }
            Inner::Gcm192(key) => {
                let (iv, mac) = ((*iv).into(), (*mac).into());
                let opened = key.decrypt_inout_detached(&iv, associated, text.into(), &mac);
                opened.map_err(|_| NotAuthentic)
            }
            Inner::Ccm128(key) => ccm::open(&**key, iv, associated, text, mac),
            Inner::Ccm192(key) => ccm::open(&**key, iv, associated, text, mac),
            Inner::Ccm256(key) => ccm::open(&**key, iv, associated, text, mac),
        }
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher")
    }
}

#[cfg(test)]
mod tests;
