//! Nvlists as they lay in the memory of a 64-bit machine.
//!
//! ```text
//!   list:  version (0), flags, pairs…, 4 zero bytes
//!   pair:  0  bytes of the pair      8  number of elements
//!          4  bytes of the name      12 type
//!          6  unused                 16 name with its zero, up to a multiple of 8; value, up to 8
//! ```
//!
//! Strings of an array follow their pointers (8 bytes each, zero on disk). A list as a value is 24 bytes
//! (version, flags, a pointer, and two unused) in the pair; its own pairs follow after the pair, up to
//! 4 zero bytes, and so do those of each list of an array, one after another.

use super::value::{
    DEPTH_MAX, LIST_BYTES, NAME, NvList, PAIR_BYTES, Text, VERSION, Value, pair_memory_bytes,
};
use crate::wire::{Reader, Wire, Writer};
use stdx::bytes::{FormatError, Problem};

/// Reads a list and all that is in it.
pub(super) fn read(from: &mut Reader<'_>) -> Result<NvList, FormatError> {
    let flags = head(from)?;
    Ok(NvList { flags, pairs: pairs(from, DEPTH_MAX)? })
}

fn head(from: &mut Reader<'_>) -> Result<u32, FormatError> {
    let version: i32 = from.get("version")?;
    if version != VERSION {
        return Err(from.wrong("version", Problem::Version(version as u32 as u64)));
    }
    from.u32("flags")
}

fn pairs(from: &mut Reader<'_>, depth: usize) -> Result<Vec<(Text, Value)>, FormatError> {
    let Some(depth) = depth.checked_sub(1) else {
        let limit = DEPTH_MAX as u64;
        return Err(from.wrong("depth", Problem::Limit { found: limit + 1, limit }));
    };
    let mut found = Vec::new();
    loop {
        let size = from.u32("size of the pair")? as usize;
        if size == 0 {
            return Ok(found);
        }
        let Some(rest) = size.checked_sub(4) else {
            return Err(from.wrong("size of the pair", Problem::Value(size as u64)));
        };
        let mut pair = Reader::new(NAME, from.take("pair", rest)?, from.endian);
        let name_len = pair.u16("size of the name")? as usize;
        pair.u16("unused")?;
        let count = pair.u32("number of elements")? as usize;
        let kind: i32 = pair.get("type")?;
        let (name, rest) = match pair.take("name", name_len)?.split_last() {
            Some((0, name)) if !name.contains(&0) => (Text::from_bytes(name), name_len),
            _ => return Err(from.wrong("name", Problem::Text)),
        };
        pair.take("name", (PAIR_BYTES + rest).next_multiple_of(8) - PAIR_BYTES - rest)?;
        let value = match kind {
            19 => {
                let flags = head(&mut pair)?;
                Value::NvList(NvList { flags, pairs: pairs(from, depth)? })
            }
            20 => {
                if count > pair.left() / (8 + LIST_BYTES) {
                    return Err(from.wrong("number of elements", Problem::Value(count as u64)));
                }
                pair.take("pointers", count * 8)?;
                let mut lists = Vec::new();
                for _ in 0..count {
                    let flags = head(&mut pair)?;
                    pair.take("list", LIST_BYTES - 8)?;
                    lists.push(NvList { flags, pairs: pairs(from, depth)? });
                }
                Value::NvListArray(lists)
            }
            kind => plain(&mut pair, kind, count)?,
        };
        found.push((name, value));
    }
}

fn text(from: &mut Reader<'_>) -> Result<Text, FormatError> {
    let mut rest = *from;
    let bytes = rest.take("value", from.left())?;
    let len = bytes.iter().position(|byte| *byte == 0);
    let len = len.ok_or_else(|| from.wrong("value", Problem::Text))?;
    Ok(Text::from_bytes(from.take("value", len + 1)?))
}

fn many<T: Wire, U>(
    from: &mut Reader<'_>,
    count: usize,
    to: impl Fn(T) -> U,
) -> Result<Vec<U>, FormatError> {
    if count > from.left() / T::BYTES {
        return Err(from.wrong("value", Problem::Short));
    }
    (0..count).map(|_| from.get("value").map(&to)).collect()
}

fn plain(from: &mut Reader<'_>, kind: i32, count: usize) -> Result<Value, FormatError> {
    const FIELD: &str = "value";
    let expected = match kind {
        1 => 0,
        10..=17 | 24..=26 => count,
        _ => 1,
    };
    if count != expected {
        return Err(from.wrong("number of elements", Problem::Value(count as u64)));
    }
    Ok(match kind {
        1 => Value::Boolean,
        2 => Value::Byte(from.get(FIELD)?),
        3 => Value::Int16(from.get(FIELD)?),
        4 => Value::Uint16(from.get(FIELD)?),
        5 => Value::Int32(from.get(FIELD)?),
        6 => Value::Uint32(from.get(FIELD)?),
        7 => Value::Int64(from.get(FIELD)?),
        8 => Value::Uint64(from.get(FIELD)?),
        9 => Value::String(text(from)?),
        10 => Value::ByteArray(from.take(FIELD, count)?.to_vec()),
        11 => Value::Int16Array(many(from, count, |n| n)?),
        12 => Value::Uint16Array(many(from, count, |n| n)?),
        13 => Value::Int32Array(many(from, count, |n| n)?),
        14 => Value::Uint32Array(many(from, count, |n| n)?),
        15 => Value::Int64Array(many(from, count, |n| n)?),
        16 => Value::Uint64Array(many(from, count, |n| n)?),
        17 => {
            many(from, count, |_pointer: u64| ())?;
            Value::StringArray((0..count).map(|_| text(from)).collect::<Result<_, _>>()?)
        }
        18 => Value::Hrtime(from.get(FIELD)?),
        21 => Value::BooleanValue(from.u32(FIELD)? != 0),
        22 => Value::Int8(from.get(FIELD)?),
        23 => Value::Uint8(from.get(FIELD)?),
        24 => Value::BooleanArray(many(from, count, |n: u32| n != 0)?),
        25 => Value::Int8Array(many(from, count, |n| n)?),
        26 => Value::Uint8Array(from.take(FIELD, count)?.to_vec()),
        27 => Value::Double(from.get(FIELD)?),
        other => return Err(from.wrong("type", Problem::Value(other as u32 as u64))),
    })
}

/// Writes a list.
pub(super) fn write(list: &NvList, to: &mut Writer) {
    to.put(VERSION);
    to.put(list.flags);
    write_pairs(list, to);
}

fn write_pairs(list: &NvList, to: &mut Writer) {
    for (name, value) in &list.pairs {
        let start = to.at();
        let size = pair_memory_bytes(name, value);
        to.put(size as u32);
        to.put((name.as_bytes().len() + 1) as u16);
        to.put(0u16);
        to.put(value.elements() as u32);
        to.put(value.code());
        to.bytes(name.as_bytes());
        to.put(0u8);
        to.align(start, 8);
        write_value(value, to);
        to.zeros_to(start + size);
        match value {
            Value::NvList(list) => write_pairs(list, to),
            Value::NvListArray(lists) => lists.iter().for_each(|list| write_pairs(list, to)),
            _ => {}
        }
    }
    to.put(0u32);
}

fn write_list_head(list: &NvList, to: &mut Writer) {
    to.put(VERSION);
    to.put(list.flags);
    to.bytes(&[0; LIST_BYTES - 8]);
}

fn write_value(value: &Value, to: &mut Writer) {
    match value {
        Value::Boolean => {}
        Value::Byte(n) | Value::Uint8(n) => to.put(*n),
        Value::Int8(n) => to.put(*n),
        Value::Int16(n) => to.put(*n),
        Value::Uint16(n) => to.put(*n),
        Value::Int32(n) => to.put(*n),
        Value::Uint32(n) => to.put(*n),
        Value::Int64(n) | Value::Hrtime(n) => to.put(*n),
        Value::Uint64(n) => to.put(*n),
        Value::Double(n) => to.put(*n),
        Value::BooleanValue(n) => to.put(u32::from(*n)),
        Value::String(text) => {
            to.bytes(text.as_bytes());
            to.put(0u8);
        }
        Value::ByteArray(bytes) | Value::Uint8Array(bytes) => to.bytes(bytes),
        Value::Int8Array(all) => all.iter().for_each(|n| to.put(*n)),
        Value::Int16Array(all) => all.iter().for_each(|n| to.put(*n)),
        Value::Uint16Array(all) => all.iter().for_each(|n| to.put(*n)),
        Value::Int32Array(all) => all.iter().for_each(|n| to.put(*n)),
        Value::Uint32Array(all) => all.iter().for_each(|n| to.put(*n)),
        Value::Int64Array(all) => all.iter().for_each(|n| to.put(*n)),
        Value::Uint64Array(all) => all.iter().for_each(|n| to.put(*n)),
        Value::BooleanArray(all) => all.iter().for_each(|n| to.put(u32::from(*n))),
        Value::StringArray(texts) => {
            texts.iter().for_each(|_| to.put(0u64));
            for text in texts {
                to.bytes(text.as_bytes());
                to.put(0u8);
            }
        }
        Value::NvList(list) => write_list_head(list, to),
        Value::NvListArray(lists) => {
            lists.iter().for_each(|_| to.put(0u64));
            lists.iter().for_each(|list| write_list_head(list, to));
        }
    }
}
