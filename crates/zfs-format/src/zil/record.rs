//! Records of the intent log: what was done, to be done again.
//!
//! A record is a head of 32 bytes (kind, length, transaction group, sequence), fields in a row by kind, and for most
//! kinds bytes after them: names with their zeros, the data of a write, a list of access. Those bytes are kept as they
//! are; [`strings`] takes names apart. The record's length counts everything; what rounds it up to 8 is part
//! of the bytes.
//!
//! A kind's highest bit says that names differ not by case alone.
//!
//! Source: OpenZFS, `zil.h`, `zfs_log.c`.

use crate::block_pointer::BlockPointer;
use crate::wire::{Endian, Reader, Record, Wire, Writer, record};
use stdx::bytes::{FormatError, Problem};

const NAME: &str = "intent log record";
/// Bytes of a record's head.
pub const HEAD_BYTES: usize = 32;
/// The bit of a kind that says that names differ not by case alone.
const CASE_INSENSITIVE: u64 = 1 << 63;
/// The kind of a write.
const WRITE: u64 = 9;
/// Words of an attribute bitmap at the most: three are in use.
const ATTRIBUTE_WORDS_MAX: u32 = 64;

record! {
    /// What is common to all that make something.
    Create = "log record: create", 72, {
        /// The directory.
        directory: u64,
        /// The new object: number in the low 48 bits, slots less one in the high 8.
        object: u64,
        /// Kind of file and permissions.
        mode: u64,
        /// The owner.
        uid: u64,
        /// The group.
        gid: u64,
        /// The transaction group that made it.
        generation: u64,
        /// When, in seconds and nanoseconds since 1970.
        created: [u64; 2],
        /// The number of a device node.
        device: u64,
    }
}

record! {
    /// What is known of a list of access that follows.
    AclCounts = "log record: list of access", 40, {
        /// How many entries.
        entries: u64,
        /// How many domains of foreign ids.
        domains: u64,
        /// How many foreign ids.
        fuids: u64,
        /// Bytes of the list.
        bytes: u64,
        /// Flags of the list.
        flags: u64,
    }
}

record! {
    /// A file or directory is removed; its name follows.
    Remove = "log record: remove", 8, {
        /// The directory.
        directory: u64,
    }
}

record! {
    /// A further name; it follows.
    Link = "log record: link", 16, {
        /// The directory.
        directory: u64,
        /// The object.
        object: u64,
    }
}

record! {
    /// Another name; both follow.
    Rename = "log record: rename", 16, {
        /// The directory that had it.
        source: u64,
        /// The directory that gets it.
        target: u64,
    }
}

record! {
    /// Another name, and a whiteout under the old one; both names follow.
    RenameWhiteout = "log record: rename with whiteout", 80, {
        /// The directory that had it.
        source: u64,
        /// The directory that gets it.
        target: u64,
        /// The object of the whiteout.
        object: u64,
        /// Its mode.
        mode: u64,
        /// Its owner.
        uid: u64,
        /// Its group.
        gid: u64,
        /// The transaction group that made it.
        generation: u64,
        /// When, in seconds and nanoseconds since 1970.
        created: [u64; 2],
        /// Its device number, 0.
        device: u64,
    }
}

record! {
    /// Bytes are written: they follow, or the pointer leads to them.
    Write = "log record: write", 160, {
        /// The file.
        object: u64,
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// Not used any more.
        block_offset: u64,
        /// The block that holds them, where none follow.
        pointer: BlockPointer,
    }
}

record! {
    /// Bytes are freed.
    Truncate = "log record: truncate", 24, {
        /// The file.
        object: u64,
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes; 0 up to the end.
        length: u64,
    }
}

record! {
    /// Attributes are set; further ones may follow.
    SetAttributes = "log record: set attributes", 80, {
        /// The object.
        object: u64,
        /// Which of them.
        mask: u64,
        /// The mode.
        mode: u64,
        /// The owner, or the project.
        uid: u64,
        /// The group.
        gid: u64,
        /// The size, in bytes.
        size: u64,
        /// Last read, in seconds and nanoseconds since 1970.
        accessed: [u64; 2],
        /// Last written, in seconds and nanoseconds since 1970.
        modified: [u64; 2],
    }
}

record! {
    /// A list of access of the older form is set; it follows.
    SetAclV0 = "log record: set old list of access", 16, {
        /// The object.
        object: u64,
        /// How many entries.
        entries: u64,
    }
}

record! {
    /// A list of access is set; it follows, and after it foreign ids and domains.
    SetAcl = "log record: set list of access", 48, {
        /// The object.
        object: u64,
        /// What follows.
        counts: AclCounts,
    }
}

record! {
    /// An extended attribute in the system attributes is set; its name and value follow. An empty value removes it.
    SetExtendedAttribute = "log record: set extended attribute", 16, {
        /// The object.
        object: u64,
        /// Bytes of the value.
        length: u64,
    }
}

record! {
    /// Blocks are cloned; their pointers follow.
    CloneRange = "log record: clone", 40, {
        /// The file.
        object: u64,
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// Bytes of the file's blocks.
        block_bytes: u64,
        /// How many pointers follow.
        pointers: u64,
    }
}

/// Optional attributes of a new object or of [`SetAttributes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalAttributes {
    /// Which are there, as a bitmap.
    pub bitmap: Vec<u32>,
    /// Attributes that are on or off.
    pub attributes: u64,
    /// When it was created, in seconds and nanoseconds since 1970.
    pub created: [u64; 2],
    /// A virus scanner's stamp, or the project's id in the first 8 bytes.
    pub stamp: [u8; 32],
}

impl OptionalAttributes {
    /// Takes them from the front of bytes, and says how many bytes they took.
    ///
    /// # Errors
    /// There are too few bytes, or the bitmap is too long.
    pub fn decode(
        bytes: &[u8],
        endian: Endian,
    ) -> Result<(OptionalAttributes, usize), FormatError> {
        let mut from = Reader::new("optional attributes", bytes, endian);
        let attributes = Self::read(&mut from)?;
        Ok((attributes, from.at()))
    }

    fn read(from: &mut Reader<'_>) -> Result<OptionalAttributes, FormatError> {
        let words = from.u32("bitmap")?;
        if words > ATTRIBUTE_WORDS_MAX {
            let (found, limit) = (words.into(), ATTRIBUTE_WORDS_MAX.into());
            return Err(from.wrong("bitmap", Problem::Limit { found, limit }));
        }
        let bitmap = (0..words).map(|_| from.get("bitmap")).collect::<Result<_, _>>()?;
        let attributes = from.u64("attributes")?;
        Ok(OptionalAttributes {
            bitmap,
            attributes,
            created: from.get("created")?,
            stamp: from.array("stamp")?,
        })
    }

    fn write(&self, to: &mut Writer) {
        to.put(self.bitmap.len() as u32);
        self.bitmap.iter().for_each(|word| to.put(*word));
        to.put(self.attributes);
        self.created.write(to);
        to.bytes(&self.stamp);
    }
}

/// How something is made, besides [`Create`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateExtras {
    /// Of a kind with attributes.
    pub attributes: Option<OptionalAttributes>,
    /// Of a kind with a list of access; the list is at the front of what follows.
    pub acl: Option<AclCounts>,
}

/// What makes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum CreateKind {
    File,
    Directory,
    AttributeDirectory,
    /// The target's text follows the name.
    SymbolicLink,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the structure of its name")]
pub enum Body {
    Create(CreateKind, Create, CreateExtras),
    Remove(Remove),
    RemoveDirectory(Remove),
    Link(Link),
    Rename(Rename),
    Write(Write),
    /// A write whose data was in its place already.
    Write2(Write),
    Truncate(Truncate),
    SetAttributes(SetAttributes),
    SetAclV0(SetAclV0),
    SetAcl(SetAcl),
    SetExtendedAttribute(SetExtendedAttribute),
    /// Two names change places.
    RenameExchange(Rename),
    RenameWhiteout(RenameWhiteout),
    CloneRange(CloneRange),
}

impl Body {
    /// Bytes of its fields.
    pub fn bytes(&self) -> usize {
        let mut fields = Writer::new(Endian::Little);
        write_body(self, &mut fields);
        fields.into_bytes().len()
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// The transaction group that holds it once it is whole.
    pub txg: u64,
    /// Counts the records of a log.
    pub sequence: u64,
    /// Names differ not by case alone.
    pub case_insensitive: bool,
    /// What it says.
    pub body: Body,
    /// What follows its fields.
    pub data: Vec<u8>,
}

impl LogRecord {
    /// Decodes the record at the front of these bytes, and says how many it took.
    ///
    /// # Errors
    /// There are too few bytes, its length can't be, or its kind is not known.
    pub fn decode(bytes: &[u8], endian: Endian) -> Result<(LogRecord, usize), FormatError> {
        let mut from = Reader::new(NAME, bytes, endian);
        let [kind, length, txg, sequence]: [u64; 4] = from.get("head")?;
        let len =
            usize::try_from(length).ok().filter(|len| (HEAD_BYTES..=bytes.len()).contains(len));
        let len = len.ok_or_else(|| from.wrong_at("length", 8, Problem::Value(length)))?;
        let mut from = Reader::new(NAME, bytes.get(..len).unwrap_or(bytes), endian);
        from.seek("fields", HEAD_BYTES)?;
        let case_insensitive = kind & CASE_INSENSITIVE != 0;
        let code = kind & !CASE_INSENSITIVE;
        let body = read_body(code, &mut from)?;
        let data = from.take("data", from.left())?.to_vec();
        if let Body::CloneRange(clone) = &body {
            let there = (data.len() / BlockPointer::BYTES) as u64;
            if clone.pointers > there {
                return Err(from.wrong_at(
                    "pointers",
                    HEAD_BYTES + 32,
                    Problem::Value(clone.pointers),
                ));
            }
        }
        Ok((LogRecord { txg, sequence, case_insensitive, body, data }, len))
    }

    /// Its bytes.
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut bytes = self.encode_before(self.data.len(), endian);
        bytes.extend_from_slice(&self.data);
        bytes
    }

    /// Its bytes but for its data: so many of them follow, from `data` or from where they are fetched.
    pub fn encode_before(&self, data_bytes: usize, endian: Endian) -> Vec<u8> {
        assert!(self.data.is_empty() || self.data.len() == data_bytes, "a record has one data");
        let mut fields = Writer::new(endian);
        let code = write_body(&self.body, &mut fields);
        let fields = fields.into_bytes();
        let mut to = Writer::new(endian);
        to.put(code | if self.case_insensitive { CASE_INSENSITIVE } else { 0 });
        to.put((HEAD_BYTES + fields.len() + data_bytes) as u64);
        to.put(self.txg);
        to.put(self.sequence);
        to.bytes(&fields);
        to.into_bytes()
    }

    /// The pointers of cloned blocks; none of another kind.
    ///
    /// # Errors
    /// There are fewer than it says.
    pub fn cloned(&self, endian: Endian) -> Result<Vec<BlockPointer>, FormatError> {
        let Body::CloneRange(clone) = &self.body else { return Ok(Vec::new()) };
        let mut from = Reader::new(CloneRange::NAME, &self.data, endian);
        let there = (self.data.len() / BlockPointer::BYTES) as u64;
        if clone.pointers > there {
            return Err(from.wrong("pointers", Problem::Short));
        }
        (0..clone.pointers).map(|_| from.get("pointer")).collect()
    }
}

/// The records of a block, in order.
///
/// # Errors
/// One can't be decoded.
pub fn records(bytes: &[u8], endian: Endian) -> Result<Vec<LogRecord>, FormatError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let (record, len) = LogRecord::decode(rest, endian)
            .map_err(|error| FormatError { offset: error.offset + at, ..error })?;
        found.push(record);
        at += len;
    }
    Ok(found)
}

/// Heads and pointers of the writes among records, which stand in the clear even where the rest is encrypted: sequence,
/// and the pointer to what was written. Other records are passed over.
///
/// # Errors
/// A record's length can't be.
pub fn written(bytes: &[u8], endian: Endian) -> Result<Vec<(u64, Write)>, FormatError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let mut from = Reader::new(NAME, rest, endian);
        let [kind, length, _, sequence]: [u64; 4] = from.get("head")?;
        let len =
            usize::try_from(length).ok().filter(|len| (HEAD_BYTES..=rest.len()).contains(len));
        let len = len.ok_or_else(|| from.wrong_at("length", at + 8, Problem::Value(length)))?;
        if kind & !CASE_INSENSITIVE == WRITE {
            found.push((sequence, from.get("fields")?));
        }
        at += len;
    }
    Ok(found)
}

/// Texts that end in a zero, one after another; what follows the last zero is left out.
pub fn strings(data: &[u8]) -> Vec<&[u8]> {
    let mut parts: Vec<&[u8]> = data.split(|byte| *byte == 0).collect();
    parts.pop();
    parts
}

fn read_body(code: u64, from: &mut Reader<'_>) -> Result<Body, FormatError> {
    const FIELD: &str = "fields";
    let (attributes, acl) = (matches!(code, 15 | 16 | 18 | 19), matches!(code, 14 | 16 | 17 | 19));
    Ok(match code {
        1..=4 | 14..=19 => {
            let kind = match code {
                2 | 17..=19 => CreateKind::Directory,
                3 => CreateKind::AttributeDirectory,
                4 => CreateKind::SymbolicLink,
                _ => CreateKind::File,
            };
            let create = from.get(FIELD)?;
            let acl = if acl { Some(from.get(FIELD)?) } else { None };
            let attributes = if attributes { Some(OptionalAttributes::read(from)?) } else { None };
            Body::Create(kind, create, CreateExtras { attributes, acl })
        }
        5 => Body::Remove(from.get(FIELD)?),
        6 => Body::RemoveDirectory(from.get(FIELD)?),
        7 => Body::Link(from.get(FIELD)?),
        8 => Body::Rename(from.get(FIELD)?),
        WRITE => Body::Write(from.get(FIELD)?),
        10 => Body::Truncate(from.get(FIELD)?),
        11 => Body::SetAttributes(from.get(FIELD)?),
        12 => Body::SetAclV0(from.get(FIELD)?),
        13 => Body::SetAcl(from.get(FIELD)?),
        20 => Body::Write2(from.get(FIELD)?),
        21 => Body::SetExtendedAttribute(from.get(FIELD)?),
        22 => Body::RenameExchange(from.get(FIELD)?),
        23 => Body::RenameWhiteout(from.get(FIELD)?),
        24 => Body::CloneRange(from.get(FIELD)?),
        other => return Err(from.wrong_at("kind", 0, Problem::Value(other))),
    })
}

/// Writes the fields, and says the kind's number.
fn write_body(body: &Body, to: &mut Writer) -> u64 {
    match body {
        Body::Create(kind, create, extras) => {
            create.write(to);
            if let Some(acl) = &extras.acl {
                acl.write(to);
            }
            if let Some(attributes) = &extras.attributes {
                attributes.write(to);
            }
            let directory = *kind == CreateKind::Directory;
            match (kind, extras.acl.is_some(), extras.attributes.is_some()) {
                (CreateKind::AttributeDirectory, ..) => 3,
                (CreateKind::SymbolicLink, ..) => 4,
                (_, false, false) => {
                    if directory {
                        2
                    } else {
                        1
                    }
                }
                (_, true, false) => {
                    if directory {
                        17
                    } else {
                        14
                    }
                }
                (_, false, true) => {
                    if directory {
                        18
                    } else {
                        15
                    }
                }
                (_, true, true) => {
                    if directory {
                        19
                    } else {
                        16
                    }
                }
            }
        }
        Body::Remove(fields) => put(fields, to, 5),
        Body::RemoveDirectory(fields) => put(fields, to, 6),
        Body::Link(fields) => put(fields, to, 7),
        Body::Rename(fields) => put(fields, to, 8),
        Body::Write(fields) => put(fields, to, WRITE),
        Body::Truncate(fields) => put(fields, to, 10),
        Body::SetAttributes(fields) => put(fields, to, 11),
        Body::SetAclV0(fields) => put(fields, to, 12),
        Body::SetAcl(fields) => put(fields, to, 13),
        Body::Write2(fields) => put(fields, to, 20),
        Body::SetExtendedAttribute(fields) => put(fields, to, 21),
        Body::RenameExchange(fields) => put(fields, to, 22),
        Body::RenameWhiteout(fields) => put(fields, to, 23),
        Body::CloneRange(fields) => put(fields, to, 24),
    }
}

fn put(fields: &impl Wire, to: &mut Writer, code: u64) -> u64 {
    fields.write(to);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_of_every_kind_encode_to_what_they_were(
            kind in 1u64..25, insensitive in any::<bool>(),
            body in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..400,
        ) {
            for endian in [Endian::Little, Endian::Big] {
                let mut bytes = Vec::new();
                let word = kind | if insensitive { CASE_INSENSITIVE } else { 0 };
                for word in [word, (HEAD_BYTES + body.len()) as u64, 7, 8] {
                    bytes.extend(endian.bytes(word));
                }
                bytes.extend(&body);
                if let Ok((record, len)) = LogRecord::decode(&bytes, endian) {
                    prop_assert_eq!(len, bytes.len());
                    prop_assert_eq!((record.txg, record.sequence), (7, 8));
                    prop_assert_eq!(record.case_insensitive, insensitive);
                    prop_assert_eq!(&record.encode(endian), &bytes);
                    let _ = record.cloned(endian);
                    let twice = [bytes.clone(), bytes.clone()].concat();
                    prop_assert_eq!(records(&twice, endian), Ok(vec![record.clone(), record]));
                } else {
                    // All fixed parts but those of optional attributes and clones fit into 160 bytes.
                    prop_assert!(body.len() < 160 || matches!(kind, 15 | 16 | 18 | 19 | 24));
                }
                prop_assert!(LogRecord::decode(&bytes[..cut.min(bytes.len() - 1)], endian).is_err());
            }
        }
    }

    #[test]
    fn an_unknown_kind_and_an_impossible_length_are_refused() {
        for (kind, length) in [(0, 32), (25, 32), (5, 31), (5, 41), (5, u64::MAX)] {
            let words = [kind, length, 0, 0, 0];
            let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
            assert!(LogRecord::decode(&bytes, Endian::Little).is_err());
        }
        assert_eq!(strings(b"old\0new\0rest"), [b"old".as_slice(), b"new"]);
    }

    #[test]
    fn optional_attributes_come_out_as_they_went_in() {
        let attributes = OptionalAttributes {
            bitmap: vec![1, 2, 3],
            attributes: 4,
            created: [5, 6],
            stamp: [7; 32],
        };
        let mut to = Writer::new(Endian::Little);
        attributes.write(&mut to);
        let bytes = to.into_bytes();
        // A head of 4 bytes, three words, and 56 bytes: what OpenZFS's size of it says.
        assert_eq!(bytes.len(), 72);
        assert_eq!(OptionalAttributes::decode(&bytes, Endian::Little), Ok((attributes, 72)));
        assert!(OptionalAttributes::decode(&[0xff; 400], Endian::Little).is_err());
    }
}
