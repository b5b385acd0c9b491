//! What could break: a mode with the wrong parameters (it would open what it sealed, and nothing of anybody else's);
//! something that is not authenticated; a length at which a piece is filled up wrongly.

use super::*;
use ::ccm::{Ccm, consts::U16 as CodeBytes};
use proptest::prelude::*;
use std::num::NonZeroU32;

fn hex<const N: usize>(digits: &str) -> [u8; N] {
    assert_eq!(digits.len(), 2 * N);
    std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits"))
}

/// Sealing gives this text and code, and opening gives the text back.
fn check<const N: usize>(
    cipher: Option<Cipher>,
    (iv, associated): (Iv, &[u8]),
    plain: [u8; N],
    sealed: [u8; N],
    code: [u8; MAC_BYTES],
) {
    let cipher = cipher.expect("a length of key that there is");
    let mut text = plain;
    assert_eq!(cipher.seal(&iv, associated, &mut text), Ok(code));
    assert_eq!(text, sealed);
    assert_eq!(cipher.open(&iv, associated, &mut text, &code), Ok(()));
    assert_eq!(text, plain);
}

#[test]
fn gcm_gives_the_vectors_of_its_authors() {
    let cases = [
        (16, "0388dace60b6a392f328c2b971b2fe78", "ab6e47d42cec13bdf53a67b21257bddf"),
        (24, "98e7247c07f0fe411c267e4384b0f600", "2ff58d80033927ab8ef4d4587514f0fb"),
        (32, "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"),
    ];
    for (key_bytes, sealed, code) in cases {
        let cipher = Cipher::new(Mode::Gcm, &[0; 32][..key_bytes]);
        check(cipher, ([0; 12], b""), [0; 16], hex(sealed), hex(code));
    }
}

#[test]
fn ccm_gives_the_vectors_of_wycheproof() {
    // Numbers 10 and 29 of aes_ccm_test.
    let key: [u8; 16] = hex("42e38abef2dd7573248c5aefb3ecca54");
    let plain: [u8; 66] = hex(
        "2c763b9ec84903bcbb8aec15e678a3a955e4870edbf62d9d3c81c4f9ed6154877875779ca33cce8f73a55ca7\
         af1d8d817fc6baac00ef962c5a0da339ce81427a3d59",
    );
    let sealed = hex(
        "4ca01b5b2a5e57bcc1a4b7f63f049dc477e3ee2e5c268efb346ff95b7dcd67f86ed0f11bb17c1dd7fb511d2f\
         37b9684550c0d84be0f10030ccc4e0de5b74ef92ea54",
    );
    let iv = hex("064b3cfbe04d94d4d5c19b30");
    let code = hex("c5a57dd6fa16aa9de8de20e6bd321396");
    check(Cipher::new(Mode::Ccm, &key), (iv, b""), plain, sealed, code);

    let key: [u8; 16] = hex("20bbf74c1e63982c472c4743569e4c84");
    let associated: [u8; 31] =
        hex("4f2285ce3dafa528c694a5272d3b7b929097db398772653bd9bbbdb3b2c8e1");
    let plain: [u8; 16] = hex("6db50992e8fbbee15d4979d3e322dacd");
    let sealed = hex("8703e44697138c58532d97ee99231d94");
    let iv = hex("459fc7c004bf46323a02d846");
    let code = hex("f14c2f39a4871a4a16c42f6fe878deef");
    check(Cipher::new(Mode::Ccm, &key), (iv, &associated), plain, sealed, code);
}

/// The same by the crate that is slower.
fn ccm_by_crate(key: &[u8], iv: &Iv, associated: &[u8], text: &mut [u8]) -> [u8; MAC_BYTES] {
    let (iv, text) = ((*iv).into(), text.into());
    let code = match key.len() {
        16 => Ccm::<Aes128, CodeBytes, U12>::new_from_slice(key)
            .expect("16 bytes")
            .encrypt_inout_detached(&iv, associated, text),
        24 => Ccm::<Aes192, CodeBytes, U12>::new_from_slice(key)
            .expect("24 bytes")
            .encrypt_inout_detached(&iv, associated, text),
        _ => Ccm::<Aes256, CodeBytes, U12>::new_from_slice(key)
            .expect("32 bytes")
            .encrypt_inout_detached(&iv, associated, text),
    };
    code.expect("short enough").into()
}

proptest! {
    #[test]
    fn ccm_is_what_another_makes_of_it(
        key in any::<[u8; 32]>(),
        key_bytes in prop::sample::select(vec![16_usize, 24, 32]),
        iv in any::<Iv>(),
        associated_len in prop_oneof![0_usize..50, Just(0xfeff), Just(0xff00), Just(0xff01)],
        text in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let associated = vec![7; associated_len];
        let (mut ours, mut theirs) = (text.clone(), text);
        let cipher = Cipher::new(Mode::Ccm, &key[..key_bytes]).expect("a length that there is");
        let code = cipher.seal(&iv, &associated, &mut ours);
        prop_assert_eq!(code, Ok(ccm_by_crate(&key[..key_bytes], &iv, &associated, &mut theirs)));
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn whatever_bit_is_flipped_is_found(
        key in any::<[u8; 32]>(),
        key_bytes in prop::sample::select(vec![16_usize, 24, 32]),
        ccm in any::<bool>(),
        iv in any::<Iv>(),
        associated in prop::collection::vec(any::<u8>(), 0..40),
        plain in prop::collection::vec(any::<u8>(), 0..40),
        bit in any::<prop::sample::Index>(),
    ) {
        let mode = if ccm { Mode::Ccm } else { Mode::Gcm };
        let cipher = Cipher::new(mode, &key[..key_bytes]).expect("a length that there is");
        let mut text = plain.clone();
        let code = cipher.seal(&iv, &associated, &mut text).expect("short enough");
        let sealed = text.clone();
        prop_assert_eq!(cipher.open(&iv, &associated, &mut text, &code), Ok(()));
        prop_assert_eq!(&text, &plain);
        let mut all = [&iv[..], &associated, &sealed, &code].concat();
        let bit = bit.index(all.len() * 8);
        all[bit / 8] ^= 1 << (bit % 8);
        let (iv, rest) = all.split_at(IV_BYTES);
        let (associated, rest) = rest.split_at(associated.len());
        let (text, code) = rest.split_at(sealed.len());
        let opened = cipher.open(
            iv.try_into().expect("12 bytes"),
            associated,
            &mut text.to_vec(),
            code.try_into().expect("16 bytes"),
        );
        prop_assert_eq!(opened, Err(NotAuthentic));
    }
}

#[test]
fn what_ccm_cannot_count_is_refused_both_ways() {
    let cipher = Cipher::new(Mode::Ccm, &[1; 16]).expect("16 bytes");
    let mut text = vec![0; CCM_BYTES_MAX + 1];
    assert_eq!(cipher.seal(&[0; 12], b"", &mut text), Err(TooLong(CCM_BYTES_MAX + 1)));
    assert_eq!(cipher.open(&[0; 12], b"", &mut text, &[0; 16]), Err(NotAuthentic));
    assert!(Cipher::new(Mode::Gcm, &[0; 20]).is_none());
}

#[test]
fn derived_keys_and_codes_are_those_of_the_standards() {
    // HKDF: number 4 of Wycheproof's hkdf_sha512_test.
    let secret: [u8; 16] = hex("06eb26f8ccf28580c8f28d5b4dc47a49");
    let info: [u8; 20] = hex("d5f081e81e8cf9ded199f3ae43c80a2dfe3d9cf2");
    let mut key = [0; 20];
    derived_key(&secret, &info, &mut key);
    assert_eq!(key, hex("952b7dfa219f167aa8a86a5f136dfc7aed1848fc"));
    // RFC 6070.
    let iterations = NonZeroU32::new(4096).expect("not zero");
    key_of_passphrase(b"password", b"salt", iterations, &mut key);
    assert_eq!(key, hex("4b007901b765489abead49d926f721d065a429c1"));
    // RFC 4231, case 2.
    let code = MacKey::new(b"Jefe").code(b"what do ya want for nothing?");
    let front: [u8; 16] = std::array::from_fn(|at| code[at]);
    assert_eq!(front, hex("164b7a7bfcf819e2e395fbe73b56e0a3"));
}
