//! What could break: a type's place or padding, a list within a list, the order of pairs; a count that is
//! believed and eats memory; a depth that eats the stack.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Text> {
    vec(1u8.., 0..12).prop_map(|bytes| Text::from_bytes(&bytes))
}

fn plain() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Boolean),
        any::<u8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Int16),
        any::<u16>().prop_map(Value::Uint16),
        any::<i32>().prop_map(Value::Int32),
        any::<u32>().prop_map(Value::Uint32),
        any::<i64>().prop_map(Value::Int64),
        any::<u64>().prop_map(Value::Uint64),
        text().prop_map(Value::String),
        prop_oneof![
            vec(any::<u8>(), 0..9).prop_map(Value::ByteArray),
            vec(any::<i16>(), 0..5).prop_map(Value::Int16Array),
            vec(any::<u16>(), 0..5).prop_map(Value::Uint16Array),
            vec(any::<i32>(), 0..5).prop_map(Value::Int32Array),
            vec(any::<u32>(), 0..5).prop_map(Value::Uint32Array),
            vec(any::<i64>(), 0..5).prop_map(Value::Int64Array),
            vec(any::<u64>(), 0..5).prop_map(Value::Uint64Array),
            vec(text(), 0..5).prop_map(Value::StringArray),
            vec(any::<bool>(), 0..5).prop_map(Value::BooleanArray),
            vec(any::<i8>(), 0..9).prop_map(Value::Int8Array),
        ],
        vec(any::<u8>(), 0..9).prop_map(Value::Uint8Array),
        any::<i64>().prop_map(Value::Hrtime),
        any::<bool>().prop_map(Value::BooleanValue),
        any::<i8>().prop_map(Value::Int8),
        any::<u8>().prop_map(Value::Uint8),
        any::<i32>().prop_map(|n| Value::Double(f64::from(n) / 3.0)),
    ]
}

fn of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = NvList> {
    (0u32..4, vec((text(), value), 0..6)).prop_map(|(flags, pairs)| NvList { flags, pairs })
}

fn list() -> impl Strategy<Value = NvList> {
    let value = plain().prop_recursive(3, 40, 4, |inner| {
        prop_oneof![
            of(inner.clone()).prop_map(Value::NvList),
            vec(of(inner), 0..3).prop_map(Value::NvListArray),
        ]
    });
    of(value)
}

const ENCODINGS: [Encoding; 4] = [
    Encoding::Xdr(Endian::Little),
    Encoding::Xdr(Endian::Big),
    Encoding::Native(Endian::Little),
    Encoding::Native(Endian::Big),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_encoded_decodes_to_the_same(list in list(), after in vec(any::<u8>(), 0..9)) {
        for encoding in ENCODINGS {
            let mut bytes = list.encode(encoding);
            let len = bytes.len();
            bytes.extend(&after);
            prop_assert_eq!(NvList::decode(&bytes), Ok((list.clone(), encoding, len)));
        }
    }

    #[test]
    fn a_list_that_is_cut_off_is_an_error(list in list(), cut in any::<prop::sample::Index>()) {
        for encoding in ENCODINGS {
            let bytes = list.encode(encoding);
            prop_assert!(NvList::decode(&bytes[..cut.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn a_flipped_bit_never_panics(list in list(), bit in any::<prop::sample::Index>()) {
        for encoding in ENCODINGS {
            let mut bytes = list.encode(encoding);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok((list, encoding, _)) = NvList::decode(&bytes) {
                // What can be read can be written, and then stays as it is.
                let again = list.encode(encoding);
                let (read, ..) = NvList::decode(&again).expect("it was written by us");
                prop_assert_eq!(read.encode(encoding), again);
            }
        }
    }
}

#[test]
fn the_bytes_are_those_of_the_format() {
    // By hand after RFC 4506 and nvpair.h: a list with one number.
    let mut list = NvList::default();
    list.set("txg", Value::Uint64(0x0102_0304_0506_0708));
    let xdr = [
        1, 1, 0, 0, // XDR, little-endian host
        0, 0, 0, 0, 0, 0, 0, 1, // version, unique names
        0, 0, 0, 32, 0, 0, 0, 32, // sizes here and in memory
        0, 0, 0, 3, b't', b'x', b'g', 0, // name
        0, 0, 0, 8, 0, 0, 0, 1, // type, elements
        1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(list.encode(Encoding::Xdr(Endian::Little)), xdr);
    let native = [
        0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, // header, version, flags
        32, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, // sizes, elements, type
        b't', b'x', b'g', 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0,
    ];
    assert_eq!(list.encode(Encoding::Native(Endian::Little)), native);
}

#[test]
fn lists_within_lists_end_at_the_limit() {
    let nested = |depth: usize| {
        (1..depth).fold(NvList::default(), |inner, _| {
            let mut list = NvList::default();
            list.set("in", Value::NvList(inner));
            list
        })
    };
    for encoding in ENCODINGS {
        assert!(NvList::decode(&nested(DEPTH_MAX).encode(encoding)).is_ok());
        let error = NvList::decode(&nested(DEPTH_MAX + 1).encode(encoding)).expect_err("too deep");
        assert_eq!(error.field, "depth");
    }
}

#[test]
fn a_count_without_bytes_is_an_error_and_takes_no_memory() {
    let mut list = NvList::default();
    list.set("n", Value::Uint64Array(vec![7]));
    let mut bytes = list.encode(Encoding::Xdr(Endian::Little));
    // Both counts of the array.
    bytes[32..36].copy_from_slice(&u32::MAX.to_be_bytes());
    bytes[36..40].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(NvList::decode(&bytes).is_err());
}
