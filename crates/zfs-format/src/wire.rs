//! Structures of fields in a row, over the cursors of [`stdx::bytes`].
//!
//! A pool is written in the byte order of the machine that wrote it, block by block: a block pointer says
//! which, labels and intent log blocks show it by their magic number. So each structure decodes in both
//! [orders](Endian) and encodes in both; who writes a pool writes [`Endian::Little`].
//!
//! Most structures are numbers in a row. The macro `record!` makes such a one from the list of its fields:
//! the bytes between the last field and its size are padding, not looked at when reading and zero when
//! writing. What is not so simple is written by hand over the same cursors.

pub use stdx::bytes::{Endian, Number, Reader, Wire, Writer, put};
use stdx::bytes::{FormatError, Problem};

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
            ) -> Result<Self, stdx::bytes::FormatError> {
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
