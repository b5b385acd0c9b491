//! Parity of single words: 8 bytes a member.
//!
//! A page that repeats one 8-byte word has parity that repeats one 8-byte word, so a simulated array
//! of generated data needs these sums over the words only, however long the pages are. They are
//! called once a page, with few members: this is plain arithmetic in registers.

use crate::gf256::{double_word, multiply_word, power_of_two};

use super::{
    DATA_MEMBERS_MAX, Kernel, Member, PARITY_MEMBERS_MAX, assert_members, reconstruct_with,
};

/// P, Q and R of members that are one word long.
///
/// # Panics
/// If there are more than 255.
pub fn generate_words(data: &[u64]) -> [u64; PARITY_MEMBERS_MAX] {
    assert_members(data.len(), PARITY_MEMBERS_MAX);
    // Horner's scheme, from the highest power down.
    data.iter().rev().fold([0; PARITY_MEMBERS_MAX], |[p, q, r], word| {
        [p ^ word, double_word(q) ^ word, double_word(double_word(r)) ^ word]
    })
}

/// Fills in every `None`, data and parity alike. As many parity words must be there as data words are
/// not.
///
/// # Panics
/// If too few are, if there are more than 255 data words, or if there isn't 1 to 3 parity words.
pub fn reconstruct_words(data: &mut [Option<u64>], parity: &mut [Option<u64>]) {
    let kernel = Kernel::available()[0];
    let present = |words: &[Option<u64>]| -> Vec<[u8; 8]> {
        words.iter().map(|word| word.unwrap_or(0).to_ne_bytes()).collect()
    };
    let (mut data_bytes, mut parity_bytes) = (present(data), present(parity));
    fn members<'a>(words: &[Option<u64>], bytes: &'a mut [[u8; 8]]) -> Vec<Member<'a>> {
        let members = words.iter().zip(bytes).map(|(word, bytes)| match word {
            Some(_) => Member::Present(bytes),
            None => Member::Lost(bytes),
        });
        members.collect()
    }
    reconstruct_with(
        kernel,
        &mut members(data, &mut data_bytes),
        &mut members(parity, &mut parity_bytes),
    );
    let words = data.iter_mut().zip(data_bytes).chain(parity.iter_mut().zip(parity_bytes));
    for (word, bytes) in words {
        *word = Some(u64::from_ne_bytes(bytes));
    }
}

/// Adds to the parity words (P, Q, R, as many as there are) the change of data words: of each
/// `(i, delta)`, 1, 2ⁱ and 4ⁱ times `delta`, which is the old word plus (exclusive or) the new.
///
/// # Panics
/// If there are more than three parity words, or a member's number isn't below 255.
pub fn update_words(changes: &[(usize, u64)], parity: &mut [u64]) {
    assert!(parity.len() <= PARITY_MEMBERS_MAX, "a stripe has at most 3 parity members");
    for (member, delta) in changes {
        assert!(*member < DATA_MEMBERS_MAX, "data member {member} is not below 255");
        for (exponent, word) in parity.iter_mut().enumerate() {
            *word ^= multiply_word(power_of_two(exponent * member), *delta);
        }
    }
}
