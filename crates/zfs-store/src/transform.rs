//! What a block goes through between memory and the vdevs, both ways; one job for the processor a block.
//!
//! ```text
//!   writing   bytes ── compressed ── encrypted ── summed ──► what is stored, and a pointer that lacks its places and births
//!   reading   what is stored ── (summed: vdev) ── decrypted ── decompressed ──► bytes
//! ```
//!
//! Reading undoes what writing did, as the pointer says; both stand here so that each is judged by the other. The sum of
//! what is read was compared before, by the vdev, which has other ways to make the bytes ([`expected`](crate::expected)).
//!
//! **Writing**, in order:
//!
//! 1. A block of zeros that may be compressed is a hole: nothing is stored.
//! 2. Compression has to save an eighth, or the block is stored as it is: that is how long the compressor's place is, so it
//!    gives up there. What it made fits the pointer itself ([`Props::embed`]), or is rounded up to what the vdevs
//!    allocate and filled up with zeros; where rounding eats what was saved, the block is stored as it is.
//! 3. What is encrypted or authenticated comes before compression in an objset (its codes stand within it) and in indirect
//!    blocks (a hash over their pointers), and after it everywhere else.
//! 4. The sum is over what is stored. In an encrypted dataset it has half the room: see
//!    [`BlockPointer::checksum`](zfs_format::block_pointer::BlockPointer::checksum).
//!
//! Source: OpenZFS 2.3, `zio.c` (`zio_write_compress`, `zio_encrypt`, `zio_checksum_generate`), `zio_compress.c`.

use crate::block::BlockErrorKind;
use crate::crypt::{self, BlockKey, DatasetKey};
use codec::checksum::{self, Fletcher4, Sum};
use codec::compress::{Form, zstd_level_of};
use rt::{Buf, BufMut, CompressKind, Rt, SumKind, Work, WorkKind};
use stdx::ByteCount;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::block_pointer::{BLOCK_BYTES_MAX, BlockPointer, EMBEDDED_BYTES_MAX, Protection};
use zfs_format::checksum::{Checksum, ChecksumFunction};
use zfs_format::compression::Compression;
use zfs_format::object_type::ObjectType;

/// The salt of a pool's salted checksums.
pub type Salt = [u8; 32];

/// A function over whole blocks that is known here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SumFunction {
    Fletcher2,
    Fletcher4,
    Sha256,
    Sha512,
    Blake3(Salt),
    Skein(Salt),
    Edonr(Salt),
}

impl SumFunction {
    /// The kind of work that it is.
    pub(crate) fn kind(&self) -> SumKind {
        match self {
            SumFunction::Fletcher2 | SumFunction::Fletcher4 => SumKind::Fletcher,
            SumFunction::Sha256 => SumKind::Sha256,
            SumFunction::Sha512 => SumKind::Sha512,
            SumFunction::Blake3(_) => SumKind::Blake3,
            SumFunction::Skein(_) => SumKind::Skein,
            SumFunction::Edonr(_) => SumKind::Edonr,
        }
    }

    /// The function of a block that carries no checksum within; nothing for those that have none.
    pub(crate) fn of(
        function: Option<ChecksumFunction>,
        salt: Option<Salt>,
    ) -> Result<Option<SumFunction>, BlockErrorKind> {
        use ChecksumFunction as F;
        let unsupported = |what| Err(BlockErrorKind::Unsupported(what));
        Ok(Some(match function {
            Some(F::Off | F::NoParity) => return Ok(None),
            Some(F::Fletcher2) => SumFunction::Fletcher2,
            Some(F::Fletcher4) => SumFunction::Fletcher4,
            Some(F::Sha256) => SumFunction::Sha256,
            Some(F::Sha512) => SumFunction::Sha512,
            Some(function @ (F::Blake3 | F::Skein | F::Edonr)) => match (function, salt) {
                (F::Blake3, Some(salt)) => SumFunction::Blake3(salt),
                (F::Skein, Some(salt)) => SumFunction::Skein(salt),
                (_, Some(salt)) => SumFunction::Edonr(salt),
                (_, None) => return unsupported("a salted checksum in a pool without a salt"),
            },
            Some(F::Label) => return unsupported("a label's checksum in a block pointer"),
            Some(F::GangHeader) => return unsupported("a gang header's checksum in a pointer"),
            Some(F::Zilog | F::Zilog2) => {
                return unsupported("a log's checksum of a block of data");
            }
            Some(F::Inherit | F::On) | None => return unsupported("its checksum function"),
        }))
    }

    /// The sum of a block, in words of its writer's order.
    pub(crate) fn sum(self, endian: Endian, bytes: &[u8]) -> Sum {
        let ordered = |sum: Sum| if endian == Endian::Little { sum } else { sum.swapped() };
        match self {
            SumFunction::Fletcher2 if endian == Endian::Little => checksum::fletcher2(bytes),
            SumFunction::Fletcher2 => {
                let words = bytes.as_chunks::<8>().0;
                let swapped: Vec<u8> =
                    words.iter().flat_map(|word| u64::from_be_bytes(*word).to_le_bytes()).collect();
                checksum::fletcher2(&swapped)
            }
            SumFunction::Fletcher4 if endian == Endian::Little => checksum::fletcher4(bytes),
            SumFunction::Fletcher4 => {
                let mut sum = Fletcher4::of_big_endian();
                sum.update(bytes);
                sum.sum()
            }
            SumFunction::Sha256 => checksum::sha256(bytes),
            SumFunction::Sha512 => ordered(checksum::sha512_256(bytes)),
            SumFunction::Blake3(salt) => ordered(checksum::blake3(&salt, bytes)),
            SumFunction::Skein(salt) => ordered(checksum::skein(&salt, bytes)),
            SumFunction::Edonr(salt) => ordered(checksum::edonr(&salt, bytes)),
        }
    }
}

/// The sum of a block of an intent log, whose chain has this function.
pub fn log_sum(function: Option<ChecksumFunction>, bytes: &[u8], endian: Endian) -> Checksum {
    let function = match function {
        Some(ChecksumFunction::Zilog) => SumFunction::Fletcher2,
        _ => SumFunction::Fletcher4,
    };
    Checksum { words: function.sum(endian, bytes).0 }
}

/// The first half of a sum, where the second has to make room for a code: of functions that are no good for
/// deduplication both halves count.
pub(crate) fn halved(Sum([a, b, c, d]): Sum, function: Option<ChecksumFunction>) -> [u64; 2] {
    match function {
        Some(function) if function.is_for_dedup() => [a, b],
        _ => [a ^ c, b ^ d],
    }
}

/// Whether a pointer's checksum has only half the room.
pub(crate) fn is_halved(pointer: &BlockPointer) -> bool {
    pointer.uses_crypt() && pointer.object_type() != ObjectType::OBJSET
}

/// What compresses and decompresses; nothing where that is nobody.
fn form(compression: Option<Compression>, zstd_level: u8) -> Result<Option<Form>, BlockErrorKind> {
    Ok(Some(match compression {
        Some(Compression::Off) => return Ok(None),
        Some(Compression::Lzjb) => Form::Lzjb,
        Some(Compression::Gzip(level)) => Form::Gzip(level.into()),
        Some(Compression::Zle) => Form::Zle,
        Some(Compression::Lz4) => Form::Lz4,
        Some(Compression::Zstd) => Form::Zstd(zstd_level_of(zstd_level)),
        Some(Compression::Inherit | Compression::On | Compression::Empty) | None => {
            return Err(BlockErrorKind::Unsupported("its compression"));
        }
    }))
}

/// The kind of work that a compression is.
fn compress_kind(form: Form) -> CompressKind {
    match form {
        Form::Lzjb => CompressKind::Lzjb,
        Form::Gzip(_) => CompressKind::Gzip,
        Form::Zle => CompressKind::Zle,
        Form::Lz4 => CompressKind::Lz4,
        Form::Zstd(_) => CompressKind::Zstd,
    }
}

/// How space is allocated: what is stored has one of these lengths, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// The shortest: a sector of the vdev whose sectors are the smallest.
    pub least: u64,
    /// Longer ones are multiples of this: what divides the sectors of all vdevs.
    pub unit: u64,
}

impl Rounding {
    /// The length that so many bytes are stored in.
    pub fn up(self, bytes: u64) -> u64 {
        if bytes > self.least { bytes.next_multiple_of(self.unit) } else { self.least }
    }
}

/// How a block is to be stored.
#[derive(Clone, Debug)]
pub struct Props {
    /// What it holds.
    pub object_type: ObjectType,
    /// Its level: 0 for data.
    pub level: u8,
    /// How it is compressed.
    pub compression: Compression,
    /// zstd's level, where that is it, by its number in properties: the pointer doesn't say.
    pub zstd_level: u8,
    /// How it is summed.
    pub checksum: ChecksumFunction,
    /// The salt of the pool's salted checksums, if it has one.
    pub salt: Option<Salt>,
    /// Whether a block of data that becomes short enough may stand in its pointer.
    pub embed: bool,
    /// How space is allocated.
    pub rounding: Rounding,
    /// The order of the numbers in it.
    pub endian: Endian,
    /// Of a block in an encrypted dataset.
    pub crypt: Option<Crypt>,
}

/// What a block in an encrypted dataset is encrypted or authenticated with.
#[derive(Clone, Debug)]
pub struct Crypt {
    /// The key, of this salt.
    pub key: BlockKey,
    /// The salt that the block's key is derived by.
    pub salt: [u8; 8],
    /// The initialisation vector. One that was used before with this salt gives the contents away.
    pub iv: [u8; 12],
}

/// What is stored of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: it is zeros.
    Hole,
    /// Nothing but this pointer.
    Embedded(BlockPointer),
    /// These bytes, of the physical size. The pointer lacks its places, its births and its fill.
    Bytes(BlockPointer, Buf),
}

/// Makes of a block what is stored.
///
/// # Errors
/// A function that is not supported, or a block that is none of its type.
///
/// # Panics
/// The block is no whole sectors, or longer than a block may be.
pub async fn store(rt: &Rt, props: Props, block: Buf) -> Result<Stored, BlockErrorKind> {
    let len = block.len() as u64;
    assert!(len > 0 && len.is_multiple_of(512) && len <= BLOCK_BYTES_MAX, "a block of {len} bytes");
    let form = form(Some(props.compression), props.zstd_level)?;
    let bytes = ByteCount(len);
    let sum = SumFunction::of(Some(props.checksum), props.salt)?;
    let summed = if sum.is_some() { bytes } else { ByteCount::ZERO };
    let kind = sum.as_ref().map_or(SumKind::Fletcher, SumFunction::kind);
    let work = Work::new(WorkKind::Checksum(kind), summed);
    let work = form.map_or(work, |form| work.and(WorkKind::Compress(compress_kind(form)), bytes));
    let work = match &props.crypt {
        Some(crypt) => work.and(WorkKind::Encrypt(crypt.key.kind()), bytes),
        None => work,
    };
    // Taken here, so that the pool of this thread gets its memory back.
    let place = form.map(|_| BufMut::for_overwrite(block.len()));
    rt.compute(work, move || stored(&props, form, sum, block, place)).await
}

fn stored(
    props: &Props,
    form: Option<Form>,
    sum: Option<SumFunction>,
    mut block: Buf,
    place: Option<BufMut>,
) -> Result<Stored, BlockErrorKind> {
    let logical = block.len() as u64;
    let mut pointer = BlockPointer::HOLE;
    pointer.set_object_type(props.object_type);
    pointer.set_level(props.level);
    pointer.set_endian(props.endian);
    pointer.set_checksum_function(props.checksum);
    pointer.set_uses_crypt(props.crypt.is_some());
    let mut indirect_mac = None;
    match (&props.crypt, pointer.protection()) {
        (Some(crypt), Protection::Authenticated) if props.object_type == ObjectType::OBJSET => {
            let mut signed = block.try_into_mut().unwrap_or_else(|b| BufMut::copy_of(b.bytes()));
            crypt.key.seal_objset(props.endian, &mut signed)?;
            block = signed.freeze();
        }
        (Some(crypt), Protection::IndirectMac) => {
            indirect_mac = Some(crypt.key.indirect_mac(props.endian, block.bytes())?);
        }
        _ => {}
    }
    let is_zeros = || match block.fill_word() {
        Some(word) => word == 0,
        None => block.bytes().iter().all(|byte| *byte == 0),
    };
    if form.is_some() && is_zeros() {
        return Ok(Stored::Hole);
    }
    let (mut bytes, compression) = match (form, place) {
        (Some(form), Some(mut place)) => {
            // It has to save an eighth.
            let most = block.len() - (block.len() >> 3);
            let len = form.compress_into(block.bytes(), &mut place[..most]);
            let may_embed = props.embed && props.level == 0 && props.crypt.is_none();
            let is_long = planted::is(Bug::EmbeddedTooLong);
            let embedded_max = if is_long { EMBEDDED_BYTES_MAX + 8 } else { EMBEDDED_BYTES_MAX };
            if let Some(mut len) = len.filter(|len| may_embed && *len <= embedded_max) {
                if is_long {
                    len = len.min(EMBEDDED_BYTES_MAX);
                }
                let mut embedded = BlockPointer::embed(&place[..len], logical, props.compression);
                embedded.set_object_type(props.object_type);
                return Ok(Stored::Embedded(embedded));
            }
            let rounded = len.map(|len| (len, props.rounding.up(len as u64)));
            match rounded.filter(|(_, rounded)| *rounded < logical) {
                Some((len, rounded)) => {
                    if !planted::is(Bug::TailNotZeroed) {
                        place[len..rounded as usize].fill(0);
                    }
                    place.truncate(rounded as usize);
                    (place.freeze(), props.compression)
                }
                None => (block, Compression::Off),
            }
        }
        _ => (block, Compression::Off),
    };
    assert!(bytes.len() as u64 <= logical, "what is stored is not longer than what was given");
    pointer.set_sizes(logical, bytes.len() as u64);
    pointer.set_compression(compression);
    let mut mac = indirect_mac;
    if let Some(crypt) = &props.crypt
        && pointer.protection() != Protection::IndirectMac
        && props.object_type != ObjectType::OBJSET
    {
        if pointer.protection() == Protection::Encrypted {
            pointer.set_salt_and_iv(crypt.salt, crypt.iv);
        }
        let mut text = bytes.try_into_mut().unwrap_or_else(|b| BufMut::copy_of(b.bytes()));
        mac = Some(crypt.key.seal(&pointer, &mut text)?);
        bytes = text.freeze();
    }
    if let Some(function) = sum {
        let mut sum = function.sum(props.endian, bytes.bytes());
        if is_halved(&pointer) {
            let [a, b] = halved(sum, Some(props.checksum));
            sum = Sum([a, b, 0, 0]);
        }
        pointer.set_checksum(Checksum { words: sum.0 });
    }
    if let Some(mac) = mac {
        pointer.set_mac(mac);
    }
    Ok(Stored::Bytes(pointer, bytes))
}

/// Makes of what is stored of a block, and was found right, its bytes.
///
/// # Errors
/// The key is missing or another, or it doesn't decompress.
pub(crate) async fn logical(
    rt: &Rt,
    pointer: &BlockPointer,
    key: Option<&DatasetKey>,
    stored: Buf,
) -> Result<Buf, BlockErrorKind> {
    let protection = pointer.protection();
    if protection == Protection::Encrypted && key.is_none() {
        return Err(BlockErrorKind::NoKey);
    }
    // What is authenticated and not encrypted is in the clear: without the key its checksum has to do.
    let opens = matches!(protection, Protection::Encrypted | Protection::Authenticated);
    let key = key.filter(|_| opens).map(|key| key.block_key(pointer));
    // The level matters for writing only.
    let form = form(pointer.compression(), 1)?;
    let size = pointer.logical_size() as usize;
    let (stored_bytes, bytes) = (ByteCount(stored.len() as u64), ByteCount(size as u64));
    let decompress = |form| WorkKind::Decompress(compress_kind(form));
    let work = match (&key, form) {
        (Some(key), None) => key.work(stored_bytes),
        (Some(key), Some(form)) => key.work(stored_bytes).and(decompress(form), bytes),
        (None, Some(form)) => Work::new(decompress(form), bytes),
        (None, None) if protection == Protection::IndirectMac => {
            Work::new(WorkKind::Checksum(SumKind::Sha512), bytes)
        }
        (None, None) => return plain(pointer, stored),
    };
    // Taken here, so that the pool of this thread gets its memory back.
    let place = form.map(|_| BufMut::for_overwrite(size));
    let pointer = *pointer;
    rt.compute(work, move || loaded(&pointer, key.as_ref(), form, stored, place)).await
}

fn loaded(
    pointer: &BlockPointer,
    key: Option<&BlockKey>,
    form: Option<Form>,
    mut stored: Buf,
    place: Option<BufMut>,
) -> Result<Buf, BlockErrorKind> {
    let open = |key: &BlockKey, buf: Buf| {
        let mut text = buf.try_into_mut().unwrap_or_else(|buf| BufMut::copy_of(buf.bytes()));
        key.open(pointer, &mut text).map(|()| text.freeze())
    };
    // What is authenticated of an objset are its fields.
    let is_objset = pointer.object_type() == ObjectType::OBJSET;
    if let Some(key) = key.filter(|_| !is_objset) {
        stored = open(key, stored)?;
    }
    let block = match (form, place) {
        (Some(form), Some(mut into)) => {
            form.decompress(stored.bytes(), &mut into).map_err(|_| {
                let name = pointer.compression().map_or("none that is known", Compression::name);
                BlockErrorKind::Decompress(name)
            })?;
            into.freeze()
        }
        _ => plain(pointer, stored)?,
    };
    match key.filter(|_| is_objset) {
        Some(key) => open(key, block),
        None => {
            crypt::check_indirect(pointer, block.bytes())?;
            Ok(block)
        }
    }
}

/// The bytes of a block that is not compressed.
fn plain(pointer: &BlockPointer, stored: Buf) -> Result<Buf, BlockErrorKind> {
    let size = pointer.logical_size() as usize;
    match stored.len() {
        len if len == size => Ok(stored),
        len if len > size => Ok(stored.slice(0..size)),
        _ => Err(BlockErrorKind::Decompress(Compression::Off.name())),
    }
}

#[cfg(test)]
mod tests;
