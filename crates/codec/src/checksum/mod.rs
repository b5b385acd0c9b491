//! Checksums of blocks: fletcher 2 and 4, SHA-256, SHA-512/256, Skein, Edon-R, BLAKE3.
//!
//! Each gives 256 bits as four words of 64, the form in which a block pointer of ZFS keeps them. How a
//! digest's bytes become words is part of the checksum: SHA-256's are read big-endian, the others'
//! in the order of the machine that wrote the pool; here that is little-endian, and a big-endian pool's
//! are [swapped](Sum::swapped).
//!
//! **Source**: the Fletcher sums' definition as in OpenZFS (two interleaved sums of 64-bit words; four
//! orders of one sum of 32-bit words), FIPS 180-4, the BLAKE3 paper; Skein's and Edon-R's stand in their files. SHA-2
//! and BLAKE3 are libraries'.

mod edonr;
mod fletcher;
#[cfg(target_arch = "x86_64")]
mod fletcher_x86;
mod skein;
mod sum;

pub use edonr::edonr;
pub use fletcher::{Fletcher4, Width, fletcher2, fletcher4, fletcher4_of};
pub use skein::skein;
pub use sum::Sum;

use sha2::{Digest, Sha256, Sha512, Sha512_256};

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> Sum {
    Sum::of_be_bytes(&Sha256::digest(bytes).into())
}

/// SHA-512 cut to 256 bits, with the start values of FIPS 180-4.
pub fn sha512_256(bytes: &[u8]) -> Sum {
    Sum::of_le_bytes(&Sha512_256::digest(bytes).into())
}

/// The whole of SHA-512: what the MACs of encrypted pointers are hashed by.
pub fn sha512(bytes: &[u8]) -> [u8; 64] {
    Sha512::digest(bytes).into()
}

/// BLAKE3 with a key: the pool's salt.
pub fn blake3(salt: &[u8; 32], bytes: &[u8]) -> Sum {
    Sum::of_le_bytes(blake3::keyed_hash(salt, bytes).as_bytes())
}

#[cfg(test)]
mod tests {
    //! What could break: a digest whose words are read in the wrong order; a vector form that differs
    //! from the definition.

    use super::*;
    use proptest::prelude::*;

    /// The definition, word by word.
    fn fletcher4_defined(bytes: &[u8]) -> Sum {
        let mut sums = [0_u64; 4];
        for word in bytes.chunks_exact(4) {
            let word = u32::from_le_bytes(word.try_into().expect("four bytes"));
            sums[0] = sums[0].wrapping_add(word.into());
            for order in 1..4 {
                sums[order] = sums[order].wrapping_add(sums[order - 1]);
            }
        }
        Sum(sums)
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        let sum = sha256(b"abc");
        assert_eq!(sum.0[0], 0xba78_16bf_8f01_cfea);
        assert_eq!(sum.0[3], 0xb410_ff61_f200_15ad);
        assert_eq!(sha512_256(b"abc").swapped().0[0], 0x5304_8e26_8194_1ef9);
        assert_eq!(sha512(b"abc")[..4], [0xdd, 0xaf, 0x35, 0xa1]);
        let key = *b"whats the Elvish word for friend";
        assert_eq!(blake3(&key, b"").swapped().0[0], 0x92b2_b756_04ed_3c76);
    }

    #[test]
    fn salted_sums_are_those_of_a_pool_that_openzfs_wrote() {
        // The stored block 0 of object 12 in two datasets of the fixture `checksum`: 512 bytes, zeros at the end.
        let salt = bytes("721fa21190a6dcb50591bb0477a1ef71dd6d25f4edf193ae964fde6e558728b6");
        let salt: [u8; 32] = salt.try_into().expect("32 bytes");
        let mut block = bytes(
            "000000d413300100f51a20736b65696e362064656c746120666f7874726f7420636861726c69652062726176\
                    6f20686f74656c1c00736a756c6965740a4000143141000f40001c14204100143241000f80001b2420664100\
                    143341000fc0001a3420666f4100143441000f000119000f01044100143541000015000f400114012b000441\
                    00143641000f80011701400014724100143741000f80001b15720401143841000015000f000211028000156f\
                    0802143941000015000f40021004400004080224313041000f80000f1f000100ff2c50",
        );
        block.resize(512, 0);
        let expected = [
            0x6330_90f8_6c73_fc43,
            0xac00_5e25_1614_3aa5,
            0xc003_a67a_5ce7_1b5c,
            0x1e49_1df0_b826_f4e5,
        ];
        assert_eq!(skein(&salt, &block), Sum(expected));
        let mut block = bytes(
            "000000ce13300100f5062065646f6e723620666f7874726f7420696e6469610e00f2056a756c696574206465\
                    6c746120636861726c69650e00130a4000143141000f40001c14204100143241000f80001b24206a41001433\
                    41000fc0001a34206a754100143441000f00011944206a756c4100143541000f400118004000146941001436\
                    41000f80011701400014654100143741000fc0011602400014744100143841000f00021503400005c7011439\
                    41000f4002140440001367820024313041000f80020f1f000100ff2c50",
        );
        block.resize(512, 0);
        let expected = [
            0xab30_0055_5477_77bf,
            0xb2f9_4bac_f7d8_bf2c,
            0x942e_47ec_c6f0_a804,
            0x5c79_9576_ce1d_f648,
        ];
        assert_eq!(edonr(&salt, &block), Sum(expected));
    }

    fn bytes(digits: &str) -> Vec<u8> {
        let pairs = digits.as_bytes().as_chunks::<2>().0.iter();
        let pairs = pairs.map(|pair| std::str::from_utf8(pair).expect("digits"));
        pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
    }

    #[test]
    fn fletcher_of_known_words() {
        let bytes: Vec<u8> = [1_u32, 2, 3, 4].iter().flat_map(|word| word.to_le_bytes()).collect();
        // a: 1 3 6 10, b: 1 4 10 20, c: 1 5 15 35, d: 1 6 21 56
        assert_eq!(fletcher4(&bytes), Sum([10, 20, 35, 56]));
        // Words of 64 bits, in turns: 1+2·2³², 3+4·2³²
        let (even, odd) = (1 + (2_u64 << 32), 3 + (4_u64 << 32));
        assert_eq!(fletcher2(&bytes), Sum([even, odd, even, odd]));
    }

    proptest! {
        #[test]
        fn every_form_gives_what_the_definition_gives(
            words in prop::collection::vec(any::<u32>(), 0..700),
            big in any::<bool>(),
        ) {
            let filled = if big { words.iter().map(|_| u32::MAX).collect() } else { words };
            let bytes: Vec<u8> = filled.iter().flat_map(|word| word.to_le_bytes()).collect();
            let swapped: Vec<u8> = filled.iter().flat_map(|word| word.to_be_bytes()).collect();
            let expected = fletcher4_defined(&bytes);
            for width in Width::all() {
                prop_assert_eq!(fletcher4_of(width, &bytes, false), expected, "{:?}", width);
                prop_assert_eq!(fletcher4_of(width, &swapped, true), expected, "{:?} swapped", width);
            }
        }

        #[test]
        fn a_sum_continues_where_it_stopped(
            words in prop::collection::vec(any::<u32>(), 0..300),
            at in 0_usize..300,
        ) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let (first, second) = bytes.split_at((at * 4).min(bytes.len()));
            let mut sum = Fletcher4::default();
            sum.update(first);
            sum.update(second);
            prop_assert_eq!(sum.sum(), fletcher4_defined(&bytes));
        }
    }
}
