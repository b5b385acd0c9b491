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
use std::ops::Range;
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

/// An attribute of files that is known by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(u8, &'static str);

impl Name {
    /// As the registry has it.
    pub fn text(self) -> &'static str {
        self.1
    }
}

/// Attributes of files by name.
pub mod names {
    use super::Name;

    /// Last read: seconds and nanoseconds since 1970.
    pub const ACCESSED: Name = Name(0, "ZPL_ATIME");
    /// Last written.
    pub const MODIFIED: Name = Name(1, "ZPL_MTIME");
    /// Last changed.
    pub const CHANGED: Name = Name(2, "ZPL_CTIME");
    /// Made.
    pub const CREATED: Name = Name(3, "ZPL_CRTIME");
    /// The transaction group that made it.
    pub const GENERATION: Name = Name(4, "ZPL_GEN");
    /// Kind of file and permissions.
    pub const MODE: Name = Name(5, "ZPL_MODE");
    /// Bytes of a file; entries of a directory.
    pub const SIZE: Name = Name(6, "ZPL_SIZE");
    /// The directory.
    pub const PARENT: Name = Name(7, "ZPL_PARENT");
    /// How many names it has.
    pub const LINKS: Name = Name(8, "ZPL_LINKS");
    /// The directory of extended attributes.
    pub const EXTENDED_ATTRIBUTES: Name = Name(9, "ZPL_XATTR");
    /// The number of a device node.
    pub const DEVICE: Name = Name(10, "ZPL_RDEV");
    /// Attributes that are on or off.
    pub const FLAGS: Name = Name(11, "ZPL_FLAGS");
    /// The owner.
    pub const USER: Name = Name(12, "ZPL_UID");
    /// The group.
    pub const GROUP: Name = Name(13, "ZPL_GID");
    /// Not used.
    pub const PADDING: Name = Name(14, "ZPL_PAD");
    /// A znode's list of access.
    pub const ZNODE_ACL: Name = Name(15, "ZPL_ZNODE_ACL");
    /// Entries of the list of access.
    pub const ACL_COUNT: Name = Name(16, "ZPL_DACL_COUNT");
    /// The text of a symbolic link.
    pub const SYMBOLIC_LINK: Name = Name(17, "ZPL_SYMLINK");
    /// A virus scanner's stamp.
    pub const SCAN_STAMP: Name = Name(18, "ZPL_SCANSTAMP");
    /// The list of access.
    pub const ACL: Name = Name(19, "ZPL_DACL_ACES");
    /// Extended attributes: an XDR nvlist of arrays of bytes.
    pub const EXTENDED_ATTRIBUTE_LIST: Name = Name(20, "ZPL_DXATTR");
    /// The project.
    pub const PROJECT: Name = Name(21, "ZPL_PROJID");
    /// All of them, each at the place that its number says.
    pub(super) const ALL: [Name; 22] = [
        ACCESSED,
        MODIFIED,
        CHANGED,
        CREATED,
        GENERATION,
        MODE,
        SIZE,
        PARENT,
        LINKS,
        EXTENDED_ATTRIBUTES,
        DEVICE,
        FLAGS,
        USER,
        GROUP,
        PADDING,
        ZNODE_ACL,
        ACL_COUNT,
        SYMBOLIC_LINK,
        SCAN_STAMP,
        ACL,
        EXTENDED_ATTRIBUTE_LIST,
        PROJECT,
    ];
}

/// Registry and layouts of a file system.
///
/// Each change of a file asks for some twenty attributes by name and by number, so both are places in an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layouts {
    /// By number.
    registry: Vec<Option<Registered>>,
    /// The numbers of the names that are known, in the order of [`names`].
    numbers: [Option<u16>; names::ALL.len()],
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

    /// Takes in an entry of the registry. Of two of one number, which only a damaged pool has, the first counts.
    pub fn register(&mut self, name: &str, attribute: Registered) {
        let at = usize::from(attribute.number);
        if self.registry.len() <= at {
            self.registry.resize(at + 1, None);
        }
        self.registry[at].get_or_insert(attribute);
        if let Some(known) = names::ALL.iter().find(|known| known.text() == name) {
            self.numbers[usize::from(known.0)] = Some(attribute.number);
        }
    }

    /// The number of an attribute.
    pub fn number(&self, name: Name) -> Option<u16> {
        self.numbers[usize::from(name.0)]
    }

    /// An attribute by its number.
    pub fn registered(&self, number: u16) -> Option<Registered> {
        self.registry.get(usize::from(number)).copied().flatten()
    }

    /// Bytes of an attribute; 0 where they vary, nothing where it is not registered.
    fn bytes(&self, number: u16) -> Option<u16> {
        self.registered(number).map(|attribute| attribute.bytes)
    }
}

/// The attributes of a bonus or spill block as they stand there: the number of each and where its bytes are, in the layout's
/// order. After an error there are no more.
pub struct Places<'a> {
    layouts: &'a Layouts,
    numbers: std::slice::Iter<'a, u16>,
    layout: u16,
    lengths: Reader<'a>,
    header_bytes: usize,
    from: Reader<'a>,
    len: usize,
}

impl<'a> Places<'a> {
    /// Begins with a bonus or spill block.
    ///
    /// # Errors
    /// The magic number is another, or the layout is not known.
    pub fn of(
        bytes: &'a [u8],
        endian: Endian,
        layouts: &'a Layouts,
    ) -> Result<Places<'a>, FormatError> {
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
        let lengths = from;
        from.seek("header", header_bytes)?;
        let (numbers, len) = (numbers.iter(), bytes.len());
        Ok(Places { layouts, numbers, layout, lengths, header_bytes, from, len })
    }

    /// The number of the layout.
    pub fn layout(&self) -> u16 {
        self.layout
    }

    fn place(&mut self, number: u16) -> Result<(u16, Range<usize>), FormatError> {
        let fixed = self.layouts.bytes(number);
        let fixed =
            fixed.ok_or_else(|| self.from.wrong("attribute", Problem::Value(number.into())))?;
        let len = match fixed {
            0 if self.lengths.at() + 2 > self.header_bytes => {
                return Err(self.lengths.wrong("length", Problem::Missing));
            }
            0 => self.lengths.u16("length")?,
            fixed => fixed,
        };
        let start = self.from.at();
        self.from.take("attribute", len.into())?;
        let end = self.from.at();
        // The last one may end with the bytes.
        self.from.seek("attribute", end.next_multiple_of(8).min(self.len))?;
        Ok((number, start..end))
    }
}

impl Iterator for Places<'_> {
    type Item = Result<(u16, Range<usize>), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = *self.numbers.next()?;
        let place = self.place(number);
        if place.is_err() {
            self.numbers = [].iter();
        }
        Some(place)
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
        let places = Places::of(bytes, endian, layouts)?;
        let layout = places.layout();
        let value = |place: Result<(u16, Range<usize>), FormatError>| {
            place.map(|(number, range)| (number, bytes[range].to_vec()))
        };
        let values = places.map(value).collect::<Result<_, _>>()?;
        Ok(SystemAttributes { layout, values })
    }

    /// The bytes.
    ///
    /// # Errors
    /// The layout is another than these attributes', one is not registered or of another length than it must be.
    pub fn encode(&self, endian: Endian, layouts: &Layouts) -> Result<Vec<u8>, FormatError> {
        encode(self.layout, &self.values, endian, layouts)
    }

    /// The bytes of an attribute.
    pub fn get(&self, number: u16) -> Option<&[u8]> {
        let found = self.values.iter().find(|(known, _)| *known == number);
        found.map(|(_, value)| value.as_slice())
    }
}

/// The bytes of attributes, each with its number, in the order of a layout.
///
/// # Errors
/// The layout is another than these attributes', one is not registered or of another length than it must be.
pub fn encode<Value: AsRef<[u8]>>(
    layout: u16,
    values: &[(u16, Value)],
    endian: Endian,
    layouts: &Layouts,
) -> Result<Vec<u8>, FormatError> {
    let wrong = |field, value: u16| {
        let problem = Problem::Value(value.into());
        Err(FormatError { structure: NAME, field, offset: 0, problem })
    };
    let numbers = values.iter().map(|(number, _)| number);
    let is_it = layouts.layouts.get(&layout).is_some_and(|known| known.iter().eq(numbers));
    if !is_it || layout > 0x3ff {
        return wrong("layout", layout);
    }
    let (mut varying, mut bytes) = (0, 0);
    for (number, value) in values {
        let len = value.as_ref().len();
        match (layouts.bytes(*number), u16::try_from(len)) {
            (Some(0), Ok(_)) => varying += 1,
            (Some(fixed), Ok(len)) if fixed == len => {}
            _ => return wrong("attribute", *number),
        }
        bytes += len.next_multiple_of(8);
    }
    let header_bytes = (6 + 2 * varying as usize).next_multiple_of(8);
    if header_bytes > HEADER_BYTES_MAX {
        return wrong("header", varying);
    }
    let mut to = Writer::new(endian);
    to.put(MAGIC);
    to.put(layout | (header_bytes as u16 / 8) << 10);
    for (number, value) in values {
        if layouts.bytes(*number) == Some(0) {
            to.put(value.as_ref().len() as u16);
        }
    }
    to.zeros_to(header_bytes);
    let mut all = to.into_bytes();
    all.reserve_exact(bytes);
    for (_, value) in values {
        all.extend_from_slice(value.as_ref());
        all.resize(all.len().next_multiple_of(8), 0);
    }
    Ok(all)
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
        let mut layouts = Layouts::default();
        (0..10).map(attribute).for_each(|(name, attribute)| layouts.register(&name, attribute));
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
