//! What lies on a file or block device already, so that nobody's data is overwritten by mistake.
//!
//! [`content`] looks for the signatures of file systems, pools, RAID members, volume managers, swap
//! and partition tables, at the places where their formats put them, from the start and from the end.
//! Where it finds none, it looks for any byte that is not zero: in a regular file through all that is
//! not a hole, in a block device at its two ends. The answer names what was found and where.
//!
//! **It errs to the safe side.** A signature may be the left-over of something long gone; that is for
//! the user to judge. Of a large file without a signature `SCAN_BYTES_MAX` are read, and data beyond
//! that counts as content unseen.
//!
//! Sources of the places and numbers: util-linux libblkid, the kernel's `include/uapi/linux/magic.h`,
//! each format's own documentation. They are only looked for here; the formats that Spindle reads have
//! their own crates.

use crate::sys;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stdx::{ByteCount, KIB, MIB, Offset};

/// Bytes without a signature that are read in search of one that is not zero. More makes the look at
/// a large file of written zeros slower.
const SCAN_BYTES_MAX: u64 = 256 * MIB;

/// Bytes at each end of a block device that are searched. File systems and partition tables that no
/// signature here knows begin in these.
const ENDS_BYTES: u64 = MIB;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// What, with its article.
    pub what: &'static str,
    /// Where it was recognised.
    pub at: Offset,
    /// What makes a raw image of it, where it holds one in a form of its own.
    pub unwrapped_by: Option<Unwrap>,
}

/// A program that makes a raw image, or whatever files there are, of one that is compressed, packed or a virtual machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwrap {
    /// It takes the file's name alone.
    In(&'static str),
    /// It takes a name for the raw image behind the file's.
    To(&'static str),
}

impl Content {
    fn plain(what: &'static str, at: u64) -> Content {
        Content { what, at: Offset(at), unwrapped_by: None }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.at)
    }
}

/// Why the content can't be told.
#[derive(Debug, thiserror::Error)]
#[error("looking for content on {}: {error}; check that it can be read", .path.display())]
pub struct ProbeError {
    /// Which file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub error: io::Error,
}

/// Where a signature stands.
#[derive(Clone, Copy)]
enum Place {
    /// So many bytes from the start.
    Start(u64),
    /// So many bytes before the end.
    End(u64),
}

use Place::{End, Start};

/// Signatures that are plain bytes at one place. The more telling come first: a pool's label lies on
/// a disk that may have a partition table in its first sector.
const SIGNATURES: &[(&str, Place, &[u8])] = &[
    ("an md RAID member (superblock 1.1)", Start(0), &0xa92b_4efc_u32.to_le_bytes()),
    ("an md RAID member (superblock 1.2)", Start(4 * KIB), &0xa92b_4efc_u32.to_le_bytes()),
    ("an LVM physical volume", Start(0), b"LABELONE"),
    ("an LVM physical volume", Start(512), b"LABELONE"),
    ("an LVM physical volume", Start(1024), b"LABELONE"),
    ("an LVM physical volume", Start(1536), b"LABELONE"),
    ("a LUKS volume", Start(0), b"LUKS\xba\xbe"),
    ("an XFS file system", Start(0), b"XFSB"),
    ("a btrfs file system", Start(64 * KIB + 64), b"_BHRfS_M"),
    ("an ext2, ext3 or ext4 file system", Start(1024 + 56), &0xef53_u16.to_le_bytes()),
    ("an F2FS file system", Start(1024), &0xf2f5_2010_u32.to_le_bytes()),
    ("an EROFS file system", Start(1024), &0xe0f5_e1e2_u32.to_le_bytes()),
    ("a squashfs file system", Start(0), b"hsqs"),
    ("a ReiserFS file system", Start(64 * KIB + 52), b"ReIsEr"),
    ("a JFS file system", Start(32 * KIB), b"JFS1"),
    ("an ISO 9660 file system", Start(32 * KIB + 1), b"CD001"),
    ("an HFS+ file system", Start(1024), b"H+\x00\x04"),
    ("an APFS container", Start(32), b"NXSB"),
    ("a bcache or bcachefs device", Start(4 * KIB + 24), BCACHE),
    ("a Ceph BlueStore device", Start(0), b"bluestore block device"),
    ("swap space", Start(4 * KIB - 10), b"SWAPSPACE2"),
    ("swap space", Start(4 * KIB - 10), b"SWAP-SPACE"),
    ("swap space", Start(64 * KIB - 10), b"SWAPSPACE2"),
    ("an NTFS file system", Start(3), b"NTFS    "),
    ("an exFAT file system", Start(3), b"EXFAT   "),
    ("a FAT file system", Start(54), b"FAT1"),
    ("a FAT file system", Start(82), b"FAT32   "),
    ("a GPT partition table", Start(512), b"EFI PART"),
    ("a GPT partition table", Start(4 * KIB), b"EFI PART"),
    ("a GPT partition table (the copy at the end)", End(512), b"EFI PART"),
    ("a GPT partition table (the copy at the end)", End(4 * KIB), b"EFI PART"),
    ("an Intel Matrix RAID member", End(1024), b"Intel Raid ISM Cfg Sig."),
    ("a DDF RAID member", End(512), &0xde11_de11_u32.to_be_bytes()),
    // Last, as most of the above may stand behind it.
    ("a partition table or boot sector", Start(510), b"\x55\xaa"),
];

/// Signatures of what holds an image of a disk in a form of its own: of virtual machines, of investigators, compressed, packed.
const WRAPPED: &[(&str, u64, &[u8], Unwrap)] = &[
    ("a QCOW2 image", 0, b"QFI\xfb", CONVERT),
    ("a VMDK image", 0, b"KDMV", CONVERT),
    ("the description of a VMDK image", 0, b"# Disk DescriptorFile", CONVERT),
    ("a VHDX image", 0, b"vhdxfile", CONVERT),
    ("a VHD image", 0, b"conectix", CONVERT),
    ("a VirtualBox image (VDI)", 64, &0xbeda_107f_u32.to_le_bytes(), CONVERT),
    ("an EnCase image (E01)", 0, b"EVF\x09\x0d\x0a\xff\x00", Unwrap::In("ewfexport")),
    ("a file compressed by gzip", 0, b"\x1f\x8b\x08", Unwrap::In("gunzip --keep")),
    ("a file compressed by xz", 0, b"\xfd7zXZ\x00", Unwrap::In("unxz --keep")),
    ("a file compressed by zstd", 0, b"\x28\xb5\x2f\xfd", Unwrap::In("unzstd")),
    ("a file compressed by bzip2", 0, b"BZh91AY&SY", Unwrap::In("bunzip2 --keep")),
    ("a file compressed by lz4", 0, b"\x04\x22\x4d\x18", Unwrap::In("unlz4")),
    ("a zip archive", 0, b"PK\x03\x04", Unwrap::In("unzip")),
    ("a 7z archive", 0, b"7z\xbc\xaf\x27\x1c", Unwrap::In("7z x")),
    ("a tar archive", 257, b"ustar", Unwrap::In("tar -xf")),
];

const CONVERT: Unwrap = Unwrap::To("qemu-img convert -O raw");

const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";

const ZFS: &str = "a ZFS pool member";
const ZFS_LABEL_BYTES: u64 = 256 * KIB;
const ZFS_UBERBLOCKS: u64 = 128 * KIB;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Fills the buffer with what stands from there on.
type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> io::Result<()>;

/// What lies on a file or block device, if anything does.
///
/// # Errors
/// [`ProbeError`] where it can't be read.
pub fn content(path: &Path) -> Result<Option<Content>, ProbeError> {
    File::open(path).and_then(look).map_err(|error| ProbeError { path: path.into(), error })
}

/// What lies on something else of this size that is read so, if anything does: it is looked at as a block device is.
///
/// # Errors
/// Those of the reads.
pub fn content_of(size: u64, read: ReadAt<'_>) -> io::Result<Option<Content>> {
    match signed(read, size)? {
        None => data_at_ends(read, size),
        found => Ok(found),
    }
}

fn look(mut file: File) -> io::Result<Option<Content>> {
    let size = file.seek(SeekFrom::End(0))?;
    let read = |into: &mut [u8], at| file.read_exact_at(into, at);
    match signed(&read, size)? {
        None if file.metadata()?.is_file() => data_in_file(&file, size),
        None => data_at_ends(&read, size),
        found => Ok(found),
    }
}

/// What says itself what it is.
fn signed(read: ReadAt<'_>, size: u64) -> io::Result<Option<Content>> {
    for (what, place, signature) in SIGNATURES {
        let at = match *place {
            Start(at) => Some(at),
            End(before) => size.checked_sub(before),
        };
        if let Some(at) = at
            && holds(read, size, at, signature)?
        {
            return Ok(Some(Content::plain(what, at)));
        }
    }
    if let Some(found) = zfs(read, size)? {
        return Ok(Some(found));
    }
    if let Some(found) = md_at_the_end(read, size)? {
        return Ok(Some(found));
    }
    // Last: a member of anything may begin with a few bytes like these.
    for (what, at, signature, by) in WRAPPED {
        if holds(read, size, *at, signature)? {
            let unwrapped_by = Some(*by);
            return Ok(Some(Content { unwrapped_by, ..Content::plain(what, *at) }));
        }
    }
    Ok(None)
}

/// Whether these bytes stand there.
fn holds(read: ReadAt<'_>, size: u64, at: u64, signature: &[u8]) -> io::Result<bool> {
    if at.checked_add(signature.len() as u64).is_none_or(|end| end > size) {
        return Ok(false);
    }
    let mut found = vec![0; signature.len()];
    read(&mut found, at)?;
    Ok(found == signature)
}

/// md's superblocks 0.90 and 1.0 lie near the end, on a multiple of 64 KiB and of 4 KiB.
fn md_at_the_end(read: ReadAt<'_>, size: u64) -> io::Result<Option<Content>> {
    let magic = 0xa92b_4efc_u32;
    let old = (size & !(64 * KIB - 1)).checked_sub(64 * KIB);
    let new = (size & !511).checked_sub(8 * KIB).map(|at| at & !(4 * KIB - 1));
    let native_and_foreign = [magic.to_le_bytes(), magic.to_be_bytes()];
    for (what, at, signatures) in [
        ("an md RAID member (superblock 0.90)", old, &native_and_foreign[..]),
        ("an md RAID member (superblock 1.0)", new, &native_and_foreign[..1]),
    ] {
        let Some(at) = at else { continue };
        for signature in signatures {
            if holds(read, size, at, signature)? {
                return Ok(Some(Content::plain(what, at)));
            }
        }
    }
    Ok(None)
}

/// A ZFS label has a ring of uberblocks in its second half; two labels lie at each end.
fn zfs(read: ReadAt<'_>, size: u64) -> io::Result<Option<Content>> {
    let end = size - size % ZFS_LABEL_BYTES;
    let labels = [Some(0), Some(ZFS_LABEL_BYTES), end.checked_sub(2 * ZFS_LABEL_BYTES)];
    for label in labels.into_iter().flatten() {
        let start = label + ZFS_UBERBLOCKS;
        let Some(len) = size.checked_sub(start).map(|left| left.min(ZFS_UBERBLOCKS)) else {
            continue;
        };
        let mut ring = vec![0; len as usize];
        read(&mut ring, start)?;
        for (i, uberblock) in ring.chunks_exact(KIB as usize).enumerate() {
            let magic = &uberblock[..8];
            if magic == ZFS_MAGIC.to_le_bytes() || magic == ZFS_MAGIC.to_be_bytes() {
                return Ok(Some(Content::plain(ZFS, start + i as u64 * KIB)));
            }
        }
    }
    Ok(None)
}

fn data_in_file(file: &File, size: u64) -> io::Result<Option<Content>> {
    let read = |into: &mut [u8], at| file.read_exact_at(into, at);
    let (mut at, mut left) = (0, SCAN_BYTES_MAX);
    while at < size {
        let Some(data) = sys::seek_data(file.as_fd(), at)? else { return Ok(None) };
        let hole = sys::seek_hole(file.as_fd(), data)?.min(size);
        let len = hole.saturating_sub(data).min(left);
        if let Some(found) = not_zero(&read, data, len)? {
            return Ok(Some(found));
        }
        left -= len;
        if data + len < hole {
            let what = "data beyond what was looked at";
            return Ok(Some(Content::plain(what, data + len)));
        }
        // A file system that moves backward would keep us here for ever.
        at = hole.max(at + 1);
    }
    Ok(None)
}

fn data_at_ends(read: ReadAt<'_>, size: u64) -> io::Result<Option<Content>> {
    let len = size.min(ENDS_BYTES);
    Ok(match not_zero(read, 0, len)? {
        Some(found) => Some(found),
        None => not_zero(read, size - len, len)?,
    })
}

/// The first byte in a range that is not zero.
fn not_zero(read: ReadAt<'_>, mut at: u64, len: u64) -> io::Result<Option<Content>> {
    let end = at + len;
    let mut chunk = vec![0; ByteCount::kib(256).as_usize()];
    while at < end {
        let chunk_len = (end - at).min(chunk.len() as u64) as usize;
        let piece = &mut chunk[..chunk_len];
        read(piece, at)?;
        if let Some(i) = piece.iter().position(|byte| *byte != 0) {
            let what = "data that is not zero";
            return Ok(Some(Content::plain(what, at + i as u64)));
        }
        at += chunk_len as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    //! What could break: content that is not seen is content that is lost.

    use super::*;

    const SIZE: u64 = 4 * MIB;

    fn found(pieces: &[(u64, &[u8])]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(SIZE).expect("room for holes");
        for (at, bytes) in pieces {
            file.as_file().write_all_at(bytes, *at).expect("written");
        }
        content(file.path()).expect("readable").map(|found| found.to_string())
    }

    #[test]
    fn a_file_of_holes_or_written_zeros_is_empty() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(8192, &[0; 100_000])]), None);
    }

    #[test]
    fn every_signature_is_found_at_its_place() {
        for (what, place, signature) in SIGNATURES {
            let at = match *place {
                Start(at) => at,
                End(before) => SIZE - before,
            };
            let text = found(&[(at, signature)]).expect("seen");
            assert!(text.starts_with(what), "{text}, not {what}");
        }
    }

    #[test]
    fn what_holds_an_image_says_what_makes_a_raw_one_of_it() {
        for (what, at, signature, by) in WRAPPED {
            let mut bytes = vec![0; 4096];
            bytes[*at as usize..*at as usize + signature.len()].copy_from_slice(signature);
            let read = |into: &mut [u8], at: u64| {
                into.copy_from_slice(&bytes[at as usize..at as usize + into.len()]);
                Ok(())
            };
            let found = content_of(4096, &read).expect("it is read").expect("seen");
            assert_eq!((found.what, found.unwrapped_by), (*what, Some(*by)));
        }
    }

    #[test]
    fn pools_and_old_raid_members_are_known_from_both_ends() {
        for at in [128 * KIB + 3 * KIB, 384 * KIB, SIZE - 512 * KIB + 130 * KIB] {
            for magic in [ZFS_MAGIC.to_le_bytes(), ZFS_MAGIC.to_be_bytes()] {
                let text = found(&[(at, &magic)]).expect("seen");
                assert!(text.starts_with(ZFS), "{text}");
            }
        }
        let magic = 0xa92b_4efc_u32.to_le_bytes();
        let text = found(&[(SIZE - 64 * KIB, &magic)]).expect("seen");
        assert!(text.contains("0.90"), "{text}");
        let text = found(&[(SIZE - 8 * KIB, &magic)]).expect("seen");
        assert!(text.contains("superblock 1.0"), "{text}");
    }

    #[test]
    fn a_single_byte_anywhere_in_a_file_is_content() {
        let text = found(&[(3 * MIB + 17, &[1])]).expect("seen");
        assert_eq!(text, "data that is not zero (byte 3145745)");
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_that_names_it() {
        let error = content(Path::new("/nowhere/at/all")).expect_err("not there");
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
