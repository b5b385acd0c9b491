//! System attributes: a file's attributes since version 5, by layouts.
//!
//! Three things make sense of the bytes. The *registry*, a ZAP: attribute's name → number, length and kind in one
//! number. The *layouts*, a ZAP: a layout's number (in decimal) → the numbers of its attributes in order. And the
//! bytes themselves, in the bonus and, continued, in the spill block:
//!
//! ```text
//!   0  magic number 0x2f505a         6  lengths of the attributes that vary (2 each), up to the header's end
//!   4  layout(10), header / 8 (6)    …  the attributes, each from a multiple of 8 on
//! ```
//!
//! Attributes' bytes stay as they are: numbers in the block's order.
//!
//! Source: OpenZFS, `sa_impl.h`, `sa.c`, `zfs_sa.c`.

use crate::wire::{Endian, Reader, Writer};
use std::collections::BTreeMap;
use stdx::bytes::{FormatError, Problem};

/// The first word.
pub const MAGIC: u32 = 0x002f_505a;
/// The name of the registry in the master node of system attributes.
pub const REGISTRY: &str = "REGISTRY";
/// The name of the layouts there.
pub const LAYOUTS: &str = "LAYOUTS";
/// Attributes of a layout that are taken. Twenty-two are known.
pub const ATTRIBUTES_MAX: usize = 1024;
/// Bytes of the longest header: 6 bits count 8 bytes each.
const HEADER_BYTES_MAX: usize = 63 * 8;
const NAME: &str = "system attributes";

/// An attribute of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its number in layouts.
    pub number: u16,
    /// Bytes; 0 where they vary.
    pub bytes: u16,
    /// How it is swapped: 0 numbers of 8 bytes, 1 of 4, 2 of 2, 3 bytes, 4 a list of access.
    pub swap: u8,
}

impl Registered {
    /// Takes it from the registry's value.
    pub fn from_value(value: u64) -> Registered {
        Registered { number: value as u16, swap: (value >> 16) as u8, bytes: (value >> 24) as u16 }
    }

    /// The registry's value.
    pub fn to_value(self) -> u64 {
        u64::from(self.number) | u64::from(self.swap) << 16 | u64::from(self.bytes) << 24
    }
}

/// Attributes of files by name.
pub mod names {
    /// Last read: seconds and nanoseconds since 1970.
    pub const ACCESSED: &str = "ZPL_ATIME";
    /// Last written.
    pub const MODIFIED: &str = "ZPL_MTIME";
    /// Last changed.
    pub const CHANGED: &str = "ZPL_CTIME";
    /// Made.
    pub const CREATED: &str = "ZPL_CRTIME";
    /// The transaction group that made it.
    pub const GENERATION: &str = "ZPL_GEN";
    /// Kind of file and permissions.
    pub const MODE: &str = "ZPL_MODE";
    /// Bytes of a file; entries of a directory.
    pub const SIZE: &str = "ZPL_SIZE";
    /// The directory.
    pub const PARENT: &str = "ZPL_PARENT";
    /// How many names it has.
    pub const LINKS: &str = "ZPL_LINKS";
    /// The directory of extended attributes.
    pub const EXTENDED_ATTRIBUTES: &str = "ZPL_XATTR";
    /// The number of a device node.
    pub const DEVICE: &str = "ZPL_RDEV";
    /// Attributes that are on or off.
    pub const FLAGS: &str = "ZPL_FLAGS";
    /// The owner.
    pub const USER: &str = "ZPL_UID";
    /// The group.
    pub const GROUP: &str = "ZPL_GID";
    /// Not used.
    pub const PADDING: &str = "ZPL_PAD";
    /// A znode's list of access.
    pub const ZNODE_ACL: &str = "ZPL_ZNODE_ACL";
    /// Entries of the list of access.
    pub const ACL_COUNT: &str = "ZPL_DACL_COUNT";
    /// The text of a symbolic link.
    pub const SYMBOLIC_LINK: &str = "ZPL_SYMLINK";
    /// A virus scanner's stamp.
    pub const SCAN_STAMP: &str = "ZPL_SCANSTAMP";
    /// The list of access.
    pub const ACL: &str = "ZPL_DACL_ACES";
    /// Extended attributes: an XDR nvlist of arrays of bytes.
    pub const EXTENDED_ATTRIBUTE_LIST: &str = "ZPL_DXATTR";
    /// The project.
    pub const PROJECT: &str = "ZPL_PROJID";
}

/// Registry and layouts of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layouts {
    /// Attributes by name.
    pub registry: BTreeMap<String, Registered>,
    /// Numbers of attributes by layout.
    pub layouts: BTreeMap<u16, Vec<u16>>,
}

/// The attributes of one bonus or spill block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemAttributes {
    /// The number of the layout.
    pub layout: u16,
    /// Number and bytes of each attribute, in the layout's order.
    pub values: Vec<(u16, Vec<u8>)>,
}

impl Layouts {
    /// Takes in an entry of the layouts' ZAP.
    ///
    /// # Errors
    /// The name is no number, or there are too many attributes.
    pub fn add_layout(&mut self, name: &str, numbers: &[u64]) -> Result<(), FormatError> {
        let wrong = |problem| FormatError { structure: NAME, field: "layout", offset: 0, problem };
        let layout: u16 = name.parse().map_err(|_| wrong(Problem::Text))?;
        if numbers.len() > ATTRIBUTES_MAX {
            let (found, limit) = (numbers.len() as u64, ATTRIBUTES_MAX as u64);
            return Err(wrong(Problem::Limit { found, limit }));
        }
        let number =
            |number: &u64| u16::try_from(*number).map_err(|_| wrong(Problem::Value(*number)));
        let numbers = numbers.iter().map(number).collect::<Result<_, _>>()?;
        self.layouts.insert(layout, numbers);
        Ok(())
    }

    /// The number of an attribute.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.registry.get(name).map(|attribute| attribute.number)
    }

    /// Bytes of an attribute; 0 where they vary, nothing where it is not registered.
    fn bytes(&self, number: u16) -> Option<u16> {
        let mut all = self.registry.values();
        all.find(|attribute| attribute.number == number).map(|attribute| attribute.bytes)
    }
}

impl SystemAttributes {
    /// Decodes a bonus or spill block.
    ///
    /// # Errors
    /// The magic number is another, the layout or an attribute is not known, or there are too few bytes.
    pub fn decode(
        bytes: &[u8],
        endian: Endian,
        layouts: &Layouts,
    ) -> Result<SystemAttributes, FormatError> {
        let mut from = Reader::new(NAME, bytes, endian);
        let magic = from.u32("magic number")?;
        if magic != MAGIC {
            return Err(from.wrong_at("magic number", 0, Problem::Magic(magic.into())));
        }
        let info = from.u16("layout")?;
        let layout = info & 0x3ff;
        let header_bytes = usize::from(info >> 10) * 8;
        let numbers = layouts.layouts.get(&layout);
        let numbers =
            numbers.ok_or_else(|| from.wrong_at("layout", 4, Problem::Value(layout.into())))?;
        let mut lengths = from;
        from.seek("header", header_bytes)?;
        let mut values = Vec::with_capacity(numbers.len());
        for number in numbers {
            let fixed = layouts.bytes(*number);
            let fixed =
                fixed.ok_or_else(|| from.wrong("attribute", Problem::Value((*number).into())))?;
            let len = match fixed {
                0 if lengths.at() + 2 > header_bytes => {
                    return Err(lengths.wrong("length", Problem::Missing));
                }
                0 => lengths.u16("length")?,
                fixed => fixed,
            };
            let value = from.take("attribute", len.into())?.to_vec();
            values.push((*number, value));
            // The last one may end with the bytes.
            let next = from.at().next_multiple_of(8).min(bytes.len());
            from.seek("attribute", next)?;
        }
        Ok(SystemAttributes { layout, values })
    }

    /// The bytes.
    ///
    /// # Errors
    /// The layout is another than these attributes', one is not registered or of another length than it must be.
    pub fn encode(&self, endian: Endian, layouts: &Layouts) -> Result<Vec<u8>, FormatError> {
        let wrong = |field, value: u16| {
            let problem = Problem::Value(value.into());
            Err(FormatError { structure: NAME, field, offset: 0, problem })
        };
        let numbers: Vec<u16> = self.values.iter().map(|(number, _)| *number).collect();
        if layouts.layouts.get(&self.layout) != Some(&numbers) || self.layout > 0x3ff {
            return wrong("layout", self.layout);
        }
        let mut lengths = Vec::new();
        for (number, value) in &self.values {
            match (layouts.bytes(*number), u16::try_from(value.len())) {
                (Some(0), Ok(len)) => lengths.push(len),
                (Some(fixed), Ok(len)) if fixed == len => {}
                _ => return wrong("attribute", *number),
            }
        }
        let header_bytes = (6 + 2 * lengths.len()).next_multiple_of(8);
        if header_bytes > HEADER_BYTES_MAX {
            return wrong("header", lengths.len() as u16);
        }
        let mut to = Writer::new(endian);
        to.put(MAGIC);
        to.put(self.layout | (header_bytes as u16 / 8) << 10);
        lengths.iter().for_each(|len| to.put(*len));
        to.zeros_to(header_bytes);
        for (_, value) in &self.values {
            to.bytes(value);
            to.align(0, 8);
        }
        Ok(to.into_bytes())
    }

    /// The bytes of an attribute.
    pub fn get(&self, number: u16) -> Option<&[u8]> {
        let found = self.values.iter().find(|(known, _)| *known == number);
        found.map(|(_, value)| value.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Attributes 0 to 9, of which the odd ones vary; layout 2 has all, layout 3 none.
    fn layouts() -> Layouts {
        let attribute = |number: u16| {
            let bytes = if number % 2 == 1 { 0 } else { number + 1 };
            (format!("A{number}"), Registered { number, bytes, swap: 3 })
        };
        let mut layouts =
            Layouts { registry: (0..10).map(attribute).collect(), layouts: BTreeMap::new() };
        layouts.add_layout("2", &(0..10).collect::<Vec<u64>>()).expect("a layout");
        layouts.add_layout("3", &[]).expect("a layout");
        layouts
    }

    proptest! {
        #[test]
        fn attributes_come_out_as_they_went_in(
            lengths in proptest::collection::vec(0usize..40, 10), fill in any::<u8>(),
            cut in any::<prop::sample::Index>(), bit in any::<prop::sample::Index>(),
        ) {
            let layouts = layouts();
            let value = |(number, len): (u16, usize)| {
                let len = if number % 2 == 1 { len } else { usize::from(number) + 1 };
                (number, vec![fill; len])
            };
            let values = (0..10).zip(lengths).map(value).collect();
            let attributes = SystemAttributes { layout: 2, values };
            for endian in [Endian::Little, Endian::Big] {
                let mut bytes = attributes.encode(endian, &layouts).expect("they fit");
                prop_assert_eq!(
                    SystemAttributes::decode(&bytes, endian, &layouts),
                    Ok(attributes.clone())
                );
                let _ = SystemAttributes::decode(&bytes[..cut.index(bytes.len())], endian, &layouts);
                let bit = bit.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                let _ = SystemAttributes::decode(&bytes, endian, &layouts);
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let layouts = layouts();
        let none = SystemAttributes { layout: 3, values: Vec::new() };
        let bytes = none.encode(Endian::Little, &layouts).expect("a header");
        assert_eq!(bytes, [0x5a, 0x50, 0x2f, 0, 3, 4, 0, 0]);
        assert_eq!(SystemAttributes::decode(&bytes, Endian::Little, &layouts), Ok(none.clone()));
        assert!(SystemAttributes::decode(&bytes, Endian::Big, &layouts).is_err());
        assert!(SystemAttributes::decode(&bytes, Endian::Little, &Layouts::default()).is_err());
        let other = SystemAttributes { layout: 2, ..none };
        assert!(other.encode(Endian::Little, &layouts).is_err());
        let value = 0x0000_5803_000f_u64;
        assert_eq!(Registered::from_value(value).to_value(), value);
        assert!(Layouts::default().add_layout("x", &[]).is_err());
    }
}
