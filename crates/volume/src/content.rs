//! Which file system, swap space or encrypted volume a device holds: told by its superblock, not opened.
//!
//! | what | where | what else must be right |
//! |---|---|---|
//! | LUKS 1, 2 | 0: `LUKS ba be` | the version |
//! | XFS | 0: `XFSB`, big-endian | its blocks are 512 B to 64 KiB |
//! | btrfs | 64 KiB + 64: `_BHRfS_M` | it says that it lies there |
//! | ext2, ext3, ext4 | 1024 + 56: `ef53` | its blocks are 1 to 64 KiB |
//! | F2FS | 1024: `f2f52010` | |
//! | EROFS | 1024: `e0f5e1e2` | |
//! | HFS+ | 1024: `H+` or `HX` | the version |
//! | swap | the end of a page of 4 to 64 KiB: `SWAPSPACE2` | the version |
//! | ISO 9660 | 32 KiB + 1: `CD001` | |
//! | JFS | 32 KiB: `JFS1` | |
//! | ReiserFS | 64 KiB + 52: `ReIsEr` | |
//! | UFS1, UFS2 | 8 KiB or 64 KiB + 1372: `011954`, `19540119` | |
//! | squashfs | 0: `hsqs` | |
//! | APFS | 32: `NXSB` | |
//! | NTFS, exFAT | 3: their names | sectors of 256 B to 4 KiB |
//! | FAT | 54 or 82: `FAT` | 510: `55 aa`; sectors and clusters are powers of two |
//!
//! ext4 is what has features that ext3's driver does not know; ext3 what has a journal.
//!
//! **What it goes by.** Few of these have checksums, and none is checked here: nothing is done with what is said but to show it.
//! Names and sizes are the device's claims. What a formatter left behind may still be there below what came later; the one
//! that stands further up in this table is told.
//!
//! **Source**: the kernel's headers of each (`ext4.h`, `xfs_format.h`, `btrfs_tree.h`, `f2fs_fs.h`, `swap.h`), cryptsetup's
//! on-disk formats 1.2.3 and 2, ECMA-107, Microsoft's exFAT specification; for the facts.

use crate::checked::read;
use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, IoError};
use std::fmt::Write;
use stdx::bytes::{Endian, FormatError, Reader};
use stdx::{ByteCount, KIB};

/// Bytes from the start in which all superblocks lie.
const HEAD_BYTES: u64 = 72 * KIB;
/// Smallest and largest block of a file system that is believed.
const BLOCK_LOG_MIN: u32 = 8;
const BLOCK_LOG_MAX: u32 = 16;

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are names")]
pub enum Kind {
    Luks1,
    Luks2,
    Xfs,
    Btrfs,
    Ext2,
    Ext3,
    Ext4,
    F2fs,
    Erofs,
    HfsPlus,
    Swap,
    Iso9660,
    Jfs,
    Reiserfs,
    Ufs,
    Squashfs,
    Apfs,
    Ntfs,
    Exfat,
    Fat,
}

impl Kind {
    /// Its name, as mount(8) takes it where it can be mounted.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Luks1 => "LUKS1",
            Kind::Luks2 => "LUKS2",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
            Kind::Ext2 => "ext2",
            Kind::Ext3 => "ext3",
            Kind::Ext4 => "ext4",
            Kind::F2fs => "f2fs",
            Kind::Erofs => "erofs",
            Kind::HfsPlus => "hfsplus",
            Kind::Swap => "swap",
            Kind::Iso9660 => "iso9660",
            Kind::Jfs => "jfs",
            Kind::Reiserfs => "reiserfs",
            Kind::Ufs => "ufs",
            Kind::Squashfs => "squashfs",
            Kind::Apfs => "apfs",
            Kind::Ntfs => "ntfs",
            Kind::Exfat => "exfat",
            Kind::Fat => "vfat",
        }
    }

    /// Whether a key is needed before anything of it is seen.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Kind::Luks1 | Kind::Luks2)
    }

    /// Whether it holds files.
    pub fn is_file_system(self) -> bool {
        !self.is_encrypted() && self != Kind::Swap
    }

    /// The options with which Linux mounts it without writing a byte.
    pub fn read_only_options(self) -> &'static str {
        match self {
            // Their logs are not replayed, which would write.
            Kind::Xfs => "ro,norecovery",
            Kind::Ext3 | Kind::Ext4 => "ro,noload",
            _ => "ro",
        }
    }
}

/// What a device holds. All of it is what the device says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// What.
    pub kind: Kind,
    /// Its label, where it has one.
    pub label: Option<String>,
    /// Which it is, as `blkid` writes it.
    pub id: Option<String>,
    /// How much it takes of the device.
    pub size: Option<ByteCount>,
    /// Whether it was not closed cleanly.
    pub unclean: bool,
    /// How many devices it lies on; nothing where it can be but one.
    pub devices: Option<u64>,
}

impl Content {
    fn of(kind: Kind) -> Content {
        Content { kind, label: None, id: None, size: None, unclean: false, devices: None }
    }
}

/// What a device holds; nothing where none of these is there.
///
/// # Errors
/// It could not be read.
#[boxed(?Send)]
pub async fn identify(device: &DeviceRef) -> Result<Option<Content>, IoError> {
    let len = device.geometry().capacity.bytes().min(HEAD_BYTES);
    Ok(decode(&read(device, 0, len).await?))
}

type Found = Result<Option<Content>, FormatError>;

/// The same of the first bytes of a device.
pub fn decode(head: &[u8]) -> Option<Content> {
    type Look = fn(&Reader<'_>) -> Found;
    const BIG: &[Look] = &[luks, xfs];
    const LITTLE: &[Look] = &[btrfs, ext, plain, f2fs, swap, iso9660, ntfs, exfat, fat];
    let (big, little) = (Endian::Big, Endian::Little);
    let looks = BIG.iter().map(|look| (look, big)).chain(LITTLE.iter().map(|look| (look, little)));
    // What ends before its superblock does has none.
    let mut found = looks
        .filter_map(|(look, endian)| look(&Reader::new("superblock", head, endian)).ok().flatten());
    found.next()
}

fn has(fields: &Reader<'_>, at: usize, magic: &[u8]) -> bool {
    fields.slice("signature", at, magic.len()).is_ok_and(|found| found == magic)
}

/// Text that ends with a zero or is filled up with blanks; nothing where it is empty.
fn text(fields: &Reader<'_>, at: usize, len: usize) -> Result<Option<String>, FormatError> {
    let bytes = fields.slice("label", at, len)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

fn uuid(fields: &Reader<'_>, at: usize) -> Result<Option<String>, FormatError> {
    let bytes: [u8; 16] = fields.array_at("UUID", at)?;
    if bytes == [0; 16] {
        return Ok(None);
    }
    let mut text = String::new();
    for (n, byte) in bytes.into_iter().enumerate() {
        let dash = if let 4 | 6 | 8 | 10 = n { "-" } else { "" };
        // Writing to a string can't fail.
        let _ = write!(text, "{dash}{byte:02x}");
    }
    Ok(Some(text))
}

/// So many blocks of `1 << log` bytes; nothing where they are no blocks, or too many.
fn blocks(count: u64, log: u32) -> Option<ByteCount> {
    let unit = (BLOCK_LOG_MIN..=BLOCK_LOG_MAX).contains(&log).then(|| 1_u64 << log)?;
    count.checked_mul(unit).map(ByteCount)
}

/// The logarithm of a block's size; nothing where that is no power of two, or none that is believed.
fn log_of(size: u32) -> Option<u32> {
    let log = size.checked_ilog2().filter(|log| size == 1 << log)?;
    (BLOCK_LOG_MIN..=BLOCK_LOG_MAX).contains(&log).then_some(log)
}

fn luks(fields: &Reader<'_>) -> Found {
    if !has(fields, 0, b"LUKS\xba\xbe") {
        return Ok(None);
    }
    let kind = match fields.get_at::<u16>("version", 6)? {
        1 => Kind::Luks1,
        2 => Kind::Luks2,
        _ => return Ok(None),
    };
    let label = if kind == Kind::Luks2 { text(fields, 24, 48)? } else { None };
    Ok(Some(Content { label, id: text(fields, 168, 40)?, ..Content::of(kind) }))
}

fn xfs(fields: &Reader<'_>) -> Found {
    let log = log_of(fields.get_at("block size", 4)?).filter(|_| has(fields, 0, b"XFSB"));
    let Some(log) = log else { return Ok(None) };
    let size = blocks(fields.get_at("blocks", 8)?, log);
    let (label, id) = (text(fields, 108, 12)?, uuid(fields, 32)?);
    Ok(Some(Content { label, id, size, ..Content::of(Kind::Xfs) }))
}

fn btrfs(fields: &Reader<'_>) -> Found {
    const AT: usize = 64 << 10;
    if !has(fields, AT + 64, b"_BHRfS_M")
        || fields.get_at::<u64>("own place", AT + 48)? != AT as u64
    {
        return Ok(None);
    }
    // The size is that of all its devices.
    let devices = fields.get_at::<u64>("devices", AT + 136)?;
    let size =
        (devices == 1).then(|| fields.get_at("size", AT + 112).map(ByteCount)).transpose()?;
    let (label, id) = (text(fields, AT + 299, 256)?, uuid(fields, AT + 32)?);
    Ok(Some(Content { label, id, size, devices: Some(devices), ..Content::of(Kind::Btrfs) }))
}

fn ext(fields: &Reader<'_>) -> Found {
    const AT: usize = 1024;
    const JOURNAL: u32 = 4;
    const NEEDS_RECOVERY: u32 = 4;
    const SIXTY_FOUR_BIT: u32 = 0x80;
    /// What ext3's driver knows: file types, recovery, meta block groups; sparse superblocks, large files, trees.
    const EXT3: (u32, u32) = (0x2 | 0x4 | 0x10, 0x1 | 0x2 | 0x4);
    let log = fields.get_at::<u32>("block size", AT + 24)?.checked_add(10);
    if !has(fields, AT + 56, b"\x53\xef") || log.is_none_or(|log| log > BLOCK_LOG_MAX) {
        return Ok(None);
    }
    let features = |at| fields.get_at::<u32>("features", AT + at);
    let (compatible, incompatible, read_only) = (features(92)?, features(96)?, features(100)?);
    let kind = match () {
        () if incompatible & !EXT3.0 != 0 || read_only & !EXT3.1 != 0 => Kind::Ext4,
        () if compatible & JOURNAL != 0 => Kind::Ext3,
        () => Kind::Ext2,
    };
    let low = u64::from(fields.get_at::<u32>("blocks", AT + 4)?);
    let high = match incompatible & SIXTY_FOUR_BIT {
        0 => 0,
        _ => u64::from(fields.get_at::<u32>("blocks", AT + 336)?),
    };
    let is_clean = fields.get_at::<u16>("state", AT + 58)? & 1 != 0;
    Ok(Some(Content {
        label: text(fields, AT + 120, 16)?,
        id: uuid(fields, AT + 104)?,
        size: blocks(high << 32 | low, log.unwrap_or(0)),
        unclean: !is_clean || incompatible & NEEDS_RECOVERY != 0,
        ..Content::of(kind)
    }))
}

/// Those of which no more is told than that they are there.
fn plain(fields: &Reader<'_>) -> Found {
    const MAGICS: &[(Kind, usize, &[u8])] = &[
        (Kind::Erofs, 1024, &0xe0f5_e1e2_u32.to_le_bytes()),
        (Kind::HfsPlus, 1024, b"H+\x00\x04"),
        (Kind::HfsPlus, 1024, b"HX\x00\x05"),
        (Kind::Squashfs, 0, b"hsqs"),
        (Kind::Apfs, 32, b"NXSB"),
        (Kind::Jfs, 32 << 10, b"JFS1"),
        (Kind::Reiserfs, (64 << 10) + 52, b"ReIsEr"),
        (Kind::Ufs, (8 << 10) + 1372, &0x0001_1954_u32.to_le_bytes()),
        (Kind::Ufs, (64 << 10) + 1372, &0x1954_0119_u32.to_le_bytes()),
    ];
    let found = MAGICS.iter().find(|(_, at, magic)| has(fields, *at, magic));
    Ok(found.map(|(kind, ..)| Content::of(*kind)))
}

fn f2fs(fields: &Reader<'_>) -> Found {
    const AT: usize = 1024;
    const LABEL_UNITS: usize = 512;
    if !has(fields, AT, &0xf2f5_2010_u32.to_le_bytes()) {
        return Ok(None);
    }
    let label = fields.slice("label", AT + 124, 2 * LABEL_UNITS)?.chunks_exact(2);
    let units: Vec<u16> = label
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .take_while(|unit| *unit != 0)
        .collect();
    let label = (!units.is_empty()).then(|| String::from_utf16_lossy(&units));
    let size = blocks(fields.get_at("blocks", AT + 36)?, fields.get_at("block size", AT + 16)?);
    Ok(Some(Content { label, id: uuid(fields, AT + 108)?, size, ..Content::of(Kind::F2fs) }))
}

fn swap(fields: &Reader<'_>) -> Found {
    const MAGIC: &[u8] = b"SWAPSPACE2";
    const AT: usize = 1024;
    for log in 12..=16_u32 {
        let at = (1_usize << log) - MAGIC.len();
        if has(fields, at, MAGIC) && fields.get_at::<u32>("version", AT)? == 1 {
            let pages = u64::from(fields.get_at::<u32>("last page", AT + 4)?) + 1;
            let (label, id) = (text(fields, AT + 28, 16)?, uuid(fields, AT + 12)?);
            return Ok(Some(Content {
                label,
                id,
                size: blocks(pages, log),
                ..Content::of(Kind::Swap)
            }));
        }
    }
    Ok(None)
}

fn iso9660(fields: &Reader<'_>) -> Found {
    const AT: usize = 32 << 10;
    if !has(fields, AT + 1, b"CD001") {
        return Ok(None);
    }
    Ok(Some(Content { label: text(fields, AT + 40, 32)?, ..Content::of(Kind::Iso9660) }))
}

fn ntfs(fields: &Reader<'_>) -> Found {
    let log = log_of(fields.get_at::<u16>("sector size", 11)?.into());
    let Some(log) = log.filter(|_| has(fields, 3, b"NTFS    ")) else { return Ok(None) };
    let size = blocks(fields.get_at("sectors", 40)?, log);
    let id = format!("{:016X}", fields.get_at::<u64>("serial number", 72)?);
    Ok(Some(Content { id: Some(id), size, ..Content::of(Kind::Ntfs) }))
}

/// A serial number as `blkid` writes it.
fn serial(number: u32) -> Option<String> {
    Some(format!("{:04X}-{:04X}", number >> 16, number & 0xffff))
}

fn exfat(fields: &Reader<'_>) -> Found {
    if !has(fields, 3, b"EXFAT   ") {
        return Ok(None);
    }
    let [log] = fields.array_at("sector size", 108)?;
    let size = blocks(fields.get_at("sectors", 72)?, log.into());
    let id = serial(fields.get_at("serial number", 100)?);
    Ok(Some(Content { id, size, ..Content::of(Kind::Exfat) }))
}

fn fat(fields: &Reader<'_>) -> Found {
    const NO_LABEL: &str = "NO NAME";
    let (label_at, serial_at) = match () {
        () if has(fields, 82, b"FAT32   ") => (71, 67),
        () if has(fields, 54, b"FAT1") => (43, 39),
        () => return Ok(None),
    };
    let log = log_of(fields.get_at::<u16>("sector size", 11)?.into());
    let [cluster] = fields.array_at("cluster", 13)?;
    let (Some(log), true) = (log, u8::is_power_of_two(cluster) && has(fields, 510, b"\x55\xaa"))
    else {
        return Ok(None);
    };
    let few = u64::from(fields.get_at::<u16>("sectors", 19)?);
    let sectors = if few != 0 { few } else { fields.get_at::<u32>("sectors", 32)?.into() };
    let label = text(fields, label_at, 11)?.filter(|label| label != NO_LABEL);
    let id = serial(fields.get_at("serial number", serial_at)?);
    Ok(Some(Content { label, id, size: blocks(sectors, log), ..Content::of(Kind::Fat) }))
}
