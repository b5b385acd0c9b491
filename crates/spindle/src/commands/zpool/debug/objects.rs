//! `zpool debug mos|object|bp|zap`: objects, their pointers and tables.

use crate::commands::zfs::show;
use crate::output::{Failure, print};
use attach::pools::{PoolPlace, Pools, pool_of};
use clap::Args;
use std::fmt::Write;
use std::rc::Rc;
use zfs::ZfsError;
use zfs::dmu::{Dnode, Objset};
use zfs::zap::{Cursor, Zap};
use zfs_format::block_pointer::{self, BlockPointer, Kind};
use zfs_format::dnode::Dnode as DnodePhys;
use zfs_format::object_type::ObjectType;
use zfs_format::zpl::directory::DirectoryEntry;
use zfs_store::Bookmark;

/// Pointers that are printed of one object: what a file of 128 GiB in blocks of 128 KiB has.
const POINTERS_MAX: u64 = 1 << 20;

#[derive(Args)]
pub struct ObjectArgs {
    /// An object of the pool's own: the dataset is the pool's name
    #[arg(long)]
    mos: bool,
    /// The file system, volume or snapshot
    dataset: String,
    /// The object's number; 0 is the array of all objects
    object: u64,
}

/// A pointer on one line.
pub fn pointer(pointer: &BlockPointer) -> String {
    let (level, kind) = (pointer.level(), pointer.object_type());
    let (logical, physical) = (pointer.logical_size(), pointer.physical_size());
    let birth = pointer.logical_birth();
    match pointer.kind() {
        Kind::Hole => return format!("hole, birth {birth}"),
        Kind::Redacted => return format!("redacted, birth {birth}"),
        Kind::Embedded => {
            return format!("embedded L{level} {kind} size {logical}L/{physical}P birth {birth}");
        }
        Kind::Block | Kind::Gang => {}
    }
    let places: Vec<String> = pointer
        .dvas()
        .map(|dva| {
            let gang = if dva.is_gang() { ":gang" } else { "" };
            format!("{}:{:x}:{:x}{gang}", dva.vdev(), dva.offset(), dva.allocated())
        })
        .collect();
    let name = |known: Option<String>| known.unwrap_or_else(|| "unknown".to_owned());
    let checksum = name(pointer.checksum_function().map(|function| function.name().to_owned()));
    let compression = name(pointer.compression().map(|how| how.name().to_owned()));
    let words = pointer.checksum().words.map(|word| format!("{word:x}")).join(":");
    let dedup = if pointer.is_dedup() { " dedup" } else { "" };
    let crypt = if pointer.uses_crypt() { " encrypted" } else { "" };
    format!(
        "<{}> L{level} {kind} {checksum} {compression}{dedup}{crypt} size {logical}L/{physical}P \
         birth {birth}L/{}P fill {} cksum {words}",
        places.join(" "),
        pointer.physical_birth(),
        pointer.fill(),
    )
}

fn head(number: u64, dnode: &DnodePhys) -> String {
    let (levels, block) = (dnode.levels, dnode.data_block_bytes());
    let (used, kind) = (dnode.used_bytes(), dnode.object_type);
    let size = dnode.block_id_max.saturating_add(1).saturating_mul(block);
    format!("{number:>10} {levels:>4} {block:>9} {used:>11} {size:>13}  {kind}")
}

const HEAD: &str = "    object  lvl    dblock       dsize         lsize  type";

/// Opens what the arguments name, and hands it on.
pub fn with<T: 'static, F>(
    name: &str,
    mos: bool,
    place: &PoolPlace<'_>,
    work: F,
) -> Result<T, Failure>
where
    F: AsyncFnOnce(Objset) -> Result<T, ZfsError> + 'static,
{
    let pools = Pools::find(place)?;
    let (spa, dataset) = if mos {
        (pools.open(pool_of(name))?, None)
    } else {
        let spa = pools.open_of_dataset(name)?;
        let found = pools.dataset(&spa, name)?;
        (spa, Some(found))
    };
    let pool = Rc::clone(&spa);
    let done = pools.wait(async move {
        let objset = match dataset {
            None => pool.mos().clone(),
            Some((directory, dataset)) => pool.objset(&directory, &dataset).await?,
        };
        work(objset).await
    });
    done.map_err(|error| Failure::failed(format!("{name}: {error}")))
}

pub fn mos(pool: &str, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let text = with(pool, true, place, async |mos: Objset| {
        let (mut out, mut from) = (format!("{HEAD}\n"), 0);
        while let Some((objects, next)) = mos.dnodes_from(from).await? {
            for (number, dnode, _) in objects {
                let _ = writeln!(out, "{}", head(number, &dnode));
            }
            from = next;
        }
        Ok(out)
    })?;
    print(&text)
}

/// An object; the array of all of them for the number 0, as in zdb.
async fn dnode_of(objset: &Objset, number: u64) -> Result<Dnode, ZfsError> {
    match number {
        0 => objset.meta().cloned(),
        number => objset.dnode(number).await,
    }
}

pub fn object(args: &ObjectArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let number = args.object;
    let text = with(&args.dataset, args.mos, place, async move |objset: Objset| {
        let object = dnode_of(&objset, number).await?;
        let dnode = object.phys();
        let mut out = format!("{HEAD}\n{}\n", head(number, &dnode));
        let _ = writeln!(out, "    indirect blocks of 2^{} bytes", dnode.indirect_shift);
        let (bytes, kind) = (dnode.bonus.len(), dnode.bonus_type);
        let _ = writeln!(out, "    bonus: {bytes} bytes, {kind}");
        let _ = writeln!(out, "    slots: {}, flags: {:#x}", dnode.slots(), dnode.flags);
        let _ = writeln!(out, "    highest block: {}", dnode.block_id_max);
        for (n, one) in dnode.pointers.iter().enumerate() {
            let _ = writeln!(out, "    pointer {n}: {}", pointer(one));
        }
        if let Some(spill) = &dnode.spill {
            let _ = writeln!(out, "    spill: {}", pointer(spill));
        }
        for (n, row) in dnode.bonus.chunks(32).enumerate() {
            let hex: Vec<String> = row
                .chunks(4)
                .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
                .collect();
            let _ = writeln!(out, "    bonus {:04x}: {}", n * 32, hex.join(" "));
        }
        Ok(out)
    })?;
    print(&text)
}

pub fn pointers(args: &ObjectArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let number = args.object;
    let text = with(&args.dataset, args.mos, place, async move |objset: Objset| {
        let object = dnode_of(&objset, number).await?;
        let (mut out, mut printed) = (String::new(), 0);
        let dnode = object.phys();
        let top = dnode.levels.saturating_sub(1);
        let mut open: Vec<(u8, u64, BlockPointer)> = Vec::new();
        let firsts = dnode.pointers.iter().enumerate().rev();
        open.extend(firsts.map(|(n, one)| (top, n as u64, *one)));
        while let Some((level, block, one)) = open.pop() {
            if one.is_hole() && one.logical_birth() == 0 {
                continue;
            }
            printed += 1;
            if printed > POINTERS_MAX {
                let _ = writeln!(out, "… only the first {POINTERS_MAX} are shown");
                break;
            }
            let indent = 2 * usize::from(top - level);
            let _ = writeln!(out, "{:indent$}L{level} {block:>8}  {}", "", pointer(&one));
            if level > 0 && !one.is_hole() {
                open.extend(below(&objset, &object, level, block, one).await?.into_iter().rev());
            }
        }
        if let Some(spill) = &dnode.spill {
            let _ = writeln!(out, "spill        {}", pointer(spill));
        }
        Ok(out)
    })?;
    print(&text)
}

/// The pointers of an indirect block.
async fn below(
    objset: &Objset,
    object: &Dnode,
    level: u8,
    block: u64,
    one: BlockPointer,
) -> Result<Vec<(u8, u64, BlockPointer)>, ZfsError> {
    let at =
        Bookmark { objset: objset.number(), object: object.number(), level: level.into(), block };
    let bytes = objset.blocks().read(objset.request(one, at)).await?;
    let found = block_pointer::Pointers::of(bytes.bytes(), one.endian());
    let found = found.map_err(|error| object.wrong(error))?;
    let first = block.saturating_mul(found.len() as u64);
    let numbered = found.iter().enumerate();
    Ok(numbered.map(|(n, one)| (level - 1, first.saturating_add(n as u64), one)).collect())
}

pub fn zap(args: &ObjectArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let number = args.object;
    let text = with(&args.dataset, args.mos, place, async move |objset: Objset| {
        let object = objset.dnode(number).await?;
        let is_directory = object.phys().object_type == ObjectType::DIRECTORY_CONTENTS;
        let zap = Zap::open(object).await?;
        let mut out = format!("{} entries\n", zap.len());
        let mut cursor = Cursor::default();
        loop {
            let entries = zap.list(cursor).await?;
            // A table that leads back to where it was would never end.
            let Some(next) = entries.last().map(|last| last.next).filter(|next| *next > cursor)
            else {
                break;
            };
            cursor = next;
            for entry in entries {
                let entry_of = entry.value.number().filter(|_| is_directory);
                if let Some(DirectoryEntry { object, kind: Some(kind) }) =
                    entry_of.map(DirectoryEntry::from_value)
                {
                    let _ =
                        writeln!(out, "    {:?} = {object} ({})", entry.text(), show::kind(kind));
                    continue;
                }
                let values: Vec<String> = match entry.value.bytes() {
                    Some(bytes) if entry.value.number_bytes == 1 => vec![text(&bytes)],
                    _ => entry.value.numbers.iter().map(ToString::to_string).collect(),
                };
                let _ = writeln!(out, "    {:?} = {}", entry.text(), values.join(" "));
            }
        }
        Ok(out)
    })?;
    print(&text)
}

/// Bytes as text where they are, else in hexadecimal.
pub fn text(bytes: &[u8]) -> String {
    let shown = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    match std::str::from_utf8(shown) {
        Ok(text) if !text.contains(char::is_control) => format!("{text:?}"),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
