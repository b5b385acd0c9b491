//! Keys of encrypted datasets, and blocks that are opened with them.
//!
//! ```text
//!   passphrase, hex digits, raw bytes ──► wrapping key ──unwraps──► master key, MAC key     (once a dataset)
//!   master key + salt of the block ──HKDF──► the block's key                                (kept: sessions)
//!   block's key + IV + associated data ──AES──► the block, or: it is not authentic
//! ```
//!
//! Who reads a block goes between its checksum and its decompression through [`DatasetKey::open`], in place, with what
//! is stored (physical size) of a pointer that [uses encryption](BlockPointer::uses_crypt): it knows from the pointer
//! which of the [forms](zfs_format::encryption) the block has. Indirect blocks need no key, and are checked after
//! they were decompressed: [`check_indirect`]. For work on another thread, [`DatasetKey::block_key`] gives what
//! one block needs, which may be sent there.
//!
//! # Rules
//!
//! 1. A block that is not authentic is an error, and what the buffer holds then is anything. So a reader keeps nothing
//!    of it, and goes on with another copy or not at all: the checksum was right, so another copy says the same.
//! 2. A wrong key is found when it unwraps, never later.
//! 3. Keys are overwritten when they are dropped, and no key is printed.
//!
//! What it doesn't do: read keys from a terminal or a file; change keys.
//!
//! Source: OpenZFS, `zio_crypt.c`, `dsl_crypt.c`; the shapes are in `docs/formats/zfs-encryption.md`.

mod wrapping;

pub use wrapping::{
    ITERATIONS_MAX, KeyError, PASSPHRASE_BYTES_MAX, PASSPHRASE_BYTES_MIN, WRAPPING_KEY_BYTES,
    WrappingKey,
};

use crate::block::BlockErrorKind;
use codec::cipher::{Cipher, MacKey, Mode, derived_key, same_code};
use rt::{CipherKind, Work, WorkKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::ByteCount;
use zeroize::Zeroizing;
use zfs_format::Endian;
use zfs_format::block_pointer::{BlockPointer, Protection};
use zfs_format::dsl::crypto_key::{CryptoKey, Suite};
use zfs_format::encryption::{self, Parts};
use zfs_format::object_type::ObjectType;

/// Keys of salts that are kept. A writer changes its salt every 400 million blocks, so a few serve a dataset; where
/// it is deduplicated each block has its own, and keeping more would help little.
const SESSIONS_MAX: usize = 32;
/// The versions of a key's form that are known.
const VERSION_MAX: u64 = 1;
/// Bytes of an unwrapped MAC key.
const MAC_KEY_BYTES: usize = 64;

fn mode(suite: Suite) -> Mode {
    match suite {
        Suite::Aes128Ccm | Suite::Aes192Ccm | Suite::Aes256Ccm => Mode::Ccm,
        _ => Mode::Gcm,
    }
}

/// The unwrapped key of an encrypted dataset, its snapshots and clones.
pub struct DatasetKey {
    suite: Suite,
    guid: u64,
    version: u64,
    master: Zeroizing<Vec<u8>>,
    codes: Arc<MacKey>,
    sessions: RefCell<Sessions>,
}

/// Ciphers by salt; the one that was used longest ago leaves first.
#[derive(Default)]
struct Sessions {
    by_salt: BTreeMap<[u8; 8], (u64, Arc<Cipher>)>,
    /// Counts uses.
    now: u64,
}

impl DatasetKey {
    /// Unwraps a dataset's key.
    ///
    /// # Errors
    /// The wrapping key is another than it was wrapped with, or the key's form is of a later version.
    pub fn unwrap(stored: &CryptoKey, with: &WrappingKey) -> Result<DatasetKey, KeyError> {
        if stored.version > VERSION_MAX {
            return Err(KeyError::Version(stored.version));
        }
        let key_bytes = stored.suite.key_bytes();
        // Whatever the suite's key length, what it is wrapped with has 256 bits.
        let cipher = Cipher::new(mode(stored.suite), with.bytes());
        let cipher = cipher.ok_or(KeyError::Suite(stored.suite.name()))?;
        if key_bytes == 0 {
            return Err(KeyError::Suite(stored.suite.name()));
        }
        let mut associated = stored.guid.to_le_bytes().to_vec();
        if stored.version > 0 {
            associated.extend_from_slice(&stored.suite.code().to_le_bytes());
            associated.extend_from_slice(&stored.version.to_le_bytes());
        }
        let mut text = Zeroizing::new([0; 32 + MAC_KEY_BYTES]);
        let text = &mut text[..key_bytes + MAC_KEY_BYTES];
        text[..key_bytes].copy_from_slice(&stored.master_key[..key_bytes]);
        text[key_bytes..].copy_from_slice(&stored.hmac_key);
        let opened = cipher.open(&stored.iv, &associated, text, &stored.mac);
        opened.map_err(|_| KeyError::Wrong { guid: stored.guid })?;
        let (master, codes) = text.split_at(key_bytes);
        Ok(DatasetKey {
            suite: stored.suite,
            guid: stored.guid,
            version: stored.version,
            master: Zeroizing::new(master.to_vec()),
            codes: Arc::new(MacKey::new(codes)),
            sessions: RefCell::default(),
        })
    }

    /// How blocks are encrypted.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The key's GUID: the same for a dataset, its snapshots and its clones.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Authenticates what is stored of a block, and decrypts it in place. See the [module](self).
    ///
    /// Does nothing where the pointer is not of an encrypted dataset, or of an indirect block.
    ///
    /// # Errors
    /// [`Authentication`](BlockErrorKind::Authentication) where the block is not what was written with this key.
    pub fn open(&self, pointer: &BlockPointer, stored: &mut [u8]) -> Result<(), BlockErrorKind> {
        self.block_key(pointer).open(pointer, stored)
    }

    /// What the block of this pointer needs to be opened, on whatever thread.
    pub fn block_key(&self, pointer: &BlockPointer) -> BlockKey {
        let cipher = pointer.salt().map(|salt| self.session(salt));
        self.key_of(cipher)
    }

    fn key_of(&self, cipher: Option<Arc<Cipher>>) -> BlockKey {
        let kind = match mode(self.suite) {
            Mode::Gcm => CipherKind::Gcm,
            Mode::Ccm => CipherKind::Ccm,
        };
        BlockKey { version: self.version, codes: self.codes.clone(), cipher, kind }
    }

    /// What a block that is written with this salt needs, on whatever thread.
    pub fn writing_key(&self, salt: [u8; 8]) -> BlockKey {
        self.key_of(Some(self.session(salt)))
    }

    fn session(&self, salt: [u8; 8]) -> Arc<Cipher> {
        let mut sessions = self.sessions.borrow_mut();
        sessions.now += 1;
        let now = sessions.now;
        if let Some((used, cipher)) = sessions.by_salt.get_mut(&salt) {
            *used = now;
            return cipher.clone();
        }
        if sessions.by_salt.len() >= SESSIONS_MAX {
            let oldest = sessions.by_salt.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(salt, _)| *salt) {
                sessions.by_salt.remove(&oldest);
            }
        }
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..self.master.len()];
        derived_key(&self.master, &salt, key);
        let cipher =
            Cipher::new(mode(self.suite), key).expect("a suite's key has a cipher's length");
        let cipher = Arc::new(cipher);
        sessions.by_salt.insert(salt, (now, cipher.clone()));
        cipher
    }
}

impl std::fmt::Debug for DatasetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatasetKey({} {:#x})", self.suite.name(), self.guid)
    }
}

/// What one block needs to be opened.
#[derive(Clone, Debug)]
pub struct BlockKey {
    version: u64,
    codes: Arc<MacKey>,
    cipher: Option<Arc<Cipher>>,
    kind: CipherKind,
}

impl BlockKey {
    /// The work of opening so many bytes.
    pub(crate) fn work(&self, bytes: ByteCount) -> Work {
        Work::new(WorkKind::Decrypt(self.kind), bytes)
    }

    /// The mode that it encrypts in.
    pub(crate) fn kind(&self) -> CipherKind {
        self.kind
    }

    /// [`DatasetKey::open`], for the pointer that it was made for.
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, pointer: &BlockPointer, stored: &mut [u8]) -> Result<(), BlockErrorKind> {
        let done = match pointer.protection() {
            Protection::None | Protection::IndirectMac => Some(()),
            Protection::Authenticated if pointer.object_type() == ObjectType::OBJSET => {
                self.check_objset(pointer, stored)
            }
            Protection::Authenticated => {
                let code = self.codes.code(stored);
                pointer.mac().filter(|mac| same_code(mac, &front(&code))).map(|_| ())
            }
            Protection::Encrypted => self.decrypt(pointer, stored),
        };
        done.ok_or(BlockErrorKind::Authentication)
    }

    fn check_objset(&self, pointer: &BlockPointer, stored: &[u8]) -> Option<()> {
        let messages = encryption::objset(stored, pointer.endian(), self.version).ok()?;
        let portable = front(&self.codes.code(&messages.portable));
        let local = messages.local.map_or([0; 32], |local| front(&self.codes.code(&local)));
        // OpenZFS leaves the local code out in some cases where it could be there, and takes zeros for one.
        let is_local = messages.local_mac == [0; 32] || same_code(&messages.local_mac, &local);
        (same_code(&messages.portable_mac, &portable) && is_local).then_some(())
    }

    fn decrypt(&self, pointer: &BlockPointer, stored: &mut [u8]) -> Option<()> {
        let (cipher, iv) = (self.cipher.as_ref()?, pointer.iv()?);
        let (parts, mac) = match pointer.object_type() {
            ObjectType::DNODE => {
                let parts = encryption::dnode_block(stored, pointer.endian(), self.version);
                (parts.ok()?, pointer.mac()?)
            }
            ObjectType::INTENT_LOG => encryption::log_block(stored, pointer.endian()).ok()?,
            _ => return cipher.open(&iv, &[], stored, &pointer.mac()?).ok(),
        };
        let mut text = gathered(stored, &parts);
        cipher.open(&iv, &parts.associated, &mut text, &mac).ok()?;
        scatter(&text, stored, &parts)?;
        stored.get_mut(parts.end..)?.fill(0);
        Some(())
    }
}

/// The reverse of [`gathered`].
fn scatter(text: &[u8], block: &mut [u8], parts: &Parts) -> Option<()> {
    let mut rest = text;
    for range in &parts.encrypted {
        let (piece, behind) = rest.split_at_checked(range.len())?;
        block.get_mut(range.clone())?.copy_from_slice(piece);
        rest = behind;
    }
    Some(())
}

impl BlockKey {
    /// Encrypts in place what is stored of a block whose pointer has its type, its salt and its IV, and gives the code that
    /// authenticates it, for the pointer. What is only authenticated stays as it is. The inverse of [`open`](Self::open);
    /// of an objset see [`seal_objset`](Self::seal_objset), of an indirect block [`indirect_mac`](Self::indirect_mac).
    ///
    /// A block of an intent log gets its code into its chain, and the pointer none that counts.
    ///
    /// # Errors
    /// The block is none of its type, or longer than the cipher's mode takes. What it holds then is anything.
    pub fn seal(
        &self,
        pointer: &BlockPointer,
        stored: &mut [u8],
    ) -> Result<[u8; 16], BlockErrorKind> {
        if pointer.protection() == Protection::Authenticated {
            return Ok(front(&self.codes.code(stored)));
        }
        let (Some(cipher), Some(iv)) = (&self.cipher, pointer.iv()) else {
            return Err(BlockErrorKind::NoKey);
        };
        let too_long = |_| BlockErrorKind::Unsupported("a block too long for the cipher's mode");
        let is_log = pointer.object_type() == ObjectType::INTENT_LOG;
        let parts = match pointer.object_type() {
            ObjectType::DNODE => encryption::dnode_block(stored, pointer.endian(), self.version)?,
            ObjectType::INTENT_LOG => encryption::log_block(stored, pointer.endian())?.0,
            _ => return cipher.seal(&iv, &[], stored).map_err(too_long),
        };
        let mut text = gathered(stored, &parts);
        let mac = cipher.seal(&iv, &parts.associated, &mut text).map_err(too_long)?;
        scatter(&text, stored, &parts).expect("the parts lie within the block");
        if is_log {
            stored[encryption::LOG_MAC_AT..][..mac.len()].copy_from_slice(&mac);
        }
        Ok(mac)
    }

    /// Puts the codes of an objset into it.
    ///
    /// # Errors
    /// It is none.
    pub fn seal_objset(&self, endian: Endian, block: &mut [u8]) -> Result<(), BlockErrorKind> {
        let messages = encryption::objset(block, endian, self.version)?;
        let local = messages.local.map_or([0; 32], |local| front(&self.codes.code(&local)));
        let portable: [u8; 32] = front(&self.codes.code(&messages.portable));
        block[encryption::PORTABLE_MAC_AT..][..32].copy_from_slice(&portable);
        block[encryption::LOCAL_MAC_AT..][..32].copy_from_slice(&local);
        Ok(())
    }

    /// The code of an indirect block (not compressed), for its pointer: a hash of those of the blocks below it.
    ///
    /// # Errors
    /// The block holds no pointers.
    pub fn indirect_mac(&self, endian: Endian, block: &[u8]) -> Result<[u8; 16], BlockErrorKind> {
        let message = encryption::indirect_block(block, endian, self.version)?;
        Ok(front(&codec::checksum::sha512(&message)))
    }
}

/// The encrypted parts as one text.
fn gathered(block: &[u8], parts: &Parts) -> Vec<u8> {
    let pieces = parts.encrypted.iter().filter_map(|range| block.get(range.clone()));
    let mut text = Vec::with_capacity(parts.encrypted.iter().map(|range| range.len()).sum());
    pieces.for_each(|piece| text.extend_from_slice(piece));
    text
}

fn front<const N: usize>(code: &[u8; 64]) -> [u8; N] {
    std::array::from_fn(|byte| code[byte])
}

/// Whether an indirect block of an encrypted dataset (decompressed) leads to the blocks that it led to when it was
/// written: the MAC in its pointer is a hash of theirs, and needs no key.
///
/// # Errors
/// [`Authentication`](BlockErrorKind::Authentication) where the MAC is another,
/// [`Format`](BlockErrorKind::Format) where the block holds no pointers.
pub fn check_indirect(pointer: &BlockPointer, block: &[u8]) -> Result<(), BlockErrorKind> {
    if pointer.protection() != Protection::IndirectMac {
        return Ok(());
    }
    for version in [VERSION_MAX, 0] {
        let message = encryption::indirect_block(block, pointer.endian(), version)?;
        let code = codec::checksum::sha512(&message);
        if pointer.mac().is_some_and(|mac| same_code(&mac, &front(&code))) {
            return Ok(());
        }
    }
    Err(BlockErrorKind::Authentication)
}

#[cfg(test)]
pub(crate) mod tests;
