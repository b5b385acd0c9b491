//! Meta blocks of a write journal: what lies in the blocks behind them.
//!
//! A journal is a ring of blocks of 4 KiB in the data area of a device of its own. A meta block lists payloads;
//! their blocks follow it in the same order, around the end of the ring where it comes to that. The superblock of
//! the journal's device names the block with which the log begins (`recovery_offset`, the tail).
//!
//! ```text
//! byte 0   magic 6433c509   4 checksum u32   8 version u8 = 1   9 zero, 3 bytes   12 bytes used u32
//!      16  sequence u64     24 position u64: this block's own sector in the ring
//!      32  payloads:
//!          0 type u16   2 flags u16   4 size u32
//!          data (0), parity (1): size is sectors; 8 location u64; 16 a checksum u32 for each block
//!          flush (2): size is bytes; 8 stripes' sectors u64
//! ```
//!
//! A data's location is a sector of the array, a parity's and a flush's one of the members. Sequences grow by one
//! from block to block. Checksums are CRC-32C that goes on from the one of the set's UUID, not inverted at the
//! end; a meta block's own counts as zero in it. Source: Linux `include/uapi/linux/raid/md_p.h`, `drivers/md/raid5-cache.c`.

use crate::superblock::Uuid;
use stdx::bytes::{FormatError, Problem, Reader, put};

/// What errors call it.
const STRUCTURE: &str = "journal meta block";

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of a block.
pub const BLOCK_SECTORS: u64 = 8;
const MAGIC: u32 = 0x6433_c509;
const CHECKSUM_AT: usize = 4;
const PAYLOADS_AT: usize = 32;
/// Bytes of a payload of data or parity before its checksums.
const PAYLOAD_BYTES: usize = 16;

/// What follows a meta block, or what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// One block of data.
    Data {
        /// Sector of the array.
        sector: u64,
        /// Of the block.
        checksum: u32,
    },
    /// The parity of a stripe: one block, or two.
    Parity {
        /// Sector of the members' data areas.
        sector: u64,
        /// Of P's block.
        p: u32,
        /// Of Q's block.
        q: Option<u32>,
    },
    /// These stripes are on the members.
    Flush {
        /// Sectors of the members' data areas.
        sectors: Vec<u64>,
    },
}

impl Payload {
    /// Bytes in the meta block.
    pub fn bytes(&self) -> usize {
        match self {
            Payload::Data { .. } | Payload::Parity { q: None, .. } => PAYLOAD_BYTES + 4,
            Payload::Parity { .. } => PAYLOAD_BYTES + 8,
            Payload::Flush { sectors } => 8 + 8 * sectors.len(),
        }
    }

    /// Blocks that follow the meta block for it.
    pub fn blocks(&self) -> u64 {
        match self {
            Payload::Data { .. } | Payload::Parity { q: None, .. } => 1,
            Payload::Parity { .. } => 2,
            Payload::Flush { .. } => 0,
        }
    }
}

/// A meta block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaBlock {
    /// Grows by one from block to block.
    pub sequence: u64,
    /// Where it lies, in sectors from the start of the ring.
    pub position: u64,
    /// What it lists.
    pub payloads: Vec<Payload>,
}

/// Goes on with a CRC-32C that is not inverted at its end, as the crate has it.
fn go_on(state: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!state, bytes)
}

/// What the checksums of a set's journal go on from.
pub fn seed(set: Uuid) -> u32 {
    go_on(!0, &set.0)
}

/// The checksum of a block.
pub fn checksum(seed: u32, block: &[u8]) -> u32 {
    go_on(seed, block)
}

impl MetaBlock {
    /// Whether another payload fits.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used() + bytes <= BLOCK_BYTES
    }

    /// Blocks that follow.
    pub fn blocks(&self) -> u64 {
        self.payloads.iter().map(Payload::blocks).sum()
    }

    fn used(&self) -> usize {
        PAYLOADS_AT + self.payloads.iter().map(Payload::bytes).sum::<usize>()
    }

    /// Reads a meta block.
    ///
    /// # Errors
    /// Which field is wrong, and how. Only [`Problem::Magic`] and [`Problem::Checksum`] can be the end of a log;
    /// any other is in a block that was written so.
    pub fn decode(bytes: &[u8], seed: u32) -> Result<MetaBlock, FormatError> {
        let fields = Reader::little(STRUCTURE, bytes);
        fields.magic_at("magic", 0, &MAGIC.to_le_bytes())?;
        let whole: [u8; BLOCK_BYTES] = fields.array_at("block", 0)?;
        let found = fields.get_at::<u32>("checksum", CHECKSUM_AT)?;
        let before = go_on(seed, &whole[..CHECKSUM_AT]);
        let computed = go_on(go_on(before, &[0; 4]), &whole[CHECKSUM_AT + 4..]);
        if found != computed {
            let problem = Problem::Sum { found, computed };
            return Err(fields.wrong_at("checksum", CHECKSUM_AT, problem));
        }
        let version = fields.get_at::<u8>("version", 8)?;
        fields.within("version", 8, u64::from(version), 1, 1)?;
        let used = fields.get_at::<u32>("meta_size", 12)?;
        let most = BLOCK_BYTES as u64;
        fields.within("meta_size", 12, u64::from(used), PAYLOADS_AT as u32, most)?;
        let (mut payloads, mut at) = (Vec::new(), PAYLOADS_AT);
        while at < used as usize {
            let payload = payload(&fields, at)?;
            at += payload.bytes();
            payloads.push(payload);
        }
        fields.within("meta_size", 12, at as u64, used, u64::from(used))?;
        let position = fields.get_at::<u64>("position", 24)?;
        Ok(MetaBlock { sequence: fields.get_at::<u64>("seq", 16)?, position, payloads })
    }

    /// Writes a meta block.
    ///
    /// # Panics
    /// With more payloads than fit: who adds one asks [`has_room`](Self::has_room) first.
    pub fn encode(&self, seed: u32) -> Vec<u8> {
        assert!(self.used() <= BLOCK_BYTES, "the payloads fit a block");
        let mut bytes = vec![0; BLOCK_BYTES];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        bytes[8] = 1;
        put(&mut bytes, 12, &(self.used() as u32).to_le_bytes());
        put(&mut bytes, 16, &self.sequence.to_le_bytes());
        put(&mut bytes, 24, &self.position.to_le_bytes());
        let mut at = PAYLOADS_AT;
        for payload in &self.payloads {
            let (kind, size) = match payload {
                Payload::Data { .. } => (0_u16, BLOCK_SECTORS as u32),
                Payload::Parity { .. } => (1, (payload.blocks() * BLOCK_SECTORS) as u32),
                Payload::Flush { sectors } => (2, 8 * sectors.len() as u32),
            };
            put(&mut bytes, at, &kind.to_le_bytes());
            put(&mut bytes, at + 4, &size.to_le_bytes());
            match payload {
                Payload::Data { sector, checksum } => {
                    put(&mut bytes, at + 8, &sector.to_le_bytes());
                    put(&mut bytes, at + 16, &checksum.to_le_bytes());
                }
                Payload::Parity { sector, p, q } => {
                    put(&mut bytes, at + 8, &sector.to_le_bytes());
                    put(&mut bytes, at + 16, &p.to_le_bytes());
                    if let Some(q) = q {
                        put(&mut bytes, at + 20, &q.to_le_bytes());
                    }
                }
                Payload::Flush { sectors } => {
                    for (n, sector) in sectors.iter().enumerate() {
                        put(&mut bytes, at + 8 + 8 * n, &sector.to_le_bytes());
                    }
                }
            }
            at += payload.bytes();
        }
        let sum = checksum(seed, &bytes);
        put(&mut bytes, CHECKSUM_AT, &sum.to_le_bytes());
        bytes
    }
}

fn payload(fields: &Reader<'_>, at: usize) -> Result<Payload, FormatError> {
    let (kind, size) = (fields.get_at::<u16>("type", at)?, fields.get_at::<u32>("size", at + 4)?);
    let blocks = |most: u64| {
        let found = u64::from(size);
        fields.within("size", at + 4, found, BLOCK_SECTORS as u32, most * BLOCK_SECTORS)?;
        fields.within("size", at + 4, found % BLOCK_SECTORS, 0, 0)?;
        Ok(found / BLOCK_SECTORS)
    };
    match kind {
        0 => {
            blocks(1)?;
            let sector = fields.get_at::<u64>("location", at + 8)?;
            Ok(Payload::Data { sector, checksum: fields.get_at::<u32>("checksum", at + 16)? })
        }
        1 => {
            let q = blocks(2)? == 2;
            let (sector, p) = (
                fields.get_at::<u64>("location", at + 8)?,
                fields.get_at::<u32>("checksum", at + 16)?,
            );
            let q = q.then(|| fields.get_at::<u32>("checksum", at + 20)).transpose()?;
            Ok(Payload::Parity { sector, p, q })
        }
        2 => {
            let most = (BLOCK_BYTES - PAYLOADS_AT) as u64;
            fields.within("size", at + 4, u64::from(size), 0, most)?;
            fields.within("size", at + 4, u64::from(size % 8), 0, 0)?;
            let sectors = (0..size as usize / 8)
                .map(|n| fields.get_at::<u64>("flush_stripes", at + 8 + 8 * n));
            Ok(Payload::Flush { sectors: sectors.collect::<Result<_, _>>()? })
        }
        other => {
            let problem = Problem::Range { found: u64::from(other), least: 0, most: 2 };
            Err(fields.wrong_at("type", at, problem))
        }
    }
}
