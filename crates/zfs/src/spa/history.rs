//! The pool's history, written: what users commanded, and what was done for it.
//!
//! ```text
//!   |  up to and with the pool's creation: stays  |  a ring of records, of which the oldest give way  |
//! ```
//!
//! A record is written in the group of what it tells of. The user's command is written when the pool is closed, if anything was
//! done for it that is told of here; a command that was refused is none. What is wrong with the object of an older pool is no reason
//! to stop writing the pool: then nothing is told.
//!
//! Source: OpenZFS, `spa_history.c`.

use super::commit::{Syncer, enter};
use super::events::{self, Happening};
use crate::dmu::{Dnode, NewObject};
use crate::dsl::make::Maker;
use crate::error::ZfsError;
use crate::zap::Zap;
use rt::Buf;
use zfs_format::Endian;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::DslDir;
use zfs_format::history::{self, History};
use zfs_format::nvlist::{Encoding, NvList, Text, Value};
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;
use zfs_store::alloc::Class;

/// The part of a pool that its history may take, and its bounds.
const PART: u64 = 1000;
const BYTES_MIN: u64 = 128 << 10;
const BYTES_MAX: u64 = 1 << 30;
/// Bytes of the object's blocks.
const BLOCK_BYTES: u64 = 128 << 10;
/// Bytes of a command that are kept.
const COMMAND_BYTES_MAX: usize = 8192;
/// Directories above one: more are a circle.
const DEPTH_MAX: usize = 256;

/// What a record tells.
pub enum Deed<'a> {
    /// A command of the user's.
    Command(&'a str),
    /// What was done.
    Inside {
        /// What: `create`, `set`.
        name: &'a str,
        /// To which dataset or snapshot, by its object.
        dataset: Option<u64>,
        /// More of it.
        text: &'a str,
    },
}

fn text(text: &str) -> Value {
    Value::String(Text::from(text))
}

/// Writes a record.
///
/// # Errors
/// What is needed can't be had.
pub async fn note(maker: &Maker<'_>, syncer: &Syncer, deed: Deed<'_>) -> Result<(), ZfsError> {
    let (user, host) = maker.fresh.author();
    let mut list = NvList::default();
    let is_command = matches!(deed, Deed::Command(_));
    match deed {
        Deed::Command(command) => {
            let ends = command.char_indices().map(|(at, of)| at + of.len_utf8());
            let end = ends.take_while(|end| *end <= COMMAND_BYTES_MAX).last().unwrap_or(0);
            list.set("history command", text(&command[..end]));
            list.set("history who", Value::Uint64(user));
            list.set("history time", Value::Uint64(maker.fresh.now()));
        }
        Deed::Inside { name, dataset, text: more } => {
            let dataset = match dataset {
                Some(dataset) => {
                    let pool = syncer.config().name;
                    Some((name_of(maker, pool, dataset).await?, dataset))
                }
                None => None,
            };
            if let Some((name, number)) = &dataset {
                list.set("dsname", text(name));
                list.set("dsid", Value::Uint64(*number));
            }
            let time = maker.fresh.now();
            list.set("history internal str", text(more));
            list.set("internal_name", text(name));
            list.set("history txg", Value::Uint64(maker.txg));
            list.set("history time", Value::Uint64(time));
            syncer.note_deed();
            let (name, more, host, txg) =
                (name.to_owned(), more.to_owned(), host.clone(), maker.txg);
            let deed = events::Deed { name, text: more, dataset, host, txg, time };
            syncer.told().tell(&Happening::Deed(deed));
        }
    }
    list.set("history hostname", text(&host));
    let record = history::record(&list, Encoding::Native(Endian::Little));
    append(maker, &object(maker, syncer).await?, &record, is_command).await
}

/// The history's object, made where the pool has none.
async fn object(maker: &Maker<'_>, syncer: &Syncer) -> Result<Dnode, ZfsError> {
    let directory = Zap::open(syncer.directory().await?).await?;
    if let Some(number) = directory.number(pool_directory::HISTORY).await? {
        return maker.mos.dnode(number).await;
    }
    let (size, _) = syncer.writer().space(|space| space.sizes(Class::Normal));
    let bytes_max = (size / PART).clamp(BYTES_MIN, BYTES_MAX);
    let header = History { create_bytes: 0, bytes_max, begin: 0, end: 0, lost: 0 };
    let new = NewObject::of(ObjectType::SPA_HISTORY, BLOCK_BYTES)
        .with_bonus(ObjectType::SPA_HISTORY_OFFSETS, header.encode(Endian::Little));
    let made = maker.mos.make(&new).await?;
    enter(maker.mos, pool_directory::HISTORY, made.number()).await?;
    Ok(made)
}

/// Puts a record behind the last one; the oldest give way. The first command is the pool's creation.
async fn append(
    maker: &Maker<'_>,
    object: &Dnode,
    record: &[u8],
    is_command: bool,
) -> Result<(), ZfsError> {
    let len = record.len() as u64;
    let Ok(mut header) = History::decode(&object.phys().bonus, object.endian()) else {
        return Ok(());
    };
    let ring = header.bytes_max.saturating_sub(header.create_bytes);
    let used = header.end.checked_sub(header.begin);
    if ring <= len || header.bytes_max > BYTES_MAX || used.is_none_or(|used| used > ring) {
        return Ok(());
    }
    while ring - (header.end - header.begin) <= len {
        let oldest = read(object, &header, header.begin, 8).await?;
        let oldest = u64::from_le_bytes(oldest.try_into().unwrap_or_default());
        let next = header.begin.saturating_add(oldest).saturating_add(8);
        header.begin = next.min(header.end);
        header.lost = header.lost.wrapping_add(1);
    }
    let Some(place) = header.physical(header.end) else { return Ok(()) };
    let first = len.min(header.bytes_max - place);
    let (head, rest) = record.split_at(first as usize);
    let (head, rest) = (Buf::copy_of(head), Buf::copy_of(rest));
    let again = header.create_bytes;
    header.end += len;
    if is_command && header.create_bytes == 0 {
        (header.create_bytes, header.begin) = (header.end, header.end);
    }
    maker
        .mos
        .change(|tx| {
            object.plan_write(place..place + first)?;
            if !rest.is_empty() {
                object.plan_write(again..again + rest.len() as u64)?;
            }
            let bonus = header.encode(object.endian());
            object.plan_bonus(bonus.len())?;
            object.write(tx, place, &head);
            if !rest.is_empty() {
                object.write(tx, again, &rest);
            }
            object.set_bonus(tx, bonus);
            Ok(())
        })
        .await
}

/// Bytes of the ring from a logical offset on.
async fn read(object: &Dnode, header: &History, at: u64, len: u64) -> Result<Vec<u8>, ZfsError> {
    let place = header.physical(at).unwrap_or(0);
    let first = len.min(header.bytes_max.saturating_sub(place));
    let mut bytes = object.read(place, first as usize).await?.to_vec();
    if first < len {
        let rest = object.read(header.create_bytes, (len - first) as usize).await?;
        bytes.extend(rest.to_vec());
    }
    Ok(bytes)
}

/// The name of a dataset or snapshot, by its object.
pub(super) async fn name_of(
    maker: &Maker<'_>,
    pool: String,
    dataset: u64,
) -> Result<String, ZfsError> {
    let called = async |table: u64, number: u64| {
        let entries = Zap::open(maker.mos.dnode(table).await?).await?.entries().await?;
        let found = entries.iter().find(|entry| entry.number() == Some(number));
        Ok::<String, ZfsError>(found.map_or_else(|| format!("<{number}>"), |entry| entry.text()))
    };
    let head = maker.bonus::<DslDataset>(&maker.mos.dnode(dataset).await?)?;
    let mut at = head.dir;
    let mut directory = maker.bonus::<DslDir>(&maker.mos.dnode(at).await?)?;
    let mut name = String::new();
    if directory.head_dataset != dataset {
        let live = maker.mos.dnode(directory.head_dataset).await?;
        let live = maker.bonus::<DslDataset>(&live)?;
        name = format!("@{}", called(live.snapshot_names, dataset).await?);
    }
    for _ in 0..DEPTH_MAX {
        if directory.parent == 0 {
            break;
        }
        let above = maker.bonus::<DslDir>(&maker.mos.dnode(directory.parent).await?)?;
        name = format!("/{}{name}", called(above.children, at).await?);
        (at, directory) = (directory.parent, above);
    }
    Ok(pool + &name)
}

/// What the history is told of a property that is set, or inherited.
pub(super) fn of_property(name: &str, value: Option<&LeafValue>) -> (&'static str, String) {
    let Some(value) = value else { return ("inherit", format!("{name}=")) };
    let shown = match value.bytes() {
        Some(bytes) => String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned(),
        None => value.numbers.first().copied().unwrap_or(0).to_string(),
    };
    ("set", format!("{name}={shown}"))
}
