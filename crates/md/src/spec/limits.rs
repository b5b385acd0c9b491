//! How large and how many: the numbers that bound an array.

use stdx::ByteCount;

/// The default chunk of levels that stripe: md's.
pub const CHUNK_DEFAULT: ByteCount = ByteCount::kib(512);
/// A chunk is a multiple of this: a page, as in md.
pub const CHUNK_MIN: ByteCount = ByteCount::kib(4);
/// The largest chunk: a row of it on 100 members still fits memory. md allows 2 GiB.
pub const CHUNK_MAX: ByteCount = ByteCount::gib(1);
/// The most members: coefficients of Q for two more than 255 data members repeat.
pub const MEMBERS_MAX: usize = 256;
/// What the stripe cache holds for each member by default: md's 256 pages of 4 KiB.
pub const STRIPE_CACHE_PER_MEMBER_DEFAULT: ByteCount = ByteCount::mib(1);
