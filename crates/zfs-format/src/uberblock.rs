//! Uberblocks: the root of everything, written last in each transaction group.
//!
//! ```text
//!   0    magic number 0x00bab10c, version, transaction group, sum of the GUIDs of all vdevs, time
//!   40   block pointer to the MOS
//!   168  version of the software
//!   176  multi-modifier protection: magic number, delay, settings
//!   200  transaction group of a checkpoint, 0 if it is none
//!   208  how far an expansion of a raidz came
//! ```
//!
//! A ring in each [label](crate::label) holds them; the best is the one of the highest transaction group, then
//! time, then MMP sequence. Older software wrote less: the rest of its slot is zero, so each field after the
//! pointer means *none* when it is zero.
//!
//! Source: OpenZFS, `uberblock_impl.h`, `vdev_label.c`.

use crate::block_pointer::BlockPointer;
use crate::wire::{Endian, Reader, Record, record};
use std::cmp::Ordering;
use stdx::bytes::{FormatError, Problem};

/// The first word.
pub const MAGIC: u64 = 0x00ba_b10c;
/// The first word of the part about multi-modifier protection.
pub const MMP_MAGIC: u64 = 0xa11c_ea11;
/// The highest pool version before feature flags.
pub const VERSION_BEFORE_FEATURES: u64 = 28;
/// The version of pools with feature flags.
pub const VERSION_FEATURES: u64 = 5000;

record! {
    /// An uberblock.
    Uberblock = "uberblock", 216, {
        /// [`MAGIC`].
        magic: u64,
        /// Version of the pool: 1 to 28, or 5000.
        version: u64,
        /// The transaction group that it ends.
        txg: u64,
        /// Sum of the GUIDs of all vdevs, modulo 2⁶⁴: whether all are there.
        guid_sum: u64,
        /// When it was written, in seconds since 1970.
        timestamp: u64,
        /// The MOS.
        root: BlockPointer,
        /// The highest version that the software knew.
        software_version: u64,
        /// [`MMP_MAGIC`], or 0 where the software knew no MMP.
        mmp_magic: u64,
        /// Nanoseconds since the last write of MMP's; 0 where it is off.
        mmp_delay: u64,
        /// See [`Uberblock::mmp`].
        mmp_config: u64,
        /// The transaction group of a checkpoint, in a checkpoint's own uberblock.
        checkpoint_txg: u64,
        /// See [`Uberblock::raidz_reflow`].
        raidz_reflow_info: u64,
    }
}

/// What multi-modifier protection says. `None` where a part is not stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmp {
    /// Nanoseconds since the last write; 0 where it is off.
    pub delay_ns: u64,
    /// Between two writes to one leaf, in milliseconds.
    pub interval_ms: Option<u32>,
    /// Counts writes within a second.
    pub sequence: Option<u16>,
    /// After how many intervals without a write the writer stops itself; 0 for never.
    pub fail_intervals: Option<u16>,
}

/// How far an expansion of a raidz came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaidzReflow {
    /// Bytes of the vdev that have moved.
    pub offset: u64,
    /// What the scratch area holds: 0 not in use, 1 valid, 2 copied back, 3 copied back at import,
    /// 4 copied back and reflow going on.
    pub scratch: u16,
}

impl Uberblock {
    /// Decodes one from the start of its slot, in whichever order it is.
    ///
    /// # Errors
    /// It is too short or has another magic number.
    pub fn from_slot(slot: &[u8]) -> Result<(Uberblock, Endian), FormatError> {
        let mut from = Reader::new(Uberblock::NAME, slot, Endian::Little);
        let magic = from.array("magic")?;
        let endian = Endian::of_magic(magic, MAGIC)
            .ok_or_else(|| from.wrong_at("magic", 0, Problem::Magic(u64::from_le_bytes(magic))))?;
        let uberblock = Uberblock::decode(slot, endian)?;
        let (version, root) = (uberblock.version, &uberblock.root);
        if !(1..=VERSION_BEFORE_FEATURES).contains(&version) && version != VERSION_FEATURES {
            return Err(from.wrong_at("version", 8, Problem::Version(version)));
        }
        root.check().map_err(|error| FormatError {
            structure: Uberblock::NAME,
            offset: error.offset + 40,
            ..error
        })?;
        Ok((uberblock, endian))
    }

    /// What multi-modifier protection says; nothing where the software knew none.
    pub fn mmp(&self) -> Option<Mmp> {
        if self.mmp_magic != MMP_MAGIC {
            return None;
        }
        let word = self.mmp_config;
        let stated = |bit: u64| word & bit != 0;
        Some(Mmp {
            delay_ns: self.mmp_delay,
            interval_ms: stated(1).then_some((word >> 8) as u32 & 0x00ff_ffff),
            sequence: stated(2).then_some((word >> 32) as u16),
            fail_intervals: stated(4).then_some((word >> 48) as u16),
        })
    }

    /// States multi-modifier protection. Intervals beyond 2²⁴ ms stay the longest.
    pub fn set_mmp(&mut self, mmp: Mmp) {
        let interval = mmp.interval_ms.map_or(0, |ms| u64::from(ms.min(0x00ff_ffff)) << 8 | 1);
        let sequence = mmp.sequence.map_or(0, |n| u64::from(n) << 32 | 2);
        let fail = mmp.fail_intervals.map_or(0, |n| u64::from(n) << 48 | 4);
        self.mmp_magic = MMP_MAGIC;
        self.mmp_delay = mmp.delay_ns;
        self.mmp_config = interval | sequence | fail;
    }

    /// How far an expansion of a raidz came; zeros where there is none.
    pub fn raidz_reflow(&self) -> RaidzReflow {
        let sectors = self.raidz_reflow_info & (u64::MAX >> 9);
        RaidzReflow { offset: sectors << 9, scratch: (self.raidz_reflow_info >> 55) as u16 }
    }

    /// States how far an expansion of a raidz came; the offset in whole sectors of 512 bytes.
    pub fn set_raidz_reflow(&mut self, reflow: RaidzReflow) {
        self.raidz_reflow_info = reflow.offset >> 9 | u64::from(reflow.scratch) << 55;
    }

    /// Which of two is the better root: the greater one.
    pub fn newer(&self, other: &Uberblock) -> Ordering {
        let sequence = |of: &Uberblock| of.mmp().and_then(|mmp| mmp.sequence).unwrap_or(0);
        let key = |of: &Uberblock| (of.txg, of.timestamp, sequence(of));
        key(self).cmp(&key(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Wire;

    #[test]
    fn the_fields_are_where_the_format_has_them() {
        crate::wire::checks::holds_for_any_bytes::<Uberblock>();
        let words: Vec<u8> = (0..27u64).flat_map(u64::to_le_bytes).collect();
        let block = Uberblock::decode(&words, Endian::Little).expect("27 words");
        assert_eq!((block.txg, block.timestamp, block.root.words[0]), (2, 4, 5));
        assert_eq!((block.software_version, block.mmp_magic), (21, 22));
        assert_eq!((block.checkpoint_txg, block.raidz_reflow_info), (25, 26));
        assert_eq!(Uberblock::BYTES, 216);
    }

    #[test]
    fn the_magic_number_shows_the_order() {
        let mut block = Uberblock::decode(&[0; 216], Endian::Little).expect("zeros");
        assert!(Uberblock::from_slot(&block.encode(Endian::Little)).is_err());
        block.magic = MAGIC;
        block.version = VERSION_FEATURES;
        block.txg = 7;
        for endian in [Endian::Little, Endian::Big] {
            let slot = block.encode(endian);
            assert_eq!(Uberblock::from_slot(&slot), Ok((block.clone(), endian)));
        }
        block.version = 29;
        let error = Uberblock::from_slot(&block.encode(Endian::Little)).expect_err("no version");
        assert_eq!(error.problem, Problem::Version(29));
    }

    #[test]
    fn protection_and_reflow_come_out_as_they_went_in() {
        let mut block = Uberblock::decode(&[0; 216], Endian::Little).expect("zeros");
        assert_eq!(block.mmp(), None);
        let mmp = Mmp {
            delay_ns: 5,
            interval_ms: Some(1000),
            sequence: Some(3),
            fail_intervals: Some(10),
        };
        block.set_mmp(mmp);
        assert_eq!(block.mmp(), Some(mmp));
        assert_eq!(block.mmp_config, 0x000a_0003_0003_e807);
        let reflow = RaidzReflow { offset: 0x7e00, scratch: 4 };
        block.set_raidz_reflow(reflow);
        assert_eq!(block.raidz_reflow(), reflow);
        let mut later = block.clone();
        later.set_mmp(Mmp { sequence: Some(4), ..mmp });
        assert_eq!(later.newer(&block), Ordering::Greater);
    }
}
