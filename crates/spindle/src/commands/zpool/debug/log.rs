//! `zpool debug zil`: the blocks of a dataset's intent log, and what its records say, in words.
//!
//! Records are printed as they stand there, also those that the pool has already: `seq` and `txg` tell. Names are
//! text where they are. What of a log lies on a device that is missing is said, and is not shown.

use super::objects::{pointer, text, with};
use crate::commands::zfs::show;
use crate::output::{Failure, print};
use attach::pools::PoolPlace;
use std::fmt::Write as _;
use zfs::dmu::Objset;
use zfs::zpl::attributes::Moment;
use zfs_format::zil::record::{self, AclCounts, Body, Create, CreateKind, LogRecord, Write};

/// Bits of an object number in a record; above them stands how many slots its dnode takes.
const OBJECT_BITS: u32 = 48;

pub fn zil(dataset: &str, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let printed = with(dataset, false, place, async |objset: Objset| {
        let header = &objset.root().zil;
        let mut out = String::new();
        let _ = writeln!(out, "claim_txg {}", header.claim_txg);
        let _ = writeln!(out, "replay_seq {}", header.replay_sequence);
        let _ = writeln!(out, "claim_blk_seq {}", header.claim_block_sequence);
        let _ = writeln!(out, "claim_lr_seq {}", header.claim_record_sequence);
        let _ = writeln!(out, "flags {:#x}", header.flags);
        let _ = writeln!(out, "log {}", pointer(&header.log));
        let log = zfs::zil::chain(&objset).await?;
        let mut many = 0;
        for link in &log.links {
            let _ = writeln!(out, "block {}", pointer(&link.pointer));
            match record::records(&link.block.records, link.block.endian) {
                Ok(records) => {
                    many += records.len();
                    for one in records {
                        let said = words(&one);
                        let _ = writeln!(out, "    txg {} seq {}: {said}", one.txg, one.sequence);
                    }
                }
                Err(error) => {
                    let _ = writeln!(out, "    {error}");
                }
            }
            let _ = writeln!(out, "next {}", pointer(&link.block.next));
        }
        if log.is_cut {
            out.push_str("what comes next lies on a device that is missing\n");
        }
        let _ = writeln!(out, "{many} record{}", if many == 1 { "" } else { "s" });
        Ok(out)
    })?;
    print(&printed)
}

/// What a record says.
fn words(record: &LogRecord) -> String {
    let names = names(&record.data);
    match &record.body {
        Body::Create(kind, create, extras) => {
            // Foreign ids and lists of access stand before the name, which is the last but for a link's target.
            let skip = extras.acl.as_ref().map_or(0, list_bytes);
            let after = record.data.get(skip..).unwrap_or_default();
            let what = match kind {
                CreateKind::File => "create file",
                CreateKind::Directory => "create directory",
                CreateKind::AttributeDirectory => "create attribute directory",
                CreateKind::SymbolicLink => "create symbolic link",
            };
            format!("{what} {}{}", created(create), self::names(after))
        }
        Body::Remove(of) => format!("remove from directory {}{names}", of.directory),
        Body::RemoveDirectory(of) => {
            format!("remove directory from directory {}{names}", of.directory)
        }
        Body::Link(link) => {
            format!("link object {} in directory {}{names}", object(link.object), link.directory)
        }
        Body::Rename(of) => {
            format!("rename from directory {} to directory {}{names}", of.source, of.target)
        }
        Body::RenameExchange(of) => {
            format!("exchange names of directories {} and {}{names}", of.source, of.target)
        }
        Body::RenameWhiteout(of) => format!(
            "rename from directory {} to directory {}, whiteout object {}{names}",
            of.source,
            of.target,
            object(of.object)
        ),
        Body::Write(write) => written("write", write, record.data.len()),
        Body::Write2(write) => written("write in place", write, record.data.len()),
        Body::Truncate(of) => {
            let end = match of.length {
                0 => "to the end".to_owned(),
                length => format!("bytes {length}"),
            };
            format!("free object {} from {}, {end}", object(of.object), of.offset)
        }
        Body::SetAttributes(of) => format!(
            "set attributes of object {}: mask {:#x}, mode {:o}, uid {}, gid {}, size {}, accessed {}, \
             modified {}",
            object(of.object),
            of.mask,
            of.mode,
            of.uid,
            of.gid,
            of.size,
            moment(of.accessed),
            moment(of.modified)
        ),
        Body::SetAclV0(of) => {
            format!("set list of access of object {}: {} entries", object(of.object), of.entries)
        }
        Body::SetAcl(of) => format!(
            "set list of access of object {}: {} entries, {} bytes, flags {:#x}",
            object(of.object),
            of.counts.entries,
            of.counts.bytes,
            of.counts.flags
        ),
        Body::SetExtendedAttribute(of) => {
            let name = record.data.split(|byte| *byte == 0).next().unwrap_or_default();
            let (object, name) = (object(of.object), text(name));
            match of.length {
                0 => format!("remove extended attribute of object {object} {name}"),
                bytes => format!("set extended attribute of object {object} {name}, {bytes} bytes"),
            }
        }
        Body::CloneRange(of) => format!(
            "clone into object {} at {}, bytes {}, {} pointers",
            object(of.object),
            of.offset,
            of.length,
            of.pointers
        ),
    }
}

fn object(word: u64) -> u64 {
    word & ((1 << OBJECT_BITS) - 1)
}

/// Bytes of a list of access that stands before a name.
fn list_bytes(counts: &AclCounts) -> usize {
    let fuids = counts.fuids.saturating_mul(8);
    let bytes = counts.bytes.saturating_add(7) & !7;
    usize::try_from(bytes.saturating_add(fuids)).unwrap_or(usize::MAX)
}

fn created(create: &Create) -> String {
    format!(
        "object {} in directory {}: mode {:o}, uid {}, gid {}, at {}",
        object(create.object),
        create.directory,
        create.mode,
        create.uid,
        create.gid,
        moment(create.created)
    )
}

fn written(what: &str, write: &Write, there: usize) -> String {
    let (object, at, len) = (object(write.object), write.offset, write.length);
    match there {
        0 => format!("{what} object {object} at {at}, bytes {len}: {}", pointer(&write.pointer)),
        _ => format!("{what} object {object} at {at}, bytes {len}, held in the record"),
    }
}

fn moment([seconds, nanoseconds]: [u64; 2]) -> String {
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
    show::moment(Moment { seconds: seconds.cast_signed(), nanoseconds })
}

/// Names that stand in a row, each with a zero at its end.
fn names(bytes: &[u8]) -> String {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| format!(" {}", text(part))).collect()
}
