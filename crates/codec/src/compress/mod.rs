//! Compression of blocks: lzjb, zle, lz4, gzip, zstd, in the frames that ZFS stores them in.
//!
//! A block's length before and after compression stands elsewhere (in its pointer), so a decompressor
//! fills exactly the buffer that it is given, or says that the bytes are bad. What is stored is padded to
//! whole sectors; each form knows where its own end is, and what lies behind does not count.
//!
//! | form | frame | who compresses |
//! |---|---|---|
//! | lzjb | none | this crate |
//! | zle | none | this crate |
//! | lz4 | length (4 B, big-endian), one raw block | lz4_flex |
//! | gzip | a zlib stream | flate2 over zlib-rs |
//! | zstd | length (4 B, big-endian), version and level (4 B), one frame without its magic number | libzstd |
//!
//! A compressor writes into a place whose length is the limit, and gives up where the result doesn't fit: the block is
//! stored as it is. Bytes that don't compress cost little: lzjb, zle, gzip and zstd stop where the place is full, lz4
//! looks at fewer and fewer places the longer it finds nothing. zstd's better levels are tried only on what lz4 or its
//! first level make smaller, as OpenZFS does it since 2.2.
//!
//! **Source**: the forms' own descriptions (RFC 1950, RFC 8878, the LZ4 block format); lzjb, zle and the
//! frames as in OpenZFS.

mod lzjb;
mod zle;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::cell::RefCell;
use std::io::Read;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

/// Runs of zeros shorter than this are not worth their token: what OpenZFS's zle uses.
const ZLE_RUN: usize = 64;
/// Of zstd's and lz4's length.
const LENGTH_BYTES: usize = 4;
/// Of zstd's whole header.
const ZSTD_HEADER_BYTES: usize = 8;
/// The version of libzstd that is noted in a block's header, as `major·10000 + minor·100 + patch`.
const ZSTD_VERSION: u32 = 10_405;
/// From this level on, and for blocks so long, zstd is tried only where something faster gains: OpenZFS's bounds.
const ZSTD_TRIED_LEVEL: i32 = 3;
const ZSTD_TRIED_BYTES: usize = 128 << 10;
/// So much room for lz4's worst case is kept a thread; more is given back at once. Blocks of 1 MiB are common.
const LZ4_KEPT_BYTES: usize = 2 << 20;

/// A form of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lempel-Ziv by Jeff Bonwick: ZFS's first.
    Lzjb,
    /// Runs of zeros.
    Zle,
    /// LZ4.
    Lz4,
    /// zlib's deflate, level 1 to 9.
    Gzip(u32),
    /// zstd, at one of its levels.
    Zstd(i32),
}

/// The number by which the first of zstd's fast levels goes, in properties and in blocks.
const ZSTD_FAST_CODE: u8 = 103;
/// zstd's fast levels, in the order of their numbers.
const ZSTD_FAST_LEVELS: [i32; 21] = [
    -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -20, -30, -40, -50, -60, -70, -80, -90, -100, -500,
    -1000,
];
/// zstd's level where nobody says which.
const ZSTD_LEVEL: i32 = 3;
/// zstd's best level.
const ZSTD_LEVEL_MAX: u8 = 19;

/// zstd's level of a number in a property: 1 to 19, or 103 and more for the fast ones. Any other number is the level where nobody
/// says which.
pub fn zstd_level_of(code: u8) -> i32 {
    match code {
        1..=ZSTD_LEVEL_MAX => code.into(),
        _ => {
            let fast = code.checked_sub(ZSTD_FAST_CODE).map(usize::from);
            fast.and_then(|fast| ZSTD_FAST_LEVELS.get(fast)).copied().unwrap_or(ZSTD_LEVEL)
        }
    }
}

/// The number that a block has for a level. OpenZFS takes no other for one of zstd's.
fn zstd_code_of(level: i32) -> u8 {
    match ZSTD_FAST_LEVELS.iter().position(|known| *known == level) {
        Some(fast) => ZSTD_FAST_CODE + fast as u8,
        None => level.clamp(1, ZSTD_LEVEL_MAX.into()) as u8,
    }
}

/// Bytes that are no block of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block does not decompress as {form} to {len} bytes")]
pub struct BadBlock {
    /// The form's name.
    pub form: &'static str,
    /// Bytes that it should have given.
    pub len: usize,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Lzjb => "lzjb",
            Form::Zle => "zle",
            Form::Lz4 => "lz4",
            Form::Gzip(_) => "gzip",
            Form::Zstd(_) => "zstd",
        }
    }

    /// Fills `into` from a compressed block.
    ///
    /// # Errors
    /// Where the bytes are no such block of this length. What `into` holds then is anything.
    pub fn decompress(self, block: &[u8], into: &mut [u8]) -> Result<(), BadBlock> {
        let len = into.len();
        let done = match self {
            Form::Lzjb => lzjb::decompress(block, into),
            Form::Zle => zle::decompress(block, into, ZLE_RUN),
            Form::Lz4 => framed(block, LENGTH_BYTES)
                .and_then(|raw| lz4_flex::block::decompress_into(raw, into).ok())
                .filter(|got| *got == len)
                .map(|_| ()),
            Form::Gzip(_) => flate2::read::ZlibDecoder::new(block).read_exact(into).ok(),
            Form::Zstd(_) => framed(block, ZSTD_HEADER_BYTES)
                .and_then(|frame| zstd_decompress(frame, into))
                .filter(|got| *got == len)
                .map(|_| ()),
        };
        done.ok_or(BadBlock { form: self.name(), len })
    }

    /// Compresses into a place, and says how many bytes were written there; `None` where it doesn't fit. What the
    /// place holds then is anything.
    pub fn compress_into(self, data: &[u8], into: &mut [u8]) -> Option<usize> {
        match self {
            Form::Lzjb => lzjb::compress(data, into),
            Form::Zle => zle::compress(data, into, ZLE_RUN),
            Form::Lz4 => lz4_compress(data, into),
            Form::Gzip(level) => {
                let level = flate2::Compression::new(level.clamp(1, 9));
                let mut deflate = flate2::Compress::new(level, true);
                let done = deflate.compress(data, into, flate2::FlushCompress::Finish).ok()?;
                let is_whole = done == flate2::Status::StreamEnd;
                is_whole.then(|| deflate.total_out() as usize)
            }
            Form::Zstd(level) => {
                let is_worth_a_try = level < ZSTD_TRIED_LEVEL
                    || data.len() < ZSTD_TRIED_BYTES
                    || lz4_compress(data, into).is_some()
                    || zstd_compress(data, 1, into).is_some();
                if is_worth_a_try { zstd_compress(data, level, into) } else { None }
            }
        }
    }

    /// The compressed block; `None` where it would have more than `len_max` bytes.
    pub fn compress(self, data: &[u8], len_max: usize) -> Option<Vec<u8>> {
        // More than any form makes of any bytes.
        let mut block = vec![0; len_max.min(data.len() + data.len() / 2 + 1024)];
        let len = self.compress_into(data, &mut block)?;
        block.truncate(len);
        Some(block)
    }
}

/// The bytes behind a header whose first four bytes say how many there are.
fn framed(block: &[u8], header: usize) -> Option<&[u8]> {
    let (length, _) = block.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    block.get(header..header.checked_add(length)?)
}

/// lz4's table, and a place for blocks that may turn out too long: lz4_flex wants room for the worst case.
#[derive(Default)]
struct Lz4 {
    table: CompressTable,
    place: Vec<u8>,
}

thread_local! {
    /// A decompressor's tables are made once a thread.
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    /// A compressor's as well: some hundred KiB at the usual levels, several MiB at the highest.
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static LZ4: RefCell<Lz4> = RefCell::default();
}

fn lz4_compress(data: &[u8], into: &mut [u8]) -> Option<usize> {
    let (header, raw) = into.split_first_chunk_mut::<LENGTH_BYTES>()?;
    let most = get_maximum_output_size(data.len());
    let len = LZ4.with_borrow_mut(|Lz4 { table, place }| {
        if raw.len() >= most {
            return compress_into_with_table(data, raw, table).ok();
        }
        if place.len() < most {
            place.resize(most, 0);
        }
        let len = compress_into_with_table(data, place, table).ok();
        let fits = len.and_then(|len| Some((raw.get_mut(..len)?, len)));
        let len = fits.map(|(raw, len)| {
            raw.copy_from_slice(&place[..len]);
            len
        });
        if place.len() > LZ4_KEPT_BYTES {
            *place = Vec::new();
        }
        len
    })?;
    *header = u32::try_from(len).ok()?.to_be_bytes();
    Some(LENGTH_BYTES + len)
}

fn zstd_decompress(frame: &[u8], into: &mut [u8]) -> Option<usize> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let context = match kept {
            Some(context) => context,
            none => {
                let mut context = DCtx::try_create()?;
                context.set_parameter(DParameter::Format(FrameFormat::Magicless)).ok()?;
                none.insert(context)
            }
        };
        context.decompress(into, frame).ok()
    })
}

fn zstd_compress(data: &[u8], level: i32, into: &mut [u8]) -> Option<usize> {
    let (header, place) = into.split_first_chunk_mut::<ZSTD_HEADER_BYTES>()?;
    let len = COMPRESSOR.with_borrow_mut(|kept| {
        let context = match kept {
            Some(context) => context,
            none => {
                let mut context = CCtx::try_create()?;
                context.set_parameter(CParameter::Format(FrameFormat::Magicless)).ok()?;
                context.set_parameter(CParameter::ContentSizeFlag(false)).ok()?;
                none.insert(context)
            }
        };
        context.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        context.compress2(place, data).ok()
    })?;
    let length = u32::try_from(len).ok()?;
    // Version in the upper three bytes, level in the last.
    let version = ZSTD_VERSION << 8 | u32::from(zstd_code_of(level));
    header[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    header[LENGTH_BYTES..].copy_from_slice(&version.to_be_bytes());
    Some(ZSTD_HEADER_BYTES + len)
}

#[cfg(test)]
mod tests {
    //! What could break: a block that comes back otherwise, bad bytes that are taken for a block or
    //! write beyond the buffer, a match that reaches before the beginning.

    use super::*;
    use proptest::prelude::*;

    const FORMS: [Form; 6] =
        [Form::Lzjb, Form::Zle, Form::Lz4, Form::Gzip(6), Form::Zstd(3), Form::Zstd(-5)];

    /// Bytes with runs, repeats and noise.
    fn data() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            (0_usize..300).prop_map(|len| vec![0; len]),
            prop::collection::vec(any::<u8>(), 0..100),
            (prop::collection::vec(any::<u8>(), 1..20), 1_usize..30)
                .prop_map(|(word, times)| word.repeat(times)),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// OpenZFS reads no block whose header has another number.
    #[test]
    fn levels_of_zstd_have_the_numbers_of_properties() {
        for (code, level) in [(0, 3), (1, 1), (19, 19), (103, -1), (113, -20), (123, -1000)] {
            assert_eq!(zstd_level_of(code), level);
            assert_eq!(zstd_code_of(level), if code == 0 { 3 } else { code });
            let block = Form::Zstd(level).compress(&[7; 4096], 4096).expect("it is shorter");
            assert_eq!(block[ZSTD_HEADER_BYTES - 1], zstd_code_of(level));
        }
        assert_eq!((zstd_level_of(20), zstd_level_of(102), zstd_level_of(255)), (3, 3, 3));
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back_whatever_lies_behind_it(data in data(), behind in 0_usize..600) {
            for form in FORMS {
                let Some(mut block) = form.compress(&data, usize::MAX) else {
                    // An empty block has nothing to store.
                    prop_assert!(data.is_empty(), "{:?}", form);
                    continue;
                };
                block.resize(block.len() + behind, 0);
                let mut back = vec![0xaa; data.len()];
                prop_assert_eq!(form.decompress(&block, &mut back), Ok(()), "{:?}", form);
                prop_assert_eq!(&back, &data, "{:?}", form);
            }
        }

        /// What could break: a byte behind the place, a block that is said to fit and is cut.
        #[test]
        fn a_block_fits_its_place_whole_or_not_at_all(data in data(), room in 0_usize..600) {
            for form in FORMS {
                let whole = form.compress(&data, usize::MAX);
                let mut place = vec![0; room];
                let fits = form.compress_into(&data, &mut place);
                let expected = whole.as_ref().filter(|whole| whole.len() <= room);
                if form == Form::Zstd(3) || form == Form::Zstd(-5) {
                    // Where there is little room it may give up though it would just fit.
                    prop_assert!(fits.is_none() || expected.is_some());
                } else {
                    prop_assert_eq!(fits.is_some(), expected.is_some(), "{:?}", form);
                }
                if let Some(len) = fits {
                    prop_assert_eq!(Some(&place[..len]), expected.map(|whole| &whole[..]));
                }
            }
        }

        #[test]
        fn bad_bytes_are_refused_or_give_something(
            mut block in prop::collection::vec(any::<u8>(), 0..200),
            len in 0_usize..1000,
            framed in any::<bool>(),
        ) {
            if framed && block.len() >= 8 {
                let length = (block.len() - 8) as u32;
                block[..4].copy_from_slice(&length.to_be_bytes());
            }
            for form in FORMS {
                let mut into = vec![0; len];
                let _ = form.decompress(&block, &mut into);
            }
        }

        #[test]
        fn a_block_that_was_cut_is_refused(data in data()) {
            prop_assume!(data.len() > 40);
            for form in FORMS {
                let block = form.compress(&data, usize::MAX).expect("there is something");
                let mut into = vec![0; data.len()];
                let cut = &block[..block.len() / 2];
                prop_assert!(form.decompress(cut, &mut into).is_err(), "{:?}", form);
            }
        }
    }

    #[test]
    fn a_block_that_would_not_be_shorter_is_not_made() {
        let noise: Vec<u8> = (0_u32..128)
            .flat_map(|n| crate::checksum::sha256(&n.to_le_bytes()).0)
            .flat_map(u64::to_le_bytes)
            .collect();
        let much = noise.repeat(32).into_iter().zip(0_u32..);
        let much: Vec<u8> =
            much.map(|(byte, n)| byte ^ (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        for form in [&FORMS[..], &[Form::Zstd(9)]].concat() {
            assert_eq!(form.compress(&noise, 3584), None, "{form:?}");
            assert_eq!(form.compress(&much, much.len() - much.len() / 8), None, "{form:?}");
        }
        for form in FORMS {
            let zeros = form.compress(&[0; 65536], 57_344).expect("zeros compress");
            assert!(zeros.len() <= 57_344 && zeros.len() < 4100, "{form:?}: {}", zeros.len());
        }
    }
}
