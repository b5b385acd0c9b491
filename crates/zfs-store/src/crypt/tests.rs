//! What could break: forms that no fixture has (intent logs, big-endian blocks), the bound on sessions, bad keys.
//! What OpenZFS wrote is opened in `tests/fixtures`.

use super::wrapping::ITERATIONS_MAX;
use super::*;
use codec::cipher::Iv;
use zfs_format::checksum::Checksum;
use zfs_format::dsl::crypto_key::KeyFormat;
use zfs_format::zil::record::records;
use zfs_format::zil::{Chain, LogBlock};
use zfs_format::{Endian, Wire};

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

/// The key of a dataset of this suite.
pub(crate) fn key(suite: Suite, version: u64) -> DatasetKey {
    DatasetKey::unwrap(&stored(suite, version), &raw_key(1)).expect("the right key")
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
    // What a forged pool may say is refused before anything is computed.
    for endless in [0, u64::from(ITERATIONS_MAX) + 1, 1 << 28, 1 << 32, u64::MAX] {
        let refused = of_key(KeyFormat::Passphrase, endless, b"eight888");
        assert_eq!(refused, Err(KeyError::Iterations(endless)));
    }
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
    let mut sealed = plain.clone();
    let writing = key.writing_key(pointer.salt().expect("encrypted"));
    let mac = writing.seal(pointer, &mut sealed).expect("records");
    plain[168..184].copy_from_slice(&mac);
    assert_eq!(sealed[168..184], mac);
    sealed[used as usize..].fill(0xee);
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

fn hex<const N: usize>(digits: &str) -> [u8; N] {
    assert_eq!(digits.len(), 2 * N);
    std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits"))
}

#[test]
fn an_intent_log_block_that_openzfs_wrote_opens() {
    // Of OpenZFS 2.3.2: a directory was made, a file renamed, a link made, `fsync`, and the machine stopped. The raw
    // key is 32 times `k`.
    let stored = CryptoKey {
        suite: Suite::Aes192Ccm,
        guid: 17556491623408325523,
        iv: hex("d1cb8dd6abb66fa1f4426615"),
        mac: hex("2175fce884f07eafe076042e4ef09926"),
        master_key: hex("fe381a466658630d232e32c1570923651b12f93acd77be010000000000000000"),
        hmac_key: hex(
            "e61c936802f4f6f26b1dff1ead985bbc2348ccd924fa8f9372fbc1aead364802c3bdcd22199c7b90ce5a5b51\
             89f22fc4f156ebfdc371180dc8330e2c633e0c74",
        ),
        ..stored(Suite::Aes192Ccm, 1)
    };
    let key = DatasetKey::unwrap(&stored, &raw_key(b'k')).expect("the right key");
    let pointer = BlockPointer {
        words: [
            0x8,
            0xc27,
            0x0,
            0x0,
            0xa0dce661d0a47372,
            0x12d8f125e7aebbcb,
            0xa009090200070007,
            0x0,
            0x0,
            0x0,
            0x23,
            0x6d42d6200000000,
            0x3f1abfc70a0954e4,
            0x5ac21a590b11b574,
            0x5b,
            0x4,
        ],
    };
    let used: [u8; 472] = hex(
        "000000000000000008000000000000002f0c000000000000000000000000000000000000000000007273a4d0\
         61e6dca0c43c80903d8c1ecb07000700020909a0000000000000000000000000000000000000000000000000\
         23000000000000000000000000528d9be454090ac7bf1a3f74b5110b591ac25a5b0000000000000005000000\
         00000000d801000000000000117a0cb17ada10029a50227082e0c9001b11428256cdb3fb07e56d864425621b\
         96005223274cac830200000000000000700000000000000023000000000000000200000000000000d158acc5\
         d555b15e335d1b57df572fe02863afa9d69b8d30c0d35dd16fbe83fcee34a59a9ea68b2bc56b1826b87cf69a\
         305937bb51f15a68154ea98afa1d2cc07ce81cb7ccb0d355e89266853e89310f080000000000000040000000\
         00000000230000000000000003000000000000009e6b23afcd5302bc08b59438b4f81b16a54cea8b8f6bb665\
         f5a0722a9057f42604000000000000007000000000000000230000000000000004000000000000001a3373ec\
         53a04b1b1f00610f8f67d8e12aaef675b4a8d59326883c4157897db97b5d87e8adcb9d0717d8f1d4d257f700\
         aee5b211b520041a9b56f8a1b35c1ccaac0425a306a9dda64e30ff4a450faf6a",
    );
    let mut block = [0; 4096];
    block[..used.len()].copy_from_slice(&used);
    // Its checksum is that of the log, folded.
    let sum = |bytes: &[u8], _| Checksum { words: codec::checksum::fletcher4(bytes).0 };
    let decoded = LogBlock::decode(&block, &pointer, sum).expect("a block of a log");
    let written = block;
    assert_eq!(key.open(&pointer, &mut block), Ok(()));
    let mut sealed = block;
    let salt = pointer.salt().expect("encrypted");
    key.writing_key(salt).seal(&pointer, &mut sealed).expect("records");
    assert!(sealed == written, "sealed again it is what OpenZFS wrote");
    let end = Chain::BYTES + decoded.records.len();
    let found = records(&block[Chain::BYTES..end], decoded.endian).expect("records");
    let names: Vec<String> =
        found.iter().map(|record| String::from_utf8_lossy(&record.data).into_owned()).collect();
    assert_eq!(names, ["dir\0\0\0\0\0", "logged\0renamed\0\0", "link\0x\0\0"]);
}
