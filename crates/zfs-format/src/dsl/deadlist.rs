//! Deadlists: blocks that a dataset's predecessor has and it no longer has.
//!
//! In two forms, told apart by the object's type. Before pool version 26 it is a [bpobj](super::bpobj). Since then
//! it is a ZAP: the birth of the oldest block in a list (as a [number's name](super::number_name)) → the bpobj that
//! lists the blocks born after it; with this header as the bonus. A clone's *livelist* has the same form.
//!
//! Source: OpenZFS, `dsl_deadlist.h`, `dsl_deadlist.c`.

use super::bpobj::BpObj;
use crate::object_type::ObjectType;
use crate::wire::{Endian, Record, record};
use stdx::bytes::{FormatError, Problem};

record! {
    /// The header of a deadlist that is a ZAP.
    DeadlistHeader = "deadlist header", 320, {
        /// Bytes of all blocks in it.
        used: u64,
        /// The same as compressed.
        compressed: u64,
        /// The same before compression.
        uncompressed: u64,
    }
}

/// A deadlist, by its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deadlist {
    /// One list.
    Old(BpObj),
    /// A ZAP of lists by birth.
    New(DeadlistHeader),
}

impl Deadlist {
    /// Decodes the bonus of an object of this type.
    ///
    /// # Errors
    /// The type is none of a deadlist, or the bonus too short.
    pub fn decode(
        object_type: ObjectType,
        bonus: &[u8],
        endian: Endian,
    ) -> Result<Deadlist, FormatError> {
        match object_type {
            ObjectType::BPOBJ => BpObj::decode(bonus, endian).map(Deadlist::Old),
            ObjectType::DEADLIST => DeadlistHeader::decode(bonus, endian).map(Deadlist::New),
            ObjectType(other) => Err(FormatError {
                structure: "deadlist",
                field: "object type",
                offset: 0,
                problem: Problem::Value(other.into()),
            }),
        }
    }

    /// The bonus, and the type of the object.
    pub fn encode(&self, endian: Endian) -> (ObjectType, Vec<u8>) {
        match self {
            Deadlist::Old(list) => (ObjectType::BPOBJ, list.encode(endian)),
            Deadlist::New(header) => (ObjectType::DEADLIST, header.encode(endian)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_told_apart_by_their_type() {
        crate::wire::checks::holds_for_any_bytes::<DeadlistHeader>();
        let new = Deadlist::New(DeadlistHeader { used: 1, compressed: 2, uncompressed: 3 });
        let old = Deadlist::Old(BpObj::decode(&[7; 32], Endian::Little).expect("long enough"));
        for list in [new, old] {
            let (object_type, bonus) = list.encode(Endian::Big);
            assert_eq!(Deadlist::decode(object_type, &bonus, Endian::Big), Ok(list));
        }
        assert!(Deadlist::decode(ObjectType::DNODE, &[0; 320], Endian::Little).is_err());
    }
}
