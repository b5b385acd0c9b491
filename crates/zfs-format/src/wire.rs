//! Bytes and values: cursors in either byte order, and structures of fields in a row.
//!
//! A pool is written in the byte order of the machine that wrote it, block by block: a block pointer says
//! which, labels and intent log blocks show it by their magic number. So each structure decodes in both
//! [orders](Endian) and encodes in both; who writes a pool writes [`Endian::Little`].
//!
//! Most structures are numbers in a row. The macro `record!` makes such a one from the list of its fields:
//! the bytes between the last field and its size are padding, not looked at when reading and zero when
//! writing. What is not so simple is written by hand over the same cursors.

use crate::error::{FormatError, Problem};

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// The least significant byte first; what Spindle writes.
    Little,
    /// The most significant byte first.
    Big,
}

impl Endian {
    /// A number of 8 bytes.
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The 8 bytes of a number.
    pub fn bytes(self, number: u64) -> [u8; 8] {
        match self {
            Endian::Little => number.to_le_bytes(),
            Endian::Big => number.to_be_bytes(),
        }
    }

    /// The order in which these 8 bytes are this number: how a magic number shows the order.
    pub fn of_magic(bytes: [u8; 8], magic: u64) -> Option<Endian> {
        [Endian::Little, Endian::Big].into_iter().find(|order| order.u64(bytes) == magic)
    }
}

/// Bytes of one structure, read from front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    structure: &'static str,
    bytes: &'a [u8],
    at: usize,
    /// The order of the numbers.
    pub endian: Endian,
}

impl<'a> Reader<'a> {
    /// Reads the structure of this name from its first byte.
    pub fn new(structure: &'static str, bytes: &'a [u8], endian: Endian) -> Reader<'a> {
        Reader { structure, bytes, at: 0, endian }
    }

    /// The place of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// An error of the field at the next byte.
    pub fn wrong(&self, field: &'static str, problem: Problem) -> FormatError {
        self.wrong_at(field, self.at, problem)
    }

    /// An error of a field at a place.
    pub fn wrong_at(&self, field: &'static str, offset: usize, problem: Problem) -> FormatError {
        FormatError { structure: self.structure, field, offset, problem }
    }

    /// The next bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], FormatError> {
        let end = self.at.checked_add(len);
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| self.wrong(field, Problem::Short))?;
        self.at += len;
        Ok(found)
    }

    /// Goes to a place, forward or backward.
    ///
    /// # Errors
    /// It lies beyond the end.
    pub fn seek(&mut self, field: &'static str, at: usize) -> Result<(), FormatError> {
        if at > self.bytes.len() {
            return Err(self.wrong(field, Problem::Short));
        }
        self.at = at;
        Ok(())
    }

    /// So many bytes as an array.
    ///
    /// # Errors
    /// There are fewer.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], FormatError> {
        Ok(self.take(field, N)?.try_into().expect("so many bytes were cut out"))
    }

    /// The next value.
    ///
    /// # Errors
    /// There are too few bytes, or they can't be such a value.
    pub fn get<T: Wire>(&mut self, field: &'static str) -> Result<T, FormatError> {
        T::read(self, field)
    }

    /// The next byte.
    ///
    /// # Errors
    /// There is none.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, FormatError> {
        self.get(field)
    }

    /// The next 2 bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, FormatError> {
        self.get(field)
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, FormatError> {
        self.get(field)
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, FormatError> {
        self.get(field)
    }
}

/// Bytes that grow.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    /// The order of the numbers.
    pub endian: Endian,
}

impl Writer {
    /// No bytes yet.
    pub fn new(endian: Endian) -> Writer {
        Writer { bytes: Vec::new(), endian }
    }

    /// How many bytes there are.
    pub fn at(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A value.
    pub fn put<T: Wire>(&mut self, value: T) {
        value.write(self);
    }

    /// Zeros up to a place; nothing if it is passed already.
    pub fn zeros_to(&mut self, at: usize) {
        self.bytes.resize(self.bytes.len().max(at), 0);
    }

    /// Zeros up to the next multiple, counted from a place.
    pub fn align(&mut self, from: usize, unit: usize) {
        let len = self.bytes.len().saturating_sub(from);
        self.zeros_to(from + len.next_multiple_of(unit));
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A value with a fixed number of bytes.
pub trait Wire: Sized {
    /// How many.
    const BYTES: usize;

    /// Reads it.
    ///
    /// # Errors
    /// There are too few bytes, or they can't be such a value.
    fn read(from: &mut Reader<'_>, field: &'static str) -> Result<Self, FormatError>;

    /// Writes it.
    fn write(&self, to: &mut Writer);
}

/// A structure of a fixed size that stands by itself.
pub trait Record: Wire {
    /// What it is called in messages.
    const NAME: &'static str;

    /// Decodes it from the front of these bytes.
    ///
    /// # Errors
    /// There are too few bytes, or they can't be such a structure.
    fn decode(bytes: &[u8], endian: Endian) -> Result<Self, FormatError> {
        Reader::new(Self::NAME, bytes, endian).get(Self::NAME)
    }

    /// Its bytes.
    fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut to = Writer::new(endian);
        self.write(&mut to);
        to.into_bytes()
    }

    /// Takes it from the numbers of a ZAP's value. Structures there only ever grew at their end, so what older
    /// software left out is zero.
    ///
    /// # Errors
    /// There are none, more than it has, or they can't be such a structure.
    fn from_numbers(numbers: &[u64]) -> Result<Self, FormatError> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        if bytes.is_empty() || bytes.len() > Self::BYTES.next_multiple_of(8) {
            let problem = Problem::Value(numbers.len() as u64);
            let (structure, field) = (Self::NAME, "number of elements");
            return Err(FormatError { structure, field, offset: 0, problem });
        }
        bytes.resize(Self::BYTES, 0);
        Self::decode(&bytes, Endian::Little)
    }

    /// The numbers of a ZAP's value.
    fn to_numbers(&self) -> Vec<u64> {
        let bytes = self.encode(Endian::Little);
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            const BYTES: usize = size_of::<$type>();

            fn read(from: &mut Reader<'_>, field: &'static str) -> Result<Self, FormatError> {
                let bytes = from.array(field)?;
                Ok(match from.endian {
                    Endian::Little => <$type>::from_le_bytes(bytes),
                    Endian::Big => <$type>::from_be_bytes(bytes),
                })
            }

            fn write(&self, to: &mut Writer) {
                match to.endian {
                    Endian::Little => to.bytes(&self.to_le_bytes()),
                    Endian::Big => to.bytes(&self.to_be_bytes()),
                }
            }
        }
    )*};
}
number!(u8, i8, u16, i16, u32, i32, u64, i64, f64);

impl<T: Wire, const N: usize> Wire for [T; N] {
    const BYTES: usize = N * T::BYTES;

    fn read(from: &mut Reader<'_>, field: &'static str) -> Result<Self, FormatError> {
        let mut failed = None;
        let values = [(); N].map(|()| match failed {
            Some(_) => None,
            None => from.get::<T>(field).map_err(|error| failed = Some(error)).ok(),
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(values.map(|value| value.expect("none failed"))),
        }
    }

    fn write(&self, to: &mut Writer) {
        for value in self {
            value.write(to);
        }
    }
}

/// A structure of fields in a row: its name in messages, its size in bytes, its fields.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident = $label:literal, $size:expr, {
        $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type),*
        }

        const _: () = assert!(0 $(+ <$type as $crate::wire::Wire>::BYTES)* <= $size);

        impl $crate::wire::Wire for $name {
            const BYTES: usize = $size;

            fn read(
                from: &mut $crate::wire::Reader<'_>,
                _field: &'static str,
            ) -> Result<Self, $crate::error::FormatError> {
                let end = from.at() + $size;
                let value = Self { $($field: from.get(stringify!($field))?),* };
                from.seek("padding", end)?;
                Ok(value)
            }

            fn write(&self, to: &mut $crate::wire::Writer) {
                let end = to.at() + $size;
                $($crate::wire::Wire::write(&self.$field, to);)*
                to.zeros_to(end);
            }
        }

        impl $crate::wire::Record for $name {
            const NAME: &'static str = $label;
        }
    };
}
pub(crate) use record;

/// What every record's tests ask.
#[cfg(test)]
pub(crate) mod checks {
    use super::{Endian, Record};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Random bytes decode, what was decoded encodes to bytes that decode to the same, in both orders; and
    /// whatever is cut off at the end is an error.
    pub(crate) fn holds_for_any_bytes<R: Record + PartialEq + std::fmt::Debug>() {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 32,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        runner
            .run(&vec(any::<u8>(), R::BYTES), |bytes| {
                for endian in [Endian::Little, Endian::Big] {
                    if let Ok(value) = R::decode(&bytes, endian) {
                        let encoded = value.encode(endian);
                        prop_assert_eq!(encoded.len(), R::BYTES);
                        let again = R::decode(&encoded, endian);
                        prop_assert_eq!(again.as_ref(), Ok(&value));
                        if R::BYTES % 8 == 0 && endian == Endian::Little {
                            prop_assert_eq!(R::from_numbers(&value.to_numbers()), Ok(value));
                            let _ = R::from_numbers(&[1]);
                            prop_assert!(R::from_numbers(&vec![0; R::BYTES / 8 + 1]).is_err());
                        }
                    }
                    for len in [0, 1, R::BYTES / 2, R::BYTES - 1] {
                        prop_assert!(R::decode(&bytes[..len], endian).is_err());
                    }
                }
                Ok(())
            })
            .expect("the record holds");
    }
}
