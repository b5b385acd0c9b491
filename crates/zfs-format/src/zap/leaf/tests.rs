//! What could break: numbers of chunks that lead in circles or out of the block, lengths that don't match, the bucket
//! of a hash under a long prefix, arrays that just fill their chunks.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn value() -> impl Strategy<Value = LeafValue> {
    (prop::sample::select(vec![1u8, 2, 4, 8]), vec(any::<u64>(), 0..30)).prop_map(
        |(number_bytes, numbers)| {
            let shift = 64 - u32::from(number_bytes) * 8;
            LeafValue { number_bytes, numbers: numbers.into_iter().map(|n| n >> shift).collect() }
        },
    )
}

fn leaf(numbers: bool) -> impl Strategy<Value = Leaf> {
    let key = move || {
        if numbers {
            vec(any::<u64>(), 1..6).prop_map(Key::Numbers).boxed()
        } else {
            vec(1u8.., 0..60).prop_map(Key::Name).boxed()
        }
    };
    // Some have one hash.
    let hash = prop_oneof![3 => any::<u64>(), 2 => Just(7 << 40)];
    let entry = (key(), hash, 0u32..3, value()).prop_map(|(key, hash, differentiator, value)| {
        LeafEntry { key, hash, differentiator, value }
    });
    (vec(entry, 0..12), 0u16..20, 0u8..2).prop_map(|(entries, prefix_bits, flags)| Leaf {
        block_shift: 14,
        prefix: 5,
        prefix_bits,
        flags,
        entries,
    })
}

/// Looking up each of these keys in the block gives what all of it, decoded, has first in the key's bucket, and its hash the names of
/// that in their order; where it can't be decoded, anything but a panic.
fn agree(keys: &Leaf, block: &[u8], endian: Endian, flags: u64) {
    let Ok(view) = LeafView::of(block, endian, flags) else { return };
    let decoded = Leaf::decode(block, endian, flags);
    for LeafEntry { key, hash, .. } in &keys.entries {
        let found = view.get(*hash, key.as_ref());
        let found = found.map(|found| found.map(|value| (value.to_value(), value.number())));
        // Any name of the hash is meant, or one that is not the first.
        let any = view.first_name(*hash, |_| true);
        let mut passed = 0;
        let second = view.first_name(*hash, |_| {
            passed += 1;
            passed == 2
        });
        let Ok(decoded) = &decoded else { continue };
        let bucket = |hash| view.shape.bucket(hash, view.prefix_bits);
        let mut first = 0;
        let mut chains = vec![first; view.shape.buckets];
        // Entries are listed chain by chain: one stands in the bucket whose chain has it.
        for (at, chain) in chains.iter_mut().enumerate() {
            let mut many = 0;
            view.each_of_bucket(at, |_, _| {
                many += 1;
                Ok(true)
            })
            .expect("it was decoded");
            *chain = first;
            first += many;
        }
        let start = chains[bucket(*hash)];
        let end = chains.get(bucket(*hash) + 1).copied().unwrap_or(decoded.entries.len());
        let chain = &decoded.entries[start..end];
        let is_it = |entry: &&LeafEntry| entry.hash == *hash && entry.key == *key;
        let expected = chain.iter().find(is_it).map(|entry| &entry.value);
        let expected = expected.map(|value| (Ok(value.clone()), Ok(value.number())));
        assert_eq!(found, Ok(expected));
        let mut of_hash = chain.iter().filter(|entry| entry.hash == *hash);
        for found in [any, second] {
            let found = found.expect("it was decoded");
            let found = found.map(|(name, value)| (Key::Name(name), value.to_value()));
            let expected = of_hash.next().filter(|_| matches!(key, Key::Name(_)));
            let expected = expected.map(|entry| (entry.key.clone(), Ok(entry.value.clone())));
            assert_eq!(found, expected);
        }
    }
}

fn sorted(mut leaf: Leaf) -> Leaf {
    leaf.entries.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
    leaf
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn entries_come_out_as_they_went_in(
        (leaf, flags) in prop_oneof![(leaf(false), Just(0)), (leaf(true), Just(3))],
        bits in vec(any::<prop::sample::Index>(), 1..4),
    ) {
        for endian in [Endian::Little, Endian::Big] {
            let mut block = leaf.encode(endian).expect("it fits");
            prop_assert_eq!(block.len(), 1 << 14);
            let decoded = Leaf::decode(&block, endian, flags).expect("it was written by us");
            prop_assert_eq!(sorted(decoded), sorted(leaf.clone()));
            agree(&leaf, &block, endian, flags);
            prop_assert!(Leaf::decode(&block[..block.len() - 1], endian, flags).is_err());
            for bit in &bits {
                // The front of the block, where something stands.
                let bit = bit.index(6000 * 8);
                block[bit / 8] ^= 1 << (bit % 8);
            }
            agree(&leaf, &block, endian, flags);
            if let Ok(flipped) = Leaf::decode(&block, endian, flags) {
                agree(&flipped, &block, endian, flags);
                let _ = flipped.encode(endian);
            }
        }
    }
}

#[test]
fn a_chain_in_a_circle_is_an_error() {
    let entry = LeafEntry {
        key: Key::Name(b"a".to_vec()),
        hash: 0,
        differentiator: 0,
        value: LeafValue { number_bytes: 8, numbers: vec![7] },
    };
    assert_eq!(entry.value.number(), Some(7));
    let leaf = Leaf { block_shift: 9, prefix: 0, prefix_bits: 0, flags: 0, entries: vec![entry] };
    let mut block = leaf.encode(Endian::Little).expect("it fits");
    // The entry's next entry is itself.
    let at = HEADER_BYTES + 2 * 16 + 2;
    block[at..at + 2].copy_from_slice(&[0, 0]);
    let error = Leaf::decode(&block, Endian::Little, 0).expect_err("a circle");
    assert_eq!(error.problem, Problem::Twice);
}

#[test]
fn what_does_not_fit_is_refused() {
    let entry = LeafEntry {
        key: Key::Name(vec![b'x'; 40]),
        hash: 0,
        differentiator: 0,
        value: LeafValue { number_bytes: 1, numbers: vec![7] },
    };
    let mut leaf =
        Leaf { block_shift: 9, prefix: 0, prefix_bits: 0, flags: 0, entries: vec![entry; 9] };
    assert!(leaf.encode(Endian::Little).is_err());
    leaf.entries.truncate(4);
    assert!(leaf.encode(Endian::Little).is_ok());
    leaf.entries[0].value.numbers = vec![256];
    assert!(leaf.encode(Endian::Little).is_err());
}
