//! Writes whose record leads to the block, which is in its place already (`WR_INDIRECT`).
//!
//! ```text
//!   logbias=throughput                     each write
//!   no log devices, 32 KiB and more        of a file; of a volume whole blocks of more than that
//!   anything else                          the record has the bytes
//! ```
//!
//! The block is written as its dataset stores it, in the open group; when that syncs and the block is what it was, its pointer is
//! put into the tree, and nothing is written twice ([`EarlyBlocks`](crate::dmu::EarlyBlocks)). What can't be written so (the block is
//! of a group that is closed, or zeros; there is little room) goes into the log as bytes.
//!
//! **No two records lead to one block**: who claims would claim it twice. Where the log leads to the very bytes already, and nothing
//! came behind that could change them, a record without a pointer says how far the file goes (`TX_WRITE2`). Else it is written again.
//!
//! Source: OpenZFS, `zfs_log.c` (`zfs_log_write`), `zvol.c` (`zvol_log_write`), `dmu.c` (`dmu_sync`).

use crate::dmu::{Dnode, Objset, Policy, TxGroups};
use crate::error::ZfsError;
use std::rc::Rc;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::objset::ObjsetKind;
use zfs_store::{IoClass, WriteBlock, Writer};

/// Bytes from which on a write is not put into the log: OpenZFS's `zfs_immediate_write_sz`.
const WRITE_BYTES_MIN: u64 = 32 << 10;
/// What a vdev makes of a byte at the most: three parities of one sector.
const GROWTH_MAX: u64 = 4;

/// How a dataset's blocks are stored, and for what its log is written.
#[derive(Clone)]
pub struct Stored {
    /// As what.
    pub policy: Rc<Policy>,
    /// The log is to be short, whatever that takes (`logbias=throughput`).
    pub throughput: bool,
}

/// Where the block of a write is.
pub(super) enum Written {
    /// There: no record leads to it yet.
    Now(BlockPointer),
    /// Where a record leads to, behind which there are only such: one of its own would lead there again.
    Before,
}

impl Stored {
    /// Whether a write of so many bytes is logged by its blocks.
    pub(super) fn is_indirect(
        &self,
        objset: &Objset,
        writer: &Writer,
        len: u64,
        block: u64,
    ) -> bool {
        let is_long = match objset.root().kind {
            ObjsetKind::Volume => block > WRITE_BYTES_MIN && len >= block,
            _ => len >= WRITE_BYTES_MIN,
        };
        self.throughput || is_long && !writer.has_log_device()
    }

    /// Writes a block as the open context has it, unless it was already and the log still leads there; nothing where it can't be done.
    ///
    /// # Errors
    /// The devices don't take it.
    pub(super) async fn write(
        &self,
        (objset, dnode, number): (&Objset, &Dnode, u64),
        writer: &Writer,
        groups: &TxGroups,
        is_led_to: impl Fn(&BlockPointer) -> bool,
    ) -> Result<Option<Written>, ZfsError> {
        let open = groups.open();
        let Some(block) = dnode.changed_in(open, number) else { return Ok(None) };
        let (place, len) = ((dnode.number(), number), block.bytes.len() as u64);
        if objset.early().find(open, place, &block.bytes).is_some_and(|known| is_led_to(&known)) {
            return Ok(Some(Written::Before));
        }
        let needed = groups.dirty_bytes().saturating_add(len).saturating_mul(GROWTH_MAX);
        if needed > writer.unreserved() {
            return Ok(None);
        }
        let phys = dnode.phys();
        let mut how = self.policy.of(&phys, phys.object_type, 0, len);
        how.props.endian = block.endian;
        // A log can't lead to what stands in a pointer.
        how.props.embed = false;
        let write = WriteBlock {
            bytes: block.bytes.clone(),
            props: how.props,
            copies: how.copies,
            class: how.class,
            txg: open.0,
            io: IoClass::SyncWrite,
            rewrites: None,
        };
        let still = || groups.open() == open;
        let written = writer.write_while(write, still).await;
        let written = written.map_err(|error| dnode.write_failed(error))?;
        let Some(mut pointer) = written.filter(|pointer| !pointer.is_hole()) else {
            return Ok(None);
        };
        pointer.set_fill(1);
        match still() {
            true => objset.early().add(open, place, block.bytes, pointer),
            // Its group closed meanwhile, and writes it by itself.
            false => writer.free_late(&pointer),
        }
        Ok(Some(Written::Now(pointer)))
    }
}
