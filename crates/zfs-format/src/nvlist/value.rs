//! A list of names and values, and what a name may hold: every type of OpenZFS's, by its number.

use std::fmt;
use stdx::bytes::{FormatError, Problem};

/// How deep lists may lie in lists: the bound of OpenZFS's kernel side.
pub const DEPTH_MAX: usize = 20;
pub(crate) const NAME: &str = "nvlist";
/// The only version of lists.
pub(crate) const VERSION: i32 = 0;
/// A pair's fixed part in memory, in bytes.
pub(crate) const PAIR_BYTES: usize = 16;
/// A list's own part in memory, in bytes.
pub(crate) const LIST_BYTES: usize = 24;

/// Bytes without a zero that are nearly always UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(Vec<u8>);

impl Text {
    /// The bytes up to the first zero.
    pub fn from_bytes(bytes: &[u8]) -> Text {
        Text(bytes.iter().copied().take_while(|byte| *byte != 0).collect())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<&str> for Text {
    /// The text up to the first zero.
    fn from(text: &str) -> Text {
        Text::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is the type of its name")]
pub enum Value {
    /// No value: that the name is there says all.
    Boolean,
    Byte(u8),
    Int16(i16),
    Uint16(u16),
    Int32(i32),
    Uint32(u32),
    Int64(i64),
    Uint64(u64),
    String(Text),
    ByteArray(Vec<u8>),
    Int16Array(Vec<i16>),
    Uint16Array(Vec<u16>),
    Int32Array(Vec<i32>),
    Uint32Array(Vec<u32>),
    Int64Array(Vec<i64>),
    Uint64Array(Vec<u64>),
    StringArray(Vec<Text>),
    /// Nanoseconds.
    Hrtime(i64),
    NvList(NvList),
    NvListArray(Vec<NvList>),
    /// True or false; 4 bytes, of which any but zero is true.
    BooleanValue(bool),
    Int8(i8),
    Uint8(u8),
    BooleanArray(Vec<bool>),
    Int8Array(Vec<i8>),
    Uint8Array(Vec<u8>),
    Double(f64),
}

impl Value {
    /// The number of its type on disk.
    pub fn code(&self) -> i32 {
        match self {
            Value::Boolean => 1,
            Value::Byte(_) => 2,
            Value::Int16(_) => 3,
            Value::Uint16(_) => 4,
            Value::Int32(_) => 5,
            Value::Uint32(_) => 6,
            Value::Int64(_) => 7,
            Value::Uint64(_) => 8,
            Value::String(_) => 9,
            Value::ByteArray(_) => 10,
            Value::Int16Array(_) => 11,
            Value::Uint16Array(_) => 12,
            Value::Int32Array(_) => 13,
            Value::Uint32Array(_) => 14,
            Value::Int64Array(_) => 15,
            Value::Uint64Array(_) => 16,
            Value::StringArray(_) => 17,
            Value::Hrtime(_) => 18,
            Value::NvList(_) => 19,
            Value::NvListArray(_) => 20,
            Value::BooleanValue(_) => 21,
            Value::Int8(_) => 22,
            Value::Uint8(_) => 23,
            Value::BooleanArray(_) => 24,
            Value::Int8Array(_) => 25,
            Value::Uint8Array(_) => 26,
            Value::Double(_) => 27,
        }
    }

    /// How many elements the pair says it has: none for a bare name, 1 for what is no array.
    pub fn elements(&self) -> usize {
        match self {
            Value::Boolean => 0,
            Value::ByteArray(values) | Value::Uint8Array(values) => values.len(),
            Value::Int16Array(values) => values.len(),
            Value::Uint16Array(values) => values.len(),
            Value::Int32Array(values) => values.len(),
            Value::Uint32Array(values) => values.len(),
            Value::Int64Array(values) => values.len(),
            Value::Uint64Array(values) => values.len(),
            Value::StringArray(values) => values.len(),
            Value::NvListArray(values) => values.len(),
            Value::BooleanArray(values) => values.len(),
            Value::Int8Array(values) => values.len(),
            _ => 1,
        }
    }

    /// Bytes of the value in OpenZFS's memory, which both encodings state. Lists count without what
    /// they hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        let many = self.elements();
        match self {
            Value::Boolean => 0,
            Value::Byte(_) | Value::Int8(_) | Value::Uint8(_) => 1,
            Value::Int16(_) | Value::Uint16(_) => 2,
            Value::Int32(_) | Value::Uint32(_) | Value::BooleanValue(_) => 4,
            Value::Int64(_) | Value::Uint64(_) | Value::Hrtime(_) | Value::Double(_) => 8,
            Value::String(text) => text.as_bytes().len() + 1,
            Value::ByteArray(_) | Value::Uint8Array(_) | Value::Int8Array(_) => many,
            Value::Int16Array(_) | Value::Uint16Array(_) => many * 2,
            Value::Int32Array(_) | Value::Uint32Array(_) | Value::BooleanArray(_) => many * 4,
            Value::Int64Array(_) | Value::Uint64Array(_) => many * 8,
            Value::StringArray(texts) => {
                many * 8 + texts.iter().map(|text| text.as_bytes().len() + 1).sum::<usize>()
            }
            Value::NvList(_) => LIST_BYTES,
            Value::NvListArray(_) => many * (8 + LIST_BYTES),
        }
    }
}

/// Bytes of a whole pair in OpenZFS's memory: both parts are rounded up to 8.
pub(crate) fn pair_memory_bytes(name: &Text, value: &Value) -> usize {
    (PAIR_BYTES + name.as_bytes().len() + 1).next_multiple_of(8)
        + value.memory_bytes().next_multiple_of(8)
}

/// A list of names and values.
#[derive(Clone, Debug, PartialEq)]
pub struct NvList {
    /// 1: names are unique, 2: pairs of name and type are; 0: neither.
    pub flags: u32,
    /// The pairs in their order.
    pub pairs: Vec<(Text, Value)>,
}

impl Default for NvList {
    fn default() -> NvList {
        NvList { flags: NvList::UNIQUE_NAMES, pairs: Vec::new() }
    }
}

impl NvList {
    /// The flag of lists whose names are unique, which nearly all are.
    pub const UNIQUE_NAMES: u32 = 1;

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.pairs.iter().find(|(known, _)| known.as_bytes() == name.as_bytes()).map(|(_, v)| v)
    }

    /// Puts a value under a name, in place of one that is there.
    pub fn set(&mut self, name: &str, value: Value) {
        let found = self.pairs.iter_mut().find(|(known, _)| known.as_bytes() == name.as_bytes());
        match found {
            Some((_, old)) => *old = value,
            None => self.pairs.push((Text::from(name), value)),
        }
    }

    /// Takes a name away, and says what it held.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.pairs.iter().position(|(known, _)| known.as_bytes() == name.as_bytes())?;
        Some(self.pairs.remove(at).1)
    }

    /// Whether the name is there, whatever it holds: how flags are written.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn typed<'a, T>(
        &'a self,
        name: &'static str,
        of: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FormatError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => of(value).map(Some).ok_or(FormatError {
                structure: NAME,
                field: name,
                offset: 0,
                problem: Problem::Type,
            }),
        }
    }

    /// The number of this name, if it is there.
    ///
    /// # Errors
    /// It is something else than a number of 64 bits.
    pub fn u64(&self, name: &'static str) -> Result<Option<u64>, FormatError> {
        self.typed(name, |value| match value {
            Value::Uint64(number) => Some(*number),
            _ => None,
        })
    }

    /// The text of this name, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, name: &'static str) -> Result<Option<&Text>, FormatError> {
        self.typed(name, |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// The list of this name, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn list(&self, name: &'static str) -> Result<Option<&NvList>, FormatError> {
        self.typed(name, |value| match value {
            Value::NvList(list) => Some(list),
            _ => None,
        })
    }

    /// The lists of this name, if they are there.
    ///
    /// # Errors
    /// It is something else.
    pub fn lists(&self, name: &'static str) -> Result<Option<&[NvList]>, FormatError> {
        self.typed(name, |value| match value {
            Value::NvListArray(lists) => Some(lists.as_slice()),
            _ => None,
        })
    }

    /// The numbers of this name, if they are there.
    ///
    /// # Errors
    /// It is something else.
    pub fn u64s(&self, name: &'static str) -> Result<Option<&[u64]>, FormatError> {
        self.typed(name, |value| match value {
            Value::Uint64Array(numbers) => Some(numbers.as_slice()),
            _ => None,
        })
    }
}
