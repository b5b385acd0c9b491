//! What names become, held against what the kernel's `u8_textprep_str` said of them.
//!
//! What could break: the standard library or `unicode-normalization` gets a younger Unicode, in which a letter has a capital or a form that
//! it had not; a letter with a capital of several letters becomes those; a sequence is put together as Unicode says and not as the kernel
//! does.

use super::normalization::{NFC, NFD, NFKC, NFKD, UPPER};
use super::*;
use fixtures::extent::some;
use zfs_format::zap::flags::HASH_64;

#[track_caller]
fn becomes(how: u64, from: &str, to: &str) {
    let made = normalized(from.as_bytes(), how);
    assert_eq!(std::str::from_utf8(&made), Ok(to), "{from} by {how:#x}");
}

#[test]
fn letters_become_their_capitals_as_of_unicode_5() {
    // A capital of two letters is none.
    becomes(UPPER, "Straße ŉǰΐ ﬁ", "STRAßE ŉǰΐ ﬁ");
    // Capitals that are another's, too, and titles.
    becomes(UPPER, "İıſςσΣ ǆǅǄ", "İISΣΣΣ ǄǄǄ");
    becomes(UPPER, "\u{1fb3}\u{1fa0}ι\u{345}", "\u{1fbc}\u{1fa8}ΙΙ");
    // Georgian and Cherokee had one case, and some letters got their capitals later, or a capital later got a place.
    becomes(UPPER, "ნაჭ ꭰᏸ ɐɫᵹ ⱥⱡ ꙁ", "ნაჭ ꭰᏸ ɐⱢᵹ ȺⱠ ꙁ");
    becomes(UPPER, "\u{1c80}\u{1e922}\u{10428}", "\u{1c80}\u{1e922}\u{10400}");
}

#[test]
fn bytes_that_are_no_letters_stay_and_those_beside_do_not() {
    let capitals = |name: &[u8]| normalized(name, UPPER).into_owned();
    assert_eq!(capitals(b"\xffa"), b"\xffA");
    // What the first says is one letter is looked at as one.
    assert_eq!(capitals(b"\xc3a"), b"\xc3a");
    assert_eq!(capitals(b"\xe1abc"), b"\xe1abC");
    assert_eq!(capitals(b"a\xe1\x80"), b"A\xe1\x80");
    assert_eq!(capitals(b"\xc3\xa9\xc3"), b"\xc3\x89\xc3");
    // A form is asked of text only.
    assert_eq!(normalized(b"\xffe\xcc\x81", NFC), &b"\xffe\xcc\x81"[..]);
}

#[test]
fn text_becomes_the_form_that_the_kernel_makes() {
    becomes(NFD, "é\u{d55c}", "e\u{301}\u{1112}\u{1161}\u{11ab}");
    becomes(NFC, "e\u{301}\u{212b}\u{958}", "é\u{c5}\u{915}\u{93c}");
    becomes(NFC, "\u{1112}\u{1161}\u{11ab}\u{d558}\u{11ab}", "\u{d55c}\u{d55c}");
    becomes(NFC, "\u{9c7}\u{9be} \u{30ab}\u{3099}", "\u{9cb} \u{30ac}");
    becomes(NFKD, "²½ﬁ", "21\u{2044}2fi");
    becomes(NFKC, "ǆ", "dž");
    // Marks stand by their classes.
    becomes(NFC, "q\u{307}\u{323}", "q\u{323}\u{307}");
    becomes(NFD, "q\u{307}\u{323}", "q\u{323}\u{307}");
    // Capitals come first, and are only the first letter's; so these are not the same, though they are in Unicode.
    becomes(UPPER | NFD, "ǰ", "j\u{30c}");
    becomes(UPPER | NFD, "j\u{30c}", "J\u{30c}");
    becomes(UPPER | NFKC, "ﬁ", "fi");
    becomes(UPPER | NFKC, "ǆé", "DŽÉ");
    becomes(UPPER | NFD, "\u{1fb3}", "Α\u{345}");
    becomes(UPPER | NFD, "α\u{345}\u{301}", "Α\u{301}Ι");
}

#[test]
fn sequences_are_put_together_where_unicode_would_not() {
    // The mark between is in the way, but not once another was taken.
    becomes(NFC, "a\u{302}\u{308}\u{301}", "\u{1ea5}\u{308}");
    becomes(NFC, "a\u{308}\u{302}\u{301}", "ä\u{302}\u{301}");
    // What comes next is taken as it is written.
    becomes(NFKC, "\u{ff76}\u{ff9e}", "\u{30ab}\u{3099}");
    // A sequence has 30 letters.
    let marks = |many| "\u{316}".repeat(many);
    becomes(NFD, &format!("a{}", marks(31)), &format!("a{}\u{34f}{}", marks(29), marks(2)));
}

/// All letters for themselves, in all forms; as the kernel's tables made them, which were asked once for all of this.
#[test]
fn each_letter_becomes_what_the_kernels_tables_say() {
    let sum_of = |how: u64| {
        let all = ('\u{1}'..=char::MAX).flat_map(|letter| {
            let mut made = normalized(letter.to_string().as_bytes(), how).into_owned();
            made.push(0);
            made
        });
        hash_name(&all.collect::<Vec<u8>>(), u64::MAX, HASH_64)
    };
    let known = [
        (UPPER, 0xecc3_31c5_e7a3),
        (NFD, 0xefd7_c0c4_69f7),
        (NFKD, 0xb631_53e6_8c49),
        (NFC, 0xf290_ca3b_f231),
        (NFKC, 0x6158_d2f3_9079),
        (UPPER | NFD, 0xa014_ed32_c439),
        (UPPER | NFKD, 0xed82_436c_6e3b),
        (UPPER | NFC, 0xa129_c07b_f40a),
        (UPPER | NFKC, 0x6126_37d4_4a27),
    ];
    for (how, sum) in some(known, 3) {
        assert_eq!(sum_of(how) >> 16, sum, "{how:#x}");
    }
}

#[test]
fn a_name_means_those_that_it_is_told_to_mean() {
    let table = (7, 0, UPPER | NFD);
    let means = |name: &str, which, other: &str| {
        let (wanted, other) = (Wanted::new(name.as_bytes(), which, table), other.as_bytes());
        let is_hashed_alike = Wanted::new(other, Match::Exact, table).hash == wanted.hash;
        assert!(!wanted.is(other) || is_hashed_alike, "what is meant is found");
        wanted.is(other)
    };
    for (which, in_form, in_case) in
        [(Match::Exact, false, false), (Match::InCase, true, false), (Match::Alike, true, true)]
    {
        assert!(means("é", which, "é"));
        assert_eq!(means("é", which, "e\u{301}"), in_form, "{which:?}");
        assert_eq!(means("É", which, "é"), in_case, "{which:?}");
        assert!(!means("é", which, "e"));
    }
}
