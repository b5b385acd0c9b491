//! Nvlists in XDR: big-endian, everything in units of 4 bytes.
//!
//! ```text
//!   list:   version (0), flags, pairs…, two zeros
//!   pair:   bytes here, bytes in memory, name, type, number of elements, value
//!   string: length, bytes, zeros up to 4
//! ```
//!
//! Numbers of less than 4 bytes take 4. Arrays of numbers repeat their number of elements in front, save
//! arrays of bytes, which are packed; strings and lists of an array follow one another. An array without
//! elements has no value at all, though the pair's size counts the 4 bytes of the number that is left out:
//! so sizes are written as OpenZFS writes them, and not used to find the next pair.

use super::value::{DEPTH_MAX, NvList, Text, VERSION, Value, pair_memory_bytes};
use crate::wire::{Reader, Wire, Writer};
use stdx::bytes::{FormatError, Problem};

/// Reads a list; it may hold lists to this depth.
pub(super) fn read(from: &mut Reader<'_>, depth: usize) -> Result<NvList, FormatError> {
    let Some(depth) = depth.checked_sub(1) else {
        let limit = DEPTH_MAX as u64;
        return Err(from.wrong("depth", Problem::Limit { found: limit + 1, limit }));
    };
    let version: i32 = from.get("version")?;
    if version != VERSION {
        return Err(from.wrong("version", Problem::Version(version as u32 as u64)));
    }
    let flags = from.u32("flags")?;
    let mut pairs = Vec::new();
    loop {
        let encoded = from.u32("size of the pair")?;
        let decoded = from.u32("size of the pair in memory")?;
        if decoded == 0 {
            if encoded != 0 {
                return Err(from.wrong("size of the pair", Problem::Value(encoded.into())));
            }
            return Ok(NvList { flags, pairs });
        }
        let name = text(from, "name")?;
        let kind: i32 = from.get("type")?;
        let count = from.u32("number of elements")? as usize;
        let value = value(from, kind, count, depth)?;
        pairs.push((name, value));
    }
}

fn text(from: &mut Reader<'_>, field: &'static str) -> Result<Text, FormatError> {
    let len = from.u32(field)? as usize;
    let bytes = from.take(field, len)?;
    if bytes.contains(&0) {
        return Err(from.wrong(field, Problem::Text));
    }
    from.take(field, len.next_multiple_of(4) - len)?;
    Ok(Text::from_bytes(bytes))
}

/// Numbers of an array: how many again, then each in its unit of 4 or 8 bytes.
fn numbers<W: Wire, T>(
    from: &mut Reader<'_>,
    count: usize,
    to: impl Fn(W) -> T,
) -> Result<Vec<T>, FormatError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let again = from.u32("number of elements")?;
    if again as usize != count {
        return Err(from.wrong("number of elements", Problem::Value(again.into())));
    }
    if count > from.left() / W::BYTES {
        return Err(from.wrong("value", Problem::Short));
    }
    (0..count).map(|_| from.get("value").map(&to)).collect()
}

fn value(
    from: &mut Reader<'_>,
    kind: i32,
    count: usize,
    depth: usize,
) -> Result<Value, FormatError> {
    const FIELD: &str = "value";
    let one = match kind {
        1 => 0,
        10..=17 | 20 | 24..=26 => count,
        _ => 1,
    };
    if count != one {
        return Err(from.wrong("number of elements", Problem::Value(count as u64)));
    }
    Ok(match kind {
        1 => Value::Boolean,
        2 => Value::Byte(from.get::<i32>(FIELD)? as u8),
        3 => Value::Int16(from.get::<i32>(FIELD)? as i16),
        4 => Value::Uint16(from.get::<u32>(FIELD)? as u16),
        5 => Value::Int32(from.get(FIELD)?),
        6 => Value::Uint32(from.get(FIELD)?),
        7 => Value::Int64(from.get(FIELD)?),
        8 => Value::Uint64(from.get(FIELD)?),
        9 => Value::String(text(from, FIELD)?),
        10 => {
            let bytes = from.take(FIELD, count)?.to_vec();
            from.take(FIELD, count.next_multiple_of(4) - count)?;
            Value::ByteArray(bytes)
        }
        11 => Value::Int16Array(numbers(from, count, |n: i32| n as i16)?),
        12 => Value::Uint16Array(numbers(from, count, |n: u32| n as u16)?),
        13 => Value::Int32Array(numbers(from, count, |n: i32| n)?),
        14 => Value::Uint32Array(numbers(from, count, |n: u32| n)?),
        15 => Value::Int64Array(numbers(from, count, |n: i64| n)?),
        16 => Value::Uint64Array(numbers(from, count, |n: u64| n)?),
        17 => Value::StringArray((0..count).map(|_| text(from, FIELD)).collect::<Result<_, _>>()?),
        18 => Value::Hrtime(from.get(FIELD)?),
        19 => Value::NvList(read(from, depth)?),
        20 => Value::NvListArray((0..count).map(|_| read(from, depth)).collect::<Result<_, _>>()?),
        21 => Value::BooleanValue(from.u32(FIELD)? != 0),
        22 => Value::Int8(from.get::<i32>(FIELD)? as i8),
        23 => Value::Uint8(from.get::<u32>(FIELD)? as u8),
        24 => Value::BooleanArray(numbers(from, count, |n: u32| n != 0)?),
        25 => Value::Int8Array(numbers(from, count, |n: i32| n as i8)?),
        26 => Value::Uint8Array(numbers(from, count, |n: u32| n as u8)?),
        27 => Value::Double(from.get(FIELD)?),
        other => return Err(from.wrong("type", Problem::Value(other as u32 as u64))),
    })
}

/// Writes a list.
pub(super) fn write(list: &NvList, to: &mut Writer) {
    to.put(VERSION);
    to.put(list.flags);
    for (name, value) in &list.pairs {
        let mut pair = Writer::new(to.endian);
        write_text(name, &mut pair);
        pair.put(value.code());
        pair.put(value.elements() as u32);
        write_value(value, &mut pair);
        let pair = pair.into_bytes();
        to.put((pair.len() + 8 + uncounted(value)) as u32);
        to.put(pair_memory_bytes(name, value) as u32);
        to.bytes(&pair);
    }
    to.put(0u64);
}

/// The bytes that the size of a pair counts and that are not there: see the head of this file.
fn uncounted(value: &Value) -> usize {
    let counted = matches!(value.code(), 11..=16 | 24..=26);
    if counted && value.elements() == 0 { 4 } else { 0 }
}

fn write_text(text: &Text, to: &mut Writer) {
    to.put(text.as_bytes().len() as u32);
    let from = to.at();
    to.bytes(text.as_bytes());
    to.align(from, 4);
}

fn write_numbers<T: Copy, W: Wire>(values: &[T], to: &mut Writer, as_unit: impl Fn(T) -> W) {
    if !values.is_empty() {
        to.put(values.len() as u32);
        for value in values {
            to.put(as_unit(*value));
        }
    }
}

fn write_value(value: &Value, to: &mut Writer) {
    match value {
        Value::Boolean => {}
        // XDR's single characters are signed, whatever they mean.
        Value::Byte(n) | Value::Uint8(n) => to.put(i32::from(*n as i8)),
        Value::Int8(n) => to.put(i32::from(*n)),
        Value::Int16(n) => to.put(i32::from(*n)),
        Value::Uint16(n) => to.put(u32::from(*n)),
        Value::Int32(n) => to.put(*n),
        Value::Uint32(n) => to.put(*n),
        Value::Int64(n) | Value::Hrtime(n) => to.put(*n),
        Value::Uint64(n) => to.put(*n),
        Value::Double(n) => to.put(*n),
        Value::BooleanValue(n) => to.put(u32::from(*n)),
        Value::String(text) => write_text(text, to),
        Value::ByteArray(bytes) => {
            let from = to.at();
            to.bytes(bytes);
            to.align(from, 4);
        }
        Value::Int8Array(all) => write_numbers(all, to, i32::from),
        Value::Uint8Array(all) => write_numbers(all, to, |n| i32::from(n as i8)),
        Value::Int16Array(all) => write_numbers(all, to, i32::from),
        Value::Uint16Array(all) => write_numbers(all, to, u32::from),
        Value::Int32Array(all) => write_numbers(all, to, |n| n),
        Value::Uint32Array(all) => write_numbers(all, to, |n| n),
        Value::BooleanArray(all) => write_numbers(all, to, u32::from),
        Value::Int64Array(all) => write_numbers(all, to, |n| n),
        Value::Uint64Array(all) => write_numbers(all, to, |n| n),
        Value::StringArray(texts) => texts.iter().for_each(|text| write_text(text, to)),
        Value::NvList(list) => write(list, to),
        Value::NvListArray(lists) => lists.iter().for_each(|list| write(list, to)),
    }
}
