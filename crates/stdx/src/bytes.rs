//! Bytes and values: what every format stands on.
//!
//! ```text
//!   Reader    bytes of one structure: the next field, or the field at a place; each by its name
//!   Wire      a value of a fixed number of bytes, both ways
//!   Writer    bytes that grow; put changes bytes in place
//!   FormatError   structure, field, place, problem
//! ```
//!
//! Bad bytes are a value, never a panic (DESIGN §9, rule 7). An error names the structure, the field and its place
//! in the bytes that were given (or on the device, for a reader that was told [where they lie](Reader::lying_at)); which
//! block of which device they came from is added by whoever read them. A format has no error of its own: what can be
//! wrong with a field is the same in all of them, and who shows errors knows one type.
//!
//! Numbers stand in one of two [orders](Endian); the reader is told which, since ZFS has both.

/// Bytes that are not what they should be: which structure, which field, where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {field} at byte {offset}: {problem}")]
pub struct FormatError {
    /// What was read: `uberblock`.
    pub structure: &'static str,
    /// Which part of it.
    pub field: &'static str,
    /// Where it stands, from the start of the bytes that were given, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub problem: Problem,
}

impl FormatError {
    /// Whether there is simply nothing of the kind: no magic number.
    pub fn is_absence(&self) -> bool {
        matches!(self.problem, Problem::Magic(_))
    }
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It lies beyond the end of what there is.
    #[error("there are too few bytes")]
    Short,
    /// Not the bytes that it begins with.
    #[error("it is none of these: the magic number is {0:#x}")]
    Magic(u64),
    /// The checksum of the structure is another.
    #[error("the checksum is wrong")]
    Checksum,
    /// The checksum of the structure is another, short enough to be shown.
    #[error("checksum {found:08x}, computed {computed:08x}: the bytes are damaged")]
    Sum {
        /// What is there.
        found: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// A version that is not known.
    #[error("version {0} is not known")]
    Version(u64),
    /// A number that can't be.
    #[error("{0} can't be")]
    Value(u64),
    /// A number outside of what the field may hold.
    #[error("{found} is not within {least} to {most}")]
    Range {
        /// What is there.
        found: u64,
        /// The least that may be; short, so that results stay small.
        least: u32,
        /// The most that may be.
        most: u64,
    },
    /// More than this reader takes.
    #[error("{found} is more than the {limit} that are taken")]
    Limit {
        /// How many there are.
        found: u64,
        /// How many are taken.
        limit: u64,
    },
    /// Bits that nobody has named yet.
    #[error("unknown bits {0:#x}: something newer has written it")]
    UnknownBits(u64),
    /// Known, and not supported.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// Fields that exclude one another, in words.
    #[error("{0}")]
    Contradiction(&'static str),
    /// What can't be right beside the rest of the structure.
    #[error("it can't be right: damaged, or made by something else")]
    Unsound,
    /// Text that doesn't end, or holds a zero byte.
    #[error("it is no text")]
    Text,
    /// A value is there, but of another type.
    #[error("it is of another type than it should be")]
    Type,
    /// A value that must be there is not.
    #[error("it is missing")]
    Missing,
    /// What should be a tree or a chain runs in a circle, or two things claim one place.
    #[error("it is reached twice")]
    Twice,
}

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

/// Bytes of one structure, read from front to back or field by field at their places.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    structure: &'static str,
    bytes: &'a [u8],
    at: usize,
    lies_at: usize,
    /// The order of the numbers.
    pub endian: Endian,
}

impl<'a> Reader<'a> {
    /// Reads the structure of this name from its first byte.
    #[inline]
    pub fn new(structure: &'static str, bytes: &'a [u8], endian: Endian) -> Reader<'a> {
        Reader { structure, bytes, at: 0, lies_at: 0, endian }
    }

    /// Reads a structure of little-endian numbers.
    #[inline]
    pub fn little(structure: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader::new(structure, bytes, Endian::Little)
    }

    /// The same for bytes that lie at this place of something larger: errors count from there.
    pub fn lying_at(self, at: u64) -> Reader<'a> {
        Reader { lies_at: usize::try_from(at).unwrap_or(usize::MAX), ..self }
    }

    /// The place of the next byte.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// All bytes that were given.
    #[inline]
    pub fn all(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// An error of the field at the next byte.
    pub fn wrong(&self, field: &'static str, problem: Problem) -> FormatError {
        self.wrong_at(field, self.at, problem)
    }

    /// An error of a field at a place.
    pub fn wrong_at(&self, field: &'static str, offset: usize, problem: Problem) -> FormatError {
        let offset = self.lies_at.saturating_add(offset);
        FormatError { structure: self.structure, field, offset, problem }
    }

    /// Refuses what is not sound beside the rest of the structure.
    ///
    /// # Errors
    /// It is not.
    pub fn require(&self, sound: bool, field: &'static str) -> Result<(), FormatError> {
        if sound { Ok(()) } else { Err(self.wrong(field, Problem::Unsound)) }
    }

    /// The next bytes.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], FormatError> {
        let found = self.slice(field, self.at, len)?;
        self.at += len;
        Ok(found)
    }

    /// Goes to a place, forward or backward.
    ///
    /// # Errors
    /// It lies beyond the end.
    #[inline]
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
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], FormatError> {
        let found = self.array_at(field, self.at)?;
        self.at += N;
        Ok(found)
    }

    /// The next value.
    ///
    /// # Errors
    /// There are too few bytes, or they can't be such a value.
    #[inline]
    pub fn get<T: Wire>(&mut self, field: &'static str) -> Result<T, FormatError> {
        T::read(self, field)
    }

    /// The next byte.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, FormatError> {
        self.get(field)
    }

    /// The next 2 bytes.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, FormatError> {
        self.get(field)
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, FormatError> {
        self.get(field)
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, FormatError> {
        self.get(field)
    }

    /// So many bytes at a place.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn slice(
        &self,
        field: &'static str,
        at: usize,
        len: usize,
    ) -> Result<&'a [u8], FormatError> {
        let found = at.checked_add(len).and_then(|end| self.bytes.get(at..end));
        found.ok_or_else(|| self.wrong_at(field, at, Problem::Short))
    }

    /// So many bytes at a place as an array.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn array_at<const N: usize>(
        &self,
        field: &'static str,
        at: usize,
    ) -> Result<[u8; N], FormatError> {
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
        found.copied().ok_or_else(|| self.wrong_at(field, at, Problem::Short))
    }

    /// The value at a place.
    ///
    /// # Errors
    /// There are too few bytes, or they can't be such a value.
    #[inline]
    pub fn get_at<T: Wire>(&self, field: &'static str, at: usize) -> Result<T, FormatError> {
        T::read(&mut Reader { at, ..*self }, field)
    }

    /// The bytes at a place, by which a structure is known.
    ///
    /// # Errors
    /// There are too few bytes, or they are others: [`Problem::Magic`] with the first 8 of them as a number.
    pub fn magic_at(
        &self,
        field: &'static str,
        at: usize,
        expected: &[u8],
    ) -> Result<(), FormatError> {
        let found = self.slice(field, at, expected.len())?;
        if found == expected {
            return Ok(());
        }
        let mut first = [0; 8];
        first.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        Err(self.wrong_at(field, at, Problem::Magic(u64::from_le_bytes(first))))
    }

    /// The number at a place, which must lie in a range.
    ///
    /// # Errors
    /// There are too few bytes, or it does not.
    pub fn within_at<T: Wire + Into<u64> + Copy>(
        &self,
        field: &'static str,
        at: usize,
        least: u32,
        most: u64,
    ) -> Result<T, FormatError> {
        let value: T = self.get_at(field, at)?;
        self.within(field, at, value.into(), least, most).map(|()| value)
    }

    /// Refuses a number of the field at a place that does not lie in a range.
    ///
    /// # Errors
    /// It does not.
    pub fn within(
        &self,
        field: &'static str,
        at: usize,
        found: u64,
        least: u32,
        most: u64,
    ) -> Result<(), FormatError> {
        if (u64::from(least)..=most).contains(&found) {
            return Ok(());
        }
        Err(self.wrong_at(field, at, Problem::Range { found, least, most }))
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

/// A number: what can be put over bytes that are there.
pub trait Number: Wire + Copy {
    /// Puts it at a place.
    ///
    /// # Panics
    /// It would lie beyond the end: what is changed in place was checked when it was read, or is our own.
    fn put(self, bytes: &mut [u8], at: usize, endian: Endian);
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn read(from: &mut Reader<'_>, field: &'static str) -> Result<Self, FormatError> {
                let bytes = from.array(field)?;
                Ok(match from.endian {
                    Endian::Little => <$type>::from_le_bytes(bytes),
                    Endian::Big => <$type>::from_be_bytes(bytes),
                })
            }

            #[inline]
            fn write(&self, to: &mut Writer) {
                match to.endian {
                    Endian::Little => to.bytes(&self.to_le_bytes()),
                    Endian::Big => to.bytes(&self.to_be_bytes()),
                }
            }
        }

        impl Number for $type {
            #[inline]
            fn put(self, bytes: &mut [u8], at: usize, endian: Endian) {
                put(bytes, at, &match endian {
                    Endian::Little => self.to_le_bytes(),
                    Endian::Big => self.to_be_bytes(),
                });
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

/// Puts a field's bytes into a structure of our own.
///
/// # Panics
/// It would lie beyond the end: the sizes of our own structures are constants.
#[inline]
pub fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a place of an error that counts from elsewhere, a number that is half there, an order.
    #[test]
    fn fields_are_read_where_they_are_and_errors_say_where_they_are_not() {
        let bytes: Vec<u8> = (1..=12).collect();
        let mut from = Reader::new("thing", &bytes, Endian::Big);
        assert_eq!(from.u16("kind"), Ok(0x0102));
        assert_eq!(from.get_at::<u32>("size", 4), Ok(0x0506_0708));
        assert_eq!(from.at(), 2);
        let short = from.get_at::<u64>("end", 5).expect_err("it reaches beyond the end");
        assert_eq!(short.to_string(), "thing: end at byte 5: there are too few bytes");
        assert!(from.get_at::<u8>("far", usize::MAX).is_err() && from.seek("far", 13).is_err());
        assert!(from.slice("far", usize::MAX, 2).is_err());
        let there = Reader::little("thing", &bytes).lying_at(4096);
        let range = there.within_at::<u16>("count", 2, 1, 9).expect_err("it is not");
        let text = "thing: count at byte 4098: 1027 is not within 1 to 9";
        assert_eq!(range.to_string(), text);
        assert_eq!(there.within_at::<u16>("count", 2, 1, 2000), Ok(1027));
        assert_eq!(there.magic_at("magic", 4, &[5, 6]), Ok(()));
        let other = there.magic_at("magic", 4, &[5, 7]).expect_err("it is another");
        assert!(other.is_absence() && other.problem == Problem::Magic(0x0605));
        let unsound = there.require(false, "count").expect_err("it is not sound").to_string();
        assert!(unsound.starts_with("thing: count at byte 4096: it can't be right"), "{unsound}");
    }

    #[test]
    fn an_error_is_small_enough_to_be_a_part_of_others() {
        assert!(size_of::<FormatError>() <= 64, "{}", size_of::<FormatError>());
    }

    #[test]
    fn what_is_put_in_place_is_what_is_read_there() {
        for endian in [Endian::Little, Endian::Big] {
            let mut bytes = vec![0; 16];
            0x0102_0304_0506_0708_u64.put(&mut bytes, 3, endian);
            7_u16.put(&mut bytes, 11, endian);
            let from = Reader::new("thing", &bytes, endian);
            assert_eq!(from.get_at("long", 3), Ok(0x0102_0304_0506_0708_u64));
            assert_eq!((from.get_at("short", 11), from.get_at("next", 13)), (Ok(7_u16), Ok(0_u8)));
            let mut to = Writer::new(endian);
            to.zeros_to(3);
            to.put(0x0102_0304_0506_0708_u64);
            to.put(7_u16);
            to.zeros_to(16);
            assert_eq!(to.into_bytes(), bytes);
        }
    }
}
