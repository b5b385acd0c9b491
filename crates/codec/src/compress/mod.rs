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
//! A compressor returns `None` where the result would not be shorter than the limit it is given: the
//! block is stored as it is.
//!
//! **Source**: the forms' own descriptions (RFC 1950, RFC 8878, the LZ4 block format); lzjb, zle and the
//! frames as in OpenZFS.

mod lzjb;
mod zle;

use std::cell::RefCell;
use std::io::{Read, Write};
use zstd::zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

/// Runs of zeros shorter than this are not worth their token: what OpenZFS's zle uses.
const ZLE_RUN: usize = 64;
/// Of zstd's and lz4's length.
const LENGTH_BYTES: usize = 4;
/// Of zstd's whole header.
const ZSTD_HEADER_BYTES: usize = 8;
/// The version of libzstd that is noted in a block's header, as `major·10000 + minor·100 + patch`.
const ZSTD_VERSION: u32 = 10_405;

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

    /// The compressed block; `None` where it would have more than `len_max` bytes.
    pub fn compress(self, data: &[u8], len_max: usize) -> Option<Vec<u8>> {
        let block = match self {
            Form::Lzjb => lzjb::compress(data, len_max)?,
            Form::Zle => zle::compress(data, len_max, ZLE_RUN)?,
            Form::Lz4 => {
                let raw = lz4_flex::block::compress(data);
                let length = u32::try_from(raw.len()).ok()?;
                [&length.to_be_bytes()[..], &raw].concat()
            }
            Form::Gzip(level) => {
                let level = flate2::Compression::new(level.clamp(1, 9));
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(data).and_then(|()| encoder.finish()).ok()?
            }
            Form::Zstd(level) => zstd_compress(data, level)?,
        };
        (block.len() <= len_max).then_some(block)
    }
}

/// The bytes behind a header whose first four bytes say how many there are.
fn framed(block: &[u8], header: usize) -> Option<&[u8]> {
    let (length, _) = block.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    block.get(header..header.checked_add(length)?)
}

thread_local! {
    /// A decompressor's tables are made once a thread.
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    /// A compressor's as well: some hundred KiB at the usual levels, several MiB at the highest.
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
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

fn zstd_compress(data: &[u8], level: i32) -> Option<Vec<u8>> {
    let frame = COMPRESSOR.with_borrow_mut(|kept| {
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
        let mut frame = Vec::with_capacity(zstd::zstd_safe::compress_bound(data.len()));
        context.compress2(&mut frame, data).ok()?;
        Some(frame)
    })?;
    let length = u32::try_from(frame.len()).ok()?;
    // Version in the upper three bytes, level in the last.
    let version = ZSTD_VERSION << 8 | u32::from(level as u8);
    Some([&length.to_be_bytes()[..], &version.to_be_bytes(), &frame].concat())
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
        for form in [Form::Lzjb, Form::Zle] {
            assert_eq!(form.compress(&noise, 3584), None, "{form:?}");
        }
        for form in FORMS {
            let zeros = form.compress(&[0; 65536], 57_344).expect("zeros compress");
            assert!(zeros.len() <= 57_344 && zeros.len() < 4100, "{form:?}: {}", zeros.len());
        }
    }
}
