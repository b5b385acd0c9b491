//! Claims about parity. The judge is `reference`, which is the definition, byte by byte, and shares
//! nothing with the kernels but multiplication of two elements. Every claim is made of every kernel that
//! this machine can run.

use proptest::prelude::*;

use super::*;
use crate::gf256::{multiply, power_of_two};

/// The parity member of this exponent, by its definition.
fn reference(data: &[impl AsRef<[u8]>], exponent: usize, length: usize) -> Vec<u8> {
    let mut parity = vec![0; length];
    for (index, member) in data.iter().enumerate() {
        let coefficient = power_of_two(exponent * index);
        for (sum, byte) in parity.iter_mut().zip(member.as_ref()) {
            *sum ^= multiply(coefficient, *byte);
        }
    }
    parity
}

fn references(data: &[impl AsRef<[u8]>], count: usize, length: usize) -> Vec<Vec<u8>> {
    (0..count).map(|exponent| reference(data, exponent, length)).collect()
}

/// Reproducible bytes without structure.
fn noise(seed: usize, length: usize) -> Vec<u8> {
    let mut state = seed as u32 ^ 0x9e37_79b9;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn slices(members: &[Vec<u8>]) -> Vec<&[u8]> {
    members.iter().map(Vec::as_slice).collect()
}

/// What happens to a member in a test of rebuilding.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Present,
    Lost,
    Absent,
}

/// Makes a stripe of `data`, lets `fates` (data, then parity) befall it, rebuilds, and compares.
fn assert_rebuilds(kernel: Kernel, data: &[Vec<u8>], length: usize, fates: &[Fate]) {
    let parity = references(data, fates.len() - data.len(), length);
    let truth: Vec<&Vec<u8>> = data.iter().chain(&parity).collect();
    let mut spoilt: Vec<Vec<u8>> = truth.iter().map(|member| vec![0xee; member.len()]).collect();
    let mut members: Vec<Member> = spoilt
        .iter_mut()
        .zip(&truth)
        .zip(fates)
        .map(|((spoilt, truth), fate)| match fate {
            Fate::Present => Member::Present(truth),
            Fate::Lost => Member::Lost(spoilt),
            Fate::Absent => Member::Absent,
        })
        .collect();
    let (data_members, parity_members) = members.split_at_mut(data.len());
    reconstruct_with(kernel, data_members, parity_members);
    for (index, fate) in fates.iter().enumerate().filter(|(_, fate)| **fate == Fate::Lost) {
        assert!(spoilt[index] == *truth[index], "{kernel:?} {fates:?}: member {index} {fate:?}");
    }
}

/// A stripe's shape: for each member where in memory it starts and how much shorter it is than the
/// parity.
fn shape() -> impl Strategy<Value = (usize, Vec<(usize, usize)>, usize)> {
    let length = prop_oneof![0..200_usize, 200..2500_usize, Just(1024), Just(4096)];
    let shortening = prop_oneof![3 => Just(0_usize), 1 => 0..300_usize];
    let member = (0..70_usize, shortening);
    (length, prop::collection::vec(member, 0..20), 1..=PARITY_MEMBERS_MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Kernels go on in ever narrower steps towards the end of a member, and loads may be unaligned:
    /// a wrong step or a store past the end corrupts a neighbour.
    #[test]
    fn every_kernel_generates_what_the_definition_says(
        (length, members, parities) in shape(),
        parity_offset in 0..70_usize,
    ) {
        let memory: Vec<Vec<u8>> = (0..members.len()).map(|i| noise(i, length + 70)).collect();
        let data: Vec<&[u8]> = memory
            .iter()
            .zip(&members)
            .map(|(memory, (offset, shorter))| {
                &memory[*offset..offset + length.saturating_sub(*shorter)]
            })
            .collect();
        let expected = references(&data, parities, length);
        for kernel in Kernel::available() {
            let mut memory = vec![vec![0xee; length + 140]; parities];
            let mut parity: Vec<&mut [u8]> = memory
                .iter_mut()
                .map(|memory| &mut memory[parity_offset..parity_offset + length])
                .collect();
            generate_with(*kernel, &data, &mut parity);
            for (memory, expected) in memory.iter().zip(&expected) {
                let (before, rest) = memory.split_at(parity_offset);
                let (made, after) = rest.split_at(length);
                prop_assert!(made == expected, "{kernel:?}");
                prop_assert!(before.iter().chain(after).all(|byte| *byte == 0xee), "{kernel:?}");
            }
        }
    }

    /// As many members as there are parities may go, in any mixture, of any lengths.
    #[test]
    fn every_kernel_rebuilds_any_members_that_parity_can_give_back(
        (length, shapes, parities) in shape(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..=3),
    ) {
        let data: Vec<Vec<u8>> = shapes
            .iter()
            .enumerate()
            .map(|(i, (_, shorter))| noise(i, length.saturating_sub(*shorter)))
            .collect();
        let mut fates = vec![Fate::Present; data.len() + parities];
        for (pick, is_wanted) in picks.iter().take(parities) {
            fates[pick.index(data.len() + parities)] =
                if *is_wanted { Fate::Lost } else { Fate::Absent };
        }
        for kernel in Kernel::available() {
            assert_rebuilds(*kernel, &data, length, &fates);
        }
    }

    /// Read-modify-write must leave the parity that a full write would have made.
    #[test]
    fn updated_parity_is_the_parity_of_the_new_data(
        length in 0..1500_usize,
        changes in prop::collection::vec((0..9_usize, 0..1500_usize), 0..5),
        present in prop::array::uniform3(any::<bool>()),
        parities in 1..=PARITY_MEMBERS_MAX,
    ) {
        let old: Vec<Vec<u8>> = (0..9).map(|i| noise(i, length)).collect();
        let mut new = old.clone();
        let deltas: Vec<(usize, Vec<u8>)> = changes
            .iter()
            .enumerate()
            .map(|(seed, (member, bytes))| (*member, noise(100 + seed, *bytes.min(&length))))
            .collect();
        for (member, delta) in &deltas {
            new[*member].iter_mut().zip(delta).for_each(|(byte, delta)| *byte ^= delta);
        }
        let deltas: Vec<(usize, &[u8])> =
            deltas.iter().map(|(member, delta)| (*member, delta.as_slice())).collect();
        let expected = references(&new, parities, length);
        for kernel in Kernel::available() {
            let mut parity = references(&old, parities, length);
            let mut members: Vec<Option<&mut [u8]>> = parity
                .iter_mut()
                .zip(present)
                .map(|(member, present)| present.then_some(member.as_mut_slice()))
                .collect();
            update_with(*kernel, &deltas, &mut members);
            for ((member, expected), present) in parity.iter().zip(&expected).zip(present) {
                prop_assert!(!present || member == expected, "{kernel:?}");
            }
        }
    }

    /// The simulator keeps a page that repeats one word as the word; its parity must be that of the page.
    #[test]
    fn parity_of_words_is_the_parity_of_their_bytes(
        mut words in prop::collection::vec(any::<u64>(), 0..12),
        lost in prop::collection::btree_set(0..15_usize, 0..=3),
        change in any::<u64>(),
    ) {
        let bytes = |words: &[u64]| -> Vec<[u8; 8]> {
            words.iter().map(|word| word.to_ne_bytes()).collect()
        };
        let parity = generate_words(&words);
        let expected = references(&bytes(&words), 3, 8);
        prop_assert_eq!(bytes(&parity).concat(), expected.concat());

        let mut data: Vec<Option<u64>> = words.iter().copied().map(Some).collect();
        let mut rebuilt = parity.map(Some);
        for index in lost {
            if index >= 12 {
                rebuilt[index - 12] = None;
            } else if index < data.len() {
                data[index] = None;
            }
        }
        reconstruct_words(&mut data, &mut rebuilt);
        prop_assert_eq!(data, words.iter().copied().map(Some).collect::<Vec<_>>());
        prop_assert_eq!(rebuilt, parity.map(Some));

        let mut updated = parity;
        if let Some((last, word)) = words.iter_mut().enumerate().next_back() {
            *word ^= change;
            update_words(&[(last, change)], &mut updated);
        }
        prop_assert_eq!(updated, generate_words(&words));
    }

    #[test]
    fn xor_many_and_xor_into_add(length in 0..3000_usize, count in 0..6_usize, seed in 0..99_usize) {
        let sources: Vec<Vec<u8>> = (0..count).map(|i| noise(seed + i, length)).collect();
        let mut expected = vec![0; length];
        for source in &sources {
            expected.iter_mut().zip(source).for_each(|(sum, byte)| *sum ^= byte);
        }
        let mut target = noise(7, length);
        xor_many(&mut target, &slices(&sources));
        prop_assert_eq!(&target, &expected);
        if let Some(last) = sources.last() {
            xor_into(&mut target, last);
            xor_many(&mut expected, &slices(&sources[..count - 1]));
            prop_assert_eq!(&target, &expected);
        }
    }
}

/// All 3⁸ fates of 5 data and 3 parity members that leave enough parity: each choice of parities has
/// coefficients of its own, and a wrong one shows only in its own pattern.
#[test]
fn every_pattern_of_up_to_three_lost_members_is_rebuilt() {
    // Long enough for a block of the widest kernel and some of each narrower step.
    let length = 16 * 64 + 64 + 8 + 1;
    let data: Vec<Vec<u8>> = (0..5).map(|i| noise(i, length)).collect();
    for parities in 1..=3 {
        let members = data.len() + parities;
        for pattern in 0..3_usize.pow(members as u32) {
            let fates: Vec<Fate> = (0..members)
                .map(|i| match pattern / 3_usize.pow(i as u32) % 3 {
                    0 => Fate::Present,
                    1 => Fate::Lost,
                    _ => Fate::Absent,
                })
                .collect();
            let gone = fates.iter().filter(|fate| **fate != Fate::Present).count();
            if gone <= parities {
                for kernel in Kernel::available() {
                    assert_rebuilds(*kernel, &data, length, &fates);
                }
            }
        }
    }
}

/// At 255 members the coefficients have come round to just before where they began; one more and two
/// members would be alike.
#[test]
fn the_widest_stripe_is_rebuilt_from_any_three_parities() {
    let data: Vec<Vec<u8>> = (0..DATA_MEMBERS_MAX).map(|i| noise(i, 40)).collect();
    for lost in [[0, 1, 2], [252, 253, 254], [0, 127, 254], [84, 85, 170]] {
        let mut fates = vec![Fate::Present; DATA_MEMBERS_MAX + 3];
        for index in lost {
            fates[index] = Fate::Lost;
        }
        for kernel in Kernel::available() {
            assert_rebuilds(*kernel, &data, 40, &fates);
        }
    }
}

/// md: the first data member has the coefficient 1, the next 2, and so on. These bytes were worked out
/// by hand from the field's definition: 1·0x01 + 2·0x80 + 4·0x40 = 0x01 + 0x1d + 0x1d.
#[test]
fn data_member_0_has_coefficient_1_in_q_and_r() {
    for kernel in Kernel::available() {
        let (mut p, mut q, mut r) = ([0], [0], [0]);
        generate_with(*kernel, &[&[0x01], &[0x80], &[0x40]], &mut [&mut p, &mut q, &mut r]);
        assert_eq!(p, [0xc1]);
        assert_eq!(q, [0x01]);
        // 1·0x01 + 4·0x80 + 16·0x40 = 0x01 + 0x3a + 0x74.
        assert_eq!(r, [0x4f]);
    }
}

/// raidz computes q ← 2q + d and r ← 4r + d over its columns, and the last ones may be short.
#[test]
fn columns_in_reverse_order_give_the_parity_of_raidz() {
    let columns: Vec<Vec<u8>> = (0..6).map(|i| noise(i, if i < 4 { 1024 } else { 512 })).collect();
    let horner = |factor: u8| -> Vec<u8> {
        let at = |at: usize| {
            let bytes = columns.iter().map(|column| column.get(at).copied().unwrap_or(0));
            bytes.fold(0, |sum, byte| multiply(factor, sum) ^ byte)
        };
        (0..1024).map(at).collect()
    };
    let expected = [horner(1), horner(2), horner(4)];
    let reversed: Vec<&[u8]> = columns.iter().rev().map(Vec::as_slice).collect();
    for kernel in Kernel::available() {
        let mut parity = vec![vec![0xee; 1024]; 3];
        let mut members: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        generate_with(*kernel, &reversed, &mut members);
        assert!(parity[..] == expected[..], "{kernel:?}");
    }
}

#[test]
fn old_and_new_content_update_parity_as_their_delta_does() {
    let data: Vec<Vec<u8>> = (0..4).map(|i| noise(i, 777)).collect();
    let new = noise(50, 777);
    let [mut p, mut q] = [reference(&data, 0, 777), reference(&data, 1, 777)];
    update(&[(2, &data[2]), (2, &new)], &mut [Some(&mut p), Some(&mut q)]);
    let data = [data[0].clone(), data[1].clone(), new, data[3].clone()];
    assert_eq!([p, q], [reference(&data, 0, 777), reference(&data, 1, 777)]);
}

#[test]
#[should_panic(expected = "2 data members are lost and 1 parity members are present")]
fn to_rebuild_more_than_parity_can_give_back_is_our_bug() {
    let (mut a, mut b) = ([0; 8], [0; 8]);
    let mut data = [Member::Lost(&mut a), Member::Lost(&mut b), Member::Present(&[1; 8])];
    reconstruct(&mut data, &mut [Member::Present(&[1; 8]), Member::Absent]);
}

#[test]
#[should_panic(expected = "a data member is longer than the parity")]
fn a_data_member_longer_than_the_parity_is_our_bug() {
    generate(&[&[0; 8], &[0; 9]], &mut [&mut [0; 8]]);
}

#[test]
#[should_panic(expected = "at most 255 data members")]
fn a_256th_data_member_is_our_bug() {
    let members = vec![&[0_u8; 8][..]; 256];
    generate(&members, &mut [&mut [0; 8]]);
}

/// A plain sum has no limit of members, unlike a stripe, and is taken in parts.
#[test]
fn a_sum_of_more_sources_than_a_stripe_has_members_is_whole() {
    let sources: Vec<Vec<u8>> = (0..600).map(|i| noise(i, 65)).collect();
    let mut target = vec![0xee; 65];
    xor_many(&mut target, &slices(&sources));
    assert_eq!(target, reference(&sources, 0, 65));
}
