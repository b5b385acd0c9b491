//! What could break: a step that reading undoes in another order, a pointer that doesn't say what was done, a length that
//! the vdevs can't allocate, a block that is stored larger than it was.

use super::*;
use crate::crypt::tests::key;
use crate::expected::Expected;
use crate::no_time::run;
use proptest::prelude::*;
use zfs_format::dsl::crypto_key::Suite;

const FUNCTIONS: [ChecksumFunction; 8] = [
    ChecksumFunction::Fletcher2,
    ChecksumFunction::Fletcher4,
    ChecksumFunction::Sha256,
    ChecksumFunction::Sha512,
    ChecksumFunction::Blake3,
    ChecksumFunction::Skein,
    ChecksumFunction::Edonr,
    ChecksumFunction::Off,
];
const COMPRESSIONS: [Compression; 6] = [
    Compression::Off,
    Compression::Lzjb,
    Compression::Zle,
    Compression::Lz4,
    Compression::Gzip(6),
    Compression::Zstd,
];
const SUITES: [Option<Suite>; 3] = [None, Some(Suite::Aes256Gcm), Some(Suite::Aes128Ccm)];
const SALT: Salt = [7; 32];

fn props(object_type: ObjectType, level: u8, compression: Compression) -> Props {
    Props {
        object_type,
        level,
        compression,
        zstd_level: 3,
        checksum: ChecksumFunction::Fletcher4,
        salt: Some(SALT),
        embed: false,
        rounding: Rounding { least: 512, unit: 512 },
        endian: Endian::Little,
        crypt: None,
    }
}

/// Bytes of some sectors: zeros, text, noise, or half of each.
fn block(kind: u8, sectors: usize, seed: u64) -> Vec<u8> {
    let mut random = stdx::Prng::new(seed);
    let mut noise = |len: usize| random.bytes(len);
    let len = sectors * 512;
    match kind {
        0 => vec![0; len],
        1 => (0..len).map(|at| b"some text "[at % 10]).collect(),
        2 => noise(len),
        3 => [noise(len / 2), vec![0; len / 2]].concat(),
        _ => [vec![1; 8], vec![0; len - 8]].concat(),
    }
}

/// What comes back of a block that was stored.
fn read_back(stored: &Stored, len: usize, suite: Option<Suite>, salt: Option<Salt>) -> Vec<u8> {
    match stored {
        Stored::Hole => vec![0; len],
        Stored::Embedded(pointer) => {
            pointer.check().expect("it can be followed");
            let (data, pointer) = (pointer.embedded_data().expect("it is embedded"), *pointer);
            assert_eq!(pointer.logical_size(), len as u64);
            let back = run(move |rt| async move {
                logical(&rt, &pointer, None, Buf::copy_of(&data)).await
            });
            back.expect("it decompresses").bytes().to_vec()
        }
        Stored::Bytes(pointer, bytes) => {
            let mut placed = *pointer;
            placed.set_births(7, 7);
            placed.set_dva(0, zfs_format::block_pointer::Dva::new(0, 4096, 512, false));
            placed.check().expect("it can be followed");
            assert_eq!(pointer.physical_size(), bytes.len() as u64);
            let expected = Expected::of(pointer, salt).expect("a known function");
            assert!(expected.holds(bytes.bytes()), "the sum is that of what is stored");
            let (pointer, bytes) = (*pointer, bytes.clone());
            let back = run(move |rt| async move {
                let key = suite.map(|suite| key(suite, 1));
                logical(&rt, &pointer, key.as_ref(), bytes).await
            });
            back.expect("it is what was stored").bytes().to_vec()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_was_stored_comes_back(
        checksum in prop::sample::select(&FUNCTIONS[..]),
        compression in prop::sample::select(&COMPRESSIONS[..]),
        suite in prop::sample::select(&SUITES[..]),
        (object_type, level) in prop::sample::select(vec![
            (ObjectType::PLAIN_FILE_CONTENTS, 0),
            (ObjectType::PLAIN_FILE_CONTENTS, 1),
            (ObjectType::OBJSET, 0),
            (ObjectType::DNODE, 0),
            (ObjectType::SPACE_MAP, 0),
        ]),
        (kind, sectors, seed) in (0_u8..5, prop::sample::select(vec![8_usize, 16, 33, 256]), any::<u64>()),
        unit in prop::sample::select(vec![512_u64, 4096]),
        embed in any::<bool>(),
    ) {
        // Objsets have one of three sizes; what dnodes say of themselves must be so, and zeros are.
        let sectors = if object_type == ObjectType::OBJSET { 8 } else { sectors };
        let kind = if matches!(object_type, ObjectType::OBJSET | ObjectType::DNODE) { 0 } else { kind };
        let bytes = block(kind, sectors, seed);
        let mut props = props(object_type, level, compression);
        props.checksum = checksum;
        props.embed = embed;
        props.rounding = Rounding { least: unit, unit };
        if let Some(suite) = suite {
            let (salt, iv) = (seed.to_le_bytes(), [seed as u8; 12]);
            props.crypt = Some(Crypt { key: key(suite, 1).writing_key(salt), salt, iv });
        }
        let sent = Buf::copy_of(&bytes);
        let stored = run(move |rt| async move { store(&rt, props, sent).await }).expect("stored");
        let mut back = read_back(&stored, bytes.len(), suite, Some(SALT));
        if object_type == ObjectType::OBJSET && back.len() > 800 {
            // Its codes stand within.
            let codes = zfs_format::encryption::PORTABLE_MAC_AT;
            back[codes..codes + 64].fill(0);
        }
        prop_assert_eq!(&back, &bytes);
        if let Stored::Bytes(pointer, stored) = &stored {
            let raw = pointer.compression() == Some(Compression::Off);
            prop_assert!(raw || (stored.len() as u64).is_multiple_of(unit));
            prop_assert!(stored.len() < bytes.len() || raw && stored.len() == bytes.len());
            if suite.is_some() && pointer.protection() == Protection::Encrypted && kind == 1 && raw {
                prop_assert!(stored.bytes() != &bytes[..], "it is encrypted");
            }
        }
        if kind == 0 && compression != Compression::Off && suite.is_none() {
            prop_assert_eq!(stored, Stored::Hole);
        }
    }
}

/// What could break: OpenZFS's rules of what is worth storing compressed.
#[test]
fn compression_saves_an_eighth_in_whole_sectors_or_is_not_kept() {
    let stored = |bytes: Vec<u8>, unit: u64, embed: bool| {
        let mut props = props(ObjectType::PLAIN_FILE_CONTENTS, 0, Compression::Zle);
        props.rounding = Rounding { least: unit, unit };
        props.embed = embed;
        let len = bytes.len();
        let stored = run(move |rt| async move { store(&rt, props, Buf::copy_of(&bytes)).await });
        match stored.expect("stored") {
            Stored::Bytes(pointer, bytes) if pointer.compression() == Some(Compression::Off) => {
                assert_eq!(bytes.len(), len);
                None
            }
            Stored::Bytes(_, bytes) => Some(bytes.len()),
            Stored::Embedded(_) => Some(0),
            Stored::Hole => panic!("it is not zeros"),
        }
    };
    // Of zle 64 bytes of noise take 65, and 192 zeros one.
    let noise = |noise: usize, len: usize| {
        let mut bytes = block(2, len / 512, 3);
        bytes.iter_mut().for_each(|byte| *byte |= 1);
        bytes[noise..].fill(0);
        bytes
    };
    assert_eq!(stored(noise(3400, 4096), 512, false), Some(3584));
    assert_eq!(stored(noise(3600, 4096), 512, false), None, "less than an eighth");
    assert_eq!(stored(noise(100, 4096), 4096, false), None, "rounding eats what was saved");
    assert_eq!(stored(noise(100, 8192), 4096, false), Some(4096));
    assert_eq!(stored(noise(60, 4096), 512, true), Some(0), "it fits its pointer");
    assert_eq!(stored(noise(60, 4096), 512, false), Some(512));
    assert_eq!(stored(noise(60, 512), 512, false), None);
}

#[test]
fn what_is_not_known_is_refused() {
    let refused = |props: Props| {
        let stored = run(move |rt| async move { store(&rt, props, Buf::copy_of(&[1; 512])).await });
        matches!(stored, Err(BlockErrorKind::Unsupported(_)))
    };
    let plain = || props(ObjectType::PLAIN_FILE_CONTENTS, 0, Compression::Off);
    assert!(refused(Props { compression: Compression::On, ..plain() }));
    assert!(refused(Props { checksum: ChecksumFunction::Label, ..plain() }));
    assert!(refused(Props { checksum: ChecksumFunction::Skein, salt: None, ..plain() }));
    assert!(!refused(plain()));
}
