//! The superblock: 4096 bytes at the start of the device, written once, when the file system is made.
//!
//! | at | what |
//! |---|---|
//! | 0 | magic, 8 bytes |
//! | 8 | version, u32 |
//! | 16 | capacity, u64: bytes of the device then |
//! | 24 | root inode, u64 |
//! | 32 | block; 40 group; 48 inode; 56 bytes per inode (0: chunks); 64 reservation; 72 section; 80 stripe unit (0: none); 88 stripe width; 96 journal: u64 each, bytes |
//! | 104 | mapping, directories, spread, allocation, journal form, journal place: u8 each |
//! | 4092 | CRC-32 of what precedes, u32 |
//!
//! All else that changes stands elsewhere: free space in the descriptors, the journal's state in its own
//! first unit.

use crate::layout::Shape;
use crate::settings::{
    Allocation, DirectoryForm, Inodes, JournalForm, JournalPlace, Mapping, Settings, Spread, Stripe,
};
use stdx::ByteCount;
use stdx::bytes::{FormatError, Problem, Reader, put};

/// Bytes of the superblock, whatever the block.
pub(crate) const SUPERBLOCK: usize = 4096;
const MAGIC: [u8; 8] = *b"SpndInPl";
const VERSION: u32 = 1;
const CRC_AT: usize = SUPERBLOCK - 4;

/// What a mount has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) settings: Settings,
    pub(crate) capacity: ByteCount,
    pub(crate) root: u64,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Superblock { settings, capacity, root } = self;
        let mut bytes = vec![0; SUPERBLOCK];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        let bytes_per_inode = match settings.inodes {
            Inodes::Tables { bytes_per_inode } => bytes_per_inode,
            Inodes::Chunks => ByteCount::ZERO,
        };
        let stripe = settings.stripe.unwrap_or(Stripe { unit: ByteCount::ZERO, width: 0 });
        let numbers = [
            capacity.bytes(),
            *root,
            settings.block.bytes(),
            settings.group.bytes(),
            settings.inode.bytes(),
            bytes_per_inode.bytes(),
            settings.reservation_max.bytes(),
            settings.section.bytes(),
            stripe.unit.bytes(),
            u64::from(stripe.width),
            settings.journal.bytes(),
        ];
        for (i, number) in numbers.into_iter().enumerate() {
            put(&mut bytes, 16 + 8 * i, &number.to_le_bytes());
        }
        let choices = [
            u8::from(settings.mapping == Mapping::Extents),
            u8::from(settings.directories == DirectoryForm::Hashed),
            match settings.spread {
                Spread::LeastDirectories => 0,
                Spread::Orlov => 1,
                Spread::Rotor => 2,
            },
            u8::from(settings.allocation == Allocation::AtWriteBack),
            u8::from(settings.journal_form == JournalForm::Ranges),
            u8::from(settings.journal_place == JournalPlace::Middle),
        ];
        put(&mut bytes, 104, &choices);
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        bytes
    }

    /// Reads it, and says where things lie.
    pub(crate) fn decode(
        bytes: &[u8],
        device: ByteCount,
    ) -> Result<(Superblock, Shape), FormatError> {
        let fields = Reader::little("superblock", bytes);
        fields.require(fields.slice("magic", 0, 8)? == MAGIC, "magic")?;
        fields.require(fields.get_at::<u32>("version", 8)? == VERSION, "version")?;
        let crc = crc32fast::hash(fields.slice("checksum", 0, CRC_AT)?);
        fields.require(fields.get_at::<u32>("checksum", CRC_AT)? == crc, "checksum")?;
        let size = |at, field| fields.get_at::<u64>(field, at).map(ByteCount);
        let choice = |at: usize, field, choices: u8| {
            let choice = fields.get_at::<u8>(field, at)?;
            fields.require(choice < choices, field).map(|()| choice)
        };
        let capacity = size(16, "capacity")?;
        fields.require(capacity <= device, "capacity")?;
        let bytes_per_inode = size(56, "bytes per inode")?;
        let unit = size(80, "stripe unit")?;
        let width = u32::try_from(fields.get_at::<u64>("stripe width", 88)?);
        let width = width.map_err(|_| fields.wrong("stripe width", Problem::Unsound))?;
        let settings = Settings {
            block: size(32, "block")?,
            group: size(40, "group")?,
            inode: size(48, "inode")?,
            inodes: if bytes_per_inode.is_zero() {
                Inodes::Chunks
            } else {
                Inodes::Tables { bytes_per_inode }
            },
            mapping: [Mapping::Indirect, Mapping::Extents][choice(104, "mapping", 2)? as usize],
            directories: [DirectoryForm::Linear, DirectoryForm::Hashed]
                [choice(105, "directories", 2)? as usize],
            spread: [Spread::LeastDirectories, Spread::Orlov, Spread::Rotor]
                [choice(106, "spread", 3)? as usize],
            allocation: [Allocation::AtWrite, Allocation::AtWriteBack]
                [choice(107, "allocation", 2)? as usize],
            reservation_max: size(64, "reservation")?,
            section: size(72, "section")?,
            stripe: (!unit.is_zero()).then_some(Stripe { unit, width }),
            journal: size(96, "journal")?,
            journal_form: [JournalForm::Blocks, JournalForm::Ranges]
                [choice(108, "journal form", 2)? as usize],
            journal_place: [JournalPlace::Start, JournalPlace::Middle]
                [choice(109, "journal place", 2)? as usize],
        };
        let shape = Shape::of(&settings, capacity)
            .map_err(|_| fields.wrong("settings", Problem::Unsound))?;
        let root = fields.get_at::<u64>("root inode", 24)?;
        fields.require(shape.inode_place(root).is_some(), "root inode")?;
        Ok((Superblock { settings, capacity, root }, shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;
    use proptest::prelude::*;

    fn sample(preset: Preset) -> (Superblock, Shape) {
        let capacity = ByteCount::gib(10);
        let stripe = Some(Stripe { unit: ByteCount::kib(64), width: 3 });
        let settings = preset.settings(capacity, stripe);
        let shape = Shape::of(&settings, capacity).expect("it fits");
        let root = shape.table_start(0) * shape.inodes_per_block();
        (Superblock { settings, capacity, root }, shape)
    }

    #[test]
    fn what_is_written_is_read() {
        for preset in Preset::ALL {
            let (superblock, shape) = sample(preset);
            let read = Superblock::decode(&superblock.encode(), superblock.capacity);
            assert_eq!(read, Ok((superblock, shape)));
        }
    }

    proptest! {
        /// A superblock that passes its checksum with nonsense in it, as a bug would write it.
        #[test]
        fn any_bytes_are_read_or_refused_and_nothing_panics(at in 8_usize..120, value: u64, preset in 0_usize..4) {
            let (superblock, _) = sample(Preset::ALL[preset]);
            let mut bytes = superblock.encode();
            put(&mut bytes, at, &value.to_le_bytes());
            let spoilt = Superblock::decode(&bytes, superblock.capacity);
            prop_assert!(spoilt.is_err() || bytes == superblock.encode());
            let crc = crc32fast::hash(&bytes[..CRC_AT]);
            put(&mut bytes, CRC_AT, &crc.to_le_bytes());
            let _ = Superblock::decode(&bytes, superblock.capacity);
        }
    }
}
