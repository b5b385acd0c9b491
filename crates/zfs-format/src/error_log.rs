//! The log of damaged blocks: names of two ZAPs of the MOS.
//!
//! A name is four numbers in hexadecimal with colons between. In the older form the ZAP is one for the pool: objset,
//! object, level, block. With the feature `head_errlog` it is a ZAP of ZAPs, by head dataset; names there are
//! object, level, block and birth. A negative level is written as its two's complement.
//!
//! Source: OpenZFS, `spa_errlog.c`.

use crate::dsl::name_number;
use crate::dsl::scan::ScanBookmark;

/// A damaged block of a head dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeadError {
    /// The object.
    pub object: u64,
    /// The level.
    pub level: i64,
    /// The block of that level.
    pub block: u64,
    /// The transaction group in which the block was born.
    pub birth: u64,
}

fn four(name: &str) -> Option<[u64; 4]> {
    let mut parts = name.split(':').map(|part| name_number(part.as_bytes()));
    let numbers = [parts.next()??, parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// The block that a name of the older form says.
pub fn parse(name: &str) -> Option<ScanBookmark> {
    let [objset, object, level, block] = four(name)?;
    Some(ScanBookmark { objset, object, level: level as i64, block })
}

/// The name of the older form.
pub fn name(block: &ScanBookmark) -> String {
    format!("{:x}:{:x}:{:x}:{:x}", block.objset, block.object, block.level, block.block)
}

impl HeadError {
    /// The block that a name says.
    pub fn parse(name: &str) -> Option<HeadError> {
        let [object, level, block, birth] = four(name)?;
        Some(HeadError { object, level: level as i64, block, birth })
    }

    /// The name.
    pub fn name(&self) -> String {
        format!("{:x}:{:x}:{:x}:{:x}", self.object, self.level, self.block, self.birth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_say_blocks(words in any::<[u64; 4]>(), junk in ".{0,20}") {
            let [objset, object, level, block] = words;
            let place = ScanBookmark { objset, object, level: level as i64, block };
            prop_assert_eq!(parse(&name(&place)), Some(place));
            let error = HeadError { object, level: level as i64, block, birth: objset };
            prop_assert_eq!(HeadError::parse(&error.name()), Some(error));
            let _ = parse(&junk);
        }
    }

    #[test]
    fn five_numbers_are_no_block() {
        assert_eq!(parse("1:2:3:4:5"), None);
        assert_eq!(parse("1:2:3"), None);
        assert_eq!(parse("15:0:ffffffffffffffff:0").map(|place| place.level), Some(-1));
    }
}
