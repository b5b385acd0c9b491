//! The label of a physical volume, and the header it points to.
//!
//! ```text
//!   0   "LABELONE"          label header, 32 B, at the start of one of the first four sectors
//!   8   sector number       which of them
//!   16  checksum            of the sector from byte 20 on
//!   20  offset              of the content, from the label's start
//!   24  "LVM2 001"
//!   +0  identity            32 letters
//!   +32 size of the device
//!   +40 data areas          pairs of offset and size, up to a pair of zeros; size 0 is "to the end"
//!       metadata areas      likewise
//!       extension           version, flags, boot loader areas: kept out of here
//! ```

use crate::lvm::{SECTOR, checksum};
use std::fmt;
use std::str::FromStr;
use stdx::bytes::{FormatError, Problem, Reader};

/// A label lies in one of the first so many sectors.
pub const LABEL_SECTORS: u64 = 4;
/// What a label begins with.
pub(super) const SIGNATURE: &[u8; 8] = b"LABELONE";
/// Pairs in a list of areas at the most; two fit before the sector's end, as a rule there is one.
const AREAS_MAX: usize = 8;
/// Of the text of an identity.
const ID_LEN: usize = 32;
/// The letters of an identity.
const ID_LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#";
/// Where LVM groups an identity's letters with hyphens.
const ID_GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];
/// Of the label header.
const HEADER_BYTES: usize = 32;
/// Where its checksum begins to cover.
const COVERED_FROM: usize = 20;
/// The extension's version that says: in use.
const EXTENSION_VERSION: u32 = 2;
/// The extension's flag: the physical volume belongs to a group.
const EXTENSION_USED: u32 = 1;

/// An identity: 32 letters, written with hyphens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id([u8; ID_LEN]);

impl Id {
    /// An identity of these random numbers.
    pub fn random(mut next: impl FnMut() -> u64) -> Id {
        // The last two letters are not used by LVM itself when it makes one.
        let letters = ID_LETTERS.len() as u64 - 2;
        Id(std::array::from_fn(|_| ID_LETTERS[(next() % letters) as usize]))
    }

    fn of(bytes: &[u8]) -> Option<Id> {
        let letters: [u8; ID_LEN] = bytes.try_into().ok()?;
        letters.iter().all(|letter| ID_LETTERS.contains(letter)).then_some(Id(letters))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        for (number, len) in ID_GROUPS.into_iter().enumerate() {
            if number > 0 {
                f.write_str("-")?;
            }
            f.write_str(&String::from_utf8_lossy(&self.0[at..at + len]))?;
            at += len;
        }
        Ok(())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Id {
    type Err = ();
    fn from_str(text: &str) -> Result<Id, ()> {
        let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'-').collect();
        Id::of(&letters).ok_or(())
    }
}

/// An area of a physical volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Where it begins, in bytes.
    pub start: u64,
    /// How long it is, in bytes; 0 is "to the end".
    pub len: u64,
}

/// A physical volume's own description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Which physical volume it is.
    pub id: Id,
    /// How large its device was when it was made, in bytes.
    pub device_bytes: u64,
    /// Where data may lie.
    pub data: Vec<Area>,
    /// Where metadata lies.
    pub metadata: Vec<Area>,
}

impl Label {
    /// The label in a sector; `None` where there is none.
    ///
    /// # Errors
    /// Where there is one that is damaged.
    pub fn decode(sector: &[u8], number: u64) -> Result<Option<Label>, FormatError> {
        let fields = Reader::little("LVM label", sector);
        if fields.slice("signature", 0, 8)? != SIGNATURE {
            return Ok(None);
        }
        let covered = fields.slice("label", 0, SECTOR as usize)?;
        if checksum(&covered[COVERED_FROM..]) != fields.get_at::<u32>("checksum", 16)? {
            return Err(fields.wrong_at("checksum", 16, Problem::Checksum));
        }
        let own = fields.get_at::<u64>("sector", 8)?;
        if own != number {
            return Err(fields.wrong_at("sector", 8, Problem::Value(own)));
        }
        fields.magic_at("type", 24, b"LVM2 001")?;
        let at = fields.get_at::<u32>("offset", 20)? as usize;
        let id = Id::of(fields.slice("identity", at, ID_LEN)?);
        let id = id.ok_or_else(|| fields.wrong_at("identity", at, Problem::Text))?;
        let device_bytes = fields.get_at::<u64>("device size", at.saturating_add(32))?;
        let mut next = at + 40;
        let mut areas = |field| -> Result<Vec<Area>, FormatError> {
            let mut areas = Vec::new();
            loop {
                let area = Area {
                    start: fields.get_at::<u64>(field, next)?,
                    len: fields.get_at::<u64>(field, next + 8)?,
                };
                next += 16;
                match area.start {
                    0 => return Ok(areas),
                    _ if areas.len() == AREAS_MAX => {
                        return Err(fields.wrong_at(
                            field,
                            next,
                            Problem::Value(AREAS_MAX as u64 + 1),
                        ));
                    }
                    _ => areas.push(area),
                }
            }
        };
        let (data, metadata) = (areas("data areas")?, areas("metadata areas")?);
        Ok(Some(Label { id, device_bytes, data, metadata }))
    }

    /// The sector with the label; its number is `number`.
    pub fn encode(&self, number: u64) -> [u8; SECTOR as usize] {
        let mut body = Vec::new();
        body.extend_from_slice(&self.id.0);
        body.extend_from_slice(&self.device_bytes.to_le_bytes());
        for areas in [&self.data, &self.metadata] {
            for area in areas.iter().chain([&Area { start: 0, len: 0 }]) {
                body.extend_from_slice(&area.start.to_le_bytes());
                body.extend_from_slice(&area.len.to_le_bytes());
            }
        }
        body.extend_from_slice(&EXTENSION_VERSION.to_le_bytes());
        body.extend_from_slice(&EXTENSION_USED.to_le_bytes());
        let mut sector = [0; SECTOR as usize];
        sector[..8].copy_from_slice(SIGNATURE);
        sector[8..16].copy_from_slice(&number.to_le_bytes());
        sector[20..24].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        sector[24..32].copy_from_slice(b"LVM2 001");
        // What is made here has one area of each kind, so it fits.
        sector[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(&body);
        let sum = checksum(&sector[COVERED_FROM..]);
        sector[16..20].copy_from_slice(&sum.to_le_bytes());
        sector
    }
}
