//! What files take of a file system that gives space by whole blocks.

use std::ops::RangeInclusive;
use stdx::ByteCount;

/// What so many files take on average, each size of the range as likely as another.
pub fn space(files: u64, sizes: RangeInclusive<ByteCount>, block: ByteCount) -> ByteCount {
    let block = u128::from(block.bytes().max(1));
    // Blocks of one file of each size from 1 to this. What is too large for it is too large for any disk.
    let blocks_upto = |size: u128| {
        let (whole, rest) = (size / block, size % block);
        (block * whole).saturating_mul(whole + 1) / 2 + rest * (whole + 1)
    };
    let (min, max) = (u128::from(sizes.start().bytes()), u128::from(sizes.end().bytes()));
    let blocks = blocks_upto(max).saturating_sub(blocks_upto(min.max(1) - 1));
    let each = blocks.saturating_mul(block).div_ceil(max.saturating_sub(min) + 1);
    ByteCount(u64::try_from(each.saturating_mul(u128::from(files))).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a formula that is near and not right, at blocks that are begun, sizes of nothing and ends of the range.
    #[test]
    fn it_is_the_mean_of_all_sizes() {
        for (min, max) in [(0, 0), (0, 1), (1, 1), (5, 5), (3, 17), (8, 24), (0, 1000), (7, 9)] {
            for block in [1, 2, 8, 512] {
                let sum: u64 = (min..=max).map(|size: u64| size.next_multiple_of(block)).sum();
                let mean = sum.div_ceil(max - min + 1);
                let told = space(3, ByteCount(min)..=ByteCount(max), ByteCount(block));
                assert_eq!(told, ByteCount(3 * mean), "{min} to {max} in blocks of {block}");
            }
        }
        let all = ByteCount(0)..=ByteCount(u64::MAX);
        assert_eq!(space(u64::MAX, all, ByteCount(1)), ByteCount(u64::MAX));
    }
}
