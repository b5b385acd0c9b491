//! What could break: forms that no fixture has (intent logs, big-endian blocks), the bound on sessions, bad keys.
//! What OpenZFS wrote is opened in `tests/fixtures`.

use super::*;
use codec::cipher::Iv;
use zfs_format::Endian;
use zfs_format::dsl::crypto_key::KeyFormat;

const IV: Iv = *b"an iv has 12";

fn raw_key(byte: u8) -> WrappingKey {
    WrappingKey::new(&stored(Suite::Aes256Gcm, 1), &[byte; 32]).expect("32 bytes")
}

/// A stored key that was wrapped here.
fn stored(suite: Suite, version: u64) -> CryptoKey {
    let cipher = Cipher::new(mode(suite), &[1; 32]).expect("32 bytes");
    let key_bytes = suite.key_bytes();
    let mut text = vec![5; key_bytes + MAC_KEY_BYTES];
    let mut associated = 77_u64.to_le_bytes().to_vec();
    if version > 0 {
        associated.extend([suite.code(), version].map(u64::to_le_bytes).concat());
    }
    let mac = cipher.seal(&IV, &associated, &mut text).expect("short enough");
    let mut master_key = [0; 32];
    master_key[..key_bytes].copy_from_slice(&text[..key_bytes]);
    CryptoKey {
        suite,
        guid: 77,
        iv: IV,
        mac,
        master_key,
        hmac_key: text[key_bytes..].try_into().expect("64 bytes"),
        root_directory: 1,
        references: 1,
        version,
        key_format: KeyFormat::Raw,
        passphrase_salt: 0,
        passphrase_iterations: 0,
    }
}

const SUITES: [Suite; 6] = [
    Suite::Aes128Ccm,
    Suite::Aes192Ccm,
    Suite::Aes256Ccm,
    Suite::Aes128Gcm,
    Suite::Aes192Gcm,
    Suite::Aes256Gcm,
];

#[test]
fn a_wrong_key_is_named_and_every_suite_unwraps_with_the_right_one() {
    for suite in SUITES {
        for version in [0, 1] {
            let stored = stored(suite, version);
            let key = DatasetKey::unwrap(&stored, &raw_key(1)).expect("the right key");
            assert_eq!((key.suite(), key.guid(), key.master.len()), (suite, 77, suite.key_bytes()));
            let wrong = DatasetKey::unwrap(&stored, &raw_key(2)).expect_err("the wrong key");
            assert_eq!(wrong, KeyError::Wrong { guid: 77 });
            // A key of version 0 says nothing of its version; one of version 1 can't be taken for it.
            let other = CryptoKey { version: 1 - version, ..stored };
            assert!(DatasetKey::unwrap(&other, &raw_key(1)).is_err());
        }
    }
    let newer = CryptoKey { version: 2, ..stored(Suite::Aes256Gcm, 1) };
    assert_eq!(DatasetKey::unwrap(&newer, &raw_key(1)).err(), Some(KeyError::Version(2)));
}

#[test]
fn what_the_user_gives_must_be_of_its_format() {
    let of_key = |key_format, passphrase_iterations, given: &[u8]| {
        let stored = stored(Suite::Aes256Gcm, 1);
        let stored = CryptoKey { key_format, passphrase_iterations, ..stored };
        WrappingKey::new(&stored, given).map(|key| *key.bytes())
    };
    let of = |format, given: &[u8]| of_key(format, 1, given);
    let digits = "0aF1".repeat(16);
    let hex = of(KeyFormat::Hex, format!("{digits}\n").as_bytes()).expect("digits");
    assert_eq!(hex[..3], [0x0a, 0xf1, 0x0a]);
    assert_eq!(of(KeyFormat::Hex, &digits.as_bytes()[1..]), Err(KeyError::HexLength(63)));
    let wrong = digits.replacen('F', "g", 1);
    assert_eq!(of(KeyFormat::Hex, wrong.as_bytes()), Err(KeyError::HexDigit(2)));
    assert_eq!(of(KeyFormat::Raw, &[0; 33]), Err(KeyError::RawLength(33)));
    assert_eq!(of(KeyFormat::Passphrase, b"seven77\n"), Err(KeyError::PassphraseLength(7)));
    assert_eq!(of(KeyFormat::Passphrase, b"eight888\n"), of(KeyFormat::Passphrase, b"eight888"));
    let endless = of_key(KeyFormat::Passphrase, u64::MAX, b"eight888");
    assert_eq!(endless, Err(KeyError::Iterations(u64::MAX)));
}

/// A pointer to an encrypted block.
fn pointer(object_type: ObjectType, endian: Endian) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    pointer.set_object_type(object_type);
    pointer.set_uses_crypt(true);
    pointer.set_endian(endian);
    pointer.set_salt_and_iv(*b"the salt", IV);
    pointer
}

/// An intent log block of a write and something else, sealed as its writer would.
fn log_block(key: &DatasetKey, endian: Endian, pointer: &BlockPointer) -> (Vec<u8>, Vec<u8>) {
    let mut plain = vec![0; 184];
    for (kind, len) in [(9_u64, 300_usize), (12, 80)] {
        plain.extend(endian.bytes(kind));
        plain.extend(endian.bytes(len as u64));
        plain.extend((16..len).map(|byte| byte as u8));
    }
    let used = plain.len() as u64;
    plain[136..144].copy_from_slice(&endian.bytes(used));
    plain.resize(4096, 0);
    let (parts, _) = encryption::log_block(&plain, endian).expect("records");
    let mut text = gathered(&plain, &parts);
    let cipher = key.session(pointer.salt().expect("encrypted"));
    let mac = cipher.seal(&IV, &parts.associated, &mut text).expect("short enough");
    plain[168..184].copy_from_slice(&mac);
    let mut sealed = plain.clone();
    let mut rest = &text[..];
    for range in parts.encrypted {
        let (piece, behind) = rest.split_at(range.len());
        sealed[range].copy_from_slice(piece);
        rest = behind;
    }
    sealed[parts.end..].fill(0xee);
    (plain, sealed)
}

#[test]
fn blocks_of_the_intent_log_open_in_both_byte_orders_and_no_part_may_change() {
    for suite in [Suite::Aes256Gcm, Suite::Aes192Ccm] {
        let key = DatasetKey::unwrap(&stored(suite, 1), &raw_key(1)).expect("the right key");
        for endian in [Endian::Little, Endian::Big] {
            let pointer = pointer(ObjectType::INTENT_LOG, endian);
            let (plain, sealed) = log_block(&key, endian, &pointer);
            assert_ne!(sealed[184 + 32..184 + 64], plain[184 + 32..184 + 64]);
            // The pointer of a write stays readable, for it is claimed without the key.
            assert_eq!(sealed[184 + 64..184 + 192], plain[184 + 64..184 + 192]);
            let mut block = sealed.clone();
            assert_eq!(key.open(&pointer, &mut block), Ok(()));
            assert!(block == plain, "what was used is decrypted, what lies behind is zeros");
            for byte in (0..184 + 380).filter(|byte| !(144..168).contains(byte)) {
                let mut block = sealed.clone();
                block[byte] ^= 1;
                let error = key.open(&pointer, &mut block);
                assert_eq!(error, Err(BlockErrorKind::Authentication), "byte {byte}");
            }
        }
    }
}

#[test]
fn ciphers_of_salts_are_kept_and_bounded() {
    let key = DatasetKey::unwrap(&stored(Suite::Aes256Gcm, 1), &raw_key(1)).expect("the right key");
    let first = key.session([0; 8]);
    for salt in 1..100_u64 {
        key.session(salt.to_le_bytes());
        assert!(Arc::ptr_eq(&first, &key.session([0; 8])), "what is used stays");
    }
    assert_eq!(key.sessions.borrow().by_salt.len(), SESSIONS_MAX);
    assert!(!key.sessions.borrow().by_salt.contains_key(&1_u64.to_le_bytes()));
}

#[test]
fn a_block_key_can_go_to_another_thread() {
    fn goes<T: Send + Sync + 'static>(_: &T) {}
    let key = DatasetKey::unwrap(&stored(Suite::Aes256Gcm, 1), &raw_key(1)).expect("the right key");
    goes(&key.block_key(&pointer(ObjectType::PLAIN_FILE_CONTENTS, Endian::Little)));
}
